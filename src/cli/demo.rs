//! `steadyhand demo`: a simulated microscope on a real pseudo-terminal, and a conversation with it.

mod script;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use hw_sim::Bench;
use hw_sim::serve::{self, Running as RunningBench};

use super::http::HttpArgs;
use super::serve::{Options, Running, host, no_socket, runtime};
use super::{fail, logs, say};
use crate::config::{self, Rig};
use crate::devices;
use crate::gateway::local::{Ownership, Place};
use crate::store::Store;

/// The rig that the bench makes up.
const RIG: &str = include_str!("../../rigs/demo.toml");

/// Show it all without hardware: a simulated microscope and a scripted conversation.
///
/// The bench is part of this program: an XYZ stage on a GRBL controller behind a real pseudo-terminal (loopback TCP
/// where there is none), and a camera that sees a specimen. Started on a terminal it holds a conversation through the
/// real client, prints it, and goes on serving; with --once it ends after the conversation. Started by an assistant's
/// host, without a terminal on standard input, or with --http, it serves at once. Without --data-dir, pictures and logs go to a new
/// folder among the system's temporary ones.
#[derive(Debug, Clone, Args)]
pub(super) struct DemoArgs {
    /// End after the conversation.
    #[arg(long, conflicts_with = "http")]
    once: bool,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    options: Options,
}

pub(super) fn run(args: &DemoArgs) -> ExitCode {
    if args.once && args.options.read_only {
        return fail("the conversation moves the stage: leave out --once or --read-only");
    }
    let listening = match args.http.listen() {
        Ok(listening) => listening,
        Err(error) => return fail(&error),
    };
    let talk = listening.is_none() && !args.options.read_only && (args.once || io::stdin().is_terminal());
    let bench = match RunningBench::start(Bench::microscope(1), serve::Options::default()) {
        Ok(bench) => bench,
        Err(error) => return fail(&format!("the simulated bench could not be started: {error}")),
    };
    let (rig, place) = match rig(&bench) {
        Ok(both) => both,
        Err(error) => return fail(&error),
    };
    let mut options = args.options.clone();
    if options.data_dir.is_none() {
        // A folder of its own: two people, or two demonstrations, don't get in each other's way.
        match tempfile::Builder::new().prefix("steadyhand-demo-").tempdir() {
            Ok(dir) => options.data_dir = Some(dir.keep()),
            Err(error) => {
                return fail(&format!("no temporary folder could be made: {error}. Name one with --data-dir"));
            }
        }
    }
    if !talk {
        return host(Ok(rig), &options, own(), listening);
    }
    match converse(rig, &options, &place, args.once) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

/// The demonstration's own place, so that `steadyhand stop` reaches it.
fn own() -> Option<Ownership> {
    match Place::of_demo().and_then(|place| place.try_own()) {
        Ok(ownership) => ownership,
        Err(error) => {
            say(io::stderr(), &format!("warning: {}", no_socket(&error)));
            None
        }
    }
}

/// The demonstration's rig on the ports of the bench, and where its stage is.
fn rig(bench: &RunningBench) -> Result<(Rig, String), String> {
    let paths = bench.paths();
    let path = |device: &str| {
        let found = paths.iter().find(|(id, _)| id == device).map(|(_, path)| path.clone());
        found.ok_or_else(|| format!("the bench has no {device}"))
    };
    let (scope, cam, io) = (path("scope")?, path("cam")?, path("io")?);
    let text = match scope.strip_prefix("tcp://") {
        // No pseudo-terminals here: the same bytes over loopback.
        Some(address) => RIG.replace("serial = '@SCOPE@'\nbaud = 115200", &format!("tcp = \"{address}\"")),
        None => RIG.replace("@SCOPE@", &scope),
    };
    let text = text.replace("@CAM@", cam.trim_start_matches("tcp://")).replace("@IO@", io.trim_start_matches("tcp://"));
    let mut rig = config::parse(&text, Path::new("rigs/demo.toml"), &devices::known()).map_err(|p| p.render(false))?;
    rig.file = None;
    Ok((rig, scope))
}

fn converse(rig: Rig, options: &Options, place: &str, once: bool) -> Result<ExitCode, String> {
    let store = Store::open(&rig, options.data_dir.as_deref()).map_err(|e| e.to_string())?;
    let folder: PathBuf = store.data_dir().join("logs");
    let _logs = logs::start(options.log, logs::Level::Warn, Some(&folder));
    let runtime = runtime(false).map_err(|e| format!("the system gives no threads: {e}"))?;
    let ended = runtime.block_on(async {
        let running = Running::open(Ok((rig, store)), options, own());
        running.announce();
        let told = script::hold(&running, place).await;
        if let Err(error) = &told {
            running.ending.begin("the conversation broke off");
            say(io::stderr(), &format!("error: {error}"));
        }
        if once || told.is_err() {
            running.ending.begin("the demonstration is over");
            let still = running.still().await;
            running.close();
            return Ok::<bool, String>(told.is_ok() && still);
        }
        say(
            io::stdout(),
            "\nThe microscope goes on serving: this terminal is now a client's standard input, a JSON-RPC message a \
             line. Ctrl-D ends it.",
        );
        let exit = running.serve_stdio().await.map_err(|e| format!("standard output can't be had: {e}"))?;
        Ok(exit == crate::gateway::stdio::Exit::Still)
    });
    runtime.shutdown_background();
    Ok(if ended? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
