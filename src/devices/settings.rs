//! The settings that a controller keeps without power: what `flash` reads and writes. The only capability that writes
//! them; the rig thread has none of it.

mod desk;

use std::collections::BTreeMap;
use std::fmt;

use super::link::Connector;
use crate::model::Time;
pub(super) use desk::{Desk, Next, Protocol, Silence};

/// What a driver can do with the settings of its controllers: a part of its row.
pub struct Keeping {
    /// Opens a conversation with the controller at the end of a link; nothing is opened yet.
    pub open: fn(Box<dyn Connector>, u8) -> Box<dyn Settings>,
    /// Whether several controllers share a link, each with an address of its own (1 to 99).
    pub addressed: bool,
    /// The controller's names of axes, in words.
    pub axes: &'static str,
    /// Whether a write outlives the power at once, or only after [`Order::Save`].
    pub saves: bool,
    /// The full name of a setting that a profile names, for an axis where it is one of an axis; `None` when there can be
    /// no such setting.
    pub name: fn(&str, Option<&str>) -> Option<String>,
    /// What is known about a setting of that full name, of controllers that don't tell.
    pub meaning: fn(&str) -> Option<Meaning>,
    /// What would be wrong with a controller that has these settings, whatever they were before.
    pub flaws: fn(&Table) -> Vec<Flaw>,
    /// What is dangerous about a change.
    pub dangers: fn(&Change, &Motor) -> Vec<Danger>,
    /// The settings that the controller changes by itself when that one is written.
    pub rescales: fn(&str) -> Vec<String>,
    /// Its name for the axis that a rig file's channel is, of the controller at that address; `None` for another's.
    pub axis_of: fn(&str, u8) -> Option<String>,
    /// What a rig file says too, of an axis by its name.
    pub told: fn(&Table, &str) -> Told,
    /// How often a setting may be written in the life of the memory, with the source, where that is known.
    pub endurance: Option<&'static str>,
}

/// A conversation with one controller about its settings. No call waits, and one order is carried out at a time.
pub trait Settings: Send {
    /// Takes bytes that are there, asks what is due, reports what happened, and says when it wants to be ticked again.
    fn tick(&mut self, now: Time, out: &mut Vec<SettingsEvent>) -> Time;

    /// Begins an order. One event answers it.
    fn order(&mut self, order: Order, now: Time);

    /// Lets go of the port.
    fn close(&mut self);
}

/// What is asked of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Who is there. Answered by [`SettingsEvent::Known`].
    Identify,
    /// All settings. Answered by [`SettingsEvent::Table`].
    Read,
    /// One setting. Answered by [`SettingsEvent::Done`], [`SettingsEvent::Refused`] or [`SettingsEvent::Unclear`].
    Write {
        /// Its full name.
        name: String,
        /// As the controller writes it.
        value: String,
    },
    /// Everything into the memory that outlives the power. Answered as a write.
    Save,
    /// Takes back what the memory that outlives the power holds: what else is in working memory is gone, and what is read
    /// then is what was kept. Answered as a write, at once by a controller that keeps each write.
    Recall,
    /// Loads the settings as when power comes on. Answered by [`SettingsEvent::Done`] when it was seen to restart, else by
    /// [`SettingsEvent::Refused`]: then only a person can switch it off and on.
    Restart,
    /// Waits until the controller has restarted, since a person switches it off and on. Answered as a restart.
    AwaitRestart,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingsEvent {
    /// The port can't be opened, and why. It is tried again.
    NoPort(String),
    /// The controller is there and known.
    Known(Controller),
    /// All its settings.
    Table(Table),
    /// The controller acknowledged the order.
    Done,
    /// The controller did not take it, and says so.
    Refused(String),
    /// Whether it was carried out is not known: no answer, a damaged one, or a link that broke.
    Unclear(String),
}

/// Who a controller is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Controller {
    /// What it calls itself.
    pub model: String,
    /// Its firmware.
    pub firmware: String,
    /// Its serial number; empty where it has none.
    pub serial: String,
    /// The names of its axes.
    pub axes: Vec<String>,
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.model, self.firmware)?;
        if self.serial.is_empty() { Ok(()) } else { write!(f, ", serial number {}", self.serial) }
    }
}

/// Settings by their full names, each with its value as the controller writes it, in the controller's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table(Vec<Setting>);

/// A setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Its full name.
    pub name: String,
    /// As the controller writes it.
    pub value: String,
    /// What is known about it.
    pub meaning: Meaning,
}

impl Table {
    /// Of these settings.
    ///
    /// # Errors
    /// The name that two of them have.
    pub fn new(settings: Vec<Setting>) -> Result<Table, String> {
        let mut seen = std::collections::BTreeSet::new();
        match settings.iter().find(|s| !seen.insert(s.name.as_str())) {
            Some(twice) => Err(twice.name.clone()),
            None => Ok(Table(settings)),
        }
    }

    /// The settings in order.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    /// The setting of that name.
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|s| s.name == name)
    }

    /// The number that a setting is.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.value.parse().ok().filter(|n: &f64| n.is_finite())
    }

    /// The same with another value of a setting that it has.
    pub fn set(&mut self, name: &str, value: &str) {
        if let Some(setting) = self.0.iter_mut().find(|s| s.name == name) {
            value.clone_into(&mut setting.value);
        }
    }

    /// The values by name.
    pub fn values(&self) -> BTreeMap<&str, &str> {
        self.0.iter().map(|s| (s.name.as_str(), s.value.as_str())).collect()
    }

    /// What it takes to get from these settings to `goal`, in the order of writing. Both are of one controller.
    pub fn changes(&self, goal: &Table) -> Vec<Change> {
        let of = |s: &Setting| {
            let wanted = goal.get(&s.name)?;
            let differs = s.meaning.writable && !s.meaning.form.same(&s.value, &wanted.value);
            differs.then(|| Change {
                name: s.name.clone(),
                old: s.value.clone(),
                new: wanted.value.clone(),
                meaning: s.meaning.clone(),
            })
        };
        let mut changes: Vec<Change> = self.0.iter().filter_map(of).collect();
        changes.sort_by_key(|c| c.meaning.rank.of(&c.old, &c.new));
        changes
    }

    /// The settings that both have, with different values (this one's first), or that only one has.
    pub fn differences(&self, other: &Table) -> Vec<(String, Option<String>, Option<String>)> {
        let ours = self.0.iter().filter(|s| s.meaning.kept).filter_map(|s| match other.get(&s.name) {
            Some(o) if s.meaning.form.same(&s.value, &o.value) => None,
            Some(o) => Some((s.name.clone(), Some(s.value.clone()), Some(o.value.clone()))),
            None => Some((s.name.clone(), Some(s.value.clone()), None)),
        });
        let theirs = other.0.iter().filter(|o| o.meaning.kept && self.get(&o.name).is_none());
        ours.chain(theirs.map(|o| (o.name.clone(), None, Some(o.value.clone())))).collect()
    }
}

/// What is known about a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Meaning {
    /// What it does, in a few words.
    pub what: String,
    /// Its unit; empty for none.
    pub unit: String,
    /// What values it has, and how the controller writes them.
    pub form: Form,
    /// Its lowest and highest value, where a value beyond makes no sense or is refused.
    pub range: Option<[f64; 2]>,
    /// When it is written.
    pub rank: Rank,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it is kept without power; what isn't is shown and not compared.
    pub kept: bool,
}

impl Meaning {
    /// Of a setting that can be written and is kept.
    pub fn new(what: impl Into<String>, unit: &str, form: Form) -> Meaning {
        Meaning {
            what: what.into(),
            unit: unit.into(),
            form,
            range: None,
            rank: Rank::default(),
            writable: true,
            kept: true,
        }
    }

    /// The same within this range.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> Meaning {
        Meaning { range: Some([low, high]), ..self }
    }

    /// The same at this place in the order.
    #[must_use]
    pub fn ranked(self, rank: Rank) -> Meaning {
        Meaning { rank, ..self }
    }
}

/// The place of a setting in the order of writing; lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// When it grows, or is text.
    pub up: u8,
    /// When it shrinks: what depends on another setting goes before that is switched off.
    pub down: u8,
}

impl Default for Rank {
    fn default() -> Rank {
        Rank::at(100)
    }
}

impl Rank {
    /// The same place whatever it becomes.
    pub const fn at(place: u8) -> Rank {
        Rank { up: place, down: place }
    }

    fn of(self, old: &str, new: &str) -> u8 {
        match (plain_number(old), plain_number(new)) {
            (Some(old), Some(new)) if new < old => self.down,
            _ => self.up,
        }
    }
}

/// What values a setting has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// 0 or 1.
    Flag,
    /// A whole number.
    Whole,
    /// A number of single precision that is told with so many decimals.
    Real(usize),
    /// Any text on one line.
    Text,
}

impl Form {
    /// A value as the controller writes it.
    ///
    /// # Errors
    /// What it must be.
    pub fn written(&self, value: &str) -> Result<String, String> {
        let number: Option<f64> = plain_number(value);
        match (self, number) {
            (Form::Flag, Some(n)) if n == 0.0 || n == 1.0 => Ok(format!("{n}")),
            (Form::Flag, _) => Err("it is 0 or 1 (true or false)".into()),
            (Form::Whole, Some(n)) if n.fract() == 0.0 && n.abs() < 9e15 => Ok(format!("{n:.0}")),
            (Form::Whole, _) => Err("it is a whole number".into()),
            (Form::Real(decimals), Some(n)) => {
                let told = printed(n, *decimals);
                let fine = plain_number(&told).is_some_and(|t| (t - n).abs() <= n.abs() * f64::from(f32::EPSILON));
                if fine {
                    Ok(told)
                } else {
                    let decimals = if *decimals == 1 { "1 decimal".into() } else { format!("{decimals} decimals") };
                    Err(format!("the controller tells it with {decimals}: write {told}"))
                }
            }
            (Form::Real(_), None) => Err("it is a number, written without an exponent".into()),
            (Form::Text, _) if value.chars().all(|c| (' '..='~').contains(&c)) => Ok(value.to_owned()),
            (Form::Text, _) => Err("it is one line of plain ASCII".into()),
        }
    }

    /// Whether two values are the same to the controller.
    pub fn same(&self, a: &str, b: &str) -> bool {
        match (self, plain_number(a), plain_number(b)) {
            (Form::Text, ..) | (_, None, _) | (_, _, None) => a == b,
            (Form::Real(decimals), Some(a), Some(b)) => printed(a, *decimals) == printed(b, *decimals),
            (Form::Flag | Form::Whole, Some(a), Some(b)) => a == b,
        }
    }
}

/// As a controller that counts in single precision tells it. Never `-0`.
fn printed(n: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", f64::from(n as f32));
    let nothing = !text.contains(|c: char| ('1'..='9').contains(&c));
    text.strip_prefix('-').filter(|_| nothing).map_or(text.clone(), str::to_owned)
}

/// A number in plain notation.
fn plain_number(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    plain.then(|| text.parse().ok())?.filter(|n: &f64| n.is_finite())
}

/// One setting that becomes another.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Its full name.
    pub name: String,
    /// What it is.
    pub old: String,
    /// What it becomes.
    pub new: String,
    /// What is known about it.
    pub meaning: Meaning,
}

/// What a profile says of the motor on an axis, for what no controller knows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Motor {
    /// The most current that it may have, in amperes.
    pub rated_current_a: Option<f64>,
    /// Whether the axis stays where it is without power.
    pub holds_unpowered: Option<bool>,
}

/// What settings say of an axis that a rig file says too. In mm and degrees; in counts for a controller that only counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Told {
    /// The controller's own speed limit.
    pub max_speed_per_s: Option<f64>,
    /// How long its travel is.
    pub travel: Option<f64>,
    /// How many counts a fixed way takes, up to a factor: it changes as the counts do.
    pub counts_ratio: Option<f64>,
}

/// Why a change is dangerous: it is made only when a person has allowed it by this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Danger {
    /// As `--allow` takes it; one of [`DANGERS`].
    pub name: &'static str,
    /// What could happen.
    pub why: String,
}

/// The names of all dangers, with what each is.
pub const DANGERS: &[(&str, &str)] = &[
    ("address", "the controller answers at another address afterwards"),
    ("baud", "the controller answers at another rate afterwards"),
    ("protocol", "the controller may speak another protocol afterwards"),
    ("current", "a motor gets more current than it is rated for, or nobody says what it is rated for"),
    ("limits-off", "limit switches, soft limits or homing are switched off, or limits are moved outwards"),
    ("idle-power", "motors are switched off at rest, and an axis may not stay where it is"),
    ("startup", "the controller carries out a line of its own whenever it starts"),
    ("other-controller", "what is of one controller goes into one that can't be told to be the same"),
];

/// What is wrong with a set of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The settings that it is about.
    pub names: Vec<String>,
    /// What is wrong, with the numbers, and what to write.
    pub what: String,
}
