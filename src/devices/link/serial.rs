//! Serial ports: the only place that names `serialport`.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use serialport::{ClearBuffer, SerialPort, SerialPortBuilder, SerialPortType};

use super::{Connector, Link, Opened, Opener, Second, Unopened};
use crate::config::{self, Port};

/// How long a call of the library may take at most. We only read what is there and write when the line is
/// free, so it is hardly ever used up; zero would mean "for ever" on Windows.
const CALL: Duration = Duration::from_millis(1);

/// How far the baud rate that was really set may be from the one asked for.
const BAUD_TOLERANCE: f64 = 0.025;

pub(super) fn connector(link: config::Link) -> Box<dyn Connector> {
    let place = match &link.port {
        Port::Path(path) => path.clone(),
        Port::Usb { vid, pid, number } => {
            let number = number.as_ref().map_or(String::new(), |n| format!(" {n}"));
            format!("USB {vid:04x}:{pid:04x}{number}")
        }
        Port::Tcp(address) => address.clone(),
    };
    Opener::boxed(place, move || open(&link))
}

pub(super) fn open(link: &config::Link) -> Opened {
    let path = find(&link.port)?;
    let mut port = builder(&path, link).open().map_err(|e| trouble(&path, &e, is_listed(&path)))?;
    if let Some(level) = link.rts {
        port.write_request_to_send(level).map_err(|e| format!("{path}: RTS could not be set: {e}"))?;
    }
    check_baud(
        &path,
        link.baud,
        port.baud_rate().map_err(|e| format!("{path}: the baud rate could not be read back: {e}"))?,
    )?;
    // What arrived before we came belongs to somebody else.
    port.clear(ClearBuffer::Input).map_err(|e| format!("{path}: old input could not be cleared: {e}"))?;
    Ok(Box::new(Serial(port)))
}

fn builder(path: &str, link: &config::Link) -> SerialPortBuilder {
    let builder = serialport::new(path, link.baud).timeout(CALL);
    // Said explicitly either way: the library's default has changed between versions, and boards reset on DTR.
    match link.dtr {
        Some(level) => builder.dtr_on_open(level),
        None => builder.preserve_dtr_on_open(),
    }
}

fn check_baud(path: &str, asked: u32, set: u32) -> Result<(), String> {
    let off = (f64::from(set) / f64::from(asked) - 1.0).abs();
    if off <= BAUD_TOLERANCE {
        return Ok(());
    }
    Err(format!(
        "{path}: {asked} baud was asked for but the port runs at {set}. Choose a rate that the adapter supports."
    ))
}

/// Whether the system lists the port: then it is there, even if it can't be opened.
fn is_listed(path: &str) -> bool {
    cfg!(windows) && serialport::available_ports().is_ok_and(|ports| ports.iter().any(|p| p.port_name == path))
}

/// Who takes a port that has just been plugged in, and for how long.
const TAKERS: &str = if cfg!(target_os = "linux") {
    " ModemManager and brltty take a new port for some seconds too; if it happens each time, tell ModemManager to \
     ignore the device (udev: ID_MM_DEVICE_IGNORE=1)."
} else {
    ""
};

fn trouble(path: &str, e: &serialport::Error, listed: bool) -> Unopened {
    use serialport::ErrorKind as Kind;
    // The library calls a port that somebody else has "no device"; its words tell on Unix, and on Windows, where
    // they are in the user's language, that the port is there all the same.
    let words = e.description.to_ascii_lowercase();
    let taken = words.contains("exclusive lock") || words.contains("busy") || (listed && e.kind() == Kind::NoDevice);
    if taken {
        let what = format!(
            "{path} is in use by another program ({e}). Is a second steadyhand, or another host program, running on \
             this rig? Close it.{TAKERS}"
        );
        return Unopened { what, taken };
    }
    let what = match e.kind() {
        Kind::NoDevice | Kind::Io(ErrorKind::NotFound) => {
            format!("{path} isn't there: {e}. Is the device plugged in and switched on?")
        }
        Kind::Io(ErrorKind::PermissionDenied) => format!(
            "{path} may not be opened: {e}. On Linux, add your user to the group that owns the port (often \"dialout\") and log in again; on Windows, close the program that has it open."
        ),
        _ => format!("{path} could not be opened: {e}. Is another program using it?"),
    };
    what.into()
}

/// The path of a port. A USB identity must name exactly one.
pub(super) fn find(port: &Port) -> Result<String, String> {
    let (vid, pid, number) = match port {
        Port::Path(path) => return Ok(path.clone()),
        Port::Tcp(address) => return Err(format!("{address} isn't a serial port.")),
        Port::Usb { vid, pid, number } => (*vid, *pid, number.as_deref()),
    };
    let ports = serialport::available_ports().map_err(|e| format!("The serial ports could not be listed: {e}"))?;
    let matching: Vec<String> = ports
        .into_iter()
        .filter(|p| match &p.port_type {
            SerialPortType::UsbPort(u) => {
                u.vid == vid && u.pid == pid && number.is_none_or(|n| u.serial_number.as_deref() == Some(n))
            }
            _ => false,
        })
        .map(|p| p.port_name)
        .collect();
    match matching.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            Err(format!("No USB serial port {vid:04x}:{pid:04x} is there. Is the device plugged in and switched on?"))
        }
        many => Err(format!(
            "Several ports are {vid:04x}:{pid:04x}: {}. Give the serial number in the rig file, or the port's path.",
            many.join(", ")
        )),
    }
}

struct Serial(Box<dyn SerialPort>);

impl Link for Serial {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Only what is there: a read that waits would hold up a write on Windows.
        let there = usize::try_from(self.0.bytes_to_read()?).unwrap_or(usize::MAX);
        if there == 0 {
            return Ok(0);
        }
        let n = there.min(buf.len());
        match self.0.read(&mut buf[..n]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    fn unsent(&self) -> usize {
        self.0.bytes_to_write().map_or(0, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    fn set_dtr(&mut self, up: bool) -> io::Result<()> {
        self.0.write_data_terminal_ready(up).map_err(Into::into)
    }

    fn second(&self) -> Option<Box<dyn Second>> {
        Some(Box::new(Serial(self.0.try_clone().ok()?)))
    }
}

impl Second for Serial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Link::write(self, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r13_a_baud_rate_that_was_not_set_is_told_with_both_numbers() {
        let told = check_baud("COM5", 921_600, 115_200).unwrap_err();
        assert!(told.contains("921600") && told.contains("115200"), "{told}");
        assert!(check_baud("COM5", 250_000, 250_000).is_ok());
        assert!(check_baud("COM5", 115_200, 115_384).is_ok());
        assert!(check_baud("COM5", 115_200, 0).is_err());
    }

    #[test]
    fn r12_what_dtr_does_on_opening_is_always_said_and_never_left_to_the_library() {
        let link = |dtr| config::Link {
            id: crate::model::Name::new("a"),
            port: Port::Path("COM5".into()),
            baud: 115_200,
            dtr,
            rts: None,
        };
        let plain = || serialport::new("COM5", 115_200).timeout(CALL);
        assert_eq!(builder("COM5", &link(Some(true))), plain().dtr_on_open(true));
        assert_eq!(builder("COM5", &link(Some(false))), plain().dtr_on_open(false));
        assert_eq!(builder("COM5", &link(None)), plain().preserve_dtr_on_open());
        assert_ne!(plain().dtr_on_open(true), plain().dtr_on_open(false), "a builder shows what it was told");
    }

    #[test]
    fn a_port_that_is_not_there_is_told_with_what_to_do() {
        let told = open(&config::Link {
            id: crate::model::Name::new("a"),
            port: Port::Path("/dev/no-such-port".into()),
            baud: 115_200,
            dtr: None,
            rts: None,
        })
        .err()
        .unwrap();
        assert!(told.what.contains("/dev/no-such-port") && told.what.contains("plugged in"), "{told}");
        assert!(!told.taken);
    }

    #[test]
    fn r09_a_port_that_another_program_has_is_told_from_one_that_is_not_there() {
        use serialport::{Error, ErrorKind as Kind};
        let busy = Error::new(Kind::NoDevice, "Device or resource busy");
        let locked = Error::new(Kind::NoDevice, "Unable to acquire exclusive lock on serial port");
        let denied = Error::new(Kind::NoDevice, "Zugriff verweigert");
        for (error, listed, taken) in
            [(&busy, false, true), (&locked, false, true), (&denied, true, true), (&denied, false, false)]
        {
            let told = trouble("COM5", error, listed);
            assert_eq!(told.taken, taken, "{error}: {told}");
            assert_eq!(told.what.contains("in use by another program"), taken, "{told}");
            assert_eq!(told.what.contains("ModemManager"), taken && cfg!(target_os = "linux"), "{told}");
        }
    }
}
