//! Values in Redis under fences.

use leasehold::fence::{FencedRedis, Policy, access};
use leasehold::{ErrorKind, Fence, Token};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use redis::AsyncCommands as _;

use crate::fence::resource::{KEY, connect};
use crate::pools::REDIS;

fn fence(token: u64, holder: u64) -> Fence {
    Fence {
        token: Token::new(token),
        holder,
    }
}

/// Any order of claims, reads and writes of several holders is what the rule
/// says it is, with tokens that are beyond what a script's numbers can hold.
pub(crate) async fn interleavings() {
    const HIGH: u64 = (1 << 63) + 1;
    let server = REDIS.take();
    let mut connection = connect(&server.url()).await;
    let fences = [
        fence(9, 1),
        fence(10, 2),
        fence(HIGH, 3),
        fence(HIGH, 4),
        fence(HIGH + 1, 5),
    ];
    let steps = prop::collection::vec((0..fences.len(), 0..3_u8, any::<u16>()), 1..40);
    let mut runner = TestRunner::new(Config::default());
    for round in 0..testbed::times(500, 3000) {
        let policy = [Policy::Ordered, Policy::Exact][round % 2];
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let () = connection.del(&["mark", KEY]).await.unwrap();
        let resource = FencedRedis::new("mark").policy(policy);
        let mut claims = vec![None; fences.len()];
        let (mut mark, mut value) = (None, None);
        for &(who, step, number) in &steps {
            let shown = fences[who];
            let Some(claimed) = claims[who].as_ref().filter(|_| step > 0) else {
                let claimed = resource.claim(&mut connection, shown).await;
                match (policy.claim(mark, shown), claimed) {
                    (Ok(raised), Ok(claimed)) => {
                        mark = Some(raised);
                        claims[who] = Some(claimed);
                    }
                    (Err(stale), Err(error)) => assert_eq!(error.kind(), ErrorKind::Stale(stale)),
                    other => panic!("{other:?} in {steps:?}"),
                }
                continue;
            };
            let allowed = access(mark, shown);
            let done = if step == 1 {
                let read: Result<Option<u16>, _> = claimed.get(&mut connection, KEY).await;
                read.map(|read| assert_eq!(read, value, "{steps:?}"))
            } else {
                claimed.set(&mut connection, KEY, number).await
            };
            match (allowed, done) {
                (Ok(()), Ok(())) if step == 2 => value = Some(number),
                (Ok(()), Ok(())) => {}
                (Err(stale), Err(error)) => assert_eq!(error.kind(), ErrorKind::Stale(stale)),
                other => panic!("{other:?} in {steps:?}"),
            }
        }
    }
}

/// A script sees only its own keys and arguments, and says what it says.
pub(crate) async fn scripts() {
    let server = REDIS.take();
    let mut connection = connect(&server.url()).await;
    let stock = FencedRedis::new("mark");
    let claimed = stock.claim(&mut connection, fence(7, 1)).await.unwrap();
    let script = "assert(#KEYS == 1 and #ARGV == 2)
        local left = redis.call('DECRBY', KEYS[1], ARGV[1])
        if ARGV[2] == 'tell' then return {left, ARGV[2]} end";
    let (keys, arguments) = (["bottles"], ["2", "tell"]);
    let told: (i64, String) = claimed
        .run(&mut connection, script, &keys, &arguments)
        .await
        .unwrap();
    assert_eq!(told, (-2, "tell".into()));
    let nothing: Option<i64> = claimed
        .run(&mut connection, script, &keys, &["2", "hush"])
        .await
        .unwrap();
    assert_eq!(nothing, None);
    // A newer one comes, and nothing of the older one's script is done.
    stock.claim(&mut connection, fence(8, 2)).await.unwrap();
    let refused = claimed.run::<i64>(&mut connection, script, &keys, &arguments);
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Stale(_)), "{refused}");
    let left: i64 = connection.get("bottles").await.unwrap();
    assert_eq!(left, -4);
}

pub(crate) async fn bad_input() {
    let server = REDIS.take();
    let mut connection = connect(&server.url()).await;
    let () = connection.lpush("list", 1).await.unwrap();
    let () = connection.set("text", "somebody's own").await.unwrap();
    let () = connection.set("low", "- less than any mark").await.unwrap();
    let zero = FencedRedis::new("mark");
    let zero = zero.claim(&mut connection, fence(0, 1)).await.unwrap_err();
    assert_eq!(zero.kind(), ErrorKind::Usage, "{zero}");
    for key in ["list", "text", "low"] {
        let taken = FencedRedis::new(key);
        let taken = taken.claim(&mut connection, fence(7, 1)).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::Conflict, "{taken}");
        assert!(taken.to_string().contains(key), "{taken}");
    }
    let claimed = FencedRedis::new("mark");
    let claimed = claimed.claim(&mut connection, fence(7, 1)).await.unwrap();
    for script in [
        "return nonsense(",
        "return redis.call('NO-SUCH')",
        "error('x')",
    ] {
        let nothing: [&str; 0] = [];
        let wrong = claimed.run::<()>(&mut connection, script, &nothing, &nothing);
        let wrong = wrong.await.unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::Usage, "{script}: {wrong}");
    }
    // A server that has forgotten the mark has forgotten what was read, too.
    let () = redis::cmd("FLUSHALL")
        .query_async(&mut connection)
        .await
        .unwrap();
    let forgotten = claimed.set(&mut connection, KEY, 1).await.unwrap_err();
    assert!(matches!(forgotten.kind(), ErrorKind::Stale(stale) if stale.mark.is_none()));
}
