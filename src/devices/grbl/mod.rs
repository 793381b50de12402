//! GRBL 1.1 and its relatives: one controller with up to six axes on a serial line.
//!
//! Moves are jogs in machine coordinates (`$J=G53…`), so that a stop is the jog-cancel byte, which raises no
//! alarm and loses no position, and so that no work offset and no mode of somebody else matters.

mod codec;
mod dialect;
mod driver;
mod questions;

use super::link::Connector;
use super::{Driver, Family, Made, OnLink, Open};
use crate::config::AxisRules;
use crate::interlocks::StageTraits;
use crate::model::{Evidence, Source};

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "grbl",
    what: "GRBL 1.1 controllers and relatives (0.9, grblHAL, FluidNC) on a serial line",
    evidence: Evidence::IndependentHost,
    simulated: false,
    family: Some(Family { name: "grbl", stages_per_link: 1 }),
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

/// A link of this family has one stage.
fn engine(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Made {
    let Some(stage) = on.stages.first() else { return Made::default() };
    Made { stages: vec![Box::new(driver::Grbl::new(stage, connector))] }
}
