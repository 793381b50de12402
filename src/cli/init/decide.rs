//! From flags, the controller's own words and a person's answers to what the rig file will say.

use super::axis::{AxisFlags, AxisPlan, direction, inward, placed, rounded_down, rounded_up, sign, span};
use super::known::{Known, KnownAxis, KnownHome, narrower};
use super::person::{Person, ask, number, positive, yes};
use super::probe::{Found, FoundAxis, Place, spelled, what_counts};
use super::render::{Draft, Port};
use super::teach::Hand;
use super::{InitArgs, Lost, name};
use crate::store::Store;
use crate::units::{Dimension, Distance, Unit, plain};

/// How the rig, its stage and its link are called: as in the file that exists, where there is one.
pub(super) struct Names {
    pub(super) rig: Option<String>,
    pub(super) stage: String,
    pub(super) link: String,
}

impl Names {
    pub(super) fn of(known: &Known, stage: Option<&str>, rig: Option<&str>, port: &Port) -> Names {
        let stage = stage.or(known.stage.as_deref()).unwrap_or("stage").to_owned();
        let there = || known.link_to(port);
        let link = known.link.clone().or_else(there).unwrap_or_else(|| format!("{stage}-port"));
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
    let names = Names::of(known, args.stage.as_deref(), args.name.as_deref(), &port);
    // Asked now rather than refused by the server, after all the work.
    let free = |name: String| match Store::taken(&name, &args.rig).filter(|_| args.data_dir.is_none()) {
        Some(other) => Err(format!("another rig file has the name {name:?}: {}. Choose another", other.display())),
        None => Ok(name),
    };
    let rig = match names.rig {
        Some(name) => free(name).map_err(|why| format!("{why}, with --name"))?,
        None => {
            let numbered = (2..100).map(|n| format!("bench-{n}"));
            let proposed = std::iter::once("bench".to_owned()).chain(numbered).find(|n| free(n.clone()).is_ok());
            ask(person, "The rig's name", proposed.as_deref(), "--name", |text| name(text).and_then(free))?
        }
    };
    let mut chosen = Vec::new();
    for (flags, axis) in axes(args, person, found, known, &names.link)? {
        chosen.push(counted(person, flags, axis, found, known)?);
    }
    // What a count is must be known before anything moves.
    let as_chosen = |a: &FoundAxis| {
        let own = chosen.iter().find(|(_, c)| c.channel == a.channel).map(|(_, c)| c.clone());
        own.or_else(|| a.counts.is_none().then(|| a.clone()))
    };
    let found = &Found { axes: found.axes.iter().filter_map(as_chosen).collect(), ..found.clone() };
    let mut hand = None;
    let homed = found.homes == Some(true);
    if person.is_there() {
        person.say("The axes can be moved in small, slow steps to see which way they go. Keep a hand near the switch.");
        if yes(person, "Move them", true)? {
            let rigs: Vec<&str> = std::iter::once(rig.as_str()).chain(known.rig.as_deref()).collect();
            match Hand::on(found, place, &rigs, args.data_dir.as_deref()) {
                Ok(open) => {
                    if homed && yes(person, "Home first? All axes run to their switches", true)? {
                        // How it went was told.
                        let _ = open.home(person);
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
        match one(person, flags, axis, found, known.axis(found.driver, axis), hand.as_ref()) {
            Ok(plan) => plans.push(plan),
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    if let Some(hand) = hand {
        hand.close();
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
fn axes(
    args: &InitArgs,
    person: &mut dyn Person,
    found: &Found,
    known: &Known,
    link: &str,
) -> Result<Vec<(AxisFlags, FoundAxis)>, String> {
    let driver = found.driver;
    let all: Vec<&str> = found.axes.iter().map(|a| known.name(driver, a)).collect();
    // An axis that is named by its channel may have any name.
    let by_channel = |flags: &AxisFlags, channel: &str| {
        let axis = found.axes.iter().find(|a| spelled(driver, &a.channel) == spelled(driver, channel));
        let axis = axis.ok_or_else(|| {
            let channels: Vec<&str> = found.axes.iter().map(|a| a.channel.as_str()).collect();
            format!("the controller has no channel {channel:?}; it has {}", channels.join(", "))
        })?;
        match known.axis(driver, axis) {
            Some(own) if own.name != flags.name => {
                Err(format!("channel {channel} is the axis {:?} of the file already; call it that", own.name))
            }
            _ => Ok(FoundAxis { name: name(&flags.name)?, ..axis.clone() }),
        }
    };
    let find = |name: &str| {
        let axis = found.axes.iter().find(|a| known.name(driver, a) == name).cloned();
        axis.ok_or_else(|| format!("the controller has no axis {name:?}; it has {}", all.join(", ")))
    };
    if !args.axes.is_empty() {
        let axis = |flags: &AxisFlags| match &flags.channel {
            Some(channel) => by_channel(flags, channel),
            None => find(&flags.name),
        };
        return args.axes.iter().map(|flags| Ok((flags.clone(), axis(flags)?))).collect();
    }
    let mut proposed: Vec<&str> =
        found.axes.iter().filter_map(|a| Some(known.axis(driver, a)?.name.as_str())).collect();
    if proposed.is_empty() {
        let free = found.axes.iter().filter(|a| !known.is_elsewhere(link, driver, a));
        proposed = free.map(|a| known.name(driver, a)).collect();
    }
    if proposed.is_empty() {
        return Err(
            "every axis of the controller belongs to another stage of the file already; name that with --stage".into(),
        );
    }
    let proposal = proposed.join(" ");
    let names = ask(person, "Which axes are fitted", Some(&proposal), "--axis", |text| {
        let names: Vec<String> = text.split([' ', ',']).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        names.iter().try_for_each(|n| find(n).map(drop))?;
        if names.is_empty() { Err("name at least one".into()) } else { Ok(names) }
    })?;
    names.into_iter().map(|name| Ok((AxisFlags { name: name.clone(), ..AxisFlags::default() }, find(&name)?))).collect()
}

/// The unit of an axis.
fn unit_of(
    person: &mut dyn Person,
    flags: &AxisFlags,
    axis: &FoundAxis,
    known: Option<&KnownAxis>,
) -> Result<Unit, String> {
    if let Some(unit) = flags.unit {
        return Ok(unit);
    }
    let name = known.map_or(&axis.name, |k| &k.name);
    let proposal = known.map_or(axis.unit, |k| k.unit).name();
    ask(person, "  its unit", Some(proposal), &format!("--axis {name},unit=…"), |text| {
        let unit = Unit::parse(text).ok_or("one of nm, um, mm, deg, mdeg, mrad")?;
        let fits = unit.dimension() == axis.unit.dimension() || axis.unit.dimension() == Dimension::Angle;
        if fits || axis.counts.is_some() { Ok(unit) } else { Err("this axis moves by a length: nm, um or mm".into()) }
    })
}

/// The axis in its own measure, where its controller only counts: how many counts a unit takes is asked. It has no
/// proposal but what the file says, since a wrong number moves too far.
fn counted(
    person: &mut dyn Person,
    flags: AxisFlags,
    axis: FoundAxis,
    found: &Found,
    known: &Known,
) -> Result<(AxisFlags, FoundAxis), String> {
    let Some(what) = what_counts(found.driver) else {
        return match flags.counts {
            Some(_) => {
                Err(format!("{}: counts-per-unit has no meaning: this controller speaks of lengths", flags.name))
            }
            None => Ok((flags, axis)),
        };
    };
    let known = known.axis(found.driver, &axis);
    let name = known.map_or(&axis.name, |k| &k.name);
    if person.is_there() && (flags.unit.is_none() || flags.counts.is_none()) {
        person.say(&format!("\nAxis {name} (channel {}):", axis.channel));
    }
    let unit = unit_of(person, &flags, &axis, known)?;
    let was = known.filter(|k| k.unit.dimension() == unit.dimension()).and_then(|k| k.in_unit(unit).counts).map(plain);
    let counts = match flags.counts {
        Some(counts) => counts,
        None => {
            if person.is_there() {
                person.say(&format!("  {}{}.", what[..1].to_uppercase(), &what[1..]));
                if let Some(long) = axis.told.travel {
                    let long = plain(long.in_base());
                    person.say(&format!(
                        "  Its travel is {long} counts, if you know that rather: {long} divided by its length."
                    ));
                }
            }
            let question = format!("  how many counts take 1 {unit}");
            ask(person, &question, was.as_deref(), &format!("--axis {name},counts-per-unit=…"), positive).map_err(
                |e| if person.is_there() { e } else { format!("{e}. {}{}", what[..1].to_uppercase(), &what[1..]) },
            )?
        }
    };
    let axis = axis.counting(unit, counts);
    if axis.told.step.is_none_or(|s| s.in_base() <= 0.0) {
        return Err(format!("{name}: {} counts for 1 {unit} can't be", plain(counts)));
    }
    if let Some(range) = axis.told.range {
        let [low, high] = range.map(|end| plain(Distance::base(end).map_or(end, |d| d.to(unit))));
        person.say(&format!("  By that and the device's own limits {name} goes from {low} to {high} {unit}."));
    }
    Ok((AxisFlags { unit: Some(unit), ..flags }, axis))
}

fn one(
    person: &mut dyn Person,
    flags: &AxisFlags,
    axis: &FoundAxis,
    found: &Found,
    known: Option<&KnownAxis>,
    hand: Option<&Hand>,
) -> Result<AxisPlan, String> {
    let name = known.map_or(&axis.name, |k| &k.name);
    let flag = |key: &str| format!("--axis {name},{key}=…");
    if person.is_there() {
        person.say(&format!("\nAxis {name}:"));
    }
    let unit = unit_of(person, flags, axis, known)?;
    let known = known.filter(|k| k.unit.dimension() == unit.dimension()).map(|k| k.in_unit(unit));
    // Counts are in the base unit of the axis's dimension, mm or degrees.
    let to_unit = |base: f64| Distance::base(base).map_or(base, |d| d.to(unit));
    let setting = (found.driver == "grbl").then(|| found.axes.iter().position(|a| a.name == axis.name)).flatten();
    let was_sign = known.as_ref().and_then(|k| k.sign);
    let by_eye = match (flags.sign, hand) {
        (None, Some(hand)) if yes(person, "  move it to see which way it goes", was_sign.is_none())? => {
            hand.direction(person, axis, setting.map(|i| format!("${}", 100 + i)))?
        }
        _ => None,
    };
    // What the ruler said of the counts holds for all that was told in them.
    let by_ruler = by_eye.as_ref().and_then(|seen| seen.counts).map(|counts| axis.counting(unit, counts));
    let axis = by_ruler.as_ref().unwrap_or(axis);
    let seen = match flags.sign.or(by_eye.map(|seen| seen.sign)) {
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
    let tried = flags.sign.is_some() || by_eye.is_some() || was_sign.is_some();
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
        (None, Some(range), _) if found.homes == Some(true) => (Some(range), OWN_LIMIT),
        (None, Some(range), Some(_)) if own_ends(person, range.map(to_unit), unit)? => (Some(range), OWN_LIMIT),
        (None, _, Some(hand)) => (hand.ends(person, axis)?, "found by hand"),
        (None, range, None) => (range, OWN_LIMIT),
    };
    let home = if from == "found by hand" { None } else { axis.told.home };
    let derived = range.map(|r| placed(r, home, seen));
    let known_origin = flags.origin.or_else(|| kept.and_then(|k| k.origin));
    let travel = match (flags.travel, was_travel, derived) {
        (Some(travel), ..) => travel,
        (None, None, Some((origin, travel))) => {
            let shift = known_origin.map_or(0.0, |at| at - to_unit(origin));
            let travel = travel.map(|end| to_unit(end) + shift);
            let step = axis.counts.and(axis.told.step).map(|s| s.to(unit));
            step.map_or(travel, |step| inward(travel, step))
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
    let own = axis.told.max_speed.map(|v| v.to(unit));
    let own = own.map(|v| plain(if axis.counts.is_some() { rounded_down(v) } else { v }));
    let own = known.as_ref().and_then(|k| k.speed).map(plain).or(own);
    let speed = match flags.speed {
        Some(speed) => speed,
        None => ask(person, &format!("  how fast may it go, in {unit}/s"), own.as_deref(), &flag("speed"), positive)?,
    };
    let fine = axis.told.step.map_or(found.tolerance(), |s| (4.0 * s.in_base()).max(found.tolerance()));
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
        name: name.clone(),
        channel: known.as_ref().map_or(&axis.channel, |k| &k.channel).to_owned(),
        counts: axis.counts,
        unit,
        sign: seen,
        tried,
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

/// Where limits come from that the controller told, as the file says it.
const OWN_LIMIT: &str = "from the controller's own limit";

/// Whether the controller's own limits are taken, where nobody can know where it counts from.
fn own_ends(person: &mut dyn Person, [low, high]: [f64; 2], unit: Unit) -> Result<bool, String> {
    let question = format!(
        "  the controller lets itself be moved from {} to {} {unit} of its own counting: take these limits (no: find the ends)",
        plain(low),
        plain(high)
    );
    yes(person, &question, true)
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
