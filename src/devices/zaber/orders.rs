//! Motions as the questions that they are made of: each axis of a device is told for itself, and each answer says
//! whether the next may follow.

use std::collections::VecDeque;
use std::time::Duration;

use super::codec::{Reply, Target, value};
use super::unit::{Axis, Unit};
use super::words::refusal;
use crate::devices::StageEvent;
use crate::interlocks::{Drive, HomeDrive};
use crate::model::{Code, RigError, Time};
use crate::units::Speed;

/// Speeds go over the wire in units of 1 / 1.6384 microsteps a second (manual, "Physical Units").
pub(super) const SPEED: f64 = 1.6384;
/// Since this firmware a move carries its speed (manual, `move`).
pub(super) const MOVE_WITH_SPEED: (u32, u32) = (7, 25);
/// How long an order may wait for its place on the line. What it was judged by is as old.
const WAIT: Duration = Duration::from_millis(500);
/// The largest count that goes out; devices count in 32 bits.
const FAR: f64 = 2_147_483_647.0;

/// What is asked to begin a motion.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// `get maxspeed`, which must not be above this (in the wire's units): firmware that takes no speed with a move.
    Speed(f64),
    /// `move abs`, to that count.
    Move(f64),
    /// `home`.
    Home,
    /// `warnings clear`.
    Clear,
}

/// A question that begins a motion, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    /// The axis's index in its stage.
    pub(super) axis: usize,
    pub(super) to: Target,
    pub(super) step: Step,
    pub(super) text: String,
    /// Since when it could go out.
    pub(super) since: Time,
}

/// What runs by our order.
#[derive(Debug)]
pub(super) enum Motion {
    /// A move: the axes that have taken it, and when the last one did.
    Move { taken: Vec<usize>, accepted: Option<Time> },
    /// A homing, one axis after the other.
    Home {
        /// The axes still to come.
        queue: VecDeque<usize>,
        /// The one that homes, and when it took that.
        current: Option<(usize, Option<Time>)>,
        /// It was seen to move.
        seen: bool,
        /// Others have homed before it.
        later: bool,
    },
}

impl Motion {
    pub(super) fn is_home(&self) -> bool {
        matches!(self, Motion::Home { .. })
    }

    /// Goes on with the next axis, if there is one.
    pub(super) fn next_home(&mut self, axes: &[Axis], now: Time) -> Option<Order> {
        let Motion::Home { queue, current, seen, later } = self else { return None };
        let index = queue.pop_front()?;
        *later = current.is_some();
        *current = Some((index, None));
        *seen = false;
        let order = |to| Order { axis: index, to, step: Step::Home, text: "home".into(), since: now };
        axes.get(index).map(|a| order(a.target))
    }
}

impl Unit {
    /// Makes the questions of a move.
    ///
    /// # Errors
    /// `invalid_argument` for what can't be said to a device. Nothing is sent then.
    pub(super) fn plan_move(&mut self, drive: &Drive, now: Time) -> Result<(), RigError> {
        let mut orders: Vec<Order> = Vec::new();
        for part in &drive.axes {
            let Some(axis) = self.axes.get(part.index) else { continue };
            let goal = axis.count_for(part.to);
            let speed = speed_data(axis, part.speed);
            let sayable = goal.abs() <= FAR && 1.0 <= speed;
            if !sayable {
                let what = format!("{} can't be told to go to {goal} microsteps at a speed of {speed}.", axis.name());
                return Err(RigError::new(Code::InvalidArgument, what));
            }
            let own_speed = axis.learnt.version >= Some(MOVE_WITH_SPEED);
            let text = if own_speed { format!("move abs {goal:.0} {speed:.0}") } else { format!("move abs {goal:.0}") };
            let order = |step, text| Order { axis: part.index, to: axis.target, step, text, since: now };
            if !own_speed {
                orders.insert(0, order(Step::Speed(speed), "get maxspeed".into()));
            }
            orders.push(order(Step::Move(goal), text));
        }
        if orders.is_empty() {
            return Err(RigError::new(Code::InvalidArgument, "There is no way to go."));
        }
        self.motion = Some(Motion::Move { taken: Vec::new(), accepted: None });
        self.begin(orders);
        Ok(())
    }

    /// Makes the questions of a homing, in the order in which the rig file names the axes.
    ///
    /// # Errors
    /// `not_found` for an axis that isn't there. Nothing is sent then.
    pub(super) fn plan_home(&mut self, home: &HomeDrive, order: &[usize], now: Time) -> Result<(), RigError> {
        if home.axes.iter().any(|i| *i >= self.axes.len()) {
            return Err(RigError::new(Code::NotFound, "There is no such axis."));
        }
        let queue = order.iter().copied().filter(|i| home.axes.is_empty() || home.axes.contains(i)).collect();
        let mut motion = Motion::Home { queue, current: None, seen: false, later: false };
        let first = motion.next_home(&self.axes, now);
        self.motion = Some(motion);
        self.begin(first.into_iter().collect());
        Ok(())
    }

    fn begin(&mut self, orders: Vec<Order>) {
        for axis in &mut self.axes {
            axis.goal = None;
        }
        self.round = None;
        self.orders = orders.into();
    }

    /// The order that may go out next; one that has waited too long for its place is given up.
    pub(super) fn due_order(&mut self, now: Time) -> Option<Order> {
        let order = self.orders.front()?;
        if now.since(order.since) > WAIT {
            let what = format!("{} was not told to move: the line was not free in time", self.axes[order.axis].name());
            self.no_further(Code::Busy, what);
            return None;
        }
        let order = self.orders.pop_front()?;
        if matches!(order.step, Step::Move(_) | Step::Home) {
            self.axes[order.axis].forget_passing();
        }
        Some(order)
    }

    /// The answer to an order.
    pub(super) fn ordered(&mut self, order: &Order, reply: &Reply, now: Time) {
        let name = self.axes[order.axis].name();
        if order.step == Step::Clear {
            if !reply.ok {
                self.clearing.get_or_insert_default().push(format!("{name}: {}", refusal(&reply.data)));
            }
            self.axes[order.axis].ask_flags = true;
            return self.next_is_due(now);
        }
        if !reply.ok {
            return self.no_further(Code::ControllerRefused, format!("{name} said {}", refusal(&reply.data)));
        }
        match (&order.step, &mut self.motion) {
            (Step::Speed(most), _) => {
                let axis = &self.axes[order.axis];
                match value(&reply.data) {
                    // The rig file's number was rounded down; the device's is what it is.
                    Some(own) if own <= most + 1.0 => {}
                    own => {
                        let unit = axis.config.unit;
                        let show = |v: f64| {
                            Speed::base(v / SPEED * axis.size()).map_or("?".into(), |s| crate::units::plain(s.to(unit)))
                        };
                        let what = format!(
                            "{name} has firmware that takes no speed with a move, and its own `maxspeed` is {} {unit}/s, \
                             above the {} {unit}/s that it may go; lower `maxspeed` in the device",
                            own.map_or("unknown".into(), show),
                            show(*most),
                        );
                        return self.no_further(Code::Unsupported, what);
                    }
                }
            }
            (Step::Move(goal), Some(Motion::Move { taken, accepted })) => {
                taken.push(order.axis);
                self.axes[order.axis].goal = Some((*goal, now));
                if self.orders.is_empty() {
                    *accepted = Some(now);
                    self.tell(StageEvent::Accepted);
                }
            }
            (Step::Home, Some(Motion::Home { current: Some((index, accepted)), seen, .. })) if *index == order.axis => {
                *accepted = Some(now);
                *seen = reply.busy;
            }
            _ => {}
        }
        self.next_is_due(now);
    }

    fn next_is_due(&mut self, now: Time) {
        if let Some(next) = self.orders.front_mut() {
            next.since = now;
        }
        self.poll_wanted = true;
    }

    /// An order got no answer.
    pub(super) fn unanswered(&mut self, order: &Order, what: String) {
        self.orders.clear();
        match (&order.step, self.motion.take()) {
            // Nothing moves by these.
            (Step::Speed(_), _) => self.tell(StageEvent::Refused { code: Code::NotResponding, what }),
            (Step::Clear, _) => {
                self.clearing = None;
                self.tell(StageEvent::NotRecovered { what });
            }
            // It may be moving: what is told now leads to a stop.
            (Step::Move(_) | Step::Home, _) => self.tell(StageEvent::Unanswered { what }),
        }
    }

    /// A motion can't go on as ordered. Nothing has moved, or what has moved is named.
    fn no_further(&mut self, code: Code, what: String) {
        self.orders.clear();
        match self.motion.take() {
            Some(Motion::Move { taken, .. }) if !taken.is_empty() => {
                let names: Vec<String> = taken.iter().map(|i| self.axes[*i].name()).collect();
                let what = format!("{what}. {} had begun to move and was stopped", names.join(", "));
                self.tell(StageEvent::Ended { code, what });
            }
            Some(Motion::Home { later: true, .. }) => self.tell(StageEvent::HomingFailed { what }),
            _ => self.tell(StageEvent::Refused { code, what }),
        }
    }
}

/// A speed as the wire writes it, rounded down so that it is never exceeded.
fn speed_data(axis: &Axis, speed: Speed) -> f64 {
    // The last bit of the division must not cost a whole unit.
    (speed.in_base() / axis.size() * SPEED + 1e-6).floor()
}
