//! One owner for one rig on this machine: who holds the lock owns the ports, and all others come to it over local
//! sockets, which only the same user can open.
//!
//! | part | what it is |
//! |---|---|
//! | `folder` | where locks and sockets lie, and which rig they belong to |
//! | `lock` | ownership: a lock of the operating system, which a crash releases |
//! | `wire` | a line there and a line back: a person's requests, and a session's first words |
//! | `control` | the socket for stop, status and the like, on threads of its own: it needs no runtime |
//! | `sessions` | the socket for clients of other processes |
//! | `relay` | what such a process does: it passes lines on, and outlives the owner |

mod control;
mod folder;
mod lock;
mod relay;
mod sessions;
mod wire;

pub use control::listen;
pub use folder::{Place, places};
pub use lock::{About, Ownership, Sole};
pub use relay::{Hello, Over, Relay, Served, Upstream, seek};
pub use sessions::{Sessions, until_end};
pub use wire::{Request, Trouble, ask, request_as_client};
