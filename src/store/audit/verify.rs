//! Whether the audit log is whole: every line is the one that was written, in its place, and none is missing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::chain::{self, BEGIN, NEWEST, Newest, Seal};
use super::past::{event, file_name, log_files};
use super::writer::{CUT, GAP, TORN};
use crate::model::{Code, RigError};
use crate::store::files;

/// Breaks that are told; a log of another making has one a line.
const TOLD: usize = 50;

/// A place where the log is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1; 0 means the file as a whole.
    pub line: u64,
    /// What is wrong there.
    pub what: String,
}

/// What the log's files prove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// How many files there are.
    pub files: usize,
    /// How many lines.
    pub lines: u64,
    /// How many at the beginning carry no hash, because an older version wrote them.
    pub unchained: u64,
    /// The newest line.
    pub newest: Option<Newest>,
    /// What is wrong, in the order of the log; at most 50.
    pub breaks: Vec<Break>,
    /// How many more there are.
    pub more: u64,
    /// What is not wrong, but to be known.
    pub notes: Vec<String>,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.breaks.is_empty()
    }

    fn wrong(&mut self, at: &Place, what: impl Into<String>) {
        if self.breaks.len() < TOLD {
            self.breaks.push(Break { file: at.file.clone(), line: at.line, what: what.into() });
        } else {
            self.more += 1;
        }
    }
}

#[derive(Clone)]
struct Place {
    file: PathBuf,
    line: u64,
}

/// The chain as far as it was read.
struct Walk<'n> {
    out: Verified,
    /// The hash of the line before.
    prev: String,
    /// The hash of the newest line that was one of the log's.
    trusted: String,
    seq: u64,
    chained: bool,
    /// The line before is known to be another than it was.
    blamed: bool,
    /// Lines that are none of the log's; the last of them may be one that was cut off.
    strange: Vec<(Place, bool)>,
    archived: bool,
    /// Hashes that must occur.
    wanted: Vec<(&'n str, bool)>,
}

impl Walk<'_> {
    fn line(&mut self, at: &Place, line: &[u8], ended: bool) {
        let hash = chain::hash(line);
        for (wanted, found) in &mut self.wanted {
            *found |= *wanted == hash;
        }
        self.out.lines += 1;
        match chain::read(line) {
            Seal::Chained { prev, intact } => self.chained(at, line, prev, intact, &hash),
            Seal::None if !self.chained => {
                self.out.unchained += 1;
                self.seq = event(line).map_or(self.seq, |e| e.seq);
                self.trusted.clone_from(&hash);
            }
            Seal::None if !ended => {
                self.out.notes.push(format!(
                    "The last line ({} line {}) is cut off after {} bytes: the program ended while it wrote it, or it \
                     writes it now. Nothing had been acknowledged by it; the next start marks it.",
                    at.file.display(),
                    at.line,
                    line.len()
                ));
            }
            Seal::None => self.strange.push((at.clone(), event(line).is_some())),
        }
        self.prev = hash;
    }

    fn chained(&mut self, at: &Place, line: &[u8], prev: &str, intact: bool, hash: &str) {
        let first = !self.chained && self.out.unchained == 0;
        let told = event(line).filter(|_| intact);
        let kind = told.as_ref().map_or("", |e| e.kind.as_str());
        let seq = told.as_ref().map(|e| e.seq);
        let torn = kind == TORN && prev == self.prev && self.strange.len() == 1;
        let strange = std::mem::take(&mut self.strange);
        for (place, whole) in strange.iter().filter(|_| !torn) {
            let what = if *whole {
                "This line carries no hash, although lines before it do: it was put in or changed, or an older version \
                 of the program wrote it."
            } else {
                "This is no line of the log: it was put in, or a line was changed or cut."
            };
            self.out.wrong(place, what);
        }
        // What was put in is blamed where it stands, not where the log goes on.
        let follows = prev == self.prev || (prev == self.trusted && !strange.is_empty());
        if !intact {
            self.out.wrong(at, "This line is not as it was written.");
        } else if !follows && !self.blamed {
            let seq = seq.unwrap_or(0);
            if !first {
                self.out.wrong(at, misplaced(seq, self.seq));
            } else if self.archived {
                let what = format!("The log begins with line {seq}; what was before it was put away, as you say.");
                self.out.notes.push(what);
            } else {
                let what = format!(
                    "The log does not begin here: the lines before line {seq} are missing. (Have their files been put \
                     away? Then say --archived.)"
                );
                self.out.wrong(at, what);
            }
        }
        if kind == CUT
            && let Some(e) = &told
        {
            self.out.wrong(at, format!("The program found this when it went on here: {}", e.what));
        }
        if kind == GAP
            && let Some(e) = &told
        {
            self.out.notes.push(format!("{} line {}: {}.", at.file.display(), at.line, e.what));
        }
        self.chained = true;
        self.blamed = !intact;
        self.trusted = hash.to_owned();
        self.seq = seq.unwrap_or(self.seq.saturating_add(1));
        self.out.newest = Some(Newest { seq: self.seq, hash: hash.to_owned() });
    }
}

/// What it means that a line doesn't follow the one before it.
fn misplaced(seq: u64, last: u64) -> String {
    match seq.checked_sub(last) {
        Some(2) => format!("Line {} is missing before this one.", last + 1),
        Some(n) if n > 2 => format!("Lines {} to {} are missing before this one.", last + 1, seq - 1),
        Some(1) => "The line before this one is not the one that was written there.".into(),
        _ => format!("This line has number {seq} and stands after number {last}: it was moved or doubled."),
    }
}

/// Reads all files of the log in `dir` and says what is wrong with them. `noted` are hashes of lines that must be there,
/// because somebody had written them down. With `archived`, files that are missing at the beginning are no fault.
///
/// The log may be written meanwhile.
///
/// # Errors
/// [`Code::NotFound`] if there is no log; [`Code::StorageFailed`] if a file can't be read.
pub fn verify(dir: &Path, noted: &[String], archived: bool) -> Result<Verified, RigError> {
    // First: the log only grows.
    let kept = Newest::kept(dir).map_err(|e| files::failed(&dir.join(NEWEST), "read", &e))?;
    let has_record = dir.join(NEWEST).exists();
    let all = match log_files(dir) {
        Ok(all) => all,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(files::failed(dir, "read", &e)),
    };
    if all.is_empty() && !has_record {
        return Err(RigError::new(Code::NotFound, format!("There is no audit log in {}.", dir.display())));
    }
    let wanted = kept.iter().filter(|k| k.seq > 0).map(|k| k.hash.as_str());
    let mut walk = Walk {
        out: Verified { files: all.len(), ..Verified::default() },
        prev: BEGIN.into(),
        trusted: BEGIN.into(),
        seq: 0,
        chained: false,
        blamed: false,
        strange: Vec::new(),
        archived,
        wanted: noted.iter().map(String::as_str).chain(wanted).map(|hash| (hash, false)).collect(),
    };
    for (day, part) in all {
        let mut at = Place { file: dir.join(file_name(&day, part)), line: 0 };
        let failed = |e| files::failed(&dir.join(file_name(&day, part)), "read", &e);
        let file = File::open(&at.file).map_err(failed)?;
        // No more than it holds now: there are devices that never end.
        let len = file.metadata().map_err(failed)?.len();
        let mut lines = BufReader::new(std::io::Read::take(file, len));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            at.line += 1;
            let ended = line.pop_if(|b| *b == b'\n').is_some();
            walk.line(&at, &line, ended);
            line.clear();
        }
    }
    Ok(walk.end(dir, kept.as_ref(), has_record))
}

impl Walk<'_> {
    fn end(mut self, dir: &Path, kept: Option<&Newest>, has_record: bool) -> Verified {
        for (place, _) in std::mem::take(&mut self.strange) {
            self.out.wrong(&place, "This is no line of the log, or carries no hash although lines before it do.");
        }
        let record = Place { file: dir.join(NEWEST), line: 0 };
        let held = kept.filter(|k| k.seq > 0).and_then(|k| Some((k, self.wanted.pop()?.1)));
        match kept {
            Some(_) => {}
            None if has_record => {
                self.out.wrong(&record, "It can't be read: whether the end of the log was cut off is not known.");
            }
            None if self.chained => {
                self.out.wrong(&record, "It is missing: whether the end of the log was cut off is not known.");
            }
            None => {}
        }
        if let Some((kept, false)) = held {
            let what = format!(
                "It names line {} as on the disk, with the hash {}: that line isn't there. The end of the log was changed or \
                 cut off.",
                kept.seq, kept.hash
            );
            self.out.wrong(&record, what);
        }
        for (hash, found) in std::mem::take(&mut self.wanted) {
            if !found {
                let what = format!("No line has the noted hash {hash}: lines were changed or removed since.");
                self.out.wrong(&Place { file: dir.to_path_buf(), line: 0 }, what);
            }
        }
        self.out
    }
}
