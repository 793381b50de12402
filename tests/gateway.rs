//! The program as a host starts it: whole binary, real pipes, real time; where something moves, over a real
//! pseudo-terminal.
#![allow(clippy::disallowed_methods, reason = "other processes move in real time here")]

mod process;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use process::{Server, steadyhand, write_unplugged_rig};
use serde_json::{Value, json};

/// A request that carries its version with it.
fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

const BAD: &str = "[rig]\nname = \"x y\"\nfoo = 3\n";

/// X01
#[test]
fn x01_standard_output_carries_the_protocol_alone_however_much_is_logged() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("rig.toml"), BAD).expect("written");
    let mut server = Server::start(steadyhand(folder.path()).env("RUST_LOG", "trace"), folder.path());
    #[cfg(target_os = "linux")]
    {
        // Whatever prints to descriptor 1, a C library included, reaches standard error.
        let descriptor = |n: u32| fs::read_link(format!("/proc/{}/fd/{n}", server.child.id())).expect("a descriptor");
        assert_eq!(descriptor(1), descriptor(2));
    }
    let text = server.call("diagnose", json!({}))["content"][0]["text"].as_str().expect("text").to_owned();
    for place in ["rig.toml:2", "rig.toml:3"] {
        assert!(text.contains(place), "{text}");
    }
    drop(server.input.take());
    let (rest, code) = server.end(Duration::from_secs(3));
    assert_eq!((rest, code), (vec![], Some(0)));
    let log = fs::read_to_string(folder.path().join("stderr.txt")).expect("the log");
    assert!(log.contains("TRACE"), "the log was at its loudest");
}

/// X10
#[test]
fn x10_without_any_input_the_program_ends_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("rig.toml"), BAD).expect("written");
    let begun = Instant::now();
    let ended = steadyhand(folder.path()).stdin(Stdio::null()).output().expect("run");
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.stdout.is_empty() && begun.elapsed() < Duration::from_secs(3));
}

/// X26
#[test]
fn x26_the_server_asks_its_client_nothing_and_stop_and_state_wait_for_nobody() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let mut server = Server::start(steadyhand(folder.path()).args(["--data-dir", "data"]), folder.path());
    for tool in ["get_state", "stop", "diagnose", "home", "stop", "get_state"] {
        let begun = Instant::now();
        let arguments = if tool == "home" { json!({"stage": "scope"}) } else { json!({}) };
        // `call` accepts nothing but an answer and `list_changed`.
        assert!(server.call(tool, arguments)["content"].is_array());
        assert!(begun.elapsed() < Duration::from_secs(5), "{tool} took {:?}", begun.elapsed());
    }
    drop(server.input.take());
    let (rest, code) = server.end(Duration::from_secs(3));
    assert!(rest.iter().all(|m| m["method"] == "notifications/tools/list_changed"), "{rest:?}");
    assert_eq!(code, Some(0));
}

/// X28
#[test]
fn x28_stop_works_in_both_eras_and_both_see_the_same_tools() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().expect("tools");
        tools.iter().map(|t| t["name"].as_str().expect("a name").to_owned()).collect()
    };
    let command = || {
        let mut command = steadyhand(folder.path());
        command.args(["--data-dir", "data"]);
        command
    };
    let mut server = Server::silent(&mut command(), folder.path());
    server.send(&modern(1, "tools/call", json!({"name": "stop", "arguments": {}})));
    let answer = server.next();
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(1), &json!("complete")), "{answer}");
    server.send(&modern(2, "tools/list", json!({})));
    let seen = names(&server.next());
    drop(server);

    let mut server = Server::start(&mut command(), folder.path());
    let answer = server.call("stop", json!({}));
    assert!(answer["content"].is_array() && answer.get("resultType").is_none(), "{answer}");
    server.send(&json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}));
    let list = loop {
        let answer = server.next();
        if answer["id"] == "list" {
            break names(&answer);
        }
    };
    assert_eq!(list, seen);
}

/// X31
#[test]
fn x31_no_log_message_is_sent_that_was_not_asked_for() {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let mut command = steadyhand(folder.path());
    let mut server = Server::silent(command.args(["--data-dir", "data", "--log", "trace"]), folder.path());
    for id in 1..=20 {
        server.send(&modern(id, "tools/call", json!({"name": "get_state", "arguments": {}})));
        assert_eq!(server.next()["id"], id);
    }
    server.send(&json!({"jsonrpc": "2.0", "id": "level", "method": "logging/setLevel", "params": {"level": "debug"}}));
    assert_eq!(server.next()["error"]["code"], -32602, "before a handshake, with no version of its own");
    server.send(&modern(99, "logging/setLevel", json!({"level": "debug"})));
    assert_eq!(server.next()["error"]["code"], -32601, "there are no log messages to have");
    drop(server.input.take());
    assert_eq!(server.end(Duration::from_secs(3)), (vec![], Some(0)));
    let file = fs::read_to_string(folder.path().join("data/logs/steadyhand.log")).expect("the log file");
    assert!(file.contains("steadyhand::"), "the log goes to its file");
}

#[test]
fn without_a_rig_file_the_error_names_the_places_and_the_demonstration() {
    let folder = tempfile::tempdir().expect("folder");
    for command in [&["serve"][..], &[], &["check"]] {
        let ended = steadyhand(folder.path()).args(command).stdin(Stdio::null()).output().expect("run");
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{command:?}: {text}");
        assert!(text.contains("rig.toml") && text.contains("steadyhand demo"), "{text}");
        assert!(ended.stdout.is_empty());
    }
}

#[test]
fn check_shows_every_problem_and_opens_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("bad.toml"), BAD).expect("written");
    let ended = steadyhand(folder.path()).args(["check", "--rig", "bad.toml"]).output().expect("run");
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1));
    for part in ["bad.toml:2:8", "bad.toml:3:1", "help: ", "3 problems in "] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("rigs/microscope.toml");
    let ended = steadyhand(folder.path()).arg("check").arg("--rig").arg(good).output().expect("run");
    assert_eq!(ended.status.code(), Some(0));
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(text.contains("is fine") && text.contains("x 0 to 74.5 mm"), "{text}");
    let left: Vec<_> = fs::read_dir(folder.path()).expect("folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["bad.toml"]);
}

#[cfg(unix)]
mod moving {
    use super::*;

    /// Serves the demonstration rig over a bench, homes it, and leaves it in the middle of a long move.
    fn in_mid_move(folder: &Path) -> (hw_sim::serve::Running, Server) {
        let (bench, mut server) = served(folder);
        process::home(&mut server);
        process::begin_move(&bench, &mut server);
        (bench, server)
    }

    /// Calls a tool until its answer is what is awaited, or for half a minute; the last answer.
    fn until(server: &mut Server, tool: &str, arguments: Value, holds: impl Fn(&Value) -> bool) -> Value {
        let connected = Instant::now() + Duration::from_secs(30);
        loop {
            let answer = server.call(tool, arguments.clone());
            if holds(&answer) || Instant::now() > connected {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Serves the demonstration rig over a bench.
    fn served(folder: &Path) -> (hw_sim::serve::Running, Server) {
        let bench = process::bench(folder);
        let server = process::serve(folder);
        (bench, server)
    }

    /// The record of a person's stop is read before anything moves, and one that can't be read is a stop.
    #[test]
    fn a_rig_that_a_person_stopped_comes_up_stopped_even_when_the_record_is_damaged() {
        for record in [r#"{"version": 1, "everything": true, "stages": [], "since": "2026-11-30"}"#, "{\"vers"] {
            let folder = tempfile::tempdir().expect("folder");
            fs::create_dir(folder.path().join("data")).expect("a folder");
            fs::write(folder.path().join("data/stopped.json"), record).expect("written");
            let (bench, mut server) = served(folder.path());
            let stopped = |a: &Value| a["structuredContent"]["code"] == "stopped";
            let answer = until(&mut server, "home", json!({"stage": "scope"}), stopped);
            assert!(stopped(&answer), "{answer}");
            let state = server.call("get_state", json!({}));
            let why = state["structuredContent"]["not_ready"][0].as_str().expect("a reason").to_owned();
            let says = if record.len() > 10 { "a person stopped scope (since 2026-11-30)" } else { "can't be read" };
            assert!(why.contains(says), "{why}");
            drop(server);
            bench.stop();
        }
    }

    /// The axes stand far from the target, the call was answered, and the exit was clean.
    fn assert_stopped(bench: &hw_sim::serve::Running, server: Server) {
        let (rest, code) = server.end(Duration::from_secs(3));
        assert_eq!(code, Some(0));
        process::assert_stands(bench);
        let answer = rest.iter().find(|m| m.get("id").is_some()).expect("the call is answered");
        let result = &answer["result"]["structuredContent"];
        assert!(result["moved"] == "yes" || result["moved"] == "unknown", "{answer}");
    }

    /// R15
    #[cfg(target_os = "linux")]
    #[test]
    fn r15_every_descriptor_of_the_running_program_is_closed_for_children() {
        let folder = tempfile::tempdir().expect("folder");
        let (bench, mut server) = in_mid_move(folder.path());
        let listed = |pid: u32| {
            let under = format!("/proc/{pid}/fdinfo");
            let entries = fs::read_dir(under).expect("descriptors").flatten();
            let read = |e: fs::DirEntry| {
                let number: u32 = e.file_name().to_str()?.parse().ok()?;
                let info = fs::read_to_string(e.path()).ok()?;
                let flags = info.lines().find_map(|l| l.strip_prefix("flags:"))?.trim().to_owned();
                let leads = fs::read_link(format!("/proc/{pid}/fd/{number}")).ok()?;
                Some((number, u32::from_str_radix(&flags, 8).ok()?, leads))
            };
            entries.filter_map(read).collect::<Vec<_>>()
        };
        // What this test's own parent left open comes to every child of it.
        let mut other = Command::new("sleep").arg("60").spawn().expect("a child");
        let from_above: Vec<_> = listed(other.id()).into_iter().map(|(_, _, leads)| leads).collect();
        let _ = other.kill();
        let _ = other.wait();
        let all: Vec<_> = listed(server.child.id()).into_iter().filter(|(n, ..)| *n > 2).collect();
        let named = |what: &str| all.iter().any(|(_, _, leads)| leads.to_string_lossy().contains(what));
        assert!(named("/dev/pts/") && named("socket:") && named("audit"), "{all:?}");
        const CLOSE_ON_EXEC: u32 = 0o2_000_000;
        let open: Vec<_> = all.iter().filter(|(_, f, l)| f & CLOSE_ON_EXEC == 0 && !from_above.contains(l)).collect();
        assert!(open.is_empty(), "{open:?}");
        drop(server.input.take());
        assert_stopped(&bench, server);
        bench.stop();
    }

    /// X10
    #[test]
    fn x10_eof_in_mid_move_stops_the_axes_and_ends_with_zero() {
        let folder = tempfile::tempdir().expect("folder");
        let (bench, mut server) = in_mid_move(folder.path());
        drop(server.input.take());
        assert_stopped(&bench, server);
        bench.stop();
    }

    #[test]
    fn sigterm_in_mid_move_stops_the_axes_and_ends_with_zero() {
        let folder = tempfile::tempdir().expect("folder");
        let (bench, server) = in_mid_move(folder.path());
        process::signal(rustix::process::Signal::TERM, &server.child);
        assert_stopped(&bench, server);
        bench.stop();
    }
}
