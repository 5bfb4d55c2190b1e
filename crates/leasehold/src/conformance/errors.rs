//! Errors say what was being done, on what and why; secrets are in none.

use std::time::Duration;

use super::bench::Bench;
use super::wire::{Call, Fault};
use super::{Case, nothing};
use crate::error::{Effect, ErrorKind};
use crate::session::connect;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            &[26],
            nothing,
            an_error_says_what_was_being_done_on_which_lock,
        ),
        Case::new(
            &[26],
            nothing,
            an_error_says_whether_the_store_may_have_done_it,
        ),
        Case::new(&[26], nothing, a_url_that_is_wrong_is_not_repeated),
        Case::new(&[26], nothing, nothing_shows_what_proves_the_ownership),
    ]
}

async fn an_error_says_what_was_being_done_on_which_lock(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let _guard = a.mutex(&name).lock().await.unwrap();
    let waited = b.mutex(&name).lock_within(super::ENOUGH).await;
    let text = waited.unwrap_err().to_string();
    assert!(text.contains(&name), "{text}");
    assert!(text.contains("timed out"), "{text}");
    let closed = b.mutex(&name);
    b.close().await;
    let error = closed.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.to_string().contains(&name), "{error}");
}

async fn an_error_says_whether_the_store_may_have_done_it(bench: Bench) {
    let (wire, session) = bench.wired(TTL).await;
    wire.cut([Call::Enqueue], Fault::LosesReply);
    let error = session.mutex(bench.name()).try_lock().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown)
    );
    wire.cut([Call::Enqueue], Fault::Refused);
    let error = session.mutex(bench.name()).try_lock().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::None)
    );
}

async fn a_url_that_is_wrong_is_not_repeated(_: Bench) {
    for url in [
        "hunter2",
        "nosuch://ann:hunter2@host/",
        "memory:?password=hunter2",
        "memory:?ttl=1s&token=hunter2",
    ] {
        let error = connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

/// Whoever knows a ticket can withdraw the claim, so no listing or log may show
/// one in full.
async fn nothing_shows_what_proves_the_ownership(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    let queue = bench.queue(&name).await;
    let id = queue.claims[0].id.0;
    let shown = format!("{guard:?} {session:?} {queue:?}");
    for secret in [format!("{id:x}"), format!("{id}")] {
        assert!(!shown.contains(&secret), "{shown}");
    }
    guard.release().await.unwrap();
}
