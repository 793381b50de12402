//! Random rigs, callers, stops, faults and restarts of the program in mid-motion, from a seed, over each protocol, on
//! virtual time; held against the true carriage positions. `STEADYHAND_SEEDS=10000` runs more, `STEADYHAND_SEED=42` one.

mod support;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::actor::Ticket;
use steadyhand::model::{Activity, Caller, Code, Home, Name, Report, RigError, StopBy, Trust, Way};
use steadyhand::plans::Sequence;
use steadyhand::store::Kept;
use support::peers::{PEERS, Peer};
use support::random::{Random, share};
use support::{Lab, aim, answer_of};
use toml_edit::{DocumentMut, Item, value};

const AXES: [&str; 3] = ["x", "y", "z"];
/// Tolerance and backlash of the benches, with a hair for the reports' decimals, in mm.
const TOLERANCE: [f64; 3] = [0.025, 0.025, 0.01];
/// What the carriage runs on over lost steps when pulses end at full speed: v²/2b.
const COAST: [f64; 3] = [0.1, 0.1, 0.004];

/// Rig coordinates of an axis: `sign × the carriage's place in the bench + shift`, in mm.
#[derive(Clone, Copy, Debug)]
struct Frame {
    sign: f64,
    shift: f64,
    travel: (f64, f64),
}

impl Frame {
    fn rig(&self, bench_mm: f64) -> f64 {
        self.sign * bench_mm + self.shift
    }
}

fn number(item: &Item) -> f64 {
    item.as_float().expect("a number")
}

/// The peer's rig with other signs, origins, travels and approaches.
fn random_rig(peer: &Peer, random: &mut Random) -> (String, [Frame; 3]) {
    let mut rig: DocumentMut = (peer.rig)().parse().expect("a rig file");
    // Their boxes are in the peer's own coordinates.
    rig.remove("keep_out");
    // Whether positions that came back over a restart are enough to move on.
    let lenient = peer.homes && random.chance(60);
    let frames = AXES.map(|name| {
        let axis = &mut rig["stage"][0]["axes"][name];
        let per_mm = if name == "z" { 1000.0 } else { 1.0 };
        let sign = if random.chance(50) { 1.0 } else { -1.0 };
        // Whole micrometres, so that a file says them exactly.
        let shift = (random.between(-30.0, 30.0) * 1000.0).round() / 1000.0;
        // The peers' x is told longer than the stage is; against its hard end a motor stalls, and no counter sees it.
        let shorter = if name == "x" { [0.0, 5.0] } else { [0.0, 0.0] };
        let end = |i: usize| axis["travel"].as_array().and_then(|t| t.get(i)?.as_float()).expect("an end") / per_mm;
        let ends = [0, 1].map(|i| sign * (end(i) - shorter[i]) + shift);
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        axis["sign"] = value(sign as i64 * axis["sign"].as_integer().expect("a sign"));
        axis["origin"] = value(sign * number(&axis["origin"]) + shift * per_mm);
        axis["travel"] = value(toml_edit::Array::from_iter([low * per_mm, high * per_mm]));
        if lenient {
            axis["trust"] = value("restored");
        }
        if random.chance(30) {
            axis["approach"] = value(if random.chance(50) { "+" } else { "-" });
            axis["approach_by"] = value(0.05 * per_mm);
        }
        Frame { sign, shift, travel: (low, high) }
    });
    (rig.to_string(), frames)
}

struct World {
    peer: &'static Peer,
    rig: String,
    frames: [Frame; 3],
    lab: Option<Lab>,
    record: PathBuf,
    random: Random,
    trace: String,
    open: Vec<Ticket<Report>>,
    callers: Vec<Caller>,
    /// Homing, and what it left behind outside of the travel, is bound by the switches alone.
    homing: bool,
    coasted: bool,
    stopped_since: Option<Duration>,
    /// Since when no order to move has been given to this run of the program.
    untouched_since: Option<Duration>,
    ends: Vec<(Duration, Fault)>,
    /// The fault that was last written into the trace.
    faulted: Option<Code>,
}

impl World {
    fn new(seed: u64, record: PathBuf) -> World {
        let mut random = Random(seed);
        let peer = &PEERS[(seed % PEERS.len() as u64) as usize];
        let (rig, frames) = random_rig(peer, &mut random);
        let bench = Bench::from_toml(&(peer.bench)()).expect("a bench");
        let lab = Lab::with(&rig, bench, Kept::open(&record).expect("a record"));
        let caller = |id: &str| Caller { id: Name::new(id), client: id.into(), way: Way::Stdio };
        World {
            peer,
            rig,
            frames,
            lab: Some(lab),
            record,
            random,
            trace: String::new(),
            open: Vec::new(),
            callers: vec![caller("one"), caller("two"), caller("three")],
            homing: true,
            coasted: false,
            stopped_since: None,
            untouched_since: None,
            ends: Vec::new(),
            faulted: None,
        }
    }

    fn lab(&mut self) -> &mut Lab {
        self.lab.as_mut().expect("a run of the program")
    }

    fn truth(&self) -> [f64; 3] {
        let lab = self.lab.as_ref().expect("a run of the program");
        [0, 1, 2].map(|i| self.frames[i].rig(lab.truly(AXES[i])))
    }

    fn note(&mut self, what: impl std::fmt::Display) {
        let (now, at) = (self.lab().now().as_secs_f64(), self.truth());
        writeln!(self.trace, "{now:9.4} {at:8.3?} {what}").expect("memory");
    }

    fn fail(&mut self, what: &str) -> ! {
        let scope = self.lab().scope();
        panic!("{}: {what}\n{}\n{}\n{scope:#?}", self.peer.name, self.rig, self.trace);
    }

    fn still(&mut self) -> bool {
        let bench = &self.lab().bench;
        AXES.iter().all(|a| bench.speed_mm_per_s("scope", a) == 0.0)
    }

    fn fault(&mut self, fault: Fault) {
        self.note(format!("fault {fault:?}"));
        if let Err(e) = self.lab().bench.fault("scope", fault) {
            self.note(format!("not on this bench: {e}"));
        }
    }

    fn caller(&mut self) -> Caller {
        let which = self.random.below(self.callers.len() as u64) as usize;
        self.callers[which].clone()
    }

    // ---- what is done ---------------------------------------------------------------------------------------

    fn begin(&mut self, what: &str, plan: Sequence) {
        self.untouched_since = None;
        let caller = self.caller();
        self.note(format!("{}: {what}", caller.id));
        let ticket = self.lab().handle.run(&caller, Box::new(plan));
        self.open.extend(ticket);
    }

    fn begin_move(&mut self) {
        let mut targets = Vec::new();
        for (i, axis) in AXES.iter().enumerate() {
            let (low, high) = self.frames[i].travel;
            let to = self.random.between(low - 0.3, high + 0.3);
            if i == 0 || self.random.chance(50) {
                targets.push((*axis, to));
            }
        }
        let movement = steadyhand::model::Move { stage: Name::new("scope"), aim: aim(&targets) };
        self.begin(&format!("to {targets:.3?}"), Sequence::movement("move scope".into(), movement));
    }

    fn order(&mut self) {
        match self.random.below(12) {
            0..=5 => self.begin_move(),
            6 if self.peer.homes => {
                let home = Home { stage: Name::new("scope"), axes: vec![] };
                self.begin("home", Sequence::home("home".into(), home));
            }
            7 | 8 => {
                self.note("stop");
                let now = self.lab().now();
                self.lab().handle.stop(None, StopBy::Model);
                self.stopped_since.get_or_insert(now);
            }
            9 if !self.open.is_empty() => {
                self.note("a caller is lost");
                drop(self.open.remove(0));
            }
            10 => self.restart(),
            _ => self.break_something(),
        }
    }

    /// What loses no byte on its way to the controller, so that nothing but what was cleared can be meant.
    fn break_something(&mut self) {
        let end = self.lab().now() + Duration::from_millis(100 + self.random.below(2500));
        match self.random.below(6) {
            0 => {
                let ms = self.random.below(300);
                self.ends.push((end, Fault::Delay { ms: 0 }));
                self.fault(Fault::Delay { ms });
            }
            1 => {
                let ms = 1 + self.random.below(900);
                self.fault(Fault::Late { ms });
            }
            2 => {
                self.ends.push((end, Fault::Mute { on: false }));
                self.fault(Fault::Mute { on: true });
            }
            3 => {
                self.ends.push((end, Fault::Freeze { on: false }));
                self.fault(Fault::Freeze { on: true });
            }
            4 => {
                let bytes = 1 + self.random.below(8) as usize;
                self.fault(Fault::Garble { bytes });
            }
            _ => {
                let factor = self.random.between(0.3, 1.0);
                self.ends.push((end, Fault::Slow { factor: 1.0 }));
                self.fault(Fault::Slow { factor });
            }
        }
    }

    /// The program is killed, the bench goes on alone for a while, and the program is started anew.
    fn restart(&mut self) {
        self.note("killed");
        // Nobody waits any more for what the dead program was asked.
        self.open.clear();
        let lab = self.lab.take().expect("a run of the program");
        // What it had put on record is there; what it had not, is not.
        assert!(lab.handle.standstills().flush(Duration::from_secs(10)), "it is on the disk");
        let Lab { mut bench, .. } = lab;
        let alone = Duration::from_millis(self.random.below(6000));
        let until = bench.now() + alone;
        bench.advance(until);
        self.lab = Some(Lab::with(&self.rig, bench, Kept::open(&self.record).expect("a record")));
        (self.stopped_since, self.untouched_since) = (None, Some(until));
        self.note(format!("started anew after {alone:?}"));
        let ms = self.random.below(4000);
        self.pass(ms);
    }

    // ---- time, and what must hold -----------------------------------------------------------------------------

    fn pass(&mut self, ms: u64) {
        let until = self.lab().now() + Duration::from_millis(ms);
        // What was ordered, taken back or stopped since the last look is seen to now.
        self.lab().pass();
        while self.lab().now() < until {
            let now = self.lab().now();
            let (due, rest): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.ends).into_iter().partition(|(t, _)| *t <= now);
            self.ends = rest;
            for (_, end) in due {
                self.fault(end);
            }
            let look = now + Duration::from_millis(if self.still() { 50 } else { 10 });
            self.lab().quick_turn(until.min(look));
            let mut answers = Vec::new();
            self.open.retain_mut(|ticket| match answer_of(ticket) {
                Some(answer) => {
                    answers.push(answer);
                    false
                }
                None => true,
            });
            for answer in answers {
                match answer {
                    Ok(report) => self.note(format!("answer: ok, moved {}", report.moved)),
                    Err(e) => self.note(format!("answer: {e}")),
                }
            }
            self.judge();
        }
    }

    fn judge(&mut self) {
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
        let mut inside = true;
        for i in 0..3 {
            let (low, high) = self.frames[i].travel;
            let allowed = TOLERANCE[i] + if self.coasted { COAST[i] } else { 0.0 };
            let beyond = (low - at[i]).max(at[i] - high);
            inside &= beyond <= allowed;
            if beyond > allowed && !self.homing {
                self.fail(&format!("{} is {beyond:.4} mm outside its travel", AXES[i]));
            }
        }
        if inside && still && !homes {
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
        if self.stopped_since.is_some_and(|t| now > t + Duration::from_secs(6)) && !still {
            let told =
                scope.fault.as_ref().is_some_and(|f| matches!(f.code, Code::StopNotSent | Code::StopNotConfirmed));
            if !told && scope.activity != Activity::Offline {
                self.fail("it was stopped 6 s ago, moves, and nobody is told");
            }
        }
    }

    fn quiet(&mut self) {
        self.note("quiet");
        for (_, end) in std::mem::take(&mut self.ends) {
            self.fault(end);
        }
        for end in [Fault::Garble { bytes: 0 }, Fault::Late { ms: 0 }] {
            self.fault(end);
        }
        let until = self.lab().now() + Duration::from_secs(150);
        while !self.open.is_empty() {
            if self.lab().now() > until {
                self.fail("an order was never answered");
            }
            self.pass(500);
        }
        self.pass(12_000);
        self.believed();
    }

    /// Whatever is said to be known is where it is said to be.
    fn believed(&mut self) {
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

    fn wait<T>(&mut self, ticket: Result<Ticket<T>, RigError>) -> Result<T, RigError> {
        let mut ticket = ticket?;
        let until = self.lab().now() + Duration::from_secs(90);
        loop {
            if let Some(answer) = answer_of(&mut ticket) {
                return answer;
            }
            if self.lab().now() > until {
                self.fail("an order was never answered, in calm");
            }
            self.pass(100);
        }
    }

    /// However it went: acknowledge, find the reference, and it works again.
    fn works_again(&mut self) {
        self.untouched_since = None;
        let mut said = Vec::new();
        for _ in 0..4 {
            let caller = self.caller();
            // What the controller does after a freeze or a kill can look like somebody's hand.
            let person = self.lab().person();
            let ticket = self.lab().handle.resume(&person, None);
            said.push(format!("{:?}", self.wait(ticket).map_err(|e| e.to_string())));
            let ticket = self.lab().handle.recover(&caller, &Name::new("scope"));
            said.push(format!("{:?}", self.wait(ticket).map_err(|e| e.to_string())));
            if self.peer.homes {
                let home = Home { stage: Name::new("scope"), axes: vec![] };
                let ticket = self.lab().start(Sequence::home("home".into(), home));
                if let Err(e) = self.wait(ticket) {
                    said.push(e.to_string());
                    continue;
                }
            } else {
                let at = self.truth();
                for (i, per_mm) in [(0, 1.0), (1, 1.0), (2, 1000.0)] {
                    if let Err(e) = self.lab().reference(AXES[i], at[i] * per_mm) {
                        said.push(e.to_string());
                    }
                }
            }
            self.pass(200);
            self.believed();
            self.coasted = false;
            let middle = [0, 1].map(|i| (self.frames[i].travel.0 + self.frames[i].travel.1) / 2.0);
            let movement =
                steadyhand::model::Move { stage: Name::new("scope"), aim: aim(&[("x", middle[0]), ("y", middle[1])]) };
            let ticket = self.lab().begin_move(movement);
            match self.wait(ticket) {
                Ok(_) => {
                    let at = self.truth();
                    if (0..2).any(|i| (at[i] - middle[i]).abs() > TOLERANCE[i]) {
                        self.fail("a move in calm ended elsewhere");
                    }
                    return;
                }
                Err(e) => said.push(e.to_string()),
            }
        }
        self.fail(&format!("it doesn't come back: {said:#?}"));
    }
}

fn storm(seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut world = World::new(seed, folder.path().to_owned());
    world.lab().online();
    world.works_again();
    for _ in 0..2 {
        for _ in 0..8 {
            world.order();
            let ms = world.random.below(2500);
            world.pass(ms);
        }
        world.quiet();
        world.works_again();
    }
    if std::env::var_os("STEADYHAND_SEED").is_some() {
        eprintln!("{}\n{}", world.rig, world.trace);
    }
}

#[test]
fn over_restarts_no_move_leaves_its_travel_and_trust_never_overstates_a() {
    share(0, 2, 150, storm);
}

#[test]
fn over_restarts_no_move_leaves_its_travel_and_trust_never_overstates_b() {
    share(1, 2, 150, storm);
}
