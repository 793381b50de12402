//! The answer of a homing: where the axes stand, and how far their references had drifted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::Answer;
use super::wait::{Render, render};
use super::words::{self, number};
use crate::config::{Axis, Rig, Stage};
use crate::model::{AxisId, Drift, Name, Trust};
use crate::units::{Distance, plain, rounded};

/// How a homing is answered.
pub(crate) fn render_home(rig: &Arc<Rig>, stage: &Stage) -> Render {
    let (rig, name) = (rig.clone(), stage.id.clone());
    render(move |report| {
        let status = report.stages.iter().find(|s| s.stage == name);
        let (Some(stage), Some(status)) = (rig.stage(name.as_str()), status) else {
            return Ok(Answer::ok(format!("{name} is homed.")).moved(report.moved).epoch(None));
        };
        let text = format!(
            "{name} is homed in {} and stands at {} (trust: {}). state_epoch is {} now.",
            words::seconds(report.took),
            words::positions(status, stage),
            status.axes.iter().map(|a| a.trust).min().unwrap_or(Trust::Unknown),
            status.epoch.0
        );
        Ok(Answer::ok(format!("{text}{}", drifts(&report.drifts, stage)))
            .with("stage", name.as_str())
            .with("positions", words::axes_json(status, stage))
            .with("reference_drift", drifts_json(&report.drifts, stage))
            .with("took_s", number(Some(report.took.as_secs_f64())))
            .moved(report.moved)
            .epoch(Some(status.epoch)))
    })
}

/// How far the references of axes had drifted that were trusted before, as sentences to follow another.
fn drifts(found: &[(AxisId, Option<Drift>)], stage: &Stage) -> String {
    let one = |(id, drift): &(AxisId, Option<Drift>)| {
        let unit = words::unit_of(stage, id.axis.as_str());
        let within = drift.map(|d| plain(rounded(d.within.to(unit))));
        match (drift.map(|d| rounded(d.by.to(unit))), within) {
            (Some(0.0), Some(within)) => {
                format!(" The reference of {} had not drifted by more than {within} {unit}.", id.axis)
            }
            (Some(by), Some(within)) => {
                format!(
                    " The reference of {} had drifted by {} {unit} (to within {within} {unit}).",
                    id.axis,
                    plain(by)
                )
            }
            _ => format!(" How far the reference of {} had drifted can't be told: its count was not seen.", id.axis),
        }
    };
    found.iter().map(one).collect()
}

/// The same by axis; null for an axis that was not trusted before, and where it can't be known.
fn drifts_json(found: &[(AxisId, Option<Drift>)], stage: &Stage) -> Value {
    let of = |axis: &Name| found.iter().find(|(id, _)| id.axis == *axis).and_then(|(_, drift)| *drift);
    let one = |a: &Axis| {
        let number = |d: Distance| number(Some(d.to(a.unit)));
        let told = |d: Drift| json!({ "drift": number(d.by), "within": number(d.within), "unit": a.unit.name() });
        (a.id.axis.to_string(), of(&a.id.axis).map_or(Value::Null, told))
    };
    Value::Object(stage.axes.iter().map(one).collect())
}
