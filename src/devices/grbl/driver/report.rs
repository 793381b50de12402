//! What a status report means: a reading, a proof of what an `ok` claimed, a lock that nobody told.

use super::super::codec::Report;
use super::super::dialect::Family;
use super::{AT_SWITCH, Ask, Claim, Grbl, Motion, Phase, State, Stopping};
use crate::devices::{MotionState, Reading, Stage, StageEvent};
use crate::model::Time;
use crate::units::Position;

impl Grbl {
    pub(super) fn offset_heard(&mut self, offset: &Vec<f64>) {
        let new = self.offset.as_ref().is_some_and(|known| known != offset);
        if new && self.doubted.as_ref() != Some(offset) {
            self.doubted = Some(offset.clone());
        } else {
            self.offset = Some(offset.clone());
            self.doubted = None;
        }
    }

    /// Whether axes may be moving, so that they are to be watched.
    pub(super) fn is_watched(&self) -> bool {
        self.stopping.is_some()
            || self.line.current().is_some_and(|a| a.what == Ask::Motion)
            || matches!(self.last_state, Some(State::Run | State::Jog | State::Home | State::Hold))
    }

    /// What an `ok` says counts once a report says the same that was asked for after it.
    pub(super) fn claims(&mut self, claim: Claim, now: Time) {
        self.claim = Some((claim, now));
        self.status.forgive(now);
        self.poll(now);
    }

    pub(super) fn confirm(&mut self, report: &Report, asked_at: Time, out: &mut Vec<StageEvent>) {
        let Some((claim, since)) = self.claim else { return };
        if asked_at < since {
            self.poll_wanted = true;
            return;
        }
        self.claim = None;
        let locked = report.state == State::Alarm;
        match claim {
            Claim::Unlocked => {
                self.recovering = false;
                out.push(if locked {
                    StageEvent::NotRecovered { what: "it said ok, and is locked all the same".into() }
                } else {
                    StageEvent::Recovered
                });
            }
            Claim::Homed if locked => {
                out.push(StageEvent::HomingFailed { what: "it said ok, and is locked all the same".into() });
            }
            Claim::Homed => out.push(match self.off_switch(report) {
                Some(what) => StageEvent::HomingFailed { what },
                None => StageEvent::Homed,
            }),
        }
    }

    /// GRBL counts from its switches, so that it tells after homing how far it pulled off from them. Where an axis
    /// is elsewhere, no homing took place. Relatives count as they like.
    pub(super) fn off_switch(&self, report: &Report) -> Option<String> {
        let pull_off = *self.settings.get(&27)?;
        let machine = report.machine.as_ref().filter(|_| self.dialect.family == Family::Grbl11)?;
        self.axes.iter().find_map(|(axis, letter, place)| {
            let travel = *self.settings.get(&(130 + u16::try_from(*place).ok()?))?;
            let at = machine.get(*place)? * self.scale();
            let ends = [0.0, pull_off, travel - pull_off, travel];
            let there = ends.iter().any(|e| (at.abs() - e).abs() <= AT_SWITCH);
            (!there).then(|| format!("it said ok, but its counter for {} ({letter}) is {at}, not at a switch", axis.id))
        })
    }

    /// `$13=1` makes reports speak inches.
    pub(super) fn scale(&self) -> f64 {
        match self.settings.get(&13) {
            Some(v) if *v != 0.0 => 25.4,
            _ => 1.0,
        }
    }

    /// An alarm whose line was lost shows in the reports all the same.
    pub(super) fn notice_lock(&mut self, report: &Report, out: &mut Vec<StageEvent>) {
        if report.state != State::Alarm {
            self.locked = false;
            return;
        }
        if self.motion == Some(Motion::Home) || self.own_reset.is_some() {
            return;
        }
        self.motion = None;
        let known = std::mem::replace(&mut self.locked, true);
        if !known && self.phase == Phase::Ready {
            let what = "It is locked, and what it said about it was lost on the line".to_owned();
            out.push(StageEvent::Alarm { what, position_lost: true });
        }
    }

    pub(super) fn report(&mut self, report: &Report, now: Time, out: &mut Vec<StageEvent>) {
        if let Some(offset) = &report.offset {
            self.offset_heard(offset);
        }
        self.last_state = Some(report.state);
        let asked_at = self.status.answer(now);
        self.notice_lock(report, out);
        if self.unfinished.take().is_some() && self.stopping.is_none() {
            self.stopping = Some(Stopping { since: now, last: Time::ZERO, pressed: true });
        }
        self.carry_stop_on(report, asked_at, now);
        if self.motion == Some(Motion::Jog) && report.state == State::Run && self.stopping.is_none() {
            // A jog that has lost its first bytes is taken for a program move, in other coordinates.
            let what = "It runs a program move although a jog was sent: bytes were lost on the line.".to_owned();
            self.motion = Some(Motion::Program);
            out.push(StageEvent::Astray { what });
        }
        if let Phase::Boot { .. } = self.phase {
            self.phase = Phase::Identify;
        }
        // Not asked for: its age is unknown, so it is no reading.
        let Some(asked_at) = asked_at else { return };
        self.confirm(report, asked_at, out);
        self.accessories_heard(report, asked_at);
        if self.phase == Phase::Ready {
            out.push(StageEvent::Reading(self.reading(report, asked_at)));
            if self.unread && report.state == State::Idle && self.line.is_free() && self.stopping.is_none() {
                self.unread = false;
                self.phase = Phase::Identify;
            }
        }
    }

    pub(super) fn reading(&self, report: &Report, asked_at: Time) -> Reading {
        let scale = self.scale();
        let machine = report.machine.clone().or_else(|| {
            let (work, offset) = (report.work.as_ref()?, self.offset.as_ref().filter(|_| self.doubted.is_none())?);
            (work.len() == offset.len()).then(|| work.iter().zip(offset).map(|(w, o)| w + o).collect())
        });
        let positions: Vec<Option<Position>> =
            self.axes.iter().map(|(axis, _, place)| axis.to_rig(machine.as_ref()?.get(*place)? * scale)).collect();
        let pressed = report.pins.as_deref().unwrap_or("");
        let motion = match report.state {
            State::Idle => MotionState::Idle,
            State::Run | State::Jog => MotionState::Moving,
            State::Home => MotionState::Homing,
            State::Hold if self.stopping.is_some() => MotionState::Moving,
            State::Alarm => MotionState::Locked,
            State::Hold | State::Door | State::Check | State::Sleep | State::Tool => {
                MotionState::Held(report.state.word().into())
            }
        };
        Reading {
            asked_at,
            motion,
            positions,
            at_limit: self.axes.iter().map(|(_, letter, _)| pressed.contains(*letter)).collect(),
        }
    }
}
