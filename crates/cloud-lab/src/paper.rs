//! What the paper measured that first put LevelDB's tables into a bucket ("Cloud Native LevelDB", 2022): objects by their
//! size, and databases in its five set-ups, some of them in a bucket that S3FS has mounted as a folder.

mod mount;
mod objects;
mod setups;

use std::path::PathBuf;

use siltstone_s3::Location;

use crate::stage::{Plan, Stage};

pub use objects::objects;
pub use setups::setups;

const NO_MOUNT: &str = "no mount given";

/// What there is beside a store in memory.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A folder where S3FS has mounted a bucket.
    pub s3fs: Option<PathBuf>,
    /// A server's bucket, which takes the place of the store in memory.
    pub bucket: Option<Location>,
}

impl Places {
    fn stage(&self, plan: &Plan) -> Stage {
        match &self.bucket {
            Some(location) => Stage::on(plan, location),
            None => Stage::new(plan),
        }
    }

    /// A stage whose machines have their folders on S3FS.
    fn mounted(&self, plan: &Plan) -> Option<Stage> {
        let folder = self.s3fs.clone()?;
        Some(Stage::new(&Plan { folder, ..plan.clone() }))
    }

    /// Whether S3FS and we are both at a server: one in memory, slow by a profile, is nothing to measure S3FS by.
    fn are_comparable(&self) -> bool {
        self.s3fs.is_some() && self.bucket.is_some()
    }
}
