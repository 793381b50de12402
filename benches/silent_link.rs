//! `get_state` while the controller is silent: the whole program, the SDK's client over pipes, and a link that is open
//! and never answers. What is asked of the program must not wait for what it asks of the hardware.
#![allow(clippy::print_stdout)]

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::serve_client;
use tokio::process::Command;

const CALLS: usize = 5000;

fn main() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        let held: Vec<_> = silent.incoming().collect();
        drop(held);
    });
    let folder = tempfile::tempdir().expect("a folder");
    let rig = folder.path().join("rig.toml");
    let text = include_str!("../rigs/minimal.toml");
    let serial = text.lines().find(|l| l.starts_with("serial")).expect("a port");
    let baud = text.lines().find(|l| l.starts_with("baud")).expect("a rate");
    let text = text.replace(serial, &format!("tcp = \"127.0.0.1:{port}\"")).replace(baud, "");
    std::fs::write(&rig, text).expect("a rig file");

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut child = Command::new(env!("CARGO_BIN_EXE_steadyhand"))
            .args(["serve", "--log", "error", "--rig"])
            .arg(&rig)
            .arg("--data-dir")
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        let pipes = (child.stdout.take().expect("its output"), child.stdin.take().expect("its input"));
        let client = serve_client((), pipes).await.expect("a client");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut times = Vec::with_capacity(CALLS);
        let mut silent = false;
        for _ in 0..CALLS {
            let begun = Instant::now();
            let answer = client.call_tool(CallToolRequestParams::new("get_state")).await.expect("an answer");
            times.push(begun.elapsed());
            silent |= answer.structured_content.is_some_and(|c| c["ready"] == false);
        }
        assert!(silent, "the link was silent");
        times.sort();
        let at = |p: f64| times[((CALLS - 1) as f64 * p) as usize];
        println!("{CALLS} calls of get_state, link silent: p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
        client.cancel().await.expect("an end");
        child.wait().await.expect("its end");
    });
}
