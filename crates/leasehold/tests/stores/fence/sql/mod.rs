//! Rows under fences, inside transactions.

mod bad_input;
mod columns;
mod levels;
pub(crate) mod place;

pub(crate) use bad_input::{a_claim_without_a_row_is_refused, bad_input};
pub(crate) use columns::{
    a_look_at_columns_needs_a_lock, a_statement_that_waited_looks_again, columns,
};
pub(crate) use levels::{
    a_look_without_a_lock_lets_a_stale_write_in, a_transaction_that_stands_still_is_ended,
    newcomers_do_not_wait_for_one_another, who_read_before_it_claimed_is_refused,
    who_waited_under_repeatable_read_begins_again, who_waits_inside_the_database_can_set_a_limit,
};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::fence::{FencedSql, Policy, access};
use leasehold::{Error, ErrorKind, Fence, Token};
use place::{Place, tell};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use sqlx_core::pool::Pool;

pub(crate) fn fence(token: u64, holder: u64) -> Fence {
    Fence {
        token: Token::new(token),
        holder,
    }
}

/// Any order of claims, reads and writes of several holders is what the rule
/// says it is. One transaction at a time; the crowd below is for several.
pub(crate) async fn interleavings<DB: Place>(pool: Pool<DB>, rounds: usize) {
    const HIGH: u64 = i64::MAX.unsigned_abs() - 1;
    let fences = [
        fence(9, 1),
        fence(10, 2),
        fence(HIGH, 3),
        fence(HIGH, u64::MAX),
        fence(HIGH + 1, 5),
    ];
    let steps = prop::collection::vec((0..fences.len(), 0..3_u8, any::<u16>()), 1..40);
    let mut runner = TestRunner::new(Config::default());
    for round in 0..rounds {
        let policy = [Policy::Ordered, Policy::Exact][round % 2];
        let level = DB::LEVELS[round % DB::LEVELS.len()];
        let steps = steps.new_tree(&mut runner).unwrap().current();
        let resource = FencedSql::new(format!("round {round}")).policy(policy);
        let mut claims = vec![None; fences.len()];
        let (mut mark, mut value) = (None, None);
        for &(who, step, number) in &steps {
            let shown = fences[who];
            let mut transaction = pool.begin_with(level).await.unwrap();
            let Some(claimed) = claims[who].as_ref().filter(|_| step > 0) else {
                let claimed = resource.claim(&mut transaction, shown).await;
                match (policy.claim(mark, shown), claimed) {
                    // One that is rolled back has not been.
                    (Ok(_), Ok(_)) if number % 5 == 0 => {
                        transaction.rollback().await.unwrap();
                        continue;
                    }
                    (Ok(raised), Ok(claimed)) => {
                        mark = Some(raised);
                        claims[who] = Some(claimed);
                    }
                    (Err(stale), Err(error)) => assert_eq!(error.kind(), ErrorKind::Stale(stale)),
                    other => panic!("{other:?} in {steps:?}"),
                }
                transaction.commit().await.unwrap();
                continue;
            };
            match (access(mark, shown), claimed.check(&mut transaction).await) {
                (Ok(()), Ok(())) if step == 1 => {
                    let look = "select number from stock";
                    let read = DB::numbers(&mut transaction, look).await.unwrap();
                    assert!(value.is_none_or(|value| read == [value]), "{steps:?}");
                }
                (Ok(()), Ok(())) => {
                    let set = format!("update stock set number = {number}");
                    DB::execute(&mut transaction, &set).await.unwrap();
                    value = Some(i64::from(number));
                }
                (Err(stale), Err(error)) => assert_eq!(error.kind(), ErrorKind::Stale(stale)),
                other => panic!("{other:?} in {steps:?}"),
            }
            transaction.commit().await.unwrap();
        }
    }
}

/// Many holders at the same time, each in several transactions: what is done is
/// done in the order of the tokens, and nothing of it is lost.
pub(crate) async fn a_crowd_acts_in_the_order_of_its_tokens<DB: Place>(
    pool: Pool<DB>,
    level: &'static str,
    holds: u64,
) {
    let next = Arc::new(AtomicU64::new(1));
    let mut tasks = tokio::task::JoinSet::new();
    let local = tokio::task::LocalSet::new();
    for _ in 0..6 {
        let (pool, next) = (pool.clone(), next.clone());
        tasks.spawn_local_on(
            async move {
                let mut refused = 0_u64;
                loop {
                    let token = next.fetch_add(1, Ordering::Relaxed);
                    if token > holds {
                        return refused;
                    }
                    let fence = fence(token, token << 32);
                    refused += u64::from(hold(&pool, level, fence).await.is_none());
                }
            },
            &local,
        );
    }
    let refused: u64 = local.run_until(tasks.join_all()).await.iter().sum();
    let mut connection = pool.acquire().await.unwrap();
    let history = "select token from history order by id";
    let tokens = DB::numbers(&mut connection, history).await.unwrap();
    assert!(tokens.is_sorted(), "{level}: {tokens:?}");
    let before = "select earlier from history order by id";
    let before = DB::numbers(&mut connection, before).await.unwrap();
    let expected: Vec<i64> = (0..).take(before.len()).collect();
    assert_eq!(before, expected, "{level}: an update is lost");
    assert!(!tokens.is_empty(), "{level}: nobody was let in");
    assert!(
        (1..holds).contains(&refused),
        "{level}: {refused} of {holds} were refused"
    );
    DB::execute(&mut connection, "delete from history")
        .await
        .unwrap();
    DB::execute(&mut connection, "delete from leasehold_fence")
        .await
        .unwrap();
}

/// A claim and two more transactions; nothing if a newer one came between.
async fn hold<DB: Place>(pool: &Pool<DB>, level: &'static str, fence: Fence) -> Option<()> {
    let resource = FencedSql::new("all");
    let claimed = loop {
        let mut transaction = pool.begin_with(level).await.unwrap();
        let claimed = resource.claim(&mut transaction, fence).await;
        let Some(claimed) = passed(claimed)? else {
            continue;
        };
        if tell(&mut transaction, fence.token.get()).await.is_ok()
            && transaction.commit().await.is_ok()
        {
            break claimed;
        }
    };
    for _ in 0..2 {
        loop {
            let mut transaction = pool.begin_with(level).await.unwrap();
            if passed(claimed.check(&mut transaction).await)?.is_some()
                && tell(&mut transaction, fence.token.get()).await.is_ok()
                && transaction.commit().await.is_ok()
            {
                break;
            }
        }
    }
    Some(())
}

/// Stale is `None`; `Some(None)` if another transaction was in the way.
fn passed<T>(done: Result<T, Error>) -> Option<Option<T>> {
    match done {
        Ok(done) => Some(Some(done)),
        Err(error) => match error.kind() {
            ErrorKind::Stale(_) => None,
            ErrorKind::Unavailable => Some(None),
            _ => panic!("{error}"),
        },
    }
}
