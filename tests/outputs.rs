//! Outputs and sensors under the rig thread, on the simulated bench and on virtual time.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::actor::Ticket;
use steadyhand::model::{
    Caller, Code, Moved, Name, OutputStatus, OutputValue, Report, RigError, SensorValue, SetOutput, StopBy, Way,
};
use steadyhand::plans::Sequence;
use steadyhand::units::Percent;
use support::{DEMO, Lab, answer_of, stage_only};

/// What hangs on the stage's own controller, besides the stage.
const ON_GRBL: &str = r#"
[[output]]
id = "blind"
driver = "grbl-coolant"
link = "scope-port"
kind = "shutter"
on_stop = "safe"
safe = "closed"
delay_ms = 40

[[output]]
id = "laser"
driver = "grbl-spindle"
link = "scope-port"
kind = "light"
max_percent = 50
on_stop = "safe"
safe = 0

[[sensor]]
id = "x-switch"
driver = "grbl-pins"
link = "scope-port"
kind = "digital"
channel = "X"
poll_ms = 200
"#;

const BY_HAND: &str = r#"
[[output]]
id = "turret"
driver = "manual"
kind = "wheel"
positions = ["10x", "40x"]
on_stop = "keep"
confirm_s = 60
why = "raise the focus before turning it"
"#;

fn percent(v: f64) -> OutputValue {
    OutputValue::Percent(Percent::new(v).unwrap())
}

fn position(name: &str) -> OutputValue {
    OutputValue::At(Name::new(name))
}

const OPEN: OutputValue = OutputValue::Open(true);
const CLOSED: OutputValue = OutputValue::Open(false);

fn begin(lab: &mut Lab, output: &str, value: OutputValue) -> Ticket<Report> {
    let set = SetOutput { output: Name::new(output), value };
    lab.start(Sequence::output(format!("set {output}"), set)).expect("room in the queue")
}

fn set(lab: &mut Lab, output: &str, value: OutputValue) -> Result<Report, RigError> {
    let ticket = begin(lab, output, value);
    lab.answer(ticket)
}

/// Whether the output has a fault.
fn faulty(lab: &Lab, name: &str) -> bool {
    lab.state().output(name).is_some_and(|o| o.fault.is_some())
}

fn output(lab: &Lab, name: &str) -> OutputStatus {
    lab.state().output(name).expect("an output").clone()
}

fn value(lab: &Lab, name: &str) -> Option<OutputValue> {
    output(lab, name).value
}

/// The demonstration's rig with all outputs there and safe.
fn ready() -> Lab {
    let mut lab = Lab::demo(1);
    lab.online();
    settled(&mut lab);
    lab
}

fn settled(lab: &mut Lab) {
    lab.until("all outputs ready", Duration::from_secs(10), |l| {
        l.state().outputs.iter().all(|o| o.ready && o.value.is_some() || o.link.port.is_empty())
    });
}

/// A rig whose controller has outputs too, homed.
fn on_grbl() -> Lab {
    let mut lab = Lab::new(&format!("{}{ON_GRBL}", stage_only()), Bench::microscope(1));
    lab.online();
    settled(&mut lab);
    lab.home().expect("homing");
    lab
}

#[test]
fn a_light_is_set_when_it_reads_so_and_its_delay_is_over_and_the_specimen_is_brighter() {
    let mut lab = ready();
    let dark = lab.bench.light();
    set(&mut lab, "shutter", OPEN).unwrap();
    let before = lab.now();
    let report = set(&mut lab, "lamp", percent(40.0)).unwrap();
    assert!(lab.now() - before >= Duration::from_millis(20), "the lamp's delay is waited for");
    assert_eq!((report.moved, report.outputs[0].value.clone()), (Moved::Yes, Some(percent(40.0))));
    assert_eq!(lab.bench.channel("io", "lamp"), "40");
    assert!((lab.bench.light() - dark - 0.8).abs() < 1e-6, "{}", lab.bench.light());
    let again = set(&mut lab, "lamp", percent(40.0)).unwrap();
    assert_eq!(again.moved, Moved::No, "it was so already");
    let intents: Vec<String> =
        lab.log.events.lock().iter().filter(|e| e.kind == "intent").map(|e| e.what.clone()).collect();
    assert_eq!(intents, ["set shutter", "set lamp", "set lamp"], "each change has its line in the audit log first");
}

#[test]
fn nothing_is_set_that_the_audit_log_could_not_take() {
    let mut lab = ready();
    lab.log.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(set(&mut lab, "shutter", OPEN).unwrap_err().code, Code::StorageFailed);
    assert_eq!(lab.bench.channel("io", "shutter"), "closed");
}

#[test]
fn a_wheel_is_turned_by_name_and_is_nowhere_while_it_turns() {
    let mut lab = ready();
    assert_eq!(value(&lab, "filter"), Some(position("empty")));
    let ticket = begin(&mut lab, "filter", position("dapi"));
    lab.until("it turns", Duration::from_secs(1), |l| l.bench.channel("io", "filter") == "moving");
    lab.run_ms(100);
    assert_eq!(value(&lab, "filter"), None);
    assert_eq!(output(&lab, "filter").target, Some(position("dapi")));
    lab.answer(ticket).unwrap();
    assert_eq!((value(&lab, "filter"), lab.bench.channel("io", "filter")), (Some(position("dapi")), "3".into()));
}

#[test]
fn what_an_output_cannot_be_is_refused_with_the_owners_reason_and_nothing_goes_out() {
    let mut lab = ready();
    let too_bright = set(&mut lab, "lamp", percent(81.0)).unwrap_err();
    assert_eq!((too_bright.code, too_bright.moved), (Code::InvalidArgument, Moved::No));
    assert!(too_bright.what.contains("81 %") && too_bright.what.contains("80 %"), "{}", too_bright.what);
    assert_eq!(too_bright.refusals[0].why.as_deref(), Some("above 80 % the lamp ages fast"));
    for (name, wrong) in [("filter", position("cy5")), ("filter", OPEN), ("shutter", percent(1.0))] {
        assert_eq!(set(&mut lab, name, wrong).unwrap_err().code, Code::InvalidArgument);
    }
    assert_eq!(set(&mut lab, "lantern", OPEN).unwrap_err().code, Code::NotFound);
    assert_eq!((lab.bench.channel("io", "lamp"), lab.bench.channel("io", "filter")), ("0".into(), "1".into()));
}

#[test]
fn an_output_that_does_not_follow_fails_and_is_made_safe() {
    let mut lab = ready();
    lab.bench.fault("io", Fault::Stuck { channel: "lamp".into(), on: true }).unwrap();
    let e = set(&mut lab, "lamp", percent(40.0)).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::OutputFailed, Moved::Unknown));
    assert!(e.what.contains("was set to 40 % and reads 0 %"), "{}", e.what);
    assert_eq!(output(&lab, "lamp").fault.unwrap().code, Code::OutputFailed);
    assert_eq!(set(&mut lab, "lamp", percent(40.0)).unwrap_err().code, Code::Faulted);
    lab.bench.fault("io", Fault::Stuck { channel: "lamp".into(), on: false }).unwrap();
    lab.recover("lamp").unwrap();
    set(&mut lab, "lamp", percent(40.0)).unwrap();
}

#[test]
fn a_stop_of_everything_makes_safe_what_shall_be_and_leaves_what_shall_stay() {
    let mut lab = ready();
    set(&mut lab, "shutter", OPEN).unwrap();
    set(&mut lab, "lamp", percent(40.0)).unwrap();
    set(&mut lab, "filter", position("gfp")).unwrap();
    lab.stop();
    lab.until("dark", Duration::from_secs(1), |l| {
        l.bench.channel("io", "lamp") == "0" && l.bench.channel("io", "shutter") == "closed"
    });
    lab.until("read so", Duration::from_secs(1), |l| {
        value(l, "lamp") == Some(percent(0.0)) && value(l, "shutter") == Some(CLOSED)
    });
    assert_eq!(lab.bench.channel("io", "filter"), "2");
    let e = set(&mut lab, "shutter", OPEN).unwrap_err();
    assert_eq!((e.code, lab.bench.channel("io", "shutter")), (Code::Stopped, "closed".into()));
    set(&mut lab, "filter", position("empty")).unwrap();
    lab.recover("shutter").unwrap();
    set(&mut lab, "shutter", OPEN).unwrap();
}

#[test]
fn a_stop_of_one_stage_leaves_the_outputs_alone() {
    let mut lab = ready();
    set(&mut lab, "shutter", OPEN).unwrap();
    lab.handle.stop(Some(&Name::new("scope")), StopBy::Model);
    lab.run_ms(1000);
    assert_eq!((lab.bench.channel("io", "shutter"), output(&lab, "shutter").stopped_by), ("open".into(), None));
}

#[test]
fn what_a_person_made_safe_no_tool_releases() {
    let mut lab = ready();
    lab.handle.stop(None, StopBy::Person);
    lab.run_ms(500);
    assert_eq!(lab.recover("shutter").unwrap_err().code, Code::NotPermitted);
    assert_eq!(set(&mut lab, "shutter", OPEN).unwrap_err().code, Code::Stopped);
    // That person's release ends it for all.
    let ticket = lab.handle.resume(&person(), None).unwrap();
    let released = lab.answer(ticket).unwrap();
    assert_eq!(released, ["scope", "lamp", "shutter"].map(Name::new));
    set(&mut lab, "shutter", OPEN).unwrap();
}

#[test]
fn a_port_that_is_lent_leaves_its_outputs_unknown_and_they_are_made_safe_when_it_is_back() {
    let mut lab = ready();
    set(&mut lab, "shutter", OPEN).unwrap();
    let ticket = lab.handle.release(&person(), &Name::new("lamp")).unwrap();
    assert_eq!(lab.answer(ticket).unwrap(), ["lamp", "shutter", "filter", "temperature"].map(Name::new));
    lab.run_ms(1000);
    let lent = output(&lab, "shutter");
    assert_eq!((lent.ready, lent.value, lent.fault.unwrap().code), (false, None, Code::Released));
    let ticket = lab.handle.reclaim(&person(), &Name::new("shutter")).unwrap();
    lab.answer(ticket).unwrap();
    settled(&mut lab);
    assert_eq!(lab.bench.channel("io", "shutter"), "closed");
}

#[test]
fn after_a_lost_connection_an_output_is_unknown_and_is_made_safe_before_anything_else() {
    let mut lab = ready();
    set(&mut lab, "shutter", OPEN).unwrap();
    set(&mut lab, "filter", position("gfp")).unwrap();
    lab.bench.fault("io", Fault::Unplug).unwrap();
    lab.until("lost", Duration::from_secs(2), |l| !output(l, "shutter").ready);
    assert_eq!(value(&lab, "shutter"), None);
    assert_eq!(output(&lab, "shutter").fault.unwrap().code, Code::Unplugged);
    assert_eq!(lab.bench.channel("io", "shutter"), "open", "nobody could tell it anything");
    assert_eq!(set(&mut lab, "shutter", OPEN).unwrap_err().code, Code::Unplugged);
    let since = lab.bench.received("io").len();
    lab.bench.fault("io", Fault::Plug).unwrap();
    // Ordered before it is back: it waits for it to be safe.
    settled(&mut lab);
    assert_eq!((lab.bench.channel("io", "shutter"), value(&lab, "shutter")), ("closed".into(), Some(CLOSED)));
    assert_eq!(value(&lab, "filter"), Some(position("gfp")), "what shall stay is only read");
    let heard: Vec<u8> = lab.bench.received("io")[since..].iter().map(|(_, b)| *b).collect();
    let lines = String::from_utf8(heard).unwrap();
    let sets: Vec<&str> = lines.lines().filter(|l| l.starts_with("SET")).collect();
    assert_eq!(sets, ["SET shutter closed", "SET lamp 0"], "{lines}");
}

#[test]
fn a_program_that_starts_finds_the_light_on_and_makes_it_safe_first() {
    let mut lab = ready();
    set(&mut lab, "shutter", OPEN).unwrap();
    let bench = std::mem::replace(&mut lab.bench, Bench::microscope(2));
    drop(lab);
    let mut lab = Lab::new(DEMO, bench);
    assert_eq!(lab.bench.channel("io", "shutter"), "open");
    lab.online();
    settled(&mut lab);
    assert_eq!(lab.bench.channel("io", "shutter"), "closed");
}

#[test]
fn the_end_of_the_program_makes_safe_and_says_when_it_could_not() {
    for stuck in [false, true] {
        let mut lab = ready();
        set(&mut lab, "lamp", percent(40.0)).unwrap();
        set(&mut lab, "filter", position("gfp")).unwrap();
        lab.bench.fault("io", Fault::Stuck { channel: "lamp".into(), on: stuck }).unwrap();
        let caller = lab.caller.clone();
        let ticket = lab.handle.shutdown(&caller).unwrap();
        let ended = lab.answer(ticket);
        if stuck {
            let e = ended.unwrap_err();
            assert!(e.code == Code::OutputFailed && e.what.contains("lamp"), "{e}");
        } else {
            ended.unwrap();
            assert_eq!((lab.bench.channel("io", "lamp"), lab.bench.channel("io", "filter")), ("0".into(), "2".into()));
        }
    }
}

#[test]
fn a_sensor_is_read_at_its_rate_and_what_is_outside_its_range_is_told() {
    let mut lab = ready();
    lab.run_ms(3000);
    let read = lab.state().sensor("temperature").unwrap().clone();
    let Some(SensorValue::Number(v)) = read.value else { panic!("{read:?}") };
    assert!((v - 21.5).abs() < 0.06 && read.in_range, "{v}");
    assert!(lab.now() - read.read_at.unwrap().0 < Duration::from_millis(1200));
    assert!(lab.bench.measure("io", "temperature", 400.0));
    lab.run_ms(1500);
    assert!(!lab.state().sensor("temperature").unwrap().in_range);
    assert!(lab.log.events.lock().iter().any(|e| e.kind == "out_of_range" && e.what.contains("-20 to 80 degC")));
    lab.bench.fault("io", Fault::Unplug).unwrap();
    lab.until("lost", Duration::from_secs(2), |l| l.state().sensor("temperature").unwrap().value.is_none());
}

/// The demonstration with a camera whose light is the shutter, or the lamp.
fn lit_by(light: &str) -> Lab {
    let camera = "axes = { right = \"+scope.x\", up = \"-scope.y\" }\n";
    let rig = DEMO.replacen(camera, &format!("{camera}{light}\n"), 1).replacen("delay_ms = 20", "delay_ms = 700", 1);
    let mut lab = Lab::new(&rig, Bench::microscope(1));
    lab.online();
    settled(&mut lab);
    lab
}

fn mean(report: &Report) -> f64 {
    let steadyhand::model::Pixels::U16(p) = &report.frames[0].pixels else { panic!("12 bits") };
    p.iter().map(|v| f64::from(*v)).sum::<f64>() / p.len() as f64
}

#[test]
fn an_exposure_waits_for_its_lights_delay_and_puts_the_light_back() {
    let mut lab = lit_by("light = \"lamp\"\nlight_percent = 80");
    let mut plain = ready();
    let without = mean(&plain.shoot().unwrap());
    set(&mut lab, "shutter", OPEN).unwrap();
    let began = lab.now();
    let report = lab.shoot().unwrap();
    let frame = &report.frames[0];
    assert!(frame.asked_at.0 - began >= Duration::from_millis(700), "{:?} {began:?}", frame.asked_at);
    assert!(mean(&report) > 1.3 * without, "{} {without}", mean(&report));
    assert_eq!((lab.bench.channel("io", "lamp"), value(&lab, "lamp")), ("0".into(), Some(percent(0.0))));
    // A light that somebody has set stays as it is.
    set(&mut lab, "lamp", percent(10.0)).unwrap();
    lab.shoot().unwrap();
    assert_eq!(lab.bench.channel("io", "lamp"), "10");
}

#[test]
fn a_light_that_cannot_be_opened_is_no_exposure_and_one_that_was_opened_does_not_stay_so() {
    let mut lab = lit_by("light = \"shutter\"");
    lab.bench.fault("io", Fault::Stuck { channel: "shutter".into(), on: true }).unwrap();
    let e = lab.shoot().unwrap_err();
    assert_eq!((e.code, e.device), (Code::OutputFailed, Some(Name::new("shutter"))));
    lab.bench.fault("io", Fault::Stuck { channel: "shutter".into(), on: false }).unwrap();
    lab.recover("shutter").unwrap();
    // The caller goes while it exposes.
    let shot = steadyhand::model::Shot { camera: Name::new("cam"), change: Default::default() };
    let rig = lab.handle.rig().clone();
    let ticket = lab.start(Sequence::picture("picture".into(), &rig, vec![], shot)).unwrap();
    lab.until("it exposes", Duration::from_secs(5), |l| l.state().cameras[0].exposing);
    assert_eq!(lab.bench.channel("io", "shutter"), "open");
    drop(ticket);
    lab.until("closed", Duration::from_secs(2), |l| l.bench.channel("io", "shutter") == "closed");
}

#[test]
fn a_shutter_on_the_coolant_output_is_toggled_only_when_it_is_known_to_be_otherwise() {
    let mut lab = on_grbl();
    assert_eq!((value(&lab, "blind"), value(&lab, "laser")), (Some(CLOSED), Some(percent(0.0))));
    let since = lab.now();
    let began = lab.now();
    assert_eq!(set(&mut lab, "blind", OPEN).unwrap().moved, Moved::Yes);
    assert!(lab.now() - began >= Duration::from_millis(40), "its delay");
    assert!((lab.bench.light() - 2.0).abs() < 1e-9, "the flood lamp burns: {}", lab.bench.light());
    assert_eq!(set(&mut lab, "blind", OPEN).unwrap().moved, Moved::No);
    assert_eq!(lab.heard_since(since).iter().filter(|b| **b == 0xA0).count(), 1);
    set(&mut lab, "blind", CLOSED).unwrap();
    assert!((lab.bench.light() - 1.0).abs() < 1e-9);
}

#[test]
fn a_toggle_that_was_not_heeded_while_it_jogs_is_sent_again_and_never_one_too_many() {
    let mut lab = on_grbl();
    set(&mut lab, "blind", OPEN).unwrap();
    let movement = lab.to(&[("x", 40.0)]);
    let _ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    lab.stop();
    lab.until("dark", Duration::from_secs(4), |l| (l.bench.light() - 1.0).abs() < 1e-9);
    lab.run_ms(3000);
    assert_eq!(value(&lab, "blind"), Some(CLOSED));
    assert!((lab.bench.light() - 1.0).abs() < 1e-9, "it stays closed");
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
}

#[test]
fn the_stop_byte_of_the_axes_goes_out_before_the_outputs_are_made_safe() {
    let mut lab = on_grbl();
    set(&mut lab, "blind", OPEN).unwrap();
    let movement = lab.to(&[("x", 40.0)]);
    let _ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    let since = lab.now();
    lab.stop();
    lab.run_ms(200);
    let stop = lab.heard_at(since, 0x85).expect("the jog is cancelled");
    let dark = lab.heard_at(since, 0xA0).expect("the shutter is toggled");
    assert!(stop < dark, "{stop:?} {dark:?}");
}

#[test]
fn the_spindle_light_is_set_only_while_the_axes_stand() {
    let mut lab = on_grbl();
    set(&mut lab, "laser", percent(25.0)).unwrap();
    assert!((lab.bench.light() - 1.75).abs() < 0.01, "{}", lab.bench.light());
    let movement = lab.to(&[("x", 40.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    let e = set(&mut lab, "laser", percent(10.0)).unwrap_err();
    assert!(e.code == Code::Busy && e.what.contains("only while its axes stand"), "{e}");
    lab.stop();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped);
    lab.until("dark", Duration::from_secs(4), |l| (l.bench.light() - 1.0).abs() < 1e-9);
    lab.until("read so", Duration::from_secs(4), |l| value(l, "laser") == Some(percent(0.0)));
    assert!(lab.truly("x") > 41.0, "it was stopped on its way");
    assert_eq!(set(&mut lab, "laser", percent(51.0)).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn after_a_replug_the_controllers_outputs_are_made_safe_and_its_stage_works_on() {
    let mut lab = on_grbl();
    set(&mut lab, "blind", OPEN).unwrap();
    set(&mut lab, "laser", percent(25.0)).unwrap();
    lab.fault(Fault::Unplug);
    lab.until("lost", Duration::from_secs(3), |l| value(l, "blind").is_none() && value(l, "laser").is_none());
    assert!(lab.bench.light() > 2.0);
    lab.fault(Fault::Plug);
    settled(&mut lab);
    assert_eq!((value(&lab, "blind"), value(&lab, "laser")), (Some(CLOSED), Some(percent(0.0))));
    assert!((lab.bench.light() - 1.0).abs() < 1e-9, "{}", lab.bench.light());
    lab.home().unwrap();
}

#[test]
fn a_controller_without_a_stage_has_outputs_and_pins_all_the_same() {
    let text = stage_only();
    let (head, _) = text.split_once("[[stage]]").unwrap();
    let head = head.replace("scan = { x = \"scope.x\", y = \"scope.y\", focus = \"scope.z\", unit = \"um\" }", "");
    let mut lab = Lab::new(&format!("{head}{ON_GRBL}"), Bench::microscope(1));
    lab.until("there", Duration::from_secs(10), |l| l.state().outputs.iter().all(|o| o.ready && o.value.is_some()));
    lab.until("read", Duration::from_secs(2), |l| l.state().sensor("x-switch").is_some_and(|s| s.value.is_some()));
    assert_eq!(lab.state().sensor("x-switch").unwrap().value, Some(SensorValue::On(false)));
    lab.fault(Fault::Limit { axis: "x".into(), pressed: true });
    lab.run_ms(600);
    assert_eq!(lab.state().sensor("x-switch").unwrap().value, Some(SensorValue::On(true)));
}

#[test]
fn a_laser_mode_controller_is_said_to_be_none_for_a_light() {
    let mut lab = Lab::new(&format!("{}{ON_GRBL}", stage_only()), Bench::microscope(1));
    lab.bench.advance(Duration::from_secs(2));
    lab.bench.write("scope", b"$X\n$32=1\n");
    lab.bench.advance(Duration::from_secs(3));
    let bench = std::mem::replace(&mut lab.bench, Bench::microscope(2));
    let mut lab = Lab::new(&format!("{}{ON_GRBL}", stage_only()), bench);
    lab.until("said", Duration::from_secs(10), |l| faulty(l, "laser"));
    let fault = output(&lab, "laser").fault.unwrap();
    assert!(fault.code == Code::Unsupported && fault.what.contains("$32"), "{fault:?}");
    settled_one(&mut lab, "blind");
}

fn settled_one(lab: &mut Lab, name: &str) {
    lab.until("ready", Duration::from_secs(5), |l| output(l, name).ready);
}

/// A rig with something that is done by hand, and the job that waits for it.
fn by_hand() -> (Lab, Ticket<Report>) {
    let mut lab = Lab::new(&format!("{DEMO}{BY_HAND}"), Bench::microscope(1));
    lab.online();
    settled(&mut lab);
    let ticket = begin(&mut lab, "turret", position("40x"));
    lab.until("a person is asked", Duration::from_secs(2), |l| l.state().jobs.iter().any(|j| j.waits_for.is_some()));
    (lab, ticket)
}

fn person() -> Caller {
    Caller { id: Name::new("cli"), client: "ada's terminal".into(), way: Way::Cli }
}

fn confirm(lab: &mut Lab, done: bool) -> Result<(), RigError> {
    let job = lab.state().jobs.iter().find(|j| j.waits_for.is_some()).map(|j| j.id);
    let caller = person();
    let ticket = lab.handle.confirm(&caller, job.unwrap_or(steadyhand::model::JobId(999)), done, "ada").unwrap();
    lab.answer(ticket)
}

#[test]
fn what_is_done_by_hand_waits_for_a_person_and_is_then_assumed() {
    let (mut lab, mut ticket) = by_hand();
    assert_eq!(value(&lab, "turret"), None, "nobody has said yet where it is");
    let asked = lab.state().jobs.iter().find_map(|j| j.waits_for.clone()).unwrap();
    assert!(asked.contains("turn turret to 40x") && asked.contains("raise the focus"), "{asked}");
    lab.run_ms(5000);
    assert!(answer_of(&mut ticket).is_none());
    let job = lab.state().jobs.iter().find(|j| j.waits_for.is_some()).unwrap().id;
    let nobody = lab.caller.clone();
    let ticket_of_a_model = lab.handle.confirm(&nobody, job, true, "me").unwrap();
    assert_eq!(lab.answer(ticket_of_a_model).unwrap_err().code, Code::NotPermitted, "a model is no person");
    confirm(&mut lab, true).unwrap();
    let report = lab.answer(ticket).unwrap();
    assert_eq!((report.moved, value(&lab, "turret")), (Moved::Yes, Some(position("40x"))));
    assert!(output(&lab, "turret").assumed, "nothing reads it back");
    assert!(lab.log.events.lock().iter().any(|e| e.kind == "confirmed" && e.what.contains("ada")));
    assert_eq!(confirm(&mut lab, true).unwrap_err().code, Code::NotFound, "nothing waits any more");
}

#[test]
fn a_person_may_refuse_and_one_who_never_answers_leaves_it_unknown() {
    let (mut lab, ticket) = by_hand();
    confirm(&mut lab, false).unwrap();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::RefusedByPerson, Moved::No));

    let (mut lab, ticket) = by_hand();
    let began = lab.now();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved, value(&lab, "turret")), (Code::Expired, Moved::Unknown, None));
    assert!(e.what.contains("within 60 s") && lab.now() - began > Duration::from_secs(55), "{e}");
}

#[test]
fn a_stop_ends_the_wait_for_a_person() {
    let (mut lab, ticket) = by_hand();
    lab.stop();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped);
    assert_eq!((value(&lab, "turret"), output(&lab, "turret").waits_for), (None, None));
    assert_eq!(confirm(&mut lab, true).unwrap_err().code, Code::NotFound);
}

#[test]
fn i06_a_stage_and_outputs_on_one_port_are_used_at_once_and_no_answer_is_taken_for_anothers() {
    let mut lab = on_grbl();
    lab.fault(Fault::Delay { ms: 7 });
    let (mut open, mut sets) = (false, 0);
    for x in [60.0, 40.0, 55.0, 45.0] {
        let movement = lab.to(&[("x", x)]);
        let mut moving = lab.begin_move(movement).unwrap();
        let mut done = None;
        // The stage is polled and moves meanwhile; not every version heeds the toggle before it stands.
        while done.is_none() {
            let mut setting = begin(&mut lab, "blind", OutputValue::Open(!open));
            let mut set = None;
            while set.is_none() {
                lab.run_ms(3);
                set = answer_of(&mut setting);
                done = done.or_else(|| answer_of(&mut moving));
            }
            match set.unwrap() {
                Ok(report) => {
                    open = !open;
                    sets += 1;
                    assert_eq!(report.outputs[0].value, Some(OutputValue::Open(open)));
                }
                Err(e) => {
                    assert_eq!(e.code, Code::OutputFailed, "{e}");
                    lab.until("safe", Duration::from_secs(10), |l| value(l, "blind") == Some(CLOSED) && !moves(l));
                    done = done.or_else(|| answer_of(&mut moving));
                    lab.recover("blind").unwrap();
                    open = false;
                }
            }
        }
        done.unwrap().unwrap();
        assert!((lab.truly("x") - x).abs() < 0.02);
    }
    assert!(sets >= 4, "{sets}");
    assert_eq!(lab.scope().link.bad_frames, 0);
}

fn moves(lab: &Lab) -> bool {
    lab.bench.speed_mm_per_s("scope", "x") != 0.0
}
