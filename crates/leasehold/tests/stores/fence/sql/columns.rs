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
use sqlx_mysql::MySql;
use sqlx_postgres::Postgres;

use super::fence;
use super::place::{Place, furnished};
use crate::sql::Site;
use testbed::wait_for;

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
    let steps = prop::collection::vec((0..fences.len(), 0..3_u8, 0..30_i64), 1..40);
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..100 {
        DB::execute(&mut connection, "delete from account")
            .await
            .unwrap();
        let row = "insert into account (balance) values (100)";
        DB::execute(&mut connection, row).await.unwrap();
        let (mut kept, mut balance) = (None::<Fence>, 100);
        let steps = steps.new_tree(&mut runner).unwrap().current();
        for &(who, kind, amount) in &steps {
            let shown = fences[who];
            // A claim, a claim that works at once, or work after a claim.
            let (is_claim, works) = (kind < 2, kind > 0);
            let amount = if works { amount } else { 0 };
            let mut query = QueryBuilder::<DB>::new("update account set ");
            query.push("balance = balance - ").push_bind(amount);
            if is_claim {
                query.push(", ");
                set.push_raise(&mut query, shown).unwrap();
            }
            query.push(" where balance >= ").push_bind(amount);
            query.push(" and ");
            match is_claim {
                true => mark.push_claim(&mut query, shown).unwrap(),
                false => mark.push_access(&mut query, shown).unwrap(),
            }
            let done = query.build().execute(&mut *connection).await.unwrap();
            let look = async || query_as(LOOK).fetch_optional(&mut *connection).await;
            let passed: Result<bool> = match is_claim {
                true => mark.claimed(shown, changed(done), look).await,
                false => mark.passed(shown, changed(done), look).await,
            };
            let allowed = match is_claim {
                true => Policy::Ordered.claim(kept, shown).map(|_| ()),
                false => access(kept, shown),
            };
            let expected = allowed.map(|()| balance >= amount);
            if expected == Ok(true) {
                kept = Some(shown);
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

/// Under MySQL's repeatable read a statement is refused by what is there, and a
/// plain look shows what was there before: a stale holder would be told that its
/// own condition was not met. A look with a lock tells it.
pub(crate) async fn a_look_at_columns_needs_a_lock(server: &Site) {
    let pool = furnished::<MySql>(&server.url()).await;
    let mut other = pool.acquire().await.unwrap();
    let table = "create table account (balance bigint not null, fence_token bigint, \
                 fence_holder varchar(16))";
    MySql::execute(&mut other, table).await.unwrap();
    let row = "insert into account values (100, 7, '0000000000000007')";
    MySql::execute(&mut other, row).await.unwrap();
    let mark = FenceColumns::new("fence_token", "fence_holder").unwrap();
    let mut older = pool.begin_with(MySql::LEVELS[1]).await.unwrap();
    let _: Kept = query_as(LOOK).fetch_one(&mut *older).await.unwrap();
    let mut claim = QueryBuilder::<MySql>::new("update account set ");
    mark.push_raise(&mut claim, fence(8, 8)).unwrap();
    let done = claim.build().execute(&mut *other).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
    let mut pay = QueryBuilder::<MySql>::new("update account set balance = 0 where ");
    mark.push_access(&mut pay, fence(7, 7)).unwrap();
    let done = pay.build().execute(&mut *older).await.unwrap();
    let done = done.rows_affected();
    assert_eq!(done, 0);
    let plain = async || query_as(LOOK).fetch_optional(&mut *older).await;
    let misled = mark.passed(fence(7, 7), done, plain).await;
    assert!(!misled.unwrap(), "it looks as if the fence had passed");
    let locking = "select fence_token, fence_holder from account for update";
    let locking = async || query_as(locking).fetch_optional(&mut *older).await;
    let told = mark.passed(fence(7, 7), done, locking).await.unwrap_err();
    assert!(
        matches!(told.kind(), ErrorKind::Stale(stale) if stale.mark == Some(fence(8, 8))),
        "{told}"
    );
}

/// A statement that waited for the next holder's claim looks at the row again
/// and is refused. One that has looked before, and does not name the mark, is
/// not.
pub(crate) async fn a_statement_that_waited_looks_again(server: &Site) {
    let pool = furnished::<Postgres>(&server.url()).await;
    server.sql("create table account (balance bigint, fence_token bigint, fence_holder text)");
    server.sql("insert into account values (100, 7, '0000000000000007')");
    let mark = FenceColumns::new("fence_token", "fence_holder").unwrap();
    for (is_fenced, old, new) in [(true, 7, 8), (false, 8, 9)] {
        let looked: Kept = query_as(LOOK).fetch_one(&pool).await.unwrap();
        assert_eq!(looked.0, Some(old), "it is the newest");
        let older = fence(old.unsigned_abs(), old.unsigned_abs());
        let newer = fence(new, new);
        let mut next = pool.begin().await.unwrap();
        let mut claim = QueryBuilder::<Postgres>::new("update account set balance = 50, ");
        mark.push_raise(&mut claim, newer).unwrap();
        claim.push(" where ");
        mark.push_claim(&mut claim, newer).unwrap();
        let done = claim.build().execute(&mut *next).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move {
                let mut pay = QueryBuilder::<Postgres>::new("update account set balance = 99");
                if is_fenced {
                    pay.push(" where ");
                    mark.push_access(&mut pay, older).unwrap();
                }
                pay.build().execute(&pool).await.unwrap().rows_affected()
            }
        });
        tokio::task::block_in_place(|| {
            wait_for("the older one waits", || {
                let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' \
                             and datname = current_database()";
                (server.sql(waits) == "1").then_some(())
            });
        });
        next.commit().await.unwrap();
        let done = waiting.await.unwrap();
        let balance = server.sql("select balance from account");
        if !is_fenced {
            assert_eq!((done, &*balance), (1, "99"), "it wrote over the next one");
            continue;
        }
        assert_eq!((done, &*balance), (0, "50"));
        let look = async || query_as(LOOK).fetch_optional(&pool).await;
        let told = mark.passed(older, done, look).await.unwrap_err();
        assert!(
            matches!(told.kind(), ErrorKind::Stale(stale) if stale.mark == Some(newer)),
            "{told}"
        );
    }
}
