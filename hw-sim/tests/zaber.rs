//! Zaber axes on a bench: how they move, what they warn of, and what goes wrong without their knowing.

mod support;

use hw_sim::Fault;
use support::near;
use support::zaber::Chain;

const FOCUS_PER_MM: f64 = 5249.344;
const TILT_PER_MM: f64 = 2015.748;
/// Above the switch, where the counter is 0 after homing.
const HOME_STEPS: f64 = 500.0;

fn focus_mm(pos: f64) -> f64 {
    (pos + HOME_STEPS) / FOCUS_PER_MM
}

fn axis(name: &str) -> String {
    name.to_owned()
}

#[test]
fn an_axis_homes_moves_and_tells_where_it_is() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/1 1 home"), "@01 1 OK BUSY WR 0");
    c.settle("/1");
    assert_eq!(c.ask("/1 1 07 get pos"), "@01 1 07 OK IDLE -- 0");
    near(c.at("focus"), focus_mm(0.0), 2.0 / FOCUS_PER_MM);
    assert_eq!(c.ask("/1 1 move abs 52493"), "@01 1 OK BUSY -- 0");
    c.settle("/1");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE -- 52493");
    near(c.at("focus"), focus_mm(52_493.0), 2.0 / FOCUS_PER_MM);
    for (command, pos) in [
        ("move rel -493", "52000"),
        ("move min", "0"),
        ("move index 3", "20000"),
        ("move max", "133333"),
        ("move abs 1000 20000 40", "1000"),
    ] {
        c.value(&format!("/1 {command}"));
        c.settle("/1");
        assert_eq!(c.value("/1 get pos"), pos, "{command}");
    }
    c.value("/1 tools storepos 2 4321");
    c.value("/1 move stored 2");
    c.settle("/1");
    assert_eq!(c.value("/1 get pos"), "4321");
    assert_eq!(c.ask("/1 move stored 3"), "@01 0 RJ IDLE -- BADDATA");
}

#[test]
fn homing_twice_ends_on_the_same_place() {
    let mut c = Chain::booted();
    c.home("/1");
    let first = c.at("focus");
    c.value("/1 move abs 77777");
    c.settle("/1");
    c.home("/1");
    near(c.at("focus"), first, 1.5 / FOCUS_PER_MM);
}

#[test]
fn without_a_reference_only_relative_moves_are_possible() {
    let mut c = Chain::booted();
    for command in ["move abs 5", "move min", "move max", "move index 1"] {
        assert_eq!(c.ask(&format!("/1 {command}")), "@01 0 RJ IDLE WR BADDATA", "{command}");
    }
    let before = c.at("focus");
    assert_eq!(c.ask("/1 move rel -5249"), "@01 0 OK BUSY WR 0");
    c.settle("/1");
    near(c.at("focus"), before - 1.0, 1e-3);
    // A position that a host declares is a reference, but not a homing.
    c.value("/1 set pos 60000");
    assert_eq!(c.ask("/1 warnings"), "@01 0 OK IDLE WH 01 WH");
    c.value("/1 move abs 60100");
}

#[test]
fn nothing_moves_beyond_the_limits() {
    let mut c = Chain::booted();
    c.home("/1");
    let pulses = c.bench.pulses("chain", "focus");
    for command in ["move abs 133334", "move abs -1", "move rel -1", "move index 15"] {
        assert_eq!(c.ask(&format!("/1 {command}")), "@01 0 RJ IDLE -- BADDATA", "{command}");
    }
    assert_eq!(c.bench.pulses("chain", "focus"), pulses);
    c.value("/1 set limit.max 4000");
    c.value("/1 move vel 20000");
    c.settle("/1");
    assert_eq!(c.value("/1 get pos"), "4000");
}

#[test]
fn a_move_takes_the_time_that_its_ramps_need() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 set maxspeed 86016");
    c.value("/1 set accel 86");
    // 52500 microsteps/s and 524902 microsteps/s²: 100 ms up, 5250 microsteps; and the same down.
    let begun = c.bench.now();
    c.send(b"/1 move abs 110250\n");
    c.pass(20);
    while c.bench.state("chain") == "busy" {
        c.pass(1);
    }
    let sent = 18.0 * 10.0 / 115_200.0;
    let (speed, accel) = (52_500.0, 86.0 * 10_000.0 / 1.6384);
    near((c.bench.now() - begun).as_secs_f64(), sent + 110_250.0 / speed + speed / accel, 1.1e-3);
}

#[test]
fn a_stop_brakes_and_an_emergency_stop_does_not() {
    let mut c = Chain::booted();
    c.home("/1");
    for (command, travel_mm) in [("stop", (86_005.0_f64 / 1.6384).powi(2) / 2.0 / (860_000.0 / 1.6384)), ("estop", 0.0)]
    {
        c.value("/1 move max");
        c.pass(700);
        assert_eq!(c.bench.state("chain"), "busy");
        near(c.bench.speed_mm_per_s("chain", "focus"), 10.0, 0.01);
        c.send(format!("/1 {command}\n").as_bytes());
        c.pass(1);
        let from = c.at("focus");
        c.settle("/1");
        near(c.at("focus") - from, travel_mm / FOCUS_PER_MM, 0.15);
        assert_eq!(c.ask("/1 warnings"), "@01 0 OK IDLE NI 01 NI");
        c.value("/1 move abs 1000");
        c.settle("/1");
        assert_eq!(c.ask("/1"), "@01 0 OK IDLE -- 0", "the next movement takes the note away");
    }
}

#[test]
fn a_new_move_takes_the_place_of_the_old_one_and_says_so() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move max");
    c.pass(300);
    assert_eq!(c.ask("/1 move abs 2000"), "@01 0 OK BUSY NI 0");
    c.settle("/1");
    assert_eq!(c.value("/1 get pos"), "2000");
    assert_eq!(c.ask("/1 warnings clear"), "@01 0 OK IDLE -- 01 NI");
    assert_eq!(c.ask("/1 warnings"), "@01 0 OK IDLE -- 00");
}

#[test]
fn a_fraction_is_rounded_and_said_so() {
    let mut c = Chain::booted();
    c.home("/1");
    assert_eq!(c.ask("/1 move abs 1000.6"), "@01 0 OK BUSY NR 0");
    c.settle("/1");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE NR 1001");
}

#[test]
fn all_axes_of_a_device_move_or_none() {
    let mut c = Chain::booted();
    c.home("/2");
    c.value("/2 2 set limit.max 3000");
    let pulses = c.bench.pulses("chain", "tilt");
    assert_eq!(c.ask("/2 move abs 4000"), "@02 0 RJ IDLE -- BADDATA");
    c.pass(500);
    assert_eq!(c.bench.pulses("chain", "tilt"), pulses);
    c.value("/2 move abs 2500");
    c.settle("/2");
    assert_eq!(c.value("/2 get pos"), "2500 2500");
    c.value("/2 1 move rel 50000");
    assert_eq!(c.ask("/2 2"), "@02 2 OK IDLE -- 0");
    assert_eq!(c.ask("/2"), "@02 0 OK BUSY -- 0");
}

#[test]
fn an_alert_tells_the_end_of_a_motion_to_those_who_asked() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move abs 500");
    assert_eq!(c.pass(2000), "");
    c.value("/1 set comm.alert 1");
    c.value("/1 move abs 5000");
    assert_eq!(c.pass(2000), "!01 1 IDLE --\r\n");
}

#[test]
fn the_knob_moves_the_axis_past_every_program() {
    let mut c = Chain::booted();
    c.home("/1");
    let turn = |mm| Fault::Knob { axis: axis("focus"), mm };
    c.fault(turn(0.5));
    assert_eq!(c.ask("/1"), "@01 0 OK BUSY NC 0");
    c.settle("/1");
    near(c.at("focus"), focus_mm(0.0) + 0.5, 1e-3);
    assert_eq!(c.value("/1 get pos"), "2625");
    c.value("/1 move abs 100000");
    assert_eq!(c.ask("/1"), "@01 0 OK BUSY -- 0");
    c.fault(turn(0.1));
    assert_eq!(c.value("/1 warnings"), "02 NC NI");
    c.settle("/1");
    c.value("/1 move abs 50000");
    c.settle("/1");
    c.value("/1 set knob.enable 0");
    c.fault(turn(0.5));
    c.pass(500);
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE -- 50000");
    assert!(c.bench.fault("scope", turn(1.0)).is_err(), "a GRBL controller has no knobs");
}

#[test]
fn a_jam_is_seen_by_an_encoder_and_by_nothing_else() {
    let mut c = Chain::booted();
    c.home("/2");
    for name in ["tilt", "slide"] {
        c.fault(Fault::Jam { axis: axis(name) });
    }
    let stuck = c.at("slide");
    c.value("/2 move abs 20000");
    c.settle("/2");
    assert_eq!(c.ask("/2 2 get pos"), "@02 2 OK IDLE -- 20000", "it knows nothing");
    assert_eq!(c.at("slide"), stuck);
    assert_eq!(c.ask("/2 1 get pos"), "@02 1 OK IDLE FS 0");
    assert_eq!(c.ask("/2 warnings"), "@02 0 OK IDLE FS 01 FS");
    for name in ["tilt", "slide"] {
        c.fault(Fault::Unjam { axis: axis(name) });
    }
    c.value("/2 1 warnings clear");
    c.value("/2 1 move abs 20000");
    c.settle("/2");
    assert_eq!(c.ask("/2 1 get encoder.pos"), "@02 1 OK IDLE -- 20000");
    near(c.at("tilt"), 20_500.0 / TILT_PER_MM, 2.0 / TILT_PER_MM);
    assert_eq!(c.ask("/2 2 get encoder.pos"), "@02 2 RJ IDLE -- BADCOMMAND");
}

#[test]
fn lost_steps_stay_lost_until_homing() {
    let mut c = Chain::booted();
    c.home("/1");
    c.fault(Fault::LostSteps { axis: axis("focus"), steps: -5249 });
    c.value("/1 move abs 10000");
    c.settle("/1");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE -- 10000");
    near(c.at("focus"), focus_mm(10_000.0) + 1.0, 1e-3);
    c.home("/1");
    near(c.at("focus"), focus_mm(0.0), 1e-3);
}

#[test]
fn a_home_switch_that_never_closes_fails_homing() {
    let mut c = Chain::booted();
    c.fault(Fault::SwitchDead { axis: axis("focus"), on: true });
    c.value("/1 home");
    c.settle("/1");
    assert_eq!(c.ask("/1 warnings"), "@01 0 OK IDLE FE 02 FE WR");
}

#[test]
fn a_switch_that_closes_on_the_way_stops_the_axis() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move max");
    c.pass(500);
    c.fault(Fault::Limit { axis: axis("focus"), pressed: true });
    assert_eq!(c.ask("/1"), "@01 0 OK IDLE WL 0");
    assert_eq!(c.value("/1 get limit.home.triggered"), "1");
    let pos: f64 = c.value("/1 get pos").parse().expect("a number");
    near(c.at("focus"), focus_mm(pos), 0.15);
}

#[test]
fn power_takes_the_reference_unless_something_keeps_it() {
    let mut c = Chain::with(|toml| toml.replace("counts_per_mm = 20000.0", "counts_per_mm = 20000.0, absolute = true"));
    assert_eq!(c.ask("/2 1 warnings"), "@02 1 OK IDLE WH 01 WH");
    let told: f64 = c.value("/2 1 get pos").parse().expect("a number");
    near((told + HOME_STEPS) / TILT_PER_MM, c.at("tilt"), 1e-3);
    c.home("/0");
    c.value("/0 move abs 20000");
    c.settle("/0");
    c.value("/2 2 tools parking park");
    assert_eq!(c.ask("/2 2 move abs 5"), "@02 2 RJ IDLE -- PARKED");
    let before = c.at("focus");
    c.fault(Fault::Reset);
    assert_eq!(c.ask("/"), "", "they boot");
    c.pass(600);
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE WR 0");
    assert_eq!(c.at("focus"), before);
    assert_eq!(c.ask("/2 get pos"), "@02 0 OK IDLE WH 20000 20000");
    assert_eq!(c.value("/2 tools parking state"), "0 1");
    c.value("/2 2 tools parking unpark");
    c.value("/2 2 move abs 21000");
}

#[test]
fn a_reset_answers_first_and_then_boots_alone() {
    let mut c = Chain::booted();
    c.home("/0");
    assert_eq!(c.ask("/1 system reset"), "@01 0 OK IDLE -- 0");
    assert_eq!(c.ask("/"), "@02 0 OK IDLE -- 0");
    c.pass(600);
    assert_eq!(c.ask("/"), "@01 0 OK IDLE WR 0|@02 0 OK IDLE -- 0");
}

#[test]
fn a_power_cycle_in_motion_leaves_the_carriage_between() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move max");
    c.pass(800);
    c.fault(Fault::Reset);
    c.pass(1000);
    let here = c.at("focus");
    assert!(here > 5.0 && here < 15.0, "{here}");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE WR 0");
}

#[test]
fn a_driver_that_is_off_lets_go_of_the_position() {
    let mut c = Chain::booted();
    c.home("/0");
    c.value("/1 driver disable");
    assert_eq!(c.ask("/1 warnings"), "@01 0 OK IDLE FO 02 FO WR");
    assert_eq!(c.ask("/1 move rel 10"), "@01 0 RJ IDLE FO DRIVERDISABLED");
    assert_eq!(c.ask("/1 get driver.enabled"), "@01 0 OK IDLE FO 0");
    c.value("/1 driver enable");
    assert_eq!(c.ask("/1"), "@01 0 OK IDLE WR 0");
    // With an encoder it is followed.
    c.value("/2 1 driver disable");
    c.fault(Fault::Nudge { axis: axis("tilt"), mm: 1.0 });
    c.value("/2 1 driver enable");
    assert_eq!(c.ask("/2 1 get pos"), "@02 1 OK IDLE -- 2016");
}

#[test]
fn what_changes_the_counter_waits_for_rest() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move max");
    for command in ["set pos 0", "set resolution 32", "tools parking park", "system restore"] {
        assert_eq!(c.ask(&format!("/1 {command}")), "@01 0 RJ BUSY -- STATUSBUSY", "{command}");
    }
}

#[test]
fn a_finer_resolution_counts_more_microsteps_to_the_same_place() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move abs 10000");
    c.settle("/1");
    let here = c.at("focus");
    c.value("/1 set resolution 128");
    assert_eq!(c.value("/1 get pos limit.max maxspeed"), "20000;266666;172010");
    c.value("/1 move abs 30000");
    c.settle("/1");
    near(c.at("focus"), here + 5000.0 / FOCUS_PER_MM, 2.0 / FOCUS_PER_MM);
}

#[test]
fn a_slow_stage_takes_longer_to_the_same_place() {
    let mut c = Chain::booted();
    c.home("/1");
    c.fault(Fault::Slow { factor: 0.1 });
    c.value("/1 move abs 52493");
    c.pass(5000);
    assert_eq!(c.bench.state("chain"), "busy");
    c.settle("/1");
    assert_eq!(c.value("/1 get pos"), "52493");
}

#[test]
fn a_frozen_chain_stands_still_and_goes_on() {
    let mut c = Chain::booted();
    c.home("/1");
    c.value("/1 move max");
    c.pass(500);
    c.fault(Fault::Freeze { on: true });
    let here = c.at("focus");
    assert_eq!(c.ask("/1"), "");
    assert_eq!(c.at("focus"), here);
    c.fault(Fault::Freeze { on: false });
    assert_eq!(c.pass(10), "@01 0 OK BUSY -- 0\r\n");
    c.settle("/1");
    assert_eq!(c.value("/1 get pos"), "133333");
}

#[test]
fn nothing_happens_at_rest() {
    let mut c = Chain::booted();
    c.home("/0");
    c.bench.read("scope");
    assert_eq!(c.bench.next_event(), None);
}

#[test]
fn the_same_seed_brings_the_same_bytes_however_time_is_cut() {
    let run = |step: u64| {
        let mut c = Chain::booted();
        c.send(b"/home\n");
        let mut said = String::new();
        for i in 0..(12_000 / step) {
            if (i * step).is_multiple_of(600) {
                c.send(b"/get pos\n");
            }
            said += &c.pass(step);
        }
        (said, c.at("focus").to_bits(), c.at("slide").to_bits())
    };
    assert_eq!(run(600), run(5));
}

#[test]
fn the_camera_sees_through_the_focus_of_the_chain() {
    let mut c = Chain::booted();
    assert_eq!(c.bench.axes("chain"), ["focus", "tilt", "slide"]);
    let positions: serde_json::Value = serde_json::from_str(&c.bench.control(r#"{"cmd":"positions"}"#)).expect("JSON");
    assert_eq!(positions["chain"]["focus"], 12.0);
    assert_eq!(c.bench.carriage_mm("chain", "tilt"), 30.0);
    c.fault(Fault::Nudge { axis: axis("focus"), mm: 0.25 });
    assert_eq!(c.at("focus"), 12.25);
}
