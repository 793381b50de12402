//! The program over HTTP, asked byte by byte: what is answered, what is refused, and what stops.
#![allow(clippy::disallowed_methods, reason = "another process moves in real time here")]

mod process;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use process::{steadyhand, write_unplugged_rig};
use serde_json::{Value, json};

/// The program, serving over HTTP as a service does, without standard input.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left behind when a test fails half-way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer: status, head in small letters, body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(mut stream: TcpStream) -> Answer {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        let chunked = head.contains("transfer-encoding: chunked");
        Answer { status, body: if chunked { unchunked(body) } else { body.to_owned() }, head }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {:?}", self.status, self.body))
    }
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk's size");
        whole.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    whole
}

const JSON: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";

impl Server {
    fn start(folder: &Path) -> Server {
        let mut command = steadyhand(folder);
        command.args(["serve", "--http", "--port", "0", "--data-dir", "data"]);
        Server::of(command, folder)
    }

    fn of(mut command: Command, folder: &Path) -> Server {
        let path = folder.join("stderr.txt");
        let log = fs::File::create(&path).expect("log");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().expect("the program");
        let begun = Instant::now();
        let address = loop {
            let said = fs::read_to_string(&path).expect("log");
            if let Some((_, rest)) = said.split_once("serves MCP at http://") {
                break rest.split('/').next().expect("an address").to_owned();
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not serve: {said}");
            std::thread::sleep(Duration::from_millis(20));
        };
        Server { child, address }
    }

    /// Sends a request and leaves the answer to come. `head` are lines of the head.
    fn send(&self, line: &str, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
        let host = if head.lines().any(|l| l.starts_with("host:")) {
            String::new()
        } else {
            format!("host: {}\r\n", self.address)
        };
        let length = body.len();
        let text =
            format!("{line} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {length}\r\n{head}\r\n{body}");
        // A server that refuses by the head alone may close before the body is sent.
        let _ = stream.write_all(text.as_bytes());
        stream
    }

    fn ask(&self, line: &str, head: &str, body: &str) -> Answer {
        Answer::read(self.send(line, head, body))
    }

    fn post(&self, message: &Value) -> Answer {
        self.ask("POST /mcp", JSON, &message.to_string())
    }

    /// The structured answer of a tool, in the era of handshakes.
    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let answer = self.post(&call(tool, arguments));
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["result"]["structuredContent"].clone()
    }

    fn end(mut self, at_most: Duration) -> Option<i32> {
        #[cfg(unix)]
        process::signal(rustix::process::Signal::TERM, &self.child);
        #[cfg(not(unix))]
        self.child.kill().expect("ended");
        let begun = Instant::now();
        let status = self.child.wait().expect("ended");
        assert!(begun.elapsed() < at_most, "ended after {:?}", begun.elapsed());
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        assert_eq!(printed, "", "over HTTP nothing is printed");
        status.code()
    }
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A request of 2026-07-28, with the head that belongs to it.
fn modern(method: &str, name: Option<&str>, mut params: Value) -> (String, Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
    });
    let name = name.map(|n| format!("mcp-name: {n}\r\n")).unwrap_or_default();
    let head = format!("{JSON}mcp-protocol-version: 2026-07-28\r\nmcp-method: {method}\r\n{name}");
    (head, json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))
}

fn unplugged() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("folder");
    write_unplugged_rig(folder.path());
    let server = Server::start(folder.path());
    (folder, server)
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[test]
fn what_comes_badly_is_refused_with_a_reason_and_the_server_goes_on() {
    let (_folder, server) = unplugged();
    let foreign = format!("{JSON}origin: https://evil.example\r\n");
    let near = format!("{JSON}origin: http://localhost:6274\r\n");
    let rebound = format!("{JSON}host: evil.example:8050\r\n");
    let unknown_version = format!("{JSON}mcp-protocol-version: 1999-01-01\r\n");
    let (old_accept, no_accept) =
        ("content-type: application/json\r\naccept: application/json\r\n", "content-type: application/json\r\n");
    let html = "content-type: application/json\r\naccept: text/html\r\n";
    let form = "content-type: application/x-www-form-urlencoded\r\naccept: */*\r\n";
    let huge = "x".repeat(8 * 1024 * 1024 + 1);
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for (what, line, head, body, status, part) in [
        ("a list", "POST /mcp", JSON, LIST, 200, "\"tools\""),
        ("a final slash", "POST /mcp/", JSON, LIST, 200, "\"tools\""),
        ("JSON alone accepted", "POST /mcp", old_accept, LIST, 200, "\"tools\""),
        ("nothing said of Accept", "POST /mcp", no_accept, LIST, 200, "\"tools\""),
        ("a page of this machine", "POST /mcp", &near, LIST, 200, "\"tools\""),
        (
            "a byte order mark",
            "POST /mcp",
            JSON,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
            200,
            "result",
        ),
        ("a notification", "POST /mcp", JSON, notification, 202, ""),
        ("an unknown notification", "POST /mcp", JSON, r#"{"jsonrpc":"2.0","method":"$/x"}"#, 202, ""),
        ("a foreign page", "POST /mcp", &foreign, LIST, 403, "web pages"),
        ("a foreign page's stop", "POST /stop", &foreign, "", 403, "web pages"),
        ("a rebound name", "POST /mcp", &rebound, LIST, 403, "localhost"),
        ("a rebound name's health", "GET /healthz", "host: evil.example\r\n", "", 403, "localhost"),
        ("HTML wanted", "POST /mcp", html, LIST, 406, "application/json"),
        ("a form", "POST /mcp", form, LIST, 415, "application/json"),
        ("too much", "POST /mcp", JSON, &huge, 413, "8 MiB"),
        ("no JSON", "POST /mcp", JSON, "not json", 400, "-32700"),
        ("an empty body", "POST /mcp", JSON, "", 400, "-32600"),
        ("a batch", "POST /mcp", JSON, &format!("[{LIST}]"), 400, "Batches"),
        ("an answer", "POST /mcp", JSON, response, 400, "-32600"),
        ("a broken id", "POST /mcp", JSON, r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, "1.5"),
        ("an unknown version", "POST /mcp", &unknown_version, LIST, 400, "1999-01-01"),
        ("a stream asked for", "GET /mcp", JSON, "", 405, "POST"),
        ("a session ended", "DELETE /mcp", JSON, "", 405, "POST"),
        ("a stop by GET", "GET /stop", "", "", 405, "POST"),
        ("health by POST", "POST /healthz", "", "", 405, "GET"),
        ("nowhere", "POST /elsewhere", JSON, LIST, 404, "POST /mcp"),
        ("the root", "GET /", "", "", 404, "POST /stop"),
    ] {
        let answer = server.ask(line, head, body);
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
        assert!(answer.body.contains(part), "{what}: {}", answer.body);
        assert_eq!(answer.status == 405, answer.head.contains("allow: "), "{what}");
        assert!(!answer.head.contains("mcp-session-id"), "{what}: there are no sessions");
    }
    // A request line that is none, and a head without Host.
    for bytes in ["rubbish\r\n\r\n", "POST /mcp HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"] {
        let mut stream = TcpStream::connect(&server.address).expect("connected");
        stream.write_all(bytes.as_bytes()).expect("sent");
        assert_eq!(Answer::read(stream).status, 400, "{bytes:?}");
    }
    let state = server.call("get_state", &json!({}));
    assert_eq!(state["stages"][0]["stopped_by"], Value::Null, "nothing of it stopped the rig: {state}");
    assert_eq!(server.end(Duration::from_secs(5)), Some(0));
}

#[test]
fn both_eras_see_the_same_tools_and_each_gets_no_newer_version_than_it_asks_for() {
    let (_folder, server) = unplugged();
    let (head, list) = modern("tools/list", None, json!({}));
    let answer = server.ask("POST /mcp", &head, &list.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let (new, old) = (answer.json(), server.ask("POST /mcp", JSON, LIST).json());
    let names = |list: &Value| -> Vec<Value> {
        list["result"]["tools"].as_array().expect("tools").iter().map(|t| t["name"].clone()).collect()
    };
    assert_eq!(names(&new), names(&old));
    assert_eq!((&new["id"], &new["result"]["cacheScope"]), (&json!(7), &json!("private")));

    for (asked, header, agreed) in [
        ("2025-11-25", None, "2025-11-25"),
        ("2025-06-18", Some("2025-06-18"), "2025-06-18"),
        ("2099-01-01", Some("2099-01-01"), "2025-11-25"),
        ("2025-07-01", None, "2025-06-18"),
    ] {
        let params = json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params});
        let header = header.map(|v| format!("mcp-protocol-version: {v}\r\n")).unwrap_or_default();
        let answer = server.ask("POST /mcp", &format!("{JSON}{header}"), &hello.to_string());
        assert_eq!(answer.status, 200, "{asked}: {}", answer.body);
        assert_eq!(answer.json()["result"]["protocolVersion"], agreed, "{asked}");
        let other = format!("{JSON}mcp-protocol-version: 2024-11-05\r\n");
        let answer = server.ask("POST /mcp", &other, &hello.to_string());
        assert_eq!((answer.status, &answer.json()["id"]), (400, &json!("init")), "header and body disagree");
    }

    // The head must say what the body says.
    let (head, message) = modern("tools/call", Some("whoami"), json!({"name": "whoami", "arguments": {}}));
    let answer = server.ask("POST /mcp", &head, &message.to_string()).json();
    let told = &answer["result"]["structuredContent"];
    assert_eq!((&told["way"], &told["client"]), (&json!("http"), &json!("modern 1")), "{answer}");
    for (from, to) in [("2026-07-28", "2025-11-25"), ("tools/call", "tools/list"), ("whoami", "stop")] {
        let answer = server.ask("POST /mcp", &head.replace(from, to), &message.to_string());
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32020)), "{to}: {}", answer.body);
    }
    let named = format!("{JSON}user-agent: curl/8\r\n");
    let answer = server.ask("POST /mcp", &named, &call("whoami", &json!({})).to_string()).json();
    assert_eq!(answer["result"]["structuredContent"]["client"], "curl/8");
}

#[test]
fn health_and_readiness_are_told_apart() {
    let (_folder, server) = unplugged();
    let health = server.ask("GET /healthz", "", "");
    assert_eq!((health.status, &health.json()["server"]), (200, &json!("steadyhand")));
    let ready = server.ask("GET /readyz", "", "");
    let told = ready.json();
    assert_eq!((ready.status, &told["rig_thread"], &told["online"]["scope"]), (503, &json!(true), &json!(false)));
    assert_eq!(server.ask("HEAD /readyz", "", "").status, 503);

    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("rig.toml"), "[rig]\nname = \"x y\"\n").expect("written");
    let server = Server::start(folder.path());
    assert_eq!(server.ask("GET /healthz", "", "").status, 200);
    let ready = server.ask("GET /readyz", "", "");
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["code"], "bad_rig_file", "{}", ready.body);
    let stop = server.ask("POST /stop", "", "");
    assert_eq!((stop.status, &stop.json()["code"]), (500, &json!("bad_rig_file")));
}

#[test]
fn an_address_that_cannot_be_had_is_refused_before_anything_is_opened() {
    let (folder, server) = unplugged();
    let port = server.address.rsplit(':').next().expect("a port");
    for (arguments, parts) in [
        (&["--host", "0.0.0.0"][..], &["no authentication yet", "ssh -L"][..]),
        (&["--port", port], &["taken by steadyhand with the rig demo-microscope", "--port"]),
        (&["--path", "/stop"], &["/stop"]),
        (&["--port", "0"], &["a rig has one owner", "steadyhand status"]),
    ] {
        let mut command = steadyhand(folder.path());
        let ended = command.args(["serve", "--http"]).args(arguments).stdin(Stdio::null()).output().expect("run");
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn silent_connections_in_any_number_do_not_shut_a_stop_out() {
    let (_folder, server) = unplugged();
    let silent: Vec<TcpStream> = (0..300).filter_map(|_| TcpStream::connect(&server.address).ok()).collect();
    assert_eq!(silent.len(), 300);
    let begun = Instant::now();
    // The unplugged stage can't be reached, which is told; but it is told at once, by whoever answers /stop.
    let stop = server.ask("POST /stop", "", "");
    assert_eq!(stop.json()["code"], "stop_not_sent", "{}", stop.body);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(server.ask("POST /mcp", JSON, LIST).status, 503);
    drop(silent);
    let begun = Instant::now();
    while server.ask("POST /mcp", JSON, LIST).status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(10), "places come back");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn more_silent_connections_than_there_are_places_give_way_to_a_stop() {
    let (_folder, server) = unplugged();
    let silent: Vec<TcpStream> = (0..400).filter_map(|_| TcpStream::connect(&server.address).ok()).collect();
    assert_eq!(silent.len(), 400);
    for _ in 0..5 {
        let begun = Instant::now();
        let stop = server.ask("POST /stop", "", "");
        assert_eq!(stop.json()["code"], "stop_not_sent", "{}", stop.body);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[cfg(unix)]
mod moving {
    use hw_sim::serve::Running;

    use super::process::{bench, x};
    use super::*;

    /// A homed rig over HTTP.
    struct Lab {
        bench: Running,
        server: Server,
        _folder: tempfile::TempDir,
    }

    const FAR: f64 = 5.0;

    impl Lab {
        fn homed() -> Lab {
            Lab::of("20.0")
        }

        /// With x and y at most so fast, in mm/s.
        fn of(speed: &str) -> Lab {
            let folder = tempfile::tempdir().expect("folder");
            let bench = bench(folder.path());
            let rig = fs::read_to_string(folder.path().join("rig.toml")).expect("the rig");
            let slower = rig.replace("max_speed_per_s = 20.0", &format!("max_speed_per_s = {speed}"));
            fs::write(folder.path().join("rig.toml"), slower).expect("written");
            let lab = Lab { bench, server: Server::start(folder.path()), _folder: folder };
            let connected = Instant::now() + Duration::from_secs(60);
            while lab.server.call("home", &json!({"stage": "scope", "wait_s": 60}))["status"] != "ok" {
                assert!(Instant::now() < connected, "it could not be homed");
                std::thread::sleep(Duration::from_millis(200));
            }
            assert_eq!(lab.server.ask("GET /readyz", "", "").status, 200);
            lab
        }

        /// Brings x near its far end, so that a long way is before it.
        fn back(&self) {
            let state = self.server.call("get_state", &json!({}));
            if state["stages"][0]["stopped_by"] == "model" || state["stages"][0]["stopped_by"] == "program" {
                assert_eq!(self.server.call("clear_fault", &json!({"device": "scope"}))["status"], "ok");
            }
            let done = self.server.call("move_to", &json!({"targets": {"x": 70}, "unit": "mm", "wait_s": 30}));
            assert_eq!(done["status"], "ok", "{done}");
        }

        fn under_way(&self) {
            let begun = Instant::now();
            while x(&self.bench) > 66.0 {
                assert!(begun.elapsed() < Duration::from_secs(20), "it never moved");
                std::thread::sleep(Duration::from_millis(5));
            }
        }

        fn stands(&self, what: &str) {
            let begun = Instant::now();
            let mut last = x(&self.bench);
            loop {
                std::thread::sleep(Duration::from_millis(150));
                let now = x(&self.bench);
                if now == last {
                    break;
                }
                assert!(begun.elapsed() < Duration::from_secs(5), "{what}: it goes on");
                last = now;
            }
            assert!(last > FAR + 15.0, "{what}: it went on to {last} mm");
        }
    }

    fn long_move() -> Value {
        json!({"stage": "scope", "targets": {"x": FAR}, "unit": "mm", "wait_s": 60})
    }

    #[test]
    fn a_client_that_goes_before_its_answer_takes_its_motion_with_it_in_both_eras() {
        let lab = Lab::homed();
        let arguments = json!({"name": "move_to", "arguments": long_move()});
        for (era, (head, message)) in [
            ("2025", (JSON.to_owned(), call("move_to", &long_move()))),
            ("2026", modern("tools/call", Some("move_to"), arguments)),
        ] {
            // Some clients end a message with a line feed too many; who has hung up must be noticed behind it as well.
            for more in ["", "\r\n", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"] {
                lab.back();
                let mut stream = lab.server.send("POST /mcp", &head, &message.to_string());
                stream.write_all(more.as_bytes()).expect("sent");
                lab.under_way();
                drop(stream);
                lab.stands(&format!("{era}, {more:?}"));
            }
        }
    }

    #[test]
    fn sigterm_in_mid_call_stops_the_axes_answers_the_call_and_ends_with_zero() {
        let Lab { bench, server, _folder } = Lab::homed();
        let stream = server.send("POST /mcp", JSON, &call("move_to", &long_move()).to_string());
        while x(&bench) > 66.0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(server.end(Duration::from_secs(5)), Some(0));
        let told = Answer::read(stream).json()["result"]["structuredContent"]["moved"].clone();
        assert!(told == "yes" || told == "unknown", "{told}");
        let stood = x(&bench);
        std::thread::sleep(Duration::from_millis(300));
        assert!(x(&bench) == stood && stood > FAR + 15.0, "{stood}");
    }

    #[test]
    fn hole_14_no_foreign_page_no_header_and_no_other_address_moves_anything() {
        let lab = Lab::homed();
        lab.back();
        let (received, stood) = (lab.bench.with_bench(|b| b.received("scope").len()), x(&lab.bench));
        let order = call("move_to", &long_move()).to_string();
        let plain = "content-type: text/plain\r\naccept: */*\r\n";
        let foreign = "origin: https://evil.example\r\n";
        for (what, head, status) in [
            ("a page's simple request", format!("{plain}{foreign}"), 403),
            ("text from no page", plain.to_owned(), 415),
            ("a foreign page that says JSON", format!("{JSON}{foreign}"), 403),
            ("a page without an origin of its own", format!("{JSON}origin: null\r\n"), 403),
            ("a name that was bound anew", format!("{JSON}host: evil.example:8050\r\n"), 403),
        ] {
            let answer = lab.server.ask("POST /mcp", &head, &order);
            assert_eq!(answer.status, status, "{what}: {}", answer.body);
        }
        // Who calls is what the connection says, whatever a head says of it.
        let named = "x-caller: person\r\nx-user: person\r\nx-lease-holder: person\r\nmcp-session-id: person\r\n\
                     x-forwarded-for: 10.0.0.1\r\nauthorization: Bearer person\r\n";
        let who = |head: &str| {
            let answer = lab.server.ask("POST /mcp", head, &call("whoami", &json!({})).to_string());
            answer.json()["result"]["structuredContent"].clone()
        };
        let (own, told) = (who(JSON), who(&format!("{JSON}{named}")));
        for key in ["way", "role", "tools"] {
            assert_eq!(told[key], own[key], "{key}");
        }
        assert!(!told.to_string().contains("person\""), "{told}");
        // It listens on this machine's own address and on no other.
        let address: std::net::SocketAddr = lab.server.address.parse().expect("an address");
        assert!(address.ip().is_loopback(), "{address}");
        if cfg!(target_os = "linux") {
            // All of 127/8 leads to this machine; a listener on all addresses would answer here.
            let elsewhere = TcpStream::connect(("127.0.0.2", address.port()));
            assert!(elsewhere.is_err(), "it answers on other addresses, too");
        }
        let heard = lab.bench.with_bench(|b| b.received("scope")[received..].iter().all(|(_, byte)| *byte == b'?'));
        assert!(heard && x(&lab.bench) == stood, "only questions went to the stage");
    }

    #[test]
    fn a_stop_stops_however_it_comes() {
        let lab = Lab::homed();
        let stop = call("stop", &json!({})).to_string();
        let (_, headless) = modern("tools/call", Some("stop"), json!({"name": "stop", "arguments": {}}));
        let form = "content-type: text/plain\r\naccept: */*\r\n";
        for (what, head, body, status) in [
            ("a second client", JSON, stop.clone(), 200),
            ("wrong arguments", JSON, call("stop", &json!({"stage": 7})).to_string(), 200),
            ("a batch", JSON, format!("[{stop}]"), 400),
            ("without the head that its version needs", JSON, headless.to_string(), 400),
            ("as another kind of content", form, stop.clone(), 415),
            ("as a method", JSON, r#"{"jsonrpc":"2.0","id":1,"method":"stop"}"#.into(), 200),
        ] {
            lab.back();
            let moving = lab.server.send("POST /mcp", JSON, &call("move_to", &long_move()).to_string());
            lab.under_way();
            let answer = lab.server.ask("POST /mcp", head, &body);
            assert_eq!(answer.status, status, "{what}: {}", answer.body);
            lab.stands(what);
            let ended = Answer::read(moving).json();
            assert_eq!(ended["result"]["isError"], true, "{what}: {ended}");
        }
    }

    #[test]
    fn post_stop_is_a_persons_and_no_tool_releases_it() {
        let lab = Lab::homed();
        lab.back();
        let moving = lab.server.send("POST /mcp", JSON, &call("move_to", &long_move()).to_string());
        lab.under_way();
        // As `curl -X POST` sends it, with a body that means nothing.
        let form = "accept: */*\r\ncontent-type: application/x-www-form-urlencoded\r\n";
        let answer = lab.server.ask("POST /stop", form, "now!");
        let told = answer.json();
        assert_eq!((answer.status, &told["standstill"], &told["moved"]), (200, &json!(true), &json!("yes")), "{told}");
        assert!(told["text"].as_str().is_some_and(|t| t.starts_with("Stopped scope.")), "{told}");
        lab.stands("POST /stop");
        assert_eq!(Answer::read(moving).json()["result"]["isError"], true);
        let state = lab.server.call("get_state", &json!({}));
        assert_eq!(state["stages"][0]["stopped_by"], "person", "{state}");
        let refused = lab.server.call("clear_fault", &json!({"device": "scope"}));
        assert_eq!(refused["status"], "error", "{refused}");
        let again = lab.server.ask("POST /stop", "", "{\"stage\": \"scope\"}").json();
        assert_eq!((&again["standstill"], &again["stopped"]), (&json!(true), &json!([])), "{again}");
    }

    #[test]
    fn post_stop_stops_though_its_request_is_none_by_the_letter() {
        use std::io::Write;
        for head in ["HTTP/1.1\r\nHost: localhost\r\nContent-Length: banana\r\n\r\n", "HTTP/1.0\r\n\r\n"] {
            let lab = Lab::homed();
            lab.back();
            let moving = lab.server.send("POST /mcp", JSON, &call("move_to", &long_move()).to_string());
            lab.under_way();
            let mut stream = TcpStream::connect(&lab.server.address).expect("connected");
            stream.write_all(format!("POST /stop {head}").as_bytes()).expect("sent");
            lab.stands(head);
            assert_eq!(Answer::read(moving).json()["result"]["isError"], true);
            let state = lab.server.call("get_state", &json!({}));
            assert_eq!(state["stages"][0]["stopped_by"], "person", "{head}: {state}");
        }
    }

    #[test]
    fn two_clients_with_the_same_command_ids_each_get_their_own_motion() {
        let lab = Lab::homed();
        let arguments = |x: f64| json!({"targets": {"x": x}, "unit": "mm", "wait_s": 30, "command_id": "1"});
        let by = |agent: &str, x: f64| {
            let head = format!("{JSON}user-agent: {agent}\r\n");
            let answer = lab.server.ask("POST /mcp", &head, &call("move_to", &arguments(x)).to_string()).json();
            answer["result"]["structuredContent"].clone()
        };
        assert_eq!(by("one", 70.0)["status"], "ok");
        let other = by("two", 68.0);
        assert_eq!((&other["status"], &other["repeated"]), (&json!("ok"), &Value::Null), "{other}");
        let repeated = by("one", 70.0);
        assert_eq!(repeated["repeated"], true, "{repeated}");
        assert!((x(&lab.bench) - 68.0).abs() < 0.02, "nothing moved twice");
    }

    #[test]
    fn a_long_call_shows_life_as_events_to_who_asked_for_progress_and_as_white_space_to_others() {
        let lab = Lab::of("2.0");
        lab.back();
        let slow = json!({"targets": {"x": 36}, "unit": "mm", "wait_s": 25});
        let mut asked = call("move_to", &slow);
        asked["params"]["_meta"] = json!({"progressToken": "p"});
        let events = lab.server.post(&asked);
        assert!(events.head.contains("content-type: text/event-stream"), "{}", events.head);
        let messages: Vec<Value> = events
            .body
            .lines()
            .filter_map(|l| l.strip_prefix("data:"))
            .map(|d| serde_json::from_str(d).expect("JSON"))
            .collect();
        assert_eq!(messages[0]["method"], "notifications/progress");
        assert_eq!(messages[0]["params"]["progressToken"], "p");
        let last = messages.last().expect("an answer");
        assert_eq!((&last["id"], &last["result"]["structuredContent"]["status"]), (&json!(1), &json!("ok")), "{last}");
        assert!(!events.body.contains("retry:"), "old clients stumble over priming");

        let slow = json!({"targets": {"x": 70}, "unit": "mm", "wait_s": 25});
        let plain = lab.server.post(&call("move_to", &slow));
        assert!(plain.head.contains("content-type: application/json"), "{}", plain.head);
        assert!(plain.body.starts_with(' '), "white space came first");
        assert_eq!(plain.json()["result"]["structuredContent"]["status"], "ok");

        // Who takes no events gets none, whatever it asks for; and a call that has begun to answer ends with its client.
        let slow = json!({"targets": {"x": 5}, "unit": "mm", "wait_s": 25});
        let mut asked = call("move_to", &slow);
        asked["params"]["_meta"] = json!({"progressToken": "p"});
        let head = "content-type: application/json\r\naccept: application/json\r\n";
        let mut stream = lab.server.send("POST /mcp", head, &asked.to_string());
        let mut first = [0; 512];
        let n = stream.read(&mut first).expect("the head comes before the answer");
        let first = String::from_utf8_lossy(&first[..n]).to_ascii_lowercase();
        assert!(first.contains("content-type: application/json"), "{first}");
        assert!(x(&lab.bench) < 66.0);
        drop(stream);
        lab.stands("a client that goes while its answer comes");
    }
}

#[test]
#[cfg(unix)]
fn what_a_client_over_http_asks_for_waits_for_somebody_at_the_rig_and_no_request_says_yes() {
    let folder = tempfile::tempdir().expect("folder");
    let bench = process::bench(folder.path());
    let file = folder.path().join("rig.toml");
    let rig = fs::read_to_string(&file).expect("the rig");
    let rig = rig.replace("timeout_s = 60 }", "timeout_s = 60, ask = \"operator\" }");
    fs::write(&file, rig + "\n[approvals]\napprove_by = [\"elicitation\"]\n").expect("written");
    let server = Server::start(folder.path());
    let until = Instant::now() + Duration::from_secs(30);
    while server.call("get_state", &json!({}))["stages"][0]["activity"] != "idle" {
        assert!(Instant::now() < until, "it never came");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Each request has a connection of its own here, which is gone after the answer: so is whoever asked.
    let asked = server.call("home", &json!({}));
    assert_eq!(asked["status"], "waiting_for_person", "{asked}");
    let id = asked["approval_id"].as_str().expect("an id");
    let yes = json!({"want": "approve", "id": id, "yes": true, "by": "me"});
    for line in ["POST /approve", "POST /allow", &format!("POST /approve/{id}"), "POST /control"] {
        let answer = server.ask(line, JSON, &yes.to_string());
        assert!(answer.status == 404 || answer.status == 405, "{line}: {}", answer.status);
    }
    let accept = json!({"action": "accept", "content": {"approve": true}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "result": accept}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "approve", "params": yes}),
        json!({"jsonrpc": "2.0", "method": "notifications/elicitation/response", "params": accept}),
    ] {
        server.post(&message);
    }
    let (head, mut retry) = modern("tools/call", Some("home"), json!({"name": "home", "arguments": {}}));
    retry["params"]["inputResponses"] = json!({ id: accept });
    retry["params"]["requestState"] = json!(id);
    let answer = server.ask("POST /mcp", &head, &retry.to_string());
    assert!(answer.body.contains("[busy]"), "{}", answer.body);
    let (before, job) = (process::x(&bench), json!({"job_id": asked["job_id"]}));
    assert_eq!(server.call("get_job", &job)["status"], "waiting_for_person");
    assert_eq!(process::x(&bench), before);

    let said = steadyhand(folder.path()).args(["approve", id, "--yes"]).output().expect("run");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let done = server.call("get_job", &json!({"job_id": asked["job_id"], "wait_s": 25}));
    assert_eq!(done["status"], "ok", "{done}");
}
