//! Files of other programs and of the user, changed with care: whole or not at all, with a copy of what was there.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What became of the file that was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Backup {
    /// There was none.
    NoFile,
    /// Its copy.
    At(PathBuf),
}

/// Writes `text` to `file`, making its folder. What was there is copied beside it first, under a name with the time.
/// A link is followed, so that it stays one.
///
/// # Errors
/// In words, when a file or folder can't be made; the file is then as it was.
pub(super) fn replace(file: &Path, text: &str) -> Result<Backup, String> {
    let failed = |what: &str, path: &Path, e: std::io::Error| format!("{} could not be {what}: {e}", path.display());
    let there = fs::canonicalize(file).ok();
    let target = there.as_deref().unwrap_or(file);
    let folder = target.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|e| failed("made", folder, e))?;
    let backup = match &there {
        None => Backup::NoFile,
        Some(old) => {
            let copy = free_name(old);
            fs::copy(old, &copy).map_err(|e| failed("written", &copy, e))?;
            Backup::At(copy)
        }
    };
    let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|e| failed("written", folder, e))?;
    new.write_all(text.as_bytes()).map_err(|e| failed("written", target, e))?;
    if let Some(facts) = there.as_deref().and_then(|old| fs::metadata(old).ok()) {
        fs::set_permissions(new.path(), facts.permissions()).map_err(|e| failed("written", target, e))?;
    } else {
        readable(new.path()).map_err(|e| failed("written", target, e))?;
    }
    new.as_file().sync_all().map_err(|e| failed("written", target, e))?;
    new.persist(target).map_err(|e| failed("written", target, e.error))?;
    Ok(backup)
}

/// A temporary file is its owner's alone; a new file of the user's is as others are.
#[cfg(unix)]
fn readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// `rig.toml.2026-11-30T14-35-01.bak`, or with a number behind it.
fn free_name(file: &Path) -> PathBuf {
    let stamp = jiff::Zoned::now().strftime("%Y-%m-%dT%H-%M-%S").to_string();
    let name = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let numbered = (1..).map(|n| if n == 1 { String::new() } else { format!("-{n}") });
    let mut names = numbered.map(|n| file.with_file_name(format!("{name}.{stamp}{n}.bak")));
    names.find(|p| p.symlink_metadata().is_err()).unwrap_or_else(|| file.with_extension("bak"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_is_kept_each_time() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("new/rig.toml");
        assert_eq!(replace(&file, "one"), Ok(Backup::NoFile));
        let mut copies = Vec::new();
        for (text, before) in [("two", "one"), ("three", "two")] {
            let Ok(Backup::At(copy)) = replace(&file, text) else { panic!("a backup") };
            assert_eq!(fs::read_to_string(&copy).expect("copy"), before);
            copies.push(copy);
        }
        assert_ne!(copies[0], copies[1], "within one second too");
        assert_eq!(fs::read_to_string(&file).expect("file"), "three");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link_and_the_permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).expect("set");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        replace(&link, "new").expect("replaced");
        assert!(link.symlink_metadata().expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&real).expect("file"), "new");
        assert_eq!(fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
