//! Commissioning: a person and the controller go through what only both together can see, in an order that hurts nothing.

use std::time::{Duration, Instant};

use super::super::init::person::{Person, ask, yes};
use super::super::init::probe::{self, Found, FoundAxis};
use super::super::init::teach::Hand;
use super::bench::Place;
use super::now;
use crate::flash::profile::Profile;
use crate::units::plain;

/// How long a person may take to press a switch.
const PRESS: Duration = Duration::from_secs(60);
/// How often the controller's word about its switches is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// The first step, in mm or degrees: nothing that it could hit is that near.
const FIRST: f64 = 0.1;

/// What was seen, line by line.
struct Report(Vec<String>);

impl Report {
    fn note(&mut self, what: impl Into<String>) {
        self.0.push(what.into());
    }
}

/// Goes through everything; the report of it. `rig` is the name of the rig that has this stage, if there is one.
///
/// # Errors
/// In words, when nobody is there, the controller isn't, or the person ends it; with the report so far.
pub(super) fn verify(
    place: &Place,
    driver: &str,
    profile: Option<&Profile>,
    rig: Option<&str>,
    person: &mut dyn Person,
) -> Result<String, String> {
    if !person.is_there() {
        return Err("commissioning asks a person at a terminal; standard input is none, or --yes was given".into());
    }
    let at = probe::Place::typed(&place.port);
    let found = probe::ask(&at, Some(driver), Some(place.baud), |_, _| {})?;
    let mut report = Report(vec![format!("Commissioning of {} at {}, {}", found.words(), place.port, now())]);
    person.say(&format!("Found {}.", found.words()));
    let mut found = found;
    scaled(&mut found, person)?;
    unbraked(&found, profile, person, &mut report)?;
    // A rig that is described already has its own audit log, and what a person has stopped of it stays stopped.
    let hand = Hand::on(&found, &at, &[rig.unwrap_or("flash")], None)?;
    let gone_through = go_through(&hand, &found, person, &mut report);
    hand.close();
    let text = report.0.join("\n");
    match gone_through {
        Ok(()) => Ok(text),
        Err(why) => Err(format!("{why}\nWhat was seen until then:\n{text}")),
    }
}

/// A controller that only counts: a person says how many counts a millimetre takes, or the axis is left out.
fn scaled(found: &mut Found, person: &mut dyn Person) -> Result<(), String> {
    let mut axes = Vec::new();
    for axis in &found.axes {
        if axis.counts.is_none() {
            axes.push(axis.clone());
            continue;
        }
        let question = format!("How many counts are one {} of {} (q: leave it out)", axis.base_unit(), axis.name);
        let counts = ask(person, &question, None, "--yes", |text| match text {
            "q" => Ok(None),
            text => super::super::init::person::positive(text).map(Some),
        })?;
        axes.extend(counts.map(|counts| axis.counting(axis.base_unit(), counts)));
    }
    found.axes = axes;
    if found.axes.is_empty() { Err("no axis is left".into()) } else { Ok(()) }
}

/// A vertical axis without a brake falls when its motor loses power: a person has to know before anything moves.
fn unbraked(
    found: &Found,
    profile: Option<&Profile>,
    person: &mut dyn Person,
    report: &mut Report,
) -> Result<(), String> {
    for axis in &found.axes {
        let said = profile.and_then(|p| p.motor(Some(&axis.channel)).holds_unpowered);
        if said == Some(true) {
            continue;
        }
        let question = format!(
            "Does {} stay where it is without power (a horizontal axis, a worm or a brake)? If it is vertical and doesn't, put \
             something under it first. Go on",
            axis.name
        );
        if !yes(person, &question, false)? {
            return Err(format!("{} may fall: nothing was moved", axis.name));
        }
        report.note(format!("{}: a person has seen to it that it can't fall", axis.name));
    }
    Ok(())
}

fn go_through(hand: &Hand, found: &Found, person: &mut dyn Person, report: &mut Report) -> Result<(), String> {
    for axis in &found.axes {
        switches(hand, axis, person, report)?;
    }
    for axis in &found.axes {
        a_step(hand, found, axis, person, report)?;
    }
    if found.homes == Some(false) {
        report.note("homing: the controller's homing cycle is off");
        person.say("The controller's homing cycle is off; positions have no reference.");
        return Ok(());
    }
    if yes(person, "Home now: all axes run to their switches. Is their way free", false)? {
        match hand.home(person) {
            Ok(()) => report.note("homing: done"),
            Err(why) => {
                report.note(format!("homing: FAILED: {why}"));
                return Err(format!("homing failed: {why}"));
            }
        }
    } else {
        report.note("homing: not tried");
    }
    Ok(())
}

/// Each switch is pressed by hand, while nothing moves, and the controller has to see it come and go.
fn switches(hand: &Hand, axis: &FoundAxis, person: &mut dyn Person, report: &mut Report) -> Result<(), String> {
    let question =
        format!("Press a limit switch of {} with your finger, after an empty line (n: it has none)", axis.name);
    if !ask(person, &question, Some("y"), "--yes", |t| Ok(!matches!(t, "n" | "no" | "-")))? {
        report.note(format!("{}: no limit switch, says the person", axis.name));
        return Ok(());
    }
    match wait_for(hand, &axis.name, true)? {
        true => person.say("  seen. Let go of it …"),
        false => {
            report.note(format!("{}: limit switch NOT seen within {} s", axis.name, PRESS.as_secs()));
            person.say("  The controller did not see it: wired to another axis, not at all, or inverted ($5 of GRBL).");
            return if yes(person, "Go on all the same", false)? {
                Ok(())
            } else {
                Err("a limit switch is not seen".into())
            };
        }
    }
    if !wait_for(hand, &axis.name, false)? {
        report.note(format!("{}: limit switch seen, but it STAYS pressed", axis.name));
        return Err(format!("the limit switch of {} stays pressed", axis.name));
    }
    report.note(format!("{}: limit switch pressed by hand and seen, and seen to open", axis.name));
    Ok(())
}

fn wait_for(hand: &Hand, axis: &str, pressed: bool) -> Result<bool, String> {
    let begun = Instant::now();
    while begun.elapsed() < PRESS {
        match hand.at_limit(axis) {
            Some(now) if now == pressed => return Ok(true),
            Some(_) => std::thread::park_timeout(LOOK),
            None => return Err("the controller is gone".into()),
        }
    }
    Ok(false)
}

/// A small step through the interlocks: which way did it go, and how far?
fn a_step(
    hand: &Hand,
    found: &Found,
    axis: &FoundAxis,
    person: &mut dyn Person,
    report: &mut Report,
) -> Result<(), String> {
    let place = found.axes.iter().position(|a| a.name == axis.name);
    let setting = (found.driver == "grbl").then_some(place).flatten().map(|i| format!("${}", 100 + i));
    match hand.seen(person, axis, setting, FIRST)? {
        None => report.note(format!("{}: no step was made", axis.name)),
        Some(seen) => {
            let way = if seen.sign > 0.0 { "as the controller counts" } else { "against the controller's count" };
            let scale = seen.counts.map_or(String::new(), |c| format!(", {} counts a unit by the ruler", plain(c)));
            report.note(format!("{}: a step was made; positive is {way}{scale}", axis.name));
        }
    }
    Ok(())
}
