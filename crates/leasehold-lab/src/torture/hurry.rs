//! Who wants a run without a fence to go wrong. Nobody knows how long work takes,
//! so it may as well be over when two believe to hold and the later one has
//! read: then whoever was first writes what the other does not know of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::history::{Event, Line};
use crate::recorder::Recorder;

/// How often the history is looked at.
const EVERY: Duration = Duration::from_millis(3);

/// Looks at a history until it is dropped, and makes a file while two believe.
#[derive(Debug)]
pub(super) struct Hurry {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hurry {
    pub(super) fn start(recorder: &Recorder, file: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (ends, recorder) = (is_over.clone(), recorder.clone());
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            let mut beliefs = Beliefs::default();
            let mut is_told = false;
            while !ends.load(Ordering::Relaxed) {
                for line in recorder.after(count) {
                    count += 1;
                    beliefs.take(&line);
                }
                if beliefs.are_two() != is_told {
                    is_told = !is_told;
                    // Whether it is there is all that counts; a folder that is
                    // gone is the end of the run.
                    let _ = match is_told {
                        true => std::fs::write(&file, ""),
                        false => std::fs::remove_file(&file),
                    };
                }
                std::thread::sleep(EVERY);
            }
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// PURE: who believes to hold now, and whether it has read.
#[derive(Debug, Default)]
struct Beliefs {
    holders: BTreeMap<String, bool>,
}

impl Beliefs {
    fn take(&mut self, line: &Line) {
        match &line.event {
            Event::Granted { .. } => {
                self.holders.insert(line.by.clone(), false);
            }
            Event::Answered { .. } => {
                if let Some(has_read) = self.holders.get_mut(&line.by) {
                    *has_read = true;
                }
            }
            Event::Releases | Event::Lost { .. } | Event::Killed | Event::Failed { .. } => {
                self.holders.remove(&line.by);
            }
            _ => {}
        }
    }

    fn are_two(&self) -> bool {
        self.holders.len() > 1 && self.holders.values().all(|&has_read| has_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Outcome;
    use crate::history::tests::{granted, line};

    #[test]
    fn two_believe_from_the_read_of_the_second_until_one_knows_better() {
        let answered = || Event::Answered {
            outcome: Outcome::Ok,
            value: Some(0),
        };
        let lost = Event::Lost { why: "gone".into() };
        let steps = [
            (line(1, "a", granted(1, 9)), false),
            (line(2, "a", answered()), false),
            (line(3, "b", granted(2, 9)), false),
            (line(4, "b", answered()), true),
            (line(5, "a", lost), false),
        ];
        let mut beliefs = Beliefs::default();
        for (line, are_two) in steps {
            beliefs.take(&line);
            assert_eq!(beliefs.are_two(), are_two, "{line:?}");
        }
    }
}
