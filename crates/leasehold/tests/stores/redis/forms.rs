//! A lock in Redis has two forms: one claim alone in the lock's own hash, or a
//! queue beside it. Nobody can tell the difference, on either side of a change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pools::REDIS;
use leasehold::conformance::Bench;
use leasehold::engine::{
    Cause, ClaimRef, Engine, Lease, Owner, Renewal, Standing, Ticket, TicketId, Together, Withdrawn,
};
use leasehold::rule::UNBOUNDED;
use leasehold::{ErrorKind, Lost, Name};
use testbed::Lent;
use testbed::redis::{RedisServer, text};

const LONG: Duration = Duration::from_secs(60);

/// A server and one session's engine and lease on it.
struct Stage {
    server: Lent<RedisServer>,
    engine: Arc<dyn Engine>,
    lease: Lease,
}

impl Stage {
    async fn set(ttl: Duration) -> Self {
        let server = REDIS.take();
        let engine = Bench::new(&server.url()).await.unwrap().engine().await;
        let lease = engine.open(&Owner::new("forms"), ttl).await.unwrap();
        Self {
            server,
            engine,
            lease,
        }
    }

    /// A claim on the mutex `x`.
    fn ticket(&self, number: u128) -> Ticket {
        Ticket {
            claim: ClaimRef {
                name: Name::new("x").unwrap(),
                id: TicketId(number),
            },
            lease: self.lease.id,
            holder: 1,
            capacity: 1,
            weight: 1,
            waits: true,
            label: None,
        }
    }

    /// The token of a claim that holds.
    async fn token(&self, ticket: &Ticket) -> u64 {
        match self.engine.enqueue(ticket).await.unwrap() {
            Standing::Held { token } => token.get(),
            other => panic!("{other:?}"),
        }
    }

    async fn waits(&self, ticket: &Ticket) {
        let standing = self.engine.enqueue(ticket).await.unwrap();
        assert!(matches!(standing, Standing::Waiting { .. }), "{standing:?}");
    }

    async fn withdraw(&self, ticket: &Ticket) -> Withdrawn {
        let withdrawn = self.engine.withdraw(&ticket.claim, Cause::Ours).await;
        withdrawn.unwrap()
    }

    /// The claims that a renewal does not find.
    async fn gone(&self) -> Vec<(TicketId, Lost)> {
        match self.engine.renew(&self.lease).await.unwrap() {
            Renewal::Renewed { gone } => gone.iter().map(|gone| (gone.id, gone.lost)).collect(),
            Renewal::NotRenewed { .. } => panic!("the server does not answer"),
            Renewal::LeaseGone => panic!("the lease is gone"),
        }
    }

    /// The tickets of the live claims, in order.
    async fn queue(&self) -> Vec<u128> {
        let queue = self.engine.queue(&Name::new("x").unwrap()).await.unwrap();
        queue.claims.iter().map(|claim| claim.id.0).collect()
    }

    async fn names(&self) -> usize {
        self.engine.names("").await.unwrap().len()
    }

    fn has_queue(&self) -> bool {
        let found = self.server.tell("EXISTS lh:{x}:q lh:{x}:c");
        assert_ne!(found, "1", "both or none");
        found == "2"
    }

    /// How long the keys of the lock live, in milliseconds.
    fn lifetimes(&self) -> Vec<i64> {
        let keys = self.server.tell("KEYS lh:*");
        let lifetime = |key: &str| self.server.tell(&format!("PTTL {key}")).parse().unwrap();
        keys.lines().map(lifetime).collect()
    }
}

#[testbed::test]
async fn a_lock_has_a_queue_only_while_there_is_a_second_claim() {
    let stage = Stage::set(LONG).await;
    let [a, b, c] = [1, 2, 3].map(|number| stage.ticket(number));
    let first = stage.token(&a).await;
    assert!(!stage.has_queue());
    stage.waits(&b).await;
    assert!(stage.has_queue());
    // In its new place the claim is the one it was.
    assert_eq!(stage.token(&a).await, first);
    assert_eq!(stage.queue().await, [1, 2]);
    assert_eq!(stage.gone().await, []);
    assert!(stage.lifetimes().iter().all(|left| *left > 60_000));
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Removed);
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Absent);
    let second = stage.token(&b).await;
    assert_eq!(stage.withdraw(&b).await, Withdrawn::Removed);
    assert!(!stage.has_queue());
    assert_eq!(stage.names().await, 0);
    // All that is left is the last order, and not for ever.
    assert_eq!(stage.server.tell("HKEYS lh:{x}"), "last");
    assert!(stage.lifetimes().iter().all(|left| *left > 60_000));
    let third = stage.token(&c).await;
    assert!(!stage.has_queue());
    assert!(first + 32 <= second && second + 32 <= third);
}

#[testbed::test]
async fn a_claim_alone_is_found_again_listed_and_renewed() {
    let stage = Stage::set(LONG).await;
    let a = stage.ticket(1);
    let token = stage.token(&a).await;
    assert_eq!(stage.token(&a).await, token);
    assert_eq!(stage.names().await, 1);
    let look = || async {
        let queue = stage.engine.queue(&a.claim.name).await.unwrap();
        assert_eq!((queue.capacity, queue.claims.len()), (1, 1));
        let claim = queue.claims[0].clone();
        assert!(claim.is_holder && claim.token.unwrap().get() == token);
        assert!(claim.owner.to_string().contains("forms"));
        claim
    };
    let started = Instant::now();
    let before = look().await;
    while look().await.time_left >= before.time_left {
        assert!(started.elapsed() < LONG, "time passes");
    }
    assert_eq!(stage.gone().await, []);
    let after = look().await;
    assert!(after.age >= before.age);
    assert!(after.time_left + started.elapsed() >= LONG);
    assert!(!stage.has_queue());
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Removed);
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Absent);
    assert_eq!(stage.names().await, 0);
}

#[testbed::test]
async fn a_claim_alone_is_broken_and_told_why() {
    let stage = Stage::set(LONG).await;
    let a = stage.ticket(1);
    let token = stage.token(&a).await;
    let cause = Cause::Evicted {
        by: "ann",
        reason: "too long",
    };
    let withdraw = || stage.engine.withdraw(&a.claim, cause);
    assert_eq!(withdraw().await.unwrap(), Withdrawn::Removed);
    assert_eq!(withdraw().await.unwrap(), Withdrawn::Absent);
    assert_eq!(stage.gone().await, [(a.claim.id, Lost::Evicted)]);
    let queue = stage.engine.queue(&a.claim.name).await.unwrap();
    assert!(queue.claims.is_empty());
    let [eviction] = &queue.evictions[..] else {
        panic!("{queue:?}");
    };
    assert_eq!(eviction.token.get(), token);
    assert_eq!((&*eviction.by, &*eviction.reason), ("ann", "too long"));
    assert!(stage.token(&stage.ticket(2)).await >= token + 32);
}

#[testbed::test]
async fn a_claim_alone_that_expired_is_in_nobodys_way() {
    let stage = Stage::set(Duration::from_millis(200)).await;
    let [a, b] = [1, 2].map(|number| stage.ticket(number));
    let token = stage.token(&a).await;
    let started = Instant::now();
    while stage.names().await == 1 {
        assert!(started.elapsed() < LONG, "it expires");
    }
    assert_eq!(stage.queue().await, []);
    // The record is there still; it does not come back by a renewal.
    assert_eq!(stage.server.tell("HLEN lh:{x}"), "2");
    assert_eq!(stage.gone().await, [(a.claim.id, Lost::Gone)]);
    assert!(stage.token(&b).await >= token + 32);
    assert!(!stage.has_queue());
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Absent);
    // Nor was the other claim touched by that.
    let fields = stage.server.tell("HKEYS lh:{x}");
    assert!(fields.contains(&format!("{:032x}", 2)), "{fields}");
}

#[testbed::test]
async fn a_holder_that_expired_under_a_queue_makes_way() {
    // Until the other has come behind it, on a busy machine too.
    let stage = Stage::set(Duration::from_secs(5)).await;
    let long = stage.engine.open(&Owner::new("long"), LONG).await.unwrap();
    let [a, b] = [1, 2].map(|number| stage.ticket(number));
    let token = stage.token(&a).await;
    let b = Ticket {
        lease: long.id,
        ..b
    };
    stage.waits(&b).await;
    let started = Instant::now();
    let next = loop {
        match stage.engine.enqueue(&b).await.unwrap() {
            Standing::Held { token } => break token.get(),
            _ => assert!(started.elapsed() < LONG, "it expires"),
        }
    };
    assert!(next >= token + 32);
    assert_eq!(stage.queue().await, [2]);
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Absent);
    assert_eq!(stage.withdraw(&b).await, Withdrawn::Removed);
    assert!(!stage.has_queue());
}

#[testbed::test]
async fn a_refused_claim_changes_nothing() {
    let stage = Stage::set(LONG).await;
    let [a, b] = [1, 2].map(|number| stage.ticket(number));
    let token = stage.token(&a).await;
    let before = stage.server.tell("HGETALL lh:{x}");
    let tried = Ticket {
        waits: false,
        ..b.clone()
    };
    assert!(matches!(
        stage.engine.enqueue(&tried).await.unwrap(),
        Standing::Busy
    ));
    let other = Ticket { capacity: 2, ..b };
    let error = stage.engine.enqueue(&other).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(stage.server.tell("HGETALL lh:{x}"), before);
    assert!(!stage.has_queue());
    // A try that was granted is found again too, with others behind it.
    stage.waits(&stage.ticket(3)).await;
    let again = Ticket { waits: false, ..a };
    assert_eq!(stage.token(&again).await, token);
}

#[testbed::test]
async fn a_claim_taken_with_others_is_not_granted_again_once_it_expired() {
    let stage = Stage::set(Duration::from_millis(200)).await;
    let tickets = [Ticket {
        waits: false,
        ..stage.ticket(1)
    }];
    let ask = || async { stage.engine.enqueue_all(&tickets).await.unwrap() };
    let first = ask().await;
    let Together::Held(tokens) = first else {
        panic!("{first:?}");
    };
    let started = Instant::now();
    // Asking twice is asking once, as long as the claim lives.
    loop {
        match ask().await {
            Together::Held(again) => assert_eq!(again, tokens),
            other => break assert!(matches!(other, Together::Separately), "{other:?}"),
        }
        assert!(started.elapsed() < LONG, "it expires");
    }
    assert!(stage.token(&tickets[0]).await >= tokens[0].get() + 32);
}

#[testbed::test]
async fn readers_share_and_the_first_one_leaves_first() {
    let stage = Stage::set(LONG).await;
    let claim = |number, weight| Ticket {
        capacity: UNBOUNDED,
        weight,
        ..stage.ticket(number)
    };
    let (a, b, writer, c) = (claim(1, 1), claim(2, 1), claim(3, UNBOUNDED), claim(4, 1));
    stage.token(&a).await;
    stage.token(&b).await;
    stage.waits(&writer).await;
    stage.waits(&c).await;
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Removed);
    stage.waits(&writer).await;
    assert_eq!(stage.withdraw(&b).await, Withdrawn::Removed);
    stage.token(&writer).await;
    stage.waits(&c).await;
    assert_eq!(stage.withdraw(&writer).await, Withdrawn::Removed);
    stage.token(&c).await;
    assert_eq!(stage.queue().await, [4]);
}

#[testbed::test]
async fn a_queue_whose_lock_was_lost_does_not_come_back() {
    let stage = Stage::set(LONG).await;
    let [a, b, c, d] = [1, 2, 3, 4].map(|number| stage.ticket(number));
    let token = stage.token(&a).await;
    stage.waits(&b).await;
    stage.server.tell("DEL lh:{x}");
    assert_eq!(stage.names().await, 0);
    // Those who hold hear of it; those who wait look, and find nothing.
    assert_eq!(stage.gone().await, [(a.claim.id, Lost::Gone)]);
    assert!(stage.token(&c).await > token);
    stage.waits(&d).await;
    assert_eq!(stage.queue().await, [3, 4]);
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Absent);
    assert_eq!(stage.withdraw(&c).await, Withdrawn::Removed);
    stage.token(&d).await;
}

#[testbed::test]
async fn a_claim_that_is_in_one_of_the_two_keys_only_is_dead() {
    let stage = Stage::set(LONG).await;
    for lost in ["lh:{x}:q", "lh:{x}:c"] {
        let [a, b, c] = [1, 2, 3].map(|number| stage.ticket(number));
        let token = stage.token(&a).await;
        stage.waits(&b).await;
        stage.server.tell(&format!("DEL {lost}"));
        assert_eq!(stage.queue().await, []);
        assert_eq!(stage.names().await, 0);
        assert_eq!(stage.gone().await, [(a.claim.id, Lost::Gone)]);
        assert!(stage.token(&c).await >= token + 32, "{lost}");
        assert!(!stage.has_queue());
        assert_eq!(stage.queue().await, [3]);
        for ticket in [&a, &b] {
            assert_eq!(stage.withdraw(ticket).await, Withdrawn::Absent);
        }
        assert_eq!(stage.withdraw(&c).await, Withdrawn::Removed);
    }
}

/// The server's clock cannot be moved here; a record from an hour ahead is what
/// one finds after it was set back.
#[testbed::test]
async fn a_clock_that_was_set_back_ends_no_claim_and_repeats_no_token() {
    let stage = Stage::set(LONG).await;
    const HOUR: u64 = 3_600_000;
    let a = stage.ticket(1);
    let token = stage.token(&a).await;
    let ahead = token + HOUR * 1000;
    let field = format!("{:032x}", 1);
    let claim = text(&stage.server.command(&["HGET", "lh:{x}", &field]));
    let (expires, rest) = claim.split_once(' ').unwrap();
    let (_, rest) = rest.split_once(' ').unwrap();
    let claim = format!("{expires} {ahead} {rest}");
    let memory = format!("{ahead} {}", ahead / 1000 + 120_000);
    stage
        .server
        .command(&["HSET", "lh:{x}", &field, &claim, "last", &memory]);
    assert_eq!(stage.token(&a).await, ahead);
    assert_eq!(stage.names().await, 1);
    assert_eq!(stage.gone().await, []);
    assert_eq!(stage.queue().await, [1]);
    // It goes on to be one when others come.
    let b = stage.ticket(2);
    stage.waits(&b).await;
    assert_eq!(stage.gone().await, []);
    assert_eq!(stage.queue().await, [1, 2]);
    assert_eq!(stage.withdraw(&a).await, Withdrawn::Removed);
    assert!(stage.token(&b).await >= ahead + 32);
    assert_eq!(stage.withdraw(&b).await, Withdrawn::Removed);
    // The order is remembered until the clock is past it.
    let lifetimes = stage.lifetimes();
    let least = i64::try_from(HOUR).unwrap() + 60_000;
    assert!(!lifetimes.is_empty() && lifetimes.iter().all(|left| *left > least));
    assert!(stage.token(&stage.ticket(3)).await >= ahead + 64);
}
