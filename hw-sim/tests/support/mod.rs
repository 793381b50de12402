//! A host's hands for the tests: virtual time, whole lines, and a microscope that is homed.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod zaber;

use std::time::Duration;

use hw_sim::{Bench, Fault};

pub(crate) struct Host {
    pub(crate) bench: Bench,
    ms: u64,
}

impl Host {
    pub(crate) fn new(bench: Bench) -> Host {
        Host { bench, ms: 0 }
    }

    /// The microscope, booted.
    pub(crate) fn booted() -> Host {
        let mut host = Host::new(Bench::microscope(7));
        host.pass(2000);
        host
    }

    pub(crate) fn homed() -> Host {
        let mut host = Host::booted();
        assert!(host.ask("$H\n", 15_000).ends_with("ok\r\n"));
        host
    }

    /// Lets time pass and returns what the stage said meanwhile.
    pub(crate) fn pass(&mut self, ms: u64) -> String {
        self.ms += ms;
        self.bench.advance(Duration::from_millis(self.ms));
        String::from_utf8_lossy(&self.bench.read("scope")).into_owned()
    }

    pub(crate) fn ask(&mut self, line: &str, ms: u64) -> String {
        self.send(line.as_bytes());
        self.pass(ms)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.bench.write("scope", bytes), bytes.len());
    }

    pub(crate) fn x(&self) -> f64 {
        self.bench.carriage_mm("scope", "x")
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.bench.fault("scope", fault).expect("the fault is possible");
    }

    /// The state word of a status report.
    pub(crate) fn state(&mut self) -> String {
        let report = self.ask("?", 20);
        report.trim_start_matches('<').split('|').next().unwrap_or_default().to_owned()
    }

    pub(crate) fn mpos(&mut self) -> Vec<f64> {
        let report = self.ask("?", 20);
        let field = report.split("MPos:").nth(1).unwrap_or_else(|| panic!("no position in {report:?}"));
        field.split(['|', '>']).next().unwrap_or_default().split(',').map(|v| v.parse().expect("a number")).collect()
    }
}

pub(crate) fn near(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} is not {b} within {tolerance}");
}
