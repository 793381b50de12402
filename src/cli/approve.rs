//! `steadyhand approve` and `steadyhand allow`: a person's yes to what waits, and beforehand to what an unattended run
//! needs.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;

use super::owners::{Which, the_one};
use super::person::{PATIENCE, login, order};
use super::{fail, say};
use crate::gateway::local::{Place, Request, ask};
use crate::model::harmless;
use crate::tools::Said;

/// Approve what waits for a person, or deny it.
///
/// Without an ID it lists what waits. With one it shows what would happen, why you are asked, and asks for your answer
/// on the terminal. Your yes counts for that one command on the state that the stage is in, once, and it is judged again
/// before anything moves. No client can give it for you.
#[derive(Debug, Args)]
pub(super) struct ApproveArgs {
    /// What waits, by its ID.
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Say yes without being asked again, for scripts.
    #[arg(long, requires = "id", conflicts_with = "deny")]
    yes: bool,
    /// Say no.
    #[arg(long, requires = "id")]
    deny: bool,
    /// Why not; the client reads it.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    reason: Option<String>,
    /// Your name, for the log; without it, the one you are logged in with.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    which: Which,
    /// As JSON.
    #[arg(long, conflicts_with_all = ["id", "yes", "deny"])]
    json: bool,
}

/// Allow beforehand what an unattended run needs.
///
/// It answers what a person would be asked (`ask = "operator"`), and nothing else: limits, keep-outs and all other
/// refusals stand. Moves count whose whole way stays inside the box. It ends after so many commands, after that time, at
/// any stop, at a fault, and with the program; there is one at a time.
#[derive(Debug, Args)]
pub(super) struct AllowArgs {
    /// Where moves may be, in each axis's own unit: sample.x=0..10,sample.z=0..2.
    #[arg(long = "box", value_name = "AXIS=LOW..HIGH,…", value_parser = bounds, allow_hyphen_values = true)]
    bounds: Option<Bounds>,
    /// For how many commands.
    #[arg(long, value_name = "N", required_unless_present = "end")]
    steps: Option<u32>,
    /// For how long: 45s, 30min, 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = seconds, required_unless_present = "end")]
    lasts: Option<f64>,
    /// Only this stage.
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// What may be done: move, home, shot, output. Homing leaves the box.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', default_value = "move")]
    what: Vec<String>,
    /// End what was allowed.
    #[arg(long, conflicts_with_all = ["bounds", "steps", "lasts", "stage"])]
    end: bool,
    /// Your name, for the log; without it, the one you are logged in with.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Axes with the lowest and highest position.
#[derive(Debug, Clone, PartialEq)]
struct Bounds(Vec<(String, f64, f64)>);

fn bounds(text: &str) -> Result<Bounds, String> {
    let one = |part: &str| {
        let (axis, range) = part.split_once('=').ok_or("write AXIS=LOW..HIGH")?;
        let (low, high) = range.split_once("..").ok_or("write AXIS=LOW..HIGH")?;
        let number =
            |t: &str| t.trim().parse::<f64>().ok().filter(|v| v.is_finite()).ok_or(format!("{t:?} is no number"));
        Ok::<_, String>((axis.trim().to_owned(), number(low)?, number(high)?))
    };
    text.split(',').map(|part| one(part).map_err(|e| format!("{part:?}: {e}"))).collect::<Result<_, _>>().map(Bounds)
}

fn seconds(text: &str) -> Result<f64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a time with its unit: 45s, 30min, 2h".into()),
    };
    let value = number.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0);
    value.map(|v| v * factor).ok_or_else(|| "write a time greater than zero: 45s, 30min, 2h".into())
}

pub(super) fn approve(args: ApproveArgs) -> ExitCode {
    let place = match the_one(&args.which) {
        Ok(place) => place,
        Err(error) => return fail(&error),
    };
    let shown = match heard(&place, &Request::Approvals { id: args.id.clone() }) {
        Ok(said) => said,
        Err(error) => return fail(&error),
    };
    let Some(id) = args.id else {
        let text = if args.json { format!("{:#}", serde_json::Value::from(shown.data)) } else { harmless(&shown.text) };
        say(io::stdout(), &text);
        return ExitCode::SUCCESS;
    };
    say(io::stdout(), &harmless(&shown.text));
    let yes = !args.deny;
    if yes && !args.yes && !agreed(&mut io::stdin().lock(), io::stdin().is_terminal()) {
        return fail("nothing was approved, and it still waits; --deny denies it, --yes approves without asking");
    }
    let by = login(args.by);
    match heard(&place, &Request::Approve { id, yes, by, reason: args.reason }) {
        Ok(said) => {
            say(io::stdout(), &harmless(&said.text));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// Asks the person at the terminal. What comes from a pipe is no person's answer.
fn agreed(input: &mut dyn BufRead, terminal: bool) -> bool {
    if !terminal {
        return false;
    }
    let mut out = io::stderr();
    let _ = write!(out, "Approve this? [y/N] ");
    let _ = out.flush();
    let mut line = String::new();
    input.read_line(&mut line).is_ok() && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

fn heard(place: &Place, request: &Request) -> Result<Said, String> {
    match ask(place, request, PATIENCE) {
        Ok(said) if said.ok => Ok(said),
        Ok(said) => Err(harmless(&said.text)),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn allow(args: AllowArgs) -> ExitCode {
    let by = login(args.by);
    if args.end {
        return order(&args.which, &Request::AllowEnd { by });
    }
    let (Some(steps), Some(seconds)) = (args.steps, args.lasts) else {
        return fail("say for how many commands and for how long: --steps 100 --for 30min");
    };
    let bounds = args.bounds.map(|b| b.0).unwrap_or_default();
    order(&args.which, &Request::Allow { bounds, stage: args.stage, what: args.what, steps, seconds, by })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_axes_with_two_ends_and_a_time_has_a_unit() {
        let Ok(Bounds(all)) = bounds("sample.x=0..10, sample.z=-2.5..2") else { panic!("a box") };
        assert_eq!(all, [("sample.x".into(), 0.0, 10.0), ("sample.z".into(), -2.5, 2.0)]);
        for wrong in ["", "x", "x=1", "x=1..", "x=..2", "x=1..nan", "x=0..inf", "x=1..2,"] {
            assert!(bounds(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!([seconds("45s"), seconds("30min"), seconds("1.5h")], [Ok(45.0), Ok(1800.0), Ok(5400.0)]);
        for wrong in ["30", "0s", "-1h", "inf h", "5d", "", "min"] {
            assert!(seconds(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_a_person_at_a_terminal_agrees() {
        assert!(agreed(&mut &b"y\n"[..], true) && agreed(&mut &b"YES\n"[..], true));
        assert!(!agreed(&mut &b"y\n"[..], false), "a pipe is nobody");
        for no in ["", "\n", "n\n", "yy\n", "maybe\n"] {
            assert!(!agreed(&mut no.as_bytes(), true), "{no:?}");
        }
    }
}
