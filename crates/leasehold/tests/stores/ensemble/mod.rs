//! What etcd and ZooKeeper promise alike: members that agree, and a client that goes on as
//! long as it reaches enough of them. Each case runs on both.

mod access;
mod by_hand;
mod cable;
mod cut;
mod etcd;
mod foreign;
mod layout;
mod members;
mod zookeeper;

pub(crate) use access::is_said_to_be_alone;
pub(crate) use cable::{Cable, Cut};
pub(crate) use etcd::ONE_ETCD;
pub(crate) use foreign::{Foreign, Ours, client, counts, lacks, shares};
pub(crate) use zookeeper::ONE_ZOOKEEPER;

use std::path::Path;

use leasehold::Session;
use libtest_mimic::Trial;
use tempfile::TempDir;

use testbed::Lent;
use testbed::etcd::Etcd;
use testbed::zookeeper::Zookeeper;

/// A cluster of such a store.
pub(crate) trait Ensemble: Send + Sized + 'static {
    const NAME: &'static str;
    const SCHEME: &'static str;
    /// What is said of a member that has no majority.
    const ALONE: &'static str;
    /// With it a holder soon knows that its claim was deleted: on etcd its renewal finds
    /// out, on ZooKeeper a watch tells it.
    const HEARS: &'static str;

    /// Starts so many members in an empty folder.
    fn start(folder: &Path, members: usize) -> Self;
    /// A single member that other tests had before, empty. It must be left serving.
    fn one() -> Lent<Self>;
    fn ports(&self) -> Vec<u16>;
    /// Which member leads.
    fn leader(&self) -> usize;
    fn kill(&mut self, member: usize);
    /// Kills a member if it lives, starts it with the data that it has, and waits until
    /// it serves.
    fn restart(&mut self, member: usize);
    /// Lets a member stand still.
    fn stop(&self, member: usize);
    fn resume(&self, member: usize);
    fn serves(&self, member: usize) -> bool;
    /// A session that knows all members and is on this one.
    async fn session_on(&self, member: usize, options: &str) -> Session;
    /// The claims on a lock as they lie in the store, in order.
    fn claims(&self, name: &str) -> Vec<Claim>;
    fn delete(&self, claim: &Claim);
    /// Ends the session whose claim it is.
    fn end_session(&self, claim: &Claim);
    /// Something that is no memo, where the lock's memo would be.
    fn put_no_memo(&self, name: &str);

    fn follower(&self) -> usize {
        (self.leader() + 1) % self.ports().len()
    }

    fn url(&self) -> String {
        Self::url_of(self.ports())
    }

    /// The URL with this member only.
    fn url_to(&self, member: usize) -> String {
        Self::url_of([self.ports()[member]])
    }

    fn url_of(ports: impl IntoIterator<Item = u16>) -> String {
        let places = ports.into_iter().map(|port| format!("127.0.0.1:{port}"));
        format!(
            "{}://{}",
            Self::SCHEME,
            places.collect::<Vec<_>>().join(",")
        )
    }
}

/// A claim in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Where it lies.
    place: String,
    /// The transaction that made it.
    made: u64,
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = trials_on::<Etcd>();
    trials.extend(trials_on::<Zookeeper>());
    trials
}

fn trials_on<E: Ensemble>() -> Vec<Trial> {
    let cases = [
        access::cases::<E>(),
        by_hand::cases::<E>(),
        cut::cases::<E>(),
        layout::cases::<E>(),
        members::cases::<E>(),
    ];
    let trial = |(name, run)| testbed::trial(format!("ensemble::{}::{name}", E::NAME), run);
    cases.into_iter().flatten().map(trial).collect()
}

/// A case and its name.
type Case = (&'static str, fn());

/// The cases with these names, on the store `E`.
macro_rules! cases {
    ($($case:ident,)*) => {
        pub(super) fn cases<E: Ensemble>() -> Vec<super::Case> {
            vec![$((stringify!($case), || testbed::block_on($case::<E>()))),*]
        }
    };
}
use cases;

fn ensemble<E: Ensemble>(members: usize) -> (TempDir, E) {
    let folder = tempfile::tempdir().unwrap();
    let ensemble = E::start(folder.path(), members);
    (folder, ensemble)
}
