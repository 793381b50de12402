//! One stage on the chain: what is known of its axes, what it does by our order, what it has to tell.

use std::collections::BTreeMap;
use std::time::Duration;

use super::codec::{Flag, NONE, Target};
use super::identify::{Known, Learnt};
use super::orders::{Motion, Order};
use super::words::{Follows, NI, all_words, flag_words, follows};
use crate::config;
use crate::devices::{MotionState, Reading, StageEvent};
use crate::model::{Code, Time};
use crate::units::Position;

/// An axis that should move may say that it stands for so long after its command was taken.
const START: Duration = Duration::from_millis(300);

/// How far a stage has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The port is closed.
    Closed,
    /// Its first device is asked for from then on.
    Seek {
        /// When it is asked next.
        at: Time,
    },
    /// That question of its identification is next.
    Identify(usize),
    /// Known.
    Ready,
}

/// One axis.
pub(super) struct Axis {
    pub(super) config: config::Axis,
    pub(super) target: Target,
    /// The newest count.
    pub(super) count: Option<f64>,
    pub(super) busy: bool,
    /// The most important warning, as the newest reply had it.
    pub(super) top: Flag,
    /// All warnings, as far as they are known.
    pub(super) flags: Vec<Flag>,
    /// All warnings must be asked for.
    pub(super) ask_flags: bool,
    /// What it told of itself.
    pub(super) learnt: Learnt,
    /// Where its motion ends, in counts, from the moment when it was taken.
    pub(super) goal: Option<(f64, Time)>,
}

impl Axis {
    /// How far a count goes in mm or degrees; config sees to it that there is one.
    pub(super) fn size(&self) -> f64 {
        self.config.count.map_or(f64::NAN, |c| c.in_base())
    }

    /// The axis for people: its name and its place on the chain.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.config.id, self.target)
    }

    /// The count for a rig position.
    pub(super) fn count_for(&self, rig: Position) -> f64 {
        (self.config.to_counter(rig) / self.size()).round()
    }

    /// The rig position for a count.
    pub(super) fn rig(&self, count: f64) -> Option<Position> {
        self.config.to_rig(count * self.size())
    }

    /// Whether it is without a reference.
    pub(super) fn is_unreferenced(&self) -> bool {
        self.flags.iter().any(|f| follows(*f) == Follows::Unreferenced)
    }

    /// Forgets what its next motion ends by itself, so that what is there afterwards is new.
    pub(super) fn forget_passing(&mut self) {
        self.flags.retain(|f| follows(*f) == Follows::Unreferenced);
        self.top = NONE;
        self.goal = None;
    }

    /// What keeps it from moving, in words.
    pub(super) fn hindrance(&self) -> Option<String> {
        self.held().map(|flag| format!("{} says {}", self.name(), flag_words(flag)))
    }

    /// The fault that keeps it from moving, if there is one. A stall does not: the next motion ends it.
    fn held(&self) -> Option<Flag> {
        self.flags.iter().copied().find(|f| matches!(follows(*f), Follows::Fault { .. }))
    }
}

/// A reading in progress: when its first question was asked, and which axis is next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) asked_at: Time,
    pub(super) next: usize,
}

/// A stop that was sent and not acknowledged by all.
pub(super) struct Stopping {
    /// The numbers under which it went out.
    pub(super) ids: Vec<u8>,
    /// Who has not answered.
    pub(super) open: Vec<Target>,
    pub(super) sent: Time,
    pub(super) again: u32,
    pub(super) word: &'static str,
}

/// One stage.
pub(super) struct Unit {
    pub(super) axes: Vec<Axis>,
    pub(super) phase: Phase,
    pub(super) events: Vec<StageEvent>,
    pub(super) orders: std::collections::VecDeque<Order>,
    pub(super) motion: Option<Motion>,
    pub(super) poll_wanted: bool,
    pub(super) round: Option<Round>,
    pub(super) stopping: Option<Stopping>,
    /// Something moved there when the connection was lost, or a stop could not be given: it is stopped as soon as
    /// somebody hears it.
    pub(super) stop_owed: bool,
    /// Since when an address has left questions unanswered.
    pub(super) silent: BTreeMap<u8, Time>,
    /// Since when it is sought.
    pub(super) sought: Option<Time>,
    /// Who was at each address when it was first identified.
    pub(super) known: BTreeMap<u8, Known>,
    /// A release of its warnings is under way: what was refused of it.
    pub(super) clearing: Option<Vec<String>>,
    /// What was unusual when it was identified.
    pub(super) notes: Vec<String>,
}

impl Unit {
    pub(super) fn new(stage: &config::Stage) -> Unit {
        let axes = stage.axes.iter().map(|a| Axis {
            config: a.clone(),
            // config refuses other channels; nobody answers at address 0.
            target: super::channel(&a.channel).unwrap_or(Target { address: 0, axis: 0 }),
            count: None,
            busy: false,
            top: NONE,
            flags: Vec::new(),
            ask_flags: false,
            learnt: Learnt::default(),
            goal: None,
        });
        Unit {
            axes: axes.collect(),
            phase: Phase::Closed,
            events: Vec::new(),
            orders: std::collections::VecDeque::new(),
            motion: None,
            poll_wanted: false,
            round: None,
            stopping: None,
            stop_owed: false,
            silent: BTreeMap::new(),
            sought: None,
            known: BTreeMap::new(),
            clearing: None,
            notes: Vec::new(),
        }
    }

    pub(super) fn tell(&mut self, event: StageEvent) {
        self.events.push(event);
    }

    pub(super) fn has(&self, address: u8) -> bool {
        self.axes.iter().any(|a| a.target.address == address)
    }

    /// Whether axes move or may move.
    pub(super) fn may_move(&self) -> bool {
        self.motion.is_some() || self.stopping.is_some() || self.axes.iter().any(|a| a.busy)
    }

    /// Forgets all that belongs to a connection, but not that something may still move there.
    pub(super) fn forget(&mut self) {
        self.stop_owed |= self.may_move();
        self.orders.clear();
        self.motion = None;
        self.poll_wanted = false;
        self.round = None;
        self.stopping = None;
        self.silent.clear();
        self.sought = None;
        self.clearing = None;
        for axis in &mut self.axes {
            axis.busy = false;
            axis.goal = None;
            axis.top = NONE;
            axis.flags.clear();
            axis.ask_flags = false;
            axis.count = None;
        }
    }

    /// A reply of that axis: whether it moves, and its most important warning.
    pub(super) fn status(&mut self, index: usize, busy: bool, flag: Flag) {
        let axis = &mut self.axes[index];
        axis.busy = busy;
        // Behind one that counts for more the loss of the reference would not show.
        let hides = flag[0].is_ascii_uppercase() && flag[0] != b'N' && follows(flag) != Follows::Unreferenced;
        if flag == axis.top && !hides {
            return;
        }
        axis.top = flag;
        axis.ask_flags = flag != NONE;
        if flag == NONE {
            axis.flags.clear();
        }
    }

    /// All warnings of an axis are known. What is new has consequences.
    pub(super) fn flagged(&mut self, index: usize, all: Vec<Flag>) {
        let ready = self.phase == Phase::Ready;
        let homing = self.motion.as_ref().is_some_and(Motion::is_home);
        let axis = &mut self.axes[index];
        axis.ask_flags = false;
        let before = std::mem::replace(&mut axis.flags, all.clone());
        let new: Vec<Flag> = all.into_iter().filter(|f| !before.contains(f)).collect();
        if !ready || new.is_empty() {
            return;
        }
        let name = axis.name();
        let was_referenced = !before.iter().any(|f| follows(*f) == Follows::Unreferenced);
        let words = all_words(&new);
        let any = |wanted: fn(Follows) -> bool| new.iter().any(|f| wanted(follows(*f)));
        if any(|f| f == Follows::Stalled) {
            self.fail(Code::Stalled, format!("{name} stalled: it says {words}."), true);
        } else if let Some(f) = new.iter().find(|f| matches!(follows(**f), Follows::Fault { .. })) {
            let lost = follows(*f) == Follows::Fault { lost: true };
            self.fail(Code::Alarm, format!("{name} says {words}."), lost);
        } else if any(|f| f == Follows::Unreferenced) && was_referenced && !homing {
            self.orders.clear();
            self.motion = None;
            self.round = None;
            self.phase = Phase::Identify(0);
            let what = format!("{name} says {words}, as after a restart: it had a reference before.");
            self.tell(StageEvent::Reset { what });
        } else if any(|f| !matches!(f, Follows::Unreferenced | Follows::Interrupted)) {
            self.tell(StageEvent::Note(format!("{name} says {words}.")));
        }
    }

    /// A motion is over because of what an axis said, and nothing moves before that is cleared.
    fn fail(&mut self, code: Code, what: String, position_lost: bool) {
        let homing = self.motion.take().is_some_and(|m| m.is_home());
        self.orders.clear();
        if homing {
            self.tell(StageEvent::HomingFailed { what: what.trim_end_matches('.').to_owned() });
        }
        self.tell(StageEvent::Failed { code, what, position_lost });
    }

    /// All axes have been asked: what they said together, and what it means for what runs.
    pub(super) fn read(&mut self, round: Round, now: Time) {
        self.progress(round.asked_at, now);
        let homing = self.motion.as_ref().is_some_and(Motion::is_home);
        let busy = self.axes.iter().any(|a| a.busy);
        let held = self.axes.iter().find_map(|a| Some((a.held()?, a.name())));
        let motion = match held {
            _ if homing && (busy || self.motion.is_some()) => MotionState::Homing,
            _ if busy => MotionState::Moving,
            Some((flag, name)) => MotionState::Held(format!("{} of {name}", flag_words(flag))),
            None => MotionState::Idle,
        };
        let positions = self.axes.iter().map(|a| a.rig(a.count?)).collect();
        let at_limit = vec![false; self.axes.len()];
        self.tell(StageEvent::Reading(Reading { asked_at: round.asked_at, motion, positions, at_limit }));
    }

    /// What a round of readings means for the motion in progress.
    fn progress(&mut self, asked_at: Time, now: Time) {
        match &self.motion {
            Some(Motion::Home { .. }) => self.home_on(asked_at, now),
            Some(Motion::Move { accepted: Some(at), .. }) if *at <= asked_at => {
                if self.axes.iter().any(|a| a.busy) {
                    return;
                }
                let astray = self.axes.iter().find(|a| {
                    let tolerance = a.config.tolerance.in_base() / a.size();
                    let off = |(goal, _): (f64, Time)| a.count.is_none_or(|c| (c - goal).abs() > tolerance);
                    a.flags.contains(&NI) && a.goal.is_some_and(off)
                });
                let interrupted = astray.map(Axis::name);
                self.motion = None;
                if let Some(name) = interrupted {
                    let what = format!(
                        "{name} stopped before its target: {}, by a knob or by another program.",
                        flag_words(NI)
                    );
                    self.tell(StageEvent::Ended { code: Code::Stopped, what });
                }
            }
            _ => {}
        }
    }

    /// The axis that homes has come to rest, or not yet. Its newest status counts, not that something changed.
    fn home_on(&mut self, asked_at: Time, now: Time) {
        let Some(Motion::Home { current: Some((index, Some(accepted))), seen, .. }) = &mut self.motion else { return };
        let axis = &self.axes[*index];
        if asked_at < *accepted {
            return;
        }
        if axis.busy {
            *seen = true;
            return;
        }
        if !*seen && now.since(*accepted) < START {
            return;
        }
        let name = axis.name();
        if axis.is_unreferenced() {
            self.motion = None;
            let words = all_words(&axis.flags);
            self.tell(StageEvent::HomingFailed { what: format!("{name} came to rest and says {words}") });
        } else if axis.flags.contains(&NI) {
            self.motion = None;
            self.tell(StageEvent::HomingFailed { what: format!("{name} was interrupted: {}", flag_words(NI)) });
        } else if let Some(order) = self.motion.as_mut().and_then(|m| m.next_home(&self.axes, now)) {
            self.orders.push_back(order);
        } else {
            self.motion = None;
            self.tell(StageEvent::Homed);
        }
    }
}
