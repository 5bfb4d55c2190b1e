//! One request to several nodes at once. Each of them gets it, also if enough
//! others answered before it left; what is not waited for goes on in the
//! background.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use ::redis::{Cmd, ErrorKind as RedisKind, RedisError, Script, ServerErrorKind, Value};
use futures_util::future::BoxFuture;

use super::nodes::{Node, Nodes, silent};
use crate::redis::link::Posted;

/// What a node is sent, if the connection leads to that server.
pub(super) type Make<'a> = dyn Fn(&Node, &str) -> Cmd + Sync + 'a;

/// Nodes that are being asked to run the same script.
pub(super) struct Fan<'a> {
    nodes: &'a Nodes,
    script: &'a Script,
    make: &'a Make<'a>,
    asked: Vec<Asked<'a>>,
}

struct Asked<'a> {
    node: usize,
    way: Way<'a>,
}

enum Way<'a> {
    /// It is on its way.
    Posted(Posted),
    /// First there has to be a connection, or the script on the server. Not gone
    /// on with if nobody waits.
    Rough(BoxFuture<'a, Result<Value, RedisError>>),
    Done,
}

/// What a node said.
pub(super) struct Reply {
    pub(super) node: usize,
    /// The connection that it was asked over, if that is known.
    pub(super) connection: Option<u64>,
    pub(super) answer: Result<Value, RedisError>,
}

impl<'a> Fan<'a> {
    /// When this returns, the request is on its way to each of these nodes that
    /// is connected.
    pub(super) fn send(
        nodes: &'a Nodes,
        to: impl IntoIterator<Item = usize>,
        script: &'a Script,
        make: &'a Make<'a>,
    ) -> Self {
        let to = to.into_iter().filter_map(|number| nodes.all.get(number));
        let asked = to.map(|node| {
            node.look_at_leftovers();
            let posted = node.link.post(|server| make(node, server));
            let way = match posted {
                Some(posted) => Way::Posted(posted),
                None => Way::Rough(Box::pin(node.ask_for(script, make))),
            };
            Asked {
                node: node.number,
                way,
            }
        });
        Self {
            nodes,
            script,
            make,
            asked: asked.collect(),
        }
    }

    /// The next answer; `None` if all have answered.
    ///
    /// # Cancel safety
    /// No answer is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Reply> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Reply>> {
        let mut is_over = true;
        for asked in &mut self.asked {
            if let Way::Done = asked.way {
                continue;
            }
            let node = &self.nodes.all[asked.node];
            match asked.poll(node, self.script, self.make, context) {
                Poll::Ready(reply) => return Poll::Ready(Some(reply)),
                Poll::Pending => is_over = false,
            }
        }
        match is_over {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }

    /// The request to this node, if it is on its way.
    pub(super) fn take(&mut self, node: usize) -> Option<Posted> {
        let asked = self.asked.iter_mut().find(|asked| asked.node == node)?;
        match std::mem::replace(&mut asked.way, Way::Done) {
            Way::Posted(posted) => Some(posted),
            Way::Rough(_) | Way::Done => None,
        }
    }
}

impl<'a> Asked<'a> {
    fn poll(
        &mut self,
        node: &'a Node,
        script: &'a Script,
        make: &'a Make<'a>,
        context: &mut Context<'_>,
    ) -> Poll<Reply> {
        let (mut connection, mut answer) = match &mut self.way {
            Way::Posted(posted) => (
                Some(posted.connection()),
                ready!(posted.poll_answer(context)),
            ),
            Way::Rough(rough) => (None, ready!(rough.as_mut().poll(context))),
            Way::Done => (None, Err(silent())),
        };
        // It did nothing, so it can be sent again.
        if connection.is_some() && answer.as_ref().is_err_and(lacks_script) {
            node.lacks_scripts.notify_one();
            let mut again: BoxFuture<'_, _> = Box::pin(node.teach_and_ask(script, make));
            let polled = again.as_mut().poll(context);
            self.way = Way::Rough(again);
            (connection, answer) = (None, ready!(polled));
        }
        self.way = Way::Done;
        Poll::Ready(Reply {
            node: self.node,
            connection,
            answer,
        })
    }
}

/// Whether the server did nothing because it does not know the script.
pub(super) fn lacks_script(error: &RedisError) -> bool {
    error.kind() == RedisKind::Server(ServerErrorKind::NoScript)
}

impl Drop for Fan<'_> {
    fn drop(&mut self) {
        for asked in self.asked.drain(..) {
            if let Way::Posted(posted) = asked.way {
                self.nodes.all[asked.node].leftovers.keep(posted, None);
            }
        }
    }
}
