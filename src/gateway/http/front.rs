//! The side towards the network: one OS thread that takes connections, reads requests, and answers all but MCP.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body as HttpBody;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::endpoint::Endpoint;
use super::pulse::fault;
use super::{Body, gate, json as json_answer, text};
use crate::access::Visitor;
use crate::gateway::stdio::MAX_LINE;
use crate::model::StopBy;
use crate::tools::{Face, Said};

/// How many connections may have MCP. Further ones can still stop the rig and ask for its health.
const CONNECTIONS: usize = 256;

/// How many connections there may be in all.
const ALL_CONNECTIONS: usize = CONNECTIONS + 64;

/// How long a connection may be silent between requests, and a request's head be on its way.
const IDLE: Duration = Duration::from_secs(60);

/// How long a new connection waits for one that is given up.
const ROOM: Duration = Duration::from_millis(250);

/// How often it is looked whether a client has hung up behind bytes that nobody has read yet.
const PEEK: Duration = Duration::from_millis(50);

/// How long a message may be on its way.
const BODY: Duration = Duration::from_secs(30);

/// How long a stop waits to hear which stage it is for, before it is for all of them.
const STOP_BODY: Duration = Duration::from_millis(250);

/// The most that is read of that.
const STOP_BYTES: usize = 4096;

/// How long the protocol's runtime may take to show that it lives.
const LIFE: Duration = Duration::from_secs(1);

/// The running front.
pub(super) struct Front {
    closing: CancellationToken,
    cutting: CancellationToken,
    closed: watch::Receiver<bool>,
}

impl Front {
    /// Starts the thread. What it is asked of MCP runs on the runtime that this is called on.
    pub(super) fn start(face: Face, endpoint: Arc<Endpoint>, listener: TcpListener, path: &str) -> io::Result<Front> {
        listener.set_nonblocking(true)?;
        let (closing, cutting) = (CancellationToken::new(), CancellationToken::new());
        let (tell, closed) = watch::channel(false);
        let desk = Arc::new(Desk { face, endpoint, path: path.to_owned(), protocol: Handle::current() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (close, cut) = (closing.clone(), cutting.clone());
        std::thread::Builder::new().name("http".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(desk, listener, close) => {}
                    () = cut.cancelled() => {}
                }
            });
            runtime.shutdown_background();
            tell.send_replace(true);
        })?;
        Ok(Front { closing, cutting, closed })
    }

    /// Takes no new connection, and ends each when what it is asked has been answered.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until all connections have ended.
    pub(super) async fn closed(&self) {
        // An error means that the thread is gone, which is the same.
        let _ = self.closed.clone().wait_for(|closed| *closed).await;
    }

    /// Ends all connections, after so long.
    pub(super) async fn cut(&self, after: Duration) {
        let _ = tokio::time::timeout(after, self.closed()).await;
        self.cutting.cancel();
        self.closed().await;
    }
}

/// Takes connections until it is told to close, then sees them end.
async fn accept(desk: Arc<Desk>, listener: TcpListener, closing: CancellationToken) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("no connection can be taken: {error}"),
    };
    let (ordinary, all) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(Semaphore::new(ALL_CONNECTIONS)));
    let mut silent = Silent::default();
    let graceful = GracefulShutdown::new();
    loop {
        let taken = tokio::select! {
            () = closing.cancelled() => break,
            taken = listener.accept() => taken,
        };
        let (stream, peer) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                // Out of descriptors, most likely: others must end first.
                tracing::warn!("a connection could not be taken: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let place = match all.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => {
                // Those that say nothing can't keep out one that does: it may be a stop.
                silent.give_up_oldest();
                match tokio::time::timeout(ROOM, all.clone().acquire_owned()).await {
                    Ok(Ok(place)) => place,
                    Ok(Err(_)) | Err(_) => continue,
                }
            }
        };
        let has_mcp = ordinary.clone().try_acquire_owned().ok();
        let watch = silent.begin();
        let served = serve(desk.clone(), stream, peer, has_mcp.is_some(), watch.clone(), &graceful);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = served => {}
                () = watch.given_up.cancelled() => tracing::debug!("a connection from {peer} said nothing and was given up"),
            }
            drop((place, has_mcp));
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// Connections by their age, so that the oldest which says nothing can be given up for one that might.
#[derive(Default)]
struct Silent(VecDeque<Arc<Watch>>);

/// What is known of a connection.
struct Watch {
    /// Requests under way.
    busy: AtomicUsize,
    given_up: CancellationToken,
}

impl Silent {
    fn begin(&mut self) -> Arc<Watch> {
        self.0.retain(|w| Arc::strong_count(w) > 1);
        let watch = Arc::new(Watch { busy: AtomicUsize::new(0), given_up: CancellationToken::new() });
        self.0.push_back(watch.clone());
        watch
    }

    fn give_up_oldest(&mut self) {
        let idle = |w: &Arc<Watch>| Arc::strong_count(w) > 1 && w.busy.load(Ordering::Acquire) == 0;
        if let Some(oldest) = self.0.iter().position(idle).and_then(|i| self.0.remove(i)) {
            oldest.given_up.cancel();
        }
    }
}

/// Counts a request while it lives.
struct UnderWay(Arc<Watch>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Comes back when the other end has closed, though there may be bytes before that which nobody has read yet: who reads
/// a request stops reading when more than that has come, and would not see it.
async fn hung_up(stream: &TcpStream) {
    let mut byte = [0];
    loop {
        match stream.peek(&mut byte).await {
            Ok(0) | Err(_) => return,
            Ok(_) => tokio::time::sleep(PEEK).await,
        }
    }
}

/// One connection, to its end.
fn serve(
    desk: Arc<Desk>,
    stream: TcpStream,
    peer: SocketAddr,
    has_mcp: bool,
    watch: Arc<Watch>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    // Answers are small, and each is waited for.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let shared = stream.clone();
    let unread = Arc::new(Unread::default());
    let (noted, face) = (unread.clone(), desk.face.clone());
    let service = service_fn(move |request| {
        let desk = desk.clone();
        noted.forget();
        watch.busy.fetch_add(1, Ordering::AcqRel);
        let under_way = UnderWay(watch.clone());
        async move {
            let answer = desk.answer(peer, has_mcp, request).await;
            drop(under_way);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(Both(stream, unread.clone())), service);
    let watched = graceful.watch(connection);
    async move {
        tokio::select! {
            biased;
            ended = watched => {
                if let Err(error) = ended {
                    tracing::debug!("a connection from {peer} ended: {error}");
                    // No request for anybody who reads HTTP by the letter, and plain enough for a person.
                    if error.is_parse() && unread.is_a_stop() {
                        drop(StopUnless(Some(face)));
                    }
                }
            }
            // What it had asked for loses its caller with this.
            () = hung_up(&shared) => tracing::debug!("{peer} has hung up"),
        }
    }
}

/// The beginning of what has come since the last request that could be read.
#[derive(Default)]
struct Unread(parking_lot::Mutex<Vec<u8>>);

impl Unread {
    const STOP: &'static [u8] = b"POST /stop";

    fn note(&self, bytes: &[u8]) {
        let mut head = self.0.lock();
        // What is read behind a request may be its body: the line of the next one stands anywhere in it.
        let room = STOP_BYTES.saturating_sub(head.len());
        head.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn forget(&self) {
        self.0.lock().clear();
    }

    fn is_a_stop(&self) -> bool {
        self.0.lock().windows(Unread::STOP.len()).any(|w| w == Unread::STOP)
    }
}

/// A stream that can be looked at while somebody else reads and writes it.
struct Both(Arc<TcpStream>, Arc<Unread>);

impl AsyncRead for Both {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buf.initialize_unfilled()) {
                Ok(read) => {
                    self.1.note(&buf.initialize_unfilled()[..read]);
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Both {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}

/// Where requests are answered.
struct Desk {
    face: Face,
    endpoint: Arc<Endpoint>,
    path: String,
    protocol: Handle,
}

impl Desk {
    async fn answer(&self, peer: SocketAddr, has_mcp: bool, request: Request<Incoming>) -> Response<Body> {
        // A browser names a host and where a page is from, always. What names neither is a person's own tool, and old.
        let headers = request.headers();
        let bare = headers.get(header::HOST).is_none() && headers.get(header::ORIGIN).is_none();
        let bare_stop =
            bare && request.method() == Method::POST && request.uri().path().trim_end_matches('/') == "/stop";
        if !bare_stop && let Err((status, what)) = gate::judge(request.uri(), request.headers()) {
            tracing::warn!(%peer, host = ?request.headers().get(header::HOST), "refused a request: {what}");
            return text(status, what);
        }
        let path = match request.uri().path().trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        let allowed = match path {
            "/stop" => "POST",
            "/healthz" | "/readyz" => "GET, HEAD",
            path if path == self.path => "POST",
            _ => {
                let what = format!(
                    "Nothing is here. MCP: POST {}. To stop the rig: POST /stop. Health: GET /healthz, /readyz.",
                    self.path
                );
                return text(StatusCode::NOT_FOUND, what);
            }
        };
        let method = request.method();
        let fits =
            if allowed == "POST" { method == Method::POST } else { [Method::GET, Method::HEAD].contains(method) };
        if !fits {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, format!("Here only {allowed} is answered."));
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
            return response;
        }
        match path {
            "/stop" => self.stop(request).await,
            "/healthz" => self.health().await,
            "/readyz" => {
                let said = self.face.readiness();
                told(said, StatusCode::SERVICE_UNAVAILABLE)
            }
            _ if has_mcp => self.mcp(request).await,
            _ => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many connections: close some. POST /stop works all the same.",
            ),
        }
    }

    async fn mcp(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        let body = match tokio::time::timeout(BODY, Limited::new(body, MAX_LINE).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let mib = MAX_LINE / (1024 * 1024);
                return text(StatusCode::PAYLOAD_TOO_LARGE, format!("A message may have at most {mib} MiB."));
            }
            Ok(Err(error)) => return text(StatusCode::BAD_REQUEST, format!("The message can't be read: {error}.")),
            Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "The message did not come in time."),
        };
        let agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).map(str::to_owned);
        parts.extensions.insert(Visitor { agent });
        let work = self.protocol.spawn(self.endpoint.clone().answer(parts, body));
        AbortOnDropHandle::new(work).await.unwrap_or_else(|error| fault(&error))
    }

    /// A stop is carried out whatever comes with it: a body that names a stage of this rig narrows it to that one,
    /// anything else means everything.
    async fn stop(&self, request: Request<Incoming>) -> Response<Body> {
        // Should the connection break off while the body comes in, it is a stop all the same.
        let mut unless = StopUnless(Some(self.face.clone()));
        let body = request.into_body();
        let body = if body.is_end_stream() {
            Bytes::new()
        } else {
            let read = tokio::time::timeout(STOP_BODY, Limited::new(body, STOP_BYTES).collect()).await;
            read.ok().and_then(Result::ok).map(|b| b.to_bytes()).unwrap_or_default()
        };
        unless.0 = None;
        let named: Option<Value> = serde_json::from_slice(&body).ok();
        let stage = named.as_ref().and_then(|v| v.get("stage")).and_then(Value::as_str).map(str::to_owned);
        let face = self.face.clone();
        // A task of its own: whether the sender waits for the answer is its own affair.
        let stop = tokio::spawn(async move { face.stop_and_tell(stage.as_deref(), StopBy::Person).await });
        match stop.await {
            Ok(said) => told(said, StatusCode::INTERNAL_SERVER_ERROR),
            Err(error) => fault(&error),
        }
    }

    /// Whether this process lives: this thread, since it answers, and the protocol's runtime.
    async fn health(&self) -> Response<Body> {
        let lives = tokio::time::timeout(LIFE, self.protocol.spawn(async {})).await.is_ok_and(|done| done.is_ok());
        let rig = self.face.readiness().data.remove("rig");
        let told = json!({
            "server": "steadyhand", "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(),
            "rig": rig, "protocol": if lives { "answers" } else { "does not answer: start the program again" },
        });
        json_answer(if lives { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &told)
    }
}

/// Says what there is to say to a person, with `otherwise` as the status if it went badly.
fn told(said: Said, otherwise: StatusCode) -> Response<Body> {
    let mut facts = said.data;
    facts.insert("ok".into(), said.ok.into());
    facts.insert("text".into(), said.text.into());
    json_answer(if said.ok { StatusCode::OK } else { otherwise }, &Value::Object(facts))
}

/// Stops everything when it is dropped with a face in it.
struct StopUnless(Option<Face>);

impl Drop for StopUnless {
    fn drop(&mut self) {
        if let (Some(face), Ok(front)) = (self.0.take(), Handle::try_current()) {
            front.spawn(async move { face.stop_and_tell(None, StopBy::Person).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::access::Policy;
    use crate::gateway::stdio::Ending;
    use crate::tools::{Parts, RigPart};

    fn ask(address: SocketAddr, line: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).expect("connected");
        let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn a_stop_is_answered_while_the_protocols_runtime_hangs_and_health_tells_of_that() {
        let protocol = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let front = protocol.block_on(async {
            let face = Face::new(Parts {
                rig: RigPart::Bad { problems: "none".into() },
                policy: Policy::default(),
                request_timeout: Duration::from_secs(1),
                shutting_down: CancellationToken::new(),
            });
            let endpoint = Endpoint::new(face.clone(), Ending::new(|| ()), CancellationToken::new());
            Front::start(face, endpoint, listener, "/mcp").expect("a thread")
        });
        assert!(ask(address, "GET /healthz").starts_with("HTTP/1.1 200"));
        let (release, hang) = sync_channel::<()>(0);
        protocol.spawn(async move { hang.recv() });
        let health = ask(address, "GET /healthz");
        assert!(health.starts_with("HTTP/1.1 503") && health.contains("does not answer"), "{health}");
        // There is no rig here: what matters is that somebody took the order.
        let stop = ask(address, "POST /stop");
        assert!(stop.starts_with("HTTP/1.1 500") && stop.contains("bad_rig_file"), "{stop}");
        drop(release);
        front.close();
        protocol.block_on(front.closed());
        assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}
