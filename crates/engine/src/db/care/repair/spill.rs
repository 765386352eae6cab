//! Sorts the logs' updates in bounded memory: memtables, and tables of a temporary name for those
//! that are full. All become sources of the one merge.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::log::Update;
use crate::base::error::Result;
use crate::db::background::flush::write_memtable;
use crate::db::settings::Settings;
use crate::env::fs::FileSystem;
use crate::env::site::Site;
use crate::format::filename::{FileName, FileNumber};
use crate::format::table::{ScanOptions, Table, TableBuilder, TableSettings};
use crate::memtable::{Inserter, MemTable};
use crate::store::block_cache::BlockCache;
use crate::version::level_iter::Source;

pub(super) struct Spill<'a> {
    fs: Arc<dyn FileSystem>,
    settings: &'a Settings,
    inserter: Inserter,
    /// Where temporary files go.
    dir: &'a Path,
    new_number: &'a dyn Fn() -> FileNumber,
    /// Full memtables, now files.
    files: Vec<PathBuf>,
}

impl<'a> Spill<'a> {
    pub(super) fn new(
        fs: &Arc<dyn FileSystem>,
        dir: &'a Path,
        settings: &'a Settings,
        new_number: &'a dyn Fn() -> FileNumber,
    ) -> Self {
        let inserter = empty(settings);
        Spill { fs: Arc::clone(fs), settings, inserter, dir, new_number, files: Vec::new() }
    }

    pub(super) fn add(&mut self, update: &Update<'_>) -> Result<()> {
        self.inserter.add(update.seqno, update.kind, update.key, update.value);
        if self.inserter.table().approximate_bytes() >= self.settings.write_buffer_bytes {
            self.write_out()?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<()> {
        let full = std::mem::replace(&mut self.inserter, empty(self.settings));
        let number = (self.new_number)();
        let path = FileName::Temp(number).in_dir(self.dir);
        self.files.push(path.clone());
        let file = self.fs.create(&path, Site::TableCreate)?;
        let settings = TableSettings { filter: None, ..self.settings.bottom_table.clone() };
        let builder = TableBuilder::new(file, number, settings);
        write_memtable(full.table(), builder, None, |_| ()).map(drop)
    }

    /// All updates, sorted; and the files to remove when they have been read.
    pub(super) fn finish(self) -> Result<(Vec<Source>, Vec<PathBuf>)> {
        let mut sources = vec![Source::MemTable(self.inserter.table().iter())];
        for path in &self.files {
            let file = self.fs.open(path)?;
            let cache = Arc::new(BlockCache::new(0));
            let table = Arc::new(Table::open(file, self.settings.read.clone(), cache)?);
            sources.push(Source::Table(table.iter(ScanOptions::for_compaction())));
        }
        Ok((sources, self.files))
    }
}

fn empty(settings: &Settings) -> Inserter {
    MemTable::new(settings.order.user.clone(), 0, 0).1
}
