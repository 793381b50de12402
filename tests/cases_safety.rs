//! Public bug reports about the safety of motion as small inputs: each test is named after its case in `cases.toml`.
//! How a motion is proved to have arrived; stopping stands in `cases_stop.rs`.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::actor::Ticket;
use steadyhand::model::{Activity, Code, Moved, Name, Report, Shot, Trust};
use steadyhand::plans::Sequence;
use support::scripted::Scripted;
use support::{DEMO, Lab, answer_of, stage_only};

/// 40, 25, 2 mm in the rig's coordinates.
const HERE: [f64; 3] = [-35.0, -25.0, -2.0];

fn homed() -> Scripted {
    Scripted::homed(&stage_only(), HERE)
}

/// The counters with x at so many mm of the rig.
fn at(x: f64) -> [f64; 3] {
    [x - 75.0, HERE[1], HERE[2]]
}

/// It jogs x from here to there, in mm of the rig, as fast as it may.
fn jogs(s: &mut Scripted, from: f64, to: f64) {
    let steps = ((to - from).abs() / 0.4).ceil();
    for i in 1..=steps as u32 {
        s.stands("Jog", at(from + (to - from) * f64::from(i) / steps));
        s.run_ms(25);
    }
}

#[test]
fn q03_an_axis_that_somebody_else_stopped_on_its_way_has_not_arrived() {
    let mut s = homed();
    let ticket = s.moving(&[("x", 50.0)]);
    jogs(&mut s, 40.0, 44.0);
    s.stands("Idle", at(44.0));
    let e = s.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::MissedTarget, Moved::Yes));
    assert!(e.what.contains("44 mm instead of 50 mm"), "{e}");
    assert_eq!(s.scope().axis("x").unwrap().trust, Trust::Referenced, "where it stands is known");
    // One of two axes is not enough.
    let mut s = homed();
    let ticket = s.moving(&[("x", 50.0), ("y", 30.0)]);
    s.stands("Jog", [-30.0, -22.5, -2.0]);
    s.run_ms(300);
    s.stands("Idle", [-25.0, -22.0, -2.0]);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::MissedTarget);
    assert!(e.what.contains("scope.y came to rest at 28 mm instead of 30 mm"), "{e}");
}

#[test]
fn q04_a_limit_switch_that_is_pressed_when_a_move_fails_is_named() {
    let pressed = |state: &str, x: f64| {
        let [x, y, z] = at(x);
        format!("<{state}|MPos:{x:.3},{y:.3},{z:.3}|FS:0,0|Pn:X>\r\n")
    };
    // It says ok and idle at once, and stands where it stood; or on the way.
    for (from, code) in [(40.0, Code::Stalled), (41.5, Code::MissedTarget)] {
        let mut s = homed();
        let ticket = s.moving(&[("x", 70.0)]);
        s.on("?", pressed("Idle", from));
        let e = s.answer(ticket).unwrap_err();
        assert_eq!(e.code, code, "{e}");
        assert!(e.what.contains(&format!("{from} mm")) && e.what.contains("70 mm"), "{e}");
        assert!(e.what.contains("The limit switch of scope.x is pressed"), "{e}");
    }
    // Or it goes on pulsing against it, as it says.
    let mut s = homed();
    let ticket = s.moving(&[("x", 70.0)]);
    s.on("?", pressed("Jog", 41.5));
    s.run_ms(1500);
    s.on("?", pressed("Idle", 41.5));
    let e = s.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::Stalled, "{e}");
    assert!(e.what.contains("The limit switch of scope.x is pressed"), "{e}");
}

#[test]
fn q05_a_move_that_was_accepted_and_never_began_fails_soon() {
    let mut s = homed();
    let since = s.now();
    let ticket = s.moving(&[("x", 50.0)]);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::Stalled);
    assert!(e.what.contains("did not start") && e.what.contains("40 mm"), "{e}");
    assert!(s.now() - since < Duration::from_millis(1500), "{:?}", s.now() - since);
    // An interlock door that opens is what GRBL says itself.
    let mut s = homed();
    let ticket = s.moving(&[("x", 50.0)]);
    s.stands("Door:0", HERE);
    let e = s.answer(ticket).unwrap_err();
    assert!(e.what.contains("\"Door\""), "{e}");
    s.run_ms(1000);
    let e = s.move_to(&[("x", 50.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Faulted, Moved::No));
}

/// A picture after a move of x.
fn picture_at(lab: &mut Lab, x: f64) -> Ticket<Report> {
    let moves = vec![lab.to(&[("x", x)])];
    let shot = Shot { camera: Name::new("cam"), change: Default::default() };
    let plan = Sequence::picture("picture".into(), &lab.handle.rig().clone(), moves, shot);
    lab.start(plan).unwrap()
}

/// When the camera was first told to expose since then.
fn exposure_since(lab: &Lab, since: Duration) -> Option<Duration> {
    let said: Vec<(Duration, u8)> = lab.bench.received("cam").iter().copied().filter(|(t, _)| *t >= since).collect();
    let bytes: Vec<u8> = said.iter().map(|(_, b)| *b).collect();
    bytes.windows(4).position(|w| w == b"SNAP").map(|i| said[i].0)
}

#[test]
fn q05_no_picture_is_taken_after_a_move_that_failed_and_a_later_one_says_that_its_place_is_not_known() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 40.0)]).unwrap();
    lab.run_ms(500);
    let since = lab.now();
    lab.fault(Fault::Slow { factor: 1e-5 });
    let ticket = picture_at(&mut lab, 50.0);
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::Stalled, "{e}");
    assert!(exposure_since(&lab, since).is_none(), "a picture of another place was taken");
    lab.fault(Fault::Slow { factor: 1.0 });
    let frame = lab.shoot().unwrap().frames[0].clone();
    assert!(frame.before.iter().all(|r| r.trust == Trust::Unknown), "{:?}", frame.before);
}

#[test]
fn q09_an_idle_report_on_the_way_ends_no_move() {
    for pause in [0, 30, 150] {
        let mut s = homed();
        let mut ticket = s.moving(&[("x", 50.0), ("y", 30.0)]);
        s.stands("Jog", [-30.0, -25.0, -2.0]);
        s.run_ms(400);
        // One axis is there, the other has not begun.
        s.once_after("?", 0, "<Idle|MPos:-25.000,-25.000,-2.000|FS:0,0>\r\n");
        if pause > 0 {
            s.stands("Idle", [-25.0, -25.0, -2.0]);
            s.run_ms(pause);
        }
        s.stands("Jog", [-25.0, -24.0, -2.0]);
        s.run_ms(200);
        s.stands("Jog", [-25.0, -22.0, -2.0]);
        s.run_ms(300);
        assert!(answer_of(&mut ticket).is_none(), "after a pause of {pause} ms");
        assert_eq!(s.scope().activity, Activity::Moving);
        s.stands("Idle", [-25.0, -20.0, -2.0]);
        assert_eq!(s.answer(ticket).unwrap().moved, Moved::Yes);
    }
}

#[test]
fn q09_a_picture_waits_for_a_stage_that_moves_on_after_it_had_arrived() {
    let settling = |l: &mut Lab| l.state().jobs.last().is_some_and(|j| j.doing.starts_with("settling"));
    let slow = DEMO.replace("tolerance = 0.02\n", "tolerance = 0.02\nsettle_ms = 200\n");
    let there_and_back = "$J=G91G21X-1.5F1200\n$J=G91G21X1.5F1200\n";
    let cases = [
        (there_and_back, None),
        ("$J=G91G21X-5F600\n", Some(Code::MovedOn)),
        ("$J=G91G21X-35F300\n", Some(Code::Busy)),
    ];
    for (line, refused) in cases {
        let mut lab = Lab::new(&slow, Bench::microscope(1));
        lab.home().unwrap();
        let since = lab.now();
        let ticket = picture_at(&mut lab, 50.0);
        lab.until("it has arrived", Duration::from_secs(20), settling);
        // What nobody ordered here: a second part of the motion, by the controller's own doing.
        lab.bench.write("scope", line.as_bytes());
        let told = lab.now();
        let answer = lab.answer(ticket);
        if let Some(code) = refused {
            // It moves on, or stands elsewhere.
            let e = answer.unwrap_err();
            assert_eq!((e.code, e.moved), (code, Moved::Yes), "{line}: {e}");
            assert!(exposure_since(&lab, since).is_none(), "no picture is taken in motion, or elsewhere");
            continue;
        }
        let frame = answer.unwrap().frames[0].clone();
        let exposed = exposure_since(&lab, since).unwrap();
        assert!(exposed - told > Duration::from_millis(300), "{exposed:?} after {told:?}");
        assert_ne!(frame.moved_during, Moved::Yes);
        assert_eq!(frame.before[0].position, frame.after[0].position);
        assert!((frame.before[0].position.unwrap().in_base() - 50.0).abs() < 0.02, "{:?}", frame.before[0]);
    }
}

#[test]
fn q11_a_rest_short_of_the_target_before_the_last_part_is_not_the_end() {
    let mut s = homed();
    let mut ticket = s.moving(&[("x", 50.0)]);
    s.stands("Jog", at(45.0));
    s.run_ms(300);
    s.stands("Idle", at(49.95));
    s.run_ms(150);
    assert!(answer_of(&mut ticket).is_none());
    s.stands("Jog", at(49.97));
    s.run_ms(100);
    s.stands("Idle", at(50.0));
    let report = s.answer(ticket).unwrap();
    assert_eq!(report.stages[0].axis("x").unwrap().position.unwrap().in_base(), 50.0);
}

/// The demonstration's rig, whose x arrives from below, from 0.5 mm beyond.
fn one_sided() -> String {
    DEMO.replacen("tolerance = 0.02\n", "tolerance = 0.02\napproach = \"+\"\napproach_by = 0.5\n", 1)
}

#[test]
fn q11_taking_up_backlash_is_part_of_the_move_and_bound_by_the_limits() {
    let mut lab = Lab::new(&one_sided(), Bench::microscope(1));
    lab.home().unwrap();
    lab.move_to(&[("x", 40.0)]).unwrap();
    let since = lab.now();
    let report = lab.move_to(&[("x", 30.0)]).unwrap();
    let legs: Vec<String> = lab.lines_since(since);
    assert_eq!(legs.len(), 2, "{legs:?}");
    assert!(legs[0].contains("X-45.5") && legs[1].contains("X-45F"), "{legs:?}");
    assert_eq!(report.stages[0].axis("x").unwrap().position.unwrap().in_base(), 30.0);
    // 10.0 to 10.5 is free at this height; what lies beyond 0 is not.
    let e = lab.move_to(&[("x", 0.2), ("y", 30.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::OutOfTravel, Moved::No), "{e}");
}

#[test]
fn q20_what_never_completes_is_an_error_and_is_stopped() {
    // A move: it creeps on for ever.
    let mut s = homed();
    let mut ticket = s.moving(&[("x", 45.0)]);
    let began = s.now();
    let mut x = 40.0;
    let e = loop {
        if let Some(answer) = answer_of(&mut ticket) {
            break answer.unwrap_err();
        }
        assert!(s.now() - began < Duration::from_secs(60), "it has no end");
        let stopped = s.heard_since(began, [0x85]).is_some();
        x += if stopped { 0.0 } else { 0.002 };
        s.stands(if stopped { "Idle" } else { "Jog" }, at(x));
        s.run_ms(50);
    };
    assert_eq!((e.code, e.moved), (Code::TooLong, Moved::Yes));
    assert!(s.heard_since(began, [0x85]).is_some());

    // A homing: the carriage crawls, and no switch comes.
    let mut lab = Lab::demo(1);
    lab.online();
    lab.fault(Fault::Slow { factor: 0.001 });
    let since = lab.now();
    let e = lab.home().unwrap_err();
    assert_eq!(e.code, Code::HomingFailed, "{e}");
    assert!(lab.now() - since < Duration::from_secs(70), "{:?}: {e}", lab.now() - since);
    assert!(lab.heard_at(since, 0x18).is_some(), "{e}");
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));

    // A frame, and an answer to unlocking.
    let mut lab = Lab::homed(1);
    lab.bench.fault("cam", Fault::DropFrames { frames: 1 }).unwrap();
    assert_eq!(lab.shoot().unwrap_err().code, Code::CameraFailed);
    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.stands("Alarm", HERE);
    s.online();
    s.on("$X", "");
    assert!(s.recover().is_err());
}

#[test]
fn q20_no_outcome_has_a_value_by_default() {
    let text = include_str!("../src/model.rs");
    let tree = syn::parse_file(text).unwrap();
    let derives = |attrs: &[syn::Attribute], what: &str| {
        attrs.iter().filter(|a| a.path().is_ident("derive")).any(|a| {
            let mut found = false;
            a.parse_nested_meta(|m| {
                found |= m.path.is_ident(what);
                Ok(())
            })
            .unwrap();
            found
        })
    };
    let mut seen = Vec::new();
    for item in &tree.items {
        let (name, attrs) = match item {
            syn::Item::Enum(e) => (e.ident.to_string(), &e.attrs),
            syn::Item::Struct(s) => (s.ident.to_string(), &s.attrs),
            syn::Item::Impl(i) => {
                let of_default = i.trait_.as_ref().is_some_and(|(path, _)| path.is_ident("Default"));
                let syn::Type::Path(t) = &*i.self_ty else { continue };
                let own = ["Moved", "Report", "JobState", "Activity"].iter().any(|n| t.path.is_ident(n));
                assert!(!(of_default && own), "an outcome has a default");
                continue;
            }
            _ => continue,
        };
        if ["Moved", "Report", "JobState", "Activity"].contains(&name.as_str()) {
            assert!(!derives(attrs, "Default"), "{name} has a default: a forgotten answer would be one");
            seen.push(name);
        }
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn q27_a_move_that_cannot_be_read_is_stopped_and_its_position_is_lost() {
    let lost: [(&str, &[u8]); 4] = [
        ("silence", b""),
        ("errors", b"error:1\r\n"),
        ("noise", b"<Jo\xff|MPos:-3\r\n"),
        ("reports without a position", b"<Jog|FS:10,0>\r\n"),
    ];
    for (what, says) in lost {
        let mut s = homed();
        let ticket = s.moving(&[("x", 60.0)]);
        s.stands("Jog", at(41.0));
        s.run_ms(300);
        let blind = s.now();
        s.on("?", says);
        s.until("it is stopped", 2000, |s| s.heard_since(blind, [0x85]).is_some());
        let asked = s.heard.iter().filter(|(t, h)| *t >= blind && h == b"?").count();
        assert!(asked >= 2, "{what}: one lost report is no reason");
        let e = s.answer(ticket).unwrap_err();
        assert_eq!(e.moved, if e.code == Code::Stalled { Moved::Yes } else { e.moved }, "{what}");
        assert!(matches!(e.code, Code::NotResponding | Code::StopNotConfirmed | Code::Stalled), "{what}: {e}");
        assert_ne!(e.moved, Moved::No, "{what}");
        s.run_ms(6000);
        assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown), "{what}");
    }
    // Two reports that are lost in a row are survived.
    let mut s = homed();
    let ticket = s.moving(&[("x", 45.0)]);
    jogs(&mut s, 40.0, 41.0);
    s.stands("Jog", at(43.0));
    s.once_after("?", 0, "");
    s.once_after("?", 0, "");
    s.run_ms(1150);
    s.stands("Idle", at(45.0));
    s.answer(ticket).unwrap();
}

#[test]
fn q28_a_move_that_needs_no_motion_is_over_at_once_and_leaves_everything_as_it_was() {
    // A step of x is 2.5 µm.
    for (rig, x) in
        [(DEMO.to_owned(), 50.0), (DEMO.to_owned(), 50.001), (DEMO.to_owned(), 49.999), (one_sided(), 49.999)]
    {
        let mut lab = Lab::new(&rig, Bench::microscope(1));
        lab.home().unwrap();
        lab.move_to(&[("x", 60.0), ("z", 3000.0)]).unwrap();
        lab.move_to(&[("x", 50.0)]).unwrap();
        lab.run_ms(500);
        let (since, before) = (lab.now(), lab.scope());
        let report = lab.move_to(&[("x", x)]).unwrap();
        assert_eq!(report.moved, Moved::No, "{x}");
        assert!(lab.now() - since < Duration::from_millis(100), "{x}: it waited {:?}", lab.now() - since);
        assert_eq!(lab.lines_since(since), [] as [String; 0]);
        let after = lab.scope();
        assert_eq!((after.epoch, after.axes, after.activity), (before.epoch, before.axes, before.activity));
        assert_eq!(after.came_from, before.came_from, "go_back leads to where the last motion began");
    }
}

#[test]
fn q18_the_simulated_stage_stops_where_it_is_told_to_and_forgets_what_a_real_one_forgets() {
    let ready = || {
        let mut bench = Bench::microscope(1);
        bench.advance(Duration::from_secs(2));
        bench.write("scope", b"$X\n$J=G91G21X-30F600\n");
        bench
    };
    let speed = |b: &Bench| b.speed_mm_per_s("scope", "x").abs();
    let later = |b: &mut Bench, ms: u64| b.advance(b.now() + Duration::from_millis(ms));
    // Half the time is half the way, and then nothing.
    let mut bench = ready();
    let start = bench.carriage_mm("scope", "x");
    later(&mut bench, 1500);
    assert!((speed(&bench) - 10.0).abs() < 0.1, "{}", speed(&bench));
    bench.write("scope", &[0x85]);
    later(&mut bench, 500);
    let way = start - bench.carriage_mm("scope", "x");
    assert!((way - 15.0).abs() < 1.5 && speed(&bench) == 0.0, "{way}");
    later(&mut bench, 5000);
    assert_eq!(start - bench.carriage_mm("scope", "x"), way, "what was left is thrown away");
    // Left alone it goes all the way.
    let mut bench = ready();
    later(&mut bench, 5000);
    assert!((start - bench.carriage_mm("scope", "x") - 30.0).abs() < 0.3);
    // A reset in motion stops it, and locks it.
    let mut bench = ready();
    later(&mut bench, 1500);
    bench.write("scope", &[0x18]);
    later(&mut bench, 100);
    assert_eq!((speed(&bench), bench.state("scope")), (0.0, "alarm"));
    // A pulled cable stops nothing.
    let mut bench = ready();
    later(&mut bench, 500);
    bench.fault("scope", Fault::Unplug).unwrap();
    later(&mut bench, 1000);
    assert!(speed(&bench) > 5.0);
    // A broken wire back stops nothing either, and it still hears.
    let mut bench = ready();
    later(&mut bench, 500);
    bench.read("scope");
    bench.fault("scope", Fault::Mute { on: true }).unwrap();
    bench.write("scope", b"?");
    later(&mut bench, 100);
    assert!(bench.read("scope").is_empty() && speed(&bench) > 5.0);
    bench.write("scope", &[0x85]);
    later(&mut bench, 500);
    assert_eq!(speed(&bench), 0.0);
    // What is written waits in the system's buffer and goes out at the line's pace.
    bench.set_os_buffer("scope", 16);
    assert_eq!(bench.write("scope", &[b'\n'; 20]), 16);
    later(&mut bench, 1);
    assert!((1..16).contains(&bench.unsent("scope")), "{}", bench.unsent("scope"));
}
