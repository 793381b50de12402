//! What a person is asked before it happens: the interlocks that neither allow nor refuse by themselves.

use super::judge::Rules;
use crate::config::Homing;
use crate::model::{Ask, Home, Move, SetOutput, Shot, Snapshot};

/// What is to be done, as an interlock sees it before it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order<'a> {
    /// A move.
    Move(&'a Move),
    /// A search for the reference.
    Home(&'a Home),
    /// An exposure.
    Shot(&'a Shot),
    /// A change of an output.
    Set(&'a SetOutput),
}

impl Rules {
    /// Why a person is asked before this; empty when nobody is. Refusals are judged apart, and no yes outweighs one.
    pub fn asks(&self, order: Order<'_>, _state: &Snapshot) -> Vec<Ask> {
        match order {
            Order::Home(home) => self.asks_before_homing(home).into_iter().collect(),
            Order::Move(_) | Order::Shot(_) | Order::Set(_) => Vec::new(),
        }
    }

    /// `home = { order = [...], ask = "operator" }`.
    fn asks_before_homing(&self, home: &Home) -> Option<Ask> {
        let stage = self.rig().stage(home.stage.as_str())?;
        let Homing::Cycle { ask: true, .. } = &stage.home else { return None };
        let text = format!(
            "Homing {} moves its axes until they meet their reference, without regard to targets or keep-outs of that stage.",
            stage.id
        );
        Some(Ask { rule: format!("homing of {}", stage.id), why: stage.why.clone(), text })
    }
}
