//! siltstone's logs in LevelDB's hands. Ours hold what LevelDB's never do: sync marks, copies of
//! what an older log has, numbers that no write carries, and there are several at once. LevelDB
//! must read them all, with paranoid checks, and show what siltstone would.
#![expect(clippy::unwrap_used, reason = "cases are functions that the tests call")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use siltstone::{
    Background, Db, Env, Error, ErrorKind, Options, Result, Site, WriteBatch, WriteOptions,
};
use siltstone_interop::candid::{Candid, Choice};
use siltstone_interop::leveldb::LevelDb;
use siltstone_interop::peer::Engine;
use siltstone_interop::rng::Rng;
use siltstone_interop::scratch::{self, Scratch};
use siltstone_sim::{Fault, FaultFs};

const PARANOID: Choice = Choice { create: false, paranoid: true };

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// All of a database, by scan and by get, which must agree.
fn contents(engine: Engine, folder: &Path) -> Contents {
    let who = format!("{} on {}", engine.name(), folder.display());
    let db =
        Candid::open(engine, folder, PARANOID).unwrap_or_else(|error| panic!("{who}: {error}"));
    let (pairs, end) = db.scan();
    end.unwrap_or_else(|error| panic!("{who}: {error}"));
    for (key, value) in &pairs {
        let got = db.get(key).unwrap();
        assert_eq!(got.as_ref(), Some(value), "{who}: get {}", key.escape_ascii());
    }
    pairs.into_iter().collect()
}

/// A copy of the database for each engine; both must show the same, and each must open what the
/// other left.
fn contents_for_both(leveldb: LevelDb, folder: &Path, scratch: &Scratch) -> Contents {
    let (theirs, ours) = (scratch.join("theirs"), scratch.join("ours"));
    for copy in [&theirs, &ours] {
        let _ = fs::remove_dir_all(copy);
        scratch::copy_files(folder, copy);
    }
    let shown = contents(Engine::LevelDb(leveldb), &theirs);
    // Not `assert_eq`: nobody could read what it prints.
    assert!(contents(Engine::Siltstone, &ours) == shown, "the engines differ on {folder:?}");
    assert!(contents(Engine::Siltstone, &theirs) == shown, "siltstone after LevelDB");
    assert!(contents(Engine::LevelDb(leveldb), &ours) == shown, "LevelDB after siltstone");
    shown
}

#[test]
fn leveldb_takes_over_many_live_logs_from_a_killed_process() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = Scratch::new("pile");
    let folder = scratch.join("db");
    let (mut child, told) = act("pile", Engine::Siltstone, &folder);
    child.kill().unwrap();
    child.wait().unwrap();
    let puts: u32 = told.strip_prefix("piled ").expect("it got so far").parse().unwrap();

    let wals = scratch::wals(&folder);
    assert!(wals.len() > 4, "{} logs", wals.len());
    let logs = wals.iter().map(|wal| Log::read(&fs::read(wal).unwrap()));
    let marks: Vec<usize> =
        logs.map(|log| log.batches.iter().filter(|(_, count)| *count == 0).count()).collect();
    assert!(marks.iter().any(|marks| *marks > 10) && marks.contains(&0), "{marks:?}");

    let shown = contents_for_both(leveldb, &folder, &scratch);
    assert!(shown.into_keys().eq((0..puts).map(|number| number.to_be_bytes().to_vec())));
}

#[test]
fn siltstone_reads_along_while_leveldb_writes() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let scratch = Scratch::new("read-along");
    let (mut child, told) = act("stream", Engine::LevelDb(leveldb), scratch.path());
    assert_eq!(told, "streaming");
    let (mut seen, mut looks) = (0, 0);
    // Until there have been flushes and compactions enough to remove files from under us.
    while seen < 100_000 || looks < 10 {
        let options = Options { paranoid_checks: true, ..Options::default() };
        let db = match Db::open_read_only(scratch.path(), options) {
            Ok(db) => db,
            Err(error) => {
                assert!(error.to_string().contains("faster than it can be read"), "{error}");
                continue;
            }
        };
        let mut count = 0_u32;
        for entry in db.iter().unwrap().entries().unwrap() {
            let (key, value) = entry.unwrap();
            assert_eq!(*key, count.to_be_bytes(), "a prefix of the writes, look {looks}");
            assert_eq!(*value, count.to_be_bytes().repeat(25));
            count += 1;
        }
        assert!(count > 0 && count >= seen, "{count} after {seen}");
        (seen, looks) = (count, looks + 1);
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success(), "LevelDB has not noticed");
    let all = contents(Engine::LevelDb(leveldb), scratch.path());
    assert!(all.len() >= seen as usize);
}

/// A process that plays a part of `src/bin/act.rs`, and the first line that it says.
fn act(part: &str, engine: Engine, folder: &Path) -> (Child, String) {
    let engine = match engine {
        Engine::LevelDb(_) => "leveldb",
        Engine::Siltstone => "siltstone",
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_act"));
    command.args([part, engine]).arg(folder);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("the output is piped");
    BufReader::new(output).read_line(&mut line).unwrap();
    (child, line.trim_end().to_string())
}

/// Where a campaign's faults strike: all that has to do with logs, and what decides which of them
/// are needed.
const SITES: [Site; 14] = [
    Site::WalCreate,
    Site::WalDirSync,
    Site::WalAppend,
    Site::WalAppend,
    Site::WalAppend,
    Site::WalAppend,
    Site::WalSync,
    Site::WalSyncOlder,
    Site::WalSyncRelog,
    Site::WalRename,
    Site::WalRemove,
    Site::TableAppend,
    Site::ManifestAppend,
    Site::CurrentRename,
];

/// Full disks and faults at every turn; LevelDB takes over again and again.
#[test]
fn leveldb_takes_over_whatever_a_full_disk_has_left() {
    let Some(leveldb) = LevelDb::load_or_skip() else { return };
    let mut rng = Rng::for_test();
    let mut sum = Tally::default();
    for _ in 0..30 {
        Campaign::new(leveldb, &mut rng).run(&mut rng, &mut sum);
    }
    let Tally { takeovers, torn, several, relogged, gaps } = sum;
    println!(
        "{takeovers} takeovers; {torn} with a torn log, {several} with several logs, {relogged} \
         with writes in two logs, {gaps} with numbers left out"
    );
    assert!([takeovers, torn, several, relogged, gaps].iter().all(|count| *count > 0));
}

/// What the folders were like that LevelDB took over.
#[derive(Default)]
struct Tally {
    takeovers: u32,
    torn: u32,
    several: u32,
    relogged: u32,
    gaps: u32,
}

struct Campaign {
    leveldb: LevelDb,
    scratch: Scratch,
    faults: std::sync::Arc<FaultFs>,
    options: Options,
    db: Option<Db>,
    batches: u32,
    /// What must be found.
    promised: Contents,
    /// What may be found: of a batch that failed.
    possible: Vec<Contents>,
    last_promised: u32,
}

impl Campaign {
    fn new(leveldb: LevelDb, rng: &mut Rng) -> Campaign {
        let (env, faults) = FaultFs::over(Env::default());
        let options = Options {
            env,
            create_if_missing: true,
            info_log: false,
            write_buffer_size: 64 << 10,
            max_immutable_memtables: rng.pick(&[1, 2, 8]),
            reuse_logs: rng.one_in(2),
            background: Background::ByHand,
            ..Options::default()
        };
        let scratch = Scratch::new("takeover");
        let db = Some(Db::open(scratch.join("db"), options.clone()).unwrap());
        Campaign {
            leveldb,
            scratch,
            faults,
            options,
            db,
            batches: 0,
            promised: Contents::new(),
            possible: Vec::new(),
            last_promised: 0,
        }
    }

    fn run(&mut self, rng: &mut Rng, tally: &mut Tally) {
        for _ in 0..80 {
            match rng.below(16) {
                0..3 => self.strike(rng),
                3 | 4 => self.faults.heal(),
                5 => drop(self.db().flush()),
                6 => drop(self.db().run_background_step()),
                7 => self.take_over(tally),
                8 if rng.one_in(3) => self.reopen(),
                _ if self.write(rng) => {}
                // Before it heals.
                _ if rng.one_in(2) => self.take_over(tally),
                _ => {}
            }
        }
        self.take_over(tally);
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("only a reopen closes it")
    }

    fn strike(&self, rng: &mut Rng) {
        let (bytes, short) = (rng.below(40_000), rng.below(40));
        let fault = rng.pick(&[Fault::NoSpace, Fault::Full(short), Fault::Full(bytes)]);
        self.faults.fail_nth(rng.pick(&SITES), 1 + rng.below(3) as u64, fault);
    }

    /// Writes a batch: one key that is always changed, and some of its own. False if that fails.
    fn write(&mut self, rng: &mut Rng) -> bool {
        self.batches += 1;
        let number = self.batches;
        let mut batch = WriteBatch::new();
        let mut own = Contents::new();
        for index in 0..rng.below(4) {
            let key = format!("batch {number:05} {index}").into_bytes();
            let len = rng.pick(&[0, 10, 100, 3000, 40_000]);
            own.insert(key, rng.bytes(len));
        }
        batch.put("hot", number.to_be_bytes());
        own.iter().for_each(|(key, value)| batch.put(key, value));
        match self.db().write(&batch, WriteOptions { sync: rng.one_in(3) }) {
            Ok(()) => {
                self.promised.append(&mut own);
                self.last_promised = number;
                true
            }
            Err(error) => {
                self.possible.push(own);
                self.reopen_if_over(&error);
                false
            }
        }
    }

    /// Some failures are final until a reopen: of a sync that is not for want of space.
    fn reopen_if_over(&mut self, error: &Error) {
        if error.kind() != ErrorKind::NoSpace {
            self.reopen();
        }
    }

    fn reopen(&mut self) {
        self.faults.heal();
        drop(self.db.take());
        let opened: Result<Db> = Db::open(self.scratch.join("db"), self.options.clone());
        self.db = Some(opened.unwrap_or_else(|error| panic!("siltstone: {error}")));
    }

    /// The process dies here, and LevelDB takes over.
    fn take_over(&self, tally: &mut Tally) {
        let folder = self.scratch.join("db");
        let mut shown = contents_for_both(self.leveldb, &folder, &self.scratch);
        if let Some(hot) = shown.remove(&b"hot"[..]) {
            let hot = u32::from_be_bytes(hot.try_into().unwrap());
            assert!((self.last_promised..=self.batches).contains(&hot), "{hot}");
        } else {
            assert_eq!(self.last_promised, 0);
        }
        for (key, value) in &self.promised {
            let found = shown.remove(key);
            assert!(found.as_ref() == Some(value), "{} is promised", key.escape_ascii());
        }
        // Of what is left, each batch is there as a whole.
        for batch in &self.possible {
            let found =
                batch.iter().filter(|(key, value)| shown.remove(*key).as_ref() == Some(value));
            let found = found.count();
            assert!(found == 0 || found == batch.len(), "half a batch");
        }
        assert!(shown.is_empty(), "nobody wrote {:?}", shown.keys().next());
        count_oddities(&folder, tally);
    }
}

/// Notes what the logs in `folder` have that LevelDB's never do.
fn count_oddities(folder: &Path, tally: &mut Tally) {
    let wals = scratch::wals(folder);
    let logs: Vec<Log> = wals.iter().map(|wal| Log::read(&fs::read(wal).unwrap())).collect();
    tally.takeovers += 1;
    tally.several += u32::from(logs.iter().filter(|log| !log.batches.is_empty()).count() > 1);
    tally.torn += u32::from(logs.iter().any(|log| log.torn));
    let (mut twice, mut left_out, mut next) = (false, false, None);
    for (first, count) in logs.iter().flat_map(|log| &log.batches) {
        twice |= next.is_some_and(|next| *first < next);
        left_out |= next.is_some_and(|next| *first > next);
        next = next.max(Some(first + count));
    }
    tally.relogged += u32::from(twice);
    tally.gaps += u32::from(left_out);
}

/// A log, read by the plainest of readers.
struct Log {
    /// The number and the count of each batch.
    batches: Vec<(u64, u64)>,
    /// It ends within a record.
    torn: bool,
}

impl Log {
    fn read(bytes: &[u8]) -> Log {
        let (mut batches, mut record) = (Vec::new(), Vec::new());
        for block in bytes.chunks(32 << 10) {
            let mut rest = block;
            while let [_, _, _, _, low, high, kind, after @ ..] = rest {
                let len = usize::from(u16::from_le_bytes([*low, *high]));
                let Some(payload) = after.get(..len) else { return Log { batches, torn: true } };
                record.extend_from_slice(payload);
                rest = &after[len..];
                if matches!(kind, 1 | 4) {
                    let count = u32::from_le_bytes(record[8..12].try_into().unwrap());
                    let first = u64::from_le_bytes(record[..8].try_into().unwrap());
                    batches.push((first, u64::from(count)));
                    record.clear();
                }
            }
        }
        Log { batches, torn: !record.is_empty() }
    }
}
