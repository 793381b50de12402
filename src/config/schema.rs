//! From text to a rig: syntax first, then every section, then the references between them.

use std::path::Path;

use toml::de::{DeTable, Error};

use super::axes::Axes;
use super::problem::{Problems, Sink, quoted};
use super::reader::{Field, Section};
use super::rig::Rig;
use super::{KnownDrivers, budget, cameras, devices, keep_outs, links, outputs, rules, sections, sensors, stages};

/// Sections that a later version will know.
const FUTURE: [&str; 1] = ["objective"];

/// The whole file. `text` has no byte order mark.
pub(super) fn rig(text: &str, file: &Path, known: &KnownDrivers) -> Result<Rig, Problems> {
    let mut sink = Sink::new(file, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    if !syntax(&mut sink, text, &errors) {
        return Err(sink.problems());
    }
    let rig = read(&mut sink, Section::root(root.get_ref()), file, known);
    match rig {
        Some(rig) if sink.is_empty() => Ok(rig),
        _ => {
            if sink.is_empty() {
                sink.say_whole(
                    "a check failed without saying why, a fault of the program",
                    "report it together with this file",
                );
            }
            Err(sink.problems())
        }
    }
}

/// Reports what is not TOML. Whether the rest can be read all the same: it can when only keys were repeated.
fn syntax(sink: &mut Sink<'_>, text: &str, errors: &[Error]) -> bool {
    let mut sorted: Vec<(std::ops::Range<usize>, &str)> =
        errors.iter().map(|e| (e.span().unwrap_or(0..0), e.message())).collect();
    sorted.sort_by_key(|(span, _)| span.start);
    let mut readable = true;
    let mut last_line = 0;
    for (span, message) in sorted {
        let line = sink.line(&span);
        if line == last_line {
            continue;
        }
        last_line = line;
        if message.starts_with("duplicate key") {
            let name = quoted(text.get(span.clone()).unwrap_or(""));
            sink.say(span, format!("{name} is given twice"), "remove one of the two");
            continue;
        }
        readable = false;
        // An open bracket or quote swallows what follows; complaints about that would mislead.
        let open = ["array", "unclosed", "multi-line", "inline table"].iter().any(|w| message.contains(w));
        let remedy = if message.contains("escape") {
            "in double quotes a backslash is special: write Windows paths in single quotes, 'C:\\data'"
        } else if open {
            "close it; what follows could not be read yet"
        } else if message.contains("string values must be quoted") {
            "write text in quotes"
        } else {
            "write `key = value`, a [section], or a # comment"
        };
        sink.say(span, format!("not TOML: {message}"), remedy);
        if open {
            break;
        }
    }
    readable
}

fn read(sink: &mut Sink<'_>, mut root: Section<'_>, file: &Path, known: &KnownDrivers) -> Option<Rig> {
    let links = links::read(sink, &mut root);
    let stages = stages::read(sink, &mut root, known);
    let axes = Axes::of(&stages);
    let outputs = outputs::read(sink, &mut root, known);
    let sensors = sensors::read(sink, &mut root, known);
    let cameras = cameras::read(sink, &mut root, &axes, &outputs, known, file);
    let all: Vec<&devices::DeviceDraft> = stages
        .iter()
        .map(|s| &s.device)
        .chain(cameras.iter().map(|c| &c.device))
        .chain(outputs.iter().map(|o| &o.device))
        .chain(sensors.iter().map(|s| &s.device))
        .collect();
    devices::check(sink, &all, &links);
    stages::check(sink, &stages);
    if all.is_empty() {
        sink.say_whole("the file names no device", "describe at least one in a [[stage]], [[camera]] or [[output]]");
    }
    let keep_outs = keep_outs::read(sink, &mut root, &axes);
    let rules = rules::read(sink, &mut root);
    let budget = budget::read(sink, &mut root, &axes, &outputs);

    let head = root.need(sink, "rig", "begin the file with [rig] and name = \"my-rig\"");
    let mut name = None;
    let mut scan = None;
    if let Some(mut s) = head.and_then(|f: Field<'_>| f.section(sink, "[rig]".into())) {
        name = s.need(sink, "name", "name the rig: name = \"my-rig\"").and_then(|f| f.id(sink));
        scan = s.get("scan").and_then(|f| sections::scan(sink, &f, &axes));
        s.finish(sink, &[]);
    }
    let calls = sections::calls(sink, &mut root);
    let approvals = sections::approvals(sink, &mut root);
    let eaa_field = root.get("eaa");
    let images = sections::images(sink, &mut root, file, eaa_field.is_some());
    let log = sections::log(sink, &mut root);
    let eaa = eaa_field.and_then(|f| sections::eaa(sink, &f, &axes, &cameras));
    root.finish(sink, &FUTURE);

    let mut rig = Rig {
        name: name?,
        file: Some(file.to_owned()),
        scan,
        links: links.into_iter().map(|l| l.link).collect::<Option<_>>()?,
        keep_outs: keep_outs.into_iter().collect::<Option<_>>()?,
        cameras: cameras.into_iter().map(|c| c.camera).collect::<Option<_>>()?,
        stages: stages.into_iter().map(|s| s.stage).collect::<Option<_>>()?,
        outputs: outputs.into_iter().map(|o| o.output).collect::<Option<_>>()?,
        sensors: sensors.into_iter().map(|s| s.sensor).collect::<Option<_>>()?,
        rules: Vec::new(),
        budget: budget?,
        calls: calls?,
        approvals: approvals?,
        images: images?,
        log: log?,
        eaa,
    };
    // Rules speak of everything else, so they come last.
    rig.rules = rules::compile(sink, rules, &rig)?;
    Some(rig)
}
