//! Who leads, looked at all the time. Sentinels put another in the place of a
//! primary that they do not hear of: where a fault made them, but on a busy
//! machine also some time after it, or where there was none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::history::{Moment, now};
use testbed::redis::text;

/// How often.
const EVERY: Duration = Duration::from_millis(100);
/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long it may take at the end of a run until all agree again.
const LONGEST: Duration = Duration::from_secs(30);

/// Looks until it is dropped.
#[derive(Debug)]
pub(super) struct Lookout {
    is_over: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

/// What one look saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// All Sentinels name this primary, in this epoch, and it alone leads.
    Settled { primary: u16, epoch: u64 },
    /// More than one server says that it leads.
    Two,
    /// Anything else, such as no answer: it proves nothing.
    Unclear,
}

/// PURE: the switches that looks amount to.
#[derive(Debug, Default)]
struct Seen {
    /// When the last look began that found all settled, and what it found.
    settled: Option<(Moment, Look)>,
    /// Whether two led since then.
    two: bool,
    /// From when to when another may have led.
    switches: Vec<(Moment, Moment)>,
}

impl Seen {
    fn take(&mut self, (begin, end): (Moment, Moment), look: Look) {
        match look {
            Look::Unclear => {}
            Look::Two => self.two = true,
            Look::Settled { .. } => {
                if let Some((since, before)) = self.settled
                    && (self.two || before != look)
                {
                    self.switches.push((since, end));
                }
                self.two = false;
                self.settled = Some((begin, look));
            }
        }
    }

    /// All of them; one that has not ended yet goes on until now.
    fn until(&self, now: Moment) -> Vec<(Moment, Moment)> {
        let open = self.settled.filter(|_| self.two);
        let open = open.map(|(since, _)| (since, now));
        self.switches.iter().copied().chain(open).collect()
    }

    fn is_settled_since(&self, moment: Moment) -> bool {
        self.settled.is_some_and(|(since, _)| since >= moment)
    }
}

impl Lookout {
    /// Begins to look at these Sentinels and servers, by their ports.
    pub(super) fn start(name: &'static str, sentinels: Vec<u16>, servers: Vec<u16>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (ends, tells) = (is_over.clone(), seen.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let begin = now();
                let look = look(name, &sentinels, &servers);
                let mut seen = tells.lock().unwrap_or_else(PoisonError::into_inner);
                seen.take((begin, now()), look);
                drop(seen);
                std::thread::sleep(EVERY);
            }
        });
        Self {
            is_over,
            seen,
            thread: Some(thread),
        }
    }

    /// All switches so far, when all is settled again, or not within a while.
    pub(super) fn switches(&self) -> Vec<(Moment, Moment)> {
        let (asked, deadline) = (now(), Instant::now() + LONGEST);
        loop {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.is_settled_since(asked) || Instant::now() > deadline {
                return seen.until(now());
            }
            drop(seen);
            std::thread::sleep(EVERY);
        }
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn look(name: &str, sentinels: &[u16], servers: &[u16]) -> Look {
    let votes: Option<Vec<_>> = sentinels.iter().map(|&port| vote(name, port)).collect();
    let roles: Option<Vec<_>> = servers.iter().map(|&port| role(port)).collect();
    let Some(roles) = roles else {
        return Look::Unclear;
    };
    let leads = |role: &&Role| matches!(role, Role::Leads);
    if roles.iter().filter(leads).count() > 1 {
        return Look::Two;
    }
    let Some((primary, epoch)) = votes.and_then(|votes| unanimous(&votes)) else {
        return Look::Unclear;
    };
    let is_settled = servers.iter().zip(&roles).all(|(&port, role)| match role {
        Role::Leads => port == primary,
        Role::Follows(leader) => port != primary && *leader == primary,
        Role::Dead => port != primary,
    });
    match is_settled {
        true => Look::Settled { primary, epoch },
        false => Look::Unclear,
    }
}

fn unanimous(votes: &[(u16, u64)]) -> Option<(u16, u64)> {
    let first = *votes.first()?;
    votes.iter().all(|vote| *vote == first).then_some(first)
}

/// What a server says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Leads,
    Follows(u16),
    Dead,
}

/// Whom a Sentinel calls the primary, and since which epoch.
fn vote(name: &str, port: u16) -> Option<(u16, u64)> {
    let fields = ask(port, &["SENTINEL", "MASTER", name]).ok()?;
    let fields: Vec<&str> = fields.lines().collect();
    let field = |name: &str| {
        let mut pairs = fields.chunks_exact(2);
        pairs.find(|pair| pair[0] == name).map(|pair| pair[1])
    };
    let epoch = field("config-epoch")?.parse().ok()?;
    Some((field("port")?.parse().ok()?, epoch))
}

/// None if it is there and does not say.
fn role(port: u16) -> Option<Role> {
    let info = match ask(port, &["INFO", "replication"]) {
        Ok(info) => info,
        Err(error) => return error.is_connection_refusal().then_some(Role::Dead),
    };
    let field = |name: &str| {
        let mut pairs = info.lines().filter_map(|line| line.trim().split_once(':'));
        pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
    };
    match field("role")? {
        "master" => Some(Role::Leads),
        _ => Some(Role::Follows(field("master_port")?.parse().ok()?)),
    }
}

fn ask(port: u16, words: &[&str]) -> redis::RedisResult<String> {
    let client = redis::Client::open(("127.0.0.1", port))?;
    let mut connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let answer = redis::Cmd::new().arg(words).query(&mut connection)?;
    Ok(text(&answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(primary: u16, epoch: u64) -> Look {
        Look::Settled { primary, epoch }
    }

    fn switches(looks: &[Look]) -> Vec<(Moment, Moment)> {
        let mut seen = Seen::default();
        for (number, &look) in looks.iter().enumerate() {
            let begin = 10 * number as u64;
            seen.take((begin, begin + 5), look);
        }
        seen.switches
    }

    #[test]
    fn a_switch_lasts_from_the_last_settled_look_to_the_next_one() {
        let one = settled(1, 0);
        let looks = [one, one, Look::Unclear, Look::Unclear, settled(2, 1)];
        assert_eq!(switches(&looks), [(10, 45)]);
        // There and back: the epoch tells.
        assert_eq!(switches(&[one, Look::Unclear, settled(1, 2)]), [(0, 25)]);
        // The old one came back and led on for a while.
        assert_eq!(switches(&[one, Look::Two, Look::Unclear, one]), [(0, 35)]);
    }

    #[test]
    fn a_server_that_did_not_answer_is_no_switch() {
        let one = settled(1, 0);
        assert_eq!(switches(&[one, Look::Unclear, one]), []);
        assert_eq!(switches(&[Look::Two, one, one]), []);
    }

    #[test]
    fn a_switch_that_does_not_end_lasts_until_now() {
        let mut seen = Seen::default();
        seen.take((0, 5), settled(1, 0));
        assert_eq!(seen.until(90), []);
        seen.take((10, 15), Look::Two);
        assert_eq!(seen.until(90), [(0, 90)]);
    }
}
