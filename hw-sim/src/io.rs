//! The box of outputs and sensors: a line protocol over TCP, outputs that take their time.

use std::collections::BTreeMap;

use crate::config::{ChannelConfig, IoConfig};
use crate::port::Ns;

const MS: Ns = 1_000_000;
const LINE_LIMIT: usize = 200;

/// One channel and what it does.
#[derive(Debug)]
struct Channel {
    cfg: ChannelConfig,
    /// Percent, position, measured number; 1 for open and on.
    is: f64,
    /// Where it is going, and until when it is on its way.
    to: f64,
    until: Ns,
    /// It takes orders and does not follow.
    stuck: bool,
}

impl Channel {
    fn new(cfg: &ChannelConfig) -> Channel {
        let is = match cfg {
            ChannelConfig::Wheel { .. } => 1.0,
            ChannelConfig::Analog { value, .. } => *value,
            ChannelConfig::Digital { on } => f64::from(u8::from(*on)),
            ChannelConfig::Light | ChannelConfig::Shutter { .. } | ChannelConfig::Line => 0.0,
        };
        Channel { cfg: cfg.clone(), is, to: is, until: 0, stuck: false }
    }

    fn travel(&self, to: f64) -> Ns {
        match &self.cfg {
            ChannelConfig::Shutter { travel_ms } => travel_ms * MS,
            ChannelConfig::Wheel { slots, ms_per_slot } => {
                // The shorter way round.
                let far = (to - self.is).abs() as u64;
                far.min(*slots as u64 - far) * ms_per_slot * MS
            }
            _ => 0,
        }
    }

    fn go(&mut self, to: f64, now: Ns) {
        if self.stuck {
            return;
        }
        self.to = to;
        self.until = if to == self.is { now } else { now + self.travel(to) };
        self.settle(now);
    }

    fn settle(&mut self, now: Ns) {
        if now >= self.until {
            self.is = self.to;
        }
    }

    fn is_moving(&self) -> bool {
        self.is != self.to
    }

    /// What it really does, in a word.
    fn word(&self) -> String {
        let switch = |on: &str, off: &str| if self.is > 0.5 { on.to_owned() } else { off.to_owned() };
        match &self.cfg {
            ChannelConfig::Wheel { .. } if self.is_moving() => "moving".into(),
            ChannelConfig::Shutter { .. } if self.is_moving() => "moving".into(),
            ChannelConfig::Shutter { .. } => switch("open", "closed"),
            ChannelConfig::Line | ChannelConfig::Digital { .. } => switch("on", "off"),
            ChannelConfig::Light | ChannelConfig::Wheel { .. } | ChannelConfig::Analog { .. } => number(self.is),
        }
    }
}

/// At most three decimals, never an exponent.
fn number(v: f64) -> String {
    let text = format!("{v:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The box.
#[derive(Debug)]
pub(crate) struct Io {
    cfg: IoConfig,
    channels: BTreeMap<String, Channel>,
    rng: fastrand::Rng,
    now: Ns,
    line: Vec<u8>,
    overlong: bool,
    out: Vec<u8>,
}

impl Io {
    pub(crate) fn new(cfg: &IoConfig, seed: u64) -> Io {
        Io {
            channels: cfg.channels.iter().map(|(name, c)| (name.clone(), Channel::new(c))).collect(),
            cfg: cfg.clone(),
            rng: fastrand::Rng::with_seed(seed),
            now: 0,
            line: Vec::new(),
            overlong: false,
            out: Vec::new(),
        }
    }

    /// Switches what has no rest position of its own to its state after power-up; wheels stay where they are.
    pub(crate) fn power_cycle(&mut self) {
        for channel in self.channels.values_mut() {
            let stays = matches!(
                channel.cfg,
                ChannelConfig::Wheel { .. } | ChannelConfig::Analog { .. } | ChannelConfig::Digital { .. }
            );
            if !stays {
                (channel.is, channel.to) = (0.0, 0.0);
            }
        }
        self.line.clear();
        self.out.clear();
    }

    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn next_event(&self) -> Option<Ns> {
        self.channels.values().filter(|c| c.is_moving()).map(|c| c.until).min()
    }

    pub(crate) fn advance(&mut self, now: Ns) {
        self.now = now;
        self.channels.values_mut().for_each(|c| c.settle(now));
    }

    pub(crate) fn state_name(&self) -> &'static str {
        if self.channels.values().any(Channel::is_moving) { "moving" } else { "idle" }
    }

    /// What a channel really does.
    pub(crate) fn word(&self, channel: &str) -> Option<String> {
        self.channels.get(channel).map(Channel::word)
    }

    /// Sets what a sensor measures. `false` when there is no such sensor.
    pub(crate) fn measure(&mut self, channel: &str, value: f64) -> bool {
        let Some(c) = self.channels.get_mut(channel) else { return false };
        let sensor = matches!(c.cfg, ChannelConfig::Analog { .. } | ChannelConfig::Digital { .. });
        if sensor && value.is_finite() {
            (c.is, c.to) = (value, value);
        }
        sensor && value.is_finite()
    }

    /// Makes an output deaf, or well again. `false` when there is no such channel.
    pub(crate) fn stick(&mut self, channel: &str, on: bool) -> bool {
        let found = self.channels.get_mut(channel);
        found.map(|c| c.stuck = on).is_some()
    }

    /// A light's share of its full brightness.
    pub(crate) fn lit(&self, channel: &str) -> f64 {
        self.channels.get(channel).map_or(0.0, |c| c.is / 100.0)
    }

    /// Whether a shutter is open; while it travels it is not.
    pub(crate) fn open(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|c| c.is > 0.5 && !c.is_moving())
    }

    /// A wheel's position, from 0; none while it turns.
    pub(crate) fn slot(&self, channel: &str) -> Option<usize> {
        self.channels.get(channel).filter(|c| !c.is_moving()).map(|c| c.is as usize - 1)
    }

    pub(crate) fn receive(&mut self, byte: u8) {
        if byte != b'\n' {
            self.overlong |= self.line.len() >= LINE_LIMIT;
            if !self.overlong {
                self.line.push(byte);
            }
            return;
        }
        let raw = std::mem::take(&mut self.line);
        let reply = if std::mem::take(&mut self.overlong) {
            format!("ERR line longer than {LINE_LIMIT} bytes")
        } else {
            let text = String::from_utf8_lossy(&raw).into_owned();
            self.command(text.trim_end_matches('\r'))
        };
        self.out.extend_from_slice(reply.as_bytes());
        self.out.push(b'\n');
    }

    fn command(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["ID?"] => {
                let channels = self.channels.iter().map(|(name, c)| match &c.cfg {
                    ChannelConfig::Wheel { slots, .. } => format!(" {name}:wheel{slots}"),
                    other => format!(" {name}:{}", other.kind()),
                });
                let channels: String = channels.collect();
                format!("ID simio 1 model=BenchBox serial={}{channels}", self.cfg.serial)
            }
            ["GET"] => {
                let mut values = String::new();
                for (name, c) in &self.channels {
                    let word = match &c.cfg {
                        ChannelConfig::Analog { noise, .. } => number(c.is + noise * (2.0 * self.rng.f64() - 1.0)),
                        _ => c.word(),
                    };
                    values += &format!(" {name}={word}");
                }
                format!("GET{values}")
            }
            ["SET", name, value] => match self.set(name, value) {
                Ok(()) => format!("SET {name}={}", self.word(name).unwrap_or_default()),
                Err(why) => format!("ERR {name} {why}"),
            },
            _ => format!("ERR unknown {}", words.first().unwrap_or(&"")),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let now = self.now;
        let Some(c) = self.channels.get_mut(name) else { return Err("unknown".into()) };
        let within = |low: f64, high: f64| {
            let v: Option<f64> = value.parse().ok();
            v.filter(|v| low <= *v && *v <= high).ok_or_else(|| format!("range {} {}", number(low), number(high)))
        };
        let switch = |on: &str, off: &str| match value {
            v if v == on => Ok(1.0),
            v if v == off => Ok(0.0),
            _ => Err(format!("range {off} {on}")),
        };
        let to = match &c.cfg {
            ChannelConfig::Light => (within(0.0, 100.0)? * 100.0).round() / 100.0,
            ChannelConfig::Shutter { .. } => switch("open", "closed")?,
            ChannelConfig::Line => switch("on", "off")?,
            ChannelConfig::Wheel { slots, .. } => within(1.0, *slots as f64)?.round(),
            ChannelConfig::Analog { .. } | ChannelConfig::Digital { .. } => return Err("is a sensor".into()),
        };
        c.go(to, now);
        Ok(())
    }
}
