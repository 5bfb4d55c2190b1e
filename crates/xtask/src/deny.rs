//! Licences, bans and sources of the dependencies, by `cargo-deny`.
//!
//! Advisories are left out: they need a database from the network on every
//! run, so that a change could fail for something it did not touch.

use crate::shell::{self, Outcome, cargo, run};
use crate::tools;
use std::path::PathBuf;
use std::process::Command;

/// A newer one may want a newer compiler than ours.
const VERSION: &str = "0.20.2";

/// Checks all dependencies against `deny.toml`, and installs `cargo-deny`
/// below the target directory first if there is none.
pub(crate) fn check() -> Outcome {
    let program = match tools::program("cargo-deny") {
        Some(program) => program,
        None => installed()?,
    };
    let mut command = Command::new(program);
    command.args(["check", "licenses", "bans", "sources"]);
    run(command.current_dir(shell::root()))
}

fn installed() -> Result<PathBuf, String> {
    let tools = shell::target().join("tools");
    let program = tools.join("bin/cargo-deny");
    if !program.is_file() {
        println!("cargo-deny is not installed; building it takes a minute or more, once");
        // It runs for a second: an optimised build would take three times as
        // long and never earn that back.
        let mut command = cargo(["install", "--debug", "--locked", "--version", VERSION]);
        command.args(["cargo-deny", "--root"]).arg(&tools);
        run(command.env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
    }
    Ok(program)
}
