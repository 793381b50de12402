//! The safety card: one page with every limit, keep-out and stop path, and how far each has been proved, to be signed.

use std::path::Path;

use super::findings::{Finding, Level, reach};
use crate::config::{Axis, Homing, Rig, Stage};
use crate::devices;
use crate::model::{OutputKind, Snapshot, StageStatus, Trust};
use crate::units::{Unit, plain};

/// When and of what a card was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    /// The day and minute, local.
    pub(super) at: String,
    /// The rig file.
    pub(super) file: String,
    /// A checksum of its text, so that one sees whether the card still fits the file.
    pub(super) hash: String,
}

impl Made {
    /// Of that file, now.
    pub(super) fn now(file: &Path, text: &[u8]) -> Made {
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string();
        let at = crate::store::stamp(std::time::Duration::ZERO);
        Made { at, file, hash: format!("{:08x}", crc32fast::hash(text)) }
    }
}

/// How far something is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The device itself says the same.
    Probed,
    /// A simulation says so.
    Simulated,
    /// It stands in the rig file, and nobody has tried it here.
    NotExercised,
}

impl Proof {
    fn word(self) -> &'static str {
        match self {
            Proof::Probed => "probed",
            Proof::Simulated => "simulated",
            Proof::NotExercised => "not exercised",
        }
    }

    /// Of a device of that driver.
    fn of(driver: &str, probed: bool) -> Proof {
        if devices::driver(driver).is_some_and(|d| d.simulated) {
            Proof::Simulated
        } else if probed {
            Proof::Probed
        } else {
            Proof::NotExercised
        }
    }
}

/// The card as Markdown.
pub(super) fn card(rig: &Rig, state: &Snapshot, found: &[Finding], made: &Made) -> String {
    let mut lines = vec![
        format!("# Safety card: {}", rig.name),
        String::new(),
        format!("Made {} by steadyhand {}, which moved nothing.", made.at, env!("CARGO_PKG_VERSION")),
        format!("Rig file: `{}`, checksum {}.", made.file, made.hash),
        String::new(),
        "*probed*: the device itself says the same. *simulated*: a simulation does. *not exercised*: it stands in the rig \
         file, and a person has to try it before relying on it."
            .into(),
        String::new(),
        "| what | limit | state |".into(),
        "|---|---|---|".into(),
    ];
    // A bar in a name or a condition would be the end of a cell.
    let cell = |text: &str| text.replace('|', "\\|");
    let mut row = |what: &str, limit: &str, proof: Proof| {
        lines.push(format!("| {} | {} | {} |", cell(what), cell(limit), proof.word()));
    };
    for stage in &rig.stages {
        let status = state.stage(stage.id.as_str());
        for (index, axis) in stage.axes.iter().enumerate() {
            axis_rows(stage, axis, index, status, &mut row);
        }
        let homed = status.is_some_and(|s| s.axes.iter().all(|a| a.trust == Trust::Referenced));
        let home = match &stage.home {
            Homing::Cycle { order, ask, .. } => {
                let order = order.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                format!("order {order}{}", if *ask { "; a person approves it each time" } else { "" })
            }
            Homing::Never => "none: a person declares positions".into(),
        };
        row(&format!("{}: homing", stage.id), &home, Proof::of(&stage.driver, homed));
        row(
            &format!("{}: stop by call, page or command", stage.id),
            "standstill is read back",
            Proof::of(&stage.driver, false),
        );
        row(&format!("{}: stop when the client goes", stage.id), "axes stop", Proof::of(&stage.driver, false));
        row(&format!("{}: emergency stop, limit switches", stage.id), "hardware alone", Proof::NotExercised);
    }
    for output in &rig.outputs {
        let at_stop = output.safe().map_or_else(|| "kept as it is".to_owned(), |safe| format!("made safe: {safe}"));
        row(&format!("{}: at a stop of everything", output.id), &at_stop, Proof::of(&output.driver, false));
        if output.kind == OutputKind::Light {
            let most = format!("{} %", plain(output.max.value()));
            row(&format!("{}: at most", output.id), &most, Proof::of(&output.driver, false));
        }
    }
    for keep_out in &rig.keep_outs {
        let boxes: Vec<String> = keep_out
            .boxes
            .iter()
            .map(|b| {
                let sides = b.iter().map(|(id, span)| {
                    let unit = rig.axis(id).map_or(Unit::Mm, |a| a.unit);
                    format!("{id} {} to {} {unit}", plain(span.low.to(unit)), plain(span.high.to(unit)))
                });
                sides.collect::<Vec<_>>().join(", ")
            })
            .collect();
        row(&format!("keep-out \"{}\"", keep_out.name), &boxes.join("; or "), Proof::NotExercised);
    }
    for rule in &rig.rules {
        let require = rule.require.text().split_whitespace().collect::<Vec<_>>().join(" ");
        row(&format!("rule \"{}\"", rule.name), &require, Proof::NotExercised);
    }
    budget_rows(rig, &mut row);
    lines.push(String::new());
    let open: Vec<&Finding> = found.iter().filter(|f| f.level > Level::Note).collect();
    if open.is_empty() {
        lines.push("Doctor found nothing wrong.".into());
    } else {
        lines.push("Doctor found:".into());
        lines.extend(open.iter().map(|f| format!("- {}: {}", f.about, f.what)));
    }
    lines.extend([
        String::new(),
        "Software does not replace an emergency stop, limit switches or laser interlocks. Before the first session: press \
         the emergency stop while an axis moves; run into each limit switch slowly; stop a move by `steadyhand stop`; drive \
         towards each keep-out and see the refusal."
            .into(),
        String::new(),
        "Tried and found good by: ______________________   Date: ____________   Signature: ______________________".into(),
    ]);
    lines.join("\n")
}

fn budget_rows(rig: &Rig, row: &mut impl FnMut(&str, &str, Proof)) {
    let budget = &rig.budget;
    for (what, per_axis) in [("most in one step", &budget.max_step), ("most in an hour", &budget.travel_per_hour)] {
        for (id, length) in per_axis {
            let unit = rig.axis(id).map_or(Unit::Mm, |a| a.unit);
            row(&format!("{id}: {what}"), &format!("{} {unit}", plain(length.to(unit))), Proof::NotExercised);
        }
    }
    if let Some(moves) = budget.moves_per_minute {
        row("moves a minute", &moves.to_string(), Proof::NotExercised);
    }
    for (light, dose) in &budget.light_dose {
        row(&format!("{light}: light dose in an hour"), &format!("{} %·s", plain(*dose)), Proof::NotExercised);
    }
    if let Some(bytes) = budget.min_free {
        row("free space that pictures leave", &format!("{} MB", bytes / 1_000_000), Proof::NotExercised);
    }
}

fn axis_rows(
    stage: &Stage,
    axis: &Axis,
    index: usize,
    status: Option<&StageStatus>,
    row: &mut impl FnMut(&str, &str, Proof),
) {
    let told = status.and_then(|s| s.told.as_deref()).and_then(|t| t.axes.get(index)).cloned().unwrap_or_default();
    let unit = axis.unit;
    let within = reach(axis, &told).is_some_and(|r| r.contains(axis.travel.low) && r.contains(axis.travel.high));
    let travel = format!("{} to {} {unit}", plain(axis.travel.low.to(unit)), plain(axis.travel.high.to(unit)));
    row(&format!("{}: travel", axis.id), &travel, Proof::of(&stage.driver, within));
    let (sign, origin) = (if axis.sign < 0.0 { "-" } else { "+" }, plain(axis.origin.to(unit)));
    let frame = format!("rig = {sign} count + {origin} {unit}");
    row(&format!("{}: direction and origin", axis.id), &frame, Proof::of(&stage.driver, false));
    let allowed = told.max_speed.is_some_and(|own| own >= axis.max_speed);
    let speed = format!("{} {unit}/s", plain(axis.max_speed.to(unit)));
    row(&format!("{}: speed", axis.id), &speed, Proof::of(&stage.driver, allowed));
    let holds = if axis.holds_unpowered { "stays where it is" } else { "sinks or turns freely" };
    row(&format!("{}: without power", axis.id), holds, Proof::of(&stage.driver, false));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Told, ToldAxis};
    use crate::units::Speed;
    use std::sync::Arc;

    #[test]
    fn a_limit_is_probed_only_when_the_device_itself_says_so() {
        let text = include_str!("../../../rigs/minimal.toml");
        let rig = crate::config::parse(text, Path::new("minimal.toml"), &devices::known()).expect("a rig");
        let made = Made { at: "today".into(), file: "rig.toml".into(), hash: "0".into() };
        let before = card(&rig, &Snapshot::default(), &[], &made);
        assert!(!before.contains("| probed |"), "{before}");
        let axis = ToldAxis { range: Some([-75.0, 0.0]), max_speed: Speed::base(20.0).ok(), ..ToldAxis::default() };
        let told = Some(Arc::new(Told { axes: vec![axis], ..Told::default() }));
        let status = super::super::findings::tests::status(told);
        let state = Snapshot { stages: vec![status], ..Snapshot::default() };
        let after = card(&rig, &state, &[], &made);
        assert!(after.contains("| stage.x: travel | 0 to 74.5 mm | probed |"), "{after}");
        assert!(after.contains("| stage.x: speed | 10 mm/s | probed |"), "{after}");
        assert!(after.contains("stop when the client goes | axes stop | not exercised |"), "{after}");
        assert!(after.contains("Signature"));
    }

    #[test]
    fn what_a_stop_does_to_lights_and_shutters_is_on_the_card() {
        let text = include_str!("../../../rigs/microscope.toml");
        let rig = crate::config::parse(text, Path::new("microscope.toml"), &devices::known()).expect("a rig");
        let made = Made { at: "today".into(), file: "rig.toml".into(), hash: "0".into() };
        let card = card(&rig, &Snapshot::default(), &[], &made);
        for row in [
            "| shutter: at a stop of everything | made safe: closed | not exercised |",
            "| lamp: at a stop of everything | made safe: 0 % | simulated |",
            "| turret: at a stop of everything | kept as it is | not exercised |",
        ] {
            assert!(card.contains(row), "{row}: {card}");
        }
        assert!(card.contains("| lamp: at most | "), "{card}");
    }
}
