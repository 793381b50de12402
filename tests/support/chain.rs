//! A chain of Zaber devices that do what a test tells them, at the other end of the rig thread's link.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steadyhand::actor::Ticket;
use steadyhand::model::{Home, Move, Name, Report, RigError};
use steadyhand::plans::Sequence;

use super::scripted::{Answers, Scripted};

/// Two stages on one chain: `scope` with x (address 1) and y (address 2, axis 1), `focus` with z (address 2, axis 2).
/// A count is a micrometre.
pub const CHAIN: &str = r#"
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
home = { order = ["y", "x"] }
[stage.axes.x]
channel = "1"
counts_per_unit = 1000
unit = "mm"
sign = 1
origin = 0
travel = [0, 50]
max_speed_per_s = 10
tolerance = 0.002
trust = "referenced"
holds_unpowered = true
[stage.axes.y]
channel = "2.1"
counts_per_unit = 1000
unit = "mm"
sign = -1
origin = 50
travel = [0, 50]
max_speed_per_s = 10
tolerance = 0.002
trust = "referenced"
holds_unpowered = true
[[stage]]
id = "focus"
driver = "zaber"
link = "scope-port"
home = { order = ["z"] }
[stage.axes.z]
channel = "2.2"
counts_per_unit = 1
unit = "um"
sign = 1
origin = 0
travel = [0, 50_000]
max_speed_per_s = 10_000
tolerance = 2
trust = "referenced"
holds_unpowered = true
"#;

/// One axis of a scripted device.
#[derive(Clone)]
pub struct Axis {
    pub at: f64,
    pub flags: Vec<&'static str>,
    /// Where it goes, when it will be there, and what it says then.
    going: Option<(f64, f64, Duration, Duration, Vec<&'static str>)>,
    /// What it says at the end of its next motion, and how far from the target that ends.
    pub ends: (Vec<&'static str>, f64),
    pub settings: BTreeMap<&'static str, String>,
}

/// One scripted device.
#[derive(Clone)]
pub struct Device {
    pub serial: u32,
    pub version: &'static str,
    pub axes: Vec<Axis>,
    /// Whether its replies carry a checksum.
    pub sums: bool,
    pub present: bool,
}

impl Device {
    pub fn new(serial: u32, axes: usize) -> Device {
        let settings = [("resolution", "64"), ("limit.min", "0"), ("limit.max", "50000"), ("maxspeed", "32768")];
        let axis = Axis {
            at: 0.0,
            flags: vec!["WR"],
            going: None,
            ends: (vec![], 0.0),
            settings: settings.map(|(k, v)| (k, v.to_owned())).into(),
        };
        Device { serial, version: "7.35", axes: vec![axis; axes], sums: true, present: true }
    }
}

/// How a command is answered otherwise than by the device itself.
#[derive(Clone)]
pub enum Instead {
    /// Refused, with that reason.
    Refuse(&'static str),
    /// Not at all.
    Nothing,
    /// By the device, after so many milliseconds.
    Late(u64),
    /// By the device, after this line, in which `{id}` is the number of the question; with a checksum or not.
    After(&'static str, bool),
}

pub struct Devices {
    pub at: BTreeMap<u8, Device>,
    /// For the commands that begin so, as `address axis command`; the newest counts, for so many times.
    rules: Vec<(String, Instead, u32)>,
    /// How long a motion takes.
    pub takes: Duration,
}

/// The rig thread before the chain.
pub struct Chain {
    pub s: Scripted,
    pub devices: Arc<Mutex<Devices>>,
}

pub fn sum(body: &str) -> String {
    let sum = body.bytes().fold(0_u8, |s, b| s.wrapping_add(b)).wrapping_neg();
    format!("{body}:{sum:02X}")
}

impl Devices {
    fn hear(&mut self, now: Duration, line: &[u8]) -> Answers {
        let text = String::from_utf8_lossy(line);
        // DEL discards what has come of a message.
        let whole = text.rsplit('\x7f').next().unwrap_or_default();
        let Some(text) = whole.strip_prefix('/') else { return vec![] };
        let Some((body, _)) = text.rsplit_once(':') else { panic!("a command without checksum: {text}") };
        assert_eq!(sum(body), text, "a right checksum");
        let mut words = body.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (address, axis, id) = (word().parse::<u8>().unwrap(), word().parse::<u8>().unwrap(), word());
        let command = word();
        assert!(id.len() == 2 && !command.starts_with("set ") && !command.starts_with("tools"), "{text}");
        let key = format!("{address} {axis} {command}");
        let rule = self.rules.iter_mut().rev().find(|(on, _, left)| key.starts_with(on.as_str()) && *left > 0);
        let instead = rule.map(|(_, instead, left)| {
            *left -= 1;
            instead.clone()
        });
        let after = match &instead {
            Some(Instead::Nothing) => return vec![],
            Some(Instead::Late(ms)) => Duration::from_millis(*ms),
            _ => Duration::from_millis(2),
        };
        let takes = self.takes;
        let devices = self.at.iter_mut().filter(|(a, d)| d.present && (address == 0 || **a == address));
        let before = match &instead {
            Some(Instead::After(line, summed)) => {
                let body = line[1..].replace("{id}", id);
                let body = if *summed { sum(&body) } else { body };
                Some((Duration::from_millis(1), format!("{}{body}\r\n", &line[..1]).into_bytes()))
            }
            _ => None,
        };
        let answers = devices.map(|(a, device)| {
            let refused = match instead {
                Some(Instead::Refuse(why)) => Some(why),
                _ => None,
            };
            (after, device.answer(now, *a, axis, id, command, refused, takes).into_bytes())
        });
        before.into_iter().chain(answers).collect()
    }
}

impl Device {
    fn axes_of(&mut self, axis: u8) -> &mut [Axis] {
        match usize::from(axis) {
            0 => &mut self.axes[..],
            n => &mut self.axes[n - 1..n],
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn answer(
        &mut self,
        now: Duration,
        address: u8,
        axis: u8,
        id: &str,
        command: &str,
        refused: Option<&str>,
        takes: Duration,
    ) -> String {
        if usize::from(axis) > self.axes.len() {
            return self.reply(address, axis, id, now, Err("BADAXIS"));
        }
        for a in &mut self.axes {
            a.settle(now);
        }
        let words: Vec<&str> = command.split(' ').collect();
        let known = match (refused, words.as_slice()) {
            (Some(why), _) => Err(why),
            (_, ["get", "system.serial"]) => Ok(self.serial.to_string()),
            (_, ["get", "deviceid"]) => Ok("50081".into()),
            (_, ["get", "version"]) => Ok(self.version.into()),
            (_, ["get", "system.axiscount"]) => Ok(self.axes.len().to_string()),
            (_, ["get", "pos"]) => Ok(self.axes_of(axis).iter().map(|a| a.place(now)).collect::<Vec<_>>().join(" ")),
            (_, ["get", setting]) => {
                let all: Option<Vec<String>> =
                    self.axes_of(axis).iter().map(|a| a.settings.get(setting).cloned()).collect();
                all.map(|v| v.join(" ")).ok_or("BADCOMMAND")
            }
            (_, ["warnings", rest @ ..]) => {
                let clear = rest == ["clear"];
                let all: Vec<&str> = self.axes_of(axis).iter().flat_map(|a| a.flags.clone()).collect();
                if clear {
                    self.axes_of(axis).iter_mut().for_each(|a| a.flags.retain(|f| f.starts_with("WR") || *f == "FF"));
                }
                Ok(std::iter::once(format!("{:02}", all.len()))
                    .chain(all.iter().map(|f| (*f).into()))
                    .collect::<Vec<_>>()
                    .join(" "))
            }
            (_, ["move", "abs", to, ..]) => {
                let to: f64 = to.parse().unwrap();
                self.axes_of(axis).iter_mut().for_each(|a| a.go(to, now, takes));
                Ok("0".into())
            }
            (_, ["home"]) => {
                for a in self.axes_of(axis) {
                    a.go(0.0, now, takes);
                    a.flags = vec!["WR"];
                }
                Ok("0".into())
            }
            (_, ["stop" | "estop"]) => {
                for a in self.axes_of(axis) {
                    a.at = a.count(now);
                    if a.going.take().is_some() {
                        a.flags.push("NI");
                    }
                }
                Ok("0".into())
            }
            _ => Err("BADCOMMAND"),
        };
        self.reply(address, axis, id, now, known.as_deref().map_err(|e| *e))
    }

    fn reply(&mut self, address: u8, axis: u8, id: &str, now: Duration, data: Result<&str, &str>) -> String {
        let count = self.axes.len();
        let axes = if usize::from(axis) > count { &mut self.axes[..] } else { self.axes_of(axis) };
        let busy = axes.iter().any(|a| a.going.as_ref().is_some_and(|g| g.3 > now));
        let flags: Vec<&str> = axes.iter().flat_map(|a| a.flags.clone()).collect();
        let flag = flags.iter().min_by_key(|f| (!f.starts_with('F'), !f.starts_with('W'))).copied().unwrap_or("--");
        let (word, data) = match data {
            Ok(data) => ("OK", data),
            Err(why) => ("RJ", why),
        };
        let status = if busy { "BUSY" } else { "IDLE" };
        let body = format!("{address:02} {axis} {id} {word} {status} {flag} {data}");
        format!("@{}\r\n", if self.sums { sum(&body) } else { body })
    }
}

impl Axis {
    fn go(&mut self, to: f64, now: Duration, takes: Duration) {
        self.at = self.count(now);
        let (flags, off) = std::mem::take(&mut self.ends);
        self.flags.retain(|f| *f == "WR");
        self.going = Some((self.at, to + off, now, now + takes, flags));
    }

    fn count(&self, now: Duration) -> f64 {
        let Some((from, to, since, until, _)) = &self.going else { return self.at };
        let share = (now.saturating_sub(*since).as_secs_f64() / (*until - *since).as_secs_f64()).min(1.0);
        (from + (to - from) * share).round()
    }

    fn place(&self, now: Duration) -> String {
        format!("{:.0}", self.count(now))
    }

    fn settle(&mut self, now: Duration) {
        if self.going.as_ref().is_some_and(|g| g.3 <= now) {
            let (_, to, _, _, flags) = self.going.take().unwrap();
            let homed = to == 0.0 && flags.is_empty() && self.flags == ["WR"];
            self.at = to;
            self.flags.retain(|f| *f == "WR" && !homed);
            self.flags.extend(flags);
        }
    }

    /// The axis moves by itself, as by its knob.
    pub fn turn_knob(&mut self, to: f64, now: Duration, takes: Duration) {
        self.going = Some((self.at, to, now, now + takes, vec![]));
        self.flags.push("NC");
    }
}

impl Chain {
    /// An open link to these devices.
    pub fn with(rig: &str, at: impl Into<BTreeMap<u8, Device>>) -> Chain {
        let devices = Devices { at: at.into(), rules: vec![], takes: Duration::from_millis(800) };
        let devices = Arc::new(Mutex::new(devices));
        let mut s = Scripted::silent(rig);
        let peer = devices.clone();
        s.peer = Some(Box::new(move |now, line| peer.lock().hear(now, line)));
        Chain { s, devices }
    }

    /// The devices of [`CHAIN`].
    pub fn new() -> Chain {
        Chain::with(CHAIN, [(1, Device::new(101, 1)), (2, Device::new(202, 2))])
    }

    /// The same, all homed.
    pub fn homed() -> Chain {
        let mut c = Chain::new();
        c.online();
        c.home("scope").expect("homing");
        c.home("focus").expect("homing");
        c
    }

    pub fn online(&mut self) {
        self.s.until("all online and read", 30_000, |s| {
            s.handle.snapshot().stages.iter().all(|stage| stage.read_at.is_some())
        });
    }

    /// Sets what is done instead, this often.
    pub fn instead(&self, on: &str, instead: Instead, times: u32) {
        self.devices.lock().rules.push((on.into(), instead, times));
    }

    /// Does something to a device's axis.
    pub fn axis(&self, address: u8, axis: usize, act: impl FnOnce(&mut Axis)) {
        act(&mut self.devices.lock().at.get_mut(&address).unwrap().axes[axis - 1]);
    }

    pub fn device(&self, address: u8, act: impl FnOnce(&mut Device)) {
        act(self.devices.lock().at.get_mut(&address).unwrap());
    }

    pub fn begin_home(&mut self, stage: &str) -> Ticket<Report> {
        let home = Home { stage: Name::new(stage), axes: vec![] };
        self.s.start(Sequence::home("home".into(), home)).unwrap()
    }

    pub fn home(&mut self, stage: &str) -> Result<Report, RigError> {
        let ticket = self.begin_home(stage);
        self.s.answer(ticket)
    }

    /// Targets in mm.
    pub fn begin(&mut self, stage: &str, targets: &[(&str, f64)]) -> Ticket<Report> {
        let movement = Move { stage: Name::new(stage), aim: super::aim(targets) };
        self.s.start(Sequence::movement("move".into(), movement)).unwrap()
    }

    pub fn go(&mut self, stage: &str, targets: &[(&str, f64)]) -> Result<Report, RigError> {
        let ticket = self.begin(stage, targets);
        self.s.answer(ticket)
    }

    /// A move that is under way.
    pub fn moving(&mut self, stage: &str, targets: &[(&str, f64)]) -> Ticket<Report> {
        let ticket = self.begin(stage, targets);
        self.s.run_ms(200);
        ticket
    }

    /// The commands that were heard since then, without number and checksum: `1 1 move abs 1000 16384`.
    pub fn heard(&self, since: Duration) -> Vec<String> {
        let lines = self.s.heard.iter().filter(|(t, _)| *t >= since);
        lines.filter_map(|(_, line)| command(line)).collect()
    }

    /// How often a command that begins so was heard since then.
    pub fn count(&self, since: Duration, begins: &str) -> usize {
        self.heard(since).iter().filter(|c| c.starts_with(begins)).count()
    }
}

fn command(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let text = text.rsplit('\x7f').next()?.strip_prefix('/')?.rsplit_once(':')?.0.to_owned();
    let mut words = text.splitn(4, ' ');
    let (address, axis, _, command) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some(format!("{address} {axis} {command}"))
}
