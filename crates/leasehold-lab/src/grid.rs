//! `leasehold-lab matrix`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use leasehold_lab::fault::Fault;
use leasehold_lab::ground::{KINDS, Kind};
use leasehold_lab::matrix::{Came, Cell, Row, put_between_marks, table};
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
            let (cell, ran) = Cell::run(kind, row, seed, length, &|_| {})?;
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
            if let Some((plan, verdict)) = ran {
                let name = name.replace([',', ' '], "-").replace("--", "-");
                let page = format!("matrix-{}-{name}-{seed}", kind.name);
                verdict.write(&plan, &page, &wish.out)?;
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
    println!("pages: {}", wish.out.display());
    let is_broken = |cell: &Cell| matches!(cell.came, Came::Broken(_) | Came::Failed(_));
    Ok(match cells.iter().any(is_broken) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
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
