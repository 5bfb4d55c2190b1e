//! `leasehold watch`: a line for every event. The store is looked at five times
//! a second; what begins and ends in between goes unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use leasehold::engine::{Claimant, Queue, TicketId};
use leasehold::{Inspector, Name};
use serde::Serialize;

use crate::args::{Common, Watch};
use crate::exit::{self, Failure};
use crate::print::{self, Console};
use crate::show::time;
use crate::signals::Signals;
use crate::store;
use crate::view::{self, OwnerView};

const PAUSE: Duration = Duration::from_millis(200);

/// Something that happened to a claim.
#[derive(Debug, Serialize)]
struct Event {
    /// Milliseconds since 1970.
    at_ms: u64,
    event: What,
    name: String,
    owner: OwnerView,
    token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Held,
    Released,
    Waiting,
    /// A claim left the queue before its turn came.
    Left,
    /// The lease of a holder ran out.
    Lost,
    Evicted,
}

/// The locks as they were seen last.
type Seen = BTreeMap<Name, Queue>;

pub(crate) async fn watch(common: &Common, args: &Watch, console: Console) -> Result<u8, Failure> {
    let mut signals = Signals::catch()?;
    let inspector = leasehold::inspect(&store::url(common)?).await?;
    let end = args.duration.map(|duration| Instant::now() + duration);
    let mut before = Seen::new();
    loop {
        let now = look(&inspector, &args.pattern, &before).await?;
        for event in changes(&before, &now) {
            tell(&event, console)?;
        }
        before = now;
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(exit::OK);
        }
        tokio::select! {
            biased;
            // Ending a watch is not a failure of it.
            _ = signals.end() => return Ok(exit::OK),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// The locks as they are; those that were seen before also if they are free
/// now, because they may have been broken.
async fn look(inspector: &Inspector, pattern: &str, before: &Seen) -> leasehold::Result<Seen> {
    let mut names: BTreeSet<_> = view::names(inspector, pattern).await?.into_iter().collect();
    let in_use = before.iter().filter(|(_, queue)| !queue.claims.is_empty());
    names.extend(in_use.map(|(name, _)| name.clone()));
    let mut seen = Seen::new();
    for name in names {
        let queue = inspector.queue(&name).await?;
        seen.insert(name, queue);
    }
    Ok(seen)
}

fn changes(before: &Seen, now: &Seen) -> Vec<Event> {
    let mut events = Vec::new();
    let nothing = Queue::default();
    for (name, queue) in now {
        let earlier = before.get(name).unwrap_or(&nothing);
        let (old, new) = (by_id(earlier), by_id(queue));
        for claimant in earlier
            .claims
            .iter()
            .filter(|claimant| !new.contains_key(&claimant.id))
        {
            events.push(gone(name, claimant, queue));
        }
        for claimant in &queue.claims {
            let held_before = old.get(&claimant.id).map(|claimant| claimant.is_holder);
            match (held_before, claimant.is_holder) {
                (None | Some(false), true) => events.push(Event::new(What::Held, name, claimant)),
                (None, false) => events.push(Event::new(What::Waiting, name, claimant)),
                _ => {}
            }
        }
    }
    events
}

fn by_id(queue: &Queue) -> BTreeMap<TicketId, &Claimant> {
    queue
        .claims
        .iter()
        .map(|claimant| (claimant.id, claimant))
        .collect()
}

/// Why a claim is no longer there.
fn gone(name: &Name, claimant: &Claimant, now: &Queue) -> Event {
    if !claimant.is_holder {
        return Event::new(What::Left, name, claimant);
    }
    let eviction = now
        .evictions
        .iter()
        .find(|eviction| Some(eviction.token) == claimant.token);
    if let Some(eviction) = eviction {
        let by = Some(eviction.by.clone());
        let reason = Some(eviction.reason.clone());
        return Event {
            by,
            reason,
            ..Event::new(What::Evicted, name, claimant)
        };
    }
    // A healthy holder never comes near the end of its lease.
    let ran_out = claimant.time_left <= 2 * PAUSE;
    Event::new(
        if ran_out { What::Lost } else { What::Released },
        name,
        claimant,
    )
}

impl Event {
    fn new(event: What, name: &Name, claimant: &Claimant) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            at_ms: print::millis(now.unwrap_or_default()),
            event,
            name: name.as_str().to_owned(),
            owner: OwnerView::new(&claimant.owner),
            token: claimant.token.map(u64::from),
            by: None,
            reason: None,
        }
    }
}

fn tell(event: &Event, console: Console) -> Result<(), Failure> {
    if console.json {
        return print::json_line(event);
    }
    let at = time(Duration::from_millis(event.at_ms));
    let what = match event.event {
        What::Held => "held",
        What::Released => "released",
        What::Waiting => "waiting",
        What::Left => "left",
        What::Lost => "lost",
        What::Evicted => "evicted",
    };
    let OwnerView { host, pid, label } = &event.owner;
    let label = if label.is_empty() {
        String::new()
    } else {
        format!(" ({label})")
    };
    let token = event
        .token
        .map_or_else(String::new, |token| format!(", token {token}"));
    let why = match (&event.by, &event.reason) {
        (Some(by), Some(reason)) => format!(", by {by}: {reason}"),
        _ => String::new(),
    };
    let line = format!(
        "{at} {what:8} {} {host}:{pid}{label}{token}{why}",
        event.name
    );
    print::text(&format!("{}\n", print::clean(&line)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::engine::Eviction;
    use leasehold::{Owner, Token};

    fn claimant(id: u128, token: Option<u64>, left_ms: u64) -> Claimant {
        Claimant {
            id: TicketId(id),
            owner: Owner::seen("host", 1, ""),
            session: None,
            is_holder: token.is_some(),
            weight: 1,
            token: token.map(Token::new),
            holder: 0,
            age: Duration::ZERO,
            time_left: Duration::from_millis(left_ms),
        }
    }

    fn seen(claims: Vec<Claimant>, evicted: &[u64]) -> Seen {
        let eviction = |token: &u64| Eviction {
            owner: Owner::seen("host", 1, ""),
            token: Token::new(*token),
            by: "me".into(),
            reason: "stuck".into(),
            at: Duration::ZERO,
        };
        let evictions = evicted.iter().map(eviction).collect();
        let queue = Queue {
            capacity: 1,
            claims,
            evictions,
        };
        Seen::from([(Name::new("x").unwrap(), queue)])
    }

    fn events(before: &Seen, now: &Seen) -> Vec<What> {
        changes(before, now)
            .into_iter()
            .map(|event| event.event)
            .collect()
    }

    #[test]
    fn every_way_to_come_and_go_is_an_event() {
        let held = || seen(vec![claimant(1, Some(7), 9000)], &[]);
        let queued = seen(
            vec![claimant(1, Some(7), 9000), claimant(2, None, 9000)],
            &[],
        );
        let next = seen(vec![claimant(2, Some(8), 9000)], &[]);
        assert_eq!(events(&Seen::new(), &queued), [What::Held, What::Waiting]);
        assert_eq!(events(&queued, &next), [What::Released, What::Held]);
        assert_eq!(events(&queued, &held()), [What::Left]);
        assert_eq!(events(&held(), &seen(vec![], &[7])), [What::Evicted]);
        assert_eq!(
            events(
                &seen(vec![claimant(1, Some(7), 90)], &[]),
                &seen(vec![], &[])
            ),
            [What::Lost]
        );
        assert_eq!(events(&held(), &held()), []);
    }
}
