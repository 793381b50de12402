//! ASI's stage controllers (MS-2000, RM-2000, Tiger) in their ASCII protocol. This is the driver to copy from:
//! `docs/add-a-driver.md` walks through it.
//!
//! Source: asiimaging.com/docs, the pages of the commands that are used here. A question ends with CR, an answer with
//! CR LF, and answers come in the order of their questions. They carry neither a number nor a checksum: what answers
//! what can be told by the answer's shape alone, and after anything unexpected only by asking `V` and waiting for the
//! version, behind which nothing older can come.

mod settings;
mod survey;

use std::collections::VecDeque;
use std::time::Duration;

use super::link::dialogue::Dialogue;
use super::link::{Connector, IDLE, StopScript, Wire, WireEvent};
use super::{Driver, Made, MotionState, OnLink, Open, Reading, Stage, StageEvent, StageFacts};
use crate::config::{self, AxisRules};
use crate::interlocks::{Cleared, Drive, HomeDrive, StageTraits};
use crate::model::{Code, Evidence, Identity, LinkStatus, RigError, Source, Time};
use crate::units::{Distance, Unit, plain};
pub(super) use survey::Roll;

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "asi",
    what: "ASI stage controllers MS-2000, RM-2000 and Tiger (serial commands), linear axes",
    evidence: Evidence::Manual,
    simulated: false,
    family: None,
    keeping: Some(&settings::KEEPING),
    open: Open::Stage {
        // `M X= Y=` starts both axes at once, and each goes at its own speed.
        traits: StageTraits { coordinated: false, homes_single_axes: false },
        // Encoders they are, but on the motor or on the stage: the controller doesn't tell, so the weaker claim holds.
        source: Source::Counter,
        axes: AxisRules {
            channel: |text| letter(text).map(String::from),
            channels: "the controller's letter for the axis: \"X\", \"Y\", \"Z\", \"F\" …",
            counts: None,
        },
        engine,
    },
};

fn engine(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Made {
    let mut connector = Some(connector);
    let make = |stage: &&config::Stage| Some(Box::new(Asi::new(stage, connector.take()?)) as Box<dyn Stage>);
    Made { stages: on.stages.iter().filter_map(make).collect(), ..Made::default() }
}

fn letter(text: &str) -> Option<char> {
    let one = text.chars().next().filter(|c| c.is_ascii_alphabetic() && text.len() == 1);
    one.map(|c| c.to_ascii_uppercase())
}

/// Positions go over the wire in tenths of a micrometre: so many a millimetre (`UM`, its default).
const PER_MM: f64 = 10_000.0;
/// So near to a limit, in mm, is on it: less than the last digit that goes over the wire.
const NEAR: f64 = 1e-6;
/// How long a question may stay unanswered. The longest answer takes 40 ms at 9600 baud.
const ANSWER: Duration = Duration::from_millis(300);
/// How long an order may; what it moves is stopped then.
const ORDER: Duration = Duration::from_millis(500);
/// How long a stop may until it is sent again.
const HALT_ANSWER: Duration = Duration::from_millis(100);
/// How long an order may wait for its place on the line. What it was judged by is as old.
const WAIT: Duration = Duration::from_millis(500);
/// How long it may answer nothing until it is thought to be gone, and how often one is tried that can't be driven.
const DEAF: Duration = Duration::from_secs(2);
/// So many lines in a row that answer nothing make the connection `degraded`.
const DEGRADED: u32 = 3;
/// The longest line that is put together.
const LONGEST: usize = 256;

/// What is asked, with the index of the axis that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Version,
    Busy,
    /// `W X`, answered by `:A 5`.
    Value(&'static str, usize),
    /// `SL X?`, answered by `:A X=5`.
    Setting(&'static str, usize),
    Speed,
    Move,
    Halt,
}

/// An answer, understood.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Done,
    Busy(bool),
    Number(f64),
    Text(String),
    /// `:N-x`
    No(u32),
}

/// Reads a line as the answer to a question about the axis of that letter; `None` when it can't be that answer.
fn answer(line: &str, question: Question, letter: char) -> Option<Answer> {
    let line = line.trim_end();
    if let Some(code) = line.strip_prefix(":N-") {
        let code = code.bytes().all(|b| b.is_ascii_digit()).then(|| code.parse().ok())??;
        return Some(Answer::No(code));
    }
    let positive = line.strip_prefix(":A").filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim_start);
    match question {
        Question::Busy => match line {
            "B" => Some(Answer::Busy(true)),
            "N" => Some(Answer::Busy(false)),
            _ => None,
        },
        // MS-2000 says `Version: USB-9.2m`, Tiger `v3.45`.
        Question::Version => positive
            .filter(|t| t.starts_with(['V', 'v']) && t.contains(|c: char| c.is_ascii_digit()))
            .map(|t| Answer::Text(t.to_owned())),
        Question::Value(..) => number(positive?).map(Answer::Number),
        Question::Setting(..) => {
            let (name, value) = positive?.split_once('=')?;
            number(value).filter(|_| name.len() == 1 && name.starts_with(letter)).map(Answer::Number)
        }
        Question::Speed | Question::Move | Question::Halt => positive?.is_empty().then_some(Answer::Done),
    }
}

/// A number in plain notation.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
    plain.then(|| text.parse().ok())?.filter(|n: &f64| n.is_finite())
}

/// What an error code means (asiimaging.com/docs, "Error Codes").
fn refusal(code: u32) -> String {
    let words = match code {
        1 => "unknown command",
        2 => "unrecognised axis",
        3 => "missing parameters",
        4 => "parameter out of range",
        5 => "operation failed",
        6 => "undefined error",
        7 => "invalid card address",
        21 => "halted by HALT",
        _ => "a code that the manual doesn't name",
    };
    format!(":N-{code} ({words})")
}

struct Axis {
    config: config::Axis,
    letter: char,
    known: Known,
}

/// What an axis told on this connection.
#[derive(Default)]
struct Known {
    /// The controller's own limits, in mm.
    low: Option<f64>,
    high: Option<f64>,
    /// Whether it tells its status byte.
    flags: bool,
    /// The newest count, and the one that it is sent to.
    count: Option<f64>,
    goal: Option<f64>,
}

/// A reading in progress.
#[derive(Default)]
struct Round {
    asked_at: Time,
    step: usize,
    busy: bool,
    counts: Vec<f64>,
    at_limit: Vec<bool>,
}

/// What is under way on this connection.
#[derive(Default)]
struct Talk {
    /// The question of [`Asi::lesson`] that is next, until all are answered.
    learning: Option<usize>,
    notes: Vec<String>,
    orders: VecDeque<(Question, String)>,
    /// When the next of them could go out.
    ordered_at: Time,
    round: Option<Round>,
    poll_wanted: bool,
    /// A question went unanswered since the last reading.
    unsure: bool,
    silent_since: Option<Time>,
}

struct Asi {
    wire: Wire,
    rx: Vec<u8>,
    line: Dialogue<Question>,
    /// Nothing older can come than the answer to the next question.
    in_step: bool,
    damaged: u32,
    version: String,
    axes: Vec<Axis>,
    talk: Talk,
    events: Vec<StageEvent>,
    /// It moves, or may.
    moves: bool,
    /// A stop that is not proved yet, and whether it was acknowledged.
    stop: Option<bool>,
    not_before: Time,
}

impl Asi {
    fn new(stage: &config::Stage, connector: Box<dyn Connector>) -> Asi {
        // config refuses what is no letter.
        let axis = |a: &config::Axis| (letter(&a.channel).unwrap_or('?'), a.clone());
        let axes = stage.axes.iter().map(axis);
        Asi {
            wire: Wire::new(connector),
            rx: Vec::new(),
            line: Dialogue::new(),
            in_step: false,
            damaged: 0,
            version: String::new(),
            axes: axes.map(|(letter, config)| Axis { config, letter, known: Known::default() }).collect(),
            talk: Talk::default(),
            events: Vec::new(),
            moves: false,
            stop: None,
            not_before: Time::ZERO,
        }
    }

    // ---- asking -----------------------------------------------------------------------------------------------

    /// Sends what is most important, if nothing is awaited: never two questions at once.
    fn ask_next(&mut self, now: Time) {
        if !self.line.is_free() || !self.wire.is_free() || now < self.not_before {
            return;
        }
        if !self.in_step {
            self.ask(Question::Version, "V\r", ANSWER, now);
        } else if self.stop == Some(false) {
            self.send_stop("HALT\r", now);
        } else if let Some((question, text)) = self.due_order(now) {
            self.moves |= question == Question::Move;
            self.ask(question, &text, ORDER, now);
        } else if let Some(step) = self.talk.learning {
            match self.lesson(step) {
                Some(question) => self.ask_axis(question, now),
                None => self.online(now),
            }
        } else if self.talk.round.is_some() || std::mem::take(&mut self.talk.poll_wanted) {
            let fresh = || Round { asked_at: now, at_limit: vec![false; self.axes.len()], ..Round::default() };
            let step = self.talk.round.get_or_insert_with(fresh).step;
            match self.page(step) {
                Some(question) => self.ask_axis(question, now),
                None => self.read(now),
            }
        }
    }

    fn ask(&mut self, question: Question, text: &str, patience: Duration, now: Time) {
        self.wire.send(text.as_bytes(), now);
        self.line.ask(question, now, patience, patience);
    }

    fn ask_axis(&mut self, question: Question, now: Time) {
        let text = match question {
            Question::Value(command, i) => format!("{command} {}\r", self.axes[i].letter),
            Question::Setting(command, i) => format!("{command} {}?\r", self.axes[i].letter),
            _ => "/\r".to_owned(),
        };
        self.ask(question, &text, ANSWER, now);
    }

    /// The questions of an identification, for each axis: is it there, what is its unit, does it overshoot, where are
    /// the controller's own limits, and does it tell its limit switches?
    fn lesson(&self, step: usize) -> Option<Question> {
        let axis = step / 6;
        let of_axis = [
            Question::Value("W", axis),
            Question::Setting("UM", axis),
            Question::Setting("B", axis),
            Question::Setting("SL", axis),
            Question::Setting("SU", axis),
            Question::Value("RS", axis),
        ];
        (axis < self.axes.len()).then(|| of_axis[step % 6])
    }

    /// The questions of a reading: where each axis is, between two times `/`. So a line too many can't pass one
    /// axis's position off as another's, and what is said to stand stood before and after its position was told.
    /// At rest the limit switches too. Each axis is asked for itself: together they'd be told in the hardware's order.
    fn page(&self, step: usize) -> Option<Question> {
        let n = self.axes.len();
        let rests = self.talk.round.as_ref().is_some_and(|r| !r.busy);
        match step {
            0 => Some(Question::Busy),
            _ if step <= n => Some(Question::Value("W", step - 1)),
            _ if step == n + 1 => Some(Question::Busy),
            _ => self
                .axes
                .get(step - n - 2)
                .filter(|a| rests && a.known.flags)
                .map(|_| Question::Value("RS", step - n - 2)),
        }
    }

    fn due_order(&mut self, now: Time) -> Option<(Question, String)> {
        if !self.talk.orders.is_empty() && now.since(self.talk.ordered_at) > WAIT {
            self.talk.orders.clear();
            let what = "it was not told to move: the line was not free in time".to_owned();
            self.events.push(StageEvent::Refused { code: Code::Busy, what });
        }
        self.talk.orders.pop_front()
    }

    // ---- stopping ---------------------------------------------------------------------------------------------

    /// Stops past everything else, and goes on until a reading proves it.
    fn begin_stop(&mut self, word: &str, now: Time) -> bool {
        self.talk.orders.clear();
        self.talk.round = None;
        self.talk.poll_wanted = true;
        self.stop = Some(false);
        self.wire.is_open() && self.send_stop(word, now)
    }

    fn send_stop(&mut self, word: &str, now: Time) -> bool {
        // A line that was cut off must end before the stop begins, or the stop would be a part of it. What it says
        // so far may be carried out, for the time that a few bytes take.
        let cut = if self.wire.is_free() { "" } else { "\r" };
        self.line.ask(Question::Halt, now, HALT_ANSWER, HALT_ANSWER);
        // What was asked before may still be answered.
        self.in_step = false;
        self.wire.preempt([cut, word].concat().as_bytes(), b"", now).handed
    }

    // ---- hearing ----------------------------------------------------------------------------------------------

    fn hear(&mut self, bytes: &[u8], now: Time) {
        for byte in bytes {
            if !matches!(byte, b'\r' | b'\n') {
                self.rx.extend((self.rx.len() < LONGEST).then_some(byte));
            } else if !self.rx.is_empty() {
                let line = std::mem::take(&mut self.rx);
                self.hear_line(&String::from_utf8_lossy(&line), now);
            }
        }
    }

    fn hear_line(&mut self, line: &str, now: Time) {
        let asked = self.line.current().map(|a| a.what);
        let letter = match asked {
            Some(Question::Setting(_, i)) => self.axes[i].letter,
            _ => ' ',
        };
        let whole = line.bytes().all(|b| (b' '..=b'~').contains(&b));
        let answer = asked.filter(|_| whole).and_then(|q| answer(line, q, letter).map(|a| (q, a)));
        let Some((question, answer)) = answer.filter(|(question, answer)| self.may_be(*question, answer)) else {
            // Damage takes the place of an answer, which the clock will show. A line that is whole is one too many.
            self.in_step &= !whole;
            self.damaged += 1;
            self.wire.status.degraded = self.damaged >= DEGRADED;
            self.wire.status.bad_frames += 1;
            let what = format!("Dropped a line that answers nothing: {}", line.escape_default());
            self.wire.status.last_error = Some(what);
            return;
        };
        self.line.finish();
        self.damaged = 0;
        self.wire.status.degraded = false;
        self.wire.status.frames += 1;
        self.talk.silent_since = None;
        match (question, answer) {
            (Question::Version, Answer::Text(version)) => {
                self.version = version;
                self.talk.round = None;
                self.in_step = true;
            }
            (Question::Halt, _) => self.stop = self.stop.map(|_| true),
            (Question::Speed | Question::Move, answer) => self.ordered(question, &answer, now),
            // What comes out of step may belong to an older question. It is asked again.
            _ if !self.in_step => {}
            (_, answer) if self.talk.learning.is_some() => self.learnt(question, &answer, now),
            (_, answer) => self.told(question, &answer),
        }
    }

    /// Whether that can be: a reading is not refused, for each of its questions was answered once; and only a stop is
    /// told that it halted something, which is its success.
    fn may_be(&self, question: Question, answer: &Answer) -> bool {
        match (question, answer) {
            (Question::Halt, Answer::No(code)) => *code == 21,
            (Question::Speed | Question::Move, Answer::No(code)) => *code != 21,
            (Question::Value(..) | Question::Setting(..), Answer::No(_)) => self.talk.learning.is_some(),
            (_, Answer::No(_)) => false,
            _ => true,
        }
    }

    /// An answer is late: whatever comes now is not believed until it is in step again.
    fn overdue(&mut self, now: Time) {
        let Some(asked) = self.line.overdue(now) else { return };
        let what = format!("No answer within {} ms.", now.since(asked.at).as_millis());
        self.wire.status.timeouts += 1;
        self.wire.status.last_error = Some(what.clone());
        self.in_step = false;
        self.talk.unsure = true;
        self.talk.round = None;
        self.talk.poll_wanted = true;
        match asked.what {
            // It may be moving: what is told here leads to a stop.
            Question::Move => self.events.push(StageEvent::Unanswered { what }),
            Question::Speed => {
                self.talk.orders.clear();
                self.events.push(StageEvent::Refused { code: Code::NotResponding, what: "it did not answer".into() });
            }
            _ => {}
        }
        if now.since(*self.talk.silent_since.get_or_insert(asked.at)) >= DEAF {
            let what = format!(
                "No answer from {} for {} s. Is the controller on, and is `baud` what its switches say (9600, 19200, \
                 28800 or 115200)?",
                self.wire.status.port,
                DEAF.as_secs()
            );
            self.begin_anew();
            self.events.push(StageEvent::Offline { code: Code::NotResponding, what });
        }
        if self.stop == Some(false) && asked.what != Question::Halt {
            self.send_stop("HALT\r", now);
        }
    }

    // ---- what answers mean ------------------------------------------------------------------------------------

    fn learnt(&mut self, question: Question, answer: &Answer, now: Time) {
        self.talk.learning = self.talk.learning.map(|step| step + 1);
        let (Question::Value(command, i) | Question::Setting(command, i)) = question else { return };
        let Axis { config, letter, known } = &mut self.axes[i];
        match (command, answer) {
            ("W", Answer::No(code)) => {
                let what = format!("Asked where its axis {letter} is it said {}", refusal(*code));
                let what = format!("{what}: correct the `channel` of {} in the rig file.", config.id);
                self.refuse(what, now);
            }
            ("W", _) if config.unit == Unit::Deg => {
                let what = format!("{} turns; this driver moves linear axes only.", config.id);
                self.refuse(what, now);
            }
            ("UM", Answer::Number(per_mm)) if *per_mm != PER_MM => {
                let [is, should] = [*per_mm, PER_MM].map(plain);
                let what = format!("Its axis {letter} counts {is} a millimetre (`UM`); this driver needs {should}.");
                self.refuse(what, now);
            }
            ("B", Answer::Number(mm)) if mm.abs() > config.tolerance.in_base() => {
                let far = format!(
                    "By its own backlash compensation axis {letter} goes {} mm past a target (`B`)",
                    plain(*mm)
                );
                self.talk.notes.push(format!("{far}, and is stopped for it: set it to 0, and use `approach`."));
            }
            ("SL", Answer::Number(mm)) => known.low = Some(*mm),
            ("SU", Answer::Number(mm)) => known.high = Some(*mm),
            ("RS", Answer::Number(_)) => known.flags = true,
            // Older firmware lacks some questions. What it can't tell is done without, and said once.
            (_, Answer::No(code)) => {
                self.talk.notes.push(format!("It does not answer `{command} {letter}`: {}.", refusal(*code)));
            }
            _ => {}
        }
    }

    /// It can't be driven as the rig file has it: it is only asked again now and then.
    fn refuse(&mut self, what: String, now: Time) {
        self.begin_anew();
        self.not_before = now + DEAF;
        self.events.push(StageEvent::Offline { code: Code::NotConnected, what });
    }

    fn online(&mut self, now: Time) {
        let range = |a: &Axis| a.known.low.zip(a.known.high).map(|(low, high)| [low.min(high), low.max(high)]);
        let long = |[low, high]: [f64; 2]| Distance::base(high - low).ok();
        let model = if self.version.starts_with('v') { "ASI Tiger" } else { "ASI MS-2000" };
        let firmware = self.version.trim_start_matches("Version:").trim_start().to_owned();
        let notes = std::mem::take(&mut self.talk.notes);
        let facts = StageFacts {
            identity: Identity { model: model.to_owned(), firmware, serial: String::new(), notes },
            travel: self.axes.iter().map(|a| range(a).and_then(long)).collect(),
            range: self.axes.iter().map(range).collect(),
            // `!` goes to a remembered position, or against the end: it finds no reference.
            homes: Some(false),
            ..StageFacts::default()
        };
        self.events.push(StageEvent::Online(Box::new(facts)));
        self.talk.learning = None;
        self.talk.poll_wanted = true;
        self.ask_next(now);
    }

    fn ordered(&mut self, question: Question, answer: &Answer, now: Time) {
        self.talk.ordered_at = now;
        self.talk.poll_wanted = true;
        if let Answer::No(code) = answer {
            self.talk.orders.clear();
            self.events.push(StageEvent::Refused { code: Code::ControllerRefused, what: refusal(*code) });
        } else if question == Question::Move {
            self.events.push(StageEvent::Accepted);
        }
    }

    fn told(&mut self, question: Question, answer: &Answer) {
        let Some(round) = &mut self.talk.round else { return };
        round.step += 1;
        match (question, answer) {
            (_, Answer::Busy(busy)) => round.busy |= busy,
            (Question::Value("W", _), Answer::Number(count)) => round.counts.push(*count),
            // Bits 6 and 7 of the status byte are the upper and the lower limit switch (`RDSBYTE`).
            (Question::Value(_, i), Answer::Number(byte)) => round.at_limit[i] = *byte as u64 & 0xC0 != 0,
            _ => {}
        }
    }

    /// A reading is complete.
    fn read(&mut self, now: Time) {
        let Some(Round { asked_at, busy, counts, at_limit, .. }) = self.talk.round.take() else { return };
        if self.was_reset(&counts) {
            self.begin_anew();
            let what = "All its positions are 0 at once, as after a restart or the ZERO button.".to_owned();
            return self.events.push(StageEvent::Reset { what });
        }
        self.talk.unsure = false;
        self.moves = busy;
        if self.stop == Some(true) {
            // Acknowledged, and proved now; or it goes on, and is told again.
            self.stop = busy.then_some(false);
            self.talk.poll_wanted |= busy;
        }
        for (axis, count) in self.axes.iter_mut().zip(&counts) {
            axis.known.count = Some(*count);
            axis.known.goal = axis.known.goal.filter(|_| busy);
        }
        let motion = if busy { MotionState::Moving } else { MotionState::Idle };
        let positions = self.axes.iter().map(|a| a.config.to_rig(a.known.count? / PER_MM)).collect();
        self.events.push(StageEvent::Reading(Reading { asked_at, motion, positions, at_limit }));
        self.ask_next(now);
    }

    /// It says nothing when it restarts. But then all its counters are 0, where no order has sent them; and after a
    /// silence 0 proves nothing.
    fn was_reset(&self, counts: &[f64]) -> bool {
        let on_its_way = |a: &Axis| {
            let (from, to) = (a.known.count.unwrap_or(0.0), a.known.goal.or(a.known.count).unwrap_or(0.0));
            from.min(to) <= 0.0 && 0.0 <= from.max(to)
        };
        let known = self.axes.iter().all(|a| a.known.count.is_some());
        let at_zero = counts.iter().all(|c| *c == 0.0);
        known && at_zero && (self.talk.unsure || !self.axes.iter().all(on_its_way))
    }

    /// Forgets what was learnt, but not that something may still move.
    fn begin_anew(&mut self) {
        if self.moves {
            self.stop = Some(false);
        }
        self.talk = Talk { learning: Some(0), ..Talk::default() };
        self.axes.iter_mut().for_each(|a| a.known = Known::default());
    }

    fn connection(&mut self, event: WireEvent, now: Time) {
        self.rx.clear();
        self.line.finish();
        self.in_step = false;
        self.begin_anew();
        let (code, what) = match event {
            WireEvent::Opened => {
                if self.stop.is_some() {
                    self.begin_stop("HALT\r", now);
                }
                return;
            }
            WireEvent::NotOpened(what) => (Code::NotConnected, what),
            WireEvent::Lost(what) => (Code::Unplugged, what),
        };
        self.events.push(StageEvent::Offline { code, what });
    }

    /// The two lines of a move: how fast, and where. Nothing of it is saved in the controller.
    fn lines(&self, drive: &Drive) -> Result<[(Question, String); 2], RigError> {
        let (mut speeds, mut targets) = ("S".to_owned(), "M".to_owned());
        for part in &drive.axes {
            let Some(Axis { config, letter, known }) = self.axes.get(part.index) else { continue };
            let mm = config.to_counter(part.to);
            // The controller would take such a target, go as far as its limit, and say that all is well.
            let (low, high) = (known.low.unwrap_or(mm), known.high.unwrap_or(mm));
            if !(low.min(high) - NEAR <= mm && mm <= low.max(high) + NEAR) {
                let [low, high, mm] = [low, high, mm].map(plain);
                let what =
                    format!("the controller lets {letter} go from {low} to {high} mm (`SL`, `SU`), not to {mm} mm.");
                return Err(RigError::new(Code::ControllerRefused, format!("By its own limits {what}")));
            }
            // Rounded down, so that no limit is exceeded.
            let speed = (part.speed.in_base() * 1e4 + 1e-6).floor() / 1e4;
            if !(speed > 0.0 && mm.abs() < 1e6) {
                let what = format!("{} can't be told to go to {mm} mm at {speed} mm/s.", config.id);
                return Err(RigError::new(Code::InvalidArgument, what));
            }
            speeds += &format!(" {letter}={speed:.4}");
            targets += &format!(" {letter}={:.1}", mm * PER_MM);
        }
        // The speed is told each time: a controller that was restarted meanwhile would go at its own.
        Ok([(Question::Speed, speeds + "\r"), (Question::Move, targets + "\r")])
    }
}

impl Stage for Asi {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        let mut bytes = Vec::new();
        let event = self.wire.pump(now, &mut bytes);
        self.hear(&bytes, now);
        if let Some(event) = event {
            self.connection(event, now);
        }
        if self.wire.is_open() {
            self.overdue(now);
            self.ask_next(now);
        }
        out.append(&mut self.events);
        let next = match self.line.current() {
            Some(asked) => self.wire.listen(now, asked.at, self.line.deadline()),
            None => now + IDLE,
        };
        self.wire.wants(now).map_or(next, |wish| wish.min(next)).max(now)
    }

    fn poll(&mut self, _: Time) {
        self.talk.poll_wanted = true;
    }

    fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError> {
        let ordered = self.line.current().is_some_and(|a| matches!(a.what, Question::Speed | Question::Move));
        let busy = ordered || !self.talk.orders.is_empty() || self.stop.is_some();
        if busy || self.talk.learning.is_some() || !self.wire.is_open() {
            return Err(RigError::new(Code::Busy, "The controller is still busy with its last command."));
        }
        let drive = order.obey();
        self.talk.orders = self.lines(&drive)?.into();
        self.talk.ordered_at = now;
        self.talk.round = None;
        for part in &drive.axes {
            let Axis { config, known, .. } = &mut self.axes[part.index];
            known.goal = Some(config.to_counter(part.to) * PER_MM);
        }
        self.ask_next(now);
        Ok(())
    }

    fn home(&mut self, _: Cleared<'_, HomeDrive>, _: Time) -> Result<(), RigError> {
        let what = "ASI's HOME goes to a remembered position and finds no reference. Write home = \"never\", and declare \
                    where the axes stand with `steadyhand reference`.";
        Err(RigError::new(Code::Unsupported, what))
    }

    fn stop(&mut self, now: Time) -> bool {
        self.begin_stop("HALT\r", now)
    }

    /// RESET: it stops everything, and all positions are 0 then.
    fn halt(&mut self, now: Time) -> bool {
        let what = "the controller was reset to stop it".to_owned();
        self.events.push(StageEvent::PositionLost { what });
        self.begin_stop("~\r", now)
    }

    fn stop_script(&self, _: bool) -> StopScript {
        StopScript { first: b"\r", stop: b"HALT\r".to_vec(), last: b"", end: b'\r' }
    }

    /// It has no lock.
    fn recover(&mut self, _: Time) {
        self.events.push(StageEvent::Recovered);
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
    use super::*;

    /// Questions, and lines that answer them; from the manual's examples.
    #[test]
    fn an_answer_is_known_by_its_shape() {
        let number = |n| Some(Answer::Number(n));
        for (question, line, understood) in [
            (Question::Busy, "B", Some(Answer::Busy(true))),
            (Question::Busy, "N ", Some(Answer::Busy(false))),
            (Question::Busy, "NN", None),
            (Question::Value("W", 0), ":A 1234.5 ", number(1234.5)),
            (Question::Value("W", 0), ":A -3", number(-3.0)),
            (Question::Value("W", 0), ":A 1234.5 432.1", None),
            (Question::Value("W", 0), ":A 1e5", None),
            (Question::Value("W", 0), ":A", None),
            (Question::Value("W", 0), ":AX5", None),
            (Question::Value("RS", 0), ":A 138", number(138.0)),
            (Question::Setting("SL", 0), ":A X=-110.000", number(-110.0)),
            (Question::Setting("SL", 0), ":A Y=-110.000", None),
            (Question::Version, ":A Version: USB-9.2m", Some(Answer::Text("Version: USB-9.2m".into()))),
            (Question::Version, ":A v3.45", Some(Answer::Text("v3.45".into()))),
            (Question::Version, ":A 5", None),
            (Question::Move, ":A", Some(Answer::Done)),
            (Question::Move, ":A 5", None),
            (Question::Move, ":N-4", Some(Answer::No(4))),
            (Question::Halt, ":N-21", Some(Answer::No(21))),
            (Question::Halt, ":N-", None),
            (Question::Halt, ":N-2x", None),
            (Question::Halt, "B", None),
        ] {
            assert_eq!(answer(line, question, 'X'), understood, "{question:?} {line:?}");
        }
    }

    #[test]
    fn a_channel_is_one_letter() {
        assert_eq!((letter("x"), letter("Z")), (Some('X'), Some('Z')));
        assert!(["", "1", "XY", "é", " X"].iter().all(|bad| letter(bad).is_none()));
    }
}
