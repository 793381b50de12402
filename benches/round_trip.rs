//! A call's way there and back: the SDK's client against the program's own process, over pipes and over HTTP, of the
//! demonstration's rig `get_state` and `read_sensor`: the whole state, and one number. Beside the times stands what the
//! server spent on a call.
//!
//! `cargo bench --bench round_trip [-- [--program PATH] [--peer COMMAND|URL] [--tool NAME] [--args JSON]]`: another
//! build of the program in place of the one that was built with the benchmark, and another server, which is asked after
//! ours over pipes (a command) or over HTTP (a URL), so that two are compared in one run through one client. First comes
//! what the client and the pipes take by themselves: a server that does nothing and answers at once. Where that is much
//! more than 20 us, the machine takes that long to wake another core: the same on one core (`taskset -c 1 …`) leaves it
//! out, for both sides.
#![allow(clippy::print_stdout)]

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{RunningService, serve_client};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

const WARM: usize = 200;
const CALLS: usize = 5000;

type Client = RunningService<RoleClient, ()>;

fn main() {
    // Cargo itself adds `--bench`.
    let mut given = std::env::args().skip(1).filter(|a| a != "--bench");
    let mut program = env!("CARGO_BIN_EXE_steadyhand").to_owned();
    let (mut peers, mut tool) = (Vec::new(), "get_state".to_owned());
    let mut arguments = JsonObject::new();
    while let Some(option) = given.next() {
        let value = given.next().unwrap_or_else(|| panic!("{option} needs a value"));
        match option.as_str() {
            "--program" => program = value,
            "--peer" => peers.push(value),
            "--tool" => tool = value,
            "--args" => arguments = serde_json::from_str(&value).expect("a JSON object"),
            "--idle" => return idle(&value),
            _ => panic!("{option} is no option: --program PATH, --peer COMMAND|URL, --tool NAME, --args JSON"),
        }
    }
    // A client that waits for each answer has one thread: a second would only be woken in vain.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut ours = Command::new(&program);
        ours.arg("demo");
        let mut nothing = Command::new(std::env::current_exe().expect("a path"));
        nothing.args(["--idle", "an answer"]);
        over_pipes("pipes to a server that does nothing", nothing, &[CallToolRequestParams::new("nothing")]).await;
        let own = own_calls();
        let asked = CallToolRequestParams::new(tool).with_arguments(arguments);
        let pipes = over_pipes("pipes", ours, &own).await;
        let http = over_http(&program).await;
        for peer in peers {
            let (its, of_ours) = if peer.starts_with("http") {
                let client =
                    serve_client((), StreamableHttpClientTransport::from_uri(peer.as_str())).await.expect("a client");
                let its = measure(&peer, &client, &asked, None).await;
                client.cancel().await.expect("an end");
                (its, &http)
            } else {
                let mut words = peer.split_whitespace();
                let mut command = Command::new(words.next().expect("a command"));
                command.args(words);
                (over_pipes(&peer, command, std::slice::from_ref(&asked)).await[0], &pipes)
            };
            for (call, p50) in own.iter().zip(of_ours) {
                println!("{peer}: {:.1} times our p50 of {}", its.as_secs_f64() / p50.as_secs_f64(), call.name);
            }
        }
    });
}

/// What is asked of our program: all that a state report has, and one number.
fn own_calls() -> [CallToolRequestParams; 2] {
    let sensor = json!({ "sensor": "temperature" }).as_object().expect("an object").clone();
    [CallToolRequestParams::new("get_state"), CallToolRequestParams::new("read_sensor").with_arguments(sensor)]
}

/// A server that only says `words`, until its input ends.
fn idle(words: &str) {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lines() {
        let message: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "idle", "version": "1" },
            }),
            Some("tools/call") => json!({ "content": [{ "type": "text", "text": words }] }),
            _ => continue,
        };
        writeln!(output, "{}", json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).expect("a client");
    }
}

/// The medians of a server's answers over its own pipes, call by call.
async fn over_pipes(way: &str, mut command: Command, calls: &[CallToolRequestParams]) -> Vec<Duration> {
    let command = command.kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program");
    let pipes = (child.stdout.take().expect("its output"), child.stdin.take().expect("its input"));
    let client = serve_client((), pipes).await.expect("a client");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let medians = measure_all(way, &client, calls, child.id()).await;
    client.cancel().await.expect("an end");
    if tokio::time::timeout(Duration::from_secs(10), child.wait()).await.is_err() {
        child.kill().await.expect("its end");
    }
    medians
}

async fn over_http(program: &str) -> Vec<Duration> {
    let mut child = Command::new(program)
        .args(["demo", "--http", "--port", "0"])
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let url = url_of(&mut child).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let client = serve_client((), StreamableHttpClientTransport::from_uri(url.as_str())).await.expect("a client");
    let medians = measure_all("HTTP", &client, &own_calls(), child.id()).await;
    client.cancel().await.expect("an end");
    child.kill().await.expect("its end");
    medians
}

async fn measure_all(
    way: &str,
    client: &Client,
    calls: &[CallToolRequestParams],
    server: Option<u32>,
) -> Vec<Duration> {
    let mut medians = Vec::with_capacity(calls.len());
    for call in calls {
        medians.push(measure(way, client, call, server).await);
    }
    medians
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

/// The median; the rest is printed.
async fn measure(way: &str, client: &Client, call: &CallToolRequestParams, server: Option<u32>) -> Duration {
    let mut times = Vec::with_capacity(CALLS);
    let mut before = None;
    for i in 0..WARM + CALLS {
        if i == WARM {
            before = server.and_then(cpu_ms);
        }
        let begun = Instant::now();
        let answer = client.call_tool(call.clone()).await.expect("an answer");
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
    println!(
        "{CALLS} calls of {} over {way}: p50 {:?}, p99 {:?}, max {:?}{spent}",
        call.name,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    at(0.5)
}

/// What a process has spent so far, where the system tells it in hundredths of a second.
fn cpu_ms(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold anything, utime and stime are the 12th and 13th.
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    Some(ticks.iter().sum::<f64>() * 10.0)
}
