//! The conversation that is the same for all protocols: the port is opened, one question is asked at a time, and an
//! answer that does not come has an end.

use std::time::Duration;

use super::{Order, Settings, SettingsEvent};
use crate::devices::link::{Connector, IDLE, Wire, WireEvent};
use crate::model::Time;

/// What is said next for an order.
pub(in crate::devices) enum Next {
    /// This, and its answer may take so long.
    Ask(Vec<u8>, Duration),
    /// Nothing for so long.
    Pause(Duration),
    /// The line that restarts boards is drawn; [`Protocol::hear`] is told what came of it by what the board says.
    PulseDtr(Duration),
    /// It is carried out, or has failed.
    Over(SettingsEvent),
}

/// What to do about an answer that did not come.
pub(in crate::devices) enum Silence {
    /// The protocol says what is next.
    GoOn,
    /// The order ends so.
    Over(SettingsEvent),
}

/// What one protocol says and understands. Pure: it has no clock.
pub(in crate::devices) trait Protocol: Send {
    /// Another order begins.
    fn begin(&mut self, order: &Order);

    /// What to say next; asked when everything before is answered.
    fn next(&mut self) -> Next;

    /// Takes what has come; whether the question is answered.
    fn hear(&mut self, bytes: &[u8]) -> bool;

    /// The question was not answered in time.
    fn silent(&mut self) -> Silence;

    /// The connection is a new one: what was half heard belongs to another. Whether the order goes on all the same.
    fn reopened(&mut self) -> bool;
}

/// A [`Settings`] of any protocol.
pub(in crate::devices) struct Desk<P> {
    wire: Wire,
    protocol: P,
    /// An order is being carried out.
    busy: bool,
    /// The question in flight: when it was asked and until when it may stay unanswered.
    asked: Option<(Time, Time)>,
    quiet_until: Option<Time>,
    /// When the line that restarts boards goes up again.
    dtr_up: Option<Time>,
    /// Something was said on this connection for this order.
    begun: bool,
}

/// How long the line that restarts boards stays down.
const DTR_DOWN: Duration = Duration::from_millis(100);

impl<P: Protocol> Desk<P> {
    pub(in crate::devices) fn new(connector: Box<dyn Connector>, protocol: P) -> Desk<P> {
        Desk {
            wire: Wire::new(connector),
            protocol,
            busy: false,
            asked: None,
            quiet_until: None,
            dtr_up: None,
            begun: false,
        }
    }

    fn over(&mut self, event: SettingsEvent, out: &mut Vec<SettingsEvent>) {
        (self.busy, self.asked, self.quiet_until) = (false, None, None);
        out.push(event);
    }

    fn say(&mut self, now: Time, out: &mut Vec<SettingsEvent>) {
        match self.protocol.next() {
            Next::Ask(bytes, patience) => {
                self.wire.send(&bytes, now);
                self.asked = Some((now, now + patience));
                self.begun = true;
            }
            Next::Pause(length) => self.quiet_until = Some(now + length),
            Next::PulseDtr(patience) => {
                // A port that has no such line restarts nothing: its silence tells.
                if self.wire.set_dtr(false) {
                    self.dtr_up = Some(now + DTR_DOWN);
                    self.asked = Some((now, now + patience));
                } else {
                    self.asked = Some((now, now));
                }
            }
            Next::Over(event) => self.over(event, out),
        }
    }
}

impl<P: Protocol> Settings for Desk<P> {
    fn tick(&mut self, now: Time, out: &mut Vec<SettingsEvent>) -> Time {
        let mut bytes = Vec::new();
        match self.wire.pump(now, &mut bytes) {
            Some(WireEvent::NotOpened(what)) => out.push(SettingsEvent::NoPort(what)),
            Some(WireEvent::Lost(what)) => {
                self.dtr_up = None;
                let goes_on = self.protocol.reopened();
                if self.busy && self.begun && !goes_on {
                    self.over(SettingsEvent::Unclear(what), out);
                }
                self.asked = None;
            }
            Some(WireEvent::Opened) | None => {}
        }
        if !self.wire.is_open() {
            return self.wire.wants(now).unwrap_or(now + IDLE);
        }
        if self.dtr_up.is_some_and(|t| t <= now) {
            self.dtr_up = None;
            self.wire.set_dtr(true);
        }
        if self.protocol.hear(&bytes) {
            self.asked = None;
        }
        if self.busy && self.asked.is_some_and(|(_, end)| end <= now) {
            self.asked = None;
            if let Silence::Over(event) = self.protocol.silent() {
                self.over(event, out);
            }
        }
        if self.quiet_until.is_some_and(|t| t <= now) {
            self.quiet_until = None;
        }
        if self.busy && self.asked.is_none() && self.quiet_until.is_none() && self.wire.is_free() {
            self.say(now, out);
        }
        let listen = match self.asked {
            Some((at, end)) => self.wire.listen(now, at, Some(end)),
            None if self.busy && self.quiet_until.is_none() => now,
            None => now + IDLE,
        };
        let times = [Some(listen), self.quiet_until, self.dtr_up, self.wire.wants(now)];
        times.into_iter().flatten().min().unwrap_or(listen).max(now)
    }

    fn order(&mut self, order: Order, now: Time) {
        self.protocol.begin(&order);
        (self.busy, self.asked, self.begun) = (true, None, false);
        self.quiet_until = Some(now);
    }

    fn close(&mut self) {
        self.wire.close();
    }
}
