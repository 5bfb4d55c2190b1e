//! A [`tower`](https://docs.rs/tower) layer: only the newest holder's requests
//! reach the service behind it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::doors::Pass;
use super::porter::Porter;
use crate::fence::Ending;

/// Lets only requests through that a [`Porter`] admits.
#[derive(Debug, Clone)]
pub struct FenceLayer {
    porter: Porter,
}

impl FenceLayer {
    /// A layer that asks this porter.
    pub fn new(porter: Porter) -> Self {
        Self { porter }
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced {
            inner,
            porter: self.porter.clone(),
        }
    }
}

/// A service behind a [`FenceLayer`].
#[derive(Debug, Clone)]
pub struct Fenced<S> {
    inner: S,
    porter: Porter,
}

impl<S, RequestBody, ResponseBody> Service<Request<RequestBody>> for Fenced<S>
where
    S: Service<Request<RequestBody>, Response = Response<ResponseBody>> + Clone + Send + 'static,
    S::Future: Send,
    RequestBody: Send + 'static,
    ResponseBody: Body + From<String> + Send,
{
    type Response = Response<InFlight<ResponseBody>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        // The one that was asked whether it is ready is the one to call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let porter = self.porter.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let pass = match porter.admit(&parts).await {
                Ok(pass) => pass,
                Err(answer) => return Ok(answer.map(|text| InFlight::over(text.into()))),
            };
            let has_body = parts.method != Method::HEAD;
            // If this fails, or nobody waits for it any more, the pass is
            // dropped: the service may still be at it.
            let response = inner.call(Request::from_parts(parts, body)).await?;
            if has_body && !response.body().is_end_stream() {
                return Ok(response.map(|body| InFlight {
                    body,
                    pass: Some(pass),
                }));
            }
            pass.end(Ending::Answered);
            Ok(response.map(InFlight::over))
        })
    }
}

pin_project! {
    /// A body of which the last part ends the request.
    #[derive(Debug)]
    pub struct InFlight<B> {
        #[pin]
        body: B,
        pass: Option<Pass>,
    }
}

impl<B> InFlight<B> {
    fn over(body: B) -> Self {
        Self { body, pass: None }
    }
}

impl<B: Body> Body for InFlight<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        // Whoever knows the length does not ask for the end.
        let has_ended = || this.body.is_end_stream() || this.body.size_hint().exact() == Some(0);
        let is_over = match &frame {
            None => true,
            Some(Ok(_)) => has_ended(),
            Some(Err(_)) => false,
        };
        if let Some(pass) = this.pass.take_if(|_| is_over) {
            pass.end(Ending::Answered);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
