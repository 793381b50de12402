//! How far an axis goes on after a stop at full speed, by protocol: from the moment when the stop is asked for until the
//! carriage stands, by its true position, on virtual time and at the line's own pace. Prints median and worst of a hundred
//! stops, and beside them what the axis needs by its own deceleration alone (v / a and v²/2a).
#![allow(clippy::print_stdout)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use hw_sim::Bench;
use support::peers::{PEERS, Peer};
use support::random::Random;
use support::{Lab, answer_of};

const STOPS: usize = 100;
/// The speed that the peers' rig files allow for x, in mm/s.
const SPEED: f64 = 20.0;

/// How x slows down on the peer's bench, in mm/s²: GRBL's $120, Zaber's decelonly, ASI's ramp of 50 ms.
fn deceleration(peer: &Peer) -> f64 {
    match peer.name {
        "grbl" => 200.0,
        "zaber" => 620.0,
        _ => SPEED / 0.05,
    }
}

/// One stop at full speed: how long it took, and how far the carriage went on.
fn stop(lab: &mut Lab, to: f64, random: &mut Random) -> (Duration, f64) {
    let movement = lab.to(&[("x", to)]);
    let mut ticket = lab.begin_move(movement).expect("room");
    let full = |l: &mut Lab| l.bench.speed_mm_per_s("scope", "x").abs() > SPEED * 0.999;
    lab.until("full speed", Duration::from_secs(5), full);
    // Anywhere between two readings.
    lab.run(Duration::from_micros(random.below(700_000)));
    assert!(full(lab), "still at full speed");
    let (asked, at) = (lab.now(), lab.truly("x"));
    lab.stop();
    lab.pass();
    while lab.bench.speed_mm_per_s("scope", "x") != 0.0 {
        let look = lab.now() + Duration::from_micros(200);
        lab.quick_turn(look);
        assert!(lab.now() < asked + Duration::from_secs(10), "it never stands");
    }
    let went = (lab.now() - asked, (lab.truly("x") - at).abs());
    lab.until("the answer", Duration::from_secs(10), |_| answer_of(&mut ticket).is_some());
    lab.recover("scope").expect("cleared");
    went
}

fn main() {
    for peer in PEERS {
        let mut lab = Lab::new(&(peer.rig)(), Bench::from_toml(&(peer.bench)()).expect("a bench"));
        lab.online();
        peer.reference(&mut lab);
        let mut random = Random(1);
        let (mut times, mut ways) = (Vec::new(), Vec::new());
        for _ in 0..STOPS {
            lab.move_to(&[("x", 12.0), ("y", 20.0)]).expect("a move");
            let (time, way) = stop(&mut lab, 48.0, &mut random);
            times.push(time.as_secs_f64() * 1000.0);
            ways.push(way);
        }
        times.sort_by(f64::total_cmp);
        ways.sort_by(f64::total_cmp);
        let a = deceleration(peer);
        println!(
            "{}: {STOPS} stops at {SPEED} mm/s: stands after {:.1} ms (median), {:.1} ms (worst), {:.2} mm (median), {:.2} mm \
             (worst) further; its deceleration alone takes {:.0} ms and {:.2} mm",
            peer.name,
            times[STOPS / 2],
            times[STOPS - 1],
            ways[STOPS / 2],
            ways[STOPS - 1],
            SPEED / a * 1000.0,
            SPEED * SPEED / (2.0 * a),
        );
    }
}
