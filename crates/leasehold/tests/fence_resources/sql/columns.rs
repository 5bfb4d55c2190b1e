//! The mark in columns of the user's own table.

use leasehold::fence::{FenceColumns, Policy, access};
use leasehold::{ErrorKind, Fence, Result};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use sqlx_core::arguments::IntoArguments;
use sqlx_core::encode::Encode;
use sqlx_core::executor::Executor;
use sqlx_core::from_row::FromRow;
use sqlx_core::pool::Pool;
use sqlx_core::query_as::query_as;
use sqlx_core::query_builder::QueryBuilder;
use sqlx_core::types::Type;

use super::fence;
use super::place::Place;

type Kept = (Option<i64>, Option<String>);

const LOOK: &str = "select fence_token, fence_holder from account";

/// Any order of claims and writes is what the rule says it is, and a condition
/// of the user's own is not taken for a stale fence.
pub(crate) async fn columns<DB: Place>(pool: Pool<DB>, changed: fn(DB::QueryResult) -> u64)
where
    i64: for<'q> Encode<'q, DB> + Type<DB>,
    String: for<'q> Encode<'q, DB> + Type<DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    for<'r> Kept: FromRow<'r, DB::Row>,
{
    let mut connection = pool.acquire().await.unwrap();
    let table = "create table account (balance bigint not null, fence_token bigint, \
                 fence_holder varchar(16))";
    DB::execute(&mut connection, table).await.unwrap();
    let mark = FenceColumns::new("fence_token", "account.fence_holder").unwrap();
    let set = FenceColumns::new("fence_token", "fence_holder").unwrap();
    let mut wrong = QueryBuilder::<DB>::new("");
    for token in [0, 1 << 63] {
        let refused = mark.push_claim(&mut wrong, fence(token, 1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Usage, "{refused}");
    }
    let fences = [fence(1, 1), fence(2, 2), fence(2, 3), fence(3, u64::MAX)];
    let steps = prop::collection::vec((0..fences.len(), any::<bool>(), 0..10_i64), 1..40);
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..100 {
        DB::execute(&mut connection, "delete from account")
            .await
            .unwrap();
        let row = "insert into account (balance) values (100)";
        DB::execute(&mut connection, row).await.unwrap();
        let (mut kept, mut balance) = (None::<Fence>, 100);
        let steps = steps.new_tree(&mut runner).unwrap().current();
        for &(who, is_claim, amount) in &steps {
            let shown = fences[who];
            let mut query = QueryBuilder::<DB>::new("update account set ");
            if is_claim {
                set.push_raise(&mut query, shown).unwrap();
                query.push(" where ");
                mark.push_claim(&mut query, shown).unwrap();
            } else {
                query.push("balance = balance - ").push_bind(amount);
                query
                    .push(" where balance >= ")
                    .push_bind(amount)
                    .push(" and ");
                mark.push_access(&mut query, shown).unwrap();
            }
            let done = query.build().execute(&mut *connection).await.unwrap();
            let look = async || query_as(LOOK).fetch_optional(&mut *connection).await;
            let passed: Result<bool> = mark.passed(shown, changed(done), look).await;
            let expected = match is_claim {
                true => Policy::Ordered.claim(kept, shown).map(|raised| {
                    kept = Some(raised);
                    true
                }),
                false => access(kept, shown).map(|()| balance >= amount),
            };
            if expected == Ok(true) && !is_claim {
                balance -= amount;
            }
            let passed = passed.map_err(|error| error.kind());
            assert_eq!(passed, expected.map_err(ErrorKind::Stale), "{steps:?}");
        }
        let left = DB::numbers(&mut connection, "select balance from account").await;
        assert_eq!(left.unwrap(), [balance], "{steps:?}");
    }
    DB::execute(&mut connection, "drop table account")
        .await
        .unwrap();
}
