//! A GRBL 1.1h controller with its stage, written from the manual (gnea/grbl, doc/markdown and doc/csv).

mod arc;
mod exec;
mod gcode;
mod homing;
mod motion;
mod realtime;
mod report;
mod schema;
mod settings;
mod system;
mod words;

use std::collections::VecDeque;

use crate::BenchError;
use crate::config::{ControllerConfig, EepromState, LETTERS, ReportMode};
use crate::mechanics::Axis;
use crate::memory::{MemoryFile, Mishaps};
use crate::port::Ns;
use exec::Action;
use gcode::{Dialect, Modal, Position, Spindle};
use homing::Homing;
use motion::{Overrides, Planner, Table};
use report::Cadence;
use settings::Eeprom;

/// How long after the first block of a program the motors start.
const CYCLE_START: Ns = 10_000_000;
/// Observers look this often at a carriage that moves.
const TICK: Ns = 5_000_000;
const MS: Ns = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Alarm,
    Check,
    Homing,
    Run,
    Jog,
    Hold,
    Door,
    Sleep,
}

/// The controller, its EEPROM, and the axes that hang on its drivers.
#[derive(Debug)]
pub(crate) struct Grbl {
    pub(crate) axes: Vec<Axis>,
    banner: String,
    version: String,
    build_options: String,
    report_mode: ReportMode,
    boot_ns: Ns,
    eeprom_write_ns: Ns,
    pub(crate) dtr_resets: bool,
    rx_limit: usize,
    eeprom: Eeprom,

    now: Ns,
    out: Vec<u8>,
    boot_until: Option<Ns>,
    state: State,
    critical: bool,
    jog_cancel: bool,
    door_resume: Option<Ns>,
    cycle_start_at: Option<Ns>,
    idle_off_at: Option<Ns>,
    dwell_until: Option<Ns>,
    eeprom_until: Option<Ns>,
    status_pending: bool,
    spindle_stopped: bool,
    homing: Option<Homing>,
    pins: [bool; 6],

    rx: VecDeque<u8>,
    line: Vec<u8>,
    actions: VecDeque<Action>,

    modal: Modal,
    parser_mm: Position,
    steps: [i64; 6],
    planned: [i64; 6],
    planner: Planner,
    overrides: Overrides,
    cadence: Cadence,
    spindle: (Spindle, f64),
    coolant: (bool, bool),
    probe: (Position, bool),
}

impl Grbl {
    pub(crate) fn new(cfg: &ControllerConfig, seed: u64) -> Result<Grbl, BenchError> {
        let n = cfg.axes.len();
        let axes: Vec<Axis> = LETTERS[..n]
            .iter()
            .enumerate()
            .filter_map(|(i, l)| Some(Axis::new(cfg.axes.get(*l)?.clone(), seed.wrapping_add(i as u64 * 7919))))
            .collect();
        let mut eeprom = Eeprom::new(n);
        for (key, value) in &cfg.settings {
            let known =
                key.strip_prefix('$').and_then(|k| k.parse().ok()).is_some_and(|number| eeprom.force(number, *value));
            if !known {
                return Err(BenchError::Config(format!("controller {:?}: no setting {key:?}", cfg.id)));
            }
        }
        eeprom.schema = cfg.settings_schema;
        eeprom.valid = cfg.eeprom == EepromState::Ready;
        eeprom.file = MemoryFile::new(cfg.eeprom_file.as_deref());
        match eeprom.file.load()?.as_deref() {
            None => eeprom.store(),
            Some([kept]) if eeprom.take(kept) => {}
            Some(_) => {
                return Err(BenchError::Config(format!("controller {:?}: its memory is another controller's", cfg.id)));
            }
        }
        let boot_ns = cfg.boot_ms * MS;
        Ok(Grbl {
            axes,
            banner: cfg.banner.clone(),
            version: cfg.version.clone(),
            build_options: cfg.build_options.clone(),
            report_mode: cfg.report_mode,
            boot_ns,
            eeprom_write_ns: cfg.eeprom_write_ms * MS,
            dtr_resets: cfg.dtr_resets,
            rx_limit: cfg.rx_buffer,
            eeprom,
            now: 0,
            out: Vec::new(),
            boot_until: Some(boot_ns),
            state: State::Idle,
            critical: false,
            jog_cancel: false,
            door_resume: None,
            cycle_start_at: None,
            idle_off_at: None,
            dwell_until: None,
            eeprom_until: None,
            status_pending: false,
            spindle_stopped: false,
            homing: None,
            pins: [false; 6],
            rx: VecDeque::new(),
            line: Vec::new(),
            actions: VecDeque::new(),
            modal: Modal::new(),
            parser_mm: [0.0; 6],
            steps: [0; 6],
            planned: [0; 6],
            planner: Planner::new(n, cfg.planner_blocks),
            overrides: Overrides { feed: 100, rapid: 100, spindle: 100 },
            cadence: Cadence::default(),
            spindle: (Spindle::Off, 0.0),
            coolant: (false, false),
            probe: ([0.0; 6], false),
        })
    }

    fn n(&self) -> usize {
        self.axes.len()
    }

    fn dialect(&self) -> Dialect {
        Dialect { axes: self.n(), mist: self.build_options.contains('M') }
    }

    fn print(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// What the controller has said since the last call.
    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn machine_position(&self) -> Position {
        let mut mm = [0.0; 6];
        for (i, v) in mm.iter_mut().enumerate().take(self.n()) {
            *v = self.steps[i] as f64 / self.eeprom.steps_per_mm(i);
        }
        mm
    }

    fn work_offset(&self) -> Position {
        let mut mm = self.eeprom.systems[self.modal.system];
        for (v, shift) in mm.iter_mut().zip(self.modal.g92) {
            *v += shift;
        }
        mm[2] += self.modal.tool_offset;
        mm
    }

    fn table(&self) -> Table {
        let mut t =
            Table { steps_per_mm: [1.0; 6], rate: [1.0; 6], accel: [1.0; 6], junction_deviation: self.eeprom.get(11) };
        for i in 0..self.n() {
            t.steps_per_mm[i] = self.eeprom.axis(100, i);
            t.rate[i] = self.eeprom.axis(110, i) / 60.0;
            t.accel[i] = self.eeprom.axis(120, i);
        }
        t
    }

    /// The parser and the planner go on from where the counters are.
    fn sync_position(&mut self) {
        self.planned = self.steps;
        self.parser_mm = self.machine_position();
    }

    /// A hold, door or jog cancel that has not come to rest yet.
    fn stopping(&self) -> bool {
        self.planner.moving() || !self.planner.held()
    }

    fn suspended(&self) -> bool {
        self.jog_cancel || matches!(self.state, State::Hold | State::Door | State::Sleep)
    }

    fn spindle_now(&self) -> Spindle {
        let off = self.state == State::Door || self.spindle_stopped;
        if off { Spindle::Off } else { self.spindle.0 }
    }

    fn spindle_rpm(&self) -> f64 {
        if self.spindle_now() == Spindle::Off {
            return 0.0;
        }
        let rpm = self.spindle.1 * f64::from(self.overrides.spindle) / 100.0;
        let (max, min) = (self.eeprom.get(30), self.eeprom.get(31));
        if rpm <= 0.0 { 0.0 } else { rpm.max(min).min(max) }
    }

    /// How bright a lamp on the spindle output is, 0 to 1.
    pub(crate) fn spindle_fraction(&self) -> f64 {
        let max = self.eeprom.get(30);
        if max > 0.0 { self.spindle_rpm() / max } else { 0.0 }
    }

    pub(crate) fn flood_now(&self) -> bool {
        self.coolant.0 && self.state != State::Door
    }

    pub(crate) fn mist_now(&self) -> bool {
        self.coolant.1 && self.state != State::Door
    }

    /// The settings as `$$` shows them.
    pub(crate) fn settings(&self) -> Vec<(u16, String)> {
        self.eeprom.pairs()
    }

    /// The same as they are stored: what there will be when power comes on.
    pub(crate) fn stored(&self) -> Vec<(u16, String)> {
        self.eeprom.stored_pairs()
    }

    /// What goes wrong with writes of settings.
    pub(crate) fn mishaps(&mut self) -> &mut Mishaps {
        &mut self.eeprom.mishaps
    }

    pub(crate) fn state_name(&self) -> &'static str {
        if self.boot_until.is_some() {
            return "boot";
        }
        match self.state {
            State::Idle => "idle",
            State::Alarm => "alarm",
            State::Check => "check",
            State::Homing => "homing",
            State::Run => "run",
            State::Jog => "jog",
            State::Hold => "hold",
            State::Door => "door",
            State::Sleep => "sleep",
        }
    }

    pub(crate) fn corrupt_eeprom(&mut self) {
        self.eeprom.valid = false;
    }

    pub(crate) fn set_slow(&mut self, factor: f64) {
        self.planner.set_slow(factor, self.now);
    }

    /// Power goes and comes back: the carriages stay, everything volatile is gone.
    pub(crate) fn power_cycle(&mut self) {
        self.halt();
        self.axes.iter_mut().for_each(|a| a.set_power(false));
        self.steps = [0; 6];
        self.out.clear();
        self.boot_until = Some(self.now + self.boot_ns);
        self.eeprom.reload();
        self.forget();
        self.state = State::Idle;
        self.probe = ([0.0; 6], false);
    }

    /// Pulses end at once, drivers go off.
    fn halt(&mut self) {
        if self.planner.moving() {
            self.axes.iter_mut().for_each(Axis::stop_dead);
        }
        self.planner.clear();
        self.axes.iter_mut().for_each(|a| a.set_rate(0.0));
        self.homing = None;
        self.idle_off_at = None;
    }

    fn forget(&mut self) {
        self.critical = false;
        self.jog_cancel = false;
        self.door_resume = None;
        self.cycle_start_at = None;
        self.dwell_until = None;
        self.eeprom_until = None;
        self.status_pending = false;
        self.spindle_stopped = false;
        self.rx.clear();
        self.line.clear();
        self.actions.clear();
        self.modal = Modal::new();
        self.overrides = Overrides { feed: 100, rapid: 100, spindle: 100 };
        self.cadence = Cadence::default();
        self.spindle = (Spindle::Off, 0.0);
        self.coolant = (false, false);
        self.planner.clear();
        self.sync_position();
        self.refresh_pins();
    }

    fn boot(&mut self) {
        self.boot_until = None;
        let failed = !self.eeprom.valid;
        if failed {
            self.eeprom.restore_all();
            self.eeprom.store();
            let listing = self.eeprom.listing();
            self.print("error:7\r\n");
            self.print(&listing);
        }
        self.state = if self.eeprom.flag(22) { State::Alarm } else { State::Idle };
        self.greet(failed);
    }

    /// The end of every kind of reset: banner, and what follows it.
    fn greet(&mut self, startup_failed: bool) {
        self.forget();
        self.state = match self.state {
            State::Alarm | State::Sleep => State::Alarm,
            _ => State::Idle,
        };
        let banner = format!("\r\n{}\r\n", self.banner);
        self.print(&banner);
        if self.eeprom.flag(21) && self.axes.iter().any(Axis::switch) {
            self.print("[MSG:Check Limits]\r\n");
            self.state = State::Alarm;
        }
        if self.state == State::Alarm {
            self.print("[MSG:'$H'|'$X' to unlock]\r\n");
        } else if startup_failed {
            self.print(">:error:7\r\n>:error:7\r\n");
        } else {
            self.queue_startup();
        }
    }

    fn refresh_pins(&mut self) {
        for (pin, axis) in self.pins.iter_mut().zip(&self.axes) {
            *pin = axis.switch();
        }
    }

    /// When something next changes in the controller by itself.
    pub(crate) fn next_event(&self) -> Option<Ns> {
        let restless = self.axes.iter().any(Axis::restless) || self.planner.moving();
        [
            self.boot_until,
            self.cycle_start_at,
            self.idle_off_at,
            self.dwell_until,
            self.eeprom_until,
            self.door_resume,
            self.homing.as_ref().and_then(Homing::wakes_at),
            self.planner.segment_end(),
            restless.then_some(self.now + TICK),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Lets the controller and its stage run until `to`.
    pub(crate) fn advance(&mut self, to: Ns) {
        while let Some(next) = self.next_event().filter(|t| *t <= to) {
            self.travel(next.max(self.now));
            self.pump();
        }
        self.travel(to);
        self.pump();
    }

    /// Sends pulses until `to`, stopping on the way wherever a switch demands it.
    fn travel(&mut self, to: Ns) {
        loop {
            let tripped = self.pulse(to);
            let at = tripped.unwrap_or(to).clamp(self.now, to);
            let seconds = (at - self.now) as f64 / 1e9;
            self.now = at;
            self.axes.iter_mut().for_each(|a| a.relax(seconds));
            let rates = self.planner.rates();
            for (i, axis) in self.axes.iter_mut().enumerate() {
                axis.set_rate(if self.planner.locked(i) { 0.0 } else { rates[i] });
            }
            if tripped.is_some() {
                self.on_switch();
                self.pump();
            } else {
                return;
            }
        }
    }

    fn pulse(&mut self, to: Ns) -> Option<Ns> {
        let n = self.n();
        let pins = self.pins;
        let planner = &mut self.planner;
        if let Some(homing) = &self.homing {
            if !homing.approaching() {
                return planner.run(to, &mut self.axes, &mut self.steps, None);
            }
            let wanted = homing.wanted();
            let mut watch = |axes: &[Axis]| (0..n).any(|i| wanted[i] && axes[i].switch());
            return planner.run(to, &mut self.axes, &mut self.steps, Some(&mut watch));
        }
        if self.eeprom.flag(21) {
            let mut watch = |axes: &[Axis]| (0..n).any(|i| axes[i].switch() && !pins[i]);
            let tripped = planner.run(to, &mut self.axes, &mut self.steps, Some(&mut watch));
            if tripped.is_none() {
                self.refresh_pins();
            }
            return tripped;
        }
        planner.run(to, &mut self.axes, &mut self.steps, None)
    }

    fn on_switch(&mut self) {
        if self.homing.is_some() {
            self.homing_switch();
        } else {
            self.check_hard_limits();
        }
    }

    /// A limit pin that has just closed stops everything, if hard limits are on.
    pub(crate) fn check_hard_limits(&mut self) {
        let closed = self.axes.iter().zip(self.pins).any(|(a, was)| a.switch() && !was);
        self.refresh_pins();
        let watched = self.eeprom.flag(21) && self.boot_until.is_none() && self.homing.is_none();
        if closed && watched && self.state != State::Alarm {
            self.critical_alarm(1);
        }
    }

    /// Stops at once and goes deaf until a reset.
    fn critical_alarm(&mut self, code: u8) {
        self.halt();
        self.sync_position();
        self.spindle = (Spindle::Off, 0.0);
        self.coolant = (false, false);
        self.state = State::Alarm;
        self.critical = true;
        self.cycle_start_at = None;
        self.dwell_until = None;
        self.jog_cancel = false;
        self.print(&format!("ALARM:{code}\r\n[MSG:Reset to continue]\r\n"));
    }

    /// Does whatever can be done at this moment.
    fn pump(&mut self) {
        if self.boot_until.is_some_and(|t| t <= self.now) {
            self.boot();
        }
        if self.boot_until.is_some() {
            return;
        }
        loop {
            self.planner.prepare(self.now, self.overrides);
            let progress = self.settle() | self.pump_homing() | self.pump_actions() | self.pump_line();
            if !progress {
                return;
            }
        }
    }

    /// State changes that time or the end of motion brings.
    fn settle(&mut self) -> bool {
        if self.idle_off_at.is_some_and(|t| t <= self.now) {
            self.idle_off_at = None;
            self.axes.iter_mut().for_each(|a| a.set_power(false));
        }
        if self.cycle_start_at.is_some_and(|t| t <= self.now) {
            self.cycle_start_at = None;
            if matches!(self.state, State::Idle | State::Run) && !self.planner.empty() {
                self.begin(State::Run);
                return true;
            }
        }
        if self.door_resume.is_some_and(|t| t <= self.now) {
            self.door_resume = None;
            self.resume_motion();
            return true;
        }
        if self.jog_cancel && !self.stopping() {
            self.jog_cancel = false;
            self.planner.clear();
            self.sync_position();
            if self.state == State::Jog {
                self.state = State::Idle;
            }
            self.rest();
            return true;
        }
        if matches!(self.state, State::Run | State::Jog) && self.planner.empty() && !self.jog_cancel {
            self.state = State::Idle;
            self.planner.clear();
            self.rest();
            return true;
        }
        false
    }

    fn begin(&mut self, state: State) {
        self.state = state;
        self.idle_off_at = None;
        self.cycle_start_at = None;
        self.axes.iter_mut().for_each(|a| a.set_power(true));
        self.planner.start();
        self.planner.prepare(self.now, self.overrides);
    }

    /// Motion is over: the drivers may go off after `$1` milliseconds.
    fn rest(&mut self) {
        self.axes.iter_mut().for_each(|a| a.set_rate(0.0));
        let delay = self.eeprom.get(1) as Ns;
        if delay != 255 && self.axes.iter().any(Axis::powered) {
            self.idle_off_at = Some(self.now + delay * MS);
        }
    }

    fn resume_motion(&mut self) {
        self.spindle_stopped = false;
        if self.planner.empty() {
            self.state = State::Idle;
        } else {
            self.begin(State::Run);
        }
    }
}
