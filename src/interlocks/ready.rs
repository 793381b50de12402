//! What stands against any motion of a stage, whatever it is: stops, faults, its connection, the age of its reading.

use super::judge::{Rules, refusal};
use crate::config::Stage;
use crate::model::{Activity, Code, Refusal, StageStatus, StopBy, Time};

impl Rules {
    /// All of it at once.
    pub(super) fn readiness(&self, stage: &Stage, status: Option<&StageStatus>, now: Time) -> Vec<Refusal> {
        let mut out = Vec::new();
        let mut no = |code, rule: &str, what: String| {
            out.push(refusal(code, rule.to_owned(), what, None));
        };
        let Some(status) = status.filter(|s| s.activity != Activity::Offline) else {
            let why = because(status);
            no(Code::NotConnected, "connection", format!("Stage {} isn't connected.{why}", stage.id));
            return out;
        };
        if status.activity == Activity::Connecting {
            let port = status.link.last_error.as_ref().filter(|_| !status.link.open);
            let why = port.map_or(String::new(), |e| format!(" {e}"));
            no(Code::NotConnected, "connection", format!("Stage {} is still being identified.{why}", stage.id));
        }
        if let Some(by) = status.stopped_by {
            let who = match by {
                StopBy::Model => "by a stop call",
                StopBy::Person => "by a person",
                StopBy::Program => "by the program",
            };
            no(
                Code::Stopped,
                "stop",
                format!("Stage {} was stopped {who} and stays so until it is released.", stage.id),
            );
        }
        if let Some(fault) = &status.fault {
            no(Code::Faulted, "fault", format!("Stage {} has a fault: [{}] {}", stage.id, fault.code, fault.what));
        }
        if status.activity.is_motion() {
            no(Code::Busy, "one motion at a time", format!("Stage {} is {}.", stage.id, status.activity.word()));
        }
        match status.read_at {
            Some(at) if now.since(at) <= self.rig().calls.fresh => {}
            Some(at) => {
                let (age, bound) = (now.since(at).as_millis(), self.rig().calls.fresh.as_millis());
                no(
                    Code::Stale,
                    "fresh",
                    format!("The newest reading of {} is {age} ms old; {bound} ms are allowed.", stage.id),
                );
            }
            None if status.activity != Activity::Connecting => {
                no(Code::Stale, "fresh", format!("There is no reading of {} yet.", stage.id));
            }
            None => {}
        }
        out
    }
}

/// Why a stage isn't there, as a sentence of its own.
pub(super) fn because(status: Option<&StageStatus>) -> String {
    status.and_then(|s| s.fault.as_ref()).map_or(String::new(), |f| format!(" {}", f.what))
}
