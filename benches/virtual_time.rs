//! How fast simulated time runs: rig thread, driver and bench together on virtual time. Prints hours of
//! simulated motion a second of CPU.
#![allow(clippy::print_stdout)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::Lab;

fn main() {
    let mut rates = Vec::new();
    for seed in 0..5 {
        let mut lab = Lab::homed(seed);
        let (start, began) = (Instant::now(), lab.now());
        for i in 0..200 {
            let (x, y) = if i % 2 == 0 { (20.0, 12.0) } else { (55.0, 45.0) };
            lab.move_to(&[("x", x), ("y", y)]).expect("a move");
        }
        let simulated = lab.now() - began;
        rates.push(simulated.as_secs_f64() / 3600.0 / start.elapsed().as_secs_f64());
        let moving = lab.now();
        let start = Instant::now();
        lab.run(Duration::from_secs(3600));
        println!(
            "seed {seed}: 200 moves, {:.0} s simulated, {:.2} h/s; an idle hour in {:.3} s; total {:.0} s",
            simulated.as_secs_f64(),
            rates[rates.len() - 1],
            start.elapsed().as_secs_f64(),
            moving.as_secs_f64()
        );
    }
    rates.sort_by(f64::total_cmp);
    println!("median: {:.2} hours of simulated motion a second of CPU", rates[rates.len() / 2]);
}
