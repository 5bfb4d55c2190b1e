//! Objects under fences, on a server, by the client that S3 is used with.

use std::sync::Arc;

use bytes::Bytes;
use leasehold::fence::{FencedObject, Policy, access};
use leasehold::{Effect, ErrorKind};
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use crate::fence::sql::fence;
use testbed::s3::{BUCKET, S3Server};

pub(crate) fn bucket(url: &str) -> Arc<dyn ObjectStore> {
    // The client wants one, also where it is not used. There may be one already.
    _ = rustls::crypto::ring::default_provider().install_default();
    let builder = AmazonS3Builder::new()
        .with_endpoint(url)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name(BUCKET)
        .with_access_key_id("anybody")
        .with_secret_access_key("anything");
    Arc::new(builder.build().unwrap())
}

/// Any order of claims and writes of several holders is what the rule says it
/// is, by conditions that the server keeps to.
pub(crate) async fn interleavings() {
    let server = S3Server::start();
    let bucket = bucket(&server.url());
    let fences = [fence(1, 1), fence(2, 2), fence(2, 3), fence(3, 4)];
    let steps = prop::collection::vec((0..fences.len(), any::<bool>(), 0..3_u8), 1..30);
    let mut runner = TestRunner::new(Config::default());
    for round in 0..testbed::times(40, 200) {
        let policy = [Policy::Ordered, Policy::Exact][round % 2];
        let object = FencedObject::new(bucket.clone(), format!("round-{round}")).policy(policy);
        let mut claims = [const { None }; 4];
        let (mut mark, mut content) = (None, Bytes::new());
        let steps = steps.new_tree(&mut runner).unwrap().current();
        for &(who, is_claim, byte) in &steps {
            let shown = fences[who];
            if is_claim {
                match (policy.claim(mark, shown), object.claim(shown).await) {
                    (Ok(raised), Ok(claimed)) => {
                        assert_eq!(claimed.content(), &content, "{steps:?}");
                        mark = Some(raised);
                        claims[who] = Some(claimed);
                    }
                    (Err(stale), Err(error)) => assert_eq!(error.kind(), ErrorKind::Stale(stale)),
                    other => panic!("{other:?} in {steps:?}"),
                }
            } else if let Some(claimed) = &mut claims[who] {
                let new = Bytes::from(vec![byte]);
                match (access(mark, shown), claimed.put(new.clone()).await) {
                    (Ok(()), Ok(())) => content = new,
                    (Err(_), Err(error)) => {
                        assert!(matches!(error.kind(), ErrorKind::Stale(_)), "{error}");
                    }
                    other => panic!("{other:?} in {steps:?}"),
                }
            }
        }
    }
}

/// A version here is a digest of the content, and the same content has the same.
pub(crate) async fn content_that_comes_back_lets_no_old_writer_in() {
    let server = S3Server::start();
    let object = FencedObject::new(bucket(&server.url()), "value");
    let mut first = object.claim(fence(1, 1)).await.unwrap();
    first.put("a").await.unwrap();
    let mut next = object.claim(fence(2, 2)).await.unwrap();
    next.put("b").await.unwrap();
    next.put("a").await.unwrap();
    let stale = first.put("stale").await.unwrap_err();
    assert!(matches!(stale.kind(), ErrorKind::Stale(_)), "{stale}");
    next.put("c").await.unwrap();
    assert_eq!(object.claim(fence(3, 3)).await.unwrap().content(), "c");
}

/// A write that was given up may arrive late, when what it was to replace is there
/// again.
pub(crate) async fn a_late_write_of_the_same_hold_comes_to_nothing() {
    let server = S3Server::start();
    let object = FencedObject::new(bucket(&server.url()), "flag");
    let mut given_up = object.claim(fence(7, 7)).await.unwrap();
    given_up.put("idle").await.unwrap();
    let mut again = object.claim(fence(7, 7)).await.unwrap();
    assert_eq!(again.content(), "idle");
    again.put("busy").await.unwrap();
    again.put("idle").await.unwrap();
    let late = given_up.put("late").await.unwrap_err();
    // It is nobody's fault but its own: the hold is as good as before.
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    assert_eq!(late.effect(), Effect::None, "{late}");
    again.put("busy").await.unwrap();
    assert_eq!(object.claim(fence(8, 8)).await.unwrap().content(), "busy");
}
