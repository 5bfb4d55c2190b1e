//! Ending connections: the server does it, over another one.

use std::sync::Arc;

use sqlx_postgres::PgRow;
use tokio::time::timeout;

use super::super::pool::Lane;
use super::super::text::{array, number};
use super::line::Line;
use super::open::OpenLease;
use super::{AdvisoryEngine, LIMIT};
use crate::error::{Effect, ErrorKind, Result};

const DOING: &str = "end a connection";

/// Lets the server end these connections, over another one: the main one if no
/// more can be made.
pub(super) async fn finish(
    engine: &AdvisoryEngine,
    open: &OpenLease,
    lines: &[Arc<Line>],
) -> Result<()> {
    let text = format!(
        "select {}.finish({}, {})",
        engine.schema,
        array("integer", lines.iter().map(|line| line.pid.to_string())),
        array("bigint", lines.iter().map(|line| line.key.to_string())),
    );
    let ending = engine
        .pool
        .ask_in(Lane::AtOnce, &text, || DOING.into())
        .await;
    let rows = match ending {
        Ok(answer) => answer.rows,
        Err(error) => {
            let main = &open.main;
            if main.is_broken() || lines.iter().any(|line| Arc::ptr_eq(line, main)) {
                return Err(error);
            }
            match timeout(LIMIT, main.run(text)).await {
                Ok(Ok(rows)) => rows,
                _ => return Err(error),
            }
        }
    };
    is_finished(engine, &rows, DOING.into())
}

/// Whether the server has ended all that it was to end.
pub(super) fn is_finished(engine: &AdvisoryEngine, rows: &[PgRow], doing: String) -> Result<()> {
    match rows.first().and_then(|row| number::<u64>(row, 0)) {
        Some(0) => Ok(()),
        _ => {
            let why = "the server has not ended the connection yet";
            let error = engine.refusal(ErrorKind::Unavailable, doing, why);
            Err(error.effect_is(Effect::Unknown))
        }
    }
}
