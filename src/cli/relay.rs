//! A `serve` that finds its rig owned: it passes its client on to the owner, and takes the rig over when the owner has
//! gone.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::logs::{self, Level};
use super::serve::{Options, Running, file_hash, prepare, runtime, signal};
use super::{colours, fail, say};
use crate::actor::RigHandle;
use crate::config;
use crate::devices;
use crate::gateway::local::{About, Hello, Over, Ownership, Place, Relay, Served, Upstream, seek, until_end};
use crate::gateway::stdio::{self, Exit, Reader, Writer};
use crate::model::{Activity, Caller, Code, Name, Snapshot, StageStatus, StopBy, Way};
use crate::tools::RigPart;

/// How long an owner is looked for before the client is told that there is none. Starting and ending take less.
const PATIENCE: Duration = Duration::from_secs(6);

/// How often an owner that can't be reached is looked for.
const LOOK: Duration = Duration::from_secs(3);

/// How long a rig that is taken over may take to say what it is, and to stand still.
const SETTLE: Duration = Duration::from_secs(15);

/// What a client may send ahead to a session of this process.
const PIPE: usize = 1 << 20;

pub(super) fn run(place: &Place, path: &Path, options: &Options) -> ExitCode {
    let _logs = logs::start(options.log, Level::Info, None);
    let runtime = match runtime(false) {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the system gives no threads: {error}")),
    };
    let ended = runtime.block_on(async {
        let (reader, writer) = stdio::claim()?;
        Ok::<Exit, io::Error>(
            Session { place, path, options, over: CancellationToken::new() }.hold(reader, writer).await,
        )
    });
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => fail(&format!("standard output can't be had: {error}")),
    }
}

struct Session<'a> {
    place: &'a Place,
    path: &'a Path,
    options: &'a Options,
    /// A signal has come.
    over: CancellationToken,
}

/// Why the rig could not be taken over.
enum NotTaken {
    /// It may become possible.
    Yet(String),
    /// A person has to look.
    ByItself(String),
}

impl Session<'_> {
    async fn hold(&self, reader: Reader, writer: Writer) -> Exit {
        tokio::spawn(watch_signals(self.over.clone()));
        let timeout = Duration::from_millis(self.options.request_timeout_ms);
        let hello = Hello::new(false, self.options.read_only, Some(timeout));
        let mut relay = Relay::new(reader, writer);
        let search = || self.over.run_until_cancelled(seek(self.place, &hello, PATIENCE));
        let Some(mut found) = search().await else { return Exit::Still };
        loop {
            let (over, next) = match found {
                Served::There(upstream) => {
                    (relay.pass(upstream, std::future::pending(), self.over.cancelled()).await, None)
                }
                Served::Here(ownership) => match self.take_over(ownership).await {
                    Ok(running) => return self.own(running, relay).await,
                    Err(NotTaken::Yet(why)) => self.explain(&mut relay, &hello, why, true).await,
                    Err(NotTaken::ByItself(why)) => self.explain(&mut relay, &hello, why, false).await,
                },
                Served::Nowhere(why) => self.explain(&mut relay, &hello, why, true).await,
            };
            if over == Over::Client || self.over.is_cancelled() {
                return Exit::Still;
            }
            if next.is_none() {
                tracing::warn!("the owner of the rig is gone");
            }
            found = match next {
                Some(next) => next,
                None => match search().await {
                    Some(found) => found,
                    None => return Exit::Still,
                },
            };
        }
    }

    /// Says in every answer why nothing can be done; with `look`, until there is an owner again.
    async fn explain(
        &self,
        relay: &mut Relay<Reader, Writer>,
        hello: &Hello,
        why: String,
        look: bool,
    ) -> (Over, Option<Served>) {
        tracing::error!("{why}");
        let file = Some(self.path.to_owned());
        let part = RigPart::Closed { file, code: Code::NotConnected, what: why };
        let running = Running::open(Err(Box::new(part)), self.options, None);
        let next = Mutex::new(None);
        let leave = async {
            loop {
                tokio::time::sleep(LOOK).await;
                if look {
                    match seek(self.place, hello, Duration::ZERO).await {
                        Served::Nowhere(_) => {}
                        found => {
                            *next.lock() = Some(found);
                            return;
                        }
                    }
                }
            }
        };
        let (near, far) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(far);
        let serve = running.attend(until_end(reader), writer);
        let pass = relay.pass(Upstream::instead_of(self.place, near), leave, self.over.cancelled());
        let mut pass = std::pin::pin!(pass);
        let over = tokio::select! {
            over = &mut pass => over,
            // What it answered last may still be on its way.
            () = serve => pass.await,
        };
        let next = next.lock().take();
        (over, next)
    }

    /// Opens the rig, and goes on only when its file and every device are what they were and nothing moves.
    async fn take_over(&self, ownership: Ownership) -> Result<Running, NotTaken> {
        let before = self.place.about_owner().unwrap_or_default();
        tracing::warn!("process {} no longer owns the rig; this one takes over", before.pid);
        let rig = config::load(self.path, &devices::known());
        if let Err(problems) = &rig {
            say(io::stderr(), &problems.render(colours()));
        }
        // What belongs to the rig goes on where it was: a person's stop, above all.
        let options =
            Options { data_dir: before.data_dir.clone().or(self.options.data_dir.clone()), ..self.options.clone() };
        let running = Running::open(prepare(rig, &options), &options, Some(ownership));
        let Some(handle) = running.handle() else { return Ok(running) };
        // Whatever the dead owner left moving has lost its caller: it is stopped as soon as a byte can go out. A person's
        // stop gets through from the first moment on.
        handle.stop(None, StopBy::Program);
        running.let_stops_in();
        let settled = settle(handle, &running, &before).await;
        if let Err(trouble) = settled.and_then(|()| unchanged(self.path, &before)) {
            running.ending.begin("the rig is not taken over");
            running.still().await;
            running.close();
            return Err(trouble);
        }
        took_over(handle, &running, &before).await;
        running.announce();
        Ok(running)
    }

    /// Serves the client as the owner, and then all others until the last is gone.
    async fn own(&self, running: Running, mut relay: Relay<Reader, Writer>) -> Exit {
        let (near, far) = tokio::io::duplex(PIPE);
        let (reader, writer) = tokio::io::split(far);
        let ending = running.ending.clone();
        let over = self.over.clone();
        tokio::spawn(async move {
            over.cancelled().await;
            ending.begin("a signal was received");
        });
        let pass = relay.pass(Upstream::here(near), std::future::pending(), std::future::pending());
        tokio::join!(pass, running.attend(until_end(reader), writer));
        running.finish().await
    }
}

/// Ends the stop with which this began where nothing had to be stopped, and puts on record who owns the rig now.
async fn took_over(handle: &RigHandle, running: &Running, before: &About) {
    let caller = Caller { id: Name::new("server"), client: "steadyhand".into(), way: Way::Internal };
    let under_way = handle.rig().stages.iter().filter_map(|s| Some((s.id.clone(), running.cut_off(&s.id)?)));
    match handle.took_over(&caller, before.pid, under_way.collect()) {
        Ok(mut ticket) => drop(ticket.wait().await),
        Err(error) => tracing::warn!("all stays stopped: {error}"),
    }
}

/// Whether the rig file is still what the last owner read. What a person has changed in it takes effect when a person
/// starts the server again, and not because a process has died: until then all go by the limits that they were told.
fn unchanged(file: &Path, before: &About) -> Result<(), NotTaken> {
    let now = file_hash(file);
    if before.file_sha256.is_none() || now == before.file_sha256 {
        return Ok(());
    }
    let what = format!(
        "The rig was not taken over from process {}, because {} has been changed since that process read it. Look at \
         what it says now (steadyhand check --rig {}), and start the server again",
        before.pid,
        file.display(),
        super::serve::shell_word(&file.display().to_string())
    );
    Err(NotTaken::ByItself(what))
}

/// Waits until each device has said what it is, or is known not to be there, and stands still.
async fn settle(handle: &RigHandle, running: &Running, before: &About) -> Result<(), NotTaken> {
    let mut changes = handle.changes();
    let settled = |s: &Snapshot| {
        let known = |x: &StageStatus| match x.activity {
            Activity::Connecting => false,
            Activity::Offline => x.fault.is_some(),
            activity => x.read_at.is_some() && !activity.is_motion(),
        };
        s.stages.iter().all(known) && s.cameras.iter().all(|c| c.ready || c.fault.is_some())
    };
    // Whether it came or took too long: what is known now decides.
    let _ = tokio::time::timeout(SETTLE, changes.wait_for(|s| settled(s))).await;
    let now = running.face.identities();
    let other: Vec<String> = before
        .identities
        .iter()
        .filter_map(|(device, was)| {
            let is = now.get(device).filter(|is| *is != was)?;
            Some(format!("{device} was {was} and is {is}"))
        })
        .collect();
    if !other.is_empty() {
        let what = format!(
            "The rig was not taken over from process {}, because it is not the same any more: {}. Look at the rig, and \
             start the server again",
            before.pid,
            other.join("; ")
        );
        return Err(NotTaken::ByItself(what));
    }
    let state = handle.snapshot();
    let moving: Vec<&str> = state.stages.iter().filter(|s| s.activity.is_motion()).map(|s| s.stage.as_str()).collect();
    if moving.is_empty() {
        return Ok(());
    }
    let what = format!("The rig was not taken over from process {}: {} still moves", before.pid, moving.join(", "));
    Err(NotTaken::Yet(what))
}

/// The first signal ends the session in order, the second the process.
async fn watch_signals(over: CancellationToken) {
    let name = signal().await;
    tracing::info!("{name} was received");
    over.cancel();
    signal().await;
    std::process::exit(Exit::NotConfirmed.code().into());
}
