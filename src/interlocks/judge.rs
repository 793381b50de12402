//! The rules of a rig, applied to a request, a snapshot and a moment. All refusals at once.

use std::sync::Arc;
use std::time::Duration;

use super::asks::Order;
use super::conditions::Ahead;
use super::keep_out::{Meets, meet};
use super::path::{self, Drive, HomeDrive, Leg, StageTraits, all_axes, whereabouts};
use crate::config::{Axis, Homing, Rig, Stage};
use crate::model::{
    Activity, Aim, Ask, AxisId, Code, Home, Move, Name, Refusal, RigError, Snapshot, StageStatus, StopBy, Time, Trust,
};
use crate::units::{Distance, Position, Span, plain};

/// The share of an axis's speed at which it may come back from where it should not be.
const SLOW: f64 = 0.1;

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
        let (_, stage) = self.stage(&movement.stage)?;
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
            path::legs(stage, status, &targets)
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
        let resolved = self.resolve(movement, state)?;
        let (index, stage) = self.stage(&movement.stage)?;
        let status = state.stage(stage.id.as_str());
        let mut refusals = self.readiness(stage, status, now);
        let mut from = resolved.from.clone();
        let blind = self.blind(movement, state);
        let mut swept: Vec<(AxisId, Span)> = Vec::new();
        let (mut duration, mut free, mut slow) = (Duration::ZERO, 1.0_f64, false);
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
            from.clone_from(&leg.targets);
        }
        let (over, affordable) = self.over_budget(stage, &resolved, &state.recent_moves, now);
        free = free.min(affordable);
        refusals.extend(over);
        if refusals.iter().any(|r| r.code == Code::KeepOut) {
            free = short_of(stage, &resolved, free);
        }
        if refusals.iter().any(|r| r.code == Code::Rule) {
            free = self.share_that_gates_allow(stage, &resolved, free, state);
        }
        let nearest = (free < 1.0).then(|| self.partway(stage, &resolved, free)).flatten();
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
        Ok(Verdict { refusals, asks, targets: resolved.targets, swept, duration, nearest, slow })
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
        refused(&stage.id, refusals)?;
        Ok((judged.drive, asks))
    }

    /// Judges a homing; moves nothing.
    ///
    /// # Errors
    /// All refusals at once, under the code of the first.
    pub fn judge_home(&self, home: &Home, state: &Snapshot, now: Time) -> Result<HomeDrive, RigError> {
        let (index, stage) = self.stage(&home.stage)?;
        let status = state.stage(stage.id.as_str());
        let Homing::Cycle { timeout, .. } = &stage.home else {
            return Err(no_homing(stage));
        };
        let mut axes = Vec::new();
        for name in &home.axes {
            let Some(i) = stage.axes.iter().position(|a| a.id.axis == *name) else {
                let what = format!("Stage {} has no axis {name}.", stage.id);
                return Err(RigError::new(Code::NotFound, what).on(&stage.id));
            };
            axes.push(i);
        }
        if !axes.is_empty() && axes.len() < stage.axes.len() && !self.traits[index].homes_single_axes {
            let what = format!("The controller of {} homes all its axes together; call home without axes.", stage.id);
            return Err(RigError::new(Code::Unsupported, what).on(&stage.id));
        }
        // Homing is how a position that isn't known becomes known: readings are needed, trust is not.
        let mut refusals = self.readiness(stage, status, now);
        refusals.extend(self.homing_meets(stage, state));
        refusals.extend(self.gates(Ahead { order: Order::Home(home), drive: None }, state).0);
        refused(&stage.id, refusals)?;
        Ok(HomeDrive { stage: stage.id.clone(), axes, timeout: *timeout })
    }

    /// What stands against any motion of the stage: stops, faults, connection, age of the reading.
    fn readiness(&self, stage: &Stage, status: Option<&StageStatus>, now: Time) -> Vec<Refusal> {
        let mut out = Vec::new();
        let mut no = |code, rule: &str, what: String| {
            out.push(refusal(code, rule.to_owned(), what, None));
        };
        let Some(status) = status.filter(|s| s.activity != Activity::Offline) else {
            let why = because(status);
            no(Code::NotConnected, "connection", format!("Stage {} isn't connected.{why}", stage.id));
            return out;
        };
        if status.activity == Activity::Connecting {
            let port = status.link.last_error.as_ref().filter(|_| !status.link.open);
            let why = port.map_or(String::new(), |e| format!(" {e}"));
            no(Code::NotConnected, "connection", format!("Stage {} is still being identified.{why}", stage.id));
        }
        if let Some(by) = status.stopped_by {
            let who = match by {
                StopBy::Model => "by a stop call",
                StopBy::Person => "by a person",
                StopBy::Program => "by the program",
            };
            no(
                Code::Stopped,
                "stop",
                format!("Stage {} was stopped {who} and stays so until it is released.", stage.id),
            );
        }
        if let Some(fault) = &status.fault {
            no(Code::Faulted, "fault", format!("Stage {} has a fault: [{}] {}", stage.id, fault.code, fault.what));
        }
        if status.activity.is_motion() {
            no(Code::Busy, "one motion at a time", format!("Stage {} is {}.", stage.id, status.activity.word()));
        }
        match status.read_at {
            Some(at) if now.since(at) <= self.rig.calls.fresh => {}
            Some(at) => {
                let (age, bound) = (now.since(at).as_millis(), self.rig.calls.fresh.as_millis());
                no(
                    Code::Stale,
                    "fresh",
                    format!("The newest reading of {} is {age} ms old; {bound} ms are allowed.", stage.id),
                );
            }
            None if status.activity != Activity::Connecting => {
                no(Code::Stale, "fresh", format!("There is no reading of {} yet.", stage.id));
            }
            None => {}
        }
        out
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
        let (mut refusals, mut slow, mut free) = (Vec::new(), !blind.is_empty(), 1.0_f64);
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
            if let Some(r) = self.travel(axis, *start, *to, &mut slow, &mut free) {
                refusals.push(r);
            }
            if now.is_some_and(|a| a.at_limit)
                && let Some(r) = toward_switch(axis, *start, *to)
            {
                refusals.push(r);
            }
        }
        refusals.extend(self.bystanders(stage, status, leg));
        let full = path::drive(stage, from, leg, 1.0);
        // A way that begins nobody knows where can't be laid against a box; it is refused for that already.
        let known = !refusals.iter().any(|r| r.code == Code::NotReferenced);
        for keep_out in self.rig.keep_outs.iter().filter(|_| known) {
            let placed =
                |b: &&Vec<(AxisId, Span)>| !b.iter().any(|(id, _)| id.stage == stage.id && blind.contains(&id.axis));
            for bounds in keep_out.boxes.iter().filter(placed) {
                let met = meet(&self.rig, state, &full, self.traits[index], keep_out, bounds);
                match met {
                    Meets::Clear => {}
                    Meets::Leaves => slow = true,
                    Meets::Enters(t) => {
                        free = free.min(t);
                        refusals.push(self.keep_out_refusal(keep_out, bounds, None));
                    }
                    Meets::StaysIn(out) => {
                        free = 0.0;
                        refusals.push(self.keep_out_refusal(keep_out, bounds, out));
                    }
                }
            }
        }
        let drive = if slow { path::drive(stage, from, leg, SLOW) } else { full };
        Judged { refusals, drive, slow, free }
    }

    /// Axes that don't take part but stand outside their travel: they come back first.
    fn bystanders(&self, stage: &Stage, status: Option<&StageStatus>, leg: &Leg) -> Vec<Refusal> {
        let still = stage.axes.iter().filter(|a| !leg.targets.iter().any(|(name, _)| *name == a.id.axis));
        still
            .filter_map(|axis| {
                let now = status?.axis(axis.id.axis.as_str())?;
                let at = now.position.filter(|p| now.trust >= axis.trust && !axis.travel.contains(*p))?;
                Some(outside(axis, at))
            })
            .collect()
    }

    /// The travel rule: targets inside; from outside only back.
    fn travel(&self, axis: &Axis, from: Position, to: Position, slow: &mut bool, free: &mut f64) -> Option<Refusal> {
        let show = |p: Position| plain(p.to(axis.unit));
        let range = format!("{} to {} {}", show(axis.travel.low), show(axis.travel.high), axis.unit);
        let rule = format!("travel of {}", axis.id);
        if axis.travel.contains(from) {
            if axis.travel.contains(to) {
                return None;
            }
            let way = (to - from).in_base();
            let room = (axis.travel.nearest(to) - from).in_base();
            *free = free.min((room / way).clamp(0.0, 1.0));
            let what = format!("{} {} is outside the travel of {}, {range}.", show(to), axis.unit, axis.id);
            return Some(Refusal {
                allowed: Some(format!("{} from {range}", axis.id)),
                ..refusal(Code::OutOfTravel, rule, what, axis.why.clone())
            });
        }
        // Outside: the way must lead back, and not through to the other side.
        let nearest = axis.travel.nearest(from);
        let back = Span::between(from, nearest);
        let leads_back = axis.travel.contains(to) || (back.contains(to) && to != from);
        if leads_back {
            *slow = true;
            return None;
        }
        *free = 0.0;
        Some(outside(axis, from))
    }

    fn keep_out_refusal(
        &self,
        keep_out: &crate::config::KeepOut,
        bounds: &[(AxisId, Span)],
        way_out: Option<(AxisId, Position)>,
    ) -> Refusal {
        let ranges: Vec<String> = bounds
            .iter()
            .map(|(id, span)| {
                let span = span.widened(keep_out.margin);
                let unit = self.rig.axis(id).map_or(crate::units::Unit::Mm, |a| a.unit);
                format!("{id} {} to {} {unit}", plain(span.low.to(unit)), plain(span.high.to(unit)))
            })
            .collect();
        let verb = if way_out.is_some() { "lies inside" } else { "goes into" };
        Refusal {
            allowed: way_out
                .map(|(id, p)| format!("a move of {id} to {}, which is done slowly", self.rig.show(&id, p))),
            ..refusal(
                Code::KeepOut,
                keep_out.name.clone(),
                format!("The way {verb} the keep-out \"{}\" ({}).", keep_out.name, ranges.join(", ")),
                keep_out.why.clone(),
            )
        }
    }

    /// Boxes that a homing could meet: those shared with another stage that is in the way. Boxes of the homing
    /// stage alone can't be judged before its position is known; the rig's owner answers for the homing order.
    fn homing_meets(&self, stage: &Stage, state: &Snapshot) -> Vec<Refusal> {
        let mut out = Vec::new();
        for keep_out in &self.rig.keep_outs {
            for bounds in &keep_out.boxes {
                let others: Vec<&(AxisId, Span)> = bounds.iter().filter(|(id, _)| id.stage != stage.id).collect();
                let shared = others.len() < bounds.len() && !others.is_empty();
                let met = shared
                    && others.iter().all(|(id, span)| {
                        let axis = all_axes(&self.rig).find(|a| a.id == *id);
                        axis.is_none_or(|a| {
                            let place = whereabouts(a, state.stage(id.stage.as_str()));
                            let span = span.widened(keep_out.margin);
                            // A point is taken for a tiny span, so that one rule serves both.
                            let hair = Distance::base(1e-6).unwrap_or_default();
                            place.widened(hair).overlaps(span)
                        })
                    });
                if met {
                    out.push(self.keep_out_refusal(keep_out, bounds, None));
                }
            }
        }
        out
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

/// Why a stage can't be homed whose rig file says `home = "never"`, and what is done instead.
pub fn no_homing(stage: &Stage) -> RigError {
    let axis = stage.axes.first().map_or("AXIS", |a| a.id.axis.as_str());
    let what = format!(
        "Stage {id} has no homing; a person declares where its axes stand, with `steadyhand reference {id}.{axis} VALUE`.",
        id = stage.id
    );
    RigError::new(Code::Unsupported, what).on(&stage.id)
}

/// An axis that stands outside its travel, with the way back.
fn outside(axis: &Axis, at: Position) -> Refusal {
    let show = |p: Position| plain(p.to(axis.unit));
    let what = format!(
        "{} stands at {} {unit}, outside its travel of {} to {} {unit}, and must come back before anything else.",
        axis.id,
        show(at),
        show(axis.travel.low),
        show(axis.travel.high),
        unit = axis.unit
    );
    Refusal {
        allowed: Some(format!(
            "a move of {} to {} {}, which is done slowly",
            axis.id,
            show(axis.travel.nearest(at)),
            axis.unit
        )),
        ..refusal(Code::OutOfTravel, format!("travel of {}", axis.id), what, axis.why.clone())
    }
}

/// The share of the way that ends short of a keep-out's face by what an axis may miss its target by. Axes whose
/// way is no longer than that don't count.
fn short_of(stage: &Stage, resolved: &Resolved, free: f64) -> f64 {
    let back = resolved.from.iter().zip(&resolved.targets).filter_map(|((name, from), (_, to))| {
        let way = (*to - *from).in_base().abs();
        let miss = stage.axis(name.as_str())?.tolerance.in_base();
        (way > miss).then(|| miss / way)
    });
    (free - back.fold(0.0, f64::max)).max(0.0)
}

/// Why a stage isn't there, as a sentence of its own.
fn because(status: Option<&StageStatus>) -> String {
    status.and_then(|s| s.fault.as_ref()).map_or(String::new(), |f| format!(" {}", f.what))
}

fn refusal(code: Code, rule: String, what: String, why: Option<String>) -> Refusal {
    Refusal { code, rule, what, why, allowed: None }
}

/// A pressed switch doesn't say at which end it is: the nearer end is meant.
fn toward_switch(axis: &Axis, from: Position, to: Position) -> Option<Refusal> {
    let (below, above) = ((from - axis.travel.low).in_base(), (axis.travel.high - from).in_base());
    let toward_low = below <= above;
    let way = (to - from).in_base();
    let further = if toward_low { way < 0.0 } else { way > 0.0 };
    further.then(|| {
        let end = if toward_low { "lower" } else { "upper" };
        let what =
            format!("The limit switch of {} at its {end} end is pressed, and the move goes towards it.", axis.id);
        Refusal {
            allowed: Some(format!("a move of {} away from its {end} end", axis.id)),
            ..refusal(Code::AtLimit, format!("limit switch of {}", axis.id), what, axis.why.clone())
        }
    })
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
        Some(RigError { refusals: v.refusals.clone(), ..RigError::new(first.code, what) })
    }
}
