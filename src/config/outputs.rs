//! `[[output]]`: shutters, lights, wheels and lines, and what becomes of each at a stop. What is left on when
//! everything stops is the owner's choice, so that choice has no default.

use std::ops::Range;
use std::time::Duration;

use super::devices::{DeviceDraft, device};
use super::problem::{Sink, quoted};
use super::reader::{Field, Section, choice};
use super::rig::{OnStop, Output};
use super::{Channels, Kind, KnownDrivers};
use crate::model::{Name, OutputKind, OutputValue};
use crate::units::Percent;

/// The most outputs of a rig.
const MAX: usize = 64;
/// The most positions of a wheel.
const MAX_POSITIONS: usize = 32;

/// An output as far as it could be read.
pub(super) struct OutputDraft {
    pub(super) device: DeviceDraft,
    pub(super) kind: Option<OutputKind>,
    /// The most that a light may be set to, where it could be read.
    pub(super) max: Option<Percent>,
    channel: Option<(String, Range<usize>)>,
    pub(super) output: Option<Output>,
}

/// Reads all outputs.
pub(super) fn read(sink: &mut Sink<'_>, root: &mut Section<'_>, drivers: &KnownDrivers) -> Vec<OutputDraft> {
    let mut drafts: Vec<OutputDraft> = Vec::new();
    for section in root.tables(sink, "output", MAX) {
        let draft = one(sink, section, drivers);
        let earlier = drafts.iter().map(|d| (&d.device, &d.channel));
        distinct(sink, &draft.device, &draft.channel, earlier);
        drafts.push(draft);
    }
    drafts
}

/// Two devices of one driver on one link are different channels of it.
pub(super) fn distinct<'d>(
    sink: &mut Sink<'_>,
    device: &DeviceDraft,
    channel: &Option<(String, Range<usize>)>,
    earlier: impl Iterator<Item = (&'d DeviceDraft, &'d Option<(String, Range<usize>)>)>,
) {
    let (Some((link, _)), Some((channel, at))) = (&device.link, channel) else { return };
    let name = |d: &DeviceDraft| d.driver.map(|d| d.name);
    for (other, other_channel) in earlier {
        let same_link = other.link.as_ref().is_some_and(|(l, _)| l == link);
        if let Some((taken, taken_at)) = other_channel
            && same_link
            && name(other) == name(device)
            && taken.eq_ignore_ascii_case(channel)
        {
            let what = if channel.is_empty() {
                format!(
                    "{} has one output a link, named on line {} already",
                    name(device).unwrap_or("it"),
                    sink.line(taken_at)
                )
            } else {
                format!("channel {} is used on line {} already", quoted(channel), sink.line(taken_at))
            };
            sink.say(at.clone(), what, "give each device the controller's own name for it: channel = \"…\"");
            return;
        }
    }
}

/// The device's own name for it, where the driver has such names.
pub(super) fn channel(
    sink: &mut Sink<'_>,
    s: &mut Section<'_>,
    device: &DeviceDraft,
) -> Option<(String, Range<usize>)> {
    let field = s.get("channel");
    let known = device.driver.map_or(Channels::Any, |d| d.channels);
    let at = field.as_ref().map_or_else(|| device.id_at.clone(), Field::span);
    let text = match (field, known) {
        (Some(f), Channels::One) => {
            return f.bad(sink, "`channel` has no meaning for this driver, which has only one", "remove it");
        }
        (None, Channels::One) => String::new(),
        (Some(f), Channels::Any) => f.line(sink)?.to_owned(),
        (None, Channels::Any) => device.id.as_ref()?.to_string(),
        (Some(f), Channels::Of(names)) => {
            let text = f.string(sink)?;
            match names.iter().find(|n| n.eq_ignore_ascii_case(text)) {
                Some(name) => (*name).to_owned(),
                None => {
                    let message = format!("{} is no channel of this driver", quoted(text));
                    return f.bad(sink, message, choice(text, names.iter().copied()));
                }
            }
        }
        (None, Channels::Of(names)) => names.first().copied().unwrap_or_default().to_owned(),
    };
    Some((text, at))
}

fn one(sink: &mut Sink<'_>, mut s: Section<'_>, drivers: &KnownDrivers) -> OutputDraft {
    let device = device(sink, &mut s, drivers, Kind::Output);
    let by_hand = device.driver.is_some_and(|d| d.by_hand);
    let kind = kind(sink, &mut s, &device);
    let channel = channel(sink, &mut s, &device);
    let positions = positions(sink, &mut s, kind);
    let max = max(sink, &mut s, kind);
    let on_stop = on_stop(sink, &mut s, by_hand, kind, positions.as_deref(), max);
    let delay = s.get("delay_ms").map_or(Some(Duration::ZERO), |f| f.millis(sink, 0.0..=60_000.0));
    let confirm = match s.get("confirm_s") {
        None => Some(Duration::from_secs(600)),
        Some(f) if by_hand => f.seconds(sink, 1.0..=86_400.0),
        Some(f) => f.bad(sink, "`confirm_s` has no meaning where no person is asked", "remove it"),
    };
    let why = s.get("why").map(|f| f.line(sink));
    s.finish(sink, &[]);
    let output = (|| {
        Some(Output {
            id: device.id.clone()?,
            driver: device.driver?.name.to_owned(),
            link: if by_hand { None } else { Some(device.link.as_ref()?.0.clone()) },
            kind: kind?,
            channel: channel.as_ref()?.0.clone(),
            positions: positions?,
            max: max?,
            on_stop: on_stop?,
            delay: delay?,
            confirm_within: confirm?,
            why: why.flatten().map(str::to_owned),
        })
    })();
    OutputDraft { device, kind, max, channel, output }
}

fn kind(sink: &mut Sink<'_>, s: &mut Section<'_>, device: &DeviceDraft) -> Option<OutputKind> {
    let kinds = [OutputKind::Shutter, OutputKind::Light, OutputKind::Wheel, OutputKind::Line].map(|k| (k.word(), k));
    let able: Vec<(&str, OutputKind)> =
        kinds.into_iter().filter(|(_, k)| device.driver.is_none_or(|d| d.outputs.contains(k))).collect();
    let words = able.iter().map(|(w, _)| format!("{w:?}")).collect::<Vec<_>>().join(" or ");
    let field = s.need(sink, "kind", &format!("write what it is: kind = {words}"))?;
    if let (Some(driver), Some((word, kind))) = (
        device.driver,
        kinds.iter().find(|(w, _)| matches!(field.item.get_ref(), toml::de::DeValue::String(t) if t == w)),
    ) && !driver.outputs.contains(kind)
    {
        let message = format!("driver {} has no {word}", driver.name);
        return field.bad(sink, message, format!("write kind = {words}, or name another driver"));
    }
    field.one_of(sink, &able)
}

fn positions(sink: &mut Sink<'_>, s: &mut Section<'_>, kind: Option<OutputKind>) -> Option<Vec<Name>> {
    let remedy = "name the wheel's positions in its own order: positions = [\"dapi\", \"gfp\"]";
    let field = match kind {
        Some(OutputKind::Wheel) => s.need_here(sink, "positions", remedy)?,
        Some(other) => match s.get("positions") {
            None => return Some(Vec::new()),
            Some(f) => {
                return f.bad(
                    sink,
                    format!("a {} has no positions", other.word()),
                    "remove them, or write kind = \"wheel\"",
                );
            }
        },
        None => {
            // What it is could not be read; that is said already.
            s.get("positions");
            return None;
        }
    };
    let list = field.list(sink, MAX_POSITIONS)?;
    if list.len() < 2 {
        return field.bad(sink, "a wheel has at least two positions", remedy);
    }
    let mut names: Vec<Name> = Vec::new();
    for f in list {
        let name = f.id(sink)?;
        if names.contains(&name) {
            return f.bad(sink, format!("position {:?} is named twice", name.as_str()), "give each a name of its own");
        }
        names.push(name);
    }
    Some(names)
}

fn max(sink: &mut Sink<'_>, s: &mut Section<'_>, kind: Option<OutputKind>) -> Option<Percent> {
    if kind == Some(OutputKind::Light) {
        let remedy = "write how bright it may ever be, e.g. max_percent = 80; there is no default";
        return s
            .need_here(sink, "max_percent", remedy)
            .and_then(|f| Percent::new(f.number_in(sink, 0.1..=100.0, "%")?));
    }
    match (s.get("max_percent"), kind) {
        (Some(f), Some(kind)) => {
            f.bad(sink, format!("a {} has no percent", kind.word()), "remove it, or write kind = \"light\"")
        }
        _ => Some(Percent::FULL),
    }
}

fn on_stop(
    sink: &mut Sink<'_>,
    s: &mut Section<'_>,
    by_hand: bool,
    kind: Option<OutputKind>,
    positions: Option<&[Name]>,
    max: Option<Percent>,
) -> Option<OnStop> {
    let missing = if by_hand {
        "write on_stop = \"keep\": nothing but a person changes it"
    } else {
        "write on_stop = \"safe\" and what is safe, or on_stop = \"keep\" if it stays as it is when everything stops; there is no default"
    };
    let field = s.need(sink, "on_stop", missing);
    let safe = s.get("safe");
    let field = field?;
    if field.one_of(sink, &[("safe", true), ("keep", false)])? {
        if by_hand {
            let message = "`on_stop` = \"safe\" can't be kept where a person does it by hand";
            return field.bad(sink, message, "write on_stop = \"keep\", and make it safe by other means");
        }
        let Some(safe) = safe else {
            let example = match kind {
                Some(OutputKind::Light) => "safe = 0",
                Some(OutputKind::Wheel) => "safe = \"…\", one of its positions",
                Some(OutputKind::Line) => "safe = \"off\"",
                _ => "safe = \"closed\"",
            };
            s.say(sink, format!("`safe` is missing in {}", s.title), format!("write what is safe: {example}"));
            return None;
        };
        return value(sink, &safe, kind?, positions.unwrap_or_default(), max).map(OnStop::Safe);
    }
    if let Some(f) = safe {
        let remedy = "remove it, or write on_stop = \"safe\"";
        return f.bad(sink, "`safe` would never be used: on_stop is \"keep\"", remedy);
    }
    Some(OnStop::Keep)
}

/// A value of an output of that kind as the file writes it.
fn value(
    sink: &mut Sink<'_>,
    field: &Field<'_>,
    kind: OutputKind,
    positions: &[Name],
    max: Option<Percent>,
) -> Option<OutputValue> {
    match kind {
        OutputKind::Shutter => field.one_of(sink, &[("closed", false), ("open", true)]).map(OutputValue::Open),
        OutputKind::Line => field.one_of(sink, &[("off", false), ("on", true)]).map(OutputValue::On),
        OutputKind::Light => {
            let max = max.unwrap_or(Percent::FULL).value();
            Percent::new(field.number_in(sink, 0.0..=max, "%")?).map(OutputValue::Percent)
        }
        OutputKind::Wheel => {
            let words: Vec<(&str, Name)> = positions.iter().map(|n| (n.as_str(), n.clone())).collect();
            if words.is_empty() {
                return None;
            }
            field.one_of(sink, &words).map(OutputValue::At)
        }
    }
}
