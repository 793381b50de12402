//! `[[camera]]`: what a picture's pixels measure and which way the axes run in it.

use std::path::{Path, PathBuf};

use super::axes::{Axes, measures};
use super::devices::{DeviceDraft, device};
use super::outputs::OutputDraft;
use super::problem::Sink;
use super::reader::{Field, Section, choice};
use super::rig::{Camera, Light};
use super::sections::directory;
use super::{Kind, KnownDrivers};
use crate::model::{AxisId, CameraChange, OutputKind, OutputValue};
use crate::units::{Dimension, Percent};

/// The most cameras of a rig.
const MAX: usize = 64;
/// The largest sensor, in pixels a side.
const SENSOR: u32 = 1_000_000;

/// A camera as far as it could be read.
pub(super) struct CameraDraft {
    pub(super) device: DeviceDraft,
    pub(super) camera: Option<Camera>,
}

/// Reads all cameras.
pub(super) fn read(
    sink: &mut Sink<'_>,
    root: &mut Section<'_>,
    axes: &Axes<'_>,
    outputs: &[OutputDraft],
    drivers: &KnownDrivers,
    file: &Path,
) -> Vec<CameraDraft> {
    let sections = root.tables(sink, "camera", MAX);
    sections.into_iter().map(|s| one(sink, s, axes, outputs, drivers, file)).collect()
}

fn one(
    sink: &mut Sink<'_>,
    mut s: Section<'_>,
    axes: &Axes<'_>,
    outputs: &[OutputDraft],
    drivers: &KnownDrivers,
    file: &Path,
) -> CameraDraft {
    let device = device(sink, &mut s, drivers, Kind::Camera);
    let plays = device.driver.is_some_and(|d| d.plays_folder);
    let folder = folder(sink, &mut s, plays, file);
    let pixel_size_um = s
        .need(sink, "pixel_size_um", "write how many micrometres of the sample one unbinned pixel shows")
        .and_then(|f| f.number_in(sink, 0.0001..=100_000.0, "um"));
    let directions = s.get("axes").map(|f| directions(sink, &f, axes));
    let exposure_ms = s.get("exposure_ms").map(|f| f.number_in(sink, 0.000_001..=3_600_000.0, "ms"));
    let gain = s.get("gain").map(|f| f.number_in(sink, 0.000_001..=1_000_000.0, ""));
    let region = s.get("roi").map(|f| roi(sink, &f));
    let binning = s.get("binning").map(|f| f.whole(sink, 1..=64, ""));
    let bits = s.get("bits").map(|f| {
        let bits = f.whole(sink, 1..=64, "")?;
        if [8, 10, 12, 14, 16].contains(&bits) {
            return Some(bits);
        }
        f.bad(sink, format!("`bits` = {bits} is no pixel depth"), "write 8, 10, 12, 14 or 16")
    });
    let light = light(sink, &mut s, outputs);
    s.finish(sink, &[]);
    let (right, up) = directions.flatten().unwrap_or_default();
    let start = CameraChange {
        exposure_ms: exposure_ms.flatten(),
        gain: gain.flatten(),
        roi: region.flatten(),
        binning: binning.flatten(),
        bits: bits.flatten(),
    };
    let link = device.link.as_ref().map(|(link, _)| link.clone());
    let reached = link.is_some() || folder.is_some();
    let camera = match (&device.id, &device.driver, pixel_size_um) {
        (Some(id), Some(driver), Some(pixel_size_um)) if reached => Some(Camera {
            id: id.clone(),
            driver: driver.name.to_owned(),
            link,
            folder,
            pixel_size_um,
            right,
            up,
            start,
            light,
        }),
        _ => None,
    };
    CameraDraft { device, camera }
}

/// `folder = "pictures"`, of a driver that plays one.
fn folder(sink: &mut Sink<'_>, s: &mut Section<'_>, plays: bool, file: &Path) -> Option<PathBuf> {
    if plays {
        let field =
            s.need_here(sink, "folder", "name the folder of the pictures that it plays: folder = \"pictures\"")?;
        let text = field.line(sink)?;
        return directory(sink, &field, text, file);
    }
    if let Some(f) = s.get("folder") {
        sink.say(f.span(), "`folder` has no meaning for this driver", "remove it, or write driver = \"folder\"");
    }
    None
}

/// `light = "shutter"`, or `light = "lamp"` with `light_percent = 30`: what is opened for each exposure.
fn light(sink: &mut Sink<'_>, s: &mut Section<'_>, outputs: &[OutputDraft]) -> Option<Light> {
    let percent = s.get("light_percent");
    let Some(field) = s.get("light") else {
        if let Some(f) = percent {
            sink.say(f.span(), "`light_percent` is given without `light`", "name the light too: light = \"…\"");
        }
        return None;
    };
    let name = field.id(sink)?;
    let Some(draft) = outputs.iter().find(|o| o.device.id.as_ref() == Some(&name)) else {
        if outputs.iter().any(|o| o.device.id.is_none()) {
            return None;
        }
        let remedy = match outputs {
            [] => "describe it in an [[output]]".into(),
            some => choice(name.as_str(), some.iter().filter_map(|o| o.device.id.as_ref()).map(|n| n.as_str())),
        };
        return field.bad(sink, format!("there is no output {:?}", name.as_str()), remedy);
    };
    if draft.device.driver.is_some_and(|d| d.by_hand) {
        let message = format!("{name} is done by hand, and no exposure waits for a person");
        return field.bad(sink, message, "name a light that a driver switches, or remove `light`");
    }
    let kind = draft.kind?;
    if kind != OutputKind::Light
        && let Some(f) = &percent
    {
        sink.say(f.span(), format!("{name} is a {}, which has no percent", kind.word()), "remove `light_percent`");
        return None;
    }
    let open = match kind {
        OutputKind::Shutter => OutputValue::Open(true),
        OutputKind::Line => OutputValue::On(true),
        OutputKind::Wheel => {
            return field.bad(sink, format!("{name} is a wheel and no light"), "name a light, a shutter or a line");
        }
        OutputKind::Light => {
            let Some(f) = percent else {
                let remedy = "write how bright it is for an exposure: light_percent = 30";
                return field.bad(sink, format!("`light_percent` is missing: {name} is a light in percent"), remedy);
            };
            // A light whose maximum could not be read has a problem of its own.
            let max = draft.max.unwrap_or(Percent::FULL).value();
            OutputValue::Percent(Percent::new(f.number_in(sink, 0.1..=max, "%")?)?)
        }
    };
    Some(Light { output: name, open })
}

type Direction = Option<(f64, AxisId)>;

/// `axes = { right = "+sample.x", up = "-sample.y" }`; either may be left out.
fn directions(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'_>) -> Option<(Direction, Direction)> {
    let mut s = field.section(sink, "`axes`".into())?;
    let mut direction = |sink: &mut Sink<'_>, key: &'static str| {
        let field = s.get(key)?;
        let (sign, axis) = axes.signed(sink, &field)?;
        let remedy = "name an axis that moves the sample in the picture by a length";
        measures(sink, field.span(), axis, Dimension::Length, remedy).then(|| (sign, axis.id.clone()))
    };
    let right = direction(sink, "right");
    let up = direction(sink, "up");
    s.finish(sink, &[]);
    if let (Some((_, r)), Some((_, u))) = (&right, &up)
        && r == u
    {
        return field.bad(sink, format!("`right` and `up` are both {r}"), "name two different axes");
    }
    Some((right, up))
}

/// `[x, y, width, height]` in unbinned pixels.
fn roi(sink: &mut Sink<'_>, field: &Field<'_>) -> Option<[u32; 4]> {
    let list = field.list(sink, 4)?;
    let [x, y, width, height] = list.as_slice() else {
        return field.bad(sink, "`roi` must be four numbers", "write [x, y, width, height] in unbinned pixels");
    };
    let (x, y) = (x.whole(sink, 0..=SENSOR, "px"), y.whole(sink, 0..=SENSOR, "px"));
    let (width, height) = (width.whole(sink, 1..=SENSOR, "px"), height.whole(sink, 1..=SENSOR, "px"));
    Some([x?, y?, width?, height?])
}
