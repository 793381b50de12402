//! Clients that are gone: what becomes of the calls and the jobs that they began.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use super::message::{Command, Envelope};
use super::worker::Worker;
use crate::config::OnClientLost;
use crate::model::{Code, Moved, Name, RigError, StopBy, Time};

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

    /// The process that owned the rig has ended; all was stopped when this one opened it. That stop goes on to count
    /// where something was under way or was seen to move, and nowhere else.
    pub(super) fn took_over(&mut self, from: u32, under_way: &[(Name, String)]) {
        let mut stopped = Vec::new();
        for stage in self.stages.iter_mut().filter(|s| s.status.stopped_by == Some(StopBy::Program)) {
            let name = stage.status.stage.clone();
            match under_way.iter().find(|(s, _)| *s == name) {
                Some((_, what)) => stopped.push(format!("{name} was stopped ({what} was under way)")),
                None if stage.found_moving => stopped.push(format!("{name} was found moving and was stopped")),
                None if stage.status.fault.is_some() => stopped.push(format!("{name} has a fault and stays stopped")),
                None => stage.free_from_program(),
            }
        }
        let me = std::process::id();
        let outcome = if stopped.is_empty() { "nothing was moving".to_owned() } else { stopped.join("; ") };
        let what = format!("Process {from}, which owned the rig, ended, and process {me} took over: {outcome}.");
        let facts = BTreeMap::from([("from_pid", from.into()), ("pid", me.into())]);
        self.event("takeover", None, None, what, facts);
    }
}
