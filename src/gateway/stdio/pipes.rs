//! The process's own standard streams, with standard output kept for the protocol alone.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// Where the client's lines come from.
pub type Reader = Pin<Box<dyn AsyncRead + Send>>;

/// Where the answers go.
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

/// Takes standard input and output for the protocol.
///
/// On Unix, descriptor 1 afterwards leads to standard error, so that whatever anything else in the process prints,
/// a C library included, can't get between the messages. On Windows nothing is redirected: there only the
/// program's own discipline keeps other text away (`print_stdout` is denied).
///
/// Call once, within a runtime with I/O enabled, before anything could print.
///
/// # Errors
/// When descriptors can't be duplicated; then nothing has changed.
pub fn claim() -> io::Result<(Reader, Writer)> {
    let output = take_stdout()?;
    Ok((open_input(), open_output(output)?))
}

#[cfg(unix)]
fn take_stdout() -> io::Result<std::fs::File> {
    // 3 and up: never one of the standard three, should one of those be closed.
    let real = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(std::fs::File::from(real))
}

/// Pipes on Linux are driven by the runtime's poller. They are opened anew, so that the non-blocking flag stays with
/// us and away from whoever shares the descriptor. All else goes through the runtime's blocking threads.
#[cfg(target_os = "linux")]
fn open_input() -> Reader {
    match tokio::net::unix::pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        Ok(pipe) => Box::pin(pipe),
        Err(_) => Box::pin(tokio::io::stdin()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_input() -> Reader {
    Box::pin(tokio::io::stdin())
}

#[cfg(unix)]
fn open_output(real: std::fs::File) -> io::Result<Writer> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", real.as_raw_fd());
        if let Ok(pipe) = tokio::net::unix::pipe::OpenOptions::new().open_sender(path) {
            return Ok(Box::pin(pipe));
        }
    }
    Ok(Box::pin(tokio::fs::File::from_std(real)))
}

#[cfg(not(unix))]
fn take_stdout() -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn open_output((): ()) -> io::Result<Writer> {
    Ok(Box::pin(tokio::io::stdout()))
}
