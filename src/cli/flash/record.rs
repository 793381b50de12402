//! A run on a real port: its journal on disk, its progress on the terminal, and its record beside the backup.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::super::init::person::{Person, yes_unless};
use super::bench::Bench;
use crate::devices::settings::{Order, SettingsEvent};
use crate::flash::Hands;
use crate::flash::journal::Journal;
use crate::flash::run::{Goal, Outcome, Run};
use crate::store;

/// The hands of a run.
pub(super) struct Record<'a> {
    bench: Bench,
    journal: Journal,
    file: PathBuf,
    person: &'a mut dyn Person,
    bar: ProgressBar,
}

impl<'a> Record<'a> {
    pub(super) fn new(bench: Bench, journal: Journal, file: PathBuf, person: &'a mut dyn Person) -> Record<'a> {
        let target =
            if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Record { bench, journal, file, person, bar }
    }

    /// Closes the journal of a run that ended well, and writes down beside the backup what was done.
    ///
    /// # Errors
    /// In words, when a file can't be removed or written: the controller is then as was told.
    pub(super) fn finish(self, outcome: &Outcome, log: &[String], told: &str) -> Result<(), String> {
        self.bar.finish_and_clear();
        let record = self.journal.backup.with_extension("log");
        let text = format!("{}\n\n{}\n\n{told}\n", self.journal.began, log.join("\n"));
        let written = store::replace(&record, text.as_bytes()).map_err(|e| e.what);
        if !matches!(outcome, Outcome::Mixed { .. }) {
            std::fs::remove_file(&self.file)
                .or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
                .map_err(|e| {
                    format!("{told}\nBut the journal {} can't be removed: {e}. Remove it by hand", self.file.display())
                })?;
        }
        written
    }
}

impl Hands for Record<'_> {
    fn order(&mut self, order: Order) -> SettingsEvent {
        self.bench.order(order)
    }

    fn keep(&mut self, goal: Goal) -> Result<(), String> {
        self.journal.goal = goal;
        self.journal.write(&self.file).map_err(|e| e.what)
    }

    fn power_cycle(&mut self) -> bool {
        if !self.person.is_there() {
            return false;
        }
        let over = self.bench.over();
        self.bar.suspend(|| {
            let question = "The controller can't be restarted from here. Switch it off and on, after a yes. Will you";
            let will = yes_unless(self.person, question, true, &over);
            if will {
                self.person.say("Switch it off and on now; it is waited for, for at most five minutes.");
            }
            will
        })
    }

    fn ended(&mut self) -> bool {
        self.bench.heed()
    }

    fn progress(&mut self, run: &Run) {
        let (goal, total, left, what) = run.progress();
        self.bar.set_length(total as u64);
        self.bar.set_position(total.saturating_sub(left) as u64);
        self.bar.set_prefix(if goal == Goal::New { "writing" } else { "going back" });
        self.bar.set_message(what);
    }
}
