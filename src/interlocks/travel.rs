//! The travel rule: from inside, the target too; from outside, the way must lead back. And what is made of a leg that
//! begins where the stage should not be.

use super::judge::{SLOW, refusal};
use super::path::Leg;
use crate::config::{Axis, Stage};
use crate::model::{AxisId, Code, Refusal, StageStatus};
use crate::units::{Position, Span, plain};

/// Where a leg leads an axis that is outside its travel, or a stage that is inside a keep-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leads {
    /// Back: the violation lessens all the way.
    Back,
    /// Neither back nor further.
    Nowhere,
    /// Further out of the travel or into the box.
    Further,
}

/// Something that is not as it should be when a leg begins.
pub(super) struct Violation {
    pub(super) leads: Leads,
    /// What is said if the leg doesn't mend it.
    pub(super) refusal: Refusal,
    /// A way back: this axis to this position.
    pub(super) back: Option<(AxisId, Position)>,
}

/// What is refused of a leg that doesn't mend what is violated.
pub(super) struct Unmended {
    pub(super) refusals: Vec<Refusal>,
    /// A way back instead.
    pub(super) back: Option<(AxisId, Position)>,
}

/// What violations make of a leg: the share of the speed at which it is allowed, or what is refused.
pub(super) fn mends(violations: Vec<Violation>) -> Result<f64, Unmended> {
    if violations.is_empty() {
        return Ok(1.0);
    }
    let any = |leads| violations.iter().any(|v| v.leads == leads);
    if any(Leads::Back) && !any(Leads::Further) {
        return Ok(SLOW);
    }
    let back = violations.iter().find_map(|v| v.back.clone());
    let against = violations.into_iter().filter(|v| v.leads != Leads::Back).map(|v| v.refusal);
    Err(Unmended { refusals: against.collect(), back })
}

/// Axes that don't take part but stand outside their travel: the leg leads them nowhere.
pub(super) fn bystanders(stage: &Stage, status: Option<&StageStatus>, leg: &Leg) -> Vec<Violation> {
    let still = stage.axes.iter().filter(|a| !leg.targets.iter().any(|(name, _)| *name == a.id.axis));
    still
        .filter_map(|axis| {
            let now = status?.axis(axis.id.axis.as_str())?;
            let at = now.position.filter(|p| now.trust >= axis.trust && !axis.travel.contains(*p))?;
            Some(incoming(axis, at, at))
        })
        .collect()
}

/// The travel rule from inside: the target too.
pub(super) fn outgoing(axis: &Axis, from: Position, to: Position, free: &mut f64) -> Option<Refusal> {
    if axis.travel.contains(to) {
        return None;
    }
    let show = |p: Position| plain(p.to(axis.unit));
    let range = format!("{} to {} {}", show(axis.travel.low), show(axis.travel.high), axis.unit);
    let way = (to - from).in_base();
    let room = (axis.travel.nearest(to) - from).in_base();
    *free = free.min((room / way).clamp(0.0, 1.0));
    let what = format!("{} {} is outside the travel of {}, {range}.", show(to), axis.unit, axis.id);
    Some(Refusal {
        allowed: Some(format!("{} from {range}", axis.id)),
        ..refusal(Code::OutOfTravel, format!("travel of {}", axis.id), what, axis.why.clone())
    })
}

/// The travel rule from outside: the way must lead back, and not through to the other side.
pub(super) fn incoming(axis: &Axis, from: Position, to: Position) -> Violation {
    let nearest = axis.travel.nearest(from);
    let leads = if to == from {
        Leads::Nowhere
    } else if axis.travel.contains(to) || Span::between(from, nearest).contains(to) {
        Leads::Back
    } else {
        Leads::Further
    };
    Violation { leads, refusal: outside(axis, from), back: Some((axis.id.clone(), nearest)) }
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

/// A pressed switch doesn't say at which end it is: the nearer end is meant.
pub(super) fn toward_switch(axis: &Axis, from: Position, to: Position) -> Option<Refusal> {
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
