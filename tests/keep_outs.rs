//! Keep-outs against true carriage positions, on virtual time: whatever boxes, moves and stops a seed brings, no carriage
//! comes into a box; nor does one that runs on beyond its target.

mod support;

use std::time::Duration;

use hw_sim::Bench;
use steadyhand::actor::Ticket;
use steadyhand::model::{Code, GoTo, Move, Report, RigError};
use steadyhand::units::Position;
use support::peers::{PEERS, Peer};
use support::random::{Random, share};
use support::{Lab, answer_of};

/// How far a carriage may be from what its controller counts, in mm: rounding to steps, and what a driver calls standing
/// at its target.
const OFF: f64 = 0.025;
/// The axes with the room that the moves of these tests take, in mm.
const ROOM: [(&str, f64); 3] = [("x", 48.0), ("y", 48.0), ("z", 3.9)];

/// A box: the bounds of x, y and z in mm, where it has some.
type Bounds = [Option<[f64; 2]>; 3];

/// Boxes that contain neither the middle nor the ends, so that no stage is in one before it has moved.
fn boxes(random: &mut Random) -> Vec<Bounds> {
    let mut all = Vec::new();
    while all.len() < 3 {
        let mut bounds: Bounds = [None; 3];
        for (i, (_, room)) in ROOM.iter().enumerate() {
            let low = random.between(0.05 * room, 0.8 * room);
            let high = (low + random.between(0.05 * room, 0.5 * room)).min(0.95 * room);
            let hundredths = |v: f64| (v * 100.0).round() / 100.0;
            bounds[i] = (i < 2 || random.chance(40)).then_some([hundredths(low), hundredths(high)]);
        }
        if bounds[..2].iter().flatten().any(|[low, high]| 25.5 < *low || *high < 24.5) {
            all.push(bounds);
        }
    }
    all
}

/// The peer's rig with these keep-outs in place of its own.
fn rig(peer: &Peer, boxes: &[Bounds]) -> String {
    let text = (peer.rig)();
    let text = text.split("[[keep_out]]").next().unwrap();
    let span = |(axis, _): (&str, f64), [low, high]: [f64; 2]| {
        let per_mm = if axis == "z" { 1000.0 } else { 1.0 };
        format!("\"scope.{axis}\" = [{:.3}, {:.3}]", low * per_mm, high * per_mm)
    };
    let one = |b: &Bounds| {
        let spans: Vec<String> = ROOM.iter().zip(b).filter_map(|(axis, s)| Some(span(*axis, (*s)?))).collect();
        format!("{{ {} }}", spans.join(", "))
    };
    let all: Vec<String> = boxes.iter().map(one).collect();
    format!("{text}\n[[keep_out]]\nname = \"boxes\"\nboxes = [{}]\n", all.join(", "))
}

/// A peer's stage that is referenced, under a rig with these boxes.
fn lab(peer: &Peer, boxes: &[Bounds]) -> Lab {
    let mut lab = Lab::new(&rig(peer, boxes), Bench::from_toml(&(peer.bench)()).unwrap());
    lab.online();
    peer.reference(&mut lab);
    lab
}

fn place(lab: &Lab) -> [f64; 3] {
    ROOM.map(|(axis, _)| lab.truly(axis))
}

fn outside(lab: &Lab, boxes: &[Bounds]) {
    let at = place(lab);
    for b in boxes {
        let inside = b.iter().zip(at).all(|(s, p)| s.is_none_or(|[low, high]| low + OFF < p && p < high - OFF));
        assert!(!inside, "the carriage is at {at:?}, in the box {b:?}");
    }
}

/// Carries a move on to its end, looks at the carriage all the time, and stops it when that is due.
fn carry(
    lab: &mut Lab,
    mut ticket: Ticket<Report>,
    boxes: &[Bounds],
    stop: Option<Duration>,
) -> Result<Report, RigError> {
    let (mut stop, mut answer) = (stop.map(|after| lab.now() + after), None);
    lab.until("it is over", Duration::from_secs(200), |l| {
        outside(l, boxes);
        if stop.is_some_and(|at| l.now() >= at) {
            stop = None;
            l.stop();
        }
        answer = answer.take().or_else(|| answer_of(&mut ticket));
        answer.is_some()
    });
    answer.unwrap()
}

/// Somewhere in the room, near the face of a box or on it as often as not.
fn target(random: &mut Random, boxes: &[Bounds]) -> Vec<(&'static str, f64)> {
    let mut targets = Vec::new();
    for (axis, room) in ROOM {
        if random.chance(70) {
            targets.push((axis, random.between(0.3, room)));
        }
    }
    for (axis, value) in &mut targets {
        let i = ROOM.iter().position(|(name, _)| name == axis).unwrap();
        let bounds = boxes[random.below(boxes.len() as u64) as usize][i];
        if let Some([low, high]) = bounds.filter(|_| random.chance(50)) {
            let off = if random.chance(50) { 0.0 } else { random.between(0.0, 0.1 * ROOM[i].1) };
            *value = if random.chance(50) { low - off } else { high + off }.clamp(0.3, ROOM[i].1);
        }
        if *axis == "z" {
            *value *= 1000.0;
        }
    }
    targets
}

/// The move that a refusal names.
fn instead(call: &GoTo) -> Move {
    let targets = call.targets.iter().map(|(n, v)| (n.clone(), Position::new(*v, call.unit).unwrap())).collect();
    Move { stage: call.stage.clone(), aim: steadyhand::model::Aim::To(targets) }
}

fn storm(seed: u64) {
    let mut random = Random(seed);
    let peer = &PEERS[(seed % 3) as usize];
    let boxes = boxes(&mut random);
    let mut lab = lab(peer, &boxes);
    let (mut went, mut refused, mut stopped) = (0, 0, 0);
    for step in 0..14 {
        let aim = target(&mut random, &boxes);
        if aim.is_empty() {
            continue;
        }
        eprintln!("seed {seed}, {}, step {step}: from {:?} to {aim:?}", peer.name, place(&lab));
        let movement = lab.to(&aim);
        let mut now = vec![movement.clone()];
        let verdict = lab.handle.rules().judge_move(&movement, &lab.state(), lab.handle.now()).unwrap();
        if !verdict.refusals.is_empty() {
            refused += 1;
            let since = lab.now();
            let ticket = lab.begin_move(movement).unwrap();
            let e = carry(&mut lab, ticket, &boxes, None).unwrap_err();
            assert_eq!(e.code, Code::KeepOut, "{e}");
            let heard = lab.heard_since(since);
            assert!(!heard.windows(peer.motion.len()).any(|w| w == peer.motion), "what is refused isn't sent");
            // What it names instead is allowed when it is asked for.
            let named = e.instead.unwrap_or_default();
            now = if named.sequence.is_empty() {
                named.nearest.iter().collect()
            } else {
                named.sequence.iter().collect::<Vec<_>>()
            }
            .into_iter()
            .map(instead)
            .collect();
        }
        for movement in now {
            let stop = random.chance(50).then(|| Duration::from_micros(random.below(3_000_000)));
            let ticket = lab.begin_move(movement).unwrap();
            match carry(&mut lab, ticket, &boxes, stop) {
                Ok(_) => went += 1,
                Err(e) => {
                    assert_eq!(e.code, Code::Stopped, "{e}");
                    stopped += 1;
                }
            }
            // A stop that comes right behind the end of a move stands, too.
            lab.run_ms(400);
            outside(&lab, &boxes);
            if lab.scope().stopped_by.is_some() {
                lab.recover("scope").unwrap();
                break;
            }
        }
    }
    assert!(went + stopped > 0 && refused < 14, "{went} {stopped} {refused}");
}

#[test]
fn no_carriage_comes_into_a_box_wherever_it_is_stopped_a() {
    share(0, 2, 12, storm);
}

#[test]
fn no_carriage_comes_into_a_box_wherever_it_is_stopped_b() {
    share(1, 2, 12, storm);
}

#[test]
fn what_runs_on_beyond_its_target_is_stopped_before_the_box() {
    let peer = &PEERS[0];
    let post: Vec<Bounds> = vec![[Some([10.0, 20.0]), None, None]];
    let mut random = Random(5);
    let mut overran = 0;
    for gap in [0.4, 0.7, 1.2, 2.0, 3.0, 4.5] {
        for _ in 0..4 {
            let mut lab = lab(peer, &post);
            lab.move_to(&[("x", 35.0), ("y", 20.0)]).unwrap();
            let since = lab.now();
            let movement = lab.to(&[("x", 20.0 + gap)]);
            let mut ticket = lab.begin_move(movement).unwrap();
            let until = since + Duration::from_micros(200_000 + random.below(1_800_000));
            let mut over = false;
            while !over && lab.now() < until {
                lab.run_ms(1);
                over = answer_of(&mut ticket).is_some();
            }
            if over || lab.bench.speed_mm_per_s("scope", "x") == 0.0 {
                continue;
            }
            // The controller goes on at the speed that it was given, as if a digit had been lost on the line.
            let line = lab.lines_since(since).pop().unwrap();
            let feed = line.split_once('F').unwrap().1.to_owned();
            lab.bench.write("scope", format!("$J=G91G21X-15F{feed}\n").as_bytes());
            let mut least = f64::MAX;
            eprintln!("gap {gap} mm, at {} mm, {} mm/s", lab.truly("x"), lab.bench.speed_mm_per_s("scope", "x"));
            lab.until("it stands", Duration::from_secs(20), |l| {
                least = least.min(l.truly("x"));
                outside(l, &post);
                l.bench.speed_mm_per_s("scope", "x") == 0.0 && l.now() > until + Duration::from_secs(3)
            });
            overran += u32::from(least < 20.0 + gap - 0.05);
        }
    }
    assert!(overran >= 6, "what it is about has to happen: {overran}");
}
