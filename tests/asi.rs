//! The ASI driver before the simulated controller: what is asked, what is believed, what is never sent, and the public
//! bug reports about such controllers.

mod support;

use std::path::Path;
use std::time::Duration;

use hw_sim::{ASI_TOML, Bench, Fault};
use steadyhand::model::{Activity, Code, Moved, Trust};
use steadyhand::{config, devices};
use support::Lab;

const RIG: &str = include_str!("../rigs/asi-xy.toml");

/// The rig of `rigs/asi-xy.toml`, its stage under the name that the lab knows, on a bench that may be changed.
fn lab(bench: impl FnOnce(String) -> String) -> Lab {
    let rig = RIG.replace("\"sample\"", "\"scope\"").replace("sample.", "scope.").replace("stage-port", "scope-port");
    let rig = rig.replace("serial = { usb = \"10c4:ea60\" }", "serial = \"/dev/virtual-asi\"");
    Lab::new(&rig, Bench::from_toml(&bench(ASI_TOML.to_owned())).expect("the bench"))
}

/// Online, and declared to stand at 0, 0.
fn ready(bench: impl FnOnce(String) -> String) -> Lab {
    let mut lab = lab(bench);
    lab.online();
    lab.reference("x", 0.0).expect("x");
    lab.reference("y", 0.0).expect("y");
    lab
}

fn lines(lab: &Lab, since: Duration) -> Vec<String> {
    let heard = String::from_utf8(lab.heard_since(since)).expect("text");
    heard.split('\r').filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

/// The lines that are not questions.
fn orders(lab: &Lab, since: Duration) -> Vec<String> {
    let questions = ["/", "V", "W ", "RS ", "UM ", "B ", "SL ", "SU "];
    lines(lab, since).into_iter().filter(|l| !questions.iter().any(|q| l.starts_with(q))).collect()
}

#[test]
fn a_channel_that_is_no_letter_or_is_used_twice_is_a_problem_of_the_rig_file() {
    let read = |text: &str| config::parse(text, Path::new("asi-xy.toml"), &devices::known());
    assert!(read(RIG).is_ok());
    for (channel, words) in [("1", "the controller's letter"), ("XY", "the controller's letter"), ("x", "channel")] {
        let problems = read(&RIG.replace("channel = \"Y\"", &format!("channel = \"{channel}\""))).expect_err(channel);
        assert!(problems.to_string().contains(words), "{problems}");
    }
}

#[test]
fn nothing_is_told_to_a_controller_that_is_only_looked_at() {
    let mut lab = lab(|b| b);
    lab.online();
    lab.run_ms(3000);
    assert_eq!(orders(&lab, Duration::ZERO), Vec::<String>::new());
    let scope = lab.scope();
    let identity = scope.identity.expect("an identity");
    assert_eq!((identity.model.as_str(), identity.firmware.as_str()), ("ASI MS-2000", "USB-9.2m"));
    assert_eq!(identity.notes, Vec::<String>::new());
    let told = scope.told.expect("what it tells");
    assert_eq!((told.axes[0].range, told.homes), (Some([-25.0, 25.0]), Some(false)));
}

#[test]
fn a_move_is_its_speed_and_its_target_in_tenths_of_a_micrometre_and_saves_nothing() {
    let mut lab = ready(|b| b);
    let since = lab.now();
    lab.move_to(&[("x", 1234.56), ("y", -200.0)]).expect("a move");
    // The rig's x goes against the controller's.
    assert_eq!(orders(&lab, since), ["S X=5.0000 Y=5.0000", "M X=-12345.6 Y=-2000.0"]);
    assert!((lab.truly("x") - 23.765_44).abs() < 0.001, "{}", lab.truly("x"));
}

#[test]
fn what_the_controller_refuses_is_told_in_words() {
    let mut lab = ready(|b| b.replacen("id = \"scope\"", "id = \"scope\"\nlacks = [\"S\"]", 1));
    let e = lab.move_to(&[("x", 500.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::ControllerRefused, Moved::No));
    assert!(e.what.contains(":N-1 (unknown command)"), "{e}");
    assert!(orders(&lab, Duration::ZERO).iter().all(|l| !l.starts_with('M')), "no target without its speed");
}

#[test]
fn an_axis_that_is_not_there_or_counts_otherwise_is_not_driven() {
    for (from, to, words) in [
        ("letter = \"Y\"", "letter = \"F\"", ":N-2 (unrecognised axis)"),
        ("letter = \"X\"", "letter = \"X\"\nunits_per_mm = 1000.0", "counts 1000 a millimetre"),
    ] {
        let mut lab = lab(|b| b.replacen(from, to, 1));
        lab.run_ms(2000);
        let fault = lab.scope().fault.expect("a fault");
        assert!(fault.code == Code::NotConnected && fault.what.contains(words), "{fault:?}");
        assert_eq!(lab.scope().activity, Activity::Offline);
    }
}

#[test]
fn the_zero_button_and_a_quick_restart_are_noticed_by_their_counters() {
    for boot_ms in [0, 500] {
        let mut lab = ready(|b| b.replacen("id = \"scope\"", &format!("id = \"scope\"\nboot_ms = {boot_ms}"), 1));
        lab.move_to(&[("x", 3000.0)]).expect("a move");
        lab.fault(Fault::Reset);
        lab.until("noticed", Duration::from_secs(3), |l| l.scope().fault.is_some());
        assert_eq!(lab.scope().fault.map(|f| f.code), Some(Code::ControllerReset));
        assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Unknown));
    }
}

#[test]
fn a_move_to_the_controllers_own_zero_is_no_restart() {
    let mut lab = ready(|b| b);
    lab.move_to(&[("x", 3000.0), ("y", 100.0)]).expect("away");
    lab.move_to(&[("x", 0.0), ("y", 0.0)]).expect("and back to 0, 0");
    lab.run_ms(2000);
    assert_eq!(lab.scope().fault, None);
    assert!(lab.scope().axes.iter().all(|a| a.trust == Trust::Assumed));
}

#[test]
fn an_answer_that_comes_late_is_nobodys() {
    let mut lab = ready(|b| b);
    lab.move_to(&[("x", 3000.0), ("y", 1000.0)]).expect("a move");
    for late in [310, 350, 700, 1500] {
        lab.fault(Fault::Late { ms: late });
        for _ in 0..40 {
            lab.run_ms(100);
            let at = ["x", "y"].map(|a| lab.reads(a));
            assert!((at[0] - 3000.0).abs() < 0.2 && (at[1] - 1000.0).abs() < 0.2, "{late} ms late: {at:?}");
        }
        assert_eq!(lab.scope().fault, None);
    }
    assert!(lab.scope().link.timeouts >= 4, "{:?}", lab.scope().link);
}

#[test]
fn a_stop_that_is_lost_on_the_way_is_sent_again_until_it_stands() {
    let mut lab = ready(|b| b);
    let movement = lab.to(&[("x", 20_000.0)]);
    let ticket = lab.begin_move(movement).expect("begun");
    lab.run_ms(600);
    lab.fault(Fault::Drop { bytes: 6 });
    let since = lab.now();
    lab.stop();
    let e = lab.answer(ticket).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
    assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
    assert!(lines(&lab, since).iter().any(|l| l == "HALT"));
    assert!(lab.now() - since < Duration::from_millis(700), "{:?}", lab.now() - since);
}

#[test]
fn i02_however_many_look_the_controller_is_asked_at_one_rate() {
    let mut lab = ready(|b| b);
    let since = lab.now();
    lab.run_ms(4000);
    for _ in 0..1000 {
        assert!(lab.state().stage("scope").is_some());
    }
    lab.run_ms(4000);
    let polls = lines(&lab, since).iter().filter(|l| l.starts_with("W X")).count();
    assert!((15..=22).contains(&polls), "{polls} in 8 s");
}

#[test]
fn i03_old_firmware_without_limits_and_status_is_driven_and_its_lacks_are_said_once() {
    let lacks = "id = \"scope\"\nlacks = [\"SL\", \"SU\", \"RS\", \"UM\"]";
    let mut lab = ready(|b| b.replacen("id = \"scope\"", lacks, 1));
    let notes = lab.scope().identity.expect("an identity").notes;
    assert_eq!(notes.len(), 8, "four questions, two axes: {notes:?}");
    assert!(notes[0].contains("`UM X`: :N-1 (unknown command)"), "{notes:?}");
    let since = lab.now();
    lab.move_to(&[("x", 500.0)]).expect("a move");
    assert!(lines(&lab, since).iter().all(|l| !l.starts_with("RS")), "what it lacks is not asked again");
}

#[test]
fn i04_a_second_move_is_sent_only_when_the_first_has_ended() {
    let mut lab = ready(|b| b);
    let since = lab.now();
    let moves = |lab: &Lab| orders(lab, since).iter().filter(|l| l.starts_with('M')).count();
    let (first, second) = (lab.to(&[("x", 4000.0)]), lab.to(&[("x", -1000.0)]));
    let mut first = lab.begin_move(first).expect("begun");
    lab.run_ms(10);
    let second = lab.begin_move(second).expect("in the queue");
    let first = loop {
        lab.run_ms(1);
        assert!(moves(&lab) <= 1 || lab.truly("x") < 21.001, "the second begins where the first ends");
        if let Some(outcome) = support::answer_of(&mut first) {
            break outcome;
        }
    };
    assert_eq!(first.expect("the first ends where it was told to").moved, Moved::Yes);
    lab.answer(second).expect("and then the second");
    assert_eq!(moves(&lab), 2);
}

#[test]
fn i05_a_move_that_ends_at_a_limit_switch_has_missed_and_the_switch_is_named() {
    // The controller does not tell its limits, so that nobody can refuse before.
    let lacks = "id = \"scope\"\nlacks = [\"SL\", \"SU\"]";
    let mut lab = ready(|b| b.replacen("id = \"scope\"", lacks, 1));
    let e = lab.move_to(&[("y", 26_000.0)]).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::MissedTarget, Moved::Yes), "{e}");
    assert!(e.what.contains("25000 um instead of 26000 um") && e.what.contains("limit switch of scope.y"), "{e}");
}

#[test]
fn i08_a_line_ends_with_cr_with_lf_or_with_both() {
    let mut lab = ready(|b| b);
    let before = lab.scope().link;
    for end in ["\r", "\n", "\r\n"] {
        // A line whose end is not seen would swallow what follows it.
        lab.fault(Fault::Inject { bytes: format!("noise{end}").into_bytes() });
        lab.run_ms(900);
    }
    let after = lab.scope().link;
    assert_eq!((after.bad_frames, after.timeouts), (before.bad_frames + 3, before.timeouts));
}

#[test]
fn i09_small_steps_add_up() {
    let mut lab = ready(|b| b);
    let start = lab.truly("y");
    for _ in 0..10 {
        let step = lab.by(&[("y", 2.5)], lab.scope().epoch);
        let ticket = lab.begin_move(step).expect("begun");
        lab.answer(ticket).expect("a step");
    }
    assert!((lab.truly("y") - start - 0.025).abs() < 0.0003, "{}", lab.truly("y") - start);
}

#[test]
fn i10_a_move_of_one_axis_leaves_the_other_out() {
    let mut lab = ready(|b| b);
    lab.move_to(&[("x", 1000.0), ("y", 2000.0)]).expect("a move");
    let (since, x) = (lab.now(), lab.truly("x"));
    lab.move_to(&[("y", 5000.0)]).expect("a move");
    assert_eq!(orders(&lab, since), ["S Y=5.0000", "M Y=50000.0"]);
    assert_eq!(lab.truly("x"), x);
}
