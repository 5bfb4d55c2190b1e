//! A second process, driven line by line. It can be killed and stopped.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;

use super::bench::soon;
use super::peer_main::VARIABLE;

/// A second process with a session of its own, on the same store.
///
/// Its commands are lines, and each is answered with one line:
///
/// | command | answer |
/// | --- | --- |
/// | `connect MILLIS STORE` | `ok` |
/// | `lock NAME`, `read NAME`, `write NAME`, `acquire PERMITS NAME` | `held TOKEN` |
/// | `try NAME` | `held TOKEN` or `busy` |
/// | `within MILLIS NAME` | `held TOKEN` or an error |
/// | `release`, `drop` | `ok` or an error; the last lock that was taken |
/// | `count TOTAL NAME` | `left N`; of a latch |
/// | `enter TOTAL NAME`, `leave` | `entered`, `ok`; a barrier |
/// | `campaign VALUE NAME` | `held TOKEN`, when it leads |
/// | `proclaim VALUE`, `resign` | `ok` or an error |
/// | `slot NUMBER NAME`, `quarter NAME` | `started ATTEMPT`, `elsewhere`, `done`, `old` or `too far ahead`; a quarter of an hour by its own clock |
/// | `finish` | `ok` or an error; the slot that was started |
/// | `check` | `held` or an error; the last lock, leadership or slot |
/// | `lost` | the reason, when there is one |
/// | `begin SECONDS KEY` | `started ATTEMPT`, `done RESULT`, `in progress` or `given up` |
/// | `complete RESULT` | `ok` or an error; the last message that was started |
/// | `close` | `ok` |
///
/// An error is answered with `error: ` and its text.
#[derive(Debug)]
pub struct Peer {
    process: Child,
    commands: ChildStdin,
    answers: mpsc::UnboundedReceiver<String>,
}

impl Peer {
    /// Starts this program once more, as a peer, with these variables.
    pub(super) fn start<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .env(VARIABLE, "1")
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a second process starts");
        let commands = process.stdin.take().expect("it is piped");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let (heard, answers) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in lines.map_while(std::io::Result::ok) {
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            commands,
            answers,
        }
    }

    /// Sends a command, without waiting for the answer.
    pub fn tell(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("the peer listens");
    }

    /// The next answer.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn answer(&mut self) -> String {
        let answer = soon("the peer answers", self.answers.recv()).await;
        answer.expect("the peer is alive")
    }

    /// Sends a command and waits for the answer.
    ///
    /// # Cancel safety
    /// The answer then comes before the next one.
    pub async fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.answer().await
    }

    /// The token of a command that has to be granted.
    ///
    /// # Cancel safety
    /// As for [`ask`](Self::ask).
    pub async fn granted(&mut self, command: &str) -> u64 {
        self.tell(command);
        self.grant().await
    }

    /// The token of a grant that has to come.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn grant(&mut self) -> u64 {
        let answer = self.answer().await;
        let token = answer
            .strip_prefix("held ")
            .and_then(|token| token.parse().ok());
        token.unwrap_or_else(|| panic!("not granted: {answer}"))
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.process.wait().expect("it is our child");
    }

    /// Stops it with SIGSTOP.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on with SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw);
        kill_process(pid.expect("a process has a number"), signal).expect("it is our child");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be stopped, or dead already; killing is good for both.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
