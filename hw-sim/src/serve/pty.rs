//! A serial line as a pseudo-terminal.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::{Line, Shared};

/// How often a terminal that no host has open is looked at.
const ABSENT: Duration = Duration::from_millis(10);
/// Output that a host does not read is kept up to here.
const KEEP: usize = 64 * 1024;

/// One pseudo-terminal, and whether a host has it open.
struct Terminal {
    master: OwnedFd,
    path: String,
    present: AtomicBool,
    gone: AtomicBool,
    /// Rung at one end when the terminal is gone, heard at the other by the thread that listens.
    bell: (UnixStream, UnixStream),
}

pub(super) struct PtyLine {
    device: String,
    terminal: Option<Arc<Terminal>>,
    last_path: String,
    pending: Vec<u8>,
}

impl PtyLine {
    pub(super) fn new(shared: &Arc<Shared>, device: &str) -> io::Result<PtyLine> {
        let mut line =
            PtyLine { device: device.to_owned(), terminal: None, last_path: String::new(), pending: Vec::new() };
        line.restore(shared)?;
        Ok(line)
    }
}

impl Terminal {
    fn open() -> io::Result<Terminal> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?.to_string_lossy().into_owned();
        // Raw from the start, for hosts that do not set the terminal up themselves.
        let slave = open(&path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
        let mut attributes = tcgetattr(&slave)?;
        attributes.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &attributes)?;
        drop(slave);
        fcntl_setfl(&master, OFlags::NONBLOCK)?;
        Ok(Terminal {
            master,
            path,
            present: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            bell: UnixStream::pair()?,
        })
    }

    fn listen(&self, shared: &Shared, device: &str) {
        let mut buffer = [0_u8; 512];
        while !shared.stopping() && !self.gone.load(Ordering::Acquire) {
            let mut fds = [PollFd::new(&self.master, PollFlags::IN), PollFd::new(&self.bell.1, PollFlags::IN)];
            if poll(&mut fds, None).is_err() {
                shared.pause(ABSENT);
                continue;
            }
            let seen = fds[0].revents();
            let hung_up = seen.contains(PollFlags::HUP);
            if self.present.swap(!hung_up, Ordering::AcqRel) == hung_up && !hung_up {
                shared.with_bench(|b| b.open(device));
            }
            if seen.contains(PollFlags::IN) {
                match rustix::io::read(&self.master, &mut buffer) {
                    Ok(n) if n > 0 => shared.feed(device, &buffer[..n]),
                    _ => shared.pause(ABSENT),
                }
            } else if hung_up {
                shared.pause(ABSENT);
            }
        }
    }
}

impl Line for PtyLine {
    fn path(&self) -> String {
        self.last_path.clone()
    }

    fn send(&mut self, bytes: Vec<u8>) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        if !terminal.present.load(Ordering::Acquire) {
            self.pending.clear();
            return false;
        }
        self.pending.extend(bytes);
        while !self.pending.is_empty() {
            match rustix::io::write(&terminal.master, &self.pending) {
                Ok(n) if n > 0 => {
                    self.pending.drain(..n);
                }
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        if self.pending.len() > KEEP {
            self.pending.drain(..self.pending.len() - KEEP);
        }
        !self.pending.is_empty()
    }

    fn cut(&mut self) {
        self.pending.clear();
        if let Some(terminal) = self.terminal.take() {
            terminal.gone.store(true, Ordering::Release);
            let mut bell = &terminal.bell.0;
            // The other end lives as long as this one.
            let _ = bell.write(&[0]);
        }
    }

    fn restore(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        let terminal = Arc::new(Terminal::open()?);
        self.last_path.clone_from(&terminal.path);
        self.terminal = Some(Arc::clone(&terminal));
        let device = self.device.clone();
        shared.spawn(&device.clone(), move |shared| terminal.listen(shared, &device))
    }

    fn close(&mut self) {
        self.cut();
    }
}
