//! Pictures on disk: saving them with a sidecar, and finding them again.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Store, files};
use crate::config::Raw;
use crate::model::{AxisReading, Code, Frame, RigError, Time};
use crate::units::rounded;

/// How often a name may turn out to be taken before saving gives up.
const TRIES: u32 = 20;

/// The most of a sidecar that is read.
const SIDECAR_BYTES: u64 = 1 << 20;

/// A frame's files, encoded, and what a frame doesn't know about itself.
#[derive(Debug, Clone)]
pub struct Picture<'a> {
    /// The eight-bit PNG.
    pub png: &'a [u8],
    /// The exact pixels, encoded.
    pub raw: &'a [u8],
    /// As what they are encoded.
    pub raw_format: Raw,
    /// Micrometres on the sample per pixel of this frame, binning included.
    pub psize_um: Option<f64>,
    /// The frame in numbers, as results show it.
    pub stats: Value,
    /// The mapping from counts to grey values, as results show it.
    pub stretch: Value,
    /// The caller's word for it, for the file's name.
    pub label: Option<&'a str>,
    /// Who asked for it.
    pub caller: &'a str,
    /// The call that asked for it.
    pub call_id: &'a str,
    /// The present on the clock of the frame's times.
    pub now: Time,
}

/// A picture on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredImage {
    /// Its name in tools, unique also after a restart: `20261130-143501-0007`.
    pub image_id: String,
    /// The PNG, absolute.
    pub img_path: PathBuf,
    /// The exact pixels, absolute; `None` if that file is gone.
    pub raw_data_path: Option<PathBuf>,
    /// The sidecar, absolute.
    pub sidecar_path: PathBuf,
    /// What the sidecar says: camera, times, positions, settings, stats … A sidecar that can't be read has
    /// only `damaged`, with the reason.
    pub facts: Map<String, Value>,
}

/// The next number of a day.
#[derive(Debug)]
pub(super) struct Sequence {
    day: String,
    next: u64,
}

pub(super) fn extension(format: Raw) -> &'static str {
    match format {
        Raw::Tiff => "tif",
        Raw::Npy => "npy",
    }
}

impl Store {
    /// Writes a frame's picture, exact pixels and sidecar into the folder of the day.
    ///
    /// # Errors
    /// [`Code::StorageFailed`] if the disk is full, read-only or gone; no part of the picture is left then.
    pub fn save_image(&self, frame: &Frame, picture: &Picture<'_>) -> Result<StoredImage, RigError> {
        let now = jiff::Zoned::now();
        let day = now.strftime("%Y-%m-%d").to_string();
        let time = now.strftime("%H%M%S").to_string();
        let folder = files::folder_beneath(&self.images, &day)?;
        let label = picture.label.and_then(files::slug);
        for _ in 0..TRIES {
            let number = self.next_number(&folder, &day)?;
            let image_id = format!("{}-{time}-{number:04}", day.replace('-', ""));
            let stem = match &label {
                Some(label) => format!("{time}-{number:04}-{label}"),
                None => format!("{time}-{number:04}"),
            };
            let path = |extension: &str| folder.join(format!("{stem}.{extension}"));
            let (raw, png, sidecar) = (path(extension(picture.raw_format)), path("png"), path("json"));
            let facts = self.facts(frame, picture, &image_id, &stem);
            let text = serde_json::to_vec_pretty(&facts)
                .map_err(|e| RigError::new(Code::Internal, format!("The sidecar can't be written as JSON: {e}.")))?;
            match files::place(
                &folder,
                &[(raw.clone(), picture.raw), (png.clone(), picture.png), (sidecar.clone(), text.as_slice())],
            ) {
                Ok(()) => {
                    return Ok(StoredImage {
                        image_id,
                        img_path: png,
                        raw_data_path: Some(raw),
                        sidecar_path: sidecar,
                        facts,
                    });
                }
                Err((_, e)) if e.kind() == ErrorKind::AlreadyExists => {}
                Err((at, e)) => return Err(files::failed(&at, "write", &e)),
            }
        }
        let what =
            format!("In {} {TRIES} names in a row were taken; is another program writing there?", folder.display());
        Err(RigError::new(Code::StorageFailed, what))
    }

    /// Stored pictures, newest first: those from `offset` on, at most `limit` (and at most 200), and how
    /// many there are in all. Only the sidecars of those are read.
    ///
    /// # Errors
    /// [`Code::StorageFailed`] if the folder can't be read.
    pub fn images(&self, offset: usize, limit: usize) -> Result<(Vec<StoredImage>, usize), RigError> {
        let limit = limit.min(200);
        let mut page = Vec::new();
        let mut total = 0;
        for (place, day) in self.days()?.iter().enumerate() {
            // The newest day still grows; of the others a count is good until their folder changes.
            let newest = (place == 0).then(|| self.stems(day)).transpose()?;
            let count = match &newest {
                Some(stems) => stems.len(),
                None => self.count(day)?,
            };
            let skip = (offset + page.len()).saturating_sub(total);
            if page.len() < limit && skip < count {
                let stems = newest.map_or_else(|| self.stems(day), Ok)?;
                let wanted = stems.iter().skip(skip).take(limit - page.len());
                page.extend(wanted.map(|(_, stem)| self.stored(day, stem)));
            }
            total += count;
        }
        Ok((page, total))
    }

    /// The stored picture of that id.
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is none; [`Code::StorageFailed`] if the folder can't be read.
    pub fn image(&self, image_id: &str) -> Result<StoredImage, RigError> {
        let missing = || {
            let what = format!("There is no image {:?}.", image_id.chars().take(64).collect::<String>());
            RigError::new(Code::NotFound, what)
        };
        let (day, start) = split_id(image_id).ok_or_else(missing)?;
        if !self.images.join(&day).is_dir() {
            return Err(missing());
        }
        let stems = self.stems(&day)?;
        let found = stems
            .iter()
            .find(|(_, stem)| stem.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')));
        found.map(|(_, stem)| self.stored(&day, stem)).ok_or_else(missing)
    }

    /// The next number of a day: one above the highest in its folder, so that a restart goes on counting.
    fn next_number(&self, folder: &Path, day: &str) -> Result<u64, RigError> {
        let mut sequence = self.sequence.lock();
        let next = match &*sequence {
            Some(s) if s.day == day => s.next,
            _ => names(folder)?.iter().filter_map(|name| number(name)).max().unwrap_or(0) + 1,
        };
        *sequence = Some(Sequence { day: day.to_owned(), next: next + 1 });
        Ok(next)
    }

    fn facts(&self, frame: &Frame, picture: &Picture<'_>, image_id: &str, stem: &str) -> Map<String, Value> {
        let s = &frame.settings;
        let facts = json!({
            "image_id": image_id,
            "rig": self.rig,
            "camera": frame.camera,
            "label": picture.label.and_then(files::slug),
            "img": format!("{stem}.png"),
            "raw_data": format!("{stem}.{}", extension(picture.raw_format)),
            "saved_at": files::stamp(std::time::Duration::ZERO),
            "exposure_asked_at": files::stamp(picture.now.since(frame.asked_at)),
            "received_at": files::stamp(picture.now.since(frame.received_at)),
            "shape": frame.pixels.shape(),
            "dtype": frame.pixels.dtype(),
            "significant_bits": frame.significant_bits,
            "psize": picture.psize_um,
            "unit": "um",
            "exposure_ms": s.exposure_ms,
            "gain": s.gain,
            "roi": s.roi,
            "binning": s.binning,
            "sensor": s.sensor,
            "camera_sequence": frame.sequence,
            "position_before": positions(&frame.before),
            "position_after": positions(&frame.after),
            "moved_during_exposure": frame.moved_during,
            "stats": picture.stats,
            "stretch": picture.stretch,
            "caller": picture.caller,
            "call_id": picture.call_id,
            "simulated": frame.simulated,
        });
        match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        }
    }

    /// The days that have a folder, newest first.
    fn days(&self) -> Result<Vec<String>, RigError> {
        let mut days = names(&self.images)?;
        days.retain(|name| is_day(name) && std::fs::symlink_metadata(self.images.join(name)).is_ok_and(|m| m.is_dir()));
        days.sort_unstable_by(|a, b| b.cmp(a));
        Ok(days)
    }

    /// The pictures of a day by number, newest first.
    fn stems(&self, day: &str) -> Result<Vec<(u64, String)>, RigError> {
        let names = names(&self.images.join(day))?;
        let stem = |name: &String| Some((number(name)?, name.strip_suffix(".json")?.to_owned()));
        let mut stems: Vec<_> = names.iter().filter_map(stem).collect();
        stems.sort_unstable_by(|a, b| b.cmp(a));
        Ok(stems)
    }

    fn count(&self, day: &str) -> Result<usize, RigError> {
        let folder = self.images.join(day);
        let changed =
            std::fs::metadata(&folder).and_then(|m| m.modified()).map_err(|e| files::failed(&folder, "read", &e))?;
        if let Some((_, count)) = self.counts.lock().get(day).filter(|(at, _)| *at == changed) {
            return Ok(*count);
        }
        let count = self.stems(day)?.len();
        self.counts.lock().insert(day.to_owned(), (changed, count));
        Ok(count)
    }

    fn stored(&self, day: &str, stem: &str) -> StoredImage {
        let path = |extension: &str| self.images.join(day).join(format!("{stem}.{extension}"));
        let start: String = stem.splitn(3, '-').take(2).collect::<Vec<_>>().join("-");
        let facts = read_facts(&path("json")).unwrap_or_else(|why| Map::from_iter([("damaged".into(), why.into())]));
        StoredImage {
            image_id: format!("{}-{start}", day.replace('-', "")),
            img_path: path("png"),
            raw_data_path: ["tif", "npy"].map(path).into_iter().find(|p| p.is_file()),
            sidecar_path: path("json"),
            facts,
        }
    }
}

fn positions(readings: &[AxisReading]) -> Map<String, Value> {
    let entry = |r: &AxisReading| {
        let at = r.position.map(|p| rounded(p.to(r.unit)));
        (r.id.to_string(), json!({ "position": at, "unit": r.unit.name(), "trust": r.trust }))
    };
    readings.iter().map(entry).collect()
}

fn read_facts(path: &Path) -> Result<Map<String, Value>, String> {
    let mut text = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(SIDECAR_BYTES).read_to_end(&mut text))
        .map_err(|e| e.to_string())?;
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    serde_json::from_slice(text).map_err(|e| e.to_string())
}

/// The names in a folder that are text.
fn names(folder: &Path) -> Result<Vec<String>, RigError> {
    let read = || std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>();
    let all = read().map_err(|e| files::failed(folder, "read", &e))?;
    Ok(all.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// The number in a name that begins `143501-0007`.
fn number(name: &str) -> Option<u64> {
    let (time, rest) = name.split_once('-')?;
    let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
    (time.len() == 6 && all_digits(time)).then(|| digits.parse().ok())?
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a folder's name is a day, `2026-11-30`.
fn is_day(name: &str) -> bool {
    name.len() == 10 && name.parse::<jiff::civil::Date>().is_ok()
}

/// The day's folder and the beginning of the file names for an id `20261130-143501-0007`.
fn split_id(id: &str) -> Option<(String, &str)> {
    let (day, start) = id.split_once('-')?;
    let (time, number) = start.split_once('-')?;
    let whole = day.len() == 8 && time.len() == 6 && !number.is_empty();
    (whole && all_digits(day) && all_digits(time) && all_digits(number))
        .then(|| (format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..]), start))
}
