//! The command set: what each command does to a device, and what the reply holds.

use super::device::{Device, Outcome, split};
use super::flags::{Flag, listing};
use super::packet::{PACKET_MAX, PACKETS_MAX, WORD_MAX};
use super::settings::{self, Scope};
use super::unit::{Go, Reason, Unit};

/// How many settings one `get` may ask for; `get.settings.max`.
const GET_MAX: usize = 10;
/// How many notes a device stores for its hosts.
const NOTES_MAX: usize = 64;
const BAUDS: [i64; 8] = [9600, 19_200, 38_400, 57_600, 115_200, 230_400, 460_800, 921_600];
const DONE: &str = "0";

fn done() -> Outcome {
    Ok(DONE.into())
}

/// A number of a command; a fraction is allowed and told of by the second value when it must be rounded away.
fn number(word: &str) -> Result<(f64, bool), Reason> {
    let plain = word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    let value: f64 = if plain { word.parse().map_err(|_| "BADDATA")? } else { return Err("BADDATA") };
    Ok((value.round(), value.fract() != 0.0))
}

fn whole(word: &str) -> Result<i64, Reason> {
    word.parse().map_err(|_| "BADDATA")
}

impl Device {
    /// Does what `words` say to an axis (from 1) or the whole device (0).
    pub(super) fn execute(&mut self, axis: u32, words: &[&str], place: usize) -> Outcome {
        let Some((first, rest)) = words.split_first() else { return done() };
        if axis > 0
            && matches!(*first, "system" | "renumber" | "io" | "storage" | "help")
            && rest.first() != Some(&"axis")
        {
            return Err("DEVICEONLY");
        }
        match *first {
            "get" => self.get(axis, rest),
            "set" => self.set(axis, rest),
            "home" if rest.is_empty() => self.go(axis, |_| Ok((Go::Home, false)), None, None),
            "move" => self.movement(axis, rest),
            "stop" if rest.is_empty() => {
                self.of_mut(axis).for_each(Unit::stop);
                done()
            }
            "estop" if rest.is_empty() => {
                self.of_mut(axis).for_each(Unit::emergency_stop);
                done()
            }
            "warnings" => self.warnings(axis, rest),
            "driver" => self.driver(axis, rest),
            "system" => self.system(rest),
            "renumber" => self.renumber(rest, place),
            "tools" => self.tools(axis, rest),
            "storage" => self.storage(rest),
            "io" => self.io.command(rest),
            "help" => {
                let text = [
                    "COMMANDS USAGE:",
                    "get setting [setting...]",
                    "set setting value",
                    "home, stop, estop, warnings [clear]",
                    "move abs, rel, min, max, vel, stored, index",
                    "For the full command set visit the protocol manual.",
                ];
                self.infos = text.iter().map(|t| (*t).to_owned()).collect();
                done()
            }
            _ => Err("BADCOMMAND"),
        }
    }

    fn movement(&mut self, axis: u32, words: &[&str]) -> Outcome {
        let (kind, rest) = words.split_first().ok_or("BADCOMMAND")?;
        let takes = match *kind {
            "min" | "max" => 0,
            "abs" | "rel" | "vel" | "stored" | "index" => 1,
            _ => return Err("BADCOMMAND"),
        };
        if rest.len() < takes {
            return Err("BADDATA");
        }
        let (value, limits) = rest.split_at(takes);
        let optional = |i: usize| -> Result<Option<f64>, Reason> {
            let given = limits.get(i).map(|w| number(w)).transpose()?;
            match given {
                Some((v, _)) if v < 0.0 || (i == 0 && v == 0.0) => Err("BADDATA"),
                other => Ok(other.map(|(v, _)| v)),
            }
        };
        // A velocity is its own speed, so that only the acceleration can follow it.
        let (speed, accel) = match *kind {
            "vel" => (None, limits.first().map(|w| number(w).map(|(v, _)| v)).transpose()?),
            _ => (optional(0)?, optional(1)?),
        };
        if limits.len() > if *kind == "vel" { 1 } else { 2 } {
            return Err("BADDATA");
        }
        match (*kind, value) {
            ("min", _) => self.go(axis, |u| Ok((Go::To(u.store.get("limit.min") as f64), false)), speed, accel),
            ("max", _) => self.go(axis, |u| Ok((Go::To(u.store.get("limit.max") as f64), false)), speed, accel),
            ("abs", [word]) => {
                let (x, rounded) = number(word)?;
                self.go(axis, |_| Ok((Go::To(x), rounded)), speed, accel)
            }
            ("rel", [word]) => {
                let (d, rounded) = number(word)?;
                self.go(axis, |_| Ok((Go::By(d), rounded)), speed, accel)
            }
            ("vel", [word]) => {
                let (v, rounded) = number(word)?;
                self.go(axis, |_| Ok((Go::At(v), rounded)), None, accel)
            }
            ("stored", [word]) => {
                let i = whole(word)?;
                let stored = |u: &Unit| {
                    let x = usize::try_from(i - 1).ok().and_then(|i| u.stored.get(i).copied().flatten());
                    x.map(|x| (Go::To(x), false)).ok_or("BADDATA")
                };
                self.go(axis, stored, speed, accel)
            }
            (_, [word]) => {
                let i = whole(word)?;
                let place = |u: &Unit| {
                    let x = (i - 1).checked_mul(u.store.get("motion.index.dist")).filter(|_| i > 0);
                    x.map(|x| (Go::To(x as f64), false)).ok_or("BADDATA")
                };
                self.go(axis, place, speed, accel)
            }
            _ => Err("BADDATA"),
        }
    }

    /// Begins a movement on one axis or all; if one of them cannot, none does.
    fn go(
        &mut self,
        axis: u32,
        what: impl Fn(&Unit) -> Result<(Go, bool), Reason>,
        speed: Option<f64>,
        accel: Option<f64>,
    ) -> Outcome {
        if self.broken() {
            return Err("DRIVERDISABLED");
        }
        let mut orders = Vec::new();
        for unit in self.of(axis) {
            let (go, rounded) = what(unit)?;
            if let Go::At(v) = go
                && v.abs() > fastest(unit)
            {
                return Err("BADDATA");
            }
            unit.may_go(go)?;
            orders.push((go, rounded));
        }
        for (unit, (go, rounded)) in self.of_mut(axis).zip(orders) {
            unit.go(go, speed, accel);
            if rounded {
                unit.raise(Flag::NR);
            }
        }
        done()
    }

    fn warnings(&mut self, axis: u32, words: &[&str]) -> Outcome {
        let listed = listing(&self.flags(axis));
        match words {
            [] => {}
            ["clear"] => self.of_mut(axis).for_each(Unit::clear_warnings),
            _ => return Err("BADCOMMAND"),
        }
        Ok(listed)
    }

    fn driver(&mut self, axis: u32, words: &[&str]) -> Outcome {
        match words {
            ["disable"] => self.of_mut(axis).for_each(Unit::disable_driver),
            ["enable"] if self.broken() => return Err("DRIVERDISABLED"),
            ["enable"] => self.of_mut(axis).for_each(Unit::enable_driver),
            _ => return Err("BADCOMMAND"),
        }
        done()
    }

    fn system(&mut self, words: &[&str]) -> Outcome {
        match words {
            ["reset"] => self.resetting = true,
            ["restore"] if self.busy(0) => return Err("STATUSBUSY"),
            ["restore"] => self.restore(),
            _ => return Err("BADCOMMAND"),
        }
        done()
    }

    fn renumber(&mut self, words: &[&str], place: usize) -> Outcome {
        let first = match words {
            [] => 1,
            [word] => whole(word)?,
            _ => return Err("BADDATA"),
        };
        let address = first.saturating_add(place as i64);
        if !(1..=99).contains(&address) {
            return Err("BADDATA");
        }
        self.store.put("comm.address", address);
        done()
    }

    fn tools(&mut self, axis: u32, words: &[&str]) -> Outcome {
        match words {
            ["echo"] => return done(),
            ["echo", text @ ..] => return Ok(text.join(" ")),
            ["parking", "state"] => {
                return Ok(self.of(axis).map(|u| u8::from(u.parked()).to_string()).collect::<Vec<_>>().join(" "));
            }
            ["parking", "park"] if self.busy(axis) => return Err("STATUSBUSY"),
            ["parking", "park"] => self.of_mut(axis).try_for_each(Unit::park)?,
            ["parking", "unpark"] => self.of_mut(axis).for_each(Unit::unpark),
            ["storepos", place, rest @ ..] => {
                let i = usize::try_from(whole(place)? - 1).ok().filter(|i| *i < 16).ok_or("BADDATA")?;
                let at = match rest {
                    [] => {
                        let shown = self.of(axis).map(|u| u.stored[i].map_or(0, |x| x as i64).to_string());
                        return Ok(shown.collect::<Vec<_>>().join(" "));
                    }
                    ["current"] => None,
                    [word] => Some(number(word)?.0),
                    _ => return Err("BADDATA"),
                };
                for unit in self.of_mut(axis) {
                    let x = at.unwrap_or_else(|| unit.counter().round());
                    unit.stored[i] = Some(x);
                }
            }
            _ => return Err("BADCOMMAND"),
        }
        done()
    }

    /// Notes that hosts keep in a device: `storage [axis] get|set|erase KEY …`.
    fn storage(&mut self, words: &[&str]) -> Outcome {
        let (scope, words) = match words {
            ["axis", rest @ ..] => ("axis ", rest),
            rest => ("", rest),
        };
        match words {
            ["get", key] => self.notes.get(&format!("{scope}{key}")).cloned().ok_or("BADDATA"),
            ["set", key, value @ ..] if !value.is_empty() => {
                let key = format!("{scope}{key}");
                if self.notes.len() >= NOTES_MAX && !self.notes.contains_key(&key) {
                    return Err("FULL");
                }
                self.notes.insert(key, value.join(" "));
                done()
            }
            ["erase", key] => self.notes.remove(&format!("{scope}{key}")).map(|_| DONE.into()).ok_or("BADDATA"),
            _ => Err("BADCOMMAND"),
        }
    }

    fn get(&self, axis: u32, names: &[&str]) -> Outcome {
        if names.is_empty() || names.len() > GET_MAX {
            return Err(if names.is_empty() { "BADCOMMAND" } else { "BADDATA" });
        }
        let values: Result<Vec<String>, Reason> = names.iter().map(|name| self.value(axis, name)).collect();
        Ok(values?.join(";"))
    }

    /// A setting's value: of the device, of an axis, or of all axes one after the other.
    fn value(&self, axis: u32, name: &str) -> Outcome {
        if let Some(value) = self.device_value(name) {
            return if axis == 0 { Ok(value) } else { Err("DEVICEONLY") };
        }
        if name.starts_with("peripheral") && !self.given.controller {
            return Err("BADCOMMAND");
        }
        let values: Option<Vec<String>> = self.of(axis).map(|u| axis_value(u, name)).collect();
        Ok(values.ok_or("BADCOMMAND")?.join(" "))
    }

    fn device_value(&self, name: &str) -> Option<String> {
        Some(match name {
            "comm.command.packets.max" => PACKETS_MAX.to_string(),
            "comm.packet.size.max" => PACKET_MAX.to_string(),
            "comm.word.size.max" => WORD_MAX.to_string(),
            "comm.protocol" => "2".into(),
            "deviceid" | "device.id" => self.given.device_id.to_string(),
            "device.hw.modified" | "lockstep.numgroups" | "stream.numbufs" | "stream.numstreams" => "0".into(),
            "get.settings.max" => GET_MAX.to_string(),
            "system.axiscount" => self.units.len().to_string(),
            "system.serial" => self.given.serial.to_string(),
            "system.temperature" => "31.4".into(),
            "system.uptime" => format!("{:.3}", self.uptime_s()),
            "system.voltage" => "48.0".into(),
            "version" => self.given.firmware.clone(),
            "version.build" => self.given.build.to_string(),
            _ => {
                let setting = settings::find(name).filter(|s| s.scope == Scope::Device)?;
                self.store.get(setting.name).to_string()
            }
        })
    }

    fn set(&mut self, axis: u32, words: &[&str]) -> Outcome {
        let [name, word] = words else {
            return Err(if words.is_empty() { "BADCOMMAND" } else { "BADDATA" });
        };
        if *name == "pos" {
            return self.set_pos(axis, word);
        }
        if *name == "accel" {
            self.set(axis, &["motion.accelonly", word])?;
            return self.set(axis, &["motion.decelonly", word]);
        }
        let setting = settings::find(name).filter(|s| s.level < 9).ok_or("BADCOMMAND")?;
        let (value, rounded) = number(word)?;
        if !(setting.min as f64 <= value && value <= setting.max as f64) {
            return Err("BADDATA");
        }
        let value = if rounded { value as i64 } else { whole(word.trim_end_matches(".0"))? };
        if self.store.get("system.access") < setting.level {
            return Err("NOACCESS");
        }
        let full = match setting.scope {
            Scope::Device => setting.name.to_owned(),
            Scope::Axis => format!("{}.{}", axis.max(1), setting.name),
        };
        let write = self.mishaps.write(&full, value as f64).ok_or("BADDATA")?;
        let (setting, axis, value) = match split(&write.name) {
            (to, name) if write.name != full => (settings::find(name).unwrap_or(setting), to, write.value as i64),
            _ => (setting, axis, write.value as i64),
        };
        self.before_write();
        self.dying = write.resets;
        if setting.scope == Scope::Device {
            if axis > 0 {
                return Err("DEVICEONLY");
            }
            if setting.name == "comm.rs232.baud" && !BAUDS.contains(&value) {
                return Err("BADDATA");
            }
            self.store.put(setting.name, value);
            return done();
        }
        for unit in self.of(axis) {
            let crossed = match setting.name {
                "limit.min" => value > unit.store.get("limit.max"),
                "limit.max" => value < unit.store.get("limit.min"),
                "maxspeed" => value as f64 > fastest(unit),
                _ => false,
            };
            if crossed {
                return Err("BADDATA");
            }
            if setting.name == "resolution" && unit.busy() {
                return Err("STATUSBUSY");
            }
        }
        for unit in self.of_mut(axis) {
            if setting.name == "resolution" {
                unit.set_resolution(value);
            } else {
                unit.store.put(setting.name, value);
            }
            if rounded {
                unit.raise(Flag::NR);
            }
        }
        done()
    }

    fn set_pos(&mut self, axis: u32, word: &str) -> Outcome {
        let (x, rounded) = number(word)?;
        if x.abs() > 1e9 {
            return Err("BADDATA");
        }
        if self.busy(axis) {
            return Err("STATUSBUSY");
        }
        if self.of(axis).any(Unit::parked) {
            return Err("PARKED");
        }
        for unit in self.of_mut(axis) {
            unit.declare(x);
            if rounded {
                unit.raise(Flag::NR);
            }
        }
        done()
    }
}

/// The greatest `maxspeed`: 16384 full steps' worth of the resolution.
fn fastest(unit: &Unit) -> f64 {
    unit.store.get("resolution") as f64 * 16_384.0
}

fn axis_value(unit: &Unit, name: &str) -> Option<String> {
    Some(match name {
        "accel" => unit.store.get("motion.accelonly").to_string(),
        "driver.enabled" => u8::from(unit.driver_on()).to_string(),
        "driver.temperature" => "35.2".into(),
        "encoder.count" => unit.encoder_count()?.to_string(),
        "encoder.pos" => format!("{:.0}", unit.encoder_pos()?),
        "encoder.pos.error" => format!("{:.0}", unit.counter() - unit.encoder_pos()?),
        "limit.home.state" | "limit.home.triggered" => u8::from(unit.stage.switch()).to_string(),
        "motion.busy" => u8::from(unit.busy()).to_string(),
        "peripheral.id" | "peripheralid" => unit.peripheral_id.to_string(),
        "peripheral.hw.modified" | "peripheral.serial" => "0".into(),
        "pos" => unit.pos().to_string(),
        "vel" => unit.speed().to_string(),
        _ => {
            let setting = settings::find(name).filter(|s| s.scope == Scope::Axis)?;
            unit.store.get(setting.name).to_string()
        }
    })
}
