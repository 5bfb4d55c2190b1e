//! ZooKeeper, as the cases for clusters see it.

use std::path::Path;

use leasehold::Session;

use super::{Claim, Ensemble};
use crate::steps::{lock, session};
use testbed::zookeeper::{Client, Zookeeper};
use testbed::{Lent, Pool, wait_for};

/// Single servers that one test has after another.
pub(crate) static ONE_ZOOKEEPER: Pool<Zookeeper> =
    Pool::new(4, |folder| Ensemble::start(folder, 1), Zookeeper::wipe);

impl Ensemble for Zookeeper {
    const NAME: &'static str = "zookeeper";
    const SCHEME: &'static str = "zk";
    const ALONE: &'static str = "no majority, and serves nobody";
    const HEARS: &'static str = "ttl=1h";

    fn start(folder: &Path, members: usize) -> Self {
        Self::start_with(folder, members, "", &[])
    }

    fn one() -> Lent<Self> {
        ONE_ZOOKEEPER.take()
    }

    fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.port).collect()
    }

    fn leader(&self) -> usize {
        self.leader()
    }

    fn kill(&mut self, member: usize) {
        self.servers[member].kill();
    }

    fn restart(&mut self, member: usize) {
        self.servers[member].restart();
    }

    fn stop(&self, member: usize) {
        self.servers[member].stop();
    }

    fn resume(&self, member: usize) {
        self.servers[member].resume();
    }

    fn serves(&self, member: usize) -> bool {
        self.servers[member].mode().is_some()
    }

    async fn session_on(&self, member: usize, options: &str) -> Session {
        // Which server it is on is left to chance.
        let mut client = self.client();
        for _ in 0..100 {
            let session = session(&self.url(), options).await;
            let guard = lock(&session, "where-am-i").await;
            // A follower may be behind.
            let (_, owner) = wait_for("the node", || {
                let children = client.children("/where-am-i").ok()?;
                let child = children.first()?;
                client.stat(&format!("/where-am-i/{child}")).ok()
            });
            guard.release().await.unwrap();
            if self.servers[member].has_session(owner) {
                return session;
            }
            session.close().await;
        }
        panic!("no session was on server {member}");
    }

    fn claims(&self, name: &str) -> Vec<Claim> {
        let mut client = self.client();
        let nodes = client.children(&format!("/{name}")).unwrap_or_default();
        let claim = |node: String| {
            let place = format!("/{name}/{node}");
            // It may be gone by now.
            let (made, _) = client.stat(&place).ok()?;
            Some(Claim {
                place,
                made: made.unsigned_abs(),
            })
        };
        let mut claims: Vec<_> = nodes.into_iter().filter_map(claim).collect();
        claims.sort_by_key(|claim| claim.made);
        claims
    }

    fn delete(&self, claim: &Claim) {
        self.client().delete(&claim.place).expect("it is there");
    }

    fn end_session(&self, claim: &Claim) {
        let mut client = self.client();
        let (_, owner) = client.stat(&claim.place).expect("it is there");
        // Number and password are enough to end a session. Its owner takes it back at
        // once, perhaps before it has ended.
        wait_for("the end of the session", || {
            Client::end_session(self.servers[0].port, owner, &password_of(owner));
            client.stat(&claim.place).err()
        });
    }

    fn put_no_memo(&self, name: &str) {
        let mut client = self.client();
        let memo = format!("/.leasehold/memo/{name}");
        for node in ["/.leasehold", "/.leasehold/memo", &memo] {
            // Some may be there already.
            let _ = client.create(node, 0);
        }
    }
}

/// What the server makes of a session's number; it is the same everywhere.
fn password_of(session: i64) -> [u8; 16] {
    const SECRET: i64 = 0xB341_5C00;
    let mut seed = ((session ^ SECRET) ^ 0x5_DEEC_E66D) & ((1 << 48) - 1);
    let mut password = [0; 16];
    for four in password.chunks_mut(4) {
        seed = seed.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        let number = (seed >> 16).to_le_bytes();
        four.copy_from_slice(&number[..4]);
    }
    password
}
