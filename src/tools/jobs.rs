//! `get_job` and `cancel_job`.

use std::time::Duration;

use serde_json::json;

use super::answer::{Answer, Outcome, ToolError};
use super::args::{cut, wrong};
use super::book::Entry;
use super::call::Call;
use super::schema::{Object, Schema, text, wait_s};
use super::wait::{beats, order, running};
use super::words;
use crate::config::Rig;
use crate::model::{Code, JobId, JobState, JobStatus, Moved, Snapshot};

/// How long `cancel_job` waits for standstill, beyond what the rig thread waits.
const CANCELLED: Duration = Duration::from_secs(10);

/// How long the outcome of a job that has ended may take to be told.
const OUTCOME: Duration = Duration::from_millis(500);

/// Arguments of `get_job`.
pub(crate) fn get_job_input(rig: &Rig) -> Schema {
    Object::new().must("job_id", text(32, "The job, such as job-7.")).may("wait_s", wait_s(rig)).build()
}

/// Arguments of `cancel_job`.
pub(crate) fn cancel_job_input(_: &Rig) -> Schema {
    Object::new().must("job_id", text(32, "The job, such as job-7.")).build()
}

/// The number in `job-7`.
fn job_id(call: &Call) -> Result<JobId, ToolError> {
    let given = call.args.text("job_id").unwrap_or_default();
    let number =
        given.strip_prefix("job-").filter(|n| n.bytes().all(|b| b.is_ascii_digit())).and_then(|n| n.parse().ok());
    number.map(JobId).ok_or_else(|| wrong("job_id", &format!("{:?} isn't one; they read job-7", cut(given))))
}

/// Answers `get_job`: when it has ended, what its tool would have answered.
pub(crate) async fn get_job(call: Call) -> Outcome {
    let id = job_id(&call)?;
    let live = call.live()?;
    let Some(entry) = call.core.book.find(id) else {
        let state = live.handle.snapshot();
        return match state.job(id) {
            Some(job) => of_status(job),
            None => Err(unknown(&call, id)),
        };
    };
    let patience = call.args.wait(Duration::ZERO);
    tokio::select! {
        biased;
        outcome = entry.ended() => ended(&entry, &outcome),
        () = tokio::time::sleep(patience) => Ok(running(&call, &entry)),
        () = call.gone.cancelled() => Err(ToolError::new(Code::Cancelled, "The call was taken back.")),
        () = beats(&call, entry.job) => Err(ToolError::new(Code::Internal, "Signs of life ended.")),
        () = call.core.shutting_down.cancelled() => Err(ToolError::new(Code::ShuttingDown, "The server is shutting down.")),
    }
}

fn ended(entry: &Entry, outcome: &Outcome) -> Outcome {
    match outcome {
        Ok(answer) => Ok(answer.clone().with("job_id", entry.job.to_string())),
        Err(error) => Err(error.clone().with("job_id", entry.job.to_string())),
    }
}

/// There is no such job; which there are, the newest first.
fn unknown(call: &Call, id: JobId) -> ToolError {
    const SHOWN: usize = 8;
    let mut known = call.core.book.jobs();
    known.extend(call.live().iter().flat_map(|l| l.handle.snapshot().jobs.iter().map(|j| j.id).collect::<Vec<_>>()));
    known.sort_unstable_by(|a, b| b.cmp(a));
    known.dedup();
    let Some(newest) = known.first() else {
        let what = format!("There is no {id}: no job was begun since the server started.");
        return ToolError::new(Code::NotFound, what).next("get_state", "call get_state {} for where everything stands");
    };
    let names: Vec<String> = known.iter().take(SHOWN).map(JobId::to_string).collect();
    let more = if known.len() > SHOWN { ", and older ones" } else { "" };
    let what = format!("There is no {id}; there are {}{more}.", names.join(", "));
    ToolError::new(Code::NotFound, what)
        .next("get_job", format!("call get_job {{\"job_id\": \"{newest}\"}} for the newest"))
}

/// A job that no call of this face began.
fn of_status(job: &JobStatus) -> Outcome {
    let base = |text: String| Answer::ok(text).with("job_id", job.id.to_string()).with("title", job.title.as_str());
    match &job.state {
        JobState::Running => {
            let text = format!("{} runs: {} ({}).", job.id, job.title, job.doing);
            Ok(base(text).with("status", "running").moved(Moved::Unknown))
        }
        JobState::Done(report) => {
            let text = format!("{} has ended well: {}, in {}.", job.id, job.title, words::seconds(report.took));
            Ok(base(text).moved(report.moved))
        }
        JobState::Failed(error) => Err(ToolError::from(error.clone()).with("job_id", job.id.to_string())),
    }
}

/// Answers `cancel_job`.
pub(crate) async fn cancel_job(call: Call) -> Outcome {
    let id = job_id(&call)?;
    let live = call.live()?;
    let entry = call.core.book.find(id);
    if let Some(outcome) = entry.as_ref().and_then(Entry::outcome) {
        let how = if outcome.is_ok() { "well" } else { "with an error" };
        let text = format!("{id} had ended {how} already; nothing was cancelled.");
        let answer = Answer::ok(text).with("job_id", id.to_string()).with("cancelled", false);
        return Ok(answer.next("get_job", format!("get_job {{\"job_id\": \"{id}\"}} for what it brought")));
    }
    if entry.is_none() && live.handle.snapshot().job(id).is_none() {
        return Err(unknown(&call, id));
    }
    let ticket = live.handle.cancel(&call.caller, id)?;
    order(&call, ticket, call.patience(live.handle.rig()).max(CANCELLED)).await?;
    let ended = |s: &Snapshot| s.job(id).is_none_or(|j| j.state != JobState::Running);
    let state = super::settled(&live.handle, ended).await;
    // One that never began is in no list of jobs; its own outcome tells.
    let outcome = match &entry {
        Some(e) => tokio::time::timeout(OUTCOME, e.ended()).await.ok(),
        None => None,
    };
    let moved = match (outcome.as_deref(), state.job(id).map(|j| &j.state)) {
        (_, Some(JobState::Failed(e))) => e.moved,
        (_, Some(JobState::Done(r))) => r.moved,
        (Some(Err(e)), _) => e.error.moved,
        _ => Moved::Unknown,
    };
    let rig = live.handle.rig();
    let stage = entry.and_then(|e| e.stage);
    let status = stage.as_ref().and_then(|n| state.stage(n.as_str()));
    let place = status.and_then(|s| Some(words::stage_line(s, rig.stage(s.stage.as_str())?))).unwrap_or_default();
    let how = if state.job(id).is_some() { "what it moved stands still" } else { "it had not begun" };
    let text = format!("{id} is cancelled, and {how}. {place}");
    let answer = Answer::ok(text.trim_end()).with("job_id", id.to_string()).with("cancelled", true).moved(moved);
    Ok(match status {
        Some(s) => answer.epoch(Some(s.epoch)).with("stage", json!(s.stage.as_str())),
        None => answer,
    })
}
