//! `list_images` and `export_array`.

use serde_json::{Value, json};

use super::answer::{Answer, Outcome, ToolError};
use super::args::{missing, wrong};
use super::call::{Call, Live};
use super::eaa::{BUFFERS, Taken};
use super::picture;
use super::schema::{Object, Schema, choice, integer_in, text};
use super::state::{more, page, paged};
use crate::config::{Raw, Rig};
use crate::imaging;
use crate::model::{Code, Frame};
use crate::store::StoredImage;
use crate::units::{Unit, plain};

/// Arguments of `list_images`.
pub(crate) fn list_images_input(_: &Rig) -> Schema {
    Object::new()
        .may("limit", integer_in(1, 50, "Rows, default 10."))
        .may("offset", integer_in(0, 1_000_000, "Rows to skip."))
        .build()
}

/// Arguments of `export_array`.
pub(crate) fn export_array_input(rig: &Rig) -> Schema {
    let object = Object::new().must("name", text(40, "The file's name, without ending: letters, digits, - and _."));
    let object = if rig.eaa.is_some() {
        object
            .may("buffer", choice(BUFFERS, "A buffer; give this or image_id."))
            .may("image_id", text(40, "An image, as acquire_image named it; give this or buffer."))
    } else {
        object.must("image_id", text(40, "Which image, as acquire_image named it."))
    };
    object.may("format", choice(["npy", "tiff"], "Default npy.")).build()
}

/// Answers `list_images`.
pub(crate) async fn list_images(call: Call) -> Outcome {
    let live = call.live()?.clone();
    let (offset, limit) = page(&call, 10);
    let store = live.store.clone();
    let (images, total) = super::blocking(move || store.images(offset, limit)).await??;
    let rows: Vec<Value> = images.iter().map(|i| row(&live, i)).collect();
    let text = match images.len() {
        0 if total == 0 => "There is no picture yet.".to_owned(),
        0 => format!("There are only {total} pictures."),
        n => {
            let lines: Vec<String> = images.iter().map(|i| line(&live, i)).collect();
            format!("{n} of {total} pictures, newest first.{}\n{}", more(offset, n, total), lines.join("\n"))
        }
    };
    let answer = match (images.len(), total) {
        (0, 0) => Answer::ok(text).next("acquire_image", "acquire_image {} takes one"),
        (0, _) => Answer::ok(text).next("list_images", "list_images {} for the newest"),
        _ => Answer::ok(text),
    };
    Ok(paged(answer, "images", rows, offset, total))
}

/// What a row shows of a picture's sidecar, by the names that it has there.
const SHOWN: [&str; 9] =
    ["camera", "exposure_asked_at", "psize", "unit", "shape", "exposure_ms", "position_before", "label", "damaged"];

/// One picture in a line: what, where taken, and its file.
fn line(live: &Live, image: &StoredImage) -> String {
    let place: Vec<String> = image
        .facts
        .get("position_before")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(axis, at)| match (at["position"].as_f64(), at["unit"].as_str()) {
            (Some(position), Some(unit)) => format!("{axis} {} {unit}", plain(position)),
            _ => format!("{axis} unknown"),
        })
        .collect();
    let place = if place.is_empty() { String::new() } else { format!(" at {}", place.join(", ")) };
    format!("{}{place}: {}", image.image_id, live.store.client_path(&image.img_path))
}

fn row(live: &Live, image: &StoredImage) -> Value {
    let path = |p: &std::path::Path| live.store.client_path(p);
    let mut row = json!({
        "image_id": image.image_id,
        "img_path": path(&image.img_path),
        "raw_data_path": image.raw_data_path.as_deref().map(path),
    });
    for key in SHOWN {
        if let Some(value) = image.facts.get(key) {
            row[key] = value.clone();
        }
    }
    row
}

/// Answers `export_array`.
pub(crate) async fn export_array(call: Call) -> Outcome {
    let live = call.live()?.clone();
    let name = call.args.text("name").ok_or_else(|| missing("name", "the file needs one"))?.to_owned();
    let format = if call.args.text("format") == Some("tiff") { Raw::Tiff } else { Raw::Npy };
    let (frame, id, psize_um) = match (call.args.text("buffer"), call.args.text("image_id")) {
        (Some(buffer), None) => {
            let taken = call.core.buffers.named(buffer).ok_or_else(|| unset(buffer))?;
            let Taken { frame, image_id, psize_um, .. } = &*taken;
            (frame.clone(), image_id.clone(), Some(*psize_um))
        }
        (None, Some(id)) => {
            let found = live.store.frame(id);
            match found {
                Some(frame) => (frame, id.to_owned(), None),
                None => return on_disk(live, id.to_owned()).await,
            }
        }
        _ => return Err(wrong("image_id", "give one of buffer and image_id")),
    };
    room(&live).await?;
    super::blocking(move || export(&live, &frame, &id, psize_um, &name, format)).await?
}

/// Refuses what would be stored where the owner wants the disk kept free.
pub(crate) async fn room(live: &Live) -> Result<(), ToolError> {
    let budget = &live.handle.rig().budget;
    let Some(least) = budget.min_free else { return Ok(()) };
    let store = live.store.clone();
    let free = super::blocking(move || store.free_for_images()).await?;
    // Where the system doesn't tell, the disk itself refuses when it is full.
    let Some(free) = free.filter(|free| *free < least) else { return Ok(()) };
    let (free, least) = (free / 1_000_000, least / 1_000_000);
    let why = budget.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
    let what = format!("The disk of the pictures has {free} MB free, and {least} MB stay free{why}.");
    Err(ToolError::new(Code::Budget, what).next(
        "list_images",
        "ask the person at the rig to make room on that disk; list_images {} tells what lies there",
    ))
}

fn unset(buffer: &str) -> ToolError {
    ToolError::new(Code::NotFound, format!("{buffer} is not set: no image was acquired for it yet."))
        .next("acquire_image", "call acquire_image {} first")
}

/// An image that is no longer in memory: its exact pixels have a file already.
async fn on_disk(live: Live, id: String) -> Outcome {
    let store = live.store.clone();
    let image = super::blocking(move || store.image(&id)).await?;
    let image =
        image.map_err(|e| ToolError::from(e).next("list_images", "call list_images {} for the images there are"))?;
    match &image.raw_data_path {
        Some(path) => {
            let path = live.store.client_path(path);
            let text = format!("{} is no longer in memory; its exact pixels are in {path}.", image.image_id);
            Ok(Answer::ok(text).with("path", path).with("image_id", image.image_id.as_str()).with("copied", false))
        }
        None => Err(ToolError::new(
            Code::NotFound,
            format!("The exact pixels of {} are gone from the disk.", image.image_id),
        )
        .next("list_images", "call list_images {} for the images there are")),
    }
}

fn export(live: &Live, frame: &Frame, id: &str, psize_um: Option<f64>, name: &str, format: Raw) -> Outcome {
    let rig = live.handle.rig();
    let bytes = match format {
        Raw::Npy => imaging::npy(&frame.pixels)?,
        Raw::Tiff => {
            let camera = rig.camera(frame.camera.as_str());
            let camera = camera
                .ok_or_else(|| ToolError::new(Code::NotFound, format!("This rig has no camera {}.", frame.camera)))?;
            let known = psize_um.unwrap_or(camera.pixel_size_um * f64::from(frame.settings.binning.max(1)));
            let age = picture::age(live.handle.now(), frame);
            imaging::tiff(&frame.pixels, &imaging::ome_xml(frame, &picture::ome(rig, camera, known, age)))?
        }
    };
    let path = live.store.export(name, format, &bytes)?;
    let path = live.store.client_path(&path);
    let text = format!("Wrote {id} ({:?} {}) to {path}.", frame.pixels.shape(), frame.pixels.dtype());
    Ok(Answer::ok(text)
        .with("path", path)
        .with("image_id", id)
        .with("shape", json!(frame.pixels.shape()))
        .with("dtype", frame.pixels.dtype())
        .with("bytes", bytes.len())
        .with("unit", Unit::Um.name())
        .with("copied", true))
}
