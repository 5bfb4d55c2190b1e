//! Sessions that end without a word: expired, killed, taken over.

use super::super::{inbox, live};
use super::*;
use crate::engine::{Inspect, Renewal};

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

#[tokio::test]
async fn an_expired_session_is_taken_over_and_never_renewed_again() {
    let bench = Bench::new();
    let short = Party::join(&bench.path(), Duration::from_millis(300)).await;
    let next = bench.party().await;
    let first = short.lock(&short.ticket("a")).await.unwrap();
    let waiting = next.ticket("a");
    assert_eq!(next.lock(&waiting).await, None);
    assert!(token(next.wait(&waiting).await) > first);
    let renewal = short.engine.renew(&short.lease).await.unwrap();
    assert_eq!(renewal, Renewal::LeaseGone);
    let gone = short.engine.enqueue(&short.ticket("a")).await.unwrap();
    assert_eq!(gone, Standing::Gone);
}

#[tokio::test]
async fn a_renewed_session_is_not_taken_over() {
    let bench = Bench::new();
    let ttl = Duration::from_secs(3);
    let short = Party::join(&bench.path(), ttl).await;
    let next = bench.party().await;
    short.lock(&short.ticket("a")).await.unwrap();
    let waiting = next.ticket("a");
    next.lock(&waiting).await;
    let renewing = async {
        for _ in 0..8 {
            tokio::time::sleep(ttl / 4).await;
            let renewal = short.engine.renew(&short.lease).await.unwrap();
            assert_ne!(renewal, Renewal::LeaseGone);
        }
    };
    tokio::select! {
        biased;
        () = renewing => {}
        standing = next.wait(&waiting) => panic!("{standing:?}"),
    }
}

/// A dropped engine lets go of its pipes as a killed process does.
#[tokio::test]
async fn a_killed_holder_is_replaced_at_once() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    holder.lock(&holder.ticket("a")).await.unwrap();
    let waiting = next.ticket("a");
    next.lock(&waiting).await;
    let start = crate::clock::boot_time();
    let killing = async {
        // Only when the other one sleeps on our pipe does the kernel wake it.
        while next.engine.store().watchlist.count() == 0 {
            tokio::task::yield_now().await;
        }
        drop(holder);
    };
    let (standing, ()) = tokio::join!(next.wait(&waiting), killing);
    token(standing);
    // The ttl is a minute.
    assert!(crate::clock::boot_time().since(start) < DEADLINE);
}

#[tokio::test]
async fn a_holder_killed_before_anybody_asked_is_replaced_at_once() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    holder.lock(&holder.ticket("a")).await.unwrap();
    drop(holder);
    let mut attempt = next.ticket("a");
    attempt.waits = false;
    token(next.engine.enqueue(&attempt).await.unwrap());
}

#[tokio::test]
async fn killed_waiters_hold_up_nobody() {
    let bench = Bench::new();
    let holder = bench.party().await;
    let held = holder.ticket("a");
    holder.lock(&held).await.unwrap();
    for _ in 0..3 {
        let dead = bench.party().await;
        dead.lock(&dead.ticket("a")).await;
        drop(dead);
    }
    let next = bench.party().await;
    let waiting = next.ticket("a");
    next.lock(&waiting).await;
    let (_, standing) = tokio::join!(holder.release(&held), next.wait(&waiting));
    token(standing);
}

/// Many readers come and go; that each asks after all others would be slow.
#[tokio::test]
async fn one_who_fits_beside_the_dead_leaves_them_to_whoever_does_not() {
    let bench = Bench::new();
    let dead = bench.party().await;
    dead.lock(&dead.ticket_for("a", 1, 3)).await.unwrap();
    let party = bench.party().await;
    drop(dead);
    let raw = rusqlite::Connection::open(bench.path()).unwrap();
    let count = || {
        let sql = "select count(*) from claim where name = 'a'";
        raw.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    party.lock(&party.ticket_for("a", 1, 3)).await.unwrap();
    assert_eq!(count(), 2);
    party.lock(&party.ticket_for("a", 2, 3)).await.unwrap();
    assert_eq!(count(), 2, "the dead one was in the way");
}

#[tokio::test]
async fn however_many_are_in_the_way_few_descriptors_are_open_and_none_is_missed() {
    let bench = Bench::new();
    let mut holders = Vec::new();
    for _ in 0..80 {
        let holder = bench.party().await;
        holder.lock(&holder.ticket_for("a", 1, 80)).await.unwrap();
        holders.push(holder);
    }
    let next = bench.party().await;
    let waiting = next.ticket_for("a", 1, 80);
    assert_eq!(next.lock(&waiting).await, None);
    let store = next.engine.store();
    let killing = async {
        while store.watchlist.count() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(store.watchlist.count() < 80);
        // They are watched in this order, so the last one is not.
        holders.sort_unstable_by_key(|holder| holder.lease.id);
        holders.pop();
        crate::clock::boot_time()
    };
    let (standing, killed) = tokio::join!(next.wait(&waiting), killing);
    token(standing);
    assert!(crate::clock::boot_time().since(killed) < Duration::from_secs(1));
}

/// It watches only the first to wait, who is gone too.
#[tokio::test]
async fn the_second_to_wait_for_a_semaphore_finds_all_before_it_dead() {
    let bench = Bench::new();
    let mut dead = Vec::new();
    for _ in 0..3 {
        let party = bench.party().await;
        party.lock(&party.ticket_for("a", 1, 2)).await;
        dead.push(party);
    }
    let next = bench.party().await;
    let waiting = next.ticket_for("a", 1, 2);
    assert_eq!(next.lock(&waiting).await, None);
    let store = next.engine.store();
    let killing = async {
        while store.watchlist.count() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.watchlist.count(), 1);
        dead.clear();
    };
    let (standing, ()) = tokio::join!(next.wait(&waiting), killing);
    token(standing);
}

#[tokio::test]
async fn a_copy_of_the_lifeline_keeps_a_killed_session_alive() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    holder.lock(&holder.ticket("a")).await.unwrap();
    let lifeline = holder.engine.lifeline(&holder.lease).unwrap();
    drop(holder);
    let mut attempt = next.ticket("a");
    attempt.waits = false;
    assert_eq!(next.engine.enqueue(&attempt).await.unwrap(), Standing::Busy);
    drop(lifeline);
    token(next.engine.enqueue(&attempt).await.unwrap());
}

/// The process may be alive, so only the ttl can say that it is not.
#[tokio::test]
async fn a_pipe_removed_by_hand_frees_no_lock() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    holder.lock(&holder.ticket("a")).await.unwrap();
    std::fs::remove_dir_all(bench.path().with_file_name("locks.db.d")).unwrap();
    let mut attempt = next.ticket("a");
    attempt.waits = false;
    assert_eq!(next.engine.enqueue(&attempt).await.unwrap(), Standing::Busy);
}

#[tokio::test]
async fn what_dead_sessions_leave_is_swept_by_the_next() {
    let bench = Bench::new();
    let dead = bench.party().await;
    dead.lock(&dead.ticket("a")).await.unwrap();
    drop(dead);
    let sessions = bench.path().with_file_name("locks.db.d");
    std::fs::write(sessions.join(format!("{:032x}.inbox", 7)), "").unwrap();
    let party = bench.party().await;
    assert_eq!(std::fs::read_dir(&sessions).unwrap().count(), 2);
    assert!(party.engine.names("").await.unwrap().is_empty());
    party.engine.close(&party.lease).await.unwrap();
    assert_eq!(std::fs::read_dir(&sessions).unwrap().count(), 0);
}

/// Each newcomer sweeps while the others are making their files.
#[test]
fn sessions_that_start_together_leave_each_others_files_alone() {
    let bench = Bench::new();
    let start = |path: PathBuf| async move {
        let engine = connect(&path).await.unwrap();
        for _ in 0..20 {
            let lease = engine.open(&Owner::new("test"), TTL).await.unwrap();
            let sessions = &engine.store().file.sessions;
            assert!(live::live_path(sessions, lease.id).exists());
            assert!(inbox::inbox_path(sessions, lease.id).exists());
            engine.close(&lease).await.unwrap();
        }
    };
    let threads: Vec<_> = std::iter::repeat_with(|| bench.path())
        .take(8)
        .map(|path| std::thread::spawn(move || runtime().block_on(start(path))))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn a_pipe_that_was_never_locked_is_swept_when_it_is_old() {
    let bench = Bench::new();
    let party = bench.party().await;
    let file = &party.engine.store().file;
    let unborn = live::unborn_path(&file.sessions, crate::engine::LeaseId(7));
    file.make_pipe(&unborn).unwrap();
    bench.party().await;
    assert!(unborn.exists(), "somebody may be about to lock it");
    let later = crate::clock::wall_time() + Duration::from_secs(3600);
    live::remove_unborn(&file.sessions, crate::engine::LeaseId(7), later);
    assert!(!unborn.exists());
}

#[tokio::test]
async fn many_dead_sessions_are_swept_a_few_at_a_time() {
    let bench = Bench::new();
    let mut dead = Vec::new();
    for number in 0..70 {
        let party = bench.party().await;
        let ticket = party.ticket(&number.to_string());
        party.lock(&ticket).await.unwrap();
        dead.push(party);
    }
    drop(dead);
    let sessions = bench.path().with_file_name("locks.db.d");
    let count = || std::fs::read_dir(&sessions).unwrap().count();
    let first = bench.party().await;
    assert!(count() > 2, "those who come next do the rest");
    let second = bench.party().await;
    assert_eq!(count(), 4);
    first.lock(&first.ticket("0")).await.unwrap();
    second.lock(&second.ticket("69")).await.unwrap();
}

#[tokio::test]
async fn closing_a_session_lets_in_those_who_wait_for_any_of_its_locks() {
    let bench = Bench::new();
    let (holder, next) = (bench.party().await, bench.party().await);
    let mut waiting = Vec::new();
    for name in ["a", "b"] {
        holder.lock(&holder.ticket(name)).await.unwrap();
        waiting.push(next.ticket(name));
    }
    for ticket in &waiting {
        assert_eq!(next.lock(ticket).await, None);
    }
    holder.engine.close(&holder.lease).await.unwrap();
    for ticket in &waiting {
        token(next.wait(ticket).await);
    }
}

const CHILD: &str = "LEASEHOLD_TEST_STORE";

#[tokio::test]
#[ignore = "the process that the next test kills"]
async fn child_holds_until_it_is_killed() {
    let path = std::env::var(CHILD).expect("the next test starts it");
    let party = Party::join(Path::new(&path), TTL).await;
    party.lock(&party.ticket("a")).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_holder_in_another_process_killed_by_a_signal_is_replaced_at_once() {
    let bench = Bench::alone();
    let next = bench.party().await;
    let this = "sqlite::tests::crash::child_holds_until_it_is_killed";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", this])
        .env(CHILD, bench.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let name = Name::new("a").unwrap();
    let deadline = crate::clock::boot_time() + DEADLINE;
    while next.engine.queue(&name).await.unwrap().claims.is_empty() {
        assert!(crate::clock::boot_time() < deadline, "the child holds");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waiting = next.ticket("a");
    assert_eq!(next.lock(&waiting).await, None);
    let killing = async {
        while next.engine.store().watchlist.count() == 0 {
            tokio::task::yield_now().await;
        }
        child.kill().unwrap();
        crate::clock::boot_time()
    };
    let (standing, killed) = tokio::join!(next.wait(&waiting), killing);
    token(standing);
    // The ttl is a minute.
    assert!(crate::clock::boot_time().since(killed) < DEADLINE);
    child.wait().unwrap();
}

#[tokio::test]
async fn a_session_that_is_just_being_made_is_not_swept_away() {
    let bench = Bench::new();
    let _one = bench.party().await;
    let sessions = bench.path().with_file_name("locks.db.d");
    let unborn = sessions.join(format!("{:032x}.new", 7));
    std::fs::write(&unborn, "").unwrap();
    let _two = bench.party().await;
    assert!(unborn.exists());
}
