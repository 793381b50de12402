//! The real-time shell: paths open, bytes flow, cables can be pulled, and everything ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hw_sim::serve::{Options, Running};
use hw_sim::{Bench, Fault};
use serde_json::Value;

fn start(options: Options) -> Running {
    let toml = hw_sim::MICROSCOPE_TOML.replace("boot_ms = 1500", "boot_ms = 50");
    Running::start(Bench::from_toml(&toml).expect("the bench"), options).expect("it starts")
}

fn path(running: &Running, device: &str) -> String {
    running.paths().into_iter().find(|(d, _)| d == device).map(|(_, p)| p).expect("a path")
}

fn camera(running: &Running) -> BufReader<TcpStream> {
    let path = path(running, "cam");
    let stream = TcpStream::connect(path.trim_start_matches("tcp://")).expect("the camera");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    BufReader::new(stream)
}

#[test]
fn the_camera_answers_over_tcp() {
    let running = start(Options::default());
    let mut cam = camera(&running);
    cam.get_mut().write_all(b"SNAP 5\n").expect("written");
    let mut line = String::new();
    cam.read_line(&mut line).expect("a reply");
    assert_eq!(line, "OK SNAP 5\n");
    line.clear();
    cam.read_line(&mut line).expect("a frame");
    assert!(line.starts_with("FRAME 5 len=1572864 "), "{line}");
    let mut pixels = vec![0; 1_572_864];
    cam.read_exact(&mut pixels).expect("all pixels");
    assert!(line.trim_end().ends_with(&format!("crc32={:08x}", crc32fast::hash(&pixels))));
    running.stop();
}

#[test]
fn a_person_tells_a_bench_what_goes_wrong() {
    let running = start(Options::default());
    let control = running.control_addr();
    let tell = |words: &[&str]| {
        let command =
            std::process::Command::new(env!("CARGO_BIN_EXE_hw-sim")).arg("tell").arg(&control).args(words).output();
        let output = command.expect("the program");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let before = running.with_bench(|b| b.carriage_mm("scope", "x"));
    let (ok, said, complaint) = tell(&["fault", "scope", "nudge", "axis=x", "mm=-2.5"]);
    assert!(ok && said.trim() == r#"{"ok":true}"#, "{said}{complaint}");
    assert!((running.with_bench(|b| b.carriage_mm("scope", "x")) - before + 2.5).abs() < 1e-9);
    let (ok, said, _) = tell(&["positions"]);
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert!(ok && said["scope"]["x"].as_f64() == Some(running.with_bench(|b| b.carriage_mm("scope", "x"))));
    for (words, why) in [
        (&["fault", "scope", "jm"][..], "unknown variant"),
        (&["fault", "scope", "jam"], "missing field `axis`"),
        (&["fault", "scope", "jam", "axis=q"], "q"),
        (&["fault", "moon", "reset"], "moon"),
        (&["fault", "scope", "jam", "axis=x", "axis=y"], "axis is given twice"),
    ] {
        let (ok, said, complaint) = tell(words);
        assert!(!ok && said.is_empty() && complaint.contains(why), "{words:?}: {said}{complaint}");
    }
    running.stop();
}

#[test]
fn an_unplugged_camera_hangs_up_and_comes_back() {
    let running = start(Options::default());
    let mut cam = camera(&running);
    running.with_bench(|b| b.fault("cam", Fault::Unplug)).expect("possible");
    let mut rest = Vec::new();
    // An end or an error, either is a line that is gone.
    let _ = cam.read_to_end(&mut rest);
    running.with_bench(|b| b.fault("cam", Fault::Plug)).expect("possible");
    // A host tries until somebody answers; the first connection may still fall to the pulled cable.
    let begun = Instant::now();
    let answered = || -> std::io::Result<bool> {
        let mut cam = camera(&running);
        cam.get_mut().write_all(b"ID?\n")?;
        let mut line = String::new();
        cam.read_line(&mut line)?;
        Ok(line.starts_with("OK simcam"))
    };
    while !answered().unwrap_or(false) {
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody answers");
    }
}

#[test]
fn a_chain_answers_over_tcp() {
    let toml =
        hw_sim::ZABER_TOML.replace("port = \"serial\"", "port = \"tcp\"").replace("boot_ms = 500", "boot_ms = 1");
    let running = Running::start(Bench::from_toml(&toml).expect("the bench"), Options::default()).expect("it starts");
    let path = path(&running, "chain");
    let mut chain = BufReader::new(TcpStream::connect(path.trim_start_matches("tcp://")).expect("the chain"));
    chain.get_ref().set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    // The chain is deaf while it boots.
    while running.with_bench(|b| b.state("chain") == "boot") {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    chain.get_mut().write_all(b"/get deviceid\n").expect("written");
    for expected in ["@01 0 OK IDLE WR 50081\r\n", "@02 0 OK IDLE WR 30222\r\n"] {
        let mut line = String::new();
        chain.read_line(&mut line).expect("a reply");
        assert_eq!(line, expected);
    }
}

#[test]
fn the_control_socket_answers_in_json() {
    let running = start(Options::default());
    let stream = TcpStream::connect(running.control_addr()).expect("the control socket");
    let mut control = BufReader::new(stream);
    let mut ask = |request: &str| -> Value {
        control.get_mut().write_all(format!("{request}\n").as_bytes()).expect("written");
        let mut line = String::new();
        control.read_line(&mut line).expect("a reply");
        serde_json::from_str(&line).expect("JSON")
    };
    assert_eq!(ask(r#"{"cmd":"positions"}"#)["scope"]["y"], 27.0);
    assert!(ask("{}")["error"].is_string());
}

#[test]
fn it_ends_at_once_even_with_hosts() {
    let running = start(Options::default());
    let _cam = camera(&running);
    let _control = TcpStream::connect(running.control_addr()).expect("the control socket");
    let started = Instant::now();
    running.stop();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::path::PathBuf;

    fn open(path: &str) -> File {
        OpenOptions::new().read(true).write(true).open(path).expect("the terminal opens")
    }

    /// Reads lines until one starts so.
    fn wait_for(lines: &mut impl BufRead, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).expect("a line") > 0, "the terminal ended");
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("hw-sim-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        dir
    }

    #[test]
    fn the_stage_answers_on_its_terminal() {
        let running = start(Options::default());
        let mut terminal = open(&path(&running, "scope"));
        let mut lines = BufReader::new(terminal.try_clone().expect("a second handle"));
        // Whether the banner was heard depends on who was first.
        std::thread::park_timeout(Duration::from_millis(200));
        terminal.write_all(b"$I\n").expect("written");
        assert!(wait_for(&mut lines, "[VER:").contains("1.1h"));
        terminal.write_all(b"?").expect("written");
        wait_for(&mut lines, "<Alarm|MPos:0.000,0.000,0.000|");
    }

    #[test]
    fn a_replug_brings_a_new_terminal_and_keeps_the_link() {
        let dir = folder("replug");
        let running = start(Options { link_dir: Some(dir.clone()), ..Options::default() });
        let link = dir.join("scope");
        let mut terminal = open(link.to_str().expect("a path"));
        running.with_bench(|b| b.fault("scope", Fault::Unplug)).expect("possible");
        let mut rest = Vec::new();
        let _ = terminal.read_to_end(&mut rest);
        assert!(!running.with_bench(|b| b.plugged("scope")));
        running.with_bench(|b| b.fault("scope", Fault::Plug)).expect("possible");
        let started = Instant::now();
        let mut terminal = loop {
            let again = OpenOptions::new().read(true).write(true).open(&link);
            match again {
                Ok(file) => break file,
                Err(e) => assert!(started.elapsed() < Duration::from_secs(5), "{e}"),
            }
            std::thread::park_timeout(Duration::from_millis(10));
        };
        let mut lines = BufReader::new(terminal.try_clone().expect("a second handle"));
        std::thread::park_timeout(Duration::from_millis(200));
        terminal.write_all(b"$I\n").expect("written");
        wait_for(&mut lines, "[VER:");
        running.stop();
        assert!(!link.exists());
        std::fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn control_may_be_a_unix_socket() {
        let dir = folder("control");
        let socket = dir.join("control");
        let running = start(Options { control_path: Some(socket.clone()), ..Options::default() });
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).expect("the control socket");
        stream.write_all(b"{\"cmd\":\"state\"}\n").expect("written");
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a reply");
        assert!(line.contains("\"cam\":\"idle\""), "{line}");
        running.stop();
        assert!(!socket.exists());
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
