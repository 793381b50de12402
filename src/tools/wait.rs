//! Running a command and waiting for it: answered in time, or handed back as a job, or stopped when its
//! caller goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Outcome, ToolError};
use super::book::{Begun, Entry, Key};
use super::call::Call;
use super::{approvals, elicit, progress, words};
use crate::actor::{RigHandle, Ticket};
use crate::model::{Approval, Code, CommandId, JobId, JobState, Moved, Name, Origin, Report, RigError, Snapshot, Time};
use crate::plans::Plan;
use crate::store::PastCommand;

/// Signs of life come this often.
const BEAT: Duration = Duration::from_secs(10);

/// How long a call that is under way gets to say how it ended when the server shuts down.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// How long the end of a command is looked for whose caller is lost.
const LOST: Duration = Duration::from_secs(10);

/// Turns a report into the answer. Runs off the rig thread, once, whether or not anybody still waits.
pub(crate) type Render = Box<dyn FnOnce(Report) -> BoxFuture<'static, Outcome> + Send>;

/// A render that needs no waiting.
pub(crate) fn render(f: impl FnOnce(Report) -> Outcome + Send + 'static) -> Render {
    Box::new(|report| Box::pin(std::future::ready(f(report))))
}

/// Runs a plan for a call: `patience` is how long it waits, `None` until the end. `stage` is the one whose
/// `state_epoch` the answer carries.
pub(crate) async fn run(
    call: &Call,
    stage: Option<&Name>,
    plan: Box<dyn Plan>,
    patience: Option<Duration>,
    render: Render,
) -> Outcome {
    let handle = &call.live()?.handle;
    let command = call.args.text("command_id");
    let command = command.map(|id| CommandId { id: id.to_owned(), hash: call.args.fingerprint(call.tool) });
    let key = command.clone().map(|c| Key { client: call.caller.client.clone(), id: c.id, hash: c.hash });
    let origin = Origin { call: call.id.clone(), tool: call.tool, arguments: call.args.as_json(), command };
    let begun = call.core.book.begin(call.tool, stage, key, || handle.run_call(&call.caller, origin, plan))?;
    call.admitted();
    call.begun.store(true, Ordering::Relaxed);
    match begun {
        Begun::Earlier(past) => before_this_run(call, stage, &past),
        Begun::Known(entry) => {
            repeated(wait(call, &entry, patience, &CancellationToken::new(), &CancellationToken::new()).await)
        }
        Begun::New { entry, ticket, tell } => {
            let (released, lost) = (CancellationToken::new(), CancellationToken::new());
            // If this call's future is dropped at any point, its caller is lost.
            let guard = lost.clone().drop_guard();
            let _awaits = call.core.seat.awaits(entry.job);
            tokio::spawn(finish(handle.clone(), ticket, released.clone(), lost.clone(), render, tell));
            let outcome = wait(call, &entry, patience, &released, &lost).await;
            guard.disarm();
            outcome
        }
    }
}

/// Sees a command through to its outcome, also after the call that began it has answered.
async fn finish(
    handle: RigHandle,
    mut ticket: Ticket<Report>,
    released: CancellationToken,
    lost: CancellationToken,
    render: Render,
    tell: watch::Sender<Option<Arc<Outcome>>>,
) {
    let job = ticket.job();
    let mut let_go = false;
    let result = loop {
        tokio::select! {
            biased;
            result = ticket.wait() => break result,
            () = lost.cancelled() => {
                drop(ticket);
                break after_loss(&handle, job).await;
            }
            () = released.cancelled(), if !let_go => {
                ticket.release();
                let_go = true;
            }
        }
    };
    let outcome = match result {
        Ok(report) => render(report).await,
        Err(error) => Err(error.into()),
    };
    tell.send_replace(Some(Arc::new(outcome)));
}

/// How a command ended whose caller was lost: as its job says.
async fn after_loss(handle: &RigHandle, job: Option<JobId>) -> Result<Report, RigError> {
    let mut changes = handle.changes();
    let ended = async {
        loop {
            let state = changes.borrow_and_update().clone();
            match job.and_then(|j| state.job(j)).map(|j| j.state.clone()) {
                Some(JobState::Done(report)) => return Some(Ok(report)),
                Some(JobState::Failed(error)) => return Some(Err(error)),
                Some(JobState::Running) | None => {}
            }
            if changes.changed().await.is_err() {
                return None;
            }
        }
    };
    let found = tokio::time::timeout(LOST, ended).await.ok().flatten();
    found.unwrap_or_else(|| {
        let what = "The caller went before its answer; the command was stopped or never begun.";
        Err(RigError::new(Code::Cancelled, what).moved(Moved::Unknown))
    })
}

/// Waits for a command's outcome.
async fn wait(
    call: &Call,
    entry: &Entry,
    patience: Option<Duration>,
    released: &CancellationToken,
    lost: &CancellationToken,
) -> Outcome {
    tokio::select! {
        biased;
        () = call.gone.cancelled() => {
            lost.cancel();
            Err(ToolError::new(Code::Cancelled, "The call was taken back."))
        }
        outcome = entry.ended() => (*outcome).clone(),
        () = patience_ends(patience) => {
            released.cancel();
            Ok(running(call, entry))
        }
        () = person_asked(call, entry) => {
            released.cancel();
            Ok(running(call, entry))
        }
        () = call.core.shutting_down.cancelled() => {
            let ended = tokio::time::timeout(LAST_WORDS, entry.ended()).await;
            ended.map_or_else(
                |_| {
                    lost.cancel();
                    Err(RigError::new(Code::ShuttingDown, "The server is shutting down.").moved(Moved::Unknown).into())
                },
                |outcome| (*outcome).clone(),
            )
        }
        () = beats(call, entry.job) => Err(ToolError::new(Code::Internal, "Signs of life ended.")),
    }
}

/// Waits on for a command that was begun by an earlier call of the same client.
pub(crate) async fn resumed(call: &Call, entry: &Entry) -> Outcome {
    let patience = call.patience(call.live()?.handle.rig());
    wait(call, entry, Some(patience), &CancellationToken::new(), &CancellationToken::new()).await
}

async fn patience_ends(patience: Option<Duration>) {
    match patience {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Ends once the command waits for a person, which can take longer than any caller waits. Where the client's own user
/// can be asked for an approval, that comes first.
async fn person_asked(call: &Call, entry: &Entry) {
    let Ok(live) = call.live() else { return std::future::pending().await };
    let mut changes = live.handle.changes();
    let asks = |s: &Snapshot| s.job(entry.job).is_some_and(|j| j.waits_for.is_some());
    loop {
        let Ok(state) = changes.wait_for(|s| asks(s)).await.map(|s| s.clone()) else {
            return std::future::pending().await;
        };
        let approval = state.job(entry.job).and_then(|j| j.approval.clone());
        let (Some(user), Some(approval)) = (&call.user, approval) else { return };
        let (user, handle, caller) = (user.clone(), live.handle.clone(), call.caller.clone());
        let id = approval.id.clone();
        // It goes on when this call has answered: a dialog that stands open still counts.
        let asking = tokio::spawn(async move { elicit::ask(&user, &handle, &caller, &approval).await });
        if !asking.await.unwrap_or(false) {
            return;
        }
        let over = |s: &Snapshot| s.approvals().all(|a| a.id != id);
        if changes.wait_for(|s| over(s)).await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Tells the client every ten seconds how its call stands; never ends. Nobody's answer may depend on whether the
/// client reads them, so a failure to send is ignored.
pub(crate) async fn beats(call: &Call, job: JobId) {
    let (Some(beat), Ok(live)) = (&call.beat, call.live()) else { return std::future::pending().await };
    let mut count = 0.0;
    loop {
        tokio::time::sleep(BEAT).await;
        // It must grow with every note, which no share of a way does: what is done stands in the words.
        count += 1.0;
        let words = progress::told(&live.handle, &call.caller, Some(job));
        let note = rmcp::model::ProgressNotificationParam::new(beat.token.clone(), count).with_message(words);
        let _ = beat.peer.notify_progress(note).await;
    }
}

/// The answer of a call whose command goes on.
pub(crate) fn running(call: &Call, entry: &Entry) -> Answer {
    let state = call.live().ok().map(|l| l.handle.snapshot());
    let job = state.as_ref().and_then(|s| s.job(entry.job));
    if let (Some(a), Ok(live)) = (job.and_then(|j| j.approval.as_ref()), call.live()) {
        return approving(call, entry, a, live.handle.now());
    }
    if let Some(what) = job.and_then(|j| j.waits_for.as_ref()) {
        return asking(entry, what);
    }
    let (title, doing) = job.map_or(("waiting for its turn", ""), |j| (j.title.as_str(), j.doing.as_str()));
    let moving =
        entry.stage.as_ref().and_then(|n| state.as_ref()?.stage(n.as_str())).is_some_and(|s| s.activity.is_motion());
    let moved = if job.is_some() && moving {
        Moved::Yes
    } else if job.is_some() && entry.stage.is_some() {
        Moved::Unknown
    } else {
        Moved::No
    };
    let doing = if doing.is_empty() { String::new() } else { format!(" ({doing})") };
    let text = format!("{} goes on: {title}{doing}. stop {{}} ends all motion at once.", entry.job);
    let next = format!("get_job {{\"job_id\": \"{}\", \"wait_s\": 20}} for its end", entry.job);
    let mut answer =
        Answer::ok(text).with("status", "running").with("job_id", entry.job.to_string()).with("tool", entry.tool);
    answer = answer.moved(moved).with("doing", title);
    let epoch = entry.stage.as_ref().and_then(|n| call.epoch(n.as_str()));
    answer.epoch(epoch).next("get_job", next)
}

/// The answer of a call whose command waits for a person.
fn asking(entry: &Entry, what: &str) -> Answer {
    let text = format!(
        "{} waits for a person: ask the person at the rig to {what}, and then to confirm it there (steadyhand confirm \
         {}). Nobody else can.",
        entry.job, entry.job
    );
    let next = format!("get_job {{\"job_id\": \"{}\", \"wait_s\": 20}} once the person was asked", entry.job);
    Answer::ok(text)
        .with("status", "waiting_for_person")
        .with("job_id", entry.job.to_string())
        .with("tool", entry.tool)
        .with("waits_for", what)
        .moved(Moved::Unknown)
        .epoch(None)
        .next("get_job", next)
}

/// The answer of a call whose command waits for a person's yes.
fn approving(call: &Call, entry: &Entry, a: &Approval, now: Time) -> Answer {
    let text = format!(
        "{} waits for a person to approve: {}. {} Ask the person at the rig to decide there, with `steadyhand approve {}`: \
         nobody else can. On a yes it is judged again and goes on by itself; it expires in {} s.",
        entry.job,
        a.what,
        approvals::reasons(&a.asks),
        a.id,
        a.until.since(now).as_secs()
    );
    let next = format!("get_job {{\"job_id\": \"{}\", \"wait_s\": 20}} once the person was asked", entry.job);
    let mut answer = Answer::ok(text);
    if let Value::Object(facts) = approvals::approval_json(a, now) {
        answer.data.extend(facts.into_iter().filter(|(key, _)| key != "client" && key != "caller"));
    }
    answer
        .with("status", "waiting_for_person")
        .with("tool", entry.tool)
        .with("waits_for", format!("approve: {}", a.what))
        .moved(a.moved)
        .epoch(entry.stage.as_ref().and_then(|n| call.epoch(n.as_str())))
        .next("get_job", next)
}

/// The first outcome of a command that was sent again.
fn repeated(outcome: Outcome) -> Outcome {
    match outcome {
        Ok(answer) => {
            let runs = answer.data.get("status").is_some_and(|s| s != "ok");
            let say = if runs {
                "(This command_id was sent before: it is the same job, nothing was begun twice.)"
            } else {
                "(This command_id was sent before: this is its first outcome, nothing was done again.)"
            };
            Ok(answer.with("repeated", true).say(say))
        }
        Err(mut error) => {
            error
                .error
                .what
                .push_str(" (This command_id was sent before: this is its first outcome, nothing was done again.)");
            Err(error.with("repeated", true))
        }
    }
}

/// The outcome of a command that an earlier run of the program had begun: nothing is done again.
fn before_this_run(call: &Call, stage: Option<&Name>, past: &PastCommand) -> Outcome {
    let Some(outcome) = &past.outcome else {
        let what = format!(
            "{} with this command_id was begun at {}, and the program ended before it was over: nobody knows how far it \
             came. It is not done again.",
            past.tool, past.t
        );
        let error = RigError::new(Code::OutcomeUnknown, what).moved(Moved::Unknown);
        let error = if let Some(stage) = stage { error.on(stage) } else { error };
        return Err(ToolError::from(error).with("repeated", true));
    };
    let moved = [Moved::No, Moved::Yes].into_iter().find(|m| m.to_string() == outcome.moved).unwrap_or(Moved::Unknown);
    let before = "(This command_id was sent before the server was started anew: this is how it ended then, nothing was \
                  done again.)";
    if let Some(code) = &outcome.code {
        let code = Code::ALL.iter().copied().find(|c| c.text() == code).unwrap_or(Code::Internal);
        let error = RigError::new(code, format!("{} {before}", words::sentence(&outcome.what))).moved(moved);
        return Err(ToolError::from(error).with("repeated", true));
    }
    let epoch = stage.and_then(|n| call.epoch(n.as_str()));
    Ok(Answer::ok(format!("{} {before}", words::sentence(&outcome.what)))
        .with("repeated", true)
        .with("positions_then", outcome.positions.clone())
        .moved(moved)
        .epoch(epoch)
        .next("get_state", "get_state {} tells where everything stands now"))
}

/// Waits for an order that is no job.
///
/// # Errors
/// What the rig said; `cancelled` when the client took the call back; `not_responding` after `at_most`.
pub(crate) async fn order<T>(call: &Call, mut ticket: Ticket<T>, at_most: Duration) -> Result<T, ToolError> {
    call.admitted();
    tokio::select! {
        biased;
        () = call.gone.cancelled() => Err(ToolError::new(Code::Cancelled, "The call was taken back.")),
        result = ticket.wait() => Ok(result?),
        () = tokio::time::sleep(at_most) => {
            let what = format!("There was no answer within {} s.", crate::units::plain(at_most.as_secs_f64()));
            Err(RigError::new(Code::NotResponding, what).moved(Moved::Unknown).into())
        }
    }
}
