//! A request over the connection that a session is tied to. Dropping it would drop
//! the connection, and the tie with it, while the session still counts on both: so
//! one that is given up stays, and comes to its end before the next.

use std::pin::Pin;

use sqlx_mysql::MySqlConnection;

use super::fault::{Cure, cure};
use super::line::{run, undo_of};
use super::pool::{Answer, LIMIT, Trouble};
use crate::error::Result;

pub(super) type Flight = Pin<Box<dyn Future<Output = Landed> + Send>>;

/// What became of it.
pub(super) struct Landed {
    /// The connection, if it is still of use.
    pub(super) connection: Option<MySqlConnection>,
    pub(super) answer: Result<Answer, Trouble>,
}

pub(super) fn fly(mut connection: MySqlConnection, is_new: bool, statement: String) -> Flight {
    Box::pin(async move {
        let answer = tokio::time::timeout(LIMIT, run(&mut connection, &statement)).await;
        let Ok(answer) = answer else {
            return Landed {
                connection: None,
                answer: Err(Trouble::Silent),
            };
        };
        let is_well = match &answer {
            Ok(_) => true,
            Err(error) if cure(error) == Cure::Reconnect => false,
            Err(_) => {
                let undo = undo_of(&statement);
                let undoing = tokio::time::timeout(LIMIT, run(&mut connection, &undo)).await;
                matches!(undoing, Ok(Ok(_)))
            }
        };
        Landed {
            connection: is_well.then_some(connection),
            answer: answer.map_err(|error| Trouble::Failed { error, is_new }),
        }
    })
}
