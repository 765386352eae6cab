//! Results as a defective or hostile worker would return them: each breaks one thing.

use siltstone_remote::{Finished, JobId, JobSpec, ObjectName, OutputTable, TaggedKey};

use crate::dice::Dice;

/// Damages a result; false if this kind of damage needs more outputs than there are.
pub(crate) type Damage = fn(&mut Finished, &JobSpec) -> bool;

fn first(finished: &mut Finished) -> Option<&mut OutputTable> {
    finished.result.outputs.first_mut()
}

fn rename(finished: &mut Finished, name: impl Fn(&str) -> String) -> bool {
    first(finished).is_some_and(|output| {
        output.name = ObjectName::new(&name(output.name.as_str())).unwrap();
        true
    })
}

fn set(finished: &mut Finished, change: impl Fn(&mut OutputTable)) -> bool {
    first(finished).map(change).is_some()
}

fn key(user: &[u8], seqno: u64, kind: u8) -> TaggedKey {
    TaggedKey::new(user, seqno, kind).unwrap()
}

/// All kinds, by name.
pub(crate) const DAMAGES: &[(&str, Damage)] = &[
    ("no bytes", |f, _| set(f, |o| o.bytes = 0)),
    ("bytes beyond reason", |f, _| set(f, |o| o.bytes = u64::MAX)),
    ("bytes far beyond the inputs'", |f, spec| {
        let most = spec.input_bytes() * 64 + 1;
        set(f, |o| o.bytes = most)
    }),
    ("no entries", |f, _| set(f, |o| (o.entries, o.deletions) = (0, 0))),
    ("more entries than the inputs", |f, spec| {
        let all: u64 = spec.inputs.iter().map(|input| input.entries).sum();
        set(f, |o| o.entries = all + 1)
    }),
    ("entries beyond reason", |f, _| set(f, |o| o.entries = u64::MAX)),
    ("more deletions than entries", |f, _| set(f, |o| o.deletions = o.entries + 1)),
    ("sequence numbers too small", |f, _| set(f, |o| o.seqnos.smallest = 0)),
    ("sequence numbers too large", |f, _| set(f, |o| o.seqnos.largest = u64::MAX >> 8)),
    ("sequence numbers out of order", |f, _| {
        set(f, |o| {
            (o.seqnos.smallest, o.seqnos.largest) = (o.seqnos.largest + 1, o.seqnos.smallest)
        })
    }),
    ("a first key newer than all", |f, _| {
        set(f, |o| o.smallest = key(o.smallest.user(), o.seqnos.largest + 1, 1))
    }),
    ("a last key older than all", |f, _| {
        set(f, |o| o.largest = key(o.largest.user(), o.seqnos.smallest - 1, 1))
    }),
    ("a kind that there is not", |f, _| {
        set(f, |o| o.largest = key(o.largest.user(), o.largest.seqno(), 2))
    }),
    ("bounds crossed", |f, _| {
        set(f, |o| {
            let user = [o.smallest.user(), &[0]].concat();
            o.largest = key(&user, o.largest.seqno(), 1);
            o.smallest = key(&[o.largest.user(), &[1]].concat(), o.smallest.seqno(), 1);
        })
    }),
    ("below the hull", |f, _| set(f, |o| o.smallest = key(b"", o.smallest.seqno(), 1))),
    ("above the hull", |f, _| {
        let Some(last) = f.result.outputs.last_mut() else { return false };
        last.largest = key(&[0xff; 9], last.largest.seqno(), 1);
        true
    }),
    ("out of order", |f, _| {
        let outputs = &mut f.result.outputs;
        let [first, second, ..] = &mut outputs[..] else { return false };
        std::mem::swap(&mut first.smallest, &mut second.smallest);
        std::mem::swap(&mut first.largest, &mut second.largest);
        std::mem::swap(&mut first.seqnos, &mut second.seqnos);
        true
    }),
    ("overlapping", |f, _| {
        let [first, second, ..] = &mut f.result.outputs[..] else { return false };
        first.largest = key(second.largest.user(), first.largest.seqno(), 1);
        true
    }),
    ("one user key in two outputs", |f, _| {
        let [first, second, ..] = &mut f.result.outputs[..] else { return false };
        first.largest = key(second.smallest.user(), first.largest.seqno(), 1);
        true
    }),
    ("an output twice", |f, _| {
        let Some(output) = f.result.outputs.first().cloned() else { return false };
        f.result.outputs.push(output);
        true
    }),
    ("an output left out in front", |f, _| {
        f.result.outputs.len() > 1 && {
            f.result.outputs.remove(0);
            true
        }
    }),
    ("another job's output", |f, spec| {
        let other = JobId::from_u128(spec.job.to_u128() + 1).to_string();
        let own = spec.job.to_string();
        rename(f, |name| name.replace(&own, &other))
    }),
    ("another attempt's output", |f, _| {
        rename(f, |name| {
            let (place, ordinal) = name.rsplit_once('/').unwrap();
            format!("{place}9/{ordinal}")
        })
    }),
    ("another database's output", |f, _| rename(f, |name| format!("other/{name}"))),
    ("an input as an output", |f, spec| {
        let input = spec.inputs[0].name.clone();
        set(f, |o| o.name = input.clone())
    }),
    ("a name with another number", |f, _| rename(f, |name| name.replace("000000", "000001"))),
    ("a number written otherwise", |f, _| rename(f, |name| name.replace("000000.ldb", "0.ldb"))),
    ("a name with another ending", |f, _| rename(f, |name| format!("{name}.tmp"))),
    ("a name above its place", |f, _| {
        rename(f, |name| name.rsplit_once('/').unwrap().1.to_owned())
    }),
    ("more said to be resumed", |f, _| {
        f.resumed += 1;
        true
    }),
    ("more resumed than there is", |f, _| {
        f.resumed = usize::MAX;
        true
    }),
    ("less resumed than was given", |f, _| {
        f.resumed > 0 && {
            f.resumed -= 1;
            true
        }
    }),
    ("a resumed output changed", |f, _| f.resumed > 0 && set(f, |o| o.crc32c ^= 1)),
    ("an index larger than may travel", |f, _| set(f, |o| o.index = Some(vec![0; (1 << 20) + 1]))),
    ("a filter larger than may travel", |f, _| set(f, |o| o.filter = Some(vec![0; (1 << 20) + 1]))),
    ("indexes that are together too large", |f, _| {
        f.result.outputs.len() > 4 && {
            f.result.outputs.iter_mut().for_each(|o| o.index = Some(vec![0; 1 << 20]));
            true
        }
    }),
    ("outputs without number", |f, _| {
        let Some(output) = f.result.outputs.first().cloned() else { return false };
        f.result.outputs = vec![output; 16_385];
        true
    }),
];

/// Damages a result somehow; false if nothing could be done to it.
pub(crate) fn forge(dice: &mut Dice, finished: &mut Finished, spec: &JobSpec) -> bool {
    let (_, damage) = DAMAGES[dice.roll(DAMAGES.len() as u64 - 1) as usize];
    damage(finished, spec)
}
