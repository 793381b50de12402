//! The faults of the matrix: what goes wrong, when that makes sense, how it ends, and what a person mends.

use std::sync::atomic::Ordering;

use hw_sim::Fault;
use steadyhand::model::StopBy;

use crate::cell::Cell;
use crate::cell::Phase::{self, Closing, Exposing, Homing, Identify, Idle, Moving, Settling};

/// Whether the position and the answers can be held against the true carriage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    /// Nothing moves but by our orders, and the controller counts it.
    Ours,
    /// Something else moves it, and the controller counts that.
    Elsewhere,
    /// The controller can't see it: it counts pulses.
    Unseen,
    /// The same while it homes: a false reference.
    UnseenHome,
}

/// What is done to the bench and the program of a cell.
pub type Deed = fn(&mut Cell);

/// A fault.
pub struct Row {
    pub name: &'static str,
    pub phases: &'static [Phase],
    /// The protocols over which it can happen.
    pub peers: &'static [&'static str],
    pub begin: Deed,
    /// After so many milliseconds it ends by itself.
    pub ends: Option<(u64, Deed)>,
    /// What a person mends before going on.
    pub mend: Deed,
    pub truth: Truth,
    /// It is about the camera: at rest a picture is asked for.
    pub camera: bool,
    /// What else the rig file says.
    pub more: &'static str,
    /// It takes a second controller.
    pub two: bool,
}

const ALL: &[&str] = &["grbl", "zaber", "asi"];
const EVER: &[Phase] = &[Identify, Idle, Homing, Moving, Settling, Exposing, Closing];
const KNOWN: &[Phase] = &[Idle, Homing, Moving, Settling, Exposing, Closing];
const SHOTS: &[Phase] = &[Idle, Settling, Exposing];

const ROW: Row = Row {
    name: "",
    phases: EVER,
    peers: ALL,
    begin: |_| {},
    ends: None,
    mend: |_| {},
    truth: Truth::Ours,
    camera: false,
    more: "",
    two: false,
};

const SHOT: Row = Row { phases: SHOTS, camera: true, ..ROW };

pub const ROWS: &[Row] = &[
    // ---- the cable --------------------------------------------------------------------------------------------
    Row {
        name: "cable out, back after 3 s",
        begin: |c| c.fault(Fault::Unplug),
        ends: Some((3000, |c| c.fault(Fault::Plug))),
        ..ROW
    },
    Row {
        name: "cable out for 5 ms",
        begin: |c| c.fault(Fault::Unplug),
        ends: Some((5, |c| c.fault(Fault::Plug))),
        ..ROW
    },
    Row {
        name: "cable put into another controller of the kind; later back",
        begin: |c| c.swap("other"),
        mend: |c| c.swap("scope"),
        two: true,
        ..ROW
    },
    Row {
        name: "the line takes no bytes for 3 s",
        begin: |c| c.lab.bound("scope", Some(0)),
        ends: Some((3000, |c| c.lab.bound("scope", None))),
        ..ROW
    },
    Row { name: "noise and false answers on the line", begin: Cell::noise, ..ROW },
    Row { name: "12 bytes of its answers damaged", begin: |c| c.fault(Fault::Garble { bytes: 12 }), ..ROW },
    Row {
        name: "3 bytes to it lost",
        begin: |c| c.fault(Fault::Drop { bytes: 3 }),
        mend: |c| c.fault(Fault::Drop { bytes: 0 }),
        ..ROW
    },
    // ---- the controller ---------------------------------------------------------------------------------------
    Row { name: "controller restarts", begin: |c| c.fault(Fault::Reset), ..ROW },
    Row {
        name: "controller deaf and silent for 4 s",
        begin: |c| c.fault(Fault::Silence { on: true }),
        ends: Some((4000, |c| c.fault(Fault::Silence { on: false }))),
        ..ROW
    },
    Row {
        name: "its answers are lost for 4 s",
        begin: |c| c.fault(Fault::Mute { on: true }),
        ends: Some((4000, |c| c.fault(Fault::Mute { on: false }))),
        ..ROW
    },
    Row {
        name: "controller hangs for 2 s",
        begin: |c| c.fault(Fault::Freeze { on: true }),
        ends: Some((2000, |c| c.fault(Fault::Freeze { on: false }))),
        ..ROW
    },
    Row {
        name: "answers 300 ms late for 4 s",
        begin: |c| c.fault(Fault::Delay { ms: 300 }),
        ends: Some((4000, |c| c.fault(Fault::Delay { ms: 0 }))),
        ..ROW
    },
    Row { name: "one answer 0.9 s late", begin: |c| c.fault(Fault::Late { ms: 900 }), ..ROW },
    // ---- the stage --------------------------------------------------------------------------------------------
    Row {
        name: "limit switch pressed (alarm)",
        phases: &[Identify, Idle, Moving, Settling, Exposing, Closing],
        peers: &["grbl"],
        begin: |c| c.press(true),
        mend: |c| c.press(false),
        ..ROW
    },
    Row {
        name: "limit switch held down",
        phases: &[Homing],
        peers: &["grbl", "zaber"],
        begin: |c| c.press(true),
        mend: |c| c.press(false),
        truth: Truth::UnseenHome,
        ..ROW
    },
    Row {
        name: "limit switch broken",
        phases: &[Homing],
        peers: &["grbl", "zaber"],
        begin: |c| c.fault(Fault::SwitchDead { axis: "x".into(), on: true }),
        mend: |c| c.fault(Fault::SwitchDead { axis: "x".into(), on: false }),
        truth: Truth::UnseenHome,
        ..ROW
    },
    Row {
        name: "carriage jammed",
        phases: &[Idle, Homing, Moving, Closing],
        begin: |c| c.fault(Fault::Jam { axis: "x".into() }),
        mend: |c| c.fault(Fault::Unjam { axis: "x".into() }),
        truth: Truth::Unseen,
        ..ROW
    },
    Row {
        name: "motor loses 1 mm of steps",
        phases: &[Idle, Moving, Settling, Exposing],
        begin: Cell::lose_steps,
        truth: Truth::Unseen,
        ..ROW
    },
    Row {
        name: "carriage pushed by 2 mm",
        phases: &[Idle, Moving, Settling, Exposing],
        begin: |c| c.fault(Fault::Nudge { axis: "x".into(), mm: 2.0 }),
        truth: Truth::Unseen,
        ..ROW
    },
    Row {
        name: "drive at a tenth of its speed",
        phases: &[Idle, Homing, Moving, Closing],
        begin: |c| c.fault(Fault::Slow { factor: 0.1 }),
        mend: |c| c.fault(Fault::Slow { factor: 1.0 }),
        ..ROW
    },
    Row {
        name: "a hand turns the knob",
        phases: &[Idle, Moving, Settling, Exposing, Closing],
        peers: &["zaber"],
        begin: |c| c.fault(Fault::Knob { axis: "x".into(), mm: 4.0 }),
        truth: Truth::Elsewhere,
        ..ROW
    },
    Row {
        name: "runs elsewhere: ordered by another program",
        phases: &[Idle, Moving, Settling, Exposing, Closing],
        begin: Cell::run_away,
        truth: Truth::Elsewhere,
        ..ROW
    },
    // ---- the camera -------------------------------------------------------------------------------------------
    Row {
        name: "camera silent for 4 s",
        begin: |c| c.camera(Fault::Silence { on: true }),
        ends: Some((4000, |c| c.camera(Fault::Silence { on: false }))),
        ..SHOT
    },
    Row {
        name: "camera's cable out, back after 3 s",
        begin: |c| c.camera(Fault::Unplug),
        ends: Some((3000, |c| c.camera(Fault::Plug))),
        ..SHOT
    },
    Row { name: "camera restarts", begin: |c| c.camera(Fault::Reset), ..SHOT },
    Row { name: "frame lost", begin: |c| c.camera(Fault::DropFrames { frames: 1 }), ..SHOT },
    Row { name: "frame too short", begin: |c| c.camera(Fault::TruncateFrame { bytes: 100 }), ..SHOT },
    Row { name: "frame damaged", begin: |c| c.camera(Fault::Garble { bytes: 900 }), ..SHOT },
    Row {
        name: "camera 0.9 s late",
        begin: |c| c.camera(Fault::Delay { ms: 900 }),
        ends: Some((4000, |c| c.camera(Fault::Delay { ms: 0 }))),
        ..SHOT
    },
    // ---- the program and its callers --------------------------------------------------------------------------
    Row {
        name: "audit log can't be written (disk full)",
        begin: |c| c.lab.log.broken.store(true, Ordering::Relaxed),
        mend: |c| c.lab.log.broken.store(false, Ordering::Relaxed),
        ..ROW
    },
    Row {
        name: "client gone",
        phases: &[Identify, Homing, Moving, Settling, Exposing, Closing],
        begin: Cell::lose_client,
        ..ROW
    },
    Row {
        name: "next command's deadline passes",
        phases: &[Homing, Moving, Settling, Exposing],
        begin: |c| c.order_move("next", 30.0),
        more: "[calls]\nqueue_deadline_s = 0.2\n",
        ..ROW
    },
    Row { name: "stop by a tool", begin: |c| c.lab.handle.stop(None, StopBy::Model), ..ROW },
    Row { name: "stop by a person", begin: |c| c.lab.handle.stop(None, StopBy::Person), ..ROW },
    Row { name: "driver fails (panic)", begin: |c| c.fragile.store(true, Ordering::Relaxed), ..ROW },
    Row {
        name: "controller forgets its settings and restarts",
        phases: KNOWN,
        peers: &["grbl"],
        begin: Cell::forget_settings,
        mend: Cell::restore_settings,
        ..ROW
    },
];
