//! The rig thread: the one owner of all hardware, and the handle that everybody else has on it.
//!
//! Reading order: [`worker`](Worker) (a pass), `job` (a plan that runs), `stage`, `camera`, `output`, `sensor` (a
//! device under the rig thread), `fence` (around its driver), `motion` (proof of arrival and standstill), `person` (what only a person may
//! order), `approval` (what waits for a person's yes), `lost` (clients that are gone), `watchdog` (stops what moves when
//! this thread can't), `message`, `handle`, `sync` (made of `primitives`, so that
//! `schedules` can try the orders in which the threads may run), `thread`.

mod approval;
mod camera;
mod fence;
mod handle;
mod job;
mod journal;
mod lost;
mod message;
mod motion;
mod output;
mod person;
mod primitives;
mod record;
#[cfg(test)]
mod schedules;
mod sensor;
mod stage;
mod sync;
mod thread;
mod watchdog;
mod watches;
mod worker;

pub use handle::{Clock, RigHandle};
pub use journal::{Entry, Journal};
pub use message::{Decision, Ticket};
pub use sync::MAX_STAGES;
pub use thread::{Sleeper, assemble, look_round, settle, spawn};
pub use worker::Worker;
