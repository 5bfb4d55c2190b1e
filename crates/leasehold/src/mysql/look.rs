//! A queue as the server answers it, and what the rule says about it.

use std::time::Duration;

use sqlx_mysql::MySqlRow;

use super::MysqlEngine;
use super::inbox::Mine;
use super::text::{bits, name as name_literal, number};
use super::tie::IS_LOOSE;
use crate::engine::{LeaseId, Standing, TicketId};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::Token;
use crate::name::Name;
use crate::rule::{self, Verdict};

/// One claim in a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) claim: rule::Claim,
    pub(super) capacity: u32,
    pub(super) ticket: TicketId,
    pub(super) session: LeaseId,
    /// How long its session still runs; zero if that is over.
    pub(super) left: Duration,
    /// Where its row is.
    seat: u64,
}

impl Place {
    fn read(row: &MySqlRow) -> Option<Self> {
        Some(Self {
            claim: rule::Claim {
                order: number(row, 0)?,
                weight: number(row, 1)?,
            },
            capacity: number(row, 2)?,
            ticket: TicketId(bits(row, 3)?),
            session: LeaseId(bits(row, 4)?),
            left: Duration::from_micros(number(row, 5)?),
            seat: number(row, 6)?,
        })
    }
}

/// All claims of a lock in order, dead ones too: "held" never rests on ignoring
/// one.
#[derive(Debug)]
pub(super) struct Line(pub(super) Vec<Place>);

impl Line {
    /// Reads what `sql/look.sql` answers.
    pub(super) fn read(rows: &[MySqlRow], doing: impl Fn() -> String, store: &str) -> Result<Self> {
        let places: Option<Vec<_>> = rows.iter().map(Place::read).collect();
        places.map(Self).ok_or_else(|| strange(doing(), store))
    }

    pub(super) fn place_of(&self, ticket: TicketId) -> Option<&Place> {
        self.0.iter().find(|place| place.ticket == ticket)
    }

    pub(super) fn has_dead(&self) -> bool {
        self.0.iter().any(|place| place.left.is_zero())
    }

    /// Another capacity than this one, if the lock is in use with one.
    pub(super) fn other_capacity(&self, capacity: u32) -> Option<u32> {
        let mut capacities = self.0.iter().map(|place| place.capacity);
        capacities.find(|&other| other != capacity)
    }

    pub(super) fn has_room(&self, capacity: u32, weight: u32) -> bool {
        let used: u64 = self.0.iter().map(|p| u64::from(p.claim.weight)).sum();
        used + u64::from(weight) <= u64::from(capacity)
    }

    /// Where our claim stands, which it keeps in mind.
    pub(super) fn standing(&self, mine: &Mine) -> Standing {
        let ticket = mine.claim.id;
        let Some(at) = self.0.iter().position(|place| place.ticket == ticket) else {
            return Standing::Gone;
        };
        let place = &self.0[at];
        if place.left.is_zero() {
            return Standing::Gone;
        }
        let order = place.claim.order;
        mine.sits(place.seat);
        let claims: Vec<_> = self.0.iter().map(|place| place.claim).collect();
        match rule::verdict(place.capacity, &claims, order) {
            Some(Verdict::Held) => {
                mine.is_held(order);
                Standing::Held {
                    token: Token::new(order),
                }
            }
            Some(Verdict::Waiting(watch)) => {
                // Whoever is first to wait looks after those who hold, and the
                // others look after those who wait before them.
                let before = self.0[..at].iter().map(|place| place.left);
                let wake = before.min().unwrap_or_default();
                let ahead = u32::try_from(at).unwrap_or(u32::MAX);
                mine.waits(order, watch, ahead, wake);
                Standing::Waiting { watch, ahead }
            }
            None => Standing::Gone,
        }
    }
}

impl MysqlEngine {
    /// The statement that reads a queue.
    pub(super) fn look_text(&self, name: &str) -> String {
        format!(
            include_str!("sql/look.sql"),
            is_loose = IS_LOOSE,
            claim = self.tables.claim,
            session = self.tables.session,
            name = name_literal(name),
        )
    }

    pub(super) async fn look(&self, name: &Name, doing: impl Fn() -> String) -> Result<Line> {
        // What a replica says is not of now.
        let text = format!(
            "set transaction isolation level read committed; start transaction read write; \
             {}; commit",
            self.look_text(name.as_str())
        );
        let answer = self.ask(&text, &doing).await?;
        Line::read(&answer.rows, doing, &self.pool.label)
    }
}

/// The server said something that none of our statements says.
pub(super) fn strange(doing: String, store: &str) -> Error {
    let why = "the answer is not understood: the tables are not ours";
    Error::new(ErrorKind::Config, doing, why)
        .on(store)
        .effect_is(Effect::Unknown)
}
