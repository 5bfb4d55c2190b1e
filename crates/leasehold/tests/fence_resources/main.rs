//! Resources that check fences, with real holders: one is stopped past its ttl,
//! the next one works, the first wakes up and writes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod holder;
mod redis;
mod resource;
#[path = "../server/mod.rs"]
mod server;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() -> ExitCode {
    if holder::is_one() {
        runtime().block_on(holder::hold());
        return ExitCode::SUCCESS;
    }
    let trials = vec![
        trial("file::a_stopped_holder_is_refused", false, || {
            runtime().block_on(holder::stopped("file", "stale"));
        }),
        trial("file::without_a_fence_it_is_not", false, || {
            runtime().block_on(holder::stopped("bare-file", "written"));
        }),
        trial("redis::a_stopped_holder_is_refused", true, || {
            runtime().block_on(holder::stopped("redis", "stale"));
        }),
        trial("redis::without_a_fence_it_is_not", true, || {
            runtime().block_on(holder::stopped("bare-redis", "written"));
        }),
        trial("redis::interleavings", true, || {
            runtime().block_on(redis::interleavings());
        }),
        trial("redis::scripts", true, || {
            runtime().block_on(redis::scripts());
        }),
        trial("redis::bad_input", true, || {
            runtime().block_on(redis::bad_input());
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn trial(name: &str, needs_redis: bool, run: fn()) -> Trial {
    let run = move || -> Result<(), Failed> {
        run();
        Ok(())
    };
    match server::lacks_redis().filter(|_| needs_redis) {
        None => Trial::test(name, run),
        Some(what) => {
            let may_skip = std::env::var_os("LEASEHOLD_NO_SKIP").is_none_or(|value| value != "1");
            Trial::test(name, move || Err(format!("{what} is missing").into()))
                .with_ignored_flag(may_skip)
        }
    }
}
