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

/// Runs one of `of` shares of the seeds, so that cores share the work: as many as `STEADYHAND_SEEDS` says, or the one of
/// `STEADYHAND_SEED`.
pub fn share(which: u64, of: u64, usual: u64, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("STEADYHAND_SEED") {
        Some(one) => vec![one],
        None => (0..number("STEADYHAND_SEEDS").unwrap_or(usual)).collect(),
    };
    let mut failed = Vec::new();
    for seed in seeds.into_iter().filter(|s| s % of == which) {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            eprintln!("seed {seed} failed");
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}
