//! How far a reference had drifted: what an axis counted while its homing found the reference, against what it counts
//! since. A controller that goes on counting until then shows one jump; how far it moved during that reading is not
//! known, and told as such.

use crate::devices::Reading;
use crate::model::{Drift, Time};
use crate::units::{Distance, Position};

/// Readings further apart than this, in seconds, leave open what the counter did.
const GAP: f64 = 0.25;
/// By how much the moment of a reading is uncertain, in seconds: axes of a chain are asked one after the other.
const JITTER: f64 = 0.015;
/// More readings than any homing brings.
const MOST: usize = 20_000;

/// The readings of a homing.
#[derive(Debug, Default)]
pub(super) struct Record {
    readings: Vec<(Time, Vec<Option<Position>>)>,
}

impl Record {
    pub(super) fn add(&mut self, reading: &Reading) {
        if self.readings.len() < MOST {
            self.readings.push((reading.asked_at, reading.positions.clone()));
        }
    }

    /// The drift of the axis of that index, which slows down and speeds up by so much (base units per s²), and whose
    /// readings show changes of `resolution`. `None` where the readings don't tell.
    pub(super) fn drift(&self, index: usize, slows: f64, resolution: Distance) -> Option<Drift> {
        let whole = self.readings.len() < MOST;
        let axis =
            self.readings.iter().map(|(at, all)| Some((at.0.as_secs_f64(), all.get(index)?.as_ref()?.in_base())));
        let points = axis.collect::<Option<Vec<(f64, f64)>>>().filter(|_| whole)?;
        let (drift, within) = jump(&points, slows, resolution.in_base())?;
        Some(Drift { by: Distance::base(drift).ok()?, within: Distance::base(within).ok()? })
    }
}

/// From times (s) and counts, at rest at first and at last: by how much the count was set back, and to within what.
fn jump(points: &[(f64, f64)], slows: f64, resolution: f64) -> Option<(f64, f64)> {
    let steps: Vec<(f64, f64)> = points.windows(2).map(|w| (w[1].0 - w[0].0, w[1].1 - w[0].1)).collect();
    if steps.len() < 3 || steps.iter().any(|(time, _)| !(*time > 0.0 && *time <= GAP)) {
        return None;
    }
    let speed = |i: Option<usize>| i.and_then(|i| steps.get(i)).map_or(0.0, |(time, way)| way / time);
    // What the axis itself can have gone in a step, by the speeds around it, and by a short motion within it.
    let room = |i: usize| {
        let time = steps[i].0 + JITTER;
        let (before, after) = (speed(i.checked_sub(1)) * time, speed(Some(i + 1)) * time);
        let short = slows * time * time / 2.0 + resolution;
        (before.min(after).min(0.0) - short, before.max(after).max(0.0) + short)
    };
    let jumps = (0..steps.len()).filter(|i| {
        let (low, high) = room(*i);
        !(low..=high).contains(&steps[*i].1)
    });
    let jumps: Vec<usize> = jumps.collect();
    match jumps.as_slice() {
        // Smaller than what could be told from motion.
        [] => {
            let widest = (0..steps.len()).map(|i| room(i).1.max(-room(i).0)).fold(0.0, f64::max);
            Some((0.0, widest))
        }
        [i] => {
            let (low, high) = room(*i);
            Some((f64::midpoint(low, high) - steps[*i].1, (high - low) / 2.0))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An axis that stands at 10 mm by its count, goes down to its reference at 0 mm and stands there; its count is off
    /// by `off` until then.
    fn homing(off: f64, every: f64) -> Vec<(f64, f64)> {
        let truly = |t: f64| (10.0 - 5.0 * (t - 0.5).max(0.0)).max(0.0);
        let times = (0..).map(|i| f64::from(i) * every).take_while(|t| *t < 4.0);
        times.map(|t| (t, truly(t) + if truly(t) > 0.0 { off } else { 0.0 })).collect()
    }

    #[test]
    fn the_jump_of_the_count_at_the_reference_is_how_far_it_had_drifted() {
        for off in [2.0, -3.0, 0.8] {
            let (drift, within) = jump(&homing(off, 0.04), 100.0, 0.001).unwrap();
            assert!((drift - off).abs() <= within && within < 0.3, "{off}: {drift} within {within}");
        }
    }

    #[test]
    fn without_a_jump_it_is_less_than_could_be_told_from_motion() {
        let (drift, within) = jump(&homing(0.0, 0.04), 100.0, 0.001).unwrap();
        assert!(drift == 0.0 && within < 0.5, "{within}");
    }

    #[test]
    fn a_count_that_was_not_seen_all_the_time_or_begins_anew_more_than_once_tells_nothing() {
        assert_eq!(jump(&homing(2.0, 0.3), 100.0, 0.001), None);
        let twice: Vec<_> =
            homing(2.0, 0.04).into_iter().map(|(t, p)| (t, if t > 1.0 { p - 7.0 } else { p })).collect();
        assert_eq!(jump(&twice, 100.0, 0.001), None);
        assert_eq!(jump(&[(0.0, 1.0), (0.1, 0.0)], 100.0, 0.001), None);
    }
}
