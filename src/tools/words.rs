//! States and positions, as people read them and as results carry them.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::{Rig, Stage};
use crate::model::{
    AxisReading, AxisStatus, CameraSettings, CameraStatus, Code, Epoch, Moved, StageStatus, StopBy, Time, Trust,
};
use crate::units::{Position, Unit, plain, rounded};

/// A text as a sentence that ends once, whoever wrote it.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim();
    let bare = text.trim_end_matches(['.', ' ']);
    // An abbreviation mark or a closing bracket or quote doesn't end a sentence; `?` and `!` do.
    if text.is_empty() || bare.ends_with(['?', '!', '…']) { bare.to_owned() } else { format!("{bare}.") }
}

/// Whether something moved, and the number of the state after it: `Moved: yes. state_epoch is 43 now.`
pub(crate) fn moved_line(moved: Moved, epoch: Option<Epoch>) -> String {
    let epoch = epoch.map_or(String::new(), |e| format!(" state_epoch is {} now.", e.0));
    format!("Moved: {moved}.{epoch}")
}

/// JSON as people write it, with a space after `:` and `,`, in one line.
pub(crate) fn spaced(value: &Value) -> String {
    match value {
        Value::Object(m) => {
            let inner: Vec<String> = m.iter().map(|(k, v)| format!("{}: {}", json!(k), spaced(v))).collect();
            format!("{{{}}}", inner.join(", "))
        }
        Value::Array(a) => format!("[{}]", a.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A position in the axis's unit and, if that is another one, in the unit that the call spoke:
/// `12.5 mm (12500 um)`.
pub(crate) fn both(position: Position, own: Unit, asked: Option<Unit>) -> String {
    let first = format!("{} {own}", plain(position.to(own)));
    match asked.filter(|u| *u != own && u.dimension() == own.dimension()) {
        Some(u) => format!("{first} ({} {u})", plain(position.to(u))),
        None => first,
    }
}

/// One axis in words: `x 12.5 mm`, `z unknown`; a number that isn't believed is no position.
pub(crate) fn axis(status: &AxisStatus, unit: Unit) -> String {
    match status.position {
        Some(p) if status.trust == Trust::Unknown => {
            format!("{} unknown (the controller counts {} {unit})", status.axis, plain(p.to(unit)))
        }
        Some(p) => format!("{} {} {unit}", status.axis, plain(p.to(unit))),
        None => format!("{} unknown", status.axis),
    }
}

/// A stage's positions in words: `x 12.5 mm, y 3 mm, z unknown`.
pub(crate) fn positions(status: &StageStatus, stage: &Stage) -> String {
    let axes = status.axes.iter().map(|a| axis(a, unit_of(stage, a.axis.as_str())));
    axes.collect::<Vec<_>>().join(", ")
}

/// The unit of a stage's axis.
pub(crate) fn unit_of(stage: &Stage, axis: &str) -> Unit {
    stage.axis(axis).map_or(Unit::Mm, |a| a.unit)
}

/// A stage's positions as results carry them, by axis.
pub(crate) fn axes_json(status: &StageStatus, stage: &Stage) -> Value {
    let one = |a: &AxisStatus| {
        let unit = unit_of(stage, a.axis.as_str());
        let mut m = Map::new();
        m.insert("position".into(), number(a.position.map(|p| p.to(unit))));
        m.insert("unit".into(), unit.name().into());
        m.insert("trust".into(), json!(a.trust));
        m.insert("source".into(), json!(a.source));
        if let Some(t) = a.target {
            m.insert("target".into(), number(Some(t.to(unit))));
        }
        if a.at_limit {
            m.insert("at_limit".into(), true.into());
        }
        (a.axis.to_string(), Value::Object(m))
    };
    Value::Object(status.axes.iter().map(one).collect())
}

/// Positions that were kept with something, by `stage.axis`.
pub(crate) fn readings_json(readings: &[AxisReading]) -> Value {
    let one = |r: &AxisReading| {
        let value = number(r.position.map(|p| p.to(r.unit)));
        (r.id.to_string(), json!({ "position": value, "unit": r.unit.name(), "trust": r.trust }))
    };
    Value::Object(readings.iter().map(one).collect())
}

/// A number as results carry it: rounded, or null where there is none. Never NaN.
pub(crate) fn number(value: Option<f64>) -> Value {
    match value.map(rounded).filter(|v| v.is_finite()) {
        Some(v) if v.fract() == 0.0 && v.abs() < 9e15 => json!(v as i64),
        Some(v) => json!(v),
        None => Value::Null,
    }
}

/// How old a reading is, in milliseconds.
pub(crate) fn age_ms(read_at: Option<Time>, now: Time) -> Value {
    read_at.map_or(Value::Null, |at| json!(now.since(at).as_millis() as u64))
}

/// A duration for people: `0.35 s`.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{} s", plain((time.as_secs_f64() * 100.0).round() / 100.0))
}

/// Who stopped a stage, in words.
pub(crate) fn stopper(by: StopBy) -> &'static str {
    match by {
        StopBy::Model => "a stop call",
        StopBy::Person => "a person, who alone can release it",
        StopBy::Program => "the program",
    }
}

/// What a stage is doing, in a word.
pub(crate) fn activity(status: &StageStatus) -> &'static str {
    let lent = status.fault.as_ref().is_some_and(|f| f.code == Code::Released);
    if lent { "released" } else { status.activity.word() }
}

/// A stage in one line.
pub(crate) fn stage_line(status: &StageStatus, stage: &Stage) -> String {
    let mut line = format!("{} is {}", status.stage, activity(status));
    if !status.axes.is_empty() {
        line.push_str(&format!(" at {}", positions(status, stage)));
    }
    let least = status.axes.iter().min_by_key(|a| a.trust);
    if let Some(a) = least {
        line.push_str(&format!(" (trust: {})", a.trust));
    }
    if let Some(by) = status.stopped_by {
        line.push_str(&format!("; stopped by {}", stopper(by)));
    }
    if let Some(f) = &status.fault {
        line.push_str(&format!("; fault [{}] {}", f.code, f.what.trim().trim_end_matches('.')));
    }
    line.push_str(&format!("; state_epoch {}.", status.epoch.0));
    line
}

/// A camera in one line.
pub(crate) fn camera_line(status: &CameraStatus) -> String {
    let state = match (status.ready, status.exposing) {
        (_, true) => "is exposing",
        (true, _) => "is ready",
        _ => "is not ready",
    };
    let mut line = format!("{} {state}", status.camera);
    if let Some(s) = &status.settings {
        line.push_str(&format!(": exposure {} ms, gain {}, {} bits", plain(s.exposure_ms), plain(s.gain), s.bits));
        let [x, y, width, height] = s.roi;
        if s.roi != [0, 0, s.sensor[0], s.sensor[1]] {
            let [w, h] = s.sensor;
            line.push_str(&format!(", ROI x {x}, y {y}, {width} × {height} of {w} × {h} pixels"));
        }
        if s.binning != 1 {
            line.push_str(&format!(", binning {}", s.binning));
        }
    }
    if let Some(f) = &status.fault {
        line.push_str(&format!("; fault [{}] {}", f.code, f.what.trim().trim_end_matches('.')));
    }
    line.push('.');
    line
}

/// A camera's settings as results carry them.
pub(crate) fn settings_json(s: &CameraSettings) -> Map<String, Value> {
    Map::from_iter([
        ("exposure_ms".to_owned(), number(Some(s.exposure_ms))),
        ("gain".to_owned(), number(Some(s.gain))),
        ("roi".to_owned(), json!(s.roi)),
        ("binning".to_owned(), json!(s.binning)),
        ("bits".to_owned(), json!(s.bits)),
        ("sensor".to_owned(), json!(s.sensor)),
    ])
}

/// Whether a device is a simulator: the built-in demonstration is one as a whole.
pub(crate) fn simulated(rig: &Rig, driver: &str) -> bool {
    rig.file.is_none() || crate::devices::driver(driver).is_some_and(|d| d.simulated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x25_a_number_that_is_none_is_null_and_whole_ones_are_whole() {
        assert_eq!(number(None), Value::Null);
        assert_eq!(number(Some(f64::NAN)), Value::Null);
        assert_eq!(number(Some(f64::INFINITY)), Value::Null);
        assert_eq!(number(Some(12.000_000_01)).to_string(), "12");
        assert_eq!(number(Some(0.1 + 0.2)).to_string(), "0.3");
        assert_eq!(number(Some(-0.0)).to_string(), "0");
    }

    #[test]
    fn a_cameras_settings_that_cut_or_bin_the_picture_are_told() {
        let mut cam = super::super::testing::state().cameras.remove(0);
        assert_eq!(camera_line(&cam), "cam is ready: exposure 20 ms, gain 1, 12 bits.");
        let s = cam.settings.as_mut().unwrap();
        (s.roi, s.binning) = ([1, 0, 2, 2], 2);
        let line = camera_line(&cam);
        assert!(line.ends_with("ROI x 1, y 0, 2 × 2 of 3 × 2 pixels, binning 2."), "{line}");
    }

    #[test]
    fn a_sentence_ends_once() {
        for (text, ends) in [("it moves", "it moves."), ("it moves. ", "it moves."), ("is it on?", "is it on?")] {
            assert_eq!(sentence(text), ends);
        }
        assert_eq!(sentence("call stop {}."), "call stop {}.");
        assert_eq!(sentence(""), "");
    }

    #[test]
    fn a_position_is_said_in_both_units() {
        let p = Position::new(12.5, Unit::Mm).unwrap();
        assert_eq!(both(p, Unit::Mm, Some(Unit::Um)), "12.5 mm (12500 um)");
        assert_eq!(both(p, Unit::Mm, Some(Unit::Mm)), "12.5 mm");
    }
}
