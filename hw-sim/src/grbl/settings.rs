//! The EEPROM of a GRBL controller: `$n` settings, coordinate systems, startup lines, build info.

use super::report::fixed;
use crate::memory::{Kept, MemoryFile, Mishaps};

/// Coordinate systems G54 to G59, then G28 and G30.
pub(super) const SYSTEMS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Flag,
    Real,
    Rpm,
}

#[derive(Debug, Clone)]
struct Setting {
    n: u16,
    kind: Kind,
    value: f32,
}

/// The settings that the firmware works with, and what of them outlives a power cycle.
#[derive(Debug, Clone)]
pub(super) struct Eeprom {
    settings: Vec<Setting>,
    /// What is stored of them, and of the startup lines.
    stored: (Vec<Setting>, [String; 2]),
    pub(super) mishaps: Mishaps,
    pub(super) file: MemoryFile,
    axes: usize,
    pub(super) systems: [[f64; 6]; SYSTEMS],
    pub(super) startup: [String; 2],
    pub(super) info: String,
    pub(super) valid: bool,
    /// It holds values against what they may be, as grblHAL does.
    pub(super) schema: bool,
}

/// The manual's default table (settings.md), for a generic machine.
const GENERAL: [(u16, Kind, f32); 22] = [
    (0, Kind::Integer, 10.0),
    (1, Kind::Integer, 25.0),
    (2, Kind::Integer, 0.0),
    (3, Kind::Integer, 0.0),
    (4, Kind::Flag, 0.0),
    (5, Kind::Flag, 0.0),
    (6, Kind::Flag, 0.0),
    (10, Kind::Integer, 1.0),
    (11, Kind::Real, 0.010),
    (12, Kind::Real, 0.002),
    (13, Kind::Flag, 0.0),
    (20, Kind::Flag, 0.0),
    (21, Kind::Flag, 0.0),
    (22, Kind::Flag, 0.0),
    (23, Kind::Integer, 0.0),
    (24, Kind::Real, 25.0),
    (25, Kind::Real, 500.0),
    (26, Kind::Integer, 250.0),
    (27, Kind::Real, 1.0),
    (30, Kind::Rpm, 1000.0),
    (31, Kind::Rpm, 0.0),
    (32, Kind::Flag, 0.0),
];
const PER_AXIS: [(u16, f32); 4] = [(100, 250.0), (110, 500.0), (120, 10.0), (130, 200.0)];
const INTEGER_16: u16 = 26;

impl Eeprom {
    pub(super) fn new(axes: usize) -> Eeprom {
        let mut settings: Vec<Setting> =
            GENERAL.iter().map(|(n, kind, value)| Setting { n: *n, kind: *kind, value: *value }).collect();
        for (base, value) in PER_AXIS {
            settings.extend((0..axes as u16).map(|i| Setting { n: base + i, kind: Kind::Real, value }));
        }
        Eeprom {
            stored: (settings.clone(), [String::new(), String::new()]),
            mishaps: Mishaps::default(),
            file: MemoryFile::default(),
            settings,
            axes,
            systems: [[0.0; 6]; SYSTEMS],
            startup: [String::new(), String::new()],
            info: String::new(),
            valid: true,
            schema: false,
        }
    }

    pub(super) fn restore_settings(&mut self) {
        self.settings = Eeprom::new(self.axes).settings;
    }

    pub(super) fn restore_parameters(&mut self) {
        self.systems = [[0.0; 6]; SYSTEMS];
    }

    pub(super) fn restore_all(&mut self) {
        let fresh = Eeprom::new(self.axes);
        let (mishaps, file, stored) = (self.mishaps.clone(), self.file.clone(), self.stored.clone());
        *self = Eeprom { mishaps, file, stored, schema: self.schema, ..fresh };
    }

    /// What is there goes into the memory, all of it, as the firmware does it.
    pub(super) fn store(&mut self) {
        if self.mishaps.dead {
            return;
        }
        self.stored = (self.settings.clone(), self.startup.clone());
        self.file.store(&[self.kept()]);
    }

    /// Power has come on: what is stored is what there is.
    pub(super) fn reload(&mut self) {
        (self.settings, self.startup) = self.stored.clone();
    }

    fn kept(&self) -> Kept {
        let numbers = self.stored.0.iter().map(|s| (format!("${}", s.n), f64::from(s.value)));
        let lines = self.stored.1.iter().enumerate().map(|(i, l)| (format!("$N{i}"), l.clone()));
        Kept { settings: numbers.collect(), lines: lines.collect() }
    }

    /// Takes what a file holds; `false` when it is another controller's.
    pub(super) fn take(&mut self, kept: &Kept) -> bool {
        let number = |name: &str| name.strip_prefix('$').and_then(|n| n.parse().ok());
        let all = kept.settings.iter().all(|(name, value)| number(name).is_some_and(|n| self.force(n, *value)));
        for (i, line) in self.startup.iter_mut().enumerate() {
            *line = kept.lines.get(&format!("$N{i}")).cloned().unwrap_or_default();
        }
        self.stored = (self.settings.clone(), self.startup.clone());
        all
    }

    /// Every setting with its value as it is stored.
    pub(super) fn stored_pairs(&self) -> Vec<(u16, String)> {
        self.stored.0.iter().map(|s| (s.n, self.shown(s))).collect()
    }

    /// A setting that exists on every controller.
    pub(super) fn get(&self, n: u16) -> f64 {
        self.settings.iter().find(|s| s.n == n).map_or(0.0, |s| f64::from(s.value))
    }

    pub(super) fn flag(&self, n: u16) -> bool {
        self.get(n) != 0.0
    }

    pub(super) fn axis(&self, base: u16, axis: usize) -> f64 {
        self.get(base + axis as u16)
    }

    pub(super) fn steps_per_mm(&self, axis: usize) -> f64 {
        self.axis(100, axis)
    }

    /// `$n=v` with the checks that the firmware has, and no others.
    ///
    /// # Errors
    /// The `error:` number; nothing is changed then.
    pub(super) fn set(&mut self, n: u16, value: f64) -> Result<(), u8> {
        if value < 0.0 {
            return Err(4);
        }
        if self.schema {
            super::schema::check(n, value, self.axes)?;
        }
        let (homing, wide) = (self.flag(22), self.schema || n == INTEGER_16);
        let setting = self.settings.iter_mut().find(|s| s.n == n).ok_or(3)?;
        match n {
            0 if value < 3.0 => return Err(6),
            20 if value != 0.0 && !homing => return Err(10),
            _ => {}
        }
        setting.value = match setting.kind {
            _ if self.schema && super::schema::decimals(n).is_some() => value as f32,
            Kind::Integer if wide => f32::from(value as u16),
            Kind::Integer => f32::from((value as i64 & 0xff) as u8),
            Kind::Flag => f32::from(u8::from(value.trunc() != 0.0)),
            Kind::Real | Kind::Rpm => value as f32,
        };
        if n == 22 && !self.flag(22) {
            self.force(20, 0.0);
        }
        Ok(())
    }

    /// Writes without checks, as a bench file does.
    pub(super) fn force(&mut self, n: u16, value: f64) -> bool {
        match self.settings.iter_mut().find(|s| s.n == n) {
            Some(s) => {
                s.value = value as f32;
                true
            }
            None => false,
        }
    }

    /// The lines of `$$`.
    pub(super) fn listing(&self) -> String {
        self.settings.iter().map(|s| format!("${}={}\r\n", s.n, self.shown(s))).collect()
    }

    /// Every setting with its value as `$$` shows it.
    pub(super) fn pairs(&self) -> Vec<(u16, String)> {
        self.settings.iter().map(|s| (s.n, self.shown(s))).collect()
    }

    fn shown(&self, s: &Setting) -> String {
        if let Some(decimals) = super::schema::decimals(s.n).filter(|_| self.schema) {
            return fixed(f64::from(s.value), decimals);
        }
        match s.kind {
            Kind::Real => fixed(f64::from(s.value), 3),
            Kind::Rpm => fixed(f64::from(s.value), 0),
            Kind::Integer | Kind::Flag => format!("{}", s.value as i64),
        }
    }
}
