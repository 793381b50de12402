//! The audit log: a thread of its own that appends events as JSON lines, and the newest of them in memory.

mod chain;
mod commands;
mod past;
mod verify;
mod writer;

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::files;
use crate::model::{Code, Event, RigError, is_unfit_to_show};

pub use chain::{Newest, hash as sha256};
pub use commands::{PastCommand, PastOutcome};
pub use verify::{Break, Verified, verify};

/// Events that may wait for the thread. A burst of every device failing at once is a few dozen.
const QUEUE: usize = 1024;

/// Events kept in memory.
const RING: usize = 5_000;

/// A file that has grown to this is followed by another.
const FILE_BYTES: u64 = 64 << 20;

/// How long ending the log may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoggedEvent {
    /// When it was handed over, RFC 3339 in UTC with milliseconds.
    pub t: String,
    /// Its number; it grows by one from line to line, also over restarts.
    pub seq: u64,
    /// What kind: `intent`, `outcome`, `stop` …
    pub kind: String,
    /// The device, if one is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Who caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// In words.
    pub what: String,
    /// More facts.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl LoggedEvent {
    /// Its number is given when it is written.
    fn new(event: Event, at: Timestamp) -> LoggedEvent {
        let own = |key: &str| matches!(key, "t" | "seq" | "kind" | "device" | "caller" | "what" | "prev" | "sum");
        let name = |key: &str| if own(key) { format!("fact_{key}") } else { key.to_owned() };
        LoggedEvent {
            t: stamp(at),
            seq: 0,
            kind: event.kind.to_owned(),
            device: event.device.map(|d| d.to_string()),
            caller: event.caller,
            what: event.what,
            facts: event.facts.into_iter().map(|(key, value)| (name(key), value)).collect(),
        }
    }
}

fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Text that no terminal obeys: control characters, line separators and marks that turn the direction of text are
/// escaped, as JSON may escape them.
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unfit_to_show(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Which events are wanted; what is `None` doesn't matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only about this device.
    pub device: Option<String>,
}

impl EventFilter {
    fn wants(&self, event: &LoggedEvent) -> bool {
        self.kind.as_ref().is_none_or(|k| *k == event.kind)
            && self.device.as_ref().is_none_or(|d| event.device.as_ref() == Some(d))
    }
}

/// The newest events of the log in `dir`, the oldest first, at most 5,000 of the files' ends. Nothing is written, so that
/// the log may belong to a running program.
///
/// # Errors
/// [`Code::NotFound`] if there is no log; [`Code::StorageFailed`] if it can't be read.
pub fn events_in(dir: &Path) -> Result<Vec<LoggedEvent>, RigError> {
    match past::look_back(dir, RING, None) {
        Ok(past) if past.last.is_some() => Ok(past.events.into()),
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(files::failed(dir, "read", &e)),
        _ => Err(RigError::new(Code::NotFound, format!("There is no audit log in {}.", dir.display()))),
    }
}

/// What became of an event that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It waits.
    Pending,
    /// It is in the file: it outlives the process, and within a second also a power cut.
    Yes,
    /// The file could not be written. It is tried again, but nothing may rest on it.
    Failed,
}

/// Tells what became of one event, without waiting.
#[derive(Debug, Clone)]
pub struct Receipt(Arc<AtomicU8>);

impl Receipt {
    /// Of an event that waits.
    #[expect(clippy::new_without_default, reason = "each is of one event")]
    pub fn new() -> Receipt {
        Receipt(Arc::new(AtomicU8::new(0)))
    }

    /// Tells what became of it, to whoever has a copy.
    pub fn set(&self, written: bool) {
        self.0.store(if written { 1 } else { 2 }, Ordering::Release);
    }

    /// What is known now.
    pub fn written(&self) -> Written {
        match self.0.load(Ordering::Acquire) {
            0 => Written::Pending,
            1 => Written::Yes,
            _ => Written::Failed,
        }
    }
}

enum Message {
    Event(Event, Timestamp, Receipt),
    Flush(SyncSender<()>),
}

/// What the thread and its readers share.
struct Shared {
    ring: Mutex<VecDeque<LoggedEvent>>,
    failing: Mutex<Option<String>>,
    wake: Mutex<Option<Box<dyn Fn() + Send>>>,
    dead: AtomicBool,
}

/// The audit log. Events are appended by a thread of its own; dropping the log writes what waits (for at
/// most 2 s) and ends the thread.
pub struct EventLog {
    sender: Option<SyncSender<Message>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ended: Mutex<Receiver<()>>,
    earlier: Vec<PastCommand>,
}

impl std::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLog").field("failing", &self.failing()).finish_non_exhaustive()
    }
}

impl EventLog {
    /// Opens the log in `dir` (made if missing), reads back its newest events, and starts the thread.
    ///
    /// # Errors
    /// [`Code::StorageFailed`] if the folder or today's file can't be made or written.
    pub fn open(dir: &Path) -> Result<EventLog, RigError> {
        EventLog::with_file_size(dir, FILE_BYTES)
    }

    fn with_file_size(dir: &Path, file_bytes: u64) -> Result<EventLog, RigError> {
        let dir: PathBuf = files::folder(dir)?;
        let shared = Arc::new(Shared {
            ring: Mutex::default(),
            failing: Mutex::new(None),
            wake: Mutex::new(None),
            dead: AtomicBool::new(false),
        });
        let (mut writer, earlier) = writer::Writer::open(dir, file_bytes, shared.clone())?;
        let (sender, messages) = sync_channel(QUEUE);
        let (last, ended) = sync_channel(1);
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || {
            // Also if it panics, nobody waits for it or trusts it afterwards.
            let _end = OnEnd(writer.shared().clone(), last);
            writer.run(&messages);
        });
        let thread = thread.map_err(|e| RigError::new(Code::Internal, format!("No thread for the audit log: {e}.")))?;
        Ok(EventLog { sender: Some(sender), shared, thread: Some(thread), ended: Mutex::new(ended), earlier })
    }

    /// The commands of earlier runs that had an id of their client's, the newest first; at most 512.
    pub fn earlier_commands(&self) -> &[PastCommand] {
        &self.earlier
    }

    /// Hands an event over; never waits. The receipt says when it is written: motion waits for that.
    ///
    /// # Errors
    /// The event comes back if 1024 others wait already, or the thread is dead. Then nothing may move.
    #[allow(clippy::result_large_err, reason = "the caller gets back what it gave")]
    pub fn append(&self, event: Event) -> Result<Receipt, Event> {
        let Some(sender) = self.sender.as_ref().filter(|_| !self.shared.dead.load(Ordering::Acquire)) else {
            return Err(event);
        };
        let receipt = Receipt::new();
        match sender.try_send(Message::Event(event, Timestamp::now(), receipt.clone())) {
            Ok(()) => Ok(receipt),
            Err(
                TrySendError::Full(Message::Event(event, ..)) | TrySendError::Disconnected(Message::Event(event, ..)),
            ) => Err(event),
            Err(_) => unreachable!("what comes back is what was sent"),
        }
    }

    /// Calls `wake` after each batch of receipts, on the log's thread; it must not wait. There is one.
    pub fn notify(&self, wake: impl Fn() + Send + 'static) {
        *self.shared.wake.lock() = Some(Box::new(wake));
    }

    /// Why the file can't be written at present, with its path; `None` while all is well.
    pub fn failing(&self) -> Option<String> {
        if self.shared.dead.load(Ordering::Acquire) {
            return Some("The audit log's thread has ended.".into());
        }
        self.shared.failing.lock().clone()
    }

    /// Waits until what was handed over before is on the disk; `false` if that takes longer than `timeout`
    /// or fails. Never for the rig thread.
    pub fn flush(&self, timeout: Duration) -> bool {
        let (done, wait) = sync_channel(1);
        let sent = self.sender.as_ref().is_some_and(|s| s.try_send(Message::Flush(done)).is_ok());
        sent && wait.recv_timeout(timeout).is_ok() && self.failing().is_none()
    }

    /// The newest events that `filter` wants, newest first: those from `offset` on, at most `limit`; and
    /// how many it wants in all. Events of earlier runs are among them; the newest 5,000 are searched.
    pub fn recent(&self, filter: &EventFilter, offset: usize, limit: usize) -> (Vec<LoggedEvent>, usize) {
        let ring = self.shared.ring.lock();
        let wanted = || ring.iter().rev().filter(|e| filter.wants(e));
        (wanted().skip(offset).take(limit).cloned().collect(), wanted().count())
    }

    /// What the run before this one began and did not end: the intents of its jobs that have no outcome.
    pub fn cut_off(&self) -> Vec<LoggedEvent> {
        let ring = self.shared.ring.lock();
        let start = |e: &&LoggedEvent| e.kind != "start";
        let before = ring.iter().rev().skip_while(start).skip(1).take_while(start);
        let mut ended = BTreeSet::new();
        let mut open = Vec::new();
        for event in before {
            let Some(job) = event.facts.get("job").and_then(Value::as_str) else { continue };
            match event.kind.as_str() {
                "outcome" => drop(ended.insert(job.to_owned())),
                "intent" if !ended.contains(job) => open.push(event.clone()),
                _ => {}
            }
        }
        open
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        drop(self.sender.take());
        let in_time = self.ended.lock().recv_timeout(LAST_WORDS).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| in_time) {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

struct OnEnd(Arc<Shared>, SyncSender<()>);

impl Drop for OnEnd {
    fn drop(&mut self) {
        self.0.dead.store(true, Ordering::Release);
        let _ = self.1.try_send(());
    }
}

#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod tests;
