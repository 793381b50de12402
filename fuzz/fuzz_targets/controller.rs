//! Bytes from a controller, in pieces, against the GRBL driver: it may report what it likes, but not panic, and
//! what it sends is only what a driver sends.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use steadyhand::config::{self, Rig};
use steadyhand::devices::{self, link::memory::Far};
use steadyhand::model::Time;

static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| {
    let text = include_str!("../../rigs/minimal.toml");
    Arc::new(config::parse(text, Path::new("minimal.toml"), &devices::known()).expect("the example"))
});

fuzz_target!(|data: &[u8]| {
    let far = Far::default();
    let made = devices::make(&RIG, &mut |_| far.connector("fuzz"));
    let Ok(mut made) = made else { return };
    let stage = &mut made.stages[0];
    let (mut now, mut events) = (Time::ZERO, Vec::new());
    stage.tick(now, &mut events);
    // The first byte of each piece tells its length and how long after the last it comes.
    let mut rest = data;
    while let [head, tail @ ..] = rest {
        let (piece, next) = tail.split_at(usize::from(head & 63).min(tail.len()));
        now = now + Duration::from_millis(1 << (head >> 6) * 4);
        far.give(piece);
        stage.poll(now);
        stage.tick(now, &mut events);
        if head & 0b1100_0000 == 0b1100_0000 {
            stage.stop(now);
        }
        rest = next;
    }
    for byte in far.take() {
        assert!(byte.is_ascii_graphic() || b"\n\x18\x85".contains(&byte), "sent {byte:#x}");
    }
});
