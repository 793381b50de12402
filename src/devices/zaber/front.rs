//! What the rig thread takes for a driver: one front for each stage, all before the same chain.

use super::chain::{Chain, stop_all};
use super::unit::Phase;
use crate::config::{self, Homing};
use crate::devices::link::{Connector, StopScript};
use crate::devices::shared::{LastWords, Shared};
use crate::devices::{Stage, StageEvent};
use crate::interlocks::{Cleared, Drive, HomeDrive};
use crate::model::{Code, LinkStatus, RigError, Time};

/// One stage of the chain.
struct Front {
    chain: Shared<Chain>,
    index: usize,
    /// The axes in the order in which they home.
    order: Vec<usize>,
}

/// The stages of one link.
pub(super) fn fronts(stages: &[&config::Stage], connector: Box<dyn Connector>) -> Vec<Box<dyn Stage>> {
    let chain = Shared::new(Chain::new(stages, connector));
    let front = |(index, stage): (usize, &&config::Stage)| -> Box<dyn Stage> {
        Box::new(Front { chain: chain.clone(), index, order: home_order(stage) })
    };
    stages.iter().enumerate().map(front).collect()
}

fn home_order(stage: &config::Stage) -> Vec<usize> {
    match &stage.home {
        Homing::Cycle { order, .. } => {
            order.iter().filter_map(|name| stage.axes.iter().position(|a| a.id.axis == *name)).collect()
        }
        Homing::Never => (0..stage.axes.len()).collect(),
    }
}

impl LastWords for Chain {
    fn last_words(&mut self) {
        Chain::last_words(self);
    }
}

impl Front {
    /// Lets the chain do something.
    fn with<T>(&self, act: impl FnOnce(&mut Chain, usize) -> T) -> T {
        self.chain.with(|chain| act(chain, self.index))
    }

    /// Sends what a plan asks for.
    fn begin(&self, now: Time, plan: impl FnOnce(&mut Chain, usize) -> Result<(), RigError>) -> Result<(), RigError> {
        self.with(|chain, i| {
            let unit = &chain.units[i];
            if unit.phase != Phase::Ready || unit.stopping.is_some() || !unit.orders.is_empty() || unit.motion.is_some()
            {
                return Err(RigError::new(Code::Busy, "The device is still busy with its last command."));
            }
            plan(chain, i)?;
            chain.ask_next(now);
            Ok(())
        })
    }
}

impl Stage for Front {
    fn tick(&mut self, now: Time, out: &mut Vec<StageEvent>) -> Time {
        self.with(|chain, i| {
            let wish = chain.tick(now);
            out.append(&mut chain.units[i].events);
            wish
        })
    }

    fn poll(&mut self, _: Time) {
        self.with(|chain, i| chain.units[i].poll_wanted = true);
    }

    fn go(&mut self, order: Cleared<'_, Drive>, now: Time) -> Result<(), RigError> {
        self.begin(now, |chain, i| chain.units[i].plan_move(&order.obey(), now))
    }

    fn home(&mut self, order: Cleared<'_, HomeDrive>, now: Time) -> Result<(), RigError> {
        let sequence = self.order.clone();
        self.begin(now, |chain, i| chain.units[i].plan_home(&order.obey(), &sequence, now))
    }

    fn stop(&mut self, now: Time) -> bool {
        self.with(|chain, i| chain.stop(i, "stop", now))
    }

    fn halt(&mut self, now: Time) -> bool {
        self.with(|chain, i| {
            let lost = StageEvent::PositionLost { what: "it was stopped without slowing down (estop)".into() };
            if chain.units[i].may_move() {
                chain.units[i].tell(lost);
            }
            chain.stop(i, "estop", now)
        })
    }

    /// All that moves on the chain: an order that was cut off may be anybody's.
    fn stop_script(&self, _: bool) -> StopScript {
        StopScript { first: b"", stop: stop_all(), last: b"", end: b'\n' }
    }

    fn recover(&mut self, now: Time) {
        self.with(|chain, i| chain.recover(i, now));
    }

    fn link(&self) -> LinkStatus {
        self.chain.look(|chain| chain.wire.status.clone())
    }

    fn close(&mut self) {
        self.with(|chain, _| chain.wire.close());
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::devices::link::{Link, memory::Far};

    /// A link that fails the driver when it is told to.
    struct Trap {
        link: Box<dyn Link>,
        armed: Arc<AtomicBool>,
    }

    impl Link for Trap {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            assert!(!self.armed.load(Ordering::Relaxed), "a fault of the program");
            self.link.read(buf)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.link.write(bytes)
        }

        fn unsent(&self) -> usize {
            self.link.unsent()
        }
    }

    struct Setter(Box<dyn Connector>, Arc<AtomicBool>);

    impl Connector for Setter {
        fn begin(&mut self, now: Time) {
            self.0.begin(now);
        }

        fn outcome(&mut self) -> Option<crate::devices::link::Opened> {
            let armed = self.1.clone();
            self.0.outcome().map(|link| link.map(|link| -> Box<dyn Link> { Box::new(Trap { link, armed }) }))
        }

        fn place(&self) -> String {
            self.0.place()
        }
    }

    #[test]
    fn a_failure_in_the_chain_fails_every_stage_on_it_and_stops_what_moves() {
        let text = include_str!("../../../rigs/zaber-chain.toml");
        let rig = config::parse(text, Path::new("chain.toml"), &crate::devices::known()).unwrap();
        let (far, armed) = (Far::default(), Arc::new(AtomicBool::new(false)));
        let connector = Box::new(Setter(far.connector("memory"), armed.clone()));
        let mut stages = fronts(&rig.stages.iter().collect::<Vec<_>>(), connector);
        let mut events = Vec::new();
        for stage in &mut stages {
            stage.tick(Time::ZERO, &mut events);
        }
        far.take();
        armed.store(true, Ordering::Relaxed);
        let mut tick = |i: usize| catch_unwind(AssertUnwindSafe(|| stages[i].tick(Time::ZERO, &mut events)));
        assert!(tick(0).is_err());
        let sent = String::from_utf8(far.take()).unwrap();
        assert!(sent.contains("/0 0 99 stop:"), "{sent:?}");
        armed.store(false, Ordering::Relaxed);
        assert!(tick(1).is_err(), "never half alive");
        assert!(tick(0).is_err());
    }
}
