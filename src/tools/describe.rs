//! `describe_rig`: one complete manifest of the rig file, in words and as an object.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome};
use super::call::{Call, Live};
use super::words::{self, number};
use crate::config::{Axis, Camera, Eaa, Homing, KeepOut, Parameter, Rig, Stage};
use crate::devices;
use crate::model::{AxisId, Evidence, Source};
use crate::units::plain;

/// Answers `describe_rig`.
pub(crate) async fn describe_rig(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig();
    Ok(manifest(rig).with("saved_positions", saved(live)))
}

/// The rig file as an answer: a pure function of it.
pub(crate) fn manifest(rig: &Rig) -> Answer {
    let mut lines = vec![format!("Rig {}.", rig.name)];
    lines.extend(rig.stages.iter().map(|s| stage_words(s, rig)));
    lines.extend(rig.cameras.iter().map(camera_words));
    lines.extend(rig.outputs.iter().map(super::outputs::describe_output));
    lines.extend(rig.sensors.iter().map(super::outputs::describe_sensor));
    lines.extend(rig.keep_outs.iter().map(|k| keep_out_words(k, rig)));
    lines.extend(rig.rules.iter().map(super::rules::rule_words));
    lines.extend(super::rules::budget_words(rig));
    if let Some(scan) = &rig.scan {
        let focus = scan.focus.as_ref().map_or(String::new(), |f| format!(", focus is {f}"));
        lines.push(format!("Regions: x is {}, y is {}{focus}, in {}.", scan.x, scan.y, scan.unit));
    }
    if let Some(eaa) = &rig.eaa {
        lines.push(eaa_words(eaa));
    }
    lines.push(format!("It cannot: {}.", cannot(rig).join("; ")));
    let mut answer = Answer::ok(lines.join("\n"))
        .next("get_state", "get_state {} for where everything stands")
        .with("stages", rig.stages.iter().map(|s| stage_json(s, rig)).collect::<Vec<_>>())
        .with("cameras", rig.cameras.iter().map(|c| camera_json(c, rig)).collect::<Vec<_>>())
        .with("outputs", rig.outputs.iter().map(|o| super::outputs::output_manifest(o, rig)).collect::<Vec<_>>())
        .with("sensors", rig.sensors.iter().map(|s| super::outputs::sensor_manifest(s, rig)).collect::<Vec<_>>())
        .with("keep_outs", rig.keep_outs.iter().map(|k| keep_out_json(k, rig)).collect::<Vec<_>>())
        .with("rules", rig.rules.iter().map(super::rules::rule_json).collect::<Vec<_>>())
        .with("cannot", cannot(rig))
        .with("simulated", rig.file.is_none());
    if let Some(budget) = super::rules::budget_json(rig) {
        answer = answer.with("budget", budget);
    }
    if let Some(scan) = &rig.scan {
        let focus = scan.focus.as_ref().map(AxisId::to_string);
        let scan =
            json!({ "x": scan.x.to_string(), "y": scan.y.to_string(), "focus": focus, "unit": scan.unit.name() });
        answer = answer.with("scan", scan);
    }
    if let Some(eaa) = &rig.eaa {
        answer = answer.with("parameters", eaa.parameters.iter().map(parameter_json).collect::<Vec<_>>());
    }
    answer
}

fn stage_words(stage: &Stage, rig: &Rig) -> String {
    let home = match &stage.home {
        Homing::Cycle { order, ask, .. } => {
            let asks = if *ask { "; a person approves it each time" } else { "" };
            format!("homes in the order {}{asks}", names(order))
        }
        Homing::Never => "has no homing: a person declares where its axes stand (trust: assumed)".into(),
    };
    let why = because(stage.why.as_deref());
    let simulated = if words::simulated(rig, &stage.driver) { ", simulated" } else { "" };
    let axes: Vec<String> = stage.axes.iter().map(axis_words).collect();
    let open = crate::devices::driver(&stage.driver).map(|d| &d.open);
    let counted = matches!(open, Some(crate::devices::Open::Stage { source: Source::Counter, .. }));
    let counted = if counted { "; where it has no encoder its positions are the controller's counter" } else { "" };
    format!("Stage {} ({}{simulated}) {home}{counted}{why}.\n{}", stage.id, stage.driver, axes.join("\n"))
}

fn axis_words(axis: &Axis) -> String {
    let u = axis.unit;
    let mut line = format!(
        "  {}: {} to {} {u}, at most {} {u}/s, arrives within {} {u}, needs trust {}",
        axis.id,
        plain(axis.travel.low.to(u)),
        plain(axis.travel.high.to(u)),
        plain(axis.max_speed.to(u)),
        plain(axis.tolerance.to(u)),
        axis.trust
    );
    if let Some(toward) = toward(axis) {
        line.push_str(&format!("; {toward}"));
    }
    if !axis.holds_unpowered {
        line.push_str("; does not hold without power");
    }
    if let Some(step) = axis.blind_step {
        line.push_str(&format!(
            "; without a known position, steps up to {} {u} that a person approves",
            plain(step.to(u))
        ));
    }
    line.push_str(&because(axis.why.as_deref()));
    line.push('.');
    line
}

/// Which way is toward the sample.
fn toward(axis: &Axis) -> Option<&'static str> {
    axis.toward_sample.map(|d| if d > 0.0 { "greater is toward the sample" } else { "smaller is toward the sample" })
}

pub(crate) fn because(why: Option<&str>) -> String {
    why.map_or(String::new(), |w| format!(" (owner: {})", w.trim_end_matches('.')))
}

fn names(list: &[crate::model::Name]) -> String {
    list.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ")
}

fn camera_words(camera: &Camera) -> String {
    let way = |side: &Option<(f64, AxisId)>| side.as_ref().map(signed);
    let axes = match (way(&camera.right), way(&camera.up)) {
        (Some(r), Some(u)) => format!("right in the picture is {r}, up is {u}"),
        _ => "how the picture lies on the stage is not known".into(),
    };
    let light = match &camera.light {
        Some(l) => {
            format!("; {} is set to {} for each exposure where no light passes, and back after it", l.output, l.open)
        }
        None => String::new(),
    };
    format!("Camera {} ({}): {} um a pixel; {axes}{light}.", camera.id, camera.driver, plain(camera.pixel_size_um))
}

/// An axis with its direction: `+scope.x`.
pub(crate) fn signed((sign, axis): &(f64, AxisId)) -> String {
    format!("{}{axis}", if *sign < 0.0 { "-" } else { "+" })
}

fn keep_out_words(k: &KeepOut, rig: &Rig) -> String {
    let one = |(id, span): &(AxisId, crate::units::Span)| {
        let unit = rig.axis(id).map_or(crate::units::Unit::Mm, |a| a.unit);
        format!("{id} {} to {} {unit}", plain(span.low.to(unit)), plain(span.high.to(unit)))
    };
    let boxes: Vec<String> = k.boxes.iter().map(|b| b.iter().map(one).collect::<Vec<_>>().join(" and ")).collect();
    format!("Keep-out \"{}\": {}{}.", k.name, boxes.join(", or "), because(k.why.as_deref()))
}

fn eaa_words(eaa: &Eaa) -> String {
    let list: Vec<String> = eaa.parameters.iter().map(parameter_words).collect();
    let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    format!("Tuning parameters (set_parameters), in this order: {list}.")
}

/// A tuning parameter in words: `scope.z in um`.
pub(crate) fn parameter_words(p: &Parameter) -> String {
    match p {
        Parameter::Axis(id, unit) => format!("{id} in {unit}"),
        Parameter::ExposureMs => "exposure in ms".into(),
        Parameter::Gain => "gain".into(),
    }
}

fn parameter_json(p: &Parameter) -> Value {
    match p {
        Parameter::Axis(id, unit) => json!({ "axis": id.to_string(), "unit": unit.name() }),
        Parameter::ExposureMs => json!({ "setting": "exposure_ms", "unit": "ms" }),
        Parameter::Gain => json!({ "setting": "gain" }),
    }
}

/// What a caller might expect and won't find.
fn cannot(rig: &Rig) -> Vec<String> {
    let mut list = vec![
        "widen a limit or change an interlock (that is in the rig file, with the owner)".to_owned(),
        "jog by velocity, run G-code or send raw commands".to_owned(),
        "replace an emergency stop, limit switches or laser interlocks".to_owned(),
    ];
    if rig.stages.is_empty() {
        list.push("move anything: it has no stage".into());
    }
    if rig.cameras.is_empty() {
        list.push("take pictures: it has no camera".into());
    }
    for stage in rig.stages.iter().filter(|s| s.home == Homing::Never) {
        list.push(format!("home {}", stage.id));
    }
    if !rig.cameras.is_empty() && rig.eaa.is_none() {
        list.push("acquire a region: the rig file has no [eaa] section".into());
    }
    list
}

fn stage_json(stage: &Stage, rig: &Rig) -> Value {
    let home = match &stage.home {
        Homing::Cycle { order, timeout, ask } => {
            let order: Vec<&str> = order.iter().map(|n| n.as_str()).collect();
            let timeout = number(Some(timeout.as_secs_f64()));
            let mut home = json!({ "method": "cycle", "order": order, "timeout_s": timeout });
            if *ask {
                home["ask"] = json!("operator");
            }
            home
        }
        Homing::Never => json!({ "method": "never" }),
    };
    let mut m = Map::from_iter([
        ("stage".to_owned(), json!(stage.id.as_str())),
        ("driver".to_owned(), json!(stage.driver)),
        ("evidence".to_owned(), json!(evidence(&stage.driver))),
        ("simulated".to_owned(), json!(words::simulated(rig, &stage.driver))),
        ("home".to_owned(), home),
        ("axes".to_owned(), stage.axes.iter().map(axis_json).collect()),
    ]);
    insert_why(&mut m, stage.why.as_deref());
    Value::Object(m)
}

fn axis_json(axis: &Axis) -> Value {
    let u = axis.unit;
    let mut m = Map::from_iter([
        ("axis".to_owned(), json!(axis.id.axis.as_str())),
        ("unit".to_owned(), json!(u.name())),
        ("travel".to_owned(), json!([number(Some(axis.travel.low.to(u))), number(Some(axis.travel.high.to(u)))])),
        ("max_speed_per_s".to_owned(), number(Some(axis.max_speed.to(u)))),
        ("tolerance".to_owned(), number(Some(axis.tolerance.to(u)))),
        ("needs_trust".to_owned(), json!(axis.trust)),
        ("settle_ms".to_owned(), json!(axis.settle.as_millis() as u64)),
        ("holds_unpowered".to_owned(), json!(axis.holds_unpowered)),
    ]);
    if let Some(words) = toward(axis) {
        m.insert("direction".into(), json!(words));
    }
    if let Some(a) = &axis.approach {
        let from = if a.direction > 0.0 { "upwards" } else { "downwards" };
        m.insert("approach".into(), json!(format!("{from}, overshooting by {} {u}", plain(a.overshoot.to(u)))));
    }
    if let Some(step) = axis.blind_step {
        m.insert("blind_step".into(), number(Some(step.to(u))));
    }
    insert_why(&mut m, axis.why.as_deref());
    Value::Object(m)
}

/// On what the claim rests that a driver works.
pub(crate) fn evidence(driver: &str) -> Option<Evidence> {
    devices::driver(driver).map(|d| d.evidence)
}

pub(crate) fn insert_why(m: &mut Map<String, Value>, why: Option<&str>) {
    if let Some(why) = why {
        m.insert("why".into(), json!(why));
    }
}

fn camera_json(camera: &Camera, rig: &Rig) -> Value {
    json!({
        "camera": camera.id.as_str(),
        "driver": camera.driver,
        "evidence": evidence(&camera.driver),
        "simulated": words::simulated(rig, &camera.driver),
        "pixel_size_um": number(Some(camera.pixel_size_um)),
        "right": camera.right.as_ref().map(signed),
        "up": camera.up.as_ref().map(signed),
        "light": camera.light.as_ref().map(|l| l.output.as_str()),
    })
}

fn keep_out_json(k: &KeepOut, rig: &Rig) -> Value {
    let one = |(id, span): &(AxisId, crate::units::Span)| {
        let unit = rig.axis(id).map_or(crate::units::Unit::Mm, |a| a.unit);
        let ends = json!([number(Some(span.low.to(unit))), number(Some(span.high.to(unit)))]);
        (id.to_string(), json!({ "from_to": ends, "unit": unit.name() }))
    };
    let boxes: Vec<Value> = k.boxes.iter().map(|b| Value::Object(b.iter().map(one).collect())).collect();
    let mut m = Map::from_iter([("name".to_owned(), json!(k.name)), ("boxes".to_owned(), json!(boxes))]);
    insert_why(&mut m, k.why.as_deref());
    Value::Object(m)
}

/// The saved positions: at most fifty, and how many there are.
fn saved(live: &Live) -> Value {
    const SHOWN: usize = 50;
    let all = live.saved.all();
    let one = |(name, p): (&crate::model::Name, &crate::store::SavedPosition)| {
        let axes = p.axes.iter().map(|a| {
            (a.axis.to_string(), json!({ "position": number(Some(a.position.to(a.unit))), "unit": a.unit.name() }))
        });
        let axes: Map<String, Value> = axes.collect();
        json!({ "name": name.as_str(), "stage": p.stage.as_str(), "axes": axes, "trust": p.trust, "saved_at": p.saved_at })
    };
    let shown: Vec<Value> = all.iter().take(SHOWN).map(one).collect();
    json!({ "total": all.len(), "truncated": all.len() > SHOWN, "positions": shown })
}
