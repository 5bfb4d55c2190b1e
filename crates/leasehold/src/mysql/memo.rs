//! Memos, in a table of their own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx_mysql::MySqlRow;

use super::layout::CLOCK;
use super::line::guarded;
use super::look::strange;
use super::pool::{Lane, READ_COMMITTED};
use super::renewal::whole_micros;
use super::term::settle;
use super::text::{
    bytes, column, hex_bytes, list, name as name_literal, number, ticket as ticket_literal,
};
use super::tie::IS_LOOSE;
use super::{MysqlEngine, TOKENS_PER_GRANT};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::random::random_u64;

/// How often it is asked anew because the server's term had to begin.
const ROUNDS: u32 = 3;

/// How many memos that have ended are removed in one go.
const FEW: usize = 20;

/// How many writes there are for one that removes fewer than that.
const SELDOM: u64 = 8;

/// Writes the memo if the claim holds.
pub(super) async fn write(
    engine: &MysqlEngine,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted> {
    let doing = || format!("write the memo of {}", claim.name);
    must_have(engine, doing)?;
    let token = memo.token.get();
    let mut is_repeated = false;
    for _ in 0..ROUNDS {
        let text = format!(
            include_str!("sql/memo_write.sql"),
            claim = engine.tables.claim,
            meta = engine.tables.meta,
            memo = engine.tables.memo,
            session = engine.tables.session,
            current = engine.current_text(),
            is_loose = IS_LOOSE,
            name = name_literal(claim.name.as_str()),
            ticket = ticket_literal(claim.id),
            // The orders whose grant has this token.
            first = token.saturating_sub(u64::from(TOKENS_PER_GRANT) - 1),
            token = token,
            edition = memo.edition,
            bytes = bytes(&memo.bytes),
            ends = keep.map_or("null".to_owned(), |keep| {
                let keep = whole_micros(keep);
                format!("utc_timestamp(6) + interval {keep} microsecond")
            }),
            few = FEW,
        );
        let Some(answer) = engine.ask_or_locked(&guarded(&text), doing).await? else {
            let why = "rows stay locked by another transaction";
            return Err(unavailable(engine, doing(), why, is_repeated));
        };
        is_repeated |= answer.is_repeated;
        let row = answer.rows.first();
        let said = row.and_then(|row| Some((column(row, 0)?, column(row, 1)?)));
        match said.as_ref().map(|(holds, current)| (&**holds, &**current)) {
            Some(("1", "1")) => {
                sweep(engine, &answer.rows[1..]).await;
                return Ok(Noted::Written);
            }
            Some(("1", "0")) => settle(engine, Lane::Aside, doing).await?,
            // The first of two requests may have been in time.
            Some(("0", _)) if is_repeated => {
                let why = "the claim is gone, and a request before that was not answered";
                return Err(unavailable(engine, doing(), why, true));
            }
            Some(("0", _)) => return Ok(Noted::NotHeld),
            _ => return Err(strange(doing(), &engine.pool.label)),
        }
    }
    let why = "the server's term ends as soon as it begins";
    Err(unavailable(engine, doing(), why, is_repeated))
}

/// Removes memos that have ended. Nothing depends on it: whoever writes next tries
/// again. By their names, in order: so two who do this never wait for each other.
async fn sweep(engine: &MysqlEngine, ended: &[MySqlRow]) {
    if ended.is_empty() || (ended.len() < FEW && !random_u64().is_multiple_of(SELDOM)) {
        return;
    }
    let names = ended.iter().filter_map(|row| column(row, 0));
    let delete = format!(
        "{READ_COMMITTED}; delete from {} where name in {} and expires <= utc_timestamp(6); commit",
        engine.tables.memo,
        list(names.map(|name| format!("x'{name}'"))),
    );
    let doing = || "remove memos that have ended".to_owned();
    match engine.ask(&guarded(&delete), doing).await {
        Err(error) if error.kind() == ErrorKind::Denied => {
            if !engine.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "what has ended stays for good");
            }
        }
        Err(error) => tracing::debug!(%error, "what has ended stays for now"),
        Ok(_) => {}
    }
}

pub(super) async fn read(engine: &MysqlEngine, name: &Name) -> Result<Reading> {
    let doing = || format!("read the memo of {name}");
    must_have(engine, doing)?;
    for _ in 0..ROUNDS {
        let text = format!(
            include_str!("sql/memo_read.sql"),
            meta = engine.tables.meta,
            memo = engine.tables.memo,
            current = engine.current_text(),
            clock = CLOCK,
            confirming = engine.confirming_text(doing).await?,
            name = name_literal(name.as_str()),
        );
        let answer = engine.ask(&text, doing).await?;
        let Some(row) = answer.rows.first() else {
            return Err(strange(doing(), &engine.pool.label));
        };
        if column(row, 4).as_deref() != Some("1") {
            settle(engine, Lane::Common, doing).await?;
            continue;
        }
        let reading = number(row, 3).and_then(|micros| {
            let kept = match number(row, 0) {
                None => None,
                Some(token) => Some(Memo {
                    token: Token::new(token),
                    edition: number(row, 1)?,
                    bytes: hex_bytes(row, 2)?,
                }),
            };
            Some(Reading::of(kept, Some(Duration::from_micros(micros))))
        });
        return reading.ok_or_else(|| strange(doing(), &engine.pool.label));
    }
    let why = "the server's term ends as soon as it begins";
    Err(unavailable(engine, doing(), why, false))
}

fn must_have(engine: &MysqlEngine, doing: impl Fn() -> String) -> Result<()> {
    match engine.has_memo {
        true => Ok(()),
        false => Err(crate::memo::unsupported(doing())),
    }
}

fn unavailable(engine: &MysqlEngine, doing: String, why: &str, is_repeated: bool) -> Error {
    let error = Error::new(ErrorKind::Unavailable, doing, why).on(&*engine.pool.label);
    match is_repeated {
        true => error.effect_is(Effect::Unknown),
        false => error,
    }
}
