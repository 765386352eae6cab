//! Whether a result is one that its job can have: asked by the broker for what can be said without the database's order
//! of keys, and by the client for the rest, before anybody installs anything. Workers are not trusted.
//!
//! What is not looked at here is the bytes of the objects; whoever installs compares size and checksum with the store's.

use std::cmp::Ordering;
use std::fmt;

use crate::job::id::Attempt;
use crate::job::key::{KeyOrder, TaggedKey};
use crate::job::limits::{
    OUTPUT_NAMES_BYTES_MAX, OUTPUTS_MAX, SIDECAR_BYTES_MAX, SIDECARS_BYTES_MAX,
};
use crate::job::name::ObjectName;
use crate::job::result::OutputTable;
use crate::job::spec::{JobSpec, SeqRange};
use crate::message::Finished;

/// A merge makes less, but a compression may be left out on the way: no job has been seen to grow so much.
const GROWTH_MAX: u64 = 64;
/// LevelDB has deletions (0) and values (1).
const KIND_MAX: u8 = 1;

/// What a result breaks. Counters go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// There are more outputs than a job may make, or more bytes of keys, indexes and filters than may travel.
    Count,
    /// More is said to be of earlier attempts than there is, or something else than they told.
    Resumed,
    /// An output does not lie where this attempt at this job puts its outputs.
    Name,
    /// An output has no bytes, or all have more than any merge makes.
    Bytes,
    /// An output has no entries, more deletions than entries, or all have more than the inputs had.
    Entries,
    /// Sequence numbers that no input has.
    Seqnos,
    /// A key's kind that there is not.
    Kind,
    /// An output's last entry before its first one.
    Bounds,
    /// Outputs that overlap, share a user key, or are out of order.
    Order,
    /// Keys outside of what the inputs hold, or of the part that is merged.
    Hull,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 10] = [
        Rule::Count,
        Rule::Resumed,
        Rule::Name,
        Rule::Bytes,
        Rule::Entries,
        Rule::Seqnos,
        Rule::Kind,
        Rule::Bounds,
        Rule::Order,
        Rule::Hull,
    ];

    /// As metrics and logs call it.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Count => "count",
            Rule::Resumed => "resumed",
            Rule::Name => "name",
            Rule::Bytes => "bytes",
            Rule::Entries => "entries",
            Rule::Seqnos => "seqnos",
            Rule::Kind => "kind",
            Rule::Bounds => "bounds",
            Rule::Order => "order",
            Rule::Hull => "hull",
        }
    }
}

/// A result that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What it breaks.
    pub rule: Rule,
    /// Which output does, by its place; the number of all if it is the whole.
    pub output: usize,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "output {} breaks the rule `{}`", self.output, self.rule.name())
    }
}

impl std::error::Error for Violation {}

/// Checks all that needs no order of keys: counts, names, sizes, sequence numbers. `recorded` is what the progress of
/// earlier attempts told, as far as this one was given it.
///
/// # Errors
///
/// The first [`Violation`].
pub fn check_shape(
    spec: &JobSpec,
    attempt: Attempt,
    recorded: &[OutputTable],
    finished: &Finished,
) -> Result<(), Violation> {
    let Finished { resumed, result } = finished;
    let outputs = &result.outputs;
    let breaks = |rule| Err(Violation { rule, output: outputs.len() });
    if !fit(outputs.iter()) {
        return breaks(Rule::Count);
    }
    if *resumed != recorded.len() || outputs.get(..*resumed) != Some(recorded) {
        return breaks(Rule::Resumed);
    }
    check_new(spec, attempt, *resumed, outputs.get(*resumed..).unwrap_or_default())?;
    check_sums(spec, outputs).or_else(breaks)
}

/// Whether so many outputs can travel, and be kept for the next attempt.
pub(crate) fn fit<'o>(outputs: impl Iterator<Item = &'o OutputTable>) -> bool {
    let (mut count, mut sidecars, mut names) = (0, 0, 0);
    for output in outputs {
        count += 1;
        sidecars += sizes(output).iter().sum::<usize>();
        let keys = [&output.smallest, &output.largest].map(|key| key.as_bytes().len());
        names += output.name.as_str().len() + keys.iter().sum::<usize>();
    }
    count <= OUTPUTS_MAX && sidecars <= SIDECARS_BYTES_MAX && names <= OUTPUT_NAMES_BYTES_MAX
}

/// Checks outputs that an attempt has made itself, the first of which is the job's number `before`.
///
/// # Errors
///
/// The first [`Violation`].
pub fn check_new(
    spec: &JobSpec,
    attempt: Attempt,
    before: usize,
    outputs: &[OutputTable],
) -> Result<(), Violation> {
    let seqnos = union(spec.inputs.iter().map(|input| input.seqnos));
    for (ordinal, output) in (before..).zip(outputs) {
        let breaks = |rule| Err(Violation { rule, output: ordinal });
        if sizes(output).iter().any(|bytes| *bytes > SIDECAR_BYTES_MAX) {
            return breaks(Rule::Count);
        }
        if output.name != ObjectName::output(&spec.place, attempt, ordinal) {
            return breaks(Rule::Name);
        }
        check_output(output, seqnos).or_else(breaks)?;
    }
    Ok(())
}

/// Checks what a worker says that it has made so far, when nobody remembers what earlier attempts told: the first
/// `resumed` outputs may be of any earlier attempt at this job.
///
/// # Errors
///
/// The first [`Violation`].
pub fn check_adopted(
    spec: &JobSpec,
    attempt: Attempt,
    resumed: usize,
    outputs: &[OutputTable],
) -> Result<(), Violation> {
    let breaks = |rule, output| Err(Violation { rule, output });
    if !fit(outputs.iter()) || resumed > outputs.len() {
        return breaks(Rule::Count, outputs.len());
    }
    let (earlier, own) = outputs.split_at(resumed);
    let seqnos = union(spec.inputs.iter().map(|input| input.seqnos));
    for (ordinal, output) in earlier.iter().enumerate() {
        let made_in = output.name.attempt_of_output(&spec.place, ordinal);
        if made_in.is_none_or(|made_in| made_in >= attempt) {
            return breaks(Rule::Name, ordinal);
        }
        check_output(output, seqnos).or_else(|rule| breaks(rule, ordinal))?;
    }
    check_new(spec, attempt, resumed, own)
}

fn sizes(output: &OutputTable) -> [usize; 2] {
    [&output.index, &output.filter].map(|block| block.as_ref().map_or(0, Vec::len))
}

fn check_output(output: &OutputTable, inputs: SeqRange) -> Result<(), Rule> {
    if output.bytes == 0 {
        return Err(Rule::Bytes);
    }
    if output.entries == 0 || output.deletions > output.entries {
        return Err(Rule::Entries);
    }
    let SeqRange { smallest, largest } = output.seqnos;
    if smallest > largest || smallest < inputs.smallest || largest > inputs.largest {
        return Err(Rule::Seqnos);
    }
    [&output.smallest, &output.largest].into_iter().try_for_each(|key: &TaggedKey| {
        if !(smallest..=largest).contains(&key.seqno()) {
            return Err(Rule::Seqnos);
        }
        if key.kind() > KIND_MAX { Err(Rule::Kind) } else { Ok(()) }
    })
}

fn check_sums(spec: &JobSpec, outputs: &[OutputTable]) -> Result<(), Rule> {
    let sum = |field: fn(&OutputTable) -> u64| {
        outputs.iter().fold(0u64, |sum, output| sum.saturating_add(field(output)))
    };
    if sum(|output| output.bytes) > spec.input_bytes().saturating_mul(GROWTH_MAX) {
        return Err(Rule::Bytes);
    }
    let of_inputs = spec.inputs.iter().map(|input| input.entries);
    let all_known = of_inputs.clone().all(|entries| entries > 0);
    let merged = of_inputs.fold(0u64, u64::saturating_add);
    if all_known && sum(|output| output.entries) > merged {
        return Err(Rule::Entries);
    }
    Ok(())
}

fn union(mut ranges: impl Iterator<Item = SeqRange>) -> SeqRange {
    let first = ranges.next().unwrap_or_default();
    ranges.fold(first, |all, range| SeqRange {
        smallest: all.smallest.min(range.smallest),
        largest: all.largest.max(range.largest),
    })
}

/// Checks what the database's order of keys tells: each output's bounds, that they follow each other without sharing a
/// user key, and that they lie within the inputs and the part.
///
/// # Errors
///
/// The first [`Violation`].
pub fn check_order(
    spec: &JobSpec,
    outputs: &[OutputTable],
    order: &dyn KeyOrder,
) -> Result<(), Violation> {
    let hull = Hull::of(spec, order);
    let mut last: Option<&OutputTable> = None;
    for (ordinal, output) in outputs.iter().enumerate() {
        let breaks = |rule| Err(Violation { rule, output: ordinal });
        if output.smallest.compare(order, &output.largest) == Ordering::Greater {
            return breaks(Rule::Bounds);
        }
        let follows = |last: &OutputTable| {
            order.compare(last.largest.user(), output.smallest.user()) == Ordering::Less
        };
        if !last.is_none_or(follows) {
            return breaks(Rule::Order);
        }
        if !hull.holds(order, output.smallest.user()) || !hull.holds(order, output.largest.user()) {
            return breaks(Rule::Hull);
        }
        last = Some(output);
    }
    Ok(())
}

/// The user keys that a job may write.
struct Hull<'s> {
    low: Option<&'s [u8]>,
    high: Option<&'s [u8]>,
    spec: &'s JobSpec,
}

impl<'s> Hull<'s> {
    fn of(spec: &'s JobSpec, order: &dyn KeyOrder) -> Self {
        let low = spec.inputs.iter().map(|input| input.span.smallest.user());
        let high = spec.inputs.iter().map(|input| input.span.largest.user());
        Hull {
            low: low.min_by(|left, right| order.compare(left, right)),
            high: high.max_by(|left, right| order.compare(left, right)),
            spec,
        }
    }

    fn holds(&self, order: &dyn KeyOrder, user: &[u8]) -> bool {
        let part = &self.spec.part;
        let not_before = |bound: &[u8]| order.compare(bound, user).is_le();
        let not_behind = |bound: &[u8]| order.compare(user, bound).is_le();
        self.low.is_some_and(not_before)
            && self.high.is_some_and(not_behind)
            && part.from.as_deref().is_none_or(not_before)
            && part.until.as_deref().is_none_or(|until| order.compare(user, until).is_lt())
    }
}
