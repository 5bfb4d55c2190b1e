//! What a test cannot do without. The test ends as ignored where it is missing, with the
//! reason; it fails where `LEASEHOLD_NO_SKIP=1` says that nothing may be missing but what
//! `LEASEHOLD_TEST_WITHOUT` names.

use std::env;
use std::fmt::Display;
use std::panic;

/// What a test panics with to end as ignored. The harness catches it.
pub(crate) struct Skipped(pub(crate) String);

/// Whether a test may end as ignored because this is missing.
pub fn may_skip(what: &str) -> bool {
    let may_lack_all = env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    let named = env::var("LEASEHOLD_TEST_WITHOUT").unwrap_or_default();
    let mut words = what.split([' ', ',', '(', ')']);
    may_lack_all || words.any(|word| !word.is_empty() && named.split(',').any(|name| name == word))
}

/// Ends the test as ignored if something is missing, or as failed where it must be there.
pub fn need(lacks: Option<impl Display>) {
    if let Some(what) = lacks {
        let what = what.to_string();
        assert!(may_skip(&what), "{what} is missing");
        skip(format!("{what} is missing"));
    }
}

/// Ends the test as ignored, for this reason.
pub fn skip(why: String) -> ! {
    panic::panic_any(Skipped(why))
}
