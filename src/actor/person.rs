//! What only a person may order: to declare where an axis stands, to release a person's stop, to lend a port to
//! another program and to take it back.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::job::{AUDIT, unwritten};
use super::journal::Entry;
use super::message::{PersonOrder, Slot};
use super::worker::Worker;
use crate::model::{Activity, AxisId, AxisReading, Caller, Code, Event, JobId, Name, RigError, StopBy, Time};
use crate::store::Written;
use crate::units::{Position, plain};

/// How far outside its travel an axis may be declared, as a share of that travel: a stop may lie there; what lies
/// farther is a mistyped number or another unit.
const OUTSIDE: f64 = 0.1;

/// A declaration that waits for its line in the audit log.
pub(super) struct Referencing {
    axis: AxisId,
    position: Position,
    since: Time,
    entry: Entry,
    reply: Slot<AxisReading>,
}

impl Worker {
    /// Carries out what a person ordered; refuses it when it was none.
    pub(super) fn person(&mut self, order: PersonOrder, caller: &Caller, now: Time) {
        let elicited = matches!(&order, PersonOrder::Decide { decision, .. } if decision.elicited);
        let may = caller.way.is_person() || (elicited && self.rig.approvals.elicitation);
        if !may {
            let word = order.word();
            let what = format!("Only a person may {word}: at the rig's computer, with `steadyhand {word}`.");
            return order.refuse(RigError::new(Code::NotPermitted, what));
        }
        match order {
            PersonOrder::Reference { axis, position, reply } => self.reference(axis, position, reply, caller, now),
            PersonOrder::Resume { stage, reply } => self.tell(reply, now, |w| w.resume(stage.as_ref(), caller)),
            PersonOrder::Release { device, reply } => self.tell(reply, now, |w| w.release(&device, caller, now)),
            PersonOrder::Reclaim { device, reply } => self.tell(reply, now, |w| w.reclaim(&device, caller)),
            PersonOrder::Confirm { job, done, by, reply } => self.tell(reply, now, |w| w.confirm(job, done, &by, now)),
            PersonOrder::Decide { approval, decision, reply } => {
                self.tell(reply, now, |w| w.decide(&approval, &decision, caller, now));
            }
            PersonOrder::Allow { allowed, by, reply } => self.allow(allowed, by, reply, caller, now),
            PersonOrder::EndAllowance { by, reply } => {
                self.tell(reply, now, |w| Ok(w.end_allowance(&format!("{by} ended it"))));
            }
        }
    }

    /// Answers with an outcome; the state that it speaks of is there before the answer.
    pub(super) fn tell<T>(
        &mut self,
        mut reply: Slot<T>,
        now: Time,
        act: impl FnOnce(&mut Worker) -> Result<T, RigError>,
    ) {
        let outcome = act(self);
        self.publish(now);
        reply.answer(outcome);
    }

    /// Whether a job or a change of settings has one of these devices.
    fn in_use<'d>(&self, devices: &'d [Name]) -> Option<&'d Name> {
        let used = |name: &&Name| {
            self.jobs.iter().any(|j| j.uses.contains(name)) || self.is_setting(std::slice::from_ref(name))
        };
        devices.iter().find(used)
    }

    // ---- where an axis stands -----------------------------------------------------------------------------

    /// The line precedes the declaration, as it precedes a motion.
    fn reference(
        &mut self,
        axis: AxisId,
        position: Position,
        mut reply: Slot<AxisReading>,
        caller: &Caller,
        now: Time,
    ) {
        if let Err(why) = self.may_declare(&axis, position, now) {
            let what = format!("Declaring {axis}: {}", why.what);
            self.event("refused", Some(axis.stage.clone()), Some(caller.id.to_string()), what, BTreeMap::new());
            return reply.answer(Err(why));
        }
        let intent = Event {
            kind: "intent",
            device: Some(axis.stage.clone()),
            caller: Some(caller.id.to_string()),
            what: format!("A person declares that {axis} stands at {}.", self.rig.show(&axis, position)),
            facts: [("client", caller.client.clone().into())].into(),
        };
        match self.journal.append(intent) {
            Some(entry) => self.referencing.push(Referencing { axis, position, since: now, entry, reply }),
            None => reply.answer(Err(unwritten())),
        }
    }

    /// Carries out declarations whose line is written.
    pub(super) fn references(&mut self, now: Time) {
        for mut r in std::mem::take(&mut self.referencing) {
            match r.entry.written() {
                Written::Yes => self.tell(r.reply, now, |w| {
                    let (stage, axis) = w.may_declare(&r.axis, r.position, now)?;
                    w.stages[stage].declare(axis, r.position);
                    Ok(w.stages[stage].readings().swap_remove(axis))
                }),
                Written::Pending if now.since(r.since) < AUDIT => self.referencing.push(r),
                Written::Pending | Written::Failed => r.reply.answer(Err(unwritten())),
            }
        }
    }

    /// Whether an axis may be declared to stand there, with its places in the stages and in the stage.
    fn may_declare(&self, id: &AxisId, position: Position, now: Time) -> Result<(usize, usize), RigError> {
        let found = self.rig.stages.iter().enumerate().find(|(_, s)| s.id == id.stage);
        let place = |(i, s): (usize, &crate::config::Stage)| Some((i, s.axes.iter().position(|a| a.id == *id)?));
        let (index, axis) = found.and_then(place).ok_or_else(|| {
            let known: Vec<String> = self.rig.stages.iter().flat_map(|s| &s.axes).map(|a| a.id.to_string()).collect();
            RigError::new(Code::NotFound, format!("This rig has no axis {id}; it has {}.", known.join(", ")))
        })?;
        let (config, unit) = (&self.rig.stages[index].axes[axis], &self.stages[index]);
        let fail = |code, what: String| Err(RigError::new(code, what).on(&id.stage));
        let status = &unit.status;
        if matches!(status.activity, Activity::Offline | Activity::Connecting) {
            return fail(Code::NotConnected, format!("Stage {} isn't connected, or not identified yet.", id.stage));
        }
        if let Some(fault) = &status.fault {
            let what = format!("Stage {} has a fault that must end first: [{}] {}", id.stage, fault.code, fault.what);
            return fail(Code::Faulted, what);
        }
        if status.activity.is_motion() || !unit.is_free() || self.in_use(std::slice::from_ref(&id.stage)).is_some() {
            let what = format!("Stage {} is {}; it must be at rest.", id.stage, status.activity.word());
            return fail(Code::Busy, what);
        }
        let fresh = status.read_at.is_some_and(|at| now.since(at) <= self.rig.calls.fresh);
        if !fresh || status.axes[axis].position.is_none() {
            return fail(Code::Stale, format!("There is no reading of {id} that is new enough. Try again in 2 s."));
        }
        let excess = config.travel.excess(position).in_base();
        let length = (config.travel.high - config.travel.low).in_base();
        if excess > OUTSIDE * length {
            let show = |p: Position| plain(p.to(config.unit));
            let (low, high) = (show(config.travel.low), show(config.travel.high));
            let what = format!(
                "{} {unit} is far outside the travel of {id}, {low} to {high} {unit}. Is it another unit, or a slip?",
                show(position),
                unit = config.unit
            );
            return fail(Code::OutOfTravel, what);
        }
        Ok((index, axis))
    }

    // ---- what is done by hand -----------------------------------------------------------------------------

    fn confirm(&mut self, job: JobId, done: bool, by: &str, now: Time) -> Result<(), RigError> {
        let mut outcome = Err(RigError::new(Code::NotFound, format!("No job {job} is running.")));
        self.with_jobs(now, |j, bench| {
            if j.id == job {
                outcome = j.confirm(done, by, bench);
            }
        });
        outcome
    }

    // ---- a person's stop ----------------------------------------------------------------------------------

    fn resume(&mut self, stage: Option<&Name>, caller: &Caller) -> Result<Vec<Name>, RigError> {
        if let Some(name) = stage.filter(|n| self.rig.stage(n.as_str()).is_none()) {
            return Err(RigError::new(Code::NotFound, format!("This rig has no stage {name}.")));
        }
        let meant = |s: &Name| stage.is_none_or(|n| n == s);
        let pending = self.shared.stops.look();
        let moving = self.stages.iter().enumerate().find(|(i, s)| {
            meant(&s.status.stage) && (s.status.activity == Activity::Stopping || pending.by(*i).is_some())
        });
        if let Some((_, s)) = moving {
            let what = format!("Stage {} is still being stopped; it must stand first.", s.status.stage);
            return Err(RigError::new(Code::Busy, what).on(&s.status.stage));
        }
        let mut released = Vec::new();
        for s in self.stages.iter_mut().filter(|s| meant(&s.status.stage)) {
            if s.resume() {
                released.push(s.status.stage.clone());
            }
        }
        // What the stop made safe stays so until the whole of it is released.
        if self.stages.iter().all(|s| s.status.stopped_by != Some(StopBy::Person)) {
            for o in self.outputs.iter_mut().filter(|o| o.status.stopped_by == Some(StopBy::Person)) {
                o.status.stopped_by = None;
                released.push(o.status.output.clone());
            }
        }
        let all: Vec<Name> = self.rig.stages.iter().map(|s| s.id.clone()).collect();
        self.shared.stopped.release(stage, &all);
        if !released.is_empty() {
            let list = released.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
            let what = format!("A person has released the stop of {list}.");
            self.event("resume", None, Some(caller.id.to_string()), what, BTreeMap::new());
        }
        Ok(released)
    }

    /// What is to be known of a person's stop, while a stage stands under one.
    pub(super) fn person_stop_words(&self) -> Option<Arc<str>> {
        let stands = self.stages.iter().any(|s| s.status.stopped_by == Some(StopBy::Person))
            || self.outputs.iter().any(|o| o.status.stopped_by == Some(StopBy::Person));
        stands.then(|| self.shared.stopped.words()).flatten().map(Arc::from)
    }

    // ---- ports --------------------------------------------------------------------------------------------

    /// The gate of a device's port, and all devices behind it.
    fn port_of(&self, device: &Name) -> Result<(usize, Vec<Name>), RigError> {
        let link = self.rig.link_of(device.as_str());
        let link =
            link.ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no device {device} with a port.")))?;
        let gate = self.gates.iter().position(|(name, _)| name == link);
        let gate = gate.ok_or_else(|| {
            RigError::new(Code::Unsupported, format!("The port of {device} can't be lent.")).on(device)
        })?;
        Ok((gate, self.rig.on_link(link).into_iter().cloned().collect()))
    }

    fn release(&mut self, device: &Name, caller: &Caller, now: Time) -> Result<Vec<Name>, RigError> {
        let (gate, devices) = self.port_of(device)?;
        if self.gates[gate].1.is_shut() {
            return Ok(devices);
        }
        let restless = self.stages.iter().filter(|s| devices.contains(&s.status.stage));
        let restless = restless.filter(|s| s.status.activity.is_motion() || !s.is_free()).map(|s| &s.status.stage);
        if let Some(busy) = restless.chain(self.in_use(&devices)).next() {
            let what = format!("{busy} moves or is used; its port is lent only at rest.");
            return Err(RigError::new(Code::Busy, what).on(busy));
        }
        self.gates[gate].1.shut();
        let list = devices.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        let what =
            format!("A person has lent its port to another program; `steadyhand reclaim {device}` takes it back.");
        for s in self.stages.iter_mut().filter(|s| devices.contains(&s.status.stage)) {
            s.lend(&what, now);
        }
        for c in self.cameras.iter_mut().filter(|c| devices.contains(&c.status.camera)) {
            c.lend(&what, now);
        }
        for o in self.outputs.iter_mut().filter(|o| devices.contains(&o.status.output)) {
            o.lend(&what, now);
        }
        for s in self.sensors.iter_mut().filter(|s| devices.contains(&s.status.sensor)) {
            s.lend(&what, now);
        }
        let facts = [("devices", list.clone().into())].into();
        let what = format!("A person has lent the port of {list} to another program.");
        self.event("release", Some(device.clone()), Some(caller.id.to_string()), what, facts);
        Ok(devices)
    }

    fn reclaim(&mut self, device: &Name, caller: &Caller) -> Result<Vec<Name>, RigError> {
        let (gate, devices) = self.port_of(device)?;
        if !self.gates[gate].1.is_shut() {
            return Ok(devices);
        }
        self.gates[gate].1.open();
        for s in self.stages.iter_mut().filter(|s| devices.contains(&s.status.stage)) {
            s.take_back();
        }
        for c in self.cameras.iter_mut().filter(|c| devices.contains(&c.status.camera)) {
            c.take_back();
        }
        for o in self.outputs.iter_mut().filter(|o| devices.contains(&o.status.output)) {
            o.take_back();
        }
        for s in self.sensors.iter_mut().filter(|s| devices.contains(&s.status.sensor)) {
            s.take_back();
        }
        let list = devices.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        let facts = [("devices", list.clone().into())].into();
        let what = format!("A person has taken the port of {list} back; it is identified anew.");
        self.event("reclaim", Some(device.clone()), Some(caller.id.to_string()), what, facts);
        Ok(devices)
    }
}
