//! What a TIFF says about itself: OME-XML, the schema of 2016-06 that microscopy tools read.

use std::fmt::Write as _;

use crate::model::{AxisId, AxisReading, Frame, Pixels};
use crate::units::{Unit, plain};

/// What a frame doesn't know about itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OmeFacts {
    /// The file's name or the image's id.
    pub name: String,
    /// Micrometres on the sample per pixel of this frame, binning included; `None` if not known.
    pub psize_um: Option<f64>,
    /// When the exposure was asked for, RFC 3339 with offset.
    pub acquired: Option<String>,
    /// The axis that is x in the picture.
    pub x: Option<AxisId>,
    /// The axis that is y in the picture.
    pub y: Option<AxisId>,
    /// The axis along the optical axis.
    pub focus: Option<AxisId>,
}

/// The description of a one-plane OME-TIFF: size, type, pixel size, exposure, positions, and all axes by
/// their own names as annotations. ASCII only; what isn't is written as character references.
pub fn ome_xml(frame: &Frame, facts: &OmeFacts) -> String {
    let [height, width] = frame.pixels.shape();
    let kind = match frame.pixels {
        Pixels::U8(_) => "uint8",
        Pixels::U16(_) => "uint16",
        Pixels::F32(_) => "float",
    };
    let mut xml = format!(
        r#"<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.openmicroscopy.org/Schemas/OME/2016-06 http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd" Creator="steadyhand {}">"#,
        env!("CARGO_PKG_VERSION")
    );
    let _ = write!(xml, r#"<Image ID="Image:0" Name="{}">"#, escaped(&facts.name));
    if let Some(at) = &facts.acquired {
        let _ = write!(xml, "<AcquisitionDate>{}</AcquisitionDate>", escaped(at));
    }
    let _ = write!(
        xml,
        r#"<Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="{kind}" SizeX="{width}" SizeY="{height}" SizeC="1" SizeZ="1" SizeT="1""#
    );
    if !matches!(frame.pixels, Pixels::F32(_)) {
        let _ = write!(xml, r#" SignificantBits="{}""#, frame.significant_bits);
    }
    if let Some(size) = facts.psize_um.filter(|s| s.is_finite() && *s > 0.0) {
        for axis in ["X", "Y"] {
            let _ = write!(xml, r#" PhysicalSize{axis}="{size}" PhysicalSize{axis}Unit="&#181;m""#);
        }
    }
    xml.push_str(r#"><Channel ID="Channel:0:0" SamplesPerPixel="1"/><TiffData IFD="0" PlaneCount="1"/>"#);
    xml.push_str(r#"<Plane TheZ="0" TheT="0" TheC="0""#);
    if frame.settings.exposure_ms.is_finite() {
        let _ = write!(xml, r#" ExposureTime="{}" ExposureTimeUnit="ms""#, frame.settings.exposure_ms);
    }
    for (letter, axis) in [("X", &facts.x), ("Y", &facts.y), ("Z", &facts.focus)] {
        let reading = axis.as_ref().and_then(|a| frame.after.iter().find(|r| r.id == *a));
        if let Some((value, unit)) = reading.and_then(length) {
            let _ = write!(xml, r#" Position{letter}="{value}" Position{letter}Unit="{unit}""#);
        }
    }
    xml.push_str(r#"/></Pixels><AnnotationRef ID="Annotation:0"/></Image>"#);
    xml.push_str(
        r#"<StructuredAnnotations><MapAnnotation ID="Annotation:0" Namespace="steadyhand/acquisition"><Value>"#,
    );
    for (key, value) in annotations(frame) {
        let _ = write!(xml, r#"<M K="{}">{}</M>"#, escaped(&key), escaped(&value));
    }
    xml.push_str("</Value></MapAnnotation></StructuredAnnotations></OME>");
    xml
}

/// A reading as OME writes positions, if it is a known length.
fn length(reading: &AxisReading) -> Option<(String, &'static str)> {
    let unit = match reading.unit {
        Unit::Nm => "nm",
        Unit::Um => "&#181;m",
        Unit::Mm => "mm",
        Unit::Deg | Unit::Mdeg | Unit::Mrad => return None,
    };
    Some((plain(reading.position?.to(reading.unit)), unit))
}

fn annotations(frame: &Frame) -> Vec<(String, String)> {
    let settings = &frame.settings;
    let mut all = vec![
        ("camera".to_owned(), frame.camera.to_string()),
        ("gain".to_owned(), plain(settings.gain)),
        ("binning".to_owned(), settings.binning.to_string()),
        ("roi".to_owned(), settings.roi.map(|v| v.to_string()).join(" ")),
        ("moved_during_exposure".to_owned(), frame.moved_during.to_string()),
        ("simulated".to_owned(), frame.simulated.to_string()),
    ];
    for (when, readings) in [("before", &frame.before), ("after", &frame.after)] {
        all.extend(readings.iter().map(|r| {
            let position = match r.position {
                Some(p) => format!("{} {} ({})", plain(p.to(r.unit)), r.unit, r.trust),
                None => "unknown".to_owned(),
            };
            (format!("{when} {}", r.id), position)
        }));
    }
    all
}

/// Text for XML in ASCII. What XML can't hold at all (control characters) becomes `?`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('?'),
            c if c.is_ascii() => out.push(c),
            c => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::testing::a_frame;

    fn facts() -> OmeFacts {
        OmeFacts {
            name: "143501-0007-flake".into(),
            psize_um: Some(0.325),
            acquired: Some("2026-11-30T14:35:01.250+01:00".into()),
            x: Some(AxisId::new("sample", "x")),
            y: Some(AxisId::new("sample", "y")),
            focus: Some(AxisId::new("sample", "z")),
        }
    }

    #[test]
    fn size_exposure_and_positions_are_where_microscopy_tools_look_for_them() {
        let xml = ome_xml(&a_frame(), &facts());
        for part in [
            r#"Type="uint16" SizeX="3" SizeY="2" SizeC="1" SizeZ="1" SizeT="1" SignificantBits="12""#,
            r#"PhysicalSizeX="0.325" PhysicalSizeXUnit="&#181;m" PhysicalSizeY="0.325" PhysicalSizeYUnit="&#181;m""#,
            r#"ExposureTime="20.5" ExposureTimeUnit="ms""#,
            r#"PositionX="12.5" PositionXUnit="mm" PositionZ="300" PositionZUnit="&#181;m""#,
            "<AcquisitionDate>2026-11-30T14:35:01.250+01:00</AcquisitionDate>",
            r#"<M K="after sample.x">12.5 mm (referenced)</M>"#,
            r#"<M K="after sample.y">unknown</M>"#,
        ] {
            assert!(xml.contains(part), "{part}\n{xml}");
        }
        assert!(xml.starts_with("<?xml") && xml.ends_with("</OME>") && xml.is_ascii());
    }

    #[test]
    fn what_is_not_known_is_left_out_rather_than_made_up() {
        let mut frame = a_frame();
        frame.settings.exposure_ms = f64::NAN;
        let xml = ome_xml(&frame, &OmeFacts { psize_um: Some(f64::NAN), ..OmeFacts::default() });
        for word in ["PhysicalSize", "Position", "ExposureTime", "AcquisitionDate", "NaN"] {
            assert!(!xml.contains(word), "{word}\n{xml}");
        }
    }

    #[test]
    fn no_text_can_break_the_xml() {
        let xml = ome_xml(&a_frame(), &OmeFacts { name: "a<b>&\"'\0\u{1b}µ".into(), ..OmeFacts::default() });
        assert!(xml.contains("Name=\"a&lt;b&gt;&amp;&quot;'??&#181;\""), "{xml}");
    }
}
