//! What went wrong with one request, and what follows: may it be tried again, and may it have been done? Called for each
//! failed attempt.
//!
//! **T1.** A class counts as *harmless* only if the server, or the want of a connection, says that nothing was done.
//! Whatever else comes back, nobody knows.

use std::error::Error;
use std::time::Duration;

use http::StatusCode;
use object_store::client::{HttpError, HttpErrorKind};

use crate::slow::{Fault, FaultKind};

/// Longer texts from elsewhere are cut.
const TEXT_MAX: usize = 300;

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// No such object.
    Missing,
    /// A condition does not hold.
    Refused,
    /// The range begins behind the object's end.
    Beyond,
    /// Another request on the object was under way (409). Nothing was done.
    Conflict,
    /// The server wants fewer requests (429, or 503 with `SlowDown`). Nothing was done.
    Throttled,
    /// No connection. Nothing was sent.
    Unreached,
    /// The server failed (5xx).
    Server,
    /// No answer in time.
    Timeout,
    /// The connection broke before the answer was whole.
    Broken,
    /// What arrived, here or there, is not what was sent.
    Damaged,
    /// The server does not let us (401, 403, expired keys).
    Denied,
    /// The request makes no sense to the server, or to the client.
    Wrong,
    /// An answer that makes no sense.
    Odd,
}

impl Class {
    /// All of them, in the order of metrics.
    pub const ALL: [Class; 13] = [
        Class::Missing,
        Class::Refused,
        Class::Beyond,
        Class::Conflict,
        Class::Throttled,
        Class::Unreached,
        Class::Server,
        Class::Timeout,
        Class::Broken,
        Class::Damaged,
        Class::Denied,
        Class::Wrong,
        Class::Odd,
    ];

    /// As metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Missing => "missing",
            Class::Refused => "refused",
            Class::Beyond => "beyond",
            Class::Conflict => "conflict",
            Class::Throttled => "throttled",
            Class::Unreached => "unreached",
            Class::Server => "server",
            Class::Timeout => "timeout",
            Class::Broken => "broken",
            Class::Damaged => "damaged",
            Class::Denied => "denied",
            Class::Wrong => "wrong",
            Class::Odd => "odd",
        }
    }

    /// Another attempt may go better.
    pub fn may_pass(self) -> bool {
        match self {
            Class::Conflict | Class::Throttled | Class::Unreached | Class::Server => true,
            Class::Timeout | Class::Broken | Class::Damaged | Class::Odd => true,
            Class::Missing | Class::Refused | Class::Beyond | Class::Denied | Class::Wrong => false,
        }
    }

    /// It is certain that a write was not done, and will not be (T1).
    pub fn is_harmless(self) -> bool {
        match self {
            Class::Missing | Class::Refused | Class::Beyond | Class::Conflict => true,
            Class::Throttled | Class::Unreached | Class::Denied | Class::Wrong => true,
            Class::Server | Class::Timeout | Class::Broken | Class::Damaged | Class::Odd => false,
        }
    }

    /// It tells of a server, or a network, in trouble, and not of what was asked.
    pub(crate) fn is_outage(self) -> bool {
        matches!(
            self,
            Class::Throttled | Class::Unreached | Class::Server | Class::Timeout | Class::Broken
        )
    }
}

/// A failed attempt.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) class: Class,
    /// For people; holds no secrets that the server could have echoed in an answer's body.
    pub(crate) message: String,
    /// The server named a time to wait.
    pub(crate) wait: Option<Duration>,
}

/// What a server answered instead of what was asked for. `object_store` sees it as a transport error, so that its own
/// errors hold no body, in which a server may repeat the headers that it got, tokens included.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// S3's name for the error, if the answer had one.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) wait: Option<Duration>,
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the server says {}", self.status.as_u16())?;
        [&self.code, &self.message].iter().filter(|text| !text.is_empty()).try_for_each(|text| {
            write!(f, ", ")?;
            text.chars().take(TEXT_MAX).try_for_each(|c| write!(f, "{}", printable(c)))
        })
    }
}

impl Error for Reply {}

impl Trouble {
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Trouble { class, message: message.into(), wait: None }
    }

    /// What an error of a store means.
    pub(crate) fn of(error: &object_store::Error) -> Self {
        let mut source: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(at) = source {
            if let Some(reply) = at.downcast_ref::<Reply>() {
                let (class, wait) = (of_reply(reply), reply.wait);
                return Trouble { class, message: reply.to_string(), wait };
            }
            if let Some(fault) = at.downcast_ref::<Fault>() {
                return Trouble::new(of_fault(fault), fault.to_string());
            }
            if let Some(http) = at.downcast_ref::<HttpError>()
                && !leads_to_reply(http)
            {
                return Trouble::new(of_transport(http), innermost(http));
            }
            source = at.source();
        }
        Trouble::new(of_kind(error), short(&error.to_string()))
    }
}

fn leads_to_reply(http: &HttpError) -> bool {
    http.source().is_some_and(|source| source.is::<Reply>())
}

/// What lies at the bottom says most: above it there are only words like "error sending request".
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut at = error;
    while let Some(source) = at.source() {
        at = source;
    }
    short(&at.to_string())
}

fn of_reply(reply: &Reply) -> Class {
    match reply.code.as_str() {
        "SlowDown" | "RequestLimitExceeded" | "Throttling" | "TooManyRequests" => {
            return Class::Throttled;
        }
        "RequestTimeout" => return Class::Timeout,
        "BadDigest" | "XAmzContentSHA256Mismatch" | "IncompleteBody" => return Class::Damaged,
        "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => return Class::Denied,
        // A missing bucket is no missing object: who reads "nothing there" from it would begin a new database.
        "NoSuchBucket" => return Class::Wrong,
        _ => {}
    }
    match reply.status.as_u16() {
        404 => Class::Missing,
        412 | 304 => Class::Refused,
        416 => Class::Beyond,
        409 => Class::Conflict,
        429 => Class::Throttled,
        408 => Class::Timeout,
        401 | 403 => Class::Denied,
        501 => Class::Wrong,
        500..=599 => Class::Server,
        300..=499 => Class::Wrong,
        _ => Class::Odd,
    }
}

fn of_fault(fault: &Fault) -> Class {
    match fault.kind {
        FaultKind::SlowDown => Class::Throttled,
        FaultKind::Hang => Class::Timeout,
        FaultKind::Lost => Class::Broken,
    }
}

fn of_transport(error: &HttpError) -> Class {
    match error.kind() {
        HttpErrorKind::Connect => Class::Unreached,
        HttpErrorKind::Timeout => Class::Timeout,
        // `Request` is "not sent" by its name, and is used for connections that ended in the middle, too.
        _ => Class::Broken,
    }
}

/// Stores without HTTP speak by kinds alone.
fn of_kind(error: &object_store::Error) -> Class {
    use object_store::Error::*;
    match error {
        NotFound { .. } => Class::Missing,
        AlreadyExists { .. } | Precondition { .. } | NotModified { .. } => Class::Refused,
        PermissionDenied { .. } | Unauthenticated { .. } => Class::Denied,
        NotSupported { .. } | NotImplemented { .. } | InvalidPath { .. } => Class::Wrong,
        _ => Class::Odd,
    }
}

/// One line of text from elsewhere, not too long, and without what moves a terminal's cursor.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX).map(printable).collect()
}

fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, code: &str) -> object_store::Error {
        let (status, code) = (StatusCode::from_u16(status).unwrap(), code.to_owned());
        let reply = Reply { status, code, message: String::new(), wait: None };
        let source = Box::new(HttpError::new(HttpErrorKind::Unknown, reply));
        object_store::Error::Generic { store: "S3", source }
    }

    #[test]
    fn answers_are_told_apart() {
        for (status, code, class) in [
            (404, "", Class::Missing),
            (404, "NoSuchKey", Class::Missing),
            (404, "NoSuchBucket", Class::Wrong),
            (412, "PreconditionFailed", Class::Refused),
            (409, "ConditionalRequestConflict", Class::Conflict),
            (503, "SlowDown", Class::Throttled),
            (503, "", Class::Server),
            (429, "", Class::Throttled),
            (500, "InternalError", Class::Server),
            (501, "NotImplemented", Class::Wrong),
            (400, "RequestTimeout", Class::Timeout),
            (400, "BadDigest", Class::Damaged),
            (400, "ExpiredToken", Class::Denied),
            (403, "AccessDenied", Class::Denied),
            (416, "InvalidRange", Class::Beyond),
            (301, "PermanentRedirect", Class::Wrong),
        ] {
            assert_eq!(Trouble::of(&reply(status, code)).class, class, "{status} {code}");
        }
    }

    #[test]
    fn a_connection_that_was_not_made_is_harmless_and_one_that_broke_is_not() {
        let error = |kind| object_store::Error::Generic {
            store: "S3",
            source: Box::new(HttpError::new(kind, std::io::Error::other("gone"))),
        };
        assert!(Trouble::of(&error(HttpErrorKind::Connect)).class.is_harmless());
        for kind in [HttpErrorKind::Request, HttpErrorKind::Interrupted, HttpErrorKind::Timeout] {
            let class = Trouble::of(&error(kind)).class;
            assert!(!class.is_harmless() && class.may_pass(), "{kind:?}");
        }
    }

    #[test]
    fn texts_are_cut_and_cannot_move_the_cursor() {
        let text = short(&format!("a\u{1b}[2J\r\n{}", "x".repeat(10_000)));
        assert!(text.len() <= TEXT_MAX && !text.contains(char::is_control));
    }
}
