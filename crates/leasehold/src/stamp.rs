//! Reading without a lock: a stamp says afterwards whether a writer came between.

use std::sync::{Arc, Weak};

use crate::core::Core;
use crate::engine::Mark;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::memo::insist;
use crate::mutex::Target;
use crate::name::Name;
use crate::phase::Phase;
use crate::rwlock::RwLock;

/// When somebody began to read without a lock. Made by [`RwLock::stamp`].
#[derive(Debug, Clone)]
pub struct Stamp {
    name: Name,
    /// Whose it is: what a mark says may hold for one connection only.
    core: Weak<Core>,
    mark: Option<Mark>,
}

impl Stamp {
    /// Whether it can be good at all: not if a writer held the lock, or waited
    /// for it. Then there is no point in reading.
    pub fn may_be_good(&self) -> bool {
        self.mark.is_some()
    }
}

impl RwLock {
    /// Begins to read without the lock: nobody waits for it, nobody is held up.
    /// Read, then ask [`validate`](Self::validate) whether a writer came between.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
    /// let session = leasehold::connect("memory:").await?;
    /// let prices = session.rwlock("shop/prices");
    /// let stamp = prices.stamp().await?;
    /// let seen = "what was read";
    /// if !prices.validate(&stamp).await? {
    ///     let guard = prices.read().await?; // a writer came: read under the lock
    ///     guard.release().await?;
    /// }
    /// # drop(seen); Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if the store cannot tell; `Usage` if the name is not
    /// allowed; `Unavailable` if the store cannot be reached.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn stamp(&self) -> Result<Stamp> {
        let Target { anchor, name, .. } = self.target();
        let name = Name::new(name)?;
        let mark = mark(&anchor.core, &name).await?;
        let core = Arc::downgrade(&anchor.core);
        Ok(Stamp { name, core, mark })
    }

    /// Whether no writer was granted the lock since the stamp was made. What was
    /// read between is then as good as if it was read under the lock. `false`
    /// may also be said though no writer came, never `true` though one did, as
    /// far as the store itself does not forget whom it granted what.
    ///
    /// # Errors
    /// `Usage` if the stamp is of another lock or session; else as for
    /// [`stamp`](Self::stamp).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn validate(&self, stamp: &Stamp) -> Result<bool> {
        let Target { anchor, name, .. } = self.target();
        let is_ours = std::ptr::eq(stamp.core.as_ptr(), Arc::as_ptr(&anchor.core));
        if !is_ours || stamp.name.as_str() != &**name {
            let why = "the stamp was made on another lock or by another session";
            return Err(Error::new(ErrorKind::Usage, doing(name), why));
        }
        match &stamp.mark {
            None => Ok(false),
            Some(then) => Ok(mark(&anchor.core, &stamp.name).await?.as_ref() == Some(then)),
        }
    }
}

async fn mark(core: &Core, name: &Name) -> Result<Option<Mark>> {
    let doing = doing(name.as_str());
    if !core.promises.stamp {
        return Err(unsupported(doing));
    }
    let asking = || async {
        match core.phases.current() {
            Phase::Open(term) => core.engine.stamp(&term.lease, name).await,
            Phase::Between => {
                let why = "the lease was lost and there is no other yet";
                let error = Error::new(ErrorKind::Unavailable, &*doing, why);
                Err(error.effect_is(Effect::None))
            }
            Phase::Closed => Err(core.closed_error(doing.clone())),
        }
    };
    tokio::select! {
        biased;
        () = core.closed() => Err(core.closed_error(doing.clone())),
        mark = insist(core, &doing, asking) => Ok(mark?.0),
    }
}

fn doing(name: &str) -> String {
    format!("read {name} without a lock")
}

/// What an engine without stamps says.
pub(crate) fn unsupported(doing: impl Into<String>) -> Error {
    let why = "this store cannot tell whether a writer came between; those of sqlite:, redis: \
               (layout=queue), etcd:, zk:, postgres: and mysql: can";
    Error::new(ErrorKind::Unsupported, doing, why)
}
