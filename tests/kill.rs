//! The program killed (`kill -9`) at moments of a motion that a seed chooses: whole binaries on a real pseudo-terminal, in
//! real time. `STEADYHAND_KILLS=100` tries more moments than a dozen.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "other processes move in real time here")]

mod process;
mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use process::{Server, bench, home, serve, x};
use serde_json::{Value, json};
use support::random::Random;

/// Where the stage was told to go, and how far short of it that counts as there, in mm.
const TARGET: f64 = 10.0;
const NEAR: f64 = 0.05;

/// The x axis as the program tells it, once the stage has been read.
fn told(server: &mut Server) -> (String, f64) {
    let begun = Instant::now();
    loop {
        let state = server.call("get_state", json!({}));
        let axis = find(&state["structuredContent"], "x");
        if let Some(axis) = axis
            && let (Some(trust), Some(at)) = (axis["trust"].as_str(), axis["position"].as_f64())
        {
            return (trust.to_owned(), at);
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the stage was never read: {state:#}");
        sleep(Duration::from_millis(100));
    }
}

/// What stands under that axis's name, wherever it stands in an answer.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map
            .get(name)
            .or(map.get(&format!("scope.{name}")))
            .filter(|axis| axis.get("trust").is_some())
            .or_else(|| map.values().find_map(|v| find(v, name))),
        Value::Array(all) => all.iter().find_map(|v| find(v, name)),
        _ => None,
    }
}

/// A third of the moments, so that they pass at the same time.
fn kills(third: u64) {
    let moments = std::env::var("STEADYHAND_KILLS").ok().and_then(|v| v.parse::<u64>().ok()).unwrap_or(12) / 3;
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut random = Random(third);
    let mut server = serve(folder.path());
    let (mut finished, mut furthest) = (0, 0.0_f64);
    for moment in 0..moments {
        home(&mut server);
        let start = x(&bench);
        server.ask("move_to", json!({"stage": "scope", "targets": {"x": TARGET}, "unit": "mm"}));
        let delay = Duration::from_micros(random.below(3_600_000));
        sleep(delay);
        server.child.kill().expect("killed");
        server.child.wait().expect("ended");
        let killed_at = x(&bench);
        // What the controller does meanwhile: it finishes what it was given, and no more.
        let still_since = Instant::now();
        let mut before = killed_at;
        loop {
            sleep(Duration::from_millis(150));
            let at = x(&bench);
            assert!(at > TARGET - NEAR && at < start + NEAR, "moment {moment}: it left the cleared way, to {at} mm");
            if at == before {
                break;
            }
            before = at;
            assert!(still_since.elapsed() < Duration::from_secs(20), "moment {moment}: it never came to rest");
        }
        let rest = x(&bench);
        let went = (rest - start).abs() > NEAR;
        if went {
            assert!((rest - TARGET).abs() < NEAR, "moment {moment}: it stood still half-way, at {rest} mm");
            finished += 1;
            furthest = furthest.max((rest - killed_at).abs());
        }
        server = serve(folder.path());
        let (trust, at) = told(&mut server);
        sleep(Duration::from_millis(700));
        assert_eq!(x(&bench), rest, "moment {moment}: something moved by itself");
        let refused = server.call("move_to", json!({"stage": "scope", "targets": {"x": 40.0}, "unit": "mm"}));
        assert_eq!(refused["structuredContent"]["moved"], "no", "moment {moment}: {refused}");
        assert_eq!(x(&bench), rest, "moment {moment}: it moved on a position that is not referenced");
        assert_ne!(trust, "referenced", "moment {moment}, killed after {delay:?}");
        if trust == "restored" {
            assert!((at - rest).abs() < NEAR, "moment {moment}: restored at {at} mm, and it stands at {rest} mm");
        }
    }
    assert!(finished > 0, "no kill hit a motion");
    // With `--nocapture`: what the safety page tells.
    eprintln!("{finished} of {moments} kills hit a motion; it went on by up to {furthest:.1} mm");
}

#[test]
fn killed_in_motion_it_comes_back_honest_and_moves_nothing_by_itself_a() {
    kills(1);
}

#[test]
fn killed_in_motion_it_comes_back_honest_and_moves_nothing_by_itself_b() {
    kills(2);
}

#[test]
fn killed_in_motion_it_comes_back_honest_and_moves_nothing_by_itself_c() {
    kills(3);
}
