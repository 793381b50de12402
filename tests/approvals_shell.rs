//! A person decides from a shell what a client asked for: whole binaries on a real pseudo-terminal, in real time.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "other processes move in real time here")]

mod process;

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use process::{Server, bench, serve, steadyhand};
use serde_json::{Value, json};

fn shell(folder: &Path, words: &[&str]) -> (bool, String) {
    let Output { status, stdout, stderr } =
        steadyhand(folder).args(words).env("USER", "ada").stdin(Stdio::null()).output().expect("run");
    (status.success(), String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr))
}

/// The bench's rig, whose homing a person approves.
fn asking(folder: &Path) -> hw_sim::serve::Running {
    let running = bench(folder);
    let file = folder.join("rig.toml");
    let rig = fs::read_to_string(&file).expect("the rig");
    fs::write(&file, rig.replace("timeout_s = 60 }", "timeout_s = 60, ask = \"operator\" }")).expect("written");
    running
}

/// Asks to home as soon as the stage is there; gives back what waits.
fn begin_home(server: &mut Server) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = server.call("home", json!({"stage": "scope"}));
        if answer["isError"] != true {
            assert_eq!(answer["structuredContent"]["status"], "waiting_for_person", "{answer}");
            return answer["structuredContent"].clone();
        }
        assert!(Instant::now() < until, "{answer}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_person_sees_what_waits_and_decides_and_what_comes_from_a_pipe_decides_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = asking(folder.path());
    let _owner = serve(folder.path());
    // The client of a second process; what it calls itself could rewrite a screen.
    let mut relay = Server::silent(steadyhand(folder.path()).args(["--data-dir", "data"]), folder.path());
    relay.send(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "good\u{1b}[2K\u{1b}[1A\u{202e}dab\u{2066}\napproved", "version": "1"}}}));
    relay.next();
    relay.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));

    assert_eq!(shell(folder.path(), &["approve"]), (true, "Nothing waits for an approval.\n".into()));
    let asked = begin_home(&mut relay);
    let id = asked["approval_id"].as_str().expect("an id");
    for words in [&["approve"][..], &["status"], &["jobs"]] {
        let (well, text) = shell(folder.path(), words);
        assert!(well && text.contains(id) && text.contains("home scope, axes z, x, y"), "{text}");
        let obeyed = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{2066}'));
        assert!(!text.chars().any(obeyed), "{text:?}");
    }
    let (well, text) = shell(folder.path(), &["approve", id]);
    assert!(!well && text.contains("[homing of scope]") && text.contains("nothing was approved"), "{text}");
    let (well, text) = shell(folder.path(), &["approve", "zzzzzz", "--yes"]);
    assert!(!well && text.contains("[not_found]") && text.contains(id), "{text}");
    let waits = relay.call("get_job", json!({"job_id": asked["job_id"]}));
    assert_eq!(waits["structuredContent"]["status"], "waiting_for_person");
    let (well, text) = shell(folder.path(), &["confirm"]);
    assert!(!well && text.contains("`steadyhand approve`"), "{text}");

    let (well, text) = shell(folder.path(), &["approve", id, "--yes"]);
    assert!(well && text.contains("Approved: home scope"), "{text}");
    let done = relay.call("get_job", json!({"job_id": asked["job_id"], "wait_s": 60}));
    assert_eq!(done["structuredContent"]["status"], "ok", "{done}");
    let events = relay.call("list_events", json!({"kind": "approval_granted"}));
    let granted = &events["structuredContent"]["events"][0];
    assert!(granted["what"].as_str().expect("words").starts_with("ada approved: home scope"), "{granted}");
    assert_eq!((&granted["command_sha256"], &granted["approval"]), (&asked["command_sha256"], &json!(id)));

    let asked = begin_home(&mut relay);
    let id = asked["approval_id"].as_str().expect("an id");
    let (well, text) = shell(folder.path(), &["approve", id, "--deny", "--reason", "lunch"]);
    assert!(well && text.contains("Denied: home scope"), "{text}");
    let ended = relay.call("get_job", json!({"job_id": asked["job_id"], "wait_s": 20}));
    let what = ended["content"][0]["text"].as_str().expect("text");
    assert!(what.starts_with("[approval_denied]") && what.contains("ada, who says: \"lunch\""), "{what}");
}

#[test]
fn a_relays_client_is_asked_through_the_owner_and_its_answer_comes_back() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = asking(folder.path());
    let file = folder.path().join("rig.toml");
    let rig = fs::read_to_string(&file).expect("the rig");
    fs::write(&file, rig + "\n[approvals]\napprove_by = [\"elicitation\"]\n").expect("written");
    let mut owner = serve(folder.path());
    let mut relay = serve(folder.path());
    // The stage is there once something else than its connection is in the way.
    let until = Instant::now() + Duration::from_secs(30);
    while owner.call("get_state", json!({}))["structuredContent"]["stages"][0]["activity"] != "idle" {
        assert!(Instant::now() < until, "it never came");
        std::thread::sleep(Duration::from_millis(200));
    }
    relay.ask("home", json!({"stage": "scope"}));
    let question = loop {
        let message = relay.next();
        if message["method"] == "elicitation/create" {
            break message;
        }
        assert!(message.get("id").is_none(), "{message}");
    };
    let params = &question["params"];
    assert!(params["message"].as_str().expect("words").contains("home scope, axes z, x, y"), "{params}");
    assert_eq!(params["requestedSchema"]["required"], json!(["approve"]), "{params}");
    // What another client answers under the same number is no answer.
    owner.send(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"approve": true}}}),
    );
    assert_eq!(owner.call("get_state", json!({}))["structuredContent"]["stages"][0]["activity"], "idle");
    relay.send(
        &json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"approve": true}}}),
    );
    let done = relay.next();
    assert_eq!(done["result"]["structuredContent"]["status"], "ok", "{done}");
}

/// A call in the protocol of 2026-07-28, which has no handshake; `more` are further parameters.
fn modern(server: &mut Server, tool: &str, more: Value) -> Value {
    server.calls += 1;
    let mut params = json!({"name": tool, "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"}}});
    params.as_object_mut().expect("parameters").extend(more.as_object().expect("more").clone());
    server.send(&json!({"jsonrpc": "2.0", "id": server.calls, "method": "tools/call", "params": params}));
    loop {
        let answer = server.next();
        if answer["id"] == server.calls {
            return answer["result"].clone();
        }
    }
}

#[test]
fn a_client_without_handshakes_is_asked_in_the_answer_and_calls_again_with_the_reply() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = asking(folder.path());
    let file = folder.path().join("rig.toml");
    let rig = fs::read_to_string(&file).expect("the rig");
    fs::write(&file, rig + "\n[approvals]\napprove_by = [\"elicitation\"]\n").expect("written");
    let mut server = Server::silent(steadyhand(folder.path()).args(["--data-dir", "data"]), folder.path());
    let mut other = Server::silent(steadyhand(folder.path()).args(["--data-dir", "data"]), folder.path());
    let until = Instant::now() + Duration::from_secs(30);
    while modern(&mut server, "get_state", json!({}))["structuredContent"]["stages"][0]["activity"] != "idle" {
        assert!(Instant::now() < until, "it never came");
        std::thread::sleep(Duration::from_millis(200));
    }
    let yes = json!({"approve": {"action": "accept", "content": {"approve": true}}});
    let reply = |state: &Value, replies: &Value| json!({"requestState": state, "inputResponses": replies});
    let asked = modern(&mut server, "home", json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = &asked["inputRequests"]["approve"];
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().expect("words").contains("home scope"), "{question}");
    // Another session's reply, one to no question, and one under another tool begin nothing.
    let before = process::x(&bench);
    for (own, tool, state) in [
        (false, "home", asked["requestState"].clone()),
        (true, "home", json!("job-99 abcdef")),
        (true, "home", json!("")),
        (true, "go_back", asked["requestState"].clone()),
    ] {
        let session = if own { &mut server } else { &mut other };
        let refused = modern(session, tool, reply(&state, &yes));
        let what = refused["content"][0]["text"].as_str().expect("text");
        assert!(what.starts_with("[invalid_argument] This reply belongs to no question"), "{what}");
    }
    // No answer is none: it waits for somebody at the rig, and the client is not asked again and again.
    let closed = json!({"approve": {"action": "cancel"}});
    let waits = modern(&mut server, "home", reply(&asked["requestState"], &closed));
    assert_eq!(waits["structuredContent"]["status"], "waiting_for_person", "{waits}");
    assert_eq!(process::x(&bench), before, "nothing has moved");
    let done = modern(&mut server, "home", reply(&asked["requestState"], &yes));
    assert_eq!(done["structuredContent"]["status"], "ok", "{done}");
    // The same reply again tells the same outcome; nothing is homed twice.
    let again = modern(&mut server, "home", reply(&asked["requestState"], &yes));
    assert_eq!(again["structuredContent"]["state_epoch"], done["structuredContent"]["state_epoch"], "{again}");
}

#[test]
fn a_question_and_an_allowance_end_with_the_program_however_it_ends() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = asking(folder.path());
    let mut owner = serve(folder.path());
    let asked = begin_home(&mut owner);
    let id = asked["approval_id"].as_str().expect("an id");
    let home = ["allow", "--stage", "scope", "--what", "home,shot", "--steps", "3", "--for", "30min"];
    let (well, text) = shell(folder.path(), &home);
    assert!(well && text.contains("home, shot of scope, 3 commands, for 30 min"), "{text}");
    // It answers what waits already.
    let done = owner.call("get_job", json!({"job_id": asked["job_id"], "wait_s": 60}));
    assert_eq!(done["structuredContent"]["status"], "ok", "{done}");
    let (_, text) = shell(folder.path(), &["status"]);
    assert!(text.contains("ALLOWED BEFOREHAND by ada: home, shot of scope, 2 commands"), "{text}");
    let (well, text) = shell(folder.path(), &["allow", "--end"]);
    assert!(well && text.contains("Ended: home, shot of scope"), "{text}");
    assert!(shell(folder.path(), &home).0);

    owner.child.kill().expect("killed");
    owner.child.wait().expect("ended");
    drop(owner);
    let mut owner = serve(folder.path());
    let again = begin_home(&mut owner);
    assert_ne!(again["approval_id"], id, "nothing is allowed any more, and no name comes again");
    let (well, text) = shell(folder.path(), &["approve", id, "--yes"]);
    assert!(!well && text.contains("[not_found]"), "{text}");
    let (_, text) = shell(folder.path(), &["status"]);
    assert!(!text.contains("ALLOWED BEFOREHAND") && text.contains("WAITS FOR A PERSON to approve"), "{text}");
}

#[test]
fn what_is_allowed_has_a_box_a_count_and_a_time() {
    let folder = tempfile::tempdir().expect("folder");
    for words in [
        &["allow"][..],
        &["allow", "--box", "x=0..1", "--steps", "3"],
        &["allow", "--box", "x=0..1", "--for", "3h"],
        &["allow", "--box", "x=0", "--steps", "3", "--for", "3h"],
        &["allow", "--end", "--steps", "3"],
        &["approve", "--yes"],
        &["approve", "abc", "--yes", "--deny"],
        &["approve", "abc", "--reason", "because"],
    ] {
        let status = steadyhand(folder.path()).args(words).stdin(Stdio::null()).output().expect("run").status;
        assert_eq!(status.code(), Some(2), "{words:?}");
    }
}
