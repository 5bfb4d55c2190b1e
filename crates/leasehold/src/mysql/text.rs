//! Values in the text of a request, and answers out of it. Every value is a
//! literal in hexadecimal digits, which means the same whatever the server's
//! settings say about backslashes, quotes and character sets; this is the only
//! place that makes one.

use std::fmt::Write;

use sqlx_core::row::Row;
use sqlx_mysql::MySqlRow;

use crate::engine::{LeaseId, TicketId};

/// Bytes as a literal.
pub(super) fn bytes(bytes: &[u8]) -> String {
    let mut literal = String::with_capacity(2 * bytes.len() + 3);
    literal.push_str("x'");
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push('\'');
    literal
}

/// A lock's name, compared byte by byte.
pub(super) fn name(name: &str) -> String {
    bytes(name.as_bytes())
}

/// Text for people.
pub(super) fn quoted(text: &str) -> String {
    format!("_utf8mb4 {}", bytes(text.as_bytes()))
}

pub(super) fn quoted_or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), quoted)
}

pub(super) fn ticket(id: TicketId) -> String {
    bytes(&id.0.to_be_bytes())
}

pub(super) fn lease(id: LeaseId) -> String {
    bytes(&id.0.to_be_bytes())
}

/// A name of something in the database, such as a table.
pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// `(a, b)`; `(null)` if there is none, which nothing is in.
pub(super) fn list(literals: impl IntoIterator<Item = String>) -> String {
    let literals: Vec<_> = literals.into_iter().collect();
    match literals.is_empty() {
        true => "(null)".into(),
        false => format!("({})", literals.join(",")),
    }
}

/// A column as text; `None` if it is null or not there.
pub(super) fn column(row: &MySqlRow, number: usize) -> Option<String> {
    row.try_get_unchecked::<Option<String>, _>(number).ok()?
}

pub(super) fn number<T: std::str::FromStr>(row: &MySqlRow, column_number: usize) -> Option<T> {
    column(row, column_number)?.parse().ok()
}

/// A column that the statement wrote as hexadecimal digits.
pub(super) fn hex_bytes(row: &MySqlRow, number: usize) -> Option<Vec<u8>> {
    let digits = column(row, number)?;
    let pairs = (0..digits.len() / 2).map(|at| digits.get(2 * at..2 * at + 2));
    pairs
        .map(|pair| u8::from_str_radix(pair?, 16).ok())
        .collect()
}

pub(super) fn hex_text(row: &MySqlRow, number: usize) -> Option<String> {
    String::from_utf8(hex_bytes(row, number)?).ok()
}

/// 128 bits that the statement wrote as hexadecimal digits.
pub(super) fn bits(row: &MySqlRow, number: usize) -> Option<u128> {
    u128::from_str_radix(&column(row, number)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_a_literal() {
        assert_eq!(name("a'\\"), "x'61275c'");
        assert_eq!(quoted("é"), "_utf8mb4 x'c3a9'");
        assert_eq!(quoted_or_null(None), "null");
        assert_eq!(identifier("a`b"), "`a``b`");
        assert_eq!(ticket(TicketId(7)), "x'00000000000000000000000000000007'");
    }

    #[test]
    fn an_empty_list_has_nothing_in_it() {
        assert_eq!(list([]), "(null)");
        assert_eq!(list(["1".into(), "2".into()]), "(1,2)");
    }
}
