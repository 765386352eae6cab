//! How connections are secured, on both sides. TLS is the rule; without it one may only talk to one's own machine, and
//! only by saying so.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig, Uri};

use crate::security::secret::Secret;

const HANDSHAKE: Duration = Duration::from_secs(5);
const CONNECT: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A connection that cannot be made or offered as asked for: what is to be put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError(String);

impl TransportError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        TransportError(message.into())
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TransportError {}

/// A certificate with its private key, and whom one believes: all as PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, the own certificate first.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Secret,
    /// The authority that must have signed the other side's certificate.
    pub authority: Vec<u8>,
}

/// How a broker's port is secured.
#[derive(Clone, Debug)]
pub enum ServerSecurity {
    /// TLS, and whoever comes must show a certificate of the authority.
    Tls(TlsFiles),
    /// None at all. Refused unless the port is on the loopback interface.
    PlaintextOnLoopback,
}

impl ServerSecurity {
    pub(super) fn tls(
        &self,
        address: SocketAddr,
    ) -> Result<Option<ServerTlsConfig>, TransportError> {
        match self {
            ServerSecurity::Tls(files) => {
                let config = ServerTlsConfig::new()
                    .identity(Identity::from_pem(&files.certificate, files.key.expose()))
                    .client_ca_root(Certificate::from_pem(&files.authority))
                    .timeout(HANDSHAKE);
                Ok(Some(config))
            }
            ServerSecurity::PlaintextOnLoopback if address.ip().is_loopback() => Ok(None),
            ServerSecurity::PlaintextOnLoopback => Err(TransportError::new(format!(
                "{address} can be reached from elsewhere, so TLS is needed; or listen on 127.0.0.1"
            ))),
        }
    }
}

/// How one connects to a broker.
#[derive(Clone, Debug)]
pub enum ClientSecurity {
    /// TLS, with a certificate of one's own.
    Tls {
        /// Certificates and the key.
        files: TlsFiles,
        /// The name that must stand in the broker's certificate.
        broker: String,
    },
    /// None at all. Refused unless the broker is on the same machine.
    PlaintextOnLoopback,
}

/// A broker elsewhere.
#[derive(Clone, Debug)]
pub struct BrokerAddress {
    /// As `https://host:port`, or `http://127.0.0.1:port` without TLS.
    pub uri: String,
    /// How to connect.
    pub security: ClientSecurity,
    /// Shown with each call, if there is one: 32 bytes at least, told as hexadecimal digits.
    pub token: Option<Secret>,
    /// Told why a connection has ended or could not be made.
    pub on_lost: Option<OnLost>,
}

/// Hears of lost connections. Called on the runtime's threads, which it must not block.
#[derive(Clone)]
pub struct OnLost(Arc<dyn Fn(&str) + Send + Sync>);

impl OnLost {
    /// One that calls `hear` with what happened, for people.
    pub fn new(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        OnLost(Arc::new(hear))
    }
}

impl fmt::Debug for OnLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnLost")
    }
}

impl BrokerAddress {
    pub(super) fn tell_lost(&self, status: &Status) {
        if let Some(OnLost(hear)) = &self.on_lost {
            hear(status.message());
        }
    }

    /// Checks all that can be checked without connecting.
    pub(super) fn endpoint(&self) -> Result<Endpoint, TransportError> {
        let uri: Uri =
            self.uri.parse().map_err(|_| TransportError::new("the broker's URI is none"))?;
        let wants_tls = matches!(self.security, ClientSecurity::Tls { .. });
        if uri.scheme_str() != Some(if wants_tls { "https" } else { "http" }) {
            return Err(TransportError::new(
                "with TLS the URI begins with https, without it with http",
            ));
        }
        if !wants_tls && !is_loopback(uri.host().unwrap_or_default()) {
            return Err(TransportError::new("a broker on another machine needs TLS"));
        }
        let endpoint = Endpoint::from(uri)
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let ClientSecurity::Tls { files, broker } = &self.security else { return Ok(endpoint) };
        let tls = ClientTlsConfig::new()
            .identity(Identity::from_pem(&files.certificate, files.key.expose()))
            .ca_certificate(Certificate::from_pem(&files.authority))
            .domain_name(broker.clone())
            .timeout(HANDSHAKE);
        // What the library says about it might repeat parts of the key.
        let unusable = |_| {
            TransportError::new("the certificates, the key or the broker's name cannot be used")
        };
        endpoint.tls_config(tls).map_err(unusable)
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(uri: &str, security: ClientSecurity) -> BrokerAddress {
        BrokerAddress { uri: uri.into(), security, token: None, on_lost: None }
    }

    #[test]
    fn without_tls_one_stays_on_the_machine() {
        for uri in
            ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "http://127.9.9.9:1"]
        {
            assert!(address(uri, ClientSecurity::PlaintextOnLoopback).endpoint().is_ok(), "{uri}");
        }
        for uri in [
            "http://10.0.0.1:1",
            "http://broker:1",
            "http://localhost.example:1",
            "http://127.0.0.1.example:1",
            "https://127.0.0.1:1",
            "http://[::2]:1",
            "127.0.0.1:1",
            "",
            "unix:/tmp/socket",
        ] {
            assert!(address(uri, ClientSecurity::PlaintextOnLoopback).endpoint().is_err(), "{uri}");
        }
        for (listens, allowed) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("192.0.2.1:1", false),
        ] {
            let tls = ServerSecurity::PlaintextOnLoopback.tls(listens.parse().unwrap());
            assert_eq!(tls.is_ok(), allowed, "{listens}");
        }
    }

    #[test]
    fn keys_are_not_printed_whatever_is_wrong_with_them() {
        let key =
            Secret::new(b"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----").unwrap();
        let files = TlsFiles { certificate: b"canary".to_vec(), key, authority: b"none".to_vec() };
        let security = ClientSecurity::Tls { files: files.clone(), broker: "broker".into() };
        let address = address("https://10.0.0.1:1", security);
        assert!(!format!("{:?}", files.key).contains("canary"));
        assert!(!format!("{:?}", address.endpoint().unwrap_err()).contains("canary"));
    }
}
