//! What every stage's driver must do, whatever it speaks: the same tests over each protocol's simulated peer, which was
//! written from the manufacturer's manual and not from the driver.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::actor::Ticket;
use steadyhand::model::{Activity, Code, Moved, Report, Trust};
use support::Lab;
use support::peers::{PEERS, Peer};

/// Runs a test over each protocol; a failure says over which.
fn over_each(test: impl Fn(&Peer, Lab)) {
    for peer in PEERS {
        eprintln!("over {}", peer.name);
        let bench = Bench::from_toml(&(peer.bench)()).unwrap_or_else(|e| panic!("{}: {e}", peer.name));
        test(peer, Lab::new(&(peer.rig)(), bench));
    }
}

/// The same with a stage that is online and homed, or declared, and stands at 40, 20 mm.
fn over_each_referenced(test: impl Fn(&Peer, Lab)) {
    over_each(|peer, mut lab| {
        lab.online();
        peer.reference(&mut lab);
        lab.move_to(&[("x", 40.0), ("y", 20.0)]).expect("a move");
        test(peer, lab);
    });
}

/// Begins a move of x to 10 mm and waits until it is under way.
fn moving(lab: &mut Lab) -> Ticket<Report> {
    let movement = lab.to(&[("x", 10.0), ("y", 5.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    ticket
}

fn heard(lab: &Lab, since: Duration, what: &[u8]) -> bool {
    lab.heard_since(since).windows(what.len()).any(|w| w == what)
}

fn trusts(lab: &Lab) -> Vec<Trust> {
    lab.scope().axes.iter().map(|a| a.trust).collect()
}

#[test]
fn it_says_what_it_is_and_moves_nothing_before_it_is_homed() {
    over_each(|peer, mut lab| {
        let since = lab.now();
        lab.online();
        let scope = lab.scope();
        let identity = scope.identity.expect("an identity");
        assert!(!identity.model.is_empty() && !identity.firmware.is_empty());
        assert_eq!(scope.activity, Activity::Idle);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        let e = lab.move_to(&[("x", 20.0)]).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::NotReferenced, Moved::No));
        assert!(!heard(&lab, since, peer.motion));
        assert!(["x", "y", "z"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0));
    });
}

#[test]
fn it_homes_or_a_person_says_where_it_stands_and_then_it_knows() {
    over_each(|peer, mut lab| {
        lab.online();
        let before = lab.truly("x");
        let homed = lab.home();
        if peer.homes {
            assert_eq!(homed.unwrap().moved, Moved::Yes);
        } else {
            let e = homed.unwrap_err();
            assert_eq!((e.code, e.moved, lab.truly("x")), (Code::Unsupported, Moved::No, before));
            peer.reference(&mut lab);
        }
        assert_eq!(trusts(&lab), [peer.trust(); 3]);
        assert!((lab.reads("x") - lab.truly("x")).abs() < 0.02, "{} {}", lab.reads("x"), lab.truly("x"));
        assert!((lab.reads("z") / 1000.0 - lab.truly("z")).abs() < 0.02);
    });
}

#[test]
fn a_move_ends_where_it_was_told_to_and_the_carriage_is_really_there() {
    over_each_referenced(|peer, mut lab| {
        let since = lab.now();
        let report = lab.move_to(&[("x", 33.3), ("y", 12.1), ("z", 2500.0)]).unwrap();
        assert_eq!(report.moved, Moved::Yes);
        for (axis, mm) in [("x", 33.3), ("y", 12.1), ("z", 2.5)] {
            assert!((lab.truly(axis) - mm).abs() < 0.02, "{axis}: {}", lab.truly(axis));
        }
        assert!(heard(&lab, since, peer.motion));
        let before = lab.truly("x");
        let step = lab.by(&[("x", -1.5)], lab.scope().epoch);
        let ticket = lab.begin_move(step).unwrap();
        assert_eq!(lab.answer(ticket).unwrap().moved, Moved::Yes);
        assert!((before - lab.truly("x") - 1.5).abs() < 0.02);
    });
}

#[test]
fn no_axis_goes_faster_than_the_rig_file_allows() {
    over_each_referenced(|_, mut lab| {
        let movement = lab.to(&[("x", 5.0)]);
        let mut ticket = lab.begin_move(movement).unwrap();
        let mut fastest = 0.0_f64;
        let outcome = loop {
            lab.run_ms(2);
            fastest = fastest.max(lab.bench.speed_mm_per_s("scope", "x").abs());
            if let Some(outcome) = support::answer_of(&mut ticket) {
                break outcome;
            }
        };
        outcome.unwrap();
        assert!((19.0..20.05).contains(&fastest), "{fastest} mm/s");
    });
}

#[test]
fn a_motion_is_watched_while_it_lasts() {
    over_each_referenced(|_, mut lab| {
        let mut ticket = moving(&mut lab);
        let mut seen = 0;
        while support::answer_of(&mut ticket).is_none() {
            lab.run_ms(20);
            let scope = lab.scope();
            if scope.activity == Activity::Moving {
                seen += 1;
                let age = lab.now().saturating_sub(scope.read_at.expect("a reading").0);
                assert!(age < Duration::from_millis(250), "a reading is {age:?} old");
                assert!((lab.reads("x") - lab.truly("x")).abs() < 0.02 + 20.0 * (age.as_secs_f64() + 0.03));
            }
        }
        assert!(seen > 20, "{seen}");
    });
}

#[test]
fn a_stop_in_motion_reaches_the_wire_at_once_is_proved_and_keeps_the_reference() {
    over_each_referenced(|peer, mut lab| {
        let ticket = moving(&mut lab);
        let asked = lab.now();
        lab.stop();
        lab.run_ms(8);
        assert!(heard(&lab, asked, peer.stop), "within 8 ms");
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
        assert!(["x", "y"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0), "it stands when that is said");
        assert!(lab.truly("x") > 11.0, "on its way: {}", lab.truly("x"));
        assert_eq!(lab.move_to(&[("x", 30.0)]).unwrap_err().code, Code::Stopped, "and stays stopped");
        lab.recover("scope").unwrap();
        assert_eq!(trusts(&lab), [peer.trust(); 3]);
        lab.move_to(&[("x", 30.0)]).unwrap();
        assert!((lab.truly("x") - 30.0).abs() < 0.02);
    });
}

#[test]
fn a_stop_in_the_same_moment_as_a_move_lets_nothing_go_far() {
    over_each_referenced(|peer, mut lab| {
        for delay in 0..30 {
            let before = lab.truly("x");
            let to = if before > 30.0 { 10.0 } else { 45.0 };
            let movement = lab.to(&[("x", to)]);
            let ticket = lab.begin_move(movement).unwrap();
            lab.run(Duration::from_micros(500 * delay));
            lab.stop();
            assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped, "{} {delay}", peer.name);
            lab.run_ms(800);
            assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
            assert!((lab.truly("x") - before).abs() < 0.51, "{delay}: it went {}", lab.truly("x") - before);
            lab.recover("scope").unwrap();
        }
    });
}

#[test]
fn a_target_beyond_the_controllers_own_limit_is_refused_in_its_words_and_nothing_moves() {
    over_each_referenced(|peer, mut lab| {
        let before = lab.truly("x");
        let e = lab.move_to(&[("x", peer.beyond)]).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::ControllerRefused, Moved::No), "{e}");
        assert_eq!(lab.truly("x"), before);
        lab.move_to(&[("x", 30.0)]).unwrap();
    });
}

#[test]
fn a_reset_under_us_costs_the_trust_wherever_it_happens() {
    over_each_referenced(|peer, mut lab| {
        lab.fault(Fault::Reset);
        lab.until("noticed at rest", Duration::from_secs(8), |l| l.scope().fault.is_some());
        lab.run_ms(4000);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        lab.recover("scope").unwrap();
        peer.reference(&mut lab);
        lab.move_to(&[("x", 40.0), ("y", 20.0)]).unwrap();

        let ticket = moving(&mut lab);
        lab.fault(Fault::Reset);
        let e = lab.answer(ticket).unwrap_err();
        assert!(matches!(e.code, Code::ControllerReset | Code::NotResponding), "{e}");
        lab.run_ms(6000);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        assert!(matches!(lab.move_to(&[("x", 20.0)]).unwrap_err().code, Code::Faulted | Code::NotReferenced));
        let _ = lab.recover("scope");
        peer.reference(&mut lab);
        lab.move_to(&[("x", 20.0)]).unwrap();
    });
}

#[test]
fn garbage_and_lies_on_the_line_are_no_positions_and_no_answers() {
    over_each_referenced(|peer, mut lab| {
        let mut x = 0x9e37_79b9_u32;
        for round in 0..60 {
            let noise: Vec<u8> = (0..40)
                .map(|_| {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // No start of a status line or of a restart, which anybody would have to believe.
                    (x >> 24) as u8 | 0x80
                })
                .collect();
            lab.fault(Fault::Inject { bytes: [&noise[..], b"\r\n", peer.lies[round % 3]].concat() });
            lab.run_ms(90);
            assert!((lab.reads("x") - 40.0).abs() < 0.01, "round {round}: {}", lab.reads("x"));
        }
        assert_eq!(trusts(&lab), [peer.trust(); 3]);
        assert!(lab.scope().link.bad_frames >= 60, "{:?}", lab.scope().link);
        // In motion too.
        let ticket = moving(&mut lab);
        lab.fault(Fault::Inject { bytes: b"\xff\xfe\x80\r\n".to_vec() });
        lab.answer(ticket).unwrap();
        assert!((lab.truly("x") - 10.0).abs() < 0.02);
    });
}

#[test]
fn what_the_line_damages_is_asked_again_and_not_believed() {
    over_each_referenced(|_, mut lab| {
        for _ in 0..20 {
            lab.fault(Fault::Garble { bytes: 12 });
            lab.run_ms(2100);
            assert_eq!(lab.scope().fault, None);
            assert!((lab.reads("x") - 40.0).abs() < 0.01, "{}", lab.reads("x"));
        }
        lab.move_to(&[("x", 30.0)]).unwrap();
        assert!((lab.truly("x") - 30.0).abs() < 0.02);
    });
}

#[test]
fn a_silent_controller_is_told_and_a_stop_is_written_all_the_same() {
    over_each_referenced(|peer, mut lab| {
        let ticket = moving(&mut lab);
        lab.fault(Fault::Silence { on: true });
        lab.run_ms(300);
        let asked = lab.now();
        lab.stop();
        lab.run_ms(50);
        let written: Vec<u8> =
            lab.bench.written("scope").iter().filter(|(t, _)| *t >= asked).map(|(_, b)| *b).collect();
        assert!(written.windows(peer.stop.len()).any(|w| w == peer.stop), "{:?}", String::from_utf8_lossy(&written));
        let e = lab.answer(ticket).unwrap_err();
        assert!(matches!(e.code, Code::Stopped | Code::NotResponding | Code::StopNotConfirmed), "{e}");
        assert_ne!(e.moved, Moved::No);
        lab.until("told", Duration::from_secs(12), |l| l.scope().activity == Activity::Offline);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        lab.fault(Fault::Silence { on: false });
        lab.until("back", Duration::from_secs(12), |l| l.scope().activity == Activity::Idle);
        assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3], "nobody here has seen how it got where it is");
    });
}

#[test]
fn an_unplugged_cable_leaves_open_whether_it_moved_and_comes_back_without_trust() {
    over_each_referenced(|_, mut lab| {
        let ticket = moving(&mut lab);
        lab.fault(Fault::Unplug);
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Unplugged, Moved::Unknown));
        assert_eq!(lab.scope().activity, Activity::Offline);
        assert_eq!(lab.move_to(&[("x", 20.0)]).unwrap_err().code, Code::NotConnected);
        lab.fault(Fault::Plug);
        lab.online();
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        assert_eq!(lab.scope().link.reconnects, 1);
    });
}

#[test]
fn homing_can_be_stopped() {
    over_each(|peer, mut lab| {
        if !peer.homes {
            return;
        }
        lab.online();
        let home = steadyhand::model::Home { stage: steadyhand::model::Name::new("scope"), axes: vec![] };
        let ticket = lab.start(steadyhand::plans::Sequence::home("home".into(), home)).unwrap();
        lab.run_ms(700);
        assert_eq!(lab.scope().activity, Activity::Homing);
        lab.stop();
        assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped);
        lab.run_ms(3000);
        assert!(["x", "y", "z"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0));
        assert!(trusts(&lab).contains(&Trust::Unknown));
        lab.recover("scope").unwrap();
        lab.home().unwrap();
    });
}

#[test]
fn homing_tells_how_far_a_trusted_reference_had_drifted_where_the_controller_counts_on() {
    over_each_referenced(|peer, mut lab| {
        if !peer.homes {
            assert_eq!(lab.home().unwrap_err().code, Code::Unsupported);
            return;
        }
        // The carriage of x is left behind, and nobody here can see it.
        let steps = if peer.name == "zaber" { 4000 } else { 500 };
        let (before, counted) = (lab.truly("x"), lab.reads("x"));
        lab.fault(Fault::LostSteps { axis: "x".into(), steps });
        let lost = lab.truly("x") - before;
        assert!(lost.abs() > 1.0 && lab.reads("x") == counted, "{lost}");
        let drifts = lab.home().unwrap().drifts;
        assert_eq!(drifts.len(), 3, "all were trusted");
        let of = |axis: &str| drifts.iter().find(|(id, _)| id.axis.as_str() == axis).unwrap().1;
        if peer.name == "grbl" {
            assert_eq!(of("x"), None, "it says nothing while it homes, and begins its count anew");
            return;
        }
        let x = of("x").expect("it counts on until it finds its reference");
        // It stood further down than it counted: at the reference, its count was too high by as much.
        assert!((x.by.in_base() + lost).abs() <= x.within.in_base(), "{x:?}, lost {lost}");
        assert!(x.within.in_base() < 1.0, "{x:?}");
        let y = of("y").expect("y as well");
        assert!(y.by.in_base() == 0.0, "{y:?}");
        // A second homing finds nothing; one of an axis that nobody knew tells nothing.
        let again = lab.home().unwrap().drifts;
        assert!(again.iter().all(|(_, d)| d.is_some_and(|d| d.by.in_base() == 0.0)), "{again:?}");
        lab.fault(Fault::Reset);
        lab.until("noticed", Duration::from_secs(8), |l| l.scope().fault.is_some());
        lab.run_ms(4000);
        lab.recover("scope").unwrap();
        assert_eq!(lab.home().unwrap().drifts, []);
    });
}
