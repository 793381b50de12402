//! Where a stage was last at rest, and what becomes of it when the controller says the same after a break.

use std::collections::BTreeMap;

use super::{Doing, StageUnit};
use crate::devices::MotionState;
use crate::model::Trust;
use crate::store::{Standstill, Stood};
use crate::units::{Distance, Position};

impl StageUnit {
    /// What is to be put on record, or taken off it, since the last time.
    pub(in crate::actor) fn take_record(&mut self) -> Option<Option<Standstill>> {
        if self.record == self.handed_over {
            return None;
        }
        self.handed_over = self.record.clone();
        Some(self.record.clone())
    }

    /// At rest, idle, and with nothing to be asked about: where it stands is worth remembering.
    fn rests(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
            && !self.suspect
            && self.last.as_ref().is_some_and(|r| r.motion == MotionState::Idle)
    }

    /// Remembers where it rests.
    pub(super) fn remember(&mut self) {
        if !self.rests() || self.recalls {
            return;
        }
        let axes: BTreeMap<String, Stood> = (0..self.config.axes.len())
            .filter(|i| self.status.axes[*i].trust > Trust::Unknown)
            .filter_map(|i| {
                let stood = Stood { count: self.count(i)?, frame: self.frame(i), trust: self.status.axes[i].trust };
                Some((self.config.axes[i].id.axis.to_string(), stood))
            })
            .collect();
        self.record = (!axes.is_empty()).then(|| Standstill { controller: self.controller(), axes });
    }

    /// Holds the first reading of a connection against the record; while a stop is carried through that was given before
    /// it was read, the first at standstill. What was found moving, locked or held has no record any more. An axis gets back its trust when the controller is
    /// the same, its rig coordinates are, and it still counts what it counted at rest. A count of zero proves nothing:
    /// it is what a controller has after it was switched on; nor does one that says itself that its reference is lost.
    pub(super) fn recall(&mut self) {
        if !self.recalls {
            return;
        }
        let idle = self.last.as_ref().is_some_and(|r| r.motion == MotionState::Idle);
        if idle && !self.rests() {
            // That it stands is being read still.
            return;
        }
        self.recalls = false;
        let Some(record) = self.record.take().filter(|r| idle && r.controller == self.controller()) else { return };
        let mut restored = Vec::new();
        for i in 0..self.config.axes.len() {
            let name = self.config.axes[i].id.axis.clone();
            let (Some(stood), Some(count)) = (record.axes.get(name.as_str()), self.count(i)) else { continue };
            let fine = self.resolution(i).in_base() / 2.0;
            let [sign, origin, shift] = stood.frame;
            let same_frame = self.frame(i)[..2] == [sign, origin];
            let lost = self.facts.unreferenced.get(i).copied().unwrap_or(false);
            let agrees = (count - stood.count).abs() < fine && count.abs() >= fine;
            let free = self.status.axes[i].trust == Trust::Unknown;
            if !(same_frame && agrees && free) || lost {
                continue;
            }
            let Ok(shift) = Distance::base(shift) else { continue };
            self.set_shift(i, shift);
            self.status.axes[i].trust = stood.trust.min(Trust::Restored);
            restored.push(format!("{name} ({})", self.status.axes[i].trust));
        }
        if !restored.is_empty() {
            let what = "The controller still counts what it counted when it was last seen at rest; believed again:";
            self.note("trust", format!("{what} {}.", restored.join(", ")));
            self.bump();
        }
    }

    /// What tells this controller from others, and from itself with settings that give its counts another meaning.
    fn controller(&self) -> String {
        let i = &self.facts.identity;
        format!("{} {} {} {}", i.model, i.firmware, i.serial, self.facts.meaning).trim().to_owned()
    }

    /// The controller's own count of an axis, in the base unit.
    fn count(&self, index: usize) -> Option<f64> {
        self.status.axes[index].position.map(|told| self.counter(index, told))
    }

    /// What the controller counted where that was told.
    pub(super) fn counter(&self, index: usize, told: Position) -> f64 {
        self.config.axes[index].to_counter(told + -self.shift[index])
    }

    /// What makes rig coordinates of a count.
    fn frame(&self, index: usize) -> [f64; 3] {
        let axis = &self.config.axes[index];
        [axis.sign, axis.origin.in_base(), self.shift[index].in_base()]
    }
}
