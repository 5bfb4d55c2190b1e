//! What people and programs read: messages, tables, JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use anstyle::Style;
use leasehold::engine::Claimant;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::args::Common;
use crate::exit::{self, Failure};

/// Bold in a heading; nothing where colours are off.
pub(crate) const HEADING: Style = Style::new().bold();

/// How this run of the program talks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl Console {
    pub(crate) fn new(common: &Common) -> Self {
        Self {
            json: common.json,
            quiet: common.quiet,
            verbose: common.verbose,
        }
    }

    /// A message for people, on standard error.
    pub(crate) fn say(self, message: &str) {
        if !self.quiet && !self.json {
            complain(message);
        }
    }

    /// The same, for those who want to know more.
    pub(crate) fn detail(self, message: &str) {
        if self.verbose {
            self.say(message);
        }
    }

    /// What happens, for programs: a line of JSON on standard error.
    pub(crate) fn event(self, event: &impl Serialize) {
        if self.json
            && let Ok(line) = serde_json::to_string(event)
        {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Why the program ends early.
    pub(crate) fn failure(self, failure: &Failure) {
        let Failure { code, message } = failure;
        if message.is_empty() || (self.quiet && *code == exit::HELD) {
            return;
        }
        if self.json {
            self.event(&serde_json::json!({ "error": message, "code": code }));
        } else {
            complain(message);
        }
    }
}

/// One line on standard error. Nothing can be done if that fails.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "leasehold: {}", clean(message));
}

/// A line of JSON on standard output, there before anything else happens.
pub(crate) fn json_line(value: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(value).map_err(io::Error::from)?;
    line.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}

/// Text on standard output; colours only where they are wanted.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut out = anstream::AutoStream::auto(io::stdout().lock());
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Columns as wide as their widest cell, the last one as it is.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].width());
        cells.chain([heading[column].width()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(widths) {
            let padding = width - cell.width() + 2;
            let _ = write!(line, "{cell}{:padding$}", "");
        }
        line.trim_end().to_owned()
    };
    let mut table = format!("{HEADING}{}{HEADING:#}\n", line(heading));
    for row in rows {
        let cells = std::array::from_fn(|column| row[column].as_str());
        table.push_str(&line(cells));
        table.push('\n');
    }
    table
}

/// Text from elsewhere without what could play tricks on a terminal.
pub(crate) fn clean(text: &str) -> String {
    let replace = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(replace).collect()
}

/// Who made a claim, for a table.
pub(crate) fn owner(claimant: &Claimant) -> String {
    clean(&claimant.owner.to_string())
}

/// A duration with its two largest units: `350ms`, `4.2s`, `3m20s`, `5h2m`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let pair = |large: u64, unit: &str, small: u64, part: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{part}"),
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..=9 => format!("{:.1}s", duration.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3599 => pair(seconds / 60, "m", seconds % 60, "s"),
        3600..=86_399 => pair(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// The number that JSON has for a duration.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_enough_for_a_table() {
        let text = |millis| duration(Duration::from_millis(millis));
        assert_eq!(text(0), "0ms");
        assert_eq!(text(350), "350ms");
        assert_eq!(text(4_240), "4.2s");
        assert_eq!(text(59_999), "59s");
        assert_eq!(text(200_000), "3m20s");
        assert_eq!(text(3_600_000), "1h");
        assert_eq!(text(90_061_000), "1d1h");
    }

    #[test]
    fn columns_line_up_also_under_wide_characters() {
        let rows = [["锁".into(), "x".into()], ["abc".into(), "y".into()]];
        let table = anstream::adapter::strip_str(&table(["N", "V"], &rows)).to_string();
        assert_eq!(table, "N    V\n锁   x\nabc  y\n");
    }

    #[test]
    fn a_label_cannot_move_the_cursor() {
        assert_eq!(clean("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
