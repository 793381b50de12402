//! Controllers that only count, several of them on one link: channels and the size of a count.

use super::{KNOWN, Path, Problems, Rig, parse};
use crate::units::Unit;

const CHAIN: &str = r#"[rig]
name = "bench"
[[link]]
id = "port"
serial = "/dev/ttyUSB0"
baud = 115200
[[stage]]
id = "a"
driver = "zaber"
link = "port"
home = { order = ["x"] }
[stage.axes.x]
channel = "1"
counts_per_unit = 8.0
unit = "um"
sign = 1
origin = 0
travel = [0, 1000]
max_speed_per_s = 100
tolerance = 1
trust = "referenced"
holds_unpowered = true
[[stage]]
id = "b"
driver = "zaber"
link = "port"
home = { order = ["x"] }
[stage.axes.x]
channel = "02"
counts_per_unit = 8000
unit = "mm"
sign = 1
origin = 0
travel = [0, 1]
max_speed_per_s = 0.1
tolerance = 0.001
trust = "referenced"
holds_unpowered = true
"#;

fn read(text: &str) -> Result<Rig, Problems> {
    parse(text, Path::new("rig.toml"), &KNOWN)
}

/// Reads a file with all that counting controllers need.
pub(super) fn read_chain() {
    read(CHAIN).unwrap();
}

#[test]
fn the_size_of_a_count_is_the_same_in_every_unit() {
    let rig = read(CHAIN).unwrap();
    let count = |i: usize| rig.stages[i].axes[0].count.unwrap().to(Unit::Um);
    assert_eq!((count(0), count(1)), (0.125, 0.125));
}

#[test]
fn a_count_has_no_default_and_is_a_number_that_a_count_can_have() {
    for (from, to, message, remedy) in [
        ("counts_per_unit = 8.0\n", "", "`counts_per_unit` is missing", "how many counts one um takes; one count is"),
        ("counts_per_unit = 8.0", "counts_per_unit = 0", "is no number of counts for one um", "one count is a step"),
        ("counts_per_unit = 8.0", "counts_per_unit = -8.0", "is no number of counts", ""),
        ("counts_per_unit = 8.0", "counts_per_unit = 1e13", "is no number of counts", ""),
        ("counts_per_unit = 8.0", "counts_per_unit = \"8\"", "must be a number", ""),
        ("counts_per_unit = 8.0", "counts_per_mm = 8.0", "`counts_per_unit` is missing", ""),
    ] {
        let problems = read(&CHAIN.replacen(from, to, 1)).expect_err(to);
        let first = &problems.list[0];
        assert!(first.message.contains(message) && first.remedy.contains(remedy), "{problems}");
    }
    let other = CHAIN.replace("driver = \"zaber\"", "driver = \"grbl\"");
    let problems = read(&other).unwrap_err().to_string();
    assert!(problems.contains("unknown key"), "a controller that speaks millimetres has no counts: {problems}");
}

#[test]
fn an_axis_of_the_controller_belongs_to_one_axis_of_one_stage() {
    let twice = CHAIN.replacen("channel = \"02\"", "channel = \"01\"", 1);
    let problems = read(&twice).unwrap_err();
    assert_eq!(problems.list.len(), 1, "{problems}");
    assert!(problems.list[0].message.contains("is used on line 13 already"), "{problems}");
    let none = read(&CHAIN.replacen("channel = \"02\"", "channel = \"two\"", 1)).unwrap_err();
    let first = &none.list[0];
    assert!(first.message.contains("\"two\" is no axis of this controller") && first.remedy.contains("a number"));
    let missing = read(&CHAIN.replacen("channel = \"02\"\n", "", 1)).unwrap_err();
    assert!(missing.list[0].message.contains("`channel` is missing"), "{missing}");
    let apart = twice
        .replacen("baud = 115200\n", "baud = 115200\n[[link]]\nid = \"other\"\nserial = \"COM3\"\nbaud = 9600\n", 1)
        .replacen(
            "id = \"b\"\ndriver = \"zaber\"\nlink = \"port\"",
            "id = \"b\"\ndriver = \"zaber\"\nlink = \"other\"",
            1,
        );
    assert!(read(&apart).is_ok(), "two chains have an address 1 each");
}
