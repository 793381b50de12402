//! A person's stop, kept on the disk: it outlives the program, however that ends.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::files;
use super::keeper::Keeper;
use crate::model::{Code, Name, RigError};

/// What a person has stopped and not released yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Standing {
    /// The whole rig, whatever its stages are called by now.
    all: bool,
    /// These stages.
    stages: BTreeSet<Name>,
    /// When the first of these stops was given; not known of a record that can't be read.
    since: Option<String>,
    /// What is wrong with the record that was found.
    unreadable: Option<String>,
}

impl Standing {
    fn is_empty(&self) -> bool {
        !self.all && self.stages.is_empty()
    }
}

/// The record of a person's stop, `stopped.json` in the data folder. A thread of its own writes it, so that a stop
/// waits for no disk, and writes it again when somebody has removed or changed it: only a release ends a stop.
///
/// A record that can't be read is taken for a stop of everything: nobody knows what it said.
pub struct PersonStop(Keeper<Standing>);

impl PersonStop {
    /// Reads what is on record in `data_dir`, and starts the thread that keeps it.
    ///
    /// # Errors
    /// [`Code::Internal`] when the operating system gives no thread; nothing could be kept then.
    pub fn open(data_dir: &Path) -> Result<PersonStop, RigError> {
        let path = data_dir.join("stopped.json");
        let standing = read(&path);
        let kept = path.clone();
        Keeper::guarded("person-stop", standing, move |s| write(&path, s), move |s| lost(&kept, s))
            .map(PersonStop)
            .map_err(|e| RigError::new(Code::Internal, format!("The record of a person's stop gets no thread: {e}.")))
    }

    /// One that is kept in memory alone, for benches and tests.
    pub fn in_memory() -> PersonStop {
        PersonStop(Keeper::in_memory(Standing::default()))
    }

    /// Puts a stop on record: of one stage, or of everything. Doesn't wait for the disk.
    pub fn keep(&self, stage: Option<&Name>) {
        self.0.change(|standing| {
            match stage {
                None => standing.all = true,
                Some(_) if standing.all => {}
                Some(name) => drop(standing.stages.insert(name.clone())),
            }
            standing.since.get_or_insert_with(|| files::stamp(Duration::ZERO));
        });
    }

    /// Takes it off the record, for one stage of `all`, or for everything. Doesn't wait for the disk.
    pub fn release(&self, stage: Option<&Name>, all: &[Name]) {
        self.0.change(|standing| match stage {
            None => *standing = Standing::default(),
            Some(name) => {
                if std::mem::take(&mut standing.all) {
                    standing.stages.extend(all.iter().cloned());
                }
                standing.stages.remove(name);
                if standing.is_empty() {
                    *standing = Standing::default();
                }
            }
        });
    }

    /// Whether the stage is on record as stopped by a person.
    pub fn stops(&self, stage: &Name) -> bool {
        self.0.look(|standing| standing.all || standing.stages.contains(stage))
    }

    /// Whether any stop by a person is on record.
    pub fn stands(&self) -> bool {
        self.0.look(|standing| !standing.is_empty())
    }

    /// What is to be known of the stop that stands, as a clause: since when, or why its record can't be read.
    pub fn words(&self) -> Option<String> {
        let standing = self.0.look(Clone::clone);
        if standing.is_empty() {
            return None;
        }
        let mut words = Vec::new();
        words.extend(standing.since.map(|t| format!("since {t}")));
        words.extend(standing.unreadable);
        words.extend(self.failing().map(|why| format!("it would not outlive the program: {why}")));
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// Why the record can't be written, while it can't.
    pub fn failing(&self) -> Option<String> {
        self.0.failing()
    }

    /// Whether what stands is on the disk, and why not; `None` while the disk has not answered. Doesn't wait.
    pub fn outcome(&self) -> Option<Result<(), String>> {
        self.0.outcome()
    }

    /// Waits until what stands is on the disk, or for so long; `true` when it is. Not for the rig thread.
    pub fn flush(&self, at_most: Duration) -> bool {
        self.0.flush(at_most)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    everything: bool,
    stages: Vec<String>,
    since: Option<String>,
}

fn write(path: &Path, standing: &Standing) -> Result<(), RigError> {
    if standing.is_empty() {
        return match std::fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(files::failed(path, "remove", &e)),
            _ => Ok(()),
        };
    }
    let file = File {
        version: 1,
        everything: standing.all,
        stages: standing.stages.iter().map(Name::to_string).collect(),
        since: standing.since.clone(),
    };
    let text = serde_json::to_vec_pretty(&file)
        .map_err(|e| RigError::new(Code::Internal, format!("A person's stop can't be written as JSON: {e}.")))?;
    files::replace(path, &text)
}

/// Why a stop that stands is not on record any more. What can't be read counts as a stop of everything.
fn lost(path: &Path, standing: &Standing) -> Option<String> {
    if standing.is_empty() {
        return None;
    }
    match parse(path) {
        Ok(found) if (found.all, &found.stages) == (standing.all, &standing.stages) => None,
        Ok(_) => Some(format!("the record {} of a person's stop was removed or changed", path.display())),
        Err(_) if standing.unreadable.is_some() => None,
        Err(why) => Some(format!("the record {} of a person's stop was spoiled ({why})", path.display())),
    }
}

fn read(path: &Path) -> Standing {
    parse(path).unwrap_or_else(|why| unreadable(path, &why))
}

/// What the record says; nothing stands where there is none.
fn parse(path: &Path) -> Result<Standing, String> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Standing::default()),
        Err(e) => return Err(e.to_string()),
    };
    match serde_json::from_slice::<File>(&bytes) {
        Ok(file) if file.version != 1 => Err(format!("version {} is not known", file.version)),
        Ok(file) if file.stages.iter().any(|s| !Name::is_valid(s)) => Err("it names what can be no stage".into()),
        Ok(file) if !file.everything && file.stages.is_empty() => Err("it names no stage".into()),
        Ok(file) => Ok(Standing {
            all: file.everything,
            stages: file.stages.iter().map(|s| Name::new(s)).collect(),
            since: file.since,
            unreadable: None,
        }),
        Err(e) => Err(e.to_string()),
    }
}

fn unreadable(path: &Path, why: &str) -> Standing {
    let words =
        format!("the record {} can't be read ({why}), and is taken for a person's stop of everything", path.display());
    tracing::error!("{words}");
    Standing { all: true, unreadable: Some(words), ..Standing::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    /// Long enough for the record to be looked for again.
    const RETRIED: Duration = Duration::from_millis(1300);

    fn x() -> Name {
        Name::new("x")
    }

    #[test]
    fn a_persons_stop_outlives_the_program_and_a_release_too() {
        let dir = tempfile::tempdir().unwrap();
        let stop = PersonStop::open(dir.path()).unwrap();
        assert!(!stop.stops(&x()) && stop.words().is_none());
        stop.keep(None);
        assert!(stop.stops(&x()), "at once");
        assert!(stop.flush(SOON));
        let again = PersonStop::open(dir.path()).unwrap();
        assert!(again.stops(&x()) && again.words().unwrap().starts_with("since 2"), "{:?}", again.words());
        // Of one stage alone: the others stay stopped, by their names.
        again.release(Some(&x()), &[x(), Name::new("y")]);
        assert!(again.flush(SOON));
        let third = PersonStop::open(dir.path()).unwrap();
        assert!(!third.stops(&x()) && third.stops(&Name::new("y")));
        third.release(None, &[]);
        assert!(third.flush(SOON));
        assert!(!dir.path().join("stopped.json").exists());
    }

    #[test]
    fn a_record_that_cannot_be_read_is_a_stop_of_everything_and_says_so() {
        for bad in ["", "{}", "null", "{\"version\":1,\"everything\":false,\"stages\":[],\"since\":null}", "\u{0}\u{0}"]
        {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("stopped.json"), bad).unwrap();
            let stop = PersonStop::open(dir.path()).unwrap();
            assert!(stop.stops(&x()), "{bad:?}");
            assert!(stop.words().unwrap().contains("stopped.json can't be read"), "{bad:?}: {:?}", stop.words());
            stop.release(None, &[]);
            assert!(stop.flush(SOON));
            assert!(!PersonStop::open(dir.path()).unwrap().stops(&x()), "a person has released it");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("stopped.json")).unwrap();
        assert!(PersonStop::open(dir.path()).unwrap().stops(&x()), "a folder of that name is no record");
    }

    #[test]
    fn a_stop_that_cannot_be_written_stands_all_the_same_and_says_that_it_would_be_lost() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        let stop = PersonStop::open(&gone).unwrap();
        stop.keep(Some(&x()));
        assert!(!stop.flush(Duration::from_millis(300)));
        assert!(stop.outcome().is_none_or(|o| o.is_err_and(|why| why.contains("gone"))), "{:?}", stop.outcome());
        assert!(stop.stops(&x()) && !stop.stops(&Name::new("y")));
        assert!(stop.words().unwrap().contains("would not outlive the program"), "{:?}", stop.words());
        std::fs::create_dir(&gone).unwrap();
        assert!(stop.flush(SOON), "it is tried again");
        assert!(stop.failing().is_none() && PersonStop::open(&gone).unwrap().stops(&x()));
    }

    #[test]
    fn a_record_that_is_removed_or_changed_while_the_stop_stands_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stopped.json");
        let stop = PersonStop::open(dir.path()).unwrap();
        stop.keep(None);
        assert!(stop.flush(SOON));
        let whole = std::fs::read(&path).unwrap();
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            let begun = std::time::Instant::now();
            while !holds() {
                assert!(begun.elapsed() < SOON, "{what}");
                std::thread::park_timeout(Duration::from_millis(20));
            }
        };
        let as_before = || std::fs::read(&path).is_ok_and(|now| now == whole);
        std::fs::remove_file(&path).unwrap();
        until("a removed record", &as_before);
        for other in ["", "{\"version\":1,\"everything\":false,\"stages\":[\"x\"],\"since\":null}"] {
            std::fs::write(&path, other).unwrap();
            until("a changed record", &as_before);
        }
        stop.release(None, &[]);
        assert!(stop.flush(SOON));
        std::thread::park_timeout(RETRIED);
        assert!(!path.exists(), "a stop that was released stays so");
    }
}
