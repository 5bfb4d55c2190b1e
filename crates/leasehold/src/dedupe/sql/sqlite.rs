//! Marks of messages in SQLite.

use sqlx_core::error::Error as SqlxError;
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_sqlite::{Sqlite, SqliteConnection};

use super::Done;

const FIND: &str = "select cast(strftime('%s', 'now') as integer), \
                    (select result from leasehold_done where message = $1)";
const MARK: &str = "insert into leasehold_done (message, result, expires) \
                    select $1, $2, cast(strftime('%s', 'now') as integer) + $3 \
                    where cast(strftime('%s', 'now') as integer) <= $4";
const SWEEP: &str = "delete from leasehold_done where message in (select message \
                     from leasehold_done \
                     where expires < cast(strftime('%s', 'now') as integer) \
                     order by expires limit 1000)";

impl Done for Sqlite {
    const DONE_TABLE: &'static str = include_str!("sqlite.sql");

    async fn find(
        connection: &mut SqliteConnection,
        message: &str,
    ) -> Result<(i64, Option<Vec<u8>>), SqlxError> {
        let query = query_as(FIND).bind(message.to_owned());
        query.fetch_one(connection).await
    }

    async fn mark(
        connection: &mut SqliteConnection,
        message: &str,
        result: &[u8],
        keep: i64,
        until: i64,
    ) -> Result<bool, SqlxError> {
        let query = query(MARK).bind(message.to_owned()).bind(result.to_owned());
        let done = query.bind(keep).bind(until).execute(connection).await?;
        Ok(done.rows_affected() == 1)
    }

    async fn sweep(connection: &mut SqliteConnection) -> Result<u64, SqlxError> {
        let swept = query(SWEEP).execute(connection).await?;
        Ok(swept.rows_affected())
    }
}
