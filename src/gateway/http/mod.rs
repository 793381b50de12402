//! Many clients over HTTP on this machine: MCP's stateless streamable HTTP, a stop without MCP, and health.
//!
//! | request | answer |
//! |---|---|
//! | `POST` on MCP's path | one message, in either protocol era; JSON, or a stream of events for a long call |
//! | `POST /stop` | stops everything, or the stage that the body names, as a person's order |
//! | `GET /healthz` | whether this process answers |
//! | `GET /readyz` | whether the rig is served and its devices are there |
//!
//! Two sides. The *front* is one OS thread with a runtime of its own: it accepts, judges who may come in (`gate`), and
//! answers all but MCP itself, so that a stop goes out whatever the protocol's runtime is busy with. The *endpoint*
//! runs on the protocol's runtime: the same triage as over pipes, then the SDK's service.
//!
//! There are no sessions: one request is one caller. When its connection closes before the answer, the call is taken
//! back and its motion stops, in both eras. `notifications/cancelled` has nothing to refer to here and is ignored, so
//! that a client which only sends that must close the connection or call `stop`.

mod accept;
mod endpoint;
mod front;
mod gate;
mod pulse;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use tokio_util::sync::CancellationToken;

use super::stdio::{DRAIN, Ending};
use crate::tools::Face;

use endpoint::Endpoint;
use front::Front;

pub use gate::{BadPath, NotLoopback, check_path, loopback};

/// The body of an answer.
type Body = BoxBody<Bytes, Infallible>;

/// How long the answers that are cut off at the end may take to say so.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Serves until `ending` has begun, and calls in flight have had [`DRAIN`] to answer. `path` is MCP's, as
/// [`check_path`] lets it through. A stop that is badly formed is ordered through `ending`.
///
/// Order at the end: the axes' stop was ordered when it began; no new connection is taken; what is unanswered in time is
/// cut off.
///
/// Must be called on a runtime with time enabled, which is the one that calls run on.
///
/// # Errors
/// When the operating system gives no thread for the front; nothing is served then.
pub async fn serve(face: Face, listener: TcpListener, path: &str, ending: Ending) -> io::Result<()> {
    let transport = CancellationToken::new();
    let endpoint = Endpoint::new(face.clone(), ending.clone(), transport.clone());
    let front = Front::start(face, endpoint, listener, path)?;
    ending.token().cancelled().await;

    front.close();
    if tokio::time::timeout(DRAIN, front.closed()).await.is_err() {
        tracing::warn!("calls in flight were given up after {DRAIN:?}");
        transport.cancel();
        front.cut(LAST_WORDS).await;
    }
    Ok(())
}

/// What already listens at an address, as far as it says so; for whoever can't have the port.
///
/// Waits a second at most, and asks nothing but [`/healthz`](self).
pub fn who_listens(address: SocketAddr) -> Option<String> {
    use std::io::{Read, Write};
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut stream = std::net::TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let told: serde_json::Value = serde_json::from_str(body).ok()?;
    let text = |key: &str| told.get(key).and_then(serde_json::Value::as_str);
    (text("server")? == "steadyhand")
        .then(|| format!("steadyhand with the rig {} (process {})", text("rig").unwrap_or("none"), told["pid"]))
}

/// An answer of one piece.
fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

fn text(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", text.into() + "\n")
}

fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    answer(status, JSON, value.to_string())
}

const JSON: &str = "application/json";
