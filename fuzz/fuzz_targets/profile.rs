//! `profile` of `tests/fuzz/mod.rs`, which says what must hold.
#![no_main]
#![allow(dead_code)]

#[path = "../../tests/fuzz/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::profile(data));
