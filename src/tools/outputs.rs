//! `set_output` and `read_sensor`, and outputs and sensors in words and as facts.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome, ToolError};
use super::args::{missing, wrong};
use super::call::Call;
use super::describe::{because, evidence, insert_why};
use super::schema::{self, Object, Schema, choice, command_id, number_in, wait_s};
use super::state::fault_json;
use super::wait::{render, run};
use super::words::{self, number};
use crate::config::{OnStop, Output, Rig, Sensor};
use crate::model::{
    Code, Moved, Name, OutputKind, OutputStatus, OutputValue, RigError, SensorStatus, SensorValue, SetOutput, Time,
};
use crate::plans::Sequence;
use crate::units::{Percent, plain};

/// Arguments of `set_output`: what a rig of these kinds can be told.
pub(crate) fn set_output_input(rig: &Rig) -> Schema {
    let has = |kind| rig.outputs.iter().any(|o| o.kind == kind);
    let mut object = Object::new().with(
        rig.outputs.len() > 1,
        "output",
        choice(rig.outputs.iter().map(|o| o.id.to_string()), "Output."),
    );
    if has(OutputKind::Light) {
        object = object.may("percent", number_in(0.0, 100.0, "Brightness of a light in percent; 0 is off."));
    }
    let mut states: Vec<&str> = Vec::new();
    for (kind, words) in [(OutputKind::Shutter, ["open", "closed"]), (OutputKind::Line, ["on", "off"])] {
        states.extend(words.iter().filter(|_| has(kind)));
    }
    if !states.is_empty() {
        object = object.may("state", choice(states, "State of a shutter or line."));
    }
    let mut positions: Vec<&str> = Vec::new();
    for name in rig.outputs.iter().flat_map(|o| &o.positions) {
        if !positions.contains(&name.as_str()) {
            positions.push(name.as_str());
        }
    }
    if !positions.is_empty() {
        object = object.may("position", choice(positions, "Position of a wheel."));
    }
    object.may("wait_s", wait_s(rig)).may("command_id", command_id()).build()
}

/// Arguments of `read_sensor`.
pub(crate) fn read_sensor_input(rig: &Rig) -> Schema {
    let sensors = choice(rig.sensors.iter().map(|s| s.id.to_string()), "Sensor.");
    Object::new().with(rig.sensors.len() > 1, "sensor", sensors).build()
}

/// Result of `read_sensor`.
pub(crate) fn read_sensor_output(_: &Rig) -> Schema {
    schema::result(false)
        .may("sensor", json!({ "type": "string" }))
        .may("value", json!({ "type": "number", "description": "In unit; 0 or 1 of a digital sensor." }))
        .may("unit", json!({ "type": "string" }))
        .may("age_ms", json!({ "type": "integer" }))
        .may("in_range", json!({ "type": "boolean" }))
        .build()
}

/// The one that a call means: the named one, or the only one there is.
fn meant<'r, T>(call: &Call, argument: &'static str, all: &'r [T], id: fn(&T) -> &Name) -> Result<&'r T, ToolError> {
    match (call.args.text(argument), all) {
        (Some(name), all) => all.iter().find(|o| id(o).as_str() == name).ok_or_else(|| {
            let what = format!("This rig has no {argument} {:?}.", super::args::cut(name));
            ToolError::new(Code::NotFound, what)
        }),
        (None, [only]) => Ok(only),
        (None, all) => {
            let names: Vec<&str> = all.iter().map(|o| id(o).as_str()).collect();
            Err(missing(argument, &format!("the rig has several; name one of {}", names.join(", "))))
        }
    }
}

/// How a value of that output is given.
fn how(output: &Output) -> &'static str {
    match output.kind {
        OutputKind::Light => "percent",
        OutputKind::Shutter | OutputKind::Line => "state",
        OutputKind::Wheel => "position",
    }
}

fn words_of(output: &Output) -> String {
    match output.kind {
        OutputKind::Light => format!("0 to {}", plain(output.max.value())),
        OutputKind::Shutter => "open or closed".into(),
        OutputKind::Line => "on or off".into(),
        OutputKind::Wheel => output.positions.iter().map(Name::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// The value that a call gives; exactly one, and of the output's kind.
fn value(call: &Call, output: &Output) -> Result<OutputValue, ToolError> {
    let own = how(output);
    let given = |name: &str| call.args.number(name).is_some() || call.args.text(name).is_some();
    if let Some(other) = ["percent", "state", "position"].into_iter().find(|n| *n != own && given(n)) {
        let kind = output.kind.word();
        return Err(wrong(other, &format!("{} is a {kind}: give {own}, {}", output.id, words_of(output))));
    }
    let lacking = || missing(own, &format!("{} is a {}: {}", output.id, output.kind.word(), words_of(output)));
    let word = || call.args.text(own).ok_or_else(lacking);
    match output.kind {
        OutputKind::Light => {
            let v = call.args.number(own).ok_or_else(lacking)?;
            Percent::new(v).map(OutputValue::Percent).ok_or_else(|| wrong(own, "it is 0 to 100"))
        }
        OutputKind::Shutter => switch(word()?, "open", "closed", output).map(OutputValue::Open),
        OutputKind::Line => switch(word()?, "on", "off", output).map(OutputValue::On),
        OutputKind::Wheel => Ok(OutputValue::At(Name::new(word()?))),
    }
}

fn switch(word: &str, on: &str, off: &str, output: &Output) -> Result<bool, ToolError> {
    match word {
        w if w == on => Ok(true),
        w if w == off => Ok(false),
        _ => Err(wrong("state", &format!("{} is a {}: {on} or {off}", output.id, output.kind.word()))),
    }
}

/// Answers `set_output`.
pub(crate) async fn set_output(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig().clone();
    let output = meant(&call, "output", &rig.outputs, |o| &o.id)?;
    let value = value(&call, output)?;
    let set = SetOutput { output: output.id.clone(), value: value.clone() };
    // What can never be is refused at once; what stands in the way now is judged when its turn comes.
    if let Err(e) = live.handle.rules().judge_set(&set, &live.handle.snapshot())
        && matches!(e.code, Code::InvalidArgument | Code::NotFound)
    {
        return Err(e.into());
    }
    let plan = Sequence::output(format!("set {} to {value}", output.id), set);
    let (name, shown) = (output.id.clone(), rig.clone());
    let stages = live.handle.snapshot();
    let epoch = match stages.stages.as_slice() {
        [only] => Some(only.epoch),
        _ => None,
    };
    let render = render(move |report| {
        let status = report.outputs.iter().find(|o| o.output == name);
        let now = status.and_then(|s| s.value.clone());
        let reads = now.as_ref().map_or("unknown".to_owned(), OutputValue::to_string);
        let how = match status {
            Some(s) if s.assumed => ", as a person confirmed",
            _ => "",
        };
        let text = match report.moved {
            Moved::No => format!("{name} is {reads} already{how}."),
            _ => format!("{name} is {reads}{how}, after {}.", words::seconds(report.took)),
        };
        let mut answer = Answer::ok(text).moved(report.moved).epoch(epoch).with("output", name.as_str());
        if let Some(Value::Object(facts)) = status.map(|s| output_json(s, &shown)) {
            answer.data.extend(facts);
        }
        Ok(answer)
    });
    run(&call, None, Box::new(plan), Some(call.patience(&rig)), render).await.map_err(|mut e| {
        e.error.device.get_or_insert_with(|| output.id.clone());
        e
    })
}

/// Answers `read_sensor`.
pub(crate) async fn read_sensor(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig();
    let sensor = meant(&call, "sensor", &rig.sensors, |s| &s.id)?;
    let (state, now) = (live.handle.snapshot(), live.handle.now());
    let status = state.sensor(sensor.id.as_str());
    let Some((status, value)) = status.and_then(|s| Some((s, s.value?))) else {
        let why = status.and_then(|s| s.fault.as_ref());
        let (code, what) = why.map_or((Code::NotConnected, "It has not been read yet."), |f| (f.code, f.what.as_str()));
        return Err(RigError::new(code, format!("Sensor {}: {what}", sensor.id)).on(&sensor.id).into());
    };
    let broken = if status.in_range {
        ""
    } else {
        " That is outside the range in which it works: ask the person at the rig to look at it."
    };
    let text = format!("{}{broken}", sensor_line(status, rig, now));
    let number = match value {
        SensorValue::Number(v) => number(Some(v)),
        SensorValue::On(on) => json!(u8::from(on)),
    };
    Ok(Answer::ok(text)
        .with("sensor", sensor.id.as_str())
        .with("value", number)
        .with("unit", sensor.unit.as_str())
        .with("age_ms", words::age_ms(status.read_at, now))
        .with("in_range", status.in_range)
        .with("simulated", words::simulated(rig, &sensor.driver)))
}

/// An output in one line: `lamp is 30 %.`
pub(crate) fn output_line(status: &OutputStatus) -> String {
    let name = &status.output;
    let mut line = match (&status.value, &status.target) {
        (value, Some(target)) => {
            let is = value.as_ref().map_or("unknown".to_owned(), OutputValue::to_string);
            format!("{name} is {is}, on its way to {target}")
        }
        (Some(value), None) => format!("{name} is {value}"),
        (None, None) => format!("{name} is unknown"),
    };
    if status.assumed {
        line.push_str(" as a person said");
    }
    if let Some(by) = status.stopped_by {
        line.push_str(&format!("; made safe by {}", words::stopper(by)));
    }
    if let Some(f) = &status.fault {
        line.push_str(&format!("; fault [{}] {}", f.code, f.what.trim().trim_end_matches('.')));
    }
    line.push('.');
    line
}

/// A value under the name by which `set_output` takes it, with its unit.
fn value_json(m: &mut Map<String, Value>, kind: OutputKind, value: Option<&OutputValue>) {
    let (key, value) = match (kind, value) {
        (OutputKind::Light, Some(OutputValue::Percent(p))) => ("percent", number(Some(p.value()))),
        (OutputKind::Light, _) => ("percent", Value::Null),
        (OutputKind::Wheel, v) => ("position", v.map_or(Value::Null, |v| json!(v.to_string()))),
        (OutputKind::Shutter | OutputKind::Line, v) => ("state", v.map_or(json!("unknown"), |v| json!(v.to_string()))),
    };
    m.insert(key.to_owned(), value);
}

/// An output as results carry it.
pub(crate) fn output_json(status: &OutputStatus, rig: &Rig) -> Value {
    let mut m = Map::from_iter([("output".to_owned(), json!(status.output.as_str()))]);
    if let Some(output) = rig.output(status.output.as_str()) {
        value_json(&mut m, output.kind, status.value.as_ref());
        if words::simulated(rig, &output.driver) {
            m.insert("simulated".into(), true.into());
        }
    }
    if !status.ready {
        m.insert("ready".into(), false.into());
    }
    if status.assumed {
        m.insert("trust".into(), "assumed".into());
    }
    if let Some(target) = &status.target {
        m.insert("target".into(), json!(target.to_string()));
    }
    if let Some(by) = status.stopped_by {
        m.insert("stopped_by".into(), json!(by));
    }
    if let Some(f) = &status.fault {
        m.insert("fault".into(), fault_json(f));
    }
    Value::Object(m)
}

/// A sensor in one line: `temperature reads 21.5 degC, 0.4 s ago.`
pub(crate) fn sensor_line(status: &SensorStatus, rig: &Rig, now: Time) -> String {
    let name = &status.sensor;
    let unit = rig.sensor(name.as_str()).map_or("", |s| s.unit.as_str());
    let age = status.read_at.map_or(String::new(), |at| format!(", {} ago", words::seconds(now.since(at))));
    let out = if status.in_range { "" } else { ", outside its range" };
    match (status.value, &status.fault) {
        (Some(SensorValue::Number(v)), _) => format!("{name} reads {} {unit}{out}{age}.", rounded(v)),
        (Some(SensorValue::On(on)), _) => format!("{name} is {}{age}.", if on { "on" } else { "off" }),
        (None, Some(f)) => format!("{name} can't be read: [{}] {}", f.code, words::sentence(&f.what)),
        (None, None) => format!("{name} has not been read yet."),
    }
}

fn rounded(v: f64) -> String {
    plain((v * 1000.0).round() / 1000.0)
}

/// A sensor as results carry it.
pub(crate) fn sensor_json(status: &SensorStatus, rig: &Rig, now: Time) -> Value {
    let mut m = Map::from_iter([("sensor".to_owned(), json!(status.sensor.as_str()))]);
    match status.value {
        Some(SensorValue::Number(v)) => {
            m.insert("value".into(), number(Some((v * 1000.0).round() / 1000.0)));
            let unit = rig.sensor(status.sensor.as_str()).map_or("", |s| s.unit.as_str());
            m.insert("unit".into(), unit.into());
        }
        Some(SensorValue::On(on)) => {
            m.insert("on".into(), on.into());
        }
        None => {
            m.insert("value".into(), Value::Null);
        }
    }
    m.insert("age_ms".into(), words::age_ms(status.read_at, now));
    if !status.in_range {
        m.insert("in_range".into(), false.into());
    }
    if let Some(f) = &status.fault {
        m.insert("fault".into(), fault_json(f));
    }
    Value::Object(m)
}

/// An output of the rig file in words.
pub(crate) fn describe_output(o: &Output) -> String {
    let hand = if o.link.is_none() { ", changed by hand: a person is asked and confirms" } else { "" };
    let stop = match &o.on_stop {
        OnStop::Safe(value) => format!("made safe ({value}) by a stop of everything"),
        OnStop::Keep => "left as it is by a stop".into(),
    };
    format!(
        "Output {} ({}{hand}): a {}, {}; {stop}{}.",
        o.id,
        o.driver,
        o.kind.word(),
        words_of(o),
        because(o.why.as_deref())
    )
}

/// An output of the rig file as an object.
pub(crate) fn output_manifest(o: &Output, rig: &Rig) -> Value {
    let mut m = Map::from_iter([
        ("output".to_owned(), json!(o.id.as_str())),
        ("kind".to_owned(), json!(o.kind.word())),
        ("driver".to_owned(), json!(o.driver)),
        ("evidence".to_owned(), json!(evidence(&o.driver))),
        ("simulated".to_owned(), json!(words::simulated(rig, &o.driver))),
        ("delay_ms".to_owned(), json!(o.delay.as_millis() as u64)),
        ("on_stop".to_owned(), json!(if o.safe().is_some() { "safe" } else { "keep" })),
    ]);
    if let Some(safe) = o.safe() {
        m.insert("safe".into(), json!(safe.to_string()));
    }
    match o.kind {
        OutputKind::Light => m.insert("max_percent".into(), number(Some(o.max.value()))),
        OutputKind::Wheel => m.insert("positions".into(), o.positions.iter().map(Name::as_str).collect()),
        OutputKind::Shutter | OutputKind::Line => None,
    };
    insert_why(&mut m, o.why.as_deref());
    Value::Object(m)
}

/// A sensor of the rig file in words.
pub(crate) fn describe_sensor(s: &Sensor) -> String {
    let what = match s.range {
        Some((low, high)) => format!("in {}, works from {} to {}", s.unit, plain(low), plain(high)),
        None => "on or off".into(),
    };
    format!("Sensor {} ({}): {}, {what}{}.", s.id, s.driver, s.kind.word(), because(s.why.as_deref()))
}

/// A sensor of the rig file as an object.
pub(crate) fn sensor_manifest(s: &Sensor, rig: &Rig) -> Value {
    let mut m = Map::from_iter([
        ("sensor".to_owned(), json!(s.id.as_str())),
        ("kind".to_owned(), json!(s.kind.word())),
        ("driver".to_owned(), json!(s.driver)),
        ("evidence".to_owned(), json!(evidence(&s.driver))),
        ("simulated".to_owned(), json!(words::simulated(rig, &s.driver))),
    ]);
    if let Some((low, high)) = s.range {
        m.insert("unit".into(), json!(s.unit));
        m.insert("range".into(), json!([number(Some(low)), number(Some(high))]));
    }
    insert_why(&mut m, s.why.as_deref());
    Value::Object(m)
}
