//! Stopping: which byte stops what, and carrying a stop on until the axes stand.

use std::time::Duration;

use super::super::codec::Report;
use super::super::questions::Questions;
use super::{Ask, FEED_HOLD, Grbl, JOG_CANCEL, Motion, OwnReset, Phase, SOFT_RESET, SPOIL, STATUS, State, Stopping};
use crate::devices::link::StopScript;
use crate::model::Time;

/// Past the driver nobody knows what a controller does: the end of a jog and a hold, of which one stops anything but a
/// homing.
const UNKNOWN: &[u8] = &[JOG_CANCEL, FEED_HOLD];

/// Before it is identified: the end of a jog, and the question what it does. A hold would leave one that rests in a state
/// that only a reset ends, and that takes the power from its motors.
const UNIDENTIFIED: &[u8] = &[JOG_CANCEL, STATUS];

/// So long its answer may take until it is held all the same.
const UNKNOWN_HOLD: Duration = Duration::from_millis(60);

/// So long an unidentified controller may leave a stop without a sign of rest. A homing hears nothing else than
/// a reset, and says nothing.
const UNKNOWN_GRACE: Duration = Duration::from_millis(300);

/// What stops it past the driver, which may not know what runs. Its stop bytes count wherever they stand in the stream;
/// a homing hears nothing but a reset.
pub(super) fn script(homing: bool) -> StopScript {
    let stop = if homing { vec![SOFT_RESET] } else { UNKNOWN.to_vec() };
    StopScript { first: b"", stop, last: SPOIL, end: b'\n' }
}

impl Grbl {
    /// Stops a controller that is not identified.
    pub(super) fn stop_unknown(&mut self, now: Time) -> bool {
        let cut = self.wire.preempt(UNIDENTIFIED, SPOIL, now);
        if cut.dropped {
            self.line.finish();
        }
        if self.wire.is_open() && self.stopping.is_none() {
            self.stopping = Some(Stopping { since: now, last: now, pressed: false });
            self.poll_wanted |= self.phase == Phase::Identify;
        }
        cut.handed
    }

    /// A stop of an unidentified controller of which nobody has heard that it rests.
    fn unknown(&self) -> Option<Stopping> {
        let rests = matches!(self.last_state, Some(State::Idle | State::Alarm));
        self.stopping.filter(|_| self.phase != Phase::Ready && !rests)
    }

    /// When the grace of an unidentified controller ends.
    pub(super) fn unknown_until(&self) -> Option<Time> {
        self.unknown().map(|s| s.since + if s.pressed { UNKNOWN_GRACE } else { UNKNOWN_HOLD })
    }

    /// It was told to stop before it was identified, and has not come to rest: a reset stops whatever it does.
    pub(super) fn insist(&mut self, now: Time) {
        let Some(stopping) = self.unknown() else { return };
        let waited = now.since(stopping.since);
        if waited >= UNKNOWN_HOLD && !stopping.pressed {
            self.wire.preempt(&[FEED_HOLD], SPOIL, now);
            self.stopping = Some(Stopping { pressed: true, ..stopping });
            self.held_at = Some(now);
        }
        if waited >= UNKNOWN_GRACE {
            self.wire.preempt(&[SOFT_RESET], SPOIL, now);
            self.note_own_reset(now, true, false);
        }
    }

    /// The byte that stops what runs, as far as is known.
    pub(super) fn stop_byte(&self) -> u8 {
        match (self.motion, self.last_state) {
            (Some(Motion::Home), _) | (_, Some(State::Home)) => SOFT_RESET,
            (Some(Motion::Program), _) | (_, Some(State::Run)) => FEED_HOLD,
            // Harmless where nothing jogs.
            _ => JOG_CANCEL,
        }
    }

    /// The driver has failed: the byte that stops what may move goes out all the same.
    pub(in super::super) fn last_words(&mut self) {
        let byte = self.stop_byte();
        // The time would only matter for opening it again, and a driver that failed is not used again.
        self.wire.preempt(&[byte], SPOIL, Time::ZERO);
    }

    pub(super) fn send_stop(&mut self, byte: u8, now: Time) -> bool {
        let cut = self.wire.preempt(&[byte], SPOIL, now);
        if cut.dropped {
            // It never went out, so it gets no answer.
            self.line.finish();
            self.motion = None;
        }
        if byte == SOFT_RESET {
            let loses = self.motion.is_some() || self.last_state != Some(State::Idle);
            self.note_own_reset(now, loses, false);
        }
        cut.handed
    }

    pub(super) fn note_own_reset(&mut self, now: Time, loses: bool, unlock: bool) {
        self.own_reset = Some(OwnReset { at: now, loses, unlock, must: true });
        self.line.finish();
        self.status = Questions::default();
        self.claim = None;
        self.stopping = None;
        self.held_at = None;
        self.motion = None;
        self.deaf = false;
    }

    /// The stop byte of a jog is ignored by a controller that has not begun the jog yet, and a held program
    /// move stays in the planner: so the stop is repeated and completed until it stands.
    pub(super) fn carry_stop_on(&mut self, report: &Report, asked_at: Option<Time>, now: Time) {
        // What was held at rest by a stop that is over would stay held for ever, and answer nothing.
        let held = || {
            let at = self.held_at.filter(|_| report.state == State::Hold && self.phase != Phase::Ready)?;
            Some(Stopping { since: at, last: at, pressed: true })
        };
        let Some(stopping) = self.stopping.or_else(held) else { return };
        match report.state {
            // Before it is identified nobody knows when it was asked for; a byte too many does no harm.
            State::Run | State::Jog if asked_at.map_or(self.phase != Phase::Ready, |t| t >= stopping.last) => {
                let byte = if report.state == State::Run { FEED_HOLD } else { JOG_CANCEL };
                self.wire.preempt(&[byte], SPOIL, now);
                self.stopping = Some(Stopping { last: now, ..stopping });
                self.poll_wanted = true;
            }
            // Held and at rest: what is still planned is thrown away, which keeps the position.
            State::Hold if report.sub == Some(0) => {
                self.wire.preempt(&[SOFT_RESET], SPOIL, now);
                self.note_own_reset(now, false, true);
            }
            // 0.9 does not say when a hold is complete.
            State::Hold if report.sub.is_none() && now.since(stopping.last) >= Duration::from_secs(1) => {
                self.wire.preempt(&[SOFT_RESET], SPOIL, now);
                self.note_own_reset(now, true, true);
            }
            State::Idle | State::Alarm => {
                // A report from before the stop proves nothing, and an unanswered line may still begin.
                let newer = asked_at.is_some_and(|t| t >= stopping.since);
                if newer && self.line.current().is_none_or(|a| a.what != Ask::Motion) {
                    self.stopping = None;
                    self.motion = None;
                }
            }
            _ => {}
        }
    }
}
