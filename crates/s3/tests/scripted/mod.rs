//! An HTTP server that says what a test tells it to, and remembers what it was asked. One thread per connection.
#![allow(clippy::unwrap_used, reason = "a test's server may end its test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use siltstone_s3::{Location, Options, Retry, S3Bucket};

pub(crate) const KEY_ID: &str = "CANARYKEYID0123456789";
pub(crate) const SECRET: &str = "canary-secret-0123456789";
pub(crate) const TOKEN: &str = "canary-token-0123456789";

/// What came in.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// By name in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Method and what of the query matters.
    pub(crate) fn is(&self, method: &str, part: &str) -> bool {
        self.method == method && self.target.contains(part)
    }
}

/// What goes out.
pub(crate) enum Answer {
    /// A whole answer.
    Full { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8> },
    /// Half of one: `len` is promised, and `body` is all that comes.
    Cut { status: u16, headers: Vec<(&'static str, String)>, body: Vec<u8>, len: u64 },
    /// The connection ends.
    Gone,
    /// Nothing, until the client goes away.
    Silence,
}

impl Answer {
    pub(crate) fn ok() -> Answer {
        Answer::with(&[("etag", "\"tag\"")], b"")
    }

    pub(crate) fn with(headers: &[(&'static str, &str)], body: &[u8]) -> Answer {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Answer::Full { status: 200, headers, body: body.to_vec() }
    }

    /// An error as S3 says it.
    pub(crate) fn error(status: u16, code: &str) -> Answer {
        let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
        Answer::Full { status, headers: Vec::new(), body: body.into_bytes() }
    }
}

type Script = dyn Fn(&Request, usize) -> Answer + Send + Sync;

/// The server, and what it was asked. It ends with the process.
pub(crate) struct Server {
    pub(crate) endpoint: String,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// `script` is given each request, and how many there were before.
    pub(crate) fn new(script: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, script): (_, Arc<Script>) = (Arc::clone(&asked), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
                // A client that goes away in the middle ends its connection's thread.
                std::thread::spawn(move || serve(stream, &seen, script.as_ref()));
            }
        });
        Server { endpoint, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn bucket(&self) -> S3Bucket {
        self.bucket_with(hasty())
    }

    pub(crate) fn bucket_with(&self, options: Options) -> S3Bucket {
        bucket(&self.endpoint, options)
    }

    /// Of which the URL says more.
    pub(crate) fn bucket_by(&self, words: &str, options: Options) -> S3Bucket {
        bucket(&format!("{}&{words}", self.endpoint), options)
    }
}

/// Few attempts, and rests that a test can wait for.
pub(crate) fn hasty() -> Options {
    let (rest, rest_throttled) = (Duration::from_millis(2), Duration::from_millis(5));
    let retry = Retry { attempts_max: 4, rest, rest_throttled, ..Retry::default() };
    Options { retry, ..Options::default() }
}

/// A bucket at `endpoint`, with keys that must be seen nowhere.
pub(crate) fn bucket(endpoint: &str, options: Options) -> S3Bucket {
    let url = format!("s3://bucket/p?endpoint={endpoint}");
    let location = Location::parse_with(&url, |name| match name {
        "AWS_ACCESS_KEY_ID" => Some(KEY_ID.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        "AWS_SESSION_TOKEN" => Some(TOKEN.to_owned()),
        _ => None,
    });
    S3Bucket::at(&location.unwrap(), options).unwrap()
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Request>>, script: &Script) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = read(&mut reader)?;
        let before = {
            let mut seen = seen.lock().unwrap();
            seen.push(request.clone());
            seen.len() - 1
        };
        let stream = reader.get_mut();
        match script(&request, before) {
            Answer::Full { status, headers, body } => {
                // A head is answered as a get, but for the body.
                let len = body.len() as u64;
                let body = if request.method == "HEAD" { Vec::new() } else { body };
                write(stream, status, &headers, &body, len)?;
            }
            Answer::Cut { status, headers, body, len } => {
                write(stream, status, &headers, &body, len)?;
                return None;
            }
            Answer::Gone => return None,
            Answer::Silence => {
                let _ = stream.read(&mut [0]);
                return None;
            }
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let line = line(reader)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let header = self::line(reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let len = headers.get("content-length").map_or(0, |len: &String| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, target, headers, body })
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

fn write(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&'static str, String)],
    body: &[u8],
    len: u64,
) -> Option<()> {
    let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {len}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("last-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    stream.flush().ok()
}
