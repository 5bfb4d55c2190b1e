//! Where things are in the store. `docs/stores/zookeeper.md` describes it.

use std::fmt::Write;

use percent_encoding::percent_decode_str;

use super::dialect::Layout;
use crate::name::Name;

/// Everything of ours that is not a lock is below this, so no lock may be.
const HOUSE: &str = ".leasehold";
const BROKEN: &str = ".leasehold/broken";
const MEMO: &str = ".leasehold/memo";
/// When memos end that are kept for a time.
const ENDS: &str = ".leasehold/ends";
/// Written to hear what time it is.
const CLOCK: &str = ".leasehold/clock";
/// The server's own.
const SERVER: &str = "zookeeper";
/// Stands for an empty part of a name.
const EMPTY: &str = "%";

/// The paths below a chroot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Paths {
    /// Empty, or with a slash before it.
    chroot: String,
}

impl Paths {
    pub(super) fn below(chroot: &str) -> Self {
        Self {
            chroot: chroot.to_owned(),
        }
    }

    /// Where everything is.
    pub(super) fn root(&self) -> &str {
        match self.chroot.as_str() {
            "" => "/",
            chroot => chroot,
        }
    }

    /// The node whose children are the claims on a lock.
    pub(super) fn lock(&self, name: &Name) -> String {
        let mut path = self.chroot.clone();
        for part in name.as_str().split('/') {
            path.push('/');
            write_part(&mut path, part);
        }
        path
    }

    /// The name of the lock at a path.
    pub(super) fn name(&self, path: &str) -> Option<Name> {
        let parts = path.strip_prefix(&self.chroot)?.strip_prefix('/')?;
        let parts: Option<Vec<_>> = parts.split('/').map(read_part).collect();
        Name::new(parts?.join("/")).ok()
    }

    /// What was broken of a lock.
    pub(super) fn broken(&self, name: &Name) -> String {
        self.in_house(BROKEN, name)
    }

    /// The memo of a lock.
    pub(super) fn memo(&self, name: &Name) -> String {
        self.in_house(MEMO, name)
    }

    /// The memo whose node has this name.
    pub(super) fn memo_node(&self, node: &str) -> String {
        format!("{}/{MEMO}/{node}", self.chroot)
    }

    /// Notes on memos that end, by the hour and then by the second.
    pub(super) fn ends(&self) -> String {
        format!("{}/{ENDS}", self.chroot)
    }

    /// The folder of notes on memos that end before this second; with a number behind
    /// it, another one for the same second.
    pub(super) fn end(&self, second: u64, number: Option<u64>) -> String {
        let folder = format!("{}/{}/{second}", self.ends(), second / 3600);
        number.map_or(folder.clone(), |number| format!("{folder}-{number}"))
    }

    pub(super) fn clock(&self) -> String {
        format!("{}/{CLOCK}", self.chroot)
    }

    fn in_house(&self, folder: &str, name: &Name) -> String {
        let mut path = format!("{}/{folder}/", self.chroot);
        // One node, whatever the name.
        for part in name.as_str().split_inclusive('/') {
            let (part, slash) = part
                .strip_suffix('/')
                .map_or((part, ""), |part| (part, "%2F"));
            write_escaped(&mut path, part);
            path.push_str(slash);
        }
        if path.ends_with("/.") || path.ends_with("/..") {
            path.push_str(EMPTY);
        }
        path
    }

    /// The note on one broken claim.
    pub(super) fn broken_claim(&self, name: &Name, czxid: i64) -> String {
        format!("{}/{czxid:016x}", self.broken(name))
    }

    /// The nodes above a path, from the top, without the chroot.
    pub(super) fn above(&self, path: &str) -> Vec<String> {
        let start = self.chroot.len() + 1;
        let ends = path.char_indices().skip_while(|(at, _)| *at < start);
        let ends = ends.filter(|(_, character)| *character == '/');
        let mut above: Vec<_> = ends.map(|(at, _)| path[..at].to_owned()).collect();
        above.push(path.to_owned());
        above
    }

    /// Whether no lock can be at or below this child of the root.
    pub(super) fn is_closed(&self, child: &str) -> bool {
        child == HOUSE || (self.chroot.is_empty() && child == SERVER)
    }

    /// Why a lock may not have this name.
    pub(super) fn refusal(&self, name: &Name) -> Option<String> {
        let first = name.as_str().split('/').next().unwrap_or_default();
        match first {
            HOUSE => Some(format!("names below {HOUSE} are for leasehold itself")),
            SERVER if self.chroot.is_empty() => Some(format!(
                "names below {SERVER} are for the server itself; use a chroot"
            )),
            _ => None,
        }
    }
}

/// A part of a name as a part of a path. No two are written alike.
fn write_part(path: &mut String, part: &str) {
    match part {
        "" => path.push_str(EMPTY),
        "." => path.push_str("%2E"),
        ".." => path.push_str("%2E%2E"),
        part => {
            let start = path.len();
            write_escaped(path, part);
            // A lock below a lock must not look like a claim on it. All claims
            // end with a digit.
            if Layout::is_claim_to_any(&path[start..]) {
                let last = path.pop().map_or(0, u32::from);
                let written = write!(path, "%{last:02X}");
                written.expect("writing to a text never fails");
            }
        }
    }
}

fn write_escaped(path: &mut String, part: &str) {
    for character in part.chars() {
        if is_allowed(character) {
            path.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            let written = write!(path, "%{byte:02X}");
            written.expect("writing to a text never fails");
        }
    }
}

/// The server refuses control characters, private ones, and whatever takes two
/// units of UTF-16.
fn is_allowed(character: char) -> bool {
    let refused = ['\u{e000}'..='\u{f8ff}', '\u{fff0}'..=char::MAX];
    character != '%'
        && !character.is_control()
        && !refused.iter().any(|range| range.contains(&character))
}

fn read_part(part: &str) -> Option<String> {
    if part == EMPTY {
        return Some(String::new());
    }
    let text = percent_decode_str(part).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_lock_is_where_its_name_says() {
        let paths = Paths::below("");
        assert_eq!(paths.lock(&name("jobs/nightly")), "/jobs/nightly");
        assert_eq!(Paths::below("/app").lock(&name("a b")), "/app/a b");
        assert_eq!(paths.root(), "/");
        let above = Paths::below("/app").above("/app/a/b");
        assert_eq!(above, ["/app/a", "/app/a/b"]);
        assert_eq!(paths.above("/a"), ["/a"]);
    }

    #[test]
    fn what_the_server_would_refuse_is_written_otherwise() {
        let paths = Paths::below("");
        for (text, path) in [
            ("/", "/%/%"),
            ("a//b/", "/a/%/b/%"),
            (".", "/%2E"),
            ("../x", "/%2E%2E/x"),
            ("100%", "/100%25"),
            ("🔒", "/%F0%9F%94%92"),
            ("é", "/é"),
            ("a/block-0000000001", "/a/block-000000000%31"),
            ("x__lock__0000000001", "/x__lock__000000000%31"),
            ("lock-1", "/lock-1"),
        ] {
            assert_eq!(paths.lock(&name(text)), path);
        }
        assert_eq!(paths.broken(&name("a/b")), "/.leasehold/broken/a%2Fb");
        assert_eq!(paths.broken(&name("..")), "/.leasehold/broken/..%");
        assert!(paths.refusal(&name("zookeeper/config")).is_some());
        assert!(paths.refusal(&name(".leasehold")).is_some());
        let below = Paths::below("/app");
        assert!(below.refusal(&name("zookeeper")).is_none());
        assert!(paths.refusal(&name("zookeepers")).is_none());
    }

    proptest! {
        #[test]
        fn every_name_is_read_back_from_its_path(text in "\\PC{1,60}|[./%a]{1,9}") {
            let Ok(name) = Name::new(&text) else { return Ok(()) };
            for chroot in ["", "/app"] {
                let paths = Paths::below(chroot);
                let path = paths.lock(&name);
                let mut parts = path[1..].split('/');
                prop_assert!(parts.all(|part| !matches!(part, "" | "." | "..")), "{path}");
                prop_assert_eq!(paths.name(&path), Some(name.clone()));
            }
        }

        #[test]
        fn no_part_of_a_path_looks_like_a_claim(
            start in "[a-z%/é-]{0,4}",
            marker in "lock-|-__READ__|-__WRIT__|__lock__|__rlock__|-lease-|-latch-|x-7-|-permits-5-1-",
            number in "[0-9]{10}|-[0-9]{9,10}",
        ) {
            let Ok(name) = Name::new(format!("{start}{marker}{number}")) else { return Ok(()) };
            let paths = Paths::below("");
            let path = paths.lock(&name);
            prop_assert!(!path.split('/').any(Layout::is_claim_to_any), "{path}");
            prop_assert_eq!(paths.name(&path), Some(name));
        }
    }
}
