//! `steadyhand status` and `steadyhand jobs`: how the running servers and their rigs stand.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::owners::{Heard, Which, ask_all, candidates, nobody, the_one};
use super::{fail, say};
use crate::gateway::local::{Request, ask};
use crate::model::harmless;

/// How long a server may take. It answers from memory.
const PATIENCE: Duration = Duration::from_secs(3);

/// Show the running servers: rig, owner, clients, stages, jobs, and which errors the tools answered.
///
/// Nothing here touches a device. Without --rig it shows every server that this user runs on this machine. Exit code 0
/// when there is one and all answered, 1 otherwise.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    which: Which,
    /// As JSON: an array with an object for each server.
    #[arg(long)]
    json: bool,
}

/// Show the jobs of a running server, the newest first.
#[derive(Debug, Args)]
pub(super) struct JobsArgs {
    #[command(flatten)]
    which: Which,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &StatusArgs) -> ExitCode {
    let rig = args.which.rig.as_deref();
    let places = match candidates(rig) {
        Ok(places) => places,
        Err(error) => return fail(&error),
    };
    let heard = ask_all(places, &Request::Status, PATIENCE);
    if heard.is_empty() {
        if args.json {
            say(io::stdout(), "[]");
        }
        return fail(&nobody(rig));
    }
    let mut well = true;
    let mut rows: Vec<Value> = Vec::new();
    for Heard { who, said } in heard {
        match said {
            Ok(said) if args.json => rows.push(said.data.into()),
            Ok(said) => say(io::stdout(), &harmless(&said.text)),
            Err(error) => {
                well = false;
                say(io::stderr(), &format!("error: {who}: {error}"));
                rows.push(json!({ "rig": who, "error": error.to_string() }));
            }
        }
    }
    if args.json {
        say(io::stdout(), &format!("{:#}", Value::from(rows)));
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(super) fn jobs(args: &JobsArgs) -> ExitCode {
    let said = the_one(&args.which).and_then(|place| ask(&place, &Request::Jobs, PATIENCE).map_err(|e| e.to_string()));
    match said {
        Ok(said) if args.json => {
            say(io::stdout(), &format!("{:#}", said.data.get("jobs").cloned().unwrap_or_default()));
            ExitCode::SUCCESS
        }
        Ok(said) => {
            say(io::stdout(), &harmless(&said.text));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}
