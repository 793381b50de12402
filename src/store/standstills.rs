//! Where each stage was last read at rest, kept on the disk: after a restart its controller's count is held against it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::files;
use crate::model::{Code, Name, RigError, Trust};

/// How often a file that can't be written is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// A stage at rest, as it was read. Numbers are in the base unit of their axis (mm or degrees).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standstill {
    /// What the controller said it is: model, firmware and serial number.
    pub controller: String,
    /// Its axes, by their names in the rig file.
    pub axes: BTreeMap<String, Stood>,
}

/// An axis at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stood {
    /// The controller's own count.
    pub count: f64,
    /// What rig coordinates made of it: sign, origin, and what a person's declaration added.
    pub frame: [f64; 3],
    /// How far it was believed.
    pub trust: Trust,
}

#[derive(Default)]
struct State {
    stages: BTreeMap<String, Standstill>,
    /// How often `stages` has changed, and which of these states is on the disk.
    version: u64,
    written: u64,
    ended: bool,
}

struct Shared {
    /// `None`: only in memory.
    path: Option<PathBuf>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The record, `standstill.json` in the data folder. A thread of its own writes it, so that the rig thread waits for
/// no disk: what was not written when the program died is only a position that must be found again.
pub struct Standstills(Arc<Shared>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    stages: BTreeMap<String, Standstill>,
}

impl Standstills {
    /// Reads what is on record in `data_dir`, and starts the thread that keeps it. A record that can't be read counts
    /// for nothing, which is logged.
    ///
    /// # Errors
    /// [`Code::Internal`] when the operating system gives no thread.
    pub fn open(data_dir: &Path) -> Result<Standstills, RigError> {
        let path = data_dir.join("standstill.json");
        let stages = read(&path);
        let shared = Arc::new(Shared {
            path: Some(path),
            state: Mutex::new(State { stages, ..State::default() }),
            changed: Condvar::new(),
        });
        let keeper = shared.clone();
        let started = std::thread::Builder::new().name("standstill".into()).spawn(move || keeper.run());
        match started {
            Ok(_) => Ok(Standstills(shared)),
            Err(e) => Err(RigError::new(Code::Internal, format!("The record of positions gets no thread: {e}."))),
        }
    }

    /// One that is kept in memory alone.
    pub fn in_memory() -> Standstills {
        Standstills(Arc::new(Shared { path: None, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Where a stage was last at rest, if that still counts.
    pub fn of(&self, stage: &Name) -> Option<Standstill> {
        self.0.state.lock().stages.get(stage.as_str()).cloned()
    }

    /// Puts a stage's standstill on record, or takes it off. Doesn't wait for the disk.
    pub fn keep(&self, stage: &Name, at: Option<Standstill>) {
        let mut state = self.0.state.lock();
        let before = match at {
            Some(at) => state.stages.insert(stage.to_string(), at.clone()).as_ref() == Some(&at),
            None => state.stages.remove(stage.as_str()).is_none(),
        };
        if !before {
            state.version += 1;
            self.0.changed.notify_all();
        }
    }

    /// Waits until all is on the disk, or for so long; `true` when it is. Not for the rig thread.
    pub fn flush(&self, at_most: Duration) -> bool {
        let mut state = self.0.state.lock();
        let done = |state: &mut State| self.0.path.is_none() || state.written == state.version;
        if !done(&mut state) {
            self.0.changed.wait_while_for(&mut state, |s| !done(s), at_most);
        }
        done(&mut state)
    }
}

impl Drop for Standstills {
    /// The thread ends once all is written, or can't be.
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let Some(path) = &self.path else { return };
        let mut state = self.state.lock();
        loop {
            if state.written == state.version {
                if state.ended {
                    return;
                }
                self.changed.wait(&mut state);
                continue;
            }
            let (version, stages) = (state.version, state.stages.clone());
            let outcome = parking_lot::MutexGuard::unlocked(&mut state, || write(path, stages));
            match outcome {
                Ok(()) => {
                    state.written = version;
                    self.changed.notify_all();
                }
                Err(error) => {
                    tracing::warn!(
                        "positions at rest could not be put on record, and will have to be found again: {error}"
                    );
                    if state.ended {
                        return;
                    }
                    self.changed.wait_for(&mut state, RETRY);
                }
            }
        }
    }
}

fn write(path: &Path, stages: BTreeMap<String, Standstill>) -> Result<(), RigError> {
    let text = serde_json::to_vec_pretty(&File { version: 1, stages })
        .map_err(|e| RigError::new(Code::Internal, format!("Positions can't be written as JSON: {e}.")))?;
    files::replace(path, &text)
}

fn read(path: &Path) -> BTreeMap<String, Standstill> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return BTreeMap::new(),
        Err(e) => {
            tracing::warn!("{} can't be read, so that no position is restored: {e}", path.display());
            return BTreeMap::new();
        }
    };
    match serde_json::from_slice(&text) {
        Ok(File { version: 1, stages }) => stages,
        Ok(File { version, .. }) => {
            tracing::warn!("{} is of version {version}, so that no position is restored", path.display());
            BTreeMap::new()
        }
        Err(e) => {
            tracing::warn!("{} is damaged, so that no position is restored: {e}", path.display());
            BTreeMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stood(count: f64) -> Standstill {
        let stood = Stood { count, frame: [-1.0, 75.0, 0.0], trust: Trust::Referenced };
        Standstill { controller: "Grbl 1.1h".into(), axes: [("x".to_owned(), stood)].into() }
    }

    #[test]
    fn what_is_kept_outlives_the_program_to_the_last_bit() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Name::new("scope");
        let kept = Standstills::open(dir.path()).unwrap();
        assert_eq!(kept.of(&stage), None);
        kept.keep(&stage, Some(stood(-1.0 / 3.0)));
        assert!(kept.flush(Duration::from_secs(10)));
        drop(kept);
        let again = Standstills::open(dir.path()).unwrap();
        assert_eq!(again.of(&stage), Some(stood(-1.0 / 3.0)));
        again.keep(&stage, None);
        assert!(again.flush(Duration::from_secs(10)));
        assert_eq!(Standstills::open(dir.path()).unwrap().of(&stage), None);
    }

    #[test]
    fn a_damaged_record_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{", "[]", "{\"version\": 2, \"stages\": {}}", "{\"version\": 1, \"stages\": {\"scope\": {}}}"]
        {
            std::fs::write(dir.path().join("standstill.json"), text).unwrap();
            assert_eq!(Standstills::open(dir.path()).unwrap().of(&Name::new("scope")), None, "{text:?}");
        }
    }
}
