//! The tools as a client meets them: through the protocol, on the simulated bench.

mod desk;
mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use desk::{Desk, call, connect, homed, text, wait_until};
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use steadyhand::access::Policy;
use steadyhand::model::StopBy;
use steadyhand::tools::{Face, Parts, RigPart};
use support::Lab;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_homes_moves_is_refused_and_sees() {
    let mut lab = Lab::demo(1);
    lab.online();
    let desk = Desk::new(lab).await;

    let (what, data) = desk.refused("move_to", json!({ "stage": "scope", "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(
        what.starts_with("[not_referenced]") && what.contains("Moved: no. Next: call home {\"stage\": \"scope\"}"),
        "{what}"
    );
    assert_eq!(data["moved"], "no");

    let homed = desk.ok("home", json!({ "stage": "scope" })).await;
    assert_eq!((&homed["status"], &homed["moved"]), (&json!("ok"), &json!("yes")));
    assert_eq!(homed["positions"]["x"]["trust"], "referenced");

    let moved = desk.ok("move_to", json!({ "targets": { "scope.x": 40000, "y": 20000 }, "unit": "um" })).await;
    assert_eq!(moved["moved"], "yes");
    assert_eq!(
        (&moved["axes"]["x"]["target"], &moved["axes"]["x"]["unit"], &moved["axes"]["x"]["end_as_asked"]),
        (&json!(40), &json!("mm"), &json!(40000))
    );
    assert!((desk.lab.lock().truly("x") - 40.0).abs() < 0.02);

    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 75.5 }, "unit": "mm" })).await;
    assert!(what.contains("[out_of_travel] 75.5 mm") && what.contains("Allowed: scope.x from 0 to 75 mm"), "{what}");
    let check = desk.ok("check_move", json!({ "targets": { "x": 75.5 }, "unit": "mm" })).await;
    assert_eq!(check["allowed"], false);
    assert_eq!(check["nearest"]["x"]["position"], 75);

    let picture = desk.call("acquire_image", json!({ "label": "first", "preview": true })).await;
    let data = picture.structured_content.clone().unwrap();
    let png = std::fs::read(data["img_path"].as_str().unwrap()).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert!(std::path::Path::new(data["raw_data_path"].as_str().unwrap()).is_file());
    assert_eq!(
        (&data["psize"], &data["unit"], &data["simulated"], &data["moved"]),
        (&json!(0.65), &json!("um"), &json!(true), &json!("no"))
    );
    assert!(
        matches!(&picture.content[1], ContentBlock::Image(i) if i.mime_type == "image/png" && i.data.len() <= 700_000)
    );
    let listed = desk.ok("list_images", json!({})).await;
    let row = &listed["images"][0];
    assert_eq!((&row["psize"], &row["unit"]), (&data["psize"], &data["unit"]));
    assert_eq!(row["position_before"]["scope.x"]["position"].as_f64(), Some(40.0));
    assert!(row["exposure_asked_at"].is_string(), "{row}");
    assert_eq!((&listed["total"], &listed["images"][0]["image_id"]), (&json!(1), &data["image_id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn e14_a_relative_move_answers_with_start_target_and_end_and_is_good_once() {
    let desk = Desk::new(homed()).await;
    let epoch = desk.epoch().await;
    let step = json!({ "offsets": { "x": -5 }, "unit": "mm", "from_epoch": epoch });
    let moved = desk.ok("move_by", step.clone()).await;
    let x = &moved["axes"]["x"];
    let (start, target, end) =
        (x["start"].as_f64().unwrap(), x["target"].as_f64().unwrap(), x["end"].as_f64().unwrap());
    assert!((start - target - 5.0).abs() < 1e-6 && (end - target).abs() < 0.02, "{x}");
    let (what, _) = desk.refused("move_by", step).await;
    assert!(what.starts_with("[moved_on]") && what.contains("Moved: no. Next: call get_state {}"), "{what}");
    assert!(moved["state_epoch"].as_u64().unwrap() > epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn x24_the_same_command_id_moves_once_and_is_told_the_first_outcome() {
    let desk = Desk::new(homed()).await;
    let epoch = desk.epoch().await;
    let step = json!({ "offsets": { "x": -5 }, "unit": "mm", "from_epoch": epoch, "command_id": "step-1" });
    let (first, second) = tokio::join!(desk.ok("move_by", step.clone()), desk.ok("move_by", step.clone()));
    let third = desk.ok("move_by", step).await;
    assert_eq!([first.get("repeated").is_some(), second.get("repeated").is_some()].iter().filter(|r| **r).count(), 1);
    assert_eq!((&first["axes"], &third["repeated"]), (&third["axes"], &json!(true)));
    assert!((desk.lab.lock().truly("x") - 69.0).abs() < 0.05, "{}", desk.lab.lock().truly("x"));
    let other = json!({ "stage": "scope", "command_id": "step-1" });
    let (what, _) = desk.refused("home", other).await;
    assert!(what.starts_with("[command_id_used]") && what.contains("was used for another command"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x24_the_same_step_sent_again_while_it_runs_is_refused_at_once_and_moves_nothing() {
    let desk = Desk::new(homed()).await;
    let epoch = desk.epoch().await;
    let step = json!({ "offsets": { "x": -40 }, "unit": "mm", "from_epoch": epoch, "wait_s": 0 });
    let begun = desk.ok("move_by", step.clone()).await;
    wait_until("it moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
    let (what, data) = desk.refused("move_by", step).await;
    assert!(what.starts_with("[moved_on]") && data["moved"] == "no", "{what}");
    assert!(desk.handle.snapshot().stages[0].activity.is_motion(), "the answer waited for the first move");
    let done = desk.ok("get_job", json!({ "job_id": begun["job_id"], "wait_s": 30 })).await;
    assert_eq!(done["status"], "ok");
    assert!((desk.lab.lock().truly("x") - 34.0).abs() < 0.05);
}

/// Clients of the TypeScript SDK hold errors against the output schema too, and throw away what doesn't match.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_what_the_output_schema_says_too() {
    let desk = Desk::new(homed()).await;
    for tool in desk.client.list_all_tools().await.unwrap() {
        let schema = Value::Object((**tool.output_schema.as_ref().unwrap()).clone());
        let name: &'static str = tool.name.to_string().leak();
        let (what, data) = desk.refused(name, json!({ "no_such_argument": 1 })).await;
        assert!(jsonschema::is_valid(&schema, &data), "{name}: {what} {data}");
    }
    let epoch = desk.epoch().await;
    let (_, data) = desk.refused("move_to", json!({ "targets": { "x": 500 }, "unit": "mm" })).await;
    assert_eq!(data["state_epoch"], epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_move_becomes_a_job_and_get_job_answers_as_the_move_would_have() {
    let desk = Desk::new(homed()).await;
    let begun = desk.ok("move_to", json!({ "targets": { "x": 20 }, "unit": "mm", "wait_s": 0 })).await;
    assert_eq!(begun["status"], "running");
    let job = begun["job_id"].clone();
    let done = desk.ok("get_job", json!({ "job_id": job, "wait_s": 30 })).await;
    assert_eq!((&done["status"], &done["moved"], &done["job_id"]), (&json!("ok"), &json!("yes"), &job));
    assert_eq!(done["axes"]["x"]["target"], 20);
    assert!(done.get("result").is_none());
    let (what, _) = desk.refused("get_job", json!({ "job_id": "job-999" })).await;
    assert!(what.starts_with("[not_found]") && what.contains(job.as_str().unwrap()), "{what}");
    let cancelled = desk.ok("cancel_job", json!({ "job_id": job })).await;
    assert_eq!(cancelled["cancelled"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn x05_a_call_that_is_taken_back_stops_its_motion() {
    let desk = Desk::new(homed()).await;
    let lone = connect(&desk.face).await;
    let request = CallToolRequestParams::new("move_to")
        .with_arguments(json!({ "targets": { "x": 15 }, "unit": "mm" }).as_object().unwrap().clone());
    let pending = lone.send_cancellable_request(
        rmcp::model::ClientRequest::CallToolRequest(rmcp::model::Request::new(request)),
        Default::default(),
    );
    let pending = pending.await.unwrap();
    wait_until("the stage moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
    pending.cancel(None).await.unwrap();
    wait_until("the stage stands", || !desk.handle.snapshot().stages[0].activity.is_motion()).await;
    let x = desk.lab.lock().truly("x");
    assert!(x > 16.0, "it went on to {x}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_06_stop_in_a_fresh_connection_stops_and_says_where_it_stands() {
    let desk = Desk::new(homed()).await;
    let begun = desk.ok("move_to", json!({ "targets": { "x": 15 }, "unit": "mm", "wait_s": 0 })).await;
    wait_until("the stage moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
    let fresh = connect(&desk.face).await;
    let result = call(&fresh, "stop", json!({})).await;
    let (what, data) = (text(&result), result.structured_content.unwrap());
    assert!(what.starts_with("Stopped scope. Standstill is confirmed"), "{what}");
    assert_eq!((&data["stopped"], &data["moved"]), (&json!(["scope"]), &json!("yes")));
    let (what, _) = desk.refused("get_job", json!({ "job_id": begun["job_id"], "wait_s": 10 })).await;
    assert!(what.starts_with("[stopped]"), "{what}");

    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 15 }, "unit": "mm" })).await;
    assert!(what.contains("[stopped]") && what.contains("clear_fault {\"device\": \"scope\"}"), "{what}");
    let cleared = text(&desk.call("clear_fault", json!({ "device": "scope" })).await);
    assert!(cleared.starts_with("scope is released.") && !cleared.contains("stopped by"), "{cleared}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_with_wrong_arguments_stops_everything() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 15 }, "unit": "mm", "wait_s": 0 })).await;
    wait_until("the stage moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
    let (what, data) = desk.refused("stop", json!({ "stage": "everything", "now": true })).await;
    assert!(what.contains("EVERYTHING was stopped") && what.contains("Standstill is confirmed"), "{what}");
    assert_eq!(data["moved"], "yes");
    let scope = desk.handle.snapshot().stages[0].clone();
    assert!(!scope.activity.is_motion());
    // It did not just come to the end of its way meanwhile.
    assert_eq!(scope.stopped_by, Some(StopBy::Model));
    assert!(desk.lab.lock().truly("x") > 20.0, "{}", desk.lab.lock().truly("x"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_saved_position_is_found_again_and_go_back_returns() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 30, "y": 20 }, "unit": "mm" })).await;
    desk.ok("save_position", json!({ "name": "start" })).await;
    desk.ok("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    desk.ok("move_to", json!({ "saved_position": "start" })).await;
    assert!((desk.lab.lock().truly("x") - 30.0).abs() < 0.05);
    let back = desk.ok("go_back", json!({})).await;
    assert_eq!(back["moved"], "yes");
    assert!((desk.lab.lock().truly("x") - 40.0).abs() < 0.05);
    let (what, _) = desk.refused("move_to", json!({ "saved_position": "nowhere" })).await;
    assert!(what.contains("there are start"), "{what}");
    let rig = desk.ok("describe_rig", json!({})).await;
    assert_eq!(rig["saved_positions"]["positions"][0]["name"], "start");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_description_runs_on_the_demonstration_rig() {
    let desk = Desk::new(homed()).await;
    let examples = desk.face.examples();
    assert!(examples.len() >= 18);
    for (tool, arguments) in examples {
        let result = desk.call(tool, serde_json::from_str(arguments).unwrap()).await;
        assert_ne!(result.is_error, Some(true), "{tool} {arguments}: {}", text(&result));
        assert_conforms(&desk, tool, &result).await;
        if tool == "stop" {
            for device in ["scope", "lamp", "shutter"] {
                desk.ok("clear_fault", json!({ "device": device })).await;
            }
        }
    }
}

/// Structured answers keep to the output schema that the list declares.
async fn assert_conforms(desk: &Desk, tool: &str, result: &CallToolResult) {
    let tools = desk.client.list_all_tools().await.unwrap();
    let declared = tools.iter().find(|t| t.name == tool).unwrap().output_schema.clone().unwrap();
    let data = result.structured_content.clone().unwrap();
    let errors: Vec<String> = jsonschema::validator_for(&Value::Object((*declared).clone()))
        .unwrap()
        .iter_errors(&data)
        .map(|e| format!("{} at {}", e, e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{tool}: {errors:?}");
    assert!(data.get("result").is_none() || data.as_object().unwrap().len() == 1, "{tool}");
}

#[tokio::test(flavor = "multi_thread")]
async fn x28_modern_requests_are_stamped_and_private_and_old_ones_stay_as_they_were() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let desk = Desk::new(homed()).await;
    let ask = async |lines: Vec<Value>| -> Vec<Value> {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let server = desk.face.clone();
        tokio::spawn(async move { server.serve(ours).await.unwrap().waiting().await });
        let (read, mut write) = tokio::io::split(theirs);
        let mut read = BufReader::new(read).lines();
        let mut answers = Vec::new();
        for line in lines {
            write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            if line.get("id").is_some() {
                answers.push(serde_json::from_str(&read.next_line().await.unwrap().unwrap()).unwrap());
            }
        }
        answers
    };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" }
    });
    let modern = ask(vec![
        json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": { "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "_meta": meta, "name": "stop", "arguments": {} } }),
    ])
    .await;
    for answer in &modern {
        let stamp = &answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(stamp["name"], "steadyhand", "{answer}");
    }
    assert_eq!(
        (&modern[1]["result"]["cacheScope"], &modern[1]["result"]["ttlMs"]),
        (&json!("private"), &json!(60_000))
    );
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } });
    let old = ask(vec![
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "stop" } }),
    ])
    .await;
    assert_eq!(old[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(old[1]["result"]["tools"], modern[1]["result"]["tools"], "the list is the same in both eras");
    for answer in &old[1..] {
        assert!(answer["result"].get("_meta").is_none() && answer["result"].get("resultType").is_none(), "{answer}");
        assert!(answer["result"].get("ttlMs").is_none(), "{answer}");
    }
    assert_eq!(old[2]["result"]["structuredContent"]["status"], "ok");
}

/// A client that counts how often it is told that the list has changed.
#[derive(Clone, Default)]
struct Counting(Arc<std::sync::atomic::AtomicUsize>);

impl rmcp::ClientHandler for Counting {
    async fn on_tool_list_changed(&self, _: rmcp::service::NotificationContext<RoleClient>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_once_when_the_list_changes() {
    let desk = Desk::new(homed()).await;
    let counting = Counting::default();
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = desk.face.clone();
    tokio::spawn(async move { server.serve(ours).await.unwrap().waiting().await });
    let _client = counting.clone().serve(theirs).await.unwrap();
    desk.lab.lock().fault(hw_sim::Fault::Unplug);
    wait_until("the client is told", || counting.0.load(Ordering::Relaxed) == 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(counting.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_15_and_late_calls_a_device_that_is_gone_takes_its_tools_along() {
    let desk = Desk::new(homed()).await;
    assert!(desk.face.listed().contains(&"move_to"));
    desk.lab.lock().fault(hw_sim::Fault::Unplug);
    wait_until("the tools leave the list", || !desk.face.listed().contains(&"move_to")).await;
    let listed = desk.face.listed();
    assert!(["stop", "diagnose", "get_state", "acquire_image"].iter().all(|t| listed.contains(t)), "{listed:?}");
    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(what.starts_with("[not_connected]") || what.starts_with("[unplugged]"), "{what}");
    assert!(what.contains("Next: call diagnose {}"), "{what}");
    let told = desk.call("diagnose", json!({})).await;
    assert!(text(&told).contains("plugged in"), "{}", text(&told));
    desk.lab.lock().fault(hw_sim::Fault::Plug);
    wait_until("the tools come back", || desk.face.listed().contains(&"move_to")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_moves_nothing_but_stops() {
    let desk = Desk::with(homed(), Policy { read_only: true }).await;
    let listed = desk.face.listed();
    assert!(listed.contains(&"stop") && !listed.contains(&"move_to"));
    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(what.starts_with("[not_permitted]") && what.contains("ask the person at the rig"), "{what}");
    desk.ok("stop", json!({})).await;
    // Nothing that this caller reads sends it to a tool that it doesn't have.
    let all = [
        "move_to",
        "move_by",
        "home ",
        "go_back",
        "save_position",
        "acquire_image",
        "set_camera",
        "clear_fault",
        "set_parameters",
        "export_array",
    ];
    for (tool, arguments) in desk.face.examples() {
        let read = text(&desk.call(tool, serde_json::from_str(arguments).unwrap()).await);
        let next = read.split_once("Next: ").map_or("", |(_, next)| next);
        assert!(!all.iter().any(|t| next.contains(t)), "{tool}: {read}");
    }
    let unknown = desk.client.call_tool(CallToolRequestParams::new("open_the_pod_bay_doors")).await.unwrap_err();
    assert!(unknown.to_string().contains("-32602") || format!("{unknown:?}").contains("-32602"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_rig_file_is_explained_by_the_one_tool_that_is_left() {
    let face = Face::new(Parts {
        rig: RigPart::Bad { problems: "rig.toml:7:1: travel is missing".into() },
        policy: Policy::default(),
        request_timeout: Duration::from_secs(30),
        shutting_down: CancellationToken::new(),
    });
    let client = connect(&face).await;
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|t| &*t.name).collect::<Vec<_>>(), ["diagnose"]);
    let told = call(&client, "diagnose", json!({})).await;
    assert!(text(&told).contains("rig.toml:7:1"), "{}", text(&told));
    // Nothing is open here, but what stands at the rig may move all the same.
    let stop = call(&client, "stop", json!({})).await;
    assert!(text(&stop).starts_with("[stop_not_sent] STOP NOT SENT"), "{}", text(&stop));
    assert!(text(&stop).contains("Moved: unknown. Next: tell the person at the rig at once"), "{}", text(&stop));
    for tool in ["move_to", "get_state"] {
        let refused = call(&client, tool, json!({})).await;
        assert!(
            text(&refused).starts_with("[bad_rig_file]") && text(&refused).contains("diagnose {}"),
            "{}",
            text(&refused)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_when_the_server_shuts_down_is_answered() {
    let desk = Desk::new(homed()).await;
    let call = desk.call("move_to", json!({ "targets": { "x": 15 }, "unit": "mm" }));
    let end = async {
        wait_until("the stage moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
        desk.handle.stop(None, steadyhand::model::StopBy::Program);
        desk.shutting_down.cancel();
    };
    let (result, ()) = tokio::join!(call, end);
    assert_eq!(result.is_error, Some(true));
    assert!(
        text(&result).starts_with("[stopped]") || text(&result).starts_with("[shutting_down]"),
        "{}",
        text(&result)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_the_stage_is_identified_claims_nothing() {
    let mut lab = Lab::demo(1);
    lab.fault(hw_sim::Fault::Delay { ms: 60_000 });
    let desk = Desk::new(lab).await;
    wait_until("a first state", || !desk.handle.snapshot().stages.is_empty()).await;
    let state = text(&desk.call("get_state", json!({})).await);
    // The bench's time runs fast: by now the controller may have been given up as silent.
    assert!(state.contains("NOT READY: scope ") && !state.contains("Everything is ready"), "{state}");
    let (what, data) = desk.refused("stop", json!({})).await;
    assert!(!what.contains("confirmed by readback"), "{what}");
    assert_eq!((&data["standstill"], &data["moved"]), (&json!(false), &json!("unknown")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_says_ready_when_it_is_and_what_to_do_when_it_is_not() {
    let mut lab = Lab::demo(1);
    lab.online();
    let desk = Desk::new(lab).await;
    let state = desk.call("get_state", json!({})).await;
    assert!(
        text(&state).contains("scope is not referenced (x, y, z). Next: home {\"stage\": \"scope\"}"),
        "{}",
        text(&state)
    );
    assert_eq!(state.structured_content.unwrap()["ready"], false);
    desk.ok("home", json!({})).await;
    let state = text(&desk.call("get_state", json!({})).await);
    assert!(state.ends_with("Everything is ready."), "{state}");
    let begun = desk.ok("move_to", json!({ "targets": { "x": 15 }, "unit": "mm", "wait_s": 0 })).await;
    wait_until("the stage moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
    let state = text(&desk.call("get_state", json!({})).await);
    let next = format!("get_job {{\"job_id\": {}", begun["job_id"]);
    assert!(state.contains("NOT READY: scope is moving") && state.contains(&next), "{state}");
    desk.ok("stop", json!({})).await;
    let state = text(&desk.call("get_state", json!({})).await);
    assert!(
        state.contains("stopped by a stop call") && state.contains("Next: clear_fault {\"device\": \"scope\"}"),
        "{state}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_next_step_names_is_there() {
    let desk = Desk::new(homed()).await;
    let (what, _) = desk.refused("get_job", json!({ "job_id": "job-999" })).await;
    assert!(what.contains("There is no job-999: no job was begun") || what.contains("there are job-"), "{what}");
    let begun = desk.ok("move_to", json!({ "targets": { "x": 70 }, "unit": "mm" })).await;
    assert!(begun["axes"]["x"].is_object());
    let (what, _) = desk.refused("get_job", json!({ "job_id": "job-999" })).await;
    let id = what.split("Next: call get_job ").nth(1).and_then(|n| n.split(" for").next()).expect(&what);
    desk.ok("get_job", serde_json::from_str(id).unwrap()).await;
    let unknown = desk.client.call_tool(CallToolRequestParams::new("move_too")).await.unwrap_err();
    assert!(unknown.to_string().contains("did you mean move_to?"), "{unknown}");
    let (what, _) = desk.refused("set_camera", json!({ "gain": 1000 })).await;
    assert!(what.starts_with("[invalid_argument] Camera cam: gain must be 1 to 16. Moved: no."), "{what}");
    let events = text(&desk.call("list_events", json!({ "kind": "nonsense" })).await);
    assert!(events.contains("No such event of kind \"nonsense\""), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn go_back_before_any_move_leads_to_where_it_stands() {
    let mut lab = Lab::demo(1);
    lab.online();
    let desk = Desk::new(lab).await;
    let (what, _) = desk.refused("go_back", json!({})).await;
    assert!(what.starts_with("[not_found]") && what.contains("Next: call get_state {}"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_seen_by_default_and_says_what_moved() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 30, "y": 20 }, "unit": "mm" })).await;
    let seen = desk.call("acquire_image", json!({})).await;
    assert!(matches!(&seen.content[1], ContentBlock::Image(_)));
    let epoch = seen.structured_content.clone().unwrap()["state_epoch"].clone();
    let told = text(&seen);
    assert!(told.contains(&format!("Moved: no. state_epoch is {epoch} now.")), "{told}");
    assert!(told.contains("compare focus scores at one place, light and binning only"), "{told}");
    for arguments in
        [json!({ "preview": false }), json!({ "x_center": 35000, "y_center": 25000, "size_x": 50, "size_y": 40 })]
    {
        let unseen = desk.call("acquire_image", arguments).await;
        assert_eq!(unseen.content.len(), 1);
        assert!(text(&unseen).contains("pass preview: true to see it here"), "{}", text(&unseen));
    }
    let region = json!({ "x_center": 30000, "y_center": 25000, "size_x": 50, "size_y": 40, "preview": true });
    let seen = desk.call("acquire_image", region).await;
    assert!(text(&seen).contains("Moved: yes. state_epoch is") && seen.content.len() == 2, "{}", text(&seen));
    let listed = text(&desk.call("list_images", json!({})).await);
    assert!(listed.lines().nth(1).unwrap().contains("at scope.x 30 mm, scope.y 25 mm"), "{listed}");
    desk.ok("set_camera", json!({ "binning": 2 })).await;
    let state = text(&desk.call("get_state", json!({})).await);
    assert!(state.contains("binning 2"), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_axis_that_stayed_is_not_told_as_moved() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 30, "y": 20 }, "unit": "mm" })).await;
    desk.ok("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    let back = text(&desk.call("go_back", json!({})).await);
    assert!(back.contains("x from 40 mm to 30 mm") && !back.contains(", y from"), "{back}");
    let micro =
        desk.ok("move_by", json!({ "offsets": { "x": 100 }, "unit": "µm", "from_epoch": desk.epoch().await })).await;
    assert_eq!(micro["moved"], "yes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cable_pulled_in_motion_says_that_no_stop_can_reach_the_axis() {
    let desk = Desk::new(homed()).await;
    let call = desk.call("move_to", json!({ "targets": { "x": 15 }, "unit": "mm" }));
    let pull = async {
        wait_until("the stage moves", || desk.handle.snapshot().stages[0].activity.is_motion()).await;
        desk.lab.lock().fault(hw_sim::Fault::Unplug);
    };
    let (result, ()) = tokio::join!(call, pull);
    let told = text(&result);
    assert!(
        told.contains("Moved: unknown. Next: scope MAY STILL MOVE, and no stop can reach it: ask the person"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_rig_file_is_not_blamed_for_a_folder_that_cannot_be_written() {
    let what = "Could not make /data/rig: Permission denied (os error 13). Allow this user to write there.";
    let face = Face::new(Parts {
        rig: RigPart::Closed {
            file: Some("/home/me/rig.toml".into()),
            code: steadyhand::model::Code::StorageFailed,
            what: what.into(),
        },
        policy: Policy::default(),
        request_timeout: Duration::from_secs(30),
        shutting_down: CancellationToken::new(),
    });
    let client = connect(&face).await;
    let told = call(&client, "diagnose", json!({})).await;
    let data = told.structured_content.clone().unwrap();
    assert!(text(&told).starts_with("The rig file /home/me/rig.toml is good, but"), "{}", text(&told));
    assert!(text(&told).contains(what) && !text(&told).contains("bad_rig_file"), "{}", text(&told));
    assert_eq!((&data["rig_file"], &data["code"]), (&json!("good"), &json!("storage_failed")));
    let refused = call(&client, "move_to", json!({})).await;
    assert!(
        text(&refused).starts_with("[storage_failed]") && text(&refused).contains("/data/rig"),
        "{}",
        text(&refused)
    );
}

#[tokio::test]
async fn an_assistant_can_be_asked_to_lead_a_person_to_a_new_stage() {
    let desk = Desk::new(homed()).await;
    let listed = desk.client.list_all_prompts().await.unwrap();
    assert_eq!(listed.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["bring_up_new_stage"]);
    let ask = |name: &str| desk.client.get_prompt(rmcp::model::GetPromptRequestParams::new(name));
    let prompt = ask("bring_up_new_stage").await.unwrap();
    let text = serde_json::to_value(&prompt.messages[0]).unwrap()["content"]["text"].as_str().unwrap().to_owned();
    // Each command that it names is one that there is.
    let commands: std::collections::BTreeSet<&str> =
        text.split("`steadyhand ").skip(1).filter_map(|rest| rest.split([' ', '`']).next()).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let help =
            std::process::Command::new(env!("CARGO_BIN_EXE_steadyhand")).args([command, "--help"]).output().unwrap();
        assert!(help.status.success(), "there is no {command}");
    }
    assert!(ask("no_such").await.unwrap_err().to_string().contains("prompts/list"));
}
