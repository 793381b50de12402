//! How clients get in: the protocol's ways to the tools, hardened against what clients really send.

pub mod awake;
pub mod http;
pub mod local;
pub mod stdio;
