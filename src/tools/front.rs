//! What comes past the protocol: a person's stop, status and jobs over the local socket, and the end of a session.
//! Nothing here needs a runtime.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::CallToolResult;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{Outcome, ToolError};
use super::call::{Live, RigPart};
use super::face::Face;
use super::{readiness, state, stopping, words};
use crate::access;
use crate::model::{Code, JobId, JobState, JobStatus, Moved, Name, RigError, Snapshot, StopBy, Way};

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

    /// How many clients are served.
    pub fn clients(&self) -> usize {
        self.0.seats.clients()
    }

    /// Waits until no client is served.
    pub async fn abandoned(&self) {
        self.0.seats.empty().await;
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

    /// Stops what this session's calls began, because its client is gone: the calls that it still waited for, and the
    /// jobs that it was given a number for, but for those of a person's single commands, whose client goes at once.
    /// When nobody else is served, everything is stopped, at once and past the queue.
    pub fn client_is_gone(&self) {
        let RigPart::Live(live) = &self.0.rig else { return };
        let seat = &self.0.seat;
        let command = seat.way == Way::Cli;
        if !command && self.clients() <= 1 {
            return live.handle.stop(None, StopBy::Program);
        }
        let mut ours: BTreeSet<JobId> = seat.awaited().into_iter().collect();
        if !command {
            ours.extend(running(&live.handle.snapshot()).filter(|j| j.caller.id == seat.id).map(|j| j.id));
        }
        let caller = access::caller(seat.id.clone(), seat.way, None);
        for job in ours {
            match live.handle.cancel(&caller, job) {
                Ok(ticket) => ticket.detach(),
                // The queue is full: better everything stands than that this goes on.
                Err(_) => live.handle.stop(None, StopBy::Program),
            }
        }
    }

    /// Stops everything, at once, for the program itself.
    pub fn stop_everything(&self) {
        if let RigPart::Live(live) = &self.0.rig {
            live.handle.stop(None, StopBy::Program);
        }
    }
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
        "client": job.caller.client, "state": state, "doing": job.doing,
    });
    if let JobState::Failed(error) = &job.state {
        row["error"] = json!({ "code": error.code.text(), "what": error.what, "moved": error.moved });
    }
    row
}
