//! One world: who is in it, their hours together, and what must be left when all is over.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use siltstone_cloud::{
    Bucket, CollectOptions, Collector, Edit, Error, Home, Opening, VersionLog, detach, list_pins,
    remove_pin,
};

use super::actor::{Actor, Wish};
use super::cheat::Mutant;
use super::client::Role;
use super::content::{self, Change};
use super::fate::Tally;
use super::stage::Stage;
use super::{collector, operator, reader, writer};

/// The database that most of them work on.
const ROOT: &str = "db/";
/// Lives of a writer: more than it has time for.
const LIVES: u64 = 1000;

/// What came of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) violations: Vec<String>,
    pub(super) trace: u64,
    pub(super) simulated: Duration,
    pub(super) tally: Tally,
    pub(super) writers: u64,
    pub(super) takeovers: u64,
    pub(super) rewound: u64,
    pub(super) gaps_filled: u64,
    pub(super) acknowledged: u64,
}

type Part = Box<dyn FnOnce(&Actor) + Send>;

/// Who there is.
fn cast(stage: &Stage, wish: &Wish) -> Vec<(Role, Part)> {
    let mut cast: Vec<(Role, Part)> = Vec::new();
    // One in three worlds has a single writer, which still dies and comes back.
    for _ in 0..1 + stage.roll(3) {
        let wish = Arc::clone(wish);
        let part: Part = Box::new(move |actor| writer::run(actor, ROOT, LIVES, Some(&wish)));
        cast.push((Role::Writer, part));
    }
    for _ in 0..1 + stage.roll(3) {
        cast.push((Role::Collector, Box::new(collector::run)));
    }
    for _ in 0..1 + stage.roll(2) {
        cast.push((Role::Reader, Box::new(|actor| reader::replica(actor, ROOT))));
    }
    cast.push((Role::Reader, Box::new(|actor| reader::visitor(actor, ROOT))));
    let wish = Arc::clone(wish);
    let checkpoints = move |actor: &Actor| operator::checkpoints(actor, ROOT, &wish);
    cast.push((Role::Reader, Box::new(checkpoints)));
    if stage.roll(2) == 0 {
        cast.push((Role::Writer, Box::new(operator::clones)));
    }
    cast
}

/// More than any cast has.
const SEATS: usize = 12;

/// Lives through the world of a seed.
pub(super) fn live(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let stage = Arc::new(Stage::new(seed, SEATS, mutant));
    let wish: Wish = Arc::new(Mutex::new(None));
    let cast = cast(&stage, &wish);
    let writers = cast.iter().filter(|(role, _)| *role == Role::Writer).count() as u64;
    let actors = cast.len();
    std::thread::scope(|scope| {
        for (me, (role, part)) in cast.into_iter().enumerate() {
            let stage = &stage;
            scope.spawn(move || {
                let actor = Actor::new(stage, me, role);
                stage.take_seat(me);
                if catch_unwind(AssertUnwindSafe(|| part(&actor))).is_err() {
                    actor.violation("it panicked".to_owned());
                }
                stage.leave();
            });
        }
        stage.begin(actors);
    });
    // What comes afterwards, in calm weather, is not counted.
    let simulated = stage.now().min(stage.rules.horizon);
    stage.drain();
    if !stage.ledger().has_violations() {
        settle(&stage);
    }
    Outcome { simulated, writers, ..outcome(&stage) }
}

fn outcome(stage: &Stage) -> Outcome {
    let trace = stage.trace_hash();
    let tally = stage.lock().tally;
    let ledger = stage.ledger();
    Outcome {
        violations: ledger.violations().to_vec(),
        trace,
        tally,
        takeovers: ledger.takeovers,
        rewound: ledger.rewound,
        gaps_filled: ledger.gaps_filled,
        acknowledged: ledger.acknowledged,
        ..Outcome::default()
    }
}

/// All is calm. Clones are detached, garbage is collected; then what is left is looked at.
fn settle(stage: &Arc<Stage>) {
    let seat = SEATS - 1;
    let actor = Actor::new(stage, seat, Role::Reader);
    let roots = stage.ledger().roots();
    let done = roots.iter().try_for_each(|root| put_in_order(&actor, root));
    let done = done.and_then(|()| {
        roots.iter().try_for_each(|root| drop_pins(&actor.home(root)))?;
        // Whatever lease anybody has left has ended by then.
        stage.sleep(seat, Duration::from_secs(100 * 3600));
        for root in roots.iter().chain(&roots) {
            collect(&actor, root)?;
            stage.sleep(seat, Duration::from_secs(3600));
        }
        Ok(())
    });
    if let Err(error) = done {
        actor.violation(format!("in calm weather: {error} ({:?})", error.kind()));
        return;
    }
    look(&actor, &roots);
}

fn put_in_order(actor: &Actor, root: &str) -> Result<(), Error> {
    let token = actor.stage.token();
    let (mut log, replay) = VersionLog::open(&actor.home(root), &Opening::new(token))?;
    let content = content::replayed(&replay.payloads);
    reader::compare(actor, root, replay.state.version(), &content);
    let payload = content::payload(Change::Whole, &content);
    let mut next = replay.state.tables().keys().max().map_or(1, |last| last + 1);
    detach(&mut log, vec![payload], || {
        next += 1;
        next
    })?;
    log.keep_open(next + 1, Vec::new())?;
    log.commit(Edit::default())?;
    let state = log.state().clone();
    let until = Duration::MAX;
    reader::read_all(actor, root, (&actor.home(root), &state), until, &content);
    Ok(())
}

/// Whoever made them is gone.
fn drop_pins(home: &Home) -> Result<(), Error> {
    list_pins(home)?.iter().try_for_each(|pin| remove_pin(home, pin))
}

fn collect(actor: &Actor, root: &str) -> Result<(), Error> {
    let age_min = actor.stage.rules.age_min;
    let options = CollectOptions { age_min, reconcile: true, ..CollectOptions::default() };
    Collector::new(&actor.home(root), options).collect(actor.stage.token()).map(drop)
}

/// What is left must be what belongs there.
fn look(actor: &Actor, roots: &[String]) {
    let mut must: BTreeSet<String> = BTreeSet::new();
    for root in roots {
        must.extend(actor.stage.ledger().must_remain(root));
    }
    let (mut there, mut after) = (BTreeSet::new(), String::new());
    while let Ok(page) = actor.stage.memory.list("", &after, actor.call())
        && let Some(last) = page.last()
    {
        after.clone_from(&last.name);
        there.extend(page.stats.into_iter().map(|stat| stat.name));
    }
    for name in there.difference(&must) {
        actor.violation(format!("{name} was leaked"));
    }
    for name in must.difference(&there) {
        actor.violation(format!("{name} is gone"));
    }
}
