//! The look-ahead planner and the segments that turn its blocks into step pulses.
//!
//! Motion is prepared in short segments ahead of the motors, so that a hold, a change of rate and the reported speed
//! are a few tens of milliseconds apart from the pulses, as in the firmware (interface.md: "30-50 msec").

use std::collections::VecDeque;

use crate::mechanics::Axis;
use crate::port::Ns;

const SEGMENT_S: f64 = 0.010;
const AHEAD: usize = 5;
const TINY: f64 = 1e-9;

/// A straight move that has been accepted.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) delta: [i64; 6],
    pub(super) mm: f64,
    pub(super) unit: [f64; 6],
    pub(super) accel: f64,
    pub(super) programmed: f64,
    pub(super) limit: f64,
    pub(super) rapid: bool,
    pub(super) scalable: bool,
    junction: f64,
    done_mm: f64,
}

impl Path {
    /// A move of `delta` steps; `None` when it is no move at all.
    pub(super) fn new(delta: [i64; 6], n: usize, table: &Table, feed: Feed) -> Option<Path> {
        let mut mm = [0.0; 6];
        for i in 0..n {
            if delta[i] != 0 {
                mm[i] = delta[i] as f64 / table.steps_per_mm[i];
            }
        }
        let length = mm.iter().map(|v| v * v).sum::<f64>().sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return None;
        }
        let unit = mm.map(|v| v / length);
        let along = |each: &[f64; 6]| {
            (0..n).filter(|i| unit[*i] != 0.0).map(|i| each[i] / unit[i].abs()).fold(f64::INFINITY, f64::min)
        };
        let limit = along(&table.rate).max(1.0 / 60.0);
        let (programmed, rapid, scalable) = match feed {
            Feed::Rapid => (limit, true, true),
            Feed::PerMinute(v) => (v / 60.0, false, true),
            Feed::Inverse(per_min) => (length * per_min / 60.0, false, true),
            Feed::Jog(v) => (v / 60.0, false, false),
            Feed::Search(v) => (v / 60.0, false, false),
        };
        Some(Path {
            delta,
            mm: length,
            unit,
            accel: along(&table.accel).max(1e-3),
            programmed: programmed.max(1.0 / 60.0),
            limit,
            rapid,
            scalable,
            junction: 0.0,
            done_mm: 0.0,
        })
    }
}

/// How fast a move is meant to be; mm/min, or 1/min for inverse time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Feed {
    Rapid,
    PerMinute(f64),
    Inverse(f64),
    Jog(f64),
    Search(f64),
}

/// The per-axis numbers that planning needs: steps/mm, mm/s, mm/s².
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) steps_per_mm: [f64; 6],
    pub(super) rate: [f64; 6],
    pub(super) accel: [f64; 6],
    pub(super) junction_deviation: f64,
}

/// Asked after each pulse whether to stop there.
pub(super) type Watch<'a> = &'a mut dyn FnMut(&[Axis]) -> bool;

/// Overrides in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overrides {
    pub(super) feed: u8,
    pub(super) rapid: u8,
    pub(super) spindle: u8,
}

#[derive(Debug)]
struct Segment {
    delta: [i64; 6],
    n: i64,
    seconds: f64,
    end_mm_per_s: f64,
    unit_rate: [f64; 6],
    start: Ns,
    length: Ns,
    done: i64,
}

/// Blocks waiting, segments prepared, and the pulses of the one that runs.
#[derive(Debug)]
pub(super) struct Planner {
    n: usize,
    capacity: usize,
    queue: VecDeque<Path>,
    segments: VecDeque<Segment>,
    speed: f64,
    running: bool,
    holding: bool,
    locked: [bool; 6],
    pub(super) slow: f64,
    last_unit: Option<([f64; 6], f64)>,
}

impl Planner {
    pub(super) fn new(n: usize, capacity: usize) -> Planner {
        Planner {
            n,
            capacity,
            queue: VecDeque::new(),
            segments: VecDeque::new(),
            speed: 0.0,
            running: false,
            holding: false,
            locked: [false; 6],
            slow: 1.0,
            last_unit: None,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.queue.len())
    }

    /// Nothing waits and nothing runs.
    pub(super) fn empty(&self) -> bool {
        self.queue.is_empty() && self.segments.is_empty()
    }

    /// Pulses are going out.
    pub(super) fn moving(&self) -> bool {
        !self.segments.is_empty()
    }

    /// The hold has come to its end: no pulses, blocks may remain.
    pub(super) fn held(&self) -> bool {
        self.segments.is_empty() && (self.speed == 0.0 || self.queue.is_empty())
    }

    pub(super) fn reported_mm_per_s(&self) -> f64 {
        self.segments.back().map_or(0.0, |s| s.end_mm_per_s)
    }

    pub(super) fn push(&mut self, mut path: Path, table: &Table) {
        let before = self.queue.back().map(|p| (p.unit, p.programmed.min(p.limit)));
        if let Some((unit, speed)) = before.or(self.last_unit.filter(|_| self.running)) {
            path.junction =
                junction(&unit, &path, table.junction_deviation).min(speed).min(path.programmed.min(path.limit));
        }
        self.queue.push_back(path);
    }

    pub(super) fn start(&mut self) {
        self.running = true;
        self.holding = false;
    }

    pub(super) fn hold(&mut self) {
        self.holding = true;
    }

    /// Locks axes out of the running move, as homing does when their switch closes.
    pub(super) fn lock(&mut self, axis: usize) {
        self.locked[axis] = true;
    }

    pub(super) fn locked(&self, axis: usize) -> bool {
        self.locked[axis]
    }

    /// Forgets everything; pulses end at once.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.segments.clear();
        self.speed = 0.0;
        self.running = false;
        self.holding = false;
        self.locked = [false; 6];
        self.last_unit = None;
    }

    /// When the segment that runs ends.
    pub(super) fn segment_end(&self) -> Option<Ns> {
        self.segments.front().map(|s| s.start + s.length)
    }

    /// The step rates of the segment that runs, pulses a second.
    pub(super) fn rates(&self) -> [f64; 6] {
        self.segments.front().map_or([0.0; 6], |s| s.unit_rate)
    }

    /// Prepares segments ahead of the motors. `now` is when the first of them may start.
    pub(super) fn prepare(&mut self, now: Ns, overrides: Overrides) {
        while self.running && self.segments.len() < AHEAD && !self.queue.is_empty() {
            if self.holding && self.speed < TINY {
                self.speed = 0.0;
                break;
            }
            let segment = self.next_segment(now, overrides);
            self.segments.push_back(segment);
        }
        if self.queue.is_empty() {
            self.speed = 0.0;
        }
    }

    fn nominal(&self, path: &Path, overrides: Overrides) -> f64 {
        let percent = match (path.scalable, path.rapid) {
            (false, _) => 100,
            (true, true) => overrides.rapid,
            (true, false) => overrides.feed,
        };
        (path.programmed * f64::from(percent) / 100.0).min(path.limit).max(1.0 / 60.0)
    }

    /// The fastest speed at which the first block may end, so that all later ones can be obeyed.
    fn exit_speed(&self, overrides: Overrides) -> f64 {
        let mut exit = 0.0_f64;
        for path in self.queue.iter().skip(1).rev() {
            let brakes = (exit * exit + 2.0 * path.accel * path.mm).sqrt();
            exit = path.junction.min(self.nominal(path, overrides)).min(brakes);
        }
        exit
    }

    fn next_segment(&mut self, now: Ns, overrides: Overrides) -> Segment {
        let exit = self.exit_speed(overrides);
        let mut path = self.queue[0].clone();
        let nominal = self.nominal(&path, overrides);
        let from = path.done_mm;
        let mut left = SEGMENT_S;
        let mut v = self.speed;
        let a = path.accel;
        for _ in 0..64 {
            if left <= TINY || path.mm - path.done_mm <= TINY {
                break;
            }
            let to_go = path.mm - path.done_mm;
            let (end_speed, accel, phase) = phase(v, nominal, exit, a, to_go, self.holding);
            let t = phase.min(left);
            let moved = (v * t + accel * t * t / 2.0).clamp(0.0, to_go);
            path.done_mm += moved;
            left -= t;
            v = if t < phase { (v + accel * t).max(0.0) } else { end_speed };
            if self.holding && v < TINY {
                v = 0.0;
                break;
            }
        }
        let ended = path.mm - path.done_mm <= 1e-7;
        let seconds = (SEGMENT_S - left.max(0.0)).max(1e-6);
        if ended {
            path.done_mm = path.mm;
        }
        let at = |mm: f64, i: usize| (path.delta[i] as f64 * mm / path.mm).round() as i64;
        let mut delta = [0; 6];
        let mut unit_rate = [0.0; 6];
        for i in 0..self.n {
            delta[i] = at(path.done_mm, i) - at(from, i);
            unit_rate[i] = path.delta[i] as f64 / path.mm * (path.done_mm - from) / seconds * self.slow;
        }
        self.speed = v;
        if ended {
            self.last_unit = Some((path.unit, nominal));
            self.queue.pop_front();
        } else {
            self.queue[0] = path;
        }
        let start = self.segments.back().map_or(now, |s| s.start + s.length);
        Segment {
            delta,
            n: delta.iter().map(|d| d.abs()).max().unwrap_or(0),
            seconds,
            end_mm_per_s: v,
            unit_rate,
            start,
            length: (seconds / self.slow * 1e9).round() as Ns,
            done: 0,
        }
    }

    /// Changes the pace of what is prepared and of what comes.
    pub(super) fn set_slow(&mut self, factor: f64, now: Ns) {
        let ratio = self.slow / factor;
        self.slow = factor;
        let mut start = None;
        for s in &mut self.segments {
            if start.is_none() && s.start < now {
                let passed = ((now - s.start) as f64 * ratio) as Ns;
                s.start = now.saturating_sub(passed);
            } else {
                s.start = start.unwrap_or(s.start);
            }
            s.length = (s.seconds / factor * 1e9).round() as Ns;
            s.unit_rate = s.unit_rate.map(|r| r / ratio);
            start = Some(s.start + s.length);
        }
    }

    /// Sends the pulses due by `to`. With `watch`, stops at the first pulse after which `watch` says so and returns
    /// that moment; the rest of the segment is not lost.
    pub(super) fn run(
        &mut self,
        to: Ns,
        axes: &mut [Axis],
        steps: &mut [i64; 6],
        mut watch: Option<Watch<'_>>,
    ) -> Option<Ns> {
        while let Some(s) = self.segments.front_mut() {
            if to < s.start {
                return None;
            }
            let due = if to >= s.start + s.length {
                s.n
            } else {
                (s.n as f64 * (to - s.start) as f64 / s.length as f64).floor() as i64
            };
            while s.done < due {
                let next = if watch.is_some() { s.done + 1 } else { due };
                for (i, axis) in axes.iter_mut().enumerate().take(self.n) {
                    if self.locked[i] {
                        continue;
                    }
                    let at = |k: i64| (s.delta[i] as f64 * k as f64 / s.n as f64).round() as i64;
                    let pulses = at(next) - at(s.done);
                    steps[i] += pulses;
                    axis.step(pulses);
                }
                s.done = next;
                if let Some(tripped) = watch.as_deref_mut()
                    && tripped(axes)
                {
                    return Some(s.start + (s.length as f64 * next as f64 / s.n as f64) as Ns);
                }
            }
            if to < s.start + s.length {
                return None;
            }
            self.segments.pop_front();
        }
        None
    }
}

/// The next stretch of constant acceleration: its end speed, acceleration and duration.
fn phase(v: f64, nominal: f64, exit: f64, a: f64, to_go: f64, holding: bool) -> (f64, f64, f64) {
    if holding {
        return (0.0, -a, v / a);
    }
    let braking = ((v * v - exit * exit) / (2.0 * a)).max(0.0);
    if braking >= to_go - TINY && v > exit {
        // Brake so as to reach the end exactly at the exit speed.
        let need = ((v * v - exit * exit) / (2.0 * to_go)).max(a * 0.5);
        return (exit, -need, (v - exit) / need);
    }
    if v > nominal + TINY {
        return (nominal, -a, (v - nominal) / a);
    }
    if v < nominal - TINY {
        let peak = ((2.0 * a * to_go + v * v + exit * exit) / 2.0).sqrt().min(nominal);
        if peak > v + TINY {
            return (peak, a, (peak - v) / a);
        }
    }
    let cruise = to_go - braking;
    (v, 0.0, cruise / v.max(1e-6))
}

/// The speed at which a corner may be taken, from the junction deviation ($11).
fn junction(before: &[f64; 6], path: &Path, deviation: f64) -> f64 {
    let cos = -before.iter().zip(path.unit).map(|(a, b)| a * b).sum::<f64>();
    if cos > 0.999_999 {
        return 0.0;
    }
    if cos < -0.999_999 {
        return f64::INFINITY;
    }
    let half = ((1.0 - cos) / 2.0).sqrt();
    (path.accel * deviation * half / (1.0 - half)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table { steps_per_mm: [100.0; 6], rate: [20.0; 6], accel: [200.0; 6], junction_deviation: 0.01 }
    }

    fn all() -> Overrides {
        Overrides { feed: 100, rapid: 100, spindle: 100 }
    }

    fn run_out(p: &mut Planner) -> (Vec<f64>, Ns) {
        let mut speeds = Vec::new();
        let mut now = 0;
        loop {
            p.prepare(now, all());
            let Some(end) = p.segment_end() else { break };
            let s = &p.segments[0];
            speeds.push(s.unit_rate.iter().map(|r| (r / 100.0).powi(2)).sum::<f64>().sqrt());
            now = end;
            p.run(now, &mut [], &mut [0; 6], None);
        }
        (speeds, now)
    }

    #[test]
    fn a_trapezoid_takes_its_time_and_never_exceeds_the_rate() {
        let mut p = Planner::new(3, 15);
        p.push(Path::new([1000, 0, 0, 0, 0, 0], 3, &table(), Feed::Rapid).expect("a move"), &table());
        p.start();
        let (speeds, end) = run_out(&mut p);
        assert!(speeds.iter().all(|v| *v <= 20.0 + 1e-9));
        // 10 mm at 20 mm/s with 0.1 s up and down: 0.6 s.
        assert!((end as f64 / 1e9 - 0.6).abs() < 0.002, "{end}");
    }

    #[test]
    fn colinear_blocks_run_through_and_reversals_stop() {
        let mut p = Planner::new(3, 15);
        for _ in 0..2 {
            p.push(Path::new([500, 0, 0, 0, 0, 0], 3, &table(), Feed::Rapid).expect("a move"), &table());
        }
        p.start();
        let (_, through) = run_out(&mut p);
        assert!((through as f64 / 1e9 - 0.6).abs() < 0.01, "{through}");
        let mut p = Planner::new(3, 15);
        for sign in [1, -1] {
            p.push(Path::new([500 * sign, 0, 0, 0, 0, 0], 3, &table(), Feed::Rapid).expect("a move"), &table());
        }
        p.start();
        let (_, back) = run_out(&mut p);
        assert!((back as f64 / 1e9 - 0.7).abs() < 0.01, "{back}");
    }

    #[test]
    fn a_hold_decelerates_and_resumes_to_the_full_distance() {
        let mut p = Planner::new(3, 15);
        p.push(Path::new([1000, 0, 0, 0, 0, 0], 3, &table(), Feed::Rapid).expect("a move"), &table());
        p.start();
        p.prepare(0, all());
        for _ in 0..20 {
            let end = p.segment_end().expect("running");
            p.run(end, &mut [], &mut [0; 6], None);
            p.prepare(end, all());
        }
        p.hold();
        run_out(&mut p);
        assert!(p.held() && !p.empty());
        let left = p.queue[0].mm - p.queue[0].done_mm;
        assert!(left > 3.0 && left < 8.0, "{left}");
        p.start();
        run_out(&mut p);
        assert!(p.empty());
    }
}
