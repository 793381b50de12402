//! Zaber ASCII packets: what a device makes of the bytes on the line, and how it frames what it says.

/// The longest packet, both ways, from its first character to its last; `comm.packet.size.max`.
pub(super) const PACKET_MAX: usize = 80;
/// The longest word in a packet; `comm.word.size.max`.
pub(super) const WORD_MAX: usize = 50;
/// How many packets one command may be spread over; `comm.command.packets.max`.
pub(super) const PACKETS_MAX: u32 = 10;

/// Gathers bytes to packets. A packet begins with `/`, further slashes are text; DEL or a character that the protocol
/// does not know throws away what has come; backspace takes one back.
#[derive(Debug, Default)]
pub(super) struct Collector {
    text: Option<Vec<u8>>,
}

impl Collector {
    /// The text between `/` and the end of the line, when `byte` completes it.
    pub(super) fn push(&mut self, byte: u8) -> Option<Vec<u8>> {
        let Some(text) = &mut self.text else {
            if byte == b'/' {
                self.text = Some(Vec::new());
            }
            return None;
        };
        match byte {
            b'\r' | b'\n' => return self.text.take(),
            0x08 => {
                text.pop();
            }
            // The slash and the line's end count too.
            b' '..=b'~' if text.len() + 2 < PACKET_MAX => text.push(byte),
            _ => self.text = None,
        }
        None
    }

    pub(super) fn clear(&mut self) {
        self.text = None;
    }
}

/// The message id of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    Absent,
    /// `--`: the device does as told and says nothing.
    Silent,
    Number(u8),
    /// A number that cannot be one.
    Bad,
}

/// One packet from the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    pub address: u8,
    pub axis: u32,
    pub id: Id,
    pub words: Vec<String>,
    pub checksummed: bool,
    /// Another packet with the rest of the command follows.
    pub more: bool,
}

impl Packet {
    /// Reads a packet's text. `None` is one that no device listens to: a wrong checksum, no possible address.
    pub(super) fn parse(text: &[u8]) -> Option<Packet> {
        let text = std::str::from_utf8(text).ok()?;
        let (mut text, checksummed) = match text.rsplit_once(':') {
            None => (text, false),
            Some((hashed, sum)) => {
                let given = u8::from_str_radix(sum, 16).ok().filter(|_| sum.len() == 2)?;
                (checksum(hashed.as_bytes()) == given).then_some((hashed, true))?
            }
        };
        let more = text.ends_with('\\');
        if more {
            text = &text[..text.len() - 1];
        }
        let mut words = text.split(' ').filter(|w| !w.is_empty()).peekable();
        let mut number = || -> Option<u32> {
            let word = words.peek().filter(|w| w.bytes().all(|b| b.is_ascii_digit()))?;
            let value = word.parse().unwrap_or(u32::MAX);
            words.next();
            Some(value)
        };
        let address = number();
        let axis = address.and_then(|_| number());
        let id = match axis.map(|_| number()) {
            Some(Some(id)) => u8::try_from(id).ok().filter(|n| *n < 100).map_or(Id::Bad, Id::Number),
            Some(None) if words.next_if_eq(&"--").is_some() => Id::Silent,
            _ => Id::Absent,
        };
        Some(Packet {
            address: u8::try_from(address.unwrap_or(0)).ok().filter(|a| *a < 100)?,
            axis: axis.unwrap_or(0),
            id,
            words: words.map(str::to_owned).collect(),
            checksummed,
            more,
        })
    }
}

/// The two's complement of the sum: text and checksum add up to 0.
pub(super) fn checksum(text: &[u8]) -> u8 {
    text.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)).wrapping_neg()
}

/// Frames a message. `head` is what stands before the data of the first packet (`@01 1 04 OK IDLE --`), `next` what
/// stands before the data of those that follow (`#01 1 04 cont`).
pub(super) fn frame(head: &str, next: &str, data: &str, with_checksum: bool) -> Vec<u8> {
    let room = PACKET_MAX - 2 - if with_checksum { 3 } else { 0 };
    let mut out = Vec::new();
    let mut put = |text: &str| {
        out.extend_from_slice(text.as_bytes());
        if with_checksum {
            out.extend_from_slice(format!(":{:02X}", checksum(&text.as_bytes()[1..])).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    };
    let mut line = head.to_owned();
    let mut words = data.split(' ').filter(|w| !w.is_empty()).peekable();
    while let Some(word) = words.next() {
        let ending = usize::from(words.peek().is_some());
        if line.len() + 1 + word.len() + ending > room {
            put(&(line + "\\"));
            line = next.to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    put(&line);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Packet {
        Packet::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a packet"))
    }

    fn collect(bytes: &[u8]) -> Vec<String> {
        let mut collector = Collector::default();
        bytes.iter().filter_map(|b| collector.push(*b)).map(|t| String::from_utf8(t).expect("text")).collect()
    }

    #[test]
    fn address_axis_and_id_are_optional_from_the_right() {
        for (text, address, axis, id, words) in [
            ("", 0, 0, Id::Absent, ""),
            ("home", 0, 0, Id::Absent, "home"),
            ("1 home", 1, 0, Id::Absent, "home"),
            ("1 2 get pos", 1, 2, Id::Absent, "get pos"),
            ("01 2 03 move abs 5", 1, 2, Id::Number(3), "move abs 5"),
            ("1 0 --  home", 1, 0, Id::Silent, "home"),
            ("1 0 100 home", 1, 0, Id::Bad, "home"),
            ("1 2 3", 1, 2, Id::Number(3), ""),
        ] {
            let p = parsed(text);
            assert_eq!((p.address, p.axis, p.id, p.words.join(" ").as_str()), (address, axis, id, words), "{text}");
        }
        assert_eq!(Packet::parse(b"100 home"), None);
    }

    #[test]
    fn a_wrong_checksum_makes_it_no_packet() {
        assert!(parsed("1 1 04 move abs 1000:EC").checksummed);
        assert!(parsed("0 0 01:FF").checksummed);
        assert_eq!(Packet::parse(b"1 1 04 move abs 1000:ED"), None);
        assert_eq!(Packet::parse(b"1 1 04 move abs 1000:C"), None);
    }

    #[test]
    fn a_packet_begins_with_a_slash_and_del_ends_it() {
        assert_eq!(collect(b"junk/1 home\r\n"), ["1 home"]);
        assert_eq!(collect(b"/1 get /1 home\n"), ["1 get /1 home"]);
        assert_eq!(collect(b"/1 home\x7f/2 stop\r"), ["2 stop"]);
        assert_eq!(collect(b"/1 home\x7f home\n"), [""; 0]);
        assert_eq!(collect(b"/1 hoo\x08me\n"), ["1 home"]);
        assert_eq!(collect(b"/1 h\xf6me\n"), [""; 0]);
        assert_eq!(collect(format!("/{}\n/1\n", "a".repeat(79)).as_bytes()), ["1"]);
    }

    #[test]
    fn long_messages_are_continued() {
        let data = ["aaaaaaaaaa"; 8].join(" ");
        let framed = String::from_utf8(frame("@01 0 OK IDLE --", "#01 0 cont", &data, true)).expect("text");
        let lines: Vec<&str> = framed.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 2, "{framed}");
        assert!(lines.iter().all(|l| l.len() + 2 <= PACKET_MAX), "{framed}");
        assert!(lines[0].starts_with("@01 0 OK IDLE -- aaaaaaaaaa") && lines[0].contains("\\:"), "{framed}");
        assert!(lines[1].starts_with("#01 0 cont aaaaaaaaaa") && !lines[1].contains('\\'), "{framed}");
        assert_eq!(frame("@01 0 OK IDLE --", "", "0", true), b"@01 0 OK IDLE -- 0:8D\r\n");
    }
}
