//! The driver: connects, identifies, asks, moves, homes, stops. Ticked, never waiting.
//!
//! At most one line waits for its `ok`, and at most one status question `?` for its report; the two don't get
//! in each other's way, since reports are told by their brackets.

use std::collections::BTreeMap;
use std::time::Duration;

use super::codec::{Line, Lines, Raw, Report, State, alarm_meaning, axis_letter, error_meaning, move_line, parse};
use super::dialect::Dialect;
use crate::config;
use crate::devices::link::dialogue::Dialogue;
use crate::devices::link::{Connector, IDLE, Wire, WireEvent};
use crate::devices::{MotionState, Reading, Stage, StageEvent, StageFacts};
use crate::interlocks::{Cleared, Drive, HomeDrive};
use crate::model::{Code, Identity, LinkStatus, RigError, Time};
use crate::units::{Distance, Position, Speed};

const JOG_CANCEL: u8 = 0x85;
const FEED_HOLD: u8 = b'!';
const SOFT_RESET: u8 = 0x18;
const STATUS: u8 = b'?';

/// Makes a line that was cut off unexecutable: `@` is no command letter in any place where GRBL reads one, nor
/// part of a number or a `$` command, so the whole line is refused (error 1, 2 or 3).
const SPOIL: &[u8] = b"@\n";

/// How long a board may take to boot after its port was opened (an Arduino's bootloader takes 1.5 s).
const BOOT: Duration = Duration::from_secs(4);
/// How often it is asked whether it is there.
const KNOCK: Duration = Duration::from_millis(250);
/// How long an ordinary line may stay unanswered, and a long answer may pause.
const ANSWER: Duration = Duration::from_secs(2);
/// The longest that a long answer (`$$`) may take in all.
const LONG_ANSWER: Duration = Duration::from_secs(10);
/// How long a `?` may stay unanswered.
const REPORT: Duration = Duration::from_millis(500);
/// So many unanswered `?` in a row mean that nobody is there.
const MISSED_REPORTS: u32 = 6;
/// So many damaged lines in a row make the connection `degraded`.
const DEGRADED: u32 = 3;
/// Quiet time on the line before it is believed again after an answer was missed.
const QUIET: Duration = Duration::from_millis(100);
/// How soon after a stop byte the next one follows while the axes still move.
const STOP_AGAIN: Duration = Duration::from_millis(50);

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Version,
    Settings,
    Modes,
    Motion,
    Home,
    Unlock,
    /// `$G` once more, to find the place in the stream after an answer was missed.
    Sync,
}

/// How far the connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The port is closed.
    Closed,
    /// The port is open; nobody has spoken yet.
    Boot { since: Time, knocked: Option<Time> },
    /// It speaks.
    Identify,
    /// Known.
    Ready,
}

/// What runs by our order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Motion {
    Jog,
    Program,
    Home,
}

/// A stop that is being carried through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stopping {
    since: Time,
    last: Time,
    /// Whether a program move is held, so that the rest of it must be flushed once it stands.
    flush: bool,
}

/// A restart that is our own doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnReset {
    at: Time,
    /// Whether the position is lost by it: it was in motion, or nobody knows.
    loses: bool,
    /// Whether `$X` follows.
    unlock: bool,
    /// Whether the banner must come.
    must: bool,
}

pub(super) struct Grbl {
    axes: Vec<(config::Axis, char, usize)>,
    wire: Wire,
    lines: Lines,
    phase: Phase,
    dialect: Dialect,
    settings: BTreeMap<u16, f64>,
    notes: Vec<String>,
    line: Dialogue<Ask>,
    /// The oldest `?` that has not been answered.
    status: Dialogue<()>,
    poll_wanted: bool,
    missed: u32,
    damaged: u32,
    motion: Option<Motion>,
    stopping: Option<Stopping>,
    own_reset: Option<OwnReset>,
    /// After a missed answer: quiet until then, then `$G`, and only after its `[GC:` an `ok` counts.
    resync: Option<Time>,
    sync_seen: bool,
    /// The controller answers nothing but a reset (`ALARM:1`, `ALARM:2`).
    deaf: bool,
    recovering: bool,
    homing_alarm: Option<String>,
    last_state: Option<State>,
    offset: Option<Vec<f64>>,
    now: Time,
}

impl Grbl {
    pub(super) fn new(stage: &config::Stage, connector: Box<dyn Connector>) -> Grbl {
        let axes = stage
            .axes
            .iter()
            .map(|a| {
                // config refuses channels that are no letter; place 6 is in no report, so such an axis would
                // never have a position.
                let (letter, place) = axis_letter(&a.channel).unwrap_or(('?', 6));
                (a.clone(), letter, place)
            })
            .collect();
        Grbl {
            axes,
            wire: Wire::new(connector),
            lines: Lines::default(),
            phase: Phase::Closed,
            dialect: Dialect::read(""),
            settings: BTreeMap::new(),
            notes: Vec::new(),
            line: Dialogue::new(),
            status: Dialogue::new(),
            poll_wanted: false,
            missed: 0,
            damaged: 0,
            motion: None,
            stopping: None,
            own_reset: None,
            resync: None,
            sync_seen: false,
            deaf: false,
            recovering: false,
            homing_alarm: None,
            last_state: None,
            offset: None,
            now: Time::ZERO,
        }
    }

    /// Forgets all that belongs to a connection or a boot.
    fn forget(&mut self) {
        self.line = Dialogue::new();
        self.status = Dialogue::new();
        self.missed = 0;
        self.motion = None;
        self.stopping = None;
        self.own_reset = None;
        self.resync = None;
        self.deaf = false;
        self.recovering = false;
        self.homing_alarm = None;
        self.last_state = None;
        self.offset = None;
    }

    fn ask(&mut self, what: Ask, bytes: &[u8], now: Time, patience: Duration, cap: Duration) {
        self.wire.send(bytes, now);
        self.line.ask(what, now, patience, cap);
    }

    fn can_ask(&self) -> bool {
        self.line.is_free() && self.wire.is_free() && self.resync.is_none() && !self.deaf
    }

    // ---- what arrives -------------------------------------------------------------------------------------

    fn hear(&mut self, raw: Raw, now: Time, out: &mut Vec<StageEvent>) {
        let text = match raw {
            Raw::Line(text) => text,
            Raw::Damaged(text) => return self.bad_frame(&format!("a damaged line: {text}"), out),
        };
        match parse(&text) {
            Line::Broken => self.bad_frame(&format!("a broken report: {text}"), out),
            understood => {
                self.wire.status.frames += 1;
                self.damaged = 0;
                self.wire.status.degraded = false;
                self.line.heard(now);
                self.understand(understood, now, out);
            }
        }
    }

    fn bad_frame(&mut self, what: &str, out: &mut Vec<StageEvent>) {
        self.wire.status.bad_frames += 1;
        self.wire.status.last_error = Some(format!("Dropped {what}"));
        self.damaged += 1;
        if self.damaged == DEGRADED {
            self.wire.status.degraded = true;
            out.push(StageEvent::Note(format!("{DEGRADED} damaged lines in a row; the last was {what}")));
        }
    }

    fn understand(&mut self, line: Line, now: Time, out: &mut Vec<StageEvent>) {
        match line {
            Line::Banner(text) => self.banner(&text, now, out),
            Line::Report(report) => self.report(&report, now, out),
            Line::Alarm(number, text) => self.alarm(number, &text, out),
            Line::Ok => self.answered(None, now, out),
            Line::Error(number, text) => {
                let what = match number {
                    Some(n) => format!("error:{n}, {}", error_meaning(n)),
                    None => format!("error: {text}"),
                };
                self.answered(Some(what), now, out);
            }
            Line::Setting(number, value) => {
                if let Ok(value) = value.parse::<f64>()
                    && value.is_finite()
                {
                    self.settings.insert(number, value);
                }
            }
            Line::Bracket(tag, rest) => match tag.as_str() {
                "VER" => self.dialect = self.dialect.clone().refined(&rest),
                "GC" => self.sync_seen = true,
                // 0.9: `[0.9j.20160303:]` and `[G0 G54 …]`.
                "" if rest.starts_with("G0 ") || rest.starts_with("G1 ") => self.sync_seen = true,
                "MSG" if rest.contains("Reset to continue") => self.deaf = true,
                _ => {}
            },
            Line::Broken | Line::Other(_) => {}
        }
    }

    fn banner(&mut self, text: &str, now: Time, out: &mut Vec<StageEvent>) {
        let before = self.phase;
        let own = self.own_reset.take();
        let was_homing = self.motion == Some(Motion::Home);
        let homing_alarm = self.homing_alarm.take();
        let recovering = self.recovering;
        self.forget();
        self.dialect = Dialect::read(text);
        match (before, own) {
            (Phase::Ready, Some(own)) => {
                if own.loses {
                    let what = "The controller was reset, which loses its position.".to_owned();
                    out.push(StageEvent::PositionLost { what });
                }
                self.recovering = recovering && own.unlock;
            }
            (Phase::Ready, None) if was_homing => {
                let what = homing_alarm.unwrap_or_else(|| "The controller restarted while it was homing.".into());
                out.push(StageEvent::HomingFailed { what });
            }
            (Phase::Ready, None) => {
                out.push(StageEvent::Reset { what: format!("It restarted by itself and said: {text}") });
                self.phase = Phase::Identify;
            }
            (Phase::Closed, _) => {}
            (Phase::Boot { .. } | Phase::Identify, _) => self.phase = Phase::Identify,
        }
        self.poll(now);
    }

    fn alarm(&mut self, number: Option<u8>, text: &str, out: &mut Vec<StageEvent>) {
        let (what, lost) = match number {
            Some(n) => {
                let (meaning, lost) = alarm_meaning(n);
                (format!("ALARM:{n}, {meaning}"), lost)
            }
            None => (format!("ALARM: {text}"), true),
        };
        if self.motion == Some(Motion::Home) {
            // `ok` and the banner follow a failed homing; neither is a success.
            self.homing_alarm = Some(what);
            return;
        }
        if self.own_reset.is_some() {
            // Our own reset in motion; the banner that follows tells it.
            if let Some(own) = &mut self.own_reset {
                own.loses = true;
            }
            return;
        }
        self.deaf = matches!(number, Some(1 | 2));
        self.motion = None;
        // The line that caused it gets no answer any more.
        if self.deaf {
            self.line.finish();
            self.status.finish();
        }
        let what = if self.deaf { format!("{what}; it needs a reset") } else { what };
        out.push(StageEvent::Alarm { what, position_lost: lost });
    }

    /// An `ok`, or an error in words.
    fn answered(&mut self, error: Option<String>, now: Time, out: &mut Vec<StageEvent>) {
        if self.line.current().is_some_and(|a| a.what == Ask::Sync) && !self.sync_seen {
            // The late answer to what was given up.
            return;
        }
        let Some(asked) = self.line.finish() else {
            if let Some(e) = error {
                out.push(StageEvent::Note(format!("It said {e}, which nobody had asked for.")));
            }
            return;
        };
        match (asked.what, error) {
            (Ask::Motion, None) => out.push(StageEvent::Accepted),
            (Ask::Motion, Some(what)) => {
                self.motion = None;
                out.push(StageEvent::Refused { code: Code::ControllerRefused, what });
            }
            (Ask::Home, None) => {
                self.motion = None;
                match self.homing_alarm.take() {
                    // GRBL says `ok` after the alarm, and then restarts.
                    Some(what) => {
                        self.own_reset = Some(OwnReset { at: now, loses: false, unlock: false, must: false });
                        out.push(StageEvent::HomingFailed { what });
                    }
                    None => out.push(StageEvent::Homed),
                }
            }
            (Ask::Home, Some(what)) => {
                self.motion = None;
                out.push(StageEvent::Refused { code: Code::ControllerRefused, what });
            }
            (Ask::Unlock, None) => {
                self.recovering = false;
                out.push(StageEvent::Recovered);
            }
            (Ask::Unlock, Some(what)) => {
                self.recovering = false;
                out.push(StageEvent::NotRecovered { what });
            }
            (Ask::Version | Ask::Settings | Ask::Modes, error) => {
                if let Some(e) = error {
                    self.notes.push(format!(
                        "It refused {:?} with {e}; what that would have told is taken as unknown.",
                        asked.what
                    ));
                }
                self.identify_next(asked.what, now, out);
            }
            (Ask::Sync, _) => {}
        }
    }

    fn report(&mut self, report: &Report, now: Time, out: &mut Vec<StageEvent>) {
        if let Some(offset) = &report.offset {
            self.offset = Some(offset.clone());
        }
        self.missed = 0;
        self.last_state = Some(report.state);
        if report.state == State::Alarm && self.motion != Some(Motion::Home) {
            self.motion = None;
        }
        self.carry_stop_on(report, now);
        if self.motion == Some(Motion::Jog) && report.state == State::Run && self.stopping.is_none() {
            // A jog that has lost its first bytes is taken for a program move, in other coordinates.
            let what = "It runs a program move although a jog was sent: bytes were lost on the line.".to_owned();
            self.motion = Some(Motion::Program);
            out.push(StageEvent::Astray { what });
        }
        if let Phase::Boot { .. } = self.phase {
            self.phase = Phase::Identify;
        }
        let Some(asked) = self.status.finish() else {
            // Not asked for: its age is unknown, so it is no reading.
            return;
        };
        if self.phase == Phase::Ready {
            out.push(StageEvent::Reading(self.reading(report, asked.at)));
        }
    }

    fn reading(&self, report: &Report, asked_at: Time) -> Reading {
        // `$13=1` makes reports speak inches.
        let scale = match self.settings.get(&13) {
            Some(v) if *v != 0.0 => 25.4,
            _ => 1.0,
        };
        let machine = report.machine.clone().or_else(|| {
            let (work, offset) = (report.work.as_ref()?, self.offset.as_ref()?);
            (work.len() == offset.len()).then(|| work.iter().zip(offset).map(|(w, o)| w + o).collect())
        });
        let positions: Vec<Option<Position>> =
            self.axes.iter().map(|(axis, _, place)| axis.to_rig(machine.as_ref()?.get(*place)? * scale)).collect();
        let pressed = report.pins.as_deref().unwrap_or("");
        let motion = match report.state {
            State::Idle => MotionState::Idle,
            State::Run | State::Jog => MotionState::Moving,
            State::Home => MotionState::Homing,
            State::Hold if self.stopping.is_some() => MotionState::Moving,
            State::Alarm => MotionState::Locked,
            State::Hold | State::Door | State::Check | State::Sleep | State::Tool => {
                MotionState::Held(report.state.word().into())
            }
        };
        Reading {
            asked_at,
            motion,
            positions,
            at_limit: self.axes.iter().map(|(_, letter, _)| pressed.contains(*letter)).collect(),
        }
    }

    // ---- connecting ---------------------------------------------------------------------------------------

    fn identify_next(&mut self, done: Ask, now: Time, out: &mut Vec<StageEvent>) {
        match done {
            Ask::Version => {
                self.settings.clear();
                self.ask(Ask::Settings, b"$$\n", now, ANSWER, LONG_ANSWER);
            }
            Ask::Settings => self.ask(Ask::Modes, b"$G\n", now, ANSWER, LONG_ANSWER),
            _ => {
                self.phase = Phase::Ready;
                out.push(StageEvent::Online(self.facts()));
                self.poll(now);
            }
        }
    }

    fn facts(&mut self) -> StageFacts {
        let mut notes = std::mem::take(&mut self.notes);
        if self.last_state == Some(State::Alarm) {
            notes.push("It was locked when it was identified; home or clear_fault unlocks it.".into());
        }
        if !self.settings.contains_key(&13) {
            notes.push("It did not tell whether it reports millimetres ($13); millimetres are taken.".into());
        }
        let setting = |base: u16, place: usize| {
            let number = base + u16::try_from(place).unwrap_or(0);
            self.settings.get(&number).copied().filter(|v| *v > 0.0)
        };
        let mut facts = StageFacts::default();
        for (axis, letter, place) in &self.axes {
            let max = setting(110, *place).and_then(|mm_per_min| Speed::base(mm_per_min / 60.0).ok());
            if let Some(max) = max
                && max < axis.max_speed
            {
                notes.push(format!(
                    "{} ({letter}) goes at most {} {}/s, the controller's own limit; the rig file allows {}.",
                    axis.id,
                    crate::units::plain(max.to(axis.unit)),
                    axis.unit,
                    crate::units::plain(axis.max_speed.to(axis.unit))
                ));
            }
            if !axis.holds_unpowered && self.settings.get(&1).is_some_and(|v| *v < 255.0) {
                notes.push(format!(
                    "{} does not hold without power, but the controller switches its motors off when idle ($1 is not 255).",
                    axis.id
                ));
            }
            let step = setting(100, *place).and_then(|steps| Distance::base(1.0 / steps).ok());
            if let Some(step) = step
                && axis.tolerance.in_base() < step.in_base() / 2.0
            {
                notes.push(format!(
                    "{}'s tolerance, {} {unit}, is less than half of the controller's step, {} {unit}: moves will miss it.",
                    axis.id,
                    crate::units::plain(axis.tolerance.to(axis.unit)),
                    crate::units::plain(step.to(axis.unit)),
                    unit = axis.unit
                ));
            }
            facts.max_speed.push(max);
            facts.resolution.push(step);
        }
        facts.identity = Identity {
            model: self.dialect.model().into(),
            firmware: self.dialect.version.clone(),
            serial: String::new(),
            notes,
        };
        facts
    }

    fn connect(&mut self, now: Time, out: &mut Vec<StageEvent>) {
        match self.phase {
            Phase::Boot { since, knocked } => {
                if now.since(since) >= BOOT {
                    let what = format!(
                        "{} is open, but nothing there answers like GRBL. Wrong baud rate, wrong device, or settings that are corrupt?",
                        self.wire.status.port
                    );
                    out.push(StageEvent::Offline { code: Code::NotResponding, what });
                    self.phase = Phase::Boot { since: now, knocked: None };
                } else if knocked.is_none_or(|t| now.since(t) >= KNOCK) && self.wire.is_free() {
                    self.wire.aside(&[STATUS], now);
                    self.phase = Phase::Boot { since, knocked: Some(now) };
                }
            }
            // `$` commands need a controller that stands; one that moves by itself is asked until it does.
            Phase::Identify if self.can_ask() => match self.last_state {
                Some(State::Run | State::Jog | State::Home) | None => self.poll_wanted = true,
                Some(_) => self.ask(Ask::Version, b"$I\n", now, ANSWER, LONG_ANSWER),
            },
            _ => {}
        }
    }

    // ---- deadlines ----------------------------------------------------------------------------------------

    fn overdue(&mut self, now: Time, out: &mut Vec<StageEvent>) {
        if let Some(asked) = self.line.overdue(now) {
            self.wire.status.timeouts += 1;
            let what = format!("No answer to {:?} within {} ms.", asked.what, now.since(asked.at).as_millis());
            self.wire.status.last_error = Some(what.clone());
            self.resync = Some(now + QUIET);
            match asked.what {
                Ask::Motion => out.push(StageEvent::Unanswered { what }),
                Ask::Home => {
                    self.motion = None;
                    out.push(StageEvent::HomingFailed { what });
                }
                Ask::Unlock => {
                    self.recovering = false;
                    out.push(StageEvent::NotRecovered { what });
                }
                // Identification begins again.
                Ask::Version | Ask::Settings | Ask::Modes => {}
                Ask::Sync => self.gone(&what, now, out),
            }
        }
        // `?` is not answered while a homing runs: silence is no loss then.
        let silent_by_right = self.motion == Some(Motion::Home) || self.deaf;
        if self.status.overdue(now).is_some() && !silent_by_right {
            self.wire.status.timeouts += 1;
            self.missed += 1;
            if self.missed >= MISSED_REPORTS {
                let what = format!("It has not answered {} status questions in a row.", self.missed);
                self.gone(&what, now, out);
            } else {
                self.poll_wanted = true;
            }
        }
        if self.own_reset.is_some_and(|r| now.since(r.at) >= BOOT) && self.own_reset.take().is_some_and(|r| r.must) {
            self.gone("It did not come back after a reset.", now, out);
        }
    }

    /// The port is open, but nobody is there.
    fn gone(&mut self, what: &str, now: Time, out: &mut Vec<StageEvent>) {
        self.forget();
        self.wire.status.last_error = Some(what.to_owned());
        out.push(StageEvent::Offline { code: Code::NotResponding, what: what.to_owned() });
        self.phase = Phase::Boot { since: now, knocked: None };
    }

    fn resynchronise(&mut self, now: Time) {
        if self.resync.is_some_and(|t| t <= now) && self.line.is_free() && self.wire.is_free() {
            self.resync = None;
            self.sync_seen = false;
            self.ask(Ask::Sync, b"$G\n", now, ANSWER, LONG_ANSWER);
        }
    }

    // ---- stopping -----------------------------------------------------------------------------------------

    /// The byte that stops what runs, as far as is known.
    fn stop_byte(&self) -> u8 {
        match (self.motion, self.last_state) {
            (Some(Motion::Home), _) | (_, Some(State::Home)) => SOFT_RESET,
            (Some(Motion::Program), _) | (_, Some(State::Run)) => FEED_HOLD,
            // Harmless where nothing jogs.
            _ => JOG_CANCEL,
        }
    }

    fn send_stop(&mut self, byte: u8, now: Time) -> bool {
        let cut = self.wire.preempt(&[byte], SPOIL, now);
        if cut.dropped {
            // It never went out, so it gets no answer.
            self.line.finish();
            self.motion = None;
        }
        if byte == SOFT_RESET {
            let loses = self.motion.is_some() || self.last_state != Some(State::Idle);
            self.note_own_reset(now, loses, false);
        }
        cut.handed
    }

    fn note_own_reset(&mut self, now: Time, loses: bool, unlock: bool) {
        self.own_reset = Some(OwnReset { at: now, loses, unlock, must: true });
        self.line.finish();
        self.status.finish();
        self.stopping = None;
        self.motion = None;
        self.deaf = false;
    }

    /// The stop byte of a jog is ignored by a controller that has not begun the jog yet, and a held program
    /// move stays in the planner: so the stop is repeated and completed until it stands.
    fn carry_stop_on(&mut self, report: &Report, now: Time) {
        let Some(stopping) = self.stopping else { return };
        match report.state {
            State::Run | State::Jog if now.since(stopping.last) >= STOP_AGAIN => {
                let byte = if report.state == State::Run { FEED_HOLD } else { JOG_CANCEL };
                let flush = stopping.flush || byte == FEED_HOLD;
                self.wire.preempt(&[byte], SPOIL, now);
                self.stopping = Some(Stopping { last: now, flush, ..stopping });
            }
            // Held and at rest: what is still planned is thrown away, which keeps the position.
            State::Hold if report.sub == Some(0) => {
                self.wire.preempt(&[SOFT_RESET], SPOIL, now);
                self.note_own_reset(now, false, true);
            }
            // 0.9 does not say when a hold is complete.
            State::Hold if report.sub.is_none() && now.since(stopping.last) >= Duration::from_secs(1) => {
                self.wire.preempt(&[SOFT_RESET], SPOIL, now);
                self.note_own_reset(now, true, true);
            }
            State::Idle | State::Alarm => {
                // A report from before the stop proves nothing, and an unanswered line may still begin.
                let newer = self.status.current().is_some_and(|a| a.at >= stopping.since);
                if newer && self.line.current().is_none_or(|a| a.what != Ask::Motion) {
                    self.stopping = None;
                    self.motion = None;
                }
            }
            _ => {}
        }
    }

    fn start(
        &mut self,
        what: Ask,
        motion: Motion,
        bytes: &[u8],
        patience: Duration,
        now: Time,
    ) -> Result<(), RigError> {
        if self.phase != Phase::Ready || !self.can_ask() || self.stopping.is_some() || self.own_reset.is_some() {
            let error = RigError::new(Code::Busy, "The controller is still busy with its last command.");
            return Err(error);
        }
        self.motion = Some(motion);
        self.homing_alarm = None;
        self.ask(what, bytes, now, patience, patience);
        Ok(())
    }
}

impl Stage for Grbl {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        self.now = now;
        let mut bytes = Vec::new();
        let event = self.wire.pump(now, &mut bytes);
        let mut lines = Vec::new();
        self.lines.push(&bytes, |l| lines.push(l));
        for line in lines {
            self.hear(line, now, out);
        }
        match event {
            Some(WireEvent::Opened) => {
                self.forget();
                self.lines.clear();
                self.phase = Phase::Boot { since: now, knocked: None };
            }
            Some(WireEvent::NotOpened(what)) => out.push(StageEvent::Offline { code: Code::NotConnected, what }),
            Some(WireEvent::Lost(what)) => {
                self.forget();
                self.lines.clear();
                self.phase = Phase::Closed;
                out.push(StageEvent::Offline { code: Code::Unplugged, what });
            }
            None => {}
        }
        if self.phase != Phase::Closed {
            self.overdue(now, out);
            self.resynchronise(now);
            self.connect(now, out);
            if self.recovering && self.can_ask() && self.own_reset.is_none() {
                self.ask(Ask::Unlock, b"$X\n", now, ANSWER, LONG_ANSWER);
                self.recovering = false;
            }
            if std::mem::take(&mut self.poll_wanted) {
                self.poll(now);
            }
        }
        let deadlines = [
            self.line.deadline(),
            self.status.deadline(),
            self.own_reset.map(|r| r.at + BOOT),
            self.resync,
            match self.phase {
                Phase::Boot { knocked, .. } => Some(knocked.map_or(now, |t| t + KNOCK)),
                _ => None,
            },
        ];
        let first = deadlines.into_iter().flatten().min();
        let awaiting = first.is_some() || self.phase == Phase::Identify;
        let next = if awaiting { self.wire.listen(now, first).max(now) } else { now + IDLE };
        if self.phase == Phase::Closed {
            return self.wire.wants(now).unwrap_or(now + IDLE);
        }
        self.wire.wants(now).map_or(next, |w| w.min(next))
    }

    fn poll(&mut self, now: Time) {
        // One `?` in flight: GRBL melts several into one report, whose age would then be a guess.
        if self.status.is_free() && self.wire.is_open() && !self.deaf {
            self.wire.aside(&[STATUS], now);
            self.status.ask((), now, REPORT, REPORT);
        }
    }

    fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError> {
        let Some(feed) = order.order().feed() else {
            return Err(RigError::new(Code::InvalidArgument, "There is no way to go."));
        };
        let drive = order.obey();
        let axes: Vec<(char, f64)> = drive
            .axes
            .iter()
            .filter_map(|a| self.axes.get(a.index).map(|(axis, letter, _)| (*letter, axis.to_counter(a.to))))
            .collect();
        let (ask, motion) = if self.dialect.jogs { (Ask::Motion, Motion::Jog) } else { (Ask::Motion, Motion::Program) };
        let line = move_line(self.dialect.jogs, &axes, feed.in_base() * 60.0);
        self.start(ask, motion, line.as_bytes(), ANSWER, now)
    }

    fn home(&mut self, order: Cleared<'_, HomeDrive>, now: Time) -> Result<(), RigError> {
        let home = order.obey();
        let whole = home.axes.is_empty() || home.axes.len() == self.axes.len();
        let line = match home.axes.as_slice() {
            _ if whole => "$H\n".to_owned(),
            [one] if self.dialect.homes_single_axes => match self.axes.get(*one) {
                Some((_, letter, _)) => format!("$H{letter}\n"),
                None => return Err(RigError::new(Code::NotFound, "There is no such axis.")),
            },
            _ => {
                let what = format!("{} homes all axes together.", self.dialect.model());
                return Err(RigError::new(Code::Unsupported, what));
            }
        };
        self.start(Ask::Home, Motion::Home, line.as_bytes(), home.timeout, now)
    }

    fn stop(&mut self, now: Time) -> bool {
        let byte = self.stop_byte();
        let handed = self.send_stop(byte, now);
        if byte != SOFT_RESET && self.wire.is_open() {
            self.stopping = Some(Stopping { since: now, last: now, flush: byte == FEED_HOLD });
        }
        self.poll(now);
        handed
    }

    fn halt(&mut self, now: Time) -> bool {
        self.send_stop(SOFT_RESET, now)
    }

    fn recover(&mut self, now: Time) {
        let held =
            matches!(self.last_state, Some(State::Hold | State::Door | State::Check | State::Sleep | State::Tool));
        if self.deaf || held {
            // Only a reset is heard now. The position goes with it: nobody can say what happened meanwhile.
            self.wire.preempt(&[SOFT_RESET], SPOIL, now);
            self.note_own_reset(now, true, true);
        }
        self.recovering = true;
    }

    fn link(&self) -> LinkStatus {
        self.wire.status.clone()
    }

    fn close(&mut self) {
        self.wire.close();
    }
}
