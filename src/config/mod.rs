//! The rig file: schema, checks, and problems with file, line and remedy.
//!
//! A file is read as a whole: [`load`] gives back either a [`Rig`] in which every limit is present and every
//! name resolves, or everything that is wrong with it at once. Limits have no defaults. Unknown keys are
//! problems, since a key that is ignored protects nothing.

mod axes;
mod budget;
mod cameras;
mod condition;
mod devices;
mod find;
mod keep_outs;
mod links;
mod outputs;
mod problem;
mod reader;
mod reference;
mod rig;
mod rules;
mod schema;
mod sections;
mod sensors;
mod stages;
mod vocabulary;

use std::io::Read;
use std::path::Path;

use crate::model::{OutputKind, SensorKind};
pub use condition::{Condition, Flaw, Reads, Type, Undecided, Value};
pub use find::{NotFound, find};
pub use problem::{Place, Problem, Problems};
pub(crate) use problem::{Sink, quoted};
pub(crate) use reader::nearest;
pub use reference::page as reference;
pub use rig::*;
pub use vocabulary::{Variable, Vocabulary, Word, speed_unit};

/// The largest rig file, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// The drivers there are, as far as a rig file can name them; this layer knows none of them.
#[derive(Debug, Clone, Copy)]
pub struct KnownDrivers(pub &'static [KnownDriver]);

/// What a rig file may say of a driver.
#[derive(Debug, Clone, Copy)]
pub struct KnownDriver {
    /// Its name.
    pub name: &'static str,
    /// What it drives.
    pub kind: Kind,
    /// The drivers of one family may share a link, since one controller or chain answers for all of them. `None`: its
    /// device needs a link of its own.
    pub family: Option<&'static str>,
    /// How many stages the family may have on one link.
    pub stages_per_link: usize,
    /// What the axes of its stages must say.
    pub axes: AxisRules,
    /// Which kinds of output it drives.
    pub outputs: &'static [OutputKind],
    /// Which kinds of sensor it reads.
    pub sensors: &'static [SensorKind],
    /// What a `channel` of it may be.
    pub channels: Channels,
    /// A person does what it is told to; it has no link.
    pub by_hand: bool,
    /// It plays the files of a folder; it has no link.
    pub plays_folder: bool,
}

impl KnownDriver {
    /// Whether its device has no link.
    pub const fn is_without_link(&self) -> bool {
        self.by_hand || self.plays_folder
    }
}

/// What the axes of a driver's stages must say.
#[derive(Debug, Clone, Copy)]
pub struct AxisRules {
    /// The one spelling of a `channel`, by which two that mean the same are found; `None`: there is no such channel.
    pub channel: fn(&str) -> Option<String>,
    /// How a channel is written, for people: `"X"`, `"Y"` …
    pub channels: &'static str,
    /// For controllers that only count: what a count is and where its size is found. Each axis must then give
    /// `counts_per_unit`. `None`: the controller speaks millimetres or degrees.
    pub counts: Option<&'static str>,
}

impl AxisRules {
    /// Any channel, and no counts.
    pub const ANY: AxisRules =
        AxisRules { channel: |text| Some(text.to_ascii_uppercase()), channels: "a name", counts: None };
}

/// What names a driver's channels have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// There is only one, without a name.
    One,
    /// Any; the device has names of its own, and the rig file's `id` where nothing else is said.
    Any,
    /// These; the first where nothing else is said.
    Of(&'static [&'static str]),
}

/// The kinds of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A stage.
    Stage,
    /// A camera.
    Camera,
    /// An output.
    Output,
    /// A sensor.
    Sensor,
}

impl KnownDriver {
    /// A driver whose device needs a link of its own.
    pub const fn alone(name: &'static str, kind: Kind) -> KnownDriver {
        KnownDriver {
            name,
            kind,
            family: None,
            stages_per_link: 1,
            axes: AxisRules::ANY,
            outputs: &[],
            sensors: &[],
            channels: Channels::Any,
            by_hand: false,
            plays_folder: false,
        }
    }
}

impl KnownDrivers {
    /// The driver of that name.
    pub fn get(&self, name: &str) -> Option<&'static KnownDriver> {
        self.0.iter().find(|d| d.name == name)
    }

    /// The names of those of a kind.
    fn names(&self, kind: Kind) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.0.iter().filter(move |d| d.kind == kind).map(|d| d.name)
    }
}

/// Reads and checks a rig file. Nothing is opened but the file itself.  To a terminal the problems name it as
/// it was given, to tools by its absolute path.
///
/// # Errors
/// Everything that is wrong with it: it is missing, a folder, unreadable, larger than [`MAX_BYTES`] or not
/// UTF-8 (one problem without a place), or what [`parse`] finds.
pub fn load(path: &Path, known: &KnownDrivers) -> Result<Rig, Problems> {
    let read = read_text(path, "rig file").and_then(|text| parse(&text, path, known));
    read.map_err(|problems| problems.of_file(path))
}

/// The text of a file that people write; `what` is its kind in problems.
///
/// # Errors
/// It is missing, a folder, unreadable, larger than [`MAX_BYTES`] or not UTF-8.
pub(crate) fn read_text(path: &Path, what: &str) -> Result<String, Problems> {
    let unreadable = |message: String, remedy: &str| Problems::unreadable(path, message, remedy);
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            unreadable("there is no such file".into(), "check the path, or try `steadyhand demo`")
        }
        std::io::ErrorKind::PermissionDenied => {
            unreadable("the file may not be read".into(), "give this user the permission to read it")
        }
        _ => unreadable(format!("the file can't be read: {e}"), "check the path and the disk"),
    };
    let facts = std::fs::metadata(path).map_err(failed)?;
    if facts.is_dir() {
        return Err(unreadable("this is a folder".into(), &format!("name the {what} in it")));
    }
    if !facts.is_file() {
        let remedy = format!("name a {what}, not the device itself");
        return Err(unreadable("this is not a regular file".into(), &remedy));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_BYTES {
        return Err(too_large(path));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
        unreadable(format!("the file is not UTF-8 text: line {line} has other bytes in it"), "save it as UTF-8")
    })
}

/// Checks the text of a rig file; `file` is its name in problems, and relative folders start beside it. A byte
/// order mark at the beginning is tolerated.
///
/// # Errors
/// Everything that is wrong with it, with line and remedy. Where the text is no TOML, that alone.
pub fn parse(text: &str, file: &Path, known: &KnownDrivers) -> Result<Rig, Problems> {
    if text.len() > MAX_BYTES {
        return Err(too_large(file));
    }
    schema::rig(text.strip_prefix('\u{feff}').unwrap_or(text), file, known)
}

fn too_large(file: &Path) -> Problems {
    Problems::unreadable(file, "the file is larger than 1 MiB", "name the right file: such files have a few kilobytes")
}

#[cfg(test)]
mod tests;
