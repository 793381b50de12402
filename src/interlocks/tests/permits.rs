//! What the panel makes of a person's yes.

use super::*;
use crate::config::Kind as Device;
use crate::interlocks::{Held, Order, Panel};
use crate::model::{Allowance, Allowed, Approval, AxisId, Caller, JobId, Kind, Moved, RigError, Way};
use crate::units::Span;

const JOB: JobId = JobId(1);

fn panel() -> Panel {
    let rig =
        RIG.replacen("home = { order = [\"x\", \"y\"] }", "home = { order = [\"x\", \"y\"], ask = \"operator\" }", 1);
    let rig = rig.replacen("tolerance = 0.01\n", "tolerance = 0.01\nblind_step = 1.0\n", 2);
    const KNOWN: KnownDrivers = KnownDrivers(&[KnownDriver::alone("grbl", Device::Stage)]);
    let rig = config::parse(&rig, Path::new("two.toml"), &KNOWN).unwrap_or_else(|p| panic!("{p}"));
    let traits = StageTraits { coordinated: true, homes_single_axes: true };
    Panel::new(Arc::new(Rules::new(Arc::new(rig), vec![traits, traits])))
}

fn home(axes: &[&str]) -> Home {
    Home { stage: Name::new("a"), axes: axes.iter().map(|a| Name::new(a)).collect() }
}

fn step(axis: &str, mm: f64) -> Move {
    let offsets = vec![(Name::new(axis), Distance::base(mm).unwrap())];
    Move { stage: Name::new("a"), aim: Aim::By { offsets, from: Epoch(7) } }
}

/// Nobody knows where the axes of `a` stand.
fn lost() -> Snapshot {
    let mut s = state(10.0, 10.0, 3.0);
    s.stages[0].axes.iter_mut().for_each(|a| a.trust = Trust::Unknown);
    s
}

/// What is asked, as a job puts it to a person.
fn asked(panel: &mut Panel, order: Order<'_>, s: &Snapshot) -> Approval {
    let asks = match panel.permit(JOB, order, s, NOW) {
        Err(Held::Asks(asks)) => asks,
        other => panic!("nobody is asked: {other:?}"),
    };
    Approval {
        id: Name::new("abc"),
        job: JOB,
        caller: Caller { id: Name::new("c"), client: "c".into(), way: Way::Stdio },
        what: panel.rules().words(order, s),
        stage: order.stage().cloned(),
        epoch: order.stage().and_then(|n| s.stage(n.as_str())).map(|s| s.epoch),
        digest: panel.rules().digest(order, s),
        asks,
        moved: Moved::No,
        asked_at: NOW,
        until: NOW + Duration::from_secs(300),
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, Held>) -> RigError {
    match result {
        Err(Held::Refused(e)) => e,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_yes_permits_its_command_once() {
    let (mut p, s, h) = (panel(), state(10.0, 10.0, 3.0), home(&[]));
    let approval = asked(&mut p, Order::Home(&h), &s);
    p.grant(&approval, NOW);
    let permit = p.permit(JOB, Order::Home(&h), &s, NOW).unwrap();
    p.clear_home(&h, &permit, &s, NOW).map(|c| c.obey()).unwrap();
    assert!(matches!(p.permit(JOB, Order::Home(&h), &s, NOW), Err(Held::Asks(_))), "it is used up");
}

#[test]
fn a_yes_to_one_command_is_none_to_another_and_is_gone_after_the_attempt() {
    let (mut p, s, all) = (panel(), lost(), home(&[]));
    let others = [home(&["x"]), home(&["y"])];
    for other in &others {
        let approval = asked(&mut p, Order::Home(&all), &s);
        p.grant(&approval, NOW);
        let e = refused(p.permit(JOB, Order::Home(other), &s, NOW));
        assert!(e.code == Code::ApprovalStale && e.what.contains("another command"), "{e}");
        assert!(matches!(p.permit(JOB, Order::Home(&all), &s, NOW), Err(Held::Asks(_))));
    }
    let approval = asked(&mut p, Order::Move(&step("x", 0.5)), &s);
    for other in [step("x", 0.5000001), step("x", -0.5), step("y", 0.5)] {
        p.grant(&approval, NOW);
        assert_eq!(refused(p.permit(JOB, Order::Move(&other), &s, NOW)).code, Code::ApprovalStale, "{other:?}");
    }
}

#[test]
fn a_yes_is_for_the_job_that_asked() {
    let (mut p, s, h) = (panel(), state(10.0, 10.0, 3.0), home(&[]));
    let approval = asked(&mut p, Order::Home(&h), &s);
    p.grant(&approval, NOW);
    assert!(matches!(p.permit(JobId(2), Order::Home(&h), &s, NOW), Err(Held::Asks(_))), "another's is of no use");
    p.permit(JOB, Order::Home(&h), &s, NOW).unwrap();
    p.grant(&approval, NOW);
    p.revoke(JOB);
    assert!(matches!(p.permit(JOB, Order::Home(&h), &s, NOW), Err(Held::Asks(_))), "its job has ended");
}

#[test]
fn a_yes_is_for_the_state_on_which_it_was_asked_and_for_a_short_time() {
    let (mut p, s, h) = (panel(), state(10.0, 10.0, 3.0), home(&[]));
    let approval = asked(&mut p, Order::Home(&h), &s);
    let mut later = s.clone();
    later.stages[0].epoch = Epoch(8);
    p.grant(&approval, NOW);
    let e = refused(p.permit(JOB, Order::Home(&h), &later, NOW));
    assert!(e.code == Code::ApprovalStale && e.what.contains("has moved or changed"), "{e}");
    p.grant(&approval, NOW);
    let e = refused(p.permit(JOB, Order::Home(&h), &s, NOW + Duration::from_secs(16)));
    assert!(e.code == Code::ApprovalStale && e.what.contains("not used in time"), "{e}");
    // Another stage's state is none of its.
    let mut other = s.clone();
    other.stages[1].epoch = Epoch(99);
    p.grant(&approval, NOW);
    p.permit(JOB, Order::Home(&h), &other, NOW).unwrap();
}

#[test]
fn a_yes_outweighs_no_refusal() {
    let (mut p, s, h) = (panel(), state(10.0, 10.0, 3.0), home(&[]));
    let approval = asked(&mut p, Order::Home(&h), &s);
    p.grant(&approval, NOW);
    let mut stopped = s.clone();
    stopped.stages[0].stopped_by = Some(StopBy::Model);
    let permit = p.permit(JOB, Order::Home(&h), &stopped, NOW).unwrap();
    assert_eq!(p.clear_home(&h, &permit, &stopped, NOW).map(|c| c.obey()).unwrap_err().code, Code::Stopped);
}

#[test]
fn a_permit_clears_what_it_is_for_and_nothing_else() {
    let (mut p, s) = (panel(), state(10.0, 10.0, 3.0));
    let (near, far) = (to("a", &[("x", 20.0)]), to("a", &[("x", 30.0)]));
    let permit = p.permit(JOB, Order::Move(&near), &s, NOW).unwrap();
    let leg = |m: &Move, p: &Panel| p.rules().resolve(m, &s).unwrap().legs.remove(0);
    let (near_leg, far_leg) = (leg(&near, &p), leg(&far, &p));
    let a = Name::new("a");
    assert!(p.clear_leg(&a, &near_leg, &permit, &s, NOW).is_ok());
    let e = p.clear_leg(&a, &far_leg, &permit, &s, NOW).map(|c| c.obey()).unwrap_err();
    assert_eq!(e.code, Code::ApprovalStale);
    assert!(p.clear_home(&home(&[]), &permit, &s, NOW).is_err(), "a move's permit homes nothing");
}

/// Between the judgement of a move and its bytes, or between two of its legs, everything may have changed.
#[test]
fn a_leg_is_judged_once_more_on_the_state_on_which_it_is_cleared() {
    let (mut p, s) = (panel(), state(10.0, 10.0, 3.0));
    let m = to("a", &[("x", 20.0)]);
    let permit = p.permit(JOB, Order::Move(&m), &s, NOW).unwrap();
    let leg = p.rules().resolve(&m, &s).unwrap().legs.remove(0);
    type Change = fn(&mut Snapshot);
    let changes: [(Code, Change); 4] = [
        (Code::Stopped, |s| s.stages[0].stopped_by = Some(StopBy::Model)),
        (Code::NotReferenced, |s| s.stages[0].axes[0].trust = Trust::Unknown),
        (Code::Busy, |s| s.stages[0].activity = Activity::Moving),
        (Code::Stale, |s| s.stages[0].read_at = Some(Time::ZERO)),
    ];
    for (code, change) in changes {
        let mut now = s.clone();
        change(&mut now);
        let cleared = p.clear_leg(&Name::new("a"), &leg, &permit, &now, NOW).map(|c| c.obey());
        assert_eq!(cleared.unwrap_err().code, code);
    }
    assert!(p.clear_leg(&Name::new("a"), &leg, &permit, &s, NOW).is_ok());
}

#[test]
fn a_blind_step_is_judged_by_nothing_that_needs_a_place_and_by_all_else() {
    let (mut p, s) = (panel(), lost());
    let m = step("x", 1.0);
    let verdict = p.rules().judge_move(&m, &s, NOW).unwrap();
    assert!(verdict.refusals.is_empty() && verdict.slow && verdict.asks.len() == 1, "{verdict:?}");
    assert!(verdict.asks[0].text.contains("Nobody knows where a.x stands"), "{}", verdict.asks[0].text);
    assert_eq!(verdict.asks[0].why.as_deref(), Some("the stage ends here"));
    // Too long, to a target, of an axis without the key: as ever.
    for no in [step("x", 1.001), to("a", &[("x", 11.0)])] {
        let codes: Vec<Code> = p.rules().judge_move(&no, &s, NOW).unwrap().refusals.iter().map(|r| r.code).collect();
        assert_eq!(codes, [Code::NotReferenced], "{no:?}");
    }
    // One whose place is known is judged by it, in the same move too.
    let mut half = lost();
    half.stages[0].axes[1].trust = Trust::Referenced;
    half.stages[0].axes[1].position = Some(mm(100.0));
    let offsets = ["x", "y"].map(|a| (Name::new(a), Distance::base(0.5).unwrap())).to_vec();
    let both = Move { stage: Name::new("a"), aim: Aim::By { offsets, from: Epoch(7) } };
    let verdict = p.rules().judge_move(&both, &half, NOW).unwrap();
    assert_eq!(verdict.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [Code::OutOfTravel]);
    // A stop, a fault and an old reading refuse it like any other motion.
    let mut stopped = lost();
    stopped.stages[0].stopped_by = Some(StopBy::Person);
    assert_eq!(p.rules().judge_move(&m, &stopped, NOW).unwrap().refusals[0].code, Code::Stopped);
    let approval = asked(&mut p, Order::Move(&m), &s);
    p.grant(&approval, NOW);
    let permit = p.permit(JOB, Order::Move(&m), &s, NOW).unwrap();
    let leg = p.rules().resolve(&m, &s).unwrap().legs.remove(0);
    let drive = p.clear_leg(&Name::new("a"), &leg, &permit, &s, NOW).unwrap().obey();
    assert!(drive.axes[0].speed.in_base() <= 1.0, "a tenth of 10 mm/s: {drive:?}");
}

fn allowance(kinds: &[Kind], bounds: Vec<(AxisId, Span)>) -> Allowance {
    let lasts = Duration::from_secs(60);
    let allowed = Allowed { bounds, stage: None, kinds: kinds.to_vec(), steps: 2, lasts };
    Allowance { allowed, by: "Ada".into(), until: NOW + lasts, left: 2 }
}

fn span(axis: &str, low: f64, high: f64) -> (AxisId, Span) {
    (AxisId::new("a", axis), Span { low: mm(low), high: mm(high) })
}

#[test]
fn an_allowance_covers_moves_whose_whole_way_stays_in_its_box() {
    let (mut p, s) = (panel(), state(10.0, 10.0, 3.0));
    p.allow(allowance(&[Kind::Move], vec![span("x", 5.0, 20.0), span("y", 9.8, 20.0)]));
    let covered = |p: &Panel, m: &Move, s: &Snapshot| p.would_allow(Order::Move(m), s, NOW);
    assert!(covered(&p, &to("a", &[("x", 20.0)]), &s) && covered(&p, &to("a", &[("x", 5.0), ("y", 20.0)]), &s));
    assert!(!covered(&p, &to("a", &[("x", 20.001)]), &s), "its end is outside");
    assert!(!covered(&p, &to("a", &[("y", 9.9)]), &s), "its backlash overshoot is outside");
    assert!(!covered(&p, &to("a", &[("x", 15.0)]), &state(4.0, 10.0, 3.0)), "its start is outside");
    assert!(!covered(&p, &to("b", &[("z", 2.0)]), &s), "an axis that the box doesn't name");
    assert!(!covered(&p, &step("x", 0.5), &lost()), "what nobody can place is inside no box");
    assert!(!p.would_allow(Order::Home(&home(&[])), &s, NOW), "homing leaves the box");
    let mut over = s.clone();
    over.at = NOW;
    assert!(!p.would_allow(Order::Move(&to("a", &[("x", 20.0)])), &over, NOW + Duration::from_secs(60)));
    p.allow(allowance(&[Kind::Home], vec![span("x", 5.0, 20.0)]));
    assert!(p.would_allow(Order::Home(&home(&[])), &s, NOW), "named, it is covered");
    assert!(!p.would_allow(Order::Move(&to("a", &[("x", 20.0)])), &s, NOW));
}

#[test]
fn an_allowance_is_used_up_only_by_what_would_have_been_asked() {
    let (mut p, s, h) = (panel(), state(10.0, 10.0, 3.0), home(&[]));
    p.allow(allowance(&[Kind::Home, Kind::Move], vec![span("x", 0.0, 100.0)]));
    p.permit(JOB, Order::Move(&to("a", &[("x", 20.0)])), &s, NOW).unwrap();
    assert_eq!(p.allowance().unwrap().left, 2, "nobody would have been asked");
    for left in [1, 0] {
        p.permit(JOB, Order::Home(&h), &s, NOW).unwrap();
        assert_eq!(p.allowance().unwrap().left, left);
    }
    assert!(matches!(p.permit(JOB, Order::Home(&h), &s, NOW), Err(Held::Asks(_))));
}
