//! From flags, the controller's own words and a person's answers to what the rig file will say.

use super::axis::{AxisFlags, AxisPlan, direction, placed, rounded_up, sign, span};
use super::known::{Known, KnownAxis, KnownHome, narrower};
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
    pub(super) fn of(known: &Known, stage: Option<&str>, rig: Option<&str>) -> Names {
        let stage = stage.or(known.stage.as_deref()).unwrap_or("stage").to_owned();
        let link = known.link.clone().unwrap_or_else(|| format!("{stage}-port"));
        Names { rig: rig.map(str::to_owned).or_else(|| known.rig.clone()), stage, link }
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
    known: &Known,
) -> Result<Draft, String> {
    let names = Names::of(known, args.stage.as_deref(), args.name.as_deref());
    let rig = match names.rig {
        Some(name) => name,
        None => ask(person, "The rig's name", Some("bench"), "--name", name)?,
    };
    let chosen = axes(args, person, found, known)?;
    let mut hand = None;
    let homed = found.homes == Some(true);
    if person.is_there() {
        person.say("The axes can be moved in small, slow steps to see which way they go. Keep a hand near the switch.");
        if yes(person, "Move them", true)? {
            let rigs: Vec<&str> = std::iter::once(rig.as_str()).chain(known.rig.as_deref()).collect();
            match Hand::on(found, place, &rigs, args.data_dir.as_deref()) {
                Ok(open) => {
                    if homed
                        && yes(person, "Home first? All axes run to their switches", true)?
                        && let Err(error) = open.home()
                    {
                        person.say(&format!("  {error}"));
                    }
                    hand = Some(open);
                }
                Err(why) => person.say(&format!("{why}\nThe questions go on without moving anything.")),
            }
        }
    }
    let mut plans = Vec::new();
    let mut broken = None;
    for (flags, axis) in &chosen {
        match one(person, flags, axis, found, known.axis(axis), hand.as_ref()) {
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
    let home = homing(args, person, found, known, &plans)?;
    let lost = match args.on_client_lost {
        Some(lost) => lost.word(),
        None => ask(
            person,
            "When a client goes while a job runs: stop it, or continue to its end",
            Some(known.on_client_lost.as_deref().unwrap_or("stop")),
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
    known: &Known,
) -> Result<Vec<(AxisFlags, &'a FoundAxis)>, String> {
    let all: Vec<&str> = found.axes.iter().map(|a| known.name(a)).collect();
    let find = |name: &str| {
        let axis = found.axes.iter().find(|a| known.name(a) == name);
        axis.ok_or_else(|| format!("the controller has no axis {name:?}; it has {}", all.join(", ")))
    };
    if !args.axes.is_empty() {
        return args.axes.iter().map(|flags| Ok((flags.clone(), find(&flags.name)?))).collect();
    }
    let mut proposed: Vec<&str> = found.axes.iter().filter_map(|a| Some(known.axis(a)?.name.as_str())).collect();
    if proposed.is_empty() {
        proposed = all.clone();
    }
    let proposal = proposed.join(" ");
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
    known: Option<&KnownAxis>,
    hand: Option<&Hand>,
) -> Result<AxisPlan, String> {
    let name = known.map_or(axis.name, |k| &k.name);
    let flag = |key: &str| format!("--axis {name},{key}=…");
    if person.is_there() {
        person.say(&format!("\nAxis {name}:"));
    }
    let unit = match flags.unit {
        Some(unit) => unit,
        None => ask(person, "  its unit", Some(known.map_or(axis.unit, |k| k.unit).name()), &flag("unit"), |text| {
            let unit = Unit::parse(text).ok_or("one of nm, um, mm, deg, mdeg, mrad")?;
            let fits = unit.dimension() == axis.unit.dimension() || axis.unit.dimension() == Dimension::Angle;
            if fits { Ok(unit) } else { Err("this axis moves by a length: nm, um or mm".into()) }
        })?,
    };
    let known = known.filter(|k| k.unit.dimension() == unit.dimension()).map(|k| k.in_unit(unit));
    // Counts are in the base unit of the axis's dimension, mm or degrees.
    let to_unit = |base: f64| Distance::base(base).map_or(base, |d| d.to(unit));
    let number_of = found.axes.iter().position(|a| a.name == axis.name).unwrap_or(0);
    let was_sign = known.as_ref().and_then(|k| k.sign);
    let by_eye = match (flags.sign, hand) {
        (None, Some(hand)) if yes(person, "  move it to see which way it goes", was_sign.is_none())? => {
            hand.direction(person, axis, number_of)?
        }
        _ => None,
    };
    let seen = match flags.sign.or(by_eye) {
        Some(sign) => sign,
        None => ask(
            person,
            "  does its controller count in your direction (+) or against it (-)",
            Some(if was_sign == Some(-1.0) { "-" } else { "+" }),
            &flag("sign"),
            sign,
        )?,
    };
    // The other way round, what the file says of positions means something else.
    let turned = was_sign.is_some_and(|was| was != seen);
    if turned && !person.is_there() && (flags.travel.is_none() || flags.origin.is_none()) {
        return Err(format!(
            "{name}: another sign than the file's turns its positions round; say its travel and origin, too"
        ));
    }
    let kept = known.as_ref().filter(|_| !turned);
    let was_travel = kept.and_then(|k| k.travel);
    let (range, from) = match (flags.travel, axis.told.range, hand) {
        (Some(_), range, _) => (range, "as given"),
        (None, range, _) if was_travel.is_some() => (range, "as it was"),
        (None, Some(range), _) if found.homes == Some(true) => (Some(range), "from the controller's own limit"),
        (None, _, Some(hand)) => (hand.ends(person, axis)?, "found by hand"),
        (None, range, None) => (range, "from the controller's own limit"),
    };
    let home = if from == "found by hand" { None } else { axis.told.home };
    let derived = range.map(|r| placed(r, home, seen));
    let known_origin = flags.origin.or_else(|| kept.and_then(|k| k.origin));
    let travel = match (flags.travel, was_travel, derived) {
        (Some(travel), ..) => travel,
        (None, None, Some((origin, travel))) => {
            let shift = known_origin.map_or(0.0, |at| at - to_unit(origin));
            travel.map(|end| to_unit(end) + shift)
        }
        (None, was, _) => {
            let proposal = was.map(|[low, high]| format!("{}:{}", plain(low), plain(high)));
            let question = format!("  where may it be, LOW:HIGH in {unit}");
            ask(person, &question, proposal.as_deref(), &flag("travel"), span)?
        }
    };
    let origin = match (known_origin, derived) {
        (Some(origin), _) => origin,
        (None, Some((origin, _))) => to_unit(origin),
        (None, None) => {
            let question = format!("  its position when the controller counts 0, in {unit}");
            ask(person, &question, Some("0"), &flag("origin"), number)?
        }
    };
    let own = axis.told.max_speed.map(|v| plain(v.to(unit)));
    let own = known.as_ref().and_then(|k| k.speed).map(plain).or(own);
    let speed = match flags.speed {
        Some(speed) => speed,
        None => ask(person, &format!("  how fast may it go, in {unit}/s"), own.as_deref(), &flag("speed"), positive)?,
    };
    let fine = axis.told.step.map_or(TOLERANCE, |s| (4.0 * s.in_base()).max(TOLERANCE));
    let was = known.as_ref().and_then(|k| k.tolerance);
    let proposal = plain(was.unwrap_or_else(|| rounded_up(to_unit(fine))));
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
        None => {
            let was = known.as_ref().and_then(|k| k.holds_unpowered);
            yes(person, "  does it stay where it is without power", was.unwrap_or(false))?
        }
    };
    let toward_sample = match flags.toward_sample {
        Some(toward) => Some(toward),
        None => ask(
            person,
            "  which direction brings sample and optics together: +, - or none",
            Some(match known.as_ref().and_then(|k| k.toward_sample) {
                Some('+') => "+",
                Some(_) => "-",
                None => "none",
            }),
            &flag("toward-sample"),
            direction,
        )?,
    };
    let plan = AxisPlan {
        name: name.into(),
        channel: known.as_ref().map_or(axis.channel, |k| &k.channel).to_owned(),
        unit,
        sign: seen,
        origin,
        travel,
        travel_from: from,
        speed,
        tolerance,
        holds_unpowered,
        toward_sample,
        trust: known.as_ref().and_then(|k| k.trust.clone()),
        why: flags.why.clone().or_else(|| known.as_ref().and_then(|k| k.why.clone())),
    };
    let fastest = axis.told.max_speed.map(|v| v.to(unit));
    for told in narrower(&plan, axis.told.range.filter(|_| found.homes == Some(true)), fastest) {
        person.say(&told);
    }
    Ok(plan)
}

/// The order of homing; empty for none.
fn homing(
    args: &InitArgs,
    person: &mut dyn Person,
    found: &Found,
    known: &Known,
    axes: &[AxisPlan],
) -> Result<Vec<String>, String> {
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
    let proposal = match &known.home {
        Some(KnownHome::Never) => "never".into(),
        Some(KnownHome::Order(order)) if understand(&order.join(",")).is_ok() => order.join(","),
        _ if found.homes == Some(false) => "never".into(),
        _ => usual.join(","),
    };
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
