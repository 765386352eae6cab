//! The tree of verbs and the flags they share. `main` parses with it and runs what it finds.

use std::ffi::OsString;
use std::path::Path;

use clap::{Args, Command, CommandFactory, Parser, Subcommand};

use crate::bytes::ByteFormat;
use crate::errors::{Failure, Outcome};
#[cfg(feature = "cloud")]
use crate::handle::bucket;
use crate::output::{Context, Format};
use crate::verbs::{
    bench, care, copies, data, files, generate, inside, lab, load, repair, scan, simulate, verify,
};
#[cfg(feature = "cloud")]
use crate::verbs::{cloud, fleet};
use crate::{demo, shell};

const OUTPUT_HELP: &str = "\
Output: -o table|json|jsonl|csv|raw on every verb. Without it: table on a terminal; piped, jsonl
(get and count: raw). Data goes to stdout, everything else to stderr.

Bytes: a JSON field that is not UTF-8 is named key_b64 or value_b64. On the command line and in
tables, 0x.. is hex; see --key and --value.

Exit codes: 0 ok, 1 not found or differs, 2 usage, 3 corruption, 4 locked, 5 I/O, 6 incompatible,
130 interrupted.

Examples:
  siltstone demo --quick
  siltstone put ./db user/42 Asha
  echo 'get user/42' | siltstone ./db";

/// Look into, load, check and mend LevelDB and siltstone databases.
///
/// With only a database, opens a shell on it: siltstone ./db
#[derive(Debug, Parser)]
#[command(name = "siltstone", version, arg_required_else_help = true, after_help = OUTPUT_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// Open the shell read-only: works beside a writer, changes nothing
    #[arg(short, long)]
    read_only: bool,
    #[command(subcommand)]
    verb: Verb,
}

/// The flags of every verb. Their ids must differ from the verbs' own `key` and `value`.
#[derive(Args, Debug)]
pub(crate) struct Globals {
    /// How results are written [default: table on a terminal, else jsonl or raw]
    #[arg(short, long, global = true, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) output: Option<Format>,
    /// How keys are written here and in results: auto, utf8, hex, base64 or escaped
    #[arg(long = "key", global = true, value_name = "FORMAT", default_value = "auto")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    key_format: ByteFormat,
    /// How values are written here and in results; formats as for --key
    #[arg(long = "value", global = true, value_name = "FORMAT", default_value = "auto")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    value_format: ByteFormat,
    /// No progress and no notes on stderr
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Folder for what a database in a bucket has here: its log, copies and a cache of its tables
    /// [default: nothing stays]
    #[cfg(feature = "cloud")]
    #[arg(long, global = true, value_name = "FOLDER")]
    cache: Option<std::path::PathBuf>,
    /// Have merges of a database in a bucket done by workers of this broker, and its replicas told of new versions:
    /// http://HOST:PORT on this machine, or https:// with the files that SILTSTONE_TLS_CERT, SILTSTONE_TLS_KEY and
    /// SILTSTONE_TLS_CA name [default: here]
    #[cfg(feature = "cloud")]
    #[arg(long, global = true, value_name = "URI")]
    merge_at: Option<String>,
    /// Write to a database in a bucket whose owner has not closed it: who has it open can commit no more
    #[cfg(feature = "cloud")]
    #[arg(long, global = true)]
    take_over: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(after_help = "Examples:
  siltstone gen json data1.json data2.json --pairs 2k --duplicates 0.1 --seed 42
  siltstone gen csv sample.csv --pairs 100 --key-bytes 8 --value-bytes 20")]
    Gen(generate::GenArgs),
    #[command(after_help = "\
A value that is not a string is stored as its JSON text without blanks: {\"a\": [1, 2]} stores [1,2].
Memory does not grow with the files. Ctrl-C closes the database cleanly and tells what got in.

Examples:
  siltstone load ./orders data1.json data2.json --duplicates count --bloom-bits 10
  echo '{\"user/1\": \"Ravi\", \"user/42\": {\"name\": \"Asha\"}}' | siltstone load ./orders -")]
    Load(load::LoadArgs),
    #[command(after_help = "Examples:
  siltstone put ./orders user/43 Mina
  printf 'any bytes' | siltstone put ./orders --key hex 00ff")]
    Put(data::PutArgs),
    #[command(after_help = "Piped, the value's own bytes are written and nothing else.

Examples:
  siltstone get ./orders user/42
  siltstone get ./orders 0x00ff -o json --timing")]
    Get(data::GetArgs),
    #[command(after_help = "Examples:
  siltstone del ./orders user/43
  siltstone del ./orders 0x00ff user/1")]
    Del(data::DelArgs),
    #[command(after_help = "Examples:
  siltstone scan ./orders --prefix user/
  siltstone scan ./orders --reverse --limit 3 --keys-only")]
    Scan(scan::ScanArgs),
    #[command(after_help = "Examples:
  siltstone count ./orders
  siltstone count ./orders --from a --to n -o json")]
    Count(scan::CountArgs),
    #[command(
        after_help = "What dump writes, load reads back byte for byte, in every format but table.

Examples:
  siltstone dump ./orders > orders.jsonl
  siltstone dump ./orders -o csv --prefix user/ > users.csv"
    )]
    Dump(scan::DumpArgs),
    #[command(after_help = "Examples:
  siltstone info ./orders
  siltstone info ./orders -o json")]
    Info(inside::InfoArgs),
    #[command(after_help = "Examples:
  siltstone stats ./orders
  siltstone stats ./orders -o jsonl")]
    Stats(inside::StatsArgs),
    #[command(after_help = "Examples:
  siltstone levels ./orders
  siltstone levels ./orders --tables -o csv")]
    Levels(inside::LevelsArgs),
    #[command(after_help = "Examples:
  siltstone flush ./orders
  siltstone flush ./orders -o json")]
    Flush(care::FlushArgs),
    #[command(after_help = "Examples:
  siltstone compact ./orders
  siltstone compact ./orders --from user/ --to user0")]
    Compact(care::CompactArgs),
    #[command(after_help = "Examples:
  siltstone downgrade ./orders
  siltstone downgrade ./orders -o json")]
    Downgrade(care::DowngradeArgs),
    #[command(after_help = "Examples:
  siltstone verify ./orders
  siltstone verify ./orders -o json")]
    Verify(verify::VerifyArgs),
    #[command(after_help = "Examples:
  siltstone repair ./orders
  siltstone repair ./orders --yes --out ./orders-saved")]
    Repair(repair::RepairArgs),
    #[command(after_help = "Examples:
  siltstone checkpoint ./orders ./orders-copy
  siltstone count ./orders-copy")]
    Checkpoint(copies::CheckpointArgs),
    #[command(after_help = "Examples:
  siltstone destroy ./orders-copy
  siltstone destroy ./orders-copy --yes")]
    Destroy(copies::DestroyArgs),
    /// Print write-ahead logs, record by record
    #[command(subcommand)]
    #[command(after_help = "Examples:
  siltstone wal dump ./orders/*.log
  siltstone wal dump ./orders/*.log -o json")]
    Wal(files::WalVerb),
    /// Print manifests, edit by edit
    #[command(subcommand)]
    #[command(after_help = "Examples:
  siltstone manifest dump ./orders/MANIFEST-*
  siltstone manifest dump ./orders/MANIFEST-* -o jsonl")]
    Manifest(files::ManifestVerb),
    /// Print tables, entry by entry
    #[command(subcommand)]
    #[command(after_help = "Examples:
  siltstone sst dump ./orders/*.ldb | head -5
  siltstone sst dump ./orders/*.ldb -o csv | tail -1")]
    Sst(files::SstVerb),
    #[command(after_help = "Examples:
  siltstone shell ./orders --read-only < /dev/null
  printf 'scan --limit 2\\n.levels\\n' | siltstone ./orders")]
    Shell(shell::ShellArgs),
    #[command(after_help = "Examples:
  siltstone demo --quick
  siltstone demo --quick --keep ./demo-db")]
    Demo(demo::DemoArgs),
    #[command(after_help = "Examples:
  siltstone lab l2sm --records 2k --updates 2 --runs 1
  siltstone lab l2sm --distribution zipfian --compaction sliced --records 2k --runs 1
  siltstone lab cloud --profile zero --records 2k --runs 1 --measure writes
  siltstone lab cloud --profile zero --records 2k --measure reads")]
    Lab(lab::LabArgs),
    #[command(after_help = "Examples:
  siltstone simulate --records 20k --updates 40k --memtable 400 --table 100 --level1 1k
  siltstone simulate --distribution uniform --records 20k --updates 40k --level1 2k --growth 4")]
    Simulate(simulate::SimulateArgs),
    /// Look into, check and look after databases in a bucket
    #[cfg(feature = "cloud")]
    #[command(subcommand)]
    #[command(after_help = cloud::HELP)]
    Cloud(cloud::CloudVerb),
    #[command(after_help = bench::help())]
    Bench(bench::BenchArgs),
    #[command(after_help = "\
Without TLS a broker listens on this machine only, and must be told so. Grants, a line each:
worker * name worker-1.example, or client orders,shop token 0f3a.. (64 digits at least).

Examples:
  siltstone broker --listen 127.0.0.1:0 --insecure-loopback --check
  siltstone broker -q --listen 127.0.0.1:0 --insecure-loopback --check")]
    #[cfg(feature = "cloud")]
    Broker(fleet::broker::BrokerArgs),
    #[command(after_help = "\
Asked to end (SIGTERM, Ctrl-C), it takes no more jobs, and ends those that it has.

Examples:
  siltstone worker --broker http://localhost:1 --bucket s3://t --insecure-loopback --check
  siltstone worker --broker http://localhost:1 --bucket s3://t/a --insecure-loopback --check")]
    #[cfg(feature = "cloud")]
    Worker(fleet::worker::WorkerArgs),
    /// The child that `demo` kills
    #[command(hide = true, name = "demo-writer")]
    DemoWriter(demo::WriterArgs),
    #[command(external_subcommand)]
    Database(Vec<OsString>),
}

impl Verb {
    /// Whether it changes the database it is given.
    fn writes(&self) -> bool {
        matches!(
            self,
            Verb::Load(_)
                | Verb::Put(_)
                | Verb::Del(_)
                | Verb::Flush(_)
                | Verb::Compact(_)
                | Verb::Downgrade(_)
                | Verb::Destroy(_)
        )
    }
}

/// Parses the command line. `siltstone PATH ..` is `siltstone shell PATH ..`.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let cli = Cli::try_parse_from(&arguments)?;
    let Verb::Database(rest) = &cli.verb else { return Ok(cli) };
    let at = arguments.len() - rest.len();
    let name = rest.first().cloned().unwrap_or_default();
    if !names_a_path(&name) {
        // Neither a path nor a verb: let clap say so, with the nearest verb.
        let verbs = Cli::command();
        let strict = Command::new("siltstone").subcommands(verbs.get_subcommands().cloned());
        strict.try_get_matches_from([OsString::from("siltstone"), name])?;
    }
    arguments.insert(at, "shell".into());
    Cli::try_parse_from(&arguments)
}

fn names_a_path(name: &OsString) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.contains(&b'/') || bytes.starts_with(b".") || Path::new(name).exists()
}

/// Runs the verb.
pub(crate) fn run(cli: &Cli) -> Outcome {
    let globals = &cli.globals;
    let context = Context {
        asked: globals.output,
        key: globals.key_format,
        value: globals.value_format,
        quiet: globals.quiet,
    };
    #[cfg(feature = "cloud")]
    bucket::set(globals.cache.as_deref(), globals.merge_at.as_deref(), globals.take_over);
    if cli.read_only && cli.verb.writes() {
        return Err(Failure::usage("this verb writes, which --read-only forbids")
            .detail("--read-only is for the shell; reading verbs never change a file"));
    }
    match &cli.verb {
        Verb::Gen(args) => generate::run(args, &context),
        Verb::Load(args) => load::run(args, &context),
        Verb::Put(args) => data::put(args, &context),
        Verb::Get(args) => data::get(args, &context),
        Verb::Del(args) => data::del(args, &context),
        Verb::Scan(args) => scan::scan(args, &context),
        Verb::Count(args) => scan::count(args, &context),
        Verb::Dump(args) => scan::dump(args, &context),
        Verb::Info(args) => inside::info(args, &context),
        Verb::Stats(args) => inside::stats(args, &context),
        Verb::Levels(args) => inside::levels(args, &context),
        Verb::Flush(args) => care::flush(args, &context),
        Verb::Compact(args) => care::compact(args, &context),
        Verb::Downgrade(args) => care::downgrade(args, &context),
        Verb::Lab(args) => lab::lab(args, &context),
        Verb::Simulate(args) => simulate::simulate(args, &context),
        Verb::Verify(args) => verify::run(args, &context),
        Verb::Repair(args) => repair::run(args, &context),
        Verb::Checkpoint(args) => copies::checkpoint(args, &context),
        Verb::Destroy(args) => copies::destroy(args, &context),
        Verb::Wal(files::WalVerb::Dump(args)) => files::dump(files::Kind::Wal, args, &context),
        Verb::Manifest(files::ManifestVerb::Dump(args)) => {
            files::dump(files::Kind::Manifest, args, &context)
        }
        Verb::Sst(files::SstVerb::Dump(args)) => files::dump(files::Kind::Table, args, &context),
        Verb::Shell(args) => shell::run(args, cli.read_only, context),
        Verb::Demo(args) => demo::run(args, &context),
        #[cfg(feature = "cloud")]
        Verb::Cloud(verb) => cloud::run(verb, &context),
        Verb::Bench(args) => bench::bench(args),
        #[cfg(feature = "cloud")]
        Verb::Broker(args) => fleet::broker::run(args, &context),
        #[cfg(feature = "cloud")]
        Verb::Worker(args) => fleet::worker::run(args, &context),
        Verb::DemoWriter(args) => demo::write_until_killed(args),
        Verb::Database(_) => unreachable!("parse() turns paths into the shell"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_tree_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_ends_with_two_examples() {
        for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.split("Examples:\n").nth(1).unwrap_or_default();
            assert!(examples.lines().count() >= 2, "{}", verb.get_name());
            assert!(examples.lines().all(|line| line.contains("siltstone")), "{examples}");
        }
    }

    #[test]
    fn a_path_alone_opens_the_shell() {
        for line in ["siltstone ./db", "siltstone -r ./db", "siltstone -o json ./db -r"] {
            let cli = parsed(line).unwrap();
            assert!(matches!(cli.verb, Verb::Shell(_)), "{line}");
        }
        assert_eq!(parsed("siltstone -o json ./db").unwrap().globals.output, Some(Format::Json));
    }

    #[test]
    fn a_mistyped_verb_gets_a_hint() {
        let error = parsed("siltstone gett ./db k").unwrap_err().to_string();
        assert!(error.contains("'get'"), "{error}");
    }

    /// Manifests are checked against Kubernetes elsewhere; here, against this command.
    #[cfg(feature = "cloud")]
    #[test]
    fn deployments_give_flags_that_there_are() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes");
        for (file, verb) in [("broker.yaml", "broker"), ("worker.yaml", "worker")] {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            let words = text.lines().skip_while(|line| line.trim() != "args:").skip(1);
            let words = words.map_while(|line| line.trim().strip_prefix("- "));
            let line: Vec<&str> = words.collect();
            assert!(line.len() > 5 && line[0] == verb, "{file}: {line:?}");
            let parsed = parsed(&format!("siltstone {}", line.join(" ")));
            assert!(parsed.is_ok(), "{file}: {}", parsed.unwrap_err());
        }
    }
}
