//! One lock shared with `etcdctl lock` and with Go's client.

use std::process::Command;
use std::time::Duration;

use super::{Etcd, ONE, cluster};
use crate::ensemble::{Foreign, Ours, client, counts, lacks, shares};

const NAME: &str = "shared/ledger";
const GO: &str = "etcd-go";

/// The program in `interop/go-etcd`.
fn go(etcd: &Etcd, verb: &str, rest: &[&str]) -> Foreign {
    let mut command = Command::new(client(GO));
    command.args([verb, &etcd.url(), NAME]).args(rest);
    Foreign::start(command)
}

#[testbed::test]
async fn etcdctl_and_we_share_a_lock() {
    let etcd = ONE.take();
    // It prints the key when it has the lock, and then holds it.
    let hold = |ttl: Duration| {
        let mut command = etcd.etcdctl();
        command.args(["lock", NAME, &format!("--ttl={}", ttl.as_secs())]);
        Foreign::start(command)
    };
    let lock = (&*etcd.url(), "", NAME);
    shares(lock, Ours::Mutex, hold, Foreign::interrupt).await;
}

#[testbed::test]
async fn gos_client_and_we_share_a_lock() {
    testbed::need(lacks(GO));
    let etcd = ONE.take();
    let hold = |ttl: Duration| go(&etcd, "hold", &[&ttl.as_millis().to_string()]);
    let lock = (&*etcd.url(), "", NAME);
    shares(lock, Ours::Mutex, hold, Foreign::let_go).await;
}

#[testbed::test]
async fn a_counter_under_the_lock_counts_everybody() {
    testbed::need(lacks(GO));
    let (folder, etcd) = cluster(3);
    let (lock, file) = ((&*etcd.url(), "", NAME), folder.path().join("counter"));
    let start = |rest: &[&str]| go(&etcd, "count", rest);
    counts(lock, Ours::Mutex, &file, start).await;
}
