//! What a Zaber device answers: framing, addressing, rejections, settings.

mod support;

use hw_sim::Fault;
use support::near;
use support::zaber::Chain;

/// Sends each line on the left and expects the lines on the right, joined by `|`.
fn converse(chain: &mut Chain, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(chain.ask(line), *expected, "{line}");
    }
}

#[test]
fn the_manuals_messages_are_answered_as_the_manual_says() {
    let mut c = Chain::booted();
    converse(
        &mut c,
        &[
            // Addressing: an empty command asks for the status; without an address everybody answers, nearest first.
            ("/", "@01 0 OK IDLE WR 0|@02 0 OK IDLE WR 0"),
            ("/1", "@01 0 OK IDLE WR 0"),
            ("/01 0", "@01 0 OK IDLE WR 0"),
            ("/0 get deviceid", "@01 0 OK IDLE WR 50081|@02 0 OK IDLE WR 30222"),
            ("/2 get pos", "@02 0 OK IDLE WR 0 0"),
            ("/2 2 get pos", "@02 2 OK IDLE WR 0"),
            ("/3 get pos", ""),
            // Ids come back; `--` wants no reply.
            ("/1 0 7 get system.serial", "@01 0 07 OK IDLE WR 41001"),
            ("/1 0 99", "@01 0 99 OK IDLE WR 0"),
            ("/1 1 -- get pos", ""),
            ("/1 0 100 get pos", "@01 0 RJ IDLE WR BADMESSAGEID"),
            // Checksums: answered in kind, and a wrong one is not heard.
            ("/1 tools echo:BF", "@01 0 OK IDLE WR 0:3E"),
            ("/0 0 01:FF", "@01 0 01 OK IDLE WR 0:BD|@02 0 01 OK IDLE WR 0:BC"),
            ("/1 tools echo:BE", ""),
            // Identity.
            ("/1 get version", "@01 0 OK IDLE WR 7.38"),
            ("/1 get system.axiscount", "@01 0 OK IDLE WR 1"),
            ("/2 get system.axiscount", "@02 0 OK IDLE WR 2"),
            ("/2 get peripheral.id", "@02 0 OK IDLE WR 43211 43211"),
            ("/1 get peripheral.id", "@01 0 RJ IDLE WR BADCOMMAND"),
            ("/1 get comm.packet.size.max", "@01 0 OK IDLE WR 80"),
            // Warnings.
            ("/1 warnings", "@01 0 OK IDLE WR 01 WR"),
            ("/1 warnings clear", "@01 0 OK IDLE WR 01 WR"),
            ("/2 1 warnings", "@02 1 OK IDLE WR 01 WR"),
            // Rejections.
            ("/1 2 get pos", "@01 2 RJ IDLE WR BADAXIS"),
            ("/1 1 get deviceid", "@01 1 RJ IDLE WR DEVICEONLY"),
            ("/1 1 system reset", "@01 1 RJ IDLE WR DEVICEONLY"),
            ("/1 get nonsense", "@01 0 RJ IDLE WR BADCOMMAND"),
            ("/1 fly", "@01 0 RJ IDLE WR BADCOMMAND"),
            ("/1 HOME", "@01 0 RJ IDLE WR BADCOMMAND"),
            ("/1 move abs", "@01 0 RJ IDLE WR BADDATA"),
            ("/1 move abs ten", "@01 0 RJ IDLE WR BADDATA"),
            ("/1 move abs 1e3", "@01 0 RJ IDLE WR BADDATA"),
            ("/1 move sideways 5", "@01 0 RJ IDLE WR BADCOMMAND"),
            ("/1 set version 8", "@01 0 RJ IDLE WR BADCOMMAND"),
            ("/1 set maxspeed -5", "@01 0 RJ IDLE WR BADDATA"),
            ("/1 set maxspeed 0", "@01 0 RJ IDLE WR BADDATA"),
            ("/1 set limit.max -1", "@01 0 RJ IDLE WR BADDATA"),
            ("/1 set limit.home.offset 5", "@01 0 RJ IDLE WR NOACCESS"),
            ("/1 set system.access 2", "@01 0 OK IDLE WR 0"),
            ("/1 set limit.home.offset 400", "@01 0 OK IDLE WR 0"),
            // Several at once, and the same again.
            ("/1 get limit.min limit.max", "@01 0 OK IDLE WR 0;133333"),
            ("/1 l", "@01 0 OK IDLE WR 0;133333"),
            ("/2 get limit.max maxspeed", "@02 0 OK IDLE WR 102400 102400;153600 153600"),
            ("/1 tools echo hello  there", "@01 0 OK IDLE WR hello there"),
            // A line without a slash is nobody's.
            ("1 get pos", ""),
        ],
    );
}

#[test]
fn replies_carry_a_checksum_always_never_or_in_kind() {
    let mut c = Chain::booted();
    for (mode, plain, summed) in [("1", true, true), ("0", false, false), ("2", false, true)] {
        c.ask(&format!("/1 set comm.checksum {mode}"));
        assert_eq!(c.ask("/1 get pos").contains(':'), plain, "mode {mode}");
        assert_eq!(c.ask("/1 get pos:FD").contains(':'), summed, "mode {mode}");
    }
}

#[test]
fn help_is_a_reply_and_lines_of_information() {
    let mut c = Chain::booted();
    let said = c.ask("/1 0 5 help");
    let lines: Vec<&str> = said.split('|').collect();
    assert_eq!(lines[0], "@01 0 05 OK IDLE WR 0");
    assert!(lines.len() > 3 && lines[1..].iter().all(|l| l.starts_with("#01 0 05 ")), "{said}");
}

#[test]
fn a_second_slash_is_text_and_del_ends_half_a_command() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/1 move rel/1 stop"), "@01 0 RJ IDLE WR BADCOMMAND");
    c.send(b"/1 move rel 1000");
    assert_eq!(c.ask("\x7f/1 stop"), "@01 0 OK IDLE WR 0");
    assert_eq!(c.ask("/1\r"), "@01 0 OK IDLE WR 0");
    assert_eq!(c.ask(&format!("/1 tools echo {}", "x".repeat(80))), "", "longer than a packet can be");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE WR 0");
}

#[test]
fn long_commands_and_replies_come_in_several_packets() {
    let mut c = Chain::booted();
    let words = ["abcdefghi"; 12].join(" ");
    let (first, rest) = words.split_at(60);
    assert_eq!(c.ask(&format!("/1 0 3 tools echo {}\\", first.trim())), "");
    let said = c.ask(&format!("/1 0 3 cont 1 {}", rest.trim()));
    let lines: Vec<&str> = said.split('|').collect();
    assert!(lines[0].starts_with("@01 0 03 OK IDLE WR abcdefghi") && lines[0].ends_with('\\'), "{said}");
    assert!(lines[1].starts_with("#01 0 03 cont abcdefghi"), "{said}");
    assert!(lines.iter().all(|l| l.len() + 2 <= 80), "{said}");
    assert_eq!(said.matches("abcdefghi").count(), 12);
    // A continuation out of turn belongs to nothing.
    assert_eq!(c.ask("/1 cont 1 move rel 5"), "");
    c.ask("/1 tools echo a\\");
    assert_eq!(c.ask("/1 cont 2 b"), "");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE WR 0");
}

#[test]
fn a_lost_byte_is_caught_by_a_checksum_and_by_nothing_else() {
    let mut c = Chain::booted();
    c.home("/1");
    c.fault(Fault::Drop { bytes: 2 });
    assert_eq!(c.ask("/1 1 04 move abs 1000:EC"), "", "no slash, no command");
    c.send(b"/1 1 04 move ab");
    c.pass(10);
    c.fault(Fault::Drop { bytes: 1 });
    assert_eq!(c.ask("s 1000:EC"), "");
    c.send(b"/1 move abs 1");
    c.pass(10);
    c.fault(Fault::Drop { bytes: 1 });
    assert_eq!(c.ask("0000"), "@01 0 OK BUSY -- 0");
    c.settle("/1");
    assert_eq!(c.value("/1 get pos"), "1000", "ten times too short, and accepted");
}

#[test]
fn settings_are_kept_without_power_but_the_access_level_is_not() {
    let mut c = Chain::booted();
    c.value("/1 set maxspeed 40000");
    c.value("/1 set accel 50");
    c.value("/1 set user.data.1 -77");
    c.value("/1 set system.access 2");
    c.fault(Fault::Reset);
    c.pass(600);
    assert_eq!(c.value("/1 get maxspeed motion.decelonly"), "40000;50");
    assert_eq!(c.value("/1 get user.data.1"), "-77");
    assert_eq!(c.value("/1 get system.access"), "1");
    c.value("/1 system restore");
    assert_eq!(c.value("/1 get maxspeed"), "86005");
}

#[test]
fn a_corrupt_memory_brings_the_factory_back_and_a_fault() {
    let mut c = Chain::booted();
    c.value("/1 set limit.max 5000");
    c.fault(Fault::CorruptEeprom);
    assert_eq!(c.value("/1 get limit.max"), "5000");
    c.fault(Fault::Reset);
    c.pass(600);
    assert_eq!(c.ask("/1 get limit.max"), "@01 0 OK IDLE FF 133333");
    assert_eq!(c.ask("/1 home"), "@01 0 RJ IDLE FF DRIVERDISABLED");
}

#[test]
fn a_device_set_to_another_speed_is_out_of_reach() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/1 set comm.rs232.baud 12345"), "@01 0 RJ IDLE WR BADDATA");
    c.value("/1 set comm.rs232.baud 9600");
    assert_eq!(c.ask("/"), "@02 0 OK IDLE WR 0");
    c.fault(Fault::Reset);
    c.pass(600);
    assert_eq!(c.ask("/"), "@02 0 OK IDLE WR 0", "a power cycle does not help");
}

#[test]
fn addresses_are_given_anew_along_the_chain() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/0 renumber 5"), "@05 0 OK IDLE WR 0|@06 0 OK IDLE WR 0");
    assert_eq!(c.ask("/6 get deviceid"), "@06 0 OK IDLE WR 30222");
    assert_eq!(c.ask("/5 set comm.address 6"), "@06 0 OK IDLE WR 0");
    assert_eq!(c.ask("/6 get deviceid"), "@06 0 OK IDLE WR 50081|@06 0 OK IDLE WR 30222", "two of the same address");
    assert_eq!(c.ask("/renumber"), "@01 0 OK IDLE WR 0|@02 0 OK IDLE WR 0");
}

#[test]
fn channels_are_read_and_set() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/1 io info"), "@01 0 RJ IDLE WR BADCOMMAND");
    assert_eq!(c.value("/2 io info"), "1 2 4 4");
    c.value("/2 io set do 3 1");
    c.value("/2 io set ao 1 2.5");
    assert_eq!(c.value("/2 io get do"), "0 0 1 0");
    assert_eq!(c.bench.output("chain", 2, "do", 3), 1.0);
    assert_eq!(c.bench.output("chain", 2, "ao", 1), 2.5);
    assert!(c.bench.output("chain", 2, "do", 5).is_nan());
    c.value("/2 io set do port 1 k t 0");
    assert_eq!(c.value("/2 io get do"), "1 0 0 0");
    for bad in ["io set do 5 1", "io set do 1 2", "io set ao 1 11", "io set do port 1 0", "io get do 0"] {
        assert_eq!(c.ask(&format!("/2 {bad}")), "@02 0 RJ IDLE WR BADDATA", "{bad}");
    }
    c.fault(Fault::Input { address: 2, input: "di".into(), channel: 4, volts: 5.0 });
    c.fault(Fault::Input { address: 2, input: "ai".into(), channel: 2, volts: 1.25 });
    assert_eq!(c.value("/2 io get di"), "0 0 0 1");
    assert_eq!(c.value("/2 io get ai 2"), "1.25");
    let nowhere = Fault::Input { address: 1, input: "di".into(), channel: 1, volts: 1.0 };
    assert!(c.bench.fault("chain", nowhere).is_err());
    let asked = r#"{"cmd":"output","device":"chain","address":2,"output":"do","channel":1}"#;
    assert_eq!(c.bench.control(asked), r#"{"value":1.0}"#);
    c.fault(Fault::Reset);
    c.pass(600);
    assert_eq!(c.value("/2 io get do"), "0 0 0 0", "outputs are off when power comes on");
}

#[test]
fn notes_are_kept_until_the_memory_is_full() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/1 storage get lab.name"), "@01 0 RJ IDLE WR BADDATA");
    c.value("/1 storage set lab.name upper bench");
    assert_eq!(c.value("/1 storage get lab.name"), "upper bench");
    c.value("/1 storage erase lab.name");
    let refused = (0..100).map(|i| c.ask(&format!("/1 storage set k{i} v"))).find(|r| r.contains(" RJ "));
    assert_eq!(refused.as_deref(), Some("@01 0 RJ IDLE WR FULL"));
}

#[test]
fn a_device_answers_at_the_pace_of_its_line() {
    let mut c = Chain::booted();
    let begun = c.bench.received("chain").len();
    c.ask("/1 get pos");
    let heard = &c.bench.received("chain")[begun..];
    near((heard[10].0 - heard[0].0).as_secs_f64(), 10.0 * 10.0 / 115_200.0, 1e-6);
}

#[test]
fn bench_files_are_read_strictly() {
    for (from, to, expected) in [
        ("address = 1", "address = 0", "1..=99"),
        ("name = \"slide\"", "name = \"tilt\"", "tilt"),
        ("firmware = \"7.38\"", "firmware = \"new\"", "firmware"),
        ("controller = true", "controller = false", "controller = true"),
        ("maxspeed = 86005", "maxpseed = 86005", "maxpseed"),
        ("maxspeed = 86005", "maxspeed = 0.5", "maxspeed"),
        ("home_switch_end = \"min\"", "home_switch_end = \"max\"", "home_switch_end"),
        (", focus = \"chain.focus\"", ", focus = \"chain.fokus\"", "chain.fokus"),
        ("start_mm = 12.0", "start_mm = 120.0", "start_mm"),
    ] {
        let text = hw_sim::ZABER_TOML.replacen(from, to, 1);
        assert!(text != hw_sim::ZABER_TOML, "{from} is in the file");
        let error = hw_sim::Bench::from_toml(&text).map(|_| ()).expect_err(from).to_string();
        assert!(error.contains(expected), "{from}: {error}");
    }
}
