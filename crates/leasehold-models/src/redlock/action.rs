//! The steps of the model, and how people read them.

use std::fmt;

/// One step. Attempts and nodes are named by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The client sends round 1 to every node, with a guess unless that is 0.
    #[allow(missing_docs, reason = "the names say it")]
    Start { attempt: usize, guess: u64 },
    /// Round 1 reaches a node; its reply reaches the client or is lost.
    #[allow(missing_docs, reason = "the names say it")]
    Take {
        attempt: usize,
        node: usize,
        is_heard: bool,
    },
    /// Round 2 reaches a node, and its reply the client. A lost reply is the
    /// same as a client that gives up.
    #[allow(missing_docs, reason = "the names say it")]
    Raise { attempt: usize, node: usize },
    /// A release reaches a node.
    #[allow(missing_docs, reason = "the names say it")]
    Release { attempt: usize, node: usize },
    /// A renewal reaches a node, and its reply the client.
    #[allow(missing_docs, reason = "the names say it")]
    Renew { attempt: usize, node: usize },
    /// The network will deliver round 1 once more.
    #[allow(missing_docs, reason = "the names say it")]
    RepeatTake { attempt: usize, node: usize },
    /// The network will deliver round 2 once more.
    #[allow(missing_docs, reason = "the names say it")]
    RepeatRaise { attempt: usize, node: usize },
    /// The client waits no longer.
    GiveUp(usize),
    /// The holder's own deadline passes.
    Deadline(usize),
    /// An access of the holder reaches the resource, perhaps late.
    Access(usize),
    /// A key vanishes.
    Expire(usize),
    /// A counter vanishes.
    ExpireCounter(usize),
    /// A node restarts empty.
    Forget(usize),
    /// A node comes back with the highest counter of the others, or above it.
    Copy(usize),
    /// A node's readmission begins.
    Readmit(usize),
    /// Another node names its highest counter.
    Look(usize),
    /// Another node is raised.
    Lift(usize),
    /// The readmission ends.
    Admit,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = |attempt: usize| ["A", "B", "C", "D"][attempt];
        match *self {
            Self::Start { attempt, guess: 0 } => write!(f, "{} begins", who(attempt)),
            Self::Start { attempt, guess } => {
                write!(f, "{} begins and guesses {guess}", who(attempt))
            }
            Self::Take {
                attempt,
                node,
                is_heard,
            } => {
                let reply = if is_heard { "" } else { ", reply lost" };
                write!(f, "{} takes n{node}{reply}", who(attempt))
            }
            Self::Raise { attempt, node } => write!(f, "{} raises n{node}", who(attempt)),
            Self::Release { attempt, node } => write!(f, "{} releases n{node}", who(attempt)),
            Self::Renew { attempt, node } => write!(f, "{} renews n{node}", who(attempt)),
            Self::RepeatTake { attempt, node } => {
                write!(f, "{}'s take of n{node} comes twice", who(attempt))
            }
            Self::RepeatRaise { attempt, node } => {
                write!(f, "{}'s raise of n{node} comes twice", who(attempt))
            }
            Self::GiveUp(attempt) => write!(f, "{} gives up", who(attempt)),
            Self::Deadline(attempt) => write!(f, "{}'s deadline passes", who(attempt)),
            Self::Access(attempt) => write!(f, "{} reaches the resource", who(attempt)),
            Self::Expire(node) => write!(f, "the key on n{node} vanishes"),
            Self::ExpireCounter(node) => write!(f, "the counter on n{node} vanishes"),
            Self::Forget(node) => write!(f, "n{node} forgets"),
            Self::Copy(node) => write!(f, "n{node} comes back by what the others know"),
            Self::Readmit(node) => write!(f, "readmission of n{node} begins"),
            Self::Look(node) => write!(f, "n{node} names its highest"),
            Self::Lift(node) => write!(f, "n{node} is raised by the jump"),
            Self::Admit => write!(f, "the readmission ends"),
        }
    }
}
