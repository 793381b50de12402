//! What the audit log is told of a job: who asked for what, how it was judged, and where everything stood before and
//! after.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::job::Job;
use super::worker::Worker;
use crate::model::{
    AxisReading, Caller, CameraChange, Event, JobId, Moved, Name, Origin, Refusal, Report, RigError, Time,
};
use crate::plans::Plan;
use crate::units::{plain, rounded};

/// Facts of an event.
type Facts = BTreeMap<&'static str, Value>;

/// The longest text of a call's arguments that is kept, in bytes; they tell what was asked, and are no place for data.
const ARGUMENTS: usize = 4096;

/// Who asks, and by which call.
pub(super) fn who(caller: &Caller, origin: Option<&Origin>) -> Facts {
    let mut facts: Facts = [("client", caller.client.clone().into()), ("way", json!(caller.way))].into();
    if let Some(origin) = origin {
        facts.insert("call", origin.call.clone().into());
        facts.insert("tool", origin.tool.into());
        if let Some(command) = &origin.command {
            facts.insert("command_id", command.id.clone().into());
            facts.insert("command_hash", command.hash.clone().into());
        }
    }
    facts
}

/// Arguments as they are kept.
pub(super) fn arguments(given: &Value) -> Value {
    let text = given.to_string();
    if text.len() <= ARGUMENTS {
        return given.clone();
    }
    let cut: String = text.chars().take(ARGUMENTS / 4).collect();
    json!({ "cut_off": cut, "bytes": text.len() })
}

/// A change of a camera's settings.
pub(super) fn change_in_words(change: &CameraChange) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(change.exposure_ms.map(|v| format!("exposure {} ms", plain(v))));
    words.extend(change.gain.map(|v| format!("gain {}", plain(v))));
    words.extend(change.roi.map(|v| format!("region {v:?}")));
    words.extend(change.binning.map(|v| format!("binning {v}")));
    words.extend(change.bits.map(|v| format!("{v} bits")));
    format!("Settings: {}.", words.join(", "))
}

fn places(readings: &[AxisReading]) -> Value {
    let entry = |r: &AxisReading| {
        let value = r.position.map(|p| rounded(p.to(r.unit)));
        (format!("{}_{}", r.id, r.unit), value.map_or(Value::Null, Into::into))
    };
    readings.iter().map(entry).collect::<Map<_, _>>().into()
}

fn refusals(found: &[Refusal]) -> Value {
    let row = |r: &Refusal| {
        let mut row = json!({ "code": r.code.text(), "rule": r.rule, "what": r.what });
        if let Some(allowed) = &r.allowed {
            row["allowed"] = allowed.as_str().into();
        }
        row
    };
    found.iter().map(row).collect()
}

impl Worker {
    /// The line that precedes whatever a plan moves.
    pub(super) fn intent(&self, job: JobId, plan: &dyn Plan, caller: &Caller, origin: Option<&Origin>) -> Event {
        let mut facts = who(caller, origin);
        let uses = plan.uses();
        let steps = plan.steps();
        if !steps.is_empty() {
            facts.insert("steps_hash", crate::store::sha256(format!("{steps:?}").as_bytes()).into());
        }
        facts.insert("job", job.to_string().into());
        if let Some(origin) = origin {
            facts.insert("arguments", arguments(&origin.arguments));
        }
        facts.extend(self.standing(&uses));
        let (device, caller) = (uses.first().cloned(), Some(caller.id.to_string()));
        Event { kind: "intent", device, caller, what: plan.title(), facts }
    }

    /// The line that tells how it ended.
    pub(super) fn outcome(&self, job: &Job, result: &Result<Report, RigError>, now: Time) -> Event {
        let (what, moved): (String, Moved) = match result {
            Ok(report) => ("done".into(), report.moved),
            Err(e) => (format!("[{}] {}", e.code, e.what), e.moved),
        };
        let mut facts = who(&job.caller, job.origin.as_deref());
        let took = u64::try_from(now.since(job.started).as_millis()).unwrap_or(u64::MAX);
        facts.insert("job", job.id.to_string().into());
        facts.insert("moved", moved.to_string().into());
        facts.insert("took_ms", took.into());
        facts.insert("cleared_steps", job.cleared.into());
        if !job.began.is_empty() {
            facts.insert("began", places(&job.began));
        }
        if !job.asked.is_empty() {
            facts.insert("asked", places(&job.asked));
        }
        if let Err(e) = result {
            facts.insert("code", e.code.text().into());
            if !e.refusals.is_empty() {
                facts.insert("refusals", refusals(&e.refusals));
            }
        }
        facts.extend(self.standing(&job.uses));
        Event {
            kind: "outcome",
            device: job.uses.first().cloned(),
            caller: Some(job.caller.id.to_string()),
            what: format!("{}: {what}", job.title),
            facts,
        }
    }

    /// Where the axes of these devices stand, where that is read from, and how far it may be believed.
    fn standing(&self, devices: &[Name]) -> Facts {
        let stages = || self.stages.iter().filter(|s| devices.contains(&s.status.stage));
        let readings: Vec<AxisReading> = stages().flat_map(|s| s.readings()).collect();
        let axes = stages().flat_map(|s| s.status.axes.iter().map(|a| (&s.status.stage, a)));
        let read = |(stage, a): (&Name, &crate::model::AxisStatus)| {
            let source = json!(a.source).as_str().unwrap_or_default().to_owned();
            (format!("{stage}.{}", a.axis), Value::from(format!("{source}, {}", a.trust)))
        };
        let read: Map<String, Value> = axes.map(read).collect();
        if readings.is_empty() {
            return Facts::new();
        }
        [("positions", places(&readings)), ("read_from", read.into())].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_any_size_make_a_line_of_bounded_length() {
        let small = json!({ "targets": { "x": 1 } });
        assert_eq!(arguments(&small), small);
        let large = arguments(&json!({ "label": "ä".repeat(100_000) }));
        assert!(large.to_string().len() < 2 * ARGUMENTS && large["bytes"].as_u64() > Some(100_000), "{large}");
    }
}
