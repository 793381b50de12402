//! An ASI controller's settings: they are changed in its memory at once, and kept only after `SS Z`.
//!
//! Source: asiimaging.com/docs, the commands `S`, `AC`, `B`, `E`, `PC`, `SL`, `SU`, `SAVESET` and `RESET`. Limits are
//! saved only together with the position (`SAVESET`, note 2), so they are shown here and left alone.

use std::time::Duration;

use super::{LONGEST, refusal};
use crate::devices::settings::{
    Change, Controller, Danger, Desk, Flaw, Form, Keeping, Meaning, Motor, Next, Order, Protocol, Setting,
    SettingsEvent, Silence, Table, Told,
};

/// A part of the driver's row.
pub(super) const KEEPING: Keeping = Keeping {
    open: |connector, _| Box::new(Desk::new(connector, Talk::default())),
    addressed: false,
    axes: "the controller's letters: X, Y, Z, F …",
    saves: true,
    name,
    meaning,
    flaws: |_: &Table| Vec::<Flaw>::new(),
    dangers: |_: &Change, _: &Motor| Vec::<Danger>::new(),
    rescales: |_: &str| Vec::new(),
    axis_of: |text, _| super::letter(text).map(String::from),
    told: |table, axis| Told { max_speed_per_s: table.number(&format!("S {axis}")), ..Told::default() },
    endurance: None,
};

/// How long an answer may take; saving erases a page of flash memory first.
const ANSWER: Duration = Duration::from_millis(400);
const SAVING: Duration = Duration::from_secs(3);
/// How long a controller may take to start.
const BOOT: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;
/// How long a person may take to switch it off and on.
const PERSON: Duration = Duration::from_secs(300);

/// The settings of an axis: the command, what it is, its unit, lowest and highest value, whether it is kept.
struct Row(&'static str, &'static str, &'static str, f64, f64, bool);

const OF_AXIS: &[Row] = &[
    Row("S", "speed", "mm/s", 0.000_01, 1000.0, true),
    Row("AC", "time to speed up", "ms", 1.0, 10_000.0, true),
    Row("B", "backlash that is taken up", "mm", 0.0, 10.0, true),
    Row("E", "how far it may drift until it corrects", "mm", 0.0, 10.0, true),
    Row("PC", "how near is arrived", "mm", 0.0, 10.0, true),
    Row("SL", "lowest position (kept only with the position, by SAVEPOS)", "mm", -10_000.0, 10_000.0, false),
    Row("SU", "highest position (kept only with the position, by SAVEPOS)", "mm", -10_000.0, 10_000.0, false),
];

fn name(text: &str, axis: Option<&str>) -> Option<String> {
    let row = |command: &str| OF_AXIS.iter().find(|r| r.0.eq_ignore_ascii_case(command)).map(|r| r.0);
    let letter = |axis: &str| super::letter(axis);
    match axis {
        Some(axis) => Some(format!("{} {}", row(text)?, letter(axis)?)),
        None => {
            let (command, axis) = text.split_once(' ')?;
            Some(format!("{} {}", row(command)?, letter(axis)?))
        }
    }
}

fn meaning(full: &str) -> Option<Meaning> {
    let (command, axis) = full.split_once(' ')?;
    let Row(_, what, unit, low, high, kept) = OF_AXIS.iter().find(|r| r.0 == command)?;
    let form = if command == "AC" { Form::Whole } else { Form::Real(6) };
    let meaning = Meaning::new(format!("{axis}: {what}"), unit, form).within(*low, *high);
    Some(Meaning { kept: *kept, writable: *kept, ..meaning })
}

/// What is asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Rest,
    Version,
    Build,
    Where(char),
    /// The setting of that place.
    Get(usize),
    Set,
    Save,
    Recall,
    Reset,
    Back,
    /// It is not there any more, since a person has switched it off.
    Gone,
}

/// The conversation.
#[derive(Default)]
struct Talk {
    line: Vec<u8>,
    order: Option<Order>,
    at: Option<At>,
    tries: u32,
    waited: Duration,
    outcome: Option<SettingsEvent>,
    who: Controller,
    letters: Vec<char>,
    names: Vec<String>,
    found: Vec<Setting>,
}

impl Talk {
    fn at(&self) -> At {
        self.at.unwrap_or(At::Rest)
    }

    fn go(&mut self, at: At) {
        self.at = Some(at);
        self.tries = 0;
    }

    fn end(&mut self, event: SettingsEvent) -> bool {
        self.outcome = Some(event);
        self.go(At::Rest);
        true
    }

    fn after_letters(&mut self) {
        self.who.axes = self.letters.iter().map(char::to_string).collect();
        self.end(SettingsEvent::Known(self.who.clone()));
    }

    fn next_letter(&mut self, letter: char) {
        match ('A'..='Z').find(|l| *l > letter) {
            Some(next) => self.go(At::Where(next)),
            None => self.after_letters(),
        }
    }

    /// A line; whether it answers the present question.
    fn heard(&mut self, line: &str) -> bool {
        let line = line.trim();
        let no: Option<u32> = line.strip_prefix(":N-").and_then(|n| n.parse().ok());
        let done = line == ":A" || line.starts_with(":A ");
        match self.at() {
            At::Version | At::Back | At::Gone if done => {
                let text = line.trim_start_matches(":A").trim();
                if !text.contains(|c: char| c.is_ascii_digit()) {
                    return false;
                }
                match self.at() {
                    At::Version => {
                        self.who.firmware = text.trim_start_matches("Version:").trim().to_owned();
                        self.go(At::Build);
                        true
                    }
                    At::Back => self.end(SettingsEvent::Done),
                    _ => true,
                }
            }
            At::Build => {
                self.who.model = if no.is_some() { "ASI".into() } else { format!("ASI {line}") };
                self.go(At::Where('A'));
                true
            }
            At::Where(letter) => {
                let number = line.strip_prefix(":A").map(str::trim).and_then(super::number);
                if number.is_none() && no.is_none() {
                    return false;
                }
                self.letters.extend(number.map(|_| letter));
                self.next_letter(letter);
                true
            }
            At::Get(i) => self.told(i, line, no),
            At::Set | At::Save | At::Recall => match no {
                Some(code) => self.end(SettingsEvent::Refused(refusal(code))),
                None if line == ":A" => self.end(SettingsEvent::Done),
                None => false,
            },
            At::Reset if done => {
                self.go(At::Back);
                true
            }
            _ => false,
        }
    }

    /// `:A X=5.7`, or `:X=70 A` of other commands.
    fn told(&mut self, i: usize, line: &str, no: Option<u32>) -> bool {
        let full = self.names[i].clone();
        let Some((_, letter)) = full.split_once(' ') else { return false };
        if let Some(code) = no {
            // A command or axis that this firmware doesn't have is no setting of it.
            if !matches!(code, 1 | 2) {
                return self.end(SettingsEvent::Unclear(format!("it does not tell {full}: {}", refusal(code))));
            }
        } else {
            let wanted = format!("{letter}=");
            let value = line.strip_prefix(':').and_then(|rest| {
                let words = rest.split_ascii_whitespace().find_map(|w| w.strip_prefix(&wanted));
                words.filter(|v| super::number(v).is_some())
            });
            let (Some(value), Some(meaning)) = (value, meaning(&full)) else { return false };
            self.found.push(Setting { name: full, value: value.to_owned(), meaning });
        }
        if i + 1 < self.names.len() {
            self.go(At::Get(i + 1));
            return true;
        }
        let event = match Table::new(std::mem::take(&mut self.found)) {
            Ok(table) => SettingsEvent::Table(table),
            Err(twice) => SettingsEvent::Unclear(format!("{twice} was told twice")),
        };
        self.end(event)
    }
}

impl Protocol for Talk {
    fn begin(&mut self, order: &Order) {
        self.order = Some(order.clone());
        self.outcome = None;
        self.waited = Duration::ZERO;
        match order {
            Order::Identify => {
                self.who = Controller::default();
                self.letters.clear();
                self.go(At::Version);
            }
            Order::Read if self.letters.is_empty() => {
                self.end(SettingsEvent::Refused("it was not identified, or has no axes".into()));
            }
            Order::Read => {
                let of = |l: &char| OF_AXIS.iter().map(|r| format!("{} {l}", r.0)).collect::<Vec<_>>();
                self.names = self.letters.iter().flat_map(of).collect();
                self.found.clear();
                self.go(At::Get(0));
            }
            Order::Write { .. } => self.go(At::Set),
            Order::Save => self.go(At::Save),
            Order::Recall => self.go(At::Recall),
            Order::Restart => self.go(At::Reset),
            Order::AwaitRestart => self.go(At::Gone),
        }
    }

    fn next(&mut self) -> Next {
        let ask = |text: String, patience| Next::Ask(format!("{text}\r").into_bytes(), patience);
        match self.at() {
            // What stands in its buffer from others ends before the first question.
            At::Version if self.tries == 0 => ask("\rV".into(), ANSWER),
            At::Version | At::Back | At::Gone => ask("V".into(), ANSWER),
            At::Build => ask("BU".into(), ANSWER),
            At::Where(letter) => ask(format!("W {letter}"), ANSWER),
            At::Get(i) => ask(format!("{}?", self.names[i]), ANSWER),
            At::Set => match &self.order {
                Some(Order::Write { name, value }) => ask(format!("{name}={value}"), ANSWER),
                _ => Next::Over(SettingsEvent::Refused("nothing was to be written".into())),
            },
            At::Save => ask("SS Z".into(), SAVING),
            At::Recall => ask("SS Y".into(), SAVING),
            At::Reset => ask("~".into(), ANSWER),
            At::Rest => {
                let nothing = || SettingsEvent::Unclear("nothing was asked".into());
                Next::Over(self.outcome.take().unwrap_or_else(nothing))
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> bool {
        let mut answered = false;
        for byte in bytes {
            if !matches!(byte, b'\r' | b'\n') {
                self.line.extend((self.line.len() < LONGEST).then_some(byte));
            } else if !self.line.is_empty() {
                let line = std::mem::take(&mut self.line);
                answered = answered || self.heard(&String::from_utf8_lossy(&line));
            }
        }
        answered
    }

    fn silent(&mut self) -> Silence {
        self.tries += 1;
        self.waited += ANSWER;
        match self.at() {
            At::Set | At::Save | At::Recall => Silence::Over(SettingsEvent::Unclear("no answer to the write".into())),
            At::Reset => Silence::Over(SettingsEvent::Refused("it did not answer to its reset".into())),
            At::Back if self.waited < BOOT => Silence::GoOn,
            At::Gone if self.waited < PERSON => {
                if self.tries >= 2 {
                    self.go(At::Back);
                    self.waited = Duration::ZERO;
                }
                Silence::GoOn
            }
            At::Back | At::Gone => Silence::Over(SettingsEvent::Refused("it was not seen to restart".into())),
            At::Where(letter) if self.tries >= TRIES => {
                self.next_letter(letter);
                Silence::GoOn
            }
            At::Build if self.tries >= TRIES => {
                self.who.model = "ASI".into();
                self.go(At::Where('A'));
                Silence::GoOn
            }
            _ if self.tries < TRIES => Silence::GoOn,
            _ => Silence::Over(SettingsEvent::Unclear("nobody there answers like an ASI controller".into())),
        }
    }

    fn reopened(&mut self) -> bool {
        self.line.clear();
        if self.at() == At::Gone {
            self.go(At::Back);
            self.waited = Duration::ZERO;
        }
        self.at() == At::Back
    }
}
