//! Every kind of request is lost once, and its reply once: each time there is
//! one claim, counted once, and in the end none.

use std::time::Duration;

use futures_util::future::join_all;

use super::way::{Fault, Way};
use super::{ONE, lock, session};
use crate::LONG;
use crate::steps::try_lock;

/// The server's numbers for requests.
const CREATE: i32 = 15;
const CONTAINER: i32 = 19;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const PING: i32 = 11;
const CLOSE: i32 = -11;

/// Cases at the same time. They mostly wait.
const AT_ONCE: usize = 7;

/// Two sessions contend for a lock, and a try is in vain; over one way that
/// loses something.
async fn contend(way: &Way, kind: i32, passes: usize, fault: Fault) {
    let case = format!("{fault:?} of {kind} after {passes}");
    let url = format!("zk://127.0.0.1:{}", way.port);
    let (one, other) = (
        session(&url, "ttl=20s").await,
        session(&url, "ttl=20s").await,
    );
    way.arm(kind, passes, fault);
    let name = format!("lossy/{kind}/{passes}/{fault:?}");
    let guard = one.mutex(&name).lock_within(LONG).await;
    let guard = guard.unwrap_or_else(|error| panic!("{case}: {error}"));
    let token = guard.token();
    let waits = other.mutex(&name);
    let waiting = tokio::spawn(async move { waits.lock_within(LONG).await });
    let tried = session(&url, "ttl=20s").await;
    let busy = try_lock(&tried, &name).await;
    assert!(busy.is_none(), "{case}: the lock is held");
    guard
        .check()
        .unwrap_or_else(|lost| panic!("{case}: {lost}"));
    // A renewal and its pings pass by.
    tokio::time::sleep(Duration::from_millis(900)).await;
    drop(guard);
    let next = waiting.await.unwrap();
    let next = next.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(next.token() > token, "{case}");
    let _ = next.release().await;
    let again = one.mutex(&name).lock_within(LONG).await;
    again
        .unwrap_or_else(|error| panic!("{case}: {error}"))
        .release()
        .await
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    for session in [one, other, tried] {
        session.close().await;
    }
    if kind != PING {
        assert!(way.has_fired(), "{case}: {:?}", way.log());
    }
}

#[testbed::test]
async fn every_kind_of_request_and_reply_is_lost_once() {
    let zookeeper = ONE.take();
    let port = zookeeper.servers[0].port;
    let kinds = [
        (CREATE, 2),
        (CONTAINER, 1),
        (DELETE, 2),
        (EXISTS, 2),
        (CHILDREN, 3),
        (SYNC, 1),
        (PING, 1),
        (CLOSE, 1),
    ];
    let faults = [Fault::RequestLost, Fault::ReplyLost];
    let cases = kinds.iter().flat_map(|&(kind, times)| {
        let passes = (0..times).flat_map(|passes| faults.map(|fault| (passes, fault)));
        passes.map(move |(passes, fault)| (kind, passes, fault))
    });
    let cases: Vec<_> = cases.collect();
    for some in cases.chunks(AT_ONCE) {
        let contending = some.iter().map(async |&(kind, passes, fault)| {
            contend(&Way::to(port), kind, passes, fault).await;
        });
        join_all(contending).await;
    }
    let mut client = zookeeper.client();
    // What is held is seen there.
    let one = session(&zookeeper.url(), "ttl=20s").await;
    let guard = lock(&one, "lossy/held").await;
    assert_eq!(client.children("/lossy/held").unwrap().len(), 1);
    drop(guard);
    for (kind, passes, fault) in cases {
        let path = format!("/lossy/{kind}/{passes}/{fault:?}");
        let left = client.children(&path).unwrap_or_default();
        assert!(left.is_empty(), "{path}: {left:?}");
    }
}
