//! One lock shared with Curator and with kazoo.

use std::process::Command;
use std::time::Duration;

use super::{ONE, Zookeeper, ensemble, session};
use crate::LONG;
use crate::ensemble::{Foreign, Ours, client, counts, lacks, shares};

const NAME: &str = "shared/ledger";

/// Another library, and how we share its locks.
#[derive(Clone, Copy)]
struct Library {
    client: &'static str,
    options: &'static str,
}

const CURATOR: Library = Library {
    client: "curator",
    options: "&layout=curator",
};
const KAZOO: Library = Library {
    client: "kazoo",
    options: "&layout=kazoo",
};

impl Library {
    /// Does this, as a program of its own.
    fn start(self, verb: &str, zookeeper: &Zookeeper, rest: &[&str]) -> Foreign {
        let mut command = Command::new(client(self.client));
        command.args([verb, &zookeeper.url(), NAME]).args(rest);
        Foreign::start(command)
    }

    /// Their kind of lock, which follows their verb, and ours.
    async fn shares(self, theirs: &str, ours: Ours) {
        testbed::need(lacks(self.client));
        let zookeeper = ONE.take();
        let hold = |ttl: Duration| {
            let verb = format!("hold{theirs}");
            self.start(&verb, &zookeeper, &[&ttl.as_millis().to_string()])
        };
        let lock = (&*zookeeper.url(), self.options, NAME);
        shares(lock, ours, hold, Foreign::let_go).await;
    }

    /// Readers of both sides are in at the same time.
    async fn readers_share(self) {
        testbed::need(lacks(self.client));
        let zookeeper = ONE.take();
        let options = format!("ttl=30s{}", self.options);
        let ours = session(&zookeeper.url(), &options).await;
        let guard = ours.rwlock(NAME).read_within(LONG).await.unwrap();
        let foreign = self.start("hold-read", &zookeeper, &["30000"]);
        assert_eq!(foreign.says(), "held");
        let another = ours.rwlock(NAME).read_within(LONG).await.unwrap();
        guard.check().unwrap();
        another.release().await.unwrap();
        guard.release().await.unwrap();
    }

    async fn counts(self, theirs: &str, ours: Ours) {
        testbed::need(lacks(self.client));
        let (folder, zookeeper) = ensemble(3);
        let file = folder.path().join("counter");
        let verb = format!("count{theirs}");
        let start = |rest: &[&str]| self.start(&verb, &zookeeper, rest);
        let lock = (&*zookeeper.url(), self.options, NAME);
        counts(lock, ours, &file, start).await;
    }
}

#[testbed::test]
async fn curators_mutex_and_we_share_a_lock() {
    CURATOR.shares("", Ours::Mutex).await;
}

#[testbed::test]
async fn curators_readers_and_our_writers_share_a_lock() {
    CURATOR.shares("-read", Ours::Write).await;
}

#[testbed::test]
async fn curators_writers_and_our_readers_share_a_lock() {
    CURATOR.shares("-write", Ours::Read).await;
}

#[testbed::test]
async fn kazoos_lock_and_we_share_a_lock() {
    KAZOO.shares("", Ours::Mutex).await;
}

#[testbed::test]
async fn kazoos_readers_and_our_writers_share_a_lock() {
    KAZOO.shares("-read", Ours::Write).await;
}

#[testbed::test]
async fn kazoos_writers_and_our_readers_share_a_lock() {
    KAZOO.shares("-write", Ours::Read).await;
}

#[testbed::test]
async fn readers_of_curator_and_ours_are_in_together() {
    CURATOR.readers_share().await;
}

#[testbed::test]
async fn readers_of_kazoo_and_ours_are_in_together() {
    KAZOO.readers_share().await;
}

#[testbed::test]
async fn a_counter_under_a_lock_counts_curator_too() {
    CURATOR.counts("", Ours::Mutex).await;
}

#[testbed::test]
async fn a_counter_under_a_write_lock_counts_curator_too() {
    CURATOR.counts("-write", Ours::Write).await;
}

#[testbed::test]
async fn a_counter_under_a_lock_counts_kazoo_too() {
    KAZOO.counts("", Ours::Mutex).await;
}

#[testbed::test]
async fn a_counter_under_a_write_lock_counts_kazoo_too() {
    KAZOO.counts("-write", Ours::Write).await;
}
