//! Other people's lock libraries, as the small programs in `interop/`. Each ends
//! up as `target/tools/clients/NAME`, which runs wherever it is called from.

use crate::built::{self, shown, unless_built};
use crate::shell::{self, Outcome, run};
use crate::tools;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const DEPENDENCY_PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1";

/// A library, the tool that it is built with, and how.
type Client = (&'static str, &'static str, fn() -> Outcome);

const CLIENTS: [Client; 8] = [
    ("redis-py", "python3", redis_py),
    ("redlock", "npm", redlock),
    ("redsync", "go", redsync),
    ("rslock", "cargo", rslock),
    ("etcd-go", "go", etcd_go),
    ("kazoo", "python3", kazoo),
    ("curator", "mvn", curator),
    ("redisson", "mvn", redisson),
];

/// Builds every client that is not there or out of date, but for those that are named or
/// whose tool is.
///
/// # Errors
/// If one of them cannot be built.
pub(crate) fn build(without: &[String]) -> Outcome {
    let folder = built::tools().join("clients");
    fs::create_dir_all(&folder)
        .map_err(|error| format!("writing {}: {error}", folder.display()))?;
    let left_out = all_without(&tools::all_without(without));
    let wanted = CLIENTS
        .iter()
        .filter(|(name, ..)| !left_out.iter().any(|out| out == name));
    let wrong = wanted.filter_map(|(name, _, build)| {
        let error = build().err()?;
        Some(format!("{error} (or --without {name})"))
    });
    let wrong: Vec<_> = wrong.collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}

/// These tools, and the clients that are built with one of them.
pub(crate) fn all_without(tools: &[String]) -> Vec<String> {
    let clients = CLIENTS
        .iter()
        .filter(|(_, tool, _)| tools.iter().any(|name| name == tool));
    let clients = clients.map(|(name, ..)| (*name).to_owned());
    tools.iter().cloned().chain(clients).collect()
}

fn redis_py() -> Outcome {
    python("python", "redis-py")
}

/// A program in `interop/FOLDER`, with the packages that its list names.
fn python(name: &str, client: &str) -> Outcome {
    let files = ["requirements.txt", "client.py"].map(|file| format!("interop/{name}/{file}"));
    let [requirements, program] = files.each_ref().map(String::as_str);
    unless_built(name, &[requirements, program], |folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(folder)
            .args(["--requirement", requirements])
            .current_dir(shell::root());
        run(&mut pip)?;
        copy(program, folder)?;
        let script = quoted(&folder.join("client.py"));
        launcher(client, &format!("python3 {script}"))
    })
}

fn redlock() -> Outcome {
    let files = ["package.json", "package-lock.json", "client.js"];
    let sources = files.map(|file| format!("interop/node/{file}"));
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    unless_built("node", &sources, |folder| {
        for source in &sources {
            copy(source, folder)?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--silent", "--ignore-scripts", "--no-audit"])
            .current_dir(folder);
        run(&mut npm)?;
        let script = quoted(&folder.join("client.js"));
        launcher("redlock", &format!("node {script}"))
    })
}

fn redsync() -> Outcome {
    let files = ["go.mod", "go.sum", "main.go"].map(|file| format!("interop/go/{file}"));
    let sources: Vec<&str> = files.iter().map(String::as_str).collect();
    unless_built("go", &sources, |folder| {
        let program = folder.join("redsync");
        let mut go = Command::new("go");
        go.args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(shell::root().join("interop/go"));
        run(&mut go)?;
        launcher("redsync", &quoted(&program))
    })
}

fn etcd_go() -> Outcome {
    let files = ["go.mod", "go.sum", "main.go", "slices.go"];
    let files = files.map(|file| format!("interop/go-etcd/{file}"));
    let sources: Vec<&str> = files.iter().map(String::as_str).collect();
    unless_built("go-etcd", &sources, |folder| {
        let program = folder.join("etcd-go");
        let mut go = Command::new("go");
        go.args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(shell::root().join("interop/go-etcd"));
        run(&mut go)?;
        launcher("etcd-go", &quoted(&program))
    })
}

fn rslock() -> Outcome {
    let files = ["Cargo.toml", "Cargo.lock", "src/main.rs"];
    let files = files.map(|file| format!("interop/rust/{file}"));
    let sources: Vec<&str> = files.iter().map(String::as_str).collect();
    unless_built("rust", &sources, |folder| {
        let mut build = shell::cargo(["build", "--quiet", "--locked", "--target-dir"]);
        build
            .arg(folder)
            .args(["--manifest-path", "interop/rust/Cargo.toml"]);
        run(&mut build)?;
        launcher("rslock", &quoted(&folder.join("debug/interop-rslock")))
    })
}

fn kazoo() -> Outcome {
    python("python-zookeeper", "kazoo")
}

fn redisson() -> Outcome {
    java("java", "redisson")
}

fn curator() -> Outcome {
    java("java-zookeeper", "curator")
}

/// A program in `interop/FOLDER`, with the jars that its `pom.xml` names.
fn java(name: &str, client: &str) -> Outcome {
    let sources = ["pom.xml", "Client.java"].map(|file| format!("interop/{name}/{file}"));
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    unless_built(name, &sources, |folder| {
        let jars = folder.join("lib");
        let mut maven = Command::new("mvn");
        maven
            .args(["-q", "-B", "-f", sources[0]])
            .arg(format!("{DEPENDENCY_PLUGIN}:copy-dependencies"))
            .arg(format!("-DoutputDirectory={}", shown(&jars)))
            .current_dir(shell::root());
        run(&mut maven)?;
        let jars = format!("{}/*", shown(&jars));
        let mut compiler = Command::new("javac");
        compiler
            .args(["-cp", &jars, "-d"])
            .arg(folder)
            .arg(sources[1])
            .current_dir(shell::root());
        run(&mut compiler)?;
        // One compiler and one collector thread: tests start several at once.
        let path = quoted(Path::new(&format!("{}:{jars}", shown(folder))));
        let options = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1";
        launcher(client, &format!("java {options} -cp {path} Client"))
    })
}

/// Writes a script that becomes the program, so that whoever kills it kills the
/// program.
fn launcher(name: &str, command: &str) -> Outcome {
    let file = built::tools().join("clients").join(name);
    let wrong = |error| format!("writing {}: {error}", file.display());
    fs::write(&file, format!("#!/bin/sh\nexec {command} \"$@\"\n")).map_err(wrong)?;
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).map_err(wrong)
}

fn quoted(path: &Path) -> String {
    format!("'{}'", shown(path).replace('\'', r"'\''"))
}

fn copy(source: &str, folder: &Path) -> Outcome {
    let from = shell::root().join(source);
    let name = from.file_name().unwrap_or_default();
    let copied = fs::copy(&from, folder.join(name));
    copied
        .map(|_| ())
        .map_err(|error| format!("copying {source}: {error}"))
}
