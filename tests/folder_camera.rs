//! A camera that plays a folder, through the program: what is in the files is what a client gets, and what can't be played
//! is told.
#![allow(clippy::disallowed_methods, reason = "another process reads files in real time here")]

mod process;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use process::{Server, steadyhand};
use serde_json::{Value, json};

/// A TIFF of one strip of 16-bit values, little-endian.
fn tiff(width: u32, height: u32, values: &[u16]) -> Vec<u8> {
    let pixels: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let entries: [(u16, u32); 9] = [
        (256, width),
        (257, height),
        (258, 16),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, height),
        (279, u32::try_from(pixels.len()).expect("small")),
    ];
    let mut bytes = b"II*\0".to_vec();
    bytes.extend((8 + u32::try_from(pixels.len()).expect("small")).to_le_bytes());
    bytes.extend(pixels);
    bytes.extend(9_u16.to_le_bytes());
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4_u16.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(0_u32.to_le_bytes());
    bytes
}

fn served(folder: &Path) -> Server {
    let rig =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("rigs/folder-camera.toml")).expect("the rig");
    fs::write(folder.join("rig.toml"), rig).expect("written");
    Server::start(steadyhand(folder).args(["--data-dir", "data"]), folder)
}

fn taken(server: &mut Server) -> Value {
    server.call("acquire_image", json!({}))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn pictures_of_a_folder_are_taken_one_after_the_other() {
    let folder = tempfile::tempdir().expect("folder");
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).expect("a folder");
    fs::write(pictures.join("1.tif"), tiff(4, 2, &[0, 1, 2, 3, 4, 5, 6, 60_000])).expect("written");
    fs::write(pictures.join("2.tif"), tiff(2, 2, &[10, 20, 30, 40])).expect("written");
    fs::write(pictures.join("3.tif"), &tiff(2, 2, &[1, 2, 3, 4])[..20]).expect("written");
    let mut server = served(folder.path());
    let mut first = Value::Null;
    until("the camera is there", || {
        first = taken(&mut server);
        first["isError"] != true
    });
    let facts = &first["structuredContent"];
    assert_eq!(facts["stats"]["max"], 60_000, "{facts:#}");
    assert_eq!(facts["shape"], json!([2, 4]), "{facts:#}");
    assert_eq!(facts["simulated"], true, "no camera has taken it: {facts:#}");
    assert!(Path::new(facts["img_path"].as_str().expect("a path")).is_file());
    let second = taken(&mut server);
    assert_eq!(second["structuredContent"]["stats"]["mean"], 25, "{second:#}");
    let third = taken(&mut server);
    assert_eq!((&third["isError"], &third["structuredContent"]["code"]), (&json!(true), &json!("camera_failed")));
    assert!(third.to_string().contains("3.tif can't be read"), "{third:#}");
    assert_eq!(taken(&mut server)["structuredContent"]["stats"]["max"], 60_000, "it begins anew");
    let refused = server.call("set_camera", json!({"gain": 2.0}));
    assert!(refused.to_string().contains("gain must be 1"), "{refused:#}");
}

#[test]
fn a_folder_that_is_not_there_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().expect("folder");
    let mut server = served(folder.path());
    until("it is told", || server.call("diagnose", json!({})).to_string().contains("can't be read"));
    let refused = taken(&mut server);
    assert_eq!(refused["structuredContent"]["code"], "not_connected", "{refused:#}");
    let doctor = steadyhand(folder.path()).args(["doctor", "--rig", "rig.toml"]).output().expect("run");
    drop(server);
    let alone = steadyhand(folder.path()).args(["doctor", "--rig", "rig.toml"]).output().expect("run");
    let told = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(!doctor.status.success() && !alone.status.success());
    assert!(told.contains("pictures") && told.contains("put PNG, TIFF or NPY files"), "{told}");
}
