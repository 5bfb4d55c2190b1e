//! Redis servers of our own: child processes on free ports of 127.0.0.1, in
//! folders that the test gives, ended when they are dropped.
//!
//! What blocks here blocks its thread: a test with sessions in the same process
//! wants a runtime with more than one.
// Not every test uses all of it.
#![allow(dead_code, unused_imports)]

mod cluster;
mod fleet;
mod place;
mod ports;
mod process;
mod replicated;
mod s3;
mod sentinel;
mod standalone;
mod tls;
mod versions;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use cluster::Cluster;
pub(crate) use fleet::Fleet;
pub(crate) use replicated::Replicated;
pub(crate) use s3::{BUCKET, S3Server, lacks_s3};
pub(crate) use sentinel::Sentinel;
pub(crate) use standalone::{RedisServer, text};
pub(crate) use tls::Certificates;
pub(crate) use versions::{Version, lacks_clock, lacks_version, tools};

const PROGRAM: &str = "redis-server";

/// How long a server may take to come to a state that it must come to.
const LONGEST: Duration = Duration::from_secs(30);

/// The name of the missing program, if it is missing.
pub(crate) fn lacks_redis() -> Option<&'static str> {
    (!runs(PROGRAM)).then_some(PROGRAM)
}

/// The name of the missing program, if Sentinel is missing.
pub(crate) fn lacks_sentinel() -> Option<&'static str> {
    let program = sentinel::PROGRAM;
    (!runs(program)).then_some(program)
}

/// Whether a test has to do without what it needs. It then skips, and says so;
/// on a machine that is meant to have everything it fails.
pub(crate) fn must_skip(lacks: Option<&str>) -> bool {
    let Some(what) = lacks else { return false };
    let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
    assert!(may_skip, "{what} is missing");
    eprintln!("skipped: {what} is missing");
    true
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    let status = command.arg("--version").stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Waits until something is there.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONGEST;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LONGEST:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
