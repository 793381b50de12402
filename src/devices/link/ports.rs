//! The serial ports that the system knows, with what they say of themselves. Opens none.

use serialport::SerialPortType;

/// A serial port of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialPort {
    /// What a rig file names it by: `/dev/ttyUSB0`, `COM5`.
    pub path: String,
    /// What its USB adapter says; `None` for a port that isn't on USB.
    pub usb: Option<UsbPort>,
}

/// What a USB adapter says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsbPort {
    /// Vendor.
    pub vid: u16,
    /// Product.
    pub pid: u16,
    /// Serial number, where it has one.
    pub number: Option<String>,
    /// Who made it, in its own words.
    pub maker: Option<String>,
    /// What it is, in its own words.
    pub product: Option<String>,
}

/// The serial ports, sorted by path. Pseudo-terminals are not among them, nor, on macOS, the `tty.` twin of a `cu.` port.
///
/// # Errors
/// In words, when the system doesn't tell.
pub fn serial_ports() -> Result<Vec<SerialPort>, String> {
    let found = serialport::available_ports().map_err(|e| format!("the serial ports could not be listed: {e}"))?;
    let mut ports: Vec<SerialPort> = found
        .into_iter()
        .filter(|p| !p.port_name.starts_with("/dev/tty."))
        .map(|p| SerialPort {
            path: p.port_name,
            usb: match p.port_type {
                SerialPortType::UsbPort(u) => Some(UsbPort {
                    vid: u.vid,
                    pid: u.pid,
                    number: said(u.serial_number),
                    maker: said(u.manufacturer),
                    product: said(u.product),
                }),
                _ => None,
            },
        })
        .collect();
    ports.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(ports)
}

/// A text that says something; it goes to terminals, so that nothing in it may steer one.
fn said(text: Option<String>) -> Option<String> {
    let text: String = text?.trim().chars().map(|c| if c.is_control() { '?' } else { c }).take(80).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_adapter_says_cannot_steer_a_terminal() {
        assert_eq!(said(Some(" FTDI\u{1b}[2J ".into())).as_deref(), Some("FTDI?[2J"));
        assert_eq!(said(Some("  ".into())), None);
        assert_eq!(said(Some("x".repeat(200))).map(|t| t.len()), Some(80));
    }
}
