//! Where the rig file is.

use std::path::{Path, PathBuf};

/// The file's name in the current and in the platform's folder.
const NAME: &str = "rig.toml";

/// No rig file was named and none was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no rig file found; looked for {}. `steadyhand init` writes one there; name one on the command line, or try `steadyhand demo`, which needs neither a file nor hardware",
    .looked.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" and ")
)]
pub struct NotFound {
    /// The places, in the order in which they were looked at.
    pub looked: Vec<PathBuf>,
}

/// The rig file: the one that is named, else `rig.toml` in the current folder, else `rig.toml` in the
/// platform's folder for configuration. A file that is named need not exist; [`super::load`] says so then.
///
/// # Errors
/// [`NotFound`] when none is named and neither place has one.
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, NotFound> {
    let here = std::env::current_dir().unwrap_or_default();
    let folder = directories::ProjectDirs::from("", "", "steadyhand").map(|dirs| dirs.config_dir().to_owned());
    find_in(explicit, &here, folder.as_deref())
}

fn find_in(explicit: Option<&Path>, here: &Path, folder: Option<&Path>) -> Result<PathBuf, NotFound> {
    if let Some(path) = explicit {
        return Ok(path.to_owned());
    }
    let looked: Vec<PathBuf> = std::iter::once(here).chain(folder).map(|dir| dir.join(NAME)).collect();
    // A folder or a dangling link of that name is taken too: to go on to the next place would hide it.
    match looked.iter().find(|p| p.symlink_metadata().is_ok()) {
        Some(found) => Ok(found.clone()),
        None => Err(NotFound { looked }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_wins_then_the_current_folder_then_the_platforms() {
        let (here, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (h, f) = (here.path(), folder.path());
        let error = find_in(None, h, Some(f)).unwrap_err();
        let text = error.to_string();
        for place in [h.join("rig.toml"), f.join("rig.toml")] {
            assert!(text.contains(place.to_str().unwrap()), "{text}");
        }
        assert!(text.contains("`steadyhand demo`"), "{text}");
        std::fs::write(f.join("rig.toml"), "").unwrap();
        assert_eq!(find_in(None, h, Some(f)), Ok(f.join("rig.toml")));
        std::fs::write(h.join("rig.toml"), "").unwrap();
        assert_eq!(find_in(None, h, Some(f)), Ok(h.join("rig.toml")));
        assert_eq!(find_in(Some(Path::new("other.toml")), h, Some(f)), Ok("other.toml".into()));
    }
}
