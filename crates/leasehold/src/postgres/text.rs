//! Values in the text of a request, and answers out of it. Requests go as simple
//! queries, so every value is a literal; this is the only place that makes one.

use std::fmt::Write;

use sqlx_core::row::Row;
use sqlx_core::value::ValueRef;
use sqlx_postgres::PgRow;

use crate::engine::{LeaseId, TicketId};

/// Text as a literal. The form with an `E` means the same whatever the server's
/// settings say about backslashes.
pub(super) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 3);
    literal.push_str("E'");
    for character in text.chars() {
        if matches!(character, '\'' | '\\') {
            literal.push(character);
        }
        literal.push(character);
    }
    literal.push('\'');
    literal
}

pub(super) fn quoted_or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), quoted)
}

/// A name of something in the database, such as a schema.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// 128 bits as a uuid.
pub(super) fn uuid(bits: u128) -> String {
    format!("'{bits:032x}'")
}

pub(super) fn ticket(id: TicketId) -> String {
    uuid(id.0)
}

pub(super) fn lease(id: LeaseId) -> String {
    uuid(id.0)
}

/// `array[…]::type[]` of literals.
pub(super) fn array(kind: &str, literals: impl IntoIterator<Item = String>) -> String {
    let mut text = String::from("array[");
    for (number, literal) in literals.into_iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        text.push_str(&literal);
    }
    // Writing to a string does not fail.
    let _ = write!(text, "]::{kind}[]");
    text
}

/// A column as text; `None` if it is null or not there.
pub(super) fn column(row: &PgRow, number: usize) -> Option<&str> {
    let value = row.try_get_raw(number).ok()?;
    match value.is_null() {
        true => None,
        false => value.as_str().ok(),
    }
}

pub(super) fn number<T: std::str::FromStr>(row: &PgRow, column_number: usize) -> Option<T> {
    column(row, column_number)?.parse().ok()
}

/// The fields of an answer that came as one record, `(held,32,,)`: what our
/// functions say has no comma in it.
pub(super) fn record(row: &PgRow) -> Vec<Option<&str>> {
    fields(column(row, 0).unwrap_or_default())
}

fn fields(text: &str) -> Vec<Option<&str>> {
    let inside = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
    let fields = inside.unwrap_or(text).split(',');
    fields.map(|f| (!f.is_empty()).then_some(f)).collect()
}

/// A number in a field.
pub(super) fn parsed<T: std::str::FromStr>(fields: &[Option<&str>], at: usize) -> Option<T> {
    fields.get(at).copied().flatten()?.parse().ok()
}

/// Reads a uuid.
pub(super) fn bits(text: &str) -> Option<u128> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    (digits.len() == 32)
        .then(|| u128::from_str_radix(&digits, 16).ok())
        .flatten()
}

/// Reads an array of numbers, `{1,2}`.
pub(super) fn numbers(text: &str) -> Option<Vec<u64>> {
    let inside = text.strip_prefix('{')?.strip_suffix('}')?;
    let numbers = inside.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_a_literal() {
        assert_eq!(quoted("a"), "E'a'");
        assert_eq!(quoted("it's"), "E'it''s'");
        assert_eq!(quoted(r"\'; drop"), r"E'\\''; drop'");
        assert_eq!(quoted_or_null(None), "null");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn ids_are_uuids_and_back() {
        assert_eq!(uuid(7), "'00000000000000000000000000000007'");
        let text = "00000000-0000-0000-0000-000000000007";
        assert_eq!(bits(text), Some(7));
        assert_eq!(bits("7"), None);
    }

    #[test]
    fn a_record_has_fields() {
        assert_eq!(
            fields("(held,32,,)"),
            [Some("held"), Some("32"), None, None]
        );
        assert_eq!(fields("removed"), [Some("removed")]);
        assert_eq!(parsed::<u64>(&fields("(a,7)"), 1), Some(7));
        assert_eq!(parsed::<u64>(&fields("(a,7)"), 2), None);
        assert_eq!(fields(""), [None]);
    }

    #[test]
    fn arrays_are_written_and_read() {
        let names = ["a'b", "c"].map(quoted);
        assert_eq!(array("text", names), "array[E'a''b',E'c']::text[]");
        assert_eq!(array("text", []), "array[]::text[]");
        assert_eq!(numbers("{1,22}"), Some(vec![1, 22]));
        assert_eq!(numbers("{}"), Some(vec![]));
        assert_eq!(numbers("1"), None);
    }
}
