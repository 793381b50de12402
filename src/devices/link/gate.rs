//! A gate before a link: while it is shut, another program has the port. Drivers see a connection that broke and
//! can't be opened yet, so that none of them knows of gates.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Connector, Lifeline, Link, Opened, Second};
use crate::model::Time;

#[derive(Default)]
struct Inner {
    shut: bool,
    link: Option<Box<dyn Link>>,
}

/// The rig thread's hand on a gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<Inner>>, Lifeline);

impl Gate {
    /// Puts a gate before a link. The connector behind it opens nothing while the gate is shut.
    pub(crate) fn before(connector: Box<dyn Connector>) -> (Gate, Box<dyn Connector>) {
        let gate = Gate::default();
        (gate.clone(), Box::new(Gated { gate, connector, asked: None, begun: false }))
    }

    /// Lets go of the port: it is closed when this returns. For devices at rest, whose port has nothing left to send
    /// that closing it would wait for.
    pub(crate) fn shut(&self) {
        let mut inner = self.0.lock();
        inner.shut = true;
        inner.link = None;
        self.1.closed();
    }

    /// Lets the driver open the port again, which it does by itself.
    pub(crate) fn open(&self) {
        self.0.lock().shut = false;
    }

    /// The watchdog's way past whoever uses the link.
    pub(crate) fn lifeline(&self) -> &Lifeline {
        &self.1
    }

    /// Whether another program has the port.
    pub(crate) fn is_shut(&self) -> bool {
        self.0.lock().shut
    }
}

struct Gated {
    gate: Gate,
    connector: Box<dyn Connector>,
    /// When the driver asked, until it has its answer.
    asked: Option<Time>,
    /// Whether the connector was told.
    begun: bool,
}

impl Connector for Gated {
    fn begin(&mut self, now: Time) {
        self.asked.get_or_insert(now);
        if !self.gate.is_shut() && !self.begun {
            self.begun = true;
            self.connector.begin(now);
        }
    }

    fn outcome(&mut self) -> Option<Opened> {
        let asked = self.asked?;
        if !self.begun {
            self.begin(asked);
        }
        if !self.begun {
            return None;
        }
        let outcome = self.connector.outcome()?;
        self.begun = false;
        let mut inner = self.gate.0.lock();
        if inner.shut {
            // It was being opened when the gate was shut: what came of it is dropped, and asked for again later.
            return None;
        }
        self.asked = None;
        Some(outcome.map(|link| {
            let announces = link.announces();
            self.gate.1.opened(link.second());
            inner.link = Some(link);
            Box::new(Through { gate: self.gate.clone(), announces }) as Box<dyn Link>
        }))
    }

    fn place(&self) -> String {
        self.connector.place()
    }
}

/// An open connection through a gate.
struct Through {
    gate: Gate,
    announces: bool,
}

impl Through {
    fn with<T>(&self, act: impl FnOnce(&mut dyn Link) -> io::Result<T>) -> io::Result<T> {
        match self.gate.0.lock().link.as_mut() {
            Some(link) => act(link.as_mut()),
            None => Err(io::Error::new(ErrorKind::NotConnected, "the port is lent to another program")),
        }
    }
}

impl Link for Through {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.gate.1.sound()?;
        self.with(|link| link.read(buf))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gate.1.watched(bytes, || self.with(|link| link.write(bytes)))
    }

    fn unsent(&self) -> usize {
        self.with(|link| Ok(link.unsent())).unwrap_or(0)
    }

    fn second(&self) -> Option<Box<dyn Second>> {
        self.gate.0.lock().link.as_ref()?.second()
    }

    fn announces(&self) -> bool {
        self.announces
    }
}

impl Drop for Through {
    /// The driver has let go, which closes the port.
    fn drop(&mut self) {
        self.gate.1.closed();
        self.gate.0.lock().link = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Far;
    use super::*;

    #[test]
    fn a_shut_gate_breaks_the_connection_and_opens_none_until_it_is_opened() {
        let far = Far::default();
        let (gate, mut connector) = Gate::before(far.connector("p"));
        connector.begin(Time::ZERO);
        let mut link = connector.outcome().unwrap().unwrap();
        assert_eq!(link.write(b"a").unwrap(), 1);
        gate.shut();
        assert!(link.write(b"b").is_err() && link.read(&mut [0; 4]).is_err());
        drop(link);
        connector.begin(Time::ZERO);
        assert!(connector.outcome().is_none() && connector.outcome().is_none());
        assert_eq!((far.opened(), far.take()), (1, b"a".to_vec()));
        gate.open();
        let mut link = connector.outcome().unwrap().unwrap();
        assert_eq!((link.write(b"c").unwrap(), far.opened()), (1, 2));
    }

    #[test]
    fn a_port_that_is_being_opened_when_the_gate_is_shut_is_closed_again() {
        let far = Far::default();
        let (gate, mut connector) = Gate::before(far.connector("p"));
        connector.begin(Time::ZERO);
        gate.shut();
        assert!(connector.outcome().is_none());
        gate.open();
        assert!(connector.outcome().unwrap().is_ok());
    }
}
