//! Which controller answers on a port: a table of what may be asked, and the real drivers to ask it.

use std::path::Path;

use super::super::session::{IDENTIFY, Session, why_not};
use crate::config::{self, Rig};
use crate::devices;
use crate::model::{Identity, Name, ToldAxis, Trust};
use crate::store::PersonStop;
use crate::units::{Position, Span, Unit, plain};

/// A kind of controller that is looked for.
pub(super) struct Probe {
    /// The driver that asks.
    pub(super) driver: &'static str,
    /// Its usual rates, the usual one first.
    pub(super) rates: &'static [u32],
    /// The axes it may have: name, the controller's own name, unit.
    pub(super) axes: &'static [(&'static str, &'static str, Unit)],
}

/// What is looked for, in this order. What is asked of a device that is another one must do it no harm.
pub(super) const PROBES: &[Probe] = &[Probe {
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
}];

/// What to do about the controllers that are not looked for.
const ELSE: &str = "init knows controllers that speak GRBL. For Zaber devices start from rigs/zaber-chain.toml, for ASI \
                    (MS-2000, Tiger) from rigs/asi-xy.toml: copy it, write the port and the limits, and run `steadyhand doctor`";

/// The stage of the rigs that are made up here.
pub(super) const STAGE: &str = "stage";

/// An axis that a controller has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundAxis {
    pub(super) name: &'static str,
    pub(super) channel: &'static str,
    pub(super) unit: Unit,
    /// What the controller says of it.
    pub(super) told: ToldAxis,
    /// Its count (base unit) when it was read.
    pub(super) count: f64,
}

/// A controller that answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) driver: &'static str,
    pub(super) baud: u32,
    pub(super) identity: Identity,
    pub(super) axes: Vec<FoundAxis>,
    /// Whether its homing cycle is on, if it tells.
    pub(super) homes: Option<bool>,
}

/// Where a controller is: the value of `serial` or `tcp` in a rig file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A serial port's path.
    Path(String),
    /// `host:port`.
    Tcp(String),
}

impl Place {
    /// From what a person types: a path, or `tcp://host:port`.
    pub(super) fn typed(text: &str) -> Place {
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

/// A rig with nothing but this controller, all axes it may have, and no meaning for positions: rig = count.
///
/// # Errors
/// In words, when the port can't stand in a rig file.
pub(super) fn bare(probe: &Probe, place: &Place, baud: u32) -> Result<Rig, String> {
    let order: Vec<String> = probe.axes.iter().map(|(name, ..)| format!("{name:?}")).collect();
    let mut text = format!(
        "[rig]\nname = \"init\"\n[[link]]\nid = \"port\"\n{}[[stage]]\nid = \"{STAGE}\"\ndriver = \"{}\"\nlink = \"port\"\n\
         home = {{ order = [{}], timeout_s = 180 }}\n",
        place.lines(baud),
        probe.driver,
        order.join(", ")
    );
    for (name, channel, unit) in probe.axes {
        text += &format!(
            "[stage.axes.{name}]\nchannel = {channel:?}\nunit = \"{unit}\"\nsign = 1\norigin = 0.0\n\
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
pub(super) fn ask(
    place: &Place,
    driver: Option<&str>,
    baud: Option<u32>,
    mut trying: impl FnMut(&str, u32),
) -> Result<Found, String> {
    let mut said = Vec::new();
    for probe in PROBES.iter().filter(|p| driver.is_none_or(|d| d == p.driver)) {
        let rates: Vec<u32> = match (place, baud) {
            (Place::Tcp(_), _) => vec![0],
            (_, Some(rate)) => vec![rate],
            (_, None) => probe.rates.to_vec(),
        };
        for rate in rates {
            trying(probe.driver, rate);
            match once(probe, place, rate)? {
                Answer::Here(found) => return Ok(found),
                Answer::Silent(what) => said.push(what),
                // Another rate changes nothing about that.
                Answer::NoPort(what) => return Err(what),
            }
        }
    }
    if said.is_empty() {
        let known: Vec<&str> = PROBES.iter().map(|p| p.driver).collect();
        return Err(format!("there is no such driver to look for; there are: {}. {ELSE}", known.join(", ")));
    }
    said.dedup();
    Err(format!("nobody was recognised. {} {ELSE}", said.join(" ")))
}

enum Answer {
    Here(Found),
    Silent(String),
    NoPort(String),
}

fn once(probe: &Probe, place: &Place, baud: u32) -> Result<Answer, String> {
    let session = Session::look(bare(probe, place, baud)?, PersonStop::in_memory()).map_err(|e| e.to_string())?;
    let state = session.identified(IDENTIFY);
    let _ = session.close();
    let Some(stage) = state.stage(STAGE) else { return Err("the rig thread ended".into()) };
    let Some(identity) = &stage.identity else {
        let what = why_not(stage);
        return Ok(if stage.link.open { Answer::Silent(what) } else { Answer::NoPort(what) });
    };
    let told = stage.told.as_deref().cloned().unwrap_or_default();
    let axes = probe.axes.iter().zip(&stage.axes).enumerate().filter_map(|(i, ((name, channel, unit), status))| {
        let told = told.axes.get(i).cloned().unwrap_or_default();
        Some(FoundAxis { name, channel, unit: *unit, told, count: status.position?.in_base() })
    });
    let found =
        Found { driver: probe.driver, baud, identity: identity.clone(), axes: axes.collect(), homes: told.homes };
    Ok(Answer::Here(found))
}

/// The rig by which a person's small steps are judged before there is a rig file: any trust will do, but steps are slow,
/// and no axis leaves the window around where it was found.
///
/// # Errors
/// As [`bare`].
pub(super) fn by_hand(found: &Found, place: &Place, window: impl Fn(&FoundAxis) -> f64) -> Result<Rig, String> {
    let probe = PROBES.iter().find(|p| p.driver == found.driver).ok_or("the driver is gone")?;
    let mut rig = bare(probe, place, found.baud)?;
    for stage in &mut rig.stages {
        stage.axes.retain(|a| found.axes.iter().any(|f| f.name == a.id.axis.as_str()));
        if let config::Homing::Cycle { order, .. } = &mut stage.home {
            order.retain(|n: &Name| found.axes.iter().any(|f| f.name == n.as_str()));
        }
        for axis in &mut stage.axes {
            let Some(f) = found.axes.iter().find(|f| f.name == axis.id.axis.as_str()) else { continue };
            // A board that restarts when its port is opened counts from zero again.
            let (low, high) = (f.count.min(0.0) - window(f), f.count.max(0.0) + window(f));
            let end = |v: f64| Position::base(v).map_err(|e| e.to_string());
            axis.travel = Span::between(end(low)?, end(high)?);
            axis.trust = Trust::Unknown;
            let slow = crate::units::Speed::base(SLOW).map_err(|e| e.to_string())?;
            axis.max_speed = f.told.max_speed.map_or(slow, |own| own.min(slow));
            if let Some(step) = f.told.step {
                axis.tolerance =
                    axis.tolerance.max(crate::units::Distance::base(2.0 * step.in_base()).unwrap_or_default());
            }
        }
    }
    Ok(rig)
}

/// How fast steps by hand go, in mm or degrees per second.
const SLOW: f64 = 2.0;

impl Found {
    /// What a person reads about it.
    pub(super) fn words(&self) -> String {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|a| match a.told.travel {
                Some(t) => format!("{} ({} {})", a.name, plain(t.to(a.unit)), a.unit),
                None => a.name.to_owned(),
            })
            .collect();
        let who = format!("{} {}", self.identity.model, self.identity.firmware);
        format!("{} with the axes {}", who.trim(), axes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Distance, Speed};

    #[test]
    fn each_probe_makes_a_rig_that_its_driver_takes() {
        for probe in PROBES {
            for place in [Place::typed("/dev/tty\"odd"), Place::typed(r"\\.\COM12"), Place::typed("tcp://10.0.0.1:23")]
            {
                let rig = bare(probe, &place, probe.rates[0]).expect("a rig");
                assert_eq!(rig.stages[0].axes.len(), probe.axes.len());
            }
        }
    }

    #[test]
    fn who_has_another_controller_is_told_where_to_start_and_the_files_are_there() {
        let refused = ask(&Place::typed("/dev/none"), Some("zaber"), None, |_, _| {}).expect_err("not looked for");
        for (file, text) in [
            ("rigs/zaber-chain.toml", include_str!("../../../rigs/zaber-chain.toml")),
            ("rigs/asi-xy.toml", include_str!("../../../rigs/asi-xy.toml")),
        ] {
            assert!(refused.contains(file) && !text.is_empty(), "{refused}");
        }
    }

    #[test]
    fn steps_by_hand_are_slow_and_stay_in_a_window() {
        let told =
            ToldAxis { step: Distance::base(0.1).ok(), max_speed: Speed::base(50.0).ok(), ..ToldAxis::default() };
        let axis = FoundAxis { name: "x", channel: "X", unit: Unit::Mm, told, count: -40.0 };
        let found =
            Found { driver: "grbl", baud: 115_200, identity: Identity::default(), axes: vec![axis], homes: None };
        let rig = by_hand(&found, &Place::typed("/dev/a"), |_| 100.0).expect("a rig");
        let x = &rig.stages[0].axes[0];
        assert_eq!((x.travel.low.in_base(), x.travel.high.in_base()), (-140.0, 100.0));
        assert_eq!((x.max_speed.in_base(), x.tolerance.in_base()), (2.0, 0.2));
        assert_eq!(rig.stages[0].axes.len(), 1, "axes that it doesn't have are left out");
    }
}
