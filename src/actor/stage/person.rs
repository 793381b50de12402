//! What a person does to a stage: declares a position, releases a stop, lends its port.

use super::StageUnit;
use crate::devices::Reading;
use crate::model::{Activity, Code, Remedy, StopBy, Time, Trust};
use crate::units::{Distance, Position};

impl StageUnit {
    /// An axis stands at `position`: its word is a person's. The caller has seen to it that the stage is at rest and
    /// was read.
    pub(in crate::actor) fn declare(&mut self, index: usize, position: Position) {
        let Some(read) = self.status.axes[index].position else { return };
        self.set_shift(index, self.shift[index] + (position - read));
        self.status.axes[index].position = Some(position);
        self.status.axes[index].trust = Trust::Assumed;
        // Where the last move began was meant in the coordinates before.
        self.status.came_from = None;
        self.resting = None;
        let [was, is] = [read, position].map(|p| crate::units::plain(p.to(self.config.axes[index].unit)));
        let (axis, unit) = (&self.config.axes[index].id.axis, self.config.axes[index].unit);
        self.note("reference", format!("A person declared that {axis} stands at {is} {unit}; it read {was} {unit}."));
        self.bump();
    }

    /// Changes what is added to an axis's readings, those that are kept included.
    pub(super) fn set_shift(&mut self, index: usize, to: Distance) {
        let by = to + -self.shift[index];
        self.shift[index] = to;
        let kept = self.last.as_mut().and_then(|r| r.positions.get_mut(index)).and_then(Option::as_mut);
        for position in kept.into_iter().chain(self.status.axes[index].position.as_mut()) {
            *position = *position + by;
        }
        // The same place in other coordinates: nobody has moved it.
        if let Some(resting) = self.resting.as_mut().and_then(|r| r.get_mut(index)).and_then(Option::as_mut) {
            *resting = *resting + by;
        }
    }

    /// The controller may count anew.
    pub(super) fn forget_shift(&mut self) {
        self.shift.fill(Distance::default());
    }

    /// A reading in rig coordinates, a person's declarations included.
    pub(super) fn shifted(&self, mut reading: Reading) -> Reading {
        for (position, by) in reading.positions.iter_mut().zip(&self.shift) {
            *position = position.map(|p| p + *by);
        }
        reading
    }

    /// Releases a person's stop, and what was moved by hand; `false` when there is neither.
    pub(in crate::actor) fn resume(&mut self) -> bool {
        let by_hand = self.is_held_by_hand();
        let stands = self.status.stopped_by == Some(StopBy::Person);
        if stands {
            self.status.stopped_by = None;
        }
        if by_hand {
            self.status.fault = None;
            self.resting = None;
        }
        if stands || by_hand {
            self.bump();
        }
        stands || by_hand
    }

    /// Its port is another program's from now on, and its position nobody's.
    pub(in crate::actor) fn lend(&mut self, what: &str, now: Time) {
        self.lent = true;
        self.status.identity = None;
        self.offline(Code::Released, what.to_owned(), now);
    }

    /// Its port is ours again: it is opened and identified by itself.
    pub(in crate::actor) fn take_back(&mut self) {
        self.lent = false;
        if self.driver.is_dead() {
            return;
        }
        if self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Reclaim) {
            self.status.fault = None;
        }
        self.set_activity(Activity::Connecting);
        self.bump();
    }
}
