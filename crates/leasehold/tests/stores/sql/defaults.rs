//! What a server sets for every transaction does not reach ours.

use super::Kind;
use crate::steps::{heard, lock, wait_for_lock};

cases! {
    time_limits_of_the_server_do_not_reach_us,
}

async fn time_limits_of_the_server_do_not_reach_us(kind: Kind) {
    let site = kind.alone(match kind {
        Kind::Postgres => &[
            "statement_timeout=1ms",
            "lock_timeout=1ms",
            "idle_in_transaction_session_timeout=1ms",
        ],
        Kind::MariaDb => &[
            "innodb-lock-wait-timeout=0",
            "lock-wait-timeout=1",
            "idle-transaction-timeout=1",
            "max-statement-time=0.5",
        ],
        Kind::Mysql => &[
            "innodb-lock-wait-timeout=1",
            "lock-wait-timeout=1",
            "max-execution-time=1",
        ],
    });
    let [one, other] = site.sessions("ttl=20s").await;
    for _ in 0..20 {
        let guard = lock(&one, "ledger").await;
        let waiting = wait_for_lock(&other, "ledger");
        guard.release().await.unwrap();
        heard(waiting).await.release().await.unwrap();
    }
}
