//! Many tasks of a session on names of their own: their requests go together, and
//! nobody is the worse for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::mysql::MySqlPool;
use leasehold::{Guard, Session};
use sqlx_core::executor::Executor;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{LONG, Site, heard, lock, mysql, mysql_with, queue_of};
use crate::sql::way::{FAULTS, Fault, Way};
use testbed::wait_for;

/// A part of the statement that several go with.
const TOGETHER: &str = "Gives back and takes first seats";

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("job {number}")).collect()
}

/// Locks that were used before, so that each is one row that is free.
async fn use_all(session: &Session, names: &[String]) {
    for name in names {
        lock(session, name).await.release().await.unwrap();
    }
}

async fn lock_all_at_once(session: &Session, names: &[String]) -> Vec<Guard> {
    let locking = |name: &String| {
        let mutex = session.mutex(name.clone());
        tokio::spawn(async move { mutex.lock_within(LONG).await.unwrap() })
    };
    let locking: Vec<_> = names.iter().map(locking).collect();
    let mut guards = Vec::new();
    for one in locking {
        guards.push(heard(one).await);
    }
    guards
}

async fn release_all_at_once(guards: Vec<Guard>) {
    let releasing = |guard: Guard| tokio::spawn(guard.release());
    let releasing: Vec<_> = guards.into_iter().map(releasing).collect();
    for one in releasing {
        heard(one).await.unwrap();
    }
}

/// How many statements of these kinds the server has carried out.
fn statements(server: &Site, kinds: &str) -> u64 {
    let query = format!(
        "select cast(sum(variable_value) as unsigned) from information_schema.global_status \
         where variable_name in ({kinds})"
    );
    server.sql(&query).parse().unwrap()
}

#[testbed::test]
async fn many_at_once_go_as_few_statements() {
    // The server counts for all that use it.
    let server = mysql_with(&[]);
    let one = server.session("ttl=1h").await;
    let names = names(64);
    use_all(&one, &names).await;
    let writing = "'COM_UPDATE', 'COM_INSERT_SELECT'";
    let before = statements(&server, writing);
    for _ in 0..5 {
        let guards = lock_all_at_once(&one, &names).await;
        release_all_at_once(guards).await;
    }
    let count = statements(&server, writing) - before;
    // One by one it would be 640.
    assert!(count < 320, "{count} statements");
}

#[testbed::test]
async fn a_row_that_somebody_keeps_holds_up_none_of_those_who_go_along() {
    let server = mysql();
    let one = server.session("ttl=1h").await;
    let names = names(40);
    use_all(&one, &names).await;
    let others = MySqlPool::connect(&server.url()).await.unwrap();
    let mut quickest = Duration::MAX;
    for _ in 0..5 {
        quickest = quickest.min(beside_a_row_that_is_kept(&one, &names, &others).await);
    }
    // The server gives up on a row that is locked after two seconds.
    assert!(quickest < Duration::from_millis(1500), "{quickest:?}");
}

/// How long those take who go along with one that waits for a row.
async fn beside_a_row_that_is_kept(
    one: &Session,
    names: &[String],
    others: &MySqlPool,
) -> Duration {
    let mut blocker = others.begin().await.unwrap();
    (&mut *blocker)
        .execute("select * from leasehold_claim where name = 'job 0' and seat = 0 for update")
        .await
        .unwrap();
    let stuck = one.mutex("job 0");
    let stuck = tokio::spawn(async move { stuck.lock_within(LONG).await.unwrap() });
    let asked = Instant::now();
    let others = lock_all_at_once(one, &names[1..]).await;
    let took = asked.elapsed();
    assert!(!stuck.is_finished());
    blocker.rollback().await.unwrap();
    release_all_at_once(others).await;
    heard(stuck).await.release().await.unwrap();
    took
}

#[testbed::test]
async fn those_who_went_together_and_lost_something_have_one_claim_each() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h").await;
    let names = names(48);
    use_all(&far, &names).await;
    let inspector = server.inspector().await;
    let taken = "select count(*), count(distinct name), count(distinct ticket) \
                 from leasehold_claim where ticket is not null";
    for fault in FAULTS {
        way.arm(TOGETHER, fault);
        let guards = lock_all_at_once(&far, &names).await;
        way.fired().await;
        assert_eq!(server.sql(taken), "48|48|48", "{fault:?}");
        for guard in &guards {
            let place = format!(
                "select place, holder from leasehold_claim \
                 where ticket is not null and name = '{}'",
                guard.name()
            );
            let fence = guard.fence();
            let fence = format!("{}|{}", fence.token.get(), fence.holder);
            assert_eq!(server.sql(&place), fence, "{fault:?}");
        }
        way.arm(TOGETHER, fault);
        release_all_at_once(guards).await;
        way.fired().await;
        for name in &names {
            queue_of(&inspector, name, 0).await;
        }
    }
}

#[testbed::test]
async fn readers_of_one_name_that_ask_at_once_are_all_let_in() {
    let server = mysql();
    let one = server.session("ttl=1h").await;
    let lock = one.rwlock("prices");
    drop(lock.read().await.unwrap());
    let reading = |_| {
        let lock = one.rwlock("prices");
        tokio::spawn(async move { lock.read().await.unwrap() })
    };
    let mut readers = Vec::new();
    for reader in (0..40).map(reading).collect::<Vec<_>>() {
        readers.push(heard(reader).await);
    }
    queue_of(&server.inspector().await, "prices", 40).await;
    release_all_at_once(readers).await;
    queue_of(&server.inspector().await, "prices", 0).await;
}

/// How many are to give up, and how many have.
#[derive(Debug)]
struct GiveUp {
    may: Semaphore,
    have: AtomicUsize,
}

impl Default for GiveUp {
    fn default() -> Self {
        Self {
            may: Semaphore::new(0),
            have: AtomicUsize::new(0),
        }
    }
}

impl GiveUp {
    async fn wanted(&self) {
        self.may.acquire().await.unwrap().forget();
    }

    /// Returns when so many have given up.
    fn tell(&self, count: usize) {
        self.may.add_permits(count);
        wait_for("them to give up", || {
            (self.have.load(Ordering::SeqCst) == count).then_some(())
        });
    }
}

/// Locks them all as one task: the first goes alone, over the only connection but one,
/// and all others together once it is back. Of those after the first so many, as many
/// give up as are told to.
fn lock_as_one(
    session: &Session,
    names: &[String],
    keep: usize,
    gives_up: &Arc<GiveUp>,
) -> JoinHandle<Vec<Guard>> {
    let locking = names.iter().enumerate().map(|(number, name)| {
        let (mutex, gives_up) = (session.mutex(name.clone()), gives_up.clone());
        async move {
            tokio::select! {
                guard = mutex.lock_within(LONG) => guard.ok(),
                () = gives_up.wanted(), if number >= keep => {
                    // The other one has been dropped.
                    gives_up.have.fetch_add(1, Ordering::SeqCst);
                    None
                }
            }
        }
    });
    let locking = join_all(locking.collect::<Vec<_>>());
    tokio::spawn(async move { locking.await.into_iter().flatten().collect() })
}

/// Waits until a party is on its way, or says what the server does instead.
async fn party_is_held_back(way: &Way, server: &Site) {
    let fired = tokio::time::timeout(LONG / 2, way.fired()).await;
    if fired.is_err() {
        let list = "select time, state, left(info, 60) from information_schema.processlist";
        let (claims, list) = (claims(server), server.sql(list));
        panic!("no party has left; {claims} claims; {list}");
    }
}

/// The epoch of the only session.
fn epoch(server: &Site) -> String {
    server.sql("select max(epoch) from leasehold_session")
}

fn claims(server: &Site) -> String {
    server.sql("select count(*) from leasehold_claim where ticket is not null")
}

#[testbed::test]
async fn whoever_gives_up_while_a_party_is_held_back_has_no_claim_and_the_others_have() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h&connections=2").await;
    let (names, gives_up) = (names(12), Arc::new(GiveUp::default()));
    use_all(&far, &names).await;
    way.arm(TOGETHER, Fault::HeldBack);
    let locking = lock_as_one(&far, &names, 11, &gives_up);
    party_is_held_back(&way, &server).await;
    gives_up.tell(1);
    wait_for("the callback", || (epoch(&server) == "1").then_some(()));
    way.release();
    way.fired().await;
    let guards = heard(locking).await;
    assert_eq!(guards.len(), 11);
    assert_eq!(claims(&server), "11");
    let left = "select ticket is null from leasehold_claim where name = 'job 11' and seat = 0";
    assert_eq!(server.sql(left), "1");
    // What they were in doubt about was called back with the first: not once for each.
    release_all_at_once(guards).await;
    assert_eq!((claims(&server), epoch(&server)), ("0".into(), "1".into()));
}

#[testbed::test]
async fn whoever_gives_up_before_the_party_departs_is_not_called_back() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h&connections=1").await;
    let (names, gives_up) = (names(12), Arc::new(GiveUp::default()));
    use_all(&far, &names).await;
    way.arm("Takes a lock that nobody has", Fault::AnswerHeldBack);
    let locking = lock_as_one(&far, &names, 1, &gives_up);
    way.fired().await;
    gives_up.tell(11);
    way.release();
    assert_eq!(heard(locking).await.len(), 1);
    // By the only connection there is, behind whatever those who gave up have to do.
    for name in &names[1..] {
        lock(&far, name).await.release().await.unwrap();
    }
    assert_eq!(epoch(&server), "0");
}

#[testbed::test]
async fn a_party_that_a_term_overtakes_takes_nothing_in_the_old_one() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h&connections=2").await;
    let (names, nobody) = (names(12), Arc::new(GiveUp::default()));
    use_all(&far, &names).await;
    let last: u64 = server
        .sql("select max(place) from leasehold_claim")
        .parse()
        .unwrap();
    way.arm(TOGETHER, Fault::HeldBack);
    let locking = lock_as_one(&far, &names, 12, &nobody);
    party_is_held_back(&way, &server).await;
    server.sql("update leasehold_meta set server = 'another'");
    let _begins = server.session("ttl=1h").await;
    assert_eq!(server.sql("select term from leasehold_meta"), "1");
    // Those who went alone, before the party. Nobody is granted anything there any more.
    let next_term = last + (1 << 32);
    let early = format!(
        "select count(*) from leasehold_claim where ticket is not null and place <= {next_term}"
    );
    let early: usize = server.sql(&early).parse().unwrap();
    way.release();
    way.fired().await;
    let guards = heard(locking).await;
    assert_eq!(guards.len(), 12);
    let late = guards
        .iter()
        .filter(|guard| guard.token().get() > next_term);
    assert_eq!(late.count(), 12 - early);
    assert!(early < 12, "the party was held back");
    assert_eq!(claims(&server), "12");
    release_all_at_once(guards).await;
    assert_eq!(claims(&server), "0");
}

#[testbed::test]
async fn a_party_that_is_held_back_while_its_session_closes_leaves_nothing() {
    let server = mysql();
    let (way, far) = server.far("ttl=1h&connections=2").await;
    let (names, nobody) = (names(12), Arc::new(GiveUp::default()));
    use_all(&far, &names).await;
    way.arm(TOGETHER, Fault::HeldBack);
    let locking = lock_as_one(&far, &names, 12, &nobody);
    party_is_held_back(&way, &server).await;
    far.close().await;
    let closed = "select count(*) from leasehold_session";
    assert_eq!(server.sql(closed), "0");
    way.release();
    way.fired().await;
    drop(heard(locking).await);
    assert_eq!(claims(&server), "0");
}
