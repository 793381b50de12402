//! A trajectory in time: speed ramps as the firmware plans them, in microsteps of the position counter.

use std::collections::VecDeque;

use crate::port::Ns;

/// Beyond any motor: what acceleration 0 (none) is planned with.
const AT_ONCE: f64 = 1e12;

/// Constant acceleration from `start` on, until the next one begins.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: Ns,
    x: f64,
    v: f64,
    a: f64,
}

impl Segment {
    fn at(&self, t: Ns) -> (f64, f64) {
        let s = t.saturating_sub(self.start) as f64 / 1e9;
        (self.x + self.v * s + self.a * s * s / 2.0, self.v + self.a * s)
    }
}

/// How fast a motion may get, and how quickly: microsteps a second, and a second squared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub speed: f64,
    pub accel: f64,
    pub decel: f64,
}

impl Pace {
    pub(crate) fn new(speed: f64, accel: f64, decel: f64) -> Pace {
        let or_at_once = |a: f64| if a > 0.0 { a } else { AT_ONCE };
        Pace { speed: speed.max(1e-3), accel: or_at_once(accel), decel: or_at_once(decel) }
    }
}

/// Where the counter is and will be.
#[derive(Debug)]
pub(crate) struct Trajectory {
    segments: VecDeque<Segment>,
    rest: f64,
    end: Option<Ns>,
}

impl Trajectory {
    pub(crate) fn at_rest(x: f64) -> Trajectory {
        Trajectory { segments: VecDeque::new(), rest: x, end: None }
    }

    pub(crate) fn moving(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Counter and speed at `t`, which must not lie before what has been forgotten.
    pub(crate) fn at(&self, t: Ns) -> (f64, f64) {
        if self.end.is_some_and(|end| t >= end) {
            return (self.rest, 0.0);
        }
        self.segments
            .iter()
            .rev()
            .find(|s| s.start <= t)
            .or(self.segments.front())
            .map_or((self.rest, 0.0), |s| s.at(t))
    }

    /// When the motion next changes its acceleration or ends, after `now`.
    pub(crate) fn boundary(&self, now: Ns) -> Option<Ns> {
        self.segments.iter().map(|s| s.start).chain(self.end).find(|t| *t > now)
    }

    /// Forgets what lies before `now`, and the whole motion once it is over.
    pub(crate) fn forget(&mut self, now: Ns) {
        while self.segments.get(1).is_some_and(|s| s.start <= now) {
            self.segments.pop_front();
        }
        if self.end.is_some_and(|end| now >= end) {
            *self = Trajectory::at_rest(self.rest);
        }
    }

    /// The first time in `from..=to` at which the counter is at or past `x`, to the nanosecond.
    pub(crate) fn reaches(&self, x: f64, mut from: Ns, mut to: Ns) -> Ns {
        let rising = self.at(to).0 >= self.at(from).0;
        while from < to {
            let middle = from + (to - from) / 2;
            let here = self.at(middle).0;
            if if rising { here >= x } else { here <= x } {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        to
    }

    /// Goes to `target` from where it is at `now`, turning round if it must.
    pub(crate) fn go_to(&mut self, now: Ns, target: f64, pace: Pace) {
        let mut plan = Plan::from(self.at(now), now);
        plan.to(target, pace);
        *self = Trajectory { segments: plan.segments, rest: target, end: Some(plan.t) };
    }

    /// Goes on at `speed` without end.
    pub(crate) fn run(&mut self, now: Ns, speed: f64, pace: Pace) {
        let mut plan = Plan::from(self.at(now), now);
        if plan.v * speed < 0.0 {
            plan.ramp(0.0, pace.decel);
        }
        plan.ramp(speed, if speed.abs() < plan.v.abs() { pace.decel } else { pace.accel });
        plan.segments.push_back(Segment { start: plan.t, x: plan.x, v: speed, a: 0.0 });
        *self = Trajectory { segments: plan.segments, rest: 0.0, end: None };
    }

    /// Comes to rest as soon as `pace` allows.
    pub(crate) fn halt(&mut self, now: Ns, pace: Pace) {
        let mut plan = Plan::from(self.at(now), now);
        plan.ramp(0.0, pace.decel);
        *self = Trajectory { segments: plan.segments, rest: plan.x, end: Some(plan.t) };
    }
}

struct Plan {
    segments: VecDeque<Segment>,
    t: Ns,
    x: f64,
    v: f64,
}

impl Plan {
    fn from((x, v): (f64, f64), now: Ns) -> Plan {
        Plan { segments: VecDeque::new(), t: now, x, v }
    }

    fn push(&mut self, a: f64, seconds: f64) {
        self.segments.push_back(Segment { start: self.t, x: self.x, v: self.v, a });
        self.t += (seconds * 1e9).round() as Ns;
        self.x += (self.v + a * seconds / 2.0) * seconds;
        self.v += a * seconds;
    }

    fn ramp(&mut self, speed: f64, a: f64) {
        let seconds = (speed - self.v).abs() / a;
        if seconds > 0.0 {
            self.push(a * (speed - self.v).signum(), seconds);
            self.v = speed;
        }
    }

    fn to(&mut self, target: f64, pace: Pace) {
        let side = |x: f64| if target >= x { 1.0 } else { -1.0 };
        let towards = self.v * side(self.x);
        let braking = self.v * self.v / (2.0 * pace.decel);
        if towards < 0.0 || braking > (target - self.x).abs() {
            self.ramp(0.0, pace.decel);
        }
        let sign = side(self.x);
        let here = self.v.abs();
        let far = (target - self.x).abs();
        let peak = ((far + here * here / (2.0 * pace.accel)) / (0.5 / pace.accel + 0.5 / pace.decel)).sqrt();
        let top = peak.min(pace.speed);
        self.ramp(sign * top, if top < here { pace.decel } else { pace.accel });
        let left = (target - self.x).abs() - top * top / (2.0 * pace.decel);
        if left > 0.0 && top > 0.0 {
            self.push(0.0, left / top);
        }
        self.ramp(0.0, pace.decel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { speed: 100.0, accel: 50.0, decel: 100.0 };

    /// Follows a motion to its end and checks that neither place nor speed ever jumps.
    fn follow(path: &mut Trajectory, from: Ns) -> (f64, f64) {
        let (mut x, mut v) = path.at(from);
        let mut fastest = 0.0_f64;
        let mut t = from;
        while path.moving() {
            t += 1_000_000;
            let (next, speed) = path.at(t);
            assert!((next - x).abs() <= 0.3 && (speed - v).abs() <= 0.11, "{x} {v} to {next} {speed}");
            (x, v) = (next, speed);
            fastest = fastest.max(v.abs());
            path.forget(t);
        }
        (x, fastest)
    }

    #[test]
    fn a_long_move_ramps_cruises_and_ends_on_the_target() {
        let mut path = Trajectory::at_rest(0.0);
        path.go_to(0, 1000.0, PACE);
        // 2 s up over 100, 1 s down over 50, 850 at full speed.
        assert_eq!(path.end, Some(11_500_000_000));
        let (x, fastest) = follow(&mut path, 0);
        assert_eq!(x, 1000.0);
        assert!((fastest - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_short_move_never_reaches_full_speed() {
        let mut path = Trajectory::at_rest(5.0);
        path.go_to(0, -10.0, PACE);
        let (x, fastest) = follow(&mut path, 0);
        assert_eq!(x, -10.0);
        assert!(fastest < 40.0);
    }

    #[test]
    fn a_target_behind_is_reached_by_turning_round() {
        for target in [-100.0, 20.0, 51.0, 500.0] {
            let mut path = Trajectory::at_rest(0.0);
            path.go_to(0, 1000.0, PACE);
            path.go_to(1_500_000_000, target, PACE);
            assert_eq!(follow(&mut path, 1_500_000_000).0, target);
        }
    }

    #[test]
    fn a_halt_takes_the_braking_distance() {
        let mut path = Trajectory::at_rest(0.0);
        path.run(0, -100.0, PACE);
        let t = 4_000_000_000;
        let (x, v) = path.at(t);
        assert!((v + 100.0).abs() < 1e-9);
        path.halt(t, PACE);
        let (end, _) = follow(&mut path, t);
        assert!((end - (x - 50.0)).abs() < 1e-6);
    }

    #[test]
    fn a_place_on_the_way_has_its_time() {
        let mut path = Trajectory::at_rest(0.0);
        path.run(0, 100.0, PACE);
        // 100 after 2 s of ramp, then 1 at 10 ms.
        assert_eq!(path.reaches(101.0, 0, 5_000_000_000), 2_010_000_000);
    }
}
