//! The room that a leg leaves to keep-outs: what it enters, what it comes out of, and how slowly it is done near one.

use super::judge::{Rules, SLOW};
use super::keep_out::{Meets, meet, overruns};
use super::path::{self, Drive, Leg};
use super::stopping;
use super::travel::{Leads, Violation};
use crate::config::{KeepOut, Stage};
use crate::model::{AxisId, Code, Name, Refusal, Snapshot};
use crate::units::{Distance, Position, Span, Unit, plain};

/// The boxes of the keep-outs, as a leg meets them.
#[derive(Default)]
pub(super) struct Met<'a> {
    pub(super) refusals: Vec<Refusal>,
    pub(super) violations: Vec<Violation>,
    /// The share of the way that is free.
    pub(super) free: Option<f64>,
    /// The boxes that it stays outside of.
    pub(super) passes: Vec<OneBox<'a>>,
}

pub(super) type OneBox<'a> = (&'a KeepOut, &'a [(AxisId, Span)]);

/// A leg on its way: the stage, where it starts, and the axes that nobody can place.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) index: usize,
    pub(super) leg: &'a Leg,
    pub(super) from: &'a [(Name, Position)],
    pub(super) blind: &'a [Name],
    pub(super) state: &'a Snapshot,
}

impl Rules {
    /// Lays a leg against all boxes, a stop aside.
    pub(super) fn boxes<'a>(&'a self, way: Way<'_>) -> Met<'a> {
        let mut met = Met::default();
        let drive = self.drive(way, 1.0);
        let stage = &self.rig().stages[way.index].id;
        let placed = |b: &[(AxisId, Span)]| !b.iter().any(|(id, _)| id.stage == *stage && way.blind.contains(&id.axis));
        for (keep_out, bounds) in self.all_boxes().filter(|(_, b)| placed(b)) {
            let mut violated = |leads, back: Option<(AxisId, Position)>| {
                let refusal = self.keep_out_refusal(keep_out, bounds, back.clone());
                met.violations.push(Violation { leads, refusal, back });
            };
            match meet(self.rig(), way.state, &drive, self.traits(way.index), keep_out, bounds) {
                Meets::Clear => met.passes.push((keep_out, bounds)),
                Meets::Leaves => violated(Leads::Back, None),
                Meets::StaysIn { out, deeper: false } => violated(Leads::Nowhere, out),
                Meets::StaysIn { out, deeper: true } => violated(Leads::Further, out),
                Meets::Enters(at) => {
                    met.free = Some(met.free.unwrap_or(1.0).min(at));
                    met.refusals.push(self.keep_out_refusal(keep_out, bounds, None));
                }
            }
        }
        met
    }

    /// The share of the full speed, at most `most`, at which a leg that passes these boxes would not run into one beyond
    /// its target, and the keep-out that makes it slower. It is not slower than a way back from a violation.
    pub(super) fn pace(&self, way: Way<'_>, passes: &[OneBox<'_>], most: f64) -> (f64, Option<String>) {
        let (mut pace, mut near) = (most, None);
        for at in passes {
            if self.overruns(way, pace, *at).is_none() {
                continue;
            }
            let (mut slow, mut fast) = (SLOW.min(most), pace);
            for _ in 0..12 {
                let middle = f64::midpoint(slow, fast);
                if self.overruns(way, middle, *at).is_none() { slow = middle } else { fast = middle }
            }
            (pace, near) = (slow, Some(at.0.name.clone()));
        }
        (pace, near)
    }

    /// Legs of which only the last part near a keep-out has to be slow are done in two: first as far as full speed goes.
    pub(super) fn slow_ends(
        &self,
        index: usize,
        start: &[(Name, Position)],
        legs: Vec<Leg>,
        state: &Snapshot,
    ) -> Vec<Leg> {
        if self.rig().keep_outs.is_empty() {
            return legs;
        }
        let mut from = start.to_vec();
        let mut all = Vec::new();
        for leg in legs {
            all.extend(self.quick_part(Way { index, leg: &leg, from: &from, blind: &[], state }));
            from.clone_from(&leg.targets);
            all.push(leg);
        }
        all
    }

    fn quick_part(&self, way: Way<'_>) -> Option<Leg> {
        let stage = &self.rig().stages[way.index];
        let met = starts_well(stage, way.from).then(|| self.boxes(way))?;
        if !met.refusals.is_empty() || !met.violations.is_empty() {
            return None;
        }
        // What is done at half the speed or more is done in one.
        met.passes.iter().find_map(|b| self.overruns(way, 0.5, *b))?;
        let free = met.passes.iter().filter_map(|b| self.overruns(way, 1.0, *b)).fold(1.0, f64::min);
        let miss = miss(stage, way.from, &way.leg.targets);
        let free = free - miss;
        // Neither part may be shorter than what an axis may miss its target by.
        if free <= miss || 1.0 - free <= miss {
            return None;
        }
        let targets = way.leg.targets.iter().map(|(name, to)| {
            let from = way.from.iter().find(|(n, _)| n == name)?.1;
            Some((name.clone(), from + Distance::base((*to - from).in_base() * free).ok()?))
        });
        Some(Leg { targets: targets.collect::<Option<_>>()? })
    }

    fn overruns(&self, way: Way<'_>, share: f64, (keep_out, bounds): OneBox<'_>) -> Option<f64> {
        let stage = &self.rig().stages[way.index];
        let drive = self.drive(way, share);
        let traits = self.traits(way.index);
        let run_on = stopping::run_on(stage, way.state.stage(stage.id.as_str()), &drive, traits);
        overruns(self.rig(), way.state, &drive, traits, keep_out, bounds, &run_on)
    }

    fn drive(&self, way: Way<'_>, share: f64) -> Drive {
        path::drive(&self.rig().stages[way.index], way.from, way.leg, share)
    }

    fn all_boxes(&self) -> impl Iterator<Item = OneBox<'_>> {
        self.rig().keep_outs.iter().flat_map(|k| k.boxes.iter().map(move |b| (k, b.as_slice())))
    }

    pub(super) fn keep_out_refusal(
        &self,
        keep_out: &KeepOut,
        bounds: &[(AxisId, Span)],
        way_out: Option<(AxisId, Position)>,
    ) -> Refusal {
        let verb = if way_out.is_some() { "lies inside" } else { "goes into" };
        Refusal {
            code: Code::KeepOut,
            rule: keep_out.name.clone(),
            what: format!("The way {verb} the keep-out \"{}\" ({}).", keep_out.name, self.ranges(keep_out, bounds)),
            why: keep_out.why.clone(),
            allowed: way_out
                .map(|(id, p)| format!("a move of {id} to {}, which is done slowly", self.rig().show(&id, p))),
        }
    }

    pub(super) fn ranges(&self, keep_out: &KeepOut, bounds: &[(AxisId, Span)]) -> String {
        let range = |(id, span): &(AxisId, Span)| {
            let span = span.widened(keep_out.margin);
            let unit = self.rig().axis(id).map_or(Unit::Mm, |a| a.unit);
            format!("{id} {} to {} {unit}", plain(span.low.to(unit)), plain(span.high.to(unit)))
        };
        bounds.iter().map(range).collect::<Vec<_>>().join(", ")
    }
}

/// The share of a way by which an axis may miss its target. Axes whose way is no longer than that don't count.
pub(super) fn miss(stage: &Stage, from: &[(Name, Position)], to: &[(Name, Position)]) -> f64 {
    let shares = from.iter().zip(to).filter_map(|((name, from), (_, to))| {
        let way = (*to - *from).in_base().abs();
        let miss = stage.axis(name.as_str())?.tolerance.in_base();
        (way > miss).then(|| miss / way)
    });
    shares.fold(0.0, f64::max)
}

/// Whether every axis starts inside its travel; else all of it is slow.
fn starts_well(stage: &Stage, from: &[(Name, Position)]) -> bool {
    from.iter().all(|(name, at)| stage.axis(name.as_str()).is_some_and(|a| a.travel.contains(*at)))
}
