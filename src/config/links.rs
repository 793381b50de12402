//! `[[link]]`: connections, and the rule that no port is opened twice.

use std::net::Ipv6Addr;
use std::ops::Range;

use super::problem::{Sink, quoted};
use super::reader::{Field, Section};
use super::rig::{Link, Port};
use crate::model::Name;

/// The most links of a rig.
const MAX: usize = 64;
const BAUD: std::ops::RangeInclusive<u32> = 9600..=4_000_000;

/// A link as far as it could be read.
pub(super) struct LinkDraft {
    pub(super) id: Option<Name>,
    pub(super) id_at: Range<usize>,
    port: Option<(Port, Range<usize>)>,
    pub(super) link: Option<Link>,
}

/// Reads all links.
pub(super) fn read(sink: &mut Sink<'_>, root: &mut Section<'_>) -> Vec<LinkDraft> {
    let sections = root.tables(sink, "link", MAX);
    let mut drafts: Vec<LinkDraft> = Vec::new();
    for section in sections {
        let draft = one(sink, section);
        if let Some((port, at)) = &draft.port {
            for earlier in &drafts {
                if let Some((other, other_at)) = &earlier.port {
                    check_distinct(sink, (port, at), (other, other_at));
                }
            }
        }
        let taken = draft.id.as_ref().and_then(|id| drafts.iter().find(|d| d.id.as_ref() == Some(id)));
        if let (Some(id), Some(first)) = (&draft.id, taken) {
            let message = format!("there is a link {:?} on line {} already", id.as_str(), sink.line(&first.id_at));
            sink.say(draft.id_at.clone(), message, "give each link a name of its own");
        }
        drafts.push(draft);
    }
    drafts
}

fn one(sink: &mut Sink<'_>, mut s: Section<'_>) -> LinkDraft {
    let id_field = s.need(sink, "id", "name the link: id = \"stage-port\"");
    let id_at = id_field.as_ref().map_or_else(|| s.span(), Field::span);
    let id = id_field.and_then(|f| f.id(sink));

    let serial = s.get("serial");
    let tcp = s.get("tcp");
    let port_at = serial.as_ref().or(tcp.as_ref()).map(Field::span);
    let is_serial = serial.is_some();
    let port = match (serial, tcp) {
        (Some(f), None) => serial_port(sink, &f),
        (None, Some(f)) => tcp_port(sink, &f),
        (Some(_), Some(f)) => {
            f.bad(sink, "a link is either `serial` or `tcp`, not both", "remove one of the two, or make two links")
        }
        (None, None) => {
            let remedy = "write serial = \"/dev/ttyUSB0\" (or 'COM5'), or tcp = \"host:port\"";
            s.say(sink, "the link leads nowhere: neither `serial` nor `tcp` is given", remedy);
            None
        }
    };

    let mut serial_only = |sink: &mut Sink<'_>, key: &'static str| {
        let field = s.get(key)?;
        if is_serial || port_at.is_none() {
            return Some(field);
        }
        field.bad(sink, format!("`{key}` has no meaning for a link over TCP"), "remove it")
    };
    let dtr = serial_only(sink, "dtr");
    let rts = serial_only(sink, "rts");
    let baud = serial_only(sink, "baud");
    let dtr = dtr.map(|f| f.flag(sink));
    let rts = rts.map(|f| f.flag(sink));
    let baud = match baud {
        Some(f) => f.whole(sink, BAUD, "baud"),
        None if is_serial => {
            let remedy = "write the rate the device is set to, e.g. baud = 115200";
            s.say(sink, format!("`baud` is missing in {}", s.title), remedy);
            None
        }
        None => Some(0),
    };
    s.finish(sink, &["usb_path"]);

    let link = id.clone().zip(port.clone()).zip(baud).map(|((id, port), baud)| Link {
        id,
        port,
        baud,
        dtr: dtr.flatten(),
        rts: rts.flatten(),
    });
    LinkDraft { id, id_at, port: port.zip(port_at), link }
}

fn serial_port(sink: &mut Sink<'_>, field: &Field<'_>) -> Option<Port> {
    if !field.is_table() {
        if !field.is_string() {
            let remedy = "write the port's path in quotes, or { usb = \"1a86:7523\" }";
            return field.wrong_type(sink, "text or a table", remedy);
        }
        let path = field.line(sink)?;
        if path.contains("://") {
            let remedy = "write a serial port's path, or tcp = \"host:port\" instead of serial";
            return field.bad(sink, format!("{} is an address, not a serial port", quoted(path)), remedy);
        }
        return Some(Port::Path(path.trim().to_owned()));
    }
    let mut s = field.section(sink, "`serial`".into())?;
    let usb = s.need(sink, "usb", "write the adapter's identity: usb = \"1a86:7523\"");
    let number = s.get("number").map(|f| f.line(sink));
    s.finish(sink, &[]);
    let usb = usb?;
    let text = usb.string(sink)?;
    let hex = |t: &str| {
        let digits = t.len() == 4 && t.bytes().all(|b| b.is_ascii_hexdigit());
        if digits { u16::from_str_radix(t, 16).ok() } else { None }
    };
    let ids = text.split_once(':').and_then(|(v, p)| hex(v).zip(hex(p)));
    let Some((vid, pid)) = ids else {
        let message = format!("`usb` = {} is not a USB identity", quoted(text));
        return usb.bad(sink, message, "write vendor and product as four hexadecimal digits each: \"1a86:7523\"");
    };
    match number {
        Some(None) => None,
        Some(Some(number)) => Some(Port::Usb { vid, pid, number: Some(number.to_owned()) }),
        None => Some(Port::Usb { vid, pid, number: None }),
    }
}

fn tcp_port(sink: &mut Sink<'_>, field: &Field<'_>) -> Option<Port> {
    let text = field.line(sink)?.trim();
    let parts = text.rsplit_once(':').filter(|(host, port)| {
        let name = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        let v6 =
            host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).is_some_and(|h| h.parse::<Ipv6Addr>().is_ok());
        (name || v6) && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0)
    });
    match parts {
        Some(_) => Some(Port::Tcp(text.to_owned())),
        None => {
            let message = format!("`tcp` = {} is not an address", quoted(text));
            field.bad(sink, message, "write host and port: \"192.168.1.20:4001\", \"[::1]:4001\" or \"scope-pc:4001\"")
        }
    }
}

fn check_distinct(sink: &mut Sink<'_>, new: (&Port, &Range<usize>), old: (&Port, &Range<usize>)) {
    let line = sink.line(old.1);
    if let (Port::Usb { vid: v1, pid: p1, number: n1 }, Port::Usb { vid: v2, pid: p2, number: n2 }) = (new.0, old.0)
        && (v1, p1) == (v2, p2)
        && n1 != n2
        && (n1.is_none() || n2.is_none())
    {
        let message = format!("this link and the one on line {line} may mean the same USB adapter");
        sink.say(new.1.clone(), message, "give both their serial `number`");
        return;
    }
    if same_port(new.0, old.0) {
        let message = format!("this is the same port as on line {line}; a port can be opened only once");
        sink.say(new.1.clone(), message, "give the link another port, or remove it");
    }
}

/// Whether two links lead to the same port, however it is spelled.
pub(super) fn same_port(a: &Port, b: &Port) -> bool {
    match (a, b) {
        (Port::Path(a), Port::Path(b)) => {
            let (a, b) = (path_spelling(a), path_spelling(b));
            let real = |p: &str| std::fs::canonicalize(p).ok();
            a == b || real(&a).zip(real(&b)).is_some_and(|(a, b)| a == b)
        }
        (Port::Tcp(a), Port::Tcp(b)) => tcp_spelling(a) == tcp_spelling(b),
        (a, b) => a == b,
    }
}

/// One spelling for `COM5`, `com5` and `\\.\COM5`; for the two names that macOS gives a port; for `//`.
fn path_spelling(path: &str) -> String {
    let bare = path.strip_prefix(r"\\.\").or_else(|| path.strip_prefix("//./")).unwrap_or(path);
    let upper = bare.to_ascii_uppercase();
    let number = upper.strip_prefix("COM").map(|n| n.trim_end_matches(':'));
    if let Some(number) = number.and_then(|n| n.parse::<u32>().ok()) {
        return format!("COM{number}");
    }
    let clean: std::path::PathBuf = std::path::Path::new(bare).components().collect();
    let clean = clean.to_string_lossy();
    match clean.strip_prefix("/dev/tty.") {
        Some(name) => format!("/dev/cu.{name}"),
        None => clean.into_owned(),
    }
}

/// Host names in lower case, the loopback's three names as one, the port as a number.
fn tcp_spelling(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = match host.to_ascii_lowercase().as_str() {
        "localhost" | "[::1]" => "127.0.0.1".into(),
        other => other.trim_end_matches('.').to_owned(),
    };
    (host, port.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(p: &str) -> Port {
        Port::Path(p.into())
    }

    #[test]
    fn one_port_has_many_spellings() {
        for (a, b) in [
            ("COM5", "com5"),
            ("COM5", r"\\.\COM5"),
            (r"\\.\com12", "COM12:"),
            ("/dev/ttyUSB0", "/dev//ttyUSB0"),
            ("/dev/ttyUSB0", "/dev/./ttyUSB0"),
            ("/dev/tty.usbserial-1", "/dev/cu.usbserial-1"),
        ] {
            assert!(same_port(&path(a), &path(b)), "{a} {b}");
        }
        for (a, b) in [("COM5", "COM6"), ("/dev/ttyUSB0", "/dev/ttyUSB1"), ("/dev/ttyS0", "/dev/ttys0")] {
            assert!(!same_port(&path(a), &path(b)), "{a} {b}");
        }
        let tcp = |a: &str| Port::Tcp(a.into());
        assert!(same_port(&tcp("localhost:4001"), &tcp("127.0.0.1:04001")));
        assert!(same_port(&tcp("Scope-PC:4001"), &tcp("scope-pc:4001")));
        assert!(!same_port(&tcp("localhost:4001"), &tcp("localhost:4002")));
    }

    #[cfg(unix)]
    #[test]
    fn a_symlink_is_the_port_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("ttyUSB0");
        std::fs::write(&real, "").unwrap();
        let link = dir.path().join("by-id");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(same_port(&path(real.to_str().unwrap()), &path(link.to_str().unwrap())));
    }
}
