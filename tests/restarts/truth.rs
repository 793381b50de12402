//! What must hold at every look, by the true carriage positions, whatever was ordered and whatever broke.

use std::time::Duration;

use steadyhand::model::{Activity, Code, Moved, Report, RigError, Trust};

use super::World;
use super::rigs::{AXES, fastest};

/// Tolerance and backlash of the benches, with a hair for the reports' decimals, in mm.
pub const TOLERANCE: [f64; 3] = [0.025, 0.025, 0.01];
/// What the carriage runs on over lost steps when pulses end at full speed: v²/2b.
const COAST: [f64; 3] = [0.1, 0.1, 0.004];
/// Below this nothing has moved.
const NOTHING: f64 = 0.002;
/// How long it takes to see that a motion leaves its way, on a link that works: a reading each 100 ms that takes 30 ms,
/// and one that may be lost.
const DETECTION: f64 = 0.25;

impl World {
    /// How far a command whose bytes were lost may lead before it is stopped: v × (detection + link) + v²/2a.
    fn astray_by(&self, axis: usize) -> f64 {
        let (v, a) = fastest(self.peer)[axis];
        v * (DETECTION + self.link.as_secs_f64()) + v * v / (2.0 * a)
    }

    /// How far out of its travel, or inside of a keep-out, the carriage is, and along which axis.
    fn outside(&self, at: [f64; 3]) -> Option<(f64, usize, String)> {
        let clean = |i: usize| TOLERANCE[i] + if self.coasted { COAST[i] } else { 0.0 };
        let mut worst: Option<(f64, usize, String)> = None;
        let mut note = |depth: f64, i: usize, what: String| {
            if depth > clean(i) && worst.as_ref().is_none_or(|w| w.0 < depth) {
                worst = Some((depth, i, what));
            }
        };
        for i in 0..3 {
            let (low, high) = self.frames[i].travel;
            note((low - at[i]).max(at[i] - high), i, format!("{} is outside its travel", AXES[i]));
        }
        for bounds in &self.boxes {
            let depths: Vec<f64> = (0..3).map(|i| (at[i] - bounds[i].0).min(bounds[i].1 - at[i])).collect();
            // Seen along the axis that is the nearest to its way out, in its own measure.
            let i = (0..3).min_by(|a, b| (depths[*a] / clean(*a)).total_cmp(&(depths[*b] / clean(*b)))).unwrap_or(0);
            note(depths[i], i, format!("it is inside the keep-out {bounds:.3?} by {}", AXES[i]));
        }
        worst
    }

    /// Whether it is told that the axes may move: that they can't be reached, or do not obey.
    fn loud(&self) -> bool {
        let lab = self.lab.as_ref().expect("a run of the program");
        let scope = lab.scope();
        scope.activity == Activity::Offline
            || scope.fault.is_some_and(|f| matches!(f.code, Code::StopNotSent | Code::StopNotConfirmed))
    }

    /// How often something that went wrong, or a stop, has been told.
    fn told(&mut self) -> usize {
        let log = self.lab().log.clone();
        let events = log.events.lock();
        events.iter().filter(|e| matches!(e.kind, "fault" | "lost" | "stop" | "stopped" | "watchdog")).count()
    }

    pub fn judge(&mut self) {
        let (now, scope, still, at) = (self.lab().now(), self.lab().scope(), self.still(), self.truth());
        let fault = scope.fault.as_ref().map(|f| f.code);
        if self.faulted != fault {
            let at: Vec<_> = scope.axes.iter().map(|a| (a.position.map(|p| p.in_base()), a.trust)).collect();
            self.note(format!("told: {fault:?}, reads {at:?}"));
            self.faulted = fault;
        }
        let bench = self.lab().bench.state("scope");
        self.coasted |= bench == "alarm";
        let homes = scope.activity == Activity::Homing || bench == "homing";
        self.homing |= homes;
        self.within(now, at);
        if self.outside(at).is_none() && still && !homes {
            self.homing = false;
        }
        if let Some(since) = self.untouched_since {
            let said = self.lab().heard_since(since);
            let motion = self.peer.motion;
            if said.windows(motion.len()).any(|w| w == motion) {
                self.fail("the program that was started anew moved something by itself");
            }
        }
        if scope.stopped_by.is_none() && self.stopped_since.is_some_and(|t| now > t + Duration::from_millis(50)) {
            self.stopped_since = None;
        }
        // A stop that was lost on the line is sent again, or the controller is reset.
        let stops_by = Duration::from_millis(if self.garbled { 3500 } else { 1000 }) + self.link;
        for (since, what) in [(self.stopped_since, "stopped"), (self.orphaned_since, "left by its caller")] {
            let late = since.filter(|t| now > *t + stops_by && !still && !self.loud());
            if let Some(since) = late {
                self.fail(&format!("it was {what} {:?} ago, moves, and nobody is told", now - since));
            }
        }
        // At rest, and read at rest: what is said to be known is true at any time.
        if !still {
            self.still_since = None;
        }
        let since = *self.still_since.get_or_insert(now);
        if still && scope.activity == Activity::Idle && scope.read_at.is_some_and(|t| t.0 > since) {
            self.believed();
        }
    }

    /// A clean command never leaves its limits or enters a keep-out; one whose bytes were lost does by so much, and that
    /// is told.
    fn within(&mut self, now: Duration, at: [f64; 3]) {
        let out = self.outside(at).filter(|_| !self.homing);
        let Some((depth, axis, what)) = out else {
            self.astray = None;
            return;
        };
        let bound = TOLERANCE[axis] + COAST[axis] + self.astray_by(axis);
        if !self.garbled || depth > bound {
            self.fail(&format!(
                "{what}, {depth:.4} mm deep, at {at:.4?}; allowed are {bound:.4} mm if bytes were lost"
            ));
        }
        let told = self.told();
        match self.astray {
            None => {
                self.note(format!("astray: {what}, {depth:.4} mm"));
                self.astray = Some((now, told, self.untouched_since.is_some()));
            }
            // Whatever led there was noticed and is told.
            Some((since, before, found)) if now > since + Duration::from_secs(3) && told == before => {
                // What went there before this run of the program is told by not knowing where it is.
                let scope = self.lab().scope();
                let unknown = scope.axes.iter().all(|a| a.trust == Trust::Unknown);
                // Or by what a person has declared since: it shows where it is, and that this is outside.
                let says = scope.axes.get(axis).and_then(|a| a.position);
                let outside = says.is_some_and(|p| !self.lab().rig().stages[0].axes[axis].travel.contains(p));
                if !found || !(unknown || outside) {
                    self.fail("the carriage went astray, and nobody was told");
                }
            }
            Some(_) => {}
        }
    }

    /// Whatever is said to be known is where it is said to be.
    pub fn believed(&mut self) {
        let (scope, at) = (self.lab().scope(), self.truth());
        for (i, axis) in AXES.iter().enumerate() {
            let a = scope.axis(axis).expect("an axis");
            let Some(p) = a.position.filter(|_| a.trust != Trust::Unknown) else { continue };
            let off = (p.in_base() - at[i]).abs();
            if off > TOLERANCE[i] {
                self.fail(&format!("{axis} is said to be {} at {p:?}, and is {off:.4} mm from there", a.trust));
            }
        }
    }

    /// What an answer says of motion is true, and an order that came too late was never begun.
    pub fn answered(&mut self, order: &super::Order, answer: &Result<Report, RigError>) {
        let moved = match answer {
            Ok(report) => report.moved,
            Err(e) => e.moved,
        };
        if order.alone && moved == Moved::No && order.furthest > NOTHING {
            self.fail(&format!("{} is said to have moved nothing, and moved {:.4} mm", order.what, order.furthest));
        }
        if order.alone && moved == Moved::Yes && order.furthest < NOTHING / 4.0 {
            self.fail(&format!("{} is said to have moved, and did not", order.what));
        }
        if order.alone && !self.still() && moved != Moved::Unknown && !self.loud() {
            self.fail(&format!("{} is answered while it moves", order.what));
        }
        let expired = answer.as_ref().is_err_and(|e| e.code == Code::Expired);
        if expired && self.begun(order.job) {
            self.fail(&format!("{} came too late, and was begun all the same", order.what));
        }
    }

    /// Whether an intent of that job is on record: nothing moves without one.
    pub fn begun(&mut self, job: Option<steadyhand::model::JobId>) -> bool {
        let name = job.map(|j| j.to_string());
        let log = self.lab().log.clone();
        let events = log.events.lock();
        events.iter().any(|e| e.kind == "intent" && e.facts.get("job").and_then(|j| j.as_str()) == name.as_deref())
    }
}
