//! From a frame to files and an answer: statistics, stretch, PNG, exact data, sidecar, preview. Runs on
//! blocking threads, so that neither the rig nor another call waits for pixels or the disk.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{Answer, Outcome, ToolError};
use super::call::Live;
use super::eaa::{Buffers, Taken};
use super::region::{self, Region};
use super::words::{self, number};
use crate::config::{Camera, Raw, Rig};
use crate::imaging::{self, OmeFacts, Stats, Stretch};
use crate::model::{AxisId, Code, Frame, Moved, Name, Report, RigError, Time};
use crate::store::{Picture, StoredImage};
use crate::units::{Position, Unit, plain};

/// What a call wants of its picture.
pub(crate) struct Wish {
    pub(crate) camera: Name,
    pub(crate) region: Option<Region>,
    pub(crate) label: Option<String>,
    pub(crate) preview: bool,
    pub(crate) caller: String,
    pub(crate) call_id: String,
    /// Whose state_epoch the answer carries.
    pub(crate) stage: Option<Name>,
}

/// Makes answers of frames.
pub(crate) struct Developer {
    pub(crate) live: Live,
    pub(crate) buffers: Arc<Buffers>,
}

/// The unit of pixel sizes: the scan unit, else micrometres.
pub(crate) fn unit(rig: &Rig) -> Unit {
    rig.scan.as_ref().map_or(Unit::Um, |s| s.unit)
}

/// The stage under a camera: that of the scan axes, of its own axes, or the first.
pub(crate) fn stage<'r>(rig: &'r Rig, camera: &'r Camera) -> Option<&'r Name> {
    let scan = rig.scan.as_ref().map(|s| &s.x.stage);
    let own = camera.right.as_ref().map(|(_, axis)| &axis.stage);
    scan.or(own).or_else(|| rig.stages.first().map(|s| &s.id))
}

fn in_unit(um: f64, unit: Unit) -> Option<f64> {
    Position::new(um, Unit::Um).ok().map(|p| p.to(unit))
}

/// A frame's files and numbers.
struct Developed {
    frame: Arc<Frame>,
    stored: StoredImage,
    psize_um: f64,
    stats: Stats,
    stretch: Stretch,
    preview: Option<imaging::Preview>,
    notes: Vec<String>,
}

impl Developer {
    /// The answer to a picture.
    pub(crate) async fn develop(self, report: Report, wish: Wish) -> Outcome {
        let moved = report.moved;
        super::blocking(move || self.answer(&report, &wish)).await?.map_err(|mut e| {
            // The frame's fate doesn't change what moved for it.
            e.error.moved = moved;
            e
        })
    }

    fn answer(&self, report: &Report, wish: &Wish) -> Outcome {
        let Some(frame) = report.frames.last() else {
            return Err(RigError::new(Code::CameraFailed, "The picture ended without a frame.")
                .on(&wish.camera)
                .into());
        };
        let done = self.process(frame.clone(), wish)?;
        let rig = self.live.handle.rig();
        let unit = unit(rig);
        let psize = in_unit(done.psize_um, unit);
        // Only now, when its files are there, does it become the newest image.
        if rig.eaa.as_ref().is_some_and(|e| e.camera == wish.camera) {
            self.buffers.push(taken(rig, &done, wish, psize, unit));
        }
        Ok(self.answer_of(&done, report.moved, report, wish, psize, unit))
    }

    fn process(&self, frame: Arc<Frame>, wish: &Wish) -> Result<Developed, ToolError> {
        let rig = self.live.handle.rig();
        let camera = rig
            .camera(wish.camera.as_str())
            .ok_or_else(|| ToolError::new(Code::NotFound, format!("This rig has no camera {}.", wish.camera)))?;
        let mut psize_um = camera.pixel_size_um * f64::from(frame.settings.binning.max(1));
        let mut notes = Vec::new();
        let frame = match (&wish.region, &rig.scan) {
            (Some(region), Some(scan)) => {
                let cut = region::cut(region, camera, scan, &frame.settings)
                    .map_err(|e| ToolError::new(Code::InvalidArgument, format!("{e}.")))?;
                psize_um = cut.psize_um;
                notes.extend(cut.note.clone());
                notes.push(if cut.is_turned() {
                    format!("Columns run along +{}, rows along +{}.", scan.x, scan.y)
                } else {
                    "How the picture lies on the stage is not known; it was not turned.".into()
                });
                Arc::new(with_pixels(&frame, cut.apply(&frame.pixels)))
            }
            _ => frame,
        };
        let stats = imaging::stats(&frame.pixels, frame.significant_bits);
        let stretch = Stretch::of(&stats);
        let grey = imaging::apply(&frame.pixels, stretch);
        let png = imaging::png8(&grey)?;
        let age = self.live.handle.now().since(frame.asked_at);
        let raw = match rig.images.raw {
            Raw::Npy => imaging::npy(&frame.pixels)?,
            Raw::Tiff => imaging::tiff(&frame.pixels, &imaging::ome_xml(&frame, &ome(rig, camera, psize_um, age)))?,
        };
        let picture = Picture {
            png: &png,
            raw: &raw,
            raw_format: rig.images.raw,
            psize_um: Some(psize_um),
            stats: stats_json(&stats),
            stretch: stretch_json(stretch),
            label: wish.label.as_deref(),
            caller: &wish.caller,
            call_id: &wish.call_id,
            now: self.live.handle.now(),
        };
        let stored = self.live.store.save_image(&frame, &picture)?;
        self.live.store.remember(&stored.image_id, frame.clone());
        let preview = if wish.preview {
            Some(imaging::preview(&grey, rig.images.preview_px as usize, rig.images.preview_chars)?)
        } else {
            None
        };
        Ok(Developed { frame, stored, psize_um, stats, stretch, preview, notes })
    }

    fn answer_of(
        &self,
        d: &Developed,
        moved: Moved,
        report: &Report,
        wish: &Wish,
        psize: Option<f64>,
        unit: Unit,
    ) -> Answer {
        let f = &d.frame;
        let [rows, columns] = f.pixels.shape();
        let store = &self.live.store;
        let img_path = store.client_path(&d.stored.img_path);
        let raw_path = d.stored.raw_data_path.as_ref().map(|p| store.client_path(p));
        let findings = imaging::describe(&d.stats);
        let still = match f.moved_during {
            Moved::No => "Nothing moved during the exposure.",
            Moved::Yes => "A STAGE MOVED during the exposure: expect blur.",
            Moved::Unknown => "Whether a stage moved during the exposure is not known.",
        };
        let place: Vec<String> = f
            .before
            .iter()
            .map(|r| {
                r.position
                    .map_or(format!("{} unknown", r.id), |p| format!("{} {} {}", r.id, plain(p.to(r.unit)), r.unit))
            })
            .collect();
        let place = if place.is_empty() { String::new() } else { format!(" Taken at {}.", place.join(", ")) };
        let mut text = format!(
            "Picture {} by {}: {columns} × {rows} pixels of {} {unit}, {} with {} bits, {} ms. {}.\n{still}{place}\nPNG (counts {} \
             to {} are black to white): {img_path}\nExact data: {}",
            d.stored.image_id,
            f.camera,
            psize.map_or("unknown".into(), plain),
            f.pixels.dtype(),
            f.significant_bits,
            plain(f.settings.exposure_ms),
            findings.join("; "),
            plain(d.stretch.low),
            plain(d.stretch.high),
            raw_path.as_deref().unwrap_or("none"),
        );
        for note in &d.notes {
            text.push('\n');
            text.push_str(note);
        }
        if let Some(score) = d.stats.focus_score {
            let score = plain((score * 1e3).round() / 1e3);
            text.push_str(&format!(
                "\nFocus score {score}: compare focus scores at one place, light and binning only."
            ));
        }
        let status = wish.stage.as_ref().and_then(|n| report.stages.iter().find(|s| s.stage == *n)).map(|s| s.epoch);
        let now = || self.live.handle.snapshot().stage(wish.stage.as_ref()?.as_str()).map(|s| s.epoch);
        let epoch = status.or_else(now);
        text.push_str(&format!("\n{}", words::moved_line(moved, epoch)));
        if d.preview.is_none() {
            text.push_str("\nThe picture is not sent along; pass preview: true to see it here.");
        }
        let mut answer = Answer::ok(text)
            .with("img_path", img_path)
            .with("raw_data_path", raw_path)
            .with("image_id", d.stored.image_id.as_str())
            .with("camera", f.camera.as_str())
            .with("psize", number(psize))
            .with("unit", unit.name())
            .with("shape", json!(f.pixels.shape()))
            .with("dtype", f.pixels.dtype())
            .with("significant_bits", f.significant_bits)
            .with("exposure_ms", number(Some(f.settings.exposure_ms)))
            .with("gain", number(Some(f.settings.gain)))
            .with("position_before", words::readings_json(&f.before))
            .with("position_after", words::readings_json(&f.after))
            .with("moved_during_exposure", f.moved_during.to_string())
            .with("stats", stats_json(&d.stats))
            .with("findings", findings)
            .with("stretch", stretch_json(d.stretch))
            .with("simulated", f.simulated)
            .moved(moved)
            .epoch(epoch);
        if !d.notes.is_empty() {
            answer = answer.with("notes", d.notes.clone());
        }
        if let Some(p) = &d.preview {
            let facts = json!({ "width": p.width, "height": p.height, "scale": number(Some(p.scale)) });
            answer = answer.with("preview", facts);
            answer.picture = Some(imaging::base64(&p.png).into());
            if p.scale > 1.0 {
                let smaller = format!(
                    "\nThe picture shown here is smaller by a factor of {}.",
                    plain((p.scale * 100.0).round() / 100.0)
                );
                answer.text.push_str(&smaller);
            }
        }
        answer
    }
}

fn with_pixels(frame: &Frame, pixels: crate::model::Pixels) -> Frame {
    Frame {
        camera: frame.camera.clone(),
        pixels,
        significant_bits: frame.significant_bits,
        settings: frame.settings.clone(),
        sequence: frame.sequence,
        asked_at: frame.asked_at,
        received_at: frame.received_at,
        before: frame.before.clone(),
        after: frame.after.clone(),
        moved_during: frame.moved_during,
        simulated: frame.simulated,
    }
}

/// What a TIFF of this rig says about itself.
pub(crate) fn ome(rig: &Rig, camera: &Camera, psize_um: f64, age: std::time::Duration) -> OmeFacts {
    let own = |side: &Option<(f64, AxisId)>| side.as_ref().map(|(_, a)| a.clone());
    OmeFacts {
        name: camera.id.to_string(),
        psize_um: Some(psize_um),
        acquired: Some(crate::store::stamp(age)),
        x: own(&camera.right).or_else(|| rig.scan.as_ref().map(|s| s.x.clone())),
        y: own(&camera.up).or_else(|| rig.scan.as_ref().map(|s| s.y.clone())),
        focus: rig.scan.as_ref().and_then(|s| s.focus.clone()),
    }
}

fn stats_json(s: &Stats) -> Value {
    json!({
        "min": number(s.min), "max": number(s.max), "mean": number(s.mean), "std": number(s.std),
        "saturated_fraction": number(s.saturated_fraction), "focus_score": number(s.focus_score),
        "not_finite": s.not_finite,
    })
}

fn stretch_json(s: Stretch) -> Value {
    json!({ "low": number(Some(s.low)), "high": number(Some(s.high)), "gamma": number(Some(s.gamma)) })
}

/// The image as EAA's attributes keep it.
fn taken(rig: &Rig, d: &Developed, wish: &Wish, psize: Option<f64>, unit: Unit) -> Taken {
    let [rows, columns] = d.frame.pixels.shape();
    let across = |n: usize| psize.map(|p| p * n as f64);
    let at = |axis: Option<&AxisId>| {
        let reading = d.frame.before.iter().find(|r| Some(&r.id) == axis)?;
        reading.position.map(|p| p.to(unit))
    };
    let scan = rig.scan.as_ref();
    let (x, y, size_x, size_y) = match &wish.region {
        Some(r) => (Some(r.x_center), Some(r.y_center), Some(r.size_x), Some(r.size_y)),
        None => (at(scan.map(|s| &s.x)), at(scan.map(|s| &s.y)), across(columns), across(rows)),
    };
    let call = json!({
        "x_center": number(x), "y_center": number(y), "size_x": number(size_x), "size_y": number(size_y),
        "psize_x": number(psize), "psize_y": number(psize), "image_id": d.stored.image_id,
    });
    Taken { image_id: d.stored.image_id.clone(), frame: d.frame.clone(), psize, psize_um: d.psize_um, unit, call }
}

/// When a frame was asked for, as an age.
pub(crate) fn age(now: Time, frame: &Frame) -> std::time::Duration {
    now.since(frame.asked_at)
}
