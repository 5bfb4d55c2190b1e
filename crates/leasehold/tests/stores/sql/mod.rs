//! Locks in the tables of a database: what happens when connections end, the server
//! restarts, refuses, or answers are lost. Each case runs on each kind of server; what only
//! one of them does is in its own folder.

/// The cases of a module: functions of the kind of server that they run on. Those of
/// `clients` are generic over the client of it.
macro_rules! cases {
    ($($case:ident),* $(; clients: $($of_client:ident),*)? $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[
            $(super::Case {
                name: concat!(module_path!(), "::", stringify!($case)),
                run: |kind| testbed::block_on($case(kind)),
            },)*
            $($(super::Case {
                name: concat!(module_path!(), "::", stringify!($of_client)),
                run: |kind| match kind {
                    Kind::Postgres => {
                        testbed::block_on($of_client::<sqlx_postgres::Postgres>(kind));
                    }
                    Kind::MariaDb | Kind::Mysql => {
                        testbed::block_on($of_client::<sqlx_mysql::MySql>(kind));
                    }
                },
            },)*)?
        ];
    };
}

mod access;
pub(crate) mod barrier;
mod client;
mod cost;
mod defaults;
mod faults;
mod fence;
mod load;
mod lossy;
mod memos;
mod server;
mod standby;
mod tls;
mod users_pool;
pub(crate) mod way;

use libtest_mimic::Trial;

pub(crate) use server::{Kind, Site};

#[derive(Clone, Copy)]
struct Case {
    /// With the path of its module before it.
    name: &'static str,
    run: fn(Kind),
}

pub(crate) fn trials() -> Vec<Trial> {
    let modules = [
        access::CASES,
        barrier::CASES,
        cost::CASES,
        defaults::CASES,
        faults::CASES,
        fence::CASES,
        load::CASES,
        lossy::CASES,
        memos::CASES,
        standby::CASES,
        tls::CASES,
        users_pool::CASES,
    ];
    let on_kind = |case: &Case, kind: Kind| {
        let (_, name) = case.name.split_once("sql::").unwrap();
        let run = case.run;
        testbed::trial(format!("sql::{kind}::{name}"), move || run(kind))
    };
    let on_each = |case: Case| Kind::ALL.map(|kind| on_kind(&case, kind));
    modules.concat().into_iter().flat_map(on_each).collect()
}
