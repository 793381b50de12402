//! Zaber devices in the ASCII protocol: a daisy chain of controllers on one serial line, each with one axis or more.
//!
//! The stages of a link share one [`chain::Chain`]; each has a front that the rig thread takes for the whole driver.

mod chain;
mod codec;
mod front;
mod identify;
mod orders;
mod settings;
mod survey;
mod unit;
mod words;

use super::link::Connector;
use super::{Driver, Family, Made, OnLink, Open};
use crate::config::AxisRules;
use crate::interlocks::StageTraits;
use crate::model::{Evidence, Source};
use codec::Target;
pub(super) use survey::Census;

/// What its codec makes of bytes that come in pieces.
pub(super) fn frames(pieces: &[&[u8]]) -> Vec<String> {
    let (mut frames, mut found) = (codec::Frames::default(), Vec::new());
    for piece in pieces {
        frames.push(piece, |raw| {
            found.push(match raw {
                codec::Raw::Frame(text) => format!("{:?}", codec::parse(&text)),
                damaged => format!("{damaged:?}"),
            });
        });
    }
    found
}

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "zaber",
    what: "Zaber controllers in the ASCII protocol (firmware 6 and 7), several on a daisy chain",
    evidence: Evidence::Manual,
    simulated: false,
    family: Some(Family { name: "zaber", stages_per_link: 32 }),
    keeping: Some(&settings::KEEPING),
    open: Open::Stage {
        traits: StageTraits { coordinated: false, homes_single_axes: true },
        source: Source::Counter,
        axes: AxisRules {
            channel: |text| channel(text).map(|t| t.to_string()),
            channels: "\"2\" (the device with address 2 on the chain, its only axis) or \"2.1\" (its axis 1)",
            counts: Some(
                "a count is a microstep: 1 divided by the \"Microstep Size (Default Resolution)\" of the product's \
                 specifications, times the device's `resolution` / 64",
            ),
        },
        engine,
    },
};

fn engine(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Made {
    Made { stages: front::fronts(&on.stages, connector), ..Made::default() }
}

/// The axis that a channel names: `2` or `2.1`.
fn channel(text: &str) -> Option<Target> {
    let number = |text: &str, most: u8| {
        let plain = !text.is_empty() && text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse().ok())?.filter(|n| (1..=most).contains(n))
    };
    let (address, axis) = text.split_once('.').unwrap_or((text, "1"));
    Some(Target { address: number(address, 99)?, axis: number(axis, 9)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_an_address_and_perhaps_an_axis() {
        let at = |address, axis| Some(Target { address, axis });
        for (text, target) in [("2", at(2, 1)), ("2.1", at(2, 1)), ("02", at(2, 1)), ("99.9", at(99, 9))] {
            assert_eq!(channel(text), target, "{text}");
        }
        for bad in ["", "0", "100", "2.0", "2.10", "2.", ".1", "x", "2.1.1", "-2", "+2", "2 1", " 2", "2.x"] {
            assert_eq!(channel(bad), None, "{bad}");
        }
    }
}
