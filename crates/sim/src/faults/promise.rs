//! What must hold whatever fails, and how a breach is told.

use std::fmt::Display;

/// A promise of the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// Whatever fails, the engine does not panic.
    NoPanic,
    /// Every call returns.
    NoHang,
    /// What is read is right, or an error; scans do not end early.
    RightAnswers,
    /// What was acknowledged is there, and nothing that was not written; batches are whole.
    KeptWrites,
    /// A database can be opened when nothing fails any more.
    Opens,
    /// A check of the whole database finds nothing.
    SoundFiles,
    /// Writing goes on, or is refused with the first cause, as the failure demands.
    Resumes,
    /// Only files that the database needs stay.
    NoLeakedFiles,
    /// Every file and lock is closed.
    NoLeakedHandles,
}

impl Promise {
    pub(crate) const ALL: [Promise; 9] = [
        Promise::NoPanic,
        Promise::NoHang,
        Promise::RightAnswers,
        Promise::KeptWrites,
        Promise::Opens,
        Promise::SoundFiles,
        Promise::Resumes,
        Promise::NoLeakedFiles,
        Promise::NoLeakedHandles,
    ];

    /// What a breach is counted as.
    pub(crate) fn breach(self) -> &'static str {
        match self {
            Promise::NoPanic => "panics",
            Promise::NoHang => "hangs",
            Promise::RightAnswers => "wrong answers",
            Promise::KeptWrites => "lost or invented writes",
            Promise::Opens => "failed opens after healing",
            Promise::SoundFiles => "failed structure checks",
            Promise::Resumes => "writes not resumed or not refused",
            Promise::NoLeakedFiles => "leaked files",
            Promise::NoLeakedHandles => "leaked handles",
        }
    }

    /// The breach, told in words.
    pub(crate) fn broken<T>(self, how: impl Display) -> Checked<T> {
        Err(Broken { promise: self, how: how.to_string() })
    }
}

/// A breach of a promise.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) promise: Promise,
    pub(crate) how: String,
}

/// `Ok` as long as all promises hold.
pub(crate) type Checked<T = ()> = Result<T, Broken>;
