//! From the specimen to pixels: focus, motion blur, orientation, exposure, noise, bit depth.

use super::View;
use super::specimen::{LEVELS, Scene, Specimen};
use crate::config::CameraConfig;

const FULL_SCALE: f32 = 4095.0;
const MAX_SIGMA_PX: f64 = 60.0;
const NOISE: usize = 1 << 16;

/// What a frame is made from.
pub(super) struct Shot<'a> {
    pub(super) views: &'a [View],
    pub(super) exposure_ms: f64,
    pub(super) gain: f64,
    pub(super) roi: [usize; 4],
    pub(super) binning: usize,
    pub(super) bits: u32,
    pub(super) sequence: u64,
}

#[derive(Debug)]
struct HotPixel {
    x: usize,
    y: usize,
    counts_per_ms: f32,
}

/// Which piece of the specimen a scene shows, and how blurred.
type Frame = (i64, i64, usize, usize, usize, u64);

/// The optics and the sensor.
#[derive(Debug)]
pub(super) struct Imager {
    cfg: CameraConfig,
    specimen: Specimen,
    noise_seed: u64,
    normals: Vec<f32>,
    hot: Vec<HotPixel>,
    last: Option<(Frame, Scene)>,
}

impl Imager {
    pub(super) fn new(cfg: &CameraConfig, specimen_seed: u64, noise_seed: u64) -> Imager {
        let mut rng = fastrand::Rng::with_seed(noise_seed);
        let normals = (0..NOISE / 2).flat_map(|_| normal_pair(&mut rng)).collect();
        let hot = (0..cfg.noise.hot_pixels)
            .map(|_| HotPixel {
                x: rng.usize(0..cfg.width),
                y: rng.usize(0..cfg.height),
                counts_per_ms: 5.0 + 60.0 * rng.f32() * rng.f32(),
            })
            .collect();
        Imager {
            specimen: Specimen::new(specimen_seed, cfg.pixel_um, cfg.specimen.size_mm),
            cfg: cfg.clone(),
            noise_seed,
            normals,
            hot,
            last: None,
        }
    }

    /// Width, height and raw bytes of the frame.
    pub(super) fn frame(&mut self, shot: &Shot<'_>) -> (usize, usize, Vec<u8>) {
        let [_, _, w, h] = shot.roi;
        let mut signal = vec![0.0_f32; w * h];
        let views = distinct(shot.views);
        let smear = smear_px(&views, self.cfg.pixel_um);
        for (view, share) in &views {
            let counts = view.light * shot.exposure_ms * self.cfg.specimen.counts_per_ms * share;
            self.add(&mut signal, view, shot.roi, counts as f32, smear);
        }
        self.add_hot(&mut signal, shot);
        let b = shot.binning;
        let (bw, bh) = (w / b, h / b);
        let signal = if b == 1 { signal } else { bin(&signal, w, b) };
        (bw, bh, self.digitise(&signal, shot))
    }

    /// Where the objective looks, pixels of the specimen, and the blur there.
    fn aim(&self, view: &View) -> (f64, f64, f64) {
        let s = &self.cfg.specimen;
        let (dx, dy) = (view.x_mm - s.centre[0], view.y_mm - s.centre[1]);
        let plane_um = s.focus_mm * 1000.0 + s.tilt_um_per_mm[0] * dx + s.tilt_um_per_mm[1] * dy;
        let defocus_um = (view.z_mm * 1000.0 - plane_um).abs();
        let half = s.size_mm / 2.0;
        let sigma = (defocus_um * s.blur_px_per_um).min(MAX_SIGMA_PX);
        (self.specimen.px(dx + half), self.specimen.px(dy + half), sigma)
    }

    fn add(&mut self, signal: &mut [f32], view: &View, roi: [usize; 4], counts: f32, smear: f64) {
        let (cx, cy, sigma) = self.aim(view);
        let turn = Turn::new(&self.cfg);
        let level = level_for(sigma, smear);
        let f = (1_u32 << level) as f64;
        // The corners of the region of interest, in specimen pixels.
        let [rx, ry, w, h] = roi;
        let (sw, sh) = (self.cfg.width as f64, self.cfg.height as f64);
        let origin = |u: f64, v: f64| {
            let (x, y) = turn.apply(u - sw / 2.0, v - sh / 2.0);
            (cx + x, cy + y)
        };
        let a = origin(rx as f64, ry as f64);
        let b = origin((rx + w) as f64, (ry + h) as f64);
        let margin = (3.0 * (sigma / f + 1.5)).ceil() as i64 + 2;
        let low = |p: f64, q: f64| (p.min(q) / f).floor() as i64 - margin;
        let high = |p: f64, q: f64| (p.max(q) / f).ceil() as i64 + margin;
        let (x0, y0) = (low(a.0, b.0), low(a.1, b.1));
        let (x1, y1) = (high(a.0, b.0), high(a.1, b.1));
        self.prepare(x0, y0, (x1 - x0) as usize, (y1 - y0) as usize, level, sigma / f);
        let Some((_, scene)) = &self.last else { return };
        let (step_u, step_v) = (turn.apply(1.0, 0.0), turn.apply(0.0, 1.0));
        let start = origin(rx as f64 + 0.5, ry as f64 + 0.5);
        for (v, row) in signal.chunks_exact_mut(w).enumerate() {
            let at = |p: f64, step: f64, o: i64| ((p + step * v as f64) / f - 0.5 - o as f64) as f32;
            let x = at(start.0, step_v.0, scene.x0);
            let y = at(start.1, step_v.1, scene.y0);
            gather(row, scene, (x, y), ((step_u.0 / f) as f32, (step_u.1 / f) as f32), counts);
        }
    }

    /// Has the blurred scene at hand, drawn anew only if it differs from the last one.
    fn prepare(&mut self, x0: i64, y0: i64, w: usize, h: usize, level: usize, sigma: f64) {
        let key = (x0, y0, w, h, level, sigma.to_bits());
        if self.last.as_ref().is_some_and(|(k, _)| *k == key) {
            return;
        }
        let mut scene = self.specimen.draw(x0, y0, w, h, level);
        blur(&mut scene, sigma);
        self.last = Some((key, scene));
    }

    fn add_hot(&self, signal: &mut [f32], shot: &Shot<'_>) {
        let [rx, ry, w, h] = shot.roi;
        for p in &self.hot {
            if p.x >= rx && p.x < rx + w && p.y >= ry && p.y < ry + h {
                signal[(p.y - ry) * w + p.x - rx] += p.counts_per_ms * shot.exposure_ms as f32;
            }
        }
    }

    fn digitise(&self, signal: &[f32], shot: &Shot<'_>) -> Vec<u8> {
        let n = &self.cfg.noise;
        let gain = shot.gain as f32;
        let dark = n.dark_counts as f32;
        let per_count = 1.0 / n.electrons_per_count as f32;
        let read2 = (n.read_counts * n.read_counts) as f32;
        let spread = gain / shot.binning as f32;
        let mut h = self.noise_seed ^ shot.sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = if shot.bits <= 8 { 1 } else { 2 };
        let mut out = Vec::with_capacity(signal.len() * bytes);
        for s in signal {
            h = h.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = self.normals[(h >> 48) as usize];
            let counts = dark + gain * s + noise * spread * (s * per_count + read2).sqrt();
            let v = (counts + 0.5).clamp(0.0, FULL_SCALE) as u16;
            match shot.bits {
                8 => out.push((v >> 4) as u8),
                16 => out.extend_from_slice(&((v << 4) | (v >> 8)).to_le_bytes()),
                _ => out.extend_from_slice(&v.to_le_bytes()),
            }
        }
        out
    }
}

/// How sensor axes lie on specimen axes.
struct Turn {
    xx: f64,
    xy: f64,
    yx: f64,
    yy: f64,
}

impl Turn {
    fn new(cfg: &CameraConfig) -> Turn {
        let (c, s) = match cfg.rotate {
            90 => (0.0, 1.0),
            180 => (-1.0, 0.0),
            270 => (0.0, -1.0),
            _ => (1.0, 0.0),
        };
        let (fx, fy) = (if cfg.flip_x { -1.0 } else { 1.0 }, if cfg.flip_y { -1.0 } else { 1.0 });
        Turn { xx: c * fx, xy: -s * fy, yx: s * fx, yy: c * fy }
    }

    fn apply(&self, u: f64, v: f64) -> (f64, f64) {
        (self.xx * u + self.xy * v, self.yx * u + self.yy * v)
    }
}

/// The views that differ, each with its share of the exposure.
fn distinct(views: &[View]) -> Vec<(View, f64)> {
    let mut out: Vec<(View, f64)> = Vec::new();
    let share = 1.0 / views.len().max(1) as f64;
    for view in views {
        match out.last_mut() {
            Some((last, sum)) if last == view => *sum += share,
            _ => out.push((*view, share)),
        }
    }
    out
}

/// The longest way between two neighbouring views, pixels.
fn smear_px(views: &[(View, f64)], pixel_um: f64) -> f64 {
    views
        .windows(2)
        .map(|w| (w[1].0.x_mm - w[0].0.x_mm).hypot(w[1].0.y_mm - w[0].0.y_mm) * 1000.0 / pixel_um)
        .fold(0.0, f64::max)
}

/// The coarsest level that shows all there is to see.
fn level_for(sigma: f64, smear: f64) -> usize {
    let blurred = sigma.max(smear / 4.0);
    let level = match blurred {
        b if b < 4.0 => 0,
        b if b < 10.0 => 1,
        b if b < 24.0 => 2,
        _ => 3,
    };
    level.min(LEVELS - 1)
}

/// Adds one row of samples, joined linearly between scene pixels.
fn gather(row: &mut [f32], scene: &Scene, from: (f32, f32), step: (f32, f32), counts: f32) {
    let (w, data) = (scene.width, scene.data.as_slice());
    if step.1 == 0.0 && step.0 == 1.0 {
        // The common case: unturned and at full detail, the weights are the same along the row.
        let (x, y) = (from.0.floor(), from.1.floor());
        let (tx, ty) = (from.0 - x, from.1 - y);
        let at = y as usize * w + x as usize;
        let (a, b) = ((1.0 - tx) * (1.0 - ty) * counts, tx * (1.0 - ty) * counts);
        let (c, d) = ((1.0 - tx) * ty * counts, tx * ty * counts);
        let upper = &data[at..=at + row.len()];
        let lower = &data[at + w..=at + w + row.len()];
        for (i, v) in row.iter_mut().enumerate() {
            *v += a * upper[i] + b * upper[i + 1] + c * lower[i] + d * lower[i + 1];
        }
        return;
    }
    for (i, v) in row.iter_mut().enumerate() {
        let (px, py) = (from.0 + step.0 * i as f32, from.1 + step.1 * i as f32);
        let (x, y) = (px.floor(), py.floor());
        let (tx, ty) = (px - x, py - y);
        let at = y as usize * w + x as usize;
        let upper = data[at] + (data[at + 1] - data[at]) * tx;
        let lower = data[at + w] + (data[at + w + 1] - data[at + w]) * tx;
        *v += counts * (upper + (lower - upper) * ty);
    }
}

fn bin(signal: &[f32], w: usize, b: usize) -> Vec<f32> {
    let (bw, bh) = (w / b, signal.len() / w / b);
    let area = (b * b) as f32;
    let mut out = vec![0.0; bw * bh];
    for (y, row) in signal.chunks_exact(w).take(bh * b).enumerate() {
        for (x, cell) in row.chunks_exact(b).enumerate() {
            out[y / b * bw + x] += cell.iter().sum::<f32>() / area;
        }
    }
    out
}

fn normal_pair(rng: &mut fastrand::Rng) -> [f32; 2] {
    let r = (-2.0 * (1.0 - rng.f32()).max(1e-9).ln()).sqrt();
    let a = rng.f32() * std::f32::consts::TAU;
    [r * a.cos(), r * a.sin()]
}

/// A Gaussian of `sigma` scene pixels, as three passes of a box whose ends have a fractional weight.
fn blur(scene: &mut Scene, sigma: f64) {
    if sigma < 0.05 {
        return;
    }
    let variance = sigma * sigma / 3.0;
    let r = (((12.0 * variance + 1.0).sqrt() - 1.0) / 2.0).floor();
    let ends = (2.0 * r + 1.0) * (r * (r + 1.0) / 3.0 - variance) / (2.0 * (variance - (r + 1.0) * (r + 1.0)));
    let (r, ends) = (r as usize, ends.max(0.0) as f32);
    let mut other = vec![0.0; scene.data.len()];
    for _ in 0..3 {
        box_rows(&scene.data, &mut other, scene.width, r, ends);
        box_columns(&other, &mut scene.data, scene.width, scene.height, r, ends);
    }
}

fn box_rows(from: &[f32], to: &mut [f32], w: usize, r: usize, ends: f32) {
    let norm = 1.0 / (2.0 * r as f32 + 1.0 + 2.0 * ends);
    let reach = r + 1;
    let mut padded = vec![0.0_f32; w + 2 * reach];
    for (source, target) in from.chunks_exact(w).zip(to.chunks_exact_mut(w)) {
        padded[..reach].fill(source[0]);
        padded[reach..reach + w].copy_from_slice(source);
        padded[reach + w..].fill(source[w - 1]);
        let mut sum: f32 = padded[1..2 * r + 2].iter().sum();
        for (i, v) in target.iter_mut().enumerate() {
            let (first, last) = (padded[i], padded[i + 2 * reach]);
            *v = (sum + ends * (first + last)) * norm;
            sum += last - padded[i + 1];
        }
    }
}

fn box_columns(from: &[f32], to: &mut [f32], w: usize, h: usize, r: usize, ends: f32) {
    let norm = 1.0 / (2.0 * r as f32 + 1.0 + 2.0 * ends);
    let row = |y: isize| {
        let y = y.clamp(0, h as isize - 1) as usize;
        &from[y * w..(y + 1) * w]
    };
    let r = r as isize;
    let mut sums = vec![0.0_f32; w];
    for y in -r..=r {
        sums.iter_mut().zip(row(y)).for_each(|(s, v)| *s += v);
    }
    for (y, target) in to.chunks_exact_mut(w).enumerate() {
        let y = y as isize;
        let (first, last, leaving) = (row(y - r - 1), row(y + r + 1), row(y - r));
        for i in 0..w {
            target[i] = (sums[i] + ends * (first[i] + last[i])) * norm;
            sums[i] += last[i] - leaving[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blur_keeps_the_light_and_has_the_width_asked_for() {
        for sigma in [0.3, 1.0, 2.7, 6.0] {
            let (w, h) = (81, 81);
            let mut scene = Scene { x0: 0, y0: 0, width: w, height: h, level: 0, data: vec![0.0; w * h] };
            scene.data[40 * w + 40] = 1.0;
            blur(&mut scene, sigma);
            let total: f32 = scene.data.iter().sum();
            assert!((total - 1.0).abs() < 1e-3, "{total}");
            let variance: f64 =
                scene.data.iter().enumerate().map(|(i, v)| ((i % w) as f64 - 40.0).powi(2) * f64::from(*v)).sum();
            assert!((variance.sqrt() - sigma).abs() < 0.05 * sigma + 0.02, "{sigma} {variance}");
        }
    }
}
