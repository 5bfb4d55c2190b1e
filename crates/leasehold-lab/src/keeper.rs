//! What the lab starts ends with the lab, however that ends: workers, servers,
//! small disks and folders. A killed program can tidy up nothing, so there are
//! three: the one that was called, the keeper below it, and the lab below that.
//! The keeper is told when either of the others is gone. Whatever loses its
//! parent becomes its child, so it sees all that there is to end.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

use crate::story::Error;

/// How long all may take to be gone after SIGKILL.
const LONGEST: Duration = Duration::from_secs(10);

/// Tells a program that its keeper is this process.
const KEPT: &str = "LEASEHOLD_LAB_KEPT";

/// Runs the lab with these arguments below a keeper.
///
/// # Errors
/// If it cannot be started.
pub fn run_kept() -> Result<ExitCode, Error> {
    let mut keeper = ourselves("keep")?
        .args(std::env::args_os().skip(1))
        .spawn()?;
    Ok(code(keeper.wait()?))
}

/// Runs another program, such as a test, below a keeper of this lab, unless it is
/// below one already: then there is nothing to give, and it goes on.
///
/// # Errors
/// If it cannot be started, or its keeper is gone.
pub fn run_program_kept(lab: &str) -> Result<Option<ExitCode>, Error> {
    if let Ok(keeper) = std::env::var(KEPT) {
        die_with(keeper.parse()?, Signal::SIGKILL)?;
        return Ok(None);
    }
    let mut keeper = Command::new(lab)
        .args(["keep", "--program"])
        .arg(std::env::current_exe()?)
        .arg(std::process::id().to_string())
        .args(std::env::args_os().skip(1))
        .spawn()?;
    Ok(Some(code(keeper.wait()?)))
}

/// The keeper itself: starts the lab, or another program, and ends all when it or
/// the one that was called is gone.
///
/// # Errors
/// If it cannot be started.
pub fn keep(program: Option<&Path>, parent: i32, arguments: &[String]) -> Result<ExitCode, Error> {
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ] {
        signals.add(signal);
    }
    // They wait until they are asked for.
    signals.thread_block()?;
    die_with(parent, Signal::SIGTERM)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    let folder = tempfile::Builder::new()
        .prefix("leasehold-lab-")
        .tempdir()?;
    // Servers run as other users, who have files there too.
    let mode = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(folder.path(), mode)?;
    let mut lab = match program {
        Some(program) => Command::new(program),
        None => ourselves("kept")?,
    };
    let mut lab = lab
        .args(arguments)
        .env(KEPT, std::process::id().to_string())
        .env("TMPDIR", folder.path())
        .spawn()?;
    let ended = wait_for_end(&mut lab, &signals);
    end_children();
    unmount_below(folder.path());
    // What else it cannot remove, nobody can.
    let _ = folder.close();
    Ok(ended?.map_or(ExitCode::FAILURE, code))
}

/// Lets this process be sent this signal when its parent is gone, also while it
/// stands still.
///
/// # Errors
/// If its parent is gone already.
pub fn die_with(parent: i32, signal: Signal) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(signal)?;
    // It may have died before we asked to be told.
    match getppid().as_raw() == parent {
        true => Ok(()),
        false => Err("the lab is gone".into()),
    }
}

/// This program once more, as one of the three.
fn ourselves(part: &str) -> Result<Command, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(part).arg(std::process::id().to_string());
    Ok(command)
}

/// How the lab ended; none if somebody wants it to.
fn wait_for_end(lab: &mut Child, signals: &SigSet) -> Result<Option<ExitStatus>, Error> {
    while signals.wait()? == Signal::SIGCHLD {
        // Others who lost their parent end too.
        if let Some(status) = lab.try_wait()? {
            return Ok(Some(status));
        }
    }
    Ok(None)
}

/// Kills all children, and theirs, which are ours as soon as they have lost
/// their parent.
fn end_children() {
    let deadline = Instant::now() + LONGEST;
    while Instant::now() < deadline {
        for child in children() {
            let _ = kill(child, Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(5)),
            Ok(_) => {}
            // There are none any more.
            Err(_) => return,
        }
    }
}

fn children() -> Vec<Pid> {
    let this = std::process::id();
    let list = std::fs::read_to_string(format!("/proc/{this}/task/{this}/children"));
    let list = list.unwrap_or_default();
    let numbers = list.split_whitespace().flat_map(str::parse);
    numbers.map(Pid::from_raw).collect()
}

fn unmount_below(folder: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for place in places.filter(|place| Path::new(place).starts_with(folder)) {
        // Lazily, because whoever was killed just now may still be in it.
        let _ = Command::new("umount").arg("-l").arg(place).status();
    }
}

/// The status of a child as ours.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
