//! How long a stop takes while a move runs, the queue is full, and both cores encode images: from the client's
//! request to the stop byte in the operating system's hands, through the whole program over a real pseudo-terminal.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::model::CallToolRequestParams;
use rmcp::service::serve_client;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use steadyhand::access::{self, Policy};
use steadyhand::actor;
use steadyhand::config;
use steadyhand::devices;
use steadyhand::devices::link::{Connector, Link, Opened, connector};
use steadyhand::gateway::http;
use steadyhand::gateway::local::{self, Place, Request, ask};
use steadyhand::gateway::stdio::{self, Ending, StdioControl};
use steadyhand::imaging;
use steadyhand::model::{Epoch, Name, Time, Way};
use steadyhand::store::{EventLog, SavedPositions, Store};
use steadyhand::tools::{Face, Live, Parts, RigPart};

const STOPS: usize = 200;

/// What a byte takes on the demonstration's line: ten bits at 115200 a second.
const BYTE: Duration = Duration::from_nanos(86_806);

const WAYS: [&str; 4] = [
    "a client's request to stop byte handed over",
    "another client's over HTTP to stop byte handed over",
    "POST /stop to stop byte handed over",
    "the local socket of `stop` to stop byte handed over",
];

/// When stop bytes were handed to the operating system.
#[derive(Clone, Default)]
struct Handed(Arc<Mutex<Vec<Instant>>>);

struct Watched<T>(T, Handed);

impl Connector for Watched<Box<dyn Connector>> {
    fn begin(&mut self, now: Time) {
        self.0.begin(now);
    }
    fn outcome(&mut self) -> Option<Opened> {
        let handed = self.1.clone();
        self.0.outcome().map(|o| o.map(|link| Box::new(Watched(link, handed)) as Box<dyn Link>))
    }
    fn place(&self) -> String {
        self.0.place()
    }
}

impl Link for Watched<Box<dyn Link>> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.0.write(bytes)?;
        if bytes[..n].contains(&0x85) {
            self.1.0.lock().push(Instant::now());
        }
        Ok(n)
    }
    fn unsent(&self) -> usize {
        self.0.unsent()
    }
}

/// As `curl -X POST` does it; comes back with the answer.
fn post_stop(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("connected");
    let head = format!("POST /stop HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn told(what: &str, latencies: &mut [Duration]) {
    latencies.sort();
    let at = |p: f64| latencies[((latencies.len() - 1) as f64 * p) as usize];
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    println!("{} stops under load, {what}: p50 {p50:?}, p99 {p99:?}, max {max:?}", latencies.len());
}

fn main() {
    let bench = hw_sim::serve::Running::start(hw_sim::Bench::microscope(1), Default::default()).expect("a bench");
    let path = |id: &str| bench.paths().into_iter().find(|(d, _)| d == id).expect("a device").1;
    let text = include_str!("../rigs/demo.toml")
        .replace("@SCOPE@", &path("scope"))
        .replace("@CAM@", path("cam").trim_start_matches("tcp://"))
        .replace("@IO@", path("io").trim_start_matches("tcp://"));
    let rig =
        Arc::new(config::parse(&text, Path::new("demo.toml"), &devices::known()).unwrap_or_else(|p| panic!("{p}")));
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(&rig, Some(dir.path())).expect("a store");
    let events = Arc::new(EventLog::open(&store.data_dir().join("audit")).expect("a log"));
    let (saved, _) = SavedPositions::load(store.data_dir()).expect("positions");
    let handed = Handed::default();
    let devices = devices::make(&rig, &mut |link| Box::new(Watched(connector(link), handed.clone()))).expect("devices");
    let (handle, _thread) =
        actor::spawn(&rig, devices, Box::new(events.clone()), steadyhand::store::PersonStop::in_memory(), Epoch(1))
            .expect("a thread");
    events.notify(handle.waker());

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let face = Face::new(Parts {
            rig: RigPart::Live(Live { handle: handle.clone(), store: Arc::new(store), events, saved: Arc::new(saved) }),
            policy: Policy { read_only: false },
            request_timeout: Duration::from_secs(30),
            shutting_down: Default::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(http::serve(face.clone(), listener, "/mcp", Ending::new(|| ())));
        let (near, far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(far);
        let control = StdioControl { ending: Ending::new(|| ()), still: Box::pin(std::future::ready(true)) };
        tokio::spawn(stdio::serve(face.clone(), reader, writer, control));
        let client = serve_client((), near).await.expect("a client");
        let call = async |tool: &'static str, arguments: Value| {
            let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
            client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.expect("an answer")
        };
        while handle.snapshot().stages.iter().any(|s| s.read_at.is_none()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        call("home", json!({"stage": "scope", "wait_s": 60})).await;

        // The other ways in.
        let second = StreamableHttpClientTransport::from_uri(format!("http://{address}/mcp"));
        let second = serve_client((), second).await.expect("another client");
        let file = dir.path().join("demo.toml");
        std::fs::write(&file, &text).expect("a rig file");
        let run = dir.path().join("run");
        std::fs::create_dir(&run).expect("a folder");
        let place = Place::of_rig_in(&run, &file).expect("a place");
        let ownership = place.try_own().expect("a lock").expect("nobody's");
        local::listen(&ownership, face).expect("a socket");
        let request = Request::Stop { stage: None, for_client: false, at_once: false };
        let person = access::caller(Name::new("benchmark"), Way::Cli, None);

        let busy = Arc::new(AtomicBool::new(true));
        let encoders: Vec<_> = (0..2)
            .map(|seed| {
                let busy = busy.clone();
                std::thread::spawn(move || {
                    // As the program's own threads for pixels do.
                    #[cfg(target_os = "linux")]
                    rustix::process::nice(10).expect("a lower priority");
                    let picture = ndarray::Array2::from_shape_fn((1024, 1024), |(y, x)| ((x * y + seed) % 251) as u8);
                    let mut made = 0_u64;
                    while busy.load(Ordering::Relaxed) {
                        made += imaging::png8(&picture).map_or(0, |png| png.len() as u64);
                    }
                    made
                })
            })
            .collect();

        // The line's clock began then; looking often finds the moment at which it had last been set.
        let began = (0..1000).map(|_| bench.with_bench(|b| Instant::now() - b.now())).min().expect("a moment");
        let mut latencies = [const { Vec::new() }; 4];
        let mut on_wire = Vec::new();
        for i in 0..STOPS * WAYS.len() {
            let way = i % WAYS.len();
            handle.resume(&person, None).expect("room").wait().await.expect("released");
            call("clear_fault", json!({"device": "scope"})).await;
            // There and back, so that no move finds itself at its end, however slow the machine is.
            let x = if i.is_multiple_of(2) { 5.0 } else { 72.0 };
            let arguments = json!({"stage": "scope", "targets": {"x": x, "y": 30.0}, "unit": "mm", "wait_s": 0});
            let begun = call("move_to", arguments.clone()).await;
            assert_ne!(begun.is_error, Some(true), "{begun:?}");
            tokio::time::sleep(Duration::from_millis(60)).await;
            // The queue fills behind the move.
            futures::future::join_all((0..40).map(|_| call("move_to", arguments.clone()))).await;
            assert!(handle.snapshot().stages[0].activity.is_motion(), "it moves when the stop comes");
            handed.0.lock().clear();
            let asked = Instant::now();
            match way {
                0 => assert_ne!(call("stop", json!({})).await.is_error, Some(true)),
                1 => {
                    let answer = second.call_tool(CallToolRequestParams::new("stop")).await.expect("an answer");
                    assert_ne!(answer.is_error, Some(true), "{answer:?}");
                }
                2 => tokio::task::spawn_blocking(move || post_stop(address)).await.expect("no panic"),
                _ => {
                    let (place, request) = (place.clone(), request.clone());
                    let asked = tokio::task::spawn_blocking(move || ask(&place, &request, Duration::from_secs(6)));
                    assert!(asked.await.expect("no panic").expect("an answer").ok);
                }
            }
            let first = handed.0.lock().first().copied().expect("a stop byte");
            latencies[way].push(first.duration_since(asked));
            // Where the line's clock stands at that moment.
            let handed_over = first.saturating_duration_since(began);
            let arrived = bench.with_bench(|b| {
                let since: Vec<_> = b.received("scope").iter().filter(|(at, _)| *at >= handed_over).copied().collect();
                let ahead = since.iter().position(|(_, byte)| *byte == 0x85).expect("the byte on the wire");
                since[ahead].0.saturating_sub(BYTE * (ahead as u32 + 1))
            });
            on_wire.push(arrived.saturating_sub(handed_over));
        }
        for (way, latencies) in WAYS.iter().zip(&mut latencies) {
            told(way, latencies);
        }
        told("the byte handed over to the same byte on the wire, bytes ahead of it aside,", &mut on_wire);
        busy.store(false, Ordering::Relaxed);
        let encoded: u64 = encoders.into_iter().map(|t| t.join().unwrap_or(0)).sum();
        println!("{} MB of PNG were made meanwhile", encoded >> 20);
    });
    runtime.shutdown_background();
}
