//! The modal state of the G-code parser, and the checks that a block must pass.

use super::words::{Word, words};

/// A number of axes that fits every dialect; unused ones stay 0.
pub(super) type Position = [f64; 6];

/// What `$G` tells, and what the next block builds on.
#[derive(Debug, Clone)]
pub(super) struct Modal {
    pub(super) motion: Motion,
    pub(super) system: usize,
    pub(super) plane: u8,
    pub(super) inches: bool,
    pub(super) relative: bool,
    pub(super) inverse_time: bool,
    pub(super) program: Option<u8>,
    pub(super) spindle: Spindle,
    pub(super) flood: bool,
    pub(super) mist: bool,
    pub(super) tool: u8,
    pub(super) feed: f64,
    pub(super) speed: f64,
    pub(super) tool_offset: f64,
    pub(super) g92: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    Rapid,
    Linear,
    Clockwise,
    Counter,
    Probe(u8),
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spindle {
    Off,
    Clockwise,
    Counter,
}

impl Modal {
    pub(super) fn new() -> Modal {
        Modal {
            motion: Motion::Rapid,
            system: 0,
            plane: 17,
            inches: false,
            relative: false,
            inverse_time: false,
            program: None,
            spindle: Spindle::Off,
            flood: false,
            mist: false,
            tool: 0,
            feed: 0.0,
            speed: 0.0,
            tool_offset: 0.0,
            g92: [0.0; 6],
        }
    }
}

/// A command of group 0 that needs axis words or values of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Dwell,
    SetSystem,
    Home(usize),
    StoreHome(usize),
    Shift,
    ClearShift,
    ToolOffset,
}

/// A block that has passed all checks that need no machine.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) modal: Modal,
    pub(super) special: Option<Special>,
    pub(super) machine_frame: bool,
    pub(super) motion: Option<Motion>,
    /// Axis words, millimetres.
    pub(super) axes: [Option<f64>; 6],
    /// I, J, K, millimetres.
    pub(super) offsets: [Option<f64>; 3],
    pub(super) radius: Option<f64>,
    pub(super) p: f64,
    pub(super) l: f64,
    /// The feed word of this block, mm/min (or 1/min at G93).
    pub(super) feed: Option<f64>,
    pub(super) spindle_changed: bool,
    pub(super) coolant_changed: bool,
}

impl Block {
    pub(super) fn has_axes(&self) -> bool {
        self.axes.iter().any(Option::is_some)
    }
}

/// What a parser may accept: the axes it has, and the optional M7.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    pub(super) axes: usize,
    pub(super) mist: bool,
}

/// Values by letter, each taken off once it is used; leftovers are `error:36`.
struct Values([Option<f64>; 26]);

impl Values {
    fn take(&mut self, letter: u8) -> Option<f64> {
        self.0[usize::from(letter - b'A')].take()
    }
    fn has(&self, letter: u8) -> bool {
        self.0[usize::from(letter - b'A')].is_some()
    }
}

const AXIS_LETTERS: [u8; 6] = *b"XYZABC";

/// Checks a tidy line against the modal state.
///
/// # Errors
/// The `error:` number of the manual; nothing is changed then.
pub(super) fn check(line: &str, now: &Modal, dialect: Dialect, jog: bool) -> Result<Block, u8> {
    let words = words(line)?;
    let mut c = Checker {
        block: Block {
            modal: now.clone(),
            special: None,
            machine_frame: false,
            motion: None,
            axes: [None; 6],
            offsets: [None; 3],
            radius: None,
            p: 0.0,
            l: 0.0,
            feed: None,
            spindle_changed: false,
            coolant_changed: false,
        },
        values: Values([None; 26]),
        groups: 0,
        axis_command: None,
        dialect,
    };
    if jog {
        c.block.modal.inverse_time = false;
    }
    for word in &words {
        match word.letter {
            b'G' => c.g(*word)?,
            b'M' => c.m(*word)?,
            _ => c.value(*word)?,
        }
    }
    c.finish(&words, jog)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AxisCommand {
    NonModal,
    Motion,
    ToolOffset,
}

struct Checker {
    block: Block,
    values: Values,
    groups: u32,
    axis_command: Option<AxisCommand>,
    dialect: Dialect,
}

impl Checker {
    fn group(&mut self, bit: u32) -> Result<(), u8> {
        if self.groups & (1 << bit) != 0 {
            return Err(21);
        }
        self.groups |= 1 << bit;
        Ok(())
    }

    fn claim(&mut self, command: AxisCommand) -> Result<(), u8> {
        if self.axis_command.is_some() {
            return Err(24);
        }
        self.axis_command = Some(command);
        Ok(())
    }

    fn g(&mut self, word: Word) -> Result<(), u8> {
        let code = (word.value * 100.0).round();
        if !(0.0..=25_500.0).contains(&code) {
            return Err(20);
        }
        let (whole, part) = ((code / 100.0) as u32, code as u32 % 100);
        let m = &mut self.block.modal;
        match (whole, part) {
            (4, 0) => {
                self.block.special = Some(Special::Dwell);
                self.group(0)
            }
            (53, 0) => {
                self.block.machine_frame = true;
                self.group(0)
            }
            (10 | 28 | 30 | 92, 0) | (28 | 30 | 92, 10) => {
                self.block.special = Some(match (whole, part) {
                    (10, _) => Special::SetSystem,
                    (28, 0) => Special::Home(6),
                    (30, 0) => Special::Home(7),
                    (28, _) => Special::StoreHome(6),
                    (30, _) => Special::StoreHome(7),
                    (_, 0) => Special::Shift,
                    _ => Special::ClearShift,
                });
                if part == 0 {
                    self.claim(AxisCommand::NonModal)?;
                }
                self.group(0)
            }
            (0..=3, 0) | (38, 20 | 30 | 40 | 50) => {
                let motion = match (whole, part) {
                    (0, _) => Motion::Rapid,
                    (1, _) => Motion::Linear,
                    (2, _) => Motion::Clockwise,
                    (3, _) => Motion::Counter,
                    (_, part) => Motion::Probe((part / 10) as u8),
                };
                m.motion = motion;
                self.claim(AxisCommand::Motion)?;
                self.group(1)
            }
            (80, 0) => {
                m.motion = Motion::None;
                self.group(1)
            }
            (17..=19, 0) => {
                m.plane = whole as u8;
                self.group(2)
            }
            (90 | 91, 0) => {
                m.relative = whole == 91;
                self.group(3)
            }
            (91, 10) => self.group(4),
            (93 | 94, 0) => {
                m.inverse_time = whole == 93;
                self.group(5)
            }
            (20 | 21, 0) => {
                m.inches = whole == 20;
                self.group(6)
            }
            (40, 0) => self.group(7),
            (49, 0) => {
                m.tool_offset = 0.0;
                self.group(8)
            }
            (43, 10) => {
                self.block.special = Some(Special::ToolOffset);
                self.claim(AxisCommand::ToolOffset)?;
                self.group(8)
            }
            (54..=58, 0) | (59, 0) => {
                m.system = whole as usize - 54;
                self.group(12)
            }
            (59, 10 | 20 | 30) => Err(29),
            (61, 0) => self.group(13),
            (4 | 10 | 17..=21 | 40 | 53 | 80 | 90 | 93 | 94 | 0..=3, _) => Err(23),
            _ => Err(20),
        }
    }

    fn m(&mut self, word: Word) -> Result<(), u8> {
        if word.value.fract() != 0.0 {
            return Err(23);
        }
        let m = &mut self.block.modal;
        match word.value as i64 {
            n @ (0 | 1 | 2 | 30) => {
                m.program = (n != 1).then_some(n as u8);
                self.group(16)
            }
            n @ 3..=5 => {
                m.spindle = match n {
                    3 => Spindle::Clockwise,
                    4 => Spindle::Counter,
                    _ => Spindle::Off,
                };
                self.block.spindle_changed = true;
                self.group(17)
            }
            7 if self.dialect.mist => {
                m.mist = true;
                self.block.coolant_changed = true;
                self.group(18)
            }
            8 => {
                m.flood = true;
                self.block.coolant_changed = true;
                self.group(18)
            }
            9 => {
                m.flood = false;
                m.mist = false;
                self.block.coolant_changed = true;
                self.group(18)
            }
            _ => Err(20),
        }
    }

    fn value(&mut self, word: Word) -> Result<(), u8> {
        let letter = word.letter;
        let axis = AXIS_LETTERS[..self.dialect.axes].contains(&letter);
        if !axis && !b"FIJKLNPRST".contains(&letter) {
            return Err(20);
        }
        if self.values.has(letter) {
            return Err(25);
        }
        if b"FNPST".contains(&letter) && word.value < 0.0 {
            return Err(4);
        }
        self.values.0[usize::from(letter - b'A')] = Some(word.value);
        Ok(())
    }

    fn finish(mut self, words: &[Word], jog: bool) -> Result<Block, u8> {
        let to_mm = if self.block.modal.inches { 25.4 } else { 1.0 };
        for (i, letter) in AXIS_LETTERS.iter().enumerate() {
            self.block.axes[i] = self.values.take(*letter).map(|v| v * to_mm);
        }
        let has_axes = self.block.has_axes();
        if jog {
            return self.finish_jog(words, has_axes, to_mm);
        }
        if has_axes && self.axis_command.is_none() {
            self.axis_command = Some(AxisCommand::Motion);
        }
        if self.values.take(b'N').is_some_and(|n| n > 9_999_999.0) {
            return Err(27);
        }
        self.feed(to_mm, has_axes)?;
        if let Some(s) = self.values.take(b'S') {
            self.block.modal.speed = s;
            self.block.spindle_changed = true;
        }
        if let Some(t) = self.values.take(b'T') {
            if t > 255.0 {
                return Err(38);
            }
            self.block.modal.tool = t as u8;
        }
        self.special(has_axes)?;
        self.motion(has_axes, to_mm)?;
        if self.values.0.iter().any(Option::is_some) {
            return Err(36);
        }
        Ok(self.block)
    }

    fn finish_jog(mut self, words: &[Word], has_axes: bool, to_mm: f64) -> Result<Block, u8> {
        let allowed = |w: &Word| match w.letter {
            b'G' => [20.0, 21.0, 53.0, 90.0, 91.0].contains(&w.value),
            b'M' | b'S' | b'T' | b'I' | b'J' | b'K' | b'L' | b'P' | b'R' => false,
            _ => true,
        };
        if !words.iter().all(allowed) {
            return Err(16);
        }
        let feed = self.values.take(b'F').filter(|f| *f > 0.0).ok_or(22)?;
        if !has_axes {
            return Err(26);
        }
        self.block.feed = Some(feed * to_mm);
        self.block.motion = Some(Motion::Linear);
        Ok(self.block)
    }

    fn feed(&mut self, to_mm: f64, has_axes: bool) -> Result<(), u8> {
        let word = self.values.take(b'F');
        let moves = has_axes && self.axis_command == Some(AxisCommand::Motion);
        let m = &mut self.block.modal;
        if m.inverse_time {
            let fed = !matches!(m.motion, Motion::Rapid | Motion::None);
            if moves && fed && word.is_none() {
                return Err(22);
            }
            self.block.feed = word;
        } else if let Some(f) = word {
            m.feed = f * to_mm;
            self.block.feed = Some(m.feed);
        }
        Ok(())
    }

    fn special(&mut self, has_axes: bool) -> Result<(), u8> {
        match self.block.special {
            Some(Special::Dwell) => {
                self.block.p = self.values.take(b'P').ok_or(28)?;
            }
            Some(Special::SetSystem) => {
                if !has_axes {
                    return Err(26);
                }
                let p = self.values.take(b'P').ok_or(28)?;
                let l = self.values.take(b'L').ok_or(28)?;
                if p > 6.0 {
                    return Err(29);
                }
                if l != 2.0 && l != 20.0 {
                    return Err(20);
                }
                (self.block.p, self.block.l) = (p, l);
            }
            Some(Special::Shift) if !has_axes => return Err(26),
            Some(Special::ToolOffset) => {
                let z_only = self.block.axes.iter().enumerate().all(|(i, a)| (i == 2) == a.is_some());
                if !z_only {
                    return Err(37);
                }
                self.block.modal.tool_offset = self.block.axes[2].unwrap_or(0.0);
            }
            _ => {}
        }
        Ok(())
    }

    fn motion(&mut self, has_axes: bool, to_mm: f64) -> Result<(), u8> {
        let motion = self.block.modal.motion;
        if self.block.machine_frame && !matches!(motion, Motion::Rapid | Motion::Linear) {
            return Err(30);
        }
        if self.axis_command != Some(AxisCommand::Motion) {
            return Ok(());
        }
        let fed = !matches!(motion, Motion::Rapid | Motion::None);
        match motion {
            Motion::None if has_axes => return Err(31),
            Motion::None => return Ok(()),
            _ => {}
        }
        if fed && self.block.modal.feed == 0.0 && !self.block.modal.inverse_time {
            return Err(22);
        }
        match motion {
            Motion::Clockwise | Motion::Counter => {
                let plane = plane_axes(self.block.modal.plane);
                if !has_axes {
                    return Err(26);
                }
                if self.block.axes[plane.0].is_none() && self.block.axes[plane.1].is_none() {
                    return Err(32);
                }
                self.block.radius = self.values.take(b'R').map(|v| v * to_mm);
                if self.block.radius.is_none() {
                    for (i, letter) in b"IJK".iter().enumerate() {
                        self.block.offsets[i] = self.values.take(*letter).map(|v| v * to_mm);
                    }
                    if self.block.offsets[plane.0].is_none() && self.block.offsets[plane.1].is_none() {
                        return Err(35);
                    }
                }
            }
            Motion::Probe(_) if !has_axes => return Err(26),
            _ => {}
        }
        if has_axes {
            self.block.motion = Some(motion);
        }
        Ok(())
    }
}

/// The two axes of a plane, in its turning sense.
pub(super) fn plane_axes(plane: u8) -> (usize, usize) {
    match plane {
        18 => (2, 0),
        19 => (1, 2),
        _ => (0, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> Result<(), u8> {
        check(line, &Modal::new(), Dialect { axes: 3, mist: false }, false).map(|_| ())
    }

    #[test]
    fn errors_are_those_of_the_manual() {
        for (line, error) in [
            ("G5", 20),
            ("G1X1", 22),
            ("G90G91", 21),
            ("G0G92X1", 24),
            ("X1X2", 25),
            ("G92", 26),
            ("G4", 28),
            ("G59.1", 29),
            ("G53G80", 30),
            ("G80X1", 31),
            ("G2I1F10Z1", 32),
            ("G2X1Y1F10", 35),
            ("G0X1R5", 36),
            ("G43.1X1", 37),
            ("T300", 38),
            ("M7", 20),
            ("F-1", 4),
            ("G10L2P1", 26),
            ("G10L3P1X0", 20),
            ("N99999999G0", 27),
            ("G38.2F10", 26),
            ("A1", 20),
        ] {
            assert_eq!(code(line), Err(error), "{line}");
        }
    }

    #[test]
    fn good_blocks_pass() {
        for line in ["", "G1F10", "G90G21X1", "G1X1F100", "G2X1Y1I1F10", "M3S100", "G4P0.1", "G28", "G92.1", "G28.1"] {
            assert_eq!(code(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn jogs_take_little() {
        let jog = |line| check(line, &Modal::new(), Dialect { axes: 3, mist: false }, true).map(|_| ());
        assert_eq!(jog("X1"), Err(22));
        assert_eq!(jog("G91X1F100M3"), Err(16));
        assert_eq!(jog("G0X1F100"), Err(16));
        assert_eq!(jog("F100"), Err(26));
        assert_eq!(jog("G91G21G53X1F100"), Ok(()));
    }
}
