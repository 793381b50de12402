//! The controller on its port: taken from a server that has it and given back, opened, asked.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

use super::super::owners::{PROMPT, candidates};
use super::super::person::PATIENCE;
use super::super::say;
use super::super::serve::{runtime, signal};
use crate::actor::settle;
use crate::config::{self, Port};
use crate::devices::settings::{Controller, Keeping, Order, Settings, SettingsEvent, Table};
use crate::devices::{self, link};
use crate::flash;
use crate::gateway::local::{Place as Owner, Request, Trouble, ask};
use crate::model::{Name, harmless};

/// How long a port that can't be opened is tried.
const OPEN: Duration = Duration::from_secs(8);
/// What a shell expects of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;
/// So often a list of settings is asked for.
const READS: usize = 3;

/// Where a controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) port: String,
    pub(super) baud: u32,
    pub(super) address: u8,
}

impl Place {
    fn link(&self) -> config::Link {
        let port = match self.port.strip_prefix("tcp://") {
            Some(address) => Port::Tcp(address.to_owned()),
            None => Port::Path(self.port.clone()),
        };
        config::Link { id: Name::new("port"), port, baud: self.baud, dtr: None, rts: None }
    }
}

/// How far the program is, for who asks it to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Nothing has been written.
    Before,
    /// A run is under way: it leads back first.
    Writing,
    /// The run is over.
    After,
    /// Axes may move, and who moves them sees to the end.
    Moving,
}

/// How often somebody has asked for the end. The first time leads back to the old settings.
#[derive(Clone, Default)]
pub(super) struct Ends {
    count: Arc<AtomicU32>,
    phase: Arc<AtomicU8>,
}

impl Ends {
    /// Tells how far the program is.
    pub(super) fn phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Listens for signals from now on. In a run the second ends the program at once, and leaves the journal.
    fn listen(&self) -> Result<(), String> {
        self.phase(Phase::Before);
        let (count, phase) = (self.count.clone(), self.phase.clone());
        let is = move |which: Phase| phase.load(Ordering::Relaxed) == which as u8;
        let threads = runtime(false).map_err(|e| format!("the system gives no threads: {e}"))?;
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                threads.block_on(async {
                    loop {
                        signal().await;
                        if is(Phase::Moving) {
                            continue;
                        }
                        if is(Phase::After) {
                            std::process::exit(INTERRUPTED);
                        }
                        let before = count.fetch_add(1, Ordering::Relaxed);
                        match (is(Phase::Writing), before) {
                            (false, 0) => say(io::stderr(), "Ending; nothing was written."),
                            (false, _) => std::process::exit(INTERRUPTED),
                            (true, 0) => {
                                say(io::stderr(), "Going back to the old settings … (once more ends it at once)");
                            }
                            (true, _) => {
                                say(io::stderr(), "error: ended in the middle; steadyhand flash --resume goes on");
                                std::process::exit(i32::from(super::MIXED));
                            }
                        }
                    }
                });
            })
            .map(drop)
            .map_err(|e| format!("the system gives no thread: {e}"))
    }

    fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A controller that is talked to.
pub(super) struct Bench {
    pub(super) place: Place,
    keeping: &'static Keeping,
    settings: Box<dyn Settings>,
    /// Declared behind the conversation, so that the port is let go before it is given back.
    _lent: Lent,
    ends: Ends,
    /// How many ends have been heeded: one leads back, and must not end that too.
    heeded: u32,
}

impl Bench {
    /// Takes the port and opens it.
    ///
    /// # Errors
    /// In words, when a server doesn't lend it, or there is no such driver.
    pub(super) fn open(driver: &str, place: Place) -> Result<Bench, String> {
        let keeping = flash::profile::keeping(driver).ok_or("the driver writes no settings")?;
        if keeping.addressed || place.address == 1 {
            let ends = Ends::default();
            ends.listen()?;
            let lent = Lent::of(&place)?;
            let settings = flash::open(driver, &place.link(), place.address).map_err(|e| e.what)?;
            return Ok(Bench { place, keeping, settings, _lent: lent, ends, heeded: 0 });
        }
        Err(format!("controllers of driver {driver} have no address; leave --address out"))
    }

    /// Tells how far the program is, for who asks it to end.
    pub(super) fn ends(&self) -> Ends {
        self.ends.clone()
    }

    pub(super) fn keeping(&self) -> &'static Keeping {
        self.keeping
    }

    /// Gives an order and waits for its answer.
    pub(super) fn order(&mut self, order: Order) -> SettingsEvent {
        let over = self.over();
        settle(self.settings.as_mut(), order, OPEN, &over)
    }

    /// Tells whether somebody has asked for the end that has not been heeded yet.
    pub(super) fn over(&self) -> impl Fn() -> bool + use<> {
        let (ends, heeded) = (self.ends.clone(), self.heeded);
        move || ends.count() > heeded
    }

    /// The same, and heeds it.
    pub(super) fn heed(&mut self) -> bool {
        let over = self.over()();
        self.heeded = self.ends.count();
        over
    }

    /// Who it is.
    ///
    /// # Errors
    /// In words, when nobody answers.
    pub(super) fn identify(&mut self) -> Result<Controller, String> {
        match self.order(Order::Identify) {
            SettingsEvent::Known(who) => Ok(who),
            other => Err(format!("{} could not be identified: {}", self.place.port, words(&other))),
        }
    }

    /// The settings that outlive the power. Of a controller that keeps them only when it is told to, what else is in its
    /// working memory would be kept along with a change; so that is taken back first, or only told when one `looks`.
    ///
    /// # Errors
    /// In words, when they can't be read.
    pub(super) fn kept(&mut self, looks: bool) -> Result<Table, String> {
        let working = self.read()?;
        if !self.keeping.saves {
            return Ok(working);
        }
        if looks {
            say(
                io::stderr(),
                "These are the settings in its working memory; a run begins with what outlives the power.",
            );
            return Ok(working);
        }
        match self.order(Order::Recall) {
            SettingsEvent::Done => {}
            other => return Err(format!("what its memory holds can't be taken back: {}", words(&other))),
        }
        let kept = self.read()?;
        let differ = working.differences(&kept);
        if !differ.is_empty() {
            let value = |v: &Option<String>| v.clone().unwrap_or_default();
            let one = |(name, was, is): &(String, Option<String>, Option<String>)| {
                format!("{name} was {} and is {} again", value(was), value(is))
            };
            let all: Vec<String> = differ.iter().map(one).collect();
            say(io::stderr(), &format!("note: its working memory was not kept: {}.", all.join(", ")));
        }
        Ok(kept)
    }

    /// All its settings.
    ///
    /// # Errors
    /// In words, when they can't be read.
    pub(super) fn read(&mut self) -> Result<Table, String> {
        let mut last = String::new();
        for _ in 0..READS {
            match self.order(Order::Read) {
                SettingsEvent::Table(table) => return Ok(table),
                SettingsEvent::Refused(why) => return Err(format!("its settings can't be read: {why}")),
                other => last = words(&other),
            }
        }
        Err(format!("its settings can't be read: {last}"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.settings.close();
    }
}

/// A port that servers have lent; dropping it gives it back.
pub(super) struct Lent(Vec<(Owner, String)>);

impl Lent {
    /// Asks the servers that have this port to lend it.
    ///
    /// # Errors
    /// In words, when one has it and doesn't lend it.
    pub(super) fn of(place: &Place) -> Result<Lent, String> {
        let mut lent = Lent(Vec::new());
        borrow(place, &mut lent.0)?;
        Ok(lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for (owner, device) in self.0.drain(..) {
            match ask(&owner, &Request::Reclaim { device: device.clone() }, PATIENCE) {
                Ok(said) => say(io::stderr(), &harmless(&said.text)),
                Err(e) => {
                    let what =
                        format!("note: the server could not take {device} back: {e}. Run steadyhand reclaim {device}");
                    say(io::stderr(), &what);
                }
            }
        }
    }
}

fn words(event: &SettingsEvent) -> String {
    match event {
        SettingsEvent::NoPort(what) | SettingsEvent::Refused(what) | SettingsEvent::Unclear(what) => what.clone(),
        _ => "it said something else".into(),
    }
}

/// Who has lent it already when another doesn't is in `lenders` all the same.
fn borrow(place: &Place, lenders: &mut Vec<(Owner, String)>) -> Result<(), String> {
    for owner in candidates(None)? {
        let Some(file) = owner.about_owner().and_then(|about| about.file) else { continue };
        let Ok(rig) = config::load(&file, &devices::known()) else { continue };
        let Some(device) = stage_at(&rig, &place.port).map(|s| s.id.to_string()) else { continue };
        match ask(&owner, &Request::Status, PROMPT) {
            Err(Trouble::Nobody) => {}
            Err(other) => {
                return Err(format!("the server of {} has the port and does not answer: {other}", file.display()));
            }
            Ok(_) => {
                let said =
                    ask(&owner, &Request::Release { device: device.clone() }, PATIENCE).map_err(|e| e.to_string())?;
                if !said.ok {
                    return Err(format!(
                        "the server of {} doesn't lend {device}: {}",
                        file.display(),
                        harmless(&said.text)
                    ));
                }
                say(io::stderr(), &harmless(&said.text));
                lenders.push((owner, device));
            }
        }
    }
    Ok(())
}

/// The stage of a rig that is on a port.
pub(super) fn stage_at<'a>(rig: &'a config::Rig, port: &str) -> Option<&'a config::Stage> {
    let real =
        |path: &str| std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |p| p.to_string_lossy().into_owned());
    let link = rig.links.iter().find(|l| link::path(l).is_some_and(|path| real(&path) == real(port)))?;
    rig.stages.iter().find(|s| s.link == link.id)
}
