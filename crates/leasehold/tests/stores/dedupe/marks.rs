//! Marks and effects in one transaction.

use std::time::{Duration, Instant};

use leasehold::dedupe::{Begun, DoneDatabase, DoneTable, LONGEST_RESULT, Work};
use leasehold::{ErrorKind, Session};
use sqlx_core::pool::Pool;

use crate::fence::place::{Place, connect};
use crate::pools::REDIS;

/// All of it on one database, because starting one takes long.
pub(crate) async fn all<DB: Place + DoneDatabase>(url: &str) {
    let pool = connect::<DB>(url).await;
    let session = leasehold::connect("memory:").await.unwrap();
    without_a_table_it_says_what_to_do(&pool, &session).await;
    let mut connection = pool.acquire().await.unwrap();
    let effect = "create table effect (message bigint not null)";
    DB::execute(&mut connection, effect).await.unwrap();
    // It may be there.
    for _ in 0..2 {
        DoneTable::create::<DB>(&mut connection).await.unwrap();
    }
    drop(connection);
    effect_and_mark_are_there_together_or_not_at_all(&pool, &session).await;
    of_two_transactions_one_is_refused(&pool).await;
    bad_input_is_refused(&pool, &session).await;
    marks_whose_time_is_over_are_swept(&pool, &session).await;
    whoever_began_before_the_retention_completes_nothing(&pool, &session).await;
    a_store_without_memos_will_do(&pool).await;
}

async fn begun<DB: DoneDatabase>(pool: &Pool<DB>, session: &Session, key: &str) -> Begun {
    let mut connection = pool.acquire().await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let message = session.dedupe(key);
        match message.begin_in::<DB>(&mut connection).await.unwrap() {
            // Whoever had it has not given it back yet.
            Begun::InProgress { .. } if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            begun => return begun,
        }
    }
}

async fn started<DB: DoneDatabase>(pool: &Pool<DB>, session: &Session, key: &str) -> Work {
    match begun(pool, session, key).await {
        Begun::Started(work) => work,
        other => panic!("{other:?}"),
    }
}

async fn effects<DB: Place>(pool: &Pool<DB>, message: u64) -> usize {
    let mut connection = pool.acquire().await.unwrap();
    let query = format!("select message from effect where message = {message}");
    DB::numbers(&mut connection, &query).await.unwrap().len()
}

fn effect(message: u64) -> String {
    format!("insert into effect (message) values ({message})")
}

async fn without_a_table_it_says_what_to_do<DB: Place + DoneDatabase>(
    pool: &Pool<DB>,
    session: &Session,
) {
    let mut connection = pool.acquire().await.unwrap();
    let message = session.dedupe("no table");
    let error = message.begin_in::<DB>(&mut connection).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("DoneTable::create"), "{error}");
}

async fn effect_and_mark_are_there_together_or_not_at_all<DB: Place + DoneDatabase>(
    pool: &Pool<DB>,
    session: &Session,
) {
    let key = "Ä 1 \u{1F600} 'quoted'";
    let work = started(pool, session, key).await;
    assert_eq!(work.attempt(), 1);
    let mut transaction = pool.begin().await.unwrap();
    DB::execute(&mut transaction, &effect(1)).await.unwrap();
    work.complete_in(&mut transaction, "never").await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!(effects(pool, 1).await, 0);
    drop(work);

    let work = started(pool, session, key).await;
    assert_eq!(work.attempt(), 2);
    let mut transaction = pool.begin().await.unwrap();
    work.complete_in(&mut transaction, b"a\0\xff")
        .await
        .unwrap();
    DB::execute(&mut transaction, &effect(1)).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(effects(pool, 1).await, 1);
    // Also while the lock is not given back yet, and by any store.
    let elsewhere = leasehold::connect("memory:").await.unwrap();
    for session in [session, &elsewhere] {
        let mut connection = pool.acquire().await.unwrap();
        let begun = session.dedupe(key).begin_in::<DB>(&mut connection).await;
        let Ok(Begun::Done(result)) = begun else {
            panic!("{begun:?}");
        };
        assert_eq!(result, b"a\0\xff");
    }
    work.release().await.unwrap();
    // Keys that differ in case only are two.
    started(pool, session, "ä 1 \u{1F600} 'quoted'")
        .await
        .release()
        .await
        .unwrap();
}

/// Two stores stand for a lock that was lost without its holder knowing it.
async fn of_two_transactions_one_is_refused<DB: Place + DoneDatabase>(pool: &Pool<DB>) {
    let mut works = Vec::new();
    for _ in 0..2 {
        let session = leasehold::connect("memory:").await.unwrap();
        works.push((started(pool, &session, "two").await, session));
    }
    let mut first = pool.begin().await.unwrap();
    DB::execute(&mut first, &effect(2)).await.unwrap();
    works[0].0.complete_in(&mut first, "first").await.unwrap();
    let second = async {
        let mut second = pool.begin().await.unwrap();
        // It may have to wait for the first one from here on.
        DB::execute(&mut second, &effect(2)).await.unwrap();
        let completed = works[1].0.complete_in(&mut second, "second").await;
        drop(second.rollback().await);
        completed.unwrap_err()
    };
    let commit = async {
        tokio::task::yield_now().await;
        first.commit().await.unwrap();
    };
    let (error, ()) = tokio::join!(second, commit);
    assert_eq!(error.kind(), ErrorKind::AlreadyDone, "{error}");
    assert_eq!(effects(pool, 2).await, 1);
}

async fn bad_input_is_refused<DB: Place + DoneDatabase>(pool: &Pool<DB>, session: &Session) {
    let work = started(pool, session, "bad input").await;
    let mut transaction = pool.begin().await.unwrap();
    let long = vec![b'x'; LONGEST_RESULT + 1];
    let error = work.complete_in(&mut transaction, long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    let mut savepoint = sqlx_core::acquire::Acquire::begin(&mut transaction)
        .await
        .unwrap();
    let error = work.complete_in(&mut savepoint, "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    drop(savepoint);
    let longest = vec![b'x'; LONGEST_RESULT];
    work.complete_in(&mut transaction, &longest).await.unwrap();
    transaction.commit().await.unwrap();
    drop(work);
    let Begun::Done(result) = begun(pool, session, "bad input").await else {
        panic!("it is done");
    };
    assert_eq!(result, longest);
}

async fn marks_whose_time_is_over_are_swept<DB: Place + DoneDatabase>(
    pool: &Pool<DB>,
    session: &Session,
) {
    let work = session.dedupe("kept").retention(Duration::from_secs(3600));
    let mut connection = pool.acquire().await.unwrap();
    let Ok(Begun::Started(work)) = work.begin_in::<DB>(&mut connection).await else {
        panic!("it is new");
    };
    let mut transaction = pool.begin().await.unwrap();
    work.complete_in(&mut transaction, "").await.unwrap();
    transaction.commit().await.unwrap();
    // The others' time is over.
    let age = "update leasehold_done set expires = expires - 100000 where length(result) > 0";
    DB::execute(&mut connection, age).await.unwrap();
    let left = "select count(*) from leasehold_done";
    let before = DB::numbers(&mut connection, left).await.unwrap()[0];
    assert!(before > 1, "{before}");
    let swept = DoneTable::sweep::<DB>(&mut connection).await.unwrap();
    assert_eq!(swept + 1, before.unsigned_abs());
    let after = DB::numbers(&mut connection, left).await.unwrap();
    assert_eq!(after, [1]);
    drop(started(pool, session, "bad input").await);
}

/// It might have been done by another, whose mark was swept.
async fn whoever_began_before_the_retention_completes_nothing<DB: Place + DoneDatabase>(
    pool: &Pool<DB>,
    session: &Session,
) {
    let mut connection = pool.acquire().await.unwrap();
    let message = session.dedupe("late").retention(Duration::from_secs(1));
    let Ok(Begun::Started(work)) = message.begin_in::<DB>(&mut connection).await else {
        panic!("it is new");
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let error = loop {
        let mut transaction = pool.begin().await.unwrap();
        let completed = work.complete_in(&mut transaction, "").await;
        transaction.rollback().await.unwrap();
        if let Err(error) = completed {
            break error;
        }
        assert!(Instant::now() < deadline, "it is never too late");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
}

async fn a_store_without_memos_will_do<DB: Place + DoneDatabase>(pool: &Pool<DB>) {
    let server = REDIS.take();
    let url = format!("{}?layout=plain", server.url());
    let session = leasehold::connect(&url).await.unwrap();
    let work = started(pool, &session, "plain").await;
    assert_eq!(work.attempt(), 0);
    let error = work.complete("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let mut connection = pool.acquire().await.unwrap();
    let counted = session.dedupe("counted").max_attempts(3);
    let error = counted.begin_in::<DB>(&mut connection).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    work.abandon().await.unwrap();
    session.close().await;
}
