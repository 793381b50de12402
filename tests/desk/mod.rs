//! A client's desk: the tools through the protocol, on the simulated bench, in time that runs faster.
#![allow(dead_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use steadyhand::access::Policy;
use steadyhand::actor::RigHandle;
use steadyhand::store::{EventLog, SavedPositions, Store};
use steadyhand::tools::{Face, Live, Parts, RigPart};
use tokio_util::sync::CancellationToken;

use crate::support::Lab;

/// How much faster than the wall's the bench's time runs.
pub(crate) const SPEED: u32 = 10;

/// A lab whose time runs by itself, and a client of its tools.
pub(crate) struct Desk {
    pub(crate) lab: Arc<Mutex<Lab>>,
    pub(crate) face: Face,
    pub(crate) client: RunningService<RoleClient, ()>,
    pub(crate) handle: RigHandle,
    over: Arc<AtomicBool>,
    pub(crate) shutting_down: CancellationToken,
    _files: tempfile::TempDir,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Desk {
    pub(crate) async fn new(lab: Lab) -> Desk {
        Desk::with(lab, Policy::default()).await
    }

    pub(crate) async fn with(lab: Lab, policy: Policy) -> Desk {
        let handle = lab.handle.clone();
        let files = tempfile::tempdir().unwrap();
        let store = Store::open(handle.rig(), Some(files.path())).unwrap();
        let events = EventLog::open(&store.data_dir().join("audit")).unwrap();
        let (saved, _) = SavedPositions::load(store.data_dir()).unwrap();
        let live = Live { handle: handle.clone(), store: store.into(), events: events.into(), saved: saved.into() };
        let shutting_down = CancellationToken::new();
        let face = Face::new(Parts {
            rig: RigPart::Live(live),
            policy,
            request_timeout: Duration::from_secs(30),
            shutting_down: shutting_down.clone(),
        });
        let client = connect(&face).await;
        let (lab, over) = (Arc::new(Mutex::new(lab)), Arc::new(AtomicBool::new(false)));
        std::thread::spawn({
            let (lab, over) = (lab.clone(), over.clone());
            move || {
                let mut last = Instant::now();
                while !over.load(Ordering::Relaxed) {
                    let passed = last.elapsed();
                    last = Instant::now();
                    lab.lock().run(passed.max(Duration::from_micros(200)) * SPEED);
                    std::thread::park_timeout(Duration::from_millis(1));
                }
            }
        });
        Desk { lab, face, client, handle, over, shutting_down, _files: files }
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        call(&self.client, tool, arguments).await
    }

    /// The structured answer of a call that must go well.
    pub(crate) async fn ok(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments.clone()).await;
        assert_ne!(result.is_error, Some(true), "{tool} {arguments}: {}", text(&result));
        result.structured_content.unwrap()
    }

    /// The first text block of a call that must fail, and its structured part.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> (String, Value) {
        let result = self.call(tool, arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{tool} {arguments}: {}", text(&result));
        (text(&result), result.structured_content.unwrap())
    }

    pub(crate) async fn epoch(&self) -> u64 {
        self.ok("get_state", json!({})).await["stages"][0]["state_epoch"].as_u64().unwrap()
    }
}

/// A homed lab; made on a thread of its own, because the lab waits for answers with a runtime of its own.
pub(crate) fn homed() -> Lab {
    std::thread::spawn(|| Lab::homed(1)).join().unwrap()
}

pub(crate) async fn connect(face: &Face) -> RunningService<RoleClient, ()> {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = face.clone();
    tokio::spawn(async move { server.serve(ours).await.unwrap().waiting().await });
    ().serve(theirs).await.unwrap()
}

pub(crate) async fn call(
    client: &RunningService<RoleClient, ()>,
    tool: &'static str,
    arguments: Value,
) -> CallToolResult {
    let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    client.call_tool(request).await.unwrap()
}

pub(crate) fn text(result: &CallToolResult) -> String {
    match &result.content[0] {
        ContentBlock::Text(t) => t.text.clone(),
        other => panic!("the first block is no text: {other:?}"),
    }
}

pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within 10 s: {what}");
}
