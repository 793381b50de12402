//! The rig file's own rules: their words take the values of this moment, laid over by what is about to happen.

use std::sync::Arc;
use std::time::Duration;

use super::asks::Order;
use super::judge::{Resolved, Rules};
use super::path::{self, Drive, Leg};
use crate::config::{Reads, Rule, Stage, Value, Variable, speed_unit};
use crate::model::{
    Activity, Aim, Ask, AxisId, Code, Move, Name, OutputKind, OutputValue, Refusal, RigError, SensorValue, SetOutput,
    Shot, Snapshot, StageStatus, Trust,
};
use crate::units::{Dimension, Distance, Position, Speed, plain};

/// How much older than `fresh_ms` a stage's reading may be before a rule takes its positions for unknown.
const STALE: Duration = Duration::from_secs(2);

/// What is about to happen.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a> {
    pub(super) order: Order<'a>,
    /// The leg of a move.
    pub(super) drive: Option<&'a Drive>,
}

/// How a rule stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Whether it holds; `None` when its answer hangs on something that isn't known.
    pub holds: Option<bool>,
    /// What it read: `output.shutter 'open', stage.sample.speed 10 mm/s`.
    pub facts: String,
}

impl Rules {
    /// How each watch stands, in the rig file's order.
    pub fn watches<'a>(&'a self, state: &'a Snapshot) -> impl Iterator<Item = (&'a Rule, Standing)> {
        let watched = self.rig().rules.iter().filter(|r| r.when.is_watch());
        watched.map(|rule| (rule, self.standing(rule, state, None)))
    }

    /// What the gates say to this: refusals, and what a person is asked.
    pub(super) fn gates(&self, ahead: Ahead<'_>, state: &Snapshot) -> (Vec<Refusal>, Vec<Ask>) {
        let (mut refusals, mut asks) = (Vec::new(), Vec::new());
        for rule in self.rig().rules.iter().filter(|r| concerns(r, ahead.order)) {
            let standing = self.standing(rule, state, Some(ahead));
            let what = match standing.holds {
                Some(true) => continue,
                Some(false) if rule.ask => {
                    let text = format!("The rule \"{}\" would not hold: {}.", rule.name, told(rule, &standing));
                    asks.push(Ask { rule: rule.name.clone(), why: rule.why.clone(), text });
                    continue;
                }
                Some(false) => format!("The rule \"{}\" would not hold: {}.", rule.name, told(rule, &standing)),
                None => {
                    format!("The rule \"{}\" can't be judged, and so refuses: {}.", rule.name, told(rule, &standing))
                }
            };
            let (why, name) = (rule.why.clone(), rule.name.clone());
            refusals.push(Refusal { code: Code::Rule, rule: name, what, why, allowed: None });
        }
        (refusals, asks)
    }

    /// The largest share of a way, at most `most`, at which all gates hold: found by trying.
    pub(super) fn share_that_gates_allow(
        &self,
        stage: &Stage,
        resolved: &Resolved,
        most: f64,
        state: &Snapshot,
    ) -> f64 {
        let allowed = |share: f64| {
            let part = |((name, from), (_, to)): (&(Name, Position), &(Name, Position))| {
                let way = Distance::base((*to - *from).in_base() * share).unwrap_or_default();
                (name.clone(), *from + way)
            };
            let targets: Vec<(Name, Position)> = resolved.from.iter().zip(&resolved.targets).map(part).collect();
            let order = Move { stage: stage.id.clone(), aim: Aim::To(targets.clone()) };
            let drive = path::drive(stage, &resolved.from, &Leg { targets }, 1.0);
            self.gates(Ahead { order: Order::Move(&order), drive: Some(&drive) }, state).0.is_empty()
        };
        if allowed(most) {
            return most;
        }
        // A share of nothing is no move at all: what refuses even that has nothing to do with the way.
        let (mut low, mut high) = (1e-6, most);
        if !allowed(low) {
            return 0.0;
        }
        for _ in 0..24 {
            let middle = f64::midpoint(low, high);
            if allowed(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// What a person is asked because of rules, before a move.
    pub(super) fn rules_ask(&self, movement: &Move, state: &Snapshot) -> Vec<Ask> {
        let (Ok(resolved), Ok((_, stage))) = (self.resolve(movement, state), self.stage(&movement.stage)) else {
            return Vec::new();
        };
        let (mut from, mut all) = (resolved.from, Vec::<Ask>::new());
        for leg in &resolved.legs {
            let drive = path::drive(stage, &from, leg, 1.0);
            let (_, asks) = self.gates(Ahead { order: Order::Move(movement), drive: Some(&drive) }, state);
            all.extend(asks.into_iter().filter(|a| !all.iter().any(|b| b.rule == a.rule)).collect::<Vec<_>>());
            from.clone_from(&leg.targets);
        }
        all
    }

    /// Judges an exposure; nothing is exposed.
    ///
    /// # Errors
    /// `not_found`; `rule_refused` with all rules that would not hold while it exposes.
    pub fn judge_shot(&self, shot: &Shot, state: &Snapshot) -> Result<(), RigError> {
        if self.rig().camera(shot.camera.as_str()).is_none() {
            return Err(RigError::new(Code::NotFound, format!("This rig has no camera {}.", shot.camera)));
        }
        let (mut refusals, _) = self.gates(Ahead { order: Order::Shot(shot), drive: None }, state);
        refusals.extend(self.too_much_light_of(shot, state));
        super::judge::refused(&shot.camera, refusals)
    }

    /// How a rule stands, with what is about to happen laid over the state.
    fn standing(&self, rule: &Rule, state: &Snapshot, ahead: Option<Ahead<'_>>) -> Standing {
        let reads = rule.require.reads();
        let values: Vec<Option<Value>> = reads.iter().map(|r| self.value(&r.variable, state, ahead)).collect();
        let holds = rule.require.holds(&values).ok();
        // The words are for people, and most rules hold.
        let facts = if holds == Some(true) { String::new() } else { facts(reads, &values) };
        Standing { holds, facts }
    }

    /// What a word stands for; `None`: it isn't known.
    fn value(&self, variable: &Variable, state: &Snapshot, ahead: Option<Ahead<'_>>) -> Option<Value> {
        let text = |text: &str| Some(Value::Text(Arc::from(text)));
        let going = |stage: &Name| ahead.is_some_and(|a| a.order.stage() == Some(stage));
        match variable {
            Variable::Position(id) => self.number(id, self.position(id, state)?),
            Variable::AxisSpeed(id) => {
                let unit = self.rig().axis(id)?.unit;
                Some(Value::Number(self.speed(id, state, ahead)?.to(unit)))
            }
            Variable::AxisTrust(id) => text(&self.there(&id.stage, state)?.axis(id.axis.as_str())?.trust.to_string()),
            Variable::Speed(stage) => self.stage_speed(stage, state, ahead),
            Variable::Moving(stage) => {
                let moves = self.there(stage, state)?.activity.is_motion();
                Some(Value::Flag(moves || going(stage)))
            }
            Variable::Homed(stage) => {
                let axes = &self.there(stage, state)?.axes;
                Some(Value::Flag(axes.iter().all(|a| a.trust == Trust::Referenced)))
            }
            Variable::Trust(stage) => {
                let least = self.there(stage, state)?.axes.iter().map(|a| a.trust).min()?;
                text(&least.to_string())
            }
            Variable::Output(output) => self.output(output, state, ahead),
            Variable::Sensor(sensor) => {
                let config = self.rig().sensor(sensor.as_str())?;
                let status = state.sensor(sensor.as_str())?;
                let late = config.poll * 3 + Duration::from_secs(1);
                let read = status.read_at.filter(|at| state.at.since(*at) <= late);
                if !status.ready || status.fault.is_some() || !status.in_range || read.is_none() {
                    return None;
                }
                match status.value? {
                    SensorValue::Number(v) => known(v),
                    SensorValue::On(on) => Some(Value::Flag(on)),
                }
            }
            Variable::Exposing(camera) => {
                let status = state.camera(camera.as_str())?;
                let begins = matches!(ahead, Some(Ahead { order: Order::Shot(s), .. }) if s.camera == *camera);
                // A camera that is gone may have been exposing when it went.
                if !begins && (status.fault.is_some() || !status.link.open) {
                    return None;
                }
                Some(Value::Flag(begins || status.exposing))
            }
            Variable::ExposureMs(camera) => {
                let now = || state.camera(camera.as_str())?.settings.as_ref().map(|s| s.exposure_ms);
                let asked = match ahead {
                    Some(Ahead { order: Order::Shot(s), .. }) if s.camera == *camera => s.change.exposure_ms,
                    _ => None,
                };
                known(asked.or_else(now)?)
            }
            Variable::MoveKind => text(ahead?.order.kind().word()),
            Variable::MoveStage => text(ahead?.order.stage().map_or("", Name::as_str)),
            Variable::MoveTarget(id) => {
                let drive = ahead?.drive?;
                let index = self.rig().stage(id.stage.as_str())?.axes.iter().position(|a| a.id == *id)?;
                let goes = drive.axes.iter().find(|a| drive.stage == id.stage && a.index == index).map(|a| a.to);
                // What doesn't take part stays, or ends where its own motion ends.
                let stays = || {
                    let end = self.there(&id.stage, state)?.axis(id.axis.as_str())?.target;
                    end.or_else(|| self.position(id, state))
                };
                self.number(id, goes.or_else(stays)?)
            }
        }
    }

    fn number(&self, id: &AxisId, position: Position) -> Option<Value> {
        known(position.to(self.rig().axis(id)?.unit))
    }

    /// The stage as long as it is there and was read lately.
    fn there<'s>(&self, stage: &Name, state: &'s Snapshot) -> Option<&'s StageStatus> {
        let fresh = self.rig().calls.fresh + STALE;
        state
            .stage(stage.as_str())
            .filter(|s| !matches!(s.activity, Activity::Offline | Activity::Connecting))
            .filter(|s| s.read_at.is_some_and(|at| state.at.since(at) <= fresh))
    }

    fn position(&self, id: &AxisId, state: &Snapshot) -> Option<Position> {
        let axis = self.there(&id.stage, state)?.axis(id.axis.as_str())?;
        axis.position.filter(|_| axis.trust > Trust::Unknown)
    }

    /// The most that an axis may go at: what it was cleared for, or would be.
    fn speed(&self, id: &AxisId, state: &Snapshot, ahead: Option<Ahead<'_>>) -> Option<Speed> {
        let stage = self.rig().stage(id.stage.as_str())?;
        let (index, axis) = stage.axes.iter().enumerate().find(|(_, a)| a.id == *id)?;
        let status = self.there(&id.stage, state)?;
        let rest = Speed::base(0.0).ok()?;
        match ahead {
            Some(Ahead { order: Order::Move(m), drive: Some(drive), .. }) if m.stage == id.stage => {
                Some(drive.axes.iter().find(|a| a.index == index && a.to != a.from).map_or(rest, |a| a.speed))
            }
            Some(Ahead { order: Order::Home(h), .. }) if h.stage == id.stage => Some(axis.max_speed),
            _ if !status.activity.is_motion() => Some(rest),
            _ => Some(status.axis(id.axis.as_str())?.speed.unwrap_or(rest)),
        }
    }

    fn stage_speed(&self, stage: &Name, state: &Snapshot, ahead: Option<Ahead<'_>>) -> Option<Value> {
        let axes = &self.rig().stage(stage.as_str())?.axes;
        let unit = speed_unit(axes);
        let all = axes.iter().filter(|a| a.unit.dimension() == unit.dimension());
        let speeds: Option<Vec<f64>> = all.map(|a| Some(self.speed(&a.id, state, ahead)?.to(unit))).collect();
        // Lengths are at right angles to each other; what turns is told by its fastest.
        let speeds = speeds?;
        Some(Value::Number(match unit.dimension() {
            Dimension::Length => speeds.iter().map(|v| v * v).sum::<f64>().sqrt(),
            Dimension::Angle => speeds.iter().copied().fold(0.0, f64::max),
        }))
    }

    fn output(&self, name: &Name, state: &Snapshot, ahead: Option<Ahead<'_>>) -> Option<Value> {
        let status = state.output(name.as_str())?;
        let settled = status.ready
            && status.fault.is_none()
            && status.target.as_ref().is_none_or(|t| status.value.as_ref().is_some_and(|v| v.agrees(t)));
        let now = status.value.as_ref().filter(|_| settled);
        let set = match ahead.map(|a| a.order) {
            Some(Order::Set(set)) if set.output == *name => Some(&set.value),
            Some(Order::Shot(shot)) => {
                let light = self.rig().camera(shot.camera.as_str()).and_then(|c| c.light.as_ref());
                light.filter(|l| l.output == *name && !now.is_some_and(OutputValue::is_lit)).map(|l| &l.open)
            }
            _ => None,
        };
        match set.or(now)? {
            OutputValue::Percent(p) => known(p.value()),
            word => Some(Value::Text(Arc::from(word.to_string().as_str()))),
        }
    }

    /// Whether this only makes an output safe or dark, which no rule may hinder.
    pub(super) fn makes_safe(&self, set: &SetOutput) -> bool {
        let Some(output) = self.rig().output(set.output.as_str()) else { return false };
        let dark = matches!(output.kind, OutputKind::Shutter | OutputKind::Light) && !set.value.is_lit();
        dark || output.safe() == Some(&set.value)
    }
}

/// Whether a rule is judged before this. One that names a target has nothing to say where there is none.
fn concerns(rule: &Rule, order: Order<'_>) -> bool {
    let targets = rule.require.reads().iter().any(|r| matches!(r.variable, Variable::MoveTarget(_)));
    rule.when.is_gate() && (!targets || matches!(order, Order::Move(_)))
}

/// A number that can be judged by.
fn known(v: f64) -> Option<Value> {
    (v.abs() <= 1e12).then_some(Value::Number(v))
}

/// The rule and what it read.
pub(super) fn told(rule: &Rule, standing: &Standing) -> String {
    let one_line: Vec<&str> = rule.require.text().split_whitespace().collect();
    format!("it requires {}, with {}", one_line.join(" "), standing.facts)
}

/// Each word with its value.
fn facts(reads: &[Reads], values: &[Option<Value>]) -> String {
    let one = |(r, v): (&Reads, &Option<Value>)| match v {
        Some(Value::Number(v)) => {
            let space = if r.unit.is_empty() { "" } else { " " };
            format!("{} {}{space}{}", r.name, plain(*v), r.unit)
        }
        Some(v) => format!("{} {v}", r.name),
        None => format!("{} unknown", r.name),
    };
    reads.iter().zip(values).map(one).collect::<Vec<_>>().join(", ")
}
