//! A link that is opened again by itself, with one frame at a time on its way out and a lane of its own for
//! bytes that stop the axes.

use std::time::Duration;

use super::{Connector, Link};
use crate::model::{LinkStatus, Time};

/// The longest frame. At most one stands in the operating system's buffer, so that a stop byte has at most
/// this much ahead of it.
pub(crate) const MAX_FRAME: usize = 256;

/// The most that is read in one tick, so that a device that floods the line can't hold up the others.
const MAX_READ: usize = 256 * 1024;

/// Waits between attempts to open a port again.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MOST: Duration = Duration::from_secs(5);

/// So long a port that another program has is asked for again before that is told: system services take a new one
/// for some seconds.
const TAKEN: Duration = Duration::from_secs(15);
/// How often in that time.
const TAKEN_RETRY: Duration = Duration::from_millis(500);

/// How often a link is looked at on which nothing is awaited: a device may speak unasked, or be unplugged.
pub(crate) const IDLE: Duration = Duration::from_millis(50);

/// What happened to the connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WireEvent {
    /// It is open.
    Opened,
    /// It could not be opened; it will be tried again.
    NotOpened(String),
    /// It was open and is gone.
    Lost(String),
}

/// What became of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preempted {
    /// Whether all its bytes were handed to the operating system.
    pub(crate) handed: bool,
    /// Whether a frame was dropped before any of it went out: it will get no answer.
    pub(crate) dropped: bool,
}

/// A connection with its outgoing frame.
pub(crate) struct Wire {
    connector: Box<dyn Connector>,
    link: Option<Box<dyn Link>>,
    frame: Vec<u8>,
    sent: usize,
    urgent: Vec<u8>,
    /// What still has to follow a frame that was cut off, so that the device refuses it.
    owed: Vec<u8>,
    event: Option<WireEvent>,
    retry_at: Option<Time>,
    retry: Duration,
    /// Since when another program has it.
    taken: Option<Time>,
    opening: bool,
    closed: bool,
    was_open: bool,
    /// The state as `diagnose` shows it; the driver counts its frames here.
    pub(crate) status: LinkStatus,
}

impl Wire {
    pub(crate) fn new(connector: Box<dyn Connector>) -> Wire {
        let status = LinkStatus { port: connector.place(), ..LinkStatus::default() };
        Wire {
            connector,
            link: None,
            frame: Vec::new(),
            sent: 0,
            urgent: Vec::new(),
            owed: Vec::new(),
            event: None,
            retry_at: Some(Time::ZERO),
            retry: RETRY_FIRST,
            taken: None,
            opening: false,
            closed: false,
            was_open: false,
            status,
        }
    }

    /// Whether it is open.
    pub(crate) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Opens what is due, sends what is waiting, takes what has arrived. `rx` is appended to.
    pub(crate) fn pump(&mut self, now: Time, rx: &mut Vec<u8>) -> Option<WireEvent> {
        if self.closed {
            return None;
        }
        if let Some(event) = self.event.take() {
            return Some(event);
        }
        let Some(link) = &mut self.link else { return self.reopen(now) };
        let mut buf = [0_u8; 4096];
        let start = rx.len();
        loop {
            match link.read(&mut buf) {
                Ok(0) => break,
                Ok(n) => {
                    rx.extend_from_slice(&buf[..n]);
                    if rx.len() - start >= MAX_READ {
                        break;
                    }
                }
                Err(e) => {
                    self.lose(now, &e.to_string());
                    return self.event.take();
                }
            }
        }
        self.flush(now);
        self.event.take()
    }

    fn reopen(&mut self, now: Time) -> Option<WireEvent> {
        if !self.opening {
            if self.retry_at.is_some_and(|t| t <= now) {
                self.connector.begin(now);
                self.opening = true;
            } else {
                return None;
            }
        }
        match self.connector.outcome()? {
            Ok(link) => {
                self.link = Some(link);
                self.opening = false;
                self.retry_at = None;
                self.retry = RETRY_FIRST;
                self.taken = None;
                self.status.open = true;
                self.status.reconnects += u64::from(self.was_open);
                self.was_open = true;
                Some(WireEvent::Opened)
            }
            Err(no) => {
                self.opening = false;
                self.status.last_error = Some(no.what.clone());
                self.taken = no.taken.then(|| self.taken.unwrap_or(now));
                if self.taken.is_some_and(|since| now.since(since) < TAKEN) {
                    self.retry_at = Some(now + TAKEN_RETRY);
                    return None;
                }
                self.retry_at = Some(now + self.retry);
                self.retry = (self.retry * 2).min(RETRY_MOST);
                Some(WireEvent::NotOpened(no.what))
            }
        }
    }

    fn lose(&mut self, now: Time, why: &str) {
        self.link = None;
        self.frame.clear();
        self.urgent.clear();
        self.owed.clear();
        self.sent = 0;
        self.retry_at = Some(now + self.retry);
        self.status.open = false;
        let what = format!("The connection to {} broke: {why}", self.status.port);
        self.status.last_error = Some(what.clone());
        self.event = Some(WireEvent::Lost(what));
    }

    /// Drops the connection and opens it anew.
    pub(crate) fn reset(&mut self, now: Time, why: &str) {
        if self.link.is_some() {
            self.lose(now, why);
            self.retry_at = Some(now);
        }
    }

    /// Sets the line by whose fall boards restart; `false` when there is none.
    pub(crate) fn set_dtr(&mut self, up: bool) -> bool {
        self.link.as_mut().is_some_and(|link| link.set_dtr(up).is_ok())
    }

    /// Lets go of the port for good.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.link = None;
        self.status.open = false;
    }

    /// Urgent bytes first, then what is owed, then the frame; the frame only when the line is free.
    fn flush(&mut self, now: Time) {
        if let Err(e) = self.try_flush() {
            self.lose(now, &e.to_string());
        }
    }

    fn try_flush(&mut self) -> std::io::Result<()> {
        let Some(link) = &mut self.link else { return Ok(()) };
        for first in [&mut self.urgent, &mut self.owed] {
            while !first.is_empty() {
                match link.write(first)? {
                    0 => return Ok(()),
                    n => drop(first.drain(..n)),
                }
            }
        }
        if self.sent < self.frame.len() && (self.sent > 0 || link.unsent() == 0) {
            self.sent += link.write(&self.frame[self.sent..])?;
        }
        Ok(())
    }

    /// Whether a frame may be given.
    pub(crate) fn is_free(&self) -> bool {
        self.link.is_some() && self.owed.is_empty() && self.sent == self.frame.len()
    }

    /// Whether bytes that go past the frame have not all left.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// When to look for an answer that is awaited, at the latest at `deadline`: often at first, since most
    /// answers come at once; less so when it keeps one waiting.
    pub(crate) fn listen(&self, now: Time, asked: Time, deadline: Option<Time>) -> Time {
        const PROMPT: Duration = Duration::from_millis(30);
        let look = Duration::from_millis(if now.since(asked) < PROMPT { 1 } else { 5 });
        let latest = deadline.unwrap_or(now + IDLE);
        if self.link.as_ref().is_some_and(|l| l.announces()) { latest } else { latest.min(now + look) }
    }

    /// When it wants to be pumped again, if it has something to do by itself.
    pub(crate) fn wants(&self, now: Time) -> Option<Time> {
        const SOON: Duration = Duration::from_millis(1);
        if self.closed {
            return None;
        }
        if self.link.is_none() {
            return if self.opening { Some(now + Duration::from_millis(5)) } else { self.retry_at };
        }
        let waiting = self.event.is_some() || !self.urgent.is_empty() || !self.owed.is_empty();
        (waiting || self.sent < self.frame.len()).then(|| now + SOON)
    }

    /// Gives a frame to be sent. The caller has asked [`Wire::is_free`].
    pub(crate) fn send(&mut self, frame: &[u8], now: Time) {
        debug_assert!(self.is_free() && frame.len() <= MAX_FRAME);
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        self.sent = 0;
        self.flush(now);
    }

    /// Sends bytes that the device picks out of the stream wherever they stand, past the frame.
    pub(crate) fn aside(&mut self, bytes: &[u8], now: Time) {
        if self.link.is_some() {
            self.urgent.extend_from_slice(bytes);
        }
        self.flush(now);
    }

    /// Sends bytes that stop the axes: a frame that has not begun is dropped; one that has is spoilt with
    /// `spoil`, so that the device refuses it.
    pub(crate) fn preempt(&mut self, stop: &[u8], spoil: &[u8], now: Time) -> Preempted {
        if self.link.is_none() {
            return Preempted { handed: false, dropped: true };
        }
        let dropped = self.sent == 0 && !self.frame.is_empty();
        // Whatever else was waiting aside (a question for the position) is not worth a microsecond now.
        self.urgent.clear();
        self.urgent.extend_from_slice(stop);
        if 0 < self.sent && self.sent < self.frame.len() {
            self.owed = spoil.to_vec();
        }
        self.frame.clear();
        self.sent = 0;
        self.flush(now);
        Preempted { handed: self.link.is_some() && self.urgent.is_empty(), dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Far;
    use super::*;

    fn open() -> (Far, Wire) {
        let far = Far::default();
        let mut wire = Wire::new(far.connector("memory"));
        assert_eq!(wire.pump(Time::ZERO, &mut Vec::new()), Some(WireEvent::Opened));
        (far, wire)
    }

    #[test]
    fn a_stop_goes_past_a_frame_that_has_not_begun_and_spoils_one_that_has() {
        let (far, mut wire) = open();
        far.bound(Some(0));
        wire.send(b"$J=G53X1F1\n", Time::ZERO);
        far.bound(None);
        assert!(wire.preempt(&[0x85], b"@\n", Time::ZERO).dropped);
        assert_eq!(far.take(), [0x85]);

        far.bound(Some(4));
        wire.send(b"$J=G53X1F1\n", Time::ZERO);
        assert_eq!(far.take(), b"$J=G");
        far.bound(None);
        let cut = wire.preempt(&[0x85], b"@\n", Time::ZERO);
        assert_eq!(cut, Preempted { handed: true, dropped: false });
        assert_eq!(far.take(), b"\x85@\n");
    }

    #[test]
    fn a_stop_that_finds_no_room_says_so() {
        let (far, mut wire) = open();
        far.bound(Some(0));
        assert!(!wire.preempt(&[0x85], b"@\n", Time::ZERO).handed);
        far.bound(None);
        wire.pump(Time::ZERO, &mut Vec::new());
        assert_eq!(far.take(), [0x85], "and goes out as soon as there is");
    }

    #[test]
    fn a_frame_that_was_cut_off_is_spoilt_even_when_a_second_stop_comes_between() {
        let (far, mut wire) = open();
        far.bound(Some(4));
        wire.send(b"$J=G53X1F1\n", Time::ZERO);
        assert_eq!(far.take(), b"$J=G");
        far.bound(Some(1));
        wire.preempt(&[0x85], b"@\n", Time::ZERO);
        assert_eq!(far.take(), [0x85]);
        wire.preempt(&[0x85], b"@\n", Time::ZERO);
        far.bound(None);
        assert!(!wire.is_free());
        wire.pump(Time::ZERO, &mut Vec::new());
        assert_eq!(far.take(), b"\x85@\n");
    }

    #[test]
    fn a_second_frame_waits_until_the_line_is_free() {
        let (far, mut wire) = open();
        far.set_unsent(3);
        wire.send(b"second\n", Time::ZERO);
        assert_eq!(far.take(), b"");
        far.set_unsent(0);
        wire.pump(Time::ZERO, &mut Vec::new());
        assert_eq!(far.take(), b"second\n");
    }

    #[test]
    fn a_lost_link_is_opened_again_and_sends_nothing_old() {
        let (far, mut wire) = open();
        far.bound(Some(0));
        wire.send(b"old\n", Time::ZERO);
        far.plug(false);
        assert!(matches!(wire.pump(Time::ZERO, &mut Vec::new()), Some(WireEvent::Lost(_))));
        far.plug(true);
        far.bound(None);
        let later = Time(Duration::from_secs(10));
        assert_eq!(wire.pump(later, &mut Vec::new()), Some(WireEvent::Opened));
        wire.pump(later, &mut Vec::new());
        assert_eq!(far.take(), b"");
        assert_eq!(wire.status.reconnects, 1);
    }
}
