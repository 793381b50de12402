//! One motor-driven axis: what a step pulse does to a real carriage, and how that can go wrong.

use crate::config::{AxisConfig, End};

/// A stepper axis with its carriage, end stops and home switch. Positions are millimetres in the bench frame.
#[derive(Debug)]
pub(crate) struct Axis {
    cfg: AxisConfig,
    rng: fastrand::Rng,
    pulses: i64,
    base_mm: f64,
    steps: i64,
    motor_mm: f64,
    follower_mm: f64,
    carriage_mm: f64,
    rate_mm_per_s: f64,
    coast_mm_per_s: f64,
    powered: bool,
    jammed: bool,
    pressed: bool,
    switch_dead: bool,
}

impl Axis {
    pub(crate) fn new(cfg: AxisConfig, seed: u64) -> Axis {
        let start = cfg.start_mm.clamp(cfg.min_mm, cfg.max_mm);
        Axis {
            cfg,
            rng: fastrand::Rng::with_seed(seed),
            pulses: 0,
            base_mm: start,
            steps: 0,
            motor_mm: start,
            follower_mm: start,
            carriage_mm: start,
            rate_mm_per_s: 0.0,
            coast_mm_per_s: 0.0,
            powered: false,
            jammed: false,
            pressed: false,
            switch_dead: false,
        }
    }

    /// Takes `n` step pulses, positive or negative.
    pub(crate) fn step(&mut self, n: i64) {
        if n == 0 {
            return;
        }
        self.pulses += n;
        self.powered = true;
        if self.jammed {
            return;
        }
        let lost = self.losses(n.unsigned_abs());
        let done = (n.unsigned_abs() - lost) as i64;
        self.steps += if (n > 0) == self.cfg.invert { -done } else { done };
        self.follow();
    }

    fn losses(&mut self, n: u64) -> u64 {
        let p = self.cfg.lost_per_1000 / 1000.0;
        if p <= 0.0 {
            return 0;
        }
        (0..n).filter(|_| self.rng.f64() < p).count() as u64
    }

    /// Moves the nut without pulses.
    fn shift(&mut self, mm: f64) {
        self.base_mm += mm;
        self.follow();
    }

    /// Brings the nut to where the steps say; the carriage follows through the backlash. A hard end stalls the motor.
    ///
    /// The position is counted in whole steps from a base, so that it does not depend on how time was cut.
    fn follow(&mut self) {
        let b = self.cfg.backlash_mm;
        let free = self.base_mm + self.steps as f64 / self.cfg.steps_per_mm;
        self.motor_mm = free.clamp(self.cfg.min_mm - b, self.cfg.max_mm);
        if self.motor_mm != free {
            self.base_mm = self.motor_mm;
            self.steps = 0;
        }
        self.follower_mm =
            self.follower_mm.clamp(self.motor_mm, self.motor_mm + b).clamp(self.cfg.min_mm, self.cfg.max_mm);
        if self.cfg.lag_ms <= 0.0 {
            self.carriage_mm = self.follower_mm;
        }
    }

    /// Lets `seconds` pass: lag, coasting after an abrupt stop, sinking without power.
    pub(crate) fn relax(&mut self, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        if self.coast_mm_per_s != 0.0 {
            let v = self.coast_mm_per_s;
            let t = seconds.min(v.abs() / self.cfg.brake_mm_per_s2);
            let left = (v.abs() - self.cfg.brake_mm_per_s2 * t).max(0.0);
            self.coast_mm_per_s = if left < 1e-9 { 0.0 } else { left * v.signum() };
            if !self.jammed {
                self.shift(v.signum() * (v.abs() + left) / 2.0 * t);
            }
        }
        if self.sinking() {
            self.shift(-self.cfg.fall_mm_per_s * seconds);
        }
        if self.cfg.lag_ms > 0.0 {
            let k = 1.0 - (-seconds * 1000.0 / self.cfg.lag_ms).exp();
            self.carriage_mm += (self.follower_mm - self.carriage_mm) * k;
            if (self.follower_mm - self.carriage_mm).abs() < 1e-6 {
                self.carriage_mm = self.follower_mm;
            }
        }
    }

    fn sinking(&self) -> bool {
        !self.powered && self.cfg.falls_unpowered && !self.jammed && self.follower_mm > self.cfg.min_mm
    }

    /// Whether the carriage moves by itself, without pulses.
    pub(crate) fn restless(&self) -> bool {
        self.coast_mm_per_s != 0.0 || self.sinking() || (self.cfg.lag_ms > 0.0 && self.carriage_mm != self.follower_mm)
    }

    /// Pulses end without deceleration: the mass runs on over lost steps.
    pub(crate) fn stop_dead(&mut self) {
        if self.cfg.brake_mm_per_s2 > 0.0 && !self.jammed {
            self.coast_mm_per_s = self.rate_mm_per_s;
        }
        self.rate_mm_per_s = 0.0;
    }

    /// The pulse rate now in force, steps a second, for the speed that observers see.
    pub(crate) fn set_rate(&mut self, steps_per_s: f64) {
        let sign = if self.cfg.invert { -1.0 } else { 1.0 };
        self.rate_mm_per_s = sign * steps_per_s / self.cfg.steps_per_mm;
    }

    pub(crate) fn set_power(&mut self, on: bool) {
        self.powered = on;
    }

    pub(crate) fn powered(&self) -> bool {
        self.powered
    }

    pub(crate) fn switch(&self) -> bool {
        if self.pressed {
            return true;
        }
        if self.switch_dead {
            return false;
        }
        match (self.cfg.home_switch_mm, self.cfg.home_switch_end) {
            (Some(at), End::Max) => self.follower_mm >= at - 1e-9,
            (Some(at), End::Min) => self.follower_mm <= at + 1e-9,
            (None, _) => false,
        }
    }

    pub(crate) fn carriage_mm(&self) -> f64 {
        self.carriage_mm
    }

    pub(crate) fn speed_mm_per_s(&self) -> f64 {
        let stalled = self.jammed
            || (self.rate_mm_per_s > 0.0 && self.follower_mm >= self.cfg.max_mm)
            || (self.rate_mm_per_s < 0.0 && self.follower_mm <= self.cfg.min_mm);
        let driven = if stalled { 0.0 } else { self.rate_mm_per_s };
        let sinking = if self.sinking() { -self.cfg.fall_mm_per_s } else { 0.0 };
        driven + self.coast_mm_per_s + sinking
    }

    pub(crate) fn pulses(&self) -> i64 {
        self.pulses
    }

    pub(crate) fn set_jam(&mut self, on: bool) {
        self.jammed = on;
        if on {
            self.coast_mm_per_s = 0.0;
        }
    }

    pub(crate) fn set_pressed(&mut self, on: bool) {
        self.pressed = on;
    }

    pub(crate) fn set_switch_dead(&mut self, on: bool) {
        self.switch_dead = on;
    }

    /// Steps that were pulsed and did not happen: the carriage falls short by them.
    pub(crate) fn lose(&mut self, steps: i64) {
        let sign = if self.cfg.invert { 1.0 } else { -1.0 };
        self.push(sign * steps as f64 / self.cfg.steps_per_mm);
    }

    /// Somebody pushes the carriage by hand, motor and all.
    pub(crate) fn push(&mut self, mm: f64) {
        let before = self.follower_mm;
        self.follower_mm = (before + mm).clamp(self.cfg.min_mm, self.cfg.max_mm);
        self.base_mm += self.follower_mm - before;
        self.motor_mm += self.follower_mm - before;
        if self.cfg.lag_ms <= 0.0 {
            self.carriage_mm = self.follower_mm;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(edit: impl FnOnce(&mut AxisConfig)) -> Axis {
        let mut cfg = AxisConfig {
            steps_per_mm: 100.0,
            invert: false,
            min_mm: 0.0,
            max_mm: 10.0,
            start_mm: 5.0,
            home_switch_mm: Some(9.0),
            home_switch_end: End::Max,
            backlash_mm: 0.0,
            lost_per_1000: 0.0,
            lag_ms: 0.0,
            brake_mm_per_s2: 0.0,
            falls_unpowered: false,
            fall_mm_per_s: 1.0,
        };
        edit(&mut cfg);
        Axis::new(cfg, 1)
    }

    #[test]
    fn never_beyond_the_hard_ends() {
        let mut a = axis(|_| ());
        a.step(100_000);
        assert_eq!(a.carriage_mm(), 10.0);
        a.step(-1_000_000);
        assert_eq!(a.carriage_mm(), 0.0);
        assert_eq!(a.pulses(), -900_000);
    }

    #[test]
    fn backlash_is_taken_up_on_reversal() {
        let mut a = axis(|c| c.backlash_mm = 0.05);
        a.step(100);
        assert!((a.carriage_mm() - 6.0).abs() < 1e-9);
        a.step(-5);
        assert!((a.carriage_mm() - 6.0).abs() < 1e-9);
        a.step(-95);
        assert!((a.carriage_mm() - 5.05).abs() < 1e-9);
    }

    #[test]
    fn an_inverted_axis_moves_the_other_way() {
        let mut a = axis(|c| c.invert = true);
        a.step(100);
        assert!((a.carriage_mm() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_mass_runs_on_by_v_squared_over_two_a() {
        let mut a = axis(|c| c.brake_mm_per_s2 = 100.0);
        a.set_rate(1000.0);
        a.stop_dead();
        for _ in 0..300 {
            a.relax(0.001);
        }
        assert!((a.carriage_mm() - 5.5).abs() < 1e-6);
        assert!(!a.restless());
    }

    #[test]
    fn lost_steps_leave_the_carriage_short() {
        let mut a = axis(|c| c.lost_per_1000 = 100.0);
        a.step(400);
        assert!(a.carriage_mm() < 8.9 && a.carriage_mm() > 8.0);
        assert_eq!(a.pulses(), 400);
    }

    #[test]
    fn an_unpowered_vertical_axis_sinks() {
        let mut a = axis(|c| c.falls_unpowered = true);
        a.relax(2.0);
        assert!((a.carriage_mm() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn lag_settles_on_the_target() {
        let mut a = axis(|c| c.lag_ms = 10.0);
        a.step(100);
        assert!((a.carriage_mm() - 5.0).abs() < 1e-9);
        a.relax(0.01);
        assert!(a.carriage_mm() > 5.5 && a.carriage_mm() < 5.8);
        a.relax(1.0);
        assert_eq!(a.carriage_mm(), 6.0);
    }
}
