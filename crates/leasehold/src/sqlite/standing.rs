//! Where a claim stands among rows that were read. Pure.

use super::fault::Fault;
use super::queue::Row;
use crate::engine::{Standing, Ticket};
use crate::error::ErrorKind;
use crate::fence::Token;
use crate::rule::{self, Verdict};

pub(super) fn refuse_other_capacity(ticket: &Ticket, rows: &[Row]) -> Result<(), Fault> {
    let asked = ticket.capacity;
    match rows.iter().find(|row| row.capacity != asked) {
        None => Ok(()),
        Some(row) => {
            let why = rule::mismatch(asked, row.capacity);
            Err(Fault::new(ErrorKind::Conflict, why))
        }
    }
}

pub(super) fn position(rows: &[Row], ticket: &Ticket) -> Option<usize> {
    rows.iter().position(|row| row.ticket == ticket.claim.id)
}

pub(super) fn holders(rows: &[Row]) -> usize {
    let claims: Vec<_> = rows.iter().map(|row| row.claim).collect();
    rule::holders(rows.first().map_or(0, |row| row.capacity), &claims)
}

/// Whether the claim would hold if it came last.
pub(super) fn fits(ticket: &Ticket, rows: &[Row]) -> bool {
    let weights = rows
        .iter()
        .map(|row| u64::from(row.claim.weight))
        .sum::<u64>();
    weights + u64::from(ticket.weight) <= u64::from(ticket.capacity)
}

pub(super) fn standing(rows: &[Row], mine: usize) -> Standing {
    let claims: Vec<_> = rows.iter().map(|row| row.claim).collect();
    let Row {
        claim, capacity, ..
    } = rows[mine];
    match rule::verdict(capacity, &claims, claim.order) {
        Some(Verdict::Held) => Standing::Held {
            token: Token::new(claim.order),
        },
        Some(Verdict::Waiting(watch)) => Standing::Waiting {
            watch,
            ahead: u32::try_from(mine).unwrap_or(u32::MAX),
        },
        None => Standing::Gone,
    }
}
