//! Marks of messages in PostgreSQL.

use sqlx_core::error::Error as SqlxError;
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_postgres::{PgConnection, Postgres};

use super::Done;

// Not `now()`: that is when the transaction began.
const FIND: &str = "select extract(epoch from clock_timestamp())::bigint, \
                    (select result from leasehold_done where message = $1)";
const MARK: &str = "insert into leasehold_done (message, result, expires) \
                    select $1::text, $2::bytea, c.now + $3::bigint \
                    from (select extract(epoch from clock_timestamp())::bigint as now) c \
                    where c.now <= $4::bigint";
const SWEEP: &str = "delete from leasehold_done where message in (select message \
                     from leasehold_done \
                     where expires < extract(epoch from clock_timestamp())::bigint \
                     order by expires limit 1000)";

impl Done for Postgres {
    const DONE_TABLE: &'static str = include_str!("postgres.sql");

    async fn find(
        connection: &mut PgConnection,
        message: &str,
    ) -> Result<(i64, Option<Vec<u8>>), SqlxError> {
        let query = query_as(FIND).bind(message.to_owned());
        query.fetch_one(connection).await
    }

    async fn mark(
        connection: &mut PgConnection,
        message: &str,
        result: &[u8],
        keep: i64,
        until: i64,
    ) -> Result<bool, SqlxError> {
        let query = query(MARK).bind(message.to_owned()).bind(result.to_owned());
        let done = query.bind(keep).bind(until).execute(connection).await?;
        Ok(done.rows_affected() == 1)
    }

    async fn sweep(connection: &mut PgConnection) -> Result<u64, SqlxError> {
        let swept = query(SWEEP).execute(connection).await?;
        Ok(swept.rows_affected())
    }
}
