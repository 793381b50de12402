//! Public bug reports about calls that are sent again or taken back, as a client meets them: each test is named after
//! its case in `cases.toml`.

mod desk;
mod support;

use desk::{Desk, connect, homed, wait_until};
use rmcp::RoleClient;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RequestHandle, RunningService};
use serde_json::{Value, json};

/// Sends a call that can be taken back.
async fn begin(
    client: &RunningService<RoleClient, ()>,
    tool: &'static str,
    arguments: Value,
) -> RequestHandle<RoleClient> {
    let request = CallToolRequestParams::new(tool).with_arguments(arguments.as_object().unwrap().clone());
    let request = rmcp::model::ClientRequest::CallToolRequest(rmcp::model::Request::new(request));
    client.send_cancellable_request(request, Default::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn e14_a_step_that_was_interrupted_and_is_sent_again_does_not_go_twice() {
    for id in [Some("step-1"), None] {
        let desk = Desk::new(homed()).await;
        let epoch = desk.epoch().await;
        let mut step = json!({ "offsets": { "x": -40 }, "unit": "mm", "from_epoch": epoch });
        if let Some(id) = id {
            step["command_id"] = id.into();
        }
        let client = connect(&desk.face).await;
        let interrupted = begin(&client, "move_by", step.clone()).await;
        let under_way = || desk.lab.lock().truly("x") < 70.0;
        wait_until("it is under way", under_way).await;
        interrupted.cancel(None).await.unwrap();
        wait_until("it stands", || !desk.handle.snapshot().stages[0].activity.is_motion()).await;
        let rest = desk.lab.lock().truly("x");
        assert!(rest > 35.0, "it was stopped on its way: {rest}");
        // Resumed from a saved state, the client sends the same once more.
        let (what, data) = desk.refused("move_by", step).await;
        match id {
            Some(_) => {
                assert!(what.starts_with("[cancelled]") && what.contains("this is its first outcome"), "{what}");
                assert_eq!((&data["repeated"], &data["moved"]), (&json!(true), &json!("yes")));
            }
            None => assert!(what.starts_with("[moved_on]") && data["moved"] == "no", "{what}"),
        }
        let now = desk.lab.lock().truly("x");
        assert!((now - rest).abs() < 0.01, "it went on from {rest} to {now}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q22_a_job_that_is_cancelled_before_its_turn_never_begins_and_says_so() {
    let desk = Desk::new(homed()).await;
    let to = |x: u32| json!({ "targets": { "x": x }, "unit": "mm", "wait_s": 0 });
    let first = desk.ok("move_to", to(30)).await;
    let second = desk.ok("move_to", to(60)).await;
    assert_eq!(second["status"], "running");
    let cancelled = desk.ok("cancel_job", json!({ "job_id": second["job_id"] })).await;
    assert_eq!((&cancelled["cancelled"], &cancelled["moved"]), (&json!(true), &json!("no")));
    let (what, data) = desk.refused("get_job", json!({ "job_id": second["job_id"], "wait_s": 20 })).await;
    assert!(what.starts_with("[cancelled]") && what.contains("before it began"), "{what}");
    assert_eq!(data["moved"], "no");
    let done = desk.ok("get_job", json!({ "job_id": first["job_id"], "wait_s": 30 })).await;
    assert_eq!(done["status"], "ok");
    let x = desk.lab.lock().truly("x");
    assert!((x - 30.0).abs() < 0.05, "{x}");
}
