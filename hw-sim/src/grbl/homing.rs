//! The homing cycle: seek, pull off, locate, pull off; Z first, then the others together.

use super::exec::Action;
use super::motion::{Feed, Path};
use super::{Grbl, MS, State};
use crate::mechanics::Axis;
use crate::port::Ns;

/// The search goes this many times the axis' travel, the second approach this many pull-offs (interface.md, ALARM:9).
const SEARCH: f64 = 1.5;
const LOCATE: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Seek,
    PullOff,
    Locate,
    LastPullOff,
}

#[derive(Debug)]
pub(super) struct Homing {
    groups: Vec<Vec<usize>>,
    group: usize,
    phase: Phase,
    found: [bool; 6],
    started: bool,
    pause_until: Option<Ns>,
}

impl Homing {
    pub(super) fn new(groups: Vec<Vec<usize>>) -> Homing {
        Homing { groups, group: 0, phase: Phase::Seek, found: [false; 6], started: false, pause_until: None }
    }

    pub(super) fn wakes_at(&self) -> Option<Ns> {
        self.pause_until
    }

    pub(super) fn approaching(&self) -> bool {
        matches!(self.phase, Phase::Seek | Phase::Locate) && self.started
    }

    fn axes(&self) -> &[usize] {
        &self.groups[self.group]
    }

    /// The axes whose switch has yet to close.
    pub(super) fn wanted(&self) -> [bool; 6] {
        let mut wanted = [false; 6];
        for i in self.axes() {
            wanted[*i] = !self.found[*i];
        }
        wanted
    }
}

impl Grbl {
    pub(super) fn start_homing(&mut self, groups: Vec<Vec<usize>>) {
        self.state = State::Homing;
        self.planner.clear();
        self.idle_off_at = None;
        self.axes.iter_mut().for_each(|a| a.set_power(true));
        self.homing = Some(Homing::new(groups));
    }

    /// Takes the cycle further if it can go further now.
    pub(super) fn pump_homing(&mut self) -> bool {
        let Some(h) = &mut self.homing else { return false };
        if let Some(until) = h.pause_until {
            if until > self.now {
                return false;
            }
            h.pause_until = None;
            self.next_phase();
            return true;
        }
        if !h.started {
            h.started = true;
            self.start_phase();
            return true;
        }
        if self.planner.empty() {
            self.end_phase();
            return true;
        }
        false
    }

    fn start_phase(&mut self) {
        let Some(h) = &mut self.homing else { return };
        let axes = h.axes().to_vec();
        let phase = h.phase;
        h.found = [false; 6];
        let pull_off = self.eeprom.get(27);
        let travel = axes.iter().map(|i| self.eeprom.axis(130, *i)).fold(0.0, f64::max);
        let (distance, rate) = match phase {
            Phase::Seek => (SEARCH * travel, self.eeprom.get(25)),
            Phase::Locate => (LOCATE * pull_off, self.eeprom.get(24)),
            Phase::PullOff | Phase::LastPullOff => (-pull_off, self.eeprom.get(25)),
        };
        let mask = self.eeprom.get(23) as u32;
        let mut delta = [0_i64; 6];
        for i in &axes {
            let sign = if mask & (1 << i) != 0 { -1.0 } else { 1.0 };
            delta[*i] = (sign * distance * self.eeprom.steps_per_mm(*i)).round() as i64;
            self.steps[*i] = 0;
        }
        let table = self.table();
        let feed = Feed::Search(rate * (axes.len() as f64).sqrt());
        self.planner.clear();
        if let Some(path) = Path::new(delta, self.n(), &table, feed) {
            self.planner.push(path, &table);
            self.planner.start();
        }
        if matches!(phase, Phase::Seek | Phase::Locate) {
            self.homing_switch();
        }
    }

    /// Locks the axes whose switch has closed; the approach ends when all have.
    pub(super) fn homing_switch(&mut self) {
        let Some(h) = &mut self.homing else { return };
        for i in h.groups[h.group].clone() {
            if !h.found[i] && self.axes[i].switch() {
                h.found[i] = true;
                self.planner.lock(i);
                self.axes[i].set_rate(0.0);
            }
        }
        if h.axes().iter().all(|i| h.found[*i]) {
            self.planner.clear();
        }
    }

    fn end_phase(&mut self) {
        let Some(h) = &self.homing else { return };
        let failure = match h.phase {
            Phase::Seek | Phase::Locate => h.axes().iter().any(|i| !h.found[*i]).then_some(9),
            Phase::PullOff | Phase::LastPullOff => h.axes().iter().any(|i| self.axes[*i].switch()).then_some(8),
        };
        if let Some(code) = failure {
            self.fail_homing(code);
            return;
        }
        let debounce = self.eeprom.get(26) as Ns * MS;
        self.axes.iter_mut().for_each(|a| a.set_rate(0.0));
        if let Some(h) = &mut self.homing {
            h.pause_until = Some(self.now + debounce);
        }
    }

    fn next_phase(&mut self) {
        let Some(h) = &mut self.homing else { return };
        h.started = false;
        h.phase = match h.phase {
            Phase::Seek => Phase::PullOff,
            Phase::PullOff => Phase::Locate,
            Phase::Locate => Phase::LastPullOff,
            Phase::LastPullOff => Phase::Seek,
        };
        if h.phase != Phase::Seek {
            return;
        }
        let axes = h.axes().to_vec();
        h.group += 1;
        let last = h.group == h.groups.len();
        let mask = self.eeprom.get(23) as u32;
        let pull_off = self.eeprom.get(27);
        for i in axes {
            let negative_end = mask & (1 << i) != 0;
            let mm = if negative_end { pull_off - self.eeprom.axis(130, i) } else { -pull_off };
            self.steps[i] = (mm * self.eeprom.steps_per_mm(i)).round() as i64;
        }
        if last {
            self.end_homing();
        }
    }

    fn end_homing(&mut self) {
        self.homing = None;
        self.planner.clear();
        self.sync_position();
        self.refresh_pins();
        if std::mem::take(&mut self.status_pending) {
            self.report_status();
        }
        self.state = State::Idle;
        self.rest();
        debug_assert!(matches!(self.actions.front(), Some(Action::Homing)));
        self.actions.pop_front();
        self.queue_startup();
    }

    /// `ALARM:n`, then the line's `ok`, then a restart into the alarm state.
    pub(super) fn fail_homing(&mut self, code: u8) {
        self.halt();
        if code < 8 {
            self.axes.iter_mut().for_each(|a| a.set_power(false));
        } else {
            self.axes.iter_mut().for_each(Axis::stop_dead);
        }
        self.print(&format!("ALARM:{code}\r\n"));
        self.state = State::Alarm;
        self.restart();
    }
}
