//! What the controller says, line by line: answers, alarms, restarts.

use super::super::codec::{Line, Raw, alarm_meaning, error_meaning, parse};
use super::super::dialect::Dialect;
use super::super::questions::Questions;
use super::{Ask, Claim, DEGRADED, Grbl, Motion, OwnReset, Phase, SHORTEST_HOMING, State};
use crate::devices::{Stage, StageEvent};
use crate::model::{Code, Time};

impl Grbl {
    pub(super) fn hear(&mut self, raw: Raw, now: Time, out: &mut Vec<StageEvent>) {
        let text = match raw {
            Raw::Line(text) => text,
            Raw::Damaged(text) => return self.bad_frame(&format!("a damaged line: {text}"), now, out),
        };
        match parse(&text) {
            Line::Broken => self.bad_frame(&format!("a broken report: {text}"), now, out),
            understood => {
                self.wire.status.frames += 1;
                self.damaged = 0;
                self.wire.status.degraded = false;
                self.line.heard(now);
                self.understand(understood, now, out);
            }
        }
    }

    pub(super) fn bad_frame(&mut self, what: &str, now: Time, out: &mut Vec<StageEvent>) {
        self.status.damaged(now);
        self.wire.status.bad_frames += 1;
        self.wire.status.last_error = Some(format!("Dropped {what}"));
        self.damaged += 1;
        if self.damaged == DEGRADED {
            self.wire.status.degraded = true;
            out.push(StageEvent::Note(format!("{DEGRADED} damaged lines in a row; the last was {what}")));
        }
    }

    pub(super) fn understand(&mut self, line: Line, now: Time, out: &mut Vec<StageEvent>) {
        match line {
            Line::Banner(text) => self.banner(&text, now, out),
            Line::Report(report) => self.report(&report, now, out),
            Line::Alarm(number, text) => self.alarm(number, &text, out),
            Line::Ok => self.answered(None, now, out),
            Line::Error(number, text) => {
                let what = match number {
                    Some(n) => format!("error:{n}, {}", error_meaning(n)),
                    None => format!("error: {text}"),
                };
                self.answered(Some(what), now, out);
            }
            Line::Setting(number, value) => {
                if let Ok(value) = value.parse::<f64>()
                    && value.is_finite()
                {
                    self.settings.insert(number, value);
                } else if number == 13 || (100..150).contains(&number) {
                    // Two lines without the end between them, most likely.
                    self.bad_frame(&format!("a setting that is no number: ${number}={value}"), now, out);
                }
            }
            Line::Bracket(tag, rest) => match tag.as_str() {
                "VER" => self.dialect = self.dialect.clone().refined(&rest),
                "GC" => {
                    self.sync_seen = true;
                    self.modes_heard(&rest);
                }
                // 0.9: `[0.9j.20160303:]` and `[G0 G54 …]`.
                "" if rest.starts_with("G0 ") || rest.starts_with("G1 ") => self.sync_seen = true,
                // It follows an alarm that only a reset ends; if that isn't known, its line was lost.
                "MSG" if rest.contains("Reset to continue") && !self.deaf => {
                    self.shut();
                    let what = "It is locked, and what it said about it was lost on the line; it needs a reset".into();
                    out.push(StageEvent::Alarm { what, position_lost: true });
                }
                "HLP" => self.helped = true,
                _ => {}
            },
            Line::Broken | Line::Other(_) => {}
        }
    }

    pub(super) fn banner(&mut self, text: &str, now: Time, out: &mut Vec<StageEvent>) {
        let before = self.phase;
        let own = self.own_reset.take();
        let was_homing = self.motion == Some(Motion::Home);
        let homing_alarm = self.homing_alarm.take();
        let recovering = self.recovering;
        self.unfinished = None;
        self.forget();
        self.dialect = Dialect::read(text);
        self.outputs_restarted();
        match (before, own) {
            (Phase::Ready, Some(own)) => {
                if own.loses {
                    let what = "The controller was reset, which loses its position.".to_owned();
                    out.push(StageEvent::PositionLost { what });
                }
                self.recovering = recovering && own.unlock;
            }
            (Phase::Ready, None) if was_homing => {
                let what = homing_alarm.unwrap_or_else(|| "The controller restarted while it was homing.".into());
                out.push(StageEvent::HomingFailed { what });
            }
            (Phase::Ready, None) => {
                out.push(StageEvent::Reset { what: format!("It restarted by itself and said: {text}.") });
                self.phase = Phase::Identify;
            }
            (Phase::Closed, _) => {}
            (Phase::Boot { .. } | Phase::Identify, _) => self.phase = Phase::Identify,
        }
        self.poll(now);
    }

    pub(super) fn alarm(&mut self, number: Option<u8>, text: &str, out: &mut Vec<StageEvent>) {
        let (what, lost) = match number {
            Some(n) => {
                let (meaning, lost) = alarm_meaning(n);
                (format!("ALARM:{n}, {meaning}"), lost)
            }
            None => (format!("ALARM: {text}"), true),
        };
        self.locked = true;
        if self.motion == Some(Motion::Home) {
            // `ok` and the banner follow a failed homing; neither is a success.
            self.homing_alarm = Some(what);
            return;
        }
        if self.own_reset.is_some() {
            // Our own reset in motion; the banner that follows tells it.
            if let Some(own) = &mut self.own_reset {
                own.loses = true;
            }
            return;
        }
        self.motion = None;
        if matches!(number, Some(1 | 2)) {
            self.shut();
        }
        let what = if self.deaf { format!("{what}; it needs a reset") } else { what };
        out.push(StageEvent::Alarm { what, position_lost: lost });
    }

    /// Only a reset is heard now, and nothing that was asked gets an answer any more.
    pub(super) fn shut(&mut self) {
        self.deaf = true;
        self.locked = true;
        self.motion = None;
        self.line.finish();
        self.status = Questions::default();
    }

    /// An `ok`, or an error in words.
    pub(super) fn answered(&mut self, error: Option<String>, now: Time, out: &mut Vec<StageEvent>) {
        if self.line.current().is_some_and(|a| matches!(a.what, Ask::Sync | Ask::Modes)) && !self.sync_seen {
            // The late answer to what was given up, or one that nobody asked for.
            return;
        }
        let Some(asked) = self.line.finish() else {
            if let Some(e) = error {
                out.push(StageEvent::Note(format!("It said {e}, which nobody had asked for.")));
            }
            return;
        };
        match (asked.what, error) {
            (Ask::Motion, None) => out.push(StageEvent::Accepted),
            (Ask::Motion, Some(what)) => {
                self.motion = None;
                out.push(StageEvent::Refused { code: Code::ControllerRefused, what });
            }
            (Ask::Home, None) => {
                self.motion = None;
                match self.homing_alarm.take() {
                    // GRBL says `ok` after the alarm, and then restarts.
                    Some(what) => {
                        self.own_reset = Some(OwnReset { at: now, loses: false, unlock: false, must: false });
                        out.push(StageEvent::HomingFailed { what });
                    }
                    None if now.since(asked.at) < SHORTEST_HOMING || self.helped => {
                        let what = "it said ok without having homed: bytes were lost on the line".to_owned();
                        out.push(StageEvent::HomingFailed { what });
                    }
                    None => self.claims(Claim::Homed, now),
                }
            }
            (Ask::Home, Some(what)) => {
                self.motion = None;
                out.push(StageEvent::Refused { code: Code::ControllerRefused, what });
            }
            (Ask::Unlock, None) => self.claims(Claim::Unlocked, now),
            (Ask::Unlock, Some(what)) => {
                self.recovering = false;
                out.push(StageEvent::NotRecovered { what });
            }
            (Ask::Version | Ask::Settings | Ask::Modes, error) => {
                if let Some(e) = error {
                    self.unread |= asked.what == Ask::Settings && self.last_state == Some(State::Hold);
                    self.notes.push(format!(
                        "It refused {:?} with {e}; what that would have told is taken as unknown.",
                        asked.what
                    ));
                }
                self.identify_next(asked.what, now, out);
            }
            (Ask::Spindle, error) => self.spindle_answered(error.map(|e| (Code::ControllerRefused, e)), now),
            (Ask::Sync, _) => self.sync_again = false,
        }
    }
}
