//! Who may pass: reads the headers, makes sure that the fence is not made up,
//! and waits at the door.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};

use super::doors::{Doors, Pass};
use super::headers::{FENCE, RESOURCE, SIGNATURE, Shown};
use super::problem::Problem;
use crate::error::Error;
use crate::fence::{FenceKey, Policy};
use crate::inspector::Inspector;

type FindResource = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// What makes a fence true. Without it anybody could show a huge token and shut
/// all others out.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Holders sign their fences with this key.
    Key(FenceKey),
    /// At its first sight the lock of the resource's name must be held under
    /// that fence in this store.
    Store(Inspector),
}

/// Admits the requests of the newest holder of each resource.
#[derive(Clone)]
pub struct Porter {
    doors: Arc<Doors>,
    trust: Trust,
    resource: Arc<FindResource>,
    patience: Option<Duration>,
}

impl Porter {
    /// The resource is what the header `Leasehold-Resource` says.
    pub fn new(doors: Arc<Doors>, trust: Trust) -> Self {
        Self {
            doors,
            trust,
            resource: Arc::new(|_| None),
            patience: None,
        }
    }

    /// Finds the resource in the request itself, as in its path; what it finds
    /// goes before the header.
    #[must_use]
    pub fn resource(
        mut self,
        find: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.resource = Arc::new(find);
        self
    }

    /// How long a request waits for older ones before it is told to come again;
    /// without it, as long as it takes.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Waits until the request may go on to the service.
    ///
    /// # Errors
    /// The answer to give if it may not.
    ///
    /// # Cancel safety
    /// Nothing has gone on if this is dropped.
    pub async fn admit(&self, parts: &Parts) -> Result<Pass, Response<String>> {
        let (shown, resource) = self.read(parts).map_err(Problem::response)?;
        let mark = self.doors.mark(&resource);
        if let Err(stale) = Policy::Ordered.claim(mark, shown.fence) {
            let error = Error::stale(stale, "pass");
            return Err(Problem::of(&error, &resource).response());
        }
        // A fence is looked into once: after that it is the mark.
        if mark != Some(shown.fence) {
            let confirmed = self.confirm(&resource, &shown).await;
            confirmed.map_err(Problem::response)?;
        }
        let pass = self.doors.pass(&resource, shown.fence);
        let passed = match self.patience {
            Some(patience) => match tokio::time::timeout(patience, pass).await {
                Ok(passed) => passed,
                Err(_) => return Err(come_again(patience)),
            },
            None => pass.await,
        };
        passed.map_err(|error| Problem::of(&error, &resource).response())
    }

    /// Who asks, and for what.
    fn read(&self, parts: &Parts) -> Result<(Shown, String), Problem> {
        let shown = Shown::read(&parts.headers)
            .map_err(|why| Problem::new(StatusCode::BAD_REQUEST, "not a fence", why))?;
        let Some(shown) = shown else {
            let why = format!("the header {FENCE} is missing");
            let status = StatusCode::PRECONDITION_REQUIRED;
            return Err(Problem::new(status, "no fence", why));
        };
        let resource = (self.resource)(parts).or_else(|| shown.resource.clone());
        match resource.filter(|resource| !resource.is_empty()) {
            Some(resource) => Ok((shown, resource)),
            None => {
                let why = format!("the path names no resource, and there is no header {RESOURCE}");
                Err(Problem::new(StatusCode::BAD_REQUEST, "no resource", why))
            }
        }
    }

    /// Whether the fence was really given out.
    async fn confirm(&self, resource: &str, shown: &Shown) -> Result<(), Problem> {
        let fence = shown.fence;
        let refuse = |why| Err(Problem::new(StatusCode::FORBIDDEN, "not confirmed", why));
        match &self.trust {
            Trust::Key(key) => match &shown.signature {
                Some(signature) if key.verify(resource, fence, signature) => Ok(()),
                Some(_) => refuse(format!("{SIGNATURE} is not of {fence} for {resource}")),
                None => refuse(format!("the header {SIGNATURE} is missing")),
            },
            Trust::Store(store) => {
                let queue = match store.queue(resource).await {
                    Ok(queue) => queue,
                    Err(error) => return Err(Problem::of(&error, resource)),
                };
                let is_held = queue.claims.iter().any(|claim| {
                    claim.is_holder
                        && claim.token == Some(fence.token)
                        && claim.holder == fence.holder
                });
                if is_held {
                    return Ok(());
                }
                refuse(format!("the lock {resource} is not held under {fence}"))
            }
        }
    }
}

/// Older requests are still under way.
fn come_again(patience: Duration) -> Response<String> {
    let why = "requests of an earlier holder are still under way";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "cannot pass yet", why);
    let mut response = problem.response();
    let seconds = HeaderValue::from(patience.as_secs().max(1));
    response.headers_mut().insert(header::RETRY_AFTER, seconds);
    response
}

impl std::fmt::Debug for Porter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Porter")
            .field("doors", &self.doors)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}
