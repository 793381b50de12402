//! Proves who may import whom: reads the crate's own syntax trees and holds them against the table below.

#[path = "layers/reader.rs"]
mod reader;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use reader::{Source, Target, Tree, Use};

/// The layers, and what each may import. A layer speaks the language of what it knows: who knows `interlocks`
/// knows the rig (`config`) that they judge by.
const LAYERS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("model", &["units"]),
    ("config", &["units", "model"]),
    ("interlocks", &["units", "model", "config"]),
    ("devices", &["units", "model", "config", "interlocks"]),
    ("imaging", &["units", "model", "config"]),
    ("store", &["units", "model", "config"]),
    ("plans", &["units", "model", "config", "interlocks", "imaging"]),
    ("access", &["units", "model", "config"]),
    ("actor", &["units", "model", "config", "interlocks", "devices", "imaging", "store", "plans"]),
    ("tools", &["units", "model", "config", "interlocks", "devices", "imaging", "store", "plans", "access", "actor"]),
    (
        "gateway",
        &["units", "model", "config", "interlocks", "devices", "imaging", "store", "plans", "access", "actor", "tools"],
    ),
    ("flash", &["units", "model", "config", "interlocks", "devices", "imaging", "store", "actor"]),
    (
        "cli",
        &[
            "units",
            "model",
            "config",
            "interlocks",
            "devices",
            "imaging",
            "store",
            "plans",
            "access",
            "actor",
            "tools",
            "gateway",
            "flash",
        ],
    ),
    ("main", &["cli"]),
];

/// Crates that only some modules may name.
const ONLY: &[(&str, &[&str])] = &[
    ("serialport", &["devices::link"]),
    ("crossbeam_channel", &["actor"]),
    ("rmcp", &["tools", "gateway", "cli::demo"]),
    ("hw_sim", &["cli::demo"]),
];

/// Crates that some layers may not name. Their tests may: recorded sessions are JSON.
const NEVER: &[(&str, &[&str])] = &[("devices", &["serde_json", "tokio"])];

/// Trait objects of drivers, and who may hold them.
const DRIVER_OBJECTS: &[&str] = &["Stage", "Camera", "Output", "Sensor"];
const HOLDERS: &[&str] = &["devices", "actor"];

/// What may lie in the repository's root.
const TOP_LEVEL: &[&str] = &[
    ".ci",
    ".git",
    ".gitignore",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "clippy.toml",
    "docs",
    "fuzz",
    "hw-sim",
    "packaging",
    "profiles",
    "rigs",
    "rustfmt.toml",
    "src",
    "target",
    "tests",
];

fn within(module: &str, place: &str) -> bool {
    module == place || module.strip_prefix(place).is_some_and(|rest| rest.starts_with("::"))
}

/// What is wrong with one use, if something is.
fn judge(found: &Use) -> Option<String> {
    let layer = found.module.split("::").next().unwrap_or_default();
    let by = if found.module.is_empty() { "lib.rs" } else { &found.module };
    match &found.target {
        Target::Layer(other) => {
            let known = LAYERS.iter().find(|(name, _)| *name == layer).map(|(_, may)| *may);
            let Some(may) = known else {
                return (!layer.is_empty()).then(|| format!("`{layer}` is not a layer of the design"));
            };
            (other != layer && !may.contains(&other.as_str())).then(|| format!("`{by}` may not know `{other}`"))
        }
        Target::Crate(name) => {
            let only = ONLY.iter().find(|(c, _)| c == name).filter(|_| !found.in_test).map(|(_, places)| *places);
            if only.is_some_and(|places| !places.iter().any(|place| within(&found.module, place))) {
                return Some(format!("`{by}` may not name the crate `{name}`"));
            }
            let never = NEVER.iter().any(|(l, crates)| *l == layer && crates.contains(&name.as_str()));
            (never && !found.in_test).then(|| format!("`{by}` may not name the crate `{name}`"))
        }
        Target::Object(name) => (DRIVER_OBJECTS.contains(&name.as_str())
            && !found.in_test
            && !HOLDERS.iter().any(|place| within(&found.module, place)))
        .then(|| format!("`{by}` may not hold a `dyn {name}`")),
        Target::Escape(what) => Some(format!("`{by}` hides code from this test: {what}")),
    }
}

fn violations(sources: &[Source]) -> Vec<String> {
    let tree = Tree::read(sources);
    let found =
        tree.uses().iter().filter_map(|u| judge(u).map(|wrong| format!("{}:{}: {wrong}", u.file, u.line))).collect();
    let found: BTreeSet<String> = found;
    found.into_iter().collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return files };
    for entry in entries {
        let path = entry.expect("readable folder").path();
        if path.is_dir() {
            if path.file_name().is_none_or(|n| n != "target") {
                files.extend(rust_files(&path));
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn sources_of(folder: &Path) -> Vec<Source> {
    let read = |path: PathBuf| Source {
        path: path.strip_prefix(folder).expect("inside").to_string_lossy().replace('\\', "/"),
        text: fs::read_to_string(&path).expect("readable source"),
    };
    rust_files(folder).into_iter().map(read).collect()
}

#[test]
fn each_layer_imports_only_what_it_may() {
    let sources = sources_of(&root().join("src"));
    assert!(sources.iter().any(|s| s.path == "lib.rs"), "the sources were found");
    let wrong = violations(&sources);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn hw_sim_knows_nothing_of_ours() {
    let manifest = fs::read_to_string(root().join("hw-sim/Cargo.toml")).expect("hw-sim's manifest");
    assert!(!manifest.contains("steadyhand"), "hw-sim's manifest names us");
    for file in rust_files(&root().join("hw-sim/src")) {
        let text = fs::read_to_string(&file).expect("readable source");
        assert!(!text.contains("steadyhand::"), "{} names us", file.display());
    }
}

#[test]
fn each_file_begins_with_its_reason() {
    for folder in ["src", "hw-sim", "tests", "benches"] {
        for file in rust_files(&root().join(folder)) {
            let text = fs::read_to_string(&file).expect("readable source");
            assert!(text.starts_with("//! "), "{} must begin with a `//!` line", file.display());
        }
    }
}

#[test]
fn the_root_holds_what_a_newcomer_expects_and_main_stays_short() {
    for entry in fs::read_dir(root()).expect("readable root") {
        let name = entry.expect("readable entry").file_name().to_string_lossy().into_owned();
        assert!(TOP_LEVEL.contains(&name.as_str()), "{name} has no place in the repository's root");
    }
    let main = fs::read_to_string(root().join("src/main.rs")).expect("main.rs");
    assert!(main.lines().count() < 100, "main.rs parses and dispatches");
}

mod planted {
    //! The test of the test: each planted violation is found, and the clean sources have none.

    use super::*;

    fn clean() -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "lib.rs",
                "pub mod units; pub mod model; pub mod config; pub mod interlocks; pub mod devices; pub mod imaging;
                 pub mod plans; pub mod access; pub mod actor; pub mod tools; pub mod gateway; pub mod cli;",
            ),
            ("main.rs", "fn main() { steadyhand::cli::run(); }"),
            ("units.rs", "pub struct Um(f64);"),
            ("model.rs", "pub use crate::units::Um; pub struct Name(String);"),
            ("config/mod.rs", "mod rig; pub use rig::*; use crate::model::Name;"),
            ("config/rig.rs", "pub struct Rig { name: crate::model::Name }"),
            ("interlocks.rs", "pub use crate::config::Rig; pub fn judge() {}"),
            (
                "devices/mod.rs",
                "pub mod link; pub mod grbl; pub trait Stage {} pub trait Camera {} pub fn open() -> Box<dyn Stage> { todo!() }",
            ),
            ("devices/link.rs", "pub fn ports() { let _ = serialport::available_ports(); }"),
            ("devices/grbl.rs", "use super::{Stage, link}; #[cfg(test)] mod tests { use serde_json::Value; }"),
            ("imaging.rs", "use crate::model;"),
            ("plans.rs", "use crate::interlocks::judge;"),
            ("access.rs", "use crate::model::Name;"),
            (
                "actor/mod.rs",
                "mod worker; pub struct Handle; pub use crossbeam_channel::Sender as Line; pub use crate::devices::grbl as wired;",
            ),
            ("actor/worker.rs", "use crate::devices::Stage; struct Worker { stages: Vec<Box<dyn Stage>> }"),
            ("tools.rs", "use crate::actor::Handle; use rmcp::ServerHandler; pub use crate::actor::wired;"),
            ("gateway.rs", "use crate::tools; use rmcp::ServiceExt;"),
            ("cli/mod.rs", "mod demo; mod serve; pub fn run() {}"),
            ("cli/demo.rs", "use rmcp::ServiceExt; fn bench() { hw_sim::run() }"),
            ("cli/serve.rs", "use crate::{gateway, tools};"),
        ]
    }

    fn sources(plant: &[(&str, &str)]) -> Vec<Source> {
        let mut all: Vec<Source> =
            clean().into_iter().map(|(path, text)| Source { path: path.into(), text: text.into() }).collect();
        for (path, text) in plant {
            match all.iter_mut().find(|s| s.path == *path) {
                Some(source) => source.text = format!("{}\n{text}", source.text),
                None => all.push(Source { path: (*path).into(), text: (*text).into() }),
            }
        }
        all
    }

    /// What the planted re-exports lead through. They are violations themselves, but of other layers than the one
    /// looked at.
    const LEADING_THROUGH: [(&str, &str); 2] = [
        ("model.rs", "pub use crate::actor::Handle; pub use crate::config::*;"),
        ("config/mod.rs", "pub mod hidden { pub use crate::interlocks::*; }"),
    ];

    #[test]
    fn clean_sources_have_no_violation() {
        assert_eq!(violations(&sources(&[])), Vec::<String>::new());
    }

    #[test]
    fn each_planted_violation_is_found() {
        for (way, file, text, expected) in [
            ("a plain import", "model.rs", "use crate::config::Rig;", "`model` may not know `config`"),
            ("a group", "imaging.rs", "use crate::{model, actor};", "`imaging` may not know `actor`"),
            (
                "a nested group",
                "imaging.rs",
                "use crate::{model::{self}, tools::{a::{b, c}}};",
                "`imaging` may not know `tools`",
            ),
            ("super", "interlocks.rs", "use super::devices::open;", "`interlocks` may not know `devices`"),
            (
                "super::super",
                "devices/grbl.rs",
                "use super::super::actor::Handle;",
                "`devices::grbl` may not know `actor`",
            ),
            (
                "super from an inline module",
                "units.rs",
                "mod a { mod b { fn f() { super::super::super::model::x() } } }",
                "`units::a::b` may not know `model`",
            ),
            (
                "self::super",
                "config/rig.rs",
                "type T = self::super::super::actor::Handle;",
                "`config::rig` may not know `actor`",
            ),
            ("an alias", "plans.rs", "use crate::actor as a; fn f(_: a::Handle) {}", "`plans` may not know `actor`"),
            (
                "an alias of the root",
                "plans.rs",
                "use crate as all; fn f(_: all::actor::Handle) {}",
                "`plans` may not know `actor`",
            ),
            (
                "a path in an expression",
                "units.rs",
                "fn f() { let _ = crate::tools::registry(); }",
                "`units` may not know `tools`",
            ),
            (
                "a path in a type",
                "model.rs",
                "struct A(Option<Vec<crate::actor::Handle>>);",
                "`model` may not know `actor`",
            ),
            (
                "a path in a pattern",
                "model.rs",
                "fn f(x: u8) { match x { crate::actor::LIMIT => {} _ => {} } }",
                "`model` may not know `actor`",
            ),
            (
                "a path in a trait bound",
                "model.rs",
                "fn f<T: crate::devices::Stage>() {}",
                "`model` may not know `devices`",
            ),
            (
                "an import in a function",
                "access.rs",
                "fn f() { use crate::gateway::serve; }",
                "`access` may not know `gateway`",
            ),
            (
                "a macro's arguments",
                "units.rs",
                "fn f() { println!(\"{}\", crate::actor::NAME); }",
                "`units` may not know `actor`",
            ),
            (
                "a macro's definition",
                "units.rs",
                "macro_rules! m { () => { $crate::actor::start() } }",
                "`units` may not know `actor`",
            ),
            (
                "an attribute's string",
                "model.rs",
                "#[serde(with = \"crate::store::stamp\")] struct S;",
                "`model` may not know `store`",
            ),
            ("a re-export of a layer above", "access.rs", "use crate::model::Handle;", "`access` may not know `actor`"),
            (
                "a re-export that hides a layer",
                "access.rs",
                "use crate::config::hidden::judge;",
                "`access` may not know `interlocks`",
            ),
            ("a glob re-export", "units.rs", "fn f(_: crate::model::Rig) {}", "`units` may not know `config`"),
            (
                "a re-exported crate",
                "tools.rs",
                "use crate::actor::Line;",
                "`tools` may not name the crate `crossbeam_channel`",
            ),
            (
                "a crate",
                "actor/worker.rs",
                "fn f() { serialport::new(\"x\", 1); }",
                "`actor::worker` may not name the crate `serialport`",
            ),
            (
                "a crate in a driver",
                "devices/grbl.rs",
                "use serde_json::json;",
                "`devices::grbl` may not name the crate `serde_json`",
            ),
            (
                "a crate by its absolute path",
                "devices/grbl.rs",
                "fn f() { ::tokio::spawn(g()); }",
                "`devices::grbl` may not name the crate `tokio`",
            ),
            (
                "a crate by extern crate",
                "plans.rs",
                "extern crate crossbeam_channel as c;",
                "`plans` may not name the crate `crossbeam_channel`",
            ),
            (
                "a crate by an alias",
                "cli/serve.rs",
                "use rmcp as r; fn f() { r::serve() }",
                "`cli::serve` may not name the crate `rmcp`",
            ),
            (
                "a crate in a macro",
                "plans.rs",
                "fn f() { select!(rmcp::x()); }",
                "`plans` may not name the crate `rmcp`",
            ),
            (
                "the simulator",
                "devices/grbl.rs",
                "use hw_sim::Bench;",
                "`devices::grbl` may not name the crate `hw_sim`",
            ),
            (
                "a driver's object",
                "tools.rs",
                "use crate::devices::Stage; struct S(Box<dyn Stage + Send>);",
                "`tools` may not hold a `dyn Stage`",
            ),
            (
                "a driver's object by its path",
                "plans.rs",
                "fn f(_: &mut dyn crate::x::Camera) {}",
                "`plans` may not hold a `dyn Camera`",
            ),
            (
                "a driver's object in a macro",
                "tools.rs",
                "fn f() { vec![b as Box<dyn Stage>]; }",
                "`tools` may not hold a `dyn Stage`",
            ),
            ("main past cli", "main.rs", "fn f() { steadyhand::actor::start(); }", "`main` may not know `actor`"),
            ("an unknown layer", "helpers.rs", "use crate::units::Um;", "`helpers` is not a layer of the design"),
            (
                "a file from elsewhere",
                "plans.rs",
                "#[path = \"actor/worker.rs\"] mod w;",
                "`plans` hides code from this test: #[path]",
            ),
            (
                "an included file",
                "plans.rs",
                "include!(\"actor/worker.rs\");",
                "`plans` hides code from this test: include!",
            ),
            (
                "a test's import",
                "units.rs",
                "#[cfg(test)] mod tests { use crate::tools::x; }",
                "`units::tests` may not know `tools`",
            ),
        ] {
            let mut plants = vec![(file, text)];
            if way.contains("re-export") {
                plants.extend(LEADING_THROUGH);
            }
            let place = format!("{file}:");
            let wrong = violations(&sources(&plants));
            assert!(
                wrong.iter().any(|w| w.starts_with(&place) && w.ends_with(expected)),
                "{way} went unseen: {text}\nfound: {wrong:#?}"
            );
        }
    }
}
