//! Flags as LevelDB takes them, and ours.

use super::*;

fn parse(line: &str) -> Result<Flags, Refused> {
    let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    Flags::parse(&arguments)
}

#[test]
fn defaults_are_those_of_leveldb() {
    let flags = parse("").unwrap();
    assert_eq!(flags.benchmarks.split(',').count(), 19, "18 and an empty one behind the comma");
    assert_eq!((flags.num, flags.reads(), flags.threads()), (1_000_000, 1_000_000, 1));
    assert_eq!(flags.write_buffer_size, 4 << 20);
    assert_eq!(flags.max_file_size, 2 << 20);
    assert_eq!((flags.block_size, flags.open_files), (4096, 1000));
    assert_eq!((flags.cache_size, flags.bloom_bits), (-1, -1));
    assert!(flags.compression && !flags.histogram && !flags.use_existing_db);
    assert!(flags.db.ends_with("dbbench"));
}

#[test]
fn every_flag_is_taken() {
    let flags = parse(
        "--benchmarks=a,b --compression_ratio=0.25 --histogram=1 --comparisons=1 \
         --use_existing_db=1 --reuse_logs=1 --compression=0 --num=5 --reads=7 --threads=2 \
         --value_size=10 --write_buffer_size=1 --max_file_size=2 --block_size=3 \
         --key_prefix=4 --cache_size=5 --bloom_bits=6 --open_files=8 --db=/tmp/a=b",
    )
    .unwrap();
    assert_eq!(flags.benchmarks, "a,b");
    assert_eq!(flags.compression_ratio, 0.25);
    assert!(flags.histogram && flags.comparisons && flags.use_existing_db && flags.reuse_logs);
    assert!(!flags.compression);
    assert_eq!((flags.num, flags.reads(), flags.threads(), flags.value_size), (5, 7, 2, 10));
    assert_eq!((flags.write_buffer_size, flags.max_file_size, flags.block_size), (1, 2, 3));
    assert_eq!((flags.key_prefix, flags.cache_size, flags.bloom_bits), (4, 5, 6));
    assert_eq!((flags.open_files, flags.db), (8, PathBuf::from("/tmp/a=b")));
}

#[test]
fn what_leveldb_refuses_is_refused() {
    for line in [
        "num=5",
        "--num",
        "--num=",
        "--num=5x",
        "--histogram=2",
        "--histogram=yes",
        "--unknown=1",
        "-n",
        "--key_prefix=1008",
        "--compression_ratio=half",
        "--engine=rocksdb",
        "--engine=leveldb:",
        "--runs=0",
        "--rate=0",
        "--rate=inf",
        "--rate=NaN",
        "--distribution=normal",
        "--against=nothing",
        "--threads=99999999999",
    ] {
        assert_eq!(parse(line).err(), Some(Refused::Invalid(line.into())), "{line}");
    }
    assert_eq!(parse("--num=5 --help").err(), Some(Refused::Help));
}

#[test]
fn engines_are_named_with_or_without_their_library() {
    let engine = |value: &str| parse(&format!("--engine={value}")).unwrap().engine;
    assert_eq!(engine("siltstone"), EngineName::Siltstone);
    assert_eq!(engine("leveldb"), EngineName::LevelDb(None));
    for value in ["siltstone", "leveldb", "leveldb:./libx.so"] {
        assert_eq!(engine(value).to_string(), value);
    }
    let library = Some("./libx.so".to_owned());
    assert_eq!(engine("leveldb:./libx.so"), EngineName::LevelDb(library));
}

#[test]
fn help_names_every_benchmark_of_the_default_list() {
    let (_, benchmarks) = HELP.split_once("\nBenchmarks: ").unwrap();
    for name in BENCHMARKS.split(',') {
        assert!(benchmarks.contains(name), "{name}");
    }
}

#[test]
fn ours_are_taken_beside_them() {
    let flags =
        parse("--runs=5 --seed=7 --rate=0.5 --causes=1 --json=out.json --distribution=latest")
            .unwrap();
    assert_eq!((flags.runs, flags.seed, flags.rate), (Some(5), 7, Some(0.5)));
    assert!(flags.causes && flags.timing().percentiles, "a rate wants percentiles");
    assert_eq!(flags.json, Some(PathBuf::from("out.json")));
    assert_eq!(flags.law, Some(Law::Latest));
    assert!(!parse("--histogram=1").unwrap().timing().percentiles);
}

#[test]
fn rivals_are_engines_or_paths() {
    let rival = |value: &str| parse(&format!("--against={value}")).unwrap().against.unwrap();
    assert_eq!(rival("leveldb"), Rival::Engine(EngineName::LevelDb(None)));
    let library = EngineName::LevelDb(Some("/lib/libx.so".to_owned()));
    assert_eq!(rival("leveldb:/lib/libx.so"), Rival::Engine(library));
    assert_eq!(rival("./db_bench"), Rival::Program(PathBuf::from("./db_bench")));
}

#[test]
fn only_what_leveldb_knows_is_passed_on_to_it() {
    let line = "--num=5 --runs=3 --against=./x --db=/tmp/x --bloom_bits=10 --rate=5 --json=f";
    let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    assert_eq!(leveldbs_own(&arguments), ["--num=5", "--bloom_bits=10"]);
    let rest = without(&arguments, &["runs", "against", "db", "json"]);
    assert_eq!(rest, ["--num=5", "--bloom_bits=10", "--rate=5"]);
}
