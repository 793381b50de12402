//! The specimen camera: a line protocol over TCP, exposures in time, frames of what the stage puts under it.

mod image;
mod protocol;
mod specimen;

use crate::config::{CameraConfig, Sees};
use crate::port::Ns;
use image::{Imager, Shot};

const MS: f64 = 1e6;
/// From `SNAP` to the start of the exposure.
const TRIGGER: Ns = 2_000_000;
/// An exposure is looked at in so many moments at most, and not more often than every millisecond.
const MOMENTS: u64 = 8;
const LINE_LIMIT: usize = 200;

/// What is under the camera at one moment: the true carriage positions and the light.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct View {
    pub(crate) x_mm: f64,
    pub(crate) y_mm: f64,
    pub(crate) z_mm: f64,
    pub(crate) light: f64,
}

/// What `SET` sets.
#[derive(Debug, Clone, PartialEq)]
struct Settings {
    exposure_ms: f64,
    gain: f64,
    roi: [usize; 4],
    binning: usize,
    bits: u32,
}

#[derive(Debug)]
struct Exposure {
    number: u32,
    settings: Settings,
    start: Ns,
    end: Ns,
    sent_at: Ns,
    seen: Vec<View>,
    moments: u64,
}

impl Exposure {
    fn moment(&self, k: u64) -> Ns {
        self.start + (self.end - self.start) * (2 * k + 1) / (2 * self.moments)
    }
}

/// The camera and the exposure it is taking.
#[derive(Debug)]
pub(crate) struct Camera {
    cfg: CameraConfig,
    settings: Settings,
    imager: Imager,
    now: Ns,
    power_on: Ns,
    line: Vec<u8>,
    overlong: bool,
    out: Vec<u8>,
    exposure: Option<Exposure>,
    sequence: u64,
    drop_frames: u32,
    truncate: usize,
}

impl Camera {
    pub(crate) fn new(cfg: &CameraConfig, specimen_seed: u64, noise_seed: u64) -> Camera {
        Camera {
            settings: Settings::default_for(cfg),
            imager: Imager::new(cfg, specimen_seed, noise_seed),
            cfg: cfg.clone(),
            now: 0,
            power_on: 0,
            line: Vec::new(),
            overlong: false,
            out: Vec::new(),
            exposure: None,
            sequence: 0,
            drop_frames: 0,
            truncate: 0,
        }
    }

    pub(crate) fn sees(&self) -> &Sees {
        &self.cfg.sees
    }

    pub(crate) fn state_name(&self) -> &'static str {
        if self.exposure.is_some() { "exposing" } else { "idle" }
    }

    pub(crate) fn drop_frames(&mut self, n: u32) {
        self.drop_frames = n;
    }

    pub(crate) fn truncate_frame(&mut self, bytes: usize) {
        self.truncate = bytes;
    }

    pub(crate) fn power_cycle(&mut self, now: Ns) {
        self.settings = Settings::default_for(&self.cfg);
        self.power_on = now;
        self.line.clear();
        self.overlong = false;
        self.out.clear();
        self.exposure = None;
        self.sequence = 0;
    }

    pub(crate) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn next_event(&self) -> Option<Ns> {
        let e = self.exposure.as_ref()?;
        let seen = e.seen.len() as u64;
        Some(if seen < e.moments { e.moment(seen) } else { e.sent_at })
    }

    /// Lets time pass until `now`, at which `view` is what lies under the camera.
    pub(crate) fn advance(&mut self, now: Ns, view: View) {
        self.now = now;
        let Some(e) = &mut self.exposure else { return };
        while (e.seen.len() as u64) < e.moments && e.moment(e.seen.len() as u64) <= now {
            e.seen.push(view);
        }
        if e.sent_at <= now
            && let Some(e) = self.exposure.take()
        {
            self.send_frame(&e);
        }
    }

    pub(crate) fn receive(&mut self, byte: u8) {
        if byte != b'\n' {
            self.overlong |= self.line.len() >= LINE_LIMIT;
            if !self.overlong {
                self.line.push(byte);
            }
            return;
        }
        let raw = std::mem::take(&mut self.line);
        let reply = if std::mem::take(&mut self.overlong) {
            format!("ERR line longer than {LINE_LIMIT} bytes")
        } else {
            let text = String::from_utf8_lossy(&raw);
            self.command(text.trim_end_matches('\r'))
        };
        self.out.extend_from_slice(reply.as_bytes());
        self.out.push(b'\n');
    }

    fn start_exposure(&mut self, number: u32) {
        let exposure = (self.settings.exposure_ms * MS).round() as Ns;
        let readout = (self.cfg.readout_ms * MS).round() as Ns;
        let start = self.now + TRIGGER;
        let end = start + exposure;
        self.exposure = Some(Exposure {
            number,
            settings: self.settings.clone(),
            start,
            end,
            sent_at: end + readout,
            seen: Vec::new(),
            moments: (exposure / MS as Ns).clamp(1, MOMENTS),
        });
    }

    fn send_frame(&mut self, e: &Exposure) {
        self.sequence += 1;
        if self.drop_frames > 0 {
            self.drop_frames -= 1;
            return;
        }
        let s = &e.settings;
        let (width, height, pixels) = self.imager.frame(&Shot {
            views: &e.seen,
            exposure_ms: s.exposure_ms,
            gain: s.gain,
            roi: s.roi,
            binning: s.binning,
            bits: s.bits,
            sequence: self.sequence,
        });
        let crc = crc32fast::hash(&pixels);
        let us = |t: Ns| (t - self.power_on.min(t)) / 1000;
        let header = format!(
            "FRAME {} len={} width={width} height={height} bits={} start_us={} end_us={} exposure_ms={} gain={} seq={} crc32={crc:08x}\n",
            e.number,
            pixels.len(),
            s.bits,
            us(e.start),
            us(e.end),
            protocol::number(s.exposure_ms),
            protocol::number(s.gain),
            self.sequence,
        );
        self.out.extend_from_slice(header.as_bytes());
        let sent = pixels.len() - std::mem::take(&mut self.truncate).min(pixels.len());
        self.out.extend_from_slice(&pixels[..sent]);
    }
}
