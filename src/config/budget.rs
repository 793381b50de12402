//! `[budget]`: how much may be asked for, in one move, a minute, an hour, and of the disk.

use super::axes::Axes;
use super::outputs::OutputDraft;
use super::problem::Sink;
use super::reader::{Field, Section, choice};
use super::rig::{Budget, OnStop};
use crate::model::{AxisId, Name, OutputKind};
use crate::units::Distance;

/// Bytes of a megabyte, as disks are sold.
const MB: u64 = 1_000_000;

/// Reads the section; without one nothing is limited.
pub(super) fn read(
    sink: &mut Sink<'_>,
    root: &mut Section<'_>,
    axes: &Axes<'_>,
    outputs: &[OutputDraft],
) -> Option<Budget> {
    let Some(field) = root.get("budget") else { return Some(Budget::default()) };
    let mut s = field.section(sink, "[budget]".into())?;
    let mut budget = Budget::default();
    let mut good = true;
    for (key, most) in [("max_step", &mut budget.max_step), ("travel_per_hour", &mut budget.travel_per_hour)] {
        match s.get(key).map(|f| per_axis(sink, f, key, axes)) {
            Some(Some(read)) => *most = read,
            Some(None) => good = false,
            None => {}
        }
    }
    if let Some(f) = s.get("moves_per_minute") {
        budget.moves_per_minute = f.whole(sink, 1..=6000, "");
        good &= budget.moves_per_minute.is_some();
    }
    match s.get("light_dose").map(|f| per_light(sink, f, outputs)) {
        Some(Some(read)) => budget.light_dose = read,
        Some(None) => good = false,
        None => {}
    }
    if let Some(f) = s.get("min_free_mb") {
        budget.min_free = f.whole(sink, 1..=100_000_000, "MB").map(|mb| u64::from(mb) * MB);
        good &= budget.min_free.is_some();
    }
    if let Some(f) = s.get("why") {
        budget.why = f.line(sink).map(str::to_owned);
        good &= budget.why.is_some();
    }
    s.finish(sink, &[]);
    good.then_some(budget)
}

/// A length for each named axis, in its own unit.
fn per_axis(sink: &mut Sink<'_>, field: Field<'_>, key: &str, axes: &Axes<'_>) -> Option<Vec<(AxisId, Distance)>> {
    let table = field.section(sink, format!("`{key}`"))?;
    let mut all = Some(Vec::new());
    for (at, f) in table.entries() {
        let axis = axes.find(sink, at, &f.name);
        let length = f.number_in(sink, 1e-6..=1e12, "");
        let read = axis.zip(length).and_then(|(a, v)| Some((a.id.clone(), Distance::new(v, a.unit?).ok()?)));
        all = all.zip(read).map(|(mut all, one)| {
            all.push(one);
            all
        });
    }
    all
}

/// Percent times seconds for each named light. What is switched off when the dose is reached must have a safe value.
fn per_light(sink: &mut Sink<'_>, field: Field<'_>, outputs: &[OutputDraft]) -> Option<Vec<(Name, f64)>> {
    let table = field.section(sink, "`light_dose`".into())?;
    let mut all = Some(Vec::new());
    for (at, f) in table.entries() {
        let dose = f.number_in(sink, 1.0..=1e9, "%·s");
        let known = outputs.iter().find(|o| o.device.id.as_ref().is_some_and(|id| id.as_str() == f.name));
        if known.is_none() && outputs.iter().all(|o| o.device.id.is_some()) {
            let names = outputs.iter().filter_map(|o| o.device.id.as_ref()).map(|n| n.as_str());
            let remedy =
                if outputs.is_empty() { "describe it in an [[output]]".into() } else { choice(&f.name, names) };
            sink.say(at.clone(), format!("there is no output {:?}", f.name), remedy);
        }
        let dark = known.and_then(|o| o.output.as_ref()).filter(|output| {
            if output.kind == OutputKind::Wheel {
                sink.say(at.clone(), format!("{} is a wheel and gives no light", output.id), "name what gives light");
                return false;
            }
            let safe = matches!(&output.on_stop, OnStop::Safe(value) if !value.is_lit());
            if !safe {
                let message = format!("{} can't be made dark when its dose is reached", output.id);
                sink.say(at.clone(), message, "give it on_stop = \"safe\" with a safe value that is dark");
            }
            safe
        });
        let read = dark.zip(dose).map(|(output, dose)| (output.id.clone(), dose));
        all = all.zip(read).map(|(mut all, one)| {
            all.push(one);
            all
        });
    }
    all
}
