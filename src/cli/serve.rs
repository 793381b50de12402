//! `steadyhand serve`, and the composition root: rig file, files, rig thread, tools and gateway are put together here.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::http::{HttpArgs, Listening};
use super::logs::{self, Level};
use super::{colours, fail, relay, say};
use crate::access::Policy;
use crate::actor::{self, RigHandle};
use crate::config::{self, Problems, Rig};
use crate::devices;
use crate::gateway::awake;
use crate::gateway::http;
use crate::gateway::local::{self, About, Ownership, Place, Sessions};
use crate::gateway::stdio::{self, Ending, Exit, StdioControl};
use crate::model::{Caller, Epoch, Event, Name, RigError, StopBy, Way};
use crate::store::{self, EventLog, Kept, LoggedEvent, SavedPositions, Store};
use crate::tools::{Face, Live, Parts, RigPart, Visit};

/// Serve one client on standard input and output (the default command).
///
/// Each line on standard input is a message of the Model Context Protocol, and so is each line on standard output;
/// logs go to standard error and to a file in the data folder. When the client closes standard input, or on SIGTERM or
/// Ctrl-C, the axes are stopped first, and calls in flight have two seconds to answer. Exit code 0 when the axes were
/// then confirmed to stand, 3 when not. A second signal ends the program at once.
///
/// A second process on the same rig file opens nothing: it passes its client on to the first, which owns the rig and
/// then stays until the last client is gone. `steadyhand stop` and `steadyhand status` reach the owner from a shell.
///
/// A rig file that is wrong is served too: the client finds one tool, `diagnose`, which says what is wrong. No device
/// is opened then.
#[derive(Debug, Clone, Args)]
pub(super) struct ServeArgs {
    /// The rig file.
    ///
    /// Without it, `rig.toml` in the current folder is used, else the one in the platform's folder for configuration.
    #[arg(long, value_name = "FILE")]
    pub(super) rig: Option<PathBuf>,
    #[command(flatten)]
    pub(super) http: HttpArgs,
    #[command(flatten)]
    pub(super) options: Options,
}

/// What can be chosen when a rig is served.
#[derive(Debug, Clone, Args)]
pub(super) struct Options {
    /// The folder for the audit log, saved positions, logs and pictures.
    ///
    /// Without it, the platform's data folder, and for pictures what the rig file says, or the Documents folder.
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// How long the client waits for a call, in milliseconds.
    ///
    /// Calls answer before that, with a job number when they take longer.
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1_000..=3_600_000))]
    pub(super) request_timeout_ms: u64,
    /// Let clients look and stop, but move and change nothing.
    #[arg(long)]
    pub(super) read_only: bool,
    /// How much is logged; without it, what RUST_LOG says, else the rig file.
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(super) log: Option<Level>,
}

pub(super) fn run(args: &ServeArgs) -> ExitCode {
    let path = match config::find(args.rig.as_deref()) {
        Ok(path) => path,
        Err(none) => return fail(&none.to_string()),
    };
    let rig = config::load(&path, &devices::known());
    if let Err(problems) = &rig {
        say(io::stderr(), &problems.render(colours()));
    }
    let listening = match args.http.listen() {
        Ok(listening) => listening,
        Err(error) => return fail(&error),
    };
    if listening.is_none() && io::stdin().is_terminal() {
        let exe = std::env::current_exe().unwrap_or_else(|_| "steadyhand".into());
        say(io::stderr(), &how_to_connect(&exe, &client_args(&args.options, &path)));
    }
    // A file that isn't there belongs to nobody.
    let place = path.exists().then(|| Place::of_rig(&path));
    let owned = place.map(|place| place.and_then(|place| Ok((place.try_own()?, place))));
    match owned {
        Some(Ok((None, _))) if listening.is_some() => fail(&format!(
            "another process serves {}, and a rig has one owner: `steadyhand status` says which. End that one, and start \
             this one again; clients over standard input and output then find it by themselves",
            path.display()
        )),
        Some(Ok((None, place))) => relay::run(&place, &path, &args.options),
        Some(Ok((Some(ownership), _))) => host(rig, &args.options, Some(ownership), listening),
        Some(Err(error)) => {
            say(io::stderr(), &format!("warning: {}", no_socket(&error)));
            host(rig, &args.options, None, listening)
        }
        None => host(rig, &args.options, None, listening),
    }
}

/// What a person reads when there is no place for a lock and sockets.
pub(super) fn no_socket(error: &io::Error) -> String {
    format!(
        "there is no local socket ({error}): a second process on this rig will not find this one, and `steadyhand stop` \
         can't reach it. Set STEADYHAND_RUNTIME_DIR to a folder of your own"
    )
}

/// A rig with its files, or what is served instead.
pub(super) fn prepare(rig: Result<Rig, Problems>, options: &Options) -> Prepared {
    let bad = |problems: Problems| Box::new(RigPart::Bad { problems: problems.render_plain() });
    rig.map_err(bad).and_then(|rig| {
        let store = Store::open(&rig, options.data_dir.as_deref()).map_err(|error| {
            say(io::stderr(), &format!("error: {error}"));
            Box::new(closed(rig.file.clone(), error))
        })?;
        Ok((rig, store))
    })
}

/// A rig that can be opened, or what is served instead.
pub(super) type Prepared = Result<(Rig, Store), Box<RigPart>>;

/// Serves a rig on standard input and output until the last client is gone, or a signal; or, where an address was taken
/// for it, over HTTP until a signal.
pub(super) fn host(
    rig: Result<Rig, Problems>,
    options: &Options,
    ownership: Option<Ownership>,
    listening: Option<Listening>,
) -> ExitCode {
    let rig = prepare(rig, options);
    let level = rig.as_ref().ok().and_then(|(rig, _)| Level::named(&rig.log.level)).unwrap_or(Level::Info);
    let folder = rig.as_ref().ok().map(|(_, store)| store.data_dir().join("logs"));
    let _logs = logs::start(options.log, level, folder.as_deref());

    let runtime = match runtime(listening.is_some()) {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the system gives no threads: {error}")),
    };
    let ended = runtime.block_on(async {
        if let Some(listening) = listening {
            say(io::stderr(), &listening.how_to_connect());
            let running = Running::open(rig, options, ownership);
            running.announce();
            return running.serve_http(listening).await;
        }
        let (reader, writer) = stdio::claim()?;
        let running = Running::open(rig, options, ownership);
        running.announce();
        Ok::<Exit, io::Error>(running.serve_on(reader, writer).await)
    });
    // A read of standard input that blocks can't be taken back: it must not hold the end up.
    runtime.shutdown_background();
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => fail(&format!("the client's side can't be had: {error}")),
    }
}

/// The runtime of the protocol's side. Nothing on it touches hardware or computes for long. One thread answers over
/// pipes sooner than two that wake each other; over HTTP large answers are written on it, and a second goes on beside.
pub(super) fn runtime(http: bool) -> io::Result<tokio::runtime::Runtime> {
    let threads = if http { 2 } else { 1 };
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).thread_name("protocol").enable_all().build()
}

/// A rig that is served: devices, files and tools, with the way to end them.
pub(super) struct Running {
    /// The tools.
    pub(super) face: Face,
    /// Ends the program and stops the axes.
    pub(super) ending: Ending,
    live: Option<Opened>,
}

/// What a running rig needs besides its tools.
struct Opened {
    handle: RigHandle,
    events: Arc<EventLog>,
    ownership: Option<Arc<Ownership>>,
    /// Whether a person's commands are let in.
    listening: AtomicBool,
    /// The folder that was chosen for what belongs to the rig.
    data_dir: Option<PathBuf>,
}

/// How long the rig thread may take to stop the axes, see them stand, and close the ports.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long the last lines of the audit log may take.
const LAST_LINES: Duration = Duration::from_secs(1);

impl Running {
    /// Opens a rig; or, where the file is wrong or the rig can't be opened, the tools that say why, and then nobody
    /// owns the rig: who comes with a mended file may. Must be called on a runtime.
    pub(super) fn open(rig: Prepared, options: &Options, ownership: Option<Ownership>) -> Running {
        let opened = rig.and_then(|(rig, store)| {
            let file = rig.file.clone();
            live(rig, store).map_err(|error| {
                tracing::error!("the rig can't be opened: {error}");
                Box::new(closed(file, error))
            })
        });
        match opened {
            Ok(live) => {
                let handle = live.handle.clone();
                let ending = Ending::new({
                    let handle = handle.clone();
                    move || handle.stop(None, StopBy::Program)
                });
                tokio::spawn(awake::follow(handle.clone(), awake::hold));
                tokio::spawn(end_with_the_rig(handle.clone(), ending.clone()));
                let events = live.events.clone();
                let face = face(RigPart::Live(live), options, &ending);
                let ownership = ownership.map(Arc::new);
                let data_dir =
                    options.data_dir.as_deref().map(|d| std::path::absolute(d).unwrap_or_else(|_| d.to_owned()));
                Running {
                    face,
                    ending,
                    live: Some(Opened { handle, events, ownership, listening: AtomicBool::new(false), data_dir }),
                }
            }
            Err(part) => {
                tracing::warn!("nothing was opened; clients find `diagnose` alone, which says why");
                let ending = Ending::new(|| ());
                let face = face(*part, options, &ending);
                Running { face, ending, live: None }
            }
        }
    }

    /// Lets a person's commands in, before anybody else: a stop, above all.
    pub(super) fn let_stops_in(&self) {
        let Some(Opened { ownership: Some(ownership), listening, .. }) = &self.live else { return };
        if !listening.swap(true, Ordering::AcqRel)
            && let Err(error) = local::listen(ownership, self.face.clone())
        {
            tracing::error!("{}", no_socket(&error));
        }
    }

    /// Lets other processes in, and a person's commands. Must be called on a runtime.
    pub(super) fn announce(&self) {
        let Some(Opened { handle, ownership: Some(ownership), data_dir, .. }) = &self.live else { return };
        let rig = handle.rig();
        let about = About {
            pid: std::process::id(),
            rig: rig.name.as_str().to_owned(),
            file: rig.file.as_deref().map(|f| std::path::absolute(f).unwrap_or_else(|_| f.to_owned())),
            file_sha256: rig.file.as_deref().and_then(file_hash),
            version: env!("CARGO_PKG_VERSION").into(),
            since: crate::store::stamp(std::time::Duration::ZERO),
            data_dir: data_dir.clone(),
            identities: BTreeMap::new(),
        };
        self.let_stops_in();
        let open = || {
            ownership.publish(&about)?;
            Sessions::bind(ownership, &about.rig)
        };
        match open() {
            Ok(sessions) => {
                handle.person_can_stop(true);
                tokio::spawn(sessions.serve(self.face.clone(), self.ending.clone()));
                let follow = identities(handle.clone(), self.face.clone(), ownership.clone(), about);
                let ending = self.ending.clone();
                tokio::spawn(async move { ending.token().run_until_cancelled(follow).await });
            }
            Err(error) => tracing::error!("{}", no_socket(&error)),
        }
    }

    /// The way to the rig thread, if a rig was opened.
    pub(super) fn handle(&self) -> Option<&RigHandle> {
        self.live.as_ref().map(|live| &live.handle)
    }

    /// What the run before this one had begun with a stage and not ended, if anything.
    pub(super) fn cut_off(&self, stage: &Name) -> Option<String> {
        let name = stage.as_str();
        let axis = format!("{name}.");
        let concerns = |e: &LoggedEvent| {
            let places = e.facts.get("positions").and_then(serde_json::Value::as_object);
            e.device.as_deref() == Some(name) || places.is_some_and(|p| p.keys().any(|key| key.starts_with(&axis)))
        };
        self.live.as_ref()?.events.cut_off().into_iter().find(concerns).map(|e| e.what)
    }

    /// Orders the end of the rig thread; comes back with whether it saw all axes stand.
    pub(super) async fn still(&self) -> bool {
        match &self.live {
            Some(live) => at_rest(&live.handle).await,
            None => true,
        }
    }

    /// Serves one client on standard input and output and all others that come, ends everything, and tells how.
    ///
    /// # Errors
    /// When standard output can't be had for the protocol alone; nothing has ended then.
    pub(super) async fn serve_stdio(&self) -> io::Result<Exit> {
        let (reader, writer) = stdio::claim()?;
        Ok(self.serve_on(reader, writer).await)
    }

    /// Serves over HTTP and all others that come until a signal, ends everything, and tells how.
    ///
    /// # Errors
    /// When the system gives no thread; nothing has ended then.
    pub(super) async fn serve_http(&self, listening: Listening) -> io::Result<Exit> {
        tokio::spawn(end_on_signals(self.ending.clone()));
        let token = self.ending.token().child_token();
        let seated = self.face.visit(Visit {
            way: Way::Http,
            pid: None,
            read_only: false,
            request_timeout: None,
            ending: token,
        });
        let Listening { listener, path, .. } = listening;
        http::serve(seated.face.clone(), listener, &path, self.ending.clone()).await?;
        drop(seated);
        Ok(self.finish().await)
    }

    async fn serve_on(&self, reader: stdio::Reader, writer: stdio::Writer) -> Exit {
        tokio::spawn(end_on_signals(self.ending.clone()));
        self.attend(reader, writer).await;
        self.finish().await
    }

    /// Serves one client of this process until it is gone, and then stops what it began.
    pub(super) async fn attend<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let token = self.ending.token().child_token();
        let visit =
            Visit { way: Way::Stdio, pid: None, read_only: false, request_timeout: None, ending: token.clone() };
        let seated = self.face.visit(visit);
        let ending = {
            let face = seated.face.clone();
            self.ending.of_session(token, move || face.client_is_gone())
        };
        let control = StdioControl { ending, still: Box::pin(std::future::ready(true)) };
        stdio::serve(seated.face.clone(), reader, writer, control).await;
    }

    /// Serves on until the last client is gone and the last job has ended that goes on without one; then ends everything,
    /// and tells how.
    pub(super) async fn finish(&self) -> Exit {
        let others = self.face.clients();
        let orphans = self.handle().map_or(0, |handle| handle.orphans().len());
        if others + orphans > 0 {
            tracing::info!("this process's client is gone; it serves on: {others} other clients, {orphans} jobs");
        }
        self.ending.token().run_until_cancelled(self.face.abandoned()).await;
        self.ending.begin("no client is left");
        let exit = if self.still().await { Exit::Still } else { Exit::NotConfirmed };
        if exit == Exit::NotConfirmed {
            tracing::error!("the axes could not be confirmed to stand still: look at the rig");
        }
        self.close();
        exit
    }

    /// Brings the last lines of the audit log to the disk.
    pub(super) fn close(&self) {
        if let Some(live) = &self.live
            && !live.events.flush(LAST_LINES)
        {
            tracing::warn!("the last lines of the audit log may be missing");
        }
    }
}

/// Keeps what the owner says about itself up to date with what its devices say they are.
async fn identities(handle: RigHandle, face: Face, ownership: Arc<Ownership>, mut about: About) {
    let mut changes = handle.changes();
    while changes.changed().await.is_ok() {
        let mut known = about.identities.clone();
        known.extend(face.identities());
        if known != about.identities {
            about.identities = known;
            let (ownership, about) = (ownership.clone(), about.clone());
            let written = tokio::task::spawn_blocking(move || ownership.publish(&about)).await;
            if let Ok(Err(error)) = written {
                tracing::warn!("what the devices are could not be written down for other processes: {error}");
            }
        }
    }
}

/// A good rig file whose rig can't be opened.
fn closed(file: Option<PathBuf>, error: RigError) -> RigPart {
    RigPart::Closed { file, code: error.code, what: error.what }
}

fn face(rig: RigPart, options: &Options, ending: &Ending) -> Face {
    Face::new(Parts {
        rig,
        policy: Policy { read_only: options.read_only },
        request_timeout: Duration::from_millis(options.request_timeout_ms),
        shutting_down: ending.token().clone(),
    })
}

/// Opens the files, makes the devices and starts the rig thread.
pub(super) fn live(rig: Rig, store: Store) -> Result<Live, RigError> {
    let rig = Arc::new(rig);
    let events = Arc::new(EventLog::open(&store.data_dir().join("audit"))?);
    // What the clearances of this run rest on; a log that can't be written refuses the first motion.
    drop(events.append(started(&rig)));
    let (saved, notice) = SavedPositions::load(store.data_dir())?;
    if let Some(notice) = notice {
        tracing::warn!("{notice}");
    }
    let devices =
        devices::make(&rig, &mut |link| devices::link::connector_by_leave(link, super::alone::leave(&rig, link)))?;
    // Nobody's clock goes back by as much as a stage's moves since the last start count.
    let epoch = Epoch(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0));
    let kept = Kept::open(store.data_dir())?;
    let (handle, _thread) = actor::spawn(&rig, devices, Box::new(events.clone()), kept, epoch).map_err(|e| {
        RigError::new(crate::model::Code::Internal, format!("The rig thread could not be started: {e}."))
    })?;
    // A move waits for its line in the audit log: the rig thread hears of it at once.
    events.notify(handle.waker());
    Ok(Live { handle, store: Arc::new(store), events, saved: Arc::new(saved) })
}

/// What tells a rig file from what it was; `None` where it can't be read.
pub(super) fn file_hash(file: &Path) -> Option<String> {
    std::fs::read(file).ok().map(|bytes| store::sha256(&bytes))
}

/// The line with which a run of the program begins.
fn started(rig: &Rig) -> Event {
    let mut facts: BTreeMap<&'static str, serde_json::Value> =
        [("version", env!("CARGO_PKG_VERSION").into()), ("pid", std::process::id().into())].into();
    if let Some(file) = &rig.file {
        facts.insert("rig_file", file.display().to_string().into());
        if let Some(hash) = file_hash(file) {
            facts.insert("rig_file_sha256", hash.into());
        }
    }
    facts.insert("keep_outs", rig.keep_outs.iter().map(|k| k.name.as_str()).collect());
    let what = format!("The program has opened the rig \"{}\".", rig.name);
    Event { kind: "start", device: None, caller: None, what, facts }
}

/// Ends the rig thread; `true` when it saw all axes stand.
pub(super) async fn at_rest(handle: &RigHandle) -> bool {
    let caller = Caller { id: Name::new("server"), client: "steadyhand".into(), way: Way::Internal };
    let ended = async {
        loop {
            match handle.shutdown(&caller) {
                Ok(mut ticket) => return ticket.wait().await,
                // The stop has just emptied the queue, or is about to.
                Err(error) if error.code == crate::model::Code::Busy => tokio::time::sleep(BUSY).await,
                Err(error) => return Err(error),
            }
        }
    };
    match tokio::time::timeout(FAREWELL, ended).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::error!("ending the rig thread: {error}");
            false
        }
        Err(_) => false,
    }
}

/// Ends the program when the rig thread has ended by itself: nobody could stop an axis any more. Standstill can't be
/// confirmed then, so that it ends with an error, and whoever supervises it starts it again.
async fn end_with_the_rig(handle: RigHandle, ending: Ending) {
    handle.ended().await;
    if !ending.token().is_cancelled() {
        tracing::error!("the rig thread has ended: no axis can be moved or stopped from here; look at the rig");
        ending.begin("the rig thread has ended");
    }
}

const BUSY: Duration = Duration::from_millis(5);

/// Ends the session at the first signal, and the program at the second.
async fn end_on_signals(ending: Ending) {
    let name = signal().await;
    ending.begin(&format!("{name} was received"));
    signal().await;
    std::process::exit(Exit::NotConfirmed.code().into());
}

#[cfg(unix)]
pub(super) async fn signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = async |kind: SignalKind| match signal(kind) {
        Ok(mut stream) => drop(stream.recv().await),
        Err(error) => {
            tracing::warn!("signals can't be watched: {error}");
            std::future::pending().await
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => "SIGTERM",
        () = wait(SignalKind::interrupt()) => "SIGINT",
        () = wait(SignalKind::hangup()) => "SIGHUP",
    }
}

#[cfg(not(unix))]
pub(super) async fn signal() -> &'static str {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    "Ctrl-C"
}

/// The arguments with which a client starts what runs now, with absolute paths.
pub(super) fn client_args(options: &Options, rig: &Path) -> Vec<String> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let mut list = vec!["serve".to_owned(), "--rig".to_owned(), absolute(rig)];
    if let Some(dir) = &options.data_dir {
        list.extend(["--data-dir".to_owned(), absolute(dir)]);
    }
    if options.read_only {
        list.push("--read-only".to_owned());
    }
    list
}

/// What a person reads who started the server by hand.
fn how_to_connect(exe: &Path, args: &[String]) -> String {
    let entry = json!({ "mcpServers": { "steadyhand": { "command": exe.display().to_string(), "args": args } } });
    let quoted: Vec<String> = args.iter().map(|a| shell_word(a)).collect();
    format!(
        "steadyhand {} waits for a client's messages on standard input, one JSON object a line.\n\
         A client starts it by itself. For Claude Desktop, add this to claude_desktop_config.json:\n\n{entry:#}\n\n\
         For Claude Code, run:\n\n  claude mcp add steadyhand -- {} {}\n\n\
         To see it work without hardware, run `steadyhand demo`. Ctrl-D or Ctrl-C ends this one.\n",
        env!("CARGO_PKG_VERSION"),
        shell_word(&exe.display().to_string()),
        quoted.join(" "),
    )
}

/// A word as a shell takes it.
pub(super) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:\\".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("\"{word}\"") }
}

#[cfg(test)]
mod tests {
    use crate::actor::Clock;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_rig_thread_that_has_died_ends_the_program() {
        let text = include_str!("../../rigs/minimal.toml");
        let rig = Arc::new(config::parse(text, Path::new("minimal.toml"), &devices::known()).expect("a rig"));
        let made = devices::make(&rig, &mut |link| devices::link::connector(link)).expect("devices");
        let folder = tempfile::tempdir().expect("a folder");
        let events = Arc::new(EventLog::open(folder.path()).expect("a log"));
        let stopped = crate::store::PersonStop::open(folder.path()).expect("a record");
        let (handle, worker, _sleeper) =
            actor::assemble(&rig, made, Box::new(events), stopped, Clock::start(), Epoch(1));
        assert!(handle.is_alive());
        drop(worker);
        let ending = Ending::new(|| ());
        end_with_the_rig(handle.clone(), ending.clone()).await;
        assert!(ending.token().is_cancelled() && !handle.is_alive());
        assert!(!at_rest(&handle).await, "nobody can say that the axes stand");
    }

    #[test]
    fn the_entry_for_a_client_is_json_with_absolute_paths() {
        let options = Options { data_dir: Some("data".into()), request_timeout_ms: 30_000, read_only: true, log: None };
        let exe = std::path::absolute("bin/steady hand").expect("a path");
        let text = how_to_connect(&exe, &client_args(&options, Path::new("rig.toml")));
        let from = text.find('{').expect("an entry");
        let to = text.rfind('}').expect("an entry");
        let entry: Value = serde_json::from_str(&text[from..=to]).expect("JSON");
        let server = &entry["mcpServers"]["steadyhand"];
        assert_eq!(server["command"], exe.display().to_string());
        let here = std::env::current_dir().expect("a folder");
        let there = |name: &str| here.join(name).display().to_string();
        let expected = json!(["serve", "--rig", there("rig.toml"), "--data-dir", there("data"), "--read-only"]);
        assert_eq!(server["args"], expected);
        assert!(text.contains(&format!("-- \"{}\" serve", exe.display())), "{text}");
        assert!(text.contains("steadyhand demo"));
    }
}
