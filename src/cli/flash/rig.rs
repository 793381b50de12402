//! The rig file that describes the controller whose settings have changed: what it says is held against them.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::super::init::merge::{diff, over};
use super::super::init::person::{Person, yes};
use super::super::written::{self, Backup};
use super::super::{say, serve::shell_word};
use super::bench::{Place, stage_at};
use crate::config::{self, Stage};
use crate::devices;
use crate::devices::settings::{Keeping, Table};
use crate::units::plain;

/// What has to change in a stage's section, and what a person should know.
#[derive(Debug, Default, PartialEq)]
struct Follows {
    /// The section with the new values, as TOML.
    section: String,
    /// What can't be decided from here.
    notes: Vec<String>,
}

/// The rig file, if it has a stage at that port.
fn file_at(file: Option<&Path>, place: &Place) -> Option<(PathBuf, config::Rig)> {
    let file = file.map(Path::to_owned).or_else(|| config::find(None).ok())?;
    let rig = config::load(&file, &devices::known()).ok()?;
    stage_at(&rig, &place.port)?;
    Some((file, rig))
}

/// The name of the rig that has a stage at that port.
pub(super) fn name(file: Option<&Path>, place: &Place) -> Option<String> {
    file_at(file, place).map(|(_, rig)| rig.name.to_string())
}

/// Holds the rig file of a stage against the controller's new settings, shows what should change and writes it after a
/// yes. Limits are only ever narrowed here.
///
/// # Errors
/// In words, when the file can't be read or written; it is then as it was.
pub(super) fn update(
    file: Option<&Path>,
    place: &Place,
    keeping: &Keeping,
    (old, new): (&Table, &Table),
    person: &mut dyn Person,
) -> Result<(), String> {
    let Some((file, rig)) = file_at(file, place) else { return Ok(()) };
    let Some(stage) = stage_at(&rig, &place.port) else { return Ok(()) };
    let follows = follows(stage, place.address, keeping, old, new);
    for note in &follows.notes {
        say(io::stderr(), &format!("note: {}: {note}", file.display()));
    }
    if follows.section.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{} can't be read: {e}", file.display()))?;
    let changed = over(&text, &follows.section).map_err(|e| format!("{}: {e}", file.display()))?;
    let shown = diff(&file.display().to_string(), &text, &changed);
    if shown.is_empty() {
        return Ok(());
    }
    if let Err(problems) = config::parse(&changed, &file, &devices::known()) {
        return Err(format!("{} can't follow the new settings by itself:\n{}", file.display(), problems.render(false)));
    }
    person.say(&shown);
    if !yes(person, &format!("Write {}", file.display()), true)? {
        return Ok(());
    }
    let copy = match written::replace(&file, &changed)? {
        Backup::NoFile => String::new(),
        Backup::At(copy) => format!(" As it was before: {}.", copy.display()),
    };
    let word = shell_word(&file.display().to_string());
    say(
        io::stderr(),
        &format!(
            "Wrote {}.{copy} steadyhand doctor --rig {word} holds it against the hardware. A server that runs goes by the old file until it is started again.",
            file.display()
        ),
    );
    Ok(())
}

/// What follows for a stage. Pure.
fn follows(stage: &Stage, address: u8, keeping: &Keeping, old: &Table, new: &Table) -> Follows {
    let mut follows = Follows::default();
    let mut axes = String::new();
    for axis in &stage.axes {
        let Some(name) = (keeping.axis_of)(&axis.channel, address) else { continue };
        let (before, now) = ((keeping.told)(old, &name), (keeping.told)(new, &name));
        if before == now {
            continue;
        }
        let mut lines = String::new();
        // A controller that only counts counts otherwise now.
        let ratio = match (before.counts_ratio, now.counts_ratio) {
            (Some(a), Some(b)) if a != b => b / a,
            _ => 1.0,
        };
        let counts = axis.count.map(|c| ratio / c.to(axis.unit));
        if let Some(counts) = counts.filter(|_| ratio != 1.0) {
            // Writing to a String can't fail.
            let _ = writeln!(lines, "counts_per_unit = {}", plain(counts));
        }
        // In the axis's unit: what the controller says in counts, or in its base unit.
        let unit = |v: f64| match counts {
            Some(counts) => Some(v / counts),
            None => crate::units::Distance::base(v).ok().map(|d| d.to(axis.unit)),
        };
        let allowed = axis.max_speed.to(axis.unit);
        if let Some(most) = now.max_speed_per_s.and_then(unit)
            && most < allowed
        {
            let _ = writeln!(lines, "max_speed_per_s = {}", plain((most * 1e6).floor() / 1e6));
        }
        let length = (axis.travel.high - axis.travel.low).to(axis.unit);
        if let Some(travel) = now.travel.and_then(unit)
            && travel < length * (1.0 - 1e-9)
        {
            follows.notes.push(format!(
                "{} may go {} {u} by the rig file, and the controller has {} {u} of travel now: narrow `travel` at the end that \
                 is lost",
                axis.id,
                plain(length),
                plain(travel),
                u = axis.unit
            ));
        }
        if !lines.is_empty() {
            let _ = write!(axes, "[stage.axes.{}]\n{lines}", axis.id.axis);
        }
    }
    if !axes.is_empty() {
        follows.section = format!("[[stage]]\nid = {:?}\n{axes}", stage.id.as_str());
    }
    follows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::settings::{Form, Meaning, Setting};
    use crate::flash::profile::keeping;

    fn table(settings: &[(&str, &str)]) -> Table {
        let one = |(name, value): &(&str, &str)| Setting {
            name: (*name).into(),
            value: (*value).into(),
            meaning: Meaning::new("a setting", "", Form::Real(3)),
        };
        Table::new(settings.iter().map(one).collect()).expect("no name twice")
    }

    fn demo() -> config::Rig {
        let text = include_str!("../../../rigs/demo.toml")
            .replace("@SCOPE@", "/dev/a")
            .replace("@CAM@", "a:1")
            .replace("@IO@", "a:2");
        config::parse(&text, Path::new("demo.toml"), &devices::known()).expect("a rig")
    }

    #[test]
    fn a_slower_controller_narrows_the_rig_file_and_a_faster_one_widens_nothing() {
        let rig = demo();
        let grbl = keeping("grbl").expect("grbl");
        let old = table(&[("$110", "1200.000"), ("$130", "75.000"), ("$112", "120.000")]);
        let slower = table(&[("$110", "300.000"), ("$130", "75.000"), ("$112", "12.000")]);
        let section = follows(&rig.stages[0], 1, grbl, &old, &slower).section;
        assert!(section.contains("[stage.axes.x]\nmax_speed_per_s = 5\n"), "{section}");
        assert!(section.contains("[stage.axes.z]\nmax_speed_per_s = 200\n"), "in its own unit: {section}");
        let faster = table(&[("$110", "6000.000"), ("$130", "95.000"), ("$112", "120.000")]);
        assert_eq!(follows(&rig.stages[0], 1, grbl, &old, &faster), Follows::default());
        let shorter = table(&[("$110", "1200.000"), ("$130", "50.000"), ("$112", "120.000")]);
        let notes = follows(&rig.stages[0], 1, grbl, &old, &shorter).notes;
        assert!(notes.len() == 1 && notes[0].contains("50 mm of travel"), "{notes:?}");
    }
}
