//! What is being changed, on disk before the first byte goes out and until it is done or undone: who finds one there
//! knows that a run was cut off.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::profile::toml_text;
use super::run::Goal;
use crate::devices::settings::{Controller, Setting, Table};
use crate::model::{Code, RigError};
use crate::store;

/// An open change of a controller's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Where the run was going.
    pub goal: Goal,
    /// The driver by which the controller is spoken to.
    pub driver: String,
    /// Its port, as it was typed, and the rate.
    pub port: String,
    /// The rate of the port; 0 where it has none.
    pub baud: u32,
    /// Its address on a chain.
    pub address: u8,
    /// The controller.
    pub who: Controller,
    /// Where all its settings are kept as they were.
    pub backup: PathBuf,
    /// When it began, for people.
    pub began: String,
    /// The settings before, by their full names.
    pub old: Vec<(String, String)>,
    /// The settings that it shall have.
    pub new: Vec<(String, String)>,
}

/// Where journals and backups are, unless a person says otherwise.
///
/// # Errors
/// `storage_failed` if no home folder is known.
pub fn folder() -> Result<PathBuf, RigError> {
    // No rig can have that name, so that no rig's folder is meant.
    store::Store::place("controllers.d", None)
}

/// The file of the journal for a port.
pub fn file(folder: &Path, port: &str, address: u8) -> PathBuf {
    folder.join("open").join(name(port, address))
}

/// Where a change is kept that is whole, and that no restart has proved yet.
pub fn unproved(folder: &Path, port: &str, address: u8) -> PathBuf {
    folder.join("unproved").join(name(port, address))
}

fn name(port: &str, address: u8) -> String {
    let name: String = real(port).chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{}-{address}.toml", name.trim_matches('-'))
}

/// A port by the name that it really has: links of udev lead to it.
pub fn real(port: &str) -> String {
    let at = Path::new(port);
    match std::fs::canonicalize(at) {
        Ok(path) if at.is_absolute() => path.to_string_lossy().into_owned(),
        _ => port.to_owned(),
    }
}

/// The changes that are open.
///
/// # Errors
/// `storage_failed` with the file that can't be read: what it says nobody knows, so that nothing is certain.
pub fn open(folder: &Path) -> Result<Vec<(PathBuf, Journal)>, RigError> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| {
        let what = format!("The journal {} of a change of settings can't be read: {why}.", path.display());
        RigError::new(Code::StorageFailed, what)
    };
    let at = folder.join("open");
    let listed = match std::fs::read_dir(&at) {
        Ok(listed) => listed,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(&at, &e)),
    };
    let mut found = Vec::new();
    for entry in listed {
        let path = entry.map_err(|e| failed(&at, &e))?.path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|e| failed(&path, &e))?;
        let journal = Journal::parse(&text).map_err(|e| failed(&path, &e))?;
        found.push((path, journal));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The open change at a port, if there is one.
///
/// # Errors
/// As [`open`].
pub fn at_port(folder: &Path, port: &str) -> Result<Option<(PathBuf, Journal)>, RigError> {
    Ok(open(folder)?.into_iter().find(|(_, j)| real(&j.port) == real(port)))
}

impl Journal {
    /// The one in a file; `None` where there is none that can be read.
    pub fn load(path: &Path) -> Option<Journal> {
        Journal::parse(&std::fs::read_to_string(path).ok()?).ok()
    }

    /// Writes it; it is on the disk when this returns.
    ///
    /// # Errors
    /// `storage_failed`.
    pub fn write(&self, path: &Path) -> Result<(), RigError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|e| RigError::new(Code::StorageFailed, format!("{} can't be made: {e}.", folder.display())))?;
        }
        store::replace(path, self.render().as_bytes())
    }

    /// Its text.
    pub fn render(&self) -> String {
        let mut text =
            String::from("# A change of a controller's settings that is not finished: steadyhand flash --resume\n\n");
        let goal = match self.goal {
            Goal::New => "new",
            Goal::Old => "old",
        };
        let backup = self.backup.to_string_lossy();
        let fields: [(&str, &str); 7] = [
            ("goal", goal),
            ("driver", &self.driver),
            ("port", &self.port),
            ("model", &self.who.model),
            ("firmware", &self.who.firmware),
            ("serial", &self.who.serial),
            ("backup", &backup),
        ];
        // Writing to a String can't fail.
        for (key, value) in fields {
            let _ = writeln!(text, "{key} = {}", toml_text(value));
        }
        let axes: Vec<String> = self.who.axes.iter().map(|a| toml_text(a)).collect();
        let _ = writeln!(text, "axes = [{}]\nbaud = {}\naddress = {}", axes.join(", "), self.baud, self.address);
        let _ = writeln!(text, "began = {}", toml_text(&self.began));
        for (title, settings) in [("old", &self.old), ("new", &self.new)] {
            let _ = writeln!(text, "\n[{title}]");
            for (name, value) in settings {
                let _ = writeln!(text, "{} = {}", toml_text(name), toml_text(value));
            }
        }
        text
    }

    /// From its text.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn parse(text: &str) -> Result<Journal, String> {
        let root = DeTable::parse(text).map_err(|e| e.message().to_owned())?;
        let root = root.get_ref();
        let string = |key: &str| match root.get(key).map(|i| i.get_ref()) {
            Some(DeValue::String(text)) => Ok(text.to_string()),
            _ => Err(format!("{key} is missing")),
        };
        let number = |key: &str| match root.get(key).map(|i| i.get_ref()) {
            Some(DeValue::Integer(n)) => n.as_str().parse::<u32>().map_err(|_| format!("{key} is no number")),
            _ => Err(format!("{key} is missing")),
        };
        let axes = match root.get("axes").map(|i| i.get_ref()) {
            Some(DeValue::Array(items)) => items.iter().filter_map(|i| match i.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            }),
            _ => return Err("axes is missing".into()),
        };
        let table = |key: &str| match root.get(key).map(|i| i.get_ref()) {
            Some(DeValue::Table(table)) => table
                .iter()
                .map(|(name, value)| match value.get_ref() {
                    DeValue::String(text) => Ok((name.get_ref().to_string(), text.to_string())),
                    _ => Err(format!("{} in {key} is no text", name.get_ref())),
                })
                .collect::<Result<Vec<_>, String>>(),
            _ => Err(format!("[{key}] is missing")),
        };
        Ok(Journal {
            goal: match string("goal")?.as_str() {
                "new" => Goal::New,
                "old" => Goal::Old,
                other => return Err(format!("goal is {other:?}")),
            },
            driver: string("driver")?,
            port: string("port")?,
            baud: number("baud")?,
            address: u8::try_from(number("address")?).map_err(|_| "address is none".to_owned())?,
            who: Controller {
                model: string("model")?,
                firmware: string("firmware")?,
                serial: string("serial")?,
                axes: axes.collect(),
            },
            backup: PathBuf::from(string("backup")?),
            began: string("began")?,
            old: table("old")?,
            new: table("new")?,
        })
    }

    /// The settings that the controller has now and had neither before, nor shall have: it may be another one.
    pub fn strange<'a>(&self, now: &'a Table) -> Vec<&'a Setting> {
        let is = |all: &[(String, String)], s: &Setting| {
            all.iter().any(|(name, value)| *name == s.name && s.meaning.form.same(value, &s.value))
        };
        now.iter().filter(|s| s.meaning.kept && !is(&self.old, s) && !is(&self.new, s)).collect()
    }

    /// The settings before and those that it shall have, with what the controller itself says they mean.
    ///
    /// # Errors
    /// When the controller has other settings now.
    pub fn tables(&self, now: &Table) -> Result<(Table, Table), String> {
        let with = |values: &[(String, String)]| {
            let mut table = now.clone();
            for (name, value) in values {
                if table.get(name).is_none() {
                    return Err(format!("the controller has no setting {name} any more"));
                }
                table.set(name, value);
            }
            Ok(table)
        };
        Ok((with(&self.old)?, with(&self.new)?))
    }
}

/// A journal's line for each setting of a table.
pub fn values(table: &Table) -> Vec<(String, String)> {
    table.iter().filter(|s| s.meaning.kept).map(|s| (s.name.clone(), s.value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal {
            goal: Goal::Old,
            driver: "grbl".into(),
            port: "COM5\"odd".into(),
            baud: 115_200,
            address: 1,
            who: Controller { model: "Grbl".into(), axes: vec!["X".into()], ..Controller::default() },
            backup: folder.path().join("a.toml"),
            began: "now".into(),
            old: vec![("$0".into(), "10".into()), ("$N0".into(), "G54 \"x\"".into())],
            new: vec![("$0".into(), "5".into())],
        };
        let path = file(folder.path(), &journal.port, journal.address);
        journal.write(&path).expect("written");
        let found = open(folder.path()).expect("read");
        assert_eq!(found, [(path.clone(), journal.clone())]);
        assert!(at_port(folder.path(), "COM5\"odd").expect("read").is_some());
        assert!(at_port(folder.path(), "COM6").expect("read").is_none());
        std::fs::write(&path, "goal = \"new\"").expect("spoilt");
        assert!(open(folder.path()).is_err(), "a journal that can't be read is no journal that isn't there");
    }
}
