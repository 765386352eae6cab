//! A copy of an open database, made of second names for its tables, while it goes on working.
//!
//! Tables never change, and the pinned version keeps the names of its own from being removed. So a
//! checkpoint costs the flush of what memory holds, and one manifest.

use std::path::Path;
use std::sync::Arc;

use crate::base::error::Result;
use crate::base::key::SeqNo;
use crate::base::slot::Slot;
use crate::db::background::flush::write_memtable;
use crate::db::care::fresh::{Content, Fresh};
use crate::db::core::Core;
use crate::db::handle::Db;
use crate::env::fs::{RandomAccessFile, WritableFile, read_there};
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::table::TableBuilder;
use crate::memtable::MemTable;
use crate::version::Version;
use crate::version::builder::{self, Change};
use crate::version::table_meta::TableMeta;

/// Copied at once where a table cannot be linked.
const COPY_BYTES: usize = 1 << 20;

impl Db {
    /// Makes a copy of the database, as it is now, in the folder `path`, which must not exist or be
    /// empty. The copy is a database of its own, for this engine or LevelDB.
    ///
    /// Flushes what memory holds, then gives the tables second names in `path`; where that is not
    /// possible (another file system), it copies them. Reads, writes and compactions go on. All of
    /// the copy is durable when this returns. On a database opened read-only, what memory holds is
    /// written to the copy alone.
    ///
    /// # Errors
    ///
    /// As [`write`](Db::write); `InvalidArgument` if `path` is taken. After an error there is no
    /// database at `path`.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.core().checkpoint(path.as_ref())
    }
}

/// What a checkpoint holds.
struct Pinned {
    version: Arc<Version>,
    /// Oldest first. Empty unless the database is open read-only.
    memtables: Vec<Arc<MemTable>>,
    last_seqno: SeqNo,
}

impl Core {
    fn checkpoint(&self, to: &Path) -> Result<()> {
        // Before the flush, which a path that is taken would waste.
        let fs = &self.env.file_system;
        let fresh = Fresh::begin(fs, to, Site::CheckpointDirCreate)?;
        let filled = self.fill_checkpoint(&fresh, to);
        fresh.settle(filled).map(drop)
    }

    fn fill_checkpoint(&self, fresh: &Fresh, to: &Path) -> Result<()> {
        let pinned = self.pin()?;
        for (_, table) in pinned.version.tables() {
            self.link(table, to)?;
        }
        let greatest = pinned.version.tables().map(|(_, table)| table.number.0).max();
        // A database open read-only counts no numbers of its own.
        let mut next_file = self.next_file_number().max(FileNumber(greatest.unwrap_or(0) + 1));
        let mut change = Change::default();
        for memtable in pinned.memtables.iter().filter(|memtable| !memtable.is_empty()) {
            let table = self.write_into(memtable, next_file, to)?;
            change.added.push((Slot::L0, Arc::new(table)));
            next_file = FileNumber(next_file.0 + 1);
        }
        let order = &self.settings.order;
        let version = builder::apply(order, &pinned.version, change)?;
        let last_seqno = pinned.last_seqno;
        let comparator = order.user.name();
        fresh.name(&Content { version: &version, comparator, last_seqno, next_file })
    }

    /// The tables of the moment, and up to which write they hold everything.
    fn pin(&self) -> Result<Pinned> {
        if self.queue.is_none() {
            let pinned = self.view.load();
            let mut memtables: Vec<_> = pinned.memtables().cloned().collect();
            memtables.reverse();
            let version = Arc::clone(&pinned.version);
            return Ok(Pinned { version, memtables, last_seqno: self.visible_seqno() });
        }
        self.flush_all()?;
        // Version and floor change together, under this lock.
        let manifest = self.manifest.lock();
        let version = Arc::clone(&self.state.lock().version);
        let last_seqno = self.floor().last_seqno;
        drop(manifest);
        Ok(Pinned { version, memtables: Vec::new(), last_seqno })
    }

    /// Gives a table a second name, or copies it.
    fn link(&self, table: &TableMeta, to: &Path) -> Result<()> {
        let fs = &self.env.file_system;
        let target = FileName::Table(table.number).in_dir(to);
        let names = [FileName::Table(table.number), FileName::OldTable(table.number)];
        let linked = names.iter().any(|name| {
            fs.hard_link(&name.in_dir(&self.dir), &target, Site::CheckpointLink).is_ok()
        });
        if linked {
            return Ok(());
        }
        // Whatever kept it from being linked, a copy serves. The table may be nameless by now, if
        // another process has the database open: what the cache holds open can still be read.
        let source = table.open(&self.tables)?;
        // Should the link be there against its answer, writing through it would hit the table.
        match fs.remove_file(&target, Site::TempRemove) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let copy = fs.create(&target, Site::CheckpointLink)?;
        copy_file(source.file(), copy).map_err(|error| error.in_file(&target))
    }

    fn write_into(
        &self,
        memtable: &Arc<MemTable>,
        number: FileNumber,
        to: &Path,
    ) -> Result<TableMeta> {
        let path = FileName::Table(number).in_dir(to);
        let file = self.env.file_system.create(&path, Site::TableCreate)?;
        let builder = TableBuilder::new(file, number, self.settings.upper_table.clone());
        let built = write_memtable(memtable, builder, None, |_| ())?;
        Ok(TableMeta::written(&built, &self.graveyard))
    }
}

/// Fills `copy`, and makes it durable.
pub(crate) fn copy_file(
    source: &dyn RandomAccessFile,
    mut copy: Box<dyn WritableFile>,
) -> Result<()> {
    let mut piece = vec![0; COPY_BYTES];
    let mut offset = 0;
    loop {
        let read = read_there(source, &mut piece, offset)?;
        if read == 0 {
            break;
        }
        copy.append(&piece[..read], Site::TableAppend)?;
        offset += read as u64;
    }
    copy.sync(Site::TableSync)?;
    copy.close(Site::TableClose)
}
