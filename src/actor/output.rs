//! One output under the rig thread: what its driver reports becomes a value, faults and the end of a change; made
//! safe when everything stops and when its device comes back.

use std::time::Duration;

use super::fence::{Called, Fenced};
use super::stage::Note;
use crate::config;
use crate::devices::{Output, OutputEvent};
use crate::interlocks::Cleared;
use crate::model::{
    Code, Fault, Moved, OutputKind, OutputStatus, OutputValue, Remedy, RigError, SetOutput, StopBy, Time,
};
use crate::units::Percent;

/// How often an output is read at which nothing happens, and one that is being set.
const POLL_IDLE: Duration = Duration::from_secs(1);
const POLL_BUSY: Duration = Duration::from_millis(50);
/// How long making safe may take until that is told, and how often it is tried again after that.
const SECURE: Duration = Duration::from_secs(3);
const AGAIN: Duration = Duration::from_secs(2);

/// What the output does by our order.
enum Doing {
    Nothing,
    /// It was set; `shown` is when a reading first agreed, from which its delay runs.
    Setting {
        value: OutputValue,
        before: Option<OutputValue>,
        since: Time,
        until: Time,
        shown: Option<Time>,
    },
    /// It is being made safe.
    Securing {
        value: OutputValue,
        since: Time,
        until: Time,
        next_try: Time,
    },
    /// A person is asked to do it.
    Person {
        value: OutputValue,
        until: Time,
    },
}

pub(super) struct OutputUnit {
    driver: Fenced<dyn Output>,
    config: config::Output,
    doing: Doing,
    pub(super) status: OutputStatus,
    outcome: Option<Result<Moved, RigError>>,
    online: bool,
    /// Its port is lent to another program.
    lent: bool,
    next_poll: Time,
    events: Vec<OutputEvent>,
    pub(super) notes: Vec<Note>,
}

impl OutputUnit {
    pub(super) fn new(config: &config::Output, driver: Box<dyn Output>) -> OutputUnit {
        let status = OutputStatus {
            output: config.id.clone(),
            ready: false,
            value: None,
            assumed: false,
            target: None,
            waits_for: None,
            read_at: None,
            fault: None,
            stopped_by: None,
            identity: None,
            link: driver.link(),
        };
        OutputUnit {
            driver: Fenced::new(driver),
            config: config.clone(),
            doing: Doing::Nothing,
            status,
            outcome: None,
            online: false,
            lent: false,
            next_poll: Time::ZERO,
            events: Vec::new(),
            notes: Vec::new(),
        }
    }

    // ---- the worker's pass --------------------------------------------------------------------------------

    /// Ticks the driver and digests what it reports. Tells when it wants the next tick.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        if self.driver.is_dead() {
            return now + Duration::from_secs(60);
        }
        if self.online && now >= self.next_poll {
            self.poll(now);
        }
        let mut wish = now + Duration::from_secs(60);
        self.guarded(now, |d, events| wish = d.tick(now, events));
        for event in std::mem::take(&mut self.events) {
            self.digest(event, now);
        }
        let due = self.by_the_clock(now);
        let mut link = None;
        self.guarded(now, |d, _| link = Some(d.link()));
        if let Some(link) = link {
            self.status.link = link;
        }
        self.show();
        let poll = self.online.then_some(self.next_poll);
        let next = [Some(wish), poll, due].into_iter().flatten().min().unwrap_or(wish);
        next.max(now + Duration::from_micros(200))
    }

    /// Asks for its value now.
    pub(super) fn poll(&mut self, now: Time) {
        self.guarded(now, |d, _| d.poll(now));
        let busy = !matches!(self.doing, Doing::Nothing | Doing::Person { .. });
        self.next_poll = now + if busy { POLL_BUSY } else { POLL_IDLE };
    }

    /// Calls the driver; a panic in it is a fault of this device.
    fn guarded(&mut self, now: Time, call: impl FnOnce(&mut dyn Output, &mut Vec<OutputEvent>)) {
        let events = &mut self.events;
        if self.driver.call(|d| call(d, events)) == Called::Failed {
            self.lose(Code::Internal, "Its driver failed and is not used any more.", Remedy::Restart, now);
        }
    }

    fn digest(&mut self, event: OutputEvent, now: Time) {
        if self.lent {
            // The driver only sees that its connection is gone.
            return;
        }
        match event {
            OutputEvent::Online(identity) => {
                self.notes.push(("connected", format!("{} {}", identity.model, identity.firmware).trim().into()));
                self.status.identity = Some(identity);
                self.online = true;
                if self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Reconnect) {
                    self.status.fault = None;
                }
                self.begin_secure(now);
                if !matches!(self.doing, Doing::Securing { .. }) {
                    self.poll(now);
                }
            }
            OutputEvent::Offline { code, what } => {
                let known = self.status.fault.as_ref().is_some_and(|f| f.code == code && f.what == what);
                if !known || self.online {
                    self.notes.push(("lost", what.clone()));
                    self.lose(code, &what, Remedy::Reconnect, now);
                }
            }
            OutputEvent::Value { value, asked_at } => self.read(value, asked_at, now),
            OutputEvent::Refused { code, what } => self.refused(code, &what, now),
            OutputEvent::Restarted { what } => {
                self.notes.push(("reset", what.clone()));
                self.status.value = None;
                self.fail(Code::ControllerReset, &what, Moved::Unknown);
                self.begin_secure(now);
            }
            OutputEvent::AskPerson(what) => {
                if let Doing::Setting { value, .. } = &self.doing {
                    let until = now + self.config.confirm_within;
                    self.notes.push(("asked_person", format!("A person is asked to {what}.")));
                    self.status.waits_for = Some(what);
                    self.doing = Doing::Person { value: value.clone(), until };
                }
            }
        }
    }

    fn read(&mut self, value: Option<OutputValue>, asked_at: Time, now: Time) {
        let since = match &self.doing {
            Doing::Setting { since, .. } | Doing::Securing { since, .. } => *since,
            Doing::Nothing | Doing::Person { .. } => Time::ZERO,
        };
        if asked_at < since {
            // It tells of the time before the order.
            self.next_poll = now;
            return;
        }
        let agrees = |target: &OutputValue| value.as_ref().is_some_and(|v| target.agrees(v));
        match &mut self.doing {
            Doing::Setting { value: target, shown, .. } => {
                let there = agrees(target);
                *shown = if there { shown.or(Some(now)) } else { None };
            }
            Doing::Securing { value: target, .. } if agrees(target) => {
                let what = format!("It is {target}, as is safe.");
                self.notes.push(("safe", what));
                self.doing = Doing::Nothing;
            }
            Doing::Nothing => {
                if let (Some(old), Some(new)) = (&self.status.value, &value)
                    && !old.agrees(new)
                {
                    self.notes.push(("changed", format!("It is {new} now, no more {old}; nobody ordered that here.")));
                }
            }
            Doing::Securing { .. } | Doing::Person { .. } => {}
        }
        self.status.value = value;
        self.status.assumed = false;
        self.status.read_at = Some(asked_at);
    }

    fn refused(&mut self, code: Code, what: &str, now: Time) {
        match &mut self.doing {
            Doing::Setting { .. } => {
                self.notes.push(("refused", format!("[{code}] {what}")));
                self.fail(code, what, Moved::No);
            }
            // It is tried again.
            Doing::Securing { next_try, .. } => *next_try = (*next_try).min(now + POLL_BUSY),
            Doing::Nothing | Doing::Person { .. } => {}
        }
    }

    /// What time alone brings about; tells when it next does.
    fn by_the_clock(&mut self, now: Time) -> Option<Time> {
        match &self.doing {
            Doing::Nothing => None,
            Doing::Setting { value, before, shown: Some(at), .. } => {
                let due = *at + self.config.delay;
                if now < due {
                    return Some(due);
                }
                let moved = if before.as_ref().is_some_and(|b| b.agrees(value)) { Moved::No } else { Moved::Yes };
                self.doing = Doing::Nothing;
                self.outcome = Some(Ok(moved));
                None
            }
            Doing::Setting { value, since, until, shown: None, .. } => {
                if now < *until {
                    return Some(*until);
                }
                let reads = self.status.value.as_ref().map_or("nothing certain".into(), OutputValue::to_string);
                let after = now.since(*since).as_secs_f64();
                let what = format!("It was set to {value} and reads {reads} after {after:.1} s.");
                self.fault(Code::OutputFailed, &what, now);
                self.fail(Code::OutputFailed, &what, Moved::Unknown);
                self.begin_secure(now);
                None
            }
            Doing::Securing { value, until, next_try, .. } => {
                let (late, again) = (now >= *until, now >= *next_try);
                if late && self.status.fault.is_none() {
                    let what = format!("It could not be made safe: it does not show {value}.");
                    self.fault(Code::OutputFailed, &what, now);
                }
                if again {
                    let handed = self.secure(now);
                    if let Doing::Securing { next_try, .. } = &mut self.doing {
                        *next_try = now + if handed { AGAIN } else { POLL_BUSY };
                    }
                }
                match &self.doing {
                    Doing::Securing { until, next_try, .. } if *until > now => Some((*until).min(*next_try)),
                    Doing::Securing { next_try, .. } => Some(*next_try),
                    _ => None,
                }
            }
            Doing::Person { until, .. } => {
                if now < *until {
                    return Some(*until);
                }
                let asked = self.status.waits_for.clone().unwrap_or_default();
                let what = format!(
                    "A person was asked to {asked}, and nobody confirmed it within {} s.",
                    self.config.confirm_within.as_secs()
                );
                self.status.value = None;
                self.fail(Code::Expired, &what, Moved::Unknown);
                None
            }
        }
    }

    /// What follows from the rest for those who read the status.
    fn show(&mut self) {
        let securing = matches!(self.doing, Doing::Securing { .. });
        self.status.ready = self.online && !securing && !self.driver.is_dead();
        self.status.target = match &self.doing {
            Doing::Nothing => None,
            Doing::Setting { value, .. } | Doing::Securing { value, .. } | Doing::Person { value, .. } => {
                Some(value.clone())
            }
        };
        if !matches!(self.doing, Doing::Person { .. }) {
            self.status.waits_for = None;
        }
    }

    // ---- orders -------------------------------------------------------------------------------------------

    /// Sets it; [`OutputUnit::take_outcome`] tells how that ended.
    pub(super) fn set(&mut self, order: Cleared<'_, SetOutput>, now: Time) -> Result<(), RigError> {
        let value = order.order().value.clone();
        self.outcome = None;
        let mut sent = Err(self.error(Code::Internal, "The driver failed.", Moved::Unknown));
        self.guarded(now, |d, _| sent = d.set(order, now));
        sent.map_err(|e| self.error(e.code, &e.what, e.moved))?;
        let patience = self.driver_patience(now);
        let before = self.status.value.clone();
        self.doing = Doing::Setting { value, before, since: now, until: now + patience, shown: None };
        self.show();
        self.next_poll = now;
        Ok(())
    }

    fn driver_patience(&mut self, now: Time) -> Duration {
        let mut patience = Duration::ZERO;
        self.guarded(now, |d, _| patience = d.patience());
        patience
    }

    /// The end of a change, once.
    pub(super) fn take_outcome(&mut self) -> Option<Result<Moved, RigError>> {
        self.outcome.take()
    }

    /// Nobody waits for the change in progress any more.
    pub(super) fn abandon(&mut self) {
        match &self.doing {
            Doing::Person { .. } => {
                // Whether the person has done it nobody knows.
                self.status.value = None;
                self.doing = Doing::Nothing;
            }
            Doing::Setting { .. } => self.doing = Doing::Nothing,
            Doing::Nothing | Doing::Securing { .. } => {}
        }
        self.outcome = None;
        self.show();
    }

    /// A stop of everything, or the end of the program: it is made safe where the rig file says so. A stop latches.
    pub(super) fn stop(&mut self, by: Option<StopBy>, now: Time) {
        if self.config.safe().is_none() {
            return;
        }
        if let Some(by) = by
            && self.status.stopped_by != Some(StopBy::Person)
        {
            self.status.stopped_by = Some(by);
        }
        if self.online {
            self.fail(Code::Stopped, "It was made safe by a stop.", Moved::Unknown);
            self.begin_secure(now);
        }
    }

    /// Makes it safe, where the rig file says what that is; past whatever is under way.
    fn begin_secure(&mut self, now: Time) {
        let Some(value) = self.config.safe().cloned() else { return };
        let handed = self.secure(now);
        if self.driver.is_dead() {
            return;
        }
        let until = now + SECURE.max(self.driver_patience(now));
        let next_try = now + if handed { AGAIN } else { POLL_BUSY };
        self.doing = Doing::Securing { value, since: now, until, next_try };
        self.next_poll = now;
        self.show();
    }

    /// Tells the driver to make it safe; `false` when it could not take that now.
    fn secure(&mut self, now: Time) -> bool {
        let mut handed = false;
        self.guarded(now, |d, _| handed = d.secure(now));
        handed
    }

    /// Whether it is being made safe, and nothing speaks against it yet.
    pub(super) fn is_securing(&self) -> bool {
        matches!(self.doing, Doing::Securing { .. }) && self.status.fault.is_none()
    }

    /// Whether it is on its way to be there, for all that is known.
    pub(super) fn is_connecting(&self) -> bool {
        !self.status.ready && self.status.fault.is_none()
    }

    /// Whether it is known to be safe, as far as it is to be.
    pub(super) fn is_safe(&self) -> bool {
        let Some(safe) = self.config.safe() else { return true };
        !matches!(self.doing, Doing::Securing { .. })
            && self.status.value.as_ref().is_some_and(|v| safe.agrees(v))
            // One that was never there, or is gone, can't be made safe from here.
            || (!self.online && !self.driver.is_dead())
    }

    /// A person has done what was asked, or refused to.
    pub(super) fn confirm(&mut self, done: bool, by: &str, now: Time) -> Result<(), RigError> {
        let Doing::Person { value, .. } = &self.doing else {
            return Err(self.error(Code::NotFound, "It waits for nobody.", Moved::No));
        };
        let (value, asked) = (value.clone(), self.status.waits_for.clone().unwrap_or_default());
        if done {
            self.notes.push(("confirmed", format!("{by} confirmed: {asked}.")));
            self.doing = Doing::Nothing;
            self.status.value = Some(value);
            self.status.assumed = true;
            self.status.read_at = Some(now);
            self.outcome = Some(Ok(Moved::Yes));
        } else {
            self.notes.push(("refused", format!("{by} refused: {asked}.")));
            let what = format!("{by} was asked to {asked}, and refused.");
            self.fail(Code::RefusedByPerson, &what, Moved::No);
        }
        self.show();
        Ok(())
    }

    /// Acknowledges a fault or a stop.
    pub(super) fn recover(&mut self, now: Time) -> Result<(), RigError> {
        if self.status.stopped_by == Some(StopBy::Person) {
            let what = "It was made safe by a person's stop, and only a person releases that.";
            return Err(self.error(Code::NotPermitted, what, Moved::No));
        }
        if let Some(f) = &self.status.fault
            && f.remedy != Remedy::ClearFault
        {
            let how = match f.remedy {
                Remedy::Resume => "Only a person releases it, with `steadyhand resume`.",
                Remedy::Reclaim => "It ends when that person takes it back.",
                Remedy::Reconnect => "It ends by itself when the device answers again.",
                _ => "Only a restart of the program ends it.",
            };
            return Err(self.error(f.code, &format!("{} {how}", f.what), Moved::No));
        }
        self.status.stopped_by = None;
        if self.status.fault.take().is_some() {
            self.begin_secure(now);
        }
        Ok(())
    }

    /// Its port is lent to another program, which may do anything there.
    pub(super) fn lend(&mut self, what: &str, now: Time) {
        self.lent = true;
        if self.driver.is_dead() {
            // Lending and reclaiming make it no better: its fault stays.
            return;
        }
        self.status.identity = None;
        self.lose(Code::Released, what, Remedy::Reclaim, now);
    }

    /// Its port is ours again: it is opened and identified by itself.
    pub(super) fn take_back(&mut self) {
        self.lent = false;
        if self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Reclaim) {
            self.status.fault = None;
        }
    }

    pub(super) fn close(&mut self, now: Time) {
        self.guarded(now, |d, _| d.close());
    }

    // ---- small things -------------------------------------------------------------------------------------

    /// What it is to be when a light is put back that nobody knows the value of.
    pub(super) fn dark(&self) -> OutputValue {
        match (self.config.safe(), self.config.kind) {
            (Some(safe), _) => safe.clone(),
            (None, OutputKind::Line) => OutputValue::On(false),
            (None, OutputKind::Light) => OutputValue::Percent(Percent::ZERO),
            (None, OutputKind::Shutter | OutputKind::Wheel) => OutputValue::Open(false),
        }
    }

    fn lose(&mut self, code: Code, what: &str, remedy: Remedy, now: Time) {
        self.online = false;
        self.status.value = None;
        self.status.fault = Some(Fault { code, what: what.into(), at: now, remedy });
        self.fail(code, what, Moved::Unknown);
        self.doing = Doing::Nothing;
        self.show();
    }

    /// Ends a change that is under way.
    fn fail(&mut self, code: Code, what: &str, moved: Moved) {
        if matches!(self.doing, Doing::Setting { .. } | Doing::Person { .. }) {
            self.doing = Doing::Nothing;
            self.outcome = Some(Err(self.error(code, what, moved)));
        }
    }

    fn fault(&mut self, code: Code, what: &str, now: Time) {
        self.notes.push(("fault", format!("[{code}] {what}")));
        self.status.fault = Some(Fault { code, what: what.into(), at: now, remedy: Remedy::ClearFault });
    }

    fn error(&self, code: Code, what: &str, moved: Moved) -> RigError {
        let what =
            if what.starts_with("Output ") { what.to_owned() } else { format!("Output {}: {what}", self.config.id) };
        RigError::new(code, what).on(&self.config.id).moved(moved)
    }
}
