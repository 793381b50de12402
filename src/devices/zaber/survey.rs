//! Everybody on the chain is asked at once how many axes they have.

use std::collections::BTreeMap;

use super::codec::{Frame, Frames, Raw, Target, command, parse, value};
use crate::devices::survey::Questions;

/// The number of the question, by which its answers are known.
const ID: u8 = 0;
/// How often it is asked until somebody answers: a chain that was just switched on is deaf for a while.
const TRIES: u32 = 3;

/// Who is on the chain.
#[derive(Default)]
pub(in crate::devices) struct Census {
    frames: Frames,
    asked: u32,
    /// How many axes the device at an address has.
    found: BTreeMap<u8, u8>,
}

impl Questions for Census {
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.asked >= TRIES || !self.found.is_empty() {
            return None;
        }
        self.asked += 1;
        Some(command(Target { address: 0, axis: 0 }, ID, "get system.axiscount"))
    }

    fn hear(&mut self, bytes: &[u8]) -> bool {
        let found = &mut self.found;
        self.frames.push(bytes, |raw| {
            if let Raw::Frame(text) = raw
                && let Some(Frame::Reply(reply)) = parse(&text)
                && reply.ok
                && reply.id == Some(ID)
                && let Some(axes) = value(&reply.data).filter(|n| (1.0..=9.0).contains(n))
            {
                found.insert(reply.from.address, axes as u8);
            }
        });
        // Who answers last can't be known: all have their time.
        false
    }

    fn found(&self) -> Vec<String> {
        let of_device = |(address, axes): (&u8, &u8)| match axes {
            1 => vec![address.to_string()],
            n => (1..=*n).map(|axis| Target { address: *address, axis }.to_string()).collect(),
        };
        self.found.iter().flat_map(of_device).collect()
    }
}
