//! The part of a frame that a region asks for: which pixels, turned so that columns run along +x and rows
//! along +y, averaged to the asked step. Pure.

use ndarray::Array2;

use crate::config::{Camera, Scan};
use crate::model::{AxisId, CameraSettings, Pixels};
use crate::units::{Position, Unit, plain};

/// A region in the rig's scan unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Region {
    pub(crate) x_center: f64,
    pub(crate) y_center: f64,
    pub(crate) size_x: f64,
    pub(crate) size_y: f64,
    pub(crate) scan_step: Option<f64>,
    pub(crate) unit: Unit,
}

/// How a picture lies on the scan axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Columns run along y and rows along x.
    swapped: bool,
    /// Columns run against their axis.
    flip_columns: bool,
    /// Rows, downwards, run against their axis.
    flip_rows: bool,
}

impl Turn {
    /// From the camera's axes; `None` where they don't say how the picture lies on the scan axes.
    pub(crate) fn of(camera: &Camera, scan: &Scan) -> Option<Turn> {
        let (right, up) = (camera.right.as_ref()?, camera.up.as_ref()?);
        let along = |side: &(f64, AxisId), axis: &AxisId| side.1 == *axis;
        let swapped = if along(right, &scan.x) && along(up, &scan.y) {
            false
        } else if along(right, &scan.y) && along(up, &scan.x) {
            true
        } else {
            return None;
        };
        Some(Turn { swapped, flip_columns: right.0 < 0.0, flip_rows: up.0 > 0.0 })
    }
}

/// What is cut out of a frame, in its own pixels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cut {
    /// First column and row; fractions only where pixels are averaged.
    start: [f64; 2],
    /// Columns and rows of the result, as they lie in the frame.
    count: [usize; 2],
    /// Frame pixels per pixel of the result.
    step: f64,
    turn: Option<Turn>,
    /// Micrometres per pixel of the result.
    pub(crate) psize_um: f64,
    /// What the caller should know about the step.
    pub(crate) note: Option<String>,
}

fn um(value: f64, unit: Unit) -> f64 {
    Position::new(value, unit).map_or(f64::NAN, |p| p.to(Unit::Um))
}

/// Which pixels of a frame under these settings a region means, with the optical axis at the sensor's middle.
///
/// # Errors
/// In words, with numbers and what is allowed: a size that isn't above zero, or larger than the field.
pub(crate) fn cut(region: &Region, camera: &Camera, scan: &Scan, settings: &CameraSettings) -> Result<Cut, String> {
    let binning = f64::from(settings.binning.max(1));
    let pixel = camera.pixel_size_um * binning;
    let turn = Turn::of(camera, scan);
    let asked = region.scan_step.map(|s| um(s, region.unit));
    if asked.is_some_and(|s| s.is_nan() || s <= 0.0) {
        return Err("scan_step must be above zero".into());
    }
    let coarse = asked.filter(|s| *s > pixel * (1.0 + 1e-9));
    let psize_um = coarse.unwrap_or(pixel);
    let step = psize_um / pixel;
    let note = asked.filter(|s| *s < pixel * (1.0 - 1e-9)).map(|s| {
        format!("scan_step {} um is finer than a pixel, so pixels of {} um were kept.", plain(s), plain(pixel))
    });
    let swapped = turn.is_some_and(|t| t.swapped);
    let sizes = if swapped {
        [("size_y", region.size_y), ("size_x", region.size_x)]
    } else {
        [("size_x", region.size_x), ("size_y", region.size_y)]
    };
    let [left, top, width, height] = settings.roi.map(f64::from);
    let (mut start, mut count) = ([0.0; 2], [0; 2]);
    for (i, (name, size)) in sizes.into_iter().enumerate() {
        let (offset, length) = if i == 0 { (left, width) } else { (top, height) };
        let pixels = (length / binning).floor();
        let middle = (f64::from(settings.sensor[i]) / 2.0 - offset) / binning;
        let size_um = um(size, region.unit);
        if size_um.is_nan() || size_um <= 0.0 {
            return Err(format!("{name} must be above zero"));
        }
        let n = (size_um / psize_um - 1e-6).ceil().max(1.0);
        let first = middle - n * step / 2.0;
        let first = if coarse.is_some() { first } else { first.round() };
        if !(first >= -1e-6 && first + n * step <= pixels + 1e-6) {
            // As much as lies on both sides of the optical axis.
            let most = 2.0 * middle.min(pixels - middle).max(0.0) * pixel;
            let shown = |v: f64| plain(Position::new(v, Unit::Um).map_or(0.0, |p| p.to(region.unit)));
            return Err(format!(
                "{name} {} {unit} is larger than the field of {}, at most {} {unit} around its middle ({} pixels of {} um); \
                 fields aren't joined in this version",
                plain(size),
                camera.id,
                shown(most),
                plain(pixels),
                plain(pixel),
                unit = region.unit,
            ));
        }
        start[i] = first.max(0.0);
        // `n` is whole and at most the number of pixels.
        count[i] = n as usize;
    }
    Ok(Cut { start, count, step, turn, psize_um, note })
}

impl Cut {
    /// The pixels, cut out, averaged and turned.
    pub(crate) fn apply(&self, pixels: &Pixels) -> Pixels {
        match pixels {
            Pixels::U8(a) => Pixels::U8(self.array(a, f64::from, |v| v.round() as u8)),
            Pixels::U16(a) => Pixels::U16(self.array(a, f64::from, |v| v.round() as u16)),
            Pixels::F32(a) => Pixels::F32(self.array(a, f64::from, |v| v as f32)),
        }
    }

    /// Where the picture's columns and rows run, if the rig file says so.
    pub(crate) fn is_turned(&self) -> bool {
        self.turn.is_some()
    }

    fn array<T: Copy>(&self, a: &Array2<T>, read: fn(T) -> f64, write: fn(f64) -> T) -> Array2<T> {
        let [columns, rows] = self.count;
        let (xs, ys) = (self.weights(0, columns, a.ncols()), self.weights(1, rows, a.nrows()));
        let mean = |r: usize, c: usize| {
            let (mut sum, mut weight) = (0.0, 0.0);
            for (y, wy) in &ys[r] {
                for (x, wx) in &xs[c] {
                    sum += read(a[[*y, *x]]) * wy * wx;
                    weight += wy * wx;
                }
            }
            write(sum / weight)
        };
        let flip = |on: bool, i: usize, n: usize| if on { n - 1 - i } else { i };
        let turn = self.turn.unwrap_or(Turn { swapped: false, flip_columns: false, flip_rows: false });
        let place = |r: usize, c: usize| mean(flip(turn.flip_rows, r, rows), flip(turn.flip_columns, c, columns));
        if turn.swapped {
            Array2::from_shape_fn((columns, rows), |(r, c)| place(c, r))
        } else {
            Array2::from_shape_fn((rows, columns), |(r, c)| place(r, c))
        }
    }

    /// For each pixel of the result the frame pixels that it covers, with their shares.
    fn weights(&self, side: usize, count: usize, length: usize) -> Vec<Vec<(usize, f64)>> {
        let last = length.saturating_sub(1);
        (0..count)
            .map(|i| {
                let from = self.start[side] + i as f64 * self.step;
                let to = from + self.step;
                let first = (from.floor().max(0.0) as usize).min(last);
                let end = ((to - 1e-9).ceil().max(1.0) as usize).min(length);
                let share = |p: usize| (to.min(p as f64 + 1.0) - from.max(p as f64)).max(0.0);
                let covered: Vec<(usize, f64)> =
                    (first..end.max(first + 1)).map(|p| (p, share(p))).filter(|(_, w)| *w > 1e-9).collect();
                if covered.is_empty() { vec![(first, 1.0)] } else { covered }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::super::testing;
    use super::*;

    fn settings(side: u32) -> CameraSettings {
        CameraSettings {
            exposure_ms: 1.0,
            gain: 1.0,
            roi: [0, 0, side, side],
            binning: 1,
            bits: 16,
            sensor: [side, side],
        }
    }

    fn region(size_x: f64, size_y: f64, scan_step: Option<f64>) -> Region {
        Region { x_center: 0.0, y_center: 0.0, size_x, size_y, scan_step, unit: Unit::Um }
    }

    /// A camera of 1 um a pixel whose columns run along +x and rows along +y.
    fn camera(right: &str, up: &str) -> Camera {
        let side = |s: &str| Some((if s.starts_with('-') { -1.0 } else { 1.0 }, AxisId::new("scope", &s[1..])));
        Camera { pixel_size_um: 1.0, right: side(right), up: side(up), ..testing::rig().cameras[0].clone() }
    }

    fn four() -> Pixels {
        Pixels::U16(array![[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]])
    }

    fn taken(r: Region, camera: &Camera) -> Pixels {
        let scan = testing::rig().scan.unwrap();
        cut(&r, camera, &scan, &settings(4)).unwrap().apply(&four())
    }

    #[test]
    fn a_region_is_the_middle_of_the_field() {
        let got = taken(region(2.0, 2.0, None), &camera("+x", "-y"));
        assert_eq!(got, Pixels::U16(array![[11, 12], [21, 22]]));
    }

    #[test]
    fn columns_run_along_x_and_rows_along_y_however_the_camera_is_mounted() {
        assert_eq!(taken(region(2.0, 2.0, None), &camera("-x", "-y")), Pixels::U16(array![[12, 11], [22, 21]]));
        assert_eq!(taken(region(2.0, 2.0, None), &camera("+x", "+y")), Pixels::U16(array![[21, 22], [11, 12]]));
        assert_eq!(taken(region(2.0, 4.0, None), &camera("+y", "-x")).shape(), [4, 2]);
        assert_eq!(taken(region(2.0, 2.0, None), &camera("+y", "-x")), Pixels::U16(array![[11, 21], [12, 22]]));
    }

    #[test]
    fn a_coarser_step_averages_the_area_and_says_its_own_pixel_size() {
        let scan = testing::rig().scan.unwrap();
        let c = cut(&region(4.0, 4.0, Some(2.0)), &camera("+x", "-y"), &scan, &settings(4)).unwrap();
        assert_eq!(c.psize_um, 2.0);
        assert_eq!(
            c.apply(&Pixels::F32(array![
                [0.0, 2.0, 4.0, 4.0],
                [2.0, 4.0, 4.0, 4.0],
                [8.0, 8.0, 0.0, 0.0],
                [8.0, 8.0, 0.0, 2.0]
            ])),
            Pixels::F32(array![[2.0, 4.0], [8.0, 0.5]])
        );
        let fractional = cut(&region(3.0, 3.0, Some(1.5)), &camera("+x", "-y"), &scan, &settings(4)).unwrap();
        assert_eq!(
            fractional.apply(&Pixels::F32(ndarray::Array2::from_elem((4, 4), 7.0))),
            Pixels::F32(array![[7.0, 7.0], [7.0, 7.0]])
        );
    }

    #[test]
    fn a_finer_step_keeps_the_pixel_and_says_so() {
        let scan = testing::rig().scan.unwrap();
        let c = cut(&region(2.0, 2.0, Some(0.25)), &camera("+x", "-y"), &scan, &settings(4)).unwrap();
        assert_eq!(c.psize_um, 1.0);
        assert!(c.note.unwrap().contains("0.25 um is finer than a pixel"));
    }

    #[test]
    fn a_region_larger_than_the_field_is_refused_with_numbers() {
        let scan = testing::rig().scan.unwrap();
        let e = cut(&region(5.0, 2.0, None), &camera("+x", "-y"), &scan, &settings(4)).unwrap_err();
        assert!(e.contains("size_x 5 um is larger than the field of cam, at most 4 um"), "{e}");
        let off = CameraSettings { roi: [0, 0, 3, 4], ..settings(4) };
        let e = cut(&region(3.0, 2.0, None), &camera("+x", "-y"), &scan, &off).unwrap_err();
        assert!(e.contains("at most 2 um"), "{e}");
        for bad in [0.0, -1.0, f64::NAN] {
            assert!(cut(&region(bad, 2.0, None), &camera("+x", "-y"), &scan, &settings(4)).is_err());
            assert!(cut(&region(2.0, 2.0, Some(bad)), &camera("+x", "-y"), &scan, &settings(4)).is_err());
        }
    }

    #[test]
    fn what_the_rig_file_does_not_say_is_not_assumed() {
        let unknown = Camera { right: None, ..camera("+x", "-y") };
        let scan = testing::rig().scan.unwrap();
        assert_eq!(Turn::of(&unknown, &scan), None);
        assert!(!cut(&region(2.0, 2.0, None), &unknown, &scan, &settings(4)).unwrap().is_turned());
    }
}
