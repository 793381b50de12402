//! A camera that plays a folder: its PNG, TIFF and NPY files in the order of their names, one an exposure, over and over.
//! What was taken elsewhere is processed, shown and tried here like what a camera takes. Files are read on threads of
//! their own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use ndarray::{Array2, Axis, Slice};
use ndarray_npy::{ReadNpyError, ReadNpyExt};

use super::link::IDLE;
use super::{Camera, CameraEvent, Driver, Open, RawFrame};
use crate::config;
use crate::model::{CameraChange, CameraSettings, Code, Evidence, Identity, LinkStatus, Pixels, Time};

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "folder",
    what: "a folder of PNG, TIFF and NPY files, played one an exposure",
    evidence: Evidence::Manual,
    simulated: true,
    family: None,
    keeping: None,
    open: Open::Folder { make: |camera| Box::new(Folder::new(camera)) },
};

/// The largest picture that is read, in bytes of pixels.
const MOST: usize = 512 << 20;
/// How long a file may take to be read.
const READING: Duration = Duration::from_secs(30);
/// How soon a folder that can't be read is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How soon a thread that reads is asked again.
const LOOK: Duration = Duration::from_millis(2);
/// Exposures are waited for, though they change nothing in a file.
const EXPOSURE_MS: [f64; 2] = [0.001, 3_600_000.0];

/// What a thread finds out.
type Awaited<T> = Receiver<Result<T, String>>;

/// The files, and the first of them.
type Listed = (Vec<PathBuf>, Pixels);

struct Exposure {
    until: Time,
    file: Awaited<Pixels>,
    read: Option<Result<Pixels, String>>,
}

struct Folder {
    path: PathBuf,
    files: Vec<PathBuf>,
    next: usize,
    sequence: u64,
    /// The listing that is under way.
    listing: Option<Awaited<Listed>>,
    retry_at: Time,
    online: bool,
    exposure_ms: f64,
    /// A region that was asked for; else the whole picture.
    roi: Option<[u32; 4]>,
    start: CameraChange,
    /// The size and depth of the newest picture.
    size: [u32; 2],
    bits: u32,
    changes: VecDeque<CameraChange>,
    exposure: Option<Exposure>,
    status: LinkStatus,
}

impl Folder {
    fn new(camera: &config::Camera) -> Folder {
        let path = camera.folder.clone().unwrap_or_default();
        let status = LinkStatus { port: path.display().to_string(), ..LinkStatus::default() };
        Folder {
            path,
            files: Vec::new(),
            next: 0,
            sequence: 0,
            listing: None,
            retry_at: Time::ZERO,
            online: false,
            exposure_ms: 10.0,
            roi: None,
            start: camera.start.clone(),
            size: [0, 0],
            bits: 0,
            changes: VecDeque::new(),
            exposure: None,
            status,
        }
    }

    fn settings(&self) -> CameraSettings {
        let [width, height] = self.size;
        CameraSettings {
            exposure_ms: self.exposure_ms,
            gain: 1.0,
            roi: self.roi.unwrap_or([0, 0, width, height]),
            binning: 1,
            bits: self.bits,
            sensor: self.size,
        }
    }

    fn measure(&mut self, pixels: &Pixels) {
        let [height, width] = pixels.shape();
        self.size = [width, height].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        self.bits = bits(pixels);
    }

    /// # Errors
    /// What can't be, with what can.
    fn change(&mut self, change: &CameraChange) -> Result<(), String> {
        let [low, high] = EXPOSURE_MS;
        if let Some(ms) = change.exposure_ms
            && !(low..=high).contains(&ms)
        {
            return Err(format!("exposure_ms must be {low} to {high}."));
        }
        if change.gain.is_some_and(|gain| (gain - 1.0).abs() > 1e-9) {
            return Err("gain must be 1: the files are played as they are.".into());
        }
        if change.binning.is_some_and(|binning| binning != 1) {
            return Err("binning must be 1: the files are played as they are.".into());
        }
        if change.bits.is_some_and(|bits| bits != self.bits) {
            return Err(format!("bits must be {}: the files are played as they are.", self.bits));
        }
        if let Some(roi) = change.roi {
            within(roi, self.size)?;
            let [width, height] = self.size;
            self.roi = (roi != [0, 0, width, height]).then_some(roi);
        }
        self.exposure_ms = change.exposure_ms.unwrap_or(self.exposure_ms);
        Ok(())
    }

    fn list(&mut self, now: Time, out: &mut Vec<CameraEvent>) {
        let Some(listing) = &self.listing else {
            if !self.online && self.retry_at <= now {
                let folder = self.path.clone();
                self.listing = Some(on_a_thread(move || list(&folder)));
            }
            return;
        };
        let Some(found) = answer(listing) else { return };
        self.listing = None;
        let lost = match found {
            Ok((files, first)) => {
                self.measure(&first);
                let identity = Identity {
                    model: format!("{} pictures of a folder", files.len()),
                    firmware: String::new(),
                    serial: String::new(),
                    notes: Vec::new(),
                };
                (self.files, self.next) = (files, 0);
                let start = std::mem::take(&mut self.start);
                match self.change(&start) {
                    Ok(()) => {
                        (self.online, self.status.open) = (true, true);
                        out.push(CameraEvent::Online(identity, self.settings()));
                        return;
                    }
                    Err(what) => {
                        self.start = start;
                        format!("What the rig file sets can't be: {what}")
                    }
                }
            }
            Err(what) => what,
        };
        self.status.last_error = Some(lost.clone());
        self.retry_at = now + AGAIN;
        out.push(CameraEvent::Offline { code: Code::NotConnected, what: lost });
    }

    fn deliver(&mut self, now: Time, out: &mut Vec<CameraEvent>) {
        let Some(exposure) = &mut self.exposure else { return };
        if exposure.read.is_none() {
            exposure.read = answer(&exposure.file);
        }
        if now < exposure.until || exposure.read.is_none() {
            return;
        }
        let Some(Exposure { read: Some(read), .. }) = self.exposure.take() else { return };
        let cut = read.and_then(|pixels| {
            self.measure(&pixels);
            match self.roi {
                None => Ok(pixels),
                Some(roi) => within(roi, self.size).map(|()| cut(&pixels, roi)),
            }
        });
        match cut {
            Ok(pixels) => {
                self.status.frames += 1;
                self.sequence += 1;
                out.push(CameraEvent::Frame(Box::new(RawFrame {
                    pixels,
                    significant_bits: self.bits,
                    settings: self.settings(),
                    sequence: self.sequence,
                })));
            }
            Err(what) => {
                self.status.bad_frames += 1;
                self.status.last_error = Some(what.clone());
                out.push(CameraEvent::Failed { code: Code::CameraFailed, what });
            }
        }
    }
}

impl Camera for Folder {
    fn tick(&mut self, now: Time, out: &mut Vec<CameraEvent>) -> Time {
        self.list(now, out);
        if self.online {
            while let Some(change) = self.changes.pop_front() {
                out.push(match self.change(&change) {
                    Ok(()) => CameraEvent::Settings(self.settings()),
                    Err(what) => CameraEvent::Failed { code: Code::InvalidArgument, what },
                });
            }
        }
        self.deliver(now, out);
        let reading = self.listing.is_some() || self.exposure.as_ref().is_some_and(|e| e.read.is_none());
        match (&self.exposure, self.online) {
            _ if reading => now + LOOK,
            (Some(exposure), _) => exposure.until.max(now),
            (None, false) => self.retry_at.max(now),
            (None, true) => now + IDLE,
        }
    }

    fn set(&mut self, change: &CameraChange, _: Time) {
        self.changes.push_back(change.clone());
    }

    fn shoot(&mut self, now: Time) {
        let file = self.files.get(self.next % self.files.len().max(1)).cloned();
        self.next += 1;
        let until = now + Duration::from_secs_f64(self.exposure_ms / 1e3);
        self.exposure =
            Some(Exposure { until, file: on_a_thread(move || read(&file.ok_or("There is no picture.")?)), read: None });
    }

    fn abort(&mut self, _: Time) {
        self.exposure = None;
    }

    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.exposure_ms / 1e3) + READING
    }

    fn link(&self) -> LinkStatus {
        self.status.clone()
    }

    fn close(&mut self) {
        (self.listing, self.exposure) = (None, None);
        (self.online, self.status.open) = (false, false);
    }
}

/// Carries on beside the rig thread, which never waits for a disk.
fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Awaited<T> {
    let (send, receive) = sync_channel(1);
    let begun = std::thread::Builder::new().name("folder-camera".into()).spawn(move || {
        // Nobody may want it any more.
        let _ = send.send(work());
    });
    // A thread that could not be started has dropped its sender: the answer says so.
    drop(begun);
    receive
}

fn answer<T>(awaited: &Awaited<T>) -> Option<Result<T, String>> {
    match awaited.try_recv() {
        Ok(answer) => Some(answer),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Disconnected) => Some(Err("The file could not be read: its thread ended.".into())),
    }
}

/// The files that can be played, by name, and the first.
fn list(folder: &Path) -> Result<Listed, String> {
    let failed = |e: std::io::Error| format!("The folder {} can't be read: {e}.", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if kind(&path).is_some() && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let Some(first) = files.first() else {
        return Err(format!("The folder {} has no PNG, TIFF or NPY file.", folder.display()));
    };
    let first = read(first)?;
    Ok((files, first))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Png,
    Tiff,
    Npy,
}

fn kind(path: &Path) -> Option<FileKind> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "png" => Some(FileKind::Png),
        "tif" | "tiff" => Some(FileKind::Tiff),
        "npy" => Some(FileKind::Npy),
        _ => None,
    }
}

/// One picture, as it is.
fn read(path: &Path) -> Result<Pixels, String> {
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let failed = |what: &dyn std::fmt::Display| format!("{name} can't be read: {what}.");
    let file = File::open(path).map_err(|e| failed(&e))?;
    let pixels = match kind(path) {
        Some(FileKind::Png) => png(file),
        Some(FileKind::Tiff) => tiff(file),
        Some(FileKind::Npy) => npy(path),
        None => Err("it is no PNG, TIFF or NPY file".into()),
    };
    let pixels = pixels.map_err(|what| failed(&what))?;
    let [height, width] = pixels.shape();
    if height == 0 || width == 0 { Err(failed(&"it has no pixels")) } else { Ok(pixels) }
}

const COLOUR: &str = "it is in colour, and this camera plays single values (8 or 16 bits, or float32)";

fn shaped<T>(width: usize, height: usize, values: Vec<T>) -> Result<Array2<T>, String> {
    let found = values.len();
    Array2::from_shape_vec((height, width), values).map_err(|_| format!("{found} values are not {width} × {height}"))
}

fn fits(width: u32, height: u32, bytes_each: usize) -> Result<(), String> {
    let size = (width as usize).checked_mul(height as usize).and_then(|n| n.checked_mul(bytes_each));
    match size {
        Some(size) if size <= MOST => Ok(()),
        _ => Err(format!("{width} × {height} pixels are more than {} MiB", MOST >> 20)),
    }
}

fn png(file: File) -> Result<Pixels, String> {
    let limits = png::Limits { bytes: MOST };
    let mut decoder = png::Decoder::new_with_limits(BufReader::new(file), limits);
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let (colour, depth) = reader.output_color_type();
    if colour != png::ColorType::Grayscale {
        return Err(COLOUR.into());
    }
    let (width, height) = (reader.info().width, reader.info().height);
    fits(width, height, if depth == png::BitDepth::Sixteen { 2 } else { 1 })?;
    let size = reader.output_buffer_size().ok_or("it is too large")?;
    let mut bytes = vec![0; size];
    reader.next_frame(&mut bytes).map_err(|e| e.to_string())?;
    let (width, height) = (width as usize, height as usize);
    if depth == png::BitDepth::Sixteen {
        let words = bytes.as_chunks::<2>().0.iter().map(|b| u16::from_be_bytes(*b)).collect();
        shaped(width, height, words).map(Pixels::U16)
    } else {
        shaped(width, height, bytes).map(Pixels::U8)
    }
}

fn tiff(file: File) -> Result<Pixels, String> {
    use tiff::ColorType;
    use tiff::decoder::{Decoder, DecodingResult, Limits};
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MOST;
    let mut decoder = Decoder::new(BufReader::new(file)).map_err(|e| e.to_string())?.with_limits(limits);
    let (width, height) = decoder.dimensions().map_err(|e| e.to_string())?;
    if !matches!(decoder.colortype().map_err(|e| e.to_string())?, ColorType::Gray(_)) {
        return Err(COLOUR.into());
    }
    fits(width, height, 4)?;
    let (w, h) = (width as usize, height as usize);
    match decoder.read_image().map_err(|e| e.to_string())? {
        DecodingResult::U8(values) => shaped(w, h, values).map(Pixels::U8),
        DecodingResult::U16(values) => shaped(w, h, values).map(Pixels::U16),
        DecodingResult::F32(values) => shaped(w, h, values).map(Pixels::F32),
        _ => Err("its values are neither uint8, uint16 nor float32".into()),
    }
}

/// The type is part of the file: each is tried, and what is none of them is told.
fn npy(path: &Path) -> Result<Pixels, String> {
    let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
    if usize::try_from(size).is_ok_and(|size| size > MOST + 65_536) {
        return Err(format!("it has more than {} MiB", MOST >> 20));
    }
    let open = || File::open(path).map(BufReader::new).map_err(|e| e.to_string());
    match Array2::<u8>::read_npy(open()?) {
        Ok(values) => return Ok(Pixels::U8(values)),
        Err(ReadNpyError::WrongDescriptor(_)) => {}
        Err(e) => return Err(e.to_string()),
    }
    match Array2::<u16>::read_npy(open()?) {
        Ok(values) => return Ok(Pixels::U16(values)),
        Err(ReadNpyError::WrongDescriptor(_)) => {}
        Err(e) => return Err(e.to_string()),
    }
    match Array2::<f32>::read_npy(open()?) {
        Ok(values) => Ok(Pixels::F32(values)),
        Err(ReadNpyError::WrongDescriptor(is)) => {
            Err(format!("its values are {is}, and neither uint8, uint16 nor float32"))
        }
        Err(e) => Err(e.to_string()),
    }
}

fn bits(pixels: &Pixels) -> u32 {
    match pixels {
        Pixels::U8(_) => 8,
        Pixels::U16(_) => 16,
        Pixels::F32(_) => 32,
    }
}

/// # Errors
/// That the region isn't within the picture.
fn within([x, y, w, h]: [u32; 4], [width, height]: [u32; 2]) -> Result<(), String> {
    let inside = |from: u32, size: u32, whole: u32| size > 0 && from.checked_add(size).is_some_and(|end| end <= whole);
    if inside(x, w, width) && inside(y, h, height) {
        return Ok(());
    }
    Err(format!("roi must be at least 1 × 1 pixels and lie within the picture's {width} × {height}."))
}

fn cut(pixels: &Pixels, roi: [u32; 4]) -> Pixels {
    let [x, y, w, h] = roi.map(|n| n as usize);
    fn part<T: Clone>(a: &Array2<T>, rows: Slice, columns: Slice) -> Array2<T> {
        a.slice_axis(Axis(0), rows).slice_axis(Axis(1), columns).to_owned()
    }
    let (rows, columns) = (Slice::from(y..y + h), Slice::from(x..x + w));
    match pixels {
        Pixels::U8(a) => Pixels::U8(part(a, rows, columns)),
        Pixels::U16(a) => Pixels::U16(part(a, rows, columns)),
        Pixels::F32(a) => Pixels::F32(part(a, rows, columns)),
    }
}

#[cfg(test)]
mod tests;
