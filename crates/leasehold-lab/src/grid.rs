//! `leasehold-lab matrix`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::Fault;
use leasehold_lab::ground::{KINDS, Kind};
use leasehold_lab::matrix::{Came, Cell, Row, index, put_between_marks, table};
use leasehold_lab::story::Error;

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
    let mut cells = Vec::new();
    let mut seed = wish.seed;
    for row in rows {
        for &kind in &kinds {
            let name = row.name();
            print!("{:10} {name:26} ", kind.name);
            std::io::Write::flush(&mut std::io::stdout())?;
            let (cell, _) = Cell::run(kind, row, seed, length, &wish.out)?;
            match &cell.came {
                Came::Held => println!("held"),
                Came::OutOfOrder(count) => println!("{count} times out of order"),
                Came::TwoBelieved(count) => println!("two believed, {count} times"),
                Came::Lost(count) => println!("{count} updates lost"),
                Came::Failed(why) => println!("FAILED: {why}"),
                Came::Skipped(why) => println!("skipped: {why}"),
                Came::Broken(texts) => {
                    println!("BROKEN, seed {seed}");
                    texts.iter().for_each(|text| println!("    {text}"));
                }
            }
            cells.push(cell);
            seed += 1;
        }
    }
    let text = table(&cells, length);
    println!("\n{text}");
    if let Some(path) = &wish.write {
        let file = std::fs::read_to_string(path)?;
        std::fs::write(path, put_between_marks(&file, &text)?)?;
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
