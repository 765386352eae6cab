//! URL -> bucket and database, and errors that name the way out. Every verb of `cloud` begins here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use siltstone::Env;
use siltstone_cloud::{Error, ErrorKind, Home, Patience, Root, Token};
use siltstone_s3::{Location, Options, Prices, S3Bucket};

use crate::errors::{Exit, Failure};
use crate::output::Context;

/// A database in a bucket, and how to reach it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// The database: s3://BUCKET/PATH
    url: String,
    #[command(flatten)]
    server: Server,
    /// What requests cost, where somebody asks.
    #[arg(skip)]
    prices: Option<Prices>,
}

/// Where the bucket is, if the URL does not say it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Server {
    /// The S3 server, unless the URL says it [default: AWS_ENDPOINT_URL, else AWS itself]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The region, unless the URL says it [default: AWS_REGION, else us-east-1]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
}

/// How long a verb tries before it gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tries {
    /// Who only looks can look again.
    Short,
    /// Who changes something should come to know what has become of it.
    Long,
}

/// A database that is reached. Whether it is there nobody has asked yet.
pub(crate) struct Opened {
    pub(crate) bucket: Arc<S3Bucket>,
    pub(crate) home: Home,
    /// As people know it: without endpoint and query.
    pub(crate) shown: String,
    /// As a next step needs it: the same again, on a command line.
    again: String,
}

impl Server {
    /// Reads a URL. What it says counts more than flags, and flags more than the environment.
    pub(crate) fn locate(&self, url: &str) -> Result<Location, Failure> {
        let flag = |name: &str| match name {
            "AWS_ENDPOINT_URL_S3" => self.endpoint.clone(),
            "AWS_REGION" => self.region.clone(),
            _ => None,
        };
        let variable = |name: &str| flag(name).or_else(|| std::env::var(name).ok());
        Location::parse_with(url, variable).map_err(|error| {
            Failure::usage(error.message)
                .detail("a database in a bucket is named as s3://BUCKET/PATH")
                .step("see how", "siltstone cloud --help")
        })
    }
}

impl Place {
    /// The same, with other prices than S3's.
    pub(crate) fn priced(&self, prices: Prices) -> Self {
        Place { prices: Some(prices), ..self.clone() }
    }

    /// A URL by itself; the rest is in the environment.
    pub(crate) fn of(url: &Path) -> Self {
        let server = Server { endpoint: None, region: None };
        Place { url: url.to_string_lossy().into_owned(), server, prices: None }
    }

    /// Opens what the URL names.
    pub(crate) fn open(&self, tries: Tries) -> Result<Opened, Failure> {
        let (location, path) = self.server.locate(&self.url)?.split();
        let prices = self.prices.unwrap_or(Prices::STANDARD);
        let options = Options { prices, ..Options::default() };
        let options = match tries {
            Tries::Short => hasty(options),
            Tries::Long => options,
        };
        let opened = S3Bucket::at(&location, options).map_err(|error| refused(error.into()))?;
        let bucket = Arc::new(opened);
        let root = Root::new(&path).map_err(|error| refused(error).detail(PATHS))?;
        let shown = format!("s3://{}/{path}", location.bucket());
        let home = Home::new(bucket.clone(), root, Env::default().clock);
        let home = match tries {
            Tries::Short => home.with_patience(SHORT),
            Tries::Long => home,
        };
        Ok(Opened { bucket, home, shown, again: self.again() })
    }

    /// Where it is, unopened.
    pub(crate) fn locate(&self) -> Result<Location, Failure> {
        self.server.locate(&self.url)
    }

    /// A second database, which must lie in the same bucket.
    pub(crate) fn sibling(&self, url: &str) -> Result<String, Failure> {
        let other = self.server.locate(url)?;
        if !self.locate()?.is_same_bucket(&other) {
            return Err(Failure::usage("the two databases must lie in one bucket").detail(
                "a clone shares its parent's tables, and reads them by their names there",
            ));
        }
        Ok(other.split().1)
    }

    /// The words that name it on a command line. The URL was read, so there are no keys in it (C1).
    fn again(&self) -> String {
        let mut words = quoted(&self.url);
        let flags = [("endpoint", &self.server.endpoint), ("region", &self.server.region)];
        for (name, value) in flags {
            if let Some(value) = value {
                words.push_str(&format!(" --{name} {}", quoted(value)));
            }
        }
        words
    }
}

const PATHS: &str = "a database's path consists of letters, digits, '-', '_', '.' and '=', with '/' between its parts";
const SHORT: Patience =
    Patience { total: Duration::from_secs(5), pause: Duration::from_millis(50) };
const ATTEMPTS_SHORT: u32 = 5;

/// Gives up early.
pub(crate) fn hasty(mut options: Options) -> Options {
    options.retry.attempts_max = ATTEMPTS_SHORT;
    options
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Of this use of the command.
pub(crate) fn fresh_token() -> Token {
    Token::fresh(&Env::posix())
}

impl Opened {
    /// A command line of `verb` on this database.
    pub(crate) fn command(&self, verb: &str) -> String {
        format!("siltstone cloud {verb} {}", self.again)
    }

    /// There is no database.
    pub(crate) fn absent(&self) -> Failure {
        Failure::new(Exit::Absent, "E-NO-DATABASE", format!("no database at {}", self.shown))
            .detail("nobody has ever opened one there for writing")
            .step("is the bucket the right one", self.command("doctor"))
    }

    /// An error about this database, with its next steps.
    pub(crate) fn explain(&self, error: Error) -> Failure {
        let kind = error.kind();
        let failure = refused(error);
        match kind {
            ErrorKind::Damaged => failure
                .detail("nothing was changed")
                .step("see what else is damaged", self.command("verify"))
                .step("see what checkpoints there are", self.command("checkpoint")),
            ErrorKind::Unavailable => failure.step("ask the server", self.command("doctor")),
            ErrorKind::Fenced => failure.step("see who owns it", self.command("ls")),
            ErrorKind::Contended => failure.step("if it stays so", self.command("verify")),
            _ => failure,
        }
    }

    /// Tells what the verb has cost.
    pub(crate) fn note_cost(&self, context: &Context) {
        let meter = self.bucket.meter();
        context.note(format!("{} requests, {:.6} $", meter.requests(), meter.dollars()));
    }
}

/// An error of a bucket as the user meets it.
pub(crate) fn refused(error: Error) -> Failure {
    let (exit, tag) = match error.kind() {
        ErrorKind::Fenced => (Exit::Locked, "E-FENCED"),
        ErrorKind::Contended => (Exit::Locked, "E-BUSY"),
        ErrorKind::Undecided => (Exit::Io, "E-UNDECIDED"),
        ErrorKind::Unavailable => (Exit::Io, "E-UNREACHABLE"),
        ErrorKind::Gone => (Exit::Absent, "E-NOT-FOUND"),
        ErrorKind::Exists => (Exit::Usage, "E-EXISTS"),
        ErrorKind::Damaged => (Exit::Corruption, "E-CORRUPT"),
        ErrorKind::Denied => (Exit::Io, "E-DENIED"),
        ErrorKind::Misuse => (Exit::Usage, "E-USAGE"),
    };
    let failure = Failure::new(exit, tag, error.to_string());
    match error.kind() {
        ErrorKind::Denied => failure
            .detail("keys come from the environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
            .detail("they need GetObject, PutObject, DeleteObject and ListBucket"),
        ErrorKind::Undecided => {
            failure.detail("it may have been done, or may still be: look before you try again")
        }
        ErrorKind::Contended => failure.detail("nothing is wrong: try again"),
        ErrorKind::Unavailable => failure.detail("nothing was done: try again later"),
        _ => failure,
    }
}
