//! The manifest being written: edits appended and synced one by one, and the switch of CURRENT to
//! a new manifest. Called under the manifest lock only.
//!
//! **Invariants.**
//! - M1 (rules R1, R4): a manifest is whole, synced and in a synced folder before CURRENT names it;
//!   CURRENT's rename is durable before anything it made obsolete goes.
//! - M2 (rule R6): after a failed append or sync nothing more is appended to that file. The edit in
//!   question may or may not be durable; only a new manifest settles it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::env::fs::{FileSystem, WritableFile};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::manifest::current::current_text;
use crate::format::manifest::edit::VersionEdit;
use crate::format::record::encoder::RecordEncoder;

/// A manifest smaller than this is not worth rewriting.
const ROTATE_BYTES_MIN: u64 = 1 << 20;
/// A manifest is rewritten when it has grown to this many times its snapshot: with a fixed limit, a
/// database whose snapshot is larger would rewrite it at every edit.
const ROTATE_GROWTH: u64 = 4;

pub(crate) struct ManifestLog {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    number: FileNumber,
    file: Box<dyn WritableFile>,
    encoder: RecordEncoder,
    bytes: u64,
    snapshot_bytes: u64,
    broken: bool,
    /// The last edit that was written, as it was.
    last_edit: Vec<u8>,
}

impl ManifestLog {
    /// Writes a new manifest that begins with `snapshot`, and makes CURRENT name it.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        number: FileNumber,
        snapshot: &VersionEdit,
    ) -> Result<Self> {
        let path = FileName::Manifest(number).in_dir(dir);
        let mut log = ManifestLog {
            fs: Arc::clone(fs),
            dir: dir.to_owned(),
            number,
            file: fs.create(&path, Site::ManifestCreate)?,
            encoder: RecordEncoder::new(0),
            bytes: 0,
            snapshot_bytes: 0,
            broken: false,
            last_edit: Vec::new(),
        };
        log.write(snapshot, Site::ManifestSnapshot)?;
        log.snapshot_bytes = log.bytes;
        fs.sync_dir(dir, Site::ManifestDirSync)?;
        log.name_in_current()?;
        Ok(log)
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Appends an edit and makes it durable.
    pub(crate) fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        assert!(!self.broken, "M2: no append after a failed one");
        let written = self.write(edit, Site::ManifestAppend);
        self.broken = written.is_err();
        written
    }

    /// The last edit that was written, encoded: after a failure it need not be durable.
    pub(crate) fn last_edit(&self) -> &[u8] {
        &self.last_edit
    }

    /// True if the next edit belongs into a new manifest.
    pub(crate) fn wants_rotation(&self) -> bool {
        self.broken || self.bytes > ROTATE_BYTES_MIN.max(self.snapshot_bytes * ROTATE_GROWTH)
    }

    /// The next edit goes into a new manifest, whatever became of an attempt at one.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    /// Closes a manifest that another has replaced, or that the database is done with. Everything in
    /// it was synced, so a failure here loses nothing and is only told.
    pub(crate) fn close(mut self) -> Result<()> {
        self.file.close(Site::ManifestClose)
    }

    fn write(&mut self, edit: &VersionEdit, site: Site) -> Result<()> {
        self.last_edit.clear();
        edit.encode(&mut self.last_edit)?;
        let mut records = Vec::with_capacity(self.last_edit.len() + 64);
        self.encoder.encode(&[&self.last_edit], &mut records);
        self.file.append(&records, site)?;
        self.bytes += records.len() as u64;
        self.file.sync(Site::ManifestSync)
    }

    fn name_in_current(&self) -> Result<()> {
        let temp = FileName::Temp(self.number).in_dir(&self.dir);
        let switched = self.switch_current(&temp);
        if switched.is_err() {
            // Best effort: the open that follows sweeps temporary files too.
            let _ = self.fs.remove_file(&temp, Site::TempRemove);
        }
        switched.map_err(|error: Error| error.in_file(&temp))
    }

    fn switch_current(&self, temp: &Path) -> Result<()> {
        let mut file = self.fs.create(temp, Site::CurrentCreate)?;
        file.append(current_text(self.number).as_bytes(), Site::CurrentAppend)?;
        file.sync(Site::CurrentSync)?;
        file.close(Site::CurrentClose)?;
        let current = FileName::Current.in_dir(&self.dir);
        self.fs.rename(temp, &current, Site::CurrentRename)?;
        self.fs.sync_dir(&self.dir, Site::CurrentDirSync)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::key::SeqNo;
    use crate::format::manifest::edit::{Live, NewTable};
    use crate::format::manifest::reader::ManifestReader;
    use crate::version::testing::files::{DIR, Spy, spied};
    use crate::version::testing::{key, tree};

    fn edit(seqno: u64) -> VersionEdit {
        VersionEdit { last_seqno: Some(SeqNo(seqno)), ..VersionEdit::default() }
    }

    /// An edit of about this many bytes.
    fn large(bytes: usize) -> VersionEdit {
        VersionEdit { comparator: Some("x".repeat(bytes)), ..VersionEdit::default() }
    }

    fn begun(snapshot: &VersionEdit) -> (Arc<dyn FileSystem>, Arc<Spy>, ManifestLog) {
        let (fs, spy) = spied();
        let log = ManifestLog::create(&fs, Path::new(DIR), FileNumber(2), snapshot).unwrap();
        (fs, spy, log)
    }

    fn replay(fs: &Arc<dyn FileSystem>, number: u64) -> Vec<VersionEdit> {
        let path = FileName::Manifest(FileNumber(number)).in_dir(Path::new(DIR));
        let mut reader = ManifestReader::new(fs.open(&path).unwrap());
        std::iter::from_fn(|| reader.next().unwrap()).collect()
    }

    fn current(fs: &Arc<dyn FileSystem>) -> Option<Vec<u8>> {
        let path = FileName::Current.in_dir(Path::new(DIR));
        crate::env::fs::read_whole(&**fs, &path, 100).ok()
    }

    const CREATION: [&str; 10] = [
        "manifest.create",
        "manifest.snapshot",
        "manifest.sync",
        "manifest.dir.sync",
        "current.create",
        "current.append",
        "current.sync",
        "current.close",
        "current.rename",
        "current.dir.sync",
    ];

    #[test]
    fn a_manifest_is_durable_before_current_names_it() {
        let (fs, spy, log) = begun(&edit(1));
        assert_eq!(spy.calls(), CREATION);
        assert_eq!((log.number(), log.broken), (FileNumber(2), false));
        assert_eq!(current(&fs).unwrap(), b"MANIFEST-000002\n");
        assert_eq!(replay(&fs, 2), [edit(1)]);
    }

    #[test]
    fn each_edit_is_appended_and_synced() {
        let (fs, spy, mut log) = begun(&edit(1));
        spy.calls();
        log.append(&edit(2)).unwrap();
        log.append(&edit(3)).unwrap();
        let mut encoded = Vec::new();
        edit(3).encode(&mut encoded).unwrap();
        assert_eq!(log.last_edit(), encoded);
        log.close().unwrap();
        let expected = [
            "manifest.append",
            "manifest.sync",
            "manifest.append",
            "manifest.sync",
            "manifest.close",
        ];
        assert_eq!(spy.calls(), expected);
        assert_eq!(replay(&fs, 2), [edit(1), edit(2), edit(3)]);
    }

    #[test]
    fn a_failed_creation_leaves_the_old_manifest_named() {
        use Site::*;
        let before_rename = [
            ManifestCreate,
            ManifestSnapshot,
            ManifestSync,
            ManifestDirSync,
            CurrentCreate,
            CurrentAppend,
            CurrentSync,
            CurrentClose,
            CurrentRename,
        ];
        for site in before_rename {
            let (fs, spy, _old) = begun(&edit(1));
            spy.fail_after(site, 0);
            let number = FileNumber(7);
            let failed = ManifestLog::create(&fs, Path::new(DIR), number, &edit(2));
            assert!(failed.is_err(), "{}", site.name());
            assert_eq!(current(&fs).unwrap(), b"MANIFEST-000002\n", "{}", site.name());
            let names = fs.list(Path::new(DIR)).unwrap();
            assert!(!names.contains(&"000007.dbtmp".to_owned()), "{}", site.name());
        }
    }

    #[test]
    fn nothing_follows_a_failed_append() {
        for site in [Site::ManifestAppend, Site::ManifestSync] {
            let (_, spy, mut log) = begun(&edit(1));
            spy.fail_after(site, 0);
            assert!(log.append(&edit(2)).is_err());
            spy.heal();
            assert!(log.broken && log.wants_rotation());
            let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = log.append(&edit(3));
            }));
            assert!(again.is_err(), "M2");
        }
    }

    #[test]
    fn an_edit_that_cannot_be_written_ends_the_manifest_too() {
        let (_, _, mut log) = begun(&edit(1));
        let added = NewTable {
            number: FileNumber(4),
            size: 1,
            smallest: key("a", 1),
            largest: key("b", 1),
            live: Some(Live { bytes: 1, parts: Vec::new() }),
            hotness: 0,
        };
        let moved = VersionEdit { added: vec![(tree(1), added)], ..edit(2) };
        assert!(log.append(&moved).is_err());
        assert!(log.wants_rotation());
    }

    #[test]
    fn a_manifest_is_rewritten_when_it_has_outgrown_its_snapshot() {
        let (_, _, mut log) = begun(&edit(1));
        log.append(&large(ROTATE_BYTES_MIN as usize - 2_000)).unwrap();
        assert!(!log.wants_rotation(), "small manifests stay");
        log.append(&large(4_000)).unwrap();
        assert!(log.wants_rotation());

        // A large snapshot allows for as much again, several times over.
        let snapshot_bytes = ROTATE_BYTES_MIN as usize;
        let (_, _, mut log) = begun(&large(snapshot_bytes));
        assert!(!log.wants_rotation());
        for times in 1..ROTATE_GROWTH as usize {
            assert!(!log.wants_rotation(), "{times}");
            log.append(&large(snapshot_bytes)).unwrap();
        }
        log.append(&large(4_000)).unwrap();
        assert!(log.wants_rotation());
    }
}
