//! A call's way there and back: the SDK's client against the program's own process, over pipes and over HTTP,
//! `get_state` of the demonstration's rig. Beside the times stands what the server spent on a call.
//!
//! `cargo bench --bench round_trip [-- URL]`: with a URL, another server's, which is asked `get_state` or the tool that
//! is named after it, so that two can be compared in one run.
#![allow(clippy::print_stdout)]

use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, serve_client};
use rmcp::transport::StreamableHttpClientTransport;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const WARM: usize = 200;
const CALLS: usize = 5000;

type Client = RunningService<RoleClient, ()>;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // Cargo itself adds `--bench`.
    let mut given = std::env::args().skip(1).filter(|a| a != "--bench");
    let other = given.next().map(|url| (url, given.next().unwrap_or_else(|| "get_state".into())));
    runtime.block_on(async {
        over_pipes().await;
        over_http().await;
        if let Some((url, tool)) = other {
            let client =
                serve_client((), StreamableHttpClientTransport::from_uri(url.as_str())).await.expect("a client");
            measure(&url, &client, tool, None).await;
            client.cancel().await.expect("an end");
        }
    });
}

async fn over_pipes() {
    let mut child = program(&["demo"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let child = child.as_mut().expect("the program");
    let pipes = (child.stdout.take().expect("its output"), child.stdin.take().expect("its input"));
    let client = serve_client((), pipes).await.expect("a client");
    tokio::time::sleep(Duration::from_secs(3)).await;
    measure("pipes", &client, "get_state".into(), child.id()).await;
    client.cancel().await.expect("an end");
    child.wait().await.expect("its end");
}

async fn over_http() {
    let mut child = program(&["demo", "--http", "--port", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let url = url_of(&mut child).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let client = serve_client((), StreamableHttpClientTransport::from_uri(url.as_str())).await.expect("a client");
    measure("HTTP", &client, "get_state".into(), child.id()).await;
    client.cancel().await.expect("an end");
    child.kill().await.expect("its end");
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadyhand"));
    command.args(arguments).kill_on_drop(true);
    command
}

/// Where the program says that it serves, while what else it says is read away.
async fn url_of(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let url = loop {
        let line = lines.next_line().await.expect("text").expect("it serves");
        if let Some((_, rest)) = line.split_once("serves MCP at ") {
            break rest.split(',').next().expect("a URL").to_owned();
        }
    };
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    url
}

async fn measure(way: &str, client: &Client, tool: String, server: Option<u32>) {
    let mut times = Vec::with_capacity(CALLS);
    let mut before = None;
    for i in 0..WARM + CALLS {
        if i == WARM {
            before = server.and_then(cpu_ms);
        }
        let begun = Instant::now();
        let answer = client.call_tool(CallToolRequestParams::new(tool.clone())).await.expect("an answer");
        assert_ne!(answer.is_error, Some(true), "{answer:?}");
        if i >= WARM {
            times.push(begun.elapsed());
        }
    }
    let spent = server.and_then(cpu_ms).zip(before).map_or_else(String::new, |(after, before)| {
        format!(
            ", {:.3} ms of the server's CPU a call, its rig thread and bench included",
            (after - before) / CALLS as f64
        )
    });
    times.sort();
    let at = |p: f64| times[((CALLS - 1) as f64 * p) as usize];
    println!("{CALLS} calls of {tool} over {way}: p50 {:?}, p99 {:?}, max {:?}{spent}", at(0.5), at(0.99), at(1.0));
}

/// What a process has spent so far, where the system tells it in hundredths of a second.
fn cpu_ms(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything, utime and stime are the 12th and 13th.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    Some(ticks.iter().sum::<f64>() * 10.0)
}
