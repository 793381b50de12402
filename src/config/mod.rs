//! The rig file: schema, checks, and problems with file, line and remedy.

mod rig;

pub use rig::*;
