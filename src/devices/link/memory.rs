//! Links in memory: a simulated bench on virtual time sits at the other end.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Connector, Link, Opened, Second, Unopened};
use crate::model::Time;

/// The bench's end of a memory link.
#[derive(Clone, Default, Debug)]
pub struct Far(Arc<Mutex<Buffers>>);

#[derive(Default, Debug)]
struct Buffers {
    to_device: VecDeque<u8>,
    to_host: VecDeque<u8>,
    unplugged: bool,
    /// How often the cable has been pulled.
    pulls: u64,
    /// How many bytes the host may have under way; `None` is no bound.
    room: Option<usize>,
    /// Bytes that the bench has taken but not yet put on its line.
    unsent: usize,
    opened: u64,
    /// What another program holds of it, in words.
    taken: Option<String>,
    /// Whether the line that restarts boards is wired, whether it is down, and how often it has fallen.
    dtr: bool,
    dtr_down: bool,
    falls: u64,
}

impl Far {
    /// Takes what the host has written.
    pub fn take(&self) -> Vec<u8> {
        self.0.lock().to_device.drain(..).collect()
    }

    /// Gives the host bytes to read.
    pub fn give(&self, bytes: &[u8]) {
        self.0.lock().to_host.extend(bytes);
    }

    /// Whether the host can open and use the link. One that was open before the cable was pulled stays broken.
    pub fn plug(&self, plugged: bool) {
        let mut b = self.0.lock();
        b.pulls += u64::from(!plugged && !b.unplugged);
        b.unplugged = !plugged;
    }

    /// Bounds how many bytes the link takes until the bench takes them; 0 makes it full.
    pub fn bound(&self, room: Option<usize>) {
        self.0.lock().room = room;
    }

    /// Tells the host how much of what it wrote is still waiting for the line.
    pub fn set_unsent(&self, bytes: usize) {
        self.0.lock().unsent = bytes;
    }

    /// Another program has it open, or lets go of it with `None`: until then the host can't open it.
    pub fn take_away(&self, by: Option<&str>) {
        self.0.lock().taken = by.map(str::to_owned);
    }

    /// Whether the line that restarts boards (DTR) is wired.
    pub fn wire_dtr(&self, wired: bool) {
        self.0.lock().dtr = wired;
    }

    /// How often that line has fallen: the bench restarts its board each time.
    pub fn falls(&self) -> u64 {
        self.0.lock().falls
    }

    /// How often the host has opened it.
    pub fn opened(&self) -> u64 {
        self.0.lock().opened
    }

    /// A connector that opens it at once.
    pub fn connector(&self, place: &str) -> Box<dyn Connector> {
        Box::new(Near { far: self.clone(), place: place.into(), asked: false })
    }
}

struct Near {
    far: Far,
    place: String,
    asked: bool,
}

impl Connector for Near {
    fn begin(&mut self, _: Time) {
        self.asked = true;
    }

    fn outcome(&mut self) -> Option<Opened> {
        if !std::mem::take(&mut self.asked) {
            return None;
        }
        let mut b = self.far.0.lock();
        if b.unplugged {
            let what = format!("{} isn't there. Is the device plugged in and switched on?", self.place);
            return Some(Err(what.into()));
        }
        if let Some(by) = &b.taken {
            return Some(Err(Unopened { what: format!("{} is in use by {by}.", self.place), taken: true }));
        }
        b.opened += 1;
        b.to_host.clear();
        b.to_device.clear();
        let pulls = b.pulls;
        Some(Ok(Box::new(Memory { far: self.far.clone(), pulls })))
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

struct Memory {
    far: Far,
    /// How often the cable had been pulled when it was opened.
    pulls: u64,
}

impl Memory {
    fn buffers(&self) -> io::Result<parking_lot::MutexGuard<'_, Buffers>> {
        let b = self.far.0.lock();
        if b.unplugged || b.pulls != self.pulls {
            return Err(ErrorKind::BrokenPipe.into());
        }
        Ok(b)
    }
}

impl Link for Memory {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut b = self.buffers()?;
        let n = buf.len().min(b.to_host.len());
        for (to, from) in buf.iter_mut().zip(b.to_host.drain(..n)) {
            *to = from;
        }
        Ok(n)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut b = self.buffers()?;
        let n = b.room.map_or(bytes.len(), |room| bytes.len().min(room.saturating_sub(b.to_device.len())));
        b.to_device.extend(&bytes[..n]);
        Ok(n)
    }

    fn unsent(&self) -> usize {
        let b = self.far.0.lock();
        b.unsent + b.to_device.len()
    }

    fn set_dtr(&mut self, up: bool) -> io::Result<()> {
        let mut b = self.buffers()?;
        if !b.dtr {
            return Err(ErrorKind::Unsupported.into());
        }
        b.falls += u64::from(!up && !b.dtr_down);
        b.dtr_down = !up;
        Ok(())
    }

    fn second(&self) -> Option<Box<dyn Second>> {
        Some(Box::new(Memory { far: self.far.clone(), pulls: self.pulls }))
    }

    fn announces(&self) -> bool {
        true
    }
}

impl Second for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Link::write(self, bytes)
    }
}
