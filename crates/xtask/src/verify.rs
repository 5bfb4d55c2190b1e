//! `cargo xtask verify`: everything a change must pass that is not a test.

use crate::report::Report;
use crate::shell::{Outcome, cargo, run};
use crate::{files, licences, manifest, rules};
use std::path::Path;

/// Makes every check and says whether all of them passed.
pub(crate) fn verify() -> bool {
    let mut report = Report::new("check");
    report.step("house rules", rules::check);
    report.step("formatting", || {
        run(&mut cargo(["fmt", "--all", "--check"]))
    });
    report.step("licences, sources", licences::check);
    report.step("lints", lints);
    report.step("each feature alone", each_feature);
    report.step("docs", docs);
    report.finish()
}

fn lints() -> Outcome {
    let arguments = "clippy --workspace --all-targets --all-features -- -D warnings";
    run(&mut cargo(arguments.split(' ')))
}

/// The library without any feature, with each of them alone, and with all but its tests.
/// Only the library, because its tests and the other crates turn on features that this wants
/// to be without.
fn each_feature() -> Outcome {
    let text = files::text(Path::new("crates/leasehold/Cargo.toml"))?;
    let features = manifest::features(&text);
    let but_tests = features.iter().filter(|feature| **feature != "conformance");
    let but_tests = but_tests.copied().collect::<Vec<_>>().join(",");
    let sets = ["", "default", &but_tests].into_iter().chain(features);
    for set in sets {
        let arguments = "clippy --quiet --package leasehold --lib --no-default-features";
        let mut clippy = cargo(arguments.split(' '));
        clippy.args(["--features", set]);
        run(clippy.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Libraries only: the command line's program has the library's name, and the
/// pages of the two would overwrite each other.
fn docs() -> Outcome {
    let arguments = "doc --workspace --lib --no-deps --all-features";
    run(cargo(arguments.split(' ')).env("RUSTDOCFLAGS", "-D warnings"))
}
