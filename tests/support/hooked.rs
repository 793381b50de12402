//! A driver with something before each of its ticks: a panic, an event that comes too soon.

use std::sync::Arc;

use parking_lot::Mutex;
use steadyhand::devices::link::StopScript;
use steadyhand::devices::{Stage, StageEvent};
use steadyhand::interlocks::{Cleared, Drive, HomeDrive};
use steadyhand::model::{LinkStatus, RigError, Time};

/// What is done before a tick; what it pushes comes before the driver's own events.
pub type Hook = Arc<Mutex<dyn FnMut(&mut Vec<StageEvent>) + Send>>;

/// Around a stage's driver.
pub struct Hooked(pub Box<dyn Stage>, pub Hook);

impl Stage for Hooked {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        (*self.1.lock())(out);
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
