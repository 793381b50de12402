//! The chain: one connection, one question in flight, and the stages that take turns on it.
//!
//! Every message carries a number and a checksum, so that an answer is known by address, axis and number, and one
//! that comes late is nobody's. A motion goes before any other question; stops go past everything.

mod census;
mod stop;

use std::collections::BTreeSet;
use std::time::Duration;

use super::codec::{Frame, Frames, Joiner, Raw, Reply, Target, command, flags, parse, value};
use super::identify::only;
use super::orders::{Order, Step};
use super::unit::{Phase, Round, Unit};
use super::words::refusal;
use crate::config;
use crate::devices::StageEvent;
use crate::devices::link::dialogue::Dialogue;
use crate::devices::link::{Connector, IDLE, Wire, WireEvent};
use crate::model::{Code, Time};
pub(super) use stop::stop_all;

/// How long an ordinary question may stay unanswered.
const ANSWER: Duration = Duration::from_millis(300);
/// How long one that begins a motion may.
const ORDER: Duration = Duration::from_millis(500);
/// How long one may that is asked at an address where perhaps nobody is.
const PROBE: Duration = Duration::from_millis(150);
/// How long a device may answer nothing until it is thought to be gone.
const DEAF: Duration = Duration::from_secs(2);
/// How often one that is gone is sought. Each time costs the others a [`PROBE`].
pub(super) const SEEK: Duration = Duration::from_secs(2);
/// How long the acknowledgement of a stop is waited for until the stop is sent again.
const STOP_ANSWER: Duration = Duration::from_millis(100);
/// So many damaged frames in a row make the connection `degraded`.
const DEGRADED: u32 = 3;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
enum Ask {
    /// A part of an identification.
    Identify(usize),
    /// Where an axis is.
    Position,
    /// All warnings of an axis.
    Warnings,
    /// A part of a motion.
    Order(Order),
    /// Who is on the chain.
    Census,
}

#[derive(Debug, Clone, PartialEq)]
struct Asked {
    unit: usize,
    axis: usize,
    to: Target,
    id: u8,
    ask: Ask,
}

pub(super) struct Chain {
    pub(super) wire: Wire,
    pub(super) units: Vec<Unit>,
    frames: Frames,
    joiner: Joiner,
    line: Dialogue<Asked>,
    next_id: u8,
    /// Whose turn is next.
    turn: usize,
    /// Whose replies carry checksums: one without is damaged then.
    summed: BTreeSet<u8>,
    census: Option<census::Census>,
    damaged: u32,
    /// Frames of Zaber's kind that were heard on this connection.
    heard: u64,
    /// Pieces of anything else.
    noise: u64,
}

/// All devices on the chain.
const ALL: Target = Target { address: 0, axis: 0 };

impl Chain {
    pub(super) fn new(stages: &[&config::Stage], connector: Box<dyn Connector>) -> Chain {
        Chain {
            wire: Wire::new(connector),
            units: stages.iter().map(|s| Unit::new(s)).collect(),
            frames: Frames::default(),
            joiner: Joiner::default(),
            line: Dialogue::new(),
            next_id: 0,
            turn: 0,
            summed: BTreeSet::new(),
            census: None,
            damaged: 0,
            heard: 0,
            noise: 0,
        }
    }

    fn id(&mut self) -> u8 {
        let id = self.next_id;
        self.next_id = (id + 1) % 100;
        id
    }

    /// Takes what has come, asks what is due; tells when it wants to be ticked again.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        let mut bytes = Vec::new();
        let event = self.wire.pump(now, &mut bytes);
        let mut raws = Vec::new();
        self.frames.push(&bytes, |raw| raws.push(raw));
        for raw in raws {
            self.hear(raw, now);
        }
        if let Some(event) = event {
            self.connection(event, now);
        }
        if self.wire.is_open() {
            self.overdue(now);
            self.stop_on(now);
            self.ask_next(now);
        }
        self.wish(now)
    }

    fn wish(&self, now: Time) -> Time {
        if self.units.iter().any(|u| !u.events.is_empty()) {
            return now;
        }
        let mine = self.wire.wants(now);
        if !self.wire.is_open() {
            return mine.unwrap_or(now + IDLE);
        }
        let seeks = self.units.iter().filter_map(|u| match u.phase {
            Phase::Seek { at } => Some(at),
            _ => None,
        });
        let stops = self.units.iter().filter_map(|u| u.stopping.as_ref().map(|s| s.sent + STOP_ANSWER));
        let deadlines = self.line.deadline().into_iter().chain(seeks).chain(stops);
        let first = deadlines.min();
        let asked = self.line.current().map_or(Time::ZERO, |a| a.at);
        let next =
            if self.line.is_free() && first.is_none() { now + IDLE } else { self.wire.listen(now, asked, first) };
        mine.map_or(next, |w| w.min(next)).max(now)
    }

    // ---- the connection -------------------------------------------------------------------------------------

    fn connection(&mut self, event: WireEvent, now: Time) {
        self.frames.clear();
        self.joiner.clear();
        self.line.finish();
        let offline = |code, what: &String| StageEvent::Offline { code, what: what.clone() };
        match event {
            WireEvent::Opened => {
                self.summed.clear();
                self.census = None;
                (self.heard, self.noise) = (0, 0);
                for i in 0..self.units.len() {
                    self.units[i].forget();
                    self.units[i].phase = Phase::Seek { at: now };
                    self.pay_stop(i, now);
                }
            }
            WireEvent::NotOpened(what) => {
                self.units.iter_mut().for_each(|u| u.tell(offline(Code::NotConnected, &what)));
            }
            WireEvent::Lost(what) => {
                for unit in &mut self.units {
                    unit.forget();
                    unit.phase = Phase::Closed;
                    unit.tell(offline(Code::Unplugged, &what));
                }
            }
        }
    }

    // ---- asking ---------------------------------------------------------------------------------------------

    /// Sends what is most important, if the line is free.
    pub(super) fn ask_next(&mut self, now: Time) {
        if !self.wire.is_free() {
            return;
        }
        if !self.line.is_free() {
            let ordered = self.line.current().is_some_and(|a| matches!(a.what.ask, Ask::Order(_)));
            if ordered || self.units.iter().all(|u| u.orders.is_empty()) {
                return;
            }
            // A motion waits for nobody's reading. The answer to that will be nobody's.
            if let Some(asked) = self.line.finish() {
                self.ask_again(asked.what.unit);
            }
        }
        for i in 0..self.units.len() {
            if self.units[i].stopping.is_none()
                && let Some(order) = self.units[i].due_order(now)
            {
                let (axis, to, text) = (order.axis, order.to, order.text.clone());
                return self.ask(i, axis, to, Ask::Order(order), &text, ORDER, now);
            }
        }
        for _ in 0..self.units.len() {
            let i = self.turn % self.units.len();
            self.turn = i + 1;
            if self.ask_of(i, now) {
                return;
            }
        }
    }

    fn ask_again(&mut self, unit: usize) {
        if let Some(unit) = self.units.get_mut(unit) {
            unit.round = None;
            unit.poll_wanted = true;
        }
    }

    /// Asks a stage what it has to be asked next, if there is something.
    fn ask_of(&mut self, i: usize, now: Time) -> bool {
        let unit = &mut self.units[i];
        match unit.phase {
            Phase::Closed => false,
            Phase::Seek { at } if now < at => false,
            Phase::Seek { .. } => {
                unit.sought.get_or_insert(now);
                self.identify(i, 0, PROBE, now)
            }
            Phase::Identify(step) => self.identify(i, step, ANSWER, now),
            Phase::Ready => {
                if let Some(axis) = unit.axes.iter().position(|a| a.ask_flags) {
                    let to = unit.axes[axis].target;
                    self.ask(i, axis, to, Ask::Warnings, "warnings", ANSWER, now);
                    return true;
                }
                if unit.round.is_none() && !std::mem::take(&mut unit.poll_wanted) {
                    return false;
                }
                let axis = unit.round.get_or_insert(Round { asked_at: now, next: 0 }).next;
                let Some(one) = unit.axes.get(axis) else { return false };
                let (to, text) = (one.target, if one.learnt.encoder { "get encoder.pos" } else { "get pos" });
                self.ask(i, axis, to, Ask::Position, text, ANSWER, now);
                true
            }
        }
    }

    fn identify(&mut self, i: usize, step: usize, patience: Duration, now: Time) -> bool {
        let Some((axis, to, question)) = self.units[i].question(step) else { return false };
        self.ask(i, axis, to, Ask::Identify(step), question.text(), patience, now);
        true
    }

    #[expect(clippy::too_many_arguments, reason = "one call says what is asked of whom")]
    fn ask(&mut self, unit: usize, axis: usize, to: Target, ask: Ask, text: &str, patience: Duration, now: Time) {
        let id = self.id();
        self.wire.send(&command(to, id, text), now);
        self.line.ask(Asked { unit, axis, to, id, ask }, now, patience, patience * 4);
    }

    // ---- deadlines ------------------------------------------------------------------------------------------

    fn overdue(&mut self, now: Time) {
        let Some(asked) = self.line.overdue(now) else { return };
        let since = asked.at;
        let Asked { unit: i, axis, to, ask, .. } = asked.what;
        if ask == Ask::Census {
            if let Some(census) = &mut self.census {
                census.complete = true;
            }
            return;
        }
        let port = self.wire.status.port.clone();
        let unit = &mut self.units[i];
        let name = unit.axes[axis].name();
        let what = format!("No answer of {name} within {} ms.", now.since(since).as_millis());
        if !matches!(unit.phase, Phase::Seek { .. }) {
            self.wire.status.timeouts += 1;
            self.wire.status.last_error = Some(what.clone());
        }
        unit.silent.entry(to.address).or_insert(since);
        if let Ask::Order(order) = &ask {
            unit.unanswered(order, what);
            self.pay_stop(i, now);
        } else {
            unit.round = None;
            unit.poll_wanted = unit.phase == Phase::Ready;
        }
        let unit = &self.units[i];
        let patience = unit.sought.map_or(DEAF, |since| DEAF.saturating_sub(now.since(since)));
        let silent = unit.silent.get(&to.address).is_some_and(|t| now.since(*t) >= patience.min(DEAF));
        if silent {
            self.gone(i, to.address, &port, now);
        } else if let Phase::Seek { .. } = unit.phase {
            self.units[i].phase = Phase::Seek { at: now };
        }
    }

    // ---- hearing --------------------------------------------------------------------------------------------

    fn hear(&mut self, raw: Raw, now: Time) {
        let text = match raw {
            Raw::Frame(text) => text,
            Raw::Damaged(text) => return self.bad_frame(&text),
        };
        let Some(frame) = parse(&text) else { return self.bad_frame(&text) };
        let reply = match frame {
            Frame::Reply(reply) => {
                if reply.summed {
                    self.summed.insert(reply.from.address);
                } else if self.summed.contains(&reply.from.address) {
                    return self.bad_frame(&text);
                }
                self.joiner.begin(reply)
            }
            Frame::Info { from, id, continues: true, data, more } => self.joiner.go_on(from, id, &data, more),
            Frame::Info { from, data, .. } => {
                self.good_frame(now);
                let of_device = self.units.iter_mut().filter(|u| u.has(from.address));
                of_device.for_each(|u| u.tell(StageEvent::Note(format!("Address {} says: {data}", from.address))));
                return;
            }
            Frame::Alert { from, .. } => {
                self.good_frame(now);
                // Its age is unknown, so it is no reading; but there is something to read.
                self.units.iter_mut().filter(|u| u.has(from.address)).for_each(|u| u.poll_wanted = true);
                return;
            }
        };
        self.good_frame(now);
        if let Some(reply) = reply {
            self.reply(&reply, now);
        }
    }

    fn good_frame(&mut self, now: Time) {
        self.wire.status.frames += 1;
        self.heard += 1;
        self.damaged = 0;
        self.wire.status.degraded = false;
        self.line.heard(now);
    }

    fn bad_frame(&mut self, what: &str) {
        let what = what.escape_default();
        self.wire.status.bad_frames += 1;
        self.wire.status.last_error = Some(format!("Dropped a damaged message: {what}"));
        self.noise += 1;
        self.damaged += 1;
        if self.damaged == DEGRADED {
            self.wire.status.degraded = true;
            let note = format!("{DEGRADED} damaged messages in a row; the last was {what}");
            self.units.iter_mut().for_each(|u| u.tell(StageEvent::Note(note.clone())));
        }
    }

    fn reply(&mut self, reply: &Reply, now: Time) {
        let Target { address, .. } = reply.from;
        for i in 0..self.units.len() {
            if self.units[i].has(address) {
                self.units[i].silent.remove(&address);
                self.stop_heard(i, reply);
                self.pay_stop(i, now);
            }
        }
        let Some(current) = self.line.current().map(|a| &a.what) else { return };
        if reply.id != Some(current.id) {
            return;
        }
        if current.ask == Ask::Census {
            if let (Some(census), true) = (&mut self.census, reply.ok) {
                census.found.insert(address, reply.data.clone());
            }
            return;
        }
        if reply.from != current.to {
            return;
        }
        let Some(asked) = self.line.finish() else { return };
        self.answered(asked.at, asked.what, reply, now);
    }

    fn answered(&mut self, at: Time, asked: Asked, reply: &Reply, now: Time) {
        let unit = &mut self.units[asked.unit];
        let axis = asked.axis;
        if asked.to.axis != 0 && !matches!(asked.ask, Ask::Order(_)) {
            unit.status(axis, reply.busy, reply.flag);
        }
        match asked.ask {
            Ask::Identify(step) => unit.identified(step, reply, now),
            Ask::Position => {
                unit.axes[axis].count = if reply.ok { value(&reply.data) } else { None };
                if !reply.ok {
                    let what =
                        format!("{} does not tell its position: {}", unit.axes[axis].name(), refusal(&reply.data));
                    self.wire.status.last_error = Some(what);
                }
                if let Some(round) = &mut unit.round {
                    round.next = axis + 1;
                }
                self.end_round(asked.unit, now);
            }
            Ask::Warnings => {
                let listed = if reply.ok { flags(&reply.data) } else { None };
                unit.flagged(axis, listed.unwrap_or_else(|| only(reply.flag)));
                self.end_round(asked.unit, now);
                self.end_clearing(asked.unit);
            }
            Ask::Order(order) => {
                unit.axes[axis].busy = reply.busy;
                unit.ordered(&order, reply, now);
                // What is on its way to be told is told by readings that were asked for after it.
                unit.round = unit.round.filter(|r| r.asked_at > at);
            }
            Ask::Census => {}
        }
    }

    /// A round is over when each axis was asked and all its warnings are known.
    fn end_round(&mut self, i: usize, now: Time) {
        let unit = &mut self.units[i];
        let Some(round) = unit.round.filter(|r| r.next >= unit.axes.len()) else { return };
        if unit.phase == Phase::Ready && !unit.axes.iter().any(|a| a.ask_flags) {
            unit.round = None;
            unit.read(round, now);
        }
    }

    fn end_clearing(&mut self, i: usize) {
        let unit = &mut self.units[i];
        if !unit.orders.is_empty() || unit.axes.iter().any(|a| a.ask_flags) {
            return;
        }
        let Some(refused) = unit.clearing.take() else { return };
        let mut left: Vec<String> = unit.axes.iter().filter_map(super::unit::Axis::hindrance).collect();
        left.extend(refused);
        unit.tell(if left.is_empty() {
            StageEvent::Recovered
        } else {
            StageEvent::NotRecovered { what: format!("{}; a person must see to the device", left.join("; ")) }
        });
    }

    /// Releases the warnings of a stage's axes. Moves nothing.
    pub(super) fn recover(&mut self, i: usize, now: Time) {
        let unit = &mut self.units[i];
        if unit.phase != Phase::Ready {
            return;
        }
        unit.clearing = Some(Vec::new());
        let clear = |(axis, a): (usize, &super::unit::Axis)| Order {
            axis,
            to: a.target,
            step: Step::Clear,
            text: "warnings clear".into(),
            since: now,
        };
        unit.orders = unit.axes.iter().enumerate().map(clear).collect();
        self.ask_next(now);
    }
}
