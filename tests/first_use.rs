//! A stage on the desk in five minutes: the commands as a newcomer runs them, on a simulated controller behind a real
//! pseudo-terminal.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "other processes move in real time here")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hw_sim::Bench;
use hw_sim::serve::{Options, Running};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A controller on a pseudo-terminal, and a home of its own for who uses it.
struct Desk {
    bench: Option<Running>,
    port: String,
    home: tempfile::TempDir,
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(bench) = self.bench.take() {
            bench.stop();
        }
    }
}

impl Desk {
    fn new() -> Desk {
        Desk::with(Bench::microscope(1))
    }

    fn with(bench: Bench) -> Desk {
        Desk::at(bench, "scope")
    }

    /// At the port of one device of a bench.
    fn at(bench: Bench, device: &str) -> Desk {
        let bench = Running::start(bench, Options::default()).expect("a bench");
        let port = bench.paths().into_iter().find(|(name, _)| name == device).expect("a port").1;
        Desk { bench: Some(bench), port, home: tempfile::tempdir().expect("a folder") }
    }

    fn folder(&self) -> &Path {
        self.home.path()
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder()).env("HOME", self.folder()).env_remove("RUST_LOG");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME").env_remove("CODEX_HOME");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_steadyhand"), args);
        command.stdin(Stdio::null()).output().expect("the program runs")
    }

    /// Standard output of a command that must end well.
    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{args:?}: {}\n{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn init(&self, more: &[&str]) -> String {
        let z = "z,unit=um,speed=1000,tolerance=5,holds-unpowered=true,toward-sample=-";
        let mut args = vec!["init", "--port", &self.port, "--yes", "--name", "desk", "--axis", z];
        args.extend(["--axis", "x,holds-unpowered=true", "--axis", "y,holds-unpowered=true"]);
        args.extend(more);
        self.good(&args)
    }
}

/// A client of a server that was started by its entry.
struct Client {
    child: std::process::Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    asked: u64,
}

impl Client {
    fn start(mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the server starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut client = Client { child, lines, asked: 0 };
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        client.ask("initialize", hello);
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{message}").expect("said");
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }));
        loop {
            let line = self.lines.next().expect("an answer").expect("text");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == self.asked {
                return message["result"].clone();
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("ended").success());
    }
}

#[test]
fn from_a_port_to_a_client_that_moves_the_stage() {
    let desk = Desk::new();
    let told = desk.init(&[]);
    assert!(told.contains("Wrote rig.toml") && told.contains("steadyhand doctor --rig rig.toml"), "{told}");
    let checked = desk.good(&["check", "rig.toml"]);
    // The bench says 75, 50 and 4 mm, homed at the upper ends with a pull-off.
    assert!(checked.contains("the rig \"desk\" is fine") && checked.contains("x 0 to 74."), "{checked}");

    let seen: Value = serde_json::from_str(&desk.good(&["doctor", "--json", "--examples"])).expect("JSON");
    assert_eq!(seen["well"], true, "{seen:#}");
    let findings = seen["findings"].as_array().expect("findings");
    let about = |what: &str| findings.iter().any(|f| f["about"].as_str().is_some_and(|a| a.starts_with(what)));
    assert!(about("stage") && about("tools") && about("check_move") && about("get_state"), "{seen:#}");
    let card = desk.good(&["doctor", "--card"]);
    assert!(card.contains("| stage.x: travel |") && card.contains("| probed |"), "{card}");
    assert!(card.contains("not exercised") && card.contains("Signature"), "{card}");

    let shown = desk.good(&["connect", "claude-code", "--print"]);
    assert!(shown.contains("\"mcpServers\"") && !desk.folder().join(".mcp.json").exists(), "{shown}");
    desk.good(&["connect", "claude-code"]);
    let entry = fs::read_to_string(desk.folder().join(".mcp.json")).expect("written");
    let entry: Value = serde_json::from_str(&entry).expect("JSON");
    let server = &entry["mcpServers"]["steadyhand"];
    let args: Vec<&str> = server["args"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect();
    let mut start = desk.command(server["command"].as_str().expect("a command"), &args);
    start.current_dir("/");
    let mut client = Client::start(start);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let homed = client.call("home", json!({ "stage": "stage", "wait_s": 60 }));
        if homed["isError"] != json!(true) {
            break;
        }
        assert!(Instant::now() < deadline, "{homed:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let moved = client.call("move_to", json!({ "stage": "stage", "targets": { "x": 60 }, "unit": "mm", "wait_s": 60 }));
    assert_eq!(moved["structuredContent"]["status"], "ok", "{moved:#}");
    assert_eq!(moved["structuredContent"]["moved"], "yes", "{moved:#}");

    // Who has the port is told, with what to do.
    let busy = desk.run(&["doctor"]);
    let told = String::from_utf8_lossy(&busy.stdout).into_owned();
    assert!(!busy.status.success() && told.contains("process ") && told.contains("steadyhand call diagnose"), "{told}");
    let busy = desk.run(&["init", "--port", &desk.port, "--yes", "--axis", "x"]);
    let told = String::from_utf8_lossy(&busy.stderr).into_owned();
    assert!(!busy.status.success() && told.contains("The rig belongs to process"), "{told}");
    client.end();
}

/// A client that is started as `connect` writes it, and a call that is made again until the rig is known.
fn served(desk: &Desk, first: &str, arguments: &Value) -> Client {
    let mut client = Client::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &["serve", "--rig", "rig.toml"]));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = client.call(first, arguments.clone());
        if answer["isError"] != json!(true) {
            return client;
        }
        assert!(Instant::now() < deadline, "{answer:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_chain_of_zaber_devices_is_found_checked_and_moved() {
    let desk = Desk::at(Bench::from_toml(hw_sim::ZABER_TOML).expect("a bench"), "chain");
    // What another kind is asked first does it no harm: no driver is named here.
    let focus = "z,channel=1,unit=um,counts-per-unit=5.249344,holds-unpowered=true";
    let init = ["init", "--port", &desk.port, "--yes", "--name", "desk"];
    let told = desk.good(&[init.as_slice(), &["--stage", "focus", "--axis", focus]].concat());
    assert!(told.contains("Wrote rig.toml"), "{told}");
    let sample =
        ["x,channel=2.1,counts-per-unit=2015.748,holds-unpowered=true", "y,channel=2.2,counts-per-unit=2015.748"];
    let more = ["--driver", "zaber", "--stage", "sample", "--axis", sample[0], "--axis", sample[1]];
    desk.good(&[init.as_slice(), &more].concat());

    let text = fs::read_to_string(desk.folder().join("rig.toml")).expect("written");
    assert_eq!(text.matches("[[link]]").count(), 1, "both stages share the port: {text}");
    assert_eq!(text.matches("[[stage]]").count(), 2, "{text}");
    assert!(text.contains("counts_per_unit = 5.249344  #") && text.contains("holds_unpowered = false"), "{text}");
    let checked = desk.good(&["check", "rig.toml"]);
    assert!(checked.contains("the rig \"desk\" is fine") && checked.contains("x 0 to 50.8"), "{checked}");
    let seen: Value = serde_json::from_str(&desk.good(&["doctor", "--json"])).expect("JSON");
    assert_eq!(seen["well"], true, "{seen:#}");

    let mut client = served(&desk, "home", &json!({ "stage": "sample", "wait_s": 60 }));
    let moved = client.call("move_to", json!({ "stage": "sample", "targets": { "x": 2 }, "unit": "mm", "wait_s": 60 }));
    assert_eq!(moved["structuredContent"]["status"], "ok", "{moved:#}");
    assert_eq!(moved["structuredContent"]["moved"], "yes", "{moved:#}");
    client.end();
}

#[test]
fn an_asi_controller_is_found_checked_and_moved() {
    let desk = Desk::at(Bench::from_toml(hw_sim::ASI_TOML).expect("a bench"), "scope");
    let axis = |letter| format!("{letter},speed=5,holds-unpowered=true");
    let told = desk.good(&[
        "init",
        "--port",
        &desk.port,
        "--yes",
        "--name",
        "desk",
        "--axis",
        &axis("x"),
        "--axis",
        &axis("y"),
    ]);
    assert!(told.contains("Wrote rig.toml"), "{told}");
    let text = fs::read_to_string(desk.folder().join("rig.toml")).expect("written");
    for part in
        ["driver = \"asi\"", "home = \"never\"", "trust = \"assumed\"", "channel = \"Y\"", "travel = [0.0, 50.0]"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    desk.good(&["check", "rig.toml"]);
    let seen: Value = serde_json::from_str(&desk.good(&["doctor", "--json"])).expect("JSON");
    assert_eq!(seen["well"], true, "{seen:#}");

    let mut client = served(&desk, "get_state", &json!({}));
    let deadline = Instant::now() + Duration::from_secs(20);
    for axis in ["stage.x", "stage.y"] {
        // Until it is identified it can't be told where it stands.
        while !desk.run(&["reference", axis, "25"]).status.success() {
            assert!(Instant::now() < deadline, "{axis}");
        }
    }
    let moved = client.call("move_to", json!({ "stage": "stage", "targets": { "x": 26 }, "unit": "mm", "wait_s": 60 }));
    assert_eq!(moved["structuredContent"]["status"], "ok", "{moved:#}");
    assert_eq!(moved["structuredContent"]["moved"], "yes", "{moved:#}");
    client.end();
}

/// Each controller is asked by the probes of the other kinds, too, at its own rate: it stands where it stood.
#[test]
fn what_is_asked_of_another_kind_does_it_no_harm() {
    for (bench, device, axis, drivers) in [
        (hw_sim::MICROSCOPE_TOML, "scope", "x", ["zaber", "asi"]),
        (hw_sim::ZABER_TOML, "chain", "focus", ["grbl", "asi"]),
        (hw_sim::ASI_TOML, "scope", "x", ["grbl", "zaber"]),
    ] {
        let desk = Desk::at(Bench::from_toml(bench).expect("a bench"), device);
        let place = || desk.bench.as_ref().expect("running").with_bench(|b| b.pulses(device, axis));
        let before = place();
        for driver in drivers {
            let other = desk.run(&["init", "--port", &desk.port, "--yes", "--driver", driver, "--baud", "115200"]);
            let told = String::from_utf8_lossy(&other.stderr).into_owned();
            assert!(!other.status.success() && told.contains("nobody was recognised"), "{device}, {driver}: {told}");
        }
        assert_eq!(place(), before, "{device}");
        // And its own kind is still found.
        let found = desk.run(&["init", "--port", &desk.port, "--yes", "--axis", "none"]);
        let told = String::from_utf8_lossy(&found.stderr).into_owned();
        assert!(told.contains("Found ") && told.contains("the controller has no axis"), "{device}: {told}");
    }
}

#[test]
fn init_changes_what_is_new_and_keeps_the_rest_with_a_copy() {
    let desk = Desk::new();
    desk.init(&[]);
    let file = desk.folder().join("rig.toml");
    let first = fs::read_to_string(&file).expect("written");
    // Nothing was moved, and nobody said which way is positive.
    assert!(first.contains("# NOT TRIED: nobody has seen which way it goes"), "{first}");
    let ours = first.replace("[stage.axes.x]", "# The knob on the right.\n[stage.axes.x]");
    fs::write(&file, &ours).expect("written");
    assert!(desk.init(&[]).contains("nothing was changed"));
    assert_eq!(fs::read_to_string(&file).expect("there"), ours);

    let told = desk.init(&["--home", "x,y,z"]);
    let copy = told.lines().find_map(|l| l.strip_prefix("As it was before: ")).expect("a copy");
    assert_eq!(fs::read_to_string(desk.folder().join(copy)).expect("the copy"), ours);
    let second = fs::read_to_string(&file).expect("there");
    assert!(second.contains("# The knob on the right.") && second.contains("[\"x\", \"y\", \"z\"]"), "{second}");

    let refused = desk.run(&["init", "--port", &desk.port]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("--yes"), "{told}");
}

#[test]
fn a_name_that_another_rig_file_has_is_not_given_again() {
    let desk = Desk::new();
    let init = |more: &[&str]| {
        let known = ["init", "--port", &desk.port, "--yes", "--axis", "x,speed=5,tolerance=0.05,holds-unpowered=true"];
        desk.run(&[known.as_slice(), more].concat())
    };
    let named = |file: &str| {
        let text = fs::read_to_string(desk.folder().join(file)).expect("written");
        text.lines().find(|l| l.starts_with("name = ")).expect("a name").to_owned()
    };
    assert!(init(&[]).status.success());
    assert!(named("rig.toml").starts_with("name = \"bench\""), "{}", named("rig.toml"));
    let mut client = Client::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &["serve"]));
    assert!(client.call("whoami", json!({}))["isError"] != true);
    client.end();

    let refused = init(&["--rig", "second.toml", "--name", "bench"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("rig.toml") && told.contains("with --name"), "{told}");
    assert!(!desk.folder().join("second.toml").exists());
    assert!(init(&["--rig", "second.toml"]).status.success());
    assert!(named("second.toml").starts_with("name = \"bench-2\""), "{}", named("second.toml"));
    assert!(init(&["--rig", "rig.toml"]).status.success(), "it may keep its own");
}

#[test]
fn doctor_says_what_is_wrong_with_a_port_and_ends_with_1() {
    let desk = Desk::new();
    desk.init(&[]);
    let file = desk.folder().join("rig.toml");
    let text = fs::read_to_string(&file).expect("there");
    fs::write(&file, text.replace(&desk.port, "/dev/no-such-port")).expect("written");
    let output = desk.run(&["doctor"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("/dev/no-such-port is not there") && told.contains("do: "), "{told}");

    // Faster than the controller, and a tolerance below its step.
    let fast = text.replacen("max_speed_per_s = 1000.0", "max_speed_per_s = 1e6", 1).replacen(
        "tolerance = 5.0",
        "tolerance = 0.0001",
        1,
    );
    fs::write(&file, fast).expect("written");
    let output = desk.run(&["doctor"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("write max_speed_per_s = ") && told.contains("write tolerance = "), "{told}");
}

/// A terminal with a program in it.
struct Terminal {
    master: File,
    slave: OwnedFd,
    seen: Arc<Mutex<String>>,
    child: std::process::Child,
}

impl Terminal {
    fn start(mut command: Command) -> Terminal {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = rustix::termios::Winsize { ws_row: 50, ws_col: 300, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).expect("its size");
        let path = ptsname(&master, Vec::new()).expect("its name").into_string().expect("text");
        let open = || File::options().read(true).write(true).open(&path).expect("its other end");
        command.stdin(open()).stdout(open()).stderr(open());
        let slave = open().into();
        let child = command.spawn().expect("the program starts");
        let master = File::from(master);
        let seen = Arc::new(Mutex::new(String::new()));
        std::thread::spawn({
            let (seen, mut master) = (seen.clone(), master.try_clone().expect("a second handle"));
            move || {
                let mut buffer = [0; 4096];
                while let Ok(n @ 1..) = master.read(&mut buffer) {
                    seen.lock().push_str(&String::from_utf8_lossy(&buffer[..n]));
                }
            }
        });
        Terminal { master, slave, seen, child }
    }

    /// Types, and waits until the program shows something that it hadn't shown before.
    #[track_caller]
    fn type_until(&mut self, keys: &str, shows: &str) {
        self.seen.lock().clear();
        self.master.write_all(keys.as_bytes()).expect("typed");
        self.until(shows);
    }

    /// Waits until the program has shown this since the last key.
    #[track_caller]
    fn until(&mut self, shows: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.seen.lock().contains(shows) {
            assert!(Instant::now() < deadline, "no {shows:?} in {:?}", self.seen.lock());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the terminal shows what is typed and hands it over by the line, as shells have it.
    fn is_cooked(&self) -> bool {
        use rustix::termios::{LocalModes, tcgetattr};
        tcgetattr(&self.slave).expect("attributes").local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn ends(&mut self) -> std::process::ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(Instant::now() < deadline, "it doesn't end: {:?}", self.seen.lock());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_person_jogs_the_stage_and_gets_the_terminal_back() {
    let desk = Desk::new();
    desk.init(&[]);
    // Homing that a person approves is approved by who presses the key.
    let file = desk.folder().join("rig.toml");
    let rig = fs::read_to_string(&file).expect("written");
    let asking = rig.replacen("home = { ", "home = { ask = \"operator\", ", 1);
    assert_ne!(asking, rig);
    fs::write(&file, asking).expect("written");
    let refused = desk.run(&["jog"]);
    assert!(!refused.status.success(), "without a terminal it refuses");

    let jog = || Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &["jog"]));
    let mut terminal = jog();
    terminal.until("stage: idle");
    assert!(!terminal.is_cooked());
    // A move before homing is refused in words.
    terminal.type_until("x", "a move needs it referenced");
    terminal.type_until("h", "press h again");
    terminal.type_until("h", "stage: homing");
    // While it homes there are three dots behind, and keys are not taken.
    terminal.until("stage: idle\r\n");
    // x stands at 74 mm, 1 mm off its switch; the first step is 0.1 mm.
    terminal.type_until("X", "73.9000 mm");
    terminal.type_until("q", "");
    assert!(terminal.ends().success(), "{:?}", terminal.seen.lock());
    assert!(terminal.is_cooked(), "the terminal is as it was");

    let mut terminal = jog();
    terminal.until("stage: idle");
    let pid = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("told to end");
    terminal.ends();
    assert!(terminal.is_cooked(), "also when it is told to end");
}

#[test]
fn a_person_finds_ends_and_direction_by_hand() {
    let desk = Desk::new();
    let args = ["init", "--port", &desk.port, "--rig", "by-hand.toml"];
    let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
    let line = |text: &str| format!("{text}\n");
    terminal.until("The rig's name");
    terminal.type_until(&line(""), "Which axes");
    terminal.type_until(&line("x"), "Move them");
    terminal.type_until(&line("yes"), "Home first?");
    terminal.type_until(&line("no"), "its unit");
    terminal.type_until(&line(""), "move it to see");
    terminal.type_until(&line("yes"), "by how much");
    // It is locked until somebody says so. It goes down, and that shall be positive.
    terminal.type_until(&line("-2"), "Release it, and try again");
    terminal.type_until(&line("yes"), "Which way did it go");
    terminal.type_until(&line("+"), "How far by the ruler");
    terminal.type_until(&line("4"), "Go on all the same");
    terminal.type_until(&line("yes"), "how fast");
    for next in ["how near", "without power", "sample and optics", "In which order", "When a client goes"] {
        terminal.type_until(&line(""), next);
    }
    terminal.type_until(&line(""), "Write by-hand.toml");
    assert!(terminal.seen.lock().contains("sign = -1"), "{}", terminal.seen.lock());
    terminal.type_until(&line("yes"), "Wrote by-hand.toml");
    assert!(terminal.ends().success());
    let text = fs::read_to_string(desk.folder().join("by-hand.toml")).expect("written");
    assert!(text.contains("sign = -1") && text.contains("travel = [0.5, 75.0]"), "{text}");
    desk.good(&["check", "by-hand.toml"]);
}

#[test]
fn a_person_teaches_the_ends_of_a_stage_that_has_no_switches() {
    let file = hw_sim::MICROSCOPE_TOML.replace("\"$22\" = 1", "\"$22\" = 0").replace("\"$20\" = 1", "\"$20\" = 0");
    let desk = Desk::with(Bench::from_toml(&file).expect("a bench"));
    let args = ["init", "--port", &desk.port, "--axis", "x,unit=mm,sign=1,speed=5,tolerance=0.05,holds-unpowered=yes"];
    let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
    terminal.until("The rig's name");
    terminal.type_until("taught\n", "Move them");
    terminal.type_until("yes\n", "x at 0 mm, to one end");
    terminal.type_until("-20\n", "one step is at most 10");
    terminal.type_until("-5\n", "x at -5 mm, to one end");
    terminal.type_until("\n", "to the other end");
    terminal.type_until("step 4\n", "step 4 mm:");
    terminal.type_until("+\n", "x at -1 mm, to the other end");
    terminal.type_until("+\n", "x at 3 mm, to the other end");
    for next in ["sample and optics", "In which order"] {
        terminal.type_until("\n", next);
    }
    assert!(terminal.seen.lock().contains("[never]"), "{}", terminal.seen.lock());
    for next in ["When a client goes", "Write rig.toml", "Wrote rig.toml"] {
        terminal.type_until("\n", next);
    }
    assert!(terminal.ends().success());
    let text = fs::read_to_string(desk.folder().join("rig.toml")).expect("written");
    for part in ["home = \"never\"", "trust = \"assumed\"", "origin = 5.0", "travel = [0.0, 8.0]  # found by hand"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    desk.good(&["check"]);
    let log = desk.folder().join(".local/share/steadyhand/taught/audit");
    assert!(fs::read_dir(log).expect("the steps are in an audit log").count() > 0);
}

#[test]
fn init_that_is_ended_while_axes_move_stops_them_first() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 1), (Signal::HUP, 1)] {
        let desk = Desk::new();
        let args = ["init", "--port", &desk.port, "--name", "desk", "--axis", "x"];
        let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
        terminal.until("Move them");
        terminal.type_until("yes\n", "Home first?");
        terminal.type_until("yes\n", "Ctrl-C stops");
        let moves = || {
            let bench = desk.bench.as_ref().expect("it runs");
            bench.with_bench(|b| ["X", "Y", "Z"].iter().any(|axis| b.speed_mm_per_s("scope", axis) != 0.0))
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while !moves() {
            assert!(Instant::now() < deadline, "it doesn't home: {:?}", terminal.seen.lock());
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = rustix::process::Pid::from_child(&terminal.child);
        rustix::process::kill_process(pid, signal).expect("told to end");
        assert_eq!(terminal.ends().code(), Some(code), "{:?}", terminal.seen.lock());
        let seen = terminal.seen.lock().clone();
        assert!(seen.contains("stopping") && seen.contains("All axes stand"), "{seen}");
        assert!(!moves(), "by its true speed");
    }
}

/// A bench whose controller stops on its switches ($21=1), so that a step onto one is an alarm.
fn with_hard_limits() -> Desk {
    let file = hw_sim::MICROSCOPE_TOML.replace("\"$21\" = 0", "\"$21\" = 1");
    assert_ne!(file, hw_sim::MICROSCOPE_TOML);
    Desk::with(Bench::from_toml(&file).expect("a bench"))
}

#[test]
fn who_only_presses_enter_gets_a_rig_file_and_meets_no_switch() {
    let desk = with_hard_limits();
    let args = ["init", "--port", &desk.port];
    let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
    terminal.until("The rig's name");
    terminal.type_until("\n", "Which axes");
    terminal.type_until("x\n", "Move them");
    for next in ["Home first?", "its unit", "move it to see", "by how much"] {
        terminal.type_until("\n", next);
    }
    assert!(terminal.seen.lock().contains("[-0.5]"), "{}", terminal.seen.lock());
    // Onto the switch: it is asked again, and the answers so far are kept.
    terminal.type_until("2\n", "Release it, and try again");
    terminal.type_until("\n", "by how much");
    terminal.type_until("\n", "Which way did it go");
    // What only a person can see is not proposed.
    terminal.type_until("\n", "There is no proposal");
    terminal.type_until("-\n", "by the ruler");
    for next in ["how fast", "how near", "without power", "sample and optics", "In which order"] {
        terminal.type_until("\n", next);
    }
    for next in ["When a client goes", "Write rig.toml", "Wrote rig.toml"] {
        terminal.type_until("\n", next);
    }
    assert!(terminal.ends().success());
}

#[test]
fn init_moves_nothing_while_a_persons_stop_stands() {
    let desk = Desk::new();
    desk.init(&[]);
    let data = desk.folder().join(".local/share/steadyhand/desk");
    fs::create_dir_all(&data).expect("the data folder");
    let stop = steadyhand::store::PersonStop::open(&data).expect("the record");
    stop.keep(None);
    assert!(stop.flush(Duration::from_secs(5)));
    // Under another name, too: the file says whose rig it is.
    let args = ["init", "--port", &desk.port, "--name", "other", "--axis", "x"];
    let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
    terminal.until("Move them");
    terminal.type_until("yes\n", "its unit");
    let seen = terminal.seen.lock().clone();
    assert!(seen.contains("stopped the rig \"desk\"") && seen.contains("steadyhand resume"), "{seen}");
    terminal.type_until("\n", "count in your direction");
    let log = desk.folder().join(".local/share/steadyhand/other/audit");
    assert!(!log.exists(), "nothing was opened to be moved");
}

#[test]
fn who_gives_up_at_a_question_of_flash_gets_the_old_settings_back_or_nothing_written() {
    use rustix::process::Signal;
    let desk = Desk::new();
    let profile = "[profile]\nname = \"new\"\nsource = \"this test\"\ndriver = \"grbl\"\n[settings]\n\"$110\" = 600\n";
    fs::write(desk.folder().join("profile.toml"), profile).expect("written");
    let settings = || {
        let bench = desk.bench.as_ref().expect("it runs");
        bench.with_bench(|b| b.control(r#"{"cmd": "settings", "device": "scope"}"#))
    };
    let before = settings();
    let args = ["flash", "profile.toml", "--port", &desk.port];
    for (question, shows, says) in [
        ("Write these settings", "Ending; nothing was written", "nothing was written"),
        ("Switch it off and on", "Going back to the old settings", "OLD settings"),
    ] {
        let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
        terminal.until("Write these settings");
        if question != "Write these settings" {
            terminal.type_until("yes\n", question);
        }
        let pid = rustix::process::Pid::from_child(&terminal.child);
        rustix::process::kill_process(pid, Signal::INT).expect("told to end");
        terminal.until(shows);
        if says == "OLD settings" {
            // The way back is proved, too, if the person will: that is asked in its turn.
            let end = Instant::now() + Duration::from_secs(60);
            while terminal.seen.lock().matches("Will you").count() < 2 {
                assert!(Instant::now() < end, "{}", terminal.seen.lock());
                std::thread::sleep(Duration::from_millis(20));
            }
            terminal.type_until("no\n", says);
        }
        let seen = terminal.seen.clone();
        assert_eq!(terminal.ends().code(), Some(1), "{}", seen.lock());
        assert!(seen.lock().contains(says), "{}", seen.lock());
        assert_eq!(settings(), before);
        let open = desk.folder().join(".local/share/steadyhand/controllers.d/open");
        assert!(fs::read_dir(open).map_or(0, Iterator::count) == 0, "no journal is left");
    }
}

#[test]
fn a_technician_writes_a_new_stages_settings_and_goes_through_it() {
    let desk = Desk::new();
    let profile = "[profile]\nname = \"new\"\nsource = \"this test\"\ndriver = \"grbl\"\n[settings]\n\"$110\" = 600\n\
                   [axis.Z]\nholds_unpowered = true\n";
    fs::write(desk.folder().join("profile.toml"), profile).expect("written");
    // The rig file is there already, and allows more than the controller will.
    desk.init(&[]);
    let fault = |what: &str| {
        let bench = desk.bench.as_ref().expect("it runs");
        let request = format!(r#"{{"cmd": "fault", "device": "scope", {what}}}"#);
        let said = bench.with_bench(|b| b.control(&request));
        assert!(said.contains("ok"), "{said}");
    };
    let args = ["flash", "profile.toml", "--port", &desk.port, "--verify"];
    let mut terminal = Terminal::start(desk.command(env!("CARGO_BIN_EXE_steadyhand"), &args));
    terminal.until("Write these settings");
    terminal.type_until("yes\n", "Switch it off and on");
    terminal.type_until("yes\n", "restarting");
    fault(r#""fault": "reset""#);
    terminal.until("it has loaded them after a restart");
    terminal.until("max_speed_per_s = 10");
    terminal.until("rig.toml [yes]");
    terminal.type_until("yes\n", "Does x stay where it is without power");
    terminal.type_until("yes\n", "Does y stay");
    terminal.type_until("yes\n", "Press a limit switch of x");
    terminal.type_until("\n", "");
    fault(r#""fault": "limit", "axis": "x", "pressed": true"#);
    terminal.until("seen. Let go of it");
    fault(r#""fault": "limit", "axis": "x", "pressed": false"#);
    terminal.until("Press a limit switch of y");
    terminal.type_until("n\n", "Press a limit switch of z");
    terminal.type_until("n\n", "Move x by how much, in mm (q: leave it) [-0.1]");
    // It is locked until somebody says so.
    terminal.type_until("\n", "Release it, and try again");
    terminal.type_until("yes\n", "Which way did it go");
    terminal.type_until("+\n", "How far by the ruler");
    terminal.type_until("-\n", "Move y by how much");
    terminal.type_until("q\n", "Move z by how much");
    terminal.type_until("q\n", "Home now");
    terminal.type_until("yes\n", "Homed.");
    terminal.until("The report is kept in");
    assert!(terminal.ends().success(), "{:?}", terminal.seen.lock());
    let seen = terminal.seen.lock().clone();
    for line in ["x: limit switch pressed by hand and seen", "y: no limit switch", "x: a step was made", "homing: done"]
    {
        assert!(seen.contains(line), "{line}: {seen}");
    }
    let rig = fs::read_to_string(desk.folder().join("rig.toml")).expect("there");
    assert!(rig.contains("max_speed_per_s = 10"), "{rig}");
    desk.good(&["check"]);
}
