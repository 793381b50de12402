//! Any text as a rig file: a rig or problems that can be drawn, and no panic.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use steadyhand::{config, devices};

fuzz_target!(|text: &str| {
    if let Err(problems) = config::parse(text, Path::new("rig.toml"), &devices::known()) {
        assert!(!problems.list.is_empty());
        assert!(!problems.render(false).is_empty() && !problems.render_plain().is_empty());
    }
});
