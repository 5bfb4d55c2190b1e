//! The ways in which a request is made.

use super::pool::{Answer, Lane, Pool, READ_COMMITTED};
use super::prepared::Saying;
use crate::error::{Error, ErrorKind, Result};

impl Pool {
    /// Makes a request, and makes it again where that may help. It must be one
    /// that may be made twice.
    ///
    /// # Cancel safety
    /// The request may be carried out; its connection is closed.
    pub(super) async fn ask(&self, statement: &str, doing: impl Fn() -> String) -> Result<Answer> {
        self.ask_on(Lane::Common, statement, doing).await
    }

    pub(super) async fn ask_on(
        &self,
        lane: Lane,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        match self.ask_or_locked(lane, statement, &doing).await? {
            Some(answer) => Ok(answer),
            None => {
                let why = "rows stay locked by another transaction";
                Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*self.label))
            }
        }
    }

    /// Makes a request that has no transaction of its own. A user's connection may not
    /// commit by itself: there it gets one, so that nothing stays open behind it.
    ///
    /// # Cancel safety
    /// As for `ask`.
    pub(super) async fn ask_plainly(
        &self,
        lane: Lane,
        statement: &str,
        doing: impl Fn() -> String,
    ) -> Result<Answer> {
        if !self.is_users(lane) {
            return self.ask_on(lane, statement, doing).await;
        }
        // A server that is read only answers too, and is then told apart.
        let whole = format!(
            "set transaction isolation level read committed; start transaction; \
             {}; commit",
            statement.trim_end().trim_end_matches(';')
        );
        self.ask_on(lane, &whole, doing).await
    }

    /// Makes a request that is one statement and no transaction.
    ///
    /// # Cancel safety
    /// As for `ask`.
    pub(super) async fn ask_once(
        &self,
        lane: Lane,
        saying: Saying<'_>,
        doing: impl Fn() -> String,
    ) -> Result<Option<Answer>> {
        if self.is_users(lane) {
            let whole = format!("{READ_COMMITTED}; {}; commit", saying.text());
            return self.ask_or_locked(lane, &whole, doing).await;
        }
        self.ask_or_locked(lane, saying, doing).await
    }
}
