//! Random rigs, callers, stops, faults and restarts of the program in mid-motion, from a seed, over each protocol, on
//! virtual time; held against the true carriage positions. `STEADYHAND_SEEDS=10000` runs more, `STEADYHAND_SEED=42` one.
#![allow(unreachable_pub)]

#[path = "restarts/after.rs"]
mod after;
#[path = "restarts/rigs.rs"]
mod rigs;
mod support;
#[path = "restarts/truth.rs"]
mod truth;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use hw_sim::{Bench, Fault};
use rigs::{AXES, Box3, Frame};
use steadyhand::actor::{Decision, Ticket};
use steadyhand::model::{AxisId, Caller, Code, Home, JobId, Name, Report, RigError, StopBy, Way};
use steadyhand::plans::Sequence;
use steadyhand::store::Kept;
use steadyhand::units::Position;
use support::peers::{PEERS, Peer};
use support::random::{Random, share};
use support::{Lab, aim, answer_of};

/// An order that is not answered yet.
struct Order {
    what: String,
    caller: Name,
    job: Option<JobId>,
    ticket: Ticket<Report>,
    began: [f64; 3],
    furthest: f64,
    /// Nothing else moves or is asked meanwhile.
    alone: bool,
    /// Until then it must have begun, or never does.
    deadline: Duration,
    begun: bool,
}

/// Something else that will be answered: in words, once it is.
type Other = (String, Box<dyn FnMut() -> Option<String>>);

struct World {
    peer: &'static Peer,
    rig: String,
    frames: [Frame; 3],
    boxes: Vec<Box3>,
    /// How far z may go at once, in mm.
    step: Option<f64>,
    lab: Option<Lab>,
    record: PathBuf,
    random: Random,
    trace: String,
    open: Vec<Order>,
    others: Vec<Other>,
    callers: Vec<Caller>,
    /// Orders whose callers are gone, and whether they had begun by then.
    lost: Vec<(JobId, bool)>,
    /// Homing, and what it left behind outside of the travel, is bound by the switches alone.
    homing: bool,
    coasted: bool,
    /// Bytes to the controller were lost: it may have been told something else.
    garbled: bool,
    /// The longest for which the link was slow or dead since the last calm.
    link: Duration,
    /// When the carriage was first seen further out than a clean command can bring it, what had been told by then, and
    /// whether this run of the program found it there.
    astray: Option<(Duration, usize, bool)>,
    stopped_since: Option<Duration>,
    orphaned_since: Option<Duration>,
    still_since: Option<Duration>,
    /// Since when no order to move has been given to this run of the program.
    untouched_since: Option<Duration>,
    ends: Vec<(Duration, Fault)>,
    /// Since when the next move's message is waited for, to lose so many of its bytes, and after how many looks.
    cut: Option<(Duration, usize, u64)>,
    /// The fault that was last written into the trace.
    faulted: Option<Code>,
}

impl World {
    fn new(seed: u64, record: PathBuf) -> World {
        let mut random = Random(seed);
        let peer = &PEERS[(seed % PEERS.len() as u64) as usize];
        let rig = rigs::random_rig(peer, &mut random);
        let bench = Bench::from_toml(&(peer.bench)()).expect("a bench");
        let lab = Lab::with(&rig.text, bench, Kept::open(&record).expect("a record"));
        let caller = |id: &str| Caller { id: Name::new(id), client: id.into(), way: Way::Stdio };
        World {
            peer,
            rig: rig.text,
            frames: rig.frames,
            boxes: rig.boxes,
            step: rig.step,
            lab: Some(lab),
            record,
            random,
            trace: String::new(),
            open: Vec::new(),
            others: Vec::new(),
            callers: vec![caller("one"), caller("two"), caller("three")],
            lost: Vec::new(),
            homing: true,
            coasted: false,
            garbled: false,
            link: Duration::ZERO,
            astray: None,
            stopped_since: None,
            orphaned_since: None,
            still_since: None,
            untouched_since: None,
            ends: Vec::new(),
            cut: None,
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
        let (scope, log) = (self.lab().scope(), self.lab().log.clone());
        let log: Vec<String> = log.events.lock().iter().map(|e| format!("  {} {}", e.kind, e.what)).collect();
        panic!("{}: {what}\n{}\n{}\nlog:\n{}\n{scope:#?}", self.peer.name, self.rig, self.trace, log.join("\n"));
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

    // ---- what is done ---------------------------------------------------------------------------------------

    fn begin(&mut self, what: &str, plan: Sequence) {
        (self.untouched_since, self.orphaned_since) = (None, None);
        let which = self.random.below(self.callers.len() as u64) as usize;
        let caller = self.callers[which].clone();
        let what = format!("{}: {what}", caller.id);
        self.note(&what);
        let frozen = self.ends.iter().any(|(_, f)| matches!(f, Fault::Freeze { .. }));
        // Nor does what a program that was killed had ordered still go on, such as between two parts of a homing.
        let rests = matches!(self.lab().bench.state("scope"), "idle" | "alarm");
        let alone = self.open.is_empty() && self.still() && rests && !frozen;
        let began = self.truth();
        let Ok(ticket) = self.lab().handle.run(&caller, Box::new(plan)) else { return };
        self.open.iter_mut().for_each(|o| o.alone = false);
        let (job, deadline) = (ticket.job(), self.lab().now() + self.lab().rig().calls.queue_deadline);
        let (furthest, begun) = (0.0, false);
        self.open.push(Order { what, caller: caller.id, job, ticket, began, furthest, alone, deadline, begun });
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
        if self.random.chance(20) {
            self.cut = Some((self.lab().now(), 1 + self.random.below(3) as usize, self.random.below(4)));
        }
        let movement = steadyhand::model::Move { stage: Name::new("scope"), aim: aim(&targets) };
        self.begin(&format!("to {targets:.3?}"), Sequence::movement("move scope".into(), movement));
    }

    fn begin_home(&mut self) {
        // A switch that something else holds down makes a false reference, which nobody can notice.
        self.end_now(|_, f| matches!(f, Fault::Limit { .. }));
        let home = Home { stage: Name::new("scope"), axes: vec![] };
        self.begin("home", Sequence::home("home".into(), home));
    }

    /// What has no job and is answered all the same.
    fn expect<T: std::fmt::Debug + 'static>(&mut self, what: &str, ticket: Result<Ticket<T>, RigError>) {
        self.note(what);
        if let Ok(mut ticket) = ticket {
            let answer = move || answer_of(&mut ticket).map(|a| a.map_or_else(|e| e.to_string(), |_| "ok".into()));
            self.others.push((what.to_owned(), Box::new(answer)));
        }
    }

    /// A position that is lost is sought again sooner or later, so that the seed is about motion.
    fn find_again(&mut self) -> bool {
        let scope = self.lab().scope();
        let known = scope.axes.iter().all(|a| a.trust >= self.peer.trust());
        if known || !self.open.is_empty() || self.random.chance(40) {
            return false;
        }
        let (caller, person) = (self.callers[0].clone(), self.lab().person());
        let ticket = self.lab().handle.resume(&person, None);
        self.expect("resume", ticket);
        let ticket = self.lab().handle.recover(&caller, &Name::new("scope"));
        self.expect("recover", ticket);
        self.pass(300);
        if self.peer.homes {
            self.begin_home();
            return true;
        }
        let at = self.truth();
        for (i, axis) in AXES.iter().enumerate() {
            let here = Position::base(at[i]).expect("finite");
            let ticket = self.lab().handle.reference(&person, &AxisId::new("scope", axis), here);
            self.expect(&format!("{axis} is declared"), ticket);
        }
        true
    }

    fn order(&mut self) {
        if self.find_again() {
            return;
        }
        match self.random.below(16) {
            0..=4 => self.begin_move(),
            5 => {
                self.begin_move();
                self.begin_move();
            }
            6 if self.peer.homes => self.begin_home(),
            7 | 8 => {
                let by = if self.random.chance(10) { StopBy::Person } else { StopBy::Model };
                self.note(format!("stop by {by:?}"));
                let now = self.lab().now();
                self.lab().handle.stop(None, by);
                self.stopped_since.get_or_insert(now);
            }
            9 if !self.open.is_empty() => {
                self.note("a caller is lost");
                let order = self.open.remove(0);
                self.leave(&order);
            }
            10 => {
                // Whoever has a job's number may go on without waiting for it; should that client go, the job ends.
                let which = self.random.below(self.callers.len() as u64) as usize;
                let client = self.callers[which].id.clone();
                self.note(format!("client {client} is gone"));
                self.open.iter_mut().filter(|o| o.caller == client).for_each(|o| o.ticket.release());
                self.lab().handle.client_lost(&client);
                self.callers[which].id = Name::new(&format!("{client}x"));
                if self.open.iter().all(|o| o.caller == client) {
                    self.orphaned_since = Some(self.lab().now());
                }
            }
            11 => {
                if let Some(job) = self.open.first().and_then(|o| o.job) {
                    let caller = self.callers[0].clone();
                    let ticket = self.lab().handle.cancel(&caller, job);
                    self.expect(&format!("cancel {job}"), ticket);
                }
            }
            12 => self.restart(),
            13 => {
                let yes = self.random.chance(70);
                self.decide(yes);
                let caller = self.callers[0].clone();
                let ticket = self.lab().handle.recover(&caller, &Name::new("scope"));
                self.expect("recover", ticket);
            }
            _ => self.break_something(),
        }
    }

    /// An order that nobody waits for any more.
    fn leave(&mut self, order: &Order) {
        let begun = self.begun(order.job);
        self.lost.extend(order.job.map(|job| (job, begun)));
        if self.open.is_empty() {
            self.orphaned_since = Some(self.lab().now());
        }
    }

    /// A person answers what waits.
    fn decide(&mut self, yes: bool) {
        let person = self.lab().person();
        let waiting: Vec<Name> = self.lab().state().approvals().map(|a| a.id.clone()).collect();
        for id in waiting {
            let decision = Decision { yes, by: "Ada".into(), reason: None, elicited: false };
            let ticket = self.lab().handle.decide(&person, &id, decision);
            self.expect(&format!("{id}: {yes}"), ticket);
        }
    }

    fn break_something(&mut self) {
        let now = self.lab().now();
        let r = &mut self.random;
        let later = |r: &mut Random, low: u64, high: u64| Duration::from_millis(low + r.below(high - low));
        let (fault, end, slow) = match r.below(14) {
            0 => {
                let (ms, time) = (r.below(300), later(r, 100, 2600));
                (Fault::Delay { ms }, Some((time, Fault::Delay { ms: 0 })), Duration::from_millis(ms))
            }
            1 => {
                let ms = 1 + r.below(900);
                (Fault::Late { ms }, None, Duration::from_millis(ms))
            }
            2 | 3 => {
                let time = later(r, 100, 2600);
                (Fault::Mute { on: true }, Some((time, Fault::Mute { on: false })), time)
            }
            4 => {
                let time = later(r, 100, 2600);
                (Fault::Freeze { on: true }, Some((time, Fault::Freeze { on: false })), time)
            }
            5 => (Fault::Garble { bytes: 1 + r.below(8) as usize }, None, Duration::ZERO),
            6 => {
                let (factor, time) = (r.between(0.3, 1.0), later(r, 100, 2600));
                (Fault::Slow { factor }, Some((time, Fault::Slow { factor: 1.0 })), Duration::ZERO)
            }
            7 | 8 => (Fault::Drop { bytes: 1 + r.below(6) as usize }, None, Duration::ZERO),
            9 => {
                let time = later(r, 50, 1500);
                (Fault::Silence { on: true }, Some((time, Fault::Silence { on: false })), time)
            }
            10 => {
                let time = later(r, 5, 2500);
                (Fault::Unplug, Some((time, Fault::Plug)), time)
            }
            11 => (Fault::Reset, None, Duration::ZERO),
            12 => {
                let bytes = (0..r.below(40)).map(|_| r.next() as u8).collect();
                (Fault::Inject { bytes }, None, Duration::ZERO)
            }
            _ => {
                if self.peer.name != "grbl" || self.homing || self.open.iter().any(|o| o.what.ends_with("home")) {
                    return;
                }
                let axis = AXES[r.below(3) as usize].to_owned();
                let end = Fault::Limit { axis: axis.clone(), pressed: false };
                (Fault::Limit { axis, pressed: true }, Some((later(r, 50, 1500), end)), Duration::ZERO)
            }
        };
        match fault {
            // What was written and not heard is lost with the cable, or in the silence, or beyond a full buffer.
            Fault::Drop { .. } | Fault::Silence { .. } | Fault::Unplug | Fault::Freeze { .. } => self.garbled = true,
            Fault::Reset => self.coasted = true,
            _ => {}
        }
        self.link = self.link.max(slow);
        self.ends.extend(end.map(|(time, end)| (now + time, end)));
        self.fault(fault);
    }

    /// Loses bytes out of the middle of a command.
    fn cut_line(&mut self) {
        let Some((since, bytes, looks)) = self.cut else { return };
        let first = match self.peer.name {
            "grbl" => b'J',
            "zaber" => b'm',
            _ => b'M',
        };
        if self.lab().heard_at(since, first).is_none() {
            return;
        }
        self.cut = looks.checked_sub(1).map(|left| (since, bytes, left));
        if self.cut.is_none() {
            self.garbled = true;
            self.fault(Fault::Drop { bytes });
        }
    }

    /// The program is killed, the bench goes on alone for a while, and the program is started anew.
    fn restart(&mut self) {
        self.note("killed");
        // Nobody waits any more for what the dead program was asked.
        self.open.clear();
        self.others.clear();
        self.lost.clear();
        let lab = self.lab.take().expect("a run of the program");
        // What it had put on record is there; what it had not, is not.
        assert!(lab.handle.standstills().flush(Duration::from_secs(10)), "it is on the disk");
        assert!(lab.handle.person_stop().flush(Duration::from_secs(10)), "it is on the disk");
        let Lab { mut bench, .. } = lab;
        let alone = Duration::from_millis(self.random.below(6000));
        let until = bench.now() + alone;
        bench.advance(until);
        self.link = self.link.max(alone);
        self.lab = Some(Lab::with(&self.rig, bench, Kept::open(&self.record).expect("a record")));
        (self.stopped_since, self.orphaned_since, self.untouched_since) = (None, None, Some(until));
        (self.astray, self.still_since, self.cut) = (None, None, None);
        self.lab().pass();
        self.note(format!("started anew after {alone:?}"));
        let ms = self.random.below(4000);
        self.pass(ms);
    }

    // ---- time -----------------------------------------------------------------------------------------------

    fn end_now(&mut self, which: impl Fn(Duration, &Fault) -> bool) {
        let (now, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ends).into_iter().partition(|(t, f)| which(*t, f));
        self.ends = rest;
        for (_, end) in now {
            self.fault(end);
        }
    }

    fn pass(&mut self, ms: u64) {
        let until = self.lab().now() + Duration::from_millis(ms);
        // What was ordered, taken back or stopped since the last look is seen to now.
        self.lab().pass();
        while self.lab().now() < until {
            let now = self.lab().now();
            self.end_now(|t, _| t <= now);
            let look = now + Duration::from_millis(if self.still() { 50 } else { 10 });
            self.lab().quick_turn(until.min(look));
            self.cut_line();
            self.hear();
            self.judge();
        }
    }

    fn hear(&mut self) {
        let (at, now, state) = (self.truth(), self.lab().now(), self.lab().state());
        let mut answers = Vec::new();
        for mut order in std::mem::take(&mut self.open) {
            if !order.begun && order.job.is_some_and(|job| state.job(job).is_some()) {
                order.begun = true;
                if now > order.deadline + Duration::from_millis(100) {
                    self.fail(&format!("{} was begun after its deadline", order.what));
                }
            }
            let way = (0..3).map(|i| (at[i] - order.began[i]).abs()).fold(0.0, f64::max);
            order.furthest = order.furthest.max(way);
            match answer_of(&mut order.ticket) {
                None => self.open.push(order),
                Some(answer) => answers.push((order, answer)),
            }
        }
        for (order, answer) in answers {
            match &answer {
                Ok(report) => self.note(format!("answer to {}: ok, moved {}", order.what, report.moved)),
                Err(e) => self.note(format!("answer to {}: {e}", order.what)),
            }
            self.answered(&order, &answer);
        }
        let mut said = Vec::new();
        self.others.retain_mut(|(what, answer)| match answer() {
            None => true,
            Some(answer) => {
                said.push(format!("answer to {what}: {answer}"));
                false
            }
        });
        said.into_iter().for_each(|line| self.note(line));
    }

    fn quiet(&mut self) {
        self.note("quiet");
        self.cut = None;
        self.end_now(|_, _| true);
        for end in [Fault::Drop { bytes: 0 }, Fault::Garble { bytes: 0 }, Fault::Late { ms: 0 }] {
            self.fault(end);
        }
        let until = self.lab().now() + Duration::from_secs(150);
        while !self.open.is_empty() || !self.others.is_empty() {
            if self.lab().now() > until {
                self.fail("an order was never answered");
            }
            let yes = self.random.chance(50);
            self.decide(yes);
            self.pass(500);
        }
        self.pass(12_000);
        self.believed();
        for (job, begun) in std::mem::take(&mut self.lost) {
            if !begun && self.begun(Some(job)) {
                self.fail(&format!("{job} was begun although its caller was gone"));
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
            self.decide(true);
            self.pass(100);
        }
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
    share(0, 2, 300, storm);
}

#[test]
fn over_restarts_no_move_leaves_its_travel_and_trust_never_overstates_b() {
    share(1, 2, 300, storm);
}

/// Each of these showed a wrong answer once: a homing that was stopped where it had begun "moved nothing", a declared
/// position and its reading differed in their last bits, a controller was busy without going anywhere, one restarted unheard.
#[test]
fn seeds_that_found_something_stay_mended() {
    [731, 767, 985, 1264, 1294, 1452, 1504, 1544, 1580, 1889, 1961, 2267, 5769].into_iter().for_each(storm);
}
