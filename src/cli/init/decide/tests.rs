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
    let axis = |name, channel, length: f64| FoundAxis {
        name,
        channel,
        unit: Unit::Mm,
        told: ToldAxis {
            max_speed: Speed::base(12.5).ok(),
            step: Distance::base(0.004).ok(),
            travel: Distance::base(length).ok(),
            range: (homes == Some(true)).then_some([-length, 0.0]),
            home: (homes == Some(true)).then_some(-1.0),
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

#[test]
fn names_come_from_the_file_that_exists() {
    let old =
        "[rig]\nname = \"mine\"\n[[stage]]\nid = \"table\"\nlink = \"usb\"\n[[stage]]\nid = \"lift\"\nlink = \"l2\"\n";
    let names = |stage| {
        let n = Names::of(&Known::of(Some(old), stage), stage, None);
        (n.rig, n.stage, n.link)
    };
    assert_eq!(names(None), (Some("mine".into()), "table".into(), "usb".into()));
    assert_eq!(names(Some("lift")), (Some("mine".into()), "lift".into(), "l2".into()));
    assert_eq!(names(Some("new")), (Some("mine".into()), "new".into(), "new-port".into()));
    assert_eq!(Names::of(&Known::default(), None, None).link, "stage-port");
}
