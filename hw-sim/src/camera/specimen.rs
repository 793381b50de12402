//! The synthetic specimen: cells, a flake, a graticule with numbers, a fiducial cross, all from a seed.

/// Cells are dealt out on a grid of this spacing, pixels of the specimen.
const CELL_GRID: i64 = 84;
const SPRITE: usize = 96;
const VARIANTS: usize = 24;
/// Levels of detail: level `l` has pixels `1 << l` times as large.
pub(super) const LEVELS: usize = 4;
const TILE: usize = 256;

/// Corners of the flake, millimetres from the specimen's lower corner on a 20 mm specimen.
const FLAKE: [(f64, f64); 9] = [
    (11.2, 8.1),
    (12.9, 7.7),
    (13.6, 8.4),
    (14.9, 8.9),
    (14.6, 10.6),
    (13.4, 11.3),
    (12.6, 10.9),
    (11.6, 11.2),
    (10.9, 9.6),
];
/// A thicker terrace on top of it.
const TERRACE: [(f64, f64); 5] = [(12.4, 8.6), (13.9, 9.1), (13.9, 10.3), (12.9, 10.5), (12.1, 9.7)];

/// Five by seven dots: digits, point and comma.
const FONT: [[u8; 7]; 12] = [
    [0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e],
    [0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e],
    [0x0e, 0x11, 0x01, 0x06, 0x08, 0x10, 0x1f],
    [0x0e, 0x11, 0x01, 0x06, 0x01, 0x11, 0x0e],
    [0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02],
    [0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e],
    [0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e],
    [0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08],
    [0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e],
    [0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c],
    [0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c],
    [0x00, 0x00, 0x00, 0x00, 0x0c, 0x04, 0x08],
];

/// A piece of the specimen as sharp as it is, brightness 0 to about 1, row by row.
#[derive(Debug, Clone, Default)]
pub(super) struct Scene {
    pub(super) x0: i64,
    pub(super) y0: i64,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) level: usize,
    pub(super) data: Vec<f32>,
}

/// The specimen and what is drawn of it over and over.
#[derive(Debug)]
pub(super) struct Specimen {
    seed: u64,
    pixel_um: f64,
    size_px: i64,
    scale: f64,
    sprites: Vec<[Vec<f32>; LEVELS]>,
    grain: Vec<f32>,
}

impl Specimen {
    pub(super) fn new(seed: u64, pixel_um: f64, size_mm: f64) -> Specimen {
        let mut rng = fastrand::Rng::with_seed(seed ^ 0x5bec);
        let sprites = (0..VARIANTS).map(|_| mipmap(&draw_cell(&mut rng))).collect();
        let grain = (0..TILE * TILE).map(|_| rng.f32() - 0.5).collect();
        Specimen {
            seed,
            pixel_um,
            size_px: (size_mm * 1000.0 / pixel_um) as i64,
            scale: size_mm / 20.0,
            sprites,
            grain: smooth_tile(grain),
        }
    }

    /// Pixels of level 0 for a position in millimetres from the specimen's lower corner.
    pub(super) fn px(&self, mm: f64) -> f64 {
        mm * 1000.0 / self.pixel_um
    }

    /// Draws the piece whose first pixel is `(x0, y0)`, in pixels of `level`.
    pub(super) fn draw(&self, x0: i64, y0: i64, width: usize, height: usize, level: usize) -> Scene {
        let mut scene = Scene { x0, y0, width, height, level, data: vec![0.0; width * height] };
        self.background(&mut scene);
        self.cells(&mut scene);
        self.polygon(&mut scene, &FLAKE, 0.17);
        self.polygon(&mut scene, &TERRACE, 0.12);
        self.graticule(&mut scene);
        self.fiducial(&mut scene);
        self.outside(&mut scene);
        scene
    }

    fn background(&self, s: &mut Scene) {
        let f = 1_i64 << s.level;
        let grain = 0.05 / f as f32;
        // Uneven illumination of the medium: a lattice of random heights, smoothly joined.
        let lattice = 512 / f;
        for y in 0..s.height {
            let gy = s.y0 + y as i64;
            let (ly, ty) = (gy.div_euclid(lattice), smooth(gy.rem_euclid(lattice), lattice));
            let row = &mut s.data[y * s.width..(y + 1) * s.width];
            let grains = (gy.rem_euclid(TILE as i64) as usize) * TILE;
            let mut at = s.x0;
            let mut i = 0;
            while i < row.len() {
                let lx = at.div_euclid(lattice);
                let (a, b) = (self.height(lx, ly), self.height(lx + 1, ly));
                let (c, d) = (self.height(lx, ly + 1), self.height(lx + 1, ly + 1));
                let (left, right) = (a + (c - a) * ty, b + (d - b) * ty);
                let end = ((lx + 1) * lattice - s.x0) as usize;
                let end = end.min(row.len());
                while i < end {
                    let tx = smooth(at.rem_euclid(lattice), lattice);
                    let g = self.grain[grains + (at.rem_euclid(TILE as i64) as usize)];
                    row[i] = 0.10 + 0.06 * (left + (right - left) * tx) + grain * g;
                    i += 1;
                    at += 1;
                }
            }
        }
    }

    fn height(&self, x: i64, y: i64) -> f32 {
        (self.hash(x, y, 1) & 0xffff) as f32 / 65535.0
    }

    fn hash(&self, x: i64, y: i64, salt: u64) -> u64 {
        let mut h = self.seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for v in [x as u64, y as u64] {
            h = (h ^ v).wrapping_mul(0xff51_afd7_ed55_8ccd);
            h ^= h >> 32;
        }
        h
    }

    fn cells(&self, s: &mut Scene) {
        let f = 1_i64 << s.level;
        let span = SPRITE as i64;
        let range = |from: i64, n: usize| {
            let first = (from * f - span).div_euclid(CELL_GRID);
            let last = ((from + n as i64) * f + span).div_euclid(CELL_GRID);
            first..=last
        };
        for gy in range(s.y0, s.height) {
            for gx in range(s.x0, s.width) {
                // Cells grow in colonies: some neighbourhoods are crowded, some are bare.
                let colony = self.height(gx.div_euclid(9), gy.div_euclid(9) + 7777);
                let h = self.hash(gx, gy, 2);
                if (h & 0xff) as f32 / 255.0 > 0.25 + 0.7 * colony {
                    continue;
                }
                let jitter = |bits: u64| (bits & 0x3f) as i64 - 32;
                let x = gx * CELL_GRID + jitter(h >> 8) - span / 2;
                let y = gy * CELL_GRID + jitter(h >> 16) - span / 2;
                let variant = (h >> 24) as usize % VARIANTS;
                let gain = 0.75 + 0.5 * ((h >> 40) & 0xff) as f32 / 255.0;
                splat(s, &self.sprites[variant][s.level], SPRITE >> s.level, x.div_euclid(f), y.div_euclid(f), gain);
            }
        }
    }

    fn polygon(&self, s: &mut Scene, corners: &[(f64, f64)], brightness: f32) {
        let f = f64::from(1_u32 << s.level);
        let at = |mm: f64| self.px(mm * self.scale) / f;
        let mut crossings: Vec<f64> = Vec::new();
        for y in 0..s.height {
            let line = s.y0 as f64 + y as f64 + 0.5;
            crossings.clear();
            for (i, a) in corners.iter().enumerate() {
                let b = corners[(i + 1) % corners.len()];
                let (ay, by) = (at(a.1), at(b.1));
                if (ay <= line) != (by <= line) {
                    crossings.push(at(a.0) + (line - ay) / (by - ay) * (at(b.0) - at(a.0)));
                }
            }
            crossings.sort_by(f64::total_cmp);
            let row = &mut s.data[y * s.width..(y + 1) * s.width];
            for pair in crossings.chunks_exact(2) {
                let clip = |v: f64| (v - s.x0 as f64).round().clamp(0.0, row.len() as f64) as usize;
                let (from, to) = (clip(pair[0]), clip(pair[1]));
                for v in &mut row[from..to.max(from)] {
                    // The flake lies on the cells and dims them.
                    *v = *v * 0.45 + brightness;
                }
            }
        }
    }

    fn graticule(&self, s: &mut Scene) {
        let f = f64::from(1_u32 << s.level);
        let half = self.px(0.5);
        let first = |from: i64| ((from as f64 * f / half).floor() as i64).max(0);
        let last = |from: i64, n: usize| ((from + n as i64) as f64 * f / half).ceil() as i64;
        for k in first(s.x0)..=last(s.x0, s.width) {
            let wide = if k % 2 == 0 { 5.0 } else { 2.0 };
            rect(s, k as f64 * half - wide / 2.0, f64::MIN, wide, f64::INFINITY, 0.5);
        }
        for k in first(s.y0)..=last(s.y0, s.height) {
            let wide = if k % 2 == 0 { 5.0 } else { 2.0 };
            rect(s, f64::MIN, k as f64 * half - wide / 2.0, f64::INFINITY, wide, 0.5);
        }
        for ky in (first(s.y0) - 1)..=last(s.y0, s.height) {
            for kx in (first(s.x0) - 1)..=last(s.x0, s.width) {
                if kx >= 0 && ky >= 0 {
                    let text = format!("{:.1},{:.1}", kx as f64 * 0.5, ky as f64 * 0.5);
                    label(s, &text, kx as f64 * half + 14.0, ky as f64 * half + 14.0);
                }
            }
        }
    }

    fn fiducial(&self, s: &mut Scene) {
        let centre = self.size_px as f64 / 2.0;
        let (arm, wide) = (self.px(0.15), self.px(0.012));
        rect(s, centre - arm, centre - wide / 2.0, 2.0 * arm, wide, 0.9);
        rect(s, centre - wide / 2.0, centre - arm, wide, 2.0 * arm, 0.9);
        for (dx, dy) in [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)] {
            let side = self.px(0.03);
            rect(s, centre + dx * arm / 2.0 - side / 2.0, centre + dy * arm / 2.0 - side / 2.0, side, side, 0.9);
        }
    }

    /// Bare glass beyond the specimen's edge.
    fn outside(&self, s: &mut Scene) {
        let f = 1_i64 << s.level;
        let end = self.size_px / f;
        for y in 0..s.height {
            let gy = s.y0 + y as i64;
            let row = &mut s.data[y * s.width..(y + 1) * s.width];
            if gy < 0 || gy >= end {
                row.fill(0.02);
                continue;
            }
            let (x0, n) = (s.x0, row.len() as i64);
            let clip = |v: i64| (v - x0).clamp(0, n) as usize;
            row[..clip(0)].fill(0.02);
            let from = clip(end);
            row[from..].fill(0.02);
        }
    }
}

fn smooth(at: i64, of: i64) -> f32 {
    let t = at as f32 / of as f32;
    t * t * (3.0 - 2.0 * t)
}

/// Sets a rectangle, in pixels of level 0, at least one scene pixel wide.
fn rect(s: &mut Scene, x: f64, y: f64, w: f64, h: f64, brightness: f32) {
    let f = f64::from(1_u32 << s.level);
    let clip = |at: f64, size: f64, origin: i64, n: usize| {
        let from = (at / f - origin as f64).round();
        let to = (((at + size) / f) - origin as f64).round().max(from + 1.0);
        let to = if size.is_infinite() { n as f64 } else { to };
        (from.clamp(0.0, n as f64) as usize, to.clamp(0.0, n as f64) as usize)
    };
    let (x0, x1) = clip(x, w, s.x0, s.width);
    let (y0, y1) = clip(y, h, s.y0, s.height);
    // Thin lines fade with distance instead of staying one pixel wide.
    let cover = (w.min(h) / f).min(1.0) as f32;
    for row in y0..y1 {
        for v in &mut s.data[row * s.width + x0..row * s.width + x1] {
            *v += (brightness - *v) * cover;
        }
    }
}

fn label(s: &mut Scene, text: &str, x: f64, y: f64) {
    const DOT: f64 = 3.0;
    let f = f64::from(1_u32 << s.level);
    let (w, h) = (text.len() as f64 * 6.0 * DOT, 7.0 * DOT);
    let out = |at: f64, size: f64, origin: i64, n: usize| {
        (at + size) / f < origin as f64 || at / f > origin as f64 + n as f64
    };
    if out(x, w, s.x0, s.width) || out(y, h, s.y0, s.height) {
        return;
    }
    for (i, c) in text.bytes().enumerate() {
        let glyph = match c {
            b'0'..=b'9' => usize::from(c - b'0'),
            b'.' => 10,
            _ => 11,
        };
        for (row, bits) in FONT[glyph].iter().enumerate() {
            for column in 0..5 {
                if bits & (0x10 >> column) != 0 {
                    let dot_x = x + (i as f64 * 6.0 + f64::from(column)) * DOT;
                    rect(s, dot_x, y + row as f64 * DOT, DOT, DOT, 0.6);
                }
            }
        }
    }
}

fn splat(s: &mut Scene, sprite: &[f32], size: usize, x: i64, y: i64, gain: f32) {
    let (left, top) = (x - s.x0, y - s.y0);
    let from_x = left.max(0);
    let to_x = (left + size as i64).min(s.width as i64);
    if from_x >= to_x {
        return;
    }
    for row in top.max(0)..(top + size as i64).min(s.height as i64) {
        let n = (to_x - from_x) as usize;
        let source = (row - top) as usize * size + (from_x - left) as usize;
        let target = row as usize * s.width + from_x as usize;
        for (v, p) in s.data[target..target + n].iter_mut().zip(&sprite[source..source + n]) {
            *v += gain * p;
        }
    }
}

/// One cell: a soft, lobed body with filaments, and a bright nucleus with darker nucleoli.
fn draw_cell(rng: &mut fastrand::Rng) -> Vec<f32> {
    let turn = rng.f32() * std::f32::consts::TAU;
    let (long, short) = (30.0 + 12.0 * rng.f32(), 18.0 + 8.0 * rng.f32());
    let nucleus = (9.0 + 3.0 * rng.f32(), 7.0 + 2.5 * rng.f32());
    let shift = (rng.f32() * 8.0 - 4.0, rng.f32() * 6.0 - 3.0);
    let lobes = (2.0 + rng.f32() * 3.0, rng.f32() * 6.0);
    let strands = (0.5 + rng.f32() * 0.4, rng.f32() * 6.0);
    let nucleoli: Vec<(f32, f32)> = (0..3).map(|_| (rng.f32() * 9.0 - 4.5, rng.f32() * 7.0 - 3.5)).collect();
    let centre = SPRITE as f32 / 2.0;
    let mut out = vec![0.0; SPRITE * SPRITE];
    for (i, v) in out.iter_mut().enumerate() {
        let (px, py) = ((i % SPRITE) as f32 - centre, (i / SPRITE) as f32 - centre);
        let (x, y) = (px * turn.cos() + py * turn.sin(), py * turn.cos() - px * turn.sin());
        let angle = y.atan2(x);
        let edge = 1.0 + 0.14 * (angle * lobes.0.round() + lobes.1).sin();
        let r = ((x / long).powi(2) + (y / short).powi(2)).sqrt() / edge;
        let body = (1.0 - r.powi(3)).max(0.0);
        let strand = 0.5 + 0.5 * (y * strands.0 + 0.02 * x * x / 10.0 + strands.1).sin();
        *v += body * (0.11 + 0.09 * strand);
        let (nx, ny) = (x - shift.0, y - shift.1);
        let n = ((nx / nucleus.0).powi(2) + (ny / nucleus.1).powi(2)).sqrt();
        let soft = ((1.08 - n) / 0.16).clamp(0.0, 1.0);
        let mut chromatin = 0.42;
        for (ox, oy) in &nucleoli {
            let d = ((nx - ox).powi(2) + (ny - oy).powi(2)).sqrt();
            chromatin += 0.14 * (1.0 - d / 2.4).clamp(0.0, 1.0);
        }
        *v += soft * chromatin;
    }
    out
}

fn mipmap(full: &[f32]) -> [Vec<f32>; LEVELS] {
    let mut levels: [Vec<f32>; LEVELS] = Default::default();
    levels[0] = full.to_vec();
    for l in 1..LEVELS {
        let before = SPRITE >> (l - 1);
        let size = SPRITE >> l;
        let source = &levels[l - 1];
        let half: Vec<f32> = (0..size * size)
            .map(|i| {
                let at = (i / size) * 2 * before + (i % size) * 2;
                (source[at] + source[at + 1] + source[at + before] + source[at + before + 1]) / 4.0
            })
            .collect();
        levels[l] = half;
    }
    levels
}

/// Grain of two sizes: each point mixed with its neighbours' mean, edges joined.
fn smooth_tile(tile: Vec<f32>) -> Vec<f32> {
    let at = |x: usize, y: usize| tile[(y % TILE) * TILE + x % TILE];
    (0..TILE * TILE)
        .map(|i| {
            let (x, y) = (i % TILE, i / TILE);
            let mut sum = 0.0;
            for dy in 0..3 {
                for dx in 0..3 {
                    sum += at(x + TILE + dx - 1, y + TILE + dy - 1);
                }
            }
            0.5 * at(x, y) + sum / 4.5
        })
        .collect()
}
