//! A profile held against a controller: what would change, in which order, and everything that speaks against it. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use super::profile::{ANY, Read, Wanted};
use crate::config::{Problems, quoted};
use crate::devices::settings::{Change, Controller, DANGERS, Danger, Keeping, Table};

/// What a run would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The controller.
    pub who: Controller,
    /// Its settings now.
    pub old: Table,
    /// Its settings afterwards.
    pub new: Table,
    /// What differs, in the order of writing.
    pub changes: Vec<Change>,
    /// What is dangerous about it and was allowed.
    pub allowed: Vec<(String, Danger)>,
    /// What is wrong with the controller's settings already, and stays so.
    pub warnings: Vec<String>,
}

/// The plan by which a controller gets the settings of a profile.
///
/// `axis` is the one for what the profile says of any axis; `allow` are the names of dangers that a person has allowed.
///
/// # Errors
/// Everything that speaks against it, with the line of the profile.
pub fn plan(
    read: &Read,
    keeping: &Keeping,
    who: &Controller,
    old: &Table,
    axis: Option<&str>,
    allow: &[String],
) -> Result<Plan, Problems> {
    let mut wrong: Vec<(Range<usize>, String, String)> = Vec::new();
    if let Err(why) = read.profile.fits(who) {
        wrong.push((
            0..0,
            format!("this profile is not for this controller: {why}"),
            "take the profile that is".into(),
        ));
        return Err(read.problems(&wrong));
    }
    let mut new = old.clone();
    let mut spans: BTreeMap<String, (Range<usize>, Option<String>)> = BTreeMap::new();
    for wanted in &read.profile.settings {
        match resolved(wanted, keeping, who, old, axis) {
            Ok((full, value, axis)) => {
                if spans.insert(full.clone(), (wanted.span.clone(), axis)).is_some() {
                    let what = format!("{full} is given twice");
                    wrong.push((wanted.span.clone(), what, "keep one of them".into()));
                }
                new.set(&full, &value);
            }
            Err((what, remedy)) => wrong.push((wanted.span.clone(), what, remedy)),
        }
    }
    let changes = old.changes(&new);
    let span = |name: &str| spans.get(name).map_or(0..0, |(span, _)| span.clone());
    for change in &changes {
        let forgotten: Vec<String> = (keeping.rescales)(&change.name)
            .into_iter()
            .filter(|name| old.get(name).is_some() && !spans.contains_key(name))
            .collect();
        if !forgotten.is_empty() {
            let what = format!(
                "the controller changes others when {} changes, and the profile doesn't say to what",
                change.name
            );
            wrong.push((span(&change.name), what, format!("give them too: {}", forgotten.join(", "))));
        }
    }
    let mut warnings = Vec::new();
    for flaw in (keeping.flaws)(&new) {
        match flaw.names.iter().find(|name| changes.iter().any(|c| c.name == **name)) {
            Some(name) => wrong.push((span(name), flaw.what, format!("change {}", flaw.names.join(" or ")))),
            None => warnings.push(flaw.what),
        }
    }
    let mut allowed = Vec::new();
    for change in &changes {
        let axis = spans.get(&change.name).and_then(|(_, axis)| axis.as_deref());
        for danger in (keeping.dangers)(change, &read.profile.motor(axis)) {
            if allow.iter().any(|name| name == danger.name) {
                allowed.push((change.name.clone(), danger));
            } else {
                let what =
                    format!("{} from {} to {} is dangerous: {}", change.name, change.old, change.new, danger.why);
                wrong.push((span(&change.name), what, format!("if it is meant, say --allow {}", danger.name)));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(Plan { who: who.clone(), old: old.clone(), new, changes, allowed, warnings });
    }
    Err(read.problems(&wrong))
}

/// The full name, the value as the controller writes it, and the axis of a setting.
///
/// # Errors
/// What is wrong, and what to do.
fn resolved(
    wanted: &Wanted,
    keeping: &Keeping,
    who: &Controller,
    table: &Table,
    axis: Option<&str>,
) -> Result<(String, String, Option<String>), (String, String)> {
    let axis = match wanted.axis.as_deref() {
        Some(ANY) => match axis {
            Some(axis) => Some(axis),
            None => return Err(("which axis is meant is not said".into(), "say it with --axis".into())),
        },
        other => other,
    };
    let theirs = |axis: &&str| who.axes.iter().find(|a| a.eq_ignore_ascii_case(axis));
    if let Some(axis) = axis
        && theirs(&axis).is_none()
    {
        return Err((
            format!("the controller has no axis {}", quoted(axis)),
            format!("it has {}", who.axes.join(", ")),
        ));
    }
    let shown = quoted(&wanted.name);
    let Some(full) = (keeping.name)(&wanted.name, axis) else {
        return Err((format!("there can be no setting {shown}"), "check its name".into()));
    };
    let Some(setting) = table.get(&full) else {
        return Err((format!("the controller has no setting {full}"), "remove it, or take another profile".into()));
    };
    let meaning = &setting.meaning;
    let value = meaning.form.written(&wanted.value).map_err(|must| {
        (format!("{full} can't be {}: {must}", quoted(&wanted.value)), format!("it is {} now", setting.value))
    })?;
    if !meaning.writable && !meaning.form.same(&value, &setting.value) {
        let what = format!("{full} ({}) can't be written by this version", meaning.what);
        return Err((what, format!("remove it; it is {} now", setting.value)));
    }
    if let (Some([low, high]), Ok(number)) = (meaning.range, value.parse::<f64>())
        && !(low <= number && number <= high)
        && !meaning.form.same(&value, &setting.value)
    {
        let unit = if meaning.unit.is_empty() { String::new() } else { format!(" {}", meaning.unit) };
        let what = format!("{full} ({}) can't be {value}{unit}", meaning.what);
        return Err((what, format!("it is {low} to {high}{unit}")));
    }
    Ok((full, value, axis.and_then(|a| theirs(&a).cloned())))
}

/// Whether each of these is the name of a danger.
///
/// # Errors
/// The first that is none, with those that are.
pub fn known_dangers(allow: &[String]) -> Result<(), String> {
    match allow.iter().find(|name| !DANGERS.iter().any(|(known, _)| known == name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<String> = DANGERS.iter().map(|(name, what)| format!("{name} ({what})")).collect();
            Err(format!("there is nothing called {} to allow; there is: {}", quoted(name), known.join("; ")))
        }
    }
}
