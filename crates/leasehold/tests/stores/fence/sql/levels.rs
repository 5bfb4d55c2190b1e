//! What the lock on the mark is for, on real servers.

use std::time::Duration;

use leasehold::ErrorKind;
use leasehold::fence::FencedSql;
use sqlx_core::pool::Pool;
use sqlx_mysql::MySql;
use sqlx_postgres::{PgPool, Postgres};

use super::fence;
use super::place::{Place, add, furnished, tell};
use crate::sql::Site;
use testbed::wait_for;

const LOOK: &str = "select token from leasehold_fence where resource = 'all'";

async fn claim(pool: &PgPool, token: u64) -> leasehold::fence::ClaimedSql {
    let mut transaction = pool.begin().await.unwrap();
    let claimed = FencedSql::new("all")
        .claim(&mut transaction, fence(token, token))
        .await;
    transaction.commit().await.unwrap();
    claimed.unwrap()
}

/// Who only looks at the mark and compares writes after the next one has, in
/// every isolation level: the two transactions write different rows.
pub(crate) async fn a_look_without_a_lock_lets_a_stale_write_in(server: &Site) {
    let pool = furnished::<Postgres>(&server.url()).await;
    for (round, level) in Postgres::LEVELS[..2].iter().enumerate() {
        let (old, new) = (round as u64 * 2 + 1, round as u64 * 2 + 2);
        claim(&pool, old).await;
        let mut first = pool.begin_with(*level).await.unwrap();
        let mark = Postgres::numbers(&mut first, LOOK).await.unwrap();
        assert_eq!(mark, [i64::try_from(old).unwrap()], "it is the newest");
        let mut next = pool.begin().await.unwrap();
        let all = FencedSql::new("all");
        all.claim(&mut next, fence(new, new)).await.unwrap();
        add(&mut next, new).await.unwrap();
        next.commit().await.unwrap();
        let told = format!("insert into history (token, earlier) values ({old}, 0)");
        Postgres::execute(&mut first, &told).await.unwrap();
        first.commit().await.unwrap();
        let tokens = server.sql("select string_agg(token::text, ' ' order by id) from history");
        let disorder = format!("{new} {old}");
        assert!(tokens.ends_with(&disorder), "{level}: {tokens}");
    }
}

/// A transaction that waited for the mark under repeatable read has a picture of
/// the data from before it waited. It is not let in with it, also if the one
/// before it only checked; read committed goes on with what is there.
pub(crate) async fn who_waited_under_repeatable_read_begins_again(server: &Site) {
    let pool = furnished::<Postgres>(&server.url()).await;
    for (round, level) in Postgres::LEVELS.iter().enumerate() {
        let (old, new) = (round as u64 * 2 + 1, round as u64 * 2 + 2);
        let claimed = claim(&pool, old).await;
        let mut first = pool.begin().await.unwrap();
        claimed.check(&mut first).await.unwrap();
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move {
                let mut next = pool.begin_with(*level).await.unwrap();
                let claimed = FencedSql::new("all")
                    .claim(&mut next, fence(new, new))
                    .await;
                claimed.map(|_| ())?;
                let look = "select number from stock";
                let value = Postgres::numbers(&mut next, look).await.unwrap();
                next.commit().await.unwrap();
                Ok::<_, leasehold::Error>(value[0])
            }
        });
        tokio::task::block_in_place(|| {
            wait_for("the next one waits", || {
                let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' \
                             and datname = current_database()";
                (server.sql(waits) == "1").then_some(())
            });
        });
        Postgres::execute(&mut first, &format!("update stock set number = {old}0"))
            .await
            .unwrap();
        first.commit().await.unwrap();
        let read = waiting.await.unwrap();
        if round == 0 {
            assert_eq!(read.unwrap(), i64::try_from(old * 10).unwrap(), "{level}");
        } else {
            let error = read.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{level}: {error}");
            assert!(error.to_string().contains("begin again"), "{error}");
        }
    }
}

/// MySQL's repeatable read goes on with the picture that its first read made and
/// tells nobody. Who claims with an old one is refused; read committed is not.
pub(crate) async fn who_read_before_it_claimed_is_refused(server: &Site) {
    let pool = furnished::<MySql>(&server.url()).await;
    let all = FencedSql::new("all");
    let read = "select number from stock";
    for (round, level) in MySql::LEVELS[..2].iter().enumerate() {
        let (old, new) = (round as u64 * 2 + 1, round as u64 * 2 + 2);
        let mut early = pool.begin_with(*level).await.unwrap();
        let before = MySql::numbers(&mut early, read).await.unwrap()[0];
        let mut other = pool.begin().await.unwrap();
        all.claim(&mut other, fence(old, old)).await.unwrap();
        add(&mut other, old).await.unwrap();
        other.commit().await.unwrap();
        let claimed = all.claim(&mut early, fence(new, new)).await;
        let after = MySql::numbers(&mut early, read).await.unwrap()[0];
        if round == 0 {
            claimed.unwrap();
            assert_eq!(after, before + 1, "{level}");
        } else {
            let error = claimed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{level}: {error}");
            // Some servers say it by themselves.
            assert!(error.to_string().contains("roll back and"), "{error}");
            assert_eq!(after, before, "{level}: it would have gone on with this");
        }
        early.rollback().await.unwrap();
    }
}

/// Two that come to resources of their own for the first time pass at the same
/// time, in every isolation level.
pub(crate) async fn newcomers_do_not_wait_for_one_another<DB: Place>(pool: Pool<DB>) {
    for level in DB::LEVELS {
        let mut open = Vec::new();
        for name in ["b", "a", "c", "aa"] {
            let mut transaction = pool.begin_with(*level).await.unwrap();
            let resource = FencedSql::new(format!("{level} {name}"));
            let claim = resource.claim(&mut transaction, fence(1, 1));
            let claimed = tokio::time::timeout(Duration::from_secs(20), claim).await;
            let claimed = claimed.unwrap_or_else(|_| panic!("{level}: {name} waits"));
            claimed.unwrap();
            open.push(transaction);
        }
        for transaction in open {
            transaction.commit().await.unwrap();
        }
    }
}

/// A holder that is stopped inside its transaction keeps others waiting. Who has
/// set a limit is told, and passes when that one is gone.
pub(crate) async fn who_waits_inside_the_database_can_set_a_limit<DB: Place>(
    pool: Pool<DB>,
    limit: &str,
) {
    let all = FencedSql::new("all");
    let mut stopped = pool.begin().await.unwrap();
    all.claim(&mut stopped, fence(7, 7)).await.unwrap();
    let mut next = pool.begin().await.unwrap();
    DB::execute(&mut next, limit).await.unwrap();
    let error = all.claim(&mut next, fence(8, 8)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("begin again"), "{error}");
    next.rollback().await.unwrap();
    stopped.rollback().await.unwrap();
    let mut next = pool.begin().await.unwrap();
    all.claim(&mut next, fence(8, 8)).await.unwrap();
    next.commit().await.unwrap();
}

/// Where the server ends transactions that stand still, a holder that is stopped
/// inside one does not keep the next one out, and what it did is undone.
pub(crate) async fn a_transaction_that_stands_still_is_ended<DB: Place>(
    pool: Pool<DB>,
    limits: &[&str],
) {
    let all = FencedSql::new("all");
    for (round, limit) in limits.iter().enumerate() {
        let (old, new) = (round as u64 * 2 + 1, round as u64 * 2 + 2);
        let mut stopped = pool.begin().await.unwrap();
        DB::execute(&mut stopped, limit).await.unwrap();
        all.claim(&mut stopped, fence(old, old)).await.unwrap();
        tell(&mut stopped, old).await.unwrap();
        let mut next = pool.begin().await.unwrap();
        let claim = all.claim(&mut next, fence(new, new));
        let claimed = tokio::time::timeout(Duration::from_secs(20), claim).await;
        claimed.unwrap_or_else(|_| panic!("{limit}")).unwrap();
        next.commit().await.unwrap();
        assert!(stopped.commit().await.is_err(), "{limit}");
        let mut connection = pool.acquire().await.unwrap();
        let history = "select count(*) from history";
        let told = DB::numbers(&mut connection, history).await.unwrap();
        assert_eq!(told, [0], "{limit}");
    }
}
