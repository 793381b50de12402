//! The Zaber chain over virtual time: framing, movements, flags, faults.

mod support;

use support::near;
use support::zaber::Chain;

const FOCUS_PER_MM: f64 = 5249.344;

#[test]
fn an_axis_homes_moves_and_tells_where_it_is() {
    let mut c = Chain::booted();
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE WR 0");
    assert_eq!(c.ask("/1 1 home"), "@01 1 OK BUSY WR 0");
    c.settle("/1");
    assert_eq!(c.ask("/1 1 07 get pos"), "@01 1 07 OK IDLE -- 0");
    near(c.at("focus"), 500.0 / FOCUS_PER_MM, 2.0 / FOCUS_PER_MM);
    assert_eq!(c.ask("/1 1 move abs 52493"), "@01 1 OK BUSY -- 0");
    c.settle("/1");
    assert_eq!(c.ask("/1 get pos"), "@01 0 OK IDLE -- 52493");
    near(c.at("focus"), 52_993.0 / FOCUS_PER_MM, 2.0 / FOCUS_PER_MM);
}
