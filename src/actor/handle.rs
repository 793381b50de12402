//! What the rest of the program holds of the rig thread: orders in, snapshots out, stops past everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::message::{Command, Decision, Envelope, PersonOrder, Slot, Ticket, reply};
use super::sync::{NotSent, Outbox, Shared, Wake};
use crate::config::Rig;
use crate::interlocks::Rules;
use crate::model::{
    Activity, Allowance, Allowed, Approval, AxisId, AxisReading, Caller, CameraChange, CameraSettings, Code, JobId,
    JobState, JobStatus, Name, Origin, Report, RigError, Snapshot, StopBy, Time,
};
use crate::plans::Plan;
use crate::store::{PersonStop, Standstills};
use crate::units::Position;

/// The program's clock. The only place that reads the system's.
#[derive(Debug, Clone)]
pub enum Clock {
    /// Time since that moment.
    Real(Instant),
    /// Nanoseconds that a test hands out.
    Virtual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's clock, zero now.
    pub fn start() -> Clock {
        Clock::Real(Instant::now())
    }

    /// The time since the clock's zero.
    pub fn now(&self) -> Time {
        Time(match self {
            Clock::Real(start) => start.elapsed(),
            Clock::Virtual(ns) => Duration::from_nanos(ns.load(Ordering::Acquire)),
        })
    }
}

/// What a command is told for which there is no room.
pub(super) fn too_many() -> RigError {
    RigError::new(Code::Busy, "Too many commands are waiting for the rig.")
}

/// A handle on the rig thread. Clones share it. Nothing here waits, but for the tickets' answers.
#[derive(Clone)]
pub struct RigHandle {
    pub(crate) orders: Outbox<Envelope>,
    pub(crate) wake: Wake,
    pub(crate) shared: Arc<Shared>,
    pub(crate) published: watch::Receiver<Arc<Snapshot>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) clock: Clock,
}

impl RigHandle {
    /// Makes the rig thread look at once: for those who finish something that it waits for.
    pub fn waker(&self) -> impl Fn() + Send + use<> {
        let wake = self.wake.clone();
        move || wake.wake()
    }

    /// The newest published state. Never touches the wire.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.borrow().clone()
    }

    /// A way to wait for the next published state.
    pub fn changes(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.published.clone()
    }

    /// The time on the rig thread's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The rig.
    pub fn rig(&self) -> &Arc<Rig> {
        self.rules.rig()
    }

    /// The interlocks, for previews: they judge, and can't clear.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    fn send<T>(
        &self,
        caller: &Caller,
        job: Option<JobId>,
        command: impl FnOnce(Slot<T>) -> Command,
    ) -> Result<Ticket<T>, RigError> {
        let (slot, ticket) = reply(self.wake.clone(), job);
        let deadline = self.now() + self.rig().calls.queue_deadline;
        let sent = self.orders.send(Envelope { deadline, caller: caller.clone(), command: command(slot) });
        match sent {
            Ok(()) => {
                self.wake.wake();
                Ok(ticket)
            }
            Err(NotSent::Full) => Err(too_many()),
            Err(NotSent::Gone) => Err(RigError::new(Code::ShuttingDown, "The rig thread has ended.")),
        }
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// `busy` when the queue is full, `shutting_down` when the rig thread is gone; nothing was begun. The
    /// ticket answers with the report, or the error that ended the plan.
    pub fn run(&self, caller: &Caller, plan: Box<dyn Plan>) -> Result<Ticket<Report>, RigError> {
        self.begin(caller, None, plan)
    }

    /// The same for a call of a tool, which the audit log then names.
    ///
    /// # Errors
    /// As [`RigHandle::run`].
    pub fn run_call(&self, caller: &Caller, origin: Origin, plan: Box<dyn Plan>) -> Result<Ticket<Report>, RigError> {
        self.begin(caller, Some(Box::new(origin)), plan)
    }

    fn begin(
        &self,
        caller: &Caller,
        origin: Option<Box<Origin>>,
        plan: Box<dyn Plan>,
    ) -> Result<Ticket<Report>, RigError> {
        let job = JobId(self.shared.jobs.fetch_add(1, Ordering::Relaxed) + 1);
        self.send(caller, Some(job), |reply| Command::Run { job, plan, origin, reply })
    }

    /// Ends a job and stops what it moves; answered once that stands still.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_found` when no such job runs.
    pub fn cancel(&self, caller: &Caller, job: JobId) -> Result<Ticket<()>, RigError> {
        self.send(caller, None, |reply| Command::Cancel { job, reply })
    }

    /// Changes a camera's settings; answers with what was really set.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers what the camera said against it.
    pub fn set_camera(
        &self,
        caller: &Caller,
        camera: &Name,
        change: CameraChange,
    ) -> Result<Ticket<CameraSettings>, RigError> {
        let camera = camera.clone();
        self.send(caller, None, |reply| Command::Set { camera, change, reply })
    }

    /// Acknowledges a device's fault, alarm or stop; answered once it is clear.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers why it can't be cleared (a person's stop never can here).
    pub fn recover(&self, caller: &Caller, device: &Name) -> Result<Ticket<()>, RigError> {
        let device = device.clone();
        self.send(caller, None, |reply| Command::Recover { device, reply })
    }

    /// A person, whose name is `by`, has done what the job waits for, or refuses to. The job then goes on, or ends
    /// with `refused_by_person`. Which jobs wait, the snapshot tells: [`crate::model::JobStatus::waits_for`].
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person, `not_found` when that job
    /// waits for nobody.
    pub fn confirm(&self, caller: &Caller, job: JobId, done: bool, by: &str) -> Result<Ticket<()>, RigError> {
        let by = by.to_owned();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Confirm { job, done, by, reply }))
    }

    /// Says yes or no to what a job waits for, by the approval's name. On a yes the job goes on after it was judged
    /// again, on a no it ends with `approval_denied`. Which wait, the snapshot tells:
    /// [`crate::model::Snapshot::approvals`].
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person, `not_found` when nothing
    /// of that name waits, `storage_failed` when the decision can't be put on record.
    pub fn decide(
        &self,
        caller: &Caller,
        approval: &Name,
        decision: Decision,
    ) -> Result<Ticket<Arc<Approval>>, RigError> {
        let approval = approval.clone();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Decide { approval, decision, reply }))
    }

    /// Allows beforehand what an unattended run needs; `by` is the person's name. It replaces what was allowed before,
    /// and ends at any stop, at a fault, when its time or its commands are used up, and with the program.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person, `invalid_argument` for
    /// what this rig doesn't have, `stopped` while a stop stands, `storage_failed` when it can't be put on record.
    pub fn allow(&self, caller: &Caller, allowed: Allowed, by: &str) -> Result<Ticket<Allowance>, RigError> {
        let by = by.to_owned();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Allow { allowed, by, reply }))
    }

    /// Ends what was allowed beforehand. Answered with what ran, if something did.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person.
    pub fn end_allowance(&self, caller: &Caller, by: &str) -> Result<Ticket<Option<Allowance>>, RigError> {
        let by = by.to_owned();
        self.send(caller, None, |reply| Command::Person(PersonOrder::EndAllowance { by, reply }))
    }

    /// Stops one stage, or all, past every queue. A stop of all makes the outputs safe, too, whose `on_stop` says
    /// so; one of a stage leaves them as they are. Returns once the order stands; it can't fail. Standstill is told
    /// by the snapshot. A person's stop goes on record, which doesn't wait for the disk:
    /// [`RigHandle::person_stop`] tells whether it is there.
    pub fn stop(&self, stage: Option<&Name>, by: StopBy) {
        let known = stage.and_then(|name| self.rig().stages.iter().position(|s| s.id == *name));
        let mask = known.map_or(u64::MAX, |i| 1 << i);
        if by == StopBy::Person {
            // On record first, so that what the rig thread does about this stop comes after it.
            self.shared.stopped.keep(stage.filter(|_| known.is_some()));
        }
        self.shared.stops.ask(mask, by);
        self.wake.wake();
    }

    /// Whether every stop that was asked for has been carried out and published.
    pub fn stops_are_out(&self) -> bool {
        self.shared.stops.pending() == 0
    }

    /// Waits until the stages (all, without a name) stand still, or for so long. `true` if they do.
    pub async fn standstill(&self, stage: Option<&Name>, at_most: Duration) -> bool {
        let mut changes = self.changes();
        let still = |s: &Snapshot| {
            self.stops_are_out()
                && s.stages
                    .iter()
                    .filter(|x| stage.is_none_or(|n| x.stage == *n))
                    .all(|x| !x.activity.is_motion() && x.activity != Activity::Connecting)
        };
        tokio::time::timeout(at_most, async {
            loop {
                if still(&changes.borrow_and_update().clone()) {
                    return true;
                }
                if changes.changed().await.is_err() {
                    return false;
                }
            }
        })
        .await
        .unwrap_or(false)
    }

    /// A client is gone, by the id of its [`Caller`]. What has not begun is dropped; what it still waited for stops. A job of which it has the number
    /// stops too, unless the rig file says `on_client_lost = "continue"` and a person has a way to stop it
    /// ([`RigHandle::person_can_stop`]); then it goes on, and is `orphan` in the snapshot. Needs no room in a queue.
    pub fn client_lost(&self, client: &Name) {
        self.shared.lost.lock().push(client.clone());
        self.wake.wake();
    }

    /// Whether a person has a way to stop that needs no client: the local socket, the page. Jobs whose clients are
    /// gone stop when there is none any more. There is none until it is said.
    pub fn person_can_stop(&self, alive: bool) {
        self.shared.person_way.store(alive, Ordering::Release);
        self.wake.wake();
    }

    /// The jobs that go on although their clients are gone. Clients whose loss was told just now may still have some
    /// that are not among them: [`RigHandle::orphans_end`] waits for both.
    pub fn orphans(&self) -> Vec<JobId> {
        let running = |j: &&Arc<JobStatus>| j.orphan && j.state == JobState::Running;
        self.snapshot().jobs.iter().filter(running).map(|j| j.id).collect()
    }

    /// Comes back when every client's loss is seen to, and no job goes on whose client is gone; or when the rig
    /// thread has ended.
    pub async fn orphans_end(&self) {
        let mut changes = self.changes();
        while !(self.shared.lost.lock().is_empty() && self.orphans().is_empty()) {
            // A loss that changes nothing is published by nobody.
            let changed = tokio::time::timeout(Duration::from_millis(20), changes.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }

    /// The record of a person's stop.
    pub fn person_stop(&self) -> &PersonStop {
        &self.shared.stopped
    }

    /// Where stages were last at rest, on record.
    pub fn standstills(&self) -> &Standstills {
        &self.shared.standstills
    }

    /// Declares where an axis stands: from then on it reads `position`, with trust `assumed`. It holds until the controller
    /// restarts, the axis is homed, or its position is lost in motion. After a pulled cable or a restart of the program it
    /// comes back if the controller still counts what it counted at rest; a count of 0 never agrees. Nothing moves, and nothing is written to the controller.
    /// Answered with what the axis reads then.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person, and why it can't be
    /// declared now: the stage must be connected, at rest, read and without fault.
    pub fn reference(
        &self,
        caller: &Caller,
        axis: &AxisId,
        position: Position,
    ) -> Result<Ticket<AxisReading>, RigError> {
        let axis = axis.clone();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Reference { axis, position, reply }))
    }

    /// Releases a person's stop of one stage, or of all. Answered with the stages that were released, and the outputs
    /// that it had made safe once no stage stands under it; none, when none was stopped by a person.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person, `busy` while a stop is
    /// still being carried out.
    pub fn resume(&self, caller: &Caller, stage: Option<&Name>) -> Result<Ticket<Vec<Name>>, RigError> {
        let stage = stage.cloned();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Resume { stage, reply }))
    }

    /// Lends the port of a device to another program. Answered once it is closed, with all devices that share it.
    ///
    /// # Errors
    /// As [`RigHandle::run`]; the ticket answers `not_permitted` when `caller` is no person, `busy` while one of
    /// these devices moves or is used, `unsupported` for a device without a port.
    pub fn release(&self, caller: &Caller, device: &Name) -> Result<Ticket<Vec<Name>>, RigError> {
        let device = device.clone();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Release { device, reply }))
    }

    /// Takes a lent port back. Answered at once with all devices that share it; they are identified anew, and their
    /// positions are unknown.
    ///
    /// # Errors
    /// As [`RigHandle::release`]; nothing happens to a port that isn't lent.
    pub fn reclaim(&self, caller: &Caller, device: &Name) -> Result<Ticket<Vec<Name>>, RigError> {
        let device = device.clone();
        self.send(caller, None, |reply| Command::Person(PersonOrder::Reclaim { device, reply }))
    }

    /// Whether the rig thread runs.
    pub fn is_alive(&self) -> bool {
        self.published.has_changed().is_ok()
    }

    /// Comes back when the rig thread has ended, however it did.
    pub async fn ended(&self) {
        let mut changes = self.changes();
        while changes.changed().await.is_ok() {}
    }

    /// This process took over from one that has ended: the stop with which it began ends on the stages that were at rest,
    /// and the log says so. `under_way` names what that process had begun and not ended, by stage.
    ///
    /// # Errors
    /// As [`RigHandle::run`].
    pub fn took_over(
        &self,
        caller: &Caller,
        from: u32,
        under_way: Vec<(Name, String)>,
    ) -> Result<Ticket<()>, RigError> {
        self.send(caller, None, |reply| Command::TookOver { from, under_way, reply })
    }

    /// Makes everything safe and ends the rig thread.
    ///
    /// # Errors
    /// As [`RigHandle::run`].
    pub fn shutdown(&self, caller: &Caller) -> Result<Ticket<()>, RigError> {
        self.send(caller, None, |reply| Command::Shutdown { reply })
    }
}
