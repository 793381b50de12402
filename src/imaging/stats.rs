//! A frame in numbers: brightness, saturation, sharpness; and what these numbers mean in words.

use ndarray::Array2;
use serde::Serialize;

use crate::model::Pixels;
use crate::units::plain;

/// The share of pixels that lies below [`Stats::low`] and above [`Stats::high`].
const TAIL: f64 = 0.001;

/// A frame in numbers. What a frame doesn't define (the mean of no pixels, the saturation of computed
/// values) is `None`, which is `null` in JSON; no number here is ever NaN or infinite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// How many pixels the frame has.
    pub pixels: usize,
    /// How many of them are NaN or infinite. The other numbers leave them out.
    pub not_finite: usize,
    /// The darkest pixel, in counts.
    pub min: Option<f64>,
    /// The brightest pixel, in counts.
    pub max: Option<f64>,
    /// The mean, in counts.
    pub mean: Option<f64>,
    /// The standard deviation, in counts.
    pub std: Option<f64>,
    /// The count at which the camera saturates; `None` for computed values.
    pub full_scale: Option<f64>,
    /// The share of pixels at full scale, 0 to 1; `None` for computed values.
    pub saturated_fraction: Option<f64>,
    /// Sharpness: Brenner's gradient (the mean square of the difference of pixels two apart, along rows
    /// and columns) over the square of the mean. It doesn't change with exposure, grows toward focus, and
    /// compares only pictures of one place, binning and light. White noise alone gives 2·(std/mean)².
    /// `None` where the mean isn't above zero or no two pixels are two apart.
    pub focus_score: Option<f64>,
    /// The count below which 0.1 % of the pixels lie.
    pub low: Option<f64>,
    /// The count above which 0.1 % of the pixels lie.
    pub high: Option<f64>,
}

impl Stats {
    /// Contrast of what is larger than a pixel, as a fraction of the mean: the square root of the
    /// autocovariance at two pixels, to which uncorrelated noise adds nothing.
    fn structure(&self) -> Option<f64> {
        let noise_too = self.contrast()?.powi(2);
        Some((noise_too - self.focus_score? / 2.0).max(0.0).sqrt())
    }

    /// Standard deviation over mean.
    fn contrast(&self) -> Option<f64> {
        let mean = self.mean.filter(|m| *m > 0.0)?;
        Some(self.std? / mean)
    }
}

/// The numbers of a frame of which `significant_bits` of each pixel carry signal (for integers; at most
/// the width of the type counts).
pub fn stats(pixels: &Pixels, significant_bits: u32) -> Stats {
    match pixels {
        Pixels::U8(a) => {
            let mut histogram = vec![0_u32; 1 << 8];
            a.iter().for_each(|&v| histogram[usize::from(v)] += 1);
            of_histogram(&histogram, saturation(significant_bits, 8), energy(a, int_row))
        }
        Pixels::U16(a) => {
            let mut histogram = vec![0_u32; 1 << 16];
            a.iter().for_each(|&v| histogram[usize::from(v)] += 1);
            of_histogram(&histogram, saturation(significant_bits, 16), energy(a, int_row))
        }
        Pixels::F32(a) => of_floats(a),
    }
}

/// The count at which `bits` in a pixel of `width` bits saturate; nonsense means the whole pixel.
fn saturation(bits: u32, width: u32) -> usize {
    let bits = if (1..=width).contains(&bits) { bits } else { width };
    (1 << bits) - 1
}

fn of_histogram(histogram: &[u32], full: usize, energy: Option<f64>) -> Stats {
    let filled = || histogram.iter().enumerate().filter(|(_, n)| **n > 0).map(|(v, n)| (v, u64::from(*n)));
    let pixels: u64 = filled().map(|(_, n)| n).sum();
    let counts = pixels as f64;
    let mean = (pixels > 0).then(|| filled().map(|(v, n)| v as u64 * n).sum::<u64>() as f64 / counts);
    let variance = mean.map(|m| filled().map(|(v, n)| (v as f64 - m).powi(2) * n as f64).sum::<f64>() / counts);
    let saturated: u64 = histogram[full..].iter().map(|n| u64::from(*n)).sum();
    let at_rank = |rank: u64| {
        let mut below = 0;
        filled().find(|(_, n)| {
            below += n;
            below > rank
        })
    };
    let (low, high) = ranks(pixels as usize);
    let count = |found: Option<(usize, u64)>| found.map(|(v, _)| v as f64);
    Stats {
        pixels: pixels as usize,
        not_finite: 0,
        min: count(filled().next()),
        max: count(filled().next_back()),
        mean,
        std: variance.map(f64::sqrt),
        full_scale: Some(full as f64),
        saturated_fraction: (pixels > 0).then(|| saturated as f64 / counts),
        focus_score: focus_score(energy, mean),
        low: count(at_rank(low as u64)),
        high: count(at_rank(high as u64)),
    }
}

fn of_floats(pixels: &Array2<f32>) -> Stats {
    let mut finite: Vec<f32> = pixels.iter().copied().filter(|v| v.is_finite()).collect();
    let n = finite.len();
    let mean = (n > 0).then(|| finite.iter().map(|v| f64::from(*v)).sum::<f64>() / n as f64);
    let variance = mean.map(|m| finite.iter().map(|v| (f64::from(*v) - m).powi(2)).sum::<f64>() / n as f64);
    let (low, high) = ranks(n);
    let mut at_rank =
        |rank: usize| (rank < n).then(|| f64::from(*finite.select_nth_unstable_by(rank, |a, b| a.total_cmp(b)).1));
    Stats {
        pixels: pixels.len(),
        not_finite: pixels.len() - n,
        min: at_rank(0),
        max: at_rank(n.saturating_sub(1)),
        mean,
        std: variance.map(f64::sqrt),
        full_scale: None,
        saturated_fraction: None,
        focus_score: focus_score(energy(pixels, float_row), mean),
        low: at_rank(low),
        high: at_rank(high),
    }
}

/// The places of the low and the high percentile among `n` sorted pixels.
fn ranks(n: usize) -> (usize, usize) {
    let last = n.saturating_sub(1) as f64;
    ((last * TAIL).floor() as usize, (last * (1.0 - TAIL)).ceil() as usize)
}

fn focus_score(energy: Option<f64>, mean: Option<f64>) -> Option<f64> {
    let mean = mean.filter(|m| *m > 0.0)?;
    energy.map(|e| e / (mean * mean)).filter(|s| s.is_finite())
}

/// The mean square of the difference of pixels two apart, along rows and columns; `row` sums the squares
/// for two rows of one length and counts the pairs.
fn energy<T: Copy>(pixels: &Array2<T>, row: impl Fn(&[T], &[T]) -> (f64, usize)) -> Option<f64> {
    let width = pixels.ncols();
    let whole = pixels.as_standard_layout();
    let rows: Vec<&[T]> = whole.as_slice()?.chunks_exact(width.max(1)).collect();
    let along = rows.iter().filter(|_| width > 2).map(|r| row(&r[..width - 2], &r[2..]));
    let across = rows.iter().zip(rows.iter().skip(2)).map(|(a, b)| row(a, b));
    let (sum, pairs) = along.chain(across).fold((0.0, 0), |(s, n), (rs, rn)| (s + rs, n + rn));
    (pairs > 0).then(|| sum / pairs as f64)
}

/// Integers are summed as integers, which the compiler does many at a time.
fn int_row<T: Copy + Into<u32>>(a: &[T], b: &[T]) -> (f64, usize) {
    let sum: u64 = a
        .iter()
        .zip(b)
        .map(|(a, b)| {
            let d = (*a).into().abs_diff((*b).into());
            u64::from(d * d)
        })
        .sum();
    (sum as f64, a.len().min(b.len()))
}

fn float_row(a: &[f32], b: &[f32]) -> (f64, usize) {
    let squares = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).filter(|d| d.is_finite());
    squares.fold((0.0, 0), |(s, n), d| (s + d, n + 1))
}

/// What the numbers mean, one finding a line, each with what to do about it; the most serious first.
/// There is always at least one line.
pub fn describe(stats: &Stats) -> Vec<String> {
    let mut found = Vec::new();
    if stats.pixels == 0 {
        return vec!["the frame has no pixels".into()];
    }
    if stats.not_finite > 0 {
        let share = percent(stats.not_finite as f64 / stats.pixels as f64);
        found.push(format!("{share} of the pixels are not numbers (NaN or infinite) and were left out"));
    }
    let Some(mean) = stats.mean else { return found };
    let exposed = stats.full_scale.map(|full| (mean / full, stats.high.unwrap_or(mean) / full));
    let saturated = stats.saturated_fraction.unwrap_or(0.0);
    if saturated >= 0.001 {
        found.push(format!("{} of the pixels are saturated; lower exposure_ms or the gain", percent(saturated)));
    }
    let too_dark = exposed.filter(|(mean, high)| *mean < 0.05 && *high < 0.1);
    if let Some((share, _)) = too_dark {
        found.push(format!("too dark: the mean is {} of full scale; raise exposure_ms or the light", percent(share)));
    }
    if stats.min == stats.max {
        found.push(format!("every pixel has the same value, {}", plain(mean)));
    } else if stats.structure().is_some_and(|s| s < 0.01) && stats.contrast().is_some_and(|c| c < 0.1) {
        let contrast = percent(stats.structure().unwrap_or(0.0));
        found.push(format!("featureless (contrast {contrast}): likely out of focus, or nothing is in view"));
    }
    if found.is_empty() {
        found.push(match exposed {
            Some((share, _)) => format!("well exposed: the mean is {} of full scale", percent(share)),
            None => format!("the mean is {}", plain(mean)),
        });
    }
    found
}

/// A share in percent, to about two digits.
fn percent(share: f64) -> String {
    let p = share * 100.0;
    match p {
        _ if p > 0.0 && p < 0.1 => "less than 0.1 %".into(),
        _ if p < 10.0 => format!("{} %", plain((p * 10.0).round() / 10.0)),
        // Not all, unless it is all.
        _ if p < 100.0 => format!("{} %", p.round().min(99.0)),
        _ => format!("{} %", p.round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::testing::{noise, u16s};
    use ndarray::{Axis, array};

    fn words(pixels: &Pixels, bits: u32) -> String {
        describe(&stats(pixels, bits)).join("; ")
    }

    #[test]
    fn the_numbers_are_exact_for_a_frame_that_can_be_checked_by_hand() {
        let s = stats(&u16s(array![[0, 1], [256, 65535]]), 16);
        assert_eq!((s.min, s.max, s.mean), (Some(0.0), Some(65535.0), Some(16448.0)));
        assert_eq!((s.pixels, s.not_finite, s.saturated_fraction), (4, 0, Some(0.25)));
        let s = stats(&Pixels::U8(array![[2, 4], [4, 6]]), 8);
        assert_eq!((s.mean, s.std), (Some(4.0), Some(2.0_f64.sqrt())));
        let s = stats(&Pixels::U8(array![[10, 10, 13, 10]]), 8);
        let mean = 10.75;
        assert_eq!(s.focus_score, Some(4.5 / (mean * mean)), "(3² + 0²) / 2 over the mean squared");
    }

    #[test]
    fn saturation_is_at_the_significant_bits_not_at_the_width_of_the_type() {
        let s = stats(&u16s(array![[4095, 4094], [0, 0]]), 12);
        assert_eq!((s.full_scale, s.saturated_fraction), (Some(4095.0), Some(0.25)));
        for nonsense in [0, 17, 64] {
            assert_eq!(stats(&u16s(array![[65535, 4095]]), nonsense).full_scale, Some(65535.0));
        }
    }

    #[test]
    fn what_a_frame_does_not_define_is_null_in_strict_json() {
        for pixels in [
            Pixels::F32(array![[f32::NAN, f32::INFINITY], [f32::NEG_INFINITY, f32::NAN]]),
            Pixels::F32(Array2::zeros((0, 0))),
            Pixels::U16(Array2::zeros((0, 4))),
        ] {
            let s = stats(&pixels, 16);
            let json = serde_json::to_value(&s).unwrap();
            for key in ["min", "max", "mean", "std", "focus_score", "low", "high"] {
                assert!(json[key].is_null(), "{key} of {pixels:?}");
            }
            let text = serde_json::to_string(&s).unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), json);
        }
    }

    #[test]
    fn pixels_that_are_no_numbers_are_counted_and_left_out() {
        let s = stats(&Pixels::F32(array![[1.0, f32::NAN, 3.0], [f32::INFINITY, 2.0, 2.0]]), 16);
        assert_eq!((s.not_finite, s.min, s.max, s.mean), (2, Some(1.0), Some(3.0), Some(2.0)));
        assert!(words(&Pixels::F32(array![[f32::NAN, 1.0]]), 16).contains("50 % of the pixels are not numbers"));
        let extremes = stats(&Pixels::F32(array![[f32::MAX, f32::MIN, f32::MAX]]), 16);
        assert!(extremes.std.is_some_and(f64::is_finite));
    }

    #[test]
    fn percentiles_leave_single_hot_and_dead_pixels_outside() {
        let mut a = Array2::from_elem((100, 100), 500_u16);
        (a[[3, 3]], a[[4, 4]]) = (0, 4095);
        a.row_mut(50).fill(700);
        for s in [stats(&u16s(a.clone()), 12), stats(&Pixels::F32(a.mapv(f32::from)), 12)] {
            assert_eq!((s.min, s.low, s.high, s.max), (Some(0.0), Some(500.0), Some(700.0), Some(4095.0)));
        }
    }

    #[test]
    fn the_focus_score_grows_with_sharpness_and_ignores_exposure() {
        let edge = |width: f64, gain: f64| {
            let a = Array2::from_shape_fn((64, 64), |(_, x)| {
                (gain * (1000.0 + 500.0 * ((x as f64 - 32.0) / width).tanh())) as u16
            });
            stats(&u16s(a), 16).focus_score.unwrap()
        };
        assert!(edge(1.0, 1.0) > 2.0 * edge(4.0, 1.0) && edge(4.0, 1.0) > 2.0 * edge(16.0, 1.0));
        let ratio = edge(4.0, 10.0) / edge(4.0, 1.0);
        assert!((0.98..1.02).contains(&ratio), "{ratio}");
    }

    #[test]
    fn every_layout_in_memory_gives_the_same_numbers() {
        let a = Array2::from_shape_fn((5, 7), |(y, x)| (y * 100 + x * x) as u16);
        let columns_first = a.t().as_standard_layout().to_owned().reversed_axes();
        assert!(!columns_first.is_standard_layout());
        assert_eq!(stats(&u16s(a), 16), stats(&u16s(columns_first), 16));
    }

    #[test]
    fn the_words_say_what_is_wrong_and_what_to_do() {
        assert!(words(&noise(64, 64, 75..88), 12).starts_with("too dark: the mean is 2 % of full scale"));
        let mut bright = noise(100, 100, 1000..3000);
        if let Pixels::U16(a) = &mut bright {
            a.slice_axis_mut(Axis(0), (0..12).into()).fill(4095);
        }
        assert!(words(&bright, 12).contains("12 % of the pixels are saturated; lower exposure_ms"));
        assert!(words(&noise(256, 256, 1900..2100), 12).starts_with("featureless"));
        assert!(words(&u16s(Array2::from_elem((9, 9), 2000)), 12).contains("every pixel has the same value, 2000"));
        let scene = Array2::from_shape_fn((64, 64), |(y, x)| if (y / 8 + x / 8) % 2 == 0 { 1000 } else { 2500 });
        assert_eq!(words(&u16s(scene), 12), "well exposed: the mean is 43 % of full scale");
    }

    #[test]
    fn a_dark_field_with_bright_spots_is_not_called_too_dark() {
        let mut a = Array2::from_elem((100, 100), 20_u16);
        a.slice_axis_mut(Axis(0), (10..15).into()).slice_axis_mut(Axis(1), (10..15).into()).fill(3000);
        assert!(!words(&u16s(a), 12).contains("too dark"));
    }

    #[test]
    fn no_share_is_rounded_to_nothing_or_to_all() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0004), "less than 0.1 %");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.999), "99 %");
        assert_eq!(percent(1.0), "100 %");
    }
}
