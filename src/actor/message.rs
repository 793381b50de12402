//! What goes over the channel to the rig thread, and how answers come back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::primitives::AtomicU8;
use crate::model::{
    Allowance, Allowed, Approval, AxisId, AxisReading, Caller, CameraChange, CameraSettings, Code, JobId, Name, Origin,
    Report, RigError, Time,
};
use crate::plans::Plan;
use crate::units::Position;

/// An order with all that it is judged by when its turn comes.
pub(crate) struct Envelope {
    /// After this it is dropped unseen.
    pub(crate) deadline: Time,
    /// Who gives it.
    pub(crate) caller: Caller,
    /// The order.
    pub(crate) command: Command,
}

/// The orders. Each carries its own reply slot.
pub(crate) enum Command {
    /// Run a plan; every motion and every shot is one.
    Run { job: JobId, plan: Box<dyn Plan>, origin: Option<Box<Origin>>, reply: Slot<Report> },
    /// End a job, stopping what it moves.
    Cancel { job: JobId, reply: Slot<()> },
    /// Change a camera's settings.
    Set { camera: Name, change: CameraChange, reply: Slot<CameraSettings> },
    /// Acknowledge a fault, an alarm or a stop of a device, once its cause is gone.
    Recover { device: Name, reply: Slot<()> },
    /// The owner before, a process with this number, has ended, and this one took over; what was under way then, by stage.
    TookOver { from: u32, under_way: Vec<(Name, String)>, reply: Slot<()> },
    /// Make everything safe and end the thread.
    Shutdown { reply: Slot<()> },
    /// What only a person may do.
    Person(PersonOrder),
}

/// The orders that only a person may give.
pub(crate) enum PersonOrder {
    /// Declares where an axis stands; answered with what it reads from then on.
    Reference { axis: AxisId, position: Position, reply: Slot<AxisReading> },
    /// Releases a person's stop of a stage, or of all; answered with what was released.
    Resume { stage: Option<Name>, reply: Slot<Vec<Name>> },
    /// Lends a device's port to another program; answered with all devices on that port.
    Release { device: Name, reply: Slot<Vec<Name>> },
    /// Takes it back.
    Reclaim { device: Name, reply: Slot<Vec<Name>> },
    /// Has done by hand what a job waits for, or refuses to.
    Confirm { job: JobId, done: bool, by: String, reply: Slot<()> },
    /// Says yes or no to what a job waits for; answered with what that was.
    Decide { approval: Name, decision: Decision, reply: Slot<Arc<Approval>> },
    /// Allows something beforehand.
    Allow { allowed: Allowed, by: String, reply: Slot<Allowance> },
    /// Ends what was allowed; answered with it, if there was any.
    EndAllowance { by: String, reply: Slot<Option<Allowance>> },
}

/// What somebody says to an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Yes or no.
    pub yes: bool,
    /// Who says so, for the log.
    pub by: String,
    /// Why, if a reason was given.
    pub reason: Option<String>,
    /// It came as a client's answer to an elicitation. It counts only where the rig file says so, and only for what
    /// that client itself asked.
    pub elicited: bool,
}

impl PersonOrder {
    /// The command with which a person gives it.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            PersonOrder::Reference { .. } => "reference",
            PersonOrder::Resume { .. } => "resume",
            PersonOrder::Release { .. } => "release",
            PersonOrder::Reclaim { .. } => "reclaim",
            PersonOrder::Confirm { .. } => "confirm",
            PersonOrder::Decide { .. } => "approve",
            PersonOrder::Allow { .. } | PersonOrder::EndAllowance { .. } => "allow",
        }
    }

    /// Answers it with an error.
    pub(crate) fn refuse(self, why: RigError) {
        match self {
            PersonOrder::Reference { mut reply, .. } => reply.answer(Err(why)),
            PersonOrder::Confirm { mut reply, .. } => reply.answer(Err(why)),
            PersonOrder::Decide { mut reply, .. } => reply.answer(Err(why)),
            PersonOrder::Allow { mut reply, .. } => reply.answer(Err(why)),
            PersonOrder::EndAllowance { mut reply, .. } => reply.answer(Err(why)),
            PersonOrder::Resume { mut reply, .. }
            | PersonOrder::Release { mut reply, .. }
            | PersonOrder::Reclaim { mut reply, .. } => reply.answer(Err(why)),
        }
    }
}

/// Whether somebody still waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Yes.
    Yes,
    /// No, and it is well so: the caller was given a job number.
    Detached,
    /// No: the caller is lost.
    Lost,
}

/// The rig thread's end of an answer.
pub(crate) struct Slot<T> {
    answer: Option<oneshot::Sender<Result<T, RigError>>>,
    state: Arc<AtomicU8>,
}

const WAITING: u8 = 0;
const DETACHED: u8 = 1;
const LOST: u8 = 2;

impl<T> Slot<T> {
    /// Whether somebody waits.
    pub(crate) fn waiting(&self) -> Waiting {
        match self.state.load(Ordering::Acquire) {
            WAITING => Waiting::Yes,
            DETACHED => Waiting::Detached,
            _ => Waiting::Lost,
        }
    }

    /// Answers, once. A caller that is gone doesn't hear it.
    pub(crate) fn answer(&mut self, result: Result<T, RigError>) {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(result);
        }
    }
}

impl<T> Drop for Slot<T> {
    /// Every order is answered: one that was dropped on the way says so.
    fn drop(&mut self) {
        self.answer(Err(RigError::new(Code::ShuttingDown, "The rig thread ended before it came to this.")));
    }
}

/// The caller's end of an answer. Dropping it unanswered means that the caller is lost: what it began stops.
#[must_use = "dropping a ticket stops what it began"]
pub struct Ticket<T> {
    answer: oneshot::Receiver<Result<T, RigError>>,
    state: Arc<AtomicU8>,
    wake: super::sync::Wake,
    job: Option<JobId>,
    answered: bool,
}

impl<T> Ticket<T> {
    /// Waits for the answer. Cancel-safe: may be called again after it was abandoned.
    pub async fn wait(&mut self) -> Result<T, RigError> {
        let answer = (&mut self.answer).await;
        self.answered = true;
        answer.unwrap_or_else(|_| Err(RigError::new(Code::Internal, "The rig thread is gone.")))
    }

    /// The number of the job, for orders that are one.
    pub fn job(&self) -> Option<JobId> {
        self.job
    }

    /// Lets the job go on without anybody waiting; its outcome stays in the job list.
    pub fn detach(mut self) {
        self.release();
    }

    /// The same for one who goes on listening: from now on dropping the ticket stops nothing.
    pub fn release(&mut self) {
        let _ = self.state.compare_exchange(WAITING, DETACHED, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if !self.answered && self.state.compare_exchange(WAITING, LOST, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.wake.wake();
        }
    }
}

/// The two ends of one answer.
pub(crate) fn reply<T>(wake: super::sync::Wake, job: Option<JobId>) -> (Slot<T>, Ticket<T>) {
    let (send, receive) = oneshot::channel();
    let state = Arc::new(AtomicU8::new(WAITING));
    (Slot { answer: Some(send), state: state.clone() }, Ticket { answer: receive, state, wake, job, answered: false })
}
