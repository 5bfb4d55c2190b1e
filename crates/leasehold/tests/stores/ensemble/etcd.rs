//! etcd, as the cases for clusters see it.

use std::path::Path;

use leasehold::Session;

use super::{Claim, Ensemble};
use crate::steps::session;
use testbed::etcd::{Etcd, Version};
use testbed::{Lent, Pool};

/// Single members that one test has after another.
pub(crate) static ONE_ETCD: Pool<Etcd> =
    Pool::new(4, |folder| Ensemble::start(folder, 1), Etcd::wipe);

impl Ensemble for Etcd {
    const NAME: &'static str = "etcd";
    const SCHEME: &'static str = "etcd";
    const ALONE: &'static str = "unavailable";
    const HEARS: &'static str = "ttl=6s";

    fn start(folder: &Path, members: usize) -> Self {
        Self::start_with(folder, Version::System, members, &[])
    }

    fn one() -> Lent<Self> {
        ONE_ETCD.take()
    }

    fn ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.port()).collect()
    }

    fn leader(&self) -> usize {
        self.leader()
    }

    fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    fn restart(&mut self, member: usize) {
        self.members[member].restart();
    }

    fn stop(&self, member: usize) {
        self.members[member].stop();
    }

    fn resume(&self, member: usize) {
        self.members[member].resume();
    }

    fn serves(&self, member: usize) -> bool {
        self.members[member].is_healthy()
    }

    async fn session_on(&self, member: usize, options: &str) -> Session {
        // The first one that it reaches.
        let mut ports = self.ports();
        ports.rotate_left(member);
        session(&Self::url_of(ports), options).await
    }

    fn claims(&self, name: &str) -> Vec<Claim> {
        let prefix = format!("{name}/");
        let sorted = ["--prefix", "--sort-by=CREATE", "--write-out=fields"];
        let shown = self.ctl(&[&["get", &prefix], &sorted[..]].concat());
        let fields = shown.lines().filter_map(|line| line.split_once(" : "));
        let mut claims = Vec::new();
        for (field, value) in fields {
            match field {
                "\"Key\"" => claims.push(Claim {
                    place: value.trim_matches('"').to_owned(),
                    made: 0,
                }),
                "\"CreateRevision\"" => {
                    let claim = claims.last_mut().expect("its key comes first");
                    claim.made = value.parse().expect("it is a number");
                }
                _ => {}
            }
        }
        claims
    }

    fn delete(&self, claim: &Claim) {
        self.ctl(&["del", &claim.place]);
    }

    fn end_session(&self, claim: &Claim) {
        // A key ends with its lease.
        let (_, lease) = claim.place.rsplit_once('/').expect("it is below its lock");
        self.ctl(&["lease", "revoke", lease]);
    }

    fn put_no_memo(&self, name: &str) {
        self.ctl(&["put", &format!("leasehold/memo/{name}"), "by hand"]);
    }
}
