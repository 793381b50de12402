//! Random rigs of a protocol: other signs, origins, travels and approaches, with keep-outs and deadlines.

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use crate::support::peers::Peer;
use crate::support::random::Random;

pub const AXES: [&str; 3] = ["x", "y", "z"];
/// A box that keeps out: where it lies on each axis in mm of the rig, unbounded where nothing is said.
pub type Box3 = [(f64, f64); 3];
const UNBOUNDED: (f64, f64) = (-1e9, 1e9);

/// Rig coordinates of an axis: `sign × the carriage's place in the bench + shift`, in mm.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    sign: f64,
    shift: f64,
    pub travel: (f64, f64),
}

impl Frame {
    pub fn rig(&self, bench_mm: f64) -> f64 {
        self.sign * bench_mm + self.shift
    }

    /// The place at that share of the travel.
    pub fn at(&self, share: f64) -> f64 {
        self.travel.0 + share * (self.travel.1 - self.travel.0)
    }
}

pub struct RandomRig {
    pub text: String,
    pub frames: [Frame; 3],
    pub boxes: Vec<Box3>,
    /// At most this far in one move, in mm of z.
    pub step: Option<f64>,
}

/// What a controller's axes can do at most, whatever they are told: mm/s and mm/s². From the benches' settings: GRBL's
/// $110 and $120, Zaber's maxspeed and accelonly, ASI's S and AC.
pub fn fastest(peer: &Peer) -> [(f64, f64); 3] {
    match peer.name {
        "grbl" => [(20.0, 200.0), (20.0, 200.0), (2.0, 20.0)],
        "zaber" => [(25.0, 620.0), (25.0, 620.0), (10.0, 238.0)],
        _ => [(25.0, 500.0), (25.0, 500.0), (5.0, 100.0)],
    }
}

fn number(item: &Item) -> f64 {
    item.as_float().expect("a number")
}

/// The peer's rig with other signs, origins, travels and approaches, and with boxes.
pub fn random_rig(peer: &Peer, random: &mut Random) -> RandomRig {
    let mut rig: DocumentMut = (peer.rig)().parse().expect("a rig file");
    // Their boxes are in the peer's own coordinates.
    rig.remove("keep_out");
    // Whether positions that came back over a restart are enough to move on.
    let lenient = peer.homes && random.chance(60);
    let frames = AXES.map(|name| {
        let axis = &mut rig["stage"][0]["axes"][name];
        let per_mm = if name == "z" { 1000.0 } else { 1.0 };
        let sign = if random.chance(50) { 1.0 } else { -1.0 };
        // Whole micrometres, so that a file says them exactly.
        let shift = (random.between(-30.0, 30.0) * 1000.0).round() / 1000.0;
        // The peers' x is told longer than the stage is; against its hard end a motor stalls, and no counter sees it.
        let shorter = if name == "x" { [0.0, 5.0] } else { [0.0, 0.0] };
        let end = |i: usize| axis["travel"].as_array().and_then(|t| t.get(i)?.as_float()).expect("an end") / per_mm;
        let ends = [0, 1].map(|i| sign * (end(i) - shorter[i]) + shift);
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        axis["sign"] = value(sign as i64 * axis["sign"].as_integer().expect("a sign"));
        axis["origin"] = value(sign * number(&axis["origin"]) + shift * per_mm);
        axis["travel"] = value(Array::from_iter([low * per_mm, high * per_mm]));
        if lenient {
            axis["trust"] = value("restored");
        }
        if random.chance(30) {
            axis["approach"] = value(if random.chance(50) { "+" } else { "-" });
            axis["approach_by"] = value(0.05 * per_mm);
        }
        Frame { sign, shift, travel: (low, high) }
    });
    let boxes = random_boxes(&mut rig, &frames, random);
    // Homing waits for a person.
    if peer.homes && random.chance(15) {
        rig["stage"][0]["home"]["ask"] = value("operator");
    }
    let step = random.chance(20).then(|| random.between(0.5, 2.0));
    if let Some(step) = step {
        let mut steps = InlineTable::new();
        steps.insert("scope.z", (step * 1000.0).into());
        rig["budget"] = Item::Table(Table::from_iter([("max_step", value(steps))]));
    }
    let queue = (random.between(0.2, 4.0) * 1000.0).round() / 1000.0;
    rig["calls"] = Item::Table(Table::from_iter([("queue_deadline_s", value(queue))]));
    RandomRig { text: rig.to_string(), frames, boxes, step }
}

/// Boxes that stand at an end of y or z and leave its middle free, so that there is a way round each.
fn random_boxes(rig: &mut DocumentMut, frames: &[Frame; 3], random: &mut Random) -> Vec<Box3> {
    let mut boxes = Vec::new();
    let mut written = ArrayOfTables::new();
    for n in 0..random.below(4) {
        let mut sides = [UNBOUNDED; 3];
        let mut side = |axis: usize, low: f64, high: f64| {
            let round = |v: f64| (v * 1000.0).round() / 1000.0;
            sides[axis] = (round(frames[axis].at(low)), round(frames[axis].at(high)));
        };
        let from = random.between(0.05, 0.7);
        side(0, from, from + random.between(0.08, 0.25));
        let ends = if random.chance(50) { (0.0, random.between(0.1, 0.42)) } else { (random.between(0.58, 0.9), 1.0) };
        side(if random.chance(70) { 1 } else { 2 }, ends.0, ends.1);
        let mut shape = InlineTable::new();
        for (i, axis) in AXES.iter().enumerate().filter(|(i, _)| sides[*i] != UNBOUNDED) {
            let per_mm = if *axis == "z" { 1000.0 } else { 1.0 };
            let span = Array::from_iter([sides[i].0 * per_mm, sides[i].1 * per_mm]);
            shape.insert(format!("scope.{axis}"), span.into());
        }
        let mut keep_out = Table::new();
        keep_out["name"] = value(format!("box {n}"));
        keep_out["boxes"] = value(Array::from_iter([shape]));
        keep_out["margin_um"] = value(if random.chance(50) { 100.0 } else { 0.0 });
        written.push(keep_out);
        boxes.push(sides);
    }
    if !written.is_empty() {
        rig.insert("keep_out", Item::ArrayOfTables(written));
    }
    boxes
}
