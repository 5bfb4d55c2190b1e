//! The doors of all resources of a service, each by `fence/passage.rs`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::marks::Marks;
use crate::clock::{Clock, Moment};
use crate::error::{Error, Result};
use crate::fence::{Ending, Fence, Passage, Turn};

/// Lets requests pass to a service that cannot check fences itself, resource by
/// resource, newest holder only.
#[derive(Debug)]
pub struct Doors {
    marks: Marks,
    drain_max: Duration,
    /// What was under way before we began acts no more after this, counted from
    /// then.
    closed_until: Duration,
    clock: Clock,
    began: Moment,
    doors: Mutex<HashMap<Arc<str>, Door>>,
}

#[derive(Debug)]
struct Door {
    passage: Passage,
    /// Told when something ends or the mark changes.
    changed: watch::Sender<()>,
}

impl Door {
    fn new(mark: Option<Fence>, closed_until: Duration) -> Self {
        Self {
            passage: Passage::after_restart(mark, closed_until),
            changed: watch::Sender::new(()),
        }
    }
}

impl Doors {
    /// Creates the file for [`open`](Self::open), for the very first time. There
    /// must be none: one that is lost has lost the marks, and then a stale
    /// holder could come in.
    ///
    /// # Errors
    /// `Config` if there is one, `Denied`, `Unavailable`.
    pub fn create(state: &Path) -> Result<()> {
        Marks::create(state)
    }

    /// Opens the doors of a service whose requests never act longer than
    /// `drain_max` after they reached it. The marks are kept in this file,
    /// which only one process may use. Nobody passes for `drain_max`, also to
    /// resources that the file does not know: what was under way before may
    /// still act, and the file may be an older one that was brought back.
    ///
    /// # Errors
    /// `Config` if the file is damaged or of a newer version, `Unavailable` if
    /// another process uses it, `Denied`.
    pub fn open(state: &Path, drain_max: Duration) -> Result<Self> {
        Self::open_after(state, drain_max, drain_max)
    }

    /// The same for the first start of all, when nothing can be under way: does
    /// not wait.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_first(state: &Path, drain_max: Duration) -> Result<Self> {
        Self::open_after(state, drain_max, Duration::ZERO)
    }

    fn open_after(state: &Path, drain_max: Duration, closed_until: Duration) -> Result<Self> {
        let clock = Clock::runtime();
        let (marks, known) = Marks::open(state)?;
        let doors = known.into_iter();
        let doors = doors.map(|(name, mark)| (name.into(), Door::new(Some(mark), closed_until)));
        Ok(Self {
            marks,
            drain_max,
            closed_until,
            doors: Mutex::new(doors.collect()),
            // After reading: what was under way ended before that.
            began: clock.now(),
            clock,
        })
    }

    /// The fence that a resource goes by.
    pub fn mark(&self, resource: &str) -> Option<Fence> {
        self.lock().get(resource)?.passage.mark()
    }

    /// Requests that are under way.
    pub fn under_way(&self) -> u32 {
        let doors = self.lock();
        doors.values().map(|door| door.passage.under_way()).sum()
    }

    /// Waits until a request may go on to the service.
    ///
    /// # Errors
    /// `Stale` if a newer holder has come, also while waiting; `Unavailable` if
    /// the mark cannot be written.
    ///
    /// # Cancel safety
    /// Nothing has gone on if this is dropped. The mark may have been raised.
    pub async fn pass(self: &Arc<Self>, resource: &str, fence: Fence) -> Result<Pass> {
        let stale = |stale| Error::stale(stale, format!("pass to {resource}"));
        let (name, mut changed) = self.arrive(resource, fence).map_err(stale)?;
        loop {
            changed.mark_unchanged();
            let turn = {
                let mut doors = self.lock();
                let passage = &mut self.door(&mut doors, &name).passage;
                let turn = passage.turn(fence, self.time()).map_err(stale)?;
                if turn == Turn::Go {
                    passage.start(fence);
                }
                turn
            };
            match turn {
                Turn::Go => {
                    return Ok(Pass {
                        doors: self.clone(),
                        resource: name,
                        fence,
                        ending: Some(Ending::Unknown),
                    });
                }
                Turn::Keep => {
                    self.marks.raise(resource, fence).await?;
                    self.change(&name, |passage| passage.keep(fence));
                }
                Turn::Wait(until) => {
                    let at = async {
                        match until {
                            Some(until) => self.clock.sleep_until(self.began + until).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        _ = changed.changed() => {}
                        () = at => {}
                    }
                }
            }
        }
    }

    fn arrive(
        &self,
        resource: &str,
        fence: Fence,
    ) -> Result<(Arc<str>, watch::Receiver<()>), crate::fence::Stale> {
        let mut doors = self.lock();
        let name = match doors.get_key_value(resource) {
            Some((name, _)) => name.clone(),
            None => resource.into(),
        };
        let door = self.door(&mut doors, &name);
        let before = door.passage.mark();
        door.passage.arrive(fence)?;
        if door.passage.mark() != before {
            // Those who waited with an older one are stale now.
            door.changed.send_replace(());
        }
        Ok((name, door.changed.subscribe()))
    }

    /// A resource that is new to the file may have been known to another one.
    fn door<'a>(
        &self,
        doors: &'a mut MutexGuard<'_, HashMap<Arc<str>, Door>>,
        name: &Arc<str>,
    ) -> &'a mut Door {
        let new = || Door::new(None, self.closed_until);
        doors.entry(name.clone()).or_insert_with(new)
    }

    fn change(&self, name: &Arc<str>, change: impl FnOnce(&mut Passage)) {
        let mut doors = self.lock();
        let door = self.door(&mut doors, name);
        change(&mut door.passage);
        door.changed.send_replace(());
    }

    fn time(&self) -> Duration {
        self.clock.now().since(self.began)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Door>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request on its way to the service. If it is dropped, nobody knows whether
/// the service still acts on it.
#[derive(Debug)]
#[must_use]
pub struct Pass {
    doors: Arc<Doors>,
    resource: Arc<str>,
    fence: Fence,
    ending: Option<Ending>,
}

impl Pass {
    /// Whose request it is.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Says how the request ended.
    pub fn end(mut self, ending: Ending) {
        self.ending = Some(ending);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(ending) = self.ending.take() {
            let (now, drain_max) = (self.doors.time(), self.doors.drain_max);
            self.doors.change(&self.resource, |passage| {
                passage.end(self.fence, ending, now, drain_max);
            });
        }
    }
}
