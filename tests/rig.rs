//! The rig thread on the simulated bench, on virtual time: homing, moves, refusals, stops, losses.

mod support;

use std::time::Duration;

use hw_sim::Fault;
use steadyhand::actor::Ticket;
use steadyhand::model::Report;
use steadyhand::model::{Activity, Code, Moved, Trust};
use support::scripted::Scripted;
use support::{Lab, answer_of, stage_only};

/// Where a scripted controller stands, as it counts: 40, 25, 2 mm in the rig's coordinates.
const HERE: [f64; 3] = [-35.0, -25.0, -2.0];

/// Begins a move and waits until the carriage is really under way.
fn moving(lab: &mut Lab, targets: &[(&str, f64)]) -> Ticket<Report> {
    let movement = lab.to(targets);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    ticket
}

#[test]
fn a_stage_is_identified_homed_and_moved_and_the_carriage_is_really_there() {
    let mut lab = Lab::demo(1);
    lab.online();
    let scope = lab.scope();
    assert_eq!(scope.activity, Activity::Idle);
    assert!(scope.axes.iter().all(|a| a.trust == Trust::Unknown));
    assert!(scope.identity.unwrap().firmware.contains("1.1h"));

    let refused = lab.move_to(&[("x", 40.0)]).unwrap_err();
    assert_eq!((refused.code, refused.moved), (Code::NotReferenced, Moved::No));

    let report = lab.home().unwrap();
    assert_eq!(report.moved, Moved::Yes);
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Referenced));

    let report = lab.move_to(&[("x", 40.0), ("y", 20.0)]).unwrap();
    assert_eq!(report.moved, Moved::Yes);
    assert!((lab.reads("x") - 40.0).abs() < 0.02 && (lab.reads("y") - 20.0).abs() < 0.02);
    assert!((lab.truly("x") - 40.0).abs() < 0.02, "{}", lab.truly("x"));
}

#[test]
fn a_target_outside_the_travel_is_refused_and_no_byte_of_a_move_goes_out() {
    let mut lab = Lab::homed(1);
    let since = lab.now();
    let e = lab.move_to(&[("x", 75.5)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::OutOfTravel, Moved::No));
    assert!(e.what.contains("75.5 mm") && e.what.contains("0 to 75 mm"), "{}", e.what);
    assert!(!lab.heard_since(since).contains(&b'J'));
}

#[test]
fn a_path_through_a_keep_out_is_refused_with_the_owners_reason() {
    let mut lab = Lab::homed(1);
    let e = lab.move_to(&[("z", 1000.0)]).unwrap_err();
    assert_eq!(e.code, Code::KeepOut);
    assert!(e.refusals[0].why.as_ref().unwrap().contains("incubator's frame"));
    // Both ends are outside; the way between them is not.
    lab.move_to(&[("x", 30.0), ("y", 4.0)]).unwrap();
    lab.move_to(&[("z", 3000.0)]).unwrap();
    lab.move_to(&[("x", 5.0), ("y", 30.0)]).unwrap();
    let e = lab.move_to(&[("x", 30.0), ("y", 0.0)]);
    assert!(e.is_ok() || e.unwrap_err().code == Code::KeepOut);
}

#[test]
fn a_relative_move_is_only_good_for_the_state_it_was_decided_on() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 30.0)]).unwrap();
    let epoch = lab.scope().epoch;
    let first = lab.by(&[("x", 1.0)], epoch);
    let ticket_a = lab.begin_move(first.clone()).unwrap();
    let ticket_b = lab.begin_move(first).unwrap();
    assert_eq!(lab.answer(ticket_a).unwrap().moved, Moved::Yes);
    let e = lab.answer(ticket_b).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::MovedOn, Moved::No));
    assert!((lab.truly("x") - 31.0).abs() < 0.02, "it moved once: {}", lab.truly("x"));
}

#[test]
fn a_stop_reaches_the_wire_in_the_pass_in_which_it_is_seen_and_standstill_is_proved() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 10.0), ("y", 30.0)]);
    let asked = lab.now();
    lab.stop();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
    let heard = lab.heard_at(asked, 0x85).expect("a jog cancel");
    assert!(heard - asked < Duration::from_millis(5), "{:?}", heard - asked);
    lab.run_ms(500);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
    // Latched, and the position is still known.
    assert_eq!(lab.move_to(&[("x", 50.0)]).unwrap_err().code, Code::Stopped);
    lab.recover("scope").unwrap();
    assert_eq!(lab.scope().axis("x").unwrap().trust, Trust::Referenced);
    lab.move_to(&[("x", 50.0)]).unwrap();
    assert!((lab.truly("x") - 50.0).abs() < 0.02);
}

#[test]
fn after_a_stop_one_report_of_rest_is_no_standstill() {
    let mut lab = Lab::homed(1);
    let mut ticket = moving(&mut lab, &[("x", 10.0), ("y", 30.0)]);
    let asked = lab.now();
    lab.stop();
    lab.until("it is asked where it is", Duration::from_secs(1), |l| l.heard_at(asked, b'?').is_some());
    // It says for once that it rests, as some do between the parts of a move. Its counters are 0 at the far ends.
    let [x, y, z] = [("x", 75.0), ("y", 50.0), ("z", 4.0)].map(|(axis, end)| lab.truly(axis) - end);
    lab.fault(Fault::Inject { bytes: format!("<Idle|MPos:{x:.3},{y:.3},{z:.3}|FS:0,0>\r\n").into_bytes() });
    let mut moved_on = false;
    let answer = loop {
        if let Some(answer) = answer_of(&mut ticket) {
            break answer;
        }
        moved_on |= lab.scope().activity == Activity::Stopping && lab.bench.speed_mm_per_s("scope", "x") != 0.0;
        let until = lab.now() + Duration::from_millis(1);
        lab.turn(until);
    };
    assert!(moved_on, "the report came before the carriage stood");
    assert_eq!(answer.unwrap_err().code, Code::Stopped);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0, "it stands when that is said");
    assert_eq!(lab.scope().activity, Activity::Idle);
}

#[test]
fn a_stop_in_the_same_moment_as_a_move_lets_nothing_start() {
    for delay in 0..60 {
        let mut lab = Lab::homed(1);
        lab.move_to(&[("x", 40.0)]).unwrap();
        let before = lab.truly("x");
        let movement = lab.to(&[("x", 20.0)]);
        let ticket = lab.begin_move(movement).unwrap();
        lab.run(Duration::from_micros(250 * delay));
        lab.stop();
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!(e.code, Code::Stopped, "after {delay} quarters of a millisecond");
        lab.run_ms(1000);
        assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
        let gone = (lab.truly("x") - before).abs();
        // The controller has planned 50 ms ahead when the cancel comes: it speeds up for so long, and slows down.
        assert!(gone < 0.51, "it went {gone} mm although it was stopped {delay} quarters of a ms after the order");
    }
}

#[test]
fn a_lost_caller_takes_its_motion_with_it() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 10.0)]);
    drop(ticket);
    lab.run_ms(1500);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
    assert!(lab.truly("x") > 30.0, "it did not go all the way: {}", lab.truly("x"));
    // Not latched: the next caller can go on.
    lab.move_to(&[("x", 50.0)]).unwrap();
}

#[test]
fn a_power_cycle_in_motion_is_noticed_by_its_banner_and_loses_the_trust() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 10.0)]);
    lab.fault(Fault::Reset);
    let e = lab.answer(ticket).unwrap_err();
    assert!(matches!(e.code, Code::ControllerReset | Code::NotResponding), "{e}");
    lab.run_ms(5000);
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    assert!(matches!(lab.move_to(&[("x", 20.0)]).unwrap_err().code, Code::Faulted | Code::NotReferenced));
    lab.recover("scope").unwrap();
    lab.home().unwrap();
    lab.move_to(&[("x", 20.0)]).unwrap();
}

#[test]
fn an_unplugged_cable_in_motion_leaves_it_open_whether_it_moved_and_comes_back_without_trust() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 10.0)]);
    lab.fault(Fault::Unplug);
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Unplugged, Moved::Unknown));
    assert_eq!(lab.scope().activity, Activity::Offline);
    assert_eq!(lab.move_to(&[("x", 20.0)]).unwrap_err().code, Code::NotConnected);
    lab.fault(Fault::Plug);
    lab.online();
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    assert!(lab.scope().link.reconnects == 1);
}

#[test]
fn a_silent_controller_is_told_and_a_stop_is_still_written() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 10.0)]);
    lab.fault(Fault::Silence { on: true });
    lab.run_ms(300);
    let asked = lab.now();
    lab.stop();
    lab.run_ms(50);
    let written = lab.bench.written("scope").iter().any(|(t, b)| *t >= asked && *b == 0x85);
    assert!(written, "the stop byte is written");
    let e = lab.answer(ticket).unwrap_err();
    assert!(matches!(e.code, Code::Stopped | Code::NotResponding | Code::StopNotConfirmed), "{e}");
    assert_ne!(e.moved, Moved::No);
}

#[test]
fn a_picture_is_taken_where_the_stage_stands_and_knows_it() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 37.0), ("y", 25.0)]).unwrap();
    let a = lab.shoot().unwrap().frames[0].clone();
    lab.move_to(&[("x", 38.0)]).unwrap();
    let b = lab.shoot().unwrap().frames[0].clone();
    assert_eq!(a.pixels.shape(), [768, 1024]);
    assert_ne!(a.pixels, b.pixels);
    assert_eq!(a.moved_during, Moved::No);
    assert!(a.simulated);
    let x = |f: &steadyhand::model::Frame| f.before[0].position.unwrap().in_base();
    assert!((x(&b) - x(&a) - 1.0).abs() < 0.02);
}

#[test]
fn homing_is_silent_and_can_be_stopped_by_a_reset() {
    let mut lab = Lab::demo(1);
    lab.online();
    let home = steadyhand::model::Home { stage: steadyhand::model::Name::new("scope"), axes: vec![] };
    let ticket = lab.start(steadyhand::plans::Sequence::home("home".into(), home)).unwrap();
    lab.run_ms(1500);
    assert_eq!(lab.scope().activity, Activity::Homing);
    let asked = lab.now();
    lab.stop();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::Stopped);
    assert!(lab.heard_at(asked, 0x18).unwrap() - asked < Duration::from_millis(100));
    lab.run_ms(3000);
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    lab.recover("scope").unwrap();
    lab.home().unwrap();
}

#[test]
fn without_an_audit_line_nothing_moves() {
    let mut lab = Lab::homed(1);
    lab.log.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    let since = lab.now();
    let e = lab.move_to(&[("x", 20.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::StorageFailed, Moved::No));
    assert!(!lab.heard_since(since).contains(&b'J'));
}

#[test]
fn an_old_controller_without_jogs_homes_moves_and_stops() {
    let mut lab = Lab::old();
    lab.online();
    assert_eq!(lab.scope().identity.unwrap().model, "Grbl");
    lab.home().unwrap();
    let since = lab.now();
    lab.move_to(&[("x", 40.0)]).unwrap();
    assert!((lab.truly("x") - 40.0).abs() < 0.02);
    assert!(!lab.heard_since(since).windows(3).any(|w| w == b"$J="), "it has no jogs");

    let ticket = moving(&mut lab, &[("x", 5.0), ("y", 30.0)]);
    let asked = lab.now();
    lab.stop();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
    assert!(lab.heard_at(asked, b'!').unwrap() - asked < Duration::from_millis(5));
    lab.run_ms(4000);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
    let rest = lab.truly("x");
    lab.recover("scope").unwrap();
    lab.run_ms(3000);
    assert!((lab.truly("x") - rest).abs() < 0.01, "what was planned is thrown away, not resumed");
}

#[test]
fn a_controller_that_is_found_moving_is_told_and_can_be_stopped() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 70.0)]).unwrap();
    let _ticket = moving(&mut lab, &[("x", 2.0)]);
    // The program is killed; the controller goes on.
    let Lab { bench, .. } = lab;
    let mut lab = Lab::new(support::DEMO, bench);
    lab.until("it is seen moving", Duration::from_secs(1), |l| {
        l.state().stage("scope").is_some_and(|s| s.activity == Activity::Moving)
    });
    lab.stop();
    lab.run_ms(200);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0, "at once, though it is not identified yet");
    lab.online();
    lab.run_ms(1000);
    assert_eq!(lab.scope().activity, Activity::Idle);
    assert!(lab.truly("x") > 10.0, "it was stopped on its way: {}", lab.truly("x"));
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
}

#[test]
fn a_controller_that_is_found_moving_and_left_alone_is_identified_when_it_rests() {
    let mut lab = Lab::homed(1);
    let _ticket = moving(&mut lab, &[("x", 30.0)]);
    let Lab { bench, .. } = lab;
    let mut lab = Lab::new(support::DEMO, bench);
    lab.online();
    assert_eq!(lab.scope().activity, Activity::Idle);
    assert!((lab.truly("x") - 30.0).abs() < 0.02);
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown), "nobody here knows how it was homed");
}

#[test]
fn a_homing_that_a_killed_program_left_behind_is_stopped_by_a_stop() {
    let mut lab = Lab::demo(1);
    lab.online();
    let home = steadyhand::model::Home { stage: steadyhand::model::Name::new("scope"), axes: vec![] };
    let _ticket = lab.start(steadyhand::plans::Sequence::home("home".into(), home)).unwrap();
    lab.until("it homes", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "z").abs() > 0.5);
    let Lab { bench, .. } = lab;
    let mut lab = Lab::new(support::DEMO, bench);
    lab.run_ms(100);
    lab.stop();
    lab.run_ms(500);
    for axis in ["x", "y", "z"] {
        assert_eq!(lab.bench.speed_mm_per_s("scope", axis), 0.0, "{axis}");
    }
    lab.online();
    lab.run_ms(1000);
    assert_eq!(lab.scope().activity, Activity::Idle, "and it is found at rest");
    lab.recover("scope").unwrap();
    lab.home().unwrap();
}

/// What shutting down says of the axes: `Ok` only when each was read at rest.
fn farewell(lab: &mut Lab) -> Result<(), steadyhand::model::RigError> {
    lab.handle.stop(None, steadyhand::model::StopBy::Program);
    let ticket = lab.handle.shutdown(&lab.caller).unwrap();
    lab.answer(ticket)
}

#[test]
fn a_move_whose_end_nobody_saw_when_the_program_ended_is_not_said_to_have_moved_nothing() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 2.0)]);
    lab.fault(Fault::Mute { on: true });
    let end = lab.handle.shutdown(&lab.caller).unwrap();
    assert_eq!(lab.answer(end).unwrap_err().code, Code::StopNotConfirmed);
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ShuttingDown, Moved::Unknown), "{e}");
}

#[test]
fn the_end_of_the_program_stops_what_moves_by_itself() {
    let mut lab = Lab::homed(1);
    let ticket = moving(&mut lab, &[("x", 2.0)]);
    let asked = lab.now();
    let end = lab.handle.shutdown(&lab.caller).unwrap();
    lab.run_ms(20);
    assert!(lab.heard_at(asked, 0x85).is_some(), "a jog cancel, at once");
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::ShuttingDown);
    lab.answer(end).expect("it was seen to stand");
    assert!(lab.bench.speed_mm_per_s("scope", "x") == 0.0 && lab.truly("x") > 50.0, "{}", lab.truly("x"));
}

#[test]
fn a_refusal_in_the_middle_of_homing_is_none_and_homing_is_stopped() {
    let mut lab = Lab::homed(1);
    let home = steadyhand::model::Home { stage: steadyhand::model::Name::new("scope"), axes: vec![] };
    let ticket = lab.start(steadyhand::plans::Sequence::home("home".into(), home)).unwrap();
    lab.run_ms(900);
    assert_ne!(["x", "y", "z"].map(|a| lab.bench.speed_mm_per_s("scope", a)), [0.0; 3], "it homes");
    lab.fault(Fault::Inject { bytes: b"error:7\r\n".to_vec() });
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::ControllerRefused, "{e}");
    assert_ne!(e.moved, Moved::No, "{e}");
    assert_eq!(["x", "y", "z"].map(|a| lab.bench.speed_mm_per_s("scope", a)), [0.0; 3], "it stands when that is said");
}

#[test]
fn a_picture_is_not_taken_where_the_stage_has_gone_since_it_arrived() {
    let rig = support::DEMO.replacen("settle_ms = 30", "settle_ms = 900", 1);
    let picture = |lab: &mut Lab| {
        let movement = lab.to(&[("z", 2000.0)]);
        let shot = steadyhand::model::Shot { camera: steadyhand::model::Name::new("cam"), change: Default::default() };
        let rig = lab.handle.rig().clone();
        let plan = steadyhand::plans::Sequence::picture("picture".into(), &rig, vec![movement], shot);
        let ticket = lab.start(plan).unwrap();
        lab.until("it settles", Duration::from_secs(8), |l| {
            l.state().jobs.iter().any(|j| j.doing.starts_with("settling"))
        });
        ticket
    };
    let homed = || {
        let mut lab = Lab::new(&rig, hw_sim::Bench::microscope(1));
        lab.online();
        lab.home().unwrap();
        lab
    };
    // Another program sends it on.
    let mut lab = homed();
    let ticket = picture(&mut lab);
    lab.bench.write("scope", b"$J=G91X-1F1200\n");
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::MovedOn, Moved::Yes), "{e}");
    // Its controller restarts.
    let mut lab = homed();
    let ticket = picture(&mut lab);
    lab.fault(Fault::Reset);
    lab.run_ms(300);
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Faulted, Moved::Yes), "{e}");
}

#[test]
fn the_end_of_the_program_claims_no_standstill_that_it_has_not_seen() {
    let mut lab = Lab::homed(1);
    assert!(farewell(&mut lab).is_ok());

    for fault in [Fault::Unplug, Fault::Silence { on: true }] {
        let mut lab = Lab::homed(1);
        let ticket = moving(&mut lab, &[("x", 2.0)]);
        lab.fault(fault.clone());
        lab.run_ms(100);
        drop(ticket);
        assert_eq!(farewell(&mut lab).unwrap_err().code, Code::StopNotConfirmed, "{fault:?}");
    }

    let mut lab = Lab::homed(1);
    let _ticket = moving(&mut lab, &[("x", 2.0)]);
    assert!(farewell(&mut lab).is_ok(), "a stop that is seen to work is told as such");
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
}

#[test]
fn a_line_whose_end_was_lost_does_not_swallow_the_next_nor_cost_the_reference() {
    let mut lab = Lab::homed(1);
    let movement = lab.to(&[("x", 60.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("the line is on its way", Duration::from_secs(1), |l| {
        l.bench.written("scope").iter().rev().take(40).any(|(_, b)| *b == b'J')
    });
    while lab.bench.unsent("scope") > 1 {
        let until = lab.now() + Duration::from_micros(100);
        lab.turn(until);
    }
    lab.fault(Fault::Drop { bytes: 1 });
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::NotResponding);
    lab.run_ms(3000);
    assert_eq!(lab.scope().axis("x").unwrap().trust, Trust::Referenced, "{:?}", lab.scope().fault);
    lab.move_to(&[("x", 60.0)]).unwrap();
    assert!((lab.truly("x") - 60.0).abs() < 0.02);
}

#[test]
fn orders_that_come_before_the_devices_are_identified_wait_for_them() {
    let mut lab = Lab::demo(1);
    let picture = lab.shoot();
    assert_eq!(picture.unwrap().frames.len(), 1);
    let mut lab = Lab::demo(1);
    assert_eq!(lab.home().unwrap().moved, Moved::Yes);
    // But not for ever.
    let mut lab = Lab::demo(1);
    lab.fault(Fault::Silence { on: true });
    let asked = lab.now();
    assert_eq!(lab.home().unwrap_err().code, Code::NotConnected);
    assert!(lab.now() - asked < Duration::from_secs(6), "{:?}", lab.now() - asked);
}

#[test]
fn a_controllers_own_limits_are_published_with_the_stage() {
    let mut lab = Lab::demo(1);
    lab.online();
    let told = lab.scope().told.expect("it tells");
    assert_eq!((told.homes, told.powered_at_rest), (Some(true), Some(true)));
    let x = &told.axes[0];
    assert_eq!((x.range, x.home), (Some([-75.0, 0.0]), Some(-1.0)), "zero at the homed end, one pull-off away");
    assert_eq!(x.travel.map(|t| t.in_base()), Some(75.0));
    assert_eq!(x.step.map(|s| s.in_base()), Some(1.0 / 400.0));
    let home = lab.home();
    home.expect("homing");
    assert_eq!(lab.reads("x"), 74.0, "where it said that homing leaves it");

    let settings =
        "$1=25\r\n$13=0\r\n$22=1\r\n$23=1\r\n$27=2.000\r\n$130=60.000\r\n$131=40.000\r\n$132=4.000\r\nok\r\n";
    let told = |settings: &str| {
        let mut s = Scripted::grbl(&stage_only(), [0.0; 3]);
        s.on("$$", settings);
        s.online();
        s.scope().told.expect("it tells")
    };
    let there = told(settings);
    assert_eq!((there.axes[0].range, there.axes[0].home), (Some([-60.0, 0.0]), Some(-58.0)), "$23: homed downwards");
    assert_eq!((there.axes[1].home, there.powered_at_rest), (Some(-2.0), Some(false)));
    let off = told(&settings.replace("$22=1", "$22=0"));
    assert_eq!((off.homes, off.axes[0].range), (Some(false), None), "without homing no count is a place");
    let silent = told("$13=0\r\nok\r\n");
    assert_eq!((silent.homes, silent.axes[0].travel), (None, None), "what it doesn't tell is not guessed");
}

#[test]
fn a_counter_that_jumps_further_than_the_axis_can_have_moved_costs_the_trust_and_one_damaged_line_does_not() {
    let mut s = Scripted::homed(&stage_only(), HERE);
    let _ticket = s.moving(&[("x", 10.0)]);
    s.stands("Jog", [-35.2, -25.0, -2.0]);
    s.run_ms(100);
    s.once_after("?", 0, "<Jog|MPos:-62.000,-25.000,-2.000|FS:0,0>\r\n");
    s.run_ms(200);
    assert_eq!(s.scope().axis("x").unwrap().trust, Trust::Referenced);
    // On its way, but no axis of this stage gets there so soon.
    s.stands("Jog", [-62.0, -25.0, -2.0]);
    s.run_ms(200);
    assert_eq!(s.scope().axis("x").unwrap().trust, Trust::Unknown);
    assert!(s.log.events.lock().iter().any(|e| e.kind == "fault" && e.what.contains("jumped further")));
}

#[test]
fn an_axis_that_stands_while_the_controller_says_it_moves_is_not_believed_any_more() {
    let mut s = Scripted::homed(&stage_only(), HERE);
    let ticket = s.moving(&[("x", 41.0)]);
    s.stands("Jog", HERE);
    s.run_ms(1500);
    s.stands("Idle", HERE);
    assert_eq!(s.answer(ticket).unwrap_err().code, Code::Stalled);
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
}
