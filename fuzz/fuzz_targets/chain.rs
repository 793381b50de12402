//! Bytes from a chain of devices, in pieces, against the Zaber driver: it may report what it likes, but not panic, and
//! what it sends is only what asks or stops.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use steadyhand::config::{self, Rig};
use steadyhand::devices::{self, link::memory::Far};
use steadyhand::model::Time;

static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| {
    let text = include_str!("../../rigs/zaber-chain.toml");
    Arc::new(config::parse(text, Path::new("zaber-chain.toml"), &devices::known()).expect("the example"))
});

/// `body` with its checksum: what is well framed gets deeper.
fn summed(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)).wrapping_neg();
    [b"@", body, format!(":{sum:02X}\r\n").as_bytes()].concat()
}

fuzz_target!(|data: &[u8]| {
    let far = Far::default();
    let made = devices::make(&RIG, &mut |_| far.connector("fuzz"));
    let Ok(mut made) = made else { return };
    let (mut now, mut events) = (Time::ZERO, Vec::new());
    for stage in &mut made.stages {
        stage.tick(now, &mut events);
    }
    // The first byte of each piece tells its length and what becomes of it.
    let mut rest = data;
    while let [head, tail @ ..] = rest {
        let (piece, next) = tail.split_at(usize::from(head & 31).min(tail.len()));
        now = now + Duration::from_millis(1 << (head >> 6) * 4);
        if head & 32 == 0 {
            far.give(piece);
        } else {
            // An answer to what was asked last, with that text.
            let asked = far.take();
            let last = asked.split(|b| *b == b'\n').filter(|l| l.starts_with(b"/")).next_back().unwrap_or_default();
            let mut words = String::from_utf8_lossy(last).split(' ').map(str::to_owned).collect::<Vec<_>>().into_iter();
            let address = words.next().unwrap_or_default().trim_start_matches('/').parse::<u8>().unwrap_or(1);
            let (axis, id) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let begin = format!("{address:02} {axis} {id} ");
            far.give(&summed(&[begin.as_bytes(), piece].concat()));
            check(&asked);
        }
        for stage in &mut made.stages {
            stage.poll(now);
            stage.tick(now, &mut events);
        }
        if head & 0b1100_0000 == 0b1100_0000 {
            made.stages[0].stop(now);
        }
        rest = next;
    }
    check(&far.take());
});

fn check(sent: &[u8]) {
    for line in sent.split(|b| *b == b'\n') {
        let whole = line.rsplit(|b| *b == 0x7f).next().unwrap_or_default();
        let text = std::str::from_utf8(whole).expect("text");
        assert!(text.is_empty() || [" get ", " warnings", " stop:"].iter().any(|w| text.contains(w)), "sent {text:?}");
    }
}
