//! What outlives the program: pictures with their sidecars, the audit log, saved positions, a person's stop, where stages
//! were last at rest.
//!
//! There is no lock file and no database: every file is written whole under a name of its own and then
//! renamed into place, so nothing has to be repaired after a crash. All calls but [`EventLog::append`] may
//! wait for the disk: they belong on a blocking thread, never on the rig thread.
//!
//! ```text
//! <data>/audit/2026-11-30.jsonl                 one event a line (UTC), each with the hash of the line before
//! <data>/audit/newest.json                      the newest line that is on the disk, and its hash
//! <data>/positions.json                         saved positions
//! <data>/stopped.json                           a person's stop, while it stands
//! <data>/standstill.json                        where each stage was last read at rest
//! <images>/2026-11-30/143501-0007-flake.png     what a model sees (local time, sequence, label)
//! <images>/2026-11-30/143501-0007-flake.tif     the exact pixels, or .npy
//! <images>/2026-11-30/143501-0007-flake.json    position, settings, times, caller: written last
//! <images>/exports/NAME.npy                     what `export_array` was asked for
//! ```

mod audit;
mod files;
mod images;
mod keeper;
mod person_stop;
mod positions;
mod standstills;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

pub use audit::{
    Break, EventFilter, EventLog, LoggedEvent, Newest, PastCommand, PastOutcome, Receipt, Verified, Written, events_in,
    harmless, sha256, verify,
};
pub use files::{local, replace, stamp};
pub use images::{Picture, StoredImage};
pub use person_stop::PersonStop;
pub use positions::{SavedAxis, SavedPosition, SavedPositions};
pub use standstills::{Standstill, Standstills, Stood};

use crate::config::{Raw, Rig};
use crate::model::{Code, Frame, RigError};

/// How much memory recent frames may take.
const RECENT_BYTES: usize = 256 << 20;

/// What the rig thread finds on record when it starts, and keeps there.
pub struct Kept {
    /// A person's stop.
    pub stopped: PersonStop,
    /// Where stages were last at rest.
    pub standstills: Standstills,
}

impl Kept {
    /// What is on record in `data_dir`.
    ///
    /// # Errors
    /// [`Code::Internal`] when the operating system gives no thread.
    pub fn open(data_dir: &Path) -> Result<Kept, RigError> {
        Ok(Kept { stopped: PersonStop::open(data_dir)?, standstills: Standstills::open(data_dir)? })
    }
}

/// With positions that outlive the connection, but not the program.
impl From<PersonStop> for Kept {
    fn from(stopped: PersonStop) -> Kept {
        Kept { stopped, standstills: Standstills::in_memory() }
    }
}

/// The files of one rig.
#[derive(Debug)]
pub struct Store {
    rig: String,
    data: PathBuf,
    images: PathBuf,
    /// Prefix here (and where its links lead), prefix there.
    path_map: Vec<(PathBuf, String)>,
    sequence: Mutex<Option<images::Sequence>>,
    /// How many pictures a day had when its folder was last changed.
    counts: Mutex<HashMap<String, (std::time::SystemTime, usize)>>,
    recent: Mutex<Recent>,
}

/// Where the data folder says whose it is.
const OWNER: &str = "rig-file.txt";

/// Makes the data folder that of the rig file, unless it belongs to another one that is still there.
fn belongs(data: &Path, name: &str, file: &Path) -> Result<(), RigError> {
    let ours = files::canonical(file).unwrap_or_else(|_| file.to_path_buf());
    let mark = data.join(OWNER);
    match owner(data) {
        Some(theirs) if theirs == ours => Ok(()),
        Some(theirs) if theirs.is_file() => {
            let what = format!(
                "{} belongs to another rig file of the name \"{name}\", {}. Give this rig another name in [rig], or \
                 another folder with --data-dir: two rigs must not share a person's stop and an audit log.",
                data.display(),
                theirs.display()
            );
            Err(RigError::new(Code::StorageFailed, what))
        }
        _ => files::replace(&mark, format!("{}\n", ours.display()).as_bytes()),
    }
}

/// The rig file that a data folder says it is of.
fn owner(data: &Path) -> Option<PathBuf> {
    let said = std::fs::read_to_string(data.join(OWNER)).ok()?;
    Some(PathBuf::from(said.trim())).filter(|p| !p.as_os_str().is_empty())
}

impl Store {
    /// Makes the folders of `rig` and opens them.
    ///
    /// Pictures go to `[images] dir`/rig, else to `data_dir`/images, else to Documents/steadyhand/rig. The
    /// rest goes to `data_dir`, else to the platform's data folder (on Windows to
    /// Documents/steadyhand/rig, because what a desktop app starts sees an AppData of its own).
    ///
    /// # Errors
    /// [`Code::StorageFailed`] if a folder can't be made, no home folder is known, or the data folder belongs to another
    /// rig file that is still there: two rigs would share a person's stop and an audit log.
    pub fn open(rig: &Rig, data_dir: Option<&Path>) -> Result<Store, RigError> {
        let name = rig.name.as_str();
        let data = files::folder(&Store::place(name, data_dir)?)?;
        // A folder that was chosen is the chooser's business.
        if let (Some(file), None) = (&rig.file, data_dir) {
            belongs(&data, name, file)?;
        }
        let images = match (&rig.images.dir, data_dir) {
            (Some(dir), _) => dir.join(name),
            (None, Some(dir)) => dir.join("images"),
            (None, None) => documents()?.join(name),
        };
        let path_map = rig.images.path_map.iter().flat_map(|(here, there)| {
            let written = PathBuf::from(here);
            let real = files::canonical(&written).ok().filter(|real| *real != written);
            std::iter::once(written).chain(real).map(|prefix| (prefix, there.clone()))
        });
        Ok(Store {
            rig: name.to_owned(),
            data,
            images: files::folder(&images)?,
            path_map: path_map.collect(),
            sequence: Mutex::new(None),
            counts: Mutex::new(HashMap::new()),
            recent: Mutex::new(Recent::new(RECENT_BYTES)),
        })
    }

    /// Where the data folder of the rig `name` is; nothing is made.
    ///
    /// # Errors
    /// [`Code::StorageFailed`] if no home folder is known.
    pub fn place(name: &str, data_dir: Option<&Path>) -> Result<PathBuf, RigError> {
        match data_dir {
            Some(dir) => Ok(dir.to_path_buf()),
            None => Ok(default_data()?.join(name)),
        }
    }

    /// The other rig file, still there, to which the platform's data folder of the rig `name` belongs: `file` can't have
    /// that name. Nothing is made.
    pub fn taken(name: &str, file: &Path) -> Option<PathBuf> {
        let theirs = owner(&Store::place(name, None).ok()?)?;
        let ours = files::canonical(file).or_else(|_| std::path::absolute(file)).ok()?;
        (theirs != ours && theirs.is_file()).then_some(theirs)
    }

    /// The folder of everything but pictures, absolute.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// The folder under which all pictures and exports lie, absolute.
    pub fn images_dir(&self) -> &Path {
        &self.images
    }

    /// Free bytes on the disk of the pictures; `None` where the system doesn't tell.
    pub fn free_for_images(&self) -> Option<u64> {
        free_bytes(&self.images)
    }

    /// Writes an array that was asked for to `exports/name.tif` or `.npy`; returns the absolute path.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if nothing of `name` can be part of a file name, or a file of that name
    /// exists (it is left alone); [`Code::StorageFailed`] if it can't be written, leaving nothing behind.
    pub fn export(&self, name: &str, format: Raw, bytes: &[u8]) -> Result<PathBuf, RigError> {
        let Some(stem) = files::slug(name).filter(|stem| !files::is_reserved(stem)) else {
            let shown: String = name.chars().take(64).collect();
            let what = format!("{shown:?} can't be a file name; use letters, digits, - and _.");
            return Err(RigError::new(Code::InvalidArgument, what));
        };
        let folder = files::folder_beneath(&self.images, "exports")?;
        let path = folder.join(format!("{stem}.{}", images::extension(format)));
        match files::place(&folder, &[(path.clone(), bytes)]) {
            Ok(()) => Ok(path),
            Err((at, e)) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                let what = format!("{} exists already and is never overwritten; choose another name.", at.display());
                Err(RigError::new(Code::InvalidArgument, what))
            }
            Err((at, e)) => Err(files::failed(&at, "write", &e)),
        }
    }

    /// Keeps a frame in memory; the oldest go when all take more than 256 MiB. The newest always stays.
    pub fn remember(&self, image_id: &str, frame: Arc<Frame>) {
        self.recent.lock().push(image_id, frame);
    }

    /// The frame of that image, if it is still in memory.
    pub fn frame(&self, image_id: &str) -> Option<Arc<Frame>> {
        self.recent.lock().frames.iter().find(|(id, _)| id == image_id).map(|(_, frame)| frame.clone())
    }

    /// A path as the client on its machine writes it (`[images] path_map`, whole folder names only; of
    /// several prefixes the longest).
    pub fn client_path(&self, path: &Path) -> String {
        let fitting =
            self.path_map.iter().filter_map(|(here, there)| Some((here, there, path.strip_prefix(here).ok()?)));
        let Some((_, there, rest)) = fitting.max_by_key(|(here, ..)| here.components().count()) else {
            return path.to_string_lossy().into_owned();
        };
        if rest.as_os_str().is_empty() {
            return there.clone();
        }
        let separator = if there.contains('\\') { '\\' } else { '/' };
        let mut mapped = there.trim_end_matches(['/', '\\']).to_owned();
        for part in rest.components() {
            mapped.push(separator);
            mapped.push_str(&part.as_os_str().to_string_lossy());
        }
        mapped
    }
}

/// Recent frames, the oldest first, within a bound of memory.
#[derive(Debug)]
struct Recent {
    frames: VecDeque<(String, Arc<Frame>)>,
    bytes: usize,
    bound: usize,
}

impl Recent {
    fn new(bound: usize) -> Recent {
        Recent { frames: VecDeque::new(), bytes: 0, bound }
    }

    fn push(&mut self, id: &str, frame: Arc<Frame>) {
        self.bytes += frame.pixels.bytes();
        self.frames.push_back((id.to_owned(), frame));
        while self.bytes > self.bound && self.frames.len() > 1 {
            if let Some((_, oldest)) = self.frames.pop_front() {
                self.bytes -= oldest.pixels.bytes();
            }
        }
    }
}

fn documents() -> Result<PathBuf, RigError> {
    let folder = directories::UserDirs::new()
        .map(|dirs| dirs.document_dir().map_or_else(|| dirs.home_dir().join("Documents"), Path::to_path_buf));
    folder.map(|dir| dir.join("steadyhand")).ok_or_else(no_home)
}

fn default_data() -> Result<PathBuf, RigError> {
    if cfg!(windows) {
        return documents();
    }
    directories::ProjectDirs::from("", "", "steadyhand").map(|dirs| dirs.data_dir().to_path_buf()).ok_or_else(no_home)
}

fn no_home() -> RigError {
    let what =
        "No home folder is known, so there is no place for files. Start with a data folder, or set [images] dir.";
    RigError::new(Code::StorageFailed, what)
}

/// Free bytes on the disk of a folder, or of the nearest one above it that exists.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    folder.ancestors().find(|f| f.exists()).and_then(|f| fs4::available_space(f).ok())
}

#[cfg(test)]
mod tests;
