//! What every stage's driver must do, whatever it speaks: the same tests over each protocol's simulated peer, which was
//! written from the manufacturer's manual and not from the driver.

mod support;

use std::time::Duration;

use hw_sim::{ASI_TOML, Bench, Fault, MICROSCOPE_TOML};
use steadyhand::actor::Ticket;
use steadyhand::model::{Activity, Code, Moved, Report, Trust};
use support::{Lab, stage_only};

/// A protocol: a rig whose stage `scope` has axes x, y and z, and the bench that it drives.
struct Peer {
    name: &'static str,
    rig: fn() -> String,
    bench: fn() -> String,
    /// Whether it finds its reference by itself; otherwise a person declares where it stands.
    homes: bool,
    /// A part of the message that begins a motion.
    motion: &'static [u8],
    /// A part of the message that stops one.
    stop: &'static [u8],
    /// Inside the rig file's travel of x, outside the controller's own.
    beyond: f64,
    /// What looks like an answer, and is none to anything that was asked.
    lies: &'static [&'static [u8]],
}

const PEERS: &[Peer] = &[
    Peer {
        name: "grbl",
        rig: || stage_only().replacen("travel = [0.0, 75.0]", "travel = [0.0, 80.0]", 1),
        bench: || MICROSCOPE_TOML.to_owned(),
        homes: true,
        motion: b"$J=",
        stop: &[0x85],
        beyond: 79.0,
        lies: &[b"ok\r\n", b"error:9\r\n", b"<Idle|MPos:1.000,2.0\r\n"],
    },
    Peer {
        name: "zaber",
        rig: || ZABER_RIG.to_owned(),
        bench: zaber_bench,
        homes: true,
        motion: b"move abs",
        stop: b" stop:",
        beyond: 54.0,
        lies: &[b"@01 1 OK IDLE -- 12345\r\n", b"@01 1 00 RJ IDLE -- BADDATA\r\n", b"!01 1 IDLE WR\r\n"],
    },
    Peer {
        name: "asi",
        rig: || ASI_RIG.to_owned(),
        // Its limits are counted from where it stood when power came on, which a reset moves: so the lower is far.
        bench: || ASI_TOML.replace("low_mm = -25.0", "low_mm = -100.0"),
        homes: false,
        motion: b"M X=",
        stop: b"HALT\r",
        beyond: 54.0,
        lies: &[b":A\r\n", b":N-1\r\n", b":A 123456.7\r\n"],
    },
];

/// ASI counts from where it stood when power came on: the middle of the bench's travel.
const ASI_RIG: &str = r#"
[rig]
name = "xyz"
[[link]]
id = "scope-port"
serial = "/dev/virtual-asi"
baud = 115200
[[stage]]
id = "scope"
driver = "asi"
link = "scope-port"
home = "never"
[stage.axes.x]
unit = "mm"
sign = 1
origin = 25.0
travel = [0.0, 55.0]
max_speed_per_s = 20.0
tolerance = 0.01
trust = "assumed"
holds_unpowered = true
[stage.axes.y]
unit = "mm"
sign = 1
origin = 25.0
travel = [0.0, 50.0]
max_speed_per_s = 20.0
tolerance = 0.01
trust = "assumed"
holds_unpowered = true
[stage.axes.z]
unit = "um"
sign = 1
origin = 2000.0
travel = [0.0, 4000.0]
max_speed_per_s = 2000.0
tolerance = 2.0
trust = "assumed"
holds_unpowered = true
"#;

impl Peer {
    /// What its positions are worth at best.
    fn trust(&self) -> Trust {
        if self.homes { Trust::Referenced } else { Trust::Assumed }
    }

    /// Makes known where the stage stands.
    fn reference(&self, lab: &mut Lab) {
        if self.homes {
            lab.home().expect("homing");
            return;
        }
        for (axis, per_mm) in [("x", 1.0), ("y", 1.0), ("z", 1000.0)] {
            let value = lab.truly(axis) * per_mm;
            lab.reference(axis, value).expect("a declaration");
        }
    }
}

/// Zaber counts from 500 microsteps beyond the home sensor, upwards.
const ZABER_RIG: &str = r#"
[rig]
name = "chain"
[[link]]
id = "scope-port"
serial = "/dev/virtual-chain"
baud = 115200
[[stage]]
id = "scope"
driver = "zaber"
link = "scope-port"
home = { order = ["z", "x", "y"] }
[stage.axes.x]
channel = "1"
counts_per_unit = 2015.748
unit = "mm"
sign = 1
origin = 0.248047
travel = [0.0, 55.0]
max_speed_per_s = 20.0
tolerance = 0.02
trust = "referenced"
holds_unpowered = true
[stage.axes.y]
channel = "2.1"
counts_per_unit = 2015.748
unit = "mm"
sign = 1
origin = 0.248047
travel = [0.0, 50.0]
max_speed_per_s = 20.0
tolerance = 0.02
trust = "referenced"
holds_unpowered = true
[stage.axes.z]
channel = "2.2"
counts_per_unit = 5.249344
unit = "um"
sign = 1
origin = 95.25
travel = [0.0, 4000.0]
max_speed_per_s = 2000.0
tolerance = 5.0
trust = "referenced"
holds_unpowered = true
"#;

fn zaber_bench() -> String {
    let axis = |name: &str, peripheral: &str, steps: f64, high: f64, speed: f64| {
        format!(
            "[[zaber.device.axis]]\nname = \"{name}\"\n{peripheral}\n[zaber.device.axis.stage]\nsteps_per_mm = {steps}\n\
             min_mm = -0.3\nmax_mm = {}\nstart_mm = {}\nhome_switch_mm = 0.0\nhome_switch_end = \"min\"\n\
             brake_mm_per_s2 = 2000.0\n[zaber.device.axis.settings]\n\"limit.max\" = {:.0}\nmaxspeed = {:.0}\n",
            high + 1.0,
            high / 2.0,
            high * steps,
            speed * steps * 1.6384,
        )
    };
    format!(
        "seed = 1\n[[zaber]]\nid = \"scope\"\n[[zaber.device]]\naddress = 1\ndevice_id = 50081\nserial = 41001\n{}\
         [[zaber.device]]\naddress = 2\ndevice_id = 30222\nserial = 41002\ncontroller = true\n{}{}",
        axis("x", "", 2015.748, 50.0, 25.0),
        axis("y", "peripheral_id = 43211", 2015.748, 50.0, 25.0),
        axis("z", "peripheral_id = 43211", 5249.344, 25.0, 10.0),
    )
}

/// Runs a test over each protocol; a failure says over which.
fn over_each(test: impl Fn(&Peer, Lab)) {
    for peer in PEERS {
        eprintln!("over {}", peer.name);
        let bench = Bench::from_toml(&(peer.bench)()).unwrap_or_else(|e| panic!("{}: {e}", peer.name));
        test(peer, Lab::new(&(peer.rig)(), bench));
    }
}

/// The same with a stage that is online and homed, or declared, and stands at 40, 20 mm.
fn over_each_referenced(test: impl Fn(&Peer, Lab)) {
    over_each(|peer, mut lab| {
        lab.online();
        peer.reference(&mut lab);
        lab.move_to(&[("x", 40.0), ("y", 20.0)]).expect("a move");
        test(peer, lab);
    });
}

/// Begins a move of x to 10 mm and waits until it is under way.
fn moving(lab: &mut Lab) -> Ticket<Report> {
    let movement = lab.to(&[("x", 10.0), ("y", 5.0)]);
    let ticket = lab.begin_move(movement).unwrap();
    lab.until("it moves", Duration::from_secs(5), |l| l.bench.speed_mm_per_s("scope", "x").abs() > 5.0);
    ticket
}

fn heard(lab: &Lab, since: Duration, what: &[u8]) -> bool {
    lab.heard_since(since).windows(what.len()).any(|w| w == what)
}

fn trusts(lab: &Lab) -> Vec<Trust> {
    lab.scope().axes.iter().map(|a| a.trust).collect()
}

#[test]
fn it_says_what_it_is_and_moves_nothing_before_it_is_homed() {
    over_each(|peer, mut lab| {
        let since = lab.now();
        lab.online();
        let scope = lab.scope();
        let identity = scope.identity.expect("an identity");
        assert!(!identity.model.is_empty() && !identity.firmware.is_empty());
        assert_eq!(scope.activity, Activity::Idle);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        let e = lab.move_to(&[("x", 20.0)]).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::NotReferenced, Moved::No));
        assert!(!heard(&lab, since, peer.motion));
        assert!(["x", "y", "z"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0));
    });
}

#[test]
fn it_homes_or_a_person_says_where_it_stands_and_then_it_knows() {
    over_each(|peer, mut lab| {
        lab.online();
        let before = lab.truly("x");
        let homed = lab.home();
        if peer.homes {
            assert_eq!(homed.unwrap().moved, Moved::Yes);
        } else {
            let e = homed.unwrap_err();
            assert_eq!((e.code, e.moved, lab.truly("x")), (Code::Unsupported, Moved::No, before));
            peer.reference(&mut lab);
        }
        assert_eq!(trusts(&lab), [peer.trust(); 3]);
        assert!((lab.reads("x") - lab.truly("x")).abs() < 0.02, "{} {}", lab.reads("x"), lab.truly("x"));
        assert!((lab.reads("z") / 1000.0 - lab.truly("z")).abs() < 0.02);
    });
}

#[test]
fn a_move_ends_where_it_was_told_to_and_the_carriage_is_really_there() {
    over_each_referenced(|peer, mut lab| {
        let since = lab.now();
        let report = lab.move_to(&[("x", 33.3), ("y", 12.1), ("z", 2500.0)]).unwrap();
        assert_eq!(report.moved, Moved::Yes);
        for (axis, mm) in [("x", 33.3), ("y", 12.1), ("z", 2.5)] {
            assert!((lab.truly(axis) - mm).abs() < 0.02, "{axis}: {}", lab.truly(axis));
        }
        assert!(heard(&lab, since, peer.motion));
        let before = lab.truly("x");
        let step = lab.by(&[("x", -1.5)], lab.scope().epoch);
        let ticket = lab.begin_move(step).unwrap();
        assert_eq!(lab.answer(ticket).unwrap().moved, Moved::Yes);
        assert!((before - lab.truly("x") - 1.5).abs() < 0.02);
    });
}

#[test]
fn no_axis_goes_faster_than_the_rig_file_allows() {
    over_each_referenced(|_, mut lab| {
        let movement = lab.to(&[("x", 5.0)]);
        let mut ticket = lab.begin_move(movement).unwrap();
        let mut fastest = 0.0_f64;
        let outcome = loop {
            lab.run_ms(2);
            fastest = fastest.max(lab.bench.speed_mm_per_s("scope", "x").abs());
            if let Some(outcome) = support::answer_of(&mut ticket) {
                break outcome;
            }
        };
        outcome.unwrap();
        assert!((19.0..20.05).contains(&fastest), "{fastest} mm/s");
    });
}

#[test]
fn a_motion_is_watched_while_it_lasts() {
    over_each_referenced(|_, mut lab| {
        let mut ticket = moving(&mut lab);
        let mut seen = 0;
        while support::answer_of(&mut ticket).is_none() {
            lab.run_ms(20);
            let scope = lab.scope();
            if scope.activity == Activity::Moving {
                seen += 1;
                let age = lab.now().saturating_sub(scope.read_at.expect("a reading").0);
                assert!(age < Duration::from_millis(250), "a reading is {age:?} old");
                assert!((lab.reads("x") - lab.truly("x")).abs() < 0.02 + 20.0 * (age.as_secs_f64() + 0.03));
            }
        }
        assert!(seen > 20, "{seen}");
    });
}

#[test]
fn a_stop_in_motion_reaches_the_wire_at_once_is_proved_and_keeps_the_reference() {
    over_each_referenced(|peer, mut lab| {
        let ticket = moving(&mut lab);
        let asked = lab.now();
        lab.stop();
        lab.run_ms(8);
        assert!(heard(&lab, asked, peer.stop), "within 8 ms");
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Stopped, Moved::Yes));
        assert!(["x", "y"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0), "it stands when that is said");
        assert!(lab.truly("x") > 11.0, "on its way: {}", lab.truly("x"));
        assert_eq!(lab.move_to(&[("x", 30.0)]).unwrap_err().code, Code::Stopped, "and stays stopped");
        lab.recover("scope").unwrap();
        assert_eq!(trusts(&lab), [peer.trust(); 3]);
        lab.move_to(&[("x", 30.0)]).unwrap();
        assert!((lab.truly("x") - 30.0).abs() < 0.02);
    });
}

#[test]
fn a_stop_in_the_same_moment_as_a_move_lets_nothing_go_far() {
    over_each_referenced(|peer, mut lab| {
        for delay in 0..30 {
            let before = lab.truly("x");
            let to = if before > 30.0 { 10.0 } else { 45.0 };
            let movement = lab.to(&[("x", to)]);
            let ticket = lab.begin_move(movement).unwrap();
            lab.run(Duration::from_micros(500 * delay));
            lab.stop();
            assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped, "{} {delay}", peer.name);
            lab.run_ms(800);
            assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
            assert!((lab.truly("x") - before).abs() < 0.51, "{delay}: it went {}", lab.truly("x") - before);
            lab.recover("scope").unwrap();
        }
    });
}

#[test]
fn a_target_beyond_the_controllers_own_limit_is_refused_in_its_words_and_nothing_moves() {
    over_each_referenced(|peer, mut lab| {
        let before = lab.truly("x");
        let e = lab.move_to(&[("x", peer.beyond)]).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::ControllerRefused, Moved::No), "{e}");
        assert_eq!(lab.truly("x"), before);
        lab.move_to(&[("x", 30.0)]).unwrap();
    });
}

#[test]
fn a_reset_under_us_costs_the_trust_wherever_it_happens() {
    over_each_referenced(|peer, mut lab| {
        lab.fault(Fault::Reset);
        lab.until("noticed at rest", Duration::from_secs(8), |l| l.scope().fault.is_some());
        lab.run_ms(4000);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        lab.recover("scope").unwrap();
        peer.reference(&mut lab);
        lab.move_to(&[("x", 40.0), ("y", 20.0)]).unwrap();

        let ticket = moving(&mut lab);
        lab.fault(Fault::Reset);
        let e = lab.answer(ticket).unwrap_err();
        assert!(matches!(e.code, Code::ControllerReset | Code::NotResponding), "{e}");
        lab.run_ms(6000);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        assert!(matches!(lab.move_to(&[("x", 20.0)]).unwrap_err().code, Code::Faulted | Code::NotReferenced));
        let _ = lab.recover("scope");
        peer.reference(&mut lab);
        lab.move_to(&[("x", 20.0)]).unwrap();
    });
}

#[test]
fn garbage_and_lies_on_the_line_are_no_positions_and_no_answers() {
    over_each_referenced(|peer, mut lab| {
        let mut x = 0x9e37_79b9_u32;
        for round in 0..60 {
            let noise: Vec<u8> = (0..40)
                .map(|_| {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    // No start of a status line or of a restart, which anybody would have to believe.
                    (x >> 24) as u8 | 0x80
                })
                .collect();
            lab.fault(Fault::Inject { bytes: [&noise[..], b"\r\n", peer.lies[round % 3]].concat() });
            lab.run_ms(90);
            assert!((lab.reads("x") - 40.0).abs() < 0.01, "round {round}: {}", lab.reads("x"));
        }
        assert_eq!(trusts(&lab), [peer.trust(); 3]);
        assert!(lab.scope().link.bad_frames >= 60, "{:?}", lab.scope().link);
        // In motion too.
        let ticket = moving(&mut lab);
        lab.fault(Fault::Inject { bytes: b"\xff\xfe\x80\r\n".to_vec() });
        lab.answer(ticket).unwrap();
        assert!((lab.truly("x") - 10.0).abs() < 0.02);
    });
}

#[test]
fn what_the_line_damages_is_asked_again_and_not_believed() {
    over_each_referenced(|_, mut lab| {
        for _ in 0..20 {
            lab.fault(Fault::Garble { bytes: 12 });
            lab.run_ms(2100);
            assert_eq!(lab.scope().fault, None);
            assert!((lab.reads("x") - 40.0).abs() < 0.01, "{}", lab.reads("x"));
        }
        lab.move_to(&[("x", 30.0)]).unwrap();
        assert!((lab.truly("x") - 30.0).abs() < 0.02);
    });
}

#[test]
fn a_silent_controller_is_told_and_a_stop_is_written_all_the_same() {
    over_each_referenced(|peer, mut lab| {
        let ticket = moving(&mut lab);
        lab.fault(Fault::Silence { on: true });
        lab.run_ms(300);
        let asked = lab.now();
        lab.stop();
        lab.run_ms(50);
        let written: Vec<u8> =
            lab.bench.written("scope").iter().filter(|(t, _)| *t >= asked).map(|(_, b)| *b).collect();
        assert!(written.windows(peer.stop.len()).any(|w| w == peer.stop), "{:?}", String::from_utf8_lossy(&written));
        let e = lab.answer(ticket).unwrap_err();
        assert!(matches!(e.code, Code::Stopped | Code::NotResponding | Code::StopNotConfirmed), "{e}");
        assert_ne!(e.moved, Moved::No);
        lab.until("told", Duration::from_secs(12), |l| l.scope().activity == Activity::Offline);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        lab.fault(Fault::Silence { on: false });
        lab.until("back", Duration::from_secs(12), |l| l.scope().activity == Activity::Idle);
        assert_eq!(lab.bench.speed_mm_per_s("scope", "x"), 0.0);
        assert_eq!(trusts(&lab), [Trust::Unknown; 3], "nobody here has seen how it got where it is");
    });
}

#[test]
fn an_unplugged_cable_leaves_open_whether_it_moved_and_comes_back_without_trust() {
    over_each_referenced(|_, mut lab| {
        let ticket = moving(&mut lab);
        lab.fault(Fault::Unplug);
        let e = lab.answer(ticket).unwrap_err();
        assert_eq!((e.code, e.moved), (Code::Unplugged, Moved::Unknown));
        assert_eq!(lab.scope().activity, Activity::Offline);
        assert_eq!(lab.move_to(&[("x", 20.0)]).unwrap_err().code, Code::NotConnected);
        lab.fault(Fault::Plug);
        lab.online();
        assert_eq!(trusts(&lab), [Trust::Unknown; 3]);
        assert_eq!(lab.scope().link.reconnects, 1);
    });
}

#[test]
fn homing_can_be_stopped() {
    over_each(|peer, mut lab| {
        if !peer.homes {
            return;
        }
        lab.online();
        let home = steadyhand::model::Home { stage: steadyhand::model::Name::new("scope"), axes: vec![] };
        let ticket = lab.start(steadyhand::plans::Sequence::home("home".into(), home)).unwrap();
        lab.run_ms(700);
        assert_eq!(lab.scope().activity, Activity::Homing);
        lab.stop();
        assert_eq!(lab.answer(ticket).unwrap_err().code, Code::Stopped);
        lab.run_ms(3000);
        assert!(["x", "y", "z"].iter().all(|a| lab.bench.speed_mm_per_s("scope", a) == 0.0));
        assert!(trusts(&lab).contains(&Trust::Unknown));
        lab.recover("scope").unwrap();
        lab.home().unwrap();
    });
}
