//! Where one attempt at a job reads and writes: its inputs and outputs in the bucket.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siltstone::service::{JobInput, Workplace};
use siltstone::{Error, RandomAccessFile, Result, Slot, WritableFile};
use siltstone_cloud::{Bucket, CrewDesk};
use siltstone_remote::{Attempt, Costs, JobSpec, ObjectName};

use crate::input::{BucketFile, Counter, Meter, Pace};
use crate::output::{Draft, Outbox, Sent};

/// What a job's inputs share to be read ahead.
const AHEAD_BYTES: u64 = 64 << 20;
/// How long a window is: on S3 Standard the first byte comes after 24 ms, as a rule, and the last of 2 MiB 23 later.
const WINDOW_BYTES: RangeInclusive<u64> = (256 << 10)..=(2 << 20);
/// So many windows of each input that is read at the same time find room.
const WINDOWS: u64 = 4;
/// So many inputs are on their way before they are opened.
const EXPECTED_MAX: usize = 32;

pub(crate) struct Desk {
    counter: Arc<Counter>,
    /// In the order in which the merge opens those of a slot.
    inputs: Vec<Input>,
    expected: Mutex<Expected>,
    paces: HashMap<Slot, Pace>,
    /// Whether the merge begins at the beginning of its inputs, and not behind what an earlier attempt has made, or within its part.
    from_the_beginning: bool,
    place: ObjectName,
    attempt: Attempt,
    /// What outputs mostly have.
    table_bytes: u64,
    outbox: Arc<Outbox>,
}

/// Inputs that will be opened soon.
#[derive(Default)]
struct Expected {
    files: HashMap<u64, Arc<BucketFile>>,
    /// They and all that were, or are opened.
    known: HashSet<u64>,
}

struct Input {
    number: u64,
    slot: Slot,
    name: ObjectName,
    bytes: u64,
}

impl Desk {
    pub(crate) fn new(
        (bucket, crew): (&Arc<dyn Bucket>, Option<CrewDesk>),
        (spec, job): (&JobSpec, &siltstone::service::JobSpec),
        (attempt, is_resumed): (Attempt, bool),
    ) -> Self {
        let inputs = spec.inputs.iter().zip(&job.inputs).map(|(named, input)| Input {
            number: named.number,
            slot: input.slot,
            name: named.name.clone(),
            bytes: input.bytes,
        });
        Desk {
            counter: Arc::new(Counter {
                bucket: Arc::clone(bucket),
                meter: Meter::default(),
                crew,
                ahead: AtomicU64::new(0),
                ahead_max: AHEAD_BYTES,
            }),
            inputs: inputs.collect(),
            expected: Mutex::default(),
            paces: paces(&job.inputs),
            from_the_beginning: job.part.from.is_none() && !is_resumed,
            place: spec.place.clone(),
            attempt,
            table_bytes: job.cut.table_bytes,
            outbox: Arc::default(),
        }
    }

    /// Sends for the first inputs of each slot, if they are what the merge begins with.
    pub(crate) fn begin(&self) {
        let slots = self.inputs.chunk_by(|one, next| one.slot == next.slot);
        slots.filter(|_| self.from_the_beginning).for_each(|inputs| self.expect(inputs));
    }

    /// Sends for inputs, as far as there is room.
    fn expect(&self, inputs: &[Input]) {
        let mut expected = self.expected();
        for input in inputs {
            if expected.files.len() >= EXPECTED_MAX {
                return;
            }
            if expected.known.insert(input.number) {
                let file = self.file(input);
                file.expect(self.from_the_beginning);
                expected.files.insert(input.number, file);
            }
        }
    }

    fn file(&self, input: &Input) -> Arc<BucketFile> {
        let object = (input.name.as_str(), input.bytes);
        Arc::new(BucketFile::new(&self.counter, object, self.paces[&input.slot].clone()))
    }

    fn expected(&self) -> MutexGuard<'_, Expected> {
        // Entries come and go whole.
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn output_name(&self, ordinal: usize) -> ObjectName {
        ObjectName::output(&self.place, self.attempt, ordinal)
    }

    /// The output that is complete goes to the bucket.
    pub(crate) fn send_output(&self) -> Sent {
        self.outbox.send(&self.counter)
    }

    pub(crate) fn costs(&self) -> Costs {
        let meter = &self.counter.meter;
        Costs {
            bytes_read: meter.bytes_read.load(Ordering::Relaxed),
            requests: meter.requests.load(Ordering::Relaxed),
            ..Costs::default()
        }
    }
}

/// Of level 0 all are read at the same time, of other slots one after the other, as wide as the one before.
fn paces(inputs: &[JobInput]) -> HashMap<Slot, Pace> {
    let slots: HashSet<Slot> = inputs.iter().map(|input| input.slot).collect();
    let level0 = inputs.iter().filter(|input| input.slot.level.number() == 0).count();
    let sources = (slots.len() + level0.saturating_sub(1)).max(1) as u64;
    let window_bytes = AHEAD_BYTES / (WINDOWS * sources);
    let window_bytes = window_bytes.clamp(*WINDOW_BYTES.start(), *WINDOW_BYTES.end());
    // All that finds room is asked for at once: a job mostly waits for its bucket.
    let windows = (AHEAD_BYTES / (window_bytes * sources)) as usize;
    slots.into_iter().map(|slot| (slot, Pace::new(window_bytes, windows))).collect()
}

impl Workplace for Desk {
    fn open(&self, input: &JobInput) -> Result<Arc<dyn RandomAccessFile>> {
        let unknown = || Error::invalid_argument(format!("{} is no input", input.number));
        let is_it = |known: &Input| known.number == input.number.0;
        let nth = self.inputs.iter().position(is_it).ok_or_else(unknown)?;
        let expected = {
            let mut expected = self.expected();
            expected.known.insert(input.number.0);
            expected.files.remove(&input.number.0)
        };
        // Those of the same slot come next.
        let slot = self.inputs[nth].slot;
        let behind = &self.inputs[nth + 1..];
        self.expect(&behind[..behind.iter().take_while(|next| next.slot == slot).count()]);
        Ok(expected.unwrap_or_else(|| self.file(&self.inputs[nth])))
    }

    fn create(&self, ordinal: usize) -> Result<Box<dyn WritableFile>> {
        let name = self.output_name(ordinal).to_string();
        Ok(Box::new(Draft::new((&self.outbox, &self.counter), name, self.table_bytes)))
    }
}
