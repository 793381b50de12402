//! What has been spent of the budgets. The panel alone spends; a preview reads.

use std::collections::VecDeque;
use std::time::Duration;

use super::judge::Resolved;
use crate::config::Budget;
use crate::model::{AxisId, Name, OutputStatus, OutputValue, Time};
use crate::units::Distance;

/// The span over which moves are counted.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// The span over which travel and light are summed.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// How much light something gives that only lets it pass or not.
const OPEN: f64 = 100.0;

/// The ledgers of one run of the program.
#[derive(Debug, Default)]
pub(super) struct Spent {
    moves: VecDeque<Time>,
    ways: VecDeque<(Time, AxisId, Distance)>,
    lights: Vec<Lit>,
}

/// What one light has given: times at which its brightness changed, in percent.
#[derive(Debug)]
struct Lit {
    light: Name,
    steps: VecDeque<(Time, f64)>,
}

impl Spent {
    /// A move begins.
    pub(super) fn spend(&mut self, budget: &Budget, stage: &Name, resolved: &Resolved, now: Time) {
        if budget.moves_per_minute.is_some() {
            drop_old(&mut self.moves, |at| now.since(*at) >= MINUTE);
            self.moves.push_back(now);
        }
        drop_old(&mut self.ways, |(at, ..)| now.since(*at) >= HOUR);
        for ((axis, from), (_, to)) in resolved.from.iter().zip(&resolved.targets) {
            let id = AxisId { stage: stage.clone(), axis: axis.clone() };
            if budget.travel_per_hour.iter().any(|(counted, _)| *counted == id) {
                self.ways.push_back((now, id, (*to - *from).abs()));
            }
        }
    }

    /// The moves that still count.
    pub(super) fn recent(&self, now: Time) -> Vec<Time> {
        self.moves.iter().copied().filter(|at| now.since(*at) < MINUTE).collect()
    }

    /// How far each axis was sent within the last hour that a budget counts.
    pub(super) fn travelled(&self, budget: &Budget, now: Time) -> Vec<(AxisId, Distance)> {
        let counts = |id: &AxisId| {
            let ways = self.ways.iter().filter(|(at, axis, _)| axis == id && now.since(*at) < HOUR);
            ways.fold(Distance::ZERO, |sum, (.., way)| sum + *way)
        };
        budget.travel_per_hour.iter().map(|(id, _)| (id.clone(), counts(id))).collect()
    }

    /// Notes how bright the counted lights are now. One that nobody can read is taken to be as it was last.
    pub(super) fn sees_lights(&mut self, budget: &Budget, outputs: &[&OutputStatus], now: Time) {
        for (light, _) in &budget.light_dose {
            let Some(status) = outputs.iter().find(|o| o.output == *light) else { continue };
            let percent = [&status.value, &status.target].into_iter().flatten().map(brightness).reduce(f64::max);
            let Some(percent) = percent else { continue };
            let i = self.lights.iter().position(|l| l.light == *light).unwrap_or_else(|| {
                self.lights.push(Lit { light: light.clone(), steps: VecDeque::new() });
                self.lights.len() - 1
            });
            let steps = &mut self.lights[i].steps;
            if steps.back().is_none_or(|(_, was)| *was != percent) {
                steps.push_back((now, percent));
            }
            // The newest step that is older than an hour still tells how bright it was since.
            while steps.len() > 1 && now.since(steps[1].0) >= HOUR {
                steps.pop_front();
            }
        }
    }

    /// How much light each counted light has given within the last hour, in whole percent times seconds.
    pub(super) fn dose(&self, budget: &Budget, now: Time) -> Vec<(Name, f64)> {
        let given = |light: &Name| {
            let Some(lit) = self.lights.iter().find(|l| l.light == *light) else { return 0.0 };
            let ends = lit.steps.iter().skip(1).map(|(at, _)| *at).chain([now]);
            let spans = lit.steps.iter().zip(ends).map(|((from, percent), until)| {
                let (from, until) = (now.since(*from).min(HOUR), now.since(until).min(HOUR));
                percent * from.saturating_sub(until).as_secs_f64()
            });
            spans.sum::<f64>().floor()
        };
        budget.light_dose.iter().map(|(light, _)| (light.clone(), given(light))).collect()
    }
}

/// How bright something is, in percent.
pub(super) fn brightness(value: &OutputValue) -> f64 {
    match value {
        OutputValue::Percent(p) => p.value(),
        OutputValue::Open(true) | OutputValue::On(true) => OPEN,
        OutputValue::Open(false) | OutputValue::On(false) | OutputValue::At(_) => 0.0,
    }
}

fn drop_old<T>(ledger: &mut VecDeque<T>, old: impl Fn(&T) -> bool) {
    while ledger.front().is_some_and(&old) {
        ledger.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LinkStatus;
    use crate::units::Percent;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn lamp(percent: Option<f64>) -> OutputStatus {
        let value = percent.map(|p| OutputValue::Percent(Percent::new(p).unwrap()));
        OutputStatus {
            output: Name::new("lamp"),
            ready: true,
            value,
            assumed: false,
            target: None,
            waits_for: None,
            read_at: None,
            fault: None,
            stopped_by: None,
            identity: None,
            link: LinkStatus::default(),
        }
    }

    #[test]
    fn light_is_summed_over_the_last_hour_and_what_nobody_can_read_goes_on_as_it_was() {
        let budget = Budget { light_dose: vec![(Name::new("lamp"), 1000.0)], ..Budget::default() };
        let mut spent = Spent::default();
        let dose = |spent: &Spent, s| spent.dose(&budget, at(s))[0].1;
        spent.sees_lights(&budget, &[&lamp(Some(0.0))], at(0));
        spent.sees_lights(&budget, &[&lamp(Some(40.0))], at(100));
        assert_eq!(dose(&spent, 110), 400.0);
        spent.sees_lights(&budget, &[&lamp(None)], at(110));
        assert_eq!(dose(&spent, 115), 600.0);
        spent.sees_lights(&budget, &[&lamp(Some(0.0))], at(120));
        assert_eq!(dose(&spent, 3700), 800.0);
        // Half of it is older than an hour, then all.
        assert_eq!(dose(&spent, 3710), 400.0);
        assert_eq!(dose(&spent, 3720), 0.0);
        spent.sees_lights(&budget, &[&lamp(Some(10.0))], at(8000));
        assert_eq!((dose(&spent, 8010), spent.lights[0].steps.len()), (100.0, 2));
    }
}
