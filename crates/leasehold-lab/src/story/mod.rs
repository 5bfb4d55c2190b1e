//! The classic accidents, each made to happen on a real store and then
//! prevented.

mod failover;
mod herd;
mod oversell;
mod partition;
mod pause;
mod redlock;
mod stuck;
mod two;

use std::path::{Path, PathBuf};

use crate::history::History;
use crate::invariant::Violation;
use crate::page::{Mood, Run, Scene, Table, page, svg};
use testbed::etcd::Version;
use testbed::redis::{lacks_clock, lacks_redis, lacks_sentinel};

/// What goes wrong beneath a story: a sentence for the user.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// An accident that people have.
#[derive(Debug, Clone, Copy)]
pub struct Story {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in one sentence.
    pub about: &'static str,
    /// Whether it can be told on a server that is there already; the others
    /// break their servers, or count what they do.
    takes_url: bool,
    /// How many strategies it tries, one after the other.
    pub strategies: u64,
    /// What is missing on this machine, if something is.
    lacks: fn() -> Option<&'static str>,
    tell: fn(&Stage<'_>) -> Result<Report, Error>,
}

/// All stories, in the order in which people meet the accidents.
pub const STORIES: &[Story] = &[
    Story {
        name: "oversell",
        about: "A flash sale with every lock that people write, from none to a fenced one",
        takes_url: true,
        strategies: 11,
        lacks: lacks_redis,
        tell: oversell::tell,
    },
    Story {
        name: "pause",
        about: "The holder stands still past its time and wakes up writing",
        takes_url: true,
        strategies: 3,
        lacks: lacks_redis,
        tell: pause::tell,
    },
    Story {
        name: "clock",
        about: "The clock of one Redlock node jumps, and two hold",
        takes_url: false,
        strategies: 2,
        lacks: || lacks_redis().or(lacks_clock()),
        tell: redlock::clock,
    },
    Story {
        name: "failover",
        about: "A primary dies before it has told its replicas of the lock",
        takes_url: false,
        strategies: 4,
        lacks: || lacks_sentinel().or(Version::System.lacks()),
        tell: failover::tell,
    },
    Story {
        name: "partition",
        about: "The holder is cut off from its store, and comes back",
        takes_url: false,
        strategies: 3,
        lacks: lacks_redis,
        tell: partition::tell,
    },
    Story {
        name: "amnesia",
        about: "A Redlock node restarts without its data, and two hold",
        takes_url: false,
        strategies: 2,
        lacks: lacks_redis,
        tell: redlock::amnesia,
    },
    Story {
        name: "herd",
        about: "Two hundred wait for one lock: what a hand-over costs the server",
        takes_url: false,
        strategies: 4,
        lacks: lacks_redis,
        tell: herd::tell,
    },
    Story {
        name: "stuck",
        about: "A holder lives and does nothing",
        takes_url: true,
        strategies: 4,
        lacks: lacks_redis,
        tell: stuck::tell,
    },
];

/// What a story is told with.
pub struct Stage<'a> {
    /// A folder for servers and their data, gone afterwards.
    pub folder: &'a Path,
    /// A Redis server that is there already; else one is started.
    pub url: Option<&'a str>,
    /// Says what is being tried, once for each strategy.
    pub progress: &'a dyn Fn(&str),
}

impl std::fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// What came out of a story.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Verdicts, one per strategy.
    pub table: Table,
    /// What happened, one run per strategy.
    pub runs: Vec<Told>,
    /// What did not come out as the theory says.
    pub surprises: Vec<String>,
}

/// One run of a story.
#[derive(Debug, Clone)]
pub struct Told {
    /// The strategy.
    pub title: String,
    /// What happened.
    pub history: History,
    /// What must not have.
    pub violations: Vec<Violation>,
}

impl Story {
    /// The one with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        STORIES.iter().find(|story| story.name == name)
    }

    /// What is missing on this machine to tell it, if something is.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        (self.lacks)()
    }

    /// Lets it happen.
    ///
    /// # Errors
    /// If something is missing, or a worker cannot be started.
    pub fn tell(&self, stage: &Stage<'_>) -> Result<Report, Error> {
        self.may_take(stage.url)?;
        match self.lacks() {
            Some(what) => Err(format!("{what} is missing on this machine").into()),
            None => (self.tell)(stage),
        }
    }

    /// Whether it can be told on this server, if one is named.
    ///
    /// # Errors
    /// That it cannot, in one line for people.
    pub fn may_take(&self, url: Option<&str>) -> Result<(), Error> {
        if url.is_none() || self.takes_url {
            return Ok(());
        }
        let others = STORIES.iter().filter(|story| story.takes_url);
        let others: Vec<_> = others.map(|story| story.name).collect();
        let (name, others) = (self.name, others.join(", "));
        Err(format!("{name} starts servers of its own; --url is for {others}").into())
    }
}

impl Report {
    /// Takes a run and its verdict: what is seen, and what theory expects.
    fn add(&mut self, told: Told, fields: Vec<String>, is_bad: bool, should_be_bad: bool) {
        if is_bad != should_be_bad {
            let what = match is_bad {
                true => "went wrong and should not have",
                false => "did not go wrong",
            };
            self.surprises.push(format!("{}: {what}", told.title));
        }
        let mood = match is_bad {
            true => Mood::Bad,
            false => Mood::Good,
        };
        let name = told.title.clone();
        let row = std::iter::once(name).chain(fields).collect();
        self.table.rows.push((mood, row));
        self.runs.push(told);
    }

    /// The page with the verdicts and a picture of each run.
    #[must_use]
    pub fn page(&self, story: &Story) -> String {
        let runs = self.runs.iter().map(|told| Run {
            title: &told.title,
            history: &told.history,
            violations: &told.violations,
        });
        let title = format!("leasehold-lab: {}", story.name);
        page(&title, story.about, &self.table, &runs.collect::<Vec<_>>())
    }

    /// Writes the page and each history into this folder, and gives the page.
    ///
    /// # Errors
    /// As writing does.
    pub fn write(&self, story: &Story, folder: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        for (number, told) in self.runs.iter().enumerate() {
            let file = folder.join(format!("{}-{}.jsonl", story.name, number + 1));
            let file = std::io::BufWriter::new(std::fs::File::create(file)?);
            told.history.write(file)?;
        }
        let path = folder.join(format!("{}.html", story.name));
        std::fs::write(&path, self.page(story))?;
        Ok(path)
    }

    /// Writes the picture of each run into this folder as a file of its own.
    ///
    /// # Errors
    /// As writing does.
    pub fn write_pictures(&self, story: &Story, folder: &Path) -> std::io::Result<()> {
        for (number, told) in self.runs.iter().enumerate() {
            let file = folder.join(format!("{}-{}.svg", story.name, number + 1));
            std::fs::write(file, svg(&Scene::new(&told.history, &told.violations)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_takes_a_url_or_says_in_one_line_that_it_does_not() {
        let folder = Path::new("/nowhere");
        for story in STORIES {
            let stage = Stage {
                folder,
                // Nothing listens there.
                url: Some("redis://127.0.0.1:1"),
                progress: &|_| {},
            };
            if story.takes_url {
                assert!(story.may_take(stage.url).is_ok(), "{}", story.name);
                continue;
            }
            let refused = story.tell(&stage).unwrap_err().to_string();
            let line = "starts servers of its own; --url is for oversell, pause, stuck";
            assert_eq!(refused, format!("{} {line}", story.name));
        }
    }
}
