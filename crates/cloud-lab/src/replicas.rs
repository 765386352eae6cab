//! M13: how far a replica that looks for new versions is behind the bucket, and what an hour of it asks for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::{Clock, Env, Result};
use siltstone_cloud::{Following, Home, LocalCopies, Replica, ReplicaOptions};

use crate::figure::{Figure, Unit, Wanted, quantile};
use crate::stage::{Dice, Machine, Mode, Opened, Plan, Stage, engine, key, wrong};

/// New versions, so far apart on average.
const VERSIONS: u64 = 40;
const APART: Duration = Duration::from_millis(500);
/// Entries of each.
const ENTRIES: u64 = 100;
/// How long a replica may take to show one.
const WITHIN: Duration = Duration::from_secs(120);
/// How finely it is looked at.
const GLANCE: Duration = Duration::from_micros(500);
const HOUR: Duration = Duration::from_secs(3600);
/// So many times as fast goes the clock of a replica that is only there.
const HURRY: u32 = 120;

/// A replica beside a writer, looking each second and ten times a second, and one of which nobody writes.
///
/// # Errors
///
/// Whatever a database meets.
pub fn replicas(plan: &Plan, tell: &mut dyn FnMut(Figure)) -> Result<()> {
    let often = Duration::from_millis(100);
    let often = Following { busy: often, idle: often, ..Following::default() };
    for (name, following) in [("looks each second", Following::default()), ("each 0.1 s", often)] {
        let followed = follow(plan, following, VERSIONS)?;
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
    requests_per_hour: f64,
    dollars_per_hour: f64,
}

fn report(name: &str, followed: &Followed, tell: &mut dyn FnMut(Figure)) {
    let what = |figure: &str| format!("{name}: {figure}");
    let lag = |share| quantile(&followed.lags, share);
    tell(Figure::new("M13", what("behind, p50"), lag(0.5), Unit::Micros));
    // What a push should reach; there is none yet.
    let p99 = Figure::new("M13", what("behind, p99"), lag(0.99), Unit::Micros);
    tell(p99.wanted(Wanted::AtMost(50_000.0)));
    let requests = followed.requests_per_hour;
    tell(Figure::new("M13", what("requests of an hour, written to"), requests, Unit::Count));
    let dollars = followed.dollars_per_hour;
    tell(Figure::new("M13", what("price of an hour, written to"), dollars, Unit::Dollars));
}

fn follow(plan: &Plan, following: Following, versions: u64) -> Result<Followed> {
    let stage = Stage::new(plan);
    let machine = stage.machine("owner")?;
    let db = machine.open(Mode::Tiered, LocalCopies::All)?;
    let mut dice = Dice(plan.seed);
    commit(&db, plan, &mut dice)?;
    let reader = stage.machine("replica")?;
    let replica = replica(&reader, &reader.home, following)?;
    let (before, begin) = (reader.bucket.meter(), Instant::now());
    let mut lags = Vec::new();
    for _ in 0..versions {
        // At any moment between two looks.
        std::thread::sleep(APART / 2 + APART.mul_f64(dice.below(1_000) as f64 / 1e3));
        let version = commit(&db, plan, &mut dice)?;
        lags.push(wait_for(&replica, version)?);
    }
    let (after, hours) =
        (reader.bucket.meter(), begin.elapsed().as_secs_f64() / HOUR.as_secs_f64());
    drop(replica);
    db.close()?;
    Ok(Followed {
        lags,
        requests_per_hour: (after.requests() - before.requests()) as f64 / hours,
        dollars_per_hour: (after.dollars() - before.dollars()) / hours,
    })
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
    while replica.version() < version {
        if let Some(error) = replica.failure() {
            return Err(error.into());
        }
        if committed.elapsed() > WITHIN {
            return Err(wrong(format!("no replica shows version {version}")));
        }
        std::thread::sleep(GLANCE);
    }
    Ok(committed.elapsed().as_secs_f64() * 1e6)
}

fn replica(machine: &Machine, home: &Home, following: Following) -> Result<Replica> {
    let options = engine(None);
    let reads = machine.reads(&options)?;
    Replica::follow(home, options, ReplicaOptions::default().with_reads(reads), following)
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
    let replica = replica(&reader, &home, Following::default())?;
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
        let followed = follow(&plan, following, 3).unwrap();
        assert_eq!(followed.lags.len(), 3);
        assert!(followed.lags.iter().all(|lag| *lag > 0.0), "{:?}", followed.lags);
        // One look and one table a version, at the least.
        let versions_per_hour = HOUR.as_secs_f64() / APART.as_secs_f64() / 2.0;
        assert!(followed.requests_per_hour > versions_per_hour, "{}", followed.requests_per_hour);
        assert!(followed.dollars_per_hour > 0.0);
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
