//! simcam-1: the camera's commands and replies.

use super::{Camera, Settings};
use crate::config::CameraConfig;

const EXPOSURE_MS: (f64, f64) = (0.01, 10_000.0);
const GAIN: (f64, f64) = (1.0, 16.0);
const ROI_STEP: usize = 4;
const SMALLEST_ROI: usize = 16;

impl Settings {
    pub(super) fn default_for(cfg: &CameraConfig) -> Settings {
        Settings { exposure_ms: 10.0, gain: 1.0, roi: [0, 0, cfg.width, cfg.height], binning: 1, bits: 12 }
    }

    fn shown(&self) -> String {
        let [x, y, w, h] = self.roi;
        format!(
            "exposure_ms={} gain={} roi={x},{y},{w},{h} binning={} bits={}",
            number(self.exposure_ms),
            number(self.gain),
            self.binning,
            self.bits
        )
    }
}

/// A number without needless zeros, never in exponent form.
pub(super) fn number(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Camera {
    /// One line from the host; its reply, without the line end.
    pub(super) fn command(&mut self, line: &str) -> String {
        let mut words = line.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match (name, rest.as_slice()) {
            ("ID?", []) => format!(
                "OK simcam 1 model=SpecimenCam serial={} width={} height={} bits=12 pixel_um={}",
                self.cfg.serial, self.cfg.width, self.cfg.height, self.cfg.pixel_um
            ),
            ("GET", []) => format!("OK {} temperature_c=24.5", self.settings.shown()),
            ("SET", [_, ..]) => self.set(&rest),
            ("SNAP", [n]) => match n.parse::<u32>() {
                Err(_) => "ERR range n 0 4294967295".into(),
                Ok(_) if self.exposure.is_some() => "ERR busy".into(),
                Ok(n) => {
                    self.start_exposure(n);
                    format!("OK SNAP {n}")
                }
            },
            ("ABORT", []) => {
                self.exposure = None;
                "OK ABORT".into()
            }
            _ => format!("ERR unknown {name}"),
        }
    }

    /// All or nothing.
    fn set(&mut self, pairs: &[&str]) -> String {
        let mut next = self.settings.clone();
        for pair in pairs {
            let Some((key, value)) = pair.split_once('=') else {
                return format!("ERR unknown {pair}");
            };
            let result = match key {
                "exposure_ms" => ranged(key, value, EXPOSURE_MS)
                    .map(|v| next.exposure_ms = ((v * 100.0).round() / 100.0).max(EXPOSURE_MS.0)),
                "gain" => ranged(key, value, GAIN).map(|v| next.gain = (v * 100.0).round() / 100.0),
                "binning" => choice(key, value, &[1, 2, 4]).map(|v| next.binning = v),
                "bits" => choice(key, value, &[8, 12, 16]).map(|v| next.bits = v as u32),
                "roi" => self.roi(value).map(|v| next.roi = v),
                _ => Err(format!("ERR unknown {key}")),
            };
            if let Err(reply) = result {
                return reply;
            }
        }
        self.settings = next;
        format!("OK {}", self.settings.shown())
    }

    fn roi(&self, value: &str) -> Result<[usize; 4], String> {
        let (width, height) = (self.cfg.width, self.cfg.height);
        let refused = || format!("ERR range roi 0,0,{SMALLEST_ROI},{SMALLEST_ROI} 0,0,{width},{height}");
        let parts: Result<Vec<usize>, _> = value.split(',').map(str::parse).collect();
        let parts = parts.map_err(|_| refused())?;
        let &[x, y, w, h] = parts.as_slice() else { return Err(refused()) };
        let [x, y, w, h] = [x, y, w, h].map(|v| v - v % ROI_STEP);
        let fits = |at: usize, size: usize, whole: usize| {
            size >= SMALLEST_ROI && at.checked_add(size).is_some_and(|end| end <= whole)
        };
        if fits(x, w, width) && fits(y, h, height) { Ok([x, y, w, h]) } else { Err(refused()) }
    }
}

fn ranged(key: &str, value: &str, (low, high): (f64, f64)) -> Result<f64, String> {
    let v: Option<f64> = value.parse().ok();
    v.filter(|v| low <= *v && *v <= high).ok_or_else(|| format!("ERR range {key} {low} {high}"))
}

fn choice(key: &str, value: &str, allowed: &[usize]) -> Result<usize, String> {
    let v: Option<usize> = value.parse().ok();
    v.filter(|v| allowed.contains(v))
        .ok_or_else(|| format!("ERR range {key} {} {}", allowed[0], allowed[allowed.len() - 1]))
}
