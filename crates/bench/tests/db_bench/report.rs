//! The report as a script reads it: the program is run, and its output compared to the byte, with
//! figures masked.

use crate::support::{db_bench, lines, mask, report};
use siltstone_leveldb::LevelDb;
use siltstone_sim::TempDir;

/// LevelDB's whole default report. `#` stands for a figure.
const DEFAULT_REPORT: &str = "\
Keys:       16 bytes each
Values:     100 bytes each (50 bytes after compression)
Entries:    1000
RawSize:    0.1 MB (estimated)
FileSize:   0.1 MB (estimated)
------------------------------------------------
fillseq      : ########### micros/op; ###### MB/s
fillsync     : ########### micros/op; ###### MB/s (1 ops)
fillrandom   : ########### micros/op; ###### MB/s
overwrite    : ########### micros/op; ###### MB/s
readrandom   : ########### micros/op; (# of # found)
readrandom   : ########### micros/op; (# of # found)
readseq      : ########### micros/op; ###### MB/s
readreverse  : ########### micros/op; ###### MB/s
compact      : ########### micros/op;
readrandom   : ########### micros/op; (# of # found)
readseq      : ########### micros/op; ###### MB/s
readreverse  : ########### micros/op; ###### MB/s
fill100K     : ########### micros/op; ###### MB/s (1 ops)
crc32c       : ########### micros/op; ###### MB/s (4K per op)
snappycomp   : ########### micros/op; ###### MB/s (output: #%)
snappyuncomp : ########### micros/op; ###### MB/s
zstdcomp     : ########### micros/op; ###### MB/s (output: #%)
zstduncomp   : ########### micros/op; ###### MB/s
";

#[test]
fn the_default_report_is_that_of_leveldb() {
    let folder = TempDir::new("bench-default");
    let text = report(&folder, &["--num=1000"]);
    let masked: String = text.lines().map(|line| mask(line) + "\n").collect();
    assert_eq!(masked, DEFAULT_REPORT);
}

#[test]
fn standard_error_tells_the_machine_and_nothing_else_when_piped() {
    let folder = TempDir::new("bench-stderr");
    let output = db_bench(&folder, &["--num=100", "--benchmarks=fillseq"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    let labels: Vec<_> = errors.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(labels[..2], ["siltstone", "Date"]);
    assert!(labels[2..].iter().all(|label| label.starts_with("CPU")), "{errors}");
}

#[test]
fn an_invalid_flag_ends_the_program() {
    let folder = TempDir::new("bench-invalid");
    let output = db_bench(&folder, &["--num=10", "--nosuchflag=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"Invalid flag '--nosuchflag=1'\n");
    assert!(output.stdout.is_empty());
    assert!(!folder.path().join("db").exists(), "nothing was touched");
}

#[test]
fn an_existing_database_is_read_and_not_filled() {
    let folder = TempDir::new("bench-existing");
    report(&folder, &["--num=1000", "--benchmarks=fillseq"]);
    let flags = ["--num=1000", "--use_existing_db=1", "--benchmarks=fillrandom,readrandom"];
    let lines = lines(&folder, &flags);
    assert_eq!(lines[0], "fillrandom   : skipped (--use_existing_db is true)");
    assert!(lines[1].ends_with(" micros/op; (1000 of 1000 found)"), "{lines:?}");

    let missing = TempDir::new("bench-missing");
    let output = db_bench(&missing, &["--use_existing_db=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("\nopen error: "));
}

#[test]
fn every_benchmark_runs_on_one_thread_and_on_three() {
    let names = "fillseq,fillbatch,fillrandom,overwrite,fillsync,fill100K,deleteseq,deleterandom,\
        fillrandom,readseq,readreverse,readrandom,readmissing,readhot,readrandomsmall,seekrandom,\
        seekordered,readwhilewriting,open,compact";
    for threads in ["--threads=1", "--threads=3"] {
        let folder = TempDir::new("bench-each");
        let flags = ["--num=1000", threads, &format!("--benchmarks={names}")];
        let lines = lines(&folder, &flags);
        assert_eq!(lines.len(), names.split(',').count());
        for (name, line) in names.split(',').zip(&lines) {
            assert!(mask(line).starts_with(&format!("{name:<12} : ###########")), "{line}");
        }
    }
}

#[test]
fn the_same_seeds_find_the_same_keys() {
    // 632 of 1000 distinct keys are written by 1000 random puts, or nearly; which of them are asked
    // for is settled by the seeds, too.
    let flags = ["--num=1000", "--benchmarks=fillrandom,readrandom,seekrandom"];
    let found = || {
        let folder = TempDir::new("bench-seeds");
        let lines = lines(&folder, &flags);
        lines.iter().skip(1).map(|line| line.split('(').nth(1).unwrap().to_owned()).collect()
    };
    let first: Vec<String> = found();
    assert_eq!(first, found());
    let number: u32 = first[0].split(' ').next().unwrap().parse().unwrap();
    assert!((580..690).contains(&number), "{first:?}");
}

#[test]
fn properties_are_printed_between_empty_lines() {
    let folder = TempDir::new("bench-properties");
    let flags = ["--num=1000", "--benchmarks=fillseq,compact,stats,sstables,heapprofile,nonsense"];
    let output = db_bench(&folder, &flags);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("\n\n                               Compactions\nLevel  Files "),
        "{text}"
    );
    assert!(text.contains("\n\n--- level 0 ---\n"), "{text}");
    assert!(text.ends_with("--- level 6 ---\n\n"), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    let expected = "heap profiling not supported\nunknown benchmark 'nonsense'\n";
    assert!(errors.ends_with(expected), "{errors}");
}

#[test]
fn histograms_and_comparisons_follow_their_line() {
    let folder = TempDir::new("bench-histogram");
    let flags = ["--num=1000", "--histogram=1", "--comparisons=1", "--benchmarks=fillrandom"];
    let lines = lines(&folder, &flags);
    assert_eq!(lines[1], "Microseconds per op:");
    assert!(lines[2].starts_with("Count: 1000  Average: "), "{lines:?}");
    assert!(lines[3].starts_with("Min: "), "{lines:?}");
    assert_eq!(lines[4], "-".repeat(54));
    let [.., empty, comparisons] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(empty, "");
    let count: u64 = comparisons.strip_prefix("Comparisons: ").unwrap().parse().unwrap();
    assert!(count > 5_000, "1000 inserts take more comparisons than {count}");
}

/// LevelDB itself under the same harness. The codecs are out of its reach.
#[test]
fn leveldb_runs_the_same_list() {
    if LevelDb::load_or_skip().is_none() {
        return;
    }
    let folder = TempDir::new("bench-leveldb");
    let text = report(&folder, &["--num=1000", "--engine=leveldb"]);
    let masked: Vec<_> = text.lines().map(mask).collect();
    let expected: Vec<_> = DEFAULT_REPORT.lines().map(str::to_owned).collect();
    let codecs = expected.len() - 5;
    assert_eq!(masked[..codecs], expected[..codecs]);
    for line in &masked[codecs..] {
        assert!(line.ends_with(" : skipped (not in LevelDB's C API)"), "{line}");
    }
}

/// Same seeds, same keys, same operations: both engines find the same.
#[test]
fn both_engines_find_the_same_keys() {
    if LevelDb::load_or_skip().is_none() {
        return;
    }
    let names = "--benchmarks=fillrandom,readrandom,seekrandom,deleterandom,readrandom,seekordered";
    let found = |engine: &str| {
        let folder = TempDir::new("bench-both");
        let lines = lines(&folder, &["--num=3000", "--reads=2000", names, engine]);
        let found = lines.iter().filter_map(|line| line.split_once('('));
        found.map(|(_, found)| found.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found("--engine=siltstone"), found("--engine=leveldb"));
    assert_eq!(found("--engine=siltstone").len(), 4);
}

#[test]
fn comparisons_are_counted_in_leveldb_too() {
    if LevelDb::load_or_skip().is_none() {
        return;
    }
    let folder = TempDir::new("bench-leveldb-compare");
    let flags = ["--num=1000", "--comparisons=1", "--engine=leveldb", "--benchmarks=fillrandom"];
    let lines = lines(&folder, &flags);
    let count: u64 = lines[1].strip_prefix("Comparisons: ").unwrap().parse().unwrap();
    assert!(count > 5_000, "{lines:?}");
}
