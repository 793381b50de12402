//! One stage under the rig thread: what its driver reports becomes status, trust, faults and the outcome of
//! the motion in progress.

mod clock;
mod drift;
mod events;
mod hand;
mod memory;
mod person;

use std::time::Duration;

use super::fence::{Called, Fenced};
use super::motion::{AxisFacts, MotionWatch, StillWatch};
use super::watchdog::{self, Bark};
use crate::config;
use crate::devices::link::Lifeline;
use crate::devices::{MotionState, Reading, Stage, StageEvent, StageFacts};
use crate::interlocks::{Cleared, Drive, HomeDrive, Leg};
use crate::model::{
    Activity, AxisId, AxisReading, AxisStatus, Code, Drift, Epoch, Fault, Moved, Name, Remedy, RigError, Source,
    StageStatus, StopBy, Time, Trust,
};
use crate::store::Standstill;
use crate::units::{Distance, Position, Span};

/// How often a resting stage is read.
const POLL_IDLE: Duration = Duration::from_millis(400);
/// How often one that homes or is being stopped.
const POLL_BUSY: Duration = Duration::from_millis(40);
/// How long a stop may take until the controller is reset instead.
const STOP_GRACE: Duration = Duration::from_millis(1500);
/// How long after its start a stop is given up as not confirmed.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How long the bytes of a stop may wait for room before that is told.
const STOP_ROOM: Duration = Duration::from_millis(100);
/// Taken for an axis that doesn't tell its step size: GRBL reports three decimals.
const RESOLUTION: f64 = 0.001;
/// How much faster than its limit a counter may seem to go before it isn't believed: readings have jitter.
const JUMP: f64 = 2.0;

/// What the stage does by our order.
enum Doing {
    Nothing,
    Moving(Box<MotionWatch>),
    Homing(Box<Search>),
    Stopping(Stopping),
}

/// A homing in progress.
struct Search {
    since: Time,
    until: Time,
    axes: Vec<usize>,
    began: Vec<Option<Position>>,
    homed: Option<StillWatch>,
    /// Those of the axes that were trusted when it began, and all that was read since.
    trusted: Vec<usize>,
    record: drift::Record,
}

struct Stopping {
    since: Time,
    watch: StillWatch,
    /// What the motion's caller is told.
    cause: Option<RigError>,
    /// Where the motion began; nothing when none was ordered.
    began: Option<Vec<Option<Position>>>,
    /// That motion was a homing.
    homing: bool,
    handed: bool,
    halted: bool,
    /// Since when an ordinary stop has had its chance.
    grace: Time,
    /// It was given before the controller was identified: what that takes is no sign of motion.
    unidentified: bool,
}

/// What is known of a stage's standstill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It was read at rest, or was never there to move.
    Seen,
    /// A reading may still tell.
    Awaited,
    /// Nobody knows, and no reading will tell.
    Unknown,
}

/// A line for the audit log: kind and words.
pub(super) type Note = (&'static str, String);

pub(super) struct StageUnit {
    driver: Fenced<dyn Stage>,
    config: config::Stage,
    facts: StageFacts,
    doing: Doing,
    /// What the last homing that ended well found of its axes' drift, until the job takes it.
    drifts: Vec<(AxisId, Option<Drift>)>,
    /// How the last motion ended, until the job takes it.
    outcome: Option<Result<Moved, RigError>>,
    pub(super) status: StageStatus,
    last: Option<Reading>,
    last_at: Time,
    /// A reading that can't be: believed only if the next one agrees.
    suspect: bool,
    next_poll: Time,
    wish: Time,
    /// The connection broke while it moved, and nobody has seen it at rest since.
    unseen_end: bool,
    recovering: Option<bool>,
    /// What a person's declarations add to the rig file's origins, for this connection.
    shift: Vec<Distance>,
    /// Another program has the port.
    lent: bool,
    /// The watchdog's way to the axes.
    pub(super) lifeline: Lifeline,
    /// The watchdog has stopped it, and that is not cleared yet.
    barked: Option<Bark>,
    /// Where it was last at rest, for the next start; and what of that has been handed over.
    record: Option<Standstill>,
    handed_over: Option<Standstill>,
    /// The record is still to be held against what this connection reads.
    recalls: bool,
    /// It moved when its connection began.
    pub(super) found_moving: bool,
    /// Where it rests by what is known of it, and when its last motion by an order from here was over.
    resting: Option<Vec<Option<Position>>>,
    ordered: Option<Time>,
    /// How a motion ended is not known since, so that what moves may be that motion.
    doubtful: bool,
    /// Since when all readings say that a hand moves it.
    by_hand: Option<Time>,
    events: Vec<StageEvent>,
    pub(super) notes: Vec<Note>,
}

impl StageUnit {
    pub(super) fn new(
        config: &config::Stage,
        driver: Box<dyn Stage>,
        source: Source,
        epoch: Epoch,
        record: Option<Standstill>,
    ) -> StageUnit {
        let axes = config
            .axes
            .iter()
            .map(|a| AxisStatus {
                axis: a.id.axis.clone(),
                position: None,
                trust: Trust::Unknown,
                source,
                target: None,
                ahead: None,
                speed: None,
                at_limit: false,
            })
            .collect();
        let status = StageStatus {
            stage: config.id.clone(),
            activity: Activity::Connecting,
            fault: None,
            stopped_by: None,
            axes,
            epoch,
            read_at: None,
            came_from: None,
            identity: None,
            told: None,
            link: driver.link(),
        };
        StageUnit {
            driver: Fenced::new(driver),
            config: config.clone(),
            facts: StageFacts::default(),
            doing: Doing::Nothing,
            drifts: Vec::new(),
            outcome: None,
            status,
            last: None,
            last_at: Time::ZERO,
            suspect: false,
            next_poll: Time::ZERO,
            wish: Time::ZERO,
            unseen_end: false,
            recovering: None,
            shift: vec![Distance::default(); config.axes.len()],
            lent: false,
            lifeline: Lifeline::default(),
            barked: None,
            handed_over: record.clone(),
            record,
            recalls: true,
            found_moving: false,
            resting: None,
            ordered: None,
            doubtful: false,
            by_hand: None,
            events: Vec::new(),
            notes: Vec::new(),
        }
    }

    // ---- the worker's pass --------------------------------------------------------------------------------

    /// Ticks the driver if it is due, and digests what it reports. Tells when it wants the next tick.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        if self.driver.is_dead() {
            return now + Duration::from_secs(60);
        }
        let online = !matches!(self.status.activity, Activity::Offline | Activity::Connecting);
        if online && now >= self.next_poll {
            self.guarded(|d, _| d.poll(now));
            self.next_poll = now + self.poll_every(now);
        }
        let mut wish = now;
        self.guarded(|d, events| wish = d.tick(now, events));
        for event in std::mem::take(&mut self.events) {
            self.digest(event, now);
        }
        self.by_the_clock(now);
        let mut link = None;
        self.guarded(|d, _| link = Some(d.link()));
        if let Some(link) = link {
            self.status.link = link;
        }
        self.wish = if online { wish.min(self.next_poll) } else { wish };
        self.wish.max(now + Duration::from_micros(200))
    }

    /// Calls the driver; a panic in it is a fault of this device.
    fn guarded(&mut self, call: impl FnOnce(&mut dyn Stage, &mut Vec<StageEvent>)) {
        let events = &mut self.events;
        if self.driver.call(|d| call(d, events)) == Called::Failed {
            let (code, what) = match self.stop_past_the_driver() {
                Ok(()) => (Code::Internal, "Its driver failed and is not used any more.".to_owned()),
                Err(why) => {
                    let what = format!(
                        "STOP NOT SENT: its driver failed, and what stops the axes could not be sent: {why}. They may still \
                         move. Use the emergency stop."
                    );
                    (Code::StopNotSent, what)
                }
            };
            self.fault(code, what, Remedy::Restart, self.last_at);
            self.distrust("its driver failed");
            self.end(Err(self.error(code, "The driver failed.", Moved::Unknown)));
            self.status.activity = Activity::Offline;
        }
    }

    /// The driver can't be asked any more: the watchdog's way stops what may move.
    fn stop_past_the_driver(&self) -> Result<(), String> {
        if !self.lifeline.needs(|_| false) {
            return Ok(());
        }
        self.lifeline.fire(|_| false).1
    }

    fn poll_every(&self, now: Time) -> Duration {
        match &self.doing {
            Doing::Nothing => POLL_IDLE,
            Doing::Moving(watch) => watch.poll_every(now),
            Doing::Homing(_) | Doing::Stopping(_) => POLL_BUSY,
        }
    }

    /// Asks for a reading now.
    pub(super) fn poll(&mut self, now: Time) {
        self.guarded(|d, _| d.poll(now));
        self.next_poll = now + self.poll_every(now);
    }

    /// Whether the newest reading was asked for at `since` or later.
    pub(super) fn read_since(&self, since: Time) -> bool {
        self.status.read_at.is_some_and(|t| t >= since) && !self.suspect
    }

    // ---- orders -------------------------------------------------------------------------------------------

    /// Starts a leg. The driver has its bytes when this returns.
    pub(super) fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError> {
        let drive = order.order().clone();
        let began: Vec<Option<Position>> = self.status.axes.iter().map(|a| a.position).collect();
        self.outcome = None;
        let mut sent = Err(self.error(Code::Internal, "The driver failed.", Moved::Unknown));
        let order = order.less(&self.shift);
        // Before the first byte: whatever hangs from now on leaves an axis that may move.
        self.arm(true, false);
        self.guarded(|d, _| sent = d.go(order, now));
        if let Err(error) = sent {
            self.arm(false, false);
            return Err(error.on(&self.config.id));
        }
        // Only a stage at rest stands on record.
        self.record = None;
        let expected = self.expected(&drive);
        let watch = MotionWatch::new(drive, self.axis_facts(), began, expected, now);
        for (index, axis) in self.status.axes.iter_mut().enumerate() {
            axis.target = watch.target(index);
            axis.speed = watch.speed(index);
        }
        self.doing = Doing::Moving(Box::new(watch));
        self.set_activity(Activity::Moving);
        self.bump();
        self.next_poll = now + Duration::from_millis(20);
        Ok(())
    }

    /// Starts homing.
    pub(super) fn home(&mut self, order: Cleared<'_, HomeDrive>, now: Time) -> Result<(), RigError> {
        let home = order.order().clone();
        self.outcome = None;
        let mut sent = Err(self.error(Code::Internal, "The driver failed.", Moved::Unknown));
        self.arm(true, true);
        self.guarded(|d, _| sent = d.home(order, now));
        if let Err(error) = sent {
            self.arm(false, false);
            return Err(error.on(&self.config.id));
        }
        // Until the reference is found nothing is known of where the axes are.
        self.record = None;
        let axes = if home.axes.is_empty() { (0..self.status.axes.len()).collect() } else { home.axes };
        let trusted = axes.iter().copied().filter(|i| self.status.axes[*i].trust != Trust::Unknown).collect();
        let mut record = drift::Record::default();
        self.last.iter().for_each(|reading| record.add(reading));
        for i in &axes {
            self.status.axes[*i].trust = Trust::Unknown;
            self.status.axes[*i].speed = Some(self.config.axes[*i].max_speed);
            // The reference that is searched is the rig file's.
            self.set_shift(*i, Distance::default());
        }
        let began = self.status.axes.iter().map(|a| a.position).collect();
        let until = now + home.timeout;
        let search = Search { since: now, until, axes, began, homed: None, trusted, record };
        self.doing = Doing::Homing(Box::new(search));
        self.set_activity(Activity::Homing);
        self.bump();
        self.next_poll = now + Duration::from_millis(20);
        Ok(())
    }

    /// Publishes what stops it from now on, for the watchdog.
    pub(super) fn arm(&mut self, moving: bool, homing: bool) {
        let mut script = None;
        self.guarded(|d, _| script = Some(d.stop_script(homing)));
        if let Some(script) = script {
            self.lifeline.arm(&self.config.id, script, moving);
        }
    }

    /// The watchdog has stopped it past its driver, whose link is broken since.
    pub(super) fn stopped_by_watchdog(&mut self, bark: Bark, now: Time) {
        self.note("watchdog", bark.what.clone());
        self.distrust("its driver was passed over by a stop");
        self.status.fault = Some(watchdog::fault(&bark, now));
        self.end_motion(bark.code, &bark.what);
        self.barked = Some(bark);
    }

    /// Publishes the way that the parts of a move which are not over may take each axis; nothing when the move is.
    pub(super) fn goes_on_to<'l>(&mut self, legs: impl Iterator<Item = &'l Leg> + Clone) {
        for axis in &mut self.status.axes {
            let ends = legs.clone().flat_map(|l| &l.targets).filter(|(name, _)| *name == axis.axis).map(|(_, to)| *to);
            axis.ahead = ends.map(|p| Span::between(p, p)).reduce(Span::hull);
        }
    }

    /// Remembers where a motion begins, for `go_back`.
    pub(super) fn remember_start(&mut self, places: Vec<(Name, Position)>) {
        self.status.came_from = Some(places);
    }

    /// Stops by somebody's order, and latches. Needs nothing; the bytes go out first.
    pub(super) fn stop(&mut self, by: StopBy, now: Time) {
        let cause = self.error(Code::Stopped, "It was stopped.", Moved::Unknown);
        self.halt_motion(Some(cause), now);
        // A person's stop is never made lighter by another.
        if self.status.stopped_by != Some(StopBy::Person) {
            self.status.stopped_by = Some(by);
        }
        self.bump();
    }

    /// Stops the motion in progress, if there is one, without latching.
    pub(super) fn abandon(&mut self, cause: RigError, now: Time) {
        if matches!(self.doing, Doing::Moving(_) | Doing::Homing(_)) {
            self.halt_motion(Some(cause), now);
        }
    }

    fn halt_motion(&mut self, cause: Option<RigError>, now: Time) {
        let mut handed = false;
        self.guarded(|d, _| handed = d.stop(now));
        let had_motion = matches!(self.doing, Doing::Moving(_) | Doing::Homing(_));
        let unopened = self.status.activity == Activity::Connecting && !self.status.link.open;
        if self.status.activity == Activity::Offline || unopened || self.driver.is_dead() {
            // Nothing can be handed over; the driver does it as soon as somebody can hear it.
            return;
        }
        if matches!(self.doing, Doing::Homing(_)) {
            self.distrust("homing was stopped");
        }
        let unidentified = match &self.doing {
            Doing::Stopping(stopping) => stopping.unidentified,
            _ => self.status.activity == Activity::Connecting,
        };
        let (cause, began, homing) = match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Stopping(s) => (s.cause, s.began, s.homing),
            Doing::Moving(watch) => (cause, Some(watch.began().to_vec()), false),
            Doing::Homing(search) => (cause, Some(search.began), true),
            Doing::Nothing => (None, None, false),
        };
        let watch = StillWatch::new(now);
        self.doing = Doing::Stopping(Stopping {
            since: now,
            watch,
            cause,
            began,
            homing,
            handed,
            halted: false,
            grace: now,
            unidentified,
        });
        self.set_activity(Activity::Stopping);
        self.next_poll = now;
        if had_motion {
            self.bump();
        }
    }

    /// The end of the motion in progress, once.
    pub(super) fn take_outcome(&mut self) -> Option<Result<Moved, RigError>> {
        self.outcome.take()
    }

    /// What the last homing found, once.
    pub(super) fn take_drifts(&mut self) -> Vec<(AxisId, Option<Drift>)> {
        std::mem::take(&mut self.drifts)
    }

    /// Whether it has been read at rest since.
    pub(super) fn rest(&self, since: Time) -> Rest {
        match self.status.activity {
            // Without a port nobody can know more than was known.
            Activity::Offline if self.status.link.open || self.unseen_end || self.driver.is_dead() => Rest::Unknown,
            Activity::Offline => Rest::Seen,
            // The same while another program has it.
            Activity::Connecting if !self.status.link.open && self.status.link.last_error.is_some() => Rest::Seen,
            Activity::Idle if self.is_free() && self.read_since(since) && !self.unseen_end => Rest::Seen,
            _ => Rest::Awaited,
        }
    }

    /// Whether nothing runs here by our order.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    /// Releases stop and fault, and the controller's lock. `Ok(true)`: done; `Ok(false)`: the controller is
    /// asked, and [`StageUnit::recovered`] tells.
    pub(super) fn recover(&mut self, now: Time) -> Result<bool, RigError> {
        if self.status.stopped_by == Some(StopBy::Person) {
            let what = format!("Stage {} was stopped by a person, and only a person releases that.", self.config.id);
            return Err(self.error(Code::NotPermitted, &what, Moved::No));
        }
        if let Some(fault) = &self.status.fault
            && fault.remedy != Remedy::ClearFault
        {
            if fault.code == Code::NotResponding && self.status.link.open && !self.driver.is_dead() {
                // It may be locked so that it hears nothing but a reset.
                self.recovering = Some(false);
                self.guarded(|d, _| d.recover(now));
                return Ok(false);
            }
            let code = if fault.remedy == Remedy::Resume { Code::NotPermitted } else { fault.code };
            let what = match fault.remedy {
                Remedy::Reconnect => format!("{} It ends by itself when the device answers again.", fault.what),
                Remedy::Reclaim | Remedy::Resume => fault.what.clone(),
                _ => format!("{} Only a restart of the program ends it.", fault.what),
            };
            return Err(self.error(code, &what, Moved::No));
        }
        if !self.is_free() {
            let what = format!("Stage {} is still {}.", self.config.id, self.status.activity.word());
            return Err(self.error(Code::Busy, &what, Moved::No));
        }
        let stuck = self.last.as_ref().is_some_and(|r| matches!(r.motion, MotionState::Locked | MotionState::Held(_)));
        let alarm = self.status.fault.as_ref().is_some_and(|f| f.code == Code::Alarm);
        // Identified, but not read yet: nobody knows whether it is locked.
        let unread = self.last.is_none() && self.status.identity.is_some() && self.status.link.open;
        if stuck || alarm || unread {
            self.recovering = Some(false);
            self.guarded(|d, _| d.recover(now));
            return Ok(false);
        }
        self.release();
        Ok(true)
    }

    fn release(&mut self) {
        self.status.fault = None;
        self.barked = None;
        self.status.stopped_by = None;
        self.bump();
    }

    /// Ends a stop by the program that had nothing to stop.
    pub(super) fn free_from_program(&mut self) {
        if self.status.stopped_by == Some(StopBy::Program) {
            self.status.stopped_by = None;
            self.bump();
        }
    }

    /// How the controller's part of a recovery ended.
    pub(super) fn recovered(&mut self) -> Option<Result<(), RigError>> {
        match self.recovering {
            Some(true) => {
                self.recovering = None;
                Some(Ok(()))
            }
            None => Some(Err(self.error(Code::Alarm, "The controller could not be unlocked.", Moved::No))),
            Some(false) => None,
        }
    }

    pub(super) fn close(&mut self) {
        self.guarded(|d, _| d.close());
    }

    // ---- small things -------------------------------------------------------------------------------------

    /// The motion in progress is over because of something that the controller said.
    fn end_motion(&mut self, code: Code, what: &str) {
        match &self.doing {
            Doing::Moving(w) => {
                let moved = if w.has_gone() { Moved::Yes } else { Moved::Unknown };
                self.end(Err(self.error(code, what, moved)));
            }
            Doing::Homing(_) => self.end(Err(self.error(code, what, Moved::Yes))),
            Doing::Stopping(_) | Doing::Nothing => {}
        }
    }

    /// A stop is over because the controller has begun anew, which stops everything.
    fn end_stop(&mut self) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Stopping(stopping) => self.finish(stopping.cause.map(Err)),
            other => self.doing = other,
        }
    }

    fn end(&mut self, result: Result<Moved, RigError>) {
        self.doing = Doing::Nothing;
        self.finish(Some(result));
    }

    fn finish(&mut self, result: Option<Result<Moved, RigError>>) {
        if let Some(result) = result {
            // A stop whose standstill was read is an end like any other.
            self.doubtful = result.as_ref().is_err_and(|e| e.moved == Moved::Unknown);
            self.outcome = Some(result);
        }
        for axis in &mut self.status.axes {
            axis.target = None;
            axis.speed = None;
        }
        self.ordered = Some(self.last_at);
        self.resting = Some(self.status.axes.iter().map(|a| a.position).collect());
        if self.status.activity.is_motion() {
            self.set_activity(Activity::Idle);
        }
        self.bump();
        self.arm(false, false);
    }

    fn set_activity(&mut self, activity: Activity) {
        self.status.activity = activity;
    }

    fn bump(&mut self) {
        self.status.epoch.0 += 1;
    }

    fn distrust(&mut self, why: &str) {
        if self.status.axes.iter().any(|a| a.trust != Trust::Unknown) {
            self.note("trust", format!("Its position is not believed any more: {why}"));
        }
        for axis in &mut self.status.axes {
            axis.trust = Trust::Unknown;
        }
        self.record = None;
        self.bump();
    }

    fn fault(&mut self, code: Code, what: String, remedy: Remedy, now: Time) {
        self.note("fault", format!("[{code}] {what}"));
        // What needs more to end is not covered up by what needs less.
        let keep = self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Restart);
        if !keep {
            self.status.fault = Some(Fault { code, what, at: now, remedy });
        }
        self.bump();
    }

    fn note(&mut self, kind: &'static str, what: String) {
        self.notes.push((kind, what));
    }

    fn error(&self, code: Code, what: &str, moved: Moved) -> RigError {
        let what =
            if what.starts_with("Stage ") { what.to_owned() } else { format!("Stage {}: {what}", self.config.id) };
        RigError::new(code, what).on(&self.config.id).moved(moved)
    }

    fn show(&self, positions: &[Option<Position>]) -> Vec<String> {
        let units = self.config.axes.iter().map(|a| a.unit);
        positions
            .iter()
            .zip(units)
            .map(|(p, u)| p.map_or("unknown".into(), |p| format!("{} {u}", crate::units::plain(p.to(u)))))
            .collect()
    }

    fn axis_facts(&self) -> Vec<AxisFacts> {
        self.config
            .axes
            .iter()
            .enumerate()
            .map(|(i, a)| AxisFacts {
                id: a.id.clone(),
                unit: a.unit,
                tolerance: a.tolerance,
                resolution: self.resolution(i),
            })
            .collect()
    }

    /// The smallest change of an axis that a reading can show.
    pub(super) fn resolution(&self, index: usize) -> Distance {
        let floor = Distance::base(RESOLUTION).unwrap_or_default();
        self.facts.resolution.get(index).copied().flatten().map_or(floor, |r| r.max(floor))
    }

    /// Whether axes that go such ways make no step: less than half of one is no motion, and a controller might answer
    /// it in its own way.
    pub(super) fn is_no_motion<'n>(&self, mut ways: impl Iterator<Item = (&'n Name, Distance)>) -> bool {
        ways.all(|(name, way)| {
            let index = self.config.axes.iter().position(|a| a.id.axis == *name);
            let told = index.and_then(|i| self.facts.resolution.get(i).copied().flatten());
            let step = told.map_or(RESOLUTION / 10.0, Distance::in_base);
            way.abs().in_base() < step / 2.0
        })
    }

    /// How long a leg takes at the slower of the rig's and the controller's speeds.
    fn expected(&self, drive: &Drive) -> Duration {
        let slowest = drive
            .axes
            .iter()
            .filter_map(|a| {
                let own = self.facts.max_speed.get(a.index).copied().flatten()?;
                (a.to - a.from).duration_at(own)
            })
            .max()
            .unwrap_or_default();
        drive.duration.max(slowest)
    }

    /// Whether a reading is further from the last than the axes can have gone.
    fn jumped(&self, reading: &Reading, now: Time) -> bool {
        if matches!(self.doing, Doing::Homing(_)) {
            return false;
        }
        let Some(last) = &self.last else { return false };
        // The last reading may be as old as its question, and the new one as young as its answer.
        let time = now.since(last.asked_at);
        self.config.axes.iter().enumerate().any(|(i, axis)| {
            let (Some(a), Some(b)) = (last.positions[i], reading.positions[i]) else { return false };
            let own = self.facts.max_speed.get(i).copied().flatten().map_or(axis.max_speed, |v| v.max(axis.max_speed));
            let possible = Distance::base(own.over(time).in_base() * JUMP).unwrap_or_default();
            (b - a).abs() > possible + axis.tolerance
        })
    }

    /// Whether the controller counts from zero although no order led there: it has restarted, and its greeting was lost.
    fn zeroed(&self, reading: &Reading) -> bool {
        let Some(last) = &self.last else { return false };
        let count =
            |positions: &[Option<Position>], i: usize| Some(self.counter(i, positions.get(i).copied().flatten()?));
        let axes = 0..self.config.axes.len();
        matches!(self.doing, Doing::Nothing | Doing::Stopping(_))
            && axes.clone().all(|i| count(&reading.positions, i).is_some_and(|c| c.abs() < 1e-9))
            && axes
                .clone()
                .any(|i| count(&last.positions, i).is_some_and(|c| c.abs() > 10.0 * self.resolution(i).in_base()))
    }

    /// Whether axes that rested, and rest, are elsewhere: a hand at the controller, or a damaged line.
    fn strayed(&self, reading: &Reading) -> bool {
        let Some(last) = &self.last else { return false };
        let rests = |r: &Reading| !matches!(r.motion, MotionState::Moving | MotionState::Homing);
        matches!(self.doing, Doing::Nothing)
            && rests(last)
            && rests(reading)
            && last.positions.iter().zip(&reading.positions).any(|(a, b)| a.is_some() && b.is_some() && a != b)
    }

    /// The axes' positions for keeping with a frame or a report.
    pub(super) fn readings(&self) -> Vec<AxisReading> {
        let pairs = self.status.axes.iter().zip(&self.config.axes);
        pairs
            .map(|(s, c)| AxisReading { id: c.id.clone(), position: s.position, unit: c.unit, trust: s.trust })
            .collect()
    }
}
