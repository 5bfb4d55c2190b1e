//! `leasehold-lab`: see every failure happen, and see it caught.
#![forbid(unsafe_code)]

mod grid;
mod rack;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasehold_lab::page::{Mood, Table};
use leasehold_lab::story::{Error, STORIES, Stage, Story};
use leasehold_lab::worker::{Job, work};

/// See every failure of a lock happen, and see it caught.
#[derive(Debug, Parser)]
#[command(name = "leasehold-lab", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Let one of the classic accidents happen, and then prevent it.
    Story {
        /// Which one; all of them if none is named.
        name: Option<String>,
        /// A Redis server to use instead of starting one.
        #[arg(long)]
        url: Option<String>,
        /// Where the pages go.
        #[arg(long, default_value = "lab")]
        out: PathBuf,
        /// The pictures as files of their own too.
        #[arg(long)]
        svg: bool,
    },
    /// Lists the stories.
    Stories,
    /// Break one thing after the other under load, and check what happened.
    Torture(rack::Wish),
    /// Every store under every fault, as a table.
    Matrix {
        /// How long each cell takes.
        #[arg(long = "for", default_value = "4s", value_parser = leasehold::parse_duration)]
        length: std::time::Duration,
        /// How long all of them take together, instead.
        #[arg(long, value_parser = leasehold::parse_duration)]
        within: Option<std::time::Duration>,
        /// Some stores only, with commas between.
        #[arg(long, value_delimiter = ',')]
        stores: Vec<String>,
        /// Some faults only, with commas between.
        #[arg(long, value_delimiter = ',')]
        faults: Vec<String>,
        /// The seed of the first cell; the next ones count on.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Puts the table between its marks in this file.
        #[arg(long)]
        write: Option<PathBuf>,
        /// Where the pages go.
        #[arg(long, default_value = "lab")]
        out: PathBuf,
    },
    /// One process of a run.
    #[command(hide = true)]
    Worker {
        /// Who started it.
        parent: i32,
        /// What to do, as JSON.
        job: String,
    },
}

fn main() -> ExitCode {
    let ended = match Args::parse().command {
        Command::Story {
            name,
            url,
            out,
            svg,
        } => stories(name.as_deref(), url.as_deref(), &out, svg),
        Command::Stories => {
            for story in STORIES {
                println!("{:10} {}", story.name, story.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Torture(wish) => rack::run(&wish),
        Command::Matrix {
            length,
            within,
            stores,
            faults,
            seed,
            write,
            out,
        } => grid::run(&grid::Wish {
            length,
            within,
            stores,
            faults,
            seed,
            write,
            out,
        }),
        Command::Worker { parent, job } => worker(parent, &job),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("leasehold-lab: {error}");
        ExitCode::FAILURE
    })
}

fn worker(parent: i32, job: &str) -> Result<ExitCode, Error> {
    die_with(parent)?;
    let job: Job = serde_json::from_str(job)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(work(job))?;
    Ok(ExitCode::SUCCESS)
}

/// Lets this process be killed when the lab is, also while it stands still.
fn die_with(parent: i32) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
    // It may have died before we asked to be told.
    match nix::unistd::getppid().as_raw() == parent {
        true => Ok(()),
        false => Err("the lab is gone".into()),
    }
}

fn stories(
    name: Option<&str>,
    url: Option<&str>,
    out: &std::path::Path,
    svg: bool,
) -> Result<ExitCode, Error> {
    let chosen: Vec<&Story> =
        match name {
            Some(name) => {
                let story = Story::find(name);
                vec![story.ok_or_else(|| {
                    format!("no story is called {name}; see leasehold-lab stories")
                })?]
            }
            None => STORIES.iter().collect(),
        };
    let mut code = ExitCode::SUCCESS;
    for story in chosen {
        println!("\n{}: {}", story.name, story.about);
        let bar = indicatif::ProgressBar::new_spinner();
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        let folder = tempfile::tempdir()?;
        let report = story.tell(&Stage {
            folder: folder.path(),
            url,
            progress: &|text| bar.set_message(text.to_owned()),
        })?;
        bar.finish_and_clear();
        print(&report.table);
        println!("\n  {}", report.write(story, out)?.display());
        if svg {
            report.write_pictures(story, out)?;
        }
        for surprise in &report.surprises {
            println!("  not as expected: {surprise}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn print(table: &Table) {
    let rows = || std::iter::once(&table.heads).chain(table.rows.iter().map(|(_, row)| row));
    let width = |column: usize| {
        rows()
            .filter_map(|row| row.get(column))
            .map(String::len)
            .max()
    };
    let line = |row: &[String]| {
        let fields = row.iter().enumerate().map(|(column, field)| {
            let width = width(column).unwrap_or_default();
            match column {
                0 => format!("{field:width$}"),
                _ => format!("{field:>width$}"),
            }
        });
        fields.collect::<Vec<_>>().join("  ")
    };
    println!("\n    {}", line(&table.heads));
    for (mood, row) in &table.rows {
        let sign = match mood {
            Mood::Bad => "✗",
            Mood::Good => "✓",
        };
        println!("  {sign} {}", line(row));
    }
}
