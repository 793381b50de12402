//! `[[stage]]` and `[stage.axes.…]`: axes with all their limits. A limit that is missing is a problem.

use std::ops::Range;
use std::time::Duration;

use super::devices::{DeviceDraft, device};
use super::problem::{Sink, quoted};
use super::reader::{Field, Section, choice, written};
use super::rig::{Approach, Axis, Homing, Stage};
use super::{AxisRules, Kind, KnownDrivers};
use crate::model::{AxisId, Name, Trust};
use crate::units::{Distance, Position, Span, Speed, Unit, plain};

/// The most stages of a rig.
const MAX: usize = 64;
/// The most axes of a stage.
const MAX_AXES: usize = 32;
/// The largest position, in mm or degrees.
const FAR: f64 = 1e7;
/// The smallest tolerance or speed, in mm or degrees: what conversions round to.
const FINE: f64 = 1e-9;
/// How many counts a unit may have: from a coarse gear to a fine encoder in a large unit.
const COUNTS: std::ops::RangeInclusive<f64> = 1e-6..=1e12;
/// Python's words that can't name an argument.
const PYTHON: [&str; 32] = [
    "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
    "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise",
    "return", "try", "while", "with", "yield",
];

/// What is known of an axis even if it has problems, so that references to it can be judged.
pub(super) struct KnownAxis {
    pub(super) id: AxisId,
    pub(super) unit: Option<Unit>,
    pub(super) travel: Option<Span>,
}

/// A stage as far as it could be read.
pub(super) struct StageDraft {
    pub(super) device: DeviceDraft,
    pub(super) axes: Vec<KnownAxis>,
    /// Whether every axis has a name that is one.
    pub(super) all_named: bool,
    /// The controller's axes that it uses, each in its one spelling, and where the file says so.
    channels: Vec<(String, Range<usize>)>,
    pub(super) stage: Option<Stage>,
}

/// Finds axes of a controller that two stages on one link use.
pub(super) fn check(sink: &mut Sink<'_>, stages: &[StageDraft]) {
    let link = |s: &StageDraft| s.device.link.as_ref().map(|(name, _)| name.clone());
    for (i, stage) in stages.iter().enumerate() {
        for (channel, at) in &stage.channels {
            let on_link = stages[..i].iter().filter(|other| link(stage).is_some() && link(other) == link(stage));
            let first = on_link.flat_map(|other| &other.channels).find(|(c, _)| c == channel);
            if let Some((_, first)) = first {
                let message = format!("channel {} is used on line {} already", quoted(channel), sink.line(first));
                sink.say(at.clone(), message, "two stages on one link can't move the same axis of the controller");
            }
        }
    }
}

/// Reads all stages.
pub(super) fn read(sink: &mut Sink<'_>, root: &mut Section<'_>, drivers: &KnownDrivers) -> Vec<StageDraft> {
    let sections = root.tables(sink, "stage", MAX);
    sections.into_iter().map(|s| one(sink, s, drivers)).collect()
}

fn one(sink: &mut Sink<'_>, mut s: Section<'_>, drivers: &KnownDrivers) -> StageDraft {
    let device = device(sink, &mut s, drivers, Kind::Stage);
    let why = s.get("why").map(|f| f.line(sink));
    let home = s.need(
        sink,
        "home",
        "write in which order the controller homes its axes: home = { order = [\"z\", \"x\", \"y\"] }, or home = \"never\" \
         if it can't and a person declares where they stand",
    );
    let axes_field = s.need(sink, "axes", "describe each axis in a section [stage.axes.x]");
    s.finish(sink, &[]);

    let stage_name = device.id.as_ref().map_or("?", |n| n.as_str()).to_owned();
    let mut known = Vec::new();
    let mut axes: Vec<Option<Axis>> = Vec::new();
    let mut names: Vec<Name> = Vec::new();
    let mut all_named = axes_field.is_some();
    let mut channels: Vec<(String, Range<usize>)> = Vec::new();
    let mut trusts: Vec<(Trust, Range<usize>)> = Vec::new();
    let rules = device.driver.map(|d| &d.axes);
    if let Some(table) = axes_field.and_then(|f| f.section(sink, "`axes`".into())) {
        let entries = table.entries();
        if entries.is_empty() || entries.len() > MAX_AXES {
            table.say(
                sink,
                format!("a stage has 1 to {MAX_AXES} axes, not {}", entries.len()),
                "describe each axis in a section [stage.axes.x]",
            );
        }
        for (key_at, field) in entries.into_iter().take(MAX_AXES) {
            let Some(name) = axis_name(sink, key_at, &field.name) else {
                all_named = false;
                continue;
            };
            let id = AxisId { stage: Name::new(&stage_name), axis: name.clone() };
            names.push(name);
            let title = format!("[stage.axes.{}]", id.axis);
            let (unit, travel, axis) = match field.section(sink, title) {
                Some(section) => axis(sink, section, id.clone(), rules, &mut channels, &mut trusts),
                None => (None, None, None),
            };
            if device.id.is_some() {
                known.push(KnownAxis { id, unit, travel });
            }
            axes.push(axis);
        }
    }
    let order_against = if all_named { Some(names.as_slice()) } else { None };
    let home = home.and_then(|f| homing(sink, &f, order_against));
    if home == Some(Homing::Never) {
        // A person's word is all there is: an axis that asks for more could never move.
        for (trust, at) in trusts.into_iter().filter(|(trust, _)| *trust > Trust::Assumed) {
            let message = format!(
                "`trust` = \"{trust}\" can never be reached with home = \"never\": a position that a person declares is \
                 \"assumed\""
            );
            let remedy = "write trust = \"assumed\", and declare where it stands with `steadyhand reference`; or let the \
                          controller home: home = { order = [...] }";
            sink.say(at, message, remedy);
        }
    }
    let axes: Option<Vec<Axis>> = axes.into_iter().collect();
    let stage = match (&device.id, &device.driver, &device.link, home, axes) {
        (Some(id), Some(driver), Some((link, _)), Some(home), Some(axes)) => Some(Stage {
            id: id.clone(),
            driver: driver.name.to_owned(),
            link: link.clone(),
            axes,
            home,
            why: why.flatten().map(str::to_owned),
        }),
        _ => None,
    };
    StageDraft { device, axes: known, all_named, channels, stage }
}

fn axis_name(sink: &mut Sink<'_>, at: Range<usize>, name: &str) -> Option<Name> {
    let identifier = Name::is_valid(name) && !name.contains('-') && !name.starts_with(|c: char| c.is_ascii_digit());
    if identifier && !PYTHON.contains(&name) {
        return Some(Name::new(name));
    }
    let remedy = "an axis is also an argument's name: begin with a letter, use only a-z, 0-9 and _, \
                  at most 32 characters, and none of Python's own words";
    sink.say(at, format!("{} can't name an axis", quoted(name)), remedy);
    None
}

fn homing(sink: &mut Sink<'_>, field: &Field<'_>, axes: Option<&[Name]>) -> Option<Homing> {
    if !field.is_table() {
        let text = field.string(sink)?;
        if text == "never" {
            return Some(Homing::Never);
        }
        let remedy = "write in which order the controller homes its axes: home = { order = [\"z\", \"x\", \"y\"] }, or \
                      \"never\" if a person declares where they stand";
        return field.bad(sink, format!("`home` can't be {}", quoted(text)), remedy);
    }
    let mut s = field.section(sink, "`home`".into())?;
    let ask = match s.get("ask") {
        Some(f) => f.one_of(sink, &[("operator", true)]),
        None => Some(false),
    };
    // Homing is a search: a second is too short for any, an hour would hide a jam.
    let timeout = match s.get("timeout_s") {
        Some(f) => f.seconds(sink, 1.0..=3600.0),
        None => Some(Duration::from_secs(60)),
    };
    let order_field = s.need(sink, "order", "list all axes in the order in which the controller homes them");
    s.finish(sink, &[]);
    let order_field = order_field?;
    let mut order: Vec<Name> = Vec::new();
    let mut good = true;
    for f in order_field.list(sink, MAX_AXES)? {
        let Some(text) = f.string(sink) else {
            good = false;
            continue;
        };
        if axes.is_some_and(|all| !all.iter().any(|n| n.as_str() == text)) {
            good = false;
            let known = axes.unwrap_or_default().iter().map(Name::as_str);
            let _: Option<()> = f.bad(sink, format!("this stage has no axis {}", quoted(text)), choice(text, known));
        } else if order.iter().any(|n| n.as_str() == text) {
            good = false;
            let _: Option<()> = f.bad(sink, format!("axis {} is named twice", quoted(text)), "name each axis once");
        } else if axes.is_some() {
            order.push(Name::new(text));
        }
    }
    let missing: Vec<&str> = axes.unwrap_or_default().iter().filter(|n| !order.contains(n)).map(Name::as_str).collect();
    if good && !missing.is_empty() {
        let message = format!("the homing order leaves out {}", missing.join(", "));
        return order_field.bad(sink, message, "list every axis of the stage; it homes them all");
    }
    let timeout = timeout.filter(|_| good && axes.is_some())?;
    Some(Homing::Cycle { order, timeout, ask: ask? })
}

/// Reads one axis: its unit and travel (for those who refer to it) and the whole, as far as they are good.
fn axis(
    sink: &mut Sink<'_>,
    mut s: Section<'_>,
    id: AxisId,
    rules: Option<&AxisRules>,
    channels: &mut Vec<(String, Range<usize>)>,
    trusts: &mut Vec<(Trust, Range<usize>)>,
) -> (Option<Unit>, Option<Span>, Option<Axis>) {
    let unit = s.need(sink, "unit", "write unit = \"mm\" (or um, nm, deg, mdeg, mrad)").and_then(|f| unit(sink, &f));
    let channel = channel(sink, &mut s, &id, rules, channels);
    let count = count(sink, &mut s, unit, rules);

    let sign = s.need(sink, "sign", "write sign = 1, or -1 if the controller counts the other way").and_then(|f| {
        let v = f.number(sink)?;
        if v == 1.0 || v == -1.0 {
            return Some(v);
        }
        f.bad(
            sink,
            format!("`sign` = {} is neither 1 nor -1", written(v)),
            "write 1, or -1 if the controller counts the other way",
        )
    });
    let origin = s
        .need(sink, "origin", "write the rig position at the controller's zero, e.g. origin = 0.0")
        .and_then(|f| in_unit(sink, &f, unit));
    let travel_field =
        s.need(sink, "travel", "write where the axis may be, e.g. travel = [0.0, 75.0]; there is no default");
    let travel = travel_field.and_then(|f| span(sink, &f, unit, true));
    let length = travel.map(|t| (t.high - t.low).in_base());
    let max_speed = s
        .need(sink, "max_speed_per_s", "write how fast it may go, in its unit per second; there is no default")
        .and_then(|f| positive(sink, &f, unit, None));
    let acceleration = match s.get("acceleration_per_s2") {
        Some(f) => positive(sink, &f, unit, None).map(Some),
        None => Some(None),
    };
    let tolerance = s
        .need(sink, "tolerance", "write how near to a target it must come to rest, in its unit; there is no default")
        .and_then(|f| positive(sink, &f, unit, length));
    let trust = s.need(sink, "trust", "write trust = \"referenced\": the axis moves once it is homed").and_then(|f| {
        if matches!(f.item.get_ref(), toml::de::DeValue::String(text) if text == "unknown") {
            // From a position that nobody knows, no target is known either; slow steps need an approval each.
            let remedy = "write \"referenced\" if it homes, or \"assumed\" if a person may declare where it stands";
            return f.bad(sink, "an axis whose position is `unknown` has no target that could be judged", remedy);
        }
        let levels = [Trust::Referenced, Trust::Restored, Trust::Assumed];
        let names = levels.map(|t| t.to_string());
        let words: Vec<(&str, Trust)> = names.iter().map(String::as_str).zip(levels).collect();
        let trust = f.one_of(sink, &words)?;
        trusts.push((trust, f.span()));
        Some(trust)
    });
    let direction = [("+", 1.0), ("-", -1.0)];
    let toward_sample = s.get("toward_sample").map(|f| f.one_of(sink, &direction));
    let approach = approach(sink, &mut s, unit, length);
    let settle = match s.get("settle_ms") {
        Some(f) => f.millis(sink, 0.0..=60_000.0),
        None => Some(Duration::ZERO),
    };
    let blind_step = match s.get("blind_step") {
        Some(f) => positive(sink, &f, unit, length).map(Some),
        None => Some(None),
    };
    let holds = s
        .need(
            sink,
            "holds_unpowered",
            "write holds_unpowered = false if it sinks or turns freely without power, else true",
        )
        .and_then(|f| f.flag(sink));
    let why = s.get("why").map(|f| f.line(sink));
    s.finish(sink, &[]);

    let axis = (|| {
        let unit = unit?;
        Some(Axis {
            id,
            channel: channel?,
            count: count?,
            unit,
            sign: sign?,
            origin: Distance::base(origin?).ok()?,
            travel: travel?,
            max_speed: Speed::base(max_speed?).ok()?,
            acceleration: acceleration?,
            tolerance: Distance::base(tolerance?).ok()?,
            trust: trust?,
            toward_sample: toward_sample.flatten(),
            approach: approach?,
            settle: settle?,
            blind_step: blind_step?.map(Distance::base).transpose().ok()?,
            holds_unpowered: holds?,
            why: why.flatten().map(str::to_owned),
        })
    })();
    (unit, travel, axis)
}

/// The controller's own name for the axis: what the driver knows, and no other axis of the stage uses.
fn channel(
    sink: &mut Sink<'_>,
    s: &mut Section<'_>,
    id: &AxisId,
    rules: Option<&AxisRules>,
    channels: &mut Vec<(String, Range<usize>)>,
) -> Option<String> {
    let field = s.get("channel");
    let at = field.as_ref().map_or_else(|| s.span(), Field::span);
    let given = field.is_some();
    let text = match field {
        Some(f) => f.line(sink)?,
        None => id.axis.as_str(),
    };
    let rules = rules.unwrap_or(&AxisRules::ANY);
    let Some(one) = (rules.channel)(text) else {
        let message = if given {
            format!("`channel` = {} is no axis of this controller", quoted(text))
        } else {
            format!("`channel` is missing, and the controller has no axis {}", quoted(text))
        };
        sink.say(at, message, format!("write the controller's own name for it: channel = {}", rules.channels));
        return None;
    };
    match channels.iter().find(|(c, _)| *c == one) {
        Some((_, first)) => {
            let message = format!("channel {} is used on line {} already", quoted(text), sink.line(first));
            let remedy = format!("give each axis the controller's own name for it: channel = {}", rules.channels);
            sink.say(at, message, remedy);
        }
        None => channels.push((one, at)),
    }
    Some(text.to_owned())
}

/// How far one count goes; the outer `None` says that there was a problem. Only drivers of controllers that count
/// know the key.
fn count(
    sink: &mut Sink<'_>,
    s: &mut Section<'_>,
    unit: Option<Unit>,
    rules: Option<&AxisRules>,
) -> Option<Option<Distance>> {
    let Some(rules) = rules else {
        // Which driver it is has a problem of its own.
        drop(s.get("counts_per_unit"));
        return Some(None);
    };
    let Some(what) = rules.counts else { return Some(None) };
    let name = unit.map_or("unit", Unit::name);
    let Some(field) = s.get("counts_per_unit") else {
        let remedy = format!(
            "write how many counts one {name} takes; {what}. A wrong number moves too far: there is no default"
        );
        s.say(sink, format!("`counts_per_unit` is missing in {}", s.title), remedy);
        return None;
    };
    let v = field.number(sink)?;
    if !COUNTS.contains(&v) {
        let message = format!("`counts_per_unit` = {} is no number of counts for one {name}", written(v));
        return field.bad(sink, message, format!("check the number and the axis's unit; {what}"));
    }
    Distance::new(1.0 / v, unit.unwrap_or(Unit::Mm)).ok().map(Some)
}

/// `approach` with its `approach_by`; the outer `None` says that there was a problem.
fn approach(
    sink: &mut Sink<'_>,
    s: &mut Section<'_>,
    unit: Option<Unit>,
    length: Option<f64>,
) -> Option<Option<Approach>> {
    match (s.get("approach"), s.get("approach_by")) {
        (None, None) => Some(None),
        (Some(side), Some(by)) => {
            let direction = side.one_of(sink, &[("+", 1.0), ("-", -1.0)]);
            let overshoot = positive(sink, &by, unit, length).and_then(|v| Distance::base(v).ok());
            Some(Some(Approach { direction: direction?, overshoot: overshoot? }))
        }
        (Some(side), None) => {
            let remedy = "write how far before the target it turns: approach_by = 0.05, more than the backlash";
            side.bad(sink, "`approach` needs `approach_by`", remedy)
        }
        (None, Some(by)) => by.bad(sink, "`approach_by` needs `approach`", "write approach = \"+\" or \"-\""),
    }
}

/// A unit's name.
pub(super) fn unit(sink: &mut Sink<'_>, field: &Field<'_>) -> Option<Unit> {
    let text = field.string(sink)?;
    if let Some(unit) = Unit::parse(text) {
        return Some(unit);
    }
    let message = format!("`{}` = {} is no unit known here", field.name, quoted(text));
    field.bad(sink, message, choice(text, Unit::ALL.iter().map(|u| u.name())))
}

/// A position or distance of an axis in the base unit. Without a unit (that is a problem of its own) the
/// number is judged alone.
fn in_unit(sink: &mut Sink<'_>, field: &Field<'_>, unit: Option<Unit>) -> Option<f64> {
    let v = field.number(sink)?;
    let base = Position::new(v, unit.unwrap_or(Unit::Mm)).ok().map(Position::in_base);
    match base {
        Some(b) if b.abs() <= FAR => Some(b),
        _ => field.bad(
            sink,
            format!("`{}` = {} is farther than any stage goes", field.name, written(v)),
            "check the number and the axis's unit",
        ),
    }
}

/// A number greater than zero, in the base unit; less than the travel where that is given.
fn positive(sink: &mut Sink<'_>, field: &Field<'_>, unit: Option<Unit>, travel: Option<f64>) -> Option<f64> {
    let v = field.number(sink)?;
    if v <= 0.0 {
        let message = format!("`{}` = {} is not greater than zero", field.name, written(v));
        return field.bad(sink, message, "write what the axis really does; zero does not mean unlimited or exact");
    }
    let base = in_unit(sink, field, unit)?;
    if base < FINE {
        let message = format!("`{}` = {} is smaller than any number kept here", field.name, written(v));
        return field.bad(sink, message, "write a larger number, or check the axis's unit");
    }
    if let (Some(length), Some(unit)) = (travel, unit)
        && length <= base
    {
        let length = Distance::base(length).map_or(0.0, |d| d.to(unit));
        let message = format!("`{}` = {} {unit} is as large as the whole travel", field.name, plain(v));
        return field.bad(sink, message, format!("write less than {} {unit}", plain(length)));
    }
    Some(base)
}

/// `[low, high]` of an axis, in rig coordinates. For a travel, zeros get their own explanation.
pub(super) fn span(sink: &mut Sink<'_>, field: &Field<'_>, unit: Option<Unit>, is_travel: bool) -> Option<Span> {
    let name = &field.name;
    let list = field.list(sink, 2)?;
    let [low, high] = list.as_slice() else {
        return field.bad(
            sink,
            format!("`{name}` must be two numbers"),
            "write the lower and the upper end: [0.0, 75.0]",
        );
    };
    let (low_v, high_v) = (low.number(sink), high.number(sink));
    let (low_v, high_v) = (low_v?, high_v?);
    let (a, b) = (in_unit(sink, low, unit), in_unit(sink, high, unit));
    let (a, b) = (a?, b?);
    if a + FINE < b {
        return Some(Span { low: Position::base(a).ok()?, high: Position::base(b).ok()? });
    }
    let shown = format!("[{}, {}]", written(low_v), written(high_v));
    if b < a {
        let remedy = format!("write the lower end first: [{}, {}]", written(high_v), written(low_v));
        return field.bad(sink, format!("`{name}` = {shown} is reversed"), remedy);
    }
    if is_travel && a == 0.0 {
        let remedy = "write the real travel; zeros do not mean that there is no limit";
        return field.bad(sink, format!("`{name}` = {shown} leaves the axis no room"), remedy);
    }
    field.bad(sink, format!("`{name}` = {shown} is empty"), "write a lower and a higher end")
}
