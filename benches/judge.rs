//! How long one judgement takes: a move on a rig of five stages with ten keep-outs and twenty rules, all of which look at
//! it. Prints the median and the 99th percentile in microseconds, of the verdict alone, and the verdict's share of a whole
//! call of `check_move`, from the client's request to its answer.
#![allow(clippy::print_stdout)]

#[path = "../tests/desk/mod.rs"]
mod desk;
#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use desk::Desk;
use hw_sim::{Bench, MICROSCOPE_TOML};
use serde_json::json;
use steadyhand::model::{AxisId, Move, Name};
use steadyhand::units::Position;
use support::{Lab, aim};

const MOVES: usize = 5000;
const CALLS: usize = 1000;

/// The demonstration's stage four times more, ten boxes beside its way, and twenty rules that hold.
fn rig() -> String {
    let demo = support::stage_only();
    let begin = demo.find("[[stage]]").expect("a stage");
    let end = begin + demo[begin..].find("[[keep_out]]").expect("a keep-out");
    let stage = &demo[begin..end];
    let mut text = demo[..end].to_owned();
    for i in 2..=5 {
        let _ = write!(text, "[[link]]\nid = \"port{i}\"\nserial = \"/dev/ttyVIRTUAL{i}\"\nbaud = 115200\n");
        let another = stage.replace("id = \"scope\"", &format!("id = \"scope{i}\""));
        text.push_str(&another.replace("link = \"scope-port\"", &format!("link = \"port{i}\"")));
    }
    for i in 0..10 {
        let _ = write!(
            text,
            "[[keep_out]]\nname = \"box {i}\"\nboxes = [{{ \"scope.x\" = [{i}.0, {i}.5], \"scope.y\" = [0.0, 5.0], \
             \"scope2.x\" = [0.0, 5.0] }}]\nmargin_um = 100\n"
        );
    }
    for i in 0..20 {
        let (stage, limit) = (if i % 5 == 0 { "scope".to_owned() } else { format!("scope{}", i % 5 + 1) }, 70 + i);
        let _ = write!(
            text,
            "[[rule]]\nname = \"rule {i}\"\nwhen = \"gate\"\nrequire = \"!stage.{stage}.moving && move.target.scope.x < \
             {limit}.0 || abs(stage.scope.x - stage.{stage}.y) < 5.0 || move.kind != 'move' || stage.scope.speed <= 30\"\n"
        );
    }
    text
}

/// A controller for each of the five stages.
fn bench() -> Bench {
    let begin = MICROSCOPE_TOML.find("[[controller]]").expect("a controller");
    let end = MICROSCOPE_TOML.find("[[io]]").expect("a box");
    let mut text = MICROSCOPE_TOML.to_owned();
    for i in 2..=5 {
        let id = format!("id = \"port{i}\"");
        text.push_str(&MICROSCOPE_TOML[begin..end].replacen("id = \"scope\"", &id, 1));
    }
    Bench::from_toml(&text).expect("a bench")
}

/// The five stages online and at rest, where a person has declared that they stand at 20 mm, and z at 3 mm.
fn lab() -> Lab {
    let mut lab = Lab::new(&rig().replace("trust = \"referenced\"", "trust = \"assumed\""), bench());
    lab.online();
    for stage in ["scope", "scope2", "scope3", "scope4", "scope5"] {
        // The controllers lock themselves until they are homed.
        lab.recover(stage).expect("unlocked");
        for axis in ["x", "y", "z"] {
            let here = Position::base(if axis == "z" { 3.0 } else { 20.0 }).expect("finite");
            let ticket = lab.handle.reference(&lab.person(), &AxisId::new(stage, axis), here).expect("room");
            lab.answer(ticket).expect("declared");
        }
    }
    lab.run_ms(500);
    lab
}

fn target(i: usize) -> (f64, f64) {
    (15.0 + (i % 50) as f64, 10.0 + (i % 30) as f64)
}

fn us(times: &mut [Duration], share: usize) -> f64 {
    times.sort();
    times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e6
}

fn main() {
    let lab = lab();
    let (state, now, rules) = (lab.state(), lab.handle.now(), lab.handle.rules());
    let mut judged = Vec::with_capacity(MOVES);
    for i in 0..MOVES {
        let (x, y) = target(i);
        let movement = Move { stage: Name::new("scope"), aim: aim(&[("x", x), ("y", y)]) };
        let began = Instant::now();
        let verdict = rules.judge_move(&movement, &state, now).expect("a verdict");
        judged.push(began.elapsed());
        assert!(verdict.refusals.is_empty(), "{:?}", verdict.refusals);
    }
    let median = us(&mut judged, 50);
    let p99 = us(&mut judged, 99);
    println!("{MOVES} moves, 5 stages, 10 keep-outs, 20 rules: median {median:.1} us, p99 {p99:.1} us a judgement");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut calls = runtime.block_on(async {
        let desk = Desk::new(lab).await;
        let mut times = Vec::with_capacity(CALLS);
        for i in 0..CALLS {
            let (x, y) = target(i);
            let began = Instant::now();
            let answer =
                desk.ok("check_move", json!({ "stage": "scope", "targets": { "x": x, "y": y }, "unit": "mm" })).await;
            times.push(began.elapsed());
            assert_eq!(answer["allowed"], true, "{answer}");
        }
        times
    });
    let call = us(&mut calls, 50);
    println!(
        "{CALLS} calls of check_move within one process: median {call:.0} us; judging is {:.0} % of that",
        median / call * 100.0
    );
}
