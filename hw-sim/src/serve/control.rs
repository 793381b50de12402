//! The control socket: JSON lines over TCP on the loopback, or over a Unix socket.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::Shared;

/// Longest request line.
const REQUEST_LIMIT: u64 = 1 << 20;

/// A stream that can be ended from another thread.
trait Stream: Read + Write + Send {
    fn twin(&self) -> io::Result<Box<dyn Stream>>;
    fn end(&self);
}

impl Stream for TcpStream {
    fn twin(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

#[cfg(unix)]
impl Stream for UnixStream {
    fn twin(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Listener::Tcp(l) => Ok(Box::new(l.accept()?.0)),
            #[cfg(unix)]
            Listener::Unix(l) => Ok(Box::new(l.accept()?.0)),
        }
    }
}

enum Place {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(PathBuf),
}

/// Where the control socket is, and the clients it has.
pub(super) struct Address {
    place: Place,
    listener: Option<Listener>,
    clients: Arc<Mutex<Vec<Box<dyn Stream>>>>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Tcp(address) => write!(f, "{address}"),
            #[cfg(unix)]
            Place::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Address {
    pub(super) fn bind(path: Option<&Path>) -> io::Result<Address> {
        let (place, listener) = match path {
            None => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                (Place::Tcp(listener.local_addr()?), Listener::Tcp(listener))
            }
            #[cfg(unix)]
            Some(path) => (Place::Unix(path.to_owned()), Listener::Unix(UnixListener::bind(path)?)),
            #[cfg(not(unix))]
            Some(_) => return Err(io::Error::new(io::ErrorKind::Unsupported, "a control path needs Unix sockets")),
        };
        Ok(Address { place, listener: Some(listener), clients: Arc::default() })
    }

    pub(super) fn serve(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let clients = Arc::clone(&self.clients);
        shared.spawn("control", move |shared| {
            while let Ok(stream) = listener.accept() {
                if shared.stopping() {
                    return;
                }
                let Ok(twin) = stream.twin() else { continue };
                clients.lock().unwrap_or_else(PoisonError::into_inner).push(twin);
                if shared.stopping() {
                    stream.end();
                }
                if let Err(e) = shared.spawn("client", move |shared| converse(shared, stream)) {
                    eprintln!("hw-sim: a control client could not be served: {e}");
                }
            }
        })
    }

    pub(super) fn close(&mut self) {
        for client in self.clients.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            client.end();
        }
        match &self.place {
            // Wakes the thread that waits for a client.
            Place::Tcp(address) => drop(TcpStream::connect(address)),
            #[cfg(unix)]
            Place::Unix(path) => {
                drop(UnixStream::connect(path));
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn converse(shared: &Shared, stream: Box<dyn Stream>) {
    let Ok(mut replies) = stream.twin() else { return };
    let mut requests = BufReader::new(stream);
    loop {
        let mut line = String::new();
        match requests.by_ref().take(REQUEST_LIMIT).read_line(&mut line) {
            Ok(n) if n > 0 && !shared.stopping() => {}
            _ => break,
        }
        let mut reply = shared.with_bench(|b| b.control(&line));
        reply.push('\n');
        if replies.write_all(reply.as_bytes()).is_err() {
            break;
        }
    }
    replies.end();
}
