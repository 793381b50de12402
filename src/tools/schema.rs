//! Input and output schemas in the subset that every client takes: one flat object, plain types, no
//! references, no null, no combinators.

use serde_json::{Map, Value, json};

use crate::config::Rig;
use crate::units::{Dimension, Unit, plain, rounded};

/// A JSON Schema of an object.
pub(crate) type Schema = Map<String, Value>;

/// An object under construction.
#[derive(Default)]
pub(crate) struct Object {
    properties: Map<String, Value>,
    required: Vec<Value>,
    open: bool,
}

impl Object {
    /// An object without properties that takes no others.
    pub(crate) fn new() -> Object {
        Object::default()
    }

    /// One that may have more properties than are listed: results.
    pub(crate) fn open() -> Object {
        Object { open: true, ..Object::default() }
    }

    /// With a property that must be there.
    pub(crate) fn must(mut self, name: &'static str, property: Value) -> Object {
        self.required.push(name.into());
        self.may(name, property)
    }

    /// With a property that may be left out.
    pub(crate) fn may(mut self, name: &'static str, property: Value) -> Object {
        self.properties.insert(name.to_owned(), property);
        self
    }

    /// [`Object::must`] or [`Object::may`].
    pub(crate) fn with(self, required: bool, name: &'static str, property: Value) -> Object {
        if required { self.must(name, property) } else { self.may(name, property) }
    }

    /// The schema.
    pub(crate) fn build(self) -> Schema {
        let mut schema = Map::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".into(), Value::Array(self.required));
        }
        if !self.open {
            schema.insert("additionalProperties".into(), false.into());
        }
        schema
    }
}

/// A text of at most `most` characters.
pub(crate) fn text(most: usize, description: &str) -> Value {
    json!({ "type": "string", "maxLength": most, "description": description })
}

/// One of these.
pub(crate) fn choice<T: Into<String>>(options: impl IntoIterator<Item = T>, description: &str) -> Value {
    let options: Vec<String> = options.into_iter().map(Into::into).collect();
    json!({ "type": "string", "enum": options, "description": description })
}

/// Any finite number.
pub(crate) fn number(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

/// A number between two ends, both included.
pub(crate) fn number_in(low: f64, high: f64, description: &str) -> Value {
    json!({ "type": "number", "minimum": tidy(low), "maximum": tidy(high), "description": description })
}

/// A whole number between two ends, both included.
pub(crate) fn integer_in(low: u64, high: u64, description: &str) -> Value {
    json!({ "type": "integer", "minimum": low, "maximum": high, "description": description })
}

/// True or false.
pub(crate) fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// A list of `items`.
pub(crate) fn list(items: Value, least: usize, most: usize, description: &str) -> Value {
    json!({ "type": "array", "items": items, "minItems": least, "maxItems": most, "description": description })
}

/// A whole number is written as one.
fn tidy(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(rounded(value)) }
}

/// The stages of the rig.
pub(crate) fn stage(rig: &Rig) -> Value {
    choice(rig.stages.iter().map(|s| s.id.to_string()), "Stage.")
}

/// Whether calls must name a stage: where there is only one they needn't.
pub(crate) fn must_name_stage(rig: &Rig) -> bool {
    rig.stages.len() > 1
}

/// The axes' short names, each once, in the rig file's order.
pub(crate) fn axis_names(rig: &Rig) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for axis in rig.stages.iter().flat_map(|s| &s.axes) {
        let name = axis.id.axis.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A number for each axis that takes part, in `unit`. The schema lists the short names; `stage.axis` is
/// understood too and becomes the short name before the schema is applied.
pub(crate) fn per_axis(rig: &Rig, description: &str) -> Value {
    let axes: Map<String, Value> = axis_names(rig).into_iter().map(|n| (n, json!({ "type": "number" }))).collect();
    json!({ "type": "object", "properties": axes, "additionalProperties": false, "description": description })
}

/// The units that measure some axis of the rig.
pub(crate) fn unit(rig: &Rig) -> Value {
    choice(units(rig).iter().map(|u| u.name()), "Unit of the numbers.")
}

/// The units that measure some axis of the rig.
pub(crate) fn units(rig: &Rig) -> Vec<Unit> {
    let has = |d: Dimension| rig.stages.iter().flat_map(|s| &s.axes).any(|a| a.unit.dimension() == d);
    Unit::ALL.into_iter().filter(|u| has(u.dimension())).collect()
}

/// How long a call waits before it hands back a job.
pub(crate) fn wait_s(rig: &Rig) -> Value {
    number_in(0.0, rig.calls.max_wait.as_secs_f64(), "Seconds to wait before the answer is a job_id.")
}

/// What makes a repeated call harmless.
pub(crate) fn command_id() -> Value {
    text(64, "Your own id for this command: sent again, it does nothing twice.")
}

/// The ranges of all axes in words, in each axis's own unit: `scope.x 0 to 75 mm, …`; of many axes the first.
pub(crate) fn ranges(rig: &Rig) -> String {
    const SHOWN: usize = 8;
    let axes: Vec<_> = rig.stages.iter().flat_map(|s| &s.axes).collect();
    let shown: Vec<String> = axes
        .iter()
        .take(SHOWN)
        .map(|a| {
            let (low, high) = (a.travel.low.to(a.unit), a.travel.high.to(a.unit));
            format!("{} {} to {} {}", a.id, plain(low), plain(high), a.unit)
        })
        .collect();
    let more = if axes.len() > SHOWN { ", more in describe_rig" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// The common keys of a result; `moves`: of a tool that can move something.
pub(crate) fn result(moves: bool) -> Object {
    let plain = Object::open().must("status", json!({ "type": "string" })).may("rig", json!({ "type": "string" }));
    let moved = json!({ "type": "string", "enum": ["no", "yes", "unknown"] });
    if moves {
        plain.must("moved", moved).must("state_epoch", json!({ "type": "integer" }))
    } else {
        plain.may("moved", moved)
    }
}
