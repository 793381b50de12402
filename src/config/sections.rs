//! The sections that a rig file may leave out: `[calls]`, `[approvals]`, `[images]`, `[log]`, `[eaa]`; and `scan`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::axes::{Axes, measures, speaks_of};
use super::cameras::CameraDraft;
use super::problem::{Sink, quoted};
use super::reader::{Field, Section, choice};
use super::rig::{Approvals, Calls, Eaa, Images, Log, OnClientLost, Parameter, Raw, Scan};
use super::stages::unit;
use crate::model::Name;
use crate::units::Dimension;

/// The most base64 characters and the longest side, in pixels, of a picture that all hosts accept.
const PREVIEW_CHARS: u32 = 700_000;
const PREVIEW_PX: u32 = 1024;
/// The most entries of `parameters` and `path_map`.
const MAX: usize = 64;

/// `scan = { x, y, focus, unit }`.
pub(super) fn scan(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'_>) -> Option<Scan> {
    let mut s = field.section(sink, "`scan`".into())?;
    let unit_field = s.need(sink, "unit", "write the unit of regions: unit = \"um\"");
    let unit_at = unit_field.as_ref().map(Field::span);
    let unit = unit_field.and_then(|f| unit(sink, &f));
    if let (Some(unit), Some(at)) = (unit, unit_at)
        && unit.dimension() != Dimension::Length
    {
        sink.say(at, format!("regions are lengths; {unit} measures an angle"), "write unit = \"um\" or \"mm\"");
    }
    let mut axis = |sink: &mut Sink<'_>, key: &'static str, needed: bool| {
        let remedy = format!("name the axis: {key} = \"stage.axis\"");
        let field = if needed { s.need(sink, key, &remedy)? } else { s.get(key)? };
        let axis = axes.named(sink, &field)?;
        measures(sink, field.span(), axis, Dimension::Length, "name an axis that moves by a length");
        Some((axis.id.clone(), field.span()))
    };
    let all = [axis(sink, "x", true), axis(sink, "y", true), axis(sink, "focus", false)];
    s.finish(sink, &[]);
    for (i, one) in all.iter().enumerate() {
        if let Some((id, at)) = one
            && all[..i].iter().flatten().any(|(other, _)| other == id)
        {
            sink.say(at.clone(), format!("{id} has two roles in `scan`"), "name a different axis for each");
        }
    }
    let [x, y, focus] = all.map(|a| a.map(|(id, _)| id));
    Some(Scan { x: x?, y: y?, focus, unit: unit? })
}

/// `[calls]`. Times are at least a millisecond and at most an hour; a reading that a motion is judged by is
/// never older than ten seconds.
pub(super) fn calls(sink: &mut Sink<'_>, root: &mut Section<'_>) -> Option<Calls> {
    let (mut wait, mut max_wait, mut queue) =
        (Some(Duration::from_secs(20)), Some(Duration::from_secs(600)), Some(Duration::from_secs(10)));
    let mut fresh = Some(Duration::from_secs(1));
    let mut lost = Some(OnClientLost::default());
    if let Some(field) = root.get("calls") {
        let mut s = field.section(sink, "[calls]".into())?;
        let mut wait_at = field.span();
        if let Some(f) = s.get("wait_s") {
            wait_at = f.span();
            wait = f.seconds(sink, 0.001..=3600.0);
        }
        if let Some(f) = s.get("max_wait_s") {
            max_wait = f.seconds(sink, 0.001..=3600.0);
            wait_at = f.span();
        }
        if let Some(f) = s.get("queue_deadline_s") {
            queue = f.seconds(sink, 0.001..=3600.0);
        }
        if let Some(f) = s.get("fresh_ms") {
            fresh = f.millis(sink, 1.0..=10_000.0);
        }
        if let Some(f) = s.get("on_client_lost") {
            lost = f.one_of(sink, &[("stop", OnClientLost::Stop), ("continue", OnClientLost::Continue)]);
        }
        s.finish(sink, &[]);
        if let (Some(w), Some(m)) = (wait, max_wait)
            && m < w
        {
            let show = |d: Duration| crate::units::plain(d.as_secs_f64());
            let message = format!("`wait_s`, {} s, is longer than `max_wait_s`, {} s", show(w), show(m));
            sink.say(wait_at, message, "write a `max_wait_s` that is at least `wait_s`");
        }
    }
    Some(Calls { wait: wait?, max_wait: max_wait?, queue_deadline: queue?, fresh: fresh?, on_client_lost: lost? })
}

/// `[approvals]`.
pub(super) fn approvals(sink: &mut Sink<'_>, root: &mut Section<'_>) -> Option<Approvals> {
    let mut approvals = Approvals { wait: Duration::from_secs(300), elicitation: false };
    let Some(field) = root.get("approvals") else { return Some(approvals) };
    let mut s = field.section(sink, "[approvals]".into())?;
    if let Some(f) = s.get("expire_s") {
        approvals.wait = f.seconds(sink, 5.0..=3600.0)?;
    }
    if let Some(f) = s.get("approve_by") {
        for way in f.list(sink, 1)? {
            approvals.elicitation = way.one_of(sink, &[("elicitation", true)])?;
        }
    }
    s.finish(sink, &[]);
    Some(approvals)
}

/// `[images]`. A relative `dir` is taken from the rig file's own folder.
pub(super) fn images(sink: &mut Sink<'_>, root: &mut Section<'_>, file: &Path, eaa: bool) -> Option<Images> {
    let raw = if eaa { Raw::Npy } else { Raw::Tiff };
    let mut images =
        Images { dir: None, path_map: Vec::new(), preview_px: PREVIEW_PX, preview_chars: PREVIEW_CHARS as usize, raw };
    let Some(field) = root.get("images") else { return Some(images) };
    let mut s = field.section(sink, "[images]".into())?;
    if let Some(f) = s.get("dir") {
        images.dir = f.line(sink).and_then(|text| directory(sink, &f, text, file));
    }
    if let Some(map) = s.get("path_map").and_then(|f| f.section(sink, "`path_map`".into())) {
        for (at, f) in map.entries().into_iter().take(MAX) {
            let there = f.line(sink);
            if f.name.trim().is_empty() {
                sink.say(at, "an empty path would match every file", "write a folder here = the same folder there");
            } else if let Some(there) = there {
                images.path_map.push((f.name.clone(), there.to_owned()));
            }
        }
    }
    if let Some(px) = s.get("preview_px").and_then(|f| f.whole(sink, 64..=PREVIEW_PX, "px")) {
        images.preview_px = px;
    }
    if let Some(chars) = s.get("preview_chars").and_then(|f| f.whole(sink, 4_000..=PREVIEW_CHARS, "characters")) {
        images.preview_chars = chars as usize;
    }
    if let Some(raw) = s.get("raw").and_then(|f| f.one_of(sink, &[("tiff", Raw::Tiff), ("npy", Raw::Npy)])) {
        images.raw = raw;
    }
    s.finish(sink, &[]);
    Some(images)
}

/// A folder of the file system; a relative one starts at the rig file's.
pub(super) fn directory(sink: &mut Sink<'_>, field: &Field<'_>, text: &str, file: &Path) -> Option<PathBuf> {
    if text.starts_with('~') || text.contains("${") || text.contains('%') && text.matches('%').count() > 1 {
        let message = format!("`{}` = {} would not be expanded", field.name, quoted(text));
        return field.bad(sink, message, "write the whole path");
    }
    Some(file.parent().map_or_else(|| PathBuf::from(text), |folder| folder.join(text)))
}

/// `[log]`.
pub(super) fn log(sink: &mut Sink<'_>, root: &mut Section<'_>) -> Option<Log> {
    let level = match root.get("log") {
        None => "info".to_owned(),
        Some(field) => {
            let mut s = field.section(sink, "[log]".into())?;
            let words = ["error", "warn", "info", "debug", "trace"].map(|w| (w, w));
            let level = s.get("level").map(|f| f.one_of(sink, &words));
            s.finish(sink, &[]);
            level.unwrap_or(Some("info"))?.to_owned()
        }
    };
    Some(Log { level })
}

/// `[eaa]`; the section's presence turns that face on. `max_array_mb` counts 2^20 bytes.
pub(super) fn eaa(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'_>, cameras: &[CameraDraft]) -> Option<Eaa> {
    let mut s = field.section(sink, "[eaa]".into())?;
    let names: Vec<&Name> = cameras.iter().filter_map(|c| c.device.id.as_ref()).collect();
    let camera = match s.get("camera") {
        Some(f) => f.id(sink).and_then(|name| {
            if names.contains(&&name) || names.len() < cameras.len() {
                return Some(name);
            }
            let remedy = choice(name.as_str(), names.iter().map(|n| n.as_str()));
            f.bad(sink, format!("there is no camera {:?}", name.as_str()), remedy)
        }),
        None if cameras.is_empty() => {
            s.say(sink, "[eaa] needs a camera and the file has none", "add a [[camera]], or remove [eaa]");
            None
        }
        None if cameras.len() > 1 => {
            let remedy = "name the one that acquire_image uses: camera = \"…\"";
            s.say(sink, "`camera` is missing in [eaa]: there are several", remedy);
            None
        }
        None => names.first().map(|&n| n.clone()),
    };
    let legacy_arrays = s.get("legacy_arrays").map_or(Some(false), |f| f.flag(sink));
    let max_mb = s.get("max_array_mb").map_or(Some(8), |f| f.whole(sink, 1..=1024, "MB"));
    let parameters = s.get("parameters").map_or(Some(Vec::new()), |f| parameters(sink, &f, axes));
    s.finish(sink, &[]);
    Some(Eaa {
        camera: camera?,
        legacy_arrays: legacy_arrays?,
        parameters: parameters?,
        max_array_bytes: (max_mb? as usize) << 20,
    })
}

fn parameters(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'_>) -> Option<Vec<Parameter>> {
    let mut all: Vec<Option<Parameter>> = Vec::new();
    for entry in field.list(sink, MAX)? {
        let parameter = parameter(sink, &entry, axes);
        let same = |p: &Parameter| match (p, &parameter) {
            (Parameter::Axis(a, _), Some(Parameter::Axis(b, _))) => a == b,
            (p, q) => Some(p) == q.as_ref(),
        };
        if all.iter().flatten().any(same) {
            sink.say(entry.span(), "this parameter is in the list already", "name each once");
        }
        all.push(parameter);
    }
    all.into_iter().collect()
}

fn parameter(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'_>) -> Option<Parameter> {
    let mut s = field.section(sink, "a parameter".into())?;
    let remedy = "write { axis = \"stage.axis\", unit = \"um\" } or { setting = \"exposure_ms\" }";
    let parameter = match (s.get("axis"), s.get("setting")) {
        (Some(f), None) => {
            let unit_field = s.need(sink, "unit", "write the unit of its values: unit = \"um\"");
            let axis = axes.named(sink, &f);
            unit_field.and_then(|u| {
                let unit = unit(sink, &u)?;
                let axis = axis?;
                speaks_of(sink, u.span(), unit, axis).then(|| Parameter::Axis(axis.id.clone(), unit))
            })
        }
        (None, Some(f)) => f.one_of(sink, &[("exposure_ms", Parameter::ExposureMs), ("gain", Parameter::Gain)]),
        _ => {
            s.say(sink, "a parameter is either an axis or a setting", remedy);
            None
        }
    };
    s.finish(sink, &[]);
    parameter
}
