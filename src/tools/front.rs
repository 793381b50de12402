//! What comes past the protocol: a person's stop, status and jobs over the local socket, and the end of a session.
//! Nothing here needs a runtime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rmcp::model::CallToolResult;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{Outcome, ToolError};
use super::call::{Live, RigPart};
use super::face::Face;
use super::{approvals, readiness, state, stopping, words};
use crate::access;
use crate::actor::{RigHandle, Ticket};
use crate::config::{Homing, OnClientLost, Rig};
use crate::model::{
    Activity, AxisId, Caller, CameraStatus, Code, JobState, JobStatus, Moved, Name, RigError, Snapshot, StageStatus,
    StopBy, Trust, Way,
};
use crate::units::{Position, Unit, plain};

/// An answer to a person or to another process: complete as text, and the same facts as an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Whether it went well.
    pub ok: bool,
    /// In words.
    pub text: String,
    /// As facts.
    pub data: Map<String, Value>,
}

impl Said {
    /// What an error says. `next` is the whole sentence of what to do.
    pub fn error(error: RigError, next: &str) -> Said {
        Said::from_result(&ToolError::from(error).into_result("", next))
    }

    fn from_result(result: &CallToolResult) -> Said {
        let text = result.content.first().and_then(|c| c.as_text()).map_or_else(String::new, |t| t.text.clone());
        let data = match &result.structured_content {
            Some(Value::Object(data)) => data.clone(),
            _ => Map::new(),
        };
        Said { ok: result.is_error != Some(true), text, data }
    }
}

/// The result of a tool call of which nobody can tell any more how it ended, because the process that carried it out
/// is gone.
pub fn lost_call() -> Value {
    let what = "The process that owned the rig ended while this call was under way; nobody can tell how far it came.";
    let error = ToolError::from(RigError::new(Code::NotConnected, what).moved(Moved::Unknown));
    // 0 is no stage's number: see `Core::tell_epoch`.
    let next = "call get_state {} to see where everything stands, before you go on.";
    let result = error.with("state_epoch", 0).into_result("", next);
    serde_json::to_value(result).unwrap_or_default()
}

impl Face {
    fn live(&self) -> Result<&Live, Said> {
        self.0.rig.live().map_err(|e| Said::from_result(&e.into_result("", "run `steadyhand check`.")))
    }

    fn said(&self, outcome: Outcome) -> Said {
        let result = match outcome {
            Ok(answer) => answer.into_result(self.0.rig_name(), |_| false),
            Err(error) => {
                let next = self.0.next("stop", &error, None);
                error.into_result(self.0.rig_name(), &next)
            }
        };
        Said::from_result(&result)
    }

    /// Stops one stage (all, without a name or with an unknown one), past everything, and waits on this thread until
    /// the axes stand or three seconds have passed. Needs no runtime.
    pub fn stop_and_wait(&self, stage: Option<&str>, by: StopBy) -> Said {
        match self.live() {
            Ok(live) => self.said(stopping::by_thread(live, self.meant(live, stage).as_ref(), by)),
            Err(said) => said,
        }
    }

    /// The same on a runtime with time enabled. Ordered before this first waits.
    pub async fn stop_and_tell(&self, stage: Option<&str>, by: StopBy) -> Said {
        match self.live() {
            Ok(live) => self.said(stopping::by_task(live, self.meant(live, stage).as_ref(), by).await),
            Err(said) => said,
        }
    }

    /// The same without waiting for standstill.
    pub fn stop_at_once(&self, stage: Option<&str>, by: StopBy) -> Said {
        match self.live() {
            Ok(live) => {
                live.handle.stop(self.meant(live, stage).as_ref(), by);
                Said { ok: true, text: "The stop is given.".into(), data: Map::new() }
            }
            Err(said) => said,
        }
    }

    fn meant(&self, live: &Live, stage: Option<&str>) -> Option<Name> {
        stage.filter(|s| live.handle.rig().stage(s).is_some()).map(Name::new)
    }

    /// Everything about the rig, its clients and their errors, for a person.
    pub fn status(&self) -> Said {
        let live = match self.live() {
            Ok(live) => live,
            Err(said) => return said,
        };
        let (rig, snapshot, now) = (live.handle.rig(), live.handle.snapshot(), live.handle.now());
        let pid = std::process::id();
        let file = rig.file.as_deref().map(state::absolute);
        let place = file.as_deref().map_or_else(|| "the demonstration".to_owned(), str::to_owned);
        let version = env!("CARGO_PKG_VERSION");
        let mut lines = vec![format!("rig \"{}\" ({place}), owned by process {pid}, steadyhand {version}", rig.name)];
        let seats = self.0.seats.json();
        let seat = |row: &Value| {
            let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let mut about: Vec<String> = row["pid"].as_u64().map(|pid| format!("process {pid}")).into_iter().collect();
            about.extend(Some(word("client")).filter(|c| !c.is_empty()));
            let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
            format!("{}{about}", word("id"))
        };
        let clients: Vec<String> = seats.iter().map(seat).collect();
        lines.push(if clients.is_empty() { "no client".into() } else { format!("clients: {}", clients.join(", ")) });
        let mut stages = Vec::new();
        for status in &snapshot.stages {
            if let Some(stage) = rig.stage(status.stage.as_str()) {
                lines.push(words::stage_line(status, stage));
                stages.push(state::stage_json(status, stage, rig, now));
            }
        }
        lines.extend(snapshot.cameras.iter().map(words::camera_line));
        let cameras: Vec<Value> = snapshot.cameras.iter().map(|c| state::camera_json(c, rig)).collect();
        let running: Vec<&JobStatus> = running(&snapshot).collect();
        lines.extend(running.iter().map(|j| job_line(j)));
        lines.extend(approvals::allowance_line(&snapshot, rig, now));
        let audit = live.events.failing();
        let found = readiness::hitches(rig, &snapshot, now, None, audit.as_deref());
        let not_ready: Vec<&str> = found.iter().map(|h| h.what.as_str()).collect();
        if !not_ready.is_empty() {
            lines.push(format!("not ready: {}", not_ready.join("; ")));
        }
        let errors = self.0.tally.lines();
        if !errors.is_empty() {
            lines.push("errors that the tools answered:".into());
            lines.extend(errors.iter().map(|l| format!("  {l}")));
        }
        let data = json!({
            "rig": rig.name.as_str(), "rig_path": file, "version": version, "owner_pid": pid, "clients": seats,
            "stages": stages, "cameras": cameras, "jobs": running.iter().map(|j| job_json(j)).collect::<Vec<_>>(),
            "approvals": snapshot.approvals().map(|a| approvals::approval_json(a, now)).collect::<Vec<_>>(),
            "allowance": snapshot.allowance.as_ref().map(|a| approvals::allowance_json(a, rig, now)),
            "queued": snapshot.queued, "ready": not_ready.is_empty(), "not_ready": not_ready,
            "read_only": self.0.policy.read_only, "errors": self.0.tally.json(),
        });
        said(lines, data)
    }

    /// The jobs that run or have run, the newest first.
    pub fn jobs(&self) -> Said {
        let live = match self.live() {
            Ok(live) => live,
            Err(said) => return said,
        };
        let snapshot = live.handle.snapshot();
        let lines: Vec<String> = snapshot.jobs.iter().rev().map(|j| job_line(j)).collect();
        let rows: Vec<Value> = snapshot.jobs.iter().rev().map(|j| job_json(j)).collect();
        let lines = if lines.is_empty() { vec!["no job was begun since the start".into()] } else { lines };
        said(lines, json!({ "jobs": rows }))
    }

    /// Whether the rig is served and all its devices are there, for a supervisor.
    pub fn readiness(&self) -> Said {
        match self.live() {
            Ok(live) => ready(live),
            Err(said) => said,
        }
    }

    /// How many clients are served.
    pub fn clients(&self) -> usize {
        self.0.seats.clients()
    }

    /// What the devices have said they are, by device; those that have not answered yet are missing.
    pub fn identities(&self) -> BTreeMap<String, String> {
        let RigPart::Live(live) = &self.0.rig else { return BTreeMap::new() };
        let snapshot = live.handle.snapshot();
        let stages = snapshot.stages.iter().map(|s| (s.stage.to_string(), &s.identity));
        let cameras = snapshot.cameras.iter().map(|c| (c.camera.to_string(), &c.identity));
        let known = stages.chain(cameras).filter_map(|(device, identity)| Some((device, identity.as_ref()?)));
        known.map(|(device, i)| (device, [&*i.model, &*i.firmware, &*i.serial].join(" ").trim().to_owned())).collect()
    }

    /// Sees to what this session began, because its client is gone: calls that it still waited for stop, and its jobs
    /// do what the rig file says. When nobody else is served and nothing may go on, everything is stopped at once. A job
    /// that a person began by a single command goes on in any case: that client always goes at once.
    pub fn client_is_gone(&self) {
        let RigPart::Live(live) = &self.0.rig else { return };
        let (handle, seat) = (&live.handle, &self.0.seat);
        let continues = handle.rig().calls.on_client_lost == OnClientLost::Continue;
        let command = seat.way == Way::Cli;
        if continues || (!command && self.clients() > 1) {
            return handle.client_lost(&seat.id);
        }
        if !command {
            return handle.stop(None, StopBy::Program);
        }
        let caller = access::caller(seat.id.clone(), seat.way, None);
        for job in seat.awaited() {
            match handle.cancel(&caller, job) {
                Ok(ticket) => ticket.detach(),
                // The queue is full: better everything stands than that this goes on.
                Err(_) => handle.stop(None, StopBy::Program),
            }
        }
    }

    /// A person releases a person's stop of one stage, or of all.
    pub fn resume(&self, stage: Option<&str>) -> Said {
        self.person(|handle, caller| {
            let stage = stage.map(Name::new);
            let released = wait_for(handle.resume(caller, stage.as_ref())?)?;
            let text = match list(&released) {
                none if none.is_empty() => "No person's stop was in force.".to_owned(),
                names => format!("Released {names}: it may move again."),
            };
            Ok((text, json!({ "stages": released.iter().map(Name::as_str).collect::<Vec<_>>() })))
        })
    }

    /// A person lends the port of a device to another program.
    pub fn release(&self, device: &str) -> Said {
        self.person(|handle, caller| {
            let lent = wait_for(handle.release(caller, &Name::new(device))?)?;
            let text = format!("The port is closed; another program may have it. Lent: {}.", list(&lent));
            Ok((text, json!({ "devices": lent.iter().map(Name::as_str).collect::<Vec<_>>() })))
        })
    }

    /// A person takes a lent port back.
    pub fn reclaim(&self, device: &str) -> Said {
        self.person(|handle, caller| {
            let was = handle.snapshot();
            let back = wait_for(handle.reclaim(caller, &Name::new(device))?)?;
            let text = if was.is_lent(&back) {
                format!("Taken back: {}. It is identified anew; a position is believed again if the controller still counts what it counted \
                     before, which get_state shows in a moment.", list(&back))
            } else {
                format!("The port of {} was not lent to anybody; nothing has changed.", list(&back))
            };
            Ok((text, json!({ "devices": back.iter().map(Name::as_str).collect::<Vec<_>>() })))
        })
    }

    /// A person declares where an axis stands, in `unit` or in the axis's own.
    pub fn reference(&self, axis: &str, value: f64, unit: Option<&str>) -> Said {
        self.person(|handle, caller| {
            let rig = handle.rig();
            let wrong = |what: String| RigError::new(Code::InvalidArgument, what);
            let id = axis_named(rig, axis)?;
            let own =
                rig.axis(&id).ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no {id}.")))?.unit;
            let unit = match unit {
                None => own,
                Some(name) => Unit::parse(name)
                    .filter(|u| u.dimension() == own.dimension())
                    .ok_or_else(|| wrong(format!("{name:?} is no unit of {id}, which reads in {own}.")))?,
            };
            let position = Position::new(value, unit).map_err(|e| wrong(format!("{value} is no position: {e}.")))?;
            let was = handle.snapshot();
            let reads = wait_for(handle.reference(caller, &id, position)?)?;
            let at = reads.position.map_or_else(|| "unknown".to_owned(), |p| format!("{} {own}", plain(p.to(own))));
            let mut text =
                format!("{id} stands at {at} now, because a person said so (trust: {}). Nothing moved.", reads.trust);
            for more in doubts(rig, &was, &id, position) {
                text.push(' ');
                text.push_str(&more);
            }
            text.push_str(
                " It holds until the controller restarts, the axis is homed, or its position is lost in motion. After a \
                 pulled cable or a restart of the program it comes back if the controller still counts what it counted at \
                 rest; a count of 0 never agrees.",
            );
            Ok((text, json!({ "axis": id.to_string(), "trust": reads.trust })))
        })
    }

    /// A person called `by` has done by hand what a job waits for, or refuses to. Without a job, the only one that waits
    /// is meant.
    pub fn confirm(&self, job: Option<&str>, done: bool, by: &str) -> Said {
        let by: String = by.chars().filter(|c| !c.is_control()).take(80).collect();
        self.person(|handle, caller| {
            let state = handle.snapshot();
            let waiting: Vec<(&JobStatus, &str)> =
                state.jobs.iter().filter(|j| j.approval.is_none()).filter_map(|j| Some((&**j, j.waits_for.as_deref()?))).collect();
            let all = || waiting.iter().map(|(j, what)| format!("{} ({what})", j.id)).collect::<Vec<_>>().join(", ");
            let (job, what) = match (job, waiting.as_slice()) {
                (_, []) if state.approvals().next().is_some() => {
                    let what = "No job waits for something done by hand; what waits to be approved, `steadyhand approve` shows.";
                    return Err(RigError::new(Code::NotFound, what));
                }
                (_, []) => return Err(RigError::new(Code::NotFound, "No job waits for a person.")),
                (None, [only]) => *only,
                (None, _) => {
                    let what = format!("Several jobs wait for a person: {}. Name one.", all());
                    return Err(RigError::new(Code::InvalidArgument, what));
                }
                (Some(name), some) => *some.iter().find(|(j, _)| j.id.to_string() == name).ok_or_else(|| {
                    RigError::new(Code::NotFound, format!("{name:?} waits for nobody. What waits: {}.", all()))
                })?,
            };
            wait_for(handle.confirm(caller, job.id, done, &by)?)?;
            let text = match done {
                true => format!("{} goes on: {by} says that it is done ({what}).", job.id),
                false => format!("{} ends: {by} refuses ({what}).", job.id),
            };
            Ok((text, json!({ "job_id": job.id.to_string(), "done": done })))
        })
    }

    /// Carries out an order that only a person may give.
    pub(super) fn person(&self, order: impl FnOnce(&RigHandle, &Caller) -> Result<(String, Value), RigError>) -> Said {
        let live = match self.live() {
            Ok(live) => live,
            Err(said) => return said,
        };
        let caller = Caller { id: Name::new("person"), client: "steadyhand at the command line".into(), way: Way::Cli };
        match order(&live.handle, &caller) {
            Ok((text, data)) => said(vec![text], data),
            Err(error) => Said::error(error, "see `steadyhand status` for how everything stands."),
        }
    }

    /// Comes back when nobody is served any more, and no job goes on whose client is gone.
    pub async fn abandoned(&self) {
        loop {
            self.0.seats.empty().await;
            if let RigPart::Live(live) = &self.0.rig {
                live.handle.orphans_end().await;
            }
            if self.clients() == 0 {
                return;
            }
        }
    }
}

/// What speaks against a declaration, or follows from it, in sentences.
fn doubts(rig: &Rig, was: &Snapshot, id: &AxisId, position: Position) -> Vec<String> {
    let mut found = Vec::new();
    let (Some(axis), Some(stage)) = (rig.axis(id), rig.stage(id.stage.as_str())) else { return found };
    let before = was.stage(id.stage.as_str()).and_then(|s| s.axis(id.axis.as_str()));
    if before.is_some_and(|a| a.trust > Trust::Assumed) {
        let trust = before.map_or(Trust::Unknown, |a| a.trust);
        found.push(format!("WARNING: its position was {trust}, which is better than that and is replaced."));
    }
    if !axis.travel.contains(position) {
        let [low, high] = [axis.travel.low, axis.travel.high].map(|p| plain(p.to(axis.unit)));
        found.push(format!(
            "WARNING: that is outside its travel, {low} to {high} {}: it may only come back, slowly.",
            axis.unit
        ));
    }
    let homes = stage.home != Homing::Never;
    if axis.trust > Trust::Assumed && homes {
        found.push(format!("Moves of it need it {}, which a declaration is not: home it.", axis.trust));
    } else if homes {
        found.push("It can be homed, which is better.".into());
    }
    found
}

/// The axis that a person means: `stage.axis`, or its name alone where there is one stage.
pub(super) fn axis_named(rig: &Rig, axis: &str) -> Result<AxisId, RigError> {
    match (axis.split_once('.'), rig.stages.as_slice()) {
        (Some((stage, axis)), _) if Name::is_valid(stage) && Name::is_valid(axis) => Ok(AxisId::new(stage, axis)),
        (None, [only]) if Name::is_valid(axis) => Ok(AxisId::new(only.id.as_str(), axis)),
        (Some(_), _) | (None, [_]) => {
            Err(RigError::new(Code::NotFound, format!("{axis:?} names no axis; they are written stage.axis.")))
        }
        (None, _) => {
            let what = format!("Which stage's {axis:?}? Axes are written stage.axis.");
            Err(RigError::new(Code::InvalidArgument, what))
        }
    }
}

/// How long a person's order may take. The rig thread answers each; should it hang, the person must hear of that.
const ORDER: Duration = Duration::from_secs(15);

/// Waits on this thread for an answer of the rig thread, without a runtime.
pub(super) fn wait_for<T>(mut ticket: Ticket<T>) -> Result<T, RigError> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let until = Instant::now() + ORDER;
    let mut answer = std::pin::pin!(ticket.wait());
    loop {
        if let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let what = format!("There was no answer within {} s.", ORDER.as_secs());
            return Err(RigError::new(Code::NotResponding, what).moved(Moved::Unknown));
        }
        std::thread::park_timeout(left);
    }
}

/// Whether the rig thread runs and every device answers, and which do.
fn ready(live: &Live) -> Said {
    let (rig, state, alive) = (live.handle.rig(), live.handle.snapshot(), live.handle.is_alive());
    let there = |s: &StageStatus| !matches!(s.activity, Activity::Offline | Activity::Connecting);
    let stages = rig.stages.iter().map(|s| (&s.id, state.stage(s.id.as_str()).is_some_and(there)));
    let there = |c: &CameraStatus| c.ready || c.exposing;
    let cameras = rig.cameras.iter().map(|c| (&c.id, state.camera(c.id.as_str()).is_some_and(there)));
    // One that a person is asked about, or that is being made safe, is there.
    let there = |ready: bool, open: bool, well: bool| ready || (open && well);
    let outputs = rig
        .outputs
        .iter()
        .map(|o| (&o.id, state.output(o.id.as_str()).is_some_and(|s| there(s.ready, s.link.open, s.fault.is_none()))));
    let sensors = rig
        .sensors
        .iter()
        .map(|o| (&o.id, state.sensor(o.id.as_str()).is_some_and(|s| there(s.ready, s.link.open, s.fault.is_none()))));
    let online: Vec<(&Name, bool)> = stages.chain(cameras).chain(outputs).chain(sensors).collect();
    let missing: Vec<Name> = online.iter().filter(|(_, there)| !there).map(|(id, _)| (*id).clone()).collect();
    let devices: Map<String, Value> = online.iter().map(|(id, there)| (id.to_string(), json!(there))).collect();
    let text = match (alive, missing.as_slice()) {
        (false, _) => "The rig thread has ended: start the program again.".into(),
        (true, []) => "All devices answer. What keeps them from moving, `steadyhand status` tells.".into(),
        (true, missing) => format!("Not there: {}. `steadyhand doctor` says what to do.", list(missing)),
    };
    let ok = alive && missing.is_empty();
    let data = json!({ "ready": ok, "rig": rig.name.as_str(), "rig_thread": alive, "online": devices, "text": text });
    Said { ok, ..said(vec![text], data) }
}

fn list(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

fn said(lines: Vec<String>, data: Value) -> Said {
    let data = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    Said { ok: true, text: lines.join("\n"), data }
}

fn running(snapshot: &Snapshot) -> impl Iterator<Item = &JobStatus> {
    snapshot.jobs.iter().map(|j| &**j).filter(|j| j.state == JobState::Running)
}

fn job_line(job: &JobStatus) -> String {
    let how = match &job.state {
        JobState::Running if job.approval.is_some() => {
            let (what, id) = job.approval.as_ref().map_or(("", ""), |a| (a.what.as_str(), a.id.as_str()));
            format!("WAITS FOR A PERSON to approve: {what}; `steadyhand approve {id}` shows it")
        }
        JobState::Running if job.waits_for.is_some() => {
            let what = job.waits_for.as_deref().unwrap_or_default();
            format!("WAITS FOR A PERSON to {what}, who then says `steadyhand confirm {}`", job.id)
        }
        JobState::Running if job.doing.is_empty() => "runs".to_owned(),
        JobState::Running => format!("runs, {}", job.doing),
        JobState::Done(report) => format!("ended well, in {}", words::seconds(report.took)),
        JobState::Failed(error) => format!("ended with {error}"),
    };
    format!("{} ({}): {} {how}", job.id, job.caller.id, job.title)
}

fn job_json(job: &JobStatus) -> Value {
    let state = match &job.state {
        JobState::Running => "running",
        JobState::Done(_) => "done",
        JobState::Failed(_) => "failed",
    };
    let mut row = json!({
        "job_id": job.id.to_string(), "title": job.title, "caller": job.caller.id.as_str(),
        "client": job.caller.client, "state": state, "doing": job.doing, "waits_for": job.waits_for,
    });
    if let JobState::Failed(error) = &job.state {
        row["error"] = json!({ "code": error.code.text(), "what": error.what, "moved": error.moved });
    }
    row
}
