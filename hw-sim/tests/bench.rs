//! The bench itself: its clock, its file, its lines, its control language.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use support::{Host, near};

#[test]
fn time_does_not_go_backwards() {
    let mut b = Bench::microscope(1);
    b.advance(Duration::from_secs(3));
    b.advance(Duration::from_secs(1));
    assert_eq!(b.now(), Duration::from_secs(3));
}

#[test]
fn hours_of_motion_pass_in_seconds() {
    let mut h = Host::homed();
    let started = std::time::Instant::now();
    for i in 0..100 {
        h.ask(if i % 2 == 0 { "G1 X-70 F240\n" } else { "G1 X-5 F240\n" }, 18_000);
    }
    near(h.mpos()[0], -5.0, 1e-9);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?} for half an hour", started.elapsed());
}

#[test]
fn the_control_language_reaches_the_same_points() {
    let mut h = Host::booted();
    let mut ask = |line: &str| -> serde_json::Value { serde_json::from_str(&h.bench.control(line)).expect("JSON") };
    assert_eq!(ask(r#"{"cmd":"positions"}"#)["scope"]["x"], 40.0);
    assert_eq!(ask(r#"{"cmd":"pulses"}"#)["scope"]["z"], 0);
    assert_eq!(ask(r#"{"cmd":"settings","device":"scope"}"#)["$110"], "1200.000");
    assert_eq!(ask(r#"{"cmd":"fault","device":"scope","fault":"drop","bytes":3}"#)["ok"], true);
    assert!(ask(r#"{"cmd":"fault","device":"scope","fault":"drop","bytes":3,"extra":1}"#)["error"].is_string());
    assert!(ask(r#"{"cmd":"fault","device":"scope","fault":"melt"}"#)["error"].is_string());
    assert!(ask(r#"{"cmd":"settings","device":"nope"}"#)["error"].is_string());
    assert!(ask("nonsense")["error"].is_string());
    h.send(b"abc?");
    h.pass(10);
    let heard: serde_json::Value =
        serde_json::from_str(&h.bench.control(r#"{"cmd":"received","device":"scope","since_ms":1500}"#)).expect("JSON");
    assert_eq!(heard["text"], "?");
}

#[test]
fn the_same_seed_brings_the_same_bytes() {
    let run = |step: u64| {
        let mut h = Host::homed();
        h.fault(Fault::Garble { bytes: 5 });
        h.send(b"G0 X-20 Y-30 Z-2\n?");
        let mut said = String::new();
        for _ in 0..(4000 / step) {
            said += &h.pass(step);
        }
        (said, h.x().to_bits())
    };
    assert_eq!(run(4000), run(4000));
    assert_eq!(run(4000), run(5));
}

#[test]
fn bench_files_are_read_strictly() {
    for (from, to, expected) in [
        ("seed = 1", "sed = 1", "line"),
        ("baud = 115200", "baud = 0", "baud"),
        ("backlash_mm = 0.001", "backlash = 0.001", "line"),
        ("\"$100\" = 400", "\"$99\" = 400", "$99"),
        ("scope.z", "scope.q", "scope.q"),
        ("protocol = \"grbl-1.1\"", "protocol = \"grbl-9\"", "grbl-9"),
        ("id = \"cam\"", "id = \"scope\"", "scope"),
        ("start_mm = 40.0", "start_mm = 400.0", "start_mm"),
        ("rotate = 0", "rotate = 45", "rotate"),
    ] {
        let text = hw_sim::MICROSCOPE_TOML.replacen(from, to, 1);
        let error = Bench::from_toml(&text).expect_err(from).to_string();
        assert!(error.contains(expected), "{from}: {error}");
    }
}

#[test]
fn bytes_reach_the_device_at_the_pace_of_the_line() {
    let mut h = Host::booted();
    let before = h.bench.received("scope").len();
    h.send(&[b' '; 100]);
    assert_eq!(h.bench.unsent("scope"), 100);
    h.pass(100);
    let log = &h.bench.received("scope")[before..];
    let took = log[99].0 - Duration::from_millis(2000);
    let wanted = 100.0 * 10.0 / 115_200.0;
    near(took.as_secs_f64(), wanted, 1e-5);
    assert!(h.bench.written("scope").iter().all(|(t, _)| *t == Duration::from_millis(2000)));
}

#[test]
fn next_event_is_none_at_rest_and_soon_in_motion() {
    let mut h = Host::homed();
    assert_eq!(h.bench.next_event(), None);
    h.ask("G0 X-50\n", 100);
    let next = h.bench.next_event().expect("something moves");
    assert!(next - h.bench.now() <= Duration::from_millis(5));
}

#[test]
fn a_bench_can_move_to_another_thread() {
    fn sendable<T: Send>() {}
    sendable::<Bench>();
    sendable::<hw_sim::serve::Running>();
}

#[test]
fn writes_block_when_the_buffer_is_small() {
    let mut h = Host::booted();
    h.bench.set_os_buffer("scope", 8);
    assert_eq!(h.bench.write("scope", &[b' '; 20]), 8);
    assert_eq!(h.bench.write("scope", &[b' '; 20]), 0);
    h.pass(1);
    assert!(h.bench.unsent("scope") == 0);
}
