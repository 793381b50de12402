//! `stop`, which waits for nothing and needs nothing, and `clear_fault`, which releases it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome, ToolError};
use super::call::{Call, Core, Live, RigPart};
use super::schema::{Object, Schema, choice, stage};
use super::wait::order;
use super::words;
use crate::config::{Rig, Stage};
use crate::model::{Activity, Code, Moved, Name, RigError, Snapshot, StageStatus, StopBy, Time, Trust};

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
    // A sensor's faults end by themselves.
    let devices = rig.devices().filter(|n| rig.sensor(n.as_str()).is_none()).map(Name::to_string);
    Object::new().must("device", choice(devices, "Stage, camera or output.")).build()
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
    report(live, live.handle.snapshot(), stage.as_ref()).await
}

/// Answers a `stop` whose arguments are wrong: everything was stopped all the same.
pub(crate) async fn in_spite_of(core: &Core, problem: ToolError) -> ToolError {
    let RigPart::Live(live) = &core.rig else { return problem };
    match report(live, live.handle.snapshot(), None).await {
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
async fn report(live: &Live, before: Arc<Snapshot>, only: Option<&Name>) -> Outcome {
    let rig = live.handle.rig();
    // The stop is out already, so that a reading from now on is one after it.
    let since = live.handle.now();
    let mut changes = live.handle.changes();
    let proved = async {
        live.handle.standstill(only, STANDSTILL).await;
        // Whether it ended or was given up: `told` judges what is known then.
        let _ = changes.wait_for(|s| proofs(rig, s, only, since).iter().all(|(_, _, p)| !p.may_change())).await;
    };
    let _ = tokio::time::timeout(STANDSTILL, proved).await;
    if only.is_none() {
        let _ = tokio::time::timeout(DARK, changes.wait_for(|s| lit(rig, s).is_empty())).await;
    }
    told(rig, &before, &live.handle.snapshot(), only, since)
}

/// Stops all or one stage for `by`, and says where they stand.
pub(crate) async fn by_task(live: &Live, only: Option<&Name>, by: StopBy) -> Outcome {
    let before = live.handle.snapshot();
    live.handle.stop(only, by);
    let given = Instant::now();
    let outcome = report(live, before, only).await;
    // Axes that stand anyway are seen to stand before the disk has answered.
    let record = loop {
        match record(live, by, given.elapsed()) {
            Some(known) => break known,
            None => tokio::time::sleep(LOOK).await,
        }
    };
    on_record(outcome, record)
}

/// How long the answer to a person's stop waits for the disk to take its record.
const RECORD: Duration = Duration::from_millis(500);

/// Whether a stop that was given so long ago is on record as far as it needs to be, and why not; `None` while the disk
/// has time to answer.
fn record(live: &Live, by: StopBy, given: Duration) -> Option<Result<(), String>> {
    if by != StopBy::Person {
        return Some(Ok(()));
    }
    let late =
        || (given >= RECORD).then(|| Err(format!("the disk has not taken it within {:.1} s", RECORD.as_secs_f64())));
    live.handle.person_stop().outcome().or_else(late)
}

/// A person's stop that is not on record says so.
fn on_record(outcome: Outcome, record: Result<(), String>) -> Outcome {
    match record {
        Ok(()) => outcome,
        Err(why) => say_too(
            outcome,
            &format!("This stop is NOT ON RECORD and would not outlive the program: {}", words::sentence(&why)),
        ),
    }
}

/// The outputs that a stop of everything makes safe and that are not seen to be.
fn lit<'a>(rig: &'a Rig, state: &Snapshot) -> Vec<&'a str> {
    let seen_safe = |o: &&crate::config::Output| {
        let value = state.outputs.iter().find(|s| s.output == o.id).and_then(|s| s.value.as_ref());
        o.safe().is_none_or(|safe| value.is_some_and(|v| safe.agrees(v)))
    };
    rig.outputs.iter().filter(|o| !seen_safe(o)).map(|o| o.id.as_str()).collect()
}

fn say_too(outcome: Outcome, sentence: &str) -> Outcome {
    match outcome {
        Ok(answer) => Ok(answer.say(sentence)),
        Err(mut error) => {
            error.error.what = format!("{} {sentence}", error.error.what);
            Err(error)
        }
    }
}

/// How long an answer waits to see lights and shutters safe; they are made safe after the axes' stop bytes.
const DARK: Duration = Duration::from_millis(500);

/// How often an answer that waits looks again.
const LOOK: Duration = Duration::from_millis(2);

/// The same without a runtime: it waits on the thread that calls.
pub(crate) fn by_thread(live: &Live, only: Option<&Name>, by: StopBy) -> Outcome {
    let before = live.handle.snapshot();
    live.handle.stop(only, by);
    let (since, begun) = (live.handle.now(), Instant::now());
    let rig = live.handle.rig();
    loop {
        let state = live.handle.snapshot();
        let dark = only.is_some() || lit(rig, &state).is_empty() || begun.elapsed() > DARK;
        let still = proofs(rig, &state, only, since).iter().all(|(_, _, p)| !p.may_change());
        if live.handle.stops_are_out() && still && dark || begun.elapsed() > STANDSTILL {
            let known = record(live, by, begun.elapsed());
            if let Some(record) = known {
                return on_record(told(rig, &before, &state, only, since), record);
            }
        }
        std::thread::park_timeout(LOOK);
    }
}

/// Each stage that a stop means, with its state and what is known of it after the stop at `since`.
fn proofs<'a>(
    rig: &'a Rig,
    state: &'a Snapshot,
    only: Option<&Name>,
    since: Time,
) -> Vec<(&'a Stage, Option<&'a StageStatus>, Proof)> {
    let ours = rig.stages.iter().filter(|s| only.is_none_or(|n| s.id == *n));
    ours.map(|stage| {
        let status = state.stage(stage.id.as_str());
        (stage, status, status.map_or(Proof::Moving, |s| Proof::of(s, since)))
    })
    .collect()
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
    /// Of a stage that was to stop at `since`.
    fn of(status: &StageStatus, since: Time) -> Proof {
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
            // What was read before the stop proves nothing.
            _ if status.activity.is_motion() || status.read_at.is_none_or(|t| t < since) => Proof::Moving,
            _ => Proof::Confirmed,
        }
    }

    /// Whether a reading may still tell more.
    fn may_change(self) -> bool {
        matches!(self, Proof::Unread | Proof::Moving)
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
fn told(rig: &Rig, before: &Snapshot, after: &Snapshot, only: Option<&Name>, since: Time) -> Outcome {
    let outcome = stages_told(rig, before, after, only, since);
    let lit = lit(rig, after);
    if only.is_some() || lit.is_empty() {
        return outcome;
    }
    say_too(outcome, &format!("NOT SEEN SAFE YET: {}; get_state {{}} shows it.", lit.join(", ")))
}

fn stages_told(rig: &Rig, before: &Snapshot, after: &Snapshot, only: Option<&Name>, since: Time) -> Outcome {
    let ours = |s: &&StageStatus| only.is_none_or(|n| s.stage == *n);
    let moving: Vec<&str> =
        before.stages.iter().filter(ours).filter(|s| s.activity.is_motion()).map(|s| s.stage.as_str()).collect();
    let stages = proofs(rig, after, only, since);
    let lines: Vec<String> = stages.iter().filter_map(|(c, s, _)| Some(words::stage_line((*s)?, c))).collect();
    let lines = lines.join(" ");
    let with = |proof: Proof| -> Vec<&str> {
        stages.iter().filter(|(_, _, p)| *p == proof).map(|(c, ..)| c.id.as_str()).collect()
    };
    let rows: Vec<Value> = stages
        .iter()
        .map(|(stage, status, proof)| {
            json!({
                "stage": stage.id.as_str(), "activity": status.map_or("unknown", |s| s.activity.word()),
                "was_moving": moving.contains(&stage.id.as_str()), "standstill": proof.word(),
                "state_epoch": status.map_or(0, |s| s.epoch.0),
                "positions": status.map_or(Value::Null, |s| words::axes_json(s, stage)),
            })
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
        let what = format!("{} {lines}", said.join(" "));
        let error = RigError::new(code, what.trim_end()).moved(Moved::Unknown);
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
    let latched = stages.iter().filter_map(|(_, s, _)| *s).find(|s| s.stopped_by == Some(StopBy::Model));
    let moved = if moving.is_empty() { Moved::No } else { Moved::Yes };
    let epoch = stages.first().and_then(|(_, s, _)| s.map(|s| s.epoch));
    let answer = Answer::ok(format!("{what} Standstill is confirmed by readback. {lines}"))
        .with("standstill", true)
        .with("stopped", moving)
        .with("not_reached", json!([]))
        .with("stages", rows)
        .moved(moved)
        .epoch(epoch);
    let by_person = stages.iter().filter_map(|(_, s, _)| *s).any(|s| s.stopped_by == Some(StopBy::Person));
    Ok(match latched {
        None if by_person => answer.or_say("a person releases it, when it is safe, with `steadyhand resume`"),
        Some(s) => answer
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

/// A stop where this process has nothing open: whether something moves all the same, it can't know.
pub(crate) fn nothing_open(why: ToolError) -> ToolError {
    let what = format!(
        "STOP NOT SENT by this process, which has no device open. Where another process owns the rig, the stop was passed \
         on to it; whether the axes stand is not known. {}",
        why.error.what
    );
    ToolError::from(RigError::new(Code::StopNotSent, what).moved(Moved::Unknown)).next(
        "diagnose",
        "tell the person at the rig at once: `steadyhand stop`, or the emergency stop; then diagnose {}",
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    /// When the stop was given.
    const SINCE: Time = Time(Duration::from_secs(1));

    /// The demonstration's state, read after the stop.
    fn read() -> Snapshot {
        let mut state = testing::state();
        state.stages[0].read_at = Some(Time(Duration::from_secs(2)));
        state
    }

    #[test]
    fn hole_06_a_stop_says_what_it_stopped_and_where_it_stands() {
        let rig = testing::rig();
        let mut before = read();
        before.stages[0].activity = Activity::Moving;
        let mut after = read();
        after.stages[0].stopped_by = Some(StopBy::Model);
        let answer = told(&rig, &before, &after, None, SINCE).unwrap();
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
        let mut state = read();
        state.stages[0].activity = Activity::Stopping;
        let e = told(&rig, &state, &state, None, SINCE).unwrap_err();
        assert_eq!((e.error.code, e.error.moved), (Code::StopNotConfirmed, Moved::Unknown));
        assert!(e.error.what.contains("STANDSTILL of scope IS NOT CONFIRMED after 3 s"), "{}", e.error.what);
        state.stages[0].activity = Activity::Offline;
        let e = told(&rig, &state, &state, None, SINCE).unwrap_err();
        assert_eq!(e.error.code, Code::StopNotSent);
        assert!(e.error.what.contains("NO CONNECTION to scope"), "{}", e.error.what);
    }

    #[test]
    fn standstill_is_never_claimed_of_a_stage_that_was_not_read_back() {
        let rig = testing::rig();
        type Spoil = fn(&mut StageStatus);
        let spoil: [(&str, Spoil); 5] = [
            ("connecting", |s| s.activity = Activity::Connecting),
            ("identified, but not read yet", |s| s.read_at = None),
            ("given up as not confirmed", |s| {
                s.fault = Some(crate::model::Fault { code: Code::StopNotConfirmed, ..testing::fault() });
            }),
            ("last read before the stop", |s| s.read_at = Some(Time::ZERO)),
            ("being stopped, without a reading", |s| (s.activity, s.read_at) = (Activity::Stopping, None)),
        ];
        for (what, spoil) in spoil {
            let mut state = read();
            spoil(&mut state.stages[0]);
            let e = told(&rig, &state, &state, None, SINCE).expect_err(what);
            assert_eq!((e.error.code, e.error.moved), (Code::StopNotConfirmed, Moved::Unknown), "{what}");
            assert!(!e.error.what.contains("confirmed by readback"), "{what}: {}", e.error.what);
            assert_eq!(e.data["standstill"], false, "{what}");
        }
        let e = told(&rig, &Snapshot::default(), &Snapshot::default(), None, SINCE).expect_err("before any report");
        assert_eq!((e.error.code, e.error.moved), (Code::StopNotConfirmed, Moved::Unknown));
        let mut state = read();
        state.stages[0].activity = Activity::Connecting;
        let e = told(&rig, &state, &state, None, SINCE).unwrap_err();
        let start = "The stop bytes were sent, but scope is not identified yet: standstill is unknown.";
        assert!(e.error.what.starts_with(start), "{}", e.error.what);
        assert!(e.next.unwrap().say.starts_with("call get_state {} in 2 s"));
        state.stages[0].link.open = false;
        let e = told(&rig, &state, &state, None, SINCE).unwrap_err();
        assert_eq!(e.error.code, Code::StopNotSent, "nothing can be sent on a port that isn't open");
    }

    #[test]
    fn of_several_stages_each_is_told_for_itself_and_one_that_is_not_confirmed_makes_an_error() {
        let mut rig = testing::rig();
        let mut state = read();
        for name in ["gone", "waking"] {
            let mut stage = rig.stages[0].clone();
            stage.id = Name::new(name);
            rig.stages.push(stage);
            let mut status = state.stages[0].clone();
            status.stage = Name::new(name);
            state.stages.push(status);
        }
        assert!(told(&rig, &state, &state, None, SINCE).is_ok());
        state.stages[1].activity = Activity::Offline;
        state.stages[2].activity = Activity::Connecting;
        let e = told(&rig, &state, &state, None, SINCE).unwrap_err();
        for part in [
            "NO CONNECTION to gone:",
            "but waking is not identified yet",
            "Standstill of scope is confirmed by readback.",
        ] {
            assert!(e.error.what.contains(part), "{part}: {}", e.error.what);
        }
        assert_eq!((e.error.code, e.data["stages"].as_array().unwrap().len()), (Code::StopNotSent, 3));
        assert_eq!(e.data["stages"][0]["standstill"], "confirmed");
        assert!(told(&rig, &state, &state, Some(&Name::new("scope")), SINCE).is_ok(), "alone it is confirmed");
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
