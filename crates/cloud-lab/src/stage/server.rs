//! A place of its own in a server's bucket, for a stage that does not lie in memory. What is left there goes with it.

use siltstone::{Env, Result};
use siltstone_cloud::{Bucket, Call, Purpose, Token};
use siltstone_s3::{Location, Options, S3Bucket};

use super::wrong;

pub(super) struct Server {
    /// The whole bucket.
    location: Location,
    /// Of the stage's database, in it. Nobody else has it, whoever measures in that bucket at the same time.
    root: String,
}

impl Server {
    /// Below what the location names. Asks nothing of the server yet.
    pub(super) fn new(location: &Location) -> Self {
        let (location, above) = location.clone().split();
        let place = format!("{above}/lab-{}", Token::fresh(&Env::posix()));
        Server { location, root: place.trim_start_matches('/').to_owned() }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// A way there. No seed: two that write to one place must not have the same.
    pub(super) fn bucket(&self, options: Options) -> Result<S3Bucket> {
        S3Bucket::at(&self.location, Options { seed: None, ..options }).map_err(wrong)
    }

    fn clear(&self) -> siltstone_cloud::Result<()> {
        let bucket = S3Bucket::at(&self.location, Options::default())?;
        let (call, prefix) = (Call::new(Purpose::Tool), format!("{}/", self.root));
        loop {
            let page = bucket.list(&prefix, "", call)?;
            if page.is_empty() {
                return Ok(());
            }
            let names: Vec<String> = page.stats.into_iter().map(|stat| stat.name).collect();
            bucket.delete(&names, call)?;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What cannot be removed has a name that says whose it was.
        let _ = self.clear();
    }
}
