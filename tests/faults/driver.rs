//! A driver that panics on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steadyhand::devices::link::StopScript;
use steadyhand::devices::{Stage, StageEvent};
use steadyhand::interlocks::{Cleared, Drive, HomeDrive};
use steadyhand::model::{LinkStatus, RigError, Time};

/// Around a stage's driver: its next tick panics once that is set.
pub struct Fragile(pub Box<dyn Stage>, pub Arc<AtomicBool>);

impl Stage for Fragile {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        assert!(!self.1.swap(false, Ordering::Relaxed), "on purpose");
        self.0.tick(now, out)
    }
    fn poll(&mut self, now: Time) {
        self.0.poll(now);
    }
    fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError> {
        self.0.go(order, now)
    }
    fn home(&mut self, order: Cleared<'_, HomeDrive>, now: Time) -> Result<(), RigError> {
        self.0.home(order, now)
    }
    fn stop(&mut self, now: Time) -> bool {
        self.0.stop(now)
    }
    fn halt(&mut self, now: Time) -> bool {
        self.0.halt(now)
    }
    fn stop_script(&self, homing: bool) -> StopScript {
        self.0.stop_script(homing)
    }
    fn recover(&mut self, now: Time) {
        self.0.recover(now);
    }
    fn link(&self) -> LinkStatus {
        self.0.link()
    }
    fn close(&mut self) {
        self.0.close();
    }
}
