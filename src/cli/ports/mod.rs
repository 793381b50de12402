//! `steadyhand ports`: which serial ports there are, what they probably are, and who uses them.

mod known;

use std::io;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::host::{self, Users};
use super::{fail, say};
use crate::devices::link::{SerialPort, serial_ports};

/// List serial ports, what they probably are, and who uses them.
///
/// Opens none of them. What a port probably is comes from a table of known USB identities; only `init` or `doctor` ask
/// the device itself. Who uses a port is known on Linux for programs of the same user. Pseudo-terminals are not listed.
#[derive(Debug, Args)]
pub(super) struct PortsArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A port with all that is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) port: SerialPort,
    pub(super) users: Users,
}

impl Listed {
    /// What it probably is.
    pub(super) fn probably(&self) -> &'static str {
        match &self.port.usb {
            Some(usb) => known::probably(usb.vid, usb.pid).unwrap_or("a USB serial port that is not in the table"),
            None => "a built-in serial port",
        }
    }

    /// `1a86:7523`.
    fn id(&self) -> Option<String> {
        self.port.usb.as_ref().map(|u| format!("{:04x}:{:04x}", u.vid, u.pid))
    }
}

pub(super) fn run(args: &PortsArgs) -> ExitCode {
    let ports = match listed() {
        Ok(ports) => ports,
        Err(error) => return fail(&error),
    };
    let text = if args.json { format!("{:#}", as_json(&ports)) } else { as_text(&ports) };
    say(io::stdout(), &text);
    ExitCode::SUCCESS
}

/// The ports of this machine, those on USB first.
pub(super) fn listed() -> Result<Vec<Listed>, String> {
    let mut ports: Vec<Listed> =
        serial_ports()?.into_iter().map(|port| Listed { users: host::users_of(&port.path), port }).collect();
    ports.sort_by_key(|l| l.port.usb.is_none());
    Ok(ports)
}

fn as_json(ports: &[Listed]) -> Value {
    let one = |l: &Listed| {
        let usb = l.port.usb.as_ref();
        json!({
            "port": l.port.path,
            "usb": l.id(),
            "serial_number": usb.and_then(|u| u.number.clone()),
            "maker": usb.and_then(|u| u.maker.clone()),
            "product": usb.and_then(|u| u.product.clone()),
            "probably": l.probably(),
            "used_by": l.users.processes.iter().map(|p| json!({ "pid": p.pid, "name": p.name })).collect::<Vec<_>>(),
            "used_by_is_complete": l.users.complete,
        })
    };
    json!({ "ports": ports.iter().map(one).collect::<Vec<_>>() })
}

fn as_text(ports: &[Listed]) -> String {
    if ports.is_empty() {
        return "No serial port was found.\n\
                Plug the controller in and switch it on; try another cable, since many carry power alone; on Windows, \
                look in the Device Manager for a device without a driver. A pseudo-terminal or a network port is never \
                listed: name it directly, as in `steadyhand init --port /dev/pts/5`."
            .into();
    }
    let mut lines = Vec::new();
    for l in ports {
        let number = l.port.usb.as_ref().and_then(|u| u.number.as_deref()).map(|n| format!(" number {n}"));
        let id = l.id().map(|id| format!("  USB {id}{}", number.unwrap_or_default())).unwrap_or_default();
        lines.push(format!("{}{id}", l.port.path));
        lines.push(format!("    probably: {}", l.probably()));
        if let Some(usb) = &l.port.usb
            && (usb.maker.is_some() || usb.product.is_some())
        {
            let words = [usb.maker.as_deref(), usb.product.as_deref()];
            lines.push(format!("    says of itself: {}", words.into_iter().flatten().collect::<Vec<_>>().join(", ")));
        }
        lines.push(format!("    in use: {}", l.users));
    }
    lines.push("\n`steadyhand init` asks the device itself and writes a rig file.".into());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::host::Process;
    use super::*;
    use crate::devices::link::UsbPort;

    fn port(pid: u16, users: Users) -> Listed {
        let usb =
            UsbPort { vid: 0x1a86, pid, number: Some("A10".into()), maker: Some("QinHeng".into()), product: None };
        Listed { port: SerialPort { path: "/dev/ttyUSB0".into(), usb: Some(usb) }, users }
    }

    #[test]
    fn a_port_is_told_with_all_that_a_rig_file_can_name_it_by() {
        let users = Users { processes: vec![Process { pid: 12, name: "candle".into() }], complete: true };
        let text = as_text(&[port(0x7523, users.clone())]);
        for part in ["/dev/ttyUSB0", "USB 1a86:7523 number A10", "CH340", "QinHeng", "candle (process 12)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let value = as_json(&[port(0x7523, users)]);
        assert_eq!(value["ports"][0]["usb"], "1a86:7523");
        assert_eq!(value["ports"][0]["used_by"][0]["pid"], 12);
    }

    #[test]
    fn what_is_not_known_is_said_to_be_unknown() {
        let text = as_text(&[port(0x0001, Users::default())]);
        assert!(text.contains("not in the table") && text.contains("in use: unknown"), "{text}");
        assert!(as_text(&[]).contains("Plug the controller in"));
    }
}
