//! One owner for one rig: what a second process, a shell and a crash meet. Whole binaries on a real pseudo-terminal,
//! in real time.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "other processes move in real time here")]

mod desk;
mod process;
mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use process::{Server, assert_stands, begin_move, bench, home, serve, signal, steadyhand, write_unplugged_rig, x};
use rustix::process::Signal;
use serde_json::{Value, json};
use steadyhand::gateway::local::{self, Place, Request};

/// A command of a person in the folder.
fn shell(folder: &Path, words: &[&str]) -> Output {
    steadyhand(folder).args(words).stdin(Stdio::null()).output().expect("run")
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn facts(answer: &Value) -> &Value {
    &answer["structuredContent"]
}

/// Waits for what the server says, up to the answer of that id.
fn answer_of(server: &Server, id: u64) -> Value {
    loop {
        let line = server.lines.recv_timeout(Duration::from_secs(30)).expect("an answer in time");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        if message["id"] == id {
            return message["result"].clone();
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The file of that kind in the folder of locks and sockets.
fn run_file(folder: &Path, kind: &str) -> PathBuf {
    let found = fs::read_dir(folder.join("run")).expect("folder").flatten().map(|e| e.path());
    found.into_iter().find(|p| p.extension().is_some_and(|e| e == kind)).expect("a file")
}

fn two(folder: &Path) -> (Server, Server) {
    let owner = serve(folder);
    let relay = serve(folder);
    (owner, relay)
}

#[test]
fn a_second_process_passes_its_client_on_and_opens_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let (mut owner, mut relay) = two(folder.path());
    home(&mut relay);
    let (ours, theirs) = (owner.call("whoami", json!({})), relay.call("whoami", json!({})));
    assert_eq!((&facts(&ours)["role"], &facts(&theirs)["role"]), (&json!("owner"), &json!("relay")));
    assert_eq!((&facts(&ours)["caller"], &facts(&theirs)["caller"]), (&json!("stdio"), &json!("relay-1")));
    for answer in [&ours, &theirs] {
        assert_eq!(facts(answer)["owner_pid"], owner.child.id());
        assert_eq!(facts(answer)["clients"], 2);
        assert_eq!(facts(answer)["tools"], facts(&ours)["tools"], "the same tools");
    }
    let seen = owner.call("get_state", json!({}));
    assert_eq!(facts(&seen)["stages"][0]["axes"], facts(&relay.call("get_state", json!({})))["stages"][0]["axes"]);
    let port = fs::canonicalize(bench.paths()[0].1.as_str()).expect("the port");
    let open = |pid: u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors").flatten();
        files.filter(|f| fs::read_link(f.path()).is_ok_and(|to| to == port)).count()
    };
    if cfg!(target_os = "linux") {
        assert!(open(owner.child.id()) > 0, "the owner has the port");
        assert_eq!(open(relay.child.id()), 0, "the relay has not");
    }
    drop(relay.input.take());
    assert_eq!(relay.end(Duration::from_secs(5)).1, Some(0));
    until("the relay's seat is free", || facts(&owner.call("whoami", json!({})))["clients"] == 1);
}

#[test]
fn doctor_leaves_a_served_rig_to_its_server_and_its_lamp_stays_lit() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let mut server = serve(folder.path());
    // A second connection to the box would take the server's own, and its lamp would go safe.
    until("the lamp is lit", || server.call("set_output", json!({"output": "lamp", "percent": 30}))["isError"] != true);
    let told = shell(folder.path(), &["doctor", "--rig", "rig.toml"]);
    let said = words(&told);
    assert_eq!(told.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("process {}", server.child.id())), "{said}");
    assert!(said.contains("steadyhand call diagnose") && said.contains("server:"), "{said}");
    let json: Value = serde_json::from_slice(&shell(folder.path(), &["doctor", "--json"]).stdout).expect("JSON");
    assert_eq!(json["well"], false, "{json:#}");
    let seen = server.call("get_state", json!({}));
    let lamp = facts(&seen)["outputs"].as_array().expect("outputs").iter().find(|o| o["output"] == "lamp");
    assert_eq!(lamp.expect("the lamp")["percent"], 30.0, "{seen:#}");
    let diagnosed = server.call("diagnose", json!({})).to_string();
    assert!(diagnosed.contains("\"reconnects\":0") && !diagnosed.contains("\"reconnects\":1"), "{diagnosed}");
}

#[test]
fn of_two_that_start_at_once_one_owns_and_one_relays() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    for round in 0..4 {
        let roles: Vec<Value> = std::thread::scope(|scope| {
            let start = || {
                let mut server = serve(folder.path());
                let role = facts(&server.call("whoami", json!({})))["role"].clone();
                (server, role)
            };
            let both = [scope.spawn(start), scope.spawn(start)];
            let both = both.map(|s| s.join().expect("started"));
            both.iter().map(|(_, role)| role.clone()).collect()
        });
        let mut roles: Vec<&str> = roles.iter().filter_map(Value::as_str).collect();
        roles.sort_unstable();
        assert_eq!(roles, ["owner", "relay"], "round {round}");
    }
}

#[test]
fn an_owner_that_is_killed_leaves_no_lock_and_its_relay_answers_takes_over_and_serves_on() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let (mut owner, mut relay) = two(folder.path());
    home(&mut relay);
    begin_move(&bench, &mut relay);
    let moving = relay.calls;
    relay.send(&json!({"jsonrpc": "2.0", "id": "note", "method": "resources/list"}));
    assert!(relay.next()["error"].is_object(), "other methods come through too");
    signal(Signal::KILL, &owner.child);
    owner.child.wait().expect("dead");

    let lost = answer_of(&relay, moving);
    assert_eq!((&lost["isError"], &facts(&lost)["moved"]), (&json!(true), &json!("unknown")), "{lost}");
    let text = lost["content"][0]["text"].as_str().expect("text");
    assert!(text.starts_with("[not_connected] ") && text.contains("Moved: unknown. Next: call get_state"), "{text}");

    let changed = relay.next();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    let who = relay.call("whoami", json!({}));
    assert_eq!((&facts(&who)["role"], &facts(&who)["owner_pid"]), (&json!("owner"), &json!(relay.child.id())), "{who}");
    let stood = x(&bench);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(x(&bench), stood, "it took over while the axis moved");
    assert!(stood > 15.0, "what the dead owner left moving was stopped, and did not run on to {stood} mm");
    let state = relay.call("get_state", json!({}));
    assert_eq!(facts(&state)["stages"][0]["axes"]["x"]["trust"], "unknown", "{state}");
    // What was stopped stays so until it is released, and in words.
    assert_eq!(facts(&state)["stages"][0]["stopped_by"], "program", "{state}");
    assert!(
        state.to_string().contains("scope was stopped (") && state.to_string().contains("was under way"),
        "{state}"
    );
    relay.call("clear_fault", json!({"device": "scope"}));
    home(&mut relay);
    let mut third = serve(folder.path());
    assert_eq!(facts(&third.call("whoami", json!({})))["owner_pid"], relay.child.id(), "others find the new owner");
}

#[test]
fn a_takeover_of_a_rig_at_rest_latches_nothing_and_says_who_owns_it_now() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    for killed in [true, false] {
        let (mut owner, mut relay) = two(folder.path());
        home(&mut relay);
        let moved = relay.call("move_to", json!({"stage": "scope", "targets": {"x": 20.0}, "unit": "mm"}));
        assert_eq!(facts(&moved)["moved"], "yes", "{moved}");
        let was = owner.child.id();
        if killed {
            std::thread::sleep(Duration::from_millis(600));
            signal(Signal::KILL, &owner.child);
        } else {
            signal(Signal::TERM, &owner.child);
        }
        owner.child.wait().expect("dead");
        until("the relay owns the rig", || facts(&relay.call("whoami", json!({})))["role"] == "owner");
        let who = relay.call("whoami", json!({})).to_string();
        let told = format!("Process {was}, which owned the rig, ended, and process {} took over", relay.child.id());
        assert!(who.contains(&told) && who.contains("nothing was moving"), "{who}");
        let state = relay.call("get_state", json!({}));
        let stage = &facts(&state)["stages"][0];
        assert!(stage.get("stopped_by").is_none(), "{state}");
        assert_eq!(stage["axes"]["x"]["trust"], "restored", "{state}");
        assert!(relay.call("list_events", json!({"kind": "takeover"})).to_string().contains(&told));
    }
}

#[test]
fn diagnose_keeps_the_last_failure_with_what_to_look_at() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    bench.with_bench(|b| b.fault("scope", hw_sim::Fault::Jam { axis: "x".into() })).expect("a jam");
    let failed = server.call("home", json!({"stage": "scope", "wait_s": 120}));
    assert_eq!(facts(&failed)["code"], "homing_failed", "{failed}");
    let told = server.call("diagnose", json!({}))["content"][0]["text"].as_str().expect("text").to_owned();
    assert!(told.contains("Last failure, at ") && told.contains("[homing_failed]"), "{told}");
    assert!(
        told.contains("look at the axis, its home switch") && !told.contains("1.1h.20190830. It is ready"),
        "{told}"
    );
}

#[test]
fn a_rig_that_is_another_one_is_not_taken_over() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let (mut owner, mut relay) = two(folder.path());
    home(&mut owner);
    let about = run_file(folder.path(), "json");
    until("the identity is written down", || fs::read_to_string(&about).is_ok_and(|t| t.contains("Grbl")));
    let text = fs::read_to_string(&about).expect("read");
    signal(Signal::STOP, &owner.child);
    fs::write(&about, text.replace("Grbl", "Another")).expect("written");
    signal(Signal::KILL, &owner.child);
    // A call that is under way as the owner dies is answered as lost; the next ones say why.
    until("the relay says why", || {
        let answer = relay.call("get_state", json!({}));
        let text = answer["content"][0]["text"].as_str().expect("text");
        assert_eq!(answer["isError"], true, "{text}");
        text.contains("scope was Another") && text.contains("and is Grbl")
    });
    let ended = shell(folder.path(), &["stop"]);
    assert_eq!(ended.status.code(), Some(1), "nobody owns it: {}", words(&ended));
}

#[test]
fn a_rig_file_that_was_changed_takes_effect_by_a_person_and_not_by_a_takeover() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let (mut owner, mut relay) = two(folder.path());
    home(&mut relay);
    let file = folder.path().join("rig.toml");
    let text = fs::read_to_string(&file).expect("the rig file");
    let wider = text.replacen("travel = [0.0, 75.0]", "travel = [0.0, 76.0]", 1);
    assert_ne!(wider, text);
    fs::write(&file, &wider).expect("written");
    begin_move(&bench, &mut relay);
    signal(Signal::KILL, &owner.child);
    owner.child.wait().expect("dead");
    until("the relay says why", || {
        let answer = relay.call("get_state", json!({}));
        let text = answer["content"][0]["text"].as_str().expect("text");
        assert_eq!(answer["isError"], true, "{text}");
        text.contains("rig.toml has been changed since that process read it") && text.contains("start the server again")
    });
    assert_stands(&bench);
    let mut anew = serve(folder.path());
    assert_eq!(facts(&anew.call("whoami", json!({})))["role"], "owner", "a person has started it");
}

#[test]
fn a_copy_of_the_rig_file_does_not_get_a_device_on_the_network_that_the_other_has() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let copy = folder.path().join("copy.toml");
    fs::copy(folder.path().join("rig.toml"), &copy).expect("a copy");
    let mut first = serve(folder.path());
    until("the camera is there", || first.call("acquire_image", json!({}))["isError"] != true);
    let mut other = Server::start(
        steadyhand(folder.path()).args(["--rig", "copy.toml", "--data-dir", "data-of-the-copy"]),
        folder.path(),
    );
    let in_use = format!("is in use by process {}", first.child.id());
    until("the copy says who has it", || other.call("diagnose", json!({})).to_string().matches(&in_use).count() >= 2);
    let told = words(&shell(folder.path(), &["doctor", "--rig", "copy.toml"]));
    assert!(told.contains("copy.toml") || told.contains(&in_use), "{told}");
    assert_ne!(first.call("acquire_image", json!({}))["isError"], true, "it was not disturbed");
    drop(first);
    until("it is free", || other.call("acquire_image", json!({}))["isError"] != true);
}

#[test]
fn an_owner_whose_client_has_gone_serves_on_while_a_relay_remains() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let (mut owner, mut relay) = two(folder.path());
    home(&mut relay);
    begin_move(&bench, &mut relay);
    let moving = relay.calls;
    drop(owner.input.take());
    let moved = answer_of(&relay, moving);
    assert_eq!(facts(&moved)["moved"], "yes", "a colleague's move goes on: {moved}");
    assert!(owner.child.try_wait().expect("status").is_none(), "it serves on");
    assert_eq!(facts(&relay.call("whoami", json!({})))["clients"], 1);
    drop(relay.input.take());
    assert_eq!(relay.end(Duration::from_secs(5)).1, Some(0));
    assert_eq!(owner.end(Duration::from_secs(8)).1, Some(0));
    assert!(!run_file(folder.path(), "lock").with_extension("control").exists(), "the sockets are gone");
}

#[test]
fn an_owners_client_that_goes_in_mid_move_stops_its_own_motion_alone() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let (mut owner, mut relay) = two(folder.path());
    home(&mut owner);
    begin_move(&bench, &mut owner);
    drop(owner.input.take());
    until("it stands", || facts(&relay.call("get_state", json!({})))["stages"][0]["activity"] == "idle");
    assert_stands(&bench);
    let state = relay.call("get_state", json!({}));
    assert!(facts(&state)["stages"][0].get("stopped_by").is_none(), "nothing is latched for the others: {state}");
}

#[test]
fn a_relay_whose_client_goes_or_that_is_killed_stops_what_it_began_and_the_owner_goes_on() {
    for kill in [false, true] {
        let folder = tempfile::tempdir().expect("folder");
        let bench = bench(folder.path());
        let (mut owner, mut relay) = two(folder.path());
        home(&mut relay);
        begin_move(&bench, &mut relay);
        if kill {
            signal(Signal::KILL, &relay.child);
        } else {
            let moving = relay.calls;
            drop(relay.input.take());
            let result = answer_of(&relay, moving);
            assert!(facts(&result)["moved"] == "yes" || facts(&result)["moved"] == "unknown", "{result}");
        }
        until("it stands", || facts(&owner.call("get_state", json!({})))["stages"][0]["activity"] == "idle");
        assert_stands(&bench);
        assert_eq!(facts(&owner.call("whoami", json!({})))["clients"], 1);
    }
}

#[test]
fn a_person_stops_a_move_from_any_shell_and_sees_how_everything_stands() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut owner = serve(folder.path());
    home(&mut owner);
    begin_move(&bench, &mut owner);
    let begun = Instant::now();
    let stopped = shell(folder.path(), &["stop"]);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(stopped.status.code(), Some(0), "{}", words(&stopped));
    assert!(words(&stopped).contains("Stopped scope. Standstill is confirmed"), "{}", words(&stopped));
    assert_stands(&bench);
    let moved = answer_of(&owner, owner.calls);
    assert_eq!((&facts(&moved)["code"], &facts(&moved)["moved"]), (&json!("stopped"), &json!("yes")), "{moved}");
    let cleared = owner.call("clear_fault", json!({"device": "scope"}));
    assert_eq!(cleared["isError"], true, "a person's stop is not a model's to release");

    let released = shell(folder.path(), &["resume"]);
    assert!(released.status.success() && words(&released).contains("Released scope"), "{}", words(&released));
    assert_ne!(owner.call("get_state", json!({}))["structuredContent"]["stages"][0]["stopped_by"], "person");
    assert!(words(&shell(folder.path(), &["stop"])).contains("steadyhand resume"), "it says who releases it");

    let status = shell(folder.path(), &["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status[0]["owner_pid"], owner.child.id());
    assert_eq!(status[0]["stages"][0]["stopped_by"], "person");
    assert_eq!(status[0]["clients"][0]["client"], "test 1");
    let code = facts(&cleared)["code"].as_str().expect("a code");
    assert_eq!(status[0]["errors"]["clear_fault"][code], 1, "{status:#}");
    let status = words(&shell(folder.path(), &["status"]));
    assert!(status.contains("stopped by a person") && status.contains("clear_fault: "), "{status}");
    let jobs = words(&shell(folder.path(), &["jobs"]));
    assert!(jobs.contains("job-") && jobs.contains("[stopped]"), "{jobs}");
}

#[test]
fn without_a_server_every_command_says_so_and_fails() {
    let folder = tempfile::tempdir().expect("folder");
    for command in [&["stop"][..], &["status"], &["jobs"], &["call", "get_state"]] {
        let ended = shell(folder.path(), command);
        assert_eq!(ended.status.code(), Some(1), "{command:?}");
        assert!(words(&ended).contains("no steadyhand server is running"), "{command:?}: {}", words(&ended));
    }
    assert!(words(&shell(folder.path(), &["stop"])).contains("emergency stop"));
    let url = shell(folder.path(), &["stop", "--url", "http://127.0.0.1:9"]);
    assert!(url.status.code() == Some(1) && words(&url).contains("THE STOP DID NOT REACH"), "{}", words(&url));
}

#[test]
fn any_tool_can_be_called_from_a_shell_under_the_servers_policy() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let mut command = steadyhand(folder.path());
    let mut server = Server::start(command.args(["--data-dir", "data", "--read-only"]), folder.path());
    let state = shell(folder.path(), &["call", "get_state"]);
    assert_eq!(state.status.code(), Some(0), "{}", words(&state));
    assert!(words(&state).contains("scope is "));
    let who = shell(folder.path(), &["call", "whoami", "{}", "--json"]);
    let who: Value = serde_json::from_slice(&who.stdout).expect("JSON");
    assert_eq!(
        (&who["way"], &who["client"], &who["clients"]),
        (&json!("cli"), &json!(concat!("steadyhand ", env!("CARGO_PKG_VERSION"))), &json!(1))
    );
    let refused = shell(folder.path(), &["call", "home", r#"{"stage":"scope"}"#]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(words(&refused).contains("[not_permitted]"), "{}", words(&refused));
    for (arguments, part) in [("[]", "a JSON object"), ("{", "not JSON")] {
        let wrong = shell(folder.path(), &["call", "get_state", arguments]);
        assert!(wrong.status.code() == Some(1) && words(&wrong).contains(part), "{}", words(&wrong));
    }
    assert!(words(&shell(folder.path(), &["call", "fly"])).contains("unknown tool"));
    let list = words(&shell(folder.path(), &["call"]));
    assert!(list.contains("get_state") && !list.contains("move_to"), "only what the policy grants: {list}");
    assert!(server.call("get_state", json!({}))["content"].is_array());
}

#[test]
fn a_call_that_is_broken_off_takes_its_motion_with_it_and_a_job_outlives_its_command() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut owner = serve(folder.path());
    home(&mut owner);
    let to = |x: f64, wait: u32| format!(r#"{{"stage":"scope","targets":{{"x":{x}}},"unit":"mm","wait_s":{wait}}}"#);
    let start = x(&bench);
    let arguments = to(5.0, 60);
    let mut child = steadyhand(folder.path())
        .args(["call", "move_to", &arguments])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("run");
    until("it moves", || x(&bench) < start - 3.0);
    child.kill().expect("killed");
    child.wait().expect("ended");
    until("it stands", || facts(&owner.call("get_state", json!({})))["stages"][0]["activity"] == "idle");
    assert_stands(&bench);
    let begun = shell(folder.path(), &["call", "move_to", &to(x(&bench) - 2.0, 0)]);
    assert_eq!(begun.status.code(), Some(0), "{}", words(&begun));
    let jobs = || words(&shell(folder.path(), &["jobs"]));
    until("the job ends well by itself", || jobs().lines().next().is_some_and(|l| l.contains("ended well")));
}

#[test]
fn an_owner_that_hangs_is_left_its_port_and_the_second_process_says_why() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let mut owner = serve(folder.path());
    signal(Signal::STOP, &owner.child);
    let mut second = serve(folder.path());
    let answer = second.call("get_state", json!({}));
    let text = answer["content"][0]["text"].as_str().expect("text").to_owned();
    let named = format!("belongs to process {}", owner.child.id());
    assert!(answer["isError"] == true && text.contains(&named) && text.contains("can't be reached"), "{text}");
    signal(Signal::CONT, &owner.child);
    until("the owner is found again", || facts(&second.call("get_state", json!({})))["stages"].is_array());
    assert_eq!(facts(&second.call("whoami", json!({})))["owner_pid"], owner.child.id());
    assert_eq!(facts(&owner.call("whoami", json!({})))["clients"], 2);
}

#[test]
fn a_flood_of_silent_connections_and_garbage_keep_no_stop_out() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let _server = serve(folder.path());
    let socket = run_file(folder.path(), "lock").with_extension("control");
    let silent: Vec<UnixStream> = (0..200).map(|_| UnixStream::connect(&socket).expect("connected")).collect();
    let begun = Instant::now();
    let stopped = shell(folder.path(), &["stop"]);
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert!(words(&stopped).contains("NO CONNECTION to scope"), "it was asked: {}", words(&stopped));
    assert_eq!(stopped.status.code(), Some(3), "nothing is connected, so that nothing is confirmed");
    drop(silent);
    let mut answers = Vec::new();
    for garbage in [&b"\xff\xfe\n"[..], b"{\"want\":\"fly\"}\n", b"GET / HTTP/1.1\r\n\r\n", &[b'x'; 40_000]] {
        let mut stream = UnixStream::connect(&socket).expect("connected");
        // The other end may have closed before all of it was taken.
        let _ = stream.write_all(garbage);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answers.push(answer);
    }
    assert!(answers[..3].iter().all(|a| a.contains("[invalid_argument]")), "{answers:?}");
    assert!(shell(folder.path(), &["status"]).status.success(), "it still answers");
}

#[test]
fn a_person_lends_a_port_takes_it_back_and_declares_a_position() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let mut owner = serve(folder.path());
    home(&mut owner);
    let lent = shell(folder.path(), &["release", "scope"]);
    assert!(lent.status.success() && words(&lent).contains("Lent: scope"), "{}", words(&lent));
    assert_eq!(facts(&owner.call("get_state", json!({})))["stages"][0]["activity"], "released");
    let back = shell(folder.path(), &["reclaim", "scope"]);
    assert!(back.status.success(), "{}", words(&back));
    until("it is there", || facts(&owner.call("get_state", json!({})))["stages"][0]["activity"] == "idle");
    let declared = shell(folder.path(), &["reference", "x", "12.5"]);
    assert!(
        declared.status.success() && words(&declared).contains("scope.x stands at 12.5 mm"),
        "{}",
        words(&declared)
    );
    let state = owner.call("get_state", json!({}));
    let x = &facts(&state)["stages"][0]["axes"]["x"];
    assert_eq!((&x["position"], &x["trust"]), (&json!(12.5), &json!("assumed")), "{state}");
    for (words_of, part) in [
        (&["reference", "q", "1"][..], "This rig has no scope.q"),
        (&["reference", "x", "1", "--unit", "deg"], "no unit of scope.x"),
        (&["release", "nothing"], "nothing"),
    ] {
        let refused = shell(folder.path(), words_of);
        assert!(refused.status.code() == Some(1) && words(&refused).contains(part), "{}", words(&refused));
    }
}

#[test]
fn a_job_that_may_outlive_its_client_keeps_the_owner_until_it_ends() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let file = folder.path().join("rig.toml");
    let rig = fs::read_to_string(&file).expect("read");
    assert!(!rig.contains("[calls]"));
    fs::write(&file, rig + "\n[calls]\non_client_lost = \"continue\"\n").expect("written");
    let mut owner = serve(folder.path());
    home(&mut owner);
    let to = x(&bench) - 12.0;
    let begun = owner.call("move_to", json!({"stage": "scope", "targets": {"x": to}, "unit": "mm", "wait_s": 0}));
    assert_eq!(facts(&begun)["status"], "running", "{begun}");
    // What the rig thread has not begun yet would go with the client.
    until("it moves", || x(&bench) < to + 11.5);
    drop(owner.input.take());
    until("the job is alone", || words(&shell(folder.path(), &["status"])).contains("no client"));
    assert!(owner.child.try_wait().expect("status").is_none(), "it serves on, without a client");
    assert_eq!(owner.end(Duration::from_secs(20)).1, Some(0));
    let log = fs::read_to_string(folder.path().join("stderr.txt")).expect("the log");
    assert!((x(&bench) - to).abs() < 0.01, "the job went on to its end: {}\n{log}", x(&bench));
}

/// The runtime of the protocol's side hangs as a whole; the stop goes through all the same.
#[test]
fn a_stop_reaches_the_rig_while_nothing_else_answers() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("rig.toml"), "").expect("written");
    let place = Place::of_rig_in(folder.path(), &folder.path().join("rig.toml")).expect("a place");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("runtime");
    let desk = runtime.block_on(desk::Desk::new(desk::homed()));
    let ownership = place.try_own().expect("a lock").expect("nobody has it");
    local::listen(&ownership, desk.face.clone()).expect("listening");
    runtime.block_on(desk.ok("move_to", json!({"stage": "scope", "targets": {"x": 5.0}, "unit": "mm", "wait_s": 0})));
    runtime.block_on(desk::wait_until("it moves", || desk.handle.snapshot().stages[0].activity.is_motion()));
    let (held, release) = std::sync::mpsc::sync_channel::<()>(1);
    let held = std::sync::Mutex::new(held);
    let blocked = std::sync::Arc::new(std::sync::Barrier::new(2));
    runtime.spawn({
        let blocked = blocked.clone();
        async move {
            blocked.wait();
            // The only worker is gone now.
            let _ = release.recv();
        }
    });
    blocked.wait();
    let begun = Instant::now();
    let stop = Request::Stop { stage: None, for_client: false, at_once: false };
    let said = local::ask(&place, &stop, Duration::from_secs(5)).expect("an answer");
    assert!(said.ok && said.text.starts_with("Stopped scope. Standstill is confirmed"), "{}", said.text);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let state = local::ask(&place, &Request::Status, Duration::from_secs(2)).expect("an answer");
    assert_eq!(state.data["stages"][0]["stopped_by"], "person");
    held.lock().expect("unpoisoned").send(()).expect("released");
}

/// A turret that a person turns.
const TURRET: &str = r#"
[[output]]
id = "turret"
driver = "manual"
kind = "wheel"
positions = ["10x", "40x"]
on_stop = "keep"
"#;

#[test]
fn what_a_person_does_by_hand_is_confirmed_from_a_shell() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let rig = fs::read_to_string(folder.path().join("rig.toml")).expect("the rig") + TURRET;
    fs::write(folder.path().join("rig.toml"), rig).expect("written");
    let mut server = serve(folder.path());
    let none = shell(folder.path(), &["confirm"]);
    assert!(!none.status.success() && words(&none).contains("No job waits for a person"), "{}", words(&none));

    let asked = server.call("set_output", json!({"output": "turret", "position": "40x"}));
    assert_eq!(facts(&asked)["status"], "waiting_for_person", "{asked}");
    let job = facts(&asked)["job_id"].clone();
    let jobs = words(&shell(folder.path(), &["jobs"]));
    assert!(jobs.contains("WAITS FOR A PERSON to turn turret to 40x"), "{jobs}");
    let kept = words(&shell(folder.path(), &["reclaim", "scope"]));
    assert!(kept.contains("was not lent to anybody"), "{kept}");
    let wrong = shell(folder.path(), &["confirm", "job-999"]);
    assert!(!wrong.status.success() && words(&wrong).contains(job.as_str().expect("a job")), "{}", words(&wrong));
    let done = shell(folder.path(), &["confirm", "--by", "ada"]);
    assert!(done.status.success() && words(&done).contains("ada says that it is done"), "{}", words(&done));
    let ended = server.call("get_job", json!({"job_id": job, "wait_s": 10}));
    assert_eq!((&facts(&ended)["status"], &facts(&ended)["position"]), (&json!("ok"), &json!("40x")), "{ended}");

    server.call("set_output", json!({"output": "turret", "position": "10x"}));
    let refused = shell(folder.path(), &["confirm", "--refused"]);
    assert!(refused.status.success(), "{}", words(&refused));
    until("it waits no more", || !server.call("get_state", json!({})).to_string().contains("waits for a person"));
}

#[test]
fn a_persons_stop_is_still_in_force_when_a_relay_with_another_data_folder_takes_over() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut owner = serve(folder.path());
    home(&mut owner);
    let mut relay = Server::start(steadyhand(folder.path()).args(["--data-dir", "another"]), folder.path());
    assert_eq!(facts(&relay.call("whoami", json!({})))["role"], "relay");
    begin_move(&bench, &mut owner);
    let stopped = shell(folder.path(), &["stop"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", words(&stopped));
    signal(Signal::KILL, &owner.child);
    owner.child.wait().expect("dead");
    until("the relay owns the rig", || facts(&relay.call("whoami", json!({})))["role"] == "owner");
    let refused = relay.call("clear_fault", json!({"device": "scope"}));
    assert!(refused["content"][0]["text"].as_str().expect("text").starts_with("[not_permitted]"), "{refused}");
    assert_stands(&bench);
}

#[test]
fn a_persons_stop_that_cannot_be_put_on_record_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    // Where the record goes there is a folder that nothing can replace.
    fs::create_dir_all(folder.path().join("data/stopped.json/in-the-way")).expect("a folder");
    let stopped = shell(folder.path(), &["stop"]);
    assert!(words(&stopped).contains("NOT ON RECORD"), "{}", words(&stopped));
}

/// The lines that the stage's controller was sent since it had received so many bytes, without real-time bytes.
fn lines_since(bench: &hw_sim::serve::Running, received: usize) -> Vec<String> {
    let bytes: Vec<u8> = bench.with_bench(|b| b.received("scope")[received..].iter().map(|(_, byte)| *byte).collect());
    let text: Vec<u8> = bytes.into_iter().filter(|b| !support::scripted::is_real_time(*b)).collect();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// Nothing that was sent since then moves anything: what a controller is asked when it is identified is no motion.
fn assert_nothing_ordered(bench: &hw_sim::serve::Running, received: usize) {
    let sent = lines_since(bench, received);
    assert!(sent.iter().all(|l| ["$I", "$$", "$G", "$N", ""].contains(&l.as_str())), "{sent:?}");
}

/// What every way to motion answers while a person's stop stands.
fn refuses_all(server: &mut Server) {
    for (tool, arguments) in [
        ("move_to", json!({"stage": "scope", "targets": {"x": 50.0}, "unit": "mm"})),
        ("home", json!({"stage": "scope"})),
        ("go_back", json!({"stage": "scope"})),
        ("clear_fault", json!({"device": "scope"})),
    ] {
        let refused = server.call(tool, arguments);
        assert_eq!((&refused["isError"], &facts(&refused)["moved"]), (&json!(true), &json!("no")), "{tool}: {refused}");
        let said = refused["content"][0]["text"].as_str().expect("text");
        assert!(said.contains("by a person") || said.contains("has not moved yet"), "{tool}: {said}");
    }
}

#[test]
fn hole_04_a_persons_stop_outlives_kill_9_and_a_restart() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    begin_move(&bench, &mut server);
    assert!(shell(folder.path(), &["stop"]).status.success());
    assert_stands(&bench);
    let (received, stood) = (bench.with_bench(|b| b.received("scope").len()), x(&bench));
    for _ in 0..2 {
        signal(Signal::KILL, &server.child);
        server.child.wait().expect("dead");
        server = serve(folder.path());
        let state = |s: &mut Server| facts(&s.call("get_state", json!({})))["stages"][0].clone();
        until("the stage is read", || state(&mut server)["axes"]["x"]["position"].is_number());
        assert_eq!(state(&mut server)["stopped_by"], "person");
        refuses_all(&mut server);
    }
    assert_nothing_ordered(&bench, received);
    assert_eq!(x(&bench), stood);
    // The person who gave it takes it back, and all is as before.
    assert!(shell(folder.path(), &["resume"]).status.success());
    home(&mut server);
}

#[test]
fn hole_05_a_stop_covers_every_process_on_the_rig_also_one_that_starts_later() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let (mut owner, mut second) = two(folder.path());
    home(&mut owner);
    begin_move(&bench, &mut owner);
    assert!(shell(folder.path(), &["stop"]).status.success());
    assert_stands(&bench);
    assert_eq!(facts(&answer_of(&owner, owner.calls))["code"], "stopped");
    let (received, stood) = (bench.with_bench(|b| b.received("scope").len()), x(&bench));
    refuses_all(&mut second);
    let mut third = Server::start(steadyhand(folder.path()).args(["--data-dir", "its-own"]), folder.path());
    assert_eq!(facts(&third.call("whoami", json!({})))["role"], "relay", "one owner for one port");
    refuses_all(&mut third);
    refuses_all(&mut owner);
    assert_nothing_ordered(&bench, received);
    assert_eq!(x(&bench), stood);
    assert!(shell(folder.path(), &["resume"]).status.success());
    let moved = third.call("move_to", json!({"stage": "scope", "targets": {"x": stood + 2.0}, "unit": "mm"}));
    assert_eq!(facts(&moved)["moved"], "yes", "released for all: {moved}");
}
