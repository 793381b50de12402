//! Clients that are gone: what becomes of the calls and the jobs that they began.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::message::{Command, Envelope};
use super::worker::Worker;
use crate::config::OnClientLost;
use crate::model::{Code, Moved, RigError, Time};

/// Clients that are remembered as gone. Their names never come again, and what they sent last is soon here.
const REMEMBERED: usize = 256;

/// Why something ends whose caller is gone.
pub(super) fn gone() -> RigError {
    RigError::new(Code::Cancelled, "Its caller took it back or is gone.").moved(Moved::Unknown)
}

impl Worker {
    /// Ends the jobs whose callers have taken them back or are gone before their answer.
    pub(super) fn lost_callers(&mut self, now: Time) {
        let lost = gone();
        self.with_jobs(now, |job, bench| {
            if job.is_lost() {
                job.end(lost.clone(), bench);
            }
        });
    }

    /// Sees to the jobs of clients that are gone; tells how many clients that were. What has not begun is dropped.
    /// What somebody still waited for ends, and so does a job, unless the rig file lets it go on and a person can stop
    /// it.
    pub(super) fn lost_clients(&mut self, now: Time) -> usize {
        let lost = self.shared.lost.lock().clone();
        let person = self.shared.person_way.load(Ordering::Acquire);
        let lasts = person && self.rig.calls.on_client_lost == OnClientLost::Continue;
        if !lost.is_empty() {
            for client in &lost {
                if self.gone.len() >= REMEMBERED {
                    self.gone.pop_front();
                }
                self.gone.push_back(client.clone());
            }
            while let Some(order) = self.inbox.take() {
                self.waiting.push_back(order);
            }
            let dropped = |e: &Envelope| lost.contains(&e.caller.id) && matches!(e.command, Command::Run { .. });
            let (dropped, kept): (VecDeque<_>, VecDeque<_>) =
                std::mem::take(&mut self.waiting).into_iter().partition(dropped);
            self.waiting = kept;
            for order in dropped {
                self.drop_order(order, &gone().moved(Moved::No));
            }
        }
        let alone = gone();
        self.with_jobs(now, |job, bench| {
            job.orphan |= lost.contains(&job.caller.id);
            if job.orphan && !(lasts && job.is_detached()) {
                job.end(alone.clone(), bench);
            }
        });
        lost.len()
    }
}
