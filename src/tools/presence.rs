//! Which kinds of devices are there, as the tool list shows it: slow to take a tool away, and never nervous.

use std::time::Duration;

use tokio::sync::watch;

use crate::actor::RigHandle;
use crate::model::{Activity, Snapshot};

/// How long a device must be gone, or be back, before the list says so.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// Which kinds of devices are there. At the start all are: clients that read the list once, while the
/// controllers are still booting, shall see the whole of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Present {
    /// At least one stage.
    pub(crate) stages: bool,
    /// At least one camera.
    pub(crate) cameras: bool,
    /// At least one output.
    pub(crate) outputs: bool,
    /// At least one sensor.
    pub(crate) sensors: bool,
}

impl Present {
    /// Everything.
    pub(crate) const ALL: Present = Present { stages: true, cameras: true, outputs: true, sensors: true };

    /// What `state` shows, from what was there before: a device that is being opened keeps its tools if it
    /// has them and doesn't get them back before it answers.
    fn seen(self, state: &Snapshot) -> Present {
        let stages = state.stages.is_empty()
            || state.stages.iter().any(|s| match s.activity {
                Activity::Offline => false,
                Activity::Connecting => self.stages,
                _ => true,
            });
        let cameras = state.cameras.is_empty()
            || state
                .cameras
                .iter()
                .any(|c| c.ready || c.exposing || (self.cameras && (c.link.open || c.fault.is_none())));
        // One that is being made safe is there.
        let there = |ready: bool, before: bool, open: bool, well: bool| ready || (before && (open || well));
        let outputs = state.outputs.is_empty()
            || state.outputs.iter().any(|o| there(o.ready, self.outputs, o.link.open, o.fault.is_none()));
        let sensors = state.sensors.is_empty()
            || state.sensors.iter().any(|s| there(s.ready, self.sensors, s.link.open, s.fault.is_none()));
        Present { stages, cameras, outputs, sensors }
    }
}

/// Follows the rig and tells when kinds of devices have gone or come, until the rig thread ends.
pub(crate) async fn follow(handle: RigHandle, told: watch::Sender<Present>) {
    let mut changes = handle.changes();
    loop {
        let now = *told.borrow();
        if now.seen(&changes.borrow_and_update()) != now {
            tokio::time::sleep(DEBOUNCE).await;
            let later = now.seen(&changes.borrow_and_update());
            if later != now {
                told.send_replace(later);
                continue;
            }
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = told.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::model::LinkStatus;

    #[test]
    fn a_device_that_is_being_opened_neither_gains_nor_loses_its_tools() {
        let mut state = testing::state();
        state.stages[0].activity = Activity::Connecting;
        assert!(Present::ALL.seen(&state).stages);
        let gone = Present { stages: false, ..Present::ALL };
        assert!(!gone.seen(&state).stages);
        state.stages[0].activity = Activity::Idle;
        assert!(gone.seen(&state).stages);
        state.stages[0].activity = Activity::Offline;
        assert!(!Present::ALL.seen(&state).stages);
    }

    #[test]
    fn a_camera_whose_link_is_closed_with_a_fault_is_gone() {
        let mut state = testing::state();
        assert!(Present::ALL.seen(&state).cameras);
        state.cameras[0].ready = false;
        assert!(Present::ALL.seen(&state).cameras, "still opening");
        state.cameras[0].fault = Some(testing::fault());
        state.cameras[0].link = LinkStatus::default();
        assert!(!Present::ALL.seen(&state).cameras);
    }

    #[test]
    fn outputs_and_sensors_whose_link_is_closed_with_a_fault_are_gone() {
        let mut state = testing::state();
        assert_eq!(Present::ALL.seen(&state), Present::ALL);
        for o in &mut state.outputs {
            (o.ready, o.fault, o.link) = (false, Some(testing::fault()), LinkStatus::default());
        }
        assert!(!Present::ALL.seen(&state).outputs && Present::ALL.seen(&state).sensors);
        for s in &mut state.sensors {
            (s.ready, s.fault, s.link) = (false, Some(testing::fault()), LinkStatus::default());
        }
        assert!(!Present::ALL.seen(&state).sensors);
    }

    #[test]
    fn a_rig_without_a_kind_of_device_never_loses_it() {
        assert_eq!(Present::ALL.seen(&Snapshot::default()), Present::ALL);
    }
}
