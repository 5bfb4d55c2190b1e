//! The layer before a service of one's own: who passes, and when a request is
//! over.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use leasehold::fence::FenceKey;
use leasehold::http::{Doors, FenceLayer, Fenced, Porter, Trust, fence_headers};
use leasehold::{Fence, Token};
use tokio::sync::Semaphore;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

const KEY: &[u8] = b"a key for tests only";

/// A service that answers when it is allowed to.
struct Stage {
    doors: Arc<Doors>,
    porter: Porter,
    /// One permit per answer.
    answers: Arc<Semaphore>,
    _folder: tempfile::TempDir,
}

fn stage() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let state = folder.path().join("marks");
    Doors::create(&state).unwrap();
    let doors = Arc::new(Doors::open_first(&state, hour).unwrap());
    let key = FenceKey::new(KEY).unwrap();
    let porter = Porter::new(doors.clone(), Trust::Key(key)).patience(Duration::from_millis(300));
    Stage {
        doors,
        porter,
        answers: Arc::new(Semaphore::new(0)),
        _folder: folder,
    }
}

fn request(token: u64, method: Method) -> Request<()> {
    let fence = Fence {
        token: Token::new(token),
        holder: token,
    };
    let key = FenceKey::new(KEY).unwrap();
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.headers_mut() = fence_headers(fence, "printer", Some(&key)).unwrap();
    request
}

/// A body that problems can be told in.
#[derive(Debug)]
struct Text(Full<bytes::Bytes>);

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Full::from(text))
    }
}

impl http_body::Body for Text {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Infallible>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

impl Stage {
    fn service(
        &self,
        text: &'static str,
    ) -> Fenced<
        impl tower::Service<Request<()>, Response = Response<Text>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    > {
        let answers = self.answers.clone();
        let inner = service_fn(move |_: Request<()>| {
            let answers = answers.clone();
            async move {
                answers.acquire().await.unwrap().forget();
                Ok::<_, Infallible>(Response::new(Text::from(text.to_owned())))
            }
        });
        FenceLayer::new(self.porter.clone()).layer(inner)
    }

    async fn ask(&self, token: u64, method: Method) -> (StatusCode, String) {
        let response = self
            .service("done")
            .oneshot(request(token, method))
            .await
            .unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

#[tokio::test]
async fn the_newest_passes_and_an_older_one_is_refused() {
    let stage = stage();
    stage.answers.add_permits(2);
    assert_eq!(
        stage.ask(7, Method::GET).await,
        (StatusCode::OK, "done".into())
    );
    assert_eq!(stage.ask(8, Method::GET).await.0, StatusCode::OK);
    let (status, problem) = stage.ask(7, Method::GET).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(
        problem.contains("\"mark\":\"8-0000000000000008\""),
        "{problem}"
    );
    let bare = stage.service("done").oneshot(Request::new(())).await;
    assert_eq!(bare.unwrap().status(), StatusCode::PRECONDITION_REQUIRED);
}

#[tokio::test]
async fn an_answer_is_under_way_until_it_has_been_read() {
    let stage = stage();
    stage.answers.add_permits(2);
    let answer = stage.service("long").oneshot(request(7, Method::GET)).await;
    assert_eq!(stage.doors.under_way(), 1);
    assert_eq!(
        stage.ask(8, Method::GET).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    answer.unwrap().into_body().collect().await.unwrap();
    assert_eq!(stage.doors.under_way(), 0);
    assert_eq!(stage.ask(8, Method::GET).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_that_nobody_reads_leaves_a_doubt() {
    let stage = stage();
    stage.answers.add_permits(2);
    let answer = stage.service("long").oneshot(request(7, Method::GET)).await;
    drop(answer);
    assert_eq!(stage.doors.under_way(), 0);
    assert_eq!(
        stage.ask(8, Method::GET).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn an_answer_without_a_body_is_over_at_once() {
    let stage = stage();
    stage.answers.add_permits(3);
    for (token, text, method) in [(7, "", Method::GET), (8, "unread", Method::HEAD)] {
        drop(stage.service(text).oneshot(request(token, method)).await);
    }
    assert_eq!(stage.ask(9, Method::GET).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_request_that_is_given_up_in_the_service_leaves_a_doubt() {
    let stage = stage();
    // It waits in the service.
    let mut service = stage.service("done");
    let went_on = service.ready().await.unwrap().call(request(7, Method::GET));
    let given_up = tokio::time::timeout(Duration::from_millis(300), went_on).await;
    assert!(given_up.is_err());
    assert_eq!(stage.doors.under_way(), 0);
    assert_eq!(
        stage.ask(8, Method::GET).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(stage.doors.mark("printer").unwrap().token.get(), 8);
}

#[tokio::test]
async fn one_process_at_a_time_has_the_marks() {
    let stage = stage();
    let path = stage._folder.path().join("marks");
    let second = Doors::open(&path, Duration::from_secs(1)).unwrap_err();
    assert_eq!(second.kind(), leasehold::ErrorKind::Unavailable, "{second}");
}
