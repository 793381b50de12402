//! Plans: pure machines that are asked for their next step and told the outcome of the last. They know
//! neither hardware nor clock; the rig thread runs them, clears each step when it is due, and can stop
//! between and within any two.

use std::time::Duration;

use crate::config::Rig;
use crate::model::{Aim, Home, Move, Name, SetOutput, Shot, Snapshot};

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Move axes of a stage and prove the arrival.
    Move(Move),
    /// Search the reference of a stage.
    Home(Home),
    /// Stand still.
    Settle(Duration),
    /// Take a frame.
    Shoot(Shot),
    /// Set an output and see it there.
    Set(SetOutput),
}

impl Step {
    /// The step in words, for job status.
    pub fn words(&self) -> String {
        match self {
            Step::Move(m) => match &m.aim {
                Aim::To(targets) => format!("moving {} of {}", axes(targets.iter().map(|t| &t.0)), m.stage),
                Aim::By { offsets, .. } => format!("moving {} of {}", axes(offsets.iter().map(|t| &t.0)), m.stage),
                Aim::Back => format!("moving {} back", m.stage),
            },
            Step::Home(h) => format!("homing {}", h.stage),
            Step::Settle(d) => format!("settling for {} ms", d.as_millis()),
            Step::Shoot(s) => format!("exposing {}", s.camera),
            Step::Set(s) => format!("setting {} to {}", s.output, s.value),
        }
    }
}

fn axes<'a>(names: impl Iterator<Item = &'a Name>) -> String {
    names.map(Name::as_str).collect::<Vec<_>>().join(", ")
}

/// What a plan does next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This step, once the interlocks clear it.
    Step(Step),
    /// Nothing; it has ended well.
    Done,
}

/// A plan. Steps that fail end it; it never sees a failure it could ignore.
pub trait Plan: Send {
    /// What it does, in words, for job lists and the audit log.
    fn title(&self) -> String;

    /// The devices that are its own while it runs.
    fn uses(&self) -> Vec<Name>;

    /// All steps to come, for the audit log; none for a plan that finds them as it goes.
    fn steps(&self) -> Vec<Step> {
        Vec::new()
    }

    /// The next step; the last one, if any, has ended well.
    fn next(&mut self, rig: &Rig, state: &Snapshot) -> Next;
}

/// A plan whose steps are known from the start.
pub struct Sequence {
    title: String,
    uses: Vec<Name>,
    steps: std::collections::VecDeque<Step>,
}

impl Sequence {
    /// A move of some axes of one stage.
    pub fn movement(title: String, movement: Move) -> Sequence {
        Sequence { uses: vec![movement.stage.clone()], title, steps: [Step::Move(movement)].into() }
    }

    /// Moves of several stages, one after the other.
    pub fn movements(title: String, moves: Vec<Move>) -> Sequence {
        let mut uses: Vec<Name> = Vec::new();
        for m in &moves {
            if !uses.contains(&m.stage) {
                uses.push(m.stage.clone());
            }
        }
        Sequence { title, uses, steps: moves.into_iter().map(Step::Move).collect() }
    }

    /// A search for the reference.
    pub fn home(title: String, home: Home) -> Sequence {
        Sequence { uses: vec![home.stage.clone()], title, steps: [Step::Home(home)].into() }
    }

    /// A change of an output.
    pub fn output(title: String, set: SetOutput) -> Sequence {
        Sequence { uses: vec![set.output.clone()], title, steps: [Step::Set(set)].into() }
    }

    /// One frame, after moves if there are any. A stage that moved stands still for its longest settling
    /// time before the exposure begins.
    pub fn picture(title: String, rig: &Rig, moves: Vec<Move>, shot: Shot) -> Sequence {
        let settle = moves
            .iter()
            .filter_map(|m| rig.stage(m.stage.as_str()))
            .flat_map(|s| s.axes.iter().map(|a| a.settle))
            .max()
            .unwrap_or_default();
        let mut uses: Vec<Name> = moves.iter().map(|m| m.stage.clone()).collect();
        uses.push(shot.camera.clone());
        // Nobody else switches the light while it exposes.
        uses.extend(rig.camera(shot.camera.as_str()).and_then(|c| c.light.as_ref()).map(|l| l.output.clone()));
        uses.dedup();
        let mut steps: std::collections::VecDeque<Step> = moves.into_iter().map(Step::Move).collect();
        if !settle.is_zero() {
            steps.push_back(Step::Settle(settle));
        }
        steps.push_back(Step::Shoot(shot));
        Sequence { title, uses, steps }
    }
}

impl Plan for Sequence {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn uses(&self) -> Vec<Name> {
        self.uses.clone()
    }

    fn steps(&self) -> Vec<Step> {
        self.steps.iter().cloned().collect()
    }

    fn next(&mut self, _: &Rig, _: &Snapshot) -> Next {
        self.steps.pop_front().map_or(Next::Done, Next::Step)
    }
}
