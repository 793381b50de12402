//! Settings of controllers, written into the memory that outlives the power: what `steadyhand flash` does.
//!
//! | part | what it is |
//! |---|---|
//! | [`profile`] | a file with the settings that a controller shall have, or had (a backup) |
//! | [`plan`] | a profile held against a controller: what would change, and why it must not |
//! | [`shipped`] | the profiles that come with the program |
//! | [`run`] | the steps of a run, one order at a time, with the way back; pure |
//! | [`journal`] | what is being changed, on disk before the first byte, until it is done or undone |
//!
//! Nothing here moves an axis.

pub mod journal;
pub mod plan;
pub mod profile;
pub mod run;
pub mod shipped;

use crate::devices::settings::{Order, Settings, SettingsEvent};
use crate::devices::{driver, link};
use crate::{config, model};
use run::{Goal, Outcome, Run, Step};

/// Who carries out what a run wants: on a real port with a person, or on a bench.
pub trait Hands {
    /// Gives the controller an order, and waits for its answer.
    fn order(&mut self, order: Order) -> SettingsEvent;

    /// Writes the journal.
    ///
    /// # Errors
    /// Why it could not be written.
    fn keep(&mut self, goal: Goal) -> Result<(), String>;

    /// Asks the person to switch the controller off and on; whether they will.
    fn power_cycle(&mut self) -> bool;

    /// Whether somebody has asked for the end since this was asked last.
    fn ended(&mut self) -> bool;

    /// Shows how far it is.
    fn progress(&mut self, run: &Run);
}

/// Carries out a run to its end.
pub fn carry_out(run: &mut Run, hands: &mut dyn Hands) -> Outcome {
    loop {
        hands.progress(run);
        match run.step() {
            Step::Order(order) => run.answer(hands.order(order)),
            Step::Keep(goal) => run.kept(hands.keep(goal)),
            Step::PowerCycle => run.person(hands.power_cycle()),
            Step::Over(outcome) => return outcome,
        }
        if hands.ended() {
            run.turn_back();
        }
    }
}

/// A conversation with the controller of that driver at the end of a link.
///
/// # Errors
/// `unsupported` when that driver writes no settings.
pub fn open(name: &str, link: &config::Link, address: u8) -> Result<Box<dyn Settings>, model::RigError> {
    let keeping = driver(name).and_then(|d| d.keeping).ok_or_else(|| {
        let what = format!("Driver {name} writes no settings; those that do: {}.", profile::drivers().join(", "));
        model::RigError::new(model::Code::Unsupported, what)
    })?;
    Ok((keeping.open)(link::connector(link), address))
}
