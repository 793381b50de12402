//! The words of approvals: what a person is asked, what waits for a person, and what a person has allowed beforehand.

use std::fmt;
use std::time::Duration;

use super::{AxisId, Caller, Epoch, JobId, Moved, Name, Time};
use crate::units::Span;

/// Why a person has to say yes before something happens: what an interlock finds when it neither allows nor refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The interlock's name in the rig file (`homing of sample`, `deep focus`). A yes is bound to it.
    pub rule: String,
    /// The owner's words, where the rig file has some.
    pub why: Option<String>,
    /// What a person has to know to decide, as a sentence with numbers and units.
    pub text: String,
}

/// SHA-256 of a command in its canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A command that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its name, by which a person grants it; none comes again, also not after a restart.
    pub id: Name,
    /// The job that waits.
    pub job: JobId,
    /// Who gave the command.
    pub caller: Caller,
    /// What would happen, in words: stage, from, to, with units.
    pub what: String,
    /// The stage that would move.
    pub stage: Option<Name>,
    /// The state of that stage to which a yes is bound.
    pub epoch: Option<Epoch>,
    /// The command to which a yes is bound.
    pub digest: Digest,
    /// Why a person is asked.
    pub asks: Vec<Ask>,
    /// What its job has moved before it came to this.
    pub moved: Moved,
    /// When it was asked.
    pub asked_at: Time,
    /// When nobody is waited for any more.
    pub until: Time,
}

/// The kinds of what an allowance can cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Moves, as far as they stay inside the box.
    Move,
    /// Homing, which leaves any box.
    Home,
    /// Exposures.
    Shot,
    /// Changes of outputs.
    Output,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Move, Kind::Home, Kind::Shot, Kind::Output];

    /// The word for it on the command line and in results.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Move => "move",
            Kind::Home => "home",
            Kind::Shot => "shot",
            Kind::Output => "output",
        }
    }

    /// The kind of that word.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.word() == word)
    }
}

/// What a person allows beforehand, so that nobody need be asked while a run goes on unattended. It answers what a
/// person would be asked, and nothing else: what is refused stays refused.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowed {
    /// Where moves may be: the whole way of each axis that moves. An axis that isn't named is not covered.
    pub bounds: Vec<(AxisId, Span)>,
    /// Only this stage; all without it.
    pub stage: Option<Name>,
    /// What may be done.
    pub kinds: Vec<Kind>,
    /// How many commands it answers for.
    pub steps: u32,
    /// How long it lasts.
    pub lasts: Duration,
}

/// An allowance that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    /// What it allows.
    pub allowed: Allowed,
    /// Who gave it, in that person's words.
    pub by: String,
    /// When it ends by itself.
    pub until: Time,
    /// For how many commands it is still good.
    pub left: u32,
}
