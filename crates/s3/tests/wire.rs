//! What a bucket makes of what servers say, over real connections: answers that are lost, cut, refused, or of another kind
//! than they should be. The server is scripted, so each story happens.

mod scripted;

use std::time::{Duration, Instant};

use bytes::Bytes;
use scripted::{Answer, Request, Server};
use siltstone_cloud::{Bucket, Call, Condition, Failure, Part, Purpose, Tag};
use siltstone_s3::{Class, Options, Verb};

fn call() -> Call {
    Call { purpose: Purpose::Manifest, within: Duration::from_secs(10) }
}

/// For stories in which nothing will come.
fn brief() -> Call {
    Call { within: Duration::from_millis(120), ..call() }
}

fn body() -> Bytes {
    Bytes::from_static(b"0123456789")
}

fn count(requests: &[Request], method: &str) -> usize {
    requests.iter().filter(|request| request.method == method).count()
}

const MARK: &str = "x-amz-meta-siltstone-put";

#[test]
fn a_create_whose_answer_was_lost_knows_its_own_object() {
    // The server stores the object, and the connection ends before the answer. The second try meets 412, which is no lost
    // race: the object bears the mark of the first.
    let stored = std::sync::Mutex::new(None::<String>);
    let server = Server::new(move |request, _| {
        let mut stored = stored.lock().unwrap();
        match (request.method.as_str(), stored.clone()) {
            ("PUT", None) => {
                *stored = Some(request.header(MARK).to_owned());
                Answer::Gone
            }
            ("PUT", Some(_)) => Answer::error(412, "PreconditionFailed"),
            (_, mark) => Answer::with(&[("etag", "\"mine\""), (MARK, &mark.unwrap())], b""),
        }
    });
    let put = server.bucket().put("v/1", body(), Condition::Absent, call());
    assert_eq!(put.unwrap(), Tag("\"mine\"".to_owned()));
    let asked = server.asked();
    assert_eq!((count(&asked, "PUT"), count(&asked, "HEAD")), (2, 1), "{asked:?}");
    assert_eq!(asked[0].header("if-none-match"), "*");
    assert!(asked[0].header(MARK).len() == 32 && asked[0].header(MARK) == asked[1].header(MARK));
}

#[test]
fn a_lost_answer_and_the_object_of_another_are_unsure() {
    let server = Server::new(|request, before| match (request.method.as_str(), before) {
        ("PUT", 0) => Answer::Gone,
        ("PUT", _) => Answer::error(412, "PreconditionFailed"),
        _ => Answer::with(&[("etag", "\"theirs\""), (MARK, "ffff")], b""),
    });
    let error = server.bucket().put("v/1", body(), Condition::Absent, call()).unwrap_err();
    assert_eq!(error.failure, Failure::Unsure, "{error}");
}

#[test]
fn answers_decide_what_became_of_a_put() {
    for (status, code, when, failure) in [
        (412, "PreconditionFailed", Condition::Absent, Failure::Refused),
        (412, "PreconditionFailed", Condition::Tagged(Tag("\"1\"".into())), Failure::Refused),
        (404, "NoSuchKey", Condition::Tagged(Tag("\"1\"".into())), Failure::Refused),
        (404, "NoSuchBucket", Condition::Absent, Failure::Wrong),
        (403, "AccessDenied", Condition::Always, Failure::Denied),
        (400, "EntityTooLarge", Condition::Always, Failure::Wrong),
        (301, "PermanentRedirect", Condition::Always, Failure::Wrong),
        (501, "NotImplemented", Condition::Absent, Failure::Wrong),
        (409, "ConditionalRequestConflict", Condition::Absent, Failure::Unavailable),
        (503, "SlowDown", Condition::Absent, Failure::Unavailable),
        (429, "", Condition::Always, Failure::Unavailable),
        (503, "", Condition::Absent, Failure::Unsure),
        (500, "InternalError", Condition::Always, Failure::Unsure),
        (504, "", Condition::Absent, Failure::Unsure),
    ] {
        let server = Server::new(move |_, _| Answer::error(status, code));
        let error = server.bucket().put("a", body(), when.clone(), call()).unwrap_err();
        assert_eq!(error.failure, failure, "{status} {code} on {when:?}: {error}");
        let tries = server.asked().len();
        let again = matches!(failure, Failure::Unavailable | Failure::Unsure);
        assert_eq!(tries > 1, again, "{status} {code}: {tries} tries");
    }
}

#[test]
fn answers_decide_what_became_of_a_get() {
    for (status, code, failure) in [
        (404, "NoSuchKey", Failure::Missing),
        (404, "NoSuchBucket", Failure::Wrong),
        (403, "AccessDenied", Failure::Denied),
        (401, "", Failure::Denied),
        (500, "", Failure::Unavailable),
        (503, "SlowDown", Failure::Unavailable),
        (302, "", Failure::Wrong),
    ] {
        let server = Server::new(move |_, _| Answer::error(status, code));
        let error = server.bucket().get("a", Part::Whole, call()).unwrap_err();
        assert_eq!(error.failure, failure, "{status} {code}: {error}");
    }
}

#[test]
fn conflicts_and_throttles_pass() {
    let server = Server::new(|_, before| match before {
        0 => Answer::error(409, "ConditionalRequestConflict"),
        1 | 2 => Answer::error(503, "SlowDown"),
        _ => Answer::ok(),
    });
    let bucket = server.bucket();
    bucket.put("a", body(), Condition::Absent, call()).unwrap();
    let seen = bucket.meter();
    let used = seen.of(Purpose::Manifest);
    assert_eq!((used.retries, used.verb(Verb::Put).requests), (3, 4));
    assert_eq!((used.failed(Class::Throttled), used.failed(Class::Conflict)), (2, 1));
    assert_eq!(used.verb(Verb::Put).sent_bytes, 40, "each attempt is paid");
}

#[test]
fn nobody_listens() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let bucket = scripted::bucket(&format!("http://127.0.0.1:{port}"), scripted::hasty());
    let put = bucket.put("a", body(), Condition::Absent, call()).unwrap_err();
    assert_eq!(put.failure, Failure::Unavailable, "nothing was sent: {put}");
    let get = bucket.get("a", Part::Whole, call()).unwrap_err();
    assert_eq!(get.failure, Failure::Unavailable, "{get}");
}

#[test]
fn a_silent_server_holds_nobody_longer_than_their_time() {
    let server = Server::new(|_, _| Answer::Silence);
    let bucket = server.bucket();
    let begun = Instant::now();
    let put = bucket.put("a", body(), Condition::Always, brief()).unwrap_err();
    let get = bucket.get("a", Part::Whole, brief()).unwrap_err();
    assert_eq!((put.failure, get.failure), (Failure::Unsure, Failure::Unavailable));
    assert!(put.message.contains("read it back"), "{put}");
    // Twice 120 ms, and what a busy machine adds.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

fn ranged(from: usize, to: usize, len: u64) -> Answer {
    let headers = vec![
        ("etag", "\"tag\"".to_owned()),
        ("content-range", format!("bytes {from}-{}/10", to - 1)),
    ];
    Answer::Cut { status: 206, headers, body: body()[from..to.min(10)].to_vec(), len }
}

#[test]
fn a_body_that_is_cut_short_is_read_again() {
    let server = Server::new(|_, before| match before {
        0 => {
            let headers =
                vec![("etag", "\"tag\"".to_owned()), ("content-range", "bytes 2-7/10".to_owned())];
            Answer::Cut { status: 206, headers, body: body()[2..5].to_vec(), len: 6 }
        }
        _ => ranged(2, 8, 6),
    });
    let bucket = server.bucket();
    let got = bucket.get("a", Part::Range { offset: 2, len: 6 }, call()).unwrap();
    assert_eq!((&got.body[..], got.offset, got.bytes), (&b"234567"[..], 2, 10));
    assert_eq!(bucket.meter().of(Purpose::Manifest).failed(Class::Broken), 1);
    assert_eq!(server.asked()[0].header("range"), "bytes=2-7");
}

#[test]
fn a_server_without_ranges_is_found_out() {
    let server = Server::new(|_, _| Answer::with(&[("etag", "\"tag\"")], &body()));
    let error = server.bucket().get("a", Part::Range { offset: 2, len: 6 }, call()).unwrap_err();
    assert_eq!(error.failure, Failure::Wrong, "{error}");
}

#[test]
fn a_size_beyond_reason_is_refused_before_it_is_believed() {
    let server = Server::new(|_, _| {
        let headers = vec![("etag", "\"tag\"".to_owned())];
        Answer::Cut { status: 200, headers, body: body().to_vec(), len: 1 << 50 }
    });
    let error = server.bucket().get("a", Part::Whole, call()).unwrap_err();
    assert_eq!(error.failure, Failure::Wrong, "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn redirects_are_not_followed() {
    let elsewhere = Server::new(|_, _| Answer::ok());
    let to = format!("{}/stolen", elsewhere.endpoint);
    let server = Server::new(move |_, _| Answer::Full {
        status: 307,
        headers: vec![("location", to.clone())],
        body: Vec::new(),
    });
    let error = server.bucket().put("a", body(), Condition::Always, call()).unwrap_err();
    assert_eq!(error.failure, Failure::Wrong, "{error}");
    assert!(elsewhere.asked().is_empty(), "what was signed for one host went to another");
}

/// Answers of an upload in parts; the test says what is said otherwise.
fn upload(request: &Request) -> Answer {
    if request.is("POST", "?uploads") {
        let body = "<InitiateMultipartUploadResult><UploadId>u1</UploadId>\
                    </InitiateMultipartUploadResult>";
        return Answer::with(&[], body.as_bytes());
    }
    if request.is("POST", "uploadId=u1") {
        let body = "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag>\
                    </CompleteMultipartUploadResult>";
        return Answer::with(&[], body.as_bytes());
    }
    Answer::ok()
}

fn in_parts() -> Options {
    Options { single_put_bytes: 100, part_bytes: 100, ..scripted::hasty() }
}

#[test]
fn a_part_that_fails_is_put_again_and_no_other() {
    let failed = std::sync::atomic::AtomicBool::new(false);
    let server = Server::new(move |request, _| {
        let fails = request.is("PUT", "partNumber=2")
            && !failed.swap(true, std::sync::atomic::Ordering::Relaxed);
        if fails { Answer::error(500, "InternalError") } else { upload(request) }
    });
    let large = Bytes::from(vec![7; 350]);
    let put = server.bucket_with(in_parts()).put("a", large, Condition::Always, call());
    assert_eq!(put.unwrap(), Tag("\"whole\"".to_owned()));
    let asked = server.asked();
    let puts = |part: &str| asked.iter().filter(|request| request.is("PUT", part)).count();
    assert_eq!([1, 2, 3, 4].map(|at| puts(&format!("partNumber={at}&"))), [1, 2, 1, 1]);
    assert_eq!(
        asked.iter().filter(|r| r.method == "PUT").map(|r| r.body.len()).sum::<usize>(),
        450
    );
}

#[test]
fn an_upload_that_fails_is_given_up() {
    let server = Server::new(|request, _| {
        let fails = request.is("PUT", "partNumber=2");
        if fails { Answer::error(403, "AccessDenied") } else { upload(request) }
    });
    let bucket = server.bucket_with(in_parts());
    let error = bucket.put("a", Bytes::from(vec![7; 350]), Condition::Always, call()).unwrap_err();
    assert_eq!(error.failure, Failure::Denied, "{error}");
    // It is given up beside what goes on.
    let begun = Instant::now();
    while !server.asked().iter().any(|request| request.is("DELETE", "uploadId=u1")) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", server.asked());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!server.asked().iter().any(|request| request.is("POST", "uploadId=u1")));
}

#[test]
fn an_end_of_an_upload_whose_answer_was_lost_is_found_done() {
    let mark = std::sync::Mutex::new(String::new());
    let ended = std::sync::atomic::AtomicBool::new(false);
    let server = Server::new(move |request, _| {
        if request.is("POST", "?uploads") {
            *mark.lock().unwrap() = request.header(MARK).to_owned();
        }
        if request.is("POST", "uploadId=u1") {
            let before = ended.swap(true, std::sync::atomic::Ordering::Relaxed);
            return if before { Answer::error(404, "NoSuchUpload") } else { Answer::Gone };
        }
        match request.method.as_str() {
            "HEAD" => Answer::with(&[("etag", "\"whole\""), (MARK, &mark.lock().unwrap())], b""),
            _ => upload(request),
        }
    });
    let bucket = server.bucket_with(in_parts());
    let put = bucket.put("a", Bytes::from(vec![7; 350]), Condition::Always, call());
    assert_eq!(put.unwrap(), Tag("\"whole\"".to_owned()));
}

#[test]
fn keys_are_seen_nowhere() {
    // The server repeats all that it was told, as S3 does when a signature does not match.
    let server = Server::new(|request, before| {
        let told = format!("{:?} {} {}", request.headers, scripted::SECRET, scripted::TOKEN);
        let body = format!("<Error><Code>{told}</Code><Message>{told}</Message>{told}</Error>");
        let statuses = [400, 401, 403, 404, 409, 412, 416, 429, 500, 503, 301];
        let status = statuses[before % statuses.len()];
        Answer::Full { status, headers: Vec::new(), body: body.into_bytes() }
    });
    let bucket = server.bucket_with(in_parts());
    let mut texts = vec![format!("{bucket:?} {bucket}")];
    for _ in 0..11 {
        let errors = [
            bucket.get("a", Part::Whole, call()).unwrap_err(),
            bucket.head("a", call()).unwrap_err(),
            bucket.put("a", body(), Condition::Absent, call()).unwrap_err(),
            bucket.put("a", Bytes::from(vec![0; 300]), Condition::Always, call()).unwrap_err(),
            bucket.delete(&["a".to_owned()], call()).unwrap_err(),
            bucket.list("", "", call()).unwrap_err(),
        ];
        texts.extend(errors.iter().map(|error| format!("{error} {error:?}")));
    }
    texts.push(bucket.meter().prometheus());
    texts.push(format!("{:?}", bucket.meter()));
    let asked = server.asked();
    assert!(asked.iter().all(|request| request.header("x-amz-security-token") == scripted::TOKEN));
    for text in texts {
        for secret in [scripted::KEY_ID, scripted::SECRET, scripted::TOKEN] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

/// Encryption is asked for where objects begin: of S3 parts of an upload need no word of it.
#[test]
fn who_wants_encryption_asks_for_it_with_each_object() {
    let header = |name: &str| format!("x-amz-server-side-encryption{name}");
    for (words, by, key, bucket_key) in [
        ("encryption=AES256", "AES256", "", ""),
        ("encryption=aws:kms", "aws:kms", "", "true"),
        (
            "encryption=aws:kms&kms_key=arn:aws:kms:r:1:key/k",
            "aws:kms",
            "arn:aws:kms:r:1:key/k",
            "true",
        ),
        ("encryption=aws:kms:dsse&kms_key=k", "aws:kms:dsse", "k", ""),
        ("bulk_delete=true", "", "", ""),
    ] {
        let server = Server::new(|request, _| upload(request));
        let bucket = server.bucket_by(words, in_parts());
        bucket.put("a", body(), Condition::Absent, call()).unwrap();
        bucket.put("a", Bytes::from(vec![7; 250]), Condition::Always, call()).unwrap();
        let asked = server.asked();
        let begin = |request: &&Request| {
            request.is("POST", "?uploads")
                || (request.method == "PUT" && !request.is("PUT", "uploadId"))
        };
        let begins: Vec<&Request> = asked.iter().filter(begin).collect();
        assert_eq!(begins.len(), 2, "{asked:?}");
        for request in begins {
            assert_eq!(request.header(&header("")), by, "{words}");
            assert_eq!(request.header(&header("-aws-kms-key-id")), key, "{words}");
            assert_eq!(request.header(&header("-bucket-key-enabled")), bucket_key, "{words}");
        }
    }
}
