//! What goes, and its going.

use std::collections::BTreeSet;
use std::time::Duration;

use super::reach::Reach;
use super::view::View;
use super::{Doomed, Reason};
use crate::bucket::Purpose;
use crate::error::{Error, ErrorKind, Outcome};
use crate::home::Home;
use crate::log::owner::{self, Owner};
use crate::names::Name;

/// Tables that records speak of, and no kept version has. Whether they may be named does not matter: a table is named
/// once.
pub(super) fn dropped_tables(home: &Home, view: &View, reach: &Reach) -> Vec<Doomed> {
    let all = view.all_tables();
    let dropped = all.difference(&reach.tables);
    let doomed = |id| Doomed { reason: Reason::Dropped, name: home.root().table(id) };
    dropped.copied().map(doomed).collect()
}

/// Tables and jobs that nobody speaks of. `known` go already.
pub(super) fn orphans(
    home: &Home,
    view: &View,
    reach: &Reach,
    age_min: Duration,
    known: &BTreeSet<String>,
) -> Outcome<Vec<Doomed>> {
    let age_ms = u64::try_from(age_min.as_millis()).unwrap_or(u64::MAX);
    let mut doomed = Vec::new();
    for folder in ["s/", "jobs/", "away/"] {
        home.list_each(folder, "", Purpose::Collect, |stat| {
            let reason = match home.root().parse(&stat.name) {
                Some(Name::Table(id)) => {
                    let kept = reach.tables.contains(&id) || reach.newest.may_name(id);
                    (!kept).then_some(Reason::Orphan)
                }
                Some(Name::Job(job)) => (!reach.newest.is_alive(job)).then_some(Reason::JobOver),
                _ => None,
            };
            let is_old = stat.written_ms.saturating_add(age_ms) <= view.now_ms;
            if let Some(reason) = reason.filter(|_| is_old && !known.contains(&stat.name)) {
                doomed.push(Doomed { reason, name: stat.name });
            }
            Ok(())
        })?;
    }
    Ok(doomed)
}

/// Records that no kept version needs, and what latecomers have put among them.
pub(super) fn old_records(home: &Home, view: &View, reach: &Reach) -> Vec<Doomed> {
    let newest = reach.newest.version();
    let old = view.written_ms.keys().filter(|version| **version < newest);
    let old = old.filter(|version| !reach.records.contains(version));
    let doomed = |version| {
        let name = home.object(&Name::Version(version));
        Doomed { reason: Reason::OldRecord, name }
    };
    old.copied().map(doomed).collect()
}

/// Removes in batches, before each of which the owner must be who he was. [`ErrorKind::Fenced`] if not.
pub(super) fn remove(
    home: &Home,
    owner: Option<&Owner>,
    doomed: &[Doomed],
    batch: usize,
) -> Outcome<()> {
    for batch in doomed.chunks(batch.clamp(1, 1000)) {
        let now = owner::look(home, Purpose::Collect)?.map(|(owner, _)| owner);
        if now.as_ref() != owner {
            let message = "the database has changed hands while garbage was looked for";
            return Err(Error::new(ErrorKind::Fenced, &home.object(&Name::Owner), message));
        }
        let names: Vec<String> = batch.iter().map(|doomed| doomed.name.clone()).collect();
        home.remove(&names, Purpose::Collect)?;
    }
    Ok(())
}
