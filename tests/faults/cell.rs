//! One cell of the matrix: a fault in a phase over a protocol, what must hold whatever happens, and how it went.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hw_sim::Bench;
use parking_lot::Mutex;
use steadyhand::actor::Ticket;
use steadyhand::model::{Activity, CameraChange, Code, Home, Moved, Name, Report, RigError, Shot, Trust};
use steadyhand::plans::Sequence;
use steadyhand::store::{Kept, PersonStop};

use crate::rig;
use crate::rows::{Row, Truth};
use crate::support::hooked::Hooked;
use crate::support::peers::Peer;
use crate::support::{Lab, answer_of};

pub const AXES: [&str; 3] = ["x", "y", "z"];
/// Tolerance of the rigs, with the benches' backlash and a hair for the reports' decimals, in mm.
pub const TOLERANCE: [f64; 3] = [0.025, 0.025, 0.01];
/// Below this nothing has moved: the benches' backlash and their step.
const NOTHING: f64 = 0.002;
/// Where the moves of the cells go, in mm.
const TARGET: (f64, f64) = (15.0, 12.0);

/// When the fault comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Identify,
    Idle,
    Homing,
    Moving,
    Settling,
    Exposing,
    Closing,
}

/// The end of an order, whatever it brings.
enum Pending {
    Job(Ticket<Report>),
    End(Ticket<()>),
}

impl Pending {
    fn answer(&mut self) -> Option<Result<Moved, RigError>> {
        match self {
            Pending::Job(t) => answer_of(t).map(|a| a.map(|r| r.moved)),
            Pending::End(t) => answer_of(t).map(|a| a.map(|()| Moved::No)),
        }
    }
}

pub struct Asked {
    what: &'static str,
    to: Option<(f64, f64)>,
    pending: Pending,
    began: [f64; 3],
    furthest: f64,
    /// Nothing else was asked meanwhile.
    alone: bool,
}

/// How an order was answered.
pub struct Answer {
    pub what: &'static str,
    pub code: Option<Code>,
    pub moved: Moved,
}

pub struct Cell {
    pub lab: Lab,
    pub fragile: Arc<AtomicBool>,
    pub answers: Vec<Answer>,
    pub peer: &'static Peer,
    pub row: &'static Row,
    pub phase: Phase,
    pub rig: String,
    /// The controller at the other end of the cable.
    pub device: &'static str,
    pub asked: Vec<Asked>,
    /// Where everything stands since all has been answered, unless it was told that it may move.
    pub stands: Option<[f64; 3]>,
    /// The program has ended.
    pub over: bool,
    pub trace: String,
}

/// How a cell ended.
pub struct Outcome {
    pub answers: Vec<Answer>,
    /// What its positions are worth then.
    pub trust: Trust,
    /// What was needed to go on.
    pub remedies: Vec<&'static str>,
}

pub fn program(rig: &str, bench: Bench, kept: impl Into<Kept>) -> (Lab, Arc<AtomicBool>) {
    let fragile = Arc::new(AtomicBool::new(false));
    let mut lab = Lab::around(rig, bench, kept, |stage| {
        let fragile = fragile.clone();
        let hook = move |_: &mut Vec<_>| assert!(!fragile.swap(false, Ordering::Relaxed), "on purpose");
        Box::new(Hooked(stage, Arc::new(Mutex::new(hook))))
    });
    lab.grain = Duration::from_micros(500);
    lab.pass();
    (lab, fragile)
}

impl Cell {
    /// The rig in that phase, before the fault.
    fn new(peer: &'static Peer, row: &'static Row, phase: Phase) -> Cell {
        let rig = rig::file(peer, row.more);
        let mut bench = Bench::from_toml(&rig::bench(peer, row.two)).unwrap_or_else(|e| panic!("{}: {e}", peer.name));
        // It has been on for a while.
        bench.advance(Duration::from_secs(3));
        let (lab, fragile) = program(&rig, bench, PersonStop::in_memory());
        let mut cell = Cell {
            lab,
            fragile,
            answers: Vec::new(),
            peer,
            row,
            phase,
            rig,
            device: "scope",
            asked: Vec::new(),
            stands: None,
            over: false,
            trace: String::new(),
        };
        cell.bring_to(phase);
        cell
    }

    fn bring_to(&mut self, phase: Phase) {
        let second = Duration::from_secs(1);
        if phase == Phase::Identify {
            self.lab.until("the port is open", second, |l| l.scope().link.open);
            self.lab.run_ms(4);
            assert_eq!(self.lab.scope().activity, Activity::Connecting);
            return self.order_move("move", TARGET.0);
        }
        self.lab.online();
        self.peer.reference(&mut self.lab);
        self.lab.move_to(&[("x", 30.0), ("y", 20.0), ("z", 2300.0)]).expect("a move");
        match phase {
            Phase::Identify => {}
            Phase::Idle => self.lab.run_ms(1000),
            Phase::Homing => {
                let home = Home { stage: Name::new("scope"), axes: vec![] };
                self.order("home", None, Sequence::home("home".into(), home));
                self.lab.until("it homes", second, |l| l.scope().activity == Activity::Homing);
                self.lab.run_ms(300);
            }
            Phase::Moving | Phase::Closing => {
                self.order_move("move", TARGET.0);
                self.lab.until("it moves", second * 5, |l| l.truly("x") < 27.0);
                if phase == Phase::Closing {
                    let end = self.lab.handle.shutdown(&self.lab.caller).expect("room");
                    let (pending, began) = (Pending::End(end), self.truth());
                    self.asked.push(Asked { what: "end", to: None, pending, began, furthest: 0.0, alone: false });
                    self.lab.run_ms(4);
                }
            }
            Phase::Settling => {
                self.order_picture(true);
                self.lab.until("it settles", second * 5, |l| rig::doing(l).starts_with("settling"));
                self.lab.run_ms(50);
            }
            Phase::Exposing => {
                self.order_picture(false);
                let exposes = |l: &mut Lab| l.state().cameras[0].exposing;
                self.lab.until("it exposes", second * 5, exposes);
                self.lab.run_ms(50);
            }
        }
    }

    // ---- orders -----------------------------------------------------------------------------------------------

    fn order(&mut self, what: &'static str, to: Option<(f64, f64)>, plan: Sequence) {
        let (pending, began) = (self.lab.start(plan).expect("room"), self.truth());
        self.note(what);
        self.stands = None;
        let alone = self.asked.is_empty();
        self.asked.iter_mut().for_each(|a| a.alone = false);
        self.asked.push(Asked { what, to, pending: Pending::Job(pending), began, furthest: 0.0, alone });
        self.lab.pass();
    }

    pub fn order_move(&mut self, what: &'static str, x: f64) {
        let movement = self.lab.to(&[("x", x), ("y", TARGET.1)]);
        self.order(what, Some((x, TARGET.1)), Sequence::movement("move scope".into(), movement));
    }

    fn order_picture(&mut self, moves: bool) {
        let change = CameraChange { exposure_ms: Some(400.0), ..CameraChange::default() };
        let shot = Shot { camera: Name::new("cam"), change };
        let moves = if moves { vec![self.lab.to(&[("x", 29.0)])] } else { vec![] };
        let rig = self.lab.handle.rig().clone();
        self.order("picture", None, Sequence::picture("picture".into(), &rig, moves, shot));
    }

    // ---- faults -----------------------------------------------------------------------------------------------

    pub fn fault(&mut self, fault: hw_sim::Fault) {
        self.note(format!("{fault:?}"));
        let device = self.device;
        self.lab.bench.fault(device, fault).expect("a fault that the bench knows");
    }

    pub fn camera(&mut self, fault: hw_sim::Fault) {
        self.note(format!("camera: {fault:?}"));
        self.lab.bench.fault("cam", fault).expect("a fault that the bench knows");
    }

    pub fn swap(&mut self, to: &'static str) {
        self.note(format!("the cable is put into {to}"));
        self.lab.swap_cable(self.device, to);
        // What is watched from now on is what the cable leads to.
        let was = self.truth();
        self.device = to;
        let at = self.truth();
        for asked in &mut self.asked {
            asked.began = [0, 1, 2].map(|i| asked.began[i] + at[i] - was[i]);
        }
        self.stands = None;
    }

    pub fn noise(&mut self) {
        for lie in self.peer.lies {
            self.fault(hw_sim::Fault::Inject { bytes: [b"\xff\x00\xfe<\x80A\r\n", *lie].concat() });
        }
    }

    pub fn press(&mut self, pressed: bool) {
        self.fault(hw_sim::Fault::Limit { axis: "x".into(), pressed });
    }

    pub fn lose_steps(&mut self) {
        self.fault(hw_sim::Fault::LostSteps { axis: "x".into(), steps: rig::steps_per_mm(self.peer) });
    }

    /// Another program, or a misread command, sends it elsewhere.
    pub fn run_away(&mut self) {
        self.note("it is told to go elsewhere, past the program");
        self.lab.bench.write("scope", rig::away(self.peer));
    }

    pub fn lose_client(&mut self) {
        self.note("the client is gone");
        self.asked.retain(|a| matches!(a.pending, Pending::End(_)));
        let client = self.lab.caller.id.clone();
        self.lab.handle.client_lost(&client);
        self.lab.caller.id = Name::new("another");
        self.lab.pass();
    }

    pub fn forget_settings(&mut self) {
        self.fault(hw_sim::Fault::CorruptEeprom);
        self.fault(hw_sim::Fault::Reset);
    }

    /// Somebody writes the settings back with another program.
    pub fn restore_settings(&mut self) {
        self.note("its settings are written back");
        let fresh = Bench::from_toml(&rig::bench(self.peer, false)).expect("a bench");
        self.lab.run_ms(3000);
        for (number, value) in fresh.settings("scope") {
            self.lab.bench.write("scope", format!("${number}={value}\n").as_bytes());
            self.lab.run_ms(60);
        }
        self.fault(hw_sim::Fault::Reset);
        self.lab.run_ms(3000);
    }

    // ---- time, and what must hold -------------------------------------------------------------------------------

    pub fn truth(&self) -> [f64; 3] {
        AXES.map(|a| self.lab.bench.carriage_mm(self.device, a))
    }

    fn still(&self) -> bool {
        AXES.iter().all(|a| self.lab.bench.speed_mm_per_s(self.device, a) == 0.0)
    }

    pub fn note(&mut self, what: impl std::fmt::Display) {
        let (now, at) = (self.lab.now().as_secs_f64(), self.truth());
        writeln!(self.trace, "{now:9.4} {at:8.3?} {what}").expect("memory");
    }

    pub fn fail(&self, what: &str) -> ! {
        let log: Vec<String> = self.lab.log.events.lock().iter().map(|e| format!("  {} {}", e.kind, e.what)).collect();
        let scope = self.lab.scope();
        panic!(
            "{}, \"{}\" in {:?}: {what}\n{}\nlog:\n{}\n{scope:#?}",
            self.peer.name,
            self.row.name,
            self.phase,
            self.trace,
            log.join("\n")
        );
    }

    /// Whether it is told that it may still move: nobody can do more who doesn't reach it.
    fn loud(&self) -> bool {
        let scope = self.lab.scope();
        let code = scope.fault.as_ref().map(|f| f.code);
        let unreached = [
            Code::StopNotSent,
            Code::StopNotConfirmed,
            Code::NotResponding,
            Code::Unplugged,
            Code::NotConnected,
            Code::WatchdogStop,
        ];
        code.is_some_and(|c| unreached.contains(&c))
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.lab.now() + time;
        self.lab.pass();
        while self.lab.now() < until {
            let look = self.lab.now() + Duration::from_millis(if self.still() { 40 } else { 5 });
            self.lab.quick_turn(look.min(until));
            self.hear();
        }
    }

    fn hear(&mut self) {
        let at = self.truth();
        let mut answers = Vec::new();
        for mut asked in std::mem::take(&mut self.asked) {
            let way = (0..3).map(|i| (at[i] - asked.began[i]).abs()).fold(0.0, f64::max);
            asked.furthest = asked.furthest.max(way);
            match asked.pending.answer() {
                None => self.asked.push(asked),
                Some(answer) => answers.push((asked, answer)),
            }
        }
        for (asked, answer) in answers {
            self.answered(&asked, &answer);
        }
        if let Some(stood) = self.stands
            && self.row.truth != Truth::Elsewhere
            && (0..3).any(|i| (at[i] - stood[i]).abs() > 0.01)
            && !self.loud()
        {
            self.fail("it moved after its answer");
        }
    }

    fn answered(&mut self, asked: &Asked, answer: &Result<Moved, RigError>) {
        self.note(format!("answer to {}: {answer:?}", asked.what));
        let (code, moved) = match answer {
            Ok(moved) => (None, *moved),
            Err(e) => (Some(e.code), e.moved),
        };
        let ours = asked.alone;
        let seen = self.row.truth != Truth::Unseen;
        if ours && self.row.truth == Truth::Ours && moved == Moved::No && asked.furthest > NOTHING {
            self.fail(&format!("{} is said to have moved nothing, and moved {:.4} mm", asked.what, asked.furthest));
        }
        if ours && seen && moved == Moved::Yes && asked.furthest < NOTHING {
            self.fail(&format!("{} is said to have moved, and did not", asked.what));
        }
        if answer.is_ok()
            && seen
            && let Some((x, y)) = asked.to
        {
            let at = self.truth();
            if (at[0] - x).abs() > TOLERANCE[0] || (at[1] - y).abs() > TOLERANCE[1] {
                self.fail(&format!("{} is said to have arrived, and is elsewhere", asked.what));
            }
        }
        if !self.still() && self.row.truth != Truth::Elsewhere && !self.loud() && moved != Moved::Unknown {
            // Unless something else was asked that goes on.
            if self.asked.is_empty() {
                self.fail(&format!("{} is answered while it moves", asked.what));
            }
        }
        self.answers.push(Answer { what: asked.what, code, moved });
        if asked.what == "end" {
            self.over = true;
            self.lab.end();
        }
        self.stands = (self.still() && self.asked.is_empty()).then(|| self.truth());
    }

    /// What is said to be known is where it is said to be.
    pub fn believed(&self) {
        let (scope, at) = (self.lab.scope(), self.truth());
        let blind = match self.row.truth {
            // What a program that has ended last said is nobody's knowledge any more.
            _ if self.over => true,
            Truth::Unseen => true,
            Truth::UnseenHome => self.phase == Phase::Homing,
            Truth::Ours | Truth::Elsewhere => false,
        };
        if blind {
            return;
        }
        for (i, axis) in AXES.iter().enumerate() {
            let a = scope.axis(axis).expect("an axis");
            let Some(p) = a.position.filter(|_| a.trust != Trust::Unknown) else { continue };
            let off = (p.in_base() - at[i]).abs();
            if off > TOLERANCE[i] && self.still() {
                self.fail(&format!("{axis} is said to be {} at {p:?}, and is {off:.4} mm from there", a.trust));
            }
        }
    }

    /// The fault comes, and everything is answered.
    fn happen(&mut self) {
        let row = self.row;
        self.note("fault");
        (row.begin)(self);
        let begun = self.lab.now();
        let ends = row.ends.map(|(ms, end)| (begun + Duration::from_millis(ms), end));
        let end_by = |cell: &mut Cell, until: Duration| {
            if let Some((at, end)) = ends
                && at <= until
                && at > cell.lab.now()
            {
                cell.run(at - cell.lab.now());
                end(cell);
            }
            cell.run(until.saturating_sub(cell.lab.now()));
        };
        if self.phase == Phase::Idle {
            // Noticed or not: somebody gives the next order.
            end_by(self, begun + Duration::from_millis(1500));
            if row.camera { self.order_picture(false) } else { self.order_move("move", TARGET.0) }
        }
        let over = ends.map_or(begun, |(at, _)| at) + Duration::from_secs(2);
        end_by(self, over.max(self.lab.now()));
        let until = self.lab.now() + Duration::from_secs(120);
        while !self.asked.is_empty() {
            if self.lab.now() > until {
                self.fail("an order was never answered");
            }
            self.run(Duration::from_millis(250));
        }
        self.run(Duration::from_secs(3));
        let told = match self.row.truth {
            Truth::Elsewhere => self.lab.scope().fault.is_some(),
            _ => self.loud(),
        };
        if !self.still() && !told {
            self.fail("it moves, and nobody is told");
        }
        self.believed();
    }
}

/// One cell, from the beginning to what comes next. Fails with the whole story when something doesn't hold.
pub fn run(peer: &'static Peer, row: &'static Row, phase: Phase) -> Outcome {
    let mut cell = Cell::new(peer, row, phase);
    cell.happen();
    let scope = cell.lab.scope();
    let trust = scope.axes.iter().map(|a| a.trust).min().unwrap_or(Trust::Unknown);
    let answers = std::mem::take(&mut cell.answers);
    let (mut cell, remedies) = cell.go_on();
    cell.works();
    if std::env::var_os("STEADYHAND_CELL").is_some() {
        eprintln!("{}", cell.trace);
    }
    Outcome { answers, trust, remedies }
}
