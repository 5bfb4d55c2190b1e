//! Servers that refuse, and what is not a server of ours at all: one clear line
//! each, and the right kind of error.

use std::io::{Read, Write};
use std::net::TcpListener;

use leasehold::{Error, ErrorKind};

use super::{ONE, ensemble, ensemble_with, lock, session};
use crate::ensemble::is_said_to_be_alone;

async fn refused(url: &str) -> Error {
    leasehold::connect(url).await.unwrap_err()
}

/// Something that answers every connection with a text and closes it.
fn impostor(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut asked = [0; 64];
            let _ = client.read(&mut asked);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    format!("zk://127.0.0.1:{port}")
}

#[testbed::test]
async fn what_is_not_zookeeper_or_too_old_is_said() {
    let error = refused(&impostor("HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("is it ZooKeeper"), "{error}");
    // A port with TLS sends an alert, or nothing.
    let error = refused(&impostor("\u{15}\u{3}\u{3}\0\u{2}\u{2}\n")).await;
    assert!(error.to_string().contains("without TLS"), "{error}");
    let error = refused(&impostor("")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("without TLS"), "{error}");
    let old = "Zookeeper version: 3.4.14-1, built on 2019\nMode: standalone\n";
    let error = refused(&impostor(old)).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("3.5 or newer"), "{error}");
}

#[testbed::test]
async fn a_chroot_must_exist() {
    let zookeeper = ONE.take();
    let error = refused(&format!("{}/nowhere", zookeeper.url())).await;
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("/nowhere"), "{error}");
    assert!(zookeeper.client().children("/nowhere").is_err());
}

#[testbed::test]
async fn a_plain_node_can_be_locked_and_a_sessions_node_cannot() {
    let zookeeper = ONE.take();
    let mut client = zookeeper.client();
    client.create("/plain", 0).unwrap();
    client.create("/passing", 1).unwrap();
    let one = session(&zookeeper.url(), "ttl=20s").await;
    lock(&one, "plain").await.release().await.unwrap();
    let error = one.mutex("passing").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("another name"), "{error}");
    let error = one.mutex("zookeeper/config").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

#[testbed::test]
async fn a_lock_of_one_user_is_closed_to_others() {
    let (_folder, zookeeper) = ensemble(1);
    let place = zookeeper.servers[0].place();
    let ann = session(&format!("zk://ann:secret@{place}"), "ttl=20s").await;
    let guard = lock(&ann, "ledger").await;
    for other in [
        format!("zk://{place}"),
        format!("zk://ann:wrong-word@{place}"),
    ] {
        let other = session(&other, "ttl=20s").await;
        for error in [
            other.mutex("ledger").lock().await.unwrap_err(),
            other.mutex("ledger").try_lock().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert!(error.to_string().contains("USER:PASSWORD"), "{error}");
            assert!(!error.to_string().contains("word@"), "{error}");
        }
    }
    guard.release().await.unwrap();
    let again = session(&format!("zk://ann:secret@{place}"), "ttl=20s").await;
    lock(&again, "ledger").await.release().await.unwrap();
}

#[testbed::test]
async fn a_server_that_is_read_only_says_so() {
    let (_folder, mut zookeeper) = ensemble_with(3, &["-Dreadonlymode.enabled=true"]);
    zookeeper.servers[1].kill();
    zookeeper.servers[2].kill();
    is_said_to_be_alone(&zookeeper, "read-only").await;
}
