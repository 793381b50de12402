//! What waits for a person's yes, and what a person has allowed beforehand: asked by a job, answered by an order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::job::{AUDIT, Bench, Flow, Job, Stand, unwritten};
use super::journal::Entry;
use super::message::{Decision, Slot};
use super::worker::Worker;
use crate::interlocks::{Held, Order, Permit};
use crate::model::{Allowance, Allowed, Approval, Ask, Caller, Code, Event, JobId, Kind, Name, RigError, StopBy, Time};
use crate::plans::Step;
use crate::store::Written;

/// The longest that an allowance may last.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Letters and digits of an approval's name that can't be taken for each other.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";

/// A step that waits for a person.
pub(super) struct Asked {
    pub(super) approval: Arc<Approval>,
    step: Step,
    /// The yes is on its way to the audit log, since then.
    granted: Option<(Time, Entry)>,
}

/// An allowance that waits for its line in the audit log.
pub(super) struct Allowing {
    allowance: Allowance,
    since: Time,
    entry: Entry,
    reply: Slot<Allowance>,
}

/// The step as the interlocks see it; standing still is none of theirs.
fn order(step: &Step) -> Option<Order<'_>> {
    match step {
        Step::Move(m) => Some(Order::Move(m)),
        Step::Home(h) => Some(Order::Home(h)),
        Step::Shoot(s) => Some(Order::Shot(s)),
        Step::Set(s) => Some(Order::Set(s)),
        Step::Settle(_) => None,
    }
}

impl Job {
    /// Whether all that is asked before a step is answered; `None`: a person is asked now, and it waits.
    pub(super) fn permitted(&mut self, step: &Step, bench: &mut Bench<'_>) -> Result<Option<Permit>, RigError> {
        let Some(order) = order(step) else { return Ok(None) };
        let state = bench.state();
        let left = |b: &Bench<'_>| b.panel.allowance().map(|a| a.left);
        let before = left(bench);
        match bench.panel.permit(self.id, order, &state, bench.now) {
            Ok(permit) => {
                if before != left(bench) {
                    let words = bench.panel.rules().words(order, &state);
                    let facts = [("job", self.id.to_string().into())].into();
                    self.note(
                        "allowed",
                        order.stage().cloned(),
                        format!("The running allowance answers for: {words}."),
                        facts,
                    );
                }
                Ok(Some(permit))
            }
            Err(Held::Refused(e)) => Err(e),
            Err(Held::Asks(asks)) => {
                self.ask_person(step.clone(), asks, bench);
                Ok(None)
            }
        }
    }

    fn ask_person(&mut self, step: Step, asks: Vec<Ask>, bench: &Bench<'_>) {
        let Some(order) = order(&step) else { return };
        let state = bench.state();
        let rules = bench.panel.rules();
        let digest = rules.digest(order, &state);
        let stage = order.stage().cloned();
        let epoch = stage.as_ref().and_then(|s| state.stage(s.as_str())).map(|s| s.epoch);
        let approval = Approval {
            id: name_of(digest.0, self.id, bench),
            job: self.id,
            caller: self.caller.clone(),
            what: rules.words(order, &state),
            stage,
            epoch,
            digest,
            asks,
            moved: self.moved,
            asked_at: bench.now,
            until: bench.now + bench.rig.approvals.wait,
        };
        let rules: Vec<&str> = approval.asks.iter().map(|a| a.rule.as_str()).collect();
        let what = format!("A person is asked to approve: {} ({}).", approval.what, rules.join(", "));
        self.note("approval_asked", approval.stage.clone(), what, facts(&approval));
        let approval = Arc::new(approval);
        self.waits_for = Some(format!("approve: {}", approval.what));
        self.approval = Some(approval.clone());
        self.doing = "waiting for a person".into();
        self.stand = Stand::Asked(Box::new(Asked { approval, step, granted: None }));
    }

    /// Waits for the person, and goes on to be judged again.
    pub(super) fn asked(&mut self, asked: Box<Asked>, bench: &mut Bench<'_>) -> Result<Flow, RigError> {
        let approval = &asked.approval;
        let fail = |code, what: String| {
            let error = RigError::new(code, what);
            Err(match &approval.stage {
                Some(stage) => error.on(stage),
                None => error,
            })
        };
        let now_at = approval.stage.as_ref().and_then(|s| bench.stages.iter().find(|u| u.status.stage == *s));
        if now_at.map(|u| u.status.epoch) != approval.epoch {
            let what = "The stage has moved or changed since a person was asked; an approval wouldn't count any more.";
            return fail(Code::ApprovalStale, what.into());
        }
        match &asked.granted {
            Some((since, entry)) => match entry.written() {
                Written::Yes => {}
                Written::Pending if bench.now.since(*since) < AUDIT => return self.wait(Stand::Asked(asked)),
                Written::Pending | Written::Failed => return Err(unwritten()),
            },
            None if bench.now >= approval.until => {
                let waited = crate::units::plain(bench.now.since(approval.asked_at).as_secs_f64().round());
                return fail(
                    Code::ApprovalExpired,
                    format!("Nobody approved it within {waited} s: {}.", approval.what),
                );
            }
            None => {
                let state = bench.state();
                let allowed = order(&asked.step).is_some_and(|o| bench.panel.would_allow(o, &state, bench.now));
                if !allowed {
                    return self.wait(Stand::Asked(asked));
                }
            }
        }
        self.waits_for = None;
        self.approval = None;
        self.doing = asked.step.words();
        self.begin(asked.step, bench)
    }

    /// The approval that it waits for, as long as nobody has decided.
    fn undecided(&self) -> Option<&Arc<Approval>> {
        match &self.stand {
            Stand::Asked(asked) if asked.granted.is_none() && !self.is_ending() => Some(&asked.approval),
            _ => None,
        }
    }

    fn note(
        &mut self,
        kind: &'static str,
        device: Option<Name>,
        what: String,
        facts: BTreeMap<&'static str, serde_json::Value>,
    ) {
        self.events.push(Event { kind, device, caller: Some(self.caller.id.to_string()), what, facts });
    }
}

/// What binds a decision, for the log.
fn facts(approval: &Approval) -> BTreeMap<&'static str, serde_json::Value> {
    let mut facts: BTreeMap<&'static str, serde_json::Value> = [
        ("approval", approval.id.to_string().into()),
        ("job", approval.job.to_string().into()),
        ("command_sha256", approval.digest.to_string().into()),
    ]
    .into();
    if let Some(epoch) = approval.epoch {
        facts.insert("state_epoch", epoch.0.into());
    }
    facts
}

/// A name that is short enough to be typed. The stages' epochs, which come from the wall clock, keep it from coming
/// again after a restart.
fn name_of(digest: [u8; 32], job: JobId, bench: &Bench<'_>) -> Name {
    let mut hash = Sha256::new();
    hash.update(digest);
    hash.update(job.0.to_be_bytes());
    hash.update(bench.now.0.as_nanos().to_be_bytes());
    for stage in bench.stages.iter() {
        hash.update(stage.status.epoch.0.to_be_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    let letters = bytes.iter().take(6).map(|b| char::from(LETTERS[usize::from(*b) % LETTERS.len()]));
    Name::new(&letters.collect::<String>())
}

impl Worker {
    /// A person, or a client's user where the rig file lets that count, says yes or no.
    pub(super) fn decide(
        &mut self,
        id: &Name,
        decision: &Decision,
        caller: &Caller,
        now: Time,
    ) -> Result<Arc<Approval>, RigError> {
        let found = self.jobs.iter().position(|j| j.undecided().is_some_and(|a| a.id == *id));
        let approval = found.and_then(|i| self.jobs[i].undecided().cloned());
        let (Some(index), Some(approval)) = (found, approval) else {
            let waiting: Vec<&str> = self.jobs.iter().filter_map(|j| Some(j.undecided()?.id.as_str())).collect();
            let waiting =
                if waiting.is_empty() { "Nothing waits".into() } else { format!("What waits: {}", waiting.join(", ")) };
            return Err(RigError::new(Code::NotFound, format!("No approval {id} is waiting. {waiting}.")));
        };
        if decision.elicited && approval.caller.id != caller.id {
            let what = "A client answers for its own commands alone.";
            return Err(RigError::new(Code::NotPermitted, what));
        }
        let mut facts = facts(&approval);
        facts.insert("by", decision.by.clone().into());
        facts.insert("way", if decision.elicited { "elicitation" } else { "local socket" }.into());
        if let Some(reason) = &decision.reason {
            facts.insert("reason", reason.clone().into());
        }
        let (kind, word) = if decision.yes { ("approval_granted", "approved") } else { ("approval_denied", "denied") };
        let event = Event {
            kind,
            device: approval.stage.clone(),
            caller: Some(caller.id.to_string()),
            what: format!("{} {word}: {}.", decision.by, approval.what),
            facts,
        };
        let entry = self.journal.append(event);
        if !decision.yes {
            let reason = decision.reason.as_ref().map_or(String::new(), |r| format!(", who says: {r:?}"));
            let what = format!("It was denied by {}{reason}: {}.", decision.by, approval.what);
            let why = RigError::new(Code::ApprovalDenied, what);
            let why = match &approval.stage {
                Some(stage) => why.on(stage),
                None => why,
            };
            let job = approval.job;
            self.with_jobs(now, |j, bench| {
                if j.id == job {
                    j.end(why.clone(), bench);
                }
            });
            return Ok(approval);
        }
        let entry = entry.ok_or_else(unwritten)?;
        self.panel.grant(&approval, now);
        let job = &mut self.jobs[index];
        if let Stand::Asked(asked) = &mut job.stand {
            asked.granted = Some((now, entry));
        }
        // Whoever looks now sees that nobody is waited for any more.
        (job.waits_for, job.approval) = (None, None);
        Ok(approval)
    }

    /// A person allows something beforehand, once its line is written.
    pub(super) fn allow(
        &mut self,
        allowed: Allowed,
        by: String,
        mut reply: Slot<Allowance>,
        caller: &Caller,
        now: Time,
    ) {
        if let Err(why) = self.may_allow(&allowed) {
            return reply.answer(Err(why));
        }
        let allowance = Allowance { until: now + allowed.lasts, left: allowed.steps, by, allowed };
        let event = Event {
            kind: "allowance",
            device: allowance.allowed.stage.clone(),
            caller: Some(caller.id.to_string()),
            what: format!("{} allows beforehand: {}.", allowance.by, self.rig.show_allowance(&allowance)),
            facts: BTreeMap::new(),
        };
        match self.journal.append(event) {
            Some(entry) => self.allowing.push(Allowing { allowance, since: now, entry, reply }),
            None => reply.answer(Err(unwritten())),
        }
    }

    fn may_allow(&self, allowed: &Allowed) -> Result<(), RigError> {
        let wrong = |what: String| Err(RigError::new(Code::InvalidArgument, what));
        if allowed.steps == 0 || allowed.lasts.is_zero() || allowed.lasts > LONGEST {
            return wrong("An allowance is for at least one command, and for at most 24 h.".into());
        }
        if allowed.kinds.is_empty() || (allowed.kinds.contains(&Kind::Move) && allowed.bounds.is_empty()) {
            return wrong("Moves are allowed inside a box: name the axes and from where to where they may be.".into());
        }
        if allowed.kinds.contains(&Kind::Home) && allowed.bounds.is_empty() && allowed.stage.is_none() {
            return wrong("Name the stage that may be homed.".into());
        }
        if let Some(stage) = allowed.stage.as_ref().filter(|s| self.rig.stage(s.as_str()).is_none()) {
            return Err(RigError::new(Code::NotFound, format!("This rig has no stage {stage}.")));
        }
        if let Some((id, _)) = allowed.bounds.iter().find(|(id, _)| self.rig.axis(id).is_none()) {
            return Err(RigError::new(Code::NotFound, format!("This rig has no axis {id}.")));
        }
        let pending = self.shared.stops.pending() != 0;
        if pending || self.stages.iter().any(|s| s.status.stopped_by.is_some()) {
            let what = "A stop is in force, and a stop ends every allowance: release it first.";
            return Err(RigError::new(Code::Stopped, what));
        }
        Ok(())
    }

    /// Carries out what was allowed and is on record.
    pub(super) fn allowances(&mut self, now: Time) {
        for mut a in std::mem::take(&mut self.allowing) {
            match a.entry.written() {
                Written::Yes => self.tell(a.reply, now, |w| {
                    w.may_allow(&a.allowance.allowed)?;
                    w.end_allowance("another one took its place");
                    w.allowance_faults = w.faulted();
                    w.panel.allow(a.allowance.clone());
                    Ok(a.allowance)
                }),
                Written::Pending if now.since(a.since) < AUDIT => self.allowing.push(a),
                Written::Pending | Written::Failed => a.reply.answer(Err(unwritten())),
            }
        }
    }

    /// Ends the allowance that runs, if one does.
    pub(super) fn end_allowance(&mut self, why: &str) -> Option<Allowance> {
        let ended = self.panel.end_allowance()?;
        let what = format!("The allowance of {} ends: {why}. It was good for {} more.", ended.by, commands(ended.left));
        self.event("allowance_ended", ended.allowed.stage.clone(), None, what, BTreeMap::new());
        Some(ended)
    }

    /// Ends the allowance when its time or its commands are used up, and when a device has become faulty.
    pub(super) fn lapse(&mut self, now: Time) {
        let Some(allowance) = self.panel.allowance() else { return };
        let (over, empty) = (now >= allowance.until, allowance.left == 0);
        let faulted = self.faulted();
        let new = faulted.iter().find(|d| !self.allowance_faults.contains(d)).cloned();
        // What was faulty already when it was given, and recovers, counts from then on.
        self.allowance_faults.retain(|d| faulted.contains(d));
        if let Some(device) = new {
            self.end_allowance(&format!("{device} has a fault"));
        } else if over {
            self.end_allowance("its time is over");
        } else if empty {
            self.end_allowance("its commands are used up");
        }
    }

    fn faulted(&self) -> Vec<Name> {
        let stages = self.stages.iter().filter(|s| s.status.fault.is_some()).map(|s| s.status.stage.clone());
        let cameras = self.cameras.iter().filter(|c| c.status.fault.is_some()).map(|c| c.status.camera.clone());
        let outputs = self.outputs.iter().filter(|o| o.status.fault.is_some()).map(|o| o.status.output.clone());
        let sensors = self.sensors.iter().filter(|s| s.status.fault.is_some()).map(|s| s.status.sensor.clone());
        stages.chain(cameras).chain(outputs).chain(sensors).collect()
    }

    /// Why a command for these devices can't even wait: they are kept by one that waits for a person, which takes longer
    /// than any queue is patient.
    pub(super) fn kept_for_a_person(&self, devices: &[Name]) -> Option<RigError> {
        let job = self.jobs.iter().find(|j| j.undecided().is_some() && j.uses.iter().any(|d| devices.contains(d)))?;
        let approval = job.undecided()?;
        let device = job.uses.iter().find(|d| devices.contains(d))?;
        let what = format!(
            "{device} is kept by {}, which waits for a person to approve ({}): {}. cancel_job ends that.",
            job.id, approval.id, approval.what
        );
        Some(RigError::new(Code::Busy, what).on(device))
    }

    /// A stop ends what was allowed. A yes to what is stopped ends with its job.
    pub(super) fn stop_ends_approvals(&mut self, by: StopBy) {
        let who = match by {
            StopBy::Model => "a stop call",
            StopBy::Person => "a person's stop",
            StopBy::Program => "a stop by the program",
        };
        self.end_allowance(who);
        for mut a in std::mem::take(&mut self.allowing) {
            a.reply.answer(Err(RigError::new(Code::Stopped, "A stop came before it.")));
        }
    }
}

/// `1 command`, `12 commands`.
fn commands(n: u32) -> String {
    if n == 1 { "1 command".into() } else { format!("{n} commands") }
}
