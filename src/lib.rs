//! steadyhand lets an AI assistant or a workflow drive a lab's motion stages and cameras over the Model
//! Context Protocol. It refuses, stops and records, whoever gives the orders.
//!
//! # The map, in reading order
//!
//! | layer | what it is |
//! |---|---|
//! | [`units`] | finite quantities with a unit; the only place where units convert |
//! | [`model`] | the shared words |
//! | [`config`] | the rig file: schema, checks, problems with their lines |
//! | [`interlocks`] | pure judgement: `Rules` judge anywhere, only the `Panel` clears |
//! | [`devices`] | drivers and links; nothing here ever waits |
//! | [`imaging`], [`store`] | pixels to pictures and numbers; files, the audit log |
//! | [`plans`] | step machines that the rig thread runs |
//! | [`actor`] | the rig thread: the one owner of all hardware |
//! | [`access`] | who may do what |
//! | [`tools`] | the MCP face: parameters, results, errors with the next step |
//! | [`gateway`] | how clients get in |
//! | [`flash`] | settings of controllers, written with a way back |
//! | [`cli`] | the commands |
//!
//! A layer imports only what stands above it here (`imaging`, `store`, `plans` and `access` a little less:
//! `tests/layers.rs` has the table and proves it).
//!
//! # What always holds
//!
//! 1. Nothing moves without a [`interlocks::Cleared`], made by the rig thread's own `Panel` right before the
//!    bytes go out.
//! 2. Stopping needs nothing: no clearance, no queue, no permission.
//! 3. Drivers never wait. They are ticked with the time and give back when they want to be ticked again.
//! 4. A missing limit is a refusal to start. Out of range is refused, never clamped.
//! 5. Arrival is proved by readback; an acknowledgement is not an arrival.
//! 6. Each position has a trust, and everything that could break it lowers it.
//! 7. Every reply says whether anything moved.
//! 8. Motion is never repeated by the program.
//! 9. A caller that goes before its answer takes its motion with it.
//! 10. Only a positive acknowledgement is success.
//! 11. Standard output belongs to the protocol.

pub mod access;
pub mod actor;
pub mod cli;
pub mod config;
pub mod devices;
pub mod flash;
pub mod gateway;
pub mod imaging;
pub mod interlocks;
pub mod model;
pub mod plans;
pub mod store;
pub mod tools;
pub mod units;
