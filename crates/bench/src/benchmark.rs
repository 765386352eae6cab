//! The benchmarks by name, and what each does with the flags: LevelDB's table, and YCSB's workloads.

use crate::flags::Flags;
use crate::work::ycsb::Mix;

/// In which order keys come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Sequential,
    Random,
}

/// What a table's blocks can be compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Snappy,
    Zstd,
}

impl Codec {
    pub(crate) fn failure(self) -> &'static str {
        match self {
            Codec::Snappy => "(snappy failure)",
            Codec::Zstd => "(zstd failure)",
        }
    }
}

/// What the threads of a benchmark do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Open,
    Fill(Order),
    Delete(Order),
    ReadSequential,
    ReadReverse,
    ReadRandom,
    ReadMissing,
    ReadHot,
    SeekRandom,
    SeekOrdered,
    ReadWhileWriting,
    YcsbLoad,
    Ycsb(Mix),
    Compact,
    Checksum,
    Compress(Codec),
    Uncompress(Codec),
}

impl Task {
    /// Does without a database.
    pub(crate) fn is_codec(self) -> bool {
        matches!(self, Task::Checksum | Task::Compress(_) | Task::Uncompress(_))
    }
}

/// One benchmark, with its numbers settled.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) task: Task,
    /// Begins with an empty database.
    pub(crate) fresh: bool,
    pub(crate) num: i32,
    pub(crate) reads: i32,
    pub(crate) value_size: usize,
    pub(crate) entries_per_batch: i32,
    pub(crate) sync: bool,
    pub(crate) threads: usize,
}

impl Plan {
    /// About how many operations all threads do together; 0 if it is one piece of work.
    pub(crate) fn operations(&self) -> u64 {
        let all = |count: i32| u64::try_from(count).unwrap_or(0) * self.threads as u64;
        match self.task {
            Task::Open | Task::Fill(_) | Task::Delete(_) | Task::YcsbLoad => all(self.num),
            Task::Compact => 0,
            Task::Checksum => self.threads as u64 * CHECKSUM_OPERATIONS,
            Task::Compress(_) | Task::Uncompress(_) => self.threads as u64 * CODEC_OPERATIONS,
            // The writer is not measured.
            Task::ReadWhileWriting => {
                all(self.reads) / self.threads as u64 * (self.threads as u64 - 1)
            }
            _ => all(self.reads),
        }
    }
}

/// What a name in the list stands for.
pub(crate) enum Entry {
    Benchmark(Plan),
    /// Prints a property of the database.
    Property(&'static str),
    HeapProfile,
    Unknown,
}

/// A block of a table, by default: what the benchmarks without a database work on.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// 500 MiB in blocks.
pub(crate) const CHECKSUM_OPERATIONS: u64 = (500 << 20) / BLOCK_BYTES as u64;
/// 1 GiB in blocks.
pub(crate) const CODEC_OPERATIONS: u64 = (1 << 30) / BLOCK_BYTES as u64;
/// Entries of fillbatch that are written together.
const BATCH_ENTRIES: i32 = 1000;
const LARGE_VALUE_BYTES: usize = 100_000;

/// Looks a name up.
pub(crate) fn look_up(name: &str, flags: &Flags) -> Entry {
    match name {
        "stats" => return Entry::Property("leveldb.stats"),
        "sstables" => return Entry::Property("leveldb.sstables"),
        "heapprofile" => return Entry::HeapProfile,
        _ => {}
    }
    let Some(task) = task(name) else { return Entry::Unknown };
    let mut plan = Plan {
        name: name.to_owned(),
        task,
        fresh: matches!(task, Task::Fill(_) | Task::YcsbLoad) && name != "overwrite",
        num: flags.num,
        reads: flags.reads(),
        value_size: usize::try_from(flags.value_size).unwrap_or(0),
        entries_per_batch: 1,
        sync: false,
        threads: flags.threads(),
    };
    match name {
        // Opening belongs to no thread: one after the other.
        "open" => (plan.num, plan.threads) = ((flags.num / 10_000).max(1), 1),
        // Each record is inserted once.
        "ycsbload" => plan.threads = 1,
        "fillbatch" => plan.entries_per_batch = BATCH_ENTRIES,
        "fillsync" => (plan.num, plan.sync) = (flags.num / 1000, true),
        "fill100K" => (plan.num, plan.value_size) = (flags.num / 1000, LARGE_VALUE_BYTES),
        "readrandomsmall" => plan.reads /= 1000,
        // The readers are as many as asked for; the writer comes on top.
        "readwhilewriting" => plan.threads += 1,
        _ => {}
    }
    Entry::Benchmark(plan)
}

fn task(name: &str) -> Option<Task> {
    Some(match name {
        "open" => Task::Open,
        "fillseq" | "fillbatch" => Task::Fill(Order::Sequential),
        "fillrandom" | "overwrite" | "fillsync" | "fill100K" => Task::Fill(Order::Random),
        "deleteseq" => Task::Delete(Order::Sequential),
        "deleterandom" => Task::Delete(Order::Random),
        "readseq" => Task::ReadSequential,
        "readreverse" => Task::ReadReverse,
        "readrandom" | "readrandomsmall" => Task::ReadRandom,
        "readmissing" => Task::ReadMissing,
        "readhot" => Task::ReadHot,
        "seekrandom" => Task::SeekRandom,
        "seekordered" => Task::SeekOrdered,
        "readwhilewriting" => Task::ReadWhileWriting,
        "ycsbload" => Task::YcsbLoad,
        "compact" => Task::Compact,
        "crc32c" => Task::Checksum,
        "snappycomp" => Task::Compress(Codec::Snappy),
        "snappyuncomp" => Task::Uncompress(Codec::Snappy),
        "zstdcomp" => Task::Compress(Codec::Zstd),
        "zstduncomp" => Task::Uncompress(Codec::Zstd),
        _ => Task::Ycsb(Mix::named(name.strip_prefix("ycsb")?)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str) -> Plan {
        let flags = Flags { num: 20_000, ..Flags::default() };
        match look_up(name, &flags) {
            Entry::Benchmark(plan) => plan,
            _ => panic!("{name} is no benchmark"),
        }
    }

    #[test]
    fn numbers_are_those_of_leveldb() {
        for name in ["fillseq", "fillrandom", "overwrite", "deleteseq", "deleterandom"] {
            assert_eq!((plan(name).num, plan(name).entries_per_batch), (20_000, 1), "{name}");
        }
        assert_eq!(plan("fillbatch").entries_per_batch, 1000);
        assert_eq!((plan("fillsync").num, plan("fillsync").sync), (20, true));
        assert_eq!((plan("fill100K").num, plan("fill100K").value_size), (20, 100_000));
        assert_eq!((plan("open").num, plan("open").threads), (2, 1));
        assert_eq!((plan("readrandom").reads, plan("readrandomsmall").reads), (20_000, 20));
        assert_eq!((plan("readrandom").threads, plan("readwhilewriting").threads), (1, 2));
    }

    #[test]
    fn only_fills_want_a_fresh_database() {
        for name in ["fillseq", "fillbatch", "fillrandom", "fillsync", "fill100K", "ycsbload"] {
            assert!(plan(name).fresh, "{name}");
        }
        for name in
            ["overwrite", "deleteseq", "readseq", "compact", "readwhilewriting", "open", "ycsba"]
        {
            assert!(!plan(name).fresh, "{name}");
        }
        for name in ["filler", "ycsbg", "ycsb", "YCSBA"] {
            assert!(matches!(look_up(name, &Flags::default()), Entry::Unknown), "{name}");
        }
    }
}
