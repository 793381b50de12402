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
            let (stop, wrong) = (&error.error.what, &problem.error.what);
            error.error.what = format!("{stop} The arguments are wrong too, so the stop was for EVERYTHING. {wrong}");
            error
        }
    }
}

/// Waits for the stages to stand, and says where.
async fn report(live: &Live, only: Option<&Name>) -> Outcome {
    let rig = live.handle.rig();
    let before = live.handle.snapshot();
    // What is gone or not identified yet never stands by proof: `told` says so.
    live.handle.standstill(only, STANDSTILL).await;
    let after = live.handle.snapshot();
    told(rig, &before, &after, only)
}

/// What is known of a stage after a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It was read back at rest.
    Confirmed,
    /// The stop is out, but nothing that it reports is known yet.
    Unread,
    /// The stop is out, and it was not seen at rest in time.
    Moving,
    /// There is no connection on which a stop could go out.
    Unreached,
    /// The connection took no bytes.
    NotSent,
}

impl Proof {
    fn of(status: &StageStatus) -> Proof {
        let fault = status.fault.as_ref().map(|f| f.code);
        match status.activity {
            _ if fault == Some(Code::StopNotSent) => Proof::NotSent,
            Activity::Offline => Proof::Unreached,
            _ if fault == Some(Code::StopNotConfirmed) => Proof::Moving,
            _ if status.activity == Activity::Connecting || status.read_at.is_none() => {
                if status.link.open {
                    Proof::Unread
                } else {
                    Proof::Unreached
                }
            }
            _ if status.activity.is_motion() => Proof::Moving,
            _ => Proof::Confirmed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Proof::Confirmed => "confirmed",
            Proof::Unread => "unknown: not identified yet",
            Proof::Moving => "not confirmed",
            Proof::Unreached => "not reached: no connection",
            Proof::NotSent => "not sent",
        }
    }

    /// What a caller must know of the stages of which no more is known than this.
    fn warning(self, names: &str) -> Option<String> {
        let seconds = STANDSTILL.as_secs();
        match self {
            Proof::Confirmed => None,
            Proof::NotSent => Some(format!("THE STOP DID NOT REACH {names}. It may still move.")),
            Proof::Unreached => Some(format!(
                "NO CONNECTION to {names}: no stop could be sent there. If it moves, only a person can stop it."
            )),
            Proof::Moving => {
                Some(format!("THE STOP WAS GIVEN, BUT STANDSTILL of {names} IS NOT CONFIRMED after {seconds} s."))
            }
            Proof::Unread => {
                Some(format!("The stop bytes were sent, but {names} is not identified yet: standstill is unknown."))
            }
        }
    }
}

/// What a stop has done, from the states before and after. Standstill is claimed of those stages alone that
/// were read back at rest; if there is another, the whole is an error.
fn told(rig: &Rig, before: &Snapshot, after: &Snapshot, only: Option<&Name>) -> Outcome {
    let ours = |s: &&StageStatus| only.is_none_or(|n| s.stage == *n);
    let moving: Vec<&str> =
        before.stages.iter().filter(ours).filter(|s| s.activity.is_motion()).map(|s| s.stage.as_str()).collect();
    let stages: Vec<(&StageStatus, Proof)> = after.stages.iter().filter(ours).map(|s| (s, Proof::of(s))).collect();
    let lines: Vec<String> =
        stages.iter().filter_map(|(s, _)| Some(words::stage_line(s, rig.stage(s.stage.as_str())?))).collect();
    let lines = lines.join(" ");
    let with = |proof: Proof| -> Vec<&str> {
        stages.iter().filter(|(_, p)| *p == proof).map(|(s, _)| s.stage.as_str()).collect()
    };
    let rows: Vec<Value> = stages
        .iter()
        .filter_map(|(s, proof)| {
            let stage = rig.stage(s.stage.as_str())?;
            Some(json!({
                "stage": s.stage.as_str(), "activity": s.activity.word(), "was_moving": moving.contains(&s.stage.as_str()),
                "standstill": proof.word(), "state_epoch": s.epoch.0, "positions": words::axes_json(s, stage),
            }))
        })
        .collect();
    let confirmed = with(Proof::Confirmed);
    // The worst first: it decides the code and what to do.
    let open: Vec<Proof> = [Proof::NotSent, Proof::Unreached, Proof::Moving, Proof::Unread]
        .into_iter()
        .filter(|p| !with(*p).is_empty())
        .collect();
    if let Some(worst) = open.first() {
        let code = match worst {
            Proof::NotSent | Proof::Unreached => Code::StopNotSent,
            Proof::Moving | Proof::Unread | Proof::Confirmed => Code::StopNotConfirmed,
        };
        let mut said: Vec<String> = open.iter().filter_map(|p| p.warning(&with(*p).join(", "))).collect();
        if !confirmed.is_empty() {
            said.push(format!("Standstill of {} is confirmed by readback.", confirmed.join(", ")));
        }
        let error = RigError::new(code, format!("{} {lines}", said.join(" "))).moved(Moved::Unknown);
        let error = ToolError::from(error)
            .with("standstill", false)
            .with("stopped", moving)
            .with("not_reached", [with(Proof::NotSent), with(Proof::Unreached)].concat())
            .with("stages", rows);
        return Err(match worst {
            Proof::Unread => error.next(
                "get_state",
                "call get_state {} in 2 s; if it moves then, call stop {} again, and ask the person at the rig to use \
                 the emergency stop",
            ),
            _ => error,
        });
    }
    let what = match moving.as_slice() {
        _ if stages.is_empty() => {
            let answer = Answer::ok("This rig has nothing that moves; what waited is dropped.");
            return Ok(answer.with("standstill", true).with("stages", rows).epoch(None));
        }
        [] => "Nothing was moving; what waited is dropped.".to_owned(),
        names => format!("Stopped {}.", names.join(", ")),
    };
    let latched = stages.iter().find(|(s, _)| s.stopped_by == Some(StopBy::Model));
    let moved = if moving.is_empty() { Moved::No } else { Moved::Yes };
    let epoch = stages.first().map(|(s, _)| s.epoch);
    let answer = Answer::ok(format!("{what} Standstill is confirmed by readback. {lines}"))
        .with("standstill", true)
        .with("stopped", moving)
        .with("not_reached", json!([]))
        .with("stages", rows)
        .moved(moved)
        .epoch(epoch);
    Ok(match latched {
        Some((s, _)) => answer
            .next("clear_fault", format!("clear_fault {{\"device\": \"{}\"}} when it is safe to go on", s.stage))
            .or_say(format!(
                "ask the person at the rig to release {} by starting the server again; this one only reads for you",
                s.stage
            )),
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
        if status.activity == Activity::Connecting {
            answer.text.push_str(" It is still being identified.");
            answer = answer.next("get_state", "call get_state {} in 2 s");
        } else if lost {
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
        let answer = told(&rig, &before, &after, None).unwrap();
        assert!(answer.text.starts_with("Stopped scope. Standstill is confirmed"), "{}", answer.text);
        assert!(
            answer.text.contains("x 12.5 mm")
                && answer.next.as_ref().unwrap().say.contains("clear_fault {\"device\": \"scope\"}")
        );
        assert_eq!((&answer.data["moved"], &answer.data["stopped"]), (&json!("yes"), &json!(["scope"])));
        // Who may not release it is told who does.
        let read_only = answer.into_result("demo", |t| t != "clear_fault");
        let text = &read_only.content[0].as_text().unwrap().text;
        assert!(text.contains("Next: ask the person at the rig to release scope"), "{text}");
    }

    #[test]
    fn a_stop_without_confirmed_standstill_is_a_loud_error() {
        let rig = testing::rig();
        let mut state = testing::state();
        state.stages[0].activity = Activity::Stopping;
        let e = told(&rig, &state, &state, None).unwrap_err();
        assert_eq!((e.error.code, e.error.moved), (Code::StopNotConfirmed, Moved::Unknown));
        assert!(e.error.what.contains("STANDSTILL of scope IS NOT CONFIRMED after 3 s"), "{}", e.error.what);
        state.stages[0].activity = Activity::Offline;
        let e = told(&rig, &state, &state, None).unwrap_err();
        assert_eq!(e.error.code, Code::StopNotSent);
        assert!(e.error.what.contains("NO CONNECTION to scope"), "{}", e.error.what);
    }

    #[test]
    fn standstill_is_never_claimed_of_a_stage_that_was_not_read_back() {
        let rig = testing::rig();
        type Spoil = fn(&mut StageStatus);
        let spoil: [(&str, Spoil); 4] = [
            ("connecting", |s| s.activity = Activity::Connecting),
            ("identified, but not read yet", |s| s.read_at = None),
            ("given up as not confirmed", |s| {
                s.fault = Some(crate::model::Fault { code: Code::StopNotConfirmed, ..testing::fault() });
            }),
            ("being stopped, without a reading", |s| (s.activity, s.read_at) = (Activity::Stopping, None)),
        ];
        for (what, spoil) in spoil {
            let mut state = testing::state();
            spoil(&mut state.stages[0]);
            let e = told(&rig, &state, &state, None).expect_err(what);
            assert_eq!((e.error.code, e.error.moved), (Code::StopNotConfirmed, Moved::Unknown), "{what}");
            assert!(!e.error.what.contains("confirmed by readback"), "{what}: {}", e.error.what);
            assert_eq!(e.data["standstill"], false, "{what}");
        }
        let mut state = testing::state();
        state.stages[0].activity = Activity::Connecting;
        let e = told(&rig, &state, &state, None).unwrap_err();
        let start = "The stop bytes were sent, but scope is not identified yet: standstill is unknown.";
        assert!(e.error.what.starts_with(start), "{}", e.error.what);
        assert!(e.next.unwrap().say.starts_with("call get_state {} in 2 s"));
        state.stages[0].link.open = false;
        let e = told(&rig, &state, &state, None).unwrap_err();
        assert_eq!(e.error.code, Code::StopNotSent, "nothing can be sent on a port that isn't open");
    }

    #[test]
    fn of_several_stages_each_is_told_for_itself_and_one_that_is_not_confirmed_makes_an_error() {
        let mut rig = testing::rig();
        let mut state = testing::state();
        for name in ["gone", "waking"] {
            let mut stage = rig.stages[0].clone();
            stage.id = Name::new(name);
            rig.stages.push(stage);
            let mut status = state.stages[0].clone();
            status.stage = Name::new(name);
            state.stages.push(status);
        }
        assert!(told(&rig, &state, &state, None).is_ok());
        state.stages[1].activity = Activity::Offline;
        state.stages[2].activity = Activity::Connecting;
        let e = told(&rig, &state, &state, None).unwrap_err();
        for part in [
            "NO CONNECTION to gone:",
            "but waking is not identified yet",
            "Standstill of scope is confirmed by readback.",
        ] {
            assert!(e.error.what.contains(part), "{part}: {}", e.error.what);
        }
        assert_eq!((e.error.code, e.data["stages"].as_array().unwrap().len()), (Code::StopNotSent, 3));
        assert_eq!(e.data["stages"][0]["standstill"], "confirmed");
        assert!(told(&rig, &state, &state, Some(&Name::new("scope"))).is_ok(), "alone it is confirmed");
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
