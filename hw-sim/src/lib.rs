//! A simulated lab bench: stages, controllers that speak their protocol byte for byte, a camera that sees a specimen.
//!
//! A [`Bench`] steps on a clock that is handed to it and takes all randomness from a seed, so that every run can be
//! repeated. Its devices know nothing of each other's truth: a controller counts pulses, a carriage may be elsewhere.
//! [`serve`] is the thin shell that puts a bench on pseudo-terminals and TCP in real time.
//!
//! ```
//! use std::time::Duration;
//!
//! let mut bench = hw_sim::Bench::microscope(1);
//! bench.advance(Duration::from_secs(2));
//! assert!(bench.read("scope").starts_with(b"\r\nGrbl 1.1h"));
//! bench.write("scope", b"$H\n");
//! bench.advance(Duration::from_secs(20));
//! assert!((bench.carriage_mm("scope", "x") - 74.0).abs() < 0.01);
//! ```
//!
//! In reading order: [`Bench`], the line (`port`), the stage (`mechanics`), the controllers (`grbl`, `zaber`, `asi`), the
//! camera (`camera`), the box of outputs and sensors (`io`), the control socket (`control`), real time ([`serve`]).

mod asi;
mod bench;
mod camera;
mod config;
mod control;
mod fault;
mod grbl;
mod io;
mod mechanics;
mod memory;
mod motion;
mod port;
pub mod serve;
mod zaber;

pub use bench::{Bench, BenchError, DeviceInfo, PortKind};
pub use fault::Fault;

/// The bench file of the demonstration microscope: a GRBL stage `scope` and a camera `cam`.
pub const MICROSCOPE_TOML: &str = include_str!("../bench/microscope.toml");

/// The bench file of a GRBL stage `scope`, a chain of two Zaber devices `chain`, and a camera `cam`.
pub const ZABER_TOML: &str = include_str!("../bench/zaber.toml");

/// The bench file of an ASI controller `scope` with axes X, Y and Z.
pub const ASI_TOML: &str = include_str!("../bench/asi.toml");
