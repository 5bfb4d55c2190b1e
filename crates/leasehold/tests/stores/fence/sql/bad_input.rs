//! What is no fence, no name, no table of ours.

use leasehold::fence::FencedSql;
use leasehold::{Error, ErrorKind, Fence};
use sqlx_core::connection::Connection as _;
use sqlx_core::pool::Pool;

use super::fence;
use super::place::{Place, connect, furnished};

async fn claim<DB: Place>(pool: &Pool<DB>, resource: &str, fence: Fence) -> Result<(), Error> {
    let mut transaction = pool.begin().await.unwrap();
    let claimed = FencedSql::new(resource)
        .claim(&mut transaction, fence)
        .await;
    transaction.commit().await.unwrap();
    claimed.map(|_| ())
}

/// Each is one line that says what is wrong, and nothing is changed.
pub(crate) async fn bad_input<DB: Place>(url: &str) {
    let pool = furnished::<DB>(url).await;
    let long = "x".repeat(256);
    for (resource, token) in [
        ("all", 0),
        ("all", 1 << 63),
        ("all", u64::MAX),
        ("", 1),
        ("a\0b", 1),
        (&long, 1),
    ] {
        let error = claim(&pool, resource, fence(token, 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    claim(&pool, &long[1..], fence(1, 1)).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();

    // A claim that was rolled back is none.
    let mut transaction = pool.begin().await.unwrap();
    let all = FencedSql::new("all");
    let claimed = all.claim(&mut transaction, fence(7, 1)).await.unwrap();
    transaction.rollback().await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    let undone = claimed.check(&mut transaction).await.unwrap_err();
    assert!(
        matches!(undone.kind(), ErrorKind::Stale(stale) if stale.mark.is_none()),
        "{undone}"
    );
    assert!(undone.to_string().contains("claim again"), "{undone}");
    transaction.rollback().await.unwrap();

    // A savepoint can be rolled back without its transaction.
    let mut transaction = pool.begin().await.unwrap();
    let mut savepoint = transaction.begin().await.unwrap();
    let inside = all.claim(&mut savepoint, fence(7, 1)).await.unwrap_err();
    assert_eq!(inside.kind(), ErrorKind::Usage, "{inside}");
    let inside = claimed.check(&mut savepoint).await.unwrap_err();
    assert_eq!(inside.kind(), ErrorKind::Usage, "{inside}");
    drop(savepoint);
    transaction.rollback().await.unwrap();

    let odd = "insert into leasehold_fence values ('odd', 1, 'somebody''s own', 0, 1)";
    DB::execute(&mut connection, odd).await.unwrap();
    let error = claim(&pool, "odd", fence(7, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");

    let mut refused = Vec::new();
    let tables = [
        "",
        "create table leasehold_fence (resource text, token bigint)",
        "create table leasehold_fence (resource varchar(255) primary key, token bigint, \
         holder varchar(16), turn bigint, layout integer check (layout = 2))",
        "create table leasehold_fence (resource varchar(255) primary key, token bigint, \
         holder varchar(16), turn bigint, layout integer); \
         insert into leasehold_fence values ('all', 1, '', 0, 2)",
    ];
    for table in tables {
        DB::execute(&mut connection, "drop table leasehold_fence")
            .await
            .unwrap();
        for statement in table.split_terminator(';') {
            DB::execute(&mut connection, statement).await.unwrap();
        }
        // A connection that knew another table would stumble over that.
        let anew = connect::<DB>(url).await;
        let error = claim(&anew, "all", fence(7, 1)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{table}: {error}");
        refused.push(error.to_string());
        if table.contains("turn") && !table.contains("check") || table.ends_with("token bigint)") {
            let mut anew = anew.acquire().await.unwrap();
            let error = FencedSql::create_table::<DB>(&mut anew).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{table}: {error}");
        }
        if table.is_empty() {
            DB::execute(&mut connection, "create table leasehold_fence (a integer)")
                .await
                .unwrap();
        }
    }
    assert!(refused[0].contains("create_table"), "{refused:?}");
    for refused in &refused[1..] {
        assert!(
            refused.contains("version") && !refused.contains('\n'),
            "{refused}"
        );
    }
}

/// A claim whose row does not come about is not granted: it would have neither
/// lock nor mark.
pub(crate) async fn a_claim_without_a_row_is_refused<DB: Place>(url: &str, hide: &[&str]) {
    let pool = furnished::<DB>(url).await;
    let mut connection = pool.acquire().await.unwrap();
    for statement in hide {
        DB::execute(&mut connection, statement).await.unwrap();
    }
    let error = claim(&pool, "all", fence(7, 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("leasehold_fence"), "{error}");
}
