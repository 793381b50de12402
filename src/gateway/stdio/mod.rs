//! One client over a pair of byte streams: the session from its first line to its orderly end.
//!
//! The SDK's own stdio transport is not used. This one
//! - reads lines of at most [`MAX_LINE`] bytes, tolerates a byte order mark, CRLF and blank lines, and answers what
//!   can't be read instead of ending the session over it (`triage` has the rules);
//! - writes each message whole, whether it is the service's or its own;
//! - makes the hardware safe before anything else when the input ends, the output breaks or a signal comes, and
//!   then drains the answers that are due, for a bounded time.
//!
//! Batches are refused in every protocol version. Only 2025-03-26 had them, no known client sends them, and their
//! members would run in no particular order, which is the last thing to do to a stage.
//!
//! The program sends no log messages to clients: they go to standard error and to the log file.

pub(in crate::gateway) mod distress;
mod end;
mod fence;
pub(in crate::gateway) mod lines;
mod outbox;
mod pipes;
mod transport;
pub(in crate::gateway) mod triage;

use std::time::Duration;

use rmcp::service::serve_directly_with_ct;
use rmcp::{RoleServer, ServerHandler};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use end::{Ending, Exit, StdioControl};
pub use lines::MAX_LINE;
pub use pipes::{Reader, Writer, claim};

use fence::Fenced;
use transport::LineTransport;

/// How long calls in flight may take to answer once the session ends.
pub const DRAIN: Duration = Duration::from_secs(2);

/// How long of that they have before their cancellation is given too, to end those that watch nothing else.
const GRACE: Duration = Duration::from_millis(300);

/// Serves one client until its input ends, its output breaks, or `control` is told to end.
///
/// Order at the end: the axes' stop is ordered; calls in flight get [`DRAIN`] to answer, while standstill is awaited;
/// then this returns. Both protocol eras are served: `initialize` up to 2025-11-25, and requests that carry
/// their version with them from 2026-07-28 on. A request that does neither is refused with -32602.
///
/// The future must run on a runtime with time enabled.
pub async fn serve<H, R, W>(handler: H, reader: R, writer: W, control: StdioControl) -> Exit
where
    H: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let StdioControl { ending, still } = control;
    let supported = handler.supported_protocol_versions().into_owned();
    let (transport, outbox) = LineTransport::new(reader, writer, supported, ending.clone());
    let cancel = CancellationToken::new();
    let service = serve_directly_with_ct::<RoleServer, _, _, _, _>(Fenced(handler), transport, None, cancel.clone());
    let mut served = std::pin::pin!(service.waiting());

    let ended_by_itself = tokio::select! {
        () = ending.token().cancelled() => false,
        _ = &mut served => true,
    };
    ending.begin("the service ended");

    let drain = async {
        if !ended_by_itself && tokio::time::timeout(GRACE, &mut served).await.is_err() {
            cancel.cancel();
            if tokio::time::timeout(DRAIN - GRACE, &mut served).await.is_err() {
                tracing::warn!("calls in flight were given up after {DRAIN:?}");
            }
        }
        outbox.idle(GRACE).await;
    };
    match tokio::join!(drain, still) {
        ((), true) => Exit::Still,
        ((), false) => Exit::NotConfirmed,
    }
}

#[cfg(test)]
mod tests;
