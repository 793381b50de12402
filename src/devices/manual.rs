//! Outputs that a person changes by hand: there is no device and no link, only the question and the answer.

use std::time::Duration;

use super::{Driver, Open, Output, OutputEvent};
use crate::interlocks::Cleared;
use crate::model::{Evidence, Identity, LinkStatus, Name, OutputKind, OutputValue, RigError, SetOutput, Time};

/// The row of the table.
pub(super) const DRIVER: Driver = Driver {
    name: "manual",
    what: "what a person changes by hand and confirms: a turret, a filter, a valve",
    evidence: Evidence::Manual,
    simulated: false,
    family: None,
    keeping: None,
    open: Open::ByHand {
        kinds: &[OutputKind::Wheel, OutputKind::Shutter, OutputKind::Light, OutputKind::Line],
        make: |output| Box::new(Manual { name: output.id.clone(), why: output.why.clone(), told: false, ask: None }),
    },
};

struct Manual {
    name: Name,
    why: Option<String>,
    told: bool,
    ask: Option<String>,
}

impl Manual {
    fn words(&self, value: &OutputValue) -> String {
        let (name, why) = (&self.name, self.why.as_deref().map_or(String::new(), |w| format!(" ({w})")));
        match value {
            OutputValue::At(position) => format!("turn {name} to {position}{why}"),
            OutputValue::Open(true) => format!("open {name}{why}"),
            OutputValue::Open(false) => format!("close {name}{why}"),
            OutputValue::On(true) => format!("switch {name} on{why}"),
            OutputValue::On(false) => format!("switch {name} off{why}"),
            OutputValue::Percent(p) => format!("set {name} to {p}{why}"),
        }
    }
}

impl Output for Manual {
    fn tick(&mut self, now: Time, out: &mut Vec<OutputEvent>) -> Time {
        if !std::mem::replace(&mut self.told, true) {
            out.push(OutputEvent::Online(Identity { model: "by hand".into(), ..Identity::default() }));
        }
        out.extend(self.ask.take().map(OutputEvent::AskPerson));
        now + Duration::from_secs(60)
    }

    fn poll(&mut self, _: Time) {}

    fn set(&mut self, order: Cleared<'_, SetOutput>, _: Time) -> Result<(), RigError> {
        self.ask = Some(self.words(&order.obey().value));
        Ok(())
    }

    fn secure(&mut self, _: Time) -> bool {
        false
    }

    fn patience(&self) -> Duration {
        // Only until the person is asked, which is at the next tick.
        Duration::from_secs(10)
    }

    fn link(&self) -> LinkStatus {
        LinkStatus::default()
    }

    fn close(&mut self) {}
}
