//! `set_output` and `read_sensor` as a client meets them: through the protocol, on the simulated bench.

mod desk;
mod support;

use std::time::Duration;

use desk::{Desk, wait_until};
use hw_sim::{Bench, Fault};
use serde_json::{Value, json};
use steadyhand::access::Policy;
use steadyhand::model::{Caller, Name, Way};
use support::{DEMO, Lab, stage_only};

const BY_HAND: &str = r#"
[[output]]
id = "turret"
driver = "manual"
kind = "wheel"
positions = ["10x", "40x"]
on_stop = "keep"
"#;

/// A lab whose outputs are there; made on a thread of its own, because the lab waits for answers with a runtime
/// of its own.
fn lab(rig: String) -> Lab {
    let made = std::thread::spawn(move || {
        let mut lab = Lab::new(&rig, Bench::microscope(1));
        lab.online();
        lab.until("outputs are there", Duration::from_secs(10), |l| l.state().outputs.iter().all(|o| o.ready));
        lab
    });
    made.join().unwrap()
}

fn person() -> Caller {
    Caller { id: Name::new("cli"), client: "ada's terminal".into(), way: Way::Cli }
}

async fn names(desk: &Desk) -> Vec<String> {
    desk.client.list_all_tools().await.unwrap().into_iter().map(|t| t.name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_is_set_in_its_own_words_and_shown_everywhere() {
    let desk = Desk::new(lab(DEMO.to_owned())).await;
    let set = desk.ok("set_output", json!({ "output": "lamp", "percent": 30 })).await;
    assert_eq!((&set["status"], &set["percent"], &set["moved"]), (&json!("ok"), &json!(30), &json!("yes")));
    assert_eq!(set["simulated"], true);
    let set = desk.ok("set_output", json!({ "output": "shutter", "state": "open" })).await;
    assert_eq!(set["state"], "open");
    let set = desk.ok("set_output", json!({ "output": "filter", "position": "gfp" })).await;
    assert_eq!(set["position"], "gfp");
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!(state["outputs"][0], json!({ "output": "lamp", "percent": 30, "simulated": true }));
    assert!(state.to_string().len() <= 2048 + 200, "{}", state.to_string().len());
    let described = desk.ok("describe_rig", json!({})).await;
    assert_eq!(
        (&described["outputs"][0]["max_percent"], &described["outputs"][2]["on_stop"]),
        (&json!(80), &json!("keep"))
    );
    let devices = desk.ok("diagnose", json!({})).await["devices"].clone();
    let kinds: Vec<&str> = devices.as_array().unwrap().iter().filter_map(|d| d["kind"].as_str()).collect();
    assert_eq!(kinds, ["stage", "camera", "output", "output", "output", "sensor"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_value_is_answered_with_the_right_words_and_nothing_is_set() {
    let desk = Desk::new(lab(DEMO.to_owned())).await;
    for (arguments, code, word) in [
        (json!({ "output": "lamp", "percent": 90 }), "[invalid_argument]", "0 % to 80 %"),
        (json!({ "output": "lamp", "percent": 190 }), "[invalid_argument]", "100"),
        (json!({ "output": "lamp", "state": "open" }), "[invalid_argument]", "give percent"),
        (json!({ "output": "lamp" }), "[invalid_argument]", "percent"),
        (json!({ "output": "shutter", "state": "on" }), "[invalid_argument]", "open"),
        (json!({ "output": "filter", "position": "cy5" }), "[invalid_argument]", "gfp"),
        (json!({ "percent": 9 }), "[invalid_argument]", "lamp, shutter, filter"),
        (json!({ "output": "lantern", "percent": 9 }), "[invalid_argument]", "lamp"),
    ] {
        let (what, data) = desk.refused("set_output", arguments.clone()).await;
        assert!(what.starts_with(code) && what.contains(word) && data["moved"] == "no", "{arguments}: {what}");
    }
    assert_eq!(desk.lab.lock().bench.channel("io", "lamp"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_the_way_on_is_named_and_a_reader_may_not_go_it() {
    let desk = Desk::new(lab(DEMO.to_owned())).await;
    desk.ok("set_output", json!({ "output": "shutter", "state": "open" })).await;
    desk.call("stop", json!({})).await;
    wait_until("closed", || desk.lab.lock().bench.channel("io", "shutter") == "closed").await;
    let (what, _) = desk.refused("set_output", json!({ "output": "shutter", "state": "open" })).await;
    assert!(what.starts_with("[stopped]") && what.contains("clear_fault {\"device\": \"shutter\"}"), "{what}");
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!((&state["ready"], &state["outputs"][1]["stopped_by"]), (&json!(false), &json!("model")));
    desk.ok("clear_fault", json!({ "device": "shutter" })).await;
    desk.ok("set_output", json!({ "output": "shutter", "state": "open" })).await;

    let reader = Desk::with(lab(DEMO.to_owned()), Policy { read_only: true }).await;
    let listed = names(&reader).await;
    assert!(!listed.contains(&"set_output".into()) && listed.contains(&"read_sensor".into()), "{listed:?}");
    let (what, _) = reader.refused("set_output", json!({ "output": "shutter", "state": "open" })).await;
    assert!(what.starts_with("[not_permitted]"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sensor_is_read_with_unit_and_age_and_its_loss_is_an_error() {
    let desk = Desk::new(lab(DEMO.to_owned())).await;
    wait_until("read", || desk.handle.snapshot().sensor("temperature").is_some_and(|s| s.value.is_some())).await;
    let read = desk.ok("read_sensor", json!({})).await;
    assert!((read["value"].as_f64().unwrap() - 21.5).abs() < 0.06, "{read}");
    assert_eq!((&read["unit"], &read["in_range"]), (&json!("degC"), &json!(true)));
    assert!(read["age_ms"].as_u64().unwrap() < 5000, "{read}");
    desk.lab.lock().bench.measure("io", "temperature", 300.0);
    wait_until("seen", || desk.handle.snapshot().sensor("temperature").is_some_and(|s| !s.in_range)).await;
    assert_eq!(desk.ok("read_sensor", json!({ "sensor": "temperature" })).await["in_range"], false);
    desk.lab.lock().bench.fault("io", Fault::Unplug).unwrap();
    wait_until("lost", || desk.handle.snapshot().sensor("temperature").is_some_and(|s| s.value.is_none())).await;
    let (what, _) = desk.refused("read_sensor", json!({})).await;
    assert!(what.starts_with("[unplugged]") || what.starts_with("[not_connected]"), "{what}");
    // Tools of what is gone leave the list, and come back with it.
    let mut listed = names(&desk).await;
    for _ in 0..300 {
        if !listed.contains(&"set_output".into()) && !listed.contains(&"read_sensor".into()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        listed = names(&desk).await;
    }
    assert!(!listed.contains(&"set_output".into()) && !listed.contains(&"read_sensor".into()), "{listed:?}");
    assert!(listed.contains(&"move_to".into()) && listed.contains(&"acquire_image".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rig_without_outputs_and_sensors_has_no_tools_for_them() {
    let desk = Desk::new(lab(stage_only())).await;
    let listed = names(&desk).await;
    assert!(!listed.contains(&"set_output".into()) && !listed.contains(&"read_sensor".into()), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_by_hand_answers_at_once_that_a_person_is_waited_for() {
    let desk = Desk::new(lab(format!("{DEMO}{BY_HAND}"))).await;
    let asked = desk.ok("set_output", json!({ "output": "turret", "position": "40x" })).await;
    assert_eq!((&asked["status"], &asked["waits_for"]), (&json!("waiting_for_person"), &json!("turn turret to 40x")));
    let job = asked["job_id"].as_str().unwrap().to_owned();
    let again = desk.ok("get_job", json!({ "job_id": job })).await;
    assert_eq!(again["status"], "waiting_for_person");
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!(state["jobs"][0]["waiting_for_person"], "turn turret to 40x");
    assert!(state["not_ready"].to_string().contains("waits for a person to turn turret to 40x"), "{state}");

    let waiting = desk.handle.snapshot().jobs.iter().find(|j| j.waits_for.is_some()).unwrap().clone();
    assert_eq!(waiting.id.to_string(), job);
    desk.handle.confirm(&person(), waiting.id, true, "ada").unwrap().wait().await.unwrap();
    let done = desk.ok("get_job", json!({ "job_id": job, "wait_s": 5 })).await;
    assert_eq!(
        (&done["status"], &done["position"], &done["trust"], &done["moved"]),
        (&json!("ok"), &json!("40x"), &json!("assumed"), &json!("yes"))
    );

    let asked = desk.ok("set_output", json!({ "output": "turret", "position": "10x" })).await;
    let id = desk.handle.snapshot().jobs.iter().find(|j| j.waits_for.is_some()).unwrap().id;
    desk.handle.confirm(&person(), id, false, "ada").unwrap().wait().await.unwrap();
    let (what, data) = desk.refused("get_job", json!({ "job_id": asked["job_id"], "wait_s": 5 })).await;
    assert!(what.starts_with("[refused_by_person]") && what.contains("ada") && data["moved"] == "no", "{what}");
    let by_hand: Vec<Value> = desk.ok("diagnose", json!({})).await["devices"].as_array().unwrap().clone();
    assert!(by_hand.iter().any(|d| d["device"] == "turret" && d["to_do"] == "Nothing to do."), "{by_hand:?}");
}

/// The same on a pseudo-terminal and on TCP, in real time, with the rig thread itself.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn on_real_ports_outputs_are_set_stopped_and_made_safe_at_the_end() {
    use steadyhand::actor::spawn;
    use steadyhand::devices::{self, link};
    use steadyhand::model::{Epoch, OutputValue, SetOutput, StopBy};
    use steadyhand::plans::Sequence;
    use steadyhand::store::PersonStop;
    use steadyhand::units::Percent;

    const BLIND: &str = r#"
[[output]]
id = "blind"
driver = "grbl-coolant"
link = "scope-port"
kind = "shutter"
on_stop = "safe"
safe = "closed"
"#;
    let bench = hw_sim::serve::Running::start(Bench::microscope(1), hw_sim::serve::Options::default()).unwrap();
    let path = |device: &str| {
        let paths = bench.paths();
        let (_, path) = paths.iter().find(|(id, _)| id == device).unwrap();
        path.trim_start_matches("tcp://").to_owned()
    };
    let text = DEMO.replace("@SCOPE@", &path("scope")).replace("@CAM@", &path("cam")).replace("@IO@", &path("io"));
    let rig = support::rig(&format!("{text}{BLIND}"));
    let devices = devices::make(&rig, &mut link::connector).unwrap();
    let log = Box::new(support::Log::default());
    let (handle, thread) = spawn(&rig, devices, log, PersonStop::in_memory(), Epoch(1)).unwrap();
    wait_until("all outputs are there", || {
        let state = handle.snapshot();
        state.outputs.len() == 4 && state.outputs.iter().all(|o| o.ready && o.value.is_some())
    })
    .await;
    // A controller that was switched on is locked, and switches nothing until it is homed or released.
    let set = SetOutput { output: Name::new("blind"), value: OutputValue::Open(true) };
    let plan = Sequence::output("set blind".into(), set);
    let locked = handle.run(&person(), Box::new(plan)).unwrap().wait().await.unwrap_err();
    assert!(locked.what.contains("locked") && locked.what.contains("home its stage"), "{locked}");
    handle.recover(&person(), &Name::new("scope")).unwrap().wait().await.unwrap();
    for (output, value) in [
        ("lamp", OutputValue::Percent(Percent::new(50.0).unwrap())),
        ("shutter", OutputValue::Open(true)),
        ("blind", OutputValue::Open(true)),
    ] {
        let set = SetOutput { output: Name::new(output), value: value.clone() };
        let plan = Sequence::output(format!("set {output}"), set);
        let report = handle.run(&person(), Box::new(plan)).unwrap().wait().await.unwrap();
        assert_eq!(report.outputs[0].value, Some(value));
    }
    assert!((bench.with_bench(|b| b.light()) - 3.0).abs() < 1e-6);
    handle.stop(None, StopBy::Model);
    wait_until("dark", || (bench.with_bench(|b| b.light()) - 1.0).abs() < 1e-6).await;
    handle.shutdown(&person()).unwrap().wait().await.unwrap();
    thread.join().unwrap();
    bench.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_says_which_lights_it_has_not_seen_go_out() {
    let desk = Desk::new(lab(DEMO.to_owned())).await;
    desk.ok("set_output", json!({ "output": "lamp", "percent": 30 })).await;
    desk.lab.lock().bench.fault("io", Fault::Silence { on: true }).unwrap();
    let stop = desk.call("stop", json!({})).await;
    let said = desk::text(&stop);
    assert!(said.contains("NOT SEEN SAFE YET: lamp") && !said.contains("filter"), "{said}");
    desk.lab.lock().bench.fault("io", Fault::Silence { on: false }).unwrap();
    desk::wait_until("dark", || desk.handle.snapshot().outputs.iter().all(|o| o.ready)).await;
    let again = desk::text(&desk.call("stop", json!({})).await);
    assert!(!again.contains("NOT SEEN SAFE"), "{again}");
}
