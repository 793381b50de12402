//! `[[camera]]`: what a picture's pixels measure and which way the axes run in it.

use super::axes::{Axes, measures};
use super::devices::{DeviceDraft, device};
use super::problem::Sink;
use super::reader::{Field, Section};
use super::rig::Camera;
use super::{Kind, KnownDrivers};
use crate::model::{AxisId, CameraChange};
use crate::units::Dimension;

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
    drivers: &KnownDrivers,
) -> Vec<CameraDraft> {
    let sections = root.tables(sink, "camera", MAX);
    sections.into_iter().map(|s| one(sink, s, axes, drivers)).collect()
}

fn one(sink: &mut Sink<'_>, mut s: Section<'_>, axes: &Axes<'_>, drivers: &KnownDrivers) -> CameraDraft {
    let device = device(sink, &mut s, drivers, Kind::Camera);
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
    s.finish(sink, &["light"]);
    let (right, up) = directions.flatten().unwrap_or_default();
    let start = CameraChange {
        exposure_ms: exposure_ms.flatten(),
        gain: gain.flatten(),
        roi: region.flatten(),
        binning: binning.flatten(),
        bits: bits.flatten(),
    };
    let camera = match (&device.id, &device.driver, &device.link, pixel_size_um) {
        (Some(id), Some(driver), Some((link, _)), Some(pixel_size_um)) => Some(Camera {
            id: id.clone(),
            driver: driver.name.to_owned(),
            link: link.clone(),
            pixel_size_um,
            right,
            up,
            start,
        }),
        _ => None,
    };
    CameraDraft { device, camera }
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
