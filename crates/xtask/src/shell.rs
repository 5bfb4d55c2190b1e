//! Running other programs, each printed before it is run.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a step of a chore ends with: nothing, or a sentence for people.
pub(crate) type Outcome = Result<(), String>;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    // Asked at run time first: a target directory shared between checkouts may
    // hold a program that was compiled in another one.
    let here = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.ancestors()
        .nth(2)
        .map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target)
}

/// The cargo that runs us, at the root of the repository.
pub(crate) fn cargo<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(root());
    // What cargo tells us of ourselves is not for the next one: build scripts that look
    // at it would run again each time.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Outcome {
    run_within(Duration::MAX, command)
}

/// Runs a command and kills it when it takes longer than the limit.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Outcome {
    let line = line(command);
    println!("$ {line}");
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if started.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .map_err(|error| format!("`{line}` could not be killed: {error}"))?;
                return Err(format!(
                    "`{line}` was killed after {} s",
                    limit.as_secs_f32()
                ));
            }
            Err(error) => break Err(error),
        }
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}` failed: {status}")),
        Err(error) => Err(format!("`{line}` could not be waited for: {error}")),
    }
}

/// Runs a command and gives what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let line = line(command);
    println!("$ {line}");
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`{line}` did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{line}` answered with no text"))
}

/// The command as one would type it, without the directory of the program.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let environment = command.get_envs().filter_map(|(name, value)| {
        let value = quoted(&value?.to_string_lossy());
        Some(format!("{}={value}", name.to_string_lossy()))
    });
    let words = [program]
        .into_iter()
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()));
    environment.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/some/where/cargo");
        command
            .args(["clippy", "--", "a b"])
            .env("FLAGS", "-D warnings");
        assert_eq!(line(&command), "FLAGS='-D warnings' cargo clippy -- 'a b'");
    }

    #[test]
    fn a_command_past_its_limit_is_killed() {
        let started = Instant::now();
        let outcome = run_within(Duration::from_millis(50), Command::new("sleep").arg("60"));
        assert!(outcome.unwrap_err().contains("was killed"));
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let outcome = run(Command::new("sh").args(["-c", "exit 3"]));
        assert!(outcome.unwrap_err().contains("exit status: 3"));
    }

    #[test]
    fn the_root_is_the_workspace() {
        assert!(root().join("Cargo.lock").is_file());
    }
}
