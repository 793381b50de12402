//! `steadyhand init`: finds a controller, asks what only a person knows, and writes a rig file.

mod axis;
mod decide;
mod interrupt;
mod known;
pub(super) mod merge;
pub(super) mod person;
pub(super) mod probe;
mod render;
pub(super) mod teach;

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::session::own;
use super::written::{self, Backup};
use super::{fail, ports, say};
use crate::config;
use crate::devices;
use axis::AxisFlags;
use known::Known;
use person::{Nobody, Person, Terminal, ask, yes};
use probe::Place;
use render::Port;

/// Find a controller, and write a rig file for it.
///
/// Finds the serial ports, asks the device what it is, takes limits from the controller or lets you find them by small
/// steps, and asks what only a person knows: which way is positive, what sinks without power. A rig file that exists is
/// shown with what would change, its comments and its limits are kept unless you say otherwise, and it is written only
/// after a yes, with a copy of what it was.
/// Settings of the controller are read and never written.
///
/// It knows controllers that speak GRBL, Zaber devices in the ASCII protocol (a chain of them too), and ASI's stage
/// controllers. A Zaber device only counts: have the "Microstep Size" of its specifications at hand.
///
/// Everything can be said by flags: with --yes nobody is asked, nothing is moved, and what is proposed is taken.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The rig file to write.
    #[arg(long, value_name = "FILE", default_value = "rig.toml")]
    rig: PathBuf,
    /// The port: /dev/ttyUSB0, COM5, a pseudo-terminal, or tcp://HOST:PORT.
    ///
    /// Without it the ports on USB are offered. A port given here is written as it is given, unless it is the only one
    /// with its USB identity.
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// The rate; without it the usual ones are tried.
    #[arg(long, value_name = "BAUD", value_parser = clap::value_parser!(u32).range(9600..=4_000_000))]
    baud: Option<u32>,
    /// The driver to look for; without it all are tried.
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
    /// The rig's name.
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// The stage's name.
    #[arg(long, value_name = "NAME", value_parser = name)]
    stage: Option<String>,
    /// One axis and what is known of it; may be given several times, and then only these axes are used.
    ///
    /// For example `--axis z,unit=um,sign=-1,travel=0:4000,speed=500,tolerance=5,holds-unpowered=false`. Keys: unit
    /// (nm, um, mm, deg, mdeg, mrad), channel (the controller's own name for it, so that the axis may have any name),
    /// counts-per-unit (of a controller that only counts), sign (1 or -1), origin, travel (LOW:HIGH in rig coordinates), speed (per second),
    /// tolerance, holds-unpowered, toward-sample (+ or -), and last why. What is left out is taken from the controller or
    /// asked.
    #[arg(long = "axis", value_name = "AXIS[,KEY=VALUE]…", value_parser = AxisFlags::parse)]
    axes: Vec<AxisFlags>,
    /// The order in which the controller homes, as in z,x,y; or never.
    #[arg(long, value_name = "ORDER")]
    home: Option<String>,
    /// What happens to a running job when its client goes.
    #[arg(long, value_enum, value_name = "WHAT")]
    on_client_lost: Option<Lost>,
    /// Ask nothing: take what is proposed, and write.
    #[arg(long)]
    yes: bool,
    /// Show the rig file, and write nothing.
    #[arg(long)]
    print: bool,
    /// The folder for the audit log of steps by hand; without it, the platform's data folder.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// What happens to a job whose client goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lost {
    /// Its axes stop.
    Stop,
    /// It goes on to its end.
    Continue,
}

impl Lost {
    fn word(self) -> &'static str {
        match self {
            Lost::Stop => "stop",
            Lost::Continue => "continue",
        }
    }
}

/// A name as rig files take it.
fn name(text: &str) -> Result<String, String> {
    if crate::model::Name::is_valid(text) {
        return Ok(text.to_owned());
    }
    Err("use a-z, 0-9, - and _, at most 32 of them".into())
}

pub(super) fn run(args: &InitArgs) -> ExitCode {
    let done = if args.yes {
        write_down(args, &mut Nobody)
    } else if io::stdin().is_terminal() {
        write_down(args, &mut Terminal)
    } else {
        Err("nobody is there to answer: standard input is no terminal. Say what is known by flags, and add --yes"
            .into())
    };
    match done {
        Ok(text) => {
            say(io::stdout(), text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

fn write_down(args: &InitArgs, person: &mut dyn Person) -> Result<String, String> {
    let old = match fs::read_to_string(&args.rig) {
        Ok(text) => Some(text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(format!("{} can't be read: {e}", args.rig.display())),
    };
    // Nobody serves this rig meanwhile: what is asked here would disturb a server's connections.
    let _ownership = own(Some(&args.rig)).map_err(|e| e.what)?;
    let (place, port) = choose(args, person)?;
    let found = probe::ask(&place, args.driver.as_deref(), args.baud, |driver, baud| {
        let rate = if baud == 0 { String::new() } else { format!(" at {baud} baud") };
        say(io::stderr(), &format!("Asking for {driver}{rate} …"));
    })?;
    person.say(&format!("Found {}.", found.words()));
    let known = Known::of(old.as_deref(), args.stage.as_deref());
    if let (Some(stage), Some(driver)) = (&known.stage, known.driver.as_deref().filter(|d| *d != found.driver)) {
        return Err(format!(
            "the stage {stage:?} of {} is driven by {driver}; name another with --stage",
            args.rig.display()
        ));
    }
    let draft = decide::draft(args, person, &found, &place, port, &known)?;
    let new = render::render(&draft);
    let text = match &old {
        None => new,
        Some(old) => merge::over(old, &new).map_err(|e| format!("{}: {e}", args.rig.display()))?,
    };
    settle(args, person, old.as_deref(), &text)
}

/// Checks the text, shows what changes, asks, and writes.
fn settle(args: &InitArgs, person: &mut dyn Person, old: Option<&str>, text: &str) -> Result<String, String> {
    let file = args.rig.display();
    if let Err(problems) = config::parse(text, &args.rig, &devices::known()) {
        return Err(format!(
            "what would be written is no good rig file, so nothing was:\n{}\n\n{text}",
            problems.render(false)
        ));
    }
    if args.print {
        return Ok(text.to_owned());
    }
    if let Some(old) = old {
        let changes = merge::diff(&file.to_string(), old, text);
        if changes.is_empty() {
            return Ok(format!("{file} says all of this already; nothing was changed.\n{}", next(&args.rig)));
        }
        person.say(&changes);
    } else if person.is_there() {
        person.say(text);
    }
    if !yes(person, &format!("Write {file}"), true)? {
        return Err("nothing was written".into());
    }
    let copy = match written::replace(&args.rig, text)? {
        Backup::NoFile => String::new(),
        Backup::At(copy) => format!("As it was before: {}\n", copy.display()),
    };
    Ok(format!("Wrote {file}.\n{copy}{}", next(&args.rig)))
}

fn next(rig: &Path) -> String {
    let rig = super::serve::shell_word(&rig.display().to_string());
    format!(
        "Next: `steadyhand doctor --rig {rig}` holds it against the hardware, `steadyhand jog --rig {rig}` moves it by \
         hand, and `steadyhand connect claude-desktop --rig {rig}` (or claude-code, codex, eaa) lets a client in."
    )
}

/// The port: the one that was named, or one of those that are there.
fn choose(args: &InitArgs, person: &mut dyn Person) -> Result<(Place, Port), String> {
    let listed = ports::listed().unwrap_or_default();
    let path = match &args.port {
        Some(named) => named.clone(),
        None => {
            let usb: Vec<_> = listed.iter().filter(|l| l.port.usb.is_some()).collect();
            match usb.as_slice() {
                [] => {
                    return Err(
                        "no serial port on USB was found: plug the controller in and switch it on, or name its port \
                                with --port (see `steadyhand ports`)"
                            .into(),
                    );
                }
                [one] => one.port.path.clone(),
                many if !person.is_there() => {
                    let paths: Vec<&str> = many.iter().map(|l| l.port.path.as_str()).collect();
                    return Err(format!("there are several ports: {}; name one with --port", paths.join(", ")));
                }
                many => {
                    for (i, l) in many.iter().enumerate() {
                        person.say(&format!("  {}  {}: {}", i + 1, l.port.path, l.probably()));
                    }
                    ask(person, "Which port", Some("1"), "--port", |text| {
                        let n: usize = text.parse().map_err(|_| "type its number".to_owned())?;
                        n.checked_sub(1)
                            .and_then(|i| many.get(i))
                            .map(|l| l.port.path.clone())
                            .ok_or("there is no such number".into())
                    })?
                }
            }
        }
    };
    let here = listed.iter().find(|l| l.port.path == path);
    if let Some(l) = here.filter(|l| !l.users.processes.is_empty()) {
        return Err(format!("{path} is in use by {}: close that program first", l.users));
    }
    if args.port.is_none() {
        let what = here.map_or("", |l| l.probably());
        let question = format!("Ask the device on {path} ({what}) what it is? That writes to it");
        if !yes(person, &question, true)? {
            return Err("nothing was asked and nothing written; name the right port with --port".into());
        }
    }
    let place = Place::typed(&path);
    Ok((place.clone(), identity(&path, &listed).unwrap_or(Port::Place(place))))
}

/// The USB identity of a port, if no other port has the same.
fn identity(path: &str, listed: &[ports::Listed]) -> Option<Port> {
    let usb = listed.iter().find(|l| l.port.path == path)?.port.usb.as_ref()?;
    let alike = |number: bool| {
        let same = listed
            .iter()
            .filter_map(|l| l.port.usb.as_ref())
            .filter(|u| (u.vid, u.pid) == (usb.vid, usb.pid) && (!number || u.number == usb.number));
        same.count()
    };
    let id = format!("{:04x}:{:04x}", usb.vid, usb.pid);
    let number = usb.number.clone().filter(|_| alike(true) == 1);
    (number.is_some() || alike(false) == 1).then(|| Port::Usb { id, number, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::super::host::Users;
    use super::*;
    use crate::devices::link::{SerialPort, UsbPort};

    fn listed(ports: &[(&str, Option<&str>)]) -> Vec<ports::Listed> {
        let one = |(path, number): &(&str, Option<&str>)| {
            let usb =
                UsbPort { vid: 0x1a86, pid: 0x7523, number: number.map(str::to_owned), maker: None, product: None };
            ports::Listed { port: SerialPort { path: (*path).into(), usb: Some(usb) }, users: Users::default() }
        };
        ports.iter().map(one).collect()
    }

    #[test]
    fn a_port_is_named_by_what_tells_it_from_all_others() {
        let named = |number: Option<&str>| {
            Some(Port::Usb { id: "1a86:7523".into(), number: number.map(str::to_owned), path: "/dev/a".into() })
        };
        assert_eq!(identity("/dev/a", &listed(&[("/dev/a", None)])), named(None));
        assert_eq!(identity("/dev/a", &listed(&[("/dev/a", Some("N")), ("/dev/b", Some("M"))])), named(Some("N")));
        assert_eq!(identity("/dev/a", &listed(&[("/dev/a", None), ("/dev/b", None)])), None, "twins");
        assert_eq!(identity("/dev/pts/5", &listed(&[("/dev/a", None)])), None);
    }
}
