//! The words for outputs and sensors: what they can be, what they are to do, and how they stand.

use std::fmt;

use serde::Serialize;

use super::{Fault, Identity, LinkStatus, Name, StopBy, Time};
use crate::units::Percent;

/// The kinds of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputKind {
    /// Open or closed.
    Shutter,
    /// Brightness in percent.
    Light,
    /// One of several named positions: filters, objectives.
    Wheel,
    /// A digital line: on or off.
    Line,
}

impl OutputKind {
    /// The word of rig files and results.
    pub fn word(self) -> &'static str {
        match self {
            OutputKind::Shutter => "shutter",
            OutputKind::Light => "light",
            OutputKind::Wheel => "wheel",
            OutputKind::Line => "line",
        }
    }
}

/// What an output does or is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputValue {
    /// A shutter: open (`true`) or closed.
    Open(bool),
    /// A light.
    Percent(Percent),
    /// A wheel: the position of that name.
    At(Name),
    /// A line: on (`true`) or off.
    On(bool),
}

impl OutputValue {
    /// Whether `other` is the same as far as an output can show it: a percentage within half a percent.
    pub fn agrees(&self, other: &OutputValue) -> bool {
        match (self, other) {
            (OutputValue::Percent(a), OutputValue::Percent(b)) => (a.value() - b.value()).abs() <= 0.5,
            (a, b) => a == b,
        }
    }

    /// Whether light passes: open, on, more than nothing.
    pub fn is_lit(&self) -> bool {
        match self {
            OutputValue::Open(on) | OutputValue::On(on) => *on,
            OutputValue::Percent(p) => p.value() > 0.0,
            OutputValue::At(_) => false,
        }
    }
}

impl fmt::Display for OutputValue {
    /// `open`, `40 %`, `gfp`, `on`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputValue::Open(open) => f.write_str(if *open { "open" } else { "closed" }),
            OutputValue::Percent(p) => write!(f, "{p}"),
            OutputValue::At(name) => write!(f, "{name}"),
            OutputValue::On(on) => f.write_str(if *on { "on" } else { "off" }),
        }
    }
}

/// A change of an output.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOutput {
    /// The output.
    pub output: Name,
    /// What it is to do.
    pub value: OutputValue,
}

/// One output, as last heard.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputStatus {
    /// Its name.
    pub output: Name,
    /// Whether it takes orders now.
    pub ready: bool,
    /// What it does; `None` while nobody knows.
    pub value: Option<OutputValue>,
    /// The value is what a person said; nothing reads it back.
    pub assumed: bool,
    /// What it is on its way to.
    pub target: Option<OutputValue>,
    /// What a person is asked to do by hand.
    pub waits_for: Option<String>,
    /// When its value was last read or told.
    pub read_at: Option<Time>,
    /// What is wrong, if anything.
    pub fault: Option<Fault>,
    /// Who made it safe by a stop, until that is released.
    pub stopped_by: Option<StopBy>,
    /// What it is.
    pub identity: Option<Identity>,
    /// The state of its connection.
    pub link: LinkStatus,
}

/// The kinds of sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SensorKind {
    /// A number with a unit.
    Analog,
    /// On or off.
    Digital,
}

impl SensorKind {
    /// The word of rig files and results.
    pub fn word(self) -> &'static str {
        match self {
            SensorKind::Analog => "analog",
            SensorKind::Digital => "digital",
        }
    }
}

/// What a sensor reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SensorValue {
    /// A finite number in the sensor's unit.
    Number(f64),
    /// Whether it is on.
    On(bool),
}

/// One sensor, as last read.
#[derive(Debug, Clone, PartialEq)]
pub struct SensorStatus {
    /// Its name.
    pub sensor: Name,
    /// Whether it is connected.
    pub ready: bool,
    /// What it read last; `None` before the first reading and after a lost connection.
    pub value: Option<SensorValue>,
    /// Whether that lies in the range in which the sensor works.
    pub in_range: bool,
    /// When it was asked for that.
    pub read_at: Option<Time>,
    /// What is wrong, if anything.
    pub fault: Option<Fault>,
    /// What it is.
    pub identity: Option<Identity>,
    /// The state of its connection.
    pub link: LinkStatus,
}
