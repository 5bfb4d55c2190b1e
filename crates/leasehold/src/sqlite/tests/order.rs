//! Who comes next, and how soon it is told.

use super::super::database::Doing;
use super::super::{claims, queue};
use super::*;
use crate::error::ErrorKind;
use crate::rule::{UNBOUNDED, Watch};

#[tokio::test]
async fn three_who_wait_are_served_in_order_of_arrival() {
    let bench = Bench::new();
    let holder = bench.party().await;
    let held = holder.ticket("a");
    let mut last = holder.lock(&held).await.unwrap();
    let mut queue = vec![(holder, held)];
    for _ in 0..3 {
        let party = bench.party().await;
        let ticket = party.ticket("a");
        assert_eq!(party.lock(&ticket).await, None);
        queue.push((party, ticket));
    }
    for pair in queue.windows(2) {
        let [(before, released), (next, waiting)] = pair else {
            unreachable!()
        };
        let (_, standing) = tokio::join!(before.release(released), next.wait(waiting));
        assert!(token(standing) > last);
        last = token(standing);
    }
}

/// With the poll out of reach, only the line can have told it.
#[tokio::test]
async fn a_release_tells_the_next_by_a_line() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    let (held, waiting) = (holder.ticket("a"), next.ticket("a"));
    holder.lock(&held).await.unwrap();
    next.lock(&waiting).await;
    holder.release(&held).await;
    let store = next.engine.store();
    let bell = store.ours.waiting(waiting.claim.id).unwrap();
    let rung = async {
        tokio::select! {
            () = next.engine.listen(&next.lease) => unreachable!("nothing was broken"),
            () = bell.bell.notified() => {}
        }
    };
    tokio::time::timeout(DEADLINE, rung)
        .await
        .expect("the line comes");
}

#[tokio::test]
async fn tokens_grow_although_nothing_is_left_of_an_idle_lock() {
    let bench = Bench::new();
    let mut last = 0;
    for _ in 0..3 {
        let party = bench.party().await;
        for _ in 0..3 {
            let ticket = party.ticket("a");
            let token = party.lock(&ticket).await.unwrap().get();
            assert!(token >= last + 32, "{token} after {last}");
            last = token;
            assert_eq!(party.release(&ticket).await, Withdrawn::Removed);
        }
        party.engine.close(&party.lease).await.unwrap();
    }
}

#[tokio::test]
async fn readers_share_and_a_waiting_writer_holds_back_later_readers() {
    let bench = Bench::new();
    let (one, two) = (bench.party().await, bench.party().await);
    let first = one.ticket_for("a", 1, UNBOUNDED);
    let second = two.ticket_for("a", 1, UNBOUNDED);
    assert!(one.lock(&first).await.is_some());
    assert!(two.lock(&second).await.is_some());
    let writer = bench.party().await;
    let writing = writer.ticket_for("a", UNBOUNDED, UNBOUNDED);
    assert_eq!(writer.lock(&writing).await, None);
    let late = bench.party().await;
    let reading = late.ticket_for("a", 1, UNBOUNDED);
    assert_eq!(late.lock(&reading).await, None);
    one.release(&first).await;
    two.release(&second).await;
    let written = token(writer.wait(&writing).await);
    writer.release(&writing).await;
    assert!(token(late.wait(&reading).await) > written);
}

#[tokio::test]
async fn one_who_gives_up_lets_in_the_one_behind() {
    let bench = Bench::new();
    let (holder, large, small) = (
        bench.party().await,
        bench.party().await,
        bench.party().await,
    );
    assert!(holder.lock(&holder.ticket_for("a", 2, 3)).await.is_some());
    let (two, one) = (large.ticket_for("a", 2, 3), small.ticket_for("a", 1, 3));
    assert_eq!(large.lock(&two).await, None);
    assert_eq!(small.lock(&one).await, None);
    let (_, standing) = tokio::join!(large.release(&two), small.wait(&one));
    token(standing);
}

#[tokio::test]
async fn a_try_answers_busy_and_never_jumps_the_queue() {
    let bench = Bench::new();
    let (holder, waiter, trier) = (
        bench.party().await,
        bench.party().await,
        bench.party().await,
    );
    let attempt = |weight| {
        let mut ticket = trier.ticket_for("a", weight, 3);
        ticket.waits = false;
        ticket
    };
    holder.lock(&holder.ticket_for("a", 2, 3)).await.unwrap();
    let fits = attempt(1);
    token(trier.engine.enqueue(&fits).await.unwrap());
    trier.release(&fits).await;
    assert_eq!(waiter.lock(&waiter.ticket_for("a", 2, 3)).await, None);
    // One unit is free, but somebody waits for two.
    let standing = trier.engine.enqueue(&attempt(1)).await.unwrap();
    assert_eq!(standing, Standing::Busy);
}

#[tokio::test]
async fn another_capacity_is_refused_with_both_numbers() {
    let bench = Bench::new();
    let (one, two) = (bench.party().await, bench.party().await);
    let ticket = one.ticket_for("a", 1, 3);
    one.lock(&ticket).await.unwrap();
    for waits in [true, false] {
        let mut other = two.ticket_for("a", 1, 5);
        other.waits = waits;
        let error = two.engine.enqueue(&other).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(
            error.why(),
            "asked for as a semaphore of 5, in use as a semaphore of 3"
        );
    }
    one.release(&ticket).await;
    assert!(two.lock(&two.ticket_for("a", 1, 5)).await.is_some());
}

#[tokio::test]
async fn a_weight_that_can_never_fit_is_refused() {
    let bench = Bench::new();
    let party = bench.party().await;
    for (weight, capacity) in [(0, 1), (4, 3)] {
        let ticket = party.ticket_for("a", weight, capacity);
        let error = party.engine.enqueue(&ticket).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}

/// The store's answers against the rule's, on random queues.
#[tokio::test]
async fn the_store_grants_what_the_rule_grants() {
    let bench = Bench::new();
    let party = bench.party().await;
    for round in 0..40 {
        let capacity = 1 + round % 4;
        let name = format!("queue {round}");
        let mut claims: Vec<(Ticket, crate::rule::Claim)> = Vec::new();
        for _ in 0..12 {
            let dice = random_u64();
            if dice.is_multiple_of(3) && !claims.is_empty() {
                let index = usize::try_from(dice / 3).unwrap_or(0) % claims.len();
                let (ticket, _) = claims.remove(index);
                assert_eq!(party.release(&ticket).await, Withdrawn::Removed);
            } else {
                let weight = 1 + u32::try_from(dice % u64::from(capacity)).unwrap();
                let ticket = party.ticket_for(&name, weight, capacity);
                party.engine.enqueue(&ticket).await.unwrap();
                let order = claims.last().map_or(0, |(_, claim)| claim.order) + 1;
                claims.push((ticket, crate::rule::Claim { order, weight }));
            }
            let queue: Vec<_> = claims.iter().map(|(_, claim)| *claim).collect();
            let holders = crate::rule::holders(capacity, &queue);
            for (index, (ticket, _)) in claims.iter().enumerate() {
                let standing = party.engine.enqueue(ticket).await.unwrap();
                let is_held = matches!(standing, Standing::Held { .. });
                assert_eq!(is_held, index < holders, "{queue:?} of {capacity}");
            }
        }
    }
}

/// Whatever a claim was told to watch before others left.
#[tokio::test]
async fn a_look_at_the_watched_claim_says_what_a_look_at_all_would() {
    let bench = Bench::new();
    let party = bench.party().await;
    let store = party.engine.store();
    let look = |ticket: &Ticket, watch: Watch| {
        let ticket = ticket.clone();
        let waiting = store.ours.waiting(ticket.claim.id);
        let place = waiting.map_or(queue::END, |waiting| waiting.place);
        store.run(Doing("look", None), move |_, connection| {
            let sight = claims::look(connection, &ticket, place, watch)?;
            let sessions: Vec<_> = sight.blockers.iter().map(|(id, _)| *id).collect();
            Ok((sight.standing, sessions))
        })
    };
    for round in 0..20 {
        let capacity = 1 + round % 4;
        let name = format!("queue {round}");
        let mut claims: Vec<(Ticket, Watch)> = Vec::new();
        for _ in 0..8 {
            let weight = 1 + u32::try_from(random_u64() % u64::from(capacity)).unwrap();
            let ticket = party.ticket_for(&name, weight, capacity);
            if let Standing::Waiting { watch, .. } = party.engine.enqueue(&ticket).await.unwrap() {
                claims.push((ticket, watch));
            } else {
                claims.push((ticket, Watch::Any));
            }
        }
        while !claims.is_empty() {
            let index = random_u64() % claims.len() as u64;
            let (ticket, _) = claims.remove(usize::try_from(index).unwrap());
            party.release(&ticket).await;
            for (ticket, watch) in &claims {
                let quick = look(ticket, *watch).await.unwrap();
                assert_eq!(quick, look(ticket, Watch::Any).await.unwrap());
            }
        }
    }
}
