//! The box of outputs and sensors, as a host and an observer meet it.

use std::time::Duration;

use hw_sim::{Bench, Fault};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Asks, lets a moment pass, and reads what has been answered.
fn ask(bench: &mut Bench, line: &str) -> String {
    bench.write("io", format!("{line}\n").as_bytes());
    let now = bench.now();
    bench.advance(now + ms(1));
    String::from_utf8(bench.read("io")).unwrap().trim_end().to_owned()
}

#[test]
fn it_tells_its_channels_and_their_kinds() {
    let mut bench = Bench::microscope(1);
    let told = ask(&mut bench, "ID?");
    assert!(told.starts_with("ID simio 1 model=BenchBox serial=BX0001 "), "{told}");
    for channel in ["lamp:light", "shutter:shutter", "filter:wheel4", "fan:line", "temperature:analog", "lid:digital"] {
        assert!(told.split(' ').any(|w| w == channel), "{channel}: {told}");
    }
}

#[test]
fn a_set_is_echoed_before_the_output_is_there_and_only_get_tells_its_arrival() {
    let mut bench = Bench::microscope(1);
    assert_eq!(ask(&mut bench, "SET lamp 40"), "SET lamp=40");
    assert_eq!(ask(&mut bench, "SET shutter open"), "SET shutter=moving");
    assert_eq!(ask(&mut bench, "SET filter 3"), "SET filter=moving");
    bench.advance(ms(100));
    let told = ask(&mut bench, "GET");
    assert!(told.contains("lamp=40") && told.contains("shutter=open") && told.contains("filter=moving"), "{told}");
    bench.advance(ms(700));
    assert_eq!(bench.channel("io", "filter"), "3");
    // The shorter way round: from 3 to 1 takes two steps, from 4 to 1 one.
    ask(&mut bench, "SET filter 4");
    bench.advance(ms(1100));
    ask(&mut bench, "SET filter 1");
    bench.advance(ms(1450));
    assert_eq!(bench.channel("io", "filter"), "1");
}

#[test]
fn what_it_does_not_know_is_refused_and_nothing_changes() {
    let mut bench = Bench::microscope(1);
    for (line, answer) in [
        ("SET lamp 101", "ERR lamp range 0 100"),
        ("SET lamp nan", "ERR lamp range 0 100"),
        ("SET filter 5", "ERR filter range 1 4"),
        ("SET shutter on", "ERR shutter range closed open"),
        ("SET temperature 3", "ERR temperature is a sensor"),
        ("SET laser 3", "ERR laser unknown"),
        ("FIRE", "ERR unknown FIRE"),
    ] {
        assert_eq!(ask(&mut bench, line), answer);
    }
    assert_eq!((bench.channel("io", "lamp"), bench.channel("io", "filter")), ("0".into(), "1".into()));
}

#[test]
fn the_lamp_lights_the_specimen_through_shutter_and_filter() {
    let mut bench = Bench::microscope(1);
    let lit = |bench: &mut Bench, lines: &[&str]| {
        for line in lines {
            ask(bench, line);
        }
        let now = bench.now();
        bench.advance(now + ms(2000));
        (bench.light() * 1000.0).round() / 1000.0
    };
    assert_eq!(lit(&mut bench, &["SET lamp 50"]), 1.0, "the shutter is closed");
    assert_eq!(lit(&mut bench, &["SET shutter open"]), 2.0);
    assert_eq!(lit(&mut bench, &["SET filter 2"]), 1.6);
    assert_eq!(lit(&mut bench, &["SET filter 4"]), 1.0, "blocked");
    bench.fault("io", Fault::Reset).unwrap();
    assert_eq!(lit(&mut bench, &["SET filter 1"]), 1.0, "after a power cycle lamp and shutter are off");
}

#[test]
fn faults_make_an_output_deaf_and_a_sensor_measure_something_else() {
    let mut bench = Bench::microscope(1);
    bench.fault("io", Fault::Stuck { channel: "lamp".into(), on: true }).unwrap();
    assert_eq!(ask(&mut bench, "SET lamp 40"), "SET lamp=0");
    bench.fault("io", Fault::Stuck { channel: "lamp".into(), on: false }).unwrap();
    assert_eq!(ask(&mut bench, "SET lamp 40"), "SET lamp=40");
    assert!(bench.fault("io", Fault::Stuck { channel: "laser".into(), on: true }).is_err());
    assert!(bench.fault("scope", Fault::Stuck { channel: "lamp".into(), on: true }).is_err());
    assert!(bench.measure("io", "temperature", -40.0) && !bench.measure("io", "lamp", 3.0));
    assert!(ask(&mut bench, "GET").contains("temperature=-40") || ask(&mut bench, "GET").contains("temperature=-39.9"));
}
