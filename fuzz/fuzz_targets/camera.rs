//! Bytes from a camera, in pieces, against the simulated camera's driver: no panic, and no frame whose size isn't
//! what its header says.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use steadyhand::config::{self, Rig};
use steadyhand::devices::{self, CameraEvent, link::memory::Far};
use steadyhand::model::Time;

static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| {
    let text = include_str!("../../rigs/demo.toml").replace("@SCOPE@", "/dev/none").replace("@CAM@", "127.0.0.1:1").replace("@IO@", "127.0.0.1:2");
    Arc::new(config::parse(&text, Path::new("demo.toml"), &devices::known()).expect("the example"))
});

const HELLO: &[u8] = b"OK simcam 1 model=M serial=S width=4 height=2 bits=12\n\
OK exposure_ms=1.0 gain=1.0 roi=0,0,4,2 binning=1 bits=12 temperature_c=20\nOK SNAP 1\n";

fuzz_target!(|data: &[u8]| {
    let far = Far::default();
    let Ok(mut made) = devices::make(&RIG, &mut |_| far.connector("fuzz")) else { return };
    let camera = &mut made.cameras[0];
    let (mut now, mut events) = (Time::ZERO, Vec::new());
    for piece in HELLO.split_inclusive(|b| *b == b'\n') {
        camera.tick(now, &mut events);
        now = now + Duration::from_millis(1);
        far.give(piece);
        camera.tick(now, &mut events);
        camera.tick(now, &mut events);
        if piece.starts_with(b"OK exposure") {
            camera.shoot(now);
        }
    }
    for piece in data.chunks(97) {
        now = now + Duration::from_millis(5);
        far.give(piece);
        camera.tick(now, &mut events);
    }
    for event in events {
        if let CameraEvent::Frame(frame) = event {
            let [h, w] = frame.pixels.shape();
            assert!(h * w <= data.len());
        }
    }
});
