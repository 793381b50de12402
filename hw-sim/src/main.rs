//! The program: serves a bench in real time and says where.

mod tell;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use clap::{Args, Parser, Subcommand};
use hw_sim::serve::{Options, Running};
use hw_sim::{ASI_TOML, Bench, MICROSCOPE_TOML, ZABER_TOML};
use serde_json::{Value, json};

/// A simulated lab bench: stages and cameras that speak their protocols byte for byte.
#[derive(Parser)]
#[command(name = "hw-sim", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a bench in real time
    ///
    /// Prints one JSON line a device with the path that a host opens, then one with the control socket. Runs until
    /// SIGINT or SIGTERM.
    Serve(Serve),
    /// Ask a bench that is served, or make something go wrong there
    ///
    /// `hw-sim tell CONTROL positions` says where the carriages really are; `hw-sim tell CONTROL fault scope jam axis=x`
    /// holds one fast. CONTROL is what `serve` printed. All requests and faults stand in docs/simulator.md.
    Tell(tell::Args),
    /// Print the bench file of the demonstration microscope
    Microscope,
    /// Print the bench file of a GRBL stage with a camera and a chain of Zaber devices
    Zaber,
    /// Print the bench file of an ASI controller
    Asi,
}

#[derive(Args)]
struct Serve {
    /// The bench file; without it, the demonstration microscope
    bench: Option<PathBuf>,
    /// A Unix socket for control, instead of a TCP port on the loopback
    #[arg(long)]
    control: Option<PathBuf>,
    /// Keep links to the devices' current pseudo-terminals in this folder
    #[arg(long)]
    link_dir: Option<PathBuf>,
    /// Stop also when stdin ends
    #[arg(long)]
    until_eof: bool,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(args) => serve(args),
        Command::Tell(args) => tell::ask(&args).and_then(|reply| say(&reply)),
        Command::Microscope => say_text(MICROSCOPE_TOML),
        Command::Zaber => say_text(ZABER_TOML),
        Command::Asi => say_text(ASI_TOML),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("hw-sim: {e}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: Serve) -> io::Result<()> {
    let text = match &args.bench {
        Some(path) => {
            std::fs::read_to_string(path).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?
        }
        None => MICROSCOPE_TOML.to_owned(),
    };
    let bench = Bench::from_toml(&text).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e.to_string()))?;
    if let Some(dir) = &args.link_dir {
        std::fs::create_dir_all(dir).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", dir.display())))?;
    }
    let (end, ended) = sync_channel(1);
    let on_signal = end.clone();
    ctrlc::set_handler(move || finish(&on_signal)).map_err(io::Error::other)?;
    if args.until_eof {
        thread::Builder::new().name("stdin".into()).spawn(move || wait_for_eof(&end))?;
    }
    let protocols: Vec<(String, String)> = bench.devices().into_iter().map(|d| (d.id, d.protocol)).collect();
    let announce = move |device: &str, path: &str| {
        let protocol = protocols.iter().find(|(id, _)| id == device).map(|(_, p)| p);
        // Nobody may be reading any more; the bench goes on.
        let _ = say(&json!({ "device": device, "protocol": protocol, "path": path }));
    };
    let running = Running::start(
        bench,
        Options { link_dir: args.link_dir, control_path: args.control, announce: Some(Box::new(announce)) },
    )?;
    say(&json!({ "control": running.control_addr() }))?;
    // Both senders gone would end it too, but one lives in the signal handler.
    let _ = ended.recv();
    running.stop();
    Ok(())
}

fn finish(end: &SyncSender<()>) {
    // Full means that the end is on its way already.
    let _ = end.try_send(());
}

fn wait_for_eof(end: &SyncSender<()>) {
    let mut buffer = [0; 256];
    while matches!(io::stdin().read(&mut buffer), Ok(n) if n > 0) {}
    finish(end);
}

fn say(value: &Value) -> io::Result<()> {
    say_text(&format!("{value}\n"))
}

fn say_text(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
