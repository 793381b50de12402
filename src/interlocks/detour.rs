//! The way round: a short sequence of moves to the same end, each judged on the state in which the last would leave the
//! rig. It is named, never done.

use super::judge::{Rules, Verdict};
use super::path::all_axes;
use crate::config::Axis;
use crate::model::{Aim, AxisId, Code, GoTo, Instead, Move, Name, Snapshot, Time};
use crate::units::{Distance, Position, Span};

/// So many sequences are tried at most: a refusal may not take long.
const TRIES: usize = 32;

/// Positions of axes of one stage.
type Places = Vec<(Name, Position)>;

impl Rules {
    /// Puts what would be allowed into a verdict that refuses.
    pub(super) fn propose(&self, movement: &Move, verdict: &mut Verdict, state: &Snapshot, now: Time) {
        if verdict.refusals.is_empty() {
            return;
        }
        if verdict.refusals.iter().all(|r| matches!(r.code, Code::KeepOut | Code::Rule)) {
            verdict.sequence = self.detour(movement, verdict, state, now);
        }
        // What is told is what was judged: the numbers as a call has them.
        let nearest = verdict.nearest.as_ref();
        let nearest = nearest.and_then(|n| self.arguments(&to(&movement.stage, n.clone())));
        let nearest = nearest.filter(|n| self.allows(std::slice::from_ref(&asked(n)), state, now));
        let sequence: Option<Vec<GoTo>> = verdict.sequence.iter().map(|m| self.arguments(m)).collect();
        let sequence = sequence.unwrap_or_default();
        if nearest.is_some() || !sequence.is_empty() {
            verdict.instead = Some(Box::new(Instead { nearest, sequence }));
        }
    }

    /// The first of a bounded list of sequences that is allowed throughout.
    fn detour(&self, movement: &Move, verdict: &Verdict, state: &Snapshot, now: Time) -> Vec<Move> {
        let Some(status) = state.stage(movement.stage.as_str()) else { return Vec::new() };
        let goals: Places = verdict
            .targets
            .iter()
            .filter(|(name, to)| status.axis(name.as_str()).and_then(|a| a.position) != Some(*to))
            .cloned()
            .collect();
        let mut tries = orders(&movement.stage, &goals);
        for axis in all_axes(self.rig()) {
            let Some(toward) = axis.toward_sample else { continue };
            let at = state.stage(axis.id.stage.as_str()).and_then(|s| s.axis(axis.id.axis.as_str()));
            let Some(at) = at.and_then(|a| a.position) else { continue };
            for height in self.retracted(axis, at, -toward, verdict) {
                tries.extend(round(&movement.stage, &goals, &axis.id, at, height));
            }
        }
        tries.into_iter().take(TRIES).find(|steps| self.allows(steps, state, now)).unwrap_or_default()
    }

    /// Where an axis is out of the way: beyond the boxes that were met, and at the end of its travel.
    fn retracted(&self, axis: &Axis, at: Position, away: f64, verdict: &Verdict) -> Vec<Position> {
        let met = self.rig().keep_outs.iter().filter(|k| verdict.refusals.iter().any(|r| r.rule == k.name));
        // Far enough that neither a missed target nor a stop on the way there counts.
        let spare = axis.tolerance.in_base() * 2.0 + axis.max_speed.in_base() / 2.0;
        let side = |b: &Vec<(AxisId, Span)>, margin: Distance| {
            let span = b.iter().find(|(id, _)| *id == axis.id)?.1.widened(margin);
            let face = if away > 0.0 { span.high } else { span.low };
            Some(axis.travel.nearest(face + Distance::base(away * spare).ok()?))
        };
        let mut heights: Vec<Position> =
            met.flat_map(|k| k.boxes.iter().filter_map(|b| side(b, k.margin)).collect::<Vec<_>>()).collect();
        heights.push(if away > 0.0 { axis.travel.high } else { axis.travel.low });
        let up = |p: &Position| (*p - at).in_base() * away;
        heights.retain(|p| up(p) > axis.tolerance.in_base());
        heights.sort_by(|a, b| up(a).total_cmp(&up(b)));
        heights.dedup();
        heights.truncate(4);
        heights
    }

    fn allows(&self, steps: &[Move], state: &Snapshot, now: Time) -> bool {
        let told = |step| self.arguments(step).as_ref().map(asked);
        let Some(steps) = steps.iter().map(told).collect::<Option<Vec<Move>>>() else { return false };
        // Each axis may come to rest on either side of its target.
        let exact = |_| 0.0;
        self.allows_each(&steps, exact, state.clone(), now)
            && (steps.len() == 1
                || (0..8_u32).all(|sides| {
                    let off = |axis: usize| if sides >> (axis % 3) & 1 == 1 { 1.0 } else { -1.0 };
                    self.allows_each(&steps, off, state.clone(), now)
                }))
    }

    /// Whether each move is allowed where the last one has ended, each axis off its target by so many tolerances.
    fn allows_each(&self, steps: &[Move], off: impl Fn(usize) -> f64 + Copy, mut state: Snapshot, now: Time) -> bool {
        steps.iter().all(|step| match self.weigh(step, &state, now) {
            Ok(verdict) if verdict.refusals.is_empty() => {
                self.arrive(&mut state, &step.stage, &verdict.targets, off, now);
                true
            }
            _ => false,
        })
    }

    /// The state in which a move would leave the rig.
    fn arrive(
        &self,
        state: &mut Snapshot,
        stage: &Name,
        targets: &[(Name, Position)],
        off: impl Fn(usize) -> f64,
        now: Time,
    ) {
        state.recent_moves.push(now);
        self.travels(state, stage, targets);
        let Some(status) = state.stages.iter_mut().find(|s| s.stage == *stage) else { return };
        let axes = self.rig().stage(stage.as_str()).into_iter().flat_map(|s| &s.axes);
        for (index, (now, axis)) in status.axes.iter_mut().zip(axes).enumerate() {
            if let Some((_, to)) = targets.iter().find(|(name, _)| *name == now.axis) {
                let miss = Distance::base(axis.tolerance.in_base() * off(index)).unwrap_or_default();
                // Nothing rests beyond its travel: that is refused, whatever comes next.
                now.position = Some(axis.travel.nearest(*to + miss));
            }
        }
    }

    /// Counts the way of a move to the budget of its axes.
    fn travels(&self, state: &mut Snapshot, stage: &Name, targets: &[(Name, Position)]) {
        for (axis, to) in targets {
            let id = AxisId { stage: stage.clone(), axis: axis.clone() };
            let from = state.stage(stage.as_str()).and_then(|s| s.axes.iter().find(|a| a.axis == *axis)?.position);
            if let (Some(from), Some((_, sum))) = (from, state.travelled.iter_mut().find(|(counted, _)| *counted == id))
            {
                *sum = *sum + (*to - from).abs();
            }
        }
    }

    /// A move as the arguments of a call, which has one unit for all its axes.
    fn arguments(&self, movement: &Move) -> Option<GoTo> {
        let Aim::To(targets) = &movement.aim else { return None };
        let stage = self.rig().stage(movement.stage.as_str())?;
        let unit = stage.axis(targets.first()?.0.as_str())?.unit;
        let one = |(name, p): &(Name, Position)| {
            let own = stage.axis(name.as_str())?.unit;
            (own.dimension() == unit.dimension()).then(|| (name.clone(), crate::units::rounded(p.to(unit))))
        };
        Some(GoTo { stage: stage.id.clone(), targets: targets.iter().map(one).collect::<Option<_>>()?, unit })
    }
}

fn to(stage: &Name, targets: Places) -> Move {
    Move { stage: stage.clone(), aim: Aim::To(targets) }
}

/// What is asked for by these arguments.
fn asked(call: &GoTo) -> Move {
    let targets = call.targets.iter().filter_map(|(n, v)| Some((n.clone(), Position::new(*v, call.unit).ok()?)));
    to(&call.stage, targets.collect())
}

/// The axes one after the other, in every order, for two and three axes.
fn orders(stage: &Name, goals: &Places) -> Vec<Vec<Move>> {
    const TWO: &[&[usize]] = &[&[0, 1], &[1, 0]];
    const THREE: &[&[usize]] = &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    let orders = match goals.len() {
        2 => TWO,
        3 => THREE,
        _ => &[],
    };
    let single = |i: &usize| to(stage, vec![goals[*i].clone()]);
    orders.iter().map(|order| order.iter().map(single).collect()).collect()
}

/// Away from the sample, then the others, then where it should be in the end.
fn round(stage: &Name, goals: &Places, focus: &AxisId, at: Position, height: Position) -> Vec<Vec<Move>> {
    let own = |name: &Name| *stage == focus.stage && *name == focus.axis;
    let others: Places = goals.iter().filter(|(name, _)| !own(name)).cloned().collect();
    if others.is_empty() {
        return Vec::new();
    }
    let focus_to = |p| to(&focus.stage, vec![(focus.axis.clone(), p)]);
    let away = || vec![focus_to(height), to(stage, others.clone())];
    let end = goals.iter().find(|(name, _)| own(name)).map_or(at, |(_, p)| *p);
    let back = away().into_iter().chain([focus_to(end)]).collect();
    // Where the focus was not to move, it may have to stay away.
    if end == at { vec![back, away()] } else { vec![back] }
}
