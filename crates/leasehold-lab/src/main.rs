//! `leasehold-lab`: see every failure happen, and see it caught.
#![forbid(unsafe_code)]

mod grid;
mod rack;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasehold_lab::keeper;
use leasehold_lab::page::{Mood, Table};
use leasehold_lab::story::{Error, STORIES, Stage, Story};
use leasehold_lab::worker::{Job, work};
use nix::sys::signal::Signal;

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
        /// A Redis server to use instead of starting one, for the stories that
        /// break none: oversell, pause, stuck.
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
    /// Ends all that the lab started when the lab is gone.
    #[command(hide = true)]
    Keep {
        /// Another program that is run instead of the lab.
        #[arg(long)]
        program: Option<PathBuf>,
        /// Who started it.
        parent: i32,
        /// The arguments of the lab.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The lab below its keeper.
    #[command(hide = true)]
    Kept {
        /// Who started it.
        parent: i32,
        /// What it was called with.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
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
        Command::Stories => {
            for story in STORIES {
                println!("{:10} {}", story.name, story.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Keep {
            program,
            parent,
            arguments,
        } => keeper::keep(program.as_deref(), parent, &arguments),
        Command::Kept { parent, arguments } => kept(parent, arguments),
        Command::Worker { parent, job } => worker(parent, &job),
        Command::Story { .. } | Command::Torture(_) | Command::Matrix { .. } => keeper::run_kept(),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("leasehold-lab: {error}");
        ExitCode::FAILURE
    })
}

/// Does what the lab was called for.
fn kept(parent: i32, arguments: Vec<String>) -> Result<ExitCode, Error> {
    keeper::die_with(parent, Signal::SIGKILL)?;
    let name = "leasehold-lab".to_owned();
    match Args::parse_from(std::iter::once(name).chain(arguments)).command {
        Command::Story {
            name,
            url,
            out,
            svg,
        } => stories(name.as_deref(), url.as_deref(), &out, svg),
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
        _ => Err("this needs no keeper".into()),
    }
}

fn worker(parent: i32, job: &str) -> Result<ExitCode, Error> {
    keeper::die_with(parent, Signal::SIGKILL)?;
    let job: Job = serde_json::from_str(job)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(work(job))?;
    Ok(ExitCode::SUCCESS)
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
    // Before the first one begins.
    for story in &chosen {
        story.may_take(url)?;
    }
    let mut code = ExitCode::SUCCESS;
    for story in chosen {
        println!("\n{}: {}", story.name, story.about);
        let bar = bar(story.strategies, "{pos} of {len}");
        let begun = std::cell::Cell::new(0);
        let folder = tempfile::tempdir()?;
        let report = story.tell(&Stage {
            folder: folder.path(),
            url,
            progress: &|text| {
                bar.set_position(begun.replace(begun.get() + 1));
                bar.set_message(text.to_owned());
            },
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

/// A bar on a terminal, and nothing elsewhere; with this beside it, and a message.
fn bar(length: u64, beside: &str) -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new(length);
    let style = indicatif::ProgressStyle::with_template(&format!("{{bar:30}} {beside} {{msg}}"));
    bar.set_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()));
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}

fn print(table: &Table) {
    let rows = || std::iter::once(&table.heads).chain(table.rows.iter().map(|(_, row)| row));
    let width = |column: usize| {
        rows()
            .filter_map(|row| row.get(column))
            .map(|field| field.chars().count())
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
