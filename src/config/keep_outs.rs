//! `[[keep_out]]`: boxes that no carriage may enter. One that could never protect anything is a problem.

use std::ops::Range;

use super::axes::Axes;
use super::problem::{Sink, quoted};
use super::reader::{Field, Section};
use super::rig::KeepOut;
use super::stages::{KnownAxis, span};
use crate::model::AxisId;
use crate::units::{Dimension, Distance, Span, Unit, plain};

/// The most keep-outs of a rig, and boxes of a keep-out.
const MAX: usize = 256;

/// Reads all keep-outs; `None` for each that has problems.
pub(super) fn read(sink: &mut Sink<'_>, root: &mut Section<'_>, axes: &Axes<'_>) -> Vec<Option<KeepOut>> {
    let sections = root.tables(sink, "keep_out", MAX);
    let mut names: Vec<(&str, Range<usize>)> = Vec::new();
    let mut all = Vec::new();
    for mut s in sections {
        let name_field = s.need(sink, "name", "name what is in the way: name = \"incubator frame\"");
        let name = name_field.and_then(|f| {
            let name = f.line(sink)?;
            if let Some((_, first)) = names.iter().find(|(n, _)| *n == name) {
                let message = format!("there is a keep-out {} on line {} already", quoted(name), sink.line(first));
                return f.bad(sink, message, "give each a name of its own, or put both boxes into one keep-out");
            }
            names.push((name, f.span()));
            Some(name)
        });
        let margin_field = s.get("margin_um");
        let margin_at = margin_field.as_ref().map(Field::span);
        let margin = match margin_field {
            Some(f) => f.number_in(sink, 0.0..=1_000_000.0, "um").and_then(|v| Distance::new(v, Unit::Um).ok()),
            None => Some(Distance::ZERO),
        };
        let why = s.get("why").map(|f| f.line(sink));
        let boxes = s
            .need(sink, "boxes", "write boxes = [{ \"stage.axis\" = [low, high] }], in the axes' own units")
            .and_then(|f| boxes(sink, &f, axes, margin.unwrap_or(Distance::ZERO)));
        s.finish(sink, &[]);
        if let (Some(at), Some(margin), Some(boxes)) = (margin_at, margin, &boxes)
            && margin != Distance::ZERO
            && let Some(angle) = boxes.iter().flatten().find_map(|side| side.angle())
        {
            let message = format!("a margin in um can't be kept from {}, which turns", angle.id);
            sink.say(at, message, "remove `margin_um` and draw the boxes larger");
            all.push(None);
            continue;
        }
        all.push(name.zip(margin).zip(boxes).map(|((name, margin), boxes)| KeepOut {
            name: name.to_owned(),
            boxes: boxes.into_iter().map(|b| b.into_iter().map(Side::done).collect()).collect(),
            margin,
            why: why.flatten().map(str::to_owned),
        }));
    }
    all
}

/// One side of a box.
struct Side<'a> {
    axis: &'a KnownAxis,
    span: Span,
}

impl<'a> Side<'a> {
    fn angle(&self) -> Option<&'a KnownAxis> {
        (self.axis.unit.map(Unit::dimension) == Some(Dimension::Angle)).then_some(self.axis)
    }

    fn done(self) -> (AxisId, Span) {
        (self.axis.id.clone(), self.span)
    }
}

fn boxes<'a>(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'a>, margin: Distance) -> Option<Vec<Vec<Side<'a>>>> {
    let list = field.list(sink, MAX)?;
    if list.is_empty() {
        return field.bad(
            sink,
            "`boxes` is empty: it keeps out of nothing",
            "write at least one box, or remove the keep-out",
        );
    }
    let read: Vec<_> = list.iter().map(|f| one_box(sink, f, axes, margin)).collect();
    read.into_iter().collect()
}

fn one_box<'a>(sink: &mut Sink<'_>, field: &Field<'_>, axes: &Axes<'a>, margin: Distance) -> Option<Vec<Side<'a>>> {
    let section = field.section(sink, "a box".into())?;
    // `{ sample.x = […] }` without quotes is a table in a table; it means the same.
    let mut entries = Vec::new();
    for (at, entry) in section.entries() {
        if entry.is_table() {
            let stage = entry.name.clone();
            for (at, mut inner) in entry.section(sink, "a box".into())?.entries() {
                inner.name = format!("{stage}.{}", inner.name);
                entries.push((at, inner));
            }
        } else {
            entries.push((at, entry));
        }
    }
    if entries.is_empty() {
        return field.bad(
            sink,
            "a box without an axis would be everywhere",
            "name at least one axis: { \"stage.axis\" = [low, high] }",
        );
    }
    let mut sides: Vec<Side<'_>> = Vec::new();
    let mut good = true;
    for (at, entry) in entries {
        let axis = axes.find(sink, at.clone(), &entry.name);
        let span = span(sink, &entry, axis.and_then(|a| a.unit), false);
        let Some((axis, span)) = axis.zip(span) else {
            good = false;
            continue;
        };
        if sides.iter().any(|s| s.axis.id == axis.id) {
            sink.say(
                at,
                format!("{} bounds the box twice", axis.id),
                "name each axis once; use two boxes for two ranges",
            );
            good = false;
            continue;
        }
        good &= in_reach(sink, &entry, axis, span, margin);
        sides.push(Side { axis, span });
    }
    good.then_some(sides)
}

/// A box beyond an axis's travel protects nothing; most likely its numbers are in another unit.
fn in_reach(sink: &mut Sink<'_>, field: &Field<'_>, axis: &KnownAxis, span: Span, margin: Distance) -> bool {
    let (Some(unit), Some(travel)) = (axis.unit, axis.travel) else { return true };
    let reach = travel.widened(Distance::base(1e-9).unwrap_or(Distance::ZERO));
    if span.widened(margin).overlaps(reach) {
        return true;
    }
    let shown = |p: crate::units::Position| plain(p.to(unit));
    let message = format!(
        "this box lies beyond the travel of {}, {} to {} {unit}, and protects nothing",
        axis.id,
        shown(travel.low),
        shown(travel.high)
    );
    sink.say(field.span(), message, format!("write it in the axis's own unit, {unit}, or remove the box"));
    false
}
