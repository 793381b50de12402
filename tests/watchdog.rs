//! The rig thread hangs or dies while an axis moves, for each protocol, on a real port and in real time: the axes stop
//! all the same, and whoever asks is told.
#![cfg(unix)]
#![allow(clippy::print_stdout)]

mod support;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hw_sim::serve::Running;
use hw_sim::{ASI_TOML, Bench, MICROSCOPE_TOML, ZABER_TOML};
use parking_lot::Mutex;
use steadyhand::actor::{self, Entry, Journal, RigHandle, Ticket};
use steadyhand::config::{self, Port};
use steadyhand::devices::link::{Connector, Link, Opened, Second, connector};
use steadyhand::devices::{self, Stage, StageEvent};
use steadyhand::model::{
    AxisId, Caller, Code, Epoch, Event, Home, Move, Moved, Name, RigError, StageStatus, StopBy, Time, Trust, Way,
};
use steadyhand::plans::Sequence;
use steadyhand::store::PersonStop;
use steadyhand::units::Position;
use support::hooked::Hooked;
use support::{aim, answer_of, stage_only};

/// Where the rig thread hangs, once it is told to.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(u8)]
enum Where {
    Nowhere,
    /// In a driver that never comes back.
    Decoder,
    /// In a read that blocks.
    Read,
    /// In a write that blocks because the operating system's buffer is full.
    Write,
    /// Nowhere: a driver panics instead.
    Fails,
}

/// What hangs, and until when.
#[derive(Clone, Default)]
struct Wedge(Arc<AtomicU8>, Arc<AtomicBool>, Arc<Mutex<[Option<Instant>; 2]>>);

impl Wedge {
    fn drive_in(&self, at: Where) {
        self.0.store(at as u8, Ordering::SeqCst);
    }

    fn is(&self, at: Where) -> bool {
        self.0.load(Ordering::SeqCst) == at as u8
    }

    /// Hangs here, if it is to.
    fn here(&self, at: Where) {
        while self.is(at) {
            self.1.store(true, Ordering::SeqCst);
            self.2.lock()[0].get_or_insert(Instant::now());
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn holds(&self) -> bool {
        self.1.load(Ordering::SeqCst)
    }
}

struct Wedged<T>(T, Wedge);

impl Connector for Wedged<Box<dyn Connector>> {
    fn begin(&mut self, now: Time) {
        self.0.begin(now);
    }
    fn outcome(&mut self) -> Option<Opened> {
        let wedge = self.1.clone();
        self.0.outcome().map(|o| o.map(|link| Box::new(Wedged(link, wedge)) as Box<dyn Link>))
    }
    fn place(&self) -> String {
        self.0.place()
    }
}

impl Link for Wedged<Box<dyn Link>> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1.here(Where::Read);
        self.0.read(buf)
    }
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.here(Where::Write);
        self.0.write(bytes)
    }
    fn unsent(&self) -> usize {
        self.0.unsent()
    }
    fn second(&self) -> Option<Box<dyn Second>> {
        Some(Box::new(Wedged(self.0.second()?, self.1.clone())))
    }
}

impl Second for Wedged<Box<dyn Second>> {
    /// A full buffer is full for everybody.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.is(Where::Write) {
            return Ok(0);
        }
        let written = self.0.write(bytes);
        self.1.2.lock()[1].get_or_insert(Instant::now());
        written
    }
}

/// A panic without the words and the backtrace of one, which on a slow machine take longer than the watchdog's patience.
fn on_purpose() -> ! {
    resume_unwind(Box::new("on purpose"))
}

/// A driver that hangs or fails where the wedge says so.
fn wedged(stage: Box<dyn Stage>, wedge: &Wedge) -> Box<dyn Stage> {
    let wedge = wedge.clone();
    let hook = move |_: &mut Vec<StageEvent>| {
        wedge.here(Where::Decoder);
        if wedge.is(Where::Fails) {
            on_purpose();
        }
    };
    Box::new(Hooked(stage, Arc::new(Mutex::new(hook))))
}

/// A log that takes every line, and at one of them the rig thread dies. The last field tells that the watchdog barked
/// although nothing hung.
#[derive(Clone, Default)]
struct Deadly(Arc<AtomicBool>, Arc<Mutex<Vec<Event>>>, bool, Wedge, Arc<AtomicBool>);

impl Journal for Deadly {
    fn append(&mut self, event: Event) -> Option<Entry> {
        if !self.2 && self.0.load(Ordering::SeqCst) {
            on_purpose();
        }
        if event.kind == "watchdog" && self.3.is(Where::Nowhere) && !self.0.load(Ordering::SeqCst) {
            self.4.store(true, Ordering::SeqCst);
        }
        self.1.lock().push(event);
        Some(Entry::Written)
    }
    fn second(&self) -> Option<Box<dyn Journal>> {
        Some(Box::new(Deadly(self.0.clone(), self.1.clone(), true, self.3.clone(), self.4.clone())))
    }
}

struct Protocol {
    name: &'static str,
    rig: fn() -> String,
    bench: &'static str,
    /// The stage, its link, the device of the bench on that link, and the axis that moves, here and on the bench.
    stage: &'static str,
    device: &'static str,
    axis: &'static str,
    carriage: &'static str,
    /// Far away, in mm.
    target: f64,
    homes: bool,
}

const PROTOCOLS: [Protocol; 3] = [
    Protocol {
        name: "grbl",
        rig: stage_only,
        bench: MICROSCOPE_TOML,
        stage: "scope",
        device: "scope",
        axis: "x",
        carriage: "x",
        target: 15.0,
        homes: true,
    },
    Protocol {
        name: "zaber",
        rig: || include_str!("../rigs/zaber-chain.toml").into(),
        bench: ZABER_TOML,
        stage: "sample",
        device: "chain",
        axis: "x",
        carriage: "tilt",
        target: 40.0,
        homes: true,
    },
    Protocol {
        name: "asi",
        rig: || include_str!("../rigs/asi-xy.toml").into(),
        bench: ASI_TOML,
        stage: "sample",
        device: "scope",
        axis: "x",
        carriage: "x",
        target: 20.0,
        homes: false,
    },
];

struct Rig {
    bench: Running,
    handle: RigHandle,
    thread: JoinHandle<()>,
    wedge: Wedge,
    log: Deadly,
    p: &'static Protocol,
}

fn caller(way: Way) -> Caller {
    Caller { id: Name::new("test"), client: "test".into(), way }
}

impl Rig {
    /// The protocol's bench with a stage that knows where it is; told if the watchdog barks for no reason.
    fn ready(p: &'static Protocol, starved: &Arc<AtomicBool>) -> Rig {
        let bench = Running::start(Bench::from_toml(p.bench).expect("a bench"), Default::default()).expect("a bench");
        let path = bench.paths().into_iter().find(|(d, _)| d == p.device).expect("the device").1;
        let rig = config::parse(&(p.rig)(), Path::new("rig.toml"), &devices::known()).unwrap_or_else(|e| panic!("{e}"));
        let rig = Arc::new(rig);
        let wedge = Wedge::default();
        let log = Deadly(Arc::default(), Arc::default(), false, wedge.clone(), starved.clone());
        let mut devices = devices::make(&rig, &mut |link| {
            let mut link = link.clone();
            link.port = match path.strip_prefix("tcp://") {
                Some(address) => Port::Tcp(address.into()),
                None => Port::Path(path.clone()),
            };
            Box::new(Wedged(connector(&link), wedge.clone()))
        })
        .expect("devices");
        let plain = std::mem::take(&mut devices.stages);
        devices.stages = plain.into_iter().map(|s| wedged(s, &wedge)).collect();
        let (handle, thread) =
            actor::spawn(&rig, devices, Box::new(log.clone()), PersonStop::in_memory(), Epoch(1)).expect("a thread");
        let rig = Rig { bench, handle, thread, wedge, log, p };
        rig.until("it is identified", 20, |r| r.handle.snapshot().stages.iter().all(|s| s.read_at.is_some()));
        if p.homes {
            let home = Home { stage: Name::new(p.stage), axes: vec![] };
            let ticket = rig.run(Sequence::home("home".into(), home));
            rig.answer(ticket).expect("homing");
        } else {
            for axis in ["x", "y"] {
                let axis = AxisId { stage: Name::new(p.stage), axis: Name::new(axis) };
                let at = Position::base(0.0).expect("a position");
                let ticket = rig.handle.reference(&caller(Way::Cli), &axis, at).expect("room");
                rig.answer(ticket).expect("a declaration");
            }
        }
        rig
    }

    fn until(&self, what: &str, seconds: u64, mut holds: impl FnMut(&Rig) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed().as_secs() < seconds, "{}: not in time: {what}; {:#?}", self.p.name, self.stage());
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn stage(&self) -> StageStatus {
        self.handle.snapshot().stage(self.p.stage).expect("the stage").clone()
    }

    fn run(&self, plan: Sequence) -> Ticket<steadyhand::model::Report> {
        self.handle.run(&caller(Way::Stdio), Box::new(plan)).expect("room")
    }

    fn answer<T>(&self, mut ticket: Ticket<T>) -> Result<T, RigError> {
        let mut answer = None;
        self.until("an answer", 60, |_| {
            answer = answer_of(&mut ticket);
            answer.is_some()
        });
        answer.expect("it came")
    }

    fn speed(&self) -> f64 {
        self.bench.with_bench(|b| b.speed_mm_per_s(self.p.device, self.p.carriage).abs())
    }

    fn at(&self) -> f64 {
        self.bench.with_bench(|b| b.carriage_mm(self.p.device, self.p.carriage))
    }

    /// How often the watchdog's stops are in the log.
    fn barks(&self) -> usize {
        self.log.1.lock().iter().filter(|e| e.kind == "watchdog").count()
    }

    /// Begins a long move, and waits until the carriage is under way.
    fn moving(&self) -> Ticket<steadyhand::model::Report> {
        let movement = Move { stage: Name::new(self.p.stage), aim: aim(&[(self.p.axis, self.p.target)]) };
        let ticket = self.run(Sequence::movement("a long way".into(), movement));
        self.until("it moves", 20, |r| r.speed() > 1.0);
        ticket
    }

    fn end(self) {
        self.wedge.drive_in(Where::Nowhere);
        drop(self.handle);
        let began = Instant::now();
        while !self.thread.is_finished() {
            assert!(began.elapsed().as_secs() < 20, "the rig thread doesn't end");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        self.bench.stop();
    }
}

/// Over each protocol. A machine that is so busy that it gives the rig thread no turn for as long as the watchdog waits
/// has its axes stopped, rightly; such a try says nothing. Three in a row are no accident.
fn each(test: impl Fn(Rig)) {
    for p in &PROTOCOLS {
        let mut left = 2;
        let starved = Arc::new(AtomicBool::new(false));
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(Rig::ready(p, &starved)))) {
            // Its bark is written down last of all.
            std::thread::park_timeout(Duration::from_millis(100));
            if left == 0 || !starved.swap(false, Ordering::SeqCst) {
                resume_unwind(panic);
            }
            left -= 1;
            eprintln!("{}: the machine gave the rig thread no turn; once more", p.name);
        }
    }
}

#[test]
fn a_rig_thread_that_hangs_in_a_driver_or_in_a_read_leaves_no_axis_moving() {
    for at in [Where::Decoder, Where::Read] {
        each(|rig| {
            let name = rig.p.name;
            let ticket = rig.moving();
            rig.wedge.drive_in(at);
            rig.until("it hangs", 5, |r| r.wedge.holds());
            // Nobody has asked for a stop.
            rig.until("the carriage stands", 3, |r| r.speed() == 0.0);
            let stood = rig.at();
            if let [Some(hung), Some(sent)] = *rig.wedge.2.lock() {
                // For whoever wants the figure: --nocapture.
                println!("{name}, {at:?}: stuck to stop bytes handed over: {:?}", sent - hung);
            }
            // The bytes go out first: an axis that stops at once may stand before a word is said.
            rig.until("it is told", 3, |r| r.stage().fault.is_some());
            let fault = rig.stage().fault.expect("a fault");
            assert_eq!(fault.code, Code::WatchdogStop, "{name}: {fault:?}");
            assert!(rig.stage().axes.iter().all(|a| a.trust == Trust::Unknown), "{name}");
            rig.until("it is in the log", 3, |r| r.barks() > 0);
            std::thread::park_timeout(Duration::from_millis(400));
            assert_eq!(rig.at(), stood, "{name}: and it stays where it is");

            // It comes to itself: the motion has failed, and nothing moves until somebody has looked.
            rig.wedge.drive_in(Where::Nowhere);
            let e = rig.answer(ticket).expect_err("it did not arrive");
            assert!(e.moved != Moved::No, "{name}: {e}");
            rig.until("it is there again", 20, |r| r.stage().link.open && r.stage().read_at.is_some());
            assert_eq!(rig.stage().fault.map(|f| f.code), Some(Code::WatchdogStop), "{name}");
            let movement = Move { stage: Name::new(rig.p.stage), aim: aim(&[(rig.p.axis, rig.p.target)]) };
            let ticket = rig.run(Sequence::movement("on".into(), movement));
            assert_eq!(rig.answer(ticket).expect_err("refused").code, Code::Faulted, "{name}");
            let ticket = rig.handle.recover(&caller(Way::Stdio), &Name::new(rig.p.stage)).expect("room");
            rig.answer(ticket).expect("cleared");
            assert_eq!(rig.stage().fault, None, "{name}");
            assert_eq!(rig.speed(), 0.0, "{name}");
            rig.end();
        });
    }
}

#[test]
fn a_stop_that_finds_the_buffer_full_is_loudly_not_sent() {
    each(|rig| {
        let name = rig.p.name;
        let ticket = rig.moving();
        rig.wedge.drive_in(Where::Write);
        rig.until("it hangs", 5, |r| r.wedge.holds());
        rig.until("it is told", 3, |r| r.stage().fault.is_some());
        let fault = rig.stage().fault.expect("a fault");
        assert_eq!(fault.code, Code::StopNotSent, "{name}: {fault:?}");
        assert!(fault.what.contains("STOP NOT SENT") && fault.what.contains("emergency stop"), "{name}: {fault:?}");
        rig.until("it is in the log", 3, |r| {
            r.log.1.lock().iter().any(|e| e.kind == "watchdog" && e.what.contains("STOP NOT SENT"))
        });
        drop(ticket);
        rig.end();
    });
}

#[test]
fn a_rig_thread_that_dies_stops_the_axes_on_its_way_out() {
    each(|rig| {
        let name = rig.p.name;
        let _ticket = rig.moving();
        rig.log.0.store(true, Ordering::SeqCst);
        // Its next line is its end.
        let _another = rig.handle.recover(&caller(Way::Stdio), &Name::new(rig.p.stage));
        rig.until("it is dead", 5, |r| r.thread.is_finished());
        rig.until("the carriage stands", 3, |r| r.speed() == 0.0);
        assert_eq!(rig.stage().fault.map(|f| f.code), Some(Code::WatchdogStop), "{name}");
        rig.bench.stop();
    });
}

#[test]
fn a_driver_that_fails_in_motion_is_stopped_past_it_and_the_rig_thread_lives_on() {
    each(|rig| {
        let name = rig.p.name;
        let ticket = rig.moving();
        rig.wedge.drive_in(Where::Fails);
        let e = rig.answer(ticket).expect_err("it did not arrive");
        assert_eq!((e.code, e.moved), (Code::Internal, Moved::Unknown), "{name}: {e}");
        rig.until("the carriage stands", 3, |r| r.speed() == 0.0);
        let (stood, stage) = (rig.at(), rig.stage());
        assert_eq!(stage.fault.map(|f| f.code), Some(Code::Internal), "{name}");
        assert!(stage.axes.iter().all(|a| a.trust == Trust::Unknown), "{name}");
        let movement = Move { stage: Name::new(rig.p.stage), aim: aim(&[(rig.p.axis, rig.p.target)]) };
        let ticket = rig.run(Sequence::movement("on".into(), movement));
        assert!(rig.answer(ticket).is_err(), "{name}: it is not used any more");
        assert_eq!(rig.at(), stood, "{name}");
        rig.end();
    });
}

#[test]
fn a_stop_that_somebody_asks_for_goes_past_a_rig_thread_that_hangs() {
    each(|rig| {
        let name = rig.p.name;
        // It rests; what moves is moved by a hand, or by another program.
        rig.wedge.drive_in(Where::Decoder);
        rig.until("it hangs", 5, |r| r.wedge.holds());
        std::thread::park_timeout(Duration::from_millis(400));
        assert_eq!(rig.stage().fault, None, "{name}: nothing moves by an order from here, so nothing is stopped");
        rig.handle.stop(None, StopBy::Person);
        rig.until("it is stopped all the same", 3, |r| r.stage().fault.is_some());
        assert_eq!(rig.stage().fault.map(|f| f.code), Some(Code::WatchdogStop), "{name}");
        rig.end();
    });
}

#[test]
fn a_stop_asked_for_later_is_sent_too() {
    each(|rig| {
        let name = rig.p.name;
        let ticket = rig.moving();
        rig.wedge.drive_in(Where::Decoder);
        // It sends what stops it three times, and then no more by itself.
        rig.until("the watchdog has seen to what moves", 3, |r| r.barks() == 3);
        std::thread::park_timeout(Duration::from_millis(100));
        let before = rig.barks();
        assert_eq!(before, 3, "{name}");
        rig.handle.stop(None, StopBy::Person);
        rig.until("and once more for the person", 3, |r| r.barks() > before);
        rig.until("the carriage stands", 3, |r| r.speed() == 0.0);
        drop(ticket);
        rig.end();
    });
}

#[test]
fn a_rig_that_works_is_never_stopped_by_its_watchdog() {
    each(|rig| {
        let name = rig.p.name;
        let movement = Move { stage: Name::new(rig.p.stage), aim: aim(&[(rig.p.axis, rig.p.target)]) };
        let ticket = rig.run(Sequence::movement("a long way".into(), movement));
        rig.answer(ticket).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(rig.stage().fault, None, "{name}");
        rig.end();
    });
}
