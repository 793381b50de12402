//! One engine behind the devices of one link: each device is a front that borrows it for the time of a call.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
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

/// What an engine still does when a call of it has panicked.
pub(super) trait LastWords {
    /// Hands the operating system the bytes that stop what may move, whatever state a call has left. It may fail too.
    fn last_words(&mut self);
}

impl<E: LastWords> Shared<E> {
    pub(super) fn new(engine: E) -> Shared<E> {
        Shared(Arc::new(Inner { engine: Mutex::new(engine), broken: AtomicBool::new(false) }))
    }

    /// Calls the engine. A panic in it is a failure of every device of the link: what moves is stopped by the engine's
    /// last words, and whoever calls next fails too.
    ///
    /// # Panics
    /// When this call has, or any before, of whichever device: the rig thread takes that as the fault of the device that
    /// calls.
    pub(super) fn with<R>(&self, call: impl FnOnce(&mut E) -> R) -> R {
        assert!(!self.0.broken.load(Ordering::Acquire), "the driver of this link has failed before");
        let mut engine = self.0.engine.lock();
        match catch_unwind(AssertUnwindSafe(|| call(&mut engine))) {
            Ok(done) => done,
            Err(panic) => {
                self.0.broken.store(true, Ordering::Release);
                // Where even that fails nothing more can be done from here.
                drop(catch_unwind(AssertUnwindSafe(|| engine.last_words())));
                resume_unwind(panic)
            }
        }
    }

    /// Looks at the engine in whatever state it is.
    pub(super) fn look<R>(&self, look: impl FnOnce(&E) -> R) -> R {
        look(&self.0.engine.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LastWords for Vec<&'static str> {
        fn last_words(&mut self) {
            self.push("stop");
            panic!("and that fails too");
        }
    }

    #[test]
    fn a_panic_in_one_device_is_the_end_of_all_on_the_link_which_is_stopped_and_its_state_can_still_be_told() {
        let one = Shared::new(vec!["ready"]);
        let other = one.clone();
        assert_eq!(other.with(|said| said.len()), 1);
        assert!(catch_unwind(AssertUnwindSafe(|| one.with(|_| panic!("on purpose")))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| other.with(|said| said.len()))).is_err());
        assert_eq!(other.look(Clone::clone), ["ready", "stop"], "the stop was given once");
    }
}
