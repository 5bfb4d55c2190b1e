//! MariaDB and MySQL servers of our own: child processes on free ports of 127.0.0.1, in
//! folders that the test gives. MariaDB refuses root, so root starts it as the user that its
//! package made.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::{LONGEST, free_port, need, scratch, tools};

/// The database that tests use.
pub const DATABASE: &str = "shop";

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    MariaDb,
    /// The one that `cargo xtask tools` unpacks, with all that it needs.
    Mysql,
}

/// The name of what is missing, if something is.
pub fn lacks_mysql() -> Option<&'static str> {
    Flavor::MariaDb.lacks()
}

impl Flavor {
    /// The name of what is missing, if something is.
    pub fn lacks(self) -> Option<&'static str> {
        let is_there = program("mariadbd").is_some() && program("mariadb-install-db").is_some();
        match self {
            _ if !is_there => Some("mariadb-server"),
            Self::Mysql if !unpacked("sbin/mysqld").is_file() => {
                Some("mysql-9.7 (cargo xtask tools)")
            }
            _ => None,
        }
    }

    /// The server's program, with what it is always started with.
    fn server(self) -> Command {
        match self {
            Self::MariaDb => {
                let mut server = command("mariadbd");
                server.arg("--no-defaults");
                server
            }
            Self::Mysql => {
                // With the C library that lies beside it.
                let mut server = Command::new(unpacked("lib64/ld-linux-x86-64.so.2"));
                server
                    .arg("--library-path")
                    .arg(unpacked("lib/x86_64-linux-gnu"))
                    .arg(unpacked("sbin/mysqld"))
                    .args(["--no-defaults", "--secure-file-priv=NULL", "--mysqlx=OFF"])
                    .args(["--innodb-redo-log-capacity=8M", "--performance-schema=OFF"])
                    .arg(shown("--lc-messages-dir=", &unpacked("share/mysql")))
                    .arg(shown("--plugin-dir=", &unpacked("lib/mysql/plugin")))
                    .current_dir("/")
                    .stdin(Stdio::null());
                if rustix::process::geteuid().is_root() {
                    server.arg("--user=root");
                }
                server
            }
        }
    }

    /// Makes an empty data folder.
    fn install(self, data: &Path) {
        match self {
            Self::MariaDb => run(command("mariadb-install-db")
                .args(["--no-defaults", "--skip-test-db"])
                .arg("--auth-root-authentication-method=normal")
                .arg("--innodb-log-file-size=8M")
                .arg(shown("--datadir=", data))),
            Self::Mysql => {
                let script = data.with_extension("sql");
                let statements = "create user root@'127.0.0.1';\n\
                    grant all on *.* to root@'127.0.0.1' with grant option;\n";
                std::fs::write(&script, statements).expect("there is room for a file");
                run(self
                    .server()
                    .arg("--initialize-insecure")
                    .arg(shown("--init-file=", &script))
                    .arg(shown("--datadir=", data)));
            }
        }
    }
}

/// A file of the MySQL that `cargo xtask tools` unpacks.
fn unpacked(file: &str) -> PathBuf {
    tools().join("servers/mysql-9.7/usr").join(file)
}

fn shown(option: &str, path: &Path) -> String {
    format!("{option}{}", path.display())
}

fn program(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/bin", "/usr/local/sbin"];
    let files = folders.map(|folder| Path::new(folder).join(name));
    files.into_iter().find(|file| file.exists())
}

/// Whom to start servers as; `None`: as ourselves.
fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let line = users.lines().find(|line| line.starts_with("mysql:"));
    let mut fields = line.expect("the package made a user").split(':').skip(2);
    let mut number = || fields.next()?.parse().ok();
    Some((number()?, number()?))
}

fn command(name: &str) -> Command {
    let mut command = Command::new(program(name).expect("it was looked for before"));
    if let Some((user, group)) = server_user() {
        command.uid(user).gid(group);
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} starts: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

/// A running server.
#[derive(Debug)]
pub struct Mysql {
    flavor: Flavor,
    process: Child,
    data: PathBuf,
    options: Vec<String>,
    pub port: u16,
}

impl Mysql {
    /// Starts MariaDB with these settings, such as `max_connections=20`.
    pub fn start(folder: &Path, settings: &[&str]) -> Self {
        Self::start_flavor(Flavor::MariaDb, folder, settings)
    }

    pub fn start_flavor(flavor: Flavor, folder: &Path, settings: &[&str]) -> Self {
        need(flavor.lacks());
        let data = folder.join("data");
        make_data(flavor, &data);
        let options: Vec<_> = settings.iter().map(|text| format!("--{text}")).collect();
        // Another test may take the port first; then there are others.
        for _ in 0..10 {
            let port = free_port();
            let mut server = Self {
                flavor,
                process: spawn(flavor, &data, port, &options),
                data: data.clone(),
                options: options.clone(),
                port,
            };
            if server.is_up() {
                server.sql_in("mysql", &format!("create database {DATABASE}"));
                return server;
            }
        }
        let log = std::fs::read_to_string(data.join("log")).unwrap_or_default();
        panic!("{flavor:?} does not start in {}: {log}", data.display());
    }

    /// `mysql://…` as the user that may do everything.
    pub fn url(&self) -> String {
        self.url_as("root")
    }

    pub fn url_as(&self, user: &str) -> String {
        self.url_in(DATABASE, user)
    }

    pub fn url_in(&self, database: &str, user: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL and gives what it prints: fields with tabs between them.
    pub fn sql(&self, text: &str) -> String {
        self.sql_in(DATABASE, text)
    }

    pub fn sql_in(&self, database: &str, text: &str) -> String {
        let said = self.try_sql(database, text);
        said.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn client(&self, database: &str, text: &str) -> Command {
        let mut client = Command::new(program("mariadb").expect("it is beside the server"));
        client
            .args(["--no-defaults", "-h", "127.0.0.1", "-u", "root", "-NB"])
            .arg("--init-command=set autocommit = 1")
            .args(["-P", &self.port.to_string(), "-e", text, database])
            .stdin(Stdio::null());
        client
    }

    fn try_sql(&self, database: &str, text: &str) -> Result<String, String> {
        let output = self.client(database, text).output();
        let output = output.expect("the client starts");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Ends every connection but the one that asks.
    pub fn end_connections(&self) {
        self.end_connections_of(DATABASE);
    }

    /// Ends every connection to the database but the one that asks.
    pub fn end_connections_of(&self, database: &str) {
        let query = "select concat('kill ', id) from information_schema.processlist where \
             id <> connection_id() and user <> 'system user' and db = database()";
        let ends = self.sql_in(database, query).replace('\n', "; ");
        // Some may be gone already; the others are ended all the same.
        let _ = self.client("mysql", &ends).arg("--force").output();
    }

    /// Kills the server as a crash of it would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again on the same port, with the data that it has.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + LONGEST;
        loop {
            self.process = spawn(self.flavor, &self.data, self.port, &self.options);
            if self.is_up() {
                return;
            }
            assert!(Instant::now() < deadline, "it does not come back");
        }
    }

    /// Lets the server stand still, or go on.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.process), signal);
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
            if self.try_sql("mysql", "select 1").is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        false
    }
}

impl Drop for Mysql {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        self.kill();
    }
}

fn spawn(flavor: Flavor, data: &Path, port: u16, options: &[String]) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(data.join("log"));
    let mut server = flavor.server();
    server
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--socket={}/s.sock", data.display()))
        .arg(format!("--pid-file={}/pid", data.display()))
        .arg(format!("--tmpdir={}", data.display()))
        .arg(format!("--port={port}"))
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args(["--innodb-buffer-pool-size=32M", "--max-connections=500"])
        // What the kernel has survives the server; only a machine that loses its
        // power would miss it.
        .args(["--innodb-flush-log-at-trx-commit=2"])
        .args(options)
        .stdout(Stdio::null())
        .stderr(log.expect("there is room for a log"));
    server.spawn().expect("the server starts")
}

/// Makes a data folder, by copying one that was made before.
fn make_data(flavor: Flavor, data: &Path) {
    let folder = data.parent().expect("it is in a folder");
    // The server's user has to get through.
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder, mode).expect("the folder is ours");
    run(Command::new("cp").arg("-r").arg(template(flavor)).arg(data));
    if let Some((user, group)) = server_user() {
        let owner = format!("{user}:{group}");
        run(Command::new("chown").arg("-R").arg(owner).arg(data));
    }
}

/// An empty data folder, made once and kept with what Cargo builds.
fn template(flavor: Flavor) -> PathBuf {
    static MAKING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _making = MAKING.lock().expect("no test panics with it");
    let kept = scratch().join(match flavor {
        Flavor::MariaDb => "mariadb",
        Flavor::Mysql => "mysql",
    });
    if kept.exists() {
        return kept;
    }
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder.path(), mode).expect("the folder is ours");
    if let Some((user, group)) = server_user() {
        chown(folder.path(), Some(user), Some(group)).expect("root may do that");
    }
    let made = folder.path().join("data");
    flavor.install(&made);
    // Another process may have been faster; one is as good as the other.
    let copy = kept.with_extension(std::process::id().to_string());
    run(Command::new("cp").arg("-r").arg(&made).arg(&copy));
    if std::fs::rename(&copy, &kept).is_err() {
        std::fs::remove_dir_all(&copy).expect("it is ours");
    }
    kept
}
