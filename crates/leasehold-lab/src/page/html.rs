//! The page round a picture.

use std::fmt::Write as _;

use super::{Scene, escape, pieces, svg};
use crate::history::History;
use crate::invariant::{Violation, clock};

/// A verdict per strategy, wrong ones first.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The heads of its columns.
    pub heads: Vec<String>,
    /// Its rows; the first field of each is its name.
    pub rows: Vec<(Mood, Vec<String>)>,
}

/// How a row is to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It went wrong.
    Bad,
    /// It went right.
    Good,
}

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#1f2937;background:#fff;max-width:1240px;margin:2em auto;padding:0 1em}\
h1{font-size:1.5em;margin-bottom:.2em}h2{font-size:1.1em;margin:1.6em 0 .3em}h3{font-size:1em;font-weight:500;margin:.8em 0 .2em;min-height:1.3em}\
.lead{color:#4b5563;max-width:60em}figure{margin:.6em 0;overflow-x:auto;border:1px solid #e5e7eb;border-radius:6px}\
figure svg{display:block;min-width:100%}table{border-collapse:collapse}td,th{padding:.25em .9em .25em 0;text-align:left;border-bottom:1px solid #e5e7eb;font-variant-numeric:tabular-nums}\
tr.bad td:first-child{border-left:4px solid #dc2626;padding-left:.6em}tr.good td:first-child{border-left:4px solid #16a34a;padding-left:.6em}\
.proof{border-left:4px solid #dc2626;padding-left:.8em;margin:.6em 0}.proof code{display:block;color:#6b7280;font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere}\
#told{position:fixed;pointer-events:none;background:#111827;color:#fff;padding:.3em .6em;border-radius:4px;font-size:13px;display:none;max-width:36em}\
.zoom{float:right}.zoom button{font:inherit;padding:0 .6em}";

const SCRIPT: &str = "\
const told=document.getElementById('told');\
for(const title of document.querySelectorAll('svg title')){const text=title.textContent;const shape=title.parentNode;title.remove();\
shape.addEventListener('mousemove',event=>{told.textContent=text;told.style.display='block';\
told.style.left=Math.min(event.clientX+14,innerWidth-told.offsetWidth-10)+'px';told.style.top=(event.clientY+14)+'px'});\
shape.addEventListener('mouseleave',()=>{told.style.display='none'})}\
for(const button of document.querySelectorAll('.zoom button'))button.addEventListener('click',()=>{\
const svg=button.closest('section').querySelector('svg');\
const scale=Math.max(1,(parseFloat(svg.dataset.scale)||1)*parseFloat(button.value));svg.dataset.scale=scale;svg.style.width=100*scale+'%'})";

/// How many violations of one run are told in words; the picture has them all.
const TOLD: usize = 12;

/// One run on a page: its title, its history, what was wrong with it.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What was tried.
    pub title: &'a str,
    /// What happened.
    pub history: &'a History,
    /// What must not have.
    pub violations: &'a [Violation],
}

/// A page with a table and a picture of each run.
#[must_use]
pub fn page(title: &str, lead: &str, table: &Table, runs: &[Run<'_>]) -> String {
    let (name, lead) = (escape(title), escape(lead));
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport \
         content='width=device-width'><title>{name}</title><style>{STYLE}</style>\
         <h1>{name}</h1><p class=lead>{lead}</p>"
    );
    if !table.rows.is_empty() {
        draw_table(&mut out, table);
    }
    for run in runs {
        draw_run(&mut out, run);
    }
    let _ = write!(out, "<div id=told></div><script>{SCRIPT}</script></html>");
    out
}

fn draw_table(out: &mut String, table: &Table) {
    out.push_str("<table><tr>");
    for head in &table.heads {
        let _ = write!(out, "<th>{}</th>", escape(head));
    }
    out.push_str("</tr>");
    for (mood, row) in &table.rows {
        let class = match mood {
            Mood::Bad => "bad",
            Mood::Good => "good",
        };
        let _ = write!(out, "<tr class={class}>");
        for field in row {
            let _ = write!(out, "<td>{}</td>", escape(field));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>");
}

fn draw_run(out: &mut String, run: &Run<'_>) {
    let zoom =
        "<div class=zoom title=zoom><button value=2>+</button> <button value=.5>−</button></div>";
    let mut head = format!("<h2>{}</h2>", escape(run.title));
    let begin = run.history.span().0;
    let moments = run.violations.iter();
    let moments = moments.map(|it| it.span.0.saturating_sub(begin));
    for (title, scene) in pieces(&Scene::new(run.history, run.violations), moments) {
        if !title.is_empty() {
            let _ = write!(out, "{head}");
            head = format!("<h3>{}</h3>", escape(&title));
        }
        let picture = svg(&scene);
        let _ = write!(
            out,
            "<section>{zoom}{head}<figure>{picture}</figure></section>"
        );
        head.clear();
    }
    for violation in run.violations.iter().take(TOLD) {
        let [name, text] = [violation.invariant, &*violation.text].map(escape);
        let _ = write!(out, "<div class=proof><b>{name}</b>: {text}");
        for line in violation.lines {
            let line = run.history.lines.get(line);
            let text = line.and_then(|line| {
                let text = serde_json::to_string(line).ok()?;
                Some(format!("{}  {text}", clock(run.history, line.at)))
            });
            let _ = write!(out, "<code>{}</code>", escape(&text.unwrap_or_default()));
        }
        out.push_str("</div>");
    }
    if let Some(more) = run.violations.len().checked_sub(TOLD + 1) {
        let _ = write!(out, "<p>and {} more like these.</p>", more + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Event;
    use crate::history::tests::{granted, line};
    use crate::invariant::belief;

    #[test]
    fn a_page_has_the_two_lines_that_prove_a_violation_and_needs_no_network() {
        let history = History::new(vec![
            line(1, "a", granted(1, 50)),
            line(20, "b", granted(2, 50)),
            line(30, "a", Event::Releases),
        ]);
        let violations = belief(&history);
        let run = Run {
            title: "two at once",
            history: &history,
            violations: &violations,
        };
        let table = Table {
            heads: vec!["strategy".into()],
            rows: vec![(Mood::Bad, vec!["no <lock>".into()])],
        };
        let page = page("A story", "What went wrong.", &table, &[run]);
        assert!(page.contains("a and b both believe to hold l"));
        assert_eq!(
            page.matches("&quot;is&quot;:&quot;granted&quot;").count(),
            2
        );
        assert!(page.contains("no &lt;lock&gt;"));
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!page.replace(namespace, "").contains("http"));
    }
}
