//! The real worker, its shell, its handle and the watchdog's look at it under a model checker: in whatever order the
//! threads run, no stop is lost, every order is answered once, no wake is missed, and it ends.
//! `STEADYHAND_SCHEDULES` sets how many orders are tried.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread::{self, JoinHandle};

use super::primitives::made_of::within_the_model;
use super::sync::QUEUE;
use super::thread::live;
use super::{Clock, Entry, Journal, RigHandle, Sleeper, Ticket, Worker, assemble};
use crate::config::{self, Rig};
use crate::devices::link::StopScript;
use crate::devices::{self, Devices, MotionState, Reading, Stage, StageEvent};
use crate::interlocks::{Cleared, Drive, HomeDrive, StageTraits};
use crate::model::{
    Caller, Code, Epoch, Event, Home, JobState, LinkStatus, Name, Report, RigError, Snapshot, Source, StopBy, Time, Way,
};
use crate::plans::{Next, Plan, Sequence, Step};
use crate::store::PersonStop;
use crate::units::Position;

// ---- the checker ------------------------------------------------------------------------------------------

/// A schedule in which something is waited for that never comes takes more steps than this.
const STEPS: usize = 200_000;

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    within_the_model(|| {
        shuttle::Runner::new(scheduler, config).run(body);
    });
}

/// Runs it in many orders: random ones, and such as leave one thread behind at the worst moments.
fn always(body: impl Fn() + Send + Sync + 'static) {
    let said = std::env::var("STEADYHAND_SCHEDULES").ok().and_then(|n| n.parse().ok());
    let (times, body) = (said.unwrap_or(20), Arc::new(body));
    let again = body.clone();
    run(RandomScheduler::new(times), move || again());
    run(PctScheduler::new(3, times), move || body());
}

// ---- a rig without wires ----------------------------------------------------------------------------------

static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| {
    let text = include_str!("../../rigs/minimal.toml");
    Arc::new(config::parse(text, Path::new("minimal.toml"), &devices::known()).expect("a rig"))
});

/// What the stage has seen.
#[derive(Default)]
struct Seen {
    stops: AtomicU64,
    homings: AtomicU64,
    /// Whether it moves.
    moves: AtomicU64,
    /// The number of the tick that runs; 0 between ticks.
    tick: AtomicU64,
    /// Who is to stop everything as soon as a reading is given.
    stopper: OnceLock<RigHandle>,
}

/// A stage that answers at once. One that is not plugged in counts what it is told, and is no reason to wait.
struct Fake {
    seen: Arc<Seen>,
    plugged: bool,
    online: bool,
    asked: Option<Time>,
    ticks: u64,
}

impl Stage for Fake {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        self.ticks += 1;
        self.seen.tick.store(self.ticks, Ordering::SeqCst);
        // Another thread may look now.
        thread::yield_now();
        if self.plugged && !std::mem::replace(&mut self.online, true) {
            out.push(StageEvent::Online(Box::default()));
        }
        if let Some(asked_at) = self.asked.take() {
            let moves = self.seen.moves.load(Ordering::SeqCst) > 0;
            let motion = if moves { MotionState::Homing } else { MotionState::Idle };
            let positions = vec![Position::base(1.0).ok()];
            out.push(StageEvent::Reading(Reading { asked_at, motion, positions, at_limit: vec![false] }));
            if let Some(handle) = self.seen.stopper.get() {
                handle.stop(None, StopBy::Model);
            }
        }
        self.seen.tick.store(0, Ordering::SeqCst);
        now + Duration::from_secs(60)
    }
    fn poll(&mut self, now: Time) {
        self.asked = Some(now).filter(|_| self.online);
    }
    fn go(&mut self, _: Cleared<'_, Drive>, _: Time) -> Result<(), RigError> {
        Err(RigError::new(Code::NotConnected, "It only homes."))
    }
    fn home(&mut self, _: Cleared<'_, HomeDrive>, _: Time) -> Result<(), RigError> {
        self.seen.homings.fetch_add(1, Ordering::SeqCst);
        self.seen.moves.store(1, Ordering::SeqCst);
        Ok(())
    }
    fn stop(&mut self, _: Time) -> bool {
        self.seen.stops.fetch_add(1, Ordering::SeqCst);
        self.seen.moves.store(0, Ordering::SeqCst);
        true
    }
    fn halt(&mut self, now: Time) -> bool {
        self.stop(now)
    }
    fn stop_script(&self, _: bool) -> StopScript {
        StopScript::default()
    }
    fn recover(&mut self, _: Time) {}
    fn link(&self) -> LinkStatus {
        let last_error = (!self.plugged).then(|| "It is not plugged in.".to_owned());
        LinkStatus { open: self.plugged, last_error, ..LinkStatus::default() }
    }
    fn close(&mut self) {}
}

struct Paper;

impl Journal for Paper {
    fn append(&mut self, _: Event) -> Option<Entry> {
        Some(Entry::Written)
    }
}

/// A job that ends only when it is ended.
struct Endless(bool);

impl Plan for Endless {
    fn title(&self) -> String {
        "endless".into()
    }
    fn uses(&self) -> Vec<Name> {
        vec![Name::new("stage")]
    }
    fn next(&mut self, _: &Rig, _: &Snapshot) -> Next {
        if std::mem::replace(&mut self.0, true) {
            Next::Done
        } else {
            Next::Step(Step::Settle(Duration::from_secs(1 << 30)))
        }
    }
}

struct Stand {
    handle: RigHandle,
    worker: Worker,
    sleeper: Sleeper,
    seen: Arc<Seen>,
}

fn stand(plugged: bool) -> Stand {
    let seen = Arc::new(Seen::default());
    let fake = Fake { seen: seen.clone(), plugged, online: false, asked: None, ticks: 0 };
    let devices = Devices {
        stages: vec![Box::new(fake)],
        cameras: Vec::new(),
        outputs: Vec::new(),
        sensors: Vec::new(),
        traits: vec![StageTraits { coordinated: true, homes_single_axes: true }],
        sources: vec![Source::Counter],
        gates: Vec::new(),
    };
    let clock = Clock::Virtual(Arc::default());
    let (handle, worker, sleeper) = assemble(&RIG, devices, Box::new(Paper), PersonStop::in_memory(), clock, Epoch(1));
    Stand { handle, worker, sleeper, seen }
}

/// The rig thread. Its clock goes on at each look.
fn start(mut worker: Worker, sleeper: Sleeper) -> JoinHandle<()> {
    thread::spawn(move || {
        let looks = std::cell::Cell::new(0);
        live(&mut worker, &sleeper, || {
            looks.set(looks.get() + 1);
            Time(Duration::from_millis(looks.get()))
        });
    })
}

fn caller() -> Caller {
    Caller { id: Name::new("test"), client: "test".into(), way: Way::Stdio }
}

fn endless(handle: &RigHandle) -> Result<Ticket<Report>, RigError> {
    handle.run(&caller(), Box::new(Endless(false)))
}

fn homing() -> Box<Sequence> {
    Box::new(Sequence::home("home".into(), Home { stage: Name::new("stage"), axes: Vec::new() }))
}

/// The code with which it ended: it must not have ended well, and is not answered again.
fn ended(mut ticket: Ticket<Report>) -> Code {
    let first = block_on(ticket.wait()).expect_err("it can't end well").code;
    assert!(matches!(first, Code::Stopped | Code::ShuttingDown | Code::Cancelled), "{first}");
    first
}

/// Waits until all stops are carried out and published, without a word to the rig thread.
fn stops_are_out(handle: &RigHandle) {
    while !handle.stops_are_out() {
        thread::yield_now();
    }
}

/// Ends the rig thread, and waits until it has.
fn finish(handle: &RigHandle, rig: JoinHandle<()>) {
    let mut ticket = handle.shutdown(&caller()).expect("room");
    block_on(ticket.wait()).expect("an orderly end");
    rig.join().expect("the rig thread");
}

// ---- the rules --------------------------------------------------------------------------------------------

#[test]
fn a_stop_ends_what_was_ordered_before_it_wherever_that_is_on_its_way() {
    always(|| {
        let Stand { handle, worker, sleeper, seen } = stand(false);
        let rig = start(worker, sleeper);
        let tickets = [endless(&handle).expect("room"), endless(&handle).expect("room")];
        let other = handle.clone();
        let stopper = thread::spawn(move || other.stop(None, StopBy::Model));
        for ticket in tickets {
            assert_eq!(ended(ticket), Code::Stopped);
        }
        stopper.join().expect("the stop");
        stops_are_out(&handle);
        finish(&handle, rig);
        assert!(seen.stops.load(Ordering::SeqCst) > 0);
    });
}

#[test]
fn a_stop_wakes_a_rig_thread_that_sleeps() {
    always(|| {
        let Stand { handle, worker, sleeper, seen } = stand(false);
        let rig = start(worker, sleeper);
        for times in 1..=2 {
            handle.stop(None, StopBy::Model);
            stops_are_out(&handle);
            assert!(seen.stops.load(Ordering::SeqCst) >= times, "it says that it is out before it is");
        }
        finish(&handle, rig);
    });
}

#[test]
fn a_stop_needs_no_room_in_the_queue() {
    always(|| {
        let Stand { handle, worker, sleeper, seen } = stand(false);
        let tickets: Vec<_> = (0..QUEUE).map(|_| endless(&handle).expect("room")).collect();
        assert_eq!(endless(&handle).map(drop).expect_err("no room").code, Code::Busy);
        let other = handle.clone();
        let stopper = thread::spawn(move || other.stop(None, StopBy::Person));
        let rig = start(worker, sleeper);
        for ticket in tickets {
            assert_eq!(ended(ticket), Code::Stopped);
        }
        stopper.join().expect("the stop");
        finish(&handle, rig);
        assert!(seen.stops.load(Ordering::SeqCst) > 0);
        assert_eq!(handle.snapshot().stages[0].stopped_by, Some(StopBy::Person));
    });
}

#[test]
fn two_stops_at_once_are_both_carried_out_and_the_persons_stands() {
    always(|| {
        let Stand { handle, worker, sleeper, .. } = stand(false);
        let rig = start(worker, sleeper);
        let stoppers = [StopBy::Person, StopBy::Model].map(|by| {
            let other = handle.clone();
            thread::spawn(move || other.stop(None, by))
        });
        for stopper in stoppers {
            stopper.join().expect("the stop");
        }
        stops_are_out(&handle);
        assert_eq!(handle.snapshot().stages[0].stopped_by, Some(StopBy::Person));
        finish(&handle, rig);
    });
}

#[test]
fn what_a_stop_meets_on_its_way_does_not_move_once_the_stop_is_out() {
    always(|| {
        let Stand { handle, worker, sleeper, seen } = stand(true);
        let rig = start(worker, sleeper);
        let other = handle.clone();
        let mover = thread::spawn(move || other.run(&caller(), homing()).map(ended));
        handle.stop(None, StopBy::Model);
        stops_are_out(&handle);
        let latched = handle.snapshot().stages[0].stopped_by;
        assert_eq!(latched, Some(StopBy::Model));
        assert_eq!(seen.moves.load(Ordering::SeqCst), 0, "it moves though everything was stopped");
        let homings = seen.homings.load(Ordering::SeqCst);
        mover.join().expect("an answer").expect("room");
        assert_eq!(seen.homings.load(Ordering::SeqCst), homings, "it began after the stop");
        finish(&handle, rig);
    });
}

/// Asked for between two parts of one pass, by somebody who was quicker than the rest of it.
#[test]
fn what_has_not_begun_in_a_pass_does_not_begin_when_a_stop_is_asked_for_in_it() {
    always(|| {
        let Stand { handle, worker, sleeper, seen } = stand(true);
        let rig = start(worker, sleeper);
        // It begins on a reading that is asked for after this.
        drop(seen.stopper.set(handle.clone()));
        let ticket = handle.run(&caller(), homing()).expect("room");
        assert_eq!(ended(ticket), Code::Stopped);
        assert_eq!(seen.homings.load(Ordering::SeqCst), 0);
        finish(&handle, rig);
    });
}

#[test]
fn a_stop_together_with_the_end_answers_everybody_and_ends() {
    always(|| {
        let Stand { handle, worker, sleeper, .. } = stand(false);
        let rig = start(worker, sleeper);
        let ticket = endless(&handle).expect("room");
        let other = handle.clone();
        let stopper = thread::spawn(move || other.stop(None, StopBy::Person));
        let other = handle.clone();
        // Somebody who gives orders until there is nobody left to take them.
        let late = thread::spawn(move || {
            while let Ok(ticket) = endless(&other) {
                ended(ticket);
            }
        });
        finish(&handle, rig);
        assert!(matches!(ended(ticket), Code::Stopped | Code::ShuttingDown));
        late.join().expect("answers");
        assert!(handle.snapshot().jobs.iter().all(|j| j.state != JobState::Running), "one has begun after the end");
        stopper.join().expect("the stop");
        assert!(handle.person_stop().stands(), "on record, even when nobody was left to carry it out");
    });
}

#[test]
fn a_caller_that_goes_before_its_answer_takes_its_job_with_it() {
    always(|| {
        let Stand { handle, worker, sleeper, .. } = stand(false);
        let rig = start(worker, sleeper);
        let ticket = endless(&handle).expect("room");
        let goes = thread::spawn(move || drop(ticket));
        // It is in the way of this one, which can begin only when that has ended.
        let next = endless(&handle).expect("room");
        goes.join().expect("gone");
        let number = next.job().expect("a number");
        let mut changes = handle.changes();
        block_on(async {
            while !handle.snapshot().jobs.iter().any(|j| j.id == number && j.state == JobState::Running) {
                changes.changed().await.expect("it lives");
            }
        });
        handle.stop(None, StopBy::Model);
        assert_eq!(ended(next), Code::Stopped);
        finish(&handle, rig);
    });
}

#[test]
fn clients_that_are_lost_are_all_seen_to_even_while_the_rig_thread_sleeps() {
    always(|| {
        let Stand { handle, worker, sleeper, .. } = stand(false);
        let rig = start(worker, sleeper);
        // The second waits in the queue for the first.
        let losses = ["first", "second"].map(|name| {
            let caller = Caller { id: Name::new(name), ..caller() };
            let mut ticket = handle.run(&caller, Box::new(Endless(false))).expect("room");
            ticket.release();
            let other = handle.clone();
            (ticket, thread::spawn(move || other.client_lost(&caller.id)))
        });
        for (ticket, loss) in losses {
            assert_eq!(ended(ticket), Code::Cancelled);
            loss.join().expect("told");
        }
        // Another, of whom the rig thread has nothing: that is seen to all the same.
        handle.client_lost(&Name::new("third"));
        while !handle.shared.lost.lock().is_empty() {
            thread::yield_now();
        }
        finish(&handle, rig);
    });
}

#[test]
fn it_ends_when_nobody_is_left_to_give_orders() {
    always(|| {
        let Stand { handle, worker, sleeper, .. } = stand(false);
        let rig = start(worker, sleeper);
        let other = handle.clone();
        let leaves = thread::spawn(move || drop(other));
        drop(handle);
        leaves.join().expect("gone");
        rig.join().expect("the rig thread");
    });
}

#[test]
fn the_beat_never_says_asleep_while_a_driver_is_called() {
    always(|| {
        let Stand { handle, worker, sleeper, seen } = stand(false);
        let rig = start(worker, sleeper);
        let other = handle.clone();
        let watcher = thread::spawn(move || {
            for _ in 0..20 {
                let before = seen.tick.load(Ordering::SeqCst);
                let beat = other.shared.pulse.read();
                let after = seen.tick.load(Ordering::SeqCst);
                assert!(before == 0 || before != after || beat % 2 == 1, "asleep in tick {before}");
            }
        });
        handle.stop(None, StopBy::Model);
        watcher.join().expect("the watcher");
        finish(&handle, rig);
    });
}
