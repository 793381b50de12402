//! What warning flags and refusals mean, in the words of the manual, and what follows from them.
//!
//! Source: Zaber ASCII Protocol Manual, firmware 7, "Warning Flags" and "Reply Data".

use super::codec::Flag;

/// What follows from a warning flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    /// It stalled and stopped: the position is lost.
    Stalled,
    /// It stopped or can't move; with whether the position is lost by it.
    Fault { lost: bool },
    /// It has no reference.
    Unreferenced,
    /// A motion ended before its target because of another.
    Interrupted,
    /// Somebody turns its knob.
    Manual,
    /// Worth a line; whether the motion was a success, the position tells.
    Note,
}

/// No reference position, as after switching on.
pub(super) const WR: Flag = *b"WR";
/// Has a reference position, but was not homed.
pub(super) const WH: Flag = *b"WH";
/// A motion was interrupted.
pub(super) const NI: Flag = *b"NI";

/// The flags that are known; those that the manual lists first are more important.
const FLAGS: &[(&Flag, &str, Follows)] = &[
    (b"FF", "critical system error", Follows::Fault { lost: true }),
    (b"FN", "peripheral not supported", Follows::Fault { lost: true }),
    (b"FZ", "peripheral inactive", Follows::Fault { lost: true }),
    (b"FH", "hardware emergency stop, driver disabled", Follows::Fault { lost: true }),
    (b"FV", "overvoltage or undervoltage, driver disabled", Follows::Fault { lost: true }),
    (b"FO", "driver disabled at startup or by command", Follows::Fault { lost: true }),
    (b"FC", "current inrush error, driver disabled", Follows::Fault { lost: true }),
    (b"FM", "motor temperature error, driver disabled", Follows::Fault { lost: true }),
    (b"FD", "driver disabled", Follows::Fault { lost: true }),
    (b"FQ", "encoder error", Follows::Fault { lost: true }),
    (b"FI", "index error", Follows::Fault { lost: true }),
    (b"FA", "analog encoder sync error", Follows::Fault { lost: true }),
    (b"FR", "overdrive limit exceeded, driver disabled", Follows::Fault { lost: true }),
    (b"FS", "stalled and stopped", Follows::Stalled),
    (b"FB", "stream bounds error", Follows::Fault { lost: false }),
    (b"FP", "interpolated path deviation", Follows::Fault { lost: true }),
    (b"FE", "limit error", Follows::Fault { lost: false }),
    (b"FT", "excessive twist", Follows::Fault { lost: true }),
    (b"WL", "unexpected limit trigger", Follows::Note),
    (b"WV", "voltage out of range", Follows::Note),
    (b"WT", "controller temperature high", Follows::Note),
    (b"WS", "stalled with recovery", Follows::Note),
    (b"WM", "displaced when stationary", Follows::Note),
    (b"WP", "invalid calibration type", Follows::Note),
    (&WR, "no reference position", Follows::Unreferenced),
    (&WH, "device not homed", Follows::Unreferenced),
    (b"NC", "manual control: somebody turns the knob", Follows::Manual),
    (&NI, "movement interrupted", Follows::Interrupted),
    (b"ND", "stream discontinuity", Follows::Note),
    (b"NR", "value rounded", Follows::Note),
    (b"NT", "value truncated", Follows::Note),
    (b"NU", "setting update pending", Follows::Note),
    (b"NJ", "joystick calibrating", Follows::Note),
    (b"NB", "firmware update mode", Follows::Fault { lost: true }),
];

/// What follows from a flag. One that is not known counts by its first letter, as the manual does: F is a fault.
pub(super) fn follows(flag: Flag) -> Follows {
    match FLAGS.iter().find(|(f, ..)| **f == flag) {
        Some((.., follows)) => *follows,
        None if flag[0] == b'F' => Follows::Fault { lost: true },
        None => Follows::Note,
    }
}

/// A flag with its meaning: `FS, stalled and stopped`.
pub(super) fn flag_words(flag: Flag) -> String {
    let code = String::from_utf8_lossy(&flag);
    let words = FLAGS.iter().find(|(f, ..)| **f == flag).map_or("not in the list known to this driver", |(_, w, _)| w);
    format!("{code}, {words}")
}

/// Several flags with their meanings.
pub(super) fn all_words(flags: &[Flag]) -> String {
    flags.iter().map(|f| flag_words(*f)).collect::<Vec<_>>().join("; ")
}

/// Why a command was refused, with the meaning: `BADDATA, …`.
pub(super) fn refusal(data: &str) -> String {
    let meaning = match data {
        "AGAIN" => "the device could not take it just then",
        "BADAXIS" => "the device has no such axis",
        "BADCOMMAND" => "the device knows no such command or setting",
        "BADDATA" => "a value is out of range, as a target beyond the device's own limit.min and limit.max",
        "BADMESSAGEID" => "a message number that is none",
        "CYCLICONLY" => "only for axes that turn without end",
        "DEVICEONLY" => "only for the device as a whole",
        "DRIVERDISABLED" => "the motor driver is disabled, by a fault, an emergency stop or a command",
        "FULL" => "the device has no room for more of them",
        "INACTIVE" => "the axis is inactive: no peripheral is plugged in, or another than before",
        "LOCKSTEP" => "the axis moves in lockstep with another, and only as that",
        "NOACCESS" => "not at this access level",
        "PARKED" => "the axis is parked",
        "REMOTE" => "the device is controlled by another interface",
        "STATUSBUSY" => "not while it moves",
        "TWISTED" => "the lockstep is twisted",
        _ => "a reason that is not in the list known to this driver",
    };
    format!("{}, {meaning}", data.escape_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_not_known_counts_by_its_letter_and_is_told_by_its_code() {
        assert_eq!(follows(*b"FX"), Follows::Fault { lost: true });
        assert_eq!(follows(*b"WX"), Follows::Note);
        assert_eq!(flag_words(*b"FX"), "FX, not in the list known to this driver");
        assert_eq!(all_words(&[*b"FS", WR]), "FS, stalled and stopped; WR, no reference position");
    }
}
