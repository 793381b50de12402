//! What waits for a person's yes and what a person has allowed beforehand: as results tell it, and as a person decides
//! it over the local socket.

use std::time::Duration;

use serde_json::{Value, json};

use super::front::{axis_named, wait_for};
use super::{Face, Said, words};
use crate::actor::{Decision, RigHandle};
use crate::config::Rig;
use crate::model::{Allowance, Allowed, Approval, Ask, Code, Kind, Name, RigError, Snapshot, Time};
use crate::units::{Position, Span};

/// The longest name of a person, and the longest reason, in characters.
const NAME: usize = 80;
const REASON: usize = 300;

/// What a person allows beforehand, as it comes over the local socket.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowRequest {
    /// Axes with the lowest and highest position, in each axis's own unit.
    pub bounds: Vec<(String, f64, f64)>,
    /// Only this stage.
    pub stage: Option<String>,
    /// `move`, `home`, `shot`, `output`.
    pub what: Vec<String>,
    /// For how many commands.
    pub steps: u32,
    /// For how long, in seconds.
    pub seconds: f64,
}

/// Why a person is asked, as a sentence or several.
pub(crate) fn reasons(asks: &[Ask]) -> String {
    let one = |a: &Ask| {
        let owner = a.why.as_deref().map_or(String::new(), |w| format!(" (owner: {})", w.trim_end_matches('.')));
        format!("[{}] {}{owner}", a.rule, a.text)
    };
    asks.iter().map(one).collect::<Vec<_>>().join(" ")
}

pub(crate) fn asks_json(asks: &[Ask]) -> Value {
    asks.iter().map(|a| json!({ "rule": a.rule, "text": a.text, "why": a.why })).collect()
}

pub(crate) fn approval_json(a: &Approval, now: Time) -> Value {
    json!({
        "approval_id": a.id.as_str(), "job_id": a.job.to_string(), "what": a.what, "asks": asks_json(&a.asks),
        "client": a.caller.client, "caller": a.caller.id.as_str(), "stage": a.stage.as_ref().map(Name::as_str),
        "state_epoch": a.epoch.map(|e| e.0), "command_sha256": a.digest.to_string(),
        "expires_in_s": words::number(Some(a.until.since(now).as_secs_f64().round())),
    })
}

pub(crate) fn allowance_json(a: &Allowance, rig: &Rig, now: Time) -> Value {
    json!({
        "what": rig.show_allowance(a), "by": a.by, "steps_left": a.left,
        "ends_in_s": words::number(Some(a.until.since(now).as_secs_f64().round())),
    })
}

/// The allowance that runs, as a sentence.
pub(crate) fn allowance_line(state: &Snapshot, rig: &Rig, now: Time) -> Option<String> {
    let a = state.allowance.as_ref()?;
    let left = minutes(a.until.since(now));
    Some(format!("ALLOWED BEFOREHAND by {}: {}, for {left} more; any stop ends it.", a.by, rig.show_allowance(a)))
}

fn minutes(time: Duration) -> String {
    let s = time.as_secs();
    if s < 120 { format!("{s} s") } else { format!("{} min", s / 60) }
}

/// What waits, as a person reads it who is to decide.
fn paragraph(a: &Approval, now: Time) -> String {
    let mut lines = vec![
        format!("{}  {}", a.id, a.what),
        format!("        asked by {} ({}), {}", a.caller.client, a.caller.id, a.job),
    ];
    for ask in &a.asks {
        lines.push(format!("        why: [{}] {}", ask.rule, ask.text));
        lines.extend(ask.why.as_ref().map(|w| format!("        owner: {w}")));
    }
    lines.push(format!("        expires in {}", minutes(a.until.since(now))));
    lines.join("\n")
}

/// A person's words for the log, on one line.
fn one_line(text: &str, most: usize) -> String {
    text.chars().filter(|c| !crate::model::is_unfit_to_show(*c)).take(most).collect::<String>().trim().to_owned()
}

impl Face {
    /// What waits for a person's approval; with an id, that alone.
    pub fn approvals(&self, id: Option<&str>) -> Said {
        self.person(|handle, _| {
            let (state, now) = (handle.snapshot(), handle.now());
            let found: Vec<&Approval> =
                state.approvals().map(|a| &**a).filter(|a| id.is_none_or(|id| a.id.as_str() == id)).collect();
            if let Some(id) = id.filter(|_| found.is_empty()) {
                return Err(none_of(id, &state));
            }
            let mut lines: Vec<String> = found.iter().map(|a| paragraph(a, now)).collect();
            if found.is_empty() {
                lines.push("Nothing waits for an approval.".into());
            }
            lines.extend(allowance_line(&state, handle.rig(), now).filter(|_| id.is_none()));
            let rows: Vec<Value> = found.iter().map(|a| approval_json(a, now)).collect();
            let allowance = state.allowance.as_ref().map(|a| allowance_json(a, handle.rig(), now));
            Ok((lines.join("\n"), json!({ "approvals": rows, "allowance": allowance })))
        })
    }

    /// A person called `by` says yes or no to what waits under that id.
    pub fn decide(&self, id: &str, yes: bool, by: &str, reason: Option<&str>) -> Said {
        let reason = reason.map(|r| one_line(r, REASON)).filter(|r| !r.is_empty());
        let decision = Decision { yes, by: one_line(by, NAME), reason, elicited: false };
        self.person(|handle, caller| {
            let name = named(id, &handle.snapshot())?;
            let decided = wait_for(handle.decide(caller, &name, decision)?)?;
            let text = if yes {
                format!(
                    "Approved: {}. It is judged once more and then goes on by itself ({}).",
                    decided.what, decided.job
                )
            } else {
                format!("Denied: {}. {} ends.", decided.what, decided.job)
            };
            Ok((text, json!({ "approval_id": id, "approved": yes, "job_id": decided.job.to_string() })))
        })
    }

    /// A person called `by` allows beforehand what an unattended run needs.
    pub fn allow(&self, request: &AllowRequest, by: &str) -> Said {
        let by = one_line(by, NAME);
        self.person(|handle, caller| {
            let allowed = understood(request, handle)?;
            let given = wait_for(handle.allow(caller, allowed, &by)?)?;
            let rig = handle.rig();
            let text = format!(
                "Allowed: {}, for {}. It answers what a person would be asked, and no more: limits, keep-outs and other \
                 refusals stand. Any stop, a fault, the end of the program and `steadyhand allow --end` end it.",
                rig.show_allowance(&given),
                minutes(given.allowed.lasts)
            );
            Ok((text, json!({ "allowance": allowance_json(&given, rig, handle.now()) })))
        })
    }

    /// A person called `by` ends what was allowed beforehand.
    pub fn end_allowance(&self, by: &str) -> Said {
        let by = one_line(by, NAME);
        self.person(|handle, caller| {
            let text = match wait_for(handle.end_allowance(caller, &by)?)? {
                Some(ended) => format!("Ended: {}.", handle.rig().show_allowance(&ended)),
                None => "Nothing was allowed beforehand.".to_owned(),
            };
            Ok((text, json!({ "allowance": null })))
        })
    }
}

/// The name of an approval that waits.
fn named(id: &str, state: &Snapshot) -> Result<Name, RigError> {
    let found = state.approvals().find(|a| a.id.as_str() == id);
    found.map(|a| a.id.clone()).ok_or_else(|| none_of(id, state))
}

fn none_of(id: &str, state: &Snapshot) -> RigError {
    let ids: Vec<&str> = state.approvals().map(|a| a.id.as_str()).collect();
    let which = if ids.is_empty() { "nothing does".to_owned() } else { format!("what waits: {}", ids.join(", ")) };
    RigError::new(Code::NotFound, format!("No approval {:?} waits; {which}.", one_line(id, NAME)))
}

/// The request in the rig's words.
fn understood(request: &AllowRequest, handle: &RigHandle) -> Result<Allowed, RigError> {
    let rig = handle.rig();
    let wrong = |what: String| RigError::new(Code::InvalidArgument, what);
    let mut bounds = Vec::new();
    for (axis, low, high) in &request.bounds {
        let id = axis_named(rig, axis)?;
        let unit = rig.axis(&id).ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no {id}.")))?.unit;
        let at = |v: f64| Position::new(v, unit).map_err(|e| wrong(format!("{v} is no position: {e}.")));
        let span = Span { low: at(*low)?, high: at(*high)? };
        if span.low > span.high {
            return Err(wrong(format!("{id}: {low} is more than {high}; write the lower end first.")));
        }
        bounds.push((id, span));
    }
    let kind = |w: &String| {
        let words = Kind::ALL.map(Kind::word).join(", ");
        Kind::parse(w).ok_or_else(|| wrong(format!("{:?} can't be allowed; these can: {words}.", one_line(w, NAME))))
    };
    let kinds = request.what.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
    let stage = match &request.stage {
        Some(s) if Name::is_valid(s) => Some(Name::new(s)),
        Some(s) => {
            return Err(RigError::new(Code::NotFound, format!("This rig has no stage {:?}.", one_line(s, NAME))));
        }
        None => None,
    };
    let lasts = Duration::try_from_secs_f64(request.seconds)
        .map_err(|_| wrong("The time must be a number of seconds greater than zero.".into()))?;
    Ok(Allowed { bounds, stage, kinds, steps: request.steps, lasts })
}
