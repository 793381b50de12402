//! From keys to steps, and from the stage's state to what the person sees. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::config::{Axis, Stage};
use crate::model::{Name, StageStatus, Trust};
use crate::units::{Distance, plain};

/// What a key asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Nothing,
    Step(Name, Distance),
    Home,
    Stop,
    Release,
    Quit,
}

/// The keys and steps of one stage.
pub(super) struct Hand {
    stage: Name,
    axes: Vec<Axis>,
    /// One step of each axis, in its unit.
    steps: Vec<f64>,
    /// Home was asked for once: the next time counts.
    home_asked: bool,
    message: Option<String>,
}

/// A step is at most this share of the travel.
const LARGEST: f64 = 0.1;
/// The step at the beginning, as a share of the travel.
const FIRST: f64 = 0.001;

impl Hand {
    pub(super) fn new(stage: &Stage) -> Hand {
        let steps = stage.axes.iter().map(|a| ladder(FIRST * length(a)).max(least(a))).collect();
        Hand { stage: stage.id.clone(), axes: stage.axes.clone(), steps, home_asked: false, message: None }
    }

    /// What is told beside the positions: why the last step failed, or nothing.
    pub(super) fn told(&mut self, message: Option<String>) {
        self.message = message;
    }

    /// What a key asks for. While the stage is `busy` only a stop, a release and the end are heard: nothing is queued.
    pub(super) fn key(&mut self, key: KeyEvent, busy: bool) -> Action {
        let asked = std::mem::take(&mut self.home_asked);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if control => return Action::Quit,
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char(' ') | KeyCode::Esc => return Action::Stop,
            KeyCode::Char('c') => return Action::Release,
            KeyCode::Char('+' | '=') => self.change(2.0),
            KeyCode::Char('-' | '_') => self.change(0.5),
            KeyCode::Char('h') if !busy && asked => return Action::Home,
            KeyCode::Char('h') if !busy => {
                self.home_asked = true;
                self.message = Some("press h again to home: the axes run to their switches".into());
            }
            _ => {
                if let Some((index, sign)) = self.aimed(key.code) {
                    return if busy { self.busy() } else { self.step(index, sign) };
                }
            }
        }
        Action::Nothing
    }

    fn busy(&mut self) -> Action {
        self.message = Some("it still moves; this key was not taken".into());
        Action::Nothing
    }

    /// Which axis a key moves, and which way.
    fn aimed(&self, code: KeyCode) -> Option<(usize, f64)> {
        let nth = |index: usize, sign| (index < self.axes.len()).then_some((index, sign));
        match code {
            KeyCode::Right => nth(0, 1.0),
            KeyCode::Left => nth(0, -1.0),
            KeyCode::Up => nth(1, 1.0),
            KeyCode::Down => nth(1, -1.0),
            KeyCode::PageUp => nth(2, 1.0),
            KeyCode::PageDown => nth(2, -1.0),
            KeyCode::Char(c) => {
                let lower = c.to_ascii_lowercase().to_string();
                let index = self.axes.iter().position(|a| a.id.axis.as_str() == lower)?;
                Some((index, if c.is_ascii_uppercase() { -1.0 } else { 1.0 }))
            }
            _ => None,
        }
    }

    fn step(&self, index: usize, sign: f64) -> Action {
        let axis = &self.axes[index];
        match Distance::new(sign * self.steps[index], axis.unit) {
            Ok(way) => Action::Step(axis.id.axis.clone(), way),
            Err(_) => Action::Nothing,
        }
    }

    /// Makes all steps larger or smaller, within what their axes allow.
    fn change(&mut self, factor: f64) {
        for (axis, step) in self.axes.iter().zip(&mut self.steps) {
            let wanted = ladder(*step * factor);
            if least(axis) <= wanted && wanted <= LARGEST * length(axis) {
                *step = wanted;
            }
        }
    }

    /// What the person sees.
    pub(super) fn lines(&self, status: &StageStatus, busy: bool) -> Vec<String> {
        let mut lines = vec![format!("{}: {}{}", self.stage, status.activity.word(), if busy { " …" } else { "" })];
        for (index, axis) in self.axes.iter().enumerate() {
            let now = status.axis(axis.id.axis.as_str());
            let unit = axis.unit;
            let at = now.and_then(|a| a.position).map_or("unknown".into(), |p| format!("{:.4}", p.to(unit)));
            let trust = now.map_or(Trust::Unknown, |a| a.trust);
            let keys = ["← →", "↓ ↑", "PgDn PgUp"].get(index).copied().unwrap_or("");
            lines.push(format!(
                "  {:<8} {at:>14} {unit:<4} {trust:<10}  step {} {unit}  of {} to {}   {keys}",
                axis.id.axis.as_str(),
                plain(self.steps[index]),
                plain(axis.travel.low.to(unit)),
                plain(axis.travel.high.to(unit)),
            ));
        }
        if status.stopped_by.is_some() {
            lines.push("  Stopped. c releases it.".into());
        }
        if let Some(fault) = &status.fault {
            lines.push(format!("  [{}] {} c acknowledges it.", fault.code, fault.what));
        }
        lines.push(format!("  {}", self.message.as_deref().unwrap_or("")));
        lines.push(
            "  arrows or letters move (Shift: down) · + - step · space stop · h h home · c release · q end".into(),
        );
        lines
    }
}

fn length(axis: &Axis) -> f64 {
    (axis.travel.high - axis.travel.low).to(axis.unit)
}

/// A step below the tolerance could not be told from none.
fn least(axis: &Axis) -> f64 {
    axis.tolerance.to(axis.unit)
}

/// The number of 1, 2, 5, 10, 20, 50 … that is nearest by ratio.
fn ladder(value: f64) -> f64 {
    let ten = 10_f64.powf(value.log10().floor());
    let rungs = [1.0, 2.0, 5.0, 10.0].map(|f| f * ten);
    let off = |rung: f64| (rung / value).ln().abs();
    let near = rungs.into_iter().min_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(value);
    // Written and read again, so that no dust of the multiplication is left.
    plain(near).parse().ok().filter(|n| *n > 0.0).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::{Activity, Epoch, LinkStatus};

    fn hand() -> Hand {
        let text = include_str!("../../../rigs/demo.toml")
            .replace("@SCOPE@", "/dev/a")
            .replace("@CAM@", "a:1")
            .replace("@IO@", "a:2");
        let rig = crate::config::parse(&text, Path::new("demo.toml"), &crate::devices::known()).expect("a rig");
        Hand::new(&rig.stages[0])
    }

    fn press(hand: &mut Hand, code: KeyCode, busy: bool) -> Action {
        hand.key(KeyEvent::new(code, KeyModifiers::NONE), busy)
    }

    #[track_caller]
    fn moves(action: Action) -> (String, f64) {
        match action {
            Action::Step(axis, way) => (axis.to_string(), way.in_base()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_key_is_one_small_step_of_its_axis() {
        let mut hand = hand();
        // 75 mm, 50 mm and 4000 um of travel.
        for (code, axis, way) in [
            (KeyCode::Right, "x", 0.1),
            (KeyCode::Left, "x", -0.1),
            (KeyCode::Up, "y", 0.05),
            (KeyCode::PageDown, "z", -0.005),
            (KeyCode::Char('y'), "y", 0.05),
            (KeyCode::Char('Y'), "y", -0.05),
        ] {
            assert_eq!(moves(press(&mut hand, code, false)), (axis.into(), way), "{code:?}");
        }
        assert_eq!(press(&mut hand, KeyCode::Char('w'), false), Action::Nothing);
    }

    #[test]
    fn steps_stay_between_the_tolerance_and_a_tenth_of_the_travel() {
        let mut hand = hand();
        let x = |hand: &mut Hand| moves(press(hand, KeyCode::Right, false)).1;
        for _ in 0..50 {
            press(&mut hand, KeyCode::Char('+'), false);
        }
        assert_eq!(x(&mut hand), 5.0);
        for _ in 0..50 {
            press(&mut hand, KeyCode::Char('-'), false);
        }
        assert_eq!(x(&mut hand), 0.02);
    }

    #[test]
    fn a_moving_stage_hears_a_stop_and_queues_nothing() {
        let mut hand = hand();
        assert_eq!(press(&mut hand, KeyCode::Right, true), Action::Nothing);
        assert_eq!(press(&mut hand, KeyCode::Char('h'), true), Action::Nothing);
        assert_eq!(press(&mut hand, KeyCode::Char('h'), true), Action::Nothing);
        assert_eq!(press(&mut hand, KeyCode::Char(' '), true), Action::Stop);
        assert_eq!(press(&mut hand, KeyCode::Esc, true), Action::Stop);
        assert_eq!(press(&mut hand, KeyCode::Char('q'), true), Action::Quit);
        assert_eq!(hand.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL), true), Action::Quit);
    }

    #[test]
    fn homing_is_asked_for_twice_in_a_row() {
        let mut hand = hand();
        assert_eq!(press(&mut hand, KeyCode::Char('h'), false), Action::Nothing);
        press(&mut hand, KeyCode::Char('+'), false);
        assert_eq!(press(&mut hand, KeyCode::Char('h'), false), Action::Nothing, "another key came between");
        assert_eq!(press(&mut hand, KeyCode::Char('h'), false), Action::Home);
    }

    #[test]
    fn what_is_unknown_is_shown_as_unknown() {
        let status = StageStatus {
            stage: Name::new("scope"),
            activity: Activity::Idle,
            fault: None,
            stopped_by: Some(crate::model::StopBy::Program),
            axes: vec![],
            epoch: Epoch(1),
            read_at: None,
            came_from: None,
            identity: None,
            told: None,
            link: LinkStatus::default(),
        };
        let text = hand().lines(&status, false).join("\n");
        assert!(text.contains("unknown") && text.contains("c releases"), "{text}");
    }
}
