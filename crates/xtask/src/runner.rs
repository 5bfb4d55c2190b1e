//! Runs one test program to its end and reads what it tells of its cases.
//!
//! A program that takes too long is ended, and so is every process that it leaves behind, also
//! when this program itself is killed. The program tells of its cases in the JSON lines of libtest, which an environment variable
//! makes available on a stable toolchain; libtest-mimic writes the same lines.

use crate::json;
use crate::programs::Program;
use crate::shell::{Group, in_group, kill};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{process, thread};

/// A case that takes longer hangs, and its program is ended.
const CASE_LIMIT: Duration = Duration::from_secs(300);

/// How many lines a program may be ahead of us.
const LINES: usize = 1_000;

/// How long what is left of a program's output is waited for.
const DRAINING: Duration = Duration::from_secs(5);

/// Every process below a program has this variable, so that those are found that have left
/// its process group.
const MARK: &str = "LEASEHOLD_TEST_PROGRAM";

/// What a test program ends with if a test failed.
const FAILED: i32 = 101;

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    Ignored,
    /// It began and its program ended before it did.
    Unfinished,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) took: Duration,
    /// What it printed, or why it was ignored.
    pub(crate) text: String,
}

/// What came of one program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) cases: Vec<Case>,
    pub(crate) took: Duration,
    /// Why the program as a whole failed, beside its cases.
    pub(crate) wrong: Option<String>,
    /// What it told beside its cases: which ran again because the machine stood still.
    pub(crate) notes: Vec<String>,
    /// The names of processes that it left behind.
    pub(crate) left: Vec<String>,
    /// Everything it wrote.
    pub(crate) log: PathBuf,
}

impl Run {
    pub(crate) fn has_passed(&self) -> bool {
        self.wrong.is_none() && self.bad().next().is_none()
    }

    /// The cases that failed or did not end.
    pub(crate) fn bad(&self) -> impl Iterator<Item = &Case> {
        let is_bad = |case: &&Case| matches!(case.verdict, Verdict::Failed | Verdict::Unfinished);
        self.cases.iter().filter(is_bad)
    }

    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        let cases = self.cases.iter();
        cases.filter(|case| case.verdict == verdict).count()
    }
}

/// What a program is started with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setting {
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) limit: Duration,
}

/// Runs a program; `progress` is called with the number of cases that have ended and of all.
pub(crate) fn run(
    program: &Program,
    setting: &Setting,
    folder: &Path,
    mut progress: impl FnMut(usize, usize),
) -> Run {
    let started = Instant::now();
    let log = folder.join(format!("{}.log", program.name.replace(' ', "-")));
    let mut run = Run {
        cases: Vec::new(),
        took: Duration::ZERO,
        wrong: None,
        notes: Vec::new(),
        left: Vec::new(),
        log,
    };
    let mark = format!("{}-{}", process::id(), program.name.replace(' ', "-"));
    let child = start(program, setting, &mark, &run.log);
    match child {
        Err(error) => run.wrong = Some(format!("it did not start: {error}")),
        Ok((mut group, lines, log)) => {
            let mut reading = Reading::new(log);
            let limit = started + setting.limit;
            let followed = follow(&mut group, &lines, &mut reading, limit, &mut progress);
            run.left = group.others();
            group.end();
            run.left.extend(end_leftovers(&mark));
            // Whatever kept the pipe open is gone now.
            let end = Instant::now() + DRAINING;
            while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                reading.take(&line);
            }
            run.wrong = followed.map_or_else(Some, |status| reading.complaint(status));
            run.notes = std::mem::take(&mut reading.notes);
            run.cases = reading.cases();
        }
    }
    run.took = started.elapsed();
    run
}

type Started = (Group, Receiver<String>, File);

fn start(program: &Program, setting: &Setting, mark: &str, log: &Path) -> std::io::Result<Started> {
    let log = File::create(log)?;
    // A shell starts what is in the background with a deaf ear for these, and children of
    // children keep that.
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT,QUIT")
        .arg(&program.file)
        .args(["-Z", "unstable-options", "--format", "json"])
        .args(&setting.arguments)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .current_dir(&program.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.try_clone()?);
    // A variable that was set in this shell for a single test is not for all of them.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEASEHOLD_") {
            command.env_remove(name);
        }
    }
    command.envs(setting.variables.iter().cloned());
    command.env(MARK, mark);
    let mut group = in_group(&mut command)?;
    let (sender, lines) = mpsc::sync_channel(LINES);
    if let Some(output) = group.child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    Ok((group, lines, log))
}

/// Reads until the program ends, or says why it has to be ended.
fn follow(
    group: &mut Group,
    lines: &Receiver<String>,
    reading: &mut Reading,
    limit: Instant,
    progress: &mut impl FnMut(usize, usize),
) -> Result<ExitStatus, String> {
    loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                reading.take(&line);
                progress(reading.ended.len(), reading.count.unwrap_or(0));
            }
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(20)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let ended = group.child.try_wait();
        if let Some(status) = ended.map_err(|error| format!("it is out of reach: {error}"))? {
            return Ok(status);
        }
        let hung = reading
            .longest()
            .filter(|(_, since)| since.elapsed() > CASE_LIMIT);
        if let Some((name, _)) = hung {
            return Err(format!("ended: {name} took longer than {CASE_LIMIT:?}"));
        }
        if Instant::now() > limit {
            return Err("ended: it took longer than its limit".to_owned());
        }
    }
}

/// Ends the processes that have a program's mark in their environment, and names them.
fn end_leftovers(mark: &str) -> Vec<String> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let mut names = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_string_lossy().into_owned();
        if !id.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|word| word == wanted)
        {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            names.push(name.trim().to_owned());
            kill(&id);
        }
    }
    names
}

/// What the lines of a program say of its cases.
struct Reading {
    log: File,
    /// How many cases it means to tell of; `None` before it has said so.
    count: Option<usize>,
    running: BTreeMap<String, Instant>,
    ended: Vec<Case>,
    /// Why cases are ignored, told before they are.
    reasons: BTreeMap<String, String>,
    /// Which cases ran again, and what else it told.
    notes: Vec<String>,
}

impl Reading {
    fn new(log: File) -> Self {
        Self {
            log,
            count: None,
            running: BTreeMap::new(),
            ended: Vec::new(),
            reasons: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// What is wrong with a program that ended so, beside the cases that it named.
    fn complaint(&self, status: ExitStatus) -> Option<String> {
        let mut ended = self.ended.iter();
        let has_failed = ended.any(|case| case.verdict == Verdict::Failed);
        let is_told = has_failed && status.code() == Some(FAILED);
        if !is_told && !status.success() {
            return Some(format!("it ended with {status}"));
        }
        match self.count {
            None => Some("it told of no test".to_owned()),
            Some(count) if count != self.ended.len() => {
                let ended = self.ended.len();
                Some(format!("{ended} of its {count} cases came to an end"))
            }
            Some(_) => None,
        }
    }

    fn take(&mut self, line: &str) {
        let is_ours = line.starts_with('{');
        let kind = is_ours.then(|| json::text(line, "type")).flatten();
        let event = is_ours.then(|| json::text(line, "event")).flatten();
        match (kind.as_deref(), event.as_deref()) {
            (Some("suite"), Some("started")) => {
                // A program that runs some of its tests alone has two suites.
                let count = json::number(line, "test_count").unwrap_or(0);
                *self.count.get_or_insert(0) += count;
            }
            (Some("suite"), _) => {}
            (Some("test"), Some(event)) => self.case(line, event),
            (Some("trial"), Some("ignored")) => {
                let texts = ["name", "message"].map(|field| json::text(line, field));
                let [name, why] = texts.map(Option::unwrap_or_default);
                self.reasons.insert(name, why);
            }
            (Some("trial"), Some("started")) => self.case(line, "started"),
            (Some("trial"), Some("repeated")) => {
                let texts = ["name", "message"].map(|field| json::text(line, field));
                let [name, why] = texts.map(Option::unwrap_or_default);
                self.notes.push(format!("repeated: {name}: {why}"));
                // It has the whole time again.
                self.running.insert(name, Instant::now());
            }
            (Some("trial"), Some("note")) => self.notes.extend(json::text(line, "message")),
            _ => {
                let _ = writeln!(self.log, "{line}");
            }
        }
    }

    fn case(&mut self, line: &str, event: &str) {
        let Some(name) = json::text(line, "name") else {
            return;
        };
        let verdict = match event {
            "ok" => Verdict::Passed,
            "failed" => Verdict::Failed,
            "ignored" => Verdict::Ignored,
            "started" => {
                // A program may say so itself, before libtest-mimic does.
                self.running.entry(name).or_insert_with(Instant::now);
                return;
            }
            _ => return,
        };
        let started = self.running.remove(&name);
        let text = ["stdout", "message"].map(|field| json::text(line, field));
        let text = text.into_iter().flatten().chain(self.reasons.remove(&name));
        let text = text.collect::<Vec<_>>().join("\n");
        if verdict == Verdict::Failed {
            let _ = writeln!(self.log, "--- {name} failed\n{text}\n---");
        }
        let took = started.map_or(Duration::ZERO, |started| started.elapsed());
        let _ = writeln!(self.log, "{:8.2} s  {name}: {event}", took.as_secs_f32());
        self.ended.push(Case {
            name,
            verdict,
            took,
            text,
        });
    }

    fn longest(&self) -> Option<(&str, Instant)> {
        let running = self.running.iter();
        let longest = running.min_by_key(|(_, since)| **since);
        longest.map(|(name, since)| (name.as_str(), *since))
    }

    fn cases(self) -> Vec<Case> {
        let unfinished = self.running.into_iter().map(|(name, since)| Case {
            name,
            verdict: Verdict::Unfinished,
            took: since.elapsed(),
            text: String::new(),
        });
        self.ended.into_iter().chain(unfinished).collect()
    }
}

/// Where the logs of this run go.
///
/// # Errors
/// If the folder cannot be made.
pub(crate) fn logs() -> Result<PathBuf, String> {
    let folder = crate::shell::target().join("test-logs");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;
    use std::os::unix::fs::PermissionsExt;

    /// A program that is a script and writes what a test program would.
    fn run_script(name: &str, script: &str, limit: Duration) -> Run {
        let folder = env::temp_dir().join(format!("xtask-runner-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("script");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let program = Program {
            name: name.to_owned(),
            kind: crate::programs::Kind::Test,
            file,
            folder: folder.clone(),
            select: String::new(),
        };
        let setting = Setting {
            limit,
            ..Setting::default()
        };
        let run = run(&program, &setting, &folder, |_, _| ());
        fs::remove_dir_all(&folder).unwrap();
        run
    }

    const STARTED: &str = r#"echo '{ "type": "test", "event": "started", "name": "a" }'"#;
    const OK: &str = r#"echo '{ "type": "test", "name": "a", "event": "ok" }'"#;

    /// The line of a program that is about to run so many cases.
    fn suite(count: usize) -> String {
        format!(r#"echo '{{ "type": "suite", "event": "started", "test_count": {count} }}'"#)
    }

    #[test]
    fn cases_are_read_from_the_lines_of_the_program() {
        let suite = suite(3);
        let script = format!(
            r#"{suite}
            {STARTED}
            {OK}
            echo '{{ "type": "test", "name": "b", "event": "ignored", "message": "needs x" }}'
            echo '{{ "type": "test", "name": "c", "event": "failed", "stdout": "why" }}'
            exit 101"#
        );
        let run = run_script("lines", &script, Duration::from_secs(60));
        assert_eq!(run.wrong, None);
        assert!(!run.has_passed());
        assert_eq!(run.count(Verdict::Passed), 1);
        assert_eq!(run.count(Verdict::Ignored), 1);
        assert_eq!(run.bad().next().unwrap().text, "why");
    }

    #[test]
    fn a_program_that_dies_leaves_an_unfinished_case() {
        let run = run_script(
            "dies",
            &format!("{STARTED}\nkill -9 $$"),
            Duration::from_secs(60),
        );
        assert!(run.wrong.as_deref().unwrap().contains("signal: 9"));
        assert_eq!(run.count(Verdict::Unfinished), 1);
    }

    /// Waits until no process with this command line runs.
    fn until_gone(line: &str) {
        let line = format!("{}\0", line.replace(' ', "\0"));
        let runs = || {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            let mut lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
            lines.any(|other| other == line.as_bytes())
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while runs() {
            assert!(Instant::now() < deadline, "{line} runs");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_all_it_started() {
        let script = format!("{STARTED}\nsetsid sleep 987 &\nsleep 986 & wait");
        let run = run_script("hangs", &script, Duration::from_secs(2));
        assert!(
            run.wrong
                .as_deref()
                .unwrap()
                .contains("longer than its limit")
        );
        assert_eq!(run.left, ["sleep", "sleep"]);
        ["sleep 986", "sleep 987"]
            .iter()
            .for_each(|line| until_gone(line));
    }

    #[test]
    fn a_program_that_never_stops_writing_is_ended_too() {
        let script = format!("{STARTED}\nwhile :; do echo more; done");
        let run = run_script("writes", &script, Duration::from_secs(1));
        assert!(run.wrong.unwrap().contains("longer than its limit"));
    }

    #[test]
    fn what_a_program_leaves_is_named_and_ended() {
        let script = format!("{}\n{OK}\nsleep 985 &", suite(1));
        let run = run_script("leaves", &script, Duration::from_secs(60));
        assert_eq!((run.wrong, run.left), (None, vec!["sleep".to_owned()]));
        until_gone("sleep 985");
    }

    #[test]
    fn a_program_that_runs_too_little_has_not_passed() {
        let complaint = |name, script: &str| {
            let run = run_script(name, script, Duration::from_secs(60));
            assert!(!run.has_passed());
            run.wrong.unwrap()
        };
        assert_eq!(complaint("silent", "exit 0"), "it told of no test");
        let script = format!("{}\n{OK}", suite(2));
        let some = complaint("some", &script);
        assert_eq!(some, "1 of its 2 cases came to an end");
    }
}
