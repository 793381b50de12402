//! Steps by hand before there is a rig file: each is typed by a person, small, slow, and cleared like any other move.

use std::path::Path;

use super::super::session::{IDENTIFY, Session};
use super::axis::{Scale, by_ruler, first_step, sign};
use super::interrupt::Guarded;
use super::person::{Person, ask, number, yes};
use super::probe::{self, Found, FoundAxis, Place, STAGE};
use crate::config::Rig;
use crate::model::{Aim, Code, Home, Move, Name, RigError, StageStatus};
use crate::plans::Sequence;
use crate::store::{PersonStop, Store};
use crate::units::{Distance, plain};

/// The longest single step, in mm or degrees.
const LONGEST: f64 = 10.0;
/// How far an axis may be taken from where it was found if it doesn't tell its travel, in mm or degrees.
const FAR: f64 = 300.0;

/// Refuses while a person's stop is on record for this rig.
fn not_stopped(rig: &Rig, data_dir: Option<&Path>) -> Result<(), String> {
    let stopped = Store::open(rig, data_dir).and_then(|store| PersonStop::open(store.data_dir()));
    let stopped = stopped.map_err(|e| e.what)?;
    if !stopped.stands() {
        return Ok(());
    }
    let since = stopped.words().map_or(String::new(), |words| format!(" ({words})"));
    Err(format!(
        "A person has stopped the rig {:?}{since}, and that still holds: nothing is moved. When it is safe, release it \
         with `steadyhand resume` while the rig is served.",
        rig.name.as_str()
    ))
}

/// What a person saw of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in super::super) struct Seen {
    /// The sign that makes their positive direction positive.
    pub(in super::super) sign: f64,
    /// How many counts one unit takes by their ruler, if that is to be taken.
    pub(in super::super) counts: Option<f64>,
}

/// A controller under a person's hand.
pub(in super::super) struct Hand {
    session: Guarded,
}

impl Hand {
    /// Opens the controller for steps by hand. They go into the audit log of the rig that is being written, and what a
    /// person has stopped of it, or of the rig that the file described before, is not moved.
    ///
    /// # Errors
    /// In words, when a person's stop stands, or when it can't be opened or isn't identified.
    pub(in super::super) fn on(
        found: &Found,
        place: &Place,
        rigs: &[&str],
        data_dir: Option<&Path>,
    ) -> Result<Hand, String> {
        let mut rig = probe::by_hand(found, place, window)?;
        for name in rigs.iter().rev() {
            rig.name = Name::new(name);
            not_stopped(&rig, data_dir)?;
        }
        let session = Session::open(rig, data_dir).map_err(|e| e.what)?;
        let state = session.identified(IDENTIFY);
        if state.stage(STAGE).is_none_or(|s| s.identity.is_none()) {
            let _ = session.close();
            return Err("the controller did not answer a second time".into());
        }
        Ok(Hand { session: Guarded::new(session)? })
    }

    /// Ends it. Axes that could not be seen to stand end the program.
    pub(in super::super) fn close(self) {
        self.session.close();
    }

    /// Homes all axes, and tells how it went.
    ///
    /// # Errors
    /// Why they were not homed.
    pub(in super::super) fn home(&self, person: &mut dyn Person) -> Result<(), String> {
        let home = Home { stage: Name::new(STAGE), axes: Vec::new() };
        person.say("  Homing: all axes run to their switches … Ctrl-C stops");
        let plan = Sequence::home("home, asked by the person at the terminal".into(), home);
        let homed = self.session.with(|s| s.run(plan)).map(drop).map_err(|e| e.what);
        person.say(&match &homed {
            Ok(()) => "  Homed.".to_owned(),
            Err(why) => format!("  Not homed: {why}"),
        });
        homed
    }

    /// Whether a limit switch of an axis is pressed now, as the controller says; `None` when it is gone.
    pub(in super::super) fn at_limit(&self, axis: &str) -> Option<bool> {
        Some(self.stage()?.axis(axis)?.at_limit)
    }

    /// The count of an axis now, in the base unit.
    fn count(&self, axis: &str) -> Option<f64> {
        Some(self.stage()?.axis(axis)?.position?.in_base())
    }

    fn stage(&self) -> Option<StageStatus> {
        self.session.with(|s| s.handle().snapshot()).stage(STAGE).cloned()
    }

    /// One step. A controller that is locked, or has a fault, is released first, if the person says so. What is refused
    /// is told with the way that is free.
    fn step(&self, person: &mut dyn Person, axis: &FoundAxis, way: f64) -> Result<(), String> {
        let refused = match self.try_step(person, axis, way) {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        let room = || {
            let room = self.count(&axis.name).and_then(|count| room(axis.told.range?, count, axis.base_unit().name()));
            room.unwrap_or_default()
        };
        let held = matches!(refused.code, Code::Faulted | Code::Alarm | Code::Stopped | Code::ControllerRefused);
        if !held {
            return Err(refused.what + &room());
        }
        person.say(&format!("  {}{}", refused.what, room()));
        if !yes(person, "  Release it, and try again", true)? {
            return Err("the step was not made".into());
        }
        self.session.with(|s| s.recover(&Name::new(STAGE))).map_err(|e| e.what)?;
        self.try_step(person, axis, way).map_err(|e| e.what + &room())
    }

    fn try_step(&self, person: &mut dyn Person, axis: &FoundAxis, way: f64) -> Result<(), RigError> {
        let gone = || RigError::new(Code::NotConnected, "The controller is gone.");
        let from = self.stage().ok_or_else(gone)?.epoch;
        let name = &axis.name;
        person.say(&format!("  moving {name} by {} {} … Ctrl-C stops", plain(way), axis.base_unit()));
        let way = Distance::base(way).map_err(|e| RigError::new(Code::InvalidArgument, e.to_string()))?;
        let aim = Aim::By { offsets: vec![(Name::new(name), way)], from };
        let movement = Move { stage: Name::new(STAGE), aim };
        let plan = Sequence::movement(format!("a step of {name} by hand"), movement);
        self.session.with(|s| s.run(plan)).map(drop)
    }

    /// Lets a person find both ends of an axis. The counts at them, the lower first; `None` when the person gives up.
    ///
    /// # Errors
    /// When the input ends.
    pub(super) fn ends(&self, person: &mut dyn Person, axis: &FoundAxis) -> Result<Option<[f64; 2]>, String> {
        let unit = axis.base_unit();
        person.say(&format!(
            "Find both ends of {}, in {unit}: type + or - for a step, a way as in +2.5 or -0.1, \"step 0.5\" for another \
             step, q to give up. An empty line: here is the end.",
            axis.name
        ));
        let mut ends = Vec::new();
        let mut step = 1.0;
        while ends.len() < 2 {
            let count = self.count(&axis.name).ok_or("the controller is gone")?;
            let which = ["one end", "the other end"][ends.len()];
            let Some(line) = person.line(&format!(
                "{} at {} {unit}, to {which}, step {} {unit}:",
                axis.name,
                plain(count),
                plain(step)
            )) else {
                return Err("the input has ended".into());
            };
            match typed(&line, step) {
                Ok(Typed::Way(way)) => {
                    if let Err(error) = self.step(person, axis, way) {
                        person.say(&format!("  {error}"));
                    }
                }
                Ok(Typed::Step(new)) => step = new,
                Ok(Typed::Here) => ends.push(count),
                Ok(Typed::Quit) => return Ok(None),
                Err(error) => person.say(&format!("  {error}")),
            }
        }
        let range = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        if range[1] - range[0] < 1e-6 {
            person.say("  Both ends are the same place.");
            return Ok(None);
        }
        Ok(Some(range))
    }

    /// Moves an axis a little and asks what was seen: the sign that makes the person's positive direction positive. A
    /// step that is refused is asked for again; `None` when the person leaves it.
    ///
    /// # Errors
    /// When the input ends, or the person does not go on with a wrong scale.
    pub(super) fn direction(
        &self,
        person: &mut dyn Person,
        axis: &FoundAxis,
        setting: Option<String>,
    ) -> Result<Option<Seen>, String> {
        self.seen(person, axis, setting, f64::INFINITY)
    }

    /// The same, with a first step that is proposed no longer than `most`.
    ///
    /// # Errors
    /// As [`Hand::direction`].
    pub(in super::super) fn seen(
        &self,
        person: &mut dyn Person,
        axis: &FoundAxis,
        setting: Option<String>,
        most: f64,
    ) -> Result<Option<Seen>, String> {
        let unit = axis.base_unit();
        let first = plain(first_step(axis.told.range, axis.told.home).clamp(-most, most));
        let question = format!("Move {} by how much, in {unit} (q: leave it)", axis.name);
        let way = loop {
            let way = ask(person, &question, Some(&first), "--axis", |t| {
                if t == "q" {
                    return Ok(None);
                }
                let way = number(t)?;
                let fits = way != 0.0 && way.abs() <= LONGEST;
                if fits { Ok(Some(way)) } else { Err(format!("at most {LONGEST}, and not 0")) }
            })?;
            let Some(way) = way else { return Ok(None) };
            match self.step(person, axis, way) {
                Ok(()) => break way,
                Err(error) => person.say(&format!("  {error}")),
            }
        };
        let seen = ask(
            person,
            "Which way did it go: + if that way shall be positive, - if it shall be negative",
            None,
            "--axis",
            sign,
        )?;
        let measured =
            ask(person, &format!("How far by the ruler, in {unit} (not measured: -)"), Some("-"), "--axis", |t| {
                if t == "-" { Ok(None) } else { number(t).map(Some) }
            })?;
        if let Some(measured) = measured
            && let Scale::Off { ratio, steps } = by_ruler(way, measured, axis.told.step.map(Distance::in_base))
        {
            if let Some(counts) = axis.counts.filter(|_| measured != 0.0).map(|c| c / ratio) {
                person.say(&format!(
                    "  It went {} times as far as it was told: by the ruler, counts_per_unit is {} for 1 {}, not {}. \
                     The product's specification is nearer than a ruler.",
                    plain(ratio),
                    plain(counts),
                    axis.unit,
                    axis.counts.map_or(String::new(), plain)
                ));
                let took = yes(person, "Take that (no: the number stays as it was)", false)?;
                return Ok(Some(Seen { sign: seen * way.signum(), counts: took.then_some(counts) }));
            }
            let setting = match (steps, setting) {
                (Some(s), Some(setting)) => format!(" Its steps per {unit} ({setting}) should be {}.", plain(s)),
                _ => String::new(),
            };
            person.say(&format!(
                "  It went {} times as far as it was told: the controller's scale is wrong, and every limit would be.\
                 {setting} Set it with the controller's own software; init writes no controller settings.",
                plain(ratio)
            ));
            if !yes(person, "Go on all the same", false)? {
                return Err("the controller's scale is wrong; nothing was written".into());
            }
        }
        Ok(Some(Seen { sign: seen * way.signum(), counts: None }))
    }
}

/// How far an axis may be taken from where it was found: it may stand anywhere in its travel.
fn window(axis: &FoundAxis) -> f64 {
    axis.told.travel.map_or(FAR, |t| 1.2 * t.in_base())
}

/// Which way is free from `count`, in the words of a refused step. What has no travel that it knows says nothing.
fn room([low, high]: [f64; 2], count: f64, unit: &str) -> Option<String> {
    let ends = [(count - low, '-'), (high - count, '+')];
    let free = |(way, sign): (f64, char)| {
        let whole = plain((way * 1000.0).floor() / 1000.0);
        (way >= 0.001).then(|| format!("{sign}{whole} {unit}"))
    };
    let free: Vec<String> = ends.into_iter().filter_map(free).collect();
    (!free.is_empty()).then(|| format!(" From here the controller lets it go at most {}.", free.join(" or ")))
}

/// What a person typed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Typed {
    Way(f64),
    Step(f64),
    Here,
    Quit,
}

fn typed(line: &str, step: f64) -> Result<Typed, String> {
    let bounded = |way: f64| {
        if way.abs() <= LONGEST { Ok(way) } else { Err(format!("one step is at most {LONGEST}")) }
    };
    match line {
        "" => Ok(Typed::Here),
        "q" => Ok(Typed::Quit),
        "+" => Ok(Typed::Way(step)),
        "-" => Ok(Typed::Way(-step)),
        _ => match line.strip_prefix("step ") {
            Some(new) => super::person::positive(new.trim()).and_then(bounded).map(Typed::Step),
            None if line.starts_with(['+', '-']) => number(line).and_then(bounded).map(Typed::Way),
            None => Err("type +, -, a way with its sign, \"step 0.5\", q, or nothing".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_step_is_told_with_the_way_that_is_free() {
        let told = |count| room([-75.0, 0.0], count, "mm").unwrap_or_default();
        assert_eq!(told(-1.5), " From here the controller lets it go at most -73.5 mm or +1.5 mm.");
        assert_eq!(told(0.0), " From here the controller lets it go at most -75 mm.");
        // What is left of a millimetre is never said to be more than it is.
        assert_eq!(told(-74.9999), " From here the controller lets it go at most +74.999 mm.");
        assert_eq!(room([0.0, 0.0], 0.0, "mm"), None);
    }

    #[test]
    fn what_is_typed_is_a_small_step_or_nothing() {
        assert_eq!(typed("+", 0.5), Ok(Typed::Way(0.5)));
        assert_eq!(typed("-", 0.5), Ok(Typed::Way(-0.5)));
        assert_eq!(typed("-2.5", 1.0), Ok(Typed::Way(-2.5)));
        assert_eq!(typed("step 0.1", 1.0), Ok(Typed::Step(0.1)));
        assert_eq!((typed("", 1.0), typed("q", 1.0)), (Ok(Typed::Here), Ok(Typed::Quit)));
        for bad in ["5", "+11", "-1e3", "+nan", "step 0", "step 50", "go", "+-1"] {
            assert!(typed(bad, 1.0).is_err(), "{bad}");
        }
    }
}
