//! An S3 server in this process: objects in memory, time that a test moves on, and defects on request. It speaks what the
//! command asks of a server and no more; `scripts/s3-server` has a real one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Keys that must be seen nowhere.
pub(crate) const KEY_ID: &str = "CANARYKEYID0123456789";
pub(crate) const SECRET: &str = "canary-secret-0123456789";
pub(crate) const BUCKET: &str = "shop";

#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) body: Vec<u8>,
    etag: String,
    written_ms: u64,
    meta: Vec<(String, String)>,
}

pub(crate) type Objects = BTreeMap<String, Stored>;

#[derive(Default)]
struct State {
    objects: Mutex<Objects>,
    uploads: Mutex<BTreeMap<String, BTreeMap<u32, Vec<u8>>>>,
    puts: AtomicU64,
    /// How far the server's clock is ahead.
    ahead_ms: AtomicU64,
    ignores_conditions: AtomicBool,
    /// Answers to everything: an error that repeats the request's headers.
    parrots: AtomicBool,
}

/// The server. It ends with the process.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) endpoint: String,
    state: Arc<State>,
}

struct Request {
    method: String,
    bucket: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Server {
    pub(crate) fn new() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A client that goes away in the middle ends its connection's thread.
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Server { endpoint, state }
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        self.state.objects.lock().unwrap()
    }

    /// Names that have `part` in them.
    pub(crate) fn names(&self, part: &str) -> Vec<String> {
        self.objects().keys().filter(|name| name.contains(part)).cloned().collect()
    }

    pub(crate) fn put(&self, name: &str, body: &[u8]) {
        let stored = self.state.stored(body.to_vec(), Vec::new());
        self.objects().insert(name.to_owned(), stored);
    }

    /// Changes an object behind everybody's back.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.objects().get_mut(name).unwrap().body);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.objects().remove(name).unwrap();
    }

    /// Lets time pass, by the server's clock.
    pub(crate) fn pass(&self, time: Duration) {
        self.state.ahead_ms.fetch_add(time.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn ignore_conditions(&self) {
        self.state.ignores_conditions.store(true, Ordering::Relaxed);
    }

    pub(crate) fn parrot(&self) {
        self.state.parrots.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn stored(&self, body: Vec<u8>, meta: Vec<(String, String)>) -> Stored {
        let etag = format!("\"{}\"", self.puts.fetch_add(1, Ordering::Relaxed) + 1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        Stored { body, etag, written_ms: now + self.ahead_ms.load(Ordering::Relaxed), meta }
    }

    fn answer(&self, request: &Request) -> Answer {
        if self.parrots.load(Ordering::Relaxed) {
            return error(400, "Parrot", &format!("{:?}", request.headers));
        }
        let keys = request.headers.get("authorization").map_or("", String::as_str);
        if !keys.contains(&format!("Credential={KEY_ID}/")) {
            return error(403, "AccessDenied", keys);
        }
        if request.bucket != BUCKET {
            return error(404, "NoSuchBucket", "no");
        }
        let has = |word: &str| request.query.contains_key(word);
        match request.method.as_str() {
            "GET" if request.key.is_empty() => self.list(request),
            "GET" | "HEAD" => self.get(request),
            "PUT" if has("uploadId") => self.put_part(request),
            "PUT" => self.put_object(request),
            "POST" if has("delete") => self.delete_many(request),
            "POST" if has("uploads") => self.begin_upload(),
            "POST" => self.end_upload(request),
            "DELETE" if has("uploadId") => Answer::empty(204),
            "DELETE" => {
                self.objects.lock().unwrap().remove(&request.key);
                Answer::empty(204)
            }
            _ => error(405, "MethodNotAllowed", "no"),
        }
    }

    fn get(&self, request: &Request) -> Answer {
        let objects = self.objects.lock().unwrap();
        let Some(stored) = objects.get(&request.key) else {
            return error(404, "NoSuchKey", "no");
        };
        let len = stored.body.len();
        let mut answer = Answer::empty(200);
        let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let (from, to) = match range.and_then(|range| range.split_once('-')) {
            None => (0, len),
            Some(("", tail)) => (len.saturating_sub(tail.parse().unwrap()), len),
            Some((from, to)) => {
                (from.parse().unwrap(), to.parse::<usize>().map_or(len, |to| (to + 1).min(len)))
            }
        };
        if range.is_some() {
            if from >= len || from >= to {
                return error(416, "InvalidRange", "no");
            }
            answer.status = 206;
            let range = format!("bytes {from}-{}/{len}", to - 1);
            answer.headers.push(("content-range".to_owned(), range));
        }
        answer.headers.push(("etag".to_owned(), stored.etag.clone()));
        answer.headers.push(("last-modified".to_owned(), http_date(stored.written_ms)));
        answer.headers.extend(stored.meta.iter().cloned());
        answer.body = stored.body[from..to].to_vec();
        answer
    }

    fn put_object(&self, request: &Request) -> Answer {
        let mut objects = self.objects.lock().unwrap();
        let there = objects.get(&request.key).map(|stored| stored.etag.clone());
        let refused = match (request.headers.get("if-none-match"), request.headers.get("if-match"))
        {
            (Some(_), _) => there.is_some(),
            (_, Some(tag)) => there.as_ref() != Some(tag),
            _ => false,
        };
        if refused && !self.ignores_conditions.load(Ordering::Relaxed) {
            return error(412, "PreconditionFailed", "no");
        }
        let is_meta = |name: &str| name.starts_with("x-amz-meta-");
        let meta = request.headers.iter().filter(|(name, _)| is_meta(name));
        let meta = meta.map(|(name, value)| (name.clone(), value.clone())).collect();
        let stored = self.stored(request.body.clone(), meta);
        let etag = stored.etag.clone();
        objects.insert(request.key.clone(), stored);
        Answer { headers: vec![("etag".to_owned(), etag)], ..Answer::empty(200) }
    }

    fn begin_upload(&self) -> Answer {
        let id = self.puts.fetch_add(1, Ordering::Relaxed).to_string();
        self.uploads.lock().unwrap().insert(id.clone(), BTreeMap::new());
        let result = "InitiateMultipartUploadResult";
        Answer::xml(format!("<{result}><UploadId>{id}</UploadId></{result}>"))
    }

    fn put_part(&self, request: &Request) -> Answer {
        let number = request.query["partNumber"].parse().unwrap();
        let mut uploads = self.uploads.lock().unwrap();
        let Some(upload) = uploads.get_mut(&request.query["uploadId"]) else {
            return error(404, "NoSuchUpload", "no");
        };
        upload.insert(number, request.body.clone());
        let etag = format!("\"part-{number}\"");
        Answer { headers: vec![("etag".to_owned(), etag)], ..Answer::empty(200) }
    }

    fn end_upload(&self, request: &Request) -> Answer {
        let upload = self.uploads.lock().unwrap().remove(&request.query["uploadId"]);
        let Some(upload) = upload else { return error(404, "NoSuchUpload", "no") };
        let body: Vec<u8> = upload.into_values().flatten().collect();
        let stored = self.stored(body, Vec::new());
        let etag = stored.etag.clone();
        self.objects.lock().unwrap().insert(request.key.clone(), stored);
        let result = "CompleteMultipartUploadResult";
        let (bucket, key, etag) = (BUCKET, escaped(&request.key), escaped(&etag));
        Answer::xml(format!(
            "<{result}><Location>x</Location><Bucket>{bucket}</Bucket><Key>{key}</Key>\
             <ETag>{etag}</ETag></{result}>"
        ))
    }

    fn delete_many(&self, request: &Request) -> Answer {
        let text = String::from_utf8(request.body.clone()).unwrap();
        let mut objects = self.objects.lock().unwrap();
        let mut deleted = String::new();
        for part in text.split("<Key>").skip(1) {
            let key = unescaped(part.split_once("</Key>").unwrap().0);
            objects.remove(&key);
            write!(deleted, "<Deleted><Key>{}</Key></Deleted>", escaped(&key)).unwrap();
        }
        Answer::xml(format!("<DeleteResult>{deleted}</DeleteResult>"))
    }

    fn list(&self, request: &Request) -> Answer {
        let word = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let (prefix, after) = (word("prefix"), word("start-after"));
        let after = after.max(word("continuation-token"));
        let most = word("max-keys").parse().unwrap_or(1000);
        let objects = self.objects.lock().unwrap();
        let mut found = objects
            .range(prefix.clone()..)
            .take_while(|(name, _)| name.starts_with(&prefix))
            .filter(|(name, _)| **name > after);
        let page: Vec<_> = found.by_ref().take(most).collect();
        let is_cut = found.next().is_some();
        let mut body = format!("<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>");
        if let Some((last, _)) = page.last().filter(|_| is_cut) {
            let token = escaped(last);
            write!(body, "<NextContinuationToken>{token}</NextContinuationToken>").unwrap();
        }
        for (name, stored) in page {
            let (key, tag, bytes) = (escaped(name), escaped(&stored.etag), stored.body.len());
            let date = iso_date(stored.written_ms);
            write!(
                body,
                "<Contents><Key>{key}</Key><LastModified>{date}</LastModified><ETag>{tag}</ETag>\
                 <Size>{bytes}</Size></Contents>"
            )
            .unwrap();
        }
        Answer::xml(format!("{body}</ListBucketResult>"))
    }
}

impl Answer {
    fn empty(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    fn xml(body: String) -> Answer {
        Answer { status: 200, headers: Vec::new(), body: body.into_bytes() }
    }
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    let message = escaped(message);
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    Answer { status, headers: Vec::new(), body: body.into_bytes() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}

fn serve(stream: TcpStream, state: &State) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = read(&mut reader)?;
        let Answer { status, headers, body } = state.answer(&request);
        let len = body.len();
        let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {len}\r\n");
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        head.push_str("\r\n");
        // In one piece: a second one would wait until the first is acknowledged.
        let mut answer = head.into_bytes();
        if request.method != "HEAD" {
            answer.extend_from_slice(&body);
        }
        reader.get_mut().write_all(&answer).ok()?;
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let line = line(reader)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let mut headers = BTreeMap::new();
    loop {
        let header = self::line(reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let len = headers.get("content-length").map_or(0, |len: &String| len.parse().unwrap());
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_start_matches('/');
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let words = query.split('&').map(|word| word.split_once('=').unwrap_or((word, "")));
    let query = words.map(|(name, value)| (decoded(name), decoded(value))).collect();
    let (bucket, key) = (bucket.to_owned(), decoded(key));
    Some(Request { method, bucket, key, query, headers, body })
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
                bytes.push(digit(*high) << 4 | digit(*low));
                rest = tail;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Year, month, day, and the seconds of the day. Counts through the years: the server's time is near.
fn civil(ms: u64) -> (u64, u64, u64, u64) {
    let (mut days, seconds) = (ms / 86_400_000, ms / 1000 % 86_400);
    let is_leap = |year: u64| year.is_multiple_of(if year.is_multiple_of(100) { 400 } else { 4 });
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    (year, month, days + 1, seconds)
}

fn iso_date(ms: u64) -> String {
    let (year, month, day, seconds) = civil(ms);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000Z")
}

fn http_date(ms: u64) -> String {
    let (year, month, day, seconds) = civil(ms);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(ms / 86_400_000 % 7) as usize];
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[month as usize - 1];
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}
