//! The rig thread's work, one pass at a time: stops, links, jobs, then new orders. It has no clock and never
//! waits; the thread around it does both.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::approval::Allowing;
use super::camera::CameraUnit;
use super::job::{Bench, Job};
use super::journal::Journal;
use super::message::{Command, Envelope, PersonOrder, Slot, Waiting};
use super::output::OutputUnit;
use super::person::Referencing;
use super::sensor::SensorUnit;
use super::stage::{Rest, StageUnit};
use super::sync::{Inbox, Pending, QUEUE, Shared};
use super::watchdog::Dog;
use crate::config::Rig;
use crate::devices::link::gate::Gate;
use crate::devices::{self, Devices};
use crate::interlocks::{Panel, Rules};
use crate::model::{
    CameraSettings, Code, Epoch, Event, JobId, JobState, JobStatus, Moved, Name, Report, RigError, Snapshot, StopBy,
    Time,
};

/// Ended jobs that are remembered.
const REMEMBERED: usize = 100;
/// The longest sleep between passes.
const NAP: Duration = Duration::from_millis(250);
/// How soon a running job is looked at again when no device says so.
const JOB: Duration = Duration::from_millis(40);
/// How long a shutdown waits for standstill.
const FAREWELL: Duration = Duration::from_secs(4);
/// How long a controller may take to unlock.
const RECOVERY: Duration = Duration::from_secs(8);

struct Recovery {
    stage: usize,
    until: Time,
    reply: Slot<()>,
}

struct Setting {
    camera: usize,
    reply: Slot<CameraSettings>,
}

/// A cancel that waits for standstill.
struct Cancelling {
    job: JobId,
    reply: Slot<()>,
}

/// The rig thread's state.
pub struct Worker {
    pub(super) rig: Arc<Rig>,
    pub(super) panel: Panel,
    pub(super) stages: Vec<StageUnit>,
    pub(super) cameras: Vec<CameraUnit>,
    pub(super) outputs: Vec<OutputUnit>,
    pub(super) sensors: Vec<SensorUnit>,
    simulated: Vec<bool>,
    pub(super) inbox: Inbox<Envelope>,
    pub(super) waiting: VecDeque<Envelope>,
    pub(super) shared: Arc<Shared>,
    publish: Arc<watch::Sender<Arc<Snapshot>>>,
    dog: Arc<Dog>,
    pub(super) journal: Box<dyn Journal>,
    pub(super) jobs: Vec<Job>,
    ended: VecDeque<Arc<JobStatus>>,
    recoveries: Vec<Recovery>,
    /// Clients that have gone lately.
    pub(super) gone: VecDeque<Name>,
    settings: Vec<Setting>,
    cancelling: Vec<Cancelling>,
    pub(super) referencing: Vec<Referencing>,
    pub(super) allowing: Vec<Allowing>,
    /// What was faulty already when the allowance that runs was given.
    pub(super) allowance_faults: Vec<Name>,
    /// The gate of each link.
    pub(super) gates: Vec<(Name, Gate)>,
    /// The watches that don't hold.
    pub(super) tripped: Vec<Arc<str>>,
    closing: Option<(Time, Slot<()>)>,
    done: bool,
}

impl Worker {
    pub(super) fn new(
        rules: Arc<Rules>,
        devices: Devices,
        inbox: Inbox<Envelope>,
        dog: Arc<Dog>,
        journal: Box<dyn Journal>,
        epoch: Epoch,
    ) -> Worker {
        let (shared, publish) = (dog.shared.clone(), dog.publish.clone());
        let rig = rules.rig().clone();
        let sources = devices.sources.iter();
        let stages = rig.stages.iter().zip(devices.stages).zip(sources);
        let stages = stages.map(|((config, driver), source)| {
            let mut stage = StageUnit::new(config, driver, *source, epoch, shared.standstills.of(&config.id));
            let gate = devices.gates.iter().find(|(link, _)| *link == config.link);
            stage.lifeline = gate.map(|(_, gate)| gate.lifeline().clone()).unwrap_or_default();
            stage.status.stopped_by = shared.stopped.stops(&config.id).then_some(StopBy::Person);
            stage
        });
        let stages = stages.collect();
        let cameras = rig.cameras.iter().zip(devices.cameras).map(|(c, d)| CameraUnit::new(&c.id, d)).collect();
        let outputs = rig.outputs.iter().zip(devices.outputs).map(|(c, d)| {
            let mut output = OutputUnit::new(c, d);
            output.status.stopped_by = (c.safe().is_some() && shared.stopped.stands()).then_some(StopBy::Person);
            output
        });
        let outputs = outputs.collect();
        let sensors = rig.sensors.iter().zip(devices.sensors).map(|(c, d)| SensorUnit::new(c, d)).collect();
        let simulated = rig.cameras.iter().map(|c| devices::driver(&c.driver).is_some_and(|d| d.simulated)).collect();
        Worker {
            rig,
            panel: Panel::new(rules),
            stages,
            cameras,
            outputs,
            sensors,
            simulated,
            inbox,
            waiting: VecDeque::new(),
            shared,
            publish,
            dog,
            journal,
            jobs: Vec::new(),
            ended: VecDeque::new(),
            recoveries: Vec::new(),
            gone: VecDeque::new(),
            settings: Vec::new(),
            cancelling: Vec::new(),
            referencing: Vec::new(),
            allowing: Vec::new(),
            allowance_faults: Vec::new(),
            gates: devices.gates,
            tripped: Vec::new(),
            closing: None,
            done: false,
        }
    }

    /// Nobody is left who could give orders: what moves is stopped, and the thread ends.
    pub(super) fn abandoned(&mut self, now: Time) {
        if self.closing.is_none() {
            let (reply, ticket) = super::message::reply(super::sync::wake().0, None);
            ticket.detach();
            self.begin_shutdown(reply, now);
        }
    }

    /// Who stops the axes when this thread can't.
    pub(super) fn dog(&self) -> &Arc<Dog> {
        &self.dog
    }

    /// Whether the thread is to end.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// One pass. Never waits; tells when the next is due.
    pub fn pass(&mut self, now: Time) -> Time {
        self.shared.pulse.works();
        self.barks(now);
        let stops = self.stops(now);
        let mut next = self.devices(now);
        self.light_budget(now);
        self.watches(now);
        self.lost_callers(now);
        let gone = self.lost_clients(now);
        self.lapse(now);
        self.jobs(now);
        self.ends(now);
        if self.orders(now) {
            // What has just begun takes its first step now, not at the next pass.
            self.jobs(now);
        }
        let telling = !self.jobs.is_empty() || stops.all() != 0;
        if telling || !self.recoveries.is_empty() || !self.settings.is_empty() {
            // Questions have gone out since the devices were ticked: they know when to look for the answers.
            next = self.devices(now).min(now + JOB);
        }
        if self.closing.is_some()
            || !self.waiting.is_empty()
            || !self.referencing.is_empty()
            || !self.allowing.is_empty()
        {
            next = next.min(now + JOB);
        }
        self.notes();
        self.publish(now);
        self.shared.stops.done(stops);
        self.shared.lost.lock().drain(..gone);
        self.shared.pulse.sleeps();
        next
    }

    /// What the watchdog has stopped while nothing else ran here.
    fn barks(&mut self, now: Time) {
        for bark in self.dog.barks() {
            if let Some(stage) = self.stages.iter_mut().find(|s| s.status.stage == bark.stage) {
                stage.stopped_by_watchdog(bark, now);
            }
        }
    }

    /// Ticks all devices; tells when the first wants to be ticked again.
    fn devices(&mut self, now: Time) -> Time {
        // Each device has its own time until it counts as stuck.
        let pulse = &self.shared.pulse;
        let stages = self.stages.iter_mut().map(|s| (pulse.works(), s.tick(now)).1).min();
        let cameras = self.cameras.iter_mut().map(|c| (pulse.works(), c.tick(now)).1).min();
        let outputs = self.outputs.iter_mut().map(|o| (pulse.works(), o.tick(now)).1).min();
        let sensors = self.sensors.iter_mut().map(|s| (pulse.works(), s.tick(now)).1).min();
        pulse.works();
        stages.into_iter().chain(cameras).chain(outputs).chain(sensors).min().map_or(now + NAP, |t| t.min(now + NAP))
    }

    // ---- stops --------------------------------------------------------------------------------------------

    /// All stop bytes go out first; then queue and jobs are emptied.
    fn stops(&mut self, now: Time) -> Pending {
        let pending = self.shared.stops.look();
        if pending.all() == 0 {
            return pending;
        }
        for i in 0..self.stages.len() {
            if let Some(by) = pending.by(i) {
                self.stages[i].stop(by, now);
            }
        }
        // Only after the stop bytes of all stages are out.
        if let Some(by) = pending.of_everything() {
            self.outputs.iter_mut().for_each(|o| o.stop(Some(by), now));
        }
        for i in (0..self.stages.len()).filter(|i| pending.by(*i) == Some(StopBy::Person)) {
            // Once more, so that a release in between is undone on record as it is here.
            self.shared.stopped.keep(Some(&self.rig.stages[i].id));
        }
        let named: Vec<Name> = (0..self.stages.len())
            .filter(|i| pending.by(*i).is_some())
            .map(|i| self.rig.stages[i].id.clone())
            .collect();
        let everything = named.len() == self.stages.len();
        let by = (0..64).find_map(|i| pending.by(i)).unwrap_or(StopBy::Program);
        let list = match pending.of_everything() {
            Some(_) => "everything".to_owned(),
            None => named.iter().map(Name::as_str).collect::<Vec<_>>().join(", "),
        };
        let by_word = format!("{by:?}").to_lowercase();
        self.stop_ends_approvals(by);
        self.event("stop", None, None, format!("Stop of {list} by {by_word}."), BTreeMap::new());
        let hit = |uses: &[Name]| everything || uses.iter().any(|n| named.contains(n));
        let stopped = RigError::new(Code::Stopped, format!("It was stopped by {by_word}."));
        while let Some(order) = self.inbox.take() {
            self.waiting.push_back(order);
        }
        let (dropped, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|e| match &e.command {
                Command::Run { plan, .. } => hit(&plan.uses()),
                // Given before this stop, so that it can't release it or outlast it.
                Command::Person(PersonOrder::Resume { .. } | PersonOrder::Allow { .. }) => true,
                Command::Person(PersonOrder::Decide { decision, .. }) => decision.yes,
                _ => false,
            });
        self.waiting = kept;
        for order in dropped {
            self.drop_order(order, &stopped);
        }
        self.with_jobs(now, |job, bench| {
            if hit(&job.uses) {
                job.end(stopped.clone(), bench);
            }
        });
        pending
    }

    // ---- jobs ---------------------------------------------------------------------------------------------

    pub(super) fn with_jobs(&mut self, now: Time, mut act: impl FnMut(&mut Job, &mut Bench<'_>)) {
        let mut jobs = std::mem::take(&mut self.jobs);
        let mut bench = Bench {
            rig: &self.rig,
            panel: &mut self.panel,
            stages: &mut self.stages,
            cameras: &mut self.cameras,
            outputs: &mut self.outputs,
            sensors: &self.sensors,
            stop_pending: self.shared.stops.pending(),
            simulated: &self.simulated,
            now,
        };
        for job in &mut jobs {
            self.shared.pulse.works();
            act(job, &mut bench);
        }
        self.jobs = jobs;
    }

    fn jobs(&mut self, now: Time) {
        let mut over = Vec::new();
        self.with_jobs(now, |job, bench| {
            if let Some(result) = job.drive(bench) {
                over.push((job.id, result));
            }
        });
        for (id, result) in over {
            let Some(i) = self.jobs.iter().position(|j| j.id == id) else { continue };
            let job = self.jobs.remove(i);
            self.ended(job, result, now);
        }
    }

    /// A job has ended: that goes on record and into the state, and then to its caller.
    fn ended(&mut self, mut job: Job, result: Result<Report, RigError>, now: Time) {
        let id = job.id;
        self.panel.revoke(id);
        for event in job.events.drain(..) {
            self.tell_log(event);
        }
        let state = match &result {
            Ok(report) => JobState::Done(report.clone()),
            Err(e) => JobState::Failed(e.clone()),
        };
        let told = self.outcome(&job, &result, now);
        self.tell_log(told);
        self.ended.push_back(Arc::new(JobStatus {
            id,
            title: job.title.clone(),
            caller: job.caller.clone(),
            started: job.started,
            state,
            doing: String::new(),
            orphan: job.orphan,
            waits_for: None,
            approval: None,
        }));
        while self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
        // The state that the answer speaks of is there before the answer.
        self.publish(now);
        job.answer(result);
    }

    // ---- things that end later ----------------------------------------------------------------------------

    fn ends(&mut self, now: Time) {
        // Who asks for the same while it is under way is told the same.
        let mut recovered: BTreeMap<usize, Option<Result<(), RigError>>> = BTreeMap::new();
        for mut r in std::mem::take(&mut self.recoveries) {
            let late = RigError::new(Code::NotResponding, "The controller did not say that it is unlocked.");
            match recovered.entry(r.stage).or_insert_with(|| self.stages[r.stage].recovered()) {
                Some(outcome) => r.reply.answer(outcome.clone()),
                None if now > r.until => r.reply.answer(Err(late)),
                None => self.recoveries.push(r),
            }
        }
        for mut s in std::mem::take(&mut self.settings) {
            match self.cameras[s.camera].take_set() {
                Some(outcome) => s.reply.answer(outcome),
                None => self.settings.push(s),
            }
        }
        let running: Vec<JobId> = self.jobs.iter().map(|j| j.id).collect();
        for mut c in std::mem::take(&mut self.cancelling) {
            if running.contains(&c.job) {
                self.cancelling.push(c);
            } else {
                c.reply.answer(Ok(()));
            }
        }
        self.references(now);
        self.allowances(now);
        self.close_down(now);
    }

    fn close_down(&mut self, now: Time) {
        let Some((since, _)) = &self.closing else { return };
        let since = *since;
        let awaited = self.stages.iter().any(|s| s.rest(since) == Rest::Awaited)
            || !self.jobs.is_empty()
            || self.outputs.iter().any(|o| !o.is_safe());
        if awaited && now.since(since) < FAREWELL {
            return;
        }
        let restless = self.stages.iter().filter(|s| s.rest(since) != Rest::Seen);
        let restless: Vec<String> = restless.map(|s| s.status.stage.to_string()).collect();
        let unsafe_outputs = self.outputs.iter().filter(|o| !o.is_safe());
        let unsafe_outputs: Vec<String> = unsafe_outputs.map(|o| o.status.output.to_string()).collect();
        for job in std::mem::take(&mut self.jobs) {
            // Nobody has seen how it ended, and nobody will.
            let moved = job.moved_at_most();
            let what = "The server ended before it was known how this ended.";
            self.ended(job, Err(RigError::new(Code::ShuttingDown, what).moved(moved)), now);
        }
        for stage in &mut self.stages {
            stage.close();
        }
        for camera in &mut self.cameras {
            camera.close(now);
        }
        self.outputs.iter_mut().for_each(|o| o.close(now));
        self.sensors.iter_mut().for_each(|s| s.close(now));
        self.event("shutdown", None, None, "The rig thread ends.".into(), BTreeMap::new());
        if let Some((_, mut reply)) = self.closing.take() {
            reply.answer(if restless.is_empty() && unsafe_outputs.is_empty() {
                Ok(())
            } else if restless.is_empty() {
                let what = format!("{} could not be made safe.", unsafe_outputs.join(", "));
                Err(RigError::new(Code::OutputFailed, what))
            } else {
                let what = format!("Standstill of {} could not be confirmed.", restless.join(", "));
                Err(RigError::new(Code::StopNotConfirmed, what).moved(Moved::Unknown))
            });
        }
        self.done = true;
    }

    // ---- orders -------------------------------------------------------------------------------------------

    /// Takes what can be taken; tells whether a job has begun.
    fn orders(&mut self, now: Time) -> bool {
        let before = self.jobs.len();
        for _ in 0..QUEUE {
            let Some(order) = self.inbox.take() else { break };
            // Room is only for what waits for a device: a cancel is not held up by what it is to end.
            let waits = matches!(order.command, Command::Run { .. } | Command::Set { .. });
            if waits && self.waiting.len() >= QUEUE {
                self.drop_order(order, &super::handle::too_many());
            } else {
                self.waiting.push_back(order);
            }
        }
        let mut claimed: Vec<Name> = self.jobs.iter().flat_map(|j| j.uses.clone()).collect();
        for order in std::mem::take(&mut self.waiting) {
            if let Some(kept) = self.order(order, &mut claimed, now) {
                self.waiting.push_back(kept);
            }
        }
        self.jobs.len() > before
    }

    /// Takes one order, or gives it back when it must wait for its devices.
    fn order(&mut self, order: Envelope, claimed: &mut Vec<Name>, now: Time) -> Option<Envelope> {
        // The end is answered before the orders of its own pass are looked at.
        if self.closing.is_some() || self.done {
            self.drop_order(order, &RigError::new(Code::ShuttingDown, "The server is shutting down."));
            return None;
        }
        if now > order.deadline && !matches!(order.command, Command::Shutdown { .. }) {
            let what = "It waited too long for its turn and was dropped.";
            self.drop_order(order, &RigError::new(Code::Expired, what));
            return None;
        }
        let Envelope { deadline, caller, command } = order;
        match command {
            Command::Run { reply, .. } if reply.waiting() == Waiting::Lost => None,
            Command::Run { mut reply, .. } if self.gone.contains(&caller.id) => {
                // It was on its way when its client went.
                reply.answer(Err(super::lost::gone().moved(Moved::No)));
                None
            }
            Command::Run { job, plan, origin, reply } => {
                let uses = plan.uses();
                let taken = uses.iter().any(|n| claimed.contains(n)) || self.is_setting(&uses);
                claimed.extend(uses.iter().cloned());
                if let Some(why) = self.kept_for_a_person(&uses) {
                    self.drop_order(
                        Envelope { deadline, caller, command: Command::Run { job, plan, origin, reply } },
                        &why,
                    );
                    return None;
                }
                if taken {
                    return Some(Envelope { deadline, caller, command: Command::Run { job, plan, origin, reply } });
                }
                self.run(job, plan, origin, reply, caller, now);
                None
            }
            Command::Cancel { job, mut reply } => {
                let queued = |e: &Envelope| matches!(&e.command, Command::Run { job: queued, .. } if *queued == job);
                if let Some(order) = self.waiting.iter().position(queued).and_then(|i| self.waiting.remove(i)) {
                    self.drop_order(order, &RigError::new(Code::Cancelled, "It was cancelled before it began."));
                    reply.answer(Ok(()));
                    return None;
                }
                if !self.jobs.iter().any(|j| j.id == job) {
                    reply.answer(Err(RigError::new(Code::NotFound, format!("No job {job} is running."))));
                    return None;
                }
                let why = RigError::new(Code::Cancelled, "It was cancelled.").moved(Moved::Unknown);
                self.with_jobs(now, |j, bench| {
                    if j.id == job {
                        j.end(why.clone(), bench);
                    }
                });
                let (by, facts) = (caller.id.to_string(), super::record::who(&caller, None));
                self.event("cancel", None, Some(by), format!("{job} was cancelled."), facts);
                self.cancelling.push(Cancelling { job, reply });
                None
            }
            Command::Set { camera, change, mut reply } => {
                if claimed.contains(&camera) || self.is_setting(std::slice::from_ref(&camera)) {
                    return Some(Envelope { deadline, caller, command: Command::Set { camera, change, reply } });
                }
                match self.rig.cameras.iter().position(|c| c.id == camera) {
                    None => {
                        reply.answer(Err(RigError::new(Code::NotFound, format!("This rig has no camera {camera}."))))
                    }
                    Some(i) => match self.cameras[i].set(&change, now) {
                        Ok(()) => {
                            let what = super::record::change_in_words(&change);
                            let facts = super::record::who(&caller, None);
                            self.event("settings", Some(camera), Some(caller.id.to_string()), what, facts);
                            self.settings.push(Setting { camera: i, reply });
                        }
                        Err(e) => reply.answer(Err(e)),
                    },
                }
                None
            }
            Command::Recover { device, reply } => {
                self.recover(&device, reply, &caller.id, now);
                None
            }
            Command::TookOver { from, under_way, reply } => {
                self.tell(reply, now, |w| {
                    w.took_over(from, &under_way);
                    Ok(())
                });
                None
            }
            Command::Shutdown { reply } => {
                self.begin_shutdown(reply, now);
                None
            }
            Command::Person(order) => {
                self.person(order, &caller, now);
                None
            }
        }
    }

    pub(super) fn is_setting(&self, uses: &[Name]) -> bool {
        self.settings.iter().any(|s| uses.contains(&self.rig.cameras[s.camera].id))
    }

    fn run(
        &mut self,
        job: JobId,
        plan: Box<dyn crate::plans::Plan>,
        origin: Option<Box<crate::model::Origin>>,
        mut reply: Slot<crate::model::Report>,
        caller: crate::model::Caller,
        now: Time,
    ) {
        let event = self.intent(job, &*plan, &caller, origin.as_deref());
        match self.journal.append(event) {
            Some(intent) => self.jobs.push(Job::new(job, plan, caller, origin, reply, intent, now)),
            None => {
                let why = self.journal.failing().map_or(String::new(), |w| format!(" {w}"));
                let what = format!("The audit log takes no lines, and nothing moves without it.{why}");
                reply.answer(Err(RigError::new(Code::StorageFailed, what)));
            }
        }
    }

    fn recover(&mut self, device: &Name, mut reply: Slot<()>, caller: &Name, now: Time) {
        self.event(
            "clear_fault",
            Some(device.clone()),
            Some(caller.to_string()),
            "Asked to clear.".into(),
            BTreeMap::new(),
        );
        if let Some(i) = self.rig.stages.iter().position(|s| s.id == *device) {
            match self.stages[i].recover(now) {
                Ok(true) => reply.answer(Ok(())),
                Ok(false) => self.recoveries.push(Recovery { stage: i, until: now + RECOVERY, reply }),
                Err(e) => reply.answer(Err(e)),
            }
        } else if let Some(i) = self.rig.cameras.iter().position(|c| c.id == *device) {
            reply.answer(self.cameras[i].recover());
        } else if let Some(i) = self.rig.outputs.iter().position(|o| o.id == *device) {
            reply.answer(self.outputs[i].recover(now));
        } else {
            reply.answer(Err(RigError::new(Code::NotFound, format!("This rig has no device {device}."))));
        }
    }

    fn begin_shutdown(&mut self, reply: Slot<()>, now: Time) {
        let why = RigError::new(Code::ShuttingDown, "The server is shutting down.").moved(Moved::Unknown);
        self.end_allowance("the program ends");
        self.with_jobs(now, |job, bench| job.end(why.clone(), bench));
        for stage in &mut self.stages {
            stage.abandon(why.clone(), now);
            stage.poll(now);
        }
        self.outputs.iter_mut().for_each(|o| o.stop(None, now));
        self.closing = Some((now, reply));
    }

    pub(super) fn drop_order(&mut self, order: Envelope, why: &RigError) {
        match order.command {
            Command::Run { mut reply, plan, origin, .. } => {
                let mut facts = super::record::who(&order.caller, origin.as_deref());
                facts.extend([("code", why.code.text().into()), ("moved", why.moved.to_string().into())]);
                let caller = order.caller.id.to_string();
                self.event("dropped", None, Some(caller), format!("{}: {}", plan.title(), why.what), facts);
                reply.answer(Err(why.clone()));
            }
            Command::Set { mut reply, .. } => reply.answer(Err(why.clone())),
            Command::Person(order) => order.refuse(why.clone()),
            Command::Cancel { mut reply, .. }
            | Command::Recover { mut reply, .. }
            | Command::TookOver { mut reply, .. }
            | Command::Shutdown { mut reply } => {
                reply.answer(Err(why.clone()));
            }
        }
    }

    // ---- telling ------------------------------------------------------------------------------------------

    pub(super) fn event(
        &mut self,
        kind: &'static str,
        device: Option<Name>,
        caller: Option<String>,
        what: String,
        facts: BTreeMap<&'static str, serde_json::Value>,
    ) {
        self.tell_log(Event { kind, device, caller, what, facts });
    }

    fn tell_log(&mut self, event: Event) {
        // What can't be logged here is no reason to stop; the intent of the next motion is.
        let _ = self.journal.append(event);
    }

    fn notes(&mut self) {
        let mut all = Vec::new();
        for s in &mut self.stages {
            all.extend(s.notes.drain(..).map(|(kind, what)| (kind, s.status.stage.clone(), what)));
        }
        for c in &mut self.cameras {
            all.extend(c.notes.drain(..).map(|(kind, what)| (kind, c.status.camera.clone(), what)));
        }
        for o in &mut self.outputs {
            all.extend(o.notes.drain(..).map(|(kind, what)| (kind, o.status.output.clone(), what)));
        }
        for s in &mut self.sensors {
            all.extend(s.notes.drain(..).map(|(kind, what)| (kind, s.status.sensor.clone(), what)));
        }
        for stage in &mut self.stages {
            if let Some(record) = stage.take_record() {
                self.shared.standstills.keep(&stage.status.stage, record);
            }
        }
        for (kind, device, what) in all {
            tracing::info!(%device, kind, "{what}");
            self.event(kind, Some(device), None, what, BTreeMap::new());
        }
        let asked: Vec<Event> = self.jobs.iter_mut().flat_map(|j| j.events.drain(..)).collect();
        for event in asked {
            tracing::info!(kind = event.kind, "{}", event.what);
            let _ = self.journal.append(event);
        }
    }

    pub(super) fn publish(&mut self, now: Time) {
        let running = self.jobs.iter().map(|j| {
            Arc::new(JobStatus {
                id: j.id,
                title: j.title.clone(),
                caller: j.caller.clone(),
                started: j.started,
                state: JobState::Running,
                doing: j.doing.clone(),
                orphan: j.orphan,
                waits_for: j.waits_for.clone(),
                approval: j.approval.clone(),
            })
        });
        let fresh = Snapshot {
            at: now,
            stages: self.stages.iter().map(|s| s.status.clone()).collect(),
            cameras: self.cameras.iter().map(|c| c.status.clone()).collect(),
            outputs: self.outputs.iter().map(|o| o.status.clone()).collect(),
            sensors: self.sensors.iter().map(|s| s.status.clone()).collect(),
            jobs: self.ended.iter().cloned().chain(running).collect(),
            queued: self.waiting.len(),
            person_stop: self.person_stop_words(),
            recent_moves: self.panel.recent_moves(now),
            travelled: self.panel.travelled(now),
            dose: self.panel.dose(now),
            tripped: self.tripped.clone(),
            allowance: self.panel.allowance().cloned().map(Arc::new),
        };
        self.publish.send_if_modified(|old| {
            let same_jobs = old.jobs.len() == fresh.jobs.len()
                && old.jobs.iter().zip(&fresh.jobs).all(|(a, b)| {
                    // An ended job never changes; a running one shows in its step.
                    let same_step = a.doing == b.doing
                        && a.waits_for == b.waits_for
                        && a.orphan == b.orphan
                        && a.approval == b.approval;
                    Arc::ptr_eq(a, b) || (a.id == b.id && a.state == b.state && same_step)
                });
            let same = same_jobs
                && old.stages == fresh.stages
                && old.cameras == fresh.cameras
                && old.outputs == fresh.outputs
                && old.sensors == fresh.sensors
                && old.queued == fresh.queued
                && old.person_stop == fresh.person_stop
                && old.recent_moves == fresh.recent_moves
                && old.travelled == fresh.travelled
                && old.dose == fresh.dose
                && old.tripped == fresh.tripped
                && old.allowance == fresh.allowance;
            if !same {
                *old = Arc::new(fresh);
            }
            !same
        });
    }
}
