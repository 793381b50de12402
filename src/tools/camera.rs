//! `acquire_image` and `set_camera`.

use std::time::Duration;

use serde_json::{Map, json};

use super::answer::{Answer, Outcome, ToolError};
use super::args::{missing, wrong};
use super::call::Call;
use super::picture::{Developer, Wish};
use super::region::{self, Region};
use super::schema::{
    self, Object, Schema, choice, command_id, flag, integer_in, list, number, number_in, text, wait_s,
};
use super::wait::{order, run};
use super::words;
use crate::config::{Camera, Rig, Scan};
use crate::model::{Aim, CameraChange, Code, Move, Name, RigError, Shot, Snapshot};
use crate::plans::Sequence;
use crate::units::{Position, plain};

/// The parts of a region, all four or none.
const REGION: [&str; 4] = ["x_center", "y_center", "size_x", "size_y"];

/// Whether `acquire_image` takes a region.
pub(crate) fn takes_regions(rig: &Rig) -> bool {
    rig.eaa.is_some() && rig.scan.is_some()
}

/// Arguments of `acquire_image`.
pub(crate) fn acquire_image_input(rig: &Rig) -> Schema {
    let mut object = Object::new();
    if rig.cameras.len() > 1 {
        object =
            object.with(rig.eaa.is_none(), "camera", choice(rig.cameras.iter().map(|c| c.id.to_string()), "Camera."));
    }
    if let Some(scan) = rig.scan.as_ref().filter(|_| takes_regions(rig)) {
        let u = scan.unit;
        object = object
            .may("x_center", number(&format!("Middle of the region on {}, in {u}.", scan.x)))
            .may("y_center", number(&format!("Middle of the region on {}, in {u}.", scan.y)))
            .may("size_x", number(&format!("Width in {u}; at most one field.")))
            .may("size_y", number(&format!("Height in {u}.")))
            .may("scan_step", number(&format!("Wanted pixel size in {u}; coarser averages.")));
    }
    let preview = if takes_regions(rig) {
        "Send the picture along; default true, with a region false."
    } else {
        "Send the picture along; default true."
    };
    object
        .may("label", text(40, "Part of the file's name."))
        .may("preview", flag(preview))
        .may("wait_s", wait_s(rig))
        .may("command_id", command_id())
        .build()
}

/// Result of `acquire_image`.
pub(crate) fn acquire_image_output(rig: &Rig) -> Schema {
    schema::result(true)
        .may("img_path", json!({ "type": "string", "description": "8-bit PNG." }))
        .may("raw_data_path", json!({ "type": "string", "description": "Exact pixels." }))
        .may("image_id", json!({ "type": "string" }))
        .may(
            "psize",
            json!({ "type": "number", "description": format!("Pixel size in {}.", super::picture::unit(rig)) }),
        )
        .may("unit", json!({ "type": "string" }))
        .may("shape", json!({ "type": "array", "items": { "type": "integer" } }))
        .may("dtype", json!({ "type": "string" }))
        .may("stats", json!({ "type": "object" }))
        .build()
}

/// Arguments of `set_camera`.
pub(crate) fn set_camera_input(rig: &Rig) -> Schema {
    let mut object = Object::new();
    if rig.cameras.len() > 1 {
        object = object.must("camera", choice(rig.cameras.iter().map(|c| c.id.to_string()), "Camera."));
    }
    object
        .may("exposure_ms", number_in(0.0, 3_600_000.0, "Exposure in ms."))
        .may("gain", number_in(0.0, 1e6, "Gain as a factor."))
        .may(
            "roi",
            list(
                json!({ "type": "integer", "minimum": 0, "maximum": 65535 }),
                4,
                4,
                "x, y, width, height in unbinned pixels.",
            ),
        )
        .may("binning", integer_in(1, 64, "Pixels combined in each direction."))
        .may("bits", integer_in(8, 16, "Significant bits of a pixel."))
        .build()
}

/// The camera that a call means.
fn camera<'r>(call: &Call, rig: &'r Rig) -> Result<&'r Camera, ToolError> {
    let standard = rig.eaa.as_ref().map(|e| e.camera.as_str());
    let named = call.args.text("camera").or(standard);
    match (named, rig.cameras.as_slice()) {
        (Some(name), _) => rig.camera(name).ok_or_else(|| {
            ToolError::new(Code::NotFound, format!("This rig has no camera {:?}.", super::args::cut(name)))
        }),
        (None, [only]) => Ok(only),
        (None, all) => {
            let names: Vec<&str> = all.iter().map(|c| c.id.as_str()).collect();
            Err(missing("camera", &format!("the rig has several; name one of {}", names.join(", "))))
        }
    }
}

/// Answers `acquire_image`.
pub(crate) async fn acquire_image(call: Call) -> Outcome {
    let live = call.live()?.clone();
    let rig = live.handle.rig().clone();
    let camera = camera(&call, &rig)?;
    let state = live.handle.snapshot();
    let region = wanted_region(&call, &rig)?;
    super::images::room(&live).await?;
    let mut moves = Vec::new();
    let mut title = format!("picture with {}", camera.id);
    if let (Some(region), Some(scan)) = (&region, &rig.scan) {
        fits(region, camera, scan, &state)?;
        moves = way(region, scan)?;
        let (x, y, u) = (plain(region.x_center), plain(region.y_center), region.unit);
        title = format!("{title} at {} {x} {u}, {} {y} {u}", scan.x, scan.y);
    }
    let stage = super::picture::stage(&rig, camera).cloned();
    // A workflow's calls name a region and read files and arrays; everybody else wants to see it.
    let preview = call.args.flag("preview").unwrap_or(region.is_none());
    let wish = Wish {
        camera: camera.id.clone(),
        region,
        label: call.args.text("label").map(str::to_owned),
        preview,
        caller: call.caller.client.clone(),
        call_id: call.id.clone(),
        stage: stage.clone(),
    };
    let developer = Developer { live, buffers: call.core.buffers.clone() };
    let shot = Shot { camera: camera.id.clone(), change: CameraChange::default() };
    let plan = Sequence::picture(title, &rig, moves, shot);
    // EAA can't use a job: its calls wait to the end, with signs of life.
    let asked = call.args.number("wait_s").is_some();
    let patience = (rig.eaa.is_none() || asked).then(|| call.patience(&rig));
    let render = Box::new(move |report| Box::pin(developer.develop(report, wish)) as _);
    run(&call, stage.as_ref(), Box::new(plan), patience, render).await
}

/// The region of a call, if it has one.
fn wanted_region(call: &Call, rig: &Rig) -> Result<Option<Region>, ToolError> {
    let given: Vec<&str> = REGION.into_iter().filter(|n| call.args.number(n).is_some()).collect();
    let step = call.args.number("scan_step");
    let Some(scan) = rig.scan.as_ref().filter(|_| !given.is_empty()) else {
        return match step {
            Some(_) => Err(wrong("scan_step", "it belongs to a region: give x_center, y_center, size_x, size_y too")),
            None => Ok(None),
        };
    };
    if let Some(name) = REGION.into_iter().find(|n| !given.contains(n)) {
        return Err(missing(name, "a region needs x_center, y_center, size_x and size_y"));
    }
    let read = |name: &str| call.args.must_number(name);
    Ok(Some(Region {
        x_center: read("x_center")?,
        y_center: read("y_center")?,
        size_x: read("size_x")?,
        size_y: read("size_y")?,
        scan_step: step,
        unit: scan.unit,
    }))
}

/// Refuses a region before anything moves for it.
fn fits(region: &Region, camera: &Camera, scan: &Scan, state: &Snapshot) -> Result<(), ToolError> {
    let status = state.camera(camera.id.as_str());
    let Some(settings) =
        status.and_then(|s| s.settings.as_ref()).filter(|_| status.is_some_and(|s| s.ready || s.exposing))
    else {
        let what = format!("Camera {} isn't ready, so nothing was moved for its picture.", camera.id);
        return Err(RigError::new(Code::NotConnected, what).on(&camera.id).into());
    };
    region::cut(region, camera, scan, settings)
        .map(|_| ())
        .map_err(|e| ToolError::new(Code::InvalidArgument, format!("{e}.")))
}

/// The moves to a region's middle: one for each stage concerned.
fn way(region: &Region, scan: &Scan) -> Result<Vec<Move>, ToolError> {
    let at = |name: &str, v: f64| Position::new(v, region.unit).map_err(|e| wrong(name, &e.to_string()));
    let (x, y) = (at("x_center", region.x_center)?, at("y_center", region.y_center)?);
    let to = |stage: &Name, list: Vec<(Name, Position)>| Move { stage: stage.clone(), aim: Aim::To(list) };
    if scan.x.stage == scan.y.stage {
        return Ok(vec![to(&scan.x.stage, vec![(scan.x.axis.clone(), x), (scan.y.axis.clone(), y)])]);
    }
    Ok(vec![to(&scan.x.stage, vec![(scan.x.axis.clone(), x)]), to(&scan.y.stage, vec![(scan.y.axis.clone(), y)])])
}

/// Answers `set_camera`.
pub(crate) async fn set_camera(call: Call) -> Outcome {
    let live = call.live()?;
    let rig = live.handle.rig();
    let camera = camera(&call, rig)?;
    let whole = |name: &str| call.args.integer(name).and_then(|v| u32::try_from(v).ok());
    let roi = call.args.numbers("roi").map(|v| -> Result<[u32; 4], ToolError> {
        // The schema holds each between 0 and 65535.
        let v: Vec<u32> = v.into_iter().map(|x| x as u32).collect();
        let roi: [u32; 4] = v.try_into().map_err(|_| wrong("roi", "it needs four numbers: x, y, width, height"))?;
        if roi[2] == 0 || roi[3] == 0 { Err(wrong("roi", "width and height must be above zero")) } else { Ok(roi) }
    });
    let change = CameraChange {
        exposure_ms: call.args.number("exposure_ms"),
        gain: call.args.number("gain"),
        roi: roi.transpose()?,
        binning: whole("binning"),
        bits: whole("bits"),
    };
    for (name, value) in [("exposure_ms", change.exposure_ms), ("gain", change.gain)] {
        if value.is_some_and(|v| v.is_nan() || v <= 0.0) {
            return Err(wrong(name, "it must be above zero"));
        }
    }
    if change.is_empty() {
        return Err(missing("exposure_ms", "give at least one of exposure_ms, gain, roi, binning, bits"));
    }
    let set = set(&call, &camera.id, change.clone()).await?;
    let unlike = [("exposure_ms", change.exposure_ms, set.exposure_ms), ("gain", change.gain, set.gain)];
    let differing: Vec<String> = unlike
        .iter()
        .filter(|(_, asked, is)| asked.is_some_and(|a| plain(a) != plain(*is)))
        .map(|(n, asked, is)| format!("{n} is {} (asked {})", plain(*is), plain(asked.unwrap_or_default())))
        .collect();
    let rounding =
        if differing.is_empty() { String::new() } else { format!(" The camera rounded: {}.", differing.join(", ")) };
    let text = format!(
        "{} is set: exposure {} ms, gain {}, ROI {:?}, binning {}, {} bits.{rounding}",
        camera.id,
        plain(set.exposure_ms),
        plain(set.gain),
        set.roi,
        set.binning,
        set.bits
    );
    let facts: Map<_, _> = words::settings_json(&set);
    let answer = Answer::ok(text).with("camera", camera.id.as_str());
    let mut answer = answer.next("acquire_image", "acquire_image {} to see it");
    answer.data.extend(facts);
    Ok(answer)
}

/// Changes a camera's settings and waits for what it really set.
pub(crate) async fn set(
    call: &Call,
    camera: &Name,
    change: CameraChange,
) -> Result<crate::model::CameraSettings, ToolError> {
    let live = call.live()?;
    let ticket = live.handle.set_camera(&call.caller, camera, change)?;
    let patience = call.patience(live.handle.rig()).max(Duration::from_secs(1));
    let set = order(call, ticket, patience).await.map_err(|mut e| {
        e.error.device.get_or_insert_with(|| camera.clone());
        e
    })?;
    // The answer may come before the state is published that shows it: whoever asks next shall see it.
    let shown = |s: &Snapshot| s.camera(camera.as_str()).is_none_or(|c| c.settings.as_ref() == Some(&set));
    super::settled(&live.handle, shown).await;
    Ok(set)
}
