//! PURE: what there is to draw of a history.

use std::collections::BTreeMap;

use crate::history::{Access, Event, History, Line, Moment, Outcome};
use crate::hold::{End, holds};
use crate::invariant::Violation;

/// Everything that is drawn, in nanoseconds since the beginning.
#[derive(Debug, Clone, Default)]
pub struct Scene {
    /// From top to bottom: workers, then resources.
    pub lanes: Vec<Lane>,
    /// What happened to the store, over all lanes: from, to, what.
    pub bands: Vec<(Moment, Moment, String)>,
    /// What must not have happened: from, to, what.
    pub violations: Vec<(Moment, Moment, String)>,
    /// Remarks and phases.
    pub notes: Vec<(Moment, String)>,
    /// When it begins, if it is a piece of another.
    pub begin: Moment,
    /// How long it all took.
    pub length: Moment,
}

/// One process, or one resource.
#[derive(Debug, Clone, Default)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What took time.
    pub bars: Vec<Bar>,
    /// What did not.
    pub dots: Vec<Dot>,
}

/// Something that took time.
#[derive(Debug, Clone)]
pub struct Bar {
    /// What it was.
    pub kind: BarKind,
    /// Its beginning.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
    /// In a word, if there is room.
    pub label: String,
    /// In a sentence.
    pub detail: String,
}

/// What took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BarKind {
    /// Waiting for the lock.
    Wait,
    /// Believing to hold it.
    Hold,
    /// Standing still, or cut off.
    Fault,
}

/// Something that happened at one moment.
#[derive(Debug, Clone)]
pub struct Dot {
    /// What it was.
    pub kind: DotKind,
    /// When.
    pub at: Moment,
    /// In a sentence.
    pub detail: String,
}

/// What happened at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DotKind {
    /// A resource let a write in.
    Accepted,
    /// A resource refused.
    Refused,
    /// A resource was claimed or read.
    Read,
    /// A worker was told that it holds no more.
    Lost,
    /// A worker died.
    Killed,
    /// Nobody knows whether it was done.
    Unknown,
}

impl Scene {
    /// What this history and its violations look like.
    #[must_use]
    pub fn new(history: &History, violations: &[Violation]) -> Self {
        let (begin, end) = history.span();
        let mut scene = Builder {
            begin,
            end,
            order: Vec::new(),
            lanes: BTreeMap::new(),
            scene: Self::default(),
        };
        scene.find_lanes(history);
        scene.add_holds(history);
        scene.add_waits(history);
        scene.add_faults(history);
        for line in &history.lines {
            scene.add_dot(line);
        }
        let spans = violations.iter().map(|violation| {
            let (from, to) = violation.span;
            (
                from.saturating_sub(begin),
                to.min(end).saturating_sub(begin),
                violation.text.clone(),
            )
        });
        scene.scene.violations = merged(spans.collect());
        scene.finish()
    }
}

struct Builder {
    begin: Moment,
    end: Moment,
    order: Vec<String>,
    lanes: BTreeMap<String, Lane>,
    scene: Scene,
}

impl Builder {
    fn since(&self, at: Moment) -> Moment {
        at.min(self.end).saturating_sub(self.begin)
    }

    fn lane(&mut self, name: &str) -> Option<&mut Lane> {
        self.lanes.get_mut(name)
    }

    /// Workers by name, then resources.
    fn find_lanes(&mut self, history: &History) {
        let (mut workers, mut resources) = (Vec::new(), Vec::new());
        for line in &history.lines {
            let lanes = match line.event {
                Event::Decides { .. } => &mut resources,
                Event::Asks { .. } | Event::Granted { .. } | Event::Sends { .. } => &mut workers,
                _ => continue,
            };
            if !lanes.contains(&line.by) {
                lanes.push(line.by.clone());
            }
        }
        // w2 comes before w10.
        workers.sort_by_key(|name| (name.len(), name.clone()));
        self.order = workers;
        self.order.append(&mut resources);
        for name in &self.order {
            let lane = Lane {
                name: name.clone(),
                ..Lane::default()
            };
            self.lanes.insert(name.clone(), lane);
        }
    }

    fn add_holds(&mut self, history: &History) {
        for hold in holds(history) {
            let label = hold.token.map_or_else(String::new, short);
            let how = match hold.end {
                End::Released => "then gave it back",
                End::Lost => "then was told of the loss",
                End::Killed => "then was killed",
                End::Over => "then its time was over",
                End::Open => "until the end of the run",
            };
            let token = match hold.token {
                Some(token) => format!(" with token {token}"),
                None => " without a token".to_owned(),
            };
            let millis = hold.to.saturating_sub(hold.from) / 1_000_000;
            let detail = format!(
                "{} held {}{token} for {millis} ms, {how}",
                hold.by, hold.name
            );
            let bar = Bar {
                kind: BarKind::Hold,
                from: self.since(hold.from),
                to: self.since(hold.to),
                label,
                detail,
            };
            self.lane(&hold.by)
                .into_iter()
                .for_each(|lane| lane.bars.push(bar.clone()));
        }
    }

    fn add_waits(&mut self, history: &History) {
        let mut asked: BTreeMap<&str, Moment> = BTreeMap::new();
        for line in &history.lines {
            match line.event {
                Event::Asks { .. } => {
                    asked.insert(&line.by, line.at);
                }
                Event::Granted { .. } | Event::Refused { .. } | Event::Killed => {
                    if let Some(from) = asked.remove(&*line.by) {
                        self.add_wait(&line.by, from, line.at);
                    }
                }
                _ => {}
            }
        }
        for (by, from) in asked {
            self.add_wait(by, from, self.end);
        }
    }

    fn add_wait(&mut self, by: &str, from: Moment, to: Moment) {
        let millis = to.saturating_sub(from) / 1_000_000;
        let bar = Bar {
            kind: BarKind::Wait,
            from: self.since(from),
            to: self.since(to),
            label: String::new(),
            detail: format!("{by} waited for {millis} ms"),
        };
        self.lane(by)
            .into_iter()
            .for_each(|lane| lane.bars.push(bar.clone()));
    }

    fn add_faults(&mut self, history: &History) {
        let mut open: Vec<(&str, &str, Moment)> = Vec::new();
        for line in &history.lines {
            match &line.event {
                Event::Fault { kind, on } => open.push((kind, on, line.at)),
                Event::Healed { kind, on } => {
                    let begun = open.iter().rposition(|(a, b, _)| a == kind && b == on);
                    if let Some(index) = begun {
                        let (kind, on, from) = open.remove(index);
                        self.add_fault(kind, on, from, line.at);
                    }
                }
                _ => {}
            }
        }
        for (kind, on, from) in open {
            self.add_fault(kind, on, from, self.end);
        }
    }

    fn add_fault(&mut self, kind: &str, on: &str, from: Moment, to: Moment) {
        let (from, to) = (self.since(from), self.since(to));
        let detail = format!(
            "{kind} of {on} for {} ms",
            to.saturating_sub(from) / 1_000_000
        );
        match self.lanes.get_mut(on) {
            Some(lane) => lane.bars.push(Bar {
                kind: BarKind::Fault,
                from,
                to,
                label: kind.to_owned(),
                detail,
            }),
            None => self.scene.bands.push((from, to, detail)),
        }
    }

    fn add_dot(&mut self, line: &Line) {
        let at = self.since(line.at);
        let (kind, detail) = match &line.event {
            Event::Lost { why } => (DotKind::Lost, format!("{} was told: {why}", line.by)),
            Event::Killed => (DotKind::Killed, format!("{} was killed", line.by)),
            Event::Failed { why } => (DotKind::Killed, format!("{} failed: {why}", line.by)),
            Event::Answered {
                outcome: Outcome::Unknown,
                ..
            } => unknown(&line.by, "its access"),
            Event::Released {
                outcome: Outcome::Unknown,
            } => unknown(&line.by, "its release"),
            Event::Refused { why, unknown: true } => {
                unknown(&line.by, &format!("its acquire ({why})"))
            }
            Event::Decides {
                of,
                access,
                token,
                accepted,
                value,
            } => {
                let token = token.map_or_else(String::new, |token| format!(" with token {token}"));
                let what = match access {
                    Access::Claim => "claim".to_owned(),
                    Access::Read => "read".to_owned(),
                    Access::Write(value) => format!("write of {value}"),
                };
                let verb = if *accepted { "accepted" } else { "refused" };
                let kind = match (accepted, access) {
                    (false, _) => DotKind::Refused,
                    (true, Access::Write(_)) => DotKind::Accepted,
                    (true, _) => DotKind::Read,
                };
                let detail = format!("{verb} a {what} of {of}{token}; the value is {value}");
                (kind, detail)
            }
            Event::Note { text } => return self.scene.notes.push((at, text.clone())),
            Event::Phase { name } => {
                let text = match name.as_str() {
                    "safety" => "from here on things break",
                    "liveness" => "nothing breaks any more",
                    other => other,
                };
                return self.scene.notes.push((at, text.to_owned()));
            }
            _ => return,
        };
        let dot = Dot { kind, at, detail };
        self.lane(&line.by)
            .into_iter()
            .for_each(|lane| lane.dots.push(dot.clone()));
    }

    fn finish(mut self) -> Scene {
        let lanes = self.order.iter().filter_map(|name| self.lanes.remove(name));
        self.scene.lanes = lanes.collect();
        self.scene.length = self.end.saturating_sub(self.begin).max(1);
        self.scene
    }
}

fn unknown(by: &str, what: &str) -> (DotKind, String) {
    let detail = format!("{by} does not know whether {what} was done");
    (DotKind::Unknown, detail)
}

/// A token for a narrow place: its end, which is what differs.
fn short(token: u64) -> String {
    let text = token.to_string();
    match text.len() {
        0..=6 => text,
        length => format!("…{}", &text[length - 4..]),
    }
}

/// Spans that touch become one: many on top of each other would hide the rest.
fn merged(mut spans: Vec<(Moment, Moment, String)>) -> Vec<(Moment, Moment, String)> {
    spans.sort();
    let mut merged: Vec<(Moment, Moment, String)> = Vec::new();
    for (from, to, text) in spans {
        match merged.last_mut() {
            Some((_, end, first)) if from <= *end => {
                *end = to.max(*end);
                if !first.ends_with("; and more") {
                    first.push_str("; and more");
                }
            }
            _ => merged.push((from, to, text)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};

    #[test]
    fn lanes_are_workers_by_name_and_then_resources() {
        let decides = Event::Decides {
            of: "w2".into(),
            access: Access::Write(1),
            token: Some(1),
            accepted: true,
            value: 1,
        };
        let (kind, on) = ("pause".to_owned(), "w2".to_owned());
        let history = History::new(vec![
            line(0, "ledger", decides),
            line(1, "w10", granted(2, 9)),
            line(2, "w2", granted(3, 9)),
            line(
                3,
                "lab",
                Event::Fault {
                    kind: kind.clone(),
                    on: "store".into(),
                },
            ),
            line(
                4,
                "lab",
                Event::Fault {
                    kind: kind.clone(),
                    on: on.clone(),
                },
            ),
            line(5, "lab", Event::Healed { kind, on }),
        ]);
        let scene = Scene::new(&history, &[]);
        let names: Vec<_> = scene.lanes.iter().map(|lane| &*lane.name).collect();
        assert_eq!(names, ["w2", "w10", "ledger"]);
        let kinds: Vec<_> = scene.lanes[0].bars.iter().map(|bar| bar.kind).collect();
        assert_eq!(kinds, [BarKind::Hold, BarKind::Fault]);
        assert_eq!(scene.lanes[2].dots[0].kind, DotKind::Accepted);
        assert_eq!(scene.bands.len(), 1);
        assert_eq!(scene.length, 5_000_000);
    }

    #[test]
    fn spans_that_touch_are_drawn_as_one_and_tokens_by_their_end() {
        let span = |from, to| (from, to, "x".to_owned());
        let one = merged(vec![span(5, 9), span(1, 3), span(2, 5), span(20, 21)]);
        let ends: Vec<_> = one.iter().map(|(from, to, _)| (*from, *to)).collect();
        assert_eq!(ends, [(1, 9), (20, 21)]);
        assert_eq!(short(7), "7");
        assert_eq!(short(1_794_820_001_234), "…1234");
    }
}
