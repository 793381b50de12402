//! What a device is to the rig thread: traits without waiting, the events that drivers report, and the one
//! table of drivers.

mod asi;
mod folder;
mod grbl;
pub mod link;
mod make;
mod manual;
mod outputs;
pub mod settings;
mod shared;
mod simcam;
mod simio;
mod survey;
mod zaber;

use std::sync::LazyLock;
use std::time::Duration;

use crate::config::{self, AxisRules, Channels, Kind, KnownDriver};
use crate::interlocks::{Cleared, Drive, HomeDrive, StageTraits};
use crate::model::{
    CameraChange, CameraSettings, Code, Evidence, Identity, LinkStatus, OutputKind, Pixels, RigError, SensorKind,
    Source, Time, Told, ToldAxis,
};
use crate::units::{Distance, Position, Speed};
use link::{Connector, StopScript};
pub use make::{Devices, make};
pub use outputs::{Output, OutputEvent, Sensor, SensorEvent};
use settings::Keeping;
pub use survey::{Survey, Surveyed, survey};

/// What a driver's codec makes of bytes that come in pieces, frame by frame, for tests that send anything; `None` for a
/// driver whose codec is part of it.
#[doc(hidden)]
pub fn frames(driver: &str, pieces: &[&[u8]]) -> Option<Vec<String>> {
    match driver {
        "grbl" => Some(grbl::frames(pieces)),
        "zaber" => Some(zaber::frames(pieces)),
        _ => None,
    }
}

/// A driver: one row of [`DRIVERS`].
pub struct Driver {
    /// Its name in the rig file.
    pub name: &'static str,
    /// What it drives, for `describe_rig`.
    pub what: &'static str,
    /// On what the claim rests that it works.
    pub evidence: Evidence,
    /// Whether what it drives is a simulation.
    pub simulated: bool,
    /// The drivers of one family share links: one engine speaks for all devices on a link. `None`: its device has a
    /// link of its own.
    pub family: Option<Family>,
    /// What `flash` can do with the settings of its controllers; `None`: nothing.
    pub keeping: Option<&'static Keeping>,
    /// How a device of it is made.
    pub open: Open,
}

/// Drivers whose devices may share a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// How many stages it may have on one link.
    pub stages_per_link: usize,
}

/// The devices that the rig file puts on one link, each kind in the file's order.
#[derive(Default)]
pub struct OnLink<'a> {
    /// Its stages.
    pub stages: Vec<&'a config::Stage>,
    /// Its outputs.
    pub outputs: Vec<&'a config::Output>,
    /// Its sensors.
    pub sensors: Vec<&'a config::Sensor>,
}

/// The devices of one link, in the order of [`OnLink`].
#[derive(Default)]
pub struct Made {
    /// Its stages.
    pub stages: Vec<Box<dyn Stage>>,
    /// Its outputs.
    pub outputs: Vec<Box<dyn Output>>,
    /// Its sensors.
    pub sensors: Vec<Box<dyn Sensor>>,
}

/// What an identity notes of a controller that was locked then; it goes when that is over.
pub(crate) const WAS_LOCKED: &str = "It was locked when it was identified; home or clear_fault unlocks it.";

/// Makes all devices on one link; opens nothing yet. Devices that share a link share its one connection.
pub type Engine = fn(&OnLink<'_>, Box<dyn Connector>) -> Made;

/// How a driver makes its device.
pub enum Open {
    /// A stage.
    Stage {
        /// What interlocks need to know of it.
        traits: StageTraits,
        /// Where its positions come from.
        source: Source,
        /// What its axes must say in the rig file.
        axes: AxisRules,
        /// Makes it, together with what else is on its link.
        engine: Engine,
    },
    /// A camera.
    Camera {
        /// Makes it; opens nothing yet.
        make: fn(&config::Camera, Box<dyn Connector>) -> Box<dyn Camera>,
    },
    /// A camera that plays a folder; it has no link.
    Folder {
        /// Makes it; opens nothing yet.
        make: fn(&config::Camera) -> Box<dyn Camera>,
    },
    /// An output.
    Output {
        /// What it can be.
        kinds: &'static [OutputKind],
        /// What names its channels have.
        channels: Channels,
        /// Makes it, together with what else is on its link.
        engine: Engine,
    },
    /// An output that a person changes; it has no link.
    ByHand {
        /// What it can be.
        kinds: &'static [OutputKind],
        /// Makes it.
        make: fn(&config::Output) -> Box<dyn Output>,
    },
    /// A sensor.
    Sensor {
        /// What it can be.
        kinds: &'static [SensorKind],
        /// What names its channels have.
        channels: Channels,
        /// Makes it, together with what else is on its link.
        engine: Engine,
    },
}

/// All drivers.
pub const DRIVERS: &[Driver] = &[
    grbl::DRIVER,
    grbl::COOLANT,
    grbl::SPINDLE,
    grbl::PINS,
    zaber::DRIVER,
    asi::DRIVER,
    manual::DRIVER,
    simcam::DRIVER,
    folder::DRIVER,
    simio::DRIVER,
    simio::SENSOR,
];

/// The driver of that name.
pub fn driver(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|d| d.name == name)
}

/// All drivers, for reading rig files.
pub fn known() -> config::KnownDrivers {
    static KNOWN: LazyLock<Vec<KnownDriver>> = LazyLock::new(|| DRIVERS.iter().map(Driver::known).collect());
    config::KnownDrivers(KNOWN.as_slice())
}

impl Driver {
    fn known(&self) -> KnownDriver {
        let alone = |kind| KnownDriver::alone(self.name, kind);
        let known = match self.open {
            Open::Stage { axes, .. } => KnownDriver { axes, ..alone(Kind::Stage) },
            Open::Camera { .. } => alone(Kind::Camera),
            Open::Folder { .. } => KnownDriver { plays_folder: true, ..alone(Kind::Camera) },
            Open::Output { kinds, channels, .. } => KnownDriver { outputs: kinds, channels, ..alone(Kind::Output) },
            Open::ByHand { kinds, .. } => {
                KnownDriver { outputs: kinds, channels: Channels::One, by_hand: true, ..alone(Kind::Output) }
            }
            Open::Sensor { kinds, channels, .. } => KnownDriver { sensors: kinds, channels, ..alone(Kind::Sensor) },
        };
        KnownDriver {
            family: self.family.map(|f| f.name),
            stages_per_link: self.family.map_or(1, |f| f.stages_per_link),
            ..known
        }
    }

    /// What makes all devices of a link on which this driver's device is.
    fn engine(&self) -> Option<Engine> {
        match self.open {
            Open::Stage { engine, .. } | Open::Output { engine, .. } | Open::Sensor { engine, .. } => Some(engine),
            Open::Camera { .. } | Open::Folder { .. } | Open::ByHand { .. } => None,
        }
    }
}

/// The axes of one controller. No call waits: what takes time is carried on by [`Stage::tick`].
pub trait Stage: Send {
    /// Takes bytes that are there, writes what is due, reports what happened, and says when it wants to be
    /// ticked again.
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time;

    /// Asks the controller for a reading; it comes as [`StageEvent::Reading`].
    fn poll(&mut self, now: Time);

    /// Starts a motion. [`StageEvent::Accepted`] tells that the controller took it.
    ///
    /// # Errors
    /// When it can't be sent at all; nothing moves then.
    fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError>;

    /// Starts homing; [`StageEvent::Homed`] or [`StageEvent::Refused`] ends it.
    ///
    /// # Errors
    /// When it can't be sent at all; nothing moves then.
    fn home(&mut self, order: Cleared<'_, HomeDrive>, now: Time) -> Result<(), RigError>;

    /// Hands the bytes that stop the axes to the operating system, past everything else, and keeps at it until
    /// they stand still. `false` when the bytes could not be handed over.
    fn stop(&mut self, now: Time) -> bool;

    /// Stops by what the controller can't ignore, at the price of its position. `false` as for
    /// [`Stage::stop`].
    fn halt(&mut self, now: Time) -> bool;

    /// What stops the axes past this driver, whatever it and the controller are doing then. It is asked before each motion
    /// that begins, and after each that has ended; `homing` when the axes are about to search their reference.
    fn stop_script(&self, homing: bool) -> StopScript;

    /// Releases the controller's lock after an alarm. Moves nothing.
    fn recover(&mut self, now: Time);

    /// The state of its connection.
    fn link(&self) -> LinkStatus;

    /// Lets go of the port.
    fn close(&mut self);
}

/// What a stage's driver reports.
#[derive(Debug, Clone, PartialEq)]
pub enum StageEvent {
    /// The controller is there and known.
    Online(Box<StageFacts>),
    /// The connection is gone; the driver tries to open it again by itself.
    Offline {
        /// `unplugged`, `not_responding` or `not_connected`.
        code: Code,
        /// What happened.
        what: String,
    },
    /// It is not identified yet, but it moves, though nothing here told it to.
    Stirring,
    /// A reading.
    Reading(Reading),
    /// The controller took the motion that was sent.
    Accepted,
    /// The controller refused it; nothing of it runs.
    Refused {
        /// `controller_refused`, or what fits better.
        code: Code,
        /// What it said.
        what: String,
    },
    /// It is not known whether the controller took it, or what it does of it: it must be stopped.
    Unanswered {
        /// What was sent and how long was waited.
        what: String,
    },
    /// Homing ended well.
    Homed,
    /// Homing ended without a reference.
    HomingFailed {
        /// What the controller said.
        what: String,
    },
    /// The controller locked itself.
    Alarm {
        /// What it means.
        what: String,
        /// Whether its position can't be believed any more.
        position_lost: bool,
    },
    /// The position can't be believed any more, by our own doing: a reset in motion.
    PositionLost {
        /// Why.
        what: String,
    },
    /// The controller moves, but not as it was told: bytes were lost on the way. It must be stopped.
    Astray {
        /// How it was noticed.
        what: String,
    },
    /// The controller restarted without being told to.
    Reset {
        /// How it was noticed.
        what: String,
    },
    /// The lock is released, or there was none.
    Recovered,
    /// The lock could not be released.
    NotRecovered {
        /// Why.
        what: String,
    },
    /// Worth a line in the log.
    Note(String),
    /// The motion in progress ended for that reason, or went on only in part; what of it still moves must be stopped.
    Ended {
        /// `stopped`, `controller_refused`, or what fits better.
        code: Code,
        /// What happened, and what had begun to move.
        what: String,
    },
    /// An axis can't go on: a fault, which ends the motion in progress and must be cleared.
    Failed {
        /// `stalled`, `alarm`, or what fits better.
        code: Code,
        /// What the controller said.
        what: String,
        /// Whether its position can't be believed any more.
        position_lost: bool,
    },
}

/// What a driver learns when it identifies a controller.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StageFacts {
    /// What it is.
    pub identity: Identity,
    /// The controller's own speed limit for each axis, where it tells.
    pub max_speed: Vec<Option<Speed>>,
    /// The smallest step of each axis, where it tells.
    pub resolution: Vec<Option<Distance>>,
    /// Where each axis's positions come from, where the controller tells; the driver's own word counts otherwise.
    pub sources: Vec<Option<Source>>,
    /// Axes of which the controller itself says that it has lost their reference: what it counts agrees with nothing.
    pub unreferenced: Vec<bool>,
    /// How long the travel of each axis is, by the controller's own setting.
    pub travel: Vec<Option<Distance>>,
    /// Between which counts (base unit) each axis lets itself be moved once it is homed.
    pub range: Vec<Option<[f64; 2]>>,
    /// The count (base unit) of each axis right after homing.
    pub home: Vec<Option<f64>>,
    /// How fast each axis speeds up and slows down, in base units per s².
    pub acceleration: Vec<Option<f64>>,
    /// Whether the controller's homing cycle is switched on.
    pub homes: Option<bool>,
    /// Whether its motors stay powered while it rests.
    pub powered_at_rest: Option<bool>,
    /// Whether a limit switch that is met in a move is an alarm.
    pub hard_limits: Option<bool>,
    /// What its counts mean, beyond what they are: settings with which the same count is another place. A position is not
    /// restored when it has changed.
    pub meaning: String,
    /// The controller's names of axes that its homing cycle moves, too, though the rig file doesn't have them.
    pub homes_also: Vec<String>,
}

impl StageFacts {
    /// The same for the published state, of so many axes.
    pub fn told(&self, axes: usize) -> Told {
        let axis = |i: usize| ToldAxis {
            max_speed: self.max_speed.get(i).copied().flatten(),
            step: self.resolution.get(i).copied().flatten(),
            travel: self.travel.get(i).copied().flatten(),
            range: self.range.get(i).copied().flatten(),
            home: self.home.get(i).copied().flatten(),
            acceleration: self.acceleration.get(i).copied().flatten(),
        };
        Told {
            axes: (0..axes).map(axis).collect(),
            homes: self.homes,
            powered_at_rest: self.powered_at_rest,
            hard_limits: self.hard_limits,
            homes_also: self.homes_also.clone(),
        }
    }
}

/// Where the axes are and what they do, as the controller answered one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When the question was asked: what it says is at least that new.
    pub asked_at: Time,
    /// What the controller does.
    pub motion: MotionState,
    /// Rig positions of the stage's axes in the rig file's order; `None` where not known.
    pub positions: Vec<Option<Position>>,
    /// Whether a limit switch of the axis is pressed.
    pub at_limit: Vec<bool>,
}

/// What a controller does, in the words that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MotionState {
    /// Nothing: it would take a motion.
    Idle,
    /// It moves.
    Moving,
    /// It homes.
    Homing,
    /// It stands but would not take a motion: hold, door, check mode, sleep.
    Held(String),
    /// It is locked by an alarm.
    Locked,
}

/// A camera. No call waits.
pub trait Camera: Send {
    /// Takes bytes that are there, reports what happened, and says when it wants to be ticked again.
    fn tick(&mut self, now: Time, out: &mut Vec<CameraEvent>) -> Time;

    /// Changes settings; [`CameraEvent::Settings`] or [`CameraEvent::Failed`] answers.
    fn set(&mut self, change: &CameraChange, now: Time);

    /// Starts an exposure that begins after this call; [`CameraEvent::Frame`] or [`CameraEvent::Failed`]
    /// answers.
    fn shoot(&mut self, now: Time);

    /// Ends an exposure; no frame comes.
    fn abort(&mut self, now: Time);

    /// How long an exposure with these settings may take until its frame is here.
    fn patience(&self) -> Duration;

    /// The state of its connection.
    fn link(&self) -> LinkStatus;

    /// Lets go of it.
    fn close(&mut self);
}

/// What a camera's driver reports.
#[derive(Debug, Clone, PartialEq)]
pub enum CameraEvent {
    /// It is there and known.
    Online(Identity, CameraSettings),
    /// The connection is gone; the driver tries to open it again by itself.
    Offline {
        /// `unplugged`, `not_responding` or `not_connected`.
        code: Code,
        /// What happened.
        what: String,
    },
    /// The settings as they are now.
    Settings(CameraSettings),
    /// A whole frame.
    Frame(Box<RawFrame>),
    /// The last order failed.
    Failed {
        /// `camera_failed`, `invalid_argument`, `not_responding`.
        code: Code,
        /// What the camera said.
        what: String,
    },
}

/// A frame as the camera delivered it.
#[derive(Debug, Clone, PartialEq)]
pub struct RawFrame {
    /// The pixels.
    pub pixels: Pixels,
    /// How many bits of each carry signal.
    pub significant_bits: u32,
    /// The settings under which it was taken.
    pub settings: CameraSettings,
    /// The camera's own count.
    pub sequence: u64,
}
