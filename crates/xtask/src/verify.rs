//! `cargo xtask verify`: everything a change must pass that is not a test.

use crate::report::Report;
use crate::shell::{Outcome, cargo, run};
use crate::{deny, files, manifest, rules};
use std::path::Path;

/// Makes every check and says whether all of them passed.
pub(crate) fn verify() -> bool {
    let mut report = Report::new("check");
    report.step("house rules", rules::check);
    report.step("formatting", || {
        run(&mut cargo(["fmt", "--all", "--check"]))
    });
    report.step("lints, all features", || {
        clippy(&["--workspace", "--all-features"])
    });
    match files::text(Path::new("crates/leasehold/Cargo.toml")) {
        Err(error) => report.step("lints, each feature", || Err(error)),
        Ok(text) => {
            // Only the library by itself: the other crates of the workspace
            // would turn on the features this wants to be without.
            report.step("lints, no feature", || clippy_library(&[]));
            for feature in manifest::features(&text) {
                let name = format!("lints, only {feature}");
                report.step(name, || clippy_library(&["--features", feature]));
            }
        }
    }
    report.step("docs", docs);
    report.step("licences, bans, sources", deny::check);
    report.finish()
}

fn clippy_library(arguments: &[&str]) -> Outcome {
    let library = ["--package", "leasehold", "--no-default-features"];
    clippy(&[&library, arguments].concat())
}

fn clippy(arguments: &[&str]) -> Outcome {
    let mut command = cargo(["clippy", "--all-targets"]);
    run(command.args(arguments).args(["--", "-D", "warnings"]))
}

/// Libraries only: the command line's program has the library's name, and the
/// pages of the two would overwrite each other.
fn docs() -> Outcome {
    let arguments = "doc --workspace --lib --no-deps --all-features";
    run(cargo(arguments.split(' ')).env("RUSTDOCFLAGS", "-D warnings"))
}
