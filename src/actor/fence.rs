//! The fence around a driver: a panic in it is a fault of its device, and it is never called again.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A driver, reached through the fence alone. `D` is `dyn Stage`, `dyn Camera`, `dyn Output` or `dyn Sensor`.
pub(super) struct Fenced<D: ?Sized> {
    driver: Box<D>,
    dead: bool,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Called {
    /// The driver came back.
    Back,
    /// It panicked, now. Whoever called makes that the device's fault.
    Failed,
    /// It had before, and was not called.
    Dead,
}

impl<D: ?Sized> Fenced<D> {
    pub(super) fn new(driver: Box<D>) -> Fenced<D> {
        Fenced { driver, dead: false }
    }

    /// Calls the driver, if it lives.
    pub(super) fn call(&mut self, call: impl FnOnce(&mut D)) -> Called {
        if self.dead {
            return Called::Dead;
        }
        match catch_unwind(AssertUnwindSafe(|| call(&mut self.driver))) {
            Ok(()) => Called::Back,
            Err(_) => {
                self.dead = true;
                Called::Failed
            }
        }
    }

    /// Whether it has panicked.
    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_panics_is_told_once_and_never_called_again() {
        let mut fenced = Fenced::new(Box::new(0));
        assert_eq!(fenced.call(|n| *n += 1), Called::Back);
        assert_eq!(fenced.call(|_| panic!("on purpose")), Called::Failed);
        assert!(fenced.is_dead());
        assert_eq!(fenced.call(|_| unreachable!("a dead driver was called")), Called::Dead);
    }
}
