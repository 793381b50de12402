//! Bytes as they come off the wire: real-time commands act at once, the rest waits in the buffer.

use super::{Grbl, MS, State};

/// How long the spindle gets to spin up when a door or a spindle stop ends (commands.md, 0x9E).
const SPINDLE_RESTORE: u64 = 4000 * MS;

impl Grbl {
    /// One byte has arrived.
    pub(crate) fn receive(&mut self, byte: u8) {
        if self.boot_until.is_some() || self.eeprom_until.is_some() {
            return;
        }
        match byte {
            0x18 => self.soft_reset(),
            b'?' => self.status_query(),
            b'~' => self.cycle_start(),
            b'!' => self.feed_hold(),
            0x84 => self.safety_door(),
            0x85 => self.cancel_jog(),
            0x80.. => self.extended(byte),
            _ if self.rx.len() < self.rx_limit => self.rx.push_back(byte),
            _ => {}
        }
        self.pump();
    }

    fn status_query(&mut self) {
        if self.critical {
            return;
        }
        if self.homing.is_some() {
            self.status_pending = true;
        } else {
            self.report_status();
        }
    }

    fn cycle_start(&mut self) {
        if self.critical || self.homing.is_some() || self.stopping() {
            return;
        }
        match self.state {
            State::Hold => self.resume_motion(),
            State::Door if self.door_resume.is_none() => {
                let restores = self.spindle.0 != super::Spindle::Off;
                let delay = if restores { SPINDLE_RESTORE } else { 0 };
                self.door_resume = Some(self.now + delay);
            }
            State::Idle if !self.planner.empty() => self.begin(State::Run),
            _ => {}
        }
    }

    fn feed_hold(&mut self) {
        if self.critical || self.homing.is_some() {
            return;
        }
        match self.state {
            State::Idle | State::Run => {
                self.state = State::Hold;
                self.cycle_start_at = None;
                self.planner.hold();
            }
            State::Jog => self.cancel_jog(),
            _ => {}
        }
    }

    fn cancel_jog(&mut self) {
        if self.state == State::Jog && !self.jog_cancel {
            self.jog_cancel = true;
            self.planner.hold();
        }
    }

    fn safety_door(&mut self) {
        if self.critical {
            return;
        }
        if self.homing.is_some() {
            self.fail_homing(7);
            return;
        }
        match self.state {
            State::Jog => self.jog_cancel = true,
            State::Idle | State::Run | State::Hold | State::Door => {}
            _ => return,
        }
        self.print("[MSG:Check Door]\r\n");
        self.state = State::Door;
        self.door_resume = None;
        self.spindle_stopped = false;
        self.cycle_start_at = None;
        self.planner.hold();
        self.cadence.ov = 0;
    }

    fn extended(&mut self, byte: u8) {
        if self.critical || self.homing.is_some() {
            return;
        }
        let before = self.overrides;
        let o = &mut self.overrides;
        let nudge = |value: u8, by: i16| (i16::from(value) + by).clamp(10, 200) as u8;
        match byte {
            0x90 => o.feed = 100,
            0x91 => o.feed = nudge(o.feed, 10),
            0x92 => o.feed = nudge(o.feed, -10),
            0x93 => o.feed = nudge(o.feed, 1),
            0x94 => o.feed = nudge(o.feed, -1),
            0x95 => o.rapid = 100,
            0x96 => o.rapid = 50,
            0x97 => o.rapid = 25,
            0x99 => o.spindle = 100,
            0x9a => o.spindle = nudge(o.spindle, 10),
            0x9b => o.spindle = nudge(o.spindle, -10),
            0x9c => o.spindle = nudge(o.spindle, 1),
            0x9d => o.spindle = nudge(o.spindle, -1),
            0x9e if self.state == State::Hold && !self.stopping() => {
                self.spindle_stopped = !self.spindle_stopped;
                self.cadence.ov = 0;
            }
            0xa0 if self.coolant_may_toggle() => {
                self.coolant.0 = !self.coolant.0;
                self.modal.flood = self.coolant.0;
                self.cadence.ov = 0;
            }
            0xa1 if self.coolant_may_toggle() && self.dialect().mist => {
                self.coolant.1 = !self.coolant.1;
                self.modal.mist = self.coolant.1;
                self.cadence.ov = 0;
            }
            _ => {}
        }
        if self.overrides != before {
            self.cadence.ov = 0;
        }
    }

    fn coolant_may_toggle(&self) -> bool {
        matches!(self.state, State::Idle | State::Run | State::Hold)
    }

    /// 0x18: at rest the position is kept; in motion it is lost, and the drivers go off.
    fn soft_reset(&mut self) {
        if self.homing.is_some() {
            self.fail_homing(6);
            return;
        }
        let decelerating = matches!(self.state, State::Hold | State::Door) && self.stopping();
        let moving = matches!(self.state, State::Run | State::Jog) || decelerating;
        if moving && self.planner.moving() {
            self.halt();
            self.axes.iter_mut().for_each(|a| a.set_power(false));
            self.print("ALARM:3\r\n");
            self.state = State::Alarm;
        } else {
            self.halt();
            self.rest();
        }
        self.restart();
    }

    /// A line that was still being worked on is acknowledged, then everything starts anew.
    pub(super) fn restart(&mut self) {
        if self.reply_pending() {
            self.print("ok\r\n");
        }
        self.greet(false);
    }
}
