//! Jobs that an opening of the database has given away, and the next one goes on with, or does not.

use std::sync::{Arc, Mutex};

use siltstone::service::{
    CompactionService, Completion, JobOutcome, JobSpec, JobSummary, JobTools, KeyRange, LeftJob,
    Submitted,
};
use siltstone::{Background, Compaction, Db, FileNumber, Level, Options};

use crate::away::{check, fill, options};
use crate::stage::{Desk, Objects, finished, run};

const WRITES_MIN: u32 = 6_000;

/// Knows of one job, and takes no other.
struct Heir {
    spec: JobSpec,
    gone_on: Mutex<Vec<Completion>>,
    dropped: Arc<Mutex<usize>>,
}

impl Heir {
    fn of(spec: JobSpec) -> Arc<Self> {
        Arc::new(Heir { spec, gone_on: Mutex::default(), dropped: Arc::default() })
    }
}

/// The service is the database's, and the test's.
struct Shared(Arc<Heir>);

impl CompactionService for Shared {
    fn wants(&self, _: &JobSummary) -> bool {
        false
    }

    fn submit(&self, _: JobSpec, _: &JobSummary, _: Completion) -> Box<dyn Submitted> {
        unreachable!("it wants none")
    }

    fn left_behind(&self) -> Vec<Box<dyn LeftJob>> {
        vec![Box::new(Left(Arc::clone(&self.0)))]
    }
}

struct Left(Arc<Heir>);

impl LeftJob for Left {
    fn spec(&self) -> &JobSpec {
        &self.0.spec
    }

    fn go_on(self: Box<Self>, done: Completion) -> Box<dyn Submitted> {
        self.0.gone_on.lock().unwrap().push(done);
        Box::new(Ticket)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        *self.0.dropped.lock().unwrap() += 1;
    }
}

struct Ticket;

impl Submitted for Ticket {
    fn cancel(&self) {}
}

/// A database that was closed while a job was away, and the job.
struct Remains {
    store: Arc<Objects>,
    options: Options,
    spec: JobSpec,
    writes: u32,
}

/// Something to be changed about each part of it.
fn has_all(spec: &JobSpec, compaction: Compaction) -> bool {
    spec.inputs.len() > 1 && (compaction != Compaction::Leveled || !spec.below.is_empty())
}

impl Remains {
    fn of(compaction: Compaction) -> Self {
        let store = Arc::new(Objects::default());
        // With something below it, where there is.
        let desk = Desk::taking(|job| job.from.level.number() == 1 && job.away == 0);
        let options = Options { compaction, level1_bytes: 8 << 10, ..options(&store, &desk) };
        let db = Db::open("db", options.clone()).unwrap();
        let mut writes = 0;
        let given = loop {
            fill(&db, writes..writes + 100);
            writes += 100;
            let mut given = None;
            while given.is_none() && db.run_background_step().unwrap() {
                given = desk.try_next();
            }
            match given {
                Some(given) if writes >= WRITES_MIN && has_all(&given.spec, compaction) => {
                    break given;
                }
                Some(given) => given.run(&store),
                None => {}
            }
        };
        let spec = given.spec.clone();
        db.close().unwrap();
        assert_eq!((desk.left(), desk.cancelled()), (vec![spec.number], Vec::new()));
        drop(given);
        Remains { store, options, spec, writes }
    }

    fn open(&self, heir: &Arc<Heir>) -> Db {
        let service: Arc<dyn CompactionService> = Arc::new(Shared(Arc::clone(heir)));
        let options = Options { compaction_service: Some(service), ..self.options.clone() };
        Db::open("db", options).unwrap()
    }

    fn outcome(&self) -> JobOutcome {
        let made = run(&self.store, (&self.spec, &JobTools::default()), &[], usize::MAX).unwrap();
        finished(&self.store, made)
    }
}

#[test]
fn a_job_that_closing_has_left_goes_on_and_is_installed() {
    for compaction in Compaction::ALL {
        let remains = Remains::of(compaction);
        let outcome = remains.outcome();
        let heir = Heir::of(remains.spec.clone());
        let db = remains.open(&heir);
        let done = heir.gone_on.lock().unwrap().pop().expect("it goes on");
        // Its tables are nobody else's meanwhile.
        fill(&db, remains.writes..remains.writes + 300);
        while db.run_background_step().unwrap() {}
        let inputs = remains.spec.inputs.iter().map(|input| input.number);
        inputs.for_each(|number| assert!(remains.store.get(number).is_some(), "{number}"));
        assert_eq!(db.metrics().merges_away, 0);
        done.complete(outcome);
        db.wait_for_background().unwrap();
        let metrics = db.metrics();
        assert_eq!((metrics.merges_away, metrics.merges_come_home), (1, 0));
        check(&db, remains.writes + 300);
        db.close().unwrap();
    }
}

#[test]
fn a_job_that_goes_on_may_come_home_or_be_left_again() {
    let remains = Remains::of(Compaction::Leveled);
    let heir = Heir::of(remains.spec.clone());
    let db = remains.open(&heir);
    assert_eq!(heir.gone_on.lock().unwrap().len(), 1);
    db.close().unwrap();
    heir.gone_on.lock().unwrap().clear();
    let db = remains.open(&heir);
    let done = heir.gone_on.lock().unwrap().pop().expect("once more");
    done.complete(JobOutcome::RunHere("nobody was there".to_owned()));
    db.wait_for_background().unwrap();
    assert_eq!((db.metrics().merges_away, db.metrics().merges_come_home), (0, 1));
    check(&db, remains.writes);
    db.close().unwrap();
    // It is over, and whoever tells of it is not believed.
    heir.gone_on.lock().unwrap().clear();
    let db = remains.open(&heir);
    assert!(heir.gone_on.lock().unwrap().is_empty());
    check(&db, remains.writes);
}

#[test]
fn jobs_that_would_not_begin_so_now_are_dropped() {
    type Change = fn(&mut JobSpec);
    let changes: [(&str, Change); 8] = [
        ("a table that there is not", |spec| spec.inputs[0].number = FileNumber(1_000_000)),
        ("another table", |spec| spec.inputs[0].span.smallest[0] += 1),
        ("of another size", |spec| spec.inputs[0].bytes += 1),
        ("fewer tables", |spec| drop(spec.inputs.pop())),
        ("no tables", |spec| spec.inputs.clear()),
        ("another way", |spec| spec.target.level = Level::new(5).unwrap()),
        ("another part", |spec| spec.part.until = Some(b"00700".to_vec())),
        ("does not know what lies below", |spec| {
            let nothing = KeyRange { low: b"0".to_vec(), high: b"0".to_vec() };
            spec.below = vec![vec![nothing]];
        }),
    ];
    let remains = Remains::of(Compaction::Leveled);
    for (what, change) in changes {
        let mut spec = remains.spec.clone();
        change(&mut spec);
        let heir = Heir::of(spec);
        // Nothing runs by itself, so that the next one finds what this one has found.
        assert_eq!(remains.options.background, Background::ByHand);
        let db = remains.open(&heir);
        assert_eq!(heir.gone_on.lock().unwrap().len(), 0, "{what}");
        assert_eq!(*heir.dropped.lock().unwrap(), 1, "{what}");
        db.close().unwrap();
    }
    let heir = Heir::of(remains.spec.clone());
    let db = remains.open(&heir);
    assert_eq!(heir.gone_on.lock().unwrap().len(), 1, "as it was");
    heir.gone_on.lock().unwrap().clear();
    db.wait_for_background().unwrap();
    check(&db, remains.writes);
}
