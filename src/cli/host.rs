//! What the operating system tells about ports and programs. Each answer is honest about what it could not see.

use std::fmt;

/// A running program.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux tells of programs"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    /// Its number.
    pub(super) pid: u32,
    /// Its name.
    pub(super) name: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// Who has a port open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Users {
    /// Those that could be seen; this program is left out.
    pub(super) processes: Vec<Process>,
    /// Whether every program could be looked at.
    pub(super) complete: bool,
}

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.processes.iter().map(Process::to_string).collect();
        match (names.as_slice(), self.complete) {
            ([], true) => f.write_str("no"),
            ([], false) => f.write_str("unknown (not by a program of yours that could be seen)"),
            (some, _) => f.write_str(&some.join(", ")),
        }
    }
}

/// Whether this user may open a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// It may, as far as the system tells.
    Granted,
    /// It may not; the group that may, where there is one.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only Unix has such permissions"))]
    Denied {
        /// The port's group.
        group: Option<String>,
    },
    /// There is no such port.
    Missing,
}

#[cfg(target_os = "linux")]
pub(super) use linux::{running, users_of};

/// Who has this port open: only Linux tells.
#[cfg(not(target_os = "linux"))]
pub(super) fn users_of(_: &str) -> Users {
    Users::default()
}

/// Which of these programs run: only Linux tells without further ado.
#[cfg(not(target_os = "linux"))]
pub(super) fn running(_: &[&str]) -> Vec<Process> {
    Vec::new()
}

/// Whether this user may open the port, asked without opening it.
#[cfg(unix)]
pub(super) fn access(path: &str) -> Access {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = std::fs::metadata(path) else { return Access::Missing };
    let wanted = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    if rustix::fs::access(path, wanted).is_ok() {
        return Access::Granted;
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    Access::Denied { group: group_named(&groups, facts.gid()) }
}

/// Windows lets everybody open ports; whether one is there shows when it is opened.
#[cfg(not(unix))]
pub(super) fn access(_: &str) -> Access {
    Access::Granted
}

/// The name of a group in `/etc/group`.
#[cfg(unix)]
fn group_named(groups: &str, gid: u32) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(gid)).then(|| name.to_owned())
    })
}

#[cfg(target_os = "linux")]
mod linux {
    //! `/proc`: the open files of the programs that this user may look at.

    use std::fs;
    use std::path::Path;

    use super::{Process, Users};

    /// Who has this port open.
    pub(in super::super) fn users_of(port: &str) -> Users {
        let Ok(real) = fs::canonicalize(port) else { return Users::default() };
        let mut users = Users { processes: Vec::new(), complete: true };
        for (pid, folder) in processes() {
            if pid == std::process::id() {
                continue;
            }
            match fs::read_dir(folder.join("fd")) {
                Ok(files) => {
                    if files.flatten().any(|f| fs::read_link(f.path()).is_ok_and(|to| to == real)) {
                        users.processes.push(Process { pid, name: name(&folder) });
                    }
                }
                // One that has ended meanwhile uses nothing.
                Err(e) => users.complete &= e.kind() == std::io::ErrorKind::NotFound,
            }
        }
        users
    }

    /// Which of these programs run.
    pub(in super::super) fn running(names: &[&str]) -> Vec<Process> {
        let all = processes().map(|(pid, folder)| Process { pid, name: name(&folder) });
        all.filter(|p| names.iter().any(|n| p.name.eq_ignore_ascii_case(n))).collect()
    }

    fn processes() -> impl Iterator<Item = (u32, std::path::PathBuf)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path())))
    }

    fn name(folder: &Path) -> String {
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        name.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_group_is_found_by_its_number() {
        let groups = "root:x:0:\ndialout:x:20:me,you\nuucp:x:10:\n";
        assert_eq!(group_named(groups, 20).as_deref(), Some("dialout"));
        assert_eq!(group_named(groups, 99), None);
        assert_eq!(group_named("broken\n:\n", 0), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_port_that_is_not_there_is_missing_and_not_denied() {
        assert_eq!(access("/dev/no-such-port"), Access::Missing);
        assert_eq!(access("/dev/null"), Access::Granted);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_has_a_file_open_is_seen() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("port");
        std::fs::write(&path, "").expect("written");
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .stdin(std::fs::File::open(&path).expect("opened"))
            .spawn()
            .expect("a program that waits");
        let users = users_of(path.to_str().expect("text"));
        other.kill().expect("ended");
        other.wait().expect("ended");
        assert_eq!(users.processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [other.id()]);
        assert!(users.to_string().contains(&other.id().to_string()));
    }
}
