//! Pure judgement: may this happen, in this state, at this moment? [`Rules`] answer anywhere, for previews.
//! Only the [`Panel`], which the rig thread owns, turns a yes into a [`Cleared`] that a driver accepts.

mod asks;
mod budget;
mod conditions;
mod detour;
mod dose;
mod homing;
mod judge;
mod keep_out;
mod outputs;
mod panel;
mod path;
mod permit;
mod ready;
mod room;
mod spent;
mod stopping;
#[cfg(test)]
mod tests;
mod travel;

pub use crate::model::Ask;
pub use asks::Order;
pub use conditions::Standing;
pub use homing::no_homing;
pub use judge::{Rules, Verdict};
pub use panel::{Cleared, Panel};
pub use path::{Drive, DriveAxis, HomeDrive, Leg, StageTraits};
pub use permit::{Held, Permit};
pub use stopping::deceleration;
