//! `steadyhand completions`: what a shell needs to complete this program's commands.

use std::io;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;

/// Print completions for a shell.
///
/// bash: `steadyhand completions bash > ~/.local/share/bash-completion/completions/steadyhand`. zsh: into a file
/// `_steadyhand` in a folder of `$fpath`. fish: `~/.config/fish/completions/steadyhand.fish`. PowerShell: append it to
/// the file that `$PROFILE` names.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "steadyhand", &mut text);
    super::say(io::stdout(), String::from_utf8_lossy(&text).trim_end());
    ExitCode::SUCCESS
}
