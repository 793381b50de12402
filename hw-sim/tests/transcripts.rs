//! Replays sessions recorded with real GRBL firmware: the same bytes at the same times must bring the same answers.

use std::path::Path;
use std::time::Duration;

use hw_sim::{Bench, Fault};
use serde_json::Value;

/// The recorded machine: factory settings, 250 steps/mm, switches 2 mm away, an EEPROM that was never written.
const BENCH: &str = r#"
    [[controller]]
    id = "g"
    protocol = "grbl-1.1"
    boot_ms = 500
    eeprom = "virgin"
    [controller.axes]
    x = { steps_per_mm = 250, min_mm = -100, max_mm = 100, start_mm = 0, home_switch_mm = 2 }
    y = { steps_per_mm = 250, min_mm = -100, max_mm = 100, start_mm = 0, home_switch_mm = 2 }
    z = { steps_per_mm = 250, min_mm = -100, max_mm = 100, start_mm = 0, home_switch_mm = 2 }
"#;

/// Positions in motion may differ by this much from the recording, whose clock was not exact; at rest after a known
/// move they must not differ at all.
const MPOS_MM: f64 = 0.15;
const FEED_MM_PER_MIN: f64 = 15.0;

fn text(entry: &Value, key: &str) -> String {
    entry[key].as_str().unwrap_or_else(|| panic!("{key} is missing in {entry}")).to_owned()
}

/// The recording keeps one character a byte.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).expect("one byte a character")).collect()
}

fn apply(bench: &mut Bench, control: &str) {
    let request = control.split(" =>").next().unwrap_or_default();
    let words: Vec<&str> = request.split(' ').collect();
    let fault = match words.as_slice() {
        ["drop", n] => Fault::Drop { bytes: n.parse().expect("a count") },
        ["limit", axis, on] => Fault::Limit { axis: (*axis).into(), pressed: *on == "1" },
        ["jam", axis, "1"] => Fault::Jam { axis: (*axis).into() },
        ["reset"] => Fault::Reset,
        ["pos"] => return check_position(bench, control),
        _ => panic!("unknown control {control}"),
    };
    bench.fault("g", fault).expect("the fault is possible");
}

/// `pos => POS x y z TOTAL …`: the steps the recorded carriages stood at.
fn check_position(bench: &Bench, control: &str) {
    let numbers = control.split("POS ").nth(1).expect("a position");
    for (axis, steps) in ["x", "y", "z"].iter().zip(numbers.split(' ')) {
        let recorded: f64 = steps.parse().expect("a number");
        let here = bench.carriage_mm("g", axis);
        assert!((here - recorded / 250.0).abs() < MPOS_MM, "{axis} at {here}, recorded {}", recorded / 250.0);
    }
}

/// Status reports agree in state, fields and everything but the numbers of a motion.
fn same_report(here: &str, recorded: &str) -> bool {
    let fields = |line: &str| -> Vec<String> {
        line.trim_start_matches('<').trim_end_matches('>').split('|').map(str::to_owned).collect()
    };
    let (a, b) = (fields(here), fields(recorded));
    let still = a[0] == "Idle" || a[0] == "Home";
    a.len() == b.len()
        && a.iter().zip(&b).all(|(x, y)| match (x.split_once(':'), y.split_once(':')) {
            (Some(("MPos", x)), Some(("MPos", y))) if !still => near(x, y, MPOS_MM),
            (Some(("FS", x)), Some(("FS", y))) => near(x, y, FEED_MM_PER_MIN),
            _ => x == y,
        })
}

fn near(a: &str, b: &str, tolerance: f64) -> bool {
    let numbers = |s: &str| -> Vec<f64> { s.split(',').map(|v| v.parse().expect("a number")).collect() };
    let (a, b) = (numbers(a), numbers(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(x, y)| (x - y).abs() <= tolerance)
}

fn compare(name: &str, here: &str, recorded: &str) {
    // The recorder joined the first boot late: its first line may be cut.
    let here: Vec<&str> = here.split('\n').collect();
    let recorded: Vec<&str> = recorded.split('\n').collect();
    let skip = here
        .len()
        .checked_sub(recorded.len())
        .unwrap_or_else(|| panic!("{name}: too few lines\nhere: {here:#?}\nrecorded: {recorded:#?}"));
    for (i, (h, r)) in here[skip..].iter().zip(&recorded).enumerate() {
        let (h, r) = (h.trim_end_matches('\r'), r.trim_end_matches('\r'));
        let same = match i {
            0 => h.ends_with(r),
            _ if h.starts_with('<') && r.starts_with('<') => same_report(h, r),
            _ => h == r,
        };
        assert!(same, "{name}: line {i}\nhere:     {h}\nrecorded: {r}");
    }
}

fn replay(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(name).with_extension("jsonl");
    let recording = std::fs::read_to_string(path).expect("the transcript");
    let mut bench = Bench::from_toml(BENCH).expect("the bench");
    let (mut here, mut recorded) = (String::new(), String::new());
    for line in recording.lines() {
        let entry: Value = serde_json::from_str(line).expect("JSON");
        let ms = entry["t"].as_f64().expect("a time");
        bench.advance(Duration::from_secs_f64(ms / 1000.0));
        let what = text(&entry, "b");
        match text(&entry, "d").as_str() {
            "tx" => {
                let bytes = bytes(&what);
                assert_eq!(bench.write("g", &bytes), bytes.len());
            }
            "rx" => {
                recorded += &what;
                here += &String::from_utf8(bench.read("g")).expect("ASCII");
                compare(name, &here, &recorded);
            }
            "ctl" => apply(&mut bench, &what),
            other => panic!("unknown direction {other}"),
        }
    }
}

macro_rules! replays {
    ($($name:ident)*) => { $(#[test] fn $name() { replay(stringify!($name)); })* };
}

replays! {
    grbl_boot_settings
    grbl_dropped_bytes
    grbl_eeprom_corrupt
    grbl_hard_limit
    grbl_homing
    grbl_homing_fail
    grbl_jog_hold_cancel
    grbl_power_cycle_in_motion
    grbl_reset_in_motion
    grbl_rst_all
    grbl_setting_errors
}

#[test]
fn every_transcript_is_replayed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    assert_eq!(std::fs::read_dir(dir).expect("the folder").count(), 11);
}
