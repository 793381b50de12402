//! `[[sensor]]`: what it measures, in which unit, and between which values it works.

use std::ops::Range;
use std::time::Duration;

use super::devices::{DeviceDraft, device};
use super::outputs::{channel, distinct};
use super::problem::Sink;
use super::reader::{Field, Section, written};
use super::rig::Sensor;
use super::{Kind, KnownDrivers};
use crate::model::SensorKind;

/// The most sensors of a rig.
const MAX: usize = 64;
/// The largest number in a sensor's scale or range.
const FAR: f64 = 1e12;

/// A sensor as far as it could be read.
pub(super) struct SensorDraft {
    pub(super) device: DeviceDraft,
    channel: Option<(String, Range<usize>)>,
    pub(super) sensor: Option<Sensor>,
}

/// Reads all sensors.
pub(super) fn read(sink: &mut Sink<'_>, root: &mut Section<'_>, drivers: &KnownDrivers) -> Vec<SensorDraft> {
    let mut drafts: Vec<SensorDraft> = Vec::new();
    for section in root.tables(sink, "sensor", MAX) {
        let draft = one(sink, section, drivers);
        let earlier = drafts.iter().map(|d| (&d.device, &d.channel));
        distinct(sink, &draft.device, &draft.channel, earlier);
        drafts.push(draft);
    }
    drafts
}

fn one(sink: &mut Sink<'_>, mut s: Section<'_>, drivers: &KnownDrivers) -> SensorDraft {
    let device = device(sink, &mut s, drivers, Kind::Sensor);
    let able = device.driver.map_or(&[SensorKind::Analog, SensorKind::Digital][..], |d| d.sensors);
    let words: Vec<(&str, SensorKind)> = able.iter().map(|k| (k.word(), *k)).collect();
    let list = words.iter().map(|(w, _)| format!("{w:?}")).collect::<Vec<_>>().join(" or ");
    let kind = s.need(sink, "kind", &format!("write what it is: kind = {list}")).and_then(|f| f.one_of(sink, &words));
    let channel = channel(sink, &mut s, &device);
    let (unit, scale, offset, range) = match kind {
        Some(SensorKind::Analog) => {
            let unit = s
                .need_here(sink, "unit", "write the unit of its values as people shall read it: unit = \"degC\"")
                .and_then(|f| f.line(sink).map(str::to_owned));
            let scale = s.get("scale").map_or(Some(1.0), |f| number(sink, &f, true));
            let offset = s.get("offset").map_or(Some(0.0), |f| number(sink, &f, false));
            let remedy =
                "write between which values it works, e.g. range = [-20.0, 80.0]; what is outside is told as a fault";
            let range = s.need_here(sink, "range", remedy).and_then(|f| range(sink, &f));
            (unit, scale, offset, range.map(Some))
        }
        Some(SensorKind::Digital) => {
            for key in ["unit", "scale", "offset", "range"] {
                if let Some(f) = s.get(key) {
                    sink.say(
                        f.span(),
                        format!("a digital sensor has no `{key}`"),
                        "remove it, or write kind = \"analog\"",
                    );
                }
            }
            (Some(String::new()), Some(1.0), Some(0.0), Some(None))
        }
        None => {
            // Whether they belong there depends on what could not be read.
            for key in ["unit", "scale", "offset", "range"] {
                s.get(key);
            }
            (None, None, None, None)
        }
    };
    let poll = s.get("poll_ms").map_or(Some(Duration::from_secs(1)), |f| f.millis(sink, 50.0..=3_600_000.0));
    let why = s.get("why").map(|f| f.line(sink));
    s.finish(sink, &[]);
    let sensor = (|| {
        Some(Sensor {
            id: device.id.clone()?,
            driver: device.driver?.name.to_owned(),
            link: device.link.as_ref()?.0.clone(),
            kind: kind?,
            channel: channel.as_ref()?.0.clone(),
            unit: unit?,
            scale: scale?,
            offset: offset?,
            range: range?,
            poll: poll?,
            why: why.flatten().map(str::to_owned),
        })
    })();
    SensorDraft { device, channel, sensor }
}

/// A finite number of a sensible size; not zero where it would make all values one.
fn number(sink: &mut Sink<'_>, field: &Field<'_>, not_zero: bool) -> Option<f64> {
    let v = field.number_in(sink, -FAR..=FAR, "")?;
    if not_zero && v.abs() < 1.0 / FAR {
        let message = format!("`{}` = {} would make all values one", field.name, written(v));
        return field.bad(sink, message, "write what the device's number is multiplied by");
    }
    Some(v)
}

fn range(sink: &mut Sink<'_>, field: &Field<'_>) -> Option<(f64, f64)> {
    let list = field.list(sink, 2)?;
    let [low, high] = list.as_slice() else {
        return field.bad(sink, "`range` must be two numbers", "write the lowest and the highest value: [-20.0, 80.0]");
    };
    let (low, high) = (number(sink, low, false), number(sink, high, false));
    let (low, high) = (low?, high?);
    if low < high {
        return Some((low, high));
    }
    let message = format!("`range` = [{}, {}] is empty or reversed", written(low), written(high));
    field.bad(sink, message, "write the lower end first")
}
