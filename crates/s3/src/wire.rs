//! The way to the network: `object_store`'s requests go out through here, and what is no success comes back as a
//! [`Reply`]. It follows no redirects and repeats nothing: deciding is done above, once.
//!
//! **W1.** No byte of an error's body gets past here but S3's code and message, cut short.

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use http::header::RETRY_AFTER;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::Certificate;
use url::{Host, Url};

use crate::trouble::Reply;

/// As much of an error's body is looked at.
const ERROR_BYTES_MAX: usize = 16 << 10;
/// A server that asks us to wait longer is not believed.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A host that does not take a connection for so long does not take it at all.
const CONNECT: Duration = Duration::from_secs(4);
/// S3 drops idle connections after some 20 seconds; we do before.
const IDLE: Duration = Duration::from_secs(15);

/// Makes the clients through which `object_store` speaks.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) link: Link,
    pub(crate) connections_max: usize,
    /// Believed instead of those of the system.
    pub(crate) authorities: Option<Vec<Certificate>>,
}

/// What lies between the server and us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// TLS, and the system's proxies.
    Tls,
    /// Plain text, within this machine or where the user said that it is well.
    Plain,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        // A program that has chosen a provider before keeps its own: then this changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .http1_only()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(self.connections_max)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .user_agent(concat!("siltstone/", env!("CARGO_PKG_VERSION")));
        let builder = match self.link {
            Link::Tls => match &self.authorities {
                Some(only) => builder.https_only(true).tls_certs_only(only.iter().cloned()),
                None => builder.https_only(true),
            },
            // Nothing is verified there, so no certificates are read.
            Link::Plain => builder.no_proxy().tls_certs_only([]),
        };
        let client = builder.build().map_err(|error| object_store::Error::Generic {
            store: "S3",
            source: Box::new(error.without_url()),
        })?;
        Ok(HttpClient::new(Wire(client)))
    }
}

#[derive(Debug)]
struct Wire(reqwest::Client);

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.0.call(request).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let wait = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let status = answer.status();
        let body = beginning(answer.into_body()).await;
        let reply = Reply {
            status,
            code: element(&body, "Code").to_owned(),
            message: element(&body, "Message").to_owned(),
            wait: wait.map(|wait| wait.min(WAIT_MAX)),
        };
        Err(HttpError::new(HttpErrorKind::Unknown, reply))
    }
}

/// The first bytes of a body, as text; none if it cannot be read.
async fn beginning(body: HttpResponseBody) -> String {
    let (mut chunks, mut bytes) = (body.bytes_stream(), Vec::new());
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = ERROR_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if bytes.len() == ERROR_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text of the first element of that name. Not a reader of XML: what it gets wrong is only a message.
fn element<'a>(body: &'a str, name: &str) -> &'a str {
    let open = format!("<{name}>");
    let Some(at) = body.find(&open) else { return "" };
    let inside = &body[at + open.len()..];
    inside.split_once('<').map_or("", |(text, _)| text)
}

/// The address is of this very machine.
pub(crate) fn is_loopback(endpoint: &Url) -> bool {
    match endpoint.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_in_answers_and_nothing_in_others() {
        let body = "<?xml?><Error><Code>SlowDown</Code><Message>less</Message></Error>";
        assert_eq!((element(body, "Code"), element(body, "Message")), ("SlowDown", "less"));
        for body in ["", "<Code>", "<Code>cut", "<html>no</html>", "</Code><Code"] {
            assert_eq!(element(body, "Code"), "", "{body}");
        }
    }

    #[test]
    fn plain_text_stays_within_the_machine() {
        for (url, loopback) in [
            ("http://127.0.0.1:7070", true),
            ("http://[::1]:7070", true),
            ("http://localhost", true),
            ("http://localhost.evil.example", false),
            ("http://10.0.0.1", false),
            ("http://127.0.0.1.evil.example", false),
        ] {
            assert_eq!(is_loopback(&url.parse().unwrap()), loopback, "{url}");
        }
    }
}
