//! A value that is kept in a file by a thread of its own: whoever changes it waits for no disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::model::RigError;

/// How often a file that can't be written is tried again, and one that must stay is looked for.
const RETRY: Duration = Duration::from_secs(1);

struct State<T> {
    value: T,
    /// How often `value` has changed, and which of these states is on the disk.
    version: u64,
    written: u64,
    /// Which of them the disk was last asked to take.
    tried: u64,
    failing: Option<String>,
    ended: bool,
}

struct Inner<T> {
    /// Whether there is a file at all.
    kept: bool,
    state: Mutex<State<T>>,
    changed: Condvar,
}

/// The value, and the thread that writes it. Dropping it ends the thread once all is written, or can't be.
pub(super) struct Keeper<T>(Arc<Inner<T>>);

impl<T: Clone + PartialEq + Send + 'static> Keeper<T> {
    fn new(value: T, kept: bool) -> Keeper<T> {
        let state = State { value, version: 0, written: 0, tried: 0, failing: None, ended: false };
        Keeper(Arc::new(Inner { kept, state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Kept in memory alone.
    pub(super) fn in_memory(value: T) -> Keeper<T> {
        Keeper::new(value, false)
    }

    /// Kept by `write`, on a thread of that name, from its first change on.
    ///
    /// # Errors
    /// When the operating system gives no thread; nothing could be kept then.
    pub(super) fn start(
        name: &str,
        value: T,
        write: impl Fn(&T) -> Result<(), RigError> + Send + 'static,
    ) -> io::Result<Keeper<T>> {
        Keeper::guarded(name, value, write, |_| None)
    }

    /// The same, and written again when `lost` says why it isn't on the disk any more. It is asked each second; of a
    /// value that needs no such care it answers `None` without looking.
    ///
    /// # Errors
    /// As [`Keeper::start`].
    pub(super) fn guarded(
        name: &str,
        value: T,
        write: impl Fn(&T) -> Result<(), RigError> + Send + 'static,
        lost: impl Fn(&T) -> Option<String> + Send + 'static,
    ) -> io::Result<Keeper<T>> {
        let keeper = Keeper::new(value, true);
        let inner = keeper.0.clone();
        std::thread::Builder::new().name(name.into()).spawn(move || inner.run(write, lost))?;
        Ok(keeper)
    }

    /// Changes the value; the file follows.
    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        let mut state = self.0.state.lock();
        let before = state.value.clone();
        change(&mut state.value);
        if state.value != before {
            state.version += 1;
            self.0.changed.notify_all();
        }
    }

    /// Looks at the value.
    pub(super) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.state.lock().value)
    }

    /// Why it can't be written, while it can't.
    pub(super) fn failing(&self) -> Option<String> {
        self.0.state.lock().failing.clone()
    }

    /// Whether the value as it stands is on the disk, and why not; `None` while the disk has not answered.
    pub(super) fn outcome(&self) -> Option<Result<(), String>> {
        let state = self.0.state.lock();
        if !self.0.kept || state.written == state.version {
            return Some(Ok(()));
        }
        state.failing.clone().filter(|_| state.tried == state.version).map(Err)
    }

    /// Waits until the value is on the disk, or for so long; `true` when it is.
    pub(super) fn flush(&self, at_most: Duration) -> bool {
        let mut state = self.0.state.lock();
        let done = |state: &mut State<T>| !self.0.kept || state.written == state.version;
        if !done(&mut state) {
            self.0.changed.wait_while_for(&mut state, |s| !done(s), at_most);
        }
        done(&mut state)
    }
}

impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl<T: Clone> Inner<T> {
    fn run(&self, write: impl Fn(&T) -> Result<(), RigError>, lost: impl Fn(&T) -> Option<String>) {
        let mut state = self.state.lock();
        loop {
            if state.written == state.version {
                if state.ended {
                    return;
                }
                self.changed.wait_for(&mut state, RETRY);
                let (version, value) = (state.version, state.value.clone());
                let gone = MutexGuard::unlocked(&mut state, || lost(&value));
                // What has changed meanwhile is written anyway.
                if let Some(why) = gone.filter(|_| state.written == version && state.version == version) {
                    tracing::error!("{why}; it is written again");
                    state.version += 1;
                }
                continue;
            }
            let (version, value) = (state.version, state.value.clone());
            let outcome = MutexGuard::unlocked(&mut state, || write(&value));
            state.tried = version;
            match outcome {
                Ok(()) => {
                    (state.written, state.failing) = (version, None);
                    self.changed.notify_all();
                }
                Err(error) => {
                    if state.failing.is_none() {
                        tracing::error!("{error}");
                    }
                    state.failing = Some(error.what);
                    if state.ended {
                        return;
                    }
                    self.changed.wait_for(&mut state, RETRY);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::model::Code;

    #[test]
    fn nobody_is_told_how_it_went_before_the_disk_has_answered() {
        let (answer, disk) = sync_channel(0);
        let write = move |_: &i32| match disk.recv() {
            Ok(false) => Err(RigError::new(Code::Internal, "The disk is full.")),
            _ => Ok(()),
        };
        let kept = Keeper::start("test", 0, write).unwrap();
        let answers = |well: bool| {
            loop {
                // Without anybody who writes just now nothing is answered.
                let _ = answer.try_send(well);
                match kept.outcome() {
                    Some(outcome) if outcome.is_ok() == well => return outcome,
                    _ => std::thread::park_timeout(Duration::from_millis(1)),
                }
            }
        };
        assert_eq!(kept.outcome(), Some(Ok(())), "nothing has changed");
        kept.change(|value| *value = 1);
        assert_eq!(kept.outcome(), None);
        assert_eq!(answers(false), Err("The disk is full.".into()));
        kept.change(|value| *value = 2);
        assert_eq!(kept.outcome(), None, "what failed is what stood before");
        assert_eq!(answers(true), Ok(()));
        assert_eq!(Keeper::in_memory(0).outcome(), Some(Ok(())));
    }
}
