//! The session's one watch stream: whoever waits says which key is in the way,
//! and is rung when it goes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tonic::Streaming;

use super::fault::{Cure, cure};
use super::keys::Range;
use super::lock;
use super::members::{Members, Suspicion};
use super::want::Want;
use super::wire::watch_request::Request;
use super::wire::{
    KeyValue, WatchCancelRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use crate::clock::{Moment, boot_time};

const PATH: &str = "/etcdserverpb.Watch/Watch";
/// How often the stream is asked whether it is alive, while somebody waits.
const PROVE: Duration = Duration::from_millis(500);
/// How long it may be silent then.
const SILENCE: Duration = Duration::from_millis(1500);
/// As good as never.
const LONG: Duration = Duration::from_secs(3600);
/// How long a member may take to open the stream.
const OPEN: Duration = Duration::from_secs(1);
/// The pause after every member has refused.
const PAUSE: Duration = Duration::from_millis(200);

/// What is watched, and the stream that tells of it.
#[derive(Debug, Default)]
pub(super) struct Watching {
    shared: Arc<Shared>,
    stream: tokio::sync::Mutex<Option<Stream>>,
    /// When the stream was last heard of.
    heard: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    wants: Mutex<Wants>,
    /// Rung when the stream has something to ask for.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Wants {
    last_id: i64,
    by_id: HashMap<i64, Arc<Want>>,
    /// What the open stream has not been told yet.
    outbox: Vec<Request>,
}

#[derive(Debug)]
struct Stream {
    member: usize,
    requests: mpsc::UnboundedSender<WatchRequest>,
    /// When it was last asked whether it is alive.
    asked: Option<Moment>,
    answers: Streaming<WatchResponse>,
}

/// Something that is watched as long as this is there.
#[derive(Debug)]
pub(super) struct Watcher {
    id: i64,
    want: Arc<Want>,
    shared: Weak<Shared>,
}

impl Watcher {
    /// Resolves when something happened since the last time.
    ///
    /// # Cancel safety
    /// What nobody took is kept for the next call.
    pub(super) async fn rung(&self) {
        self.want.bell.notified().await;
    }

    /// Whether the key went; only of one that is watched for anything.
    pub(super) fn is_gone(&self) -> bool {
        self.want.is_gone()
    }

    /// Whether what is waited for may have happened before the server began to
    /// watch; told once.
    pub(super) fn take_doubt(&self) -> bool {
        self.want.take_doubt()
    }

    /// The claim, if it is only one: its key, and the revision that made it.
    pub(super) fn claim(&self) -> Option<(&[u8], i64)> {
        let made = self.want.made?;
        Some((&self.want.range.start, made))
    }

    pub(super) fn ring(&self) {
        self.want.bell.notify_one();
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let mut wants = lock(&shared.wants);
        wants.by_id.remove(&self.id);
        let watch_id = self.id;
        wants
            .outbox
            .push(Request::Cancel(WatchCancelRequest { watch_id }));
        drop(wants);
        shared.changed.notify_one();
    }
}

impl Watching {
    /// Watches a claim go, from this revision on.
    pub(super) fn departure(&self, claim: &KeyValue, from: i64) -> Watcher {
        self.watch(Want::departure(claim, from))
    }

    /// Watches claims go, from this revision on.
    pub(super) fn departures(&self, range: Range, from: i64) -> Watcher {
        self.watch(Want::departures(range, from))
    }

    /// Watches a key for anything but what its own session writes, which is not
    /// empty.
    pub(super) fn changes(&self, key: &[u8], from: i64) -> Watcher {
        self.watch(Want::changes(one(key), from))
    }

    fn watch(&self, want: Want) -> Watcher {
        let want = Arc::new(want);
        let mut wants = lock(&self.shared.wants);
        wants.last_id += 1;
        let id = wants.last_id;
        let request = want.request(id);
        wants.outbox.push(request);
        wants.by_id.insert(id, want.clone());
        drop(wants);
        self.shared.changed.notify_one();
        Watcher {
            id,
            want,
            shared: Arc::downgrade(&self.shared),
        }
    }

    /// Whether the stream has been heard of since then: nothing that happened
    /// before has gone unsaid.
    pub(super) fn is_proven(&self, since: Moment) -> bool {
        Moment::from_nanos(self.heard.load(Ordering::Acquire)) >= since
    }

    /// Opens the stream if it is not open, so that whoever has a session has it
    /// too. Where that fails, `listen` goes on trying.
    pub(super) async fn begin(&self, members: &Members) {
        // Else somebody listens, and sees to it.
        if let Ok(mut open) = self.stream.try_lock()
            && open.is_none()
        {
            *open = self.open(members).await;
        }
    }

    /// Takes in what the store says, without end.
    ///
    /// # Cancel safety
    /// The stream stays open, and nothing that it said is lost.
    pub(super) async fn listen(&self, members: &Members) {
        let mut open = self.stream.lock().await;
        let mut refusals = 0;
        loop {
            let Some(stream) = open.as_mut() else {
                *open = self.open(members).await;
                refusals = if open.is_some() { 0 } else { refusals + 1 };
                if refusals >= members.count() {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            };
            self.flush(stream);
            let pause = self.pause(stream);
            tokio::select! {
                biased;
                answer = stream.answers.message() => match answer {
                    Ok(Some(answer)) => {
                        if !self.take_in(members, answer) {
                            *open = None;
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                    Ok(None) | Err(_) => {
                        members.turn_from(stream.member);
                        *open = None;
                    }
                },
                () = self.shared.changed.notified() => {}
                () = tokio::time::sleep(pause) => {
                    if self.is_silent(stream) {
                        members.turn_from(stream.member);
                        *open = None;
                    } else if self.is_anybody_waiting() {
                        stream.prove();
                    }
                }
            }
        }
    }

    /// How long nothing needs to be done. While nobody waits, nobody is harmed
    /// by a silent stream.
    fn pause(&self, stream: &Stream) -> Duration {
        let due = match stream.asked {
            _ if !self.is_anybody_waiting() => return LONG,
            Some(asked) if asked > self.last_heard() => asked + SILENCE,
            _ => self.last_heard() + PROVE,
        };
        due.since(boot_time())
    }

    fn is_silent(&self, stream: &Stream) -> bool {
        stream
            .asked
            .is_some_and(|asked| asked > self.last_heard() && boot_time().since(asked) >= SILENCE)
    }

    async fn open(&self, members: &Members) -> Option<Stream> {
        let member = members.current();
        let suspicion = Suspicion::of(members, member);
        let (requests, mut inbox) = mpsc::unbounded_channel();
        {
            let mut wants = lock(&self.shared.wants);
            wants.outbox.clear();
            for (id, want) in &wants.by_id {
                let request = Some(want.request(*id));
                // The other end is right here.
                let _ = requests.send(WatchRequest { request });
            }
        }
        let to_send = futures_util::stream::poll_fn(move |context| inbox.poll_recv(context));
        let opening = async {
            members.say_who_we_are(member).await?;
            members.stream(member, PATH, to_send).await
        };
        let opened = tokio::time::timeout(OPEN, opening).await;
        suspicion.ends();
        match opened {
            Ok(Ok(answers)) => {
                self.is_heard();
                return Some(Stream {
                    member,
                    requests,
                    asked: None,
                    answers,
                });
            }
            Ok(Err(status)) if cure(&status) == Cure::SayWhoWeAre => members.forget_token(),
            Ok(Err(_)) | Err(_) => members.turn_from(member),
        }
        None
    }

    fn flush(&self, stream: &Stream) {
        let outbox = std::mem::take(&mut lock(&self.shared.wants).outbox);
        for request in outbox {
            stream.send(request);
        }
    }

    /// Rings whom the answer is for; says whether the stream is still good.
    fn take_in(&self, members: &Members, answer: WatchResponse) -> bool {
        self.is_heard();
        let mut wants = lock(&self.shared.wants);
        let Some(want) = wants.by_id.get(&answer.watch_id).cloned() else {
            return true;
        };
        if answer.canceled {
            if answer.compact_revision == 0 {
                // Refused: perhaps our token is too old.
                want.bell.notify_one();
                members.forget_token();
                return false;
            }
            // What happened before is forgotten; whoever is rung looks.
            want.starts_over(answer.compact_revision);
            let request = want.request(answer.watch_id);
            wants.outbox.push(request);
            self.shared.changed.notify_one();
            return true;
        }
        if answer.created {
            want.begins_after(answer.header.map_or(0, |header| header.revision));
        }
        want.take_in(&answer.events);
        true
    }

    fn is_anybody_waiting(&self) -> bool {
        let wants = lock(&self.shared.wants);
        wants.by_id.values().any(|want| !want.sees_puts)
    }

    fn is_heard(&self) {
        self.heard.store(boot_time().nanos(), Ordering::Release);
    }

    fn last_heard(&self) -> Moment {
        Moment::from_nanos(self.heard.load(Ordering::Acquire))
    }
}

impl Stream {
    fn send(&self, request: Request) {
        let request = Some(request);
        // If the other end is gone, the next answer is an error.
        let _ = self.requests.send(WatchRequest { request });
    }

    fn prove(&mut self) {
        self.asked = Some(boot_time());
        self.send(Request::Progress(WatchProgressRequest {}));
    }
}

/// One key as a range.
pub(super) fn one(key: &[u8]) -> Range {
    Range {
        start: key.to_vec(),
        end: Vec::new(),
    }
}
