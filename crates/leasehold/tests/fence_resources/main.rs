//! Resources that check fences, with real holders: one is stopped past its ttl,
//! the next one works, the first wakes up and writes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crash;
mod holder;
#[path = "../server/mysql.rs"]
mod mysql_server;
mod object;
#[path = "../server/postgres.rs"]
mod postgres_server;
mod redis;
mod resource;
#[path = "../server/mod.rs"]
mod server;
mod sql;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use sqlx_mysql::{MySql, MySqlQueryResult};
use sqlx_postgres::{PgQueryResult, Postgres};
use sqlx_sqlite::{Sqlite, SqliteQueryResult};

use mysql_server::lacks_mysql;
use postgres_server::lacks_postgres;
use server::{lacks_redis, lacks_s3};
use sql::place::{Place, furnished, sqlite};

fn main() -> ExitCode {
    if crash::is_one() {
        runtime().block_on(crash::count());
        return ExitCode::SUCCESS;
    }
    if holder::is_one() {
        runtime().block_on(holder::hold());
        return ExitCode::SUCCESS;
    }
    let mut trials = holders();
    trials.extend([
        trial("redis::interleavings", lacks_redis(), || {
            runtime().block_on(redis::interleavings());
        }),
        trial("redis::scripts", lacks_redis(), || {
            runtime().block_on(redis::scripts());
        }),
        trial("redis::bad_input", lacks_redis(), || {
            runtime().block_on(redis::bad_input());
        }),
        trial("object::interleavings", lacks_s3(), || {
            runtime().block_on(object::interleavings());
        }),
        trial(
            "object::content_that_comes_back_lets_no_old_writer_in",
            lacks_s3(),
            || {
                runtime().block_on(object::content_that_comes_back_lets_no_old_writer_in());
            },
        ),
        trial(
            "object::a_late_write_of_the_same_hold_comes_to_nothing",
            lacks_s3(),
            || runtime().block_on(object::a_late_write_of_the_same_hold_comes_to_nothing()),
        ),
    ]);
    trials.extend(databases());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A stopped holder of each resource, and what it does where nobody checks.
fn holders() -> Vec<Trial> {
    let kinds = [
        ("file", None),
        ("redis", lacks_redis()),
        ("postgres", lacks_postgres()),
        ("mysql", lacks_mysql()),
        ("sqlite", None),
        ("object", lacks_s3()),
    ];
    let both = |(kind, lacks): (&'static str, Option<&'static str>)| {
        let refused = format!("{kind}::a_stopped_holder_is_refused");
        let accepted = format!("{kind}::without_a_fence_it_is_not");
        let killed = format!("{kind}::whoever_is_killed_anywhere_loses_nothing_and_leaves_nothing");
        [
            trial(&killed, lacks, move || {
                let told = crash::whoever_is_killed_anywhere_loses_nothing_and_leaves_nothing(kind);
                runtime().block_on(told);
            }),
            trial(&refused, lacks, move || {
                runtime().block_on(holder::a_stopped_holder_is_refused(kind));
            }),
            trial(&accepted, lacks, move || {
                runtime().block_on(holder::without_a_fence_it_is_not(kind));
            }),
        ]
    };
    kinds.into_iter().flat_map(both).collect()
}

/// The same tests on every database, and one's own.
fn databases() -> Vec<Trial> {
    let on_postgres = |name: &str, run: fn(&postgres_server::Postgres)| {
        trial(&format!("postgres::{name}"), lacks_postgres(), move || {
            let folder = tempfile::tempdir().unwrap();
            run(&postgres_server::Postgres::start(folder.path(), &[]));
        })
    };
    let on_mysql = |name: &str, run: fn(&mysql_server::Mysql)| {
        trial(&format!("mysql::{name}"), lacks_mysql(), move || {
            let folder = tempfile::tempdir().unwrap();
            run(&mysql_server::Mysql::start(folder.path(), &[]));
        })
    };
    let on_sqlite = |name: &str, run: fn(&str)| {
        trial(&format!("sqlite::{name}"), None, move || {
            let folder = tempfile::tempdir().unwrap();
            run(&sqlite(folder.path()));
        })
    };
    vec![
        on_postgres("interleavings", |server| {
            runtime().block_on(async {
                sql::interleavings::<Postgres>(furnished(&server.url()).await, 1000).await;
            });
        }),
        on_postgres("a_crowd_acts_in_the_order_of_its_tokens", |server| {
            runtime().block_on(crowd::<Postgres>(&server.url()));
        }),
        on_postgres("columns", |server| {
            runtime().block_on(async {
                let pool = furnished::<Postgres>(&server.url()).await;
                sql::columns(pool, |done: PgQueryResult| done.rows_affected()).await;
            });
        }),
        on_postgres("bad_input", |server| {
            runtime().block_on(sql::bad_input::<Postgres>(&server.url()));
        }),
        on_postgres("a_look_without_a_lock_lets_a_stale_write_in", |server| {
            runtime().block_on(sql::a_look_without_a_lock_lets_a_stale_write_in(server));
        }),
        on_postgres("who_waited_under_repeatable_read_begins_again", |server| {
            runtime().block_on(sql::who_waited_under_repeatable_read_begins_again(server));
        }),
        on_postgres("a_statement_that_waited_looks_again", |server| {
            runtime().block_on(sql::a_statement_that_waited_looks_again(server));
        }),
        on_postgres("newcomers_do_not_wait_for_one_another", |server| {
            runtime().block_on(newcomers::<Postgres>(&server.url()));
        }),
        on_postgres("who_waits_inside_the_database_can_set_a_limit", |server| {
            let limit = "set local lock_timeout = '1s'";
            runtime().block_on(limited::<Postgres>(&server.url(), limit));
        }),
        on_postgres("a_transaction_that_stands_still_is_ended", |server| {
            let limits = ["set idle_in_transaction_session_timeout = '300ms'"];
            runtime().block_on(ended::<Postgres>(&server.url(), &limits));
        }),
        on_postgres("a_claim_without_a_row_is_refused", |server| {
            let hide = [
                "create function nothing() returns trigger language plpgsql \
                 as 'begin return null; end'",
                "create trigger hide before insert on leasehold_fence \
                 for each row execute function nothing()",
            ];
            let url = server.url();
            runtime().block_on(sql::a_claim_without_a_row_is_refused::<Postgres>(
                &url, &hide,
            ));
        }),
        on_mysql("interleavings", |server| {
            runtime().block_on(async {
                sql::interleavings::<MySql>(furnished(&server.url()).await, 1000).await;
            });
        }),
        on_mysql("a_crowd_acts_in_the_order_of_its_tokens", |server| {
            runtime().block_on(crowd::<MySql>(&server.url()));
        }),
        on_mysql("columns", |server| {
            runtime().block_on(async {
                let pool = furnished::<MySql>(&server.url()).await;
                sql::columns(pool, |done: MySqlQueryResult| done.rows_affected()).await;
            });
        }),
        on_mysql("bad_input", |server| {
            runtime().block_on(sql::bad_input::<MySql>(&server.url()));
        }),
        on_mysql("who_read_before_it_claimed_is_refused", |server| {
            runtime().block_on(sql::who_read_before_it_claimed_is_refused(server));
        }),
        on_mysql("newcomers_do_not_wait_for_one_another", |server| {
            runtime().block_on(newcomers::<MySql>(&server.url()));
        }),
        on_mysql("who_waits_inside_the_database_can_set_a_limit", |server| {
            let limit = "set innodb_lock_wait_timeout = 1";
            runtime().block_on(limited::<MySql>(&server.url(), limit));
        }),
        on_mysql("a_transaction_that_stands_still_is_ended", |server| {
            let limits = ["set wait_timeout = 1", "set idle_transaction_timeout = 1"];
            runtime().block_on(ended::<MySql>(&server.url(), &limits));
        }),
        on_mysql("a_look_at_columns_needs_a_lock", |server| {
            runtime().block_on(sql::a_look_at_columns_needs_a_lock(server));
        }),
        on_sqlite("interleavings", |url| {
            runtime().block_on(async {
                sql::interleavings::<Sqlite>(furnished(url).await, 2000).await;
            });
        }),
        on_sqlite("a_crowd_acts_in_the_order_of_its_tokens", |url| {
            runtime().block_on(crowd::<Sqlite>(url));
        }),
        on_sqlite("columns", |url| {
            runtime().block_on(async {
                let pool = furnished::<Sqlite>(url).await;
                sql::columns(pool, |done: SqliteQueryResult| done.rows_affected()).await;
            });
        }),
        on_sqlite("bad_input", |url| {
            runtime().block_on(sql::bad_input::<Sqlite>(url));
        }),
        on_sqlite("a_claim_without_a_row_is_refused", |url| {
            let hide = ["create trigger hide before insert on leasehold_fence \
                         begin select raise(ignore); end"];
            runtime().block_on(sql::a_claim_without_a_row_is_refused::<Sqlite>(url, &hide));
        }),
        on_sqlite("who_waits_inside_the_database_can_set_a_limit", |url| {
            runtime().block_on(limited::<Sqlite>(url, "pragma busy_timeout = 100"));
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

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn trial(name: &str, lacks: Option<&str>, run: impl FnOnce() + Send + 'static) -> Trial {
    let Some(what) = lacks else {
        return Trial::test(name, move || -> Result<(), Failed> {
            run();
            Ok(())
        });
    };
    let what = what.to_owned();
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    Trial::test(name, move || Err(format!("{what} is missing").into())).with_ignored_flag(may_skip)
}
