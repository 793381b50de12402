//! What a run would change and how it ended, in words and as JSON. Pure.

use std::path::Path;

use serde_json::{Value, json};

use crate::devices::settings::{Change, Keeping};
use crate::flash::plan::Plan;
use crate::flash::run::{Doubt, Outcome};

/// Rows with their columns one below the other.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// What would change, and what is worth knowing about it.
pub(super) fn plan(plan: &Plan, keeping: &Keeping) -> String {
    let mut text = String::new();
    if !plan.changes.is_empty() {
        text += &changes(&plan.changes);
        text += &match keeping.endurance {
            Some(endurance) => {
                format!("\n{} of {} settings change. Memory: {endurance}.", plan.changes.len(), plan.old.iter().count())
            }
            None => format!("\n{} of {} settings change.", plan.changes.len(), plan.old.iter().count()),
        };
    }
    for (name, danger) in &plan.allowed {
        text += &format!("\nallowed ({}): {name}: {}", danger.name, danger.why);
    }
    for warning in &plan.warnings {
        text += &format!("\nnote: {warning}");
    }
    text
}

/// Changes, one below the other.
pub(super) fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "  Nothing differs any more.".into();
    }
    let head = ["setting", "now", "new", "unit", "what it is"].map(str::to_owned).to_vec();
    let row = |c: &Change| {
        let shown = |v: &str| if v.is_empty() { "(nothing)".to_owned() } else { v.to_owned() };
        vec![c.name.clone(), shown(&c.old), shown(&c.new), c.meaning.unit.clone(), c.meaning.what.clone()]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(changes.iter().map(row)).collect();
    table(&rows)
}

/// How it ended, in words.
pub(super) fn outcome(outcome: &Outcome, backup: &Path) -> String {
    let backup = backup.display();
    match outcome {
        Outcome::New { proved: true } => {
            "The controller holds the new settings; it has loaded them after a restart.".into()
        }
        Outcome::New { proved: false } => {
            "The controller holds the new settings. It was not seen to restart: whether they outlive the power is not \
             proved. Switch it off and on, and run the same command again with --restarted: it compares."
                .into()
        }
        Outcome::Old { proved, why } => {
            let proof = if *proved { "" } else { " (not proved by a restart)" };
            format!("The controller holds the OLD settings{proof}: {why}.")
        }
        Outcome::Mixed { why, settings } => {
            let head = ["setting", "old", "new", "is"].map(str::to_owned).to_vec();
            let row = |d: &Doubt| {
                vec![d.name.clone(), d.old.clone(), d.new.clone(), d.now.clone().unwrap_or_else(|| "UNKNOWN".into())]
            };
            let rows: Vec<Vec<String>> = std::iter::once(head).chain(settings.iter().map(row)).collect();
            format!(
                "The controller holds a MIX of old and new settings, as far as it could be read: {why}.\n{}\nDon't use it. When \
                 it answers again, steadyhand flash --resume finishes, and steadyhand flash --restore {backup} goes back.",
                table(&rows)
            )
        }
    }
}

fn told(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::New { proved } => json!({ "state": "new", "proved": proved }),
        Outcome::Old { proved, why } => json!({ "state": "old", "proved": proved, "why": why }),
        Outcome::Mixed { why, settings } => {
            let one = |d: &Doubt| json!({ "setting": d.name, "old": d.old, "new": d.new, "is": d.now });
            json!({ "state": "mixed", "why": why, "settings": settings.iter().map(one).collect::<Vec<_>>() })
        }
    }
}

/// A run that ended, or would have been one, as JSON.
pub(super) fn ended(plan: &Plan, backup: &Path, outcome: Option<&Outcome>) -> String {
    let change = |c: &Change| json!({ "setting": c.name, "what": c.meaning.what, "unit": c.meaning.unit, "now": c.old, "new": c.new });
    let who = &plan.who;
    json!({
        "controller": { "model": who.model, "firmware": who.firmware, "serial": who.serial, "axes": who.axes },
        "backup": backup,
        "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
        "outcome": outcome.map(told),
    })
    .to_string()
}

/// A run that went on, as JSON.
pub(super) fn resumed(outcome: &Outcome, backup: &Path) -> String {
    json!({ "backup": backup, "outcome": told(outcome) }).to_string()
}

/// A run that did not begin, as JSON.
pub(super) fn failed(error: &str) -> String {
    json!({ "error": error }).to_string()
}
