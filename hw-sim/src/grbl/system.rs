//! `$` commands.

use super::exec::Action;
use super::words::number;
use super::{Grbl, State};

const HELP: &str = "[HLP:$$ $# $G $I $N $x=val $Nx=line $J=line $SLP $C $X $H ~ ! ? ctrl-x]\r\n";

impl Grbl {
    /// A line that began with `$`, without it.
    pub(super) fn system(&mut self, command: &str) -> Result<(), u8> {
        match command {
            "" => self.print(HELP),
            "$" if matches!(self.state, State::Run | State::Hold) => return Err(8),
            "$" => {
                let listing = self.eeprom.listing();
                self.print(&listing);
            }
            "G" => self.report_modal(),
            "C" => return self.toggle_check(),
            "X" => {
                if self.state == State::Alarm {
                    self.print("[MSG:Caution: Unlocked]\r\n");
                    self.state = State::Idle;
                }
            }
            _ if command.starts_with('J') => {
                return self.jog(command.strip_prefix("J=").ok_or(16)?);
            }
            _ if !matches!(self.state, State::Idle | State::Alarm) || !self.planner.empty() => return Err(8),
            "#" => self.report_parameters(),
            "I" => self.report_build(),
            "ES" if self.eeprom.schema => self.print(&super::schema::listing(self.n())),
            "N" => {
                let text: String =
                    self.eeprom.startup.iter().enumerate().map(|(i, l)| format!("$N{i}={l}\r\n")).collect();
                self.print(&text);
            }
            "SLP" => self.actions.push_back(Action::Sleep),
            _ => return self.idle_command(command),
        }
        Ok(())
    }

    fn idle_command(&mut self, command: &str) -> Result<(), u8> {
        if let Some(rest) = command.strip_prefix('H') {
            return self.home_command(rest);
        }
        if let Some(text) = command.strip_prefix("I=") {
            text.clone_into(&mut self.eeprom.info);
            self.queue_write();
            return Ok(());
        }
        if let Some(what) = command.strip_prefix("RST=") {
            match what {
                "$" => self.eeprom.restore_settings(),
                "#" => self.eeprom.restore_parameters(),
                "*" => self.eeprom.restore_all(),
                _ => return Err(3),
            }
            self.eeprom.store();
            self.print("[MSG:Restoring defaults]\r\n");
            self.actions.push_back(Action::Restart);
            return Ok(());
        }
        if let Some(rest) = command.strip_prefix('N') {
            return self.store_startup(rest);
        }
        self.store_setting(command)
    }

    fn home_command(&mut self, rest: &str) -> Result<(), u8> {
        if !self.eeprom.flag(22) {
            return Err(5);
        }
        let groups = if rest.is_empty() {
            let mut groups = vec![vec![2], vec![0, 1]];
            if self.n() > 3 {
                groups.push((3..self.n()).collect());
            }
            groups
        } else {
            let axis = ["X", "Y", "Z", "A", "B", "C"].iter().take(self.n()).position(|l| *l == rest);
            match axis {
                Some(axis) if self.build_options.contains('H') => vec![vec![axis]],
                _ => return Err(3),
            }
        };
        self.actions.push_back(Action::Homing);
        self.start_homing(groups);
        Ok(())
    }

    fn store_startup(&mut self, rest: &str) -> Result<(), u8> {
        let (slot, line) = rest.split_once('=').ok_or(3)?;
        let slot: usize = slot.parse().map_err(|_| 2)?;
        if slot >= self.eeprom.startup.len() {
            return Err(3);
        }
        if self.state != State::Idle {
            return Err(8);
        }
        if !line.is_empty() {
            self.gcode(line)?;
        }
        let Some(write) = self.eeprom.mishaps.write(&format!("$N{slot}"), 0.0) else { return Err(3) };
        line.clone_into(&mut self.eeprom.startup[slot]);
        if write.resets {
            return self.fail_in_write();
        }
        self.eeprom.store();
        self.queue_write();
        Ok(())
    }

    fn store_setting(&mut self, command: &str) -> Result<(), u8> {
        let bytes = command.as_bytes();
        let (n, at) = number(bytes, 0).ok_or(if bytes.contains(&b'=') { 2 } else { 3 })?;
        if bytes.get(at) != Some(&b'=') {
            return Err(3);
        }
        let (value, end) = number(bytes, at + 1).ok_or(2)?;
        if end != bytes.len() || n > 255.0 {
            return Err(3);
        }
        let Some(write) = self.eeprom.mishaps.write(&format!("${n}"), value) else { return Err(3) };
        let n = write.name.strip_prefix('$').and_then(|n| n.parse().ok()).unwrap_or(n as u16);
        self.eeprom.set(n, write.value)?;
        if write.resets {
            return self.fail_in_write();
        }
        self.eeprom.store();
        self.cadence.wco = 0;
        self.parser_mm = self.machine_position();
        self.planned = self.steps;
        self.queue_write();
        Ok(())
    }

    /// Power fails while the memory is written, and comes back: nothing is answered, and what is there is no good.
    fn fail_in_write(&mut self) -> Result<(), u8> {
        self.eeprom.valid = false;
        self.actions.push_back(Action::PowerFails);
        Ok(())
    }

    fn queue_write(&mut self) {
        self.actions.extend([Action::EepromWrite, Action::EepromEnd]);
    }

    fn toggle_check(&mut self) -> Result<(), u8> {
        match self.state {
            State::Check => {
                self.print("[MSG:Disabled]\r\n");
                self.actions.push_back(Action::Restart);
            }
            State::Idle if self.planner.empty() => {
                self.print("[MSG:Enabled]\r\n");
                self.state = State::Check;
            }
            _ => return Err(8),
        }
        Ok(())
    }
}
