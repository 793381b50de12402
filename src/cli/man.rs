//! `steadyhand man`: the manual pages, made from the same words as the help.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use super::{Cli, fail, say};

/// Print the manual page, or write all of them into a folder.
///
/// `steadyhand man | man -l -` shows it; `steadyhand man --dir ~/.local/share/man/man1` installs one page for the
/// program and one for each command.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Write every page into this folder.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> ExitCode {
    let done = match &args.dir {
        Some(dir) => write(dir).map(|()| format!("The pages are in {}.", dir.display())),
        None => page(),
    };
    match done {
        Ok(text) => {
            say(io::stdout(), text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&format!("the manual pages could not be written: {error}")),
    }
}

fn page() -> io::Result<String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_page() {
        let folder = tempfile::tempdir().expect("folder");
        write(folder.path()).expect("written");
        for command in Cli::command().get_subcommands() {
            let file = folder.path().join(format!("steadyhand-{}.1", command.get_name()));
            assert!(file.exists(), "{}", file.display());
        }
        assert!(page().expect("a page").contains("steadyhand"));
    }
}
