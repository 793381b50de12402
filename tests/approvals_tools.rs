//! What a client sees of what a person has to approve: the answer that waits, the job that goes on, the questions that
//! its own user is asked where the rig file lets that count.

mod desk;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use desk::{Desk, call, text, wait_until};
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    Implementation,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ErrorData, RoleClient, ServiceExt};
use serde_json::{Value, json};
use steadyhand::tools::Face;
use support::{DEMO, Lab};

fn asking(more: &str) -> String {
    DEMO.replace("timeout_s = 60 }", "timeout_s = 60, ask = \"operator\" }") + more
}

async fn desk(rig: String) -> Desk {
    let lab = std::thread::spawn(move || {
        let mut lab = Lab::new(&rig, hw_sim::Bench::microscope(1));
        lab.online();
        lab
    });
    Desk::new(lab.join().unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_says_what_waits_why_who_decides_and_how_and_the_job_goes_on_by_itself() {
    let desk = desk(asking("")).await;
    let described = desk.call("describe_rig", json!({})).await;
    assert!(text(&described).contains("a person approves it each time"), "{}", text(&described));
    let result = desk.call("home", json!({})).await;
    let (said, asked) = (text(&result), result.structured_content.unwrap());
    assert_eq!((&asked["status"], &asked["moved"]), (&json!("waiting_for_person"), &json!("no")), "{asked}");
    let (id, job) = (asked["approval_id"].as_str().unwrap().to_owned(), asked["job_id"].as_str().unwrap().to_owned());
    assert!(said.contains(&format!("`steadyhand approve {id}`")) && said.contains("nobody else can"), "{said}");
    assert!(said.contains("home scope, axes z, x, y") && said.contains("[homing of scope]"), "{said}");
    assert!(said.contains(&format!("Next: get_job {{\"job_id\": \"{job}\"")), "{said}");
    assert_eq!(asked["asks"][0]["rule"], "homing of scope");
    assert_eq!(asked["command_sha256"].as_str().unwrap().len(), 64);
    assert!(asked["expires_in_s"].as_f64().unwrap() > 200.0 && asked["state_epoch"].as_u64().unwrap() > 0, "{asked}");

    // It is the same for whoever looks, and no tool says yes.
    let state = desk.ok("get_state", json!({})).await;
    assert_eq!(state["jobs"][0]["approval_id"], id.as_str());
    assert!(state["next"].as_str().unwrap().contains(&format!("`steadyhand approve {id}`")), "{state}");
    let again = desk.ok("get_job", json!({ "job_id": job })).await;
    assert_eq!((&again["status"], &again["approval_id"]), (&json!("waiting_for_person"), &json!(id)));
    assert!(desk.face.listed().iter().all(|t| !t.contains("approve") && !t.contains("allow")));
    let (busy, _) = desk.refused("move_to", json!({ "targets": { "x": 40 }, "unit": "mm" })).await;
    assert!(busy.starts_with("[busy]") && busy.contains("waits for a person"), "{busy}");

    let face = desk.face.clone();
    let shown = tokio::task::spawn_blocking(move || {
        let listed = face.approvals(None);
        let decided = face.decide(&id, true, "Ada", None);
        assert!(decided.ok, "{}", decided.text);
        let twice = face.decide(&id, true, "Ada", None);
        assert!(!twice.ok && twice.text.contains("[not_found]"), "{}", twice.text);
        listed
    });
    let shown = shown.await.unwrap();
    assert!(shown.text.contains("home scope") && shown.text.contains("why: [homing of scope]"), "{}", shown.text);
    let done = desk.ok("get_job", json!({ "job_id": job, "wait_s": 30 })).await;
    assert_eq!((&done["status"], &done["stage"]), (&json!("ok"), &json!("scope")), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hole_12_no_argument_grants() {
    let desk = desk(asking("")).await;
    for key in ["confirm", "approved", "approve", "approval_id", "grant", "token", "yes"] {
        for value in [json!(true), json!("yes")] {
            let (what, _) = desk.refused("home", json!({ key: value })).await;
            assert!(what.starts_with("[invalid_argument]"), "{key}: {what}");
        }
    }
    let asked = desk.ok("home", json!({})).await;
    for again in [json!({ "command_id": asked["approval_id"] }), json!({ "command_id": asked["command_sha256"] })] {
        assert!(desk.refused("home", again).await.0.starts_with("[busy]"));
    }
    assert_eq!(desk.ok("get_job", json!({ "job_id": asked["job_id"] })).await["status"], "waiting_for_person");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_reaches_the_client_with_its_reason_and_a_command_that_is_sent_again_asks_nobody_twice() {
    let desk = desk(asking("")).await;
    let asked = desk.ok("home", json!({ "command_id": "a" })).await;
    let again = desk.ok("home", json!({ "command_id": "a" })).await;
    assert_eq!((&asked["approval_id"], &again["repeated"]), (&again["approval_id"], &json!(true)));
    let (face, id) = (desk.face.clone(), asked["approval_id"].as_str().unwrap().to_owned());
    let denied =
        tokio::task::spawn_blocking(move || face.decide(&id, false, "Ada\u{1b}[2J", Some("lid\n\u{202e}open")));
    assert!(denied.await.unwrap().ok);
    let (what, _) = desk.refused("get_job", json!({ "job_id": asked["job_id"], "wait_s": 10 })).await;
    assert!(what.starts_with("[approval_denied] It was denied by Ada[2J, who says: \"lidopen\""), "{what}");
    assert!(what.contains("Moved: no. Next: don't ask for the same again"), "{what}");
    // The approved or denied id, as a command_id, is nothing but a name.
    let (what, _) = desk.refused("home", json!({ "command_id": "a" })).await;
    assert!(what.starts_with("[approval_denied]") && what.contains("nothing was done again"), "{what}");
    let fresh = desk.ok("home", json!({ "command_id": asked["approval_id"] })).await;
    assert_eq!(fresh["status"], "waiting_for_person", "it asks anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowance_shows_wherever_a_client_looks() {
    let desk = desk(asking("")).await;
    let face = desk.face.clone();
    let given = tokio::task::spawn_blocking(move || {
        let request = |what: &str, axis: &str| steadyhand::tools::AllowRequest {
            bounds: vec![(axis.to_owned(), 0.0, 10.0)],
            stage: None,
            what: vec![what.to_owned()],
            steps: 2,
            seconds: 600.0,
        };
        for (what, axis) in [("everything", "x"), ("move", "scope.w"), ("move", "\u{1b}[31m")] {
            let refused = face.allow(&request(what, axis), "Ada");
            assert!(!refused.ok && !refused.text.contains('\u{1b}'), "{refused:?}");
        }
        face.allow(&request("home", "x"), "Ada")
    });
    let given = given.await.unwrap();
    assert!(given.ok && given.text.contains("home within scope.x 0 to 10 mm, 2 commands"), "{}", given.text);
    for tool in ["get_state", "whoami"] {
        let result = desk.call(tool, json!({})).await;
        assert!(text(&result).contains("ALLOWED BEFOREHAND by Ada: home within scope.x"), "{tool}: {}", text(&result));
        assert_eq!(result.structured_content.unwrap()["allowance"]["steps_left"], 2, "{tool}");
    }
    assert!(desk.face.status().text.contains("ALLOWED BEFOREHAND by Ada"));
    assert_eq!(desk.ok("home", json!({ "wait_s": 30 })).await["status"], "ok", "nobody is asked");
    desk.call("stop", json!({})).await;
    assert!(desk.ok("whoami", json!({})).await.get("allowance").is_none(), "a stop ends it");
    assert!(!desk.face.status().text.contains("ALLOWED"));
}

/// A client whose user answers so.
struct User {
    answer: Option<ElicitResult>,
    can: bool,
    asked: Arc<AtomicUsize>,
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.can.then(ElicitationCapability::default);
        ClientConfig::new(capabilities, Implementation::new("desk", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else { panic!("a form") };
        assert!(message.contains("home scope") && message.contains("[homing of scope]"), "{message}");
        self.asked.fetch_add(1, Ordering::Relaxed);
        match &self.answer {
            Some(answer) => Ok(answer.clone()),
            None => std::future::pending().await,
        }
    }
}

/// Connects such a client as one of standard input and output.
async fn user(
    face: &Face,
    answer: Option<ElicitResult>,
    can: bool,
) -> (RunningService<RoleClient, User>, Arc<AtomicUsize>) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = face.clone();
    tokio::spawn(async move { server.serve(ours).await.unwrap().waiting().await });
    let asked = Arc::new(AtomicUsize::new(0));
    let client = User { answer, can, asked: asked.clone() }.serve(theirs).await.unwrap();
    (client, asked)
}

async fn home(client: &RunningService<RoleClient, User>) -> (bool, String, Value) {
    let request = rmcp::model::CallToolRequestParams::new("home");
    let result = client.call_tool(request).await.unwrap();
    (result.is_error == Some(true), text(&result), result.structured_content.unwrap())
}

fn accept(content: Value) -> Option<ElicitResult> {
    Some(ElicitResult::new(ElicitationAction::Accept).with_content(content))
}

const ELICIT: &str = "\n[approvals]\napprove_by = [\"elicitation\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_user_is_asked_only_where_the_rig_file_says_so_and_the_client_can() {
    let plain = desk(asking("")).await;
    let (client, asked) = user(&plain.face, accept(json!({ "approve": true })), true).await;
    assert_eq!(home(&client).await.2["status"], "waiting_for_person");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "a client's yes is no person's");

    let desk = desk(asking(ELICIT)).await;
    let (client, asked) = user(&desk.face, accept(json!({ "approve": true })), false).await;
    let (_, _, waits) = home(&client).await;
    assert_eq!((&waits["status"], asked.load(Ordering::Relaxed)), (&json!("waiting_for_person"), 0));
    call(&desk.client, "cancel_job", json!({ "job_id": waits["job_id"] })).await;

    let (client, asked) = user(&desk.face, accept(json!({ "approve": true })), true).await;
    let (failed, said, done) = home(&client).await;
    assert!(!failed && done["status"] == "ok", "{said}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let events = desk.ok("list_events", json!({ "kind": "approval_granted" })).await;
    // The audit log of the desk's own lab is in memory.
    assert_eq!(events["total"], 0);
    let log = desk.lab.lock().log.events.lock().clone();
    let granted = log.iter().find(|e| e.kind == "approval_granted").expect("on record");
    assert!(granted.what.starts_with("the user of desk 1 approved: home scope"), "{}", granted.what);
    assert_eq!(granted.facts["way"], "elicitation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_denies_and_what_is_no_answer_leaves_the_decision_to_the_rig() {
    let desk = desk(asking(ELICIT)).await;
    let (client, _) = user(&desk.face, accept(json!({ "approve": false })), true).await;
    assert!(home(&client).await.1.starts_with("[approval_denied] It was denied by the user of desk 1"));
    let (client, _) = user(&desk.face, Some(ElicitResult::new(ElicitationAction::Decline)), true).await;
    assert!(home(&client).await.1.starts_with("[approval_denied]"));
    for nothing in [Some(ElicitResult::new(ElicitationAction::Cancel)), accept(json!({})), accept(json!({ "yes": 1 }))]
    {
        let (client, asked) = user(&desk.face, nothing, true).await;
        let (_, said, waits) = home(&client).await;
        assert_eq!(waits["status"], "waiting_for_person", "{said}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        call(&desk.client, "cancel_job", json!({ "job_id": waits["job_id"] })).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dialog_that_stands_open_holds_up_neither_the_person_at_the_rig_nor_a_stop() {
    let desk = desk(asking(ELICIT)).await;
    let (client, asked) = user(&desk.face, None, true).await;
    let client = Arc::new(client);
    let homing = tokio::spawn({
        let client = client.clone();
        async move { home(&client).await }
    });
    wait_until("the user is asked", || asked.load(Ordering::Relaxed) == 1).await;
    desk.call("stop", json!({})).await;
    let (failed, said, _) = homing.await.unwrap();
    assert!(failed && said.starts_with("[stopped]"), "{said}");
    desk.ok("clear_fault", json!({ "device": "scope" })).await;

    let homing = tokio::spawn({
        let client = client.clone();
        async move { home(&client).await }
    });
    wait_until("the user is asked again", || asked.load(Ordering::Relaxed) == 2).await;
    let face = desk.face.clone();
    let decided = tokio::task::spawn_blocking(move || {
        let id = face.approvals(None).data["approvals"][0]["approval_id"].as_str().unwrap().to_owned();
        face.decide(&id, true, "Ada", None)
    });
    assert!(decided.await.unwrap().ok);
    let (failed, said, _) = tokio::time::timeout(Duration::from_secs(20), homing).await.unwrap().unwrap();
    assert!(!failed, "{said}");
}
