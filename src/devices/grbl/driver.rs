//! The driver: connects, identifies, asks, moves, homes, stops. Ticked, never waiting.
//!
//! At most one line waits for its `ok`, and at most one status question `?` for its report; the two don't get
//! in each other's way, since reports are told by their brackets.

mod hear;
mod outputs;
mod report;
mod stop;

use std::collections::BTreeMap;
use std::time::Duration;

use super::codec::{AXIS_LETTERS, Lines, State, axis_letter, move_line};
use super::dialect::{Dialect, Family};
use super::questions::Questions;
use crate::config;
use crate::devices::link::dialogue::Dialogue;
use crate::devices::link::{Connector, IDLE, StopScript, Wire, WireEvent};
use crate::devices::{OnLink, Stage, StageEvent, StageFacts, WAS_LOCKED};
use crate::interlocks::{Cleared, Drive, HomeDrive};
use crate::model::{Code, Identity, LinkStatus, RigError, Time};
use crate::units::{Distance, Speed};
use outputs::{Pin, Port};

const JOG_CANCEL: u8 = 0x85;
const FEED_HOLD: u8 = b'!';
const SOFT_RESET: u8 = 0x18;
const STATUS: u8 = b'?';

/// Makes a line that was cut off unexecutable: `@` is no command letter in any place where GRBL reads one, nor
/// part of a number or a `$` command, so the whole line is refused (error 1, 2 or 3).
const SPOIL: &[u8] = b"@\n";

/// Asks for something whose answer can't be mistaken, behind the end of whatever may be unfinished.
const SYNC: &[u8] = b"@\n$G\n";

/// How long a board may take to boot after its port was opened (an Arduino's bootloader takes 1.5 s).
const BOOT: Duration = Duration::from_secs(4);
/// How often it is asked whether it is there.
const KNOCK: Duration = Duration::from_millis(250);
/// How long an ordinary line may stay unanswered, and a long answer may pause.
const ANSWER: Duration = Duration::from_secs(2);
/// The longest that a long answer (`$$`) may take in all.
const LONG_ANSWER: Duration = Duration::from_secs(10);
/// How often a controller is identified anew when lines were damaged meanwhile.
const ATTEMPTS: u32 = 5;
/// A homing is never over sooner.
const SHORTEST_HOMING: Duration = Duration::from_millis(100);
/// How far from the place of its switch GRBL may be after homing, in mm (or degrees).
const AT_SWITCH: f64 = 0.05;
/// So many damaged lines in a row make the connection `degraded`.
const DEGRADED: u32 = 3;
/// Quiet time on the line before it is believed again after an answer was missed.
const QUIET: Duration = Duration::from_millis(100);

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Version,
    Settings,
    Modes,
    Motion,
    Home,
    Unlock,
    Spindle,
    /// `$G` once more, to find the place in the stream after an answer was missed.
    Sync,
}

/// What an `ok` claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Homed,
    Unlocked,
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
    /// The hold went out, to a controller of which nobody knows what it does.
    pressed: bool,
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
    /// Whether the rig file wants it homed.
    homes: bool,
    wire: Wire,
    lines: Lines,
    phase: Phase,
    dialect: Dialect,
    settings: BTreeMap<u16, f64>,
    notes: Vec<String>,
    line: Dialogue<Ask>,
    status: Questions,
    poll_wanted: bool,
    damaged: u32,
    motion: Option<Motion>,
    stopping: Option<Stopping>,
    own_reset: Option<OwnReset>,
    /// After a missed answer: quiet until then, then `$G`, and only after its `[GC:` an `ok` counts.
    resync: Option<Time>,
    sync_seen: bool,
    /// `$G` went unanswered already once.
    sync_again: bool,
    /// The controller answers nothing but a reset (`ALARM:1`, `ALARM:2`).
    deaf: bool,
    /// That it is locked is known and told.
    locked: bool,
    /// What a connection that was lost left moving: the byte that stops it once somebody hears it again.
    unfinished: Option<u8>,
    /// When it was held before it was identified: a rest that was told of since may have come before the hold.
    held_at: Option<Time>,
    recovering: bool,
    /// An `ok` that a report has to confirm, and when it came.
    claim: Option<(Claim, Time)>,
    /// The controller has explained its `$` commands, which nobody asks it to: a letter was lost.
    helped: bool,
    /// It refused to list its settings while it was held: they are asked for once more.
    unread: bool,
    homing_alarm: Option<String>,
    last_state: Option<State>,
    offset: Option<Vec<f64>>,
    /// Another offset than the known one, heard once: until it is heard again nobody knows which is right.
    doubted: Option<Vec<f64>>,
    /// How often it was identified anew because lines were damaged, and their count when that began.
    attempts: u32,
    bad_before: u64,
    now: Time,
    has_stage: bool,
    /// What the stage has not been told yet.
    pub(super) stage_events: Vec<StageEvent>,
    pub(super) outputs: Vec<Port>,
    pub(super) pins: Vec<Pin>,
}

impl Grbl {
    pub(super) fn new(on: &OnLink<'_>, connector: Box<dyn Connector>) -> Grbl {
        let axes = on
            .stages
            .iter()
            .take(1)
            .flat_map(|stage| &stage.axes)
            .map(|a| {
                // config refuses channels that are no letter; place 6 is in no report, so such an axis would
                // never have a position.
                let (letter, place) = axis_letter(&a.channel).unwrap_or(('?', 6));
                (a.clone(), letter, place)
            })
            .collect();
        Grbl {
            axes,
            homes: on.stages.first().is_some_and(|s| matches!(s.home, config::Homing::Cycle { .. })),
            wire: Wire::new(connector),
            lines: Lines::default(),
            phase: Phase::Closed,
            dialect: Dialect::read(""),
            settings: BTreeMap::new(),
            notes: Vec::new(),
            line: Dialogue::new(),
            status: Questions::default(),
            poll_wanted: false,
            damaged: 0,
            motion: None,
            stopping: None,
            own_reset: None,
            resync: None,
            sync_seen: false,
            sync_again: false,
            deaf: false,
            locked: false,
            unfinished: None,
            held_at: None,
            recovering: false,
            claim: None,
            helped: false,
            unread: false,
            homing_alarm: None,
            last_state: None,
            offset: None,
            doubted: None,
            attempts: 0,
            bad_before: 0,
            now: Time::ZERO,
            has_stage: !on.stages.is_empty(),
            stage_events: Vec::new(),
            outputs: on.outputs.iter().map(|o| Port::new(o)).collect(),
            pins: on.sensors.iter().map(|s| Pin::new(s)).collect(),
        }
    }

    /// Forgets all that belongs to a connection or a boot.
    fn forget(&mut self) {
        self.line = Dialogue::new();
        self.status = Questions::default();
        self.poll_wanted = false;
        self.motion = None;
        self.stopping = None;
        self.held_at = None;
        self.own_reset = None;
        self.resync = None;
        self.sync_again = false;
        self.deaf = false;
        self.recovering = false;
        self.claim = None;
        self.unread = false;
        self.homing_alarm = None;
        self.last_state = None;
        self.offset = None;
        self.doubted = None;
        self.attempts = 0;
    }

    fn ask(&mut self, what: Ask, bytes: &[u8], now: Time, patience: Duration, cap: Duration) {
        self.wire.send(bytes, now);
        self.line.ask(what, now, patience, cap);
    }

    fn can_ask(&self) -> bool {
        self.line.is_free() && self.wire.is_free() && self.resync.is_none() && !self.deaf
    }

    // ---- connecting ---------------------------------------------------------------------------------------

    fn identify_next(&mut self, done: Ask, now: Time, out: &mut Vec<StageEvent>) {
        match done {
            Ask::Version => {
                self.settings.clear();
                self.ask(Ask::Settings, b"$$\n", now, ANSWER, LONG_ANSWER);
            }
            Ask::Settings => {
                self.sync_seen = false;
                self.ask(Ask::Modes, b"$G\n", now, ANSWER, LONG_ANSWER);
            }
            // What was damaged may have been a setting that matters, as the unit of the reports.
            _ if self.wire.status.bad_frames != self.bad_before && self.attempts < ATTEMPTS => self.attempts += 1,
            _ => {
                self.phase = Phase::Ready;
                out.push(StageEvent::Online(Box::new(self.facts())));
                self.poll(now);
            }
        }
    }

    fn facts(&mut self) -> StageFacts {
        let mut notes = std::mem::take(&mut self.notes);
        if self.last_state == Some(State::Alarm) {
            notes.push(WAS_LOCKED.into());
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
            let travel = setting(130, *place).and_then(|mm| Distance::base(mm).ok());
            let ends = travel.and_then(|t| self.ends(t, *place));
            facts.acceleration.push(setting(120, *place));
            facts.max_speed.push(max);
            facts.resolution.push(step);
            facts.travel.push(travel);
            facts.range.push(ends.map(|(range, _)| range));
            facts.home.push(ends.and_then(|(_, home)| home));
        }
        // Which way the motors turn, inches or millimetres, steps per millimetre.
        let mut meant = (self.settings.iter()).filter(|(n, _)| matches!(**n, 3 | 13 | 100..=105)).collect::<Vec<_>>();
        meant.sort_by_key(|(n, _)| **n);
        facts.meaning = meant.iter().map(|(n, v)| format!("${n}={v}")).collect::<Vec<_>>().join(" ");
        facts.homes = self.settings.get(&22).map(|v| mask(*v) & 1 != 0);
        facts.powered_at_rest = self.settings.get(&1).map(|v| *v >= 255.0);
        facts.hard_limits = self.settings.get(&21).map(|v| mask(*v) & 1 != 0);
        if facts.homes == Some(true) {
            facts.homes_also = self.homes_also();
        }
        if facts.homes == Some(false) && self.homes {
            notes
                .push("Its homing cycle is off ($22=0), but the rig file gives a homing order: home will fail.".into());
        }
        facts.identity = Identity {
            model: self.dialect.model().into(),
            firmware: self.dialect.version.clone(),
            serial: String::new(),
            notes,
        };
        facts
    }

    /// The letters of axes that `$H` homes, and the rig file doesn't have. Which axes there are, the settings of their
    /// travel tell; grblHAL says in `$44` to `$49` which of them its cycles home.
    fn homes_also(&self) -> Vec<String> {
        let cycles: Vec<u32> = (44..=49).filter_map(|n| self.settings.get(&n)).map(|v| mask(*v)).collect();
        let homed = |place: usize| cycles.is_empty() || cycles.iter().any(|c| c >> place & 1 != 0);
        let unlisted = AXIS_LETTERS.iter().enumerate().zip(130_u16..).filter(|((place, _), travel)| {
            let listed = self.axes.iter().any(|(_, _, p)| p == place);
            !listed && self.settings.contains_key(travel) && homed(*place)
        });
        unlisted.map(|((_, letter), _)| letter.to_string()).collect()
    }

    /// Between which counts an axis may be moved once it is homed, and where homing leaves it. GRBL makes the end of
    /// the travel at the positive side zero, whichever end it homes to (`limits_go_home`), unless it is told to begin at
    /// the switch (grblHAL, bit 3 of `$22`). FluidNC says it elsewhere.
    fn ends(&self, travel: Distance, place: usize) -> Option<([f64; 2], Option<f64>)> {
        let homing = self.settings.get(&22).map(|v| mask(*v))?;
        let known = matches!(self.dialect.family, Family::Grbl11 | Family::GrblHal);
        if !known || homing & 1 == 0 || homing & 8 != 0 {
            return None;
        }
        let length = travel.in_base();
        let to_negative = self.settings.get(&23).is_some_and(|v| mask(*v) >> place & 1 != 0);
        let home = self.settings.get(&27).map(|off| if to_negative { off - length } else { -off });
        Some(([-length, 0.0], home))
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
            // A stop is seen through first, since it may take a reset.
            Phase::Identify if self.stopping.is_some() => {
                self.poll_wanted = true;
                if matches!(self.last_state, Some(State::Run | State::Jog | State::Home)) {
                    out.push(StageEvent::Stirring);
                }
            }
            Phase::Identify if self.can_ask() => match self.last_state {
                Some(State::Run | State::Jog | State::Home) => {
                    self.poll_wanted = true;
                    out.push(StageEvent::Stirring);
                }
                None => self.poll_wanted = true,
                Some(_) => {
                    self.bad_before = self.wire.status.bad_frames;
                    self.ask(Ask::Version, b"$I\n", now, ANSWER, LONG_ANSWER);
                }
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
                // A homing may still be running: what is told now leads to a stop.
                Ask::Motion | Ask::Home => out.push(StageEvent::Unanswered { what }),
                Ask::Unlock => {
                    self.recovering = false;
                    out.push(StageEvent::NotRecovered { what });
                }
                Ask::Spindle => self.spindle_answered(Some((Code::NotResponding, what)), now),
                // Identification begins again.
                Ask::Version | Ask::Settings | Ask::Modes => {}
                // The rest of a line whose end was lost may have spoilt it.
                Ask::Sync if !std::mem::replace(&mut self.sync_again, true) => {}
                Ask::Sync => self.gone(&what, now, out),
            }
        }
        // `?` is not answered while a homing runs: silence is no loss then.
        let silent_by_right = self.motion == Some(Motion::Home) || self.deaf;
        if silent_by_right {
            self.status.forgive(now);
        } else if self.status.overdue(now) {
            self.wire.status.timeouts += 1;
            self.poll_wanted = true;
        }
        if let Some(silence) = self.status.deaf(now) {
            self.gone(&format!("It has not answered for {} ms.", silence.as_millis()), now, out);
        }
        if self.own_reset.is_some_and(|r| now.since(r.at) >= BOOT) && self.own_reset.take().is_some_and(|r| r.must) {
            self.gone("It did not come back after a reset.", now, out);
        }
    }

    /// Forgets a connection, but not that something may still move there.
    fn leave(&mut self) {
        if self.motion.is_some() || self.stopping.is_some() {
            self.unfinished = Some(self.stop_byte());
        }
        self.forget();
    }

    /// The port is open, but nobody is there.
    fn gone(&mut self, what: &str, now: Time, out: &mut Vec<StageEvent>) {
        self.leave();
        self.wire.status.last_error = Some(what.to_owned());
        out.push(StageEvent::Offline { code: Code::NotResponding, what: what.to_owned() });
        self.phase = Phase::Boot { since: now, knocked: None };
    }

    fn resynchronise(&mut self, now: Time) {
        if self.resync.is_some_and(|t| t <= now) && self.line.is_free() && self.wire.is_free() {
            self.resync = None;
            self.sync_seen = false;
            // What is left of a line whose end was lost must not swallow the question, nor be carried out with it.
            self.ask(Ask::Sync, SYNC, now, ANSWER, LONG_ANSWER);
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
        self.claim = None;
        self.helped = false;
        self.ask(what, bytes, now, patience, patience);
        Ok(())
    }
}

/// A setting that is a mask of bits; what is none has no bit set.
fn mask(value: f64) -> u32 {
    if (0.0..=65535.0).contains(&value) { value as u32 } else { 0 }
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
                if let Some(byte) = self.unfinished {
                    self.wire.preempt(&[byte], SPOIL, now);
                }
                self.phase = Phase::Boot { since: now, knocked: None };
            }
            Some(WireEvent::NotOpened(what)) => out.push(StageEvent::Offline { code: Code::NotConnected, what }),
            Some(WireEvent::Lost(what)) => {
                self.leave();
                self.lines.clear();
                self.phase = Phase::Closed;
                out.push(StageEvent::Offline { code: Code::Unplugged, what });
            }
            None => {}
        }
        if self.phase != Phase::Closed {
            self.overdue(now, out);
            self.insist(now);
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
            self.hush().filter(|t| *t > now),
            self.unknown_until(),
            match self.phase {
                Phase::Boot { knocked, .. } => Some(knocked.map_or(now, |t| t + KNOCK)),
                _ => None,
            },
        ];
        let first = deadlines.into_iter().flatten().min();
        let awaiting = first.is_some() || self.phase == Phase::Identify;
        let asked = self.line.current().map_or(Time::ZERO, |a| a.at).max(self.status.newest());
        let next = if awaiting { self.wire.listen(now, asked, first).max(now) } else { now + IDLE };
        if self.phase == Phase::Closed {
            return self.wire.wants(now).unwrap_or(now + IDLE);
        }
        self.wire.wants(now).map_or(next, |w| w.min(next))
    }

    fn poll(&mut self, now: Time) {
        if !self.wire.is_open() || self.deaf {
            return;
        }
        let moving = self.is_watched();
        if self.hush().is_some_and(|t| now < t) {
            self.poll_wanted = true;
            return;
        }
        if self.status.may_ask(now, moving) {
            self.wire.aside(&[STATUS], now);
            self.status.ask(now);
        } else {
            self.poll_wanted = true;
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
        if self.wire.is_open() && self.phase != Phase::Ready {
            return self.stop_unknown(now);
        }
        let byte = self.stop_byte();
        let handed = self.send_stop(byte, now);
        if !self.wire.is_open() {
            self.unfinished.get_or_insert(byte);
        }
        if byte != SOFT_RESET && self.wire.is_open() {
            self.stopping = Some(Stopping { since: now, last: now, pressed: false });
        }
        self.poll(now);
        handed
    }

    fn halt(&mut self, now: Time) -> bool {
        self.send_stop(SOFT_RESET, now)
    }

    fn stop_script(&self, homing: bool) -> StopScript {
        stop::script(homing)
    }

    fn recover(&mut self, now: Time) {
        if matches!(self.phase, Phase::Boot { .. }) {
            // A controller that was locked before it was connected may hear nothing but this.
            self.wire.preempt(&[SOFT_RESET], SPOIL, now);
            return;
        }
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
