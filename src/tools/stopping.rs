//! `stop`, which waits for nothing and needs nothing, and `clear_fault`, which releases it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome, ToolError};
use super::call::{Call, Core, Live, RigPart};
use super::schema::{Object, Schema, choice, stage};
use super::wait::order;
use super::words;
use crate::config::Rig;
use crate::model::{Activity, Code, Moved, Name, RigError, Snapshot, StageStatus, StopBy, Trust};

/// How long the answer to a stop waits for the axes to stand.
const STANDSTILL: Duration = Duration::from_secs(3);

/// Arguments of `stop`.
pub(crate) fn stop_input(rig: &Rig) -> Schema {
    if rig.stages.is_empty() {
        return Object::new().build();
    }
    Object::new().may("stage", stage(rig)).build()
}

/// Arguments of `clear_fault`.
pub(crate) fn clear_fault_input(rig: &Rig) -> Schema {
    let devices = rig.stages.iter().map(|s| s.id.to_string()).chain(rig.cameras.iter().map(|c| c.id.to_string()));
    let devices: Vec<String> = devices.collect();
    Object::new().must("device", choice(devices, "Stage or camera.")).build()
}

/// Which stage a stop means: the named one if the rig has it, otherwise all, whatever else was sent.
fn meant<'a>(rig: &Rig, arguments: Option<&'a Map<String, Value>>) -> Option<&'a str> {
    arguments.and_then(|a| a.get("stage")).and_then(Value::as_str).filter(|n| rig.stage(n).is_some())
}

/// Sends the stop. Called first, before anything is checked or awaited.
pub(crate) fn at_once(core: &Core, arguments: Option<&Map<String, Value>>) {
    if let RigPart::Live(live) = &core.rig {
        let stage = meant(live.handle.rig(), arguments).map(Name::new);
        live.handle.stop(stage.as_ref(), StopBy::Model);
    }
}

/// Answers `stop`; the stop itself is out already.
pub(crate) async fn stop(call: Call) -> Outcome {
    let live = call.live()?;
    let stage = call.args.text("stage").map(Name::new);
    report(live, stage.as_ref()).await
}

/// Answers a `stop` whose arguments are wrong: everything was stopped all the same.
pub(crate) async fn in_spite_of(core: &Core, problem: ToolError) -> ToolError {
    let RigPart::Live(live) = &core.rig else { return problem };
    match report(live, None).await {
        Ok(answer) => {
            let moved = if answer.data.get("moved").is_some_and(|m| m == "yes") { Moved::Yes } else { Moved::No };
            let what =
                format!("The arguments are wrong, so EVERYTHING was stopped. {} {}", problem.error.what, answer.text);
            ToolError::from(RigError::new(Code::InvalidArgument, what).moved(moved))
                .next("get_state", "call get_state {} to see where everything stands")
        }
        Err(mut error) => {
            error.error.what = format!("{} {}", error.error.what, problem.error.what);
            error
        }
    }
}

/// Waits for the stages to stand, and says where.
async fn report(live: &Live, only: Option<&Name>) -> Outcome {
    let rig = live.handle.rig();
    let before = live.handle.snapshot();
    let still = live.handle.standstill(only, STANDSTILL).await;
    let after = live.handle.snapshot();
    told(rig, &before, &after, only, still)
}

/// What a stop has done, from the states before and after.
fn told(rig: &Rig, before: &Snapshot, after: &Snapshot, only: Option<&Name>, still: bool) -> Outcome {
    let ours = |s: &&StageStatus| only.is_none_or(|n| s.stage == *n);
    let moving: Vec<&str> =
        before.stages.iter().filter(ours).filter(|s| s.activity.is_motion()).map(|s| s.stage.as_str()).collect();
    let stages: Vec<&StageStatus> = after.stages.iter().filter(ours).collect();
    let lines: Vec<String> =
        stages.iter().filter_map(|s| Some(words::stage_line(s, rig.stage(s.stage.as_str())?))).collect();
    let not_sent = stages.iter().find(|s| s.fault.as_ref().is_some_and(|f| f.code == Code::StopNotSent));
    let gone: Vec<&str> = stages.iter().filter(|s| s.activity == Activity::Offline).map(|s| s.stage.as_str()).collect();
    let all_gone = !stages.is_empty() && gone.len() == stages.len();
    let rows: Vec<Value> = stages
        .iter()
        .filter_map(|s| {
            let stage = rig.stage(s.stage.as_str())?;
            Some(json!({
                "stage": s.stage.as_str(), "activity": s.activity.word(), "was_moving": moving.contains(&s.stage.as_str()),
                "state_epoch": s.epoch.0, "positions": words::axes_json(s, stage),
            }))
        })
        .collect();
    if !still || not_sent.is_some() || all_gone {
        let (code, first) = match (not_sent, still) {
            (Some(s), _) => (Code::StopNotSent, format!("THE STOP DID NOT REACH {}. It may still move.", s.stage)),
            (None, true) => {
                let names = gone.join(", ");
                (
                    Code::StopNotSent,
                    format!(
                        "NO CONNECTION to {names}: no stop could be sent there. If it moves, only a person can stop it."
                    ),
                )
            }
            (None, false) => {
                let seconds = STANDSTILL.as_secs();
                (
                    Code::StopNotConfirmed,
                    format!("THE STOP WAS GIVEN, BUT STANDSTILL IS NOT CONFIRMED after {seconds} s."),
                )
            }
        };
        let error = RigError::new(code, format!("{first} {}", lines.join(" "))).moved(Moved::Unknown);
        return Err(ToolError::from(error).with("stages", rows));
    }
    let what = match (only, moving.as_slice()) {
        _ if rig.stages.is_empty() => "This rig has nothing that moves.".to_owned(),
        (_, []) => "Nothing was moving; what waited is dropped.".to_owned(),
        (_, names) => format!("Stopped {}.", names.join(", ")),
    };
    let unreached = if gone.is_empty() {
        String::new()
    } else {
        format!(" NO CONNECTION to {}: if it moves, only a person can stop it.", gone.join(", "))
    };
    let latched = stages.iter().find(|s| s.stopped_by == Some(StopBy::Model));
    let moved = if moving.is_empty() { Moved::No } else { Moved::Yes };
    let epoch = stages.first().map(|s| s.epoch);
    let answer = Answer::ok(format!("{what}{unreached} Standstill is confirmed by readback. {}", lines.join(" ")))
        .with("standstill", true)
        .with("stopped", moving)
        .with("not_reached", gone)
        .with("stages", rows)
        .moved(moved)
        .epoch(epoch);
    Ok(match latched {
        Some(s) => {
            answer.next("clear_fault", format!("clear_fault {{\"device\": \"{}\"}} when it is safe to go on", s.stage))
        }
        None => answer,
    })
}

/// Answers `clear_fault`.
pub(crate) async fn clear_fault(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig();
    let device = Name::new(call.args.text("device").unwrap_or_default());
    let ticket = live.handle.recover(&call.caller, &device)?;
    order(&call, ticket, call.patience(rig)).await.map_err(|mut e| {
        e.error.device.get_or_insert_with(|| device.clone());
        e
    })?;
    // The answer may come before the state is published in which it is clear.
    let clear = |s: &Snapshot| match (s.stage(device.as_str()), s.camera(device.as_str())) {
        (Some(stage), _) => stage.stopped_by.is_none() && stage.fault.is_none(),
        (None, Some(camera)) => camera.fault.is_none(),
        (None, None) => true,
    };
    let state = super::settled(&live.handle, clear).await;
    let mut answer = Answer::ok("").with("device", device.as_str());
    if let (Some(status), Some(stage)) = (state.stage(device.as_str()), rig.stage(device.as_str())) {
        let lost = status.axes.iter().any(|a| a.trust == Trust::Unknown);
        answer.text = format!("{device} is released. {}", words::stage_line(status, stage));
        if lost {
            answer.text.push_str(" Its position is not known.");
            answer = answer.next("home", format!("home {{\"stage\": \"{device}\"}} once its way is free"));
        }
        answer = answer.with("positions", words::axes_json(status, stage)).epoch(Some(status.epoch));
    } else if let Some(status) = state.camera(device.as_str()) {
        answer.text = format!("{device} is released. {}", words::camera_line(status));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn hole_06_a_stop_says_what_it_stopped_and_where_it_stands() {
        let rig = testing::rig();
        let mut before = testing::state();
        before.stages[0].activity = Activity::Moving;
        let mut after = testing::state();
        after.stages[0].stopped_by = Some(StopBy::Model);
        let answer = told(&rig, &before, &after, None, true).unwrap();
        assert!(answer.text.starts_with("Stopped scope. Standstill is confirmed"), "{}", answer.text);
        assert!(
            answer.text.contains("x 12.5 mm")
                && answer.next.as_ref().unwrap().say.contains("clear_fault {\"device\": \"scope\"}")
        );
        assert_eq!((&answer.data["moved"], &answer.data["stopped"]), (&json!("yes"), &json!(["scope"])));
    }

    #[test]
    fn a_stop_without_confirmed_standstill_is_a_loud_error() {
        let rig = testing::rig();
        let mut state = testing::state();
        state.stages[0].activity = Activity::Stopping;
        let e = told(&rig, &state, &state, None, false).unwrap_err();
        assert_eq!((e.error.code, e.error.moved), (Code::StopNotConfirmed, Moved::Unknown));
        state.stages[0].activity = Activity::Offline;
        let e = told(&rig, &state, &state, None, true).unwrap_err();
        assert_eq!(e.error.code, Code::StopNotSent);
        assert!(e.error.what.contains("NO CONNECTION to scope"), "{}", e.error.what);
    }

    #[test]
    fn an_unknown_stage_stops_everything() {
        let rig = testing::rig();
        let args = |v: Value| v.as_object().cloned();
        assert_eq!(meant(&rig, args(json!({ "stage": "scope" })).as_ref()), Some("scope"));
        assert_eq!(meant(&rig, args(json!({ "stage": "nonsense" })).as_ref()), None);
        assert_eq!(meant(&rig, args(json!({ "stage": 7 })).as_ref()), None);
        assert_eq!(meant(&rig, None), None);
    }
}
