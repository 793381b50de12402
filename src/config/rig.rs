//! What a rig file says once it has been read and checked: every limit present, every name resolved.

use std::path::PathBuf;
use std::time::Duration;

use super::condition::Condition;
use crate::model::{
    Allowance, AxisId, AxisStatus, CameraChange, Name, OutputKind, OutputValue, SensorKind, StageStatus, Trust,
};
use crate::units::{Distance, Percent, Position, Span, Speed, Unit};

/// A whole rig. It can only be had from [`crate::config::load`], so it is always consistent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rig {
    /// Its name, in every result.
    pub name: Name,
    /// The file it was read from; `None` for the built-in demonstration.
    pub file: Option<PathBuf>,
    /// The axes that region and series tools mean by x, y and focus.
    pub scan: Option<Scan>,
    /// Connections.
    pub links: Vec<Link>,
    /// Stages.
    pub stages: Vec<Stage>,
    /// Cameras.
    pub cameras: Vec<Camera>,
    /// Outputs.
    pub outputs: Vec<Output>,
    /// Sensors.
    pub sensors: Vec<Sensor>,
    /// Boxes that no carriage may enter.
    pub keep_outs: Vec<KeepOut>,
    /// Conditions that must hold.
    pub rules: Vec<Rule>,
    /// `[budget]`.
    pub budget: Budget,
    /// `[calls]`.
    pub calls: Calls,
    /// `[approvals]`.
    pub approvals: Approvals,
    /// `[images]`.
    pub images: Images,
    /// `[log]`.
    pub log: Log,
    /// `[eaa]`, if that face is on.
    pub eaa: Option<Eaa>,
}

impl Rig {
    /// The stage of that name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|s| s.id.as_str() == name)
    }

    /// The camera of that name.
    pub fn camera(&self, name: &str) -> Option<&Camera> {
        self.cameras.iter().find(|c| c.id.as_str() == name)
    }

    /// The link of the device of that name; `None` also where a person does it by hand, or a folder is played.
    pub fn link_of(&self, device: &str) -> Option<&Name> {
        let camera = || self.camera(device).and_then(|c| c.link.as_ref());
        let output = || self.output(device).and_then(|o| o.link.as_ref());
        let sensor = || self.sensor(device).map(|s| &s.link);
        self.stage(device).map(|s| &s.link).or_else(camera).or_else(output).or_else(sensor)
    }

    /// The devices on that link.
    pub fn on_link(&self, link: &Name) -> Vec<&Name> {
        self.devices().filter(|d| self.link_of(d.as_str()) == Some(link)).collect()
    }

    /// The output of that name.
    pub fn output(&self, name: &str) -> Option<&Output> {
        self.outputs.iter().find(|o| o.id.as_str() == name)
    }

    /// The sensor of that name.
    pub fn sensor(&self, name: &str) -> Option<&Sensor> {
        self.sensors.iter().find(|s| s.id.as_str() == name)
    }

    /// The names of all devices: stages, cameras, outputs, sensors.
    pub fn devices(&self) -> impl Iterator<Item = &Name> {
        let stages = self.stages.iter().map(|s| &s.id).chain(self.cameras.iter().map(|c| &c.id));
        stages.chain(self.outputs.iter().map(|o| &o.id)).chain(self.sensors.iter().map(|s| &s.id))
    }

    /// The axis of that name.
    pub fn axis(&self, id: &AxisId) -> Option<&Axis> {
        self.stage(id.stage.as_str())?.axis(id.axis.as_str())
    }

    /// The link of that name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|l| l.id.as_str() == name)
    }
}

/// `scan = { x = "sample.x", y = "sample.y", focus = "sample.z", unit = "um" }`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// To the right in a region's coordinates.
    pub x: AxisId,
    /// Upwards in a region's coordinates.
    pub y: AxisId,
    /// Along the optical axis.
    pub focus: Option<AxisId>,
    /// The unit of regions.
    pub unit: Unit,
}

/// One connection.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its name.
    pub id: Name,
    /// Where it leads.
    pub port: Port,
    /// Bits per second of a serial port; 0 over TCP, where it has no meaning.
    pub baud: u32,
    /// What DTR is set to on opening (`None`: the line is left as the operating system has it). Many
    /// boards reset when it changes.
    pub dtr: Option<bool>,
    /// Likewise RTS.
    pub rts: Option<bool>,
}

/// Where a link leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Port {
    /// A serial port by its path: `/dev/ttyUSB0`, `COM5`.
    Path(String),
    /// A serial port by its USB identity; the port of that identity must be the only one.
    Usb {
        /// Vendor.
        vid: u16,
        /// Product.
        pid: u16,
        /// Serial number, needed where two adapters are alike.
        number: Option<String>,
    },
    /// `host:port`.
    Tcp(String),
}

/// One stage: the axes of one controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Its name.
    pub id: Name,
    /// The driver's name, a row of `devices::DRIVERS`.
    pub driver: String,
    /// Its link.
    pub link: Name,
    /// The axes, in the file's order.
    pub axes: Vec<Axis>,
    /// How it finds its reference.
    pub home: Homing,
    /// The owner's words about it.
    pub why: Option<String>,
}

impl Stage {
    /// The axis of that name.
    pub fn axis(&self, name: &str) -> Option<&Axis> {
        self.axes.iter().find(|a| a.id.axis.as_str() == name)
    }
}

/// One axis. Positions are rig coordinates: `sign × controller's counter + origin`.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its full name.
    pub id: AxisId,
    /// The controller's name for it (`channel`, default the axis's own name).
    pub channel: String,
    /// How far one count of the controller goes (`counts_per_unit`), for controllers that only count.
    pub count: Option<Distance>,
    /// The unit in which it is spoken of.
    pub unit: Unit,
    /// +1 or −1.
    pub sign: f64,
    /// Rig position at the controller's zero.
    pub origin: Distance,
    /// Where it may be.
    pub travel: Span,
    /// How fast it may go.
    pub max_speed: Speed,
    /// How fast it slows down when it is stopped, in base units per s², where the owner says so.
    pub acceleration: Option<f64>,
    /// How near to its target it must come to rest.
    pub tolerance: Distance,
    /// The least trust that an absolute move needs.
    pub trust: Trust,
    /// The direction that brings the sample and the optics together: +1, −1, or none.
    pub toward_sample: Option<f64>,
    /// The side from which targets are approached, so that backlash is always taken up the same way:
    /// +1, the last part of each move goes up; −1, it goes down.
    pub approach: Option<Approach>,
    /// How long it stands still before a picture counts.
    pub settle: Duration,
    /// How far a person may let it go slowly while nobody knows where it stands; never without it.
    pub blind_step: Option<Distance>,
    /// Whether it stays where it is without power.
    pub holds_unpowered: bool,
    /// The owner's words about its limits.
    pub why: Option<String>,
}

impl Axis {
    /// The rig position for a controller's counter, in the base unit (mm or degree).
    pub fn to_rig(&self, counter: f64) -> Option<Position> {
        Position::base(self.sign * counter + self.origin.in_base()).ok()
    }

    /// The controller's counter for a rig position, in the base unit.
    pub fn to_counter(&self, rig: Position) -> f64 {
        (rig.in_base() - self.origin.in_base()) * self.sign
    }
}

/// How a target is approached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Approach {
    /// The direction of the last part of the move: +1 or −1.
    pub direction: f64,
    /// How far before the target it turns.
    pub overshoot: Distance,
}

/// How a stage finds its reference.
#[derive(Debug, Clone, PartialEq)]
pub enum Homing {
    /// The controller's own homing cycle.
    Cycle {
        /// The axes in the order in which the controller homes them, as `describe_rig` shows it. The keep-out
        /// judgement takes every axis that homes as its whole travel.
        order: Vec<Name>,
        /// How long it may take.
        timeout: Duration,
        /// Whether a person is asked each time.
        ask: bool,
    },
    /// There is none: a person declares where the axes stand.
    Never,
}

/// One camera.
#[derive(Debug, Clone, PartialEq)]
pub struct Camera {
    /// Its name.
    pub id: Name,
    /// The driver's name.
    pub driver: String,
    /// Its link; `None` where it plays a folder.
    pub link: Option<Name>,
    /// The folder that it plays.
    pub folder: Option<PathBuf>,
    /// Micrometres on the sample per unbinned pixel.
    pub pixel_size_um: f64,
    /// The axis and sign along which the picture's columns run, e.g. `+sample.x`.
    pub right: Option<(f64, AxisId)>,
    /// The axis and sign along which the picture's rows run upwards.
    pub up: Option<(f64, AxisId)>,
    /// Settings applied when it connects.
    pub start: CameraChange,
    /// The light that is opened for each exposure.
    pub light: Option<Light>,
}

/// The light of a camera.
#[derive(Debug, Clone, PartialEq)]
pub struct Light {
    /// The output.
    pub output: Name,
    /// To what it is opened where no light passes. One that lets light through already stays as it is.
    pub open: OutputValue,
}

/// One output: a shutter, a light, a wheel, a digital line.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Its name.
    pub id: Name,
    /// The driver's name.
    pub driver: String,
    /// Its link; `None` where a person does it by hand.
    pub link: Option<Name>,
    /// What it is.
    pub kind: OutputKind,
    /// The device's own name for it.
    pub channel: String,
    /// The names of a wheel's positions in the wheel's order; of other kinds empty.
    pub positions: Vec<Name>,
    /// The most that a light may be set to.
    pub max: Percent,
    /// What becomes of it when everything is stopped.
    pub on_stop: OnStop,
    /// How long after a change it takes until the change counts: a shutter's travel, a lamp's warming.
    pub delay: Duration,
    /// How long a person is waited for who does it by hand.
    pub confirm_within: Duration,
    /// The owner's words about it.
    pub why: Option<String>,
}

impl Output {
    /// What it is made safe to, if it is.
    pub fn safe(&self) -> Option<&OutputValue> {
        match &self.on_stop {
            OnStop::Safe(value) => Some(value),
            OnStop::Keep => None,
        }
    }
}

/// What becomes of an output at a stop of everything, at the end of the program, and when its device comes back
/// after the connection was lost.
#[derive(Debug, Clone, PartialEq)]
pub enum OnStop {
    /// It is set to this.
    Safe(OutputValue),
    /// It stays as it is.
    Keep,
}

/// One sensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensor {
    /// Its name.
    pub id: Name,
    /// The driver's name.
    pub driver: String,
    /// Its link.
    pub link: Name,
    /// What it is.
    pub kind: SensorKind,
    /// The device's own name for it.
    pub channel: String,
    /// The unit of an analog sensor's values, in the owner's words; empty for a digital one.
    pub unit: String,
    /// What the device's number is multiplied by.
    pub scale: f64,
    /// What is added after that, in the unit.
    pub offset: f64,
    /// Lowest and highest value that an analog sensor can have when it works, in the unit.
    pub range: Option<(f64, f64)>,
    /// How often it is read.
    pub poll: Duration,
    /// The owner's words about it.
    pub why: Option<String>,
}

/// A volume that no carriage may enter: the union of its boxes.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepOut {
    /// Its name.
    pub name: String,
    /// Boxes; an axis that a box doesn't name is not bounded by it. Each names at least one axis.
    pub boxes: Vec<Vec<(AxisId, Span)>>,
    /// Distance kept from it along each axis. Zero wherever a box names an axis that turns.
    pub margin: Distance,
    /// The owner's words.
    pub why: Option<String>,
}

/// A condition over the whole rig.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// The owner's words.
    pub why: Option<String>,
    /// When it is judged.
    pub when: When,
    /// What is done when it trips.
    pub then: Then,
    /// Whether a person is asked instead of refusing.
    pub ask: bool,
    /// What must hold.
    pub require: Condition,
}

/// When a rule is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before a move, a homing, an exposure or a change of an output.
    Gate,
    /// All the time: it trips.
    Watch,
    /// Both.
    Both,
}

impl When {
    /// Whether it is judged before something happens.
    pub fn is_gate(self) -> bool {
        self != When::Watch
    }

    /// Whether it is watched.
    pub fn is_watch(self) -> bool {
        self != When::Gate
    }
}

/// What is done when a watch trips.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Everything that moves is stopped, and the stop latches.
    Stop,
    /// Every output is made safe that has a safe value.
    SafeOutputs,
}

/// `[budget]`: how much may be asked for. What it doesn't name is not limited by it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    /// How far an axis may go in one move.
    pub max_step: Vec<(AxisId, Distance)>,
    /// How many moves may begin within a minute.
    pub moves_per_minute: Option<u32>,
    /// How far an axis may be sent within an hour, to and fro together.
    pub travel_per_hour: Vec<(AxisId, Distance)>,
    /// How much light a light may give within an hour, in percent times seconds.
    pub light_dose: Vec<(Name, f64)>,
    /// What must stay free on the disk of the pictures, in bytes.
    pub min_free: Option<u64>,
    /// The owner's words.
    pub why: Option<String>,
}

/// `[calls]`: how long things may take.
#[derive(Debug, Clone, PartialEq)]
pub struct Calls {
    /// After this a call answers with a job.
    pub wait: Duration,
    /// The most that a caller may ask for.
    pub max_wait: Duration,
    /// How long a command may wait for its turn.
    pub queue_deadline: Duration,
    /// How old a reading may be that a motion is judged by.
    pub fresh: Duration,
    /// What becomes of a job whose client has gone.
    pub on_client_lost: OnClientLost,
}

/// `[approvals]`: how a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approvals {
    /// How long a command waits for a person.
    pub wait: Duration,
    /// Whether what a client's user answers to an elicitation counts as a person's word.
    pub elicitation: bool,
}

/// What becomes of a job when the client goes to whom its number was given. A call that is still waited for stops
/// with its caller in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnClientLost {
    /// It stops, and with it what it moves.
    #[default]
    Stop,
    /// It goes on, as long as a person has a way to stop it.
    Continue,
}

/// `[images]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// Where pictures go; `None`: the documents folder. What the file gives relatively is taken from its own folder.
    pub dir: Option<PathBuf>,
    /// How a path here is written for a client on another machine: prefix here, prefix there.
    pub path_map: Vec<(String, String)>,
    /// The longer side of a preview, in pixels.
    pub preview_px: u32,
    /// The most base64 characters of a preview.
    pub preview_chars: usize,
    /// Raw data as this.
    pub raw: Raw,
}

/// The container of raw data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raw {
    /// TIFF.
    Tiff,
    /// NPY, the default under `[eaa]`.
    Npy,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Log {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
}

/// `[eaa]`: the tools that EAA's logic-driven workflows call.
#[derive(Debug, Clone, PartialEq)]
pub struct Eaa {
    /// The camera that `acquire_image` uses.
    pub camera: Name,
    /// Whether arrays carry the older form beside the newer one (eaa-core 1.0.0).
    pub legacy_arrays: bool,
    /// What the entries of `set_parameters` are.
    pub parameters: Vec<Parameter>,
    /// Arrays larger than this are refused, and `export_array` named.
    pub max_array_bytes: usize,
}

/// One entry of `set_parameters`.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// The position of an axis, in that unit.
    Axis(AxisId, Unit),
    /// The camera's exposure in milliseconds.
    ExposureMs,
    /// The camera's gain.
    Gain,
}

impl Rig {
    /// A position of `axis`, as people read it: `12.5 mm`.
    pub fn show(&self, axis: &AxisId, position: Position) -> String {
        let unit = self.axis(axis).map_or(Unit::Mm, |a| a.unit);
        format!("{} {unit}", crate::units::plain(position.to(unit)))
    }

    /// What a person has allowed beforehand, in words, with how many commands are left of it.
    pub fn show_allowance(&self, allowance: &Allowance) -> String {
        let allowed = &allowance.allowed;
        let range = |(id, span): &(AxisId, Span)| {
            let unit = self.axis(id).map_or(Unit::Mm, |a| a.unit);
            let [low, high] = [span.low, span.high].map(|p| crate::units::plain(p.to(unit)));
            format!("{id} {low} to {high} {unit}")
        };
        let bounds: Vec<String> = allowed.bounds.iter().map(range).collect();
        let kinds: Vec<&str> = allowed.kinds.iter().map(|k| k.word()).collect();
        let on = allowed.stage.as_ref().map_or(String::new(), |s| format!(" of {s}"));
        let within = if bounds.is_empty() { String::new() } else { format!(" within {}", bounds.join(", ")) };
        let commands = if allowance.left == 1 { "command" } else { "commands" };
        format!("{}{on}{within}, {} {commands}", kinds.join(", "), allowance.left)
    }

    /// Where a stage stands, as a sentence.
    pub fn stands(&self, status: &StageStatus) -> String {
        let axis = |a: &AxisStatus| {
            let id = AxisId { stage: status.stage.clone(), axis: a.axis.clone() };
            let at = a.position.map_or_else(|| "at an unknown position".to_owned(), |p| self.show(&id, p));
            format!("{} {at}", a.axis)
        };
        let axes: Vec<String> = status.axes.iter().map(axis).collect();
        format!("It stands at {}.", axes.join(", "))
    }
}
