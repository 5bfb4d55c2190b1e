//! The schema: what it is, whether it is there, and making it.

use super::config::Mode;
use super::pool::Pool;
use super::text::{column, identifier, number, quoted};
use crate::error::{Error, ErrorKind, Result};

/// Raised by any change that an older version would misread.
pub(super) const VERSION: u32 = 1;

/// Nobody else makes tables meanwhile.
const FOUNDING: &str = "select pg_advisory_xact_lock(7809639173);\n";

/// Came later, and is made beside the rest where it is missing.
const MEMO: &str = include_str!("sql/memo.sql");
const STAMP: &str = include_str!("sql/stamp.sql");

const PARTS: [&str; 7] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/common.sql"),
    include_str!("sql/claims.sql"),
    include_str!("sql/sessions.sql"),
    include_str!("sql/founding.sql"),
    MEMO,
    STAMP,
];

/// Everything that the engine needs in a database, as SQL that may be run again.
pub(super) fn script(schema: &str, mode: Mode) -> String {
    match mode {
        Mode::Lease => in_schema(schema, &PARTS.join("\n")),
        Mode::Session => in_schema(schema, include_str!("sql/advisory.sql")),
    }
}

fn in_schema(schema: &str, sql: &str) -> String {
    let quoted = identifier(schema);
    let whole = sql
        .replace(
            "if not exists leasehold;",
            &format!("if not exists {quoted};"),
        )
        .replace("'leasehold.token'", &regclass(schema))
        .replace("leasehold.", &format!("{quoted}."));
    format!("{FOUNDING}{whole}")
}

/// The counter, as `nextval` wants it: a name in a literal.
fn regclass(schema: &str) -> String {
    quoted(&format!("{}.token", identifier(schema)))
}

/// What came later than the rest, and may be used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extras {
    pub(super) memos: bool,
    pub(super) stamps: bool,
}

/// Leaves the schema ready for use, making it if it is missing.
pub(super) async fn prepare(pool: &Pool, schema: &str, mode: Mode) -> Result<Extras> {
    let doing = || "connect".to_owned();
    let state = state(pool, schema).await?;
    if state.is_standby {
        let why = "the server is a standby and takes no writes: name the one that does";
        return Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label));
    }
    if state.is_read_only {
        let why = "the server or the role is set to read only (default_transaction_read_only)";
        return Err(Error::new(ErrorKind::Denied, doing(), why).on(&*pool.label));
    }
    let (oldest, what) = match mode {
        Mode::Lease => (12, ""),
        // It ends connections that are silent.
        Mode::Session => (14, " for mode=session"),
    };
    if state.release < oldest * 10_000 {
        let release = state.release / 10_000;
        let why = format!("PostgreSQL {release}; {oldest} or newer is needed{what}");
        return Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label));
    }
    if state.has_our_defaults {
        pool.trust_defaults();
    }
    if !state.has_tables {
        make(pool, schema, mode).await?;
    }
    let meta = format!("{}.meta", identifier(schema));
    // Where leases are rows there is no such column.
    let query = format!("select m.version, to_jsonb(m) ->> 'mode' from {meta} m");
    let answer = pool.ask(&query, doing).await?;
    let row = answer.rows.first();
    let version: Option<u32> = row.and_then(|row| number(row, 0));
    let is_of_session = row.and_then(|row| column(row, 1)) == Some("session");
    let why = match version {
        Some(_) if is_of_session != (mode == Mode::Session) => match is_of_session {
            true => "the schema has locks of mode=session, which this session would not see: \
                     write mode=session or name another schema"
                .into(),
            false => "the schema has locks of mode=lease, which mode=session would not see: \
                      leave mode=session out or name another schema"
                .into(),
        },
        Some(VERSION) if mode == Mode::Session => return Ok(Extras::default()),
        Some(VERSION) => return extras(pool, schema, state).await,
        Some(newer) if newer > VERSION => {
            format!("layout version {newer} is newer than {VERSION}: update leasehold")
        }
        Some(odd) => format!("layout version {odd} is unknown: choose another schema"),
        None => "the schema has no layout version: it belongs to something else, or was made \
                 in part; choose another"
            .into(),
    };
    Err(Error::new(ErrorKind::Config, doing(), why).on(&*pool.label))
}

/// What of memos and stamps we may use. They came later than the rest, and are made
/// where they are missing; whatever comes of that costs nobody a lock.
async fn extras(pool: &Pool, schema: &str, found: State) -> Result<Extras> {
    let mut is_stale = !found.has_tables;
    // They came with the rest, if nothing of that name was there.
    let missing = [
        (MEMO, found.memos == Memos::Missing),
        (STAMP, !found.has_stamps),
    ];
    for (part, _) in missing.into_iter().filter(|(_, is_missing)| *is_missing) {
        if found.has_tables {
            let doing = || "make what came later".to_owned();
            if let Err(error) = pool.ask(&in_schema(schema, part), doing).await {
                tracing::warn!(%error, "there are no memos or stamps");
            }
            is_stale = true;
        }
    }
    // Another may have made them meanwhile.
    let found = match is_stale {
        true => state(pool, schema).await?,
        false => found,
    };
    Ok(Extras {
        memos: found.memos == Memos::Usable,
        stamps: found.has_stamps,
    })
}

async fn make(pool: &Pool, schema: &str, mode: Mode) -> Result<()> {
    let doing = || "make the tables".to_owned();
    match pool.ask(&script(schema, mode), doing).await {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::Denied => {
            let why = format!(
                "the tables are missing and this role may not make them: let somebody who may \
                 run what `leasehold schema` prints ({})",
                error.why()
            );
            Err(Error::new(ErrorKind::Denied, "connect", why).on(&*pool.label))
        }
        Err(error) => Err(error),
    }
}

/// What there is of memos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memos {
    Missing,
    /// The table and its functions are there, and this role may use them.
    Usable,
    /// A table of that name is there. It is somebody else's, or this role has
    /// no right to it.
    Unusable,
}

/// What can be known of a server before there are tables.
#[derive(Debug)]
pub(super) struct State {
    pub(super) is_standby: bool,
    pub(super) is_read_only: bool,
    pub(super) release: u32,
    pub(super) has_tables: bool,
    pub(super) memos: Memos,
    /// There are stamps that this role may use.
    pub(super) has_stamps: bool,
    /// What a transaction has unless it says so itself is what we need.
    pub(super) has_our_defaults: bool,
}

pub(super) async fn state(pool: &Pool, schema: &str) -> Result<State> {
    let query = format!(
        "select pg_is_in_recovery(), current_setting('transaction_read_only'), \
         current_setting('server_version_num'), exists (select from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {0} and c.relname = 'meta'), \
         current_setting('default_transaction_isolation') = 'read committed' \
         and current_setting('default_transaction_deferrable') = 'off' \
         and current_setting('synchronous_commit') in ('on', 'remote_apply') \
         and (select count(*) from pg_catalog.pg_settings \
         where name in ('lock_timeout', 'statement_timeout', 'transaction_timeout') \
         and reset_val <> '0') = 0, {1}, {2}",
        quoted(schema),
        include_str!("sql/has_memos.sql").replace("$1", &quoted(schema)),
        include_str!("sql/has_stamps.sql").replace("$1", &quoted(schema)),
    );
    let answer = pool.ask(&query, || "connect".to_owned()).await?;
    let Some(row) = answer.rows.first() else {
        let why = "the server answers nothing; is it PostgreSQL?";
        return Err(Error::new(ErrorKind::Config, "connect", why).on(&*pool.label));
    };
    Ok(State {
        is_standby: column(row, 0) == Some("t"),
        is_read_only: column(row, 1) == Some("on"),
        release: number(row, 2).unwrap_or(0),
        has_tables: column(row, 3) == Some("t"),
        has_our_defaults: column(row, 4) == Some("t"),
        memos: match column(row, 5) {
            None => Memos::Missing,
            Some("t") => Memos::Usable,
            Some(_) => Memos::Unusable,
        },
        has_stamps: column(row, 6) == Some("t"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_names_the_schema_everywhere() {
        for mode in [Mode::Lease, Mode::Session] {
            let script = script("a\"b", mode);
            assert!(!script.contains("leasehold."), "{script}");
            assert!(script.contains("create schema if not exists \"a\"\"b\";"));
            assert!(script.contains("nextval(E'\"a\"\"b\".token')"));
            // The channel is no part of the schema.
            assert!(script.contains("'leasehold_'"));
        }
    }
}
