//! A chain of Zaber devices in a bench file, strictly read.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::settings;
use crate::BenchError;
use crate::config::{AxisConfig, End, need};

/// Several devices on one port.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChainConfig {
    pub id: String,
    #[serde(default)]
    pub port: Wire,
    #[serde(default = "crate::config::d_baud")]
    pub baud: u32,
    #[serde(default = "crate::config::d_os_buffer")]
    pub os_buffer: usize,
    #[serde(default = "crate::config::d_ready")]
    pub boot_ms: u64,
    /// The file in which the devices' memories outlive the bench.
    pub eeprom_file: Option<std::path::PathBuf>,
    #[serde(rename = "device")]
    pub devices: Vec<DeviceConfig>,
}

/// How a host reaches the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wire {
    #[default]
    Serial,
    Tcp,
}

/// One device, in the order in which it hangs on the chain.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceConfig {
    pub address: u8,
    pub device_id: u32,
    pub serial: u32,
    #[serde(default = "d_firmware")]
    pub firmware: String,
    #[serde(default = "d_build")]
    pub build: u32,
    /// A controller with motors plugged in, rather than one built into its stage.
    #[serde(default)]
    pub controller: bool,
    #[serde(default)]
    pub io: IoConfig,
    #[serde(rename = "axis")]
    pub axes: Vec<UnitConfig>,
    /// What the EEPROM holds instead of the factory's values.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
}

/// How many channels a device has.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IoConfig {
    pub ao: usize,
    pub ai: usize,
    #[serde(rename = "do")]
    pub outputs: usize,
    pub di: usize,
}

/// One axis: what the firmware knows of it, and the stage on its motor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnitConfig {
    /// Its name on the bench, for faults and observers.
    pub name: String,
    #[serde(default)]
    pub peripheral_id: u32,
    pub encoder: Option<EncoderConfig>,
    /// The stage; `steps_per_mm` counts microsteps at the factory's resolution (64).
    pub stage: AxisConfig,
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EncoderConfig {
    pub counts_per_mm: f64,
    /// Knows its position when power comes on.
    #[serde(default)]
    pub absolute: bool,
}

fn d_firmware() -> String {
    "7.38".into()
}
fn d_build() -> u32 {
    17_031
}

impl ChainConfig {
    /// The names of all axes, in the order of the chain.
    pub(crate) fn axis_names(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().flat_map(|d| d.axes.iter().map(|a| a.name.as_str()))
    }

    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let id = &self.id;
        need(self.baud > 0 && self.os_buffer > 0, || format!("zaber {id:?}: baud and os_buffer must be above 0"))?;
        need(!self.devices.is_empty(), || format!("zaber {id:?} has no devices"))?;
        let mut names: Vec<&str> = Vec::new();
        for name in self.axis_names() {
            need(!name.is_empty() && !names.contains(&name), || {
                format!("zaber {id:?}: each axis needs a name of its own, {name:?} will not do")
            })?;
            names.push(name);
        }
        self.devices.iter().try_for_each(|d| d.check(&format!("zaber {id:?}, device {}", d.address)))
    }
}

impl DeviceConfig {
    fn check(&self, at: &str) -> Result<(), BenchError> {
        need((1..=99).contains(&self.address), || format!("{at}: address must be within 1..=99"))?;
        let version: Option<f64> = self.firmware.parse().ok();
        need(version.is_some_and(|v| (6.0..8.0).contains(&v)), || {
            format!("{at}: firmware must be a number such as \"7.38\", not {:?}", self.firmware)
        })?;
        need((1..=9).contains(&self.axes.len()), || format!("{at}: 1 to 9 axes are possible"))?;
        need(self.controller || self.axes.len() == 1, || {
            format!("{at}: a device with several axes is a controller; write controller = true")
        })?;
        settings::check(&self.settings, settings::Scope::Device)
            .map_err(|e| BenchError::Config(format!("{at}: {e}")))?;
        for a in &self.axes {
            let at = format!("{at}, axis {:?}", a.name);
            let stage = &a.stage;
            stage.check(&at)?;
            need(stage.home_switch_mm.is_some(), || format!("{at}: stage.home_switch_mm is missing"))?;
            need((stage.home_switch_end == End::Min) != stage.invert, || {
                format!(
                    "{at}: the home switch must stand where the counter falls: home_switch_end = \"min\", or invert"
                )
            })?;
            need(a.encoder.is_none_or(|e| e.counts_per_mm > 0.0), || format!("{at}: counts_per_mm must be above 0"))?;
            settings::check(&a.settings, settings::Scope::Axis)
                .map_err(|e| BenchError::Config(format!("{at}: {e}")))?;
        }
        Ok(())
    }
}
