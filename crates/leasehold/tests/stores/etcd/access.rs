//! Users, passwords and TLS.

use leasehold::ErrorKind;

use super::{Etcd, Version, cluster, cluster_with, lock, session};
use testbed::tls::Certificates;

#[testbed::test]
async fn a_user_needs_the_right_password_and_the_right_to_the_keys() {
    let (_folder, etcd) = cluster(1);
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["user", "add", "ann:hunter2"]);
    etcd.ctl(&["role", "add", "jobs"]);
    for prefix in ["jobs/", "leasehold/"] {
        etcd.ctl(&[
            "role",
            "grant-permission",
            "jobs",
            "--prefix=true",
            "readwrite",
            prefix,
        ]);
    }
    etcd.ctl(&["user", "grant-role", "ann", "jobs"]);
    etcd.ctl(&["auth", "enable"]);
    let place = etcd.url().replace("etcd://", "");
    let refused = |user: &'static str| {
        let url = format!("etcd://{user}{place}");
        async move { leasehold::connect(&url).await.unwrap_err() }
    };
    let error = refused("ann:wrong@").await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    let error = refused("").await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("USER:PASSWORD"), "{error}");

    let ours = session(&format!("etcd://ann:hunter2@{place}"), "ttl=20s").await;
    let other = session(&format!("etcd://ann:hunter2@{place}"), "ttl=20s").await;
    let guard = lock(&ours, "jobs/nightly").await;
    let waiting = super::wait_for_lock(&other, "jobs/nightly");
    let inspector = super::inspector(&format!("etcd://ann:hunter2@{place}")).await;
    super::queue_of(&inspector, "jobs/nightly", 2).await;
    let error = ours.mutex("payroll").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

#[testbed::test]
async fn an_old_token_is_made_anew_while_waiting() {
    let (_folder, etcd) = cluster(1);
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    let url = etcd.url().replace("etcd://", "etcd://root:secret@");
    let (one, other) = (
        session(&url, "ttl=20s").await,
        session(&url, "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = super::wait_for_lock(&other, "ledger");
    super::queue_of(&super::inspector(&url).await, "ledger", 2).await;
    // Any change of users makes all tokens old.
    for change in [["add", "bob:b"].as_slice(), &["delete", "bob"]] {
        let words = [&["--user=root:secret", "user"], change].concat();
        etcd.ctl(&words);
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

#[testbed::test]
async fn a_token_that_nobody_used_for_long_is_made_anew() {
    let (_folder, etcd) = cluster_with(1, &["--auth-token-ttl=1"]);
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    let url = etcd.url().replace("etcd://", "etcd://root:secret@");
    // Nobody renews, and so nobody uses a token, while it grows old.
    let (one, other) = (session(&url, "ttl=1h").await, session(&url, "ttl=1h").await);
    let guard = lock(&one, "ledger").await;
    let waiting = super::wait_for_lock(&other, "ledger");
    super::queue_of(&super::inspector(&url).await, "ledger", 2).await;
    let before = etcd.members[0].calls("Authenticate");
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(4) {
        guard.check().unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    let after = etcd.members[0].calls("Authenticate");
    assert!(after >= before + 2, "both tokens were still good");
}

#[testbed::test]
async fn a_learner_takes_no_requests_and_others_do() {
    let (folder, etcd) = cluster(1);
    let learner = etcd.add_learner(folder.path());
    let error = leasehold::connect(&learner.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("voting members"), "{error}");
    let voter = etcd.members[0].port();
    let url = format!("{},127.0.0.1:{voter}", learner.url());
    let (one, other) = (
        session(&url, "ttl=20s").await,
        session(&url, "ttl=20s").await,
    );
    let guard = lock(&one, "ledger").await;
    let waiting = super::wait_for_lock(&other, "ledger");
    super::queue_of(&super::inspector(&url).await, "ledger", 2).await;
    guard.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}

/// A cluster of one that takes TLS only, and clients with a certificate only.
fn with_tls(folder: &std::path::Path, certificates: &Certificates) -> Etcd {
    let options = [
        format!("--cert-file={}", certificates.server.display()),
        format!("--key-file={}", certificates.server_key.display()),
        format!("--trusted-ca-file={}", certificates.authority.display()),
        "--client-cert-auth".to_owned(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Etcd::start_with(folder, Version::System, 1, &options)
}

#[testbed::test]
async fn tls_needs_the_right_certificates_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path());
    let strangers = folder.path().join("strangers");
    std::fs::create_dir(&strangers).unwrap();
    let strangers = Certificates::make(&strangers);
    let etcd = with_tls(folder.path(), &certificates);
    let url = etcd.url();
    let options = |authority: &Certificates, client: &Certificates| {
        let Certificates {
            client, client_key, ..
        } = client;
        let (ca, cert, key) = (
            authority.authority.display(),
            client.display(),
            client_key.display(),
        );
        format!("ca={ca}&cert={cert}&key={key}")
    };
    let good = session(&url, &options(&certificates, &certificates)).await;
    lock(&good, "ledger").await.release().await.unwrap();
    for wrong in [
        options(&strangers, &certificates),
        format!("ca={}", certificates.authority.display()),
    ] {
        let error = leasehold::connect(&format!("{url}?{wrong}"))
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error.kind(), ErrorKind::Config | ErrorKind::Unavailable),
            "{text}"
        );
        assert!(text.contains("ertificate"), "{text}");
    }
    let plain = url.replace("etcds://", "etcd://");
    let error = leasehold::connect(&plain).await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
    let error = leasehold::connect(&format!("{url}?ca=/nowhere.pem"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("/nowhere.pem"), "{error}");
}

#[testbed::test]
async fn what_is_not_etcd_is_told_of() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut stream in listener.incoming().take(4).flatten() {
            let mut greeting = [0; 16];
            let _ = stream.read(&mut greeting);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno");
            // Until the other side has had enough.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let error = leasehold::connect(&format!("etcd://127.0.0.1:{port}"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("is it etcd"), "{error}");
    // A port that nobody listens on.
    let error = leasehold::connect("etcd://127.0.0.1:1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}
