//! Motion that nobody here ordered: a joystick, a knob, another program. The stage is left to that hand until a person
//! releases it.

use std::time::Duration;

use super::StageUnit;
use crate::devices::{MotionState, Reading};
use crate::model::{Code, Remedy, StopBy, Time};

/// For how long all readings must say so: a few can be damaged lines that happen to be well formed, or late ones.
const CERTAIN: Duration = Duration::from_millis(500);
/// For how long after a motion by an order from here what moves may still be its end.
const AFTERMATH: Duration = Duration::from_millis(100);

impl StageUnit {
    /// Whether a hand has moved it, and nobody has released it since.
    pub(super) fn is_held_by_hand(&self) -> bool {
        self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Resume)
    }

    /// Looks whether a stage that was seen at rest moves, or is elsewhere.
    pub(super) fn watch_for_hands(&mut self, reading: &Reading, now: Time) {
        let Some(resting) = &self.resting else {
            // Whatever moves when a connection begins was begun before.
            if matches!(reading.motion, MotionState::Idle) {
                self.resting = Some(reading.positions.clone());
            }
            return;
        };
        let moves = matches!(reading.motion, MotionState::Moving | MotionState::Homing);
        let elsewhere = self.config.axes.iter().enumerate().find(|(i, axis)| {
            let way = resting[*i].zip(reading.positions[*i]).map(|(a, b)| (b - a).abs());
            way.is_some_and(|w| w > axis.tolerance.max(self.resolution(*i)))
        });
        let elsewhere = elsewhere.map(|(_, axis)| axis.id.axis.clone());
        let ours = self.ordered.is_some_and(|t| reading.asked_at.since(t) < AFTERMATH)
            || self.recovering.is_some()
            || self.doubtful;
        if ours || (!moves && elsewhere.is_none()) {
            self.by_hand = None;
            if ours && !moves {
                self.resting = Some(reading.positions.clone());
            }
            return;
        }
        let since = *self.by_hand.get_or_insert(reading.asked_at);
        if reading.asked_at.since(since) < CERTAIN {
            return;
        }
        self.by_hand = None;
        self.resting = Some(reading.positions.clone());
        // What is stopped by a person, faulted or not known to stand needs somebody already.
        if self.status.fault.is_some() || self.status.stopped_by == Some(StopBy::Person) {
            return;
        }
        let which = elsewhere.map_or(String::new(), |axis| format!(" ({axis})"));
        let what = format!(
            "It moves, or was moved{which}, though not by an order from here: by a hand at the controller, or by another \
             program. It is left alone until a person releases it with `steadyhand resume`."
        );
        self.fault(Code::MovedByHand, what, Remedy::Resume, now);
    }
}
