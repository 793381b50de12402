//! What fuzzing has found worth keeping, again: each input of `fuzz/seeds` through the body of its target, which must
//! neither panic nor take long, on the compiler that everything else is built with.

mod fuzz;

use std::path::Path;
use std::time::{Duration, Instant};

use steadyhand::devices;

/// More than any input takes in an unoptimised build on a busy machine; what never ends takes longer.
const LONG: Duration = Duration::from_secs(20);

/// The inputs of a target: name and bytes.
fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let read = |path: std::path::PathBuf| (path.display().to_string(), std::fs::read(&path).unwrap());
    entries.map(|e| read(e.unwrap().path())).collect()
}

#[test]
fn every_seed_does_what_must_hold() {
    for (target, body) in fuzz::TARGETS {
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has no seeds");
        let size: usize = seeds.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(seeds.len() <= 200 && size <= 200 * 1024, "{target}: {} seeds, {size} bytes", seeds.len());
        for (name, bytes) in seeds {
            let began = Instant::now();
            let done = std::panic::catch_unwind(|| body(&bytes));
            assert!(done.is_ok(), "{name} fails in {target}");
            assert!(began.elapsed() < LONG, "{name} takes {:?} in {target}", began.elapsed());
        }
    }
}

/// The bodies try a few cuts of each input; here it is all of them.
#[test]
fn every_seed_of_a_codec_gives_the_same_frames_wherever_it_is_cut() {
    for (target, driver) in [("controller", "grbl"), ("chain", "zaber")] {
        for (name, bytes) in seeds(target) {
            let bytes = &bytes[..bytes.len().min(600)];
            let whole = devices::frames(driver, &[bytes]);
            for at in 0..=bytes.len() {
                assert_eq!(devices::frames(driver, &[&bytes[..at], &bytes[at..]]), whole, "{name} cut at {at}");
            }
        }
    }
}

#[test]
fn every_target_is_fuzzed_by_the_script() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(root.join("tests/long/fuzz")).unwrap();
    let listed = script.split_once("targets=(").and_then(|(_, rest)| rest.split(')').nth(1)).unwrap_or_default();
    let listed: Vec<&str> = listed.rsplit('(').next().unwrap_or_default().split(' ').collect();
    let mut names: Vec<&str> = fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed, names);
    let mut files: Vec<String> = std::fs::read_dir(root.join("fuzz/fuzz_targets"))
        .unwrap()
        .map(|e| e.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    names.sort_unstable();
    assert_eq!(files, names);
}
