//! Several locks at once.

use super::{ONE, inspector, lock, queue_of, session};

#[testbed::test]
async fn several_free_locks_are_taken_in_one_step() {
    let etcd = ONE.take();
    let (one, other) = (
        session(&etcd.url(), "ttl=20s").await,
        session(&etcd.url(), "ttl=20s").await,
    );
    let calls = || etcd.members[0].calls("Txn");
    // A busy machine makes a request that is sent again, but not each time.
    let mut fewest = u64::MAX;
    for _ in 0..5 {
        let before = calls();
        let guards = one.lock_all(["a", "b", "c"]).lock().await.unwrap();
        fewest = fewest.min(calls() - before);
        guards.release().await.unwrap();
    }
    assert_eq!(fewest, 1);
    let guards = one.lock_all(["a", "b", "c"]).lock().await.unwrap();
    let tokens: Vec<_> = guards.iter().map(leasehold::Guard::token).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    let revision = etcd.ctl(&["get", "b/", "--prefix", "--write-out=json"]);
    let token = format!("\"create_revision\":{}", tokens[1].get());
    assert!(revision.contains(&token), "{revision}");
    // All or none.
    let tried = other.lock_all(["c", "d"]).try_lock().await.unwrap();
    assert!(tried.is_none());
    assert_eq!(etcd.ctl(&["get", "d/", "--prefix"]), "");
    let waiting = other.lock_all(["c", "d"]);
    let waiting = tokio::spawn(async move { waiting.lock_within(crate::LONG).await });
    queue_of(&inspector(&etcd.url()).await, "c", 2).await;
    guards.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next[0].token() > tokens[2]);
    next.release().await.unwrap();
    // Locks below one of them, or a key that is none, are found one by one.
    let below = lock(&one, "a/below").await;
    let guards = other.lock_all(["a", "b"]).try_lock().await.unwrap();
    guards.expect("both are free").release().await.unwrap();
    below.release().await.unwrap();
    etcd.ctl(&["put", "b/notes", "x"]);
    let error = other.lock_all(["a", "b"]).try_lock().await.unwrap_err();
    assert!(error.to_string().contains("b/notes"), "{error}");
    // More than one transaction takes.
    let names: Vec<_> = (0..50).map(|number| format!("many/{number}")).collect();
    let guards = one.lock_all(&names).lock().await.unwrap();
    assert_eq!(guards.len(), 50);
    guards.release().await.unwrap();
}
