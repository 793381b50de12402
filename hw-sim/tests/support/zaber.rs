//! A host's hands for the chain of `bench/zaber.toml`: one line out, the lines that come back.

use std::time::Duration;

use hw_sim::{Bench, Fault};

pub(crate) struct Chain {
    pub(crate) bench: Bench,
    ms: u64,
}

impl Chain {
    /// The example bench after its devices have booted.
    pub(crate) fn booted() -> Chain {
        Chain::with(|toml| toml)
    }

    /// The example bench with its file changed.
    pub(crate) fn with(edit: impl FnOnce(String) -> String) -> Chain {
        let bench = Bench::from_toml(&edit(hw_sim::ZABER_TOML.to_owned())).expect("the bench");
        let mut chain = Chain { bench, ms: 0 };
        assert_eq!(chain.pass(600), "");
        chain
    }

    /// Lets time pass and returns what the chain said meanwhile.
    pub(crate) fn pass(&mut self, ms: u64) -> String {
        self.ms += ms;
        self.bench.advance(Duration::from_millis(self.ms));
        String::from_utf8_lossy(&self.bench.read("chain")).into_owned()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.bench.write("chain", bytes), bytes.len());
    }

    /// Sends a line and returns what comes within 30 ms, the lines joined by `|`.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(line.as_bytes());
        self.send(b"\n");
        let said = self.pass(30);
        assert!(said.is_empty() || said.ends_with("\r\n"), "{said:?} is cut");
        said.split_terminator("\r\n").collect::<Vec<_>>().join("|")
    }

    /// Waits until nothing that `to` addresses is busy.
    pub(crate) fn settle(&mut self, to: &str) {
        for _ in 0..6000 {
            if !self.ask(to).contains("BUSY") {
                return;
            }
        }
        panic!("{to} is busy for three minutes");
    }

    pub(crate) fn home(&mut self, to: &str) {
        assert!(self.ask(&format!("{to} home")).contains("OK BUSY"));
        self.settle(to);
    }

    /// The data of the reply to a command that must be accepted.
    pub(crate) fn value(&mut self, command: &str) -> String {
        let reply = self.ask(command);
        assert!(reply.contains(" OK "), "{command}: {reply}");
        reply.split(' ').skip(5).collect::<Vec<_>>().join(" ")
    }

    /// Where the carriage really is, mm.
    pub(crate) fn at(&self, axis: &str) -> f64 {
        self.bench.carriage_mm("chain", axis)
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.bench.fault("chain", fault).expect("the fault is possible");
    }
}
