//! Every crash of a run: before and after each call that changes the disk, with many a disk that may
//! be left; and of a share of the recoveries that follow, the crashes of those.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use siltstone::Site;

use super::mutant::Mutant;
use super::run::{Expectation, Run};
use super::survey::{Depth, Violation, survey};
use crate::Dice;
use crate::disk::{Cut, CutKind, Disk};
use crate::hash::Mixer;
use std::hash::Hasher;

/// Where a crash was: the calls done and the number of the cut; then the same for the crash of the
/// recovery, and so on. Written `812.3/17.0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(Vec<(usize, usize)>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<_> = self.0.iter().map(|(call, cut)| format!("{call}.{cut}")).collect();
        f.write_str(&steps.join("/"))
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let step = |step: &str| {
            let (call, cut) = step.split_once('.')?;
            Some((call.parse().ok()?, cut.parse().ok()?))
        };
        let steps: Option<Vec<_>> = text.split('/').map(step).collect();
        steps.map(Place).ok_or_else(|| format!("a place is written 812.3/17.0, not {text}"))
    }
}

impl Place {
    fn inside(&self, call: usize, cut: usize) -> Place {
        let mut steps = self.0.clone();
        steps.push((call, cut));
        Place(steps)
    }

    /// The chance at this place, so that it can be visited without the others.
    fn dice(&self, seed: u64) -> Dice {
        let mut mixer = Mixer::default();
        mixer.write_u64(seed);
        self.0.iter().for_each(|(call, cut)| {
            mixer.write_usize(*call);
            mixer.write_usize(*cut);
        });
        Dice::new(mixer.finish() | 1)
    }
}

/// How many crashes are looked at, by nesting: of the workload, of its recoveries, of theirs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Cuts at each call of the workload.
    pub cuts: usize,
    /// One of so many calls of the workload is crashed at.
    pub stride: u64,
    /// One of so many recoveries is crashed in its turn.
    pub nest: u64,
    /// Recoveries within recoveries.
    pub levels: usize,
    /// Stop at the first violation.
    pub first_only: bool,
}

/// Calls of a recovery that are crashed at, and cuts at each.
const NESTED_CALLS: usize = 4;
const NESTED_CUTS: usize = 3;

/// What a campaign has counted.
#[derive(Default)]
pub struct Tally {
    /// Crash points of workloads: seed and call.
    pub points: u64,
    /// Crash points in recoveries.
    pub nested_points: u64,
    /// Recoveries that were checked.
    pub surveys: u64,
    /// The hashes of the disks that were recovered from.
    pub images: HashSet<u64>,
    /// By level of nesting.
    pub levels: [u64; 3],
    pub kinds: BTreeMap<&'static str, u64>,
    /// Crashes before and after calls from a site.
    pub sites: BTreeMap<Site, (u64, u64)>,
    pub violations: Vec<(u64, Place, Violation)>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.points += other.points;
        self.nested_points += other.nested_points;
        self.surveys += other.surveys;
        self.images.extend(other.images);
        self.levels.iter_mut().zip(other.levels).for_each(|(sum, level)| *sum += level);
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        for (site, (before, after)) in other.sites {
            let sum = self.sites.entry(site).or_default();
            *sum = (sum.0 + before, sum.1 + after);
        }
        self.violations.extend(other.violations);
    }
}

/// Looks at the crashes of one run.
pub struct Explorer {
    seed: u64,
    mutant: Option<Mutant>,
    plan: Plan,
    /// Disks with what was expected of them: nothing new comes of a second look.
    seen: HashSet<(u64, u64)>,
    pub tally: Tally,
}

impl Explorer {
    pub fn new(seed: u64, mutant: Option<Mutant>, plan: Plan) -> Self {
        Explorer { seed, mutant, plan, seen: HashSet::new(), tally: Tally::default() }
    }

    fn is_over(&self) -> bool {
        self.plan.first_only && !self.tally.violations.is_empty()
    }

    /// All crashes of a workload.
    pub fn explore(&mut self, run: &Run) {
        let mut disk = run.start.clone();
        let mut dice = Dice::new(self.seed.wrapping_mul(31) | 1);
        for call in 0..=run.journal.len() {
            if dice.roll(self.plan.stride) == 0 {
                let expected = run.expectation(call, None);
                self.crash_at(run, call, &disk, &expected, &Place::default());
                self.tally.points += 1;
            }
            if self.is_over() {
                return;
            }
            run.journal.get(call).into_iter().for_each(|entry| disk.apply(&entry.step));
        }
    }

    /// Some crashes of a recovery.
    fn explore_recovery(&mut self, run: &Run, before: &Expectation<'_>, place: &Place) {
        let mut dice = place.dice(self.seed);
        let calls = run.journal.len() as u64 + 1;
        let mut chosen: Vec<_> = (0..NESTED_CALLS).map(|_| dice.roll(calls) as usize).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let mut disk = run.start.clone();
        for call in 0..=run.journal.len() {
            if chosen.contains(&call) {
                let expected = run.expectation(call, Some(before));
                self.crash_at(run, call, &disk, &expected, place);
                self.tally.nested_points += 1;
            }
            run.journal.get(call).into_iter().for_each(|entry| disk.apply(&entry.step));
        }
    }

    /// Crashes between two calls.
    fn crash_at(
        &mut self,
        run: &Run,
        call: usize,
        disk: &Disk,
        expected: &Expectation<'_>,
        outer: &Place,
    ) {
        let cuts = match (disk.pending_count(), outer.0.len()) {
            (0, _) => 1,
            (_, 0) => self.plan.cuts,
            _ => NESTED_CUTS,
        };
        for cut in 0..cuts {
            self.cut(disk, expected, &outer.inside(call, cut));
            if self.is_over() {
                return;
            }
        }
        if let Some(entry) = call.checked_sub(1).map(|before| &run.journal[before]) {
            self.tally.sites.entry(entry.site).or_default().1 += 1;
        }
        if let Some(entry) = run.journal.get(call) {
            self.tally.sites.entry(entry.site).or_default().0 += 1;
        }
    }

    fn cut(&mut self, disk: &Disk, expected: &Expectation<'_>, place: &Place) {
        let (kind, image, mut dice) = self.image(disk, place);
        let (hash, now) = (image.content_hash(), expected.at_once_after(kind));
        *self.tally.kinds.entry(kind.name()).or_default() += 1;
        self.tally.images.insert(hash);
        let level = place.0.len();
        let is_new = kind == CutKind::ProcessDeath || self.seen.insert((hash, now.span.key()));
        if level == 1 && !is_new {
            return;
        }
        self.tally.surveys += 1;
        self.tally.levels[level - 1] += 1;
        let nests = level < self.plan.levels && dice.roll(self.plan.nest) == 0;
        let depth = Depth { thorough: dice.roll(4) == 0 };
        match survey(self.seed, &image, self.mutant, &now, depth, &mut dice) {
            Err(violation) => self.tally.violations.push((self.seed, place.clone(), violation)),
            Ok(recovery) if nests => {
                self.explore_recovery(&recovery, &expected.later_after(kind), place);
            }
            Ok(_) => {}
        }
    }

    /// The disk after the cut at `place`, and the dice for what comes next.
    fn image(&self, disk: &Disk, place: &Place) -> (CutKind, Disk, Dice) {
        let mut dice = place.dice(self.seed);
        let number = place.0.last().map_or(0, |(_, cut)| *cut);
        let kinds = CutKind::ALL;
        let kind = match (number, place.0.len()) {
            (0, _) => CutKind::NothingKept,
            (1 | 2, 1) => kinds[number],
            _ => kinds[1 + dice.roll(kinds.len() as u64 - 1) as usize],
        };
        let cut = Cut::of(kind, disk, &mut dice);
        (kind, disk.after(&cut), dice)
    }

    /// Visits one place alone and tells what is found there.
    pub fn visit(&mut self, run: &Run, place: &Place) -> Option<Violation> {
        self.visit_inside(run, None, &Place::default(), &place.0)
    }

    fn visit_inside(
        &mut self,
        run: &Run,
        before: Option<&Expectation<'_>>,
        outer: &Place,
        rest: &[(usize, usize)],
    ) -> Option<Violation> {
        let ((call, cut), rest) = (rest.first()?, rest.get(1..)?);
        let mut disk = run.start.clone();
        run.journal.iter().take(*call).for_each(|entry| disk.apply(&entry.step));
        let expected = run.expectation(*call, before);
        let place = outer.inside(*call, *cut);
        let (kind, image, mut dice) = self.image(&disk, &place);
        let now = expected.at_once_after(kind);
        println!("{place}: {kind:?}; {} to {} writes expected", now.span.from, now.span.to);
        self.print_calls(run, *call, &image);
        dice.roll(self.plan.nest);
        let depth = Depth { thorough: dice.roll(4) == 0 };
        match survey(self.seed, &image, self.mutant, &now, depth, &mut dice) {
            Err(violation) => Some(violation),
            Ok(recovery) => {
                self.visit_inside(&recovery, Some(&expected.later_after(kind)), &place, rest)
            }
        }
    }

    fn print_calls(&self, run: &Run, call: usize, image: &Disk) {
        for (index, entry) in
            run.journal.iter().enumerate().take(call + 1).skip(call.saturating_sub(12))
        {
            let mark = if index == call { "CUT before" } else { "          " };
            let step: String = format!("{:?}", entry.step).chars().take(100).collect();
            println!("  {mark} {index} {} {step}", entry.site.name());
        }
        for (path, bytes) in image.files() {
            println!("  left: {} ({} bytes)", path.display(), bytes.len());
        }
    }
}
