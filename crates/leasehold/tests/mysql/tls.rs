//! TLS: a private authority is trusted when it is named, and no other is.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold::ErrorKind;

use super::server::Mysql;
use super::tls_files::Certificates;
use super::{lock, mysql};

/// A server with certificates, and the folder that they are in.
fn secure() -> Option<(tempfile::TempDir, Certificates, tempfile::TempDir, Mysql)> {
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
    let (data, server) = mysql(&settings)?;
    server.sql(
        "create user app require ssl; create user known require x509; \
         grant all on shop.* to app, known",
    );
    Some((files, certificates, data, server))
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
    let error = leasehold::connect(url).await.expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// Refused by us, in one line that says what is wrong.
async fn is_not_trusted(url: &str) {
    let error = leasehold::connect(url).await.expect_err("it is refused");
    let text = error.to_string();
    assert!(text.contains("certificate"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_authority_that_is_named_is_trusted() {
    let Some((_files, right, _data, server)) = secure() else {
        return;
    };
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

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_ours_is_shown() {
    let Some((_files, right, _data, server)) = secure() else {
        return;
    };
    let port = server.port;
    let plain = format!(
        "mariadb://known@127.0.0.1:{port}/shop?schema=s&ssl-mode=verify-identity&ssl-ca={}",
        right.authority.display()
    );
    is_denied(&plain).await;
    works(&format!(
        "{plain}&ssl-cert={}&ssl-key={}",
        right.client.display(),
        right.client_key.display()
    ))
    .await;
}
