//! The rules of the rig file: each bad file is answered with its line and a remedy, all at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::model::{AxisId, Trust};
use crate::units::{Position, Unit};

mod counters;
mod files;
pub(super) mod outputs;

const KINDS: [OutputKind; 4] = [OutputKind::Shutter, OutputKind::Light, OutputKind::Wheel, OutputKind::Line];

pub(super) const KNOWN: KnownDrivers = KnownDrivers(&[
    KnownDriver { family: Some("grbl"), ..KnownDriver::alone("grbl", Kind::Stage) },
    KnownDriver {
        family: Some("zaber"),
        stages_per_link: 8,
        axes: AxisRules { channel: numbered, channels: "a number", counts: Some("one count is a step of the motor") },
        ..KnownDriver::alone("zaber", Kind::Stage)
    },
    KnownDriver::alone("asi", Kind::Stage),
    KnownDriver::alone("simcam", Kind::Camera),
    KnownDriver { plays_folder: true, ..KnownDriver::alone("folder", Kind::Camera) },
    KnownDriver { family: Some("simio"), outputs: &KINDS, ..KnownDriver::alone("simio", Kind::Output) },
    KnownDriver {
        family: Some("grbl"),
        outputs: &[OutputKind::Shutter, OutputKind::Line],
        channels: Channels::Of(&["flood", "mist"]),
        ..KnownDriver::alone("grbl-coolant", Kind::Output)
    },
    KnownDriver {
        outputs: &KINDS,
        channels: Channels::One,
        by_hand: true,
        ..KnownDriver::alone("manual", Kind::Output)
    },
    KnownDriver {
        family: Some("simio"),
        sensors: &[SensorKind::Analog, SensorKind::Digital],
        ..KnownDriver::alone("simio-sensor", Kind::Sensor)
    },
]);

fn numbered(channel: &str) -> Option<String> {
    channel.parse::<f32>().ok().map(|n| n.to_string())
}

/// A good file that the cases below spoil, one line at a time.
const GOOD: &str = r#"[rig]
name = "bench"
scan = { x = "s.x", y = "s.y", unit = "um" }
[[link]]
id = "port"
serial = "/dev/ttyUSB0"
baud = 115200
[[link]]
id = "cam-port"
tcp = "127.0.0.1:4711"
[[stage]]
id = "s"
driver = "grbl"
link = "port"
home = { order = ["y", "x", "r"] }
[stage.axes.y]
unit = "mm"
sign = 1
origin = 50.0
travel = [0.0, 50.0]
max_speed_per_s = 20.0
tolerance = 0.02
trust = "referenced"
holds_unpowered = true
[stage.axes.x]
unit = "um"
sign = -1
origin = 0
travel = [0, 75_000]
max_speed_per_s = 20e3
tolerance = 20
trust = "assumed"
approach = "-"
approach_by = 50
holds_unpowered = false
[stage.axes.r]
unit = "deg"
sign = 1
origin = 0
travel = [-180, 180]
max_speed_per_s = 10
tolerance = 0.1
trust = "restored"
holds_unpowered = true
[[camera]]
id = "cam"
driver = "simcam"
link = "cam-port"
pixel_size_um = 0.65
axes = { right = "+s.x", up = "-s.y" }
roi = [0, 0, 640, 480]
[[keep_out]]
name = "post"
boxes = [{ "s.x" = [70_000, 80_000], s.y = [0, 10] }]
margin_um = 100
[calls]
wait_s = 10
[eaa]
parameters = [{ axis = "s.r", unit = "mdeg" }, { setting = "gain" }]
"#;

fn read(text: &str) -> Result<Rig, Problems> {
    parse(text, Path::new("rig.toml"), &KNOWN)
}

/// Reads every kind of section there is, for the test of the reference.
pub(super) fn read_everything() {
    counters::read_chain();
    read(&format!("{GOOD}[images]\npath_map = {{}}\n[log]\nlevel = \"warn\"\n[approvals]\n")).expect("a good file");
    read(&GOOD.replacen("\"/dev/ttyUSB0\"", "{ usb = \"1a86:7523\" }", 1)).expect("a good file");
    read(&outputs::good()).expect("a good file");
}

/// The problems of the good file after one replacement.
fn spoiled(from: &str, to: &str) -> Problems {
    spoiled_in(GOOD, from, to)
}

/// The same of another good file.
fn spoiled_in(good: &str, from: &str, to: &str) -> Problems {
    assert!(good.contains(from), "{from}");
    read(&good.replacen(from, to, 1)).expect_err(to)
}

/// What is replaced by what; where the problem stands (the first such text, or the replaced one if empty); a
/// piece of the message; a piece of the remedy.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// Asserts that each case gives exactly one problem, on its line, with its words, and that it can be drawn.
fn check(cases: &[Case]) {
    check_in(GOOD, cases);
}

/// The same of another good file.
fn check_in(good: &str, cases: &[Case]) {
    for (from, to, at, message, remedy) in cases {
        let problems = spoiled_in(good, from, to);
        let [problem] = problems.list.as_slice() else { panic!("{to}:\n{problems}") };
        let text = good.replacen(from, to, 1);
        let offset = if at.is_empty() { good.find(from) } else { text.find(at) }.expect(at);
        let line = text[..offset].matches('\n').count() + 1;
        assert_eq!(problem.line(), Some(line), "{problem}");
        assert!(problem.message.contains(message), "{problem}");
        assert!(problem.remedy.contains(remedy), "{problem}");
        let drawn = problems.render(false);
        assert!(drawn.contains(&format!("rig.toml:{line}:")) && drawn.contains("help: "), "{drawn}");
        assert!(drawn.contains(text.lines().nth(line - 1).unwrap()), "{drawn}");
        assert!(problems.render_plain().starts_with(&format!("rig.toml:{line}: ")), "{problems}");
    }
}

#[test]
fn a_good_file_is_read_as_it_is_written() {
    let rig = read(GOOD).unwrap();
    let names: Vec<&str> = rig.stages[0].axes.iter().map(|a| a.id.axis.as_str()).collect();
    assert_eq!(names, ["y", "x", "r"], "axes stay in the file's order");
    let x = rig.axis(&AxisId::new("s", "x")).unwrap();
    assert_eq!(x.travel.high, Position::new(75.0, Unit::Mm).unwrap());
    assert_eq!((x.sign, x.unit, x.channel.as_str(), x.trust), (-1.0, Unit::Um, "x", Trust::Assumed));
    assert_eq!(x.approach.unwrap().overshoot.to(Unit::Um), 50.0);
    assert_eq!((rig.calls.wait, rig.calls.max_wait), (Duration::from_secs(10), Duration::from_secs(600)));
    assert_eq!((rig.links[0].baud, rig.links[0].dtr), (115_200, None));
    assert_eq!(rig.keep_outs[0].boxes[0].len(), 2, "a quoted and a dotted axis name mean the same");
    let eaa = rig.eaa.unwrap();
    assert_eq!((eaa.camera.as_str(), eaa.max_array_bytes), ("cam", 8 << 20));
    assert_eq!(eaa.parameters, [Parameter::Axis(AxisId::new("s", "r"), Unit::Mdeg), Parameter::Gain]);
    assert_eq!(rig.images.raw, Raw::Npy, "numpy files are the default where EAA reads them");
    assert_eq!(rig.file, Some(PathBuf::from("rig.toml")));
}

#[test]
fn without_eaa_raw_data_is_tiff() {
    let text = &GOOD[..GOOD.find("[eaa]").unwrap()];
    assert_eq!(read(text).unwrap().images.raw, Raw::Tiff);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_change_nothing() {
    let windows = format!("\u{feff}{}", GOOD.replace('\n', "\r\n"));
    assert_eq!(read(&windows), read(GOOD));
    let problems = read(&windows.replace("sign = -1", "sign = 2")).unwrap_err();
    assert_eq!(problems.list[0].line(), Some(27), "{problems}");
}

#[test]
fn links_are_judged() {
    const SERIAL: &str = "serial = \"/dev/ttyUSB0\"";
    const TCP: &str = "tcp = \"127.0.0.1:4711\"";
    check(&[
        (SERIAL, "serial = 5", "", "`serial` must be text or a table, not a number", "in quotes"),
        (SERIAL, "serial = \"tcp://h:1\"", "", "is an address", "tcp = \"host:port\""),
        (SERIAL, "serial = { usb = \"1a86\" }", "", "not a USB identity", "\"1a86:7523\""),
        (SERIAL, "serial = { usb = \"+a86:7523\" }", "", "not a USB identity", "\"1a86:7523\""),
        (SERIAL, "serial = { number = \"A1\" }", "", "`usb` is missing", "usb = \"1a86:7523\""),
        (SERIAL, "serial = \"\"", "", "`serial` is empty", "write some text"),
        (SERIAL, "tcp = \"h:1\"", "baud = 115200", "`baud` has no meaning", "remove it"),
        (SERIAL, "serial = 'COM5'\ntcp = \"h:1\"", "tcp = \"h:1\"", "not both", "remove one of the two"),
        ("baud = 115200", "", "[[link]]", "`baud` is missing in [[link]]", "baud = 115200"),
        ("baud = 115200", "baud = 300", "", "`baud` = 300 baud is out of range", "from 9600 to 4000000"),
        ("baud = 115200", "baud = 9600.5", "", "not a whole number", "write a whole number"),
        ("baud = 115200", "baud = 115200\ndtr = 0", "dtr", "`dtr` must be true or false", "true or false"),
        (TCP, "tcp = \"127.0.0.1\"", "", "is not an address", "host and port"),
        (TCP, "tcp = \"127.0.0.1:0\"", "", "is not an address", "host and port"),
        (TCP, "tcp = \"h:4711\"\nrts = true", "rts", "`rts` has no meaning", "remove it"),
        ("id = \"cam-port\"", "id = \"cam-port\"\nbuad = 1", "buad", "unknown key \"buad\"", "did you mean `baud`?"),
    ]);
    let twice = spoiled("id = \"cam-port\"", "id = \"port\"");
    assert_eq!(twice.list[0].line(), Some(9));
    assert!(twice.list[0].message.contains("a link \"port\" on line 5"), "{twice}");
}

#[test]
fn no_port_is_opened_twice() {
    let two = |a: &str, b: &str| {
        GOOD.replacen("serial = \"/dev/ttyUSB0\"", &format!("serial = {a}"), 1).replacen(
            "tcp = \"127.0.0.1:4711\"",
            &format!("serial = {b}\nbaud = 9600"),
            1,
        )
    };
    for (a, b, message) in [
        ("'COM5'", "'com5'", "the same port as on line 6"),
        ("'COM5'", r"'\\.\COM5'", "the same port as on line 6"),
        ("'/dev/ttyUSB0'", "'/dev/./ttyUSB0'", "the same port as on line 6"),
        ("{ usb = \"1a86:7523\" }", "{ usb = \"1A86:7523\" }", "the same port as on line 6"),
        ("{ usb = \"1a86:7523\", number = \"A\" }", "{ usb = \"1a86:7523\" }", "may mean the same USB adapter"),
    ] {
        let problems = read(&two(a, b)).unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        assert_eq!(problems.list[0].line(), Some(10), "{problems}");
        assert!(problems.list[0].message.contains(message), "{problems}");
    }
    let different = two("{ usb = \"1a86:7523\", number = \"A\" }", "{ usb = \"1a86:7523\", number = \"B\" }");
    assert!(read(&different).is_ok());
}

#[test]
fn devices_name_a_driver_and_a_link_of_their_own() {
    check(&[
        ("driver = \"grbl\"", "driver = \"grlb\"", "", "\"grlb\" is no known driver", "did you mean \"grbl\"?"),
        ("driver = \"grbl\"", "driver = \"tmcl\"", "", "no known driver", "one of \"grbl\", \"zaber\""),
        ("driver = \"grbl\"", "driver = \"simcam\"", "", "driver of another kind", "\"grbl\", \"zaber\""),
        ("driver = \"grbl\"", "", "[[stage]]", "`driver` is missing in [[stage]]", "\"grbl\""),
        ("id = \"cam\"", "id = \"s\"", "", "a device \"s\" on line 12", "a name of its own"),
        ("link = \"port\"", "", "[[stage]]", "`link` is missing", "the id of a [[link]]"),
    ]);
    let dangling = spoiled("link = \"cam-port\"", "link = \"cam-prot\"");
    let lines: Vec<_> = dangling.list.iter().map(Problem::line).collect();
    assert_eq!(lines, [Some(48)], "that nobody uses cam-port follows from it:\n{dangling}");
    assert!(dangling.list[0].remedy.contains("did you mean \"cam-port\"?"), "{dangling}");
    let shared = spoiled("link = \"cam-port\"", "link = \"port\"");
    assert_eq!(shared.list.len(), 1, "{shared}");
    assert!(shared.list[0].message.contains("driver simcam cannot share its link: \"port\" is used on line 14"));
}

#[test]
fn a_link_that_nobody_uses_is_told_and_a_name_is_offered_once() {
    let extra = format!("{GOOD}[[link]]\nid = \"spare\"\ntcp = \"h:1\"\n");
    let problems = read(&extra).unwrap_err();
    assert_eq!(problems.list.len(), 1, "{problems}");
    assert!(problems.list[0].message.contains("no device uses the link \"spare\""), "{problems}");
    let twice = GOOD.replacen("id = \"cam-port\"", "id = \"port\"", 1).replacen("\"cam-port\"", "\"other\"", 1);
    let problems = read(&twice).unwrap_err();
    assert!(problems.list.iter().any(|p| p.remedy == "write \"port\""), "{problems}");
}

#[test]
fn homing_is_said_in_full() {
    const HOME: &str = "home = { order = [\"y\", \"x\", \"r\"] }";
    check(&[
        (HOME, "", "[[stage]]", "`home` is missing", "home = { order = "),
        (HOME, "home = \"nevr\"", "", "can't be \"nevr\"", "home = { order = "),
        (HOME, "home = { }", "", "`order` is missing", "list all axes"),
        (HOME, "home = { order = [\"y\", \"x\"] }", "", "leaves out r", "every axis"),
        (HOME, "home = { order = [\"y\", \"x\", \"r\", \"q\"] }", "", "no axis \"q\"", "\"y\", \"x\", \"r\""),
        (HOME, "home = { order = [\"y\", \"x\", \"r\", \"x\"] }", "", "named twice", "once"),
        (HOME, "home = { order = [\"y\", \"x\", \"r\"], ask = \"model\" }", "", "\"model\"", "\"operator\""),
        (HOME, "home = { order = [\"y\", \"x\", \"r\"], timeout_s = 0 }", "", "`timeout_s` = 0 s", "from 1 to 3600 s"),
        (HOME, "home = { order = [\"y\", \"x\", \"r\"], timeout_s = 9e9 }", "", "out of range", "from 1 to 3600 s"),
    ]);
}

#[test]
fn a_rig_that_could_never_move_does_not_load() {
    const HOME: &str = "home = { order = [\"y\", \"x\", \"r\"] }";
    let never = GOOD.replacen(HOME, "home = \"never\"", 1);
    let problems = read(&never).unwrap_err();
    let lines: Vec<_> = problems.list.iter().map(Problem::line).collect();
    assert_eq!(lines, [Some(23), Some(43)], "{problems}");
    for problem in &problems.list {
        assert!(problem.message.contains("a position that a person declares is \"assumed\""), "{problem}");
        assert!(problem.remedy.contains("home = { order = ") && problem.remedy.contains("`steadyhand reference`"));
        assert!(!problem.remedy.contains("unknown"), "{problem}");
    }
    // With what a person's word can reach, it loads.
    let assumed = |text: &str, trust: &str| text.replace(&format!("trust = \"{trust}\""), "trust = \"assumed\"");
    let never = assumed(&assumed(&never, "referenced"), "restored");
    let rig = read(&never).unwrap_or_else(|p| panic!("{p}"));
    let stage = &rig.stages[0];
    assert_eq!((&stage.home, stage.axes[0].trust), (&super::rig::Homing::Never, crate::model::Trust::Assumed));
    // Nor does one that would move from a position that nobody knows.
    let blind = GOOD.replacen("trust = \"referenced\"", "trust = \"unknown\"", 1);
    let problems = read(&blind).unwrap_err();
    assert!(problems.list[0].message.contains("no target that could be judged"), "{problems}");
    assert!(problems.list[0].remedy.contains("\"referenced\"") && problems.list[0].line() == Some(23), "{problems}");
}

#[test]
fn every_limit_of_an_axis_is_there_and_makes_sense() {
    const Y: &str = "[stage.axes.y]";
    check(&[
        ("unit = \"mm\"", "unit = \"inch\"", "", "no unit known here", "one of \"nm\", \"um\", \"mm\""),
        ("unit = \"mm\"", "", Y, "`unit` is missing in [stage.axes.y]", "unit = \"mm\""),
        ("sign = 1", "sign = 0", "", "`sign` = 0 is neither 1 nor -1", "write 1, or -1"),
        ("sign = 1", "sign = \"1\"", "", "`sign` must be a number, not text", "without quotes"),
        ("sign = 1", "", Y, "`sign` is missing", "sign = 1"),
        ("origin = 50.0", "", Y, "`origin` is missing", "origin = 0.0"),
        ("origin = 50.0", "origin = nan", "", "not a finite number", "nan and inf are none"),
        ("origin = 50.0", "origin = -inf", "", "not a finite number", "nan and inf are none"),
        ("origin = 50.0", "origin = 1e300", "", "farther than any stage goes", "unit"),
        ("origin = 50.0", "origin = 1e400", "", "not a finite number", "write a number"),
        ("travel = [0.0, 50.0]", "", Y, "`travel` is missing", "there is no default"),
        ("travel = [0.0, 50.0]", "travel = [50.0, 0.0]", "", "[50, 0] is reversed", "[0, 50]"),
        ("travel = [0.0, 50.0]", "travel = [0, 0]", "", "no room", "zeros do not mean that there is no limit"),
        ("travel = [0.0, 50.0]", "travel = [7, 7]", "", "[7, 7] is empty", "a lower and a higher end"),
        ("travel = [0.0, 50.0]", "travel = [0, inf]", "", "not a finite number", "nan and inf"),
        ("travel = [0.0, 50.0]", "travel = [0]", "", "must be two numbers", "lower and the upper"),
        ("travel = [0.0, 50.0]", "travel = 50", "", "must be a list", "brackets"),
        ("max_speed_per_s = 20.0", "", Y, "`max_speed_per_s` is missing", "no default"),
        ("max_speed_per_s = 20.0", "max_speed_per_s = 0", "", "= 0 is not greater than zero", "not mean unlimited"),
        ("max_speed_per_s = 20.0", "max_speed_per_s = -3", "", "= -3 is not greater", "really does"),
        ("tolerance = 0.02", "", Y, "`tolerance` is missing", "no default"),
        ("tolerance = 0.02", "tolerance = 0.0", "", "not greater than zero", "exact"),
        ("tolerance = 0.02", "tolerance = 50", "", "50 mm is as large as the whole travel", "less than 50 mm"),
        ("tolerance = 0.02", "tolerance = 1e-12", "", "1e-12 is smaller", "larger number"),
        ("trust = \"referenced\"", "", Y, "`trust` is missing", "trust = \"referenced\""),
        ("trust = \"referenced\"", "trust = \"reference\"", "", "can't be", "did you mean \"referenced\"?"),
        ("holds_unpowered = true", "", Y, "`holds_unpowered` is missing", "= false if it sinks"),
        ("holds_unpowered = true", "holds_unpowered = \"no\"", "", "must be true or false, not text", "without quotes"),
        ("holds_unpowered = true", "holds_unpowered = true\nblind_step = 0", "blind_step", "not greater than zero", ""),
        (
            "holds_unpowered = true",
            "holds_unpowered = true\nsettle_ms = -1",
            "settle_ms",
            "out of range",
            "0 to 60000 ms",
        ),
        ("holds_unpowered = true", "holds_unpowered = true\ntoward_sample = 1", "toward", "must be text", "quotes"),
        ("approach_by = 50\n", "", "approach = ", "`approach` needs `approach_by`", "more than the backlash"),
        ("approach = \"-\"\n", "", "approach_by", "needs `approach`", "\"+\" or \"-\""),
        ("approach_by = 50", "approach_by = 0", "", "not greater than zero", ""),
        (
            "approach_by = 50",
            "approach_by = 50\nmax_speed = 3",
            "max_speed = 3",
            "unknown key",
            "did you mean `max_speed_per_s`?",
        ),
        ("approach_by = 50", "approach_by = 50\nwhy = \"a\\nb\"", "why", "line break", "one line"),
    ]);
    let same = GOOD.replacen("unit = \"um\"\nsign", "unit = \"um\"\nchannel = \"Y\"\nsign", 1);
    let problems = read(&same).unwrap_err();
    assert!(problems.list[0].message.contains("channel \"Y\" is used on line 16"), "{problems}");
}

#[test]
fn an_axis_is_named_like_an_argument() {
    for bad in ["in", "lambda", "2x", "x-y", "X", "\"\"", "\"a b\""] {
        let problems = read(&GOOD.replacen("[stage.axes.r]", &format!("[stage.axes.{bad}]"), 1)).unwrap_err();
        let first = &problems.list[0];
        assert_eq!(first.line(), Some(36), "{problems}");
        assert!(first.message.contains("can't name an axis") && first.remedy.contains("Python"), "{problems}");
        assert_eq!(problems.list.len(), 1, "references to it are not its fault:\n{problems}");
    }
}

#[test]
fn references_resolve_and_dimensions_agree() {
    const SCAN: &str = "scan = { x = \"s.x\", y = \"s.y\", unit = \"um\" }";
    check(&[
        (
            SCAN,
            "scan = { x = \"s.x\", y = \"s.r\", unit = \"um\" }",
            "",
            "s.r is in deg, which does not measure a length",
            "by a length",
        ),
        (SCAN, "scan = { x = \"s.x\", y = \"s.y\", unit = \"deg\" }", "", "regions are lengths", "\"um\""),
        (SCAN, "scan = { x = \"s.x\", y = \"s.x\", unit = \"um\" }", "", "two roles", "different"),
        (SCAN, "scan = { x = \"s.x\", y = \"s.yy\", unit = \"um\" }", "", "no axis \"s.yy\"", "did you mean \"s.y\"?"),
        (
            SCAN,
            "scan = { x = \"s.x\", y = \"y\", unit = \"um\" }",
            "",
            "axes are written \"stage.axis\", not \"y\"",
            "\"s.y\"",
        ),
        (SCAN, "scan = { x = \"s.x\", unit = \"um\" }", "", "`y` is missing in `scan`", "y = \"stage.axis\""),
        ("up = \"-s.y\"", "up = \"s.y\"", "", "no direction", "\"+sample.x\""),
        ("up = \"-s.y\"", "up = \"-s.x\"", "", "`right` and `up` are both s.x", "two different axes"),
        ("up = \"-s.y\"", "up = \"+s.r\"", "", "in deg", "by a length"),
        (
            "axis = \"s.r\", unit = \"mdeg\"",
            "axis = \"s.r\", unit = \"um\"",
            "parameters",
            "can't be given in um",
            "unit = \"deg\"",
        ),
        (
            "axis = \"s.r\", unit = \"mdeg\"",
            "axis = \"s.q\", unit = \"mdeg\"",
            "parameters",
            "no axis \"s.q\"",
            "\"s.r\"",
        ),
        ("setting = \"gain\"", "setting = \"gian\"", "", "can't be \"gian\"", "did you mean \"gain\"?"),
        ("{ setting = \"gain\" }", "{ setting = \"gain\" }, { setting = \"gain\" }", "", "in the list already", "once"),
        ("[eaa]", "[eaa]\ncamera = \"cam2\"", "camera = \"cam2\"", "no camera \"cam2\"", "did you mean \"cam\"?"),
    ]);
}

#[test]
fn a_keep_out_protects_something() {
    const BOXES: &str = "boxes = [{ \"s.x\" = [70_000, 80_000], s.y = [0, 10] }]";
    check(&[
        (BOXES, "", "[[keep_out]]", "`boxes` is missing", "boxes = ["),
        (BOXES, "boxes = []", "", "keeps out of nothing", "at least one box"),
        (BOXES, "boxes = [{ }]", "", "without an axis", "name at least one axis"),
        (BOXES, "boxes = [{ \"s.q\" = [0, 1] }]", "", "no axis \"s.q\"", "\"s.x\""),
        (BOXES, "boxes = [{ \"s.y\" = [9, 9] }]", "", "[9, 9] is empty", "a lower and a higher end"),
        (BOXES, "boxes = [{ \"s.y\" = [0, 0] }]", "", "[0, 0] is empty", "a lower and a higher end"),
        (BOXES, "boxes = [{ \"s.y\" = [9, 1] }]", "", "reversed", "[1, 9]"),
        (BOXES, "boxes = [{ \"s.y\" = [9, nan] }]", "", "not a finite number", "nan"),
        (BOXES, "boxes = [{ \"s.y\" = [51, 90] }]", "", "beyond the travel of s.y, 0 to 50 mm", "own unit, mm"),
        (BOXES, "boxes = [{ s.y = [1, 2], \"s.y\" = [3, 4] }]", "", "bounds the box twice", "two boxes"),
        (BOXES, "boxes = [{ \"s.r\" = [0, 10] }]", "margin_um", "kept from s.r, which turns", "remove `margin_um`"),
        ("margin_um = 100", "margin_um = -1", "", "out of range", "from 0 to"),
        ("name = \"post\"", "name = \" \"", "", "`name` is empty", "some text"),
    ]);
}

#[test]
fn optional_sections_are_judged_too() {
    check(&[
        ("name = \"bench\"", "name = \"My Bench\"", "", "is not a name", "\"my-bench\""),
        ("pixel_size_um = 0.65", "pixel_size_um = 0", "", "out of range", "um"),
        ("roi = [0, 0, 640, 480]", "roi = [0, 0, 0, 480]", "", "out of range", "from 1"),
        ("roi = [0, 0, 640, 480]", "roi = [0, 0]", "", "must be four numbers", "[x, y, width, height]"),
        ("roi = [0, 0, 640, 480]", "exposure_ms = 0", "", "`exposure_ms` = 0 ms", "from"),
        ("roi = [0, 0, 640, 480]", "gain = inf", "", "not a finite", "nan"),
        ("roi = [0, 0, 640, 480]", "bits = 11", "", "no pixel depth", "8, 10, 12, 14 or 16"),
        ("roi = [0, 0, 640, 480]", "light = \"lamp\"", "", "there is no output \"lamp\"", "[[output]]"),
        ("wait_s = 10", "wait_s = 0", "", "`wait_s` = 0 s is out of range", "0.001 to 3600 s"),
        ("wait_s = 10", "wait_s = 601", "", "longer than `max_wait_s`, 600 s", "at least `wait_s`"),
        ("wait_s = 10", "max_wait_s = nan", "", "`max_wait_s` is not a finite number", "nan"),
        ("wait_s = 10", "queue_deadline_s = -1", "", "`queue_deadline_s` = -1 s", "0.001"),
        ("wait_s = 10", "fresh_ms = 60000", "", "`fresh_ms` = 60000 ms", "10000 ms"),
        ("wait_s = 10", "on_client_lost = \"go\"", "", "can't be \"go\"", "\"stop\", \"continue\""),
        ("[eaa]", "[images]\npreview_px = 2048\n[eaa]", "preview_px", "out of range", "64 to 1024 px"),
        ("[eaa]", "[images]\ndir = \"~/p\"\n[eaa]", "dir", "would not be expanded", "whole path"),
        ("[eaa]", "[images]\nraw = \"png\"\n[eaa]", "raw", "can't be \"png\"", "\"tiff\", \"npy\""),
        ("[eaa]", "[images]\npath_map = { \"\" = \"/a\" }\n[eaa]", "path_map", "every file", "folder"),
        ("[eaa]", "[log]\nlevel = \"loud\"\n[eaa]", "level", "can't be \"loud\"", "\"error\", \"warn\""),
        ("[eaa]", "[eaa]\nmax_array_mb = 0", "max_array_mb", "out of range", "1 to 1024"),
        ("[eaa]", "[approvals]\nexpire_s = 1\n[eaa]", "expire_s", "`expire_s` = 1 s", "5 to 3600 s"),
        ("[eaa]", "[approvals]\napprove_by = [\"model\"]\n[eaa]", "approve_by", "\"model\"", "\"elicitation\""),
        ("[eaa]", "[approvals]\napprove_by = \"elicitation\"\n[eaa]", "approve_by", "`approve_by`", ""),
        ("[eaa]", "[approvals]\nwho = \"me\"\n[eaa]", "who", "unknown key \"who\"", "expire_s, approve_by"),
        ("[eaa]", "[eaaa]", "", "unknown key \"eaaa\" in the file", "did you mean `eaa`?"),
    ]);
}

#[test]
fn what_a_later_version_will_know_is_called_so() {
    let problems = read(&format!("{GOOD}[[objective]]\n")).unwrap_err();
    assert_eq!(problems.list.len(), 1, "{problems}");
    assert_eq!(problems.list[0].line(), Some(GOOD.lines().count() + 1));
    assert!(problems.list[0].message.contains("not available in this version"), "{problems}");
}

#[test]
fn a_rule_is_shown_under_its_line_and_column() {
    let rule = "[[rule]]\nname = \"r\"\nwhen = \"gate\"\nrequire = \"stage.s.x < 5 && stage.s.z > 1\"\n";
    let one = |text: &str| {
        let problems = read(&format!("{GOOD}{text}")).unwrap_err();
        assert_eq!(problems.list.len(), 1, "{problems}");
        (problems.list[0].clone(), problems.render(false))
    };
    let (problem, drawn) = one(rule);
    let place = problem.place.unwrap();
    assert_eq!((place.line, place.column), (GOOD.lines().count() + 4, 29));
    assert!(problem.message.contains("no `stage.s.z`") && problem.remedy.contains("`stage.s."), "{drawn}");
    let (marked, carets) =
        (drawn.lines().position(|l| l.contains("require =")), drawn.lines().position(|l| l.contains("^^^^^^^^^")));
    assert_eq!(marked.map(|l| l + 1), carets, "{drawn}");
    let good = rule.replace("stage.s.z", "stage.s.y");
    for (from, to, message) in [
        ("stage.s.y > 1", "", "this is no condition"),
        ("stage.s.y > 1", "stage.s.y > 'a'", "`>` needs a number"),
        ("\"gate\"", "\"watch\"", "`then` is missing"),
        ("\"gate\"", "\"gate\"\nthen = \"stop\"", "no meaning for a gate"),
        ("\"gate\"", "\"both\"\nthen = \"stop\"\nask = \"operator\"", "a watch can't ask"),
        ("stage.s.x < 5 && stage.s.y > 1", " ", "is empty"),
    ] {
        let (problem, drawn) = one(&good.replace(from, to));
        assert!(problem.message.contains(message), "{message}: {drawn}");
    }
    for key in ["max_step", "travel_per_hour"] {
        let (problem, _) = one(&format!("[budget]\n{key} = {{ \"s.q\" = 5 }}\n"));
        assert!(problem.message.contains("no axis \"s.q\""), "{problem}");
    }
    let (problem, _) = one("[budget]\nlight_dose = { lamp = 5 }\n");
    assert!(problem.message.contains("no output \"lamp\""), "{problem}");
}

#[test]
fn what_is_not_toml_is_said_once_a_line() {
    check(&[
        ("sign = 1", "sign 1", "", "not TOML", "key = value"),
        ("serial = \"/dev/ttyUSB0\"", "serial = \"\\\\.\\COM5\"", "", "escape", "single quotes"),
        ("unit = \"mm\"", "unit = mm", "", "not TOML", "in quotes"),
        ("travel = [0.0, 50.0]", "travel = [0.0, 50.0", "max_speed_per_s", "array", "close it"),
        ("id = \"port\"", "id = \"port", "", "not TOML", ""),
    ]);
    let two = GOOD.replacen("sign = 1", "sign 1", 1).replacen("wait_s = 10", "wait_s = = 10", 1);
    let lines: Vec<_> = read(&two).unwrap_err().list.iter().map(Problem::line).collect();
    assert_eq!(lines, [Some(18), Some(57)]);
    let problems = read(&GOOD.replacen("sign = 1", "sign = 1\nsign = 1\norigin = nan", 1)).unwrap_err();
    let lines: Vec<_> = problems.list.iter().map(Problem::line).collect();
    assert_eq!(lines[..2], [Some(19), Some(20)], "a repeated key does not hide the rest:\n{problems}");
    assert!(problems.list[0].message.contains("\"sign\" is given twice"), "{problems}");
}

#[test]
fn all_problems_of_a_file_come_at_once() {
    let bad = GOOD
        .replacen("baud = 115200", "baud = 1", 1)
        .replacen("driver = \"grbl\"", "driver = \"grlb\"", 1)
        .replacen("travel = [0.0, 50.0]", "travel = [50.0, 0.0]", 1)
        .replacen("tolerance = 20", "tolerance = -20", 1)
        .replacen("up = \"-s.y\"", "up = \"-s.v\"", 1)
        .replacen("wait_s = 10", "wiat_s = 10", 1);
    let problems = read(&bad).unwrap_err();
    let lines: Vec<_> = problems.list.iter().filter_map(Problem::line).collect();
    assert_eq!(lines, [7, 13, 20, 31, 50, 57], "{problems}");
    let drawn = problems.render(false);
    assert!(drawn.ends_with("6 problems in rig.toml; nothing was opened"), "{drawn}");
    assert!(problems.render(true).contains('\u{1b}') && !drawn.contains('\u{1b}'));
    assert_eq!(problems.render_plain().lines().count(), 6);
}
