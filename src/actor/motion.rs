//! Proof of arrival and of standstill: pure watches that are fed with readings. An acknowledgement proves
//! nothing; only readings that were asked for after the order do.

use std::time::Duration;

use crate::devices::{MotionState, Reading};
use crate::interlocks::Drive;
use crate::model::{AxisId, Code, Time};
use crate::units::{Distance, Position, Span, Unit, plain};

/// How long after its acceptance a motion may take to be seen. Until then a controller that says idle may just
/// not have begun.
const START: Duration = Duration::from_millis(300);
/// How long the axes may stand while the controller says that it moves.
const STALL: Duration = Duration::from_millis(1000);
/// How long an axis rests elsewhere until that is where the move ended: some controllers rest for a moment between
/// the parts of a move, before they take up backlash for example.
const REST: Duration = Duration::from_millis(200);
/// How long a motion goes on without a reading until it is stopped: nobody knows where it is then.
const BLIND: Duration = Duration::from_millis(1200);
/// What a motion may take beyond twice its computed time: accelerations, a queue, a slow link.
const SLACK: Duration = Duration::from_secs(4);

/// What the watch needs to know of each axis of the stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisFacts {
    pub(super) id: AxisId,
    pub(super) unit: Unit,
    pub(super) tolerance: Distance,
    /// The smallest change that a reading can show.
    pub(super) resolution: Distance,
}

/// How a motion stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    Going,
    Arrived,
    Failed(Code, String),
}

/// Watches one leg from the moment when its bytes went out.
#[derive(Debug, Clone)]
pub(super) struct MotionWatch {
    drive: Drive,
    axes: Vec<AxisFacts>,
    began: Vec<Option<Position>>,
    sent: Time,
    accepted: Option<Time>,
    /// It was under way, by what the controller says or by its positions.
    moved: bool,
    /// Its positions have changed.
    went: bool,
    /// Where it last made progress, and when.
    progress: (Time, Vec<Option<Position>>),
    expected: Duration,
    /// Where it rests short of its target, and since when.
    rest: Option<(Time, Vec<Option<Position>>)>,
    /// When it was last read.
    read_at: Time,
}

impl MotionWatch {
    pub(super) fn new(
        drive: Drive,
        axes: Vec<AxisFacts>,
        began: Vec<Option<Position>>,
        expected: Duration,
        sent: Time,
    ) -> Self {
        MotionWatch {
            drive,
            axes,
            progress: (sent, began.clone()),
            began,
            sent,
            accepted: None,
            moved: false,
            went: false,
            expected,
            rest: None,
            read_at: sent,
        }
    }

    /// The controller took it.
    pub(super) fn accept(&mut self, now: Time) {
        self.accepted = Some(now);
        self.progress.0 = now;
    }

    /// Whether it was seen to be under way.
    pub(super) fn has_moved(&self) -> bool {
        self.moved
    }

    /// Whether its positions were seen to change.
    pub(super) fn has_gone(&self) -> bool {
        self.went
    }

    /// Where the stage's axes were when it began.
    pub(super) fn began(&self) -> &[Option<Position>] {
        &self.began
    }

    /// Where the axis of that index goes, if it takes part.
    pub(super) fn target(&self, index: usize) -> Option<Position> {
        self.drive.axes.iter().find(|a| a.index == index).map(|a| a.to)
    }

    /// The most at which it takes the axis of that index.
    pub(super) fn speed(&self, index: usize) -> Option<crate::units::Speed> {
        self.drive.axes.iter().find(|a| a.index == index && a.to != a.from).map(|a| a.speed)
    }

    /// How soon the next reading is worth having: often at the start and near the end.
    pub(super) fn poll_every(&self, now: Time) -> Duration {
        let running = now.since(self.accepted.unwrap_or(self.sent));
        let near_end = running + Duration::from_millis(300) >= self.expected;
        Duration::from_millis(if running <= START || near_end { 25 } else { 100 })
    }

    /// Judges by the clock alone.
    pub(super) fn tick(&self, now: Time) -> Seen {
        let limit = self.expected * 2 + SLACK;
        if now.since(self.sent) > limit {
            let what = format!(
                "The move is not over after {:.1} s; it should have taken {:.1} s.",
                now.since(self.sent).as_secs_f64(),
                self.expected.as_secs_f64()
            );
            return Seen::Failed(Code::TooLong, what);
        }
        let blind = now.since(self.read_at);
        if blind > BLIND {
            let what = format!("Its position was lost: it could not be read for {:.1} s.", blind.as_secs_f64());
            return Seen::Failed(Code::NotResponding, what);
        }
        Seen::Going
    }

    /// Judges by a reading.
    pub(super) fn read(&mut self, reading: &Reading, now: Time) -> Seen {
        if reading.asked_at < self.sent {
            return Seen::Going;
        }
        self.read_at = now;
        if let Some(failed) = self.path(reading) {
            return failed;
        }
        self.progress(reading, now);
        match &reading.motion {
            MotionState::Moving => {
                self.moved = true;
                self.rest = None;
                self.stalled(reading, now)
            }
            MotionState::Idle => self.idle(reading, now),
            MotionState::Homing => Seen::Failed(Code::WrongDirection, "It homes, although it was told to move.".into()),
            MotionState::Held(word) => {
                Seen::Failed(Code::Faulted, format!("The controller went into \"{word}\" before the move was over."))
            }
            MotionState::Locked => {
                let what = format!("The controller locked itself during the move.{}", self.switches(reading));
                Seen::Failed(Code::Alarm, what)
            }
        }
    }

    /// Every axis stays in the way that was cleared.
    fn path(&self, reading: &Reading) -> Option<Seen> {
        for (index, facts) in self.axes.iter().enumerate() {
            let (Some(now), Some(began)) = (reading.positions.get(index).copied().flatten(), self.began[index]) else {
                continue;
            };
            let part = self.drive.axes.iter().find(|a| a.index == index);
            let way = part.map_or(Span::between(began, began), |a| Span::between(a.from, a.to));
            if !way.widened(facts.tolerance + facts.resolution).contains(now) {
                let show = |p: Position| plain(p.to(facts.unit));
                let what = format!(
                    "{} is at {} {unit}, outside the way from {} to {} {unit}.",
                    facts.id,
                    show(now),
                    show(part.map_or(began, |a| a.from)),
                    show(part.map_or(began, |a| a.to)),
                    unit = facts.unit
                );
                return Some(Seen::Failed(Code::WrongDirection, what));
            }
        }
        None
    }

    fn progress(&mut self, reading: &Reading, now: Time) {
        let further = self.axes.iter().enumerate().any(|(i, facts)| {
            let (new, old) = (reading.positions.get(i).copied().flatten(), self.progress.1[i]);
            matches!((new, old), (Some(a), Some(b)) if (a - b).abs() >= facts.resolution && a != b)
        });
        if further {
            (self.moved, self.went) = (true, true);
            self.progress = (now, reading.positions.clone());
        }
    }

    /// The limit switches that are pressed, as a sentence to follow another.
    fn switches(&self, reading: &Reading) -> String {
        let pressed: Vec<String> = self
            .axes
            .iter()
            .zip(&reading.at_limit)
            .filter(|(_, pressed)| **pressed)
            .map(|(facts, _)| facts.id.to_string())
            .collect();
        match pressed.as_slice() {
            [] => String::new(),
            [one] => format!(" The limit switch of {one} is pressed."),
            more => format!(" The limit switches of {} are pressed.", more.join(" and ")),
        }
    }

    fn stalled(&self, reading: &Reading, now: Time) -> Seen {
        // A slow move shows its first change late.
        let step = self.axes.iter().map(|a| a.resolution).fold(Distance::ZERO, Distance::max);
        let slow = self.drive.feed().and_then(|v| step.duration_at(v)).unwrap_or_default() * 5;
        let since = now.since(self.progress.0);
        if self.accepted.is_some() && since > STALL + slow {
            let what = format!(
                "The controller says it moves, but no axis has moved for {:.1} s.{}",
                since.as_secs_f64(),
                self.switches(reading)
            );
            return Seen::Failed(Code::Stalled, what);
        }
        Seen::Going
    }

    fn idle(&mut self, reading: &Reading, now: Time) -> Seen {
        let Some(accepted) = self.accepted.filter(|a| *a <= reading.asked_at) else { return Seen::Going };
        let off = self.drive.axes.iter().find_map(|a| {
            let facts = &self.axes[a.index];
            match reading.positions.get(a.index).copied().flatten() {
                Some(p) if (p - a.to).abs() <= facts.tolerance => None,
                at => Some((a, facts, at)),
            }
        });
        let begun = self.moved || now.since(accepted) > START;
        let Some((axis, facts, at)) = off else {
            return if begun { Seen::Arrived } else { Seen::Going };
        };
        if !begun {
            return Seen::Going;
        }
        match &self.rest {
            Some((since, at)) if *at == reading.positions => {
                if reading.asked_at.since(*since) < REST {
                    return Seen::Going;
                }
            }
            _ => {
                self.rest = Some((reading.asked_at, reading.positions.clone()));
                return Seen::Going;
            }
        }
        let switches = self.switches(reading);
        let show = |p: Position| format!("{} {}", plain(p.to(facts.unit)), facts.unit);
        let at = at.map_or("an unknown position".into(), show);
        if self.moved {
            let what = format!("{} came to rest at {at} instead of {}.{switches}", facts.id, show(axis.to));
            Seen::Failed(Code::MissedTarget, what)
        } else {
            let what = format!("{} did not start towards {}; it is still at {at}.{switches}", facts.id, show(axis.to));
            Seen::Failed(Code::Stalled, what)
        }
    }
}

/// Watches for standstill after a stop: two readings that were asked for after it, alike, neither in motion.
#[derive(Debug, Clone)]
pub(super) struct StillWatch {
    since: Time,
    last: Option<Vec<Option<Position>>>,
}

impl StillWatch {
    pub(super) fn new(since: Time) -> Self {
        StillWatch { since, last: None }
    }

    /// Whether it stands still for certain.
    pub(super) fn read(&mut self, reading: &Reading) -> bool {
        if reading.asked_at < self.since || matches!(reading.motion, MotionState::Moving | MotionState::Homing) {
            self.last = None;
            return false;
        }
        let same = self.last.as_ref() == Some(&reading.positions);
        self.last = Some(reading.positions.clone());
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interlocks::DriveAxis;
    use crate::model::Name;
    use crate::units::Speed;

    fn mm(v: f64) -> Position {
        Position::base(v).unwrap()
    }

    fn at(ms: u64) -> Time {
        Time(Duration::from_millis(ms))
    }

    fn watch(from: f64, to: f64) -> MotionWatch {
        sent(from, to, 0)
    }

    /// Of a move that was sent then, and accepted ten milliseconds later.
    fn sent(from: f64, to: f64, ms: u64) -> MotionWatch {
        let axis = DriveAxis { index: 0, from: mm(from), to: mm(to), speed: Speed::base(10.0).unwrap() };
        let drive = Drive { stage: Name::new("s"), axes: vec![axis], duration: Duration::from_secs(1) };
        let facts = AxisFacts {
            id: AxisId::new("s", "x"),
            unit: Unit::Mm,
            tolerance: Distance::base(0.01).unwrap(),
            resolution: Distance::base(0.001).unwrap(),
        };
        let mut w = MotionWatch::new(drive, vec![facts], vec![Some(mm(from))], Duration::from_secs(1), at(ms));
        w.accept(at(ms + 10));
        w
    }

    fn reading(ms: u64, motion: MotionState, x: f64) -> Reading {
        Reading { asked_at: at(ms), motion, positions: vec![Some(mm(x))], at_limit: vec![false] }
    }

    #[test]
    fn idle_right_after_the_start_is_no_arrival() {
        let mut w = watch(0.0, 10.0);
        assert_eq!(w.read(&reading(20, MotionState::Idle, 0.0), at(25)), Seen::Going);
        assert_eq!(w.read(&reading(60, MotionState::Idle, 0.0), at(65)), Seen::Going);
        assert_eq!(w.read(&reading(100, MotionState::Moving, 0.5), at(105)), Seen::Going);
        assert_eq!(w.read(&reading(1100, MotionState::Idle, 10.0), at(1105)), Seen::Arrived);
    }

    #[test]
    fn what_still_moves_has_not_arrived_not_even_at_its_target() {
        let mut w = watch(0.0, 10.0);
        assert_eq!(w.read(&reading(500, MotionState::Moving, 5.0), at(505)), Seen::Going);
        assert_eq!(w.read(&reading(1000, MotionState::Moving, 10.0), at(1005)), Seen::Going);
        assert_eq!(w.read(&reading(1050, MotionState::Idle, 10.0), at(1055)), Seen::Arrived);
    }

    #[test]
    fn a_reading_that_was_asked_for_before_it_was_accepted_proves_no_arrival() {
        let mut w = watch(0.0, 10.0);
        w.moved = true;
        assert_eq!(w.read(&reading(5, MotionState::Idle, 10.0), at(2000)), Seen::Going);
    }

    #[test]
    fn a_reading_that_was_asked_for_before_the_order_says_nothing_about_it() {
        // What another motion left behind neither shows this one under way nor fails it.
        for motion in [MotionState::Moving, MotionState::Homing, MotionState::Locked, MotionState::Held("Hold".into())]
        {
            let mut w = sent(0.0, 10.0, 100);
            assert_eq!(w.read(&reading(90, motion, -3.0), at(120)), Seen::Going);
            assert!(!w.has_moved());
            assert_eq!(w.read(&reading(130, MotionState::Idle, 0.0), at(135)), Seen::Going, "it has not started");
        }
        let mut w = sent(0.0, 10.0, 100);
        w.read(&reading(90, MotionState::Moving, 0.0), at(1300));
        assert!(matches!(w.tick(at(1301)), Seen::Failed(Code::NotResponding, _)), "and it is no sign of life");
    }

    #[test]
    fn a_move_within_the_tolerance_waits_for_the_start_deadline() {
        let mut w = watch(0.0, 0.005);
        assert_eq!(w.read(&reading(20, MotionState::Idle, 0.0), at(25)), Seen::Going);
        assert_eq!(w.read(&reading(400, MotionState::Idle, 0.005), at(405)), Seen::Arrived);
    }

    #[test]
    fn a_move_that_never_starts_has_stalled() {
        let mut w = watch(0.0, 10.0);
        assert_eq!(w.read(&reading(400, MotionState::Idle, 0.0), at(405)), Seen::Going);
        assert!(matches!(w.read(&reading(600, MotionState::Idle, 0.0), at(605)), Seen::Failed(Code::Stalled, _)));
    }

    #[test]
    fn a_move_that_ends_elsewhere_has_missed() {
        let mut w = watch(0.0, 10.0);
        w.read(&reading(100, MotionState::Moving, 1.0), at(105));
        w.read(&reading(600, MotionState::Idle, 5.0), at(605));
        assert_eq!(w.read(&reading(790, MotionState::Idle, 5.0), at(795)), Seen::Going, "it may only pause");
        let seen = w.read(&reading(810, MotionState::Idle, 5.0), at(815));
        assert!(matches!(&seen, Seen::Failed(Code::MissedTarget, what) if what.contains("5 mm")), "{seen:?}");
    }

    #[test]
    fn the_wrong_way_is_seen_at_once() {
        let mut w = watch(5.0, 10.0);
        let seen = w.read(&reading(100, MotionState::Moving, 4.9), at(105));
        assert!(matches!(seen, Seen::Failed(Code::WrongDirection, _)));
    }

    #[test]
    fn a_motion_that_moves_nothing_has_stalled() {
        let mut w = watch(0.0, 10.0);
        w.read(&reading(100, MotionState::Moving, 1.0), at(105));
        assert_eq!(w.read(&reading(900, MotionState::Moving, 1.0), at(905)), Seen::Going);
        let seen = w.read(&reading(1200, MotionState::Moving, 1.0), at(1205));
        assert!(matches!(seen, Seen::Failed(Code::Stalled, _)));
    }

    #[test]
    fn standstill_takes_two_like_readings_asked_for_after_the_stop() {
        let mut w = StillWatch::new(at(100));
        assert!(!w.read(&reading(90, MotionState::Idle, 1.0)));
        assert!(!w.read(&reading(110, MotionState::Idle, 1.0)));
        assert!(!w.read(&reading(120, MotionState::Idle, 1.1)));
        assert!(w.read(&reading(130, MotionState::Idle, 1.1)));
    }
}
