//! The controller's outputs and input pins.
//!
//! Coolant is switched by a real-time byte that toggles, also in motion, so that it is sent only when the present
//! state is known from a report, and again only when a later report shows that it was not heeded (some versions do
//! not while they jog). The spindle needs a line, which waits for the axes to stand.
//!
//! Source: Grbl v1.1 Interface ("Accessory State"), Commands (0xA0, 0xA1, `$30` to `$32`); gnea/grbl `protocol.c`.

use std::time::Duration;

use super::super::codec::Report;
use super::super::dialect::Family;
use super::{ANSWER, Ask, Grbl, Phase, State};
use crate::config;
use crate::devices::{OutputEvent, SensorEvent, Stage, StageEvent};
use crate::model::{Code, Identity, OutputKind, OutputValue, RigError, SensorValue, Time};
use crate::units::Percent;

const FLOOD: u8 = 0xA0;
const MIST: u8 = 0xA1;

/// GRBL answers `?` before it heeds a toggle that came with it: a report counts when it was asked for this much
/// later.
const HEEDED: Duration = Duration::from_millis(30);

/// Which output of the controller it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Flood,
    Mist,
    Spindle,
}

/// One output.
pub(in super::super) struct Port {
    channel: Channel,
    kind: OutputKind,
    safe: Option<OutputValue>,
    /// As last reported.
    value: Option<OutputValue>,
    /// What it is to become.
    wanted: Option<OutputValue>,
    /// Reports that were asked for before don't show what was sent.
    since: Time,
    online: bool,
    pub(in super::super) events: Vec<OutputEvent>,
}

/// One input pin.
pub(in super::super) struct Pin {
    letter: char,
    pub(in super::super) events: Vec<SensorEvent>,
}

impl Port {
    pub(super) fn new(output: &config::Output) -> Port {
        let channel = match (output.driver.as_str(), output.channel.as_str()) {
            ("grbl-spindle", _) => Channel::Spindle,
            (_, "mist") => Channel::Mist,
            _ => Channel::Flood,
        };
        Port {
            channel,
            kind: output.kind,
            safe: output.safe().cloned(),
            value: None,
            wanted: None,
            since: Time::ZERO,
            online: false,
            events: Vec::new(),
        }
    }

    fn switched(&self, on: bool) -> OutputValue {
        if self.kind == OutputKind::Shutter { OutputValue::Open(on) } else { OutputValue::On(on) }
    }

    fn gone(&mut self, code: Code, what: &str) {
        self.forget();
        self.online = false;
        self.events.push(OutputEvent::Offline { code, what: what.to_owned() });
    }

    fn forget(&mut self) {
        self.value = None;
        self.wanted = None;
    }

    fn heard(&mut self, value: OutputValue, asked_at: Time) {
        if asked_at < self.since {
            return;
        }
        if self.wanted.as_ref().is_some_and(|w| w.agrees(&value)) {
            self.wanted = None;
        }
        self.value = Some(value.clone());
        if self.online {
            self.events.push(OutputEvent::Value { value: Some(value), asked_at });
        }
    }
}

impl Pin {
    pub(super) fn new(sensor: &config::Sensor) -> Pin {
        Pin { letter: sensor.channel.chars().next().unwrap_or('?'), events: Vec::new() }
    }
}

impl Grbl {
    /// One tick, whichever device asks for it; each finds its events with it.
    pub(in super::super) fn turn(&mut self, now: Time) -> Time {
        let mut events = std::mem::take(&mut self.stage_events);
        let before = events.len();
        let next = self.tick(now, &mut events);
        for event in &events[before..] {
            self.share(event);
        }
        if self.has_stage {
            self.stage_events = events;
        }
        if self.phase == Phase::Ready {
            self.carry_out(now);
        }
        next
    }

    /// Whether a device of this link has something to be told.
    pub(in super::super) fn has_events(&self) -> bool {
        !self.stage_events.is_empty()
            || self.outputs.iter().any(|o| !o.events.is_empty())
            || self.pins.iter().any(|p| !p.events.is_empty())
    }

    /// What the stage is told of the connection concerns the others too.
    fn share(&mut self, event: &StageEvent) {
        match event {
            StageEvent::Online(facts) => self.outputs_online(&facts.identity),
            StageEvent::Offline { code, what } => {
                self.outputs.iter_mut().for_each(|o| o.gone(*code, what));
                let gone = SensorEvent::Offline { code: *code, what: what.clone() };
                self.pins.iter_mut().for_each(|p| p.events.push(gone.clone()));
            }
            _ => {}
        }
    }

    fn outputs_online(&mut self, identity: &Identity) {
        for index in 0..self.outputs.len() {
            let unable = self.unable(self.outputs[index].channel);
            let port = &mut self.outputs[index];
            port.online = unable.is_none();
            port.events.push(match unable {
                Some(what) => OutputEvent::Offline { code: Code::Unsupported, what },
                None => OutputEvent::Online(identity.clone()),
            });
            if let Some(value) = port.value.clone().filter(|_| port.online) {
                port.events.push(OutputEvent::Value { value: Some(value), asked_at: self.now });
            }
        }
        for pin in &mut self.pins {
            pin.events.push(SensorEvent::Online(identity.clone()));
        }
    }

    /// Why this controller can't have such an output.
    fn unable(&self, channel: Channel) -> Option<String> {
        let setting = |n: u16| self.settings.get(&n).copied();
        match channel {
            _ if self.dialect.family == Family::Grbl09 => {
                Some(format!("{} {} does not tell what its outputs do.", self.dialect.model(), self.dialect.version))
            }
            Channel::Spindle if setting(32).is_some_and(|v| v != 0.0) => Some(
                "The controller is in laser mode ($32=1) and lights its spindle output only during moves; set $32=0."
                    .into(),
            ),
            Channel::Spindle if setting(30).is_none_or(|v| v <= 0.0) => {
                Some("The controller does not tell its highest spindle speed ($30).".into())
            }
            _ => None,
        }
    }

    /// The controller has begun anew, which switches its outputs off.
    pub(super) fn outputs_restarted(&mut self) {
        for port in &mut self.outputs {
            port.forget();
            if port.online {
                let what = "The controller was reset, which switches its outputs off.".to_owned();
                port.events.push(OutputEvent::Restarted { what });
            }
        }
    }

    /// `[GC:… M3 … M8 …]`: what the parser takes for on, which is so before the first report tells it.
    pub(super) fn modes_heard(&mut self, words: &str) {
        let has = |w: &str| words.split_whitespace().any(|x| x == w);
        let (flood, mist) = (has("M8"), has("M7"));
        let asked_at = self.line.current().map_or(Time::ZERO, |a| a.at);
        for port in &mut self.outputs {
            let on = match port.channel {
                Channel::Flood => flood,
                Channel::Mist => mist,
                Channel::Spindle => continue,
            };
            port.heard(port.switched(on), asked_at);
        }
    }

    /// What a report tells of outputs and pins.
    pub(super) fn accessories_heard(&mut self, report: &Report, asked_at: Time) {
        // 1.1 tells the accessories with the overrides, and none when all are off; grblHAL tells them by themselves.
        let alone = self.dialect.family == Family::GrblHal;
        let letters = report.accessories.clone().or_else(|| (report.overrides && !alone).then(String::new));
        let full = self.settings.get(&30).copied().filter(|v| *v > 0.0);
        for port in &mut self.outputs {
            let value = match port.channel {
                Channel::Flood => letters.as_ref().map(|l| port.switched(l.contains('F'))),
                Channel::Mist => letters.as_ref().map(|l| port.switched(l.contains('M'))),
                Channel::Spindle => report
                    .spindle
                    .zip(full)
                    .and_then(|(rpm, full)| Percent::new((rpm / full * 100.0).min(100.0)).map(OutputValue::Percent)),
            };
            if let Some(value) = value {
                port.heard(value, asked_at);
            }
        }
        let active = report.pins.as_deref().unwrap_or("");
        for pin in self.pins.iter_mut() {
            let value = SensorValue::On(active.contains(pin.letter));
            pin.events.push(SensorEvent::Value { value, asked_at });
        }
    }

    pub(in super::super) fn set_output(
        &mut self,
        index: usize,
        value: &OutputValue,
        now: Time,
    ) -> Result<(), RigError> {
        let refuse = |what: String| Err(RigError::new(Code::Busy, what));
        if self.phase != Phase::Ready {
            return refuse("The controller is not identified yet.".into());
        }
        let state = self.last_state.unwrap_or_default();
        let channel = self.outputs[index].channel;
        if state == State::Alarm || self.deaf {
            let what =
                "The controller is locked and switches no output: home its stage, or release it with clear_fault.";
            return refuse(what.into());
        }
        if matches!(state, State::Home | State::Door | State::Check | State::Sleep | State::Tool) {
            return refuse(format!("The controller is in state {} and switches no output.", state.word()));
        }
        if channel == Channel::Spindle {
            self.speed(value).map_err(|what| RigError::new(Code::InvalidArgument, what))?;
            let still = state == State::Idle && self.motion.is_none() && self.stopping.is_none();
            if !still || !self.can_ask() {
                let what = "GRBL changes its spindle output only while its axes stand, and they don't.";
                return refuse(what.into());
            }
        }
        self.want(index, value.clone(), now);
        Ok(())
    }

    pub(in super::super) fn secure_output(&mut self, index: usize, now: Time) -> bool {
        let Some(safe) = self.outputs[index].safe.clone() else { return false };
        if self.phase != Phase::Ready {
            return false;
        }
        self.want(index, safe, now);
        true
    }

    /// Until when no report is asked for: the first after a toggle tells the accessories, and must not be wasted
    /// on a question that is answered before the toggle is heeded.
    pub(super) fn hush(&self) -> Option<Time> {
        self.outputs.iter().filter(|o| o.wanted.is_some() && o.value.is_none()).map(|o| o.since).max()
    }

    fn want(&mut self, index: usize, value: OutputValue, now: Time) {
        self.outputs[index].wanted = Some(value);
        self.carry_out(now);
        self.poll_wanted = true;
    }

    /// The `S` word of a brightness; 0 means off.
    fn speed(&self, value: &OutputValue) -> Result<f64, String> {
        let OutputValue::Percent(percent) = value else { return Err("A light takes a percentage.".into()) };
        let full = self.settings.get(&30).copied().unwrap_or(0.0);
        let least = self.settings.get(&31).copied().unwrap_or(0.0);
        let speed = percent.value() / 100.0 * full;
        if speed > 0.0 && speed < least {
            let least = crate::units::plain((least / full * 1000.0).ceil() / 10.0);
            return Err(format!("{percent} is below what the controller can do ($31), {least} %; 0 switches it off."));
        }
        Ok(speed)
    }

    /// Sends what brings the outputs to what is wanted, as soon as that can be said.
    fn carry_out(&mut self, now: Time) {
        for index in 0..self.outputs.len() {
            let port = &self.outputs[index];
            let Some(wanted) = port.wanted.clone().filter(|_| port.online) else { continue };
            match port.channel {
                Channel::Flood | Channel::Mist => {
                    // Known, and known to be otherwise; after a toggle it is not known until a report tells.
                    let Some(is) = &port.value else { continue };
                    if *is == wanted {
                        self.outputs[index].wanted = None;
                        continue;
                    }
                    let byte = if port.channel == Channel::Flood { FLOOD } else { MIST };
                    self.wire.aside(&[byte], now);
                    let port = &mut self.outputs[index];
                    port.value = None;
                    port.since = now + HEEDED;
                }
                Channel::Spindle => {
                    let still = self.last_state == Some(State::Idle)
                        && self.motion.is_none()
                        && self.stopping.is_none()
                        && self.own_reset.is_none();
                    let Ok(speed) = self.speed(&wanted) else { continue };
                    if !still || !self.can_ask() {
                        continue;
                    }
                    // The speed first: of what is lost on the line nothing makes another command.
                    let line = if speed > 0.0 { format!("S{speed:.0}M3\n") } else { "M5\n".to_owned() };
                    self.ask(Ask::Spindle, line.as_bytes(), now, ANSWER, ANSWER);
                    let port = &mut self.outputs[index];
                    port.value = None;
                    port.wanted = None;
                    port.since = now + HEEDED;
                }
            }
        }
    }

    /// The end of a line that set the spindle.
    pub(super) fn spindle_answered(&mut self, refused: Option<(Code, String)>, now: Time) {
        let Some(port) = self.outputs.iter_mut().find(|o| o.channel == Channel::Spindle) else { return };
        match refused {
            None => port.since = now,
            Some((code, what)) => port.events.push(OutputEvent::Refused { code, what }),
        }
        self.poll_wanted = true;
    }
}
