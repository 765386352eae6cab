//! Whom a bucket speaks to over TLS: a server with a certificate that is right, and nobody else. To others it says nothing,
//! and what it says of them gives no key away.
#![allow(clippy::unwrap_used, reason = "a test's server may end its test")]

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use siltstone_cloud::{Bucket, BucketError, Call, Failure, Part, Purpose};
use siltstone_s3::{Location, Options, Retry, S3Bucket};

const KEY_ID: &str = "CANARYKEYID0123456789";
const SECRET: &str = "canary-secret-0123456789";
const TOKEN: &str = "canary-token-0123456789";

/// Signs certificates. All have the same name: only their keys differ.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "the authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    fn sign(&self, wanted: Wanted) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = wanted.params().signed_by(&key, &self.issuer).unwrap();
        Identity { chain: vec![certificate.der().clone()], key }
    }

    /// By somebody whom the authority has named, and who is none.
    fn sign_by_a_server(&self) -> Identity {
        let (leaf, leaf_key) = (Wanted::right().params(), KeyPair::generate().unwrap());
        let above = leaf.signed_by(&leaf_key, &self.issuer).unwrap().der().clone();
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::new(leaf, leaf_key);
        let certificate = Wanted::right().params().signed_by(&key, &issuer).unwrap();
        Identity { chain: vec![certificate.der().clone(), above], key }
    }
}

struct Wanted {
    name: &'static str,
    years: (i32, i32),
    usage: ExtendedKeyUsagePurpose,
}

impl Wanted {
    fn right() -> Self {
        let usage = ExtendedKeyUsagePurpose::ServerAuth;
        Wanted { name: "127.0.0.1", years: (2020, 2120), usage }
    }

    fn params(self) -> CertificateParams {
        let mut params = CertificateParams::new([self.name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(self.years.0, 1, 1);
        params.not_after = date_time_ymd(self.years.1, 1, 1);
        params.extended_key_usages = vec![self.usage];
        params
    }
}

fn self_signed() -> Identity {
    let key = KeyPair::generate().unwrap();
    let certificate = Wanted::right().params().self_signed(&key).unwrap();
    Identity { chain: vec![certificate.der().clone()], key }
}

struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

/// Says of everything that there is no such object, and counts who got so far as to ask. It ends with the process.
struct Server {
    endpoint: String,
    asked: Arc<AtomicUsize>,
}

impl Server {
    fn new(identity: Identity) -> Self {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(identity.chain, key)
            .unwrap();
        let config = Arc::new(config);
        Server::with(move |stream| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            Box::new(StreamOwned::new(connection, stream))
        })
    }

    fn without_tls() -> Self {
        Server::with(|stream| Box::new(stream))
    }

    fn with(wrap: impl Fn(TcpStream) -> Box<dyn Both> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("https://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who is not trusted goes away, and the connection with him.
                answer(wrap(stream).as_mut(), &seen);
            }
        });
        Server { endpoint, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

trait Both: Read + Write {}

impl<T: Read + Write> Both for T {}

fn answer(stream: &mut dyn Both, asked: &AtomicUsize) -> Option<()> {
    let mut request = Vec::new();
    let mut reader = BufReader::new(&mut *stream);
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        reader.read_exact(&mut byte).ok()?;
        request.extend(byte);
        // It speaks TLS, and waits for an answer.
        if request == [0x16] {
            break;
        }
    }
    if request.windows(8).any(|bytes| bytes == b"HTTP/1.1") {
        asked.fetch_add(1, Ordering::Relaxed);
    }
    let body = "<Error><Code>NoSuchKey</Code></Error>";
    let head = format!("HTTP/1.1 404 No\r\ncontent-length: {}\r\nconnection: close", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).ok()?;
    stream.flush().ok()
}

/// What comes of asking for an object that is not there, if only the authorities of a file are believed.
fn ask(endpoint: &str, bundle: &str) -> BucketError {
    let url = format!("s3://bucket/p?endpoint={endpoint}");
    let location = Location::parse_with(&url, |name| match name {
        "AWS_ACCESS_KEY_ID" => Some(KEY_ID.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        "AWS_SESSION_TOKEN" => Some(TOKEN.to_owned()),
        "AWS_CA_BUNDLE" => Some(bundle.to_owned()),
        _ => None,
    });
    let retry = Retry { attempts_max: 2, rest: Duration::from_millis(2), ..Retry::default() };
    let options = Options { retry, ..Options::default() };
    let bucket = match S3Bucket::at(&location.unwrap(), options) {
        Ok(bucket) => bucket,
        Err(error) => return error,
    };
    let call = Call { purpose: Purpose::Manifest, within: Duration::from_secs(10) };
    bucket.get("v/1", Part::Whole, call).expect_err("no server has any object")
}

/// A file of the test's, which goes with it.
struct Bundle(std::path::PathBuf);

impl Bundle {
    fn new(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("siltstone-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Bundle(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("temporary folders have names in UTF-8")
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn check_is_silent(error: &BucketError) {
    let told = format!("{error} {error:?}");
    assert!([KEY_ID, SECRET, TOKEN].iter().all(|secret| !told.contains(secret)), "{told}");
}

#[test]
fn a_server_that_the_authority_names_is_spoken_to() {
    let authority = Authority::new();
    let server = Server::new(authority.sign(Wanted::right()));
    let bundle = Bundle::new("right.pem", &(Authority::new().pem + &authority.pem));
    let error = ask(&server.endpoint, bundle.path());
    assert_eq!(error.failure, Failure::Missing, "{error}");
    assert_eq!(server.asked(), 1);
}

#[test]
fn nobody_else_hears_a_word() {
    let authority = Authority::new();
    let bundle = Bundle::new("authority.pem", &authority.pem);
    let client = ExtendedKeyUsagePurpose::ClientAuth;
    for (what, identity) in [
        ("of another authority", Authority::new().sign(Wanted::right())),
        ("of nobody but itself", self_signed()),
        ("of somebody who is no authority", authority.sign_by_a_server()),
        ("of another machine", authority.sign(Wanted { name: "127.0.0.2", ..Wanted::right() })),
        ("of a name", authority.sign(Wanted { name: "localhost", ..Wanted::right() })),
        ("that has expired", authority.sign(Wanted { years: (2010, 2020), ..Wanted::right() })),
        (
            "that is not valid yet",
            authority.sign(Wanted { years: (2110, 2120), ..Wanted::right() }),
        ),
        ("of a client", authority.sign(Wanted { usage: client, ..Wanted::right() })),
    ] {
        let server = Server::new(identity);
        let error = ask(&server.endpoint, bundle.path());
        assert_ne!(error.failure, Failure::Missing, "{what}: {error}");
        assert_eq!(server.asked(), 0, "a certificate {what}");
        check_is_silent(&error);
    }
}

#[test]
fn who_answers_in_plain_text_hears_nothing() {
    let bundle = Bundle::new("plain.pem", &Authority::new().pem);
    let server = Server::without_tls();
    let error = ask(&server.endpoint, bundle.path());
    assert_ne!(error.failure, Failure::Missing, "{error}");
    assert_eq!(server.asked(), 0);
    check_is_silent(&error);
}

#[test]
fn without_a_bundle_that_can_be_read_nothing_is_tried() {
    let authority = Authority::new();
    let server = Server::new(authority.sign(Wanted::right()));
    let (empty, nonsense) = (Bundle::new("empty.pem", ""), Bundle::new("nonsense.pem", "canary"));
    let cut = Bundle::new("cut.pem", &authority.pem[..authority.pem.len() / 2]);
    for path in [empty.path(), nonsense.path(), cut.path(), "/nowhere/authorities.pem"] {
        let error = ask(&server.endpoint, path);
        assert_eq!(error.failure, Failure::Wrong, "{path}: {error}");
        assert!(error.to_string().contains("AWS_CA_BUNDLE"), "{error}");
        check_is_silent(&error);
    }
    assert_eq!(server.asked(), 0);
}
