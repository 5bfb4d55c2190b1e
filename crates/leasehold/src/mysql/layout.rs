//! The tables: what they are called, whether they are there, and making them.

use super::pool::{Lane, Pool};
use super::text::{column, identifier, number, quoted};
use crate::error::{Error, ErrorKind, Result};

/// Raised by any change that an older version would misread.
pub(super) const VERSION: u32 = 1;

/// The names of the tables, quoted.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) meta: String,
    pub(super) session: String,
    pub(super) claim: String,
    pub(super) eviction: String,
    pub(super) memo: String,
    pub(super) bare: String,
}

impl Tables {
    pub(super) fn new(database: &str, schema: &str) -> Self {
        let table = |name| {
            format!(
                "{}.{}",
                identifier(database),
                identifier(&format!("{schema}_{name}"))
            )
        };
        Self {
            meta: table("meta"),
            session: table("session"),
            claim: table("claim"),
            eviction: table("eviction"),
            memo: table("memo"),
            bare: table("bare"),
        }
    }

    /// Everything that the engine needs in a database, as SQL that may be run
    /// again.
    pub(super) fn script(&self) -> String {
        let tables = format!(
            include_str!("sql/tables.sql"),
            meta = self.meta,
            session = self.session,
            claim = self.claim,
            eviction = self.eviction,
        );
        format!("{tables}\n{}", self.memo_script())
    }

    /// Came later, and is made beside the rest where it is missing.
    fn memo_script(&self) -> String {
        format!(include_str!("sql/memo.sql"), memo = self.memo)
    }

    /// For a table that was made before memos could end.
    fn ending_script(&self) -> String {
        format!(
            "alter table {} add column expires datetime(6), add key by_expires (expires)",
            self.memo
        )
    }
}

/// The server's clock in microseconds, as an expression.
pub(super) const CLOCK: &str = "timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))";

/// Whether the server takes writes from everybody, as an expression. Some users may
/// write to one that is read only.
pub(super) const WRITABLE: &str = "cast(@@global.read_only as char) in ('0', 'OFF')";

/// Which kind of server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mysql,
    MariaDb,
    /// One of many that have everything in common.
    Galera,
}

impl Kind {
    /// What tells one server from another, as an expression.
    pub(super) fn identity(self) -> &'static str {
        match self {
            Self::Mysql => "@@server_uuid",
            Self::MariaDb => "concat(@@hostname, ' ', @@port, ' ', @@server_id)",
            Self::Galera => "concat('galera ', @@wsrep_cluster_name)",
        }
    }
}

/// Leaves the tables ready for use, making them if they are missing. Says what kind
/// of server it is, and whether it has memos that we may use.
pub(super) async fn prepare(
    pool: &Pool,
    tables: &Tables,
    database: &str,
    schema: &str,
) -> Result<(Kind, bool)> {
    let doing = || "connect".to_owned();
    let state = state(pool, database, schema).await?;
    if state.is_read_only {
        let why = "the server is read only, maybe a replica: name the one that takes writes";
        return Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label));
    }
    if !state.is_new_enough {
        let why = format!("{}; MySQL 8.0 or MariaDB 10.6 is needed", state.release);
        return Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label));
    }
    if !state.has_tables {
        make(pool, tables).await?;
    }
    let mut version = version(pool, tables).await?;
    if version.is_none() {
        // Another one is about to make them, and the version comes last. The script
        // may be run beside itself.
        make(pool, tables).await?;
        version = self::version(pool, tables).await?;
    }
    let why = match version {
        Some(VERSION) => {
            settle_in(pool, tables, state.kind).await?;
            let has_memo = state.has_memo() || makes_memos(pool, tables, database, schema).await?;
            return Ok((state.kind, has_memo));
        }
        Some(newer) if newer > VERSION => {
            format!("layout version {newer} is newer than {VERSION}: update leasehold")
        }
        Some(odd) => format!("layout version {odd} is unknown: choose another schema"),
        None => "the tables have no layout version: they belong to something else, or were made \
                 in part; choose another schema"
            .into(),
    };
    Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label))
}

async fn version(pool: &Pool, tables: &Tables) -> Result<Option<u32>> {
    let query = format!("select version from {}", tables.meta);
    let answer = pool
        .ask_plainly(Lane::Common, &query, || "connect".to_owned())
        .await?;
    Ok(answer.rows.first().and_then(|row| number(row, 0)))
}

/// Notes the server in tables that nobody has used before.
async fn settle_in(pool: &Pool, tables: &Tables, kind: Kind) -> Result<()> {
    let doing = || "connect".to_owned();
    let query = format!(
        "select unix_timestamp() from {} where server = ''; show global status like 'Uptime'",
        tables.meta
    );
    let answer = pool.ask_plainly(Lane::Common, &query, doing).await?;
    let [now, uptime] = &*answer.rows else {
        return Ok(());
    };
    let started: Option<u64> = number::<u64>(now, 0)
        .zip(number::<u64>(uptime, 1))
        .map(|(now, uptime)| now - uptime);
    let note = format!(
        "update {} set server = {}, started = {} where server = ''",
        tables.meta,
        kind.identity(),
        started.unwrap_or(0),
    );
    pool.ask_plainly(Lane::Common, &note, doing).await?;
    Ok(())
}

/// Whether there are memos that we may use, once they are made where they were
/// missing; whatever comes of that costs nobody a lock.
async fn makes_memos(pool: &Pool, tables: &Tables, database: &str, schema: &str) -> Result<bool> {
    let doing = || "make the table of memos".to_owned();
    if let Err(error) = pool.ask(&tables.memo_script(), doing).await {
        tracing::warn!(%error, "there are no memos");
    }
    let mut now = state(pool, database, schema).await?;
    // All but the end, which fails if it is one of the others that is missing.
    if now.memo_columns + 1 == MEMO_COLUMNS {
        if let Err(error) = pool.ask(&tables.ending_script(), doing).await {
            tracing::warn!(%error, "there are no memos that end");
        }
        now = state(pool, database, schema).await?;
    }
    Ok(now.has_memo())
}

async fn make(pool: &Pool, tables: &Tables) -> Result<()> {
    let doing = || "make the tables".to_owned();
    match pool
        .ask_plainly(Lane::Common, &tables.script(), doing)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Denied => {
            let why = format!(
                "the tables are missing and this user may not make them: let somebody who may \
                 run what `leasehold schema` prints ({})",
                error.why()
            );
            Err(Error::new(ErrorKind::Denied, "connect", why).on(&*pool.label))
        }
        Err(error) => Err(error),
    }
}

/// What can be known of a server before there are tables.
#[derive(Debug)]
struct State {
    kind: Kind,
    release: String,
    is_new_enough: bool,
    is_read_only: bool,
    has_tables: bool,
    /// How many columns of the table of memos are there and this user may use.
    memo_columns: u32,
}

const MEMO_COLUMNS: u32 = 5;

impl State {
    /// The table of memos is there, it is ours, and this user may use it.
    fn has_memo(&self) -> bool {
        self.memo_columns == MEMO_COLUMNS
    }
}

async fn state(pool: &Pool, database: &str, schema: &str) -> Result<State> {
    let query = format!(
        "select version(), @@global.read_only, (select count(*) from information_schema.tables \
         where table_schema = {0} and table_name = {1}), \
         (select count(*) from information_schema.columns \
         where table_schema = {0} and table_name = {2} \
         and column_name in ('name', 'token', 'edition', 'bytes', 'expires') \
         and find_in_set('select', privileges) and find_in_set('insert', privileges) \
         and find_in_set('update', privileges)); show global variables like 'wsrep_on'",
        quoted(database),
        quoted(&format!("{schema}_meta")),
        quoted(&format!("{schema}_memo")),
    );
    let answer = pool
        .ask_plainly(Lane::Common, &query, || "connect".to_owned())
        .await?;
    let row = answer.rows.first();
    let Some((row, release)) = row.and_then(|row| Some((row, column(row, 0)?))) else {
        let why = "the server answers nothing; is it MySQL or MariaDB?";
        return Err(Error::new(ErrorKind::Config, "connect", why).on(&*pool.label));
    };
    let kind = match release.to_ascii_lowercase().contains("mariadb") {
        true => Kind::MariaDb,
        false => Kind::Mysql,
    };
    let wsrep = answer.rows.get(1).and_then(|row| column(row, 1));
    let is_new_enough = is_new_enough(kind, &release);
    let kind = match wsrep.as_deref() {
        Some("ON" | "1") => Kind::Galera,
        _ => kind,
    };
    Ok(State {
        kind,
        is_new_enough,
        release,
        is_read_only: column(row, 1).is_some_and(|value| value != "0" && value != "OFF"),
        has_tables: number(row, 2) == Some(1),
        memo_columns: number(row, 3).unwrap_or(0),
    })
}

fn is_new_enough(kind: Kind, release: &str) -> bool {
    // An old way to write it, for clients that cannot read two digits.
    let release = release.strip_prefix("5.5.5-").unwrap_or(release);
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse::<u32>().ok();
    let release = (next().unwrap_or(0), next().unwrap_or(0));
    match kind {
        Kind::Mysql => release >= (8, 0),
        Kind::MariaDb | Kind::Galera => release >= (10, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared() {
        assert!(is_new_enough(Kind::Mysql, "8.0.36-log"));
        assert!(!is_new_enough(Kind::Mysql, "5.7.44"));
        assert!(is_new_enough(
            Kind::MariaDb,
            "5.5.5-10.11.6-MariaDB-0+deb12u1"
        ));
        assert!(!is_new_enough(Kind::MariaDb, "10.5.2-MariaDB"));
    }

    #[test]
    fn the_script_names_the_tables_everywhere() {
        let script = Tables::new("shop", "a`b").script();
        assert!(script.contains("create table if not exists `shop`.`a``b_claim` ("));
        assert!(script.contains("create table if not exists `shop`.`a``b_memo` ("));
        assert!(!script.contains('{'));
    }
}
