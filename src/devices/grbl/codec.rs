//! GRBL's lines, pure: bytes to lines to meaning, and back. Whole lines that break the grammar are dropped and
//! counted; nothing is guessed from a part.
//!
//! Source: Grbl v1.1 Interface and Commands (gnea/grbl `doc/markdown/interface.md`, `commands.md`), and
//! v0.9's status line (grbl/grbl wiki, "Configuring Grbl v0.9", `$10`).

use std::fmt::Write as _;

/// The longest line that is taken; FluidNC's and grblHAL's longest are a few hundred bytes.
const MAX_LINE: usize = 512;

/// Splits bytes into lines. Knows nothing of their meaning.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// The line in progress has a byte that no line has, or is too long: it is dropped at its end.
    damaged: bool,
}

/// What came out of the splitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Raw {
    /// A line of printable ASCII, without its end.
    Line(String),
    /// A line with other bytes in it, escaped for the log.
    Damaged(String),
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8], mut out: impl FnMut(Raw)) {
        for &b in bytes {
            match b {
                b'\n' => {
                    let line = std::mem::take(&mut self.partial);
                    if std::mem::take(&mut self.damaged) {
                        out(Raw::Damaged(line.escape_ascii().to_string()));
                    } else if let Some(line) = String::from_utf8(line).ok().filter(|l| !l.is_empty()) {
                        out(Raw::Line(line));
                    }
                }
                b'\r' => {}
                b'\t' | b' '..=b'~' if self.partial.len() < MAX_LINE => self.partial.push(b),
                _ => {
                    self.damaged = true;
                    if self.partial.len() < MAX_LINE {
                        self.partial.push(b);
                    }
                }
            }
        }
    }

    /// Forgets an unfinished line: what follows is another connection or another boot.
    pub(super) fn clear(&mut self) {
        *self = Lines::default();
    }
}

/// A line's meaning.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// The last line was taken.
    Ok,
    /// The last line was refused; GRBL 0.9 says why in words.
    Error(Option<u8>, String),
    /// The controller locked itself.
    Alarm(Option<u8>, String),
    /// The controller has started.
    Banner(String),
    /// A status report.
    Report(Report),
    /// `[VER:…]`, `[OPT:…]`, `[GC:…]`, `[MSG:…]` and the like: the tag in upper case, and the rest.
    Bracket(String, String),
    /// `$100=250.000`.
    Setting(u16, String),
    /// Looks like a report, and isn't one.
    Broken,
    /// Anything else: information.
    Other(String),
}

/// A status report.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Report {
    pub(super) state: State,
    /// `Hold:0`'s 0.
    pub(super) sub: Option<u8>,
    pub(super) machine: Option<Vec<f64>>,
    pub(super) work: Option<Vec<f64>>,
    pub(super) offset: Option<Vec<f64>>,
    /// The letters of the pins that are active.
    pub(super) pins: Option<String>,
    /// The spindle's speed in revolutions a minute, of controllers that can vary it.
    pub(super) spindle: Option<f64>,
    /// Whether the overrides were told, with which 1.1 tells the accessories too.
    pub(super) overrides: bool,
    /// The letters of the accessories that are on.
    pub(super) accessories: Option<String>,
}

/// The state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Idle,
    Run,
    Jog,
    Home,
    Hold,
    Door,
    Check,
    Alarm,
    Sleep,
    /// grblHAL's tool change.
    Tool,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Idle => "Idle",
            State::Run => "Run",
            State::Jog => "Jog",
            State::Home => "Home",
            State::Hold => "Hold",
            State::Door => "Door",
            State::Check => "Check",
            State::Alarm => "Alarm",
            State::Sleep => "Sleep",
            State::Tool => "Tool",
        }
    }

    fn parse(word: &str) -> Option<State> {
        Some(match word {
            "Idle" => State::Idle,
            "Run" => State::Run,
            "Jog" => State::Jog,
            "Home" => State::Home,
            // 0.8 and 0.9 say Queue for a finished hold.
            "Hold" | "Queue" => State::Hold,
            "Door" => State::Door,
            "Check" => State::Check,
            "Alarm" => State::Alarm,
            "Sleep" => State::Sleep,
            "Tool" => State::Tool,
            _ => return None,
        })
    }
}

/// Understands a line.
pub(super) fn parse(line: &str) -> Line {
    if line == "ok" {
        return Line::Ok;
    }
    if let Some(rest) = line.strip_prefix("error:") {
        let number = rest.parse().ok();
        // 0.9: `error: Expected command letter`. A line that merely contains the word is information.
        if number.is_some() || rest.starts_with(' ') {
            return Line::Error(number, rest.trim().to_owned());
        }
    }
    if let Some(rest) = line.strip_prefix("ALARM:") {
        let number = rest.parse().ok();
        if number.is_some() || rest.starts_with(' ') {
            return Line::Alarm(number, rest.trim().to_owned());
        }
    }
    if line.starts_with('<') || line.ends_with('>') {
        return report(line).map_or(Line::Broken, Line::Report);
    }
    let lower = line.to_ascii_lowercase();
    if lower.starts_with("grbl") && lower.contains("'$'") {
        return Line::Banner(line.to_owned());
    }
    if let Some(inner) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
        let (tag, rest) = inner.split_once(':').unwrap_or(("", inner));
        return Line::Bracket(tag.to_ascii_uppercase(), rest.to_owned());
    }
    if let Some((number, value)) = line.strip_prefix('$').and_then(|l| l.split_once('='))
        && let Ok(number) = number.parse()
    {
        // 0.9 follows the value with its meaning in words.
        let value = value.split_whitespace().next().unwrap_or_default();
        return Line::Setting(number, value.to_owned());
    }
    Line::Other(line.to_owned())
}

/// The whole report or nothing: a known state, known fields, exact numbers, the closing bracket.
fn report(line: &str) -> Option<Report> {
    let inner = line.strip_prefix('<')?.strip_suffix('>')?;
    if inner.contains(['<', '>']) {
        return None;
    }
    if !inner.contains('|') && inner.contains(',') {
        return report_09(inner);
    }
    let mut fields = inner.split('|');
    let state = fields.next()?;
    let (word, sub) = match state.split_once(':') {
        Some((word, sub)) => (word, Some(sub.parse().ok()?)),
        None => (state, None),
    };
    let mut report = Report { state: State::parse(word)?, sub, ..Report::default() };
    for field in fields {
        let (name, value) = field.split_once(':')?;
        match name {
            "MPos" => report.machine = Some(coordinates(value)?),
            "WPos" => report.work = Some(coordinates(value)?),
            "WCO" => report.offset = Some(coordinates(value)?),
            "Bf" => numbers(value, 2..=3)?,
            "F" => numbers(value, 1..=1)?,
            "FS" => {
                numbers(value, 2..=3)?;
                report.spindle = value.split(',').nth(1).and_then(|s| s.parse().ok());
            }
            "Ov" => {
                numbers(value, 3..=3)?;
                report.overrides = true;
            }
            "Ln" => numbers(value, 1..=1)?,
            "Pn" => report.pins = Some(letters(value)?),
            "A" => report.accessories = Some(letters(value)?),
            // grblHAL and FluidNC.
            "H" | "T" | "TLR" | "D" | "Sc" | "MPG" | "FW" | "In" | "SD" | "Q" | "R" | "WCS" | "THC" | "P" => {}
            _ => return None,
        }
    }
    // All tuples of one report count the same axes, and tell them with the same decimals.
    let tuples = [&report.machine, &report.work, &report.offset];
    let mut lengths = tuples.iter().filter_map(|t| t.as_ref().map(Vec::len));
    let first = lengths.next();
    if lengths.any(|n| Some(n) != first) {
        return None;
    }
    Some(report)
}

/// `Idle,MPos:0.000,0.000,0.000,WPos:0.000,0.000,0.000`, with `Buf:0`, `RX:0`, `Ln:`, `F:`, `Lim:000` after it.
fn report_09(inner: &str) -> Option<Report> {
    let mut report = Report::default();
    let (word, rest) = inner.split_once(',')?;
    report.state = State::parse(word)?;
    let mut current: Option<(&str, Vec<&str>)> = None;
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for part in rest.split(',') {
        match part.split_once(':') {
            Some((name, value)) => {
                fields.extend(current.take());
                current = Some((name, vec![value]));
            }
            None => current.as_mut()?.1.push(part),
        }
    }
    fields.extend(current);
    for (name, values) in fields {
        let joined = values.join(",");
        match name {
            "MPos" => report.machine = Some(coordinates(&joined)?),
            "WPos" => report.work = Some(coordinates(&joined)?),
            "Buf" | "RX" | "Ln" | "F" => numbers(&joined, 1..=1)?,
            "Lim" => {
                // Bits for Z, Y, X as they are printed.
                let bits: Vec<bool> =
                    joined.chars().map(|c| (c == '1' || c == '0').then_some(c == '1')).collect::<Option<_>>()?;
                let names = ['X', 'Y', 'Z', 'A', 'B', 'C'];
                report.pins = Some(bits.iter().rev().zip(names).filter(|(on, _)| **on).map(|(_, n)| n).collect());
            }
            _ => return None,
        }
    }
    if let (Some(m), Some(w)) = (&report.machine, &report.work)
        && m.len() != w.len()
    {
        return None;
    }
    Some(report)
}

/// Three to six coordinates as GRBL prints them: sign, digits, a point, three or four decimals (mm or inches),
/// the same in all.
fn coordinates(text: &str) -> Option<Vec<f64>> {
    let mut decimals = None;
    let values: Vec<f64> = text
        .split(',')
        .map(|t| {
            let (whole, fraction) = t.strip_prefix('-').unwrap_or(t).split_once('.')?;
            let digits = |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
            if !digits(whole) || !digits(fraction) || *decimals.get_or_insert(fraction.len()) != fraction.len() {
                return None;
            }
            t.parse().ok()
        })
        .collect::<Option<_>>()?;
    (3..=6).contains(&values.len()).then_some(values)
}

/// So many plain numbers.
fn numbers(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<()> {
    let ok = |t: &str| {
        !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-') && t.parse::<f64>().is_ok()
    };
    (count.contains(&text.split(',').count()) && text.split(',').all(ok)).then_some(())
}

fn letters(text: &str) -> Option<String> {
    text.bytes().all(|b| b.is_ascii_alphabetic()).then(|| text.to_owned())
}

/// A line that moves axes to machine coordinates, units and distance mode stated anew. `jog` makes it a jog,
/// which a stop byte cancels without an alarm and which leaves no mode behind (`$J=`, 1.1 and later).
pub(super) fn move_line(jog: bool, axes: &[(char, f64)], feed_mm_per_min: f64) -> String {
    let mut line = String::from(if jog { "$J=G53G90G21" } else { "G53G90G21G94G1" });
    for (letter, position) in axes {
        // Writing to a String can't fail.
        let _ = write!(line, "{letter}{}", fixed(*position));
    }
    let _ = writeln!(line, "F{}", fixed(feed_mm_per_min));
    line
}

/// Fixed notation, at most four decimals, never an exponent, never `-0`.
fn fixed(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

/// The letters of a controller's axes, in the order of the reports' tuples and of the settings.
pub(super) const AXIS_LETTERS: [char; 6] = ['X', 'Y', 'Z', 'A', 'B', 'C'];

/// The axis letter of a controller's channel, with its place in the reports' tuples.
pub(super) fn axis_letter(channel: &str) -> Option<(char, usize)> {
    let mut chars = channel.chars();
    let letter = chars.next()?.to_ascii_uppercase();
    let place = AXIS_LETTERS.iter().position(|l| *l == letter)?;
    chars.next().is_none().then_some((letter, place))
}

/// What an `error:` number means, in the words of `error_codes_en_US.csv`.
pub(super) fn error_meaning(number: u8) -> &'static str {
    match number {
        1 => "expected a command letter",
        2 => "bad number format",
        3 => "unknown $ command",
        4 => "negative value",
        5 => "homing is not enabled ($22)",
        6 => "step pulse too short",
        7 => "EEPROM could not be read, defaults in use",
        8 => "only possible when idle",
        9 => "locked by an alarm or a jog",
        10 => "soft limits need homing",
        11 => "line too long",
        12 => "step rate too high",
        13 => "safety door open",
        14 => "line too long for EEPROM",
        15 => "jog target outside the controller's own travel",
        16 => "invalid jog command",
        17 => "laser mode needs PWM",
        20 => "unsupported command",
        21 => "two commands of one modal group",
        22 => "feed rate missing",
        23 => "value must be a whole number",
        24 => "two commands that both use axis words",
        25 => "word repeated",
        26 => "axis words missing",
        27 => "line number out of range",
        28 => "value missing",
        29 => "work coordinate system not available",
        30 => "G53 needs G0 or G1",
        31 => "unused axis words",
        32 => "arc without plane axes",
        33 => "invalid target",
        34 => "invalid arc radius",
        35 => "arc without offsets",
        36 => "unused value words",
        37 => "tool length offset on a wrong axis",
        38 => "tool number too large",
        _ => "not in the list of errors known to this driver",
    }
}

/// What an `ALARM:` number means (`alarm_codes_en_US.csv`), and whether the position is lost with it.
pub(super) fn alarm_meaning(number: u8) -> (&'static str, bool) {
    match number {
        1 => ("hard limit switch pressed; position is likely lost", true),
        2 => ("target outside the controller's soft limits; position is kept", false),
        3 => ("reset during motion; position is lost", true),
        4 => ("probe not in its start state", false),
        5 => ("probe did not touch", false),
        6 => ("homing was reset", true),
        7 => ("safety door opened during homing", true),
        8 => ("homing: the limit switch did not clear on pull-off", true),
        9 => ("homing: no limit switch found", true),
        10 => ("homing: second switch of a dual axis not found", true),
        _ => ("an alarm that is not in the list known to this driver", true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Raw> {
        let mut out = Vec::new();
        Lines::default().push(bytes, |l| out.push(l));
        out
    }

    #[test]
    fn a_report_is_taken_whole_or_not_at_all() {
        for good in [
            "<Idle|MPos:0.000,0.000,0.000|FS:0,0>",
            "<Hold:0|MPos:-8.704,0.000,0.000|FS:0,0>",
            "<Idle|WPos:189.526,0.000,0.000,0.000,0.000,0.000|FS:0,0|WCO:0.000,0.000,0.000,0.000,0.000,0.000>",
            "<Alarm>",
            "<Run,MPos:1.000,2.000,3.000,WPos:1.000,2.000,3.000>",
            "<Idle|MPos:0.000,0.000,0.000|Bf:15,128|FS:0,0|Ov:100,100,100|A:SF>",
        ] {
            assert!(matches!(parse(good), Line::Report(_)), "{good}");
        }
        for bad in [
            "<IdleMPos:0.000,0.000,0.000|FS:0,0>",
            "<Idle|MPo:0.000,0.000,0.000|FS:0,0>",
            "<dle|MPo:0.000,0.000,0.000|FS:0,0>",
            "<Idle|MPos:0.000,0.000,0.000|FS:0,|WCO:0.000,0.000,0.000>",
            "<Idle|MPos:0.000,0.0000.000|FS:0,0|Ov:100,100,100>",
            "<Idle|MPos:0.000,0000,0.000|FS:0,0|WCO:0.000,0.000,0.000",
            "<Idle|MPos:0.000,0000,0.000|FS:0,0|WCO:0.000,0.000,0.000>",
            "<Run|MPos:55.000,57.000,<Run|MPos:55.000,57.000,59.000|Bf:15,128>",
            "59.000|Bf:15,128>",
            "<Idle|MPos:1.000,2.000,3.000,4.000,5.000,6.000|WCO:0.000,0.000,0.000>",
            "<Idle|MPos:nan,0.000,0.000>",
            "<Idle|MPos:1e5,0.000,0.000>",
        ] {
            assert_eq!(parse(bad), Line::Broken, "{bad}");
        }
    }

    #[test]
    fn only_ok_and_error_with_a_number_end_a_command() {
        assert_eq!(parse("ok"), Line::Ok);
        assert!(matches!(parse("error:20"), Line::Error(Some(20), _)));
        assert!(matches!(parse("error: Expected command letter"), Line::Error(None, _)));
        for other in ["[MSG:INFO: error pin gpio.33]", "error_pin: NO_PIN", "okay", " ok", "error:", "ok ok"] {
            assert!(!matches!(parse(other), Line::Ok | Line::Error(..)), "{other}");
        }
    }

    #[test]
    fn a_line_with_bytes_that_no_line_has_is_dropped_whole() {
        assert_eq!(
            lines(b"ok\r\n\xff\xffok\r\nok\r\n"),
            [Raw::Line("ok".into()), Raw::Damaged("\\xff\\xffok".into()), Raw::Line("ok".into())]
        );
        assert_eq!(lines(&[b'x'; 2000]), []);
    }

    #[test]
    fn lines_are_the_same_wherever_they_are_cut() {
        let session = b"\r\nGrbl 1.1h ['$' for help]\r\n[MSG:'$H'|'$X' to unlock]\r\nok\r\n<Idle|MPos:0.000,0.000,0.000|FS:0,0>\r\n";
        let whole = lines(session);
        for cut in 0..=session.len() {
            let mut out = Vec::new();
            let mut split = Lines::default();
            split.push(&session[..cut], |l| out.push(l));
            split.push(&session[cut..], |l| out.push(l));
            assert_eq!(out, whole, "cut at {cut}");
        }
    }

    #[test]
    fn numbers_go_out_in_fixed_notation() {
        assert_eq!(move_line(true, &[('X', 1e-7), ('Y', -12.5)], 600.0), "$J=G53G90G21X0Y-12.5F600\n");
        let line = move_line(false, &[('X', 123_456.789_01), ('Z', -1e-9)], 1e-3);
        assert_eq!(line, "G53G90G21G94G1X123456.789Z0F0.001\n");
        assert!(!line[14..].contains(['e', 'E']));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic_the_codec(bytes in proptest::collection::vec(0_u8..=255, 0..2000)) {
            Lines::default().push(&bytes, |raw| if let Raw::Line(l) = raw { parse(&l); });
        }
    }
}
