//! Links over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::{Connector, Link, Opened, Opener, Second, Unopened};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(3);

pub(super) fn connector(address: String) -> Box<dyn Connector> {
    Opener::boxed(address.clone(), move || open(&address))
}

pub(super) fn open(address: &str) -> Opened {
    let trouble = |e: io::Error| -> Unopened {
        format!("{address} could not be reached: {e}. Is the device on, and the address right?").into()
    };
    let addresses: Vec<_> = address.to_socket_addrs().map_err(trouble)?.collect();
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for a in addresses {
        match TcpStream::connect_timeout(&a, CONNECT).and_then(|s| {
            s.set_nodelay(true)?;
            s.set_nonblocking(true)?;
            Ok(s)
        }) {
            Ok(stream) => return Ok(Box::new(Tcp(stream))),
            Err(e) => last = e,
        }
    }
    Err(trouble(last))
}

struct Tcp(TcpStream);

impl Link for Tcp {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            other => other,
        }
    }

    fn unsent(&self) -> usize {
        0
    }

    fn second(&self) -> Option<Box<dyn Second>> {
        Some(Box::new(Tcp(self.0.try_clone().ok()?)))
    }
}

impl Second for Tcp {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Link::write(self, bytes)
    }
}
