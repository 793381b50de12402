//! What all devices have in common: a name, a driver and a link, of their own or shared by drivers of one family.

use std::ops::Range;

use super::links::LinkDraft;
use super::problem::{Sink, quoted};
use super::reader::{Field, Section, choice};
use super::{Kind, KnownDriver, KnownDrivers};
use crate::model::Name;

/// The common part of a device as far as it could be read.
pub(super) struct DeviceDraft {
    pub(super) id: Option<Name>,
    pub(super) id_at: Range<usize>,
    pub(super) driver: Option<&'static KnownDriver>,
    /// The link's name and where the file says it.
    pub(super) link: Option<(Name, Range<usize>)>,
}

/// Reads id, driver and link of a device of that kind.
pub(super) fn device(sink: &mut Sink<'_>, s: &mut Section<'_>, drivers: &KnownDrivers, kind: Kind) -> DeviceDraft {
    let id_field = s.need(sink, "id", "name the device: id = \"sample\"");
    let id_at = id_field.as_ref().map_or_else(|| s.span(), Field::span);
    let id = id_field.and_then(|f| f.id(sink));
    let known = || drivers.names(kind);
    let missing = format!("name its driver: {}", known().map(|d| format!("{d:?}")).collect::<Vec<_>>().join(", "));
    let driver = s.need(sink, "driver", &missing).and_then(|f| {
        let text = f.string(sink)?;
        let what = match drivers.get(text) {
            Some(driver) if driver.kind == kind => return Some(driver),
            Some(_) => "is the driver of another kind of device",
            None => "is no known driver",
        };
        f.bad(sink, format!("{} {what}", quoted(text)), choice(text, known()))
    });
    let link = if let Some(driver) = driver.filter(|d| d.is_without_link()) {
        if let Some(f) = s.get("link") {
            let why = if driver.by_hand { "where a person does it by hand" } else { "where a folder is played" };
            sink.say(f.span(), format!("`link` has no meaning {why}"), "remove it");
        }
        None
    } else {
        let remedy = "name its connection: link = \"…\", the id of a [[link]]";
        // An output may be one that a person changes by hand, a camera one that plays a folder.
        let field = match kind {
            Kind::Output | Kind::Camera => s.need_here(sink, "link", remedy),
            Kind::Stage | Kind::Sensor => s.need(sink, "link", remedy),
        };
        field.and_then(|f| f.id(sink).map(|name| (name, f.span())))
    };
    DeviceDraft { id, id_at, driver, link }
}

/// Why a device can't be on a link together with those that were named before, and what to do.
fn cannot_share(
    sink: &Sink<'_>,
    device: &DeviceDraft,
    on_link: &[&DeviceDraft],
    link: &Name,
) -> Option<(String, String)> {
    let first = on_link.first()?;
    let line = first.link.as_ref().map(|(_, at)| sink.line(at))?;
    let (driver, other) = (device.driver?, first.driver?);
    if driver.family.is_none() || driver.family != other.family {
        let message =
            format!("driver {} cannot share its link: {:?} is used on line {line} already", driver.name, link.as_str());
        return Some((message, "give each device a [[link]] of its own".into()));
    }
    let stages = on_link.iter().filter(|d| d.driver.is_some_and(|d| d.kind == Kind::Stage)).count();
    if driver.kind == Kind::Stage && stages >= driver.stages_per_link {
        let message = format!(
            "a link of driver {} has at most {} [[stage]]: {:?} is used on line {line} already",
            driver.name,
            driver.stages_per_link,
            link.as_str()
        );
        return Some((message, "put all its axes into that one stage, or give this one a [[link]] of its own".into()));
    }
    None
}

/// Checks names and links across all devices.
pub(super) fn check(sink: &mut Sink<'_>, devices: &[&DeviceDraft], links: &[LinkDraft]) {
    // Whose link can't be had may be the one that should use a link that nobody uses.
    let mut astray = devices.iter().any(|d| d.link.is_none() && !d.driver.is_some_and(KnownDriver::is_without_link));
    for (i, device) in devices.iter().enumerate() {
        let earlier = &devices[..i];
        if let Some(id) = &device.id
            && let Some(first) = earlier.iter().find(|d| d.id.as_ref() == Some(id))
        {
            let line = sink.line(&first.id_at);
            let message = format!("there is a device {:?} on line {line} already", id.as_str());
            sink.say(device.id_at.clone(), message, "give each device a name of its own");
        }
        let Some((link, at)) = &device.link else { continue };
        if !links.iter().any(|l| l.id.as_ref() == Some(link)) {
            astray = true;
            if links.iter().all(|l| l.id.is_some()) {
                let names: Vec<&str> = links.iter().filter_map(|l| l.id.as_ref()).map(Name::as_str).collect();
                let remedy = match names.as_slice() {
                    [] => format!("add a section [[link]] with id = {:?}", link.as_str()),
                    some => choice(link.as_str(), some.iter().copied()),
                };
                sink.say(at.clone(), format!("there is no link {:?}", link.as_str()), remedy);
            }
            continue;
        }
        let on_link = earlier.iter().filter(|d| d.link.as_ref().is_some_and(|(l, _)| l == link));
        let on_link: Vec<&DeviceDraft> = on_link.copied().collect();
        if let Some((message, remedy)) = cannot_share(sink, device, &on_link, link) {
            sink.say(at.clone(), message, &remedy);
            astray = true;
        }
    }
    if astray {
        return;
    }
    for link in links {
        if let Some(id) = &link.id
            && !devices.iter().any(|d| d.link.as_ref().is_some_and(|(l, _)| l == id))
        {
            let message = format!("no device uses the link {:?}", id.as_str());
            sink.say(link.id_at.clone(), message, "name it in a device's `link`, or remove it");
        }
    }
}
