//! Who makes a call, as the transport shows it.

use std::fmt::Write;

use tonic::metadata::MetadataMap;
use tonic::{Request, Status};
use webpki::EndEntityCert;

use crate::security::authority::{Caller, Denied};
use crate::security::secret::Secret;

const HEADER: &str = "authorization";
const BEARER: &str = "Bearer ";

/// Only what TLS has verified, and the token as sent.
pub(super) fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let address = request.remote_addr().map(|address| address.ip().to_string());
    let mut caller = Caller { address: address.unwrap_or_default(), ..Caller::default() };
    if let Some(certificate) = request.peer_certs().as_ref().and_then(|chain| chain.first()) {
        let bad = |_| Status::unauthenticated("the certificate cannot be read");
        let certificate = EndEntityCert::try_from(certificate).map_err(bad)?;
        let names = certificate.valid_dns_names().chain(certificate.valid_uri_names());
        caller.names = names.map(str::to_owned).collect();
        caller.serial = Some(hex(certificate.serial()));
    }
    caller.token = token(request.metadata())?;
    Ok(caller)
}

fn token(metadata: &MetadataMap) -> Result<Option<Secret>, Status> {
    let mut values = metadata.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bad = || Status::unauthenticated("the token is not `Bearer` and hexadecimal digits, once");
    let digits = value.to_str().ok().and_then(|text| text.strip_prefix(BEARER));
    let bytes = digits.and_then(unhex).filter(|_| values.next().is_none());
    bytes.and_then(|bytes| Secret::new(&bytes).ok()).map(Some).ok_or_else(bad)
}

/// Adds a token to a call.
pub(super) fn show_token<T>(request: &mut Request<T>, token: Option<&Secret>) {
    let Some(token) = token else { return };
    // Digits are always a legal value; marked, so that no layer below prints it.
    if let Ok(mut value) =
        format!("{BEARER}{}", hex(token.expose())).parse::<tonic::metadata::AsciiMetadataValue>()
    {
        value.set_sensitive(true);
        request.metadata_mut().insert(HEADER, value);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Unknown => Status::unauthenticated(denied.to_string()),
            Denied::NotAllowed => Status::permission_denied(denied.to_string()),
            Denied::TooManyGuesses => Status::resource_exhausted(denied.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Result<Option<Vec<u8>>, ()> {
        let mut metadata = MetadataMap::new();
        for value in values {
            metadata.append(HEADER, value.parse().unwrap());
        }
        token(&metadata).map(|token| token.map(|token| token.expose().to_vec())).map_err(drop)
    }

    #[test]
    fn tokens_are_read_as_they_are_shown() {
        let mut request = Request::new(());
        show_token(&mut request, Some(&Secret::new(&[0, 9, 0xab, 0xff]).unwrap()));
        assert_eq!(token(request.metadata()).unwrap().unwrap().expose(), [0, 9, 0xab, 0xff]);
        assert!(!format!("{request:?}").contains("0009abff"), "sensitive");
        assert_eq!(read(&[]), Ok(None));
    }

    #[test]
    fn anything_else_is_refused() {
        for values in [
            &["Bearer abc"][..],
            &["bearer ab"],
            &["Bearer  ab"],
            &["Bearer zz"],
            &["Basic ab"],
            &["ab"],
            &["Bearer ab "],
            &["Bearer ab", "Bearer ab"],
        ] {
            assert_eq!(read(values), Err(()), "{values:?}");
        }
    }
}
