//! Budgets of motion: how far one move may go, how far all of an hour, and how many may begin within a minute.

use super::judge::{Resolved, Rules};
use super::spent::{HOUR, MINUTE};
use crate::config::Stage;
use crate::model::{AxisId, Code, Refusal, Time};
use crate::units::{Distance, plain};

impl Rules {
    /// What the budget says to a move, and the share of its way that it allows.
    pub(super) fn over_budget(
        &self,
        stage: &Stage,
        resolved: &Resolved,
        recent: &[Time],
        travelled: &[(AxisId, Distance)],
        now: Time,
    ) -> (Vec<Refusal>, f64) {
        let budget = &self.rig().budget;
        let refuse = |rule: String, what: String, allowed: String| Refusal {
            code: Code::Budget,
            rule,
            what,
            why: budget.why.clone(),
            allowed: Some(allowed),
        };
        let (mut refusals, mut free) = (Vec::new(), 1.0_f64);
        for ((name, from), (_, to)) in resolved.from.iter().zip(&resolved.targets) {
            let Some(axis) = stage.axis(name.as_str()) else { continue };
            let Some((_, step)) = budget.max_step.iter().find(|(id, _)| *id == axis.id) else { continue };
            let way = (*to - *from).abs();
            // A step that was asked for in other units may come out longer by the last digit.
            if way.in_base() <= step.in_base() * (1.0 + 1e-9) {
                continue;
            }
            free = free.min(step.in_base() / way.in_base());
            let (shown, most) = (plain(way.to(axis.unit)), plain(step.to(axis.unit)));
            let what = format!(
                "{} would go {shown} {unit} in one move; {most} {unit} are allowed.",
                axis.id,
                unit = axis.unit
            );
            let allowed = format!("steps of {} of at most {most} {}", axis.id, axis.unit);
            refusals.push(refuse(format!("max_step of {}", axis.id), what, allowed));
        }
        for ((name, from), (_, to)) in resolved.from.iter().zip(&resolved.targets) {
            let Some(axis) = stage.axis(name.as_str()) else { continue };
            let Some((_, most)) = budget.travel_per_hour.iter().find(|(id, _)| *id == axis.id) else { continue };
            let way = (*to - *from).abs();
            let gone = travelled.iter().find(|(id, _)| *id == axis.id).map_or(Distance::ZERO, |(_, gone)| *gone);
            let left = (most.in_base() - gone.in_base()).max(0.0);
            if way.in_base() <= left * (1.0 + 1e-9) {
                continue;
            }
            free = free.min(left / way.in_base());
            let show = |base: f64| plain(Distance::base(base).unwrap_or_default().to(axis.unit));
            let what = format!(
                "{} would go {} {unit}, after {} {unit} within the last hour; {} {unit} are allowed.",
                axis.id,
                show(way.in_base()),
                show(gone.in_base()),
                show(most.in_base()),
                unit = axis.unit
            );
            let allowed =
                format!("{} {} of {} now; more within {} min", show(left), axis.unit, axis.id, HOUR.as_secs() / 60);
            refusals.push(refuse(format!("travel_per_hour of {}", axis.id), what, allowed));
        }
        if let Some(most) = budget.moves_per_minute {
            let counted: Vec<Time> = recent.iter().copied().filter(|at| now.since(*at) < MINUTE).collect();
            if counted.len() >= most as usize {
                // As many must have left the minute as are too many.
                let frees = counted[counted.len() - most as usize];
                let wait = plain((MINUTE.saturating_sub(now.since(frees)).as_secs_f64() * 10.0).ceil() / 10.0);
                let what = format!("{} moves began within the last minute; {most} are allowed.", counted.len());
                refusals.push(refuse("moves_per_minute".into(), what, format!("the next move in {wait} s")));
            }
        }
        (refusals, free)
    }
}
