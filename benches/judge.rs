//! How long one judgement takes: a move on a rig of five stages with ten keep-outs and twenty rules, all of which look at
//! it. Prints the median and the 99th percentile in microseconds, of the verdict alone.
#![allow(clippy::print_stdout)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hw_sim::Bench;
use steadyhand::model::{Activity, Snapshot, Trust};
use steadyhand::units::{Position, Unit};
use support::Lab;

const MOVES: usize = 5000;

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

fn main() {
    let mut lab = Lab::new(&rig(), Bench::microscope(1));
    lab.run_ms(100);
    let mut state = Snapshot::clone(&lab.state());
    let now = lab.handle.now();
    state.at = now;
    for stage in &mut state.stages {
        (stage.activity, stage.read_at, stage.fault) = (Activity::Idle, Some(now), None);
        for axis in &mut stage.axes {
            axis.trust = Trust::Referenced;
            axis.position = Position::new(20.0, Unit::Mm).ok().filter(|_| axis.axis.as_str() != "z");
            axis.position = axis.position.or(Position::new(3000.0, Unit::Um).ok());
        }
    }
    let rules = lab.handle.rules();
    let mut times: Vec<Duration> = Vec::with_capacity(MOVES);
    for i in 0..MOVES {
        let x = 15.0 + (i % 50) as f64;
        let movement = lab.to(&[("x", x), ("y", 10.0 + (i % 30) as f64)]);
        let began = Instant::now();
        let verdict = rules.judge_move(&movement, &state, now).expect("a verdict");
        times.push(began.elapsed());
        assert!(verdict.refusals.is_empty(), "{:?}", verdict.refusals);
    }
    times.sort();
    let us = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e6;
    println!(
        "{MOVES} moves, 5 stages, 10 keep-outs, 20 rules: median {:.1} us, p99 {:.1} us a judgement",
        us(50),
        us(99)
    );
}
