//! Public bug reports about serial lines as small inputs: each test is named after its case in `cases.toml`.
//! R12 and R13 are about the port's builder and stand beside it, in `devices::link::serial`.

mod support;

use std::path::Path;
use std::time::Duration;

use steadyhand::config;
use steadyhand::devices;
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
    assert_eq!((scope.activity, scope.fault), (Activity::Idle, None));
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
#[test]
fn r13_rates_that_the_port_runs_at_are_accepted() {
    use hw_sim::serve::{Options, Running};
    use steadyhand::devices::link::connector;
    use steadyhand::model::{Name, Time};

    let running = Running::start(hw_sim::Bench::microscope(1), Options::default()).expect("a bench");
    let path = running.paths().into_iter().find(|(device, _)| device == "scope").expect("a port").1;
    for baud in [115_200, 250_000, 921_600] {
        let port = config::Port::Path(path.clone());
        let link = config::Link { id: Name::new("a"), port, baud, dtr: None, rts: None };
        let mut opening = connector(&link);
        opening.begin(Time::ZERO);
        let started = std::time::Instant::now();
        let outcome = loop {
            if let Some(outcome) = opening.outcome() {
                break outcome;
            }
            assert!(started.elapsed() < Duration::from_secs(10), "opening a port never hangs");
            std::thread::yield_now();
        };
        outcome.map(drop).unwrap_or_else(|e| panic!("{baud}: {e}"));
    }
    running.stop();
}

#[test]
fn r16_timeouts_that_are_no_sensible_time_are_refused_by_name_and_never_panic() {
    let demo = DEMO.replace("@SCOPE@", "/dev/a").replace("@CAM@", "127.0.0.1:1");
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
