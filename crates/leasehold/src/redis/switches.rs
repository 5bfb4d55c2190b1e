//! What the Sentinels tell: another server is the master now.
//!
//! A master that stood still and was replaced goes on as if nothing were, until
//! a Sentinel tells it. Whoever still talks to it would renew there what the new
//! master grants to others. So a session hears the Sentinels itself.

use std::time::Duration;

use ::redis::RedisError;
use ::redis::aio::PubSubStream;
use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::sync::Mutex;

use super::link::Link;
use super::place::{Host, Place};
use super::way::{ANSWER_WITHIN, Access};
use crate::backoff;
use crate::random::random_u64;

const CHANNEL: &str = "+switch-master";

/// All Sentinels; none where there are none.
pub(super) struct Switches {
    master: String,
    watches: Vec<Watch>,
}

struct Watch {
    sentinel: Host,
    /// Kept while nobody reads them, so that none is missed.
    messages: Mutex<Option<PubSubStream>>,
}

impl Switches {
    pub(super) fn of(place: &Place) -> Self {
        let (master, sentinels) = match place {
            Place::Sentinel { sentinels, master } => (master.clone(), &sentinels[..]),
            _ => (String::new(), &[][..]),
        };
        let watch = |sentinel: &Host| Watch {
            sentinel: sentinel.clone(),
            messages: Mutex::default(),
        };
        let watches = sentinels.iter().map(watch).collect();
        Self { master, watches }
    }

    /// Begins to listen, to those who answer soon.
    pub(super) async fn open(&self, access: &Access, link: &Link) {
        let watches = self.watches.iter();
        join_all(watches.map(|watch| watch.begin(&self.master, access, link))).await;
    }

    /// Tells the link which server is the master, whenever a Sentinel does. Does not return
    /// while there are Sentinels.
    pub(super) async fn heed(&self, access: &Access, link: &Link) {
        let watches = self.watches.iter();
        join_all(watches.map(|watch| watch.heed(&self.master, access, link))).await;
    }
}

impl Watch {
    async fn begin(&self, master: &str, access: &Access, link: &Link) {
        let mut messages = self.messages.lock().await;
        self.open(&mut messages, master, access, link).await;
    }

    async fn heed(&self, master: &str, access: &Access, link: &Link) {
        let mut messages = self.messages.lock().await;
        let mut failures = 0;
        loop {
            if let Some(open) = messages.as_mut() {
                if let Some(message) = open.next().await {
                    failures = 0;
                    if let Some(new) = switched_to(message.get_payload_bytes(), master) {
                        link.follow(&new);
                    }
                    continue;
                }
                *messages = None;
            } else if self.open(&mut messages, master, access, link).await {
                continue;
            }
            let (first, longest) = (Duration::from_millis(100), Duration::from_secs(5));
            let pause = backoff::pause(failures, first, longest, random_u64());
            tokio::time::sleep(pause).await;
            failures += 1;
        }
    }

    /// Whether it listens now.
    async fn open(
        &self,
        messages: &mut Option<PubSubStream>,
        master: &str,
        access: &Access,
        link: &Link,
    ) -> bool {
        let subscribing = tokio::time::timeout(ANSWER_WITHIN / 2, self.subscribe(access));
        let Ok(Ok(open)) = subscribing.await else {
            return false;
        };
        // Of a switch before this nothing is heard. This one may be behind the
        // others, so all are asked if it disagrees.
        if let Ok(Some(known)) = access.ask_sentinel(&self.sentinel, master).await {
            link.doubt(&known);
        }
        *messages = Some(open);
        true
    }

    async fn subscribe(&self, access: &Access) -> Result<PubSubStream, RedisError> {
        let mut messages = access.sentinel(&self.sentinel)?.get_async_pubsub().await?;
        messages.subscribe(CHANNEL).await?;
        Ok(messages.into_on_message())
    }
}

/// `MASTER OLD-HOST OLD-PORT NEW-HOST NEW-PORT`
fn switched_to(message: &[u8], master: &str) -> Option<Host> {
    let message = std::str::from_utf8(message).ok()?;
    let rest = message.strip_prefix(master)?.strip_prefix(' ')?;
    let mut words = rest.split(' ').skip(2);
    let name = words.next()?.to_owned();
    let port = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Host { name, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_master_is_read() {
        let message = b"main 10.0.0.1 6379 10.0.0.2 6380";
        let host = switched_to(message, "main").unwrap();
        assert_eq!(host.to_string(), "10.0.0.2:6380");
    }

    #[test]
    fn other_masters_and_garbage_are_not_heard() {
        for message in [
            &b"other 10.0.0.1 6379 10.0.0.2 6380"[..],
            b"main2 10.0.0.1 6379 10.0.0.2 6380",
            b"main 10.0.0.1 6379 10.0.0.2",
            b"main 10.0.0.1 6379 10.0.0.2 no",
            b"main 10.0.0.1 6379 10.0.0.2 6380 more",
            b"\xff",
        ] {
            assert_eq!(switched_to(message, "main"), None);
        }
    }
}
