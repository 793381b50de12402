//! USB identities of adapters and controllers that are met in labs.

/// One row: a vendor, a product (`None`: any), and what that is.
struct Known {
    vid: u16,
    pid: Option<u16>,
    what: &'static str,
}

const fn known(vid: u16, pid: u16, what: &'static str) -> Known {
    Known { vid, pid: Some(pid), what }
}

const fn maker(vid: u16, what: &'static str) -> Known {
    Known { vid, pid: None, what }
}

/// The first row that fits counts: exact products before their makers.
const TABLE: &[Known] = &[
    known(
        0x1a86,
        0x7523,
        "CH340 serial adapter: many GRBL boards, CNC engravers, Arduino clones (it has no serial number)",
    ),
    known(0x1a86, 0x5523, "CH341 serial adapter: Arduino clones, printers"),
    known(0x1a86, 0x55d3, "CH343 serial adapter: ESP32 and GRBL boards"),
    known(0x1a86, 0x55d4, "CH9102 serial adapter: ESP32 boards (FluidNC, Grbl_ESP32)"),
    known(0x2341, 0x0043, "Arduino Uno: often GRBL"),
    known(0x2341, 0x0001, "Arduino Uno: often GRBL"),
    known(0x2341, 0x0042, "Arduino Mega 2560: often Marlin or GRBL-Mega"),
    known(0x2341, 0x0010, "Arduino Mega 2560: often Marlin or GRBL-Mega"),
    known(0x2a03, 0x0043, "Arduino Uno: often GRBL"),
    maker(0x2341, "an Arduino board"),
    maker(0x2a03, "an Arduino board"),
    known(0x0403, 0xfaf0, "Thorlabs motion controller (APT)"),
    known(0x0403, 0x6001, "FTDI FT232R serial adapter: many stages and instruments, Zaber and Prior among them"),
    known(0x0403, 0x6010, "FTDI FT2232 double serial adapter"),
    known(0x0403, 0x6011, "FTDI FT4232 fourfold serial adapter"),
    known(0x0403, 0x6014, "FTDI FT232H serial adapter"),
    known(0x0403, 0x6015, "FTDI FT231X serial adapter: many stages and instruments"),
    maker(0x0403, "an FTDI serial adapter"),
    known(0x10c4, 0xea60, "CP210x serial adapter: ASI stages, ESP32 boards, many instruments"),
    known(0x10c4, 0xea70, "CP2105 double serial adapter"),
    known(0x067b, 0x2303, "Prolific PL2303 serial adapter"),
    maker(0x067b, "a Prolific serial adapter"),
    known(0x0483, 0x5740, "STM32 virtual serial port: grblHAL boards and instruments"),
    known(0x303a, 0x1001, "ESP32-S3 or -C3 board, its own USB port"),
    known(0x2e8a, 0x0005, "Raspberry Pi Pico with MicroPython"),
    known(0x2e8a, 0x000a, "Raspberry Pi Pico: grblHAL among others"),
    maker(0x2e8a, "a Raspberry Pi Pico board"),
    known(0x16c0, 0x0483, "Teensy board: grblHAL among others"),
    known(0x1d50, 0x6029, "3D printer board with Marlin"),
    known(0x1d50, 0x614e, "printer board with Klipper: not driven here"),
    maker(0x2939, "Zaber motion controller"),
    maker(0x1a72, "Physik Instrumente (PI) controller"),
    maker(0x104d, "Newport controller"),
    maker(0x1313, "Thorlabs instrument"),
];

/// What an adapter of that identity probably is.
pub(super) fn probably(vid: u16, pid: u16) -> Option<&'static str> {
    TABLE.iter().find(|k| k.vid == vid && k.pid.is_none_or(|p| p == pid)).map(|k| k.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_told_before_its_maker_and_no_row_is_out_of_reach() {
        assert_eq!(probably(0x0403, 0xfaf0), Some("Thorlabs motion controller (APT)"));
        assert_eq!(probably(0x0403, 0x1234), Some("an FTDI serial adapter"));
        assert_eq!(probably(0xffff, 0xffff), None);
        for (i, row) in TABLE.iter().enumerate() {
            let hidden = TABLE[..i].iter().any(|k| k.vid == row.vid && (k.pid.is_none() || k.pid == row.pid));
            assert!(!hidden, "{:04x}:{:?}", row.vid, row.pid);
        }
    }
}
