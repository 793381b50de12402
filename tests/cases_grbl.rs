//! Public bug reports about GRBL hosts as small inputs: each test is named after its case in `cases.toml`.

mod support;

use std::time::Duration;

use steadyhand::config;
use steadyhand::devices;
use steadyhand::model::{Activity, Aim, Code, Move, Moved, Name, Trust};
use steadyhand::plans::Sequence;
use steadyhand::units::{Distance, Position, Unit};
use support::scripted::Scripted;
use support::{Lab, answer_of, stage_only};

/// 40, 25, 2 mm in the rig's coordinates.
const HERE: [f64; 3] = [-35.0, -25.0, -2.0];

fn homed() -> Scripted {
    Scripted::homed(&stage_only(), HERE)
}

#[test]
fn g01_a_report_with_lost_characters_is_dropped_whole_and_counted() {
    let mut s = homed();
    let good = "<Idle|MPos:-35.000,-25.000,-2.000|FS:0,0>\r\n";
    let bad = [
        "<IdleMPos:0.000,0.000,0.000|FS:0,0>",
        "<Idle|MPo:0.000,0.000,0.000|FS:0,0>",
        "<dle|MPo:0.000,0.000,0.000|FS:0,0>",
        "<Idle|MPos:0.000,0.000,0.000|FS:0,|WCO:0.000,0.000,0.000>",
        "<Idle|MPos:0.000,0.0000.000|FS:0,0|Ov:100,100,100>",
        "<Idle|MPos:0.000,0000,0.000|FS:0,0|WCO:0.000,0.000,0.000",
    ];
    for line in bad {
        s.run_ms(100);
        let before = s.scope();
        s.on("?", format!("{line}\r\n"));
        s.until("the bad line was counted", 3000, |s| s.scope().link.bad_frames == before.link.bad_frames + 1);
        let after = s.scope();
        let place = |s: &steadyhand::model::StageStatus| s.axes.iter().map(|a| a.position).collect::<Vec<_>>();
        assert_eq!((place(&after), after.activity), (place(&before), before.activity), "{line}");
        assert_eq!(after.read_at, before.read_at, "the age is that of the last good report: {line}");
        assert!(!after.link.degraded);
        s.on("?", good);
        s.until("a good report", 3000, |s| s.scope().read_at > before.read_at);
        assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Referenced), "{line}");
    }
    s.on("?", format!("{}\r\n", bad[0]));
    s.until("three in a row", 5000, |s| s.scope().link.degraded);
    assert!(s.scope().link.last_error.unwrap().contains("broken report"));
}

#[test]
fn g03_a_controller_that_only_says_alarm_is_connected_and_its_position_is_unknown_not_zero() {
    let mut s = Scripted::silent(&stage_only());
    s.on("?", "<Alarm>\r\n");
    s.on("$I", "[0.9j.20160303:]\r\n[]\r\nok\r\n");
    s.on("$$", "$0=10 (step pulse, usec)\r\n$13=0 (report inches, bool)\r\nok\r\n");
    s.on("$G", "[G0 G54 G17 G21 G90 G94 M0 M5 M9 T0 F0. S0.]\r\nok\r\n");
    s.say("Grbl 0.9j ['$' for help]\r\n['$H'|'$X' to unlock]\r\n");
    s.online();
    let scope = s.scope();
    assert!(scope.axes.iter().all(|a| a.position.is_none()), "unknown, not 0");
    let identity = scope.identity.unwrap();
    assert_eq!(identity.model, "Grbl");
    assert!(identity.notes.iter().any(|n| n.contains("locked") && n.contains("home")), "{:?}", identity.notes);
    let e = s.move_to(&[("x", 40.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::NotReferenced, Moved::No));
    assert!(e.what.contains("not yet known"), "{e}");
    assert!(s.heard_since(Duration::ZERO, "G53").is_none());
}

#[test]
fn g04_a_report_that_cuts_into_another_answers_no_pending_command() {
    let mut s = homed();
    s.on("$J", "");
    let mut ticket = s.moving(&[("x", 41.0)]);
    let before = s.scope();
    s.on("?", "");
    s.say("<Run|MPos:55.000,57.000,<Run|MPos:55.000,57.000,59.000|Bf:15,128>\r\n59.000|Bf:15,128>\r\n");
    s.run_ms(100);
    assert!(answer_of(&mut ticket).is_none(), "the command waits on");
    let after = s.scope();
    assert_eq!(after.axes, before.axes);
    assert_eq!((after.activity, after.link.bad_frames), (Activity::Moving, before.link.bad_frames + 2));
    s.stands("Jog", [-34.5, -25.0, -2.0]);
    s.say("ok\r\n");
    s.until("a clean report is taken", 1000, |s| s.reads("x") == Some(40.5));
    s.stands("Idle", [-34.0, -25.0, -2.0]);
    assert_eq!(s.answer(ticket).unwrap().moved, Moved::Yes);
}

#[test]
fn g07_without_the_offset_the_machine_position_is_unknown_and_nothing_moves() {
    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.on("?", "<Idle|WPos:5.000,5.000,0.000|FS:0,0>\r\n");
    s.online();
    s.run_ms(3000);
    assert!(s.scope().axes.iter().all(|a| a.position.is_none()), "an offset of 0 is never assumed");
    let e = s.move_to(&[("x", 10.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::NotReferenced, Moved::No));
    assert!(e.what.contains("machine position") && e.what.contains("not yet known"), "{e}");
    s.on("?", "<Idle|WPos:5.000,5.000,0.000|FS:0,0|WCO:-40.000,-30.000,-2.000>\r\n");
    s.home().unwrap();
    assert_eq!((s.reads("x"), s.reads("y"), s.reads("z")), (Some(40.0), Some(25.0), Some(2.0)));
    let since = s.now();
    let ticket = s.moving(&[("x", 41.0)]);
    assert!(s.heard_since(since, "$J=G53G90G21X-34F").is_some(), "in machine coordinates: {:?}", s.heard.last());
    s.on("?", "<Idle|WPos:6.000,5.000,0.000|FS:0,0>\r\n");
    s.answer(ticket).unwrap();
}

#[test]
fn g11_silence_while_homing_is_no_disconnect_and_a_stop_gets_through() {
    let mut s = Scripted::grbl(&stage_only(), [0.0; 3]);
    s.online();
    s.on_after("$H", 20_000, "ok\r\n");
    s.on("?", "");
    let mut ticket = s.begin_home();
    s.stands("Idle", [-1.0; 3]);
    s.until("homing began", 2000, |s| s.heard_since(Duration::ZERO, "$H").is_some());
    s.on("?", "");
    for _ in 0..19 {
        s.run_ms(1000);
        assert_eq!(s.scope().activity, Activity::Homing);
        assert!(answer_of(&mut ticket).is_none() && s.far.opened() == 1);
    }
    s.stands("Idle", [-1.0; 3]);
    assert_eq!(s.answer(ticket).unwrap().moved, Moved::Yes);
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Referenced));

    let since = s.now();
    let ticket = s.begin_home();
    s.until("homing began", 2000, |s| s.heard_since(since, "$H").is_some());
    s.on("?", "");
    s.run_ms(5000);
    let asked = s.now();
    s.on([0x18], "ALARM:6\r\nok\r\n\r\nGrbl 1.1h ['$' for help]\r\n[MSG:'$H'|'$X' to unlock]\r\n");
    s.stop();
    s.until("a reset", 100, |s| s.heard_since(asked, [0x18]).is_some());
    s.stands("Alarm", [-5.0; 3]);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!(e.code, Code::Stopped);
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown), "and it is not homed");
}

#[test]
fn g20_real_time_bytes_reach_the_wire_as_single_bytes() {
    let mut lab = Lab::homed(1);
    let movement = lab.to(&[("x", 10.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    let asked = lab.now();
    lab.stop();
    assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped);
    assert!(lab.heard_since(asked).contains(&0x85));
    let all = lab.heard_since(Duration::ZERO);
    assert!(all.iter().all(|b| b.is_ascii() || *b == 0x85), "no text encoding in between");
}

#[test]
fn g21_after_a_soft_limit_alarm_it_is_told_at_once_and_only_recovery_resets() {
    let mut s = homed();
    s.on("$J", "ALARM:2\r\n[MSG:Reset to continue]\r\n");
    let ticket = s.moving(&[("x", 41.0)]);
    s.on("$J", "");
    s.until("the alarm was said", 100, |s| s.scope().fault.is_some());
    s.mute = true;
    assert_eq!(s.answer(ticket).unwrap_err().code, Code::Alarm);
    s.run_ms(20_000);
    let since = s.now();
    let e = s.move_to(&[("x", 42.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Faulted, Moved::No));
    assert!(e.what.contains("ALARM:2") && e.what.contains("needs a reset"), "{e}");
    assert!(s.now() - since < Duration::from_millis(100), "at once: {:?}", s.now() - since);
    assert_ne!(s.scope().activity, Activity::Offline, "silence is expected of it");
    assert!(s.heard_since(Duration::ZERO, [0x18]).is_none(), "it is never reset unasked");
    s.mute = false;
    s.on([0x18], "\r\nGrbl 1.1h ['$' for help]\r\n[MSG:'$H'|'$X' to unlock]\r\n");
    let since = s.now();
    s.recover().unwrap();
    assert!(s.heard_since(since, [0x18]).is_some() && s.heard_since(since, "$X").is_some());
    assert!(s.scope().fault.is_none());
}

#[test]
fn g21_an_alarm_whose_line_was_lost_is_told_all_the_same() {
    // What follows it, or else the reports, show it.
    let mut s = homed();
    s.say(b"\x88\xd4ARM:1\r\n[MSG:Reset to continue]\r\n");
    s.run_ms(100);
    assert_eq!(s.scope().fault.unwrap().code, Code::Alarm);
    let mut s = homed();
    s.stands("Alarm", HERE);
    s.run_ms(1000);
    assert_eq!(s.scope().fault.unwrap().code, Code::Alarm);
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown), "what it was is not known");
}

#[test]
fn g22_a_reset_in_motion_stops_and_loses_the_position_and_unlocking_does_not_bring_it_back() {
    let mut s = homed();
    let ticket = s.moving(&[("x", 45.0)]);
    s.stands("Jog", [-34.0, -25.0, -2.0]);
    s.run_ms(500);
    // It goes on whatever the jog cancel says.
    s.on([0x18], "ALARM:3\r\n\r\nGrbl 1.1h ['$' for help]\r\n[MSG:'$H'|'$X' to unlock]\r\n");
    let mut at = -34.0;
    s.stop();
    let asked = s.now();
    while s.heard_since(asked, [0x18]).is_none() {
        assert!(s.now() < asked + Duration::from_secs(3), "a stop that does nothing is followed by a reset");
        at += 0.1;
        s.stands("Jog", [at, -25.0, -2.0]);
        s.run_ms(20);
    }
    s.stands("Alarm", [at, -25.0, -2.0]);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
    assert!(s.heard_since(asked, [0x85]).is_some(), "the gentle stop came first");
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    s.stands("Idle", [at, -25.0, -2.0]);
    s.recover().unwrap();
    let e = s.move_to(&[("x", 40.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::NotReferenced, Moved::No));
}

#[test]
fn g24_a_line_that_merely_contains_error_ends_no_command() {
    let mut s = homed();
    s.on("$J", "");
    let mut ticket = s.moving(&[("x", 41.0)]);
    s.stands("Jog", [-34.5, -25.0, -2.0]);
    s.say("[MSG:INFO: error pin gpio.33]\r\nerror_pin: NO_PIN\r\n");
    s.run_ms(200);
    assert!(answer_of(&mut ticket).is_none());
    s.stands("Idle", [-34.0, -25.0, -2.0]);
    s.run_ms(800);
    assert!(answer_of(&mut ticket).is_none(), "idle at the target is not enough without its ok");
    s.say("ok\r\n");
    assert!(s.answer(ticket).is_ok());
}

#[test]
fn g25_an_unknown_version_connects_and_its_family_is_told_or_left_open() {
    for (banner, version, model) in [
        ("Grbl 1.1f ['$' for help]", "[VER:4.x FluidNC v4.x.x (HEAD-58a53c2):]", "FluidNC"),
        ("Grbl 3.8 [FluidNC v3.8.2 (wifi) '$' for help]", "[VER:3.8 FluidNC v3.8.2:]", "FluidNC"),
        ("Grbl 3.7 ['$' for help]", "[ver:3.7 fluidnc 3.7.13:]", "FluidNC"),
        ("GrblHAL 1.1f ['$' or '$HELP' for help]", "[VER:1.1f.20240101:]", "grblHAL"),
        ("Grbl 1.1f ['$' for help]", "[VER:1.1f.20170801:]", "Grbl"),
        ("Grbl 1.1h ['$' for help]", "[VER:1.1h EVOLUTION 4.20190830:]", "Grbl"),
        ("Grbl vNEXT-dirty ['$' for help]", "[VER:main.∞:]", "unknown, speaks Grbl"),
        ("Grbl ['$' for help]", "[VER::]", "unknown, speaks Grbl"),
    ] {
        let mut s = Scripted::grbl(&stage_only(), HERE);
        s.on("$I", format!("{version}\r\n[OPT:VM,15,128]\r\nok\r\n"));
        s.say(format!("\r\n{banner}\r\n"));
        s.online();
        assert_eq!(s.scope().identity.unwrap().model, model, "{banner} {version}");
        s.home().unwrap();
    }
}

/// The demonstration's stage with more axes, on channels A, B and C.
fn many_axes(extra: usize) -> String {
    let axes: String = ["a", "b", "c"][..extra]
        .iter()
        .map(|a| {
            format!(
                "[stage.axes.{a}]\nunit = \"mm\"\nsign = 1\norigin = 100.0\ntravel = [0.0, 100.0]\nmax_speed_per_s = 5.0\ntolerance = 0.02\ntrust = \"referenced\"\nholds_unpowered = true\n"
            )
        })
        .collect();
    stage_only().replacen("[[keep_out]]", &format!("{axes}\n[[keep_out]]"), 1).replace(
        "order = [\"z\", \"x\", \"y\"]",
        &format!("order = [\"z\", \"x\", \"y\"{}]", [", \"a\"", ", \"b\"", ", \"c\""][..extra].concat()),
    )
}

#[test]
fn g26_four_to_six_axes_are_read_and_tuples_of_different_length_are_refused() {
    for extra in 1..=3 {
        let mut s = Scripted::grbl(&many_axes(extra), HERE);
        let more = [",-4.000", ",-5.000", ",-6.000"][..extra].concat();
        s.on("?", format!("<Idle|MPos:-35.000,-25.000,-2.000{more}|FS:0,0>\r\n"));
        s.online();
        assert_eq!(s.reads("x"), Some(40.0));
        for (axis, at) in [("a", 96.0), ("b", 95.0), ("c", 94.0)].into_iter().take(extra) {
            assert_eq!(s.reads(axis), Some(at), "with {} axes", 3 + extra);
        }
    }
    let mut s = Scripted::grbl(&many_axes(3), HERE);
    s.on(
        "?",
        "<Idle|WPos:189.526,0.000,0.000,0.000,0.000,0.000|FS:0,0|WCO:-200.000,0.000,0.000,0.000,0.000,0.000>\r\n",
    );
    s.online();
    assert!((s.reads("x").unwrap() - (75.0 - 200.0 + 189.526)).abs() < 1e-9);
    assert_eq!(s.reads("c"), Some(100.0));
    let before = s.scope();
    s.on("?", "<Idle|MPos:1.000,2.000,3.000,4.000,5.000,6.000|FS:0,0|WCO:0.000,0.000,0.000>\r\n");
    s.until("it was refused", 2000, |s| s.scope().link.bad_frames > before.link.bad_frames);
    assert_eq!(s.scope().axes, before.axes);
}

#[test]
fn g27_the_state_after_unlocking_is_the_one_that_was_asked_for_after_its_ok() {
    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.on("?", "<Alarm|MPos:0.000,0.000,0.000|FS:0,0|Pn:Y>\r\n");
    s.online();
    s.on("$X", "<Alarm|MPos:0.000,0.000,0.000|FS:0,0|Pn:Y>\r\n[MSG:INFO: Caution: Unlocked]\r\nok\r\n");
    let since = s.now();
    let ticket = s.begin_recover();
    s.until("unlocking", 1000, |s| s.heard_since(since, "$X").is_some());
    s.on("?", "<Idle|MPos:0.000,0.000,0.000|FS:0,0|Pn:Y>\r\n");
    s.answer(ticket).expect("the early alarm line is no failure");
    let scope = s.scope();
    assert_eq!((scope.activity, scope.fault), (Activity::Idle, None));
    let pressed: Vec<&str> = scope.axes.iter().filter(|a| a.at_limit).map(|a| a.axis.as_str()).collect();
    assert_eq!(pressed, ["y"]);
    // Moves towards that switch are refused, moves away from it are not.
    s.home().unwrap();
    s.on("?", "<Idle|MPos:-35.000,-0.500,-1.000|FS:0,0|Pn:Y>\r\n");
    s.run_ms(1000);
    s.home().unwrap();
    assert_eq!(s.move_to(&[("y", 49.9)]).unwrap_err().code, Code::AtLimit);
    let ticket = s.moving(&[("y", 48.0)]);
    s.on("?", "<Idle|MPos:-35.000,-2.000,-1.000|FS:0,0>\r\n");
    s.answer(ticket).unwrap();
}

#[test]
fn g27_an_ok_to_unlocking_that_is_not_true_is_no_success() {
    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.stands("Alarm", HERE);
    s.online();
    let e = s.recover().unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Alarm, Moved::No));
}

#[test]
fn g34_coordinates_go_out_in_fixed_notation_and_less_than_a_step_is_no_motion() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 30.0), ("y", 20.0)]).unwrap();
    let since = lab.now();
    let epoch = lab.scope().epoch;
    let tiny = lab.by(&[("x", 0.00001)], epoch);
    let ticket = lab.begin_move(tiny).unwrap();
    assert_eq!(lab.answer(ticket).unwrap().moved, Moved::No, "a way that rounds to nothing is told as such");
    lab.move_to(&[("x", 1e-7)]).unwrap();
    lab.move_to(&[("x", 2.147_48e1), ("z", 2.5e3)]).unwrap();
    let sent = lab.lines_since(since);
    assert_eq!(sent.len(), 2, "{sent:?}");
    for line in sent {
        let words = line.strip_prefix("$J=G53G90G21").expect(&line);
        for word in words.split(|c: char| c.is_ascii_uppercase()).skip(1) {
            assert!(!word.is_empty() && word.bytes().all(|b| b"-.0123456789".contains(&b)), "{line}");
        }
    }
}

#[test]
fn g35_what_is_no_finite_number_or_out_of_range_puts_no_byte_on_the_wire() {
    let mut lab = Lab::homed(1);
    lab.move_to(&[("x", 30.0)]).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, "1e999".parse().unwrap(), "NaN".parse().unwrap()] {
        for unit in Unit::ALL {
            assert!(Position::new(bad, unit).is_err() && Distance::new(bad, unit).is_err(), "{bad} {unit}");
        }
    }
    let since = lab.now();
    for huge in [1e308, -1e308, f64::MAX, 75.001, -0.001] {
        let e = lab.move_to(&[("x", huge)]).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::OutOfTravel, Moved::No), "{huge}");
        let epoch = lab.scope().epoch;
        let by = lab.by(&[("x", if huge.abs() < 100.0 { huge.signum() * 50.0 } else { huge })], epoch);
        let ticket = lab.begin_move(by).unwrap();
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::OutOfTravel, Moved::No), "{huge}");
    }
    assert_eq!(lab.lines_since(since), [] as [String; 0]);
}

#[test]
fn g37_noise_after_the_banner_and_an_error_nobody_asked_for_do_not_spoil_the_connection() {
    for noise in [vec![0xff; 30], [vec![0xff; 30], b"\r\n".to_vec()].concat()] {
        let mut s = Scripted::grbl(&stage_only(), HERE);
        s.say("Grbl 0.9a ['$' for help]\r\n");
        s.say(&noise);
        s.on("$I", "[0.9a.20150101:]\r\nok\r\n");
        s.on_after("$G", 5, "[G0 G54 G17 G21 G90 G94 M0 M5 M9 T0 F0. S0.]\r\nok\r\n");
        // It lands on the first questions.
        s.until("a first line", 3000, |s| s.heard_since(Duration::ZERO, "$").is_some());
        s.say("error: Expected command letter\r\n");
        s.until("connected", 4000, |s| s.scope().read_at.is_some());
        s.run_ms(100);
        assert!(s.scope().link.bad_frames >= u64::from(noise.len() > 30), "{:?}", s.scope().link);
        s.home().expect("the first real command is not failed by the stray error");
    }
    let mut s = Scripted::silent(&stage_only());
    s.say([0xff; 30]);
    s.until("told", 6000, |s| s.scope().activity == Activity::Offline);
    let fault = s.scope().fault.unwrap();
    assert_eq!(fault.code, Code::NotResponding);
    assert!(fault.what.contains("settings that are corrupt"), "{}", fault.what);
}

#[test]
fn g39_there_is_no_way_for_text_to_a_controller() {
    let lines = [
        "G20 G91 G1 X10 F100",
        "G90G21G0X5",
        "G1X5M5M3",
        "g0x5",
        "G 91",
        "(G91)",
        ";G91",
        "/G0X9",
        "G1X1G4P9",
        "x\rM3",
        "x\nM3 S1000",
        "x\u{18}",
        "x!",
        "x?",
        "$J=G91X1F1",
    ];
    let mut s = homed();
    let since = s.now();
    for line in lines {
        // Where a caller names something, a line is hardly a name; and where one is, it names nothing.
        assert!(!Name::is_valid(line) || line == "g0x5", "{line:?}");
        let aim = Aim::To(vec![(Name::new(line), Position::ZERO)]);
        let plan = Sequence::movement(line.into(), Move { stage: Name::new("scope"), aim });
        let ticket = s.start(plan).unwrap();
        let e = s.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::NotFound, Moved::No), "{line:?}");
        // Nor does the rig file carry one to the wire.
        let quoted = serde_json::to_string(line).unwrap();
        for (key, other) in [
            ("unit = \"mm\"", format!("unit = \"mm\"\nchannel = {quoted}")),
            ("[stage.axes.x]", format!("[stage.axes.{quoted}]")),
        ] {
            let text = stage_only().replacen("@SCOPE@", "/dev/x", 1).replacen(key, &other, 1);
            let read = config::parse(&text, std::path::Path::new("t.toml"), &devices::known());
            let harmless = read.is_ok_and(|rig| rig.stages[0].axes.iter().all(|a| a.channel.len() == 1));
            assert!(!harmless || line == "g0x5", "{other}");
        }
    }
    let questions = s.heard.iter().filter(|(t, _)| *t >= since).all(|(_, h)| h == b"?");
    assert!(questions, "{:?}", s.heard);
}

#[test]
fn g40_only_a_positive_acknowledgement_is_success() {
    let cases: [(&str, &[u8]); 8] = [
        ("an empty reply", b""),
        ("an empty line", b"\r\n"),
        ("an error", b"error:8\r\n"),
        ("an error that is not in the list", b"error:250\r\n"),
        ("another word", b"okay\r\n"),
        ("information", b"[MSG:ok]\r\n"),
        ("an ok that is cut off", b"o"),
        ("a refusal from in between", b"HTTP/1.1 400 not idle\r\n"),
    ];
    for (what, says) in cases {
        let mut s = homed();
        s.on("$J", says);
        let ticket = s.moving(&[("x", 41.0)]);
        // Even if it stands where it was to go.
        s.stands("Idle", [-34.0, -25.0, -2.0]);
        let e = s.answer(ticket).expect_err(what);
        assert!(matches!(e.code, Code::ControllerRefused | Code::NotResponding), "{what}: {e}");
        let mut s = homed();
        s.on("$H", says);
        s.home().expect_err(what);
    }
    // The link takes a part, or breaks.
    let mut s = homed();
    let ticket = s.begin_move(&[("x", 41.0)]);
    s.far.bound(Some(3));
    s.run_ms(50);
    s.far.bound(Some(0));
    assert!(s.answer(ticket).is_err());
    let mut s = homed();
    let ticket = s.moving(&[("x", 41.0)]);
    s.far.plug(false);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Unplugged, Moved::Unknown));
    // It says ok and does nothing.
    let mut s = homed();
    let ticket = s.moving(&[("x", 41.0)]);
    assert_eq!(s.answer(ticket).unwrap_err().code, Code::Stalled);
}

#[test]
fn g40_a_homing_is_over_when_it_is_read_at_rest_and_not_when_the_controller_says_so() {
    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.online();
    let mut ticket = s.begin_home();
    s.run_ms(1000);
    s.on("?", "");
    s.run_ms(1000);
    assert!(answer_of(&mut ticket).is_none(), "it has said ok, and nobody has read where it is");
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    s.stands("Idle", HERE);
    s.answer(ticket).expect("it rests");
    assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Referenced));
}

#[test]
fn g40_an_ok_to_a_homing_that_did_not_take_place_is_no_success() {
    let settings = "$13=0\r\n$27=1.000\r\n$100=400.000\r\n$130=75.000\r\n$131=50.000\r\n$132=4.000\r\nok\r\n";
    let cases: [(&str, u64, &str); 4] = [
        // Letters were lost: `$` alone is answered with help, and an empty line with an ok.
        ("help", 400, "[HLP:$$ $# $G $I $N $x=val $Nx=line $J=line $SLP $C $X $H ~ ! ? ctrl-x]\r\nok\r\n"),
        ("at once", 5, "ok\r\n"),
        // And however it came about: GRBL stands at its switches after homing.
        ("not at a switch", 1500, "ok\r\n"),
        ("at the switches", 1500, "ok\r\n"),
    ];
    for (what, after, says) in cases {
        let mut s = Scripted::grbl(&stage_only(), HERE);
        s.on("$$", settings);
        s.online();
        s.on_after("$H", after, says);
        if what == "at the switches" {
            s.stands("Idle", [-1.0, -1.0, -1.0]);
            s.home().expect(what);
            assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Referenced));
            continue;
        }
        let e = s.home().expect_err(what);
        assert_eq!(e.code, Code::HomingFailed, "{what}: {e}");
        assert!(s.scope().axes.iter().all(|a| a.trust == Trust::Unknown), "{what}");
    }
}
