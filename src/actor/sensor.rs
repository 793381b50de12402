//! One sensor under the rig thread: read at its own rate, with the age of what it said.

use std::time::Duration;

use super::fence::{Called, Fenced};
use super::stage::Note;
use crate::config;
use crate::devices::{Sensor, SensorEvent};
use crate::model::{Code, Fault, Remedy, SensorStatus, SensorValue, Time};

pub(super) struct SensorUnit {
    driver: Fenced<dyn Sensor>,
    config: config::Sensor,
    pub(super) status: SensorStatus,
    /// Its port is lent to another program.
    lent: bool,
    next_poll: Time,
    events: Vec<SensorEvent>,
    pub(super) notes: Vec<Note>,
}

impl SensorUnit {
    pub(super) fn new(config: &config::Sensor, driver: Box<dyn Sensor>) -> SensorUnit {
        let status = SensorStatus {
            sensor: config.id.clone(),
            ready: false,
            value: None,
            in_range: true,
            read_at: None,
            fault: None,
            identity: None,
            link: driver.link(),
        };
        SensorUnit {
            driver: Fenced::new(driver),
            config: config.clone(),
            status,
            lent: false,
            next_poll: Time::ZERO,
            events: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Ticks the driver and digests what it reports. Tells when it wants the next tick.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        if self.status.ready && now >= self.next_poll {
            self.guarded(now, |d, _| d.poll(now));
            self.next_poll = now + self.config.poll;
        }
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
        let next = if self.status.ready { wish.min(self.next_poll) } else { wish };
        next.max(now + Duration::from_micros(200))
    }

    /// Calls the driver; a panic in it is a fault of this device.
    fn guarded(&mut self, now: Time, call: impl FnOnce(&mut dyn Sensor, &mut Vec<SensorEvent>)) {
        let events = &mut self.events;
        if self.driver.call(|d| call(d, events)) == Called::Failed {
            self.lose(Code::Internal, "Its driver failed and is not used any more.", Remedy::Restart, now);
        }
    }

    fn digest(&mut self, event: SensorEvent, now: Time) {
        if self.lent {
            // The driver only sees that its connection is gone.
            return;
        }
        match event {
            SensorEvent::Online(identity) => {
                self.notes.push(("connected", format!("{} {}", identity.model, identity.firmware)));
                self.status.identity = Some(identity);
                self.status.ready = true;
                self.status.fault = None;
                self.next_poll = now;
            }
            SensorEvent::Offline { code, what } => {
                let known = self.status.fault.as_ref().is_some_and(|f| f.code == code && f.what == what);
                if !known || self.status.ready {
                    self.notes.push(("lost", what.clone()));
                    self.lose(code, &what, Remedy::Reconnect, now);
                }
            }
            SensorEvent::Value { value, asked_at } => self.read(value, asked_at),
        }
    }

    fn read(&mut self, value: SensorValue, asked_at: Time) {
        let value = match value {
            SensorValue::Number(raw) => SensorValue::Number(raw * self.config.scale + self.config.offset),
            on => on,
        };
        let in_range = match (value, self.config.range) {
            (SensorValue::Number(v), Some((low, high))) => low <= v && v <= high,
            _ => true,
        };
        if self.status.in_range && !in_range {
            let (low, high) = self.config.range.unwrap_or_default();
            let show = crate::units::plain;
            let unit = &self.config.unit;
            let SensorValue::Number(v) = value else { return };
            let what =
                format!("It reads {} {unit}, outside its range of {} to {} {unit}.", show(v), show(low), show(high));
            self.notes.push(("out_of_range", what));
        }
        self.status.in_range = in_range;
        self.status.value = Some(value);
        self.status.read_at = Some(asked_at);
    }

    fn lose(&mut self, code: Code, what: &str, remedy: Remedy, now: Time) {
        self.status.ready = false;
        self.status.value = None;
        self.status.fault = Some(Fault { code, what: what.into(), at: now, remedy });
    }

    /// Its port is lent to another program, which may do anything there.
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
