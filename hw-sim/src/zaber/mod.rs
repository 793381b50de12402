//! A chain of Zaber devices that speak the ASCII protocol, written from the manufacturer's protocol manual (firmware 7).

mod commands;
mod config;
mod device;
mod flags;
mod io;
mod packet;
mod settings;
mod unit;

pub(crate) use config::{ChainConfig, Wire};

use crate::BenchError;
use crate::mechanics::Axis;
use crate::memory::{Kept, MemoryFile, Mishaps};
use crate::port::Ns;
use device::Device;
use unit::Unit;

/// The devices on one port, the nearest to the host first.
#[derive(Debug)]
pub(crate) struct Chain {
    devices: Vec<Device>,
    file: MemoryFile,
}

impl Chain {
    pub(crate) fn new(cfg: &ChainConfig, seed: u64) -> Result<Chain, BenchError> {
        let boot_ns = cfg.boot_ms * 1_000_000;
        let devices = cfg.devices.iter().zip(0_u64..);
        let mut devices: Vec<Device> =
            devices.map(|(d, i)| Device::new(d, cfg.baud, boot_ns, seed.wrapping_add(i * 104_729))).collect();
        let file = MemoryFile::new(cfg.eeprom_file.as_deref());
        if let Some(kept) = file.load()? {
            let theirs = kept.len() == devices.len() && devices.iter_mut().zip(&kept).all(|(d, k)| d.take(k));
            if !theirs {
                return Err(BenchError::Config(format!("zaber {:?}: its memory is another chain's", cfg.id)));
            }
        }
        let chain = Chain { devices, file };
        chain.keep();
        Ok(chain)
    }

    fn keep(&self) {
        let kept: Vec<Kept> = self.devices.iter().map(Device::kept).collect();
        self.file.store(&kept);
    }

    /// What goes wrong with writes of settings of the device that is nearest to the host.
    pub(crate) fn mishaps(&mut self) -> &mut Mishaps {
        // A chain without devices is no bench.
        &mut self.devices[0].mishaps
    }

    /// What is stored in the device at an address.
    pub(crate) fn stored(&self, address: u8) -> Vec<(String, String)> {
        let kept = self.devices.iter().find(|d| d.address() == address).map(Device::kept).unwrap_or_default();
        kept.settings.into_iter().map(|(name, value)| (name, value.to_string())).collect()
    }

    fn units(&self) -> impl Iterator<Item = &Unit> {
        self.devices.iter().flat_map(|d| &d.units)
    }

    fn units_mut(&mut self) -> impl Iterator<Item = &mut Unit> {
        self.devices.iter_mut().flat_map(|d| &mut d.units)
    }

    pub(crate) fn axis_names(&self) -> Vec<String> {
        self.units().map(|u| u.name.clone()).collect()
    }

    pub(crate) fn axis(&self, name: &str) -> Option<&Axis> {
        self.units().find(|u| u.name == name).map(|u| &u.stage)
    }

    pub(crate) fn axis_mut(&mut self, name: &str) -> Option<&mut Axis> {
        self.units_mut().find(|u| u.name == name).map(|u| &mut u.stage)
    }

    pub(crate) fn receive(&mut self, byte: u8) {
        for (place, device) in self.devices.iter_mut().enumerate() {
            device.receive(byte, place);
        }
        if self.devices.iter_mut().any(|d| std::mem::take(&mut d.wrote)) {
            self.keep();
        }
    }

    pub(crate) fn next_event(&self) -> Option<Ns> {
        self.devices.iter().filter_map(Device::next_event).min()
    }

    pub(crate) fn advance(&mut self, to: Ns) {
        self.devices.iter_mut().for_each(|d| d.advance(to));
    }

    /// What the devices have said since the last call.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        self.devices.iter_mut().flat_map(Device::take_output).collect()
    }

    pub(crate) fn power_cycle(&mut self) {
        self.devices.iter_mut().for_each(Device::power_cycle);
    }

    pub(crate) fn corrupt_eeprom(&mut self) {
        self.devices.iter_mut().for_each(Device::corrupt_eeprom);
    }

    pub(crate) fn set_slow(&mut self, factor: f64) {
        self.units_mut().for_each(|u| u.set_slow(factor));
    }

    /// Somebody turns an axis' knob. `None` if there is no such axis.
    pub(crate) fn turn_knob(&mut self, axis: &str, mm: f64) -> Option<()> {
        self.units_mut().find(|u| u.name == axis).map(|u| u.turn_knob(mm))
    }

    /// What stands outside drives an input of the device at `address`: volts, or a level by whether they are above 1.5.
    /// `None` if there is no such input.
    pub(crate) fn drive_input(&mut self, address: u8, input: &str, channel: usize, volts: f64) -> Option<()> {
        let device = self.devices.iter_mut().find(|d| d.address() == address)?;
        match input {
            "ai" => device.io.drive_analog(channel, volts),
            "di" => device.io.drive_digital(channel, volts > 1.5),
            _ => None,
        }
    }

    /// What an output of the device at `address` holds: volts of an `ao`, 0 or 1 of a `do`.
    pub(crate) fn output(&self, address: u8, output: &str, channel: usize) -> Option<f64> {
        self.devices.iter().find(|d| d.address() == address)?.io.output(output, channel)
    }

    pub(crate) fn state_name(&self) -> &'static str {
        if self.devices.iter().any(Device::booting) {
            "boot"
        } else if self.units().any(Unit::busy) {
            "busy"
        } else {
            "idle"
        }
    }
}
