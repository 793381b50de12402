//! Long work as a client meets it: jobs, their progress, their end, and the order of calls that are sent at once.

mod desk;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use desk::{Desk, homed, wait_until};
use parking_lot::Mutex;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam};
use rmcp::service::{NotificationContext, PeerRequestOptions};
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use steadyhand::gateway::stdio::{Ending, StdioControl, serve};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// What was begun, in that order.
fn intents(desk: &Desk) -> Vec<String> {
    let lab = desk.lab.lock();
    let events = lab.log.events.lock();
    events.iter().filter(|e| e.kind == "intent").map(|e| e.what.clone()).collect()
}

fn line(id: u64, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_that_a_client_sends_at_once_reach_the_rig_in_their_order() {
    let desk = Desk::new(homed()).await;
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(ours);
    let control = StdioControl { ending: Ending::new(|| ()), still: Box::pin(async { true }) };
    tokio::spawn(serve(desk.face.clone(), reader, writer, control));
    let (output, mut input) = tokio::io::split(theirs);
    let mut output = BufReader::new(output).lines();
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    input.write_all(line(0, "initialize", hello).as_bytes()).await.unwrap();
    output.next_line().await.unwrap().unwrap();

    let mut expected = intents(&desk);
    let mut id = 0;
    for round in 0..6 {
        let mut together = String::new();
        for step in 0..10 {
            id += 1;
            let x = 40 + (round + step) % 7;
            let move_to = json!({ "stage": "scope", "targets": { "x": x }, "unit": "mm", "wait_s": 60 });
            together += &line(id, "tools/call", json!({ "name": "move_to", "arguments": move_to }));
            expected.push(format!("move scope to x {x} mm"));
        }
        input.write_all(together.as_bytes()).await.unwrap();
        for _ in 0..10 {
            let answer: Value = serde_json::from_str(&output.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!(answer["result"]["structuredContent"]["status"], "ok", "{answer}");
        }
    }
    assert_eq!(intents(&desk), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_not_begun_can_be_cancelled_and_never_begins() {
    let desk = Desk::new(homed()).await;
    let go = |x: f64| json!({ "targets": { "x": x }, "unit": "mm", "wait_s": 0.001 });
    let first = desk.ok("move_to", go(5.0)).await;
    let second = desk.ok("move_to", go(60.0)).await;
    assert_eq!((&first["status"], &second["status"]), (&json!("running"), &json!("running")));
    let cancelled = desk.ok("cancel_job", json!({ "job_id": second["job_id"] })).await;
    assert_eq!((&cancelled["cancelled"], &cancelled["moved"]), (&json!(true), &json!("no")));
    let (what, data) = desk.refused("get_job", json!({ "job_id": second["job_id"] })).await;
    assert!(what.starts_with("[cancelled] It was cancelled before it began."), "{what}");
    assert_eq!(data["job_id"], second["job_id"]);
    // The first goes on, and is told at the top level as its tool would have told it.
    let first = desk.ok("get_job", json!({ "job_id": first["job_id"], "wait_s": 60 })).await;
    assert_eq!((&first["status"], &first["moved"]), (&json!("ok"), &json!("yes")));
    assert!(first["axes"]["x"]["end"].is_number() && first.get("result").is_none(), "{first}");
    assert!(!intents(&desk).iter().any(|what| what.contains("60 mm")));
}

/// A client that keeps what it is told of its calls' progress.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<ProgressNotificationParam>>>);

impl ClientHandler for Listener {
    async fn on_progress(&self, note: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().push(note);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_long_tells_its_progress_in_words() {
    let desk = Desk::new(homed()).await;
    let listener = Listener::default();
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = desk.face.clone();
    tokio::spawn(async move { server.serve(ours).await.unwrap().waiting().await });
    let client = listener.clone().serve(theirs).await.unwrap();
    // The bench's time stands still, and the protocol's runs by itself: the move lasts as long as it takes.
    let (go_on, wait) = std::sync::mpsc::sync_channel::<()>(1);
    let lab = desk.lab.clone();
    let holder = std::thread::spawn(move || {
        let _held = lab.lock();
        let _ = wait.recv();
    });
    let arguments = json!({ "stage": "scope", "targets": { "x": 5 }, "unit": "mm", "wait_s": 35 });
    let request = || CallToolRequestParams::new("move_to").with_arguments(arguments.as_object().unwrap().clone());
    let mut options = PeerRequestOptions::no_options();
    options.timeout = Some(Duration::from_secs(600));
    let call = ClientRequest::CallToolRequest(CallToolRequest::new(request()));
    let handle = client.send_cancellable_request(call, options).await.unwrap();
    let token = handle.progress_token.clone();
    handle.await_response().await.unwrap();
    let notes = listener.0.lock().clone();
    drop(go_on);
    holder.join().unwrap();
    assert_eq!(notes.len(), 3, "every ten seconds: {notes:?}");
    assert!(notes.iter().all(|n| n.progress_token == token), "{notes:?}");
    assert!(notes.windows(2).all(|n| n[0].progress < n[1].progress), "it grows: {notes:?}");
    let words = notes[0].message.as_deref().unwrap();
    assert!(words.contains("waiting for its turn") || words.contains("move scope to x 5 mm"), "{words}");
}

/// Counts who is held.
struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_machine_stays_awake_while_a_job_runs_that_may_outlive_its_client_and_then_no_longer() {
    for (policy, awake) in [("continue", 1), ("stop", 0)] {
        let rig = format!("{}\n[calls]\non_client_lost = \"{policy}\"\n", support::DEMO);
        let lab = std::thread::spawn(move || {
            let mut lab = support::Lab::new(&rig, hw_sim::Bench::microscope(1));
            lab.online();
            lab.home().unwrap();
            lab
        });
        let desk = Desk::new(lab.join().unwrap()).await;
        let held = Arc::new(AtomicUsize::new(0));
        let count = held.clone();
        tokio::spawn(steadyhand::gateway::awake::follow(desk.handle.clone(), move || {
            count.fetch_add(1, Ordering::SeqCst);
            Count(count.clone())
        }));
        let job = desk.ok("move_to", json!({ "targets": { "x": 5 }, "unit": "mm", "wait_s": 0.001 })).await;
        if awake > 0 {
            wait_until("the sleep is held off", || held.load(Ordering::SeqCst) == awake).await;
        }
        desk.ok("get_job", json!({ "job_id": job["job_id"], "wait_s": 60 })).await;
        assert_eq!(held.load(Ordering::SeqCst), awake, "another job may follow");
        wait_until("the sleep is free again", || held.load(Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_19_work_that_is_longer_than_a_call_goes_on_as_a_job_and_none_of_it_is_lost() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 70, "y": 40 }, "unit": "mm" })).await;
    let exposure = desk.ok("set_camera", json!({ "exposure_ms": 900 })).await;
    assert_eq!(exposure["exposure_ms"], 900, "{exposure}");
    let since = desk.lab.lock().now();
    // A way of seconds and an exposure in one call, as a plane of a stack, by a host that cuts calls short.
    let region = json!({ "x_center": 20000, "y_center": 20000, "size_x": 300, "size_y": 200, "wait_s": 0.02 });
    let begun = desk.ok("acquire_image", region).await;
    assert_eq!(begun["status"], "running", "{begun}");
    let job = &begun["job_id"];
    assert!(desk.lab.lock().truly("x") > 25.0, "the answer came while it was still on its way");
    let mut answers = 0;
    let done = loop {
        let answer = desk.ok("get_job", json!({ "job_id": job, "wait_s": 0.02 })).await;
        if answer["status"] != "running" {
            break answer;
        }
        answers += 1;
    };
    assert!(answers > 2, "each call is answered in its time: {answers}");
    assert_eq!((&done["status"], &done["moved"], &done["exposure_ms"]), (&json!("ok"), &json!("yes"), &json!(900)));
    assert!(std::path::Path::new(done["img_path"].as_str().unwrap()).is_file(), "at the top level: {done}");
    let lab = desk.lab.lock();
    let jogs = lab.lines_since(since).iter().filter(|l| l.starts_with("$J=")).count();
    assert_eq!(jogs, 1, "the stage was sent there once, however often it was asked");
    assert!((lab.truly("x") - 20.0).abs() < 0.4 && (lab.truly("y") - 20.0).abs() < 0.4);
}
