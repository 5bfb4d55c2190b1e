//! Permits: so many and no more, and every party counts alike.

use std::time::Duration;

use super::bench::{Bench, soon, tried};
use super::{Case, Needs, fair, peers, semaphore};
use crate::error::ErrorKind;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    let fair_permits: Needs = |promises| semaphore(promises).and(fair(promises));
    let permits_of_peers: Needs = |promises| peers(promises).and(semaphore(promises));
    vec![
        Case::new(&[1, 18], semaphore, as_many_hold_as_there_are_permits),
        Case::new(&[18], semaphore, a_claim_may_take_several_permits),
        Case::new(
            &[16, 18],
            fair_permits,
            a_small_claim_does_not_overtake_a_large_one,
        ),
        Case::new(
            &[18],
            semaphore,
            another_number_of_permits_is_refused_with_both_numbers,
        ),
        Case::new(&[18], semaphore, a_permit_is_given_back_once),
        Case::new(&[18], semaphore, more_permits_than_there_are_is_refused),
        Case::new(&[1, 18], permits_of_peers, processes_share_the_permits),
    ]
}

async fn as_many_hold_as_there_are_permits(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let one = a.semaphore(&name, 3).acquire().await.unwrap();
    let two = b.semaphore(&name, 3).acquire().await.unwrap();
    let three = tried(|| async { a.semaphore(&name, 3).try_acquire().await })
        .await
        .unwrap();
    assert!(
        tried(|| async { b.semaphore(&name, 3).try_acquire().await })
            .await
            .is_none()
    );
    two.release().await.unwrap();
    let four = tried(|| async { b.semaphore(&name, 3).try_acquire().await })
        .await
        .unwrap();
    for guard in [one, three, four] {
        guard.release().await.unwrap();
    }
}

async fn a_claim_may_take_several_permits(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let three = a.semaphore(&name, 4).acquire_many(3).await.unwrap();
    assert!(
        b.semaphore(&name, 4)
            .try_acquire_many(2)
            .await
            .unwrap()
            .is_none()
    );
    let one = tried(|| async { b.semaphore(&name, 4).try_acquire().await })
        .await
        .unwrap();
    three.release().await.unwrap();
    assert!(
        a.semaphore(&name, 4)
            .try_acquire_many(4)
            .await
            .unwrap()
            .is_none()
    );
    one.release().await.unwrap();
    assert!(
        a.semaphore(&name, 4)
            .try_acquire_many(4)
            .await
            .unwrap()
            .is_some()
    );
}

async fn a_small_claim_does_not_overtake_a_large_one(bench: Bench) {
    let (a, b, c) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.session(TTL).await,
    );
    let name = bench.name();
    let one = a.semaphore(&name, 2).acquire().await.unwrap();
    let permits = b.semaphore(&name, 2);
    let large = tokio::spawn(async move { permits.acquire_many(2).await });
    bench.queue_of(&name, 2).await;
    assert!(
        tried(|| async { c.semaphore(&name, 2).try_acquire().await })
            .await
            .is_none()
    );
    one.release().await.unwrap();
    drop(soon("the large one is next", large).await.unwrap().unwrap());
}

async fn another_number_of_permits_is_refused_with_both_numbers(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let guard = a.semaphore(&name, 3).acquire().await.unwrap();
    let error = b.semaphore(&name, 5).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let text = error.to_string();
    assert!(text.contains('3') && text.contains('5'), "{text}");
    let error = b.semaphore(&name, 5).try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    guard.release().await.unwrap();
    bench.queue_of(&name, 0).await;
    // Nobody uses it any more, so the number is free to change.
    drop(
        soon("it is free", b.semaphore(&name, 5).acquire())
            .await
            .unwrap(),
    );
}

async fn a_permit_is_given_back_once(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let kept = a.semaphore(&name, 2).acquire().await.unwrap();
    let broken = b.semaphore(&name, 2).acquire().await.unwrap();
    let inspector = bench.inspector();
    assert_eq!(inspector.evict(&name, "ann", "to see").await.unwrap(), 2);
    soon("it hears of it", kept.lost()).await;
    let fresh = [(); 2].map(|()| a.semaphore(&name, 2));
    let one = soon("a permit is free", fresh[0].acquire()).await.unwrap();
    let two = soon("another is free", fresh[1].acquire()).await.unwrap();
    drop((kept, broken));
    b.mutex(bench.name())
        .lock()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(
        tried(|| async { b.semaphore(&name, 2).try_acquire().await })
            .await
            .is_none()
    );
    one.release().await.unwrap();
    two.release().await.unwrap();
}

async fn more_permits_than_there_are_is_refused(bench: Bench) {
    let session = bench.session(TTL).await;
    let permits = session.semaphore(bench.name(), 2);
    for count in [0, 3] {
        let error = permits.acquire_many(count).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
}

async fn processes_share_the_permits(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(TTL).await,
        bench.name(),
    );
    let guard = session.semaphore(&name, 2).acquire().await.unwrap();
    peer.granted(&format!("acquire 2 {name}")).await;
    assert!(
        session
            .semaphore(&name, 2)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let refused = peer.ask(&format!("acquire 3 {name}")).await;
    assert!(
        refused.starts_with("error: ") && refused.contains("conflict"),
        "{refused}"
    );
    guard.release().await.unwrap();
    peer.granted(&format!("acquire 2 {name}")).await;
}
