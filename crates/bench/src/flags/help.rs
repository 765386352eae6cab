//! What `--help` prints.

/// All flags and benchmarks, with what they mean.
pub const HELP: &str = "\
db_bench for siltstone: LevelDB's benchmarks, flags and report, and YCSB's workloads.
usage: db_bench [--name=value]...

A database that lies in the folder --db is removed, unless --use_existing_db=1 is given.

LevelDB's flags
  --benchmarks=LIST        names with commas between; by default fillseq, fillsync, fillrandom,
                           overwrite, readrandom twice, readseq, readreverse, compact, readrandom,
                           readseq, readreverse, fill100K, crc32c, and snappy and zstd both ways
  --num=1000000            entries to write, and the range that keys are drawn from
  --reads=-1               reads to do; below 0, as many as --num
  --threads=1              threads doing the same at once
  --value_size=100         bytes of a value        --compression_ratio=0.5  to which they compress
  --key_prefix=0           bytes before the sixteen digits of a key
  --histogram=0            1: print a histogram of the microseconds each operation took
  --comparisons=0          1: count comparisons of keys, and print the count
  --use_existing_db=0      1: keep what is there; benchmarks that want a fresh database are skipped
  --reuse_logs=0           --compression=1         --write_buffer_size=4194304
  --max_file_size=2097152  --block_size=4096       --cache_size=-1 (the default of 8 MiB)
  --bloom_bits=-1 (none)   --open_files=1000       --db=FOLDER (below the temporary folder)

Flags beyond LevelDB's
  --engine=siltstone       leveldb: the installed libleveldb, through its C API; leveldb:LIBRARY:
                           any library with that API
  --against=RIVAL          run the list on a rival as well, by turns, and print the ratio of each
                           line: an engine as above, or the path of another db_bench
  --runs=1                 run the list so often, and print medians; with --against, 3
  --seed=1000              where random keys begin; the default is LevelDB's
  --rate=N                 N operations a second, by a timetable: what begins late counts from its
                           turn; implies --percentiles=1
  --percentiles=0          1: print p50 to p99.99 and the longest, in microseconds
  --causes=0               1: print bytes written and time stalled, by cause; waits for background
                           work behind each benchmark, untimed, so that all it owes is counted
  --json=FILE              write all that was measured
  --compaction=leveled     how tables are merged: leveled, cursor (LevelDB's turns), sliced, l2sm
  --level1_size=10485760   bytes of level 1; each deeper one holds ten times more
  --distribution=LAW       zipfian, latest or uniform, in the place of each YCSB workload's own

Benchmarks: fillseq fillbatch fillrandom overwrite fillsync fill100K deleteseq deleterandom readseq
  readreverse readrandom readmissing readhot readrandomsmall seekrandom seekordered readwhilewriting
  open crc32c snappycomp snappyuncomp zstdcomp zstduncomp compact stats sstables heapprofile
YCSB: ycsbload, which the others want once before them, and ycsba to ycsbf, each of --reads operations
";
