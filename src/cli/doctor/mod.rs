//! `steadyhand doctor`: opens and identifies each device, moves nothing, and says what is wrong and what to do.

mod card;
mod examples;
mod facts;
mod findings;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::owners::PROMPT;
use super::serve::shell_word;
use super::session::{IDENTIFY, Session, own};
use super::{colours, fail, say};
use crate::config::{self, Rig};
use crate::devices;
use crate::gateway::local::{Place, Request, ask};
use crate::model::RigError;
use crate::store::{PersonStop, Store};
use findings::{Finding, Level};

/// Say what is wrong with a rig, and what to do about it. Moves nothing.
///
/// Opens every device of the rig file and identifies it, through the same drivers and the same rig thread as `serve`,
/// with an audit log that takes no line, so that nothing can move. Looks for a port that is missing, forbidden or in
/// use, for programs that disturb it, for a wrong baud rate or a wrong device, for limits of the controller that don't
/// fit the rig file, and for folders that can't be written. Axes that move when it begins are stopped when it ends. A rig
/// that a server owns is left to it: nothing is opened, and the server says how everything stands. Exit code 0 when all
/// is well or only noted, 1 when there is a warning or a problem.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// The rig file.
    ///
    /// Without it, `rig.toml` in the current folder is used, else the one in the platform's folder for configuration.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// Also call the tools that only read, as their descriptions show it.
    #[arg(long)]
    examples: bool,
    /// Print a safety card instead: every limit, keep-out and stop path, for a person to sign.
    ///
    /// Each is marked as probed (the device itself says the same), simulated, or not exercised. Markdown, on one page.
    #[arg(long)]
    card: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "card")]
    json: bool,
    /// The folder for the audit log, saved positions, logs and pictures, as for `serve`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// A person's stop that is in force; where its file can't be had, the data folder is what is wrong.
fn stopped(rig: &Rig, data_dir: Option<&Path>) -> PersonStop {
    let kept = Store::open(rig, data_dir).and_then(|store| PersonStop::open(store.data_dir()));
    kept.unwrap_or_else(|_| PersonStop::in_memory())
}

/// What is said of a rig that a server owns: nothing of it is opened, and the server itself is asked.
fn served(args: &DoctorArgs, rig: &Rig, path: &Path, busy: &RigError) -> ExitCode {
    let file = shell_word(&path.display().to_string());
    let remedy = format!(
        "ask the server: steadyhand call diagnose --rig {file}; or end its clients, and run doctor again. Nothing was \
         opened beside it"
    );
    let mut found = vec![Finding::new(Level::Problem, "rig", busy.what.clone()).remedy(remedy)];
    if let Ok(place) = Place::of_rig(path)
        && let Ok(said) = ask(&place, &Request::Status, PROMPT)
    {
        found.push(Finding::new(Level::Note, "server", said.text.trim()));
    }
    report(args, rig, path, &found);
    ExitCode::FAILURE
}

/// Shows what was found; `true` when all is well.
fn report(args: &DoctorArgs, rig: &Rig, path: &Path, found: &[Finding]) -> bool {
    let well = found.iter().all(|f| f.level <= Level::Note);
    if args.json {
        let list: Vec<_> = found.iter().map(Finding::as_json).collect();
        say(io::stdout(), &format!("{:#}", json!({ "rig": rig.name.as_str(), "well": well, "findings": list })));
    } else {
        say(io::stdout(), &findings::as_text(rig, path, found));
    }
    well
}

pub(super) fn run(args: &DoctorArgs) -> ExitCode {
    let path = match config::find(args.rig.as_deref()) {
        Ok(path) => path,
        Err(none) => return fail(&none.to_string()),
    };
    let rig = match config::load(&path, &devices::known()) {
        Ok(rig) => rig,
        Err(problems) => {
            if args.json {
                let wrong = json!({ "file": "rig file", "problems": problems.render_plain() });
                say(io::stdout(), &format!("{:#}", json!({ "well": false, "rig_file": wrong })));
            } else {
                say(io::stderr(), &problems.render(colours()));
            }
            return ExitCode::FAILURE;
        }
    };
    // Held while doctor looks: a second connection would cut off a server's own, and its outputs would go safe.
    let _ownership = match own(Some(&path)) {
        Ok(ownership) => ownership,
        Err(busy) => return served(args, &rig, &path, &busy),
    };
    // Who uses a port is asked before we do.
    let mut host = facts::Host::of(&rig);
    let stopped = stopped(&rig, args.data_dir.as_deref());
    let session = match Session::look(rig.clone(), stopped) {
        Ok(session) => session,
        Err(error) => return fail(&error.to_string()),
    };
    let state = session.until(IDENTIFY, |state| {
        // Who has the port is known already: whether it is let go in time is not waited for.
        let stages = state
            .stages
            .iter()
            .all(|s| s.fault.is_some() || s.read_at.is_some() || (!s.link.open && s.link.last_error.is_some()));
        stages && state.cameras.iter().all(|c| c.fault.is_some() || c.ready)
    });
    let tools = examples::of(&session, args.data_dir.as_deref(), args.examples, &mut host);
    let _ = session.close();
    host.listen(&rig, &state);
    let mut found = findings::all(&rig, &state, &host);
    found.extend(tools);
    let well = if args.card {
        let text = std::fs::read(&path).unwrap_or_default();
        say(io::stdout(), &card::card(&rig, &state, &found, &card::Made::now(&path, &text)));
        found.iter().all(|f| f.level <= Level::Note)
    } else {
        report(args, &rig, &path, &found)
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
