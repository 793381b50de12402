//! A call's way there and back: the SDK's client over pipes against the program's own process, `get_state` of the
//! demonstration's rig.
#![allow(clippy::print_stdout)]

use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::serve_client;
use tokio::process::Command;

const WARM: usize = 200;
const CALLS: usize = 5000;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut child = Command::new(env!("CARGO_BIN_EXE_steadyhand"))
            .arg("demo")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        let pipes = (child.stdout.take().expect("its output"), child.stdin.take().expect("its input"));
        let client = serve_client((), pipes).await.expect("a client");
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut times = Vec::with_capacity(CALLS);
        for i in 0..WARM + CALLS {
            let begun = Instant::now();
            let answer = client.call_tool(CallToolRequestParams::new("get_state")).await.expect("an answer");
            assert_ne!(answer.is_error, Some(true));
            if i >= WARM {
                times.push(begun.elapsed());
            }
        }
        times.sort();
        let at = |p: f64| times[((CALLS - 1) as f64 * p) as usize];
        println!("{CALLS} calls of get_state: p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
        client.cancel().await.expect("an end");
        child.wait().await.expect("its end");
    });
}
