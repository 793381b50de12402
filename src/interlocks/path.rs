//! What a move really does: the legs that it is made of, the way each sweeps, and how long it takes.

use std::time::Duration;

use super::stopping;
use crate::config::{Axis, Rig, Stage};
use crate::model::{Activity, AxisId, Name, StageStatus, Trust};
use crate::units::{Distance, Position, Span, Speed};

/// What the interlocks need to know of a stage's driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageTraits {
    /// Whether axes that move together keep to the straight line between start and end.
    pub coordinated: bool,
    /// Whether single axes can be homed.
    pub homes_single_axes: bool,
}

/// One straight part of a move.
#[derive(Debug, Clone, PartialEq)]
pub struct Leg {
    /// Where each axis that takes part goes; the others stay.
    pub targets: Vec<(Name, Position)>,
}

/// A leg as a driver gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Drive {
    /// The stage.
    pub stage: Name,
    /// Each axis that takes part: its index in the stage, where it starts and where it goes.
    pub axes: Vec<DriveAxis>,
    /// How long it takes at these speeds, accelerations aside.
    pub duration: Duration,
}

/// One axis of a [`Drive`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveAxis {
    /// Its index in the stage's axes.
    pub index: usize,
    /// Where it starts.
    pub from: Position,
    /// Where it goes.
    pub to: Position,
    /// The speed that it must not exceed.
    pub speed: Speed,
}

impl Drive {
    /// The length of the straight line, in base units.
    pub fn length(&self) -> Distance {
        let square: f64 = self.axes.iter().map(|a| (a.to - a.from).in_base().powi(2)).sum();
        Distance::base(square.sqrt()).unwrap_or_default()
    }

    /// The speed along the straight line at which no axis exceeds its own; `None` if nothing moves.
    pub fn feed(&self) -> Option<Speed> {
        let length = self.length();
        self.axes
            .iter()
            .filter_map(|a| {
                let share = (a.to - a.from).in_base().abs() / length.in_base();
                (share > 0.0).then(|| a.speed.in_base() / share)
            })
            .min_by(f64::total_cmp)
            .and_then(|v| Speed::base(v).ok())
    }
}

/// A homing as a driver gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct HomeDrive {
    /// The stage.
    pub stage: Name,
    /// Indices of the axes; empty means the controller's whole cycle.
    pub axes: Vec<usize>,
    /// How long it may take.
    pub timeout: Duration,
}

/// Splits a move into legs: where an axis takes its backlash up from one side, a move that would arrive from
/// the other first goes beyond the target.
pub(super) fn legs(stage: &Stage, from: &StageStatus, targets: &[(Name, Position)]) -> Vec<Leg> {
    let beyond: Vec<(Name, Position)> = targets
        .iter()
        .map(|(name, to)| {
            let turned = stage.axis(name.as_str()).and_then(|axis| {
                let approach = axis.approach?;
                let start = from.axis(name.as_str())?.position?;
                let way = (*to - start).in_base() * approach.direction;
                let over = Distance::base(approach.direction * approach.overshoot.in_base()).ok()?;
                // Exactly where it is already: no backlash to take up.
                (way < 0.0).then(|| *to - over)
            });
            (name.clone(), turned.unwrap_or(*to))
        })
        .collect();
    let last = Leg { targets: targets.to_vec() };
    if beyond == targets { vec![last] } else { vec![Leg { targets: beyond }, last] }
}

/// Where an axis is or may be while another stage moves: its position when that is believed; while its own stage moves,
/// all of its way that is still to come, with what a stop takes; its whole travel when it is homing, not believed, not
/// there, or moved by somebody else.
pub(super) fn whereabouts(axis: &Axis, status: Option<&StageStatus>) -> Span {
    whereabouts_if(axis, status, axis.trust)
}

/// The same, when a position with at least so much trust is believed.
pub(super) fn whereabouts_if(axis: &Axis, status: Option<&StageStatus>, least: Trust) -> Span {
    let whole = axis.travel;
    let Some(stage) = status else { return whole };
    let Some(index) = stage.axes.iter().position(|a| a.axis == axis.id.axis) else { return whole };
    let now = &stage.axes[index];
    let moves = stage.activity.is_motion();
    // Nobody here knows where a hand or another program leads it.
    let ordered = stage.axes.iter().any(|a| a.target.is_some());
    match now.position {
        Some(p)
            if now.trust >= least
                && !matches!(stage.activity, Activity::Homing | Activity::Offline)
                && (ordered || !moves) =>
        {
            let target = now.target.filter(|_| moves).unwrap_or(p);
            let way = Span::between(p, target).hull(now.ahead.unwrap_or(Span::between(p, p)));
            let beyond = |end: Position| end + stopping::of_other(axis, index, stage, (end - p).in_base());
            Span { low: beyond(way.low), high: beyond(way.high) }
        }
        // Not believed: anywhere it can be, and where it claims to be as well.
        Some(p) => Span { low: whole.low.min(p), high: whole.high.max(p) },
        None => whole,
    }
}

/// The leg with all that a driver needs. `slow` is the share of the full speed at which it is allowed.
pub(super) fn drive(stage: &Stage, from: &[(Name, Position)], leg: &Leg, slow: f64) -> Drive {
    let axes: Vec<DriveAxis> = leg
        .targets
        .iter()
        .filter_map(|(name, to)| {
            let index = stage.axes.iter().position(|a| a.id.axis == *name)?;
            let from = from.iter().find(|(n, _)| n == name)?.1;
            let speed = Speed::base(stage.axes[index].max_speed.in_base() * slow).ok()?;
            Some(DriveAxis { index, from, to: *to, speed })
        })
        .collect();
    let mut drive = Drive { stage: stage.id.clone(), axes, duration: Duration::ZERO };
    drive.duration = drive.feed().and_then(|v| drive.length().duration_at(v)).unwrap_or_default();
    drive
}

/// The span that each axis of the leg passes.
pub(super) fn swept(drive: &Drive, stage: &Stage) -> Vec<(AxisId, Span)> {
    drive.axes.iter().map(|a| (stage.axes[a.index].id.clone(), Span::between(a.from, a.to))).collect()
}

/// All axes of the rig.
pub(super) fn all_axes(rig: &Rig) -> impl Iterator<Item = &Axis> {
    rig.stages.iter().flat_map(|s| &s.axes)
}
