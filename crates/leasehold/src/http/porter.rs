//! Who may pass: reads the headers, makes sure that the fence is not made up,
//! and waits at the door.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header};

use super::doors::{Doors, Pass};
use super::headers::{FENCE, RESOURCE, SIGNATURE, Shown};
use super::problem::Problem;
use crate::engine::Claimant;
use crate::error::Error;
use crate::fence::{Fence, FenceKey, Policy};
use crate::inspector::Inspector;

type FindResource = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// What makes a fence true. Without it anybody could show a huge token and shut
/// all others out.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Holders sign their fences with this key. Whoever has the key is trusted
    /// with all resources; whoever reads a request on its way can repeat it
    /// until a newer holder comes.
    Key(FenceKey),
    /// At its first sight the lock of the resource's name must be held under
    /// that fence in this store. After that the fence itself is the proof, so
    /// nobody is told it but its holder and the service.
    Store(Inspector),
}

/// Admits the requests of the newest holder of each resource.
#[derive(Clone)]
pub struct Porter {
    doors: Arc<Doors>,
    trust: Trust,
    resource: Option<Arc<FindResource>>,
    patience: Option<Duration>,
}

impl Porter {
    /// The resource is what the header `Leasehold-Resource` says.
    pub fn new(doors: Arc<Doors>, trust: Trust) -> Self {
        Self {
            doors,
            trust,
            resource: None,
            patience: None,
        }
    }

    /// Finds the resource in the request itself, as in its path. The header is
    /// then not needed; one that says something else is refused.
    #[must_use]
    pub fn resource(
        mut self,
        find: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.resource = Some(Arc::new(find));
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
        self.verify(&resource, &shown).map_err(Problem::response)?;
        let mark = self.doors.mark(&resource);
        if let Err(stale) = Policy::Ordered.claim(mark, shown.fence) {
            return Err(self.refuse(&Error::stale(stale, "pass"), &resource));
        }
        // A fence is looked up once: after that it is the mark.
        if mark != Some(shown.fence) {
            let confirmed = self.confirm(&resource, shown.fence).await;
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
        passed.map_err(|error| self.refuse(&error, &resource))
    }

    /// Why a request does not pass. Only one that is signed is told the whole
    /// mark.
    fn refuse(&self, error: &Error, resource: &str) -> Response<String> {
        let is_trusted = matches!(self.trust, Trust::Key(_));
        Problem::of(error, resource, is_trusted).response()
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
        let Some(find) = &self.resource else {
            let named = shown.resource.clone().filter(|name| !name.is_empty());
            return named.map(|resource| (shown, resource)).ok_or_else(|| {
                let why = format!("the header {RESOURCE} is missing");
                Problem::new(StatusCode::BAD_REQUEST, "no resource", why)
            });
        };
        // A path that is not understood must not pass under another's name.
        let found = find(parts).filter(|name| !name.is_empty());
        let refuse = |why| Err(Problem::new(StatusCode::BAD_REQUEST, "no resource", why));
        match (found, &shown.resource) {
            (None, _) => refuse("the path names no resource".to_owned()),
            (Some(found), Some(said)) if found != *said => refuse(format!(
                "the path names {found}, the header {RESOURCE} says {said}"
            )),
            (Some(found), _) => Ok((shown, found)),
        }
    }

    /// Whether the fence is signed, where it has to be.
    fn verify(&self, resource: &str, shown: &Shown) -> Result<(), Problem> {
        let Trust::Key(key) = &self.trust else {
            return Ok(());
        };
        let fence = shown.fence;
        let why = match &shown.signature {
            Some(signature) if key.verify(resource, fence, signature) => return Ok(()),
            Some(_) => format!("{SIGNATURE} is not of {fence} for {resource}"),
            None => format!("the header {SIGNATURE} is missing"),
        };
        Err(Problem::new(StatusCode::FORBIDDEN, "not confirmed", why))
    }

    /// Whether the store knows the fence, where it is asked.
    async fn confirm(&self, resource: &str, fence: Fence) -> Result<(), Problem> {
        let Trust::Store(store) = &self.trust else {
            return Ok(());
        };
        let queue = store.queue(resource).await;
        let queue = queue.map_err(|error| Problem::of(&error, resource, false))?;
        let is_it = |claim: &Claimant| {
            claim.is_holder && claim.token == Some(fence.token) && claim.holder == fence.holder
        };
        if queue.claims.iter().any(is_it) {
            return Ok(());
        }
        let why = format!("the lock {resource} is not held under {fence}");
        Err(Problem::new(StatusCode::FORBIDDEN, "not confirmed", why))
    }
}

/// Older requests are still under way.
fn come_again(patience: Duration) -> Response<String> {
    let why = "requests of an earlier holder, or from before a start, may be under way; or the disk is slow";
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
