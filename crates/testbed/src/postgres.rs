//! PostgreSQL servers of our own: child processes on free ports of 127.0.0.1, in
//! folders that the test gives. The server refuses root, so root starts it as
//! the user that its package made.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{LONGEST, free_port, need, scratch};

/// Where packages put the programs of one release beside those of another.
const FOLDERS: &str = "/usr/lib/postgresql";
/// The role that may do everything.
pub const SUPERUSER: &str = "u";

/// The name of what is missing, if something is.
pub fn lacks_postgres() -> Option<&'static str> {
    program("postgres").is_none().then_some("postgresql")
}

/// A program of the newest release that is installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let releases = std::fs::read_dir(FOLDERS).ok()?;
    let mut releases: Vec<_> = releases
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    releases.sort();
    let programs = releases
        .iter()
        .rev()
        .map(|release| release.join("bin").join(name));
    programs.into_iter().find(|program| program.exists())
}

/// A command that runs as a user whom the server does not refuse.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = server_user() {
        command.uid(user).gid(group);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

/// Whom to start servers as; `None`: as ourselves.
fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let mut fields = line.expect("the package made a user").split(':').skip(2);
    let mut number = || fields.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Lets the server's user into a folder of ours.
pub fn hand_over(folder: &Path) {
    if let Some((user, group)) = server_user() {
        chown(folder, Some(user), Some(group)).expect("root may do that");
    }
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} starts: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    process: Child,
    data: PathBuf,
    options: Vec<String>,
    pub port: u16,
}

impl Postgres {
    /// Starts a server with these settings, such as `max_connections=20`.
    pub fn start(folder: &Path, settings: &[&str]) -> Self {
        need(lacks_postgres());
        let data = folder.join("data");
        make_data(&data);
        let settings = settings.iter().flat_map(|&setting| ["-c", setting]);
        let settings: Vec<_> = settings.map(str::to_owned).collect();
        Self::start_on(data, settings)
    }

    /// Starts a server on data that is there.
    pub fn start_on(data: PathBuf, options: Vec<String>) -> Self {
        // Another test may take the port first; then there are others.
        for _ in 0..10 {
            let port = free_port();
            let process = spawn(&data, port, &options);
            let mut server = Self {
                process,
                data: data.clone(),
                options: options.clone(),
                port,
            };
            if server.is_up() {
                return server;
            }
        }
        let log = std::fs::read_to_string(data.join("log")).unwrap_or_default();
        panic!("PostgreSQL does not start in {}: {log}", data.display());
    }

    /// `postgres://…` as the role that may do everything.
    pub fn url(&self) -> String {
        self.url_as(SUPERUSER)
    }

    pub fn url_as(&self, role: &str) -> String {
        self.url_in("postgres", role)
    }

    pub fn url_in(&self, database: &str, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL and gives what it prints: fields with `|` between them.
    pub fn sql(&self, text: &str) -> String {
        self.sql_in("postgres", text)
    }

    pub fn sql_in(&self, database: &str, text: &str) -> String {
        let said = self.try_sql_in(database, text);
        said.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The same, or what is wrong.
    pub fn try_sql(&self, text: &str) -> Result<String, String> {
        self.try_sql_in("postgres", text)
    }

    fn try_sql_in(&self, database: &str, text: &str) -> Result<String, String> {
        let output = Command::new(program("psql").expect("psql is beside the server"))
            .args(["-qAt", "-v", "ON_ERROR_STOP=1", "-c", text])
            .arg(self.url_in(database, SUPERUSER))
            .stdin(Stdio::null())
            .output()
            .expect("psql starts");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Runs many statements, one after the other, over one connection, and gives
    /// what they print.
    pub fn script(&self, text: &str) -> String {
        let mut file = tempfile::NamedTempFile::new().expect("there is room for a file");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("it can be written");
        let output = Command::new(program("psql").expect("psql is beside the server"))
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-f"])
            .arg(file.path())
            .arg(self.url())
            .stdin(Stdio::null())
            .output()
            .expect("psql starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends every connection to the database but the one that asks.
    pub fn end_connections_of(&self, database: &str) {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid()";
        self.sql_in(database, end);
    }

    /// Ends every connection of the engine.
    pub fn end_connections(&self) {
        self.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where application_name = 'leasehold'",
        );
    }

    /// Kills the server and its children as a crash of it would.
    pub fn kill(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::QUIT);
        let _ = self.process.wait();
    }

    /// Starts it again on the same port, with the data that it has.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + LONGEST;
        loop {
            self.process = spawn(&self.data, self.port, &self.options);
            if self.is_up() {
                return;
            }
            assert!(Instant::now() < deadline, "it does not come back");
        }
    }

    /// Lets the server's main process and all others of it stand still.
    pub fn signal_all(&self, signal: Signal) {
        let id = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        for id in ids.chain([id.cast_signed()]) {
            if let Some(id) = Pid::from_raw(id) {
                let _ = kill_process(id, signal);
            }
        }
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    fn is_up(&mut self) -> bool {
        let deadline = Instant::now() + LONGEST;
        while Instant::now() < deadline {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return false;
            }
            if self.try_sql("select 1").is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.signal_all(Signal::CONT);
        self.kill();
    }
}

fn spawn(data: &Path, port: u16, options: &[String]) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(data.join("log"));
    let mut server = command(program("postgres").expect("it was looked for before"));
    server
        .arg("-D")
        .arg(data)
        .args(["-p", &port.to_string()])
        .args(["-c", "listen_addresses=127.0.0.1"])
        .args(["-c", "unix_socket_directories="])
        // What the kernel has survives the server; only a machine that loses its
        // power would miss it.
        .args(["-c", "fsync=off"])
        .args(["-c", "max_connections=300"])
        .args(["-c", "shared_buffers=32MB"])
        .args(options)
        .stdout(Stdio::null())
        .stderr(log.expect("there is room for a log"));
    server.spawn().expect("the server starts")
}

/// Makes a data folder, by copying one that was made before.
fn make_data(data: &Path) {
    let folder = data.parent().expect("it is in a folder");
    // The server's user has to get through.
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder, mode).expect("the folder is ours");
    let template = template();
    run(Command::new("cp").arg("-r").arg(&template).arg(data));
    if let Some((user, group)) = server_user() {
        run(Command::new("chown")
            .arg("-R")
            .arg(format!("{user}:{group}"))
            .arg(data));
    }
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(data, mode).expect("the folder is ours");
}

/// An empty data folder, made once and kept with what Cargo builds.
fn template() -> PathBuf {
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _making = MAKING.lock().expect("no test panics with it");
    let initdb = program("initdb").expect("it is beside the server");
    let release = initdb.ancestors().nth(2).and_then(Path::file_name);
    let release = release
        .expect("the path has it")
        .to_string_lossy()
        .into_owned();
    let kept = scratch().join(format!("postgres-{release}"));
    if kept.exists() {
        return kept;
    }
    let folder = tempfile::tempdir().expect("there is room for a folder");
    hand_over(folder.path());
    let made = folder.path().join("data");
    run(command(initdb)
        .args([
            "-A",
            "trust",
            "--no-sync",
            "--wal-segsize=1",
            "-E",
            "UTF8",
            "--locale=C",
        ])
        .args(["-U", SUPERUSER, "-D"])
        .arg(&made));
    // Another process may be at it too; the first to rename it wins.
    let copy = kept.with_extension(std::process::id().to_string());
    run(Command::new("cp").arg("-r").arg(&made).arg(&copy));
    if std::fs::rename(&copy, &kept).is_err() {
        let _ = std::fs::remove_dir_all(&copy);
    }
    kept
}
