//! What the rig thread holds of a controller: a front for the stage and one for each output and sensor, all of the
//! one engine that speaks on the link.

use std::time::Duration;

use super::driver::Grbl;
use crate::devices::link::StopScript;
use crate::devices::shared::{LastWords, Shared};
use crate::devices::{Output, OutputEvent, Sensor, SensorEvent, Stage, StageEvent};
use crate::interlocks::{Cleared, Drive, HomeDrive};
use crate::model::{LinkStatus, RigError, SetOutput, Time};

pub(super) fn stage(grbl: &Shared<Grbl>) -> Box<dyn Stage> {
    Box::new(StageFront(grbl.clone()))
}

pub(super) fn output(grbl: &Shared<Grbl>, index: usize) -> Box<dyn Output> {
    Box::new(OutputFront(grbl.clone(), index))
}

pub(super) fn sensor(grbl: &Shared<Grbl>, index: usize) -> Box<dyn Sensor> {
    Box::new(SensorFront(grbl.clone(), index))
}

impl LastWords for Grbl {
    fn last_words(&mut self) {
        Grbl::last_words(self);
    }
}

struct StageFront(Shared<Grbl>);

impl Stage for StageFront {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        self.0.with(|g| {
            let next = g.turn(now);
            out.append(&mut g.stage_events);
            if g.has_events() { now } else { next }
        })
    }

    fn poll(&mut self, now: Time) {
        self.0.with(|g| g.poll(now));
    }

    fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError> {
        self.0.with(|g| g.go(order, now))
    }

    fn home(&mut self, order: Cleared<'_, HomeDrive>, now: Time) -> Result<(), RigError> {
        self.0.with(|g| g.home(order, now))
    }

    fn stop(&mut self, now: Time) -> bool {
        self.0.with(|g| g.stop(now))
    }

    fn halt(&mut self, now: Time) -> bool {
        self.0.with(|g| g.halt(now))
    }

    fn stop_script(&self, homing: bool) -> StopScript {
        self.0.look(|g| g.stop_script(homing))
    }

    fn recover(&mut self, now: Time) {
        self.0.with(|g| g.recover(now));
    }

    fn link(&self) -> LinkStatus {
        self.0.look(Grbl::link)
    }

    fn close(&mut self) {
        self.0.with(Grbl::close);
    }
}

struct OutputFront(Shared<Grbl>, usize);

impl Output for OutputFront {
    fn tick(&mut self, now: Time, out: &mut Vec<OutputEvent>) -> Time {
        self.0.with(|g| {
            let next = g.turn(now);
            out.append(&mut g.outputs[self.1].events);
            if g.has_events() { now } else { next }
        })
    }

    fn poll(&mut self, now: Time) {
        self.0.with(|g| g.poll(now));
    }

    fn set(&mut self, order: Cleared<'_, SetOutput>, now: Time) -> Result<(), RigError> {
        self.0.with(|g| g.set_output(self.1, &order.obey().value, now))
    }

    fn secure(&mut self, now: Time) -> bool {
        self.0.with(|g| g.secure_output(self.1, now))
    }

    fn patience(&self) -> Duration {
        // A report that tells the accessories comes at the latest with every twentieth answer.
        Duration::from_secs(3)
    }

    fn link(&self) -> LinkStatus {
        self.0.look(Grbl::link)
    }

    fn close(&mut self) {
        self.0.with(Grbl::close);
    }
}

struct SensorFront(Shared<Grbl>, usize);

impl Sensor for SensorFront {
    fn tick(&mut self, now: Time, out: &mut Vec<SensorEvent>) -> Time {
        self.0.with(|g| {
            let next = g.turn(now);
            out.append(&mut g.pins[self.1].events);
            if g.has_events() { now } else { next }
        })
    }

    fn poll(&mut self, now: Time) {
        self.0.with(|g| g.poll(now));
    }

    fn link(&self) -> LinkStatus {
        self.0.look(Grbl::link)
    }

    fn close(&mut self) {
        self.0.with(Grbl::close);
    }
}
