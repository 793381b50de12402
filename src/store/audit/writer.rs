//! The thread behind the audit log: the chain, files, rotation, fsync, and what happens when the disk is full.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::chain::{self, Newest};
use super::commands::PastCommand;
use super::past::{self, file_name, log_files};
use super::{LoggedEvent, Message, RING, Receipt, Shared};
use crate::model::RigError;
use crate::store::files;

/// Events written at once.
const BATCH: usize = 256;

/// Written lines are on the disk after this; short of the second that is promised.
const SYNC: Duration = Duration::from_millis(700);

/// How often a file that can't be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Lines kept for a file that can't be written at present.
const BACKLOG: usize = 5_000;

/// Held while lines are appended: two processes that share a data folder write one chain.
const LOCK: &str = "log.lock";

/// A line that says that the one before it was cut off.
pub(super) const TORN: &str = "log_torn";

/// A line that says that lines are missing which had been there.
pub(super) const CUT: &str = "log_cut";

/// A line that stands for lines that could not be written.
pub(super) const GAP: &str = "log_gap";

pub(super) struct Writer {
    dir: PathBuf,
    file_bytes: u64,
    shared: Arc<Shared>,
    file: Option<Open>,
    /// The line that ends the log.
    head: Newest,
    /// Whether that is where its files end.
    settled: bool,
    /// The line that is known to be on the disk, on record.
    kept: Newest,
    unsynced: Option<Instant>,
    backlog: VecDeque<LoggedEvent>,
    lost: u64,
    /// What was found when a file was opened, to be told before anything else.
    marks: Vec<LoggedEvent>,
}

struct Open {
    file: File,
    path: PathBuf,
    day: String,
    part: u32,
    len: u64,
}

/// What went wrong, and with which file.
type Failed = (PathBuf, io::Error);

impl Writer {
    /// A writer that goes on where the log in `dir` ends, and the commands of earlier runs.
    pub(super) fn open(
        dir: PathBuf,
        file_bytes: u64,
        shared: Arc<Shared>,
    ) -> Result<(Writer, Vec<PastCommand>), RigError> {
        let failed = |(path, e): Failed| files::failed(&path, "write", &e);
        let kept = Newest::kept(&dir).map_err(|e| failed((dir.join(chain::NEWEST), e)))?;
        let mut writer = Writer {
            dir,
            file_bytes,
            shared,
            file: None,
            head: Newest::none(),
            settled: false,
            kept: kept.clone().unwrap_or_else(Newest::none),
            unsynced: None,
            backlog: VecDeque::new(),
            lost: 0,
            marks: Vec::new(),
        };
        let lock = writer.lock().map_err(failed)?;
        let past = writer.go_on(RING, kept.as_ref()).map_err(failed)?;
        if kept.is_none() {
            // From now on there is a record as long as there is a chain.
            writer.kept = writer.head.clone();
            writer.kept.keep(&writer.dir)?;
        }
        writer.ready(0).map_err(failed)?;
        drop(lock);
        *writer.shared.ring.lock() = past.events;
        if !writer.marks.is_empty() {
            writer.write(Vec::new());
        }
        Ok((writer, past.commands))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Writes until all senders are gone.
    pub(super) fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let wait = match self.unsynced {
                Some(since) => SYNC.saturating_sub(since.elapsed()),
                None if !self.backlog.is_empty() => RETRY,
                None => Duration::from_secs(3600),
            };
            match messages.recv_timeout(wait) {
                Ok(first) => {
                    let more = messages.try_iter().take(BATCH - 1);
                    self.batch(std::iter::once(first).chain(more).collect());
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.backlog.is_empty() {
                        self.write(Vec::new());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.unsynced.is_some_and(|since| since.elapsed() >= SYNC) {
                self.sync();
            }
        }
        if !self.backlog.is_empty() {
            self.write(Vec::new());
        }
        self.sync();
    }

    fn batch(&mut self, messages: Vec<Message>) {
        let mut events: Vec<LoggedEvent> = Vec::new();
        let mut receipts: Vec<Receipt> = Vec::new();
        let mut flushes: Vec<SyncSender<()>> = Vec::new();
        for message in messages {
            match message {
                Message::Event(event, at, receipt) => {
                    events.push(LoggedEvent::new(event, at));
                    receipts.push(receipt);
                }
                Message::Flush(done) => flushes.push(done),
            }
        }
        if !receipts.is_empty() {
            let written = self.write(events);
            receipts.iter().for_each(|r| r.set(written));
            if let Some(wake) = &*self.shared.wake.lock() {
                wake();
            }
        }
        if !flushes.is_empty() {
            self.sync();
            for done in flushes {
                // Who has stopped waiting needs no answer.
                let _ = done.try_send(());
            }
        }
    }

    /// Appends what has waited, and then `events`; whether that went well. What can't be written waits.
    fn write(&mut self, events: Vec<LoggedEvent>) -> bool {
        let fresh = events.len();
        self.backlog.extend(events);
        let result = self.append();
        if result.is_err() {
            self.number(self.head.seq);
        }
        {
            let mut ring = self.shared.ring.lock();
            ring.extend(self.backlog.range(self.backlog.len() - fresh..).cloned());
            while ring.len() > RING {
                ring.pop_front();
            }
        }
        match result {
            Ok(()) => {
                self.backlog.clear();
                self.lost = 0;
                *self.shared.failing.lock() = None;
                self.unsynced.get_or_insert_with(Instant::now);
                true
            }
            Err((path, e)) => {
                *self.shared.failing.lock() = Some(files::failed(&path, "write", &e).what);
                while self.backlog.len() > BACKLOG {
                    self.backlog.pop_front();
                    self.lost += 1;
                }
                false
            }
        }
    }

    /// Numbers what waits, after `last`; lines that are lost keep their numbers.
    fn number(&mut self, last: u64) {
        let mut seq = last.saturating_add(self.lost);
        for event in &mut self.backlog {
            seq = seq.saturating_add(1);
            event.seq = seq;
        }
    }

    /// Appends all that waits, as one chain. If that fails, what was written of it is taken back.
    fn append(&mut self) -> Result<(), Failed> {
        let _lock = self.lock()?;
        self.ready(0)?;
        let mut head = self.head.clone();
        let mut text = String::new();
        let mut add = |event: &LoggedEvent| {
            let line = chain::seal(&escaped(event), &head.hash);
            head = Newest { seq: event.seq, hash: chain::hash(line.as_bytes()) };
            text.push_str(&line);
            text.push('\n');
        };
        let mut last = self.head.seq;
        for mark in &mut self.marks {
            last = last.saturating_add(1);
            mark.seq = last;
            add(mark);
        }
        self.number(last);
        if self.lost > 0 {
            let what = format!("{} events before this could not be written", self.lost);
            let facts = Map::from_iter([("lost".to_owned(), self.lost.into())]);
            // It stands for the last of them.
            add(&LoggedEvent { seq: last.saturating_add(self.lost), ..mark(GAP, what, facts) });
        }
        self.backlog.iter().for_each(&mut add);
        let open = self.ready(text.len() as u64)?;
        if let Err(e) = open.file.write_all(text.as_bytes()) {
            let failed = (open.path.clone(), e);
            // If this fails too, opening the file anew ends the torn line and says so.
            let _ = open.file.set_len(open.len);
            (self.file, self.settled) = (None, false);
            return Err(failed);
        }
        open.len += text.len() as u64;
        self.head = head;
        self.shared.ring.lock().extend(self.marks.drain(..));
        Ok(())
    }

    /// The right to append; free again when it is dropped.
    fn lock(&self) -> Result<File, Failed> {
        let path = self.dir.join(LOCK);
        let lock = || {
            std::fs::create_dir_all(&self.dir)?;
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            match file.lock() {
                // A file system without locks has one process at most.
                Err(e) if e.kind() != io::ErrorKind::Unsupported => Err(e),
                _ => Ok(file),
            }
        };
        lock().map_err(|e| (path.clone(), e))
    }

    /// The file for `more` bytes now: the one that is open, or the next. Where somebody else has written, cut or
    /// removed it meanwhile, the chain goes on from what is there.
    fn ready(&mut self, more: u64) -> Result<&mut Open, Failed> {
        let newest = log_files(&self.dir).ok().and_then(|all| all.into_iter().last());
        let untouched = |open: &Open| {
            newest.as_ref().is_some_and(|(day, part)| *day == open.day && *part == open.part)
                && std::fs::metadata(&open.path).is_ok_and(|m| m.len() == open.len)
        };
        if self.file.as_ref().is_some_and(|open| !untouched(open)) {
            self.file = None;
            self.settled = false;
        }
        if !self.settled {
            let head = self.head.clone();
            self.go_on(0, Some(&head))?;
        }
        // A clock that was set back doesn't lead back into an earlier file: files stand in the order of the chain.
        let today = day_of(Timestamp::now());
        let day = match &newest {
            Some((day, _)) if *day > today => day.clone(),
            _ => today,
        };
        let limit = self.file_bytes;
        let fits = |open: &Open| open.day == day && (open.len == 0 || open.len + more <= limit);
        if self.file.as_ref().is_some_and(|open| !fits(open)) {
            self.sync();
        }
        let current = match self.file.take() {
            Some(open) if fits(&open) => open,
            _ => {
                let part = newest.filter(|(d, _)| *d == day).map_or(0, |(_, part)| part);
                let open = open_part(&self.dir, &day, part)?;
                if fits(&open) { open } else { open_part(&self.dir, &day, part + 1)? }
            }
        };
        Ok(self.file.insert(current))
    }

    /// Finds where the log ends, and notes what is not as it should be: a line that is cut off there, or that
    /// `expected`, which was the newest, is gone.
    fn go_on(&mut self, events: usize, expected: Option<&Newest>) -> Result<past::Past, Failed> {
        let past = past::look_back(&self.dir, events, expected).map_err(|e| (self.dir.clone(), e))?;
        let mut head = Newest { seq: past.seq, ..Newest::none() };
        if let Some(last) = &past.last {
            head.hash.clone_from(&last.hash);
            if !last.ended {
                let end = || OpenOptions::new().append(true).open(&last.file)?.write_all(b"\n");
                end().map_err(|e| (last.file.clone(), e))?;
            }
            if !last.ended && !last.whole {
                let what = "The line before this was cut off: the program ended, or the disk was full, while it was \
                            written. It is kept as it is.";
                let facts = Map::from_iter([("bytes".to_owned(), last.bytes.into())]);
                self.marks.push(mark(TORN, what.to_owned(), facts));
            }
        }
        if let Some(expected) = expected.filter(|_| !past.known) {
            let what = format!(
                "The end of the log was changed or cut off: line {} was the newest, and is not there any more. What is \
                 there ends with line {}.",
                expected.seq, past.seq
            );
            let facts = [("newest_was", expected.hash.clone().into()), ("newest_seq_was", expected.seq.into())];
            let facts = facts.into_iter().map(|(k, v): (&str, Value)| (k.to_owned(), v)).collect();
            if self.marks.iter().all(|m| m.kind != CUT) {
                self.marks.push(mark(CUT, what, facts));
            }
            head.seq = head.seq.max(expected.seq);
            if past.last.is_none() {
                head.hash.clone_from(&expected.hash);
            }
        }
        self.head = head;
        self.settled = true;
        Ok(past)
    }

    fn sync(&mut self) {
        if self.unsynced.take().is_none() {
            return;
        }
        let Some(open) = &self.file else { return };
        if let Err(e) = open.file.sync_data() {
            *self.shared.failing.lock() = Some(files::failed(&open.path, "write", &e).what);
        } else if self.kept != self.head {
            // The lines are safe without it; only that their end isn't cut off can't be shown then.
            match self.head.keep(&self.dir) {
                Ok(()) => self.kept.clone_from(&self.head),
                Err(e) => tracing::warn!("{}", e.what),
            }
        }
    }
}

/// A line that the log writes about itself; it is numbered later.
fn mark(kind: &str, what: String, facts: Map<String, Value>) -> LoggedEvent {
    LoggedEvent {
        t: super::stamp(Timestamp::now()),
        seq: 0,
        kind: kind.into(),
        device: None,
        caller: None,
        what,
        facts,
    }
}

/// The event as an object on one line. JSON escapes most control characters; the rest (DEL, C1, line separators, marks
/// that turn the direction of text) are escaped here, so that no terminal obeys what a device said.
fn escaped(event: &LoggedEvent) -> String {
    let json = serde_json::to_string(event).unwrap_or_else(|e| {
        // Unreachable by the types; a log must not lose the number all the same.
        format!(r#"{{"t":"{}","seq":{},"kind":"{GAP}","what":"not JSON: {e:?}"}}"#, event.t, event.seq)
    });
    super::harmless(&json)
}

fn day_of(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// Opens a file to append to.
fn open_part(dir: &Path, day: &str, part: u32) -> Result<Open, Failed> {
    let path = dir.join(file_name(day, part));
    let open = || {
        std::fs::create_dir_all(dir)?;
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let len = file.metadata()?.len();
        Ok((file, len))
    };
    match open() {
        Ok((file, len)) => Ok(Open { file, path, day: day.to_owned(), part, len }),
        Err(e) => Err((path, e)),
    }
}
