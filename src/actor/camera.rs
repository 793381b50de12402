//! One camera under the rig thread: settings, exposures and faults.

use std::time::Duration;

use super::fence::{Called, Fenced};
use super::stage::Note;
use crate::devices::{Camera, CameraEvent, RawFrame};
use crate::model::{CameraChange, CameraSettings, CameraStatus, Code, Fault, Name, Remedy, RigError, Time};

/// What the camera does by our order.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Doing {
    Nothing,
    Setting,
    Exposing,
}

pub(super) struct CameraUnit {
    driver: Fenced<dyn Camera>,
    doing: Doing,
    pub(super) status: CameraStatus,
    set: Option<Result<CameraSettings, RigError>>,
    frame: Option<Result<RawFrame, RigError>>,
    /// Another program has the port.
    lent: bool,
    events: Vec<CameraEvent>,
    pub(super) notes: Vec<Note>,
}

impl CameraUnit {
    pub(super) fn new(name: &Name, driver: Box<dyn Camera>) -> CameraUnit {
        let status = CameraStatus {
            camera: name.clone(),
            ready: false,
            exposing: false,
            fault: None,
            settings: None,
            identity: None,
            link: driver.link(),
        };
        CameraUnit {
            driver: Fenced::new(driver),
            doing: Doing::Nothing,
            status,
            set: None,
            frame: None,
            lent: false,
            events: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Ticks the driver and digests what it reports. Tells when it wants the next tick.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        let mut wish = now + Duration::from_secs(60);
        self.guarded(now, |d, events| wish = d.tick(now, events));
        for event in std::mem::take(&mut self.events) {
            self.digest(event, now);
        }
        let mut link = None;
        self.guarded(now, |d, _| link = Some(d.link()));
        if let Some(link) = link {
            self.status.link = link;
        }
        self.status.exposing = self.doing == Doing::Exposing;
        wish
    }

    /// Calls the driver; a panic in it is a fault of this device.
    fn guarded(&mut self, now: Time, call: impl FnOnce(&mut dyn Camera, &mut Vec<CameraEvent>)) {
        let events = &mut self.events;
        if self.driver.call(|d| call(d, events)) == Called::Failed {
            self.lose(Code::Internal, "Its driver failed and is not used any more.", Remedy::Restart, now);
        }
    }

    fn digest(&mut self, event: CameraEvent, now: Time) {
        if self.lent {
            // The driver only sees that its connection is gone.
            return;
        }
        match event {
            CameraEvent::Online(identity, settings) => {
                self.notes.push(("connected", format!("{} {}", identity.model, identity.firmware)));
                self.status.identity = Some(identity);
                self.status.settings = Some(settings);
                self.status.ready = true;
                self.status.fault = None;
            }
            CameraEvent::Offline { code, what } => {
                let known = self.status.fault.as_ref().is_some_and(|f| f.code == code && f.what == what);
                if !known {
                    self.notes.push(("lost", what.clone()));
                    self.lose(code, &what, Remedy::Reconnect, now);
                }
            }
            CameraEvent::Settings(settings) => {
                self.status.settings = Some(settings.clone());
                if self.doing == Doing::Setting {
                    self.doing = Doing::Nothing;
                    self.set = Some(Ok(settings));
                }
            }
            CameraEvent::Frame(frame) => {
                if self.doing == Doing::Exposing {
                    self.doing = Doing::Nothing;
                    self.frame = Some(Ok(*frame));
                }
            }
            CameraEvent::Failed { code, what } => {
                let error = self.error(code, &what);
                // A setting that it can't have is the caller's mistake, not its fault.
                let kind = if code == Code::InvalidArgument { "refused" } else { "fault" };
                self.notes.push((kind, format!("[{code}] {what}")));
                self.fail(error);
            }
        }
    }

    fn lose(&mut self, code: Code, what: &str, remedy: Remedy, now: Time) {
        self.status.ready = false;
        self.status.fault = Some(Fault { code, what: what.into(), at: now, remedy });
        let error = self.error(code, what);
        self.fail(error);
    }

    /// Ends what is under way.
    fn fail(&mut self, error: RigError) {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Setting => self.set = Some(Err(error)),
            Doing::Exposing => self.frame = Some(Err(error)),
            Doing::Nothing => {}
        }
    }

    fn error(&self, code: Code, what: &str) -> RigError {
        RigError::new(code, format!("Camera {}: {what}", self.status.camera)).on(&self.status.camera)
    }

    /// Whether it is on its way to be there, for all that is known.
    pub(super) fn is_connecting(&self) -> bool {
        !self.status.ready && self.status.fault.is_none()
    }

    fn ready(&self) -> Result<(), RigError> {
        if !self.status.ready {
            let why = self.status.fault.as_ref().map_or("It isn't connected yet.".into(), |f| f.what.clone());
            return Err(self.error(Code::NotConnected, &why));
        }
        if self.doing != Doing::Nothing {
            return Err(self.error(Code::Busy, "It is busy."));
        }
        Ok(())
    }

    /// Changes settings; [`CameraUnit::take_set`] tells the outcome.
    pub(super) fn set(&mut self, change: &CameraChange, now: Time) -> Result<(), RigError> {
        self.ready()?;
        self.set = None;
        self.doing = Doing::Setting;
        self.guarded(now, |d, _| d.set(change, now));
        Ok(())
    }

    /// Begins an exposure; [`CameraUnit::take_frame`] tells the outcome.
    pub(super) fn shoot(&mut self, now: Time) -> Result<(), RigError> {
        self.ready()?;
        self.frame = None;
        self.doing = Doing::Exposing;
        self.guarded(now, |d, _| d.shoot(now));
        Ok(())
    }

    /// Gives up an exposure.
    pub(super) fn abort(&mut self, now: Time) {
        if self.doing == Doing::Exposing {
            self.doing = Doing::Nothing;
            self.guarded(now, |d, _| d.abort(now));
        }
        self.frame = None;
    }

    pub(super) fn take_set(&mut self) -> Option<Result<CameraSettings, RigError>> {
        self.set.take()
    }

    pub(super) fn take_frame(&mut self) -> Option<Result<RawFrame, RigError>> {
        self.frame.take()
    }

    /// Acknowledges a fault that does not end by itself.
    pub(super) fn recover(&mut self) -> Result<(), RigError> {
        match &self.status.fault {
            Some(f) if f.remedy != Remedy::ClearFault => Err(self.error(f.code, &f.what)),
            _ => {
                self.status.fault = None;
                Ok(())
            }
        }
    }

    /// Its port is another program's from now on.
    pub(super) fn lend(&mut self, what: &str, now: Time) {
        self.lent = true;
        if self.driver.is_dead() {
            // Lending and reclaiming make it no better: its fault stays.
            return;
        }
        self.status.identity = None;
        self.lose(Code::Released, what, Remedy::Reclaim, now);
    }

    /// Its port is ours again: it is opened and identified by itself.
    pub(super) fn take_back(&mut self) {
        self.lent = false;
        if self.status.fault.as_ref().is_some_and(|f| f.remedy == Remedy::Reclaim) {
            self.status.fault = None;
        }
    }

    pub(super) fn close(&mut self, now: Time) {
        self.guarded(now, |d, _| d.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LinkStatus;

    /// A driver with a fault of its own.
    struct Bad;

    impl Camera for Bad {
        fn tick(&mut self, _: Time, _: &mut Vec<CameraEvent>) -> Time {
            panic!("on purpose")
        }
        fn set(&mut self, _: &CameraChange, _: Time) {}
        fn shoot(&mut self, _: Time) {}
        fn abort(&mut self, _: Time) {}
        fn patience(&self) -> Duration {
            Duration::ZERO
        }
        fn link(&self) -> LinkStatus {
            LinkStatus::default()
        }
        fn close(&mut self) {}
    }

    #[test]
    fn a_driver_that_failed_is_a_fault_that_lending_and_reclaiming_its_port_do_not_cover() {
        let mut unit = CameraUnit::new(&Name::new("cam"), Box::new(Bad));
        unit.tick(Time::ZERO);
        let fault = unit.status.fault.clone();
        assert!(fault.as_ref().is_some_and(|f| f.code == Code::Internal && f.remedy == Remedy::Restart), "{fault:?}");
        unit.lend("lent", Time::ZERO);
        unit.take_back();
        unit.tick(Time::ZERO);
        assert_eq!(unit.status.fault, fault);
        assert!(unit.shoot(Time::ZERO).is_err());
    }
}
