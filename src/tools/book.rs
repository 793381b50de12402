//! The book of commands: which job belongs to which call, what came of it, and which `command_id` was used.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::answer::{Outcome, ToolError};
use crate::actor::Ticket;
use crate::model::{Code, JobId, Report, RigError};
use crate::store::PastCommand;

/// How many finished commands are remembered.
const REMEMBERED: usize = 128;

/// How many of those that were given a `command_id`: forgetting one means that it would be done again.
const WITH_ID: usize = 512;

/// Of how many finished commands the picture is kept in memory, too.
const WITH_PICTURE: usize = 4;

/// A command's outcome, once it is there.
pub(crate) type Told = watch::Receiver<Option<Arc<Outcome>>>;

/// One command.
#[derive(Clone)]
pub(crate) struct Entry {
    /// Its job.
    pub(crate) job: JobId,
    /// The tool that began it.
    pub(crate) tool: &'static str,
    /// The stage whose state it changes, for `state_epoch`.
    pub(crate) stage: Option<crate::model::Name>,
    /// Its outcome.
    pub(crate) told: Told,
    key: Option<Key>,
}

/// What tells one command from another. Two clients may use the same ids; one that comes again in another session is
/// known by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// What the client calls itself.
    pub(crate) client: String,
    /// The client's `command_id`.
    pub(crate) id: String,
    /// The hash of tool and arguments.
    pub(crate) hash: String,
}

impl Entry {
    /// The outcome, if it is there.
    pub(crate) fn outcome(&self) -> Option<Arc<Outcome>> {
        self.told.borrow().clone()
    }

    /// Waits for the outcome.
    pub(crate) async fn ended(&self) -> Arc<Outcome> {
        let mut told = self.told.clone();
        let found = told.wait_for(Option::is_some).await.ok().and_then(|o| o.clone());
        found.unwrap_or_else(|| {
            let what = format!("What came of {} was lost by a fault of the server.", self.job);
            let error = RigError::new(Code::Internal, what).moved(crate::model::Moved::Unknown);
            Arc::new(Err(error.into()))
        })
    }
}

/// What beginning a command gave.
pub(crate) enum Begun {
    /// A new one: the caller sees to it that the outcome is told.
    New {
        /// Its entry.
        entry: Entry,
        /// The rig's answer to come.
        ticket: Ticket<Report>,
        /// Where its outcome goes.
        tell: watch::Sender<Option<Arc<Outcome>>>,
    },
    /// One that was begun before under the same `command_id`.
    Known(Entry),
    /// One that an earlier run of the program had begun.
    Earlier(PastCommand),
}

/// The commands of this run of the program, and what is known of those of earlier runs.
#[derive(Default)]
pub(crate) struct Book {
    entries: Mutex<VecDeque<Entry>>,
    /// The newest first.
    earlier: Vec<PastCommand>,
}

/// A `command_id` that is used again for something else.
fn used(id: &str, by: &str) -> ToolError {
    let id = super::args::cut(id);
    let what = format!("command_id {id:?} was used for another command ({by}); a new command needs a new one.");
    ToolError::new(Code::CommandIdUsed, what)
}

impl Book {
    /// A book that knows the commands of earlier runs, the newest first.
    pub(crate) fn after(earlier: &[PastCommand]) -> Book {
        Book { entries: Mutex::default(), earlier: earlier.to_vec() }
    }

    /// Begins a command, unless its `command_id` was used before. `start` hands it to the rig; it must not
    /// wait, because the book is locked meanwhile, so that the same id sent twice at once begins once.
    ///
    /// # Errors
    /// `command_id_used` when the id was used for something else; what `start` said otherwise, and the id
    /// is free again.
    pub(crate) fn begin(
        &self,
        tool: &'static str,
        stage: Option<&crate::model::Name>,
        key: Option<Key>,
        start: impl FnOnce() -> Result<Ticket<Report>, RigError>,
    ) -> Result<Begun, ToolError> {
        let mut entries = self.entries.lock();
        if let Some(key) = &key {
            let same_id = |k: &Key| k.id == key.id && k.client == key.client;
            let known = entries.iter().find(|e| e.key.as_ref().is_some_and(same_id));
            if let Some(entry) = known {
                return if entry.tool == tool && entry.key.as_ref() == Some(key) {
                    Ok(Begun::Known(entry.clone()))
                } else {
                    Err(used(&key.id, &format!("{} of {}", entry.tool, entry.job)))
                };
            }
            if let Some(past) = self.earlier.iter().find(|p| p.id == key.id && p.client == key.client) {
                return if past.tool == tool && past.hash == key.hash {
                    Ok(Begun::Earlier(past.clone()))
                } else {
                    Err(used(&key.id, &format!("{} at {}, before the server was started anew", past.tool, past.t)))
                };
            }
        }
        let ticket = start()?;
        let Some(job) = ticket.job() else {
            return Err(ToolError::new(Code::Internal, "The rig gave a plan no number."));
        };
        let (tell, told) = watch::channel(None);
        let entry = Entry { job, tool, stage: stage.cloned(), told, key };
        entries.push_back(entry.clone());
        prune(&mut entries);
        Ok(Begun::New { entry, ticket, tell })
    }

    /// The jobs of all commands that are remembered.
    pub(crate) fn jobs(&self) -> Vec<JobId> {
        self.entries.lock().iter().map(|e| e.job).collect()
    }

    /// The command of that job.
    pub(crate) fn find(&self, job: JobId) -> Option<Entry> {
        self.entries.lock().iter().find(|e| e.job == job).cloned()
    }
}

/// Forgets the oldest that have ended, and the pictures of all but the newest.
fn prune(entries: &mut VecDeque<Entry>) {
    let (mut ended, mut with_id) = (0, 0);
    let mut kept = VecDeque::with_capacity(entries.len());
    while let Some(mut entry) = entries.pop_back() {
        if let Some(outcome) = entry.outcome() {
            ended += 1;
            with_id += usize::from(entry.key.is_some());
            let forget = if entry.key.is_some() { with_id > WITH_ID } else { ended > REMEMBERED };
            if forget {
                continue;
            }
            if ended > WITH_PICTURE
                && let Ok(answer) = &*outcome
                && answer.picture.is_some()
            {
                let mut without = answer.clone();
                without.picture = None;
                entry.told = watch::channel(Some(Arc::new(Ok(without)))).1;
            }
        }
        kept.push_front(entry);
    }
    *entries = kept;
}

#[cfg(test)]
mod tests {
    use super::super::answer::Answer;
    use super::*;

    fn entry(n: u64, picture: bool) -> Entry {
        let mut answer = Answer::ok("done");
        answer.picture = picture.then(|| "iVBOR".into());
        let told = watch::channel(Some(Arc::new(Ok(answer)))).1;
        Entry { job: JobId(n), tool: "move_to", stage: None, told, key: None }
    }

    #[test]
    fn the_book_stays_small_and_running_commands_stay_in_it() {
        let mut entries: VecDeque<Entry> = (1..=300).map(|n| entry(n, true)).collect();
        let (tell, told) = watch::channel(None);
        entries.push_front(Entry { job: JobId(0), tool: "home", stage: None, told, key: None });
        prune(&mut entries);
        assert_eq!(entries.len(), REMEMBERED + 1);
        assert_eq!((entries[0].job, entries[1].job), (JobId(0), JobId(300 - REMEMBERED as u64 + 1)));
        let pictures = entries
            .iter()
            .filter_map(Entry::outcome)
            .filter(|o| o.as_ref().as_ref().is_ok_and(|a| a.picture.is_some()));
        assert_eq!(pictures.count(), WITH_PICTURE);
        drop(tell);
    }

    #[test]
    fn what_was_given_an_id_is_remembered_longer_and_not_for_ever() {
        let key = |n: u64| Key { client: "test".into(), id: format!("c{n}"), hash: String::new() };
        let keyed = |n: u64| Entry { key: Some(key(n)), ..entry(n, false) };
        let mut entries: VecDeque<Entry> =
            (1..=1000).map(|n| if n % 2 == 0 { keyed(n) } else { entry(n, false) }).collect();
        prune(&mut entries);
        let with_id: Vec<u64> = entries.iter().filter(|e| e.key.is_some()).map(|e| e.job.0).collect();
        assert_eq!(with_id.len(), 500, "all of them, though 1000 commands have ended");
        assert!(entries.iter().filter(|e| e.key.is_none()).all(|e| e.job.0 > 1000 - REMEMBERED as u64));
        entries.extend((1001..=1100).map(keyed));
        prune(&mut entries);
        assert_eq!(entries.iter().filter(|e| e.key.is_some()).count(), WITH_ID);
    }

    #[test]
    fn a_command_of_an_earlier_run_is_never_begun_again() {
        let past = |id: &str| PastCommand {
            client: "c".into(),
            id: id.into(),
            hash: "h".into(),
            tool: "move_by".into(),
            t: "2026-11-30T12:00:00.000Z".into(),
            outcome: None,
        };
        let book = Book::after(&[past("a")]);
        let key =
            |client: &str, id: &str, hash: &str| Some(Key { client: client.into(), id: id.into(), hash: hash.into() });
        let begin = |tool, key| book.begin(tool, None, key, || Err(RigError::new(Code::Busy, "it was begun")));
        assert!(matches!(begin("move_by", key("c", "a", "h")), Ok(Begun::Earlier(found)) if found == past("a")));
        let code = |begun: Result<Begun, ToolError>| begun.err().map(|e| e.error.code);
        assert_eq!(code(begin("move_by", key("c", "a", "other"))), Some(Code::CommandIdUsed));
        assert_eq!(code(begin("move_to", key("c", "a", "h"))), Some(Code::CommandIdUsed));
        for new in [key("d", "a", "h"), key("c", "b", "h"), None] {
            assert_eq!(code(begin("move_by", new)), Some(Code::Busy), "another client, another id or none");
        }
    }

    #[tokio::test]
    async fn an_outcome_that_nobody_will_tell_is_an_error_and_no_silence() {
        let (tell, told) = watch::channel(None);
        let entry = Entry { job: JobId(3), tool: "home", stage: None, told, key: None };
        drop(tell);
        let outcome = entry.ended().await;
        assert_eq!(outcome.as_ref().as_ref().unwrap_err().error.code, Code::Internal);
    }
}
