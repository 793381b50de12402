//! The rig thread: the one owner of all hardware, and the handle that everybody else has on it.

mod handle;
mod message;
mod sync;

pub use handle::{Clock, RigHandle};
pub use message::Ticket;
pub use sync::MAX_STAGES;
