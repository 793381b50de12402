//! Which controller answers on a port: a table of what may be asked, and the real drivers to ask it.

use std::path::Path;
use std::time::Duration;

use super::super::session::{IDENTIFY, Session, why_not};
use crate::actor::look_round;
use crate::config::{self, Rig};
use crate::devices::{self, Open, Surveyed};
use crate::model::{Identity, ToldAxis, Trust};
use crate::store::PersonStop;
use crate::units::{Dimension, Distance, Position, Span, Speed, Unit, plain};

/// A kind of controller that is looked for.
pub(super) struct Probe {
    /// The driver that asks.
    pub(super) driver: &'static str,
    /// Its usual rates, the usual one first.
    pub(super) rates: &'static [u32],
    /// The axes it may have: name, the controller's own name, unit. Empty where a survey finds them.
    pub(super) axes: &'static [(&'static str, &'static str, Unit)],
    /// The finest tolerance that is proposed, in mm or degrees.
    pub(super) tolerance: f64,
    /// Limits that say only that nobody has set any, in mm or degrees.
    unset: Option<[f64; 2]>,
}

/// What is looked for, in this order at each rate. What is asked of a device that is another one must do it no harm:
/// GRBL refuses the lines of both others as no G-code and its `?` and `$I` mean nothing to them; a Zaber device heeds
/// only what begins with `/`, and ASI's `/` alone asks it for its state; an ASI controller takes what ends with LF for
/// the beginning of a line and refuses it at the next CR.
pub(super) const PROBES: &[Probe] = &[
    Probe {
        driver: "grbl",
        rates: &[115_200, 250_000, 57_600, 9600],
        axes: &[
            ("x", "X", Unit::Mm),
            ("y", "Y", Unit::Mm),
            ("z", "Z", Unit::Mm),
            ("a", "A", Unit::Deg),
            ("b", "B", Unit::Deg),
            ("c", "C", Unit::Deg),
        ],
        // What counters are reported with, ten times over.
        tolerance: 0.01,
        unset: None,
    },
    Probe { driver: "zaber", rates: &[115_200, 9600], axes: &[], tolerance: 0.001, unset: None },
    Probe {
        driver: "asi",
        rates: &[115_200, 9600, 19_200, 28_800],
        axes: &[],
        tolerance: 0.001,
        // asiimaging.com/docs, SETLOW and SETUP.
        unset: Some([-110.0, 110.0]),
    },
];

/// What to do about the controllers that are not looked for.
const ELSE: &str = "init knows controllers that speak GRBL, Zaber's ASCII protocol and ASI's serial commands; \
                    docs/add-a-driver.md shows how another is added";

/// The stage of the rigs that are made up here.
pub(super) const STAGE: &str = "stage";

/// The longest that a survey may take: a board that boots, and each question unanswered once.
const SURVEY: Duration = Duration::from_secs(20);

/// An axis that a controller has.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct FoundAxis {
    pub(in super::super) name: String,
    pub(in super::super) channel: String,
    pub(in super::super) unit: Unit,
    /// How many counts one `unit` takes, of a controller that only counts. 1 until a person says it: `told` and
    /// `count` are in counts then.
    pub(in super::super) counts: Option<f64>,
    /// What the controller says of it.
    pub(in super::super) told: ToldAxis,
    /// Its count (base unit) when it was read.
    pub(in super::super) count: f64,
}

impl FoundAxis {
    /// The unit in which it is moved by hand and in which counts are told.
    pub(in super::super) fn base_unit(&self) -> Unit {
        if self.unit.dimension() == Dimension::Angle { Unit::Deg } else { Unit::Mm }
    }

    /// The same, now that it is known how many counts one `unit` takes.
    pub(in super::super) fn counting(&self, unit: Unit, counts: f64) -> FoundAxis {
        let size = |counts: f64, unit| Distance::new(1.0 / counts, unit).map_or(f64::NAN, Distance::in_base);
        let factor = size(counts, unit) / size(self.counts.unwrap_or(1.0), self.unit);
        let way = |d: Distance| Distance::base(d.in_base() * factor).ok();
        FoundAxis {
            unit,
            counts: Some(counts),
            told: ToldAxis {
                max_speed: self.told.max_speed.and_then(|v| Speed::base(v.in_base() * factor).ok()),
                step: self.told.step.and_then(way),
                travel: self.told.travel.and_then(way),
                range: self.told.range.map(|r| r.map(|end| end * factor)),
                home: self.told.home.map(|home| home * factor),
                acceleration: self.told.acceleration.map(|a| a * factor),
            },
            count: self.count * factor,
            ..self.clone()
        }
    }
}

/// A channel as the driver spells it, so that two that mean the same are equal.
pub(super) fn spelled(driver: &str, channel: &str) -> String {
    match devices::driver(driver).map(|d| &d.open) {
        Some(Open::Stage { axes, .. }) => (axes.channel)(channel).unwrap_or_else(|| channel.to_owned()),
        _ => channel.to_owned(),
    }
}

/// What a count is, for people, of a driver whose controllers only count.
pub(in super::super) fn what_counts(driver: &str) -> Option<&'static str> {
    match devices::driver(driver).map(|d| &d.open) {
        Some(Open::Stage { axes, .. }) => axes.counts,
        _ => None,
    }
}

/// A controller that answered.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Found {
    pub(in super::super) driver: &'static str,
    pub(in super::super) baud: u32,
    pub(in super::super) identity: Identity,
    pub(in super::super) axes: Vec<FoundAxis>,
    /// Whether its homing cycle is on, if it tells.
    pub(in super::super) homes: Option<bool>,
}

/// Where a controller is: the value of `serial` or `tcp` in a rig file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Place {
    /// A serial port's path.
    Path(String),
    /// `host:port`.
    Tcp(String),
}

impl Place {
    /// From what a person types: a path, or `tcp://host:port`.
    pub(in super::super) fn typed(text: &str) -> Place {
        match text.strip_prefix("tcp://") {
            Some(address) => Place::Tcp(address.to_owned()),
            None => Place::Path(text.to_owned()),
        }
    }

    /// Its lines in a [[link]].
    pub(super) fn lines(&self, baud: u32) -> String {
        match self {
            Place::Path(path) => format!("serial = {}\nbaud = {baud}\n", toml_edit::Value::from(path.as_str())),
            Place::Tcp(address) => format!("tcp = {}\n", toml_edit::Value::from(address.as_str())),
        }
    }
}

/// A rig with nothing but this controller, these axes, and no meaning for positions: rig = count.
///
/// # Errors
/// In words, when the port can't stand in a rig file.
pub(super) fn bare(driver: &str, place: &Place, baud: u32, axes: &[FoundAxis]) -> Result<Rig, String> {
    let order: Vec<String> = axes.iter().map(|a| format!("{:?}", a.name)).collect();
    let mut text = format!(
        "[rig]\nname = \"init\"\n[[link]]\nid = \"port\"\n{}[[stage]]\nid = \"{STAGE}\"\ndriver = \"{driver}\"\nlink = \"port\"\n\
         home = {{ order = [{}], timeout_s = 180 }}\n",
        place.lines(baud),
        order.join(", ")
    );
    for FoundAxis { name, channel, unit, counts, .. } in axes {
        let counts = counts.map_or(String::new(), |c| format!("counts_per_unit = {}\n", plain(c)));
        text += &format!(
            "[stage.axes.{name}]\nchannel = {channel:?}\n{counts}unit = \"{unit}\"\nsign = 1\norigin = 0.0\n\
             travel = [-1e6, 1e6]\nmax_speed_per_s = 1.0\ntolerance = 0.05\ntrust = \"referenced\"\n\
             holds_unpowered = true\n"
        );
    }
    config::parse(&text, Path::new("init"), &devices::known()).map_err(|p| p.render_plain())
}

/// Asks what is there. `driver` and `baud` narrow the search.
///
/// # Errors
/// What was tried and what each said, when nobody answered.
pub(in super::super) fn ask(
    place: &Place,
    driver: Option<&str>,
    baud: Option<u32>,
    mut trying: impl FnMut(&str, u32),
) -> Result<Found, String> {
    let probes: Vec<&Probe> = PROBES.iter().filter(|p| driver.is_none_or(|d| d == p.driver)).collect();
    if probes.is_empty() {
        let known: Vec<&str> = PROBES.iter().map(|p| p.driver).collect();
        return Err(format!("there is no such driver to look for; there are: {}. {ELSE}", known.join(", ")));
    }
    // The usual rate of each comes before the others of any.
    let rates = |p: &Probe| match (place, baud) {
        (Place::Tcp(_), _) => vec![0],
        (_, Some(rate)) => vec![rate],
        (_, None) => p.rates.to_vec(),
    };
    let most = probes.iter().map(|p| rates(p).len()).max().unwrap_or(0);
    let mut said = Vec::new();
    for (probe, rate) in (0..most).flat_map(|i| probes.iter().filter_map(move |p| Some((*p, *rates(p).get(i)?)))) {
        trying(probe.driver, rate);
        match once(probe, place, rate)? {
            Answer::Here(found) => return Ok(found),
            Answer::Silent(what) if said.contains(&what) => {}
            Answer::Silent(what) => said.push(what),
            // Another rate changes nothing about that.
            Answer::NoPort(what) => return Err(what),
        }
    }
    Err(format!("nobody was recognised. {} {ELSE}", said.join(" ")))
}

enum Answer {
    Here(Found),
    Silent(String),
    NoPort(String),
}

/// The axes that may be there.
fn candidates(probe: &Probe, place: &Place, baud: u32) -> Result<Result<Vec<FoundAxis>, Answer>, String> {
    let counts = what_counts(probe.driver).map(|_| 1.0);
    let axis = |name: String, channel: &str, unit| FoundAxis {
        name,
        channel: channel.to_owned(),
        unit,
        counts,
        told: ToldAxis::default(),
        count: 0.0,
    };
    let known = probe.axes.iter().map(|(name, channel, unit)| axis((*name).to_owned(), channel, *unit));
    if !probe.axes.is_empty() {
        return Ok(Ok(known.collect()));
    }
    // Which channel stands in it means nothing: only its link is opened.
    let channel = if counts.is_some() { "1" } else { "X" };
    let rig = bare(probe.driver, place, baud, &[axis("x".into(), channel, Unit::Mm)])?;
    let link = rig.links.first().ok_or("the rig has no link")?;
    let survey = devices::survey(probe.driver, devices::link::connector(link)).ok_or("the driver has no survey")?;
    let channels = match look_round(survey, SURVEY) {
        Surveyed::Here(channels) => channels,
        Surveyed::NoPort(what) => return Ok(Err(Answer::NoPort(what))),
        Surveyed::Silent => {
            let rate = if baud == 0 { String::new() } else { format!(" at {baud} baud") };
            return Ok(Err(Answer::Silent(format!("Nobody answers as a device of driver {}{rate}.", probe.driver))));
        }
    };
    let names = ["x", "y", "z", "a", "b", "c"];
    let named = channels.iter().enumerate().map(|(i, channel)| {
        let letter =
            channel.chars().next().filter(char::is_ascii_alphabetic).map(|l| l.to_ascii_lowercase().to_string());
        let usual = || names.get(i).map_or_else(|| format!("axis{}", i + 1), |n| (*n).to_owned());
        axis(letter.unwrap_or_else(usual), channel, Unit::Mm)
    });
    Ok(Ok(named.collect()))
}

fn once(probe: &Probe, place: &Place, baud: u32) -> Result<Answer, String> {
    let candidates = match candidates(probe, place, baud)? {
        Ok(axes) => axes,
        Err(answer) => return Ok(answer),
    };
    let session = Session::look(bare(probe.driver, place, baud, &candidates)?, PersonStop::in_memory())
        .map_err(|e| e.to_string())?;
    let state = session.identified(IDENTIFY);
    let _ = session.close();
    let Some(stage) = state.stage(STAGE) else { return Err("the rig thread ended".into()) };
    let Some(identity) = &stage.identity else {
        let what = why_not(stage);
        return Ok(if stage.link.open { Answer::Silent(what) } else { Answer::NoPort(what) });
    };
    let all = stage.told.as_deref().cloned().unwrap_or_default();
    let axes = candidates.into_iter().zip(&stage.axes).enumerate().filter_map(|(i, (axis, status))| {
        let mut told = all.axes.get(i).cloned().unwrap_or_default();
        if probe.unset.is_some() && told.range == probe.unset {
            (told.range, told.travel) = (None, None);
        }
        Some(FoundAxis { told, count: status.position?.in_base(), ..axis })
    });
    let found =
        Found { driver: probe.driver, baud, identity: identity.clone(), axes: axes.collect(), homes: all.homes };
    Ok(Answer::Here(found))
}

/// The rig by which a person's small steps are judged before there is a rig file: any trust will do, but steps are slow,
/// and no axis leaves the window around where it was found.
///
/// # Errors
/// As [`bare`].
pub(super) fn by_hand(found: &Found, place: &Place, window: impl Fn(&FoundAxis) -> f64) -> Result<Rig, String> {
    let mut rig = bare(found.driver, place, found.baud, &found.axes)?;
    for stage in &mut rig.stages {
        for axis in &mut stage.axes {
            let Some(f) = found.axes.iter().find(|f| f.name == axis.id.axis.as_str()) else { continue };
            // A board that restarts when its port is opened counts from zero again.
            let (low, high) = (f.count.min(0.0) - window(f), f.count.max(0.0) + window(f));
            let end = |v: f64| Position::base(v).map_err(|e| e.to_string());
            axis.travel = Span::between(end(low)?, end(high)?);
            axis.trust = Trust::Unknown;
            let slow = Speed::base(SLOW).map_err(|e| e.to_string())?;
            axis.max_speed = f.told.max_speed.map_or(slow, |own| own.min(slow));
            if let Some(step) = f.told.step {
                axis.tolerance = axis.tolerance.max(Distance::base(2.0 * step.in_base()).unwrap_or_default());
            }
        }
    }
    Ok(rig)
}

/// How fast steps by hand go, in mm or degrees per second.
const SLOW: f64 = 2.0;

impl Found {
    /// The finest tolerance that is proposed for its axes, in mm or degrees.
    pub(super) fn tolerance(&self) -> f64 {
        PROBES.iter().find(|p| p.driver == self.driver).map_or(0.01, |p| p.tolerance)
    }

    /// What a person reads about it.
    pub(in super::super) fn words(&self) -> String {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|a| match (a.told.travel, a.counts) {
                (Some(t), None) => format!("{} ({} {})", a.name, plain(t.to(a.unit)), a.unit),
                (Some(t), Some(_)) => format!("{} ({}, {} counts long)", a.name, a.channel, plain(t.in_base())),
                (None, Some(_)) => format!("{} ({})", a.name, a.channel),
                (None, None) => a.name.clone(),
            })
            .collect();
        let who = format!("{} {}", self.identity.model, self.identity.firmware);
        format!("{} with the axes {}", who.trim(), axes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(name: &str, channel: &str, counts: Option<f64>) -> FoundAxis {
        let told = ToldAxis {
            step: Distance::base(0.1).ok(),
            max_speed: Speed::base(50.0).ok(),
            range: Some([0.0, 100.0]),
            ..ToldAxis::default()
        };
        FoundAxis { name: name.into(), channel: channel.into(), unit: Unit::Mm, counts, told, count: -40.0 }
    }

    #[test]
    fn what_is_looked_for_makes_a_rig_that_its_driver_takes() {
        for (driver, channel, counts) in [("grbl", "X", None), ("zaber", "2.1", Some(2015.748)), ("asi", "F", None)] {
            assert!(PROBES.iter().any(|p| p.driver == driver));
            assert_eq!(what_counts(driver).is_some(), counts.is_some());
            for place in [Place::typed("/dev/tty\"odd"), Place::typed(r"\\.\COM12"), Place::typed("tcp://10.0.0.1:23")]
            {
                let rig = bare(driver, &place, 115_200, &[axis("x", channel, counts)]).expect("a rig");
                assert_eq!(rig.stages[0].axes.len(), 1);
            }
        }
    }

    #[test]
    fn a_driver_that_is_not_looked_for_is_refused_by_those_that_are() {
        let refused = ask(&Place::typed("/dev/none"), Some("marlin"), None, |_, _| {}).expect_err("not looked for");
        assert!(refused.contains("grbl, zaber, asi"), "{refused}");
    }

    #[test]
    fn channels_that_mean_the_same_are_equal() {
        assert_eq!(spelled("zaber", "1"), spelled("zaber", "01.1"));
        assert_ne!(spelled("zaber", "2.1"), spelled("zaber", "2.2"));
        assert_eq!(spelled("asi", "x"), "X");
    }

    #[test]
    fn what_was_told_in_counts_is_told_in_the_unit_once_a_count_is_known() {
        let mm = axis("x", "1", Some(1.0)).counting(Unit::Mm, 4.0);
        assert_eq!((mm.told.range, mm.count), (Some([0.0, 25.0]), -10.0));
        assert_eq!(mm.told.max_speed.map(|v| v.in_base()), Some(12.5));
        // The base unit stays mm, whatever the axis is spoken of in.
        let um = mm.counting(Unit::Um, 0.008);
        assert!(um.told.range.is_some_and(|[_, high]| (high - 12.5).abs() < 1e-9), "{um:?}");
    }

    #[test]
    fn steps_by_hand_are_slow_and_stay_in_a_window() {
        let axes = vec![axis("x", "X", None)];
        let found = Found { driver: "grbl", baud: 115_200, identity: Identity::default(), axes, homes: None };
        let rig = by_hand(&found, &Place::typed("/dev/a"), |_| 100.0).expect("a rig");
        let x = &rig.stages[0].axes[0];
        assert_eq!((x.travel.low.in_base(), x.travel.high.in_base()), (-140.0, 100.0));
        assert_eq!((x.max_speed.in_base(), x.tolerance.in_base()), (2.0, 0.2));
        assert_eq!(rig.stages[0].axes.len(), 1, "axes that it doesn't have are left out");
    }
}
