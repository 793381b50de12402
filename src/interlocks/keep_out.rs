//! Keep-out boxes against the swept path: the segment where axes are coordinated, the whole box between start
//! and end where they are not.

use super::path::{Drive, StageTraits, all_axes, whereabouts};
use crate::config::{KeepOut, Rig};
use crate::model::{AxisId, Snapshot};
use crate::units::{Distance, Position, Span};

/// How a leg meets a box of a keep-out.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meets {
    /// It stays outside.
    Clear,
    /// It starts inside and each part of it leads outwards: allowed, slowly.
    Leaves,
    /// It goes in, at this share of its way.
    Enters(f64),
    /// It starts inside and doesn't lead out.
    StaysIn {
        /// The nearest way out: this axis to this position.
        out: Option<(AxisId, Position)>,
        /// Whether it leads further in.
        deeper: bool,
    },
}

/// One bounded axis of a box, seen along the leg: `at(t) = start + t × way`, `t` from 0 to 1, and how much
/// room it takes beside that (axes of other stages that move or aren't believed).
struct Side {
    id: AxisId,
    bounds: Span,
    start: Position,
    way: f64,
    /// Whether it belongs to the stage that moves, so that a way out along it can be proposed.
    own: bool,
    /// Whereabouts of an axis that doesn't take part.
    fixed: Option<Span>,
    /// Its place among the drive's axes, if it takes part.
    part: Option<usize>,
}

/// The sides of a box along the leg; `None` if it has an axis that the rig doesn't have: config refuses that, so it
/// is treated as met.
fn sides(
    rig: &Rig,
    state: &Snapshot,
    drive: &Drive,
    keep_out: &KeepOut,
    bounds: &[(AxisId, Span)],
) -> Option<Vec<Side>> {
    bounds.iter().map(|(id, span)| side(rig, state, drive, keep_out, id, *span)).collect()
}

/// Whether an axis that doesn't take part keeps the box away from the leg.
fn apart(sides: &[Side]) -> bool {
    sides.iter().any(|s| s.fixed.is_some_and(|f| !f.overlaps(s.bounds) && !point_inside(f, s.bounds)))
}

/// Whether the drive keeps to a straight line: one axis alone always does.
pub(super) fn straight(drive: &Drive, traits: StageTraits) -> bool {
    traits.coordinated || drive.axes.iter().filter(|a| a.from != a.to).count() <= 1
}

/// From which share of its way on a leg that stays outside would run into the box, if each axis ran on beyond its target
/// by so much (in base units, with the sign of its way); `None` if it would not.
pub(super) fn overruns(
    rig: &Rig,
    state: &Snapshot,
    drive: &Drive,
    traits: StageTraits,
    keep_out: &KeepOut,
    bounds: &[(AxisId, Span)],
    run_on: &[f64],
) -> Option<f64> {
    let Some(mut sides) = sides(rig, state, drive, keep_out, bounds) else { return Some(0.0) };
    if apart(&sides) {
        return None;
    }
    let far = |s: &Side| s.part.and_then(|i| run_on.get(i)).copied().unwrap_or(0.0);
    if straight(drive, traits) {
        // It keeps to its line beyond its target, too.
        let ways = drive.axes.iter().zip(run_on).map(|(a, far)| ((a.to - a.from).in_base(), far));
        let beyond = ways.filter(|(way, _)| *way != 0.0).map(|(way, far)| far / way).fold(0.0, f64::max);
        let moving: Vec<&Side> = sides.iter().filter(|s| s.fixed.is_none()).collect();
        if moving.is_empty() {
            return None;
        }
        return crosses(&moving, 1.0 + beyond).map(|t| (t - beyond).max(0.0));
    }
    for s in &mut sides {
        // Who runs on by so much is in the box if it stands in the box drawn out against the way by as much.
        let far = Distance::base(far(s)).unwrap_or_default();
        if far > Distance::ZERO {
            s.bounds.low = s.bounds.low - far;
        } else {
            s.bounds.high = s.bounds.high - far;
        }
    }
    let moving: Vec<&Side> = sides.iter().filter(|s| s.fixed.is_none()).collect();
    if moving.is_empty() { None } else { spans(&moving) }
}

pub(super) fn meet(
    rig: &Rig,
    state: &Snapshot,
    drive: &Drive,
    traits: StageTraits,
    keep_out: &KeepOut,
    bounds: &[(AxisId, Span)],
) -> Meets {
    let Some(sides) = sides(rig, state, drive, keep_out, bounds) else { return Meets::Enters(0.0) };
    if apart(&sides) {
        return Meets::Clear;
    }
    let moving: Vec<&Side> = sides.iter().filter(|s| s.fixed.is_none()).collect();
    if moving.is_empty() {
        // Nothing of this box moves; what lies inside is not this leg's doing.
        return Meets::Clear;
    }
    if moving.iter().all(|s| inside(s.start, s.bounds)) {
        return leaves(&sides, &moving);
    }
    match enters(&moving, straight(drive, traits)) {
        Some(t) => Meets::Enters(t),
        None => Meets::Clear,
    }
}

fn side(rig: &Rig, state: &Snapshot, drive: &Drive, keep_out: &KeepOut, id: &AxisId, span: Span) -> Option<Side> {
    let axis = all_axes(rig).find(|a| a.id == *id)?;
    let bounds = span.widened(keep_out.margin);
    let index = rig.stage(id.stage.as_str())?.axes.iter().position(|a| a.id == *id)?;
    let part = (id.stage == drive.stage).then(|| drive.axes.iter().position(|a| a.index == index)).flatten();
    Some(match part.and_then(|i| drive.axes.get(i)) {
        Some(a) => {
            let way = (a.to - a.from).in_base();
            Side { id: id.clone(), bounds, start: a.from, way, own: true, fixed: None, part }
        }
        None => {
            let where_it_is = whereabouts(axis, state.stage(id.stage.as_str()));
            let own = id.stage == drive.stage && where_it_is.low == where_it_is.high;
            Side { id: id.clone(), bounds, start: where_it_is.low, way: 0.0, own, fixed: Some(where_it_is), part: None }
        }
    })
}

/// Strictly inside: on a face is outside.
fn inside(p: Position, bounds: Span) -> bool {
    bounds.low < p && p < bounds.high
}

/// Whether a span without length lies strictly inside.
fn point_inside(f: Span, bounds: Span) -> bool {
    f.low == f.high && inside(f.low, bounds)
}

/// When the leg first enters the box, as a share of its way.
fn enters(moving: &[&Side], straight: bool) -> Option<f64> {
    if straight { crosses(moving, 1.0) } else { spans(moving) }
}

/// When a straight line, gone to `end` of its way, first enters the box. The slab method: on each axis it is between the
/// faces for an interval of t.
fn crosses(moving: &[&Side], end: f64) -> Option<f64> {
    let (mut first, mut last) = (0.0_f64, end);
    for s in moving {
        let (low, high) = ((s.bounds.low - s.start).in_base(), (s.bounds.high - s.start).in_base());
        if s.way == 0.0 {
            if !(low < 0.0 && 0.0 < high) {
                return None;
            }
            continue;
        }
        let (a, b) = (low / s.way, high / s.way);
        first = first.max(a.min(b));
        last = last.min(a.max(b));
    }
    // A way that only touches a face or an edge stays outside.
    (first + 1e-12 < last).then_some(first)
}

/// Up to which share of the way the whole box between start and end stays outside, when all of it doesn't: as long as
/// one axis has not come to its face.
fn spans(moving: &[&Side]) -> Option<f64> {
    let mut first = 0.0_f64;
    for s in moving {
        let swept = Span::between(s.start, s.start + Distance::base(s.way).unwrap_or_default());
        if !swept.overlaps(s.bounds) && !point_inside(swept, s.bounds) {
            return None;
        }
        let face = if s.way > 0.0 { s.bounds.low } else { s.bounds.high };
        if !inside(s.start, s.bounds) && s.way != 0.0 {
            first = first.max((face - s.start).in_base() / s.way);
        }
    }
    Some(first)
}

/// From inside: the depth (distance to the nearest face) along a straight line is a concave function, so if it
/// falls at the start it falls all the way.
fn leaves(sides: &[Side], moving: &[&Side]) -> Meets {
    let depth = |t: f64| {
        moving
            .iter()
            .map(|s| {
                let at = s.start.in_base() + t * s.way;
                (at - s.bounds.low.in_base()).min(s.bounds.high.in_base() - at)
            })
            .min_by(f64::total_cmp)
            .unwrap_or(0.0)
    };
    if depth(1e-6) < depth(0.0) {
        return Meets::Leaves;
    }
    let way = |(side, face): &(&Side, Position)| (*face - side.start).in_base().abs();
    let way_out = sides
        .iter()
        .filter(|s| s.own)
        .flat_map(|s| [(s, s.bounds.low), (s, s.bounds.high)])
        .min_by(|a, b| way(a).total_cmp(&way(b)))
        .map(|(s, face)| (s.id.clone(), face));
    // How deep it is in the whole box, the axes that stay included.
    let held = sides.iter().filter_map(|s| {
        let f = s.fixed?;
        Some((f.high - s.bounds.low).in_base().min((s.bounds.high - f.low).in_base()))
    });
    let held = held.fold(f64::INFINITY, f64::min);
    Meets::StaysIn { out: way_out, deeper: depth(1e-6).min(held) > depth(0.0).min(held) }
}
