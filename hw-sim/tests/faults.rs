//! Each fault does what it says, and ends when it should.

mod support;

use hw_sim::{Bench, BenchError, Fault};
use support::{Host, near};

#[test]
fn dropped_bytes_never_reach_the_device() {
    let mut h = Host::homed();
    h.fault(Fault::Drop { bytes: 3 });
    assert_eq!(h.ask("$J=G91X-1F100\n", 100), "ok\r\n");
    assert!(h.ask("$G\n", 3000).contains("G91"), "what was left of the jog changed the modal state");
}

#[test]
fn garbled_bytes_are_not_what_was_said() {
    let mut h = Host::booted();
    h.fault(Fault::Garble { bytes: 2 });
    h.send(b"$I\n");
    h.pass(0);
    let mut host = Host::booted();
    let clean = host.ask("$I\n", 50);
    let garbled = h.pass(50);
    assert_ne!(garbled, clean);
    assert!(garbled.ends_with(&clean[2..]));
}

#[test]
fn a_delay_lasts_until_it_is_cleared() {
    let mut h = Host::booted();
    h.fault(Fault::Delay { ms: 300 });
    assert_eq!(h.ask("\n", 290), "");
    assert_eq!(h.pass(20), "ok\r\n");
    h.fault(Fault::Delay { ms: 0 });
    assert_eq!(h.ask("\n", 10), "ok\r\n");
}

#[test]
fn only_one_line_is_late() {
    let mut h = Host::booted();
    h.fault(Fault::Late { ms: 300 });
    assert_eq!(h.ask("\n", 290), "");
    assert_eq!(h.pass(20), "ok\r\n");
    assert_eq!(h.ask("\n", 10), "ok\r\n");
}

#[test]
fn a_power_cycle_forgets_the_counters_but_not_the_carriage_or_the_settings() {
    let mut h = Host::homed();
    h.ask("$24=55\n", 50);
    h.ask("G0 X-30\n", 800);
    let before = h.x();
    h.fault(Fault::Reset);
    let banner = h.pass(2000);
    assert_eq!(banner, "\r\nGrbl 1.1h ['$' for help]\r\n[MSG:'$H'|'$X' to unlock]\r\n");
    assert_eq!(h.mpos(), [0.0, 0.0, 0.0]);
    near(h.x(), before, 0.2);
    assert!(h.x() < 70.0);
    assert!(h.ask("$$\n", 500).contains("$24=55.000"));
}

#[test]
fn a_jam_is_invisible_to_the_controller() {
    let mut h = Host::homed();
    h.fault(Fault::Jam { axis: "x".into() });
    h.ask("G0 X-20\n", 3000);
    near(h.mpos()[0], -20.0, 1e-9);
    near(h.x(), 74.0, 0.01);
    assert_eq!(h.bench.speed_mm_per_s("scope", "x"), 0.0);
    h.fault(Fault::Unjam { axis: "x".into() });
    h.ask("G0 X-21\n", 1000);
    near(h.x(), 73.0, 0.01);
}

#[test]
fn a_pressed_limit_switch_stops_everything_until_a_reset() {
    let mut h = Host::homed();
    h.ask("$21=1\n", 50);
    h.ask("G0 X-60\n", 500);
    h.fault(Fault::Limit { axis: "x".into(), pressed: true });
    assert_eq!(h.pass(50), "ALARM:1\r\n[MSG:Reset to continue]\r\n");
    h.fault(Fault::Limit { axis: "x".into(), pressed: false });
    let stood = h.x();
    assert_eq!(h.ask("?$X\n", 500), "");
    near(h.x(), stood, 1e-9);
    assert!(h.ask("\u{18}", 50).contains("to unlock"));
    assert_eq!(h.state(), "Alarm");
}

#[test]
fn a_dead_switch_lets_homing_fail() {
    let mut h = Host::booted();
    h.fault(Fault::SwitchDead { axis: "z".into(), on: true });
    let said = h.ask("$H\n", 20_000);
    assert!(said.starts_with("ALARM:9\r\nok\r\n\r\nGrbl"), "{said}");
    near(h.bench.carriage_mm("scope", "z"), 4.2, 1e-9);
}

#[test]
fn an_unplugged_cable_loses_what_is_on_it_while_motion_goes_on() {
    let mut h = Host::homed();
    h.ask("G0 X-40\n", 100);
    h.send(b"?");
    h.fault(Fault::Unplug);
    assert!(!h.bench.plugged("scope"));
    assert_eq!(h.bench.write("scope", b"?"), 0);
    assert_eq!(h.pass(5000), "");
    near(h.x(), 35.0, 0.01);
    h.fault(Fault::Plug);
    assert_eq!(h.pass(100), "");
    assert_eq!(h.state(), "Idle");
}

#[test]
fn a_controller_with_dtr_restarts_at_the_plug() {
    let toml = hw_sim::MICROSCOPE_TOML.replace("boot_ms = 1500", "boot_ms = 1500\ndtr_resets = true");
    let mut h = Host::new(Bench::from_toml(&toml).expect("the bench"));
    h.pass(2000);
    h.fault(Fault::Unplug);
    h.fault(Fault::Plug);
    assert_eq!(h.pass(1000), "");
    assert!(h.pass(1000).contains("Grbl"));
    h.bench.open("scope");
    assert!(h.pass(2000).contains("Grbl"));
}

#[test]
fn a_silent_device_neither_hears_nor_speaks() {
    let mut h = Host::homed();
    h.fault(Fault::Silence { on: true });
    assert_eq!(h.ask("G0 X-20\n?", 3000), "");
    near(h.x(), 74.0, 0.01);
    h.fault(Fault::Silence { on: false });
    assert_eq!(h.state(), "Idle");
}

#[test]
fn a_frozen_device_goes_on_where_it_was() {
    let mut h = Host::homed();
    h.ask("G0 X-40\n", 500);
    h.fault(Fault::Freeze { on: true });
    let stood = h.x();
    assert_eq!(h.ask("?", 5000), "");
    near(h.x(), stood, 1e-9);
    h.fault(Fault::Freeze { on: false });
    assert!(h.pass(10).starts_with("<Run"));
    h.pass(5000);
    near(h.x(), 35.0, 0.01);
}

#[test]
fn a_power_cycle_ends_a_freeze() {
    let mut h = Host::homed();
    h.fault(Fault::Freeze { on: true });
    h.pass(1000);
    h.fault(Fault::Reset);
    assert!(h.pass(2000).contains("Grbl"));
    assert_eq!(h.state(), "Alarm");
}

#[test]
fn slow_motion_takes_longer_and_arrives() {
    let mut h = Host::homed();
    h.ask("G0 X-21\n", 300);
    h.fault(Fault::Slow { factor: 0.1 });
    h.pass(500);
    near(h.bench.speed_mm_per_s("scope", "x"), -2.0, 0.1);
    h.pass(15_000);
    near(h.x(), 54.0, 0.01);
    h.fault(Fault::Slow { factor: 1.0 });
    h.ask("G0 X-1\n", 300);
    h.pass(500);
    near(h.bench.speed_mm_per_s("scope", "x"), 20.0, 0.1);
}

#[test]
fn lost_steps_and_nudges_part_truth_from_count() {
    let mut h = Host::homed();
    h.fault(Fault::LostSteps { axis: "x".into(), steps: 400 });
    near(h.x(), 73.0, 0.01);
    h.fault(Fault::Nudge { axis: "x".into(), mm: -2.0 });
    near(h.x(), 71.0, 0.01);
    near(h.mpos()[0], -1.0, 1e-9);
    h.ask("$H\n", 15_000);
    near(h.x(), 74.0, 0.01);
}

#[test]
fn injected_bytes_arrive_verbatim() {
    let mut h = Host::booted();
    h.fault(Fault::Inject { bytes: b"error: noise\r\n".to_vec() });
    assert_eq!(h.pass(10), "error: noise\r\n");
}

#[test]
fn a_corrupt_eeprom_shows_at_the_next_power_cycle() {
    let mut h = Host::booted();
    h.fault(Fault::CorruptEeprom);
    h.fault(Fault::Reset);
    let said = h.pass(3000);
    assert!(said.starts_with("error:7\r\n$0=10\r\n"), "{said}");
    assert!(said.ends_with(">:error:7\r\n>:error:7\r\n"));
    assert!(said.contains("$22=0"));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut b = Bench::microscope(1);
    let jam = |axis: &str| Fault::Jam { axis: axis.into() };
    assert_eq!(b.fault("nope", Fault::Reset), Err(BenchError::NoDevice("nope".into())));
    assert!(matches!(b.fault("scope", jam("a")), Err(BenchError::NoAxis { .. })));
    assert!(matches!(b.fault("cam", jam("x")), Err(BenchError::NoAxis { .. })));
    assert!(matches!(b.fault("scope", Fault::Slow { factor: 0.0 }), Err(BenchError::NotPossible { .. })));
    assert!(matches!(b.fault("scope", Fault::DropFrames { frames: 1 }), Err(BenchError::NotPossible { .. })));
    assert!(matches!(b.fault("cam", Fault::CorruptEeprom), Err(BenchError::NotPossible { .. })));
}
