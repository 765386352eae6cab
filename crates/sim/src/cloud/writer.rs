//! Writers: they take a database over, flush and merge, run jobs and adopt them, die and come back, sleep and wake up when
//! others have gone on.

use siltstone_cloud::{
    Attempt, Bucket, Condition, Edit, Error, ErrorKind, Home, JobId, Name, Opening, Part, Purpose,
    Replay, TableId, Token, VersionLog, VersionNumber, upload,
};

use super::actor::{Actor, Got, Wish};
use super::cheat::Mutant;
use super::content::{self, Change, Content, KEYS};

/// Tables are merged when there are so many.
const TABLES_MAX: usize = 6;
/// Of a job, by the owner who has made it.
const FIRST: Attempt = Attempt { term: 0, count: 1 };

/// How a writer's life ends.
enum End {
    /// The process dies, with whatever is under way.
    Death,
    /// It was told that it is owner no more.
    Fenced,
}

/// A life: from taking over to death.
struct Life<'a> {
    actor: &'a Actor,
    root: &'a str,
    home: Home,
    token: Token,
    log: VersionLog,
    content: Content,
    /// The next file number; the engine finds it in its version edits.
    next: u64,
    seqno: u64,
}

/// Owns the database again and again, or `lives` times. `wish` is the operator's.
pub(super) fn run(actor: &Actor, root: &str, lives: u64, wish: Option<&Wish>) {
    for _ in 0..lives {
        actor.rest(600);
        if actor.stage.is_over() {
            return;
        }
        let Some(mut life) = begin(actor, root, wish) else { continue };
        let end = life.live(wish);
        if matches!(end, End::Fenced) {
            // Who has lost it to another stays away for some time.
            actor.rest(7200);
        }
    }
}

fn begin<'a>(actor: &'a Actor, root: &'a str, wish: Option<&Wish>) -> Option<Life<'a>> {
    let home = actor.home(root);
    let token = actor.stage.token();
    let rewind = wish.and_then(|wish| wish.lock().unwrap().clone());
    let opening = Opening {
        rewind: rewind.clone(),
        snapshot_every: actor.stage.rules.snapshot_every,
        ..Opening::new(token)
    };
    if let Some(pin) = &rewind {
        actor.stage.ledger().expect_rewind(token, pin.version.0);
    }
    match VersionLog::open(&home, &opening) {
        Ok((log, replay)) => {
            if let Some(wish) = wish.filter(|_| rewind.is_some()) {
                *wish.lock().unwrap() = None;
            }
            Some(Life::new(actor, root, (home, token, log), &replay))
        }
        Err(error) => {
            actor.heed(&error);
            None
        }
    }
}

impl<'a> Life<'a> {
    fn new(
        actor: &'a Actor,
        root: &'a str,
        (home, token, log): (Home, Token, VersionLog),
        replay: &Replay,
    ) -> Self {
        let content = content::replayed(&replay.payloads);
        let seqno = content.values().map(|(seqno, _)| *seqno).max().unwrap_or(0);
        let numbers = replay.state.tables().keys().copied();
        let next = numbers.max().map_or(1, |last| last + 1);
        let expected = actor
            .stage
            .ledger()
            .version(root, replay.state.version().0)
            .map(|version| version.content == content);
        // With that mutant its first record is nowhere; what comes of it counts.
        if expected != Some(true) && actor.stage.mutant != Some(Mutant::TakeoverRecord) {
            let version = replay.state.version();
            actor.violation(format!("{root}: version {version} was replayed as something else"));
        }
        Life { actor, root, home, token, log, content, next, seqno }
    }

    fn live(&mut self, wish: Option<&Wish>) -> End {
        let step = self.adopt().and_then(|()| {
            loop {
                if self.actor.stage.is_over() {
                    break Ok(());
                }
                self.actor.rest(90);
                let wished = wish.is_some_and(|wish| wish.lock().unwrap().is_some());
                if self.actor.one_in(80) || wished && self.actor.one_in(4) {
                    break Ok(());
                }
                if let Err(end) = self.step() {
                    break Err(end);
                }
            }
        });
        step.err().unwrap_or(End::Death)
    }

    fn step(&mut self) -> Result<(), End> {
        if self.log.is_snapshot_due() {
            let payload = content::payload(Change::Whole, &self.content);
            let done = self.log.snapshot(vec![payload]);
            return self.settled(done, &Content::new());
        }
        if self.log.state().tables().len() > TABLES_MAX {
            return if self.actor.one_in(3) { self.job() } else { self.merge() };
        }
        self.flush()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn flush(&mut self) -> Result<(), End> {
        let number = self.number();
        let mut writes = Content::new();
        for _ in 0..=self.actor.stage.roll(4) {
            self.seqno += 1;
            let key = self.actor.stage.roll(KEYS) as u8;
            writes.insert(key, (self.seqno, self.log.epoch().0));
        }
        let id = self.log.table_id(number);
        let Some(table) = self.upload(id, &writes) else { return Ok(()) };
        let payloads = vec![content::payload(Change::Flush, &writes)];
        self.commit(Edit { payloads, added: vec![(number, table)], removed: Vec::new() }, &writes)?;
        content::merge(&mut self.content, &writes);
        Ok(())
    }

    /// Writes a table; at times all that comes of it is an orphan, or a long pause.
    fn upload(&self, id: TableId, writes: &Content) -> Option<siltstone_cloud::Table> {
        let done = upload(&self.home, id, &content::table(writes), Purpose::Flush);
        if self.actor.one_in(100) {
            self.actor.rest(3 * self.actor.stage.rules.age_min.as_secs());
        }
        let given_up = self.actor.one_in(15);
        done.inspect_err(|error| self.actor.heed(error)).ok().filter(|_| !given_up)
    }

    fn merge(&mut self) -> Result<(), End> {
        let Some((inputs, writes)) = self.inputs(2 + self.actor.stage.roll(3) as usize)? else {
            return Ok(());
        };
        let number = self.number();
        let id = self.log.table_id(number);
        let Some(table) = self.upload(id, &writes) else { return Ok(()) };
        self.install(number, table, inputs)
    }

    fn install(
        &mut self,
        number: u64,
        table: siltstone_cloud::Table,
        removed: Vec<u64>,
    ) -> Result<(), End> {
        let payloads = vec![content::payload(Change::Merge, &Content::new())];
        self.commit(Edit { payloads, added: vec![(number, table)], removed }, &Content::new())
    }

    /// Some tables, and what they hold together.
    fn inputs(&mut self, count: usize) -> Result<Option<(Vec<u64>, Content)>, End> {
        let tables: Vec<_> = self.log.state().tables().iter().map(|(n, t)| (*n, *t)).collect();
        let first = self.actor.stage.roll(tables.len() as u64) as usize;
        let chosen: Vec<_> =
            tables.iter().cycle().skip(first).take(count.min(tables.len())).collect();
        let mut writes = Content::new();
        for (number, table) in &chosen {
            match self.actor.table(&self.home, self.log.state(), table) {
                Got::Table(more) => content::merge(&mut writes, &more),
                Got::Unavailable => return Ok(None),
                Got::Missing => return self.miss(*number).map(|()| None),
            }
        }
        Ok(Some((chosen.iter().map(|(number, _)| *number).collect(), writes)))
    }

    /// A table of ours is not there: then we must have been fenced long ago.
    fn miss(&mut self, number: u64) -> Result<(), End> {
        self.commit(Edit::default(), &Content::new())?;
        self.actor.violation(format!("{}: the owner's table {number} is missing", self.root));
        Ok(())
    }

    /// A merge as workers do it: its durable record first, its output in its own folder.
    fn job(&mut self) -> Result<(), End> {
        let Some((inputs, writes)) = self.inputs(3)? else { return Ok(()) };
        let number = self.number();
        let job = self.log.job_id(number);
        let spec = self.home.root().job(job, "spec");
        let body: Vec<u8> = inputs.iter().flat_map(|number| number.to_le_bytes()).collect();
        let call = self.actor.call();
        if self.actor.client.put(&spec, body.into(), Condition::Always, call).is_err() {
            return Ok(());
        }
        let id = TableId::Worked { job, attempt: FIRST, ordinal: 0 };
        let Some(table) = self.upload(id, &writes) else { return Ok(()) };
        if self.actor.one_in(3) {
            return Err(End::Death);
        }
        self.install(number, table, inputs)?;
        self.forget(job);
        Ok(())
    }

    /// After its outcome is committed, or it has been given up.
    fn forget(&self, job: JobId) {
        let _ = self.actor.client.delete(&[self.home.root().job(job, "spec")], self.actor.call());
    }

    /// Goes on with jobs of earlier owners: their outputs are taken if they can be, or made again.
    fn adopt(&mut self) -> Result<(), End> {
        let Some(jobs) = self.jobs() else { return Ok(()) };
        let alive: Vec<JobId> =
            jobs.into_iter().filter(|job| self.log.state().is_alive(*job)).take(3).collect();
        self.keep_open(alive.clone());
        for job in alive {
            let spec = self.home.root().job(job, "spec");
            let Ok(spec) = self.actor.client.get(&spec, Part::Whole, self.actor.call()) else {
                continue;
            };
            let (numbers, _) = spec.body.as_chunks::<8>();
            let inputs: Vec<u64> =
                numbers.iter().map(|number| u64::from_le_bytes(*number)).collect();
            self.go_on(job, inputs)?;
        }
        self.keep_open(Vec::new());
        Ok(())
    }

    fn jobs(&self) -> Option<Vec<JobId>> {
        let (root, mut after) = (self.home.root(), String::new());
        let (prefix, mut jobs) = (format!("{}jobs/", self.root), Vec::new());
        loop {
            let page = self.actor.client.list(&prefix, &after, self.actor.call()).ok()?;
            let Some(last) = page.last() else { return Some(jobs) };
            after.clone_from(&last.name);
            let named = page.iter().filter_map(|stat| root.parse(&stat.name));
            jobs.extend(named.filter_map(|name| match name {
                Name::Job(job) if job.epoch != self.log.epoch() => Some(job),
                _ => None,
            }));
            if page.is_last {
                return Some(jobs);
            }
        }
    }

    fn go_on(&mut self, job: JobId, inputs: Vec<u64>) -> Result<(), End> {
        let mut writes = Content::new();
        for number in &inputs {
            let Some(table) = self.log.state().tables().get(number).copied() else {
                return Ok(());
            };
            match self.actor.table(&self.home, self.log.state(), &table) {
                Got::Table(more) => content::merge(&mut writes, &more),
                Got::Unavailable => return Ok(()),
                Got::Missing => return self.miss(*number),
            }
        }
        let number = self.number();
        let first = TableId::Worked { job, attempt: FIRST, ordinal: 0 };
        let body = content::table(&writes);
        let name = self.home.root().table(first);
        let there = self.actor.client.get(&name, Part::Whole, self.actor.call());
        // Its inputs may have been others: numbers of tables mean something else after a database was set back.
        let table = if there.is_ok_and(|object| object.body == body) {
            let (bytes, crc32c) = (body.len() as u64, crc32c::crc32c(&body));
            siltstone_cloud::Table { home: 0, id: first, bytes, crc32c }
        } else {
            // Whoever adopted it before may still be at it, so nobody else's attempt has this number.
            let term = u32::try_from(self.log.epoch().0).expect("fewer takeovers than that");
            let again = TableId::Worked { job, attempt: Attempt { term, ..FIRST }, ordinal: 0 };
            let Some(table) = self.upload(again, &writes) else { return Ok(()) };
            table
        };
        self.install(number, table, inputs)?;
        self.forget(job);
        Ok(())
    }

    fn keep_open(&mut self, held: Vec<JobId>) {
        let kept = self.log.keep_open(self.next, held);
        if let Err(error) = kept {
            self.actor.heed(&error);
        }
    }

    fn commit(&mut self, edit: Edit, writes: &Content) -> Result<(), End> {
        // Nothing else is under way, so all numbers up to here are named now or never. A job of an earlier owner that is
        // held stays so: only `adopt` says otherwise.
        if self.actor.one_in(2) && edit.added.iter().all(|(_, table)| is_own(table.id)) {
            self.keep_open(Vec::new());
        }
        let done = self.log.commit(edit);
        self.settled(done, writes)
    }

    /// Asks until it is known what has become of a commit, or dies without having learned it.
    fn settled(
        &mut self,
        mut done: Result<VersionNumber, Error>,
        writes: &Content,
    ) -> Result<(), End> {
        loop {
            let error = match done {
                Ok(version) => {
                    let mut ledger = self.actor.stage.ledger();
                    ledger.acknowledge(self.root, version.0, self.token, writes);
                    return Ok(());
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Fenced => {
                    self.actor.stage.ledger().fenced(self.root, self.log.epoch().0);
                    return Err(End::Fenced);
                }
                ErrorKind::Undecided if !self.actor.one_in(12) => {
                    self.actor.rest(10);
                    done = self.log.settle().map(|version| version.expect("one was undecided"));
                }
                _ => {
                    self.actor.heed(&error);
                    // What it does not know it cannot go on from.
                    return Err(End::Death);
                }
            }
        }
    }
}

fn is_own(id: TableId) -> bool {
    matches!(id, TableId::Own { .. })
}
