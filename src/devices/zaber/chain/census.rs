//! Devices that do not answer: who else is on the chain, and what that tells.

use std::collections::BTreeMap;

use super::super::unit::{Phase, Unit};
use super::{ALL, ANSWER, Ask, Chain, SEEK};
use crate::devices::StageEvent;
use crate::model::{Code, Time};

/// Who answered when everybody was asked.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) found: BTreeMap<u8, String>,
    pub(super) complete: bool,
}

impl Chain {
    /// An address has been silent for too long.
    pub(super) fn gone(&mut self, i: usize, address: u8, port: &str, now: Time) {
        let at_rest = !self.units.iter().any(Unit::may_move);
        match &self.census {
            // Before that is told, everybody is asked, once: perhaps it has got another address.
            None if at_rest && self.wire.is_free() => {
                self.census = Some(Census::default());
                self.ask(i, 0, ALL, Ask::Census, "get system.serial", ANSWER, now);
                return;
            }
            Some(census) if !census.complete => return,
            _ => {}
        }
        let what = self.missing(i, address, port);
        let unit = &mut self.units[i];
        unit.forget();
        unit.phase = Phase::Seek { at: now + SEEK };
        unit.sought = Some(now);
        unit.silent.insert(address, now);
        unit.tell(StageEvent::Offline { code: Code::NotResponding, what });
    }

    /// What is known of an address that does not answer.
    fn missing(&self, i: usize, address: u8, port: &str) -> String {
        let unit = &self.units[i];
        let names: Vec<String> =
            unit.axes.iter().filter(|a| a.target.address == address).map(|a| a.config.id.to_string()).collect();
        let names = names.join(", ");
        let others = self.census.as_ref().map(|c| &c.found).filter(|f| !f.is_empty());
        let Some(others) = others else {
            if self.heard > 0 {
                return format!("Address {address} ({names}) on {port} does not answer any more. Is it switched on?");
            }
            let what = if self.noise > 0 { "What comes is no Zaber ASCII" } else { "No ASCII reply comes" };
            return format!(
                "{port} is open, but nobody answers at address {address} ({names}). {what}: the device may be off, at \
                 another baud rate, or in the binary protocol, which a person changes with Zaber's own program."
            );
        };
        let moved = unit.known.get(&address).and_then(|k| others.iter().find(|(_, serial)| **serial == k.serial));
        let addresses = others.keys().map(u8::to_string).collect::<Vec<_>>().join(", ");
        match moved {
            Some((new, serial)) => format!(
                "Address {address} ({names}) on {port} does not answer: the device with serial number {serial}, which was \
                 there, is at address {new} now. Was the chain renumbered?"
            ),
            None => format!(
                "Address {address} ({names}) on {port} does not answer, and {addresses} does. Is it switched on, and is \
                 that its address?"
            ),
        }
    }
}
