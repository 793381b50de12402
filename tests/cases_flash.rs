//! Public bug reports about writing settings, each a test named after its id, against a controller of a few lines.

mod cases_flash_peer;

use std::path::Path;
use std::time::Duration;

use cases_flash_peer::Peer;
use steadyhand::devices::settings::{Order, SettingsEvent};
use steadyhand::flash::Hands;
use steadyhand::flash::plan::plan;
use steadyhand::flash::profile::{Read, keeping};
use steadyhand::flash::run::{Outcome, Run};

const LISTED: [(&str, &str); 5] =
    [("$100", "250.000"), ("$101", "250.000"), ("$102", "250.000"), ("$103", "250.000"), ("$110", "300.000")];

fn wanted(settings: &str) -> Read {
    let text = format!("[profile]\nname = \"a\"\nsource = \"b\"\ndriver = \"grbl\"\n[settings]\n{settings}\n");
    Read::parse(&text, Path::new("p.toml")).unwrap_or_else(|p| panic!("{}", p.render(false)))
}

/// A whole run against a peer.
fn flashed(peer: &mut Peer, settings: &str) -> Outcome {
    let keeping = keeping("grbl").expect("grbl");
    let SettingsEvent::Known(who) = peer.order(Order::Identify) else { panic!("not identified") };
    let SettingsEvent::Table(old) = peer.order(Order::Read) else { panic!("not read") };
    let plan =
        plan(&wanted(settings), keeping, &who, &old, None, &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    let mut run = Run::new(who, old, plan.new, keeping);
    peer.carry_out(&mut run)
}

#[test]
fn g13_bytes_that_are_lost_while_the_controller_stores_are_found_by_reading_back() {
    // It hears nothing for 50 ms after each write: what would be sent meanwhile is cut.
    let mut peer = Peer::new(&LISTED).deaf_after_writes(Duration::from_millis(50));
    let outcome = flashed(&mut peer, "\"$101\" = 315\n\"$102\" = 315\n\"$103\" = 315");
    assert_eq!(outcome, Outcome::New { proved: true });
    assert_eq!(peer.stored("$103"), "315.000");

    // `$110=500` arrives as `$110=5`, and is answered with ok.
    let mut peer = Peer::new(&LISTED).cutting("$110=500.000", "$110=5", 1);
    let outcome = flashed(&mut peer, "\"$110\" = 500");
    let Outcome::Old { why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("$110 is 5.000, not 500.000"), "{why}");
    assert_eq!(peer.stored("$110"), "300.000");
}

#[test]
fn g16_a_list_of_settings_without_an_end_has_one_for_us() {
    let mut peer = Peer::new(&LISTED).looping();
    match peer.order(Order::Identify) {
        SettingsEvent::Unclear(why) => assert!(why.contains("can't be read") || why.contains("no end"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(peer.writes(), 0);
    // A banner in the middle of the list is a restart.
    let mut peer = Peer::new(&LISTED).restarting_in_lists();
    match peer.order(Order::Identify) {
        SettingsEvent::Unclear(why) => assert!(why.contains("restarted"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn g17_settings_that_this_build_does_not_have_or_refuses_are_told_and_nothing_after_an_alarm_is_sent() {
    let keeping = keeping("grbl").expect("grbl");
    let mut peer = Peer::new(&LISTED);
    let SettingsEvent::Known(who) = peer.order(Order::Identify) else { panic!("not identified") };
    let SettingsEvent::Table(old) = peer.order(Order::Read) else { panic!("not read") };
    let profile = wanted("\"$100\" = 100\n\"$170\" = 0\n\"$172\" = 0\n\"$370\" = 2");
    let told = plan(&profile, keeping, &who, &old, None, &[]).expect_err("refused").render(false);
    for name in ["$170", "$172", "$370"] {
        assert!(told.contains(&format!("the controller has no setting {name}")), "{told}");
    }
    assert_eq!(peer.writes(), 0);

    // It has it, and locks itself when it is written: what comes after it is not sent, and what came before is undone.
    let mut peer = Peer::new(&LISTED).alarming("$102=");
    let outcome = flashed(&mut peer, "\"$101\" = 100\n\"$102\" = 100\n\"$103\" = 100");
    let Outcome::Old { why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("ALARM:14"), "{why}");
    assert!(!peer.heard().contains("$103="), "{}", peer.heard());
    assert_eq!((peer.stored("$101"), peer.stored("$102")), ("250.000".into(), "250.000".into()));

    // One that refuses is told with its number.
    let mut peer = Peer::new(&LISTED).refusing("$102=", "error:52");
    let outcome = flashed(&mut peer, "\"$101\" = 100\n\"$102\" = 100");
    let Outcome::Old { why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("error:52 (value out of range)"), "{why}");
}

#[test]
fn g18_a_memory_that_failed_completes_no_write() {
    for said in
        ["error:7\r\n[MSG:Warning: Settings write failed!]\r\nok", "[MSG:Warning: Settings write failed!]\r\nok"]
    {
        let mut peer = Peer::new(&LISTED).saying("$101=", said);
        let outcome = flashed(&mut peer, "\"$101\" = 100");
        let Outcome::Old { why, .. } = outcome else { panic!("{outcome:?}") };
        assert!(why.contains("is not known"), "{why}");
        assert_eq!(peer.stored("$101"), "250.000");
    }
}

#[test]
fn m11_a_failure_in_words_before_the_ok_is_a_failure() {
    let echo = "echo:Error writing to EEPROM!\r\n".repeat(4);
    let mut peer = Peer::new(&LISTED).saying("$101=", &format!("{echo}ok"));
    let outcome = flashed(&mut peer, "\"$101\" = 100");
    let Outcome::Old { why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("Error writing to EEPROM"), "{why}");
}
