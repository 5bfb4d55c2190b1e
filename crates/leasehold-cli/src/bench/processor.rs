//! How much processor time a server has taken, with its children.

use std::fs;
use std::time::Duration;

/// None where the system does not tell it in this way.
pub(crate) fn time(id: u32) -> Option<Duration> {
    let (_, own) = read(id)?;
    let others = fs::read_dir("/proc").ok()?.flatten();
    let others = others.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children = others
        .filter_map(read)
        .filter(|(parent, _)| *parent == id)
        .map(|(_, ticks)| ticks);
    let ticks = own + children.sum::<u64>();
    let per_second = rustix::param::clock_ticks_per_second();
    Some(Duration::from_millis(ticks * 1000 / per_second))
}

/// Whose child a process is, and its time in ticks of the clock.
fn read(id: u32) -> Option<(u32, u64)> {
    parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

fn parse(stat: &str) -> Option<(u32, u64)> {
    // The name may have brackets and blanks in it; the last one ends it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let user: u64 = fields.nth(9)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((parent, user + system))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_is_understood() {
        let stat = "7 (a) name) S 5 7 7 0 -1 4194304 100 0 0 0 30 12 0 0 20 0 1 0 99 0 0";
        assert_eq!(parse(stat), Some((5, 42)));
        assert_eq!(parse("7 (name"), None);
    }
}
