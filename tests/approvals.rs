//! What a person has to approve, on the simulated bench and on virtual time: who may say yes, to what, for how long, and
//! what ends it. Each attack that the safety page names is tried here.

mod support;

use std::sync::Arc;
use std::time::Duration;

use hw_sim::{Bench, Fault};
use steadyhand::actor::{Decision, Ticket};
use steadyhand::model::{
    Allowance, Allowed, Approval, AxisId, Caller, Code, Home, Kind, Moved, Name, Report, RigError, StopBy, Trust, Way,
};
use steadyhand::plans::Sequence;
use steadyhand::store::PersonStop;
use steadyhand::units::{Position, Span, Unit};
use support::{DEMO, Lab, answer_of};

/// The demonstration's rig, whose homing a person approves.
fn asking() -> String {
    DEMO.replace("timeout_s = 60 }", "timeout_s = 60, ask = \"operator\" }")
}

fn online(rig: &str) -> Lab {
    let mut lab = Lab::new(rig, Bench::microscope(1));
    lab.online();
    lab
}

/// A rig whose x and y may go blind steps, on a controller that neither homes nor locks itself.
fn stepping() -> Lab {
    let bench = hw_sim::MICROSCOPE_TOML.replace("\"$20\" = 1 ", "\"$20\" = 0 ").replace("\"$22\" = 1 ", "\"$22\" = 0 ");
    let rig = DEMO.replace("tolerance = 0.02\n", "tolerance = 0.02\nblind_step = 0.5\n");
    let mut lab = Lab::new(&rig, Bench::from_toml(&bench).unwrap());
    lab.online();
    lab
}

fn begin_home(lab: &mut Lab) -> Ticket<Report> {
    let home = Home { stage: Name::new("scope"), axes: vec![] };
    lab.start(Sequence::home("home scope".into(), home)).unwrap()
}

fn begin_step(lab: &mut Lab, axis: &str, way: f64) -> Ticket<Report> {
    let step = lab.by(&[(axis, way)], lab.scope().epoch);
    lab.begin_move(step).unwrap()
}

/// What waits, once something does.
fn waiting(lab: &mut Lab) -> Arc<Approval> {
    lab.until("a person is asked", Duration::from_secs(10), |l| l.state().approvals().count() == 1);
    let found = lab.state().approvals().next().cloned();
    found.unwrap()
}

fn decision(yes: bool) -> Decision {
    Decision { yes, by: "Ada".into(), reason: None, elicited: false }
}

fn decide(lab: &mut Lab, caller: &Caller, id: &Name, decision: Decision) -> Result<Arc<Approval>, RigError> {
    let ticket = lab.handle.decide(caller, id, decision)?;
    lab.answer(ticket)
}

fn approve(lab: &mut Lab, id: &Name) -> Result<Arc<Approval>, RigError> {
    let person = lab.person();
    decide(lab, &person, id, decision(true))
}

fn allowed(kinds: &[Kind], steps: u32, seconds: u64) -> Allowed {
    Allowed {
        bounds: vec![],
        stage: Some(Name::new("scope")),
        kinds: kinds.to_vec(),
        steps,
        lasts: Duration::from_secs(seconds),
    }
}

fn allow(lab: &mut Lab, allowed: Allowed) -> Result<Allowance, RigError> {
    let ticket = lab.handle.allow(&lab.person(), allowed, "Ada")?;
    lab.answer(ticket)
}

fn events(lab: &Lab, kind: &str) -> Vec<String> {
    lab.log.events.lock().iter().filter(|e| e.kind == kind).map(|e| e.what.clone()).collect()
}

/// Nothing has moved by anybody's order.
fn still(lab: &Lab) -> bool {
    ["x", "y", "z"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0)
}

#[test]
fn homing_that_asks_waits_for_a_person_and_goes_on_by_itself() {
    let mut lab = online(&asking());
    let began = [lab.truly("x"), lab.truly("z")];
    let mut ticket = begin_home(&mut lab);
    let approval = waiting(&mut lab);
    assert!(approval.what.starts_with("home scope, axes z, x, y in this order; now"), "{}", approval.what);
    assert_eq!(approval.asks[0].rule, "homing of scope");
    assert_eq!(
        (approval.caller.id.as_str(), approval.until.0 - approval.asked_at.0),
        ("test", Duration::from_secs(300))
    );
    lab.run_ms(60_000);
    assert!(answer_of(&mut ticket).is_none() && still(&lab));
    assert_eq!([lab.truly("x"), lab.truly("z")], began, "nothing moves before somebody has said yes");

    assert_eq!(approve(&mut lab, &approval.id).unwrap().id, approval.id);
    lab.answer(ticket).unwrap();
    assert_eq!(lab.scope().axis("x").unwrap().trust, Trust::Referenced);
    assert_eq!(lab.state().approvals().count(), 0);
    let granted = &events(&lab, "approval_granted")[0];
    assert!(granted.starts_with("Ada approved: home scope"), "{granted}");
}

#[test]
fn e17_a_yes_that_comes_early_or_late_is_taken_for_nothing_else() {
    let mut lab = online(&format!("{}\n[approvals]\nexpire_s = 30\n", asking()));
    for early in ["first", "abc234", "job-1"] {
        assert_eq!(approve(&mut lab, &Name::new(early)).unwrap_err().code, Code::NotFound, "nothing waits");
    }
    let first = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    drop(first);
    lab.run_ms(500);
    let mut second = begin_home(&mut lab);
    let next = waiting(&mut lab).id.clone();
    let e = approve(&mut lab, &id).unwrap_err();
    assert!(e.code == Code::NotFound && e.what.contains(next.as_str()), "{e}");
    lab.run_ms(5000);
    assert!(answer_of(&mut second).is_none() && still(&lab));
    assert_eq!(lab.answer(second).unwrap_err().code, Code::ApprovalExpired, "silence means no");
}

#[test]
fn a_yes_is_good_once() {
    let mut lab = online(&asking());
    let ticket = begin_home(&mut lab);
    let first = waiting(&mut lab);
    approve(&mut lab, &first.id).unwrap();
    assert_eq!(approve(&mut lab, &first.id).unwrap_err().code, Code::NotFound, "it is decided");
    lab.answer(ticket).unwrap();
    // The same command again is another question, under another name.
    let mut again = begin_home(&mut lab);
    let second = waiting(&mut lab);
    assert_ne!(first.id, second.id);
    assert_eq!(approve(&mut lab, &first.id).unwrap_err().code, Code::NotFound);
    lab.run_ms(5000);
    assert!(answer_of(&mut again).is_none() && still(&lab));
}

#[test]
fn a_no_ends_the_command_with_the_persons_words() {
    let mut lab = online(&asking());
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    let person = lab.person();
    let no = Decision { reason: Some("the lid is open".into()), ..decision(false) };
    decide(&mut lab, &person, &id, no).unwrap();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ApprovalDenied, Moved::No));
    assert!(e.what.contains("the lid is open") && e.what.contains("Ada"), "{e}");
    assert!(events(&lab, "approval_denied")[0].starts_with("Ada denied: home scope"));
}

#[test]
fn nobody_waits_for_ever() {
    let mut lab = online(&format!("{}\n[approvals]\nexpire_s = 30\n", asking()));
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ApprovalExpired, Moved::No));
    assert!(e.what.contains("within 30 s"), "{e}");
    assert_eq!(approve(&mut lab, &id).unwrap_err().code, Code::NotFound, "a late yes is none");
    lab.run_ms(3000);
    assert!(still(&lab));
}

#[test]
fn only_a_person_says_yes() {
    let mut lab = online(&asking());
    let mut ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    for way in [Way::Stdio, Way::Relay, Way::Http, Way::Internal] {
        let caller = Caller { id: Name::new("person"), client: "steadyhand".into(), way };
        for elicited in [false, true] {
            let e = decide(&mut lab, &caller, &id, Decision { elicited, ..decision(true) }).unwrap_err();
            assert_eq!(e.code, Code::NotPermitted, "{way:?}, elicited: {elicited}");
        }
        let t = lab.handle.allow(&caller, allowed(&[Kind::Home], 1, 60), "Ada").unwrap();
        assert_eq!(lab.answer(t).unwrap_err().code, Code::NotPermitted, "{way:?}");
    }
    lab.run_ms(2000);
    assert!(answer_of(&mut ticket).is_none() && still(&lab));
}

#[test]
fn an_elicited_yes_counts_where_the_rig_file_says_so_and_for_the_clients_own_commands_alone() {
    let mut lab = online(&format!("{}\n[approvals]\napprove_by = [\"elicitation\"]\n", asking()));
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    let yes = Decision { elicited: true, ..decision(true) };
    let other = Caller { id: Name::new("other"), client: "other".into(), way: Way::Http };
    assert_eq!(decide(&mut lab, &other, &id, yes.clone()).unwrap_err().code, Code::NotPermitted);
    let own = lab.caller.clone();
    assert_eq!(decide(&mut lab, &own, &id, decision(true)).unwrap_err().code, Code::NotPermitted, "not unasked");
    decide(&mut lab, &own, &id, yes).unwrap();
    lab.answer(ticket).unwrap();
}

#[test]
fn hole_02_a_yes_to_one_step_is_none_to_another() {
    let mut lab = stepping();
    let began = lab.truly("x");
    let mut a = begin_step(&mut lab, "x", -0.2);
    let asked = waiting(&mut lab);
    assert!(asked.what.contains("x by -0.2 mm from an unknown position, slowly"), "{}", asked.what);
    // Another client asks for more while the first waits: it is told so, and no yes reaches it.
    lab.caller.id = Name::new("second");
    let b = begin_step(&mut lab, "x", 0.5);
    let e = lab.answer(b).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Busy, Moved::No));
    assert!(e.what.contains("waits for a person") && e.what.contains(asked.id.as_str()), "{e}");
    assert!(answer_of(&mut a).is_none());
    approve(&mut lab, &asked.id).unwrap();
    lab.answer(a).unwrap();
    assert!((lab.truly("x") - began + 0.2).abs() < 0.02, "{} from {began}", lab.truly("x"));
    // And the next one is asked for anew.
    let mut b = begin_step(&mut lab, "x", -0.2);
    let next = waiting(&mut lab);
    assert!(next.digest != asked.digest && next.id != asked.id);
    lab.run_ms(2000);
    assert!(answer_of(&mut b).is_none() && still(&lab));
}

#[test]
fn a_blind_step_is_short_relative_slow_and_approved_or_there_is_none() {
    let mut lab = stepping();
    let step = begin_step(&mut lab, "x", -0.6);
    assert_eq!(lab.answer(step).unwrap_err().code, Code::NotReferenced, "longer than the rig file lets it be");
    assert_eq!(lab.move_to(&[("x", 40.0)]).unwrap_err().code, Code::NotReferenced, "no target without a position");
    let step = begin_step(&mut lab, "z", -1.0);
    assert_eq!(lab.answer(step).unwrap_err().code, Code::NotReferenced, "the rig file says nothing of z");
    let ticket = begin_step(&mut lab, "x", -0.5);
    let id = waiting(&mut lab).id.clone();
    approve(&mut lab, &id).unwrap();
    let mut fastest: f64 = 0.0;
    lab.until("it has ended", Duration::from_secs(20), |l| {
        fastest = fastest.max(l.bench.speed_mm_per_s("scope", "x").abs());
        l.state().jobs.iter().all(|j| j.state != steadyhand::model::JobState::Running)
    });
    lab.answer(ticket).unwrap();
    assert!(fastest > 0.5 && fastest < 2.1, "a tenth of 20 mm/s, not {fastest}");
    assert_eq!(lab.scope().axis("x").unwrap().trust, Trust::Unknown, "nothing is known better than before");
}

#[test]
fn a_state_that_changes_while_a_person_thinks_ends_the_question() {
    let mut lab = online(&asking());
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    lab.fault(Fault::Reset);
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ApprovalStale, Moved::No), "{e}");
    assert_eq!(approve(&mut lab, &id).unwrap_err().code, Code::NotFound);
    lab.run_ms(3000);
    assert!(still(&lab));
}

#[test]
fn a_state_that_changes_between_the_yes_and_its_use_makes_the_yes_worthless() {
    let mut lab = online(&asking());
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    // Given and taken in one pass; the reading that it is judged on comes after the controller's restart.
    let person = lab.person();
    let yes = lab.handle.decide(&person, &id, decision(true)).unwrap();
    lab.fault(Fault::Reset);
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!(e.moved, Moved::No, "{e}");
    assert!(matches!(e.code, Code::ApprovalStale | Code::Faulted | Code::NotConnected | Code::ControllerReset), "{e}");
    drop(yes);
    lab.run_ms(5000);
    assert!(still(&lab), "and nothing begins later");
}

#[test]
fn what_is_refused_is_refused_whoever_says_yes() {
    let mut lab = online(&asking());
    lab.stop();
    lab.run_ms(500);
    let ticket = begin_home(&mut lab);
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped, "nobody is asked for what can't be");
    assert_eq!(events(&lab, "approval_asked").len(), 0);
}

#[test]
fn a_stop_ends_what_waits_and_a_yes_that_came_before_it() {
    for by in [StopBy::Model, StopBy::Person, StopBy::Program] {
        let mut lab = online(&asking());
        let ticket = begin_home(&mut lab);
        let id = waiting(&mut lab).id.clone();
        let person = lab.person();
        let yes = lab.handle.decide(&person, &id, decision(true)).unwrap();
        lab.handle.stop(None, by);
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Stopped, Moved::No));
        assert_eq!(lab.answer(yes).unwrap_err().code, Code::Stopped);
        lab.run_ms(3000);
        assert!(still(&lab) && lab.state().approvals().count() == 0);
    }
}

#[test]
fn a_client_that_goes_takes_its_question_with_it() {
    let mut lab = online(&asking());
    let mut ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    ticket.release();
    lab.handle.client_lost(&lab.caller.id);
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Cancelled);
    assert_eq!(approve(&mut lab, &id).unwrap_err().code, Code::NotFound);
    // The same for one that only takes its call back.
    lab.caller.id = Name::new("next");
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    drop(ticket);
    lab.run_ms(500);
    assert_eq!(approve(&mut lab, &id).unwrap_err().code, Code::NotFound);
    lab.run_ms(3000);
    assert!(still(&lab));
}

#[test]
fn a_restart_of_the_program_between_question_and_yes_leaves_neither() {
    let mut lab = online(&asking());
    let ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    ticket.detach();
    allow(&mut lab, Allowed { kinds: vec![Kind::Shot], ..allowed(&[], 3, 600) }).unwrap();
    let Lab { bench, .. } = lab;
    let mut lab = Lab::with(&asking(), bench, PersonStop::in_memory());
    lab.online();
    assert!(lab.state().allowance.is_none());
    assert_eq!(approve(&mut lab, &id).unwrap_err().code, Code::NotFound);
    let mut again = begin_home(&mut lab);
    assert_ne!(waiting(&mut lab).id, id, "no name comes again");
    lab.run_ms(2000);
    assert!(answer_of(&mut again).is_none() && still(&lab));
}

#[test]
fn a_yes_that_cannot_be_put_on_record_moves_nothing() {
    let mut lab = online(&asking());
    let mut ticket = begin_home(&mut lab);
    let id = waiting(&mut lab).id.clone();
    lab.log.broken.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(approve(&mut lab, &id).unwrap_err().code, Code::StorageFailed);
    let e = allow(&mut lab, allowed(&[Kind::Home], 1, 60)).unwrap_err();
    assert_eq!(e.code, Code::StorageFailed);
    lab.run_ms(2000);
    assert!(answer_of(&mut ticket).is_none() && still(&lab));
    lab.log.broken.store(false, std::sync::atomic::Ordering::Relaxed);
    approve(&mut lab, &id).unwrap();
    lab.answer(ticket).unwrap();
}

#[test]
fn a_yes_moves_nothing_before_its_line_is_written() {
    for written in [Some(true), Some(false), None] {
        let mut lab = online(&asking());
        let began = lab.truly("z");
        let mut ticket = begin_home(&mut lab);
        let id = waiting(&mut lab).id.clone();
        *lab.log.slow.lock() = Some("approval_granted");
        approve(&mut lab, &id).unwrap();
        lab.run_ms(1500);
        assert!(answer_of(&mut ticket).is_none() && still(&lab), "its line waits for the disk");
        if let Some(written) = written {
            lab.log.waiting.lock().last().unwrap().set(written);
        }
        let answer = lab.answer(ticket);
        match written {
            Some(true) => assert_eq!(answer.unwrap().moved, Moved::Yes),
            _ => assert_eq!(answer.unwrap_err().code, Code::StorageFailed),
        }
        assert_eq!(lab.truly("z") != began, written == Some(true));
    }
}

// ---- what is allowed beforehand -------------------------------------------------------------------------------

#[test]
fn an_allowance_answers_so_often_and_no_more() {
    let mut lab = online(&asking());
    let given = allow(&mut lab, allowed(&[Kind::Home], 2, 3600)).unwrap();
    assert_eq!((given.left, given.by.as_str()), (2, "Ada"));
    lab.home().unwrap();
    assert_eq!(lab.state().allowance.as_ref().unwrap().left, 1);
    lab.home().unwrap();
    lab.run_ms(300);
    assert!(lab.state().allowance.is_none());
    let mut third = begin_home(&mut lab);
    waiting(&mut lab);
    lab.run_ms(1000);
    assert!(answer_of(&mut third).is_none() && still(&lab));
    assert_eq!(events(&lab, "allowed").len(), 2);
    assert!(events(&lab, "allowance_ended")[0].contains("used up"));
}

#[test]
fn an_allowance_answers_what_waits_already() {
    let mut lab = online(&asking());
    let ticket = begin_home(&mut lab);
    waiting(&mut lab);
    allow(&mut lab, allowed(&[Kind::Home], 1, 3600)).unwrap();
    lab.answer(ticket).unwrap();
}

#[test]
fn an_allowance_of_another_kind_or_stage_or_box_answers_nothing() {
    let span = |low: f64, high: f64| Span {
        low: Position::new(low, Unit::Mm).unwrap(),
        high: Position::new(high, Unit::Mm).unwrap(),
    };
    let boxed = vec![(AxisId::new("scope", "x"), span(0.0, 75.0))];
    for given in [allowed(&[Kind::Shot], 5, 600), Allowed { bounds: boxed.clone(), ..allowed(&[Kind::Move], 5, 600) }] {
        let mut lab = online(&asking());
        allow(&mut lab, given).unwrap();
        let mut ticket = begin_home(&mut lab);
        waiting(&mut lab);
        lab.run_ms(1000);
        assert!(answer_of(&mut ticket).is_none() && still(&lab));
        assert_eq!(lab.state().allowance.as_ref().unwrap().left, 5);
    }
    // A step that nobody can place is inside no box.
    let mut lab = stepping();
    allow(&mut lab, Allowed { bounds: boxed, ..allowed(&[Kind::Move], 5, 600) }).unwrap();
    let mut step = begin_step(&mut lab, "x", -0.2);
    waiting(&mut lab);
    lab.run_ms(1000);
    assert!(answer_of(&mut step).is_none() && still(&lab));
}

#[test]
fn an_allowance_ends_at_any_stop_at_a_fault_and_with_its_time() {
    type End = (&'static str, fn(&mut Lab));
    let ends: [End; 5] = [
        ("a stop call", |lab| lab.stop()),
        ("a person's stop", |lab| lab.handle.stop(None, StopBy::Person)),
        ("a stop by the program", |lab| lab.handle.stop(Some(&Name::new("scope")), StopBy::Program)),
        ("has a fault", |lab| lab.fault(Fault::Unplug)),
        ("its time is over", |lab| lab.run_ms(61_000)),
    ];
    for (why, end) in ends {
        let mut lab = online(&asking());
        allow(&mut lab, allowed(&[Kind::Home], 9, 60)).unwrap();
        lab.run_ms(1000);
        assert!(lab.state().allowance.is_some(), "{why}");
        end(&mut lab);
        lab.run_ms(3000);
        assert!(lab.state().allowance.is_none(), "{why}");
        let told = events(&lab, "allowance_ended");
        assert!(told.len() == 1 && told[0].contains(why) && told[0].contains("9 commands"), "{why}: {told:?}");
    }
}

#[test]
fn a_person_ends_an_allowance_and_none_is_given_under_a_stop() {
    let mut lab = online(&asking());
    allow(&mut lab, allowed(&[Kind::Home], 9, 60)).unwrap();
    let ticket = lab.handle.end_allowance(&lab.person(), "Ada").unwrap();
    assert!(lab.answer(ticket).unwrap().is_some() && lab.state().allowance.is_none());
    let ticket = lab.handle.end_allowance(&lab.person(), "Ada").unwrap();
    assert!(lab.answer(ticket).unwrap().is_none());
    let e = allow(&mut lab, allowed(&[Kind::Move], 9, 60)).unwrap_err();
    assert_eq!(e.code, Code::InvalidArgument, "moves without a box");
    assert_eq!(allow(&mut lab, allowed(&[Kind::Home], 0, 60)).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(allow(&mut lab, allowed(&[Kind::Home], 1, 90_000)).unwrap_err().code, Code::InvalidArgument);
    lab.stop();
    lab.run_ms(500);
    assert_eq!(allow(&mut lab, allowed(&[Kind::Home], 1, 60)).unwrap_err().code, Code::Stopped);
}
