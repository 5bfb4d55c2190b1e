//! Running other programs, each printed before it is run. What they start is ended with
//! them, also when this program is killed.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

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

/// Runs a command to its end. It stays with the terminal: `sudo` may ask for a password, and
/// an interrupt reaches it.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = line(command);
    println!("$ {line}");
    let child = command.stdin(Stdio::null()).spawn();
    let mut child = child.map_err(|error| format!("`{line}` did not start: {error}"))?;
    ended(&line, &mut child, Duration::MAX)
}

/// Runs a command and ends it, with all that it started, when it takes longer than the
/// limit.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Outcome {
    let line = line(command);
    println!("$ {line}");
    let group = in_group(command.stdin(Stdio::null()));
    let mut group = group.map_err(|error| format!("`{line}` did not start: {error}"))?;
    ended(&line, &mut group.child, limit)
}

/// What comes of a command; it is killed when it takes longer than the limit.
pub(crate) fn ended(line: &str, child: &mut Child, limit: Duration) -> Outcome {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("`{line}` failed: {status}")),
            Ok(None) if started.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                let seconds = limit.as_secs_f32();
                let killed = child.kill().and_then(|()| child.wait());
                return Err(match killed {
                    Ok(_) => format!("`{line}` was killed after {seconds} s"),
                    Err(error) => format!("`{line}` could not be killed: {error}"),
                });
            }
            Err(error) => return Err(format!("`{line}` could not be waited for: {error}")),
        }
    }
}

/// A program in a process group of its own, which ends with this value.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) child: Child,
    /// Kills the group when we are killed: then its input ends without a line.
    guard: Child,
}

/// Starts a command in a group of its own.
pub(crate) fn in_group(command: &mut Command) -> std::io::Result<Group> {
    let child = command.process_group(0).spawn()?;
    let guard = Command::new("sh")
        .args(["-c", r#"read -r _ || kill -s KILL -- "$0""#])
        .arg(format!("-{}", child.id()))
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match guard {
        Ok(guard) => Ok(Group { child, guard }),
        Err(error) => {
            kill(&format!("-{}", child.id()));
            Err(error)
        }
    }
}

impl Group {
    /// The names of the processes in the group beside the program itself.
    pub(crate) fn others(&self) -> Vec<String> {
        let leader = self.child.id().to_string();
        let is_other = |stat: &String| {
            let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
            let (state, group) = (fields.next(), fields.nth(1));
            state != Some("Z")
                && group == Some(&*leader)
                && !stat.starts_with(&format!("{leader} "))
        };
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        let name = |stat: String| {
            let (_, rest) = stat.split_once('(')?;
            Some(rest.rsplit_once(')')?.0.to_owned())
        };
        stats.filter(is_other).filter_map(name).collect()
    }

    /// Ends the program and the others of its group.
    pub(crate) fn end(&mut self) {
        kill(&format!("-{}", self.child.id()));
        let _ = self.child.wait();
        if let Some(mut input) = self.guard.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.guard.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Kills a process, or the group whose number follows a minus sign.
pub(crate) fn kill(process: &str) {
    // Every shell has it; not every machine has it as a program.
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"kill -s KILL -- "$0""#, process]);
    let _ = shell.stderr(Stdio::null()).status();
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
    use std::os::unix::process::ExitStatusExt;

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
    fn a_group_ends_with_the_process_that_started_it() {
        let mut group = in_group(Command::new("sleep").arg("60")).unwrap();
        // As if this program had been killed.
        drop(group.guard.stdin.take());
        let ended = group.child.wait().unwrap();
        assert_eq!(ended.signal(), Some(9));
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
