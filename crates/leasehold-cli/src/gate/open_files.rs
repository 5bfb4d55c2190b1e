//! How many connections the system lets us have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the marks, the store and the listener.
const OURS: u64 = 64;
/// What the runtime of a thread needs.
const OF_A_THREAD: u64 = 4;
/// A connection of a client, the one to the service beside it, and one that is
/// idle: threads keep their own, so one can be idle here while another is opened
/// there.
const OF_A_CONNECTION: u64 = 3;

/// Raises the limit of open files as far as it may be, and says how many
/// connections fit.
pub(super) fn connections(threads: usize) -> u32 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // Some systems allow less than they say; then it stays as it is.
    _ = setrlimit(Resource::Nofile, raised);
    fit(getrlimit(Resource::Nofile).current, threads)
}

fn fit(limit: Option<u64>, threads: usize) -> u32 {
    let Some(limit) = limit else {
        return u32::MAX;
    };
    let ours = OURS + OF_A_THREAD * threads as u64;
    let fitting = limit.saturating_sub(ours) / OF_A_CONNECTION;
    u32::try_from(fitting).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_three_files_and_there_is_always_room_for_one() {
        assert_eq!(fit(Some(1024), 2), 317);
        assert_eq!(fit(Some(1024), 64), 234);
        assert_eq!(fit(Some(10), 2), 1);
        assert_eq!(fit(Some(u64::MAX), 2), u32::MAX);
        assert_eq!(fit(None, 2), u32::MAX);
    }
}
