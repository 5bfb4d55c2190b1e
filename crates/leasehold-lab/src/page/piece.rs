//! PURE: what is shown of a run that is too long for one picture: all of it with
//! neighbours drawn as one, and pieces as they are: the beginning, where
//! something must not have happened, the end. The rest is in the history.

use super::scene::{Bar, Dot, DotKind, Lane, Scene};
use crate::history::Moment;

/// How many shapes a picture may have that a browser draws at once.
const SHAPES: usize = 3_000;
/// How many pieces are shown.
const PIECES: usize = 8;
/// How long a piece is, in nanoseconds, unless too much happens in it.
const PIECE: Moment = 20_000_000_000;
/// The least that a piece is cut down to.
const SHORTEST: Moment = 250_000_000;
/// Neighbours are drawn as one if this part of the whole is between them.
const PART: Moment = 400;

/// A run as pictures with their titles; one without a title if one will do. These
/// moments are worth a piece, the first ones most.
#[must_use]
pub fn pieces(scene: &Scene, worth: impl IntoIterator<Item = Moment>) -> Vec<(String, Scene)> {
    if scene.count() <= SHAPES && scene.length <= 3 * PIECE {
        return vec![(String::new(), scene.clone())];
    }
    let mut chosen = vec![piece(scene, 0), piece(scene, scene.length)];
    for moment in worth {
        let is_shown = |it: &Scene| (it.begin..=it.begin + it.length).contains(&moment);
        if chosen.len() < PIECES && !chosen.iter().any(is_shown) {
            chosen.push(piece(scene, moment));
        }
    }
    chosen.sort_by_key(|piece| piece.begin);
    let overview = "All of it: neighbours are drawn as one, and only what is worth a look";
    let mut pieces = vec![(overview.to_owned(), scene.coarse())];
    pieces.extend(chosen.into_iter().map(|piece| {
        let [from, to] = [piece.begin, piece.begin + piece.length].map(seconds);
        (format!("From {from} to {to}"), piece)
    }));
    pieces
}

/// What is drawn of it as a file of its own.
#[must_use]
pub fn whole(scene: &Scene) -> Scene {
    match scene.count() <= SHAPES {
        true => scene.clone(),
        false => scene.coarse(),
    }
}

fn seconds(at: Moment) -> String {
    format!("{}.{} s", at / 1_000_000_000, at / 100_000_000 % 10)
}

/// As much round this moment as can be looked at.
fn piece(scene: &Scene, moment: Moment) -> Scene {
    let mut length = PIECE.min(scene.length);
    loop {
        let latest = scene.length - length;
        let begin = moment.saturating_sub(length / 4).min(latest);
        // A tenth of a second is a good place to begin.
        let piece = scene.between(begin / 100_000_000 * 100_000_000, length);
        if piece.count() <= SHAPES || length / 2 < SHORTEST {
            return piece;
        }
        length /= 2;
    }
}

impl Scene {
    /// How many shapes it has.
    #[must_use]
    pub fn count(&self) -> usize {
        let of = |lane: &Lane| lane.bars.len() + lane.dots.len();
        self.lanes.iter().map(of).sum::<usize>() + self.bands.len() + self.violations.len()
    }

    /// What there is of it from this moment on, for so long.
    fn between(&self, begin: Moment, length: Moment) -> Self {
        let end = begin + length;
        let clipped = |from: Moment, to: Moment| {
            let (from, to) = (from.max(begin), to.min(end));
            (from <= to).then(|| (from - begin, to - begin))
        };
        let spans = |spans: &[(Moment, Moment, String)]| {
            let spans = spans.iter().filter_map(|(from, to, text)| {
                clipped(*from, *to).map(|(from, to)| (from, to, text.clone()))
            });
            spans.collect()
        };
        let is_in = |at: Moment| (begin..=end).contains(&at);
        let lane = |lane: &Lane| Lane {
            name: lane.name.clone(),
            bars: lane
                .bars
                .iter()
                .filter_map(|bar| {
                    let (from, to) = clipped(bar.from, bar.to)?;
                    Some(Bar {
                        from,
                        to,
                        ..bar.clone()
                    })
                })
                .collect(),
            dots: lane
                .dots
                .iter()
                .filter(|dot| is_in(dot.at))
                .map(|dot| Dot {
                    at: dot.at - begin,
                    ..dot.clone()
                })
                .collect(),
        };
        let notes = self.notes.iter().filter(|(at, _)| is_in(*at));
        Self {
            lanes: self.lanes.iter().map(lane).collect(),
            bands: spans(&self.bands),
            violations: spans(&self.violations),
            notes: notes.map(|(at, text)| (at - begin, text.clone())).collect(),
            begin: self.begin + begin,
            length,
        }
    }

    /// The same with neighbours of a kind as one.
    fn coarse(&self) -> Self {
        let near = self.length / PART;
        let mut scene = self.clone();
        for lane in &mut scene.lanes {
            lane.bars = merged_bars(&lane.bars, near);
            let mut dots: Vec<Dot> = Vec::new();
            for dot in lane.dots.iter().filter(|dot| is_rare(dot.kind)) {
                let last = dots.iter().rfind(|it| it.kind == dot.kind);
                if last.is_none_or(|last| dot.at > last.at + near) {
                    dots.push(dot.clone());
                }
            }
            lane.dots = dots;
        }
        scene.bands = merged_spans(&self.bands, near);
        scene.violations = merged_spans(&self.violations, near);
        scene
    }
}

/// Whether it is worth a look from afar.
fn is_rare(kind: DotKind) -> bool {
    matches!(kind, DotKind::Lost | DotKind::Killed | DotKind::Refused)
}

fn merged_bars(bars: &[Bar], near: Moment) -> Vec<Bar> {
    let mut merged: Vec<Bar> = Vec::new();
    let mut bars: Vec<_> = bars.iter().collect();
    bars.sort_by_key(|bar| (bar.kind, bar.from));
    for bar in bars {
        match merged.last_mut() {
            Some(last) if last.kind == bar.kind && bar.from <= last.to.saturating_add(near) => {
                last.to = last.to.max(bar.to);
                last.label.clear();
                if !last.detail.ends_with("; and more") {
                    last.detail.push_str("; and more");
                }
            }
            _ => merged.push(bar.clone()),
        }
    }
    merged
}

fn merged_spans(spans: &[(Moment, Moment, String)], near: Moment) -> Vec<(Moment, Moment, String)> {
    let mut merged: Vec<(Moment, Moment, String)> = Vec::new();
    for (from, to, text) in spans {
        match merged.last_mut() {
            Some((_, end, _)) if *from <= end.saturating_add(near) => *end = *to.max(end),
            _ => merged.push((*from, *to, text.clone())),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::{granted, line};
    use crate::history::{Event, History};
    use crate::invariant::belief;

    /// An hour of a worker that holds ten times in a second; another holds with it
    /// once, in the middle.
    fn hour() -> Scene {
        let mut lines = Vec::new();
        for round in 0..36_000 {
            let at = round * 100;
            lines.push(line(at, "a", granted(round, at + 90)));
            lines.push(line(at + 60, "a", Event::Releases));
        }
        lines.push(line(1_800_010, "b", granted(99_999, 1_800_090)));
        lines.push(line(1_800_050, "b", Event::Releases));
        let history = History::new(lines);
        let violations = belief(&history);
        assert_eq!(violations.len(), 1, "{violations:?}");
        Scene::new(&history, &violations)
    }

    #[test]
    fn an_hour_is_some_pictures_that_a_browser_can_draw() {
        let scene = hour();
        assert!(scene.count() > 30_000);
        let moment = 1_800_010_000_000;
        let pieces = pieces(&scene, [moment, moment + 1]);
        let titles: Vec<_> = pieces.iter().map(|(title, _)| &**title).collect();
        assert_eq!(titles.len(), 4, "{titles:?}");
        assert_eq!(titles[1], "From 0.0 s to 20.0 s");
        assert!(pieces.iter().all(|(_, piece)| piece.count() <= SHAPES));
        // The two who held at once are in the one in the middle.
        let middle = &pieces[2].1;
        assert_eq!(middle.violations.len(), 1);
        assert_eq!(middle.begin / 1_000_000_000, 1_795);
        assert_eq!(pieces[0].1.length, scene.length);
        assert_eq!(pieces[0].1.violations.len(), 1);
    }

    #[test]
    fn a_short_run_is_one_picture_as_it_is() {
        let history = History::new(vec![line(1, "a", granted(1, 50))]);
        let pieces = pieces(&Scene::new(&history, &[]), []);
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].0, "");
    }
}
