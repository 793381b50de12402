//! One engine behind the devices of one link: each device is a front that borrows it for the time of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// An engine that several devices share. All calls come from the rig thread, one after the other; the lock only
/// makes that visible to the compiler.
pub(super) struct Shared<E>(Arc<Inner<E>>);

struct Inner<E> {
    engine: Mutex<E>,
    /// A call has panicked: what it left is not used again.
    broken: AtomicBool,
}

impl<E> Clone for Shared<E> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

/// Marks the engine when the call that it watches panics.
struct Watch<'a>(&'a AtomicBool);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

impl<E> Shared<E> {
    pub(super) fn new(engine: E) -> Shared<E> {
        Shared(Arc::new(Inner { engine: Mutex::new(engine), broken: AtomicBool::new(false) }))
    }

    /// Calls the engine.
    ///
    /// # Panics
    /// When a call has panicked before, of whichever device: the rig thread takes that as the fault of the device
    /// that calls, and so all devices of the link fail.
    pub(super) fn with<R>(&self, call: impl FnOnce(&mut E) -> R) -> R {
        assert!(!self.0.broken.load(Ordering::Acquire), "the driver of this link has failed before");
        let mut engine = self.0.engine.lock();
        let _watch = Watch(&self.0.broken);
        call(&mut engine)
    }

    /// Looks at the engine in whatever state it is.
    pub(super) fn look<R>(&self, look: impl FnOnce(&E) -> R) -> R {
        look(&self.0.engine.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_panic_in_one_device_is_the_end_of_all_on_the_link_and_its_state_can_still_be_told() {
        let one = Shared::new(7);
        let other = one.clone();
        assert_eq!(other.with(|n| *n), 7);
        assert!(catch_unwind(AssertUnwindSafe(|| one.with(|_| panic!("on purpose")))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| other.with(|n| *n))).is_err());
        assert_eq!(other.look(|n| *n), 7);
    }
}
