//! The matrix as a page beside the pages of its runs: each cell is a link to its
//! own. The table in a repository cannot have those: the pages are not in it.

use std::fmt::Write as _;
use std::time::Duration;

use super::table::heads;
use super::{Came, Cell};
use crate::page::escape;

/// The page, for cells of this length.
#[must_use]
pub fn index(cells: &[Cell], length: Duration) -> String {
    let (stores, rows) = heads(cells);
    let mut text = String::from(
        "<!doctype html><meta charset=utf-8><title>leasehold-lab: every store under every fault</title>\
         <style>body{font:15px system-ui,sans-serif;margin:2em}td,th{padding:.3em .7em;text-align:left}\
         table{border-collapse:collapse}tr{border-bottom:1px solid #e5e7eb}th{white-space:nowrap}p{max-width:60em}\
         .bad{color:#b91c1c;font-weight:600}.good{color:#15803d}.seen{color:#b45309;font-weight:600}\
         .quiet{color:#6b7280;font-size:12px}</style>\
         <h1>Every store under every fault</h1>\
         <p>Four processes count under one lock while one thing is broken. Each cell is a link to the \
         page of its run; hover for the command that runs it again.\
         <p><span class=good>held</span>: no promise was broken, and nothing else went wrong. \
         <span class=seen>two believed</span>, <span class=seen>lost</span>: what the store does not \
         promise under this fault, or what no lock can prevent without a fence, and it happened. \
         <span class=bad>BROKEN</span>: what must never happen. \
         <span class=quiet>skipped</span>: it could not be tried, for this reason.</p>\
         <table><tr><th>what happens",
    );
    for store in &stores {
        let _ = write!(text, "<th>{}", escape(store));
    }
    for &row in &rows {
        let _ = write!(text, "<tr><th>{}", escape(&row.name()));
        for &store in &stores {
            let mut cells = cells.iter();
            let cell = cells.find(|cell| cell.row == row && cell.store == store);
            let field = cell.map_or_else(String::new, |cell| field(cell, length));
            let _ = write!(text, "<td>{field}");
        }
    }
    text.push_str("</table>\n");
    text
}

fn field(cell: &Cell, length: Duration) -> String {
    let (class, words) = match &cell.came {
        Came::Held => ("good", "held".to_owned()),
        Came::OutOfOrder(count) => ("seen", format!("{count} out of order")),
        Came::TwoBelieved(count) => ("seen", format!("two believed, {count} times")),
        Came::Lost(count) => ("seen", format!("{count} lost")),
        Came::Broken(_) => ("bad", "BROKEN".to_owned()),
        Came::Failed(why) => return format!("<span class=bad>FAILED: {}</span>", escape(why)),
        Came::Skipped(why) => ("quiet", format!("skipped: {why}")),
    };
    if !cell.has_page {
        return format!("<span class={class}>{}</span>", escape(&words));
    }
    let name = Cell::file_name(cell.store, cell.row, cell.seed);
    let seed = cell.seed.to_string();
    let command = format!(
        "leasehold-lab {}",
        cell.row.again(cell.store, &seed, length)
    );
    format!(
        "<a class='{class}' href='{}.html' title='{}'>{}</a>",
        escape(&name),
        escape(&command),
        escape(&words)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Row;

    #[test]
    fn a_cell_is_a_link_to_its_page_if_it_has_one() {
        let cell = |row, came, has_page| Cell {
            store: "etcd",
            row,
            seed: 7,
            came,
            has_page,
            picture: None,
        };
        let cells = [
            cell(Row::Fenced("cut"), Came::Held, true),
            cell(Row::Permits, Came::Skipped("a < b".into()), false),
        ];
        let page = index(&cells, Duration::from_secs(4));
        let link = "<a class='good' href='matrix-etcd-cut-7.html' \
                    title='leasehold-lab torture --store etcd --seed 7 --for 4s --faults cut'>held</a>";
        assert!(page.contains(link), "{page}");
        assert!(
            page.contains("<td><span class=quiet>skipped: a &lt; b"),
            "{page}"
        );
    }
}
