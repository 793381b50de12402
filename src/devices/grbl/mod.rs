//! GRBL 1.1 and its relatives: one controller with up to six axes on a serial line.
//!
//! Moves are jogs in machine coordinates (`$J=G53…`), so that a stop is the jog-cancel byte, which raises no
//! alarm and loses no position, and so that no work offset and no mode of somebody else matters.

mod codec;
mod dialect;
mod driver;
mod fronts;
mod questions;
mod settings;

use super::link::Connector;
use super::shared::Shared;
use super::{Driver, Family, Made, OnLink, Open};
use crate::config::{AxisRules, Channels};
use crate::interlocks::StageTraits;
use crate::model::{Evidence, OutputKind, SensorKind, Source};

/// What its codec makes of bytes that come in pieces.
pub(super) fn frames(pieces: &[&[u8]]) -> Vec<String> {
    let (mut lines, mut found) = (codec::Lines::default(), Vec::new());
    for piece in pieces {
        lines.push(piece, |raw| {
            found.push(match raw {
                codec::Raw::Line(text) => format!("{:?}", codec::parse(&text)),
                damaged => format!("{damaged:?}"),
            });
        });
    }
    found
}

/// One controller answers for all devices on its link.
const FAMILY: Option<Family> = Some(Family { name: "grbl", stages_per_link: 1 });

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "grbl",
    what: "GRBL 1.1 controllers and relatives (0.9, grblHAL, FluidNC) on a serial line",
    evidence: Evidence::IndependentHost,
    simulated: false,
    family: FAMILY,
    keeping: Some(&settings::KEEPING),
    open: Open::Stage {
        traits: StageTraits { coordinated: true, homes_single_axes: false },
        source: Source::Counter,
        axes: AxisRules {
            channel: |text| codec::axis_letter(text).map(|(letter, _)| letter.to_string()),
            channels: "\"X\", \"Y\", \"Z\", \"A\", \"B\" or \"C\"",
            counts: None,
        },
        engine,
    },
};

/// The row of its coolant outputs, which switch whatever is wired to them, also while axes move.
pub(super) const COOLANT: Driver = Driver {
    name: "grbl-coolant",
    what: "a shutter or a line on GRBL's coolant output, toggled by a real-time byte and confirmed by the reports",
    evidence: Evidence::Manual,
    simulated: false,
    family: FAMILY,
    keeping: None,
    open: Open::Output {
        kinds: &[OutputKind::Shutter, OutputKind::Line],
        channels: Channels::Of(&["flood", "mist"]),
        engine,
    },
};

/// The row of its spindle output.
pub(super) const SPINDLE: Driver = Driver {
    name: "grbl-spindle",
    what: "a light on GRBL's spindle PWM; GRBL changes it only while its axes stand",
    evidence: Evidence::Manual,
    simulated: false,
    family: FAMILY,
    keeping: None,
    open: Open::Output { kinds: &[OutputKind::Light], channels: Channels::One, engine },
};

/// The row of its input pins.
pub(super) const PINS: Driver = Driver {
    name: "grbl-pins",
    what: "an input pin of GRBL: limit switches, probe, door, hold, reset, start",
    evidence: Evidence::Manual,
    simulated: false,
    family: FAMILY,
    keeping: None,
    open: Open::Sensor {
        kinds: &[SensorKind::Digital],
        channels: Channels::Of(&["P", "D", "H", "R", "S", "X", "Y", "Z", "A", "B", "C"]),
        engine,
    },
};

/// A link of this family has at most one stage.
fn engine(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Made {
    let grbl = Shared::new(driver::Grbl::new(on, connector));
    Made {
        stages: on.stages.iter().take(1).map(|_| fronts::stage(&grbl)).collect(),
        outputs: (0..on.outputs.len()).map(|i| fronts::output(&grbl, i)).collect(),
        sensors: (0..on.sensors.len()).map(|i| fronts::sensor(&grbl, i)).collect(),
    }
}
