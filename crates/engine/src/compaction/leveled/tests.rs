//! The policy's choices, as scripts: trees drawn in text, and the plans that follow. The scripts in
//! `testdata/compaction` say in their own words what each case is about.
//!
//! ```text
//! == name of a case
//! compaction sliced                            leveled if left out
//! limits l0=4 l0_first=9 level1=100 growth=10 table=20    of level 0 in tables, the others in bytes
//! L0 9:a-f 8:c-k*30                            number:smallest-largest*size; size 10 if left out
//! L1 3:a@9-c@8 4:c@7-d@1                       user key@sequence number, if that matters
//! L2-log 5:a-z!100/60                          entries and deletions, where known
//! running 3 -> L2                              a job that is in flight
//! snapshot                                     one is alive
//! seeks 4                                      reads of that table went for nothing too often
//! picks 2                                      plans to ask for at most; else as many as there are
//! --
//! merge 3 4 5 -> L2                            each plan in flight beside those before it
//! slice 3 4 -> L2 of c..f                      of the keys from c on, before f
//! ```
//!
//! `SILTSTONE_BLESS=1` rewrites what follows each `--`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::base::comparator::{Comparator, UserOrder};
use crate::base::key::{InternalKey, SEQNO_MAX, SeqNo};
use crate::compaction::accept::{Accepted, accept};
use crate::compaction::closure::close;
use crate::compaction::in_flight::InFlight;
use crate::compaction::parts::Part;
use crate::compaction::policy::Compaction;
use crate::version::Version;
use crate::version::table_meta::TableStats;
use crate::version::testing::{key, level, sized, sst_log, tree, version};

struct Case {
    compaction: Compaction,
    settings: LeveledSettings,
    tables: Vec<(Slot, Arc<TableMeta>)>,
    running: Vec<(FileNumber, Slot)>,
    seeks: Vec<FileNumber>,
    oldest_read: SeqNo,
    picks: usize,
}

impl Case {
    fn parse(script: &str) -> Self {
        let mut case = Case {
            compaction: Compaction::Leveled,
            settings: LeveledSettings {
                l0_trigger: 4,
                l0_trigger_if_large: 8,
                l0_first: usize::MAX,
                level1_bytes: 100,
                level_growth: 10,
                table_bytes: 20,
            },
            tables: Vec::new(),
            running: Vec::new(),
            seeks: Vec::new(),
            oldest_read: SEQNO_MAX,
            picks: usize::MAX,
        };
        for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "compaction" => case.compaction = Compaction::of_name(rest).unwrap(),
                "limits" => case.limits(rest),
                "snapshot" => case.oldest_read = SeqNo(rest.parse().unwrap()),
                "seeks" => case.seeks.push(number(rest)),
                "picks" => case.picks = rest.parse().unwrap(),
                "running" => {
                    let (table, to) = rest.split_once(" -> ").unwrap();
                    case.running.push((number(table), slot(to)));
                }
                _ => {
                    let tables = rest.split_whitespace().map(|text| (slot(word), table(text)));
                    case.tables.extend(tables);
                }
            }
        }
        case
    }

    fn limits(&mut self, text: &str) {
        for setting in text.split_whitespace() {
            let (name, value) = setting.split_once('=').unwrap();
            let value: u64 = value.parse().unwrap();
            match name {
                "l0" => self.settings.l0_trigger = value as usize,
                "l0_first" => self.settings.l0_first = value as usize,
                "level1" => self.settings.level1_bytes = value,
                "growth" => self.settings.level_growth = value,
                "table" => self.settings.table_bytes = value,
                _ => panic!("no limit {name}"),
            }
        }
    }

    /// The plans, one a line, as they would start side by side.
    fn plans(self) -> String {
        let (order, version) = (UserOrder::Bytewise, Arc::new(version(self.tables)));
        let mut policy = self.compaction.policy(self.settings);
        let mut in_flight = InFlight::default();
        let begin = |in_flight: &mut InFlight, seed: &[FileNumber], to| {
            let closed = close(&order, &version, seed, to).expect("a plan names tables there are");
            assert!(in_flight.admits(&order, &closed, to), "a plan may start");
            let id = in_flight.len() as u64;
            in_flight.begin(&order, id, &closed, to);
        };
        for (table, to) in self.running {
            begin(&mut in_flight, &[table], to);
        }
        for table in self.seeks {
            let (slot, _) = version.find(table).expect("the table is there");
            policy.observe(PolicyEvent::SeeksSpent { slot, table });
        }
        let mut plans = String::new();
        for _ in 0..self.picks {
            let view = PickView {
                version: &version,
                order: &order,
                in_flight: &in_flight,
                oldest_read: self.oldest_read,
            };
            let Some(plan) = policy.pick(&view) else { break };
            assert_eq!(policy.pick(&view), Some(plan.clone()), "looking changes nothing");
            let (word, part) = match &plan {
                Plan::Move { .. } => ("move", String::new()),
                Plan::Merge { .. } => ("merge", String::new()),
                Plan::Slice { part, .. } => ("slice", format!(" of {}", shown(part))),
            };
            let accepted = accept(&order, &version, &in_flight, &plan).expect("a plan may start");
            let Accepted { closed, to, .. } = accepted;
            let listed: Vec<String> =
                numbers(&closed).iter().map(|table| table.to_string()).collect();
            writeln!(plans, "{word} {} -> {to}{part}", listed.join(" ")).unwrap();
            in_flight.begin(&order, in_flight.len() as u64, &closed, to);
        }
        if plans.is_empty() { "nothing\n".to_owned() } else { plans }
    }
}

fn shown(part: &Part) -> String {
    let text = |key: &Option<Vec<u8>>| {
        key.as_ref().map_or(String::new(), |key| String::from_utf8(key.clone()).unwrap())
    };
    format!("{}..{}", text(&part.from), text(&part.until))
}

fn number(text: &str) -> FileNumber {
    FileNumber(text.parse().unwrap())
}

fn slot(text: &str) -> Slot {
    let digits = text.strip_prefix('L').unwrap_or_else(|| panic!("{text}: no such word or slot"));
    match digits.strip_suffix("-log") {
        Some(digits) => sst_log(digits.parse().unwrap()),
        None => tree(digits.parse().unwrap()),
    }
}

fn table(text: &str) -> Arc<TableMeta> {
    let (text, stats) = text.split_once('!').unwrap_or((text, ""));
    let (text, size) = text.split_once('*').unwrap_or((text, "10"));
    let (number, bounds) = text.split_once(':').unwrap();
    let (from, to) = bounds.split_once('-').unwrap();
    let number = number.parse().unwrap();
    let meta = sized(number, size.parse().unwrap(), (bound(from, number), bound(to, number)));
    if let Some((entries, deletions)) = stats.split_once('/') {
        let (entries, deletions) = (entries.parse().unwrap(), deletions.parse().unwrap());
        meta.learn_stats(Some(TableStats { entries, deletions, largest_seqno: SeqNo(number) }));
    }
    meta
}

fn bound(text: &str, otherwise: u64) -> InternalKey {
    match text.split_once('@') {
        Some((user, seqno)) => key(user, seqno.parse().unwrap()),
        None => key(text, otherwise),
    }
}

fn scripts() -> BTreeMap<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/compaction");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|end| end == "txt"));
    scripts.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The script with each case's plans as they are.
fn answered(script: &str) -> String {
    let mut cases = script.split("\n== ");
    let mut out = cases.next().unwrap().trim_end().to_owned() + "\n";
    for case in cases {
        let (question, _) = case.split_once("\n--\n").expect("a case ends with `--` and its plans");
        let (_, body) = question.split_once('\n').unwrap_or((question, ""));
        let plans = Case::parse(body).plans();
        write!(out, "\n== {question}\n--\n{plans}").unwrap();
    }
    out
}

#[test]
fn plans_are_as_the_scripts_say() {
    let scripts = scripts();
    assert!(!scripts.is_empty());
    for (path, script) in scripts {
        let answered = answered(&script);
        if std::env::var_os("SILTSTONE_BLESS").is_some() {
            std::fs::write(&path, answered).unwrap();
            continue;
        }
        for (line, (expected, got)) in script.lines().zip(answered.lines()).enumerate() {
            assert_eq!(got, expected, "{}:{}", path.display(), line + 1);
        }
        assert_eq!(answered, script, "{}", path.display());
    }
}

#[test]
fn spent_seeks_are_forgotten_once_the_table_has_gone() {
    let order = UserOrder::Bytewise;
    let before = Arc::new(version([(tree(1), table("1:a-c")), (tree(2), table("2:b-d"))]));
    let after = Arc::new(version([(tree(2), table("1:a-c")), (tree(3), table("2:b-d"))]));
    let case = Case::parse("");
    let mut policy = Leveled::new(case.settings);
    let in_flight = InFlight::default();
    let mut pick = |version: &Arc<Version>, seeks: Option<u64>| {
        if let Some(number) = seeks {
            let (slot, _) = version.find(FileNumber(number)).unwrap();
            policy.observe(PolicyEvent::SeeksSpent { slot, table: FileNumber(number) });
        }
        policy.pick(&PickView {
            version,
            order: &order,
            in_flight: &in_flight,
            oldest_read: SEQNO_MAX,
        })
    };
    assert!(pick(&before, Some(1)).is_some());
    assert!(pick(&before, None).is_some(), "it failed, and is made again");
    assert!(pick(&after, None).is_none());
    assert!(pick(&before, None).is_none());
}

#[test]
fn level_0_is_merged_for_scans_up_to_the_table_that_they_told_of() {
    let order = UserOrder::Bytewise;
    let level0 = |tables: &[&str]| {
        let upper = tables.iter().map(|text| (Slot::L0, table(text)));
        Arc::new(version(upper.chain([(tree(1), table("1:a-z"))])))
    };
    let mut policy = Leveled::new(Case::parse("").settings);
    let in_flight = InFlight::default();
    let pick = |policy: &mut Leveled, version: &Arc<Version>| {
        let (order, in_flight) = (&order, &in_flight);
        policy.pick(&PickView { version, order, in_flight, oldest_read: SEQNO_MAX })
    };
    let two = level0(&["3:a-c", "2:b-d"]);
    assert!(pick(&mut policy, &two).is_none());
    policy.observe(PolicyEvent::ScansSpent { newest: FileNumber(3) });
    let numbers = [2, 3, 1].map(FileNumber);
    match pick(&mut policy, &two) {
        Some(Plan::Merge { inputs, to }) => {
            assert!(to == tree(1) && numbers.iter().all(|number| inputs.contains(number)));
        }
        other => panic!("{other:?}"),
    }
    assert!(pick(&mut policy, &two).is_some(), "it failed, and is made again");
    assert!(pick(&mut policy, &level0(&["4:a-c"])).is_none(), "that one came later");
    assert!(pick(&mut policy, &two).is_none());
}

#[test]
fn level_limits_grow_and_never_overflow() {
    let settings = Case::parse("limits level1=100 growth=10").settings;
    let limits: Vec<u64> = Level::all().map(|level| settings.level_limit(level)).collect();
    assert_eq!(limits, [100, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]);
    let vast = LeveledSettings { level1_bytes: u64::MAX / 2, ..settings };
    assert_eq!(vast.level_limit(level(6)), u64::MAX);
}

/// Counts what picking costs.
struct Counting(AtomicU64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "test.Counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.0.fetch_add(1, Ordering::Relaxed);
        a.cmp(b)
    }
}

/// A tree of 20,000 tables of 20 bytes, each level ten times the one above and a little too large.
fn large_tree() -> Vec<(Slot, Arc<TableMeta>)> {
    let mut tables = Vec::new();
    for (slot, count) in [(tree(1), 20), (tree(2), 180), (tree(3), 1_800), (tree(4), 18_000)] {
        let width = 1_000_000 / count;
        for at in 0..count {
            let bounds = (at * width, at * width + width - 1);
            let bounds = (key(&format!("{:07}", bounds.0), 9), key(&format!("{:07}", bounds.1), 9));
            tables.push((slot, sized(1 + tables.len() as u64, 20, bounds)));
        }
    }
    tables
}

/// Picks run under the state lock, so a pick may not look at every table for every other.
#[test]
fn picking_from_many_tables_is_cheap() {
    let counting = Arc::new(Counting(AtomicU64::new(0)));
    let order = UserOrder::new(Some(counting.clone()));
    let version = Arc::new(version(large_tree()));
    let mut policy = Leveled::new(Case::parse("").settings);
    let mut in_flight = InFlight::default();
    for id in 0..20 {
        let view = PickView {
            version: &version,
            order: &order,
            in_flight: &in_flight,
            oldest_read: SEQNO_MAX,
        };
        let Some(plan) = policy.pick(&view) else { break };
        let Accepted { closed, to, .. } = accept(&order, &version, &in_flight, &plan).unwrap();
        in_flight.begin(&order, id, &closed, to);
        let compared = counting.0.swap(0, Ordering::Relaxed);
        assert!(compared < 18_000 * 40, "{compared} comparisons for pick {id}");
    }
    assert!(in_flight.len() > 3);
}

/// Repair may leave any number of tables in level 0; a merge has all of its there open at once.
#[test]
fn of_very_many_tables_in_level_0_the_oldest_go_first() {
    let many = (1..=2_000).map(|number| (Slot::L0, table(&format!("{number}:a-z*1"))));
    let version = Arc::new(version(many));
    let in_flight = InFlight::default();
    let order = UserOrder::Bytewise;
    let mut policy = Leveled::new(Case::parse("").settings);
    let view = PickView {
        version: &version,
        order: &order,
        in_flight: &in_flight,
        oldest_read: SEQNO_MAX,
    };
    let Some(Plan::Merge { inputs, to }) = policy.pick(&view) else { panic!("there is work") };
    assert_eq!(to, tree(1));
    let oldest: Vec<FileNumber> = (1..=INPUTS_MAX as u64).rev().map(FileNumber).collect();
    assert_eq!(inputs, oldest);
}
