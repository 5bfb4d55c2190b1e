//! The servers of the suite, and a database on one of them for each case.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::{Inspector, Session};
use rustix::process::Signal;
use testbed::mysql::{DATABASE, Flavor, Mysql};
use testbed::postgres::{Postgres, SUPERUSER};
use testbed::{Placed, Shared, wait_for};

use super::way::Way;
use crate::steps;

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MariaDb,
    Mysql,
}

enum Server {
    Postgres(Postgres),
    Mysql(Mysql),
}

/// A database that no other case uses. Its tables are named as in PostgreSQL, such as
/// `leasehold.claim`.
pub(crate) struct Site {
    pub(crate) kind: Kind,
    pub(crate) database: String,
    server: Arc<Placed<Server>>,
}

const TABLES: [&str; 5] = ["meta", "session", "claim", "eviction", "memo"];

/// Does the same with a server of either kind.
macro_rules! with {
    ($server:expr, $it:ident => $does:expr) => {
        match $server {
            Server::Postgres($it) => $does,
            Server::Mysql($it) => $does,
        }
    };
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Postgres, Self::MariaDb, Self::Mysql];

    /// A database on the server that cases share.
    pub(crate) fn shared(self) -> Site {
        static POSTGRES: Shared<Server> = Shared::new(|folder| Kind::Postgres.start(folder, &[]));
        static MARIADB: Shared<Server> = Shared::new(|folder| Kind::MariaDb.start(folder, &[]));
        static MYSQL: Shared<Server> = Shared::new(|folder| Kind::Mysql.start(folder, &[]));
        let server = match self {
            Self::Postgres => &POSTGRES,
            Self::MariaDb => &MARIADB,
            Self::Mysql => &MYSQL,
        };
        Site::made(self, server.get())
    }

    /// The database of a server with these settings, for a case that restarts it or changes
    /// it for all.
    pub(crate) fn alone(self, settings: &[&str]) -> Site {
        let server = Placed::start(|folder| self.start(folder, settings));
        Site {
            kind: self,
            database: self.pick("postgres", DATABASE).into(),
            server: Arc::new(server),
        }
    }

    fn start(self, folder: &Path, settings: &[&str]) -> Server {
        let flavor = match self {
            Self::Postgres => return Server::Postgres(Postgres::start(folder, settings)),
            Self::MariaDb => Flavor::MariaDb,
            Self::Mysql => Flavor::Mysql,
        };
        Server::Mysql(Mysql::start_flavor(flavor, folder, settings))
    }

    /// The one for PostgreSQL, or the other.
    pub(crate) fn pick<T>(self, postgres: T, mysql: T) -> T {
        match self {
            Self::Postgres => postgres,
            Self::MariaDb | Self::Mysql => mysql,
        }
    }

    /// The option of a URL without TLS, which would hide the requests on a way.
    pub(crate) fn in_clear(self) -> &'static str {
        self.pick("sslmode=disable", "ssl-mode=disabled")
    }

    /// The server's clock.
    pub(crate) fn now(self) -> &'static str {
        self.pick("clock_timestamp()", "utc_timestamp(6)")
    }

    /// So many seconds before now.
    pub(crate) fn ago(self, seconds: u32) -> String {
        let second = self.pick("'1 second'", "1 second");
        let now = self.now();
        (0..seconds).fold(now.to_owned(), |time, _| {
            format!("{time} - interval {second}")
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::Mysql => "mysql",
        })
    }
}

impl Site {
    /// A new one.
    fn made(kind: Kind, server: Arc<Placed<Server>>) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let database = format!("case_{}", MADE.fetch_add(1, Ordering::Relaxed));
        let make = format!("create database {database}");
        match &**server {
            Server::Postgres(server) => server.sql(&make),
            Server::Mysql(server) => server.sql(&make),
        };
        Self {
            kind,
            database,
            server,
        }
    }

    /// As the user that may do everything.
    pub(crate) fn url(&self) -> String {
        self.url_as(self.kind.pick(SUPERUSER, "root"))
    }

    pub(crate) fn url_as(&self, user: &str) -> String {
        with!(&**self.server, it => it.url_in(&self.database, user))
    }

    pub(crate) async fn session(&self, options: &str) -> Session {
        steps::session(&self.url(), options).await
    }

    /// So many alike.
    pub(crate) async fn sessions<const N: usize>(&self, options: &str) -> [Session; N] {
        let mut sessions = Vec::new();
        for _ in 0..N {
            sessions.push(self.session(options).await);
        }
        sessions.try_into().expect("there are N")
    }

    pub(crate) async fn inspector(&self) -> Inspector {
        steps::inspector(&self.url()).await
    }

    /// A way to the server, and a session by it.
    pub(crate) async fn far(&self, options: &str) -> (Way, Session) {
        let way = Way::to(&self.url()).await;
        let options = format!("{options}&{}", self.kind.in_clear());
        let session = steps::session(&way.url(), &options).await;
        (way, session)
    }

    /// Runs SQL and gives what it prints: fields with `|` between them.
    pub(crate) fn sql(&self, text: &str) -> String {
        match &**self.server {
            Server::Postgres(server) => server.sql_in(&self.database, text),
            Server::Mysql(server) => {
                let named = |text: String, table: &&str| {
                    text.replace(&format!("leasehold.{table}"), &format!("leasehold_{table}"))
                };
                let text = TABLES.iter().fold(text.to_owned(), named);
                server.sql_in(&self.database, &text).replace('\t', "|")
            }
        }
    }

    /// Makes a user without any rights; how SQL names it.
    pub(crate) fn user(&self, name: &str) -> String {
        let user = self.kind.pick(name.into(), format!("{name}@'127.0.0.1'"));
        let kind = self.kind.pick("role", "user");
        let login = self.kind.pick("login", "");
        self.sql(&format!("create {kind} {user} {login}"));
        user
    }

    /// From now on PostgreSQL lets in those whom these lines of its configuration name.
    pub(crate) fn admit(&self, lines: &[&str]) {
        let file = self.postgres().data().join("pg_hba.conf");
        std::fs::write(file, lines.join("\n") + "\n").unwrap();
        self.sql("select pg_reload_conf()");
        wait_for("the new rules", || {
            let listed = self.sql("select count(*) from pg_hba_file_rules");
            (listed == lines.len().to_string()).then_some(())
        });
    }

    /// What the server has told of itself.
    pub(crate) fn log(&self) -> String {
        let data = with!(&**self.server, it => it.data());
        std::fs::read_to_string(data.join("log")).unwrap()
    }

    pub(crate) fn postgres(&self) -> &Postgres {
        match &**self.server {
            Server::Postgres(server) => server,
            Server::Mysql(_) => panic!("it is of {}", self.kind),
        }
    }

    pub(crate) fn mysql(&self) -> &Mysql {
        match &**self.server {
            Server::Mysql(server) => server,
            Server::Postgres(_) => panic!("it is of {}", self.kind),
        }
    }

    pub(crate) fn end_connections(&self) {
        with!(&**self.server, it => it.end_connections_of(&self.database));
    }

    pub(crate) fn kill(&mut self) {
        with!(self.own(), it => it.kill());
    }

    pub(crate) fn restart(&mut self) {
        with!(self.own(), it => it.restart());
    }

    /// The server stands still.
    pub(crate) fn stop(&mut self) {
        self.own().signal(Signal::STOP);
    }

    /// It goes on.
    pub(crate) fn go_on(&mut self) {
        self.own().signal(Signal::CONT);
    }

    fn own(&mut self) -> &mut Server {
        Arc::get_mut(&mut self.server).expect("no other case uses it")
    }
}

impl Server {
    fn signal(&self, signal: Signal) {
        match self {
            Self::Postgres(server) => server.signal_all(signal),
            Self::Mysql(server) => server.signal(signal),
        }
    }
}
