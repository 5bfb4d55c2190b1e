//! Lists and runs the tests of a program. A test that lacks a server is ignored, with the
//! reason; one that must run alone runs after the others.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{LazyLock, Once};
use std::{env, thread};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::skip::Skipped;
use crate::{pool, stall};

/// What every test program of Rust ends with if a test failed.
const FAILED: u8 = 101;

/// A function with the attribute `#[testbed::test]`.
pub struct Test {
    pub module: &'static str,
    pub name: &'static str,
    pub run: fn(),
    /// No other test of the program runs beside it.
    pub alone: bool,
    /// It depends on times that a machine keeps unless it stands still; then it is repeated.
    pub timed: bool,
    /// Only `cargo xtask test --all` runs it.
    pub all: bool,
}

inventory::collect!(Test);

impl Test {
    /// Its module without the name of the program, then its name.
    fn full_name(&self) -> String {
        match self.module.split_once("::") {
            Some((_, module)) => format!("{module}::{}", self.name),
            None => self.name.to_owned(),
        }
    }
}

/// Runs every test that has the attribute, so many at once.
pub fn run(at_once: usize) -> ExitCode {
    run_trials(at_once, Vec::new())
}

/// Runs these trials beside the tests that have the attribute.
pub fn run_trials(at_once: usize, mut trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let mut tests: Vec<&Test> = inventory::iter::<Test>.into_iter().collect();
    tests.sort_by_key(|test| test.full_name());
    let (alone, beside): (Vec<_>, Vec<_>) = tests.into_iter().partition(|test| test.alone);
    trials.extend(beside.into_iter().map(of_test));
    arguments.test_threads = arguments.test_threads.or(Some(at_once));
    let first = libtest_mimic::run(&arguments, trials);
    let mut has_failed = first.has_failed();
    if !alone.is_empty() {
        arguments.test_threads = Some(1);
        let trials = alone.into_iter().map(of_test).collect();
        has_failed |= libtest_mimic::run(&arguments, trials).has_failed();
    }
    pool::end_all();
    match has_failed {
        true => ExitCode::from(FAILED),
        false => ExitCode::SUCCESS,
    }
}

fn of_test(test: &Test) -> Trial {
    let run = test.run;
    let is_left_out = test.all && !runs_all();
    match is_left_out {
        true => left_out(test.full_name(), "only with --all"),
        false if test.timed => {
            let name = test.full_name();
            trial(name.clone(), move || {
                stall::repeat(run, |why| {
                    eprintln!("{name} is repeated: {why}");
                    tell(&name, "repeated", why);
                });
            })
        }
        false => trial(test.full_name(), run),
    }
}

/// Whether this is a run of everything: `cargo xtask test --all`.
pub fn runs_all() -> bool {
    env::var_os("LEASEHOLD_TEST_ALL").is_some()
}

/// How often something is done: usually, and in a run of everything.
pub fn times(usually: usize, in_all: usize) -> usize {
    match runs_all() {
        true => in_all,
        false => usually,
    }
}

/// A trial that is listed as ignored, for this reason.
pub fn left_out(name: impl Into<String>, why: &str) -> Trial {
    let name = name.into();
    tell(&name, "ignored", why);
    let trial = Trial::test(name, || Ok(()));
    trial.with_kind(why).with_ignored_flag(true)
}

/// Adds a line to the summary of the run.
pub fn note(text: &str) {
    tell("", "note", text);
}

/// Tells `cargo xtask` what libtest-mimic does not: when a test begins, and why one is
/// ignored.
fn tell(name: &str, event: &str, message: &str) {
    static IS_ASKED: LazyLock<bool> =
        LazyLock::new(|| env::var_os("LEASEHOLD_TEST_PROGRAM").is_some());
    if *IS_ASKED {
        println!(
            r#"{{ "type": "trial", "event": "{event}", "name": {name:?}, "message": {message:?} }}"#
        );
    }
}

/// A trial that may turn out to lack something.
pub fn trial(name: impl Into<String>, run: impl FnOnce() + Send + 'static) -> Trial {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Skipped>() {
                before(info);
            }
        }));
    });
    let name = name.into();
    Trial::ignorable_test(name.clone(), move || {
        // A thread of its own, so that a panic names the test.
        tell(&name, "started", "");
        let thread = thread::Builder::new().name(name.clone());
        let running = thread.spawn(move || panic::catch_unwind(AssertUnwindSafe(run)));
        match running?.join().and_then(|ended| ended) {
            Ok(()) => Ok(Completion::Completed),
            Err(payload) => match payload.downcast::<Skipped>() {
                Ok(skipped) => {
                    tell(&name, "ignored", &skipped.0);
                    Ok(Completion::ignored_with(skipped.0))
                }
                Err(payload) => Err(Failed::from(message(&*payload))),
            },
        }
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| Some((*payload.downcast_ref::<&str>()?).to_owned()));
    text.unwrap_or_else(|| "it panicked".to_owned())
}

/// Runs a future to its end on a multi-thread runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    runtime.expect("threads start").block_on(future)
}
