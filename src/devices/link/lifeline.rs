//! A second hand on each open link, for the one moment in which the first is stuck: it sends what stops the axes, and
//! nothing else.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::Name;

/// How long a stop may wait for room in the operating system, and for whoever holds what it needs.
const ROOM: Duration = Duration::from_millis(20);

/// Another handle on an open connection, which can be written to while the first is in use. No call waits.
pub trait Second: Send {
    /// Hands bytes to the operating system; tells how many it took, 0 when it has no room.
    ///
    /// # Errors
    /// The connection is gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// What stops a stage, whatever its driver was doing: bytes that are right at any moment until the next motion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopScript {
    /// Goes first if a frame was cut off, so that the stop is not a part of it.
    pub first: &'static [u8],
    /// Stops the axes.
    pub stop: Vec<u8>,
    /// Goes last if a frame was cut off, so that the device refuses what came of it.
    pub last: &'static [u8],
    /// What ends a frame.
    pub end: u8,
}

struct Armed {
    script: StopScript,
    moving: bool,
}

#[derive(Default)]
struct Inner {
    second: Mutex<Option<Box<dyn Second>>>,
    scripts: Mutex<BTreeMap<Name, Armed>>,
    /// The last byte that was handed over; none before the first, or while it is not known how much was.
    last: Mutex<Option<u8>>,
    writing: AtomicBool,
    poisoned: AtomicBool,
}

/// The lifeline of one link. Clones share it.
#[derive(Clone, Default)]
pub struct Lifeline(Arc<Inner>);

impl Lifeline {
    /// A connection was opened.
    pub(super) fn opened(&self, second: Option<Box<dyn Second>>) {
        *self.0.second.lock() = second;
        *self.0.last.lock() = None;
        self.0.writing.store(false, Ordering::Release);
        self.0.poisoned.store(false, Ordering::Release);
    }

    /// The connection is closed.
    pub(super) fn closed(&self) {
        *self.0.second.lock() = None;
    }

    /// Keeps the books over a write of the first hand.
    ///
    /// # Errors
    /// The write's own, and one after the link was poisoned.
    pub(super) fn watched(&self, bytes: &[u8], write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        self.sound()?;
        self.0.writing.store(true, Ordering::Release);
        let written = write();
        if let Ok(n) = &written
            && let Some(last) = bytes[..*n].last()
        {
            *self.0.last.lock() = Some(*last);
        }
        self.0.writing.store(false, Ordering::Release);
        if let Err(poisoned) = self.sound() {
            // The stop went out while this write was under way, which may have come after it: so it goes out again.
            drop(self.fire(|_| false));
            return Err(poisoned);
        }
        written
    }

    /// # Errors
    /// After a stop went out past the first hand: what that hand knows of the device is not true any more.
    pub(super) fn sound(&self) -> io::Result<()> {
        if self.0.poisoned.load(Ordering::Acquire) {
            return Err(io::Error::other("the watchdog has stopped what is on it"));
        }
        Ok(())
    }

    /// Publishes what stops a stage from now on, and whether it may be moving.
    pub(crate) fn arm(&self, stage: &Name, script: StopScript, moving: bool) {
        self.0.scripts.lock().insert(stage.clone(), Armed { script, moving });
    }

    /// Whether any stage behind this link may be moving, or one of those that are asked about is here at all. What
    /// can't be looked at counts as moving.
    pub(crate) fn needs(&self, asked: impl Fn(&Name) -> bool) -> bool {
        match self.0.scripts.try_lock_for(ROOM) {
            Some(scripts) => scripts.iter().any(|(name, armed)| armed.moving || asked(name)),
            None => true,
        }
    }

    /// Sends the scripts of the stages that may be moving, and of those that are asked about, and poisons the link.
    /// Tells which stages these are (none when that can't be looked at), and whether all bytes were handed over.
    pub(crate) fn fire(&self, asked: impl Fn(&Name) -> bool) -> (Vec<Name>, Result<(), String>) {
        let Some(scripts) = self.0.scripts.try_lock_for(ROOM) else {
            return (Vec::new(), Err("what would stop it can't be reached".into()));
        };
        let meant: Vec<_> = scripts.iter().filter(|(name, armed)| armed.moving || asked(name)).collect();
        let names = meant.iter().map(|(name, _)| (*name).clone()).collect();
        let mut bytes: Vec<u8> = Vec::new();
        let mut spoil: &[u8] = &[];
        for (i, (_, armed)) in meant.iter().enumerate() {
            let s = &armed.script;
            let cut = self.is_cut(s.end);
            if i == 0 && cut {
                bytes.extend(s.first);
                spoil = s.last;
            }
            // Devices of one link may all be stopped by the same words.
            if !meant[..i].iter().any(|(_, other)| other.script.stop == s.stop) {
                bytes.extend(&s.stop);
            }
        }
        bytes.extend(spoil);
        if bytes.is_empty() {
            return (names, Err("its driver has nothing that stops it".into()));
        }
        // Poisoned first: what the first hand writes from now on finds that out, at the latest afterwards.
        self.0.poisoned.store(true, Ordering::Release);
        (names, self.send(&bytes))
    }

    /// Whether the first hand has left a frame half sent, as far as is known.
    fn is_cut(&self, end: u8) -> bool {
        let last = self.0.last.try_lock_for(ROOM).map(|l| *l);
        self.0.writing.load(Ordering::Acquire) || last.is_none_or(|l| l.is_some_and(|l| l != end))
    }

    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let until = Instant::now() + ROOM;
        let Some(mut second) = self.0.second.try_lock_until(until) else {
            return Err("the second way to it is taken".into());
        };
        let Some(second) = second.as_mut() else { return Err("there is no open connection to send it on".into()) };
        let mut sent = 0;
        while sent < bytes.len() {
            match second.write(&bytes[sent..]) {
                Ok(0) if Instant::now() >= until => return Err("the operating system took none of it: no room".into()),
                Ok(0) => std::thread::park_timeout(Duration::from_millis(1)),
                Ok(n) => sent += n,
                Err(e) => return Err(e.to_string()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Far;
    use super::super::{Link, gate::Gate};
    use super::*;
    use crate::model::Time;

    fn open(far: &Far) -> (Gate, Box<dyn Link>) {
        let (gate, mut connector) = Gate::before(far.connector("p"));
        connector.begin(Time::ZERO);
        let link = connector.outcome().unwrap().unwrap();
        (gate, link)
    }

    fn script() -> StopScript {
        StopScript { first: b"\r", stop: b"HALT\r".to_vec(), last: b"", end: b'\r' }
    }

    #[test]
    fn only_what_may_move_or_was_asked_for_is_stopped_and_the_link_is_good_for_nothing_afterwards() {
        let far = Far::default();
        let (gate, mut link) = open(&far);
        let (a, b) = (Name::new("a"), Name::new("b"));
        gate.lifeline().arm(&a, script(), true);
        gate.lifeline().arm(&b, StopScript { stop: b"OFF\r".to_vec(), ..script() }, false);
        assert!(gate.lifeline().needs(|_| false));
        assert_eq!(gate.lifeline().fire(|_| false), (vec![a], Ok(())));
        assert_eq!(far.take(), b"HALT\r");
        assert!(link.write(b"M X=1\r").is_err() && link.read(&mut [0; 9]).is_err());
        assert!(far.take().is_empty());
    }

    #[test]
    fn a_frame_that_was_cut_off_ends_before_the_stop_begins() {
        let far = Far::default();
        let (gate, mut link) = open(&far);
        gate.lifeline().arm(&Name::new("a"), script(), true);
        far.bound(Some(4));
        assert_eq!(link.write(b"M X=1\r").unwrap(), 4);
        far.bound(None);
        assert!(gate.lifeline().fire(|_| false).1.is_ok());
        assert_eq!(far.take(), b"M X=\rHALT\r");
    }

    #[test]
    fn what_the_first_hand_still_had_on_its_way_is_followed_by_the_stop_again() {
        let far = Far::default();
        let (gate, _link) = open(&far);
        let lifeline = gate.lifeline().clone();
        lifeline.arm(&Name::new("a"), script(), true);
        let late = lifeline.clone();
        // Between the look at the link and the bytes on it the thread is held up, and the watchdog comes.
        let written = lifeline.watched(b"M X=1\r", || {
            assert!(late.fire(|_| false).1.is_ok());
            late.0.second.lock().as_mut().unwrap().write(b"M X=1\r")
        });
        assert!(written.is_err());
        let heard = String::from_utf8(far.take()).unwrap();
        assert!(heard.contains("HALT\r") && heard.ends_with("M X=1\rHALT\r"), "{heard:?}");
    }

    #[test]
    fn a_stop_that_finds_no_room_or_no_connection_is_no_success() {
        let far = Far::default();
        let (gate, link) = open(&far);
        gate.lifeline().arm(&Name::new("a"), script(), true);
        far.bound(Some(0));
        assert!(gate.lifeline().fire(|_| false).1.unwrap_err().contains("no room"));
        drop(link);
        assert!(gate.lifeline().fire(|_| false).1.unwrap_err().contains("no open connection"));
    }
}
