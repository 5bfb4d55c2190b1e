//! The API as its users write it, on `memory:`.

use std::time::Duration;

use leasehold::{ErrorKind, Lost, Owner, Session};

async fn session(store: &str) -> Session {
    leasehold::connect(&format!("memory:{store}?ttl=1s"))
        .await
        .expect("memory is there")
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_by_one_at_a_time_and_tokens_grow() {
    let (a, b) = (session("api-1").await, session("api-1").await);
    let first = a.mutex("x").lock().await.unwrap();
    assert!(b.mutex("x").try_lock().await.unwrap().is_none());
    let token = first.token();
    first.release().await.unwrap();
    let second = b.mutex("x").lock().await.unwrap();
    assert!(second.token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_kept_alive_for_longer_than_its_ttl() {
    let session = session("").await;
    let guard = session.mutex("x").lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_at_its_limit() {
    let (a, b) = (session("api-2").await, session("api-2").await);
    let mutex = a.mutex("x").max_hold(Duration::from_secs(5));
    let guard = mutex.lock().await.unwrap();
    assert_eq!(guard.lost().await, Lost::HoldLimit);
    // The claim is given up although the guard is still there.
    let _next = b
        .mutex("x")
        .lock_within(Duration::from_secs(1))
        .await
        .unwrap();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Lost::HoldLimit));
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_with_its_last_renewal() {
    let session = session("").await;
    let guard = session.mutex("x").max_renewals(3).lock().await.unwrap();
    assert_eq!(guard.lost().await, Lost::HoldLimit);
    // Three renewals, a third of a second apart, and then the rest of the ttl.
    let held = guard.held();
    assert!(
        held > Duration::from_millis(1500) && held < Duration::from_millis(2100),
        "{held:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_enters_again_and_another_owner_waits() {
    let session = session("").await;
    let lock = session.reentrant("x");
    let (ann, bob) = (Owner::new("ann"), Owner::new("bob"));
    let outer = lock.lock(&ann).await.unwrap();
    let inner = lock.lock(&ann).await.unwrap();
    assert_eq!(outer.token(), inner.token());
    assert!(lock.try_lock(&bob).await.unwrap().is_none());
    outer.release().await.unwrap();
    assert!(lock.try_lock(&bob).await.unwrap().is_none());
    inner.release().await.unwrap();
    assert!(lock.try_lock(&bob).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn lock_all_is_all_or_nothing() {
    let (a, b) = (session("api-3").await, session("api-3").await);
    let held = a.mutex("m").lock().await.unwrap();
    let wait = Duration::from_millis(300);
    let error = b
        .lock_all(["z", "m", "a", "m"])
        .lock_within(wait)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let names = a.inspector().names("").await.unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    held.release().await.unwrap();
    let guards = b.lock_all(["z", "m", "a", "m"]).lock().await.unwrap();
    let names: Vec<_> = guards.iter().map(|guard| guard.name()).collect();
    assert_eq!(names, ["a", "m", "z"]);
    guards.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_when_the_lock_is_lost() {
    let session = session("api-4").await;
    let guard = session.mutex("x").lock().await.unwrap();
    let breaker = session.inspector();
    let (result, _) = tokio::join!(
        guard.run(|_| std::future::pending::<()>()),
        breaker.evict("x", "ann", "stuck"),
    );
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost(Lost::Evicted));
    assert!(error.to_string().contains("by ann: stuck"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_take_turns_on_one_claim_with_growing_tokens() {
    let session = session("").await;
    let mut tasks = Vec::new();
    for _ in 0..100 {
        let mutex = session.mutex("x");
        tasks.push(tokio::spawn(async move {
            let guard = mutex.lock().await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        }));
    }
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.push(task.await.unwrap());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn closing_a_session_gives_everything_back() {
    let (a, b) = (session("api-5").await, session("api-5").await);
    let guard = a.mutex("x").lock().await.unwrap();
    let held = b.mutex("y").lock().await.unwrap();
    let mutex = a.mutex("y");
    let waiter = tokio::spawn(async move { mutex.lock().await.map(drop) });
    let look = b.inspector();
    while look.queue("y").await.unwrap().claims.len() < 2 {
        tokio::task::yield_now().await;
    }
    a.close().await;
    assert_eq!(guard.lost().await, Lost::Closed);
    assert!(b.mutex("x").try_lock().await.unwrap().is_some());
    let ended = waiter.await.unwrap().unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Closed);
    assert_eq!(look.queue("y").await.unwrap().claims.len(), 1);
    held.release().await.unwrap();
}

#[test]
fn the_blocking_api_does_the_same() {
    let session = leasehold::blocking::connect("memory:").unwrap();
    let guard = session.mutex("x").lock().unwrap();
    assert!(session.mutex("x").try_lock().unwrap().is_none());
    let token = guard.token();
    guard.release().unwrap();
    let again = session.mutex("x").lock().unwrap();
    assert!(again.token() > token);
    drop(again);
    let prices = session.rwlock("prices");
    let stamp = prices.stamp().unwrap();
    assert!(prices.validate(&stamp).unwrap());
    prices.write().unwrap().release().unwrap();
    assert!(!prices.validate(&stamp).unwrap());
    let latch = session.latch("loaded", 1);
    assert_eq!(latch.count_down_as("prices").unwrap(), 0);
    latch.wait().unwrap();
    let barrier = session.barrier("alone", 1);
    let entered = barrier.enter().unwrap();
    entered.check().unwrap();
    entered.leave().unwrap();
    session.close().unwrap();
}

#[tokio::test]
async fn the_blocking_api_refuses_to_be_called_from_async_code() {
    let error = leasehold::blocking::connect("memory:").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
}
