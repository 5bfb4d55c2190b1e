//! TLS: a private authority is trusted when it is named, and no other is.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold::ErrorKind;

use super::{lock, mysql};
use testbed::mysql::Mysql;
use testbed::tls::Certificates;

/// A server with certificates, and the folder that they are in.
fn secure() -> (tempfile::TempDir, Certificates, tempfile::TempDir, Mysql) {
    let files = folder();
    let certificates = Certificates::make(files.path());
    let setting = |key: &str, file: &Path| format!("{key}={}", file.display());
    let settings = [
        setting("ssl-ca", &certificates.authority),
        setting("ssl-cert", &certificates.server),
        setting("ssl-key", &certificates.server_key),
        // The second is none that the certificate is for.
        "bind-address=127.0.0.1,127.0.0.2".into(),
    ];
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let (data, server) = mysql(&settings);
    server.sql(
        "create user app require ssl; create user known require x509; \
         grant all on shop.* to app, known",
    );
    (files, certificates, data, server)
}

/// One that the server's user can read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

async fn works(url: &str) {
    let one = leasehold::connect(url).await.unwrap();
    lock(&one, "ledger").await.release().await.unwrap();
    one.close().await;
}

async fn is_denied(url: &str) {
    is_refused(url, ErrorKind::Denied, "").await;
}

/// Refused by us.
async fn is_not_trusted(url: &str) {
    is_refused(url, ErrorKind::Config, "certificate").await;
}

/// In one line that has this in it.
async fn is_refused(url: &str, kind: ErrorKind, with: &str) {
    let error = leasehold::connect(url).await.expect_err("it is refused");
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{url}: {text}");
    assert!(text.contains(with) && !text.contains('\n'), "{url}: {text}");
}

#[testbed::test]
async fn only_an_authority_that_is_named_is_trusted() {
    let (_files, right, _data, server) = secure();
    let others = folder();
    let wrong = Certificates::make(others.path());
    let url = |host: &str, mode: &str, authority: Option<&Path>| {
        let authority =
            authority.map_or_else(String::new, |file| format!("&ssl-ca={}", file.display()));
        let port = server.port;
        format!("mariadb://app@{host}:{port}/shop?ssl-mode={mode}{authority}&schema=s")
    };
    let near = "127.0.0.1";
    is_denied(&url(near, "disabled", None)).await;
    // Neither of these looks at who it is.
    for mode in ["preferred", "required"] {
        works(&url(near, mode, None)).await;
    }
    for mode in ["verify-ca", "verify-identity"] {
        works(&url(near, mode, Some(&right.authority))).await;
        for authority in [Some(&*wrong.authority), None] {
            is_not_trusted(&url(near, mode, authority)).await;
        }
    }
    // The right authority, and another host.
    works(&url("127.0.0.2", "verify-ca", Some(&right.authority))).await;
    is_not_trusted(&url("127.0.0.2", "verify-identity", Some(&right.authority))).await;
}

#[testbed::test]
async fn a_certificate_of_ours_is_shown() {
    let (files, right, _data, server) = secure();
    let others = folder();
    let wrong = Certificates::make(others.path());
    let port = server.port;
    let plain = format!(
        "mariadb://known@127.0.0.1:{port}/shop?schema=s&ssl-mode=verify-identity&ssl-ca={}",
        right.authority.display()
    );
    let with = |certificates: &Certificates| {
        let (certificate, key) = (&certificates.client, &certificates.client_key);
        let (certificate, key) = (certificate.display(), key.display());
        format!("{plain}&ssl-cert={certificate}&ssl-key={key}")
    };
    is_denied(&plain).await;
    works(&with(&right)).await;
    is_refused(&with(&wrong), ErrorKind::Denied, "ssl-cert").await;
    let nowhere = Certificates {
        client: files.path().join("nowhere.pem"),
        ..right
    };
    is_refused(&with(&nowhere), ErrorKind::Config, "nowhere.pem").await;
}

#[testbed::test]
async fn a_server_without_tls_is_refused_where_it_is_asked_for() {
    let (_folder, server) = mysql(&["skip-ssl"]);
    for mode in ["required", "verify-ca", "verify-identity"] {
        let url = format!("{}?ssl-mode={mode}", server.url());
        is_refused(&url, ErrorKind::Config, "TLS").await;
    }
    works(&format!("{}?ssl-mode=preferred", server.url())).await;
}
