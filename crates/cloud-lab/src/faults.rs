//! M9: what becomes of merges at workers, and of the database, when workers, wires, the broker or the database itself fail half
//! way. Each time the same database is merged by two workers.

mod contents;
mod gate;

use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::Result;
use siltstone_cloud::LocalCopies;
use siltstone_remote::loopback::{Wire, Worker};
use siltstone_remote::{BackoffLimits, BrokerConfig, JobState};

use crate::crew::{Client, Crew, Hand};
use crate::figure::{Figure, Unit, Wanted, median};
use crate::merges::backlog::{Backlog, deep};
use crate::merges::{extras, wait_for_bucket};
use crate::stage::{Machine, Mode, Opened, Plan, Stage, wrong};
use contents::Contents;
use gate::Gate;

/// Short, so that a fault is over in seconds.
const LEASE: Duration = Duration::from_secs(1);
/// An output takes a worker so much longer than the store does, so that faults find jobs under way.
const PACE: Duration = Duration::from_millis(40);
/// As many times longer it takes the slow one.
const SLOW: u32 = 10;
/// The one that is to fail, and the other.
const WORKERS: [&str; 2] = ["victim", "other"];
/// A job under way has so many outputs at the least.
const OUTPUTS_MIN: u64 = 1;
const WITHIN: Duration = Duration::from_secs(60);

/// What happens to the first worker, or to others, while it has a job under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Killed,
    Paused,
    CutOffBriefly,
    CutOff,
    Slow,
    Doubled,
    Cloned,
    BrokerAgain,
    WriterAgain,
    WriterKilled,
}

impl Fault {
    const ALL: [Fault; 11] = [
        Fault::None,
        Fault::Killed,
        Fault::Paused,
        Fault::CutOffBriefly,
        Fault::CutOff,
        Fault::Slow,
        Fault::Doubled,
        Fault::Cloned,
        Fault::BrokerAgain,
        Fault::WriterAgain,
        Fault::WriterKilled,
    ];

    fn name(self) -> &'static str {
        match self {
            Fault::None => "no fault",
            Fault::Killed => "worker killed",
            Fault::Paused => "worker paused for two leases",
            Fault::CutOffBriefly => "worker cut off for half a lease",
            Fault::CutOff => "worker cut off for two leases",
            Fault::Slow => "worker ten times slower",
            Fault::Doubled => "a second process of its name",
            Fault::Cloned => "a copy of its process",
            Fault::BrokerAgain => "broker restarted",
            Fault::WriterAgain => "database closed and opened",
            Fault::WriterKilled => "database killed and opened",
        }
    }
}

/// Has the same database merged once for each fault, and tells what that has cost.
///
/// # Errors
///
/// Whatever a database meets, or if a fault finds no job under way: then there are too few entries.
pub fn faults(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let backlog = over_a_quarter(plan);
    let (store, written) = (backlog.store(plan)?, Contents::written(backlog, plan)?);
    tell(sum("contents as written: sum", &written));
    let mut outcomes = Fault::ALL.map(|_| Vec::new());
    for _ in 0..plan.runs {
        for (fault, outcomes) in Fault::ALL.into_iter().zip(&mut outcomes) {
            outcomes.push(suffer(&store, fault)?);
        }
    }
    for (fault, outcomes) in Fault::ALL.into_iter().zip(&outcomes) {
        report(fault, (&written, outcomes), tell);
    }
    Ok(())
}

/// For each four tables of level 2 one above, so that jobs have several outputs.
fn over_a_quarter(plan: &Plan) -> Backlog {
    Backlog { again: plan.records / 4, flush_tables: 1 }
}

/// What came of one run.
struct Outcome {
    found: Contents,
    /// Until all was merged and in the bucket.
    took: Duration,
    attempts: u64,
    jobs: u64,
    /// Tables that workers put into the bucket, and that the database took.
    made: u64,
    adopted: u64,
    came_home: u64,
}

impl Outcome {
    fn wasted(&self) -> u64 {
        self.made.saturating_sub(self.adopted)
    }
}

fn sum(what: &str, contents: &Contents) -> Figure {
    Figure::new("M9", what, f64::from(contents.digest()), Unit::Checksum)
}

/// The worst of all runs; of times the middle one.
fn report(
    fault: Fault,
    (written, outcomes): (&Contents, &[Outcome]),
    tell: &mut dyn FnMut(Figure),
) {
    let what = |figure: &str| format!("{}: {figure}", fault.name());
    let most = |of: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(of).max().unwrap_or(0) as f64;
    let count = |figure: &str, value| Figure::new("M9", what(figure), value, Unit::Count);
    let lost = most(&|outcome| written.lost_in(&outcome.found));
    tell(count("keys lost, or with other values", lost).wanted(Wanted::AtMost(0.0)));
    if let Some(last) = outcomes.last() {
        tell(sum(&what("contents: sum"), &last.found));
    }
    let wasted = most(&Outcome::wasted);
    tell(count("output files made in vain", wasted).wanted(Wanted::AtMost(1.0)));
    tell(count("output files", most(&|outcome| outcome.made)));
    let took = outcomes.iter().map(|outcome| outcome.took.as_secs_f64() * 1e6).collect();
    tell(Figure::new("M9", what("until all is merged"), median(took), Unit::Micros));
    tell(count("jobs", most(&|outcome| outcome.jobs)));
    tell(count("attempts", most(&|outcome| outcome.attempts)));
    tell(count("merges that came home", most(&|outcome| outcome.came_home)));
}

/// Two workers, a database, and wires from the first worker and the database to the broker. What ends first stands first.
struct Scene {
    workers: Vec<Worker>,
    gates: Vec<Arc<Gate>>,
    wire: Wire,
    client_wire: Wire,
    crew: Crew,
    stage: Stage,
    machines: Vec<Machine>,
    /// Of brokers that have ended.
    attempts: u64,
    term: u32,
}

fn config(plan: &Plan, term: u32) -> BrokerConfig {
    let retry =
        BackoffLimits { first: Duration::from_millis(10), most: Duration::from_millis(100) };
    BrokerConfig { lease: LEASE, heartbeat: LEASE / 4, retry, ..BrokerConfig::new(term, plan.seed) }
}

impl Scene {
    fn set(stage: Stage, fault: Fault) -> Result<Self> {
        let crew = Crew::without_workers(config(stage.plan(), 1))?;
        let wire = Wire::to(crew.socket()).map_err(wrong)?;
        let client_wire = Wire::to(crew.socket()).map_err(wrong)?;
        let (workers, gates, machines) = (Vec::new(), Vec::new(), Vec::new());
        let (attempts, term) = (0, 1);
        let mut scene =
            Scene { workers, gates, wire, client_wire, crew, stage, machines, attempts, term };
        let slow = if fault == Fault::Slow { SLOW } else { 1 };
        scene.hire(WORKERS[0], 0, PACE * slow)?;
        scene.hire(WORKERS[1], 1, PACE)?;
        Ok(scene)
    }

    /// The victim is at the end of the wire.
    fn hire(&mut self, name: &str, seed: u64, pace: Duration) -> Result<()> {
        let machine = self.stage.machine(name)?;
        let gate = Arc::new(Gate::new(Arc::clone(&machine.bucket) as _, pace));
        let is_victim = name == WORKERS[0];
        let broker = if is_victim { self.wire.socket() } else { self.crew.socket() };
        let hand = Hand { name, seed, slots: 1, broker };
        self.workers.push(self.crew.hire(hand, Arc::clone(&gate) as _)?);
        self.gates.push(gate);
        self.machines.push(machine);
        Ok(())
    }

    fn client(&self) -> Result<Client> {
        self.crew.client_by(self.client_wire.socket(), self.stage.plan().seed)
    }

    fn open(&self, machine: &Machine, client: &Client) -> Result<Opened> {
        let extras = extras(Some(deep(self.stage.plan())), client);
        machine.open_with(Mode::Tiered, LocalCopies::UpTo(0), extras)
    }

    /// Until the first worker is in the middle of a job.
    fn wait_for_victim(&self) -> Result<()> {
        until("a job of the first worker's is under way", || {
            self.crew.views().iter().any(|job| {
                let worker = job.attempt.as_ref().map(|(_, worker)| worker.as_str());
                job.state == JobState::Running
                    && job.outputs >= OUTPUTS_MIN
                    && worker == Some(WORKERS[0])
            })
        })
    }

    /// All that happens to others than the database.
    fn strike(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::None | Fault::Slow | Fault::WriterAgain | Fault::WriterKilled => Ok(()),
            Fault::Killed => {
                self.gates[0].kill();
                self.workers.remove(0).kill();
                Ok(())
            }
            Fault::Paused => {
                self.gates[0].pause(LEASE * 2);
                self.workers[0].pause(LEASE * 2);
                Ok(())
            }
            Fault::CutOffBriefly => self.cut_off(LEASE / 2),
            Fault::CutOff => self.cut_off(LEASE * 2),
            Fault::Doubled => self.hire(WORKERS[0], 2, PACE),
            Fault::Cloned => self.hire(WORKERS[0], 0, PACE),
            Fault::BrokerAgain => {
                self.attempts += self.crew.attempts();
                self.term += 1;
                self.crew.restart_broker(config(self.stage.plan(), self.term))
            }
        }
    }

    fn cut_off(&mut self, time: Duration) -> Result<()> {
        self.wire.cut();
        std::thread::sleep(time);
        self.wire.mend().map_err(wrong)
    }
}

/// Merges the database once, with a fault on the way.
fn suffer(store: &Stage, fault: Fault) -> Result<Outcome> {
    let mut scene = Scene::set(store.as_of_now(), fault)?;
    let machine = scene.stage.machine("database")?;
    let mut client = scene.client()?;
    let begin = Instant::now();
    let mut db = scene.open(&machine, &client)?;
    let mut came_home = 0;
    if fault != Fault::None {
        scene.wait_for_victim()?;
    }
    scene.strike(fault)?;
    if matches!(fault, Fault::WriterAgain | Fault::WriterKilled) {
        came_home += db.metrics().merges_come_home;
        if fault == Fault::WriterKilled {
            // Nobody is told that its jobs are not wanted any more.
            scene.client_wire.cut();
        }
        drop(db);
        drop(client);
        scene.client_wire.mend().map_err(wrong)?;
        client = scene.client()?;
        db = scene.open(&machine, &client)?;
    }
    db.wait_for_background()?;
    wait_for_bucket(&db)?;
    let took = begin.elapsed();
    until("no attempt runs on", || scene.crew.jobs().running() == 0)?;
    let outcome = Outcome {
        found: Contents::of(&db, scene.stage.plan())?,
        took,
        attempts: scene.attempts + scene.crew.attempts(),
        jobs: scene.crew.jobs().submitted(),
        made: scene.gates.iter().map(|gate| gate.outputs()).sum(),
        adopted: scene.crew.jobs().adopted(),
        came_home: came_home + db.metrics().merges_come_home,
    };
    db.close()?;
    drop(client);
    Ok(outcome)
}

fn until(what: &str, holds: impl Fn() -> bool) -> Result<()> {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > WITHIN {
            return Err(wrong(format!("not within {WITHIN:?}: {what}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    fn outcome(fault: Fault, name: &str) -> Outcome {
        let plan = small(name);
        let backlog = over_a_quarter(&plan);
        let written = Contents::written(backlog, &plan).unwrap();
        let outcome = suffer(&backlog.store(&plan).unwrap(), fault).unwrap();
        assert_eq!(written.lost_in(&outcome.found), 0);
        assert_eq!(written.digest(), outcome.found.digest());
        assert!(outcome.jobs > 1 && outcome.adopted > outcome.jobs, "{}", outcome.adopted);
        outcome
    }

    /// On a busy machine a lease may end though nobody has failed: then another attempt is made.
    fn extra_attempts(outcome: &Outcome) -> u64 {
        outcome.attempts.saturating_sub(outcome.jobs)
    }

    #[test]
    fn without_a_fault_each_output_is_taken() {
        let outcome = outcome(Fault::None, "no-fault");
        assert!(outcome.wasted() <= extra_attempts(&outcome), "{}", outcome.made);
        assert!(outcome.attempts >= outcome.jobs && outcome.came_home == 0);
    }

    #[test]
    fn what_a_killed_worker_has_made_is_gone_on_with() {
        let outcome = outcome(Fault::Killed, "killed");
        let extra = extra_attempts(&outcome);
        assert!(extra > 0 && outcome.wasted() <= extra, "{extra}: {}", outcome.made);
    }

    /// Two that put each other out of their sessions begin every job anew, again and again.
    #[test]
    fn a_worker_and_its_copy_do_not_fight() {
        let outcome = outcome(Fault::Cloned, "cloned");
        let extra = extra_attempts(&outcome);
        assert!(outcome.wasted() <= 1 + extra && extra <= 4, "{extra}: {}", outcome.made);
    }

    #[test]
    fn a_broker_that_starts_again_and_a_database_that_does_lose_nothing() {
        for (fault, name) in [(Fault::BrokerAgain, "broker"), (Fault::WriterKilled, "writer")] {
            let outcome = outcome(fault, name);
            assert!(outcome.made >= outcome.adopted, "a table that nobody has made was taken");
            let wasted = outcome.wasted();
            assert!(wasted <= 1 + extra_attempts(&outcome), "{fault:?}: {wasted}");
        }
    }
}
