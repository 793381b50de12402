//! The memory that outlives the power: what can go wrong with writes into it, and the file in which a bench keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::BenchError;

/// What goes wrong with writes. Names are a controller's own: `$100`, `2.maxspeed`, `S X`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Mishaps {
    /// Writes are answered as always, and nothing is kept.
    pub dead: bool,
    /// The next write lands on this setting instead.
    pub lands_on: Option<String>,
    /// Values are rounded to multiples of this.
    pub rounds_to: Option<f64>,
    /// Settings whose writes are refused.
    pub refused: BTreeSet<String>,
    /// Power fails in the middle of the next write.
    pub resets: bool,
}

/// What becomes of a write.
pub(crate) struct Write {
    /// The setting that it lands on.
    pub name: String,
    pub value: f64,
    /// Power fails in the middle of it.
    pub resets: bool,
}

impl Mishaps {
    /// What becomes of a write; `None` when it is refused.
    pub(crate) fn write(&mut self, name: &str, value: f64) -> Option<Write> {
        if self.refused.contains(name) {
            return None;
        }
        let name = self.lands_on.take().unwrap_or_else(|| name.to_owned());
        let value = self.rounds_to.map_or(value, |step| (value / step).round() * step);
        Some(Write { name, value, resets: std::mem::take(&mut self.resets) })
    }
}

/// What a file holds of one controller, or of one device of a chain.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    /// Numbers by the controller's own names.
    pub settings: BTreeMap<String, f64>,
    /// Lines of text by the controller's own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, String>,
}

/// The file of a device's memory; without one it lasts as long as the bench.
#[derive(Debug, Default, Clone)]
pub(crate) struct MemoryFile(Option<PathBuf>);

impl MemoryFile {
    /// Takes a path of a bench file; one of the same name that another device has is refused by its contents.
    pub(crate) fn new(path: Option<&Path>) -> MemoryFile {
        MemoryFile(path.map(Path::to_owned))
    }

    /// What the file holds, a part for each device on the port; `None` where there is none yet.
    ///
    /// # Errors
    /// When it is there and can't be read.
    pub(crate) fn load(&self) -> Result<Option<Vec<Kept>>, BenchError> {
        let Some(path) = &self.0 else { return Ok(None) };
        let bad = |why: String| BenchError::Config(format!("the memory in {}: {why}", path.display()));
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|e| bad(e.to_string())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(bad(e.to_string())),
        }
    }

    /// Writes the file whole. A bench whose disk fails says so and goes on.
    pub(crate) fn store(&self, kept: &[Kept]) {
        let Some(path) = &self.0 else { return };
        let part = path.with_extension("part");
        let text = serde_json::to_string_pretty(kept).unwrap_or_default();
        if let Err(e) = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path)) {
            eprintln!("hw-sim: the memory {} could not be kept: {e}", path.display());
        }
    }
}
