//! The oracle: sees every change of the bucket at the moment it takes effect, knows what was acknowledged and what is
//! kept, and writes down what must not be.
//!
//! It has a log of its own, from the records as they were created, and shares no code with the protocol but the record's
//! decoder.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use siltstone_cloud::{
    Bucket, Call, Kind, MemoryBucket, Part, Purpose, Record, Root, Table, Token,
};

use super::content::{self, Content};

/// What must hold, and did not, in the words of whoever noticed.
const VIOLATIONS_MAX: usize = 8;

#[derive(Default)]
pub(super) struct Ledger {
    age_min: Duration,
    logs: BTreeMap<String, Log>,
    rewinds: BTreeMap<Token, u64>,
    clones: BTreeMap<String, (String, u64)>,
    violations: Vec<String>,
    pub(super) takeovers: u64,
    pub(super) rewound: u64,
    pub(super) gaps_filled: u64,
    pub(super) acknowledged: u64,
}

/// One database.
#[derive(Default)]
struct Log {
    versions: BTreeMap<u64, Version>,
    epochs: BTreeMap<u64, Token>,
    pins: BTreeMap<Token, u64>,
    leases: BTreeMap<Token, (u64, Duration)>,
}

/// A version that came about.
#[derive(Clone)]
pub(super) struct Version {
    epoch: u64,
    token: Token,
    base: u64,
    roots: Vec<String>,
    pub(super) content: Content,
    tables: BTreeMap<u64, (String, Table)>,
    /// When the next came.
    past_since: Option<Duration>,
}

impl Ledger {
    pub(super) fn new(age_min: Duration) -> Self {
        Ledger { age_min, ..Ledger::default() }
    }

    pub(super) fn violation(&mut self, text: String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(text);
        }
    }

    pub(super) fn has_violations(&self) -> bool {
        !self.violations.is_empty()
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Databases that have come about.
    pub(super) fn roots(&self) -> Vec<String> {
        self.logs.keys().cloned().collect()
    }

    pub(super) fn newest(&self, root: &str) -> Option<(u64, &Version)> {
        let last = self.logs.get(root)?.versions.last_key_value();
        last.map(|(number, version)| (*number, version))
    }

    pub(super) fn version(&self, root: &str, number: u64) -> Option<&Version> {
        self.logs.get(root)?.versions.get(&number)
    }

    /// Who opens with this token sets the database back to this version.
    pub(super) fn expect_rewind(&mut self, token: Token, version: u64) {
        self.rewinds.insert(token, version);
    }

    /// A database may come about as this version of another.
    pub(super) fn expect_clone(&mut self, child: &str, parent: &str, version: u64) {
        self.clones.insert(child.to_owned(), (parent.to_owned(), version));
    }

    pub(super) fn pin(&mut self, root: &str, token: Token, version: u64) {
        self.logs.entry(root.to_owned()).or_default().pins.insert(token, version);
    }

    pub(super) fn unpin(&mut self, root: &str, token: Token) {
        self.logs.entry(root.to_owned()).or_default().pins.remove(&token);
    }

    /// A reader relies on everything from a version on, until then.
    pub(super) fn lease(&mut self, root: &str, token: Token, version: u64, until: Duration) {
        let log = self.logs.entry(root.to_owned()).or_default();
        log.leases.insert(token, (version, until));
    }

    pub(super) fn release(&mut self, root: &str, token: Token) {
        self.logs.entry(root.to_owned()).or_default().leases.remove(&token);
    }

    /// An owner was told that a version is committed, with these writes.
    pub(super) fn acknowledge(&mut self, root: &str, number: u64, token: Token, writes: &Content) {
        self.acknowledged += 1;
        let problem = match self.version(root, number) {
            None => Some("which never came about"),
            Some(version) if version.token != token => Some("which is another's: two owners"),
            Some(version) => {
                let kept =
                    |(key, write)| version.content.get(key).is_some_and(|last| last >= write);
                (!writes.iter().all(kept)).then_some("which lacks writes of his")
            }
        };
        if let Some(problem) = problem {
            self.violation(format!(
                "{root}: {token} was told that he committed {number}, {problem}"
            ));
        }
    }

    /// An owner was told that he is no longer one.
    pub(super) fn fenced(&mut self, root: &str, epoch: u64) {
        let newest = self.newest(root).map_or(0, |(_, newest)| newest.epoch);
        if newest <= epoch {
            self.violation(format!("{root}: epoch {epoch} was fenced, and nobody came after it"));
        }
    }

    /// An object was written.
    pub(super) fn note_put(
        &mut self,
        memory: &MemoryBucket,
        now: Duration,
        name: &str,
        body: &Bytes,
    ) {
        let Some((root, rest)) = name.split_once('/') else { return };
        let Some(number) = rest.strip_prefix("v/").and_then(|number| number.parse().ok()) else {
            return;
        };
        let root = format!("{root}/");
        let newest = self.newest(&root).map_or(0, |(number, _)| number);
        if number <= newest {
            // Its record was collected, or it would have been refused. Nobody may be told that it counts.
            self.gaps_filled += 1;
        } else if number > newest + 1 {
            self.violation(format!("{root}: version {number} follows {newest}: a hole"));
        } else if let Err(problem) = self.accept(memory, now, &root, number, body) {
            self.violation(format!("{root}: version {number}: {problem}"));
        }
    }

    fn accept(
        &mut self,
        memory: &MemoryBucket,
        now: Duration,
        root: &str,
        number: u64,
        body: &Bytes,
    ) -> Result<(), String> {
        let record = Record::decode(root, body).map_err(|error| error.to_string())?;
        let last = self.newest(root).map(|(_, version)| version.clone());
        let (epoch, token) = (record.epoch.0, record.token);
        let last_epoch = last.as_ref().map_or(0, |last| last.epoch);
        let owner =
            *self.logs.entry(root.to_owned()).or_default().epochs.entry(epoch).or_insert(token);
        let version = next_version(root, last.as_ref(), &record);
        let problem = if epoch < last_epoch {
            Some(format!("of epoch {epoch}, after one of {last_epoch}"))
        } else if owner != token {
            Some(format!("epoch {epoch} has two owners"))
        } else {
            self.compare(root, &record, last.as_ref(), &version)
                .or_else(|| check_tables(memory, &version))
        };
        self.takeovers += u64::from(epoch > last_epoch && last_epoch > 0);
        let log = self.logs.entry(root.to_owned()).or_default();
        if let Some(mut last) = log.versions.last_entry() {
            last.get_mut().past_since = Some(now);
        }
        log.versions.insert(number, version);
        problem.map_or(Ok(()), Err)
    }

    /// What a version holds against what it must hold.
    fn compare(
        &mut self,
        root: &str,
        record: &Record,
        last: Option<&Version>,
        version: &Version,
    ) -> Option<String> {
        let expected = match (record.kind, last) {
            (Kind::Edit | Kind::Takeover, _) => return None,
            (Kind::Restart, Some(_)) => {
                let to = *self.rewinds.get(&record.token)?;
                self.rewound += 1;
                self.version(root, to).map(|version| version.content.clone())
            }
            (_, Some(last)) => Some(last.content.clone()),
            (_, None) => match self.clones.get(root) {
                Some((parent, number)) => {
                    self.version(parent, *number).map(|version| version.content.clone())
                }
                None => Some(Content::new()),
            },
        };
        (expected.as_ref() != Some(&version.content)).then(|| "does not hold what it should".into())
    }

    /// Objects go. What is kept must not.
    pub(super) fn note_delete(&mut self, now: Duration, names: &[String]) {
        for name in names {
            if let Some(why) = self.why_kept(now, name) {
                self.violation(format!("{name} was deleted at {} s: {why}", now.as_secs()));
            }
        }
    }

    fn why_kept(&self, now: Duration, name: &str) -> Option<String> {
        let (root, rest) = name.split_once('/')?;
        let root = format!("{root}/");
        if rest == "owner" || rest.starts_with("gc/") {
            return Some("a register".to_owned());
        }
        let log = self.logs.get(&root)?;
        if let Some(pin) = rest.strip_prefix("pins/") {
            let is = |token: &&Token| pin.ends_with(&token.to_string());
            return log.pins.keys().find(is).map(|_| "a pin that is needed".to_owned());
        }
        if let Some(token) = rest.strip_prefix("readers/") {
            let mut leases = log.leases.iter();
            let alive = leases.any(|(of, (_, until))| of.to_string() == token && now < *until);
            return alive.then(|| "a lease that is alive".to_owned());
        }
        if let Some(number) = rest.strip_prefix("v/") {
            let number: u64 = number.parse().ok()?;
            return log.why_record_kept(now, number);
        }
        let in_newest = |(root, log): (&String, &Log)| {
            let (number, newest) = log.versions.last_key_value()?;
            newest.has(name).then(|| format!("version {number} of {root} has it, the newest"))
        };
        self.logs.iter().find_map(in_newest).or_else(|| log.why_table_kept(now, name, self.age_min))
    }

    /// What must be left of a database when everything else has been collected.
    pub(super) fn must_remain(&self, root: &str) -> BTreeSet<String> {
        let mut names: BTreeSet<String> =
            ["owner", "gc/boundary", "gc/now"].map(|name| format!("{root}{name}")).into();
        if let Some((number, newest)) = self.newest(root) {
            names.extend((newest.base..=number).map(|number| format!("{root}v/{number:020}")));
            names.extend(newest.tables.values().map(|(name, _)| name.clone()));
        }
        names
    }
}

impl Log {
    fn why_record_kept(&self, now: Duration, number: u64) -> Option<String> {
        let (newest, version) = self.versions.last_key_value()?;
        if (version.base..=*newest).contains(&number) {
            return Some("the newest version stands on it".to_owned());
        }
        let is_under = |version: u64| {
            let base = self.versions.get(&version).map_or(version, |version| version.base);
            base <= number && number <= version
        };
        let pinned = self.pins.values().find(|version| is_under(**version));
        if let Some(version) = pinned {
            return Some(format!("the pinned version {version} stands on it"));
        }
        let alive = self.leases.values().filter(|(_, until)| now < *until);
        let mut alive = alive.filter(|(version, _)| is_under(*version) || number > *version);
        alive.next().map(|(version, _)| format!("a lease keeps everything from {version} on"))
    }

    fn why_table_kept(&self, now: Duration, name: &str, age_min: Duration) -> Option<String> {
        let has = |number: &u64| self.versions.get(number).is_some_and(|version| version.has(name));
        if let Some(version) = self.pins.values().find(|version| has(version)) {
            return Some(format!("the pinned version {version} has it"));
        }
        let alive = self.leases.values().filter(|(_, until)| now < *until);
        let leased = alive.map(|(version, _)| *version).min().unwrap_or(u64::MAX);
        for (number, version) in self.versions.iter().rev() {
            let is_young = version.past_since.is_none_or(|since| now < since + age_min);
            if !is_young && *number < leased {
                return None;
            }
            if version.has(name) {
                let why = if is_young { "has not been past for long" } else { "is leased" };
                return Some(format!("version {number} {why}"));
            }
        }
        None
    }
}

impl Version {
    fn has(&self, name: &str) -> bool {
        self.tables.values().any(|(object, _)| object == name)
    }
}

fn next_version(root: &str, last: Option<&Version>, record: &Record) -> Version {
    let whole = record.kind.is_whole();
    let (mut content, mut tables, mut roots) = match last {
        Some(last) if !whole => (last.content.clone(), last.tables.clone(), last.roots.clone()),
        _ => (Content::new(), BTreeMap::new(), Vec::new()),
    };
    if whole {
        roots = vec![root.to_owned()];
        roots.extend(record.ancestors.iter().map(|ancestor| ancestor.root.as_str().to_owned()));
    }
    for number in &record.removed {
        tables.remove(number);
    }
    for (number, table) in &record.tables {
        let home = Root::new(&roots[usize::from(table.home)]).unwrap();
        tables.insert(*number, (home.table(table.id), *table));
    }
    record.payloads.iter().for_each(|payload| content::apply(&mut content, payload));
    let (epoch, token, base) = (record.epoch.0, record.token, record.base.0);
    let past_since = None;
    Version { epoch, token, base, roots, content, tables, past_since }
}

/// A version's tables must be there, be what the record says, and hold what its edits say.
fn check_tables(memory: &MemoryBucket, version: &Version) -> Option<String> {
    let mut content = Content::new();
    for (name, table) in version.tables.values() {
        let Ok(object) = memory.get(name, Part::Whole, Call::new(Purpose::Tool)) else {
            return Some(format!("names {name}, which is not there"));
        };
        if crc32c::crc32c(&object.body) != table.crc32c || object.bytes != table.bytes {
            return Some(format!("names {name}, which is something else"));
        }
        content::merge(&mut content, &content::read_table(&object.body));
    }
    (content != version.content).then(|| "its tables do not hold what its edits say".to_owned())
}
