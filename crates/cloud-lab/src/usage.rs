//! M5: what a bucket was asked, by what it was for.

use siltstone_cloud::Purpose;
use siltstone_s3::{PurposeUse, Snapshot};

use crate::figure::{Figure, Unit};

/// What was asked between two looks.
pub(crate) struct Usage {
    by_purpose: Vec<Used>,
}

#[derive(Clone, Copy, Default)]
struct Used {
    requests: u64,
    bytes: u64,
    dollars: f64,
}

impl Usage {
    /// Since the bucket was opened.
    pub(crate) fn until(now: &Snapshot) -> Self {
        Usage::of(std::slice::from_ref(now))
    }

    /// Of several machines.
    pub(crate) fn of(machines: &[Snapshot]) -> Self {
        let by_purpose = Purpose::ALL.iter().map(|purpose| {
            let of_machines = machines.iter().map(|now| Used::of(now.of(*purpose), now));
            of_machines.fold(Used::default(), |all, one| Used {
                requests: all.requests + one.requests,
                bytes: all.bytes + one.bytes,
                dollars: all.dollars + one.dollars,
            })
        });
        Usage { by_purpose: by_purpose.collect() }
    }

    /// Since an earlier look.
    pub(crate) fn between(before: &Snapshot, now: &Snapshot) -> Self {
        let (before, mut usage) = (Usage::until(before), Usage::until(now));
        for (used, before) in usage.by_purpose.iter_mut().zip(before.by_purpose) {
            used.requests -= before.requests;
            used.bytes -= before.bytes;
            used.dollars -= before.dollars;
        }
        usage
    }

    /// Tells what so many operations of a kind took of it, for each purpose that there was.
    pub(crate) fn tell(&self, what: &str, operations: u64, tell: &mut dyn FnMut(Figure)) {
        let operations = operations.max(1) as f64;
        let asked = Purpose::ALL.iter().zip(&self.by_purpose);
        for (purpose, used) in asked.filter(|(_, used)| used.requests > 0) {
            let what = |figure: &str| format!("{what}, for {}: {figure}", purpose.name());
            let million = |count: f64| count * 1e6 / operations;
            let requests = million(used.requests as f64);
            tell(Figure::new("M5", what("requests of a million"), requests, Unit::Count));
            let bytes = used.bytes as f64 / operations;
            tell(Figure::new("M5", what("bytes of one"), bytes, Unit::Bytes));
            let dollars = million(used.dollars);
            tell(Figure::new("M5", what("price of a million"), dollars, Unit::Dollars));
        }
    }
}

impl Used {
    fn of(used: &PurposeUse, now: &Snapshot) -> Self {
        Used {
            requests: used.requests(),
            bytes: used.verbs.iter().map(|verb| verb.sent_bytes + verb.received_bytes).sum(),
            dollars: used.dollars(&now.prices),
        }
    }
}

#[cfg(test)]
mod tests {
    use siltstone_cloud::{Bucket, Call, Condition, Part};

    use super::*;
    use crate::stage::{Stage, small};

    #[test]
    fn what_was_asked_is_told_by_its_purpose() {
        let stage = Stage::new(&small("usage"));
        let bucket = stage.machine("usage").unwrap().bucket.clone();
        let put = |bytes: usize, purpose| {
            let body = vec![7; bytes].into();
            bucket.put("object", body, Condition::Always, Call::new(purpose)).unwrap();
        };
        put(300, Purpose::Flush);
        let before = bucket.meter();
        put(500, Purpose::Flush);
        put(700, Purpose::Flush);
        bucket.get("object", Part::Whole, Call::new(Purpose::Get)).unwrap();
        let now = bucket.meter();
        let told = |usage: Usage| {
            let mut figures = Vec::new();
            usage.tell("it", 4, &mut |figure| figures.push((figure.what, figure.value)));
            figures
        };
        let figures = told(Usage::between(&before, &now));
        let named = |name: &str| figures.iter().find(|(what, _)| what == name).unwrap().1;
        assert_eq!(figures.len(), 6, "two purposes: {figures:?}");
        assert_eq!(named("it, for flush: requests of a million"), 500_000.0);
        assert_eq!(named("it, for flush: bytes of one"), 300.0);
        assert!((named("it, for flush: price of a million") - 2.5).abs() < 1e-9);
        assert_eq!(named("it, for get: bytes of one"), 175.0);
        let twice = told(Usage::of(&[now.clone(), now]));
        assert_eq!(twice[0].1, 2.0 * 250_000.0 * 1.0, "{twice:?}");
    }
}
