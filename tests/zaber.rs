//! The Zaber driver before scripted devices on a chain: what is asked, what is believed, and what is never sent.

mod support;

use std::time::Duration;

use steadyhand::model::{Activity, Code, Moved, Name, Source, StopBy, Trust};
use support::chain::{CHAIN, Chain, Device, Instead};

fn trust(c: &Chain, stage: &str, axis: &str) -> Trust {
    c.s.stage(stage).axis(axis).unwrap().trust
}

fn at(c: &Chain, stage: &str, axis: &str) -> f64 {
    c.s.stage(stage).axis(axis).unwrap().position.expect("a position").in_base()
}

#[test]
fn two_stages_on_one_chain_are_identified_homed_and_moved() {
    let mut c = Chain::new();
    c.online();
    let identity = c.s.scope().identity.unwrap();
    assert_eq!(identity.serial, "101, 202");
    assert!(identity.firmware.contains("7.35") && identity.model.contains("50081"), "{identity:?}");
    assert_eq!(trust(&c, "scope", "x"), Trust::Unknown);
    assert_eq!(c.go("scope", &[("x", 5.0)]).unwrap_err().code, Code::NotReferenced);

    let since = c.s.now();
    c.home("scope").unwrap();
    let homes: Vec<String> = c.heard(since).into_iter().filter(|h| h.contains("home")).collect();
    assert_eq!(homes, ["2 1 home", "1 1 home"], "in the order of the rig file, one after the other");
    assert_eq!((trust(&c, "scope", "x"), trust(&c, "focus", "z")), (Trust::Referenced, Trust::Unknown));
    c.home("focus").unwrap();

    let since = c.s.now();
    let report = c.go("scope", &[("x", 12.5), ("y", 40.0)]).unwrap();
    assert_eq!(report.moved, Moved::Yes);
    assert_eq!((at(&c, "scope", "x"), at(&c, "scope", "y")), (12.5, 40.0));
    // 10 mm/s are 10,000 counts a second; the wire speaks of 1/1.6384 of that.
    let moves: Vec<String> = c.heard(since).into_iter().filter(|h| h.contains("move")).collect();
    assert_eq!(moves, ["1 1 move abs 12500 16384", "2 1 move abs 10000 16384"]);
    assert_eq!(c.s.scope().axis("x").unwrap().source, Source::Counter);
}

#[test]
fn two_stages_of_a_chain_move_at_the_same_time() {
    let mut c = Chain::homed();
    let a = c.moving("scope", &[("x", 10.0)]);
    let b = c.moving("focus", &[("z", 5.0)]);
    assert_eq!((c.s.scope().activity, c.s.stage("focus").activity), (Activity::Moving, Activity::Moving));
    assert_eq!((c.s.answer(a).unwrap().moved, c.s.answer(b).unwrap().moved), (Moved::Yes, Moved::Yes));
}

#[test]
fn a_stop_of_one_stage_leaves_the_others_of_the_chain_alone() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(4);
    let a = c.moving("scope", &[("x", 10.0), ("y", 20.0)]);
    let b = c.moving("focus", &[("z", 5.0)]);
    let since = c.s.now();
    c.s.handle.stop(Some(&Name::new("scope")), StopBy::Model);
    let e = c.s.answer(a).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
    let stops: Vec<String> = c.heard(since).into_iter().filter(|h| h.contains("stop")).collect();
    assert_eq!(stops, ["1 1 stop", "2 1 stop"], "each once, and no other axis");
    assert_eq!(c.s.answer(b).unwrap().moved, Moved::Yes);
    assert_eq!(trust(&c, "scope", "x"), Trust::Referenced, "a stop loses no position");
}

#[test]
fn all_stops_are_on_the_wire_before_anything_else() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(4);
    let _a = c.moving("scope", &[("x", 10.0), ("y", 20.0)]);
    let _b = c.moving("focus", &[("z", 5.0)]);
    let since = c.s.now();
    c.s.handle.stop(None, StopBy::Model);
    c.s.run_ms(50);
    let heard = c.heard(since);
    assert_eq!(heard[..3], ["1 1 stop", "2 1 stop", "2 2 stop"], "{heard:?}");
}

#[test]
fn a_stop_that_finds_a_full_line_goes_out_whole_when_there_is_room() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(4);
    let a = c.moving("scope", &[("x", 10.0)]);
    let b = c.moving("focus", &[("z", 5.0)]);
    // Room for the first half of the first stop.
    c.s.far.bound(Some(7));
    let since = c.s.now();
    c.s.handle.stop(None, StopBy::Model);
    c.s.run_ms(5);
    c.s.far.bound(None);
    c.s.run_ms(300);
    for stop in ["1 1 stop", "2 1 stop", "2 2 stop"] {
        assert!(c.count(since, stop) >= 1, "{stop}: {:?}", c.heard(since));
    }
    assert_eq!(c.s.answer(a).unwrap_err().code, Code::Stopped);
    assert_eq!(c.s.answer(b).unwrap_err().code, Code::Stopped);
}

#[test]
fn a_stop_whose_acknowledgement_is_lost_is_sent_again() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(4);
    let a = c.moving("scope", &[("x", 10.0)]);
    c.instead("1 1 stop", Instead::Nothing, 2);
    let since = c.s.now();
    c.s.stop();
    assert_eq!(c.s.answer(a).unwrap_err().code, Code::Stopped);
    assert_eq!(c.count(since, "1 1 stop"), 3);
}

#[test]
fn a_refused_axis_stops_those_that_had_begun_and_says_which() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(4);
    c.instead("2 1 move", Instead::Refuse("BADDATA"), 1);
    let since = c.s.now();
    let e = c.go("scope", &[("x", 10.0), ("y", 20.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ControllerRefused, Moved::Yes), "{e}");
    assert!(e.what.contains("scope.y (2.1) said BADDATA, a value is out of range"), "{e}");
    assert!(e.what.contains("scope.x (1.1) had begun to move and was stopped"), "{e}");
    assert!(c.count(since, "1 1 stop") == 1 && c.count(since, "2 1 move") == 1, "never again: {:?}", c.heard(since));

    let e = {
        c.instead("1 1 move", Instead::Refuse("PARKED"), 1);
        c.go("scope", &[("x", 10.0), ("y", 20.0)]).unwrap_err()
    };
    assert_eq!((e.code, e.moved), (Code::ControllerRefused, Moved::No));
    assert!(e.what.contains("PARKED, the axis is parked"), "{e}");
}

#[test]
fn a_move_that_is_not_answered_is_stopped_and_never_sent_again() {
    let mut c = Chain::homed();
    c.instead("1 1 move", Instead::Nothing, 1);
    let since = c.s.now();
    let e = c.go("scope", &[("x", 10.0)]).unwrap_err();
    assert_eq!(e.code, Code::NotResponding, "{e}");
    assert_eq!((c.count(since, "1 1 move"), c.count(since, "1 1 stop")), (1, 1));
    // Nothing moved, and the position is as good as before.
    assert_eq!((e.moved, trust(&c, "scope", "x")), (Moved::No, Trust::Referenced));
    c.go("scope", &[("x", 10.0)]).unwrap();
}

/// Z01: only the reply of the right device, axis and number completes a command.
#[test]
fn z01_alerts_infos_and_other_devices_replies_complete_nothing() {
    let mut c = Chain::homed();
    for (i, (line, summed)) in [
        ("!01 1 IDLE --", false),
        ("#01 0 info text", false),
        ("@02 1 {id} RJ IDLE -- BADDATA", true),
        ("@01 0 {id} RJ IDLE -- BADDATA", true),
        ("@01 1 RJ IDLE -- BADDATA", true),
        ("@01 1 99 RJ IDLE -- BADDATA", true),
        // Without the checksum that this device is known to send.
        ("@01 1 {id} RJ IDLE -- BADDATA", false),
    ]
    .into_iter()
    .enumerate()
    {
        let to = if i % 2 == 0 { 15.0 } else { 5.0 };
        c.instead("1 1 move", Instead::After(line, summed), 1);
        assert_eq!(c.go("scope", &[("x", to)]).unwrap_or_else(|e| panic!("{line}: {e}")).moved, Moved::Yes, "{line}");
        assert_eq!(at(&c, "scope", "x"), to);
    }
    assert_eq!(c.s.scope().link.bad_frames, 1);
    let events = c.s.log.events.lock();
    assert!(events.iter().any(|e| e.what.contains("Address 1 says: info text")), "words are logged");
}

/// Z03: what is missing is told by name; who is where is asked anew after each reconnect.
#[test]
fn z03_a_missing_device_is_told_by_name_and_a_renumbered_one_is_not_moved() {
    let mut c = Chain::homed();
    c.device(1, |d| d.present = false);
    c.s.until("told", 10_000, |s| s.scope().fault.is_some());
    let fault = c.s.scope().fault.unwrap();
    assert_eq!(fault.code, Code::NotResponding);
    assert!(fault.what.contains("Address 1 (scope.x)") && fault.what.contains("2 does"), "{}", fault.what);
    assert_eq!(c.go("scope", &[("x", 1.0)]).unwrap_err().code, Code::NotConnected);
    // The other stage of the chain goes on.
    assert_eq!(c.go("focus", &[("z", 1.0)]).unwrap().moved, Moved::Yes);
    let told = c.s.log.events.lock().iter().filter(|e| e.kind == "lost").count();
    c.s.run_ms(20_000);
    let again = c.s.log.events.lock().iter().filter(|e| e.kind == "lost").count();
    assert_eq!(told, again, "it is logged once");

    // The power comes back, and the two are at each other's address.
    c.device(1, |d| d.present = true);
    c.s.far.plug(false);
    c.s.run_ms(100);
    {
        let mut devices = c.devices.lock();
        let (a, b) = (devices.at.remove(&1).unwrap(), devices.at.remove(&2).unwrap());
        devices.at = [(1, b), (2, a)].into();
    }
    c.s.far.plug(true);
    c.s.until("told", 10_000, |s| s.scope().fault.is_some_and(|f| f.what.contains("serial number")));
    let fault = c.s.scope().fault.unwrap();
    assert!(fault.what.contains("101 was") && fault.what.contains("serial number 202 answers"), "{}", fault.what);
    let since = c.s.now();
    assert_eq!(c.go("scope", &[("x", 1.0)]).unwrap_err().code, Code::NotConnected);
    assert_eq!(c.count(since, "1 1 move"), 0);
}

#[test]
fn z03_replies_that_are_no_numbers_are_no_positions() {
    let mut c = Chain::homed();
    for bad in ["BADCOMMAND", "12x", "1e5", "NA"] {
        c.axis(1, 1, |a| drop(a.settings.insert("encoder.pos", bad.into())));
        c.s.far.plug(false);
        c.s.run_ms(50);
        c.s.far.plug(true);
        c.s.until("back", 10_000, |s| s.scope().read_at.is_some() && s.scope().fault.is_none());
        assert_eq!(c.s.scope().axis("x").unwrap().source, Source::Counter, "{bad} is no encoder");
    }
}

/// Z04: whether it homes is what the device says, and no file knows whether it is homed.
#[test]
fn z04_homing_ends_with_the_first_idle_and_is_read_anew_after_a_restart() {
    let mut c = Chain::homed();
    assert_eq!(trust(&c, "scope", "x"), Trust::Referenced);
    // The device loses its reference while nobody looks.
    c.s.far.plug(false);
    c.s.run_ms(100);
    c.axis(1, 1, |a| a.flags = vec!["WR"]);
    c.s.far.plug(true);
    c.s.until("back", 10_000, |s| s.scope().read_at.is_some() && s.scope().fault.is_none());
    assert_eq!(trust(&c, "scope", "x"), Trust::Unknown);
    let notes = c.s.scope().identity.unwrap().notes.join("\n");
    assert!(notes.contains("scope.x (1.1) says WR, no reference position"), "{notes}");
    let since = c.s.now();
    c.home("scope").unwrap();
    assert_eq!(c.count(since, "1 1 home"), 1);
    assert_eq!(trust(&c, "scope", "x"), Trust::Referenced);
}

/// Z06: faults fail the move, warnings don't; the position decides.
#[test]
fn z06_what_a_move_ends_with() {
    let end = |flags: Vec<&'static str>, off: f64| {
        let mut c = Chain::homed();
        c.axis(1, 1, |a| a.ends = (flags, off));
        let outcome = c.go("scope", &[("x", 10.0)]);
        (c, outcome.map(|r| r.moved).map_err(|e| (e.code, e.what)))
    };
    let logged = |c: &Chain, words: &str| c.s.log.events.lock().iter().any(|e| e.what.contains(words));

    let (mut c, done) = end(vec![], 0.0);
    assert_eq!(done, Ok(Moved::Yes));
    c.go("scope", &[("x", 20.0)]).unwrap();

    for (flag, words) in [("WL", "WL, unexpected limit trigger"), ("WT", "WT, controller temperature high")] {
        let (mut c, done) = end(vec![flag], 0.0);
        assert_eq!(done, Ok(Moved::Yes), "{flag}");
        assert!(logged(&c, words));
        c.go("scope", &[("x", 20.0)]).expect("without clearing anything");
    }
    let (mut c, done) = end(vec!["WL"], -3000.0);
    let (code, what) = done.unwrap_err();
    assert_eq!(code, Code::MissedTarget, "{what}");
    assert!(what.contains("7 mm") && logged(&c, "WL, unexpected limit trigger"), "{what}");
    c.go("scope", &[("x", 20.0)]).expect("without clearing anything");

    let (mut c, done) = end(vec!["NI"], -3000.0);
    let (code, what) = done.unwrap_err();
    assert!(code == Code::Stopped && what.contains("NI, movement interrupted"), "{code} {what}");
    assert_eq!(trust(&c, "scope", "x"), Trust::Referenced);
    c.go("scope", &[("x", 20.0)]).expect("without clearing anything");
    let (_, done) = end(vec!["NI"], 0.0);
    assert_eq!(done, Ok(Moved::Yes), "it was at its target all the same");

    let (mut c, done) = end(vec!["FS"], -3000.0);
    assert_eq!(done.unwrap_err().0, Code::Stalled);
    assert_eq!(trust(&c, "scope", "x"), Trust::Unknown);
    assert_eq!(c.go("scope", &[("x", 20.0)]).unwrap_err().code, Code::Faulted);
    c.s.recover().unwrap();
    c.home("scope").unwrap();
    c.go("scope", &[("x", 20.0)]).unwrap();

    let (mut c, done) = end(vec!["FF"], 0.0);
    let (code, what) = done.unwrap_err();
    assert!(code == Code::Alarm && what.contains("FF, critical system error"), "{code} {what}");
    assert!(c.s.recover().is_err(), "what the device says still stands");

    // A reference that is gone is a restart of the device, wherever it stands.
    let (c, done) = end(vec!["WR"], 0.0);
    assert_eq!(done.unwrap_err().0, Code::ControllerReset);
    assert_eq!(trust(&c, "scope", "x"), Trust::Unknown);
}

/// Z07: another protocol or baud rate is said so, and nothing is written to change it.
#[test]
fn z07_a_device_in_the_binary_protocol_is_told_and_left_alone() {
    let mut c = Chain::with(CHAIN, []);
    let binary = |c: &mut Chain| c.s.say([0x01, 0x33, 0, 0, 0, 0]);
    for _ in 0..40 {
        binary(&mut c);
        c.s.run_ms(100);
    }
    let fault = c.s.scope().fault.unwrap();
    assert_eq!(fault.code, Code::NotResponding);
    assert!(fault.what.contains("baud rate") && fault.what.contains("binary protocol"), "{}", fault.what);
    // The peer panics on `set` and `tools`; these were asked for nothing but who they are.
    assert!(c.heard(Duration::ZERO).iter().all(|h| h.contains("get system.serial")), "{:?}", c.heard(Duration::ZERO));
    let mut silent = Chain::with(CHAIN, []);
    silent.s.until("told", 5000, |s| s.scope().fault.is_some());
}

/// Z08: a position is as new as its question; after a move it is read anew.
#[test]
fn z08_the_position_after_a_move_is_the_position_after_the_move() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(2);
    let a = c.moving("scope", &[("x", 10.0)]);
    let scope = c.s.scope();
    assert_eq!(scope.activity, Activity::Moving);
    assert!(0.0 < at(&c, "scope", "x") && at(&c, "scope", "x") < 10.0);
    c.s.answer(a).unwrap();
    assert_eq!(at(&c, "scope", "x"), 10.0);
    let a = c.begin("scope", &[("x", 4.0)]);
    c.s.answer(a).unwrap();
    assert_eq!(at(&c, "scope", "x"), 4.0);
    // One that comes late is nobody's.
    c.instead("1 1 get pos", Instead::Late(350), 1);
    c.s.run_ms(800);
    c.axis(1, 1, |a| a.at = 4010.0);
    c.s.run_ms(2000);
    assert_eq!(at(&c, "scope", "x"), 4.01);
}

#[test]
fn a_knob_is_told_and_costs_no_trust() {
    let mut c = Chain::homed();
    c.go("scope", &[("x", 10.0)]).unwrap();
    let now = c.s.now();
    c.axis(1, 1, |a| a.turn_knob(12_000.0, now, Duration::from_millis(1500)));
    c.s.run_ms(1000);
    assert_eq!(c.s.scope().activity, Activity::Moving);
    c.s.run_ms(1500);
    assert_eq!(c.s.scope().activity, Activity::Idle);
    assert_eq!((at(&c, "scope", "x"), trust(&c, "scope", "x")), (12.0, Trust::Referenced));
    assert!(c.s.log.events.lock().iter().any(|e| e.what.contains("NC, manual control")));
}

#[test]
fn a_device_that_restarts_at_rest_or_in_motion_is_noticed_by_its_missing_reference() {
    let mut c = Chain::homed();
    c.axis(2, 1, |a| (a.at, a.flags) = (0.0, vec!["WR"]));
    c.s.until("noticed", 3000, |s| s.scope().fault.is_some());
    assert_eq!(c.s.scope().fault.unwrap().code, Code::ControllerReset);
    assert_eq!((trust(&c, "scope", "y"), trust(&c, "focus", "z")), (Trust::Unknown, Trust::Referenced));
    c.s.until("identified anew", 3000, |s| s.scope().activity == Activity::Idle);
    c.s.recover().unwrap();
    c.home("scope").unwrap();
}

#[test]
fn a_restart_is_noticed_behind_a_warning_that_counts_for_more() {
    let mut c = Chain::homed();
    c.axis(2, 1, |a| a.flags = vec!["WT"]);
    c.s.run_ms(2000);
    assert_eq!((c.s.scope().fault, trust(&c, "scope", "y")), (None, Trust::Referenced));
    c.axis(2, 1, |a| a.flags = vec!["WT", "WR"]);
    c.s.until("noticed", 3000, |s| s.scope().fault.is_some_and(|f| f.code == Code::ControllerReset));
    assert_eq!(trust(&c, "scope", "y"), Trust::Unknown);
}

#[test]
fn old_firmware_moves_at_its_own_speed_or_not_at_all_and_is_never_set() {
    let mut c = Chain::new();
    c.device(1, |d| d.version = "6.28");
    c.axis(1, 1, |a| drop(a.settings.insert("maxspeed", "16384".into())));
    c.online();
    let notes = c.s.scope().identity.unwrap().notes.join("\n");
    assert!(notes.contains("takes no speed with a move"), "{notes}");
    c.home("scope").unwrap();
    let since = c.s.now();
    c.go("scope", &[("x", 10.0)]).unwrap();
    let heard = c.heard(since);
    assert!(heard.contains(&"1 1 get maxspeed".into()) && heard.contains(&"1 1 move abs 10000".into()), "{heard:?}");
    // Somebody makes it faster than the rig file allows.
    c.axis(1, 1, |a| drop(a.settings.insert("maxspeed", "40000".into())));
    let since = c.s.now();
    let e = c.go("scope", &[("x", 20.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Unsupported, Moved::No));
    assert!(e.what.contains("24.4") && e.what.contains("10 mm/s") && e.what.contains("lower `maxspeed`"), "{e}");
    assert_eq!(c.count(since, "1 1 move"), 0);
}

#[test]
fn a_channel_that_the_device_does_not_have_is_told() {
    let mut c = Chain::with(CHAIN, [(1, Device::new(101, 2)), (2, Device::new(202, 1))]);
    c.s.until("both told", 5000, |s| s.scope().fault.is_some() && s.stage("focus").fault.is_some());
    let scope = c.s.scope().fault.unwrap().what;
    assert!(scope.contains("has 2 axes") && scope.contains("channel = \"1.1\""), "{scope}");
    let focus = c.s.stage("focus").fault.unwrap().what;
    assert!(focus.contains("focus.z (2.2) isn't there"), "{focus}");
}

#[test]
fn an_encoder_is_read_where_there_is_one() {
    let mut c = Chain::new();
    c.axis(1, 1, |a| drop(a.settings.insert("encoder.pos", "7".into())));
    c.online();
    assert_eq!(c.s.scope().axis("x").unwrap().source, Source::Encoder);
    assert_eq!(c.s.scope().axis("y").unwrap().source, Source::Counter);
    assert_eq!(at(&c, "scope", "x"), 0.007);
}

#[test]
fn a_damaged_chain_loses_frames_and_no_truth() {
    let mut c = Chain::homed();
    c.go("scope", &[("x", 10.0)]).unwrap();
    for round in 0..50_u8 {
        c.s.say([round, 0xff, b'@', b'0', b'1', b' ', round]);
        c.s.say("@01 1 OK IDLE -- 99999\r\n");
        c.s.run_ms(100);
        assert_eq!(at(&c, "scope", "x"), 10.0);
    }
    assert!(c.s.scope().link.bad_frames > 50);
    assert_eq!((c.s.scope().fault, trust(&c, "scope", "x")), (None, Trust::Referenced));
}

#[test]
fn a_failed_homing_is_no_reference() {
    for (flags, words) in [(vec!["FS"], "FS, stalled"), (vec!["WR"], "WR, no reference"), (vec!["FQ"], "FQ, encoder")] {
        let mut c = Chain::new();
        c.online();
        c.axis(2, 1, |a| a.ends = (flags, 0.0));
        let since = c.s.now();
        let e = c.home("scope").unwrap_err();
        assert_eq!(e.code, Code::HomingFailed, "{e}");
        assert!(e.what.contains("scope.y (2.1)") && e.what.contains(words), "{e}");
        assert_eq!(c.count(since, "1 1 home"), 0, "the next axis is not homed after that");
        assert_eq!(trust(&c, "scope", "y"), Trust::Unknown);
    }
}

#[test]
fn a_homing_that_is_not_answered_is_stopped() {
    let mut c = Chain::new();
    c.online();
    c.instead("2 1 home", Instead::Nothing, 1);
    let since = c.s.now();
    let e = c.home("scope").unwrap_err();
    assert_eq!(e.code, Code::HomingFailed, "{e}");
    assert_eq!((c.count(since, "2 1 home"), c.count(since, "2 1 stop")), (1, 1));
    assert_eq!(trust(&c, "scope", "y"), Trust::Unknown);
}

#[test]
fn an_unplugged_chain_comes_back_without_trust_and_what_moved_is_stopped_first() {
    let mut c = Chain::homed();
    c.devices.lock().takes = Duration::from_secs(10);
    let a = c.moving("scope", &[("x", 10.0)]);
    c.s.far.plug(false);
    let e = c.s.answer(a).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Unplugged, Moved::Unknown));
    assert_eq!((c.s.scope().activity, c.s.stage("focus").activity), (Activity::Offline, Activity::Offline));
    let since = c.s.now();
    c.s.far.plug(true);
    c.online();
    c.s.run_ms(500);
    let heard = c.heard(since);
    assert_eq!(heard[..2], ["1 1 stop", "2 1 stop"], "before anything is asked: {heard:?}");
    assert_eq!(trust(&c, "scope", "x"), Trust::Unknown);
}
