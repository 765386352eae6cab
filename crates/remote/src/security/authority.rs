//! Who may do what: certificates by name and tokens, each with a role and the databases it is for. Asked by the broker's
//! service for each session and each call.
//!
//! **Invariants.**
//! - I1. Who is not named may do nothing: there is no default role.
//! - I2. A token is compared with all of the known ones, each in constant time: how long it takes does not tell which
//!   one it resembles.
//! - I3. Whoever guesses is stopped: after some wrong tokens from one address, none from there is looked at for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::job::invalid::Invalid;
use crate::job::name::DbId;
use crate::security::secret::Secret;

/// 256 bits, as bytes.
pub(crate) const TOKEN_BYTES_MIN: usize = 32;
const TOKEN_BYTES_MAX: usize = 512;
const GUESSES_MAX: u32 = 10;
const GUESSING: Duration = Duration::from_secs(60);
/// Addresses that are watched at once; the ones that were quiet for the longest are forgotten first.
const GUESSERS_MAX: usize = 4_096;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Run jobs.
    Worker,
    /// Submit jobs, and announce new versions.
    Client,
    /// List, cancel, drain.
    Admin,
    /// Hear of new versions, and nothing else.
    Replica,
}

/// For which databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For all.
    All,
    /// For these.
    Only(BTreeSet<DbId>),
}

impl Scope {
    /// Of one database.
    pub fn one(db: DbId) -> Self {
        Scope::Only(BTreeSet::from([db]))
    }

    /// Whether it holds a database.
    pub fn holds(&self, db: &DbId) -> bool {
        match self {
            Scope::All => true,
            Scope::Only(databases) => databases.contains(db),
        }
    }
}

/// What a name or a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What its bearer may do.
    pub role: Role,
    /// For which databases.
    pub scope: Scope,
}

/// Whom the transport has shown us.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The address, without the port.
    pub address: String,
    /// Names in the certificate that the transport has verified; none without TLS.
    pub names: Vec<String>,
    /// The certificate's serial number in hexadecimal digits, if there is one.
    pub serial: Option<String>,
    /// The token that came with the call.
    pub token: Option<Secret>,
}

/// Why a caller is sent away. Says nothing about what exists and what does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Neither certificate nor token is known.
    Unknown,
    /// Known, but not for this.
    NotAllowed,
    /// Too many wrong tokens from this address.
    TooManyGuesses,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Denied::Unknown => "no certificate and no token that is known here; ask for one",
            Denied::NotAllowed => "known, but not allowed to do this",
            Denied::TooManyGuesses => "too many wrong tokens; wait for a minute",
        })
    }
}

impl std::error::Error for Denied {}

/// The list of who may do what.
#[derive(Debug, Default)]
pub struct Authority {
    names: BTreeMap<String, Vec<Grant>>,
    tokens: Vec<(Secret, Grant)>,
    /// Whoever comes over a transport without TLS. Only set where that was allowed by name.
    plaintext: Vec<Grant>,
    revoked: BTreeSet<String>,
    guesses: BTreeMap<String, Guesses>,
}

#[derive(Clone, Copy, Debug)]
struct Guesses {
    wrong: u32,
    last: Duration,
}

impl Authority {
    /// One that knows nobody.
    pub fn new() -> Self {
        Authority::default()
    }

    /// Lets the bearer of a certificate with this name (a DNS name, or a URI) do something.
    pub fn allow_name(&mut self, name: &str, grant: Grant) {
        self.names.entry(name.to_owned()).or_default().push(grant);
    }

    /// Lets the bearer of a token do something.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if the token is shorter than 256 bits or longer than any header should be.
    pub fn allow_token(&mut self, token: Secret, grant: Grant) -> Result<(), Invalid> {
        let bytes = token.expose().len();
        if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&bytes) {
            let why = format!("{bytes} bytes, not {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}");
            return Err(Invalid::new("token", why));
        }
        self.tokens.push((token, grant));
        Ok(())
    }

    /// Lets everybody do something who comes without TLS, and without a token. For brokers that only hear their own
    /// machine.
    pub fn allow_plaintext(&mut self, grant: Grant) {
        self.plaintext.push(grant);
    }

    /// Ends what a certificate stands for, by its serial number in lower-case hexadecimal digits.
    pub fn revoke(&mut self, serial: &str) {
        self.revoked.insert(serial.to_owned());
    }

    /// For which databases a caller may act in a role. `now` is monotonic.
    ///
    /// # Errors
    ///
    /// [`Denied`], if for none.
    pub fn admit(&mut self, now: Duration, caller: &Caller, role: Role) -> Result<Scope, Denied> {
        if caller.serial.as_ref().is_some_and(|serial| self.revoked.contains(serial)) {
            return Err(Denied::Unknown);
        }
        let found = match &caller.token {
            Some(token) => vec![self.by_token(now, &caller.address, token)?],
            None if caller.serial.is_some() => self.by_name(&caller.names),
            None => self.plaintext.clone(),
        };
        if found.is_empty() {
            return Err(Denied::Unknown);
        }
        let scopes = found.into_iter().filter(|grant| grant.role == role).map(|grant| grant.scope);
        scopes.reduce(join).ok_or(Denied::NotAllowed)
    }

    fn by_name(&self, names: &[String]) -> Vec<Grant> {
        names.iter().filter_map(|name| self.names.get(name)).flatten().cloned().collect()
    }

    fn by_token(&mut self, now: Duration, address: &str, token: &Secret) -> Result<Grant, Denied> {
        let before = self.guesses.get(address).copied();
        let before = before.filter(|guesses| now.saturating_sub(guesses.last) < GUESSING);
        if before.is_some_and(|guesses| guesses.wrong >= GUESSES_MAX) {
            return Err(Denied::TooManyGuesses);
        }
        let mut found = None;
        for (known, grant) in &self.tokens {
            if known.is(token.expose()) {
                found = Some(grant.clone());
            }
        }
        if found.is_none() {
            self.note_guess(now, address, before.map_or(1, |guesses| guesses.wrong + 1));
        }
        found.ok_or(Denied::Unknown)
    }

    fn note_guess(&mut self, now: Duration, address: &str, wrong: u32) {
        if self.guesses.len() >= GUESSERS_MAX {
            let oldest = self.guesses.iter().min_by_key(|(_, guesses)| guesses.last);
            if let Some(address) = oldest.map(|(address, _)| address.clone()) {
                self.guesses.remove(&address);
            }
        }
        self.guesses.insert(address.to_owned(), Guesses { wrong, last: now });
    }
}

fn join(one: Scope, other: Scope) -> Scope {
    match (one, other) {
        (Scope::Only(mut all), Scope::Only(more)) => {
            all.extend(more);
            Scope::Only(all)
        }
        _ => Scope::All,
    }
}

#[cfg(test)]
mod tests;
