//! A store of its own for every test, and processes that do not outlive it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// How long a state may take to come about on a busy machine.
const LONGEST: Duration = Duration::from_secs(120);

/// A folder, and a store: a file in it, or a server elsewhere.
pub(crate) struct World {
    folder: TempDir,
    url: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { folder, url }
    }

    /// A folder whose store is this one.
    pub(crate) fn on(url: String) -> Self {
        let folder = TempDir::new().unwrap();
        Self { folder, url }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// leasehold on this world's store, in this world's folder.
    pub(crate) fn leasehold<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = bare(arguments);
        command
            .env("LEASEHOLD_URL", self.url())
            .current_dir(self.folder.path());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::of(&mut self.leasehold(arguments))
    }

    /// Starts it and leaves it running.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::of(&mut self.leasehold(arguments))
    }

    /// The lines of a file; none if it is not there.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Runs what has to be refused with one line that says this.
    pub(crate) fn refuses(&self, arguments: &[&str], code: i32, says: &str) {
        let done = self.run(arguments);
        assert_eq!(done.code, code, "{arguments:?}: {done:?}");
        assert!(done.complaint().contains(says), "{arguments:?}: {done:?}");
        assert!(done.stdout.is_empty(), "{done:?}");
    }

    /// Waits for the file to have a whole line, and returns it.
    pub(crate) fn line(&self, file: &str) -> String {
        let path = self.path(file);
        until(&format!("a line in {file}"), || {
            let text = fs::read_to_string(&path).ok()?;
            text.strip_suffix('\n').map(str::to_owned)
        })
    }

    pub(crate) fn pid(&self, file: &str) -> Pid {
        Pid::from_raw(self.line(file).parse().unwrap())
    }

    /// The lock as `show --json` has it.
    pub(crate) fn show(&self, name: &str) -> Value {
        let done = self.run(&["show", "--json", name]);
        assert_eq!(done.code, 0, "{}", done.stderr);
        serde_json::from_str(&done.stdout).unwrap()
    }

    /// The memo of a lock.
    pub(crate) fn memo(&self, name: &str) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let inspector = leasehold::inspect(&self.url).await.unwrap();
            let memo = inspector.memo(name).await.unwrap().memo;
            memo.map_or_else(String::new, |memo| memo.text().into_owned())
        })
    }

    pub(crate) fn until_held(&self, name: &str) {
        self.until_claims(name, 1, 0);
    }

    /// Waits until the lock has so many holders and waiters.
    pub(crate) fn until_claims(&self, name: &str, holders: usize, waiting: usize) {
        until(
            &format!("{holders} holders and {waiting} waiting on {name}"),
            || {
                let shown = self.show(name);
                let count = |key: &str| shown[key].as_array().unwrap().len();
                (count("holders") == holders && count("waiting") == waiting).then_some(())
            },
        );
    }
}

/// leasehold with an empty slate instead of the tester's own settings.
pub(crate) fn bare<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for (key, _) in std::env::vars_os() {
        if key.as_encoded_bytes().starts_with(b"LEASEHOLD_") {
            command.env_remove(key);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// What a finished process left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// The only line on standard error.
    pub(crate) fn complaint(&self) -> &str {
        assert_eq!(self.stderr.lines().count(), 1, "not one line: {self:?}");
        assert!(self.stderr.starts_with("leasehold: "), "{self:?}");
        self.stderr.trim_end()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A process that is killed when the test is over.
pub(crate) struct Running {
    child: Option<Child>,
}

impl Running {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::as_it_is(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts the command with the ends that it has been given.
    pub(crate) fn as_it_is(command: &mut Command) -> Self {
        Self {
            child: Some(command.spawn().unwrap()),
        }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.as_ref().unwrap().id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Waits for it to end by itself.
    pub(crate) fn done(mut self) -> Done {
        until("the process to end", || self.child().try_wait().unwrap());
        let child = self.child.take().unwrap();
        child.wait_with_output().unwrap().into()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may be stopped; the keeper sees to the command.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Asks until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < LONGEST, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process is there and more than a zombie.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    let state = stat
        .ok()
        .and_then(|stat| stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()));
    state.is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn until_dead(pid: Pid) {
    until(&format!("{pid} to die"), || (!is_alive(pid)).then_some(()));
}
