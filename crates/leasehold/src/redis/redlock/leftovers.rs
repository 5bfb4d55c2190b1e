//! Requests to a node that nobody waits for any more. They are kept until they
//! are answered, so that they are sent, and looked at now and then: what was to
//! be given back and was not is owed.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use super::fan::lacks_script;
use super::nodes::Node;
use super::owed::Debt;
use crate::clock::Moment;
use crate::redis::keys::Hex;
use crate::redis::link::Posted;
use crate::redis::lock;

/// How often whoever waits for all of them looks.
const SOON: Duration = Duration::from_millis(1);

/// The requests, about in the order in which they were sent.
#[derive(Default)]
pub(super) struct Leftovers(Mutex<VecDeque<Leftover>>);

struct Leftover {
    posted: Posted,
    /// What it gives back.
    given: Option<Given>,
}

/// What a request gives back.
pub(super) struct Given {
    pub(super) id: Hex,
    pub(super) debt: Debt,
    /// When it was sent, or before.
    pub(super) asked: Moment,
}

impl Leftovers {
    pub(super) fn keep(&self, posted: Posted, given: Option<Given>) {
        lock(&self.0).push_back(Leftover { posted, given });
    }
}

impl Node {
    /// Forgets what was answered, and owes what will not be. Answers come about in
    /// order, so it is enough to look at the first: others are seen a little later.
    pub(super) fn look_at_leftovers(&self) {
        let mut leftovers = lock(&self.leftovers.0);
        while let Some(first) = leftovers.front_mut() {
            let Some(answer) = first.posted.look() else {
                return;
            };
            let Some(leftover) = leftovers.pop_front() else {
                return;
            };
            self.take_in(leftover, answer);
        }
    }

    /// Waits until all of them are answered, or will not be.
    pub(super) async fn wait_for_leftovers(&self) {
        self.look_at_leftovers();
        while !lock(&self.leftovers.0).is_empty() {
            tokio::time::sleep(SOON).await;
            self.look_at_leftovers();
        }
    }

    fn take_in(&self, leftover: Leftover, answer: Result<::redis::Value, ::redis::RedisError>) {
        if answer.as_ref().is_err_and(lacks_script) {
            self.lacks_scripts.notify_one();
        }
        let connection = Some(leftover.posted.connection());
        if let Some(Given { id, debt, asked }) = leftover.given
            && (answer.is_err() || !debt.is_settled_over(connection, asked))
        {
            self.owed.add(&id, debt);
        }
    }
}
