//! Arguments: brought to one form, checked against the tool's schema, read as typed values.
//!
//! What becomes what before the schema is applied:
//! - a missing `arguments` is `{}`;
//! - an explicit null for an optional argument that isn't a number is as if it were absent, because clients
//!   send null for what their model left out;
//! - null for a number is refused. JSON has no NaN, so a workflow's NaN arrives as null, and "keep the present
//!   value" would move something that nobody asked for. The exceptions are [`HOUSEKEEPING`] numbers, which
//!   shape the call and nothing else: for those, null is absent;
//! - `stage.axis` becomes the short name of an axis of the named stage;
//! - a whole float is a good integer;
//! - `µm` is `um`.
//!
//! A number in quotes is refused, and the answer says so: guessing would have to decide about `1,5` and `0x10`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::answer::ToolError;
use super::schema::Schema;
use super::valid;
use crate::config::{Rig, Stage};
use crate::model::{Code, Name, is_unfit_to_show};
use crate::units::Unit;

/// Numbers that shape the call and touch no hardware.
const HOUSEKEEPING: [&str; 3] = ["wait_s", "limit", "offset"];

/// The longest excerpt of a wrong value in an answer.
const EXCERPT: usize = 60;

/// The arguments of one call, checked.
#[derive(Debug, Clone)]
pub(crate) struct Args {
    values: Map<String, Value>,
}

impl Args {
    /// Checks what the client sent.
    ///
    /// # Errors
    /// `invalid_argument` with every problem: the argument, what was given, what is allowed.
    pub(crate) fn check(
        given: Option<Map<String, Value>>,
        schema: &Schema,
        rig: Option<&Rig>,
    ) -> Result<Args, ToolError> {
        let mut values = given.unwrap_or_default();
        let mut problems = nulls(&mut values, schema);
        if let Some(rig) = rig {
            problems.extend(short_axis_names(&mut values, rig));
        }
        whole_numbers(&mut values, schema);
        unit_names(&mut values);
        problems.extend(valid::problems(&values, schema));
        problems.dedup();
        if problems.is_empty() {
            return Ok(Args { values });
        }
        const SHOWN: usize = 6;
        let more = problems.len().saturating_sub(SHOWN);
        problems.truncate(SHOWN);
        // The caller's own words are in there, keys too.
        let shown = |c: char| if is_unfit_to_show(c) { '?' } else { c };
        let mut what: String = problems.join(" ").chars().map(shown).collect();
        if more > 0 {
            what.push_str(&format!(" And {more} more."));
        }
        Err(ToolError::new(Code::InvalidArgument, what))
    }

    /// A text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str()
    }

    /// A number; the schema and [`nulls`] have seen that it is one.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.values.get(name)?.as_f64().filter(|v| v.is_finite())
    }

    /// A number that must be there.
    pub(crate) fn must_number(&self, name: &str) -> Result<f64, ToolError> {
        self.number(name).ok_or_else(|| missing(name, "a finite number is needed"))
    }

    /// A whole number.
    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.as_u64()
    }

    /// True or false.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.values.get(name)?.as_bool()
    }

    /// The numbers of an object of axes.
    pub(crate) fn axes(&self, name: &str) -> Option<Vec<(&str, f64)>> {
        let object = self.values.get(name)?.as_object()?;
        object.iter().map(|(k, v)| Some((k.as_str(), v.as_f64().filter(|v| v.is_finite())?))).collect()
    }

    /// A list of texts.
    pub(crate) fn texts(&self, name: &str) -> Option<Vec<&str>> {
        self.values.get(name)?.as_array()?.iter().map(Value::as_str).collect()
    }

    /// A list of numbers.
    pub(crate) fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        self.values.get(name)?.as_array()?.iter().map(|v| v.as_f64().filter(|v| v.is_finite())).collect()
    }

    /// The argument `unit`, which motion needs.
    pub(crate) fn unit(&self) -> Result<Unit, ToolError> {
        self.text("unit").and_then(Unit::parse).ok_or_else(|| missing("unit", "motion needs the unit of its numbers"))
    }

    /// The stage that is meant: the named one, or the only one.
    pub(crate) fn stage<'r>(&self, rig: &'r Rig) -> Result<&'r Stage, ToolError> {
        match (self.text("stage"), rig.stages.as_slice()) {
            (Some(name), _) => rig.stage(name).ok_or_else(|| {
                ToolError::new(Code::NotFound, format!("This rig has no stage {:?}; {}.", cut(name), stages(rig)))
            }),
            (None, [only]) => Ok(only),
            (None, _) => Err(missing("stage", &format!("the rig has several; {}", stages(rig)))),
        }
    }

    /// How long the caller lets us wait, or `standard`.
    pub(crate) fn wait(&self, standard: Duration) -> Duration {
        self.number("wait_s").and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or(standard)
    }

    /// What tells this command from others, for `command_id`: the hash of the tool and of all arguments but those that
    /// don't change it. It doesn't depend on their order.
    pub(crate) fn fingerprint(&self, tool: &str) -> String {
        let kept = self.values.iter().filter(|(name, _)| !["command_id", "wait_s", "preview"].contains(&name.as_str()));
        let sorted: std::collections::BTreeMap<&String, &Value> = kept.collect();
        crate::store::sha256(format!("{tool} {}", serde_json::json!(sorted)).as_bytes())
    }

    /// All of them.
    pub(crate) fn as_json(&self) -> Value {
        Value::Object(self.values.clone())
    }
}

/// `invalid_argument` for something that isn't there.
pub(crate) fn missing(name: &str, why: &str) -> ToolError {
    ToolError::new(Code::InvalidArgument, format!("{name} is missing: {why}."))
}

/// `invalid_argument` for something that can't be meant.
pub(crate) fn wrong(name: &str, why: &str) -> ToolError {
    ToolError::new(Code::InvalidArgument, format!("{name}: {why}."))
}

fn stages(rig: &Rig) -> String {
    format!("name one of {}", rig.stages.iter().map(|s| s.id.as_str()).collect::<Vec<_>>().join(", "))
}

/// Takes out the nulls that mean "absent", and names those that may be a NaN.
fn nulls(values: &mut Map<String, Value>, schema: &Schema) -> Vec<String> {
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|r| r.iter().any(|n| n.as_str() == Some(name)))
    };
    let mut problems = Vec::new();
    values.retain(|name, value| {
        let kind = schema["properties"].get(name.as_str()).and_then(|p| p.get("type")).and_then(Value::as_str);
        let numeric = matches!(kind, Some("number" | "integer"));
        let absent = value.is_null() && kind.is_some() && !required(name);
        if absent && numeric && !HOUSEKEEPING.contains(&name.as_str()) {
            problems.push(format!("{name} is null (a NaN arrives as null); give a finite number or leave it out."));
        }
        !absent
    });
    problems
}

/// Brings `stage.axis` to the axis's short name, in objects of axes and in lists of axes.
fn short_axis_names(values: &mut Map<String, Value>, rig: &Rig) -> Vec<String> {
    let mut problems = Vec::new();
    let mut named = values.get("stage").and_then(Value::as_str).map(str::to_owned);
    if named.is_none()
        && let [only] = rig.stages.as_slice()
    {
        named = Some(only.id.to_string());
    }
    let mut short = |long: &str| -> Option<String> {
        let (stage, axis) = long.split_once('.')?;
        rig.stage(stage)?;
        match &named {
            Some(n) if n != stage => {
                problems.push(format!(
                    "{} is an axis of another stage than {}; one call moves one stage.",
                    cut(long),
                    cut(n)
                ));
                None
            }
            _ => {
                named = Some(stage.to_owned());
                Some(axis.to_owned())
            }
        }
    };
    for name in ["targets", "offsets"] {
        let Some(Value::Object(axes)) = values.get_mut(name) else { continue };
        let mut renamed = Map::new();
        for (axis, value) in std::mem::take(axes) {
            let key = short(&axis).unwrap_or_else(|| axis.clone());
            if renamed.insert(key.clone(), value).is_some() {
                // Named twice, the short and the long way: the schema refuses the long one.
                renamed.insert(axis, Value::Null);
            }
        }
        *axes = renamed;
    }
    if let Some(Value::Array(axes)) = values.get_mut("axes") {
        for axis in axes {
            if let Some(key) = axis.as_str().and_then(&mut short) {
                *axis = key.into();
            }
        }
    }
    let (stage, named) = (values.contains_key("stage"), named);
    if !stage
        && let Some(name) = named
        && ["targets", "offsets", "axes"].iter().any(|k| values.contains_key(*k))
    {
        values.insert("stage".into(), name.into());
    }
    problems
}

/// Writes a unit by its own name: `µm`, in either spelling, is `um`.
fn unit_names(values: &mut Map<String, Value>) {
    if let Some(unit) = values.get("unit").and_then(Value::as_str).and_then(Unit::parse) {
        values.insert("unit".into(), unit.name().into());
    }
}

/// Writes `128.0` as `128` where a whole number is meant.
fn whole_numbers(values: &mut Map<String, Value>, schema: &Schema) {
    let wants_integer = |p: &Value| p.get("type").and_then(Value::as_str) == Some("integer");
    for (name, value) in values {
        let Some(property) = schema["properties"].get(name.as_str()) else { continue };
        if wants_integer(property) {
            whole(value);
        } else if property.get("items").is_some_and(wants_integer)
            && let Value::Array(items) = value
        {
            items.iter_mut().for_each(whole);
        }
    }
}

fn whole(value: &mut Value) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if let Some(v) = value.as_f64().filter(|v| value.is_f64() && v.fract() == 0.0 && v.abs() <= EXACT) {
        *value = if v < 0.0 { Value::from(v as i64) } else { Value::from(v as u64) };
    }
}

/// The text, bounded, without control characters.
pub(crate) fn cut(text: &str) -> String {
    let mut out: String = text.chars().take(EXCERPT).map(|c| if is_unfit_to_show(c) { '?' } else { c }).collect();
    if text.chars().nth(EXCERPT).is_some() {
        out.push('…');
    }
    out
}

/// A name that the caller invents.
///
/// # Errors
/// `invalid_argument` for one that isn't `[a-z0-9_-]`, 1 to 32 characters.
pub(crate) fn new_name(args: &Args, argument: &str) -> Result<Name, ToolError> {
    let given = args.text(argument).ok_or_else(|| missing(argument, "a name is needed"))?;
    if Name::is_valid(given) {
        return Ok(Name::new(given));
    }
    let why = format!("{:?} isn't a name; use a-z, 0-9, _ and -, at most {} characters", cut(given), Name::MAX);
    Err(wrong(argument, &why))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::schema::{Object, choice, flag, integer_in, list, number, number_in, per_axis, text};
    use super::super::testing;
    use super::*;

    fn schema() -> Schema {
        let rig = testing::rig();
        Object::new()
            .may("stage", choice(["scope"], "Stage."))
            .must("targets", per_axis(&rig, "Where to."))
            .must("unit", choice(["um", "mm"], "Unit."))
            .may("wait_s", number_in(0.0, 600.0, "Wait."))
            .may("exposure_ms", number("Exposure."))
            .may("roi", list(json!({ "type": "integer" }), 4, 4, "ROI."))
            .may("count", integer_in(0, 9, "Count."))
            .may("label", text(8, "Label."))
            .may("axes", list(json!({ "type": "string" }), 0, 3, "Axes."))
            .may("preview", flag("Preview."))
            .build()
    }

    fn check(given: Value) -> Result<Args, String> {
        let schema = schema();
        let rig = testing::rig();
        Args::check(given.as_object().cloned(), &schema, Some(&rig)).map_err(|e| {
            assert_eq!(e.error.code, Code::InvalidArgument);
            e.error.what
        })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut given = json!({ "targets": { "x": 1.5 }, "unit": "mm" });
        given[name] = value;
        given
    }

    #[test]
    fn e15_numbers_in_quotes_and_what_is_no_number_are_refused_by_name() {
        for bad in ["30", "1,5", "0x10", "1e3mm", "", "NaN", "inf"] {
            let what = check(with("exposure_ms", bad.into())).unwrap_err();
            assert!(what.contains("exposure_ms is the text") && what.contains("without quotes"), "{what}");
        }
        for bad in [json!(true), json!([1]), json!({ "x": 1 })] {
            let what = check(with("exposure_ms", bad)).unwrap_err();
            assert!(what.starts_with("exposure_ms is ") && what.contains("must be a number"), "{what}");
        }
    }

    #[test]
    fn null_for_a_number_may_be_a_nan_and_is_never_taken_for_keep() {
        let what = check(with("exposure_ms", Value::Null)).unwrap_err();
        assert!(what.contains("exposure_ms is null (a NaN arrives as null)"), "{what}");
        let what = check(with("targets", json!({ "x": null }))).unwrap_err();
        assert!(what.contains("targets.x is null") && what.contains("NaN"), "{what}");
    }

    #[test]
    fn e16_null_for_what_may_be_left_out_is_as_if_it_were() {
        for name in ["stage", "wait_s", "label", "axes", "preview", "roi"] {
            let args = check(with(name, Value::Null)).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(name == "stage" || !args.values.contains_key(name));
        }
    }

    #[test]
    fn whole_floats_are_good_integers_and_others_are_not() {
        let args = check(with("roi", json!([0.0, 8, 128.0, 64]))).unwrap();
        assert_eq!(args.values["roi"], json!([0, 8, 128, 64]));
        assert_eq!(check(with("count", json!(3.0))).unwrap().integer("count"), Some(3));
        assert!(check(with("count", json!(3.5))).unwrap_err().contains("count is 3.5; it must be an integer"));
        assert!(check(with("count", json!(-1.0))).unwrap_err().contains("the least is 0"));
    }

    #[test]
    fn micrometres_may_be_written_with_either_mu() {
        for mu in ["µm", "μm", "um"] {
            assert_eq!(check(with("unit", mu.into())).unwrap().unit().unwrap(), Unit::Um);
        }
    }

    #[test]
    fn what_is_missing_is_asked_for_with_the_names_there_are() {
        let mut rig = testing::rig();
        let mut other = rig.stages[0].clone();
        other.id = Name::new("stand");
        rig.stages.push(other);
        for (spec, missing) in [
            ("home", "stage is missing: the rig has several; name one of scope, stand."),
            ("save_position", "stage is missing: the rig has several; name one of scope, stand."),
            ("clear_fault", "device is missing: name one of scope, stand, cam, lamp, shutter, filter."),
            ("check_move", "unit is missing: name one of nm, um, mm."),
        ] {
            let schema = (super::super::registry::find(spec).unwrap().input)(&rig);
            let what = Args::check(None, &schema, Some(&rig)).unwrap_err().error.what;
            assert!(what.contains(missing), "{spec}: {what}");
        }
    }

    #[test]
    fn each_name_has_quotes_of_its_own() {
        let mut given = with("foo", 1.into());
        given["bar"] = 2.into();
        let what = check(given).unwrap_err();
        assert!(
            what.contains("there is no \"bar\", \"foo\"; ") || what.contains("there is no \"foo\", \"bar\"; "),
            "{what}"
        );
    }

    #[test]
    fn axes_may_be_written_short_or_long() {
        let args = check(json!({ "targets": { "scope.x": 1.5, "y": 2 }, "unit": "mm" })).unwrap();
        assert_eq!(args.axes("targets").unwrap(), [("x", 1.5), ("y", 2.0)]);
        assert_eq!(args.text("stage"), Some("scope"));
        assert_eq!(check(with("axes", json!(["scope.z"]))).unwrap().texts("axes").unwrap(), ["z"]);
        let what = check(json!({ "targets": { "scope.x": 1, "x": 2 }, "unit": "mm" })).unwrap_err();
        assert!(what.contains("targets"), "{what}");
        let what = check(json!({ "targets": { "stand.x": 1 }, "unit": "mm" })).unwrap_err();
        assert!(what.contains("there is no \"stand.x\"; allowed: x, y, z"), "{what}");
    }

    #[test]
    fn hole_08_extra_words_reach_nobody() {
        let what = check(with("unit", "mm Y999\nM3 S1000".into())).unwrap_err();
        assert!(what.contains("allowed: um, mm") && !what.contains('\n'), "{what}");
        let what = check(with("gcode", "G0 X10".into())).unwrap_err();
        assert!(what.contains("there is no \"gcode\"; allowed: ") && what.contains("targets"), "{what}");
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let what = check(json!({ "targets": {}, "wait_s": -1, "label": "far too long" })).unwrap_err();
        for part in ["the least is 0", "more than 8 characters", "unit is missing"] {
            assert!(what.contains(part), "{part}: {what}");
        }
        assert!(check(with("wait_s", json!(1e9))).unwrap_err().contains("wait_s is 1000000000.0; the most is 600"));
    }
}
