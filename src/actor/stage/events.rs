//! What a driver reports, and what follows from it for status, trust and the motion in progress.

use std::sync::Arc;
use std::time::Duration;

use super::super::motion::{Seen, StillWatch};
use super::{Doing, Search, StageUnit, Stopping};
use crate::devices::{MotionState, Reading, StageEvent, StageFacts, WAS_LOCKED};
use crate::model::{Activity, Code, Moved, Remedy, Time, Trust};
use crate::units::Position;

/// How soon homing is refused that is refused: some controllers tell nothing while they home.
const REFUSAL: Duration = Duration::from_millis(500);

impl StageUnit {
    pub(super) fn digest(&mut self, event: StageEvent, now: Time) {
        if self.lent {
            // The driver only sees that its connection is gone.
            return;
        }
        match event {
            StageEvent::Online(facts) => self.online(*facts, now),
            StageEvent::Offline { code, what } => self.offline(code, what, now),
            StageEvent::Stirring => {
                self.found_moving = true;
                if let Doing::Stopping(stopping) = &mut self.doing
                    && std::mem::take(&mut stopping.unidentified)
                {
                    stopping.grace = now;
                }
                if self.status.activity == Activity::Connecting && self.is_free() {
                    self.note("note", "It was found moving, though not by an order from here.".into());
                    self.set_activity(Activity::Moving);
                    self.bump();
                }
            }
            StageEvent::Reading(reading) => self.read(self.shifted(reading), now),
            StageEvent::Accepted => {
                if let Doing::Moving(watch) = &mut self.doing {
                    watch.accept(now);
                }
            }
            StageEvent::Refused { code, what } => {
                let what = format!("The controller refused: {what}.");
                self.note("refused", what.clone());
                // What has moved, or may have for so long, was not refused: that answers something else.
                let begun = match &self.doing {
                    Doing::Moving(watch) => watch.has_moved(),
                    Doing::Homing(search) => now.since(search.since) > REFUSAL,
                    Doing::Stopping(_) | Doing::Nothing => return,
                };
                if begun {
                    let cause = self.error(code, &what, Moved::Unknown);
                    self.abandon(cause, now);
                } else {
                    self.end(Err(self.error(code, &what, Moved::No)));
                }
            }
            StageEvent::Unanswered { what } => {
                let homing = matches!(self.doing, Doing::Homing(_));
                let code = if homing { Code::HomingFailed } else { Code::NotResponding };
                let cause = self.error(code, &what, Moved::Unknown);
                self.note("fault", what);
                self.abandon(cause, now);
            }
            StageEvent::Homed => {
                if let Doing::Homing(search) = &mut self.doing {
                    search.homed = Some(StillWatch::new(now));
                    self.poll(now);
                }
            }
            StageEvent::HomingFailed { what } => {
                self.distrust("homing failed");
                let what = format!("Homing failed: {what}.");
                self.note("fault", what.clone());
                self.end(Err(self.error(Code::HomingFailed, &what, Moved::Unknown)));
            }
            StageEvent::Alarm { what, position_lost } => {
                if position_lost {
                    self.distrust(&what);
                }
                self.fault(Code::Alarm, what.clone(), Remedy::ClearFault, now);
                self.end_motion(Code::Alarm, &what);
            }
            StageEvent::PositionLost { what } => self.distrust(&what),
            StageEvent::Astray { what } => {
                self.fault(Code::WrongDirection, what.clone(), Remedy::ClearFault, now);
                let cause = self.error(Code::WrongDirection, &what, Moved::Yes);
                self.abandon(cause, now);
            }
            StageEvent::Reset { what } => {
                self.distrust(&what);
                self.forget_shift();
                self.fault(Code::ControllerReset, what.clone(), Remedy::ClearFault, now);
                self.end_motion(Code::ControllerReset, &what);
                if let Doing::Stopping(Stopping { cause: Some(cause), halted: false, .. }) = &mut self.doing
                    && cause.code == Code::NotResponding
                {
                    // It was stopped because it had fallen silent: this is why it had. Not so where we reset it ourselves.
                    (cause.code, cause.what) = (Code::ControllerReset, format!("Stage {}: {what}", self.config.id));
                }
                self.end_stop();
                self.set_activity(Activity::Connecting);
            }
            StageEvent::Recovered => {
                if self.recovering.is_some() {
                    self.recovering = Some(true);
                    self.release();
                    // What it says from now on counts.
                    self.poll(now);
                }
            }
            StageEvent::NotRecovered { what } => {
                self.recovering = None;
                self.note("fault", format!("It could not be unlocked: {what}"));
            }
            StageEvent::Note(what) => self.note("note", what),
            StageEvent::Ended { code, what } => {
                self.note("fault", format!("[{code}] {what}"));
                let cause = self.error(code, &what, Moved::Unknown);
                self.abandon(cause, now);
            }
            StageEvent::Failed { code, what, position_lost } => {
                if position_lost {
                    self.distrust(&what);
                }
                self.fault(code, what.clone(), Remedy::ClearFault, now);
                let cause = self.error(code, &what, Moved::Unknown);
                self.abandon(cause, now);
            }
        }
    }

    pub(super) fn online(&mut self, facts: StageFacts, now: Time) {
        self.note("connected", format!("{} {}", facts.identity.model, facts.identity.firmware));
        self.status.identity = Some(facts.identity.clone());
        for (axis, source) in self.status.axes.iter_mut().zip(&facts.sources) {
            axis.source = source.unwrap_or(axis.source);
        }
        self.status.told = Some(Arc::new(facts.told(self.config.axes.len())));
        self.facts = facts;
        if self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Reconnect) {
            // What the watchdog did is cleared by whoever has looked, and not by the connection.
            self.status.fault = self.barked.as_ref().map(|b| super::super::watchdog::fault(b, now));
        }
        self.arm(!self.is_free(), false);
        self.last = None;
        self.recalls = true;
        self.resting = None;
        self.status.read_at = None;
        if let Doing::Stopping(stopping) = &mut self.doing {
            // A stop that was given before it was known: standstill is still to be read.
            stopping.watch = StillWatch::new(now);
            (stopping.grace, stopping.unidentified) = (now, false);
            self.bump();
            return self.poll(now);
        }
        if !self.is_free() {
            // It was identified anew in the middle of something: that something is over, nobody knows how.
            let what = "The controller was identified anew before the motion was over.";
            self.end(Err(self.error(Code::ControllerReset, what, Moved::Unknown)));
        }
        self.set_activity(Activity::Idle);
        if self.recovering == Some(false) && self.status.fault.is_none() {
            self.recovering = Some(true);
        }
        self.bump();
        self.poll(now);
    }

    pub(super) fn offline(&mut self, code: Code, what: String, now: Time) {
        // A port that can't be opened is told again at each attempt: the same is noted once.
        let known = self.status.activity == Activity::Offline
            && self.status.fault.as_ref().is_some_and(|f| f.code == code && f.what == what);
        if known {
            return;
        }
        self.note("lost", what.clone());
        // When it answers again, its count is held against where it was at rest.
        let record = self.record.take();
        self.distrust(&what);
        self.record = record;
        for axis in &mut self.status.axes {
            axis.position = None;
        }
        self.forget_shift();
        self.status.read_at = None;
        self.last = None;
        self.recovering = None;
        let moving = matches!(self.doing, Doing::Moving(_) | Doing::Homing(_) | Doing::Stopping(_));
        self.doubtful |= moving;
        self.unseen_end |= moving || self.status.activity.is_motion();
        let unsent = matches!(&self.doing, Doing::Stopping(stopping) if !stopping.handed);
        let (code, what) = if unsent {
            (Code::StopNotSent, format!("STOP NOT SENT: {what} The axes may still move. Use the emergency stop."))
        } else {
            (code, what)
        };
        let remedy = if self.lent { Remedy::Reclaim } else { Remedy::Reconnect };
        self.fault(code, what.clone(), remedy, now);
        if moving {
            let stop = if what.ends_with('.') { "" } else { "." };
            let what = format!("{what}{stop} Whether it stopped is not known.");
            self.end(Err(self.error(code, &what, Moved::Unknown)));
        }
        self.doing = Doing::Nothing;
        self.set_activity(Activity::Offline);
    }

    pub(super) fn read(&mut self, reading: Reading, now: Time) {
        if !self.suspect && (self.jumped(&reading, now) || self.strayed(&reading) || self.zeroed(&reading)) {
            // Once can be a damaged line that happens to be well formed: ask again before believing it.
            self.suspect = true;
            self.poll(now);
            return;
        }
        let suspect = std::mem::take(&mut self.suspect);
        if suspect && self.zeroed(&reading) {
            let what = "it counts from zero, as after a restart that nobody heard of";
            self.note("fault", format!("All its axes are at zero by themselves: {what}."));
            self.distrust(what);
        } else if suspect && self.jumped(&reading, now) {
            let what = "its counter jumped further than the axis can have moved";
            self.note(
                "fault",
                format!(
                    "Its counter jumped further than the axis can have moved: {:?} after {:?}.",
                    self.show(&reading.positions),
                    self.last.as_ref().map(|r| self.show(&r.positions))
                ),
            );
            self.distrust(what);
        }
        let limits_before: Vec<bool> = self.status.axes.iter().map(|a| a.at_limit).collect();
        for (i, axis) in self.status.axes.iter_mut().enumerate() {
            axis.position = reading.positions.get(i).copied().flatten();
            axis.at_limit = reading.at_limit.get(i).copied().unwrap_or(false);
        }
        if self.status.axes.iter().map(|a| a.at_limit).ne(limits_before) {
            self.bump();
        }
        self.status.read_at = Some(reading.asked_at);
        if self.recalls {
            let elsewhere = self.last.as_ref().is_some_and(|last| last.positions != reading.positions);
            self.found_moving |= elsewhere || matches!(reading.motion, MotionState::Moving | MotionState::Homing);
        }
        if !matches!(reading.motion, MotionState::Moving | MotionState::Homing) {
            self.unseen_end = false;
        }
        if reading.motion == MotionState::Idle
            && let Some(identity) = &mut self.status.identity
        {
            identity.notes.retain(|note| note != WAS_LOCKED);
        }
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Nothing => {
                self.read_at_rest(&reading, now);
                self.watch_for_hands(&reading, now);
            }
            Doing::Moving(mut watch) => {
                let seen = watch.read(&reading, now);
                self.doing = Doing::Moving(watch);
                self.seen(seen, now);
            }
            Doing::Homing(mut search) => {
                search.record.add(&reading);
                let still =
                    search.homed.as_mut().is_some_and(|w| w.read(&reading)) && reading.motion == MotionState::Idle;
                if still && search.axes.iter().all(|i| self.status.axes[*i].position.is_some()) {
                    self.referenced(&search);
                } else {
                    self.doing = Doing::Homing(search);
                }
            }
            Doing::Stopping(mut stopping) => {
                let still = stopping.watch.read(&reading);
                self.doing = Doing::Stopping(stopping);
                if still {
                    self.stands();
                }
            }
        }
        self.last = Some(reading);
        self.last_at = now;
        self.recall();
        self.remember();
    }

    /// Nobody ordered a motion; what does the controller do?
    pub(super) fn read_at_rest(&mut self, reading: &Reading, now: Time) {
        let was = self.status.activity;
        match &reading.motion {
            MotionState::Idle | MotionState::Locked => self.set_activity(Activity::Idle),
            MotionState::Moving | MotionState::Homing => {
                // A knob, another program, or an order that was given up as lost.
                self.set_activity(Activity::Moving);
                if was == Activity::Idle {
                    self.note("note", "It moves, though not by an order from here.".into());
                    self.bump();
                }
            }
            MotionState::Held(word) => {
                self.set_activity(Activity::Idle);
                if self.status.fault.is_none() && self.recovering.is_none() {
                    let what = format!("The controller is in \"{word}\" and takes no motion.");
                    self.fault(Code::Alarm, what, Remedy::ClearFault, now);
                }
            }
        }
        if was == Activity::Moving && self.status.activity == Activity::Idle {
            self.bump();
        }
    }

    fn referenced(&mut self, search: &Search) {
        for i in &search.axes {
            self.status.axes[*i].trust = Trust::Referenced;
        }
        let drift = |i: &usize| {
            let axis = &self.config.axes[*i];
            let told = self.facts.acceleration.get(*i).copied().flatten();
            let slows = crate::interlocks::deceleration(axis, told);
            (axis.id.clone(), search.record.drift(*i, slows, self.resolution(*i)))
        };
        self.drifts = search.trusted.iter().map(drift).collect();
        self.note("reference", "It found its reference.".into());
        self.end(Ok(Moved::Yes));
    }

    pub(super) fn seen(&mut self, seen: Seen, now: Time) {
        match seen {
            Seen::Going => {}
            Seen::Arrived => self.end(Ok(Moved::Yes)),
            Seen::Failed(code, what) => {
                let moved = match &self.doing {
                    Doing::Moving(w) if w.has_gone() => Moved::Yes,
                    _ => Moved::Unknown,
                };
                self.note("fault", format!("[{code}] {what}"));
                if code == Code::Stalled {
                    self.distrust("it stalled");
                }
                if matches!(code, Code::Stalled | Code::WrongDirection | Code::Alarm | Code::Faulted) {
                    let code = if code == Code::Faulted { Code::Alarm } else { code };
                    self.fault(code, what.clone(), Remedy::ClearFault, now);
                }
                let cause = self.error(code, &what, moved);
                self.abandon(cause, now);
            }
        }
    }

    /// Standstill after a stop is confirmed.
    pub(super) fn stands(&mut self) {
        let Doing::Stopping(stopping) = std::mem::replace(&mut self.doing, Doing::Nothing) else { return };
        let took = self.status.read_at.map_or(Duration::ZERO, |t| t.since(stopping.since));
        self.note("stopped", format!("It stands still, {} ms after the stop.", took.as_millis()));
        if self.status.fault.as_ref().is_some_and(|f| matches!(f.code, Code::StopNotSent | Code::StopNotConfirmed)) {
            self.status.fault = None;
        }
        let moved = match stopping.began {
            Some(began) => self.moved_from(&began),
            None => Moved::Unknown,
        };
        // A homing goes out and comes back: where it began, it may have been away.
        let moved = if stopping.homing && moved == Moved::No { Moved::Unknown } else { moved };
        let result = stopping.cause.map(|e| Err(if e.moved == Moved::Unknown { e.moved(moved) } else { e }));
        self.finish(result);
    }

    /// Whether it stands elsewhere than it did, by what readings can show.
    fn moved_from(&self, began: &[Option<Position>]) -> Moved {
        let mut moved = Moved::No;
        for (i, (axis, began)) in self.status.axes.iter().zip(began).enumerate() {
            match (axis.position, began) {
                // A declared position and its reading may differ in the last bits of a number.
                (Some(now), Some(began)) if (now - *began).abs().in_base() * 2.0 > self.resolution(i).in_base() => {
                    return Moved::Yes;
                }
                (Some(_), Some(_)) => {}
                _ => moved = Moved::Unknown,
            }
        }
        moved
    }
}
