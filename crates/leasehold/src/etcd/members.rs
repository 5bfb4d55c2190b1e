//! The members of the cluster: one connection to each, made when it is needed,
//! and one of them that we talk to until it fails us.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::config::{EtcdConfig, Tls, User};
use super::fault::{Cure, cure, effect, fault};
use super::lock;
use super::wire::{AuthenticateRequest, AuthenticateResponse};
use crate::clock::{Moment, boot_time};
use crate::error::{Effect, Error, ErrorKind, Result};

/// How long a member may take to take a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a member may take to answer before another one is asked.
const ANSWER: Duration = Duration::from_secs(1);
/// A request that was given up after this long tells against its member.
const SUSPICIOUS: Duration = Duration::from_millis(150);

/// The cluster as we reach it.
pub(super) struct Members {
    members: Vec<Member>,
    /// Which one we talk to.
    current: AtomicUsize,
    user: Option<User>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    pub(super) label: String,
}

struct Member {
    channel: Channel,
    label: String,
}

/// An answer, and whether an earlier request of the same kind went unanswered.
pub(super) struct Answered<A> {
    pub(super) answer: A,
    pub(super) is_repeated: bool,
}

impl Members {
    pub(super) fn new(config: &EtcdConfig) -> Result<Self> {
        let label = config.label();
        let tls = config.tls.as_ref().map(|tls| tls_config(tls, &label));
        let tls = tls.transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let member = |place: &String| {
            let endpoint = Endpoint::from_shared(format!("{scheme}://{place}"))
                .map(|endpoint| endpoint.connect_timeout(CONNECT).tcp_nodelay(true));
            let endpoint = match &tls {
                Some(tls) => endpoint.and_then(|endpoint| endpoint.tls_config(tls.clone())),
                None => endpoint,
            };
            let wrong = |error: tonic::transport::Error| {
                let why = std::error::Error::source(&error).map(ToString::to_string);
                let why = why.unwrap_or_else(|| error.to_string());
                Error::new(ErrorKind::Config, "connect", why).on(&label)
            };
            Ok(Member {
                channel: endpoint.map_err(wrong)?.connect_lazy(),
                label: format!("etcd {place}"),
            })
        };
        let members: Result<Vec<_>> = config.members.iter().map(member).collect();
        Ok(Self {
            members: members?,
            current: AtomicUsize::new(0),
            user: config.user.clone(),
            token: Mutex::new(None),
            label,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.members.len()
    }

    pub(super) fn label_of(&self, member: usize) -> &str {
        &self.members[member].label
    }

    /// Asks the current member, and the others if it does not answer. Whatever
    /// is asked must be the same when it is asked twice.
    pub(super) async fn ask<Q, A>(
        &self,
        path: &'static str,
        request: &Q,
        doing: impl Fn() -> String,
    ) -> Result<A>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        Ok(self.ask_noting(path, request, doing).await?.answer)
    }

    pub(super) async fn ask_noting<Q, A>(
        &self,
        path: &'static str,
        request: &Q,
        doing: impl Fn() -> String,
    ) -> Result<Answered<A>>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.try_each(doing, |member| self.unary(member, path, request.clone()))
            .await
    }

    /// Asks one member and nobody else.
    pub(super) async fn ask_member<Q, A>(
        &self,
        member: usize,
        path: &'static str,
        request: Q,
    ) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.say_who_we_are(member).await?;
        let answer = self.unary(member, path, request);
        tokio::time::timeout(ANSWER, answer)
            .await
            .unwrap_or_else(|_| Err(silence()))
    }

    /// Does something with one member after the other until one answers.
    pub(super) async fn try_each<A, F>(
        &self,
        doing: impl Fn() -> String,
        ask: impl Fn(usize) -> F,
    ) -> Result<Answered<A>>
    where
        F: Future<Output = Result<A, Status>>,
    {
        let (mut failed, mut is_repeated, mut has_new_token) = (0, false, false);
        loop {
            let member = self.current.load(Ordering::Relaxed) % self.members.len();
            let suspicion = Suspicion::of(self, member);
            let asking = async {
                self.say_who_we_are(member).await?;
                ask(member).await
            };
            // Where there is no other, waiting is all that can be done.
            let answer = if self.members.len() > 1 {
                let answer = tokio::time::timeout(ANSWER, asking).await;
                answer.unwrap_or_else(|_| Err(silence()))
            } else {
                asking.await
            };
            suspicion.ends();
            let status = match answer {
                Ok(answer) => {
                    return Ok(Answered {
                        answer,
                        is_repeated,
                    });
                }
                Err(status) => status,
            };
            let cure = cure(&status);
            is_repeated |= effect(&status) == Effect::Unknown;
            if cure == Cure::SayWhoWeAre && self.user.is_some() && !has_new_token {
                has_new_token = true;
                *lock(&self.token) = None;
                continue;
            }
            if cure == Cure::AskAnother {
                self.turn_from(member);
                failed += 1;
                if failed < self.members.len() {
                    continue;
                }
            }
            let store = match self.members.len() {
                1 => &self.label,
                _ => &self.members[member].label,
            };
            let error = fault(status, doing(), store);
            return Err(match is_repeated {
                true => error.effect_is(Effect::Unknown),
                false => error,
            });
        }
    }

    /// Another member from now on, unless somebody has chosen one already.
    pub(super) fn turn_from(&self, member: usize) {
        let next = (member + 1) % self.members.len();
        let order = Ordering::Relaxed;
        let _ = self.current.compare_exchange(member, next, order, order);
    }

    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.members.len()
    }

    pub(super) fn forget_token(&self) {
        *lock(&self.token) = None;
    }

    async fn unary<Q, A>(&self, member: usize, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(member).await?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.unary(self.dressed(request), path, codec).await?;
        Ok(answer.into_inner())
    }

    /// Opens a stream to one member.
    pub(super) async fn stream<Q, A>(
        &self,
        member: usize,
        path: &'static str,
        requests: impl futures_util::Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(member).await?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.streaming(self.dressed(requests), path, codec).await?;
        Ok(answer.into_inner())
    }

    async fn ready(&self, member: usize) -> Result<Grpc<Channel>, Status> {
        let channel = self.members[member].channel.clone();
        // A lock that thousands wait for is a long list.
        let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }

    /// The request with our token, and with the wish to hear of it at once if
    /// the member has no leader.
    fn dressed<Q>(&self, request: Q) -> Request<Q> {
        let mut request = Request::new(request);
        let headers = request.metadata_mut();
        headers.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = lock(&self.token).clone() {
            headers.insert("token", token);
        }
        request
    }

    /// Gets a token if we are a user and have none.
    pub(super) async fn say_who_we_are(&self, member: usize) -> Result<(), Status> {
        let Some(user) = &self.user else {
            return Ok(());
        };
        if lock(&self.token).is_some() {
            return Ok(());
        }
        let request = AuthenticateRequest {
            name: user.name.clone(),
            password: user.password.clone(),
        };
        let path = "/etcdserverpb.Auth/Authenticate";
        let answer = self
            .unary::<_, AuthenticateResponse>(member, path, request)
            .await;
        let token = match answer {
            Ok(answer) => answer.token,
            // A server that asks nobody lets everybody do everything.
            Err(status) if status.message().contains("authentication is not enabled") => {
                return Ok(());
            }
            Err(status) => return Err(status),
        };
        let token = token
            .parse()
            .map_err(|_| Status::internal("the server's token is no text"))?;
        *lock(&self.token) = Some(token);
        Ok(())
    }
}

fn silence() -> Status {
    Status::new(Code::DeadlineExceeded, "the server does not answer")
}

fn tls_config(tls: &Tls, label: &str) -> Result<ClientTlsConfig> {
    let read = |file: &std::path::Path| {
        std::fs::read(file).map_err(|error| {
            let why = format!("{}: {error}", file.display());
            Error::new(ErrorKind::Config, "read a certificate", why).on(label)
        })
    };
    let mut config = match &tls.authority {
        Some(file) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(file)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
        config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(config)
}

/// A request that is given up before its answer comes tells against its member:
/// one that stands still would otherwise be asked again and again.
pub(super) struct Suspicion<'a> {
    members: &'a Members,
    member: usize,
    since: Moment,
    is_over: bool,
}

impl<'a> Suspicion<'a> {
    pub(super) fn of(members: &'a Members, member: usize) -> Self {
        Self {
            members,
            member,
            since: boot_time(),
            is_over: false,
        }
    }

    pub(super) fn ends(mut self) {
        self.is_over = true;
    }
}

impl Drop for Suspicion<'_> {
    fn drop(&mut self) {
        if !self.is_over && boot_time().since(self.since) >= SUSPICIOUS {
            self.members.turn_from(self.member);
        }
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Members({})", self.label)
    }
}
