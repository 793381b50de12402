//! The thread behind the audit log: files, rotation, fsync, and what happens when the disk is full.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{LoggedEvent, Message, RING, Receipt, Shared};
use crate::model::{RigError, is_obeyed};
use crate::store::files;

/// Events written at once.
const BATCH: usize = 256;

/// Written lines are on the disk after this; short of the second that is promised.
const SYNC: Duration = Duration::from_millis(700);

/// How often a file that can't be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Lines kept for a file that can't be written at present.
const BACKLOG: usize = 5_000;

/// How much of each file is read back.
const TAIL: u64 = 8 << 20;

pub(super) struct Writer {
    dir: PathBuf,
    file_bytes: u64,
    shared: Arc<Shared>,
    file: Option<Open>,
    next: u64,
    unsynced: Option<Instant>,
    backlog: VecDeque<String>,
    lost: u64,
}

struct Open {
    file: File,
    path: PathBuf,
    day: String,
    part: u32,
    len: u64,
}

impl Writer {
    pub(super) fn open(dir: PathBuf, file_bytes: u64, shared: Arc<Shared>) -> Result<Writer, RigError> {
        let next = shared.ring.lock().iter().map(|e| e.seq).max().map_or(1, |last| last.saturating_add(1));
        let mut writer =
            Writer { dir, file_bytes, shared, file: None, next, unsynced: None, backlog: VecDeque::new(), lost: 0 };
        writer.ready(&day_of(Timestamp::now()), 0).map_err(|(path, e)| files::failed(&path, "write", &e))?;
        Ok(writer)
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
                        self.write(String::new());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.unsynced.is_some_and(|since| since.elapsed() >= SYNC) {
                self.sync();
            }
        }
        if !self.backlog.is_empty() {
            self.write(String::new());
        }
        self.sync();
    }

    fn batch(&mut self, messages: Vec<Message>) {
        let mut lines = String::new();
        let mut receipts: Vec<Receipt> = Vec::new();
        let mut flushes: Vec<SyncSender<()>> = Vec::new();
        for message in messages {
            match message {
                Message::Event(event, at, receipt) => {
                    let event = LoggedEvent::new(event, at, self.next);
                    self.next = self.next.saturating_add(1);
                    lines.push_str(&line(&event));
                    receipts.push(receipt);
                    let mut ring = self.shared.ring.lock();
                    ring.push_back(event);
                    while ring.len() > RING {
                        ring.pop_front();
                    }
                }
                Message::Flush(done) => flushes.push(done),
            }
        }
        if !receipts.is_empty() {
            let written = self.write(lines);
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

    /// Appends what has waited, and then `lines`; whether that went well. What can't be written waits.
    fn write(&mut self, lines: String) -> bool {
        let mut text: String = self.backlog.iter().map(String::as_str).collect();
        if self.lost > 0 {
            let what = format!("{} events before this could not be written", self.lost);
            text = line(&LoggedEvent { what, ..self.gap() }) + &text;
        }
        text.push_str(&lines);
        match self.append(text.as_bytes()) {
            Ok(()) => {
                self.backlog.clear();
                self.lost = 0;
                *self.shared.failing.lock() = None;
                self.unsynced.get_or_insert_with(Instant::now);
                true
            }
            Err((path, e)) => {
                *self.shared.failing.lock() = Some(files::failed(&path, "write", &e).what);
                self.backlog.extend(lines.split_inclusive('\n').map(str::to_owned));
                while self.backlog.len() > BACKLOG {
                    self.backlog.pop_front();
                    self.lost += 1;
                }
                false
            }
        }
    }

    /// The line that stands for lost ones; it has the number before the oldest that is left.
    fn gap(&self) -> LoggedEvent {
        LoggedEvent {
            t: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            seq: self.next.saturating_sub(self.backlog.len() as u64 + 1),
            kind: "log_gap".into(),
            device: None,
            caller: None,
            what: String::new(),
            facts: serde_json::Map::new(),
        }
    }

    /// Appends to the day's file. If that fails, what was written of it is taken back.
    fn append(&mut self, text: &[u8]) -> Result<(), (PathBuf, io::Error)> {
        let day = day_of(Timestamp::now());
        let open = self.ready(&day, text.len() as u64)?;
        if let Err(e) = open.file.write_all(text) {
            let failed = (open.path.clone(), e);
            // If this fails too, opening the file anew ends the torn line.
            let _ = open.file.set_len(open.len);
            self.file = None;
            return Err(failed);
        }
        open.len += text.len() as u64;
        Ok(())
    }

    /// The file for `more` bytes on `day`: the one that is open, or the next.
    fn ready(&mut self, day: &str, more: u64) -> Result<&mut Open, (PathBuf, io::Error)> {
        let limit = self.file_bytes;
        // A file that somebody has removed takes lines that nobody will ever read: it is made anew.
        if self.file.as_ref().is_some_and(|open| !open.path.exists()) {
            self.file = None;
        }
        let fits = |open: &Open| open.day == day && (open.len == 0 || open.len + more <= limit);
        if self.file.as_ref().is_some_and(|open| !fits(open)) {
            self.sync();
        }
        let current = match self.file.take() {
            Some(open) if fits(&open) => open,
            last => {
                let part = match last {
                    Some(open) if open.day == day => open.part + 1,
                    _ => last_part(&self.dir, day),
                };
                let open = open_part(&self.dir, day, part)?;
                if fits(&open) { open } else { open_part(&self.dir, day, part + 1)? }
            }
        };
        Ok(self.file.insert(current))
    }

    fn sync(&mut self) {
        if self.unsynced.take().is_none() {
            return;
        }
        if let Some(open) = &self.file
            && let Err(e) = open.file.sync_data()
        {
            *self.shared.failing.lock() = Some(files::failed(&open.path, "write", &e).what);
        }
    }
}

/// The event as a line. JSON escapes most control characters; the rest (DEL, C1, line separators, marks
/// that turn the direction of text) are escaped here, so that no terminal obeys what a device said.
fn line(event: &LoggedEvent) -> String {
    let json = serde_json::to_string(event).unwrap_or_else(|e| {
        // Unreachable by the types; a log must not lose the number all the same.
        format!(r#"{{"t":"{}","seq":{},"kind":"log_gap","what":"not JSON: {e:?}"}}"#, event.t, event.seq)
    });
    let mut line = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        if is_obeyed(c) {
            // Above U+FFFF JSON takes two escapes.
            line.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line
}

fn day_of(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

fn file_name(day: &str, part: u32) -> String {
    if part == 0 { format!("{day}.jsonl") } else { format!("{day}.{part}.jsonl") }
}

/// Day and part of a log file's name.
fn parse_name(name: &str) -> Option<(String, u32)> {
    let stem = name.strip_suffix(".jsonl")?;
    let (day, part) = match stem.split_once('.') {
        Some((day, part)) => (day, part.parse().ok().filter(|p| *p > 0)?),
        None => (stem, 0),
    };
    (day.len() == 10 && day.parse::<jiff::civil::Date>().is_ok()).then(|| (day.to_owned(), part))
}

/// The log's files, the oldest first.
fn log_files(dir: &Path) -> io::Result<Vec<(String, u32)>> {
    let names = std::fs::read_dir(dir)?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let mut all: Vec<_> = names.iter().filter_map(|n| parse_name(n.to_str()?)).collect();
    all.sort_unstable();
    Ok(all)
}

fn last_part(dir: &Path, day: &str) -> u32 {
    let all = log_files(dir).unwrap_or_default();
    all.iter().rev().find(|(d, _)| d == day).map_or(0, |(_, part)| *part)
}

/// Opens a file to append to, and ends a line that was cut off there.
fn open_part(dir: &Path, day: &str, part: u32) -> Result<Open, (PathBuf, io::Error)> {
    let path = dir.join(file_name(day, part));
    let open = || {
        std::fs::create_dir_all(dir)?;
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
        let mut len = file.metadata()?.len();
        if len > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                len += 1;
            }
        }
        Ok((file, len))
    };
    match open() {
        Ok((file, len)) => Ok(Open { file, path, day: day.to_owned(), part, len }),
        Err(e) => Err((path, e)),
    }
}

/// The newest `most` events of the files in `dir`, the oldest first; lines that are no events are skipped.
pub(super) fn read_back(dir: &Path, most: usize) -> io::Result<VecDeque<LoggedEvent>> {
    let mut events = VecDeque::new();
    'files: for (day, part) in log_files(dir)?.into_iter().rev() {
        let mut file = File::open(dir.join(file_name(&day, part)))?;
        let start = file.metadata()?.len().saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        // A file that is read from its middle begins with half a line, which is no event.
        for line in bytes.rsplit(|b| *b == b'\n') {
            if events.len() == most {
                break 'files;
            }
            events.extend(serde_json::from_slice::<LoggedEvent>(line).ok());
        }
        if start > 0 {
            break;
        }
    }
    events.make_contiguous().reverse();
    Ok(events)
}
