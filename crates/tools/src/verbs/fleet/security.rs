//! The flags by which connections are secured, on either side.

use std::path::PathBuf;

use clap::Args;
use siltstone_remote::{ClientSecurity, Secret, ServerSecurity, TlsFiles};

use super::read;
use crate::errors::Failure;

/// A certificate of one's own, and whom one believes; or nothing of it, within one machine.
#[derive(Args, Debug)]
pub(crate) struct SecurityArgs {
    /// Own certificate, the chain behind it (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authority that must have signed the other side's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// No TLS: on this machine only, for whoever is on it
    #[arg(long, conflicts_with = "tls_cert")]
    insecure_loopback: bool,
}

impl SecurityArgs {
    /// Without a command line: certificate, key and authority, and whether none of them may be needed.
    pub(super) fn new(files: [Option<PathBuf>; 3], insecure_loopback: bool) -> Self {
        let [tls_cert, tls_key, tls_ca] = files;
        SecurityArgs { tls_cert, tls_key, tls_ca, insecure_loopback }
    }

    /// `None` without TLS.
    fn files(&self) -> Result<Option<TlsFiles>, Failure> {
        if let (Some(certificate), Some(key), Some(authority)) =
            (&self.tls_cert, &self.tls_key, &self.tls_ca)
        {
            let secret = Secret::new(&read(key)?);
            let key = secret.map_err(|error| Failure::usage(format!("the key's file: {error}")))?;
            let (certificate, authority) = (read(certificate)?, read(authority)?);
            return Ok(Some(TlsFiles { certificate, key, authority }));
        }
        match self.insecure_loopback {
            true => Ok(None),
            false => Err(Failure::usage("no --tls-cert, --tls-key and --tls-ca")
                .detail("within one machine, --insecure-loopback does without them")),
        }
    }

    pub(super) fn of_broker(&self) -> Result<ServerSecurity, Failure> {
        let files = self.files()?;
        Ok(files.map_or(ServerSecurity::PlaintextOnLoopback, ServerSecurity::Tls))
    }

    /// `broker` is the name that must stand in the broker's certificate.
    pub(super) fn of_worker(&self, broker: &str) -> Result<ClientSecurity, Failure> {
        let files = self.files()?;
        Ok(files.map_or(ClientSecurity::PlaintextOnLoopback, |files| ClientSecurity::Tls {
            files,
            broker: broker.to_owned(),
        }))
    }
}

/// A token from a file of hexadecimal digits.
pub(super) fn token(digits: &str) -> Result<Secret, Failure> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = digits.trim().as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    });
    // The error does not repeat what may be most of a token.
    let wrong = || Failure::usage("a token has 64 hexadecimal digits at least, and nothing else");
    let bytes: Vec<u8> = pairs.collect::<Option<_>>().ok_or_else(wrong)?;
    if bytes.len() < 32 {
        return Err(wrong());
    }
    Secret::new(&bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_hexadecimal_and_long() {
        assert_eq!(token(&format!("{}\n", "0aF9".repeat(16))).unwrap().expose()[..2], [0x0a, 0xf9]);
        for wrong in ["", "0a", &"0".repeat(63), &"0g".repeat(32), &"\u{e4}".repeat(64)] {
            let error = format!("{:?}", token(wrong).unwrap_err());
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
    }
}
