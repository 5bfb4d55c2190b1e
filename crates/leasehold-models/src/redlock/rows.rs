//! The table: what must hold, and what must be found to break.

mod breaking;
mod guessing;
mod holding;

use super::row::{Row, Size};
use super::{Expiry, Property, Rules, Scheme};

const PLAIN: Rules = Rules::of(Scheme::Plain);
const STRICT: Rules = Rules::of(Scheme::Strict);
/// Ours, with keys that vanish at any time.
const EARLY: Rules = Rules {
    keys: Expiry::AnyTime,
    ..STRICT
};

/// Unique and monotone.
const TOKENS: &[Property] = &[Property::Unique, Property::Monotone];

const fn sized(size: Size, row: Row) -> Row {
    Row { size, ..row }
}

/// Every row, those that must hold first.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let rows = [holding::ROWS, guessing::ROWS, breaking::ROWS];
    rows.into_iter().flatten()
}
