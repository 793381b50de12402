//! Each error code has a test that provokes it: here those that no other file is about, and a test that none is left
//! out.

mod support;

use std::path::Path;
use std::time::Duration;

use hw_sim::Bench;
use steadyhand::model::{Code, Moved, StopBy};
use support::scripted::Scripted;
use support::{DEMO, Lab, stage_only};

const HERE: [f64; 3] = [-35.0, -25.0, -2.0];

fn homed() -> Scripted {
    Scripted::homed(&stage_only(), HERE)
}

#[test]
fn wrong_direction_is_stopped_and_latched() {
    let mut s = homed();
    let since = s.now();
    let ticket = s.moving(&[("x", 50.0)]);
    s.stands("Jog", [-37.0, -25.0, -2.0]);
    s.until("a stop on the wire", 1000, |s| s.heard_since(since, [0x85]).is_some());
    s.stands("Idle", [-37.5, -25.0, -2.0]);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::WrongDirection, Moved::Yes));
    assert_eq!(s.scope().fault.unwrap().code, Code::WrongDirection);
    assert_eq!(s.move_to(&[("x", 50.0)]).unwrap_err().code, Code::Faulted);
}

#[test]
fn too_long_is_a_motion_that_creeps_on_and_is_stopped() {
    let mut s = homed();
    let since = s.now();
    let ticket = s.moving(&[("x", 50.0)]);
    let mut x = -35.0;
    s.until("a stop on the wire", 60_000, |s| {
        // Always a little nearer: no stall, and no arrival.
        x += 0.01;
        s.stands("Jog", [x, -25.0, -2.0]);
        s.heard_since(since, [0x85]).is_some()
    });
    s.stands("Idle", [x, -25.0, -2.0]);
    let e = s.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::TooLong, Moved::Yes), "{e}");
}

#[test]
fn stale_refuses_a_motion_when_the_controller_gives_no_reading() {
    let mut s = homed();
    s.on("?", "");
    s.until("an old reading", 3000, |s| {
        s.scope().read_at.is_some_and(|at| s.now() > at.0 + Duration::from_millis(1100))
    });
    let since = s.now();
    let e = s.move_to(&[("x", 41.0)]).unwrap_err();
    assert!(e.code == Code::Stale && e.moved == Moved::No, "{e}");
    assert!(s.heard_since(since, "$J").is_none());
}

#[test]
fn stop_not_sent_is_told_when_the_line_takes_no_byte() {
    let mut s = homed();
    let ticket = s.moving(&[("x", 50.0)]);
    s.far.bound(Some(0));
    s.stop();
    let e = s.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::StopNotSent, Moved::Unknown), "{e}");
    assert_eq!(s.scope().fault.unwrap().code, Code::StopNotSent);
    assert_eq!(s.scope().stopped_by, Some(StopBy::Model));
}

#[test]
fn expired_is_an_order_that_waited_too_long_for_its_turn_and_it_never_runs() {
    let mut lab = Lab::new(
        &format!(
            "{DEMO}
[calls]
queue_deadline_s = 0.5
"
        ),
        Bench::microscope(1),
    );
    lab.online();
    lab.home().unwrap();
    let first = lab.to(&[("x", 5.0)]);
    let first = lab.begin_move(first).unwrap();
    let second = lab.to(&[("x", 30.0)]);
    let second = lab.begin_move(second).unwrap();
    let e = lab.answer(second).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Expired, Moved::No));
    let first = lab.answer(first);
    lab.run_ms(3000);
    assert!((lab.reads("x") - 5.0).abs() < 0.05, "{first:?}");
}

#[test]
fn shutting_down_takes_no_order_any_more() {
    let mut lab = Lab::homed(1);
    let away = lab.to(&[("x", 5.0)]);
    let moving = lab.begin_move(away.clone()).unwrap();
    lab.run_ms(500);
    lab.stop();
    lab.run_ms(1);
    let ended = lab.handle.shutdown(&lab.caller).unwrap();
    lab.run_ms(1);
    let late = lab.begin_move(away).unwrap();
    let e = lab.answer(late).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ShuttingDown, Moved::No));
    assert_eq!(lab.answer(moving).unwrap_err().code, Code::Stopped);
    lab.answer(ended).unwrap();
}

/// The text of every file under a folder of this repository, or from its first test on for a file of the program.
fn tests_under(folder: &Path, program: bool, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')) {
            tests_under(&path, program, all);
        } else if path.extension().is_some_and(|e| e == "rs" || e == "py") {
            let text = std::fs::read_to_string(&path).unwrap();
            let from =
                if program && !path.ends_with("tests.rs") { text.find("#[cfg(test)]\nmod tests") } else { Some(0) };
            all.push_str(from.map_or("", |at| &text[at..]));
        }
    }
}

#[test]
fn no_code_is_left_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    tests_under(&root.join("tests"), false, &mut all);
    tests_under(&root.join("src"), true, &mut all);
    let asserts = |code: Code| {
        let ways = [format!("Code::{code:?}"), format!("[{code}]"), format!("\"{code}\"")];
        all.lines().any(|l| l.contains("assert") && ways.iter().any(|w| l.contains(w)))
    };
    let missing: Vec<String> = Code::ALL.iter().filter(|c| !asserts(**c)).map(|c| c.to_string()).collect();
    assert!(missing.is_empty(), "no test asserts {missing:?}");
}
