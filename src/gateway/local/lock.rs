//! Ownership of a rig: a lock of the operating system, held while this process lives and released by its end, whatever
//! way it ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::Place;

/// What an owner says about itself. It stays behind when the owner is gone, for who takes its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its process.
    pub pid: u32,
    /// The rig's name.
    pub rig: String,
    /// The rig file, absolute; `None` for a demonstration.
    pub file: Option<PathBuf>,
    /// The hash of the rig file as it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_sha256: Option<String>,
    /// The program's version.
    pub version: String,
    /// When it took over, as RFC 3339 says it.
    pub since: String,
    /// Its folder for what belongs to the rig, if it was chosen: who takes over goes on there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// What each device said it is.
    pub identities: BTreeMap<String, String>,
}

/// A lock on that file, unless another process has one.
fn locked(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The sole use of something by this process, such as a device on the network: the system locks a serial port, and no
/// address. Another copy of a rig file is another rig, and would drive the same device.
#[derive(Debug)]
pub struct Sole(#[expect(dead_code, reason = "it is held")] File);

impl Sole {
    /// Takes it, for what the second text says; `Err` inside tells who has it.
    ///
    /// # Errors
    /// When there is no folder for locks.
    pub fn take(what: &str, purpose: &str) -> io::Result<Result<Sole, String>> {
        Sole::at(&Place::of_use(what)?, purpose)
    }

    fn at(place: &Place, purpose: &str) -> io::Result<Result<Sole, String>> {
        let Some(file) = locked(&place.sole())? else {
            let who = fs::read_to_string(place.user()).unwrap_or_default();
            return Ok(Err(if who.is_empty() { "another process".into() } else { who }));
        };
        fs::write(place.user(), format!("process {}, for {purpose}", std::process::id()))?;
        Ok(Ok(Sole(file)))
    }
}

impl Place {
    /// Takes the rig, if nobody has it.
    ///
    /// # Errors
    /// When the lock file can't be opened or locked.
    pub fn try_own(&self) -> io::Result<Option<Ownership>> {
        Ok(locked(&self.lock())?.map(|file| Ownership { place: self.clone(), _lock: file }))
    }

    /// What the owner, or the last one, said about itself; `None` where nothing can be read.
    pub fn about_owner(&self) -> Option<About> {
        serde_json::from_slice(&fs::read(self.about()).ok()?).ok()
    }
}

/// The right to open this rig's ports. Dropping it gives it up.
#[derive(Debug)]
pub struct Ownership {
    place: Place,
    _lock: File,
}

impl Ownership {
    /// Whose lock it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Writes down what the owner says about itself: whole, then renamed into place.
    ///
    /// # Errors
    /// When it can't be written; what was there before stands then.
    pub fn publish(&self, about: &About) -> io::Result<()> {
        let mut file = tempfile::Builder::new().suffix(".new").tempfile_in(self.place.folder())?;
        file.write_all(serde_json::to_string(about)?.as_bytes())?;
        file.persist(self.place.about()).map_err(|e| e.error)?;
        Ok(())
    }

    /// Removes what a crash has left of the sockets: only who holds the lock may.
    pub(super) fn clear(&self) {
        for file in self.place.socket_files() {
            // Mostly there is none.
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.clear();
        if self.place.is_demo() {
            // Nobody else can want them.
            let _ = fs::remove_file(self.place.about());
            let _ = fs::remove_file(self.place.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_until_it_is_given_up_and_what_was_said_stays() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("rig.toml");
        fs::write(&file, "").unwrap();
        let place = Place::of_rig_in(base.path(), &file).unwrap();
        let first = place.try_own().unwrap().expect("nobody has it");
        assert!(place.try_own().unwrap().is_none(), "one has it");
        let about = About { pid: 7, rig: "x".into(), ..About::default() };
        first.publish(&about).unwrap();
        drop(first);
        assert_eq!(place.about_owner(), Some(about));
        assert!(place.try_own().unwrap().is_some(), "it was given up");
    }

    #[test]
    fn a_device_on_the_network_has_one_user_who_is_named() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("rig.toml");
        fs::write(&file, "").unwrap();
        let place = Place::of_rig_in(base.path(), &file).unwrap();
        let first = Sole::at(&place, "scope").unwrap().expect("nobody has it");
        let who = Sole::at(&place, "copy").unwrap().expect_err("one has it");
        assert_eq!(who, format!("process {}, for scope", std::process::id()));
        drop(first);
        assert!(Sole::at(&place, "copy").unwrap().is_ok());
    }
}
