//! Names are what they stand for, and nothing else is a name.

use super::*;

fn names() -> Vec<Name> {
    let job = JobId { epoch: Epoch(3), number: 0 };
    let last = Attempt { term: u32::MAX, count: u32::MAX };
    vec![
        Name::Owner,
        Name::Version(VersionNumber(17)),
        Name::Version(VersionNumber(u64::MAX)),
        Name::Table(TableId::Own { epoch: Epoch(1), number: 7 }),
        Name::Table(TableId::Own { epoch: Epoch(u64::MAX), number: u64::MAX }),
        Name::Table(TableId::Worked { job, attempt: Attempt { term: 0, count: 1 }, ordinal: 0 }),
        Name::Table(TableId::Worked { job, attempt: last, ordinal: u32::MAX }),
        Name::Job(job),
        Name::Wal(9),
        Name::Reader(Token(5)),
        Name::Pin(PinName::new("daily-1").unwrap(), Token(u128::MAX)),
        Name::Boundary,
        Name::Now,
    ]
}

#[test]
fn names_parse_back() {
    for root in ["", "a", "shop/orders/v=1"] {
        let root = Root::new(root).unwrap();
        for name in names() {
            assert_eq!(root.parse(&root.object(&name)), Some(name));
        }
    }
    assert_eq!(
        Root::new("a/").unwrap().object(&Name::Version(VersionNumber(17))),
        "a/v/00000000000000000017"
    );
}

#[test]
fn other_spellings_are_nobodys() {
    let root = Root::new("a").unwrap();
    let table = root.table(TableId::Own { epoch: Epoch(1), number: 7 });
    let other_digits = table.replace("/e1", "0/e1");
    for object in [
        "owner",
        "a/owner/",
        "a/v/17",
        "a/v/+0000000000000000017",
        "a/v/00000000000000000017/x",
        "a/v/99999999999999999999",
        "a/s/e1-7.ldb",
        "a/s/00/e01-7.ldb",
        &other_digits,
        "a/s/../e1-7.ldb",
        "a/jobs/1-2",
        "a/jobs/01-2/spec",
        "a/away/01-2",
        "a/away/1-2/spec",
        "a/readers/5",
        "a/readers/0000000000000000000000000000000G",
        "a/readers/0000000000000000000000000000000A",
        "a/pins/x",
        "a/pins/.00000000000000000000000000000001",
        "a/jobs/1-2/x/../../y",
        "a/jobs/1-2/",
        "a/gc/else",
        "a/else",
        "",
    ] {
        assert_eq!(root.parse(object), None, "{object}");
    }
    let job = JobId { epoch: Epoch(1), number: 2 };
    // What is no worker's table is the job's, whatever it is.
    for object in [
        "a/jobs/1-2/3/progress",
        "a/jobs/1-2/3/000004.ldb",
        "a/jobs/1-2/3-4/4.ldb",
        "a/jobs/1-2/3-4/0000004.ldb",
        "a/jobs/1-2/03-4/000004.ldb",
        "a/jobs/1-2/3-4294967296/000004.ldb",
        "a/jobs/1-2/3-4/4294967296.ldb",
    ] {
        assert_eq!(root.parse(object), Some(Name::Job(job)), "{object}");
    }
    let attempt = Attempt { term: 3, count: 4 };
    let worked = TableId::Worked { job, attempt, ordinal: 5 };
    assert_eq!(root.table(worked), "a/jobs/1-2/3-4/000005.ldb");
}

#[test]
fn roots_stay_inside_the_bucket() {
    for path in ["/", "a//b", "../a", "a/..", "a/.b", "a b", "\u{e4}", &"x".repeat(512)] {
        let refused = Root::new(path).map_err(|error| error.kind());
        if path == "/" {
            assert_eq!(refused.unwrap(), Root::default());
        } else {
            assert_eq!(refused.unwrap_err(), ErrorKind::Misuse, "{path}");
        }
    }
}
