//! Memos, in a table of their own.

use std::time::Duration;

use super::PostgresEngine;
use super::answer::strange;
use super::pool::Lane;
use super::text::{column, number, quoted, ticket as ticket_id};
use crate::engine::{ClaimRef, Memo, Noted, Reading};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;

/// Writes the memo if the claim holds.
pub(super) async fn write(
    engine: &PostgresEngine,
    claim: &ClaimRef,
    memo: &Memo,
    keep: Option<Duration>,
) -> Result<Noted> {
    let doing = || format!("write the memo of {}", claim.name);
    let arguments = format!(
        "{}, {}, {}, {}, decode('{}', 'hex'), {}",
        quoted(claim.name.as_str()),
        ticket_id(claim.id),
        memo.token,
        memo.edition,
        hex(&memo.bytes),
        keep.map_or("null".to_owned(), |keep| keep.as_millis().to_string()),
    );
    let answer = engine
        .call(Lane::Aside, "memo_write", &arguments, doing)
        .await?;
    match answer.rows.first().and_then(|row| column(row, 0)) {
        Some("written") => Ok(Noted::Written),
        // The first of two requests may have been in time.
        Some("absent") if answer.is_repeated => {
            let why = "the claim is gone, and a request before that was not answered";
            let error = Error::new(ErrorKind::Unavailable, doing(), why);
            Err(error.on(&*engine.pool.label).effect_is(Effect::Unknown))
        }
        Some("absent") => Ok(Noted::NotHeld),
        _ => Err(strange(doing(), &engine.pool.label)),
    }
}

pub(super) async fn read(engine: &PostgresEngine, name: &Name) -> Result<Reading> {
    let doing = || format!("read the memo of {name}");
    if !engine.has_memo {
        return Err(crate::memo::unsupported(doing()));
    }
    let arguments = quoted(name.as_str());
    let answer = engine.call_to_read("memo_read", &arguments, doing).await?;
    let reading = answer.rows.first().and_then(|row| {
        let time = Some(Duration::from_micros(number(row, 3)?));
        let kept = match column(row, 0) {
            None => None,
            Some(token) => Some(Memo {
                token: Token::new(token.parse().ok()?),
                edition: number(row, 1)?,
                bytes: unhex(column(row, 2)?)?,
            }),
        };
        Some(Reading::of(kept, time))
    });
    reading.ok_or_else(|| strange(doing(), &engine.pool.label))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |value| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(*pair.get(1)?)?).ok();
    text.as_bytes().chunks(2).map(byte).collect()
}
