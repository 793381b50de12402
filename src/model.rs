//! The words that all layers share: names, times, moves, states, frames, errors. Facts only, no behaviour.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ndarray::Array2;
use serde::{Deserialize, Serialize};

use crate::units::{Distance, Position, Unit};

mod approvals;
mod outputs;
mod text;

pub use approvals::{Allowance, Allowed, Approval, Ask, Digest, Kind};
pub use outputs::{OutputKind, OutputStatus, OutputValue, SensorKind, SensorStatus, SensorValue, SetOutput};
pub use text::harmless;

/// The name of a device, axis, job, or saved position: `[a-z0-9_-]`, at most 32 characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in characters.
    pub const MAX: usize = 32;

    /// Whether `text` may be a name.
    pub fn is_valid(text: &str) -> bool {
        !text.is_empty()
            && text.len() <= Name::MAX
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    }

    /// A name; the text has been checked with [`Name::is_valid`] where it came from outside.
    pub fn new(text: &str) -> Name {
        Name(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// One axis of one stage, written `stage.axis`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisId {
    /// The stage.
    pub stage: Name,
    /// Its axis.
    pub axis: Name,
}

impl AxisId {
    /// The axis `axis` of `stage`.
    pub fn new(stage: &str, axis: &str) -> AxisId {
        AxisId { stage: Name::new(stage), axis: Name::new(axis) }
    }
}

impl fmt::Display for AxisId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.axis)
    }
}

/// A moment on the program's monotonic clock: time since it started. Tests hand out their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(pub Duration);

impl Time {
    /// The start of the clock.
    pub const ZERO: Time = Time(Duration::ZERO);

    /// How long ago `earlier` was; zero if it is later.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d))
    }
}

/// The number of a stage's state on which a decision rests. It grows at the start and the end of the
/// stage's motion and with each change of reference, limit or fault; a poll leaves it alone. Its start
/// value comes from the wall clock, so that none comes again after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

/// Whether hardware moved because of what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Moved {
    /// Certainly not.
    No,
    /// Certainly.
    Yes,
    /// The connection broke at a moment that leaves it open.
    Unknown,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moved::No => "no",
            Moved::Yes => "yes",
            Moved::Unknown => "unknown",
        })
    }
}

/// How far a position may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Nothing is known: the controller was reset, unplugged or stalled.
    Unknown,
    /// A person declared it.
    Assumed,
    /// Disk and controller agreed after a restart.
    Restored,
    /// Found by homing, and unbroken since.
    Referenced,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trust::Unknown => "unknown",
            Trust::Assumed => "assumed",
            Trust::Restored => "restored",
            Trust::Referenced => "referenced",
        })
    }
}

/// Where a position comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A scale on the axis.
    Encoder,
    /// The controller's count of its own pulses, which proves nothing about a jam.
    Counter,
}

/// On what the claim rests that a driver works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Driven on the real device.
    Hardware,
    /// Recordings of real firmware, or a simulator that somebody else's host drives too.
    IndependentHost,
    /// Written from the manual alone.
    Manual,
}

/// Who gives an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// What tells this caller from others: a process or connection.
    pub id: Name,
    /// What the client calls itself (`claude-desktop 1.2`), for the log only.
    pub client: String,
    /// Which way the order came in.
    pub way: Way,
}

/// Whether a terminal could obey this character, or show the text around it in another order than it has: what comes from
/// outside is shown without it.
pub fn is_unfit_to_show(c: char) -> bool {
    let unseen = matches!(c, '\u{061C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}');
    c.is_control() || unseen || c == '\u{FEFF}'
}

/// Which call an order came from, for the audit log and for what is sent twice.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The client's number of the request.
    pub call: String,
    /// The tool.
    pub tool: &'static str,
    /// Its arguments, checked.
    pub arguments: serde_json::Value,
    /// The client's own name of the command, if it gave one.
    pub command: Option<CommandId>,
}

/// The client's own name of a command, which makes sending it again harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandId {
    /// The `command_id` of the call.
    pub id: String,
    /// The hash of tool and arguments, in hexadecimal.
    pub hash: String,
}

/// The way by which an order came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// An MCP client over standard input and output.
    Stdio,
    /// An MCP client of a second process, passed on to the one that owns the rig.
    Relay,
    /// An MCP client over HTTP.
    Http,
    /// A person's own command at this machine, over the local socket.
    Cli,
    /// The program itself, at shutdown.
    Internal,
}

impl Way {
    /// Whether who comes this way is taken to be a person: what only a person may do needs it.
    pub fn is_person(self) -> bool {
        matches!(self, Way::Cli)
    }
}

/// Who latched a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StopBy {
    /// A tool call; `clear_fault` releases it.
    Model,
    /// A person at the rig; only a person releases it.
    Person,
    /// The program: a lost caller, shutdown, or a fault. `clear_fault` releases it.
    Program,
}

/// What a stage is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// No connection; `fault` says why.
    Offline,
    /// Opening, identifying, reading settings.
    Connecting,
    /// Standing still.
    Idle,
    /// Moving to a target.
    Moving,
    /// Searching its reference.
    Homing,
    /// A stop was sent; standstill is not confirmed yet.
    Stopping,
}

impl Activity {
    /// Whether the axes may be in motion.
    pub fn is_motion(self) -> bool {
        matches!(self, Activity::Moving | Activity::Homing | Activity::Stopping)
    }

    /// The word that results use.
    pub fn word(self) -> &'static str {
        match self {
            Activity::Offline => "offline",
            Activity::Connecting => "connecting",
            Activity::Idle => "idle",
            Activity::Moving => "moving",
            Activity::Homing => "homing",
            Activity::Stopping => "stopping",
        }
    }
}

/// What is wrong with a device. While it lasts nothing of the device moves, except by what ends it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Its name.
    pub code: Code,
    /// What happened, with numbers and units.
    pub what: String,
    /// When it was noticed.
    pub at: Time,
    /// What ends it.
    pub remedy: Remedy,
}

/// What ends a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// The tool `clear_fault`, once the cause is gone.
    ClearFault,
    /// It ends by itself when the device answers again (a person plugs it in, switches it on).
    Reconnect,
    /// A restart of the program, after a person looked.
    Restart,
    /// A person takes the port back that was lent to another program.
    Reclaim,
    /// A person releases it, who has seen why it moved.
    Resume,
}

/// One axis, as last read.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisStatus {
    /// Its name within the stage.
    pub axis: Name,
    /// Rig coordinates; `None` until the controller's machine position is known.
    pub position: Option<Position>,
    /// How far it may be believed.
    pub trust: Trust,
    /// Where it comes from.
    pub source: Source,
    /// Where the motion in progress ends, if this axis takes part.
    pub target: Option<Position>,
    /// The way that a move in progress may still take it, the parts of it that are still to come included.
    pub ahead: Option<crate::units::Span>,
    /// The most at which the motion in progress may take it; `None` at rest.
    pub speed: Option<crate::units::Speed>,
    /// Whether a limit switch of this axis is pressed, as far as the controller says.
    pub at_limit: bool,
}

/// One stage, as last read.
#[derive(Debug, Clone, PartialEq)]
pub struct StageStatus {
    /// Its name.
    pub stage: Name,
    /// What it is doing.
    pub activity: Activity,
    /// What is wrong, if anything.
    pub fault: Option<Fault>,
    /// Who stopped it, until that is released.
    pub stopped_by: Option<StopBy>,
    /// Its axes in the rig file's order.
    pub axes: Vec<AxisStatus>,
    /// The state's number.
    pub epoch: Epoch,
    /// When the newest position was asked for; `None` before the first.
    pub read_at: Option<Time>,
    /// Where the last motion began: what `go_back` returns to.
    pub came_from: Option<Vec<(Name, Position)>>,
    /// What the controller said it is.
    pub identity: Option<Identity>,
    /// What the controller told of its own limits and settings.
    pub told: Option<Arc<Told>>,
    /// The state of its connection.
    pub link: LinkStatus,
}

impl StageStatus {
    /// The status of `axis`.
    pub fn axis(&self, axis: &str) -> Option<&AxisStatus> {
        self.axes.iter().find(|a| a.axis.as_str() == axis)
    }
}

/// What a device said it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// Family and model, e.g. `Grbl`.
    pub model: String,
    /// Firmware version as the device writes it.
    pub firmware: String,
    /// Serial number, where it has one.
    pub serial: String,
    /// What is unusual about this device and what follows, for `diagnose`.
    pub notes: Vec<String>,
}

/// What a controller told of its own limits and settings when it was identified; `None` where it doesn't tell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Told {
    /// Of each axis, in the rig file's order.
    pub axes: Vec<ToldAxis>,
    /// Whether its homing cycle is switched on.
    pub homes: Option<bool>,
    /// Whether its motors stay powered while it rests.
    pub powered_at_rest: Option<bool>,
    /// Whether a limit switch that is met in a move is an alarm.
    pub hard_limits: Option<bool>,
    /// The controller's names of axes that its homing cycle moves, too, though the rig file doesn't have them.
    pub homes_also: Vec<String>,
}

/// What a controller told of one axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToldAxis {
    /// Its own speed limit.
    pub max_speed: Option<crate::units::Speed>,
    /// Its smallest step.
    pub step: Option<crate::units::Distance>,
    /// How long its travel is, by its own setting.
    pub travel: Option<crate::units::Distance>,
    /// Between which counts (base unit) it lets itself be moved once it is homed.
    pub range: Option<[f64; 2]>,
    /// Its count (base unit) right after homing.
    pub home: Option<f64>,
    /// How fast it speeds up and slows down, in base units per s².
    pub acceleration: Option<f64>,
}

/// The state of a device's connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkStatus {
    /// Where it leads: `/dev/ttyUSB0`, `COM5`, `127.0.0.1:4711`.
    pub port: String,
    /// Whether it is open.
    pub open: bool,
    /// Whether the last several replies were damaged.
    pub degraded: bool,
    /// Frames received whole.
    pub frames: u64,
    /// Frames dropped because they broke the grammar.
    pub bad_frames: u64,
    /// Replies that did not come in time.
    pub timeouts: u64,
    /// How often it was opened again after a loss.
    pub reconnects: u64,
    /// The last thing that went wrong, escaped for display.
    pub last_error: Option<String>,
}

/// One camera, as last heard.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraStatus {
    /// Its name.
    pub camera: Name,
    /// Whether it can take a picture now.
    pub ready: bool,
    /// Whether it is exposing or delivering.
    pub exposing: bool,
    /// What is wrong, if anything.
    pub fault: Option<Fault>,
    /// Its settings as it last reported them.
    pub settings: Option<CameraSettings>,
    /// What it is.
    pub identity: Option<Identity>,
    /// The state of its connection.
    pub link: LinkStatus,
}

/// A camera's settings; what a camera reports back is what it really set.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraSettings {
    /// Exposure time in milliseconds.
    pub exposure_ms: f64,
    /// Gain as a factor.
    pub gain: f64,
    /// Region of interest in unbinned pixels: x, y, width, height.
    pub roi: [u32; 4],
    /// Pixels combined in each direction.
    pub binning: u32,
    /// Significant bits of a pixel: 8, 10, 12, 14 or 16.
    pub bits: u32,
    /// The whole sensor: width, height.
    pub sensor: [u32; 2],
}

/// A change of settings; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CameraChange {
    /// Exposure time in milliseconds.
    pub exposure_ms: Option<f64>,
    /// Gain as a factor.
    pub gain: Option<f64>,
    /// Region of interest in unbinned pixels: x, y, width, height.
    pub roi: Option<[u32; 4]>,
    /// Pixels combined in each direction.
    pub binning: Option<u32>,
    /// Significant bits of a pixel.
    pub bits: Option<u32>,
}

impl CameraChange {
    /// Whether nothing is to change.
    pub fn is_empty(&self) -> bool {
        *self == CameraChange::default()
    }
}

/// A move of some axes of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// The stage.
    pub stage: Name,
    /// Where it goes.
    pub aim: Aim,
}

/// Where a move goes. What is relative becomes absolute when its turn comes, never before.
#[derive(Debug, Clone, PartialEq)]
pub enum Aim {
    /// To positions in rig coordinates.
    To(Vec<(Name, Position)>),
    /// By distances, decided on that state of the stage.
    By {
        /// Signed ways in rig direction.
        offsets: Vec<(Name, crate::units::Distance)>,
        /// The state on which the caller decided.
        from: Epoch,
    },
    /// To where the last motion began.
    Back,
}

/// A search for the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Home {
    /// The stage.
    pub stage: Name,
    /// Which axes; empty means all.
    pub axes: Vec<Name>,
}

/// One exposure.
#[derive(Debug, Clone, PartialEq)]
pub struct Shot {
    /// The camera.
    pub camera: Name,
    /// Settings to change before; they stay.
    pub change: CameraChange,
}

/// Pixels of one frame, row by row from the top: shape is height × width.
#[derive(Debug, Clone, PartialEq)]
pub enum Pixels {
    /// Eight bits.
    U8(Array2<u8>),
    /// Up to sixteen bits.
    U16(Array2<u16>),
    /// Computed values.
    F32(Array2<f32>),
}

impl Pixels {
    /// Height and width.
    pub fn shape(&self) -> [usize; 2] {
        let d = match self {
            Pixels::U8(a) => a.dim(),
            Pixels::U16(a) => a.dim(),
            Pixels::F32(a) => a.dim(),
        };
        [d.0, d.1]
    }

    /// The type's name as numpy writes it: `uint8`, `uint16` or `float32`.
    pub fn dtype(&self) -> &'static str {
        match self {
            Pixels::U8(_) => "uint8",
            Pixels::U16(_) => "uint16",
            Pixels::F32(_) => "float32",
        }
    }

    /// Size in memory.
    pub fn bytes(&self) -> usize {
        let [h, w] = self.shape();
        h * w
            * match self {
                Pixels::U8(_) => 1,
                Pixels::U16(_) => 2,
                Pixels::F32(_) => 4,
            }
    }
}

/// One frame with all that must not be separated from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// The camera.
    pub camera: Name,
    /// The pixels.
    pub pixels: Pixels,
    /// How many bits of each pixel carry signal.
    pub significant_bits: u32,
    /// The settings under which it was taken.
    pub settings: CameraSettings,
    /// The camera's own count.
    pub sequence: u64,
    /// When the exposure was asked for.
    pub asked_at: Time,
    /// When the frame was complete here.
    pub received_at: Time,
    /// Positions when the exposure was asked for.
    pub before: Vec<AxisReading>,
    /// Positions when the frame was complete.
    pub after: Vec<AxisReading>,
    /// Whether a stage moved while it was exposed; polling can't prove a short exposure still.
    pub moved_during: Moved,
    /// Whether a simulator made it.
    pub simulated: bool,
}

/// A position that is kept with something else.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisReading {
    /// The axis.
    pub id: AxisId,
    /// Where it was; `None` where unknown.
    pub position: Option<Position>,
    /// The axis's own unit, for writing it down.
    pub unit: Unit,
    /// How far it may be believed.
    pub trust: Trust,
}

/// What the readers of the program see; made anew after each pass that changed something.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// When it was made.
    pub at: Time,
    /// The stages in the rig file's order.
    pub stages: Vec<StageStatus>,
    /// The cameras.
    pub cameras: Vec<CameraStatus>,
    /// The outputs.
    pub outputs: Vec<OutputStatus>,
    /// The sensors.
    pub sensors: Vec<SensorStatus>,
    /// Jobs, the oldest first; finished ones are kept for a while.
    pub jobs: Vec<Arc<JobStatus>>,
    /// Commands that wait for their turn.
    pub queued: usize,
    /// What is to be known of a person's stop while one stands, as a clause: since when, or that its record can't be
    /// read or written.
    pub person_stop: Option<Arc<str>>,
    /// When the moves of the last minute began, where a budget counts them.
    pub recent_moves: Vec<Time>,
    /// How far axes were sent within the last hour, where a budget counts it.
    pub travelled: Vec<(AxisId, Distance)>,
    /// How much light lights have given within the last hour, in percent times seconds, where a budget counts it.
    pub dose: Vec<(Name, f64)>,
    /// The watches that don't hold, each with what it read.
    pub tripped: Vec<Arc<str>>,
    /// What a person has allowed beforehand, while it lasts.
    pub allowance: Option<Arc<Allowance>>,
}

impl Snapshot {
    /// What waits for a person's approval, the oldest first.
    pub fn approvals(&self) -> impl Iterator<Item = &Arc<Approval>> {
        self.jobs.iter().filter_map(|j| j.approval.as_ref())
    }

    /// Whether one of these devices is without its port, because a person has lent it.
    pub fn is_lent(&self, devices: &[Name]) -> bool {
        let lent = |name: &Name, fault: Option<&Fault>| {
            devices.contains(name) && fault.is_some_and(|f| f.remedy == Remedy::Reclaim)
        };
        self.stages.iter().any(|s| lent(&s.stage, s.fault.as_ref()))
            || self.cameras.iter().any(|c| lent(&c.camera, c.fault.as_ref()))
            || self.outputs.iter().any(|o| lent(&o.output, o.fault.as_ref()))
            || self.sensors.iter().any(|s| lent(&s.sensor, s.fault.as_ref()))
    }

    /// The status of `stage`.
    pub fn stage(&self, stage: &str) -> Option<&StageStatus> {
        self.stages.iter().find(|s| s.stage.as_str() == stage)
    }

    /// The status of `camera`.
    pub fn camera(&self, camera: &str) -> Option<&CameraStatus> {
        self.cameras.iter().find(|c| c.camera.as_str() == camera)
    }

    /// The status of `output`.
    pub fn output(&self, output: &str) -> Option<&OutputStatus> {
        self.outputs.iter().find(|o| o.output.as_str() == output)
    }

    /// The status of `sensor`.
    pub fn sensor(&self, sensor: &str) -> Option<&SensorStatus> {
        self.sensors.iter().find(|s| s.sensor.as_str() == sensor)
    }

    /// The job of that number.
    pub fn job(&self, id: JobId) -> Option<&Arc<JobStatus>> {
        self.jobs.iter().find(|j| j.id == id)
    }
}

/// The number of a job, unique in a run of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job-{}", self.0)
    }
}

/// A job: a plan that runs or has run.
#[derive(Debug, Clone, PartialEq)]
pub struct JobStatus {
    /// Its number.
    pub id: JobId,
    /// What it does, in words: `move sample to x 12 mm`.
    pub title: String,
    /// Who began it.
    pub caller: Caller,
    /// When it was taken from the queue.
    pub started: Time,
    /// How it stands.
    pub state: JobState,
    /// The step that runs, in words.
    pub doing: String,
    /// Its client is gone, and it goes on all the same, as the rig file says.
    pub orphan: bool,
    /// What a person is to do and to confirm before it goes on.
    pub waits_for: Option<String>,
    /// What a person is to approve before it goes on.
    pub approval: Option<Arc<Approval>>,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq)]
pub enum JobState {
    /// It runs.
    Running,
    /// It ended well.
    Done(Report),
    /// It ended otherwise; the error says whether anything moved.
    Failed(RigError),
}

/// What a plan brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Whether anything moved.
    pub moved: Moved,
    /// The stages that the plan used, as they stood at its end.
    pub stages: Vec<StageStatus>,
    /// The outputs that the plan used, as they stood at its end.
    pub outputs: Vec<OutputStatus>,
    /// Where the axes that took part began.
    pub began: Vec<AxisReading>,
    /// How far the references of axes that were trusted before a homing had drifted; `None` where that can't be known.
    pub drifts: Vec<(AxisId, Option<Drift>)>,
    /// Frames in the order of their exposure.
    pub frames: Vec<Arc<Frame>>,
    /// How long it took.
    pub took: Duration,
}

/// How far a reference had drifted when homing found it anew.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// The count at the reference before, less the count since.
    pub by: crate::units::Distance,
    /// How far from that it may have been.
    pub within: crate::units::Distance,
}

/// How a command ended that did not end well. Facts; the tools add what to do next.
#[derive(Debug, Clone, PartialEq)]
pub struct RigError {
    /// The stable name of what happened.
    pub code: Code,
    /// What happened, with numbers and units.
    pub what: String,
    /// Whether anything moved.
    pub moved: Moved,
    /// All that the interlocks found, when it was they who refused.
    pub refusals: Vec<Refusal>,
    /// The device concerned.
    pub device: Option<Name>,
    /// What would have been allowed, where a motion was refused.
    pub instead: Option<Box<Instead>>,
}

impl RigError {
    /// An error before anything moved.
    pub fn new(code: Code, what: impl Into<String>) -> RigError {
        RigError { code, what: what.into(), moved: Moved::No, refusals: Vec::new(), device: None, instead: None }
    }

    /// The same, about a device.
    pub fn on(mut self, device: &Name) -> RigError {
        self.device = Some(device.clone());
        self
    }

    /// The same, with what moved.
    pub fn moved(mut self, moved: Moved) -> RigError {
        self.moved = moved;
        self
    }
}

impl fmt::Display for RigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {} Moved: {}.", self.code, self.what, self.moved)
    }
}

impl std::error::Error for RigError {}

/// Why an interlock refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The kind of interlock.
    pub code: Code,
    /// Its name in the rig file (`travel of sample.x`, `incubator frame`).
    pub rule: String,
    /// What was asked and what is allowed, with numbers and units.
    pub what: String,
    /// The owner's words, where the rig file has some.
    pub why: Option<String>,
    /// What would be allowed instead, in words, if there is something.
    pub allowed: Option<String>,
}

/// What would be allowed instead of a motion that was refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Instead {
    /// The move that leads as far as is allowed, or back from where the stage should not be.
    pub nearest: Option<GoTo>,
    /// Moves that lead to the same end one after the other, each allowed as things stood then. They are judged again
    /// when they are asked for.
    pub sequence: Vec<GoTo>,
}

/// The arguments of one `move_to`.
#[derive(Debug, Clone, PartialEq)]
pub struct GoTo {
    /// The stage.
    pub stage: Name,
    /// Where each axis goes, in `unit`.
    pub targets: Vec<(Name, f64)>,
    /// The unit of all of them.
    pub unit: crate::units::Unit,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+) => {
        /// The stable names of all that can go wrong. Results carry them; `docs/errors.md` lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// All of them, in the order of `docs/errors.md`.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The name that results carry.
            pub fn text(self) -> &'static str {
                match self { $(Code::$variant => $text,)+ }
            }

            /// What it means, for `docs/errors.md`.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

codes! {
    /// An argument is missing, of the wrong type, unknown or not a finite number.
    InvalidArgument = "invalid_argument",
    /// No device, axis, job, image or saved position of that name.
    NotFound = "not_found",
    /// The rig, its configuration or this version can't do that.
    Unsupported = "unsupported",
    /// The server was started with `--read-only`, or a person is needed.
    NotPermitted = "not_permitted",
    /// A target lies outside an axis's travel.
    OutOfTravel = "out_of_travel",
    /// The path goes through a box that the rig file keeps out of.
    KeepOut = "keep_out",
    /// The axis's position isn't known well enough for this move.
    NotReferenced = "not_referenced",
    /// The newest reading is too old to judge by.
    Stale = "stale",
    /// A limit switch is pressed and the move would go further onto it.
    AtLimit = "at_limit",
    /// The stage has moved or changed since the state on which the command was decided.
    MovedOn = "moved_on",
    /// A stop is in force.
    Stopped = "stopped",
    /// The device has a fault that must be cleared first.
    Faulted = "faulted",
    /// The device is doing something else, or the queue is full.
    Busy = "busy",
    /// The device isn't connected.
    NotConnected = "not_connected",
    /// The device is connected but doesn't answer.
    NotResponding = "not_responding",
    /// The connection broke.
    Unplugged = "unplugged",
    /// The controller restarted by itself; its position is lost.
    ControllerReset = "controller_reset",
    /// The controller refused a command.
    ControllerRefused = "controller_refused",
    /// The controller is locked by an alarm.
    Alarm = "alarm",
    /// The axis stood still although it should move.
    Stalled = "stalled",
    /// The axis moved the other way, or left the path that was cleared.
    WrongDirection = "wrong_direction",
    /// The axis came to rest away from its target.
    MissedTarget = "missed_target",
    /// The motion took longer than it ever should.
    TooLong = "too_long",
    /// Homing ended without a reference.
    HomingFailed = "homing_failed",
    /// The stop could not be handed to the controller. The axis may still move.
    StopNotSent = "stop_not_sent",
    /// The stop was sent but standstill could not be confirmed.
    StopNotConfirmed = "stop_not_confirmed",
    /// The caller took the command back, or is gone.
    Cancelled = "cancelled",
    /// The command waited longer than its deadline and was dropped.
    Expired = "expired",
    /// The server is shutting down.
    ShuttingDown = "shutting_down",
    /// The camera refused, failed or lost the frame.
    CameraFailed = "camera_failed",
    /// An output did not come to the value that it was set to.
    OutputFailed = "output_failed",
    /// A person was asked to do something by hand, and said no.
    RefusedByPerson = "refused_by_person",
    /// A file could not be written or read.
    StorageFailed = "storage_failed",
    /// The answer would exceed what clients accept.
    TooLarge = "too_large",
    /// The rig file is wrong; nothing was opened.
    BadRigFile = "bad_rig_file",
    /// A fault of the program itself.
    Internal = "internal",
    /// A person has lent the device's port to another program.
    Released = "released",
    /// A person was asked to approve it, and said no.
    ApprovalDenied = "approval_denied",
    /// A person was asked to approve it, and nobody answered in time.
    ApprovalExpired = "approval_expired",
    /// The approval doesn't count: it was for another command, or the state has changed since.
    ApprovalStale = "approval_stale",
    /// The `command_id` was used for another command, or with other arguments.
    CommandIdUsed = "command_id_used",
    /// The program ended while this command was under way; nobody knows how far it came.
    OutcomeUnknown = "outcome_unknown",
    /// A rule of the rig file would not hold, or can't be judged.
    Rule = "rule_refused",
    /// The rig file's budget doesn't allow it: the step is too long, or there were too many moves.
    Budget = "over_budget",
    /// The stage was moved, but not by an order from here: by a hand at the controller, or by another program.
    MovedByHand = "moved_by_hand",
    /// The program's hardware thread hung or failed, and its watchdog has stopped the axes.
    WatchdogStop = "watchdog_stop",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Something worth a line in the audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// What kind: `intent`, `outcome`, `refused`, `stop`, `fault`, `connected`, `lost`, `reference` …
    pub kind: &'static str,
    /// The device, if one is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<Name>,
    /// Who caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// In words.
    pub what: String,
    /// More facts.
    #[serde(flatten)]
    pub facts: BTreeMap<&'static str, serde_json::Value>,
}
