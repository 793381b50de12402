//! The shell around the worker: one named OS thread with a clock, which sleeps between passes. The only place
//! that waits.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use super::handle::{Clock, RigHandle};
use super::journal::Journal;
use super::sync::{Shared, orders, wake};
use super::watchdog::{self, Dog, LastWill};
use super::worker::Worker;
use crate::config::Rig;
use crate::devices::settings::{Order, Settings, SettingsEvent};
use crate::devices::{Devices, Survey, Surveyed};
use crate::interlocks::Rules;
use crate::model::{Epoch, Snapshot, Time};
use crate::store::Kept;

/// A worker with the handle on it, not yet running: tests drive the passes themselves. Stages that a person has
/// stopped before come up stopped, and positions that disk and controller agree on are restored.
pub fn assemble(
    rig: &Arc<Rig>,
    mut devices: Devices,
    journal: Box<dyn Journal>,
    kept: impl Into<Kept>,
    clock: Clock,
    epoch: Epoch,
) -> (RigHandle, Worker, Sleeper) {
    let rules = Arc::new(Rules::new(rig.clone(), std::mem::take(&mut devices.traits)));
    let (outbox, inbox) = orders();
    let (waker, sleep) = wake();
    let shared = Shared::new(kept.into());
    let (publish, published) = watch::channel(Arc::new(Snapshot::default()));
    let publish = Arc::new(publish);
    let lifelines = devices.gates.iter().map(|(link, gate)| (link.clone(), gate.lifeline().clone())).collect();
    let on_links = rig.stages.iter().map(|s| (s.id.clone(), s.link.clone())).collect();
    let dog = Arc::new(Dog::new(shared.clone(), lifelines, on_links, journal.second(), publish));
    let worker = Worker::new(rules.clone(), devices, inbox, dog, journal, epoch);
    let handle = RigHandle { orders: outbox, wake: waker, shared, published, rules, clock };
    (handle, worker, Sleeper(sleep))
}

/// What the rig thread sleeps on.
pub struct Sleeper(super::sync::Sleep);

/// Starts the rig thread and its watchdog, as [`assemble`] makes them.
///
/// # Errors
/// When the operating system gives no thread.
pub fn spawn(
    rig: &Arc<Rig>,
    devices: Devices,
    journal: Box<dyn Journal>,
    kept: impl Into<Kept>,
    epoch: Epoch,
) -> io::Result<(RigHandle, JoinHandle<()>)> {
    let clock = Clock::start();
    let (handle, mut worker, sleeper) = assemble(rig, devices, journal, kept, clock.clone(), epoch);
    // The first state is there before the first caller.
    worker.pass(clock.now());
    let dog = worker.dog().clone();
    let watching = dog.clone();
    // Should there be no second thread, this ends the first.
    let will = LastWill(dog);
    std::thread::Builder::new().name("watchdog".into()).spawn(move || watchdog::run(&watching))?;
    let thread = std::thread::Builder::new().name("rig".into()).spawn(move || {
        let _will = will;
        live(&mut worker, &sleeper, || clock.now());
    })?;
    Ok((handle, thread))
}

/// Passes and sleeps until the worker is done.
pub(super) fn live(worker: &mut Worker, sleeper: &Sleeper, now: impl Fn() -> Time) {
    while !worker.is_done() {
        let next = worker.pass(now());
        let rest = next.since(now()).max(Duration::from_micros(100));
        if !worker.is_done() && !sleeper.0.wait(rest) {
            worker.abandoned(now());
            std::thread::park_timeout(rest);
        }
    }
}

/// Runs a survey of a link to its end, on the caller's thread: at most so long.
pub fn look_round(mut survey: Survey, at_most: Duration) -> Surveyed {
    let clock = Clock::start();
    let end = clock.now() + at_most;
    let outcome = loop {
        let now = clock.now();
        let next = survey.tick(now);
        match survey.outcome() {
            Some(outcome) => break outcome.clone(),
            None if now >= end => break Surveyed::Silent,
            None => std::thread::park_timeout(next.since(clock.now()).max(Duration::from_micros(100))),
        }
    };
    survey.close();
    outcome
}

/// Gives a controller an order about its settings, and waits for the answer on the caller's thread; for a port that
/// can't be opened at most `patience`. `ended` is asked meanwhile whether to give up.
pub fn settle(
    settings: &mut dyn Settings,
    order: Order,
    patience: Duration,
    ended: &dyn Fn() -> bool,
) -> SettingsEvent {
    let clock = Clock::start();
    let begun = clock.now();
    // Time goes on from one order to the next: the conversation may still wait for something.
    settings.order(order, begun);
    let mut events = Vec::new();
    loop {
        let now = clock.now();
        let next = settings.tick(now, &mut events);
        for event in events.drain(..) {
            match event {
                SettingsEvent::NoPort(_) if now.since(begun) < patience => {}
                SettingsEvent::NoPort(what) => return SettingsEvent::Unclear(what),
                event => return event,
            }
        }
        if ended() {
            return SettingsEvent::Unclear("it was told to end".into());
        }
        let rest = next.since(clock.now()).clamp(Duration::from_micros(100), Duration::from_millis(50));
        std::thread::park_timeout(rest);
    }
}
