//! The owner's socket for clients of other processes: relays, and single calls from a shell.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use interprocess::local_socket::ListenerOptions;
use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use tokio::io::{AsyncRead, AsyncWriteExt, BufReader, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::folder::Socket;
use super::lock::Ownership;
use super::relay::{Hello, PROTOCOL, Welcome};
use super::wire::{REQUEST, same_user};
use crate::gateway::stdio::{self, Ending, StdioControl};
use crate::tools::{Face, Visit};

/// How many sessions there may be at once.
const SESSIONS: usize = 32;

/// How long a connection may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a relay sends when its client's input has ended: local sockets can't be closed in one direction everywhere,
/// and JSON never has this byte.
pub(super) const END: u8 = 0;

/// The socket, bound.
pub struct Sessions {
    listener: Listener,
    name: String,
}

impl Sessions {
    /// Binds the socket. Call after [`super::listen`], on a runtime with I/O.
    ///
    /// # Errors
    /// When it can't be had.
    pub fn bind(ownership: &Ownership, rig: &str) -> io::Result<Sessions> {
        let name = ownership.place().socket(Socket::Clients)?;
        let listener = ListenerOptions::new().name(name).reclaim_name(false).create_tokio()?;
        Ok(Sessions { listener, name: rig.to_owned() })
    }

    /// Serves whoever comes, until the end begins.
    pub async fn serve(self, face: Face, ending: Ending) {
        let places = Arc::new(Semaphore::new(SESSIONS));
        loop {
            let accepted = tokio::select! {
                biased;
                () = ending.token().cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok(stream) => {
                    let place = places.clone().try_acquire_owned().ok();
                    tokio::spawn(session(stream, self.name.clone(), face.clone(), ending.clone(), place));
                }
                Err(error) => {
                    tracing::warn!("a connection to the local socket failed: {error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

async fn session(stream: Stream, rig: String, face: Face, ending: Ending, place: Option<OwnedSemaphorePermit>) {
    if !same_user(&stream) {
        tracing::warn!("another user's connection to the local socket was refused");
        return;
    }
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(reader);
    let hello = tokio::time::timeout(PATIENCE, first_line(&mut reader)).await;
    let Ok(Some(line)) = hello else { return };
    let hello: Result<Hello, _> = serde_json::from_slice(&line);
    let refusal = match &hello {
        Err(error) => Some(format!("this is no hello: {error}")),
        Ok(hello) if hello.steadyhand != PROTOCOL => Some(format!(
            "it is steadyhand {}, which speaks another version of the local protocol than {}; use the same version \
             everywhere",
            env!("CARGO_PKG_VERSION"),
            hello.version
        )),
        Ok(_) if place.is_none() => Some(format!("{SESSIONS} clients are served already")),
        Ok(_) => None,
    };
    let pid = std::process::id();
    let welcome = Welcome { pid, rig, version: env!("CARGO_PKG_VERSION").into(), refusal: refusal.clone() };
    let Ok(mut line) = serde_json::to_vec(&welcome) else { return };
    line.push(b'\n');
    let told = tokio::time::timeout(PATIENCE, writer.write_all(&line)).await;
    let (Ok(hello), None, Ok(Ok(()))) = (hello, refusal, told) else { return };

    let (way, pid) = (hello.way(), Some(hello.pid));
    let request_timeout = hello.request_timeout_ms.map(Duration::from_millis);
    let token = ending.token().child_token();
    let visit = Visit { way, pid, read_only: hello.read_only, request_timeout, ending: token.clone() };
    let seated = face.visit(visit);
    let ending = {
        let face = seated.face.clone();
        ending.of_session(token, move || face.client_is_gone())
    };
    tracing::info!("process {} is served as {}", hello.pid, seated.seat().id);
    let control = StdioControl { ending, still: Box::pin(std::future::ready(true)) };
    let _ = stdio::serve(seated.face.clone(), UntilEnd::new(reader), writer, control).await;
    tracing::info!("process {} is gone", hello.pid);
    drop(seated);
}

/// The first line, and nothing of what follows: that stays in the reader.
async fn first_line(reader: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    use tokio::io::AsyncReadExt;
    let mut line = Vec::new();
    while line.len() <= REQUEST {
        match reader.read_u8().await.ok()? {
            b'\n' => return Some(line),
            byte => line.push(byte),
        }
    }
    None
}

/// A relay's lines, up to where it says that its client's input has ended.
pub fn until_end<R: AsyncRead + Send + Unpin + 'static>(reader: R) -> impl AsyncRead + Send + Unpin + 'static {
    UntilEnd::new(reader)
}

/// A reader that ends at the byte [`END`].
struct UntilEnd<R> {
    reader: R,
    over: bool,
}

impl<R> UntilEnd<R> {
    fn new(reader: R) -> UntilEnd<R> {
        UntilEnd { reader, over: false }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for UntilEnd<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.over {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        if let Some(at) = new.iter().position(|b| *b == END) {
            self.over = true;
            buffer.set_filled(before + at);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::stdio::lines::{Line, Lines};

    #[tokio::test]
    async fn a_stream_ends_at_the_end_byte_wherever_it_is_cut() {
        for text in [&b"one\ntwo\n\0three\n"[..], b"\0", b"one\n\0"] {
            let (mut near, far) = tokio::io::duplex(1);
            let written = text.to_vec();
            tokio::spawn(async move { near.write_all(&written).await });
            let mut lines = Lines::new(UntilEnd::new(far));
            let mut found = Vec::new();
            while let Line::Whole(range) = lines.next().await {
                found.push(String::from_utf8_lossy(lines.text(&range)).into_owned());
            }
            let whole = String::from_utf8_lossy(text);
            let expected: Vec<&str> = whole.split('\0').next().unwrap().lines().collect();
            assert_eq!(found, expected);
        }
    }
}
