//! One device of a chain: its settings and channels, and what it answers to a packet.

use std::collections::{BTreeMap, BTreeSet};

use super::config::DeviceConfig;
use super::flags::{Flag, highest};
use super::io::Io;
use super::packet::{Collector, Id, Packet, frame};
use super::settings::{self, Scope, Store};
use super::unit::{Reason, Unit};
use crate::memory::{Kept, Mishaps};
use crate::port::Ns;

/// What a command comes to: the data of the reply, or why it is rejected.
pub(super) type Outcome = Result<String, Reason>;

/// A device with its axes.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) given: DeviceConfig,
    pub(super) units: Vec<Unit>,
    pub(super) store: Store,
    pub(super) io: Io,
    /// What hosts have stored under keys.
    pub(super) notes: BTreeMap<String, String>,
    pub(super) now: Ns,
    /// Lines of information that follow the reply.
    pub(super) infos: Vec<String>,
    /// The device restarts once its reply is out.
    pub(super) resetting: bool,
    collector: Collector,
    boot_ns: Ns,
    boot_until: Option<Ns>,
    booted_at: Ns,
    /// A command of which only the beginning has come, and how many packets of it.
    partial: Option<(Packet, u32)>,
    last: Vec<String>,
    broken: bool,
    corrupt: bool,
    /// What goes wrong with writes of settings.
    pub(super) mishaps: Mishaps,
    /// What is stored, while what there is has only been said to be.
    unstored: Option<(Store, Vec<Store>)>,
    /// Something was stored since that was last asked.
    pub(super) wrote: bool,
    /// Power fails before the answer.
    pub(super) dying: bool,
    line_baud: u32,
    out: Vec<u8>,
}

/// The axis and the name of `1.maxspeed`; 0 for the device.
pub(super) fn split(full: &str) -> (u32, &str) {
    match full.split_once('.') {
        Some((axis, name)) if axis.len() == 1 && axis.bytes().all(|b| b.is_ascii_digit()) => {
            (axis.parse().unwrap_or(0), name)
        }
        _ => (0, full),
    }
}

impl Device {
    pub(super) fn new(cfg: &DeviceConfig, baud: u32, boot_ns: Ns, seed: u64) -> Device {
        let units = cfg.axes.iter().enumerate().map(|(i, a)| Unit::new(a, seed.wrapping_add(i as u64 * 7919)));
        Device {
            given: cfg.clone(),
            units: units.collect(),
            store: factory(cfg, baud),
            io: Io::new(cfg.io),
            notes: BTreeMap::new(),
            now: 0,
            infos: Vec::new(),
            resetting: false,
            collector: Collector::default(),
            boot_ns,
            boot_until: Some(boot_ns),
            booted_at: 0,
            partial: None,
            last: Vec::new(),
            broken: false,
            corrupt: false,
            mishaps: Mishaps::default(),
            unstored: None,
            wrote: false,
            dying: false,
            line_baud: baud,
            out: Vec::new(),
        }
    }

    pub(super) fn address(&self) -> u8 {
        u8::try_from(self.store.get("comm.address")).unwrap_or(0)
    }

    pub(super) fn booting(&self) -> bool {
        self.boot_until.is_some()
    }

    pub(super) fn uptime_s(&self) -> f64 {
        (self.now - self.booted_at) as f64 / 1e9
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(super) fn corrupt_eeprom(&mut self) {
        self.corrupt = true;
    }

    /// Something is about to be written.
    pub(super) fn before_write(&mut self) {
        match self.mishaps.dead {
            true if self.unstored.is_none() => {
                self.unstored = Some((self.store.clone(), self.units.iter().map(|u| u.store.clone()).collect()));
            }
            true => {}
            false => (self.unstored, self.wrote) = (None, true),
        }
    }

    /// What its memory holds.
    pub(super) fn kept(&self) -> Kept {
        let of_units: Vec<&Store> = match &self.unstored {
            Some((_, units)) => units.iter().collect(),
            None => self.units.iter().map(|u| &u.store).collect(),
        };
        let own = self.unstored.as_ref().map_or(&self.store, |(own, _)| own);
        let mut settings: BTreeMap<String, f64> = own
            .all()
            .filter(|(name, _)| *name != "system.access")
            .map(|(name, value)| (name.to_owned(), value as f64))
            .collect();
        for (store, axis) in of_units.into_iter().zip(1..) {
            settings.extend(store.all().map(|(name, value)| (format!("{axis}.{name}"), value as f64)));
        }
        Kept { settings, ..Kept::default() }
    }

    /// Takes what a file holds; `false` when it is another device's.
    pub(super) fn take(&mut self, kept: &Kept) -> bool {
        kept.settings.iter().all(|(full, value)| {
            let (axis, name) = split(full);
            let Some(setting) = settings::find(name) else { return false };
            let store = match axis {
                0 => Some(&mut self.store),
                n => self.units.get_mut(n as usize - 1).map(|u| &mut u.store),
            };
            store.map(|s| s.put(setting.name, *value as i64)).is_some()
        })
    }

    pub(super) fn power_cycle(&mut self) {
        if let Some((own, units)) = self.unstored.take() {
            self.store = own;
            for (unit, store) in self.units.iter_mut().zip(units) {
                unit.store = store;
            }
        }
        self.dying = false;
        self.broken = std::mem::take(&mut self.corrupt);
        if self.broken {
            self.restore();
            self.store = factory(&self.given, self.line_baud);
            self.units.iter_mut().for_each(Unit::unpark);
        }
        self.units.iter_mut().for_each(Unit::power_cycle);
        self.io.power_cycle();
        self.store.put("system.access", 1);
        self.collector.clear();
        self.partial = None;
        self.last.clear();
        self.infos.clear();
        self.out.clear();
        self.resetting = false;
        self.boot_until = Some(self.now + self.boot_ns);
        self.booted_at = self.now;
    }

    /// The factory's settings; how the device is reached stays.
    pub(super) fn restore(&mut self) {
        let mut fresh = factory(&self.given, self.line_baud);
        for name in ["comm.address", "comm.rs232.baud", "comm.rs232.protocol"] {
            fresh.put(name, self.store.get(name));
        }
        self.store = fresh;
        self.units.iter_mut().for_each(Unit::restore);
        self.notes.clear();
    }

    /// The flags of one axis (from 1), or of the whole device (0).
    pub(super) fn flags(&self, axis: u32) -> BTreeSet<Flag> {
        let mut flags: BTreeSet<Flag> = self.of(axis).flat_map(|u| u.flags()).collect();
        if self.broken {
            flags.insert(Flag::FF);
        }
        flags
    }

    /// Nothing works after the memory was found corrupt.
    pub(super) fn broken(&self) -> bool {
        self.broken
    }

    /// The axes that a command is meant for: all for 0.
    pub(super) fn of(&self, axis: u32) -> impl Iterator<Item = &Unit> {
        self.units.iter().zip(1_u32..).filter(move |(_, n)| axis == 0 || *n == axis).map(|(u, _)| u)
    }

    pub(super) fn of_mut(&mut self, axis: u32) -> impl Iterator<Item = &mut Unit> {
        self.units.iter_mut().zip(1_u32..).filter(move |(_, n)| axis == 0 || *n == axis).map(|(u, _)| u)
    }

    pub(super) fn busy(&self, axis: u32) -> bool {
        self.of(axis).any(Unit::busy)
    }

    pub(super) fn next_event(&self) -> Option<Ns> {
        self.units.iter().filter_map(Unit::next_event).chain(self.boot_until).min()
    }

    pub(super) fn advance(&mut self, to: Ns) {
        self.units.iter_mut().for_each(|u| u.advance(to));
        self.now = to;
        if self.boot_until.is_some_and(|t| t <= to) {
            self.boot_until = None;
        }
        self.alert();
    }

    /// Tells of motions that have ended, if alerts are wanted.
    fn alert(&mut self) {
        let wanted = self.store.get("comm.alert") == 1 && !self.booting();
        for i in 0..self.units.len() {
            if self.units[i].take_finished() && wanted {
                let flag = highest(&self.flags(i as u32 + 1));
                let head = format!("!{:02} {} IDLE {flag}", self.address(), i + 1);
                self.out.extend(frame(&head, "", "", self.store.get("comm.checksum") == 1));
            }
        }
    }

    /// A device that is booting, or set to another speed or protocol, makes nothing of what it hears.
    fn deaf(&self) -> bool {
        self.booting()
            || self.store.get("comm.rs232.baud") != i64::from(self.line_baud)
            || self.store.get("comm.rs232.protocol") != 2
    }

    /// Takes a byte of the host. `place` is how many devices hang before this one.
    pub(super) fn receive(&mut self, byte: u8, place: usize) {
        if self.deaf() {
            self.collector.clear();
            return;
        }
        if let Some(packet) = self.collector.push(byte).and_then(|text| Packet::parse(&text))
            && (packet.address == 0 || packet.address == self.address())
            && let Some(command) = self.assemble(packet)
        {
            self.obey(command, place);
        }
    }

    /// Puts a command together that came in several packets.
    fn assemble(&mut self, packet: Packet) -> Option<Packet> {
        let number = match packet.words.as_slice() {
            [first, number, ..] if first == "cont" => number.parse::<u32>().ok(),
            _ => None,
        };
        let (mut command, count) = match (number, self.partial.take()) {
            (None, _) => (packet, 1),
            (Some(n), Some((mut begun, count))) if n == count && count < super::packet::PACKETS_MAX => {
                begun.words.extend(packet.words.into_iter().skip(2));
                begun.more = packet.more;
                (begun, count + 1)
            }
            (Some(_), _) => return None,
        };
        if command.more {
            self.partial = Some((command, count));
            return None;
        }
        command.words.retain(|w| !w.is_empty());
        Some(command)
    }

    fn obey(&mut self, command: Packet, place: usize) {
        let outcome = if command.id == Id::Bad {
            Err("BADMESSAGEID")
        } else if command.axis as usize > self.units.len() {
            Err("BADAXIS")
        } else {
            self.command(&command, place)
        };
        let infos = std::mem::take(&mut self.infos);
        if command.id != Id::Silent {
            self.reply(&command, &outcome, &infos);
        }
        if self.dying {
            self.out.clear();
            self.corrupt = true;
            self.power_cycle();
        } else if self.resetting {
            let said = self.take_output();
            self.power_cycle();
            self.out = said;
        }
        self.alert();
    }

    /// Does what the words say; `l` says again what was said last.
    fn command(&mut self, command: &Packet, place: usize) -> Outcome {
        let words = if command.words == ["l"] { self.last.clone() } else { command.words.clone() };
        self.last.clone_from(&words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.execute(command.axis, &words, place)
    }

    fn reply(&mut self, command: &Packet, outcome: &Outcome, infos: &[String]) {
        let id = match command.id {
            Id::Number(n) => format!(" {n:02}"),
            _ => String::new(),
        };
        let axis = command.axis;
        let to = format!("{:02} {axis}{id}", self.address());
        let known = if axis as usize > self.units.len() { 0 } else { axis };
        let (flag, data) = match outcome {
            Ok(data) => ("OK", data.as_str()),
            Err(reason) => ("RJ", *reason),
        };
        let status = if self.busy(known) { "BUSY" } else { "IDLE" };
        let warning = highest(&self.flags(known));
        let checksum = match self.store.get("comm.checksum") {
            0 => false,
            1 => true,
            _ => command.checksummed,
        };
        let next = format!("#{to} cont");
        self.out.extend(frame(&format!("@{to} {flag} {status} {warning}"), &next, data, checksum));
        for info in infos {
            self.out.extend(frame(&format!("#{to}"), &next, info, checksum));
        }
    }
}

fn factory(cfg: &DeviceConfig, baud: u32) -> Store {
    let mut store = Store::factory(Scope::Device);
    store.put("comm.address", i64::from(cfg.address));
    store.put("comm.rs232.baud", i64::from(baud));
    store.with(&cfg.settings)
}
