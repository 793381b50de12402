//! Watches: rules that are judged at every pass. One that doesn't hold stops what moves or makes the outputs safe; a light
//! that has given its dose is made dark.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::worker::Worker;
use crate::config::Then;
use crate::model::{Activity, Code, Moved, Name, OutputValue, Refusal, RigError, Snapshot, StopBy, Time};
use crate::units::plain;

/// A watch that doesn't hold.
struct Tripped {
    name: String,
    why: Option<String>,
    then: Then,
    what: String,
}

impl Worker {
    /// Judges the watches on what was read last. One that goes on not to hold acts again only where something moves
    /// again or an output has left its safe value.
    pub(super) fn watches(&mut self, now: Time) {
        if !self.rig.rules.iter().any(|r| r.when.is_watch()) {
            return;
        }
        let state = Snapshot {
            at: now,
            stages: self.stages.iter().map(|s| s.status.clone()).collect(),
            cameras: self.cameras.iter().map(|c| c.status.clone()).collect(),
            outputs: self.outputs.iter().map(|o| o.status.clone()).collect(),
            sensors: self.sensors.iter().map(|s| s.status.clone()).collect(),
            ..Snapshot::default()
        };
        let rules = self.panel.rules().clone();
        let tripped: Vec<Tripped> = rules
            .watches(&state)
            .filter(|(_, standing)| standing.holds != Some(true))
            .map(|(rule, standing)| Tripped {
                name: rule.name.clone(),
                why: rule.why.clone(),
                then: rule.then,
                what: format!(
                    "{} {}",
                    if standing.holds.is_some() { "doesn't hold:" } else { "can't be judged:" },
                    standing.facts
                ),
            })
            .collect();
        self.tripped = tripped.iter().map(|t| Arc::from(format!("\"{}\" {}", t.name, t.what))).collect();
        for watch in tripped {
            match watch.then {
                Then::Stop => self.trip_stop(&watch, now),
                Then::SafeOutputs => self.trip_outputs(&watch, now),
            }
        }
    }

    /// Notes how bright the lights are, and makes those dark that have given all that the budget allows.
    pub(super) fn light_budget(&mut self, now: Time) {
        if self.rig.budget.light_dose.is_empty() {
            return;
        }
        let seen: Vec<_> = self.outputs.iter().map(|o| &o.status).collect();
        self.panel.sees_lights(&seen, now);
        let outputs = seen.into_iter().cloned().collect();
        let state = Snapshot { at: now, outputs, dose: self.panel.dose(now), ..Snapshot::default() };
        let rules = self.panel.rules().clone();
        for (light, most) in rules.spent_lights(&state) {
            let Some(unit) = self.outputs.iter_mut().find(|o| o.status.output == *light) else { continue };
            if unit.status.ready && unit.status.target.as_ref().is_none_or(OutputValue::is_lit) {
                unit.stop(None, now);
                let most = plain(most);
                let what =
                    format!("{light} has given {most} %·s within an hour, all that [budget] allows; it was made dark.");
                tracing::warn!("{what}");
                let facts = [("rule", format!("light_dose of {light}").into())].into();
                self.event("tripped", Some(light.clone()), None, what, facts);
            }
        }
    }

    fn trip_stop(&mut self, watch: &Tripped, now: Time) {
        let goes = |activity| matches!(activity, Activity::Moving | Activity::Homing);
        let moving: Vec<usize> = (0..self.stages.len()).filter(|i| goes(self.stages[*i].status.activity)).collect();
        if moving.is_empty() {
            return;
        }
        for i in &moving {
            self.stages[*i].stop(StopBy::Program, now);
        }
        let named: Vec<Name> = moving.iter().map(|i| self.rig.stages[*i].id.clone()).collect();
        self.stop_ends_approvals(StopBy::Program);
        let list = named.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
        let what = format!("The rule \"{}\" {}; {list} was stopped.", watch.name, watch.what);
        let refusal = Refusal {
            code: Code::Rule,
            rule: watch.name.clone(),
            what: what.clone(),
            why: watch.why.clone(),
            allowed: None,
        };
        let cause = RigError { refusals: vec![refusal], ..RigError::new(Code::Stopped, what.clone()) };
        let cause = cause.moved(Moved::Unknown);
        self.with_jobs(now, |job, bench| {
            if job.uses.iter().any(|u| named.contains(u)) {
                job.end(cause.clone(), bench);
            }
        });
        self.told_of(watch, named.first().cloned(), what);
    }

    fn trip_outputs(&mut self, watch: &Tripped, now: Time) {
        let mut named = Vec::new();
        for (config, unit) in self.rig.outputs.iter().zip(&mut self.outputs) {
            let Some(safe) = config.safe() else { continue };
            let status = &unit.status;
            let heads = status.target.as_ref().or(status.value.as_ref());
            if status.ready && !heads.is_some_and(|v| safe.agrees(v)) {
                unit.stop(None, now);
                named.push(config.id.clone());
            }
        }
        if !named.is_empty() {
            let list = named.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
            let what = format!("The rule \"{}\" {}; {list} was made safe.", watch.name, watch.what);
            self.told_of(watch, named.first().cloned(), what);
        }
    }

    fn told_of(&mut self, watch: &Tripped, device: Option<Name>, what: String) {
        tracing::warn!("{what}");
        let facts: BTreeMap<_, _> = [("rule", watch.name.clone().into())].into();
        self.event("tripped", device, None, what, facts);
    }
}
