//! What a person's yes is worth: bound to one command on one state, used once, and judged again when it is used.

use std::time::Duration;

use super::asks::Order;
use super::judge::{Resolved, Rules};
use super::path::Leg;
use crate::model::{Allowance, Approval, Ask, Code, Digest, Epoch, Home, JobId, Move, Name, RigError, Snapshot, Time};
use crate::units::Span;

/// How long a yes may take to be used: the reading of that moment has to come in.
const USE_WITHIN: Duration = Duration::from_secs(15);

/// A person's yes that has not been used yet.
#[derive(Debug)]
pub(super) struct Grant {
    job: JobId,
    digest: Digest,
    epoch: Option<Epoch>,
    rules: Vec<String>,
    until: Time,
}

impl Grant {
    pub(super) fn of(approval: &Approval, now: Time) -> Grant {
        Grant {
            job: approval.job,
            digest: approval.digest,
            epoch: approval.epoch,
            rules: approval.asks.iter().map(|a| a.rule.clone()).collect(),
            until: now + USE_WITHIN,
        }
    }

    pub(super) fn is_for(&self, job: JobId) -> bool {
        self.job == job
    }

    /// Whether the yes was to this, as it stands now.
    pub(super) fn holds(&self, digest: Digest, epoch: Option<Epoch>, asks: &[Ask], now: Time) -> Result<(), RigError> {
        let stale = |what: &str| Err(RigError::new(Code::ApprovalStale, what));
        if now > self.until {
            return stale("The approval was not used in time.");
        }
        if self.digest != digest {
            return stale("The approval was for another command.");
        }
        if self.epoch != epoch {
            return stale("The stage has moved or changed since the approval was asked for.");
        }
        match asks.iter().find(|a| !self.rules.contains(&a.rule)) {
            Some(new) => stale(&format!("Something else has to be approved by now: {}", new.text)),
            None => Ok(()),
        }
    }
}

/// What a command may do after all that had to be asked was answered. Only a [`super::Panel`] makes one, and it counts
/// for that command alone.
#[derive(Debug)]
pub struct Permit {
    of: Of,
    /// The interlocks that a person has answered.
    pub(super) rules: Vec<String>,
    /// Axes that may go a slow step although nobody knows where they stand.
    pub(super) blind: Vec<Name>,
}

#[derive(Debug)]
enum Of {
    Move { stage: Name, legs: Vec<Leg> },
    Home(Home),
    Other,
}

impl Permit {
    pub(super) fn new(order: Order<'_>, resolved: Option<Resolved>, asks: &[Ask], blind: Vec<Name>) -> Permit {
        let of = match order {
            Order::Move(Move { stage, .. }) => {
                Of::Move { stage: stage.clone(), legs: resolved.map(|r| r.legs).unwrap_or_default() }
            }
            Order::Home(home) => Of::Home(home.clone()),
            Order::Shot(_) | Order::Set(_) => Of::Other,
        };
        Permit { of, rules: asks.iter().map(|a| a.rule.clone()).collect(), blind }
    }

    /// Whether it is for this part of this move.
    pub(super) fn covers_leg(&self, on: &Name, leg: &Leg) -> Result<(), RigError> {
        match &self.of {
            Of::Move { stage, legs } if stage == on && legs.contains(leg) => Ok(()),
            _ => Err(other().on(on)),
        }
    }

    pub(super) fn covers_home(&self, home: &Home) -> Result<(), RigError> {
        match &self.of {
            Of::Home(own) if own == home => Ok(()),
            _ => Err(other().on(&home.stage)),
        }
    }

    /// Whether everything that is asked before this was answered.
    pub(super) fn covers_asks(&self, device: &Name, asks: &[Ask]) -> Result<(), RigError> {
        match asks.iter().find(|a| !self.rules.contains(&a.rule)) {
            None => Ok(()),
            Some(ask) => {
                Err(RigError::new(Code::ApprovalStale, format!("Nobody has approved this: {}", ask.text)).on(device))
            }
        }
    }
}

fn other() -> RigError {
    RigError::new(Code::ApprovalStale, "What was judged is another command.")
}

/// Why a command doesn't begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    /// It is refused.
    Refused(RigError),
    /// A person has to say yes first.
    Asks(Vec<Ask>),
}

/// Whether an allowance answers for this: of its kind and stage, and for a move the whole way of each axis inside its
/// box. A step that nobody can place is inside no box.
pub(super) fn covers(allowance: &Allowance, rules: &Rules, order: Order<'_>, state: &Snapshot, now: Time) -> bool {
    let allowed = &allowance.allowed;
    let of_kind = allowed.kinds.contains(&order.kind());
    let of_stage = match (&allowed.stage, order.stage()) {
        (Some(only), Some(stage)) => only == stage,
        _ => true,
    };
    if allowance.left == 0 || now >= allowance.until || !of_kind || !of_stage {
        return false;
    }
    match order {
        Order::Move(m) => {
            let Ok(verdict) = rules.judge_move(m, state, now) else { return false };
            let inside = |span: &Span, room: &Span| room.low <= span.low && span.high <= room.high;
            rules.blind(m, state).is_empty()
                && verdict
                    .swept
                    .iter()
                    .all(|(id, way)| allowed.bounds.iter().any(|(name, room)| name == id && inside(way, room)))
        }
        // Homing knows no box: it is covered where a person has said so by name.
        Order::Home(h) => allowed.stage.is_some() || allowed.bounds.iter().any(|(id, _)| id.stage == h.stage),
        Order::Shot(_) | Order::Set(_) => true,
    }
}
