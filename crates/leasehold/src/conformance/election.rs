//! Elections: one leader, seen by everybody, in order.

use std::time::Duration;

use super::bench::{Bench, soon, until, when_over};
use super::{Case, clocks, memo, memo_and_peers};
use crate::election::{LONGEST_VALUE, Leader, Observer, Sighting};
use crate::error::ErrorKind;
use crate::promises::Promises;

/// Longer than a case may take, so that it does not run out by itself.
const TTL: Duration = Duration::from_secs(60);
/// Of those who are killed or stopped.
const SHORT: Duration = Duration::from_secs(3);
const OFTEN: Duration = Duration::from_millis(20);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(&[], memo, one_leads_and_says_what_it_likes),
        Case::new(&[], memo, an_observer_sees_who_leads_and_when_nobody_does),
        Case::new(
            &[2],
            memo,
            every_leader_is_told_in_order_to_one_who_looks_rarely,
        ),
        Case::new(&[8], memo, a_leader_that_was_deposed_cannot_proclaim),
        Case::new(&[14], memo, an_observer_goes_on_when_the_store_was_away),
        Case::new(&[], memo, a_name_in_use_for_something_else_is_refused),
        Case::new(
            &[2, 9],
            memo_and_peers,
            a_killed_leader_is_followed_by_the_one_who_waits,
        ),
        Case::new(
            &[3, 10],
            memo_and_peers,
            a_leader_stopped_past_its_ttl_wakes_up_deposed,
        ),
        Case::new(
            &[21],
            with_faked_peers,
            candidates_whose_clocks_are_an_hour_off_lead_like_any_other,
        ),
    ]
}

fn with_faked_peers(promises: &Promises) -> Result<(), &'static str> {
    memo(promises).and(clocks::faked_peers(promises))
}

async fn leader(observer: &mut Observer) -> Leader {
    match soon("a sighting", observer.next()).await.unwrap() {
        Sighting::Leader { leader, missed: 0 } => leader,
        sighting => panic!("{sighting:?}"),
    }
}

async fn one_leads_and_says_what_it_likes(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let (ours, theirs) = (a.election(&name), b.election(&name));
    assert_eq!(theirs.leader().await.unwrap(), None);
    let leadership = ours.campaign("a").await.unwrap();
    let leader = theirs.leader().await.unwrap().unwrap();
    assert_eq!((leader.token, leader.term), (leadership.token(), 1));
    assert_eq!(leader.text(), "a");
    leadership.proclaim(b"\xff\n").await.unwrap();
    assert_eq!(theirs.leader().await.unwrap().unwrap().value, b"\xff\n");
    let longest = vec![b'x'; LONGEST_VALUE];
    leadership.proclaim(&longest).await.unwrap();
    let error = leadership.proclaim([longest, vec![0]].concat()).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Usage);
    let waiting = tokio::spawn(async move { theirs.campaign("b").await });
    bench.queue_of(&name, 2).await;
    assert_eq!(ours.leader().await.unwrap().unwrap().term, 1);
    let before = leadership.token();
    leadership.resign().await.unwrap();
    let next = soon("the next leads", waiting).await.unwrap().unwrap();
    assert!(next.token() > before);
    assert_eq!(next.term().await, 2);
    let leader = ours.leader().await.unwrap().unwrap();
    assert_eq!((leader.token, leader.text().as_ref()), (next.token(), "b"));
    next.resign().await.unwrap();
    assert_eq!(ours.leader().await.unwrap(), None);
}

async fn an_observer_sees_who_leads_and_when_nobody_does(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let mut observer = b.election(&name).observe().every(OFTEN);
    let seen = soon("a sighting", observer.next()).await.unwrap();
    assert_eq!(seen, Sighting::Nobody);
    let election = a.election(&name);
    let first = election.campaign("one").await.unwrap();
    let seen = leader(&mut observer).await;
    assert_eq!((seen.token, seen.text().as_ref()), (first.token(), "one"));
    first.proclaim("uno").await.unwrap();
    let seen = leader(&mut observer).await;
    assert_eq!((seen.token, seen.text().as_ref()), (first.token(), "uno"));
    first.resign().await.unwrap();
    let seen = soon("a sighting", observer.next()).await.unwrap();
    assert_eq!(seen, Sighting::Nobody);
    // A plain lock of that name is nobody's leadership.
    let guard = a.mutex(&name).lock().await.unwrap();
    assert_eq!(b.election(&name).leader().await.unwrap(), None);
    guard.release().await.unwrap();
    let second = election.campaign("two").await.unwrap();
    assert_eq!(leader(&mut observer).await.token, second.token());
    b.close().await;
    let error = observer.next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

async fn every_leader_is_told_in_order_to_one_who_looks_rarely(bench: Bench) {
    const LEADERS: u64 = 20;
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let watcher = bench.session(TTL).await.election(&name);
    let rarely = Duration::from_millis(300);
    let observing = tokio::spawn(async move {
        let mut observer = watcher.observe().every(rarely);
        let mut tokens = Vec::new();
        while tokens.len() < LEADERS as usize {
            match observer.next().await.unwrap() {
                Sighting::Nobody => {}
                Sighting::Leader { leader, missed } => {
                    assert_eq!((missed, leader.term), (0, tokens.len() as u64 + 1));
                    tokens.push(leader.token);
                }
            }
        }
        tokens
    });
    let mut tokens = Vec::new();
    for number in 0..LEADERS {
        let election = if number % 2 == 0 { &a } else { &b }.election(&name);
        let leadership = election.campaign(number.to_string()).await.unwrap();
        tokens.push(leadership.token());
        leadership.resign().await.unwrap();
    }
    let seen = soon("all are told", observing).await.unwrap();
    assert_eq!(seen, tokens);
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
}

async fn a_leader_that_was_deposed_cannot_proclaim(bench: Bench) {
    let (a, b, name) = (
        bench.session(TTL).await,
        bench.session(TTL).await,
        bench.name(),
    );
    let old = a.election(&name).campaign("old").await.unwrap();
    let inspector = bench.inspector();
    inspector.evict(&name, "ann", "asleep").await.unwrap();
    let new = b.election(&name).campaign("new").await.unwrap();
    let error = old.proclaim("still here").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    let leader = a.election(&name).leader().await.unwrap().unwrap();
    assert_eq!((leader.token, leader.text().as_ref()), (new.token(), "new"));
    old.resign().await.unwrap_err();
    new.guard().check().unwrap();
}

async fn an_observer_goes_on_when_the_store_was_away(bench: Bench) {
    use super::wire::{Call, Fault};
    let (wire, session) = bench.wired(TTL).await;
    let (other, name) = (bench.session(TTL).await, bench.name());
    let mut observer = session.election(&name).observe().every(OFTEN);
    assert_eq!(observer.next().await.unwrap(), Sighting::Nobody);
    wire.cut([Call::Memo], Fault::Refused);
    let first = other.election(&name).campaign("one").await.unwrap();
    let token = first.token();
    let observing = tokio::spawn(async move { observer.next().await });
    let before = wire.sent(Call::Memo);
    until("it looks in vain", || async {
        wire.sent(Call::Memo) > before + 2
    })
    .await;
    first.resign().await.unwrap();
    wire.mend();
    let seen = soon("it sees again", observing).await.unwrap().unwrap();
    let Sighting::Leader { leader, .. } = seen else {
        panic!("{seen:?}");
    };
    assert_eq!(leader.token, token);
}

async fn a_name_in_use_for_something_else_is_refused(bench: Bench) {
    let (session, name) = (bench.session(TTL).await, bench.name());
    let guard = session.mutex(&name).lock().await.unwrap();
    guard.write_memo("something else").await.unwrap();
    guard.release().await.unwrap();
    let election = session.election(&name);
    for error in [
        election.campaign("x").await.map(drop).unwrap_err(),
        election.observe().next().await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    let memo = bench.inspector().memo(&name).await.unwrap().memo.unwrap();
    assert_eq!(memo.text(), "something else");
    bench.queue_of(&name, 0).await;
}

async fn a_killed_leader_is_followed_by_the_one_who_waits(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let election = session.election(&name);
    let mut observer = election.observe().every(OFTEN);
    let old = peer.granted(&format!("campaign old {name}")).await;
    let seen = leader(&mut observer).await;
    assert_eq!((seen.token.get(), seen.text().as_ref()), (old, "old"));
    let waiting = tokio::spawn(async move { election.campaign("new").await });
    bench.queue_of(&name, 2).await;
    peer.kill();
    let seen = when_over(SHORT, async {
        loop {
            match observer.next().await.unwrap() {
                // It may look while nobody has the lock.
                Sighting::Nobody => {}
                Sighting::Leader { leader, missed: 0 } => return leader,
                sighting => panic!("{sighting:?}"),
            }
        }
    });
    let (new, seen) = tokio::join!(waiting, seen);
    let new = new.unwrap().unwrap();
    assert!(new.token().get() > old);
    assert_eq!((seen.token, seen.text().as_ref()), (new.token(), "new"));
    assert_eq!(new.term().await, 2);
}

async fn a_leader_stopped_past_its_ttl_wakes_up_deposed(bench: Bench) {
    let (session, mut peer, name) = (
        bench.session(TTL).await,
        bench.peer(SHORT).await,
        bench.name(),
    );
    let election = session.election(&name);
    let mut observer = election.observe().every(OFTEN);
    let old = peer.granted(&format!("campaign old {name}")).await;
    let seen = leader(&mut observer).await;
    assert_eq!((seen.token.get(), seen.text().as_ref()), (old, "old"));
    peer.stop();
    let vacant = when_over(SHORT, observer.next()).await.unwrap();
    assert_eq!(vacant, Sighting::Nobody);
    let new = soon("nobody leads", election.campaign("new"))
        .await
        .unwrap();
    assert!(new.token().get() > old);
    let seen = leader(&mut observer).await;
    assert_eq!((seen.token, seen.text().as_ref()), (new.token(), "new"));
    // The question is there before the peer wakes up, so this is the first
    // thing that it learns.
    peer.tell("check");
    peer.resume();
    let learnt = peer.answer().await;
    let (proclaimed, resigned) = (peer.ask("proclaim back").await, peer.ask("resign").await);
    for answer in [learnt, proclaimed, resigned] {
        assert!(answer.contains(": lost: "), "{answer}");
    }
    new.proclaim("still").await.unwrap();
    let seen = leader(&mut observer).await;
    assert_eq!((seen.token, seen.text().as_ref()), (new.token(), "still"));
}

async fn candidates_whose_clocks_are_an_hour_off_lead_like_any_other(bench: Bench) {
    let (election, name) = {
        let (session, name) = (bench.session(TTL).await, bench.name());
        (session.election(&name), name)
    };
    let mut peers = Vec::new();
    for offset in ["+1h", "-1h", "+0s"] {
        peers.push(bench.peer_at_another_time(TTL, offset).await);
    }
    let campaign = format!("campaign new {name}");
    let mut token = peers[0].granted(&campaign).await;
    for (leads, waits) in [(0, 1), (1, 2), (2, 0)] {
        peers[waits].tell(&campaign);
        bench.queue_of(&name, 2).await;
        assert_eq!(peers[leads].ask("proclaim still").await, "ok");
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!((leader.token.get(), &*leader.text()), (token, "still"));
        assert_eq!(peers[leads].ask("resign").await, "ok");
        let later = peers[waits].grant().await;
        assert!(later > token, "{later} after {token}");
        token = later;
    }
    // One that dies ahead of its time is not in the way for an hour.
    let mut dies = bench.peer_at_another_time(SHORT, "+1h").await;
    assert_eq!(peers[0].ask("resign").await, "ok");
    token = dies.granted(&campaign).await;
    dies.kill();
    let last = when_over(SHORT, election.campaign("last")).await.unwrap();
    assert!(last.token().get() > token);
}
