//! Links: bytes to and from a device. Reading and writing never wait; opening happens elsewhere and is asked
//! after.

pub(crate) mod dialogue;
pub mod gate;
mod lifeline;
pub mod memory;
mod ports;
mod serial;
mod tcp;
mod wire;

use std::io;

use crate::config::{self, Port};
use crate::model::Time;
pub use lifeline::{Lifeline, Second, StopScript};
pub use ports::{SerialPort, UsbPort, serial_ports};
pub(crate) use wire::{IDLE, Wire, WireEvent};

/// An open connection. No call waits.
pub trait Link: Send {
    /// Takes what has arrived; 0 when nothing has.
    ///
    /// # Errors
    /// The connection is gone.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Hands bytes to the operating system; tells how many it took, 0 when it has no room.
    ///
    /// # Errors
    /// The connection is gone.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// How many bytes the operating system still has to send, as far as it tells.
    fn unsent(&self) -> usize;

    /// Sets the line by whose fall boards of the Arduino kind restart (DTR).
    ///
    /// # Errors
    /// There is no such line.
    fn set_dtr(&mut self, _up: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Another handle for the watchdog, if there can be one.
    fn second(&self) -> Option<Box<dyn Second>> {
        None
    }

    /// Whether the rig thread is woken when bytes arrive, so that nobody has to look for them.
    fn announces(&self) -> bool {
        false
    }
}

/// What came of opening a link.
pub type Opened = Result<Box<dyn Link>, Unopened>;

/// Why a link could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unopened {
    /// What is wrong and what to do, in words.
    pub what: String,
    /// Whether another program has it, which may let go by itself.
    pub taken: bool,
}

impl From<String> for Unopened {
    fn from(what: String) -> Unopened {
        Unopened { what, taken: false }
    }
}

impl std::fmt::Display for Unopened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// How a link is opened. What blocks does so on a thread of its own.
pub trait Connector: Send {
    /// Begins to open it; a second call before the end of the first does nothing.
    fn begin(&mut self, now: Time);

    /// The outcome, once there is one.
    fn outcome(&mut self) -> Option<Opened>;

    /// Where it leads, for people.
    fn place(&self) -> String;
}

/// The connector for a link of a rig file.
pub fn connector(link: &config::Link) -> Box<dyn Connector> {
    match &link.port {
        Port::Tcp(address) => tcp::connector(address.clone()),
        Port::Path(_) | Port::Usb { .. } => serial::connector(link.clone()),
    }
}

/// Whether a port may be opened now, and else why not; it may wait, as opening does.
pub type Leave = std::sync::Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The same, for a port that must not be opened while something speaks against it.
pub fn connector_by_leave(link: &config::Link, leave: Leave) -> Box<dyn Connector> {
    let (link, place) = (link.clone(), connector(link).place());
    Opener::boxed(place, move || -> Opened {
        leave()?;
        match &link.port {
            Port::Tcp(address) => tcp::open(address),
            Port::Path(_) | Port::Usb { .. } => serial::open(&link),
        }
    })
}

/// The path of a link's port, if it is there.
pub fn path(link: &config::Link) -> Option<String> {
    match &link.port {
        Port::Tcp(address) => Some(format!("tcp://{address}")),
        Port::Path(_) | Port::Usb { .. } => serial::find(&link.port).ok(),
    }
}

/// Opens on a helper thread, since opening a port or a connection can block for seconds.
struct Opener<F> {
    place: String,
    open: F,
    pending: Option<std::sync::mpsc::Receiver<Opened>>,
}

impl<F> Opener<F>
where
    F: Fn() -> Opened + Clone + Send + 'static,
{
    fn boxed(place: String, open: F) -> Box<dyn Connector> {
        Box::new(Opener { place, open, pending: None })
    }
}

impl<F> Connector for Opener<F>
where
    F: Fn() -> Opened + Clone + Send + 'static,
{
    fn begin(&mut self, _: Time) {
        if self.pending.is_some() {
            return;
        }
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        let open = self.open.clone();
        let started = std::thread::Builder::new().name("open-port".into()).spawn(move || {
            let _ = send.send(open());
        });
        // A thread that could not be started has dropped its sender: the outcome says so.
        drop(started);
        self.pending = Some(receive);
    }

    fn outcome(&mut self) -> Option<Opened> {
        use std::sync::mpsc::TryRecvError;
        let outcome = match self.pending.as_ref()?.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Err(format!("{} could not be opened: its helper thread ended.", self.place).into())
            }
        };
        self.pending = None;
        Some(outcome)
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Barrier};

    use super::*;

    struct Port(Arc<AtomicU32>);

    impl Link for Port {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn unsent(&self) -> usize {
            0
        }
    }

    impl Drop for Port {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn outcome(opening: &mut dyn Connector) -> Opened {
        let started = std::time::Instant::now();
        loop {
            if let Some(outcome) = opening.outcome() {
                return outcome;
            }
            assert!(started.elapsed() < std::time::Duration::from_secs(10), "it never ends");
            std::thread::yield_now();
        }
    }

    #[test]
    fn r11_a_port_whose_opening_was_given_up_half_way_is_let_go_and_can_be_opened_again() {
        let held = Arc::new(AtomicU32::new(0));
        let gate = Arc::new(Barrier::new(2));
        let blocking = {
            let (held, gate) = (held.clone(), gate.clone());
            move || -> Opened {
                gate.wait();
                held.fetch_add(1, Ordering::SeqCst);
                gate.wait();
                Ok(Box::new(Port(held.clone())))
            }
        };
        let mut given_up = Opener::boxed("a port".into(), blocking);
        given_up.begin(Time::ZERO);
        assert!(given_up.outcome().is_none());
        gate.wait();
        drop(given_up);
        gate.wait();
        let started = std::time::Instant::now();
        while held.load(Ordering::SeqCst) > 0 {
            assert!(started.elapsed() < std::time::Duration::from_secs(10), "nobody has it, and it stays open");
            std::thread::yield_now();
        }
        let free = held.clone();
        let mut again = Opener::boxed("a port".into(), move || -> Opened { Ok(Box::new(Port(free.clone()))) });
        held.fetch_add(1, Ordering::SeqCst);
        again.begin(Time::ZERO);
        assert!(outcome(again.as_mut()).is_ok());
    }

    #[test]
    fn r11_a_panic_while_opening_is_told_and_leaves_the_port_to_be_tried_again() {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let mut opening = Opener::boxed("a port".into(), move || -> Opened {
            assert!(counted.fetch_add(1, Ordering::SeqCst) > 0, "on purpose");
            Err(String::from("no").into())
        });
        opening.begin(Time::ZERO);
        assert!(outcome(opening.as_mut()).err().unwrap().what.contains("helper thread ended"));
        opening.begin(Time::ZERO);
        assert_eq!(outcome(opening.as_mut()).err().unwrap().what, "no");
        assert_eq!(tries.load(Ordering::SeqCst), 2);
    }
}
