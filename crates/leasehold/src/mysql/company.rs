//! Requests on several names that are made at the same time go as one statement and
//! one commit, which is most of what a request costs the server. Only free locks are
//! taken that way, and given back those that nobody has moved. Whoever wants something
//! else asks alone, and holds up nobody else.
//!
//! Only on MariaDB, whose statement can answer what it changed.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::fault::fault;
use super::inbox::Mine;
use super::layout::{CLOCK, Kind, Tables, WRITABLE};
use super::pool::{Answer, LIMIT, Pool, Trouble};
use super::text::{
    column, lease as lease_literal, name as name_literal, number, quoted, quoted_or_null,
    ticket as ticket_literal,
};
use crate::clock::boot_time;
use crate::engine::{ClaimRef, Ticket};
use crate::error::{Effect, Result};
use crate::gather::{self, Asked, Carrier, Gathering, Joined, Way};

/// How many go together at most.
const MOST: usize = 32;

/// How long requests go one by one after some that went together were refused.
const APART: Duration = Duration::from_secs(1);

/// Those who go together.
pub(super) struct Company {
    pool: Arc<Pool>,
    tables: Tables,
    gathering: Gathering<Change, Told>,
    /// Until when nobody goes together, in nanoseconds of the boot clock.
    apart: AtomicU64,
}

/// A first seat that changes hands.
pub(super) struct Change {
    /// Its name as hexadecimal digits, as the server answers it.
    name: String,
    row: String,
    /// Whose seat it is to be, and the epoch that is named for it.
    taker: Option<(Arc<Mine>, u64)>,
}

/// What became of it: the order that is in the seat now, unless it was not to be had.
type Told = Result<Option<u64>, Unanswered>;

/// What became of a party whose questions were not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Nothing of it was done.
    Refused,
    /// It may have been carried out.
    InDoubt,
    /// The same, and the server stays silent.
    Silent,
}

/// How it went for one who asked.
pub(super) enum Went {
    /// It goes alone, and keeps this until it is answered.
    Alone(Option<Way<Company>>),
    Done(u64),
    /// Nothing was done.
    NotDone,
    InDoubt,
    Silent,
}

impl Change {
    pub(super) fn takes(
        ticket: &Ticket,
        mine: &Arc<Mine>,
        epoch: u64,
        server: &str,
        term: u64,
    ) -> Self {
        let name = name_literal(ticket.claim.name.as_str());
        let row = format!(
            "({name},null,{},{},{epoch},{},{term},{},{},{},{})",
            ticket_literal(ticket.claim.id),
            lease_literal(ticket.lease),
            quoted(server),
            ticket.holder,
            ticket.capacity,
            ticket.weight,
            quoted_or_null(ticket.label.as_deref()),
        );
        Self {
            taker: Some((mine.clone(), epoch)),
            ..Self::of(&name, row)
        }
    }

    pub(super) fn gives(claim: &ClaimRef) -> Self {
        let name = name_literal(claim.name.as_str());
        let ticket = ticket_literal(claim.id);
        let row = format!("({name},{ticket},null,null,0,'',0,0,0,0,null)");
        Self::of(&name, row)
    }

    fn of(name: &str, row: String) -> Self {
        let digits = name.trim_start_matches("x'").trim_end_matches('\'');
        let name = digits.to_ascii_uppercase();
        Self {
            name,
            row,
            taker: None,
        }
    }

    /// From here on it may be carried out.
    fn leaves(&self) {
        if let Some((mine, epoch)) = &self.taker {
            mine.asked(*epoch);
        }
    }

    /// It was, or was not, and will not be.
    fn is_settled(&self) {
        if let Some((mine, epoch)) = &self.taker {
            mine.answered(*epoch);
        }
    }
}

impl Company {
    /// `None` where everybody goes alone.
    pub(super) fn of(pool: &Arc<Pool>, tables: &Tables, kind: Kind) -> Option<Arc<Self>> {
        let can_go = kind == Kind::MariaDb && !pool.is_tied && !pool.has_users();
        can_go.then(|| {
            Arc::new(Self {
                pool: pool.clone(),
                tables: tables.clone(),
                gathering: Gathering::new(pool.size()),
                apart: AtomicU64::new(0),
            })
        })
    }

    /// Goes with others if there are some.
    ///
    /// # Cancel safety
    /// The change may be carried out.
    pub(super) async fn go(self: &Arc<Self>, change: impl FnOnce() -> Change) -> Went {
        if self.is_apart() {
            return Went::Alone(None);
        }
        let place = match gather::join(self, change) {
            Joined::Alone(way) => return Went::Alone(Some(way)),
            Joined::Together(place) => place,
        };
        match place.answer().await {
            Some(Ok(Some(order))) => Went::Done(order),
            Some(Ok(None)) => Went::NotDone,
            Some(Err(Unanswered::Refused)) => Went::Alone(None),
            None | Some(Err(Unanswered::InDoubt)) => Went::InDoubt,
            Some(Err(Unanswered::Silent)) => Went::Silent,
        }
    }

    /// The server said no to what went together: that is not done twice at once, or
    /// whatever it has too much of, or does not understand, would only grow.
    fn stay_apart(&self) {
        let until = boot_time() + APART;
        self.apart.store(until.nanos(), Ordering::Relaxed);
    }

    fn is_apart(&self) -> bool {
        let until = self.apart.load(Ordering::Relaxed);
        until > 0 && boot_time().nanos() < until
    }

    /// What they go with. Nobody can give up any more without its being known.
    fn send_off(&self, party: &[Asked<Change, Told>]) -> String {
        going(party).for_each(Change::leaves);
        let rows: Vec<_> = going(party).map(|change| &*change.row).collect();
        format!(
            include_str!("sql/party.sql"),
            claim = self.tables.claim,
            meta = self.tables.meta,
            session = self.tables.session,
            rows = rows.join(","),
            clock = CLOCK,
            identity = Kind::MariaDb.identity(),
            writable = WRITABLE,
        )
    }

    async fn ask(&self, text: &str) -> Result<Answer, Unanswered> {
        // It has its own limits, and tells the pool of a silence.
        let answer = self.pool.once_more(text).await;
        answer.map_err(|trouble| match trouble {
            Trouble::Silent => Unanswered::Silent,
            Trouble::Failed { error, .. } => {
                if error.as_database_error().is_some() {
                    self.stay_apart();
                }
                match fault(error, String::new(), "").effect() {
                    Effect::None => Unanswered::Refused,
                    Effect::Unknown => Unanswered::InDoubt,
                }
            }
        })
    }
}

/// Of several changes to one lock only the first goes along: they would not see
/// each other.
fn going(party: &[Asked<Change, Told>]) -> impl Iterator<Item = &Change> {
    let mut names = HashSet::new();
    let changes = party.iter().map(|one| &one.question);
    changes.filter(move |change| names.insert(&*change.name))
}

impl Carrier for Company {
    type Question = Change;
    type Answer = Told;

    fn gathering(&self) -> &Gathering<Change, Told> {
        &self.gathering
    }

    async fn carry(&self) {
        // Those who went alone and are not polled keep their connections: then one
        // more has to do.
        let _room = tokio::time::timeout(LIMIT, self.pool.room()).await;
        let departed = self
            .gathering
            .depart(MOST, |_| true, |party| self.send_off(party));
        let Some((mut party, text)) = departed else {
            return;
        };
        let told = tokio::select! {
            told = self.ask(&text) => told,
            // Nobody waits for it: neither does this, nor its connection.
            () = gather::all_gone(&mut party) => return,
        };
        if matches!(told, Ok(_) | Err(Unanswered::Refused)) {
            going(&party).for_each(Change::is_settled);
        }
        match told {
            Ok(answer) => {
                let done = answer
                    .rows
                    .iter()
                    .filter_map(|row| Some((column(row, 0)?, number(row, 1)?)));
                let mut done: HashMap<String, u64> = done.collect();
                for one in party {
                    // Of several who name it the first had it.
                    let order = done.remove(&one.question.name);
                    one.answer(Ok(order));
                }
            }
            Err(why) => party.into_iter().for_each(|one| one.answer(Err(why))),
        }
    }
}

impl fmt::Debug for Company {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Company")
            .field("gathering", &self.gathering)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::TicketId;
    use crate::name::Name;

    #[test]
    fn a_change_is_found_by_the_name_that_the_server_answers() {
        let claim = ClaimRef {
            name: Name::new("jo'b/ü").unwrap(),
            id: TicketId(7),
        };
        let change = Change::gives(&claim);
        assert_eq!(change.name, "6A6F27622FC3BC");
        assert!(change.row.starts_with("(x'6a6f27622fc3bc',x'00"));
    }
}
