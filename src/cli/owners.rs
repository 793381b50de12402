//! Which running server a command means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::config;
use crate::gateway::local::{Place, Request, Trouble, ask, places};
use crate::tools::Said;

/// How long a running server may take for an answer that it needs not look for.
pub(super) const PROMPT: Duration = Duration::from_secs(3);

/// Which rig is meant.
#[derive(Debug, Clone, Args)]
pub(super) struct Which {
    /// The rig file of the running server that is meant.
    ///
    /// Without it, the server that runs is meant; of several, the one of `rig.toml` in the current folder or in the
    /// platform's folder for configuration.
    #[arg(long, value_name = "FILE")]
    pub(super) rig: Option<PathBuf>,
}

/// A server that is or was there, with what it said to a request.
pub(super) struct Heard {
    /// Who it is, in words.
    pub(super) who: String,
    /// Its answer.
    pub(super) said: Result<Said, Trouble>,
}

/// The places of a rig file, or of all servers that have run.
pub(super) fn candidates(rig: Option<&Path>) -> Result<Vec<Place>, String> {
    match rig {
        Some(file) => Place::of_rig(file).map(|p| vec![p]).map_err(|e| format!("{}: {e}", file.display())),
        None => places().map_err(|e| format!("the folder of local sockets can't be read: {e}")),
    }
}

/// Asks all these places at once; those where nobody is are left out. One that hangs holds up no other.
pub(super) fn ask_all(places: Vec<Place>, request: &Request, patience: Duration) -> Vec<Heard> {
    let asked: Vec<_> = places
        .into_iter()
        .map(|place| {
            let (request, who) = (request.clone(), who(&place));
            let ask = move || ask(&place, &request, patience);
            (who, std::thread::Builder::new().spawn(ask))
        })
        .collect();
    let heard = asked.into_iter().map(|(who, thread)| {
        let said = match thread.map(std::thread::JoinHandle::join) {
            Ok(Ok(said)) => said,
            Ok(Err(_)) => Err(Trouble::Silent(std::io::Error::other("asking failed"))),
            Err(error) => Err(Trouble::Silent(error)),
        };
        Heard { who, said }
    });
    heard.filter(|h| !matches!(h.said, Err(Trouble::Nobody))).collect()
}

/// Who an owner says it is.
fn who(place: &Place) -> String {
    let Some(about) = place.about_owner() else { return "an unnamed rig".into() };
    let file = about.file.map_or_else(|| "the demonstration".to_owned(), |f| f.display().to_string());
    format!("\"{}\" ({file}), process {}", about.rig, about.pid)
}

/// What a person reads when no server runs.
pub(super) fn nobody(rig: Option<&Path>) -> String {
    let which = rig.map_or(String::new(), |f| format!(" for {}", f.display()));
    format!("no steadyhand server is running{which}")
}

/// The same with how to have one.
fn nobody_yet(rig: Option<&Path>) -> String {
    let file = rig.map_or(String::new(), |f| format!(" --rig {}", super::serve::shell_word(&f.display().to_string())));
    format!("{}. Start one with `steadyhand serve{file}`, or let a client start it", nobody(rig))
}

/// The one running server that is meant.
pub(super) fn the_one(which: &Which) -> Result<Place, String> {
    if which.rig.is_some() {
        let place = candidates(which.rig.as_deref())?.remove(0);
        return match ask(&place, &Request::Status, PROMPT) {
            Err(Trouble::Nobody) => Err(nobody_yet(which.rig.as_deref())),
            _ => Ok(place),
        };
    }
    let alive = |place: &Place| !matches!(ask(place, &Request::Status, PROMPT), Err(Trouble::Nobody));
    let mut running: Vec<Place> = candidates(None)?.into_iter().filter(alive).collect();
    if running.len() > 1
        && let Ok(file) = config::find(None)
        && let Ok(own) = Place::of_rig(&file)
        && running.contains(&own)
    {
        return Ok(own);
    }
    match running.len() {
        0 => Err(nobody_yet(None)),
        1 => Ok(running.remove(0)),
        _ => {
            let list: Vec<String> = running.iter().map(who).collect();
            Err(format!("several servers run; name one with --rig FILE:\n  {}", list.join("\n  ")))
        }
    }
}
