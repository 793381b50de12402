//! A device's line as a TCP port on the loopback; one host at a time, the latest.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Line, Shared};

/// Messages that a host may leave unread before it is dropped.
const UNREAD: usize = 64;

struct Host {
    number: u64,
    stream: TcpStream,
    outgoing: SyncSender<Vec<u8>>,
}

#[derive(Default)]
struct Seat {
    host: Mutex<Option<Host>>,
    count: AtomicU64,
}

impl Seat {
    fn take(&self, only: Option<u64>) {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        if only.is_none_or(|n| host.as_ref().is_some_and(|h| h.number == n))
            && let Some(host) = host.take()
        {
            // Already closed by the other side, perhaps.
            let _ = host.stream.shutdown(Shutdown::Both);
        }
    }
}

pub(super) struct TcpLine {
    address: SocketAddr,
    seat: Arc<Seat>,
}

impl TcpLine {
    pub(super) fn new(shared: &Arc<Shared>, device: &str) -> io::Result<TcpLine> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let seat = Arc::new(Seat::default());
        let (device, waiting) = (device.to_owned(), Arc::clone(&seat));
        shared.spawn(&device.clone(), move |shared| accept(shared, &listener, &device, &waiting))?;
        Ok(TcpLine { address, seat })
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener, device: &str, seat: &Arc<Seat>) {
    for stream in listener.incoming() {
        if shared.stopping() {
            return;
        }
        let Ok(stream) = stream else { continue };
        if !shared.with_bench(|b| b.plugged(device)) {
            continue;
        }
        seat.take(None);
        if let Err(e) = welcome(shared, stream, device, seat) {
            eprintln!("hw-sim: {device}: a host could not be served: {e}");
        }
    }
}

fn welcome(shared: &Arc<Shared>, stream: TcpStream, device: &str, seat: &Arc<Seat>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (outgoing, queue) = sync_channel(UNREAD);
    let number = seat.count.fetch_add(1, Ordering::Relaxed);
    let (reading, writing) = (stream.try_clone()?, stream.try_clone()?);
    *seat.host.lock().unwrap_or_else(PoisonError::into_inner) = Some(Host { number, stream, outgoing });
    if shared.stopping() {
        seat.take(None);
    }
    shared.with_bench(|b| b.open(device));
    shared.spawn(device, move |_| write_out(writing, &queue))?;
    let (device, seat) = (device.to_owned(), Arc::clone(seat));
    shared.spawn(&device.clone(), move |shared| {
        read_in(shared, reading, &device);
        seat.take(Some(number));
    })
}

fn write_out(mut stream: TcpStream, queue: &Receiver<Vec<u8>>) {
    for bytes in queue {
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn read_in(shared: &Shared, mut stream: TcpStream, device: &str) {
    let mut buffer = [0_u8; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 || shared.stopping() {
            return;
        }
        shared.feed(device, &buffer[..n]);
    }
}

impl Line for TcpLine {
    fn path(&self) -> String {
        format!("tcp://{}", self.address)
    }

    fn send(&mut self, bytes: Vec<u8>) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let mut host = self.seat.host.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(h) = host.as_ref()
            && h.outgoing.try_send(bytes).is_err()
        {
            // It does not read, or it is gone.
            let _ = h.stream.shutdown(Shutdown::Both);
            *host = None;
        }
        false
    }

    fn cut(&mut self) {
        self.seat.take(None);
    }

    fn restore(&mut self, _: &Arc<Shared>) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) {
        self.cut();
        // Wakes the thread that waits for a host.
        let _ = TcpStream::connect(self.address);
    }
}
