//! Certificates that are right, and ones that are wrong in one thing each.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SerialNumber, date_time_ymd,
};

use crate::grpc::security::TlsFiles;
use crate::security::secret::Secret;

pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What a certificate is to be like.
pub(super) struct Wanted {
    pub(super) names: Vec<&'static str>,
    pub(super) common_name: &'static str,
    pub(super) years: (i32, i32),
    pub(super) usage: ExtendedKeyUsagePurpose,
    pub(super) serial: u64,
}

impl Wanted {
    pub(super) fn client(name: &'static str) -> Self {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        Wanted { names: vec![name], common_name: "c", years: (2020, 2120), usage, serial: 7 }
    }

    pub(super) fn server(name: &'static str) -> Self {
        Wanted { usage: ExtendedKeyUsagePurpose::ServerAuth, ..Wanted::client(name) }
    }

    fn params(self) -> CertificateParams {
        let names = self.names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, self.common_name);
        params.not_before = date_time_ymd(self.years.0, 1, 1);
        params.not_after = date_time_ymd(self.years.1, 1, 1);
        params.extended_key_usages = vec![self.usage];
        params.serial_number = Some(SerialNumber::from(self.serial));
        params
    }
}

impl Authority {
    /// All have the same name: only their keys differ.
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "the authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A signed certificate, for somebody who believes `believed`.
    pub(super) fn sign(&self, wanted: Wanted, believed: &Authority) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let pem = wanted.params().signed_by(&key, &self.issuer).unwrap().pem();
        files(pem, &key, believed)
    }

    /// A certificate signed by the bearer of an ordinary one, which is no authority.
    pub(super) fn sign_by_leaf(&self, wanted: Wanted) -> TlsFiles {
        let (leaf_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let leaf = Wanted::client("a.clients").params();
        let leaf_pem = leaf.signed_by(&leaf_key, &self.issuer).unwrap().pem();
        let issuer = Issuer::new(leaf, leaf_key);
        let pem = wanted.params().signed_by(&key, &issuer).unwrap().pem();
        files(pem + &leaf_pem, &key, self)
    }
}

/// One that its bearer has signed.
pub(super) fn self_signed(wanted: Wanted, believed: &Authority) -> TlsFiles {
    let key = KeyPair::generate().unwrap();
    let pem = wanted.params().self_signed(&key).unwrap().pem();
    files(pem, &key, believed)
}

fn files(certificate: String, key: &KeyPair, believed: &Authority) -> TlsFiles {
    TlsFiles {
        certificate: certificate.into_bytes(),
        key: Secret::new(key.serialize_pem().as_bytes()).unwrap(),
        authority: believed.pem.clone().into_bytes(),
    }
}
