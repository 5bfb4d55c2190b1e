//! The programs and files that tests need and cargo cannot bring.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// One thing a test needs, and how it comes onto a Debian or Ubuntu machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    /// How to see that it is there: a program's name, or a path in which `*`
    /// stands for any one directory.
    pub(crate) sign: &'static str,
    /// The package that brings it.
    pub(crate) package: &'static str,
    /// The ring of tests that needs it.
    pub(crate) ring: &'static str,
}

impl Tool {
    /// Whether its sign or its package is one of these names.
    pub(crate) fn is_among(&self, names: &[String]) -> bool {
        let is_it = |name: &String| [self.sign, self.package].contains(&name.as_str());
        names.iter().any(is_it)
    }
}

/// These names, and all by which tests and installers call the same things.
pub(crate) fn all_without(names: &[String]) -> Vec<String> {
    let others = TOOLS.iter().filter(|tool| tool.is_among(names));
    let others = others.flat_map(|tool| [tool.sign, tool.package]);
    let mut all: Vec<_> = others.map(str::to_owned).collect();
    all.extend(names.iter().cloned());
    all.sort_unstable();
    all.dedup();
    all
}

/// Everything the tests need. A test that starts a new program adds its line.
pub(crate) const TOOLS: &[Tool] = &[
    tool("redis-server", "redis-server", "conformance"),
    tool("redis-sentinel", "redis-sentinel", "servers"),
    tool("redis-cli", "redis-tools", "servers"),
    tool("etcd", "etcd-server", "conformance"),
    tool("etcdctl", "etcd-client", "conformance"),
    tool(
        "/usr/share/java/zookeeper.jar",
        "libzookeeper-java",
        "conformance",
    ),
    tool(
        "/usr/share/java/slf4j-nop.jar",
        "libslf4j-java",
        "conformance",
    ),
    tool("java", "default-jre-headless", "conformance"),
    tool(
        "/usr/lib/postgresql/*/bin/postgres",
        "postgresql",
        "conformance",
    ),
    tool("mariadbd", "mariadb-server", "conformance"),
    tool("/usr/lib/galera/libgalera_smm.so", "galera-4", "servers"),
    tool("/usr/sbin/pgbouncer", "pgbouncer", "servers"),
    tool("cc", "gcc", "servers"),
    tool("make", "make", "servers"),
    tool("python3", "python3", "interop"),
    tool("pip3", "python3-pip", "interop"),
    tool("node", "nodejs", "interop"),
    tool("npm", "npm", "interop"),
    tool("go", "golang-go", "interop"),
    tool("javac", "default-jdk-headless", "interop"),
    tool("mvn", "maven", "interop"),
    tool("bindfs", "bindfs", "cli"),
    tool("flock", "util-linux", "cli"),
    tool("strace", "strace", "cli"),
    tool("nginx", "nginx-light", "cli"),
    tool("setsid", "util-linux", "cli"),
    tool(
        "/usr/lib/*/faketime/libfaketime.so.1",
        "libfaketime",
        "conformance",
    ),
    tool("chromium", "chromium", "browser"),
    tool("mount", "mount", "servers"),
];

/// The tools of the table that this machine does not have.
pub(crate) fn missing(tools: &[Tool]) -> Vec<Tool> {
    let directories = search_path();
    let is_missing = |tool: &&Tool| !is_there(tool.sign, &directories);
    tools.iter().filter(is_missing).copied().collect()
}

/// The file of a program, if the search path has it.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let files = search_path().into_iter().map(|folder| folder.join(name));
    files.into_iter().find(|file| file.is_file())
}

const fn tool(sign: &'static str, package: &'static str, ring: &'static str) -> Tool {
    Tool {
        sign,
        package,
        ring,
    }
}

/// Servers live in `sbin`, which an ordinary user's search path leaves out.
fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(servers).collect()
}

fn is_there(sign: &str, directories: &[PathBuf]) -> bool {
    if sign.contains('/') {
        return matches(Path::new("/"), sign.trim_start_matches('/'));
    }
    directories.iter().any(|folder| folder.join(sign).is_file())
}

/// Whether something below the folder has a path of this pattern.
fn matches(folder: &Path, pattern: &str) -> bool {
    let (first, rest) = pattern.split_once('/').unwrap_or((pattern, ""));
    let candidates = if first == "*" {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    } else {
        vec![folder.join(first)]
    };
    candidates
        .iter()
        .any(|candidate| candidate.exists() && (rest.is_empty() || matches(candidate, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_looked_for_on_the_search_path() {
        let folders = [PathBuf::from("/nowhere"), PathBuf::from("/bin")];
        assert!(is_there("sh", &folders));
        assert!(!is_there("sh", &folders[..1]));
        assert!(program("sh").is_some());
    }

    #[test]
    fn a_star_stands_for_any_one_directory() {
        let crates = crate::shell::root().join("crates");
        let sign = |rest: &str| format!("{}/{rest}", crates.display());
        assert!(is_there(&sign("xtask/Cargo.toml"), &[]));
        assert!(is_there(&sign("*/src/tools.rs"), &[]));
        assert!(!is_there(&sign("*/tools.rs"), &[]));
    }

    #[test]
    fn what_is_there_is_not_missing() {
        let there = tool("sh", "dash", "cli");
        let absent = tool("no-such-program", "none", "cli");
        let missing = missing(&[there, absent]);
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].sign, "no-such-program");
    }
}
