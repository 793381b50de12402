//! Drafts from what a controller says and what a person answers, without hardware.

use clap::Parser;

use super::super::person::Nobody;
use super::super::person::script::Script;
use super::*;
use crate::model::{Identity, ToldAxis};
use crate::units::Speed;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: InitArgs,
}

fn args(line: &str) -> InitArgs {
    Line::parse_from(std::iter::once("init").chain(line.split_whitespace())).args
}

fn found(homes: Option<bool>) -> Found {
    let axis = |name: &str, channel: &str, length: f64| FoundAxis {
        name: name.into(),
        channel: channel.into(),
        unit: Unit::Mm,
        counts: None,
        told: ToldAxis {
            max_speed: Speed::base(12.5).ok(),
            step: Distance::base(0.004).ok(),
            travel: Distance::base(length).ok(),
            range: (homes == Some(true)).then_some([-length, 0.0]),
            home: (homes == Some(true)).then_some(-1.0),
            acceleration: None,
        },
        count: 0.0,
    };
    let identity = Identity { model: "Grbl".into(), firmware: "1.1h".into(), ..Identity::default() };
    Found { driver: "grbl", baud: 115_200, identity, axes: vec![axis("x", "X", 75.0), axis("z", "Z", 4.0)], homes }
}

fn drafted(line: &str, person: &mut dyn Person, homes: Option<bool>) -> Result<Draft, String> {
    let place = Place::typed("/dev/pts/5");
    draft(&args(line), person, &found(homes), &place, Port::Place(place.clone()), &Known::default())
}

const OLD: &str = "[rig]\nname = \"mine\"\n[[stage]]\nid = \"table\"\nhome = { order = [\"x\", \"focus\"] }\n\
                   [stage.axes.x]\nunit = \"mm\"\nsign = -1\norigin = 3.0\ntravel = [10.0, 20.0]\n\
                   max_speed_per_s = 1.5\ntolerance = 0.3\ntrust = \"restored\"\nholds_unpowered = false\nwhy = \"a lens\"\n\
                   [stage.axes.focus]\nchannel = \"Z\"\nunit = \"um\"\nsign = 1\norigin = 4000\ntravel = [100, 9000]\n\
                   max_speed_per_s = 99999.0\nholds_unpowered = true\ntoward_sample = \"-\"\n[calls]\non_client_lost = \"continue\"\n";

fn again(line: &str, person: &mut dyn Person) -> Result<Draft, String> {
    let place = Place::typed("/dev/pts/5");
    draft(&args(line), person, &found(Some(true)), &place, Port::Place(place.clone()), &Known::of(Some(OLD), None))
}

#[test]
fn what_the_owner_wrote_is_proposed_again_and_only_what_is_missing_is_added() {
    let draft = again("--yes", &mut Nobody).expect("a draft");
    assert_eq!((draft.rig.as_str(), draft.stage.as_str(), draft.on_client_lost), ("mine", "table", "continue"));
    assert_eq!(draft.home, ["x", "focus"]);
    let [x, focus] = draft.axes.as_slice() else { panic!("{:?}", draft.axes) };
    assert_eq!((x.sign, x.origin, x.travel, x.speed, x.tolerance), (-1.0, 3.0, [10.0, 20.0], 1.5, 0.3));
    assert_eq!((x.holds_unpowered, x.why.as_deref(), x.trust.as_deref()), (false, Some("a lens"), Some("restored")));
    assert_eq!((focus.name.as_str(), focus.channel.as_str(), focus.unit), ("focus", "Z", Unit::Um));
    assert_eq!((focus.travel, focus.tolerance), ([100.0, 9000.0], 20.0), "the tolerance was missing");
    assert_eq!((focus.holds_unpowered, focus.toward_sample), (true, Some('-')));
}

#[test]
fn a_controller_that_is_narrower_than_the_file_is_told() {
    // Nothing is moved; an empty line takes each proposal.
    let answers = ["", "no", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", ""];
    let mut person = Script::new(&answers);
    again("", &mut person).expect("a draft");
    let told = person.told.join("\n");
    assert!(told.contains("focus: the controller lets itself be moved from 0 to 4000 um"), "{told}");
    assert!(told.contains("focus: the controller goes at most 12500 um/s"), "{told}");
    assert!(told.contains("[10:20]") && told.contains("[-]"), "{told}");
}

#[test]
fn a_sign_that_turns_the_files_positions_round_needs_new_ones() {
    assert!(again("--axis x,sign=1 --yes", &mut Nobody).is_err_and(|e| e.contains("travel and origin")));
    let draft = again("--axis x,sign=1,origin=75,travel=1:2 --yes", &mut Nobody).expect("a draft");
    assert_eq!((draft.axes[0].origin, draft.axes[0].travel), (75.0, [1.0, 2.0]));
    // In another unit it is the same place.
    let draft = again("--axis x,unit=um --yes", &mut Nobody).expect("a draft");
    assert_eq!(
        (draft.axes[0].origin, draft.axes[0].travel, draft.axes[0].speed),
        (3000.0, [10_000.0, 20_000.0], 1500.0)
    );
}

#[test]
fn a_homed_controller_and_nobody_give_a_whole_rig() {
    let draft = drafted("--axis x --axis z,unit=um,sign=-1,why=glass --yes", &mut Nobody, Some(true)).expect("a draft");
    let (x, z) = (&draft.axes[0], &draft.axes[1]);
    assert_eq!((x.origin, x.travel, x.speed, x.tolerance), (75.0, [0.0, 74.5], 12.5, 0.02));
    assert_eq!((z.origin, z.travel, z.speed, z.tolerance), (0.0, [500.0, 4000.0], 12500.0, 20.0));
    assert!(!x.holds_unpowered, "what nobody says is taken to sink");
    assert_eq!(draft.home, ["z", "x"]);
    assert_eq!(draft.on_client_lost, "stop");
}

#[test]
fn limits_that_nobody_knows_are_not_made_up() {
    let missing = drafted("--axis x", &mut Nobody, Some(false)).expect_err("no limits");
    assert!(missing.contains("--axis x,travel="), "{missing}");
    let draft = drafted("--axis x,travel=-5:70,origin=3", &mut Nobody, Some(false)).expect("a draft");
    assert_eq!((draft.axes[0].travel, draft.axes[0].origin), ([-5.0, 70.0], 3.0));
    assert!(draft.home.is_empty(), "it has no homing");
}

#[test]
fn a_person_who_moves_nothing_is_asked_for_the_rest() {
    // Name, axes, move?, unit, direction, speed, tolerance, holds, toward, order, client lost.
    let answers = ["scope", "x", "no", "um", "-", "", "5", "yes", "+", "", ""];
    let mut person = Script::new(&answers);
    let draft = drafted("", &mut person, Some(true)).expect("a draft");
    assert!(person.answers.is_empty(), "{:?}", person.told);
    let x = &draft.axes[0];
    assert_eq!((draft.rig.as_str(), draft.axes.len()), ("scope", 1));
    assert_eq!((x.unit, x.sign, x.tolerance, x.toward_sample), (Unit::Um, -1.0, 5.0, Some('+')));
    assert_eq!((x.travel, x.speed), ([500.0, 75_000.0], 12_500.0));
}

#[test]
fn a_wrong_axis_or_order_is_refused_by_name() {
    assert!(drafted("--axis w", &mut Nobody, Some(true)).is_err_and(|e| e.contains("it has x, z")));
    assert!(drafted("--axis x --home z,x", &mut Nobody, Some(true)).is_err_and(|e| e.contains("--home")));
    assert_eq!(drafted("--axis x --axis z --home x,z", &mut Nobody, Some(true)).expect("a draft").home, ["x", "z"]);
}

fn elsewhere() -> Port {
    Port::Place(Place::typed("/dev/other"))
}

#[test]
fn names_come_from_the_file_that_exists() {
    let old =
        "[rig]\nname = \"mine\"\n[[stage]]\nid = \"table\"\nlink = \"usb\"\n[[stage]]\nid = \"lift\"\nlink = \"l2\"\n";
    let names = |stage| {
        let n = Names::of(&Known::of(Some(old), stage), stage, None, &elsewhere());
        (n.rig, n.stage, n.link)
    };
    assert_eq!(names(None), (Some("mine".into()), "table".into(), "usb".into()));
    assert_eq!(names(Some("lift")), (Some("mine".into()), "lift".into(), "l2".into()));
    assert_eq!(names(Some("new")), (Some("mine".into()), "new".into(), "new-port".into()));
    assert_eq!(Names::of(&Known::default(), None, None, &elsewhere()).link, "stage-port");
}

/// A chain as a survey finds it: told in counts.
fn chain() -> Found {
    let axis = |name: &str, channel: &str, high: f64| FoundAxis {
        name: name.into(),
        channel: channel.into(),
        unit: Unit::Mm,
        counts: Some(1.0),
        told: ToldAxis {
            max_speed: Speed::base(20_000.0).ok(),
            step: Distance::base(1.0).ok(),
            travel: Distance::base(high).ok(),
            range: Some([0.0, high]),
            home: None,
            acceleration: None,
        },
        count: 0.0,
    };
    let axes = vec![axis("x", "1", 250_000.0), axis("y", "2.1", 100_000.0), axis("z", "2.2", 100_000.0)];
    Found { driver: "zaber", baud: 115_200, identity: Identity::default(), axes, homes: Some(true) }
}

fn of_chain(line: &str, person: &mut dyn Person, old: Option<&str>) -> Result<Draft, String> {
    let (args, place) = (args(line), Place::typed("/dev/pts/5"));
    let known = Known::of(old, args.stage.as_deref());
    draft(&args, person, &chain(), &place, Port::Place(place.clone()), &known)
}

#[test]
fn a_counting_controllers_own_limits_are_turned_into_the_axes_unit() {
    let line =
        "--axis focus,channel=1.1,unit=um,counts-per-unit=10,sign=-1 --axis x,channel=2.1,counts-per-unit=2000 --yes";
    let draft = of_chain(line, &mut Nobody, None).expect("a draft");
    let [focus, x] = draft.axes.as_slice() else { panic!("{:?}", draft.axes) };
    assert_eq!((focus.name.as_str(), focus.channel.as_str(), focus.counts), ("focus", "1", Some(10.0)));
    assert_eq!((focus.travel, focus.origin, focus.speed), ([0.0, 25_000.0], 25_000.0, 2000.0));
    assert_eq!((x.channel.as_str(), x.travel, x.speed, x.unit), ("2.1", [0.0, 50.0], 10.0, Unit::Mm));
    assert_eq!((focus.tolerance, x.tolerance), (1.0, 0.002), "a few counts, and no finer than a micrometre");
    assert_eq!(draft.home, ["focus", "x"]);
}

#[test]
fn what_a_count_is_has_no_default() {
    let refused = of_chain("--axis x,channel=1", &mut Nobody, None).expect_err("no counts");
    assert!(refused.contains("--axis x,counts-per-unit=") && refused.contains("Microstep Size"), "{refused}");
    assert!(of_chain("--axis x,channel=3", &mut Nobody, None).is_err_and(|e| e.contains("it has 1, 2.1, 2.2")));
    let lengths = drafted("--axis x,counts-per-unit=5", &mut Nobody, Some(true));
    assert!(lengths.is_err_and(|e| e.contains("speaks of lengths")));
}

#[test]
fn a_second_stage_on_the_chain_shares_its_link_and_takes_what_is_left() {
    let old = "[[link]]\nid = \"chain\"\nserial = \"/dev/pts/5\"\n[[stage]]\nid = \"focus\"\ndriver = \"zaber\"\n\
               link = \"chain\"\n[stage.axes.z]\nchannel = \"01\"\ncounts_per_unit = 10\nunit = \"um\"\n";
    // Name, axes; unit and counts of both; nothing is moved.
    let answers = ["rig", "", "", "2000", "", "2000", "no", "", "", "", "", "", "", "", "", "", "", "", ""];
    let mut person = Script::new(&answers);
    let draft = of_chain("--stage sample", &mut person, Some(old)).expect("a draft");
    assert_eq!((draft.link.as_str(), draft.stage.as_str()), ("chain", "sample"));
    let channels: Vec<&str> = draft.axes.iter().map(|a| a.channel.as_str()).collect();
    assert_eq!(channels, ["2.1", "2.2"], "{:?}", person.told);
    // Of the first, what the file says is proposed again, in another unit too.
    let again = of_chain("--stage focus --axis z,unit=mm --yes --name n", &mut Nobody, Some(old)).expect("a draft");
    assert_eq!((again.axes[0].counts, again.axes[0].channel.as_str()), (Some(10_000.0), "01"));
}

#[test]
fn a_controller_that_never_homes_gives_its_own_limits_or_has_none() {
    let asi = |range| {
        let mut found = found(Some(false));
        found.driver = "asi";
        found.axes.iter_mut().for_each(|a| a.told.range = range);
        let place = Place::typed("/dev/pts/5");
        let line = args("--axis x,sign=-1,speed=2 --yes");
        draft(&line, &mut Nobody, &found, &place, Port::Place(place.clone()), &Known::default())
    };
    let draft = asi(Some([-25.0, 25.0])).expect("a draft");
    assert_eq!((draft.axes[0].travel, draft.axes[0].origin, draft.home.len()), ([0.0, 50.0], 25.0, 0));
    assert!(asi(None).is_err_and(|e| e.contains("--axis x,travel=")));
}
