//! The one place where clearance is given. The rig thread owns the [`Panel`]; a [`Cleared`] can't outlive the
//! borrow of it, can't be sent to another thread, and is used up by the driver that obeys it.

use std::marker::PhantomData;
use std::sync::Arc;

use super::asks::Order;
use super::judge::{Resolved, Rules, refused};
use super::path::{Drive, HomeDrive, Leg};
use super::permit::{Grant, Held, Permit, covers};
use super::spent::Spent;
use crate::model::{
    Allowance, Approval, AxisId, Home, JobId, Move, Name, OutputStatus, RigError, SetOutput, Shot, Snapshot, Time,
};
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

/// The interlocks with the right to clear. Made once, for the rig thread. It holds what persons have said yes to and
/// uses each yes up.
pub struct Panel {
    rules: Arc<Rules>,
    grants: Vec<Grant>,
    allowance: Option<Allowance>,
    spent: Spent,
}

impl Panel {
    /// The panel of these rules.
    pub fn new(rules: Arc<Rules>) -> Panel {
        Panel { rules, grants: Vec::new(), allowance: None, spent: Spent::default() }
    }

    /// The rules by which it judges.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// When the moves of the last minute began, where a budget counts them.
    pub fn recent_moves(&self, now: Time) -> Vec<Time> {
        self.spent.recent(now)
    }

    /// How far axes were sent within the last hour, where a budget counts it.
    pub fn travelled(&self, now: Time) -> Vec<(AxisId, Distance)> {
        self.spent.travelled(&self.rules.rig().budget, now)
    }

    /// How much light was given within the last hour, where a budget counts it, in whole percent times seconds.
    pub fn dose(&self, now: Time) -> Vec<(Name, f64)> {
        self.spent.dose(&self.rules.rig().budget, now)
    }

    /// Sees how bright the lights are that a budget counts.
    pub fn sees_lights(&mut self, outputs: &[&OutputStatus], now: Time) {
        self.spent.sees_lights(&self.rules.rig().budget, outputs, now);
    }

    /// A person has said yes to what was asked.
    pub fn grant(&mut self, approval: &Approval, now: Time) {
        self.revoke(approval.job);
        self.grants.push(Grant::of(approval, now));
    }

    /// A job has ended, and with it any yes that it has not used.
    pub fn revoke(&mut self, job: JobId) {
        self.grants.retain(|g| !g.is_for(job));
    }

    /// A person allows something beforehand; what was allowed before ends.
    pub fn allow(&mut self, allowance: Allowance) {
        self.allowance = Some(allowance);
    }

    /// The allowance that runs.
    pub fn allowance(&self) -> Option<&Allowance> {
        self.allowance.as_ref()
    }

    /// Ends the allowance.
    pub fn end_allowance(&mut self) -> Option<Allowance> {
        self.allowance.take()
    }

    /// Whether the allowance that runs answers for this. Nothing is used up.
    pub fn would_allow(&self, order: Order<'_>, state: &Snapshot, now: Time) -> bool {
        self.allowance.as_ref().is_some_and(|a| covers(a, &self.rules, order, state, now))
    }

    /// Answers all that a person is asked before a command, and uses up the yes that does. The interlocks refuse
    /// apart: [`Panel::clear_leg`] and its like judge once more.
    ///
    /// # Errors
    /// [`Held::Asks`] when nobody has said yes; [`Held::Refused`] with `approval_stale` for a yes that was given to
    /// something else or to another state. That yes is gone.
    pub fn permit(&mut self, job: JobId, order: Order<'_>, state: &Snapshot, now: Time) -> Result<Permit, Held> {
        let asks = self.rules.asks(order, state);
        let (resolved, blind) = match order {
            Order::Move(m) => (Some(self.rules.resolve(m, state).map_err(Held::Refused)?), self.rules.blind(m, state)),
            _ => (None, Vec::new()),
        };
        if let (Order::Move(m), Some(resolved)) = (order, &resolved) {
            self.affordable(m, resolved, now).map_err(Held::Refused)?;
        }
        let granted = self.grants.iter().position(|g| g.is_for(job)).map(|i| self.grants.swap_remove(i));
        if let Some(grant) = granted.filter(|_| !asks.is_empty()) {
            let epoch = order.stage().and_then(|s| state.stage(s.as_str())).map(|s| s.epoch);
            grant.holds(self.rules.digest(order, state), epoch, &asks, now).map_err(Held::Refused)?;
        } else if !asks.is_empty() {
            if !self.would_allow(order, state, now) {
                return Err(Held::Asks(asks));
            }
            if let Some(allowance) = &mut self.allowance {
                allowance.left -= 1;
            }
        }
        if let (Order::Move(movement), Some(resolved)) = (order, &resolved) {
            self.spent.spend(&self.rules.rig().budget, &movement.stage, resolved, now);
        }
        Ok(Permit::new(order, resolved, &asks, blind))
    }

    fn affordable(&self, movement: &Move, resolved: &Resolved, now: Time) -> Result<(), RigError> {
        let Some(stage) = self.rules.rig().stage(movement.stage.as_str()) else { return Ok(()) };
        let (refusals, _) = self.rules.over_budget(stage, resolved, &self.spent.recent(now), &self.travelled(now), now);
        refused(&stage.id, refusals)
    }

    /// Clears one leg of a move.
    ///
    /// # Errors
    /// All refusals at once, under the code of the first; nothing has moved. `approval_stale` when the permit is for
    /// another move.
    pub fn clear_leg(
        &mut self,
        stage: &Name,
        leg: &Leg,
        permit: &Permit,
        state: &Snapshot,
        now: Time,
    ) -> Result<Cleared<'_, Drive>, RigError> {
        permit.covers_leg(stage, leg)?;
        let (order, asks) = self.rules.judge_leg(stage, leg, &permit.blind, state, now)?;
        permit.covers_asks(stage, &asks)?;
        Ok(Cleared { order, panel: PhantomData })
    }

    /// Clears a homing.
    ///
    /// # Errors
    /// All refusals at once; nothing has moved. `approval_stale` when the permit is for something else.
    pub fn clear_home(
        &mut self,
        home: &Home,
        permit: &Permit,
        state: &Snapshot,
        now: Time,
    ) -> Result<Cleared<'_, HomeDrive>, RigError> {
        permit.covers_home(home)?;
        let order = self.rules.judge_home(home, state, now)?;
        permit.covers_asks(&home.stage, &self.rules.asks(Order::Home(home), state))?;
        Ok(Cleared { order, panel: PhantomData })
    }

    /// Clears a change of an output.
    ///
    /// # Errors
    /// Why not; nothing has changed. `approval_stale` when a person has to be asked who wasn't.
    pub fn clear_set(
        &mut self,
        set: &SetOutput,
        permit: &Permit,
        state: &Snapshot,
    ) -> Result<Cleared<'_, SetOutput>, RigError> {
        let order = self.rules.judge_set(set, state)?;
        permit.covers_asks(&set.output, &self.rules.asks(Order::Set(set), state))?;
        Ok(Cleared { order, panel: PhantomData })
    }

    /// Judges an exposure right before it begins.
    ///
    /// # Errors
    /// Why not; nothing is exposed. `approval_stale` when a person has to be asked who wasn't.
    pub fn clear_shot(&mut self, shot: &Shot, permit: &Permit, state: &Snapshot) -> Result<(), RigError> {
        self.rules.judge_shot(shot, state)?;
        permit.covers_asks(&shot.camera, &self.rules.asks(Order::Shot(shot), state))
    }
}
