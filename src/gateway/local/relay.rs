//! What a second process on the same rig does: it passes its client's lines to the owner and the answers back,
//! remembers what its client waits for, and outlives the owner.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use interprocess::local_socket::ConnectOptions;
use interprocess::local_socket::tokio::Stream;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::folder::{Place, Socket};
use super::lock::Ownership;
use super::sessions::END;
use super::wire::{REQUEST, Request, Trouble, ask};
use crate::gateway::stdio::lines::{Line, Lines, MAX_LINE};
use crate::gateway::stdio::triage::{META_VERSION, Refusal};
use crate::gateway::stdio::{DRAIN, distress};
use crate::model::Way;
use crate::tools;

/// The version of what owner and relay say to each other. A person's stop is understood by every version.
pub(super) const PROTOCOL: u32 = 1;

/// The longest line from an owner: pictures and arrays in text.
const ANSWER: usize = 64 * 1024 * 1024;

/// How long an owner may take to welcome a session.
const WELCOME: Duration = Duration::from_secs(2);

/// How soon a busy owner is asked again.
const AGAIN: Duration = Duration::from_millis(30);

/// After so long without a word from the owner, while calls are under way, it is asked whether it lives.
const SILENCE: Duration = Duration::from_secs(3);

/// After so long without a word to that it is taken for hung. An owner that lives answers from its protocol's side,
/// which waits for no hardware.
const HUNG: Duration = Duration::from_secs(5);

/// Ids of the relay's own requests, whose answers no client sees.
const REPLAY: &str = "steadyhand-relay-initialize";
const PING: &str = "steadyhand-relay-ping";

/// JSON-RPC: the server failed.
const INTERNAL_ERROR: i32 = -32603;

/// The first line of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol's version.
    pub steadyhand: u32,
    /// The program's version.
    pub version: String,
    /// This process.
    pub pid: u32,
    /// A single call from a shell, not a client's session.
    #[serde(default)]
    pub command: bool,
    /// Only what reads.
    #[serde(default)]
    pub read_only: bool,
    /// How long the client waits for a call, in milliseconds.
    #[serde(default)]
    pub request_timeout_ms: Option<u64>,
}

impl Hello {
    /// Of this process.
    pub fn new(command: bool, read_only: bool, request_timeout: Option<Duration>) -> Hello {
        let request_timeout_ms = request_timeout.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX));
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Hello { steadyhand: PROTOCOL, version, pid: std::process::id(), command, read_only, request_timeout_ms }
    }

    pub(super) fn way(&self) -> Way {
        if self.command { Way::Cli } else { Way::Relay }
    }
}

/// The owner's answer to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// The owner's process.
    pub(super) pid: u32,
    /// The rig's name.
    pub(super) rig: String,
    /// The program's version.
    pub(super) version: String,
    /// Why there will be no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
}

/// What became of the search for an owner.
pub enum Served {
    /// There is none: this process is the owner now.
    Here(Ownership),
    /// Another process is, and serves this one.
    There(Upstream),
    /// Another process holds the rig, but can't be used. Nothing may be opened.
    Nowhere(String),
}

/// Where a relay's lines go.
pub struct Upstream {
    io: Pin<Box<dyn Duplex>>,
    /// The owner, where it is another process: a stop goes to its own socket first.
    owner: Option<Place>,
}

trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

impl Upstream {
    /// A session of this same process.
    pub fn here(io: impl AsyncRead + AsyncWrite + Send + 'static) -> Upstream {
        Upstream { io: Box::pin(io), owner: None }
    }

    /// A session of this same process while another owns the rig: a stop is passed on to that one.
    pub fn instead_of(owner: &Place, io: impl AsyncRead + AsyncWrite + Send + 'static) -> Upstream {
        Upstream { io: Box::pin(io), owner: Some(owner.clone()) }
    }
}

/// Becomes the owner, or finds it; for as long as `patience` while neither works out, as when an owner is just
/// starting or ending.
pub async fn seek(place: &Place, hello: &Hello, patience: Duration) -> Served {
    let until = Instant::now() + patience;
    loop {
        let why = match place.try_own() {
            Ok(Some(ownership)) => return Served::Here(ownership),
            Ok(None) => match connect(place, hello).await {
                Ok(upstream) => return Served::There(upstream),
                Err(Refused::Flatly(why)) => return Served::Nowhere(in_words(place, &why)),
                Err(Refused::Broken(error)) => error.to_string(),
            },
            Err(error) => format!("its lock can't be had: {error}"),
        };
        if Instant::now() >= until {
            return Served::Nowhere(in_words(place, &why));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn in_words(place: &Place, why: &str) -> String {
    let who = place.about_owner().map_or_else(|| "another process".to_owned(), |a| format!("process {}", a.pid));
    format!("The rig belongs to {who}, which can't be reached: {why}. Its ports are left alone.")
}

enum Refused {
    /// The owner said so.
    Flatly(String),
    /// It didn't come to that.
    Broken(io::Error),
}

async fn connect(place: &Place, hello: &Hello) -> Result<Upstream, Refused> {
    let attempt = async {
        let name = place.socket(Socket::Clients)?;
        let mut stream: Stream = ConnectOptions::new().name(name).connect_tokio().await?;
        let mut line = serde_json::to_vec(hello)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        // Byte by byte: what follows the line belongs to the session.
        let mut answer = Vec::new();
        while answer.len() <= REQUEST {
            match tokio::io::AsyncReadExt::read_u8(&mut stream).await? {
                b'\n' => break,
                byte => answer.push(byte),
            }
        }
        let welcome: Welcome = serde_json::from_slice(&answer)?;
        Ok::<_, io::Error>((stream, welcome))
    };
    let late = || Refused::Broken(io::Error::new(io::ErrorKind::TimedOut, "it doesn't answer"));
    let (stream, welcome) =
        tokio::time::timeout(WELCOME, attempt).await.map_err(|_| late())?.map_err(Refused::Broken)?;
    match welcome.refusal {
        Some(why) => Err(Refused::Flatly(why)),
        None => {
            tracing::info!("process {} owns the rig \"{}\"; this one passes lines on", welcome.pid, welcome.rig);
            Ok(Upstream { io: Box::pin(stream), owner: Some(place.clone()) })
        }
    }
}

/// Why a relay's session with one upstream is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The client is gone, and what was due to it is out.
    Client,
    /// The upstream is gone; what the client waited for was answered.
    Upstream,
    /// `leave` came back.
    Left,
}

/// A client's session, whatever serves it.
pub struct Relay<R, W> {
    client: Lines<R>,
    out: tokio::sync::Mutex<W>,
    known: Mutex<Known>,
}

/// What is remembered of the client.
#[derive(Default)]
struct Known {
    /// By id, as it is written.
    in_flight: HashMap<String, InFlight>,
    /// Its handshake.
    initialize: Option<Value>,
    initialized: bool,
    /// Whether an upstream has answered the handshake.
    shaken: bool,
}

struct InFlight {
    id: Value,
    method: String,
    /// It carried its protocol's version with it.
    modern: bool,
}

impl Known {
    /// Notes what a line asks for. Lines that ask for nothing or can't be read are the upstream's business.
    fn asked(&mut self, line: &[u8]) {
        let Ok(Value::Object(message)) = serde_json::from_slice::<Value>(line) else { return };
        let Some(method) = message.get("method").and_then(Value::as_str) else { return };
        let Some(id) = message.get("id").filter(|id| id.is_string() || id.is_number()) else {
            match method {
                "notifications/initialized" => self.initialized = true,
                "notifications/cancelled" => {
                    if let Some(id) = message.get("params").and_then(|p| p.get("requestId")) {
                        self.in_flight.remove(&id.to_string());
                    }
                }
                _ => {}
            }
            return;
        };
        if method == "initialize" {
            self.initialize = Some(Value::Object(message.clone()));
            self.shaken = false;
        }
        let modern = message.get("params").and_then(|p| p.get("_meta")).is_some_and(|m| m.get(META_VERSION).is_some());
        self.in_flight.insert(id.to_string(), InFlight { id: id.clone(), method: method.to_owned(), modern });
    }

    /// Notes what a line answers; `false` when it is for the relay itself.
    fn answered(&mut self, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Head {
            id: Option<Value>,
            method: Option<serde::de::IgnoredAny>,
        }
        let Ok(Head { id: Some(id), method: None }) = serde_json::from_slice::<Head>(line) else { return true };
        if id == REPLAY || id == PING {
            return false;
        }
        if self.in_flight.remove(&id.to_string()).is_some_and(|f| f.method == "initialize") {
            self.shaken = true;
        }
        true
    }

    /// The answers to all that an upstream took with it. A handshake is not answered: the next upstream gets it.
    fn lost(&mut self) -> Vec<Vec<u8>> {
        let (kept, lost): (HashMap<_, _>, HashMap<_, _>) =
            std::mem::take(&mut self.in_flight).into_iter().partition(|(_, f)| f.method == "initialize");
        self.in_flight = kept;
        lost.into_values().map(InFlight::lost).collect()
    }

    /// What the next upstream must hear before it can serve this client: its handshake again, unseen by the client.
    fn replay(&self) -> Vec<Value> {
        let Some(initialize) = &self.initialize else { return Vec::new() };
        let mut first = initialize.clone();
        if self.shaken {
            first["id"] = REPLAY.into();
        }
        let then = self.initialized.then(|| json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        [first].into_iter().chain(then).collect()
    }
}

impl InFlight {
    fn lost(self) -> Vec<u8> {
        if self.method != "tools/call" {
            let text = "The process that owned the rig ended before it answered. Send the request again.";
            return Refusal::new(self.id, INTERNAL_ERROR, text).to_line();
        }
        let mut result = tools::lost_call();
        if self.modern {
            result["resultType"] = "complete".into();
        }
        line(&json!({ "jsonrpc": "2.0", "id": self.id, "result": result }))
    }
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

impl<R, W> Relay<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    /// A relay for the client behind these streams.
    pub fn new(reader: R, writer: W) -> Relay<R, W> {
        Relay { client: Lines::new(reader), out: tokio::sync::Mutex::new(writer), known: Mutex::default() }
    }

    /// Passes lines in both directions until one side is gone, or until `leave` comes back. When the client's input
    /// ends, or `end` comes back, the upstream has two seconds to answer what is due.
    pub async fn pass(
        &mut self,
        upstream: Upstream,
        leave: impl Future<Output = ()>,
        end: impl Future<Output = ()>,
    ) -> Over {
        let (from, to) = tokio::io::split(upstream.io);
        let to = tokio::sync::Mutex::new(to);
        let heard = Mutex::new(Instant::now());
        let ended = AtomicBool::new(false);
        let (client, out, known) = (&mut self.client, &self.out, &self.known);
        let replay = known.lock().replay();
        let again = !replay.is_empty() && known.lock().shaken;
        let began = async {
            for message in replay {
                send(&to, &line(&message)).await?;
            }
            if again && known.lock().initialized {
                let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                // A client that is gone is noticed when it is read.
                let _ = send(out, &line(&changed)).await;
            }
            Ok::<(), io::Error>(())
        };
        let began = began.await;
        let down = async {
            let mut answers = Lines::up_to(from, ANSWER);
            loop {
                match answers.next().await {
                    Line::End if ended.load(Ordering::Acquire) => return Over::Client,
                    Line::End => return Over::Upstream,
                    Line::TooLong => tracing::error!("an answer of more than {ANSWER} bytes was dropped"),
                    Line::Whole(range) => {
                        *heard.lock() = Instant::now();
                        let text = answers.text(&range);
                        if known.lock().answered(text) && send_line(out, text).await.is_err() {
                            return Over::Client;
                        }
                    }
                }
            }
        };
        let up = async {
            let mut end = std::pin::pin!(end);
            loop {
                let next = tokio::select! {
                    biased;
                    () = &mut end => Line::End,
                    next = client.next() => next,
                };
                match next {
                    Line::End => {
                        // The upstream closes when it has answered.
                        ended.store(true, Ordering::Release);
                        let _ = send(&to, &[END]).await;
                        tokio::time::sleep(DRAIN + Duration::from_millis(500)).await;
                        return Over::Client;
                    }
                    Line::TooLong => {
                        let mib = MAX_LINE / (1024 * 1024);
                        let refusal = Refusal::invalid_request(format!("A message may have at most {mib} MiB."));
                        let _ = send(out, &refusal.to_line()).await;
                    }
                    Line::Whole(range) => {
                        let text = client.text(&range);
                        known.lock().asked(text);
                        // No JSON has this byte: what the upstream refuses is the same without it.
                        let without: Vec<u8>;
                        let clean = if text.contains(&END) {
                            without = text.iter().map(|b| if *b == END { 1 } else { *b }).collect();
                            &without
                        } else {
                            text
                        };
                        let owner = upstream.owner.as_ref().filter(|_| distress::means_stop(text));
                        // The next line waits for both: a stop that comes late would hit what the client begins then.
                        let (sent, ()) = tokio::join!(send_line(&to, clean), stop_too(owner, text));
                        if sent.is_err() {
                            // The other direction says when it is over: what was answered before comes first.
                            std::future::pending::<()>().await;
                        }
                    }
                }
            }
        };
        let hung = async {
            let mut asked = None;
            loop {
                tokio::time::sleep(SILENCE / 4).await;
                let last = *heard.lock();
                if known.lock().in_flight.is_empty() || asked.is_some_and(|at| last > at) {
                    asked = None;
                } else if let Some(at) = asked {
                    if Instant::now().duration_since(at) >= HUNG {
                        tracing::error!("the owner of the rig takes no notice any more");
                        return Over::Upstream;
                    }
                } else if Instant::now().duration_since(last) >= SILENCE {
                    asked = Some(Instant::now());
                    let ping = json!({ "jsonrpc": "2.0", "id": PING, "method": "ping" });
                    // When even this doesn't go out, nothing will be heard either.
                    let _ = tokio::time::timeout(SILENCE / 4, send(&to, &line(&ping))).await;
                }
            }
        };
        let over = if began.is_err() {
            Over::Upstream
        } else {
            tokio::select! {
                biased;
                over = down => over,
                over = up => over,
                over = hung => over,
                () = leave => Over::Left,
            }
        };
        if over != Over::Client {
            let lost = self.known.lock().lost();
            for answer in lost {
                if send(&self.out, &answer).await.is_err() {
                    return Over::Client;
                }
            }
        }
        over
    }
}

/// Gives a client's stop to the owner's stop socket, too: it goes through even if the way of all lines is blocked.
async fn stop_too(owner: Option<&Place>, text: &[u8]) {
    let Some(owner) = owner.cloned() else { return };
    let call: Value = serde_json::from_slice(text).unwrap_or_default();
    let stage = call["params"]["arguments"]["stage"].as_str().map(str::to_owned);
    let request = Request::Stop { stage, for_client: true, at_once: true };
    let asked = tokio::task::spawn_blocking(move || ask(&owner, &request, Duration::from_secs(1))).await;
    match asked {
        Ok(Ok(_)) => {}
        Ok(Err(Trouble::Nobody)) => tracing::debug!("nobody listens on the stop socket"),
        Ok(Err(error)) => tracing::warn!("the stop socket: {error}"),
        Err(error) => tracing::error!("asking for a stop failed: {error}"),
    }
}

async fn send<W: AsyncWrite + Unpin>(to: &tokio::sync::Mutex<W>, bytes: &[u8]) -> io::Result<()> {
    let mut to = to.lock().await;
    to.write_all(bytes).await?;
    to.flush().await
}

async fn send_line<W: AsyncWrite + Unpin>(to: &tokio::sync::Mutex<W>, text: &[u8]) -> io::Result<()> {
    let mut line = Vec::with_capacity(text.len() + 1);
    line.extend_from_slice(text);
    line.push(b'\n');
    send(to, &line).await
}
