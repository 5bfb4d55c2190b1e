//! `cargo xtask fix`: what a machine can put right.

use crate::report::Report;
use crate::shell::{cargo, run};

/// Applies what the lints suggest, writes what is generated, then formats; says whether it all worked.
pub(crate) fn fix() -> bool {
    let clippy =
        "clippy --fix --allow-dirty --allow-staged --workspace --all-targets --all-features";
    let mut report = Report::new("fix");
    report.step("lints", || run(&mut cargo(clippy.split(' '))));
    report.step("table of stores", || {
        let test = "test --quiet --package leasehold --all-features --test stores -- docs::";
        run(cargo(test.split(' ')).env("LEASEHOLD_FIX", "1"))
    });
    report.step("formatting", || run(&mut cargo(["fmt", "--all"])));
    report.finish()
}
