//! Each public bug report that `cases.toml` lists has a test that is named after it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// All files with that ending under a folder; none where there is no folder.
fn files(under: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(under) else { return Vec::new() };
    entries
        .map(|e| e.unwrap().path())
        .flat_map(|p| if p.is_dir() { files(&p, ending) } else { vec![p] })
        .filter(|p| p.extension().is_some_and(|e| e == ending))
        .collect()
}

/// The names of the functions that are tests: in Rust by their attribute, in Python by their `def`.
fn tests_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    if file.extension().is_some_and(|e| e == "py") {
        let defs = text.lines().filter_map(|l| {
            let l = l.trim_start();
            let l = l.strip_prefix("async ").unwrap_or(l).strip_prefix("def ")?;
            Some(l.split('(').next()?.trim_start_matches("test_").to_owned())
        });
        return defs.collect();
    }
    let mut found = Vec::new();
    let tree = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut items = tree.items;
    while let Some(item) = items.pop() {
        match item {
            syn::Item::Mod(m) => items.extend(m.content.into_iter().flat_map(|c| c.1)),
            syn::Item::Fn(f) if f.attrs.iter().any(|a| a.path().segments.last().is_some_and(|s| s.ident == "test")) => {
                found.push(f.sig.ident.to_string());
            }
            _ => {}
        }
    }
    found
}

fn text<'a>(case: &'a Table, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_else(|| panic!("{case:?} has no {key}"))
}

#[test]
fn each_case_has_a_test_that_is_named_after_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list: Table = std::fs::read_to_string(root.join("tests/cases.toml")).unwrap().parse().unwrap();
    let cases: Vec<&Table> = list["case"].as_array().unwrap().iter().map(|c| c.as_table().unwrap()).collect();
    let ids: BTreeSet<&str> = cases.iter().map(|c| text(c, "id")).collect();
    assert_eq!(ids.len(), cases.len(), "each is listed once");
    for case in &cases {
        assert!(text(case, "source").starts_with("https://") && !text(case, "symptom").is_empty(), "{case:?}");
        let areas = ["grbl", "zaber", "serial", "mcp", "eaa", "safety", "asi_prior"];
        assert!(areas.contains(&text(case, "area")), "{case:?}");
    }
    let rust = ["tests", "src"].map(|d| files(&root.join(d), "rs")).concat();
    let python = files(&root.join("tests/clients"), "py");
    let tests: BTreeSet<String> = rust.iter().chain(&python).flat_map(|f| tests_of(f)).collect();
    let missing: Vec<&str> = cases
        .iter()
        .filter(|c| !c.contains_key("waits_for"))
        .map(|c| text(c, "id"))
        .filter(|id| {
            let name = format!("{}_", id.to_lowercase());
            !tests.iter().any(|t| t.starts_with(&name))
        })
        .collect();
    assert!(missing.is_empty(), "these have no test: {missing:?}");
}
