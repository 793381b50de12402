//! Logging: to standard error and to a file, by threads of their own, so that a host that doesn't read standard error
//! or a disk that hangs holds up nothing but the log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Lines that may wait for a sink. Further ones are dropped: the log is no record, the audit log is.
const QUEUE: usize = 4096;

/// A log file that has grown to this is put aside, replacing the one put aside before.
const FILE_BYTES: u64 = 16 << 20;

/// How long the last lines may take at the end.
const LAST_LINES: Duration = Duration::from_millis(500);

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    /// The level of that name, as the rig file writes it.
    pub(super) fn named(name: &str) -> Option<Level> {
        clap::ValueEnum::from_str(name, true).ok()
    }

    /// The program's own lines at this level; what libraries say, one level quieter.
    fn targets(self) -> Targets {
        let (libraries, own) = match self {
            Level::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
            Level::Warn => (LevelFilter::WARN, LevelFilter::WARN),
            Level::Info => (LevelFilter::WARN, LevelFilter::INFO),
            Level::Debug => (LevelFilter::INFO, LevelFilter::DEBUG),
            Level::Trace => (LevelFilter::DEBUG, LevelFilter::TRACE),
        };
        Targets::new().with_default(libraries).with_target("steadyhand", own)
    }
}

/// The running log. Dropping it writes what still waits.
pub(super) struct Logs(Sinks);

/// Starts logging to standard error, and to `steadyhand.log` in `folder` if there is one. `asked` (the command line)
/// comes before the environment's `RUST_LOG`, and that before `otherwise`. May be called once.
pub(super) fn start(asked: Option<Level>, otherwise: Level, folder: Option<&Path>) -> Logs {
    let environment = || std::env::var("RUST_LOG").ok()?.parse().ok();
    let filter: Targets = match asked {
        Some(level) => level.targets(),
        None => environment().unwrap_or_else(|| otherwise.targets()),
    };
    let mut sinks = vec![sink("log-stderr", io::stderr())];
    let file = folder.map(|folder| LogFile::open(folder.join("steadyhand.log")));
    let trouble = match file {
        Some(Ok(file)) => {
            sinks.push(sink("log-file", file));
            None
        }
        Some(Err(error)) => Some(error),
        None => None,
    };
    let sinks = Sinks(sinks.into_iter().flatten().collect());
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(sinks.clone()).with_filter(filter);
    if tracing_subscriber::registry().with(lines).try_init().is_ok() {
        std::panic::set_hook(Box::new(|panic| tracing::error!("panic: {panic}")));
    }
    if let Some(error) = trouble {
        tracing::warn!("no log file: {error}");
    }
    Logs(sinks)
}

impl Drop for Logs {
    fn drop(&mut self) {
        for sink in self.0.0.iter() {
            let (done, wait) = sync_channel(1);
            if sink.try_send(Line::Flush(done)).is_ok() {
                let _ = wait.recv_timeout(LAST_LINES);
            }
        }
    }
}

enum Line {
    Text(Arc<[u8]>),
    Flush(SyncSender<()>),
}

/// The ways to the threads that write.
#[derive(Clone)]
struct Sinks(Arc<[SyncSender<Line>]>);

impl Write for &Sinks {
    /// Takes one whole line, as the formatter hands it over.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text: Arc<[u8]> = line.into();
        for sink in self.0.iter() {
            let _ = sink.try_send(Line::Text(text.clone()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sinks {
    type Writer = &'a Sinks;

    fn make_writer(&'a self) -> &'a Sinks {
        self
    }
}

fn sink(name: &str, mut to: impl Write + Send + 'static) -> Option<SyncSender<Line>> {
    let (sender, lines): (_, Receiver<Line>) = sync_channel(QUEUE);
    let run = move || {
        for line in lines {
            match line {
                // A sink that fails has nowhere to say so.
                Line::Text(text) => drop(to.write_all(&text)),
                Line::Flush(done) => {
                    let _ = to.flush();
                    let _ = done.send(());
                }
            }
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(run).ok().map(|_| sender)
}

/// A file that begins anew when it has grown.
struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl LogFile {
    fn open(path: PathBuf) -> io::Result<LogFile> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(LogFile { path, file, bytes })
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes >= FILE_BYTES {
            fs::rename(&self.path, self.path.with_extension("old.log"))?;
            *self = LogFile::open(self.path.clone())?;
        }
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_hangs_holds_up_nobody() {
        struct Hangs(Receiver<()>);
        impl Write for Hangs {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, hang) = sync_channel(1);
        let sinks = Sinks(sink("hangs", Hangs(hang)).into_iter().collect());
        for _ in 0..3 * QUEUE {
            (&sinks).write_all(b"line\n").expect("taken");
        }
        drop(release);
    }

    #[test]
    fn a_log_file_goes_on_and_is_put_aside_when_it_has_grown() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("logs/steadyhand.log");
        LogFile::open(path.clone()).expect("opened").write_all(b"first\n").expect("written");
        let mut file = LogFile::open(path.clone()).expect("opened");
        file.write_all(b"second\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "first\nsecond\n");
        file.bytes = FILE_BYTES;
        file.write_all(b"third\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "third\n");
        let aside = fs::read_to_string(folder.path().join("logs/steadyhand.old.log")).expect("read");
        assert_eq!(aside, "first\nsecond\n");
    }
}
