//! Rules that hold for the list of tools as a whole.

use serde_json::{Value, json};

use super::readiness::hitches;
use super::registry::{self, Built, TABLE};
use super::{describe, state, testing};
use crate::access::Policy;
use crate::config::Rig;
use crate::model::{AxisId, Name, Snapshot, Trust};

fn demo() -> Vec<Built> {
    registry::build(Some(&testing::rig()))
}

/// A rig with two stages and two cameras, and without `[eaa]`.
fn double() -> Rig {
    let mut rig = testing::rig();
    let mut other = rig.stages[0].clone();
    other.id = Name::new("stand");
    for axis in &mut other.axes {
        axis.id = AxisId::new("stand", axis.id.axis.as_str());
    }
    rig.stages.push(other);
    let mut side = rig.cameras[0].clone();
    side.id = Name::new("side");
    rig.cameras.push(side);
    rig.eaa = None;
    rig
}

fn walk(value: &Value, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(m) => m.iter().for_each(|(k, v)| {
            see(k, v);
            walk(v, see);
        }),
        Value::Array(a) => a.iter().for_each(|v| walk(v, see)),
        _ => {}
    }
}

const PYTHON_KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

fn is_python_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !PYTHON_KEYWORDS.contains(&name)
}

#[test]
fn x19_every_schema_is_a_flat_object_without_combinators_or_null() {
    for tool in demo().iter().chain(&registry::build(Some(&double()))) {
        let name = tool.spec.name;
        let input = Value::Object((*tool.input).clone());
        let output = Value::Object((**tool.tool.output_schema.as_ref().unwrap()).clone());
        for schema in [&input, &output] {
            assert_eq!(schema["type"], "object", "{name}");
            assert!(schema["properties"].is_object(), "{name}");
            walk(schema, &mut |key, value| {
                let banned =
                    ["$ref", "$defs", "$schema", "anyOf", "oneOf", "allOf", "not", "const", "format", "nullable"];
                assert!(!banned.contains(&key) || (key == "format" && value.is_object()), "{name}: {key}");
                assert!(key != "type" || value.is_string() || value.is_object(), "{name}: a list of types");
            });
        }
        assert_eq!(input["additionalProperties"], false, "{name}");
        assert!(jsonschema::meta::is_valid(&input) && jsonschema::meta::is_valid(&output), "{name}");
    }
}

#[test]
fn e16_every_argument_has_a_plain_type_a_description_and_a_python_name() {
    for tool in demo().iter().chain(&registry::build(Some(&double()))) {
        let name = tool.spec.name;
        let properties = tool.input["properties"].as_object().unwrap();
        for (argument, p) in properties {
            assert!(is_python_identifier(argument), "{name}.{argument}");
            assert!(!argument.contains("user"), "{name}.{argument}");
            assert!(p["type"].is_string(), "{name}.{argument}");
            assert!(p["description"].as_str().is_some_and(|d| d.len() > 3), "{name}.{argument}");
            for inner in p.get("properties").and_then(Value::as_object).into_iter().flat_map(|m| m.keys()) {
                assert!(is_python_identifier(inner), "{name}.{argument}.{inner}");
            }
        }
        let required = tool.input.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        assert!(required.iter().all(|r| properties.contains_key(r.as_str().unwrap())), "{name}");
    }
}

#[test]
fn names_are_short_unique_and_none_that_a_client_keeps_for_itself() {
    let taken = ["call_tool", "exposed_tools", "release_timeout", "disconnect", "connect", "name", "config", "build"];
    let mut seen = std::collections::HashSet::new();
    for spec in TABLE {
        assert!(
            spec.name.len() <= 30 && spec.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
            "{}",
            spec.name
        );
        assert!(!taken.contains(&spec.name) && seen.insert(spec.name), "{}", spec.name);
        assert!(!spec.title.is_empty() && spec.title.len() < 40);
    }
}

#[test]
fn the_list_costs_a_chat_at_most_twenty_kilobytes() {
    let cost = |tools: &[Built]| -> usize {
        tools
            .iter()
            .map(|t| {
                let shown = json!({ "name": t.tool.name, "description": t.tool.description, "inputSchema": t.tool.input_schema });
                shown.to_string().len()
            })
            .sum()
    };
    let (demo, double) = (cost(&demo()), cost(&registry::build(Some(&double()))));
    assert!(demo <= 20_000, "{demo} bytes");
    assert!(double <= 20_000, "{double} bytes");
}

#[test]
fn e02_no_result_has_a_key_result_beside_others() {
    for tool in demo() {
        let output = tool.tool.output_schema.as_ref().unwrap();
        let properties = output["properties"].as_object().unwrap();
        for banned in ["result", "messages", "image_path", "image_paths"] {
            assert!(!properties.contains_key(banned), "{}: {banned}", tool.spec.name);
        }
    }
}

#[test]
fn what_can_move_must_say_what_moved() {
    for tool in demo() {
        let output = tool.tool.output_schema.as_ref().unwrap();
        let required: Vec<&str> =
            output.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let bare = ["get_attribute_payload", "get_parameters"].contains(&tool.spec.name);
        assert_eq!(required.contains(&"status"), !bare, "{}", tool.spec.name);
        let moves = tool.spec.hints.destructive || tool.spec.name == "stop";
        assert_eq!(required.contains(&"moved") && required.contains(&"state_epoch"), moves, "{}", tool.spec.name);
    }
}

#[test]
fn annotations_are_all_four_and_a_reader_is_never_destructive() {
    for tool in demo() {
        let a = serde_json::to_value(tool.tool.annotations.as_ref().unwrap()).unwrap();
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(a[hint].is_boolean(), "{}: {hint}", tool.spec.name);
        }
        let h = tool.spec.hints;
        assert!(!(h.read_only && h.destructive), "{}", tool.spec.name);
    }
}

#[test]
fn siblings_that_are_easily_confused_name_each_other() {
    let text = |name: &str| registry::find(name).unwrap().description;
    for (a, b) in [
        ("move_to", "move_by"),
        ("get_state", "diagnose"),
        ("stop", "cancel_job"),
        ("set_camera", "set_parameters"),
        ("set_camera", "set_output"),
        ("set_output", "set_parameters"),
        ("list_images", "list_events"),
    ] {
        assert!(text(a).contains(b) && text(b).contains(a), "{a} and {b}");
    }
}

#[test]
fn read_only_lists_what_reads_and_stop() {
    let policy = Policy { read_only: true };
    let listed: Vec<&str> = TABLE.iter().filter(|s| s.granted(policy)).map(|s| s.name).collect();
    assert!(listed.contains(&"stop") && listed.contains(&"get_state") && listed.contains(&"check_move"));
    for never in
        ["move_to", "move_by", "home", "go_back", "acquire_image", "set_camera", "set_parameters", "clear_fault"]
    {
        assert!(!listed.contains(&never), "{never}");
    }
}

#[test]
fn a_bad_rig_file_leaves_diagnose_alone() {
    let names: Vec<&str> = registry::build(None).iter().map(|t| t.spec.name).collect();
    assert_eq!(names, ["diagnose"]);
}

#[test]
fn hole_07_and_12_no_argument_widens_a_limit_or_grants_anything() {
    for tool in demo() {
        for argument in tool.input["properties"].as_object().unwrap().keys() {
            for word in ["limit_", "travel", "confirm", "force", "override", "approve", "range"] {
                assert!(!argument.contains(word), "{}.{argument}", tool.spec.name);
            }
        }
    }
}

#[test]
fn a_state_report_has_at_most_two_kilobytes_however_many_stages_there_are() {
    let (rig, state) = (testing::rig(), testing::state());
    let small = state::report(&rig, &state, state.at, None, &[], None);
    let size = |a: &super::answer::Answer| Value::Object(a.data.clone()).to_string().len();
    assert!(size(&small) <= 2048, "{}", size(&small));
    assert_eq!(small.data["truncated"], false);
    let (mut big, mut states): (Rig, Snapshot) = (rig, state);
    for n in 0..40 {
        let mut stage = big.stages[0].clone();
        stage.id = Name::new(&format!("stage{n}"));
        let mut status = states.stages[0].clone();
        status.stage = stage.id.clone();
        big.stages.push(stage);
        states.stages.push(status);
    }
    states.stages.iter_mut().for_each(|s| s.axes[0].trust = Trust::Unknown);
    let lost = hitches(&big, &states, states.at, None, None);
    let next = lost[0].next(&|_, _| true);
    let cut = state::report(&big, &states, states.at, None, &lost, next);
    let sent = cut.clone().into_result("demo-microscope", |_| true).structured_content.unwrap().to_string();
    assert!(sent.len() <= 2048, "{}", sent.len());
    assert!(cut.text.contains("and 37 more"), "{}", cut.text);
    assert_eq!((&cut.data["truncated"], &cut.data["total_stages"]), (&json!(true), &json!(41)));
    assert!(cut.text.contains("41 stages"), "{}", cut.text);
    let many: Vec<_> = (0..60).map(|_| states.outputs[0].clone()).collect();
    states.outputs = many;
    let cut = state::report(&big, &states, states.at, None, &[], None);
    assert!(size(&cut) <= 2048 && cut.data["total_outputs"] == 60, "{}", size(&cut));
    let one = state::report(&big, &states, states.at, Some("stage39"), &[], None);
    assert_eq!(one.data["stages"][0]["stage"], "stage39");
}

#[test]
fn the_manifest_tells_limits_directions_and_the_owners_reasons() {
    let answer = describe::manifest(&testing::rig());
    for part in
        ["0 to 75 mm", "smaller is toward the sample", "without power it sinks", "condenser's mount", "widen a limit"]
    {
        assert!(answer.text.contains(part), "{part}: {}", answer.text);
    }
    let axes = answer.data["stages"][0]["axes"].as_array().unwrap();
    assert_eq!((axes.len(), &axes[2]["travel"]), (3, &json!([0, 4000])));
    assert!(answer.data["stages"][0]["evidence"].is_string());
}
