//! Holds what is seen against the label: every answer, every error's place, every report.

use siltstone::{Db, Error, ErrorKind, Verdict};

use super::damage::{Case, Damage, Image, image};
use super::history::Pairs;
use super::label::{Label, first_difference, leaves_a_trace};
use super::look::{Answers, Mode, Stage};
use super::specimen::{Kind, Specimen};
use super::wal_map::stretches;

/// One case, before a judge.
pub(super) struct Trial<'a> {
    specimen: &'a Specimen,
    case: &'a Case,
    keys: &'a [Vec<u8>],
    image: Image<'a>,
    label: Label,
    /// The case's place in the run: what costs much is done to some cases only.
    turn: usize,
    verdict: Outcome,
}

/// What a trial has found.
#[derive(Default)]
pub(super) struct Outcome {
    /// Answers that are wrong, or missing without an error; tails and damage not told apart.
    pub(super) wrong: Vec<String>,
    /// Errors that do not say where.
    pub(super) placeless: Vec<String>,
    /// What `verify` has overlooked.
    pub(super) overlooked: Vec<String>,
    /// Rule R8 had to decide: for a tail, or for damage.
    pub(super) tail: bool,
    pub(super) damage: bool,
    /// Answers came from another database, as nothing can prevent.
    pub(super) foreign: bool,
}

impl Outcome {
    pub(super) fn is_clean(&self) -> bool {
        self.wrong.is_empty() && self.placeless.is_empty() && self.overlooked.is_empty()
    }
}

/// Tries one case in every mode.
pub(super) fn judge(specimen: &Specimen, case: &Case, keys: &[Vec<u8>], turn: usize) -> Outcome {
    let label = Label::of(specimen, case);
    let image = image(specimen, case);
    let verdict = Outcome {
        tail: matches!(label, Label::Tail { .. }),
        damage: matches!(label, Label::Damage),
        ..Default::default()
    };
    let mut trial = Trial { specimen, case, keys, image, label, turn, verdict };
    let failed = Mode::ALL.map(|mode| trial.look(mode));
    trial.verify(failed.contains(&true));
    trial.verdict
}

/// Of so many cases, one is opened again, and one is compacted.
const AGAIN_EVERY: usize = 8;

impl Trial<'_> {
    fn wrong(&mut self, mode: Mode, what: impl Into<String>) {
        self.verdict.wrong.push(format!("{mode:?}: {}", what.into()));
    }

    /// Opens and reads. True if anything failed.
    fn look(&mut self, mode: Mode) -> bool {
        let stage = Stage::set(self.specimen, &self.image);
        match stage.open(mode) {
            Err(error) => {
                self.failed_open(mode, &error);
                if !stage.is_untouched(&self.image) {
                    self.wrong(mode, "the failed open has changed files");
                }
                true
            }
            Ok(db) => {
                let failed = self.read(mode, &db);
                if mode == Mode::Writable && !matches!(self.label, Label::Foreign) {
                    self.later(&stage, db);
                }
                failed
            }
        }
    }

    fn failed_open(&mut self, mode: Mode, error: &Error) {
        self.check_place(error);
        let allowed = match self.label {
            Label::Whole => false,
            Label::Tail { .. } => mode == Mode::Paranoid,
            Label::Damage => {
                let is_gone = self.case.damage == Damage::Remove;
                error.is_corruption() && (error.offset().is_some() || is_gone)
            }
            Label::RightOrError | Label::TailOrError { .. } | Label::Foreign => true,
        };
        if !allowed {
            self.wrong(mode, format!("does not open: {error}"));
        }
    }

    fn read(&mut self, mode: Mode, db: &Db) -> bool {
        let answers = Answers::of(db, self.keys);
        let errors: Vec<Error> = answers.errors().cloned().collect();
        errors.iter().for_each(|error| self.check_place(error));
        if let Some(error) = errors.first()
            && !matches!(self.label, Label::RightOrError | Label::Foreign)
        {
            self.wrong(mode, format!("cannot be read: {error}"));
        }
        self.check_answers(mode, &answers);
        !errors.is_empty()
    }

    fn check_answers(&mut self, mode: Mode, answers: &Answers) {
        let (keys, specimen) = (self.keys, self.specimen);
        let wrong = match &self.label {
            Label::Damage => Some("opens, although promised bytes have changed".to_owned()),
            Label::Foreign => self.check_foreign(answers),
            Label::Tail { told: true, .. } if tells_nothing(answers) => {
                Some("reports nothing of what it dropped".to_owned())
            }
            _ => answers.wrong(keys, self.expected(specimen)),
        };
        if let Some(wrong) = wrong {
            self.wrong(mode, wrong);
        }
    }

    fn check_foreign(&mut self, answers: &Answers) -> Option<String> {
        let histories = [Some(self.specimen), self.specimen.twin.as_deref()];
        let states = histories.map(|one| one.map_or(&[][..], |one| &one.history.last()[..]));
        let foreign = answers.wrong(self.keys, self.specimen.history.last()).is_some();
        self.verdict.foreign |= foreign;
        answers.written_by_neither(self.keys, states)
    }

    fn expected<'s>(&self, specimen: &'s Specimen) -> &'s Pairs {
        match self.label {
            Label::Tail { batches, .. } | Label::TailOrError { batches } => {
                specimen.history.after(batches)
            }
            _ => specimen.history.last(),
        }
    }

    /// What the open has written must say the same, and so must a compaction.
    fn later(&mut self, stage: &Stage, db: Db) {
        let asked =
            |turn: usize| turn.is_multiple_of(AGAIN_EVERY) || !self.case.damage.is_in_place();
        if asked(self.turn) {
            drop(db);
            match stage.open(Mode::Writable) {
                Ok(db) => self.answers_again(&db, "opened again"),
                Err(error) => self.check_place(&error),
            }
        } else if asked(self.turn + 1) {
            if let Err(error) = db.compact_range(None, None) {
                self.check_place(&error);
            }
            self.answers_again(&db, "compacted");
        }
    }

    fn answers_again(&mut self, db: &Db, when: &str) {
        let answers = Answers::of(db, self.keys);
        if let Some(wrong) = answers.wrong(self.keys, self.expected(self.specimen)) {
            self.wrong(Mode::Writable, format!("{when}: {wrong}"));
        }
    }

    fn verify(&mut self, failed: bool) {
        let stage = Stage::set(self.specimen, &self.image);
        let report = match stage.verify() {
            Ok(report) => report,
            Err(error) => return self.check_place(&error),
        };
        report.problems().for_each(|problem| self.check_place(problem));
        let torn = report
            .files
            .iter()
            .any(|file| matches!(file.verdict, Verdict::Ok) && file.torn_bytes > 0);
        if !report.is_ok() || torn {
            return;
        }
        if failed {
            self.verdict.overlooked.push("says whole what fails".to_owned());
        } else if self.must_be_noticed() {
            self.verdict.overlooked.push("says whole what has changed".to_owned());
        }
    }

    /// True if the log with this damage is nothing but the beginning of the one before it, which is `other`.
    fn repeats_the_log_before(&self, other: usize) -> bool {
        let (name, before) = &self.specimen.files[other];
        let follows = self.specimen.named(Kind::Wal).skip_while(|log| log != name).nth(1);
        let damaged = self.case.damage.bytes(self.specimen, self.case.file);
        follows == Some(&self.specimen.files[self.case.file].0)
            && damaged.is_some_and(|damaged| before.starts_with(&damaged))
    }

    /// True if `verify` can see this damage.
    fn must_be_noticed(&self) -> bool {
        let (name, old) = &self.specimen.files[self.case.file];
        let kind = Kind::of(name);
        let in_records = matches!(kind, Kind::Wal | Kind::Manifest);
        match &self.case.damage {
            Damage::Remove | Damage::Folder => !matches!(self.label, Label::Tail { .. }),
            Damage::None | Damage::Extra { .. } | Damage::FromTwin => false,
            Damage::Doubled(_) | Damage::Garbage { .. } => !in_records,
            // As recovery copies a log with `reuse_logs`: the one it replaces may never have been.
            Damage::CopyOf(other) if kind == Kind::Wal => !self.repeats_the_log_before(*other),
            Damage::Stale { of: Some(other), .. }
                if kind == Kind::Wal && self.repeats_the_log_before(*other) =>
            {
                false
            }
            damage => {
                let new = damage.bytes(self.specimen, self.case.file).unwrap_or_default();
                let Some(changed) = first_difference(old, &new) else { return false };
                !in_records || leaves_a_trace(&stretches(old), changed, &new)
            }
        }
    }

    /// Errors name a file, and an offset where bytes of it are to blame.
    ///
    /// No offset is due if a file as a whole is: one that is missing, is a folder, has another length
    /// than the manifest says, or is another file; nor if the operating system refused.
    fn check_place(&mut self, error: &Error) {
        if let Some(complaint) = self.complaint(error) {
            self.verdict.placeless.push(format!("{complaint}: {error}"));
        }
    }

    /// Some of the file's bytes are its own, and all are where they were.
    fn is_in_place(&self) -> bool {
        let (_, old) = &self.specimen.files[self.case.file];
        let is_all = match self.case.damage {
            Damage::Fill { at: 0, bytes, .. } => bytes >= old.len(),
            // Enough of another table's bytes make it that table.
            Damage::Stale { of, .. } => of.is_some(),
            _ => false,
        };
        self.case.damage.is_in_place() && !is_all
    }

    fn complaint(&self, error: &Error) -> Option<&'static str> {
        let Some(file) = error.file() else { return Some("no file") };
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
            return Some("no file");
        };
        let damaged = self.case.file_name(self.specimen);
        if !self.is_in_place() || error.kind() != ErrorKind::Corruption {
            return None;
        }
        let kind = Kind::of(damaged);
        if name != damaged {
            let excused = match kind {
                // What they say may be blamed on what they no longer name.
                Kind::Manifest | Kind::Current => true,
                // A log that ends in zeros looks whole: the next one misses writes.
                Kind::Wal => Kind::of(name) == Kind::Wal && error.offset().is_some(),
                Kind::Table => false,
            };
            return (!excused).then_some("another file");
        }
        match (error.offset(), &self.case.damage) {
            (None, _) => Some("no offset"),
            (Some(offset), Damage::Flip { at, .. }) if offset > *at as u64 => {
                Some("an offset behind the damage")
            }
            (Some(_), _) => None,
        }
    }
}

fn tells_nothing(answers: &Answers) -> bool {
    answers.recovery.torn_bytes == 0 && answers.recovery.dropped.is_empty()
}
