//! Profiles as files: the ones that ship, what a controller holds as one, and what differs between two.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::super::{fail, say};
use super::bench::{Bench, Place};
use super::{At, now, show, told};
use crate::devices::settings::{Controller, Table};
use crate::flash::journal;
use crate::flash::profile::{ANY, Profile, Read, drivers, keeping};
use crate::flash::shipped::SHIPPED;
use crate::store;

/// Print everything that a controller holds, as a profile.
#[derive(Debug, Args)]
pub(super) struct DumpArgs {
    #[command(flatten)]
    at: At,
    /// The driver by which it is spoken to; without it, each that can is tried.
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
}

/// Show what differs between two profiles or backups.
///
/// Ends with 0 when nothing does, and with 1 otherwise.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// One.
    a: String,
    /// The other.
    b: String,
}

/// List the profiles that ship.
#[derive(Debug, Args)]
pub(super) struct ListArgs {}

/// The profile of a name: a file, or one that ships.
pub(super) fn profile(name: &str) -> Result<Read, String> {
    let path = Path::new(name);
    if !path.exists()
        && let Some((file, text)) =
            SHIPPED.iter().find(|(file, _)| file.trim_end_matches(".toml") == name || *file == name)
    {
        return Read::parse(text, Path::new(file)).map_err(|p| told(&p));
    }
    Read::load(path).map_err(|p| format!("{}\nProfiles that ship: steadyhand flash list", told(&p)))
}

pub(super) fn list() -> ExitCode {
    let mut rows = vec![["profile", "driver", "for", "source"].map(str::to_owned).to_vec()];
    for (file, text) in SHIPPED {
        match Read::parse(text, Path::new(file)) {
            Ok(Read { profile, .. }) => {
                let name = file.trim_end_matches(".toml").to_owned();
                rows.push(vec![name, profile.driver, profile.name, profile.source]);
            }
            Err(problems) => return fail(&told(&problems)),
        }
    }
    say(io::stdout(), &show::table(&rows));
    ExitCode::SUCCESS
}

pub(super) fn dump(args: &DumpArgs) -> ExitCode {
    match dumped(args) {
        Ok(text) => {
            say(io::stdout(), text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

fn dumped(args: &DumpArgs) -> Result<String, String> {
    let port = args.at.port.clone().ok_or("say where the controller is with --port (steadyhand ports lists them)")?;
    let place = Place { port, baud: args.at.baud, address: args.at.address };
    let tried = match &args.driver {
        Some(name) if keeping(name).is_some() => vec![name.as_str()],
        Some(name) => return Err(format!("settings of {name:?} can't be read; there is: {}", drivers().join(", "))),
        None => drivers(),
    };
    let mut said = Vec::new();
    for driver in tried {
        say(io::stderr(), &format!("Asking for {driver} …"));
        let mut bench = Bench::open(driver, place.clone())?;
        match bench.identify() {
            Ok(who) => {
                let table = bench.read()?;
                return Ok(Profile::of(driver, &who, &table, None).render(&table));
            }
            Err(why) => said.push(format!("{driver}: {why}")),
        }
    }
    Err(format!("nobody was recognised.\n  {}", said.join("\n  ")))
}

pub(super) fn diff(args: &DiffArgs) -> ExitCode {
    let sides = match (profile(&args.a), profile(&args.b)) {
        (Ok(a), Ok(b)) => [a.profile, b.profile],
        (Err(error), _) | (_, Err(error)) => return fail(&error),
    };
    let rows = differing(&sides[0], &sides[1]);
    if rows.is_empty() {
        say(io::stdout(), "nothing differs");
        return ExitCode::SUCCESS;
    }
    let mut all = vec![vec!["setting".to_owned(), args.a.clone(), args.b.clone(), "what it is".into()]];
    all.extend(rows);
    say(io::stdout(), &show::table(&all));
    ExitCode::FAILURE
}

/// What two profiles say differently, a row each.
fn differing(a: &Profile, b: &Profile) -> Vec<Vec<String>> {
    let values = |p: &Profile| -> BTreeMap<String, String> {
        let full = |w: &crate::flash::profile::Wanted| {
            let axis = w.axis.as_deref().filter(|axis| *axis != ANY);
            let name = keeping(&p.driver).and_then(|k| (k.name)(&w.name, axis));
            name.unwrap_or_else(|| format!("{} ({})", w.name, w.axis.as_deref().unwrap_or("controller")))
        };
        p.settings.iter().map(|w| (full(w), w.value.clone())).collect()
    };
    let (left, right) = (values(a), values(b));
    let meaning = |name: &str| keeping(&a.driver).and_then(|k| (k.meaning)(name));
    let names: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let mut rows = Vec::new();
    for name in names {
        let (l, r) = (left.get(name), right.get(name));
        let known = meaning(name);
        let same = match (l, r, &known) {
            (Some(l), Some(r), Some(known)) => known.form.same(l, r),
            (l, r, _) => l == r,
        };
        if !same {
            let shown = |v: Option<&String>| v.cloned().unwrap_or_else(|| "-".into());
            rows.push(vec![name.clone(), shown(l), shown(r), known.map_or(String::new(), |m| m.what)]);
        }
    }
    if a.driver != b.driver {
        rows.insert(0, vec!["driver".into(), a.driver.clone(), b.driver.clone(), String::new()]);
    }
    rows
}

/// Keeps everything that a controller holds in a file of its own.
///
/// # Errors
/// In words, when it can't be written.
pub(super) fn back_up(
    driver: &str,
    who: &Controller,
    table: &Table,
    place: &Place,
    folder: Option<&Path>,
) -> Result<PathBuf, String> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => journal::folder().map_err(|e| e.what)?.join("backups"),
    };
    let taken = now();
    let text = Profile::of(driver, who, table, Some((&taken, &place.port, place.address))).render(table);
    let file = free_name(&folder, driver, place, "toml")?;
    store::replace(&file, text.as_bytes()).map_err(|e| e.what)?;
    Ok(file)
}

/// A file's name with the time, the driver and the port, that no file has yet; its folder is made.
///
/// # Errors
/// In words, when the folder can't be made.
pub(super) fn free_name(folder: &Path, driver: &str, place: &Place, ending: &str) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{} can't be made: {e}", folder.display()))?;
    let slug = |text: &str| -> String {
        let plain = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
        plain.collect::<String>().trim_matches('-').to_owned()
    };
    let stem =
        format!("{}-{driver}-{}-{}", slug(now().get(..19).unwrap_or_default()), slug(&place.port), place.address);
    let numbered = (1..).map(|n| if n == 1 { String::new() } else { format!("-{n}") });
    let mut names = numbered.map(|n| folder.join(format!("{stem}{n}.{ending}")));
    Ok(names.find(|p| !p.exists()).unwrap_or_else(|| folder.join(format!("{stem}.{ending}"))))
}
