//! Where each stage was last read at rest, kept on the disk: after a restart its controller's count is held against it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::files;
use super::keeper::Keeper;
use crate::model::{Code, Name, RigError, Trust};

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

/// The record, `standstill.json` in the data folder. A thread of its own writes it, so that the rig thread waits for
/// no disk: what was not written when the program died is only a position that must be found again.
pub struct Standstills(Keeper<BTreeMap<String, Standstill>>);

impl Standstills {
    /// Reads what is on record in `data_dir`, and starts the thread that keeps it. A record that can't be read counts
    /// for nothing, which is logged.
    ///
    /// # Errors
    /// [`Code::Internal`] when the operating system gives no thread.
    pub fn open(data_dir: &Path) -> Result<Standstills, RigError> {
        let path = data_dir.join("standstill.json");
        let stages = read(&path);
        Keeper::start("standstill", stages, move |s| write(&path, s))
            .map(Standstills)
            .map_err(|e| RigError::new(Code::Internal, format!("The record of positions gets no thread: {e}.")))
    }

    /// One that is kept in memory alone.
    pub fn in_memory() -> Standstills {
        Standstills(Keeper::in_memory(BTreeMap::new()))
    }

    /// Where a stage was last at rest, if that still counts.
    pub fn of(&self, stage: &Name) -> Option<Standstill> {
        self.0.look(|stages| stages.get(stage.as_str()).cloned())
    }

    /// Puts a stage's standstill on record, or takes it off. Doesn't wait for the disk.
    pub fn keep(&self, stage: &Name, at: Option<Standstill>) {
        self.0.change(|stages| match at {
            Some(at) => drop(stages.insert(stage.to_string(), at)),
            None => drop(stages.remove(stage.as_str())),
        });
    }

    /// Waits until all is on the disk, or for so long; `true` when it is. Not for the rig thread.
    pub fn flush(&self, at_most: Duration) -> bool {
        self.0.flush(at_most)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    stages: BTreeMap<String, Standstill>,
}

fn write(path: &Path, stages: &BTreeMap<String, Standstill>) -> Result<(), RigError> {
    let text = serde_json::to_vec_pretty(&File { version: 1, stages: stages.clone() })
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
