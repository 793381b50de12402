//! One call: what its handler may use, and what all calls share.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rmcp::model::CallToolResult;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::answer::{Outcome, ToolError};
use super::args::Args;
use super::book::Book;
use super::eaa::Buffers;
use super::presence::Present;
use super::record::Record;
use super::recovery::{self, Instead, Situation};
use super::registry::{Built, Spec};
use super::seats::{Seat, Seats};
use super::tally::Tally;
use super::turns::Turn;
use super::words;
use crate::access::Policy;
use crate::actor::RigHandle;
use crate::config::{Homing, Rig, Stage};
use crate::model::{Activity, Caller, Code, Epoch, Name, Remedy, Snapshot, StageStatus, StopBy};
use crate::store::{EventLog, SavedPositions, Store};

/// A rig that runs, with its files.
#[derive(Clone)]
pub struct Live {
    /// The way to the rig thread.
    pub handle: RigHandle,
    /// Pictures and exports.
    pub store: Arc<Store>,
    /// The audit log.
    pub events: Arc<EventLog>,
    /// Positions with names.
    pub saved: Arc<SavedPositions>,
}

/// What stands behind the tools.
#[derive(Clone)]
pub enum RigPart {
    /// A rig.
    Live(Live),
    /// A rig file that can't be used. Nothing was opened; `diagnose` alone is listed, and says this.
    Bad {
        /// Every problem with its line and remedy, as text.
        problems: String,
    },
    /// A good rig file whose rig could not be opened all the same, because a folder can't be written, for
    /// example. Nothing was opened; `diagnose` alone is listed, and says this.
    Closed {
        /// The rig file; `None` for the built-in demonstration.
        file: Option<std::path::PathBuf>,
        /// The kind of trouble.
        code: Code,
        /// What happened, with paths and what a person does about it.
        what: String,
    },
}

/// What all calls share.
pub(crate) struct Core {
    pub(crate) rig: RigPart,
    pub(crate) policy: Policy,
    pub(crate) request_timeout: Duration,
    pub(crate) shutting_down: CancellationToken,
    pub(crate) tools: Arc<Vec<Built>>,
    pub(crate) present: watch::Receiver<Present>,
    pub(crate) book: Arc<Book>,
    pub(crate) buffers: Arc<Buffers>,
    /// How often each tool answered which code.
    pub(crate) tally: Arc<Tally>,
    /// What is told to the audit log.
    pub(crate) record: Arc<Record>,
    /// Who is served, this one included.
    pub(crate) seats: Seats,
    /// Whose view this is.
    pub(crate) seat: Arc<Seat>,
}

impl RigPart {
    /// The rig that runs.
    ///
    /// # Errors
    /// `bad_rig_file`, or why the rig could not be opened.
    pub(crate) fn live(&self) -> Result<&Live, ToolError> {
        match self {
            RigPart::Live(live) => Ok(live),
            RigPart::Bad { .. } => {
                let what = "The rig file is wrong; nothing was opened, and only diagnose works.";
                Err(ToolError::new(Code::BadRigFile, what))
            }
            RigPart::Closed { code, what, .. } => {
                let what = words::sentence(what);
                let what = format!("The rig file is good, but nothing was opened, and only diagnose works. {what}");
                Err(ToolError::new(*code, what).next("diagnose", "call diagnose {}; it says what a person has to do"))
            }
        }
    }
}

impl Core {
    /// The rig, if there is one.
    pub(crate) fn rig(&self) -> Option<&Rig> {
        self.rig.live().ok().map(|live| &**live.handle.rig())
    }

    /// The rig's name, for results.
    pub(crate) fn rig_name(&self) -> &str {
        self.rig().map_or("", |r| r.name.as_str())
    }

    /// Whether a tool stands in this caller's list now.
    pub(crate) fn lists(&self, spec: &Spec) -> bool {
        match self.rig() {
            None => spec.name == "diagnose",
            Some(rig) => spec.need.of(rig) && spec.granted(self.policy) && spec.need.present(*self.present.borrow()),
        }
    }

    /// Whether a step that names `tool` for `device` leads anywhere for this caller.
    pub(crate) fn may(&self, tool: &str, device: Option<&str>) -> bool {
        let listed = self.tools.iter().any(|t| t.spec.name == tool && self.lists(t.spec));
        let (RigPart::Live(live), Some(device)) = (&self.rig, device) else { return listed };
        listed
            && match tool {
                "home" => {
                    let homes = |s: &Stage| matches!(s.home, Homing::Cycle { .. });
                    live.handle.rig().stage(device).is_some_and(homes) && takes_orders(&live.handle.snapshot(), device)
                }
                "clear_fault" => releasable(&live.handle.snapshot(), device),
                _ => true,
            }
    }

    /// Adds the stage's state_epoch where the tool's output schema requires it, and the tool didn't say it:
    /// clients of the TypeScript SDK hold errors against that schema too, and throw away what doesn't match.
    pub(crate) fn tell_epoch(&self, tool: &str, device: Option<&str>, result: &mut CallToolResult) {
        const KEY: &str = "state_epoch";
        let schema = self.tools.iter().find(|t| t.spec.name == tool).and_then(|t| t.tool.output_schema.as_ref());
        let required = schema.and_then(|s| s.get("required")).and_then(Value::as_array);
        let Some(Value::Object(data)) = &mut result.structured_content else { return };
        if data.contains_key(KEY) || !required.is_some_and(|r| r.iter().any(|k| k == KEY)) {
            return;
        }
        let (RigPart::Live(live), Some(rig)) = (&self.rig, self.rig()) else { return };
        let state = live.handle.snapshot();
        let only = || matches!(rig.stages.as_slice(), [_]).then(|| state.stages.first()).flatten();
        let stage = device.and_then(|d| state.stage(d)).or_else(only);
        // 0 is no stage's number, so that a relative move that quotes it is refused.
        data.insert(KEY.into(), stage.map_or(0, |s| s.epoch.0).into());
    }

    /// The sentence after `Next:`.
    pub(crate) fn next(&self, tool: &str, error: &ToolError, device: Option<&str>) -> String {
        let named = error.error.device.as_ref().map(Name::as_str).or(device);
        let only = self.rig().and_then(|r| match r.stages.as_slice() {
            [one] => Some(one.id.as_str()),
            _ => None,
        });
        let device = named.or(only);
        let may = |t: &str| self.may(t, device);
        let mut code = error.error.code;
        if let (RigPart::Live(live), Some(device)) = (&self.rig, device) {
            match recovery::instead(&error.error, &live.handle.snapshot(), device, tool) {
                Some(Instead::Say(say)) => return say,
                Some(Instead::Of(other)) => code = other,
                None => {}
            }
        }
        recovery::next(code, error.next.as_deref(), &Situation { tool, device, may: &may })
    }
}

/// Whether nothing stands against an order to a stage but its position.
fn takes_orders(state: &Snapshot, device: &str) -> bool {
    let free = |s: &StageStatus| s.activity == Activity::Idle && s.stopped_by.is_none() && s.fault.is_none();
    state.stage(device).is_some_and(free)
}

/// Whether a tool may end the device's stop or fault.
fn releasable(state: &Snapshot, device: &str) -> bool {
    let fault = if let Some(stage) = state.stage(device) {
        if stage.stopped_by == Some(StopBy::Person) {
            return false;
        }
        stage.fault.as_ref()
    } else if let Some(output) = state.output(device) {
        if output.stopped_by == Some(StopBy::Person) {
            return false;
        }
        output.fault.as_ref()
    } else {
        state.camera(device).and_then(|c| c.fault.as_ref())
    };
    fault.is_none_or(|f| f.remedy == Remedy::ClearFault)
}

/// One call of a tool.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) tool: &'static str,
    pub(crate) args: Args,
    pub(crate) caller: Caller,
    /// The client's number of the request, for sidecars.
    pub(crate) id: String,
    /// The client took the call back.
    pub(crate) gone: CancellationToken,
    /// Where signs of life go, if the client asked for them.
    pub(crate) beat: Option<Beat>,
    /// Who can be asked for approvals: the client's user, where the rig file lets that count.
    pub(crate) user: Option<rmcp::Peer<rmcp::RoleServer>>,
    /// Whether it has become a job, which the rig thread records.
    pub(crate) begun: Arc<AtomicBool>,
    /// Its place among the calls of its client, where these come one after the other.
    pub(crate) turn: Option<Turn>,
}

/// Where signs of life of a long call go.
#[derive(Clone)]
pub(crate) struct Beat {
    pub(crate) peer: rmcp::Peer<rmcp::RoleServer>,
    pub(crate) token: rmcp::model::ProgressToken,
}

impl Call {
    /// Its order is in the rig's queue, or it has none: the client's next call may go.
    pub(crate) fn admitted(&self) {
        if let Some(turn) = &self.turn {
            turn.pass();
        }
    }

    /// The rig that runs.
    ///
    /// # Errors
    /// As [`RigPart::live`]: there is none.
    pub(crate) fn live(&self) -> Result<&Live, ToolError> {
        self.core.rig.live()
    }

    /// How long this call waits before it hands back a job.
    pub(crate) fn patience(&self, rig: &Rig) -> Duration {
        self.args.wait(rig.calls.wait.min(before(self.core.request_timeout)))
    }

    /// The number of the stage's state, now.
    pub(crate) fn epoch(&self, stage: &str) -> Option<Epoch> {
        self.live().ok()?.handle.snapshot().stage(stage).map(|s| s.epoch)
    }
}

/// When to answer a client that gives up after `timeout`: early enough that the answer still finds it there.
fn before(timeout: Duration) -> Duration {
    timeout.saturating_sub((timeout / 4).min(Duration::from_secs(2)))
}

/// A handler.
pub(crate) type Handler = fn(Call) -> futures::future::BoxFuture<'static, Outcome>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_answers_before_its_client_gives_up() {
        for (timeout_ms, answer_ms) in [(1_000, 750), (8_000, 6_000), (30_000, 28_000)] {
            assert_eq!(before(Duration::from_millis(timeout_ms)), Duration::from_millis(answer_ms));
        }
    }
}
