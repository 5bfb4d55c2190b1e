//! Marks of messages in MySQL and MariaDB.

use sqlx_core::error::Error as SqlxError;
use sqlx_core::query::query;
use sqlx_core::query_as::query_as;
use sqlx_mysql::{MySql, MySqlConnection};

use super::Done;

const FIND: &str = "select result from leasehold_done where message = ?";
const MARK: &str = "insert into leasehold_done (message, result, expires) \
                    values (?, ?, unix_timestamp() + ?)";
const SWEEP: &str = "delete from leasehold_done where expires < unix_timestamp() \
                     order by expires limit 1000";

impl Done for MySql {
    const DONE_TABLE: &'static str = include_str!("mysql.sql");

    async fn find(
        connection: &mut MySqlConnection,
        message: &str,
    ) -> Result<Option<Vec<u8>>, SqlxError> {
        let query = query_as(FIND).bind(message.to_owned());
        let row: Option<(Vec<u8>,)> = query.fetch_optional(connection).await?;
        Ok(row.map(|(result,)| result))
    }

    async fn mark(
        connection: &mut MySqlConnection,
        message: &str,
        result: &[u8],
        keep: i64,
    ) -> Result<(), SqlxError> {
        let query = query(MARK).bind(message.to_owned()).bind(result.to_owned());
        query.bind(keep).execute(connection).await.map(|_| ())
    }

    async fn sweep(connection: &mut MySqlConnection) -> Result<u64, SqlxError> {
        let swept = query(SWEEP).execute(connection).await?;
        Ok(swept.rows_affected())
    }
}
