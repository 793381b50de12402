//! References to axes, `stage.axis`, from all over the file.

use std::ops::Range;

use super::problem::{Sink, quoted};
use super::reader::{Field, choice};
use super::stages::{KnownAxis, StageDraft};
use crate::units::{Dimension, Unit};

/// The axes of the file, those with problems included.
pub(super) struct Axes<'a> {
    all: Vec<&'a KnownAxis>,
    /// Whether every stage and axis has a name; otherwise a dangling reference may be its fault.
    complete: bool,
}

impl<'a> Axes<'a> {
    pub(super) fn of(stages: &'a [StageDraft]) -> Axes<'a> {
        Axes {
            all: stages.iter().flat_map(|s| &s.axes).collect(),
            complete: stages.iter().all(|s| s.device.id.is_some() && s.all_named),
        }
    }

    /// The axis of that name, or a problem at `at`.
    pub(super) fn find(&self, sink: &mut Sink<'_>, at: Range<usize>, text: &str) -> Option<&'a KnownAxis> {
        let found = self.all.iter().find(|a| a.id.to_string() == text);
        if found.is_none() && self.complete {
            let names: Vec<String> = self.all.iter().map(|a| a.id.to_string()).collect();
            let remedy = if names.is_empty() {
                "describe it in a [[stage]] first".into()
            } else {
                choice(text, names.iter().map(String::as_str))
            };
            let what = if text.contains('.') { "there is no axis" } else { "axes are written \"stage.axis\", not" };
            sink.say(at, format!("{what} {}", quoted(text)), remedy);
        }
        found.copied()
    }

    /// The axis that a value names.
    pub(super) fn named(&self, sink: &mut Sink<'_>, field: &Field<'_>) -> Option<&'a KnownAxis> {
        let text = field.string(sink)?;
        self.find(sink, field.span(), text)
    }

    /// The axis and sign of `+stage.axis` or `-stage.axis`.
    pub(super) fn signed(&self, sink: &mut Sink<'_>, field: &Field<'_>) -> Option<(f64, &'a KnownAxis)> {
        let text = field.string(sink)?;
        let (sign, name) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(name), _) => (1.0, name),
            (_, Some(name)) => (-1.0, name),
            _ => {
                let message = format!("`{}` = {} has no direction", field.name, quoted(text));
                return field.bad(sink, message, "write the sign before the axis: \"+sample.x\" or \"-sample.x\"");
            }
        };
        self.find(sink, field.span(), name).map(|axis| (sign, axis))
    }
}

/// Whether the axis measures `wanted`, or a problem at `at`. An axis whose unit is unknown has one already.
pub(super) fn measures(
    sink: &mut Sink<'_>,
    at: Range<usize>,
    axis: &KnownAxis,
    wanted: Dimension,
    remedy: &str,
) -> bool {
    match axis.unit {
        Some(unit) if unit.dimension() != wanted => {
            let message = format!("{} is in {unit}, which does not measure a {wanted}", axis.id);
            sink.say(at, message, remedy);
            false
        }
        _ => true,
    }
}

/// Whether `unit` can speak of the axis, or a problem at the unit.
pub(super) fn speaks_of(sink: &mut Sink<'_>, at: Range<usize>, unit: Unit, axis: &KnownAxis) -> bool {
    match axis.unit {
        Some(own) if own.dimension() != unit.dimension() => {
            let message = format!("{} is in {own} and can't be given in {unit}", axis.id);
            sink.say(at, message, format!("write unit = \"{own}\""));
            false
        }
        _ => true,
    }
}
