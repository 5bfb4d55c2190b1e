//! Resources that check fences, with real holders: one is stopped past its ttl,
//! the next one works, the first wakes up and writes.

mod crash;
mod holder;
mod object;
mod redis;
mod resource;
mod sql;

pub(crate) use sql::place;

use libtest_mimic::Trial;
use sqlx_mysql::{MySql, MySqlQueryResult};
use sqlx_postgres::{PgQueryResult, Postgres};
use sqlx_sqlite::{Sqlite, SqliteQueryResult};
use testbed::{block_on, times};

use crate::sql::{Kind, Site};
use sql::place::{Place, furnished, sqlite};

/// Works as one of the holders, if this is one.
pub(crate) fn play() -> bool {
    if crash::is_one() {
        block_on(crash::count());
        return true;
    }
    let is_one = holder::is_one();
    if is_one {
        block_on(holder::hold());
    }
    is_one
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holders();
    trials.extend([
        trial("redis::interleavings", || {
            block_on(redis::interleavings());
        }),
        trial("redis::scripts", || {
            block_on(redis::scripts());
        }),
        trial("redis::bad_input", || {
            block_on(redis::bad_input());
        }),
        trial("object::interleavings", || {
            block_on(object::interleavings());
        }),
        trial(
            "object::content_that_comes_back_lets_no_old_writer_in",
            || {
                block_on(object::content_that_comes_back_lets_no_old_writer_in());
            },
        ),
        trial(
            "object::a_late_write_of_the_same_hold_comes_to_nothing",
            || block_on(object::a_late_write_of_the_same_hold_comes_to_nothing()),
        ),
    ]);
    trials.extend(databases());
    trials
}

/// A stopped holder of each resource, and what it does where nobody checks.
fn holders() -> Vec<Trial> {
    let kinds = ["file", "redis", "postgres", "mysql", "sqlite", "object"];
    let both = |kind: &'static str| {
        let refused = format!("{kind}::a_stopped_holder_is_refused");
        let accepted = format!("{kind}::without_a_fence_it_is_not");
        let killed = format!("{kind}::whoever_is_killed_anywhere_loses_nothing_and_leaves_nothing");
        [
            trial(&killed, move || {
                let told = crash::whoever_is_killed_anywhere_loses_nothing_and_leaves_nothing(kind);
                block_on(told);
            }),
            trial(&refused, move || {
                block_on(holder::a_stopped_holder_is_refused(kind));
            }),
            trial(&accepted, move || {
                block_on(holder::without_a_fence_it_is_not(kind));
            }),
        ]
    };
    kinds.into_iter().flat_map(both).collect()
}

/// The same tests on every database, and one's own.
fn databases() -> Vec<Trial> {
    let on_postgres = |name: &str, run: fn(&Site)| {
        trial(&format!("postgres::{name}"), move || {
            run(&Kind::Postgres.shared());
        })
    };
    let on_mysql = |name: &str, run: fn(&Site)| {
        trial(&format!("mysql::{name}"), move || {
            run(&Kind::MariaDb.shared());
        })
    };
    let on_sqlite = |name: &str, run: fn(&str)| {
        trial(&format!("sqlite::{name}"), move || {
            let folder = tempfile::tempdir().unwrap();
            run(&sqlite(folder.path()));
        })
    };
    vec![
        on_postgres("interleavings", |server| {
            block_on(async {
                sql::interleavings::<Postgres>(furnished(&server.url()).await, times(200, 1000))
                    .await;
            });
        }),
        on_postgres("a_crowd_acts_in_the_order_of_its_tokens", |server| {
            block_on(crowd::<Postgres>(&server.url()));
        }),
        on_postgres("columns", |server| {
            block_on(async {
                let pool = furnished::<Postgres>(&server.url()).await;
                sql::columns(pool, |done: PgQueryResult| done.rows_affected()).await;
            });
        }),
        on_postgres("bad_input", |server| {
            block_on(sql::bad_input::<Postgres>(&server.url()));
        }),
        on_postgres("a_look_without_a_lock_lets_a_stale_write_in", |server| {
            block_on(sql::a_look_without_a_lock_lets_a_stale_write_in(server));
        }),
        on_postgres("who_waited_under_repeatable_read_begins_again", |server| {
            block_on(sql::who_waited_under_repeatable_read_begins_again(server));
        }),
        on_postgres("a_statement_that_waited_looks_again", |server| {
            block_on(sql::a_statement_that_waited_looks_again(server));
        }),
        on_postgres("newcomers_do_not_wait_for_one_another", |server| {
            block_on(newcomers::<Postgres>(&server.url()));
        }),
        on_postgres("who_waits_inside_the_database_can_set_a_limit", |server| {
            let limit = "set local lock_timeout = '1s'";
            block_on(limited::<Postgres>(&server.url(), limit));
        }),
        on_postgres("a_transaction_that_stands_still_is_ended", |server| {
            let limits = ["set idle_in_transaction_session_timeout = '300ms'"];
            block_on(ended::<Postgres>(&server.url(), &limits));
        }),
        on_postgres("a_claim_without_a_row_is_refused", |server| {
            let hide = [
                "create function nothing() returns trigger language plpgsql \
                 as 'begin return null; end'",
                "create trigger hide before insert on leasehold_fence \
                 for each row execute function nothing()",
            ];
            let url = server.url();
            block_on(sql::a_claim_without_a_row_is_refused::<Postgres>(
                &url, &hide,
            ));
        }),
        on_mysql("interleavings", |server| {
            block_on(async {
                sql::interleavings::<MySql>(furnished(&server.url()).await, times(200, 1000)).await;
            });
        }),
        on_mysql("a_crowd_acts_in_the_order_of_its_tokens", |server| {
            block_on(crowd::<MySql>(&server.url()));
        }),
        on_mysql("columns", |server| {
            block_on(async {
                let pool = furnished::<MySql>(&server.url()).await;
                sql::columns(pool, |done: MySqlQueryResult| done.rows_affected()).await;
            });
        }),
        on_mysql("bad_input", |server| {
            block_on(sql::bad_input::<MySql>(&server.url()));
        }),
        on_mysql("who_read_before_it_claimed_is_refused", |server| {
            block_on(sql::who_read_before_it_claimed_is_refused(server));
        }),
        on_mysql("newcomers_do_not_wait_for_one_another", |server| {
            block_on(newcomers::<MySql>(&server.url()));
        }),
        on_mysql("who_waits_inside_the_database_can_set_a_limit", |server| {
            let limit = "set innodb_lock_wait_timeout = 1";
            block_on(limited::<MySql>(&server.url(), limit));
        }),
        on_mysql("a_transaction_that_stands_still_is_ended", |server| {
            let limits = ["set wait_timeout = 1", "set idle_transaction_timeout = 1"];
            block_on(ended::<MySql>(&server.url(), &limits));
        }),
        on_mysql("a_look_at_columns_needs_a_lock", |server| {
            block_on(sql::a_look_at_columns_needs_a_lock(server));
        }),
        on_sqlite("interleavings", |url| {
            block_on(async {
                sql::interleavings::<Sqlite>(furnished(url).await, times(300, 2000)).await;
            });
        }),
        on_sqlite("a_crowd_acts_in_the_order_of_its_tokens", |url| {
            block_on(crowd::<Sqlite>(url));
        }),
        on_sqlite("columns", |url| {
            block_on(async {
                let pool = furnished::<Sqlite>(url).await;
                sql::columns(pool, |done: SqliteQueryResult| done.rows_affected()).await;
            });
        }),
        on_sqlite("bad_input", |url| {
            block_on(sql::bad_input::<Sqlite>(url));
        }),
        on_sqlite("a_claim_without_a_row_is_refused", |url| {
            let hide = ["create trigger hide before insert on leasehold_fence \
                         begin select raise(ignore); end"];
            block_on(sql::a_claim_without_a_row_is_refused::<Sqlite>(url, &hide));
        }),
        on_sqlite("who_waits_inside_the_database_can_set_a_limit", |url| {
            block_on(limited::<Sqlite>(url, "pragma busy_timeout = 100"));
        }),
    ]
}

/// A crowd in each isolation level.
async fn crowd<DB: Place>(url: &str) {
    let pool = furnished::<DB>(url).await;
    for level in DB::LEVELS {
        sql::a_crowd_acts_in_the_order_of_its_tokens(pool.clone(), level, 300).await;
    }
}

async fn newcomers<DB: Place>(url: &str) {
    sql::newcomers_do_not_wait_for_one_another(furnished::<DB>(url).await).await;
}

async fn limited<DB: Place>(url: &str, limit: &str) {
    sql::who_waits_inside_the_database_can_set_a_limit(furnished::<DB>(url).await, limit).await;
}

async fn ended<DB: Place>(url: &str, limits: &[&str]) {
    sql::a_transaction_that_stands_still_is_ended(furnished::<DB>(url).await, limits).await;
}

fn trial(name: &str, run: impl FnOnce() + Send + 'static) -> Trial {
    testbed::trial(format!("fence::{name}"), run)
}
