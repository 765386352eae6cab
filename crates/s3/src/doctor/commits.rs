//! What commits need: conditions that hold, one winner of each race, and no lost update.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use siltstone_cloud::{Bucket, Condition, Failure, Part, Result as BucketResult, Tag};

use super::{Flaw, Patient, Question, Weight, hold};

const RACERS: usize = 8;
/// A server that loses one race in many is found by many; one that is not found is not thereby proved sound.
const RACES: usize = 40;
const UPDATES: usize = 8;

const LOST: &str = "two writers may both believe that they committed: acknowledged writes are lost";
const SPLIT: &str = "two machines may both own a database: acknowledged writes are lost";

pub(super) const QUESTIONS: [Question; 7] = [
    Question {
        name: "creating refuses what is there (If-None-Match)",
        weight: Weight::Commits,
        consequence: LOST,
        ask: creating_refuses,
    },
    Question {
        name: "of racing creators one wins",
        weight: Weight::Commits,
        consequence: LOST,
        ask: one_creator_wins,
    },
    Question {
        name: "replacing goes by the tag (If-Match)",
        weight: Weight::Commits,
        consequence: SPLIT,
        ask: replacing_goes_by_the_tag,
    },
    Question {
        name: "replacing refuses what is not there",
        weight: Weight::Commits,
        consequence: SPLIT,
        ask: replacing_refuses_the_missing,
    },
    Question {
        name: "of racing updates none is lost",
        weight: Weight::Commits,
        consequence: SPLIT,
        ask: no_update_is_lost,
    },
    Question {
        name: "tags tell contents apart",
        weight: Weight::Commits,
        consequence: SPLIT,
        ask: tags_differ,
    },
    Question {
        name: "a put whose answer was lost knows its own object",
        weight: Weight::Comfort,
        consequence: "after lost answers commits end as unsure, and have to be looked up",
        ask: marks_are_kept,
    },
];

fn put(patient: &Patient<'_>, name: &str, body: &str, when: Condition) -> BucketResult<Tag> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    patient.bucket.put(name, body, when, patient.call())
}

/// The put must be refused, and have changed nothing.
fn refused(patient: &Patient<'_>, name: &str, when: Condition, there: &str) -> Result<(), Flaw> {
    match put(patient, name, "intruder", when.clone()) {
        Err(error) if error.failure == Failure::Refused => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Err(Flaw::Broken(format!("a put on {when:?} went through"))),
    }
    let body = patient.bucket.get(name, Part::Whole, patient.call())?.body;
    hold(body == there.as_bytes(), || format!("a put on {when:?} was refused, and done"))
}

fn creating_refuses(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("create");
    put(patient, &name, "first", Condition::Absent)?;
    refused(patient, &name, Condition::Absent, "first")?;
    patient.bucket.delete(std::slice::from_ref(&name), patient.call())?;
    put(patient, &name, "second", Condition::Absent)?;
    refused(patient, &name, Condition::Absent, "second")
}

fn one_creator_wins(patient: &Patient<'_>) -> Result<(), Flaw> {
    for race in 0..RACES {
        let name = patient.name(&format!("race/{race}"));
        let name = name.as_str();
        let outcomes: Vec<BucketResult<Tag>> = std::thread::scope(|scope| {
            let racer = |at| move || put(patient, name, &format!("racer {at}"), Condition::Absent);
            let racers: Vec<_> = (0..RACERS).map(|at| scope.spawn(racer(at))).collect();
            racers.into_iter().map(|racer| racer.join().expect("puts do not panic")).collect()
        });
        let winners = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        hold(winners <= 1, || format!("race {race} of {RACERS}: {winners} winners"))?;
        let body = patient.bucket.get(name, Part::Whole, patient.call())?.body;
        let winner = outcomes.iter().position(Result::is_ok);
        // Without a winner that knows it, one whose answer was lost has won.
        hold(winner.is_none_or(|at| body == format!("racer {at}")), || {
            format!("race {race}: racer {winner:?} was told that it won, and {body:?} is there")
        })?;
    }
    Ok(())
}

fn replacing_goes_by_the_tag(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("replace");
    let first = put(patient, &name, "first", Condition::Always)?;
    let second = match put(patient, &name, "second", Condition::Tagged(first.clone())) {
        Err(error) if error.failure == Failure::Refused => {
            return Err(Flaw::Broken(format!("a put on the right tag was refused: {error}")));
        }
        outcome => outcome?,
    };
    refused(patient, &name, Condition::Tagged(first), "second")?;
    put(patient, &name, "third", Condition::Always)?;
    refused(patient, &name, Condition::Tagged(second), "third")
}

fn replacing_refuses_the_missing(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("replace-missing");
    let tag = Tag("\"00000000000000000000000000000000\"".to_owned());
    let outcome = put(patient, &name, "intruder", Condition::Tagged(tag));
    match outcome {
        Err(error) if error.failure == Failure::Refused => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(Flaw::Broken("what was not there was replaced".to_owned())),
    }
}

fn no_update_is_lost(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("counter");
    put(patient, &name, "0 start", Condition::Absent)?;
    let (done, unsure) = (AtomicU64::new(0), AtomicU64::new(0));
    let updates = |racer: usize| -> BucketResult<()> {
        for update in 0..UPDATES {
            let got = patient.bucket.get(&name, Part::Whole, patient.call())?;
            let body = format!("{} racer {racer} update {update}", count(&got.body) + 1);
            // Looked at after the threads are joined.
            match put(patient, &name, &body, Condition::Tagged(got.tag)) {
                Ok(_) => drop(done.fetch_add(1, Ordering::Relaxed)),
                Err(error) if error.failure == Failure::Refused => {}
                Err(error) if error.failure == Failure::Unsure => {
                    unsure.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let updates = &updates;
        let racers: Vec<_> = (0..RACERS).map(|at| scope.spawn(move || updates(at))).collect();
        racers.into_iter().try_for_each(|racer| racer.join().expect("puts do not panic"))
    })?;
    let counted = count(&patient.bucket.get(&name, Part::Whole, patient.call())?.body);
    let (done, unsure) = (done.into_inner(), unsure.into_inner());
    hold((done..=done + unsure).contains(&counted), || {
        format!("{done} updates were acknowledged, and the counter shows {counted}")
    })?;
    // Each round of racers has a winner, if conditions hold at all.
    hold(done + unsure > 0, || "none of the updates went through".to_owned())
}

/// The number at a body's beginning.
fn count(body: &Bytes) -> u64 {
    let text = String::from_utf8_lossy(body);
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn tags_differ(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("tags");
    let mut seen = Vec::new();
    for at in 0..6 {
        // Of equal length, and within one tick of any clock.
        let tag = put(patient, &name, &format!("content {at}"), Condition::Always)?;
        hold(!seen.contains(&tag), || format!("{tag:?} stands for two contents"))?;
        seen.push(tag);
    }
    Ok(())
}

fn marks_are_kept(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("mark");
    match patient.bucket.put_and_forget(&name, Bytes::from_static(b"x"), patient.call()) {
        Err(error) if error.failure == Failure::Unsure => Err(Flaw::Broken(error.to_string())),
        outcome => Ok(outcome.map(|_| ())?),
    }
}
