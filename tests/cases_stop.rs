//! Public bug reports about stopping, cancelling and waiting one's turn as small inputs: each test is named after its
//! case in `cases.toml`.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hw_sim::{Bench, Fault};
use parking_lot::Mutex;
use steadyhand::actor::{self, RigHandle, Ticket};
use steadyhand::config::Rig;
use steadyhand::devices::{self, link::memory::Far};
use steadyhand::model::{
    Activity, Caller, CameraChange, Code, Epoch, Home, JobId, JobState, Moved, Name, Report, RigError, Shot, Snapshot,
    StopBy, Trust, Way,
};
use steadyhand::plans::{Next, Plan, Sequence, Step};
use steadyhand::store::PersonStop;
use support::scripted::{Scripted, is_real_time};
use support::{Lab, Log, answer_of, rig, stage_only};

/// 40, 25, 2 mm in the rig's coordinates.
const HERE: [f64; 3] = [-35.0, -25.0, -2.0];

/// Room for a reaction on virtual time: a byte on the line and two looks at it.
const AT_ONCE: Duration = Duration::from_millis(5);

/// Begins a move and waits until the carriage is really under way.
fn moving(lab: &mut Lab, targets: &[(&str, f64)]) -> Ticket<Report> {
    let movement = lab.to(targets);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    ticket
}

fn stands(lab: &Lab) -> bool {
    ["x", "y", "z"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0)
}

/// Whether that line begins a motion.
fn moves(line: &str) -> bool {
    ["$J", "$H", "G0", "G1", "G53", "G90"].iter().any(|m| line.starts_with(m))
}

fn old_homed() -> Lab {
    let mut lab = Lab::old();
    lab.home().unwrap();
    lab
}

#[test]
fn q01_a_stop_waits_for_no_move_no_queue_and_no_other_caller() {
    for (mut lab, stop) in [(Lab::homed(1), 0x85), (old_homed(), b'!')] {
        let ticket = moving(&mut lab, &[("x", 2.0)]);
        lab.run_ms(500);
        // Three others give orders until there is no room, in the queue and before it.
        let mut waiting = Vec::new();
        for round in 0..3 {
            lab.caller = Caller { id: Name::new(&format!("caller-{round}")), ..lab.caller.clone() };
            for _ in 0..200 {
                let to = lab.to(&[("x", 60.0)]);
                match lab.begin_move(to) {
                    Ok(ticket) => waiting.push(ticket),
                    Err(e) => {
                        assert_eq!((e.code, e.moved), (Code::Busy, Moved::No));
                        break;
                    }
                }
            }
            lab.run_ms(1);
        }
        assert!(waiting.len() >= 64, "{}", waiting.len());
        let asked = lab.now();
        lab.stop();
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
        assert!(lab.heard_at(asked, stop).unwrap() - asked < AT_ONCE);
        for ticket in waiting {
            let e = lab.answer(ticket).unwrap_err();
            assert!(matches!(e.code, Code::Stopped | Code::Busy) && e.moved == Moved::No, "{e}");
        }
        lab.run_ms(5000);
        assert!(stands(&lab) && !lab.lines_since(asked).iter().any(|l| moves(l)), "what waited was begun");
    }
}

#[test]
fn q12_a_stop_or_a_cancel_causes_no_motion() {
    for (by_stop, between_steps) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut lab = Lab::homed(1);
        let since = lab.now();
        let moves_of_it = (0..10).map(|i| lab.to(&[("x", 70.0 - 2.0 * f64::from(i))])).collect();
        let ticket = lab.start(Sequence::movements("scan".into(), moves_of_it)).unwrap();
        lab.until("the fifth step", Duration::from_secs(60), |l| l.lines_since(since).len() == 5);
        lab.run_ms(60);
        if between_steps {
            let judged = |l: &mut Lab| l.scope().activity == Activity::Idle;
            lab.until("the sixth is being judged", Duration::from_secs(5), judged);
        }
        let asked = lab.now();
        if by_stop {
            lab.stop();
        } else {
            let cancelled = lab.handle.cancel(&lab.caller, ticket.job().unwrap()).unwrap();
            lab.answer(cancelled).unwrap();
        }
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!(e.code, if by_stop { Code::Stopped } else { Code::Cancelled });
        let rest = lab.truly("x");
        lab.run_ms(10_000);
        assert!(!lab.lines_since(asked).iter().any(|l| moves(l)), "{:?}", lab.lines_since(asked));
        assert!((lab.truly("x") - rest).abs() < 0.3 && rest > 50.0, "{rest}");
    }
    // Nor does it bring the second half of a move that takes up backlash.
    let text =
        support::DEMO.replacen("tolerance = 0.02\n", "tolerance = 0.02\napproach = \"+\"\napproach_by = 0.5\n", 1);
    let mut lab = Lab::new(&text, Bench::microscope(1));
    lab.home().unwrap();
    let ticket = moving(&mut lab, &[("x", 30.0)]);
    let asked = lab.now();
    drop(ticket);
    lab.run_ms(10_000);
    assert!(stands(&lab) && !lab.lines_since(asked).iter().any(|l| moves(l)));
}

/// Numbers from a seed.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 16
}

#[test]
fn q15_after_a_stop_at_any_moment_the_next_move_runs() {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 40.0), ("y", 25.0)]).unwrap();
    for round in 0..100 {
        let to = if round % 2 == 0 { 30.0 } else { 50.0 };
        let movement = lab.to(&[("x", to)]);
        let ticket = lab.begin_move(movement).unwrap();
        lab.run(Duration::from_micros(next(&mut seed) % 1_400_000));
        // By a stop, by a cancel, by the caller's going.
        match round % 3 {
            0 => {
                lab.stop();
                let _ = lab.answer(ticket);
                let e = lab.move_to(&[("x", 41.0)]).unwrap_err();
                assert_eq!((e.code, e.moved), (Code::Stopped, Moved::No), "round {round}: refused with its reason");
                // While its standstill is still to be proved it says so.
                let asked = lab.now();
                while let Err(e) = lab.recover("scope") {
                    assert!(e.code == Code::Busy && lab.now() - asked < Duration::from_secs(2), "round {round}: {e}");
                    lab.run_ms(50);
                }
            }
            1 => {
                let cancelled = lab.handle.cancel(&lab.caller, ticket.job().unwrap()).unwrap();
                // One that had ended just then is not found.
                let _ = lab.answer(cancelled);
                let _ = lab.answer(ticket);
            }
            _ => drop(ticket),
        }
        let report = lab.move_to(&[("x", 40.0)]).unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert_eq!(report.stages[0].activity, Activity::Idle);
        assert!((lab.truly("x") - 40.0).abs() < 0.03, "round {round}: {}", lab.truly("x"));
    }
}

/// The same call after it was given up at each moment of its way.
fn given_up_at_each_moment<T>(
    mut lab: Lab,
    mut begin: impl FnMut(&mut Lab) -> Result<Ticket<T>, RigError>,
    step: Duration,
    steps: u32,
) {
    for i in 0..steps {
        let ticket = begin(&mut lab).unwrap();
        lab.run(step * i);
        drop(ticket);
        let again = begin(&mut lab).unwrap();
        if let Err(e) = lab.answer(again) {
            panic!("after it was given up at {:?}: {e}", step * i);
        }
    }
}

#[test]
fn r11_a_call_that_is_given_up_at_any_moment_leaves_no_mark_that_refuses_the_next() {
    let us = Duration::from_micros;
    let mut turn = 0;
    let back_and_forth = |lab: &mut Lab| {
        turn += 1;
        let to = lab.to(&[("x", if turn % 2 == 0 { 60.0 } else { 61.0 })]);
        lab.begin_move(to)
    };
    given_up_at_each_moment(Lab::homed(1), back_and_forth, us(1500), 120);
    let shoot = |lab: &mut Lab| {
        let shot = Shot { camera: Name::new("cam"), change: CameraChange { gain: Some(2.0), ..Default::default() } };
        let plan = Sequence::picture("picture".into(), &lab.handle.rig().clone(), vec![], shot);
        lab.start(plan)
    };
    given_up_at_each_moment(Lab::homed(1), shoot, us(1500), 60);
    let set = |lab: &mut Lab| {
        let change = CameraChange { exposure_ms: Some(12.0), ..Default::default() };
        lab.handle.set_camera(&lab.caller, &Name::new("cam"), change)
    };
    given_up_at_each_moment(Lab::homed(1), set, us(250), 40);
    for i in 0..40 {
        let mut locked = Lab::demo(1);
        locked.online();
        let ticket = locked.handle.recover(&locked.caller, &Name::new("scope")).unwrap();
        locked.run(us(500) * i);
        drop(ticket);
        locked.recover("scope").unwrap_or_else(|e| panic!("after it was given up at {:?}: {e}", us(500) * i));
    }
    // A homing that is given up is stopped by a reset, which locks the controller: homing again unlocks it.
    let mut lab = Lab::demo(1);
    lab.online();
    for i in 0..12 {
        let home = Home { stage: Name::new("scope"), axes: vec![] };
        let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
        lab.run_ms(i * 250);
        drop(ticket);
        lab.run_ms(2000);
        lab.recover("scope").unwrap_or_else(|e| panic!("{i}: {e}"));
        lab.home().unwrap_or_else(|e| panic!("{i}: {e}"));
    }
}

#[test]
fn q21_while_an_answer_is_awaited_nothing_else_is_written_but_a_stop_and_a_late_one_is_nobodys() {
    for late in [1500, 1900, 3000] {
        let mut s = Scripted::homed(&stage_only(), HERE);
        s.once_after("$J", late, "ok\r\n");
        let since = s.now();
        let ticket = s.moving(&[("x", 41.0)]);
        s.run_ms(100);
        drop(ticket);
        s.on("$J", "error:8\r\n");
        s.run_ms(20);
        assert!(s.heard_since(since, [0x85]).is_some(), "its motion is stopped, as its caller is gone");
        let mut others = [s.begin_move(&[("x", 42.0)]), s.begin_move(&[("x", 43.0)])];
        s.run_ms(500);
        let asked = s.now();
        s.stop();
        s.until("the stop is written", 100, |s| s.heard_since(asked, [0x85]).is_some());
        s.run_ms(4000);
        for other in &mut others {
            let e = answer_of(other).expect("answered").unwrap_err();
            assert!(matches!(e.code, Code::Stopped | Code::Busy) && e.moved == Moved::No, "{late}: {e}");
        }
        s.recover().unwrap();
        let e = s.move_to(&[("x", 42.0)]).unwrap_err();
        assert_eq!(e.code, Code::ControllerRefused, "{late}: the late ok is not its own: {e}");
        // Line after line, each whole: no two were in flight at once.
        let heard: Vec<&(Duration, Vec<u8>)> = s.heard.iter().filter(|(t, _)| *t >= since).collect();
        let lines: Vec<String> = heard
            .iter()
            .filter(|(_, h)| !h.iter().all(|b| is_real_time(*b)))
            .map(|(_, h)| String::from_utf8(h.clone()).unwrap())
            .collect();
        assert!(lines.iter().all(|l| ["@", "$G"].contains(&l.as_str()) || l.starts_with("$J=G53G90G21X")), "{lines:?}");
        let jogs: Vec<Duration> = heard.iter().filter(|(_, h)| h.starts_with(b"$J")).map(|(t, _)| *t).collect();
        let free = Duration::from_millis(late.min(2000));
        assert!(jogs.len() == 2 && jogs[1] - jogs[0] >= free, "{late}: {jogs:?}");
    }
}

/// What each job of a schedule did, and in which turn.
type Steps = Arc<Mutex<BTreeMap<usize, Vec<u64>>>>;

/// A plan that only waits, on devices of which nobody needs to know more than the names.
struct Waits {
    number: usize,
    uses: Vec<Name>,
    left: u64,
    turn: Arc<AtomicU64>,
    steps: Steps,
}

impl Plan for Waits {
    fn title(&self) -> String {
        format!("wait {}", self.number)
    }

    fn uses(&self) -> Vec<Name> {
        self.uses.clone()
    }

    fn next(&mut self, _: &Rig, _: &Snapshot) -> Next {
        self.steps.lock().entry(self.number).or_default().push(self.turn.load(Ordering::Relaxed));
        if self.left == 0 {
            return Next::Done;
        }
        self.left -= 1;
        Next::Step(Step::Settle(Duration::from_micros(700)))
    }
}

#[test]
fn q22_no_job_is_forgotten_none_runs_after_its_cancel_and_each_device_keeps_its_order() {
    let mut s = Scripted::homed(&stage_only(), HERE);
    let caller = Caller { id: Name::new("test"), client: "test".into(), way: Way::Stdio };
    let turn = Arc::new(AtomicU64::new(0));
    for schedule in 1..=3000_u64 {
        let mut seed = schedule.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let steps = Steps::default();
        let mut jobs: Vec<(JobId, Vec<Name>, Option<Ticket<Report>>)> = Vec::new();
        // Which were taken back, and in which turn.
        let mut back: BTreeMap<usize, u64> = BTreeMap::new();
        let mut cancels = Vec::new();
        for _ in 0..12 {
            match next(&mut seed) % 6 {
                0..=2 => {
                    let which = next(&mut seed) % 3;
                    let uses = [&["a"][..], &["b"], &["a", "b"]][which as usize].iter().map(|n| Name::new(n)).collect();
                    let left = next(&mut seed) % 3;
                    let (number, turn, steps) = (jobs.len(), turn.clone(), steps.clone());
                    let plan = Waits { number, uses, left, turn, steps };
                    let uses = plan.uses();
                    let ticket = s.handle.run(&caller, Box::new(plan)).unwrap();
                    jobs.push((ticket.job().unwrap(), uses, Some(ticket)));
                }
                3 if !jobs.is_empty() => {
                    let i = next(&mut seed) as usize % jobs.len();
                    cancels.push(s.handle.cancel(&caller, jobs[i].0).unwrap());
                    back.entry(i).or_insert(turn.load(Ordering::Relaxed));
                }
                4 if !jobs.is_empty() => {
                    let i = next(&mut seed) as usize % jobs.len();
                    if let Some(ticket) = jobs[i].2.take() {
                        drop(ticket);
                        back.entry(i).or_insert(turn.load(Ordering::Relaxed));
                    }
                }
                _ => {
                    for _ in 0..next(&mut seed) % 4 {
                        turn.fetch_add(1, Ordering::Relaxed);
                        let until = s.now() + Duration::from_micros(600);
                        s.turn(until);
                    }
                }
            }
        }
        for _ in 0..100 {
            turn.fetch_add(1, Ordering::Relaxed);
            let until = s.now() + Duration::from_micros(800);
            s.turn(until);
        }
        let steps = steps.lock();
        for (i, (id, _, ticket)) in jobs.iter_mut().enumerate() {
            let answer = ticket.as_mut().map(|t| answer_of(t).unwrap_or_else(|| panic!("{schedule}: {id} hangs")));
            let taken_back = back.get(&i);
            if taken_back.is_none() {
                assert!(answer.is_some_and(|a| a.is_ok()), "{schedule}: {id} ended otherwise");
            }
            let running = s.handle.snapshot().job(*id).is_some_and(|j| j.state == JobState::Running);
            assert!(!running, "{schedule}: {id} runs on");
            if let (Some(turns), Some(back)) = (steps.get(&i), taken_back) {
                let begun = turns[0] <= *back;
                let last = *turns.last().unwrap();
                assert!(begun, "{schedule}: {id} was taken back in turn {back} and entered in {}", turns[0]);
                assert!(last <= back + 1, "{schedule}: {id} was taken back in turn {back} and went on in {last}");
            }
        }
        for cancel in &mut cancels {
            assert!(answer_of(cancel).is_some(), "{schedule}: a cancel hangs");
        }
        for (i, (_, uses, _)) in jobs.iter().enumerate() {
            for (j, (_, others, _)) in jobs.iter().enumerate().skip(i + 1) {
                if let (Some(first), Some(second)) = (steps.get(&i), steps.get(&j))
                    && uses.iter().any(|n| others.contains(n))
                {
                    assert!(first.last() <= second.first(), "{schedule}: job {j} overtook job {i} on its device");
                }
            }
        }
    }
}

/// Somebody else clears the stop as soon as that can be done.
#[test]
fn q12_what_waited_when_a_stop_came_never_begins_however_soon_the_stop_is_released() {
    let mut lab = Lab::homed(1);
    let first = moving(&mut lab, &[("x", 2.0)]);
    let next = lab.to(&[("x", 60.0)]);
    let mut next = lab.begin_move(next).unwrap();
    lab.run_ms(20);
    lab.stop();
    let mut released = false;
    for _ in 0..3000 {
        let mut ticket = lab.handle.recover(&lab.caller, &Name::new("scope")).unwrap();
        let until = lab.now() + Duration::from_millis(2);
        lab.turn(until);
        released |= answer_of(&mut ticket).is_some_and(|a| a.is_ok());
    }
    assert!(released);
    assert_eq!(lab.answer(first).unwrap_err().code, Code::Stopped);
    let e = answer_of(&mut next).expect("an answer").unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stopped, Moved::No));
    assert!(stands(&lab) && lab.truly("x") > 65.0, "{}", lab.truly("x"));
}

/// Rests for a second, and then moves.
struct Later(Vec<Step>);

impl Plan for Later {
    fn title(&self) -> String {
        "later".into()
    }

    fn uses(&self) -> Vec<Name> {
        vec![Name::new("scope")]
    }

    fn next(&mut self, _: &Rig, _: &Snapshot) -> Next {
        self.0.pop().map_or(Next::Done, Next::Step)
    }
}

/// What rests when the stop comes has nothing that the stop could end, and the stop is over when it goes on.
#[test]
fn q12_a_job_that_rests_when_a_stop_comes_never_goes_on_however_soon_the_stop_is_released() {
    for stage in [None, Some(Name::new("scope"))] {
        let mut lab = Lab::homed(1);
        let from = lab.truly("x");
        let then = Step::Move(lab.to(&[("x", 30.0)]));
        let plan = Later(vec![then, Step::Settle(Duration::from_secs(1))]);
        let mut job = lab.handle.run(&lab.caller, Box::new(plan)).unwrap();
        lab.run_ms(300);
        let asked = lab.now();
        lab.handle.stop(stage.as_ref(), StopBy::Model);
        lab.run_ms(100);
        let e = answer_of(&mut job).expect("an answer at once").unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Stopped, Moved::No));
        lab.recover("scope").unwrap();
        lab.run_ms(5000);
        assert!(!lab.lines_since(asked).iter().any(|l| moves(l)), "{:?}", lab.lines_since(asked));
        assert_eq!(lab.truly("x"), from);
    }
}

#[test]
fn q22_a_cancel_is_not_held_up_by_a_full_queue() {
    let mut lab = Lab::homed(1);
    let running = moving(&mut lab, &[("x", 2.0)]);
    let mut waiting = Vec::new();
    for _ in 0..3 {
        for _ in 0..31 {
            let to = lab.to(&[("x", 60.0)]);
            waiting.push(lab.begin_move(to).unwrap());
        }
        lab.run_ms(1);
    }
    let asked = lab.now();
    // One that waits, then the one that runs.
    let queued = lab.handle.cancel(&lab.caller, waiting[3].job().unwrap()).unwrap();
    lab.answer(queued).unwrap();
    let e = answer_of(&mut waiting[3]).expect("answered").unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Cancelled, Moved::No));
    let cancelled = lab.handle.cancel(&lab.caller, running.job().unwrap()).unwrap();
    lab.answer(cancelled).unwrap();
    assert!(lab.heard_at(asked, 0x85).unwrap() - asked < AT_ONCE * 2);
    assert_eq!(lab.answer(running).unwrap_err().code, Code::Cancelled);
}

#[test]
fn q23_each_kind_of_motion_is_stopped_by_its_own_bytes_and_rests_within_its_bound() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Kind {
        Absolute,
        Relative,
        Home,
    }
    // The byte that GRBL's manual names for it, and what is left of the reference.
    type Row = (fn() -> Lab, Kind, u8, Trust);
    let table: [Row; 6] = [
        (|| Lab::homed(1), Kind::Absolute, 0x85, Trust::Referenced),
        (|| Lab::homed(1), Kind::Relative, 0x85, Trust::Referenced),
        (|| Lab::homed(1), Kind::Home, 0x18, Trust::Unknown),
        (old_homed, Kind::Absolute, b'!', Trust::Unknown),
        (old_homed, Kind::Relative, b'!', Trust::Unknown),
        (old_homed, Kind::Home, 0x18, Trust::Unknown),
    ];
    for (make, kind, byte, trust) in table {
        let mut lab = make();
        let settings = lab.bench.settings("scope");
        let slowing: f64 = settings.iter().find(|(n, _)| *n == 120).unwrap().1.parse().unwrap();
        lab.move_to(&[("x", 60.0), ("y", 30.0)]).unwrap();
        let since = lab.now();
        let ticket = match kind {
            Kind::Absolute => {
                let movement = lab.to(&[("x", 20.0)]);
                lab.begin_move(movement).unwrap()
            }
            Kind::Relative => {
                let movement = lab.by(&[("x", -40.0)], lab.scope().epoch);
                lab.begin_move(movement).unwrap()
            }
            Kind::Home => {
                let home = Home { stage: Name::new("scope"), axes: vec![] };
                lab.start(Sequence::home("home".into(), home)).unwrap()
            }
        };
        let half = |l: &mut Lab| match kind {
            Kind::Home => l.bench.speed_mm_per_s("scope", "x").abs() > 1.0,
            _ => l.truly("x") < 40.0,
        };
        lab.until("half its way", Duration::from_secs(30), half);
        let (asked, there, speed) = (lab.now(), lab.truly("x"), lab.bench.speed_mm_per_s("scope", "x").abs());
        // What braking takes, and the way until then: GRBL has 50 ms planned ahead.
        let coast = speed * speed / (2.0 * slowing) + speed * 0.08;
        lab.stop();
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes), "{kind:?}");
        assert!(stands(&lab), "{kind:?}: it was told to rest while it moved");
        let said: Vec<u8> = lab.heard_since(asked).into_iter().filter(|b| is_real_time(*b) && *b != b'?').collect();
        assert_eq!(said.first(), Some(&byte), "{kind:?}: {said:x?}");
        assert!(lab.heard_at(asked, byte).unwrap() - asked < AT_ONCE, "{kind:?}");
        assert!((lab.truly("x") - there).abs() < coast, "{kind:?}: it went on from {there} to {}", lab.truly("x"));
        assert_eq!(lab.scope().axis("x").unwrap().trust, trust, "{kind:?}");
        let rest = lab.truly("x");
        lab.run_ms(5000);
        assert!((lab.truly("x") - rest).abs() < 0.01 && lab.now() > since, "{kind:?}");
    }
}

#[test]
fn x05_a_call_that_is_taken_back_has_its_stop_on_the_wire_at_once() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 2.0)]);
    let asked = lab.now();
    drop(ticket);
    lab.run_ms(1000);
    assert!(lab.heard_at(asked, 0x85).unwrap() - asked < AT_ONCE && stands(&lab));
    assert_eq!(lab.scope().axis("x").unwrap().trust, Trust::Referenced);
    let home = Home { stage: Name::new("scope"), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.run_ms(1500);
    let asked = lab.now();
    drop(ticket);
    lab.run_ms(1000);
    assert!(lab.heard_at(asked, 0x18).unwrap() - asked < AT_ONCE && stands(&lab));
    // An exposure ends too, so that the next does not wait for it.
    let mut lab = Lab::homed(1);
    let change = CameraChange { exposure_ms: Some(5000.0), ..Default::default() };
    let shot = Shot { camera: Name::new("cam"), change };
    let plan = Sequence::picture("picture".into(), &lab.handle.rig().clone(), vec![], shot);
    let ticket = lab.start(plan).unwrap();
    lab.until("it exposes", Duration::from_secs(2), |l| l.bench.state("cam") == "exposing");
    drop(ticket);
    lab.run_ms(50);
    assert_eq!(lab.bench.state("cam"), "idle");
}

#[test]
fn e18_a_command_whose_time_has_passed_is_never_sent_and_is_told_and_logged() {
    let text = stage_only().replacen("[[keep_out]]", "[calls]\nqueue_deadline_s = 0.5\n\n[[keep_out]]", 1);
    let mut lab = Lab::new(&text, Bench::microscope(1));
    lab.home().unwrap();
    let first = moving(&mut lab, &[("x", 30.0)]);
    let (since, to) = (lab.now(), lab.to(&[("x", 60.0)]));
    let mut late = lab.begin_move(to).unwrap();
    lab.run_ms(600);
    let e = answer_of(&mut late).expect("told when its time has passed").unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Expired, Moved::No));
    lab.answer(first).unwrap();
    lab.run_ms(3000);
    assert_eq!(lab.lines_since(since), [] as [String; 0], "it was sent after all");
    assert!((lab.truly("x") - 30.0).abs() < 0.02);
    let logged = lab.log.events.lock().iter().filter(|e| e.kind == "dropped" && e.what.contains("too long")).count();
    assert_eq!(logged, 1);
}

/// A bench behind two links, in real time.
struct Real {
    bench: Bench,
    cables: Vec<(&'static str, Far)>,
    start: Instant,
}

impl Real {
    fn pump_for(&mut self, ms: u64) {
        self.pump_until(ms, |_| false);
    }

    fn pump_until(&mut self, ms: u64, mut holds: impl FnMut(&mut Real) -> bool) -> bool {
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until {
            self.bench.advance(self.start.elapsed());
            for (device, far) in &self.cables {
                let bytes = far.take();
                self.bench.write(device, &bytes);
                far.give(&self.bench.read(device));
            }
            if holds(self) {
                return true;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        false
    }
}

#[test]
fn q26_the_rig_thread_ends_within_its_bound_whatever_it_is_doing() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Doing {
        NoPort,
        TakenPort,
        Identifying,
        Resting,
        Homing,
        FullLine,
        Silence,
    }
    use Doing::{FullLine, Homing, Identifying, NoPort, Resting, Silence, TakenPort};
    let caller = Caller { id: Name::new("test"), client: "test".into(), way: Way::Stdio };
    let one = |doing: Doing, orderly: bool| {
        let rig = rig(&stage_only());
        let far = Far::default();
        far.plug(doing != NoPort);
        far.take_away((doing == TakenPort).then_some("another program"));
        let devices = devices::make(&rig, &mut |_| far.connector("memory")).expect("devices");
        let (handle, thread) =
            actor::spawn(&rig, devices, Box::new(Log::default()), PersonStop::in_memory(), Epoch(1)).expect("a thread");
        let mut real =
            Real { bench: Bench::microscope(1), cables: vec![("scope", far.clone())], start: Instant::now() };
        let online = |h: &RigHandle| h.snapshot().stages[0].read_at.is_some();
        let mut homing = None;
        match doing {
            NoPort | TakenPort => real.pump_for(700),
            Identifying => {
                assert!(real.pump_until(10_000, |_| far.opened() > 0));
            }
            _ => assert!(real.pump_until(20_000, |_| online(&handle)), "{doing:?}"),
        }
        if matches!(doing, Homing | FullLine | Silence) {
            let home = Sequence::home("home".into(), Home { stage: Name::new("scope"), axes: vec![] });
            homing = Some(handle.run(&caller, Box::new(home)).unwrap());
            let runs = |r: &mut Real| r.bench.speed_mm_per_s("scope", "z").abs() > 0.1;
            assert!(real.pump_until(20_000, runs), "{doing:?}");
        }
        match doing {
            FullLine => far.bound(Some(0)),
            Silence => real.bench.fault("scope", Fault::Silence { on: true }).unwrap(),
            _ => {}
        }
        let began = Instant::now();
        let mut ticket = None;
        if orderly {
            handle.stop(None, StopBy::Program);
            ticket = Some(handle.shutdown(&caller).unwrap());
        }
        drop((homing, handle));
        let ended = real.pump_until(8_000, |_| thread.is_finished());
        assert!(ended, "{doing:?}, orderly {orderly}: the thread is still there after {:?}", began.elapsed());
        thread.join().expect("no panic");
        if let Some(mut ticket) = ticket {
            let still = answer_of(&mut ticket).expect("answered");
            // What nobody has seen at rest is not told as resting.
            assert_eq!(still.is_ok(), !matches!(doing, FullLine | Silence), "{doing:?}: {still:?}");
        }
        if matches!(doing, Homing) {
            real.pump_for(100);
            assert_eq!(real.bench.speed_mm_per_s("scope", "z"), 0.0);
        }
    };
    let one = &one;
    std::thread::scope(|s| {
        for doing in [NoPort, TakenPort, Identifying, Resting, Homing, FullLine, Silence] {
            for orderly in [true, false] {
                s.spawn(move || one(doing, orderly));
            }
        }
    });
}
