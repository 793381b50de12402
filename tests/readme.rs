//! What the README shows is what works: its rig file, its client entries, its commands.

use std::path::Path;
use std::process::{Command, Stdio};

use steadyhand::{config, devices};

const README: &str = include_str!("../README.md");

/// The blocks of a language, in order.
fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    README.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or("")).collect()
}

#[test]
fn the_rig_file_in_the_readme_loads_and_is_the_one_in_rigs() {
    let shown = blocks("toml");
    assert_eq!(shown.len(), 1);
    config::parse(shown[0], Path::new("README.md"), &devices::known()).unwrap_or_else(|p| panic!("{p}"));
    let file = std::fs::read_to_string("rigs/minimal.toml").expect("rigs/minimal.toml");
    assert!(file.ends_with(shown[0]), "rigs/minimal.toml and the README differ");
}

#[test]
fn every_file_and_folder_that_the_readme_names_is_there() {
    let links = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local: Vec<&str> = links.filter(|l| !l.starts_with("http")).collect();
    assert!(local.len() >= 4, "{local:?}");
    for path in local.into_iter().chain(["rigs/microscope.toml", "tests/run", "hw-sim"]) {
        assert!(Path::new(path).exists(), "{path}");
    }
}

#[test]
fn the_entry_for_claude_desktop_is_json_and_starts_the_program_that_there_is() {
    let entry: serde_json::Value = serde_json::from_str(blocks("json")[0]).expect("JSON");
    let server = &entry["mcpServers"]["steadyhand"];
    assert!(Path::new(server["command"].as_str().unwrap()).is_absolute());
    let args: Vec<&str> = server["args"].as_array().unwrap().iter().filter_map(|a| a.as_str()).collect();
    assert_eq!(args, ["serve", "--rig", "/home/me/rig.toml"]);
    // The same words are understood: help for them ends well.
    let status = Command::new(env!("CARGO_BIN_EXE_steadyhand"))
        .args(["serve", "--help"])
        .stdout(Stdio::null())
        .status()
        .expect("the program");
    assert!(status.success());
}

#[test]
fn the_first_command_shows_the_conversation_and_the_pictures_exist() {
    assert!(blocks("sh")[0].contains("cargo run --release -- demo"));
    let data = tempfile::tempdir().expect("a folder");
    let out = Command::new(env!("CARGO_BIN_EXE_steadyhand"))
        .args(["demo", "--once", "--data-dir"])
        .arg(data.path())
        .stdin(Stdio::null())
        .output()
        .expect("the program");
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{told}\n{}", String::from_utf8_lossy(&out.stderr));
    for sign in ["[not_referenced]", "[keep_out]", "is homed", "Allowed:", "uint16", "Standstill is confirmed"] {
        assert!(told.contains(sign), "no {sign:?} in:\n{told}");
    }
    let pictures: Vec<&str> =
        told.lines().map(str::trim).filter(|l| l.ends_with(".png") && l.starts_with('/')).collect();
    assert_eq!(pictures.len(), 2, "{told}");
    for picture in pictures {
        let bytes = std::fs::read(picture).expect("the picture");
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    }
}

#[test]
fn check_says_good_of_the_example_and_draws_the_line_of_a_bad_one() {
    let check = |path: &Path| {
        Command::new(env!("CARGO_BIN_EXE_steadyhand")).args(["check", "--rig"]).arg(path).output().expect("the program")
    };
    assert!(check(Path::new("rigs/minimal.toml")).status.success());
    let dir = tempfile::tempdir().expect("a folder");
    let bad = dir.path().join("bad.toml");
    let text = std::fs::read_to_string("rigs/minimal.toml").expect("the example");
    std::fs::write(&bad, text.replace("[0.0, 74.5]", "[75.0, 0.0]").replace("\"grbl\"", "\"grlb\"")).expect("a file");
    let out = check(&bad);
    let told = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(1));
    assert!(told.contains("travel = [75.0, 0.0]") && told.contains("driver = \"grlb\""), "both lines: {told}");
}
