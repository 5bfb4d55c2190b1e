//! The project's chores: `cargo xtask test`, `tools`, `verify`, `lab` and
//! `fix`.
//!
//! Standard library only, because this crate is compiled first on every fresh
//! machine and everything else waits for it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore talks to the person who started it"
)]

mod apt;
mod built;
mod clients;
mod files;
mod fix;
mod json;
mod lab;
mod licences;
mod links;
mod manifest;
mod programs;
mod report;
mod rules;
mod runner;
mod servers;
mod shell;
mod stress;
mod suite;
mod test;
mod tools;
mod verify;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test             install what the tests need and is missing, then run the
                   tests and every example
  test --all       the same with every case on every variant, and the long runs
  test --quick     what needs no server; installs nothing
      --without X  a machine cannot have the tool X: leave out what needs it
      --rotation N run the N-th variant in full, instead of the commit's
  stress N PATTERN repeat the tests whose name contains PATTERN N times beside
                   four processor hogs, and print how often each fails
  tools            only install and build what the tests need
  verify           formatting, lints, each feature alone, docs, licences, links
                   and house rules; changes nothing
  lab              every store under every fault, into GUARANTEES.md
  lab --for 1h     the same, so long in all
  fix              format, and apply what the lints suggest
";

#[derive(Debug, PartialEq, Eq)]
enum Chore {
    Help,
    Test(test::Options),
    Stress {
        times: Option<usize>,
        pattern: Option<String>,
    },
    Tools {
        without: Vec<String>,
    },
    Verify,
    Lab {
        within: Option<String>,
    },
    Fix,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(chore) = chore(&words) else {
        eprint!("unknown chore: {}\n\n{USAGE}", words.join(" "));
        return ExitCode::from(2);
    };
    let succeeded = match chore {
        Chore::Help => {
            print!("{USAGE}");
            true
        }
        Chore::Test(options) => test::test(&options),
        Chore::Stress { times, pattern } => stress::stress(times, pattern.as_deref()),
        Chore::Tools { without } => test::tools(&without),
        Chore::Verify => verify::verify(),
        Chore::Lab { within } => lab::lab(within.as_deref()),
        Chore::Fix => fix::fix(),
    };
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn chore(words: &[&str]) -> Option<Chore> {
    match words {
        [] | ["help" | "-h" | "--help"] | [_, "-h" | "--help"] => Some(Chore::Help),
        ["test", rest @ ..] => test::Options::parse(rest).map(Chore::Test),
        ["stress", rest @ ..] => stressed(rest),
        ["tools", rest @ ..] => match test::Options::parse(rest)? {
            test::Options {
                without,
                extent: test::Extent::Usual,
                rotation: None,
            } => Some(Chore::Tools { without }),
            _ => None,
        },
        ["verify"] => Some(Chore::Verify),
        ["lab"] => Some(Chore::Lab { within: None }),
        ["lab", "--for", length] => Some(Chore::Lab {
            within: Some((*length).to_owned()),
        }),
        ["fix"] => Some(Chore::Fix),
        _ => None,
    }
}

/// A number, a pattern, or both in this order.
fn stressed(words: &[&str]) -> Option<Chore> {
    let (times, rest) = match words {
        [first, rest @ ..] if first.parse::<usize>().is_ok() => (first.parse().ok(), rest),
        _ => (None, words),
    };
    let pattern = match rest {
        [] => None,
        [pattern] if !pattern.starts_with('-') => Some((*pattern).to_owned()),
        _ => return None,
    };
    Some(Chore::Stress { times, pattern })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_arguments_ask_for_help() {
        assert_eq!(chore(&[]), Some(Chore::Help));
        assert_eq!(chore(&["test", "--help"]), Some(Chore::Help));
    }

    #[test]
    fn stress_takes_a_number_and_a_pattern() {
        let stress = |times, pattern: Option<&str>| {
            let pattern = pattern.map(str::to_owned);
            Some(Chore::Stress { times, pattern })
        };
        assert_eq!(chore(&["stress"]), stress(None, None));
        assert_eq!(chore(&["stress", "9"]), stress(Some(9), None));
        assert_eq!(chore(&["stress", "etcd"]), stress(None, Some("etcd")));
        assert_eq!(
            chore(&["stress", "9", "etcd"]),
            stress(Some(9), Some("etcd"))
        );
        assert_eq!(chore(&["stress", "--times"]), None);
    }

    #[test]
    fn an_unknown_option_is_refused() {
        assert_eq!(chore(&["test", "--quik"]), None);
        assert_eq!(chore(&["verify", "--quick"]), None);
        assert_eq!(chore(&["lab", "--for"]), None);
    }
}
