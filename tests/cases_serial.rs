//! Public bug reports about serial lines as small inputs: each test is named after its case in `cases.toml`.
//! R12 and R13 are about the port's builder and stand beside it, in `devices::link::serial`.

mod support;

use std::path::Path;
use std::time::Duration;

use steadyhand::config;
use steadyhand::devices;
use steadyhand::devices::link::memory::Far;
use steadyhand::model::{Activity, Code, Moved, Trust};
use support::scripted::Scripted;
use support::{DEMO, stage_only};

/// 40, 25, 2 mm in the rig's coordinates.
const HERE: [f64; 3] = [-35.0, -25.0, -2.0];

fn homed() -> Scripted {
    Scripted::homed(&stage_only(), HERE)
}

#[test]
fn r02_a_port_that_stays_open_and_says_nothing_is_told_and_a_stop_is_still_written() {
    let mut s = homed();
    let ticket = s.moving(&[("x", 41.0)]);
    s.mute = true;
    let since = s.now();
    let e = s.answer(ticket).unwrap_err();
    assert!(matches!(e.code, Code::NotResponding | Code::StopNotConfirmed) && e.moved == Moved::Unknown, "{e}");
    s.until("told", 10_000, |s| s.scope().fault.is_some_and(|f| f.code == Code::NotResponding));
    assert!(s.now() - since < Duration::from_secs(8), "{:?}", s.now() - since);
    assert_eq!(s.scope().activity, Activity::Offline);
    assert!(s.scope().link.open, "the port is as open as ever");
    s.run_ms(20_000);
    let asked = s.now();
    s.stop();
    s.until("the stop is written", 100, |s| s.heard_since(asked, [0x85]).is_some());
}

/// Bytes of all kinds, from a seed.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut x = seed | 1;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8
        })
        .collect()
}

#[test]
fn r06_noise_is_dropped_and_counted_and_every_reply_between_it_is_found() {
    let mut s = homed();
    for round in 0..256 {
        s.say(noise(round + 1, 4096));
        s.say([b"\xff\x2f\x46\x4c\x55\x35 \x00 ets Jul 29 2019 12:21:46\r\n".as_slice(), b"\r\n"].concat());
        let at = -35.0 + round as f64 / 100.0;
        s.stands("Idle", [at, -25.0, -2.0]);
        s.until("the reply is found", 3000, |s| s.reads("x").is_some_and(|x| (x - 75.0 - at).abs() < 1e-9));
        let link = s.scope().link;
        assert!(link.last_error.is_none_or(|e| !e.chars().any(char::is_control)), "nothing goes raw to a terminal");
    }
    let scope = s.scope();
    assert!(scope.link.bad_frames > 256, "{:?}", scope.link);
    assert_eq!(scope.activity, Activity::Idle);
    assert!(
        scope.fault.is_none_or(|f| f.code == Code::MovedByHand),
        "it is carried along without an order, and that is all"
    );
}

#[test]
fn r08_a_report_that_comes_late_keeps_its_age_and_answers_no_later_question() {
    let mut s = homed();
    s.run_ms(1000);
    // The next report comes 50 ms after it was given up, and says what was then.
    s.once_after("?", 550, "<Idle|MPos:-35.000,-25.000,-2.000|FS:0,0>\r\n");
    let since = s.now();
    s.until("the question whose answer is late", 1000, |s| s.heard_since(since, "?").is_some());
    let asked = s.heard_since(since, "?").unwrap();
    // Since then it has moved, by a hand at the controller.
    s.run_ms(100);
    let moved = s.now();
    s.on_after("?", 100, "<Idle|MPos:-34.990,-25.000,-2.000|FS:0,0>\r\n");
    while s.now() < asked + Duration::from_millis(3000) {
        s.run_ms(10);
        let scope = s.scope();
        if scope.read_at.is_some_and(|t| t.0 > moved) {
            assert_eq!(s.reads("x"), Some(40.01), "the old value is not sold as a new one");
        }
    }
    assert_eq!(s.reads("x"), Some(40.01));
}

#[test]
fn r08_an_ok_that_comes_late_is_not_the_next_commands() {
    // Before and after the line is found again.
    for late in [2050, 2130] {
        let mut s = homed();
        s.once_after("$J", late, "ok\r\n");
        // The one question of the resynchronisation is answered after that.
        s.once_after("$G", 100, "[GC:G0 G54 G17 G21 G90 G94 M5 M9 T0 F0 S0]\r\nok\r\n");
        let ticket = s.moving(&[("x", 41.0)]);
        s.on("$J", "error:8\r\n");
        let e = s.answer(ticket).unwrap_err();
        assert_eq!(e.code, Code::NotResponding, "{late}: {e}");
        let e = loop {
            let e = s.move_to(&[("x", 42.0)]).unwrap_err();
            if e.code != Code::Busy {
                break e;
            }
            s.run_ms(20);
        };
        assert_eq!((e.code, e.moved), (Code::ControllerRefused, Moved::No), "{late}: {e}");
        assert_eq!(s.scope().axis("x").unwrap().trust, Trust::Referenced);
    }
}

#[test]
fn r09_a_port_that_a_system_service_has_taken_is_asked_for_again_and_what_it_left_spoils_nothing() {
    let far = Far::default();
    far.take_away(Some("another program, ModemManager perhaps"));
    let mut s = Scripted::behind(&stage_only(), far.clone());
    s.speaks_grbl(HERE);
    s.run_ms(2000);
    // It is being connected, and the hint is there for those who ask.
    let scope = s.scope();
    assert_eq!((scope.activity, scope.fault), (Activity::Connecting, None));
    assert!(scope.link.last_error.unwrap().contains("ModemManager"));
    let e = s.home().unwrap_err();
    assert_eq!((e.code, e.moved), (Code::NotConnected, Moved::No));
    assert!(e.what.contains("in use by another program"), "{e}");
    // It lets go, and what the service had said is answered to us.
    far.take_away(None);
    s.until("it is open", 600, |_| far.opened() == 1);
    s.say("error:8\r\nerror:2\r\n");
    s.online();
    s.home().expect("the first command is not failed by a stray error");
}

#[test]
fn r09_a_port_that_stays_taken_is_told_after_fifteen_seconds_and_comes_back_whenever_it_is_free() {
    let far = Far::default();
    far.take_away(Some("another program"));
    let mut s = Scripted::behind(&stage_only(), far.clone());
    s.speaks_grbl(HERE);
    s.run_ms(14_000);
    assert_eq!(s.scope().fault, None);
    s.run_ms(2000);
    let scope = s.scope();
    assert_eq!((scope.activity, scope.fault.clone().map(|f| f.code)), (Activity::Offline, Some(Code::NotConnected)));
    assert!(scope.fault.unwrap().what.contains("in use by another program"));
    s.run_ms(60_000);
    far.take_away(None);
    s.until("it is known", 12_000, |s| s.scope().read_at.is_some());
    assert_eq!(s.scope().fault, None);
    // One that isn't there at all is told at once.
    let far = Far::default();
    far.plug(false);
    let mut s = Scripted::behind(&stage_only(), far);
    s.run_ms(100);
    assert_eq!(s.scope().fault.map(|f| f.code), Some(Code::NotConnected));
}

#[test]
fn r10_a_long_answer_may_take_its_time_as_long_as_it_flows() {
    let listing = |n: u16| {
        let lines = (0..n).map(|i| format!("[MSG:{i}: what a code means]\r\n"));
        lines.chain(["$13=0\r\n$100=400.000\r\nok\r\n".to_owned()]).collect::<Vec<_>>()
    };
    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.on("$$", "");
    s.until("asked for settings", 3000, |s| s.heard_since(Duration::ZERO, "$$").is_some());
    for line in listing(200) {
        s.say(&line);
        s.run_ms(20);
    }
    s.online();
    assert_eq!(s.scope().link.timeouts, 0);

    let mut s = Scripted::grbl(&stage_only(), HERE);
    s.on("$$", "");
    s.until("asked for settings", 3000, |s| s.heard_since(Duration::ZERO, "$$").is_some());
    for line in &listing(200)[..100] {
        s.say(line);
        s.run_ms(20);
    }
    s.run_ms(3000);
    let scope = s.scope();
    assert!(scope.read_at.is_none() && scope.link.timeouts > 0, "half a listing is none");
    assert!(scope.link.last_error.unwrap().contains("No answer"));
}

#[cfg(unix)]
mod real {
    use hw_sim::serve::{Options, Running};
    use steadyhand::devices::link::{Opened, connector};
    use steadyhand::model::{Name, Time};

    use super::*;

    /// What a bench serves a device on.
    fn place(running: &Running, device: &str) -> String {
        running.paths().into_iter().find(|(id, _)| id == device).expect("a device").1
    }

    fn opened(port: config::Port, baud: u32) -> Opened {
        let link = config::Link { id: Name::new("a"), port, baud, dtr: None, rts: None };
        let mut opening = connector(&link);
        opening.begin(Time::ZERO);
        let started = std::time::Instant::now();
        loop {
            if let Some(outcome) = opening.outcome() {
                return outcome;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "opening a port never hangs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn r13_rates_that_the_port_runs_at_are_accepted() {
        let running = Running::start(hw_sim::Bench::microscope(1), Options::default()).expect("a bench");
        let path = place(&running, "scope");
        for baud in [115_200, 250_000, 921_600] {
            opened(config::Port::Path(path.clone()), baud).map(drop).unwrap_or_else(|e| panic!("{baud}: {e}"));
        }
        running.stop();
    }

    #[test]
    fn r09_a_port_that_is_open_elsewhere_is_said_to_be_taken() {
        let running = Running::start(hw_sim::Bench::microscope(1), Options::default()).expect("a bench");
        let path = place(&running, "scope");
        let first = opened(config::Port::Path(path.clone()), 115_200).expect("free");
        let no = opened(config::Port::Path(path.clone()), 115_200).err().expect("it is open already");
        assert!(no.taken && no.what.contains("in use by another program"), "{no}");
        drop(first);
        assert!(opened(config::Port::Path(path), 115_200).is_ok());
        running.stop();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn r15_a_child_inherits_neither_port_nor_connection_nor_log() {
        use steadyhand::store::EventLog;

        let running = Running::start(hw_sim::Bench::microscope(1), Options::default()).expect("a bench");
        let (path, camera) = (place(&running, "scope"), place(&running, "cam"));
        let folder = tempfile::tempdir().unwrap();
        let here = |pid: &str| -> Vec<String> {
            let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
            entries.filter_map(|e| Some(std::fs::read_link(e.path()).ok()?.display().to_string())).collect()
        };
        let port = opened(config::Port::Path(path.clone()), 115_200).expect("a port");
        let address = camera.trim_start_matches("tcp://").to_owned();
        let connection = opened(config::Port::Tcp(address), 115_200).expect("a camera");
        let log = EventLog::open(folder.path()).unwrap();
        let node = std::fs::canonicalize(&path).unwrap().display().to_string();
        let ours = |all: &[String]| -> Vec<String> {
            let mine = |p: &&String| {
                **p == node || p.starts_with("socket:") || p.starts_with(&folder.path().display().to_string())
            };
            all.iter().filter(mine).cloned().collect()
        };
        let mine = ours(&here("self"));
        assert!(mine.contains(&node) && mine.iter().any(|p| p.contains("socket:")), "{mine:?}");
        assert!(mine.iter().any(|p| p.starts_with('/') && *p != node), "the log: {mine:?}");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let inherited = ours(&here(&child.id().to_string()));
        // The port is free again once we let go of it, however long the child lives.
        drop((port, connection, log));
        let again = opened(config::Port::Path(path), 115_200);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(inherited, [] as [String; 0]);
        assert!(again.is_ok(), "{:?}", again.err());
        running.stop();
    }
}

#[test]
fn r16_timeouts_that_are_no_sensible_time_are_refused_by_name_and_never_panic() {
    let demo = DEMO.replace("@SCOPE@", "/dev/a").replace("@CAM@", "127.0.0.1:1").replace("@IO@", "127.0.0.1:2");
    let parse = |text: &str| config::parse(text, Path::new("t.toml"), &devices::known());
    for bad in ["0", "-1", "1e-9", "1e18", "1e308", "-1e308", "nan", "inf", "\"5\"", "[5]", "true"] {
        let home = demo.replacen("timeout_s = 60", &format!("timeout_s = {bad}"), 1);
        let calls = ["wait_s", "max_wait_s", "queue_deadline_s", "fresh_ms"]
            .map(|key| (key, demo.replacen("[eaa]", &format!("[calls]\n{key} = {bad}\n[eaa]"), 1)));
        for (key, text) in [("timeout_s", home)].into_iter().chain(calls) {
            let problems = parse(&text).expect_err(&format!("{key} = {bad}"));
            assert!(problems.render(false).contains(key), "{}", problems.render(false));
        }
    }
    assert!(parse(&demo.replacen("[eaa]", "[calls]\nwait_s = 0.5\n[eaa]", 1)).is_ok());
}
