//! A pool of the user's own, whose connections others use too.

use testbed::wait_for;

use super::Kind;
use super::client::{Client, pool};
use crate::steps::{LONG, lock};

cases! {
    ; clients:
    a_pool_of_which_all_is_in_use_costs_no_lock,
    a_transaction_that_was_left_open_takes_no_lock_into_it,
}

const CLAIMS: &str = "select count(*) from leasehold.claim where ticket is not null";

async fn a_pool_of_which_all_is_in_use_costs_no_lock<DB: Client>(kind: Kind) {
    let site = kind.shared();
    let pool = pool::<DB>(&site, 2).await;
    let one = DB::connect_with(pool.clone(), "ttl=20s").await.unwrap();
    let guard = lock(&one, "ledger").await;
    let _all = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    let end = site.sql("select max(expires) from leasehold.session");
    wait_for("a renewal", || {
        let later = format!("select count(*) from leasehold.session where expires > '{end}'");
        (site.sql(&later) == "1").then_some(())
    });
    guard.check().unwrap();
    let released = tokio::time::timeout(LONG / 2, guard.release()).await;
    released.expect("it needs none of them").unwrap();
    assert_eq!(site.sql(CLAIMS), "0");
}

async fn a_transaction_that_was_left_open_takes_no_lock_into_it<DB: Client>(kind: Kind) {
    let site = kind.shared();
    let pool = pool::<DB>(&site, 1).await;
    let one = DB::connect_with(pool.clone(), "ttl=20s").await.unwrap();
    let left_open: &[&str] = kind.pick(
        &["begin", "begin; select 1", "begin; select 1 / 0"],
        &[
            "begin",
            "begin; select * from leasehold_claim",
            "set autocommit = 0; select * from leasehold_claim",
            "start transaction read only; select * from leasehold_claim",
        ],
    );
    for left in left_open {
        let mut connection = pool.acquire().await.unwrap();
        let done = DB::execute(&mut connection, left).await;
        assert_eq!(done.is_err(), left.contains('/'));
        drop(connection);
        let guard = lock(&one, "ledger").await;
        // Others see it: it is committed.
        assert_eq!(site.sql(CLAIMS), "1", "{left}");
        guard.release().await.unwrap();
    }
}
