//! What grblHAL says of its settings (`$ES`) and holds them against: grblHAL/core `settings.c`, `setting_detail`,
//! `setting_validate_me`, and `report.c`, `SettingsFormat_MachineReadable`.

/// "Value out of range" and "no such setting" (`errors.h`).
const OUT_OF_RANGE: u8 = 52;
const DISABLED: u8 = 53;

/// What kind of value a setting has, as the list numbers it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Datatype {
    Flag,
    Bits(&'static str),
    Choice(&'static str),
    Axes,
    Whole { format: &'static str, high: Option<u32> },
    Decimal { format: &'static str, low: Option<f64> },
}

use Datatype::{Axes, Bits, Choice, Decimal, Flag, Whole};

/// Group, name, unit and kind.
type Detail = (u8, &'static str, &'static str, Datatype);

const MM: Datatype = Decimal { format: "#####0.000", low: None };

/// By the setting's number.
const DETAILS: [(u16, Detail); 22] = [
    (0, (2, "Step pulse time", "microseconds", Decimal { format: "#0.0", low: Some(2.0) })),
    (1, (2, "Step idle delay", "milliseconds", Whole { format: "####0", high: Some(65_535) })),
    (2, (2, "Step pulse invert", "", Axes)),
    (3, (2, "Step direction invert", "", Axes)),
    (4, (2, "Invert stepper enable output", "", Flag)),
    (5, (5, "Invert limit inputs", "", Flag)),
    (6, (7, "Invert probe inputs", "", Bits("Probe"))),
    (10, (1, "Status report options", "", Bits("Position in machine coordinate,Buffer state"))),
    (11, (1, "Junction deviation", "mm", MM)),
    (12, (1, "Arc tolerance", "mm", MM)),
    (13, (1, "Report in inches", "", Flag)),
    (20, (5, "Soft limits enable", "", Flag)),
    (21, (5, "Hard limits enable", "", Flag)),
    (22, (6, "Homing cycle enable", "", Flag)),
    (23, (6, "Homing direction invert", "", Axes)),
    (24, (6, "Homing locate feed rate", "mm/min", Decimal { format: "#####0.0", low: None })),
    (25, (6, "Homing search seek rate", "mm/min", Decimal { format: "#####0.0", low: None })),
    (26, (6, "Homing switch debounce delay", "milliseconds", Whole { format: "##0", high: None })),
    (27, (6, "Homing switch pull-off distance", "mm", MM)),
    (30, (9, "Maximum spindle speed", "RPM", MM)),
    (31, (9, "Minimum spindle speed", "RPM", MM)),
    (32, (1, "Mode of operation", "", Choice("Normal,Laser mode,Lathe mode"))),
];

/// By the number of the first axis.
const OF_AXES: [(u16, &str, &str, &str); 4] = [
    (100, "-axis travel resolution", "step/mm", "#####0.000##"),
    (110, "-axis maximum rate", "mm/min", "#####0.000"),
    (120, "-axis acceleration", "mm/sec^2", "#####0.000"),
    (130, "-axis maximum travel", "mm", "#####0.000"),
];

/// The answer to `$ES`, without its `ok`.
pub(super) fn listing(axes: usize) -> String {
    let mut text: String = DETAILS.iter().map(|(n, detail)| line(*n, detail.0, detail.1, detail.2, detail.3)).collect();
    for (first, name, unit, format) in OF_AXES {
        for (axis, letter) in (0..).zip("XYZABC".chars().take(axes)) {
            let kind = Decimal { format, low: None };
            text += &line(first + axis, 14 + axis as u8, &format!("{letter}{name}"), unit, kind);
        }
    }
    text
}

fn line(n: u16, group: u8, name: &str, unit: &str, kind: Datatype) -> String {
    let (number, format, low, high) = match kind {
        Flag => (0, "", String::new(), String::new()),
        Bits(all) => (1, all, String::new(), String::new()),
        Choice(all) => (3, all, String::new(), String::new()),
        Axes => (4, "", String::new(), String::new()),
        Whole { format, high } => (5, format, String::new(), high.map_or(String::new(), |h| h.to_string())),
        Decimal { format, low } => (6, format, low.map_or(String::new(), |l| format!("{l:.1}")), String::new()),
    };
    format!("[SETTING:{n}|{group}|{name}|{unit}|{number}|{format}|{low}|{high}|0|0]\r\n")
}

/// With how many decimals the firmware prints a setting (`get_decimal_places`); `None` for whole numbers.
pub(super) fn decimals(n: u16) -> Option<u32> {
    let general = DETAILS.iter().find(|(number, _)| *number == n).map(|(_, detail)| detail.3);
    let of_axis = || OF_AXES.iter().find(|(first, ..)| (*first..first + 6).contains(&n)).map(|(.., format)| *format);
    let format = match general {
        Some(Decimal { format, .. }) => Some(format),
        Some(_) => None,
        None => of_axis(),
    };
    format.map(|f| f.split_once('.').map_or(1, |(_, rest)| rest.len() as u32))
}

/// Whether the firmware takes that value.
///
/// # Errors
/// The `error:` number.
pub(super) fn check(n: u16, value: f64, axes: usize) -> Result<(), u8> {
    let in_range = match DETAILS.iter().find(|(number, _)| *number == n).map(|(_, detail)| detail.3) {
        None => {
            let of_axis = OF_AXES.iter().any(|(first, ..)| (*first..first + axes as u16).contains(&n));
            return if of_axis { Ok(()) } else { Err(DISABLED) };
        }
        Some(Flag) => value == 0.0 || value == 1.0,
        Some(Bits(all)) => value < f64::from(1_u32 << all.split(',').count()),
        Some(Choice(all)) => value < all.split(',').count() as f64,
        Some(Axes) => value < f64::from(1_u32 << axes),
        Some(Whole { high, .. }) => value.fract() == 0.0 && high.is_none_or(|h| value <= f64::from(h)),
        Some(Decimal { low, .. }) => low.is_none_or(|l| value >= l),
    };
    if in_range { Ok(()) } else { Err(OUT_OF_RANGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_listed_as_the_firmware_writes_it() {
        let text = listing(3);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 22 + 12);
        assert_eq!(lines[0], "[SETTING:0|2|Step pulse time|microseconds|6|#0.0|2.0||0|0]");
        assert_eq!(lines[1], "[SETTING:1|2|Step idle delay|milliseconds|5|####0||65535|0|0]");
        assert_eq!(lines[23], "[SETTING:101|15|Y-axis travel resolution|step/mm|6|#####0.000##|||0|0]");
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (n, good, bad) in
            [(0, 2.0, 1.9), (1, 65_535.0, 65_536.0), (3, 7.0, 8.0), (13, 1.0, 2.0), (32, 2.0, 3.0), (10, 3.0, 4.0)]
        {
            assert_eq!((check(n, good, 3), check(n, bad, 3)), (Ok(()), Err(OUT_OF_RANGE)), "${n}");
        }
        assert_eq!((decimals(0), decimals(1), decimals(102), decimals(131)), (Some(1), None, Some(5), Some(3)));
        assert_eq!((check(102, 0.0, 3), check(103, 1.0, 3), check(99, 1.0, 3)), (Ok(()), Err(DISABLED), Err(DISABLED)));
    }
}
