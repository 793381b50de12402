//! Numbers and status reports as the firmware prints them.

use super::{Grbl, State};
use crate::config::ReportMode;
use crate::grbl::gcode::{Modal, Motion, Spindle};

/// A number with fixed decimals; the firmware's 32-bit arithmetic saturates.
pub(super) fn fixed(value: f64, decimals: u32) -> String {
    let scale = 10_i64.pow(decimals);
    let saturated = 2_147_483_648.0;
    let n = (value.abs() * scale as f64).round();
    let n = if n > saturated { saturated as i64 } else { n as i64 };
    let sign = if value < 0.0 && n > 0 { "-" } else { "" };
    if decimals == 0 {
        return format!("{sign}{n}");
    }
    let width = decimals as usize;
    format!("{sign}{}.{:0width$}", n / scale, n % scale)
}

/// Reports between two `WCO:` fields, and between two `Ov:` fields: at rest, and in motion.
const WCO_EVERY: (u8, u8) = (10, 30);
const OV_EVERY: (u8, u8) = (10, 20);

/// Counts reports down to the next intermittent field.
#[derive(Debug, Default)]
pub(super) struct Cadence {
    pub(super) wco: u8,
    pub(super) ov: u8,
}

impl Grbl {
    fn length(&self, mm: f64) -> String {
        if self.eeprom.flag(13) { fixed(mm / 25.4, 4) } else { fixed(mm, 3) }
    }

    pub(super) fn vector(&self, mm: &[f64]) -> String {
        let shown: Vec<String> = mm[..self.n()].iter().map(|v| self.length(*v)).collect();
        shown.join(",")
    }

    fn rate(&self, mm_per_min: f64) -> String {
        if self.eeprom.flag(13) { fixed(mm_per_min / 25.4, 1) } else { fixed(mm_per_min, 0) }
    }

    fn state_word(&self) -> &'static str {
        match self.state {
            State::Idle => "Idle",
            State::Alarm => "Alarm",
            State::Check => "Check",
            State::Homing => "Home",
            State::Run => "Run",
            State::Jog => "Jog",
            State::Sleep => "Sleep",
            State::Hold if self.stopping() => "Hold:1",
            State::Hold => "Hold:0",
            State::Door if self.stopping() => "Door:2",
            State::Door if self.door_resume.is_some() => "Door:3",
            State::Door => "Door:0",
        }
    }

    /// The report that answers `?`.
    pub(super) fn report_status(&mut self) {
        let position = self.machine_position();
        let offset = self.work_offset();
        let work: Vec<f64> = position.iter().zip(offset).map(|(p, o)| p - o).collect();
        if self.report_mode == ReportMode::V09 {
            let word = self.state_word().split(':').next().unwrap_or_default();
            let line = format!("<{word},MPos:{},WPos:{}>\r\n", self.vector(&position), self.vector(&work));
            self.print(&line);
            return;
        }
        let mask = self.eeprom.get(10) as u8;
        let mut line = format!("<{}", self.state_word());
        if mask & 1 != 0 {
            line += &format!("|MPos:{}", self.vector(&position));
        } else {
            line += &format!("|WPos:{}", self.vector(&work));
        }
        if mask & 2 != 0 {
            line += &format!("|Bf:{},{}", self.planner.room(), self.rx_limit - self.rx.len());
        }
        let feed = self.rate(self.planner.reported_mm_per_s() * 60.0);
        line += &format!("|FS:{feed},{}", fixed(self.spindle_rpm(), 0));
        let pins: String = self
            .axes
            .iter()
            .zip(["X", "Y", "Z", "A", "B", "C"])
            .filter(|(a, _)| a.switch() != self.eeprom.flag(5))
            .map(|(_, l)| l)
            .collect();
        if !pins.is_empty() {
            line += &format!("|Pn:{pins}");
        }
        line += &self.intermittent(&offset);
        self.print(&format!("{line}>\r\n"));
    }

    fn intermittent(&mut self, offset: &[f64; 6]) -> String {
        let busy = matches!(self.state, State::Homing | State::Run | State::Jog | State::Hold | State::Door);
        let pick = |pair: (u8, u8)| if busy { pair.1 } else { pair.0 };
        if self.cadence.wco == 0 {
            self.cadence.wco = pick(WCO_EVERY) - 1;
            if self.cadence.ov == 0 {
                self.cadence.ov = 1;
            }
            self.cadence.ov -= 1;
            return format!("|WCO:{}", self.vector(offset));
        }
        self.cadence.wco -= 1;
        if self.cadence.ov > 0 {
            self.cadence.ov -= 1;
            return String::new();
        }
        self.cadence.ov = pick(OV_EVERY) - 1;
        let o = self.overrides;
        let mut text = format!("|Ov:{},{},{}", o.feed, o.rapid, o.spindle);
        let mut on = String::new();
        match self.spindle_now() {
            Spindle::Clockwise => on.push('S'),
            Spindle::Counter => on.push('C'),
            Spindle::Off => {}
        }
        if self.flood_now() {
            on.push('F');
        }
        if self.mist_now() {
            on.push('M');
        }
        if !on.is_empty() {
            text += &format!("|A:{on}");
        }
        text
    }

    /// The answer to `$G`.
    pub(super) fn report_modal(&mut self) {
        let m = self.modal.clone();
        let mut line = format!("[GC:{} G{} G{}", motion_word(&m), 54 + m.system, m.plane);
        line += if m.inches { " G20" } else { " G21" };
        line += if m.relative { " G91" } else { " G90" };
        line += if m.inverse_time { " G93" } else { " G94" };
        if let Some(program) = m.program {
            line += &format!(" M{program}");
        }
        line += match m.spindle {
            Spindle::Clockwise => " M3",
            Spindle::Counter => " M4",
            Spindle::Off => " M5",
        };
        line += match (m.mist, m.flood) {
            (true, true) => " M7 M8",
            (true, false) => " M7",
            (false, true) => " M8",
            (false, false) => " M9",
        };
        line += &format!(" T{} F{} S{}]\r\n", m.tool, self.rate(m.feed), fixed(m.speed, 0));
        self.print(&line);
    }

    /// The answer to `$#`.
    pub(super) fn report_parameters(&mut self) {
        let names = ["G54", "G55", "G56", "G57", "G58", "G59", "G28", "G30"];
        let mut text = String::new();
        for (name, value) in names.iter().zip(self.eeprom.systems) {
            text += &format!("[{name}:{}]\r\n", self.vector(&value));
        }
        text += &format!("[G92:{}]\r\n", self.vector(&self.modal.g92));
        text += &format!("[TLO:{}]\r\n", self.length(self.modal.tool_offset));
        let (at, success) = self.probe;
        text += &format!("[PRB:{}:{}]\r\n", self.vector(&at), u8::from(success));
        self.print(&text);
    }

    /// The answer to `$I`.
    pub(super) fn report_build(&mut self) {
        let text = format!(
            "[VER:{}:{}]\r\n[OPT:{},{},{}]\r\n",
            self.version,
            self.eeprom.info,
            self.build_options,
            self.planner.capacity(),
            self.rx_limit
        );
        self.print(&text);
        if self.eeprom.schema {
            self.print("[NEWOPT:ENUMS,RT+]\r\n[FIRMWARE:grblHAL]\r\n");
        }
    }
}

fn motion_word(m: &Modal) -> String {
    match m.motion {
        Motion::Rapid => "G0".into(),
        Motion::Linear => "G1".into(),
        Motion::Clockwise => "G2".into(),
        Motion::Counter => "G3".into(),
        Motion::Probe(part) => format!("G38.{part}"),
        Motion::None => "G80".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::fixed;

    #[test]
    fn numbers_are_rounded_and_saturate() {
        assert_eq!(fixed(0.0104, 3), "0.010");
        assert_eq!(fixed(-12.7645, 3), "-12.765");
        assert_eq!(fixed(-0.0001, 3), "0.000");
        assert_eq!(fixed(99_999_999.0, 3), "2147483.648");
        assert_eq!(fixed(1000.4, 0), "1000");
        assert_eq!(fixed(f64::NAN, 3), "0.000");
    }
}
