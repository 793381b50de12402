//! Lines become actions, and actions wait for what they need: room in the planner, standstill, time.

use super::gcode::{self, Block, Motion, Position, Special, Spindle};
use super::motion::{Feed, Path};
use super::{CYCLE_START, Grbl, Modal, State, arc, words};
use crate::port::Ns;

/// The longest line, after blanks and comments are gone.
const LINE_LIMIT: usize = 79;

/// What a line leaves to be done, in order.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// The end of a line: `ok` or `error:n`.
    Reply(Result<(), u8>),
    /// The end of a startup line.
    StartupReply(String, Result<(), u8>),
    /// A startup line runs.
    Startup(usize),
    /// Wait until nothing moves and nothing is queued.
    Sync,
    Spindle(Spindle, f64),
    Coolant(bool, bool),
    Dwell(f64),
    DwellEnd,
    Line {
        target: Position,
        feed: Feed,
    },
    Probe {
        target: Position,
        feed: Feed,
        part: u8,
    },
    /// The end of a probe's way without contact.
    ProbeFailed,
    Pause,
    ProgramEnd,
    /// The EEPROM is being written: bytes that come in are lost.
    EepromWrite,
    EepromEnd,
    /// Power fails and comes back, before the line is answered.
    PowerFails,
    Homing,
    Sleep,
    /// A restart that the line itself asked for.
    Restart,
}

impl Grbl {
    pub(super) fn reply_pending(&self) -> bool {
        self.actions.iter().any(|a| matches!(a, Action::Reply(_)))
    }

    /// Takes bytes from the buffer until a line is whole.
    pub(super) fn pump_line(&mut self) -> bool {
        if !self.actions.is_empty() || self.suspended() || self.critical || self.homing.is_some() {
            return false;
        }
        while let Some(byte) = self.rx.pop_front() {
            if byte != b'\n' && byte != b'\r' {
                self.line.push(byte);
                continue;
            }
            let raw = std::mem::take(&mut self.line);
            let line = words::tidy(&raw);
            self.execute(&line);
            return true;
        }
        false
    }

    fn execute(&mut self, line: &str) {
        let result = if line.len() > LINE_LIMIT {
            Err(11)
        } else if line.is_empty() {
            Ok(())
        } else if let Some(command) = line.strip_prefix('$') {
            self.system(command)
        } else if matches!(self.state, State::Alarm | State::Jog) {
            Err(9)
        } else {
            self.gcode(line)
        };
        if !matches!(self.actions.back(), Some(Action::Restart | Action::Sleep | Action::PowerFails)) {
            self.actions.push_back(Action::Reply(result));
        }
    }

    pub(super) fn queue_startup(&mut self) {
        let pending: Vec<Action> = self.actions.drain(..).collect();
        for i in 0..self.eeprom.startup.len() {
            if !self.eeprom.startup[i].is_empty() {
                self.actions.push_back(Action::Startup(i));
            }
        }
        self.actions.extend(pending);
    }

    /// Parses a block, updates the modal state and queues what it does.
    pub(super) fn gcode(&mut self, line: &str) -> Result<(), u8> {
        let block = gcode::check(line, &self.modal, self.dialect(), false)?;
        let before = self.modal.clone();
        let old_offset = self.work_offset();
        let target = self.target(&block)?;
        self.modal = block.modal.clone();
        self.queue_outputs(&before, &block);
        self.special(&block, &target);
        if self.work_offset() != old_offset {
            self.cadence.wco = 0;
        }
        if let Some(motion) = block.motion {
            self.queue_motion(motion, &block, target)?;
        }
        match block.modal.program {
            Some(0) => self.actions.extend([Action::Sync, Action::Pause]),
            Some(_) => self.actions.extend([Action::Sync, Action::ProgramEnd]),
            None => {}
        }
        Ok(())
    }

    fn queue_outputs(&mut self, before: &Modal, block: &Block) {
        let now = &block.modal;
        let faster = now.speed != before.speed && now.spindle != Spindle::Off;
        if block.spindle_changed && (now.spindle != before.spindle || faster) {
            self.actions.extend([Action::Sync, Action::Spindle(now.spindle, now.speed)]);
        }
        if block.coolant_changed {
            self.actions.extend([Action::Sync, Action::Coolant(now.flood, now.mist)]);
        }
        if block.special == Some(Special::Dwell) {
            self.actions.extend([Action::Sync, Action::Dwell(block.p)]);
        }
    }

    /// Where the axis words point, in machine millimetres.
    fn target(&self, block: &Block) -> Result<Position, u8> {
        let mut offset = self.eeprom.systems[block.modal.system];
        for (o, shift) in offset.iter_mut().zip(block.modal.g92) {
            *o += shift;
        }
        offset[2] += block.modal.tool_offset;
        let mut target = self.parser_mm;
        for (i, word) in block.axes.iter().enumerate() {
            let Some(v) = word else { continue };
            target[i] = match (block.machine_frame, block.modal.relative) {
                (true, _) => *v,
                (false, true) => self.parser_mm[i] + v,
                (false, false) => v + offset[i],
            };
        }
        if target.iter().all(|v| v.is_finite()) { Ok(target) } else { Err(33) }
    }

    fn special(&mut self, block: &Block, target: &Position) {
        match block.special {
            Some(Special::SetSystem) => self.set_system(block),
            Some(Special::Home(slot)) => {
                if block.has_axes() {
                    self.actions.push_back(Action::Line { target: *target, feed: Feed::Rapid });
                }
                let mut home = self.eeprom.systems[slot];
                for (i, word) in block.axes.iter().enumerate() {
                    if block.has_axes() && word.is_none() {
                        home[i] = target[i];
                    }
                }
                self.parser_mm = home;
                self.actions.push_back(Action::Line { target: home, feed: Feed::Rapid });
            }
            Some(Special::StoreHome(slot)) => {
                self.eeprom.systems[slot] = self.parser_mm;
                self.actions.extend([Action::EepromWrite, Action::EepromEnd]);
            }
            Some(Special::Shift) => {
                let system = self.eeprom.systems[self.modal.system];
                for (i, from) in system.iter().enumerate() {
                    if let Some(v) = block.axes[i] {
                        let length = if i == 2 { self.modal.tool_offset } else { 0.0 };
                        self.modal.g92[i] = self.parser_mm[i] - from - length - v;
                    }
                }
            }
            Some(Special::ClearShift) => self.modal.g92 = [0.0; 6],
            Some(Special::Dwell | Special::ToolOffset) | None => {}
        }
    }

    fn set_system(&mut self, block: &Block) {
        let slot = match block.p as usize {
            0 => self.modal.system,
            p => p - 1,
        };
        for i in 0..self.n() {
            let Some(v) = block.axes[i] else { continue };
            self.eeprom.systems[slot][i] = if block.l == 20.0 {
                let length = if i == 2 { self.modal.tool_offset } else { 0.0 };
                self.parser_mm[i] - self.modal.g92[i] - length - v
            } else {
                v
            };
        }
        self.actions.extend([Action::EepromWrite, Action::EepromEnd]);
    }

    fn queue_motion(&mut self, motion: Motion, block: &Block, target: Position) -> Result<(), u8> {
        let feed = match (motion, block.modal.inverse_time) {
            (Motion::Rapid, _) => Feed::Rapid,
            (_, true) => Feed::Inverse(block.feed.unwrap_or(1.0)),
            (_, false) => Feed::PerMinute(self.modal.feed),
        };
        match motion {
            Motion::Rapid | Motion::Linear => self.actions.push_back(Action::Line { target, feed }),
            Motion::Clockwise | Motion::Counter => {
                let points = arc::points(&self.parser_mm, &target, block, self.eeprom.get(12))?;
                let feed = match feed {
                    Feed::Inverse(v) => Feed::Inverse(v * points.len() as f64),
                    other => other,
                };
                self.actions.extend(points.into_iter().map(|target| Action::Line { target, feed }));
            }
            Motion::Probe(part) => {
                if target == self.parser_mm {
                    return Err(33);
                }
                self.actions.extend([Action::Sync, Action::Probe { target, feed, part }]);
                return Ok(());
            }
            Motion::None => {}
        }
        self.parser_mm = target;
        Ok(())
    }

    /// `$J=`: the same motion with rules of its own.
    pub(super) fn jog(&mut self, line: &str) -> Result<(), u8> {
        if !matches!(self.state, State::Idle | State::Jog) {
            return Err(8);
        }
        let block = gcode::check(line, &self.modal, self.dialect(), true)?;
        let target = self.target(&block)?;
        if self.eeprom.flag(20) && self.beyond_travel(&target) {
            return Err(15);
        }
        self.parser_mm = target;
        let feed = Feed::Jog(block.feed.unwrap_or(0.0));
        self.actions.push_back(Action::Line { target, feed });
        Ok(())
    }

    fn beyond_travel(&self, target: &Position) -> bool {
        (0..self.n()).any(|i| !(target[i] <= 0.0 && target[i] >= -self.eeprom.axis(130, i)))
    }

    /// Does the first action if it can be done now.
    pub(super) fn pump_actions(&mut self) -> bool {
        if self.suspended() || self.critical || self.homing.is_some() {
            return false;
        }
        let Some(action) = self.actions.front().cloned() else { return false };
        let done = match action {
            Action::Reply(result) => {
                self.print(&reply(result));
                true
            }
            Action::StartupReply(line, result) => {
                let text = format!(">{line}:{}", reply(result));
                self.print(&text);
                true
            }
            Action::Startup(i) => return self.run_startup(i),
            Action::Sync => self.synced(),
            Action::Spindle(spindle, speed) => {
                if self.state != State::Check {
                    self.spindle = (spindle, speed);
                    self.cadence.ov = 0;
                }
                true
            }
            Action::Coolant(flood, mist) => {
                if self.state != State::Check {
                    self.coolant = (flood, mist);
                    (self.modal.flood, self.modal.mist) = (flood, mist);
                    self.cadence.ov = 0;
                }
                true
            }
            Action::Dwell(seconds) => {
                if self.state != State::Check {
                    self.dwell_until = Some(self.now + (seconds.min(1e6) * 1e9) as Ns);
                }
                self.actions[0] = Action::DwellEnd;
                return true;
            }
            Action::DwellEnd => expired(&mut self.dwell_until, self.now),
            Action::EepromWrite => {
                if self.eeprom_write_ns > 0 {
                    self.eeprom_until = Some(self.now + self.eeprom_write_ns);
                }
                true
            }
            Action::EepromEnd => expired(&mut self.eeprom_until, self.now),
            Action::Line { target, feed } => self.line_action(&target, feed),
            Action::Probe { target, feed, part } => return self.probe_action(&target, feed, part),
            Action::ProbeFailed => {
                self.probe = (self.machine_position(), false);
                self.print("ALARM:5\r\n");
                self.state = State::Alarm;
                true
            }
            Action::Pause => {
                self.modal.program = None;
                self.actions.pop_front();
                self.state = State::Hold;
                return true;
            }
            Action::ProgramEnd => {
                self.end_program();
                true
            }
            Action::Homing => return false,
            Action::Sleep => {
                self.print("ok\r\n[MSG:Sleeping]\r\n");
                self.actions.clear();
                self.spindle = (Spindle::Off, 0.0);
                self.coolant = (false, false);
                self.axes.iter_mut().for_each(|a| a.set_power(false));
                self.state = State::Sleep;
                return true;
            }
            Action::PowerFails => {
                self.power_cycle();
                return true;
            }
            Action::Restart => {
                self.actions.clear();
                self.halt();
                self.print("ok\r\n");
                self.greet(false);
                return true;
            }
        };
        if done && !self.actions.is_empty() && !self.critical {
            self.actions.pop_front();
        }
        done
    }

    fn run_startup(&mut self, i: usize) -> bool {
        self.actions.pop_front();
        let later: Vec<Action> = self.actions.drain(..).collect();
        let line = self.eeprom.startup[i].clone();
        let result = self.gcode(&line);
        self.actions.push_back(Action::StartupReply(line, result));
        self.actions.extend(later);
        true
    }

    fn synced(&mut self) -> bool {
        if !self.planner.empty() && self.state == State::Idle {
            self.begin(State::Run);
        }
        self.planner.empty()
    }

    fn end_program(&mut self) {
        let m = &mut self.modal;
        *m = Modal {
            feed: m.feed,
            speed: m.speed,
            tool: m.tool,
            g92: m.g92,
            tool_offset: m.tool_offset,
            inches: m.inches,
            ..Modal::new()
        };
        m.motion = Motion::Linear;
        self.overrides = super::Overrides { feed: 100, rapid: 100, spindle: 100 };
        self.spindle = (Spindle::Off, 0.0);
        self.coolant = (false, false);
        self.cadence = super::Cadence::default();
        self.print("[MSG:Pgm End]\r\n");
    }

    /// Plans one straight move. False while it has to wait.
    fn line_action(&mut self, target: &Position, feed: Feed) -> bool {
        if self.state == State::Check {
            return true;
        }
        let jog = matches!(feed, Feed::Jog(_));
        if !jog && self.eeprom.flag(20) && self.beyond_travel(target) {
            if self.state == State::Run {
                self.planner.hold();
                if self.stopping() {
                    return false;
                }
            }
            self.critical_alarm(2);
            return true;
        }
        if self.planner.room() == 0 {
            if self.state == State::Idle {
                self.begin(State::Run);
            }
            return false;
        }
        let table = self.table();
        let mut end = self.planned;
        for (i, v) in end.iter_mut().enumerate().take(self.n()) {
            *v = (target[i] * table.steps_per_mm[i]).round() as i64;
        }
        let mut delta = [0; 6];
        for i in 0..self.n() {
            delta[i] = end[i] - self.planned[i];
        }
        let Some(path) = Path::new(delta, self.n(), &table, feed) else { return true };
        self.planned = end;
        self.planner.push(path, &table);
        if jog && self.state == State::Idle {
            self.begin(State::Jog);
        } else if self.state == State::Idle && self.cycle_start_at.is_none() {
            self.cycle_start_at = Some(self.now + CYCLE_START);
        }
        true
    }

    /// There is no probe on this bench: its contact never closes.
    fn probe_action(&mut self, target: &Position, feed: Feed, part: u8) -> bool {
        self.actions.pop_front();
        if self.state == State::Check {
            return true;
        }
        // G38.4 and G38.5 move away from a contact, which must be closed at their start.
        if part >= 4 {
            self.print("ALARM:4\r\n");
            self.state = State::Alarm;
            return true;
        }
        let mut rest = vec![Action::Line { target: *target, feed }, Action::Sync];
        if part == 2 {
            rest.push(Action::ProbeFailed);
        }
        self.parser_mm = *target;
        for action in rest.into_iter().rev() {
            self.actions.push_front(action);
        }
        true
    }
}

fn reply(result: Result<(), u8>) -> String {
    match result {
        Ok(()) => "ok\r\n".into(),
        Err(code) => format!("error:{code}\r\n"),
    }
}

fn expired(timer: &mut Option<Ns>, now: Ns) -> bool {
    if timer.is_some_and(|t| t > now) {
        return false;
    }
    *timer = None;
    true
}
