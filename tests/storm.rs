//! Random orders under random faults, from a seed: what must hold in each turn, whatever the controller and its
//! line do. `STEADYHAND_SEEDS=1000` runs more of them, `STEADYHAND_SEED=42` one.

mod support;

use std::fmt::Write as _;
use std::time::Duration;

use hw_sim::{Bench, Fault, MICROSCOPE_TOML};
use steadyhand::actor::Ticket;
use steadyhand::model::{Activity, Code, Epoch, Home, JobState, Moved, Name, Report, RigError, StageStatus, Trust};
use steadyhand::plans::Sequence;
use support::random::{Random, share};
use support::{Lab, answer_of, stage_only};

/// Axis tolerance and backlash, with a hair for the reports' decimals, in mm.
const TOLERANCE: [f64; 3] = [0.022, 0.022, 0.0065];
/// What the carriage runs on over lost steps when pulses end at full speed: v²/2b.
const COAST: [f64; 3] = [0.1, 0.1, 0.004];
/// How far a garbled command may lead before it is stopped: v × 0.25 s + v²/2a.
const ASTRAY: [f64; 3] = [6.0, 6.0, 0.6];
/// The same when questions or answers are lost as well: nobody sees it until it is stopped for that, v × 1.5 s + v²/2a.
const UNSEEN: [f64; 3] = [31.0, 31.0, 3.1];
const TRAVEL: [f64; 3] = [75.0, 50.0, 4.0];
const AXES: [&str; 3] = ["x", "y", "z"];
/// Keep-outs of the demonstration's rig, in mm.
const BOXES: [[(f64, f64); 3]; 2] = [[(-1e9, 10.0), (-1e9, 8.0), (-1e9, 1e9)], [(60.0, 1e9), (-1e9, 1e9), (-1e9, 1.5)]];

enum Order {
    Job { what: String, home: bool, ticket: Ticket<Report> },
    Other { what: String, ticket: Ticket<()> },
}

struct Storm {
    lab: Lab,
    random: Random,
    trace: String,
    open: Vec<Order>,
    /// What ends a fault that lasts, and when.
    ends: Vec<(Duration, Fault)>,
    /// Bytes to the controller were lost: it may have been told something else.
    garbled: bool,
    /// When bytes were lost, spoilt or held back: a command, and what would show it.
    losses: Vec<Duration>,
    /// When the move began whose way is watched.
    way_since: Duration,
    /// Pulses ended in motion: the carriage has run on.
    coasted: bool,
    /// Homing is not bound by the limits; nor is what it left behind until it is inside again.
    homing: bool,
    /// When the carriage was first seen further out than a clean command can bring it.
    astray: Option<Duration>,
    /// How often something had been told until then.
    told_before: usize,
    stopped_since: Option<Duration>,
    /// The way that was cleared, axis by axis, on that state of the stage.
    way: Option<(Epoch, [(f64, f64); 3])>,
    /// Since when the next move's line is waited for, to lose so many of its bytes, and after how many looks.
    cut: Option<(Duration, usize, u64)>,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let hard_limits = if seed.is_multiple_of(2) { "\"$21\" = 0" } else { "\"$21\" = 1" };
        let reports = if seed.is_multiple_of(3) { "\"$10\" = 0" } else { "\"$10\" = 1" };
        let text = MICROSCOPE_TOML
            .replace("seed = 1\n", &format!("seed = {seed}\n"))
            .replace("\"$21\" = 0", hard_limits)
            .replace("\"$10\" = 1", reports);
        let mut lab = Lab::new(&stage_only(), Bench::from_toml(&text).unwrap());
        lab.grain = Duration::from_micros(500);
        Storm {
            lab,
            random: Random(seed),
            trace: String::new(),
            open: Vec::new(),
            ends: Vec::new(),
            garbled: false,
            losses: Vec::new(),
            way_since: Duration::ZERO,
            coasted: false,
            homing: true,
            astray: None,
            told_before: 0,
            stopped_since: None,
            way: None,
            cut: None,
        }
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        let now = self.lab.now().as_secs_f64();
        let at: Vec<String> = AXES.iter().map(|a| format!("{:.3}", self.lab.truly(a))).collect();
        writeln!(self.trace, "{now:9.4} [{}] {what}", at.join(" ")).unwrap();
    }

    fn fail(&self, what: &str) -> ! {
        let log: Vec<String> = self.lab.log.events.lock().iter().map(|e| format!("  {} {}", e.kind, e.what)).collect();
        let scope = self.lab.scope();
        panic!(
            "{what}\n{}\nlog:\n{}\n{scope:#?}\nbench: {}",
            self.trace,
            log.join("\n"),
            self.lab.bench.state("scope")
        );
    }

    fn fault(&mut self, fault: Fault) {
        self.note(format!("fault {fault:?}"));
        self.lab.fault(fault);
    }

    // ---- what is done ---------------------------------------------------------------------------------------

    fn order(&mut self) {
        match self.random.below(20) {
            0..=8 => self.begin_move(),
            9..=10 => self.begin_step(),
            11..=12 => self.begin_home(),
            13..=14 => {
                self.note("stop");
                self.lab.stop();
                self.stopped_since.get_or_insert(self.lab.now());
            }
            15 => {
                let job = self.open.iter().find_map(|o| match o {
                    Order::Job { ticket, .. } => ticket.job(),
                    Order::Other { .. } => None,
                });
                if let Some(job) = job {
                    self.note(format!("cancel {job}"));
                    let ticket = self.lab.handle.cancel(&self.lab.caller, job);
                    self.open.extend(ticket.ok().map(|ticket| Order::Other { what: format!("cancel {job}"), ticket }));
                }
            }
            16 => {
                if let Some(i) = self.open.iter().position(|o| matches!(o, Order::Job { .. })) {
                    self.note("a caller is lost");
                    self.open.remove(i);
                }
            }
            _ => {
                self.note("recover");
                let ticket = self.lab.handle.recover(&self.lab.caller, &Name::new("scope"));
                self.open.extend(ticket.ok().map(|ticket| Order::Other { what: "recover".into(), ticket }));
            }
        }
    }

    fn targets(&mut self) -> Vec<(&'static str, f64)> {
        let mut targets = Vec::new();
        for (i, axis) in AXES.iter().enumerate() {
            if self.random.chance(60) {
                let to = self.random.between(-0.5, TRAVEL[i] + 0.5);
                targets.push((*axis, if *axis == "z" { to * 1000.0 } else { to }));
            }
        }
        if targets.is_empty() { vec![("x", self.random.between(0.0, 75.0))] } else { targets }
    }

    fn begin_move(&mut self) {
        let targets = self.targets();
        let what = format!("move to {targets:.3?}");
        self.note(&what);
        let movement = self.lab.to(&targets);
        if self.random.chance(25) {
            let bytes = 1 + self.random.below(3) as usize;
            self.cut = Some((self.lab.now(), bytes, self.random.below(4)));
        }
        if let Ok(ticket) = self.lab.begin_move(movement) {
            self.open.push(Order::Job { what, home: false, ticket });
        }
    }

    fn begin_step(&mut self) {
        let by = self.random.between(-5.0, 5.0);
        let axis = if self.random.chance(50) { "x" } else { "y" };
        let what = format!("move {axis} by {by:.3}");
        self.note(&what);
        let epoch = self.lab.scope().epoch;
        let movement = self.lab.by(&[(axis, by)], epoch);
        if let Ok(ticket) = self.lab.begin_move(movement) {
            self.open.push(Order::Job { what, home: false, ticket });
        }
    }

    fn begin_home(&mut self) {
        // A switch that something else holds down makes a false reference, which nobody can notice.
        self.end_limits();
        self.note("home");
        let home = Home { stage: Name::new("scope"), axes: vec![] };
        if let Ok(ticket) = self.lab.start(Sequence::home("home".into(), home)) {
            self.open.push(Order::Job { what: "home".into(), home: true, ticket });
        }
    }

    fn end_limits(&mut self) {
        let (limits, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ends).into_iter().partition(|(_, f)| matches!(f, Fault::Limit { .. }));
        self.ends = rest;
        for (_, end) in limits {
            self.fault(end);
        }
    }

    fn break_something(&mut self) {
        let now = self.lab.now();
        let later = |r: &mut Random, low: u64, high: u64| now + Duration::from_millis(low + r.below(high - low));
        let r = &mut self.random;
        let (fault, end) = match r.below(15) {
            0 => (Fault::Drop { bytes: 1 + r.below(6) as usize }, None),
            1 | 2 => (Fault::Garble { bytes: 1 + r.below(8) as usize }, None),
            3 => (Fault::Delay { ms: r.below(400) }, Some((later(r, 100, 3000), Fault::Delay { ms: 0 }))),
            4 | 5 => (Fault::Late { ms: 1 + r.below(900) }, None),
            6 => (Fault::Silence { on: true }, Some((later(r, 50, 1500), Fault::Silence { on: false }))),
            7 => (Fault::Reset, None),
            8 => {
                let homing = self.homing || self.open.iter().any(|o| matches!(o, Order::Job { home: true, .. }));
                if homing {
                    return;
                }
                let axis = AXES[r.below(3) as usize].to_owned();
                let end = Fault::Limit { axis: axis.clone(), pressed: false };
                (Fault::Limit { axis, pressed: true }, Some((later(r, 50, 1500), end)))
            }
            9 => (Fault::Freeze { on: true }, Some((later(r, 50, 1500), Fault::Freeze { on: false }))),
            10 => {
                let bytes = (0..r.below(40)).map(|_| r.next() as u8).collect();
                (Fault::Inject { bytes }, None)
            }
            11 => {
                let lines = ["ok\r\n", "error:9\r\n", "\r\n", "[MSG:ok]\r\n", "[GC:G0 G54]\r\n"];
                (Fault::Inject { bytes: lines[r.below(5) as usize].into() }, None)
            }
            12 => (Fault::Unplug, Some((later(r, 5, 2500), Fault::Plug))),
            13 => (Fault::Mute { on: true }, Some((later(r, 50, 4000), Fault::Mute { on: false }))),
            _ => {
                (Fault::Slow { factor: r.between(0.2, 1.0) }, Some((later(r, 200, 3000), Fault::Slow { factor: 1.0 })))
            }
        };
        use Fault::{Drop, Garble, Late, Mute, Silence, Slow, Unplug};
        if matches!(
            fault,
            Drop { .. } | Garble { .. } | Late { .. } | Mute { .. } | Silence { .. } | Slow { .. } | Unplug
        ) {
            self.losses.push(self.lab.now());
        }
        match fault {
            // What was written and not heard is lost with the cable or in the silence, too.
            Fault::Drop { .. } | Fault::Silence { .. } | Fault::Unplug => self.garbled = true,
            Fault::Reset => self.coasted = true,
            _ => {}
        }
        self.ends.extend(end);
        self.fault(fault);
    }

    // ---- time -----------------------------------------------------------------------------------------------

    fn pass(&mut self, ms: u64, faults: bool) {
        let until = self.lab.now() + Duration::from_millis(ms);
        let mut breaks = Vec::new();
        while faults && breaks.len() < 4 && self.random.chance(60) {
            breaks.push(self.lab.now() + Duration::from_millis(self.random.below(ms.max(1))));
        }
        // What was ordered, taken back or stopped since the last look is seen to now.
        self.lab.pass();
        while self.lab.now() < until {
            let now = self.lab.now();
            let due = breaks.iter().filter(|t| **t <= now).count();
            breaks.retain(|t| *t > now);
            for _ in 0..due {
                self.break_something();
            }
            let (due, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.ends).into_iter().partition(|(t, _)| *t <= now);
            self.ends = rest;
            for (_, end) in due {
                self.fault(end);
            }
            let next = self.ends.iter().map(|e| e.0).chain(breaks.iter().copied()).min().unwrap_or(until);
            // Looked at often enough to see a carriage where it should not be.
            let moving = AXES.iter().any(|a| self.lab.bench.speed_mm_per_s("scope", a) != 0.0);
            let look = now + Duration::from_millis(if moving { 5 } else { 50 });
            self.lab.quick_turn(next.min(until).min(look));
            self.cut_line();
            self.hear();
            self.judge();
        }
    }

    /// Loses bytes out of the middle of a command.
    fn cut_line(&mut self) {
        let Some((since, bytes, looks)) = self.cut else { return };
        if self.lab.heard_at(since, b'J').is_none() {
            return;
        }
        self.cut = looks.checked_sub(1).map(|left| (since, bytes, left));
        if self.cut.is_none() {
            self.garbled = true;
            self.losses.push(self.lab.now());
            self.fault(Fault::Drop { bytes });
        }
    }

    fn hear(&mut self) {
        for mut order in std::mem::take(&mut self.open) {
            let said = match &mut order {
                Order::Job { what, ticket, .. } => {
                    let job = ticket.job();
                    answer_of(ticket).map(|answer| {
                        let kept = job.and_then(|j| self.lab.state().job(j).map(|j| j.state.clone()));
                        if let (Ok(report), Some(JobState::Done(kept))) = (&answer, &kept) {
                            assert_eq!(report.moved, kept.moved);
                        } else if !matches!((&answer, &kept), (Err(_), Some(JobState::Failed(_)) | None)) {
                            self.fail(&format!("the job list says {kept:?}, the answer was {answer:?}"));
                        }
                        (what.clone(), answer.map(|r| r.moved))
                    })
                }
                Order::Other { what, ticket } => answer_of(ticket).map(|a| (what.clone(), a.map(|()| Moved::No))),
            };
            match said {
                None => self.open.push(order),
                Some((what, Ok(moved))) => self.note(format!("answer to {what}: ok, moved {moved}")),
                Some((what, Err(e))) => self.note(format!("answer to {what}: {e}")),
            }
        }
    }

    // ---- what must hold -------------------------------------------------------------------------------------

    fn truth(&self) -> [f64; 3] {
        AXES.map(|a| self.lab.truly(a))
    }

    fn still(&self) -> bool {
        AXES.iter().all(|a| self.lab.bench.speed_mm_per_s("scope", a) == 0.0)
    }

    /// How far a garbled command may lead.
    fn astray_by(&self, i: usize) -> f64 {
        let lately = self.losses.iter().filter(|t| **t + Duration::from_secs(3) > self.way_since).count();
        if lately > 1 { UNSEEN[i] } else { ASTRAY[i] }
    }

    /// How far beyond the limits, or inside a keep-out, each in shares of what is allowed there.
    fn out(&self) -> Option<(String, f64, f64)> {
        let at = self.truth();
        let clean = |i: usize| TOLERANCE[i] + if self.coasted { COAST[i] } else { 0.0 };
        let mut worst: Option<(String, f64, f64)> = None;
        let mut note = |what: String, depth: f64, i: usize| {
            let (clean, dirty) = (depth / clean(i), depth / (clean(i) + self.astray_by(i)));
            if worst.as_ref().is_none_or(|w| w.1 < clean) {
                worst = Some((what, clean, dirty));
            }
        };
        for i in 0..3 {
            note(format!("{} is at {:.4}, outside its travel", AXES[i], at[i]), (at[i] - TRAVEL[i]).max(-at[i]), i);
        }
        for bounds in BOXES {
            let depths: Vec<f64> = (0..3).map(|i| (at[i] - bounds[i].0).min(bounds[i].1 - at[i])).collect();
            // Seen along the axis that is the nearest to its way out, in its own measure.
            let i = (0..3).min_by(|a, b| (depths[*a] / clean(*a)).total_cmp(&(depths[*b] / clean(*b)))).unwrap();
            note(
                format!("the carriage is at {at:.4?}, inside a keep-out by {:.4} mm of {}", depths[i], AXES[i]),
                depths[i],
                i,
            );
        }
        worst
    }

    /// How often something that went wrong, or a stop, has been told.
    fn told(&self) -> usize {
        self.lab.log.events.lock().iter().filter(|e| matches!(e.kind, "fault" | "lost" | "stop" | "stopped")).count()
    }

    /// No move leaves the way that was cleared further than it takes to see and stop it.
    fn on_its_way(&mut self, scope: &StageStatus) {
        if !matches!(scope.activity, Activity::Moving | Activity::Stopping) || self.homing {
            self.way = None;
            return;
        }
        let at = self.truth();
        if scope.activity == Activity::Moving && self.way.is_none_or(|(epoch, _)| epoch != scope.epoch) {
            let to = |i: usize| scope.axis(AXES[i]).unwrap().target.map_or(at[i], |p| p.in_base());
            let ways = [0, 1, 2].map(|i| (at[i].min(to(i)), at[i].max(to(i))));
            self.way_since = self.lab.now();
            let ordered = scope.axes.iter().any(|a| a.target.is_some());
            self.way = ordered.then_some((scope.epoch, ways));
        }
        let Some((_, ways)) = self.way else { return };
        for i in 0..3 {
            let off = (ways[i].0 - at[i]).max(at[i] - ways[i].1);
            let clean = TOLERANCE[i] + if self.coasted { COAST[i] } else { 0.0 };
            if off > clean + if self.garbled { self.astray_by(i) } else { 0.0 } {
                self.fail(&format!("{} is at {:.4}, off its way {:.4?}", AXES[i], at[i], ways[i]));
            }
            if off > clean && self.astray.is_none() {
                (self.astray, self.told_before) = (Some(self.lab.now()), self.told());
                self.note(format!("astray: {} is off its way {:.4?}", AXES[i], ways[i]));
            }
        }
    }

    fn judge(&mut self) {
        let now = self.lab.now();
        let scope = self.lab.scope();
        let bench = self.lab.bench.state("scope");
        let resets = self.lab.bench.state("scope") == "alarm";
        self.coasted |= resets;
        self.homing |= scope.activity == Activity::Homing || bench == "homing";
        self.on_its_way(&scope);
        if let Some((what, clean, dirty)) = self.out() {
            if clean <= 1.0 {
                self.homing &= scope.activity == Activity::Homing || bench == "homing" || !self.still();
            } else if !self.homing {
                if !self.garbled || dirty > 1.0 {
                    self.fail(&what);
                }
                if self.astray.is_none() {
                    (self.astray, self.told_before) = (Some(now), self.told());
                    self.note(format!("astray: {what}"));
                }
            }
        }
        if self.astray.is_some_and(|t| now > t + Duration::from_secs(3)) {
            self.astray = None;
            // Whatever led there was noticed and is told.
            if self.told() == self.told_before {
                self.fail("the carriage went astray, and nobody was told");
            }
        }
        if scope.stopped_by.is_none() && self.stopped_since.is_some_and(|t| now > t + Duration::from_millis(50)) {
            self.stopped_since = None;
        }
        if self.stopped_since.is_some_and(|t| now > t + Duration::from_secs(6)) && !self.still() {
            let told =
                scope.fault.as_ref().is_some_and(|f| matches!(f.code, Code::StopNotSent | Code::StopNotConfirmed));
            if !told && scope.activity != Activity::Offline {
                self.fail("it was stopped 6 s ago, moves, and nobody is told");
            }
        }
    }

    fn quiet(&mut self) {
        self.note("quiet");
        self.cut = None;
        for (_, end) in std::mem::take(&mut self.ends) {
            self.fault(end);
        }
        for end in [Fault::Drop { bytes: 0 }, Fault::Garble { bytes: 0 }, Fault::Late { ms: 0 }] {
            self.lab.fault(end);
        }
        let until = self.lab.now() + Duration::from_secs(150);
        while !self.open.is_empty() {
            if self.lab.now() > until {
                self.fail("an order was never answered");
            }
            self.pass(500, false);
        }
        self.pass(12_000, false);
        self.believed();
    }

    /// What is said to be referenced is where it is said to be.
    fn believed(&mut self) {
        let scope = self.lab.scope();
        for (i, axis) in AXES.iter().enumerate() {
            let a = scope.axis(axis).unwrap();
            let Some(p) = a.position.filter(|_| a.trust == Trust::Referenced) else { continue };
            let off = (p.in_base() - self.lab.truly(axis)).abs();
            if off > TOLERANCE[i] {
                self.fail(&format!("{axis} is said to be referenced at {p:?}, and is {off:.4} mm from there"));
            }
        }
    }

    fn wait<T>(&mut self, ticket: Result<Ticket<T>, RigError>) -> Result<T, RigError> {
        let mut ticket = ticket?;
        let until = self.lab.now() + Duration::from_secs(90);
        loop {
            if let Some(answer) = answer_of(&mut ticket) {
                return answer;
            }
            if self.lab.now() > until {
                self.fail("an order was never answered, in calm");
            }
            self.pass(100, false);
        }
    }

    /// However it went: acknowledge, home, and it works again.
    fn works_again(&mut self) {
        let mut said = Vec::new();
        for _ in 0..4 {
            // What the controller does after a freeze or a reset can look like somebody's hand.
            let ticket = self.lab.handle.resume(&self.lab.person(), None);
            let resumed = self.wait(ticket);
            self.note(format!("resume in calm: {resumed:?}"));
            let ticket = self.lab.handle.recover(&self.lab.caller, &Name::new("scope"));
            let recovered = self.wait(ticket);
            self.note(format!("recover in calm: {recovered:?}"));
            let home = Home { stage: Name::new("scope"), axes: vec![] };
            let ticket = self.lab.start(Sequence::home("home".into(), home));
            match self.wait(ticket) {
                Ok(_) => {
                    self.note("homed in calm");
                    self.pass(200, false);
                    self.believed();
                    (self.garbled, self.coasted, self.astray) = (false, false, None);
                    return self.moves();
                }
                Err(e) => said.push(e.to_string()),
            }
        }
        self.fail(&format!("it doesn't come back: {said:#?}"));
    }

    fn moves(&mut self) {
        let movement = self.lab.to(&[("x", 40.0), ("y", 30.0)]);
        let ticket = self.lab.begin_move(movement);
        if let Err(e) = self.wait(ticket) {
            self.fail(&format!("it doesn't move in calm: {e}"));
        }
        if (self.lab.truly("x") - 40.0).abs() > TOLERANCE[0] || (self.lab.truly("y") - 30.0).abs() > TOLERANCE[1] {
            self.fail("a move in calm ended elsewhere");
        }
    }
}

fn storm(seed: u64) {
    let mut storm = Storm::new(seed);
    storm.lab.online();
    storm.works_again();
    for _ in 0..2 {
        for _ in 0..8 {
            storm.order();
            let ms = storm.random.below(2500);
            storm.pass(ms, true);
        }
        storm.quiet();
        storm.works_again();
    }
    // With `--nocapture`: what a seed is about.
    if std::env::var_os("STEADYHAND_SEED").is_some() {
        eprintln!("{}", storm.trace);
    }
}

#[test]
fn whatever_happens_the_carriage_is_safe_and_told_a() {
    share(0, 4, 200, storm);
}

#[test]
fn whatever_happens_the_carriage_is_safe_and_told_b() {
    share(1, 4, 200, storm);
}

#[test]
fn whatever_happens_the_carriage_is_safe_and_told_c() {
    share(2, 4, 200, storm);
}

#[test]
fn whatever_happens_the_carriage_is_safe_and_told_d() {
    share(3, 4, 200, storm);
}
