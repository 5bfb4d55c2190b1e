//! TLS: a private authority is trusted when it is named, and no other is.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leasehold::ErrorKind;

use super::{lock, postgres};
use testbed::postgres::{Postgres, hand_over};
use testbed::tls::Certificates;

/// `app` comes with TLS only, and `known` with a certificate too.
const RULES: &str = "hostssl all app 127.0.0.0/8 trust\n\
     hostssl all known 127.0.0.0/8 trust clientcert=verify-ca\n\
     host all u 127.0.0.0/8 trust\n";

/// A server with certificates, and the folder that they are in.
fn secure() -> (tempfile::TempDir, Certificates, tempfile::TempDir, Postgres) {
    let files = folder();
    let certificates = Certificates::make(files.path());
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&certificates.server_key, private).unwrap();
    hand_over(&certificates.server_key);
    let setting = |key: &str, file: &Path| format!("{key}={}", file.display());
    let settings = [
        "ssl=on".into(),
        setting("ssl_ca_file", &certificates.authority),
        setting("ssl_cert_file", &certificates.server),
        setting("ssl_key_file", &certificates.server_key),
        // The second is none that the certificate is for.
        "listen_addresses=127.0.0.1,127.0.0.2".into(),
    ];
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let (data, server) = postgres(&settings);
    server.sql(
        "create role app login; create role known login; \
         grant create on database postgres to app, known",
    );
    std::fs::write(server.data().join("pg_hba.conf"), RULES).unwrap();
    server.sql("select pg_reload_conf()");
    testbed::wait_for("the new rules", || {
        let listed = server.sql("select count(*) from pg_hba_file_rules");
        (listed == "3").then_some(())
    });
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
        let authority = authority.map_or_else(String::new, |file| {
            format!("&sslrootcert={}", file.display())
        });
        let port = server.port;
        format!("postgres://app@{host}:{port}/postgres?sslmode={mode}{authority}&schema=s")
    };
    let near = "127.0.0.1";
    // Neither of these asks for TLS.
    for mode in ["disable", "allow"] {
        is_refused(&url(near, mode, None), ErrorKind::Denied, "no encryption").await;
    }
    // Neither of these looks at who it is.
    for mode in ["prefer", "require"] {
        works(&url(near, mode, None)).await;
    }
    for mode in ["verify-ca", "verify-full"] {
        works(&url(near, mode, Some(&right.authority))).await;
        for authority in [Some(&*wrong.authority), None] {
            let url = url(near, mode, authority);
            is_refused(&url, ErrorKind::Config, "certificate").await;
            let url = format!("{url}&mode=session");
            is_refused(&url, ErrorKind::Config, "certificate").await;
        }
    }
    // The right authority, and another host.
    works(&url("127.0.0.2", "verify-ca", Some(&right.authority))).await;
    let url = url("127.0.0.2", "verify-full", Some(&right.authority));
    is_refused(&url, ErrorKind::Config, "certificate").await;
}

#[testbed::test]
async fn a_certificate_of_ours_is_shown() {
    let (files, right, _data, server) = secure();
    let others = folder();
    let wrong = Certificates::make(others.path());
    let port = server.port;
    let plain = format!(
        "postgres://known@127.0.0.1:{port}/postgres?schema=s&sslmode=verify-full&sslrootcert={}",
        right.authority.display()
    );
    let with = |certificates: &Certificates| {
        let (certificate, key) = (&certificates.client, &certificates.client_key);
        let (certificate, key) = (certificate.display(), key.display());
        format!("{plain}&sslcert={certificate}&sslkey={key}")
    };
    is_refused(&plain, ErrorKind::Denied, "certificate").await;
    works(&with(&right)).await;
    is_refused(&with(&wrong), ErrorKind::Denied, "sslcert").await;
    let nowhere = Certificates {
        client: files.path().join("nowhere.pem"),
        ..right
    };
    is_refused(&with(&nowhere), ErrorKind::Config, "nowhere.pem").await;
}

#[testbed::test]
async fn a_server_without_tls_is_refused_where_it_is_asked_for() {
    let (_folder, server) = postgres(&[]);
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = format!("{}?sslmode={mode}", server.url());
        is_refused(&url, ErrorKind::Config, "TLS").await;
    }
    works(&format!("{}?sslmode=prefer", server.url())).await;
}
