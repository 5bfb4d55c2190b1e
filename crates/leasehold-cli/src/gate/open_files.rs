//! How many connections the system lets us have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the marks, the store, the listener and what the runtime needs.
const OURS: u64 = 64;

/// Raises the limit of open files as far as it may be, and says how many
/// connections fit: each has one to the service beside it.
pub(super) fn connections() -> u32 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // Some systems allow less than they say; then it stays as it is.
    _ = setrlimit(Resource::Nofile, raised);
    fit(getrlimit(Resource::Nofile).current)
}

fn fit(limit: Option<u64>) -> u32 {
    let Some(limit) = limit else {
        return u32::MAX;
    };
    let pairs = limit.saturating_sub(OURS) / 2;
    u32::try_from(pairs).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_two_files_and_there_is_always_room_for_one() {
        assert_eq!(fit(Some(1024)), 480);
        assert_eq!(fit(Some(10)), 1);
        assert_eq!(fit(Some(u64::MAX)), u32::MAX);
        assert_eq!(fit(None), u32::MAX);
    }
}
