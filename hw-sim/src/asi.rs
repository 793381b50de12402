//! An ASI stage controller (MS-2000) that speaks its serial commands, written from asiimaging.com/docs.
//!
//! Commands end with CR, answers with CR LF, neither case nor long and short names matter, and a value that is left out
//! is 0. The controller says nothing by itself, not even at a restart.

use serde::Deserialize;

use crate::BenchError;
use crate::config::{AxisConfig, need};
use crate::mechanics::Axis;
use crate::memory::{Kept, MemoryFile, Mishaps};
use crate::motion::{Pace, Trajectory};
use crate::port::Ns;

/// One controller in a bench file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AsiConfig {
    pub id: String,
    #[serde(default = "crate::config::d_baud")]
    pub baud: u32,
    #[serde(default = "crate::config::d_os_buffer")]
    pub os_buffer: usize,
    #[serde(default = "crate::config::d_ready")]
    pub boot_ms: u64,
    #[serde(default = "d_version")]
    pub version: String,
    #[serde(default = "d_build")]
    pub build: String,
    /// Commands, by their short names, that this firmware does not know.
    #[serde(default)]
    pub lacks: Vec<String>,
    #[serde(rename = "axis")]
    pub axes: Vec<MotorConfig>,
    /// The file in which its memory outlives the bench.
    pub eeprom_file: Option<std::path::PathBuf>,
}

/// One axis: what the firmware has saved for it, and the stage on its motor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MotorConfig {
    /// The controller's name for it; the bench names it in lower case.
    pub letter: char,
    /// `SL` and `SU`, in the controller's own coordinates.
    pub low_mm: f64,
    pub high_mm: f64,
    /// What `S` is when power comes on, and the most that it can be.
    pub speed_mm_per_s: f64,
    pub max_speed_mm_per_s: f64,
    /// `AC`: from rest to that speed.
    #[serde(default = "d_accel")]
    pub accel_ms: f64,
    /// `B`, `E` and `PC`, in mm.
    #[serde(default = "d_backlash")]
    pub backlash_mm: f64,
    #[serde(default = "d_drift")]
    pub drift_mm: f64,
    #[serde(default = "d_near")]
    pub near_mm: f64,
    /// `UM`: counts a millimetre.
    #[serde(default = "d_units")]
    pub units_per_mm: f64,
    pub stage: AxisConfig,
}

fn d_version() -> String {
    "USB-9.2m".into()
}
fn d_build() -> String {
    "STD_XYZ".into()
}
fn d_accel() -> f64 {
    50.0
}
fn d_backlash() -> f64 {
    0.0
}
fn d_drift() -> f64 {
    0.0004
}
fn d_near() -> f64 {
    0.000_024
}
fn d_units() -> f64 {
    10_000.0
}

impl AsiConfig {
    /// The bench's names of its axes.
    pub(crate) fn axis_names(&self) -> impl Iterator<Item = String> {
        self.axes.iter().map(|a| a.letter.to_ascii_lowercase().to_string())
    }

    pub(crate) fn check(&self) -> Result<(), BenchError> {
        let id = &self.id;
        need(self.baud > 0 && self.os_buffer > 0, || format!("asi {id:?}: baud and os_buffer must be above 0"))?;
        need(!self.axes.is_empty(), || format!("asi {id:?} has no axes"))?;
        for (i, a) in self.axes.iter().enumerate() {
            let at = format!("asi {id:?}, axis {}", a.letter);
            let again = self.axes[..i].iter().any(|b| b.letter == a.letter);
            need(a.letter.is_ascii_uppercase() && !again, || format!("{at}: each axis needs a capital of its own"))?;
            need(a.low_mm < a.high_mm, || format!("{at}: low_mm must be below high_mm"))?;
            let positive = [a.speed_mm_per_s, a.max_speed_mm_per_s, a.accel_ms, a.units_per_mm];
            need(positive.iter().all(|v| *v > 0.0), || format!("{at}: speeds, accel_ms and units must be above 0"))?;
            a.stage.check(&at)?;
        }
        Ok(())
    }
}

/// The settings of an axis that `SS Z` keeps. Limits are kept by `SAVEPOS` alone (`SAVESET`, note 2), which is not here.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Saved {
    speed: f64,
    accel_ms: f64,
    backlash: f64,
    drift: f64,
    near: f64,
}

impl Saved {
    /// The factory's, which a bench file says.
    fn of(cfg: &MotorConfig) -> Saved {
        Saved {
            speed: cfg.speed_mm_per_s,
            accel_ms: cfg.accel_ms,
            backlash: cfg.backlash_mm,
            drift: cfg.drift_mm,
            near: cfg.near_mm,
        }
    }

    fn at(&mut self, command: &str) -> Option<&mut f64> {
        Some(match command {
            "S" => &mut self.speed,
            "AC" => &mut self.accel_ms,
            "B" => &mut self.backlash,
            "E" => &mut self.drift,
            "PC" => &mut self.near,
            _ => return None,
        })
    }
}

/// What `SS Z` keeps of an axis, by its command.
const SAVED: [&str; 5] = ["S", "AC", "B", "E", "PC"];

/// One axis in motion. Positions are millimetres in the controller's coordinates.
#[derive(Debug)]
struct Motor {
    cfg: MotorConfig,
    stage: Axis,
    path: Trajectory,
    /// Step pulses sent at the controller's zero, and in all.
    zero: i64,
    sent: i64,
    /// What it works with, and what the memory holds.
    set: Saved,
    saved: Saved,
    low: f64,
    high: f64,
    slow: f64,
}

impl Motor {
    fn here(&self) -> f64 {
        (self.sent - self.zero) as f64 / self.cfg.stage.steps_per_mm
    }

    fn pace(&self) -> Pace {
        let speed = self.set.speed * self.slow;
        let accel = speed / (self.set.accel_ms / 1000.0);
        Pace::new(speed, accel, accel)
    }

    /// Goes there, or as far as the limit: such a target is taken like any other.
    fn go(&mut self, now: Ns, mm: f64) {
        let target = mm.clamp(self.low, self.high);
        let pace = self.pace();
        self.path.go_to(now, target, pace);
    }

    /// This place is `mm` from now on. The limits stay where they are.
    fn call_here(&mut self, mm: f64) {
        let shift = mm - self.here();
        self.zero = self.sent - (mm * self.cfg.stage.steps_per_mm).round() as i64;
        (self.low, self.high) = (self.low + shift, self.high + shift);
        self.path = Trajectory::at_rest(self.here());
    }

    /// What a restart leaves: saved settings, and position 0.
    fn power_up(&mut self) {
        (self.low, self.high) = (self.cfg.low_mm, self.cfg.high_mm);
        self.set = self.saved;
        self.zero = self.sent;
        self.path = Trajectory::at_rest(0.0);
        self.stage.stop_dead();
    }

    fn advance(&mut self, from: Ns, to: Ns) {
        let (mm, speed) = self.path.at(to);
        let wanted = self.zero + (mm * self.cfg.stage.steps_per_mm).round() as i64;
        self.stage.step(wanted - self.sent);
        self.sent = wanted;
        self.stage.relax((to - from) as f64 / 1e9);
        self.stage.set_rate(speed * self.cfg.stage.steps_per_mm);
        self.path.forget(to);
    }

    /// `RDSBYTE`.
    fn status(&self) -> u8 {
        let (here, near) = (self.here(), 1e-4);
        u8::from(self.path.moving())
            | 0b1010
            | u8::from(self.path.moving()) << 2
            | u8::from(here >= self.high - near) << 6
            | u8::from(here <= self.low + near) << 7
    }
}

/// A word with what it says: `X`, `X?` or `X=5`.
struct Word<'a> {
    axis: usize,
    query: bool,
    value: Option<&'a str>,
}

/// `:N-x`
type Refused = u32;

const UNKNOWN_COMMAND: Refused = 1;
const UNKNOWN_AXIS: Refused = 2;
const MISSING: Refused = 3;
const OUT_OF_RANGE: Refused = 4;
const HALTED: Refused = 21;

/// The controller on one port.
#[derive(Debug)]
pub(crate) struct Asi {
    cfg: AsiConfig,
    motors: Vec<Motor>,
    now: Ns,
    ready_at: Ns,
    line: Vec<u8>,
    output: Vec<u8>,
    file: MemoryFile,
    mishaps: Mishaps,
    /// The next start is one with the factory's settings (`SS X`).
    factory: bool,
    /// Power failed while the memory was written.
    dying: bool,
}

/// The longest command that its buffer holds.
const LONGEST: usize = 128;
/// How finely motion is followed.
const STEP: Ns = 1_000_000;

impl Asi {
    pub(crate) fn new(cfg: &AsiConfig, seed: u64) -> Result<Asi, BenchError> {
        let motor = |(m, i): (&MotorConfig, u64)| Motor {
            stage: Axis::new(m.stage.clone(), seed.wrapping_add(i * 104_729)),
            path: Trajectory::at_rest(0.0),
            zero: 0,
            sent: 0,
            set: Saved::of(m),
            saved: Saved::of(m),
            low: m.low_mm,
            high: m.high_mm,
            slow: 1.0,
            cfg: m.clone(),
        };
        let motors = cfg.axes.iter().zip(0..).map(motor).collect();
        let ready_at = cfg.boot_ms * 1_000_000;
        let mut asi = Asi {
            cfg: cfg.clone(),
            motors,
            now: 0,
            ready_at,
            line: Vec::new(),
            output: Vec::new(),
            file: MemoryFile::new(cfg.eeprom_file.as_deref()),
            mishaps: Mishaps::default(),
            factory: false,
            dying: false,
        };
        match asi.file.load()?.as_deref() {
            None => asi.file.store(&[asi.kept()]),
            Some([kept]) if asi.take(kept) => {}
            Some(_) => {
                return Err(BenchError::Config(format!("asi {:?}: its memory is another controller's", cfg.id)));
            }
        }
        Ok(asi)
    }

    fn kept(&self) -> Kept {
        let of_axis = |m: &Motor| {
            let (letter, mut saved) = (m.cfg.letter, m.saved);
            SAVED.map(|c| (format!("{c} {letter}"), saved.at(c).copied().unwrap_or_default()))
        };
        Kept { settings: self.motors.iter().flat_map(of_axis).collect(), ..Kept::default() }
    }

    fn take(&mut self, kept: &Kept) -> bool {
        let taken = kept.settings.iter().all(|(name, value)| {
            let Some((command, letter)) = name.split_once(' ') else { return false };
            let motor = self.motors.iter_mut().find(|m| letter.chars().eq([m.cfg.letter]));
            motor.and_then(|m| m.saved.at(command)).map(|place| *place = *value).is_some()
        });
        self.motors.iter_mut().for_each(|m| m.set = m.saved);
        taken
    }

    /// What is stored, by the names of its settings.
    pub(crate) fn stored(&self) -> Vec<(String, String)> {
        self.kept().settings.into_iter().map(|(name, value)| (name, format!("{value:.6}"))).collect()
    }

    /// What goes wrong with writes of settings.
    pub(crate) fn mishaps(&mut self) -> &mut Mishaps {
        &mut self.mishaps
    }

    /// `SAVESET`: Z keeps what there is, Y takes back what is kept, X makes the next start one with the factory's settings.
    fn saveset(&mut self, words: &[&str]) -> Result<String, Refused> {
        match words {
            ["Z"] => {
                if std::mem::take(&mut self.mishaps.resets) {
                    self.dying = true;
                    self.factory = true;
                } else if !self.mishaps.dead {
                    self.motors.iter_mut().for_each(|m| m.saved = m.set);
                    self.file.store(&[self.kept()]);
                }
            }
            ["Y"] => {
                self.factory = false;
                self.motors.iter_mut().for_each(|m| m.set = m.saved);
            }
            ["X"] => self.factory = true,
            [] => return Err(MISSING),
            _ => return Err(OUT_OF_RANGE),
        }
        Ok(":A".to_owned())
    }

    fn busy(&self) -> bool {
        self.motors.iter().any(|m| m.path.moving())
    }

    pub(crate) fn receive(&mut self, byte: u8) {
        if self.now < self.ready_at {
            return;
        }
        if byte != b'\r' {
            if self.line.len() < LONGEST {
                self.line.push(byte);
            }
            return;
        }
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&line).to_ascii_uppercase();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let Some((command, rest)) = words.split_first() else { return };
        let said = self.obey(command, rest).unwrap_or_else(|code| format!(":N-{code}"));
        if std::mem::take(&mut self.dying) {
            self.power_cycle();
            return;
        }
        self.output.extend(said.as_bytes());
        self.output.extend(b"\r\n");
    }

    fn obey(&mut self, command: &str, rest: &[&str]) -> Result<String, Refused> {
        let done = || Ok(":A".to_owned());
        let short = match command {
            "MOVE" => "M",
            "MOVREL" => "R",
            "WHERE" => "W",
            "STATUS" => "/",
            "\\" => "HALT",
            "SPEED" => "S",
            "SETLOW" => "SL",
            "SETUP" => "SU",
            "ACCEL" => "AC",
            "BACKLASH" => "B",
            "ERROR" => "E",
            "PCROS" => "PC",
            "SAVESET" => "SS",
            "RDSTAT" => "RS",
            "VERSION" => "V",
            "BUILD" => "BU",
            "HERE" => "H",
            "ZERO" => "Z",
            "HOME" => "!",
            "RESET" => "~",
            short => short,
        };
        if self.cfg.lacks.iter().any(|l| l == short) {
            return Err(UNKNOWN_COMMAND);
        }
        match short {
            "V" => Ok(format!(":A Version: {}", self.cfg.version)),
            "BU" => Ok(self.cfg.build.clone()),
            "/" => Ok(if self.busy() { "B" } else { "N" }.to_owned()),
            "HALT" => {
                let was_busy = self.busy();
                let now = self.now;
                for m in &mut self.motors {
                    let pace = m.pace();
                    m.path.halt(now, pace);
                }
                if was_busy { Err(HALTED) } else { done() }
            }
            "~" => {
                self.power_cycle();
                done()
            }
            "Z" => {
                self.motors.iter_mut().for_each(|m| m.call_here(0.0));
                done()
            }
            "W" | "RS" => {
                let asked = self.words(rest)?;
                // In the order of the hardware, whatever the order of the question.
                let of_motor = |(i, m): (usize, &Motor)| {
                    asked.iter().any(|w| w.axis == i).then(|| match short {
                        "W" => one_decimal(m.here() * m.cfg.units_per_mm),
                        _ => m.status().to_string(),
                    })
                };
                let told: Vec<String> = self.motors.iter().enumerate().filter_map(of_motor).collect();
                Ok(format!(":A {}", told.join(" ")))
            }
            "!" => {
                let (asked, now) = (self.words(rest)?, self.now);
                // Home lies far beyond every stage, unless somebody has set it.
                asked.iter().for_each(|w| self.motors[w.axis].go(now, 1000.0));
                done()
            }
            "SS" => self.saveset(rest),
            "M" | "R" | "S" | "AC" | "E" | "PC" | "SL" | "SU" | "UM" | "B" | "H" => self.set(short, rest),
            _ => Err(UNKNOWN_COMMAND),
        }
    }

    /// Commands of the form `X=1 Y?`. All words are understood before one is obeyed.
    fn set(&mut self, command: &str, rest: &[&str]) -> Result<String, Refused> {
        let mut told = Vec::new();
        let mut changes = Vec::new();
        let mut settings = Vec::new();
        for word in self.words(rest)? {
            let m = &mut self.motors[word.axis];
            if word.query {
                let value = match command {
                    "AC" => format!("{:.0}", m.set.accel_ms),
                    "S" | "B" | "E" | "PC" => format!("{:.6}", m.set.at(command).copied().unwrap_or_default()),
                    "SL" => format!("{:.3}", m.low),
                    "SU" => format!("{:.3}", m.high),
                    "UM" => m.cfg.units_per_mm.to_string(),
                    _ => return Err(OUT_OF_RANGE),
                };
                told.push(format!("{}={value}", m.cfg.letter));
                continue;
            }
            let value: f64 = word.value.map_or(Ok(0.0), |v| v.parse().map_err(|_| OUT_OF_RANGE))?;
            let positive = !["S", "AC"].contains(&command) || value > 0.0;
            let good = value.is_finite() && command != "UM" && positive && (value >= 0.0 || !SAVED.contains(&command));
            if !good {
                return Err(OUT_OF_RANGE);
            }
            if SAVED.contains(&command) {
                let name = format!("{command} {}", self.motors[word.axis].cfg.letter);
                let resets = self.mishaps.resets;
                let write = self.mishaps.write(&name, value).ok_or(OUT_OF_RANGE)?;
                // Power fails while flash memory is written: with `SS Z`.
                self.mishaps.resets = resets;
                settings.push((write.name, write.value));
            } else {
                changes.push((word.axis, value));
            }
        }
        for (name, value) in settings {
            let Some((command, letter)) = name.split_once(' ') else { continue };
            let Some(m) = self.motors.iter_mut().find(|m| letter.chars().eq([m.cfg.letter])) else { continue };
            let most = m.cfg.max_speed_mm_per_s;
            if let Some(place) = m.set.at(command) {
                *place = if command == "S" { value.min(most) } else { value };
            }
        }
        for (axis, value) in changes {
            let (now, m) = (self.now, &mut self.motors[axis]);
            match command {
                "M" => m.go(now, value / m.cfg.units_per_mm),
                "R" => m.go(now, m.here() + value / m.cfg.units_per_mm),
                "SL" => m.low = value,
                "SU" => m.high = value,
                _ => m.call_here(value / m.cfg.units_per_mm),
            }
        }
        Ok(if told.is_empty() { ":A".to_owned() } else { format!(":A {}", told.join(" ")) })
    }

    fn words<'a>(&self, rest: &[&'a str]) -> Result<Vec<Word<'a>>, Refused> {
        let word = |text: &&'a str| {
            let mut chars = text.chars();
            let letter = chars.next();
            let axis = self.cfg.axes.iter().position(|a| Some(a.letter) == letter).ok_or(UNKNOWN_AXIS)?;
            let tail = chars.as_str();
            match tail {
                "" | "?" => Ok(Word { axis, query: tail == "?", value: None }),
                _ => Ok(Word { axis, query: false, value: Some(tail.strip_prefix('=').ok_or(OUT_OF_RANGE)?) }),
            }
        };
        if rest.is_empty() { Err(MISSING) } else { rest.iter().map(word).collect() }
    }

    pub(crate) fn next_event(&self) -> Option<Ns> {
        let restless = self.motors.iter().any(|m| m.path.moving() || m.stage.restless());
        let boundary = self.motors.iter().filter_map(|m| m.path.boundary(self.now)).min();
        let step = restless.then(|| self.now + STEP);
        let boot = (self.now < self.ready_at).then_some(self.ready_at);
        [step, boundary, boot].into_iter().flatten().min()
    }

    pub(crate) fn advance(&mut self, to: Ns) {
        let from = self.now;
        self.now = to.max(from);
        let to = self.now;
        self.motors.iter_mut().for_each(|m| m.advance(from, to));
    }

    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    pub(crate) fn power_cycle(&mut self) {
        if std::mem::take(&mut self.factory) {
            self.motors.iter_mut().for_each(|m| m.saved = Saved::of(&m.cfg));
            self.file.store(&[self.kept()]);
        }
        self.ready_at = self.now + self.cfg.boot_ms * 1_000_000;
        self.line.clear();
        self.motors.iter_mut().for_each(Motor::power_up);
    }

    pub(crate) fn set_slow(&mut self, factor: f64) {
        self.motors.iter_mut().for_each(|m| m.slow = factor);
    }

    pub(crate) fn state_name(&self) -> &'static str {
        match self.now < self.ready_at {
            true => "boot",
            false if self.busy() => "busy",
            false => "idle",
        }
    }

    fn index(&self, axis: &str) -> Option<usize> {
        self.cfg.axis_names().position(|name| name.eq_ignore_ascii_case(axis))
    }

    pub(crate) fn axis_names(&self) -> Vec<String> {
        self.cfg.axis_names().collect()
    }

    pub(crate) fn axis(&self, axis: &str) -> Option<&Axis> {
        Some(&self.motors[self.index(axis)?].stage)
    }

    pub(crate) fn axis_mut(&mut self, axis: &str) -> Option<&mut Axis> {
        let index = self.index(axis)?;
        Some(&mut self.motors[index].stage)
    }
}

/// Tenths of its unit, and none where there are none.
fn one_decimal(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
