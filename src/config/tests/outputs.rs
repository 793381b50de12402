//! The rules of outputs and sensors.

use super::*;
use crate::model::{OutputValue, SensorKind};
use crate::units::Percent;

/// The good file with a camera's light, outputs of every kind, and sensors.
pub(in crate::config) fn good() -> String {
    let text = GOOD.replacen("roi = [0, 0, 640, 480]", "light = \"lamp\"\nlight_percent = 30", 1);
    format!("{text}{OUTPUTS}")
}

const OUTPUTS: &str = r#"
[[link]]
id = "box"
tcp = "127.0.0.1:4712"
[[output]]
id = "lamp"
driver = "simio"
link = "box"
kind = "light"
max_percent = 80
on_stop = "safe"
safe = 0
delay_ms = 100
why = "it ages fast"
[[output]]
id = "filter"
driver = "simio"
link = "box"
channel = "wheel"
kind = "wheel"
positions = ["dapi", "gfp"]
on_stop = "keep"
[[output]]
id = "blind"
driver = "grbl-coolant"
link = "port"
kind = "shutter"
on_stop = "safe"
safe = "closed"
[[output]]
id = "turret"
driver = "manual"
kind = "wheel"
positions = ["10x", "40x"]
on_stop = "keep"
confirm_s = 60
[[sensor]]
id = "room"
driver = "simio-sensor"
link = "box"
kind = "analog"
unit = "degC"
scale = 0.1
range = [-20, 80]
poll_ms = 500
[[rule]]
name = "dark while slewing"
why = "the dye bleaches"
when = "both"
then = "safe_outputs"
require = "output.blind == 'closed' || stage.s.speed < 0.1"
[[rule]]
name = "deep focus"
when = "gate"
ask = "operator"
require = "move.target.s.x < 70000"
[budget]
max_step = { "s.x" = 500 }
moves_per_minute = 120
why = "the screw is slow"
"#;

#[test]
fn outputs_and_sensors_are_read_as_they_are_written() {
    let rig = read(&good()).unwrap_or_else(|p| panic!("{p}"));
    let lamp = rig.output("lamp").unwrap();
    assert_eq!((lamp.safe(), lamp.max), (Some(&OutputValue::Percent(Percent::ZERO)), Percent::new(80.0).unwrap()));
    assert_eq!((lamp.channel.as_str(), lamp.delay), ("lamp", Duration::from_millis(100)));
    let filter = rig.output("filter").unwrap();
    assert_eq!((filter.channel.as_str(), filter.positions.len(), &filter.on_stop), ("wheel", 2, &OnStop::Keep));
    assert_eq!(rig.output("blind").unwrap().channel, "flood", "a driver's first channel is the usual one");
    let turret = rig.output("turret").unwrap();
    assert_eq!((&turret.link, turret.confirm_within), (&None, Duration::from_secs(60)));
    let room = rig.sensor("room").unwrap();
    assert_eq!((room.kind, room.scale, room.range), (SensorKind::Analog, 0.1, Some((-20.0, 80.0))));
    let light = rig.cameras[0].light.as_ref().unwrap();
    assert_eq!((light.output.as_str(), &light.open), ("lamp", &OutputValue::Percent(Percent::new(30.0).unwrap())));
}

#[test]
fn what_becomes_of_an_output_at_a_stop_has_no_default() {
    check_in(
        &good(),
        &[
            ("on_stop = \"safe\"\nsafe = 0\n", "", "[[output]]", "`on_stop` is missing", "there is no default"),
            ("on_stop = \"safe\"\nsafe = 0\n", "on_stop = \"safe\"\n", "[[output]]", "`safe` is missing", "safe = 0"),
            ("safe = 0\n", "safe = 90\n", "", "`safe` = 90 % is out of range", "from 0 to 80 %"),
            ("safe = \"closed\"", "safe = \"shut\"", "", "can't be \"shut\"", "\"closed\""),
            (
                "on_stop = \"safe\"\nsafe = \"closed\"",
                "on_stop = \"keep\"\nsafe = \"closed\"",
                "safe = \"closed\"",
                "would never be used",
                "on_stop = \"safe\"",
            ),
            (
                "on_stop = \"keep\"\nconfirm_s",
                "on_stop = \"safe\"\nconfirm_s",
                "on_stop = \"safe\"\nconfirm_s",
                "by hand",
                "\"keep\"",
            ),
            ("max_percent = 80\n", "", "[[output]]", "`max_percent` is missing", "there is no default"),
            ("max_percent = 80\n", "max_percent = 101\n", "", "out of range", "from 0.1 to 100 %"),
        ],
    );
}

#[test]
fn kinds_channels_and_positions_are_judged() {
    check_in(
        &good(),
        &[
            (
                "kind = \"shutter\"",
                "kind = \"light\"",
                "",
                "driver grbl-coolant has no light",
                "\"shutter\" or \"line\"",
            ),
            ("kind = \"shutter\"", "kind = \"sluice\"", "", "can't be \"sluice\"", "\"shutter\""),
            (
                "kind = \"shutter\"",
                "kind = \"shutter\"\nchannel = \"oil\"",
                "channel = \"oil\"",
                "no channel of this driver",
                "\"flood\"",
            ),
            ("[\"dapi\", \"gfp\"]", "[\"dapi\"]", "", "at least two positions", "positions = ["),
            ("[\"dapi\", \"gfp\"]", "[\"dapi\", \"dapi\"]", "", "named twice", "a name of its own"),
            ("[\"dapi\", \"gfp\"]", "[\"DAPI 1\", \"gfp\"]", "", "is not a name", "\"dapi-1\""),
            (
                "positions = [\"dapi\", \"gfp\"]\n",
                "",
                "[[output]]\nid = \"filter\"",
                "`positions` is missing",
                "in its own order",
            ),
            ("delay_ms = 100", "delay_ms = -1", "", "`delay_ms` = -1 ms", "from 0"),
            (
                "confirm_s = 60",
                "confirm_s = 60\nlink = \"box\"",
                "link = \"box\"\n[[sensor]]",
                "no meaning",
                "remove it",
            ),
            ("confirm_s = 60", "confirm_s = 60\nchannel = \"1\"", "channel = \"1\"", "only one", "remove it"),
            ("delay_ms = 100", "confirm_s = 100", "", "no person is asked", "remove it"),
            ("delay_ms = 100", "dealy_ms = 100", "", "unknown key \"dealy_ms\"", "`delay_ms`"),
            ("channel = \"wheel\"", "channel = \"lamp\"", "", "channel \"lamp\" is used on line", "name for it"),
            (
                "link = \"port\"\nkind = \"shutter\"",
                "link = \"box\"\nkind = \"shutter\"",
                "",
                "cannot share",
                "of its own",
            ),
            ("id = \"blind\"", "id = \"cam\"", "", "there is a device \"cam\"", "a name of its own"),
            ("light_percent = 30", "", "light = \"lamp\"", "`light_percent` is missing", "light_percent = 30"),
            ("light_percent = 30", "light_percent = 90", "", "out of range", "80 %"),
            ("light = \"lamp\"\nlight_percent = 30", "light = \"filter\"", "", "a wheel and no light", "a shutter"),
            (
                "light = \"lamp\"\nlight_percent = 30",
                "light = \"turret\"",
                "",
                "no exposure waits for a person",
                "remove",
            ),
            (
                "light = \"lamp\"\nlight_percent = 30",
                "light = \"blind\"\nlight_percent = 3",
                "light_percent",
                "has no percent",
                "remove",
            ),
        ],
    );
}

#[test]
fn sensors_are_judged() {
    check_in(
        &good(),
        &[
            ("unit = \"degC\"\n", "", "[[sensor]]", "`unit` is missing", "unit = \"degC\""),
            ("range = [-20, 80]", "", "[[sensor]]", "`range` is missing", "told as a fault"),
            ("range = [-20, 80]", "range = [80, -20]", "", "empty or reversed", "lower end first"),
            ("scale = 0.1", "scale = 0", "", "would make all values one", "multiplied"),
            ("poll_ms = 500", "poll_ms = 1", "", "`poll_ms` = 1 ms", "50"),
            (
                "kind = \"analog\"\nunit = \"degC\"\nscale = 0.1\nrange = [-20, 80]",
                "kind = \"digital\"\nunit = \"V\"",
                "unit = \"V\"",
                "a digital sensor has no `unit`",
                "remove it",
            ),
        ],
    );
}
