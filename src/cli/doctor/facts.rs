//! What doctor gathers beside the state of the devices: ports, programs in the way, folders, rates that speak text.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::host::{self, Access, Process, Users};
use crate::config::{self, Link, Port, Rig};
use crate::devices::link::{SerialPort, connector, serial_ports};
use crate::model::{Code, Name, Snapshot, Time};

/// Programs that open serial ports which they find, to see whether a modem or a braille display is there.
const MEDDLERS: &[&str] = &["ModemManager", "brltty"];

/// Rates that serial devices are commonly set to.
const RATES: &[u32] = &[115_200, 9600, 250_000, 57_600, 38_400, 19_200, 230_400, 460_800, 921_600];

/// How long is listened at each.
const LISTEN: Duration = Duration::from_millis(700);

/// What is known of a serial link's port, before it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PortFacts {
    /// The link.
    pub(super) link: Name,
    /// Its path; `None` when a USB identity leads to no single port.
    pub(super) path: Option<String>,
    /// Whether this user may open it.
    pub(super) access: Access,
    /// Who has it open.
    pub(super) users: Users,
    /// A rate other than the rig file's at which text was heard.
    pub(super) readable_at: Option<u32>,
}

/// What the machine says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Host {
    /// The ports of the serial links.
    pub(super) ports: Vec<PortFacts>,
    /// The ports there are.
    pub(super) present: Vec<SerialPort>,
    /// Programs that disturb serial ports.
    pub(super) meddlers: Vec<Process>,
    /// The folder for data, or why it can't be used.
    pub(super) data: Option<Result<PathBuf, String>>,
    /// The folder for pictures.
    pub(super) images: Option<PathBuf>,
    /// Free bytes for each.
    pub(super) free: [Option<u64>; 2],
}

impl Host {
    /// Looks at the ports of a rig. Opens none.
    pub(super) fn of(rig: &Rig) -> Host {
        let present = serial_ports().unwrap_or_default();
        let serial = rig.links.iter().filter(|l| !matches!(l.port, Port::Tcp(_)));
        let ports = serial.map(|link| port_facts(link, &present)).collect();
        Host { ports, present, meddlers: host::running(MEDDLERS), ..Host::default() }
    }

    /// What is known of a link's port; nothing for one over TCP.
    pub(super) fn port(&self, link: &Name) -> Option<&PortFacts> {
        self.ports.iter().find(|p| p.link == *link)
    }

    /// Listens at other rates where only garbage was heard. Writes nothing: nobody knows what is there.
    pub(super) fn listen(&mut self, rig: &Rig, state: &Snapshot) {
        for port in &mut self.ports {
            let garbled = rig.stages.iter().filter(|s| s.link == port.link).any(|s| {
                let status = state.stage(s.id.as_str());
                status.is_some_and(|s| {
                    s.fault.as_ref().is_some_and(|f| f.code == Code::NotResponding) && s.link.bad_frames > 0
                })
            });
            if let Some(link) = rig.link(port.link.as_str()).filter(|_| garbled) {
                let others = RATES.iter().copied().filter(|r| *r != link.baud);
                port.readable_at = others.into_iter().find(|rate| is_text(&heard(link, *rate)));
            }
        }
    }
}

fn port_facts(link: &Link, present: &[SerialPort]) -> PortFacts {
    let path = match &link.port {
        Port::Path(path) => Some(path.clone()),
        Port::Usb { vid, pid, number } => {
            let fits = |p: &&SerialPort| {
                p.usb.as_ref().is_some_and(|u| {
                    // A number that the rig file leaves out fits every adapter.
                    (u.vid, u.pid) == (*vid, *pid) && number.as_ref().is_none_or(|n| u.number.as_ref() == Some(n))
                })
            };
            let mut all = present.iter().filter(fits);
            all.next().filter(|_| all.next().is_none()).map(|p| p.path.clone())
        }
        Port::Tcp(_) => None,
    };
    let access = path.as_deref().map_or(Access::Missing, host::access);
    let users = path.as_deref().map(host::users_of).unwrap_or_default();
    PortFacts { link: link.id.clone(), path, access, users, readable_at: None }
}

/// What a port says at that rate within a moment.
fn heard(link: &config::Link, baud: u32) -> Vec<u8> {
    let link = Link { baud, ..link.clone() };
    let mut opening = connector(&link);
    opening.begin(Time::ZERO);
    let started = Instant::now();
    let (mut open, mut bytes, mut buffer) = (None, Vec::new(), [0_u8; 512]);
    while started.elapsed() < LISTEN {
        if open.is_none() {
            match opening.outcome() {
                Some(Ok(link)) => open = Some(link),
                Some(Err(_)) => return bytes,
                None => {}
            }
        }
        match open.as_mut().map(|l| l.read(&mut buffer)) {
            Some(Ok(n)) => bytes.extend_from_slice(&buffer[..n]),
            Some(Err(_)) => return bytes,
            None => {}
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    bytes
}

/// Whether bytes are lines of text, as a wrong rate never makes them.
fn is_text(bytes: &[u8]) -> bool {
    let plain = bytes.iter().filter(|b| matches!(b, b'\r' | b'\n' | b'\t' | b' '..=b'~')).count();
    bytes.len() >= 6 && plain == bytes.len() && bytes.contains(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_text_and_what_a_wrong_rate_makes_of_it_is_not() {
        assert!(is_text(b"\r\nGrbl 1.1h ['$' for help]\r\n"));
        assert!(!is_text(b"\xff\x00\xf8G\x80rbl\n"));
        assert!(!is_text(b"ok"), "too little to tell");
    }
}
