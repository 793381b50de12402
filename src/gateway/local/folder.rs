//! Where locks and sockets lie: a folder of this user's alone, never under AppData, and one name for each rig file
//! whatever way its path is written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use interprocess::local_socket::Name;

/// Names another folder for locks and sockets; for tests, and where the platform's own can't be used.
const OVERRIDE: &str = "STEADYHAND_RUNTIME_DIR";

/// The socket's two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Socket {
    /// Stop, status and a person's other requests.
    Control,
    /// Clients' sessions.
    Clients,
}

/// The names of one rig's lock and sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
    key: String,
}

impl Place {
    /// Of the rig that this file describes. The same file is the same place, whatever way it is named.
    ///
    /// # Errors
    /// When no folder can be had, or the file isn't there.
    pub fn of_rig(file: &Path) -> io::Result<Place> {
        Place::of_rig_in(&folder()?, file)
    }

    /// The same in a folder of the caller's choice.
    ///
    /// # Errors
    /// When the file isn't there.
    pub fn of_rig_in(folder: &Path, file: &Path) -> io::Result<Place> {
        let real = fs::canonicalize(file)?;
        let key = format!("{:016x}", fnv(real.as_os_str().as_encoded_bytes()));
        Ok(Place { folder: folder.to_owned(), key })
    }

    /// Of this process's demonstration: each has a bench of its own.
    ///
    /// # Errors
    /// When no folder can be had.
    pub fn of_demo() -> io::Result<Place> {
        Ok(Place { folder: folder()?, key: format!("demo-{}", std::process::id()) })
    }

    /// Of what one process uses at a time, such as a device on the network: its lock is that of who has it.
    ///
    /// # Errors
    /// When no folder can be had.
    pub(super) fn of_use(what: &str) -> io::Result<Place> {
        Ok(Place { folder: folder()?, key: format!("use-{:016x}", fnv(what.as_bytes())) })
    }

    /// The lock file of such a use, other than a rig's.
    pub(super) fn sole(&self) -> PathBuf {
        self.file("sole")
    }

    /// Who has that lock, in words. Not among the owners' own words, where rigs are looked for.
    pub(super) fn user(&self) -> PathBuf {
        self.file("user")
    }

    /// Whether it is a demonstration's: nothing of it is left behind.
    pub(super) fn is_demo(&self) -> bool {
        self.key.starts_with("demo-")
    }

    /// The lock file. It is never removed while others may want it: a lock on a file without a name is none.
    pub(super) fn lock(&self) -> PathBuf {
        self.file("lock")
    }

    /// What the owner says about itself.
    pub(super) fn about(&self) -> PathBuf {
        self.file("json")
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", self.key))
    }

    /// The files of the sockets, where sockets are files.
    pub(super) fn socket_files(&self) -> Vec<PathBuf> {
        if cfg!(windows) { Vec::new() } else { vec![self.file("control"), self.file("clients")] }
    }

    /// The name of a socket.
    ///
    /// # Errors
    /// When the platform can't have such a name.
    #[cfg(unix)]
    pub(super) fn socket(&self, which: Socket) -> io::Result<Name<'static>> {
        use interprocess::local_socket::{GenericFilePath, ToFsName};
        let kind = match which {
            Socket::Control => "control",
            Socket::Clients => "clients",
        };
        self.file(kind).to_fs_name::<GenericFilePath>()
    }

    /// The name of a socket.
    ///
    /// # Errors
    /// When the platform can't have such a name.
    #[cfg(not(unix))]
    pub(super) fn socket(&self, which: Socket) -> io::Result<Name<'static>> {
        use interprocess::local_socket::{GenericNamespaced, ToNsName};
        let user: String = std::env::var("USERNAME").unwrap_or_default();
        let user = format!("{:016x}", fnv(user.as_bytes()));
        format!("steadyhand-{user}-{}-{which:?}", self.key).to_ns_name::<GenericNamespaced>()
    }
}

/// Every place in which an owner has been. Whether one is there now, its socket tells.
///
/// # Errors
/// When no folder can be had or read.
pub fn places() -> io::Result<Vec<Place>> {
    let folder = folder()?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json")
            && let Some(key) = path.file_stem().and_then(|s| s.to_str())
        {
            found.push(Place { folder: folder.clone(), key: key.to_owned() });
        }
    }
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(found)
}

/// FNV-1a: the same in every version of the program, which the standard library's hashes don't promise.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, b| (hash ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The folder, made where it is missing.
fn folder() -> io::Result<PathBuf> {
    let mut first = None;
    for candidate in candidates() {
        match private(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) => {
                first.get_or_insert_with(|| io::Error::new(error.kind(), format!("{}: {error}", candidate.display())));
            }
        }
    }
    let none = || io::Error::new(io::ErrorKind::NotFound, "this platform names no folder of the user's own");
    Err(first.unwrap_or_else(none))
}

#[cfg(unix)]
fn candidates() -> Vec<PathBuf> {
    /// Sockets have short names: 104 bytes on macOS, of which the key and the kind take some.
    const LONGEST: usize = 70;
    if let Some(named) = std::env::var_os(OVERRIDE).filter(|v| !v.is_empty()) {
        return vec![named.into()];
    }
    let user = rustix::process::geteuid().as_raw();
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    // A process that was started without a session's environment finds the others all the same.
    let usual = cfg!(target_os = "linux").then(|| PathBuf::from(format!("/run/user/{user}")));
    let mut list: Vec<PathBuf> = own.into_iter().chain(usual).map(|p| p.join("steadyhand")).collect();
    list.retain(|p| p.as_os_str().len() <= LONGEST);
    list.push(std::env::temp_dir().join(format!("steadyhand-{user}")));
    list
}

#[cfg(not(unix))]
fn candidates() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(OVERRIDE).filter(|v| !v.is_empty()) {
        return vec![named.into()];
    }
    // Not AppData: what a packaged desktop app starts sees a private copy of it.
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().join(".steadyhand").join("run"));
    home.into_iter().collect()
}

/// Makes the folder if it is missing, and proves that it is this user's alone.
#[cfg(unix)]
fn private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is no folder of this user's own"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!((fnv(b""), fnv(b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_may_enter_is_closed_to_them_and_a_link_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        private(&open).unwrap();
        assert_eq!(fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o700);
        let link = base.path().join("link");
        std::os::unix::fs::symlink(&open, &link).unwrap();
        assert_eq!(private(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_one_place_whatever_way_it_is_named() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("rig.toml");
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, base.path().join("link.toml")).unwrap();
        let place = |name: &str| Place::of_rig_in(base.path(), &base.path().join(name)).unwrap();
        let one = place("rig.toml");
        assert_eq!(one, place("link.toml"));
        assert_eq!(one, place("./rig.toml"));
        fs::write(base.path().join("other.toml"), "").unwrap();
        assert_ne!(one, place("other.toml"));
    }
}
