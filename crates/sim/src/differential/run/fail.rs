//! Calls that fail for a while. What was acknowledged stays; what failed shows whole or not at all;
//! and after it was tried again, all is as if nothing had failed, so answers do not depend on what a
//! failure met.

use siltstone::{Error, ErrorKind, Result, Site};

use super::Run;
use super::judge::{Checked, expect, place};
use crate::Fault;
use crate::differential::operation::{Closing, Failing, Handle, Update};
use crate::differential::reference::Entry;

impl Run<'_> {
    pub(super) fn fail(&mut self, failing: &Failing) -> Checked {
        let failed = match failing {
            Failing::DiskFull { updates, fault } => self.disk_full(&updates.0, *fault),
            Failing::DiskFullKilled { updates, fault } => self.disk_full_killed(&updates.0, *fault),
            Failing::Write { updates, site, fault } => {
                self.failing_write(&updates.0, *site, *fault)
            }
            Failing::Flush { site, fault } => self.twice(*site, *fault, |run| run.db().flush()),
            Failing::FlushKilled { site, fault } => self.flush_killed(*site, *fault),
            Failing::Compaction { site, fault } => {
                self.twice(*site, *fault, |run| run.db().compact_range(None, None))
            }
            Failing::ManifestFull { site } => {
                self.twice(*site, Fault::NoSpace, |run| run.db().flush())
            }
            Failing::Manifest { site, fault } => self.failing_manifest(*site, *fault),
            Failing::Read { key } => self.failing_read(&key.0),
        };
        self.faults.heal();
        failed
    }

    fn disk_full(&mut self, updates: &[Update], fault: Fault) -> Checked {
        self.faults.fail_from(Site::WalAppend, 1, fault);
        for _ in 0..2 {
            let written = self.try_write(updates, false, Handle::Own);
            expect(written.as_ref().is_err_and(Error::is_no_space), || {
                format!("a write to a full disk: {written:?}")
            })?;
            self.shows_the_old(updates)?;
        }
        self.faults.heal();
        self.write(updates, false, Handle::Own)
    }

    fn disk_full_killed(&mut self, updates: &[Update], fault: Fault) -> Checked {
        self.faults.fail_from(Site::WalAppend, 1, fault);
        let written = self.try_write(updates, true, Handle::Own);
        expect(written.as_ref().is_err_and(Error::is_no_space), || {
            format!("a write to a full disk: {written:?}")
        })?;
        self.shows_the_old(updates)?;
        self.faults.heal();
        self.close(Closing::Killed)?;
        self.open_again()?;
        self.write_again(updates)
    }

    fn failing_write(&mut self, updates: &[Update], site: Site, fault: Fault) -> Checked {
        self.faults.fail_nth(site, 1, fault);
        for kind in [ErrorKind::Io, ErrorKind::ReadOnly] {
            let written = self.try_write(updates, true, Handle::Own).map_err(|error| error.kind());
            expect(written == Err(kind), || format!("a failing write: {written:?}, not {kind:?}"))?;
            self.shows_the_old(updates)?;
        }
        self.faults.heal();
        self.close(Closing::Drop)?;
        self.open_again()?;
        self.write_again(updates)
    }

    /// A write of which nobody knows what became of it shows whole or not at all. Written again, it
    /// shows.
    fn write_again(&mut self, updates: &[Update]) -> Checked {
        if self.shows_the_old(updates).is_err() {
            self.shows_the_new(updates)?;
        }
        self.write(updates, true, Handle::Own)
    }

    fn shows_the_old(&mut self, updates: &[Update]) -> Checked {
        for (key, _) in updates {
            let expected = self.reference.get(key, self.reference.now()).cloned();
            self.shows(key, expected.as_ref())?;
        }
        Ok(())
    }

    fn shows_the_new(&mut self, updates: &[Update]) -> Checked {
        let order = self.reference.order();
        for (key, _) in updates {
            let mut of_key =
                updates.iter().rev().filter(|(other, _)| order.compare(key, other).is_eq());
            let expected = of_key
                .next()
                .and_then(|(key, value)| value.map(|value| Entry { key: key[..].into(), value }));
            self.shows(key, expected.as_ref())?;
        }
        Ok(())
    }

    /// Not counted as an answer.
    fn shows(&mut self, key: &[u8], expected: Option<&Entry>) -> Checked {
        let found = self.db().get(key)?;
        let judged = self.judge.is_value(key, found.as_deref(), expected);
        judged.or_else(|told| expect(false, || format!("around a failure: {told}")))
    }

    /// Does what may fail, and then again without a fault. Nothing of it shows.
    ///
    /// Lanes would meet the fault, too, and wait by the clock before they try again: with them, it is
    /// left out.
    fn twice(&mut self, site: Site, fault: Fault, act: impl Fn(&Self) -> Result<()>) -> Checked {
        let mut before = self.db().iter()?;
        if self.set.is_deterministic() {
            self.faults.fail_nth(site, 1, fault);
        }
        let first = act(self).map_err(|error| error.kind());
        let told = matches!(first, Ok(()) | Err(ErrorKind::Io | ErrorKind::NoSpace));
        expect(told, || format!("{fault:?} at {}: {first:?}", site.name()))?;
        self.faults.heal();
        act(self)?;
        self.judge.same(&mut before, &mut self.db().iter()?)
    }

    fn flush_killed(&mut self, site: Site, fault: Fault) -> Checked {
        if self.set.is_deterministic() {
            self.faults.fail_nth(site, 1, fault);
        }
        let _ = self.db().flush();
        self.faults.heal();
        self.reopen(Closing::Killed, None)
    }

    fn failing_manifest(&mut self, site: Site, fault: Fault) -> Checked {
        self.faults.fail_nth(site, 1, fault);
        let flushed = self.db().flush();
        self.faults.heal();
        if flushed.is_err() {
            let put = self.db().put("refused", "").map_err(|error| error.kind());
            expect(put == Err(ErrorKind::ReadOnly), || {
                format!("a write after a failed manifest: {put:?}")
            })?;
        }
        self.reopen(Closing::Drop, None)
    }

    fn failing_read(&mut self, key: &[u8]) -> Checked {
        if self.set.is_deterministic() {
            self.faults.fail_reads(".ldb");
            let failed = |error: &Error| error.kind() == ErrorKind::Io;
            let expected = self.reference.get(key, self.reference.now()).cloned();
            match self.db().get(key) {
                Err(error) if failed(&error) => {}
                found => {
                    let judged = self.judge.is_value(key, found?.as_deref(), expected.as_ref());
                    judged.or_else(|told| expect(false, || format!("while reads fail: {told}")))?;
                }
            }
            let mut iter = self.db().iter();
            let sought =
                iter.as_mut().map_err(|error| error.clone()).and_then(|iter| iter.seek(key));
            self.faults.heal();
            match sought {
                Err(error) => expect(failed(&error), || format!("while reads fail: {error}"))?,
                Ok(()) => {
                    let mut again = self.db().iter()?;
                    again.seek(key)?;
                    self.judge.both(place(&iter?), place(&again))?;
                }
            }
        }
        let found = self.db().get(key)?;
        self.judge.got(key, found.as_deref(), self.reference.get(key, self.reference.now()))
    }
}
