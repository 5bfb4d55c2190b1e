//! Which servers are nodes in good standing. A server that restarted may have
//! forgotten what it acknowledged, so it does not count until it is admitted.

use std::time::Duration;

use ::redis::RedisError;
use futures_util::StreamExt;
use futures_util::future::join_all;

use super::keys::NODE;
use super::nodes::{Call, Node, Nodes, silent};
use crate::redis::fit::value;
use crate::redlock::quorum::{JUMP, Plan, Readmission, WhyNot};

/// What is known of a node that answered.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Which server it is.
    pub(super) run: String,
    /// Which server was admitted.
    pub(super) admitted: Option<String>,
    /// Which server was about to be admitted when all were new.
    founding: Option<String>,
    /// The greatest counter that any lock may have there.
    pub(super) highest: u64,
    /// Whether every write was on its disk before it answered when it was
    /// admitted, and is now.
    kept: bool,
    pub(super) keeps: bool,
    micros: u64,
    /// The longest ttl of any lock there so far.
    longest: Duration,
    /// How long ago the node forgot, at least: since it restarted, or since
    /// somebody saw that it is empty.
    forgot: Duration,
}

impl Known {
    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.as_deref() == Some(&*self.run)
    }

    /// Nothing of ours is there: new, or it forgot everything.
    fn is_empty(&self) -> bool {
        self.admitted.is_none() && !self.is_founding()
    }

    fn is_founding(&self) -> bool {
        self.admitted.is_none() && self.founding.as_deref() == Some(&*self.run)
    }
}

/// Asks a node what it knows of itself.
async fn know(node: &Node) -> Result<Known, RedisError> {
    let mut fields = ::redis::cmd("HMGET");
    fields.arg(NODE);
    fields.arg(&[
        "run",
        "founding",
        "floor",
        "high",
        "kept",
        "ttl",
        "announced",
        "forgot",
    ]);
    let link = &node.link;
    type Fields = (
        Option<String>,
        Option<String>,
        Option<u64>,
        Option<u64>,
        Option<String>,
        Option<u64>,
        Option<u64>,
        Option<u64>,
    );
    let before = link.current_server();
    let fields: Fields = link.ask(&fields).await?;
    let (admitted, founding, floor, high, kept, ttl, announced, forgot) = fields;
    let keeps = keeps_everything(node).await;
    let (seconds, micros): (u64, u64) = link.ask(&::redis::cmd("TIME")).await?;
    let mut info = ::redis::cmd("INFO");
    info.arg("server");
    let info: String = link.ask(&info).await?;
    let uptime = value(&info, "uptime_in_seconds").and_then(|seconds| seconds.parse().ok());
    // All of it is of one server, or of none.
    let run = link.current_server().filter(|_| before.is_some());
    let Some(run) = run.filter(|run| before.as_ref() == Some(run)) else {
        return Err(silent());
    };
    let now = seconds * 1000 + micros / 1000;
    let forgot = match admitted {
        Some(_) => Duration::from_secs(uptime.unwrap_or(0)),
        None => Duration::from_millis(forgot.map_or(0, |at| now.saturating_sub(at))),
    };
    Ok(Known {
        run: node.mark(&run),
        admitted,
        founding,
        highest: floor.max(high).max(announced).unwrap_or(0),
        kept: kept.as_deref() == Some("always"),
        keeps,
        micros: seconds * 1_000_000 + micros,
        longest: Duration::from_millis(ttl.unwrap_or(0)),
        forgot,
    })
}

/// Whether every write is on its disk before the server answers. One that does
/// not tell does not.
async fn keeps_everything(node: &Node) -> bool {
    let is = |key: &'static str, wanted: &'static str| async move {
        let mut question = ::redis::cmd("CONFIG");
        question.arg("GET").arg(key);
        let answer = node.link.ask::<Vec<(String, String)>>(&question).await;
        answer.is_ok_and(|pairs| pairs.iter().any(|(_, value)| value == wanted))
    };
    is("appendonly", "yes").await
        && is("appendfsync", "always").await
        && is("no-appendfsync-on-rewrite", "no").await
}

/// Asks every node what it knows of itself.
pub(super) async fn know_all(nodes: &Nodes, limit: Duration) -> Vec<Result<Known, RedisError>> {
    nodes.ask_all(limit, know).await
}

async fn raise_floor(
    node: &Node,
    nodes: &Nodes,
    floor: u64,
    admitted: &str,
    founding: &str,
) -> Result<bool, RedisError> {
    let call = Call {
        script: &nodes.scripts.floor,
        keys: &[NODE],
        arguments: &[&floor.to_string(), admitted, founding],
    };
    node.run::<bool>(&call).await
}

/// Admits the server that was looked at; if another has taken its place since,
/// that one stays in quarantine.
async fn admit(node: &Node, nodes: &Nodes, known: &Known, floor: u64) -> Result<bool, RedisError> {
    let call = Call {
        script: &nodes.scripts.admit,
        keys: &[NODE],
        arguments: &[
            &known.run,
            known.admitted.as_deref().unwrap_or(""),
            &floor.to_string(),
            if known.keeps { "always" } else { "" },
        ],
    };
    node.run::<bool>(&call).await
}

/// Whether a majority of the nodes is in good standing, so that nothing has to be
/// done before locks can be had.
pub(super) async fn is_settled(nodes: &Nodes, limit: Duration) -> bool {
    let mut marks = nodes.ask(0..nodes.all.len(), |node| async move {
        let mut get = ::redis::cmd("HGET");
        get.arg(NODE).arg("run");
        let mark = node.link.ask::<Option<String>>(&get).await.ok().flatten();
        let run = node.link.current_server();
        mark.is_some() && mark == run.map(|run| node.mark(&run))
    });
    let good = async {
        let mut good = 0;
        while let Some((_, is_good)) = marks.next().await {
            good += usize::from(is_good);
            if good >= nodes.majority() {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(limit, good).await.unwrap_or(false)
}

/// Brings the nodes into good standing where that can be done without anybody's
/// word: all are new, or one kept everything over its restart.
pub(super) async fn settle(nodes: &Nodes, quarantine: bool, limit: Duration) {
    let known = know_all(nodes, limit).await;
    note_empty(nodes, &known, limit).await;
    let known: Vec<_> = known.into_iter().map(Result::ok).collect();
    if let Some(known) = known.iter().cloned().collect::<Option<Vec<_>>>() {
        found(nodes, &known, limit).await;
    }
    for (node, known) in nodes.all.iter().zip(&known) {
        let Some(known) = known else { continue };
        if known.is_admitted() {
            if known.kept && !known.keeps {
                // Whatever it is set to when it restarts: it may forget by now.
                let mut forgets = ::redis::cmd("HDEL");
                forgets.arg(NODE).arg("kept");
                let asking = node.link.ask::<u32>(&forgets);
                let _ = tokio::time::timeout(limit, asking).await;
            }
            continue;
        }
        let forgot_nothing = known.admitted.is_some() && known.kept && known.keeps;
        if forgot_nothing || !quarantine {
            let admitting = admit(node, nodes, known, 0);
            let _ = tokio::time::timeout(limit, admitting).await;
        } else if !known.is_founding() && !known.is_empty() {
            tracing::warn!(node = %node.link.label, "in quarantine: it restarted and may have forgotten");
        }
    }
}

/// Admits nodes that are all new, or goes on where somebody stopped doing so.
///
/// They are looked at twice. Whoever seems new at first, and has not restarted
/// when none of the others is admitted yet, cannot have forgotten a grant: there
/// was none before. That is what the mark of the founding says for good.
async fn found(nodes: &Nodes, first: &[Known], limit: Duration) {
    let is_begun = |known: &Known| known.is_founding() || known.is_admitted();
    let mut floor = floor_of(first);
    if !first.iter().all(is_begun) {
        if first.iter().any(|known| known.admitted.is_some()) {
            return;
        }
        let second = know_all(nodes, limit).await;
        let is_same = first.iter().zip(&second).all(|(first, second)| {
            let same = |second: &Known| second.run == first.run && second.admitted.is_none();
            second.as_ref().is_ok_and(same)
        });
        if !is_same {
            return;
        }
        // Nodes that know of counters were in use before, and those that forgot
        // may have known of greater ones.
        let highest = first.iter().map(|known| known.highest).max();
        let highest = highest.filter(|highest| *highest > 0);
        floor = floor.max(highest.map_or(0, |highest| highest.saturating_add(JUMP)));
        let marking = nodes.all.iter().zip(first);
        let marking = marking.map(|(node, known)| raise_floor(node, nodes, floor, "", &known.run));
        let Ok(marked) = tokio::time::timeout(limit, join_all(marking)).await else {
            return;
        };
        if !marked.iter().all(|marked| matches!(marked, Ok(true))) {
            return;
        }
    }
    let admitting = nodes.all.iter().zip(first);
    let admitting = admitting.filter(|(_, known)| !known.is_admitted());
    let admitting = admitting.map(|(node, known)| admit(node, nodes, known, floor));
    let _ = tokio::time::timeout(limit, join_all(admitting)).await;
}

/// Above all that they know, and above all tokens of former nodes that forgot
/// everything if the clock was not set back since.
fn floor_of(known: &[Known]) -> u64 {
    let floors = known.iter().map(|known| known.highest.max(known.micros));
    floors.max().unwrap_or(0)
}

/// Why a node was not admitted.
#[derive(Debug)]
pub(super) enum Refused {
    Away(RedisError),
    TooFewOthers,
    Exhausted,
    /// It restarted so lately that what it forgot may still be held; for how
    /// long.
    TooYoung(Duration),
    /// Another was faster, or the server restarted meanwhile.
    Changed,
}

/// Tells these nodes which floor is to come, and says how many took note.
async fn announce(
    nodes: &Nodes,
    known: &[Result<Known, RedisError>],
    floor: u64,
    others: &[usize],
    limit: Duration,
) -> usize {
    let floor = &floor.to_string();
    let announcing = others.iter().map(|&number| async move {
        let mark = known[number].as_ref().ok().map_or("", |known| &*known.run);
        let call = Call {
            script: &nodes.scripts.announce,
            keys: &[NODE],
            arguments: &[floor, mark],
        };
        let announcing = nodes.all[number].run::<bool>(&call);
        matches!(tokio::time::timeout(limit, announcing).await, Ok(Ok(true)))
    });
    let taken = join_all(announcing).await;
    taken.into_iter().filter(|taken| *taken).count()
}

/// Has empty nodes remember since when they are known to be, if others are in use.
async fn note_empty(nodes: &Nodes, known: &[Result<Known, RedisError>], limit: Duration) {
    if !known.iter().flatten().any(Known::is_admitted) {
        return;
    }
    let empty = nodes.all.iter().zip(known).filter_map(|(node, known)| {
        let known = known
            .as_ref()
            .ok()
            .filter(|known| known.admitted.is_none())?;
        let mut note = ::redis::cmd("HSETNX");
        note.arg(NODE).arg("forgot").arg(known.micros / 1000);
        let noting = async move { node.link.ask::<u32>(&note).await };
        Some(tokio::time::timeout(limit, noting))
    });
    join_all(empty).await;
}

/// For how long the locks that a node forgot may still be held. Their holders
/// renew them on other nodes, or lose them within a ttl.
fn too_young(known: &[Result<Known, RedisError>], target: usize) -> Option<Duration> {
    let longest = known.iter().flatten().map(|known| known.longest).max()?;
    let forgot = known[target].as_ref().ok()?.forgot;
    // Both are rounded, and clocks run apart.
    let wait = (longest + longest / 50 + Duration::from_secs(2)).saturating_sub(forgot);
    (!longest.is_zero() && !wait.is_zero()).then_some(wait)
}

/// Lets a node in quarantine in again, by the jump. Says the new floor.
pub(super) async fn readmit(nodes: &Nodes, target: usize, limit: Duration) -> Result<u64, Refused> {
    let mut known = know_all(nodes, limit).await;
    let mut plan = Readmission::new(nodes.all.len(), target);
    let mut next = Plan::Wait;
    for (number, known) in known.iter().enumerate() {
        let highest = known.as_ref().ok().filter(|known| known.is_admitted());
        if number != target {
            next = plan.saw(number, highest.map(|known| known.highest));
        }
    }
    if let Plan::Raise {
        floor,
        nodes: others,
    } = next
    {
        next = Plan::Wait;
        note_empty(nodes, &known, limit).await;
        if let Some(wait) = too_young(&known, target) {
            return Err(Refused::TooYoung(wait));
        }
        if announce(nodes, &known, floor, &others, limit).await
            < Readmission::announced(nodes.all.len())
        {
            return Err(Refused::TooFewOthers);
        }
        let raising = others.iter().map(|&number| {
            let admitted = known[number].as_ref().ok();
            let admitted = admitted.map_or("", |known| &*known.run);
            let raising = raise_floor(&nodes.all[number], nodes, floor, admitted, "");
            tokio::time::timeout(limit, raising)
        });
        for (&number, raised) in others.iter().zip(join_all(raising).await) {
            next = plan.raised(number, matches!(raised, Ok(Ok(true))));
        }
    }
    let floor = match next {
        Plan::Admit { floor } => floor,
        Plan::Failed(WhyNot::Exhausted) => return Err(Refused::Exhausted),
        _ => return Err(Refused::TooFewOthers),
    };
    let node = &nodes.all[target];
    let known = known.swap_remove(target).map_err(Refused::Away)?;
    match tokio::time::timeout(limit, admit(node, nodes, &known, floor)).await {
        Ok(Ok(true)) => Ok(floor),
        Ok(Ok(false)) => Err(Refused::Changed),
        Ok(Err(error)) => Err(Refused::Away(error)),
        Err(_) => Err(Refused::Away(silent())),
    }
}
