//! The program as a host starts it: a process with real pipes, and a bench for it.
#![allow(dead_code)]
#![allow(clippy::disallowed_methods, reason = "another process moves in real time here")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) fn steadyhand(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadyhand"));
    command.current_dir(folder).env_remove("RUST_LOG").env("XDG_CONFIG_HOME", folder).env("HOME", folder);
    // Commands that look for running servers find this test's alone.
    command.env("STEADYHAND_RUNTIME_DIR", folder.join("run"));
    command
}

/// A running server with its client's ends.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) lines: Receiver<String>,
    pub(crate) calls: u64,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left behind when a test fails half-way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// A server that nothing was said to yet.
    pub(crate) fn silent(command: &mut Command, folder: &Path) -> Server {
        let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("stderr.txt")).expect("log");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (send, lines) = sync_channel(1024);
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let input = child.stdin.take();
        Server { child, input, lines, calls: 0 }
    }

    /// A server of the era of handshakes, for a client that can do all that there is.
    pub(crate) fn start(command: &mut Command, folder: &Path) -> Server {
        let mut server = Server::silent(command, folder);
        server.send(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}, "roots": {"listChanged": true}, "sampling": {}},
            "clientInfo": {"name": "test", "version": "1"}}}));
        assert_eq!(server.next()["result"]["serverInfo"]["name"], "steadyhand");
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("open"), "{message}").expect("written");
    }

    pub(crate) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(Duration::from_secs(60)).expect("an answer in time");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON alone: {e}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    pub(crate) fn ask(&mut self, tool: &str, arguments: Value) {
        self.calls += 1;
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": self.calls, "method": "tools/call", "params": params}));
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask(tool, arguments);
        loop {
            let answer = self.next();
            // Between answers only `list_changed` may come.
            if answer.get("id").is_some() {
                return answer["result"].clone();
            }
            assert_eq!(answer["method"], "notifications/tools/list_changed");
        }
    }

    /// What still comes until the output ends, and the exit code.
    pub(crate) fn end(mut self, at_most: Duration) -> (Vec<Value>, Option<i32>) {
        let begun = Instant::now();
        let mut rest = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(at_most) {
            rest.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON alone: {e}: {line}")));
        }
        let status = self.child.wait().expect("ended");
        assert!(begun.elapsed() < at_most, "ended after {:?}", begun.elapsed());
        (rest, status.code())
    }
}

/// The rig of the demonstration with nothing behind its ports.
pub(crate) fn write_unplugged_rig(folder: &Path) {
    let rig = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("rigs/demo.toml")).expect("the rig");
    let rig =
        rig.replace("@SCOPE@", "/dev/no-such-port").replace("@CAM@", "127.0.0.1:9").replace("@IO@", "127.0.0.1:10");
    fs::write(folder.join("rig.toml"), rig).expect("written");
}

/// A bench with the demonstration's microscope, and its rig file in the folder.
#[cfg(unix)]
pub(crate) fn bench(folder: &Path) -> hw_sim::serve::Running {
    let bench = hw_sim::serve::Running::start(hw_sim::Bench::microscope(7), hw_sim::serve::Options::default())
        .expect("a bench");
    let path = |device: &str| {
        let paths = bench.paths();
        let found = paths.iter().find(|(id, _)| id == device).map(|(_, path)| path.clone());
        found.expect("a device").trim_start_matches("tcp://").to_owned()
    };
    let rig = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("rigs/demo.toml")).expect("the rig");
    let rig = rig.replace("@SCOPE@", &path("scope")).replace("@CAM@", &path("cam")).replace("@IO@", &path("io"));
    fs::write(folder.join("rig.toml"), rig).expect("written");
    bench
}

/// A server of the rig in the folder.
pub(crate) fn serve(folder: &Path) -> Server {
    Server::start(steadyhand(folder).args(["--data-dir", "data"]), folder)
}

/// Where the x axis of the bench really is, in mm.
#[cfg(unix)]
pub(crate) fn x(bench: &hw_sim::serve::Running) -> f64 {
    bench.with_bench(|b| b.carriage_mm("scope", "x"))
}

/// Homes the stage, as soon as it is there.
pub(crate) fn home(server: &mut Server) {
    let connected = Instant::now() + Duration::from_secs(30);
    let homed = loop {
        let answer = server.call("home", json!({"stage": "scope"}));
        if answer["isError"] != true || Instant::now() > connected {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_ne!(homed["isError"], true, "{homed}");
}

/// Begins a long move and leaves the stage in the middle of it.
#[cfg(unix)]
pub(crate) fn begin_move(bench: &hw_sim::serve::Running, server: &mut Server) {
    server.ask("move_to", json!({"stage": "scope", "targets": {"x": 5.0}, "unit": "mm"}));
    let (start, begun) = (x(bench), Instant::now());
    while x(bench) > start - 5.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never moved");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The axis stands, and far from the target.
#[cfg(unix)]
pub(crate) fn assert_stands(bench: &hw_sim::serve::Running) {
    let stood = x(bench);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(x(bench), stood, "still moving");
    assert!(stood > 20.0, "it went on to {stood} mm");
}

/// Sends a signal to a process.
#[cfg(unix)]
pub(crate) fn signal(signal: rustix::process::Signal, to: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(to), signal).expect("a process to signal");
}
