//! What the audit log promises to the person who answers for the rig, and what a command's own name is worth over a
//! kill: whole binaries on a real pseudo-terminal, in real time.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "other processes move in real time here")]

mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use process::{Server, assert_stands, begin_move, bench, home, serve, steadyhand, write_unplugged_rig, x};
use serde_json::{Value, json};
use steadyhand::model::Code;

fn shell(folder: &Path, words: &[&str]) -> Output {
    steadyhand(folder).args(words).stdin(Stdio::null()).output().expect("run")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn words(answer: &Value) -> &str {
    answer["content"][0]["text"].as_str().expect("text")
}

fn log_file(folder: &Path) -> PathBuf {
    let all = fs::read_dir(folder.join("data/audit")).expect("a log").map(|e| e.expect("an entry").path());
    all.filter(|p| p.extension().is_some_and(|e| e == "jsonl")).max().expect("a file")
}

fn events(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log_file(folder)).expect("a log");
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

fn verify(folder: &Path) -> (Option<i32>, String) {
    let output = shell(folder, &["log", "verify", "--data-dir", "data"]);
    (output.status.code(), out(&output))
}

/// Ends a server in the ordinary way.
fn end(mut server: Server) {
    drop(server.input.take());
    server.end(Duration::from_secs(20));
}

fn to(x: f64, id: &str) -> Value {
    json!({"stage": "scope", "targets": {"x": x}, "unit": "mm", "command_id": id})
}

fn wait_for_rest(bench: &hw_sim::serve::Running) {
    let begun = Instant::now();
    loop {
        let before = x(bench);
        std::thread::sleep(Duration::from_millis(200));
        if x(bench) == before {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it never came to rest");
    }
}

#[test]
fn a_command_whose_server_was_killed_is_not_done_again_and_its_outcome_is_called_unknown() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    let first = server.call("move_to", to(60.0, "there"));
    assert_ne!(first["isError"], true, "{first}");
    server.ask("move_to", to(10.0, "far"));
    let (start, begun) = (x(&bench), Instant::now());
    while x(&bench) > start - 5.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never moved");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
    // The controller finishes the move that it was given: what a kill can't reach.
    wait_for_rest(&bench);
    let rest = x(&bench);
    let mut server = serve(folder.path());
    let unknown = server.call("move_to", to(10.0, "far"));
    let facts = &unknown["structuredContent"];
    assert_eq!(facts["code"], Code::OutcomeUnknown.text(), "{unknown}");
    assert_eq!((&facts["moved"], &facts["repeated"]), (&json!("unknown"), &json!(true)), "{unknown}");
    assert!(words(&unknown).contains("nobody knows") && words(&unknown).contains("get_state"), "{unknown}");
    let other = server.call("move_to", to(30.0, "far"));
    assert_eq!(other["structuredContent"]["code"], Code::CommandIdUsed.text(), "{other}");
    // The one that was over before the kill is told as it ended.
    let known = server.call("move_to", to(60.0, "there"));
    let facts = &known["structuredContent"];
    assert_eq!((&facts["repeated"], &facts["moved"]), (&json!(true), &json!("yes")), "{known}");
    assert!(words(&known).contains("nothing was done again"), "{known}");
    assert_eq!(facts["positions_then"]["scope.x_mm"], 60.0, "{known}");
    assert_eq!(x(&bench), rest, "nothing moved for what was sent again");
    home(&mut server);
    let anew = server.call("move_to", to(50.0, "anew"));
    assert_ne!(anew["isError"], true, "{anew}");
    end(server);
    let (code, said) = verify(folder.path());
    assert_eq!(code, Some(0), "a kill breaks no chain: {said}");
}

#[test]
fn a_motion_has_its_intent_and_its_outcome_with_all_that_is_to_be_known() {
    let folder = tempfile::tempdir().expect("folder");
    let _bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    server.call("move_to", to(60.0, "there"));
    server.call("move_to", json!({"stage": "scope", "targets": {"x": 500}, "unit": "mm"}));
    server.call("move_by", json!({"stage": "scope", "offsets": {"x": 1}, "unit": "mm", "from_epoch": 1}));
    server.call("stop", json!({}));
    end(server);
    let events = events(folder.path());
    let find = |kind: &str, what: &str| {
        let is = |e: &&Value| e["kind"] == kind && e["what"].as_str().is_some_and(|w| w.contains(what));
        events.iter().find(is).unwrap_or_else(|| panic!("no {kind} {what}: {events:#?}"))
    };
    let start = find("start", "has opened the rig");
    assert_eq!(start["rig_file_sha256"].as_str().map(str::len), Some(64), "{start}");
    let intent = find("intent", "to x 60 mm");
    for (key, value) in [
        ("caller", json!("stdio")),
        ("client", json!("test 1")),
        ("way", json!("stdio")),
        ("tool", json!("move_to")),
        ("command_id", json!("there")),
        ("device", json!("scope")),
        ("arguments", json!({"stage": "scope", "targets": {"x": 60.0}, "unit": "mm", "command_id": "there"})),
    ] {
        assert_eq!(intent[key], value, "{key}: {intent}");
    }
    assert_eq!(intent["steps_hash"].as_str().map(str::len), Some(64), "{intent}");
    let before = intent["positions"]["scope.x_mm"].as_f64().expect("where it stood");
    let outcome = find("outcome", "to x 60 mm");
    assert!(intent["seq"].as_u64() < outcome["seq"].as_u64());
    assert_eq!(
        (&outcome["job"], &outcome["call"], &outcome["moved"]),
        (&intent["job"], &intent["call"], &json!("yes"))
    );
    assert_eq!((&outcome["began"]["scope.x_mm"], &outcome["asked"]["scope.x_mm"]), (&json!(before), &json!(60.0)));
    assert!((outcome["positions"]["scope.x_mm"].as_f64().expect("where it is") - 60.0).abs() < 0.01);
    assert_eq!(outcome["read_from"]["scope.x"], "counter, referenced");
    assert!(outcome["took_ms"].as_u64() > Some(0) && outcome["cleared_steps"].as_u64() > Some(0), "{outcome}");
    let refused = find("outcome", "to x 500 mm");
    assert_eq!((&refused["moved"], &refused["code"]), (&json!("no"), &json!("out_of_travel")));
    assert_eq!((&refused["asked"]["scope.x_mm"], &refused["cleared_steps"]), (&json!(500.0), &json!(0)));
    assert!(refused["refusals"][0]["what"].as_str().is_some_and(|w| w.contains("500")), "{refused}");
    let stale = find("refused", "moved_on");
    assert_eq!((&stale["tool"], &stale["arguments"]["from_epoch"]), (&json!("move_by"), &json!(1)));
    assert!(stale["what"].as_str().is_some_and(|w| w.contains("It stands at x 60 mm")), "{stale}");
    assert_eq!(find("stop_asked", "asked for a stop")["caller"], "stdio");
}

#[test]
fn a_log_that_was_changed_is_told_with_file_and_line_and_a_failing_exit_code() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    for _ in 0..2 {
        let mut server = serve(folder.path());
        server.call("home", json!({"stage": "scope", "wait_s": 0}));
        server.call("set_camera", json!({"nonsense": 1}));
        end(server);
    }
    let (code, said) = verify(folder.path());
    assert_eq!(code, Some(0), "{said}");
    let noted = said.split("the hash ").nth(1).and_then(|s| s.split_whitespace().next()).expect("a hash").to_owned();
    let good = shell(folder.path(), &["log", "verify", "--rig", "rig.toml", "--data-dir", "data", "--noted", &noted]);
    assert_eq!(good.status.code(), Some(0), "{}", out(&good));
    let file = log_file(folder.path());
    let text = fs::read_to_string(&file).expect("read");
    let line = 1 + text.lines().position(|l| l.contains("\"intent\"")).expect("an intent");
    fs::write(&file, text.replacen("\"intent\"", "\"advice\"", 1)).expect("written");
    let (code, said) = verify(folder.path());
    assert_eq!(code, Some(1), "{said}");
    let name = file.file_name().and_then(|n| n.to_str()).expect("a name").to_owned();
    assert!(said.contains("NOT WHOLE") && said.contains(&format!("{name} line {line}:")), "{said}");
    // As JSON, and with the end cut off.
    let cut: String = text.lines().take(text.lines().count() - 1).map(|l| format!("{l}\n")).collect();
    fs::write(&file, cut).expect("written");
    let output = shell(folder.path(), &["log", "verify", "--data-dir", "data", "--noted", &noted, "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &found["whole"]), (Some(1), &json!(false)));
    assert_eq!(found["breaks"].as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(shell(folder.path(), &["log", "verify", "--data-dir", "none"]).status.code(), Some(1));
}

#[test]
fn a_hostile_client_breaks_neither_a_line_nor_a_terminal() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let mut server = Server::silent(steadyhand(folder.path()).args(["--data-dir", "data"]), folder.path());
    let name = "evil\u{202e}\u{1b}[2J\r\n{\"seq\":1}";
    server.send(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "\u{7f}"}}}));
    server.next();
    server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.call("home", json!({"stage": "scope", "command_id": name}));
    server.call("move_to", json!({"stage": "scope", "targets": {"x\u{202e}\n": 1}, "unit": "\u{9b}31m"}));
    server.call("stop", json!({"stage": "\u{1b}]0;x\u{7}"}));
    end(server);
    let text = fs::read_to_string(log_file(folder.path())).expect("a log");
    let shown = shell(folder.path(), &["log", "show", "--data-dir", "data", "-n", "100"]);
    let json = shell(folder.path(), &["log", "show", "--data-dir", "data", "-n", "100", "--json"]);
    assert!(text.contains("\\u202e") && shown.status.success() && json.status.success(), "{}", out(&shown));
    for text in [text, out(&shown), out(&json)] {
        let bad = text.chars().find(|c| *c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{2028}')));
        assert_eq!(bad, None, "{text}");
    }
    assert_eq!(verify(folder.path()).0, Some(0));
    let only = shell(folder.path(), &["log", "show", "--data-dir", "data", "--kind", "refused", "--caller", "stdio"]);
    assert!(out(&only).lines().all(|l| l.contains(" refused ")) && out(&only).lines().count() >= 2, "{}", out(&only));
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_nothing_moves_stop_and_reading_work_and_motion_comes_back_with_room() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    // The newest file of the log leads to a device without room.
    let audit = folder.path().join("data/audit");
    let full = audit.join("2999-01-01.jsonl");
    std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
    let before = x(&bench);
    let refused = server.call("move_to", to(30.0, "full"));
    assert_eq!(refused["structuredContent"]["code"], Code::StorageFailed.text(), "{refused}");
    assert!(words(&refused).contains("Free space on that disk") && words(&refused).contains("Moved: no"), "{refused}");
    assert_eq!(x(&bench), before, "nothing moved");
    for (tool, arguments) in [("get_state", json!({})), ("list_events", json!({})), ("diagnose", json!({}))] {
        let read = server.call(tool, arguments);
        assert_ne!(read["isError"], true, "{tool}: {read}");
    }
    assert_ne!(server.call("stop", json!({}))["isError"], true, "stop needs no disk");
    fs::remove_file(&full).expect("removed");
    server.call("clear_fault", json!({"device": "scope"}));
    let moved = server.call("move_to", to(60.0, "room"));
    assert_ne!(moved["isError"], true, "without a restart: {moved}");
    end(server);
    let (code, said) = verify(folder.path());
    assert_eq!(code, Some(0), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_stop_is_carried_out_while_the_disk_is_full_in_the_middle_of_a_move() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = bench(folder.path());
    let mut server = serve(folder.path());
    home(&mut server);
    begin_move(&bench, &mut server);
    std::os::unix::fs::symlink("/dev/full", folder.path().join("data/audit/2999-01-01.jsonl")).expect("a link");
    let stop = shell(folder.path(), &["stop"]);
    assert_eq!(stop.status.code(), Some(0), "{}", out(&stop));
    assert_stands(&bench);
}

#[test]
fn on_a_disk_that_has_become_read_only_nothing_is_begun_and_the_error_says_what_to_do() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let mut command = steadyhand(folder.path());
    command.args(["--data-dir", "data"]);
    if rustix::process::geteuid().is_root() {
        // Nothing is read-only for root.
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("given away");
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut server = Server::start(&mut command, folder.path());
    let audit = folder.path().join("data/audit");
    let set = |file: u32, dir: u32| {
        for entry in fs::read_dir(&audit).expect("a log") {
            fs::set_permissions(entry.expect("an entry").path(), PermissionsExt::from_mode(file)).expect("set");
        }
        fs::set_permissions(&audit, PermissionsExt::from_mode(dir)).expect("set");
    };
    set(0o444, 0o555);
    let refused = server.call("home", json!({"stage": "scope"}));
    assert_eq!(refused["structuredContent"]["code"], Code::StorageFailed.text(), "{refused}");
    assert!(words(&refused).contains("Allow this user to write there"), "{refused}");
    assert_ne!(server.call("get_state", json!({}))["isError"], true);
    set(0o644, 0o755);
    let again = server.call("home", json!({"stage": "scope"}));
    assert_ne!(again["structuredContent"]["code"], Code::StorageFailed.text(), "without a restart: {again}");
    end(server);
    assert_eq!(verify(folder.path()).0, Some(0));
}
