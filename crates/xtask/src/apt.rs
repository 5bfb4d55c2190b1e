//! Installing what is missing, on Debian and its relatives.

use crate::shell::{self, Outcome};
use crate::tools::{self, TOOLS, Tool};
use std::process::Command;

const SCRIPT: &str = "crates/xtask/src/apt.sh";
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Brings what the tests need onto this machine; touches nothing if all of it
/// is there.
///
/// # Errors
/// Says what to install by hand where apt or the right to use it is missing, or what apt
/// does not have.
pub(crate) fn install_missing(without: &[String]) -> Outcome {
    let wanted = TOOLS.iter().filter(|tool| !tool.is_among(without));
    let missing = tools::missing(&wanted.copied().collect::<Vec<_>>());
    if missing.is_empty() {
        println!("everything the tests need is installed");
        return Ok(());
    }
    if tools::program("apt-get").is_none() {
        return Err(by_hand(&missing, "there is no apt-get here"));
    }
    let mut command = if is_root() {
        Command::new("sh")
    } else if tools::program("sudo").is_some() {
        let mut sudo = Command::new("sudo");
        sudo.arg("sh");
        sudo
    } else {
        return Err(by_hand(&missing, "this is not root and there is no sudo"));
    };
    command
        .args([SCRIPT, POLICY])
        .args(packages(&missing))
        .current_dir(shell::root());
    shell::run(&mut command).map_err(|error| by_hand(&missing, &error))?;
    match tools::missing(&missing).as_slice() {
        [] => Ok(()),
        still => Err(by_hand(still, "apt-get did not bring it")),
    }
}

/// The packages of these tools, each once.
fn packages(tools: &[Tool]) -> Vec<&'static str> {
    let mut packages: Vec<_> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn by_hand(missing: &[Tool], why: &str) -> String {
    let tools = missing.iter().map(|tool| {
        let Tool {
            sign,
            package,
            ring,
        } = tool;
        format!(
            "\n  {sign}, in Debian's package {package}, for the {ring} tests (or --without {package})"
        )
    });
    let tools: String = tools.collect();
    format!("{why}; please install by hand:{tools}")
}

fn is_root() -> bool {
    let answer = Command::new("id").arg("-u").output();
    answer.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::{env, fs, process};

    const ROBOT: Tool = Tool {
        sign: "robot",
        package: "robots",
        ring: "cli",
    };

    #[test]
    fn a_package_with_two_tools_is_installed_once() {
        let hammer = Tool {
            sign: "hammer",
            package: "hammers",
            ..ROBOT
        };
        assert_eq!(packages(&[ROBOT, hammer, ROBOT]), ["hammers", "robots"]);
    }

    #[test]
    fn what_to_install_by_hand_is_named() {
        let text = by_hand(&[ROBOT], "there is no apt-get here");
        assert!(text.starts_with("there is no apt-get here; please install by hand:\n  robot,"));
        assert!(text.contains("package robots, for the cli tests"));
    }

    #[test]
    fn services_are_kept_from_starting_while_installing() {
        let machine = Machine::new("policy-absent", "cat $POLICY >seen-$1");
        assert!(machine.install());
        let seen = fs::read_to_string(machine.0.join("seen-install")).unwrap();
        assert!(seen.ends_with("exit 101\n"), "{seen}");
        assert!(machine.0.join("seen-update").exists());
        assert!(!machine.policy().exists());
    }

    #[test]
    fn a_package_that_a_release_does_not_have_keeps_no_other_away() {
        let machine = Machine::new("absent", "echo $* >asked-$1");
        assert!(machine.install_all(&["chromium", "robots"]));
        let asked = fs::read_to_string(machine.0.join("asked-install")).unwrap();
        assert!(
            asked.ends_with(" robots\n") && !asked.contains("chromium"),
            "{asked}"
        );
    }

    #[test]
    fn an_earlier_policy_comes_back_also_after_a_failure() {
        let machine = Machine::new("policy-present", "exit 100");
        fs::write(machine.policy(), "theirs").unwrap();
        assert!(!machine.install());
        assert_eq!(fs::read_to_string(machine.policy()).unwrap(), "theirs");
    }

    #[test]
    fn a_policy_left_by_a_killed_run_is_removed() {
        let machine = Machine::new("policy-left", "exit 0");
        fs::write(machine.policy(), "# leasehold").unwrap();
        assert!(machine.install());
        assert!(!machine.policy().exists());
    }

    /// A folder that stands for a machine with its own `apt-get`.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, apt_get: &str) -> Self {
            let folder = env::temp_dir().join(format!("xtask-{name}-{}", process::id()));
            fs::create_dir_all(&folder).unwrap();
            let machine = Self(folder);
            machine.program("apt-get", apt_get);
            machine.program("apt-cache", "[ $2 = robots ] && echo '  Candidate: 1'");
            machine
        }

        fn program(&self, name: &str, script: &str) {
            let program = self.0.join(name);
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        }

        fn policy(&self) -> PathBuf {
            self.0.join("policy")
        }

        fn install(&self) -> bool {
            self.install_all(&["robots"])
        }

        fn install_all(&self, packages: &[&str]) -> bool {
            let path = env::var("PATH").unwrap();
            let mut command = Command::new("sh");
            command
                .arg(shell::root().join(SCRIPT))
                .arg(self.policy())
                .args(packages)
                .env("PATH", format!("{}:{path}", self.0.display()))
                .env("POLICY", self.policy())
                .current_dir(&self.0);
            command.output().unwrap().status.success()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }
}
