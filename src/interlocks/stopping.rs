//! How far an axis would run on beyond its target if only a stop held it: near a keep-out a leg is slowed by that.

use super::path::{Drive, StageTraits};
use crate::config::{Axis, Stage};
use crate::model::{StageStatus, ToldAxis};
use crate::units::{Distance, Speed};

/// How long a motion goes on unseen, in seconds: the interval of readings in its middle.
const POLL: f64 = 0.1;
/// How long a reading and the stop's bytes take on the line, in seconds.
const LINK: f64 = 0.05;
/// How long a stop from the full speed takes where nobody tells the deceleration, in seconds.
const RAMP: f64 = 0.2;

/// How far each axis of the drive would run on, in base units with the sign of its way: v × (poll + link) + v² / 2a.
/// An axis that goes no further than its tolerance has no speed.
pub(super) fn run_on(stage: &Stage, status: Option<&StageStatus>, drive: &Drive, traits: StageTraits) -> Vec<f64> {
    let told = |index: usize| status.and_then(|s| s.told.as_ref()).and_then(|t| t.axes.get(index));
    let length = drive.length().in_base();
    let feed = drive.feed().map_or(0.0, Speed::in_base);
    let share = |way: f64| if length > 0.0 { way.abs() / length } else { 0.0 };
    // Axes that keep to the line slow down together, as the weakest of them can.
    let along = drive
        .axes
        .iter()
        .filter(|a| a.to != a.from)
        .map(|a| deceleration(&stage.axes[a.index], slows(told(a.index))) / share((a.to - a.from).in_base()))
        .fold(f64::INFINITY, f64::min);
    drive
        .axes
        .iter()
        .map(|a| {
            let axis = &stage.axes[a.index];
            let way = (a.to - a.from).in_base();
            if way.abs() <= axis.tolerance.in_base() {
                return 0.0;
            }
            let (speed, slowing) = if traits.coordinated {
                (feed * share(way), along * share(way))
            } else {
                (a.speed.in_base(), deceleration(axis, slows(told(a.index))))
            };
            distance(own(speed, told(a.index)), slowing).copysign(way)
        })
        .collect()
}

/// The same for an axis of another stage that goes this way, in base units, at the speed that it was cleared for.
pub(super) fn of_other(axis: &Axis, index: usize, status: &StageStatus, way: f64) -> Distance {
    let told = status.told.as_ref().and_then(|t| t.axes.get(index));
    let speed = status.axis(axis.id.axis.as_str()).and_then(|a| a.speed).unwrap_or(axis.max_speed);
    let far = if way == 0.0 { 0.0 } else { distance(own(speed.in_base(), told), deceleration(axis, slows(told))) };
    Distance::base(far.copysign(way)).unwrap_or_default()
}

fn distance(speed: f64, deceleration: f64) -> f64 {
    speed * (POLL + LINK) + speed * speed / (2.0 * deceleration)
}

/// No axis goes faster than its controller lets it.
fn own(speed: f64, told: Option<&ToldAxis>) -> f64 {
    told.and_then(|t| t.max_speed).map_or(speed, |most| speed.min(most.in_base()))
}

fn slows(told: Option<&ToldAxis>) -> Option<f64> {
    told.and_then(|t| t.acceleration)
}

/// How fast an axis slows down, in base units per s²: the smaller of what the owner says and what the controller tells.
pub fn deceleration(axis: &Axis, told: Option<f64>) -> f64 {
    let known = axis.acceleration.into_iter().chain(told.filter(|a| *a > 0.0)).min_by(f64::total_cmp);
    known.unwrap_or(axis.max_speed.in_base() / RAMP)
}
