//! The watchdog: when the rig thread is stuck or dead, what may move is stopped past it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::journal::Journal;
use super::primitives::AtomicU64;
use super::sync::Shared;
use crate::devices::link::Lifeline;
use crate::model::{Code, Event, Fault, Name, Remedy, Snapshot, Time, Trust};

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(25);
/// After how many looks without a beat the rig thread is stuck. It beats at every device and every job.
const LOOKS: u32 = 9;
/// How often the stop is sent: a controller may ignore it that has not begun the motion yet.
const SENDS: u32 = 3;

/// The rig thread's sign of life. Odd while it works, even while it sleeps, [`Pulse::OVER`] at its orderly end.
#[derive(Debug, Default)]
pub(crate) struct Pulse(AtomicU64);

impl Pulse {
    const OVER: u64 = u64::MAX;

    /// It begins to work, or still does.
    pub(super) fn works(&self) {
        let beat = self.0.load(Ordering::Relaxed);
        self.0.store((beat | 1).wrapping_add(if beat & 1 == 1 { 2 } else { 0 }), Ordering::Release);
    }

    /// It goes to sleep.
    pub(super) fn sleeps(&self) {
        let beat = self.0.load(Ordering::Relaxed);
        self.0.store(beat.wrapping_add(beat & 1), Ordering::Release);
    }

    /// It ends.
    pub(super) fn over(&self) {
        self.0.store(Pulse::OVER, Ordering::Release);
    }

    /// The beat.
    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What the looks say. Pure, and without a clock: looks are counted and not time, so that a process that was halted as a
/// whole is not taken for a stuck thread, and a busy machine puts nothing off.
#[derive(Debug, Default)]
struct Watch {
    beat: u64,
    looks: u32,
}

impl Watch {
    /// Whether the rig thread is stuck.
    fn look(&mut self, beat: u64) -> bool {
        if beat != self.beat || beat.is_multiple_of(2) {
            *self = Watch { beat, looks: 0 };
            return false;
        }
        self.looks = self.looks.saturating_add(1);
        self.looks >= LOOKS
    }
}

/// A stop by the watchdog, for the rig thread to hear of when it runs again.
#[derive(Debug, Clone)]
pub(super) struct Bark {
    pub(super) stage: Name,
    pub(super) code: Code,
    pub(super) what: String,
}

/// What the watchdog, and the rig thread's own end, need to stop what moves.
pub(super) struct Dog {
    pub(super) shared: Arc<Shared>,
    lifelines: Vec<(Name, Lifeline)>,
    /// The stages in the rig's order, each with its link.
    stages: Vec<(Name, Name)>,
    pub(super) publish: Arc<watch::Sender<Arc<Snapshot>>>,
    journal: Mutex<Option<Box<dyn Journal>>>,
    barks: Mutex<Vec<Bark>>,
}

impl Dog {
    pub(super) fn new(
        shared: Arc<Shared>,
        lifelines: Vec<(Name, Lifeline)>,
        stages: Vec<(Name, Name)>,
        journal: Option<Box<dyn Journal>>,
        publish: Arc<watch::Sender<Arc<Snapshot>>>,
    ) -> Dog {
        Dog { shared, lifelines, stages, publish, journal: Mutex::new(journal), barks: Mutex::default() }
    }

    /// What it has stopped since it was last asked.
    pub(super) fn barks(&self) -> Vec<Bark> {
        std::mem::take(&mut *self.barks.lock())
    }

    /// Stages that somebody has asked to stop, and nobody has stopped yet.
    fn asked(&self, mask: u64) -> impl Fn(&Name) -> bool {
        move |name| {
            let index = self.stages.iter().position(|(stage, _)| stage == name);
            index.is_some_and(|i| mask & (1 << i) != 0)
        }
    }

    /// Whether anything may move, or is asked to stop.
    fn is_needed(&self) -> bool {
        let asked = self.asked(self.shared.stops.pending());
        self.lifelines.iter().any(|(_, l)| l.needs(&asked))
    }

    /// Stops what may move, and tells everybody.
    pub(super) fn stop(&self, why: &str) {
        let asked = self.asked(self.shared.stops.pending());
        let fired: Vec<_> = self.lifelines.iter().filter(|(_, l)| l.needs(&asked)).collect();
        // All bytes go out before a word is said about them.
        let fired: Vec<_> = fired.into_iter().map(|(link, l)| (link, l.fire(&asked))).collect();
        for (link, (stages, sent)) in fired {
            let here = |(stage, on): &(Name, Name)| (on == link).then(|| stage.clone());
            // What can't be looked at may be any of them.
            let stages = if stages.is_empty() { self.stages.iter().filter_map(here).collect() } else { stages };
            let list = stages.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
            let (code, what) = match &sent {
                Ok(()) => {
                    let what = format!(
                        "{why} The watchdog has sent the stop of {list} on {link}; whether it stands is not known yet."
                    );
                    (Code::WatchdogStop, what)
                }
                Err(error) => {
                    let what = format!(
                        "STOP NOT SENT: {why} The watchdog could not send the stop of {list} on {link}: {error}. The axes may \
                         still move. Use the emergency stop."
                    );
                    (Code::StopNotSent, what)
                }
            };
            tracing::error!("{what}");
            let barks = stages.into_iter().map(|stage| Bark { stage, code, what: what.clone() });
            let mut known = self.barks.lock();
            for bark in barks {
                known.retain(|b| b.stage != bark.stage);
                self.show(&bark);
                known.push(bark);
            }
            drop(known);
            let event = Event { kind: "watchdog", device: None, caller: None, what, facts: Default::default() };
            if let Some(journal) = self.journal.try_lock_for(PERIOD).as_mut().and_then(|j| j.as_mut()) {
                let _ = journal.append(event);
            }
        }
    }

    /// The state that everybody reads says it at once: the rig thread can't.
    fn show(&self, bark: &Bark) {
        self.publish.send_modify(|state| {
            let mut fresh = Snapshot::clone(state);
            let at = fresh.at;
            for stage in fresh.stages.iter_mut().filter(|s| s.stage == bark.stage) {
                stage.fault = Some(fault(bark, at));
                stage.axes.iter_mut().for_each(|a| a.trust = Trust::Unknown);
                stage.epoch.0 += 1;
            }
            *state = Arc::new(fresh);
        });
    }
}

/// The fault that a stop by the watchdog leaves.
pub(super) fn fault(bark: &Bark, at: Time) -> Fault {
    Fault { code: bark.code, what: bark.what.clone(), at, remedy: Remedy::ClearFault }
}

/// Looks until the rig thread has ended in order.
pub(super) fn run(dog: &Dog) {
    let mut watch = Watch::default();
    let (mut sends, mut served) = (0, 0);
    loop {
        std::thread::park_timeout(PERIOD);
        let beat = dog.shared.pulse.read();
        if beat == Pulse::OVER {
            return;
        }
        let asked = dog.shared.stops.pending();
        if !watch.look(beat) {
            (sends, served) = (0, 0);
            continue;
        }
        if asked & !served != 0 {
            // Somebody has asked for more since.
            sends = 0;
        }
        served |= asked;
        if sends < SENDS && dog.is_needed() {
            sends += 1;
            dog.stop("The program's hardware thread hangs.");
        }
    }
}

/// Held by the rig thread: when that dies, what moves is stopped on its way out.
pub(super) struct LastWill(pub(super) Arc<Dog>);

impl Drop for LastWill {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for _ in 0..SENDS {
                self.0.stop("The program's hardware thread has failed.");
            }
        }
        self.0.shared.pulse.over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(watch: &mut Watch, beat: u64, times: u32) -> bool {
        (0..times).map(|_| watch.look(beat)).last().unwrap_or(false)
    }

    #[test]
    fn a_thread_that_works_without_a_beat_is_stuck_and_one_that_sleeps_or_beats_is_not() {
        let mut watch = Watch::default();
        assert!(!looks(&mut watch, 7, LOOKS), "the first look only learns the beat");
        assert!(watch.look(7));
        assert!(!watch.look(9), "a beat");
        assert!(!looks(&mut watch, 8, 1000), "asleep");
        assert!((PERIOD * (LOOKS + 1)) < Duration::from_millis(300), "in time");
    }

    #[test]
    fn work_and_sleep_change_the_beat_each_time() {
        let pulse = Pulse::default();
        let mut seen = vec![pulse.read()];
        for _ in 0..3 {
            pulse.works();
            seen.push(pulse.read());
            pulse.works();
            seen.push(pulse.read());
            pulse.sleeps();
            seen.push(pulse.read());
        }
        assert!(seen.windows(2).all(|w| w[0] != w[1]), "{seen:?}");
        let odd: Vec<bool> = seen.iter().map(|b| b % 2 == 1).collect();
        assert_eq!(odd[1..4], [true, true, false]);
    }
}
