//! The owner's socket for stop, status and a person's other requests. It runs on threads of its own and needs neither
//! the runtime nor the rig thread's queue, so that a stop goes through whatever else hangs.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use interprocess::local_socket::traits::Listener as _;
use interprocess::local_socket::{Listener, ListenerOptions, Stream};

use super::folder::Socket;
use super::lock::Ownership;
use super::wire::{Patient, REQUEST, Request, same_user};
use crate::model::{Code, RigError, StopBy};
use crate::tools::{AllowRequest, Face, Said};

/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many connections may be about to say what they want. When there are more, the oldest is given up, so that
/// those which say nothing can't keep out one that does.
const SILENT: usize = 32;

/// How many requests may be under way. Beyond that, a stop is given without awaiting standstill.
const AT_WORK: usize = 32;

/// Begins to listen; ends with the process. The sockets of an owner that crashed are cleared away first.
///
/// # Errors
/// When the socket or its thread can't be had.
pub fn listen(ownership: &Ownership, face: Face) -> io::Result<()> {
    ownership.clear();
    let name = ownership.place().socket(Socket::Control)?;
    let listener = ListenerOptions::new().name(name).reclaim_name(false).create_sync()?;
    std::thread::Builder::new().name("stop-socket".into()).spawn(move || accept(&listener, &face))?;
    Ok(())
}

fn accept(listener: &Listener, face: &Face) {
    let mut silent: VecDeque<Arc<AtomicBool>> = VecDeque::new();
    let at_work = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!("a connection to the local socket failed: {error}");
                std::thread::park_timeout(Duration::from_millis(20));
                continue;
            }
        };
        silent.retain(|s| Arc::strong_count(s) > 1);
        while silent.len() >= SILENT
            && let Some(oldest) = silent.pop_front()
        {
            oldest.store(true, Ordering::Release);
        }
        let given_up = Arc::new(AtomicBool::new(false));
        silent.push_back(given_up.clone());
        let (face, at_work) = (face.clone(), at_work.clone());
        let serve = move || serve(&stream, &face, given_up, &at_work);
        if let Err(error) = std::thread::Builder::new().name("local".into()).spawn(serve) {
            tracing::warn!("the system gives no thread for a local connection: {error}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

fn serve(stream: &Stream, face: &Face, given_up: Arc<AtomicBool>, at_work: &AtomicUsize) {
    if !same_user(stream) {
        tracing::warn!("another user's connection to the local socket was refused");
        return;
    }
    let request = Patient::new(stream, PATIENCE).and_then(|talk| talk.unless(&given_up).line(REQUEST));
    // From here on this one has said something, and is none of those that may be given up.
    drop(given_up);
    let request = match request {
        Ok(line) => Request::read(&line),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.to_string()),
        Err(error) => {
            tracing::debug!("a local connection said nothing: {error}");
            return;
        }
    };
    let crowded = at_work.fetch_add(1, Ordering::AcqRel) >= AT_WORK;
    let said = answer(face, request, crowded);
    // Who asked may be gone already.
    let _ = Patient::new(stream, PATIENCE).and_then(|talk| talk.say(&said));
    at_work.fetch_sub(1, Ordering::AcqRel);
}

fn answer(face: &Face, request: Result<Request, String>, crowded: bool) -> Said {
    match request {
        Ok(Request::Stop { stage, for_client, at_once }) => {
            let by = if for_client { StopBy::Model } else { StopBy::Person };
            if at_once || crowded {
                face.stop_at_once(stage.as_deref(), by)
            } else {
                face.stop_and_wait(stage.as_deref(), by)
            }
        }
        Ok(_) if crowded => Said::error(RigError::new(Code::Busy, "Too many ask at once."), "ask again in a second."),
        Ok(Request::Status) => face.status(),
        Ok(Request::Jobs) => face.jobs(),
        Ok(Request::Resume { stage }) => face.resume(stage.as_deref()),
        Ok(Request::Release { device }) => face.release(&device),
        Ok(Request::Reclaim { device }) => face.reclaim(&device),
        Ok(Request::Reference { axis, value, unit }) => face.reference(&axis, value, unit.as_deref()),
        Ok(Request::Confirm { job, done, by }) => face.confirm(job.as_deref(), done, &by),
        Ok(Request::Approvals { id }) => face.approvals(id.as_deref()),
        Ok(Request::Approve { id, yes, by, reason }) => face.decide(&id, yes, &by, reason.as_deref()),
        Ok(Request::Allow { bounds, stage, what, steps, seconds, by }) => {
            face.allow(&AllowRequest { bounds, stage, what, steps, seconds }, &by)
        }
        Ok(Request::AllowEnd { by }) => face.end_allowance(&by),
        Err(why) => {
            let what = format!("This is no request of this version ({}): {why}.", env!("CARGO_PKG_VERSION"));
            Said::error(RigError::new(Code::InvalidArgument, what), "use the same version of steadyhand everywhere.")
        }
    }
}
