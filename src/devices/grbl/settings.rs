//! GRBL's settings: `$$` and `$N` read them, `$n=value` writes one into the EEPROM at once.
//!
//! Source: Grbl v1.1 Configuration (gnea/grbl `doc/markdown/settings.md`), `grbl/settings.c` and sessions with real
//! firmware: it takes `$100=0` and `$110=99999999`, refuses `$20=1` before `$22=1`, clears `$20` with `$22=0`, takes
//! nothing while axes move, prints three decimals, loses bytes that arrive while it writes, and reads its EEPROM only
//! when power comes on. grblHAL lists what it has with `$ES` (grblHAL/core `report.c`, `report_settings_details`).

use std::collections::BTreeMap;
use std::time::Duration;

use super::codec::{AXIS_LETTERS, Line, Lines, Raw, State, alarm_meaning, axis_letter, error_meaning, parse};
use super::dialect::{Dialect, Family};
use crate::devices::settings::{
    Change, Controller, Danger, Desk, Flaw, Form, Keeping, Meaning, Motor, Next, Order, Protocol, Rank, Setting,
    SettingsEvent, Silence, Table, Told,
};

/// A part of the driver's row.
pub(super) const KEEPING: Keeping = Keeping {
    open: |connector, _| Box::new(Desk::new(connector, Talk::default())),
    addressed: false,
    axes: "X, Y, Z, A, B or C",
    saves: false,
    name,
    meaning,
    flaws,
    dangers,
    // Soft limits go off with homing; a profile has to say so.
    rescales: |_| Vec::new(),
    axis_of: |channel, _| axis_letter(channel).map(|(letter, _)| letter.to_string()),
    told,
    endurance: Some("100,000 writes a byte (ATmega328P data sheet, section 1)"),
};

/// How long a board may take to boot after its port was opened or its line was drawn.
const BOOT: Duration = Duration::from_secs(5);
/// How often it is asked whether it is there.
const KNOCK: Duration = Duration::from_millis(250);
const KNOCKS: u32 = 20;
/// How long an answer may take, a long list included.
const ANSWER: Duration = Duration::from_secs(4);
/// Nothing is sent for so long after a write: bytes that arrive meanwhile may be lost.
const SETTLE: Duration = Duration::from_millis(60);
/// How long a person may take to switch a controller off and on.
const PERSON: Duration = Duration::from_secs(300);
/// The most settings that a list may have.
const MOST: usize = 2000;
/// How often a list is read until two in a row are the same.
const READS: usize = 6;

/// The settings of each axis: the first number, its name in profiles, what it is.
const OF_AXIS: [(u16, &str, &str, &str); 4] = [
    (100, "steps_per_mm", "steps per millimetre (or degree)", "steps/mm"),
    (110, "max_rate_mm_per_min", "highest speed", "mm/min"),
    (120, "acceleration_mm_per_s2", "acceleration", "mm/s²"),
    (130, "max_travel_mm", "length of the travel", "mm"),
];

/// The most step pulses a second that an ATmega328P makes (`doc/markdown/settings.md`, `$110`; config.h: 30 kHz).
const MOST_STEPS_PER_S: f64 = 30_000.0;

fn name(text: &str, axis: Option<&str>) -> Option<String> {
    let place = |axis: &str| AXIS_LETTERS.iter().position(|l| axis.eq_ignore_ascii_case(&l.to_string()));
    if let Some(axis) = axis {
        let (first, ..) = OF_AXIS.iter().find(|(_, name, ..)| *name == text)?;
        return Some(format!("${}", first + u16::try_from(place(axis)?).ok()?));
    }
    let rest = text.strip_prefix('$')?;
    let line = rest.strip_prefix('N').map_or(rest, |n| n);
    let plain = !line.is_empty() && line.len() <= 4 && line.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.to_owned())
}

fn meaning(name: &str) -> Option<Meaning> {
    if name.starts_with("$N") {
        return Some(Meaning::new("a line that is carried out at each start", "", Form::Text).ranked(Rank::at(200)));
    }
    let number: u16 = name.strip_prefix('$')?.parse().ok()?;
    for (first, _, what, unit) in OF_AXIS {
        if let Some(letter) = number.checked_sub(first).and_then(|i| AXIS_LETTERS.get(usize::from(i))) {
            let real = Meaning::new(format!("{letter}: {what}"), unit, Form::Real(3));
            // It takes 0 with `ok`, and divides by it.
            return Some(real.within(0.001, if first == 100 { 100_000.0 } else { 1_000_000.0 }));
        }
    }
    let m = Meaning::new;
    let flag = |what| m(what, "", Form::Flag);
    Some(match number {
        0 => m("length of a step pulse", "µs", Form::Whole).within(3.0, 255.0),
        1 => m("how long motors stay powered at rest (255: always)", "ms", Form::Whole).within(0.0, 255.0),
        2 => m("step pulses inverted, a bit an axis", "", Form::Whole).within(0.0, 63.0),
        3 => m("directions inverted, a bit an axis; a change turns axes round: find each `sign` anew", "", Form::Whole)
            .within(0.0, 63.0),
        4 => flag("motor enable inverted"),
        5 => flag("limit switches inverted"),
        6 => flag("probe inverted"),
        10 => m("what status reports tell, a bit each", "", Form::Whole).within(0.0, 255.0),
        11 => m("junction deviation", "mm", Form::Real(3)).within(0.0, 1000.0),
        12 => m("arc tolerance", "mm", Form::Real(3)).within(0.0, 1000.0),
        13 => flag("reports in inches"),
        20 => flag("soft limits").ranked(Rank { up: 120, down: 80 }),
        21 => flag("hard limits"),
        22 => flag("homing").ranked(Rank { up: 90, down: 110 }),
        23 => m("homing to the negative end, a bit an axis", "", Form::Whole).within(0.0, 63.0),
        24 => m("homing, slow", "mm/min", Form::Real(3)).within(0.001, 1_000_000.0),
        25 => m("homing, fast", "mm/min", Form::Real(3)).within(0.001, 1_000_000.0),
        26 => m("how long switches bounce", "ms", Form::Whole).within(0.0, 65_535.0),
        27 => m("homing, pull-off", "mm", Form::Real(3)).within(0.0, 1000.0),
        30 => m("highest spindle speed", "1/min", Form::Real(0)).within(0.0, 1_000_000.0),
        31 => m("lowest spindle speed", "1/min", Form::Real(0)).within(0.0, 1_000_000.0),
        32 => flag("laser mode"),
        _ => return None,
    })
}

fn letter(number: u16) -> char {
    AXIS_LETTERS.get(usize::from(number % 10)).copied().unwrap_or('?')
}

fn flaws(table: &Table) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let value = |n: u16| table.number(&format!("${n}"));
    let on = |n: u16| value(n).is_some_and(|v| v != 0.0);
    let names = |ns: &[u16]| ns.iter().map(|n| format!("${n}")).collect();
    if on(20) && !on(22) {
        let what = "soft limits ($20 = 1) need homing ($22 = 1): the firmware refuses one without the other";
        flaws.push(Flaw { names: names(&[20, 22]), what: what.into() });
    }
    if let (Some(slow), Some(fast)) = (value(24), value(25))
        && on(22)
        && slow > fast
    {
        let what =
            format!("homing's slow search ($24 = {slow} mm/min) is faster than its fast one ($25 = {fast} mm/min)");
        flaws.push(Flaw { names: names(&[24, 25]), what });
    }
    for i in 0..6 {
        let (Some(steps), Some(rate)) = (value(100 + i), value(110 + i)) else { continue };
        let pulses = steps * rate / 60.0;
        if pulses > MOST_STEPS_PER_S {
            let what = format!(
                "{}: {steps} steps/mm at {rate} mm/min are {pulses:.0} steps a second, more than the {MOST_STEPS_PER_S:.0} \
                 that the controller makes; at these steps at most {:.0} mm/min",
                letter(i),
                MOST_STEPS_PER_S * 60.0 / steps
            );
            flaws.push(Flaw { names: names(&[100 + i, 110 + i]), what });
        }
        if let Some(travel) = value(130 + i)
            && on(22)
            && value(27).is_some_and(|off| off >= travel)
        {
            let what = format!("{}: homing's pull-off ($27) is not less than the travel ({travel} mm)", letter(i));
            flaws.push(Flaw { names: names(&[27, 130 + i]), what });
        }
    }
    flaws
}

fn told(table: &Table, axis: &str) -> Told {
    let value = |first: usize| table.number(&format!("${}", first + axis_letter(axis)?.1));
    Told { max_speed_per_s: value(110).map(|v| v / 60.0), travel: value(130), counts_ratio: None }
}

fn dangers(change: &Change, motor: &Motor) -> Vec<Danger> {
    let number: Option<u16> = change.name.strip_prefix('$').and_then(|n| n.parse().ok());
    let (old, new) = (change.old.parse().unwrap_or(0.0), change.new.parse().unwrap_or(0.0));
    let off = old != 0.0 && new == 0.0;
    let danger = |name, why: String| vec![Danger { name, why }];
    match number {
        None if change.name.starts_with("$N") && !change.new.is_empty() => {
            danger("startup", format!("the controller would carry out {:?} whenever it starts", change.new))
        }
        Some(20) if off => {
            danger("limits-off", "without soft limits nothing in the controller ends a wrong move".into())
        }
        Some(21) if off => danger("limits-off", "without hard limits a switch that is met stops nothing".into()),
        Some(22) if off => danger("limits-off", "without homing positions have no reference".into()),
        Some(5) => danger("limits-off", "switches wired the other way are taken for pressed, or never seen".into()),
        Some(n @ 130..=135) if new > old => {
            danger("limits-off", format!("{} may go {new} mm instead of {old} mm", letter(n)))
        }
        Some(1) if new < 255.0 && new != old && motor.holds_unpowered != Some(true) => danger(
            "idle-power",
            "motors lose power at rest: a vertical axis can fall (say holds_unpowered = true)".into(),
        ),
        _ => Vec::new(),
    }
}

/// How far an order has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Rest,
    /// Whether somebody is there and what it does; so often asked.
    Knock(u32),
    /// Whatever a cut-off line left is ended.
    Clear,
    Version,
    /// grblHAL's list of what it has.
    Details,
    List,
    Startup,
    /// Startup lines are taken only by a controller that is not locked. This moves nothing, and runs no startup line.
    Unlock,
    Write,
    /// It is left alone after a write.
    Settle,
    Restart,
    Await,
    Done,
}

/// The conversation.
struct Talk {
    lines: Lines,
    order: Order,
    at: At,
    outcome: Option<SettingsEvent>,
    dialect: Dialect,
    state: Option<State>,
    details: BTreeMap<String, Meaning>,
    /// The list that is being read, and the ones that were.
    list: Vec<(String, String)>,
    before: Option<Vec<(String, String)>>,
    reads: usize,
    /// What the controller said while it wrote: a failure that an `ok` may follow.
    complaint: Option<String>,
    /// A line of the list can't be right.
    spoilt: Option<String>,
    /// A list was cut off by silence.
    endless: bool,
    /// The port was lost and is there again: with its power, on boards that it powers.
    back: bool,
    axes: Vec<String>,
}

impl Default for Talk {
    fn default() -> Talk {
        Talk {
            lines: Lines::default(),
            order: Order::Identify,
            at: At::Rest,
            outcome: None,
            dialect: Dialect::read(""),
            state: None,
            details: BTreeMap::new(),
            list: Vec::new(),
            before: None,
            reads: 0,
            complaint: None,
            spoilt: None,
            endless: false,
            back: false,
            axes: Vec::new(),
        }
    }
}

impl Talk {
    fn end(&mut self, event: SettingsEvent) -> bool {
        self.outcome = Some(event);
        self.at = At::Done;
        true
    }

    /// A line in answer to the present question; whether it ends it.
    fn line(&mut self, line: &Line) -> bool {
        match (self.at, line) {
            (At::Restart | At::Await, Line::Banner(_)) => self.end(SettingsEvent::Done),
            (At::Knock(_), Line::Report(report)) => {
                self.state = Some(report.state);
                self.at = At::Clear;
                true
            }
            (At::Knock(_), Line::Banner(text)) => {
                self.dialect = Dialect::read(text);
                false
            }
            // Its own `error` for the line that was cut off, or `ok` for an empty one.
            (At::Clear, Line::Ok | Line::Error(..)) => {
                self.at = match &self.order {
                    Order::Identify => At::Version,
                    Order::Write { name, .. } if name.starts_with("$N") && self.state == Some(State::Alarm) => {
                        At::Unlock
                    }
                    Order::Write { .. } => At::Write,
                    _ => At::List,
                };
                true
            }
            (At::Version, Line::Bracket(tag, rest)) if tag == "VER" || tag == "FIRMWARE" => {
                self.dialect = if tag == "VER" { self.dialect.clone().refined(rest) } else { self.named(rest) };
                false
            }
            (At::Version, Line::Ok | Line::Error(..)) => {
                self.at = if self.dialect.family == Family::GrblHal { At::Details } else { At::List };
                true
            }
            (At::Details, Line::Bracket(tag, rest)) if tag == "SETTING" => {
                self.details.extend(described(rest));
                false
            }
            (At::Details, Line::Ok | Line::Error(..)) => {
                self.at = At::List;
                true
            }
            (At::Unlock, Line::Ok | Line::Error(..)) => {
                self.at = At::Write;
                true
            }
            (At::List | At::Startup, _) => self.listed(line),
            (At::Write, _) => self.written(line),
            _ => false,
        }
    }

    fn named(&self, rest: &str) -> Dialect {
        let text = format!("{rest} {}", self.dialect.version);
        let family = Dialect::read(&text).family;
        Dialect { family, ..self.dialect.clone() }
    }

    fn listed(&mut self, line: &Line) -> bool {
        match line {
            Line::Setting(number, value) => {
                let name = format!("${number}");
                if self.list.iter().any(|(n, _)| *n == name) {
                    self.spoilt = Some(format!("{name} stands in the list twice"));
                }
                if self.list.len() >= MOST {
                    return self
                        .end(SettingsEvent::Unclear(format!("its list of settings has no end after {MOST} lines")));
                }
                self.list.push((name, value.clone()));
                false
            }
            // `$N0=G54`
            Line::Other(text) if self.at == At::Startup && text.starts_with("$N") => {
                if let Some((name, value)) = text.split_once('=') {
                    self.list.push((name.to_owned(), value.to_owned()));
                }
                false
            }
            Line::Other(text) if text.starts_with('$') => {
                self.spoilt = Some(format!("a line of its list can't be read: {text:?}"));
                false
            }
            Line::Banner(_) => self.end(SettingsEvent::Unclear("it restarted while its settings were read".into())),
            Line::Ok if self.at == At::List => {
                self.at = At::Startup;
                true
            }
            Line::Ok | Line::Error(..) if self.at == At::Startup => self.whole(),
            Line::Error(code, text) => {
                let what = format!("it does not list its settings: {}", refusal(*code, text));
                self.end(SettingsEvent::Refused(what))
            }
            _ => false,
        }
    }

    /// A whole list has come. It carries no checksum: two in a row must be the same.
    fn whole(&mut self) -> bool {
        let list = std::mem::take(&mut self.list);
        let spoilt = self.spoilt.take();
        self.reads += 1;
        if spoilt.is_none() && self.before.as_ref() == Some(&list) {
            let event = self.told(list);
            return self.end(event);
        }
        if self.reads >= READS {
            let why = spoilt.unwrap_or_else(|| "no two lists in a row are the same".into());
            return self.end(SettingsEvent::Unclear(format!("its settings can't be read: {why}")));
        }
        self.before = spoilt.is_none().then_some(list);
        self.at = At::List;
        true
    }

    fn told(&mut self, list: Vec<(String, String)>) -> SettingsEvent {
        self.axes = AXIS_LETTERS
            .iter()
            .zip(100_u16..)
            .filter(|(_, n)| list.iter().any(|(name, _)| *name == format!("${n}")))
            .map(|(letter, _)| letter.to_string())
            .collect();
        if self.order == Order::Identify {
            return SettingsEvent::Known(Controller {
                model: self.dialect.model().into(),
                firmware: self.dialect.version.clone(),
                serial: String::new(),
                axes: self.axes.clone(),
            });
        }
        let setting = |(name, value): (String, String)| {
            let known = self.details.get(&name).cloned().or_else(|| meaning(&name));
            let meaning = known.unwrap_or_else(|| {
                let form = if value.contains('.') { Form::Real(3) } else { Form::Whole };
                let form = if form.written(&value).is_ok() { form } else { Form::Text };
                Meaning { writable: false, ..Meaning::new("not known to this version", "", form) }
            });
            Setting { name, value, meaning }
        };
        match Table::new(list.into_iter().map(setting).collect()) {
            Ok(table) => SettingsEvent::Table(table),
            Err(twice) => SettingsEvent::Unclear(format!("{twice} stands in its list twice")),
        }
    }

    fn written(&mut self, line: &Line) -> bool {
        match line {
            Line::Ok => match self.complaint.take() {
                Some(what) => self.end(SettingsEvent::Unclear(what)),
                None => {
                    self.at = At::Settle;
                    true
                }
            },
            // One that nobody provoked: its memory failed, and it has other settings now.
            Line::Error(Some(7), _) => self.end(SettingsEvent::Unclear(error_meaning(7).into())),
            Line::Error(code, text) => self.end(SettingsEvent::Refused(refusal(*code, text))),
            Line::Alarm(code, text) => {
                let what = code.map_or(text.clone(), |c| format!("ALARM:{c} ({})", alarm_meaning(c).0));
                self.end(SettingsEvent::Unclear(format!("it locked itself: {what}")))
            }
            Line::Banner(_) => self.end(SettingsEvent::Unclear("it restarted while it wrote".into())),
            Line::Bracket(tag, text) if tag == "MSG" && says_failure(text) => {
                self.complaint = Some(format!("it says: {text}"));
                false
            }
            Line::Other(text) if says_failure(text) => {
                self.complaint = Some(format!("it says: {text}"));
                false
            }
            _ => false,
        }
    }
}

/// Whether a message tells of a failure, which an `ok` may follow all the same.
fn says_failure(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["fail", "error"].iter().any(|word| lower.contains(word))
}

fn refusal(code: Option<u8>, text: &str) -> String {
    match code {
        Some(53) => "error:53 (no such setting in this firmware)".into(),
        Some(52) => "error:52 (value out of range)".into(),
        Some(code) => format!("error:{code} ({})", error_meaning(code)),
        None => format!("error: {text}"),
    }
}

/// A line of `$ES`: `id|group|name|unit|datatype|format|min|max|…`.
fn described(rest: &str) -> Option<(String, Meaning)> {
    let fields: Vec<&str> = rest.split('|').collect();
    let [id, _group, what, unit, kind, format, low, high, ..] = fields.as_slice() else { return None };
    let id: u16 = id.parse().ok()?;
    let kind: u32 = kind.parse().ok()?;
    let form = match kind {
        0 => Form::Flag,
        1..=5 => Form::Whole,
        // A format of "#####0.000" tells with how many decimals it is printed (`settings.c`, `get_decimal_places`).
        6 => Form::Real(format.split_once('.').map_or(1, |(_, decimals)| decimals.len())),
        _ => Form::Text,
    };
    let bound = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
    let own = meaning(&format!("${id}"));
    let range = match (bound(low), bound(high), own.as_ref().and_then(|m| m.range)) {
        (Some(low), Some(high), _) => Some([low, high]),
        (Some(low), None, own) => Some([low, own.map_or(f64::MAX, |[_, high]| high)]),
        (None, Some(high), own) => Some([own.map_or(f64::MIN, |[low, _]| low), high]),
        (None, None, own) => own,
    };
    let rank = own.map_or_else(Rank::default, |m| m.rank);
    Some((format!("${id}"), Meaning { range, rank, ..Meaning::new(*what, unit, form) }))
}

impl Protocol for Talk {
    fn begin(&mut self, order: &Order) {
        self.order = order.clone();
        self.outcome = None;
        self.complaint = None;
        self.spoilt = None;
        self.list.clear();
        (self.before, self.reads, self.back, self.endless) = (None, 0, false, false);
        self.at = match order {
            Order::Restart => At::Restart,
            Order::AwaitRestart => At::Await,
            Order::Save | Order::Recall => At::Settle,
            Order::Identify | Order::Read | Order::Write { .. } => At::Knock(0),
        };
    }

    fn next(&mut self) -> Next {
        let ask = |text: &str| Next::Ask(text.as_bytes().to_vec(), ANSWER);
        match self.at {
            At::Knock(_) => Next::Ask(b"?".to_vec(), KNOCK),
            At::Clear => match self.state {
                Some(State::Idle | State::Alarm) | None => ask("@\n"),
                Some(state) => {
                    let what = format!("it is {}: settings are read and written only while it stands", state.word());
                    Next::Over(SettingsEvent::Refused(what))
                }
            },
            At::Version => ask("$I\n"),
            At::Details => ask("$ES\n"),
            At::List => ask("$$\n"),
            At::Startup => ask("$N\n"),
            At::Unlock => ask("$X\n"),
            At::Write => match &self.order {
                Order::Write { name, value } => ask(&format!("{name}={value}\n")),
                _ => Next::Over(SettingsEvent::Refused("nothing was to be written".into())),
            },
            At::Settle => {
                self.at = At::Done;
                self.outcome = Some(SettingsEvent::Done);
                Next::Pause(SETTLE)
            }
            At::Restart => Next::PulseDtr(BOOT),
            At::Await if self.back => Next::Over(SettingsEvent::Done),
            At::Await => Next::Ask(Vec::new(), PERSON),
            At::Rest | At::Done => {
                let nothing = || SettingsEvent::Unclear("nothing was asked".into());
                Next::Over(self.outcome.take().unwrap_or_else(nothing))
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> bool {
        let mut lines = Vec::new();
        self.lines.push(bytes, |line| lines.push(line));
        let mut answered = false;
        for line in lines {
            match line {
                // What comes behind the end of an answer belongs to nothing that was asked.
                Raw::Line(text) if !answered => {
                    // A startup line may hold anything, blanks and brackets too.
                    let line = if text.starts_with("$N") { Line::Other(text) } else { parse(&text) };
                    answered = self.line(&line);
                }
                Raw::Damaged(text) if matches!(self.at, At::List | At::Startup) => {
                    self.spoilt = Some(format!("a line of its list is damaged: {text}"));
                }
                _ => {}
            }
        }
        answered
    }

    fn silent(&mut self) -> Silence {
        match self.at {
            At::Knock(n) if n < KNOCKS => {
                self.at = At::Knock(n + 1);
                Silence::GoOn
            }
            At::Knock(_) => Silence::Over(SettingsEvent::Unclear(
                "nobody there answers like GRBL: wrong rate, another device, or one that an alarm has locked (switch it \
                 off and on)"
                    .into(),
            )),
            At::Restart => Silence::Over(SettingsEvent::Refused("it did not restart by its line (DTR)".into())),
            At::Await => Silence::Over(SettingsEvent::Refused("it was not seen to restart".into())),
            // Lists may be asked for again.
            At::List | At::Startup | At::Version | At::Details | At::Clear if self.reads + 1 < READS => {
                self.reads += 1;
                self.endless |= !std::mem::take(&mut self.list).is_empty();
                self.before = None;
                if self.at == At::Startup {
                    self.at = At::List;
                }
                Silence::GoOn
            }
            _ if self.endless => {
                let why = self.spoilt.take().map_or(String::new(), |why| format!(": {why}"));
                Silence::Over(SettingsEvent::Unclear(format!("its settings can't be read: their list has no end{why}")))
            }
            _ => Silence::Over(SettingsEvent::Unclear("it does not answer".into())),
        }
    }

    fn reopened(&mut self) -> bool {
        self.lines.clear();
        // A board that is switched off takes its USB port with it.
        self.back = self.at == At::Await;
        matches!(self.at, At::Await | At::Restart)
    }
}
