//! The MCP face: what a model or a workflow can call, what it must give, and what it reads in return. Thin:
//! facts come from below, and every motion is judged there.
//!
//! | part | what it is |
//! |---|---|
//! | `face` | the server's handler: list, check, call, answer |
//! | `registry` | the table of all tools |
//! | `schema`, `args` | what tools take, and reading it |
//! | `answer`, `recovery`, `words` | results; errors with their next step; positions in words |
//! | `background` | the threads on which pixels and files are worked on |
//! | `book`, `wait`, `call` | commands that run, and waiting for them |
//! | `turns`, `progress` | the order of a client's calls; signs of life of a long one |
//! | `presence`, `readiness` | which devices are there, for the list; what keeps the rig from being ready |
//! | `seats`, `tally`, `front`, `approvals` | who is served; which codes were answered; what the local socket asks for; what waits for a person's yes |
//! | `elicit` | asking a client's user for it |
//! | `describe`, `state`, `motion`, `stopping`, `jobs`, `outputs`, `camera`, `picture`, `region`, `images`, `eaa` | the tools |

mod answer;
mod approvals;
mod args;
mod background;
mod book;
mod call;
mod camera;
mod checks;
mod describe;
mod eaa;
mod elicit;
mod face;
mod front;
mod homed;
mod images;
mod jobs;
mod motion;
mod outputs;
mod picture;
mod presence;
mod progress;
mod prompts;
mod readiness;
mod record;
mod recovery;
mod region;
mod registry;
mod rules;
mod schema;
mod seats;
mod state;
mod stopping;
mod tally;
mod turns;
mod valid;
mod wait;
mod words;

pub use approvals::AllowRequest;
pub use call::{Live, RigPart};
#[doc(hidden)]
pub use checks::ArgumentChecks;
pub use face::{Face, Parts};
pub use front::{Said, lost_call};
#[cfg(test)]
pub(crate) use registry::is_tool;
pub use registry::may_be_large;
pub use seats::{Seat, Seated, Visit};
pub use turns::{Turn, Turnstile};

use std::sync::Arc;
use std::time::Duration;

use answer::ToolError;
use background::blocking;

use crate::actor::RigHandle;
use crate::model::Snapshot;

/// The state once `holds`, or as it is after half a second: an order's answer can be a moment earlier than the
/// published state that shows its effect.
async fn settled(handle: &RigHandle, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut changes = handle.changes();
    let wait = changes.wait_for(|s| holds(s));
    // Whether it came, ended or took too long: the newest state is the answer.
    let _ = tokio::time::timeout(Duration::from_millis(500), wait).await;
    handle.snapshot()
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
