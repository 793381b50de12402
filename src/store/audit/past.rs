//! What the log's files say of the past: their names and order, the newest lines, and where the log ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::LoggedEvent;
use super::chain::{self, Newest, Seal};
use super::commands::{Commands, PastCommand};

/// How much of each file is read back.
const TAIL: u64 = 8 << 20;

pub(super) fn file_name(day: &str, part: u32) -> String {
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
pub(super) fn log_files(dir: &Path) -> io::Result<Vec<(String, u32)>> {
    let names = std::fs::read_dir(dir)?.map(|e| Ok(e?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let mut all: Vec<_> = names.iter().filter_map(|n| parse_name(n.to_str()?)).collect();
    all.sort_unstable();
    Ok(all)
}

/// The line that ends the log.
pub(super) struct Last {
    pub(super) file: PathBuf,
    pub(super) hash: String,
    pub(super) bytes: usize,
    /// Whether it has its end of line.
    pub(super) ended: bool,
    /// Whether it is as it was written, also if its end is missing.
    pub(super) whole: bool,
}

/// What was found from the end of the log backwards.
pub(super) struct Past {
    /// The newest events, the oldest first.
    pub(super) events: VecDeque<LoggedEvent>,
    /// The newest commands that had an id of their client's, the newest first.
    pub(super) commands: Vec<PastCommand>,
    pub(super) last: Option<Last>,
    /// The newest number.
    pub(super) seq: u64,
    /// Whether the line that was looked for is there.
    pub(super) known: bool,
}

/// A line as an event, if it is one.
pub(super) fn event(line: &[u8]) -> Option<LoggedEvent> {
    let mut event: LoggedEvent = serde_json::from_slice(line).ok()?;
    if matches!(chain::read(line), Seal::Chained { .. }) {
        event.facts.retain(|key, _| key != "prev" && key != "sum");
    }
    Some(event)
}

/// Reads the newest `most` events of the files in `dir`, and looks for one line. Lines that are no events are skipped.
pub(super) fn look_back(dir: &Path, most: usize, wanted: Option<&Newest>) -> io::Result<Past> {
    let mut past = Past { events: VecDeque::new(), commands: Vec::new(), last: None, seq: 0, known: false };
    let mut commands = Commands::default();
    past.known = wanted.is_some_and(|w| w.seq == 0);
    let mut passed = past.known || wanted.is_none();
    let mut read = 0;
    for (day, part) in log_files(dir)?.into_iter().rev() {
        let path = dir.join(file_name(&day, part));
        let mut file = File::open(&path)?;
        let len = file.metadata()?.len();
        let start = len.saturating_sub(TAIL);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        // No more than its length: there are devices that never end.
        file.take(len.min(TAIL)).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            continue;
        }
        read += bytes.len() as u64;
        let ended = bytes.last() == Some(&b'\n');
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // A file that is read from its middle begins with half a line, which is no event.
        for line in lines.rsplit(|b| *b == b'\n') {
            if past.last.is_none() {
                let whole = matches!(chain::read(line), Seal::Chained { intact: true, .. });
                past.last = Some(Last { file: path.clone(), hash: chain::hash(line), bytes: line.len(), ended, whole });
            }
            if !passed && wanted.is_some_and(|w| chain::hash(line) == w.hash) {
                (past.known, passed) = (true, true);
            }
            if past.events.len() < most || !passed || past.seq == 0 {
                let Some(event) = event(line) else { continue };
                past.seq = past.seq.max(event.seq);
                passed |= wanted.is_some_and(|w| event.seq < w.seq);
                if past.events.len() < most {
                    commands.take(&event);
                    past.events.push_front(event);
                }
            } else if most == 0 || commands.is_full() {
                break;
            } else if Commands::may_tell(line)
                && let Some(event) = event(line)
            {
                commands.take(&event);
            }
        }
        if start > 0 || read > TAIL || (past.events.len() >= most && passed && (most == 0 || commands.is_full())) {
            break;
        }
    }
    past.commands = commands.found();
    Ok(past)
}
