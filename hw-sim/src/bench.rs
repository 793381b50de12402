//! The bench: its clock, its devices, and the points at which it is observed and disturbed.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::asi::Asi;
use crate::camera::{Camera, View};
use crate::config::{BenchConfig, LETTERS, LightConfig};
use crate::fault::Fault;
use crate::grbl::Grbl;
use crate::io::Io;
use crate::mechanics::Axis;
use crate::memory::Mishaps;
use crate::port::{Ns, Port};
use crate::zaber::{Chain, Wire};

/// What went wrong with a bench file or a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BenchError {
    /// The bench file cannot be used; the text names line or device.
    Config(String),
    /// There is no such device on this bench.
    NoDevice(String),
    /// The device has no such axis.
    NoAxis {
        /// The device that was asked.
        device: String,
        /// The axis it does not have.
        axis: String,
    },
    /// The fault means nothing for this device, or a value in it is out of range.
    NotPossible {
        /// The device that was asked.
        device: String,
        /// Why it cannot be.
        why: String,
    },
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Config(text) => write!(f, "bench file: {text}"),
            BenchError::NoDevice(id) => write!(f, "there is no device {id:?} on this bench"),
            BenchError::NoAxis { device, axis } => write!(f, "{device:?} has no axis {axis:?}"),
            BenchError::NotPossible { device, why } => write!(f, "{device:?}: {why}"),
        }
    }
}

impl std::error::Error for BenchError {}

/// How a host reaches a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortKind {
    /// A serial line at this rate, 8N1.
    Serial {
        /// Bits a second.
        baud: u32,
    },
    /// A TCP connection.
    Tcp,
}

/// A device of a bench, as a host needs to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its name on the bench.
    pub id: String,
    /// `grbl-1.1`, `zaber-ascii-7`, `asi-ms2000`, `simcam-1` or `simio-1`.
    pub protocol: String,
    /// How it is reached.
    pub port: PortKind,
}

enum Device {
    Grbl(Box<Grbl>),
    Zaber(Box<Chain>),
    Asi(Box<Asi>),
    Camera(Box<Camera>),
    Io(Box<Io>),
}

struct Slot {
    info: DeviceInfo,
    port: Port,
    device: Device,
    frozen_at: Option<Ns>,
    skew: Ns,
    unheard: VecDeque<u8>,
}

/// Bytes that wait in a frozen device's buffer.
const FROZEN_BUFFER: usize = 128;

impl Slot {
    fn local(&self, now: Ns) -> Ns {
        now - self.skew
    }

    fn next_device_event(&self) -> Option<Ns> {
        if self.frozen_at.is_some() {
            return None;
        }
        let next = match &self.device {
            Device::Grbl(g) => g.next_event(),
            Device::Zaber(z) => z.next_event(),
            Device::Asi(a) => a.next_event(),
            Device::Camera(c) => c.next_event(),
            Device::Io(io) => io.next_event(),
        };
        next.map(|t| t + self.skew)
    }

    fn run(&mut self, now: Ns, view: &dyn Fn(&Camera) -> View) {
        if self.frozen_at.is_some() {
            return;
        }
        let local = self.local(now);
        match &mut self.device {
            Device::Grbl(g) => g.advance(local),
            Device::Zaber(z) => z.advance(local),
            Device::Asi(a) => a.advance(local),
            Device::Camera(c) => {
                let seen = view(c);
                c.advance(local, seen);
            }
            Device::Io(io) => io.advance(local),
        }
        self.speak(now);
    }

    fn speak(&mut self, now: Ns) {
        let said = match &mut self.device {
            Device::Grbl(g) => g.take_output(),
            Device::Zaber(z) => z.take_output(),
            Device::Asi(a) => a.take_output(),
            Device::Camera(c) => c.take_output(),
            Device::Io(io) => io.take_output(),
        };
        self.port.say(now, said);
    }

    fn hear(&mut self, now: Ns) {
        while self.port.next_arrival().is_some_and(|t| t <= now) {
            let Some(byte) = self.port.arrive(now) else { continue };
            if self.frozen_at.is_some() {
                if self.unheard.len() < FROZEN_BUFFER {
                    self.unheard.push_back(byte);
                }
                continue;
            }
            self.take(byte);
            self.speak(now);
        }
    }

    fn take(&mut self, byte: u8) {
        match &mut self.device {
            Device::Grbl(g) => g.receive(byte),
            Device::Zaber(z) => z.receive(byte),
            Device::Asi(a) => a.receive(byte),
            Device::Camera(c) => c.receive(byte),
            Device::Io(io) => io.receive(byte),
        }
    }
}

/// A bench of simulated devices on a clock of its own, which only [`Bench::advance`] moves.
///
/// Asking an observation point about a device or axis that does not exist answers with nothing: no bytes, NaN, 0.
pub struct Bench {
    now: Ns,
    slots: Vec<Slot>,
    light: LightConfig,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("now", &self.now()).field("devices", &self.devices()).finish()
    }
}

impl Bench {
    /// Builds a bench from its file. Power comes on at time 0.
    ///
    /// # Errors
    /// [`BenchError::Config`], with the line, for anything unknown or out of range.
    pub fn from_toml(text: &str) -> Result<Bench, BenchError> {
        let config = BenchConfig::parse(text)?;
        Bench::build(&config)
    }

    /// The demonstration microscope, [`crate::MICROSCOPE_TOML`] with another seed.
    ///
    /// # Panics
    /// Never: the file is part of this crate and tested.
    pub fn microscope(seed: u64) -> Bench {
        let bench =
            BenchConfig::parse(crate::MICROSCOPE_TOML).and_then(|config| Bench::build(&BenchConfig { seed, ..config }));
        match bench {
            Ok(bench) => bench,
            Err(e) => unreachable!("the microscope's bench file is wrong: {e}"),
        }
    }

    fn build(config: &BenchConfig) -> Result<Bench, BenchError> {
        let mut slots = Vec::new();
        for (i, c) in config.controllers.iter().enumerate() {
            let seed = config.seed ^ (0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(i as u64 + 1));
            slots.push(Slot {
                info: DeviceInfo {
                    id: c.id.clone(),
                    protocol: c.protocol.clone(),
                    port: PortKind::Serial { baud: c.baud },
                },
                port: Port::new(Some(c.baud), c.os_buffer, seed ^ 1),
                device: Device::Grbl(Box::new(Grbl::new(c, seed)?)),
                frozen_at: None,
                skew: 0,
                unheard: VecDeque::new(),
            });
        }
        for (i, c) in config.chains.iter().enumerate() {
            let seed = config.seed ^ (0x1656_67b1_9e37_79f9_u64.wrapping_mul(i as u64 + 1));
            let (port, baud) = match c.port {
                Wire::Serial => (PortKind::Serial { baud: c.baud }, Some(c.baud)),
                Wire::Tcp => (PortKind::Tcp, None),
            };
            slots.push(Slot {
                info: DeviceInfo { id: c.id.clone(), protocol: "zaber-ascii-7".into(), port },
                port: Port::new(baud, c.os_buffer, seed ^ 1),
                device: Device::Zaber(Box::new(Chain::new(c, seed)?)),
                frozen_at: None,
                skew: 0,
                unheard: VecDeque::new(),
            });
        }
        for (i, c) in config.asis.iter().enumerate() {
            let seed = config.seed ^ (0x2545_f491_4f6c_dd1d_u64.wrapping_mul(i as u64 + 1));
            slots.push(Slot {
                info: DeviceInfo {
                    id: c.id.clone(),
                    protocol: "asi-ms2000".into(),
                    port: PortKind::Serial { baud: c.baud },
                },
                port: Port::new(Some(c.baud), c.os_buffer, seed ^ 1),
                device: Device::Asi(Box::new(Asi::new(c, seed)?)),
                frozen_at: None,
                skew: 0,
                unheard: VecDeque::new(),
            });
        }
        for (i, c) in config.cameras.iter().enumerate() {
            let seed = config.seed ^ (0xc2b2_ae3d_27d4_eb4f_u64.wrapping_mul(i as u64 + 1));
            slots.push(Slot {
                info: DeviceInfo { id: c.id.clone(), protocol: c.protocol.clone(), port: PortKind::Tcp },
                port: Port::new(None, c.os_buffer, seed ^ 1),
                device: Device::Camera(Box::new(Camera::new(c, config.seed, seed))),
                frozen_at: None,
                skew: 0,
                unheard: VecDeque::new(),
            });
        }
        for (i, c) in config.boxes.iter().enumerate() {
            let seed = config.seed ^ (0x1656_67b1_9e37_79f9_u64.wrapping_mul(i as u64 + 1));
            slots.push(Slot {
                info: DeviceInfo { id: c.id.clone(), protocol: c.protocol.clone(), port: PortKind::Tcp },
                port: Port::new(None, c.os_buffer, seed ^ 1),
                device: Device::Io(Box::new(Io::new(c, seed))),
                frozen_at: None,
                skew: 0,
                unheard: VecDeque::new(),
            });
        }
        Ok(Bench { now: 0, slots, light: config.light.clone() })
    }

    /// The devices, in the order of the bench file: controllers, chains, ASI controllers, cameras.
    pub fn devices(&self) -> Vec<DeviceInfo> {
        self.slots.iter().map(|s| s.info.clone()).collect()
    }

    /// The bench's clock: time since power came on.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    /// Lets everything happen until `now`. A time that has passed already changes nothing.
    pub fn advance(&mut self, now: Duration) {
        let to = Ns::try_from(now.as_nanos()).unwrap_or(Ns::MAX);
        if to < self.now {
            return;
        }
        while let Some(next) = self.next_step().filter(|t| *t <= to) {
            self.step(next.max(self.now));
        }
        self.step(to);
    }

    fn next_step(&self) -> Option<Ns> {
        self.slots.iter().flat_map(|s| [s.next_device_event(), s.port.next_arrival()]).flatten().min()
    }

    fn step(&mut self, to: Ns) {
        self.now = to;
        let blind = |_: &Camera| View::default();
        for slot in &mut self.slots {
            if !matches!(slot.device, Device::Camera(_)) {
                slot.run(to, &blind);
            }
        }
        let (controllers, cameras): (Vec<&mut Slot>, Vec<&mut Slot>) =
            self.slots.iter_mut().partition(|s| !matches!(s.device, Device::Camera(_)));
        let light = &self.light;
        let view = |c: &Camera| View {
            x_mm: truth(&controllers, &c.sees().x),
            y_mm: truth(&controllers, &c.sees().y),
            z_mm: truth(&controllers, &c.sees().focus),
            light: brightness(&controllers, light),
        };
        for slot in cameras {
            slot.run(to, &view);
        }
        for slot in &mut self.slots {
            slot.hear(to);
        }
    }

    /// When something next changes by itself that a host or an observer could notice, a byte or a motion. `None` when
    /// the bench is at rest.
    pub fn next_event(&self) -> Option<Duration> {
        self.slots
            .iter()
            .flat_map(|s| [s.next_device_event(), s.port.next_arrival(), s.port.next_heard()])
            .flatten()
            .min()
            .map(|t| Duration::from_nanos(t.max(self.now)))
    }

    fn slot(&self, device: &str) -> Option<&Slot> {
        self.slots.iter().find(|s| s.info.id == device)
    }

    fn slot_mut(&mut self, device: &str) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|s| s.info.id == device)
    }

    fn axis(&self, device: &str, axis: &str) -> Option<&Axis> {
        self.slot(device)?.axis(axis)
    }

    /// The host writes to the device's port: bytes go into the OS buffer now and leave it at the line's pace. Returns
    /// how many fitted; 0 while unplugged.
    pub fn write(&mut self, device: &str, bytes: &[u8]) -> usize {
        let now = self.now;
        self.slot_mut(device).map_or(0, |s| s.port.write(now, bytes))
    }

    /// What has arrived at the host and was not read yet.
    pub fn read(&mut self, device: &str) -> Vec<u8> {
        let now = self.now;
        self.slot_mut(device).map_or_else(Vec::new, |s| s.port.read(now))
    }

    /// Bytes that the OS accepted and that are not on the wire yet.
    pub fn unsent(&self, device: &str) -> usize {
        self.slot(device).map_or(0, |s| s.port.unsent())
    }

    /// Resizes the host's OS buffer; small ones make writes block.
    pub fn set_os_buffer(&mut self, device: &str, bytes: usize) {
        if let Some(s) = self.slot_mut(device) {
            s.port.set_os_buffer(bytes);
        }
    }

    /// Whether the device's cable is in.
    pub fn plugged(&self, device: &str) -> bool {
        self.slot(device).is_some_and(|s| s.port.plugged)
    }

    /// How often the device's cable has been pulled, so that a replug between two looks is not missed.
    pub fn unplugs(&self, device: &str) -> u64 {
        self.slot(device).map_or(0, |s| s.port.unplugs)
    }

    /// The host opens the port: a controller with `dtr_resets` restarts.
    pub fn open(&mut self, device: &str) {
        if let Some(s) = self.slot_mut(device)
            && let Device::Grbl(g) = &mut s.device
            && g.dtr_resets
        {
            g.power_cycle();
        }
    }

    /// Where the carriage really is, millimetres of the bench frame. NaN if there is no such axis.
    pub fn carriage_mm(&self, device: &str, axis: &str) -> f64 {
        self.axis(device, axis).map_or(f64::NAN, Axis::carriage_mm)
    }

    /// How fast the carriage really moves. NaN if there is no such axis.
    pub fn speed_mm_per_s(&self, device: &str, axis: &str) -> f64 {
        self.axis(device, axis).map_or(f64::NAN, Axis::speed_mm_per_s)
    }

    /// Pulses that the axis' driver has had since time 0, power cycles included.
    pub fn pulses(&self, device: &str, axis: &str) -> i64 {
        self.axis(device, axis).map_or(0, Axis::pulses)
    }

    /// Every byte that reached the device, with the time it came off the wire (the latest half million at least).
    pub fn received(&self, device: &str) -> &[(Duration, u8)] {
        self.slot(device).map_or(&[], |s| s.port.received())
    }

    /// Every byte that the host handed to the OS, with that time (the latest half million at least).
    pub fn written(&self, device: &str) -> &[(Duration, u8)] {
        self.slot(device).map_or(&[], |s| s.port.written())
    }

    /// How bright the specimen is lit at this moment; 1 is the constant lamp of the microscope.
    pub fn light(&self) -> f64 {
        let slots: Vec<&Slot> = self.slots.iter().collect();
        brightness(&slots, &self.light)
    }

    /// What a channel of a box really does, in a word: `40`, `open`, `2`, `moving`, `on`. Empty if there is none.
    pub fn channel(&self, device: &str, channel: &str) -> String {
        match self.slot(device).map(|s| &s.device) {
            Some(Device::Io(io)) => io.word(channel).unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// What a sensor of a box measures from now on; 0 and 1 of a digital one. `false` if there is no such sensor.
    pub fn measure(&mut self, device: &str, channel: &str, value: f64) -> bool {
        match self.slot_mut(device).map(|s| &mut s.device) {
            Some(Device::Io(io)) => io.measure(channel, value),
            _ => false,
        }
    }

    /// The controller's settings as it lists them (`$n`, value); empty for other devices.
    pub fn settings(&self, device: &str) -> Vec<(u16, String)> {
        match self.slot(device).map(|s| &s.device) {
            Some(Device::Grbl(g)) => g.settings(),
            _ => Vec::new(),
        }
    }

    /// What is stored of a controller's settings, by its own names: what it has when power comes on. Of a chain: of the
    /// device at that address. Empty for other devices.
    pub fn stored(&self, device: &str, address: u8) -> Vec<(String, String)> {
        match self.slot(device).map(|s| &s.device) {
            Some(Device::Grbl(g)) => g.stored().into_iter().map(|(n, v)| (format!("${n}"), v)).collect(),
            Some(Device::Zaber(z)) => z.stored(address),
            Some(Device::Asi(a)) => a.stored(),
            _ => Vec::new(),
        }
    }

    /// What the device is doing, in a word: `idle`, `run`, `busy`, `alarm`, `exposing`.
    pub fn state(&self, device: &str) -> &'static str {
        match self.slot(device).map(|s| &s.device) {
            Some(Device::Grbl(g)) => g.state_name(),
            Some(Device::Zaber(z)) => z.state_name(),
            Some(Device::Asi(a)) => a.state_name(),
            Some(Device::Camera(c)) => c.state_name(),
            Some(Device::Io(io)) => io.state_name(),
            None => "",
        }
    }

    /// The names of a device's axes, in the order of its reports or of the chain.
    pub fn axes(&self, device: &str) -> Vec<String> {
        match self.slot(device).map(|s| &s.device) {
            Some(Device::Grbl(g)) => LETTERS[..g.axes.len()].iter().map(|l| (*l).to_owned()).collect(),
            Some(Device::Zaber(z)) => z.axis_names(),
            Some(Device::Asi(a)) => a.axis_names(),
            _ => Vec::new(),
        }
    }

    /// What an output (`do` or `ao`, channels from 1) of a device in a chain holds: 0 and 1, or volts. NaN if there is
    /// no such output.
    pub fn output(&self, chain: &str, address: u8, output: &str, channel: usize) -> f64 {
        match self.slot(chain).map(|s| &s.device) {
            Some(Device::Zaber(z)) => z.output(address, output, channel).unwrap_or(f64::NAN),
            _ => f64::NAN,
        }
    }

    /// Makes something go wrong, from this moment on.
    ///
    /// # Errors
    /// When the device or axis does not exist, or the fault means nothing for the device. Nothing happens then.
    pub fn fault(&mut self, device: &str, fault: Fault) -> Result<(), BenchError> {
        let now = self.now;
        let slot = self.slot_mut(device).ok_or_else(|| BenchError::NoDevice(device.into()))?;
        slot.fault(now, fault)
    }
}

fn ms(n: u64) -> Ns {
    n.saturating_mul(1_000_000)
}

impl Slot {
    fn axis(&self, axis: &str) -> Option<&Axis> {
        match &self.device {
            Device::Grbl(g) => g.axes.get(axis_index(axis)?),
            Device::Zaber(z) => z.axis(axis),
            Device::Asi(a) => a.axis(axis),
            Device::Camera(_) | Device::Io(_) => None,
        }
    }

    fn impossible(&self, why: &str) -> BenchError {
        BenchError::NotPossible { device: self.info.id.clone(), why: why.into() }
    }

    fn axis_mut(&mut self, axis: &str) -> Result<&mut Axis, BenchError> {
        let missing = BenchError::NoAxis { device: self.info.id.clone(), axis: axis.into() };
        match &mut self.device {
            Device::Grbl(g) => axis_index(axis).and_then(|i| g.axes.get_mut(i)).ok_or(missing),
            Device::Zaber(z) => z.axis_mut(axis).ok_or(missing),
            Device::Asi(a) => a.axis_mut(axis).ok_or(missing),
            Device::Camera(_) | Device::Io(_) => Err(missing),
        }
    }

    fn fault(&mut self, now: Ns, fault: Fault) -> Result<(), BenchError> {
        match fault {
            Fault::Drop { bytes } => self.port.drop_next = bytes,
            Fault::Garble { bytes } => self.port.garble_next = bytes,
            Fault::Delay { ms: n } => self.port.delay = ms(n),
            Fault::Late { ms: n } => self.port.late = (n > 0).then(|| ms(n)),
            Fault::Silence { on } => self.port.silent = on,
            Fault::Mute { on } => self.port.mute = on,
            Fault::Inject { bytes } => self.port.inject(now, bytes),
            Fault::Unplug => self.port.unplug(),
            Fault::Plug => self.plug(),
            Fault::Freeze { on } => self.freeze(now, on),
            Fault::Reset => self.reset(now),
            Fault::Jam { axis } => self.axis_mut(&axis)?.set_jam(true),
            Fault::Unjam { axis } => self.axis_mut(&axis)?.set_jam(false),
            Fault::SwitchDead { axis, on } => self.axis_mut(&axis)?.set_switch_dead(on),
            Fault::LostSteps { axis, steps } => self.axis_mut(&axis)?.lose(steps),
            Fault::Nudge { axis, mm } if mm.is_finite() => self.axis_mut(&axis)?.push(mm),
            Fault::Nudge { .. } => return Err(self.impossible("a nudge needs a finite distance")),
            Fault::Limit { axis, pressed } => self.axis_mut(&axis)?.set_pressed(pressed),
            Fault::Slow { factor } => self.slow(factor)?,
            Fault::CorruptEeprom => match &mut self.device {
                Device::Grbl(g) => g.corrupt_eeprom(),
                Device::Zaber(z) => z.corrupt_eeprom(),
                Device::Asi(_) => return Err(self.impossible("its EEPROM has no checksums here")),
                Device::Camera(_) | Device::Io(_) => {
                    return Err(self.impossible("only a controller has an EEPROM here"));
                }
            },
            Fault::StoreDead { on } => self.memory()?.dead = on,
            Fault::StoreAt { setting } => self.memory()?.lands_on = Some(setting),
            Fault::StoreRound { to } if to.is_finite() && to >= 0.0 => {
                self.memory()?.rounds_to = Some(to).filter(|to| *to > 0.0);
            }
            Fault::StoreRound { .. } => {
                return Err(self.impossible("values are rounded to multiples of a number above 0"));
            }
            Fault::StoreRefuse { setting, on: true } => drop(self.memory()?.refused.insert(setting)),
            Fault::StoreRefuse { setting, on: false } => drop(self.memory()?.refused.remove(&setting)),
            Fault::StoreReset => self.memory()?.resets = true,
            Fault::Knob { axis, mm } if mm.is_finite() => self.knob(&axis, mm)?,
            Fault::Knob { .. } => return Err(self.impossible("a knob needs a finite distance")),
            Fault::Input { address, input, channel, volts } => self.input(address, &input, channel, volts)?,
            Fault::DropFrames { frames } => self.camera()?.drop_frames(frames),
            Fault::TruncateFrame { bytes } => self.camera()?.truncate_frame(bytes),
            Fault::Stuck { channel, on } => {
                let stuck = match &mut self.device {
                    Device::Io(io) => io.stick(&channel, on),
                    Device::Grbl(_) | Device::Zaber(_) | Device::Asi(_) | Device::Camera(_) => false,
                };
                if !stuck {
                    return Err(self.impossible("it has no such channel"));
                }
            }
        }
        if let Device::Grbl(g) = &mut self.device {
            g.check_hard_limits();
        }
        self.speak(now);
        Ok(())
    }

    fn memory(&mut self) -> Result<&mut Mishaps, BenchError> {
        let error = self.impossible("only a controller has settings");
        match &mut self.device {
            Device::Grbl(g) => Ok(g.mishaps()),
            Device::Zaber(z) => Ok(z.mishaps()),
            Device::Asi(a) => Ok(a.mishaps()),
            Device::Camera(_) | Device::Io(_) => Err(error),
        }
    }

    fn knob(&mut self, axis: &str, mm: f64) -> Result<(), BenchError> {
        let missing = BenchError::NoAxis { device: self.info.id.clone(), axis: axis.into() };
        match &mut self.device {
            Device::Zaber(z) => z.turn_knob(axis, mm).ok_or(missing),
            _ => Err(self.impossible("it has no knobs")),
        }
    }

    fn input(&mut self, address: u8, input: &str, channel: usize, volts: f64) -> Result<(), BenchError> {
        let missing = self.impossible(&format!("it has no input {input} {channel} at address {address}"));
        match &mut self.device {
            Device::Zaber(z) => z.drive_input(address, input, channel, volts).ok_or(missing),
            _ => Err(missing),
        }
    }

    fn camera(&mut self) -> Result<&mut Camera, BenchError> {
        let error = self.impossible("only a camera has frames");
        match &mut self.device {
            Device::Camera(c) => Ok(c),
            Device::Grbl(_) | Device::Zaber(_) | Device::Asi(_) | Device::Io(_) => Err(error),
        }
    }

    fn slow(&mut self, factor: f64) -> Result<(), BenchError> {
        if !(factor > 1e-6 && factor.is_finite()) {
            return Err(self.impossible("the factor must be above 0"));
        }
        match &mut self.device {
            Device::Grbl(g) => g.set_slow(factor),
            Device::Zaber(z) => z.set_slow(factor),
            Device::Asi(a) => a.set_slow(factor),
            Device::Camera(_) | Device::Io(_) => return Err(self.impossible("only a stage has motion")),
        }
        Ok(())
    }

    fn plug(&mut self) {
        let was_out = !self.port.plugged;
        self.port.plug();
        if let Device::Grbl(g) = &mut self.device
            && was_out
            && g.dtr_resets
        {
            g.power_cycle();
        }
    }

    fn reset(&mut self, now: Ns) {
        self.unheard.clear();
        self.freeze(now, false);
        let local = self.local(now);
        match &mut self.device {
            Device::Grbl(g) => g.power_cycle(),
            Device::Zaber(z) => z.power_cycle(),
            Device::Asi(a) => a.power_cycle(),
            Device::Camera(c) => c.power_cycle(local),
            Device::Io(io) => io.power_cycle(),
        }
    }

    fn freeze(&mut self, now: Ns, on: bool) {
        match (on, self.frozen_at) {
            (true, None) => self.frozen_at = Some(now),
            (false, Some(since)) => {
                self.skew += now - since;
                self.frozen_at = None;
                while let Some(byte) = self.unheard.pop_front() {
                    self.take(byte);
                }
            }
            _ => {}
        }
    }
}

fn axis_index(axis: &str) -> Option<usize> {
    LETTERS.iter().position(|l| l.eq_ignore_ascii_case(axis))
}

fn controller<'a, S: std::ops::Deref<Target = Slot>>(slots: &'a [S], id: &str) -> Option<&'a Grbl> {
    slots.iter().find_map(|s| match &s.device {
        Device::Grbl(g) if s.info.id == id => Some(&**g),
        _ => None,
    })
}

fn truth<S: std::ops::Deref<Target = Slot>>(slots: &[S], name: &str) -> f64 {
    name.split_once('.')
        .and_then(|(id, axis)| slots.iter().find(|s| s.info.id == id)?.axis(axis))
        .map_or(0.0, Axis::carriage_mm)
}

fn brightness<S: std::ops::Deref<Target = Slot>>(slots: &[S], light: &LightConfig) -> f64 {
    let mut sum = light.constant;
    if let Some(lamp) = &light.spindle {
        sum += lamp.at_full * controller(slots, &lamp.controller).map_or(0.0, Grbl::spindle_fraction);
    }
    if let Some(lamp) = &light.flood
        && controller(slots, &lamp.controller).is_some_and(Grbl::flood_now)
    {
        sum += lamp.adds;
    }
    if let Some(lamp) = &light.mist
        && controller(slots, &lamp.controller).is_some_and(Grbl::mist_now)
    {
        sum += lamp.adds;
    }
    let io = |id: &str| {
        slots.iter().find_map(|s| match &s.device {
            Device::Io(io) if s.info.id == id => Some(&**io),
            _ => None,
        })
    };
    if let Some(lamp) = &light.lamp
        && let Some(io) = io(&lamp.io)
        && lamp.shutter.as_ref().is_none_or(|s| io.open(s))
    {
        let passes = match &lamp.wheel {
            None => 1.0,
            Some(wheel) => io.slot(wheel).and_then(|i| lamp.transmission.get(i)).copied().unwrap_or(0.0),
        };
        sum += lamp.at_full * io.lit(&lamp.channel) * passes;
    }
    sum
}
