//! `leasehold redlock`: which nodes count, and letting those in again that
//! restarted.

use anstyle::{AnsiColor, Style};
use clap::{Args, Subcommand};
use leasehold::redlock::{self, Admission, NodeStatus, Standing};
use serde_json::{Value, json};

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::print::{self, Console};
use crate::store;

/// See to the nodes of a redlock: store
///
/// A node that restarted may have forgotten what it acknowledged. It is in
/// quarantine then, and does not count until it is admitted again.
#[derive(Debug, Args)]
#[command(after_help = exit::TABLE)]
pub(crate) struct RedlockArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show every node: whether it counts, and its highest counter
    ///
    /// Exits with 0 if a majority counts, else with 69.
    Status,
    /// Let nodes in again that restarted and are in quarantine
    ///
    /// First the counters of the other nodes jump ahead, so that no token can
    /// come twice whatever the node has forgotten. Enough others must be in
    /// good standing. Waits until no lock can be held any more that the node
    /// forgot, at most a minute.
    Admit {
        /// Which, as `status` shows them; all that do not count if none is named
        #[arg(value_name = "NODE")]
        nodes: Vec<String>,
    },
}

pub(crate) async fn redlock(
    common: &Common,
    args: &RedlockArgs,
    console: Console,
) -> Result<u8, Failure> {
    let url = store::url(common)?;
    match &args.action {
        Action::Status => status(&url, console).await,
        Action::Admit { nodes } => admit(&url, nodes, console).await,
    }
}

async fn status(url: &str, console: Console) -> Result<u8, Failure> {
    let nodes = redlock::status(url).await?;
    let count = Count::of(&nodes);
    if console.json {
        let shown: Vec<_> = nodes.iter().map(node_as_json).collect();
        print::json_line(&json!({
            "nodes": shown,
            "counting": count.counting,
            "needed": count.needed,
            "majority": count.is_majority(),
        }))?;
    } else {
        let rows: Vec<_> = nodes.iter().map(row).collect();
        let heading = ["NODE", "COUNTS", "HIGHEST COUNTER", "KEEPS ALL", "STANDING"];
        let table = print::table(heading, &rows);
        print::text(&format!("{table}{}\n", count.summary(&nodes)))?;
    }
    Ok(match count.is_majority() {
        true => exit::OK,
        false => exit::UNAVAILABLE,
    })
}

async fn admit(url: &str, nodes: &[String], console: Console) -> Result<u8, Failure> {
    let admitted = redlock::admit(url, nodes).await?;
    if console.json {
        let shown: Vec<_> = admitted.iter().map(admission_as_json).collect();
        print::json_line(&json!({ "admitted": shown }))?;
        return Ok(exit::OK);
    }
    for admission in &admitted {
        print::text(&describe(admission))?;
    }
    if admitted.is_empty() {
        console.say(match nodes {
            [] => "nothing to do: every node that answers counts",
            [_] => "nothing to do: it counts",
            _ => "nothing to do: they count",
        });
    }
    Ok(exit::OK)
}

/// How many nodes count, and how many must.
struct Count {
    all: usize,
    counting: usize,
    needed: usize,
}

impl Count {
    fn of(nodes: &[NodeStatus]) -> Self {
        let good = nodes.iter().filter(|node| node.standing == Standing::Good);
        Self {
            all: nodes.len(),
            counting: good.count(),
            needed: nodes.len() / 2 + 1,
        }
    }

    fn is_majority(&self) -> bool {
        self.counting >= self.needed
    }

    /// The last line: what it means, and what to do about it.
    fn summary(&self, nodes: &[NodeStatus]) -> String {
        let restarted =
            |node: &NodeStatus| matches!(node.standing, Standing::Quarantined | Standing::Empty);
        let advice = if nodes.iter().all(|node| node.standing == Standing::Empty) {
            "; all are new: the first session admits them"
        } else if !nodes.iter().any(restarted) {
            ""
        } else if self.counting > self.all - self.needed {
            "; leasehold redlock admit lets in those that restarted"
        } else {
            "; too many restarted for leasehold redlock admit: see docs/stores/redlock.md"
        };
        let style = coloured(match (self.is_majority(), self.counting == self.all) {
            (true, true) => AnsiColor::Green,
            (true, false) => AnsiColor::Yellow,
            (false, _) => AnsiColor::Red,
        });
        let Self {
            all,
            counting,
            needed,
        } = self;
        format!("{style}{counting} of {all} nodes count, {needed} are needed{style:#}{advice}")
    }
}

fn coloured(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(colour.into())).bold()
}

fn row(node: &NodeStatus) -> [String; 5] {
    let is_away = matches!(node.standing, Standing::Away(_));
    let yes = |is_so| if is_so { "yes" } else { "no" };
    let known = |text: String| if is_away { "-".to_owned() } else { text };
    let standing = match &node.standing {
        Standing::Good => "good".to_owned(),
        Standing::Empty => "new or empty".to_owned(),
        Standing::Quarantined => {
            "in quarantine: it restarted, or the list of nodes has another length".to_owned()
        }
        Standing::Away(why) => format!("away: {}", print::clean(why)),
    };
    [
        print::clean(&node.node),
        yes(node.standing == Standing::Good).to_owned(),
        known(node.highest.to_string()),
        known(yes(node.keeps).to_owned()),
        standing,
    ]
}

fn node_as_json(node: &NodeStatus) -> Value {
    let (standing, why) = match &node.standing {
        Standing::Good => ("good", None),
        Standing::Empty => ("empty", None),
        Standing::Quarantined => ("quarantined", None),
        Standing::Away(why) => ("away", Some(why)),
    };
    let is_there = why.is_none();
    json!({
        "node": node.node,
        "standing": standing,
        "why": why,
        "highest": is_there.then_some(node.highest),
        "keeps": is_there.then_some(node.keeps),
    })
}

fn describe(admission: &Admission) -> String {
    let (node, style) = (print::clean(&admission.node), coloured(AnsiColor::Green));
    match admission.floor {
        Some(floor) => {
            format!("{style}admitted{style:#} {node}: all tokens from here on are above {floor}\n")
        }
        None => format!("{style}admitted{style:#} {node}: it kept everything over its restart\n"),
    }
}

fn admission_as_json(admission: &Admission) -> Value {
    json!({ "node": admission.node, "floor": admission.floor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_nodes_are_no_majority() {
        let is_enough = |counting, all: usize| {
            let needed = all / 2 + 1;
            let count = Count {
                all,
                counting,
                needed,
            };
            count.is_majority()
        };
        assert!(is_enough(3, 5));
        assert!(!is_enough(2, 4));
        assert!(is_enough(3, 4));
    }
}
