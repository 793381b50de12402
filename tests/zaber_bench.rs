//! The example chain on its bench: two stages that share a line, with what only a chain has.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault, ZABER_TOML};
use steadyhand::actor::Ticket;
use steadyhand::model::{
    Activity, AxisId, Code, Home, Move, Moved, Name, Report, RigError, StageStatus, StopBy, Trust,
};
use steadyhand::plans::Sequence;
use steadyhand::units::Position;
use support::{Lab, aim};

fn lab() -> Lab {
    let mut lab = Lab::new(include_str!("../rigs/zaber-chain.toml"), Bench::from_toml(ZABER_TOML).expect("the bench"));
    lab.online();
    lab
}

fn home(lab: &mut Lab, stage: &str) -> Result<Report, RigError> {
    let home = Home { stage: Name::new(stage), axes: vec![] };
    let ticket = lab.start(Sequence::home("home".into(), home)).unwrap();
    lab.answer(ticket)
}

fn homed() -> Lab {
    let mut lab = lab();
    home(&mut lab, "focus").expect("homing");
    home(&mut lab, "sample").expect("homing");
    lab
}

/// Targets in mm.
fn begin(lab: &mut Lab, stage: &str, targets: &[(&str, f64)]) -> Ticket<Report> {
    let movement = Move { stage: Name::new(stage), aim: aim(targets) };
    lab.begin_move(movement).unwrap()
}

fn go(lab: &mut Lab, stage: &str, targets: &[(&str, f64)]) -> Result<Report, RigError> {
    let ticket = begin(lab, stage, targets);
    lab.answer(ticket)
}

fn stage(lab: &Lab, name: &str) -> StageStatus {
    lab.state().stage(name).unwrap().clone()
}

fn fault(lab: &mut Lab, fault: Fault) {
    lab.bench.fault("chain", fault).expect("a fault of the bench");
}

/// Where the bench's carriage is in rig coordinates, in mm: the counter begins 500 microsteps beyond the home sensor.
fn truly(lab: &Lab, axis: &str) -> f64 {
    let beyond = if axis == "focus" { 500.0 / 5249.344 } else { 500.0 / 2015.748 };
    lab.bench.carriage_mm("chain", axis) - beyond
}

#[test]
fn the_example_drives_its_bench() {
    let mut lab = homed();
    go(&mut lab, "sample", &[("x", 12.0), ("y", 30.0)]).unwrap();
    go(&mut lab, "focus", &[("z", 7.5)]).unwrap();
    assert!((truly(&lab, "focus") - 7.5).abs() < 0.002, "{}", truly(&lab, "focus"));
    assert!((truly(&lab, "tilt") - 12.0).abs() < 0.01, "{}", truly(&lab, "tilt"));
    assert!((truly(&lab, "slide") - 20.0).abs() < 0.01, "its sign turns it round: {}", truly(&lab, "slide"));
    let identity = stage(&lab, "sample").identity.unwrap();
    assert_eq!((identity.serial.as_str(), identity.firmware.as_str()), ("41002", "7.35"));
    assert!(!identity.notes.iter().any(|n| n.contains("own limits")), "the travel fits: {:?}", identity.notes);
}

#[test]
fn axes_that_move_independently_are_judged_by_all_that_they_can_pass() {
    let mut lab = homed();
    go(&mut lab, "sample", &[("y", 30.0)]).unwrap();
    go(&mut lab, "sample", &[("x", 49.0)]).unwrap();
    // The straight line passes the clamp by 4 mm; y may be there before x has left.
    let e = go(&mut lab, "sample", &[("x", 20.0), ("y", 48.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::KeepOut, Moved::No));
    go(&mut lab, "sample", &[("x", 20.0)]).unwrap();
    go(&mut lab, "sample", &[("y", 48.0)]).unwrap();
}

#[test]
fn an_encoder_sees_a_jam_and_the_trust_goes_with_it() {
    let mut lab = homed();
    go(&mut lab, "sample", &[("x", 10.0)]).unwrap();
    let ticket = begin(&mut lab, "sample", &[("x", 30.0)]);
    lab.run_ms(500);
    fault(&mut lab, Fault::Jam { axis: "tilt".into() });
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stalled, Moved::Yes), "{e}");
    assert!(stage(&lab, "sample").axes.iter().all(|a| a.trust == Trust::Unknown));
    assert_eq!(
        stage(&lab, "focus").axes[0].trust,
        Trust::Referenced,
        "the other stage of the chain is as good as before"
    );
}

#[test]
fn a_knob_moves_the_axis_is_told_and_costs_no_trust() {
    let mut lab = homed();
    go(&mut lab, "focus", &[("z", 5.0)]).unwrap();
    fault(&mut lab, Fault::Knob { axis: "focus".into(), mm: 0.5 });
    lab.until("it is seen moving", Duration::from_secs(3), |l| stage(l, "focus").activity == Activity::Moving);
    lab.until("and standing", Duration::from_secs(5), |l| stage(l, "focus").activity == Activity::Idle);
    lab.run_ms(1000);
    let focus = stage(&lab, "focus");
    assert_eq!(focus.axes[0].trust, Trust::Referenced);
    assert!((focus.axes[0].position.unwrap().in_base() - 5.5).abs() < 0.01);
    assert!(lab.log.events.lock().iter().any(|e| e.what.contains("NC, manual control")));
    assert_eq!(go(&mut lab, "focus", &[("z", 5.0)]).unwrap_err().code, Code::Faulted, "it is the hand's");
    lab.resume().unwrap();
    go(&mut lab, "focus", &[("z", 5.0)]).unwrap();
}

#[test]
fn one_stage_stops_and_the_other_goes_on() {
    let mut lab = homed();
    let a = begin(&mut lab, "sample", &[("x", 40.0), ("y", 10.0)]);
    let b = begin(&mut lab, "focus", &[("z", 18.0)]);
    lab.until("all move", Duration::from_secs(3), |l| {
        ["focus", "tilt", "slide"].iter().all(|a| l.bench.speed_mm_per_s("chain", a).abs() > 0.5)
    });
    lab.handle.stop(Some(&Name::new("sample")), StopBy::Model);
    assert_eq!(lab.answer(a).unwrap_err().code, Code::Stopped);
    assert_eq!(lab.bench.speed_mm_per_s("chain", "tilt"), 0.0);
    assert!(lab.bench.speed_mm_per_s("chain", "focus").abs() > 0.5);
    lab.answer(b).unwrap();
    assert!((truly(&lab, "focus") - 18.0).abs() < 0.002);
}

#[test]
fn while_one_stage_has_not_ended_its_move_another_keeps_away_from_where_that_leads() {
    // The focus may not go above 20 mm; above 19.8 mm the sample may not pass by it.
    let rig = format!(
        "{}\n[[keep_out]]\nname = \"ceiling\"\nboxes = [{{ \"focus.z\" = [20_000.0, 25_000.0] }}]\n\
         [[keep_out]]\nname = \"beside\"\nboxes = [{{ \"sample.x\" = [20.0, 30.0], \"focus.z\" = [19_800.0, 25_000.0] }}]\n",
        include_str!("../rigs/zaber-chain.toml")
    );
    let mut lab = Lab::new(&rig, Bench::from_toml(ZABER_TOML).expect("the bench"));
    lab.online();
    // Each might be in the other's way, until a person has said that one is not.
    assert_eq!(home(&mut lab, "focus").unwrap_err().code, Code::KeepOut);
    assert_eq!(home(&mut lab, "sample").unwrap_err().code, Code::KeepOut);
    let (id, at) = (AxisId::new("focus", "z"), Position::base(truly(&lab, "focus")).unwrap());
    let ticket = lab.handle.reference(&lab.person(), &id, at).unwrap();
    lab.answer(ticket).unwrap();
    home(&mut lab, "sample").expect("homing");
    home(&mut lab, "focus").expect("homing");
    go(&mut lab, "sample", &[("x", 10.0)]).unwrap();
    go(&mut lab, "focus", &[("z", 17.0)]).unwrap();
    let across = Move { stage: Name::new("sample"), aim: aim(&[("x", 40.0)]) };
    let judged = |l: &Lab| l.handle.rules().judge_move(&across, &l.state(), l.handle.now()).unwrap().refusals;
    assert_eq!(judged(&lab), []);
    // It goes as far as it may, slowly at the end: a move of two parts, between which it rests.
    let mut ticket = begin(&mut lab, "focus", &[("z", 19.95)]);
    lab.until("it moves", Duration::from_secs(5), |l| stage(l, "focus").activity == Activity::Moving);
    let (mut parts, mut was) = (1, Activity::Moving);
    lab.until("it has ended", Duration::from_secs(60), |l| {
        let now = stage(l, "focus").activity;
        parts += u32::from(was == Activity::Idle && now == Activity::Moving);
        was = now;
        let over = support::answer_of(&mut ticket).is_some();
        let refusals = judged(l);
        assert!(over || refusals.iter().any(|r| r.rule == "beside"), "{now:?}: {refusals:?}");
        over
    });
    assert_eq!(parts, 2);
    assert_eq!(go(&mut lab, "sample", &[("x", 40.0)]).unwrap_err().code, Code::KeepOut, "and there it stands");
    go(&mut lab, "focus", &[("z", 17.0)]).unwrap();
    go(&mut lab, "sample", &[("x", 40.0)]).unwrap();
    assert!((truly(&lab, "tilt") - 40.0).abs() < 0.01);
}
