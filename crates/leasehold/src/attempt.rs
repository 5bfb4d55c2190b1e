//! A claim on its way to being held. Dropping it withdraws the claim, whatever
//! became of it.

use std::sync::Arc;

use crate::acquire::{Patience, Want};
use crate::core::{Core, Term};
use crate::engine::{ClaimRef, Standing, Ticket, TicketId, Together, Watch};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::fence::{Fence, Token};
use crate::hold::Claim;
use crate::reaper::{Doubt, Errand, Withdrawal};

#[derive(Debug)]
pub(crate) struct Attempt {
    core: Arc<Core>,
    ticket: Ticket,
    pub(crate) term: Arc<Term>,
    /// What to watch, once the store has said so.
    watch: Option<Watch>,
    /// How often we asked for a place, and how many of these requests are, or
    /// were when we stopped listening, on their way.
    asked: u32,
    unanswered: u32,
    is_settled: bool,
}

impl Attempt {
    pub(crate) fn new(core: &Arc<Core>, want: &Want, patience: Patience, term: Arc<Term>) -> Self {
        let (id, holder) = core.ids.next();
        let ticket = Ticket {
            claim: ClaimRef {
                name: want.name.clone(),
                id: TicketId(id),
            },
            lease: term.lease.id,
            holder,
            capacity: want.capacity,
            weight: want.weight,
            waits: !matches!(patience, Patience::Try),
            label: want.label.clone(),
        };
        Self {
            core: core.clone(),
            ticket,
            term,
            watch: None,
            asked: 0,
            unanswered: 0,
            is_settled: false,
        }
    }

    /// Whether the claim stays in the queue if it is not granted at once.
    pub(crate) fn waits(&self) -> bool {
        self.ticket.waits
    }

    /// Asks the store: for a place the first time and after trouble, else for
    /// news.
    pub(crate) async fn ask(&mut self) -> Result<Standing> {
        let standing = match self.watch.take() {
            Some(watch) => self.wait(watch).await?,
            None => self.enqueue().await?,
        };
        if let Standing::Waiting { watch, ahead } = standing {
            self.watch = Some(watch);
            tracing::trace!(lock = %self.ticket.claim.name, ahead, "waiting");
        }
        Ok(standing)
    }

    async fn enqueue(&mut self) -> Result<Standing> {
        self.asked += 1;
        self.unanswered += 1;
        let request = self.core.engine.enqueue(&self.ticket);
        let Ok(answer) = tokio::time::timeout(self.core.settings.ttl / 3, request).await else {
            return Err(self.silence());
        };
        self.answered(answer.as_ref().err());
        answer
    }

    fn answered(&mut self, error: Option<&Error>) {
        match error {
            // Still in doubt: the store may have done it, or do it yet.
            Some(error) if error.effect() == Effect::Unknown => {}
            Some(_) => {
                self.asked -= 1;
                self.unanswered -= 1;
            }
            None => self.unanswered -= 1,
        }
    }

    /// Asks for all of them in one step.
    pub(crate) async fn ask_together(attempts: &mut [Self]) -> Result<Together> {
        let Some(first) = attempts.first() else {
            return Ok(Together::Separately);
        };
        let core = first.core.clone();
        let tickets: Vec<_> = attempts.iter().map(|one| one.ticket.clone()).collect();
        for attempt in attempts.iter_mut() {
            attempt.asked += 1;
            attempt.unanswered += 1;
        }
        let request = core.engine.enqueue_all(&tickets);
        let Ok(answer) = tokio::time::timeout(core.settings.ttl / 3, request).await else {
            return Err(attempts[0].silence());
        };
        for attempt in attempts.iter_mut() {
            attempt.answered(answer.as_ref().err());
        }
        answer
    }

    /// Nothing may happen for long, but an answer may also have been lost: once
    /// in a ttl the place is asked for again, which changes nothing if the
    /// store has it.
    async fn wait(&self, watch: Watch) -> Result<Standing> {
        let request = self.core.engine.wait(&self.ticket, watch);
        match tokio::time::timeout(self.core.settings.ttl, request).await {
            Ok(answer) => answer,
            Err(_) => Err(self.silence()),
        }
    }

    fn silence(&self) -> Error {
        let doing = format!("lock {}", self.ticket.claim.name);
        Error::new(ErrorKind::Unavailable, doing, "the store does not answer")
            .effect_is(Effect::Unknown)
    }

    /// The claim, if our lease is still good.
    pub(crate) fn granted(mut self, token: Token) -> Option<Claim> {
        let now = self.core.clock.now();
        if self.term.is_over(now) {
            return None;
        }
        self.is_settled = true;
        Some(Claim {
            claim: self.ticket.claim.clone(),
            term: self.term.clone(),
            fence: Fence {
                token,
                holder: self.ticket.holder,
            },
            since: now,
            handed: 0,
            is_bound: false,
            is_exclusive: self.ticket.weight == self.ticket.capacity,
            doubt: self.doubt(),
        })
    }

    /// The store has nothing of this attempt.
    pub(crate) fn dissolve(mut self) {
        self.is_settled = self.unanswered == 0;
    }

    fn doubt(&self) -> Option<Doubt> {
        (self.unanswered > 0).then(|| Doubt {
            // Engines do not keep a request for longer than a ttl.
            until: self.core.clock.now() + self.core.settings.ttl,
            is_the_only_one: self.asked == 1,
        })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_settled {
            self.core.send(Errand::Withdraw(Withdrawal {
                claim: self.ticket.claim.clone(),
                term: self.term.clone(),
                doubt: self.doubt(),
                turn: None,
                done: None,
            }));
        }
    }
}
