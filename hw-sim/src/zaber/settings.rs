//! The settings a device keeps in its EEPROM, and their ranges; what is measured or fixed stands in `device.rs`.

use std::collections::BTreeMap;

/// Whether there is one for the whole device or one an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Device,
    Axis,
}

/// One setting. `level` is the `system.access` that writing it takes.
#[derive(Debug)]
pub(super) struct Setting {
    pub name: &'static str,
    pub scope: Scope,
    pub min: i64,
    pub max: i64,
    pub factory: i64,
    pub level: i64,
}

const fn device(name: &'static str, min: i64, max: i64, factory: i64, level: i64) -> Setting {
    Setting { name, scope: Scope::Device, min, max, factory, level }
}

const fn axis(name: &'static str, min: i64, max: i64, factory: i64, level: i64) -> Setting {
    Setting { name, scope: Scope::Axis, min, max, factory, level }
}

const FAR: i64 = 1_000_000_000;
const RATE: i64 = 1_000_000_000;
const ACCEL: i64 = 2_147_483_647;

/// The stored settings. Speeds are 1.6384 × microsteps/s, accelerations 1.6384/10000 × microsteps/s².
pub(super) const TABLE: &[Setting] = &[
    device("comm.address", 1, 99, 1, 1),
    device("comm.alert", 0, 1, 0, 1),
    device("comm.checksum", 0, 2, 2, 1),
    device("comm.rs232.baud", 9600, 921_600, 115_200, 1),
    device("comm.rs232.protocol", 1, 2, 2, 2),
    device("system.access", 1, 2, 1, 1),
    device("system.led.enable", 0, 1, 1, 1),
    device("user.data.0", i64::MIN, i64::MAX, 0, 1),
    device("user.data.1", i64::MIN, i64::MAX, 0, 1),
    device("user.data.2", i64::MIN, i64::MAX, 0, 1),
    device("user.data.3", i64::MIN, i64::MAX, 0, 1),
    axis("cloop.stall.tolerance", 0, ACCEL, 128, 2),
    axis("driver.current.hold", 0, 1000, 20, 1),
    axis("driver.current.max", 0, 1000, 120, 2),
    axis("driver.current.run", 0, 1000, 100, 1),
    axis("knob.dir", 0, 1, 1, 1),
    axis("knob.distance", 0, FAR, 5000, 1),
    axis("knob.enable", 0, 1, 1, 1),
    axis("knob.maxspeed", 1, RATE, 40_000, 1),
    axis("knob.mode", 0, 1, 0, 1),
    axis("knob.speedprofile", 1, 3, 1, 1),
    axis("limit.approach.maxspeed", 1, RATE, 60_000, 2),
    axis("limit.detect.maxspeed", 1, RATE, 3_000, 2),
    axis("limit.home.action", 0, 4, 1, 2),
    axis("limit.home.edge", 0, 1, 0, 2),
    axis("limit.home.offset", 0, FAR, 500, 2),
    axis("limit.home.posupdate", 0, 4, 2, 2),
    axis("limit.home.preset", -FAR, FAR, 0, 2),
    axis("limit.home.type", 0, 3, 1, 2),
    axis("limit.max", -FAR, FAR, 305_381, 1),
    axis("limit.min", -FAR, FAR, 0, 1),
    axis("maxspeed", 1, RATE, 153_600, 1),
    axis("motion.accelonly", 0, ACCEL, 205, 1),
    axis("motion.decelonly", 0, ACCEL, 205, 1),
    axis("motion.index.dist", 1, FAR, 10_000, 1),
    axis("parking.state", 0, 1, 0, 9),
    axis("resolution", 1, 256, RESOLUTION, 1),
];

/// Microsteps a full step as the factory sets it; a bench file counts in these.
pub(super) const RESOLUTION: i64 = 64;

/// Those that are counted in microsteps and change with the resolution.
pub(super) const IN_MICROSTEPS: &[&str] = &[
    "cloop.stall.tolerance",
    "knob.distance",
    "knob.maxspeed",
    "limit.approach.maxspeed",
    "limit.detect.maxspeed",
    "limit.home.offset",
    "limit.home.preset",
    "limit.max",
    "limit.min",
    "maxspeed",
    "motion.accelonly",
    "motion.decelonly",
    "motion.index.dist",
];

pub(super) fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|s| s.name == name)
}

/// What an EEPROM holds.
#[derive(Debug, Clone)]
pub(super) struct Store {
    values: BTreeMap<&'static str, i64>,
}

impl Store {
    pub(super) fn factory(scope: Scope) -> Store {
        let values = TABLE.iter().filter(|s| s.scope == scope).map(|s| (s.name, s.factory)).collect();
        Store { values }
    }

    /// With a bench file's values in place of the factory's. Those have been checked.
    pub(super) fn with(mut self, given: &BTreeMap<String, f64>) -> Store {
        for (name, value) in given {
            if let Some(setting) = find(name) {
                self.values.insert(setting.name, *value as i64);
            }
        }
        self
    }

    /// The value of a setting of this scope; 0 for any other.
    pub(super) fn get(&self, name: &str) -> i64 {
        self.values.get(name).copied().unwrap_or(0)
    }

    pub(super) fn put(&mut self, name: &'static str, value: i64) {
        self.values.insert(name, value);
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, i64)> + '_ {
        self.values.iter().map(|(name, value)| (*name, *value))
    }
}

/// Whether a bench file's settings exist, in this scope and range.
pub(super) fn check(given: &BTreeMap<String, f64>, scope: Scope) -> Result<(), String> {
    for (name, value) in given {
        let setting = find(name).filter(|s| s.scope == scope).ok_or_else(|| format!("no setting {name:?}"))?;
        if !(setting.min as f64 <= *value && *value <= setting.max as f64 && value.fract() == 0.0) {
            return Err(format!("{name} must be a whole number within {}..={}", setting.min, setting.max));
        }
    }
    Ok(())
}
