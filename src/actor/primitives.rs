//! What the signals between the threads are made of. In unit tests each use of one is a moment at which the model
//! checker of `schedules` may let another thread run; outside of it they are the same as in the program.

pub(super) use made_of::{
    AtomicBool, AtomicU8, AtomicU64, Mutex, Receiver, RecvTimeoutError, Sender, TrySendError, bounded,
};

#[cfg(not(test))]
mod made_of {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

    pub(crate) use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
    pub(crate) use parking_lot::Mutex;
}

#[cfg(test)]
pub(super) mod made_of {
    use std::cell::Cell;
    use std::sync::atomic::{self, Ordering};
    use std::time::Duration;

    pub(crate) use crossbeam_channel::{RecvTimeoutError, TrySendError};
    use parking_lot::MutexGuard;

    /// Who waits as long as this has nothing else to do: the wait never ends by itself in the model, so that a wake that
    /// was lost is one that never comes.
    const FOREVER: Duration = Duration::from_millis(200);

    thread_local! {
        /// Whether the model checker runs here, who takes all its threads on one.
        static MODEL: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs it as a part of the model.
    pub(crate) fn within_the_model(run: impl FnOnce()) {
        MODEL.set(true);
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        MODEL.set(false);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    }

    /// Another thread may go on from here.
    fn turn() {
        if MODEL.get() && !std::thread::panicking() {
            shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
        }
    }

    /// It does the same until it comes out.
    fn until<T>(mut come: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(value) = come() {
                return value;
            }
            shuttle::thread::yield_now();
        }
    }

    macro_rules! atomic {
        ($name:ident, $of:ty, $($call:ident($($arg:ident: $t:ty),*) $(-> $out:ty)?),+) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(atomic::$name);

            impl $name {
                pub(crate) fn new(value: $of) -> Self {
                    $name(atomic::$name::new(value))
                }
                $(pub(crate) fn $call(&self, $($arg: $t),*) $(-> $out)? {
                    turn();
                    self.0.$call($($arg),*)
                })+
            }
        };
    }

    atomic!(AtomicBool, bool, load(how: Ordering) -> bool, store(value: bool, how: Ordering));
    atomic!(AtomicU8, u8,
        load(how: Ordering) -> u8,
        compare_exchange(is: u8, to: u8, done: Ordering, not: Ordering) -> Result<u8, u8>);
    atomic!(AtomicU64, u64,
        load(how: Ordering) -> u64,
        store(value: u64, how: Ordering),
        fetch_or(bits: u64, how: Ordering) -> u64,
        fetch_and(bits: u64, how: Ordering) -> u64,
        fetch_add(more: u64, how: Ordering) -> u64);

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            turn();
            if MODEL.get() { until(|| self.0.try_lock()) } else { self.0.lock() }
        }
    }

    #[derive(Debug)]
    pub(crate) struct Sender<T>(crossbeam_channel::Sender<T>);

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            Sender(self.0.clone())
        }
    }

    impl<T> Sender<T> {
        pub(crate) fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
            turn();
            self.0.try_send(value)
        }
    }

    pub(crate) struct Receiver<T>(crossbeam_channel::Receiver<T>);

    impl<T> Clone for Receiver<T> {
        fn clone(&self) -> Self {
            Receiver(self.0.clone())
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_recv(&self) -> Result<T, crossbeam_channel::TryRecvError> {
            turn();
            self.0.try_recv()
        }

        pub(crate) fn recv_timeout(&self, at_most: Duration) -> Result<T, RecvTimeoutError> {
            if !MODEL.get() {
                return self.0.recv_timeout(at_most);
            }
            turn();
            until(|| match self.0.try_recv() {
                Ok(value) => Some(Ok(value)),
                Err(crossbeam_channel::TryRecvError::Disconnected) => Some(Err(RecvTimeoutError::Disconnected)),
                Err(crossbeam_channel::TryRecvError::Empty) => {
                    (at_most < FOREVER).then_some(Err(RecvTimeoutError::Timeout))
                }
            })
        }
    }

    pub(crate) fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
        let (send, receive) = crossbeam_channel::bounded(room);
        (Sender(send), Receiver(receive))
    }
}
