//! What a client sees of what a person does: stops that it can't release, ports that are lent, positions that are
//! declared.

mod desk;
mod support;

use std::time::Duration;

use desk::{Desk, homed, wait_until};
use serde_json::json;
use steadyhand::model::{AxisId, Name, RigError, StopBy};
use steadyhand::units::Position;
use support::{DEMO, Lab};

/// A person at the rig.
fn person() -> steadyhand::model::Caller {
    steadyhand::model::Caller { id: Name::new("person"), client: "steadyhand".into(), way: steadyhand::model::Way::Cli }
}

async fn lend(desk: &Desk, device: &str) -> Result<Vec<Name>, RigError> {
    desk.handle.release(&person(), &Name::new(device))?.wait().await
}

async fn take_back(desk: &Desk, device: &str) -> Result<Vec<Name>, RigError> {
    desk.handle.reclaim(&person(), &Name::new(device))?.wait().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_stop_is_told_with_who_releases_it_and_no_tool_does() {
    let desk = Desk::new(homed()).await;
    desk.handle.stop(None, StopBy::Person);
    desk.handle.standstill(None, Duration::from_secs(5)).await;
    for (tool, arguments) in [
        ("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })),
        ("home", json!({})),
        ("clear_fault", json!({ "device": "scope" })),
    ] {
        let (what, _) = desk.refused(tool, arguments).await;
        assert!(what.contains("a person") && !what.contains("call clear_fault"), "{tool}: {what}");
        assert!(what.contains("ask the person at the rig"), "{tool}: {what}");
    }
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!(state["stages"][0]["stopped_by"], "person");
    assert!(state["not_ready"][0].as_str().unwrap().starts_with("a person stopped scope (since "), "{state}");
    assert!(state["next"].as_str().unwrap().contains("`steadyhand resume`"), "{state}");
    // A model's stop on top of it is answered as ever, and leads past no person.
    let stop = desk.ok("stop", json!({})).await;
    assert!(stop.get("next").is_none_or(|n| !n.as_str().unwrap().contains("clear_fault")), "{stop}");

    desk.handle.resume(&person(), None).unwrap().wait().await.unwrap();
    desk.ok("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_lent_device_leave_the_list_and_come_back_with_it() {
    let desk = Desk::new(homed()).await;
    assert!(desk.face.listed().contains(&"move_to"));
    lend(&desk, "scope").await.unwrap();
    wait_until("its tools are gone", || !desk.face.listed().contains(&"move_to")).await;
    assert!(desk.face.listed().contains(&"acquire_image") && desk.face.listed().contains(&"stop"));
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!((&state["stages"][0]["activity"], &state["ready"]), (&json!("released"), &json!(false)));
    assert!(state["next"].as_str().unwrap().contains("`steadyhand reclaim scope`"), "{state}");
    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(what.starts_with("[not_connected]") && what.contains("lent its port"), "{what}");
    assert!(what.contains("Next: call diagnose {}"), "{what}");
    let told = desk.ok("diagnose", json!({})).await;
    assert!(told["devices"][0]["to_do"].as_str().unwrap().contains("`steadyhand reclaim scope`"), "{told}");

    take_back(&desk, "scope").await.unwrap();
    wait_until("its tools are back", || desk.face.listed().contains(&"move_to")).await;
    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(what.starts_with("[not_referenced]") && what.contains("home {"), "{what}");
    desk.ok("home", json!({})).await;
    desk.ok("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_cannot_home_leads_to_the_person_who_declares_where_it_stands() {
    let rig = DEMO.replace("home = { order = [\"z\", \"x\", \"y\"], timeout_s = 60 }", "home = \"never\"");
    let rig = rig.replace("trust = \"referenced\"", "trust = \"assumed\"");
    let bench = hw_sim::MICROSCOPE_TOML.replace("\"$20\" = 1 ", "\"$20\" = 0 ").replace("\"$22\" = 1 ", "\"$22\" = 0 ");
    let lab = std::thread::spawn(move || {
        let mut lab = Lab::new(&rig, hw_sim::Bench::from_toml(&bench).unwrap());
        lab.online();
        lab
    });
    let desk = Desk::new(lab.join().unwrap()).await;
    let (what, _) = desk.refused("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(what.starts_with("[not_referenced]"), "{what}");
    assert!(what.contains("Next: ask the person at the rig") && what.contains("`steadyhand reference AXIS VALUE`"));
    let (what, _) = desk.refused("home", json!({})).await;
    assert!(what.contains("`steadyhand reference scope.x VALUE`. Moved: no. Next: ask the person"), "{what}");
    let state = desk.ok("get_state", json!({})).await;
    assert!(state["next"].as_str().unwrap().contains("`steadyhand reference scope.x VALUE`"), "{state}");
    for (axis, mm) in [("x", 40.0), ("y", 20.0), ("z", 3.0)] {
        let declared = desk.handle.reference(&person(), &AxisId::new("scope", axis), Position::base(mm).unwrap());
        declared.unwrap().wait().await.unwrap();
    }
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!((&state["ready"], &state["stages"][0]["axes"]["x"]["trust"]), (&json!(true), &json!("assumed")));
    let moved = desk.ok("move_to", json!({ "targets": { "x": 41 }, "unit": "mm" })).await;
    assert_eq!(moved["axes"]["x"]["target"], 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_03_no_tool_in_any_order_releases_a_persons_stop_or_moves_past_it() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 40, "y": 20 }, "unit": "mm" })).await;
    let begun = desk.ok("move_to", json!({ "targets": { "x": 70 }, "unit": "mm", "wait_s": 0.001 })).await;
    assert_eq!(begun["status"], "running");
    wait_until("it moves", || desk.lab.lock().bench.speed_mm_per_s("scope", "x") > 5.0).await;
    desk.handle.stop(None, StopBy::Person);
    desk.handle.standstill(None, Duration::from_secs(5)).await;
    let (since, stood, epoch) = {
        let lab = desk.lab.lock();
        (lab.now(), lab.truly("x"), lab.scope().epoch.0)
    };
    assert!(stood < 69.0, "on its way: {stood}");
    let known = |tool: &str| match tool {
        "move_to" => json!({ "targets": { "x": 45 }, "unit": "mm" }),
        "move_by" => json!({ "stage": "scope", "offsets": { "x": 1 }, "unit": "mm", "from_epoch": epoch }),
        "check_move" => json!({ "targets": { "x": 45 }, "unit": "mm" }),
        "clear_fault" => json!({ "device": "scope" }),
        "acquire_image" => json!({ "x_center": 45000, "y_center": 25000, "size_x": 50, "size_y": 40 }),
        "acquire_line_scan" => json!({ "scan_center_x": 45000, "scan_center_y": 25000, "length": 50, "scan_step": 10 }),
        "set_parameters" => json!({ "parameters": [3000] }),
        "save_position" => json!({ "name": "here" }),
        "set_output" => json!({ "output": "shutter", "position": "open" }),
        "get_job" | "cancel_job" => json!({ "job_id": begun["job_id"] }),
        _ => json!({}),
    };
    let listed = desk.face.listed();
    assert!(["move_to", "home", "clear_fault", "go_back"].iter().all(|t| listed.contains(t)), "{listed:?}");
    for round in 0..2 {
        for tool in &listed {
            // What it says is tested elsewhere; here counts what it does.
            desk.call(tool, known(tool)).await;
            let lab = desk.lab.lock();
            assert_eq!(lab.scope().stopped_by, Some(StopBy::Person), "{tool} in round {round}");
        }
    }
    let lab = desk.lab.lock();
    let heard = lab.lines_since(since);
    assert!(heard.is_empty(), "not one line went to the controller: {heard:?}");
    assert_eq!(lab.truly("x"), stood);
}
