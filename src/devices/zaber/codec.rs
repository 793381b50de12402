//! Zaber's ASCII messages, pure: bytes to frames to meaning, and back. A frame that breaks the grammar is dropped
//! whole and counted; nothing is guessed from a part.
//!
//! Source: Zaber ASCII Protocol Manual, firmware 7, "Message Format" and "Checksum"; zproto's tests and recordings
//! of zaber-motion for the awkward forms.

/// The longest frame that is taken; `comm.packet.size.max` is 80 unless somebody raised it, and 1024 at most.
const MAX_FRAME: usize = 1100;
/// The longest message that is joined of continued frames.
const MAX_DATA: usize = 4096;

/// Discards what a device has received of an unfinished message, on any firmware: 6 takes DEL for that, and one
/// that does not finds a character in it that no command has.
pub(super) const ABORT: &[u8] = b"\x7f\n";

/// Splits bytes into frames. A start character begins a frame, wherever it stands.
#[derive(Debug, Default)]
pub(super) struct Frames {
    partial: Vec<u8>,
    /// The frame in progress has a byte that no frame has, or no beginning, or is too long.
    damaged: bool,
}

/// What came out of the splitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    /// A frame of printable ASCII from its start character on, without its end.
    Frame(String),
    /// Anything else, escaped for the log.
    Damaged(String),
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8], mut out: impl FnMut(Raw)) {
        for &b in bytes {
            match b {
                b'\r' | b'\n' => self.end(&mut out),
                // What stands before a start character is no part of the frame; so a lost line end costs one frame,
                // not two. In words for people (`#`) only the beginning of a reply counts as such.
                b'@' | b'!' | b'#' if b == b'@' || self.partial.first() != Some(&b'#') => {
                    let junk = self.partial.iter().any(|b| !matches!(b, b' ' | b'\t' | 0));
                    if junk {
                        self.damaged = true;
                        self.end(&mut out);
                    }
                    self.clear();
                    self.partial.push(b);
                }
                b' '..=b'~' if self.partial.len() < MAX_FRAME && !self.partial.is_empty() => self.partial.push(b),
                // Silence on a line that floats.
                b' ' | b'\t' | 0 if self.partial.is_empty() => {}
                _ => {
                    self.damaged = true;
                    if self.partial.len() < MAX_FRAME {
                        self.partial.push(b);
                    }
                }
            }
        }
    }

    fn end(&mut self, out: &mut impl FnMut(Raw)) {
        let frame = std::mem::take(&mut self.partial);
        let damaged = std::mem::take(&mut self.damaged);
        if frame.is_empty() {
            return;
        }
        match String::from_utf8(frame) {
            Ok(text) if !damaged => out(Raw::Frame(text)),
            Ok(text) => out(Raw::Damaged(text.escape_default().to_string())),
            Err(e) => out(Raw::Damaged(e.as_bytes().escape_ascii().to_string())),
        }
    }

    /// Forgets an unfinished frame: what follows is another connection.
    pub(super) fn clear(&mut self) {
        *self = Frames::default();
    }
}

/// An axis of a device on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Target {
    /// The device's address, 1 to 99.
    pub(super) address: u8,
    /// Its axis, 1 to 9; 0 for the device.
    pub(super) axis: u8,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.address, self.axis)
    }
}

/// A warning flag: `WR`, `FS` …
pub(super) type Flag = [u8; 2];

/// The flag of an axis that has nothing to warn of.
pub(super) const NONE: Flag = *b"--";

/// A frame's meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// `@01 2 17 OK IDLE -- 1000`.
    Reply(Reply),
    /// `!01 2 IDLE --`: something happened there.
    Alert { from: Target, busy: bool, flag: Flag },
    /// `#01 2 …`: words, or the continuation of a reply.
    Info { from: Target, id: Option<u8>, continues: bool, data: String, more: bool },
}

/// A reply, or its first part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) from: Target,
    pub(super) id: Option<u8>,
    /// `OK`, not `RJ`.
    pub(super) ok: bool,
    /// `BUSY`, not `IDLE`.
    pub(super) busy: bool,
    /// The most important warning.
    pub(super) flag: Flag,
    pub(super) data: String,
    /// Another part follows.
    pub(super) more: bool,
    /// It had a checksum, which was right.
    pub(super) summed: bool,
}

/// Understands a frame.
pub(super) fn parse(frame: &str) -> Option<Frame> {
    let (body, summed) = match frame.get(1..)?.rsplit_once(':') {
        Some((body, sum)) => (body, Some(sum)),
        None => (&frame[1..], None),
    };
    if let Some(sum) = summed {
        let hex = |b: u8| b.is_ascii_digit() || (b'A'..=b'F').contains(&b) || (b'a'..=b'f').contains(&b);
        let right = sum.len() == 2 && sum.bytes().all(hex) && u8::from_str_radix(sum, 16) == Ok(lrc(body.as_bytes()));
        if !right {
            return None;
        }
    }
    let kind = frame.as_bytes()[0];
    // A second colon is no part of anything that is understood here.
    if kind != b'#' && body.contains(':') {
        return None;
    }
    let (body, more) = match body.strip_suffix('\\') {
        Some(body) => (body, true),
        None => (body, false),
    };
    let mut words = Words(body);
    let from = Target { address: number(words.next()?, 2)?, axis: number(words.next()?, 1)? };
    if from.address == 0 {
        return None;
    }
    let id = match words.peek()? {
        id if id.len() == 2 && id.bytes().all(|b| b.is_ascii_digit()) => {
            words.next();
            Some(number(id, 2)?)
        }
        _ => None,
    };
    match kind {
        b'@' => {
            let ok = one_of(words.next()?, "OK", "RJ")?;
            let busy = one_of(words.next()?, "BUSY", "IDLE")?;
            let flag = flag(words.next()?)?;
            let data = words.0.to_owned();
            if data.is_empty() && !more {
                return None;
            }
            Some(Frame::Reply(Reply { from, id, ok, busy, flag, data, more, summed: summed.is_some() }))
        }
        b'!' if !more => {
            let busy = one_of(words.next()?, "BUSY", "IDLE")?;
            let flag = flag(words.next()?)?;
            Some(Frame::Alert { from, busy, flag })
        }
        b'#' => {
            let continues = words.peek() == Some("cont");
            if continues {
                words.next();
            }
            Some(Frame::Info { from, id, continues, data: words.0.to_owned(), more })
        }
        _ => None,
    }
}

/// Words with exactly one space between them.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        let word = self.0.split(' ').next()?;
        (!word.is_empty()).then_some(word)
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.0 = self.0[word.len()..].strip_prefix(' ').unwrap_or("");
        Some(word)
    }
}

fn number(text: &str, digits: usize) -> Option<u8> {
    (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn one_of(word: &str, yes: &str, no: &str) -> Option<bool> {
    (word == yes || word == no).then_some(word == yes)
}

/// A warning flag as replies and lists of warnings write it.
pub(super) fn flag(word: &str) -> Option<Flag> {
    let flag: Flag = word.as_bytes().try_into().ok()?;
    (flag == NONE || flag.iter().all(u8::is_ascii_uppercase)).then_some(flag)
}

/// The answer to `warnings`: how many, and which. `00` and nothing for none.
pub(super) fn flags(data: &str) -> Option<Vec<Flag>> {
    let mut words = data.split(' ');
    let count: usize = words.next().filter(|w| w.len() == 2)?.parse().ok()?;
    let flags: Vec<Flag> = words.map(flag).collect::<Option<_>>()?;
    (flags.len() == count).then_some(flags)
}

/// A number as devices write it: digits, perhaps a sign, perhaps a fraction.
pub(super) fn value(data: &str) -> Option<f64> {
    let digits = |s: &str| !s.is_empty() && s.len() <= 15 && s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = match data.strip_prefix('-').unwrap_or(data).split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (data.strip_prefix('-').unwrap_or(data), None),
    };
    (digits(whole) && fraction.is_none_or(digits)).then(|| data.parse().ok())?
}

/// Two's complement of the sum of all bytes after the start character.
fn lrc(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)).wrapping_neg()
}

/// A command with its number and checksum.
pub(super) fn command(to: Target, id: u8, text: &str) -> Vec<u8> {
    let body = format!("{} {} {id:02} {text}", to.address, to.axis);
    format!("/{body}:{:02X}\n", lrc(body.as_bytes())).into_bytes()
}

/// Joins the parts of one reply.
#[derive(Debug, Default)]
pub(super) struct Joiner(Option<Reply>);

impl Joiner {
    /// Takes the first part of a reply; gives it back when it is the whole.
    pub(super) fn begin(&mut self, reply: Reply) -> Option<Reply> {
        if !reply.more {
            self.0 = None;
            return Some(reply);
        }
        self.0 = Some(reply);
        None
    }

    /// Takes a continuation, if it belongs to what was begun; gives back the reply when it is whole.
    pub(super) fn go_on(&mut self, from: Target, id: Option<u8>, data: &str, more: bool) -> Option<Reply> {
        let begun = self.0.as_mut().filter(|r| r.from == from && r.id == id)?;
        if !begun.data.is_empty() {
            begun.data.push(' ');
        }
        begun.data.push_str(data);
        if begun.data.len() > MAX_DATA {
            self.0 = None;
            return None;
        }
        if more {
            return None;
        }
        let mut whole = self.0.take()?;
        whole.more = false;
        Some(whole)
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests;
