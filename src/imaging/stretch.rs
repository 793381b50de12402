//! How counts become the eight bits that people and models see.

use ndarray::Array2;
use serde::Serialize;

use super::Stats;
use crate::model::Pixels;

/// A mapping from counts to grey values: `255 · ((count − low) / (high − low))^gamma`, cut at both ends.
/// Fields are finite, `low < high`, `gamma > 0`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    /// The count that becomes black.
    pub low: f64,
    /// The count that becomes white.
    pub high: f64,
    /// The exponent; 1 is linear, below 1 lifts the dark parts.
    pub gamma: f64,
}

impl Stretch {
    /// From the 0.1 to the 99.9 percentile, linear. It is never narrower than 1/256 of full scale, so that
    /// the noise of an even frame isn't blown up to full contrast; a black frame stays black and a
    /// saturated one white.
    pub fn of(stats: &Stats) -> Stretch {
        let (Some(low), Some(high)) = (stats.low, stats.high) else {
            return Stretch { low: 0.0, high: stats.full_scale.unwrap_or(1.0), gamma: 1.0 };
        };
        let narrowest = match stats.full_scale {
            Some(full) => ((full + 1.0) / 256.0).max(1.0),
            None if low == 0.0 && high == 0.0 => 1.0,
            None => low.abs().max(high.abs()) / 1000.0,
        };
        if high - low >= narrowest {
            return Stretch { low, high, gamma: 1.0 };
        }
        let middle = low + (high - low) / 2.0;
        let mut low = middle - narrowest / 2.0;
        if let Some(full) = stats.full_scale {
            low = low.min(full - narrowest).max(0.0);
        }
        Stretch { low, high: low + narrowest, gamma: 1.0 }
    }

    /// The grey value of a count. NaN is black.
    fn grey(self, count: f64) -> u8 {
        let share = ((count - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        let share = if self.gamma == 1.0 { share } else { share.powf(self.gamma) };
        // `as` cuts at both ends and takes NaN to zero.
        (share * 255.0).round() as u8
    }
}

/// The frame in eight bits; the same stretch over a series keeps its pictures comparable.
pub fn apply(pixels: &Pixels, stretch: Stretch) -> Array2<u8> {
    let table = |size: usize| (0..size).map(|v| stretch.grey(v as f64)).collect::<Vec<u8>>();
    match pixels {
        Pixels::U8(a) => {
            let table = table(1 << 8);
            a.mapv(|v| table[usize::from(v)])
        }
        Pixels::U16(a) => {
            let table = table(1 << 16);
            a.mapv(|v| table[usize::from(v)])
        }
        Pixels::F32(a) => a.mapv(|v| stretch.grey(f64::from(v))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::stats;
    use crate::imaging::testing::{noise, u16s};
    use ndarray::array;
    use proptest::prelude::*;

    fn seen(pixels: &Pixels, bits: u32) -> Array2<u8> {
        apply(pixels, Stretch::of(&stats(pixels, bits)))
    }

    #[test]
    fn black_stays_black_saturated_stays_white_and_an_even_frame_is_grey() {
        let even = |v| seen(&u16s(Array2::from_elem((8, 8), v)), 12)[[4, 4]];
        assert_eq!((even(0), even(4095)), (0, 255));
        assert!((100..156).contains(&even(2000)), "{}", even(2000));
        assert!((100..156).contains(&seen(&Pixels::F32(Array2::from_elem((4, 4), 1e30)), 16)[[0, 0]]));
        assert_eq!(seen(&Pixels::F32(Array2::zeros((4, 4))), 16).iter().filter(|v| **v > 130).count(), 0);
    }

    #[test]
    fn the_noise_of_an_even_frame_is_not_blown_up() {
        let grey = seen(&noise(64, 64, 2000..2003), 12);
        let (min, max) = (grey.iter().min().unwrap(), grey.iter().max().unwrap());
        assert!(max - min < 40, "{min}..{max}");
    }

    #[test]
    fn pixels_that_are_no_numbers_are_black_and_spoil_nothing() {
        let grey = seen(&Pixels::F32(array![[f32::NAN, 0.0], [1.0, f32::INFINITY]]), 16);
        assert_eq!(grey, array![[0, 0], [255, 255]]);
        let nothing = seen(&Pixels::F32(array![[f32::NAN, f32::NAN]]), 16);
        assert_eq!(nothing, array![[0, 0]]);
    }

    #[test]
    fn gamma_below_one_lifts_the_dark_parts() {
        let linear = Stretch { low: 0.0, high: 100.0, gamma: 1.0 };
        let lifted = Stretch { gamma: 0.5, ..linear };
        assert_eq!((linear.grey(25.0), lifted.grey(25.0)), (64, 128));
        assert_eq!((lifted.grey(-5.0), lifted.grey(1e9)), (0, 255));
    }

    proptest! {
        #[test]
        fn a_brighter_pixel_is_never_shown_darker(counts in proptest::collection::vec(any::<u16>(), 1..200), bits in 8_u32..=16) {
            let n = counts.len();
            let pixels = u16s(Array2::from_shape_vec((1, n), counts.clone()).unwrap());
            let stretch = Stretch::of(&stats(&pixels, bits));
            prop_assert!(stretch.low.is_finite() && stretch.low < stretch.high && stretch.high.is_finite());
            let mut both: Vec<_> = counts.into_iter().zip(apply(&pixels, stretch)).collect();
            both.sort_unstable();
            prop_assert!(both.windows(2).all(|w| w[0].1 <= w[1].1));
        }

        #[test]
        fn any_float_frame_has_a_usable_stretch(counts in proptest::collection::vec(any::<f32>(), 1..50)) {
            let n = counts.len();
            let pixels = Pixels::F32(Array2::from_shape_vec((1, n), counts).unwrap());
            let stretch = Stretch::of(&stats(&pixels, 16));
            prop_assert!(stretch.low.is_finite() && stretch.low < stretch.high && stretch.high.is_finite(), "{stretch:?}");
        }
    }
}
