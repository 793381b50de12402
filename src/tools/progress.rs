//! Signs of life of a long call, with what there is to tell.

use super::words;
use crate::actor::RigHandle;
use crate::model::{Caller, JobId, JobState, StageStatus};
use crate::units::Position;

/// How the job of a call stands, in words; without a number, the newest job that this caller has running.
pub(crate) fn told(handle: &RigHandle, caller: &Caller, job: Option<JobId>) -> String {
    let state = handle.snapshot();
    let mine = |id: JobId, by: &Caller| job.map_or(by.id == caller.id, |wanted| wanted == id);
    let running = state.jobs.iter().rev().find(|j| j.state == JobState::Running && mine(j.id, &j.caller));
    let Some(running) = running else {
        return "waiting for its turn".into();
    };
    let mut said = format!("{}: {}", running.id, running.title);
    if !running.doing.is_empty() {
        said.push_str(&format!(" ({})", running.doing));
    }
    let named = |s: &&StageStatus| running.doing.split_whitespace().any(|word| word == s.stage.as_str());
    let moving = state.stages.iter().filter(named).find(|s| s.activity.is_motion());
    let Some(status) = moving else { return said };
    if let Some(stage) = handle.rig().stage(status.stage.as_str()) {
        said.push_str(&format!("; at {}", words::positions(status, stage)));
    }
    if let Some(share) = share(status) {
        said.push_str(&format!(", {:.0} % of the way", share * 100.0));
    }
    said
}

/// The share of the longest axis's way that is done, from 0 to 1.
fn share(status: &StageStatus) -> Option<f64> {
    let from = status.came_from.as_ref()?;
    let way = |a: Position, b: Position| (b - a).in_base().abs();
    let parts = status.axes.iter().filter_map(|axis| {
        let (_, start) = from.iter().find(|(name, _)| *name == axis.axis)?;
        let (now, target) = (axis.position?, axis.target?);
        Some((way(*start, target), way(now, target)))
    });
    let (whole, left) = parts.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (whole > 0.0).then(|| (1.0 - left / whole).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::model::Name;
    use crate::units::Unit;

    #[test]
    fn the_share_of_the_way_is_that_of_the_longest_axis() {
        let at = |v: f64| Position::new(v, Unit::Mm).unwrap();
        let mut status = testing::state().stages.remove(0);
        assert_eq!(share(&status), None, "nothing is on its way");
        status.came_from = Some(vec![(Name::new("x"), at(10.0)), (Name::new("y"), at(10.0))]);
        status.axes[0].target = Some(at(20.0));
        status.axes[1].target = Some(at(11.0));
        assert_eq!(share(&status), Some(0.25), "x is at 12.5 on its way from 10 to 20");
        status.axes[0].position = Some(at(5.0));
        assert_eq!(share(&status), Some(0.0), "never less than nothing");
    }
}
