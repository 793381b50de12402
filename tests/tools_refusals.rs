//! What a refused motion offers instead, as a client meets it: ready arguments, which are taken at their word.

mod desk;
mod support;

use desk::{Desk, homed};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn the_sequence_that_a_refusal_names_leads_to_the_target_call_by_call() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 40, "y": 20 }, "unit": "mm" })).await;
    desk.ok("move_to", json!({ "targets": { "z": 1000 }, "unit": "um" })).await;
    let since = desk.lab.lock().now();
    // Over the incubator's frame, which stands 1.5 mm high.
    let over = json!({ "targets": { "x": 70 }, "unit": "mm" });
    let (what, data) = desk.refused("move_to", over.clone()).await;
    assert!(what.starts_with("[keep_out]") && what.contains("An allowed sequence, one call each: move_to"), "{what}");
    let checked = desk.ok("check_move", over).await;
    assert_eq!(checked["instead"], data["instead"]);
    assert!(desk.lab.lock().lines_since(since).is_empty(), "it is named, and never done by itself");
    let sequence: Vec<Value> = data["instead"]["sequence"].as_array().unwrap().clone();
    assert!((2..=3).contains(&sequence.len()), "{sequence:?}");
    for arguments in sequence {
        assert!(what.contains(&format!("\"stage\": {}", arguments["stage"])), "{what}");
        desk.ok("move_to", arguments).await;
    }
    let lab = desk.lab.lock();
    assert!((lab.truly("x") - 70.0).abs() < 0.02 && lab.truly("z") > 1.5, "{} {}", lab.truly("x"), lab.truly("z"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_target_of_every_kind_of_refused_move_is_one_that_is_allowed() {
    let desk = Desk::new(homed()).await;
    desk.ok("move_to", json!({ "targets": { "x": 40, "y": 20, "z": 1 }, "unit": "mm" })).await;
    let epoch = desk.epoch().await;
    for (tool, arguments, code) in [
        (
            "move_by",
            json!({ "stage": "scope", "offsets": { "z": 5000 }, "unit": "um", "from_epoch": epoch }),
            "out_of_travel",
        ),
        ("move_to", json!({ "targets": { "x": 90, "y": 30 }, "unit": "mm" }), "out_of_travel"),
        ("move_to", json!({ "targets": { "x": 70 }, "unit": "mm" }), "keep_out"),
        ("move_to", json!({ "targets": { "x": 5, "y": 4 }, "unit": "mm" }), "keep_out"),
    ] {
        let (what, data) = desk.refused(tool, arguments.clone()).await;
        assert_eq!(data["code"], code, "{tool} {arguments}: {what}");
        let mut nearest = data["instead"]["nearest"].clone();
        assert!(nearest.is_object(), "{data}");
        assert_eq!(desk.ok("check_move", nearest.clone()).await["allowed"], true, "{nearest}");
        nearest["wait_s"] = json!(60);
        let moved = desk.ok("move_to", nearest).await;
        assert_eq!(moved["moved"], "yes", "{moved}");
        desk.ok("move_to", json!({ "targets": { "x": 40, "y": 20, "z": 1 }, "unit": "mm" })).await;
    }
    // Where nothing may move, nothing is offered.
    desk.ok("stop", json!({})).await;
    let (_, data) = desk.refused("move_to", json!({ "targets": { "x": 70 }, "unit": "mm" })).await;
    assert_eq!((&data["code"], &data["instead"]), (&json!("stopped"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_homing_says_of_each_axis_whether_its_drift_is_known() {
    let desk = Desk::new(homed()).await;
    let homed = desk.ok("home", json!({})).await;
    assert_eq!(homed["reference_drift"], json!({ "x": null, "y": null, "z": null }), "GRBL is silent while it homes");
    let text = desk::text(&desk.call("home", json!({})).await);
    assert!(text.contains("How far the reference of x had drifted can't be told"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_argument_of_another_tool_is_named_with_it() {
    let desk = Desk::new(homed()).await;
    let (what, _) = desk.refused("acquire_image", json!({ "exposure_ms": 20 })).await;
    assert!(what.contains("exposure_ms is an argument of set_camera."), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_alone_say_that_a_counter_proves_nothing_about_a_jam() {
    let desk = Desk::new(homed()).await;
    let moved = desk::text(&desk.call("move_to", json!({ "targets": { "x": 15 }, "unit": "mm" })).await);
    assert!(moved.contains("and stands, by the controller's counter."), "{moved}");
    let described = desk::text(&desk.call("describe_rig", json!({})).await);
    assert!(described.contains("its positions are the controller's counter"), "{described}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_homing_a_position_that_is_unknown_is_no_number() {
    let mut lab = homed();
    lab.fault(hw_sim::Fault::Jam { axis: "x".into() });
    let desk = Desk::new(lab).await;
    let (what, data) = desk.refused("home", json!({})).await;
    assert_eq!(data["code"], "homing_failed", "{what}");
    let told = desk::text(&desk.call("get_state", json!({})).await);
    assert!(told.contains("x unknown (the controller counts"), "{told}");
}
