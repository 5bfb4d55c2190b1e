//! The one way to a hold, for every kind of lock and every store: ask, wait,
//! ask again; believe only `Held`.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::attempt::Attempt;
use crate::backoff;
use crate::clock::Moment;
use crate::core::{Anchor, Core, Term};
use crate::engine::{Standing, Together};
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::hold::{Claim, Hold, Limits, Stake};
use crate::local::{Local, Place, Turn};
use crate::name::Name;
use crate::phase::Phase;
use crate::random::random_u64;
use crate::reaper::Errand;

/// What is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Want {
    pub(crate) name: Name,
    pub(crate) capacity: u32,
    pub(crate) weight: u32,
    pub(crate) limits: Limits,
    pub(crate) label: Option<Arc<str>>,
}

/// How long to wait for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    /// Not at all.
    Try,
    /// As long as it takes.
    Wait,
    /// Until then.
    Until(Moment),
}

impl Patience {
    pub(crate) fn within(core: &Core, longest: Duration) -> Self {
        Self::Until(core.clock.now() + longest)
    }
}

/// Gets what is wanted; `None` if it was only tried and is held elsewhere.
///
/// # Cancel safety
/// Dropping the future gives up the place in the queue; nothing is left behind.
pub(crate) async fn acquire(
    anchor: &Arc<Anchor>,
    want: &Want,
    patience: Patience,
) -> Result<Option<Guard>> {
    let span = tracing::debug_span!("acquire", lock = %want.name, token = tracing::field::Empty);
    let guard = get(anchor, want, patience).instrument(span.clone()).await?;
    if let Some(guard) = &guard {
        span.record("token", guard.token().get());
    }
    Ok(guard)
}

async fn get(anchor: &Arc<Anchor>, want: &Want, patience: Patience) -> Result<Option<Guard>> {
    let core = &anchor.core;
    let asked = core.clock.now();
    // Only where there is one holder at a time can tasks take turns on a claim.
    let stake = if want.capacity == 1 {
        in_turn(core, want, patience).await?
    } else {
        let mut seat = None;
        let claim = seek(core, want, patience, &mut seat).await?;
        claim.map(|claim| Stake { claim, turn: None })
    };
    Ok(stake.map(|stake| Guard::new(Hold::new(anchor.clone(), stake, want.limits.clone(), asked))))
}

/// Gets all of them in one step, if the store has such a step and all are free.
/// What it says otherwise is only about now: to wait, get them one by one.
///
/// # Cancel safety
/// Dropping the future leaves nothing behind.
pub(crate) async fn acquire_together(
    anchor: &Arc<Anchor>,
    wants: &[Want],
    patience: Patience,
) -> Result<Option<AllOrNone>> {
    let core = &anchor.core;
    let asked = core.clock.now();
    let Some(term) = open_now(core)(&core.phases.current()) else {
        return Ok(None);
    };
    let turns = wants.iter().map(|want| Local::try_join(core, &want.name));
    let Some(turns) = turns.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let attempt = |want| Attempt::new(core, want, Patience::Try, term.clone());
    let mut attempts: Vec<_> = wants.iter().map(attempt).collect();
    let asking = Attempt::ask_together(&mut attempts);
    let answer = match bounded(core, patience, Some(&term), asking).await {
        Ok(answer) => answer?,
        Err(Interrupt::TermOver) => return Ok(None),
        Err(interrupt) => return Err(interrupt.into_error(core, &wants[0], None)),
    };
    let tokens = match answer {
        Together::Held(tokens) => tokens,
        Together::Busy | Together::Separately => {
            attempts.into_iter().for_each(Attempt::dissolve);
            let is_busy = answer == Together::Busy;
            return Ok(is_busy.then_some(AllOrNone::None));
        }
    };
    let mut claims = Vec::new();
    for (attempt, token) in attempts.into_iter().zip(tokens) {
        match attempt.granted(token) {
            Some(claim) => claims.push(claim),
            // The lease ended just now: what came with it goes back.
            None => {
                let back = claims.into_iter();
                back.for_each(|claim| core.send(Errand::withdraw(claim, None)));
                return Ok(None);
            }
        }
    }
    let stakes = claims.into_iter().zip(turns);
    let guards = stakes.zip(wants).map(|((claim, turn), want)| {
        let turn = Some(turn);
        let hold = Hold::new(
            anchor.clone(),
            Stake { claim, turn },
            want.limits.clone(),
            asked,
        );
        Guard::new(hold)
    });
    Ok(Some(AllOrNone::All(guards.collect())))
}

/// What came of asking for several in one step.
pub(crate) enum AllOrNone {
    All(Vec<Guard>),
    None,
}

async fn in_turn(core: &Arc<Core>, want: &Want, patience: Patience) -> Result<Option<Stake>> {
    let Some(mut turn) = get_turn(core, want, patience).await? else {
        return Ok(None);
    };
    if let Some(claim) = turn.take_held() {
        return Ok(Some(Stake {
            claim,
            turn: Some(turn),
        }));
    }
    let claim = seek(core, want, patience, &mut turn.seeking).await?;
    Ok(claim.map(|claim| Stake {
        claim,
        turn: Some(turn),
    }))
}

async fn get_turn(core: &Arc<Core>, want: &Want, patience: Patience) -> Result<Option<Turn>> {
    if let Patience::Try = patience {
        return Ok(Local::try_join(core, &want.name));
    }
    match Local::join(core, &want.name) {
        Place::First(turn) => Ok(Some(turn)),
        Place::InLine(turn) => match bounded(core, patience, None, turn).await {
            // Turns are passed on, never dropped, while the session is open.
            Ok(turn) => turn.map(Some).map_err(|_| core.closed_error(doing(want))),
            Err(interrupt) => Err(interrupt.into_error(core, want, None)),
        },
    }
}

/// Seeks the claim in the store. The attempt lives in `seat`, where it stays if
/// the future is dropped: its owner decides whether to pass it on or let it go.
async fn seek(
    core: &Arc<Core>,
    want: &Want,
    patience: Patience,
    seat: &mut Option<Attempt>,
) -> Result<Option<Claim>> {
    let mut outage = Outage::default();
    loop {
        let now = core.clock.now();
        if seat
            .as_ref()
            .is_some_and(|attempt| attempt.term.is_over(now))
        {
            *seat = None;
        }
        let attempt = match seat {
            Some(attempt) => attempt,
            None => {
                let term = open_term(core, want, patience, &outage).await?;
                seat.insert(Attempt::new(core, want, patience, term))
            }
        };
        let term = attempt.term.clone();
        match bounded(core, patience, Some(&term), attempt.ask()).await {
            Ok(Ok(Standing::Held { token })) => {
                if let Some(claim) = seat.take().and_then(|attempt| attempt.granted(token)) {
                    return Ok(Some(claim));
                }
            }
            Ok(Ok(Standing::Waiting { .. } | Standing::MayBeFree)) => outage = Outage::heard(),
            Ok(Ok(Standing::Busy)) => {
                seat.take().into_iter().for_each(Attempt::dissolve);
                return Ok(None);
            }
            Ok(Ok(Standing::Gone)) => {
                // The lease or the claim died while we waited. The watchdog
                // finds out which; we enqueue anew, at the end of the queue.
                tracing::info!(lock = %want.name, "the claim is gone while waiting; enqueued anew");
                *seat = None;
                core.doubt.notify_one();
                outage.pause(core, patience, want).await?;
            }
            Ok(Err(error)) if error.is_passing() && !matches!(patience, Patience::Try) => {
                outage.note(core, error);
                if outage.is_too_long(core, patience) {
                    *seat = None;
                    return Err(outage.into_error());
                }
                outage.pause(core, patience, want).await?;
            }
            Ok(Err(error)) => {
                *seat = None;
                return Err(error);
            }
            Err(Interrupt::TermOver) => *seat = None,
            Err(interrupt) => {
                let trouble = outage.trouble(want);
                return Err(interrupt.into_error(core, want, trouble));
            }
        }
    }
}

/// The session's lease, waiting for a new one if it was lost.
async fn open_term(
    core: &Arc<Core>,
    want: &Want,
    patience: Patience,
    outage: &Outage,
) -> Result<Arc<Term>> {
    let patience = match patience {
        Patience::Until(_) => patience,
        Patience::Try | Patience::Wait => Patience::within(core, core.settings.patience),
    };
    let open = core.phases.until(open_now(core));
    bounded(core, patience, None, open)
        .await
        .map_err(|interrupt| {
            let trouble = match &outage.error {
                Some(error) => {
                    Error::new(error.kind(), doing(want), error.why()).effect_is(error.effect())
                }
                None => {
                    let why = "the session lost its lease and the store does not give a new one";
                    Error::new(ErrorKind::Unavailable, doing(want), why)
                }
            };
            interrupt.into_error(core, want, Some(trouble))
        })
}

/// Finds the lease in a phase that has one. A term past its deadline is as good
/// as none; the watchdog is about to notice.
fn open_now(core: &Core) -> impl Fn(&Phase) -> Option<Arc<Term>> {
    move |phase| match phase {
        Phase::Open(term) if !term.is_over(core.clock.now()) => Some(term.clone()),
        _ => None,
    }
}

fn doing(want: &Want) -> String {
    format!("lock {}", want.name)
}

/// Why a request was cut short by us.
enum Interrupt {
    Deadline,
    TermOver,
    Closed,
}

impl Interrupt {
    /// The trouble with the store, if that is why it took so long.
    fn into_error(self, core: &Core, want: &Want, trouble: Option<Error>) -> Error {
        match (self, trouble) {
            (Self::Closed, _) => core.closed_error(doing(want)),
            (_, Some(trouble)) => trouble,
            (_, None) => Error::new(
                ErrorKind::TimedOut,
                doing(want),
                "the lock is held elsewhere",
            ),
        }
    }
}

/// The request, unless the deadline, the end of the lease or the end of the
/// session comes first. The request is asked first, so an answer that is there
/// at once costs no timer.
async fn bounded<T>(
    core: &Core,
    patience: Patience,
    term: Option<&Arc<Term>>,
    request: impl Future<Output = T>,
) -> Result<T, Interrupt> {
    let deadline = async {
        match patience {
            Patience::Until(moment) => core.clock.sleep_until(moment).await,
            Patience::Try => {
                let limit = core.clock.now() + core.settings.patience;
                core.clock.sleep_until(limit).await;
            }
            Patience::Wait => std::future::pending().await,
        }
    };
    // One look at the session's life serves both: every request waits for it.
    let interrupt = core.phases.until(|phase| match (phase, term) {
        (Phase::Closed, _) => Some(Interrupt::Closed),
        (Phase::Open(open), Some(term)) if Arc::ptr_eq(open, term) => None,
        (_, Some(_)) => Some(Interrupt::TermOver),
        (_, None) => None,
    });
    tokio::select! {
        biased;
        answer = request => Ok(answer),
        interrupt = interrupt => Err(interrupt),
        () = deadline => Err(Interrupt::Deadline),
    }
}

/// A time in which the store does not answer.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Moment>,
    pauses: u32,
    error: Option<Error>,
    /// The store has told us our place.
    is_heard: bool,
}

impl Outage {
    /// None: the store has just answered.
    fn heard() -> Self {
        Self {
            is_heard: true,
            ..Self::default()
        }
    }

    /// Why the wait was in vain, if that is not simply others.
    fn trouble(self, want: &Want) -> Option<Error> {
        if self.error.is_some() || self.is_heard {
            return self.error;
        }
        let why = "the store did not answer in time";
        let error = Error::new(ErrorKind::Unavailable, doing(want), why);
        Some(error.effect_is(Effect::Unknown))
    }

    fn note(&mut self, core: &Core, error: Error) {
        self.since.get_or_insert(core.clock.now());
        self.error = Some(error);
    }

    /// A wait with a deadline goes on until then; one without gives up when the
    /// store has been out of reach for longer than the session's patience.
    fn is_too_long(&self, core: &Core, patience: Patience) -> bool {
        let lasted = self.since.map(|since| core.clock.now().since(since));
        !matches!(patience, Patience::Until(_))
            && lasted.is_some_and(|lasted| lasted >= core.settings.patience)
    }

    async fn pause(&mut self, core: &Core, patience: Patience, want: &Want) -> Result<()> {
        let (first, longest) = (Duration::from_millis(10), Duration::from_secs(1));
        let pause = backoff::pause(self.pauses, first, longest, random_u64());
        self.pauses += 1;
        match bounded(core, patience, None, tokio::time::sleep(pause)).await {
            Ok(()) => Ok(()),
            Err(interrupt) => Err(interrupt.into_error(core, want, self.error.take())),
        }
    }

    fn into_error(self) -> Error {
        self.error.unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "wait", "the store does not answer")
        })
    }
}
