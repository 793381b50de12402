//! The rig file's own rules and budgets on the simulated bench and on virtual time: gates refuse or ask, watches trip,
//! budgets are spent by what begins.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::actor::Decision;
use steadyhand::model::{
    Activity, CameraChange, Code, Moved, Name, OutputValue, Report, RigError, SetOutput, Shot, StopBy,
};
use steadyhand::plans::Sequence;
use steadyhand::units::Percent;
use support::{DEMO, Lab};

/// The demonstration's rig with more in its file, online and homed.
fn lab(more: &str) -> Lab {
    let mut lab = Lab::new(&format!("{DEMO}\n{more}"), Bench::microscope(1));
    lab.online();
    lab.home().unwrap();
    lab
}

fn set(lab: &mut Lab, output: &str, value: OutputValue) -> Result<Report, RigError> {
    let set = SetOutput { output: Name::new(output), value };
    let ticket = lab.start(Sequence::output("set".into(), set)).unwrap();
    lab.answer(ticket)
}

fn go(lab: &mut Lab, to: &[(&str, f64)]) -> Result<Report, RigError> {
    lab.move_to(to)
}

fn shutter(lab: &Lab) -> String {
    lab.state().output("shutter").and_then(|o| o.value.clone()).map_or("unknown".into(), |v| v.to_string())
}

fn events(lab: &Lab, kind: &str) -> Vec<String> {
    lab.log.events.lock().iter().filter(|e| e.kind == kind).map(|e| e.what.clone()).collect()
}

fn percent(v: f64) -> OutputValue {
    OutputValue::Percent(Percent::new(v).unwrap())
}

/// `rigs/interlocks.toml` on the simulated bench.
fn example() -> Lab {
    let mut lab = Lab::new(include_str!("../rigs/interlocks.toml"), Bench::microscope(1));
    lab.until("it is online", Duration::from_secs(10), |l| {
        let state = l.state();
        let read = state.stage("scope").is_some_and(|s| s.read_at.is_some());
        let sensed = state.sensors.iter().all(|s| s.value.is_some());
        let seen = state.outputs.iter().all(|o| o.ready && o.value.is_some());
        read && sensed && seen && state.cameras.iter().all(|c| c.ready)
    });
    lab.home().unwrap();
    lab
}

#[test]
fn the_laser_of_the_example_is_off_while_the_lid_is_open() {
    let mut lab = example();
    let e = set(&mut lab, "laser", percent(20.0)).unwrap_err();
    assert!(e.code == Code::Rule && e.what.contains("sensor.lid_closed false"), "the bench's lid is open: {e}");
    assert_eq!(lab.bench.channel("io", "lamp"), "0", "it doesn't even flash");
    assert!(lab.bench.measure("io", "lid", 1.0));
    lab.run_ms(500);
    set(&mut lab, "laser", percent(20.0)).unwrap();
    assert!(lab.bench.measure("io", "lid", 0.0));
    let opened = lab.now();
    lab.until("the laser is out", Duration::from_secs(2), |l| l.bench.channel("io", "lamp") == "0");
    let took = lab.now() - opened;
    assert!(took < Duration::from_millis(250), "{took:?}");
    lab.run_ms(2000);
    let told = events(&lab, "tripped");
    assert_eq!(told.len(), 1, "an open lid doesn't storm: {told:?}");
    assert!(told[0].contains("sensor.lid_closed false") && told[0].contains("laser"), "{told:?}");
    assert_eq!(set(&mut lab, "laser", percent(20.0)).unwrap_err().code, Code::Rule);
    set(&mut lab, "laser", percent(0.0)).unwrap();
    // Nothing is known of a lid whose cable is out.
    assert!(lab.bench.measure("io", "lid", 1.0));
    lab.run_ms(500);
    lab.bench.fault("io", Fault::Unplug).unwrap();
    lab.run_ms(2000);
    assert!(set(&mut lab, "laser", percent(20.0)).is_err());
}

#[test]
fn the_shutter_of_the_example_is_closed_during_slews() {
    let mut lab = example();
    set(&mut lab, "shutter", OutputValue::Open(true)).unwrap();
    go(&mut lab, &[("x", 30.0)]).unwrap();
    assert_eq!((shutter(&lab).as_str(), lab.bench.channel("io", "shutter").as_str()), ("closed", "closed"));
}

#[test]
fn the_example_exposes_only_at_rest() {
    let mut lab = example();
    let away = lab.to(&[("x", 60.0)]);
    let moving = lab.begin_move(away).unwrap();
    lab.until("it moves", Duration::from_secs(3), |l| l.scope().activity == Activity::Moving);
    let rig = lab.handle.rig().clone();
    let shot = Shot { camera: Name::new("main"), change: CameraChange::default() };
    let shot = lab.start(Sequence::picture("shot".into(), &rig, vec![], shot)).unwrap();
    assert_eq!(lab.answer(shot).unwrap_err().code, Code::Rule);
    lab.answer(moving).unwrap();
}

const DARK: &str = r#"
[[rule]]
name = "dark while slewing"
why = "the dye bleaches"
when = "WHEN"
then = "THEN"
require = "output.shutter == 'closed' || stage.scope.speed < 0.1"
"#;

fn dark(when: &str, then: &str) -> String {
    let text = DARK.replace("WHEN", when);
    if then.is_empty() { text.replace("then = \"THEN\"\n", "") } else { text.replace("THEN", then) }
}

#[test]
fn a_gate_refuses_with_the_numbers_the_reason_and_no_motion() {
    let mut lab = lab(&dark("gate", ""));
    set(&mut lab, "shutter", OutputValue::Open(true)).unwrap();
    let from = lab.truly("x");
    let e = go(&mut lab, &[("x", 30.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Rule, Moved::No), "{e}");
    assert!(e.what.contains("output.shutter 'open'") && e.what.contains("stage.scope.speed 20 mm/s"), "{e}");
    assert_eq!(e.refusals[0].why.as_deref(), Some("the dye bleaches"));
    assert_eq!(lab.truly("x"), from);
    // Closing it is never hindered, and then the way is free.
    set(&mut lab, "shutter", OutputValue::Open(false)).unwrap();
    go(&mut lab, &[("x", 30.0)]).unwrap();
}

#[test]
fn a_watch_makes_the_outputs_safe_once_and_the_move_goes_on() {
    let mut lab = lab(&dark("watch", "safe_outputs"));
    set(&mut lab, "shutter", OutputValue::Open(true)).unwrap();
    go(&mut lab, &[("x", 30.0)]).unwrap();
    assert_eq!(shutter(&lab), "closed");
    let told = events(&lab, "tripped");
    assert_eq!(told.len(), 1, "it doesn't storm: {told:?}");
    assert!(told[0].contains("dark while slewing") && told[0].contains("shutter was made safe"), "{told:?}");
    assert!(lab.state().tripped.is_empty(), "at rest it holds again");
}

#[test]
fn a_watch_stops_what_moves_and_latches_with_its_name() {
    let mut lab = lab(&dark("watch", "stop"));
    set(&mut lab, "shutter", OutputValue::Open(true)).unwrap();
    let from = lab.truly("x");
    let e = go(&mut lab, &[("x", 60.0)]).unwrap_err();
    assert_eq!(e.code, Code::Stopped, "{e}");
    assert!(e.what.contains("dark while slewing") && e.refusals[0].why.as_deref() == Some("the dye bleaches"), "{e}");
    lab.run_ms(2000);
    assert!((lab.truly("x") - from).abs() < 10.0 && lab.scope().activity == Activity::Idle);
    assert_eq!(lab.scope().stopped_by, Some(StopBy::Program));
    assert_eq!(events(&lab, "tripped").len(), 1);
    assert_eq!(go(&mut lab, &[("x", 60.0)]).unwrap_err().code, Code::Stopped, "until it is released");
}

#[test]
fn a_watch_that_can_no_longer_be_judged_stops_what_moves() {
    let mut lab = lab(&dark("watch", "stop"));
    let away = lab.to(&[("x", 12.0)]);
    let moving = lab.begin_move(away).unwrap();
    lab.until("it moves", Duration::from_secs(3), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    assert!(events(&lab, "tripped").is_empty(), "the shutter is closed");
    lab.bench.fault("io", Fault::Unplug).unwrap();
    let e = lab.answer(moving).unwrap_err();
    assert_eq!(e.code, Code::Stopped, "{e}");
    assert!(e.what.contains("dark while slewing") && e.what.contains("can't be judged"), "{e}");
    lab.run_ms(2000);
    assert!(lab.truly("x") > 20.0 && lab.scope().activity == Activity::Idle, "{}", lab.truly("x"));
    assert_eq!(lab.scope().stopped_by, Some(StopBy::Program));
}

#[test]
fn nothing_is_exposed_while_a_stage_moves_and_nothing_moves_while_a_camera_exposes() {
    let rule = r#"
[[rule]]
name = "no exposure while moving"
when = "both"
then = "stop"
require = "!(camera.cam.exposing && stage.scope.moving)"
"#;
    let mut lab = lab(rule);
    let shoot = |lab: &mut Lab, ms: f64| {
        let change = CameraChange { exposure_ms: Some(ms), ..CameraChange::default() };
        let rig = lab.handle.rig().clone();
        lab.start(Sequence::picture("shot".into(), &rig, vec![], Shot { camera: Name::new("cam"), change })).unwrap()
    };
    let away = lab.to(&[("x", 60.0)]);
    let moving = lab.begin_move(away).unwrap();
    lab.until("it moves", Duration::from_secs(3), |l| l.scope().activity == Activity::Moving);
    let shot = shoot(&mut lab, 10.0);
    let e = lab.answer(shot).unwrap_err();
    assert!(e.code == Code::Rule && e.what.contains("stage.scope.moving true"), "{e}");
    lab.answer(moving).unwrap();

    let shot = shoot(&mut lab, 1500.0);
    lab.until("it exposes", Duration::from_secs(5), |l| l.state().camera("cam").is_some_and(|c| c.exposing));
    let e = go(&mut lab, &[("x", 30.0)]).unwrap_err();
    assert!(e.code == Code::Rule && e.what.contains("camera.cam.exposing true"), "{e}");
    lab.answer(shot).unwrap();
    go(&mut lab, &[("x", 30.0)]).unwrap();
}

#[test]
fn a_light_stays_off_while_what_guards_it_is_open_and_goes_out_when_it_opens() {
    // The demonstration has no lid: the shutter plays it.
    let rule = r#"
[[rule]]
name = "lamp off while open"
when = "both"
then = "safe_outputs"
require = "output.lamp == 0 || output.shutter == 'closed'"
"#;
    let mut lab = lab(rule);
    set(&mut lab, "lamp", percent(20.0)).unwrap();
    let e = set(&mut lab, "shutter", OutputValue::Open(true)).unwrap_err();
    assert!(e.code == Code::Rule && e.what.contains("output.lamp 20 %"), "a gate sees what would be: {e}");
    set(&mut lab, "lamp", percent(0.0)).unwrap();
    set(&mut lab, "shutter", OutputValue::Open(true)).unwrap();
    let e = set(&mut lab, "lamp", percent(20.0)).unwrap_err();
    assert_eq!(e.code, Code::Rule, "it doesn't even flash: {e}");
}

#[test]
fn a_sensor_that_is_gone_decides_nothing_in_favour_of_a_move() {
    let rule = "[[rule]]\nname = \"not too warm\"\nwhen = \"gate\"\nrequire = \"sensor.temperature < 60.0\"\n";
    let mut lab = lab(rule);
    go(&mut lab, &[("x", 30.0)]).unwrap();
    lab.bench.fault("io", Fault::Unplug).unwrap();
    lab.run_ms(500);
    let e = go(&mut lab, &[("x", 40.0)]).unwrap_err();
    assert!(
        e.code == Code::Rule && e.what.contains("can't be judged") && e.what.contains("temperature unknown"),
        "{e}"
    );
}

const DEEP: &str = "
[[rule]]
name = \"deep focus\"
when = \"gate\"
ASKrequire = \"move.target.scope.z < 3500.0\"
";

#[test]
fn a_rule_about_a_target_is_judged_before_moves_alone_and_names_the_nearest_that_is_allowed() {
    let mut lab = lab(&DEEP.replace("ASK", ""));
    go(&mut lab, &[("z", 2000.0)]).unwrap();
    let movement = lab.to(&[("z", 4000.0)]);
    let verdict = lab.handle.rules().judge_move(&movement, &lab.state(), lab.handle.now()).unwrap();
    assert_eq!(verdict.refusals[0].code, Code::Rule);
    let allowed = verdict.refusals[0].allowed.clone().unwrap();
    assert!(allowed.starts_with("the same move as far as scope.z to 3499.9"), "{allowed}");
    let nearest = verdict.nearest.unwrap()[0].1.in_base();
    assert!((3.49..3.5).contains(&nearest), "{nearest}");
    go(&mut lab, &[("z", nearest * 1000.0)]).unwrap();
    // Homing has no target that is known: the rule has nothing to say to it.
    lab.home().unwrap();
}

#[test]
fn a_rule_that_asks_waits_for_a_person() {
    let mut lab = lab(&DEEP.replace("ASK", "ask = \"operator\"\n"));
    let movement = lab.to(&[("z", 4000.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("a person is asked", Duration::from_secs(10), |l| l.state().approvals().count() == 1);
    let approval = lab.state().approvals().next().cloned().unwrap();
    assert_eq!(approval.asks[0].rule, "deep focus");
    assert!(approval.asks[0].text.contains("move.target.scope.z 4000 um"), "{}", approval.asks[0].text);
    let yes = Decision { yes: true, by: "Ada".into(), reason: None, elicited: false };
    let person = lab.person();
    let decided = lab.handle.decide(&person, &approval.id, yes).unwrap();
    lab.answer(decided).unwrap();
    lab.answer(ticket).unwrap();
    assert!((lab.truly("z") - 4.0).abs() < 0.05);
}

#[test]
fn a_step_that_is_too_long_is_refused_with_the_one_that_is_allowed() {
    let mut lab = lab("[budget]\nmax_step = { \"scope.x\" = 5.0 }\nwhy = \"the slide is loose\"\n");
    let began = lab.scope().axis("x").unwrap().position.unwrap().in_base();
    let far = if began < 40.0 { 20.0 } else { -20.0 };
    let movement = lab.to(&[("x", began + far)]);
    let verdict = lab.handle.rules().judge_move(&movement, &lab.state(), lab.handle.now()).unwrap();
    let e = go(&mut lab, &[("x", began + far)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Budget, Moved::No), "{e}");
    assert!(e.what.contains("20 mm in one move; 5 mm are allowed"), "{e}");
    assert_eq!(e.refusals[0].why.as_deref(), Some("the slide is loose"));
    let nearest = verdict.nearest.unwrap()[0].1.in_base();
    assert!(((nearest - began).abs() - 5.0).abs() < 0.001, "{nearest} from {began}");
    go(&mut lab, &[("x", nearest)]).unwrap();
}

#[test]
fn moves_are_counted_by_the_minute_previews_are_not_and_the_refusal_says_when() {
    let mut lab = lab("[budget]\nmoves_per_minute = 2\n");
    let preview = lab.to(&[("x", 30.0)]);
    for _ in 0..10 {
        lab.handle.rules().judge_move(&preview, &lab.state(), lab.handle.now()).unwrap();
    }
    go(&mut lab, &[("x", 30.0)]).unwrap();
    go(&mut lab, &[("x", 31.0)]).unwrap();
    let e = go(&mut lab, &[("x", 32.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Budget, Moved::No), "{e}");
    let allowed = e.refusals[0].allowed.clone().unwrap();
    assert!(allowed.starts_with("the next move in ") && allowed.ends_with(" s"), "{allowed}");
    let verdict = lab.handle.rules().judge_move(&preview, &lab.state(), lab.handle.now()).unwrap();
    assert_eq!(verdict.refusals[0].code, Code::Budget, "a preview shows it");
    lab.run_ms(60_000);
    go(&mut lab, &[("x", 32.0)]).unwrap();
}

#[test]
fn an_axis_goes_so_far_an_hour_to_and_fro_together() {
    let mut lab = lab("[budget]\ntravel_per_hour = { \"scope.x\" = 50.0 }\n");
    let began = lab.scope().axis("x").unwrap().position.unwrap().in_base();
    let away = if began < 40.0 { 1.0 } else { -1.0 };
    go(&mut lab, &[("x", began + 20.0 * away)]).unwrap();
    go(&mut lab, &[("x", began), ("y", 30.0)]).unwrap();
    let far = lab.to(&[("x", began + 20.0 * away)]);
    let verdict = lab.handle.rules().judge_move(&far, &lab.state(), lab.handle.now()).unwrap();
    let e = go(&mut lab, &[("x", began + 20.0 * away)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Budget, Moved::No), "{e}");
    assert!(e.what.contains("scope.x would go 20 mm, after 40 mm within the last hour; 50 mm are allowed"), "{e}");
    let nearest = verdict.nearest.unwrap().into_iter().find(|(axis, _)| axis.as_str() == "x").unwrap().1.in_base();
    assert!(((nearest - began).abs() - 10.0).abs() < 0.001, "{nearest} from {began}");
    go(&mut lab, &[("x", nearest)]).unwrap();
    go(&mut lab, &[("y", 20.0)]).unwrap();
    assert_eq!(go(&mut lab, &[("x", began)]).unwrap_err().code, Code::Budget);
    lab.run_ms(3_600_000);
    go(&mut lab, &[("x", began)]).unwrap();
}

#[test]
fn a_light_that_has_given_its_dose_is_made_dark_and_stays_dark_until_an_hour_has_passed() {
    let mut lab = lab("[budget]\nlight_dose = { lamp = 400.0 }\nwhy = \"it bleaches\"\n");
    set(&mut lab, "lamp", percent(40.0)).unwrap();
    lab.run_ms(9_000);
    assert!(lab.state().output("lamp").unwrap().value.as_ref().unwrap().is_lit());
    lab.run_ms(1_500);
    assert_eq!(lab.state().output("lamp").unwrap().value, Some(percent(0.0)));
    let told = events(&lab, "tripped");
    assert!(told.len() == 1 && told[0].contains("lamp has given 400 %·s within an hour"), "{told:?}");
    let e = set(&mut lab, "lamp", percent(1.0)).unwrap_err();
    assert_eq!((e.code, e.refusals[0].why.as_deref()), (Code::Budget, Some("it bleaches")), "{e}");
    set(&mut lab, "lamp", percent(0.0)).unwrap();
    lab.run_ms(3_600_000);
    set(&mut lab, "lamp", percent(1.0)).unwrap();
}

#[test]
fn an_exposure_that_would_go_over_the_dose_is_refused_before_its_light_opens() {
    let light = "[budget]\nlight_dose = { lamp = 100.0 }\n\n[[camera]]\nlight = \"lamp\"\nlight_percent = 50";
    let light = DEMO.replacen("[[camera]]", light, 1);
    let mut lab = Lab::new(&light, Bench::microscope(1));
    lab.online();
    let shoot = |lab: &mut Lab, exposure_ms: f64| {
        let change = CameraChange { exposure_ms: Some(exposure_ms), ..CameraChange::default() };
        let shot = Shot { camera: Name::new("cam"), change };
        let rig = lab.handle.rig().clone();
        let ticket = lab.start(Sequence::picture("picture".into(), &rig, vec![], shot)).unwrap();
        lab.answer(ticket)
    };
    shoot(&mut lab, 1000.0).unwrap();
    assert_eq!(lab.state().output("lamp").unwrap().value, Some(percent(0.0)));
    let e = shoot(&mut lab, 1500.0).unwrap_err();
    assert_eq!(e.code, Code::Budget, "{e}");
    assert!(e.what.contains("75 %·s of lamp") && e.what.contains("100 %·s are allowed"), "{e}");
    assert!(e.refusals[0].allowed.as_ref().unwrap().contains("of lamp now"), "{e}");
    shoot(&mut lab, 200.0).unwrap();
}
