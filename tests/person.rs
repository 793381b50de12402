//! What only a person may do, on the simulated bench and on virtual time: declare positions, release a person's stop,
//! lend a port and take it back; and what becomes of jobs whose client is gone.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::model::{Activity, AxisId, Code, Moved, Name, Remedy, StopBy, Trust};
use steadyhand::store::PersonStop;
use steadyhand::units::Position;
use support::{DEMO, Lab};

/// The demonstration's rig, whose stage can't home.
fn unhomed() -> String {
    let text = DEMO.replace("home = { order = [\"z\", \"x\", \"y\"], timeout_s = 60 }", "home = \"never\"");
    text.replace("trust = \"referenced\"", "trust = \"assumed\"")
}

/// Such a rig on its bench, whose controller has neither homing nor limits of its own; online.
fn declared(axes: &[(&str, f64)]) -> Lab {
    let bench = hw_sim::MICROSCOPE_TOML.replace("\"$20\" = 1 ", "\"$20\" = 0 ").replace("\"$22\" = 1 ", "\"$22\" = 0 ");
    let mut lab = Lab::new(&unhomed(), Bench::from_toml(&bench).unwrap());
    lab.online();
    for (axis, value) in axes {
        lab.reference(axis, *value).unwrap();
    }
    lab
}

const PLACE: [(&str, f64); 3] = [("x", 40.0), ("y", 20.0), ("z", 3000.0)];

fn events(lab: &Lab, kind: &str) -> Vec<String> {
    lab.log.events.lock().iter().filter(|e| e.kind == kind).map(|e| e.what.clone()).collect()
}

#[test]
fn a_stage_without_homing_moves_from_where_a_person_says_that_it_stands() {
    let mut lab = declared(&[]);
    let e = lab.move_to(&[("x", 45.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::NotReferenced, Moved::No));
    let e = lab.home().unwrap_err();
    assert!(e.what.contains("`steadyhand reference scope.x VALUE`"), "{e}");

    let before = lab.scope().epoch;
    let reading = lab.reference("x", 40.0).unwrap();
    assert_eq!((reading.trust, reading.position.unwrap().in_base()), (Trust::Assumed, 40.0));
    assert!(lab.scope().epoch > before, "what was decided before is decided on another state");
    assert!((lab.reads("x") - 40.0).abs() < 1e-9);
    lab.reference("y", 20.0).unwrap();
    lab.reference("z", 3000.0).unwrap();
    // What it reads stays so over the polls that follow.
    lab.run_ms(2000);
    assert!((lab.reads("x") - 40.0).abs() < 1e-9 && lab.scope().fault.is_none());

    let start = lab.truly("x");
    lab.move_to(&[("x", 45.0)]).unwrap();
    assert!((lab.reads("x") - 45.0).abs() < 0.02);
    assert!((lab.truly("x") - start - 5.0).abs() < 0.02, "{} from {start}", lab.truly("x"));
    // Limits are judged where it was declared to be.
    assert_eq!(lab.move_to(&[("x", 75.5)]).unwrap_err().code, Code::OutOfTravel);
}

#[test]
fn the_audit_line_precedes_a_declaration() {
    let mut lab = declared(&[]);
    lab.reference("x", 40.0).unwrap();
    assert_eq!(events(&lab, "intent"), ["A person declares that scope.x stands at 40 mm."]);
    assert!(events(&lab, "reference")[0].contains("x stands at 40 mm; it read"), "{:?}", events(&lab, "reference"));
    lab.log.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(lab.reference("y", 20.0).unwrap_err().code, Code::StorageFailed);
    assert_eq!(lab.scope().axis("y").unwrap().trust, Trust::Unknown);
}

#[test]
fn a_declaration_holds_for_this_connection_and_this_count_only() {
    type Loss = (&'static str, fn(&mut Lab));
    let losses: [Loss; 2] = [
        ("a pulled cable", |lab| {
            lab.fault(Fault::Unplug);
            lab.run_ms(500);
            lab.fault(Fault::Plug);
        }),
        ("a power cycle", |lab| lab.fault(Fault::Reset)),
    ];
    for (what, lose) in losses {
        let mut lab = declared(&PLACE);
        let declared_at = lab.reads("x");
        lose(&mut lab);
        lab.run_ms(500);
        lab.online();
        lab.run_ms(3000);
        let x = lab.scope().axis("x").unwrap().clone();
        assert_eq!(x.trust, Trust::Unknown, "{what}");
        assert!((lab.reads("x") - declared_at).abs() > 1.0, "{what}: what it reads is the rig file's count again");
    }
}

#[test]
fn homing_puts_the_rig_files_origin_in_its_place_again() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 30.0)]).unwrap();
    lab.reference("x", 50.0).unwrap();
    assert_eq!(lab.move_to(&[("x", 52.0)]).unwrap_err().code, Code::NotReferenced, "this rig asks for a reference");
    lab.home().unwrap();
    lab.move_to(&[("x", 30.0)]).unwrap();
    assert!((lab.truly("x") - 30.0).abs() < 0.02, "{}", lab.truly("x"));
}

#[test]
fn a_position_is_declared_by_a_person_alone_and_only_at_rest() {
    let mut lab = declared(&PLACE);
    let id = AxisId::new("scope", "x");
    let ticket = lab.handle.reference(&lab.caller.clone(), &id, Position::base(10.0).unwrap()).unwrap();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::NotPermitted);
    assert!(e.what.contains("`steadyhand reference`"), "{e}");

    assert_eq!(lab.reference("w", 1.0).unwrap_err().code, Code::NotFound);
    let e = lab.reference("x", 40_000.0).unwrap_err();
    assert_eq!(e.code, Code::OutOfTravel);
    assert!(e.what.contains("0 to 75 mm") && e.what.contains("another unit"), "{e}");
    // A stop beyond the end of its travel is a place where an axis can stand.
    lab.reference("x", -0.5).unwrap();
    lab.reference("x", 40.0).unwrap();

    let movement = lab.to(&[("x", 60.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    assert_eq!(lab.reference("x", 10.0).unwrap_err().code, Code::Busy);
    assert_eq!(lab.answer(ticket).unwrap().moved, Moved::Yes, "and the move goes on");

    lab.fault(Fault::Unplug);
    lab.run_ms(500);
    assert_eq!(lab.reference("x", 10.0).unwrap_err().code, Code::NotConnected);
}

#[test]
fn after_a_declaration_there_is_no_way_back_in_other_coordinates() {
    let mut lab = declared(&PLACE);
    lab.move_to(&[("x", 41.0)]).unwrap();
    lab.reference("x", 10.0).unwrap();
    assert!(lab.scope().came_from.is_none());
}

#[test]
fn a_persons_stop_is_released_by_a_person_alone() {
    let mut lab = Lab::homed(1);
    let movement = lab.to(&[("x", 10.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    lab.handle.stop(None, StopBy::Person);
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped);
    assert_eq!(lab.recover("scope").unwrap_err().code, Code::NotPermitted);
    assert_eq!(lab.move_to(&[("x", 50.0)]).unwrap_err().code, Code::Stopped);
    // A model's stop on top of it changes nothing.
    lab.stop();
    lab.run_ms(500);
    assert_eq!(lab.scope().stopped_by, Some(StopBy::Person));
    assert!(lab.state().person_stop.as_ref().unwrap().starts_with("since "));

    let ticket = lab.handle.resume(&lab.caller.clone(), None).unwrap();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::NotPermitted);
    assert_eq!(
        lab.resume().unwrap(),
        ["scope", "lamp", "shutter"].map(Name::new),
        "the outputs that it made safe, too"
    );
    assert_eq!(lab.resume().unwrap(), [], "once");
    assert!(lab.state().person_stop.is_none());
    lab.move_to(&[("x", 50.0)]).unwrap();
    assert_eq!(events(&lab, "resume"), ["A person has released the stop of scope, lamp, shutter."]);
}

#[test]
fn a_release_that_was_given_before_a_stop_does_not_undo_it() {
    let mut lab = Lab::homed(1);
    lab.handle.stop(None, StopBy::Person);
    lab.run_ms(500);
    let early = lab.handle.resume(&lab.person(), None).unwrap();
    lab.handle.stop(None, StopBy::Person);
    assert_eq!(lab.answer(early).unwrap_err().code, Code::Stopped);
    lab.run_ms(500);
    assert_eq!(lab.scope().stopped_by, Some(StopBy::Person));
    assert!(lab.handle.person_stop().stops(&Name::new("scope")), "on record, too");
}

#[test]
fn a_persons_stop_survives_the_end_of_the_program_whatever_ended_it() {
    let dir = tempfile::tempdir().unwrap();
    let open = || PersonStop::open(dir.path()).unwrap();
    let mut lab = Lab::with(DEMO, Bench::microscope(1), open());
    lab.online();
    lab.home().unwrap();
    lab.handle.stop(None, StopBy::Person);
    lab.run_ms(500);
    assert!(lab.handle.person_stop().flush(Duration::from_secs(10)), "it is on the disk");
    // The program is killed: nothing of it is closed down.
    let Lab { bench, .. } = lab;
    let mut lab = Lab::with(DEMO, bench, open());
    assert!(lab.handle.person_stop().stops(&Name::new("scope")));
    lab.online();
    assert_eq!(lab.scope().stopped_by, Some(StopBy::Person));
    assert_eq!(lab.home().unwrap_err().code, Code::Stopped);
    lab.resume().unwrap();
    lab.home().unwrap();
    assert!(lab.handle.person_stop().flush(Duration::from_secs(10)));
    let Lab { bench, .. } = lab;
    let mut lab = Lab::with(DEMO, bench, open());
    lab.online();
    assert_eq!(lab.scope().stopped_by, None);
}

#[test]
fn a_lent_port_is_closed_and_comes_back_with_no_more_trust_than_the_controller_gives() {
    let mut lab = Lab::homed(1);
    let scope = Name::new("scope");
    let ticket = lab.handle.release(&lab.caller.clone(), &scope).unwrap();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::NotPermitted);

    let movement = lab.to(&[("x", 10.0)]);
    let moving = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    let ticket = lab.handle.release(&lab.person(), &scope).unwrap();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Busy);
    lab.answer(moving).unwrap();

    let ticket = lab.handle.release(&lab.person(), &scope).unwrap();
    assert_eq!(lab.answer(ticket).unwrap(), std::slice::from_ref(&scope));
    lab.run_ms(50);
    let lent = lab.now();
    lab.run_ms(10_000);
    assert!(lab.bench.written("scope").iter().all(|(t, _)| *t < lent), "not a byte goes out on a lent port");
    let status = lab.scope();
    let fault = status.fault.clone().unwrap();
    assert_eq!((status.activity, fault.code, fault.remedy), (Activity::Offline, Code::Released, Remedy::Reclaim));
    assert!(!status.link.open && fault.what.contains("`steadyhand reclaim scope`"), "{}", fault.what);
    let e = lab.move_to(&[("x", 20.0)]).unwrap_err();
    assert_eq!(e.code, Code::NotConnected);
    assert!(e.what.contains("lent its port"), "{e}");
    assert_eq!(lab.recover("scope").unwrap_err().code, Code::Released, "no tool takes it back");
    assert!(lab.shoot().is_ok(), "the camera has a port of its own");

    let ticket = lab.handle.reclaim(&lab.person(), &scope).unwrap();
    assert_eq!(lab.answer(ticket).unwrap(), [scope]);
    lab.online();
    assert_eq!(lab.scope().activity, Activity::Idle);
    assert!(lab.scope().fault.is_none());
    lab.run_ms(300);
    // The other program has moved nothing: the controller still counts what it counted.
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Restored));
    lab.home().unwrap();
    lab.move_to(&[("x", 20.0)]).unwrap();
    assert_eq!((events(&lab, "release").len(), events(&lab, "reclaim").len()), (1, 1));
}

#[test]
fn a_camera_can_be_lent_and_a_port_that_is_gone_too() {
    let mut lab = Lab::homed(1);
    let ticket = lab.handle.release(&lab.person(), &Name::new("cam")).unwrap();
    lab.answer(ticket).unwrap();
    lab.run_ms(2000);
    assert_eq!(lab.shoot().unwrap_err().code, Code::NotConnected);
    let ticket = lab.handle.reclaim(&lab.person(), &Name::new("cam")).unwrap();
    lab.answer(ticket).unwrap();
    lab.online();
    lab.shoot().unwrap();

    lab.fault(Fault::Unplug);
    lab.run_ms(2000);
    let ticket = lab.handle.release(&lab.person(), &Name::new("scope")).unwrap();
    lab.answer(ticket).unwrap();
    lab.fault(Fault::Plug);
    lab.run_ms(10_000);
    assert!(!lab.scope().link.open, "it stays lent when it is plugged in again");
    let ticket = lab.handle.reclaim(&lab.person(), &Name::new("scope")).unwrap();
    lab.answer(ticket).unwrap();
    lab.online();
    let ticket = lab.handle.release(&lab.person(), &Name::new("nothing")).unwrap();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::NotFound);
}

/// A long move that a client was given the number of.
fn begin_job(rig: &str) -> Lab {
    let mut lab = Lab::new(rig, Bench::microscope(1));
    lab.online();
    lab.home().unwrap();
    let movement = lab.to(&[("x", 12.0), ("y", 20.0)]);
    let mut ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    ticket.release();
    lab
}

fn going_on() -> String {
    format!("{DEMO}\n[calls]\non_client_lost = \"continue\"\n")
}

#[test]
fn a_job_whose_client_is_gone_stops_where_the_rig_file_does_not_say_otherwise() {
    let mut lab = begin_job(DEMO);
    lab.handle.person_can_stop(true);
    lab.handle.client_lost(&Name::new("somebody-else"));
    lab.run_ms(200);
    assert!(lab.bench.speed_mm_per_s("scope", "x").abs() > 5.0, "another client's loss is none of its");
    lab.handle.client_lost(&lab.caller.id);
    lab.run_ms(1500);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
    assert!(lab.truly("x") > 20.0 && lab.handle.orphans().is_empty());
    // What it sent last and comes only now moves nothing; whoever comes next may move.
    let late = lab.move_to(&[("x", 50.0)]).unwrap_err();
    assert_eq!((late.code, late.moved), (Code::Cancelled, Moved::No));
    lab.caller.id = Name::new("whoever-comes-next");
    lab.move_to(&[("x", 50.0)]).unwrap();
}

#[test]
fn a_job_may_go_on_without_its_client_as_long_as_a_person_can_stop_it() {
    // Nobody could stop it: it stops.
    let mut lab = begin_job(&going_on());
    lab.handle.client_lost(&lab.caller.id);
    lab.run_ms(1500);
    assert!(lab.truly("x") > 20.0, "{}", lab.truly("x"));

    let mut lab = begin_job(&going_on());
    lab.handle.person_can_stop(true);
    lab.handle.client_lost(&lab.caller.id);
    lab.run_ms(200);
    assert_eq!(lab.handle.orphans().len(), 1);
    lab.run_ms(8000);
    assert!((lab.truly("x") - 12.0).abs() < 0.02 && lab.handle.orphans().is_empty());

    // The way goes while it runs.
    let mut lab = begin_job(&going_on());
    lab.handle.person_can_stop(true);
    lab.handle.client_lost(&lab.caller.id);
    lab.run_ms(200);
    lab.handle.person_can_stop(false);
    lab.run_ms(1500);
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
    assert!(lab.truly("x") > 20.0 && lab.handle.orphans().is_empty());
}

#[test]
fn what_a_client_still_waits_for_or_has_not_begun_ends_with_it_in_any_case() {
    let mut lab = Lab::new(&going_on(), Bench::microscope(1));
    lab.online();
    lab.home().unwrap();
    lab.handle.person_can_stop(true);
    let movement = lab.to(&[("x", 12.0), ("y", 20.0)]);
    let waited_for = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    let movement = lab.to(&[("x", 60.0)]);
    let mut queued = lab.begin_move(movement).unwrap();
    queued.release();
    lab.handle.client_lost(&lab.caller.id);
    let e = lab.answer(queued).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Cancelled, Moved::No));
    let e = lab.answer(waited_for).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Cancelled, Moved::Yes));
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
}
