//! What the clock says: motions that take too long, and stops that are carried through.

use super::{Doing, POLL_IDLE, STOP_GRACE, STOP_LIMIT, STOP_ROOM, StageUnit};
use crate::model::{Code, Moved, Remedy, Time};

impl StageUnit {
    pub(super) fn by_the_clock(&mut self, now: Time) {
        match &mut self.doing {
            Doing::Nothing => {}
            Doing::Moving(watch) => {
                let seen = watch.tick(now);
                self.seen(seen, now);
            }
            Doing::Homing(search) => {
                if now > search.until + POLL_IDLE {
                    let what = format!("Homing was not over after {:.0} s.", now.since(search.since).as_secs_f64());
                    self.note("fault", what.clone());
                    let cause = self.error(Code::HomingFailed, &what, Moved::Yes);
                    self.abandon(cause, now);
                }
            }
            Doing::Stopping(_) => self.carry_stop_on(now),
        }
    }

    pub(super) fn carry_stop_on(&mut self, now: Time) {
        let Doing::Stopping(stopping) = &mut self.doing else { return };
        let since = now.since(stopping.since);
        let waits = stopping.unidentified;
        let tried = now.since(stopping.grace);
        let (mut handed, mut halted) = (stopping.handed, stopping.halted);
        if !handed {
            self.guarded(|d, _| handed = d.stop(now));
        }
        if handed && !halted && !waits && tried > STOP_GRACE {
            halted = true;
            self.note("stop", "It does not come to rest by an ordinary stop; the controller is reset.".into());
            self.guarded(|d, _| handed = d.halt(now));
        }
        let not_sent = !handed && since > STOP_ROOM;
        if not_sent && self.status.fault.as_ref().is_none_or(|f| f.code != Code::StopNotSent) {
            let what = "STOP NOT SENT: the connection takes no bytes. The axes may still move. Use the emergency stop.";
            self.fault(Code::StopNotSent, what.into(), Remedy::ClearFault, now);
        }
        let given_up = tried > STOP_LIMIT;
        if let Doing::Stopping(stopping) = &mut self.doing {
            (stopping.handed, stopping.halted) = (handed, halted);
            if !given_up {
                return;
            }
        }
        let Doing::Stopping(stopping) = std::mem::replace(&mut self.doing, Doing::Nothing) else { return };
        let code = if stopping.handed { Code::StopNotConfirmed } else { Code::StopNotSent };
        let what = if stopping.handed {
            "The stop was sent, but standstill could not be confirmed. The axes may still move. Use the emergency stop."
        } else {
            "STOP NOT SENT: the connection takes no bytes. The axes may still move. Use the emergency stop."
        };
        // Where nothing was read since the connection began, the first reading at rest is still to be held against it.
        let record = self.record.take().filter(|_| self.recalls);
        self.distrust("a stop was not confirmed");
        self.record = record;
        self.fault(code, what.into(), Remedy::ClearFault, now);
        let result = stopping.cause.map(|_| Err(self.error(code, what, Moved::Unknown)));
        self.finish(result);
    }
}
