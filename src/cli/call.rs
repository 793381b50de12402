//! `steadyhand call`: any tool from a shell, through the running server and under its policy.

use std::io;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::owners::{Which, the_one};
use super::{fail, say};
use crate::gateway::local::{Hello, Place, request_as_client};

/// Call a tool of the running server, as its clients do.
///
/// The call is judged like every other: by the rig's interlocks and by the policy that the server was started with.
/// When this command ends before the answer (Ctrl-C), what it began stops; a job that it was given the number of goes
/// on. Exit code 0 when the tool's answer is good, 1 when it is an error.
#[derive(Debug, Args)]
pub(super) struct CallArgs {
    /// The tool; without one, the tools are listed.
    #[arg(value_name = "TOOL")]
    tool: Option<String>,
    /// Its arguments, a JSON object such as '{"stage": "scope"}'.
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    which: Which,
    /// Show the answer's facts as JSON instead of its words.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CallArgs) -> ExitCode {
    let arguments: Value = match serde_json::from_str(&args.arguments) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(_) => return fail(&format!("the arguments must be a JSON object, such as '{{}}': {}", args.arguments)),
        Err(error) => return fail(&format!("the arguments are not JSON ({error}): {}", args.arguments)),
    };
    let place = match the_one(&args.which) {
        Ok(place) => place,
        Err(error) => return fail(&error),
    };
    let answered = match &args.tool {
        Some(tool) => ask(&place, "tools/call", json!({ "name": tool, "arguments": arguments })),
        None => ask(&place, "tools/list", json!({})),
    };
    let result = match answered {
        Ok(result) => result,
        Err(error) => return fail(&error),
    };
    if let Some(tools) = result["tools"].as_array() {
        for tool in tools {
            let words = ["name", "title"].map(|key| tool[key].as_str().unwrap_or_default());
            say(io::stdout(), &format!("{:<26} {}", words[0], words[1]));
        }
        return ExitCode::SUCCESS;
    }
    let well = result["isError"] != true;
    if args.json {
        say(io::stdout(), &format!("{:#}", result["structuredContent"]));
    } else {
        for block in result["content"].as_array().into_iter().flatten() {
            match block["text"].as_str() {
                Some(text) if well => say(io::stdout(), text),
                Some(text) => say(io::stderr(), text),
                None => say(io::stdout(), &format!("({} is not shown here)", block["type"])),
            }
        }
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn ask(place: &Place, method: &str, params: Value) -> Result<Value, String> {
    let message =
        request_as_client(place, &Hello::new(true, false, None), method, params).map_err(|e| e.to_string())?;
    match message["error"]["message"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(message["result"].clone()),
    }
}
