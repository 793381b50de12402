//! Stopping: the bytes of all stops go past everything, and are sent until each device has acknowledged its own.

use super::super::codec::{ABORT, Reply, Target, command};
use super::super::unit::{Phase, Stopping};
use super::super::words::refusal;
use super::{ALL, Ask, Chain, STOP_ANSWER};
use crate::devices::StageEvent;
use crate::model::Time;

/// How often a stop is sent again. What then still moves is stopped otherwise by who watches it.
const STOP_AGAIN: u32 = 10;

impl Chain {
    /// Stops a stage's axes past everything else. `false` when the bytes could not be handed over.
    pub(in super::super) fn stop(&mut self, i: usize, word: &'static str, now: Time) -> bool {
        self.units[i].orders.clear();
        if !self.wire.is_open() {
            self.units[i].stop_owed |= self.units[i].phase != Phase::Closed || self.units[i].sought.is_some();
            return false;
        }
        self.units[i].stop_owed = false;
        self.units[i].poll_wanted = true;
        let targets = self.units[i].axes.iter().map(|a| a.target).collect();
        self.units[i].stopping = Some(Stopping { ids: Vec::new(), open: targets, sent: now, again: 0, word });
        self.send_stops(i, now)
    }

    /// Sends the stop of a stage, and with it those of others that have not left yet.
    fn send_stops(&mut self, i: usize, now: Time) -> bool {
        let waiting = self.wire.is_urgent();
        let mut bytes = ABORT.to_vec();
        for n in 0..self.units.len() {
            let held_up = waiting && self.units[n].stopping.as_ref().is_some_and(|s| !s.ids.is_empty());
            if n != i && !held_up {
                continue;
            }
            let alone = self.units.len() == 1 && self.units[n].axes.len() > 1;
            let Some(stopping) = &self.units[n].stopping else { continue };
            let (word, mut targets) = (stopping.word, stopping.open.clone());
            if alone {
                targets = vec![ALL];
            }
            let mut ids = Vec::new();
            for to in targets {
                let id = self.id();
                bytes.extend(command(to, id, word));
                ids.push(id);
            }
            if let Some(stopping) = &mut self.units[n].stopping {
                stopping.ids.extend(ids);
                stopping.sent = now;
            }
        }
        let cut = !self.wire.is_free();
        let preempted = self.wire.preempt(&bytes, b"", now);
        if preempted.dropped {
            self.take_back(i, now);
        } else if cut {
            self.give_up(i);
        }
        preempted.handed
    }

    /// What was asked last has not left: it is asked later, but never what the stage was to do that is stopped.
    fn take_back(&mut self, stopped: usize, now: Time) {
        let Some(asked) = self.line.finish() else { return };
        match asked.what.ask {
            Ask::Order(mut order) if asked.what.unit != stopped => {
                order.since = now;
                self.units[asked.what.unit].orders.push_front(order);
            }
            _ => self.ask_again(asked.what.unit),
        }
    }

    /// What was asked last has left in part, and the device was told to forget it. Whether it did only it knows.
    fn give_up(&mut self, stopped: usize) {
        let Some(asked) = self.line.finish() else { return };
        let unit = asked.what.unit;
        if let (Ask::Order(order), true) = (&asked.what.ask, unit != stopped) {
            let what = "Its order was cut off by a stop of another stage on the chain.".to_owned();
            self.units[unit].unanswered(order, what);
        }
        self.ask_again(unit);
    }

    pub(super) fn stop_heard(&mut self, i: usize, reply: &Reply) {
        let unit = &mut self.units[i];
        let Some(stopping) = &mut unit.stopping else { return };
        if !reply.id.is_some_and(|id| stopping.ids.contains(&id)) {
            return;
        }
        let Target { address, axis } = reply.from;
        stopping.open.retain(|t| t.address != address || (axis != 0 && t.axis != axis));
        let word = stopping.word;
        if stopping.open.is_empty() {
            unit.stopping = None;
        }
        unit.motion = None;
        unit.poll_wanted = true;
        if !reply.ok {
            unit.tell(StageEvent::Note(format!("{} refused \"{word}\": {}", reply.from, refusal(&reply.data))));
        }
    }

    /// A stop that nobody acknowledged is sent again.
    pub(super) fn stop_on(&mut self, now: Time) {
        for i in 0..self.units.len() {
            let Some(stopping) = &mut self.units[i].stopping else { continue };
            if now < stopping.sent + STOP_ANSWER || self.wire.is_urgent() {
                continue;
            }
            if stopping.again >= STOP_AGAIN {
                self.units[i].stopping = None;
                self.units[i].stop_owed = true;
                continue;
            }
            stopping.again += 1;
            self.send_stops(i, now);
        }
    }

    /// Stops what could not be stopped when it should have been.
    pub(super) fn pay_stop(&mut self, i: usize, now: Time) {
        if self.units[i].stop_owed && self.wire.is_open() {
            self.stop(i, "stop", now);
        }
    }

    /// The driver has failed: whatever moves on the chain is stopped.
    pub(in super::super) fn last_words(&mut self) {
        // The time would only matter for opening it again, and a chain that failed is not used again.
        self.wire.preempt(&stop_all(), b"", Time::ZERO);
    }
}

/// Stops whatever moves on a chain, and first makes it forget what was cut off.
pub(in super::super) fn stop_all() -> Vec<u8> {
    let mut bytes = ABORT.to_vec();
    bytes.extend(command(ALL, 99, "stop"));
    bytes
}
