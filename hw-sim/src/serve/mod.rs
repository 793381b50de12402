//! Real time: a bench on pseudo-terminals and TCP, with its control socket.
//!
//! One thread moves the bench's clock and hands out what devices say; one thread a line waits for its host. At rest
//! nothing wakes up more than once a second, apart from a look at pseudo-terminals that no host has open.

mod control;
#[cfg(unix)]
mod pty;
mod tcp;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Bench;
#[cfg(unix)]
use crate::PortKind;

const GRAIN: Duration = Duration::from_millis(1);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Called with device and path whenever a device gets a path, at the start and after each replug.
pub type Announce = Box<dyn Fn(&str, &str) + Send>;

/// How a bench is served.
#[derive(Default)]
pub struct Options {
    /// A folder in which `<device>` is kept as a link to the device's current pseudo-terminal.
    pub link_dir: Option<PathBuf>,
    /// A Unix socket for the control socket, instead of a TCP port on the loopback.
    pub control_path: Option<PathBuf>,
    /// Told of each path.
    pub announce: Option<Announce>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("link_dir", &self.link_dir)
            .field("control_path", &self.control_path)
            .finish_non_exhaustive()
    }
}

/// What a line does for the thread that moves the clock.
trait Line: Send {
    /// What a host opens.
    fn path(&self) -> String;
    /// Takes bytes to the host; true while some are still waiting.
    fn send(&mut self, bytes: Vec<u8>) -> bool;
    /// The cable is pulled.
    fn cut(&mut self);
    /// The cable is back.
    fn restore(&mut self, shared: &Arc<Shared>) -> io::Result<()>;
    /// No more hosts; wakes whatever waits for one.
    fn close(&mut self);
}

struct Connected {
    device: String,
    line: Box<dyn Line>,
    plugged: bool,
    unplugs: u64,
}

struct State {
    bench: Bench,
    lines: Vec<Connected>,
}

/// What all threads of a served bench share.
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    stop: AtomicBool,
    started: Instant,
    offset: Duration,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.offset + self.started.elapsed()
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn with_bench<R>(&self, f: impl FnOnce(&mut Bench) -> R) -> R {
        let mut state = self.lock();
        state.bench.advance(self.now());
        let result = f(&mut state.bench);
        drop(state);
        self.wake.notify_all();
        result
    }

    /// A host's bytes, as fast as the device's port takes them.
    fn feed(&self, device: &str, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.stopping() {
            let (taken, plugged) = self.with_bench(|b| (b.write(device, bytes), b.plugged(device)));
            if !plugged {
                return;
            }
            bytes = &bytes[taken..];
            if taken == 0 {
                self.pause(GRAIN);
            }
        }
    }

    /// Waits, but not beyond the end of the bench.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !self.stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn spawn(self: &Arc<Self>, name: &str, body: impl FnOnce(&Arc<Shared>) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(self);
        let handle = thread::Builder::new().name(format!("hw-sim {name}")).spawn(move || body(&shared))?;
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|t| !t.is_finished());
        threads.push(handle);
        Ok(())
    }
}

/// A bench that is being served. Dropping it ends its threads and its lines.
pub struct Running {
    shared: Arc<Shared>,
    control: control::Address,
    link_dir: Option<PathBuf>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("control", &self.control).field("paths", &self.paths()).finish()
    }
}

impl Running {
    /// Puts the bench on its lines and lets its clock run from where it is.
    ///
    /// # Errors
    /// When a pseudo-terminal, a port, a link or a thread cannot be had; nothing runs then.
    pub fn start(bench: Bench, options: Options) -> io::Result<Running> {
        let offset = bench.now();
        let devices = bench.devices();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { bench, lines: Vec::new() }),
            wake: Condvar::new(),
            stop: AtomicBool::new(false),
            started: Instant::now(),
            offset,
            threads: Mutex::new(Vec::new()),
        });
        let control = control::Address::bind(options.control_path.as_deref())?;
        let mut running = Running { shared: Arc::clone(&shared), control, link_dir: options.link_dir.clone() };
        for device in &devices {
            let line: Box<dyn Line> = match device.port {
                #[cfg(unix)]
                PortKind::Serial { .. } => Box::new(pty::PtyLine::new(&shared, &device.id)?),
                _ => Box::new(tcp::TcpLine::new(&shared, &device.id)?),
            };
            announce(&options, &device.id, &line.path())?;
            let unplugs = shared.lock().bench.unplugs(&device.id);
            shared.lock().lines.push(Connected { device: device.id.clone(), line, plugged: true, unplugs });
        }
        running.control.serve(&shared)?;
        shared.spawn("clock", move |shared| run_clock(shared, &options))?;
        Ok(running)
    }

    /// Each device with what a host opens: a terminal's path, or `tcp://host:port`.
    pub fn paths(&self) -> Vec<(String, String)> {
        self.shared.lock().lines.iter().map(|l| (l.device.clone(), l.line.path())).collect()
    }

    /// The control socket: `host:port`, or the path of a Unix socket.
    pub fn control_addr(&self) -> String {
        self.control.to_string()
    }

    /// Looks at the bench, or disturbs it, at this moment.
    pub fn with_bench<R>(&self, f: impl FnOnce(&mut Bench) -> R) -> R {
        self.shared.with_bench(f)
    }

    /// Ends all threads and lines.
    pub fn stop(self) {
        drop(self);
    }

    fn end(&mut self) {
        {
            let mut state = self.shared.lock();
            self.shared.stop.store(true, Ordering::Release);
            state.lines.iter_mut().for_each(|l| l.line.close());
        }
        self.shared.wake.notify_all();
        self.control.close();
        loop {
            let threads: Vec<_> =
                self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
            if threads.is_empty() {
                break;
            }
            for thread in threads {
                // A panic in a line's thread has been printed already, and there is nothing left to do for it.
                let _ = thread.join();
            }
        }
        let state = self.shared.lock();
        if let Some(dir) = &self.link_dir {
            for line in &state.lines {
                // The link may be gone already.
                let _ = std::fs::remove_file(dir.join(&line.device));
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn announce(options: &Options, device: &str, path: &str) -> io::Result<()> {
    if let Some(dir) = options.link_dir.as_deref().filter(|_| path.starts_with('/')) {
        link(dir, device, path)?;
    }
    if let Some(tell) = &options.announce {
        tell(device, path);
    }
    Ok(())
}

#[cfg(unix)]
fn link(dir: &Path, device: &str, path: &str) -> io::Result<()> {
    let fresh = dir.join(format!(".{device}.new"));
    match std::fs::remove_file(&fresh) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    std::os::unix::fs::symlink(path, &fresh)?;
    std::fs::rename(&fresh, dir.join(device))
}

#[cfg(not(unix))]
fn link(_: &Path, _: &str, _: &str) -> io::Result<()> {
    Ok(())
}

/// Moves the clock, carries what devices say to their hosts, and pulls and restores cables.
fn run_clock(shared: &Arc<Shared>, options: &Options) {
    let mut state = shared.lock();
    while !shared.stopping() {
        state.bench.advance(shared.now());
        let State { bench, lines } = &mut *state;
        let mut waiting = false;
        for connected in lines.iter_mut() {
            let device = &connected.device;
            let (plugged, unplugs) = (bench.plugged(device), bench.unplugs(device));
            if unplugs != connected.unplugs {
                connected.unplugs = unplugs;
                connected.plugged = false;
                connected.line.cut();
            }
            if plugged && !connected.plugged {
                connected.plugged = true;
                let restored = connected.line.restore(shared);
                if let Err(e) = restored.and_then(|()| announce(options, device, &connected.line.path())) {
                    eprintln!("hw-sim: {device} could not be plugged in again: {e}");
                }
            }
            waiting |= connected.line.send(bench.read(device));
        }
        let now = shared.now();
        let next = bench.next_event().map_or(LONGEST_WAIT, |t| t.saturating_sub(now));
        let longest = if waiting { 5 * GRAIN } else { LONGEST_WAIT };
        let wait = next.clamp(GRAIN, longest);
        state = shared.wake.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
}
