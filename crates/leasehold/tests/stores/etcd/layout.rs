//! What lies in the store.

use leasehold::ErrorKind;

use super::{ONE, inspector, lock, session, try_lock};

/// The key and the lease of the only key that starts so.
fn only_key(etcd: &super::Etcd, prefix: &str) -> (String, String) {
    let text = etcd.ctl(&["get", prefix, "--prefix", "--write-out=fields"]);
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(" : "));
        let found = lines.find(|(key, _)| key.trim_matches('"') == name);
        found
            .expect("etcdctl shows it")
            .1
            .trim_matches('"')
            .to_owned()
    };
    assert_eq!(text.matches("\"Key\"").count(), 1, "{text}");
    (field("Key"), field("Lease"))
}

#[testbed::test]
async fn a_mutex_lies_where_gos_client_puts_it() {
    let etcd = ONE.take();
    let session = session(&etcd.url(), "ttl=20s").await;
    let guard = lock(&session, "jobs/nightly").await;
    let (key, lease) = only_key(&etcd, "jobs/");
    let lease: i64 = lease.parse().unwrap();
    assert_eq!(key, format!("jobs/nightly/{lease:x}"));
    let revision = etcd.ctl(&["get", &key, "--write-out=json"]);
    let token = format!("\"create_revision\":{}", guard.token().get());
    assert!(revision.contains(&token), "{revision}");
    guard.release().await.unwrap();
    assert_eq!(etcd.ctl(&["get", "jobs/", "--prefix"]), "");
}

#[testbed::test]
async fn a_try_in_vain_leaves_neither_key_nor_revision() {
    let etcd = ONE.take();
    let (one, other) = (
        session(&etcd.url(), "ttl=1h").await,
        session(&etcd.url(), "ttl=1h").await,
    );
    let _guard = lock(&one, "a").await;
    let _reader = one.rwlock("b").write().await.unwrap();
    let _permit = one.semaphore("c", 2).acquire().await.unwrap();
    let _second = one.semaphore("c", 2).acquire().await.unwrap();
    let before = etcd.ctl(&["get", "a/", "--prefix", "--write-out=json"]);
    let revision = |text: &str| {
        let (_, rest) = text.split_once("\"revision\":").unwrap();
        rest.split(',').next().unwrap().to_owned()
    };
    assert!(try_lock(&other, "a").await.is_none());
    assert!(other.rwlock("b").try_read().await.unwrap().is_none());
    assert!(
        other
            .semaphore("c", 2)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let after = etcd.ctl(&["get", "a/", "--prefix", "--write-out=json"]);
    assert_eq!(revision(&before), revision(&after));
}

#[testbed::test]
async fn a_key_that_is_no_claim_is_told_of() {
    let etcd = ONE.take();
    let session = session(&etcd.url(), "ttl=20s").await;
    etcd.ctl(&["put", "a/notes", "x"]);
    for error in [
        session.mutex("a").lock().await.unwrap_err(),
        session.mutex("a").try_lock().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("a/notes"), "{error}");
    }
    // Nothing of ours stays in the way of anybody.
    super::queue_of(&inspector(&etcd.url()).await, "a", 0).await;
    etcd.ctl(&["del", "a/notes"]);
    lock(&session, "a").await.release().await.unwrap();
}

#[testbed::test]
async fn a_name_of_ours_is_refused() {
    let etcd = ONE.take();
    let session = session(&etcd.url(), "ttl=20s").await;
    let error = session.mutex("leasehold/inbox").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    let noted = lock(&session, "noted").await;
    noted.write_memo("kept beside the lock").await.unwrap();
    noted.release().await.unwrap();
    let guard = lock(&session, "leasehold").await;
    let shared = session.rwlock("other").read().await.unwrap();
    let names = inspector(&etcd.url()).await.names("").await.unwrap();
    let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["leasehold", "other"]);
    guard.release().await.unwrap();
    shared.release().await.unwrap();
}

#[testbed::test]
async fn a_memo_outlives_a_lease_that_was_revoked_under_it() {
    let etcd = ONE.take();
    let session = session(&etcd.url(), "ttl=1h").await;
    let guard = lock(&session, "ledger").await;
    let hour = std::time::Duration::from_secs(3600);
    let write = async |text: &str| {
        guard.write_memo_for(text, hour).await.unwrap();
        let (_, lease) = only_key(&etcd, "leasehold/memo/");
        format!("{:x}", lease.parse::<i64>().unwrap())
    };
    let first = write("one").await;
    // One lease serves many.
    assert_eq!(write("two").await, first);
    etcd.ctl(&["lease", "revoke", &first]);
    assert_eq!(etcd.ctl(&["get", "leasehold/memo/", "--prefix"]), "");
    // The write under it is refused, and made again under another.
    let second = write("three").await;
    assert_ne!(second, first);
    assert_eq!(write("four").await, second);
    let memo = session.memo("ledger").await.unwrap().memo.unwrap();
    assert_eq!(memo.text(), "four");
}
