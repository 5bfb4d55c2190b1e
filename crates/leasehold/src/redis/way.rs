//! The way to a server: how a new connection to it is made.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ErrorKind as RedisKind,
    IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates,
    make_extension_error,
};

use super::config::{RedisConfig, User};
use super::fit;
use super::place::{Host, Place};
use crate::error::{Error, ErrorKind, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// How long an answer may take; a session with a shorter ttl gives up earlier.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What every connection of a session has in common.
#[derive(Clone)]
pub(super) struct Access {
    user: User,
    sentinel_user: User,
    database: i64,
    /// `None` without TLS.
    certificates: Option<TlsCertificates>,
}

/// Where a connection leads to.
#[derive(Clone)]
pub(super) enum Way {
    Host(Host),
    Socket(std::path::PathBuf),
    /// To wherever the sentinels say that the master is.
    Master {
        sentinels: Vec<Host>,
        master: String,
    },
}

impl Access {
    pub(super) fn new(config: &RedisConfig) -> Result<Self> {
        let certificates = match &config.tls {
            None => None,
            Some(tls) => {
                // With several providers in the tree rustls would not choose.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let read = |path: &std::path::PathBuf| {
                    std::fs::read(path).map_err(|error| {
                        let why = format!("{}: {error}", path.display());
                        Error::new(ErrorKind::Config, "read a certificate", why)
                    })
                };
                let client_tls = match (&tls.certificate, &tls.key) {
                    (Some(certificate), Some(key)) => Some(ClientTlsConfig {
                        client_cert: read(certificate)?,
                        client_key: read(key)?,
                    }),
                    _ => None,
                };
                let root_cert = tls.authority.as_ref().map(read).transpose()?;
                Some(TlsCertificates {
                    client_tls,
                    root_cert,
                })
            }
        };
        Ok(Self {
            user: config.user.clone(),
            sentinel_user: config.sentinel_user.clone(),
            database: config.database,
            certificates,
        })
    }

    fn client(&self, way: &Way) -> Result<Client, RedisError> {
        let address = match way {
            Way::Socket(path) => ConnectionAddr::Unix(path.clone()),
            Way::Host(host) => self.address(host),
            Way::Master { .. } => {
                let kind = RedisKind::InvalidClientConfig;
                return Err((kind, "a sentinel was not asked").into());
            }
        };
        let settings = user_settings(&self.user).set_db(self.database);
        // Messages come over the connection that requests go over.
        let settings = settings.set_protocol(ProtocolVersion::RESP3);
        self.open(address, settings)
    }

    fn address(&self, host: &Host) -> ConnectionAddr {
        let Host { name, port } = host.clone();
        match self.certificates {
            None => ConnectionAddr::Tcp(name, port),
            Some(_) => ConnectionAddr::TcpTls {
                host: name,
                port,
                insecure: false,
                tls_params: None,
            },
        }
    }

    fn open(
        &self,
        address: ConnectionAddr,
        settings: RedisConnectionInfo,
    ) -> Result<Client, RedisError> {
        let info = address.into_connection_info()?.set_redis_settings(settings);
        match &self.certificates {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        }
    }

    /// The way as it is now: to the server that the sentinels name.
    pub(super) async fn find(&self, way: &Way) -> Result<Way, RedisError> {
        match way {
            Way::Master { sentinels, master } => {
                Ok(Way::Host(self.find_master(sentinels, master).await?))
            }
            way => Ok(way.clone()),
        }
    }

    /// A new connection, by a way that was found.
    pub(super) async fn connect(
        &self,
        way: &Way,
        settings: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        let client = self.client(way)?;
        let connecting = client.get_multiplexed_async_connection_with_config(settings);
        match connecting.await {
            Err(error) if error.kind() == RedisKind::RESP3NotSupported => {
                Err(too_old(&client).await.unwrap_or(error))
            }
            // A server without TLS waits for the rest of what it takes for a
            // command.
            Err(error) if error.is_timeout() && self.certificates.is_some() => {
                let why = "no answer in TLS; is this a port with TLS?";
                Err(make_extension_error(fit::NOT_NOW.into(), Some(why.into())))
            }
            answer => answer,
        }
    }

    /// Asks all sentinels, and believes the most. They may disagree for a moment;
    /// whoever is named is asked for its role afterwards.
    async fn find_master(&self, sentinels: &[Host], master: &str) -> Result<Host, RedisError> {
        let ask = |sentinel| self.ask_sentinel(sentinel, master);
        let mut answers: FuturesUnordered<_> = sentinels.iter().map(ask).collect();
        let mut votes: Vec<(Host, usize)> = Vec::new();
        let mut last = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Some(host)) => {
                    let known = votes.iter().position(|(other, _)| *other == host);
                    let place = known.unwrap_or(votes.len());
                    if known.is_none() {
                        votes.push((host, 0));
                    }
                    votes[place].1 += 1;
                    if votes[place].1 > sentinels.len() / 2 {
                        break;
                    }
                }
                Ok(None) => {
                    let kind = RedisKind::InvalidClientConfig;
                    let why = format!("the sentinels know no master {master:?}");
                    last.get_or_insert_with(|| (kind, "unknown master", why).into());
                }
                Err(error) => {
                    last.get_or_insert(error);
                }
            }
        }
        let most = votes.into_iter().rev().max_by_key(|(_, count)| *count);
        let none = || (RedisKind::InvalidClientConfig, "no sentinel named").into();
        most.map(|(host, _)| host)
            .ok_or_else(|| last.unwrap_or_else(none))
    }

    /// How to reach a sentinel.
    pub(super) fn sentinel(&self, sentinel: &Host) -> Result<Client, RedisError> {
        let settings = user_settings(&self.sentinel_user).set_skip_set_lib_name();
        self.open(self.address(sentinel), settings)
    }

    /// Who leads, as that sentinel sees it.
    pub(super) async fn ask_sentinel(
        &self,
        sentinel: &Host,
        master: &str,
    ) -> Result<Option<Host>, RedisError> {
        let client = self.sentinel(sentinel)?;
        // One that hangs must not use up the time of the others.
        let within = Some(ANSWER_WITHIN / 4);
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(within)
            .set_response_timeout(within);
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&settings)
            .await?;
        let mut question = ::redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(master);
        let answer: Option<(String, u16)> = question.query_async(&mut connection).await?;
        Ok(answer.map(|(name, port)| Host { name, port }))
    }
}

/// A server without RESP3 is too old for us; it says its version in RESP2.
async fn too_old(client: &Client) -> Option<RedisError> {
    let info = client.get_connection_info().clone();
    let settings = info.redis_settings().clone();
    let settings = settings.set_protocol(ProtocolVersion::RESP2);
    let client = Client::open(info.set_redis_settings(settings)).ok()?;
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    let question = ::redis::cmd("INFO");
    let info: String = question.query_async(&mut connection).await.ok()?;
    fit::check(&info, fit::Mode::Single).err()
}

fn user_settings(user: &User) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default();
    if let Some(name) = &user.name {
        settings = settings.set_username(name);
    }
    if let Some(password) = &user.password {
        settings = settings.set_password(password);
    }
    settings
}

impl Way {
    /// The server's address, if it is a fixed one.
    pub(super) fn host(&self) -> Option<&Host> {
        match self {
            Self::Host(host) => Some(host),
            _ => None,
        }
    }

    /// The one way of a place; `None` if there are several.
    pub(super) fn of(place: &Place) -> Option<Self> {
        match place {
            Place::One(host) => Some(Self::Host(host.clone())),
            Place::Socket(path) => Some(Self::Socket(path.clone())),
            Place::Sentinel { sentinels, master } => Some(Self::Master {
                sentinels: sentinels.clone(),
                master: master.clone(),
            }),
            Place::Cluster(_) => None,
        }
    }
}
