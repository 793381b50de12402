//! `steadyhand log`: whether the audit log is whole, and what stands in it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{colours, fail, say};
use crate::config;
use crate::devices;
use crate::store::{LoggedEvent, Store, Verified, events_in, harmless, verify};

/// Check the audit log, or show it.
///
/// Reads files only, also while a server writes them.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    Verify(VerifyArgs),
    Show(ShowArgs),
}

/// Where the log is.
#[derive(Debug, Args)]
struct Where {
    /// The rig file. Without it, `rig.toml` in the current folder, else the one in the platform's folder for
    /// configuration.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// The data folder that the server was given; the log is in its folder `audit`. The rig file is not needed then.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Where {
    fn folder(&self) -> Result<PathBuf, String> {
        if let (Some(dir), None) = (&self.data_dir, &self.rig) {
            return Ok(dir.join("audit"));
        }
        let path = config::find(self.rig.as_deref()).map_err(|none| none.to_string())?;
        let rig = config::load(&path, &devices::known()).map_err(|problems| {
            format!(
                "{}\nTo check a log without its rig file, name its folder with --data-dir",
                problems.render(colours())
            )
        })?;
        let place = Store::place(rig.name.as_str(), self.data_dir.as_deref()).map_err(|e| e.what)?;
        Ok(place.join("audit"))
    }
}

/// Find every line of the audit log that was changed, removed, moved, put in or cut off.
///
/// Each line carries the hash of the line before it, over all files and restarts. Exit code 0 when the log is whole, 1
/// when it is not or can't be read. Who can write the log's folder can also compute a new chain: note the hash that this
/// prints somewhere else, and give it back later with --noted. Then nothing before it can have changed unseen.
#[derive(Debug, Args)]
struct VerifyArgs {
    #[command(flatten)]
    place: Where,
    /// A hash that an earlier check had printed: its line must still be there. May be given several times.
    #[arg(long, value_name = "HASH")]
    noted: Vec<String>,
    /// The oldest files were put away: the log needs not begin with its first line.
    #[arg(long)]
    archived: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Show the newest lines of the audit log, the newest last.
#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    place: Where,
    /// How many.
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 20)]
    lines: usize,
    /// Only about this device.
    #[arg(long)]
    device: Option<String>,
    /// Only of this kind: intent, outcome, refused, stop, fault …
    #[arg(long)]
    kind: Option<String>,
    /// Only by this caller: its id, or what its client calls itself.
    #[arg(long)]
    caller: Option<String>,
    /// Only of this call, by the client's number of it.
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// As JSON, one event a line, with all facts.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &LogArgs) -> ExitCode {
    match &args.command {
        LogCommand::Verify(args) => verified(args),
        LogCommand::Show(args) => show(args),
    }
}

fn verified(args: &VerifyArgs) -> ExitCode {
    let noted: Vec<String> = args.noted.iter().map(|h| h.trim().to_lowercase()).collect();
    if let Some(bad) = noted.iter().find(|h| h.len() != 64 || !h.bytes().all(|b| b.is_ascii_hexdigit())) {
        return fail(&format!("{bad:?} is no hash: it has 64 hexadecimal digits"));
    }
    let dir = match args.place.folder() {
        Ok(dir) => dir,
        Err(error) => return fail(&error),
    };
    let found = match verify(&dir, &noted, args.archived) {
        Ok(found) => found,
        Err(error) => return fail(&error.what),
    };
    if args.json {
        say(io::stdout(), &as_json(&dir, &found).to_string());
    } else {
        say(io::stdout(), &in_words(&dir, &found, !noted.is_empty()));
    }
    if found.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_words(dir: &Path, found: &Verified, noted: bool) -> String {
    let mut lines = Vec::new();
    for b in &found.breaks {
        let at = if b.line == 0 { String::new() } else { format!(" line {}", b.line) };
        lines.push(harmless(&format!("BROKEN {}{at}: {}", b.file.display(), b.what)));
    }
    if found.more > 0 {
        lines.push(format!("and {} more", found.more));
    }
    lines.extend(found.notes.iter().map(|n| harmless(&format!("note: {n}"))));
    if found.unchained > 0 {
        lines.push(format!(
            "note: {} lines at the beginning carry no hash, because an older version wrote them: nothing is proved of them \
             but that the last of them is the one that the chain began on.",
            found.unchained
        ));
    }
    let (all, files) = (found.lines, found.files);
    let verdict = if found.is_whole() { "The audit log is whole" } else { "THE AUDIT LOG IS NOT WHOLE" };
    lines.push(harmless(&format!(
        "{verdict}: {} in {} in {}.",
        counted(all, "line"),
        counted(files as u64, "file"),
        dir.display()
    )));
    if let Some(newest) = &found.newest {
        lines.push(format!("newest: line {} with the hash {}", newest.seq, newest.hash));
        if !noted {
            lines.push(
                "Not proved: that nobody who can write that folder made the whole chain anew. Note this hash elsewhere, and \
                 give it back with --noted next time."
                    .into(),
            );
        }
    }
    lines.join("\n")
}

/// `1 line`, `2 lines`.
fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

fn as_json(dir: &Path, found: &Verified) -> Value {
    let breaks: Vec<Value> = found
        .breaks
        .iter()
        .map(|b| json!({ "file": b.file.display().to_string(), "line": b.line, "what": b.what }))
        .collect();
    json!({
        "whole": found.is_whole(), "folder": dir.display().to_string(), "files": found.files, "lines": found.lines,
        "without_hash": found.unchained, "newest": found.newest, "breaks": breaks, "more_breaks": found.more,
        "notes": found.notes,
    })
}

fn show(args: &ShowArgs) -> ExitCode {
    let events = args.place.folder().and_then(|dir| events_in(&dir).map_err(|e| e.what));
    let events = match events {
        Ok(events) => events,
        Err(error) => return fail(&error),
    };
    let wanted: Vec<&LoggedEvent> = events.iter().filter(|e| wants(args, e)).collect();
    if wanted.is_empty() {
        return fail("no such event among the newest 5000");
    }
    for event in &wanted[wanted.len().saturating_sub(args.lines)..] {
        let text = if args.json { json!(event).to_string() } else { line(event) };
        say(io::stdout(), &harmless(&text));
    }
    ExitCode::SUCCESS
}

fn wants(args: &ShowArgs, event: &LoggedEvent) -> bool {
    let fact = |key: &str| event.facts.get(key).and_then(Value::as_str);
    let is = |wanted: &Option<String>, got: &[Option<&str>]| {
        wanted.as_deref().is_none_or(|w| got.iter().flatten().any(|g| *g == w))
    };
    is(&args.device, &[event.device.as_deref()])
        && is(&args.kind, &[Some(&event.kind)])
        && is(&args.caller, &[event.caller.as_deref(), fact("client")])
        && is(&args.call, &[fact("call")])
}

/// An event as a person reads it.
fn line(event: &LoggedEvent) -> String {
    let part = |text: Option<&str>| text.map_or_else(String::new, |t| format!(" {t}"));
    let caller = event.caller.as_deref().map_or_else(String::new, |c| format!(" by {c}"));
    let (device, moved) = (part(event.device.as_deref()), event.facts.get("moved").and_then(Value::as_str));
    let moved = moved.map_or_else(String::new, |m| format!(" (moved: {m})"));
    format!("{} {} {}{device}{caller}: {}{moved}", event.seq, crate::store::local(&event.t), event.kind, event.what)
}
