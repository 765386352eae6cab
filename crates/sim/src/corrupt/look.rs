//! A damaged database is opened and read, in every way there is, and what is seen is written down.

use std::sync::Arc;

use siltstone::{Db, Env, Error, Options, RecoveryReport, Result, VerifyReport, verify};

use super::damage::{Content, Image};
use super::history::Pairs;
use super::specimen::{DIR, Specimen};
use crate::Folder;

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Writable,
    Paranoid,
    ReadOnly,
}

impl Mode {
    pub(super) const ALL: [Mode; 3] = [Mode::Writable, Mode::Paranoid, Mode::ReadOnly];
}

/// All that reading a database has given.
pub(super) struct Answers {
    pub(super) recovery: RecoveryReport,
    /// For each key asked for.
    gets: Vec<Result<Option<Vec<u8>>>>,
    /// Pairs in key order, and the error that ended the scan.
    forward: (Pairs, Option<Error>),
    /// The same from the end.
    backward: (Pairs, Option<Error>),
}

/// A damaged database of its own for each look.
pub(super) struct Stage {
    options: Options,
    pub(super) folder: Folder,
}

impl Stage {
    pub(super) fn set(specimen: &Specimen, image: &Image<'_>) -> Self {
        let env = Env::memory();
        let folder = Folder::new(Arc::clone(&env.file_system), DIR);
        for (name, content) in image {
            match content {
                Content::Bytes(bytes) => folder.write(name, bytes),
                Content::Folder => folder.make_folder(name),
            }
        }
        Stage { options: specimen.options(&env), folder }
    }

    pub(super) fn open(&self, mode: Mode) -> Result<Db> {
        let options = Options { paranoid_checks: mode == Mode::Paranoid, ..self.options.clone() };
        match mode {
            Mode::Writable | Mode::Paranoid => Db::open(DIR, options),
            Mode::ReadOnly => Db::open_read_only(DIR, options),
        }
    }

    pub(super) fn verify(&self) -> Result<VerifyReport> {
        verify(DIR, &self.options)
    }

    /// True if all files are still there, as they were.
    pub(super) fn is_untouched(&self, image: &Image<'_>) -> bool {
        image.iter().all(|(name, content)| match content {
            Content::Bytes(bytes) => {
                self.folder.fs.open(&self.folder.path(name)).is_ok_and(|file| {
                    file.len() == bytes.len() as u64 && self.folder.read(name) == **bytes
                })
            }
            Content::Folder => true,
        })
    }
}

impl Answers {
    pub(super) fn of(db: &Db, keys: &[Vec<u8>]) -> Self {
        Answers {
            recovery: db.recovery_report().clone(),
            gets: keys.iter().map(|key| db.get(key)).collect(),
            forward: scan(db, Direction::Forward),
            backward: scan(db, Direction::Backward),
        }
    }

    pub(super) fn errors(&self) -> impl Iterator<Item = &Error> {
        let gets = self.gets.iter().filter_map(|get| get.as_ref().err());
        gets.chain(&self.forward.1).chain(&self.backward.1)
    }

    /// The first answer that is wrong if this is what the database holds. A scan that met an error
    /// was right until then.
    pub(super) fn wrong(&self, keys: &[Vec<u8>], expected: &Pairs) -> Option<String> {
        for (key, get) in keys.iter().zip(&self.gets) {
            let Ok(got) = get else { continue };
            let found = expected.binary_search_by(|(known, _)| known.cmp(key));
            let right = found.ok().map(|index| &expected[index].1);
            if got.as_ref() != right {
                let (key, got, right) =
                    (text(key), got.as_deref().map(text), right.map(|v| text(v)));
                return Some(format!("get of {key} gives {got:?}, not {right:?}"));
            }
        }
        let wrong = |(pairs, error): &(Pairs, Option<Error>), mut right: Vec<_>| {
            if error.is_some() {
                right.truncate(pairs.len());
            }
            !pairs.iter().eq(right)
        };
        if wrong(&self.forward, expected.iter().collect()) {
            return Some(format!("a scan gives {}", self.forward.0.len()) + " other pairs");
        }
        if wrong(&self.backward, expected.iter().rev().collect()) {
            return Some(format!("a scan back gives {}", self.backward.0.len()) + " other pairs");
        }
        None
    }

    /// The first key whose value neither of two databases has.
    pub(super) fn written_by_neither(
        &self,
        keys: &[Vec<u8>],
        states: [&[(Vec<u8>, Vec<u8>)]; 2],
    ) -> Option<String> {
        let value = |state: &[(Vec<u8>, Vec<u8>)], key: &[u8]| {
            state.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
        };
        let known =
            |key: &[u8], got: Option<Vec<u8>>| states.iter().any(|state| value(state, key) == got);
        let gets = keys.iter().zip(&self.gets);
        let mut gets = gets.filter_map(|(key, get)| Some((key, get.as_ref().ok()?.clone())));
        let mut scanned = self.forward.0.iter().chain(&self.backward.0);
        let wrong = gets.find(|(key, got)| !known(key, got.clone())).map(|(key, _)| key);
        let wrong = wrong.or_else(|| {
            scanned.find(|(key, value)| !known(key, Some(value.clone()))).map(|(key, _)| key)
        });
        wrong.map(|key| format!("{} has a value that nobody wrote", text(key)))
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

fn scan(db: &Db, direction: Direction) -> (Pairs, Option<Error>) {
    let mut pairs = Pairs::new();
    let error = try_scan(db, direction, &mut pairs).err();
    (pairs, error)
}

fn try_scan(db: &Db, direction: Direction, pairs: &mut Pairs) -> Result<()> {
    let mut iter = db.iter()?;
    match direction {
        Direction::Forward => iter.seek_to_first()?,
        Direction::Backward => iter.seek_to_last()?,
    }
    while iter.valid() {
        pairs.push((iter.key().to_vec(), iter.value().to_vec()));
        match direction {
            Direction::Forward => iter.next()?,
            Direction::Backward => iter.prev()?,
        }
    }
    Ok(())
}
