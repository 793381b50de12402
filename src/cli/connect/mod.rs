//! `steadyhand connect`: writes the entry with which a client starts this server, or shows it.

mod merge;
mod places;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::serve::{Options, client_args, shell_word};
use super::written::{self, Backup};
use super::{colours, fail, say};
use crate::config;
use crate::devices;
use merge::Entry;

/// Write the entry with which a client starts this server.
///
/// The entry has absolute paths. What else stands in the client's file stays as it is, down to its order and its
/// comments, and a copy of the file is kept beside it; a file that is broken is refused, with its line. Running it
/// again changes nothing. With --print nothing is written: the file's path and the entry are shown.
///
/// claude-desktop: the application's own file, on Windows also where the Store's version keeps it. claude-code:
/// `.mcp.json` in the current folder. codex: `config.toml` in CODEX_HOME or ~/.codex. eaa: shown only, since EAA reads
/// no file.
#[derive(Debug, Args)]
pub(super) struct ConnectArgs {
    /// The client.
    #[arg(value_enum, value_name = "CLIENT")]
    client: Client,
    /// The rig file.
    ///
    /// Without it, `rig.toml` in the current folder is used, else the one in the platform's folder for configuration.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// What the client calls this server.
    #[arg(long, value_name = "NAME", default_value = "steadyhand", value_parser = server_name)]
    name: String,
    /// Show the entry and where it goes, and write nothing.
    #[arg(long)]
    print: bool,
    /// The client's file, if it is not where it usually is.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// The clients whose files are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code, for the project in the current folder.
    ClaudeCode,
    /// Codex.
    Codex,
    /// EAA, or any Python program.
    Eaa,
}

impl Client {
    fn title(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "Claude Desktop",
            Client::ClaudeCode => "Claude Code",
            Client::Codex => "Codex",
            Client::Eaa => "EAA",
        }
    }

    /// What makes it read its file anew.
    fn after(self) -> &'static str {
        match self {
            Client::ClaudeDesktop => "Quit Claude Desktop (from its menu, not only the window) and start it again.",
            Client::ClaudeCode => "Start `claude` in this folder; it asks once whether you trust the server.",
            Client::Codex => "Start Codex anew; `/mcp` lists its servers.",
            Client::Eaa => "",
        }
    }
}

/// A name that every client's file can carry unquoted.
fn server_name(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.len() <= 64 && text.chars().all(good) {
        return Ok(text.to_owned());
    }
    Err("use letters, digits, - and _, at most 64 of them".into())
}

pub(super) fn run(args: &ConnectArgs) -> ExitCode {
    let rig = match config::find(args.rig.as_deref()) {
        Ok(path) => path,
        Err(none) => return fail(&none.to_string()),
    };
    if let Err(problems) = config::load(&rig, &devices::known()) {
        say(io::stderr(), &problems.render(colours()));
        return fail("mend the rig file first; a client could do nothing with it");
    }
    let exe = match std::env::current_exe() {
        Ok(exe) => exe,
        Err(error) => return fail(&format!("the path of this program can't be had: {error}")),
    };
    let entry =
        Entry { name: args.name.clone(), command: exe.display().to_string(), args: client_args(&args.options, &rig) };
    let result = match args.client {
        Client::Eaa => Ok(for_python(&entry)),
        client => place(client, args.file.as_deref()).and_then(|file| settle(client, &file, &entry, args.print)),
    };
    match result {
        Ok(text) => {
            say(io::stdout(), &text);
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// The client's file.
fn place(client: Client, named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(file) = named {
        return std::path::absolute(file).map_err(|e| format!("{}: {e}", file.display()));
    }
    let here = places::Here::of_this_machine()?;
    match client {
        Client::ClaudeDesktop => here.claude_desktop(),
        Client::ClaudeCode => Ok(here.current.join(".mcp.json")),
        Client::Codex => Ok(here.codex()),
        Client::Eaa => Err("EAA reads no file".into()),
    }
}

/// Merges the entry into the client's file, or shows what it would be.
fn settle(client: Client, file: &Path, entry: &Entry, print: bool) -> Result<String, String> {
    let old = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(format!("{} can't be read: {e}", file.display())),
    };
    let merged = merged(client, old.as_deref().unwrap_or(""), entry)
        .map_err(|broken| format!("{}:{broken}; nothing was changed", file.display()))?;
    let mut lines = Vec::new();
    let there = file.display();
    if print {
        lines.push(format!(
            "{}'s file is {there}{}.",
            client.title(),
            if old.is_none() { " (not there yet)" } else { "" }
        ));
        lines.push(format!("The entry:\n\n{}", alone(client, entry)?));
    } else if old.as_deref() == Some(merged.as_str()) {
        lines.push(format!("{there} has this entry already; nothing was changed."));
    } else {
        let backup = written::replace(file, &merged)?;
        lines.push(format!("Wrote \"{}\" into {there}.", entry.name));
        if let Some(other) = other_rig(client, old.as_deref().unwrap_or(""), entry) {
            lines.push(format!("It replaced the entry for {other}; --name NAME keeps both."));
        }
        if let Backup::At(copy) = backup {
            lines.push(format!("As it was before: {}", copy.display()));
        }
        lines.push(client.after().to_owned());
    }
    if client == Client::ClaudeCode {
        lines.push(format!("For all your projects instead of this one:\n\n  {}\n", everywhere(entry)));
    }
    Ok(lines.join("\n"))
}

/// The rig file for which the entry of that name stood there, if it was another one.
fn other_rig(client: Client, old: &str, entry: &Entry) -> Option<String> {
    let args = match client {
        Client::Codex => merge::args_in_toml(old, &entry.name),
        _ => merge::args_in_json(old, &entry.name),
    }?;
    let rig = |args: &[String]| args.iter().skip_while(|a| *a != "--rig").nth(1).cloned();
    rig(&args).filter(|was| Some(was) != rig(&entry.args).as_ref())
}

fn merged(client: Client, old: &str, entry: &Entry) -> Result<String, merge::Broken> {
    match client {
        Client::Codex => merge::toml(old, entry),
        Client::ClaudeCode => merge::json(old, entry, true),
        Client::ClaudeDesktop | Client::Eaa => merge::json(old, entry, false),
    }
}

/// The entry as the whole of a file.
fn alone(client: Client, entry: &Entry) -> Result<String, String> {
    merged(client, "", entry).map_err(|e| e.to_string())
}

/// The command that adds it to Claude Code for every project.
fn everywhere(entry: &Entry) -> String {
    let words = std::iter::once(&entry.command).chain(&entry.args).map(|w| shell_word(w));
    format!("claude mcp add --scope user {} -- {}", entry.name, words.collect::<Vec<_>>().join(" "))
}

/// What a Python program writes.
fn for_python(entry: &Entry) -> String {
    // A Python literal of strings alone is written as JSON writes it.
    let config = serde_json::json!({ "mcpServers": { &entry.name: { "command": entry.command, "args": entry.args } } });
    format!(
        "EAA reads no file: give this to its MCPTool (the rig file needs a section [eaa]).\n\n\
         from eaa_core.tool.mcp_client import MCPTool\n\n\
         tool = MCPTool({config:#})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            name: "steadyhand".into(),
            command: "/opt/steady hand/steadyhand".into(),
            args: vec!["serve".into(), "--rig".into(), "/home/me/rig.toml".into()],
        }
    }

    #[test]
    fn what_is_written_is_there_the_second_time_and_the_first_file_is_kept() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("Claude/claude_desktop_config.json");
        let told = settle(Client::ClaudeDesktop, &file, &entry(), false).expect("written");
        assert!(told.contains("Wrote") && !told.contains("before:"), "{told}");
        let first = fs::read_to_string(&file).expect("there");
        let told = settle(Client::ClaudeDesktop, &file, &entry(), false).expect("nothing to do");
        assert!(told.contains("already"), "{told}");

        let other = Entry { command: "/elsewhere".into(), ..entry() };
        let told = settle(Client::ClaudeDesktop, &file, &other, false).expect("written");
        let copy = told.lines().find_map(|l| l.strip_prefix("As it was before: ")).expect("a backup");
        assert_eq!(fs::read_to_string(copy).expect("the backup"), first);
        assert!(fs::read_to_string(&file).expect("there").contains("/elsewhere"));
    }

    #[test]
    fn who_replaces_another_rigs_entry_is_told_which() {
        let folder = tempfile::tempdir().expect("folder");
        let other = Entry { args: vec!["serve".into(), "--rig".into(), "/home/me/other.toml".into()], ..entry() };
        for (client, file) in [(Client::Codex, "config.toml"), (Client::ClaudeCode, ".mcp.json")] {
            let file = folder.path().join(file);
            let told = settle(client, &file, &entry(), false).expect("written");
            assert!(!told.contains("replaced"), "{told}");
            let told = settle(client, &file, &other, false).expect("written");
            assert!(told.contains("It replaced the entry for /home/me/rig.toml; --name NAME keeps both."), "{told}");
            // The same rig by another program is no other rig.
            let moved = Entry { command: "/elsewhere".into(), ..other.clone() };
            let told = settle(client, &file, &moved, false).expect("written");
            assert!(told.contains("Wrote") && !told.contains("replaced"), "{told}");
        }
    }

    #[test]
    fn print_writes_nothing_and_a_broken_file_is_refused_with_its_line() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("config.toml");
        let told = settle(Client::Codex, &file, &entry(), true).expect("shown");
        assert!(told.contains("not there yet") && told.contains("[mcp_servers.steadyhand]"), "{told}");
        assert!(!file.exists());
        fs::write(&file, "model = \"x\"\nbroken = \n").expect("written");
        let refused = settle(Client::Codex, &file, &entry(), false).expect_err("broken");
        assert!(refused.contains("config.toml:2"), "{refused}");
        assert_eq!(fs::read_to_string(&file).expect("there"), "model = \"x\"\nbroken = \n");
    }

    #[test]
    fn names_that_a_file_would_have_to_quote_are_refused() {
        assert!(server_name("scope-2_b").is_ok());
        for bad in ["", "a b", "a.b", "ü", "a\"b"] {
            assert!(server_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_for_claude_code_quotes_what_a_shell_would_split() {
        let line = everywhere(&entry());
        assert!(
            line.starts_with("claude mcp add --scope user steadyhand -- \"/opt/steady hand/steadyhand\" serve"),
            "{line}"
        );
    }
}
