//! The digital and analog channels of a device.

use super::config::IoConfig;
use super::device::Outcome;

/// All channels; outputs are off when power comes on.
#[derive(Debug)]
pub(super) struct Io {
    ao: Vec<f64>,
    ai: Vec<f64>,
    outputs: Vec<bool>,
    di: Vec<bool>,
}

impl Io {
    pub(super) fn new(n: IoConfig) -> Io {
        Io { ao: vec![0.0; n.ao], ai: vec![0.0; n.ai], outputs: vec![false; n.outputs], di: vec![false; n.di] }
    }

    pub(super) fn power_cycle(&mut self) {
        self.ao.fill(0.0);
        self.outputs.fill(false);
    }

    /// What stands outside puts a level on an input, from 1. `None` if there is no such input.
    pub(super) fn drive_digital(&mut self, channel: usize, on: bool) -> Option<()> {
        put(&mut self.di, channel, on)
    }

    /// As [`Io::drive_digital`], in volts.
    pub(super) fn drive_analog(&mut self, channel: usize, volts: f64) -> Option<()> {
        put(&mut self.ai, channel, volts)
    }

    /// What an output holds: volts, or 0 and 1.
    pub(super) fn output(&self, kind: &str, channel: usize) -> Option<f64> {
        let i = channel.checked_sub(1)?;
        match kind {
            "ao" => self.ao.get(i).copied(),
            "do" => self.outputs.get(i).map(|on| f64::from(u8::from(*on))),
            _ => None,
        }
    }

    /// `io info`, `io get TYPE [CHANNEL]`, `io set TYPE CHANNEL VALUE`, `io set TYPE port VALUE…`.
    pub(super) fn command(&mut self, words: &[&str]) -> Outcome {
        if self.ao.len() + self.ai.len() + self.outputs.len() + self.di.len() == 0 {
            return Err("BADCOMMAND");
        }
        match words {
            ["info"] => {
                let Io { ao, ai, outputs, di } = self;
                Ok(format!("{} {} {} {}", ao.len(), ai.len(), outputs.len(), di.len()))
            }
            ["info", kind] => Ok(self.values(kind)?.len().to_string()),
            ["get", kind] => Ok(self.values(kind)?.join(" ")),
            ["get", kind, channel] => {
                let values = self.values(kind)?;
                let i = index(channel)?;
                values.get(i).cloned().ok_or("BADDATA")
            }
            ["set", kind, "port", values @ ..] => {
                if values.len() != self.values(kind)?.len() {
                    return Err("BADDATA");
                }
                let changes: Vec<(usize, &str)> = values.iter().copied().enumerate().collect();
                self.set(kind, &changes)
            }
            ["set", kind, channel, value] => self.set(kind, &[(index(channel)?, *value)]),
            _ => Err("BADCOMMAND"),
        }
    }

    fn values(&self, kind: &str) -> Result<Vec<String>, &'static str> {
        let digital = |pins: &[bool]| pins.iter().map(|on| u8::from(*on).to_string()).collect();
        let analog = |volts: &[f64]| volts.iter().map(|v| format!("{v:.2}")).collect();
        match kind {
            "ao" => Ok(analog(&self.ao)),
            "ai" => Ok(analog(&self.ai)),
            "do" => Ok(digital(&self.outputs)),
            "di" => Ok(digital(&self.di)),
            _ => Err("BADCOMMAND"),
        }
    }

    /// All of it or nothing.
    fn set(&mut self, kind: &str, changes: &[(usize, &str)]) -> Outcome {
        match kind {
            "do" => {
                let mut next = self.outputs.clone();
                for (i, value) in changes {
                    let pin = next.get_mut(*i).ok_or("BADDATA")?;
                    *pin = match *value {
                        "0" => false,
                        "1" => true,
                        // `t` toggles, `k` keeps.
                        "t" => !*pin,
                        "k" => *pin,
                        _ => return Err("BADDATA"),
                    };
                }
                self.outputs = next;
            }
            "ao" => {
                let mut next = self.ao.clone();
                for (i, value) in changes {
                    let volts = next.get_mut(*i).ok_or("BADDATA")?;
                    *volts = value.parse().ok().filter(|v| (0.0..=10.0).contains(v)).ok_or("BADDATA")?;
                }
                self.ao = next;
            }
            _ => return Err("BADCOMMAND"),
        }
        Ok("0".into())
    }
}

fn put<T>(channels: &mut [T], channel: usize, value: T) -> Option<()> {
    *channels.get_mut(channel.checked_sub(1)?)? = value;
    Some(())
}

fn index(word: &str) -> Result<usize, &'static str> {
    word.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).ok_or("BADDATA")
}
