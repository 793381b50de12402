//! The one place where clearance is given. The rig thread owns the [`Panel`]; a [`Cleared`] can't outlive the
//! borrow of it, can't be sent to another thread, and is used up by the driver that obeys it.

use std::marker::PhantomData;
use std::sync::Arc;

use super::asks::Order;
use super::judge::Rules;
use super::path::{Drive, HomeDrive, Leg};
use crate::model::{Code, Home, Name, RigError, SetOutput, Snapshot, Time};
use crate::units::Distance;

/// An order that the interlocks have judged on the state of this moment.
///
/// Only [`Panel`] makes one:
/// ```compile_fail
/// let forged = steadyhand::interlocks::Cleared { order: (), panel: std::marker::PhantomData };
/// ```
/// It can't be kept for later or carried to another thread:
/// ```compile_fail
/// fn send<T: Send>(_: T) {}
/// fn smuggle(cleared: steadyhand::interlocks::Cleared<'_, ()>) { send(cleared) }
/// ```
/// nor used twice:
/// ```compile_fail
/// fn twice(cleared: steadyhand::interlocks::Cleared<'_, ()>) { cleared.obey(); cleared.obey() }
/// ```
#[must_use = "a clearance that isn't used moves nothing"]
pub struct Cleared<'panel, T> {
    order: T,
    /// Borrows the panel, so that nothing else is judged in between; a raw pointer, so that it stays on the
    /// rig thread.
    panel: PhantomData<(&'panel mut Panel, *const ())>,
}

impl<T> Cleared<'_, T> {
    /// What was cleared.
    pub fn order(&self) -> &T {
        &self.order
    }

    /// Takes the order out, to carry it out now.
    pub fn obey(self) -> T {
        self.order
    }
}

impl Cleared<'_, Drive> {
    /// The same way as a driver has to be told it whose axes a person has declared to stand elsewhere than the rig
    /// file's origin says: `shift` is what the declaration added to each axis of the stage, and is taken off again.
    pub(crate) fn less(mut self, shift: &[Distance]) -> Self {
        for axis in &mut self.order.axes {
            let by = shift.get(axis.index).copied().unwrap_or_default();
            (axis.from, axis.to) = (axis.from - by, axis.to - by);
        }
        self
    }
}

/// The interlocks with the right to clear. Made once, for the rig thread.
pub struct Panel {
    rules: Arc<Rules>,
}

impl Panel {
    /// The panel of these rules.
    pub fn new(rules: Arc<Rules>) -> Panel {
        Panel { rules }
    }

    /// The rules by which it judges.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Clears one leg of a move.
    ///
    /// # Errors
    /// All refusals at once, under the code of the first; nothing has moved.
    pub fn clear_leg(
        &mut self,
        stage: &Name,
        leg: &Leg,
        state: &Snapshot,
        now: Time,
    ) -> Result<Cleared<'_, Drive>, RigError> {
        let order = self.rules.judge_leg(stage, leg, state, now)?;
        Ok(Cleared { order, panel: PhantomData })
    }

    /// Clears a homing.
    ///
    /// # Errors
    /// All refusals at once; nothing has moved.
    pub fn clear_home(&mut self, home: &Home, state: &Snapshot, now: Time) -> Result<Cleared<'_, HomeDrive>, RigError> {
        let order = self.rules.judge_home(home, state, now)?;
        if let Some(ask) = self.rules.asks(Order::Home(home), state).first() {
            let what = format!("{} A person has to approve it.", ask.text);
            return Err(RigError::new(Code::NotPermitted, what).on(&home.stage));
        }
        Ok(Cleared { order, panel: PhantomData })
    }

    /// Clears a change of an output.
    ///
    /// # Errors
    /// Why not; nothing has changed.
    pub fn clear_set(&mut self, set: &SetOutput, state: &Snapshot) -> Result<Cleared<'_, SetOutput>, RigError> {
        let order = self.rules.judge_set(set, state)?;
        Ok(Cleared { order, panel: PhantomData })
    }
}
