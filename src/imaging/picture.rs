//! Eight-bit pictures: PNG, and the preview that fits into an answer.

use base64::Engine as _;
use ndarray::Array2;

use crate::model::{Code, RigError};

/// A picture small enough to go along with an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// The file: eight-bit greyscale PNG.
    pub png: Vec<u8>,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// How many pixels of the full picture one pixel of the preview covers in each direction, at least 1.
    pub scale: f64,
}

/// Bytes as clients expect them: standard alphabet, padded, no line breaks, no `data:` prefix.
pub fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The picture as an eight-bit greyscale PNG, compressed fast rather than well.
///
/// # Errors
/// [`Code::InvalidArgument`] for a picture without pixels.
pub fn png8(image: &Array2<u8>) -> Result<Vec<u8>, RigError> {
    let (height, width) = image.dim();
    let (Ok(w), Ok(h)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(RigError::new(Code::TooLarge, format!("A picture of {width} × {height} pixels fits no PNG.")));
    };
    if w == 0 || h == 0 {
        return Err(RigError::new(Code::InvalidArgument, "A picture without pixels can't be drawn."));
    }
    let whole = image.as_standard_layout();
    let mut file = Vec::with_capacity(image.len() / 2 + 1024);
    let mut encoder = png::Encoder::new(&mut file, w, h);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fastest);
    encoder
        .write_header()
        .and_then(|mut writer| {
            writer.write_image_data(whole.as_slice().unwrap_or_default())?;
            writer.finish()
        })
        .map_err(|e| RigError::new(Code::Internal, format!("The PNG encoder failed: {e}.")))?;
    Ok(file)
}

/// The picture with its longer side at most `max_px`, shrunk further until its base64 has at most
/// `max_chars` characters. Each pixel is the mean of those it covers.
///
/// # Errors
/// [`Code::InvalidArgument`] for a picture without pixels; [`Code::TooLarge`] if not even one pixel fits
/// `max_chars` (about 100 characters).
pub fn preview(image: &Array2<u8>, max_px: usize, max_chars: usize) -> Result<Preview, RigError> {
    let (height, width) = image.dim();
    let longer = height.max(width);
    let mut side = longer.min(max_px.max(1));
    loop {
        let fit = |n: usize| ((n * side) as f64 / longer.max(1) as f64).round().max(1.0) as usize;
        let small = if side == longer { None } else { Some(shrink(image, fit(height), fit(width))) };
        let small = small.as_ref().unwrap_or(image);
        let png = png8(small)?;
        let chars = png.len().div_ceil(3) * 4;
        if chars <= max_chars {
            let (height, width) = small.dim();
            return Ok(Preview { png, width, height, scale: longer as f64 / side as f64 });
        }
        if side <= 1 {
            let what = format!("No picture fits into {max_chars} characters; the smallest needs {chars}.");
            return Err(RigError::new(Code::TooLarge, what));
        }
        // The file shrinks about as the area does; a little more, so that the next try is the last.
        let less = side as f64 * (max_chars as f64 / chars as f64).sqrt() * 0.97;
        side = (less as usize).clamp(1, side - 1);
    }
}

/// The picture at `height` × `width`, neither larger than it is; each pixel the mean of the area it covers.
fn shrink(image: &Array2<u8>, height: usize, width: usize) -> Array2<u8> {
    let rows = covered(image.nrows(), height);
    let columns = covered(image.ncols(), width);
    let mut small = Array2::zeros((height, width));
    let mut line = vec![0.0_f32; image.ncols()];
    let whole = image.as_standard_layout();
    let source: Vec<&[u8]> = whole.as_slice().unwrap_or_default().chunks_exact(image.ncols().max(1)).collect();
    for (mut out, (first, weights)) in small.rows_mut().into_iter().zip(&rows) {
        line.fill(0.0);
        for (row, weight) in source[*first..].iter().zip(weights) {
            line.iter_mut().zip(*row).for_each(|(sum, v)| *sum += weight * f32::from(*v));
        }
        for (pixel, (first, weights)) in out.iter_mut().zip(&columns) {
            let mean: f32 = line[*first..].iter().zip(weights).map(|(v, w)| v * w).sum();
            *pixel = mean.round() as u8;
        }
    }
    small
}

/// For each of `to` equal parts of `from` pixels: the first pixel it covers, and the share of each pixel
/// from there on; shares sum to one.
fn covered(from: usize, to: usize) -> Vec<(usize, Vec<f32>)> {
    let step = from as f64 / to as f64;
    let part = |i: usize| {
        let (start, end) = (i as f64 * step, ((i + 1) as f64 * step).min(from as f64));
        let first = start as usize;
        let share = |p: usize| (end.min((p + 1) as f64) - start.max(p as f64)).max(0.0) / (end - start);
        (first, (first..(end.ceil() as usize).max(first + 1)).map(|p| share(p) as f32).collect())
    };
    (0..to).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::testing::{noise, read_png};
    use crate::imaging::{Stretch, apply, stats};
    use ndarray::{Axis, array};

    #[test]
    fn a_png_gives_back_every_pixel() {
        let image = Array2::from_shape_fn((37, 53), |(y, x)| (y * 7 + x * x) as u8);
        let png = png8(&image).unwrap();
        assert_eq!(png[..8], [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]);
        assert_eq!(read_png(&png), image);
        let turned = image.clone().reversed_axes();
        assert_eq!(read_png(&png8(&turned).unwrap()), turned);
    }

    #[test]
    fn a_picture_without_pixels_is_refused() {
        assert_eq!(png8(&Array2::zeros((0, 3))).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(preview(&Array2::zeros((3, 0)), 10, 1000).unwrap_err().code, Code::InvalidArgument);
        assert!(preview(&Array2::zeros((0, 0)), 10, 1000).is_err());
    }

    #[test]
    fn pure_noise_of_any_size_fits_under_the_cap() {
        let pixels = noise(4096, 4096, 0..65535);
        let grey = apply(&pixels, Stretch::of(&stats(&pixels, 16)));
        let p = preview(&grey, 1024, 700_000).unwrap();
        let text = base64(&p.png);
        assert!(text.len() <= 700_000, "{}", text.len());
        assert!(p.width == p.height && 256 <= p.width && p.width <= 1024, "{}", p.width);
        assert!((p.scale - 4096.0 / p.width as f64).abs() < 1e-9);
        let hard =
            preview(&apply(&noise(700, 700, 0..256), Stretch { low: 0.0, high: 255.0, gamma: 1.0 }), 1024, 9_000);
        assert!(base64(&hard.unwrap().png).len() <= 9_000);
    }

    #[test]
    fn base64_is_standard_padded_and_bare() {
        let png = png8(&Array2::from_shape_fn((40, 41), |(y, x)| (x * y) as u8)).unwrap();
        let text = base64(&png);
        let body = text.trim_end_matches('=');
        assert!(text.len().is_multiple_of(4) && text.len() - body.len() <= 2);
        assert!(body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/'), "{text}");
        assert_eq!(base64::engine::general_purpose::STANDARD.decode(&text).unwrap(), png);
    }

    #[test]
    fn a_picture_that_is_small_enough_is_left_alone() {
        let image = array![[0, 50, 100], [150, 200, 250]];
        let p = preview(&image, 1024, 700_000).unwrap();
        assert_eq!((p.width, p.height, p.scale), (3, 2, 1.0));
        assert_eq!(read_png(&p.png), image);
    }

    #[test]
    fn a_preview_keeps_its_shape_and_its_mean() {
        let image = Array2::from_shape_fn((1000, 3000), |(y, x)| ((x / 12) as u8).wrapping_add((y / 100) as u8) / 2);
        let p = preview(&image, 700, 700_000).unwrap();
        assert_eq!((p.width, p.height), (700, 233));
        let mean = |a: &Array2<u8>| a.iter().map(|v| f64::from(*v)).sum::<f64>() / a.len() as f64;
        assert!((mean(&read_png(&p.png)) - mean(&image)).abs() < 0.5);
        let line = preview(&Array2::from_elem((1, 5000), 9), 100, 10_000).unwrap();
        assert_eq!((line.height, line.width), (1, 100));
    }

    #[test]
    fn shrinking_averages_what_a_pixel_covers() {
        let image = array![[0, 100, 10, 20], [100, 200, 30, 40]];
        assert_eq!(shrink(&image, 1, 2), array![[100, 25]]);
        let thirds = shrink(&array![[0, 90, 180]], 1, 2);
        assert_eq!(thirds, array![[30, 150]], "a pixel on the border counts on both sides");
        let even = Array2::from_elem((101, 67), 77);
        assert!(shrink(&even, 10, 13).iter().all(|v| *v == 77));
        assert_eq!(shrink(&even, 10, 13).len_of(Axis(1)), 13);
    }

    #[test]
    fn a_cap_that_nothing_fits_is_said() {
        let e = preview(&Array2::from_elem((50, 50), 1), 1024, 20).unwrap_err();
        assert_eq!(e.code, Code::TooLarge);
        assert!(e.what.contains("20 characters"), "{}", e.what);
    }
}
