//! Marks of messages in MySQL and MariaDB.

use sqlx_core::error::Error as SqlxError;
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_mysql::{MySql, MySqlConnection};

use super::Done;

const FIND: &str = "select cast(unix_timestamp() as signed), \
                    (select result from leasehold_done where message = ?)";
const MARK: &str = "insert into leasehold_done (message, result, expires) \
                    select ?, ?, unix_timestamp() + ? from dual where unix_timestamp() <= ?";
const SWEEP: &str = "delete from leasehold_done where expires < unix_timestamp() \
                     order by expires limit 1000";

impl Done for MySql {
    const DONE_TABLE: &'static str = include_str!("mysql.sql");

    async fn find(
        connection: &mut MySqlConnection,
        message: &str,
    ) -> Result<(i64, Option<Vec<u8>>), SqlxError> {
        let query = query_as(FIND).bind(message.to_owned());
        query.fetch_one(connection).await
    }

    async fn mark(
        connection: &mut MySqlConnection,
        message: &str,
        result: &[u8],
        keep: i64,
        until: i64,
    ) -> Result<bool, SqlxError> {
        let query = query(MARK).bind(message.to_owned()).bind(result.to_owned());
        let done = query.bind(keep).bind(until).execute(connection).await?;
        Ok(done.rows_affected() == 1)
    }

    async fn sweep(connection: &mut MySqlConnection) -> Result<u64, SqlxError> {
        let swept = query(SWEEP).execute(connection).await?;
        Ok(swept.rows_affected())
    }
}
