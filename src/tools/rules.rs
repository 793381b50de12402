//! The rig file's rules and budgets, in words and as objects.

use serde_json::{Map, Value, json};

use super::describe::{because, insert_why};
use super::words::number;
use crate::config::{Budget, Rig, Rule, Then, When};
use crate::model::{AxisId, Snapshot};
use crate::units::{Distance, plain};

/// One rule in words.
pub(crate) fn rule_words(rule: &Rule) -> String {
    let acts = match rule.then {
        Then::Stop => "stops what moves",
        Then::SafeOutputs => "makes the outputs safe",
    };
    let when = match (rule.when, rule.ask) {
        (When::Gate, false) => "before anything begins".to_owned(),
        (When::Gate, true) => "before anything begins, else a person is asked".to_owned(),
        (When::Watch, _) => format!("at all times, else it {acts}"),
        (When::Both, _) => format!("before anything begins and at all times, else it {acts}"),
    };
    format!("Rule \"{}\" must hold {when}: {}{}.", rule.name, condition(rule), because(rule.why.as_deref()))
}

/// The condition on one line.
fn condition(rule: &Rule) -> String {
    rule.require.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn rule_json(rule: &Rule) -> Value {
    let when = match rule.when {
        When::Gate => "gate",
        When::Watch => "watch",
        When::Both => "both",
    };
    let mut m = Map::from_iter([
        ("name".to_owned(), json!(rule.name)),
        ("when".to_owned(), json!(when)),
        ("require".to_owned(), json!(condition(rule))),
    ]);
    if rule.when.is_watch() {
        let then = if rule.then == Then::Stop { "stop" } else { "safe_outputs" };
        m.insert("then".into(), json!(then));
    }
    if rule.ask {
        m.insert("ask".into(), json!("operator"));
    }
    insert_why(&mut m, rule.why.as_deref());
    Value::Object(m)
}

/// The budget in words, if there is one.
pub(crate) fn budget_words(rig: &Rig) -> Option<String> {
    let Budget { max_step, moves_per_minute, travel_per_hour, light_dose, min_free, why } = &rig.budget;
    let ways = |all: &[(AxisId, Distance)], each: &str| -> Vec<String> {
        let one = |(id, way): &(AxisId, Distance)| {
            let unit = rig.axis(id)?.unit;
            Some(format!("{id} at most {} {unit} {each}", plain(way.to(unit))))
        };
        all.iter().filter_map(one).collect()
    };
    let mut all = ways(max_step, "a move");
    all.extend(ways(travel_per_hour, "an hour"));
    all.extend(moves_per_minute.map(|n| format!("at most {n} moves a minute")));
    all.extend(light_dose.iter().map(|(light, dose)| format!("{light} at most {} %·s an hour", plain(*dose))));
    all.extend(min_free.map(|bytes| format!("{} MB stay free on the disk", bytes / 1_000_000)));
    (!all.is_empty()).then(|| format!("Budget: {}{}.", all.join(", "), because(why.as_deref())))
}

pub(crate) fn budget_json(rig: &Rig) -> Option<Value> {
    let budget = &rig.budget;
    if *budget == Budget::default() {
        return None;
    }
    let ways = |all: &[(AxisId, Distance)]| {
        let one = |(id, way): &(AxisId, Distance)| {
            let unit = rig.axis(id)?.unit;
            Some((id.to_string(), json!({ "most": number(Some(way.to(unit))), "unit": unit.name() })))
        };
        Value::Object(all.iter().filter_map(one).collect())
    };
    let mut m = Map::from_iter([("max_step".to_owned(), ways(&budget.max_step))]);
    if !budget.travel_per_hour.is_empty() {
        m.insert("travel_per_hour".into(), ways(&budget.travel_per_hour));
    }
    if !budget.light_dose.is_empty() {
        let doses =
            budget.light_dose.iter().map(|(light, most)| (light.to_string(), json!({ "most_percent_s": most })));
        m.insert("light_dose".into(), Value::Object(doses.collect()));
    }
    if let Some(bytes) = budget.min_free {
        m.insert("min_free_mb".into(), json!(bytes / 1_000_000));
    }
    if let Some(n) = budget.moves_per_minute {
        m.insert("moves_per_minute".into(), json!(n));
    }
    insert_why(&mut m, budget.why.as_deref());
    Some(Value::Object(m))
}

/// The watches that don't hold, as lines of a state report: the first few of them.
pub(crate) fn tripped_lines(state: &Snapshot) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut lines: Vec<String> = state.tripped.iter().take(SHOWN).map(|t| format!("Rule {t}.")).collect();
    if state.tripped.len() > SHOWN {
        lines.push(format!("{} more rules don't hold.", state.tripped.len() - SHOWN));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{config, devices};

    fn rig() -> Rig {
        let text = include_str!("../../rigs/interlocks.toml");
        config::parse(text, Path::new("rig.toml"), &devices::known()).unwrap_or_else(|p| panic!("{p}"))
    }

    #[test]
    fn rules_and_budgets_are_in_the_manifest_with_the_owners_words() {
        let answer = crate::tools::describe::manifest(&rig());
        for said in [
            "Rule \"laser off while the lid is open\" must hold before anything begins and at all times, else it makes the \
             outputs safe: output.laser == 0 || sensor.lid_closed (owner: the beam is class 4).",
            "Rule \"near the sample\" must hold before anything begins, else a person is asked",
            "Budget: scope.z at most 1000 um a move, at most 120 moves a minute.",
        ] {
            assert!(answer.text.contains(said), "{said}\n{}", answer.text);
        }
        assert_eq!(answer.data["rules"][3]["ask"], "operator");
        assert_eq!(answer.data["rules"][0]["why"], "the beam is class 4");
        assert_eq!(answer.data["budget"]["max_step"]["scope.z"]["most"], 1000.0);
    }

    #[test]
    fn a_state_report_names_the_rules_that_do_not_hold() {
        let state =
            Snapshot { tripped: vec!["\"dark\" doesn't hold: output.shutter 'open'".into()], ..Snapshot::default() };
        assert_eq!(tripped_lines(&state), ["Rule \"dark\" doesn't hold: output.shutter 'open'."]);
    }
}
