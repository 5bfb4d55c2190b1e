//! Draws a scene.

use std::fmt::Write as _;

use super::escape;
use super::scene::{Bar, BarKind, Dot, DotKind, Lane, Scene};
use crate::history::Moment;

const LEFT: f64 = 110.0;
const WIDTH: f64 = 1_180.0;
const LANE: f64 = 34.0;
const BAR: f64 = 20.0;
/// How wide a letter of a label is, as good as one can know.
const LETTER: f64 = 6.1;
/// How far labels are kept from the right edge.
const RIGHT: f64 = 20.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2937}\
.quiet{fill:#6b7280;font-size:11px}.lane{stroke:#e5e7eb}.tick{stroke:#f1f3f5}\
.wait{fill:#d1d5db}.hold{fill:#3b82f6}.token{fill:#fff;font-size:10px}\
.fault{fill:url(#still);stroke:#b45309;stroke-width:.6}\
.band{fill:#fde68a;opacity:.45}.violation{fill:#ef4444;opacity:.22}\
.alarm{fill:#b91c1c;font-weight:600}\
.accepted{fill:#16a34a}.refused{fill:#fff;stroke:#dc2626;stroke-width:2}\
.read{fill:#fff;stroke:#16a34a;stroke-width:1.5}.lost{fill:#f59e0b;stroke:#92400e}\
.killed{stroke:#111827;stroke-width:2.5}.unknown{fill:#a855f7;stroke:#581c87}";

/// The picture, as an SVG document.
#[must_use]
pub fn svg(scene: &Scene) -> String {
    let lanes = scene.lanes.len() as f64;
    // Room for the names of what happened, if something did.
    let top = match (scene.bands.is_empty(), scene.notes.is_empty()) {
        (false, _) => 60.0,
        (true, false) => 32.0,
        (true, true) => 14.0,
    };
    let bottom = top + lanes * LANE;
    let height = bottom + 80.0;
    let mut out = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' role='img' \
         aria-label='What happened, over time'><style>{STYLE}</style><defs>\
         <pattern id='still' width='7' height='7' patternUnits='userSpaceOnUse' \
         patternTransform='rotate(45)'><rect width='7' height='7' fill='#fef3c7' opacity='.8'/>\
         <rect width='2.4' height='7' fill='#d97706'/></pattern></defs>\
         <rect width='{WIDTH}' height='{height}' fill='#fff'/>"
    );
    let x = |at: Moment| LEFT + at as f64 / scene.length as f64 * (WIDTH - LEFT - RIGHT);
    axis(&mut out, scene, (top, bottom), &x);
    let mut rows = Rows::new(2);
    for (from, to, text) in &scene.bands {
        block(
            &mut out,
            "band",
            x(*from),
            x(*to),
            top - 6.0,
            bottom - top + 6.0,
            text,
        );
        // What has no room for its name tells it when one points at it.
        let short = text.split(" for ").next().unwrap_or(text);
        let at = inside(x(*from) + 3.0, short);
        if let Some(row) = rows.place(at, short) {
            label(&mut out, "quiet", at, top - 10.0 - 14.0 * row as f64, short);
        }
    }
    for (row, lane) in scene.lanes.iter().enumerate() {
        draw_lane(&mut out, lane, top + row as f64 * LANE, &x);
    }
    for (from, to, text) in &scene.violations {
        block(
            &mut out,
            "violation",
            x(*from),
            x(*to),
            top - 6.0,
            bottom - top + 6.0,
            text,
        );
    }
    let mut rows = Rows::new(1);
    for (at, text) in &scene.notes {
        let at = inside(x(*at), text);
        if rows.place(at, text).is_some() {
            label(&mut out, "quiet", at, 14.0, text);
        }
    }
    legend(&mut out, bottom + 44.0);
    out.push_str("</svg>");
    out
}

/// Where a text begins so that it ends within the picture.
fn inside(x: f64, text: &str) -> f64 {
    x.min(WIDTH - RIGHT - LETTER * text.chars().count() as f64)
}

fn axis(out: &mut String, scene: &Scene, (top, bottom): (f64, f64), x: &dyn Fn(Moment) -> f64) {
    let step = step(scene.length);
    let first = scene.begin.div_ceil(step);
    for at in (first..=(scene.begin + scene.length) / step).map(|number| number * step) {
        let (x, y) = (x(at - scene.begin), bottom + 16.0);
        let _ = write!(
            out,
            "<line class='tick' x1='{x:.1}' x2='{x:.1}' y1='{top}' y2='{bottom}'/>"
        );
        let text = match step >= 1_000_000_000 {
            true => format!("{} s", at / 1_000_000_000),
            false => format!("{} ms", at / 1_000_000),
        };
        label(out, "quiet", x - 10.0, y, &text);
    }
}

/// A round distance between ticks, with at most a dozen of them.
fn step(length: Moment) -> Moment {
    let mut step = 1_000_000;
    for factor in [2, 5].iter().cycle() {
        if length / step <= 12 {
            break;
        }
        // 1, 2, 10, 20, 100, … milliseconds.
        step *= factor;
    }
    step
}

fn draw_lane(out: &mut String, lane: &Lane, top: f64, x: &dyn Fn(Moment) -> f64) {
    let middle = top + LANE / 2.0;
    let right = WIDTH - RIGHT;
    let _ = write!(
        out,
        "<line class='lane' x1='{LEFT}' x2='{right}' y1='{middle}' y2='{middle}'/>"
    );
    label(out, "", 8.0, middle + 4.0, &lane.name);
    for kind in [BarKind::Wait, BarKind::Hold, BarKind::Fault] {
        for bar in lane.bars.iter().filter(|bar| bar.kind == kind) {
            draw_bar(out, lane, bar, middle, x);
        }
    }
    for dot in &lane.dots {
        draw_dot(out, dot, middle, x(dot.at));
    }
}

fn draw_bar(out: &mut String, lane: &Lane, bar: &Bar, middle: f64, x: &dyn Fn(Moment) -> f64) {
    let (class, height) = match bar.kind {
        BarKind::Wait => ("wait", BAR / 3.0),
        BarKind::Hold => ("hold", BAR),
        BarKind::Fault => ("fault", BAR / 2.0),
    };
    let (from, to) = (x(bar.from), x(bar.to));
    block(
        out,
        class,
        from,
        to,
        middle - height / 2.0,
        height,
        &bar.detail,
    );
    // A token is not to lie below what happens to its holder.
    let faults = lane.bars.iter().filter(|it| it.kind == BarKind::Fault);
    let over = faults.filter(|it| it.to > bar.from && it.from < bar.to);
    let room = over.map(|it| x(it.from)).fold(to, f64::min) - from;
    if bar.kind == BarKind::Hold && room > 4.0 + 7.2 * bar.label.chars().count() as f64 {
        label(out, "token", from + 3.0, middle + 4.0, &bar.label);
    }
}

fn draw_dot(out: &mut String, dot: &Dot, y: f64, x: f64) {
    let detail = escape(&dot.detail);
    let shape = match dot.kind {
        DotKind::Accepted => format!("<circle class='accepted' cx='{x:.1}' cy='{y}' r='5'>"),
        DotKind::Refused => format!("<circle class='refused' cx='{x:.1}' cy='{y}' r='5'>"),
        DotKind::Read => format!("<circle class='read' cx='{x:.1}' cy='{y}' r='3'>"),
        DotKind::Lost => {
            let (a, b) = (x - 6.0, x + 6.0);
            let (c, d) = (y + 5.0, y - 7.0);
            format!("<polygon class='lost' points='{a:.1},{c} {b:.1},{c} {x:.1},{d}'>")
        }
        DotKind::Killed => {
            let (a, b, c, d) = (x - 5.0, x + 5.0, y - 5.0, y + 5.0);
            format!("<path class='killed' d='M{a:.1} {c}L{b:.1} {d}M{a:.1} {d}L{b:.1} {c}'>")
        }
        DotKind::Unknown => {
            let (a, b, c, d) = (x - 6.0, x + 6.0, y - 6.0, y + 6.0);
            format!(
                "<polygon class='unknown' points='{a:.1},{y} {x:.1},{c} {b:.1},{y} {x:.1},{d}'>"
            )
        }
    };
    let end = match shape.split(' ').next() {
        Some("<circle") => "</circle>",
        Some("<polygon") => "</polygon>",
        _ => "</path>",
    };
    let _ = write!(out, "{shape}<title>{detail}</title>{end}");
}

fn block(out: &mut String, class: &str, from: f64, to: f64, top: f64, height: f64, detail: &str) {
    // What is too short to be seen is drawn a little longer.
    let width = (to - from).max(1.5);
    let detail = escape(detail);
    let _ = write!(
        out,
        "<rect class='{class}' x='{from:.1}' y='{top:.1}' width='{width:.1}' \
         height='{height:.1}'><title>{detail}</title></rect>"
    );
}

fn label(out: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let text = escape(text);
    let _ = write!(
        out,
        "<text class='{class}' x='{x:.1}' y='{y:.1}'>{text}</text>"
    );
}

/// What the shapes mean: what takes time, and below it what does not.
fn legend(out: &mut String, y: f64) {
    let bars = [
        ("wait", "waits"),
        ("hold", "believes to hold, with the end of its token"),
        ("fault", "stands still or is cut off"),
        ("band", "a fault of the store"),
        ("violation", "a lock should prevent this"),
    ];
    let mut x = LEFT;
    for (class, text) in bars {
        let top = y - 9.0;
        let _ = write!(
            out,
            "<rect class='{class}' x='{x}' y='{top}' width='16' height='10'/>"
        );
        label(out, "quiet", x + 20.0, y, text);
        x += 40.0 + LETTER * text.len() as f64;
    }
    let dots = [
        (DotKind::Accepted, "write accepted"),
        (DotKind::Read, "read, or fence shown"),
        (DotKind::Refused, "refused by the fence"),
        (DotKind::Lost, "told of its loss"),
        (DotKind::Killed, "killed"),
        (DotKind::Unknown, "no answer: done or not"),
    ];
    let (mut x, y) = (LEFT, y + 20.0);
    for (kind, text) in dots {
        let dot = Dot {
            kind,
            at: 0,
            detail: text.into(),
        };
        draw_dot(out, &dot, y - 4.0, x + 8.0);
        label(out, "quiet", x + 20.0, y, text);
        x += 40.0 + LETTER * text.len() as f64;
    }
}

/// Where labels go that must not lie on each other: the first row in which there
/// is room, or none.
struct Rows {
    ends: Vec<f64>,
}

impl Rows {
    fn new(count: usize) -> Self {
        let ends = vec![f64::MIN; count];
        Self { ends }
    }

    /// The row of a text that begins here.
    fn place(&mut self, x: f64, text: &str) -> Option<usize> {
        let row = self.ends.iter().position(|end| *end < x)?;
        self.ends[row] = x + LETTER * text.chars().count() as f64 + 8.0;
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_and_round() {
        for (length, expected) in [
            (1, 1),
            (12, 1),
            (13, 2),
            (100, 10),
            (5_000, 1_000),
            (60_000, 10_000),
        ] {
            assert_eq!(
                step(length * 1_000_000),
                expected * 1_000_000,
                "{length} ms"
            );
        }
    }

    #[test]
    fn labels_that_would_lie_on_each_other_go_to_another_row_or_away() {
        let mut rows = Rows::new(2);
        let places: Vec<_> = [0.0, 10.0, 20.0, 80.0]
            .into_iter()
            .map(|x| rows.place(x, "ten letter"))
            .collect();
        assert_eq!(places, [Some(0), Some(1), None, Some(0)]);
        assert!(inside(1_170.0, "ten letter") < 1_110.0);
    }

    #[test]
    fn names_from_outside_stay_text() {
        let lane = Lane {
            name: "<script>".into(),
            ..Lane::default()
        };
        let scene = Scene {
            lanes: vec![lane],
            length: 1,
            ..Scene::default()
        };
        let text = svg(&scene);
        assert!(text.contains("&lt;script&gt;"));
        assert!(!text.contains("<script>"));
    }
}
