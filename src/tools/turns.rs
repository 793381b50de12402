//! The calls of one client in the order in which it sent them. Requests run concurrently, and without this two moves
//! could change places on their way to the rig's queue.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Gives out the turns of one client's session, in the order in which its messages are read.
#[derive(Debug, Default)]
pub struct Turnstile {
    given: AtomicU64,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    /// Turns that have passed before one that has not.
    early: Mutex<BTreeSet<u64>>,
    /// The first turn that has not passed.
    first: watch::Sender<u64>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { early: Mutex::default(), first: watch::channel(0).0 }
    }
}

/// A call's place among the calls of its client: those after it wait until it has passed. Clones are the same turn;
/// it passes by itself when the last of them is dropped, so that nothing waits for a call that never comes.
#[derive(Debug, Clone)]
pub struct Turn(Arc<Place>);

#[derive(Debug)]
struct Place {
    number: u64,
    gate: Arc<Gate>,
}

impl Turnstile {
    /// The next turn.
    pub fn next(&self) -> Turn {
        Turn(Arc::new(Place { number: self.given.fetch_add(1, Ordering::Relaxed), gate: self.gate.clone() }))
    }
}

impl Turn {
    /// Waits until all turns before this one have passed.
    pub(crate) async fn comes(&self) {
        let mut first = self.0.gate.first.subscribe();
        // The gate lives as long as this turn does, so that this can't fail.
        let _ = first.wait_for(|first| *first >= self.0.number).await;
    }

    /// Lets the next one go: the call has handed its order over, or has none.
    pub(crate) fn pass(&self) {
        self.0.pass();
    }
}

impl Place {
    fn pass(&self) {
        let mut early = self.gate.early.lock();
        self.gate.first.send_if_modified(|first| {
            if self.number < *first || !early.insert(self.number) {
                return false;
            }
            let before = *first;
            while early.remove(first) {
                *first += 1;
            }
            *first != before
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pass();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Whether the turn has come.
    fn here(turn: &Turn) -> bool {
        turn.comes().now_or_never().is_some()
    }

    #[test]
    fn a_turn_comes_when_all_before_it_have_passed_in_whatever_order() {
        let stile = Turnstile::default();
        let [a, b, c, d] = [(); 4].map(|()| stile.next());
        assert!(here(&a) && !here(&b) && !here(&d));
        c.pass();
        b.pass();
        assert!(!here(&b) && !here(&d), "the first has not passed yet");
        a.pass();
        a.pass();
        assert!(here(&b) && here(&c) && here(&d), "passing twice is passing once");
    }

    #[test]
    fn a_call_that_never_comes_holds_nothing_up() {
        let stile = Turnstile::default();
        let (lost, next) = (stile.next(), stile.next());
        let other = lost.clone();
        drop(lost);
        assert!(!here(&next));
        drop(other);
        assert!(here(&next));
        drop(next);
        assert!(stile.gate.early.lock().is_empty(), "nothing is kept of what has passed");
    }
}
