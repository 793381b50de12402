//! Files that appear whole or not at all, and the names they may have.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use crate::model::{Code, RigError};

/// The wall time `age` ago, RFC 3339 with milliseconds and the local offset.
pub fn stamp(age: Duration) -> String {
    let now = jiff::Zoned::now();
    shown(&now.checked_sub(age).unwrap_or(now))
}

/// A time of the audit log, which is kept in UTC, as all other times are told: with the local offset.
pub fn local(utc: &str) -> String {
    match utc.parse::<jiff::Timestamp>() {
        Ok(at) => shown(&at.to_zoned(jiff::tz::TimeZone::system())),
        Err(_) => utc.to_owned(),
    }
}

fn shown(at: &jiff::Zoned) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
}

/// What went wrong with a file, and what a person can do about it.
pub(super) fn failed(path: &Path, verb: &str, error: &io::Error) -> RigError {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "Free space on that disk, or choose another folder.",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "Allow this user to write there, or choose another folder."
        }
        ErrorKind::AlreadyExists => "Nothing was overwritten.",
        ErrorKind::NotADirectory | ErrorKind::NotFound => "Check that this folder exists and is one.",
        _ => "Check that disk.",
    };
    let what = format!("Could not {verb} {}: {error}. {remedy}", path.display());
    RigError::new(Code::StorageFailed, what)
}

/// The real, absolute path, on Windows without the `\\?\` that other programs don't understand.
pub(super) fn canonical(path: &Path) -> io::Result<PathBuf> {
    let real = path.canonicalize()?;
    Ok(match real.to_str().and_then(without_verbatim) {
        Some(plain) => PathBuf::from(plain),
        None => real,
    })
}

/// `C:\x` for `\\?\C:\x`; other verbatim paths have no other form.
fn without_verbatim(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(r"\\?\")?;
    let drive = rest.as_bytes();
    (drive.len() > 2 && drive[0].is_ascii_alphabetic() && &drive[1..3] == br":\").then_some(rest)
}

/// Makes a folder, with those above it; returns its real path.
pub(super) fn folder(path: &Path) -> Result<PathBuf, RigError> {
    std::fs::create_dir_all(path).and_then(|()| canonical(path)).map_err(|e| failed(path, "make the folder", &e))
}

/// The folder `name` in `root`, made if it is missing. A link of that name is refused: nothing is ever
/// written outside the root.
pub(super) fn folder_beneath(root: &Path, name: &str) -> Result<PathBuf, RigError> {
    let path = root.join(name);
    let made = std::fs::create_dir_all(&path).and_then(|()| std::fs::symlink_metadata(&path));
    match made {
        Ok(meta) if meta.is_dir() => Ok(path),
        Ok(_) => {
            let what = format!("{} leads elsewhere; nothing is written outside of {}.", path.display(), root.display());
            Err(RigError::new(Code::StorageFailed, what))
        }
        Err(e) => Err(failed(&path, "make the folder", &e)),
    }
}

/// What of `text` can be part of a file name: `[a-z0-9_-]`, at most 40 characters; `None` if nothing.
pub(super) fn slug(text: &str) -> Option<String> {
    let mut slug = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' | '_' => slug.push(c),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
        if slug.len() == 40 {
            break;
        }
    }
    slug.truncate(slug.trim_end_matches('-').len());
    (!slug.is_empty()).then_some(slug)
}

/// Whether Windows takes a file of that name for a device.
pub(super) fn is_reserved(stem: &str) -> bool {
    let numbered =
        |prefix| stem.strip_prefix(prefix).is_some_and(|n: &str| n.len() == 1 && n.as_bytes()[0].is_ascii_digit());
    matches!(stem, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// Writes all files or none. Each is written to a temporary file in `folder`, and when all are, they take
/// their names in order; a name that is taken is never overwritten.
pub(super) fn place(folder: &Path, files: &[(PathBuf, &[u8])]) -> Result<(), (PathBuf, io::Error)> {
    let mut written = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        // A temporary file that isn't persisted is removed when it is dropped.
        written.push((path, temporary(folder, bytes).map_err(|e| (path.clone(), e))?));
    }
    let mut placed: Vec<&Path> = Vec::new();
    for (path, file) in written {
        if let Err(e) = give_name(file, path) {
            placed.iter().for_each(|path| drop(std::fs::remove_file(path)));
            return Err((path.clone(), e));
        }
        placed.push(path);
    }
    Ok(())
}

/// Replaces a file by a whole new one that has reached the disk.
///
/// # Errors
/// [`Code::StorageFailed`] when it can't be written; the old one is there then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), RigError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let swap = || {
        let file = temporary(folder, bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        // The name itself is on the disk only when the folder is; Windows has no such call.
        if cfg!(unix) { std::fs::File::open(folder)?.sync_all() } else { Ok(()) }
    };
    swap().map_err(|e| failed(path, "write", &e))
}

fn temporary(folder: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".steadyhand-").suffix(".part");
    // Readable by whoever the umask lets; a temporary file is its owner's alone otherwise.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Renames without overwriting. Where the file system can't do that in one step (exFAT, some network
/// shares), an empty file claims the name first.
fn give_name(file: NamedTempFile, path: &Path) -> io::Result<()> {
    let refused = match file.persist_noclobber(path) {
        Ok(_) => return Ok(()),
        Err(e) => e,
    };
    let unable = matches!(
        refused.error.kind(),
        ErrorKind::Unsupported | ErrorKind::InvalidInput | ErrorKind::PermissionDenied | ErrorKind::Other
    );
    if !unable {
        return Err(refused.error);
    }
    claim_and_rename(refused.file, path)
}

fn claim_and_rename(file: NamedTempFile, path: &Path) -> io::Result<()> {
    std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    if let Err(e) = file.persist(path) {
        std::fs::remove_file(path)?;
        return Err(e.error);
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::store) fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    #[test]
    fn a_taken_name_undoes_the_whole_set_and_keeps_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name| dir.path().join(name);
        std::fs::write(path("a.json"), "old").unwrap();
        let set: [(PathBuf, &[u8]); 3] = [(path("a.tif"), b"1"), (path("a.png"), b"2"), (path("a.json"), b"new")];
        let (at, e) = place(dir.path(), &set).unwrap_err();
        assert_eq!((at, e.kind()), (path("a.json"), ErrorKind::AlreadyExists));
        assert_eq!(names(dir.path()), ["a.json"]);
        assert_eq!(std::fs::read(path("a.json")).unwrap(), b"old");
    }

    #[test]
    fn a_claimed_name_is_as_safe_as_a_rename_without_overwriting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.png");
        claim_and_rename(temporary(dir.path(), b"first").unwrap(), &path).unwrap();
        let e = claim_and_rename(temporary(dir.path(), b"second").unwrap(), &path).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::AlreadyExists);
        assert_eq!((std::fs::read(&path).unwrap(), names(dir.path())), (b"first".to_vec(), vec!["x.png".into()]));
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(dir.path())), (b"two".to_vec(), vec!["p.json".into()]));
        assert_eq!(replace(&dir.path().join("none/p.json"), b"x").unwrap_err().code, Code::StorageFailed);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_written_can_be_read_by_others_as_the_umask_allows() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        let ours = dir.path().join("ours");
        place(dir.path(), &[(ours.clone(), b"x")]).unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&plain));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_root_is_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), root.path().join("exports")).unwrap();
        let e = folder_beneath(root.path(), "exports").unwrap_err();
        assert!(e.code == Code::StorageFailed && e.what.contains("leads elsewhere"), "{e}");
    }

    #[test]
    fn labels_become_short_plain_names() {
        assert_eq!(slug("Flake #3 (µ)").as_deref(), Some("flake-3"));
        assert_eq!(slug("../../etc/passwd").as_deref(), Some("etc-passwd"));
        assert_eq!(slug("a_b-c").as_deref(), Some("a_b-c"));
        assert_eq!(slug(&"x".repeat(99)).unwrap().len(), 40);
        for nothing in ["", "..", "///", "日本", "\0\n"] {
            assert_eq!(slug(nothing), None);
        }
    }

    #[test]
    fn windows_devices_are_no_file_names() {
        assert!(["con", "nul", "com1", "lpt9"].into_iter().all(is_reserved));
        assert!(!["console", "com", "com10", "camera"].into_iter().any(is_reserved));
    }

    #[test]
    fn windows_paths_are_written_as_other_programs_read_them() {
        assert_eq!(without_verbatim(r"\\?\C:\Users\x"), Some(r"C:\Users\x"));
        assert_eq!(without_verbatim(r"\\?\UNC\server\share"), None);
        assert_eq!(without_verbatim("/home/x"), None);
    }

    #[test]
    fn a_time_of_the_log_is_told_like_any_other() {
        let utc = "2026-11-30T10:11:12.345Z";
        let told = local(utc);
        assert_eq!((told.len(), told.ends_with('Z')), (stamp(Duration::ZERO).len(), false), "{told}");
        assert_eq!(told.parse::<jiff::Timestamp>().unwrap(), utc.parse().unwrap());
        assert_eq!(local("once"), "once");
    }

    #[test]
    fn a_stamp_goes_back_by_the_age() {
        let parse = |s: String| s.parse::<jiff::Timestamp>().unwrap();
        let (now, earlier) = (parse(stamp(Duration::ZERO)), parse(stamp(Duration::from_secs(90))));
        let apart = (now - earlier).total(jiff::Unit::Second).unwrap();
        assert!((89.0..91.0).contains(&apart), "{apart}");
        assert!(stamp(Duration::MAX).parse::<jiff::Timestamp>().is_ok());
    }

    proptest! {
        #[test]
        fn a_slug_is_always_a_single_harmless_name(text in any::<String>()) {
            if let Some(slug) = slug(&text) {
                prop_assert!(slug.len() <= 40 && !slug.starts_with('-'));
                prop_assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-'));
            }
        }
    }
}
