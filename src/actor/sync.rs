//! The small façade over channels, stop bits and wakes that the rig thread and its callers share.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::primitives::{AtomicBool, AtomicU64, Mutex, Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use super::watchdog::Pulse;
use crate::model::{Name, StopBy};
use crate::store::{Kept, PersonStop, Standstills};

/// Wakes the rig thread. Waking twice is waking once.
#[derive(Clone, Debug)]
pub(crate) struct Wake(Sender<()>);

impl Wake {
    /// Makes the rig thread's next wait return at once.
    pub(crate) fn wake(&self) {
        let _ = self.0.try_send(());
    }
}

/// The rig thread's side of [`Wake`].
pub(crate) struct Sleep(Receiver<()>);

impl Sleep {
    /// Waits until woken, or for so long. `false` when nobody is left who could wake.
    pub(crate) fn wait(&self, at_most: std::time::Duration) -> bool {
        !matches!(self.0.recv_timeout(at_most), Err(RecvTimeoutError::Disconnected))
    }
}

/// A wake and its sleep.
pub(crate) fn wake() -> (Wake, Sleep) {
    let (send, receive) = bounded(1);
    (Wake(send), Sleep(receive))
}

/// Pending stops: a bit per stage, and who asked. Setting one needs no lock and no room anywhere.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    model: AtomicU64,
    person: AtomicU64,
    program: AtomicU64,
}

/// What has been asked to stop since the last look: a mask of stages for each who asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) model: u64,
    pub(crate) person: u64,
    pub(crate) program: u64,
}

impl Pending {
    /// All stages that are to stop.
    pub(crate) fn all(self) -> u64 {
        self.model | self.person | self.program
    }

    /// Who asked for a stop of everything, the weightiest first; `None` when only single stages are to stop.
    pub(crate) fn of_everything(self) -> Option<StopBy> {
        [(self.person, StopBy::Person), (self.model, StopBy::Model), (self.program, StopBy::Program)]
            .into_iter()
            .find(|(mask, _)| *mask == u64::MAX)
            .map(|(_, by)| by)
    }

    /// Who asked for stage `index`, the weightiest first.
    pub(crate) fn by(self, index: usize) -> Option<StopBy> {
        let bit = 1u64 << index;
        [(self.person, StopBy::Person), (self.model, StopBy::Model), (self.program, StopBy::Program)]
            .into_iter()
            .find(|(mask, _)| mask & bit != 0)
            .map(|(_, by)| by)
    }
}

impl Stops {
    /// Asks for a stop of the stages in `mask`.
    pub(crate) fn ask(&self, mask: u64, by: StopBy) {
        match by {
            StopBy::Model => &self.model,
            StopBy::Person => &self.person,
            StopBy::Program => &self.program,
        }
        .fetch_or(mask, Ordering::AcqRel);
    }

    /// All stages with a stop that was not carried out and published yet.
    pub(crate) fn pending(&self) -> u64 {
        self.look().all()
    }

    /// What is pending. It stays so until it is [`Stops::done`].
    pub(crate) fn look(&self) -> Pending {
        Pending {
            model: self.model.load(Ordering::Acquire),
            person: self.person.load(Ordering::Acquire),
            program: self.program.load(Ordering::Acquire),
        }
    }

    /// Strikes off what was carried out and published. The same stop asked for in between is part of it:
    /// the rig thread begins no motion between its look and this.
    pub(crate) fn done(&self, seen: Pending) {
        self.model.fetch_and(!seen.model, Ordering::AcqRel);
        self.person.fetch_and(!seen.person, Ordering::AcqRel);
        self.program.fetch_and(!seen.program, Ordering::AcqRel);
    }
}

/// The most stages a rig may have: one bit each in [`Stops`].
pub const MAX_STAGES: usize = 64;

/// How many orders may wait. Each is a call of a client that waits for its answer; clients keep one or two
/// open, so that 32 means something is wrong, and `busy` is the better answer.
pub(crate) const QUEUE: usize = 32;

/// The bounded way to the rig thread.
pub(crate) struct Inbox<T> {
    orders: Receiver<T>,
    closed: Arc<AtomicBool>,
}

/// The callers' end of [`Inbox`].
pub(crate) struct Outbox<T> {
    orders: Sender<T>,
    /// What was sent and not taken: the channel keeps it as long as there are senders, even when nobody is left who
    /// could take it.
    left: Receiver<T>,
    closed: Arc<AtomicBool>,
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Outbox { orders: self.orders.clone(), left: self.left.clone(), closed: self.closed.clone() }
    }
}

/// Drops what nobody will take any more, which answers it.
fn drop_all<T>(left: &Receiver<T>) {
    while left.try_recv().is_ok() {}
}

/// Why an order could not be sent.
pub(crate) enum NotSent {
    /// Too many are waiting.
    Full,
    /// The rig thread is gone.
    Gone,
}

impl<T> Outbox<T> {
    /// Hands an order over, or says at once why not.
    pub(crate) fn send(&self, order: T) -> Result<(), NotSent> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(NotSent::Gone);
        }
        self.orders.try_send(order).map_err(|e| match e {
            TrySendError::Full(_) => NotSent::Full,
            TrySendError::Disconnected(_) => NotSent::Gone,
        })?;
        // Either the rig thread's end finds the order, or this finds the end.
        if self.closed.load(Ordering::SeqCst) {
            drop_all(&self.left);
        }
        Ok(())
    }
}

impl<T> Inbox<T> {
    /// The next order, if one is there.
    pub(crate) fn take(&self) -> Option<T> {
        self.orders.try_recv().ok()
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        drop_all(&self.orders);
    }
}

/// Both ends of the way to the rig thread.
pub(crate) fn orders<T>() -> (Outbox<T>, Inbox<T>) {
    let (send, receive) = bounded(QUEUE);
    let closed = Arc::new(AtomicBool::new(false));
    (Outbox { orders: send, left: receive.clone(), closed: closed.clone() }, Inbox { orders: receive, closed })
}

/// What both sides share besides the orders.
pub(crate) struct Shared {
    pub(crate) stops: Stops,
    /// The rig thread's sign of life.
    pub(crate) pulse: Pulse,
    pub(crate) jobs: AtomicU64,
    /// A person's stop on record.
    pub(crate) stopped: PersonStop,
    /// Where stages were last at rest.
    pub(crate) standstills: Standstills,
    /// Clients that are gone, until the rig thread has seen to their jobs and published it.
    pub(crate) lost: Mutex<Vec<Name>>,
    /// Whether a person has a way to stop that needs no client.
    pub(crate) person_way: AtomicBool,
}

impl Shared {
    pub(crate) fn new(kept: Kept) -> Arc<Shared> {
        Arc::new(Shared {
            stops: Stops::default(),
            pulse: Pulse::default(),
            jobs: AtomicU64::new(0),
            stopped: kept.stopped,
            standstills: kept.standstills,
            lost: Mutex::default(),
            person_way: AtomicBool::new(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_asked_for_is_seen_once_and_by_the_weightiest() {
        let stops = Stops::default();
        stops.ask(0b101, StopBy::Model);
        stops.ask(0b100, StopBy::Person);
        assert_eq!(stops.pending(), 0b101);
        let p = stops.look();
        assert_eq!((p.by(0), p.by(1), p.by(2)), (Some(StopBy::Model), None, Some(StopBy::Person)));
        stops.ask(0b10, StopBy::Program);
        stops.ask(0b1000, StopBy::Model);
        stops.done(p);
        assert_eq!(stops.pending(), 0b1010, "a stop that came later is still there");
    }

    #[test]
    fn a_full_queue_says_so_at_once() {
        let (send, receive) = orders::<usize>();
        for i in 0..QUEUE {
            assert!(send.send(i).is_ok());
        }
        assert!(matches!(send.send(QUEUE), Err(NotSent::Full)));
        assert_eq!(receive.take(), Some(0));
        assert!(send.send(QUEUE).is_ok(), "what is taken makes room");
        drop(receive);
        assert!(matches!(send.send(0), Err(NotSent::Gone)));
    }
}
