//! Curator and kazoo beside us, as the programs in `interop/`, if they are there.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::exit::Failure;

use super::super::report::Report;

const PROGRAMS: [&str; 2] = ["curator", "kazoo"];
/// The folder that has them.
const FOLDER: &str = "LEASEHOLD_PEERS";

/// What each program measures, if it is there; else the report says so.
pub(super) async fn all(
    part: &str,
    report: &mut Report,
    words: &[&str; 2],
    rest: &[&str],
) -> Result<Vec<(&'static str, f64)>, Failure> {
    let mut figures = Vec::new();
    for name in PROGRAMS {
        let folder = std::env::var_os(FOLDER).map(PathBuf::from);
        let program = folder.map(|folder| folder.join(name));
        let Some(program) = program.filter(|program| program.is_file()) else {
            let text = format!("{name} is not measured: {FOLDER} names no folder that has it");
            report.note(part, &text)?;
            continue;
        };
        let mut command = Command::new(program);
        let (verb, url) = (words[0], words[1]);
        let url = url.split('?').next().unwrap_or(url);
        let key = format!("leasehold-bench-{name}");
        command.args([verb, url, &key]).args(rest);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let ran = tokio::task::spawn_blocking(move || command.output()).await;
        let said = ran.ok().and_then(Result::ok).map(|output| output.stdout);
        let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
        let number = said.split_whitespace().nth(1).map(str::parse);
        match number {
            Some(Ok(number)) => figures.push((name, number)),
            _ => report.note(part, &format!("{name} gave no figure"))?,
        }
    }
    Ok(figures)
}
