//! The words that a rule may use, and what each means: made from the rig's own devices.

use super::condition::Type;
use super::rig::{Axis, Rig};
use crate::model::{AxisId, Name, OutputKind, SensorKind, Trust};
use crate::units::{Dimension, Unit};

/// What a word of a rule means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// Where an axis is, in its own unit.
    Position(AxisId),
    /// How fast an axis may be at most, in its own unit per second; 0 at rest.
    AxisSpeed(AxisId),
    /// How far the position of an axis may be believed.
    AxisTrust(AxisId),
    /// How fast a stage may be at most, in mm/s, or in deg/s where nothing of it moves by a length; 0 at rest.
    Speed(Name),
    /// Whether a stage is in motion.
    Moving(Name),
    /// Whether all axes of a stage are referenced.
    Homed(Name),
    /// The least trust among the axes of a stage.
    Trust(Name),
    /// An output's value.
    Output(Name),
    /// A sensor's value.
    Sensor(Name),
    /// Whether a camera exposes.
    Exposing(Name),
    /// A camera's exposure time, in milliseconds.
    ExposureMs(Name),
    /// What is about to happen.
    MoveKind,
    /// Which stage is about to move; empty when none is.
    MoveStage,
    /// Where an axis will be, in its own unit.
    MoveTarget(AxisId),
}

impl Variable {
    /// Whether it speaks of what is about to happen, so that only a gate knows it.
    pub fn is_ahead(&self) -> bool {
        matches!(self, Variable::MoveKind | Variable::MoveStage | Variable::MoveTarget(_))
    }
}

/// One word.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// As rules write it.
    pub name: String,
    /// What it means.
    pub variable: Variable,
    /// What it stands for.
    pub of: Type,
    /// All texts that it can be.
    pub texts: Vec<String>,
    /// The unit of a number.
    pub unit: String,
}

impl Word {
    /// What it is, as the remedy of a wrong use.
    pub(super) fn meaning(&self) -> String {
        let name = &self.name;
        match self.of {
            Type::Number if self.unit.is_empty() => format!("{name} is a number: write {name} < 10.0"),
            Type::Number => format!("{name} is a number in {}: write {name} < 10.0", self.unit),
            Type::Flag => format!("{name} is true or false: write {name} alone, or !{name}"),
            Type::Text if self.texts.is_empty() => format!("{name} is a text"),
            Type::Text => format!("{name} is one of {}", quoted(&self.texts)),
        }
    }
}

fn quoted(texts: &[String]) -> String {
    texts.iter().map(|t| format!("'{t}'")).collect::<Vec<_>>().join(", ")
}

/// The words of a rig's rules.
#[derive(Debug, Clone, PartialEq)]
pub struct Vocabulary {
    words: Vec<Word>,
    /// Whether it has the words for what is about to happen.
    gate: bool,
}

impl Vocabulary {
    /// The words of this rig; those for what is about to happen are a gate's alone.
    pub fn of(rig: &Rig, gate: bool) -> Vocabulary {
        let mut words: Vec<Word> = Vec::new();
        let mut unclear: Vec<String> = Vec::new();
        let mut add = |name: String, variable: Variable, of, texts: Vec<String>, unit: String| {
            match words.iter().find(|w| w.name == name) {
                None => words.push(Word { name, variable, of, texts, unit }),
                // `a-b` and `a_b` are spelt alike: neither can be named.
                Some(w) if std::mem::discriminant(&w.variable) == std::mem::discriminant(&variable) => {
                    unclear.push(name)
                }
                // Where an axis has the name of a stage's own word, it is the axis that is meant.
                Some(_) => {}
            }
        };
        let none = String::new;
        let trusts =
            || [Trust::Unknown, Trust::Assumed, Trust::Restored, Trust::Referenced].map(|t| t.to_string()).to_vec();
        for stage in &rig.stages {
            let head = format!("stage.{}", spelt(&stage.id));
            for axis in &stage.axes {
                let (name, id, unit) = (format!("{head}.{}", spelt(&axis.id.axis)), axis.id.clone(), axis.unit);
                add(name.clone(), Variable::Position(id.clone()), Type::Number, vec![], unit.to_string());
                add(
                    format!("{name}.speed"),
                    Variable::AxisSpeed(id.clone()),
                    Type::Number,
                    vec![],
                    format!("{unit}/s"),
                );
                add(format!("{name}.trust"), Variable::AxisTrust(id), Type::Text, trusts(), none());
            }
            let unit = format!("{}/s", speed_unit(&stage.axes));
            add(format!("{head}.speed"), Variable::Speed(stage.id.clone()), Type::Number, vec![], unit);
            add(format!("{head}.moving"), Variable::Moving(stage.id.clone()), Type::Flag, vec![], none());
            add(format!("{head}.homed"), Variable::Homed(stage.id.clone()), Type::Flag, vec![], none());
            add(format!("{head}.trust"), Variable::Trust(stage.id.clone()), Type::Text, trusts(), none());
        }
        for output in &rig.outputs {
            let (of, texts, unit) = match output.kind {
                OutputKind::Shutter => (Type::Text, vec!["open".to_owned(), "closed".to_owned()], ""),
                OutputKind::Line => (Type::Text, vec!["on".to_owned(), "off".to_owned()], ""),
                OutputKind::Wheel => (Type::Text, output.positions.iter().map(Name::to_string).collect(), ""),
                OutputKind::Light => (Type::Number, vec![], "%"),
            };
            add(format!("output.{}", spelt(&output.id)), Variable::Output(output.id.clone()), of, texts, unit.into());
        }
        for sensor in &rig.sensors {
            let of = if sensor.kind == SensorKind::Analog { Type::Number } else { Type::Flag };
            let name = format!("sensor.{}", spelt(&sensor.id));
            add(name, Variable::Sensor(sensor.id.clone()), of, vec![], sensor.unit.clone());
        }
        for camera in &rig.cameras {
            let head = format!("camera.{}", spelt(&camera.id));
            add(format!("{head}.exposing"), Variable::Exposing(camera.id.clone()), Type::Flag, vec![], none());
            let ms = "ms".to_owned();
            add(format!("{head}.exposure_ms"), Variable::ExposureMs(camera.id.clone()), Type::Number, vec![], ms);
        }
        if gate {
            let kinds = crate::model::Kind::ALL.map(|k| k.word().to_owned()).to_vec();
            add("move.kind".into(), Variable::MoveKind, Type::Text, kinds, none());
            let stages = rig.stages.iter().map(|s| s.id.to_string()).chain([String::new()]).collect();
            add("move.stage".into(), Variable::MoveStage, Type::Text, stages, none());
            for axis in rig.stages.iter().flat_map(|s| &s.axes) {
                let name = format!("move.target.{}.{}", spelt(&axis.id.stage), spelt(&axis.id.axis));
                add(name, Variable::MoveTarget(axis.id.clone()), Type::Number, vec![], axis.unit.to_string());
            }
        }
        words.retain(|w| !unclear.contains(&w.name));
        Vocabulary { words, gate }
    }

    /// The word of that name.
    pub fn word(&self, name: &str) -> Option<&Word> {
        self.words.iter().find(|w| w.name == name)
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.words.iter().map(|w| w.name.as_str())
    }

    /// Where a word is looked for, in messages.
    pub(super) fn place(&self) -> &'static str {
        if self.gate { "on this rig" } else { "for a watch on this rig" }
    }

    /// Why a word that there is can't be used here.
    pub(super) fn elsewhere(&self, name: &str) -> Option<&'static str> {
        (!self.gate && name.split('.').next() == Some("move")).then_some(
            "only a gate knows what is about to happen: write when = \"gate\", or name the stage's own state",
        )
    }
}

/// A device's name as rules write it: CEL takes a hyphen for a minus.
fn spelt(name: &Name) -> String {
    name.as_str().replace('-', "_")
}

/// The unit in which a stage's speed is told.
pub fn speed_unit(axes: &[Axis]) -> Unit {
    if axes.iter().any(|a| a.unit.dimension() == Dimension::Length) { Unit::Mm } else { Unit::Deg }
}
