//! M13: how far a replica that looks for new versions, or is told of them, is behind the bucket, and what an hour of it asks
//! for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use siltstone::{Clock, Env, Result};
use siltstone_cloud::{Announce, Following, Home, LocalCopies, Replica, ReplicaOptions};

use crate::crew::{Crew, Workers};
use crate::figure::{Figure, Unit, Wanted, quantile};
use crate::stage::{
    CACHE_BYTES, Dice, Extras, Machine, Mode, Opened, Plan, Stage, engine, key, wrong,
};

/// New versions, so far apart on average.
const VERSIONS: u64 = 40;
const APART: Duration = Duration::from_millis(500);
/// Entries of each.
const ENTRIES: u64 = 100;
/// How long a replica may take to show one.
const WITHIN: Duration = Duration::from_secs(120);
/// How finely it is looked at.
const GLANCE: Duration = Duration::from_micros(500);
/// What somebody who is told should be behind at most.
const PUSHED_WITHIN_MICROS: f64 = 50_000.0;
const HOUR: Duration = Duration::from_secs(3600);
/// So many times as fast goes the clock of a replica that is only there.
const HURRY: u32 = 120;

/// How a replica learns of a version.
#[derive(Clone, Copy)]
enum Way {
    /// By looking.
    Looks(Following),
    /// By a broker, to which the writer announces it, and asks for it so many times at once, or as often as usual. It looks as usual
    /// only where that fails.
    IsTold { asks: Option<usize> },
}

/// A replica beside a writer, looking each second, ten times a second, and when it is told, and one of which nobody writes.
///
/// # Errors
///
/// Whatever a database meets.
pub fn replicas(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let often = Duration::from_millis(100);
    let often = Following { busy: often, idle: often, ..Following::default() };
    let ways = [
        ("looks each second", Way::Looks(Following::default())),
        ("each 0.1 s", Way::Looks(often)),
        ("is told", Way::IsTold { asks: None }),
        ("is told, asks once", Way::IsTold { asks: Some(1) }),
    ];
    for (name, way) in ways {
        let followed = follow(plan, way, VERSIONS)?;
        report(name, &followed, tell);
    }
    let (requests, dollars) = idle_hour(plan, HURRY)?;
    let what = "nothing is written: requests of an hour";
    tell(Figure::new("M13", what, requests, Unit::Count));
    let what = "nothing is written: price of an hour";
    tell(Figure::new("M13", what, dollars, Unit::Dollars));
    Ok(())
}

/// What a replica has done.
struct Followed {
    /// From the commit of a version until it was shown, in microseconds.
    lags: Vec<f64>,
    /// From when the writer announced a version until the replica was told, if it was.
    news: Vec<f64>,
    requests_per_version: f64,
    requests_per_hour: f64,
    dollars_per_hour: f64,
}

fn report(name: &str, followed: &Followed, tell: &mut dyn FnMut(Figure)) {
    let what = |figure: &str| format!("{name}: {figure}");
    let is_told = !followed.news.is_empty();
    for (share, shown) in [(0.5, "p50"), (0.99, "p99")] {
        if is_told {
            let news = quantile(&followed.news, share);
            let what = what(&format!("news takes, {shown}"));
            tell(Figure::new("M13", what, news, Unit::Micros));
        }
        let lag = quantile(&followed.lags, share);
        let lag = Figure::new("M13", what(&format!("behind, {shown}")), lag, Unit::Micros);
        tell(if is_told { lag.wanted(Wanted::AtMost(PUSHED_WITHIN_MICROS)) } else { lag });
    }
    let requests = followed.requests_per_version;
    tell(Figure::new("M13", what("requests for each version"), requests, Unit::Count));
    let requests = followed.requests_per_hour;
    tell(Figure::new("M13", what("requests of an hour, written to"), requests, Unit::Count));
    let dollars = followed.dollars_per_hour;
    tell(Figure::new("M13", what("price of an hour, written to"), dollars, Unit::Dollars));
}

fn follow(plan: &Plan, way: Way, versions: u64) -> Result<Followed> {
    let stage = Stage::new(plan);
    let crew = Crew::start(&stage, Workers { count: 0, slots: 0 })?;
    let client = crew.client(plan.seed)?;
    let machine = stage.machine("owner")?;
    let (announced, told) = (Times::default(), Times::default());
    let announce =
        matches!(way, Way::IsTold { .. }).then(|| announce(client.announce(), &announced));
    let extras = Extras { announce, ..Extras::default() };
    let db = machine.open_with(Mode::Tiered, LocalCopies::All, extras)?;
    let mut dice = Dice(plan.seed);
    commit(&db, plan, &mut dice)?;
    let reader = stage.machine("replica")?;
    let (following, asks) = match way {
        Way::Looks(following) => (following, None),
        Way::IsTold { asks } => (Following::default(), asks),
    };
    let replica = replica(&reader, &reader.home, following, asks)?;
    let listener = match way {
        Way::Looks(_) => None,
        Way::IsTold { .. } => Some(crew.listen(plan.seed, hear(&replica, &told))?),
    };
    if listener.is_some() {
        wait_until("no news came", || Ok(!told.all().is_empty()))?;
    }
    let (before, begin) = (reader.bucket.meter(), Instant::now());
    let mut lags = Vec::new();
    for _ in 0..versions {
        // At any moment between two looks.
        std::thread::sleep(APART / 2 + APART.mul_f64(dice.below(1_000) as f64 / 1e3));
        let version = commit(&db, plan, &mut dice)?;
        lags.push(wait_for(&replica, version)?);
    }
    let (after, seconds) = (reader.bucket.meter(), begin.elapsed().as_secs_f64());
    drop((listener, replica));
    db.close()?;
    let hours = seconds / HOUR.as_secs_f64();
    let requests = (after.requests() - before.requests()) as f64;
    Ok(Followed {
        lags,
        news: news(&announced, &told),
        requests_per_version: requests / versions as f64,
        requests_per_hour: requests / hours,
        dollars_per_hour: (after.dollars() - before.dollars()) / hours,
    })
}

/// When something happened to a version first.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<BTreeMap<u64, Instant>>>);

impl Times {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        // Nothing under the lock stops half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, version: u64) {
        self.all().entry(version).or_insert_with(Instant::now);
    }
}

fn announce(announce: Announce, announced: &Times) -> Announce {
    let announced = announced.clone();
    Arc::new(move |version| {
        announced.note(version.0);
        announce(version);
    })
}

fn hear(replica: &Replica, told: &Times) -> impl Fn(u64) + Send + Sync + 'static {
    let (news, told) = (replica.news(), told.clone());
    move |version| {
        told.note(version);
        news.tell(version);
    }
}

/// From each announcement until it, or a later one, was told of, but for what was announced before anybody listened.
fn news(announced: &Times, told: &Times) -> Vec<f64> {
    let told = told.all();
    let Some(first) = told.keys().next().copied() else { return Vec::new() };
    let announced = announced.all();
    let heard = announced.range(first + 1..).filter_map(|(version, said)| {
        let heard = told.range(version..).map(|(_, heard)| *heard).min()?;
        Some((heard - *said).as_secs_f64() * 1e6)
    });
    heard.collect()
}

/// Writes something, and waits until the bucket has it as a version, which it returns.
fn commit(db: &Opened, plan: &Plan, dice: &mut Dice) -> Result<u64> {
    let mut value = vec![0; plan.value_bytes];
    for _ in 0..ENTRIES {
        dice.fill(&mut value);
        db.put(key(dice.below(plan.records)), &value)?;
    }
    db.flush()?;
    let Opened::There(db) = db else { return Err(wrong("a database in a folder has no replicas")) };
    db.wait_for_bucket(WITHIN)?;
    Ok(db.cloud_metrics().version)
}

/// How long it takes from now until a replica shows a version.
fn wait_for(replica: &Replica, version: u64) -> Result<f64> {
    let committed = Instant::now();
    wait_until(&format!("no replica shows version {version}"), || match replica.failure() {
        Some(error) => Err(error.into()),
        None => Ok(replica.version() >= version),
    })?;
    Ok(committed.elapsed().as_secs_f64() * 1e6)
}

fn wait_until(what_if_not: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !holds()? {
        if begun.elapsed() > WITHIN {
            return Err(wrong(what_if_not));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(())
}

fn replica(
    machine: &Machine,
    home: &Home,
    following: Following,
    asks: Option<usize>,
) -> Result<Replica> {
    let options = engine(None);
    let reads = machine.reads(&options, Some(CACHE_BYTES))?;
    let replica = ReplicaOptions::default().with_reads(reads);
    let replica = match asks {
        Some(times) => replica.with_requests_at_once(times),
        None => replica,
    };
    Replica::follow(home, options, replica, following)
}

/// Requests and dollars of the first hour in which a replica finds nothing new, on a clock that hurries so much.
fn idle_hour(plan: &Plan, times: u32) -> Result<(f64, f64)> {
    let stage = Stage::new(plan);
    let owner = stage.machine("owner")?;
    let db = owner.open(Mode::Tiered, LocalCopies::All)?;
    commit(&db, plan, &mut Dice(plan.seed))?;
    db.close()?;
    let reader = stage.machine("replica")?;
    let clock: Arc<dyn Clock> = Arc::new(Hurried { inner: Env::posix().clock, times });
    let bucket = Arc::clone(reader.home.bucket());
    let home = Home::new(bucket, reader.home.root().clone(), Arc::clone(&clock));
    let replica = replica(&reader, &home, Following::default(), None)?;
    let before = reader.bucket.meter();
    clock.sleep(HOUR);
    let after = reader.bucket.meter();
    if let Some(error) = replica.failure() {
        return Err(error.into());
    }
    Ok(((after.requests() - before.requests()) as f64, after.dollars() - before.dollars()))
}

/// A clock that hurries, so that an hour can be waited for.
struct Hurried {
    inner: Arc<dyn Clock>,
    times: u32,
}

impl Clock for Hurried {
    fn now(&self) -> Duration {
        self.inner.now() * self.times
    }

    /// Nobody here reckons with it.
    fn wall_micros(&self) -> u64 {
        self.inner.wall_micros()
    }

    fn sleep(&self, time: Duration) {
        self.inner.sleep(time / self.times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::small;

    #[test]
    fn a_replica_shows_each_version_and_asks_for_it() {
        let plan = small("follow");
        let often = Duration::from_millis(50);
        let following = Following { busy: often, idle: often, ..Following::default() };
        let followed = follow(&plan, Way::Looks(following), 3).unwrap();
        check(&followed, 3);
        assert!(followed.news.is_empty());
    }

    #[test]
    fn a_replica_that_is_told_shows_each_version_too() {
        let plan = small("told");
        let followed = follow(&plan, Way::IsTold { asks: None }, 3).unwrap();
        check(&followed, 3);
        let followed = follow(&plan, Way::IsTold { asks: Some(1) }, 3).unwrap();
        check(&followed, 3);
        assert!(!followed.news.is_empty(), "the broker passes on what is announced");
        let mut figures = Vec::new();
        report("is told", &followed, &mut |figure| figures.push(figure));
        let wanted: Vec<&str> = figures
            .iter()
            .filter(|figure| figure.wanted.is_some())
            .map(|figure| figure.what.as_str())
            .collect();
        assert_eq!(wanted, ["is told: behind, p50", "is told: behind, p99"]);
    }

    fn check(followed: &Followed, versions: usize) {
        assert_eq!(followed.lags.len(), versions);
        // A record and a table, at the least.
        assert!(followed.requests_per_version >= 2.0, "{}", followed.requests_per_version);
        assert!(followed.requests_per_hour > 0.0 && followed.dollars_per_hour > 0.0);
    }

    #[test]
    fn an_idle_replica_looks_once_a_minute_and_renews_its_lease() {
        let plan = small("idle");
        let (requests, dollars) = idle_hour(&plan, 1_800).unwrap();
        // 60 looks and 36 renewals; some more looks at first, and fewer where the machine is slow.
        assert!((40.0..130.0).contains(&requests), "{requests}");
        assert!(dollars > 0.0);
    }
}
