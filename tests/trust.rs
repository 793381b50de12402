//! How far positions are believed: what restores that after a break, what lowers it, and motion by somebody's hand.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hw_sim::{ASI_TOML, Bench, Fault, ZABER_TOML};
use parking_lot::Mutex;
use steadyhand::devices::StageEvent;
use steadyhand::model::{Activity, Code, Home, Moved, Name, StageStatus, StopBy, Trust};
use steadyhand::plans::Sequence;
use steadyhand::store::{Kept, PersonStop};
use support::hooked::Hooked;
use support::{DEMO, Lab, answer_of};

const ASI: &str = include_str!("../rigs/asi-xy.toml");
const CHAIN: &str = include_str!("../rigs/zaber-chain.toml");

fn kept(dir: &Path) -> Kept {
    Kept::open(dir).expect("a record")
}

/// The program is killed where it stands, and started anew on the same bench and record.
fn again(lab: Lab, rig: &str, dir: &Path) -> Lab {
    assert!(lab.handle.standstills().flush(Duration::from_secs(10)), "it is on the disk");
    let Lab { bench, .. } = lab;
    let mut lab = Lab::with(rig, bench, kept(dir));
    lab.online();
    lab.run_ms(200);
    lab
}

fn trust(lab: &Lab) -> Vec<Trust> {
    lab.scope().axes.iter().map(|a| a.trust).collect()
}

fn homed(dir: &Path) -> Lab {
    let mut lab = Lab::with(DEMO, Bench::microscope(1), kept(dir));
    lab.online();
    lab.home().unwrap();
    lab.move_to(&[("x", 41.0), ("y", 20.0), ("z", 1.0)]).unwrap();
    lab.run_ms(600);
    lab
}

#[test]
fn a_position_is_restored_when_disk_and_controller_agree() {
    let dir = tempfile::tempdir().unwrap();
    let lab = homed(dir.path());
    let lab = again(lab, DEMO, dir.path());
    assert_eq!(trust(&lab), [Trust::Restored; 3]);
    assert!((lab.reads("x") - 41.0).abs() < 0.01, "{}", lab.reads("x"));
    // The rig file asks for a reference, which that is not.
    let mut lab = lab;
    let e = lab.move_to(&[("x", 42.0)]).unwrap_err();
    assert!(e.code == Code::NotReferenced && e.what.contains("restored"), "{e}");
    // Where the rig file takes it, it moves; and its word stays what it is over another start.
    let lenient = DEMO.replace("trust = \"referenced\"", "trust = \"restored\"");
    assert_ne!(lenient, DEMO);
    let mut lab = again(lab, &lenient, dir.path());
    lab.move_to(&[("x", 42.0)]).unwrap();
    assert!((lab.truly("x") - 42.0).abs() < 0.03, "{}", lab.truly("x"));
    lab.run_ms(600);
    let lab = again(lab, &lenient, dir.path());
    assert_eq!(trust(&lab), [Trust::Restored; 3]);
}

#[test]
fn an_axis_whose_controller_counts_something_else_by_now_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let lab = homed(dir.path());
    assert!(lab.handle.standstills().flush(Duration::from_secs(10)));
    let Lab { mut bench, .. } = lab;
    // While this program is away, another one moves x.
    bench.write("scope", b"$J=G91G21X-5F600\n");
    let later = bench.now() + Duration::from_secs(10);
    bench.advance(later);
    let mut lab = Lab::with(DEMO, bench, kept(dir.path()));
    lab.online();
    lab.run_ms(600);
    assert!((lab.truly("x") - 41.0).abs() > 4.0, "{}", lab.truly("x"));
    assert_eq!(trust(&lab), [Trust::Unknown, Trust::Restored, Trust::Restored]);
}

#[test]
fn a_controller_that_was_switched_off_counts_from_zero_and_restores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = homed(dir.path());
    assert!(lab.handle.standstills().flush(Duration::from_secs(10)));
    lab.bench.fault("scope", Fault::Reset).unwrap();
    let lab = again(lab, DEMO, dir.path());
    assert_eq!(trust(&lab), [Trust::Unknown; 3]);
}

#[test]
fn a_count_of_zero_agrees_with_nothing_even_when_it_was_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let rig = CHAIN;
    let mut lab = Lab::with(rig, Bench::from_toml(ZABER_TOML).unwrap(), kept(dir.path()));
    lab.online();
    let home = Home { stage: Name::new("sample"), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.answer(ticket).unwrap();
    lab.run_ms(600);
    let sample = |lab: &Lab| lab.state().stage("sample").unwrap().clone();
    assert_eq!(sample(&lab).axes[0].trust, Trust::Referenced);
    let lab = again(lab, rig, dir.path());
    assert_eq!(sample(&lab).axes[0].trust, Trust::Unknown, "home is where it counts zero");
}

#[test]
fn a_stage_that_was_moving_at_the_end_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = homed(dir.path());
    // Killed in mid-move: the controller goes on to its target without us.
    let movement = lab.to(&[("x", 60.0)]);
    let _ticket = lab.begin_move(movement).unwrap();
    lab.run_ms(300);
    assert!(lab.handle.standstills().flush(Duration::from_secs(10)));
    let Lab { mut bench, .. } = lab;
    let later = bench.now() + Duration::from_secs(20);
    bench.advance(later);
    let mut lab = Lab::with(DEMO, bench, kept(dir.path()));
    lab.online();
    lab.run_ms(600);
    assert_eq!(trust(&lab), [Trust::Unknown; 3], "nobody here has seen how it got where it is");
}

#[test]
fn another_origin_or_sign_restores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let lab = homed(dir.path());
    let origin = lab.rig().stages[0].axes[0].origin.in_base();
    let line = format!("origin = {origin:.1}");
    assert!(DEMO.contains(&line), "{line}");
    let moved = DEMO.replacen(&line, &format!("origin = {:.1}", origin - 1.0), 1);
    let lab = again(lab, &moved, dir.path());
    assert_eq!(trust(&lab), [Trust::Unknown, Trust::Restored, Trust::Restored]);
}

#[test]
fn a_count_under_settings_that_give_it_another_meaning_is_not_restored() {
    for (setting, restored) in [("$3=1", false), ("$110=1100", true)] {
        let dir = tempfile::tempdir().unwrap();
        let lab = homed(dir.path());
        assert!(lab.handle.standstills().flush(Duration::from_secs(10)));
        let Lab { mut bench, .. } = lab;
        // While this program is away, another one turns an axis round, or makes one slower.
        bench.write("scope", format!("{setting}\n").as_bytes());
        let later = bench.now() + Duration::from_secs(1);
        bench.advance(later);
        let mut lab = Lab::with(DEMO, bench, kept(dir.path()));
        lab.online();
        lab.run_ms(600);
        let expected = if restored { Trust::Restored } else { Trust::Unknown };
        assert_eq!(trust(&lab), [expected; 3], "{setting}");
    }
}

#[test]
fn a_pulled_cable_costs_trust_until_the_controller_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = homed(dir.path());
    lab.fault(Fault::Unplug);
    lab.until("it is missed", Duration::from_secs(5), |l| trust(l) == [Trust::Unknown; 3]);
    lab.fault(Fault::Plug);
    lab.online();
    lab.run_ms(600);
    assert_eq!(trust(&lab), [Trust::Restored; 3]);
    // Pulled in mid-move: nobody knows whether it got there.
    lab.home().unwrap();
    let movement = lab.to(&[("x", 60.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.run_ms(300);
    lab.fault(Fault::Unplug);
    assert_eq!(lab.answer(ticket).unwrap_err().moved, Moved::Unknown);
    lab.run_ms(3000);
    lab.fault(Fault::Plug);
    lab.online();
    lab.run_ms(600);
    assert_eq!(trust(&lab)[0], Trust::Unknown);
}

#[test]
fn a_stall_takes_the_record_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::with(CHAIN, Bench::from_toml(ZABER_TOML).unwrap(), kept(dir.path()));
    lab.online();
    let home = Home { stage: Name::new("sample"), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.answer(ticket).unwrap();
    let to = |lab: &mut Lab, x: f64| {
        let movement = steadyhand::model::Move { stage: Name::new("sample"), aim: support::aim(&[("x", x)]) };
        let ticket = lab.begin_move(movement).unwrap();
        lab.answer(ticket)
    };
    to(&mut lab, 5.0).unwrap();
    lab.run_ms(600);
    assert!(lab.handle.standstills().of(&Name::new("sample")).is_some());
    lab.bench.fault("chain", Fault::Jam { axis: "tilt".into() }).unwrap();
    assert_eq!(to(&mut lab, 20.0).unwrap_err().code, Code::Stalled);
    lab.run_ms(600);
    let kept = lab.handle.standstills().of(&Name::new("sample"));
    assert!(kept.is_none_or(|k| !k.axes.contains_key("x")), "a stalled axis");
}

#[test]
fn a_persons_word_is_restored_as_no_more_than_that() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = homed(dir.path());
    lab.reference("x", 50.0).unwrap();
    lab.run_ms(600);
    let mut lab = again(lab, DEMO, dir.path());
    assert_eq!(trust(&lab), [Trust::Assumed, Trust::Restored, Trust::Restored]);
    assert!((lab.reads("x") - 50.0).abs() < 0.01, "what the person declared counts: {}", lab.reads("x"));
    lab.run_ms(3000);
    assert_eq!(lab.scope().fault, None, "other coordinates are nobody's hand");
}

/// Visits of such lengths, from before the port is open until long after all is identified.
fn short_visits() -> impl Iterator<Item = u64> {
    (0..400).step_by(20).chain([700, 1500])
}

/// A client that only connects and leaves: the end's stop, at any moment of the identification.
fn visit(lab: Lab, rig: &str, dir: &Path, ms: u64) -> Lab {
    assert!(lab.handle.standstills().flush(Duration::from_secs(10)));
    let Lab { bench, .. } = lab;
    let mut visit = Lab::with(rig, bench, kept(dir));
    visit.run_ms(ms);
    visit.handle.stop(None, StopBy::Program);
    visit.run_ms(5);
    let ending = visit.handle.shutdown(&visit.caller).unwrap();
    visit.answer(ending).unwrap();
    let log = visit.log.events.lock().clone();
    assert!(!log.iter().any(|e| e.what.contains("reset")), "{ms} ms after the start: {log:?}");
    again(visit, rig, dir)
}

#[test]
fn a_short_visit_at_any_moment_of_the_identification_costs_no_trust_and_resets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = homed(dir.path());
    for ms in short_visits() {
        let since = lab.now();
        lab = visit(lab, DEMO, dir.path(), ms);
        assert!(!lab.heard_since(since).contains(&0x18), "a reset takes the power from the motors: {ms}");
        assert_eq!(trust(&lab), [Trust::Restored; 3], "a visit of {ms} ms: {:?}", lab.log.events.lock());
        lab.run_ms(600);
    }
}

#[test]
fn nor_does_it_on_a_chain_nor_where_a_persons_word_is_all_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut lab = Lab::with(CHAIN, Bench::from_toml(ZABER_TOML).unwrap(), kept(dir.path()));
    lab.online();
    let home = Home { stage: Name::new("sample"), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.answer(ticket).unwrap();
    let movement = steadyhand::model::Move { stage: Name::new("sample"), aim: support::aim(&[("x", 5.0)]) };
    let ticket = lab.begin_move(movement).unwrap();
    lab.answer(ticket).unwrap();
    lab.run_ms(600);
    for ms in short_visits().step_by(3) {
        lab = visit(lab, CHAIN, dir.path(), ms);
        let trust = lab.state().stage("sample").unwrap().axes[0].trust;
        assert_eq!(trust, Trust::Restored, "a visit of {ms} ms: {:?}", lab.log.events.lock());
        lab.run_ms(600);
    }
    let dir = tempfile::tempdir().unwrap();
    let rig = ASI.replace("\"sample\"", "\"scope\"").replace("sample.", "scope.").replace("stage-port", "scope-port");
    let rig = rig.replace("serial = { usb = \"10c4:ea60\" }", "serial = \"/dev/virtual-asi\"");
    let mut lab = Lab::with(&rig, Bench::from_toml(ASI_TOML).unwrap(), kept(dir.path()));
    lab.online();
    lab.reference("x", 0.0).unwrap();
    lab.reference("y", 0.0).unwrap();
    lab.move_to(&[("x", 2.0), ("y", 3.0)]).unwrap();
    lab.run_ms(600);
    for ms in short_visits().step_by(3) {
        lab = visit(lab, &rig, dir.path(), ms);
        assert_eq!(trust(&lab), [Trust::Assumed; 2], "a visit of {ms} ms: {:?}", lab.log.events.lock());
        lab.run_ms(600);
    }
}

#[test]
fn a_stop_before_a_moving_controller_is_identified_stops_it_and_costs_its_trust() {
    let dir = tempfile::tempdir().unwrap();
    for ms in [0, 10, 30, 60, 120] {
        let mut lab = homed(dir.path());
        let movement = lab.to(&[("x", 5.0)]);
        let _ticket = lab.begin_move(movement).unwrap();
        lab.run_ms(200);
        assert_eq!(lab.scope().activity, Activity::Moving);
        assert!(lab.handle.standstills().flush(Duration::from_secs(10)));
        let Lab { bench, .. } = lab;
        let mut lab = Lab::with(DEMO, bench, kept(dir.path()));
        lab.run_ms(ms);
        lab.handle.stop(None, StopBy::Program);
        lab.run_ms(3000);
        assert!(lab.truly("x") > 20.0, "{ms}: {}", lab.truly("x"));
        assert_eq!(trust(&lab), [Trust::Unknown; 3], "nobody has seen where it went: {ms}");
    }
}

#[test]
fn a_hand_on_the_knob_pauses_the_stage_until_a_person_releases_it() {
    let mut lab = Lab::new(CHAIN, Bench::from_toml(ZABER_TOML).unwrap());
    lab.online();
    let home = Home { stage: Name::new("sample"), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.answer(ticket).unwrap();
    lab.run_ms(2000);
    let sample = |lab: &Lab| -> StageStatus { lab.state().stage("sample").unwrap().clone() };
    assert_eq!(sample(&lab).fault, None);
    lab.bench.fault("chain", Fault::Knob { axis: "slide".into(), mm: 3.0 }).unwrap();
    lab.until("the hand is noticed", Duration::from_secs(5), |l| sample(l).fault.is_some());
    lab.run_ms(3000);
    let fault = sample(&lab).fault.unwrap();
    assert_eq!(fault.code, Code::MovedByHand);
    assert!(sample(&lab).axes.iter().all(|a| a.trust == Trust::Referenced), "the controller has counted it");
    let movement = steadyhand::model::Move { stage: Name::new("sample"), aim: support::aim(&[("x", 5.0)]) };
    let ticket = lab.begin_move(movement.clone()).unwrap();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Faulted, Moved::No));
    assert!(e.what.contains("steadyhand resume"), "{e}");
    // No tool releases it.
    assert_eq!(lab.recover("sample").unwrap_err().code, Code::NotPermitted);
    assert_eq!(lab.resume().unwrap(), [Name::new("sample")]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.answer(ticket).unwrap();
    lab.run_ms(3000);
    assert_eq!(sample(&lab).fault, None, "what we move ourselves is nobody's hand");
}

#[test]
fn a_hand_is_noticed_after_a_stop_too() {
    let mut lab = Lab::new(CHAIN, Bench::from_toml(ZABER_TOML).unwrap());
    lab.online();
    let home = Home { stage: Name::new("sample"), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.answer(ticket).unwrap();
    let movement = steadyhand::model::Move { stage: Name::new("sample"), aim: support::aim(&[("x", 40.0)]) };
    let ticket = lab.begin_move(movement).unwrap();
    lab.run_ms(500);
    lab.stop();
    assert_eq!(lab.answer(ticket).unwrap_err().moved, Moved::Yes);
    lab.recover("sample").unwrap();
    lab.run_ms(2000);
    lab.bench.fault("chain", Fault::Knob { axis: "slide".into(), mm: 3.0 }).unwrap();
    let fault = |l: &Lab| l.state().stage("sample").unwrap().fault.as_ref().map(|f| f.code);
    lab.until("the hand is noticed", Duration::from_secs(5), |l| fault(l) == Some(Code::MovedByHand));
}

#[test]
fn neither_a_move_nor_a_stop_nor_a_reconnection_is_taken_for_a_hand() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 41.0)]).unwrap();
    let movement = lab.to(&[("x", 10.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.run_ms(200);
    lab.handle.stop(None, StopBy::Model);
    assert!(lab.answer(ticket).is_err());
    lab.run_ms(3000);
    assert_eq!(lab.scope().fault, None);
    lab.recover("scope").unwrap();
    lab.home().unwrap();
    lab.run_ms(3000);
    assert_eq!(lab.scope().fault, None);
    lab.fault(Fault::Unplug);
    lab.run_ms(2000);
    lab.fault(Fault::Plug);
    lab.online();
    lab.run_ms(3000);
    assert_eq!(lab.scope().fault, None);
}

#[test]
fn a_homing_is_over_when_it_stands_and_not_when_its_driver_says_so() {
    let said = Arc::new(AtomicBool::new(false));
    let mut lab = Lab::around(DEMO, Bench::microscope(3), PersonStop::in_memory(), |stage| {
        let said = said.clone();
        let hook = move |out: &mut Vec<_>| {
            if said.swap(false, Ordering::Relaxed) {
                out.push(StageEvent::Homed);
            }
        };
        Box::new(Hooked(stage, Arc::new(Mutex::new(hook))))
    });
    lab.online();
    let home = Home { stage: Name::new("scope"), axes: vec![] };
    let mut ticket = lab.start(Sequence::home("home scope".into(), home)).expect("an order");
    let moving = |lab: &Lab| ["x", "y", "z"].iter().any(|a| lab.bench.speed_mm_per_s("scope", a) != 0.0);
    lab.until("it moves", Duration::from_secs(5), |lab| moving(lab));
    said.store(true, Ordering::Relaxed);
    lab.run_ms(100);
    assert!(!said.load(Ordering::Relaxed) && moving(&lab), "it was said while it moved");
    assert!(answer_of(&mut ticket).is_none(), "and it is not over");
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    lab.answer(ticket).expect("it is homed in the end");
    assert!(!moving(&lab) && lab.scope().axes.iter().all(|a| a.trust == Trust::Referenced));
}
