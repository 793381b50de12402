//! Pixels to pictures, files and numbers. Pure: no clock, no disk, and no hardware.
//!
//! | part | what it is |
//! |---|---|
//! | [`stats`], [`describe`] | a frame in numbers, and those numbers in words |
//! | [`Stretch`], [`apply`] | sixteen bits to the eight that people and models see |
//! | [`png8`], [`preview`], [`base64()`] | pictures |
//! | [`tiff()`], [`npy`], [`array_payload`], [`crop`] | the exact pixels |
//! | [`ome_xml`] | what a TIFF says about itself |

mod exact;
mod ome;
mod picture;
mod stats;
mod stretch;

pub use exact::{array_payload, crop, npy, tiff};
pub use ome::{OmeFacts, ome_xml};
pub use picture::{Preview, base64, png8, preview};
pub use stats::{Stats, describe, stats};
pub use stretch::{Stretch, apply};

#[cfg(test)]
pub(crate) mod testing {
    //! Frames for tests.

    use ndarray::Array2;

    use crate::model::{AxisId, AxisReading, CameraSettings, Frame, Moved, Name, Pixels, Time, Trust};
    use crate::units::{Position, Unit};

    pub(crate) fn u16s(pixels: Array2<u16>) -> Pixels {
        Pixels::U16(pixels)
    }

    /// A frame of 2 × 3 pixels, exposed 20.5 ms at x = 12.5 mm, z = 300 um, and y unknown.
    pub(crate) fn a_frame() -> Frame {
        let read = |axis, value: Option<f64>, unit| AxisReading {
            id: AxisId::new("sample", axis),
            position: value.map(|v| Position::new(v, unit).unwrap()),
            unit,
            trust: if value.is_some() { Trust::Referenced } else { Trust::Unknown },
        };
        let readings =
            vec![read("x", Some(12.5), Unit::Mm), read("y", None, Unit::Mm), read("z", Some(300.0), Unit::Um)];
        Frame {
            camera: Name::new("main"),
            pixels: u16s(ndarray::array![[0, 1, 2], [255, 256, 4095]]),
            significant_bits: 12,
            settings: CameraSettings {
                exposure_ms: 20.5,
                gain: 1.0,
                roi: [0, 0, 3, 2],
                binning: 1,
                bits: 12,
                sensor: [3, 2],
            },
            sequence: 41,
            asked_at: Time(std::time::Duration::from_millis(1000)),
            received_at: Time(std::time::Duration::from_millis(1030)),
            before: readings.clone(),
            after: readings,
            moved_during: Moved::No,
            simulated: true,
        }
    }

    /// Even noise from a fixed seed.
    pub(crate) fn noise(height: usize, width: usize, range: std::ops::Range<u32>) -> Pixels {
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let span = range.end - range.start;
        u16s(Array2::from_shape_simple_fn((height, width), || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (range.start + (state >> 32) as u32 % span) as u16
        }))
    }

    /// The pixels of an eight-bit greyscale PNG.
    pub(crate) fn read_png(file: &[u8]) -> Array2<u8> {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.color_type, info.bit_depth), (png::ColorType::Grayscale, png::BitDepth::Eight));
        Array2::from_shape_vec((info.height as usize, info.width as usize), bytes).unwrap()
    }
}
