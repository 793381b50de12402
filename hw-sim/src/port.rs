//! The line between a host and a device: paced, buffered, and as unreliable as a fault asks for.

use std::collections::VecDeque;
use std::time::Duration;

/// Nanoseconds since the bench started.
pub(crate) type Ns = u64;

const LOG_LIMIT: usize = 1 << 20;

/// A run of bytes on its way to the host; byte `i` arrives at `start + (i + 1) * ns_per_byte`.
#[derive(Debug)]
struct Run {
    start: Ns,
    bytes: Vec<u8>,
    taken: usize,
}

/// Both directions of one device's line.
#[derive(Debug)]
pub(crate) struct Port {
    ns_per_byte: Ns,
    os_buffer: usize,
    rng: fastrand::Rng,
    outgoing: VecDeque<u8>,
    wire_at: Ns,
    incoming: VecDeque<Run>,
    incoming_free: Ns,
    at_line_start: bool,
    received: Vec<(Duration, u8)>,
    written: Vec<(Duration, u8)>,
    pub(crate) plugged: bool,
    pub(crate) unplugs: u64,
    pub(crate) silent: bool,
    pub(crate) mute: bool,
    pub(crate) drop_next: usize,
    pub(crate) garble_next: usize,
    pub(crate) delay: Ns,
    pub(crate) late: Option<Ns>,
}

impl Port {
    /// `baud` of `None` means no pacing (TCP).
    pub(crate) fn new(baud: Option<u32>, os_buffer: usize, seed: u64) -> Port {
        Port {
            ns_per_byte: baud.map_or(0, |b| 10_000_000_000 / u64::from(b)),
            os_buffer,
            rng: fastrand::Rng::with_seed(seed),
            outgoing: VecDeque::new(),
            wire_at: 0,
            incoming: VecDeque::new(),
            incoming_free: 0,
            at_line_start: true,
            received: Vec::new(),
            written: Vec::new(),
            plugged: true,
            unplugs: 0,
            silent: false,
            mute: false,
            drop_next: 0,
            garble_next: 0,
            delay: 0,
            late: None,
        }
    }

    pub(crate) fn set_os_buffer(&mut self, bytes: usize) {
        self.os_buffer = bytes;
    }

    /// The host hands bytes to its OS; the number accepted comes back.
    pub(crate) fn write(&mut self, now: Ns, bytes: &[u8]) -> usize {
        if !self.plugged {
            return 0;
        }
        let n = bytes.len().min(self.os_buffer.saturating_sub(self.outgoing.len()));
        if n > 0 && self.outgoing.is_empty() {
            self.wire_at = self.wire_at.max(now) + self.ns_per_byte;
        }
        for byte in &bytes[..n] {
            self.outgoing.push_back(*byte);
            log(&mut self.written, now, *byte);
        }
        n
    }

    pub(crate) fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    /// When the next byte leaves the wire at the device's end.
    pub(crate) fn next_arrival(&self) -> Option<Ns> {
        (!self.outgoing.is_empty()).then_some(self.wire_at)
    }

    /// The byte that has arrived at the device by `now`, if the device hears it.
    pub(crate) fn arrive(&mut self, now: Ns) -> Option<u8> {
        if self.wire_at > now {
            return None;
        }
        let byte = self.outgoing.pop_front()?;
        let at = self.wire_at;
        if !self.outgoing.is_empty() {
            self.wire_at += self.ns_per_byte;
        }
        if self.drop_next > 0 {
            self.drop_next -= 1;
            return None;
        }
        if self.silent {
            return None;
        }
        log(&mut self.received, at, byte);
        Some(byte)
    }

    /// The device says something at `now`.
    pub(crate) fn say(&mut self, now: Ns, bytes: Vec<u8>) {
        if self.silent || self.mute || !self.plugged || bytes.is_empty() {
            return;
        }
        if self.late.is_none() {
            self.at_line_start = bytes.last() == Some(&b'\n');
            self.put(now + self.delay, bytes);
            return;
        }
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            let mut at = now + self.delay;
            if self.at_line_start && line.iter().any(|b| !b.is_ascii_whitespace()) {
                at += self.late.take().unwrap_or(0);
            }
            self.at_line_start = line.last() == Some(&b'\n');
            self.put(at, line.to_vec());
        }
    }

    /// Bytes appear at the host, whatever the device does.
    pub(crate) fn inject(&mut self, now: Ns, bytes: Vec<u8>) {
        if self.plugged && !bytes.is_empty() {
            self.put(now, bytes);
        }
    }

    fn put(&mut self, at: Ns, mut bytes: Vec<u8>) {
        for byte in bytes.iter_mut().take(self.garble_next) {
            *byte ^= self.rng.u8(1..);
        }
        self.garble_next = self.garble_next.saturating_sub(bytes.len());
        let start = at.max(self.incoming_free);
        self.incoming_free = start + self.ns_per_byte * bytes.len() as Ns;
        self.incoming.push_back(Run { start, bytes, taken: 0 });
    }

    /// When the next byte arrives at the host.
    pub(crate) fn next_heard(&self) -> Option<Ns> {
        let run = self.incoming.front()?;
        Some(run.start + self.ns_per_byte * (run.taken as Ns + 1))
    }

    /// What has arrived at the host by `now`.
    pub(crate) fn read(&mut self, now: Ns) -> Vec<u8> {
        let mut heard = Vec::new();
        while let Some(run) = self.incoming.front_mut() {
            let whole = run.bytes.len();
            let ready = match now.checked_sub(run.start) {
                None => break,
                Some(_) if self.ns_per_byte == 0 => whole,
                Some(passed) => whole.min((passed / self.ns_per_byte) as usize),
            };
            if run.taken == 0 && ready == whole && heard.is_empty() {
                heard = std::mem::take(&mut run.bytes);
            } else {
                heard.extend_from_slice(&run.bytes[run.taken.min(ready)..ready]);
            }
            if ready < whole {
                run.taken = ready;
                break;
            }
            self.incoming.pop_front();
        }
        heard
    }

    pub(crate) fn unplug(&mut self) {
        self.plugged = false;
        self.unplugs += 1;
        self.outgoing.clear();
        self.incoming.clear();
        self.at_line_start = true;
    }

    pub(crate) fn plug(&mut self) {
        self.plugged = true;
        self.incoming_free = 0;
    }

    pub(crate) fn received(&self) -> &[(Duration, u8)] {
        &self.received
    }

    pub(crate) fn written(&self) -> &[(Duration, u8)] {
        &self.written
    }
}

/// Appends to a log that keeps the last half million entries at least.
fn log(entries: &mut Vec<(Duration, u8)>, at: Ns, byte: u8) {
    if entries.len() >= LOG_LIMIT {
        entries.drain(..LOG_LIMIT / 2);
    }
    entries.push((Duration::from_nanos(at), byte));
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTE: Ns = 10_000_000_000 / 115_200;

    #[test]
    fn n_bytes_take_n_times_ten_bits() {
        let mut p = Port::new(Some(115_200), 4096, 1);
        assert_eq!(p.write(0, &[1; 10]), 10);
        let mut n = 0;
        while let Some(at) = p.next_arrival() {
            p.arrive(at);
            n += 1;
            assert_eq!(at, n * BYTE);
        }
        assert_eq!(n, 10);
    }

    #[test]
    fn the_os_buffer_is_finite() {
        let mut p = Port::new(Some(9600), 16, 1);
        assert_eq!(p.write(0, &[0; 20]), 16);
        assert_eq!(p.write(0, &[0; 20]), 0);
        p.arrive(2_000_000);
        assert_eq!(p.unsent(), 15);
        assert_eq!(p.write(2_000_000, &[0; 20]), 1);
    }

    #[test]
    fn replies_are_paced() {
        let mut p = Port::new(Some(115_200), 64, 1);
        p.say(0, vec![7; 4]);
        assert!(p.read(BYTE - 1).is_empty());
        assert_eq!(p.read(2 * BYTE).len(), 2);
        assert_eq!(p.read(4 * BYTE).len(), 2);
    }

    #[test]
    fn a_late_line_delays_only_itself_but_keeps_the_order() {
        let mut p = Port::new(None, 64, 1);
        p.late = Some(100);
        p.say(0, b"one\r\ntwo\r\n".to_vec());
        assert!(p.read(99).is_empty());
        assert_eq!(p.read(100), b"one\r\ntwo\r\n");
        p.say(200, b"three\r\n".to_vec());
        assert_eq!(p.read(200), b"three\r\n");
    }

    #[test]
    fn garbled_bytes_all_differ() {
        let mut p = Port::new(None, 64, 1);
        p.garble_next = 3;
        p.say(0, b"abcdef".to_vec());
        let heard = p.read(0);
        assert!(heard[..3].iter().zip(b"abc").all(|(a, b)| a != b));
        assert_eq!(&heard[3..], b"def");
    }
}
