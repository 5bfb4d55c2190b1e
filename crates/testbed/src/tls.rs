//! A private certificate authority, made for one test.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Files in PEM: an authority, and what it vouches for.
#[derive(Debug)]
pub struct Certificates {
    /// The authority's own certificate, which both sides trust.
    pub authority: PathBuf,
    /// For 127.0.0.1 and localhost.
    pub server: PathBuf,
    pub server_key: PathBuf,
    pub client: PathBuf,
    pub client_key: PathBuf,
}

impl Certificates {
    /// Makes a new authority and its certificates in the folder. Two calls make
    /// two authorities that do not know each other.
    pub fn make(folder: &Path) -> Self {
        let authority = authority();
        let file = |name: &str, text: String| {
            let file = folder.join(name);
            std::fs::write(&file, text).expect("the folder can be written");
            file
        };
        let (server, server_key) = vouched(
            &authority,
            "leasehold test server",
            &["127.0.0.1", "localhost"],
            ExtendedKeyUsagePurpose::ServerAuth,
        );
        let (client, client_key) = vouched(
            &authority,
            "leasehold test client",
            &[],
            ExtendedKeyUsagePurpose::ClientAuth,
        );
        Self {
            authority: file("authority.pem", authority.pem()),
            server: file("server.pem", server),
            server_key: file("server.key", server_key),
            client: file("client.pem", client),
            client_key: file("client.key", client_key),
        }
    }

    pub fn server_options(&self, asks_clients: bool) -> Vec<String> {
        let asks = if asks_clients { "yes" } else { "no" };
        let file = |path: &Path| path.to_string_lossy().into_owned();
        vec![
            "--tls-cert-file".into(),
            file(&self.server),
            "--tls-key-file".into(),
            file(&self.server_key),
            "--tls-ca-cert-file".into(),
            file(&self.authority),
            "--tls-auth-clients".into(),
            asks.into(),
        ]
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "leasehold test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, new_key()).expect("it signs itself")
}

/// A certificate that the authority signed, and its key.
fn vouched(
    authority: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    hosts: &[&str],
    purpose: ExtendedKeyUsagePurpose,
) -> (String, String) {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("the hosts are well-formed");
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = new_key();
    let certificate = params.signed_by(&key, authority).expect("it is signed");
    (certificate.pem(), key.serialize_pem())
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key is made")
}
