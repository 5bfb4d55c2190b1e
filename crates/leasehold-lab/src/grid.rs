//! `leasehold-lab matrix`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::Fault;
use leasehold_lab::ground::{KINDS, Kind};
use leasehold_lab::matrix::{Came, Cell, Row, index, put_between_marks, table};
use leasehold_lab::story::Error;
use leasehold_lab::torture::{NOBODY_HIT, Verdict};

use crate::bar;

/// Where pictures of cells are kept that show something, beside the table.
const PICTURES: &str = "docs/pictures/matrix";

/// How often a cell is tried in which nobody is hit, and what is added to its seed.
const ATTEMPTS: u64 = 3;
const AGAIN: u64 = 1_000;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) length: Duration,
    pub(crate) within: Option<Duration>,
    pub(crate) stores: Vec<String>,
    pub(crate) faults: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) write: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

pub(crate) fn run(wish: &Wish) -> Result<ExitCode, Error> {
    let kinds = kinds(&wish.stores)?;
    if wish.write.is_some() {
        may_be_written(wish, &kinds)?;
    }
    let rows = rows(&wish.faults)?;
    let count = u32::try_from(rows.len() * kinds.len()).unwrap_or(u32::MAX);
    let share = wish.within.map(|within| within / count.max(1));
    let length = share.unwrap_or(wish.length);
    // As it is when it begins.
    let commit = commit();
    let mut cells = Vec::new();
    let mut pictures = Vec::new();
    let mut seed = wish.seed;
    let bar = bar(u64::from(count), "{pos} of {len} cells");
    for row in rows {
        for &kind in &kinds {
            bar.set_message(format!("{} {}", kind.name, row.name()));
            let (mut cell, ran) = run_cell(kind, row, seed, length, &wish.out)?;
            if let Some(verdict) = ran.filter(|_| cell.is_telling() && wish.write.is_some()) {
                let name = Cell::file_name(kind.name, row, cell.seed);
                let path = format!("{PICTURES}/{name}.svg");
                cell.picture = Some(path.clone());
                pictures.push((path, verdict.picture()));
            }
            // On a terminal the bar stays below the lines.
            bar.suspend(|| print(&cell));
            bar.inc(1);
            cells.push(cell);
            seed += 1;
        }
    }
    bar.finish_and_clear();
    let text = table(&cells, length, &commit);
    println!("\n{text}");
    if let Some(path) = &wish.write {
        let file = std::fs::read_to_string(path)?;
        let written = put_between_marks(&file, &text)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        write_pictures(folder, &pictures)?;
        std::fs::write(path, written)?;
    }
    std::fs::create_dir_all(&wish.out)?;
    let page = wish.out.join("index.html");
    std::fs::write(&page, index(&cells, length))?;
    println!("pages: {}", page.display());
    let is_broken = |cell: &Cell| matches!(cell.came, Came::Broken(_) | Came::Failed(_));
    Ok(match cells.iter().any(is_broken) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// A cell, with another seed if nobody who held was hit: that says nothing.
fn run_cell(
    kind: &'static Kind,
    row: Row,
    seed: u64,
    length: Duration,
    out: &Path,
) -> Result<(Cell, Option<Verdict>), Error> {
    let mut ran = Cell::run(kind, row, seed, length, out)?;
    for attempt in 1..ATTEMPTS {
        if ran.0.came != Came::Skipped(NOBODY_HIT.into()) {
            break;
        }
        ran = Cell::run(kind, row, seed + AGAIN * attempt, length, out)?;
    }
    Ok(ran)
}

fn print(cell: &Cell) {
    let came = match &cell.came {
        Came::Held => "held".to_owned(),
        Came::OutOfOrder(count) => format!("{count} times out of order"),
        Came::TwoBelieved(count) => format!("two believed, {count} times"),
        Came::Lost(count) => format!("{count} updates lost"),
        Came::Failed(why) => format!("FAILED: {why}"),
        Came::Skipped(why) => format!("skipped: {why}"),
        Came::Broken(texts) => {
            let texts: Vec<_> = texts.iter().map(|text| format!("\n    {text}")).collect();
            format!("BROKEN, seed {}{}", cell.seed, texts.concat())
        }
    };
    println!("{:10} {:28} {came}", cell.store, cell.row.name());
}

/// The pictures of this run instead of those of the last one.
fn write_pictures(folder: &Path, pictures: &[(String, String)]) -> Result<(), Error> {
    let all = folder.join(PICTURES);
    if all.exists() {
        std::fs::remove_dir_all(&all)?;
    }
    std::fs::create_dir_all(all)?;
    for (path, picture) in pictures {
        std::fs::write(folder.join(path), picture)?;
    }
    Ok(())
}

/// What is run, as git calls it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["show", "-s", "--format=%h of %cs"]) else {
        return "a copy without a history".to_owned();
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    match changed.is_some_and(|changed| changed.is_empty()) {
        true => format!("commit {commit}"),
        false => format!("commit {commit}, with changes"),
    }
}

/// A part of the matrix must not take the place of all of it.
fn may_be_written(wish: &Wish, kinds: &[&'static Kind]) -> Result<(), Error> {
    if !wish.stores.is_empty() || !wish.faults.is_empty() {
        return Err("--write is for all stores and faults together".into());
    }
    let mut missing = kinds.iter().filter_map(|kind| (kind.lacks)());
    missing.next().map_or(Ok(()), |what| {
        Err(format!("{what} is missing on this machine: the table would have gaps").into())
    })
}

fn kinds(names: &[String]) -> Result<Vec<&'static Kind>, Error> {
    if names.is_empty() {
        return Ok(KINDS.iter().collect());
    }
    let find = |name: &String| {
        let kind = Kind::find(name);
        kind.ok_or_else(|| format!("the lab has no store called {name}").into())
    };
    names.iter().map(find).collect()
}

fn rows(names: &[String]) -> Result<Vec<Row>, Error> {
    for name in names {
        Fault::find(name).ok_or_else(|| format!("the lab has no fault called {name}"))?;
    }
    let is_wanted = |row: &Row| match row {
        Row::Fenced(fault) | Row::Unfenced(fault) => names.iter().any(|name| name == fault),
        Row::Permits => false,
    };
    let rows = Row::all().into_iter();
    Ok(rows
        .filter(|row| names.is_empty() || is_wanted(row))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_matrix_is_not_written() {
        let wish = |stores: &[&str], faults: &[&str]| Wish {
            length: Duration::from_secs(1),
            within: None,
            stores: stores.iter().map(|&name| name.to_owned()).collect(),
            faults: faults.iter().map(|&name| name.to_owned()).collect(),
            seed: 1,
            write: Some(PathBuf::from("/nowhere/table.md")),
            out: PathBuf::from("/nowhere"),
        };
        let refused = |wish: &Wish| run(wish).unwrap_err().to_string();
        for part in [wish(&["sqlite"], &[]), wish(&[], &["kill"])] {
            assert!(refused(&part).starts_with("--write is for all"), "{part:?}");
        }
        let lacking = Kind {
            lacks: || Some("a server"),
            ..KINDS[0]
        };
        let lacking: &'static Kind = Box::leak(Box::new(lacking));
        let error = may_be_written(&wish(&[], &[]), &[lacking]).unwrap_err();
        assert!(error.to_string().starts_with("a server is missing"));
    }
}
