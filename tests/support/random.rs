//! Random numbers that a seed brings back.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn chance(&mut self, of_100: u64) -> bool {
        self.below(100) < of_100
    }
}

/// Runs one of `of` shares of the seeds, so that cores share the work: as many as `STEADYHAND_SEEDS` says (`1000`, or those
/// of `1000..2000`), or the one of `STEADYHAND_SEED`.
pub fn share(which: u64, of: u64, usual: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|e| panic!("{text} is no number of seeds: {e}"));
    let seeds = match (std::env::var("STEADYHAND_SEED"), std::env::var("STEADYHAND_SEEDS")) {
        (Ok(one), _) => number(&one)..number(&one) + 1,
        (_, Ok(many)) => many.split_once("..").map_or_else(|| 0..number(&many), |(from, to)| number(from)..number(to)),
        _ => 0..usual,
    };
    let mut failed = Vec::new();
    for seed in seeds.filter(|s| s % of == which) {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            eprintln!("seed {seed} failed");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}
