//! The controller's behaviour beyond the transcripts, by the manual.

mod support;

use std::time::Duration;

use hw_sim::{Bench, Fault};
use support::{Host, near};

#[test]
fn homing_is_silent_and_ends_at_the_pull_off() {
    let mut h = Host::booted();
    h.send(b"$H\n");
    assert_eq!(h.ask("?", 3000), "");
    let end = h.pass(7000);
    assert!(end.starts_with("<Home|MPos:-1.000,-1.000,-1.000|"), "{end}");
    assert!(end.ends_with("ok\r\n"));
    near(h.x(), 74.0, 0.002);
}

#[test]
fn homing_from_the_far_corner_takes_less_than_ten_seconds() {
    let toml = hw_sim::MICROSCOPE_TOML
        .replace("start_mm = 40.0", "start_mm = 0.0")
        .replace("start_mm = 27.0", "start_mm = 0.0")
        .replace("start_mm = 3.0", "start_mm = 0.0");
    let mut h = Host::new(Bench::from_toml(&toml).expect("the bench"));
    h.pass(2000);
    assert!(h.ask("$H\n", 12_000).ends_with("ok\r\n"));
}

#[test]
fn a_switch_at_the_negative_end_is_homed_by_the_mask() {
    let toml = hw_sim::MICROSCOPE_TOML
        .replace("home_switch_mm = 75.0", "home_switch_mm = 0.0\nhome_switch_end = \"min\"")
        .replace("\"$22\" = 1", "\"$23\" = 1\n\"$22\" = 1");
    let mut h = Host::new(Bench::from_toml(&toml).expect("the bench"));
    h.pass(2000);
    assert!(h.ask("$H\n", 15_000).ends_with("ok\r\n"));
    near(h.mpos()[0], -74.0, 1e-9);
    near(h.x(), 1.0, 0.004);
}

#[test]
fn a_reset_during_homing_fails_it() {
    let mut h = Host::booted();
    h.ask("$H\n", 2000);
    let said = h.ask("\u{18}", 50);
    assert!(said.starts_with("ALARM:6\r\nok\r\n\r\nGrbl"), "{said}");
    assert_eq!(h.state(), "Alarm");
    h.ask("$H\n", 2000);
    assert!(
        {
            h.send(&[0x84]);
            h.pass(50)
        }
        .starts_with("ALARM:7\r\n")
    );
}

#[test]
fn ok_means_accepted_not_arrived() {
    let mut h = Host::homed();
    assert_eq!(h.ask("G0 X-50\n", 3), "ok\r\n");
    near(h.x(), 74.0, 0.01);
    h.pass(20);
    assert_eq!(h.state(), "Run");
    h.pass(4000);
    assert_eq!(h.state(), "Idle");
    near(h.x(), 25.0, 0.01);
}

#[test]
fn the_state_lags_the_ok_of_a_start() {
    let mut h = Host::homed();
    assert!(h.ask("G0 X-50\n?", 9).starts_with("ok\r\n<Idle"));
    h.pass(5);
    assert_eq!(h.state(), "Run");
}

#[test]
fn a_full_planner_withholds_ok() {
    let mut h = Host::homed();
    h.ask("G91 F60\n", 20);
    let mut oks = 0;
    for _ in 0..20 {
        oks += h.ask("G1 X-1\n", 20).matches("ok").count();
    }
    assert!((15..=17).contains(&oks), "{oks}");
    h.pass(25_000);
    near(h.mpos()[0], -21.0, 1e-9);
}

#[test]
fn the_receive_buffer_overflows_when_the_planner_is_full() {
    let mut h = Host::homed();
    h.ask("G91 F60\n", 20);
    for _ in 0..60 {
        h.send(b"G1 X-0.1\n");
        h.pass(2);
    }
    let oks = h.pass(60_000).matches("ok").count();
    assert!(oks < 60, "{oks}");
}

#[test]
fn axes_never_exceed_their_rate_or_their_ends() {
    let mut h = Host::homed();
    h.ask("$20=0\n", 20);
    h.ask("G0 X-200 Y-20 Z-3\n", 10);
    let (mut fastest_x, mut fastest_z) = (0.0_f64, 0.0_f64);
    for _ in 0..3000 {
        h.pass(5);
        fastest_x = fastest_x.max(h.bench.speed_mm_per_s("scope", "x").abs());
        fastest_z = fastest_z.max(h.bench.speed_mm_per_s("scope", "z").abs());
        assert!(h.x() >= -0.5 && h.x() <= 75.5);
    }
    assert!(fastest_x <= 20.2, "{fastest_x}");
    assert!(fastest_z <= 2.02, "{fastest_z}");
    near(h.x(), -0.5, 1e-9);
    near(h.mpos()[0], -200.0, 1e-9);
}

#[test]
fn a_hold_stops_within_v_over_a_and_resumes() {
    let mut h = Host::homed();
    h.ask("G1 X-60 F1200\n", 1000);
    h.send(b"!");
    h.pass(20);
    assert_eq!(h.state(), "Hold:1");
    h.pass(180);
    assert_eq!(h.state(), "Hold:0");
    let stood = h.x();
    assert_eq!(h.ask("$G\n", 300), "", "lines wait during a hold");
    near(h.x(), stood, 1e-9);
    h.send(b"~");
    assert!(h.pass(5000).contains("[GC:G1"));
    near(h.x(), 15.0, 0.01);
}

#[test]
fn hold_then_reset_keeps_the_position() {
    let mut h = Host::homed();
    h.ask("G1 X-60 F1200\n", 1000);
    h.ask("!", 500);
    let said = h.ask("\u{18}", 50);
    assert_eq!(said, "\r\nGrbl 1.1h ['$' for help]\r\n");
    assert_eq!(h.state(), "Idle");
    let here = h.mpos()[0];
    near(h.x(), 75.0 + here, 0.003);
}

#[test]
fn reset_in_motion_parts_truth_from_count() {
    let mut h = Host::homed();
    h.ask("G1 X-60 F1200\n", 1000);
    let said = h.ask("\u{18}", 200);
    assert!(said.starts_with("ALARM:3\r\n\r\nGrbl"), "{said}");
    let counted = 75.0 + h.mpos()[0];
    // v²/2a with 20 mm/s and 2000 mm/s²: 0.1 mm further on.
    near(counted - h.x(), 0.1, 0.02);
    assert_eq!(h.ask("G0 X-1\n", 50), "error:9\r\n");
}

#[test]
fn a_jog_cancel_flushes_and_returns_to_idle() {
    let mut h = Host::homed();
    for _ in 0..5 {
        h.ask("$J=G91 X-10 F1200\n", 20);
    }
    assert_eq!(h.state(), "Jog");
    assert_eq!(h.ask("G0 X-1\n", 20), "error:9\r\n");
    h.send(&[0x85]);
    h.pass(300);
    assert_eq!(h.state(), "Idle");
    let here = h.mpos()[0];
    assert!(here > -15.0, "{here}");
    near(h.x(), 75.0 + here, 0.003);
}

#[test]
fn the_utf8_form_of_a_jog_cancel_still_ends_in_the_byte() {
    let mut h = Host::homed();
    h.ask("$J=G91 X-30 F1200\n", 500);
    h.send(&[0xc2, 0x85]);
    h.pass(300);
    assert_eq!(h.state(), "Idle");
}

#[test]
fn soft_limits_differ_for_jogs_and_programs() {
    let mut h = Host::homed();
    assert_eq!(h.ask("$J=G91 X5 F100\n", 20), "error:15\r\n");
    assert_eq!(h.ask("G0 X-10\n", 100), "ok\r\n");
    assert_eq!(h.ask("G0 X1\n", 1000), "ALARM:2\r\n[MSG:Reset to continue]\r\n");
    assert_eq!(h.ask("?$X\n", 200), "");
    assert!(h.ask("\u{18}", 50).starts_with("ok\r\n\r\nGrbl"));
    let here = h.mpos()[0];
    near(h.x(), 75.0 + here, 0.003);
}

#[test]
fn settings_are_refused_in_motion_and_survive_power() {
    let mut h = Host::homed();
    h.ask("G0 X-50\n", 200);
    assert_eq!(h.ask("$110=600\n", 20), "error:8\r\n");
    h.pass(5000);
    assert_eq!(h.ask("$110=600\n", 20), "ok\r\n");
    assert_eq!(h.ask("$22=0\n", 20), "ok\r\n");
    h.fault(Fault::Reset);
    h.pass(2000);
    let all = h.ask("$$\n", 300);
    assert!(all.contains("$110=600.000") && all.contains("$20=0\r\n") && all.contains("$22=0"));
}

#[test]
fn work_offsets_and_report_masks() {
    let mut h = Host::homed();
    h.ask("G10 L20 P1 X0 Y0\n", 20);
    assert!(h.ask("?", 20).contains("|WCO:-1.000,-1.000,0.000"));
    h.ask("G0 X-5\n", 1000);
    near(h.mpos()[0], -6.0, 1e-9);
    h.ask("$10=2\n", 20);
    assert!(h.ask("?", 20).starts_with("<Idle|WPos:-5.000,0.000,-1.000|Bf:15,128|FS:0,0|WCO:"));
    assert!(h.ask("$#\n", 200).starts_with("[G54:-1.000,-1.000,0.000]\r\n"));
}

#[test]
fn offsets_are_reported_now_and_then() {
    let mut h = Host::homed();
    let reports: Vec<String> = (0..25).map(|_| h.ask("?", 50)).collect();
    let wco = reports.iter().filter(|r| r.contains("WCO")).count();
    let ov = reports.iter().filter(|r| r.contains("Ov")).count();
    assert!((2..=3).contains(&wco) && (2..=3).contains(&ov), "{wco} {ov}");
}

#[test]
fn overrides_scale_what_runs() {
    let mut h = Host::homed();
    h.ask("G1 X-70 F600\n", 1000);
    near(h.bench.speed_mm_per_s("scope", "x"), -10.0, 0.1);
    h.send(&[0x92, 0x92, 0x92, 0x92, 0x92]);
    h.pass(300);
    near(h.bench.speed_mm_per_s("scope", "x"), -5.0, 0.1);
    h.ask("?", 20);
    assert!(h.ask("?", 20).contains("Ov:50,100,100"));
}

#[test]
fn coolant_and_spindle_wait_for_motion_but_the_toggle_does_not() {
    let mut h = Host::homed();
    near(h.bench.light(), 1.0, 1e-9);
    h.ask("G1 X-21 F1200\n", 20);
    assert_eq!(h.ask("M8\n", 200), "", "M8 waits for the planner");
    near(h.bench.light(), 1.0, 1e-9);
    h.send(&[0xa0]);
    h.pass(10);
    near(h.bench.light(), 2.0, 1e-9);
    h.pass(3000);
    h.ask("M3 S500\n", 20);
    near(h.bench.light(), 3.5, 1e-9);
    h.ask("?", 20);
    let report = h.ask("?", 20);
    assert!(report.contains("A:SF") && report.contains("FS:0,500"), "{report}");
    h.ask("M5 M9\n", 20);
    near(h.bench.light(), 1.0, 1e-9);
}

#[test]
fn startup_lines_run_at_boot_and_after_homing() {
    let mut h = Host::booted();
    h.ask("$X\n", 20);
    assert_eq!(h.ask("$N0=G20 G54\n", 20), "ok\r\n");
    assert_eq!(h.ask("$N1=G5\n", 20), "error:20\r\n");
    assert_eq!(h.ask("$N\n", 20), "$N0=G20G54\r\n$N1=\r\nok\r\n");
    h.fault(Fault::Reset);
    assert!(h.pass(2000).ends_with("to unlock]\r\n"));
    assert!(h.ask("$H\n", 15_000).ends_with(">G20G54:ok\r\nok\r\n"));
    assert!(h.ask("$G\n", 20).contains("G20"));
}

#[test]
fn arcs_end_where_they_should_and_stay_round() {
    let mut h = Host::homed();
    h.ask("G0 X-30 Y-20\n", 4000);
    h.ask("G2 X-40 Y-30 I0 J-10 F1200\n", 10);
    let mut widest = 0.0_f64;
    for _ in 0..1000 {
        h.pass(10);
        let (x, y) = (h.x() - 45.0, h.bench.carriage_mm("scope", "y") - 20.0);
        widest = widest.max((x.hypot(y) - 10.0).abs());
    }
    assert!(widest < 0.02, "{widest}");
    let end = h.mpos();
    near(end[0], -40.0, 1e-9);
    near(end[1], -30.0, 1e-9);
}

#[test]
fn a_probe_without_contact_is_an_alarm() {
    let mut h = Host::homed();
    let said = h.ask("G38.2 Z-2 F100\n", 3000);
    assert!(said.contains("ALARM:5"), "{said}");
    assert_eq!(h.state(), "Alarm");
}

#[test]
fn dwell_pause_check_mode_and_sleep() {
    let mut h = Host::homed();
    assert_eq!(h.ask("G4 P0.5\n", 400), "");
    assert_eq!(h.pass(200), "ok\r\n");
    assert_eq!(h.ask("M0\n", 50), "");
    assert_eq!(h.state(), "Hold:0");
    assert_eq!(h.ask("~", 50), "ok\r\n");
    assert_eq!(h.ask("$C\n", 20), "[MSG:Enabled]\r\nok\r\n");
    assert_eq!(h.ask("G0 X-50\n", 500), "ok\r\n");
    near(h.x(), 74.0, 0.01);
    assert!(h.ask("$C\n", 20).starts_with("[MSG:Disabled]\r\nok\r\n\r\nGrbl"));
    assert_eq!(h.ask("M30\n", 20), "[MSG:Pgm End]\r\nok\r\n");
    assert_eq!(h.ask("$SLP\n", 20), "ok\r\n[MSG:Sleeping]\r\n");
    assert_eq!(h.state(), "Sleep");
    assert!(h.ask("\u{18}", 20).ends_with("to unlock]\r\n"));
}

#[test]
fn a_door_suspends_and_the_lamps_go_out() {
    let mut h = Host::homed();
    h.ask("M8\n", 20);
    h.ask("G1 X-60 F1200\n", 1000);
    h.send(&[0x84]);
    h.pass(30);
    near(h.bench.light(), 1.0, 1e-9);
    h.pass(500);
    assert_eq!(h.state(), "Door:0");
    h.ask("~", 5000);
    assert_eq!(h.state(), "Idle");
    near(h.x(), 15.0, 0.01);
    near(h.bench.light(), 2.0, 1e-9);
}

#[test]
fn drivers_go_off_after_the_idle_delay_and_a_heavy_axis_sinks() {
    let toml = hw_sim::MICROSCOPE_TOML
        .replace("falls_unpowered = false", "falls_unpowered = true")
        .replace("\"$1\" = 255", "\"$1\" = 25");
    let mut h = Host::new(Bench::from_toml(&toml).expect("the bench"));
    h.pass(10);
    h.bench.advance(Duration::from_secs(6));
    near(h.bench.carriage_mm("scope", "z"), -0.1, 1e-9);
}

#[test]
fn other_dialects() {
    let toml = hw_sim::MICROSCOPE_TOML
        .replace("build_options = \"VM\"", "build_options = \"VMH\"\nbanner = \"Grbl 0.9j ['$' for help]\"\nversion = \"0.9j.20160303\"\nreport_mode = \"0.9\"")
        .replace("[controller.settings]", "[controller.axes.a]\nsteps_per_mm = 10\nmin_mm = 0\nmax_mm = 360\nstart_mm = 10\nhome_switch_mm = 300\n[controller.settings]");
    let mut h = Host::new(Bench::from_toml(&toml).expect("the bench"));
    assert!(h.pass(2000).starts_with("\r\nGrbl 0.9j"));
    assert_eq!(h.ask("?", 20), "<Alarm,MPos:0.000,0.000,0.000,0.000,WPos:0.000,0.000,0.000,0.000>\r\n");
    assert!(h.ask("$I\n", 20).contains("[VER:0.9j.20160303:]"));
    assert!(h.ask("$HX\n", 10_000).ends_with("ok\r\n"));
    near(h.x(), 74.0, 0.002);
}
