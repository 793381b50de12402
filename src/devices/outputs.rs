//! What an output and a sensor are to the rig thread: traits without waiting, and the events that drivers report.

use std::time::Duration;

use crate::interlocks::Cleared;
use crate::model::{Code, Identity, LinkStatus, OutputValue, RigError, SensorValue, SetOutput, Time};

/// An output: a shutter, a light, a wheel, a line. No call waits.
pub trait Output: Send {
    /// Takes bytes that are there, writes what is due, reports what happened, and says when it wants to be
    /// ticked again.
    fn tick(&mut self, now: Time, out: &mut Vec<OutputEvent>) -> Time;

    /// Asks for its value; it comes as [`OutputEvent::Value`].
    fn poll(&mut self, now: Time);

    /// Sets it. That it did what it was told shows in a later [`OutputEvent::Value`] alone.
    ///
    /// # Errors
    /// When it can't be told now; nothing changes then.
    fn set(&mut self, order: Cleared<'_, SetOutput>, now: Time) -> Result<(), RigError>;

    /// Sets it to the rig file's safe value, past whatever else waits, and needs no clearance. Shows as
    /// [`Output::set`] does. `false` when it could not be told now.
    fn secure(&mut self, now: Time) -> bool;

    /// How long it may take until it shows a value that it was set to.
    fn patience(&self) -> Duration;

    /// The state of its connection. Never panics.
    fn link(&self) -> LinkStatus;

    /// Lets go of it.
    fn close(&mut self);
}

/// What an output's driver reports.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputEvent {
    /// It is there and known.
    Online(Identity),
    /// The connection is gone, or the device can't be what the rig file says.
    Offline {
        /// `unplugged`, `not_responding`, `not_connected` or `unsupported`.
        code: Code,
        /// What happened.
        what: String,
    },
    /// A reading.
    Value {
        /// What it does; `None` while it is on its way.
        value: Option<OutputValue>,
        /// When the question was asked: what it says is at least that new.
        asked_at: Time,
    },
    /// It refused to be set.
    Refused {
        /// `controller_refused`, `invalid_argument`, `not_responding`.
        code: Code,
        /// What it said.
        what: String,
    },
    /// Its controller began anew, which changes outputs without an order.
    Restarted {
        /// How it was noticed.
        what: String,
    },
    /// A person has to do it: these are the words to ask with.
    AskPerson(String),
}

/// A sensor. No call waits.
pub trait Sensor: Send {
    /// Takes bytes that are there, writes what is due, reports what happened, and says when it wants to be
    /// ticked again.
    fn tick(&mut self, now: Time, out: &mut Vec<SensorEvent>) -> Time;

    /// Asks for a reading; it comes as [`SensorEvent::Value`].
    fn poll(&mut self, now: Time);

    /// The state of its connection. Never panics.
    fn link(&self) -> LinkStatus;

    /// Lets go of it.
    fn close(&mut self);
}

/// What a sensor's driver reports.
#[derive(Debug, Clone, PartialEq)]
pub enum SensorEvent {
    /// It is there and known.
    Online(Identity),
    /// The connection is gone, or the device can't be what the rig file says.
    Offline {
        /// `unplugged`, `not_responding`, `not_connected` or `unsupported`.
        code: Code,
        /// What happened.
        what: String,
    },
    /// A reading as the device gave it, before scale and offset.
    Value {
        /// The reading.
        value: SensorValue,
        /// When it was asked for.
        asked_at: Time,
    },
}
