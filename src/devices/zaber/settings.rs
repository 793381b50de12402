//! A Zaber device's settings: `get` reads each, `set` writes one and keeps it at once, `system reset` starts the device
//! as when power comes on.
//!
//! Source: Zaber ASCII Protocol Manual, firmware 6 and 7, "Settings" and "system"; currents are told in steps of 20 mA
//! ("Physical Units"). A device answers `BADCOMMAND` for a setting that it doesn't have, which is how it is known.

use std::time::Duration;

use super::channel;
use super::codec::{Frame, Frames, Raw, Reply, Target, command, parse};
use super::words::refusal;
use crate::devices::settings::{
    Change, Controller, Danger, Desk, Flaw, Form, Keeping, Meaning, Motor, Next, Order, Protocol, Rank, Setting,
    SettingsEvent, Silence, Table, Told,
};

/// A part of the driver's row.
pub(super) const KEEPING: Keeping = Keeping {
    open: |connector, address| Box::new(Desk::new(connector, Talk::new(address))),
    addressed: true,
    axes: "1 to 9",
    saves: false,
    name,
    meaning,
    flaws,
    dangers,
    rescales: |full| match split(full) {
        (axis @ 1.., "resolution") => IN_MICROSTEPS.iter().map(|name| format!("{axis}.{name}")).collect(),
        _ => Vec::new(),
    },
    axis_of: |text, address| channel(text).filter(|t| t.address == address).map(|t| t.axis.to_string()),
    told,
    endurance: None,
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_millis(500);
/// How long a device may take to start.
const BOOT: Duration = Duration::from_secs(5);
/// How often a question is asked until it is taken for unanswered.
const TRIES: u32 = 3;
/// The access that advanced settings need. The device forgets it when it restarts.
const ADVANCED: u32 = 2;
/// How long a person may take to switch a device off and on.
const PERSON: Duration = Duration::from_secs(300);
/// The step in which currents are told.
const CURRENT_STEP_A: f64 = 0.02;

/// One setting: its name, what it does, its unit, lowest and highest value.
struct Row(&'static str, &'static str, &'static str, f64, f64);

const FAR: f64 = 1e9;
const MOST: f64 = 2_147_483_647.0;

/// Those of a device.
const OF_DEVICE: &[Row] = &[
    Row("comm.address", "the device's address on the chain", "", 1.0, 99.0),
    Row("comm.alert", "messages that nobody asked for", "", 0.0, 1.0),
    Row("comm.checksum", "checksums in replies", "", 0.0, 2.0),
    Row("comm.protocol", "protocol of the port", "", 0.0, 9.0),
    Row("comm.rs232.baud", "rate of the port", "baud", 9600.0, 921_600.0),
    Row("comm.rs232.protocol", "protocol of the port", "", 0.0, 9.0),
    Row("system.led.enable", "lamps", "", 0.0, 1.0),
    Row("user.data.0", "a number of the user's", "", -MOST, MOST),
    Row("user.data.1", "a number of the user's", "", -MOST, MOST),
    Row("user.data.2", "a number of the user's", "", -MOST, MOST),
    Row("user.data.3", "a number of the user's", "", -MOST, MOST),
];

/// Those of an axis. A resolution comes first: the device counts the others anew with it.
const OF_AXIS: &[Row] = &[
    Row("resolution", "microsteps a full step; others are counted in them", "", 1.0, 256.0),
    Row(
        "accel",
        "the last acceleration that was set (write motion.accelonly and motion.decelonly)",
        "× 6103.5 microsteps/s²",
        0.0,
        MOST,
    ),
    Row("cloop.stall.tolerance", "how far it may lag until that is a stall", "microsteps", 0.0, MOST),
    Row("driver.current.hold", "current at rest", "× 20 mA", 0.0, 1000.0),
    Row("driver.current.max", "the most current", "× 20 mA", 0.0, 1000.0),
    Row("driver.current.run", "current in motion", "× 20 mA", 0.0, 1000.0),
    Row("knob.dir", "direction of the knob", "", 0.0, 1.0),
    Row("knob.distance", "way of a click of the knob", "microsteps", 0.0, FAR),
    Row("knob.enable", "the knob", "", 0.0, 1.0),
    Row("knob.maxspeed", "highest speed by the knob", "× 0.61 microsteps/s", 1.0, FAR),
    Row("knob.mode", "what the knob does", "", 0.0, 1.0),
    Row("knob.speedprofile", "how the knob's speed grows", "", 1.0, 3.0),
    Row("limit.approach.maxspeed", "speed towards the home switch", "× 0.61 microsteps/s", 1.0, FAR),
    Row("limit.detect.maxspeed", "speed of the last search of the switch", "× 0.61 microsteps/s", 1.0, FAR),
    Row("limit.home.action", "what the home switch does", "", 0.0, 9.0),
    Row("limit.home.edge", "which side of the switch counts", "", 0.0, 1.0),
    Row("limit.home.offset", "way back from the home switch", "microsteps", 0.0, FAR),
    Row("limit.home.posupdate", "what the home switch does to the position", "", 0.0, 9.0),
    Row("limit.home.preset", "position at the home switch", "microsteps", -FAR, FAR),
    Row("limit.home.type", "how the home switch is wired", "", 0.0, 9.0),
    Row("limit.max", "highest position", "microsteps", -FAR, FAR),
    Row("limit.min", "lowest position", "microsteps", -FAR, FAR),
    Row("maxspeed", "speed of moves", "× 0.61 microsteps/s", 1.0, FAR),
    Row("motion.accelonly", "acceleration, speeding up", "× 6103.5 microsteps/s²", 0.0, MOST),
    Row("motion.decelonly", "acceleration, slowing down", "× 6103.5 microsteps/s²", 0.0, MOST),
    Row("motion.index.dist", "way of an index", "microsteps", 1.0, FAR),
];

/// Those that the device itself counts anew with a resolution.
const IN_MICROSTEPS: &[&str] = &[
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

/// The axis and the name of a full name; 0 for the device.
fn split(full: &str) -> (u8, &str) {
    match full.split_once('.') {
        Some((axis, rest)) if axis.len() == 1 => match axis.parse() {
            Ok(n @ 1..=9) => (n, rest),
            _ => (0, full),
        },
        _ => (0, full),
    }
}

fn name(text: &str, axis: Option<&str>) -> Option<String> {
    let word = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.');
    match axis {
        Some(axis) => {
            let n: u8 = axis.parse().ok().filter(|n| (1..=9).contains(n))?;
            (word(text) && split(text).0 == 0).then(|| format!("{n}.{text}"))
        }
        None => word(text).then(|| text.to_owned()),
    }
}

fn meaning(full: &str) -> Option<Meaning> {
    let (axis, name) = split(full);
    let rows = if axis == 0 { OF_DEVICE } else { OF_AXIS };
    let Row(_, what, unit, low, high) = rows.iter().find(|row| row.0 == name)?;
    let what = if axis == 0 { (*what).to_owned() } else { format!("axis {axis}: {what}") };
    let meaning = Meaning::new(what, unit, Form::Whole).within(*low, *high);
    Some(match name {
        // No memory of its own: it sets both others.
        "accel" => Meaning { kept: false, writable: false, ..meaning },
        "resolution" => meaning.ranked(Rank::at(10)),
        // The address and the port come last, since who changes them speaks to another device afterwards.
        "comm.address" | "comm.rs232.baud" | "comm.rs232.protocol" | "comm.protocol" => meaning.ranked(Rank::at(220)),
        _ => meaning,
    })
}

fn flaws(table: &Table) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for axis in 1..=9 {
        let full = |name: &str| format!("{axis}.{name}");
        let value = |name: &str| table.number(&full(name));
        if let (Some(low), Some(high)) = (value("limit.min"), value("limit.max"))
            && low >= high
        {
            let what = format!("axis {axis}: limit.min ({low}) is not below limit.max ({high})");
            flaws.push(Flaw { names: vec![full("limit.min"), full("limit.max")], what });
        }
        for current in ["driver.current.run", "driver.current.hold"] {
            if let (Some(is), Some(most)) = (value(current), value("driver.current.max"))
                && is > most
            {
                let what = format!("axis {axis}: {current} ({is}) is above driver.current.max ({most})");
                flaws.push(Flaw { names: vec![full(current), full("driver.current.max")], what });
            }
        }
    }
    flaws
}

/// Speeds are told in 1.6384 × microsteps/s.
const SPEED: f64 = 1.6384;

fn told(table: &Table, axis: &str) -> Told {
    let value = |name: &str| table.number(&format!("{axis}.{name}"));
    let travel = value("limit.max").and_then(|high| Some(high - value("limit.min")?));
    Told { max_speed_per_s: value("maxspeed").map(|v| v / SPEED), travel, counts_ratio: value("resolution") }
}

fn dangers(change: &Change, motor: &Motor) -> Vec<Danger> {
    let (_, name) = split(&change.name);
    let (old, new) = (change.old.parse().unwrap_or(0.0), change.new.parse().unwrap_or(0.0));
    let danger = |name, why: String| vec![Danger { name, why }];
    match name {
        "comm.address" => danger("address", format!("it answers at address {new} afterwards, not at {old}")),
        "comm.rs232.baud" => danger("baud", format!("it answers at {new} baud afterwards, not at {old}")),
        "comm.protocol" | "comm.rs232.protocol" => {
            danger("protocol", "it may not answer ASCII commands afterwards".into())
        }
        "driver.current.run" | "driver.current.hold" | "driver.current.max" => {
            let amperes = new * CURRENT_STEP_A;
            match motor.rated_current_a {
                Some(rated) if amperes > rated => {
                    danger("current", format!("{amperes:.2} A is more than the motor's {rated} A"))
                }
                None if new > old => danger(
                    "current",
                    format!("{amperes:.2} A is more than before, and the profile has no rated_current_a for the motor"),
                ),
                _ if name == "driver.current.hold" && new == 0.0 && motor.holds_unpowered != Some(true) => danger(
                    "idle-power",
                    "the motor has no current at rest: a vertical axis can fall (say holds_unpowered = true)".into(),
                ),
                _ => Vec::new(),
            }
        }
        "limit.max" if new > old => danger("limits-off", format!("it may go to {new} instead of {old} microsteps")),
        "limit.min" if new < old => danger("limits-off", format!("it may go to {new} instead of {old} microsteps")),
        _ => Vec::new(),
    }
}

/// What is asked now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum At {
    Rest,
    Model,
    Version,
    Serial,
    AxisCount,
    Peripheral(u8),
    /// The setting of that place in [`Talk::names`].
    Get(usize),
    Set,
    /// Its advanced settings are locked, until the next restart: the device says so, and they are unlocked for the write.
    Unlock,
    Reset,
    /// It answers again.
    Back,
    /// It is not there any more, since a person has switched it off.
    Gone,
}

/// The conversation.
struct Talk {
    address: u8,
    id: u8,
    frames: Frames,
    order: Order,
    at: At,
    tries: u32,
    outcome: Option<SettingsEvent>,
    who: Controller,
    axes: u8,
    names: Vec<String>,
    found: Vec<Setting>,
    waited: Duration,
    /// Access was asked for already in this order.
    unlocked: bool,
}

impl Talk {
    fn new(address: u8) -> Talk {
        Talk {
            address,
            id: 0,
            frames: Frames::default(),
            order: Order::Identify,
            at: At::Rest,
            tries: 0,
            outcome: None,
            who: Controller::default(),
            axes: 0,
            names: Vec::new(),
            found: Vec::new(),
            waited: Duration::ZERO,
            unlocked: false,
        }
    }

    fn end(&mut self, event: SettingsEvent) {
        self.outcome = Some(event);
        self.at = At::Rest;
    }

    fn go(&mut self, at: At) {
        self.at = at;
        self.tries = 0;
    }

    fn ask(&mut self, axis: u8, text: &str, patience: Duration) -> Next {
        self.id = (self.id + 1) % 100;
        Next::Ask(command(Target { address: self.address, axis }, self.id, text), patience)
    }

    /// An answer to the present question.
    fn answered(&mut self, reply: &Reply) {
        let good = reply.ok.then(|| reply.data.clone());
        let no = || SettingsEvent::Refused(refusal(&reply.data));
        match (&self.at, good) {
            (At::Model, Some(text)) => {
                self.who.model = format!("Zaber device {text}");
                self.go(At::Version);
            }
            (At::Version, Some(text)) => {
                self.who.firmware = text;
                self.go(At::Serial);
            }
            (At::Serial, text) => {
                self.who.serial = text.unwrap_or_default();
                self.go(At::AxisCount);
            }
            (At::AxisCount, text) => {
                // Firmware 6 has devices that don't tell; they have one.
                self.axes = text.and_then(|t| t.parse().ok()).filter(|n| (1..=9).contains(n)).unwrap_or(1);
                self.who.axes = (1..=self.axes).map(|n| n.to_string()).collect();
                self.go(At::Peripheral(1));
            }
            (At::Peripheral(n), text) => {
                let n = *n;
                if let Some(id) = text.filter(|id| id != "0") {
                    self.who.model += &format!(", axis {n}: {id}");
                }
                if n < self.axes {
                    self.go(At::Peripheral(n + 1));
                } else if self.order == Order::Identify {
                    self.end(SettingsEvent::Known(self.who.clone()));
                } else {
                    self.go(At::Get(0));
                }
            }
            (At::Get(i), text) => {
                let i = *i;
                let full = self.names[i].clone();
                match (text, meaning(&full)) {
                    (Some(value), Some(known)) if known.form.written(&value).is_ok() => {
                        self.found.push(Setting { name: full, value, meaning: known });
                    }
                    // Told in a way that is not understood here: shown, compared, and left alone.
                    (Some(value), Some(known)) => {
                        let meaning = Meaning { form: Form::Text, writable: false, ..known };
                        self.found.push(Setting { name: full, value, meaning });
                    }
                    _ if reply.data == "BADCOMMAND" || reply.data == "BADAXIS" => {}
                    _ => return self.end(no()),
                }
                if i + 1 < self.names.len() {
                    self.go(At::Get(i + 1));
                } else {
                    let event = match Table::new(std::mem::take(&mut self.found)) {
                        Ok(table) => SettingsEvent::Table(table),
                        Err(twice) => SettingsEvent::Unclear(format!("{twice} was told twice")),
                    };
                    self.end(event);
                }
            }
            (At::Set, Some(_)) => self.end(SettingsEvent::Done),
            (At::Set, None) if reply.data == "NOACCESS" && !self.unlocked => {
                self.unlocked = true;
                self.go(At::Unlock);
            }
            (At::Unlock, Some(_)) => self.go(At::Set),
            (At::Reset, Some(_)) => self.go(At::Back),
            (At::Back, Some(_)) => self.end(SettingsEvent::Done),
            // A person has yet to switch it off.
            (At::Gone, _) => {}
            (_, None) => self.end(no()),
            (At::Rest, _) => {}
        }
    }

    fn list(&mut self) {
        let names = |rows: &[Row], axis: u8| -> Vec<String> {
            let full = |row: &Row| if axis == 0 { row.0.to_owned() } else { format!("{axis}.{}", row.0) };
            rows.iter().map(full).collect()
        };
        self.names = names(OF_DEVICE, 0);
        for axis in 1..=self.axes.max(1) {
            self.names.extend(names(OF_AXIS, axis));
        }
        self.found.clear();
    }
}

impl Protocol for Talk {
    fn begin(&mut self, order: &Order) {
        self.order = order.clone();
        self.outcome = None;
        self.waited = Duration::ZERO;
        self.unlocked = false;
        match order {
            Order::Identify => {
                self.who = Controller::default();
                self.go(At::Model);
            }
            Order::Read if self.axes > 0 => {
                self.list();
                self.go(At::Get(0));
            }
            Order::Read => self.end(SettingsEvent::Refused("it was not identified".into())),
            Order::Write { .. } => self.go(At::Set),
            Order::Save | Order::Recall => self.end(SettingsEvent::Done),
            Order::Restart => self.go(At::Reset),
            Order::AwaitRestart => self.go(At::Gone),
        }
    }

    fn next(&mut self) -> Next {
        match self.at.clone() {
            At::Model => self.ask(0, "get deviceid", ANSWER),
            At::Version | At::Gone => self.ask(0, "get version", ANSWER),
            At::Serial => self.ask(0, "get system.serial", ANSWER),
            At::AxisCount => self.ask(0, "get system.axiscount", ANSWER),
            At::Peripheral(n) => self.ask(n, "get peripheralid", ANSWER),
            At::Get(i) => {
                let (axis, name) = split(&self.names[i]);
                let text = format!("get {name}");
                self.ask(axis, &text, ANSWER)
            }
            At::Set => match self.order.clone() {
                Order::Write { name, value } => {
                    let (axis, name) = split(&name);
                    self.ask(axis, &format!("set {name} {value}"), ANSWER * 2)
                }
                _ => Next::Over(SettingsEvent::Refused("nothing was to be written".into())),
            },
            At::Unlock => self.ask(0, &format!("set system.access {ADVANCED}"), ANSWER),
            At::Reset => self.ask(0, "system reset", ANSWER),
            At::Back => self.ask(0, "get version", ANSWER),
            At::Rest => {
                let nothing = || SettingsEvent::Unclear("nothing was asked".into());
                Next::Over(self.outcome.take().unwrap_or_else(nothing))
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> bool {
        let mut frames = Vec::new();
        self.frames.push(bytes, |raw| frames.push(raw));
        for raw in frames {
            let Raw::Frame(text) = raw else { continue };
            let Some(Frame::Reply(reply)) = parse(&text) else { continue };
            if reply.from.address == self.address && reply.id == Some(self.id) && self.at != At::Rest && !reply.more {
                self.answered(&reply);
                return true;
            }
        }
        false
    }

    fn silent(&mut self) -> Silence {
        self.tries += 1;
        self.waited += ANSWER;
        match self.at {
            // A write may have been carried out though its answer was lost: whoever asked reads it back.
            At::Set => Silence::Over(SettingsEvent::Unclear("no answer to the write".into())),
            At::Reset => {
                self.go(At::Back);
                Silence::GoOn
            }
            At::Back if self.waited < BOOT => Silence::GoOn,
            At::Gone if self.waited < PERSON => {
                // Silent at last: it is off. It comes back in its time.
                if self.tries >= 2 {
                    self.go(At::Back);
                    self.waited = Duration::ZERO;
                }
                Silence::GoOn
            }
            At::Back | At::Gone => Silence::Over(SettingsEvent::Refused("it was not seen to restart".into())),
            _ if self.tries < TRIES => Silence::GoOn,
            _ => Silence::Over(SettingsEvent::Unclear(format!("no device answers at address {}", self.address))),
        }
    }

    fn reopened(&mut self) -> bool {
        self.frames.clear();
        if self.at == At::Gone {
            self.go(At::Back);
            self.waited = Duration::ZERO;
        }
        matches!(self.at, At::Back)
    }
}
