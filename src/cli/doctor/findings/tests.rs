//! Facts in, findings out.

use std::sync::Arc;

use super::super::super::host::{Process, Users};
use super::*;
use crate::config;
use crate::model::{Activity, Epoch, Identity, Remedy, Source, Time, Trust};
use crate::units::{Distance, Position, Speed};

fn rig() -> Rig {
    let text = include_str!("../../../../rigs/minimal.toml");
    config::parse(text, Path::new("minimal.toml"), &devices::known()).expect("a rig")
}

/// The minimal rig's stage, online.
pub(in super::super) fn status(told: Option<Arc<Told>>) -> StageStatus {
    StageStatus {
        stage: Name::new("stage"),
        activity: Activity::Idle,
        fault: None,
        stopped_by: None,
        axes: vec![AxisStatus {
            axis: Name::new("x"),
            position: Position::base(0.0).ok(),
            trust: Trust::Unknown,
            source: Source::Counter,
            target: None,
            ahead: None,
            speed: None,
            at_limit: false,
        }],
        epoch: Epoch(1),
        read_at: Some(Time::ZERO),
        came_from: None,
        identity: Some(Identity { model: "Grbl".into(), firmware: "1.1h".into(), ..Identity::default() }),
        told,
        link: LinkStatus { port: "/dev/ttyUSB0".into(), open: true, ..LinkStatus::default() },
    }
}

fn told(axis: ToldAxis) -> StageStatus {
    status(Some(Arc::new(Told { axes: vec![axis], homes: Some(true), powered_at_rest: Some(true), ..Told::default() })))
}

fn broken(code: Code, line: LinkStatus) -> StageStatus {
    let fault = Fault { code, what: "It failed.".into(), at: Time::ZERO, remedy: Remedy::Reconnect };
    StageStatus { activity: Activity::Offline, fault: Some(fault), identity: None, link: line, ..status(None) }
}

fn host(access: Access, users: &[(&str, u32)], readable_at: Option<u32>) -> Host {
    let processes = users.iter().map(|(name, pid)| Process { pid: *pid, name: (*name).into() }).collect();
    let users = Users { processes, complete: true };
    let path = Some("/dev/ttyUSB0".into());
    let port = PortFacts { link: Name::new("stage-port"), path, access, users, readable_at };
    Host { ports: vec![port], ..Host::default() }
}

fn found(status: StageStatus, host: &Host) -> Vec<Finding> {
    let state = Snapshot { stages: vec![status], ..Snapshot::default() };
    all(&rig(), &state, host)
}

/// The one finding that is not good, with its remedy.
#[track_caller]
fn wrong(status: StageStatus, host: &Host) -> (Level, String, String) {
    let found = found(status, host);
    let bad: Vec<&Finding> = found.iter().filter(|f| f.level > Level::Note).collect();
    let [one] = bad.as_slice() else { panic!("{found:#?}") };
    (one.level, one.what.clone(), one.remedy.clone().expect("a remedy"))
}

#[test]
fn a_rig_that_is_well_has_nothing_to_do() {
    let axis = ToldAxis {
        max_speed: Speed::base(10.0).ok(),
        step: Distance::base(0.0025).ok(),
        range: Some([-75.0, 0.0]),
        ..ToldAxis::default()
    };
    let found = found(told(axis), &host(Access::Granted, &[], None));
    assert!(found.iter().all(|f| f.level <= Level::Note), "{found:#?}");
    assert!(found.iter().any(|f| f.what.contains("homed before")), "its axis is not homed");
    assert!(found[0].what.contains("Grbl 1.1h on /dev/ttyUSB0"));
}

#[test]
fn a_port_that_cannot_be_opened_is_told_with_the_one_cause_that_fits() {
    let gone = || broken(Code::NotConnected, LinkStatus { port: "/dev/ttyUSB0".into(), ..LinkStatus::default() });
    for (access, users, what, remedy) in [
        (Access::Missing, &[][..], "not there", "no serial port is there at all"),
        (Access::Denied { group: Some("dialout".into()) }, &[], "may not open", "usermod -aG dialout"),
        (Access::Denied { group: None }, &[], "may not open", "udev"),
        (Access::Granted, &[("candle", 7)], "in use by candle (process 7)", "close that program"),
        (Access::Granted, &[("steadyhand", 8)], "in use by steadyhand", "diagnose"),
        (Access::Granted, &[], "It failed", "close other programs"),
    ] {
        let (level, told, todo) = wrong(gone(), &host(access, users, None));
        assert_eq!(level, Level::Problem);
        assert!(told.contains(what) && todo.contains(remedy), "{told} {todo}");
    }
}

#[test]
fn garbage_means_a_wrong_rate_and_silence_does_not() {
    let line = |frames, bad_frames| LinkStatus {
        port: "/dev/ttyUSB0".into(),
        open: true,
        frames,
        bad_frames,
        ..LinkStatus::default()
    };
    let silent =
        |frames, bad, heard| wrong(broken(Code::NotResponding, line(frames, bad)), &host(Access::Granted, &[], heard));
    let (_, what, remedy) = silent(0, 4, Some(9600));
    assert!(
        what.contains("115200 baud") && what.contains("wrong rate") && remedy.contains("baud = 9600"),
        "{what} {remedy}"
    );
    let (_, _, remedy) = silent(0, 4, None);
    assert!(remedy.contains("manual"), "{remedy}");
    let (_, what, remedy) = silent(0, 0, None);
    assert!(!what.contains("garbage") && remedy.contains("power"), "{what} {remedy}");
    let (_, what, _) = silent(12, 0, None);
    assert!(what.contains("wrong device"), "{what}");
}

#[test]
fn what_the_controller_says_against_the_rig_file_is_told_with_the_number_to_write() {
    let fine = host(Access::Granted, &[], None);
    let (_, what, remedy) = wrong(told(ToldAxis { max_speed: Speed::base(8.0).ok(), ..ToldAxis::default() }), &fine);
    assert!(what.contains("at most 8 mm/s") && remedy == "write max_speed_per_s = 8", "{what} {remedy}");
    let (_, what, remedy) = wrong(told(ToldAxis { step: Distance::base(0.05).ok(), ..ToldAxis::default() }), &fine);
    assert!(what.contains("miss") && remedy == "write tolerance = 0.1", "{what} {remedy}");
    let (_, what, remedy) = wrong(told(ToldAxis { range: Some([-70.0, 0.0]), ..ToldAxis::default() }), &fine);
    assert!(what.contains("[5, 75]") && remedy.contains("travel = [5, 75]"), "{what} {remedy}");
}

#[test]
fn a_travel_up_to_the_home_switch_is_told_with_the_number_to_write() {
    let text = include_str!("../../../../rigs/minimal.toml");
    let said = |origin: &str, sign: &str, travel: &str, home: f64, hard_limits| {
        let text = text
            .replace("origin = 75.0", &format!("origin = {origin}"))
            .replace("sign = 1 ", &format!("sign = {sign} "))
            .replace("travel = [0.0, 74.5]", &format!("travel = [{travel}]"));
        let rig = config::parse(&text, Path::new("rig.toml"), &devices::known()).expect("a rig");
        let axes = vec![ToldAxis { range: Some([-75.0, 0.0]), home: Some(home), ..ToldAxis::default() }];
        let told = Told { axes, hard_limits, ..Told::default() };
        let mut state = Snapshot::default();
        state.stages.push(status(Some(Arc::new(told))));
        let found = all(&rig, &state, &host(Access::Granted, &[], None));
        found.into_iter().find(|f| f.level == Level::Warning).and_then(|f| f.remedy)
    };
    let write = |travel: &str| Some(format!("stay off the switch: write travel = {travel}"));
    let on = Some(true);
    assert_eq!(said("75.0", "1", "0.0, 75.0", -1.0, on), write("[0, 74.5]"));
    assert_eq!(said("75.0", "1", "0.0, 74.5", -1.0, on), None, "as it says");
    assert_eq!(said("75.0", "1", "0.0, 75.0", -1.0, Some(false)), None, "a switch is no alarm");
    assert_eq!(said("75.0", "1", "0.0, 75.0", -74.0, on), write("[0.5, 75]"), "homed at the other end");
    assert_eq!(said("0.0", "-1", "0.0, 75.0", -1.0, on), write("[0.5, 75]"), "counted the other way");
}

#[test]
fn axes_that_home_with_the_others_are_told_though_the_rig_file_lacks_them() {
    let told = Told { homes: Some(true), homes_also: vec!["Y".into(), "Z".into()], ..Told::default() };
    let found = found(status(Some(Arc::new(told))), &host(Access::Granted, &[], None));
    let note = found.iter().find(|f| f.what.contains("$H")).expect("a note");
    assert!(note.level == Level::Note && note.what.contains("Y, Z"), "{note:?}");
}

#[test]
fn a_homing_order_without_homing_is_a_problem() {
    let told = Told { axes: vec![], homes: Some(false), powered_at_rest: Some(false), ..Told::default() };
    let (level, what, remedy) = wrong(status(Some(Arc::new(told))), &host(Access::Granted, &[], None));
    assert_eq!(level, Level::Problem);
    assert!(what.contains("$22=0") && remedy.contains("$22=1"), "{what} {remedy}");
}

#[test]
fn an_axis_that_sinks_needs_motors_that_stay_on() {
    let text =
        include_str!("../../../../rigs/minimal.toml").replace("holds_unpowered = true", "holds_unpowered = false");
    let rig = config::parse(&text, Path::new("sinks.toml"), &devices::known()).expect("a rig");
    let told = Told { axes: vec![], homes: Some(true), powered_at_rest: Some(false), ..Told::default() };
    let state = Snapshot { stages: vec![status(Some(Arc::new(told)))], ..Snapshot::default() };
    let found = all(&rig, &state, &host(Access::Granted, &[], None));
    assert!(found.iter().any(|f| f.level == Level::Warning && f.what.contains("$1")), "{found:#?}");
}

#[test]
fn modem_manager_is_blamed_only_where_something_is_wrong() {
    let mut host = host(Access::Granted, &[], None);
    host.meddlers = vec![Process { pid: 1, name: "ModemManager".into() }];
    let level = |status| {
        let found = found(status, &host);
        found.iter().find(|f| f.what.contains("ModemManager")).expect("told").level
    };
    assert_eq!(level(status(None)), Level::Note);
    assert_eq!(level(broken(Code::NotConnected, LinkStatus::default())), Level::Warning);
}

#[test]
fn folders_that_cannot_be_written_and_full_disks_are_told() {
    let mut host = host(Access::Granted, &[], None);
    host.data = Some(Err("Could not make the folder /data.".into()));
    assert!(wrong(status(None), &host).2.contains("--data-dir"));
    host.data = Some(Ok("/data".into()));
    host.free = [Some(5 << 20), Some(u64::MAX)];
    assert!(wrong(status(None), &host).1.contains("5 MiB"));
}
