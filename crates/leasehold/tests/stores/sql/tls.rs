//! TLS: a private authority is trusted when it is named, and no other is.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold::ErrorKind;
use tempfile::TempDir;
use testbed::postgres::hand_over;
use testbed::tls::Certificates;

use super::{Kind, Site};
use crate::steps::{lock, refusal};

cases! {
    only_an_authority_that_is_named_is_trusted,
    a_certificate_of_ours_is_shown,
    a_server_without_tls_is_refused_where_it_is_asked_for,
}

/// How a URL says it.
struct Words {
    mode: &'static str,
    authority: &'static str,
    certificate: &'static str,
    key: &'static str,
    /// Modes without TLS.
    in_clear: &'static [&'static str],
    /// TLS if there is any.
    preferred: &'static str,
    /// TLS with any server.
    required: &'static str,
    /// With whom the authority vouches for.
    known: &'static str,
    /// If it does so for this host.
    right: &'static str,
}

fn words(kind: Kind) -> Words {
    let postgres = Words {
        mode: "sslmode",
        authority: "sslrootcert",
        certificate: "sslcert",
        key: "sslkey",
        in_clear: &["disable", "allow"],
        preferred: "prefer",
        required: "require",
        known: "verify-ca",
        right: "verify-full",
    };
    let mysql = Words {
        mode: "ssl-mode",
        authority: "ssl-ca",
        certificate: "ssl-cert",
        key: "ssl-key",
        in_clear: &["disabled"],
        preferred: "preferred",
        required: "required",
        known: "verify-ca",
        right: "verify-identity",
    };
    kind.pick(postgres, mysql)
}

/// A server with certificates, and the folder that they are in. The user `app` comes with
/// TLS only, and `known` with a certificate too.
fn secure(kind: Kind) -> (TempDir, Certificates, Site) {
    let files = folder();
    let certificates = Certificates::make(files.path());
    if kind == Kind::Postgres {
        set_permissions(&certificates.server_key, Permissions::from_mode(0o600)).unwrap();
        hand_over(&certificates.server_key);
    }
    let setting = |key: &str, file: &Path| format!("{key}={}", file.display());
    let [authority, certificate, key, listen] = kind.pick(
        [
            "ssl_ca_file",
            "ssl_cert_file",
            "ssl_key_file",
            "listen_addresses",
        ],
        ["ssl-ca", "ssl-cert", "ssl-key", "bind-address"],
    );
    let settings = [
        setting(authority, &certificates.authority),
        setting(certificate, &certificates.server),
        setting(key, &certificates.server_key),
        // The second is none that the certificate is for.
        format!("{listen}=127.0.0.1,127.0.0.2"),
        kind.pick("ssl=on", "skip-name-resolve").into(),
    ];
    let site = kind.alone(&settings.each_ref().map(String::as_str));
    let database = &site.database;
    if kind == Kind::Postgres {
        site.sql("create role app login; create role known login");
        site.sql(&format!(
            "grant create on database {database} to app, known"
        ));
        site.admit(&[
            "hostssl all app 127.0.0.0/8 trust",
            "hostssl all known 127.0.0.0/8 trust clientcert=verify-ca",
            "host all u 127.0.0.0/8 trust",
        ]);
    } else {
        site.sql("create user app require ssl; create user known require x509");
        site.sql(&format!("grant all on {database}.* to app, known"));
    }
    (files, certificates, site)
}

/// One that the server's user can read.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder
}

async fn works(url: &str) {
    let one = leasehold::connect(url).await.unwrap();
    lock(&one, "ledger").await.release().await.unwrap();
    one.close().await;
}

/// In one line that has this in it.
async fn is_refused(url: &str, kind: ErrorKind, with: &str) {
    let (refused, text) = refusal(url).await;
    assert_eq!(refused, kind, "{url}: {text}");
    assert!(text.contains(with), "{url}: {text}");
}

async fn only_an_authority_that_is_named_is_trusted(kind: Kind) {
    let (_files, right, site) = secure(kind);
    let (others, of) = (folder(), words(kind));
    let wrong = Certificates::make(others.path());
    let url_of = |host: &str, mode: &str, authority: Option<&Path>| {
        let authority = authority.map(|file| format!("&{}={}", of.authority, file.display()));
        let place = site.url_as("app").replace("127.0.0.1", host);
        let authority = authority.unwrap_or_default();
        format!("{place}?{}={mode}{authority}&schema=s", of.mode)
    };
    let url = |mode, authority| url_of("127.0.0.1", mode, authority);
    for mode in of.in_clear {
        let why = kind.pick("no encryption", "");
        is_refused(&url(mode, None), ErrorKind::Denied, why).await;
    }
    // Neither of these checks whose certificate it is.
    for mode in [of.preferred, of.required] {
        works(&url(mode, None)).await;
    }
    for mode in [of.known, of.right] {
        works(&url(mode, Some(&right.authority))).await;
        for authority in [Some(&*wrong.authority), None] {
            let url = url(mode, authority);
            is_refused(&url, ErrorKind::Config, "certificate").await;
            let url = format!("{url}&mode=session");
            is_refused(&url, ErrorKind::Config, "certificate").await;
        }
    }
    // The right authority, and another host.
    let elsewhere = |mode| url_of("127.0.0.2", mode, Some(&right.authority));
    works(&elsewhere(of.known)).await;
    is_refused(&elsewhere(of.right), ErrorKind::Config, "certificate").await;
}

async fn a_certificate_of_ours_is_shown(kind: Kind) {
    let (files, right, site) = secure(kind);
    let (others, of) = (folder(), words(kind));
    let wrong = Certificates::make(others.path());
    let plain = format!(
        "{}?schema=s&{}={}&{}={}",
        site.url_as("known"),
        of.mode,
        of.right,
        of.authority,
        right.authority.display()
    );
    let with = |certificates: &Certificates| {
        let (certificate, key) = (&certificates.client, &certificates.client_key);
        let (certificate, key) = (certificate.display(), key.display());
        format!("{plain}&{}={certificate}&{}={key}", of.certificate, of.key)
    };
    is_refused(&plain, ErrorKind::Denied, kind.pick("certificate", "")).await;
    works(&with(&right)).await;
    is_refused(&with(&wrong), ErrorKind::Denied, of.certificate).await;
    let nowhere = Certificates {
        client: files.path().join("nowhere.pem"),
        ..right
    };
    is_refused(&with(&nowhere), ErrorKind::Config, "nowhere.pem").await;
}

async fn a_server_without_tls_is_refused_where_it_is_asked_for(kind: Kind) {
    let site = kind.alone(match kind {
        Kind::Postgres => &[],
        Kind::MariaDb => &["skip-ssl"],
        Kind::Mysql => &["tls-version="],
    });
    let of = words(kind);
    let url = |mode: &str| format!("{}?{}={mode}", site.url(), of.mode);
    for mode in [of.required, of.known, of.right] {
        is_refused(&url(mode), ErrorKind::Config, "TLS").await;
    }
    works(&url(of.preferred)).await;
}
