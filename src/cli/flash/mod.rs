//! `steadyhand flash`: a controller's settings, written into the memory that outlives the power, with a way back.

mod bench;
mod files;
mod new;
mod record;
mod rig;
mod show;
mod verify;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::init::person::{Nobody, Person, Terminal, yes_unless};
use super::{colours, fail, say};
use crate::config::{self, Problems};
use crate::devices::link::{self, Leave};
use crate::flash::journal::{self, Journal};
use crate::flash::plan::{known_dangers, plan};
use crate::flash::profile::{Profile, Read};
use crate::flash::run::{Outcome, Run};
use crate::gateway::local::Sole;
use bench::{Bench, Phase, Place};
use record::Record;

/// Write a controller's settings into the memory that outlives the power, with a way back.
///
/// Identifies the controller, keeps all its settings in a backup, holds the profile against it, shows what would change
/// and asks. Then it writes one setting at a time, reads everything back after each, restarts the controller and compares
/// again. Whatever fails leads back to the old settings; a run that was cut off is finished or undone by --resume.
/// Nothing moves. A server that has the port is asked for it, and takes it back afterwards.
///
/// Ends with 0 when the controller holds the new settings (or had them), 1 when it holds the old ones, 3 when it holds
/// neither or nobody can tell, 4 when it holds the new ones but was not seen to restart.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct FlashArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The profile: a file, or the name of one that ships (steadyhand flash list).
    #[arg(value_name = "PROFILE", required_unless_present_any = ["restore", "resume", "verify"])]
    profile: Option<String>,
    /// Write the settings of a backup back into the controller that it was read from.
    #[arg(long, value_name = "BACKUP", conflicts_with_all = ["profile", "resume"])]
    restore: Option<PathBuf>,
    /// Finish a run that was cut off, or undo it if it was on its way back.
    #[arg(long, conflicts_with = "profile")]
    resume: bool,
    /// Afterwards, or alone: go through limit switches, a first step and homing with a person, and keep a report.
    #[arg(long)]
    verify: bool,
    /// The rig file that describes this controller: what follows from the new settings is shown and written after a yes.
    ///
    /// Without it, the one that `serve` would use, if a stage of it is at this port.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// The driver, for --verify alone.
    #[arg(long, value_name = "NAME", default_value = "grbl", hide_default_value = true)]
    driver: String,
    #[command(flatten)]
    at: At,
    /// The controller's axis for what the profile says of any axis.
    #[arg(long, value_name = "AXIS")]
    axis: Option<String>,
    /// Show what would change, and write nothing but the backup.
    #[arg(long)]
    dry_run: bool,
    /// The controller was switched off and on since these settings were written: that they are there proves that they
    /// outlive the power.
    #[arg(long, conflicts_with = "resume")]
    restarted: bool,
    /// Ask nothing.
    #[arg(long)]
    yes: bool,
    /// Allow something dangerous by its name, such as limits-off; may be given several times.
    #[arg(long, value_name = "NAME")]
    allow: Vec<String>,
    /// Say how it ended as JSON on standard output; everything else goes to standard error.
    #[arg(long)]
    json: bool,
}

/// Where the controller is.
#[derive(Debug, Clone, Args)]
struct At {
    /// The port: /dev/ttyUSB0, COM5, a pseudo-terminal, or tcp://HOST:PORT.
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// The rate of the port.
    #[arg(long, value_name = "BAUD", default_value_t = 115_200)]
    baud: u32,
    /// The controller's address, where several share the port.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=99))]
    address: u8,
    /// The folder for backups; without it, the platform's data folder.
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Dump(files::DumpArgs),
    Diff(files::DiffArgs),
    List(files::ListArgs),
    New(new::NewArgs),
}

/// The exit code for a controller that holds neither the old settings nor the new ones.
const MIXED: u8 = 3;
/// The exit code for new settings that no restart has proved.
const UNPROVED: u8 = 4;

pub(super) fn run(args: &FlashArgs) -> ExitCode {
    match &args.verb {
        Some(Verb::Dump(args)) => files::dump(args),
        Some(Verb::Diff(args)) => files::diff(args),
        Some(Verb::List(_)) => files::list(),
        Some(Verb::New(args)) => new::run(args),
        None => match write(args) {
            Ok(code) => code,
            Err(error) => {
                if args.json {
                    say(io::stdout(), &show::failed(&error));
                }
                fail(&error)
            }
        },
    }
}

/// Whether a link may be opened: not while a change of the settings of a controller on it is open.
pub(super) fn leave(at: &config::Link) -> Leave {
    let at = at.clone();
    std::sync::Arc::new(move || {
        let Ok(folder) = journal::folder() else { return Ok(()) };
        let Some(port) = link::path(&at) else { return Ok(()) };
        match journal::at_port(&folder, &port) {
            Ok(None) => Ok(()),
            Ok(Some((_, open))) if Work::at(&port).is_err() => Err(format!(
                "The settings of {} are being changed, since {}; the port is opened by itself afterwards.",
                open.who, open.began
            )),
            Ok(Some((_, open))) => Err(format!(
                "A change of the settings of {}, begun {}, was cut off: what it holds nobody knows. Run `steadyhand flash \
                 --resume --port {port}`; the port is opened by itself afterwards.",
                open.who, open.began
            )),
            Err(error) => Err(error.what),
        }
    })
}

/// The right to change settings at a port, of one process at a time.
struct Work(#[expect(dead_code, reason = "it is held")] Option<Sole>);

impl Work {
    /// # Errors
    /// Who has it.
    fn at(port: &str) -> Result<Work, String> {
        let mut who = String::new();
        // Who only looks whether somebody is at work has it for a moment.
        for _ in 0..4 {
            match Sole::take(&format!("settings at {}", journal::real(port)), "flash") {
                Ok(Ok(sole)) => return Ok(Work(Some(sole))),
                Ok(Err(other)) => who = other,
                // Without a folder for locks the port itself is the lock.
                Err(_) => return Ok(Work(None)),
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Err(format!("settings at {port} are being changed already, by {who}: wait until that has ended"))
    }
}

fn write(args: &FlashArgs) -> Result<ExitCode, String> {
    known_dangers(&args.allow)?;
    if args.resume {
        return resume(args);
    }
    // With a port alone, or with a profile whose motors are known: nothing is written then.
    if args.verify && args.profile.is_none() && args.restore.is_none() {
        return verify_alone(args);
    }
    let read = match (&args.restore, &args.profile) {
        (Some(backup), _) => Read::load(backup).map_err(|p| told(&p))?,
        (None, Some(name)) => files::profile(name)?,
        (None, None) => return Err("name a profile".into()),
    };
    if args.restore.is_some() && read.profile.serial.is_none() {
        return Err("this is no backup: it has no [backup] section. Give it as a profile".into());
    }
    let place = place(args, &read.profile)?;
    let _work = Work::at(&place.port)?;
    no_open_journal(&place)?;
    let mut person = person(args);
    let mut bench = Bench::open(&read.profile.driver, place)?;
    let who = bench.identify()?;
    say(io::stderr(), &format!("This is {who}, with the axes {}.", who.axes.join(", ")));
    if args.restore.is_some() {
        same_place(args, &read.profile, &bench, person.as_mut())?;
    }
    let keeping = bench.keeping();
    let old = bench.kept(args.dry_run)?;
    let backup = files::back_up(&read.profile.driver, &who, &old, &bench.place, args.at.backup_dir.as_deref())?;
    say(io::stderr(), &format!("All its settings are kept in {}.", backup.display()));
    let plan = plan(&read, keeping, &who, &old, args.axis.as_deref(), &args.allow).map_err(|p| told(&p))?;
    say(io::stderr(), &show::plan(&plan, keeping));
    let folder = journal::folder().map_err(|e| e.what)?;
    let unproved = journal::unproved(&folder, &bench.place.port, bench.place.address);
    // A change that was whole, and that nobody saw outlive the power.
    let owed = Journal::load(&unproved).filter(|j| j.who == who && j.strange(&old).is_empty());
    let owed = if args.restarted && plan.changes.is_empty() && !args.dry_run {
        // By the person's word what was read is what outlives the power.
        let _ = std::fs::remove_file(&unproved);
        None
    } else {
        owed
    };
    if plan.changes.is_empty() && (owed.is_none() || args.dry_run) {
        if args.json {
            say(io::stdout(), &show::ended(&plan, &backup, None));
        }
        say(io::stderr(), "The controller has these settings already; nothing was written.");
        if owed.is_some() {
            say(
                io::stderr(),
                "That they outlive the power is not proved: the same command without --dry-run proves it.",
            );
            return Ok(ExitCode::from(UNPROVED));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        if args.json {
            say(io::stdout(), &show::ended(&plan, &backup, None));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if plan.changes.is_empty() {
        say(
            io::stderr(),
            "The controller has these settings already. That they outlive the power is still to be proved.",
        );
    } else if !args.yes {
        if !person.is_there() {
            return Err(
                "nobody is there to say yes: standard input is no terminal. Add --yes, or --dry-run to look".into()
            );
        }
        if !yes_unless(person.as_mut(), "Write these settings", false, &bench.over()) {
            return Err("nothing was written".into());
        }
    }
    if bench.over()() {
        return Err("nothing was written".into());
    }
    let before = owed.filter(|_| plan.changes.is_empty()).map(|owed| owed.old);
    let journal = Journal {
        goal: crate::flash::run::Goal::New,
        driver: read.profile.driver.clone(),
        port: bench.place.port.clone(),
        baud: bench.place.baud,
        address: bench.place.address,
        who: who.clone(),
        backup: backup.clone(),
        began: now(),
        old: before.unwrap_or_else(|| journal::values(&plan.old)),
        new: journal::values(&plan.new),
    };
    let (was, new) = journal.tables(&plan.old)?;
    let mut run = Run::new(who, was, new, keeping);
    let place = bench.place.clone();
    let ends = bench.ends();
    let file = journal::file(&folder, &place.port, place.address);
    let outcome = carried_out(&mut run, bench, journal, person.as_mut(), &backup, file)?;
    if args.json {
        say(io::stdout(), &show::ended(&plan, &backup, Some(&outcome)));
    }
    if let Outcome::New { .. } = outcome {
        rig::update(args.rig.as_deref(), &place, keeping, (&plan.old, &plan.new), person.as_mut())?;
        if args.verify {
            ends.phase(Phase::Moving);
            commissioned(args, &place, &read.profile, person.as_mut(), &backup)?;
        }
    }
    Ok(code(&outcome))
}

/// Goes through the new stage with a person, and keeps the report beside the backup.
fn commissioned(
    args: &FlashArgs,
    place: &Place,
    profile: &Profile,
    person: &mut dyn Person,
    backup: &Path,
) -> Result<(), String> {
    let name = rig::name(args.rig.as_deref(), place);
    let report = verify::verify(place, &profile.driver, Some(profile), name.as_deref(), person)?;
    let file = backup.with_extension("commissioning.txt");
    crate::store::replace(&file, report.as_bytes()).map_err(|e| e.what)?;
    say(io::stderr(), &format!("{report}\nThe report is kept in {}.", file.display()));
    Ok(())
}

/// The same alone, of a controller whose settings stay.
fn verify_alone(args: &FlashArgs) -> Result<ExitCode, String> {
    let profile = match &args.profile {
        Some(name) => Some(files::profile(name)?.profile),
        None => None,
    };
    let port = args.at.port.clone().ok_or("say where the controller is with --port (steadyhand ports lists them)")?;
    let place = Place { port, baud: args.at.baud, address: args.at.address };
    no_open_journal(&place)?;
    let driver = profile.as_ref().map_or(args.driver.as_str(), |p| &p.driver);
    let mut person = person(args);
    let lent = bench::Lent::of(&place)?;
    let name = rig::name(args.rig.as_deref(), &place);
    let report = verify::verify(&place, driver, profile.as_ref(), name.as_deref(), person.as_mut());
    drop(lent);
    let report = report?;
    let folder = args
        .at
        .backup_dir
        .clone()
        .map_or_else(|| journal::folder().map(|f| f.join("backups")).map_err(|e| e.what), Ok)?;
    let file = files::free_name(&folder, driver, &place, "commissioning.txt")?;
    crate::store::replace(&file, report.as_bytes()).map_err(|e| e.what)?;
    say(io::stderr(), &format!("{report}\nThe report is kept in {}.", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Who answers.
fn person(args: &FlashArgs) -> Box<dyn Person> {
    if args.yes || !io::stdin().is_terminal() { Box::new(Nobody) } else { Box::new(Terminal) }
}

/// Carries out a run, with its journal and its record, and tells how it ended.
fn carried_out(
    run: &mut Run,
    bench: Bench,
    journal: Journal,
    person: &mut dyn Person,
    backup: &Path,
    file: PathBuf,
) -> Result<Outcome, String> {
    let ends = bench.ends();
    ends.phase(Phase::Writing);
    let folder = journal::folder().map_err(|e| e.what)?;
    let unproved = journal::unproved(&folder, &journal.port, journal.address);
    let kept = journal.clone();
    let mut hands = Record::new(bench, journal, file, person);
    let outcome = crate::flash::carry_out(run, &mut hands);
    let told = show::outcome(&outcome, backup);
    hands.finish(&outcome, run.log(), &told)?;
    ends.phase(Phase::After);
    say(io::stderr(), &told);
    if matches!(outcome, Outcome::New { proved: false }) {
        kept.write(&unproved).map_err(|e| e.what)?;
    } else {
        // Mostly there is none.
        let _ = std::fs::remove_file(&unproved);
    }
    Ok(outcome)
}

/// What is of one controller may go into another only when a person says so.
fn other(args: &FlashArgs, person: &mut dyn Person, bench: &Bench, what: &str) -> Result<(), String> {
    if args.allow.iter().any(|a| a == "other-controller") {
        return Ok(());
    }
    person.say(what);
    if yes_unless(person, "Is it the one all the same", false, &bench.over()) {
        return Ok(());
    }
    Err(format!("{what} If it is the one all the same, add --allow other-controller; nothing was written"))
}

/// A backup of a controller without a serial number goes where it came from.
fn same_place(args: &FlashArgs, backup: &Profile, bench: &Bench, person: &mut dyn Person) -> Result<(), String> {
    let (Some(serial), Some((port, address))) = (&backup.serial, &backup.place) else { return Ok(()) };
    let here = &bench.place;
    if !serial.is_empty() || (journal::real(port) == journal::real(&here.port) && *address == here.address) {
        return Ok(());
    }
    let what = format!(
        "The backup is of the controller at {port}, which has no serial number, and this is the one at {}: nothing tells \
         them apart.",
        here.port
    );
    other(args, person, bench, &what)
}

fn resume(args: &FlashArgs) -> Result<ExitCode, String> {
    let folder = journal::folder().map_err(|e| e.what)?;
    let found = match &args.at.port {
        Some(port) => journal::at_port(&folder, port).map_err(|e| e.what)?.into_iter().collect(),
        None => journal::open(&folder).map_err(|e| e.what)?,
    };
    let (file, journal) = match found.as_slice() {
        [] => return Err("no change of settings is open".into()),
        [one] => one.clone(),
        many => {
            let ports: Vec<&str> = many.iter().map(|(_, j)| j.port.as_str()).collect();
            return Err(format!("several are open; say which with --port: {}", ports.join(", ")));
        }
    };
    let _work = Work::at(&journal.port)?;
    // Who was at work until now may have closed it, or turned back.
    let journal = Journal::load(&file).ok_or("no change of settings is open any more")?;
    let mut person = person(args);
    let place = Place { port: journal.port.clone(), baud: journal.baud, address: journal.address };
    let mut bench = Bench::open(&journal.driver, place)?;
    let who = bench.identify()?;
    if who != journal.who {
        return Err(format!("the change that is open is of {}, and this is {who}: connect the right one", journal.who));
    }
    let now = bench.read()?;
    let (old, new) = journal.tables(&now)?;
    let strange = journal.strange(&now);
    if !strange.is_empty() && who.serial.is_empty() {
        let some: Vec<String> = strange.iter().take(5).map(|s| format!("{} = {}", s.name, s.value)).collect();
        let what = format!(
            "{} of its settings are neither as before the change nor as after it ({}{}): it may be another controller, or \
             its memory was lost.",
            strange.len(),
            some.join(", "),
            if strange.len() > some.len() { " …" } else { "" }
        );
        other(args, person.as_mut(), &bench, &what)?;
    }
    let goal = journal.goal;
    let to = if goal == crate::flash::run::Goal::New { "the new settings" } else { "the old settings" };
    say(io::stderr(), &format!("The change of {who} that was begun {} goes on to {to}.", journal.began));
    let wanted = if goal == crate::flash::run::Goal::New { &new } else { &old };
    say(io::stderr(), &show::changes(&now.changes(wanted)));
    if !yes_unless(person.as_mut(), "Go on", true, &bench.over()) {
        return Err("nothing was written; the change stays open".into());
    }
    let mut run = Run::resumed(goal, who, old, new, bench.keeping());
    let backup = journal.backup.clone();
    let outcome = carried_out(&mut run, bench, journal, person.as_mut(), &backup, file)?;
    if args.json {
        say(io::stdout(), &show::resumed(&outcome, &backup));
    }
    Ok(code(&outcome))
}

fn code(outcome: &Outcome) -> ExitCode {
    match outcome {
        Outcome::New { proved: true } => ExitCode::SUCCESS,
        Outcome::New { proved: false } => ExitCode::from(UNPROVED),
        Outcome::Old { .. } => ExitCode::FAILURE,
        Outcome::Mixed { .. } => ExitCode::from(MIXED),
    }
}

/// Where the controller is: as it was said, else as the backup says.
fn place(args: &FlashArgs, profile: &Profile) -> Result<Place, String> {
    let At { port, baud, address, .. } = &args.at;
    match (port, &profile.place) {
        (Some(port), _) => Ok(Place { port: port.clone(), baud: *baud, address: *address }),
        (None, Some((port, address))) if args.restore.is_some() => {
            Ok(Place { port: port.clone(), baud: *baud, address: *address })
        }
        _ => Err("say where the controller is with --port (steadyhand ports lists them)".into()),
    }
}

fn no_open_journal(place: &Place) -> Result<(), String> {
    let folder = journal::folder().map_err(|e| e.what)?;
    match journal::at_port(&folder, &place.port).map_err(|e| e.what)? {
        None => Ok(()),
        Some((_, open)) => Err(format!(
            "a change of the settings of {} at this port, begun {}, was cut off. First run steadyhand flash --resume --port {}",
            open.who, open.began, place.port
        )),
    }
}

/// Problems of a profile, drawn with their lines.
fn told(problems: &Problems) -> String {
    problems.render(colours()).replace("nothing was opened", "nothing was written")
}

/// The time, for people and for names of files.
fn now() -> String {
    crate::store::stamp(std::time::Duration::ZERO)
}
