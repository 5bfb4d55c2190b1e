//! The signals that leasehold catches, in one stream.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Failure;

/// What is passed on to a running command.
const CAUGHT: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
];

/// Signals as they come in.
#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches the signals from here on. What our parent told us to ignore, as
    /// `nohup` does with SIGHUP, stays ignored, here and in the command.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let ignored = ignored();
        let caught = CAUGHT.into_iter().filter(|signal| !is_in(ignored, *signal));
        let stream = |signal| {
            let stream = unix::signal(SignalKind::from_raw(signal as i32))?;
            Ok((signal, stream))
        };
        let streams = caught.map(stream).collect::<io::Result<_>>();
        let streams = streams.map_err(|error| Failure::system("catch signals", error))?;
        Ok(Self { streams })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// A signal that is here already, if there is one.
    pub(crate) async fn pending(&mut self) -> Option<Signal> {
        tokio::select! {
            biased;
            signal = self.next() => Some(signal),
            () = std::future::ready(()) => None,
        }
    }

    /// The next signal that asks us to end: all but those about the terminal.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::SIGWINCH | Signal::SIGCONT => {}
                signal => return signal,
            }
        }
    }
}

/// The mask of ignored signals; none where the system does not say.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal as i32 - 1) & 1 == 1
}
