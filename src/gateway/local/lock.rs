//! Ownership of a rig: a lock of the operating system, held while this process lives and released by its end, whatever
//! way it ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::PathBuf;

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

impl Place {
    /// Takes the rig, if nobody has it.
    ///
    /// # Errors
    /// When the lock file can't be opened or locked.
    pub fn try_own(&self) -> io::Result<Option<Ownership>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(self.lock())?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Ownership { place: self.clone(), _lock: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
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
}
