//! Who holds on servers that know nothing of each other: whoever has the lock on
//! most of them. Each is asked by itself, and what is known of each is kept apart:
//! a claim that is on two servers now and on three others a moment later has never
//! had most of them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;

use super::LOCK;
use super::witness::LONGEST;
use crate::history::{Event, Moment, now};
use crate::story::Error;

/// The servers, and what is known of them.
pub(super) struct Voters {
    servers: Vec<Server>,
    votes: Votes,
}

struct Server {
    client: redis::Client,
    connection: Option<MultiplexedConnection>,
}

impl Voters {
    pub(super) fn new(ports: &[u16]) -> Result<Self, Error> {
        let server = |port: &u16| {
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
            let connection = None;
            Ok::<_, Error>(Server { client, connection })
        };
        Ok(Self {
            servers: ports.iter().map(server).collect::<Result<_, _>>()?,
            votes: Votes::of(ports.len()),
        })
    }

    /// Looks at all servers at once. Gives the claims that none has any more.
    pub(super) async fn look(&mut self) -> Result<Vec<Event>, String> {
        // Those that are away must not cost what the others say.
        let looks = self.servers.iter_mut().map(async |server| {
            let look = tokio::time::timeout(LONGEST / 2, server.look()).await;
            look.unwrap_or_else(|_| Err("no answer".into()))
        });
        let (mut failed, mut needed) = (None, self.votes.needed);
        for (number, look) in join_all(looks).await.into_iter().enumerate() {
            match look {
                Ok(look) => {
                    self.votes.take(number, look);
                    needed = needed.saturating_sub(1);
                }
                Err(error) => {
                    // It is made anew: one of a server that died stays so.
                    self.servers[number].connection = None;
                    failed = Some(format!("server {}: {error}", number + 1));
                }
            }
        }
        match failed.filter(|_| needed > 0) {
            // What some of them said is kept, and told later.
            Some(why) => Err(why),
            None => Ok(self.votes.gone()),
        }
    }

    pub(super) fn close(&mut self) -> Vec<Event> {
        self.votes.close()
    }
}

impl Server {
    async fn look(&mut self) -> Result<Look, String> {
        let text = |error: redis::RedisError| error.to_string();
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let coming = self.client.get_multiplexed_async_connection();
                self.connection.insert(coming.await.map_err(text)?)
            }
        };
        let mut both = redis::cmd("MGET");
        both.arg(LOCK).arg(format!("lh:r:{LOCK}"));
        let sent = now();
        let answer = both.query_async(connection).await;
        let (id, note): (Option<String>, Option<String>) = answer.map_err(text)?;
        let grant = id
            .as_deref()
            .zip(note.as_deref())
            .and_then(|(id, note)| read(id, note));
        Ok(Look {
            sent,
            answered: now(),
            id,
            grant,
        })
    }
}

/// PURE: what the note of a lock says of the claim with this id: its holder and
/// its token. See the store's page for the fields.
fn read(id: &str, note: &str) -> Option<(u64, u64)> {
    let mut fields = note.split(' ').skip(1);
    let is_of_it = fields.next()? == id;
    let token = fields.next()?.parse().ok()?;
    let holder = fields.next()?.parse().ok()?;
    is_of_it.then_some((holder, token))
}

/// What one server said.
#[derive(Debug, Clone, Default)]
struct Look {
    sent: Moment,
    answered: Moment,
    /// Which claim has the lock there. Each attempt has an id of its own, which
    /// comes to a server once.
    id: Option<String>,
    /// Its holder and token, as far as the server knows.
    grant: Option<(u64, u64)>,
}

/// PURE: which claim was seen where, from when to when.
#[derive(Debug)]
struct Votes {
    needed: usize,
    claims: BTreeMap<String, Claim>,
}

#[derive(Debug, Default)]
struct Claim {
    spans: BTreeMap<usize, (Moment, Moment)>,
    /// The servers that had it when they were last asked.
    on: BTreeSet<usize>,
    /// Its holder and token, as each server knew them last.
    grants: BTreeMap<usize, (u64, u64)>,
}

impl Votes {
    fn of(count: usize) -> Self {
        Self {
            needed: count / 2 + 1,
            claims: BTreeMap::new(),
        }
    }

    fn take(&mut self, server: usize, look: Look) {
        for claim in self.claims.values_mut() {
            claim.on.remove(&server);
        }
        let Some(id) = look.id else {
            return;
        };
        let claim = self.claims.entry(id).or_default();
        let first = (look.answered, look.sent);
        claim.spans.entry(server).or_insert(first).1 = look.sent;
        claim.on.insert(server);
        if let Some(grant) = look.grant {
            claim.grants.insert(server, grant);
        }
    }

    /// Gives the claims that no server has any more.
    fn gone(&mut self) -> Vec<Event> {
        let gone = self.claims.extract_if(.., |_, claim| claim.on.is_empty());
        let needed = self.needed;
        gone.filter_map(|(_, claim)| claim.seen(needed)).collect()
    }

    fn close(&mut self) -> Vec<Event> {
        let claims = std::mem::take(&mut self.claims).into_values();
        claims.filter_map(|claim| claim.seen(self.needed)).collect()
    }
}

impl Claim {
    /// What so many servers agree on: some may know only of a token that was guessed
    /// in vain.
    fn granted(&self, needed: usize) -> Option<(u64, u64)> {
        let agree = |one: &&(u64, u64)| self.grants.values().filter(|it| it == one).count();
        self.grants
            .values()
            .find(|one| agree(one) >= needed)
            .copied()
    }

    /// From when to when so many servers certainly had it at the same time.
    fn seen(&self, needed: usize) -> Option<Event> {
        let (holder, token) = self.granted(needed)?;
        let spans = || self.spans.values().filter(|(from, to)| from < to);
        let begins = |at: &Moment| spans().filter(|it| it.0 <= *at && *at < it.1).count();
        let ends = |at: &Moment| spans().filter(|it| it.0 < *at && *at <= it.1).count();
        let from = spans().map(|it| it.0);
        let to = spans().map(|it| it.1);
        Some(Event::Seen {
            name: LOCK.to_owned(),
            holder,
            token: Some(token),
            from: from.filter(|at| begins(at) >= needed).min()?,
            to: to.filter(|at| ends(at) >= needed).max()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(sent: Moment, id: &str) -> Look {
        Look {
            sent,
            answered: sent + 2,
            id: (!id.is_empty()).then(|| id.to_owned()),
            grant: (!id.is_empty()).then_some((7, 9)),
        }
    }

    fn votes(looks: &[(usize, Moment, &str)]) -> Vec<Event> {
        let mut votes = Votes::of(3);
        for &(server, sent, id) in looks {
            votes.take(server, look(sent, id));
        }
        votes.gone()
    }

    #[test]
    fn a_claim_holds_while_most_servers_have_it_at_once() {
        let looks = [
            (0, 10, "a"),
            (1, 20, "a"),
            (0, 30, "a"),
            (1, 40, "a"),
            (0, 50, ""),
            (1, 60, ""),
        ];
        let seen = Event::Seen {
            name: LOCK.to_owned(),
            holder: 7,
            token: Some(9),
            from: 22,
            to: 30,
        };
        assert_eq!(votes(&looks), [seen]);
    }

    #[test]
    fn a_claim_that_is_here_and_then_there_has_never_had_most() {
        let looks = [
            (0, 10, "a"),
            (0, 20, "a"),
            (0, 30, "b"),
            (1, 40, "a"),
            (1, 50, "a"),
            (1, 60, ""),
            (0, 70, ""),
        ];
        assert_eq!(votes(&looks), []);
    }

    #[test]
    fn a_server_that_does_not_answer_keeps_what_it_had() {
        let both = [(0, 10, "a"), (1, 10, "a"), (0, 30, "a"), (1, 30, "a")];
        assert_eq!(votes(&both), [], "it is there still");
        let one = [&both[..], &[(0, 40, "")]].concat();
        assert_eq!(votes(&one), [], "nobody knows of the other one");
        let none = [&one[..], &[(1, 50, "")]].concat();
        assert_eq!(votes(&none).len(), 1);
    }

    #[test]
    fn a_token_that_one_server_knows_was_guessed() {
        let mut votes = Votes::of(3);
        for (server, token) in [(0, 9), (1, 41), (2, 41)] {
            for sent in [10, 20] {
                let grant = Some((7, token));
                votes.take(
                    server,
                    Look {
                        grant,
                        ..look(sent, "a")
                    },
                );
            }
        }
        let seen = votes.close();
        assert!(matches!(
            seen[..],
            [Event::Seen {
                token: Some(41),
                ..
            }]
        ));
    }

    #[test]
    fn a_note_tells_of_its_own_claim_only() {
        let note = "64 ab 33 7 1700000000000 12 host label 0f";
        assert_eq!(read("ab", note), Some((7, 33)));
        assert_eq!(read("cd", note), None);
        assert_eq!(read("ab", "64"), None);
    }
}
