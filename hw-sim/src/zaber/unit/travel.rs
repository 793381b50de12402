//! An axis in motion: pulses, what they meet, and how homing goes on from there.

use super::{Task, Unit};
use crate::port::Ns;
use crate::zaber::flags::Flag;
use crate::zaber::settings::RESOLUTION;

/// What a step brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trip {
    /// The home switch changed.
    Switch,
    /// Homing went on beyond all travel.
    Missed,
    /// The encoder does not follow.
    Stall,
}

/// What every step is judged by, read once from the settings.
struct Watch {
    home: bool,
    tolerance: f64,
    far: Option<i64>,
}

impl Unit {
    /// Lets the axis run until `to`.
    pub(in crate::zaber) fn advance(&mut self, to: Ns) {
        while let Some(next) = self.path.boundary(self.now).filter(|t| *t <= to) {
            self.travel(next);
        }
        self.travel(to);
    }

    /// Sends pulses until `to`, or until what is watched for happens; then on from there.
    fn travel(&mut self, to: Ns) {
        while self.now < to || self.busy() {
            let wanted = self.zero + self.pulses_at(self.path.at(to).0);
            let trip = self.pulse(wanted);
            let at = if trip.is_some() {
                let x = (self.sent - self.zero) as f64 * self.resolution() / RESOLUTION as f64;
                self.path.reaches(x, self.now, to)
            } else {
                to
            };
            self.stage.relax((at - self.now) as f64 / 1e9);
            self.now = at;
            let speed = self.path.at(at).1;
            self.stage.set_rate(speed * RESOLUTION as f64 / self.resolution());
            if let Some(trip) = trip {
                self.on_trip(trip);
            }
            self.settle();
            if trip.is_none() || at >= to {
                break;
            }
        }
    }

    /// Steps towards `wanted`, up to the step that makes something happen.
    fn pulse(&mut self, wanted: i64) -> Option<Trip> {
        let watch = self.watch();
        let step = (wanted - self.sent).signum();
        while self.sent != wanted {
            self.stage.step(step);
            self.sent += step;
            if let Some(trip) = self.trip(&watch) {
                return Some(trip);
            }
        }
        None
    }

    /// How far the encoder may see the carriage from where the pulses should have brought it.
    fn stalled(&self, tolerance: f64) -> bool {
        let here = (self.sent - self.zero) as f64 * self.resolution() / RESOLUTION as f64;
        tolerance > 0.0 && self.encoder_pos().is_some_and(|seen| (seen - here).abs() > tolerance)
    }

    fn watch(&self) -> Watch {
        let range = self.setting("limit.max") - self.setting("limit.min");
        let seeking = matches!(self.task, Task::Seek | Task::Leave);
        Watch {
            home: self.referenced && self.store.get("limit.home.action") != 0,
            tolerance: self.setting("cloop.stall.tolerance"),
            far: seeking.then(|| self.pulses_at(range * 1.25 + self.setting("limit.home.offset") * 4.0)),
        }
    }

    fn trip(&mut self, watch: &Watch) -> Option<Trip> {
        let closed = self.stage.switch();
        let was = std::mem::replace(&mut self.switch_was, closed);
        let switch = match self.task {
            Task::Seek => closed,
            Task::Leave => !closed,
            Task::Move | Task::Manual => closed && !was && watch.home,
            Task::Past | Task::Settle | Task::Rest => false,
        };
        if self.encoder.is_some() && self.stalled(watch.tolerance) {
            Some(Trip::Stall)
        } else if watch.far.is_some_and(|far| (self.sent - self.sought).abs() > far) {
            Some(Trip::Missed)
        } else {
            switch.then_some(Trip::Switch)
        }
    }

    fn on_trip(&mut self, trip: Trip) {
        match (trip, self.task) {
            (Trip::Stall, _) => {
                self.fail(Flag::FS);
                if let Some(x) = self.encoder_pos() {
                    self.set_counter(x.round());
                }
            }
            (Trip::Missed, _) => self.fail(Flag::FE),
            (Trip::Switch, Task::Seek) => {
                self.path.halt(self.now, self.pace_of(None, None));
                self.task = Task::Past;
            }
            (Trip::Switch, Task::Leave) => {
                let (home, offset) = (self.setting("limit.home.preset"), self.setting("limit.home.offset"));
                self.set_counter(home - offset);
                self.referenced = true;
                self.homed = true;
                self.head_for(home, Task::Settle);
            }
            (Trip::Switch, _) => self.fail(Flag::WL),
        }
    }

    fn fail(&mut self, flag: Flag) {
        self.freeze();
        self.raised.insert(flag);
        self.finished = true;
    }

    /// What follows when a motion has come to its end.
    pub(super) fn settle(&mut self) {
        self.path.forget(self.now);
        if self.busy() || self.task == Task::Rest {
            return;
        }
        if self.task == Task::Past {
            self.sought = self.sent;
            self.leave_switch();
            return;
        }
        self.task = Task::Rest;
        self.target = None;
        self.stage.set_rate(0.0);
        self.finished = true;
    }
}
