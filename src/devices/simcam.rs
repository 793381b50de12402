//! The simulated specimen camera of `hw-sim`, over TCP: lines of text, and frames as a header line with raw
//! bytes behind it. Protocol "simcam 1": `hw-sim/docs/simcam.md`.

use std::collections::VecDeque;
use std::time::Duration;

use ndarray::Array2;

use super::link::dialogue::Dialogue;
use super::link::{Connector, IDLE, Wire, WireEvent};
use super::{Camera, CameraEvent, Driver, Open, RawFrame};
use crate::config;
use crate::model::{CameraChange, CameraSettings, Code, Evidence, Identity, LinkStatus, Pixels, Time};

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "simcam",
    what: "the simulated specimen camera of hw-sim, over TCP",
    evidence: Evidence::Manual,
    simulated: true,
    family: None,
    keeping: None,
    open: Open::Camera { make: |camera, connector| Box::new(SimCam::new(camera, connector)) },
};

/// How long an answer to an order may take.
const ANSWER: Duration = Duration::from_secs(2);
/// How long after the end of the exposure a frame may take to be complete.
const READOUT: Duration = Duration::from_secs(5);
/// The longest header line.
const MAX_LINE: usize = 512;
/// The largest frame that is taken.
const MAX_FRAME: usize = 128 << 20;

#[derive(Debug, Clone, PartialEq)]
enum Ask {
    Id,
    Get,
    Set,
    Snap(u32),
    Abort,
}

#[derive(Debug)]
struct Incoming {
    number: u32,
    length: usize,
    width: usize,
    height: usize,
    bits: u32,
    exposure_ms: f64,
    gain: f64,
    sequence: u64,
    crc: u32,
}

pub(super) struct SimCam {
    start: CameraChange,
    wire: Wire,
    rx: Vec<u8>,
    incoming: Option<Incoming>,
    waiting: VecDeque<(Ask, String)>,
    dialogue: Dialogue<Ask>,
    online: bool,
    identity: Identity,
    sensor: [u32; 2],
    settings: Option<CameraSettings>,
    snap: u32,
    /// The exposure that is awaited, and until when.
    exposing: Option<(u32, Time)>,
    /// When bytes came last.
    heard_at: Time,
}

impl SimCam {
    fn new(camera: &config::Camera, connector: Box<dyn Connector>) -> SimCam {
        SimCam {
            start: camera.start.clone(),
            wire: Wire::new(connector),
            rx: Vec::new(),
            incoming: None,
            waiting: VecDeque::new(),
            dialogue: Dialogue::new(),
            online: false,
            identity: Identity::default(),
            sensor: [0, 0],
            settings: None,
            snap: 0,
            exposing: None,
            heard_at: Time::ZERO,
        }
    }

    fn order(&mut self, ask: Ask, line: String) {
        self.waiting.push_back((ask, line));
    }

    fn send_next(&mut self, now: Time) {
        if self.dialogue.is_free()
            && self.wire.is_free()
            && let Some((ask, line)) = self.waiting.pop_front()
        {
            self.wire.send(format!("{line}\n").as_bytes(), now);
            self.dialogue.ask(ask, now, ANSWER, ANSWER);
        }
    }

    fn forget(&mut self) {
        self.rx.clear();
        self.incoming = None;
        self.waiting.clear();
        self.dialogue = Dialogue::new();
        self.online = false;
        self.exposing = None;
    }

    fn lost(&mut self, code: Code, what: String, out: &mut Vec<CameraEvent>) {
        self.forget();
        out.push(CameraEvent::Offline { code, what });
    }

    /// Takes whole lines and whole frames off the front of what has arrived.
    fn digest(&mut self, now: Time, out: &mut Vec<CameraEvent>) {
        loop {
            if let Some(head) = &self.incoming {
                if self.rx.len() < head.length {
                    return;
                }
                let bytes: Vec<u8> = self.rx.drain(..head.length).collect();
                if let Some(head) = self.incoming.take() {
                    self.frame(&head, &bytes, out);
                }
                continue;
            }
            let Some(end) = self.rx.iter().position(|b| *b == b'\n') else {
                if self.rx.len() > MAX_LINE {
                    self.wire.status.bad_frames += 1;
                    self.wire.reset(now, "it sent a line without end");
                }
                return;
            };
            let line: Vec<u8> = self.rx.drain(..=end).collect();
            match std::str::from_utf8(&line).map(str::trim) {
                Ok(text) if text.bytes().all(|b| (b' '..=b'~').contains(&b)) => {
                    let text = text.to_owned();
                    self.wire.status.frames += 1;
                    self.hear(&text, now, out);
                }
                _ => self.wire.status.bad_frames += 1,
            }
        }
    }

    fn hear(&mut self, line: &str, now: Time, out: &mut Vec<CameraEvent>) {
        if let Some(rest) = line.strip_prefix("FRAME ") {
            match header(rest) {
                Some(head) => self.incoming = Some(head),
                None => {
                    // Where the pixels end can't be known any more.
                    self.wire.status.bad_frames += 1;
                    self.wire.reset(now, "a frame's header was damaged");
                }
            }
            return;
        }
        let error = line.strip_prefix("ERR ");
        let Some(rest) = line.strip_prefix("OK").filter(|r| r.is_empty() || r.starts_with(' ')).or(error) else {
            self.wire.status.bad_frames += 1;
            return;
        };
        let Some(asked) = self.dialogue.finish() else { return };
        match (asked.what, error) {
            (ask, Some(e)) => {
                self.exposing = None;
                let code = if e.starts_with("range") { Code::InvalidArgument } else { Code::CameraFailed };
                if self.online || ask == Ask::Set {
                    out.push(CameraEvent::Failed { code, what: refusal(e) });
                }
                if !self.online {
                    self.order(Ask::Get, "GET".into());
                }
            }
            (Ask::Id, None) => self.identified(rest),
            (Ask::Get | Ask::Set, None) => match self.read_settings(rest) {
                Some(settings) => {
                    self.settings = Some(settings.clone());
                    if self.online {
                        out.push(CameraEvent::Settings(settings));
                    } else {
                        self.online = true;
                        out.push(CameraEvent::Online(self.identity.clone(), settings));
                    }
                }
                None => {
                    let what = format!("Its settings could not be understood: {rest}");
                    out.push(CameraEvent::Failed { code: Code::CameraFailed, what });
                }
            },
            (Ask::Snap(n), None) => {
                if rest.trim() == format!("SNAP {n}") {
                    self.exposing = Some((n, now + self.patience()));
                } else {
                    out.push(CameraEvent::Failed {
                        code: Code::CameraFailed,
                        what: format!("It answered {rest} to exposure {n}."),
                    });
                }
            }
            (Ask::Abort, None) => self.exposing = None,
        }
    }

    fn identified(&mut self, rest: &str) {
        let field = |key: &str| value(rest, key);
        self.sensor = [
            field("width").and_then(|v| v.parse().ok()).unwrap_or(0),
            field("height").and_then(|v| v.parse().ok()).unwrap_or(0),
        ];
        self.identity = Identity {
            model: field("model").unwrap_or("unknown").into(),
            firmware: rest.split_whitespace().take(2).collect::<Vec<_>>().join(" "),
            serial: field("serial").unwrap_or("").into(),
            notes: Vec::new(),
        };
        let start = self.start.clone();
        if start.is_empty() {
            self.order(Ask::Get, "GET".into());
        } else {
            self.order(Ask::Set, set_line(&start));
        }
    }

    fn read_settings(&self, rest: &str) -> Option<CameraSettings> {
        let number = |key: &str| value(rest, key)?.parse::<f64>().ok().filter(|v| v.is_finite());
        let whole = |key: &str| value(rest, key)?.parse::<u32>().ok();
        let roi: Vec<u32> = value(rest, "roi")?.split(',').map(|v| v.parse().ok()).collect::<Option<_>>()?;
        Some(CameraSettings {
            exposure_ms: number("exposure_ms")?,
            gain: number("gain")?,
            roi: roi.try_into().ok()?,
            binning: whole("binning")?,
            bits: whole("bits")?,
            sensor: self.sensor,
        })
    }

    fn frame(&mut self, head: &Incoming, bytes: &[u8], out: &mut Vec<CameraEvent>) {
        let awaited = self.exposing.is_some_and(|(n, _)| n == head.number);
        if !awaited {
            // An old exposure that was given up.
            return;
        }
        self.exposing = None;
        let fail = |what: String| CameraEvent::Failed { code: Code::CameraFailed, what };
        if crc32fast::hash(bytes) != head.crc {
            self.wire.status.bad_frames += 1;
            out.push(fail("The frame was damaged on its way: its checksum is wrong.".into()));
            return;
        }
        let shape = (head.height, head.width);
        let pixels = if head.bits <= 8 {
            Array2::from_shape_vec(shape, bytes.to_vec()).map(Pixels::U8)
        } else {
            let words = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
            Array2::from_shape_vec(shape, words).map(Pixels::U16)
        };
        let (Ok(pixels), Some(settings)) = (pixels, self.settings.clone()) else {
            out.push(fail(format!(
                "The frame has {} bytes, which is not {} × {}.",
                bytes.len(),
                head.width,
                head.height
            )));
            return;
        };
        let settings = CameraSettings { exposure_ms: head.exposure_ms, gain: head.gain, ..settings };
        out.push(CameraEvent::Frame(Box::new(RawFrame {
            pixels,
            significant_bits: head.bits,
            settings,
            sequence: head.sequence,
        })));
    }
}

/// A refusal of the camera in words: `range gain 1 16` is "gain must be 1 to 16".
fn refusal(said: &str) -> String {
    let words: Vec<&str> = said.split_whitespace().collect();
    match words.as_slice() {
        ["range", "roi", least, whole] => match (size(least), size(whole)) {
            (Some((w, h)), Some((width, height))) => {
                format!("roi must be at least {w} × {h} pixels and lie within the sensor's {width} × {height}.")
            }
            _ => format!("The camera refused: {said}."),
        },
        ["range", key, low, high] => format!("{key} must be {low} to {high}."),
        _ => format!("The camera refused: {said}."),
    }
}

/// Width and height of `x,y,width,height`.
fn size(roi: &str) -> Option<(&str, &str)> {
    let mut parts = roi.split(',').skip(2);
    Some((parts.next()?, parts.next()?))
}

/// `key=…` in a line of words.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
}

/// A frame's header, if its numbers agree with each other.
fn header(rest: &str) -> Option<Incoming> {
    let number = rest.split_whitespace().next()?.parse().ok()?;
    let whole = |key: &str| value(rest, key)?.parse::<usize>().ok();
    let real = |key: &str| value(rest, key)?.parse::<f64>().ok().filter(|v| v.is_finite());
    let head = Incoming {
        number,
        length: whole("len")?,
        width: whole("width")?,
        height: whole("height")?,
        bits: u32::try_from(whole("bits")?).ok()?,
        exposure_ms: real("exposure_ms")?,
        gain: real("gain")?,
        sequence: value(rest, "seq")?.parse().ok()?,
        crc: u32::from_str_radix(value(rest, "crc32")?, 16).ok()?,
    };
    let bytes_each = if head.bits <= 8 { 1 } else { 2 };
    let expected = head.width.checked_mul(head.height)?.checked_mul(bytes_each)?;
    (head.length == expected && expected <= MAX_FRAME && (1..=16).contains(&head.bits)).then_some(head)
}

fn set_line(change: &CameraChange) -> String {
    let mut line = String::from("SET");
    let mut add = |key: &str, value: String| {
        line.push_str(&format!(" {key}={value}"));
    };
    if let Some(v) = change.exposure_ms {
        add("exposure_ms", format!("{v:.4}"));
    }
    if let Some(v) = change.gain {
        add("gain", format!("{v:.4}"));
    }
    if let Some([x, y, w, h]) = change.roi {
        add("roi", format!("{x},{y},{w},{h}"));
    }
    if let Some(v) = change.binning {
        add("binning", v.to_string());
    }
    if let Some(v) = change.bits {
        add("bits", v.to_string());
    }
    line
}

impl Camera for SimCam {
    fn tick(&mut self, now: Time, out: &mut Vec<CameraEvent>) -> Time {
        let mut rx = std::mem::take(&mut self.rx);
        let before = rx.len();
        let event = self.wire.pump(now, &mut rx);
        if rx.len() > before {
            self.heard_at = now;
        }
        self.rx = rx;
        self.digest(now, out);
        match event {
            Some(WireEvent::Opened) => {
                self.forget();
                self.order(Ask::Id, "ID?".into());
            }
            Some(WireEvent::NotOpened(what)) => out.push(CameraEvent::Offline { code: Code::NotConnected, what }),
            Some(WireEvent::Lost(what)) => self.lost(Code::Unplugged, what, out),
            None => {}
        }
        if let Some(asked) = self.dialogue.overdue(now) {
            self.wire.status.timeouts += 1;
            let what = format!("The camera did not answer {:?} within {} ms.", asked.what, ANSWER.as_millis());
            self.wire.reset(now, "it did not answer");
            self.lost(Code::NotResponding, what, out);
        }
        if self.exposing.is_some_and(|(_, until)| until <= now) {
            self.wire.status.timeouts += 1;
            self.exposing = None;
            // Part of it may still come; with a fresh connection it can't be mistaken for the next one.
            self.wire.reset(now, "a frame did not come");
            out.push(CameraEvent::Failed { code: Code::CameraFailed, what: "The frame did not come in time.".into() });
            self.lost(Code::NotResponding, "A frame did not come in time.".into(), out);
        }
        if self.wire.is_open() {
            self.send_next(now);
        }
        let first = [self.dialogue.deadline(), self.exposing.map(|(_, until)| until)].into_iter().flatten().min();
        let asked = self.dialogue.current().map_or(self.heard_at, |a| a.at.max(self.heard_at));
        let next = if first.is_some() { self.wire.listen(now, asked, first).max(now) } else { now + IDLE };
        self.wire.wants(now).map_or(next, |w| if self.wire.is_open() { w.min(next) } else { w })
    }

    fn set(&mut self, change: &CameraChange, now: Time) {
        self.order(Ask::Set, set_line(change));
        self.send_next(now);
    }

    fn shoot(&mut self, now: Time) {
        self.snap = self.snap.wrapping_add(1);
        self.order(Ask::Snap(self.snap), format!("SNAP {}", self.snap));
        self.send_next(now);
    }

    fn abort(&mut self, now: Time) {
        self.exposing = None;
        if self.wire.is_open() {
            self.waiting.retain(|(ask, _)| !matches!(ask, Ask::Snap(_)));
            self.order(Ask::Abort, "ABORT".into());
            self.send_next(now);
        }
    }

    fn patience(&self) -> Duration {
        let exposure = self.settings.as_ref().map_or(0.0, |s| s.exposure_ms).clamp(0.0, 3.6e6);
        Duration::from_secs_f64(exposure / 1e3) + READOUT
    }

    fn link(&self) -> LinkStatus {
        self.wire.status.clone()
    }

    fn close(&mut self) {
        self.wire.close();
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn a_refusal_is_said_in_words() {
        assert_eq!(refusal("range gain 1 16"), "gain must be 1 to 16.");
        assert_eq!(
            refusal("range roi 0,0,16,16 0,0,640,480"),
            "roi must be at least 16 × 16 pixels and lie within the sensor's 640 × 480."
        );
        assert_eq!(refusal("busy"), "The camera refused: busy.");
    }
}
