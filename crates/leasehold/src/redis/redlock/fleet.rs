//! The nodes as their operator looks at them.

use std::sync::Arc;
use std::time::Duration;

use super::RedlockConfig;
use super::claims::Claims;
use super::founding::{self, Known, Refused};
use super::nodes::Nodes;
use crate::clock::boot_time;
use crate::engine::{Finding, Severity};
use crate::error::{Error, ErrorKind, Result};
use crate::redis::inspect::examine_all;
use crate::redlock::quorum::Readmission;
use crate::redlock::{Admission, NodeStatus, Standing};

/// How long a node may take to answer an operator.
const LIMIT: Duration = Duration::from_secs(1);
/// How long we wait for locks to expire that a node forgot.
const PATIENCE: Duration = Duration::from_secs(60);

fn nodes(config: &RedlockConfig) -> Result<Nodes> {
    super::nodes_of(config, &Arc::new(Claims::default()))
}

/// How each node stands.
pub(crate) async fn status(config: &RedlockConfig) -> Result<Vec<NodeStatus>> {
    let nodes = nodes(config)?;
    // Those that do not answer are shown so.
    let connecting = nodes.connect().await;
    if let Err(error) = connecting
        && error.kind() == ErrorKind::Config
    {
        return Err(error);
    }
    Ok(status_of(&nodes).await)
}

async fn status_of(nodes: &Nodes) -> Vec<NodeStatus> {
    let known = founding::know_all(nodes, LIMIT).await;
    let stati = nodes.all.iter().zip(known).map(|(node, known)| {
        let (standing, highest, keeps) = match known {
            Ok(known) => (
                standing(&known, nodes.uses_tokens),
                known.highest,
                known.keeps,
            ),
            Err(error) => {
                let why = node.wrong(error, "look").why().to_owned();
                (Standing::Away(why), 0, false)
            }
        };
        NodeStatus {
            node: node.link.label.trim_start_matches("redis ").to_owned(),
            standing,
            highest,
            keeps,
        }
    });
    stati.collect()
}

/// Without tokens nobody is admitted: whoever answers counts.
fn standing(known: &Known, uses_tokens: bool) -> Standing {
    if known.is_admitted() || !uses_tokens {
        Standing::Good
    } else if known.admitted.is_none() {
        Standing::Empty
    } else {
        Standing::Quarantined
    }
}

/// Lets these nodes in again, or all that are in quarantine.
pub(crate) async fn admit(config: &RedlockConfig, wanted: &[String]) -> Result<Vec<Admission>> {
    let nodes = nodes(config)?;
    nodes.connect().await?;
    let refuse = |kind, why: String| {
        let doing = "admit a node".to_owned();
        Err(Error::new(kind, doing, why).on(&*nodes.label))
    };
    if !nodes.uses_tokens {
        let why = "with tokens=off nodes are not admitted and never in quarantine";
        return refuse(ErrorKind::Usage, why.into());
    }
    let before = status_of(&nodes).await;
    for wanted in wanted {
        if !before.iter().any(|status| status.node == *wanted) {
            let known: Vec<_> = before.iter().map(|status| &*status.node).collect();
            let why = format!("no node {wanted}; there are {}", known.join(", "));
            return refuse(ErrorKind::Usage, why);
        }
    }
    let is_wanted = |status: &NodeStatus| match wanted {
        [] => matches!(status.standing, Standing::Quarantined | Standing::Empty),
        wanted => wanted.contains(&status.node) && status.standing != Standing::Good,
    };
    // What needs nobody's word is done first.
    founding::settle(&nodes, true, LIMIT).await;
    let stati = status_of(&nodes).await;
    let mut admitted: Vec<_> = before
        .iter()
        .zip(&stati)
        .filter_map(|(before, now)| settled(before, now))
        .collect();
    for (number, status) in stati
        .iter()
        .enumerate()
        .filter(|(_, status)| is_wanted(status))
    {
        let node = status.node.clone();
        match readmit(&nodes, number).await {
            Ok(floor) => admitted.push(Admission {
                node,
                floor: Some(floor),
            }),
            Err(Refused::Away(error)) => {
                return Err(nodes.all[number].wrong(error, "admit a node"));
            }
            Err(Refused::TooFewOthers) => {
                let needed = Readmission::needed(nodes.all.len());
                let why = format!(
                    "{node}: {needed} other nodes in good standing are needed, or a token could \
                     come twice; see \"When too many nodes forgot\" in docs/stores/redlock.md"
                );
                return refuse(ErrorKind::Unavailable, why);
            }
            Err(Refused::Exhausted) => {
                return refuse(
                    ErrorKind::Unsupported,
                    format!("{node}: no tokens are left below 2^53"),
                );
            }
            Err(Refused::TooYoung(wait)) => {
                let why = format!(
                    "{node}: it restarted lately, and locks that it forgot may still be held; \
                     try again in {} s",
                    wait.as_secs() + 1
                );
                return refuse(ErrorKind::Unavailable, why);
            }
            Err(Refused::Changed) => {
                let why = format!("{node}: it restarted, or somebody else admits it; try again");
                return refuse(ErrorKind::Unavailable, why);
            }
        }
    }
    Ok(admitted)
}

/// Lets a node in again, when the locks that it forgot cannot be held any more.
async fn readmit(nodes: &Nodes, number: usize) -> Result<u64, Refused> {
    let until = boot_time() + PATIENCE;
    loop {
        match founding::readmit(nodes, number, LIMIT).await {
            Err(Refused::TooYoung(wait)) if boot_time() + wait <= until => {
                tracing::info!(?wait, "waiting until what the node forgot has expired");
                tokio::time::sleep(wait).await;
            }
            answer => return answer,
        }
    }
}

/// A node that was let in because nothing spoke against it.
fn settled(before: &NodeStatus, now: &NodeStatus) -> Option<Admission> {
    let floor = match (&before.standing, &now.standing) {
        (Standing::Empty, Standing::Good) => Some(now.highest),
        (Standing::Quarantined, Standing::Good) => None,
        _ => return None,
    };
    let node = now.node.clone();
    Some(Admission { node, floor })
}

/// Whether the nodes are fit for locks, and how good their tokens are.
pub(super) async fn examine(nodes: &Nodes) -> Result<Vec<Finding>> {
    let stati = status_of(nodes).await;
    let there = nodes.all.iter().zip(&stati);
    let there = there.filter(|(_, status)| !matches!(status.standing, Standing::Away(_)));
    let links: Vec<_> = there.map(|(node, _)| node.link.clone()).collect();
    let mut findings = examine_all(&links).await?;
    // What one server lacks is what the others are for.
    findings.retain(|finding| !finding.what.contains("append-only file"));
    findings.extend(stati.iter().filter_map(|status| about(status, nodes)));
    findings.extend(too_few(&stati, nodes));
    let evicts = findings
        .iter()
        .any(|finding| finding.what.contains("maxmemory-policy"));
    findings.push(fence(nodes.uses_tokens, evicts));
    Ok(findings)
}

fn about(status: &NodeStatus, nodes: &Nodes) -> Option<Finding> {
    let node = &status.node;
    let (what, remedy) = match &status.standing {
        Standing::Away(why) => (format!("{node}: {why}"), "start it again"),
        Standing::Quarantined if nodes.uses_tokens => (
            format!("{node} is in quarantine: it restarted and may have forgotten"),
            "leasehold redlock admit; set appendonly to yes and appendfsync to always and it is let in by itself",
        ),
        Standing::Empty if nodes.uses_tokens => (
            format!("{node} is not admitted: it is new, or it restarted empty"),
            "new nodes are admitted by the first session if all are there; else leasehold redlock admit",
        ),
        _ => return None,
    };
    Some(Finding {
        severity: Severity::Warning,
        what,
        remedy: remedy.into(),
    })
}

/// That no lock can be taken, if it is so.
fn too_few(stati: &[NodeStatus], nodes: &Nodes) -> Option<Finding> {
    let are = |standing: Standing| {
        let same = stati.iter().filter(|status| status.standing == standing);
        same.count()
    };
    let (good, count, majority) = (are(Standing::Good), stati.len(), nodes.majority());
    // The next session admits nodes that are all new.
    (good < majority && are(Standing::Empty) < count).then(|| Finding {
        severity: Severity::Unfit,
        what: format!("{good} of {count} nodes count and {majority} are needed: nobody can lock"),
        remedy: "leasehold redlock status".into(),
    })
}

/// The fence grade, and what would improve it.
fn fence(uses_tokens: bool, evicts: bool) -> Finding {
    let (severity, what, remedy) = match (uses_tokens, evicts) {
        (true, false) => (
            Severity::Fine,
            "fence grade A: tokens are ordered and unique; a node that may have forgotten does not count",
            "",
        ),
        (true, true) => (
            Severity::Warning,
            "fence grade C instead of the promised A: a node may drop its counters, and then tokens may go backwards",
            "set maxmemory-policy to noeviction on every node, for grade A",
        ),
        (false, _) => (
            Severity::Warning,
            "fence grade C: tokens are unique together with their holder, but not ordered",
            "tokens=on, for grade A",
        ),
    };
    Finding {
        severity,
        what: what.into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grade_names_the_setting_that_would_improve_it() {
        assert!(fence(true, false).what.contains("grade A"));
        assert!(fence(true, true).remedy.contains("noeviction"));
        assert!(fence(false, false).remedy.contains("tokens=on"));
    }
}
