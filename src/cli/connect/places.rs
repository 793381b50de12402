//! Where clients keep their files, by platform.

use std::fs;
use std::path::{Path, PathBuf};

/// Claude Desktop's file.
const DESKTOP: &str = "claude_desktop_config.json";

/// The folders from which clients' files are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Here {
    /// The user's home.
    pub(super) home: PathBuf,
    /// The current folder.
    pub(super) current: PathBuf,
    /// Where applications keep their settings: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    pub(super) settings: PathBuf,
    /// `%LOCALAPPDATA%\Packages`, on Windows.
    pub(super) packages: Option<PathBuf>,
    /// `CODEX_HOME`, if it is set.
    pub(super) codex_home: Option<PathBuf>,
}

impl Here {
    /// The folders of this user on this machine.
    pub(super) fn of_this_machine() -> Result<Here, String> {
        let dirs = directories::BaseDirs::new().ok_or("no home folder is known; name the client's file with --file")?;
        let current = std::env::current_dir().map_err(|e| format!("the current folder can't be had: {e}"))?;
        Ok(Here {
            home: dirs.home_dir().to_owned(),
            current,
            settings: dirs.config_dir().to_owned(),
            packages: cfg!(windows).then(|| dirs.data_local_dir().join("Packages")),
            codex_home: std::env::var_os("CODEX_HOME").filter(|v| !v.is_empty()).map(PathBuf::from),
        })
    }

    /// Claude Desktop's file. The Store's version is given a private copy of its settings folder and never reads the
    /// documented one; so its own wins where there is one.
    pub(super) fn claude_desktop(&self) -> Result<PathBuf, String> {
        let private = self.packages.as_deref().map(packaged).unwrap_or_default();
        let with_file: Vec<&PathBuf> = private.iter().filter(|f| f.exists()).collect();
        match (private.as_slice(), with_file.as_slice()) {
            ([], _) => Ok(self.settings.join("Claude").join(DESKTOP)),
            ([one], _) => Ok(one.clone()),
            (_, [one]) => Ok((*one).clone()),
            (many, _) => Err(format!(
                "there are several Claude Desktops here: {}. Name the file of the one you use with --file",
                many.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// Codex's file.
    pub(super) fn codex(&self) -> PathBuf {
        self.codex_home.clone().unwrap_or_else(|| self.home.join(".codex")).join("config.toml")
    }
}

/// The files of Claude Desktops that were installed as packages.
fn packaged(packages: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(packages) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("Claude_"))
        .map(|e| e.path().join("LocalCache").join("Roaming").join("Claude").join(DESKTOP))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(root: &Path, packages: bool) -> Here {
        Here {
            home: root.join("home"),
            current: root.to_owned(),
            settings: root.join("settings"),
            packages: packages.then(|| root.join("Packages")),
            codex_home: None,
        }
    }

    #[test]
    fn the_stores_claude_desktop_reads_its_private_copy() {
        let root = tempfile::tempdir().expect("folder");
        let plain = root.path().join("settings/Claude").join(DESKTOP);
        assert_eq!(here(root.path(), false).claude_desktop(), Ok(plain.clone()));
        assert_eq!(here(root.path(), true).claude_desktop(), Ok(plain), "no package is installed");

        let own = root.path().join("Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude");
        fs::create_dir_all(&own).expect("folder");
        assert_eq!(here(root.path(), true).claude_desktop(), Ok(own.join(DESKTOP)));

        fs::create_dir_all(root.path().join("Packages/Claude_other")).expect("folder");
        let told = here(root.path(), true).claude_desktop().expect_err("two");
        assert!(told.contains("--file") && told.contains("Claude_other"), "{told}");
        fs::write(own.join(DESKTOP), "{}").expect("written");
        assert_eq!(here(root.path(), true).claude_desktop(), Ok(own.join(DESKTOP)), "the one that is used");
    }

    #[test]
    fn codex_home_comes_before_the_home_folder() {
        let root = Path::new("/r");
        assert_eq!(here(root, false).codex(), Path::new("/r/home/.codex/config.toml"));
        let moved = Here { codex_home: Some("/c".into()), ..here(root, false) };
        assert_eq!(moved.codex(), Path::new("/c/config.toml"));
    }
}
