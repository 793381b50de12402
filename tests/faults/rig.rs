//! The rigs and benches of the matrix: the peers' with a camera, and another controller of the kind beside the first.

use steadyhand::model::JobState;
use toml_edit::{DocumentMut, Item, value};

use crate::support::Lab;
use crate::support::peers::Peer;

const CAMERA: &str = "
[[link]]
id = \"camera-port\"
tcp = \"@CAM@\"
[[camera]]
id = \"cam\"
driver = \"simcam\"
link = \"camera-port\"
pixel_size_um = 0.65
axes = { right = \"+scope.x\", up = \"-scope.y\" }
";

/// The peer's rig file with a camera, whose x settles for 400 ms before a picture.
pub fn file(peer: &Peer, more: &str) -> String {
    let mut rig: DocumentMut = (peer.rig)().parse().expect("a rig file");
    rig["stage"][0]["axes"]["x"]["settle_ms"] = value(400);
    format!("{rig}{CAMERA}{more}")
}

/// The peer's bench with a small camera, limit switches that are obeyed, and with `two` a second controller `other`.
pub fn bench(peer: &Peer, two: bool) -> String {
    let mut bench: DocumentMut = (peer.bench)().parse().expect("a bench file");
    let kind = match peer.name {
        "grbl" => "controller",
        other => other,
    };
    if bench.get("camera").is_none() {
        let camera: DocumentMut = "[[camera]]\nid = \"cam\"\nprotocol = \"simcam-1\"\nsees = { x = \"scope.x\", y = \
                                   \"scope.y\", focus = \"scope.z\" }\n[camera.specimen]\ncentre = [25.0, 25.0]\n\
                                   focus_mm = 2.0\n"
            .parse()
            .expect("a camera");
        bench.insert("camera", camera["camera"].clone());
    }
    bench["camera"][0]["width"] = value(64);
    bench["camera"][0]["height"] = value(48);
    if kind == "controller" {
        bench["controller"][0]["settings"]["$21"] = value(1);
        // Near its switches, so that it homes soon.
        for (axis, at) in [("x", 60.0), ("y", 40.0), ("z", 3.5)] {
            bench["controller"][0]["axes"][axis]["start_mm"] = value(at);
        }
    }
    if let Some(devices) = bench[kind][0].get_mut("device").and_then(Item::as_array_of_tables_mut) {
        for axis in devices.iter_mut().flat_map(|d| d["axis"].as_array_of_tables_mut().expect("axes").iter_mut()) {
            axis["stage"]["start_mm"] = value(2.0);
        }
    }
    if !two {
        return bench.to_string();
    }
    // The same once more, under other names.
    let mut other = bench.clone();
    let rest: Vec<String> = other.iter().map(|(key, _)| key.to_owned()).filter(|key| key != kind).collect();
    for key in rest {
        other.remove(&key);
    }
    other[kind][0]["id"] = value("other");
    if let Some(devices) = other[kind][0].get_mut("device").and_then(Item::as_array_of_tables_mut) {
        for (i, device) in devices.iter_mut().enumerate() {
            device["serial"] = value(52_000 + i as i64);
        }
    }
    format!("{bench}\n{other}")
}

/// Steps of x that make a millimetre.
pub fn steps_per_mm(peer: &Peer) -> i64 {
    match peer.name {
        "grbl" => 400,
        "zaber" => 2016,
        _ => 10_000,
    }
}

/// Sends x to about 45 mm.
pub fn away(peer: &Peer) -> &'static [u8] {
    match peer.name {
        "grbl" => b"$J=G53X-30F1200\n",
        "zaber" => b"/1 1 move abs 90709\n",
        _ => b"M X=200000\r",
    }
}

/// What the job that runs is doing, in words.
pub fn doing(lab: &Lab) -> String {
    let state = lab.state();
    state.jobs.iter().find(|j| j.state == JobState::Running).map_or(String::new(), |j| j.doing.clone())
}
