//! Stopping distance, ways back and ways round.

use super::*;
use crate::interlocks::Leg;
use crate::model::{Told, ToldAxis};
use crate::units::Span;

/// The drive that the panel would clear for the last leg of a move.
fn last_leg(r: &Rules, m: &Move, s: &Snapshot) -> crate::interlocks::Drive {
    let resolved = r.resolve(m, s).unwrap();
    let mut s = s.clone();
    for Leg { targets } in &resolved.legs[..resolved.legs.len() - 1] {
        for (name, p) in targets {
            s.stages[0].axes.iter_mut().find(|a| a.axis == *name).unwrap().position = Some(*p);
        }
    }
    r.judge_leg(&m.stage, resolved.legs.last().unwrap(), &[], &s, NOW).unwrap().0
}

/// v × (100 ms + 50 ms) + v² / 2a.
fn stops_in(v: f64, a: f64) -> f64 {
    v * 0.15 + v * v / (2.0 * a)
}

#[test]
fn a_way_that_ends_near_a_box_is_quick_first_and_slow_at_the_end() {
    let r = rules(true);
    let s = state(10.0, 50.0, 3.0);
    let m = to("a", &[("x", 39.8)]);
    let verdict = r.judge_move(&m, &s, NOW).unwrap();
    assert!(verdict.refusals.is_empty() && !verdict.slow, "{verdict:?}");
    assert_eq!(verdict.near.as_deref(), Some("post"));
    let legs = r.resolve(&m, &s).unwrap().legs;
    assert_eq!(legs.len(), 2, "{legs:?}");
    // Nobody tells an acceleration: 10 mm/s within 0.2 s.
    let quick = legs[0].targets[0].1.in_base();
    assert!((quick - (40.0 - stops_in(10.0, 50.0) - 0.01)).abs() < 1e-6, "{quick}");
    let v = last_leg(&r, &m, &s).axes[0].speed.in_base();
    assert!(39.8 + stops_in(v, 50.0) <= 40.0 + 1e-9 && v > 1.0, "{v} mm/s");
    assert!(verdict.duration < Duration::from_secs(6), "{:?}", verdict.duration);
}

#[test]
fn the_controllers_own_acceleration_counts_where_it_is_weaker() {
    let r = rules(true);
    let mut s = state(10.0, 50.0, 3.0);
    let axis = ToldAxis { acceleration: Some(5.0), ..ToldAxis::default() };
    s.stages[0].told = Some(Arc::new(Told { axes: vec![axis.clone(), axis], ..Told::default() }));
    let legs = r.resolve(&to("a", &[("x", 39.8)]), &s).unwrap().legs;
    let quick = legs[0].targets[0].1.in_base();
    assert!((quick - (40.0 - stops_in(10.0, 5.0) - 0.01)).abs() < 1e-6, "{quick}");
}

#[test]
fn what_ends_at_a_box_comes_there_at_a_tenth_of_the_speed_and_no_slower() {
    let r = rules(true);
    let s = state(10.0, 50.0, 3.0);
    for x in [39.9, 39.99, 40.0] {
        let m = to("a", &[("x", x)]);
        let verdict = r.judge_move(&m, &s, NOW).unwrap();
        assert!(verdict.refusals.is_empty() && verdict.near.is_some(), "{verdict:?}");
        assert_eq!(r.resolve(&m, &s).unwrap().legs.len(), 2);
        assert!((last_leg(&r, &m, &s).axes[0].speed.in_base() - 1.0).abs() < 0.01);
        assert!(verdict.duration < Duration::from_secs(6), "{:?}", verdict.duration);
    }
    let beyond = r.judge_move(&to("a", &[("x", 40.1)]), &s, NOW).unwrap();
    assert_eq!(beyond.refusals[0].code, Code::KeepOut);
    let near = beyond.instead.unwrap().nearest.unwrap();
    assert_eq!((near.stage.as_str(), near.unit), ("a", Unit::Mm));
    assert_eq!(codes(&r, &to("a", &[("x", near.targets[0].1)]), &s), []);
}

#[test]
fn axes_that_go_each_for_itself_are_quick_until_one_of_them_has_to_be_slow() {
    let r = rules(false);
    let s = state(10.0, 10.0, 3.0);
    let m = to("a", &[("x", 39.8), ("y", 50.0)]);
    let legs = r.resolve(&m, &s).unwrap().legs;
    assert_eq!(legs.len(), 2, "{legs:?}");
    let quick: Vec<f64> = legs[0].targets.iter().map(|(_, p)| p.in_base()).collect();
    // Neither axis would reach its face, run on as it may, before the other had.
    assert!(quick[0] + stops_in(10.0, 50.0) <= 40.0 || quick[1] + stops_in(10.0, 50.0) <= 40.0, "{quick:?}");
    assert!(quick[0] > 34.0, "{quick:?}");
    let slow = last_leg(&r, &m, &s);
    assert!(slow.axes[0].speed.in_base() < 2.0, "{slow:?}");
    assert_eq!(codes(&r, &to("a", &[("x", 40.5), ("y", 50.0)]), &s), [Code::KeepOut]);
    let nearest = r.judge_move(&to("a", &[("x", 45.0), ("y", 50.0)]), &s, NOW).unwrap().nearest;
    assert!(nearest.is_some_and(|n| n[0].1.in_base() < 40.0 && n[0].1.in_base() > 35.0), "as far as x may go");
}

#[test]
fn what_leads_along_a_box_or_away_from_it_keeps_its_speed() {
    let r = rules(true);
    for (from, goal) in [((39.9, 30.0), ("y", 70.0)), ((39.9, 50.0), ("x", 10.0)), ((60.1, 50.0), ("x", 70.0))] {
        let verdict = r.judge_move(&to("a", &[goal]), &state(from.0, from.1, 3.0), NOW).unwrap();
        assert!(verdict.refusals.is_empty() && verdict.near.is_none(), "{goal:?}: {verdict:?}");
    }
}

#[test]
fn another_stage_in_motion_counts_with_what_its_stop_takes() {
    let r = rules(true);
    let go = to("a", &[("x", 90.0)]);
    let mut s = state(10.0, 10.0, 3.0);
    s.stages[1].activity = Activity::Moving;
    // 0.5 mm/s: 0.075 mm until it is seen, 0.05 mm of slowing down.
    s.stages[1].axes[0].target = Some(mm(1.13));
    assert_eq!(codes(&r, &go, &s), []);
    s.stages[1].axes[0].target = Some(mm(1.12));
    assert_eq!(codes(&r, &go, &s), [Code::KeepOut]);
    s.stages[1].axes[0].speed = crate::units::Speed::base(0.1).ok();
    assert_eq!(codes(&r, &go, &s), [], "it was cleared for less");
    let mut gone = state(10.0, 10.0, 3.0);
    gone.stages[1].activity = Activity::Offline;
    assert_eq!(codes(&r, &go, &gone), [Code::KeepOut], "who isn't there may be anywhere");
}

#[test]
fn another_stages_move_counts_with_the_parts_of_it_that_are_still_to_come() {
    let r = rules(true);
    let go = to("a", &[("x", 90.0)]);
    let mut s = state(10.0, 10.0, 3.0);
    // Between two parts of its move it rests, and will go down to 0.9 mm to take up its backlash.
    s.stages[1].axes[0].ahead = Some(Span { low: mm(0.9), high: mm(2.0) });
    assert_eq!(codes(&r, &go, &s), [Code::KeepOut]);
    s.stages[1].axes[0].ahead = Some(Span { low: mm(1.2), high: mm(2.0) });
    assert_eq!(codes(&r, &go, &s), []);
    s.stages[1].axes[0].ahead = None;
    assert_eq!(codes(&r, &go, &s), []);
}

#[test]
fn a_stage_that_homes_or_that_somebody_else_moves_may_be_anywhere() {
    let r = rules(true);
    let go = to("a", &[("x", 90.0)]);
    for activity in [Activity::Homing, Activity::Moving, Activity::Offline] {
        let mut s = state(10.0, 10.0, 3.0);
        s.stages[1].activity = activity;
        assert_eq!(codes(&r, &go, &s), [Code::KeepOut], "{activity:?}");
    }
    let mut s = state(10.0, 10.0, 3.0);
    s.stages[1].axes[0].trust = Trust::Unknown;
    assert_eq!(codes(&r, &go, &s), [Code::KeepOut]);
}

#[test]
fn two_axes_outside_come_back_one_after_the_other() {
    let r = rules(true);
    let s = state(103.0, -2.0, 3.0);
    for good in [&[("x", 90.0)][..], &[("y", 5.0)], &[("x", 101.0)], &[("x", 90.0), ("y", 5.0)]] {
        let verdict = r.judge_move(&to("a", good), &s, NOW).unwrap();
        assert!(verdict.refusals.is_empty() && verdict.slow, "{good:?}: {verdict:?}");
    }
    assert_eq!(codes(&r, &to("a", &[("x", 90.0), ("y", -3.0)]), &s), [Code::OutOfTravel], "the other must not grow");
    let refused = r.judge_move(&to("a", &[("x", 104.0)]), &s, NOW).unwrap();
    assert_eq!(refused.nearest, Some(vec![(Name::new("x"), mm(100.0))]));
}

#[test]
fn who_stands_outside_a_travel_and_inside_a_box_comes_out_of_either() {
    let r = rules(true);
    // y is above its travel; x and z are inside the bridge.
    let s = state(82.0, 102.0, 0.5);
    assert_eq!(codes(&r, &to("a", &[("x", 70.0)]), &s), [], "out of the box, y stays");
    assert_eq!(codes(&r, &to("a", &[("y", 90.0)]), &s), [], "y back, in the box as deep as before");
    assert_eq!(codes(&r, &to("a", &[("x", 85.0)]), &s), [Code::OutOfTravel, Code::KeepOut]);
    assert_eq!(codes(&r, &to("a", &[("y", 90.0), ("x", 85.0)]), &s), [Code::KeepOut], "y back, but deeper in");
}

/// Takes the moves one by one, each judged where the last one ended.
fn walk(r: &Rules, steps: &[crate::model::GoTo], s: &mut Snapshot) {
    for step in steps {
        let targets: Vec<(Name, Position)> =
            step.targets.iter().map(|(n, v)| (n.clone(), Position::new(*v, step.unit).unwrap())).collect();
        let m = Move { stage: step.stage.clone(), aim: Aim::To(targets.clone()) };
        assert_eq!(codes(r, &m, s), [], "{step:?}");
        for (name, p) in targets {
            let stage = s.stages.iter_mut().find(|x| x.stage == step.stage).unwrap();
            stage.axes.iter_mut().find(|a| a.axis == name).unwrap().position = Some(p);
        }
    }
}

#[test]
fn a_corner_is_gone_round_one_axis_after_the_other() {
    let r = rules(true);
    let mut s = state(30.0, 50.0, 3.0);
    let verdict = r.judge_move(&to("a", &[("x", 55.0), ("y", 70.0)]), &s, NOW).unwrap();
    assert_eq!(verdict.refusals[0].code, Code::KeepOut);
    let sequence = verdict.instead.unwrap().sequence;
    assert_eq!(sequence.len(), 2, "{sequence:?}");
    walk(&r, &sequence, &mut s);
    assert_eq!(s.stages[0].axes.iter().map(|a| a.position.unwrap().in_base()).collect::<Vec<_>>(), [55.0, 70.0]);
}

#[test]
fn the_focus_of_another_stage_is_retracted_and_brought_back_where_it_may() {
    let text = RIG
        .replace("tolerance = 5.0\n", "tolerance = 5.0\ntoward_sample = \"-\"\n")
        .replace("\"a.x\" = [80.0, 100.0], \"b.z\"", "\"a.x\" = [70.0, 80.0], \"b.z\"");
    let r = rules_of(&text, true);
    let mut s = state(10.0, 10.0, 0.5);
    let over = to("a", &[("x", 90.0)]);
    let sequence = r.judge_move(&over, &s, NOW).unwrap().instead.unwrap().sequence;
    let stages: Vec<&str> = sequence.iter().map(|g| g.stage.as_str()).collect();
    assert_eq!(stages, ["b", "a", "b"], "{sequence:?}");
    walk(&r, &sequence, &mut s);
    assert_eq!(s.stages[1].axes[0].position, Some(mm(0.5)), "it is where it was");
    // Into the box it can't come down again: it stays away.
    let mut s = state(10.0, 10.0, 0.5);
    let into = r.judge_move(&to("a", &[("x", 75.0)]), &s, NOW).unwrap().instead.unwrap().sequence;
    assert_eq!(into.len(), 2, "{into:?}");
    walk(&r, &into, &mut s);
}

#[test]
fn of_two_stages_that_share_a_box_one_can_be_homed_once_a_person_has_said_where_the_other_stands() {
    let r = rules(true);
    let mut s = state(10.0, 10.0, 3.0);
    s.stages.iter_mut().flat_map(|x| &mut x.axes).for_each(|a| a.trust = Trust::Unknown);
    let home = Home { stage: Name::new("a"), axes: vec![] };
    let e = r.judge_home(&home, &s, NOW).unwrap_err();
    assert!(e.code == Code::KeepOut && e.what.contains("b.z is not known to be out of it"), "{e}");
    assert!(e.refusals[0].allowed.as_ref().unwrap().contains("`steadyhand reference AXIS VALUE`"), "{e:?}");
    s.stages[1].axes[0].trust = Trust::Assumed;
    assert!(r.judge_home(&home, &s, NOW).is_ok(), "3 mm is above the bridge");
    s.stages[1].axes[0].position = Some(mm(0.5));
    assert_eq!(r.judge_home(&home, &s, NOW).unwrap_err().code, Code::KeepOut);
    assert_eq!(codes(&r, &to("a", &[("x", 12.0)]), &s), [Code::NotReferenced], "a move needs what it needed");
}

#[test]
fn the_steps_of_a_sequence_count_against_the_budget_one_by_one() {
    let across = to("a", &[("x", 55.0), ("y", 70.0)]);
    let s = state(30.0, 50.0, 3.0);
    let offers = |budget: &str| {
        let r = rules_of(&format!("{RIG}\n[budget]\n{budget}\n"), true);
        r.judge_move(&across, &s, NOW).unwrap().instead.unwrap_or_default().sequence.len()
    };
    assert_eq!(offers("moves_per_minute = 2"), 2);
    assert_eq!(offers("moves_per_minute = 1"), 0, "both of its moves would be counted");
    assert_eq!(offers("max_step = { \"a.x\" = 25.0, \"a.y\" = 20.0 }"), 2);
    assert_eq!(offers("max_step = { \"a.x\" = 24.0 }"), 0, "x has no smaller step there");
}

#[test]
fn a_refusal_at_the_last_moment_names_what_would_be_allowed_as_well() {
    let r = rules(true);
    let s = state(10.0, 50.0, 3.0);
    let leg = Leg { targets: vec![(Name::new("x"), mm(90.0))] };
    let e = r.judge_leg(&Name::new("a"), &leg, &[], &s, NOW).unwrap_err();
    let near = e.instead.unwrap().nearest.unwrap();
    assert_eq!(codes(&r, &to("a", &[("x", near.targets[0].1)]), &s), []);
    // What stands against any motion leaves nothing to name.
    let mut stopped = s.clone();
    stopped.stages[0].stopped_by = Some(StopBy::Model);
    let verdict = r.judge_move(&to("a", &[("x", 90.0)]), &stopped, NOW).unwrap();
    assert!(verdict.instead.is_none() && verdict.nearest.is_some(), "{verdict:?}");
}

#[test]
fn no_sequence_leads_into_a_box_or_is_named_for_a_stopped_stage() {
    let r = rules(true);
    let mut s = state(10.0, 10.0, 3.0);
    let inside = r.judge_move(&to("a", &[("x", 50.0), ("y", 50.0)]), &s, NOW).unwrap();
    assert!(inside.sequence.is_empty() && !inside.refusals.is_empty());
    s.stages[0].stopped_by = Some(StopBy::Person);
    let across = r.judge_move(&to("a", &[("x", 70.0), ("y", 70.0)]), &s, NOW).unwrap();
    assert!(across.sequence.is_empty() && across.refusals.len() > 1);
}

proptest! {
    /// A stop ends between where it is given and the target, so all of the way is outside. And what doesn't end at its
    /// target ends outside, too, by the speed that was cleared, or was cleared for a tenth.
    #[test]
    fn a_cleared_way_is_outside_and_what_runs_on_from_it_as_far_as_it_is_slowed(
        x0 in 0.0..78.0_f64, y0 in 0.0..100.0_f64, x1 in 0.0..78.0_f64, y1 in 0.0..100.0_f64, coordinated: bool,
    ) {
        let inside = |x: f64, y: f64| 40.0 + 1e-6 < x && x < 60.0 - 1e-6 && 40.0 + 1e-6 < y && y < 60.0 - 1e-6;
        prop_assume!(!inside(x0, y0) && y1 >= y0);
        let r = rules(coordinated);
        let mut s = state(x0, y0, 3.0);
        let m = to("a", &[("x", x1), ("y", y1)]);
        if codes(&r, &m, &s).is_empty() {
            for leg in r.resolve(&m, &s).unwrap().legs {
                let (drive, _) = r.judge_leg(&Name::new("a"), &leg, &[], &s, NOW).unwrap();
                let axes = [0, 1].map(|i| (drive.axes[i].from.in_base(), (drive.axes[i].to - drive.axes[i].from).in_base()));
                let (a, b) = (axes[0], axes[1]);
                let length = drive.length().in_base().max(1e-12);
                let feed = drive.feed().map_or(0.0, |v| v.in_base());
                // Both axes slow down at 50 mm/s², and together as the one with the longer way does.
                let slows = 50.0 / (a.1.abs().max(b.1.abs()) / length).max(1e-12);
                let slowest = drive.axes[0].speed.in_base() <= 1.0 + 1e-6;
                let far = |(_, way): (f64, f64)| {
                    if slowest || way.abs() <= 0.01 { 0.0 }
                    else if coordinated { stops_in(feed, slows) / length * way }
                    else { stops_in(drive.axes[0].speed.in_base(), 50.0).copysign(way) }
                };
                let (ends, n) = ((a.0 + a.1 + far(a), b.0 + b.1 + far(b)), 60);
                for (i, j) in (0..=n).flat_map(|i| (0..=n).map(move |j| (i, j))).filter(|(i, j)| !coordinated || i == j) {
                    let at = |from: f64, to: f64, i: i32| from + (to - from) * f64::from(i) / f64::from(n);
                    prop_assert!(!inside(at(a.0, ends.0, i), at(b.0, ends.1, j)), "{drive:?} at {i} {j}");
                }
                for (name, p) in &leg.targets {
                    s.stages[0].axes.iter_mut().find(|x| x.axis == *name).unwrap().position = Some(*p);
                }
            }
        }
    }
}
