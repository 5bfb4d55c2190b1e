//! `leasehold fence`: a file, or any resource with a name, that refuses a
//! holder after a newer one has come.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use leasehold::fence::{FenceKey, FencedFile, Policy};
use leasehold::{Fence, Token};

use crate::child;
use crate::exit::{self, Failure};
use crate::print::{self, Console};

/// Write a file only if no newer holder has come to it
///
/// For commands under `leasehold run`, which sets LEASEHOLD_FENCE. FILE is
/// claimed before COMMAND starts; COMMAND reads it on standard input, and what
/// it prints takes the place of FILE in one step, if COMMAND ends with 0 and no
/// newer holder has claimed FILE meanwhile. Else FILE stays as it is.
///
/// The mark is kept in FILE.fence, which must stay beside FILE. Without
/// LEASEHOLD_FENCE, LEASEHOLD_TOKEN and LEASEHOLD_OWNER are used.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = "leasehold fence [OPTIONS] <FILE> [--] <COMMAND>...
       leasehold fence check [OPTIONS] <RESOURCE>
       leasehold fence headers [OPTIONS] <RESOURCE>")]
pub(crate) struct FenceArgs {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    mark: MarkArgs,
    /// Add what COMMAND prints at the end, instead of replacing FILE
    #[arg(short, long)]
    append: bool,
    /// The file
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// The command and its arguments
    #[arg(required = true, value_name = "COMMAND")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    argv: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Claim a resource, or find out that a newer holder has: 0, or 76 if stale
    ///
    /// For scripts that then do the work themselves. RESOURCE is a path; the
    /// mark is kept in RESOURCE.fence. Work that goes on after the check is not
    /// stopped if a newer holder comes then.
    Check {
        #[command(flatten)]
        mark: MarkArgs,
        /// What is to be worked on
        resource: PathBuf,
    },
    /// Print the headers of a request to a service behind a gate
    ///
    /// As in: leasehold fence headers accounts/17 --key KEY | curl -H @- …
    Headers {
        /// Sign the fence with the key in this file
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// What is to be worked on, as the gate knows it
        resource: String,
    },
}

#[derive(Debug, Args)]
struct MarkArgs {
    /// Let every claim take over, also one with a lower token, but let only the
    /// last one write; for stores whose tokens are unique but not ordered
    #[arg(long)]
    exact: bool,
}

impl MarkArgs {
    fn on(&self, path: &Path) -> FencedFile {
        let policy = if self.exact {
            Policy::Exact
        } else {
            Policy::Ordered
        };
        FencedFile::new(path).policy(policy)
    }
}

pub(crate) fn fence(args: &FenceArgs, console: Console) -> Result<u8, Failure> {
    let fence = from_environment(|key| std::env::var(key).ok())?;
    match &args.other {
        Some(Other::Check { mark, resource }) => {
            mark.on(resource).claim(fence)?;
            console.detail(&format!("{} is at {fence}", resource.display()));
            return Ok(exit::OK);
        }
        Some(Other::Headers { key, resource }) => {
            print::text(&headers(fence, resource, key.as_deref())?)?;
            return Ok(exit::OK);
        }
        None => {}
    }
    let (Some(file), [command, arguments @ ..]) = (&args.file, &*args.argv) else {
        return Err(Failure::usage("a file and a command are needed"));
    };
    child::check(command)?;
    let mut claimed = args.mark.on(file).claim(fence)?;
    let mut process = Command::new(command);
    process.args(arguments).stdout(Stdio::piped());
    // Opened after the claim: nobody older writes to it any more.
    process.stdin(match File::open(file) {
        Ok(file) => file.into(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Stdio::null(),
        Err(error) => {
            let why = format!("read {}: {error}", file.display());
            return Err(Failure::new(exit::INPUT_OUTPUT, why));
        }
    });
    let failed = |error| Failure::system("run the command", error);
    let mut running = process.spawn().map_err(failed)?;
    let mut printed = Vec::new();
    if let Some(mut output) = running.stdout.take() {
        output.read_to_end(&mut printed).map_err(failed)?;
    }
    let code = match child::Change::end(running.wait().map_err(failed)?) {
        child::Change::Exited(code) => code,
        child::Change::Killed(signal) => exit::signalled(signal),
        child::Change::Stopped(_) => exit::BUG,
    };
    if code != exit::OK {
        console.detail(&format!("{} stays as it is", file.display()));
        return Ok(code);
    }
    if args.append {
        claimed.append(&printed)?;
    } else {
        claimed.replace(&printed)?;
    }
    Ok(exit::OK)
}

/// One header per line, as `curl -H @-` reads them.
fn headers(fence: Fence, resource: &str, key: Option<&Path>) -> Result<String, Failure> {
    let key = key.map(FenceKey::from_file).transpose()?;
    let headers = leasehold::http::fence_headers(fence, resource, key.as_ref())?;
    let lines = headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        format!("{name}: {value}\n")
    });
    Ok(lines.collect())
}

/// The fence of the `leasehold run` around us.
fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Fence, Failure> {
    let refuse = |why: String| Err(Failure::usage(why));
    if let Some(text) = variable("LEASEHOLD_FENCE") {
        return match text.parse() {
            Ok(fence) => Ok(fence),
            Err(error) => refuse(format!("LEASEHOLD_FENCE: {error}")),
        };
    }
    let Some(text) = variable("LEASEHOLD_TOKEN") else {
        return refuse(
            "no fence: LEASEHOLD_FENCE is not set; start this under `leasehold run`".into(),
        );
    };
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(token) = text.parse().ok().filter(|_| digits).map(Token::new) else {
        return refuse(format!(
            "LEASEHOLD_TOKEN: `{}` is not a token: expected a number from 1 to {}",
            text.escape_debug(),
            u64::MAX
        ));
    };
    let Some(owner) = variable("LEASEHOLD_OWNER").filter(|owner| !owner.is_empty()) else {
        return refuse("LEASEHOLD_OWNER is not set: a token alone does not say whose it is".into());
    };
    let holder = holder(&owner);
    Ok(Fence { token, holder })
}

/// A number for an owner who is known by text only (FNV-1a).
fn holder(owner: &str) -> u64 {
    owner.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Fence, String> {
        from_environment(|key| {
            let found = variables.iter().find(|(name, _)| *name == key);
            found.map(|(_, value)| (*value).to_owned())
        })
        .map_err(|failure| failure.message)
    }

    #[test]
    fn the_fence_comes_before_token_and_owner() {
        let fence = ("LEASEHOLD_FENCE", "7-00000000000000ff");
        let other = [("LEASEHOLD_TOKEN", "9"), ("LEASEHOLD_OWNER", "host 1")];
        assert_eq!(read(&[fence, other[0], other[1]]).unwrap().holder, 0xff);
        assert_eq!(read(&other).unwrap().token.get(), 9);
    }

    #[test]
    fn another_owner_is_another_holder() {
        let with = |owner| read(&[("LEASEHOLD_TOKEN", "9"), ("LEASEHOLD_OWNER", owner)]);
        assert_ne!(with("a"), with("b"));
        assert_eq!(with("a"), with("a"));
    }

    #[test]
    fn what_is_no_token_is_refused_and_the_variable_named() {
        for token in ["", "x", "-1", "+1", "1.5", "18446744073709551616"] {
            let wrong = read(&[("LEASEHOLD_TOKEN", token), ("LEASEHOLD_OWNER", "a")]);
            assert!(wrong.unwrap_err().contains("LEASEHOLD_TOKEN"), "{token}");
        }
        assert!(read(&[]).unwrap_err().contains("leasehold run"));
        assert!(
            read(&[("LEASEHOLD_TOKEN", "1")])
                .unwrap_err()
                .contains("OWNER")
        );
    }
}
