//! A rig that a command opens for itself: through the real devices and the rig thread, with a person at the terminal.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::person::login;
use super::serve::{at_rest, live, runtime};
use crate::actor::{self, Decision, Entry, Journal, RigHandle, Ticket};
use crate::config::Rig;
use crate::devices;
use crate::gateway::local::{Ownership, Place};
use crate::model::{Activity, Caller, Code, Epoch, Event, Name, Report, RigError, Snapshot, StageStatus, StopBy, Way};
use crate::plans::Plan;
use crate::store::{EventLog, PersonStop, Store};

/// How long devices may take until they are known: a board that boots, a rate that is not answered at.
pub(super) const IDENTIFY: Duration = Duration::from_secs(9);

/// How long the first reading after a release may take.
const SETTLED: Duration = Duration::from_secs(2);

/// An open rig. [`Session::close`] ends it; a session that is dropped instead stops its axes too, and waits for nothing.
pub(super) struct Session {
    runtime: Runtime,
    handle: RigHandle,
    events: Option<Arc<EventLog>>,
    caller: Caller,
    /// Nobody else opens this rig meanwhile.
    _ownership: Option<Ownership>,
}

/// An audit log that takes no line: nothing can move.
struct Closed;

impl Journal for Closed {
    fn append(&mut self, _: Event) -> Option<Entry> {
        None
    }

    fn failing(&self) -> Option<String> {
        Some("this command only looks".into())
    }
}

/// The right to the ports of the rig that this file describes; `None` where there is no such file, which no server can
/// have, or no folder for locks.
///
/// # Errors
/// `busy` when a server has the rig, with its process.
pub(super) fn own(file: Option<&Path>) -> Result<Option<Ownership>, RigError> {
    let Some(place) = file.filter(|f| f.exists()).and_then(|f| Place::of_rig(f).ok()) else {
        return Ok(None);
    };
    match place.try_own() {
        Ok(None) => {
            let who = place.about_owner().map_or_else(|| "a server".to_owned(), |a| format!("process {}", a.pid));
            let what = format!(
                "The rig belongs to {who}, which serves it (steadyhand status shows it). End its clients, and try again."
            );
            Err(RigError::new(Code::Busy, what))
        }
        owned => Ok(owned.ok().flatten()),
    }
}

impl Session {
    /// Opens a rig on which motion is possible; each is written into the rig's audit log first.
    ///
    /// # Errors
    /// `busy` when a server has the rig; else when the data folder can't be used, or the system gives no threads.
    pub(super) fn open(rig: Rig, data_dir: Option<&Path>) -> Result<Session, RigError> {
        let ownership = own(rig.file.as_deref())?;
        let runtime = threads()?;
        let store = Store::open(&rig, data_dir)?;
        let live = {
            let _inside = runtime.enter();
            live(rig, store)?
        };
        runtime.spawn(yes(live.handle.clone()));
        Ok(Session { runtime, handle: live.handle, events: Some(live.events), caller: person(), _ownership: ownership })
    }

    /// Opens a rig to look at: its devices are identified and read, and nothing can move, because its audit log takes no
    /// line. Stages that a person has `stopped` are shown so.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(super) fn look(rig: Rig, stopped: PersonStop) -> Result<Session, RigError> {
        let runtime = threads()?;
        let rig = Arc::new(rig);
        let devices =
            devices::make(&rig, &mut |link| devices::link::connector_by_leave(link, super::alone::leave(&rig, link)))?;
        let (handle, _thread) = actor::spawn(&rig, devices, Box::new(Closed), stopped, Epoch(0))
            .map_err(|e| RigError::new(Code::Internal, format!("The rig thread could not be started: {e}.")))?;
        Ok(Session { runtime, handle, events: None, caller: person(), _ownership: None })
    }

    pub(super) fn handle(&self) -> &RigHandle {
        &self.handle
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The state once every device is known or has said why it can't be, or after so long.
    pub(super) fn identified(&self, at_most: Duration) -> Arc<Snapshot> {
        self.until(at_most, |state| {
            let stages = state.stages.iter().all(|s| s.fault.is_some() || s.read_at.is_some());
            stages
                && state.cameras.iter().all(|c| c.fault.is_some() || c.ready)
                && state.outputs.iter().all(|o| o.fault.is_some() || o.ready)
                && state.sensors.iter().all(|s| s.fault.is_some() || s.ready)
        })
    }

    /// The state once something holds, or after so long.
    pub(super) fn until(&self, at_most: Duration, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let mut changes = self.handle.changes();
        let wait = async {
            // Whether it came or took too long: the newest state is the answer.
            let _ = tokio::time::timeout(at_most, changes.wait_for(|s| holds(s))).await;
        };
        self.runtime.block_on(wait);
        self.handle.snapshot()
    }

    /// Runs a plan to its end.
    ///
    /// # Errors
    /// Why it was refused or failed.
    pub(super) fn run(&self, plan: impl Plan + 'static) -> Result<Report, RigError> {
        self.answer(self.begin(plan)?)
    }

    /// Begins a plan; the ticket tells how it ends.
    ///
    /// # Errors
    /// `busy` or `shutting_down`; nothing was begun.
    pub(super) fn begin(&self, plan: impl Plan + 'static) -> Result<Ticket<Report>, RigError> {
        self.handle.run(&self.caller, Box::new(plan))
    }

    /// Releases a fault, an alarm or a stop of a stage, and waits for its first reading after that: the state on which
    /// the next step is decided is then a settled one.
    ///
    /// # Errors
    /// Why it can't be released.
    pub(super) fn recover(&self, stage: &Name) -> Result<(), RigError> {
        self.answer(self.handle.recover(&self.caller, stage)?)?;
        let released = self.handle.now();
        self.until(SETTLED, |state| {
            state.stage(stage.as_str()).is_some_and(|s| s.read_at.is_some_and(|at| at > released))
        });
        Ok(())
    }

    /// Releases whatever keeps a stage from moving; a person's stop too, since a person asks.
    ///
    /// # Errors
    /// Why it can't be released.
    pub(super) fn release(&self, stage: &Name) -> Result<(), RigError> {
        let stopped = self.handle.snapshot().stage(stage.as_str()).and_then(|s| s.stopped_by);
        if stopped == Some(StopBy::Person) {
            self.answer(self.handle.resume(&self.caller, Some(stage))?)?;
        }
        self.recover(stage)
    }

    fn answer<T>(&self, mut ticket: Ticket<T>) -> Result<T, RigError> {
        self.runtime.block_on(ticket.wait())
    }

    /// Stops what moves and lets go of the ports; `true` when everything was seen to stand.
    pub(super) fn close(self) -> bool {
        let moving = self.handle.snapshot().stages.iter().any(|s| s.activity != Activity::Idle);
        let still = self.rest(self.events.is_some() && moving);
        self.runtime.shutdown_background();
        still
    }

    /// Stops everything, whatever another thread waits for meanwhile; `true` when everything was seen to stand. Nothing
    /// moves any more.
    pub(super) fn halt(&self) -> bool {
        self.rest(true)
    }

    fn rest(&self, stop: bool) -> bool {
        if stop {
            self.handle.stop(None, StopBy::Program);
        }
        let still = self.runtime.block_on(at_rest(&self.handle));
        if let Some(events) = &self.events {
            events.flush(Duration::from_secs(1));
        }
        still
    }
}

/// Why a stage that was not identified wasn't.
pub(super) fn why_not(stage: &StageStatus) -> String {
    let fault = stage.fault.as_ref().map(|f| f.what.clone());
    fault.or_else(|| stage.link.last_error.clone()).unwrap_or_else(|| "It was not identified in time.".into())
}

fn threads() -> Result<Runtime, RigError> {
    runtime(false).map_err(|e| RigError::new(Code::Internal, format!("The system gives no threads: {e}.")))
}

/// Answers what the interlocks ask: who is at the terminal gives every order here by hand, and sees the rig. What they
/// refuse stays refused.
async fn yes(handle: RigHandle) {
    let mut changes = handle.changes();
    let mut last: Option<Name> = None;
    loop {
        let asked = |s: &Snapshot| s.approvals().find(|a| last.as_ref() != Some(&a.id)).map(|a| a.id.clone());
        let Ok(Some(id)) = changes.wait_for(|s| asked(s).is_some()).await.map(|s| asked(&s)) else { return };
        let decision = Decision { yes: true, by: login(None), reason: None, elicited: false };
        if let Ok(mut ticket) = handle.decide(&person(), &id, decision)
            && let Err(error) = ticket.wait().await
        {
            tracing::debug!("it was not to be approved any more: {error}");
        }
        last = Some(id);
    }
}

/// The person at the terminal.
fn person() -> Caller {
    Caller { id: Name::new("cli"), client: format!("steadyhand {}", env!("CARGO_PKG_VERSION")), way: Way::Cli }
}
