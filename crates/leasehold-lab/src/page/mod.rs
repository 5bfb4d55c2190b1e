//! A run as a picture: one lane per process, holds as bars with their tokens,
//! faults as bands, violations in red with the two lines that prove them. One
//! file that opens from disk without a network.

mod html;
mod piece;
mod scene;
mod svg;

pub use html::{Mood, Run, Table, page};
pub use piece::{pieces, whole};
pub use scene::{Bar, BarKind, Dot, DotKind, Lane, Scene};
pub use svg::svg;

/// Text that is safe between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(character),
        }
    }
    safe
}
