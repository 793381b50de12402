//! The fault matrix: each fault in each phase over each protocol, on virtual time. What must hold is asserted in every
//! cell; how it went is the page `docs/fault-matrix.md`, which `UPDATE_DOCS=1 cargo test --test faults` writes anew.
//! `STEADYHAND_CELL="jammed"` runs the rows of that name alone and tells their story.

#![allow(unreachable_pub)]

#[path = "faults/after.rs"]
mod after;
#[path = "faults/cell.rs"]
mod cell;
#[path = "faults/page.rs"]
mod page;
#[path = "faults/rig.rs"]
mod rig;
#[path = "faults/rows.rs"]
mod rows;
mod support;

use support::peers::PEERS;

/// All cells of a protocol, and its table.
fn matrix(protocol: &str) {
    let peer = PEERS.iter().find(|p| p.name == protocol).expect("a protocol");
    let only = std::env::var("STEADYHAND_CELL").ok();
    let mut table = page::Table::new(peer);
    let mut failed = Vec::new();
    for row in rows::ROWS {
        if only.as_ref().is_some_and(|o| !row.name.contains(o.as_str())) {
            continue;
        }
        let cells = page::PHASES.map(|(phase, _)| {
            let possible = row.peers.contains(&peer.name)
                && row.phases.contains(&phase)
                && (peer.homes || phase != cell::Phase::Homing);
            if !possible {
                return None;
            }
            let outcome = std::panic::catch_unwind(|| cell::run(peer, row, phase));
            if outcome.is_err() {
                failed.push(format!("{} in {phase:?}", row.name));
            }
            outcome.ok()
        });
        table.row(row, &cells);
    }
    assert!(failed.is_empty(), "over {protocol}: {failed:#?}");
    if only.is_none() {
        page::compare(protocol, &table);
    }
}

#[test]
fn over_grbl_every_fault_in_every_phase_ends_safe_and_told() {
    matrix("grbl");
}

#[test]
fn over_zaber_every_fault_in_every_phase_ends_safe_and_told() {
    matrix("zaber");
}

#[test]
fn over_asi_every_fault_in_every_phase_ends_safe_and_told() {
    matrix("asi");
}
