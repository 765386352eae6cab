//! Workers whose objects are not what they say: what the database does not find right, it merges itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use siltstone::service::JobTools;
use siltstone_cloud::{Bucket, Call, Condition, Part, Purpose};
use siltstone_fleet::{BucketRunner, FleetConfig, Verify};
use siltstone_remote::{
    JobFailure, JobResult, JobRunner, JobSpec, Patience, Policy, RunContext, WorkerConfig, WorkerId,
};

use crate::depot::{Depot, Slow};
use crate::stage::{Database, config, start_broker, start_running};

/// Does its work, and then something to what it has made.
struct Liar {
    honest: BucketRunner,
    bucket: Arc<Slow>,
    lie: fn(&mut Vec<u8>),
}

impl JobRunner for Liar {
    fn run(&self, spec: &JobSpec, context: &RunContext) -> Result<JobResult, JobFailure> {
        let result = self.honest.run(spec, context)?;
        for output in &result.outputs {
            let (name, call) = (output.name.as_str(), Call::new(Purpose::CompactOut));
            let mut body = self.bucket.get(name, Part::Whole, call).unwrap().body.to_vec();
            (self.lie)(&mut body);
            self.bucket.put(name, Bytes::from(body), Condition::Always, call).unwrap();
        }
        Ok(result)
    }
}

fn lies_are_found(lie: fn(&mut Vec<u8>), verify: Verify) {
    let (depot, broker) = (Depot::new(), start_broker(1, None));
    let runner = || BucketRunner::new(Arc::clone(&depot.bucket) as _, JobTools::default());
    let known = runner().capabilities();
    let liar = Liar { honest: runner(), bucket: Arc::clone(&depot.bucket), lie };
    let name = WorkerConfig::new(WorkerId::new("liar").unwrap(), 2, known, 1);
    let _worker = start_running(name, broker.socket(), Arc::new(liar));
    let patience = Patience { wait: Duration::from_secs(30), failures: 2 };
    let policy = Policy::PreferRemote(patience);
    let careful = FleetConfig { verify, policy, ..config(&depot) };
    let mut database = Database::open(&depot, broker.socket(), careful);
    let end = Instant::now() + Duration::from_secs(60);
    // Where level 0 presses, merges stay at home in the first place.
    while database.db.metrics().merges_come_home <= 2 {
        assert!(Instant::now() < end, "{:?}", database.db.metrics());
        database.write(3_000);
        database.rest();
    }
    database.check();
    let metrics = database.db.metrics();
    assert_eq!((metrics.merges_away, metrics.background_errors), (0, 0), "{metrics:?}");
}

#[test]
fn objects_of_another_size_are_not_taken() {
    lies_are_found(|body| body.push(0), Verify::Size);
}

#[test]
fn objects_with_other_bytes_are_not_taken_by_who_looks() {
    lies_are_found(|body| body[0] ^= 1, Verify::Bytes);
}
