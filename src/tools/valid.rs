//! Whether arguments are what their schema says, in words that a model can act on.
//!
//! It knows the vocabulary of `schema` and no more: one flat object of plain types, with an object of numbers or a list
//! inside. A general validator is many times the size of all of it (decision 17); a test holds the two against each
//! other on random arguments for every tool, and another sees that no schema says what is not looked at here.

use serde_json::{Map, Value};

use super::args::cut;
use super::schema::Schema;
use super::words;

/// Every problem of the arguments: what is wrong, what was given, what is allowed.
pub(crate) fn problems(given: &Map<String, Value>, schema: &Schema) -> Vec<String> {
    let mut found = Vec::new();
    object("", given, schema, &mut found);
    found
}

/// An object: what must be there is, and nothing else is but what may be.
fn object(name: &str, given: &Map<String, Value>, schema: &Schema, found: &mut Vec<String>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = |key: &str| properties.and_then(|p| p.get(key)).and_then(Value::as_object);
    for (key, value) in given {
        if let Some(property) = known(key) {
            let path = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            property_of(&path, value, property, found);
        }
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        let unknown: Vec<String> =
            given.keys().filter(|k| known(k).is_none()).map(|k| format!("{:?}", cut(k))).collect();
        if !unknown.is_empty() {
            let allowed: Vec<&str> = properties.into_iter().flat_map(|p| p.keys().map(String::as_str)).collect();
            let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            let here = if name.is_empty() { "The arguments" } else { name };
            found.push(format!("{here}: there is no {}; allowed: {allowed}.", unknown.join(", ")));
        }
    }
    let required = schema.get("required").and_then(Value::as_array);
    for key in required.into_iter().flatten().filter_map(Value::as_str).filter(|k| !given.contains_key(*k)) {
        found.push(absent(key, known(key)));
    }
}

/// One value.
fn property_of(name: &str, given: &Value, schema: &Schema, found: &mut Vec<String>) {
    let wanted = schema.get("type").and_then(Value::as_str).unwrap_or("nothing");
    let fits = match wanted {
        "object" => given.is_object(),
        "array" => given.is_array(),
        "string" => given.is_string(),
        "boolean" => given.is_boolean(),
        "number" => given.is_number(),
        "integer" => given.as_f64().is_some_and(|v| v.fract() == 0.0),
        // No schema says this.
        _ => false,
    };
    if !fits {
        found.push(of_another_type(name, given, wanted));
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array)
        && !options.contains(given)
    {
        let options: Vec<&str> = options.iter().filter_map(Value::as_str).collect();
        let given = shown(given);
        let given = given.trim_start_matches("the text ");
        found.push(format!("{name} is {given}; allowed: {}.", options.join(", ")));
    }
    let limit = |key: &str| schema.get(key).filter(|l| l.is_number());
    let count = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    match given {
        Value::Number(number) => {
            // No JSON number is none; should one ever be, it is outside of everything.
            let within = |low: f64, high: f64| number.as_f64().is_some_and(|v| low <= v && v <= high);
            let bound = |key: &str| limit(key).and_then(|l| Some((l, l.as_f64()?)));
            if let Some((limit, _)) = bound("minimum").filter(|(_, low)| !within(*low, f64::INFINITY)) {
                found.push(format!("{name} is {}; the least is {limit}.", shown(given)));
            }
            if let Some((limit, _)) = bound("maximum").filter(|(_, high)| !within(f64::NEG_INFINITY, *high)) {
                found.push(format!("{name} is {}; the most is {limit}.", shown(given)));
            }
        }
        Value::String(text) => {
            if let Some(most) = count("maxLength").filter(|most| text.chars().count() > *most) {
                found.push(format!("{name} has more than {most} characters."));
            }
        }
        Value::Array(items) => {
            if let Some(least) = count("minItems").filter(|least| items.len() < *least) {
                found.push(format!("{name} has fewer than {least} entries."));
            }
            if let Some(most) = count("maxItems").filter(|most| items.len() > *most) {
                found.push(format!("{name} has more than {most} entries."));
            } else if let Some(of) = schema.get("items").and_then(Value::as_object) {
                for (i, item) in items.iter().enumerate() {
                    property_of(&format!("{name}.{i}"), item, of, found);
                }
            }
        }
        Value::Object(fields) => object(name, fields, schema, found),
        Value::Null | Value::Bool(_) => {}
    }
}

/// What must be there and is not, with the choice there is.
fn absent(name: &str, about: Option<&Schema>) -> String {
    let options = about.and_then(|p| p.get("enum")).and_then(Value::as_array);
    let options: Vec<&str> = options.into_iter().flatten().filter_map(Value::as_str).collect();
    let about = about.and_then(|p| p.get("description")).and_then(Value::as_str);
    match (name, options.as_slice()) {
        (_, []) => format!("{name} is missing: {}", words::sentence(about.unwrap_or("it is needed"))),
        ("stage" | "camera", some) => {
            format!("{name} is missing: the rig has several; name one of {}.", some.join(", "))
        }
        (_, some) => format!("{name} is missing: name one of {}.", some.join(", ")),
    }
}

fn of_another_type(name: &str, given: &Value, wanted: &str) -> String {
    let number = matches!(wanted, "number" | "integer");
    let hint = match given {
        Value::Null if number => " (a NaN arrives as null)",
        Value::String(_) if number => ", without quotes",
        _ => "",
    };
    let article = if wanted.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{name} is {}; it must be {article} {wanted}{hint}.", shown(given))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "a list".into(),
        Value::String(s) => format!("the text {:?}", cut(s)),
        other => cut(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{registry, testing};
    use super::*;

    thread_local! {
        /// All tools of a rig with everything, each with the general validator of its schema.
        static TOOLS: Vec<(&'static str, Schema, jsonschema::Validator)> = registry::build(Some(&testing::rig()))
            .iter()
            .map(|t| {
                let schema = (*t.input).clone();
                let validator = jsonschema::validator_for(&Value::Object(schema.clone())).unwrap();
                (t.spec.name, schema, validator)
            })
            .collect();
        static SEEN: RefCell<BTreeSet<(&'static str, bool)>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Values of every kind, many of them at the edge of what schemas ask for.
    fn value() -> impl Strategy<Value = Value> {
        let texts = prop_oneof!["[a-z]{0,9}", "\\PC{0,70}", Just("scope".to_owned()), Just("mm".to_owned())];
        let numbers = prop_oneof![
            (-3i64..1100).prop_map(Value::from),
            (-1e9..1e9f64).prop_map(Value::from),
            (-8i64..8).prop_map(|v| json!(v as f64 / 2.0)),
        ];
        let leaf = prop_oneof![
            4 => numbers,
            3 => texts.prop_map(Value::from),
            1 => any::<bool>().prop_map(Value::from),
            1 => Just(Value::Null),
        ];
        leaf.prop_recursive(2, 12, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[xyzq]", inner), 0..4).prop_map(|v| Value::Object(v.into_iter().collect())),
            ]
        })
    }

    /// A value that the property takes, more often than not.
    fn near(property: &Value, wild: &Value, pick: usize) -> Value {
        let options = property.get("enum").and_then(Value::as_array).filter(|o| !o.is_empty());
        match (property["type"].as_str(), options) {
            _ if pick.is_multiple_of(5) => wild.clone(),
            (_, Some(options)) => options[pick % options.len()].clone(),
            (Some("object"), _) => json!({ "x": pick as f64 / 4.0 }),
            (Some("array"), _) => {
                let items = if property["items"]["type"] == "string" { json!("x") } else { json!(pick % 7) };
                Value::from(vec![items; pick % 6])
            }
            (Some("string"), _) => "a".repeat(pick % 80).into(),
            (Some("boolean"), _) => pick.is_multiple_of(2).into(),
            _ => json!(pick as f64 / 2.0),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn it_says_what_a_general_validator_says(
            picks in prop::collection::vec((0usize..2000, value(), any::<prop::sample::Index>()), 0..6),
            extra in prop::option::weighted(0.2, ("[a-z]{1,6}", value())),
        ) {
            TOOLS.with(|tools| {
                for (name, schema, general) in tools {
                    let properties = schema["properties"].as_object().unwrap();
                    let mut given: Map<String, Value> = extra.iter().cloned().collect();
                    for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                        let key = key.as_str().unwrap();
                        let (pick, wild) = picks.first().map_or((1, Value::Null), |(p, w, _)| (p | 1, w.clone()));
                        given.insert(key.to_owned(), near(&properties[key], &wild, pick));
                    }
                    for (pick, wild, which) in &picks {
                        if !properties.is_empty() {
                            let (key, property) = properties.iter().nth(which.index(properties.len())).unwrap();
                            given.insert(key.clone(), near(property, wild, *pick));
                        }
                    }
                    let ours = problems(&given, schema);
                    let theirs = general.is_valid(&Value::Object(given.clone()));
                    assert_eq!(ours.is_empty(), theirs, "{name}: {given:?}: {ours:?}");
                    SEEN.with(|seen| seen.borrow_mut().insert((name, theirs)));
                }
            });
        }
    }

    #[test]
    fn both_answers_are_reached_for_every_tool_that_takes_anything() {
        it_says_what_a_general_validator_says();
        TOOLS.with(|tools| {
            for (name, schema, _) in tools {
                let takes_any = !schema["properties"].as_object().unwrap().is_empty();
                let reached = |answer| SEEN.with(|seen| seen.borrow().contains(&(*name, answer)));
                assert!(reached(true) && (reached(false) || !takes_any), "{name}");
            }
        });
    }

    #[test]
    fn no_schema_of_arguments_says_what_is_not_looked_at() {
        fn look(name: &str, schema: &Schema) {
            let known = [
                "type",
                "description",
                "properties",
                "required",
                "additionalProperties",
                "enum",
                "minimum",
                "maximum",
                "maxLength",
                "items",
                "minItems",
                "maxItems",
            ];
            for key in schema.keys() {
                assert!(known.contains(&key.as_str()), "{name}: {key}");
            }
            let inner = schema.get("properties").and_then(Value::as_object);
            for (key, property) in inner.into_iter().flatten().chain(schema.get_key_value("items")) {
                let property = property.as_object().unwrap_or_else(|| panic!("{name}.{key}"));
                assert!(property["type"].is_string(), "{name}.{key}");
                look(&format!("{name}.{key}"), property);
            }
        }
        TOOLS.with(|tools| tools.iter().for_each(|(name, schema, _)| look(name, schema)));
    }
}
