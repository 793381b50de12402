//! From flags, the controller's own words and a person's answers to what the rig file will say.

use super::axis::{AxisFlags, AxisPlan, direction, placed, rounded_up, sign, span};
use super::person::{Person, ask, number, positive, yes};
use super::probe::{Found, FoundAxis, Place};
use super::render::{Draft, Port};
use super::teach::Hand;
use super::{InitArgs, Lost, name};
use crate::units::{Dimension, Distance, Unit, plain};

/// The finest tolerance that is proposed, in mm or degrees: what counters are reported with, ten times over.
const TOLERANCE: f64 = 0.01;

/// How the rig, its stage and its link are called: as in the file that exists, where there is one.
pub(super) struct Names {
    pub(super) rig: Option<String>,
    pub(super) stage: String,
    pub(super) link: String,
}

impl Names {
    pub(super) fn of(old: Option<&str>, stage: Option<&str>, rig: Option<&str>) -> Names {
        let file: Option<toml_edit::DocumentMut> = old.and_then(|text| text.parse().ok());
        let text = |t: &toml_edit::Table, key: &str| t.get(key)?.as_str().map(str::to_owned);
        let stages = file.as_ref().and_then(|f| f.get("stage")?.as_array_of_tables());
        let same = |t: &&toml_edit::Table| stage.is_none_or(|s| text(t, "id").as_deref() == Some(s));
        let there = stages.and_then(|s| s.iter().find(same));
        let stage = stage.map(str::to_owned).or_else(|| text(there?, "id")).unwrap_or_else(|| "stage".into());
        let link = there.and_then(|t| text(t, "link")).unwrap_or_else(|| format!("{stage}-port"));
        let known = file.as_ref().and_then(|f| text(f.get("rig")?.as_table()?, "name"));
        Names { rig: rig.map(str::to_owned).or(known), stage, link }
    }
}

/// Everything that goes into the file.
///
/// # Errors
/// What is missing and how to say it, or what a person broke off.
pub(super) fn draft(
    args: &InitArgs,
    person: &mut dyn Person,
    found: &Found,
    place: &Place,
    port: Port,
    names: Names,
) -> Result<Draft, String> {
    let rig = match names.rig {
        Some(name) => name,
        None => ask(person, "The rig's name", Some("bench"), "--name", name)?,
    };
    let chosen = axes(args, person, found)?;
    let mut hand = None;
    let homed = found.homes == Some(true);
    if person.is_there() {
        person.say("The axes can be moved in small, slow steps to see which way they go. Keep a hand near the switch.");
        if yes(person, "Move them", true)? {
            let open = Hand::on(found, place, args.data_dir.as_deref())?;
            if homed && yes(person, "Home first? All axes run to their switches", true)? {
                open.home()?;
            }
            hand = Some(open);
        }
    }
    let mut plans = Vec::new();
    let mut broken = None;
    for (flags, axis) in &chosen {
        match one(person, flags, axis, found, hand.as_ref()) {
            Ok(plan) => plans.push(plan),
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    if let Some(hand) = hand
        && !hand.close()
    {
        person.say("The axes could not be seen to stand: look at them.");
    }
    if let Some(error) = broken {
        return Err(error);
    }
    let home = homing(args, person, found, &plans)?;
    let lost = match args.on_client_lost {
        Some(lost) => lost.word(),
        None => ask(
            person,
            "When a client goes while a job runs: stop it, or continue to its end",
            Some("stop"),
            "--on-client-lost",
            |text| match text {
                "stop" => Ok(Lost::Stop.word()),
                "continue" => Ok(Lost::Continue.word()),
                _ => Err("answer stop or continue".into()),
            },
        )?,
    };
    Ok(Draft {
        rig,
        link: names.link,
        stage: names.stage,
        driver: found.driver.into(),
        controller: format!("{} {}", found.identity.model, found.identity.firmware),
        port,
        baud: found.baud,
        home,
        on_client_lost: lost,
        axes: plans,
    })
}

/// The axes that are used, with what the command line says of them.
fn axes<'a>(
    args: &InitArgs,
    person: &mut dyn Person,
    found: &'a Found,
) -> Result<Vec<(AxisFlags, &'a FoundAxis)>, String> {
    let all: Vec<&str> = found.axes.iter().map(|a| a.name).collect();
    let find = |name: &str| {
        let axis = found.axes.iter().find(|a| a.name == name);
        axis.ok_or_else(|| format!("the controller has no axis {name:?}; it has {}", all.join(", ")))
    };
    if !args.axes.is_empty() {
        return args.axes.iter().map(|flags| Ok((flags.clone(), find(&flags.name)?))).collect();
    }
    let proposal = all.join(" ");
    let names = ask(person, "Which axes are fitted", Some(&proposal), "--axis", |text| {
        let names: Vec<String> = text.split([' ', ',']).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        names.iter().try_for_each(|n| find(n).map(drop))?;
        if names.is_empty() { Err("name at least one".into()) } else { Ok(names) }
    })?;
    names.into_iter().map(|name| Ok((AxisFlags { name: name.clone(), ..AxisFlags::default() }, find(&name)?))).collect()
}

fn one(
    person: &mut dyn Person,
    flags: &AxisFlags,
    axis: &FoundAxis,
    found: &Found,
    hand: Option<&Hand>,
) -> Result<AxisPlan, String> {
    let name = axis.name;
    let flag = |key: &str| format!("--axis {name},{key}=…");
    if person.is_there() {
        person.say(&format!("\nAxis {name}:"));
    }
    let unit = match flags.unit {
        Some(unit) => unit,
        None => ask(person, "  its unit", Some(axis.unit.name()), &flag("unit"), |text| {
            let unit = Unit::parse(text).ok_or("one of nm, um, mm, deg, mdeg, mrad")?;
            let fits = unit.dimension() == axis.unit.dimension() || axis.unit.dimension() == Dimension::Angle;
            if fits { Ok(unit) } else { Err("this axis moves by a length: nm, um or mm".into()) }
        })?,
    };
    // Counts are in the base unit of the axis's dimension, mm or degrees.
    let to_unit = |base: f64| Distance::base(base).map_or(base, |d| d.to(unit));
    let number_of = found.axes.iter().position(|a| a.name == name).unwrap_or(0);
    let seen = match (flags.sign, hand) {
        (Some(sign), _) => sign,
        (None, Some(hand)) if yes(person, "  move it to see which way it goes", true)? => {
            hand.direction(person, axis, number_of)?
        }
        (None, _) => ask(
            person,
            "  does its controller count in your direction (+) or against it (-)",
            Some("+"),
            &flag("sign"),
            sign,
        )?,
    };
    let (range, from) = match (flags.travel, axis.told.range, hand) {
        (Some(_), range, _) => (range, "as given"),
        (None, Some(range), _) if found.homes == Some(true) => (Some(range), "from the controller's own limit"),
        (None, _, Some(hand)) => (hand.ends(person, axis)?, "found by hand"),
        (None, range, None) => (range, "from the controller's own limit"),
    };
    let home = if from == "found by hand" { None } else { axis.told.home };
    let derived = range.map(|r| placed(r, home, seen));
    let travel = match (flags.travel, derived) {
        (Some(travel), _) => travel,
        (None, Some((_, travel))) => travel.map(to_unit),
        (None, None) => ask(person, &format!("  where may it be, LOW:HIGH in {unit}"), None, &flag("travel"), span)?,
    };
    let origin = match (flags.origin, derived) {
        (Some(origin), _) => origin,
        (None, Some((origin, _))) => to_unit(origin),
        (None, None) => {
            let question = format!("  its position when the controller counts 0, in {unit}");
            ask(person, &question, Some("0"), &flag("origin"), number)?
        }
    };
    let own = axis.told.max_speed.map(|v| plain(v.to(unit)));
    let speed = match flags.speed {
        Some(speed) => speed,
        None => ask(person, &format!("  how fast may it go, in {unit}/s"), own.as_deref(), &flag("speed"), positive)?,
    };
    let fine = axis.told.step.map_or(TOLERANCE, |s| (4.0 * s.in_base()).max(TOLERANCE));
    let proposal = plain(rounded_up(to_unit(fine)));
    let tolerance = match flags.tolerance {
        Some(tolerance) => tolerance,
        None => ask(
            person,
            &format!("  how near to a target must it rest, in {unit}"),
            Some(&proposal),
            &flag("tolerance"),
            positive,
        )?,
    };
    let holds_unpowered = match flags.holds_unpowered {
        Some(holds) => holds,
        None => yes(person, "  does it stay where it is without power", false)?,
    };
    let toward_sample = match flags.toward_sample {
        Some(toward) => Some(toward),
        None => ask(
            person,
            "  which direction brings sample and optics together: +, - or none",
            Some("none"),
            &flag("toward-sample"),
            direction,
        )?,
    };
    Ok(AxisPlan {
        name: name.into(),
        channel: axis.channel.into(),
        unit,
        sign: seen,
        origin,
        travel,
        travel_from: from,
        speed,
        tolerance,
        holds_unpowered,
        toward_sample,
        why: flags.why.clone(),
    })
}

/// The order of homing; empty for none.
fn homing(args: &InitArgs, person: &mut dyn Person, found: &Found, axes: &[AxisPlan]) -> Result<Vec<String>, String> {
    // GRBL lifts z before anything else.
    let mut usual: Vec<&str> = axes.iter().map(|a| a.name.as_str()).collect();
    usual.sort_by_key(|n| *n != "z");
    let understand = |text: &str| -> Result<Vec<String>, String> {
        if text == "never" {
            return Ok(Vec::new());
        }
        let order: Vec<String> = text.split([' ', ',']).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        let fits = order.len() == axes.len() && axes.iter().all(|a| order.contains(&a.name));
        if fits { Ok(order) } else { Err(format!("name each axis once, as in {}, or never", usual.join(","))) }
    };
    if let Some(text) = &args.home {
        return understand(text).map_err(|e| format!("--home {text}: {e}"));
    }
    let proposal = if found.homes == Some(false) { "never".into() } else { usual.join(",") };
    ask(
        person,
        "In which order does the controller home its axes (never: it has no switches)",
        Some(&proposal),
        "--home",
        understand,
    )
}

#[cfg(test)]
mod tests;
