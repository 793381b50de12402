//! Tools that read: `get_state`, `diagnose`, `list_events`, `whoami`. None touches the wire.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome};
use super::args::cut;
use super::call::{Call, Live, RigPart};
use super::readiness::{Hitch, hitches};
use super::schema::{Object, Schema, choice, integer_in, stage, text};
use super::{approvals, words};
use crate::config::Rig;
use crate::model::{
    CameraStatus, Fault, JobState, JobStatus, LinkStatus, OutputStatus, Remedy, SensorStatus, Snapshot, StageStatus,
    StopBy, Time, Way,
};
use crate::store::{EventFilter, harmless};

/// The most bytes of a state report: it is read often.
const STATE_BYTES: usize = 2048;
/// How many of them outputs may take, and sensors as many.
const ROWS_BYTES: usize = 360;

/// Arguments of `get_state`.
pub(crate) fn get_state_input(rig: &Rig) -> Schema {
    if rig.stages.is_empty() {
        return Object::new().build();
    }
    Object::new().may("stage", stage(rig)).build()
}

/// Answers `get_state`.
pub(crate) async fn get_state(call: Call) -> Outcome {
    let live = call.live()?;
    let (rig, state, now) = (live.handle.rig(), live.handle.snapshot(), live.handle.now());
    let only = call.args.text("stage");
    let audit = live.events.failing();
    let found = hitches(rig, &state, now, only, audit.as_deref());
    let may = |tool: &str, device: Option<&str>| call.core.may(tool, device);
    let next = found.iter().find_map(|h| h.next(&may));
    let stopped = state.stages.iter().any(|s| s.stopped_by == Some(StopBy::Program));
    let answer = report(rig, &state, now, only, &found, next);
    Ok(match stopped.then(|| takeover(live)).flatten() {
        Some(what) => answer.say(&what),
        None => answer,
    })
}

/// What isn't ready, as a line and as facts.
fn readiness(found: &[Hitch], only: Option<&str>) -> (String, Vec<String>) {
    const SHOWN: usize = 4;
    let mut what: Vec<String> = found.iter().take(SHOWN).map(|h| h.what.clone()).collect();
    if found.len() > SHOWN {
        what.push(format!("and {} more", found.len() - SHOWN));
    }
    let line = match (what.as_slice(), only) {
        ([], None) => "Everything is ready.".to_owned(),
        ([], Some(stage)) => format!("{stage} is ready."),
        (some, _) => format!("NOT READY: {}.", some.join("; ")),
    };
    (line, what)
}

/// The state as an answer of bounded size; `found` is what isn't ready, `next` the step that leads on.
pub(crate) fn report(
    rig: &Rig,
    state: &Snapshot,
    now: Time,
    only: Option<&str>,
    found: &[Hitch],
    next: Option<&str>,
) -> Answer {
    let stages: Vec<&StageStatus> =
        state.stages.iter().filter(|s| only.is_none_or(|o| s.stage.as_str() == o)).collect();
    let mut lines = Vec::new();
    for status in &stages {
        if let Some(stage) = rig.stage(status.stage.as_str()) {
            lines.push(words::stage_line(status, stage));
        }
    }
    let cameras: Vec<&CameraStatus> = if only.is_none() { state.cameras.iter().collect() } else { Vec::new() };
    lines.extend(cameras.iter().map(|c| words::camera_line(c)));
    let outputs: &[OutputStatus] = if only.is_none() { &state.outputs } else { &[] };
    lines.extend(outputs.iter().map(super::outputs::output_line));
    let sensors: &[SensorStatus] = if only.is_none() { &state.sensors } else { &[] };
    lines.extend(sensors.iter().map(|s| super::outputs::sensor_line(s, rig, now)));
    let running: Vec<Value> = state.jobs.iter().filter(|j| j.state == JobState::Running).map(|j| job_json(j)).collect();
    let runs = |j: &JobStatus| match (&j.approval, &j.waits_for) {
        (Some(a), _) => format!("{} waits for a person to approve ({}): {}.", j.id, a.id, a.what),
        (None, Some(what)) => format!("{} waits for a person to {what}.", j.id),
        (None, None) => format!("{} runs: {}.", j.id, j.title),
    };
    lines.extend(state.jobs.iter().filter(|j| j.state == JobState::Running).map(|j| runs(j)));
    lines.extend(approvals::allowance_line(state, rig, now));
    lines.extend(super::rules::tripped_lines(state));
    let mut answer = Answer::ok("")
        .with("jobs", running)
        .with("control", "anybody")
        .with("queued", state.queued)
        .with("cameras", cameras.iter().map(|c| camera_json(c, rig)).collect::<Vec<_>>())
        .with("ready", found.is_empty());
    if let Some(a) = &state.allowance {
        answer = answer.with("allowance", approvals::allowance_json(a, rig, now));
    }
    if !state.tripped.is_empty() {
        let rows = state.tripped.iter().map(|t| Value::from(&**t));
        answer = fitting(answer, "tripped", rows, state.tripped.len());
    }
    let rows = outputs.iter().map(|o| super::outputs::output_json(o, rig));
    answer = fitting(answer, "outputs", rows, outputs.len());
    let rows = sensors.iter().map(|s| super::outputs::sensor_json(s, rig, now));
    answer = fitting(answer, "sensors", rows, sensors.len());
    let (line, what) = readiness(found, only);
    if !what.is_empty() {
        answer = answer.with("not_ready", what);
    }
    // As many stages as fit; the others are named with the argument that shows them.
    let mut shown: Vec<Value> = Vec::new();
    let so_far: usize = answer.data.iter().map(|(key, value)| key.len() + 4 + json_bytes(value)).sum();
    let mut bytes = so_far + 160 + next.map_or(0, str::len);
    for status in &stages {
        let Some(stage) = rig.stage(status.stage.as_str()) else { continue };
        let one = stage_json(status, stage, rig, now);
        bytes += json_bytes(&one) + 1;
        if bytes > STATE_BYTES && !shown.is_empty() {
            break;
        }
        shown.push(one);
    }
    let truncated = shown.len() < stages.len();
    if truncated {
        let (n, total) = (shown.len(), stages.len());
        lines.truncate(n);
        lines.push(format!("These are {n} of {total} stages; get_state {{\"stage\": …}} shows another."));
        answer = answer.with("total_stages", total);
    }
    lines.push(line);
    answer.text = lines.join("\n");
    if let Some(say) = next {
        answer = answer.or_say(say);
    }
    answer.with("stages", shown).with("truncated", truncated)
}

/// How long a value is as JSON, without writing it anywhere.
fn json_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value that can't be written is none that JSON has; then it has no length either.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// As many rows as fit, and how many there are when that is not all; the prose has all of them.
fn fitting(answer: Answer, key: &str, rows: impl Iterator<Item = Value>, total: usize) -> Answer {
    if total == 0 {
        return answer;
    }
    let mut bytes = 0;
    let shown: Vec<Value> = rows
        .take_while(|row| {
            bytes += json_bytes(row) + 1;
            bytes <= ROWS_BYTES
        })
        .collect();
    let answer = if shown.len() < total { answer.with(&format!("total_{key}"), total) } else { answer };
    answer.with(key, shown)
}

fn job_json(job: &JobStatus) -> Value {
    let mut m = Map::from_iter([
        ("job_id".to_owned(), json!(job.id.to_string())),
        ("title".to_owned(), json!(job.title)),
        ("doing".to_owned(), json!(job.doing)),
    ]);
    if let Some(what) = &job.waits_for {
        m.insert("waiting_for_person".into(), json!(what));
    }
    if let Some(a) = &job.approval {
        m.insert("approval_id".into(), json!(a.id.as_str()));
    }
    Value::Object(m)
}

pub(crate) fn fault_json(f: &Fault) -> Value {
    json!({ "code": f.code.text(), "what": f.what, "remedy": f.remedy })
}

pub(crate) fn stage_json(status: &StageStatus, stage: &crate::config::Stage, rig: &Rig, now: Time) -> Value {
    let mut m = Map::from_iter([
        ("stage".to_owned(), json!(status.stage.as_str())),
        ("activity".to_owned(), json!(words::activity(status))),
        ("state_epoch".to_owned(), json!(status.epoch.0)),
        ("age_ms".to_owned(), words::age_ms(status.read_at, now)),
        ("axes".to_owned(), words::axes_json(status, stage)),
    ]);
    if let Some(by) = status.stopped_by {
        m.insert("stopped_by".into(), json!(by));
    }
    if let Some(f) = &status.fault {
        m.insert("fault".into(), fault_json(f));
    }
    if words::simulated(rig, &stage.driver) {
        m.insert("simulated".into(), true.into());
    }
    Value::Object(m)
}

pub(crate) fn camera_json(status: &CameraStatus, rig: &Rig) -> Value {
    let mut m = Map::from_iter([
        ("camera".to_owned(), json!(status.camera.as_str())),
        ("ready".to_owned(), json!(status.ready)),
        ("exposing".to_owned(), json!(status.exposing)),
    ]);
    if let Some(s) = &status.settings {
        m.extend(words::settings_json(s));
    }
    if let Some(f) = &status.fault {
        m.insert("fault".into(), fault_json(f));
    }
    if rig.camera(status.camera.as_str()).is_some_and(|c| words::simulated(rig, &c.driver)) {
        m.insert("simulated".into(), true.into());
    }
    Value::Object(m)
}

/// Answers `diagnose`.
pub(crate) async fn diagnose(call: Call) -> Outcome {
    let live = match &call.core.rig {
        RigPart::Live(live) => live,
        RigPart::Bad { problems } => {
            let text = format!(
                "The rig file can't be used, so nothing was opened and nothing can move:\n{problems}\nNext: ask the person \
                 at the rig to correct it and start the server again; `steadyhand check` shows the same."
            );
            return Ok(Answer::ok(text)
                .with("rig_file", "bad")
                .with("problems", problems.as_str())
                .with("devices", json!([])));
        }
        RigPart::Closed { file, code, what } => {
            let path = path_words(file.as_deref());
            let text = format!(
                "The rig file{path} is good, but its rig could not be opened, so nothing can move: [{code}] {} Next: ask the \
                 person at the rig to mend that and to start the server again.",
                words::sentence(what)
            );
            return Ok(Answer::ok(text)
                .with("rig_file", "good")
                .with("rig_path", path_json(file.as_deref()))
                .with("code", code.text())
                .with("problems", what.as_str())
                .with("devices", json!([])));
        }
    };
    let (rig, state) = (live.handle.rig(), live.handle.snapshot());
    let may_clear = call.core.may("clear_fault", None);
    let mut lines = Vec::new();
    let mut devices = Vec::new();
    for s in &state.stages {
        let driver = rig.stage(s.stage.as_str()).map_or("", |c| c.driver.as_str());
        let simulated = words::simulated(rig, driver);
        let ready = s.fault.is_none()
            && !matches!(s.activity, crate::model::Activity::Offline | crate::model::Activity::Connecting);
        let connecting = s.activity == crate::model::Activity::Connecting;
        let failure = last_failure(live, s.stage.as_str());
        let what = Device { name: s.stage.as_str(), kind: "stage", driver, simulated, ready, connecting, failure };
        device(&what, &s.link, s.identity.as_ref(), s.fault.as_ref(), may_clear, &mut lines, &mut devices);
    }
    for c in &state.cameras {
        let driver = rig.camera(c.camera.as_str()).map_or("", |d| d.driver.as_str());
        let simulated = words::simulated(rig, driver);
        let what = Device {
            name: c.camera.as_str(),
            kind: "camera",
            driver,
            simulated,
            failure: last_failure(live, c.camera.as_str()),
            ready: c.ready || c.exposing,
            connecting: c.fault.is_none(),
        };
        device(&what, &c.link, c.identity.as_ref(), c.fault.as_ref(), may_clear, &mut lines, &mut devices);
    }
    for o in &state.outputs {
        let config = rig.output(o.output.as_str());
        let driver = config.map_or("", |c| c.driver.as_str());
        if config.is_some_and(|c| c.link.is_none()) {
            by_hand(o, driver, &mut lines, &mut devices);
            continue;
        }
        let simulated = words::simulated(rig, driver);
        let what = Device {
            name: o.output.as_str(),
            kind: "output",
            driver,
            simulated,
            failure: last_failure(live, o.output.as_str()),
            ready: o.ready,
            connecting: o.fault.is_none(),
        };
        device(&what, &o.link, o.identity.as_ref(), o.fault.as_ref(), may_clear, &mut lines, &mut devices);
    }
    for s in &state.sensors {
        let driver = rig.sensor(s.sensor.as_str()).map_or("", |c| c.driver.as_str());
        let simulated = words::simulated(rig, driver);
        let what = Device {
            name: s.sensor.as_str(),
            kind: "sensor",
            driver,
            simulated,
            failure: None,
            ready: s.ready,
            connecting: s.fault.is_none(),
        };
        device(&what, &s.link, s.identity.as_ref(), s.fault.as_ref(), may_clear, &mut lines, &mut devices);
    }
    if lines.is_empty() {
        lines.push("No device has reported yet; call diagnose {} again in a second.".into());
    }
    if let Some(why) = live.events.failing() {
        lines.push(format!("The audit log can't be written, so nothing may move: {}", words::sentence(&why)));
    }
    let file = rig.file.as_deref();
    lines.push(format!("The rig file{} is good.", path_words(file)));
    Ok(Answer::ok(lines.join("\n")).with("rig_file", "good").with("rig_path", path_json(file)).with("devices", devices))
}

fn path_words(file: Option<&Path>) -> String {
    file.map_or(" of the demonstration".into(), |f| format!(" {}", absolute(f)))
}

fn path_json(file: Option<&Path>) -> Value {
    json!(file.map(absolute))
}

/// A client can't know in which folder the server stands.
pub(crate) fn absolute(file: &Path) -> String {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string()
}

/// An output that a person changes has no connection that could fail.
fn by_hand(o: &OutputStatus, driver: &str, lines: &mut Vec<String>, devices: &mut Vec<Value>) {
    let to_do = match &o.waits_for {
        Some(what) => format!("Ask the person at the rig to {what}, and to confirm it."),
        None => "Nothing to do.".to_owned(),
    };
    lines.push(format!("output {} ({driver}) is changed by hand. {to_do}", o.output));
    devices.push(json!({
        "device": o.output.as_str(), "kind": "output", "driver": driver, "simulated": false, "fault": o.fault.as_ref().map(fault_json),
        "to_do": to_do,
    }));
}

struct Device<'a> {
    name: &'a str,
    kind: &'a str,
    driver: &'a str,
    simulated: bool,
    ready: bool,
    connecting: bool,
    failure: Option<Failure>,
}

/// How the last thing that a device was to do failed.
struct Failure {
    at: String,
    what: String,
    look: &'static str,
}

/// The failure of the last job with a device, if it ended in one that its fault or readiness does not tell.
fn last_failure(live: &Live, device: &str) -> Option<Failure> {
    let filter = EventFilter { kind: Some("outcome".into()), device: Some(device.into()) };
    let newest = live.events.recent(&filter, 0, 1).0.pop()?;
    let look = match newest.facts.get("code")?.as_str()? {
        "homing_failed" => {
            "look at the axis, its home switch and its cable, and at what is in its way, before homing again"
        }
        "controller_refused" => {
            "its own limits, lock or settings stand against it: look at what it said, and at its settings"
        }
        "too_long" => "look at the axis and at what slows it: its speed in the controller, its load, its connection",
        "stalled" | "wrong_direction" => "look at the axis and at what is in its way before anything moves again",
        "missed_target" => "look at its tolerance, its backlash, and at what is in its way",
        "not_responding" | "controller_reset" => "look at its power supply and its cable",
        "camera_failed" | "output_failed" => "look at its connection and its settings",
        _ => return None,
    };
    Some(Failure { at: crate::store::local(&newest.t), what: newest.what, look })
}

fn device(
    d: &Device<'_>,
    link: &LinkStatus,
    identity: Option<&crate::model::Identity>,
    fault: Option<&Fault>,
    may_clear: bool,
    lines: &mut Vec<String>,
    devices: &mut Vec<Value>,
) {
    let to_do = what_to_do(d, link, fault, may_clear);
    let who = identity.map_or_else(
        || "it has not said what it is".to_owned(),
        |i| format!("it is {} {}", i.model, i.firmware).trim_end().to_owned(),
    );
    let open = if link.open { "open" } else { "closed" };
    let port = if link.port.is_empty() { "no port found" } else { link.port.as_str() };
    let mut line = format!("{} {} ({}) on {port}, {open}; {who}.", d.kind, d.name, d.driver);
    if let Some(f) = fault {
        line.push_str(&format!(" Fault [{}] {}", f.code, words::sentence(&f.what)));
    } else if let Some(e) = &link.last_error {
        line.push_str(&format!(" Last error: {}", words::sentence(e)));
    }
    for note in identity.iter().flat_map(|i| &i.notes) {
        line.push_str(&format!(" Note: {}", words::sentence(note)));
    }
    if let Some(f) = &d.failure {
        line.push_str(&format!(" Last failure, at {}: {}", f.at, words::sentence(&harmless(&f.what))));
    }
    line.push_str(&format!(" {to_do}"));
    lines.push(line);
    devices.push(json!({
        "device": d.name, "kind": d.kind, "driver": d.driver, "simulated": d.simulated, "port": link.port, "open": link.open,
        "degraded": link.degraded, "frames": link.frames, "bad_frames": link.bad_frames, "timeouts": link.timeouts,
        "reconnects": link.reconnects, "last_error": link.last_error,
        "identity": identity.map(|i| json!({ "model": i.model, "firmware": i.firmware, "serial": i.serial, "notes": i.notes })),
        "fault": fault.map(fault_json), "to_do": to_do,
        "last_failure": d.failure.as_ref().map(|f| json!({ "at": f.at, "what": f.what })),
    }));
}

/// What a person or the caller has to do for a device.
fn what_to_do(d: &Device<'_>, link: &LinkStatus, fault: Option<&Fault>, may_clear: bool) -> String {
    let name = d.name;
    match fault.map(|f| f.remedy) {
        Some(Remedy::ClearFault) if !may_clear => format!("Ask the person at the rig to clear the fault of {name}."),
        Some(Remedy::ClearFault) => {
            format!("When the cause is gone: clear_fault {{\"device\": \"{name}\"}}.")
        }
        Some(Remedy::Reconnect) => format!(
            "Ask the person at the rig to check that {name} is switched on and plugged in, and that no other program has its port; it connects again by itself."
        ),
        Some(Remedy::Reclaim) => format!(
            "Ask the person at the rig to take it back when the other program has done with it: `steadyhand reclaim {name}`."
        ),
        Some(Remedy::Resume) => format!(
            "Ask the person at the rig whether {name} may be moved again, and to release it with `steadyhand resume`."
        ),
        Some(Remedy::Restart) => format!("Ask the person at the rig to look at {name} and to restart the server."),
        None if d.ready && link.degraded => {
            "It works, but many replies are damaged: ask the person at the rig to look at the cable.".into()
        }
        None if d.ready => match &d.failure {
            Some(f) => format!("It answers. Ask the person at the rig to {}.", f.look),
            None => "It is ready.".into(),
        },
        None if d.connecting => "It is being opened; call diagnose {} again in a second.".into(),
        None => format!("Ask the person at the rig to check that {name} is switched on and plugged in."),
    }
}

/// Arguments of `list_events`.
pub(crate) fn list_events_input(rig: &Rig) -> Schema {
    let devices: Vec<String> = rig.devices().map(ToString::to_string).collect();
    let mut object = Object::new().may("kind", text(32, "Only this kind: intent, outcome, refused, stop, fault, …"));
    if !devices.is_empty() {
        object = object.may("device", choice(devices, "Only this device."));
    }
    object
        .may("limit", integer_in(1, 50, "Rows, default 20."))
        .may("offset", integer_in(0, 1_000_000, "Rows to skip."))
        .build()
}

/// Answers `list_events`.
pub(crate) async fn list_events(call: Call) -> Outcome {
    let live = call.live()?;
    let filter = EventFilter {
        kind: call.args.text("kind").map(str::to_owned),
        device: call.args.text("device").map(str::to_owned),
    };
    let (offset, limit) = page(&call, 20);
    let (mut events, total) = live.events.recent(&filter, offset, limit);
    for event in &mut events {
        event.t = crate::store::local(&event.t);
    }
    let rows: Vec<Value> = events.iter().map(|e| json!(e)).collect();
    let lines: Vec<String> = events
        .iter()
        .map(|e| {
            let device = e.device.as_deref().map_or(String::new(), |d| format!(" {d}"));
            harmless(&format!("{} {}{device}: {}", e.t, e.kind, e.what))
        })
        .collect();
    let text = match (rows.len(), &filter.kind) {
        (0, None) if filter == EventFilter::default() => "No event yet.".to_owned(),
        (0, Some(kind)) => format!("No such event of kind {:?}; {}.", cut(kind), kinds(live)),
        (0, _) => "No such event.".to_owned(),
        (n, _) => format!("{n} of {total} events, newest first.{}\n{}", more(offset, n, total), lines.join("\n")),
    };
    let answer = Answer::ok(text);
    let answer = if rows.is_empty() { answer.next("list_events", "list_events {} for all there are") } else { answer };
    Ok(paged(answer, "events", rows, offset, total))
}

/// The kinds of events that were logged, in words.
fn kinds(live: &Live) -> String {
    const SEARCHED: usize = 5_000;
    let (events, _) = live.events.recent(&EventFilter::default(), 0, SEARCHED);
    let kinds: BTreeSet<&str> = events.iter().map(|e| e.kind.as_str()).collect();
    match kinds.into_iter().collect::<Vec<_>>().as_slice() {
        [] => "there is none yet of any".into(),
        some => format!("there are {}", some.join(", ")),
    }
}

/// Offset and limit of a paged call.
pub(crate) fn page(call: &Call, standard: usize) -> (usize, usize) {
    let read = |name: &str| call.args.integer(name).and_then(|v| usize::try_from(v).ok());
    (read("offset").unwrap_or(0), read("limit").unwrap_or(standard).clamp(1, 50))
}

/// How to go on, in words.
pub(crate) fn more(offset: usize, shown: usize, total: usize) -> String {
    if offset + shown < total { format!(" Pass offset {} for more.", offset + shown) } else { String::new() }
}

/// Rows with how many there are in all, and how to go on.
pub(crate) fn paged(answer: Answer, key: &str, rows: Vec<Value>, offset: usize, total: usize) -> Answer {
    let end = offset + rows.len();
    let answer = answer.with("total", total).with("truncated", end < total).with(key, rows);
    if end < total { answer.with("next_offset", end) } else { answer }
}

/// How this process came to own the rig, if it took it over from another: in words.
fn takeover(live: &Live) -> Option<String> {
    let filter = EventFilter { kind: Some("takeover".into()), device: None };
    let newest = live.events.recent(&filter, 0, 1).0.pop()?;
    let here = newest.facts.get("pid").and_then(Value::as_u64) == Some(std::process::id().into());
    here.then_some(newest.what)
}

/// Answers `whoami`.
pub(crate) async fn whoami(call: Call) -> Outcome {
    let listed = call.core.tools.iter().filter(|t| call.core.lists(t.spec));
    let granted: Vec<&str> = listed.map(|t| t.spec.name).collect();
    let how = if call.core.policy.read_only {
        "This server only reads for you; stop works all the same."
    } else {
        "You may move the stages and use the cameras, within the rig's limits."
    };
    let seat = &call.core.seat;
    let owner = std::process::id();
    let way = match seat.way {
        Way::Relay => {
            let own = seat.pid.map_or_else(|| "a second process".to_owned(), |pid| format!("process {pid}"));
            format!("through {own}, which passes everything on to process {owner}, the owner of the rig")
        }
        Way::Http => "over HTTP".to_owned(),
        Way::Cli => "at the command line".to_owned(),
        Way::Stdio | Way::Internal => "over standard input and output".to_owned(),
    };
    let clients = call.core.seats.clients().max(1);
    let others = match clients {
        1 => "",
        _ => " Others are served too: what they do shows in get_state and list_events.",
    };
    let state = call.live()?.handle.snapshot();
    let (rig, now) = (call.live()?.handle.rig().clone(), call.live()?.handle.now());
    let allowed = approvals::allowance_line(&state, &rig, now).map_or(String::new(), |l| format!(" {l}"));
    let since = takeover(call.live()?).map_or(String::new(), |what| format!(" {what}"));
    let text = format!("You are {} {way}. {how}{others}{allowed}{since}", call.caller.client);
    let answer = match &state.allowance {
        Some(a) => Answer::ok(text).with("allowance", approvals::allowance_json(a, &rig, now)),
        None => Answer::ok(text),
    };
    Ok(answer
        .with("role", if seat.way == Way::Relay { "relay" } else { "owner" })
        .with("owner_pid", owner)
        .with("clients", clients)
        .with("client", call.caller.client.as_str())
        .with("caller", call.caller.id.as_str())
        .with("way", json!(call.caller.way))
        .with("read_only", call.core.policy.read_only)
        .with("tools", granted))
}
