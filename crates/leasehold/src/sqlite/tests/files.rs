//! Which files are taken, which are refused, and what a reboot does.

use super::*;
use crate::engine::{Memo, Noted};
use crate::error::{Error, ErrorKind};

async fn refusal(path: &Path) -> Error {
    connect(path).await.expect_err("the path is refused")
}

#[tokio::test]
async fn a_store_is_made_with_its_folders_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let path = bench.0.path().join("a/b/locks.db");
    let party = Party::join(&path, TTL).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let sessions = path.with_file_name("locks.db.d");
    assert_eq!(mode(&sessions), 0o700);
    for entry in std::fs::read_dir(sessions).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    party.engine.close(&party.lease).await.unwrap();
}

#[tokio::test]
async fn session_files_follow_the_mode_of_the_database() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let path = bench.path();
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
    let _party = bench.party().await;
    let sessions = path.with_file_name("locks.db.d");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&sessions), 0o770);
    for entry in std::fs::read_dir(sessions).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o660);
    }
}

#[tokio::test]
async fn a_device_is_refused_and_nothing_is_left_beside_it() {
    let bench = Bench::new();
    let path = bench.path();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let error = refusal(&path).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.why(), "the path is not a regular file; name another");
    assert!(!Path::new("/dev/null.d").exists());
}

#[tokio::test]
async fn a_folder_is_refused() {
    let bench = Bench::new();
    let error = refusal(bench.0.path()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(error.why(), "the path is a folder; name a file in it");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let bench = Bench::new();
    let text = "not a database, but longer than the header of one ".repeat(40);
    std::fs::write(bench.path(), &text).unwrap();
    let error = refusal(&bench.path()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.why().contains("not a SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(bench.path()).unwrap(), text);
}

#[tokio::test]
async fn a_database_of_another_application_is_refused() {
    let bench = Bench::new();
    let foreign = rusqlite::Connection::open(bench.path()).unwrap();
    foreign.execute_batch("create table mine (x)").unwrap();
    let error = refusal(&bench.path()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.why().contains("another application"), "{error}");
}

#[tokio::test]
async fn a_newer_layout_is_refused_with_what_to_do() {
    let bench = Bench::new();
    drop(connect(&bench.path()).await.unwrap());
    let raw = rusqlite::Connection::open(bench.path()).unwrap();
    raw.pragma_update(None, "user_version", 7).unwrap();
    let error = refusal(&bench.path()).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(
        error.why(),
        "layout version 7 is newer than 1: update leasehold"
    );
}

/// The tests may run as root, whom permissions do not stop; nobody at all may
/// make files in the folder of processes.
#[tokio::test]
async fn a_folder_that_takes_no_files_is_refused() {
    let error = refusal(Path::new("/proc/locks.db")).await;
    assert!(
        matches!(error.kind(), ErrorKind::Denied | ErrorKind::Config),
        "{error}"
    );
}

#[tokio::test]
async fn a_reboot_frees_everything_and_moves_the_tokens_on() {
    let bench = Bench::new();
    let before = Party::on(connect_in_boot(&bench.path(), "one").await.unwrap(), TTL).await;
    let ticket = before.ticket("a");
    let first = before.lock(&ticket).await.unwrap();
    // Without the process, as a reboot would have it.
    drop(before);
    let after = Party::on(connect_in_boot(&bench.path(), "two").await.unwrap(), TTL).await;
    let second = after.lock(&after.ticket("a")).await.unwrap();
    assert!(second.get() >= first.get() + (1 << 32), "{first} {second}");
}

#[tokio::test]
async fn a_file_that_another_kernel_uses_is_refused() {
    let bench = Bench::new();
    let engine = connect_in_boot(&bench.path(), "one").await.unwrap();
    let party = Party::on(engine, TTL).await;
    let error = connect_in_boot(&bench.path(), "two").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.why().contains("another kernel"), "{error}");
    party.engine.close(&party.lease).await.unwrap();
    connect_in_boot(&bench.path(), "two").await.unwrap();
}

#[tokio::test]
async fn a_deleted_store_is_noticed_and_a_new_one_waits_for_that() {
    let bench = Bench::new();
    let party = bench.party().await;
    let ticket = party.ticket("a");
    let first = party.lock(&ticket).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("locks.db{suffix}");
        std::fs::remove_file(bench.path().with_file_name(name)).unwrap();
    }
    // The holder does not know yet, so nobody else may hold.
    let error = connect(&bench.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.why().contains("still alive"), "{error}");

    // Nobody would read it.
    let memo = Memo {
        token: first,
        edition: 1,
        bytes: b"late".to_vec(),
    };
    let noted = party.engine.write_memo(&ticket.claim, &memo).await;
    assert_eq!(noted.unwrap(), Noted::NotHeld);

    let another = party.ticket("b");
    assert_eq!(
        party.engine.enqueue(&another).await.unwrap(),
        Standing::Gone
    );
    let renewal = party.engine.renew(&party.lease).await.unwrap();
    assert_eq!(renewal, crate::engine::Renewal::LeaseGone);

    // Those who hold by the lease hear of it between the two.
    let error = connect(&bench.path()).await.unwrap_err();
    assert!(error.why().contains("still alive"), "{error}");
    party.engine.close(&party.lease).await.unwrap();

    let newcomer = bench.party().await;
    let second = newcomer.lock(&newcomer.ticket("a")).await.unwrap();
    assert!(second > first);
    let again = Party::on(party.engine, TTL).await;
    assert_eq!(again.lock(&again.ticket("a")).await, None);
}

#[tokio::test]
async fn many_can_make_the_same_store_at_once() {
    let bench = Bench::new();
    let path = bench.path();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move { connect(&path).await.map(drop) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_store_is_the_same_by_whatever_link_one_comes() {
    let bench = Bench::new();
    let real = bench.0.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, bench.0.path().join("folder")).unwrap();
    let one = Party::join(&bench.0.path().join("folder/locks.db"), TTL).await;
    let link = bench.0.path().join("link.db");
    std::os::unix::fs::symlink(real.join("locks.db"), &link).unwrap();
    let two = Party::join(&link, TTL).await;
    assert!(one.lock(&one.ticket("a")).await.is_some());
    assert_eq!(two.lock(&two.ticket("a")).await, None);
}

/// SQLite would keep a log for each name, and both would grant.
#[tokio::test]
async fn a_file_with_a_second_name_is_refused() {
    let bench = Bench::new();
    let _party = bench.party().await;
    let link = bench.0.path().join("link.db");
    std::fs::hard_link(bench.path(), &link).unwrap();
    let error = refusal(&link).await;
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.why().contains("hard link"), "{error}");
    std::fs::remove_file(link).unwrap();
    connect(&bench.path()).await.unwrap();
}

/// Other processes make new ones and see nothing of what we write to the old.
#[tokio::test]
async fn a_log_removed_while_it_is_in_use_is_noticed() {
    let bench = Bench::new();
    let party = bench.party().await;
    party.lock(&party.ticket("a")).await.unwrap();
    for suffix in ["-wal", "-shm"] {
        let name = format!("locks.db{suffix}");
        std::fs::remove_file(bench.path().with_file_name(name)).unwrap();
    }
    let renewal = party.engine.renew(&party.lease).await.unwrap();
    assert_eq!(renewal, crate::engine::Renewal::LeaseGone);
    party.engine.close(&party.lease).await.unwrap();
    let again = party.engine.open(&Owner::new("test"), TTL).await;
    let error = again.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.why().contains("restart"), "{error}");
}
