//! Runs many test programs, light ones beside each other, and tells how it went: progress
//! while they run, then a table of programs, the slowest cases, and every failure with the
//! command that repeats it.

use crate::programs::{self, Program, SHARES};
use crate::runner::{self, Case, Run, Setting, Verdict};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _, stdout};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many of the slowest cases are listed.
const SLOWEST: usize = 30;
/// How often progress is told where there is no terminal.
const SILENCE: Duration = Duration::from_secs(60);
/// How much of what a failed program wrote is shown.
const LAST_LINES: usize = 40;

/// What came of each program, in the order in which they ended.
pub(crate) type Runs = Vec<(Program, Run)>;

/// Runs all programs with these variables in their environment.
pub(crate) fn run(programs: Vec<Program>, variables: &[(String, String)]) -> Result<Runs, String> {
    let folder = runner::logs()?;
    let state = State::new(programs);
    thread::scope(|scope| {
        for _ in 0..SHARES {
            scope.spawn(|| {
                while let Some(program) = state.next() {
                    let weight = programs::weight(&program.name);
                    let setting = Setting {
                        variables: variables.to_vec(),
                        limit: weight.limit,
                        ..Setting::default()
                    };
                    let tell = |ended, all| state.tell(&program.name, ended, all);
                    let run = runner::run(&program, &setting, &folder, tell);
                    state.end(program, run, weight.shares);
                }
            });
        }
    });
    Ok(state.into_runs())
}

/// Which programs wait, run and have ended.
struct State {
    parts: Mutex<Parts>,
    changed: Condvar,
    started: Instant,
}

struct Parts {
    waiting: Vec<Program>,
    free: usize,
    running: BTreeMap<String, (usize, usize)>,
    ended: Runs,
    told: Instant,
}

impl State {
    fn new(mut programs: Vec<Program>) -> Self {
        // Taken from the end.
        programs.sort_by_key(|program| Reverse(programs::place(&program.name)));
        Self {
            parts: Mutex::new(Parts {
                waiting: programs,
                free: SHARES,
                running: BTreeMap::new(),
                ended: Vec::new(),
                told: Instant::now(),
            }),
            changed: Condvar::new(),
            started: Instant::now(),
        }
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next program that there is room for; none once all have begun.
    fn next(&self) -> Option<Program> {
        let mut parts = self.parts();
        loop {
            if parts.waiting.is_empty() {
                return None;
            }
            let free = parts.free;
            let fits = |program: &Program| programs::weight(&program.name).shares <= free;
            if let Some(place) = parts.waiting.iter().rposition(fits) {
                let program = parts.waiting.remove(place);
                parts.free -= programs::weight(&program.name).shares;
                parts.running.insert(program.name.clone(), (0, 0));
                return Some(program);
            }
            let waited = self.changed.wait(parts);
            parts = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tell(&self, name: &str, ended: usize, all: usize) {
        let mut parts = self.parts();
        if let Some(place) = parts.running.get_mut(name) {
            *place = (ended, all);
        }
        let is_terminal = stdout().is_terminal();
        let pause = if is_terminal {
            Duration::from_millis(200)
        } else {
            SILENCE
        };
        if parts.told.elapsed() >= pause {
            parts.told = Instant::now();
            let line = parts.progress(self.started.elapsed());
            match is_terminal {
                true => print!("\r\x1b[K{line:.110}"),
                false => println!("{line}"),
            }
            let _ = stdout().flush();
        }
    }

    fn end(&self, program: Program, run: Run, shares: usize) {
        let mut parts = self.parts();
        parts.running.remove(&program.name);
        parts.free += shares;
        if stdout().is_terminal() {
            print!("\r\x1b[K");
        }
        println!("{}", line(&program, &run));
        parts.ended.push((program, run));
        drop(parts);
        self.changed.notify_all();
    }

    fn into_runs(self) -> Runs {
        let parts = self.parts.into_inner();
        parts.unwrap_or_else(PoisonError::into_inner).ended
    }
}

impl Parts {
    fn progress(&self, since: Duration) -> String {
        let all = self.waiting.len() + self.running.len() + self.ended.len();
        let seconds = since.as_secs();
        let mut text = format!("{}:{:02} ", seconds / 60, seconds % 60);
        let _ = write!(text, "{} of {all} programs", self.ended.len());
        for (name, (ended, all)) in &self.running {
            let _ = write!(text, " · {name} {ended}/{all}");
        }
        text
    }
}

fn line(program: &Program, run: &Run) -> String {
    let result = if run.has_passed() { "passed" } else { "FAILED" };
    let mut line = format!(
        "{:34} {result} {:7.1} s  {:4} passed",
        program.name,
        run.took.as_secs_f32(),
        run.count(Verdict::Passed),
    );
    for (verdict, word) in [
        (Verdict::Failed, "failed"),
        (Verdict::Unfinished, "unfinished"),
        (Verdict::Ignored, "ignored"),
    ] {
        match run.count(verdict) {
            0 => {}
            count => {
                let _ = write!(line, ", {count} {word}");
            }
        }
    }
    if !run.left.is_empty() {
        let _ = write!(line, ", left behind: {}", run.left.join(" "));
    }
    line
}

/// The tables at the end, as text.
pub(crate) fn summary(runs: &[(Program, Run)]) -> String {
    let mut text = String::from("\nprograms, the slowest first\n");
    let mut by_time: Vec<_> = runs.iter().collect();
    by_time.sort_by_key(|(_, run)| Reverse(run.took));
    for (program, run) in by_time {
        let _ = writeln!(text, "  {}", line(program, run));
    }
    let _ = writeln!(text, "\nthe {SLOWEST} slowest cases");
    let cases = |(program, run): &'_ (Program, Run)| -> Vec<(String, Case)> {
        let named = |case: &Case| (program.name.clone(), case.clone());
        run.cases.iter().map(named).collect()
    };
    let mut cases: Vec<_> = runs.iter().flat_map(cases).collect();
    cases.sort_by_key(|(_, case)| Reverse(case.took));
    for (program, case) in cases.iter().take(SLOWEST) {
        let seconds = case.took.as_secs_f32();
        let _ = writeln!(text, "  {seconds:7.1} s  {program}: {}", case.name);
    }
    for (program, run) in runs {
        for note in &run.notes {
            let _ = writeln!(text, "{}: {note}", program.name);
        }
    }
    for (program, run) in runs.iter().filter(|(_, run)| !run.has_passed()) {
        text.push_str(&failure(program, run));
    }
    text
}

/// What failed in a program, what it printed, and how to repeat it.
fn failure(program: &Program, run: &Run) -> String {
    let mut text = format!("\n--- {}\n", program.name);
    if let Some(wrong) = &run.wrong {
        let _ = writeln!(text, "{wrong}; the end of {}:", run.log.display());
        text.push_str(&last_lines(&run.log, LAST_LINES));
    }
    for case in run.bad() {
        let word = match case.verdict {
            Verdict::Unfinished => "did not end",
            _ => "failed",
        };
        let _ = writeln!(text, "{} {word}\n{}", case.name, case.text.trim_end());
        let _ = writeln!(text, "repeat: {}", repeat(program, &case.name));
    }
    text
}

fn repeat(program: &Program, case: &str) -> String {
    let select = &program.select;
    format!("cargo test --workspace --all-features {select} -- --exact '{case}'")
}

/// So many of the last lines of a file.
pub(crate) fn last_lines(log: &Path, count: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    lines[from..].iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "  {line}");
        text
    })
}
