//! Objects as files where S3FS has mounted a bucket. A file that nobody has open is not kept: S3FS drops what it had of it,
//! and the system the pages, so that each read is from the bucket.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use siltstone::{Error, ErrorKind, Result};

use super::objects::{Objects, RANGE_BYTES, Times};
use crate::stage::{Machine, Stage};

/// As programs read that read a file from its beginning to its end.
const PIECE_BYTES: usize = 1 << 20;

/// A folder of files, which goes with it.
struct Files(Machine);

pub(super) fn times(stage: &Stage, objects: &Objects) -> Result<Times> {
    let files = Files(stage.machine("objects")?);
    fs::create_dir_all(&files.0.folder).map_err(|error| files.wrong(&error))?;
    let told = |done: io::Result<()>| done.map_err(|error| files.wrong(&error));
    Ok(Times {
        put: objects.time(|number| told(files.put(number, objects)))?,
        get: objects.time(|number| told(files.get(number, objects.offset(number))))?,
        through: objects.time(|number| told(files.read_through(number)))?,
    })
}

impl Files {
    fn path(&self, number: u64) -> PathBuf {
        self.0.folder.join(number.to_string())
    }

    /// When it is synced it is in the bucket.
    fn put(&self, number: u64, objects: &Objects) -> io::Result<()> {
        let mut file = File::create(self.path(number))?;
        file.write_all(&objects.body)?;
        file.sync_all()
    }

    fn get(&self, number: u64, offset: u64) -> io::Result<()> {
        let mut file = File::open(self.path(number))?;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut [0; RANGE_BYTES])
    }

    fn read_through(&self, number: u64) -> io::Result<()> {
        let mut file = File::open(self.path(number))?;
        let mut piece = vec![0; PIECE_BYTES];
        while file.read(&mut piece)? > 0 {}
        Ok(())
    }

    fn wrong(&self, error: &io::Error) -> Error {
        let message = format!("{}: {error}", self.0.folder.display());
        Error::new(ErrorKind::Io, message)
    }
}
