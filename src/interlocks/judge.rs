//! The rules of a rig, applied to a request, a snapshot and a moment. All refusals at once.

use std::sync::Arc;
use std::time::Duration;

use super::asks::Order;
use super::conditions::Ahead;
use super::path::{self, Drive, Leg, StageTraits};
use super::ready::because;
use super::room::{Way, miss};
use super::travel::{Unmended, bystanders, incoming, mends, outgoing, toward_switch};
use crate::config::{Rig, Stage};
use crate::model::{Activity, Aim, Ask, AxisId, Code, Instead, Move, Name, Refusal, RigError, Snapshot, Time, Trust};
use crate::units::{Distance, Position, Span};

/// The share of an axis's speed at which it may come back from where it should not be.
pub(super) const SLOW: f64 = 0.1;

/// The interlocks of a rig: immutable, shared, asked by anybody. They can't clear.
#[derive(Debug)]
pub struct Rules {
    rig: Arc<Rig>,
    traits: Vec<StageTraits>,
}

/// What the interlocks say to a move, with what it would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Why not; empty when it is allowed.
    pub refusals: Vec<Refusal>,
    /// Why a person is asked before it; what is refused is refused whoever asks.
    pub asks: Vec<Ask>,
    /// Where the axes that take part would end.
    pub targets: Vec<(Name, Position)>,
    /// The span that each of them passes, backlash overshoot included.
    pub swept: Vec<(AxisId, Span)>,
    /// How long it takes, accelerations aside.
    pub duration: Duration,
    /// Where the move could end instead, if a limit or a keep-out is in its way.
    pub nearest: Option<Vec<(Name, Position)>>,
    /// Moves that lead to the same end one after the other, each of them allowed as things stand; empty when there
    /// are none, or when the move itself is allowed.
    pub sequence: Vec<Move>,
    /// What would be allowed instead, ready to be asked for.
    pub instead: Option<Box<Instead>>,
    /// The keep-out because of which a part of it is done more slowly, so that a stop ends outside.
    pub near: Option<String>,
    /// Whether it is only allowed slowly, because it leads back from where the stage should not be.
    pub slow: bool,
}

/// A move whose relative parts have become positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) from: Vec<(Name, Position)>,
    pub(crate) targets: Vec<(Name, Position)>,
    pub(crate) legs: Vec<Leg>,
}

struct Judged {
    refusals: Vec<Refusal>,
    drive: Drive,
    slow: bool,
    /// The share of the way that is free.
    free: f64,
    /// The keep-out because of which it is slower than it could be.
    near: Option<String>,
    /// The way back from where the stage should not be, where this isn't one.
    back: Option<(AxisId, Position)>,
}

impl Rules {
    /// The rules of a rig whose stages have these traits, in the rig's order.
    pub fn new(rig: Arc<Rig>, traits: Vec<StageTraits>) -> Rules {
        assert_eq!(rig.stages.len(), traits.len(), "one set of traits for each stage");
        Rules { rig, traits }
    }

    /// The rig.
    pub fn rig(&self) -> &Arc<Rig> {
        &self.rig
    }

    pub(super) fn traits(&self, index: usize) -> StageTraits {
        self.traits[index]
    }

    pub(super) fn stage(&self, name: &Name) -> Result<(usize, &Stage), RigError> {
        let found = self.rig.stages.iter().enumerate().find(|(_, s)| s.id == *name);
        found.ok_or_else(|| RigError::new(Code::NotFound, format!("This rig has no stage {name}.")))
    }

    /// Makes positions of a move, on the state of this moment.
    ///
    /// # Errors
    /// `not_found` for a stage or axis that isn't there, `moved_on` when the stage has changed since a relative
    /// move was decided, `not_referenced` when a position isn't known that the move starts from.
    pub(crate) fn resolve(&self, movement: &Move, state: &Snapshot) -> Result<Resolved, RigError> {
        let (index, stage) = self.stage(&movement.stage)?;
        let fail = |code, what: String| Err(RigError::new(code, what).on(&stage.id));
        let Some(status) = state.stage(stage.id.as_str()) else {
            return fail(Code::NotConnected, format!("Nothing is known of stage {} yet.", stage.id));
        };
        let names: Vec<&Name> = match &movement.aim {
            Aim::To(t) => t.iter().map(|(n, _)| n).collect(),
            Aim::By { offsets, .. } => offsets.iter().map(|(n, _)| n).collect(),
            Aim::Back => match &status.came_from {
                Some(places) => places.iter().map(|(n, _)| n).collect(),
                None => return fail(Code::NotFound, format!("Stage {} has not moved yet.", stage.id)),
            },
        };
        if let Aim::By { from, .. } = &movement.aim
            && *from != status.epoch
        {
            let what = format!(
                "Stage {} has moved or changed since state_epoch {}; it is {} now. {}",
                stage.id,
                from.0,
                status.epoch.0,
                self.rig.stands(status)
            );
            return fail(Code::MovedOn, what);
        }
        let mut start = Vec::new();
        for name in &names {
            let Some(axis) = status.axis(name.as_str()) else {
                return fail(Code::NotFound, format!("Stage {} has no axis {name}.", stage.id));
            };
            let Some(position) = axis.position else {
                let what = if status.activity == Activity::Offline {
                    format!("Stage {} isn't connected.{}", stage.id, because(Some(status)))
                } else {
                    format!("The machine position of {}.{name} is not yet known.", stage.id)
                };
                let code = if status.activity == Activity::Offline { Code::NotConnected } else { Code::NotReferenced };
                return fail(code, what);
            };
            start.push(((*name).clone(), position));
        }
        let targets: Vec<(Name, Position)> = match &movement.aim {
            Aim::To(t) => t.clone(),
            Aim::By { offsets, .. } => {
                start.iter().zip(offsets).map(|((n, p), (_, way))| (n.clone(), *p + *way)).collect()
            }
            Aim::Back => status.came_from.clone().unwrap_or_default(),
        };
        // A blind step goes straight: where backlash would be taken up nobody knows.
        let legs = if self.blind(movement, state).is_empty() {
            self.slow_ends(index, &start, path::legs(stage, status, &targets), state)
        } else {
            vec![Leg { targets: targets.clone() }]
        };
        Ok(Resolved { from: start, targets, legs })
    }

    /// Judges a whole move; moves nothing, and clears nothing.
    ///
    /// # Errors
    /// As of resolving: `not_found`, `moved_on`, `not_referenced`. What the interlocks refuse is in the verdict.
    pub fn judge_move(&self, movement: &Move, state: &Snapshot, now: Time) -> Result<Verdict, RigError> {
        let mut verdict = self.weigh(movement, state, now)?;
        self.propose(movement, &mut verdict, state, now);
        Ok(verdict)
    }

    /// Judges a whole move, without the look for another way.
    pub(super) fn weigh(&self, movement: &Move, state: &Snapshot, now: Time) -> Result<Verdict, RigError> {
        let resolved = self.resolve(movement, state)?;
        let (index, stage) = self.stage(&movement.stage)?;
        let status = state.stage(stage.id.as_str());
        let mut refusals = self.readiness(stage, status, now);
        let mut from = resolved.from.clone();
        let blind = self.blind(movement, state);
        let mut swept: Vec<(AxisId, Span)> = Vec::new();
        let (mut duration, mut free, mut slow) = (Duration::ZERO, 1.0_f64, false);
        let (mut near, mut back) = (None, None);
        let order = Order::Move(movement);
        for leg in &resolved.legs {
            let judged = self.judge_way(index, leg, &from, &blind, state);
            let (gates, _) = self.gates(Ahead { order, drive: Some(&judged.drive) }, state);
            for r in judged.refusals.into_iter().chain(gates) {
                if !refusals.iter().any(|other| *other == r || (r.code == Code::Rule && other.rule == r.rule)) {
                    refusals.push(r);
                }
            }
            for (id, span) in path::swept(&judged.drive, stage) {
                match swept.iter_mut().find(|(n, _)| *n == id) {
                    Some((_, s)) => *s = Span { low: s.low.min(span.low), high: s.high.max(span.high) },
                    None => swept.push((id, span)),
                }
            }
            duration += judged.drive.duration;
            free = free.min(judged.free);
            slow |= judged.slow;
            near = near.or(judged.near);
            back = back.or(judged.back);
            from.clone_from(&leg.targets);
        }
        let (over, affordable) = self.over_budget(stage, &resolved, &state.recent_moves, &state.travelled, now);
        free = free.min(affordable);
        refusals.extend(over);
        if refusals.iter().any(|r| r.code == Code::KeepOut) {
            // Short of the face by what an axis may miss its target by.
            free = (free - miss(stage, &resolved.from, &resolved.targets)).max(0.0);
        }
        if refusals.iter().any(|r| r.code == Code::Rule) {
            free = self.share_that_gates_allow(stage, &resolved, free, state);
        }
        let nearest = match back.filter(|(id, _)| id.stage == stage.id) {
            Some((id, at)) => Some(vec![(id.axis, at)]),
            None => (free < 1.0).then(|| self.partway(stage, &resolved, free)).flatten(),
        };
        if let Some(nearest) = &nearest {
            let show = |(name, p): &(Name, Position)| {
                let id = AxisId { stage: stage.id.clone(), axis: name.clone() };
                format!("{id} to {}", self.rig.show(&id, *p))
            };
            let part = format!("the same move as far as {}", nearest.iter().map(show).collect::<Vec<_>>().join(", "));
            refusals
                .iter_mut()
                .filter(|r| r.allowed.is_none() && matches!(r.code, Code::KeepOut | Code::Rule))
                .for_each(|r| {
                    r.allowed = Some(part.clone());
                });
        }
        let asks = self.asks(Order::Move(movement), state);
        let targets = resolved.targets;
        let (sequence, instead) = (Vec::new(), None);
        Ok(Verdict { refusals, asks, targets, swept, duration, nearest, sequence, instead, near, slow })
    }

    /// Judges one leg for the panel, and tells what a person is asked because of rules. `blind` are axes that may go
    /// although nobody knows where they stand.
    pub(super) fn judge_leg(
        &self,
        name: &Name,
        leg: &Leg,
        blind: &[Name],
        state: &Snapshot,
        now: Time,
    ) -> Result<(Drive, Vec<Ask>), RigError> {
        let (index, stage) = self.stage(name)?;
        let status = state.stage(name.as_str());
        let mut refusals = self.readiness(stage, status, now);
        let from: Vec<(Name, Position)> =
            leg.targets.iter().filter_map(|(n, _)| Some((n.clone(), status?.axis(n.as_str())?.position?))).collect();
        if from.len() < leg.targets.len() && refusals.is_empty() {
            let what = format!("The position of stage {name} is not known.");
            refusals.push(refusal(Code::NotReferenced, format!("reference of {name}"), what, None));
        }
        let judged = self.judge_way(index, leg, &from, blind, state);
        refusals.extend(judged.refusals);
        let movement = Move { stage: name.clone(), aim: Aim::To(leg.targets.clone()) };
        let (gates, asks) = self.gates(Ahead { order: Order::Move(&movement), drive: Some(&judged.drive) }, state);
        refusals.extend(gates);
        refused(&stage.id, refusals).map_err(|e| {
            let instead = self.judge_move(&movement, state, now).ok().and_then(|v| v.instead);
            RigError { instead, ..e }
        })?;
        Ok((judged.drive, asks))
    }

    fn judge_way(
        &self,
        index: usize,
        leg: &Leg,
        from: &[(Name, Position)],
        blind: &[Name],
        state: &Snapshot,
    ) -> Judged {
        let stage = &self.rig.stages[index];
        let status = state.stage(stage.id.as_str());
        let (mut refusals, mut violations, mut free) = (Vec::new(), Vec::new(), 1.0_f64);
        for (name, to) in &leg.targets {
            let Some(axis) = stage.axis(name.as_str()) else {
                let what = format!("Stage {} has no axis {name}.", stage.id);
                refusals.push(refusal(Code::NotFound, format!("axes of {}", stage.id), what, None));
                continue;
            };
            let Some((_, start)) = from.iter().find(|(n, _)| n == name) else { continue };
            let now = status.and_then(|s| s.axis(name.as_str()));
            let trust = now.map_or(Trust::Unknown, |a| a.trust);
            if trust == Trust::Unknown && blind.contains(name) {
                // Its number is no place: nothing can be laid against it.
                continue;
            }
            if trust < axis.trust {
                let what = format!("The position of {} is {trust}; a move needs it {}.", axis.id, axis.trust);
                refusals.push(refusal(
                    Code::NotReferenced,
                    format!("reference of {}", axis.id),
                    what,
                    axis.why.clone(),
                ));
            }
            if axis.travel.contains(*start) {
                refusals.extend(outgoing(axis, *start, *to, &mut free));
            } else {
                violations.push(incoming(axis, *start, *to));
            }
            if now.is_some_and(|a| a.at_limit)
                && let Some(r) = toward_switch(axis, *start, *to)
            {
                refusals.push(r);
            }
        }
        violations.extend(bystanders(stage, status, leg));
        let way = Way { index, leg, from, blind, state };
        // A way that begins nobody knows where can't be laid against a box; it is refused for that already.
        let known = !refusals.iter().any(|r| r.code == Code::NotReferenced);
        let mut met = if known { self.boxes(way) } else { Default::default() };
        violations.append(&mut met.violations);
        let most = if blind.is_empty() { 1.0 } else { SLOW };
        let (most, back) = match mends(violations) {
            Ok(share) => (most.min(share), None),
            Err(Unmended { refusals: against, back }) => {
                free = 0.0;
                refusals.extend(against);
                (SLOW, back)
            }
        };
        let (pace, near) = self.pace(way, &met.passes, most);
        free = free.min(met.free.unwrap_or(1.0));
        refusals.extend(met.refusals);
        Judged { refusals, drive: path::drive(stage, from, leg, pace), slow: most < 1.0, free, near, back }
    }

    /// The point on the way to the targets that is free: a little before what is in the way.
    fn partway(&self, stage: &Stage, resolved: &Resolved, free: f64) -> Option<Vec<(Name, Position)>> {
        let single = resolved.legs.len() == 1 && resolved.targets.len() == 1;
        let part: Vec<(Name, Position)> = resolved
            .from
            .iter()
            .zip(&resolved.targets)
            .map(|((name, from), (_, to))| {
                let axis = stage.axis(name.as_str());
                let full = *from + Distance::base((*to - *from).in_base() * free).unwrap_or_default();
                let inside = axis.map_or(full, |a| a.travel.nearest(full));
                // Down to the resolution that people write, towards the start.
                let unit = axis.map_or(crate::units::Unit::Mm, |a| a.unit);
                let (shown, start) = (inside.to(unit), from.to(unit));
                let stepped = if shown >= start { (shown * 1e4).floor() / 1e4 } else { (shown * 1e4).ceil() / 1e4 };
                let at = Position::new(stepped, unit).unwrap_or(inside);
                (name.clone(), if single && axis.is_some_and(|a| a.travel.contains(inside)) { at } else { inside })
            })
            .collect();
        (part != resolved.from).then_some(part)
    }
}

pub(super) fn refusal(code: Code, rule: String, what: String, why: Option<String>) -> Refusal {
    Refusal { code, rule, what, why, allowed: None }
}

pub(super) fn refused(device: &Name, refusals: Vec<Refusal>) -> Result<(), RigError> {
    let Some(first) = refusals.first() else { return Ok(()) };
    let what = refusals.iter().map(|r| r.what.as_str()).collect::<Vec<_>>().join(" ");
    Err(RigError { refusals: refusals.clone(), ..RigError::new(first.code, what).on(device) })
}

/// A verdict's refusals as one error, for those who asked to move.
impl From<&Verdict> for Option<RigError> {
    fn from(v: &Verdict) -> Option<RigError> {
        let first = v.refusals.first()?;
        let what = v.refusals.iter().map(|r| r.what.as_str()).collect::<Vec<_>>().join(" ");
        let instead = v.instead.clone();
        Some(RigError { refusals: v.refusals.clone(), instead, ..RigError::new(first.code, what) })
    }
}
