//! Where a bucket is, and with what keys: read from a URL and the environment. Called once, at opening.
//!
//! **L1.** Keys stand in no error, log or debug text: not even in one about a URL that should not have held them.

use std::fmt;
use std::sync::Arc;

use object_store::RetryConfig;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use siltstone_cloud::{BucketError, Failure, Result};
use url::Url;

use crate::client::{Backend, Deletes};
use crate::options::Options;
use crate::trouble::short;
use crate::trust;
use crate::wire::{Connector, Link, is_loopback};

/// What the environment may say, under the names that AWS's own tools know.
const VARIABLES: [&str; 14] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_EC2_METADATA_DISABLED",
    CA_BUNDLE,
];
/// Those of them that nobody else may see.
const SECRET: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
/// Any of them says where keys come from.
const KEYS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];
/// A file with the certificates of the authorities to believe, instead of those of the system.
const CA_BUNDLE: &str = "AWS_CA_BUNDLE";
/// Where S3 is if nobody says.
const REGION: &str = "us-east-1";
/// The end of the names of buckets of S3 Express.
const EXPRESS: &str = "--x-s3";

/// Where a bucket is, and with what keys.
///
/// `s3://bucket/prefix?endpoint=https://host:port&region=eu-central-1`. What the URL leaves out comes from the environment
/// (`AWS_ENDPOINT_URL`, `AWS_REGION`), and so do the keys (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
/// `AWS_SESSION_TOKEN`, or the roles that AWS gives to machines, containers and pods). `AWS_CA_BUNDLE` may name a file with
/// the certificates, in PEM form, of the only authorities to believe. Further words of the query:
///
/// | word | meaning |
/// | --- | --- |
/// | `allow_http=true` | an endpoint elsewhere may be spoken to in plain text; within this machine it always may |
/// | `bulk_delete=false` | the server cannot remove many objects by one request |
/// | `encryption=AES256`, `aws:kms` or `aws:kms:dsse` | the server is asked to encrypt what is put: with keys of its own, or of AWS's key service, once or twice |
/// | `kms_key=ID` | with this key of the key service, by its id or ARN, instead of the bucket's usual one |
#[derive(Clone)]
pub struct Location {
    bucket: String,
    prefix: String,
    endpoint: Option<String>,
    region: Option<String>,
    plain_text: PlainText,
    deletes: Deletes,
    encryption: Option<&'static str>,
    kms_key: Option<String>,
    environment: Vec<(&'static str, String)>,
}

/// How a server may be asked to encrypt, as S3's headers call it. Keys that the client sends along are left out: whoever opens a database
/// would have to have them, in a URL or elsewhere.
const ENCRYPTIONS: [&str; 3] = ["AES256", "aws:kms", "aws:kms:dsse"];
/// By these the key service is asked for a key of a bucket's, and not for each object.
const WITH_BUCKET_KEYS: &str = "aws:kms";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlainText {
    WithinMachine,
    Anywhere,
}

impl Location {
    /// Reads a URL, and the process's environment.
    pub fn parse(url: &str) -> Result<Self> {
        Location::parse_with(url, |name| std::env::var(name).ok())
    }

    /// Reads a URL, and an environment that `variable` looks things up in.
    pub fn parse_with(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let url = Url::parse(url).map_err(|error| wrong(&format!("no URL: {error}")))?;
        if url.scheme() != "s3" {
            return Err(wrong("no URL of a bucket: it must begin with s3://"));
        }
        // The error does not repeat the URL (L1).
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("the URL holds keys; put them into the environment instead"));
        }
        let bucket = url.host_str().unwrap_or_default().to_owned();
        if bucket.is_empty() || url.port().is_some() || url.fragment().is_some() {
            return Err(wrong(
                "the URL must have the form s3://bucket/prefix?endpoint=..&region=..",
            ));
        }
        let prefix = decoded(url.path())?;
        let environment = VARIABLES.into_iter().filter_map(|name| Some((name, variable(name)?)));
        let mut location = Location {
            bucket,
            prefix,
            endpoint: None,
            region: None,
            plain_text: PlainText::WithinMachine,
            deletes: Deletes::Bulk,
            encryption: None,
            kms_key: None,
            environment: environment.filter(|(_, value)| !value.is_empty()).collect(),
        };
        for (word, value) in url.query_pairs() {
            location.take(&word, &value)?;
        }
        if location.kms_key.is_some() && location.encryption.is_none_or(|by| by == "AES256") {
            return Err(wrong("kms_key is for encryption=aws:kms and aws:kms:dsse"));
        }
        Ok(location)
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What names in it begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The whole bucket, and the path in it that the URL says. A database's home is made of these: databases that share
    /// tables name each other by their paths in the bucket.
    pub fn split(mut self) -> (Self, String) {
        let path = std::mem::take(&mut self.prefix);
        (self, path)
    }

    /// The same place, for those who read and write there with the same keys: bucket, endpoint and region.
    pub fn is_same_bucket(&self, other: &Location) -> bool {
        let of = |location: &Location| {
            let (endpoint, region) = (location.endpoint().map(str::to_owned), location.region());
            (location.bucket.clone(), endpoint, region.to_owned())
        };
        of(self) == of(other)
    }

    fn endpoint(&self) -> Option<&str> {
        let endpoint = self.endpoint.as_deref().or_else(|| self.said("AWS_ENDPOINT_URL_S3"));
        let endpoint = endpoint.or_else(|| self.said("AWS_ENDPOINT_URL"));
        endpoint.map(|endpoint| endpoint.trim_end_matches('/'))
    }

    fn region(&self) -> &str {
        let region = self.region.as_deref().or_else(|| self.said("AWS_REGION"));
        region.or_else(|| self.said("AWS_DEFAULT_REGION")).unwrap_or(REGION)
    }

    fn take(&mut self, word: &str, value: &str) -> Result<()> {
        match (word, value) {
            ("endpoint", _) => self.endpoint = Some(value.to_owned()),
            ("region", _) => self.region = Some(value.to_owned()),
            ("allow_http", "true") => self.plain_text = PlainText::Anywhere,
            ("allow_http", "false") => self.plain_text = PlainText::WithinMachine,
            ("bulk_delete", "true") => self.deletes = Deletes::Bulk,
            ("bulk_delete", "false") => self.deletes = Deletes::OneByOne,
            ("encryption", _) => {
                let known = ENCRYPTIONS.into_iter().find(|known| *known == value);
                let message = "encryption may be AES256, aws:kms or aws:kms:dsse";
                self.encryption = Some(known.ok_or_else(|| wrong(message))?);
            }
            // It goes into a header.
            ("kms_key", _) if value.bytes().all(|byte| byte.is_ascii_graphic()) => {
                self.kms_key = Some(value.to_owned());
            }
            // Neither word nor value are repeated: they may be keys that somebody put there.
            _ => {
                return Err(wrong(
                    "the URL's query may have endpoint, region, allow_http, bulk_delete, encryption and \
                     kms_key",
                ));
            }
        }
        Ok(())
    }

    /// The store that is there. Nothing is asked of it yet.
    pub(crate) fn backend(&self, options: &Options) -> Result<Backend> {
        let endpoint = self.endpoint();
        self.check_keys(endpoint)?;
        let link = endpoint.map_or(Ok(Link::Tls), |endpoint| self.link(endpoint))?;
        let authorities = self.said(CA_BUNDLE).filter(|_| link == Link::Tls);
        let authorities = authorities.map(trust::authorities).transpose()?;
        let region = self.region();
        let is_express = self.bucket.ends_with(EXPRESS);
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.bucket)
            .with_region(region)
            .with_allow_http(link == Link::Plain)
            .with_s3_express(is_express)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_disable_bulk_delete(self.deletes == Deletes::OneByOne)
            // All trying again is ours (K1 of the client).
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(Connector {
                link,
                connections_max: options.requests_max,
                authorities,
            });
        for (name, value) in &self.environment {
            let key = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>();
            if let Ok(key) = key
                && !matches!(*name, "AWS_REGION" | "AWS_DEFAULT_REGION")
                && !name.starts_with("AWS_ENDPOINT")
            {
                builder = builder.with_config(key, value);
            }
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let builder = self.with_encryption(builder);
        let store = builder.build().map_err(|error| {
            wrong(&self.secrets().redact(&format!("cannot be opened: {error}")))
        })?;
        let store = Arc::new(store);
        Ok(Backend {
            objects: Arc::clone(&store) as _,
            pages: Some(Arc::clone(&store) as _),
            parts: Some(store as _),
            sorted: !is_express,
            deletes: self.deletes,
        })
    }

    fn with_encryption(&self, builder: AmazonS3Builder) -> AmazonS3Builder {
        let Some(by) = self.encryption else { return builder };
        let bucket_keys = (by == WITH_BUCKET_KEYS).then_some("true");
        let said = [
            ("aws_server_side_encryption", Some(by)),
            ("aws_sse_bucket_key_enabled", bucket_keys),
            ("aws_sse_kms_key_id", self.kms_key.as_deref()),
        ];
        said.into_iter().fold(builder, |builder, (name, value)| {
            match (name.parse::<AmazonS3ConfigKey>(), value) {
                (Ok(key), Some(value)) => builder.with_config(key, value),
                _ => builder,
            }
        })
    }

    fn said(&self, variable: &str) -> Option<&str> {
        let found = self.environment.iter().find(|(name, _)| *name == variable);
        found.map(|(_, value)| value.as_str())
    }

    /// Without keys AWS's own machines are asked for their role. Others would wait for that in vain: those that said so, and
    /// this one, if the bucket is here.
    fn check_keys(&self, endpoint: Option<&str>) -> Result<()> {
        let url = endpoint.and_then(|endpoint| Url::parse(endpoint).ok());
        let has_no_role = self.said("AWS_EC2_METADATA_DISABLED") == Some("true")
            || url.is_some_and(|url| is_loopback(&url));
        if has_no_role && !KEYS.iter().any(|name| self.said(name).is_some()) {
            let message = "there are no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
            return Err(BucketError::new(Failure::Denied, "bucket", message));
        }
        Ok(())
    }

    fn link(&self, endpoint: &str) -> Result<Link> {
        let url = Url::parse(endpoint).map_err(|_| wrong("the endpoint is no URL"))?;

        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("the endpoint holds keys; put them into the environment instead"));
        }
        match url.scheme() {
            "https" => Ok(Link::Tls),
            "http" if is_loopback(&url) || self.plain_text == PlainText::Anywhere => {
                Ok(Link::Plain)
            }
            "http" => Err(wrong(
                "the endpoint speaks plain text, and is not on this machine: use https, or say \
                 allow_http=true in the URL if its network is yours alone",
            )),
            _ => Err(wrong("the endpoint must begin with https:// or http://")),
        }
    }

    pub(crate) fn secrets(&self) -> Secrets {
        let secret = self.environment.iter().filter(|(name, _)| SECRET.contains(name));
        Secrets(secret.map(|(_, value)| value.clone()).collect())
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = self.environment.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Location")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint.as_ref().map(|_| "given"))
            .field("region", &self.region)
            .field("environment", &known)
            .finish_non_exhaustive()
    }
}

/// The path of a URL as a prefix of names.
fn decoded(path: &str) -> Result<String> {
    let path = object_store::path::Path::from_url_path(path.trim_matches('/'));
    Ok(path.map_err(|_| wrong("the URL's path is no prefix of names"))?.as_ref().to_owned())
}

fn wrong(message: &str) -> BucketError {
    BucketError::new(Failure::Wrong, "bucket", short(message))
}

/// Texts that must not be seen.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// `text` without them.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Location> {
        Location::parse_with(url, |name| match name {
            "AWS_ACCESS_KEY_ID" => Some("canary-id".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("canary-secret".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn urls_say_where() {
        let location = parse("s3://b-1/a/b%20c/?endpoint=http://127.0.0.1:1&region=r").unwrap();
        assert_eq!((location.bucket(), location.prefix()), ("b-1", "a/b c"));
        assert!(location.backend(&Options::default()).is_ok());
        assert_eq!(parse("s3://bucket").unwrap().prefix(), "");
    }

    #[test]
    fn urls_that_make_no_sense_are_refused_and_not_repeated() {
        for url in [
            "",
            "bucket",
            "http://bucket",
            "s3://",
            "s3://canary:canary@bucket/",
            "s3://canary@bucket/",
            "s3://bucket:80/",
            "s3://bucket/?secret=canary",
            "s3://bucket/?canary=1",
            "s3://bucket/?allow_http=canary",
            "s3://bucket/?encryption=canary",
            "s3://bucket/?kms_key=canary",
            "s3://bucket/?encryption=AES256&kms_key=canary",
            "s3://bucket/?encryption=aws:kms&kms_key=canary%0Ax",
            "s3://bucket/a//b",
            "s3://bucket/#canary",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.failure, Failure::Wrong, "{url}");
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn plain_text_to_elsewhere_needs_a_word() {
        let open = |url| parse(url).unwrap().backend(&Options::default()).map(|_| ());
        let refused = open("s3://bucket/?endpoint=http://10.0.0.1:9000").unwrap_err();
        assert!(refused.to_string().contains("allow_http=true"), "{refused}");
        open("s3://bucket/?endpoint=http://10.0.0.1:9000&allow_http=true").unwrap();
        open("s3://bucket/?endpoint=http://[::1]:9000").unwrap();
        assert!(open("s3://bucket/?endpoint=http://canary:x@127.0.0.1").is_err());
    }

    #[test]
    fn a_home_is_a_bucket_and_a_path_in_it() {
        let (whole, path) = parse("s3://b/shop/orders/?region=r").unwrap().split();
        assert_eq!((whole.bucket(), whole.prefix(), path.as_str()), ("b", "", "shop/orders"));
        let same = |a: &str, b: &str| parse(a).unwrap().is_same_bucket(&parse(b).unwrap());
        assert!(same("s3://b/x", "s3://b/y?region=us-east-1"));
        assert!(same("s3://b/x?endpoint=http://[::1]:1/", "s3://b/y?endpoint=http://[::1]:1"));
        assert!(!same("s3://b/x", "s3://c/x"));
        assert!(!same("s3://b/x", "s3://b/y?endpoint=http://[::1]:1"));
    }

    #[test]
    fn without_keys_no_machine_is_asked_for_a_role_that_it_cannot_have() {
        let disabled =
            |name: &str| (name == "AWS_EC2_METADATA_DISABLED").then(|| "true".to_owned());
        let nothing = |_: &str| None;
        for location in [
            Location::parse_with("s3://b/?endpoint=http://127.0.0.1:9", nothing).unwrap(),
            Location::parse_with("s3://b/", disabled).unwrap(),
        ] {
            let error = location.backend(&Options::default()).map(|_| ()).unwrap_err();
            assert_eq!(error.failure, Failure::Denied);
            assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
        }
    }

    #[test]
    fn keys_are_in_no_debug_text() {
        let location = parse("s3://bucket/").unwrap();
        let text = format!("{location:?} {:?}", location.secrets());
        assert!(!text.contains("canary"), "{text}");
        assert_eq!(location.secrets().redact("a canary-secret b"), "a *** b");
    }
}
