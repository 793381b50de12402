//! Positions that were given a name, kept over restarts.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::files;
use crate::model::{Code, Name, RigError, Trust};
use crate::units::{Position, Unit};

/// How many names there may be.
const MOST: usize = 500;

/// A position that was given a name.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPosition {
    /// The stage.
    pub stage: Name,
    /// Where its axes were, in the stage's order.
    pub axes: Vec<SavedAxis>,
    /// The least trust of these positions when they were saved.
    pub trust: Trust,
    /// When it was saved, RFC 3339.
    pub saved_at: String,
}

/// Where one axis was.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedAxis {
    /// The axis.
    pub axis: Name,
    /// Its position in rig coordinates.
    pub position: Position,
    /// The unit in which it is written down.
    pub unit: Unit,
}

/// The file `positions.json`. Calls wait for the disk.
#[derive(Debug)]
pub struct SavedPositions {
    path: PathBuf,
    all: Mutex<BTreeMap<Name, SavedPosition>>,
}

impl SavedPositions {
    /// Reads `positions.json` in `data_dir`; a missing file is an empty one. A file that is damaged, in
    /// whole or in an entry, is moved aside, what can be read of it is kept, and the second value says so.
    ///
    /// # Errors
    /// [`Code::StorageFailed`] if the file is there but can't be read or moved aside; nothing is changed.
    pub fn load(data_dir: &Path) -> Result<(SavedPositions, Option<String>), RigError> {
        let path = data_dir.join("positions.json");
        let (all, problems) = match std::fs::read(&path) {
            Ok(bytes) => parse(&bytes),
            Err(e) if e.kind() == ErrorKind::NotFound => Default::default(),
            Err(e) => return Err(files::failed(&path, "read", &e)),
        };
        let notice = if problems.is_empty() { None } else { Some(move_aside(&path, &problems)?) };
        let positions = SavedPositions { path, all: Mutex::new(all) };
        if notice.is_some() {
            positions.write(&positions.all.lock())?;
        }
        Ok((positions, notice))
    }

    /// The position of that name.
    pub fn get(&self, name: &str) -> Option<SavedPosition> {
        self.all.lock().get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> BTreeMap<Name, SavedPosition> {
        self.all.lock().clone()
    }

    /// Saves a position, and returns the one that had this name before. It is on the disk afterwards.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] beyond 500 names; [`Code::StorageFailed`] if it can't be written. The
    /// positions are as before then.
    pub fn save(&self, name: &Name, position: SavedPosition) -> Result<Option<SavedPosition>, RigError> {
        let mut all = self.all.lock();
        let mut changed = all.clone();
        let before = changed.insert(name.clone(), position);
        if changed.len() > MOST {
            let what = format!("There are {MOST} saved positions already; save under one of their names.");
            return Err(RigError::new(Code::InvalidArgument, what));
        }
        self.write(&changed)?;
        *all = changed;
        Ok(before)
    }

    fn write(&self, all: &BTreeMap<Name, SavedPosition>) -> Result<(), RigError> {
        let file = File { version: 1, positions: all.iter().map(|(n, p)| (n.to_string(), entry(p))).collect() };
        let text = serde_json::to_vec_pretty(&file)
            .map_err(|e| RigError::new(Code::Internal, format!("Saved positions can't be written as JSON: {e}.")))?;
        files::replace(&self.path, &text)
    }
}

#[derive(Serialize, Deserialize)]
struct File<E = Entry> {
    version: u32,
    positions: BTreeMap<String, E>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    stage: String,
    axes: Vec<AxisEntry>,
    trust: Trust,
    saved_at: String,
}

#[derive(Serialize, Deserialize)]
struct AxisEntry {
    axis: String,
    value: f64,
    unit: String,
}

fn entry(position: &SavedPosition) -> Entry {
    let axis = |a: &SavedAxis| AxisEntry {
        axis: a.axis.to_string(),
        value: a.position.to(a.unit),
        unit: a.unit.name().to_owned(),
    };
    Entry {
        stage: position.stage.to_string(),
        axes: position.axes.iter().map(axis).collect(),
        trust: position.trust,
        saved_at: position.saved_at.clone(),
    }
}

/// What can be read of the file, and what can't.
fn parse(bytes: &[u8]) -> (BTreeMap<Name, SavedPosition>, Vec<String>) {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let file: File<serde_json::Value> = match serde_json::from_slice(text) {
        Ok(File { version: 1, positions }) => File { version: 1, positions },
        Ok(other) => return (BTreeMap::new(), vec![format!("version {} is not known", other.version)]),
        Err(e) => return (BTreeMap::new(), vec![e.to_string()]),
    };
    let mut all = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, value) in file.positions {
        let read = serde_json::from_value(value).map_err(|e| e.to_string()).and_then(position);
        match read.and_then(|p| Ok((checked(&name)?, p))) {
            Ok((name, position)) => drop(all.insert(name, position)),
            Err(why) => problems.push(format!("{:?}: {why}", name.chars().take(64).collect::<String>())),
        }
    }
    (all, problems)
}

fn position(entry: Entry) -> Result<SavedPosition, String> {
    let axis = |a: AxisEntry| {
        let unit = Unit::parse(&a.unit).ok_or_else(|| format!("{:?} is no unit", a.unit))?;
        let position = Position::new(a.value, unit).map_err(|e| e.to_string())?;
        Ok(SavedAxis { axis: checked(&a.axis)?, position, unit })
    };
    let axes = entry.axes.into_iter().map(axis).collect::<Result<Vec<_>, String>>()?;
    if axes.is_empty() {
        return Err("it names no axis".into());
    }
    Ok(SavedPosition { stage: checked(&entry.stage)?, axes, trust: entry.trust, saved_at: entry.saved_at })
}

fn checked(name: &str) -> Result<Name, String> {
    if Name::is_valid(name) { Ok(Name::new(name)) } else { Err(format!("{name:?} is no name")) }
}

/// Gives the damaged file another name; returns the notice.
fn move_aside(path: &Path, problems: &[String]) -> Result<String, RigError> {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
    let aside = (0..)
        .map(|n| path.with_file_name(format!("positions-damaged-{now}-{n}.json")))
        .find(|p| !p.exists())
        .unwrap_or_else(|| path.with_extension("damaged"));
    std::fs::rename(path, &aside).map_err(|e| files::failed(path, "move aside the damaged file", &e))?;
    let shown = problems.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
    Ok(format!(
        "Saved positions were damaged ({} problem(s): {shown}). The file was moved to {}; what could be read was kept.",
        problems.len(),
        aside.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(x: f64) -> SavedPosition {
        let axis = |name: &str, value, unit| SavedAxis {
            axis: Name::new(name),
            position: Position::new(value, unit).unwrap(),
            unit,
        };
        SavedPosition {
            stage: Name::new("sample"),
            axes: vec![axis("x", x, Unit::Mm), axis("z", 1234.567, Unit::Um)],
            trust: Trust::Assumed,
            saved_at: "2026-11-30T14:35:01.000+01:00".into(),
        }
    }

    fn files_in(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_saved_position_is_the_same_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let (positions, notice) = SavedPositions::load(dir.path()).unwrap();
        assert!(notice.is_none() && positions.all().is_empty());
        let edge = Name::new("edge");
        assert_eq!(positions.save(&edge, here(1.5)).unwrap(), None);
        assert_eq!(positions.save(&edge, here(12.5)).unwrap(), Some(here(1.5)));
        let (again, notice) = SavedPositions::load(dir.path()).unwrap();
        assert_eq!((again.get("edge"), notice), (Some(here(12.5)), None));
        assert_eq!(files_in(dir.path()), 1);
    }

    #[test]
    fn a_byte_order_mark_from_an_editor_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        let (positions, _) = SavedPositions::load(dir.path()).unwrap();
        positions.save(&Name::new("edge"), here(1.5)).unwrap();
        let path = dir.path().join("positions.json");
        let text = [b"\xEF\xBB\xBF".as_slice(), &std::fs::read(&path).unwrap()].concat();
        std::fs::write(&path, text).unwrap();
        let (again, notice) = SavedPositions::load(dir.path()).unwrap();
        assert_eq!((again.get("edge"), notice), (Some(here(1.5)), None));
    }

    #[test]
    fn a_damaged_file_is_moved_aside_and_said() {
        for damage in ["", "{\"version\":1,\"posi", "[]", "\0\0\0", "{\"version\":2,\"positions\":{}}"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("positions.json"), damage).unwrap();
            let (positions, notice) = SavedPositions::load(dir.path()).unwrap();
            let notice = notice.expect(damage);
            assert!(positions.all().is_empty() && notice.contains("positions-damaged-"), "{notice}");
            let kept = std::fs::read_dir(dir.path()).unwrap().map(|e| std::fs::read(e.unwrap().path()).unwrap());
            assert!(kept.into_iter().any(|content| content == damage.as_bytes()));
            assert!(SavedPositions::load(dir.path()).unwrap().1.is_none(), "it is said once");
        }
    }

    #[test]
    fn one_bad_entry_does_not_take_the_others_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let good = r#"{"stage":"s","axes":[{"axis":"x","value":1.5,"unit":"mm"}],"trust":"referenced","saved_at":""}"#;
        let text = format!(
            r#"{{"version":1,"positions":{{"good":{good},"a":{},"b":{},"c":{},"../up":{good}}}}}"#,
            good.replace("1.5", "null"),
            good.replace("mm", "inch"),
            good.replace("[{\"axis\":\"x\",\"value\":1.5,\"unit\":\"mm\"}]", "[]"),
        );
        std::fs::write(dir.path().join("positions.json"), text).unwrap();
        let (positions, notice) = SavedPositions::load(dir.path()).unwrap();
        assert_eq!(positions.all().keys().map(Name::as_str).collect::<Vec<_>>(), ["good"]);
        assert!(notice.unwrap().contains("4 problem(s)"));
        assert_eq!(SavedPositions::load(dir.path()).unwrap().0.all(), positions.all());
    }

    #[test]
    fn what_cannot_be_written_is_not_saved_in_memory_either() {
        let dir = tempfile::tempdir().unwrap();
        let (positions, _) = SavedPositions::load(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("positions.json")).unwrap();
        let e = positions.save(&Name::new("edge"), here(1.0)).unwrap_err();
        assert!(e.code == Code::StorageFailed && e.what.contains("positions.json"), "{e}");
        assert_eq!((positions.get("edge"), files_in(dir.path())), (None, 1));
        assert_eq!(SavedPositions::load(dir.path()).unwrap_err().code, Code::StorageFailed);
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let (positions, _) = SavedPositions::load(dir.path()).unwrap();
        *positions.all.lock() = (0..MOST).map(|n| (Name::new(&format!("p{n}")), here(1.0))).collect();
        assert_eq!(positions.save(&Name::new("more"), here(1.0)).unwrap_err().code, Code::InvalidArgument);
        assert!(positions.save(&Name::new("p7"), here(2.0)).is_ok());
    }
}
