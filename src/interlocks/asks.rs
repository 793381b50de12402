//! What a person is asked before it happens: the interlocks that neither allow nor refuse by themselves, and the form
//! of a command to which a person's yes is bound.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::conditions::Ahead;
use super::judge::Rules;
use crate::config::Homing;
use crate::model::{Aim, Ask, Digest, Home, Kind, Move, Name, OutputValue, SetOutput, Shot, Snapshot, Trust};
use crate::units::{Position, plain};

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

impl<'a> Order<'a> {
    /// The stage that it moves.
    pub fn stage(self) -> Option<&'a Name> {
        match self {
            Order::Move(m) => Some(&m.stage),
            Order::Home(h) => Some(&h.stage),
            Order::Shot(_) | Order::Set(_) => None,
        }
    }

    /// Its kind, as an allowance names it.
    pub fn kind(self) -> Kind {
        match self {
            Order::Move(_) => Kind::Move,
            Order::Home(_) => Kind::Home,
            Order::Shot(_) => Kind::Shot,
            Order::Set(_) => Kind::Output,
        }
    }
}

impl Rules {
    /// Why a person is asked before this; empty when nobody is. Refusals are judged apart, and no yes outweighs one.
    pub fn asks(&self, order: Order<'_>, state: &Snapshot) -> Vec<Ask> {
        let by_rules = || self.gates(Ahead { order, drive: None }, state).1;
        let own: Vec<Ask> = match order {
            Order::Home(home) => self.asks_before_homing(home).into_iter().chain(by_rules()).collect(),
            Order::Move(movement) => {
                let blind = self.asks_before_a_blind_step(movement, state).into_iter();
                blind.chain(self.rules_ask(movement, state)).collect()
            }
            Order::Shot(shot) => {
                // Its light is opened for it, by the same yes.
                let light = self.rig().camera(shot.camera.as_str()).and_then(|c| c.light.as_ref());
                let set = light.map(|l| SetOutput { output: l.output.clone(), value: l.open.clone() });
                let light = set.map(|set| self.asks(Order::Set(&set), state)).unwrap_or_default();
                by_rules().into_iter().chain(light).collect()
            }
            // Nobody is ever asked before something is made dark or safe.
            Order::Set(set) if self.darkens(set) => Vec::new(),
            Order::Set(_) => by_rules(),
        };
        let mut each: Vec<Ask> = Vec::new();
        for ask in own {
            if !each.iter().any(|a| a.rule == ask.rule) {
                each.push(ask);
            }
        }
        each
    }

    fn darkens(&self, set: &SetOutput) -> bool {
        let dark = !matches!(set.value, OutputValue::At(_)) && !set.value.is_lit();
        dark || self.rig().output(set.output.as_str()).and_then(|o| o.safe()) == Some(&set.value)
    }

    /// `home = { order = [...], ask = "operator" }`.
    fn asks_before_homing(&self, home: &Home) -> Option<Ask> {
        let stage = self.rig().stage(home.stage.as_str())?;
        let Homing::Cycle { ask: true, .. } = &stage.home else { return None };
        let text = format!(
            "Homing {} moves its axes until they meet their reference, without regard to targets or to keep-outs of that \
             stage.",
            stage.id
        );
        Some(Ask { rule: format!("homing of {}", stage.id), why: stage.why.clone(), text })
    }

    /// `blind_step`: a slow relative step of an axis whose position nobody knows.
    fn asks_before_a_blind_step(&self, movement: &Move, state: &Snapshot) -> Option<Ask> {
        let stage = self.rig().stage(movement.stage.as_str())?;
        let blind = self.blind(movement, state);
        let axes: Vec<String> = blind.iter().map(|a| format!("{}.{a}", stage.id)).collect();
        let first = stage.axis(blind.first()?.as_str())?;
        let text = format!(
            "Nobody knows where {} stands, so neither its travel nor keep-outs can be judged. The step is slow, a tenth \
             of the speed: look at the stage while it moves.",
            axes.join(" and ")
        );
        Some(Ask { rule: format!("blind step of {}", axes.join(" and ")), why: first.why.clone(), text })
    }

    /// The axes of a move that would go a step without a position that can be believed: relative, no longer than the
    /// rig file's `blind_step`.
    pub(super) fn blind(&self, movement: &Move, state: &Snapshot) -> Vec<Name> {
        let Aim::By { offsets, .. } = &movement.aim else { return Vec::new() };
        let Some(stage) = self.rig().stage(movement.stage.as_str()) else { return Vec::new() };
        let Some(status) = state.stage(movement.stage.as_str()) else { return Vec::new() };
        let unknown = |name: &Name| status.axis(name.as_str()).is_some_and(|a| a.trust == Trust::Unknown);
        let short = |name: &Name, way: crate::units::Distance| {
            stage.axis(name.as_str()).and_then(|a| a.blind_step).is_some_and(|step| way.abs() <= step)
        };
        let blind = offsets.iter().filter(|(name, way)| unknown(name) && short(name, *way));
        blind.map(|(name, _)| name.clone()).collect()
    }

    /// The hash of a command in its canonical form: what it does, on which device, to where, how fast. Positions and
    /// distances are taken bit by bit. The state on which it is judged is bound by the stage's epoch instead, so that
    /// the noise of an encoder is no change.
    pub fn digest(&self, order: Order<'_>, state: &Snapshot) -> Digest {
        let mut text = format!("steadyhand command 1\nrig {}\n", self.rig().name);
        let targets = |text: &mut String, list: &[(Name, Position)]| {
            for (name, p) in list {
                let _ = writeln!(text, "to {name} {:016x}", p.in_base().to_bits());
            }
        };
        let _ = match order {
            Order::Move(m) => {
                let _ = writeln!(text, "move {}", m.stage);
                match &m.aim {
                    Aim::To(list) => targets(&mut text, list),
                    Aim::Back => {
                        let back = state.stage(m.stage.as_str()).and_then(|s| s.came_from.as_ref());
                        targets(&mut text, back.map_or(&[][..], |b| b));
                    }
                    Aim::By { offsets, from } => {
                        for (name, way) in offsets {
                            let _ = writeln!(text, "by {name} {:016x}", way.in_base().to_bits());
                        }
                        let _ = writeln!(text, "from {}", from.0);
                    }
                }
                let slow = self.blind(m, state);
                writeln!(text, "slow {}", slow.iter().map(Name::as_str).collect::<Vec<_>>().join(" "))
            }
            Order::Home(h) => {
                let axes = h.axes.iter().map(Name::as_str).collect::<Vec<_>>().join(" ");
                writeln!(text, "home {} {axes}", h.stage)
            }
            // Rust writes each number so that it reads back as the same.
            Order::Shot(s) => writeln!(text, "shot {} {:?}", s.camera, s.change),
            Order::Set(s) => writeln!(text, "set {} {:?}", s.output, s.value),
        };
        Digest(Sha256::digest(text.as_bytes()).into())
    }

    /// What would happen, in words for the person who decides: from, to, with units.
    pub fn words(&self, order: Order<'_>, state: &Snapshot) -> String {
        match order {
            Order::Move(m) => self.words_of_a_move(m, state),
            Order::Home(h) => {
                let stage = self.rig().stage(h.stage.as_str());
                let all = || stage.map(|s| s.axes.iter().map(|a| a.id.axis.clone()).collect()).unwrap_or_default();
                let axes: Vec<Name> = if h.axes.is_empty() { all() } else { h.axes.clone() };
                let order: Vec<&str> = match stage.map(|s| &s.home) {
                    Some(Homing::Cycle { order, .. }) => {
                        order.iter().filter(|a| axes.contains(a)).map(Name::as_str).collect()
                    }
                    _ => axes.iter().map(Name::as_str).collect(),
                };
                let now: Vec<String> = axes.iter().map(|a| self.place(&h.stage, a, state)).collect();
                format!("home {}, axes {} in this order; now {}", h.stage, order.join(", "), now.join(", "))
            }
            Order::Shot(s) => {
                let exposure = s.change.exposure_ms.or_else(|| {
                    state.camera(s.camera.as_str()).and_then(|c| c.settings.as_ref()).map(|c| c.exposure_ms)
                });
                let exposure = exposure.map_or(String::new(), |ms| format!(" for {} ms", plain(ms)));
                format!("expose {}{exposure}", s.camera)
            }
            Order::Set(s) => {
                let is = state.output(s.output.as_str()).and_then(|o| o.value.as_ref());
                let is = is.map_or("unknown".into(), OutputValue::to_string);
                format!("set {} from {is} to {}", s.output, s.value)
            }
        }
    }

    fn words_of_a_move(&self, m: &Move, state: &Snapshot) -> String {
        let Ok(resolved) = self.resolve(m, state) else { return format!("move {}", m.stage) };
        let blind = self.blind(m, state);
        let parts = resolved.from.iter().zip(&resolved.targets).map(|((name, from), (_, to))| {
            let id = crate::model::AxisId { stage: m.stage.clone(), axis: name.clone() };
            let unit = self.rig().axis(&id).map_or(crate::units::Unit::Mm, |a| a.unit);
            if blind.contains(name) {
                let way = (*to - *from).to(unit);
                return format!("{name} by {}{} {unit} from an unknown position, slowly", sign(way), plain(way.abs()));
            }
            format!("{name} from {} to {}", self.rig().show(&id, *from), self.rig().show(&id, *to))
        });
        format!("move {}: {}", m.stage, parts.collect::<Vec<_>>().join(", "))
    }

    /// `x 12.5 mm (referenced)`.
    fn place(&self, stage: &Name, axis: &Name, state: &Snapshot) -> String {
        let id = crate::model::AxisId { stage: stage.clone(), axis: axis.clone() };
        match state.stage(stage.as_str()).and_then(|s| s.axis(axis.as_str())) {
            Some(now) => match now.position {
                Some(p) => format!("{axis} {} ({})", self.rig().show(&id, p), now.trust),
                None => format!("{axis} unknown"),
            },
            None => format!("{axis} unknown"),
        }
    }
}

fn sign(way: f64) -> &'static str {
    if way < 0.0 { "-" } else { "+" }
}
