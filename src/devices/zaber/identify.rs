//! Who is at an address and what its axes can do: the questions of an identification, and what follows from the
//! answers.

use std::collections::BTreeSet;

use super::codec::{Flag, NONE, Reply, Target, flags, value};
use super::orders::{MOVE_WITH_SPEED, SPEED};
use super::unit::{Axis, Phase, Unit};
use super::words::{all_words, refusal};
use crate::devices::{StageEvent, StageFacts};
use crate::model::{Code, Identity, Source, Time};
use crate::units::{Distance, Speed, plain};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Serial,
    DeviceId,
    Version,
    AxisCount,
    Resolution,
    Lowest,
    Highest,
    MaxSpeed,
    Deceleration,
    Encoder,
    Warnings,
}

impl Question {
    /// As the device knows it.
    pub(super) fn text(self) -> &'static str {
        match self {
            Question::Serial => "get system.serial",
            Question::DeviceId => "get deviceid",
            Question::Version => "get version",
            Question::AxisCount => "get system.axiscount",
            Question::Resolution => "get resolution",
            Question::Lowest => "get limit.min",
            Question::Highest => "get limit.max",
            Question::MaxSpeed => "get maxspeed",
            Question::Deceleration => "get motion.decelonly",
            Question::Encoder => "get encoder.pos",
            Question::Warnings => "warnings",
        }
    }
}

/// Accelerations are told in units of 10000 / 1.6384 microsteps/s².
const ACCELERATION: f64 = 10_000.0;

const OF_DEVICE: [Question; 4] = [Question::Serial, Question::DeviceId, Question::Version, Question::AxisCount];
const OF_AXIS: [Question; 7] = [
    Question::Resolution,
    Question::Lowest,
    Question::Highest,
    Question::MaxSpeed,
    Question::Deceleration,
    Question::Encoder,
    Question::Warnings,
];

/// Who is at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) serial: String,
    device: Option<String>,
}

/// What an axis and its device told.
#[derive(Debug, Clone, Default)]
pub(super) struct Learnt {
    serial: Option<String>,
    device: Option<String>,
    firmware: Option<String>,
    pub(super) version: Option<(u32, u32)>,
    axes: Option<f64>,
    resolution: Option<f64>,
    lowest: Option<f64>,
    highest: Option<f64>,
    max_speed: Option<f64>,
    deceleration: Option<f64>,
    /// Its position is measured.
    pub(super) encoder: bool,
    /// Its replies carry checksums.
    pub(super) summed: bool,
}

impl Unit {
    /// The question of that number, with the axis that it is about; `None` after the last.
    pub(super) fn question(&self, step: usize) -> Option<(usize, Target, Question)> {
        let mut seen = BTreeSet::new();
        let firsts = self.axes.iter().enumerate().filter(|(_, a)| seen.insert(a.target.address));
        let of_devices = firsts.flat_map(|(i, a)| {
            let whole = Target { address: a.target.address, axis: 0 };
            OF_DEVICE.into_iter().map(move |q| (i, whole, q))
        });
        let devices: Vec<_> = of_devices.collect();
        let of_axes =
            self.axes.iter().enumerate().flat_map(|(i, a)| OF_AXIS.into_iter().map(move |q| (i, a.target, q)));
        devices.into_iter().chain(of_axes).nth(step)
    }

    /// The answer to the question of that number.
    pub(super) fn identified(&mut self, step: usize, reply: &Reply, now: Time) {
        let Some((index, to, question)) = self.question(step) else { return };
        if step == 0 {
            self.notes.clear();
            for axis in &mut self.axes {
                axis.learnt = Learnt::default();
            }
        }
        let name = self.axes[index].name();
        // Not every device has these two.
        if !reply.ok && !matches!(question, Question::Encoder | Question::Deceleration) {
            self.notes.push(format!("{name} refused \"{}\" with {}.", question.text(), refusal(&reply.data)));
        }
        let data = reply.ok.then(|| reply.data.clone());
        let number = data.as_deref().and_then(value);
        if question == Question::Warnings {
            let listed = data.as_deref().and_then(flags);
            self.flagged(index, listed.unwrap_or_else(|| only(reply.flag)));
        }
        let of_device = to.axis == 0;
        let concerned = self.axes.iter_mut().enumerate();
        let concerned = concerned.filter(|(i, a)| if of_device { a.target.address == to.address } else { *i == index });
        for (_, axis) in concerned {
            let learnt = &mut axis.learnt;
            learnt.summed |= reply.summed;
            match question {
                Question::Serial => learnt.serial = data.clone(),
                Question::DeviceId => learnt.device = data.clone(),
                Question::Version => {
                    learnt.version = data.as_deref().and_then(version);
                    learnt.firmware = data.clone();
                }
                Question::AxisCount => learnt.axes = number,
                Question::Resolution => learnt.resolution = number,
                Question::Lowest => learnt.lowest = number,
                Question::Highest => learnt.highest = number,
                Question::MaxSpeed => learnt.max_speed = number,
                Question::Deceleration => learnt.deceleration = number,
                Question::Encoder => learnt.encoder = number.is_some(),
                Question::Warnings => {}
            }
        }
        if question == Question::AxisCount
            && let Some(what) = self.stranger(to.address)
        {
            return self.refuse(what, now);
        }
        self.phase = Phase::Identify(step + 1);
        if self.question(step + 1).is_none() {
            self.phase = Phase::Ready;
            self.poll_wanted = true;
            self.sought = None;
            let facts = self.facts();
            self.tell(StageEvent::Online(Box::new(facts)));
        }
    }

    /// Why the device at that address can't be the one that the rig file means.
    fn stranger(&mut self, address: u8) -> Option<String> {
        let axis = self.axes.iter().find(|a| a.target.address == address)?;
        let learnt = &axis.learnt;
        if let (Some(serial), Some(known)) = (&learnt.serial, self.known.get(&address))
            && (known.serial != *serial || known.device != learnt.device)
        {
            return Some(format!(
                "At address {address}, where {} with serial number {} was, {} with serial number {serial} answers now. \
                 If the chain was changed on purpose, check the rig file and start steadyhand anew.",
                device(known.device.as_ref()),
                known.serial,
                device(learnt.device.as_ref()),
            ));
        }
        for axis in self.axes.iter().filter(|a| a.target.address == address) {
            let Some(count) = axis.learnt.axes else { continue };
            if f64::from(axis.target.axis) > count {
                let what = format!("{} isn't there: the device at address {address} has {count} axes.", axis.name());
                return Some(format!("{what} Correct its `channel` in the rig file."));
            }
            if count > 1.0 && !axis.config.channel.contains('.') {
                return Some(format!(
                    "The device at address {address} has {count} axes, and the rig file does not say which is {}: write \
                     channel = \"{address}.1\" or another.",
                    axis.config.id
                ));
            }
        }
        if let Some(serial) = axis.learnt.serial.clone() {
            let device = axis.learnt.device.clone();
            self.known.entry(address).or_insert(Known { serial, device });
        }
        None
    }

    /// It isn't what it should be: nothing is asked of it any more but who it is, now and then.
    fn refuse(&mut self, what: String, now: Time) {
        self.forget();
        self.phase = Phase::Seek { at: now + super::chain::SEEK };
        self.tell(StageEvent::Offline { code: Code::NotConnected, what });
    }

    fn facts(&mut self) -> StageFacts {
        let mut notes = std::mem::take(&mut self.notes);
        let mut facts = StageFacts::default();
        for axis in &self.axes {
            unusual(axis, &mut notes);
            let speed = axis.learnt.max_speed.map(|v| v / SPEED * axis.size());
            facts.max_speed.push(speed.and_then(|v| Speed::base(v).ok()));
            facts.resolution.push(axis.config.count.or(Distance::base(axis.size()).ok()));
            facts.acceleration.push(axis.learnt.deceleration.map(|a| a * ACCELERATION / SPEED * axis.size()));
            let range = learnt_range(axis);
            facts.travel.push(range.and_then(|[low, high]| Distance::base(high - low).ok()));
            facts.range.push(range);
            facts.unreferenced.push(axis.is_unreferenced());
            facts.sources.push(Some(if axis.learnt.encoder { Source::Encoder } else { Source::Counter }));
        }
        let each = |of: fn(&Learnt) -> Option<String>| {
            let mut seen = BTreeSet::new();
            let firsts = self.axes.iter().filter(|a| seen.insert(a.target.address));
            firsts.filter_map(|a| of(&a.learnt)).collect::<Vec<_>>().join(", ")
        };
        // Every axis with a reference to find has its `home`; only counters without end have none, and they refuse it.
        facts.homes = Some(true);
        facts.identity = Identity {
            model: each(|l| Some(device(l.device.as_ref()))),
            firmware: each(|l| l.firmware.clone()),
            serial: each(|l| l.serial.clone()),
            notes,
        };
        facts
    }
}

/// The warnings of a device that can't list them.
pub(super) fn only(flag: Flag) -> Vec<Flag> {
    if flag == NONE { Vec::new() } else { vec![flag] }
}

fn device(id: Option<&String>) -> String {
    id.map_or("an unknown device".into(), |id| format!("Zaber device {id}"))
}

/// Between which counts, in mm or degrees, the device lets an axis be moved.
fn learnt_range(axis: &Axis) -> Option<[f64; 2]> {
    let (low, high) = axis.learnt.lowest.zip(axis.learnt.highest)?;
    Some([low * axis.size(), high * axis.size()])
}

/// `7.25` as two numbers; the build may follow.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    let mut number = || parts.next()?.parse().ok();
    Some((number()?, number()?))
}

/// What is unusual about an axis and what follows.
fn unusual(axis: &Axis, notes: &mut Vec<String>) {
    let (name, unit, learnt) = (axis.name(), axis.config.unit, &axis.learnt);
    if !axis.flags.is_empty() {
        notes.push(format!("{name} says {}.", all_words(&axis.flags)));
    }
    let ends = learnt.lowest.zip(learnt.highest);
    if let Some((a, b)) = ends.and_then(|(low, high)| axis.rig(low).zip(axis.rig(high))) {
        let own = crate::units::Span::between(a, b);
        let travel = axis.config.travel;
        if !own.widened(axis.config.tolerance).contains(travel.low)
            || !own.widened(axis.config.tolerance).contains(travel.high)
        {
            let show = |p: crate::units::Position| plain(p.to(unit));
            notes.push(format!(
                "{name} goes from {} to {} {unit} by its own limits at `resolution` {}, and the rig file lets it go from {} \
                 to {} {unit}: check `counts_per_unit`, `origin` and `sign`.",
                show(own.low),
                show(own.high),
                learnt.resolution.map_or("unknown".into(), plain),
                show(travel.low),
                show(travel.high)
            ));
        }
    }
    let own_speed = learnt.max_speed.and_then(|v| Speed::base(v / SPEED * axis.size()).ok());
    if let Some(own) = own_speed.filter(|v| *v < axis.config.max_speed) {
        notes.push(format!(
            "{name} goes at most {} {unit}/s, the device's own `maxspeed`; the rig file allows {}.",
            plain(own.to(unit)),
            plain(axis.config.max_speed.to(unit))
        ));
    }
    if learnt.version < Some(MOVE_WITH_SPEED) {
        notes.push(format!(
            "{name} has firmware before 7.25, which takes no speed with a move: it goes at the device's own `maxspeed`, \
             and not at all where it may not go as fast.",
        ));
    }
    if axis.config.tolerance.in_base() < axis.size() / 2.0 {
        let step = axis.config.count.map_or("?".into(), |c| plain(c.to(unit)));
        notes.push(format!(
            "{}'s tolerance, {} {unit}, is less than half of a microstep, {step} {unit}: moves will miss it.",
            axis.config.id,
            plain(axis.config.tolerance.to(unit)),
        ));
    }
    if !learnt.summed {
        notes.push(format!(
            "{name} sends no checksums: a damaged number can't be told. `set comm.checksum 1` mends it."
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version("7.3") < version("7.25"));
        assert!(version("6.31") < version("7.1"));
        assert_eq!(version("7.35.1234"), Some((7, 35)));
        assert_eq!(version("NA"), None);
        assert!(version("NA") < Some(MOVE_WITH_SPEED), "what is unknown is taken for old");
    }
}
