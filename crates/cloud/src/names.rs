//! What the objects of a database are called, and what a name says. All other modules ask here; nothing else puts names
//! together or takes them apart.
//!
//! I1: a name is a function of what it stands for, and parses back to exactly that. Whatever else lies in the bucket is
//! nobody's, and stays untouched: a collector removes only what parses.
//! I2: ids of tables and jobs are never used again: an epoch has one owner, and an owner counts upwards.
//!
//! | name, below the database's root | what lies there |
//! | --- | --- |
//! | `owner` | who may commit: a register, replaced on its tag |
//! | `v/<version, 20 digits>` | a record of the version log |
//! | `s/<2 hex digits>/e<epoch>-<number>.ldb` | a table of a writer's own; the digits spread the load |
//! | `jobs/<epoch>-<number>/<term>-<count>/<ordinal, 6 digits>.ldb` | a table of a worker's |
//! | `jobs/<epoch>-<number>/...` | what else workers keep of a job |
//! | `away/<epoch>-<number>` | what must be known of a job to go on with it |
//! | `wal/<number, 20 digits>` | a piece of the write-ahead log |
//! | `readers/<32 hex digits>` | a reader's lease |
//! | `pins/<name>.<32 hex digits>` | a checkpoint, or a clone's hold on its parent |
//! | `gc/boundary` | no commit and no new pin may be older: a register |
//! | `gc/now` | written to learn the bucket's time |

use std::fmt;

use siltstone::Env;

use crate::error::{Error, ErrorKind, Outcome};

/// Where in a bucket a database lies: a path that ends with `/`, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Root(String);

/// The longest path of a root.
pub(crate) const ROOT_BYTES_MAX: usize = 512;
/// The longest name of a pin.
const PIN_BYTES_MAX: usize = 100;

/// A version of a database, from 1 on. There is one log of them, without holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionNumber(pub u64);

impl VersionNumber {
    /// The one after it.
    pub fn next(self) -> Self {
        VersionNumber(self.0.saturating_add(1))
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often a database has changed hands. The first owner has 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// Sixteen random bytes by which somebody knows what is his. Fresh for every use: from the system's source of
/// randomness, or a seed in tests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u128);

impl Token {
    /// A fresh one. Half of it is the environment's seed, which is random where that is the operating system's; time tells
    /// two uses of one environment apart.
    pub fn fresh(env: &Env) -> Self {
        Token(u128::from(env.seed) << 64 | u128::from(env.clock.wall_micros()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A job that the owner of an epoch gave to workers; the number is of the same count as its tables'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId {
    /// Of the owner who made it.
    pub epoch: Epoch,
    /// Which of his.
    pub number: u64,
}

/// An attempt at a job: which broker made it, by the term of his time, and how many he had made before. No two attempts
/// have one name, whoever they are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// Higher at each start of a broker.
    pub term: u32,
    /// Of the broker's count.
    pub count: u32,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.term, self.count)
    }
}

/// A table in a bucket, whatever number the engine knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableId {
    /// Written by an owner.
    Own {
        /// Of the owner.
        epoch: Epoch,
        /// The file number he gave it.
        number: u64,
    },
    /// Written by a worker.
    Worked {
        /// The job it came of.
        job: JobId,
        /// The attempt at the job. Two may be under way, and of two owners: who adopts a job takes numbers that nobody
        /// else takes, by his epoch for one.
        attempt: Attempt,
        /// Which of the attempt's tables.
        ordinal: u32,
    },
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The register of who may commit.
    Owner,
    /// A record of the version log.
    Version(VersionNumber),
    /// A table.
    Table(TableId),
    /// What is kept of a job, but for its tables.
    Job(JobId),
    /// A piece of the write-ahead log.
    Wal(u64),
    /// A reader's lease.
    Reader(Token),
    /// A pin's name, and its token.
    Pin(PinName, Token),
    /// The register of what may go.
    Boundary,
    /// Written to learn the bucket's time.
    Now,
}

/// What a checkpoint is called: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PinName(String);

impl PinName {
    /// [`ErrorKind::Misuse`] if it is empty, longer than 100 bytes, or has other characters.
    pub fn new(name: &str) -> Result<Self, Error> {
        let fits = (1..=PIN_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain);
        let wrong = || Error::new(ErrorKind::Misuse, name, "not a name for a checkpoint");
        if fits { Ok(PinName(name.to_owned())) } else { Err(wrong()) }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

impl Root {
    /// A root from a path such as `shop/orders`. [`ErrorKind::Misuse`] if it is longer than 512 bytes, or a part of it is
    /// empty, begins with a dot, or holds anything but letters, digits, `-`, `_`, `.` and `=`.
    pub fn new(path: &str) -> Result<Self, Error> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(Root::default());
        }
        let part_fits = |part: &str| {
            let plain = |byte| is_plain(byte) || byte == b'.' || byte == b'=';
            !part.is_empty() && !part.starts_with('.') && part.bytes().all(plain)
        };
        if path.len() >= ROOT_BYTES_MAX || !path.split('/').all(part_fits) {
            return Err(Error::new(ErrorKind::Misuse, path, "not a path for a database"));
        }
        Ok(Root(format!("{path}/")))
    }

    /// The path, with a `/` at its end unless it is empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The object that `name` stands for in this database.
    pub fn object(&self, name: &Name) -> String {
        let root = &self.0;
        match name {
            Name::Owner => format!("{root}owner"),
            Name::Version(version) => format!("{root}v/{:020}", version.0),
            Name::Table(id) => self.table(*id),
            Name::Job(job) => format!("{root}away/{}-{}", job.epoch.0, job.number),
            Name::Wal(number) => format!("{root}wal/{number:020}"),
            Name::Reader(token) => format!("{root}readers/{token}"),
            Name::Pin(name, token) => format!("{root}pins/{}.{token}", name.0),
            Name::Boundary => format!("{root}gc/boundary"),
            Name::Now => format!("{root}gc/now"),
        }
    }

    /// The object of a table.
    pub fn table(&self, id: TableId) -> String {
        let root = &self.0;
        match id {
            TableId::Own { epoch, number } => {
                let text = format!("e{}-{number}", epoch.0);
                // Names that differ in their last digits alone would lie on one server.
                format!("{root}s/{:02x}/{text}.ldb", spread(&text))
            }
            TableId::Worked { job, attempt, ordinal } => {
                self.job(job, &format!("{attempt}/{ordinal:06}.ldb"))
            }
        }
    }

    /// Something in a job's folder: `rest` is a path of its own.
    pub fn job(&self, job: JobId, rest: &str) -> String {
        format!("{}jobs/{}-{}/{rest}", self.0, job.epoch.0, job.number)
    }

    /// What all objects of one kind begin with: `v/`, `s/`, `jobs/`, `readers/`, `pins/`.
    pub(crate) fn prefix(&self, folder: &str) -> String {
        format!("{}{folder}", self.0)
    }

    /// What an object is, or `None` if it is not of this database.
    pub fn parse(&self, object: &str) -> Option<Name> {
        let rest = object.strip_prefix(&self.0)?;
        let name = match rest.split_once('/') {
            None if rest == "owner" => Name::Owner,
            Some(("gc", "boundary")) => Name::Boundary,
            Some(("gc", "now")) => Name::Now,
            Some(("v", number)) => Name::Version(VersionNumber(padded(number, 20)?)),
            Some(("wal", number)) => Name::Wal(padded(number, 20)?),
            Some(("readers", token)) => Name::Reader(parse_token(token)?),
            Some(("pins", pin)) => {
                let (name, token) = pin.split_once('.')?;
                Name::Pin(PinName::new(name).ok()?, parse_token(token)?)
            }
            Some(("s", table)) => Name::Table(parse_own(table)?),
            Some(("jobs", rest)) => parse_job(rest)?,
            Some(("away", job)) => Name::Job(parse_job_id(job)?),
            _ => return None,
        };
        // A job's other objects have names of their makers' choice; all others have one spelling.
        let exact = matches!(name, Name::Job(_)) || self.object(&name) == object;
        exact.then_some(name)
    }
}

fn spread(text: &str) -> u8 {
    crc32c::crc32c(text.as_bytes()).to_le_bytes()[0]
}

fn parse_own(path: &str) -> Option<TableId> {
    let (_, file) = path.split_once('/')?;
    let (epoch, number) = file.strip_prefix('e')?.strip_suffix(".ldb")?.split_once('-')?;
    Some(TableId::Own { epoch: Epoch(plain(epoch)?), number: plain(number)? })
}

fn parse_job_id(text: &str) -> Option<JobId> {
    let (epoch, number) = text.split_once('-')?;
    Some(JobId { epoch: Epoch(plain(epoch)?), number: plain(number)? })
}

fn parse_job(path: &str) -> Option<Name> {
    let (job, rest) = path.split_once('/')?;
    let job = parse_job_id(job)?;
    let worked = || {
        let (attempt, file) = rest.split_once('/')?;
        let (term, count) = attempt.split_once('-')?;
        let short = |text| plain(text).and_then(|number| u32::try_from(number).ok());
        let attempt = Attempt { term: short(term)?, count: short(count)? };
        let ordinal = padded(file.strip_suffix(".ldb")?, 6)?;
        Some(TableId::Worked { job, attempt, ordinal: u32::try_from(ordinal).ok()? })
    };
    let stays_inside = rest.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    stays_inside.then(|| worked().map_or(Name::Job(job), Name::Table))
}

/// Decimal digits without zeros in front.
fn plain(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
}

/// So many decimal digits, zeros in front if need be; more only if a number needs more.
fn padded(text: &str, width: usize) -> Option<u64> {
    let enough = text.len() == width || (text.len() > width && !text.starts_with('0'));
    let digits = enough && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// A token as [`Display`](fmt::Display) writes it.
fn parse_token(text: &str) -> Option<Token> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u128::from_str_radix(text, 16).ok().map(Token))?
}

/// A root out of a record.
pub(crate) fn root_from_record(path: &str, object: &str) -> Outcome<Root> {
    let root = Root::new(path).ok().filter(|root| root.as_str() == path);
    root.ok_or_else(|| Error::damaged(object, "names a database by a path that cannot be one"))
}

#[cfg(test)]
mod tests;
