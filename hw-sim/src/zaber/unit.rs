//! One axis of a Zaber device: its counter, its driver, its stage, and what it warns of.

mod travel;

use std::collections::BTreeSet;

use super::config::{EncoderConfig, UnitConfig};
use super::flags::Flag;
use super::settings::{IN_MICROSTEPS, RESOLUTION, Scope, Store};
use crate::mechanics::Axis;
use crate::motion::{Pace, Trajectory};
use crate::port::Ns;

/// Speed settings count 1.6384 to a microstep a second.
const SPEED_UNIT: f64 = 1.6384;
/// Acceleration settings count 1.6384 to ten thousand microsteps a second squared.
const ACCEL_UNIT: f64 = SPEED_UNIT / 10_000.0;
/// Observers look this often at a carriage that moves.
const TICK: Ns = 5_000_000;

/// Why a command is rejected, as the protocol spells it.
pub(super) type Reason = &'static str;

/// What an axis is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Rest,
    Move,
    Manual,
    /// Towards the home switch.
    Seek,
    /// The switch has closed: coming to rest on it.
    Past,
    /// Slowly off the switch; where it opens is the reference.
    Leave,
    /// From the switch to the home position.
    Settle,
}

/// A movement as a command asks for it, in microsteps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Go {
    To(f64),
    By(f64),
    /// At a speed, as settings count it.
    At(f64),
    Home,
}

/// One axis with its stage.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) stage: Axis,
    pub(super) store: Store,
    pub(super) peripheral_id: u32,
    pub(super) stored: [Option<f64>; 16],
    given: UnitConfig,
    encoder: Option<EncoderConfig>,
    now: Ns,
    path: Trajectory,
    task: Task,
    /// What is asked of a motion that goes on by itself, to plan it again when the stage turns slow.
    pace: Pace,
    target: Option<f64>,
    /// Pulses sent, and where they stood when the counter was 0.
    sent: i64,
    zero: i64,
    /// The carriage, as the encoder counts it, when the counter was 0.
    encoder_zero: f64,
    referenced: bool,
    homed: bool,
    driver: bool,
    slow: f64,
    sought: i64,
    switch_was: bool,
    raised: BTreeSet<Flag>,
    /// The position the axis was parked at, kept without power.
    parked_at: f64,
    finished: bool,
}

impl Unit {
    pub(super) fn new(cfg: &UnitConfig, seed: u64) -> Unit {
        let mut unit = Unit {
            name: cfg.name.clone(),
            stage: Axis::new(cfg.stage.clone(), seed),
            store: Store::factory(Scope::Axis).with(&cfg.settings),
            peripheral_id: cfg.peripheral_id,
            stored: [None; 16],
            given: cfg.clone(),
            encoder: cfg.encoder,
            now: 0,
            path: Trajectory::at_rest(0.0),
            task: Task::Rest,
            pace: Pace::new(1.0, 0.0, 0.0),
            target: None,
            sent: 0,
            zero: 0,
            encoder_zero: 0.0,
            referenced: false,
            homed: false,
            driver: true,
            slow: 1.0,
            sought: 0,
            switch_was: false,
            raised: BTreeSet::new(),
            parked_at: 0.0,
            finished: false,
        };
        unit.wake();
        unit
    }

    /// The state after power has come on.
    fn wake(&mut self) {
        self.path = Trajectory::at_rest(0.0);
        self.task = Task::Rest;
        self.raised.clear();
        self.driver = true;
        self.homed = false;
        self.referenced = false;
        self.finished = false;
        self.stage.set_power(true);
        self.stage.set_rate(0.0);
        self.switch_was = self.stage.switch();
        self.set_counter(0.0);
        if self.parked() {
            self.set_counter(self.parked_at);
            self.referenced = true;
        } else if self.encoder.is_some_and(|e| e.absolute) {
            // Its scale counts from the home position.
            let switch = self.given.stage.home_switch_mm.unwrap_or(0.0);
            let away = (self.stage.carriage_mm() - switch) * self.per_mm();
            self.set_counter((away - self.setting("limit.home.offset")).round());
            self.referenced = true;
        }
    }

    pub(super) fn power_cycle(&mut self) {
        if self.path.moving() {
            self.stage.stop_dead();
        }
        self.stage.set_power(false);
        self.wake();
    }

    /// The factory's settings, and nothing that was stored.
    pub(super) fn restore(&mut self) {
        let parked = self.store.get("parking.state");
        self.store = Store::factory(Scope::Axis).with(&self.given.settings);
        self.store.put("parking.state", parked);
        self.stored = [None; 16];
        self.referenced = false;
        self.homed = false;
    }

    fn setting(&self, name: &str) -> f64 {
        self.store.get(name) as f64
    }

    fn resolution(&self) -> f64 {
        self.setting("resolution")
    }

    /// Microsteps of the counter to a millimetre of the bench, with its sign.
    fn per_mm(&self) -> f64 {
        let sign = if self.given.stage.invert { -1.0 } else { 1.0 };
        sign * self.given.stage.steps_per_mm * self.resolution() / RESOLUTION as f64
    }

    /// Pulses for a counter value. The motor turns by the factory's microsteps, whatever the counter counts.
    fn pulses_at(&self, x: f64) -> i64 {
        (x * RESOLUTION as f64 / self.resolution()).round() as i64
    }

    pub(super) fn counter(&self) -> f64 {
        self.path.at(self.now).0
    }

    pub(super) fn pos(&self) -> i64 {
        self.counter().round() as i64
    }

    pub(super) fn speed(&self) -> i64 {
        (self.path.at(self.now).1 * SPEED_UNIT).round() as i64
    }

    fn encoder_mm(&self) -> Option<f64> {
        let e = self.encoder?;
        Some((self.stage.carriage_mm() * e.counts_per_mm).round() / e.counts_per_mm)
    }

    /// Where the encoder sees the carriage, in microsteps. `None` without one.
    pub(super) fn encoder_pos(&self) -> Option<f64> {
        Some((self.encoder_mm()? - self.encoder_zero) * self.per_mm())
    }

    pub(super) fn encoder_count(&self) -> Option<i64> {
        Some((self.stage.carriage_mm() * self.encoder?.counts_per_mm).round() as i64)
    }

    /// Says what the counter reads here and now. At rest only.
    pub(super) fn set_counter(&mut self, x: f64) {
        self.path = Trajectory::at_rest(x);
        self.zero = self.sent - self.pulses_at(x);
        self.encoder_zero = self.encoder_mm().unwrap_or(0.0) - x / self.per_mm();
    }

    /// A position that a person or a host declares.
    pub(super) fn declare(&mut self, x: f64) {
        self.set_counter(x);
        self.referenced = true;
    }

    pub(super) fn busy(&self) -> bool {
        self.path.moving()
    }

    pub(super) fn driver_on(&self) -> bool {
        self.driver
    }

    pub(super) fn parked(&self) -> bool {
        self.store.get("parking.state") == 1
    }

    pub(super) fn raise(&mut self, flag: Flag) {
        self.raised.insert(flag);
    }

    pub(super) fn flags(&self) -> BTreeSet<Flag> {
        let mut flags = self.raised.clone();
        if !self.driver {
            flags.insert(Flag::FO);
        }
        if !self.referenced {
            flags.insert(Flag::WR);
        } else if !self.homed {
            flags.insert(Flag::WH);
        }
        flags
    }

    pub(super) fn clear_warnings(&mut self) {
        self.raised.retain(|f| !f.clearable());
    }

    /// Whether a motion has come to its end since the last call.
    pub(super) fn take_finished(&mut self) -> bool {
        std::mem::take(&mut self.finished)
    }

    pub(super) fn set_slow(&mut self, factor: f64) {
        self.slow = factor;
        if let (Some(target), Task::Move | Task::Manual) = (self.target, self.task)
            && self.busy()
        {
            self.path.go_to(self.now, target, self.slowed(self.pace));
        }
    }

    fn slowed(&self, pace: Pace) -> Pace {
        Pace { speed: pace.speed * self.slow, ..pace }
    }

    /// The speed and acceleration of a motion: as a command gives them, else the settings.
    fn pace_of(&self, speed: Option<f64>, accel: Option<f64>) -> Pace {
        let accel_of = |name| accel.unwrap_or_else(|| self.setting(name)) / ACCEL_UNIT;
        Pace::new(
            speed.unwrap_or_else(|| self.setting("maxspeed")) / SPEED_UNIT,
            accel_of("motion.accelonly"),
            accel_of("motion.decelonly"),
        )
    }

    fn homing_pace(&self, name: &str) -> Pace {
        let pace = self.pace_of(None, None);
        self.slowed(Pace { speed: (self.setting(name) / SPEED_UNIT).min(pace.speed), ..pace })
    }

    /// Whether a movement is possible, before any axis of a command begins one.
    pub(super) fn may_go(&self, go: Go) -> Result<(), Reason> {
        if !self.driver {
            return Err("DRIVERDISABLED");
        }
        if self.parked() && !matches!(go, Go::Home) {
            return Err("PARKED");
        }
        let within = |x: f64| self.setting("limit.min") <= x && x <= self.setting("limit.max");
        let possible = match go {
            Go::To(x) => self.referenced && within(x),
            Go::By(d) => !self.referenced || within(self.aim() + d),
            Go::At(_) | Go::Home => true,
        };
        if possible { Ok(()) } else { Err("BADDATA") }
    }

    /// What a relative move counts from: where the axis is.
    fn aim(&self) -> f64 {
        self.counter().round()
    }

    /// Begins a movement, in place of any other.
    pub(super) fn go(&mut self, go: Go, speed: Option<f64>, accel: Option<f64>) {
        self.preempt();
        self.raised.remove(&Flag::NC);
        self.stage.set_power(true);
        self.pace = self.pace_of(speed, accel);
        match go {
            Go::To(x) => self.head_for(x, Task::Move),
            Go::By(d) => self.head_for(self.aim() + d, Task::Move),
            Go::At(v) => {
                let pace = self.pace_of(Some(v.abs()), accel);
                self.pace = pace;
                if v == 0.0 {
                    self.path.halt(self.now, pace);
                    self.task = Task::Move;
                } else if self.referenced {
                    self.head_for(self.setting(if v > 0.0 { "limit.max" } else { "limit.min" }), Task::Move);
                } else {
                    self.target = None;
                    self.path.run(self.now, v.signum() * self.slowed(pace).speed, pace);
                    self.task = Task::Move;
                }
            }
            Go::Home => self.seek_home(),
        }
        self.settle();
    }

    fn preempt(&mut self) {
        if self.busy() {
            self.raised.insert(Flag::NI);
        } else {
            self.raised.remove(&Flag::NI);
        }
        self.finished = false;
    }

    fn head_for(&mut self, x: f64, task: Task) {
        self.target = Some(x);
        self.path.go_to(self.now, x, self.slowed(self.pace));
        self.task = task;
    }

    fn seek_home(&mut self) {
        self.store.put("parking.state", 0);
        self.sought = self.sent;
        if self.stage.switch() {
            self.leave_switch();
        } else {
            let pace = self.homing_pace("limit.approach.maxspeed");
            self.path.run(self.now, -pace.speed, pace);
            self.task = Task::Seek;
        }
    }

    fn leave_switch(&mut self) {
        let pace = self.homing_pace("limit.detect.maxspeed");
        self.path.run(self.now, pace.speed, pace);
        self.task = Task::Leave;
    }

    /// Decelerates to rest.
    pub(super) fn stop(&mut self) {
        if self.busy() {
            self.preempt();
            self.target = None;
            self.path.halt(self.now, self.pace_of(None, None));
            self.task = Task::Move;
            self.settle();
        }
    }

    /// Ends all pulses at once.
    pub(super) fn emergency_stop(&mut self) {
        if self.busy() {
            self.preempt();
            self.freeze();
            self.finished = true;
        }
    }

    fn freeze(&mut self) {
        self.stage.stop_dead();
        self.path = Trajectory::at_rest(self.counter_of(self.sent));
        self.task = Task::Rest;
        self.target = None;
    }

    fn counter_of(&self, pulses: i64) -> f64 {
        ((pulses - self.zero) as f64 * self.resolution() / RESOLUTION as f64).round()
    }

    pub(super) fn disable_driver(&mut self) {
        self.emergency_stop();
        self.driver = false;
        self.stage.set_power(false);
        if self.encoder.is_none() {
            // Nothing tells where the carriage is moved to.
            self.referenced = false;
            self.homed = false;
        }
    }

    pub(super) fn enable_driver(&mut self) {
        if self.driver {
            return;
        }
        self.driver = true;
        self.stage.set_power(true);
        if let Some(x) = self.encoder_pos() {
            self.set_counter(x.round());
        }
    }

    pub(super) fn park(&mut self) -> Result<(), Reason> {
        if self.busy() {
            return Err("STATUSBUSY");
        }
        self.parked_at = self.counter();
        self.store.put("parking.state", 1);
        Ok(())
    }

    pub(super) fn unpark(&mut self) {
        self.store.put("parking.state", 0);
    }

    /// Counts in another unit: everything in microsteps changes with it.
    pub(super) fn set_resolution(&mut self, to: i64) {
        let factor = to as f64 / self.resolution();
        let x = self.counter();
        for name in IN_MICROSTEPS {
            let setting = (self.setting(name) * factor).round() as i64;
            self.store.put(name, setting);
        }
        self.store.put("resolution", to);
        self.path = Trajectory::at_rest((x * factor).round());
    }

    /// Somebody turns the knob until the carriage should be `mm` further; 0 presses it, which stops.
    pub(super) fn turn_knob(&mut self, mm: f64) {
        if self.store.get("knob.enable") == 0 || self.parked() || !self.driver {
            return;
        }
        if mm == 0.0 {
            self.stop();
            return;
        }
        let mut x = self.aim() + (mm * self.per_mm()).round();
        if self.referenced {
            x = x.clamp(self.setting("limit.min"), self.setting("limit.max").max(self.setting("limit.min")));
        }
        self.preempt();
        self.raised.insert(Flag::NC);
        self.stage.set_power(true);
        self.pace = self.pace_of(Some(self.setting("knob.maxspeed")), None);
        self.head_for(x, Task::Manual);
        self.settle();
    }

    /// When something next changes in the axis by itself.
    pub(super) fn next_event(&self) -> Option<Ns> {
        let restless = self.busy() || self.stage.restless();
        [self.path.boundary(self.now), restless.then_some(self.now + TICK)].into_iter().flatten().min()
    }
}
