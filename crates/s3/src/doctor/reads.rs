//! What everybody needs: that objects are kept, found, read in parts, and gone when they were removed.

use bytes::Bytes;
use siltstone_cloud::{Bucket, Condition, Failure, Part};

use super::{Flaw, Patient, Question, Weight, hold};

pub(super) const QUESTIONS: [Question; 8] = [
    Question {
        name: "a put is read back, at once and each time",
        weight: Weight::All,
        consequence: "reads bring old data, or none",
        ask: puts_are_read_back,
    },
    Question {
        name: "what is missing is missing",
        weight: Weight::All,
        consequence: "a database that is not there cannot be told from one that cannot be read",
        ask: missing_is_missing,
    },
    Question {
        name: "ranges and tails are exact",
        weight: Weight::All,
        consequence: "blocks of tables cannot be read",
        ask: ranges_are_exact,
    },
    Question {
        name: "ranges end with the object",
        weight: Weight::All,
        consequence: "the ends of tables cannot be read",
        ask: ranges_end_with_the_object,
    },
    Question {
        name: "lists are whole, in order, and begin behind a name",
        weight: Weight::All,
        consequence: "collection misses tables, or takes ones that are needed; versions are not found",
        ask: lists_are_whole,
    },
    Question {
        name: "what was deleted is gone, and may be deleted again",
        weight: Weight::All,
        consequence: "collection does not end, and storage is paid for what nobody needs",
        ask: deleted_is_gone,
    },
    Question {
        name: "parts make up the object, in order",
        weight: Weight::All,
        consequence: "tables above 32 MiB cannot be written",
        ask: parts_make_the_object,
    },
    Question {
        name: "heads and lists agree with gets",
        weight: Weight::All,
        consequence: "a table that is checked by its size may be another one",
        ask: heads_agree,
    },
];

fn puts_are_read_back(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("fresh");
    for round in 0..12 {
        let body = format!("round {round}");
        let put =
            patient.bucket.put(&name, body.clone().into(), Condition::Always, patient.call())?;
        let got = patient.bucket.get(&name, Part::Whole, patient.call())?;
        hold(got.body == body.as_bytes(), || format!("round {round} put, {:?} got", got.body))?;
        hold(got.tag == put, || format!("{put:?} put, {:?} got", got.tag))?;
    }
    for round in 0..8 {
        let name = format!("{}-{round}", patient.name("fresh"));
        patient.bucket.put(&name, Bytes::new(), Condition::Always, patient.call())?;
        let listed = patient.bucket.list(&name, "", patient.call())?;
        hold(listed.len() == 1 && listed[0].name == name, || {
            format!("{name} was put, and listed are {listed:?}")
        })?;
    }
    Ok(())
}

fn missing_is_missing(patient: &Patient<'_>) -> Result<(), Flaw> {
    let name = patient.name("missing");
    let answers = [
        patient.bucket.get(&name, Part::Whole, patient.call()).map(|_| ()),
        patient.bucket.get(&name, Part::Tail(10), patient.call()).map(|_| ()),
        patient.bucket.head(&name, patient.call()).map(|_| ()),
    ];
    for answer in answers {
        let failure = answer.as_ref().err().map(|error| error.failure);
        hold(failure == Some(Failure::Missing), || format!("the answer is {answer:?}"))?;
    }
    Ok(())
}

/// Bytes of which no two stretches are alike.
fn pattern(len: usize) -> Bytes {
    (0..len as u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 15) as u8)
        .collect::<Vec<_>>()
        .into()
}

fn parts_are(
    patient: &Patient<'_>,
    len: usize,
    parts: &[(Part, usize, usize)],
) -> Result<(), Flaw> {
    let (name, body) = (patient.name("ranges"), pattern(len));
    patient.bucket.put(&name, body.clone(), Condition::Always, patient.call())?;
    for (part, from, to) in parts {
        let got = patient.bucket.get(&name, *part, patient.call())?;
        let right = got.body == body.slice(*from..*to) && got.bytes == len as u64;
        hold(right && got.offset == *from as u64, || {
            format!(
                "{part:?} of {len} bytes: {} from {} of {}",
                got.body.len(),
                got.offset,
                got.bytes
            )
        })?;
    }
    Ok(())
}

fn ranges_are_exact(patient: &Patient<'_>) -> Result<(), Flaw> {
    let range = |offset, len| Part::Range { offset, len };
    parts_are(
        patient,
        100_000,
        &[
            (range(0, 1), 0, 1),
            (range(4_096, 4_096), 4_096, 8_192),
            (range(99_999, 1), 99_999, 100_000),
            (range(0, 100_000), 0, 100_000),
            (Part::Tail(48), 99_952, 100_000),
            (Part::Tail(65_536), 34_464, 100_000),
        ],
    )
}

fn ranges_end_with_the_object(patient: &Patient<'_>) -> Result<(), Flaw> {
    let range = |offset, len| Part::Range { offset, len };
    parts_are(
        patient,
        1_000,
        &[
            (range(900, 4_096), 900, 1_000),
            (range(1_000, 10), 1_000, 1_000),
            (range(5_000, 10), 1_000, 1_000),
            (Part::Tail(65_536), 0, 1_000),
        ],
    )?;
    parts_are(patient, 0, &[(Part::Tail(10), 0, 0), (range(0, 10), 0, 0), (Part::Whole, 0, 0)])
}

fn lists_are_whole(patient: &Patient<'_>) -> Result<(), Flaw> {
    const COUNT: usize = 25;
    let mut names: Vec<String> =
        (0..COUNT).map(|at| patient.name(&format!("list/{at:03}"))).collect();
    names.extend(["list-", "list.", "list0"].map(|name| patient.name(name)));
    // Not in the order of names: a server that lists in the order of writing is found out.
    for at in 0..names.len() {
        let name = &names[at * 17 % names.len()];
        patient.bucket.put(name, Bytes::new(), Condition::Always, patient.call())?;
    }
    for (page, after, from) in
        [(7, "", 0), (1000, "", 0), (7, "list/013", 14), (7, "list/013x", 14), (7, "list/1", COUNT)]
    {
        let after = if after.is_empty() { String::new() } else { patient.name(after) };
        let found = listed(patient, page, &after)?;
        hold(found == names[from..COUNT], || {
            format!("by pages of {page} behind {after:?} come {} names: {found:?}", found.len())
        })?;
    }
    Ok(())
}

fn listed(patient: &Patient<'_>, page: usize, after: &str) -> Result<Vec<String>, Flaw> {
    let (prefix, mut found) = (patient.name("list/"), Vec::new());
    let (mut after, mut was_last) = (after.to_owned(), false);
    loop {
        let page = patient.bucket.list_by(page, &prefix, &after, patient.call())?;
        let Some(last) = page.last() else { return Ok(found) };
        // What follows the page that is called the last is found out by asking on.
        hold(!was_last, || format!("{} comes behind the last page", last.name))?;
        was_last = page.is_last;
        after.clone_from(&last.name);
        found.extend(page.stats.into_iter().map(|stat| stat.name));
    }
}

fn deleted_is_gone(patient: &Patient<'_>) -> Result<(), Flaw> {
    let names: Vec<String> = (0..5).map(|at| patient.name(&format!("gone/{at}"))).collect();
    for name in &names {
        patient.bucket.put(name, Bytes::new(), Condition::Always, patient.call())?;
    }
    patient.bucket.delete(&names, patient.call())?;
    for name in &names {
        let gone = patient.bucket.head(name, patient.call()).err().map(|error| error.failure);
        hold(gone == Some(Failure::Missing), || {
            format!("after its removal {name} answers {gone:?}")
        })?;
    }
    let left = patient.bucket.list(&patient.name("gone/"), "", patient.call())?;
    hold(left.is_empty(), || format!("after all were removed, {} are listed", left.len()))?;
    patient.bucket.delete(&names, patient.call())?;
    Ok(patient.bucket.delete(&[patient.name("never")], patient.call())?)
}

fn parts_make_the_object(patient: &Patient<'_>) -> Result<(), Flaw> {
    const PART: usize = 5 << 20;
    let (name, body) = (patient.name("parts"), pattern(2 * PART + 77));
    let put = patient.bucket.put_in_parts(&name, body.clone(), PART, patient.call())?;
    let got = patient.bucket.get(&name, Part::Whole, patient.call())?;
    hold(got.body == body, || {
        format!("{} bytes put in 3 parts, {} other ones got", body.len(), got.body.len())
    })?;
    hold(got.tag == put, || format!("{put:?} put, {:?} got", got.tag))
}

fn heads_agree(patient: &Patient<'_>) -> Result<(), Flaw> {
    let (name, body) = (patient.name("agree"), pattern(12_345));
    let put = patient.bucket.put(&name, body, Condition::Always, patient.call())?;
    let head = patient.bucket.head(&name, patient.call())?;
    let listed = patient.bucket.list(&name, "", patient.call())?;
    for stat in listed.iter().chain([&head]) {
        hold(stat.bytes == 12_345 && stat.tag == put, || format!("{put:?} put, {stat:?} told"))?;
    }
    Ok(())
}
