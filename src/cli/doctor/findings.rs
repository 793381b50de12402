//! From facts to findings: what is wrong with a rig, and what a person does about it. Pure.

use std::path::Path;

use serde_json::{Value, json};

use super::super::host::Access;
use super::super::session::why_not;
use super::facts::{Host, PortFacts};
use crate::config::{Axis, Homing, Rig, Stage};
use crate::devices;
use crate::model::{AxisStatus, Code, Fault, LinkStatus, Name, Remedy, Snapshot, StageStatus, StopBy, Told, ToldAxis};
use crate::units::{Distance, Position, Span, plain};

/// Free space below which pictures and the audit log are in danger.
const LITTLE: u64 = 1 << 30;

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// All is well here.
    Good,
    /// Worth knowing; nothing to do.
    Note,
    /// It works, but not as it should.
    Warning,
    /// It doesn't work.
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Level::Good => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What it is about: a device, a link, a folder.
    pub(super) about: String,
    /// What was found.
    pub(super) what: String,
    /// What to do about it.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(level: Level, about: impl ToString, what: impl Into<String>) -> Finding {
        Finding { level, about: about.to_string(), what: what.into(), remedy: None }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Finding {
        self.remedy = Some(remedy.into());
        self
    }

    pub(super) fn as_json(&self) -> Value {
        json!({ "level": self.level.word(), "about": self.about, "what": self.what, "remedy": self.remedy })
    }
}

/// Everything that is found in the facts, device by device.
pub(super) fn all(rig: &Rig, state: &Snapshot, host: &Host) -> Vec<Finding> {
    let mut out = Vec::new();
    for stage in &rig.stages {
        let Some(status) = state.stage(stage.id.as_str()) else { continue };
        match &status.fault {
            Some(fault) if status.identity.is_none() || !status.link.open => {
                out.extend(unreachable(rig, host, &stage.id, Some(&stage.link), &stage.driver, fault, &status.link));
            }
            None if !status.link.open => {
                let what = why_not(status);
                let fault = Fault { code: Code::NotConnected, what, at: state.at, remedy: Remedy::Reconnect };
                out.extend(unreachable(rig, host, &stage.id, Some(&stage.link), &stage.driver, &fault, &status.link));
            }
            _ if status.identity.is_none() => {
                let what = format!("{} is open, but the device was not identified in time.", status.link.port);
                out.push(
                    Finding::new(Level::Problem, &stage.id, what)
                        .remedy("switch the controller off and on, wait until it has started, and run doctor again"),
                );
            }
            _ => out.extend(stage_found(stage, status)),
        }
    }
    for camera in &rig.cameras {
        let Some(status) = state.camera(camera.id.as_str()) else { continue };
        match &status.fault {
            Some(fault) => {
                out.extend(unreachable(
                    rig,
                    host,
                    &camera.id,
                    camera.link.as_ref(),
                    &camera.driver,
                    fault,
                    &status.link,
                ));
            }
            None if !status.ready => {
                let what = format!("{} did not get ready in time.", status.link.port);
                let remedy = "switch the camera off and on, and run doctor again";
                out.push(Finding::new(Level::Problem, &camera.id, what).remedy(remedy));
            }
            None => {
                let model = status.identity.as_ref().map_or_else(|| "a camera".into(), |i| i.model.clone());
                out.push(Finding::new(Level::Good, &camera.id, format!("{model} on {}", status.link.port)));
            }
        }
    }
    for (id, link, driver) in rig
        .outputs
        .iter()
        .filter_map(|o| Some((&o.id, o.link.as_ref()?, &o.driver)))
        .chain(rig.sensors.iter().map(|s| (&s.id, &s.link, &s.driver)))
    {
        let output = state.output(id.as_str()).map(|o| (&o.fault, o.ready, &o.identity, &o.link));
        let sensor = || state.sensor(id.as_str()).map(|s| (&s.fault, s.ready, &s.identity, &s.link));
        let Some((fault, ready, identity, line)) = output.or_else(sensor) else { continue };
        match fault {
            Some(fault) => out.extend(unreachable(rig, host, id, Some(link), driver, fault, line)),
            None if !ready => {
                let what = format!("{} did not get ready in time.", line.port);
                let remedy = "switch the device off and on, and run doctor again";
                out.push(Finding::new(Level::Problem, id, what).remedy(remedy));
            }
            None => {
                let model = identity.as_ref().map_or_else(|| "a device".into(), |i| i.model.clone());
                out.push(Finding::new(Level::Good, id, format!("{model} on {}", line.port)));
            }
        }
    }
    if !host.meddlers.is_empty() && !host.ports.is_empty() {
        let names: Vec<String> = host.meddlers.iter().map(ToString::to_string).collect();
        let trouble = out.iter().any(|f| f.level == Level::Problem);
        let level = if trouble { Level::Warning } else { Level::Note };
        let what = format!("{} runs: it opens serial ports that appear, and writes to them.", names.join(" and "));
        let remedy = "sudo systemctl disable --now ModemManager (brltty: sudo apt remove brltty), or a udev rule with \
                      ENV{ID_MM_DEVICE_IGNORE}=\"1\" for the adapter; then plug the device in again";
        out.push(Finding::new(level, "this machine", what).remedy(remedy));
    }
    out.extend(folders(host));
    out
}

/// A device that can't be reached: the likeliest cause first, and only that.
fn unreachable(
    rig: &Rig,
    host: &Host,
    device: &Name,
    link: Option<&Name>,
    driver: &str,
    fault: &Fault,
    line: &LinkStatus,
) -> Vec<Finding> {
    let problem = |what: String, remedy: String| vec![Finding::new(Level::Problem, device, what).remedy(remedy)];
    let Some(link) = link else {
        let remedy = "put PNG, TIFF or NPY files with single values into that folder, or correct `folder`";
        return problem(fault.what.clone(), remedy.into());
    };
    let Some(port) = host.port(link) else {
        return problem(fault.what.clone(), "check that it is switched on and on the network, and its address".into());
    };
    if fault.code == Code::NotResponding {
        return silent(rig, port, device, driver, line);
    }
    let named = || port.path.clone().unwrap_or_else(|| line.port.clone());
    match (&port.path, &port.access) {
        (None, _) => problem(fault.what.clone(), other_ports(host)),
        (Some(path), Access::Missing) => problem(format!("{path} is not there."), other_ports(host)),
        (Some(path), Access::Denied { group }) => {
            let remedy = match group.as_deref() {
                Some("root") | None => format!("let this user open it, with a udev rule or as root: chmod a+rw {path}"),
                Some(group) => format!("sudo usermod -aG {group} $USER, then log out and in again"),
            };
            problem(format!("This user may not open {path}."), remedy)
        }
        (Some(path), Access::Granted) if !port.users.processes.is_empty() => {
            let ours = port.users.processes.iter().any(|p| p.name == "steadyhand");
            let remedy = if ours {
                "a server runs on this rig: it diagnoses it itself (tool `diagnose`); else end it and run doctor again"
            } else {
                "close that program, and run doctor again"
            };
            problem(format!("{path} is in use by {}.", port.users), remedy.into())
        }
        // What a change of settings has left says itself what to do.
        _ if fault.what.contains("steadyhand flash") => {
            problem(format!("{}: {}", named(), fault.what), "run that command at the controller's desk".into())
        }
        _ => problem(format!("{}: {}", named(), fault.what), "close other programs that use the port".into()),
    }
}

/// A port that is open, and nobody who answers.
fn silent(rig: &Rig, port: &PortFacts, device: &Name, driver: &str, line: &LinkStatus) -> Vec<Finding> {
    let baud = rig.link(port.link.as_str()).map_or(0, |l| l.baud);
    let path = &line.port;
    let finding = match (line.bad_frames, line.frames) {
        (1.., 0) => {
            let what = format!(
                "{path} is open, but what comes from it at {baud} baud is garbage: {} damaged lines. That is what a \
                 wrong rate looks like.",
                line.bad_frames
            );
            let remedy = match port.readable_at {
                Some(rate) => format!("text was heard at {rate} baud: write baud = {rate} in [[link]] {}", port.link),
                None => {
                    "find the device's rate in its manual and write it as `baud`; 115200, 9600, 57600 and 250000 are \
                         usual. At no other rate did it say anything by itself"
                        .into()
                }
            };
            Finding::new(Level::Problem, device, what).remedy(remedy)
        }
        (_, 1..) => {
            let what = format!("{path} is open and something there speaks, but not like {driver}: a wrong device?");
            Finding::new(Level::Problem, device, what)
                .remedy("check in `steadyhand ports` which port the device is on, and the rig file's `driver`")
        }
        _ => {
            let what = format!("{path} is open at {baud} baud, but nothing there answers like {driver}.");
            Finding::new(Level::Problem, device, what).remedy(
                "check that the controller has power (USB alone often feeds only the adapter), that this is its port \
                 (`steadyhand ports`), and `baud`",
            )
        }
    };
    vec![finding]
}

fn other_ports(host: &Host) -> String {
    if host.present.is_empty() {
        return "no serial port is there at all: plug the device in, switch it on, try another cable".into();
    }
    let paths: Vec<&str> = host.present.iter().map(|p| p.path.as_str()).collect();
    format!("plug it in and switch it on, or name one of those that are there: {}", paths.join(", "))
}

/// A stage that answers.
fn stage_found(stage: &Stage, status: &StageStatus) -> Vec<Finding> {
    let mut out = Vec::new();
    let identity = status.identity.clone().unwrap_or_default();
    let who = format!("{} {} on {}", identity.model, identity.firmware, status.link.port);
    out.push(Finding::new(Level::Good, &stage.id, who.trim().to_owned()));
    if devices::driver(&stage.driver).is_some_and(|d| d.simulated) {
        out.push(Finding::new(Level::Note, &stage.id, "This device is a simulation."));
    }
    if status.stopped_by == Some(StopBy::Person) {
        let finding = Finding::new(Level::Warning, &stage.id, "A person has stopped it, and that still holds.");
        out.push(finding.remedy("when it is safe, release it: steadyhand resume"));
    }
    if let Some(fault) = &status.fault {
        let locked = fault.code == Code::Alarm;
        let level = if locked && matches!(stage.home, Homing::Cycle { .. }) { Level::Note } else { Level::Warning };
        let remedy = if locked { "home it; that unlocks it" } else { "find the cause, then call clear_fault" };
        out.push(Finding::new(level, &stage.id, fault.what.clone()).remedy(remedy));
    }
    if status.link.degraded || status.link.bad_frames > 0 {
        let what = format!("{} damaged lines came in.", status.link.bad_frames);
        let remedy = "use a shorter, shielded cable, keep it away from motor leads, and check `baud`";
        out.push(Finding::new(Level::Warning, &stage.id, what).remedy(remedy));
    }
    let lost = |a: &AxisStatus| stage.axis(a.axis.as_str()).is_some_and(|c| a.trust < c.trust);
    if status.axes.iter().any(lost) && status.fault.is_none() {
        let what = match &stage.home {
            Homing::Cycle { .. } => "Its position is not trusted yet: it is homed before anything else moves.",
            Homing::Never => "Its position is not trusted yet: a person declares it before anything moves.",
        };
        out.push(Finding::new(Level::Note, &stage.id, what));
    }
    let told = status.told.as_deref().cloned().unwrap_or_default();
    out.extend(settings(stage, &told));
    let hard_limits = told.hard_limits == Some(true);
    for (axis, told) in stage.axes.iter().zip(&told.axes) {
        out.extend(axis_found(axis, told));
        if hard_limits {
            out.extend(at_switch(axis, told));
        }
    }
    for axis in status.axes.iter().filter(|a| a.position.is_none()) {
        let id = format!("{}.{}", stage.id, axis.axis);
        let finding = Finding::new(Level::Problem, id, "The controller reports no position for this axis.");
        out.push(finding.remedy("check its `channel`: does this controller have such an axis?"));
    }
    for axis in status.axes.iter().filter(|a| a.at_limit) {
        let id = format!("{}.{}", stage.id, axis.axis);
        let finding = Finding::new(Level::Warning, id, "Its limit switch is pressed.");
        out.push(finding.remedy("home the stage, or move the axis off by hand; a switch wired wrongly looks the same"));
    }
    out
}

/// The controller's own settings against what the rig file expects.
fn settings(stage: &Stage, told: &Told) -> Vec<Finding> {
    let mut out = Vec::new();
    if told.homes == Some(false) && matches!(stage.home, Homing::Cycle { .. }) {
        let what = "The rig file gives a homing order, but the controller's homing cycle is off ($22=0): it can't be \
                    homed, and so nothing moves.";
        let remedy = "with switches fitted, switch it on with the controller's own software: $22=1; without, write \
                      home = \"never\" and let a person declare positions";
        out.push(Finding::new(Level::Problem, &stage.id, what).remedy(remedy));
    }
    if !told.homes_also.is_empty() && matches!(stage.home, Homing::Cycle { .. }) {
        let what = format!(
            "Its homing ($H) moves all axes that the controller homes: {}, too, which the rig file does not have and \
             so does not judge.",
            told.homes_also.join(", ")
        );
        let remedy = "keep their way free when it homes, or describe them in the rig file, too";
        out.push(Finding::new(Level::Note, &stage.id, what).remedy(remedy));
    }
    if told.powered_at_rest == Some(false) {
        for axis in stage.axes.iter().filter(|a| !a.holds_unpowered) {
            let what = "It does not hold without power, but the controller switches its motors off when they rest \
                        ($1 is not 255): it can sink or turn.";
            let remedy = "set $1=255 with the controller's own software, or fit a brake";
            out.push(Finding::new(Level::Warning, &axis.id, what).remedy(remedy));
        }
    }
    out
}

/// An axis of the rig file against what the controller says of it.
fn axis_found(axis: &Axis, told: &ToldAxis) -> Vec<Finding> {
    let mut out = Vec::new();
    let unit = axis.unit;
    if let Some(own) = told.max_speed.filter(|own| *own < axis.max_speed) {
        let (own, file) = (plain(own.to(unit)), plain(axis.max_speed.to(unit)));
        let what = format!("The controller goes at most {own} {unit}/s; the rig file allows {file}.");
        out.push(Finding::new(Level::Warning, &axis.id, what).remedy(format!("write max_speed_per_s = {own}")));
    }
    if let Some(step) = told.step.filter(|s| axis.tolerance.in_base() < s.in_base() / 2.0) {
        let (step, tolerance) = (step.to(unit), plain(axis.tolerance.to(unit)));
        let what = format!(
            "The tolerance, {tolerance} {unit}, is less than half of the controller's step, {} {unit}: moves will miss it.",
            plain(step)
        );
        out.push(
            Finding::new(Level::Warning, &axis.id, what).remedy(format!("write tolerance = {}", plain(2.0 * step))),
        );
    }
    if let Some(reach) = reach(axis, told)
        && !(reach.contains(axis.travel.low) && reach.contains(axis.travel.high))
    {
        let show = |s: Span| format!("[{}, {}]", plain(s.low.to(unit)), plain(s.high.to(unit)));
        let what = format!(
            "The rig file's travel, {} {unit}, goes further than the controller lets itself be moved, {} {unit}.",
            show(axis.travel),
            show(reach)
        );
        let remedy = format!("check `origin` and `sign`, or write travel = {}", show(reach));
        out.push(Finding::new(Level::Warning, &axis.id, what).remedy(remedy));
    }
    out
}

/// A travel that reaches to the home switch of a controller on which a switch is an alarm. Of the pull-off half is left
/// out, as `init` leaves it.
fn at_switch(axis: &Axis, told: &ToldAxis) -> Option<Finding> {
    let ([low, high], home) = (told.range?, told.home?);
    let end = if high - home < home - low { high } else { low };
    let (switch, safe) = (axis.to_rig(end)?, axis.to_rig((home + end) / 2.0)?);
    let upper = switch >= safe;
    let (at, beyond) =
        if upper { (axis.travel.high, axis.travel.high > safe) } else { (axis.travel.low, axis.travel.low < safe) };
    if !beyond {
        return None;
    }
    let unit = axis.unit;
    let show = |p: Position| plain(p.to(unit));
    let what = format!(
        "Its travel ends at {} {unit}, and its home switch is at {} {unit}: the controller stops with an alarm on a \
         switch ($21=1), and homing pulls off by {} {unit} ($27).",
        show(at),
        show(switch),
        plain(Distance::base((home - end).abs()).ok()?.to(unit))
    );
    let travel = if upper { Span::between(axis.travel.low, safe) } else { Span::between(safe, axis.travel.high) };
    let remedy = format!("stay off the switch: write travel = [{}, {}]", show(travel.low), show(travel.high));
    Some(Finding::new(Level::Warning, &axis.id, what).remedy(remedy))
}

/// Where the controller lets the axis be moved, in rig coordinates.
pub(super) fn reach(axis: &Axis, told: &ToldAxis) -> Option<Span> {
    let [low, high] = told.range?;
    Some(Span::between(axis.to_rig(low)?, axis.to_rig(high)?))
}

fn folders(host: &Host) -> Vec<Finding> {
    let mut out = Vec::new();
    match &host.data {
        Some(Ok(folder)) => out.push(Finding::new(Level::Good, "data folder", folder.display().to_string())),
        Some(Err(error)) => out.push(
            Finding::new(Level::Problem, "data folder", error.clone())
                .remedy("without an audit log nothing moves: name another folder with --data-dir, here and for serve"),
        ),
        None => {}
    }
    for (name, free) in [("data folder", host.free[0]), ("pictures", host.free[1])] {
        if let Some(free) = free.filter(|f| *f < LITTLE) {
            let what = format!("Only {} MiB are free on its disk.", free >> 20);
            out.push(Finding::new(Level::Warning, name, what).remedy("free space, or name another folder"));
        }
    }
    if let Some(images) = &host.images {
        out.push(Finding::new(Level::Good, "pictures", images.display().to_string()));
    }
    out
}

/// The findings for a terminal.
pub(super) fn as_text(rig: &Rig, path: &Path, found: &[Finding]) -> String {
    let mut lines = vec![format!("{}: the rig \"{}\"", path.display(), rig.name)];
    for f in found {
        lines.push(format!("  {:<8} {}: {}", f.level.word(), f.about, f.what));
        if let Some(remedy) = &f.remedy {
            lines.push(format!("           do: {remedy}"));
        }
    }
    let count = |level: Level| found.iter().filter(|f| f.level == level).count();
    lines.push(match (count(Level::Problem), count(Level::Warning)) {
        (0, 0) => "All is well. Nothing was moved.".into(),
        (p, w) => format!("{}, {}. Nothing was moved.", counted(p, "problem"), counted(w, "warning")),
    });
    lines.join("\n")
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

#[cfg(test)]
pub(super) mod tests;
