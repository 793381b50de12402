//! The patches of `tests/mutants` fit the program, and the page about them tells of each. `tests/long/mutants` runs them.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).replace("\r\n", "\n")
}

fn patches() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("tests/mutants")).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    found.sort();
    found
}

/// What stands after `key: ` at the beginning of lines above the diff.
fn said<'a>(patch: &'a str, key: &str) -> Vec<&'a str> {
    let head = patch.split("\n--- ").next().unwrap_or_default();
    head.lines().filter_map(|l| l.strip_prefix(key)?.strip_prefix(": ")).collect()
}

/// The hunks of a patch: the file, its lines before and its lines after.
fn hunks(patch: &str) -> Vec<(&str, String, String)> {
    let (mut file, mut found) = ("", Vec::new());
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            file = name;
        } else if line.starts_with("@@ ") {
            found.push((file, String::new(), String::new()));
        } else if line.starts_with("--- ") {
            continue;
        } else if let (Some((_, before, after)), Some(rest)) = (found.last_mut(), line.get(1..)) {
            if line.starts_with([' ', '-']) {
                *before += &format!("{rest}\n");
            }
            if line.starts_with([' ', '+']) {
                *after += &format!("{rest}\n");
            }
        }
    }
    found
}

#[test]
fn every_patch_fits_the_program_in_one_place() {
    let mut checked = 0;
    for path in patches() {
        let patch = read(&path);
        let hunks = hunks(&patch);
        assert!(!hunks.is_empty(), "{}", path.display());
        for (file, before, after) in hunks {
            let places = read(root().join(file)).matches(&before).count();
            assert_eq!(places, 1, "{}: {file} has this in {places} places:\n{before}", path.display());
            assert_ne!(before, after, "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 25, "{checked}");
}

#[test]
fn every_patch_says_what_it_takes_from_a_guarantee_of_the_safety_page_and_which_tests_must_notice() {
    let safety = read(root().join("docs/safety.md"));
    let all: Vec<&str> = safety
        .split_once("## What always holds")
        .and_then(|(_, rest)| rest.split_once("\n## "))
        .map(|(section, _)| section.split("\n\n").filter_map(|p| p.strip_prefix("**")?.split("**").next()).collect())
        .unwrap();
    let mut untouched = all.clone();
    for path in patches() {
        let patch = read(&path);
        let [check] = said(&patch, "Check")[..] else { panic!("{} names no check", path.display()) };
        assert!(all.contains(&check), "{}: the safety page has no \"{check}\"", path.display());
        untouched.retain(|g| *g != check);
        assert_eq!(said(&patch, "Taken away").len(), 1, "{}", path.display());
        let tests = said(&patch, "Test");
        assert!(!tests.is_empty(), "{}", path.display());
        for test in tests {
            match test.split(' ').collect::<Vec<_>>()[..] {
                ["--lib", ..] => {}
                ["--test", name, ..] => {
                    assert!(root().join(format!("tests/{name}.rs")).is_file(), "{}: {test}", path.display());
                }
                _ => panic!("{}: {test}", path.display()),
            }
        }
    }
    assert!(untouched.is_empty(), "nothing is taken away from {untouched:?}");
}

#[test]
fn the_page_tells_of_each_patch_and_no_other() {
    let page = read(root().join("docs/mutants.md"));
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|l| l.starts_with("| ") && !l.starts_with("| patch "))
        .map(|l| l.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let patches = patches();
    assert_eq!(rows.len(), patches.len());
    for (row, path) in rows.iter().zip(&patches) {
        let patch = read(path);
        let [name, check, taken, outcome] = row[..] else { panic!("{row:?}") };
        assert_eq!(name, path.file_stem().unwrap().to_str().unwrap());
        assert_eq!(check, said(&patch, "Check")[0].trim_end_matches('.'), "{name}");
        assert_eq!(taken, said(&patch, "Taken away")[0], "{name}");
        assert!(
            !outcome.is_empty() && !outcome.starts_with("**") && !outcome.contains("does not"),
            "{name}: {outcome}"
        );
    }
}
