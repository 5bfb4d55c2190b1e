//! Which servers make up the nodes, and how they are asked.

use std::fmt;
use std::time::Duration;

use crate::config::parse_duration;
use crate::redis::config::{RedisConfig, Refusal};

/// The options that this store has beside those of every store.
pub(crate) const OPTIONS: &[&str] = &[
    "tokens",
    "node_timeout",
    "i_know_this_is_not_ha",
    "ca",
    "cert",
    "key",
];
const TOKENS: &[&str] = &["on", "off"];
/// With fewer, one that fails takes the locks with it.
const FEWEST: usize = 3;
/// With more, a lock costs more than any further failure is worth.
const MOST: usize = 31;

/// Which nodes. Its `Debug` shows neither users nor passwords.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedlockConfig {
    pub(super) nodes: Vec<RedisConfig>,
    /// Whether grants have tokens that the nodes agree on.
    pub(super) tokens: bool,
    /// How long a node may take to answer; by the ttl unless it is given.
    node_timeout: Option<Duration>,
    few_are_enough: bool,
    /// Whether a node that forgot counts as down. Only tests switch it off, to
    /// see what happens then.
    pub(super) quarantine: bool,
}

impl RedlockConfig {
    /// Reads what stands behind `redlock:` and before the options.
    ///
    /// # Errors
    /// Says what is wrong, without repeating the text, which has passwords.
    pub(crate) fn parse(place: &str) -> Result<Self, String> {
        let place = place.strip_prefix("//").unwrap_or(place);
        let nodes: Result<Vec<_>, _> = place.split(',').map(parse_node).collect();
        let nodes = nodes.map_err(|why| {
            format!(
                "redlock: {why}; write redlock://NODE,NODE,NODE, each node a \
                 [user:password@]host[:port][/database], or with redis:, rediss: or unix: before it"
            )
        })?;
        Ok(Self {
            nodes,
            tokens: true,
            node_timeout: None,
            few_are_enough: false,
            quarantine: true,
        })
    }

    /// Takes in an option.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), Refusal> {
        match key {
            "tokens" => {
                self.tokens = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err(Refusal::Unknown("tokens", TOKENS)),
                }
            }
            "node_timeout" => {
                let wrong = |why| Refusal::Wrong(format!("node_timeout: {why}"));
                let timeout = parse_duration(value).map_err(wrong)?;
                if timeout < Duration::from_millis(1) || timeout > Duration::from_secs(10) {
                    return Err(wrong("allowed is 1ms to 10s".into()));
                }
                self.node_timeout = Some(timeout);
            }
            "i_know_this_is_not_ha" => self.few_are_enough = true,
            #[cfg(feature = "conformance")]
            "quarantine" if value == "off" => self.quarantine = false,
            "ca" | "cert" | "key" => {
                let mut is_used = false;
                for node in &mut self.nodes {
                    is_used |= node.set(key, value).is_ok();
                }
                if !is_used {
                    let why = format!("{key}: is for TLS; write rediss: before a node");
                    return Err(Refusal::Wrong(why));
                }
            }
            _ => return Err(Refusal::NotOurs),
        }
        Ok(())
    }

    /// Whether the options fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = self.nodes.len();
        if count < FEWEST && !self.few_are_enough {
            return Err(format!(
                "redlock: {count} of at least {FEWEST} nodes: one that fails would take all locks \
                 with it; to have it so anyway, add ?i_know_this_is_not_ha"
            ));
        }
        if count > MOST {
            return Err(format!("redlock: {count} nodes; at most {MOST} are useful"));
        }
        let labels = self.nodes.iter().map(RedisConfig::label);
        let mut labels: Vec<_> = labels.collect();
        labels.sort();
        if let Some(pair) = labels.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("redlock: {} is named twice", pair[0]));
        }
        self.nodes.iter().try_for_each(RedisConfig::check)
    }

    /// How long a node may take to answer, at this ttl. A node that hangs costs
    /// this much where its answer would decide.
    pub(super) fn limit(&self, ttl: Duration) -> Duration {
        let (least, most) = (Duration::from_millis(50), Duration::from_millis(500));
        let limit = self.node_timeout.unwrap_or(ttl / 20);
        match self.node_timeout {
            // A renewal has a sixth of the ttl, for two such waits.
            Some(limit) => limit.min(ttl / 12),
            None => limit.clamp(least.min(ttl / 12), most),
        }
    }

    /// The nodes for people: no users, no passwords.
    pub(super) fn label(&self) -> String {
        let labels = self.nodes.iter().map(RedisConfig::label);
        let labels: Vec<_> = labels
            .map(|label| label.replacen("redis ", "", 1))
            .collect();
        format!("redlock {}", labels.join(","))
    }
}

fn parse_node(text: &str) -> Result<RedisConfig, String> {
    if text.is_empty() {
        return Err("names an empty node".into());
    }
    match text.split_once(':') {
        Some((scheme @ ("redis" | "rediss" | "unix"), place)) if place.starts_with('/') => {
            RedisConfig::parse(scheme, place)
        }
        _ => RedisConfig::parse("redis", &format!("//{text}")),
    }
}

impl fmt::Debug for RedlockConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedlockConfig({})", self.label())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_its_own_user_database_and_way() {
        let config = RedlockConfig::parse(
            "//ann:hunter2@a:7000/3,redis://b,rediss://c:1,unix:/run/redis.sock,[::1]:9",
        );
        let config = config.unwrap();
        assert_eq!(
            config.label(),
            "redlock a:7000/3,b:6379,c:1,/run/redis.sock,[::1]:9"
        );
        assert!(config.check().is_ok());
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn too_few_or_the_same_twice_is_refused() {
        let why = |place| RedlockConfig::parse(place).unwrap().check().unwrap_err();
        assert!(why("//a,b").contains("i_know_this_is_not_ha"));
        assert!(why("//a,b,a:6379").contains("a:6379 is named twice"));
        let mut config = RedlockConfig::parse("//a,b").unwrap();
        assert!(config.set("i_know_this_is_not_ha", "").is_ok());
        assert!(config.check().is_ok());
        for place in ["//a,,b", "", "//:hunter2@a:99999,b,c"] {
            let why = RedlockConfig::parse(place).unwrap_err();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn the_limit_of_a_node_follows_the_ttl_and_stays_well_below_it() {
        let config = RedlockConfig::parse("//a,b,c").unwrap();
        let limit = |ttl| config.limit(Duration::from_millis(ttl));
        assert_eq!(limit(10_000), Duration::from_millis(500));
        assert_eq!(limit(2000), Duration::from_millis(100));
        assert!(limit(100) <= Duration::from_millis(17));
    }
}
