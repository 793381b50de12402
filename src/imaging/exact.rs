//! The exact pixels, as files and payloads that every tool reads: TIFF, NPY, EAA's array form; and a part
//! of a frame.

use std::io::Cursor;

use ndarray::{Array2, Axis, Slice};
use ndarray_npy::{WritableElement, WriteNpyExt};
use serde_json::{Map, Value, json};
use tiff::encoder::colortype::{ColorType, Gray8, Gray16, Gray32Float};
use tiff::encoder::{TiffEncoder, TiffValue};
use tiff::tags::Tag;

use super::base64;
use crate::model::{Code, Pixels, RigError};

/// The pixels as an uncompressed TIFF: uint8, uint16 or float32, exact, with `description` (ASCII, e.g.
/// from [`super::ome_xml`]) as its ImageDescription.
///
/// # Errors
/// [`Code::InvalidArgument`] for a frame without pixels or a description that isn't ASCII;
/// [`Code::TooLarge`] above 4 GB, which a TIFF can't hold.
pub fn tiff(pixels: &Pixels, description: &str) -> Result<Vec<u8>, RigError> {
    let [height, width] = pixels.shape();
    if height == 0 || width == 0 {
        return Err(RigError::new(Code::InvalidArgument, "A frame without pixels can't be written as TIFF."));
    }
    if !description.is_ascii() || description.contains('\0') {
        return Err(RigError::new(Code::InvalidArgument, "The description of a TIFF must be ASCII without NUL."));
    }
    if u32::try_from(pixels.bytes() + description.len() + (1 << 20)).is_err() {
        let what = format!("A frame of {width} × {height} {} exceeds the 4 GB of a TIFF.", pixels.dtype());
        return Err(RigError::new(Code::TooLarge, what));
    }
    match pixels {
        Pixels::U8(a) => write_tiff::<Gray8>(a, description),
        Pixels::U16(a) => write_tiff::<Gray16>(a, description),
        Pixels::F32(a) => write_tiff::<Gray32Float>(a, description),
    }
    .map_err(|e| RigError::new(Code::Internal, format!("The TIFF encoder failed: {e}.")))
}

fn write_tiff<C: ColorType>(pixels: &Array2<C::Inner>, description: &str) -> tiff::TiffResult<Vec<u8>>
where
    C::Inner: Clone,
    [C::Inner]: TiffValue,
{
    let (height, width) = pixels.dim();
    let whole = pixels.as_standard_layout();
    let mut file = Cursor::new(Vec::with_capacity(size_of_val(whole.as_slice().unwrap_or_default()) + 8192));
    let mut encoder = TiffEncoder::new(&mut file)?;
    let mut image = encoder.new_image::<C>(width as u32, height as u32)?;
    image.encoder().write_tag(Tag::ImageDescription, description)?;
    image.encoder().write_tag(Tag::Software, concat!("steadyhand ", env!("CARGO_PKG_VERSION")))?;
    image.write_data(whole.as_slice().unwrap_or_default())?;
    Ok(file.into_inner())
}

/// The pixels as numpy saves them: version 1, C order, shape (height, width).
///
/// # Errors
/// [`Code::Internal`] if the encoder fails, which memory alone can cause.
pub fn npy(pixels: &Pixels) -> Result<Vec<u8>, RigError> {
    fn write<T: WritableElement + Clone>(pixels: &Array2<T>, size: usize) -> Result<Vec<u8>, RigError> {
        let mut file = Vec::with_capacity(size + 128);
        pixels
            .as_standard_layout()
            .write_npy(&mut file)
            .map_err(|e| RigError::new(Code::Internal, format!("The NPY encoder failed: {e}.")))?;
        Ok(file)
    }
    match pixels {
        Pixels::U8(a) => write(a, pixels.bytes()),
        Pixels::U16(a) => write(a, pixels.bytes()),
        Pixels::F32(a) => write(a, pixels.bytes()),
    }
}

/// The pixels as EAA decodes arrays: `{"encoded_data": {"type": "array", "dtype", "shape", "data"}}` with
/// numpy's type names, shape [height, width], C order, little-endian, standard base64. With `legacy` the
/// object also carries the older flat form (`"encoding": "numpy_base64"`), so that clients of both ages
/// decode it, and is twice the size.
pub fn array_payload(pixels: &Pixels, legacy: bool) -> Value {
    let data = base64(&little_endian(pixels));
    let (dtype, shape) = (pixels.dtype(), pixels.shape());
    let mut payload = Map::new();
    if legacy {
        payload.insert("encoding".into(), "numpy_base64".into());
        payload.insert("dtype".into(), dtype.into());
        payload.insert("shape".into(), json!(shape));
        payload.insert("data".into(), data.as_str().into());
    }
    let mut array = Map::new();
    array.insert("type".into(), "array".into());
    array.insert("dtype".into(), dtype.into());
    array.insert("shape".into(), json!(shape));
    // Moved, not copied: it may be megabytes.
    array.insert("data".into(), Value::String(data));
    payload.insert("encoded_data".into(), Value::Object(array));
    Value::Object(payload)
}

/// The pixels' bytes in C order, the least significant first.
fn little_endian(pixels: &Pixels) -> Vec<u8> {
    fn write<T: Copy, const N: usize>(pixels: &Array2<T>, bytes: fn(T) -> [u8; N]) -> Vec<u8> {
        let whole = pixels.as_standard_layout();
        whole.as_slice().unwrap_or_default().iter().flat_map(|v| bytes(*v)).collect()
    }
    match pixels {
        Pixels::U8(a) => write(a, u8::to_le_bytes),
        Pixels::U16(a) => write(a, u16::to_le_bytes),
        Pixels::F32(a) => write(a, f32::to_le_bytes),
    }
}

/// The part of a frame that begins at column `x` and row `y` and is `width` × `height` pixels large.
///
/// # Errors
/// [`Code::InvalidArgument`] if it is empty or reaches beyond the frame; it is never cut to fit.
pub fn crop(pixels: &Pixels, x: usize, y: usize, width: usize, height: usize) -> Result<Pixels, RigError> {
    let [rows, columns] = pixels.shape();
    let fits = |start: usize, size: usize, whole: usize| size > 0 && start <= whole && size <= whole - start;
    if !fits(x, width, columns) || !fits(y, height, rows) {
        let what = format!(
            "A part of {width} × {height} pixels at column {x}, row {y} does not lie within the frame of \
             {columns} × {rows}."
        );
        return Err(RigError::new(Code::InvalidArgument, what));
    }
    let (rows, columns) = (Slice::from(y..y + height), Slice::from(x..x + width));
    Ok(match pixels {
        Pixels::U8(a) => Pixels::U8(a.slice_axis(Axis(0), rows).slice_axis(Axis(1), columns).to_owned()),
        Pixels::U16(a) => Pixels::U16(a.slice_axis(Axis(0), rows).slice_axis(Axis(1), columns).to_owned()),
        Pixels::F32(a) => Pixels::F32(a.slice_axis(Axis(0), rows).slice_axis(Axis(1), columns).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::testing::{noise, u16s};
    use ::base64::Engine as _;
    use ndarray::array;
    use proptest::prelude::*;
    use tiff::decoder::{Decoder, DecodingResult};

    fn each_type() -> [Pixels; 3] {
        [
            Pixels::U8(array![[0, 1, 2], [253, 254, 255]]),
            u16s(array![[0, 1, 2], [255, 256, 65535]]),
            Pixels::F32(array![[0.0, -1.5, 1e-30], [f32::NAN, f32::INFINITY, f32::MAX]]),
        ]
    }

    #[test]
    fn the_array_payload_is_what_eaa_decodes_to_the_byte() {
        assert_eq!(
            array_payload(&u16s(array![[0, 1], [256, 65535]]), false),
            json!({"encoded_data": {"type": "array", "dtype": "uint16", "shape": [2, 2], "data": "AAABAAAB//8="}})
        );
        assert_eq!(array_payload(&Pixels::F32(array![[0.0]]), false)["encoded_data"]["data"], json!("AAAAAA=="));
    }

    #[test]
    fn only_the_legacy_payload_carries_the_older_form_and_it_carries_both() {
        let pixels = u16s(array![[7]]);
        assert!(array_payload(&pixels, false).get("encoding").is_none());
        let both = array_payload(&pixels, true);
        assert_eq!(both["encoded_data"], array_payload(&pixels, false)["encoded_data"]);
        assert_eq!(both["encoding"], "numpy_base64");
        for key in ["dtype", "shape", "data"] {
            assert_eq!(both[key], both["encoded_data"][key]);
        }
    }

    #[test]
    fn a_payload_has_a_name_that_numpy_knows_and_as_many_bytes_as_its_shape_says() {
        for pixels in each_type() {
            let payload = array_payload(&pixels, false);
            let array = &payload["encoded_data"];
            let item = match array["dtype"].as_str().unwrap() {
                "uint8" => 1,
                "uint16" => 2,
                "float32" => 4,
                other => panic!("{other}"),
            };
            let bytes = ::base64::engine::general_purpose::STANDARD.decode(array["data"].as_str().unwrap()).unwrap();
            assert_eq!((array["shape"].clone(), bytes.len()), (json!([2, 3]), 6 * item));
        }
    }

    #[test]
    fn a_turned_frame_is_written_row_by_row_all_the_same() {
        let a = array![[1_u16, 2, 3], [4, 5, 6]];
        let turned = u16s(a.clone().reversed_axes());
        let straight = u16s(a.t().as_standard_layout().to_owned());
        assert_eq!(array_payload(&turned, false), array_payload(&straight, false));
        assert_eq!(npy(&turned).unwrap(), npy(&straight).unwrap());
        assert_eq!(tiff(&turned, "").unwrap(), tiff(&straight, "").unwrap());
    }

    #[test]
    fn an_npy_file_has_numpys_header_and_the_exact_bytes() {
        let file = npy(&u16s(array![[0, 1], [256, 65535]])).unwrap();
        assert_eq!(file[..8], *b"\x93NUMPY\x01\x00");
        let length = usize::from(u16::from_le_bytes([file[8], file[9]]));
        assert_eq!((10 + length) % 64, 0);
        let header = std::str::from_utf8(&file[10..10 + length]).unwrap();
        assert!(header.contains("'descr': '<u2'") && header.contains("'fortran_order': False"), "{header}");
        assert!(header.contains("'shape': (2, 2)") && header.ends_with('\n'), "{header}");
        assert_eq!(file[10 + length..], [0, 0, 1, 0, 0, 1, 255, 255]);
        let types = each_type().map(|p| String::from_utf8_lossy(&npy(&p).unwrap()[10..40]).into_owned());
        assert!(types[0].contains("'|u1'") && types[2].contains("'<f4'"), "{types:?}");
    }

    #[test]
    fn a_tiff_gives_back_the_exact_pixels_and_its_description() {
        for pixels in each_type() {
            let file = tiff(&pixels, "<OME/>").unwrap();
            let mut decoder = Decoder::new(Cursor::new(file)).unwrap();
            assert_eq!(decoder.dimensions().unwrap(), (3, 2));
            assert_eq!(decoder.get_tag_ascii_string(Tag::ImageDescription).unwrap(), "<OME/>");
            let bits = |a: &[f32]| a.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            match (decoder.read_image().unwrap(), &pixels) {
                (DecodingResult::U8(read), Pixels::U8(a)) => assert_eq!(read, a.as_slice().unwrap()),
                (DecodingResult::U16(read), Pixels::U16(a)) => assert_eq!(read, a.as_slice().unwrap()),
                (DecodingResult::F32(read), Pixels::F32(a)) => assert_eq!(bits(&read), bits(a.as_slice().unwrap())),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_tiff_of_many_strips_is_whole() {
        let pixels = noise(1500, 701, 0..65535);
        let mut decoder = Decoder::new(Cursor::new(tiff(&pixels, "").unwrap())).unwrap();
        let (DecodingResult::U16(read), Pixels::U16(a)) = (decoder.read_image().unwrap(), &pixels) else { panic!() };
        assert!(read == a.as_slice().unwrap());
    }

    #[test]
    fn what_a_tiff_cannot_hold_is_refused() {
        assert!(tiff(&Pixels::U8(Array2::zeros((0, 5))), "").is_err());
        assert!(tiff(&Pixels::U8(array![[1]]), "3 µm").is_err());
    }

    #[test]
    fn a_part_beyond_the_frame_is_refused_and_says_both_sizes() {
        let frame = u16s(Array2::zeros((10, 20)));
        for (x, y, w, h) in [(0, 0, 21, 1), (20, 0, 1, 1), (0, 9, 1, 2), (usize::MAX, 0, 2, 1), (0, 0, 0, 5)] {
            let e = crop(&frame, x, y, w, h).unwrap_err();
            assert_eq!(e.code, Code::InvalidArgument);
            assert!(e.what.contains("20 × 10"), "{}", e.what);
        }
        assert_eq!(crop(&frame, 0, 0, 20, 10).unwrap(), frame);
    }

    proptest! {
        #[test]
        fn a_part_is_the_frame_seen_from_its_corner(x in 0_usize..40, y in 0_usize..40, w in 0_usize..40, h in 0_usize..40) {
            let frame = Array2::from_shape_fn((17, 23), |(r, c)| (r * 100 + c) as u16);
            let part = crop(&u16s(frame.clone()), x, y, w, h);
            if w > 0 && h > 0 && x + w <= 23 && y + h <= 17 {
                let Ok(Pixels::U16(part)) = part else { panic!("{part:?}") };
                prop_assert_eq!(part.dim(), (h, w));
                prop_assert!(part.indexed_iter().all(|((r, c), v)| *v == frame[[y + r, x + c]]));
            } else {
                prop_assert!(part.is_err());
            }
        }
    }
}
