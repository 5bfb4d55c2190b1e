//! The barest lease lock that etcd gives through the same client: one
//! conditional put takes it, one conditional delete gives it back. No queue, no
//! session, no watchdog. `leasehold bench` measures ours by it.

use std::time::Duration;

use super::members::Members;
use super::request::{created_at, delete, put};
use super::wire::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, LeaseRevokeResponse, TxnRequest,
    TxnResponse,
};
use super::{EtcdConfig, EtcdEngine, random_number};
use crate::clock::boot_time;
use crate::engine::{Cause, ClaimRef, Engine, Owner, Ticket, TicketId};
use crate::error::{Error, ErrorKind, Result};
use crate::name::Name;
use crate::random::random_u128;

/// Long enough for any measurement.
const TTL: i64 = 3600;

/// A client and a lease that nobody renews.
#[derive(Debug)]
pub struct BareEtcd {
    config: EtcdConfig,
    members: Members,
    lease: i64,
}

impl BareEtcd {
    pub(crate) async fn connect(config: &EtcdConfig) -> Result<Self> {
        let members = Members::new(config)?;
        let request = LeaseGrantRequest {
            ttl: TTL,
            id: random_number(),
        };
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let granted = members.ask(path, &request, || "grant a lease".to_owned());
        let LeaseGrantResponse { id, .. } = granted.await?;
        Ok(Self {
            config: config.clone(),
            members,
            lease: id,
        })
    }

    /// Takes the lock and gives it back.
    ///
    /// # Errors
    /// Whatever the server says; `Conflict` if somebody has the lock.
    ///
    /// # Cancel safety
    /// The lock may stay taken until the lease ends.
    pub async fn cycle(&self, name: &str) -> Result<()> {
        let key = format!("{name}/{:x}", self.lease).into_bytes();
        let taken = self.transact(TxnRequest {
            compare: vec![created_at(&key, 0)],
            success: vec![put(&key, b"", self.lease)],
            failure: Vec::new(),
        });
        let taken = taken.await?;
        if !taken.succeeded {
            let why = "somebody else has it";
            return Err(Error::new(ErrorKind::Conflict, "take the bare lock", why));
        }
        let given = self.transact(TxnRequest {
            compare: vec![created_at(&key, taken.revision())],
            success: vec![delete(&key)],
            failure: Vec::new(),
        });
        given.await.map(drop)
    }

    /// Puts so many claims into a mutex's queue that wait for ever.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancel safety
    /// Some of the claims may be there.
    pub async fn crowd(&self, name: &str, count: u32) -> Result<()> {
        for number in 0..count {
            let key = format!("{name}/{:x}.{number:x}", self.lease).into_bytes();
            let request = TxnRequest {
                success: vec![put(&key, b"", self.lease)],
                ..TxnRequest::default()
            };
            self.transact(request).await?;
        }
        Ok(())
    }

    /// How long our own engine takes to put a claim into that queue and to take
    /// it out, as a median.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancel safety
    /// A claim may be left until the lease ends.
    pub async fn enqueue_p50(&self, name: &str, time: Duration) -> Result<Duration> {
        let engine = EtcdEngine::connect(&self.config).await?;
        let lease = engine
            .open(&Owner::new("bench"), Duration::from_secs(60))
            .await?;
        let (start, mut samples) = (boot_time(), Vec::new());
        while boot_time().since(start) < time {
            let ticket = Ticket {
                claim: ClaimRef {
                    name: Name::new(name)?,
                    id: TicketId(random_u128()),
                },
                lease: lease.id,
                holder: 0,
                capacity: 1,
                weight: 1,
                waits: true,
                label: None,
            };
            let began = boot_time();
            engine.enqueue(&ticket).await?;
            engine.withdraw(&ticket.claim, Cause::Ours).await?;
            samples.push(boot_time().since(began));
        }
        engine.close(&lease).await?;
        samples.sort_unstable();
        Ok(samples.get(samples.len() / 2).copied().unwrap_or_default())
    }

    /// Ends the lease and with it the crowd.
    ///
    /// # Errors
    /// Whatever the server says.
    ///
    /// # Cancel safety
    /// The lease may be left for an hour.
    pub async fn close(&self) -> Result<()> {
        let request = LeaseRevokeRequest { id: self.lease };
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        let revoked = self
            .members
            .ask(path, &request, || "end a lease".to_owned());
        let LeaseRevokeResponse {} = revoked.await?;
        Ok(())
    }

    async fn transact(&self, request: TxnRequest) -> Result<TxnResponse> {
        let doing = || "measure".to_owned();
        self.members
            .ask("/etcdserverpb.KV/Txn", &request, doing)
            .await
    }
}
