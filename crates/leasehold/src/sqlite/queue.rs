//! A lock's queue inside a transaction: reading it, taking claims out of it,
//! and finding out who has to be told.

use std::collections::HashMap;

use rusqlite::Connection;

use super::database::{Store, Write};
use super::fault::Fault;
use super::inbox::{self, Message};
use super::live;
use super::walk::{Passed, Walk};
use crate::clock::Moment;
use crate::engine::{LeaseId, TicketId};
use crate::rule;

/// One claim of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) claim: rule::Claim,
    pub(super) capacity: u32,
    pub(super) ticket: TicketId,
    pub(super) session: LeaseId,
    /// `None`: the session has ended.
    pub(super) expires: Option<Moment>,
}

impl Row {
    /// Columns 0 to 5 of the statements that read queues.
    pub(super) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let expires: Option<i64> = row.get(5)?;
        Ok(Self {
            claim: rule::Claim {
                order: row.get::<_, i64>(0)?.cast_unsigned(),
                weight: row.get(1)?,
            },
            capacity: row.get(2)?,
            ticket: TicketId(u128::from_be_bytes(row.get(3)?)),
            session: LeaseId(u128::from_be_bytes(row.get(4)?)),
            expires: expires.map(|nanos| Moment::from_nanos(nanos.cast_unsigned())),
        })
    }

    /// Whether the tables alone say that the claim is dead.
    pub(super) fn has_ended(&self, now: Moment) -> bool {
        self.expires.is_none_or(|expires| expires <= now)
    }
}

/// The claims up to a place.
pub(super) fn read(connection: &Connection, name: &str, last: u64) -> Result<Vec<Row>, Fault> {
    let mut select = connection.prepare_cached(include_str!("sql/queue.sql"))?;
    let rows = select.query_map((name, last.cast_signed()), Row::read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) const END: u64 = i64::MAX.cast_unsigned();

/// What has to be done once the transaction is committed.
#[derive(Debug, Default)]
pub(super) struct Afterwards {
    messages: Vec<(LeaseId, Message)>,
    ended: Vec<LeaseId>,
}

impl Afterwards {
    pub(super) fn tell(&mut self, session: LeaseId, message: Message) {
        self.messages.push((session, message));
    }

    pub(super) fn end(&mut self, session: LeaseId) {
        self.ended.push(session);
    }

    pub(super) fn carry_out(self, store: &Store) {
        for (session, message) in self.messages {
            match message {
                Message::Look(ticket) if store.ours.lease(session).is_some() => {
                    store.ours.ring(ticket);
                }
                _ => inbox::send(&store.file.sessions, session, message),
            }
        }
        for session in self.ended {
            remove_files(store, session);
        }
    }
}

/// Removes the pipes of a session that has no row any more. They must not go
/// before the row: a row without pipes is taken for one that cannot be asked.
pub(super) fn remove_files(store: &Store, session: LeaseId) {
    let sessions = &store.file.sessions;
    let _ = rustix::fs::unlink(live::live_path(sessions, session));
    let _ = rustix::fs::unlink(inbox::inbox_path(sessions, session));
}

/// Changes to queues within one write transaction. The moment is read after the
/// transaction began, so that whatever it finds expired cannot be renewed.
pub(super) struct Change<'a, 'c> {
    pub(super) store: &'a Store,
    pub(super) write: &'a Write<'c>,
    pub(super) now: Moment,
    pub(super) afterwards: Afterwards,
    /// Whether any claim was found dead and taken out.
    pub(super) has_buried: bool,
    asked: HashMap<LeaseId, bool>,
}

/// How closely a walk looks at those it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Only at those who would come to hold the lock.
    AtNew,
    /// Also at those who have held it all along, and at the first to wait.
    AtAll,
}

impl<'a, 'c> Change<'a, 'c> {
    pub(super) fn new(store: &'a Store, write: &'a Write<'c>, now: Moment) -> Self {
        Self {
            store,
            write,
            now,
            afterwards: Afterwards::default(),
            has_buried: false,
            asked: HashMap::new(),
        }
    }

    fn is_process_gone(&mut self, session: LeaseId) -> bool {
        let store = self.store;
        let asked = self.asked.entry(session);
        *asked.or_insert_with(|| store.is_process_gone(session))
    }

    /// Takes dead claims out for good. Their session ends with them, so that it
    /// cannot be renewed and believe it still has them.
    pub(super) fn bury(&mut self, name: &str, dead: &[Row]) -> Result<(), Fault> {
        self.has_buried |= !dead.is_empty();
        for row in dead {
            self.end_session(row.session)?;
            self.remove(name, row.claim.order)?;
        }
        Ok(())
    }

    pub(super) fn remove(&self, name: &str, place: u64) -> Result<(), Fault> {
        let connection = self.write.connection;
        let mut remove = connection.prepare_cached(include_str!("sql/remove.sql"))?;
        remove.execute((name, place.cast_signed()))?;
        Ok(())
    }

    pub(super) fn end_session(&mut self, session: LeaseId) -> Result<(), Fault> {
        let connection = self.write.connection;
        let mut end = connection.prepare_cached(include_str!("sql/end.sql"))?;
        if end.execute([session.0.to_be_bytes()])? > 0 {
            self.afterwards.end(session);
        }
        Ok(())
    }

    /// Takes what is dead out of the queue: among the given rows those that have
    /// ended and the suspects whose process is gone, and whoever else is found
    /// dead where the lock is granted.
    pub(super) fn settle(
        &mut self,
        name: &str,
        rows: &[Row],
        is_suspect: impl Fn(&Row) -> bool,
    ) -> Result<(), Fault> {
        let mut dead = Vec::new();
        for row in rows {
            if row.has_ended(self.now) || is_suspect(row) && self.is_process_gone(row.session) {
                dead.push(*row);
            }
        }
        self.bury(name, &dead)?;
        let left: Vec<_> = dead.iter().map(|row| row.claim).collect();
        self.walk(name, &left, None, Look::AtAll)?;
        Ok(())
    }

    /// Walks the queue after `left` were taken out of it: buries the dead that
    /// are in the way and tells those who hold now and did not before. Takes out
    /// the `leaving` claim too if it comes across it, and says whether it did:
    /// it does for one that holds, which saves a release from looking for it.
    pub(super) fn walk(
        &mut self,
        name: &str,
        left: &[rule::Claim],
        leaving: Option<TicketId>,
        look: Look,
    ) -> Result<bool, Fault> {
        let mut walk = Walk::new(left);
        let mut dead = Vec::new();
        let mut found = None;
        {
            let connection = self.write.connection;
            let mut select = connection.prepare_cached(include_str!("sql/queue.sql"))?;
            let mut rows = select.query((name, END.cast_signed()))?;
            while let Some(row) = rows.next()? {
                let row = Row::read(row)?;
                if leaving == Some(row.ticket) {
                    walk.pass_dead(row.claim);
                    found = Some(row.claim.order);
                    continue;
                }
                let asks = look == Look::AtAll || walk.would_grant(&row);
                if row.has_ended(self.now) || asks && self.is_process_gone(row.session) {
                    walk.pass_dead(row.claim);
                    dead.push(row);
                } else if walk.pass(&row) == Passed::FirstWaiting {
                    break;
                }
            }
        }
        if leaving.is_some() && found.is_none() {
            return Ok(false);
        }
        if let Some(order) = found {
            self.remove(name, order)?;
        }
        self.bury(name, &dead)?;
        for row in walk.told {
            self.afterwards.tell(row.session, Message::Look(row.ticket));
        }
        self.tell_successors(name, walk.first_waiting, left)?;
        Ok(true)
    }

    /// A claim that waits in the middle watches the one before it. When that
    /// one left, it has to look for another to watch.
    fn tell_successors(
        &mut self,
        name: &str,
        first_waiting: Option<u64>,
        left: &[rule::Claim],
    ) -> Result<(), Fault> {
        let Some(first_waiting) = first_waiting else {
            return Ok(());
        };
        let connection = self.write.connection;
        for claim in left.iter().filter(|claim| claim.order > first_waiting) {
            let mut select = connection.prepare_cached(include_str!("sql/successor.sql"))?;
            let mut rows = select.query((name, claim.order.cast_signed()))?;
            if let Some(row) = rows.next()? {
                let row = Row::read(row)?;
                self.afterwards.tell(row.session, Message::Look(row.ticket));
            }
        }
        Ok(())
    }
}
