//! A controller that says what a script tells it to, at the other end of the rig thread's link, on virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadyhand::actor::{Clock, RigHandle, Sleeper, Ticket, Worker, assemble};
use steadyhand::devices::{self, link::memory::Far};
use steadyhand::model::{Caller, Epoch, Home, Move, Name, Report, RigError, StageStatus, StopBy, Time, Way};
use steadyhand::plans::Sequence;
use steadyhand::store::PersonStop;

use super::{Log, answer_of, rig};

/// GRBL's real-time bytes: they stand outside of lines.
pub fn is_real_time(b: u8) -> bool {
    matches!(b, b'?' | b'!' | b'~' | 0x18) || b >= 0x80
}

struct Rule {
    on: Vec<u8>,
    says: Vec<u8>,
    after: Duration,
    left: Option<u32>,
}

/// What a peer says to a line, and how long after it.
pub type Answers = Vec<(Duration, Vec<u8>)>;

/// Answers a line that it hears at that time.
pub type Peer = Box<dyn FnMut(Duration, &[u8]) -> Answers>;

pub struct Scripted {
    pub handle: RigHandle,
    pub worker: Worker,
    pub far: Far,
    pub log: Log,
    /// Every line and real-time byte that the controller has heard, and when.
    pub heard: Vec<(Duration, Vec<u8>)>,
    /// Hears everything and says nothing.
    pub mute: bool,
    /// Answers lines for which no rule stands.
    pub peer: Option<Peer>,
    caller: Caller,
    rules: Vec<Rule>,
    line: Vec<u8>,
    to_say: Vec<(Duration, Vec<u8>)>,
    clock: Arc<AtomicU64>,
    next: Time,
    now: Duration,
    /// Something was said that the rig thread is woken for.
    unheard: bool,
    _sleeper: Sleeper,
}

impl Scripted {
    /// An open link to a controller that says nothing yet.
    pub fn silent(rig_file: &str) -> Scripted {
        Scripted::behind(rig_file, Far::default())
    }

    /// The same behind that link, which may be one that can't be opened.
    pub fn behind(rig_file: &str, far: Far) -> Scripted {
        let rig = rig(rig_file);
        let devices = devices::make(&rig, &mut |_| far.connector("scripted")).expect("devices");
        let clock = Arc::new(AtomicU64::new(0));
        let log = Log::default();
        let (handle, worker, sleeper) = assemble(
            &rig,
            devices,
            Box::new(log.clone()),
            PersonStop::in_memory(),
            Clock::Virtual(clock.clone()),
            Epoch(1000),
        );
        let mut s = Scripted {
            handle,
            worker,
            far,
            log,
            heard: Vec::new(),
            mute: false,
            peer: None,
            caller: Caller { id: Name::new("test"), client: "test".into(), way: Way::Stdio },
            rules: Vec::new(),
            line: Vec::new(),
            to_say: Vec::new(),
            clock,
            next: Time::ZERO,
            now: Duration::ZERO,
            unheard: false,
            _sleeper: sleeper,
        };
        s.run_ms(1);
        s
    }

    /// A GRBL 1.1h that stands at these counters and takes every line.
    pub fn grbl(rig_file: &str, at: [f64; 3]) -> Scripted {
        let mut s = Scripted::silent(rig_file);
        s.speaks_grbl(at);
        s
    }

    /// From now on it is a GRBL 1.1h that stands at these counters and takes every line.
    pub fn speaks_grbl(&mut self, at: [f64; 3]) {
        let s = self;
        s.on("$I", "[VER:1.1h.20190830:]\r\n[OPT:VM,15,128]\r\nok\r\n");
        s.on("$$", "$1=255\r\n$13=0\r\n$100=400.000\r\n$110=1200.000\r\n$111=1200.000\r\n$112=120.000\r\nok\r\n");
        s.on("$G", "[GC:G0 G54 G17 G21 G90 G94 M5 M9 T0 F0 S0]\r\nok\r\n");
        s.on("$X", "ok\r\n");
        s.on_after("$H", 1500, "ok\r\n");
        s.on("$J", "ok\r\n");
        s.stands("Idle", at);
    }

    /// The same, connected and homed.
    pub fn homed(rig_file: &str, at: [f64; 3]) -> Scripted {
        let mut s = Scripted::grbl(rig_file, at);
        s.online();
        s.home().expect("homing");
        s
    }

    /// What it says to a line that begins so, or to a real-time byte; the newest rule counts.
    pub fn on(&mut self, on: impl AsRef<[u8]>, says: impl AsRef<[u8]>) {
        self.rule(on.as_ref(), says.as_ref(), Duration::ZERO, None);
    }

    /// The same after so many milliseconds.
    pub fn on_after(&mut self, on: impl AsRef<[u8]>, ms: u64, says: impl AsRef<[u8]>) {
        self.rule(on.as_ref(), says.as_ref(), Duration::from_millis(ms), None);
    }

    /// The same, only the next time.
    pub fn once_after(&mut self, on: impl AsRef<[u8]>, ms: u64, says: impl AsRef<[u8]>) {
        self.rule(on.as_ref(), says.as_ref(), Duration::from_millis(ms), Some(1));
    }

    fn rule(&mut self, on: &[u8], says: &[u8], after: Duration, left: Option<u32>) {
        self.rules.push(Rule { on: on.to_vec(), says: says.to_vec(), after, left });
    }

    /// How it answers `?` from now on.
    pub fn stands(&mut self, state: &str, at: [f64; 3]) {
        let [x, y, z] = at;
        self.on("?", format!("<{state}|MPos:{x:.3},{y:.3},{z:.3}|FS:0,0>\r\n"));
    }

    /// It says this now, unasked.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.far.give(bytes.as_ref());
        self.unheard = true;
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    fn answer_lines(&mut self) {
        for b in self.far.take() {
            if is_real_time(b) {
                self.hears(vec![b]);
            } else if b == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.hears(line);
            } else {
                self.line.push(b);
            }
        }
        let (now, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.to_say).into_iter().partition(|s| s.0 <= self.now);
        self.to_say = later;
        for (_, bytes) in now {
            self.say(&bytes);
        }
    }

    fn hears(&mut self, what: Vec<u8>) {
        self.heard.push((self.now, what.clone()));
        if self.mute {
            return;
        }
        let fits = |r: &&mut Rule| what.starts_with(&r.on) && r.left != Some(0);
        if let Some(rule) = self.rules.iter_mut().rev().find(fits) {
            rule.left = rule.left.map(|n| n - 1);
            self.to_say.push((self.now + rule.after, rule.says.clone()));
            self.to_say.sort_by_key(|s| s.0);
        } else if let Some(peer) = &mut self.peer {
            let answers = peer(self.now, &what);
            self.to_say.extend(answers.into_iter().map(|(after, bytes)| (self.now + after, bytes)));
            self.to_say.sort_by_key(|s| s.0);
        }
    }

    pub fn turn(&mut self, until: Duration) {
        self.answer_lines();
        self.unheard = false;
        self.next = self.worker.pass(Time(self.now));
        self.answer_lines();
        if self.unheard {
            self.next = Time(self.now);
        }
        let says = self.to_say.iter().map(|s| s.0).min().unwrap_or(until);
        let step = self.next.0.min(says).max(self.now + Duration::from_micros(500));
        self.now = step.min(until).max(self.now);
        self.clock.store(u64::try_from(self.now.as_nanos()).unwrap(), Ordering::Release);
    }

    pub fn run_ms(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        while self.now < until {
            self.turn(until);
        }
    }

    /// Lets time pass until something holds; panics when it doesn't within so many milliseconds.
    pub fn until(&mut self, what: &str, ms: u64, mut holds: impl FnMut(&mut Scripted) -> bool) {
        let until = self.now + Duration::from_millis(ms);
        while !holds(self) {
            assert!(self.now < until, "not within {ms} ms: {what}; {:#?}", self.scope());
            self.turn(until);
        }
    }

    pub fn answer<T>(&mut self, mut ticket: Ticket<T>) -> Result<T, RigError> {
        let until = self.now + Duration::from_secs(200);
        loop {
            if let Some(answer) = answer_of(&mut ticket) {
                return answer;
            }
            assert!(self.now < until, "no answer within 200 s; {:#?}", self.handle.snapshot());
            self.turn(until);
        }
    }

    pub fn online(&mut self) {
        self.until("online and read", 30_000, |s| s.scope().read_at.is_some());
    }

    pub fn scope(&self) -> StageStatus {
        self.stage("scope")
    }

    pub fn stage(&self, name: &str) -> StageStatus {
        self.handle.snapshot().stage(name).expect("a first pass").clone()
    }

    /// The reported position in mm.
    pub fn reads(&self, axis: &str) -> Option<f64> {
        self.scope().axis(axis).unwrap().position.map(|p| p.in_base())
    }

    /// Whether that line (its beginning) or byte was heard since then.
    pub fn heard_since(&self, since: Duration, what: impl AsRef<[u8]>) -> Option<Duration> {
        self.heard.iter().find(|(t, h)| *t >= since && h.starts_with(what.as_ref())).map(|(t, _)| *t)
    }

    pub fn start(&mut self, plan: Sequence) -> Result<Ticket<Report>, RigError> {
        self.handle.run(&self.caller, Box::new(plan))
    }

    pub fn begin_home(&mut self) -> Ticket<Report> {
        let home = Home { stage: Name::new("scope"), axes: vec![] };
        self.start(Sequence::home("home".into(), home)).unwrap()
    }

    pub fn home(&mut self) -> Result<Report, RigError> {
        let ticket = self.begin_home();
        self.answer(ticket)
    }

    /// Targets in mm.
    pub fn begin_move(&mut self, targets: &[(&str, f64)]) -> Ticket<Report> {
        let aim = super::aim(targets);
        let movement = Move { stage: Name::new("scope"), aim };
        self.start(Sequence::movement("move".into(), movement)).unwrap()
    }

    pub fn move_to(&mut self, targets: &[(&str, f64)]) -> Result<Report, RigError> {
        let ticket = self.begin_move(targets);
        self.answer(ticket)
    }

    /// A move whose line was heard by the controller.
    pub fn moving(&mut self, targets: &[(&str, f64)]) -> Ticket<Report> {
        let since = self.now;
        let ticket = self.begin_move(targets);
        self.until("a jog on the wire", 5_000, |s| s.heard_since(since, "$J").is_some());
        ticket
    }

    pub fn begin_recover(&mut self) -> Ticket<()> {
        self.handle.recover(&self.caller, &Name::new("scope")).unwrap()
    }

    pub fn recover(&mut self) -> Result<(), RigError> {
        let ticket = self.begin_recover();
        self.answer(ticket)
    }

    pub fn stop(&mut self) {
        self.handle.stop(None, StopBy::Model);
    }
}
