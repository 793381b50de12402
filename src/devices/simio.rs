//! The simulated box of outputs and sensors of `hw-sim`, over TCP, in lines of text. Protocol "simio 1":
//! `hw-sim/docs/simio.md`.

use std::collections::VecDeque;
use std::time::Duration;

use super::link::dialogue::Dialogue;
use super::link::{Connector, IDLE, Wire, WireEvent};
use super::shared::{LastWords, Shared};
use super::{Driver, Family, Made, OnLink, Open, Output, OutputEvent, Sensor, SensorEvent};
use crate::config::{self, Channels};
use crate::interlocks::Cleared;
use crate::model::{
    Code, Evidence, Identity, LinkStatus, Name, OutputKind, OutputValue, RigError, SensorKind, SensorValue, SetOutput,
    Time,
};
use crate::units::{Percent, plain};

const FAMILY: Option<Family> = Some(Family { name: "simio", stages_per_link: 0 });

/// The row of its outputs.
pub(super) const DRIVER: Driver = Driver {
    name: "simio",
    what: "an output of hw-sim's simulated box, over TCP",
    evidence: Evidence::Manual,
    simulated: true,
    family: FAMILY,
    keeping: None,
    open: Open::Output {
        kinds: &[OutputKind::Shutter, OutputKind::Light, OutputKind::Wheel, OutputKind::Line],
        channels: Channels::Any,
        engine,
    },
};

/// The row of its sensors.
pub(super) const SENSOR: Driver = Driver {
    name: "simio-sensor",
    what: "a sensor of hw-sim's simulated box, over TCP",
    evidence: Evidence::Manual,
    simulated: true,
    family: FAMILY,
    keeping: None,
    open: Open::Sensor { kinds: &[SensorKind::Analog, SensorKind::Digital], channels: Channels::Any, engine },
};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// The longest line.
const MAX_LINE: usize = 2048;

fn engine(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Made {
    let device = Shared::new(Device::new(on, connector));
    Made {
        stages: Vec::new(),
        outputs: (0..on.outputs.len()).map(|i| Box::new(OutputFront(device.clone(), i)) as Box<dyn Output>).collect(),
        sensors: (0..on.sensors.len()).map(|i| Box::new(SensorFront(device.clone(), i)) as Box<dyn Sensor>).collect(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Id,
    Get,
    Set(usize),
}

struct OutputPart {
    channel: String,
    kind: OutputKind,
    positions: Vec<Name>,
    safe: Option<OutputValue>,
    online: bool,
    events: Vec<OutputEvent>,
}

struct SensorPart {
    channel: String,
    kind: SensorKind,
    online: bool,
    events: Vec<SensorEvent>,
}

/// The one that speaks with the box.
struct Device {
    wire: Wire,
    rx: Vec<u8>,
    dialogue: Dialogue<Ask>,
    waiting: VecDeque<(Ask, String)>,
    identified: bool,
    outputs: Vec<OutputPart>,
    sensors: Vec<SensorPart>,
}

impl Device {
    fn new(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Device {
        let output = |o: &&config::Output| OutputPart {
            channel: o.channel.clone(),
            kind: o.kind,
            positions: o.positions.clone(),
            safe: o.safe().cloned(),
            online: false,
            events: Vec::new(),
        };
        let sensor = |s: &&config::Sensor| SensorPart {
            channel: s.channel.clone(),
            kind: s.kind,
            online: false,
            events: Vec::new(),
        };
        Device {
            wire: Wire::new(connector),
            rx: Vec::new(),
            dialogue: Dialogue::new(),
            waiting: VecDeque::new(),
            identified: false,
            outputs: on.outputs.iter().map(output).collect(),
            sensors: on.sensors.iter().map(sensor).collect(),
        }
    }

    fn turn(&mut self, now: Time) -> Time {
        let mut rx = std::mem::take(&mut self.rx);
        let event = self.wire.pump(now, &mut rx);
        self.rx = rx;
        self.digest(now);
        match event {
            Some(WireEvent::Opened) => {
                self.forget();
                self.waiting.push_back((Ask::Id, "ID?".into()));
            }
            Some(WireEvent::NotOpened(what)) => self.gone(Code::NotConnected, &what),
            Some(WireEvent::Lost(what)) => self.gone(Code::Unplugged, &what),
            None => {}
        }
        if let Some(asked) = self.dialogue.overdue(now) {
            self.wire.status.timeouts += 1;
            let what = format!("The box did not answer {:?} within {} ms.", asked.what, ANSWER.as_millis());
            // What still comes can't be told from the next answer; with a fresh connection it can't come.
            self.wire.reset(now, "it did not answer");
            self.gone(Code::NotResponding, &what);
        }
        self.send_next(now);
        let asked = self.dialogue.current().map(|a| a.at);
        let next = match asked {
            Some(at) => self.wire.listen(now, at, self.dialogue.deadline()).max(now),
            None => now + IDLE,
        };
        self.wire.wants(now).map_or(next, |w| if self.wire.is_open() { w.min(next) } else { w })
    }

    fn send_next(&mut self, now: Time) {
        if self.dialogue.is_free()
            && self.wire.is_free()
            && let Some((ask, line)) = self.waiting.pop_front()
        {
            self.wire.send(format!("{line}\n").as_bytes(), now);
            self.dialogue.ask(ask, now, ANSWER, ANSWER);
        }
    }

    fn forget(&mut self) {
        self.rx.clear();
        self.waiting.clear();
        self.dialogue = Dialogue::new();
        self.identified = false;
        self.outputs.iter_mut().for_each(|o| o.online = false);
        self.sensors.iter_mut().for_each(|s| s.online = false);
    }

    fn gone(&mut self, code: Code, what: &str) {
        self.forget();
        for o in &mut self.outputs {
            o.events.push(OutputEvent::Offline { code, what: what.to_owned() });
        }
        for s in &mut self.sensors {
            s.events.push(SensorEvent::Offline { code, what: what.to_owned() });
        }
    }

    fn digest(&mut self, now: Time) {
        while let Some(end) = self.rx.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.rx.drain(..=end).collect();
            match std::str::from_utf8(&line).map(str::trim) {
                Ok(text) if text.bytes().all(|b| (b' '..=b'~').contains(&b)) => {
                    let text = text.to_owned();
                    self.hear(&text, now);
                }
                _ => self.bad(&line.escape_ascii().to_string()),
            }
        }
        if self.rx.len() > MAX_LINE {
            self.wire.status.bad_frames += 1;
            self.wire.reset(now, "it sent a line without end");
        }
    }

    fn bad(&mut self, line: &str) {
        self.wire.status.bad_frames += 1;
        self.wire.status.last_error = Some(format!("Dropped a damaged line: {line}"));
    }

    /// An answer repeats the word of its question, so that none is taken for another's.
    fn hear(&mut self, line: &str, now: Time) {
        let Some(asked) = self.dialogue.current().cloned() else { return self.bad(line) };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fits = match asked.what {
            Ask::Id => word == "ID",
            Ask::Get => word == "GET",
            Ask::Set(i) => {
                let own = rest.split(['=', ' ']).next().is_some_and(|c| c == self.outputs[i].channel);
                (word == "SET" || word == "ERR") && own
            }
        };
        if !fits {
            return self.bad(line);
        }
        self.wire.status.frames += 1;
        self.dialogue.finish();
        match asked.what {
            Ask::Id => self.identify(rest, now),
            Ask::Get => self.values(rest, asked.at),
            Ask::Set(i) if word == "ERR" => {
                let what = format!("The box refused: {rest}.");
                self.outputs[i].events.push(OutputEvent::Refused { code: Code::ControllerRefused, what });
            }
            // What it says there is an echo; only what is read afterwards counts.
            Ask::Set(_) => self.ask_values(),
        }
        self.send_next(now);
    }

    fn identify(&mut self, rest: &str, now: Time) {
        let field = |key: &str| rest.split(' ').find_map(|w| w.strip_prefix(key)?.strip_prefix('=')).unwrap_or("");
        let identity = Identity {
            model: field("model").into(),
            firmware: rest.split(' ').take(2).collect::<Vec<_>>().join(" "),
            serial: field("serial").into(),
            notes: Vec::new(),
        };
        let channels: Vec<(&str, &str)> = rest.split(' ').filter_map(|w| w.split_once(':')).collect();
        self.identified = true;
        for o in &mut self.outputs {
            let wanted = match o.kind {
                OutputKind::Wheel => format!("wheel{}", o.positions.len()),
                other => other.word().to_owned(),
            };
            o.online = channels.contains(&(o.channel.as_str(), wanted.as_str()));
            o.events.push(if o.online {
                OutputEvent::Online(identity.clone())
            } else {
                OutputEvent::Offline { code: Code::Unsupported, what: lacking(&o.channel, &wanted, &channels) }
            });
        }
        for s in &mut self.sensors {
            s.online = channels.contains(&(s.channel.as_str(), s.kind.word()));
            s.events.push(if s.online {
                SensorEvent::Online(identity.clone())
            } else {
                SensorEvent::Offline { code: Code::Unsupported, what: lacking(&s.channel, s.kind.word(), &channels) }
            });
        }
        self.ask_values();
        self.send_next(now);
    }

    fn ask_values(&mut self) {
        if self.identified && !self.waiting.iter().any(|(ask, _)| *ask == Ask::Get) {
            self.waiting.push_back((Ask::Get, "GET".into()));
        }
    }

    fn values(&mut self, rest: &str, asked_at: Time) {
        let value = |channel: &str| rest.split(' ').find_map(|w| w.strip_prefix(channel)?.strip_prefix('='));
        for o in self.outputs.iter_mut().filter(|o| o.online) {
            let value = value(&o.channel).and_then(|v| read(o.kind, &o.positions, v));
            o.events.push(OutputEvent::Value { value, asked_at });
        }
        for s in self.sensors.iter_mut().filter(|s| s.online) {
            let read = value(&s.channel).and_then(|v| match s.kind {
                SensorKind::Analog => v.parse().ok().filter(|n: &f64| n.is_finite()).map(SensorValue::Number),
                SensorKind::Digital => switch(v, "on", "off").map(SensorValue::On),
            });
            s.events.extend(read.map(|value| SensorEvent::Value { value, asked_at }));
        }
    }

    fn line(&self, index: usize, value: &OutputValue) -> String {
        let o = &self.outputs[index];
        let word = match value {
            OutputValue::Percent(p) => plain((p.value() * 100.0).round() / 100.0),
            // The box counts the wheel's positions from 1.
            OutputValue::At(name) => o.positions.iter().position(|n| n == name).map_or(0, |i| i + 1).to_string(),
            OutputValue::Open(_) | OutputValue::On(_) => value.to_string(),
        };
        format!("SET {} {word}", o.channel)
    }

    fn set(&mut self, index: usize, value: &OutputValue, now: Time) -> Result<(), RigError> {
        if !self.outputs[index].online {
            return Err(RigError::new(Code::NotConnected, "The box is not identified yet."));
        }
        let line = self.line(index, value);
        self.waiting.push_back((Ask::Set(index), line));
        self.send_next(now);
        Ok(())
    }

    fn secure(&mut self, index: usize, now: Time) -> bool {
        let Some(safe) = self.outputs[index].safe.clone().filter(|_| self.outputs[index].online) else { return false };
        // What else was to be set there is void now.
        self.waiting.retain(|(ask, _)| *ask != Ask::Set(index));
        let line = self.line(index, &safe);
        self.waiting.push_front((Ask::Set(index), line));
        self.send_next(now);
        true
    }

    fn has_events(&self) -> bool {
        self.outputs.iter().any(|o| !o.events.is_empty()) || self.sensors.iter().any(|s| !s.events.is_empty())
    }
}

impl LastWords for Device {
    /// All that has a safe value gets it.
    fn last_words(&mut self) {
        let lines = self.outputs.iter().enumerate();
        let lines = lines.filter_map(|(i, o)| Some(self.line(i, o.safe.as_ref()?)));
        let bytes: Vec<u8> = lines.flat_map(|line| format!("{line}\n").into_bytes()).collect();
        self.wire.preempt(&bytes, b"\n", Time::ZERO);
    }
}

fn lacking(channel: &str, kind: &str, there: &[(&str, &str)]) -> String {
    let there: Vec<String> = there.iter().map(|(c, k)| format!("{c} ({k})")).collect();
    format!("The box has no channel {channel:?} of kind {kind}; it has {}.", there.join(", "))
}

fn switch(word: &str, on: &str, off: &str) -> Option<bool> {
    match word {
        w if w == on => Some(true),
        w if w == off => Some(false),
        _ => None,
    }
}

/// What the box says of an output; a wheel between two positions is nowhere.
fn read(kind: OutputKind, positions: &[Name], word: &str) -> Option<OutputValue> {
    Some(match kind {
        OutputKind::Shutter => OutputValue::Open(switch(word, "open", "closed")?),
        OutputKind::Line => OutputValue::On(switch(word, "on", "off")?),
        OutputKind::Light => OutputValue::Percent(Percent::new(word.parse().ok()?)?),
        OutputKind::Wheel => OutputValue::At(positions.get(word.parse::<usize>().ok()?.checked_sub(1)?)?.clone()),
    })
}

struct OutputFront(Shared<Device>, usize);

impl Output for OutputFront {
    fn tick(&mut self, now: Time, out: &mut Vec<OutputEvent>) -> Time {
        self.0.with(|d| {
            let next = d.turn(now);
            out.append(&mut d.outputs[self.1].events);
            if d.has_events() { now } else { next }
        })
    }

    fn poll(&mut self, now: Time) {
        self.0.with(|d| {
            d.ask_values();
            d.send_next(now);
        });
    }

    fn set(&mut self, order: Cleared<'_, SetOutput>, now: Time) -> Result<(), RigError> {
        self.0.with(|d| d.set(self.1, &order.obey().value, now))
    }

    fn secure(&mut self, now: Time) -> bool {
        self.0.with(|d| d.secure(self.1, now))
    }

    fn patience(&self) -> Duration {
        // A wheel turns for a second or two.
        Duration::from_secs(6)
    }

    fn link(&self) -> LinkStatus {
        self.0.look(|d| d.wire.status.clone())
    }

    fn close(&mut self) {
        self.0.with(|d| d.wire.close());
    }
}

struct SensorFront(Shared<Device>, usize);

impl Sensor for SensorFront {
    fn tick(&mut self, now: Time, out: &mut Vec<SensorEvent>) -> Time {
        self.0.with(|d| {
            let next = d.turn(now);
            out.append(&mut d.sensors[self.1].events);
            if d.has_events() { now } else { next }
        })
    }

    fn poll(&mut self, now: Time) {
        self.0.with(|d| {
            d.ask_values();
            d.send_next(now);
        });
    }

    fn link(&self) -> LinkStatus {
        self.0.look(|d| d.wire.status.clone())
    }

    fn close(&mut self) {
        self.0.with(|d| d.wire.close());
    }
}
