//! Budgets: how far one move may go, and how many may begin within a minute.

use std::collections::VecDeque;
use std::time::Duration;

use super::judge::{Resolved, Rules};
use crate::config::Stage;
use crate::model::{Code, Refusal, Time};
use crate::units::plain;

/// The span over which moves are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// When the moves of the last minute began. Only the panel spends.
#[derive(Debug, Default)]
pub(super) struct Spent(VecDeque<Time>);

impl Spent {
    /// A move begins.
    pub(super) fn spend(&mut self, now: Time) {
        self.forget(now);
        self.0.push_back(now);
    }

    /// The moves that still count.
    pub(super) fn recent(&self, now: Time) -> Vec<Time> {
        self.0.iter().copied().filter(|at| now.since(*at) < MINUTE).collect()
    }

    fn forget(&mut self, now: Time) {
        while self.0.front().is_some_and(|at| now.since(*at) >= MINUTE) {
            self.0.pop_front();
        }
    }
}

impl Rules {
    /// What the budget says to a move, and the share of its way that it allows.
    pub(super) fn over_budget(
        &self,
        stage: &Stage,
        resolved: &Resolved,
        recent: &[Time],
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
