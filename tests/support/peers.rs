//! The protocols as peers: for each a rig whose stage `scope` has axes x, y and z, and the bench that it drives.

use hw_sim::{ASI_TOML, MICROSCOPE_TOML};
use steadyhand::model::Trust;

use super::{Lab, stage_only};

/// A protocol: a rig whose stage `scope` has axes x, y and z, and the bench that it drives.
pub struct Peer {
    pub name: &'static str,
    pub rig: fn() -> String,
    pub bench: fn() -> String,
    /// Whether it finds its reference by itself; otherwise a person declares where it stands.
    pub homes: bool,
    /// A part of the message that begins a motion.
    pub motion: &'static [u8],
    /// A part of the message that stops one.
    pub stop: &'static [u8],
    /// Inside the rig file's travel of x, outside the controller's own.
    pub beyond: f64,
    /// What looks like an answer, and is none to anything that was asked.
    pub lies: &'static [&'static [u8]],
}

pub const PEERS: &[Peer] = &[
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
    pub fn trust(&self) -> Trust {
        if self.homes { Trust::Referenced } else { Trust::Assumed }
    }

    /// Makes known where the stage stands.
    pub fn reference(&self, lab: &mut Lab) {
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
