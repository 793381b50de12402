//! What the simulated ASI controller answers, held against the examples of asiimaging.com/docs, and how it moves.

use std::time::Duration;

use hw_sim::{ASI_TOML, Bench, Fault};

struct Host {
    bench: Bench,
    ms: u64,
}

impl Host {
    fn new(toml: &str) -> Host {
        let mut host = Host { bench: Bench::from_toml(toml).expect("the bench"), ms: 0 };
        assert_eq!(host.pass(600), "", "it says nothing when power comes on");
        host
    }

    fn pass(&mut self, ms: u64) -> String {
        self.ms += ms;
        self.bench.advance(Duration::from_millis(self.ms));
        String::from_utf8_lossy(&self.bench.read("scope")).into_owned()
    }

    /// A command, and the line that comes within 10 ms.
    fn ask(&mut self, command: &str) -> String {
        let line = format!("{command}\r");
        assert_eq!(self.bench.write("scope", line.as_bytes()), line.len());
        let said = self.pass(10);
        assert!(said.is_empty() || said.ends_with("\r\n"), "{said:?} is cut");
        said.trim_end().to_owned()
    }

    fn settle(&mut self) {
        (0..2000).find(|_| self.ask("/") == "N").expect("it comes to rest within 20 s");
    }
}

#[test]
fn questions_and_answers_look_like_those_of_the_manual() {
    let mut host = Host::new(ASI_TOML);
    for (asked, answer) in [
        ("V", ":A Version: USB-9.2m"),
        ("version", ":A Version: USB-9.2m"),
        ("BU", "STD_XYZ"),
        ("/", "N"),
        ("STATUS", "N"),
        ("W X", ":A 0"),
        ("where z x", ":A 0 0"),
        ("SL X? Z?", ":A X=-25.000 Z=-2.000"),
        ("SU Y?", ":A Y=25.000"),
        ("UM X?", ":A X=10000"),
        ("B X?", ":A X=0.000000"),
        ("S X?", ":A X=5.000000"),
        ("S X=1.23 Y=3.21", ":A"),
        ("S X=1000", ":A"),
        ("S X? Y?", ":A X=25.000000 Y=3.210000"),
        ("RS X", ":A 10"),
        ("HALT", ":A"),
        ("\\", ":A"),
        ("FLY", ":N-1"),
        ("W Q", ":N-2"),
        ("W", ":N-3"),
        ("M X=1e400", ":N-4"),
        ("", ""),
    ] {
        assert_eq!(host.ask(asked), answer, "{asked}");
    }
}

#[test]
fn a_move_starts_all_its_axes_at_once_each_at_its_own_speed() {
    let mut host = Host::new(ASI_TOML);
    assert_eq!(host.ask("S X=10 Y=5"), ":A");
    assert_eq!(host.ask("M X=100000 Y=100000.4"), ":A");
    assert_eq!(host.ask("/"), "B");
    host.pass(480);
    let [x, y] = ["x", "y"].map(|a| host.bench.speed_mm_per_s("scope", a));
    assert!((x - 10.0).abs() < 0.01 && (y - 5.0).abs() < 0.01, "{x} {y}");
    host.settle();
    assert_eq!(host.ask("W X Y"), ":A 100000 100000");
    assert!((host.bench.carriage_mm("scope", "x") - 35.0).abs() < 0.001);
    assert_eq!(host.ask("R X=-5"), ":A");
    host.settle();
    assert_eq!(host.ask("W X"), ":A 99995");
}

#[test]
fn a_halt_in_motion_is_answered_with_its_own_code_and_the_axis_slows_down() {
    let mut host = Host::new(ASI_TOML);
    host.ask("S X=20");
    host.ask("M X=200000");
    host.pass(300);
    assert_eq!(host.ask("HALT"), ":N-21");
    host.settle();
    let at = host.bench.carriage_mm("scope", "x");
    assert!(at > 29.0 && at < 33.0, "{at}");
    host.pass(500);
    assert_eq!(host.bench.carriage_mm("scope", "x"), at);
}

#[test]
fn a_target_beyond_its_limit_is_taken_and_ends_at_the_limit() {
    let mut host = Host::new(ASI_TOML);
    host.ask("S X=25");
    assert_eq!(host.ask("M X=542335"), ":A");
    host.settle();
    assert_eq!((host.ask("W X"), host.ask("RS X")), (":A 250000".into(), ":A 74".into()), "bit 6: the upper limit");
}

#[test]
fn zero_moves_the_limits_with_the_coordinates() {
    let mut host = Host::new(ASI_TOML);
    host.ask("M X=10000");
    host.settle();
    assert_eq!(host.ask("Z"), ":A");
    assert_eq!((host.ask("W X"), host.ask("SU X?")), (":A 0".into(), ":A X=24.000".into()));
}

#[test]
fn a_restart_is_silent_and_leaves_speed_as_saved_and_position_zero() {
    let mut host = Host::new(ASI_TOML);
    host.ask("S X=20");
    host.ask("M X=50000");
    host.pass(400);
    host.bench.fault("scope", Fault::Reset).expect("a reset");
    assert_eq!(host.ask("/"), "", "deaf while it starts");
    assert_eq!(host.pass(600), "");
    assert_eq!((host.ask("W X"), host.ask("S X?"), host.ask("/")), (":A 0".into(), ":A X=5.000000".into(), "N".into()));
}

#[test]
fn what_a_firmware_lacks_it_does_not_know() {
    let mut host = Host::new(&ASI_TOML.replacen("id = \"scope\"", "id = \"scope\"\nlacks = [\"SL\"]", 1));
    assert_eq!((host.ask("SL X?"), host.ask("SETLOW X?")), (":N-1".into(), ":N-1".into()));
}
