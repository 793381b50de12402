//! A lab on virtual time: the rig thread's worker and a simulated bench in one thread, joined by memory links.
#![allow(dead_code, unreachable_pub)]

pub mod chain;
pub mod hooked;
pub mod peers;
pub mod random;
pub mod scripted;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hw_sim::{Bench, Fault};
use parking_lot::Mutex;
use steadyhand::actor::{Clock, Entry, Journal, RigHandle, Sleeper, Ticket, Worker, assemble};
use steadyhand::config::{self, Rig};
use steadyhand::devices::{self, Stage, link::memory::Far};
use steadyhand::model::{
    Aim, AxisId, AxisReading, Caller, Epoch, Event, Home, Move, Name, Report, RigError, Shot, Snapshot, StageStatus,
    StopBy, Time, Way,
};
use steadyhand::plans::Sequence;
use steadyhand::store::{Kept, PersonStop, Receipt};
use steadyhand::units::{Distance, Position, Unit};

/// The demonstration's rig file.
pub const DEMO: &str = include_str!("../../rigs/demo.toml");

/// A rig from the text of a file.
pub fn rig(text: &str) -> Arc<Rig> {
    let text =
        text.replace("@SCOPE@", "/dev/virtual-scope").replace("@CAM@", "127.0.0.1:1").replace("@IO@", "127.0.0.1:2");
    match config::parse(&text, Path::new("test.toml"), &devices::known()) {
        Ok(rig) => Arc::new(rig),
        Err(problems) => panic!("{}", problems.render(false)),
    }
}

/// An audit log in memory; it can be made to fail, or to leave the lines of one kind waiting.
#[derive(Clone, Default)]
pub struct Log {
    pub events: Arc<Mutex<Vec<Event>>>,
    pub broken: Arc<std::sync::atomic::AtomicBool>,
    /// Lines of this kind wait for the disk; their receipts are kept.
    pub slow: Arc<Mutex<Option<&'static str>>>,
    pub waiting: Arc<Mutex<Vec<Receipt>>>,
}

impl Journal for Log {
    fn append(&mut self, event: Event) -> Option<Entry> {
        if self.broken.load(Ordering::Relaxed) {
            return None;
        }
        let waits = *self.slow.lock() == Some(event.kind);
        self.events.lock().push(event);
        if !waits {
            return Some(Entry::Written);
        }
        let receipt = Receipt::new();
        self.waiting.lock().push(receipt.clone());
        Some(Entry::Pending(receipt))
    }
}

/// A rig with the demonstration's stage and nothing else.
pub fn stage_only() -> String {
    let rest = |text: &str, from: &str, to: &str| {
        let (head, tail) = text.split_once(from).unwrap();
        let tail = if to.is_empty() { "" } else { &tail[tail.find(to).unwrap()..] };
        format!("{head}{tail}")
    };
    let text = rest(DEMO, "[[link]]\nid = \"camera-port\"", "[[stage]]");
    let text = rest(&text, "[[camera]]", "[[keep_out]]");
    rest(&text, "[eaa]", "")
}

/// Targets in millimetres.
pub fn aim(targets: &[(&str, f64)]) -> Aim {
    Aim::To(targets.iter().map(|(a, v)| (Name::new(a), Position::base(*v).unwrap())).collect())
}

/// The answer to an order, if it has come.
pub fn answer_of<T>(ticket: &mut Ticket<T>) -> Option<Result<T, RigError>> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(ticket.wait()).poll(&mut context) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// How long after the last byte another is expected: a report takes 5 ms at 115200 baud.
const LIVELY: Duration = Duration::from_millis(8);

/// How often a line is looked at on which nothing is expected.
const QUIET_STEP: Duration = Duration::from_millis(10);

/// A wire between a device of the bench and the rig thread.
struct Cable {
    device: String,
    far: Far,
    /// How often its cable has been pulled, as far as was seen.
    pulled: u64,
}

pub struct Lab {
    pub bench: Bench,
    pub handle: RigHandle,
    pub worker: Worker,
    pub log: Log,
    pub caller: Caller,
    cables: Vec<Cable>,
    clock: Arc<AtomicU64>,
    next: Time,
    now: Duration,
    /// Until then bytes may be on their way, so that the bench is looked at often.
    lively_until: Duration,
    /// The worker has ended.
    over: bool,
    /// The shortest step of the clock: what happens within one is seen together.
    pub grain: Duration,
    _sleeper: Sleeper,
}

impl Lab {
    /// The demonstration's rig on the demonstration's bench.
    pub fn demo(seed: u64) -> Lab {
        Lab::new(DEMO, Bench::microscope(seed))
    }

    /// The same with a 0.9 controller: it has no jogs, so that moves are program moves, and a stop is a hold, then a
    /// reset at rest.
    pub fn old() -> Lab {
        let bench = hw_sim::MICROSCOPE_TOML.replace(
            "build_options = \"VM\"",
            "build_options = \"VM\"\nbanner = \"Grbl 0.9j ['$' for help]\"\nversion = \"0.9j.20160303:\"\nreport_mode = \"0.9\"",
        );
        Lab::new(DEMO, Bench::from_toml(&bench).expect("a bench"))
    }

    /// The demonstration, online and homed.
    pub fn homed(seed: u64) -> Lab {
        let mut lab = Lab::demo(seed);
        lab.online();
        let report = lab.home();
        report.expect("homing");
        lab
    }

    /// A rig on a bench. The link `scope-port` leads to the bench's `scope`, `camera-port` to `cam`.
    pub fn new(rig_file: &str, bench: Bench) -> Lab {
        Lab::with(rig_file, bench, PersonStop::in_memory())
    }

    /// The same, with what is on record from before.
    pub fn with(rig_file: &str, bench: Bench, kept: impl Into<Kept>) -> Lab {
        Lab::around(rig_file, bench, kept, |stage| stage)
    }

    /// The same, with something around each stage's driver.
    pub fn around(
        rig_file: &str,
        bench: Bench,
        kept: impl Into<Kept>,
        around: impl FnMut(Box<dyn Stage>) -> Box<dyn Stage>,
    ) -> Lab {
        let rig = rig(rig_file);
        let mut cables = Vec::new();
        let mut devices = devices::make(&rig, &mut |link| {
            let device = match link.id.as_str() {
                "scope-port" => "scope",
                "camera-port" => "cam",
                "io-port" => "io",
                other => other,
            };
            let far = Far::default();
            cables.push(Cable { device: device.into(), far: far.clone(), pulled: 0 });
            far.connector(device)
        })
        .expect("devices");
        devices.stages = devices.stages.into_iter().map(around).collect();
        // A bench that has been used goes on where it is: the program was started anew, the bench was not.
        let now = bench.now();
        let clock = Arc::new(AtomicU64::new(u64::try_from(now.as_nanos()).unwrap()));
        let log = Log::default();
        let (handle, worker, sleeper) =
            assemble(&rig, devices, Box::new(log.clone()), kept, Clock::Virtual(clock.clone()), Epoch(1000));
        let caller = Caller { id: Name::new("test"), client: "test".into(), way: Way::Stdio };
        Lab {
            bench,
            handle,
            worker,
            log,
            caller,
            cables,
            clock,
            next: Time::ZERO,
            now,
            lively_until: Duration::ZERO,
            over: false,
            grain: Duration::from_micros(100),
            _sleeper: sleeper,
        }
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    pub fn rig(&self) -> &Rig {
        self.handle.rig()
    }

    /// One turn: the bench comes to the present, bytes change hands, the worker makes a pass, and the clock goes
    /// to whatever is next.
    pub fn turn(&mut self, until: Duration) {
        self.carry();
        self.pass();
        self.step(until);
    }

    /// The same, but without a pass that is not due and for which nothing has arrived. For loops that give no
    /// orders.
    pub fn quick_turn(&mut self, until: Duration) {
        if self.carry() || self.next.0 <= self.now {
            self.pass();
        }
        self.step(until);
    }

    /// A pass of the worker, whether it is due or not: for loops of [`Lab::quick_turn`], after an order.
    pub fn pass(&mut self) {
        if self.over {
            self.next = Time(self.now + QUIET_STEP);
            return;
        }
        self.next = self.worker.pass(Time(self.now));
        self.carry();
    }

    fn step(&mut self, until: Duration) {
        let bench_next = if self.now < self.lively_until {
            // Bytes that arrive one by one are looked at as the real thread does, not each for itself.
            self.bench.next_event().unwrap_or(until).max(self.now + Duration::from_micros(500))
        } else {
            self.now + QUIET_STEP
        };
        let step = self.next.0.min(bench_next).max(self.now + self.grain);
        self.now = step.min(until).max(self.now);
        self.clock.store(u64::try_from(self.now.as_nanos()).unwrap(), Ordering::Release);
    }

    /// Lets bytes change hands; tells whether something arrived here.
    fn carry(&mut self) -> bool {
        self.bench.advance(self.now);
        let mut arrived = false;
        for c in &mut self.cables {
            let plugged = self.bench.plugged(&c.device);
            // A cable that was pulled and put back since the last look has broken the connection too.
            let pulled = self.bench.unplugs(&c.device);
            c.far.plug(plugged && pulled == c.pulled);
            c.far.plug(plugged);
            arrived |= pulled != c.pulled;
            c.pulled = pulled;
            if !plugged {
                c.far.take();
                continue;
            }
            let bytes = c.far.take();
            if !bytes.is_empty() {
                self.bench.write(&c.device, &bytes);
                self.lively_until = self.now + LIVELY;
            }
            c.far.set_unsent(self.bench.unsent(&c.device));
            let back = self.bench.read(&c.device);
            if !back.is_empty() {
                c.far.give(&back);
                self.lively_until = self.now + LIVELY;
                arrived = true;
            }
        }
        arrived
    }

    /// Lets so much time pass.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        self.turn(until);
        while self.now < until {
            self.quick_turn(until);
        }
    }

    /// Pulls the cable out of a device of the bench and puts it into another.
    pub fn swap_cable(&mut self, from: &str, to: &str) {
        let pulled = self.bench.unplugs(to);
        for c in self.cables.iter_mut().filter(|c| c.device == from) {
            c.far.plug(false);
            c.far.take();
            (c.device, c.pulled) = (to.to_owned(), pulled);
        }
    }

    /// How many bytes the link to a device takes until the bench has them; 0 makes it full.
    pub fn bound(&mut self, device: &str, room: Option<usize>) {
        self.cables.iter().filter(|c| c.device == device).for_each(|c| c.far.bound(room));
    }

    /// The worker is done: from now on only the bench goes on.
    pub fn end(&mut self) {
        self.over = true;
    }

    pub fn run_ms(&mut self, ms: u64) {
        self.run(Duration::from_millis(ms));
    }

    /// Lets time pass until something holds; panics when it doesn't within so much.
    pub fn until(&mut self, what: &str, at_most: Duration, mut holds: impl FnMut(&mut Lab) -> bool) {
        let until = self.now + at_most;
        loop {
            if holds(self) {
                return;
            }
            assert!(self.now < until, "not within {at_most:?}: {what}; {:#?}", self.handle.snapshot());
            self.turn(until);
        }
    }

    /// Waits for an answer.
    pub fn answer<T>(&mut self, mut ticket: Ticket<T>) -> Result<T, RigError> {
        let until = self.now + Duration::from_secs(200);
        self.turn(until);
        loop {
            if let Some(answer) = answer_of(&mut ticket) {
                return answer;
            }
            assert!(self.now < until, "no answer within 200 s; {:#?}", self.handle.snapshot());
            self.quick_turn(until);
        }
    }

    /// Lets the devices connect and be read.
    pub fn online(&mut self) {
        self.until("all devices online", Duration::from_secs(20), |lab| {
            let s = lab.handle.snapshot();
            !s.stages.is_empty() && s.stages.iter().all(|s| s.read_at.is_some()) && s.cameras.iter().all(|c| c.ready)
        });
    }

    pub fn state(&self) -> Arc<Snapshot> {
        self.handle.snapshot()
    }

    pub fn scope(&self) -> StageStatus {
        self.state().stage("scope").unwrap().clone()
    }

    /// The position that the rig reports, in the axis's own unit.
    pub fn reads(&self, axis: &str) -> f64 {
        let unit = self.rig().stage("scope").unwrap().axis(axis).unwrap().unit;
        self.scope().axis(axis).unwrap().position.expect("a position").to(unit)
    }

    /// Where the carriage really is, in mm of the rig's coordinates.
    pub fn truly(&self, axis: &str) -> f64 {
        self.bench.carriage_mm("scope", axis)
    }

    pub fn start(&mut self, plan: Sequence) -> Result<Ticket<Report>, RigError> {
        self.handle.run(&self.caller, Box::new(plan))
    }

    pub fn home(&mut self) -> Result<Report, RigError> {
        let home = Home { stage: Name::new("scope"), axes: vec![] };
        let ticket = self.start(Sequence::home("home scope".into(), home))?;
        self.answer(ticket)
    }

    /// Targets in the axes' own units.
    pub fn to(&self, targets: &[(&str, f64)]) -> Move {
        let stage = self.rig().stage("scope").unwrap();
        let aim = targets
            .iter()
            .map(|(a, v)| (Name::new(a), Position::new(*v, stage.axis(a).map_or(Unit::Mm, |x| x.unit)).unwrap()))
            .collect();
        Move { stage: Name::new("scope"), aim: Aim::To(aim) }
    }

    pub fn by(&self, offsets: &[(&str, f64)], from: Epoch) -> Move {
        let stage = self.rig().stage("scope").unwrap();
        let offsets = offsets
            .iter()
            .map(|(a, v)| (Name::new(a), Distance::new(*v, stage.axis(a).unwrap().unit).unwrap()))
            .collect();
        Move { stage: Name::new("scope"), aim: Aim::By { offsets, from } }
    }

    pub fn begin_move(&mut self, movement: Move) -> Result<Ticket<Report>, RigError> {
        self.start(Sequence::movement("move scope".into(), movement))
    }

    pub fn move_to(&mut self, targets: &[(&str, f64)]) -> Result<Report, RigError> {
        let movement = self.to(targets);
        let ticket = self.begin_move(movement)?;
        self.answer(ticket)
    }

    pub fn shoot(&mut self) -> Result<Report, RigError> {
        let shot = Shot { camera: Name::new("cam"), change: Default::default() };
        let rig = self.handle.rig().clone();
        let ticket = self.start(Sequence::picture("picture".into(), &rig, vec![], shot))?;
        self.answer(ticket)
    }

    pub fn recover(&mut self, device: &str) -> Result<(), RigError> {
        let ticket = self.handle.recover(&self.caller, &Name::new(device))?;
        self.answer(ticket)
    }

    pub fn stop(&mut self) {
        self.handle.stop(None, StopBy::Model);
    }

    /// A person at the rig.
    pub fn person(&self) -> Caller {
        Caller { id: Name::new("person"), client: "steadyhand".into(), way: Way::Cli }
    }

    /// A person declares where an axis of the scope stands, in its own unit.
    pub fn reference(&mut self, axis: &str, value: f64) -> Result<AxisReading, RigError> {
        let id = AxisId::new("scope", axis);
        let unit = self.rig().axis(&id).map_or(Unit::Mm, |a| a.unit);
        let ticket = self.handle.reference(&self.person(), &id, Position::new(value, unit).unwrap())?;
        self.answer(ticket)
    }

    /// A person releases a person's stop.
    pub fn resume(&mut self) -> Result<Vec<Name>, RigError> {
        let ticket = self.handle.resume(&self.person(), None)?;
        self.answer(ticket)
    }

    pub fn fault(&mut self, fault: Fault) {
        self.bench.fault("scope", fault).expect("a fault that the bench knows");
    }

    /// The bytes that reached the controller since then, each with its time. They are logged in that order.
    fn received_since(&self, since: Duration) -> &[(Duration, u8)] {
        let all = self.bench.received("scope");
        &all[all.partition_point(|(t, _)| *t < since)..]
    }

    /// The bytes that reached the controller since then.
    pub fn heard_since(&self, since: Duration) -> Vec<u8> {
        self.received_since(since).iter().map(|(_, b)| *b).collect()
    }

    /// The whole lines that the controller was sent since then, without real-time bytes.
    pub fn lines_since(&self, since: Duration) -> Vec<String> {
        let bytes: Vec<u8> = self.heard_since(since).into_iter().filter(|b| !scripted::is_real_time(*b)).collect();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    /// When that byte first reached the controller after then.
    pub fn heard_at(&self, since: Duration, byte: u8) -> Option<Duration> {
        self.received_since(since).iter().find(|(_, b)| *b == byte).map(|(t, _)| *t)
    }
}
