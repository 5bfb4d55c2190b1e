//! `cargo xtask lab`: every store under every fault, for as long as one likes.

use crate::report::Report;
use crate::shell::{cargo, run};

/// Runs the matrix and puts its table into GUARANTEES.md; says whether nothing
/// was broken. The pages of its runs go to `target/lab`.
pub(crate) fn lab(within: Option<&str>) -> bool {
    let mut report = Report::new("step");
    let mut arguments: Vec<_> = "run --package leasehold-lab -- matrix --out target/lab"
        .split(' ')
        .collect();
    arguments.extend(["--write", "GUARANTEES.md"]);
    arguments.extend(within.into_iter().flat_map(|length| ["--within", length]));
    report.step("every store under every fault", || {
        run(&mut cargo(arguments))
    });
    report.finish()
}
