//! Statements that the server reads once and then knows.
//!
//! To take a free lock and to give it back is most of what it is ever asked, and to read
//! and resolve that takes it longer than to do it. Only over connections of our own, of
//! MariaDB; elsewhere, and where it does not keep statements, the same goes as text.

use std::borrow::Cow;
use std::sync::Arc;

use sqlx_core::arguments::Arguments;
use sqlx_core::error::BoxDynError;
use sqlx_mysql::MySqlArguments;

use super::inbox::Mine;
use super::layout::{CLOCK, Kind, Tables, WRITABLE};
use super::text::{bytes, quoted};
use crate::engine::Ticket;

/// What a statement with places for values says, and the values.
#[derive(Debug)]
pub(super) struct Prepared {
    form: Arc<Form>,
    values: Vec<Value>,
}

/// A statement with places for values.
#[derive(Debug)]
struct Form {
    /// What is before, between and behind the places. The names of tables in it may
    /// have question marks of their own.
    parts: Vec<String>,
    /// With a question mark for each place.
    whole: Arc<str>,
}

/// A place for a value, in a statement that is being written: no name has it.
const VALUE: char = '\0';

#[derive(Debug)]
enum Value {
    Number(u64),
    Bytes(Vec<u8>),
    Text(Option<String>),
}

/// What is said over a connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Saying<'a> {
    Text(&'a str),
    Prepared(&'a Prepared),
}

/// The statements.
#[derive(Debug)]
pub(super) struct Forms {
    take: Arc<Form>,
    give: Arc<Form>,
}

impl Form {
    fn of(statement: &str) -> Arc<Self> {
        let parts: Vec<_> = statement.split(VALUE).map(str::to_owned).collect();
        let whole = parts.join("?").into();
        Arc::new(Self { parts, whole })
    }
}

impl Forms {
    pub(super) fn of(tables: &Tables, kind: Kind, is_loose: &str) -> Self {
        let take = format!(
            include_str!("sql/take.sql"),
            value = VALUE,
            clock = CLOCK,
            identity = kind.identity(),
            writable = WRITABLE,
            is_loose = is_loose,
            claim = tables.claim,
            meta = tables.meta,
            session = tables.session,
        );
        let give = format!(
            "update {} set ticket = null where name = {VALUE} and seat = 0 and ticket = {VALUE}",
            tables.claim,
        );
        Self {
            take: Form::of(&take),
            give: Form::of(&give),
        }
    }

    /// Takes a free lock for a session of this epoch, in this server's term.
    pub(super) fn take(&self, ticket: &Ticket, epoch: u64, server: &str, term: u64) -> Prepared {
        let lease = || Value::Bytes(ticket.lease.0.to_be_bytes().into());
        let server = || Value::Text(Some(server.to_owned()));
        Prepared {
            form: self.take.clone(),
            values: vec![
                Value::Bytes(ticket.claim.id.0.to_be_bytes().into()),
                lease(),
                Value::Number(ticket.holder),
                Value::Number(ticket.capacity.into()),
                Value::Number(ticket.weight.into()),
                Value::Text(ticket.label.as_deref().map(str::to_owned)),
                Value::Bytes(ticket.claim.name.as_str().into()),
                Value::Number(term),
                server(),
                server(),
                Value::Number(term),
                Value::Number(epoch),
                lease(),
            ],
        }
    }

    /// Gives back the first seat.
    pub(super) fn give(&self, mine: &Mine) -> Prepared {
        Prepared {
            form: self.give.clone(),
            values: vec![
                Value::Bytes(mine.claim.name.as_str().into()),
                Value::Bytes(mine.claim.id.0.to_be_bytes().into()),
            ],
        }
    }
}

impl Prepared {
    pub(super) fn form(&self) -> Arc<str> {
        self.form.whole.clone()
    }

    pub(super) fn arguments(&self) -> Result<MySqlArguments, BoxDynError> {
        let mut arguments = MySqlArguments::default();
        for value in &self.values {
            match value {
                Value::Number(number) => Arguments::add(&mut arguments, *number)?,
                Value::Bytes(bytes) => Arguments::add(&mut arguments, bytes.as_slice())?,
                Value::Text(text) => Arguments::add(&mut arguments, text.as_deref())?,
            }
        }
        Ok(arguments)
    }

    /// The same as one text, with the values as literals.
    pub(super) fn text(&self) -> String {
        let mut parts = self.form.parts.iter();
        let mut whole = parts.next().cloned().unwrap_or_default();
        for (value, part) in self.values.iter().zip(parts) {
            whole += &match value {
                Value::Number(number) => number.to_string(),
                Value::Bytes(some) => bytes(some),
                Value::Text(Some(text)) => quoted(text),
                Value::Text(None) => "null".into(),
            };
            whole += part;
        }
        whole
    }
}

impl<'a> Saying<'a> {
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Prepared(prepared) => prepared.text().into(),
        }
    }
}

impl<'a> From<&'a str> for Saying<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Saying<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_the_same_as_one_text() {
        let prepared = Prepared {
            form: Form::of("set `a?` = \0, b = \0, c = \0, d = \0 where e"),
            values: vec![
                Value::Number(u64::MAX),
                Value::Bytes(b"?'".to_vec()),
                Value::Text(Some("ü?".into())),
                Value::Text(None),
            ],
        };
        assert_eq!(
            prepared.text(),
            "set `a?` = 18446744073709551615, b = x'3f27', c = _utf8mb4 x'c3bc3f', d = null where e"
        );
    }

    #[test]
    fn every_value_has_its_place() {
        let forms = Forms::of(&Tables::new("shop?", "a?b"), Kind::MariaDb, "false");
        let count = |form: &Form| form.parts.len() - 1;
        assert_eq!((count(&forms.take), count(&forms.give)), (13, 2));
    }
}
